"""Judge models in a run: asked at a server over HTTP with the keys of the target, and not twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.llm.servers import Call, Said, Server, gemini, gemini_error, serving
from tests.watch.watched import Folder
from workbench.engine.plan import RunOptions, Selection
from workbench.engine.workspace import Workspace
from workbench.model.results import CaseResult, CaseStatus
from workbench.watch.selector import Action, decide_plan

METRIC = "final_response_match_v2"


def verdict(call: Call) -> Said:
    text = call.body["contents"][0]["parts"][0]["text"]
    return gemini(json.dumps({"reasoning": "r", "verdict": "valid" if "<agent_answer>\nGOOD" in text else "invalid"}))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"):
        monkeypatch.delenv(name, raising=False)
    with serving(verdict) as started:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", started.url)
        yield started


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path)
    made.write("agent.py", "def answer(prompt): return prompt.upper()")
    made.write(".env", "GOOGLE_API_KEY=key-of-the-target\n")
    made.write(
        "workbench.toml",
        '[targets.sample]\nkind = "function"\ntarget = "agent:answer"\neval_sets = ["*.evalset.json"]\n'
        'env_file = ".env"\n[judge]\nmodel = "gemini-of-the-settings"\ntries = 1\n',
    )
    made.cases(good="good", bad="bad")
    made.criteria(**{METRIC: {"threshold": 1.0, "judge_model_options": {"num_samples": 2}}})
    return made


def run(folder: Folder, **options: Any) -> dict[str, CaseResult]:
    with Workspace.open(folder.root) as workspace:
        plan = workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions(**options))
        started = workspace.start(plan)
        list(started.iter_events())
        return {result.case.eval_id: result for result in started.results()}


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


def test_what_was_answered_once_is_asked_again_only_where_that_is_wanted(folder: Folder, server: Server) -> None:
    run(folder)

    again = run(folder)
    assert len(server.calls) == 4
    judgement = again["good"].metrics[0].per_invocation[0].judgement
    assert judgement is not None
    assert all(sample.cached for sample in judgement.samples)

    run(folder, use_cache=False)
    assert len(server.calls) == 8


def test_what_cannot_be_read_is_asked_for_anew_in_the_next_run(folder: Folder, server: Server) -> None:
    server.answer = lambda _: gemini("I would rather not say.")
    prose = run(folder)
    assert {result.status for result in prose.values()} == {CaseStatus.ERROR}
    assert "I would rather not say." in (prose["good"].metrics[0].reason or "")

    server.answer = verdict
    assert [result.status for _, result in sorted(run(folder).items())] == [CaseStatus.FAILED, CaseStatus.PASSED]
    assert len(server.calls) == 8
    run(folder)
    assert len(server.calls) == 8


def test_what_was_asked_for_anew_and_cannot_be_read_either_is_not_asked_for_in_every_run(
    folder: Folder, server: Server
) -> None:
    server.answer = lambda _: gemini("I would rather not say.")
    results = [run(folder) for _ in range(4)]

    assert len(server.calls) == 8
    reason = results[-1]["good"].metrics[0].reason or ""
    assert "I would rather not say." in reason
    assert reason.endswith("the reply is from the cache, --no-cache asks again")
    server.answer = verdict
    assert run(folder, use_cache=False)["good"].status is CaseStatus.PASSED


def test_judgements_are_stored_with_all_that_was_said(folder: Folder, server: Server) -> None:
    told = run(folder)["bad"].metrics[0]

    with Workspace.open(folder.root) as workspace, workspace.history() as history:
        (stored,) = (result for result in history.results("latest") if result.case.eval_id == "bad")

    assert stored.metrics[0] == told
    judgement = stored.metrics[0].per_invocation[0].judgement
    assert judgement is not None
    assert judgement.model == "gemini-of-the-settings"
    assert [json.loads(sample.reply)["verdict"] for sample in judgement.samples] == ["invalid", "invalid"]
    assert "<reference_answer>\nbad" in judgement.prompt


def test_an_outage_of_the_judge_is_an_error_and_counts_for_nothing_later(folder: Folder, server: Server) -> None:
    server.answer = lambda _: gemini_error(503, "overloaded")

    results = run(folder)

    assert {result.status for result in results.values()} == {CaseStatus.ERROR}
    assert decided(folder) == {"good": Action.JUDGE, "bad": Action.JUDGE}
    server.answer = verdict
    assert run(folder)["good"].status is CaseStatus.PASSED


@pytest.mark.parametrize(
    ("change", "action"),
    [
        (lambda folder: None, Action.NOTHING),
        (lambda folder: folder.write(".env", "GOOGLE_API_KEY=another\n"), Action.NOTHING),
        (lambda folder: rewrite(folder, "gemini-of-the-settings", "another"), Action.JUDGE),
        (lambda folder: rewrite(folder, "tries = 1", "tries = 2"), Action.NOTHING),
    ],
)
def test_another_judge_judges_again_what_the_agent_did(
    folder: Folder, server: Server, change: Callable[[Folder], object], action: Action
) -> None:
    run(folder)

    change(folder)

    assert decided(folder) == {"good": action, "bad": action}


def rewrite(folder: Folder, old: str, new: str) -> None:
    text = (folder.root / "workbench.toml").read_text()
    assert old in text
    folder.write("workbench.toml", text.replace(old, new))


def decided(folder: Folder) -> dict[str, Action]:
    with Workspace.open(folder.root) as workspace:
        plan = workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions())
        return {each.job.case.eval_id: each.action for each in decide_plan(workspace, plan)}
