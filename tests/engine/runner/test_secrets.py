"""Keys of agents: masked by their value wherever they would be stored or shown, and for nobody else to read."""

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
from workbench.report.formats import FORMATS, write_report
from workbench.report.run_report import ReportedCase, RunReport
from workbench.report.turn_diff import compare_turn
from workbench.store.evalsets.recovery import recovery_folder
from workbench.store.history.history import History
from workbench.store.reply_cache import ReplyStore

TOKEN = "hjkl9-QWERTZ-uiop-345-asdf"
OF_ENVIRONMENT = "correct horse battery staple 7"
PASSWORD = "pa55word-of-the-database"
UNNAMED = "k1a9x8c7v6b5n4m3q2w1e0"
SECRETS = (TOKEN, OF_ENVIRONMENT, PASSWORD, UNNAMED)
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
    monkeypatch.setenv("APP_SECRET", OF_ENVIRONMENT)
    made = Folder(tmp_path)
    made.write("agent.py", AGENT)
    url = f"postgres://me:{PASSWORD}@localhost/db"
    made.write(".env", f"HOME_TOKEN={TOKEN}\nDATABASE_URL={url}\nSERVICE={UNNAMED}\nREGION=europe-west4\n")
    made.write(
        "workbench.toml",
        '[targets.sample]\nkind = "function"\ntarget = "agent:answer"\nenv_file = ".env"\n'
        'eval_sets = ["*.evalset.json"]\n',
    )
    made.cases(fine="fine in europe-west4", broken="raise", dead="die")
    made.criteria(response_match_score={"threshold": 0.1})
    return made


def run(folder: Folder, **options: Any) -> dict[str, CaseResult]:
    with Workspace.open(folder.root) as workspace:
        started = workspace.start(workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions(**options)))
        list(started.iter_events())
        return {result.case.eval_id: result for result in started.results()}


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
    texts += [write_report(report, name) for name in FORMATS]
    for secret in SECRETS:
        assert not [text for text in texts if secret in text]


LOOKS_LIKE_ONE = "sk-" + "x7" * 20


def test_what_only_looks_like_a_secret_is_stored_as_it_is_shown(folder: Folder) -> None:
    folder.write(
        "agent.py",
        f"""
import sys
def answer(prompt):
    print("{LOOKS_LIKE_ONE}")
    print("{LOOKS_LIKE_ONE}", file=sys.stderr)
    if prompt == "raise":
        raise ValueError("the service answered 401: " + "{LOOKS_LIKE_ONE}"[:20] + "...")
    return "api_key={LOOKS_LIKE_ONE}"
""",
    )
    folder.write("metric.py", f"def score(instance): return {{'mine': 1, 'reason': '{LOOKS_LIKE_ONE}'}}")
    folder.write("bad.py", f"def score(instance): raise ValueError('{LOOKS_LIKE_ONE}')")
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

    run(folder, command=f"workbench run --key {LOOKS_LIKE_ONE}")

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
    assert not [text for text in texts if LOOKS_LIKE_ONE[:20] in text]
    answered = fine.turns[0].invocation.final_response
    assert answered is not None
    assert answered.text() == f"api_key={LOOKS_LIKE_ONE}"  # it is compared


def test_other_values_of_the_env_file_stay(folder: Folder) -> None:
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
    said = result.execution.turns[0].invocation.final_response.text()
    assert said == "europe-west4 customer_id dummy keys/of-2026.json no agent"


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
def test_what_is_kept_is_for_the_user_alone(folder: Folder) -> None:
    mask = os.umask(0o022)
    try:
        with History.open(folder.root), ReplyStore(folder.root):
            recovery_folder(folder.root, make=True)
            kept = folder.root / ".workbench"
            assert {mode_of(kept), mode_of(kept / "recovery")} == {0o700}
            files = [path for path in kept.rglob("*") if path.is_file()]
            assert {path.name for path in files} >= {"history.db", "history.db-wal", "replies.db", ".gitignore"}
            assert {mode_of(path) for path in files} == {0o600}
    finally:
        os.umask(mask)


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
def test_what_an_earlier_version_left_open_is_closed(folder: Folder) -> None:
    with History.open(folder.root):
        pass
    kept = folder.root / ".workbench"
    kept.chmod(0o755)
    (kept / "history.db").chmod(0o644)

    with History.open(folder.root):
        pass

    assert (mode_of(kept), mode_of(kept / "history.db")) == (0o700, 0o600)


def test_secrets_that_are_expected_are_the_same_as_those_that_an_agent_gives(folder: Folder) -> None:
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
