"""The screen of flaky cases, on a real project."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from workbench.model.evalset import Invocation
from workbench.model.identity import CaseKey
from workbench.model.results import CaseResult, CaseStatus, Execution, TurnResult
from workbench.store.history.history import History
from workbench.store.history.history_queries import RunRecord
from workbench.tui.screens.flaky_screen import parse_quarantine

Open = Callable[..., Any]


def add_flaky_history(project: Any) -> None:
    """Store a run of the case `off` with a repeat that passed and one that failed."""
    result = project.run()[0]
    key = CaseKey(target=result.case.target, eval_set=result.case.eval_set, eval_id="off")
    with History.open(project.path) as history:
        history.begin_run(RunRecord(run_id="flaky", started_at=datetime.now(UTC), root=project.path, total=2))
        for repeat, (status, room) in enumerate([(CaseStatus.PASSED, "hall"), (CaseStatus.FAILED, "attic 灯 [b]")]):
            data = {
                "user_content": {"role": "user", "parts": [{"text": "off"}]},
                "final_response": {"role": "model", "parts": [{"text": "done"}]},
                "intermediate_data": {"tool_uses": [{"name": "light", "args": {"room": room}}]},
            }
            turn = TurnResult(invocation=Invocation.model_validate(data), duration_seconds=0.1)
            history.finish_job(
                "flaky",
                CaseResult(
                    case=key, eval_set_id="lights", repeat=repeat, status=status, execution=Execution(turns=(turn,))
                ),
                execution_key="e",
                scoring_key="s",
            )


def read_sidecar(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((path / "lights.evalset.workbench.json").read_text())
    return found["quarantine"]


async def test_a_flaky_case_shows_its_executions_side_by_side(make_history_project: Open, open_app: Open) -> None:
    project = make_history_project("on", "off")
    add_flaky_history(project)

    async with open_app(project.path, size=(140, 42)) as screen:
        await screen.until("off")
        await screen.press("alt+q")
        await screen.until("1 flaky case", " 50%", "turn 1, the call of light", "1 of 2 passed: 50% (95 %")
        await screen.until('light({"room": "hall"})', 'light({"room": "attic 灯 [b]"})')

        await screen.press("enter")

        await screen.until("PASSED", "FAILED", "run flaky, repeat 1", "run flaky, repeat 2", '"attic 灯 [b]"')
        await screen.press("escape")
        await screen.until("1 flaky case")
        await screen.press("c")
        await screen.until("History", "flaky")
        assert screen.app.screen.state.selected_case.eval_id == "off"


async def test_a_key_begins_and_ends_a_quarantine(make_history_project: Open, open_app: Open) -> None:
    project = make_history_project("on", "off")
    add_flaky_history(project)
    last = str(date.today() + timedelta(3))

    async with open_app(project.path, size=(140, 42)) as screen:
        await screen.until("off")
        await screen.press("alt+q")
        await screen.until("1 flaky case")
        await screen.press("x")
        await screen.until("Quarantine of off: why?")
        await screen.press(*"3", "enter")
        await screen.until('expected days such as "3 days"')
        await screen.press(*" days [b]slow", "enter")
        await screen.until(f"⊘ quarantined until {last}: [b]slow")
        await screen.until("x end quarantine", "off: quarantined until")
        assert read_sidecar(project.path)["off"].items() >= {"until": last, "reason": "[b]slow"}.items()

        await screen.press("x")

        await screen.until_gone(f"⊘ quarantined until {last}")
        assert read_sidecar(project.path) == {}
        await screen.until("off: the quarantine is over", "⏎ executions")


async def test_cases_in_quarantine_are_listed_without_any_history(make_history_project: Open, open_app: Open) -> None:
    project = make_history_project("on", "off")
    entries = {"off": {"until": "2999-01-01"}, "old": {"until": "2020-01-01"}}
    (project.path / "lights.evalset.workbench.json").write_text(json.dumps({"quarantine": entries}))

    async with open_app(project.path, size=(140, 42)) as screen:
        await screen.until("off")
        await screen.press("alt+q")
        await screen.until("0 flaky cases, 1 other case in quarantine, 1 other quarantine that ended")
        await screen.until("⊘ quarantined until 2999-01-01", "old  quarantine ended")
        await screen.press("enter")
        await screen.until("there is nothing to compare", "c case")
        assert "⏎ executions" not in screen.text
        await screen.press("j")
        await screen.until("its quarantine ended on 2020-01-01", "the eval set no longer has this case")
        await screen.until_gone("c case")
        await screen.press("x")
        await screen.until("0 flaky cases, 1 other case in quarantine ")
        assert list(read_sidecar(project.path)) == ["off"]
        await screen.press("slash", *"off", "enter", "c")
        await screen.until("History")
        assert screen.app.screen.state.selected_case.eval_id == "off"


async def test_a_case_that_has_not_run_shows_its_quarantine_until_the_user_ends_it(
    make_history_project: Open, open_app: Open
) -> None:
    project = make_history_project("on", "off")
    entries = {"off": {"until": "2999-01-01", "reason": "[b]slow"}, "on": {"until": "2020-01-01"}}
    (project.path / "lights.evalset.workbench.json").write_text(json.dumps({"quarantine": entries}))

    async with open_app(project.path, size=(80, 24)) as screen:
        await screen.until("off  ", "⊘ quarantine ")
        assert screen.text.count("⊘ quarantine ") == 1
        await screen.until("2 cases · ⊘ 1 in quarantine")
        await screen.press("j", "j", "j")
        await screen.until("NOT RUN · off", "⊘ quarantined until 2999-01-01: [b]slow")
        await screen.press("alt+q")
        await screen.until("1 other case in quarantine")
        await screen.press("x")
        await screen.until("its quarantine ended on 2020-01-01")
        await screen.until_gone("quarantined until")
        await screen.press("escape")
        await screen.until_gone("⊘")


async def test_a_quarantine_of_another_case_with_the_same_id_is_without_effect(
    make_history_project: Open, open_app: Open
) -> None:
    project = make_history_project("on", "off")
    entry = {"until": "2999-01-01", "messages": "0123456789ab"}
    (project.path / "lights.evalset.workbench.json").write_text(json.dumps({"quarantine": {"off": entry}}))

    async with open_app(project.path, size=(140, 42)) as screen:
        await screen.until("off")
        await screen.press("alt+q")
        await screen.until("0 flaky cases, 1 quarantine without effect", "the user says something else in this case")
        assert "⊘" not in screen.text
        await screen.press("x")
        await screen.until("No case is known to be flaky")
        assert read_sidecar(project.path) == {}


async def test_a_damaged_file_is_reported_and_an_empty_list_says_what_to_do(
    make_history_project: Open, open_app: Open
) -> None:
    project = make_history_project("on")
    (project.path / "lights.evalset.workbench.json").write_text("{")

    async with open_app(project.path, size=(140, 42)) as screen:
        await screen.until("on")
        await screen.press("alt+q")
        await screen.until("No case is known to be flaky", "then C in the main screen", "none of its cases is in quar")
        assert "⏎" not in screen.text
        assert "/ filter" not in screen.text
        await screen.press("escape")
        await screen.until("eval sets")


async def test_a_failure_in_quarantine_has_its_own_mark(make_history_project: Open, open_app: Open) -> None:
    project = make_history_project("on", "off")
    (project.path / "lights.evalset.workbench.json").write_text('{"quarantine": {"off": {"until": "2999-01-01"}}}')
    project.set_failing_prompts("off")
    project.run()

    async with open_app(project.path, size=(160, 42)) as screen:
        await screen.until("⊘ off", "⊘ 1/2", "⊘ 1 quarantine")
        assert "✗" not in screen.text
        assert not screen.app.screen.state.has_failing
        await screen.press("j", "j", "j")
        await screen.until("⊘ QUARANTINE")
        await screen.press("k", "k", "5")
        await screen.until("1/2  ⊘ 1")
        await screen.press("t")
        await screen.until("⊘ quarantine ", "✓ passed", "✓ 1 passed   ⊘ 1 quarantine")


@pytest.mark.parametrize(
    ("text", "days", "reason"),
    [
        ("", 14, ""),
        ("a [b]reason", 14, "a [b]reason"),
        ("3 days", 3, ""),
        (" 3d  why ", 3, "why"),
        ("1 day why", 1, "why"),
        ("404 from the api", 14, "404 from the api"),
        ("3 daylight lamps fail", 14, "3 daylight lamps fail"),
        ("3of5 fail", 14, "3of5 fail"),
    ],
)
def test_a_quarantine_is_typed_as_days_and_a_reason(text: str, days: int, reason: str) -> None:
    quarantine = parse_quarantine(text)

    assert quarantine is not None
    assert (quarantine.until, quarantine.reason) == (date.today() + timedelta(days), reason)


def test_a_quarantine_is_typed_as_a_last_day() -> None:
    quarantine = parse_quarantine("2999-01-01 why")

    assert quarantine is not None
    assert (quarantine.until, quarantine.reason) == (date(2999, 1, 1), "why")
    assert [parse_quarantine(text) for text in ("2020-01-01", "0 days", "99999d")] == [None] * 3
