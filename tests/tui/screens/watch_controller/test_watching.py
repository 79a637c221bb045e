"""Watch mode on the screen: a save runs the affected cases, and the screen shows which and why."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tui.screens.watch_controller.conftest import AGENT, TOOLS, Shop
from workbench.store.history.history import History
from workbench.tui.state.case_status import CaseState
from workbench.tui.state.problem_list import ProblemSource
from workbench.tui.state.watch_state import WatchMode

Open = Callable[..., Any]

DEARER = TOOLS.replace('"amount": 1', '"amount": 2')
BROKEN = TOOLS.replace("def ship(prompt):", "def ship(prompt:")


@pytest.mark.parametrize("way", ["save", "write"])
async def test_a_save_runs_exactly_the_affected_cases_and_says_why(open_shop: Open, shop: Shop, way: str) -> None:
    async with open_shop() as watched:
        before = {name: watched.get_result_number(name) for name in ("ship_1", "ship_2")}

        getattr(shop, way)("tools.py", DEARER)
        await watched.until("why: tools.py: refun")  # the alarm covers the rest of the line
        refunds = ("refund_1", "refund_2")
        await watched.until_true(lambda: all(watched.get_state(name) is CaseState.FAILED for name in refunds))

        assert {name: watched.get_result_number(name) for name in ("ship_1", "ship_2")} == before
        assert watched.state.progress.total == 2


async def test_an_undo_restores_verdicts_at_once_and_runs_nothing(open_shop: Open, shop: Shop) -> None:
    async with open_shop() as watched:
        shop.save("tools.py", DEARER)
        await watched.until_true(lambda: watched.get_state("refund_1") is CaseState.FAILED and not watched.watch.stale)
        run = watched.state.progress

        await watched.press("O")
        shop.save("tools.py", TOOLS)
        await watched.until("tools.py  2 with a current stored verdict")

        assert watched.get_state("refund_1") is watched.get_state("refund_2") is CaseState.PASSED
        assert watched.state.progress is run
        assert not any(map(watched.is_stale, ("refund_1", "refund_2", "ship_1")))


async def test_a_saved_quarantine_shows_at_once_and_runs_nothing(open_shop: Open, shop: Shop) -> None:
    async with open_shop() as watched:
        shop.save("tools.py", DEARER)
        await watched.until_true(lambda: watched.get_state("refund_1") is CaseState.FAILED and not watched.watch.stale)
        run = watched.state.progress
        sidecar = "shop.evalset.workbench.json"

        await watched.press("O")
        shop.save(sidecar, '{"quarantine": {"refund_1": {"until": "2999-01-01"}}}')
        await watched.until("quarantine of 1 case changed", "refund_1: quarantined until 2999-01-01")

        assert watched.get_state("refund_1") is CaseState.QUARANTINED
        assert watched.get_state("refund_2") is CaseState.FAILED
        assert watched.state.progress is run
        shop.save(sidecar, "{}")
        await watched.until_true(lambda: watched.get_state("refund_1") is CaseState.FAILED)


async def test_keys_turn_the_watch_on_pause_resume_and_turn_it_off(open_shop: Open) -> None:
    async with open_shop(watches=False) as watched:
        assert "watching" not in watched.text
        await watched.press("w")
        await watched.until("◉ watching ", " files", "w pause")
        await watched.press("w")
        await watched.until("w resume")
        await watched.until("◌ watch paused")
        await watched.press("w")
        await watched.until("◉ watching")
        await watched.press("alt+w")
        await watched.until_true(lambda: watched.screen.app._main._watching._watch is None)
        assert "watching" not in watched.text
        await watched.press("w")
        await watched.until("◉ watching ", " files")


async def test_a_paused_watch_marks_stale_verdicts_with_the_reason(open_shop: Open, shop: Shop) -> None:
    async with open_shop() as watched:
        await watched.select_case("refund_1")
        await watched.press("w", "O")
        shop.save("tools.py", DEARER)

        await watched.until("● STALE · ✓ PASSED", "stale: tools.py: refund() changed", "2 cases to run or judge")
        assert [name for name in ("refund_1", "refund_2", "ship_1") if watched.is_stale(name)] == [
            "refund_1",
            "refund_2",
        ]
        assert watched.get_state("refund_1") is CaseState.PASSED
        assert "●2" in watched.text

        await watched.press("w")
        await watched.until_true(lambda: watched.get_state("refund_1") is CaseState.FAILED and not watched.watch.stale)
        await watched.screen.until_gone("STALE")


async def test_undoing_a_change_during_a_pause_restores_verdicts_at_once(open_shop: Open, shop: Shop) -> None:
    async with open_shop() as watched:
        shop.save("tools.py", DEARER)
        await watched.until_true(lambda: watched.get_state("refund_1") is CaseState.FAILED and not watched.watch.stale)
        await watched.press("w", "O")

        shop.save("tools.py", TOOLS)
        await watched.until_true(lambda: watched.get_state("refund_1") is CaseState.PASSED)

        await watched.press("w")
        await watched.until("2 with a current stored verdict")


async def test_a_manual_run_during_a_pause_gives_current_verdicts(open_shop: Open, shop: Shop) -> None:
    async with open_shop() as watched:
        await watched.press("w")
        shop.save("tools.py", DEARER)
        await watched.until_true(lambda: watched.is_stale("refund_1"))
        await watched.select_case("refund_1")

        await watched.press("r")

        await watched.until_true(lambda: watched.get_state("refund_1") is CaseState.FAILED)
        await watched.until_true(lambda: not watched.is_stale("refund_1"))
        assert watched.is_stale("refund_2")
        assert watched.get_state("refund_2") is CaseState.PASSED


async def test_the_watch_does_not_rerun_cases_of_a_finished_manual_run(open_shop: Open, shop: Shop) -> None:
    async with open_shop() as watched:
        await watched.press("w")
        shop.save("tools.py", DEARER)
        await watched.until_true(lambda: watched.is_stale("refund_1"))
        await watched.press("R")
        await watched.until_true(lambda: watched.get_state("refund_2") is CaseState.FAILED and not watched.watch.stale)
        run = watched.state.progress

        await watched.press("w")
        await watched.until_true(lambda: watched.watch.changes)
        await asyncio.sleep(0.5)

        assert watched.state.progress is run


async def test_source_that_does_not_compile_is_a_problem_until_it_is_fixed(open_shop: Open, shop: Shop) -> None:
    async with open_shop() as watched:
        await watched.press("O")
        shop.save("tools.py", BROKEN)
        text = await watched.until("tools.py:7 cannot be compiled", "4 cases wait", "1 problem")
        assert watched.is_stale("ship_1")
        said = [message for message in watched.screen.state.problems.messages if "cannot be compiled" in message.text]
        assert len(said) == 1, text
        (problem,) = watched.state.problems.rows
        assert (problem.path, problem.line) == (shop.path / "tools.py", 7)

        shop.save("tools.py", TOOLS)

        await watched.until_true(lambda: not watched.state.problems.rows)
        await watched.screen.until_gone("1 problem")
        await watched.until("no case waits for tools.py any more")
        assert not watched.is_stale("ship_1")
        assert watched.get_state("ship_1") is CaseState.PASSED


async def test_a_set_that_cannot_be_read_is_a_problem_until_it_is_repaired(open_shop: Open, shop: Shop) -> None:
    text = (shop.path / "shop.evalset.json").read_text()
    async with open_shop() as watched:
        shop.save("shop.evalset.json", text[:60])
        await watched.until_true(
            lambda: any(problem.source is ProblemSource.RUN for problem in watched.state.problems.rows)
        )

        shop.save("shop.evalset.json", text)

        await watched.until_true(lambda: not watched.state.problems.rows)


async def test_changed_expectations_are_judged_again_without_the_agent(open_shop: Open, shop: Shop) -> None:
    async with open_shop() as watched:
        await watched.press("O")
        text = (shop.path / "shop.evalset.json").read_text()

        shop.save("shop.evalset.json", text.replace('"amount": 1', '"amount": 2', 1))

        await watched.until_true(lambda: watched.get_state("refund_1") is CaseState.FAILED)
        await watched.until("1 judged again")
        assert watched.get_state("refund_2") is CaseState.PASSED


async def test_a_case_that_is_added_to_the_file_is_listed_and_runs(open_shop: Open, shop: Shop) -> None:
    async with open_shop() as watched:
        shop.save_cases("refund_1", "refund_2", "ship_1", "ship_2", "ship_3")

        await watched.until("ship_3", "5 cases")
        await watched.until_true(lambda: watched.get_state("ship_3") is CaseState.PASSED)


async def test_the_pane_lists_saves_and_enter_selects_a_case(open_shop: Open, shop: Shop) -> None:
    async with open_shop() as watched:
        await watched.press("O")
        await watched.until("No change since then")
        shop.save("tools.py", DEARER)
        await watched.until("tools.py  2 of 4 run", "refund() changed <- called by 2 of 4 cases", "first verdict after")
        await watched.press("O", "O", "j", "j", "enter")

        await watched.until_true(lambda: watched.state.selected_case is not None)
        assert watched.state.selected_case.eval_id == "refund_2"


async def test_the_pane_says_what_to_do_while_the_watch_is_off(open_shop: Open) -> None:
    async with open_shop(watches=False) as watched:
        await watched.press("O")
        await watched.until("w turns watch on")


SLOW = TOOLS.replace('    """Give money back."""', "    import time; time.sleep(30)")


async def test_x_stops_the_jobs_of_the_watch_and_they_stay_stopped(open_shop: Open, shop: Shop) -> None:
    async with open_shop() as watched:
        shop.save("tools.py", SLOW)
        await watched.until_true(lambda: watched.get_state("refund_1") is CaseState.RUNNING)

        await watched.press("x")

        await watched.until_true(lambda: not watched.state.is_running)
        await asyncio.sleep(0.3)
        assert watched.get_state("refund_1") is CaseState.PASSED
        assert watched.is_stale("refund_1")
        assert not watched.state.is_running


async def test_the_user_can_run_cases_while_the_watch_runs_others(open_shop: Open, shop: Shop) -> None:
    async with open_shop() as watched:
        shop.save("tools.py", SLOW)
        await watched.until_true(lambda: watched.get_state("refund_1") is CaseState.RUNNING)
        before = watched.get_result_number("ship_1")
        await watched.select_case("ship_1")

        await watched.press("r")

        await watched.until_true(
            lambda: watched.get_result_number("ship_1") > before and watched.get_state("ship_1") is CaseState.PASSED
        )
        assert watched.get_state("refund_1") is CaseState.RUNNING
        await watched.until("why: tools.py: refund() changed")  # the run line shows the run that is still in progress


async def test_a_save_during_a_manual_run_does_not_wait(open_shop: Open, shop: Shop) -> None:
    ship_number = '    return {"tool_name": "ship"'
    slow_ship = TOOLS.replace(ship_number, f"    import time; time.sleep(30)\n{ship_number}")
    async with open_shop(watches=False) as watched:
        shop.save("tools.py", slow_ship)
        await watched.press("w")
        await watched.until_true(lambda: watched.is_stale("ship_1"))
        await watched.select_case("ship_1")
        await watched.press("r")
        await watched.until_true(lambda: watched.get_state("ship_1") is CaseState.RUNNING)

        shop.save("tools.py", slow_ship.replace('"amount": 1', '"amount": 2'))

        await watched.until_true(lambda: watched.get_state("refund_1") is CaseState.FAILED)
        assert watched.get_state("ship_1") is CaseState.RUNNING
        await watched.press("x")


async def test_a_case_without_an_answer_is_stale_with_the_reason(open_shop: Open, shop: Shop) -> None:
    shop.save("workbench.toml", (shop.path / "workbench.toml").read_text() + "[run]\ntimeout_seconds = 1\n")
    async with open_shop() as watched:
        await watched.select_case("refund_1")
        shop.save("tools.py", SLOW)
        await watched.until_true(
            lambda: watched.get_state("refund_2") is CaseState.ERROR and not watched.state.is_running
        )

        await watched.until("● STALE · ! ERROR", "stale: it has no answer", "●2")
        assert [watched.is_stale(name) for name in ("refund_1", "refund_2", "ship_1")] == [True, True, False]
        assert watched.watch.stale == 2

        shop.save("notes.txt", "x")
        await watched.until_true(lambda: len(watched.watch.changes) >= 2)
        assert watched.is_stale("refund_1")

        shop.save("tools.py", DEARER)
        await watched.until_true(lambda: watched.get_state("refund_1") is CaseState.FAILED and not watched.watch.stale)
        await watched.screen.until_gone("STALE")


async def test_a_case_that_became_unreadable_does_not_pass(open_shop: Open, shop: Shop) -> None:
    async with open_shop() as watched:
        shop.save_cases("refund_1", "refund_2", "ship_1", "ship_2", "ship_2")
        await watched.until_true(lambda: watched.watch.changes)

        await watched.until_true(lambda: watched.is_stale("ship_2"))
        assert not watched.is_stale("ship_1")


async def test_the_watch_does_not_run_cases_of_a_manual_run(open_shop: Open, shop: Shop) -> None:
    async with open_shop() as watched:
        await watched.press("w", "O")
        refund_number = '    return {"tool_name": "refund"'
        shop.save("tools.py", DEARER.replace(refund_number, f"    import time; time.sleep(4)\n{refund_number}"))
        await watched.until_true(lambda: watched.is_stale("refund_1"))
        await watched.press("R")
        await watched.until_true(lambda: watched.get_state("refund_1") is CaseState.RUNNING)

        await watched.press("w")

        await watched.until("2 of 4 run", "first verdict after")
        await watched.until_true(lambda: not watched.state.is_running and not watched.watch.stale)
        assert watched.get_state("refund_1") is watched.get_state("refund_2") is CaseState.FAILED
        assert (watched.state.progress.why, watched.state.progress.total) == (None, 4)


async def test_jobs_that_wait_in_a_manual_run_at_the_start_of_the_watch_run_once(open_shop: Open, shop: Shop) -> None:
    shop.save("workbench.toml", (shop.path / "workbench.toml").read_text() + "[run]\nconcurrency = 1\n")
    async with open_shop(watches=False) as watched:
        slow_ship = TOOLS.replace(
            '    return {"tool_name": "ship"', '    import time; time.sleep(4)\n    return {"tool_name": "ship"'
        )
        shop.save("tools.py", slow_ship)
        await watched.select_case("ship_1")
        await watched.press("left", "R")
        await watched.until_true(lambda: watched.get_state("ship_1") is CaseState.RUNNING)
        await watched.press("w")
        await watched.until_true(lambda: watched.watch.files)

        shop.save("tools.py", slow_ship.replace('"tool_input": {}', '"tool_input": {"x": 1}'))

        await watched.until_true(lambda: not watched.state.is_running and not watched.watch.stale, seconds=30)
        assert watched.get_state("ship_2") is CaseState.FAILED
        with History.open(shop.path) as history:
            ran = Counter(job.case.eval_id for run in history.runs() for job in history.jobs(run.run_id))
        assert (ran["ship_1"], ran["ship_2"]) == (3, 2)  # ship_1 had begun before the save


async def test_turning_the_watch_off_stops_its_jobs(open_shop: Open, shop: Shop) -> None:
    async with open_shop() as watched:
        shop.save("tools.py", SLOW)
        await watched.until_true(lambda: watched.get_state("refund_1") is CaseState.RUNNING)

        (thread,) = [thread for thread in threading.enumerate() if thread.name == "watcher"]

        await watched.press("alt+w")

        await watched.until_true(lambda: not watched.watch.is_active and not watched.state.is_running)
        assert watched.get_state("refund_1") is CaseState.PASSED
        assert watched.is_stale("refund_1")  # its known verdict stays
        await watched.until_true(lambda: not thread.is_alive())


@pytest.mark.prepared(None)  # it looks for child processes
async def test_quitting_while_the_watch_runs_leaves_no_threads_or_processes(open_shop: Open, shop: Shop) -> None:
    threads = set(threading.enumerate())
    tasks = asyncio.all_tasks()
    earlier_children = list_child_processes()
    async with open_shop() as watched:
        shop.save("tools.py", SLOW)
        await watched.until_true(lambda: watched.get_state("refund_1") is CaseState.RUNNING)
        children = list_child_processes() - earlier_children
        assert children
        await watched.press("q")
        await watched.until("Stop it and quit?")
        await watched.press("y")
        await asyncio.sleep(0.2)

    remaining_threads = [
        t.name for t in set(threading.enumerate()) - threads if "watch" in t.name or "workbench" in t.name
    ]
    assert remaining_threads == []
    assert {task for task in asyncio.all_tasks() - tasks if not task.done()} == set()
    assert not children & list_child_processes()


def list_child_processes() -> set[int]:
    pids: set[Any] = set()
    for file in Path("/proc/self/task").glob("*/children"):
        pids.update(int(pid) for pid in file.read_text().split())
    return pids


async def test_a_project_without_cases_is_watched_until_it_has_some(open_app: Open, tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.save("workbench.toml", "")
    async with open_app(tmp_path) as screen:
        await screen.press("w", "O")
        await screen.until("◉ watching ", "no eval set (", "There are no eval cases yet")

        shop.save_cases("ship_1")
        await screen.until("shop.evalset.json", "no agent")
        shop.save("tools.py", TOOLS)
        shop.save("agent.py", AGENT)
        shop.save("workbench.toml", '[targets.shop]\nkind = "function"\ntarget = "agent:answer"\n')
        await screen.until("✓ ship_1")  # by the criteria that count where there are none
        shop.save("test_config.json", '{"criteria": {"response_match_score": 1.0}}')
        await screen.until("✗ ship_1")


async def test_a_watch_whose_cases_all_vanish_continues_with_the_next_case(open_shop: Open, shop: Shop) -> None:
    async with open_shop() as watched:
        (shop.path / "shop.evalset.json").unlink()
        messages = watched.screen.state.problems.messages
        await watched.until_true(lambda: any("no eval set (" in message.text for message in messages))
        assert watched.watch.mode is WatchMode.ON
        assert watched.watch.total == watched.watch.stale == 0
        await watched.until("0 eval sets")

        shop.save_cases("ship_1", "ship_3")

        await watched.until("ship_3")
        await watched.until_true(lambda: watched.get_state("ship_3") is CaseState.PASSED)
        assert not watched.is_stale("ship_1")


async def test_the_layout_stores_whether_the_watch_was_on(open_shop: Open) -> None:
    async with open_shop(runs=False) as watched:
        assert watched.screen.app.layout_now.watching
        await watched.press("alt+w")
        await watched.until_true(lambda: not watched.watch.is_active)
        assert not watched.screen.app.layout_now.watching


@pytest.mark.parametrize(("width", "words"), [(140, "◉ watching "), (80, "◉ watching "), (50, " ◉ ")])
async def test_the_header_is_shortened_to_the_width_of_the_screen(open_shop: Open, width: int, words: str) -> None:
    async with open_shop(runs=False, size=(width, 24)) as watched:
        await watched.until_true(lambda: watched.watch.mode is WatchMode.ON)
        await watched.until_true(lambda: words in watched.text.splitlines()[0])
        assert ("files" in watched.text.splitlines()[0]) == (width == 140)


async def test_the_selected_case_runs_first(open_shop: Open, shop: Shop) -> None:
    shop.save("workbench.toml", (shop.path / "workbench.toml").read_text() + "[run]\nconcurrency = 1\n")
    async with open_shop() as watched:
        await watched.select_case("refund_2")
        shop.save("tools.py", SLOW)

        await watched.until_true(
            lambda: watched.state.is_running and watched.get_state("refund_2") is CaseState.RUNNING
        )

        assert watched.get_state("refund_1") is CaseState.WAITING


async def test_the_dashboard_says_what_a_save_did_and_counts_no_run_of_the_watch_as_whole(
    open_shop: Open, shop: Shop
) -> None:
    async with open_shop() as watched:
        await watched.until("whole runs  1, newest right")
        shop.save("tools.py", DEARER.replace('"tool_input": {}', '"tool_input": {"by": "air"}'))

        await watched.until("tools.py saved ", " s ago: 4 of 4 cases ran again, 4 failed")
        await watched.until("refund: amount: expected 1, got 2", "0 of 4 pass")
        assert "whole runs  1, newest right" in watched.text
