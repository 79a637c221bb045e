"""Stale verdicts are marked without a watch, and every pane shows the current ones."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.tui.panes.browser_pane.by_keys import answer_dialog
from workbench.engine.plan import RESUME_ADVICE
from workbench.model.evalset import EvalCase
from workbench.model.identity import JobKey
from workbench.model.results import CaseStatus
from workbench.model.run_events import Notice
from workbench.tui.state.case_status import CaseState, ResultLocation
from workbench.tui.state.watch_state import WatchMode

AGENT = """
from tools import reply

def answer(prompt):
    return {"response": reply(prompt), "predicted_trajectory": []}
"""
GOOD = "def reply(prompt):\n    return prompt\n"
BAD = "def reply(prompt):\n    return 'no ' * 50\n"


@pytest.fixture
def project(make_project: Callable[..., Path], make: Any) -> Path:
    cases = [{"eval_id": name, "conversation": [make.turn(name, name)]} for name in ("one", "two", "three")]
    path = make_project(agent=AGENT, criteria={"response_match_score": 0.8}, lights=cases)
    (path / "tools.py").write_text(GOOD)
    return path


async def run_all(screen: Any, *, state: CaseState, count: int = 3) -> None:
    await screen.press("R")
    await screen.until("finished", f"{count}/{count}")
    await wait_until_true(lambda: screen.state.board.count_states()[state] == count)


async def wait_until_true(condition: Callable[[], Any]) -> None:
    for _ in range(600):
        if condition():
            return
        await asyncio.sleep(0.02)
    assert condition()


def count_stale(screen: Any) -> int:
    count: int = screen.state.browser.freshness.count_stale("pinger", "lights.evalset.json")
    return count


async def test_stale_verdicts_are_marked_at_the_start_and_on_reload(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await screen.until("three")
        await run_all(screen, state=CaseState.PASSED)
    (project / "tools.py").write_text(BAD)

    async with open_app(project) as screen:
        await wait_until_true(lambda: count_stale(screen) == 3)
        await screen.press("j")
        await screen.until("● 3 stale (✓ 3)", "no run in this session   ● 3 stale (✓ 3)", "●3 ✓ 3/3")
        assert "3 passed" not in screen.text
        await screen.press("j")
        await screen.until("STALE", "tools.py: reply() changed")

        (project / "tools.py").write_text(GOOD)
        await screen.press("f5")
        await wait_until_true(lambda: count_stale(screen) == 0)
        await screen.until_gone("STALE")


@pytest.fixture
def equal_cases(make_project: Callable[..., Path], make: Any) -> Path:
    cases = [{"eval_id": f"equal {number}", "conversation": [make.turn("hi", "hi")]} for number in range(7)]
    path = make_project(agent=AGENT, criteria={"response_match_score": 0.8}, lights=cases)
    (path / "tools.py").write_text(GOOD)
    return path


async def test_equal_cases_are_all_marked_and_keep_their_own_verdicts(equal_cases: Path, open_app: Any) -> None:
    async with open_app(equal_cases) as screen:
        await screen.until("equal 6")
        await run_all(screen, state=CaseState.PASSED, count=7)
        (equal_cases / "tools.py").write_text(BAD)
        await screen.press("f5")
        await wait_until_true(lambda: count_stale(screen) == 7)
        (equal_cases / "tools.py").write_text(GOOD)
        await screen.press("f5")
        await wait_until_true(lambda: count_stale(screen) == 0)

        keys = [key for listed in screen.state.browser.file_sets for key in listed.case_keys]
        places = screen.state.board.find_verdicts_by_case(keys)
        assert [places[key][0].job.case for key in keys] == keys


async def test_a_verdict_without_its_trace_is_marked_like_those_of_equal_cases(
    equal_cases: Path, open_app: Any
) -> None:
    async with open_app(equal_cases) as screen:
        await screen.until("equal 6")
        await run_all(screen, state=CaseState.PASSED, count=7)
    with contextlib.closing(sqlite3.connect(equal_cases / ".workbench" / "history.db")) as database, database:
        database.execute("UPDATE execution SET blob = NULL WHERE id <= 2")  # as earlier versions did
    (equal_cases / "tools.py").write_text(BAD)

    async with open_app(equal_cases) as screen:
        await wait_until_true(lambda: count_stale(screen) == 7)
        await screen.press("w")
        await wait_until_true(lambda: screen.state.watch.stale == 7)


def test_messages_name_the_keys_that_do_what_the_command_line_advises(make_listed_project: Any) -> None:
    state = make_listed_project(["a"]).state
    notice = Notice(severity="warning", message=f"1 case not judged; {RESUME_ADVICE}")

    applied = state.apply([notice], now=0)

    assert [each.message for each in applied.notices] == ["1 case not judged; f judges them"]
    assert [row.message for row in state.problems.rows] == ["1 case not judged; f judges them"]
    assert state.name_keys("the case has changed; run it again") == "the case has changed; r runs it again"


def test_an_earlier_verdict_stays_current_when_the_newest_one_is_read_again(
    make_listed_project: Callable[..., Any], make: Any
) -> None:
    project = make_listed_project(["a"])
    key, freshness = project.key("a"), project.browser.freshness
    project.read(EvalCase(eval_id="a", conversation=[]), hashes=("e", "present"))
    project.store(a=CaseStatus.FAILED)
    assert freshness.is_stale(key)
    project.state.board.restore_result(
        make.result(key, CaseStatus.PASSED),
        stored_at=datetime.now(UTC),
        place=ResultLocation("earlier", JobKey(case=key, repeat=0)),
    )
    freshness.mark_current(key, ("e", "present"))

    project.store(a=CaseStatus.FAILED)  # as after a change of the settings or the branch

    assert not freshness.is_stale(key)
    assert project.state.board.count_states()[CaseState.PASSED] == 1


async def test_all_panes_show_earlier_verdicts_that_are_current_again(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await screen.until("three")
        await run_all(screen, state=CaseState.PASSED)
        (project / "tools.py").write_text(BAD)
        await run_all(screen, state=CaseState.FAILED)
    (project / "tools.py").write_text(GOOD)

    async with open_app(project) as screen:
        await wait_until_true(lambda: screen.state.board.count_states()[CaseState.PASSED] == 3)
        assert count_stale(screen) == 0

        await screen.press("j", "4")
        await screen.until("✓ 3 passed")
        await screen.press("t")
        await screen.until("✓ 3 passed", "deviation", "three")
        assert "✗" not in screen.text and "stale" not in screen.text
        (project / "tools.py").write_text(GOOD.replace("prompt\n", "prompt * 2\n"))
        await screen.until("3 rows   ● 3 stale (✓ 3)", "✓ stale")
        await screen.press("escape")
        await screen.until("✓ 3 passed   ● 3 cases stale")
        await screen.press("h", "j", "2")
        await screen.until("✓ response_match_score")
        result = screen.state.subject().result
        assert result is not None and result.metrics[0].score == 1.0


async def test_saves_of_other_programs_are_noticed_without_a_watch_or_a_run(
    project: Path, open_app: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "words.txt"
    outside.write_text("")
    path = f"import pathlib\npathlib.Path({str(outside)!r}).read_text()\n"
    (project / "tools.py").write_text(path + GOOD)
    criteria = (project / "test_config.json").read_text()

    async with open_app(project) as screen:
        await screen.until("three")
        await run_all(screen, state=CaseState.PASSED)
        results = screen.state.board.result_count

        for file, broken_text, valid_text in (
            (project / "tools.py", path + BAD, path + GOOD),
            (project / "test_config.json", criteria.replace("0.8", "0.9"), criteria),
            (outside, "other", ""),
        ):
            file.write_text(broken_text)
            await wait_until_true(lambda: count_stale(screen) == 3)
            file.write_text(valid_text)
            await wait_until_true(lambda: count_stale(screen) == 0)
        assert screen.state.board.result_count == results

        await screen.press("w")  # the watch detects them automatically
        await wait_until_true(lambda: screen.state.watch.mode is WatchMode.ON)
        await screen.press("alt+w")
        await wait_until_true(lambda: not screen.state.watch.is_active)
        (project / "tools.py").write_text(path + BAD)
        await wait_until_true(lambda: count_stale(screen) == 3)


async def test_a_verdict_of_this_session_is_checked_after_a_save(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await screen.until("three")
        await run_all(screen, state=CaseState.PASSED)
        (project / "tools.py").write_text(BAD)

        await screen.press("j", "j", "d", "enter")
        await screen.until("4 cases")

        await wait_until_true(lambda: count_stale(screen) == 3)


async def test_a_case_that_another_program_renames_keeps_its_verdict(project: Path, open_app: Any, make: Any) -> None:
    lights = project / "lights.evalset.json"
    original_text, renamed_text = lights.read_text(), lights.read_text().replace('"eval_id": "one"', '"eval_id": "uno"')
    assert renamed_text != original_text

    async with open_app(project) as screen:
        await screen.until("three")
        await run_all(screen, state=CaseState.PASSED)
        lights.write_text(renamed_text)
        await screen.until("uno")
        await wait_until_true(lambda: screen.state.board.count_states()[CaseState.PASSED] == 3)
        lights.write_text(original_text)
        await screen.until_gone("uno")
        await wait_until_true(lambda: screen.state.board.count_states()[CaseState.PASSED] == 3)
    lights.write_text(renamed_text)

    async with open_app(project) as screen:
        await screen.until("uno")
        await wait_until_true(lambda: screen.state.board.count_states()[CaseState.PASSED] == 3)
        await screen.press("j", "j", "2")
        await screen.until("✓ response_match_score")


async def test_a_case_that_is_edited_and_renamed_is_stale(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await screen.until("three")
        await run_all(screen, state=CaseState.PASSED)
        await screen.press("j", "j", "e", "enter", *"Now ", "enter", "escape", "f2")
        await answer_dialog(screen, "uno")
        await screen.until("STALE", "PASSED", "uno")
        assert count_stale(screen) == 1

        await screen.press("u")
        await screen.until_gone("uno")
        await wait_until_true(lambda: count_stale(screen) == 1)
        await screen.press("U")
        await screen.until("uno")
    async with open_app(project) as screen:
        await screen.until("uno")
        await wait_until_true(lambda: count_stale(screen) == 1)


async def test_a_watch_finds_the_verdicts_of_renamed_cases_too(project: Path, open_app: Any) -> None:
    lights = project / "lights.evalset.json"
    original_text, renamed_text = lights.read_text(), lights.read_text().replace('"eval_id": "one"', '"eval_id": "uno"')

    async with open_app(project) as screen:
        await screen.until("three")
        await run_all(screen, state=CaseState.PASSED)
        await screen.press("w")
        await wait_until_true(lambda: screen.state.watch.mode is WatchMode.ON)
        for text, shown in ((renamed_text, "uno"), (original_text, "one"), (renamed_text, "uno")):
            lights.write_text(text)
            await screen.until(shown)
            await wait_until_true(lambda: screen.state.board.count_states()[CaseState.PASSED] == 3)
        await screen.press("alt+w")
        await wait_until_true(lambda: not screen.state.watch.is_active)
        (project / "tools.py").write_text(BAD)
        await wait_until_true(lambda: count_stale(screen) == 3)

        await screen.press("w")
        await wait_until_true(lambda: screen.state.watch.stale == 3)
        assert count_stale(screen) == 3
