"""Judge models in a run: called over HTTP with the keys of the target, and not twice for one request."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.judged import METRIC, serve_judge, verdict
from tests.llm.servers import Server, gemini, gemini_error
from tests.watch.watched import Folder
from workbench.engine.plan import RunOptions, Selection
from workbench.engine.workspace import Workspace
from workbench.model.results import CaseResult, CaseStatus
from workbench.watch.selector import Action, Reason, Why, decide_plan


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serve_judge(monkeypatch) as server:
        monkeypatch.delenv("GOOGLE_API_KEY")  # the key is in the .env file of the target
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    project = Folder(tmp_path)
    project.write("agent.py", "def answer(prompt): return prompt.upper()")
    project.write(".env", "GOOGLE_API_KEY=key-of-the-target\n")
    project.write(
        "workbench.toml",
        '[targets.sample]\nkind = "function"\ntarget = "agent:answer"\neval_sets = ["*.evalset.json"]\n'
        'env_file = ".env"\n[judge]\nmodel = "gemini-of-the-settings"\ntries = 1\n',
    )
    project.cases(good="good", bad="bad")
    project.criteria(**{METRIC: {"threshold": 1.0, "judge_model_options": {"num_samples": 2}}})
    return project


def run(folder: Folder, **options: Any) -> dict[str, CaseResult]:
    with Workspace.open(folder.root) as workspace:
        plan = workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions(**options))
        judged_run = workspace.start(plan)
        list(judged_run.iter_events())
        return {result.case.eval_id: result for result in judged_run.results()}


def test_cases_are_judged_by_the_model_of_the_settings_with_the_key_of_the_target(
    folder: Folder, server: Server
) -> None:
    results = run(folder)

    assert {name: result.status for name, result in results.items()} == {
        "good": CaseStatus.PASSED,
        "bad": CaseStatus.FAILED,
    }
    assert len(server.calls) == 4
    assert all(call.path.endswith("/models/gemini-of-the-settings:generateContent") for call in server.calls)
    assert {call.headers["x-goog-api-key"] for call in server.calls} == {"key-of-the-target"}


def test_cached_replies_are_reused_unless_the_cache_is_disabled(folder: Folder, server: Server) -> None:
    run(folder)

    second_results = run(folder)
    assert len(server.calls) == 4
    judgement = second_results["good"].metrics[0].per_invocation[0].judgement
    assert judgement is not None
    assert all(sample.cached for sample in judgement.samples)

    run(folder, use_cache=False)
    assert len(server.calls) == 8


def test_an_unreadable_reply_is_requested_again_in_the_next_run(folder: Folder, server: Server) -> None:
    server.answer = lambda _: gemini("I would rather not say.")
    first_results = run(folder)
    assert {result.status for result in first_results.values()} == {CaseStatus.ERROR}
    assert "I would rather not say." in (first_results["good"].metrics[0].reason or "")

    server.answer = verdict
    assert [result.status for _, result in sorted(run(folder).items())] == [CaseStatus.FAILED, CaseStatus.PASSED]
    assert len(server.calls) == 8
    run(folder)
    assert len(server.calls) == 8


def test_an_unreadable_reply_is_requested_again_only_once(folder: Folder, server: Server) -> None:
    server.answer = lambda _: gemini("I would rather not say.")
    results = [run(folder) for _ in range(4)]

    assert len(server.calls) == 8
    reason = results[-1]["good"].metrics[0].reason or ""
    assert "I would rather not say." in reason
    assert reason.endswith("the reply is from the cache or a recording: --no-cache or --record asks again")
    server.answer = verdict
    assert run(folder, use_cache=False)["good"].status is CaseStatus.PASSED


def test_judgements_are_stored_with_prompts_and_replies(folder: Folder, server: Server) -> None:
    metric = run(folder)["bad"].metrics[0]

    with Workspace.open(folder.root) as workspace, workspace.history() as history:
        (stored,) = (result for result in history.results("latest") if result.case.eval_id == "bad")

    assert stored.metrics[0] == metric
    judgement = stored.metrics[0].per_invocation[0].judgement
    assert judgement is not None
    assert judgement.model == "gemini-of-the-settings"
    assert [json.loads(sample.reply)["verdict"] for sample in judgement.samples] == ["invalid", "invalid"]
    assert "<reference_answer>\nbad" in judgement.prompt


def test_an_outage_of_the_judge_is_an_error_and_the_case_is_judged_later(folder: Folder, server: Server) -> None:
    server.answer = lambda _: gemini_error(503, "overloaded")

    results = run(folder)

    assert {result.status for result in results.values()} == {CaseStatus.ERROR}
    with Workspace.open(folder.root) as workspace:
        decisions = decide_plan(workspace, workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions()))
    assert {(each.action, each.reasons) for each in decisions} == {(Action.JUDGE, (Reason(Why.JUDGE_OUTAGE),))}
    server.answer = verdict
    assert run(folder)["good"].status is CaseStatus.PASSED


@pytest.mark.parametrize(
    ("change", "action"),
    [
        (lambda folder: None, Action.NOTHING),
        (lambda folder: folder.write(".env", "GOOGLE_API_KEY=another\n"), Action.NOTHING),
        (lambda folder: replace_setting(folder, "gemini-of-the-settings", "another"), Action.JUDGE),
        (lambda folder: replace_setting(folder, "tries = 1", "tries = 2"), Action.NOTHING),
    ],
)
def test_a_changed_judge_model_rescores_but_a_new_key_or_more_tries_do_not(
    folder: Folder, server: Server, change: Callable[[Folder], object], action: Action
) -> None:
    run(folder)

    change(folder)

    assert decide_actions(folder) == {"good": action, "bad": action}


def replace_setting(folder: Folder, old: str, new: str) -> None:
    text = (folder.root / "workbench.toml").read_text()
    assert old in text
    folder.write("workbench.toml", text.replace(old, new))


def decide_actions(folder: Folder) -> dict[str, Action]:
    with Workspace.open(folder.root) as workspace:
        plan = workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions())
        return {each.job.case.eval_id: each.action for each in decide_plan(workspace, plan)}
