"""Secrets of agents: masked wherever they would be stored or shown, in files that only the user can read."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.watch.watched import Folder
from workbench.engine.plan import RunOptions, Selection
from workbench.engine.workspace import Workspace
from workbench.model.evalset import EvalCase
from workbench.model.results import CaseResult, CaseStatus
from workbench.model.run_events import RunSummary
from workbench.model.turn_diff import compare_turn
from workbench.report.report_formats import WRITERS, write_report
from workbench.report.run_report import ReportedCase, RunReport
from workbench.store.evalsets.recovery import recovery_folder
from workbench.store.history.history import History
from workbench.store.model_answers import ReplyStore

TOKEN = "hjkl9-QWERTZ-uiop-345-asdf"
ENVIRONMENT_SECRET = "correct horse battery staple 7"
PASSWORD = "pa55word-of-the-database"
UNNAMED_SECRET = "k1a9x8c7v6b5n4m3q2w1e0"
SECRETS = (TOKEN, ENVIRONMENT_SECRET, PASSWORD, UNNAMED_SECRET)
AGENT = """
import os, sys
def answer(prompt):
    told = " ".join([os.environ[name] for name in ("HOME_TOKEN", "APP_SECRET", "DATABASE_URL", "SERVICE")])
    print(told)
    print(told, file=sys.stderr)
    if prompt == "raise":
        raise ValueError("refused: " + told)
    if prompt == "die":
        os._exit(3)
    calls = [{"tool_name": "send", "tool_input": {"with": told, os.environ["HOME_TOKEN"]: 1}}]
    return {"response": "I use " + told, "predicted_trajectory": calls}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.setenv("APP_SECRET", ENVIRONMENT_SECRET)
    project = Folder(tmp_path)
    project.write("agent.py", AGENT)
    url = f"postgres://me:{PASSWORD}@localhost/db"
    project.write(".env", f"HOME_TOKEN={TOKEN}\nDATABASE_URL={url}\nSERVICE={UNNAMED_SECRET}\nREGION=europe-west4\n")
    project.write(
        "workbench.toml",
        '[targets.sample]\nkind = "function"\ntarget = "agent:answer"\nenv_file = ".env"\n'
        'eval_sets = ["*.evalset.json"]\n',
    )
    project.cases(fine="fine in europe-west4", broken="raise", dead="die")
    project.criteria(response_match_score={"threshold": 0.1})
    return project


def run(folder: Folder, **options: Any) -> dict[str, CaseResult]:
    with Workspace.open(folder.root) as workspace:
        finished_run = workspace.start(workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions(**options)))
        list(finished_run.iter_events())
        return {result.case.eval_id: result for result in finished_run.results()}


def test_no_value_of_a_secret_is_stored_or_reported(folder: Folder) -> None:
    results = run(folder)

    assert results["broken"].status is results["dead"].status is CaseStatus.ERROR
    assert results["broken"].failure is not None
    assert results["broken"].failure.message.startswith("ValueError: refused: [redacted]")
    assert "[redacted]" in results["fine"].execution.stdout_tail
    assert "[redacted]" in results["dead"].execution.stderr_tail
    texts = [result.model_dump_json() for result in results.values()]
    with History.open(folder.root) as history:
        stored = list(history.results("latest"))
    texts += [result.model_dump_json() for result in stored]
    report = RunReport(run_id="r", summary=RunSummary(), cases=[ReportedCase(result, None) for result in stored])
    texts += [write_report(report, name) for name in WRITERS]
    for secret in SECRETS:
        assert not [text for text in texts if secret in text]


SECRET_LOOKALIKE = "sk-" + "x7" * 20


def test_text_that_looks_like_a_secret_is_masked_except_in_answers(folder: Folder) -> None:
    folder.write(
        "agent.py",
        f"""
import sys
def answer(prompt):
    print("{SECRET_LOOKALIKE}")
    print("{SECRET_LOOKALIKE}", file=sys.stderr)
    if prompt == "raise":
        raise ValueError("the service answered 401: " + "{SECRET_LOOKALIKE}"[:20] + "...")
    return "api_key={SECRET_LOOKALIKE}"
""",
    )
    folder.write("metric.py", f"def score(instance): return {{'mine': 1, 'reason': '{SECRET_LOOKALIKE}'}}")
    folder.write("bad.py", f"def score(instance): raise ValueError('{SECRET_LOOKALIKE}')")
    folder.write(
        "test_config.json",
        json.dumps(
            {
                "criteria": {"mine": 0.5, "bad": 0.5},
                "custom_metrics": {
                    name: {"code_config": {"name": f"{file}.score"}}
                    for name, file in (("mine", "metric"), ("bad", "bad"))
                },
            }
        ),
    )

    run(folder, command=f"workbench run --key {SECRET_LOOKALIKE}")

    with History.open(folder.root) as history:
        (stored,) = history.runs()
        results = {result.case.eval_id: result for result in history.results("latest")}
    broken, fine = results["broken"], results["fine"].execution
    assert broken.failure is not None
    assert "answered 401: [redacted]..." in broken.failure.message
    assert fine.stdout_tail == fine.stderr_tail == "[redacted]\n"
    assert fine.spans[0].response == "api_key=[redacted]"
    assert stored.command == "workbench run --key [redacted]"
    assert [m.reason for m in results["fine"].metrics if m.name == "bad"] == ["bad: ValueError: [redacted] (bad.py:1)"]
    texts = [result.model_copy(update={"execution": None}).model_dump_json() for result in results.values()]
    texts += [span.model_dump_json() for result in results.values() for span in result.execution.spans]
    texts.append(str(broken.execution.model_dump()))
    assert not [text for text in texts if SECRET_LOOKALIKE[:20] in text]
    response = fine.turns[0].invocation.final_response
    assert response is not None
    assert response.text() == f"api_key={SECRET_LOOKALIKE}"  # answers are compared, so they stay


def get_mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
def test_only_the_user_can_read_stored_files(folder: Folder) -> None:
    old_mask = os.umask(0o022)
    try:
        with History.open(folder.root), ReplyStore(folder.root):
            recovery_folder(folder.root, make=True)
            storage_folder = folder.root / ".workbench"
            assert {get_mode(storage_folder), get_mode(storage_folder / "recovery")} == {0o700}
            files = [path for path in storage_folder.rglob("*") if path.is_file()]
            assert {path.name for path in files} >= {"history.db", "history.db-wal", "replies.db", ".gitignore"}
            assert {get_mode(path) for path in files} == {0o600}
    finally:
        os.umask(old_mask)


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
def test_open_permissions_of_an_earlier_version_are_restricted(folder: Folder) -> None:
    with History.open(folder.root):
        pass
    storage_folder = folder.root / ".workbench"
    storage_folder.chmod(0o755)
    (storage_folder / "history.db").chmod(0o644)

    with History.open(folder.root):
        pass

    assert (get_mode(storage_folder), get_mode(storage_folder / "history.db")) == (0o700, 0o600)


def test_expected_secrets_match_the_secrets_in_answers_of_the_agent(folder: Folder) -> None:
    folder.write(
        "agent.py",
        f"""
def answer(prompt):
    calls = [{{"tool_name": "log_in", "tool_input": {{"with": "{TOKEN}", "x": None}}}}]
    return {{"response": "logged in with {TOKEN}", "predicted_trajectory": calls, "state": {{"used": "{TOKEN}"}}}}
""",
    )
    turn = {
        "user_content": {"parts": [{"text": "log in"}]},
        "final_response": {"parts": [{"text": f"logged in with {TOKEN}"}]},
        "intermediate_data": {"tool_uses": [{"name": "log_in", "args": {"with": TOKEN, "x": None}}]},
    }
    case = {"eval_id": "a", "conversation": [turn], "final_session_state": {"used": TOKEN}}
    folder.write("set.evalset.json", json.dumps({"eval_set_id": "set", "eval_cases": [case]}))
    folder.criteria(tool_trajectory_avg_score=1.0, response_match_score=1.0, final_session_state_match=1.0)

    (result,) = run(folder).values()

    assert {metric.name: metric.status for metric in result.metrics if metric.threshold is not None} == {
        "tool_trajectory_avg_score": "PASSED",
        "response_match_score": "PASSED",
        "final_session_state_match": "PASSED",
    }
    expected = EvalCase.model_validate(case)
    reported = ReportedCase(result, expected)
    assert not any(reported.differences)
    assert not reported.state_differences
    assert not compare_turn(expected.conversation[0], result.execution.turns[0].invocation).differences


def test_harmless_values_of_the_env_file_are_not_masked(folder: Folder) -> None:
    folder.write(
        ".env",
        "REGION=europe-west4\nPRIMARY_KEY=customer_id\nAPI_KEY=dummy\nSECRET_FILE=keys/of-2026.json\n"
        "SECRET_KEY='no agent'\n",
    )
    names = "REGION", "PRIMARY_KEY", "API_KEY", "SECRET_FILE", "SECRET_KEY"
    folder.write("agent.py", f"import os\ndef answer(_): return ' '.join(os.environ[name] for name in {names})")
    folder.cases(fine="hello")

    result = run(folder)["fine"]

    assert result.execution.turns[0].invocation.final_response is not None
    text = result.execution.turns[0].invocation.final_response.text()
    assert text == "europe-west4 customer_id dummy keys/of-2026.json no agent"
