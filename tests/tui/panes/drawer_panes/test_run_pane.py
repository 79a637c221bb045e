"""The run pane: shows a run in progress and acts on its cases."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.tui.conftest import main_screen
from workbench.model.identity import JobKey
from workbench.tui.screen_context import CaseWanted, RunWanted
from workbench.tui.state.case_status import CaseState

# Answers when the test creates a file; fails on request.
WAITS = """
import pathlib, time

def answer(prompt):
    if "wait" in prompt:
        while not pathlib.Path("go").exists():
            time.sleep(0.02)
    if "refuse" in prompt:
        raise RuntimeError(f"connection refused by {prompt!r}")
    return {"response": prompt, "predicted_trajectory": [], "usage": {"total_tokens": 700}}
"""


@pytest.fixture
def waiting_project(make_project: Callable[..., Path], make: Any) -> Path:
    """Create a project whose agent waits for the file `go` in cases that request it; two cases fail alike."""
    prompts = {"slow": "wait", "quick": "hello", "one": "refuse 1", "two": "refuse 2"}
    cases = [{"eval_id": eval_id, "conversation": [make.turn(prompt, prompt)]} for eval_id, prompt in prompts.items()]
    cases.append({"eval_id": "talk", "conversation": [make.turn("hi", "hi"), make.turn("wait", "wait")]})
    return make_project(agent=WAITS, lights=cases)


def set_concurrency_to_one(project: Path) -> None:
    with (project / "workbench.toml").open("a") as settings:
        settings.write("[run]\nconcurrency = 1\n")


async def test_before_a_run_the_pane_says_what_to_do(waiting_project: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(waiting_project) as screen:
        await screen.until("lights")

        await screen.press("o")

        await screen.until("Nothing has run in this session", "C shows the plan first")


async def test_the_pane_opens_by_itself_in_a_long_run(
    waiting_project: Path, open_app: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.tui.screens.main_screen._LONG_RUN", 0.3)
    async with open_app(waiting_project) as screen:
        await screen.until("lights")
        await screen.press("R")
        await screen.until("╭─ Run ─")
        main = main_screen(screen.app)
        assert main.layout_now.drawer is None  # the next start does not open it
        assert main.focused is not None and main.focused.id == "case-list"

        await screen.press("o")  # closed by the user, it stays closed
        await screen.until_gone("╭─ Run ─")
        for _ in range(5):
            await screen.pilot.pause(0.1)
        (waiting_project / "go").touch()
        await screen.until("3/5", "5/5")
        assert "╭─ Run ─" not in screen.text


async def test_a_problem_in_a_file_is_reported_with_its_relative_path(
    waiting_project: Path, open_app: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (waiting_project / "broken.evalset.json").write_text('{"eval_cases": [{"eval_id": "bad", "conversation": [1]}]}')
    monkeypatch.chdir(waiting_project.parent)
    async with open_app(waiting_project) as screen:
        await screen.until("bad")
        await screen.press("j", "o", "r")

        await screen.until("1 × file: broken.evalset.json:1:")


async def test_a_run_is_shown_case_by_case_with_a_summary_at_the_end(
    waiting_project: Path, open_app: Callable[..., Any]
) -> None:
    async with open_app(waiting_project) as screen:
        await screen.until("slow")
        await screen.press("o", "R")

        text = await screen.until("3 of 5", "running 2, 0 waiting", "turn 1 of 1", "turn 2 of 2", "2 × ")
        assert "✓ 1 passed" in text and "! 2 error" in text
        assert "agent: RuntimeError: connection refused" in text
        assert "2.8k tokens" not in text and "1.4k tokens" in text

        (waiting_project / "go").touch()
        text = await screen.until("finished", "5 of 5", "took", "slowest")
        assert "✓ 3 passed" in text and "! 2 error" in text


async def test_enter_selects_the_case_of_a_row(waiting_project: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(waiting_project) as screen:
        await screen.until("slow")
        await screen.press("o", "R")
        await screen.until("3 of 5")

        await screen.press("g", "j", "enter")

        await screen.pilot.pause(0.1)
        assert {message.key.eval_id for message in screen.messages if isinstance(message, CaseWanted)} == {"slow"}
        assert screen.state.selected_case.eval_id == "slow"


async def test_one_case_can_be_stopped_and_the_others_continue(
    waiting_project: Path, open_app: Callable[..., Any]
) -> None:
    async with open_app(waiting_project) as screen:
        await screen.until("slow")
        await screen.press("o", "R")
        await screen.until("3 of 5")

        await screen.press("g", "j", "d")

        await screen.until("cancelled", "running 1, 0 waiting")
        assert screen.state.is_running


async def test_a_waiting_case_can_be_stopped_from_its_row(waiting_project: Path, open_app: Callable[..., Any]) -> None:
    set_concurrency_to_one(waiting_project)
    async with open_app(waiting_project) as screen:
        await screen.until("slow")
        await screen.press("o", "R")
        await screen.until("running 1, 4 waiting", "waiting 4")

        await screen.press("g", "j", "j", "j", "d")  # past the running one and the heading

        await screen.until("running 1, 3 waiting", "1 cancelled")
        (waiting_project / "go").touch()
        await screen.until("finished", "4 of 5", "⊘ 1 cancelled")
        assert screen.state.board.count_states()[CaseState.CANCELLED] == 1
        assert "⊘ quick" in screen.text


async def test_X_stops_the_selected_case_whether_it_runs_or_waits(
    waiting_project: Path, open_app: Callable[..., Any]
) -> None:
    set_concurrency_to_one(waiting_project)
    async with open_app(waiting_project) as screen:
        await screen.until("slow", "talk")
        await screen.press("R")
        await screen.until("◌ talk", "◌ quick")

        await screen.press("G", "X")
        await screen.until("⊘ talk", "◌ quick")
        await screen.press("4", "X")  # from a tab, when no run is left to stop
        await screen.until("no selected case is running or waiting")
        await screen.press("escape", "g", "j", "j", "X")

        await screen.until("⊘ slow", "✓ quick", "finished")
        assert screen.state.board.count_states()[CaseState.CANCELLED] == 2


async def test_X_on_the_row_of_an_agent_stops_all_its_cases(
    waiting_project: Path, open_app: Callable[..., Any]
) -> None:
    set_concurrency_to_one(waiting_project)
    async with open_app(waiting_project) as screen:
        await screen.until("slow", "talk")
        await screen.press("R")
        await screen.until("◌ talk", "◌ quick")

        await screen.press("g", "X")

        await screen.until("finished")
        assert screen.state.board.count_states()[CaseState.CANCELLED] == 5


async def test_a_case_can_be_stopped_as_soon_as_it_is_shown_as_waiting(
    waiting_project: Path, open_app: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_concurrency_to_one(waiting_project)
    async with open_app(waiting_project) as screen:
        await screen.until("slow", "talk")
        await screen.press("G")
        expect = screen.state.board.begin_jobs

        def expect_and_stop(jobs: Sequence[JobKey]) -> None:
            expect(jobs)
            asyncio.get_running_loop().call_soon(main_screen(screen.app).action_cancel_case)

        monkeypatch.setattr(screen.state.board, "begin_jobs", expect_and_stop)
        await screen.press("R")

        await screen.until("⊘ talk", "◌ quick")


async def test_a_running_case_that_is_queued_again_ends_once(
    waiting_project: Path, open_app: Callable[..., Any]
) -> None:
    async with open_app(waiting_project) as screen:
        await screen.until("slow")
        await screen.press("o", "R")
        await screen.until("3 of 5")

        await screen.press("g", "j", "plus")
        await screen.until("queued again: slow", "running 2")
        record = screen.state.board.get_record(screen.state.browser.sets[0].case_keys[0])

        assert record.pending_jobs == 1
        (waiting_project / "go").touch()
        await screen.until("finished", "5 of 5", "✓ 3 passed")


async def test_a_stopped_case_can_be_queued_again_in_the_same_run(
    waiting_project: Path, open_app: Callable[..., Any]
) -> None:
    async with open_app(waiting_project) as screen:
        await screen.until("slow")
        await screen.press("o", "R")
        await screen.until("3 of 5")
        await screen.press("g", "j", "delete")
        await screen.until("running 1, 0 waiting")

        await screen.press("plus")  # the cursor stays on the case

        await screen.until("queued again: slow", "running 2, 0 waiting")
        (waiting_project / "go").touch()
        await screen.until("finished", "5 of 5", "✓ 3 passed")


async def test_differences_of_a_waiting_case_cannot_be_accepted(
    make: Any, make_project: Callable[..., Path], open_app: Callable[..., Any]
) -> None:
    turns = {"slow": make.turn("wait", "wait"), "one": make.turn("hello", "goodbye")}
    cases = [{"eval_id": eval_id, "conversation": [turn]} for eval_id, turn in turns.items()]
    project = make_project(agent=WAITS, criteria={"response_match_score": 1.0}, lights=cases)
    set_concurrency_to_one(project)
    (project / "go").touch()
    async with open_app(project) as screen:
        await screen.until("slow")
        await screen.press("R")
        await screen.until("✗ one", "finished")
        (project / "go").unlink()
        await screen.press("n", "2", "R")
        await screen.until("◌ one", "difference 1 of 1")

        await screen.press("a")

        await screen.until("the case is queued to run")


@pytest.mark.parametrize(("tab", "key"), [*((tab, "r") for tab in "12345"), ("6", "f9")])
async def test_the_selected_case_can_be_run_from_every_tab(
    waiting_project: Path, open_app: Callable[..., Any], tab: str, key: str
) -> None:
    async with open_app(waiting_project) as screen:
        await screen.until("quick")
        await screen.press("j", "j", "j", tab)
        await screen.until("quick · lights")

        await screen.press(key)

        await screen.until("✓ quick", "finished", "1/1")


async def test_cases_with_the_same_failure_are_queued_again_together(
    waiting_project: Path, open_app: Callable[..., Any]
) -> None:
    async with open_app(waiting_project) as screen:
        await screen.until("slow")
        await screen.press("o", "R")
        await screen.until("3 of 5", "2 × ")
        (waiting_project / "agent.py").write_text(WAITS.replace("refuse", "never"))

        await screen.press("g", "j", "j", "j", "j", "plus")

        await screen.until("queued again: 2 cases", "✓ 3 passed")
        (waiting_project / "go").touch()
        await screen.until("finished", "✓ 5 passed")


async def test_after_the_run_failed_cases_can_be_rerun(waiting_project: Path, open_app: Callable[..., Any]) -> None:
    (waiting_project / "go").touch()
    async with open_app(waiting_project) as screen:
        await screen.until("slow")
        await screen.press("o", "R")
        await screen.until("finished", "2 × ")

        await screen.press("g", "j", "plus")

        await screen.until("finished", "2 of 2")
        requests = [message for message in screen.messages if isinstance(message, RunWanted)]
        assert {eval_id for selection in requests[-1].selections for eval_id in selection.cases} == {"one", "two"}


async def test_x_stops_the_run(waiting_project: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(waiting_project) as screen:
        await screen.until("slow")
        await screen.press("o", "R")
        await screen.until("3 of 5")

        await screen.press("x")

        await screen.until("cancelled", "⊘ 2 cancelled")


async def test_stopping_the_run_keeps_the_earlier_verdicts(waiting_project: Path, open_app: Callable[..., Any]) -> None:
    set_concurrency_to_one(waiting_project)
    (waiting_project / "go").touch()
    async with open_app(waiting_project) as screen:
        await screen.until("slow")
        await screen.press("o", "R")
        await screen.until("finished", "✓ slow", "✓ talk")
        (waiting_project / "go").unlink()
        source = waiting_project / "agent.py"
        source.write_text(source.read_text() + "\n# changed, so that nothing is kept\n")
        await screen.press("R")
        await screen.until("running 1, 4 waiting")

        await screen.press("x")

        await screen.until("⊘ 5 cancelled", "✓ quick", "! one", "! two")  # the others may be stale: they look for "go"
        counts = screen.state.board.count_states()
        assert counts[CaseState.PASSED] == 3
        assert counts[CaseState.CANCELLED] == 0


async def test_the_pane_closes_and_opens_and_is_usable_in_a_small_terminal(
    waiting_project: Path, open_app: Callable[..., Any]
) -> None:
    (waiting_project / "go").touch()
    async with open_app(waiting_project, size=(80, 24)) as screen:
        await screen.until("slow")
        await screen.press("o", "R")
        await screen.until("5 of 5", "2 × ")

        await screen.press("o")
        await screen.until_gone("2 × ")
        await screen.press("o")
        await screen.until("5 of 5")


async def test_escape_never_stops_a_run(waiting_project: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(waiting_project) as screen:
        await screen.until("slow")
        await screen.press("R")
        await screen.until("3/5")

        await screen.press("3", *["escape"] * 4)
        (waiting_project / "go").touch()

        await screen.until("finished", "5/5")


async def test_a_stopped_run_resumes_with_its_own_cases_and_criteria(
    waiting_project: Path, open_app: Callable[..., Any]
) -> None:
    async with open_app(waiting_project) as screen:
        await screen.until("slow")
        await screen.press("R")
        await screen.until("3/5")
        run_id = screen.state.progress.run_id

        await screen.press("x")
        await screen.until("cancelled", "alt+x resumes")
        (waiting_project / "go").touch()
        await screen.press("j", "alt+x")

        await screen.until("finished", "5/5")
        assert screen.state.progress.run_id == run_id
        assert screen.state.progress.jobs.reused == 1  # the passed case is reused; errors and cancelled cases ran again
        assert "alt+x" not in screen.text


async def test_stopped_runs_are_resumable_until_their_cases_have_run(
    waiting_project: Path, open_app: Callable[..., Any]
) -> None:
    async def stop() -> str:
        await screen.press("x")
        await screen.until("cancelled", "alt+x resumes")
        run_id: str = screen.state.progress.run_id
        return run_id

    async with open_app(waiting_project) as screen:
        await screen.until("slow")
        await screen.press("R")
        await screen.until("3/5")
        first = await stop()
        await screen.press("j", "j", "r")  # the slow case
        await screen.until("0/1")
        second = await stop()
        await screen.press("j", "r")
        await screen.until("finished", "1/1", "alt+x resumes the run that was stopped earlier")
        (waiting_project / "go").touch()

        await screen.press("alt+x")
        await screen.until("finished", "1/1", "alt+x resumes the run that was stopped earlier")
        assert screen.state.progress.run_id == second
        await screen.press("alt+x")
        await screen.until("finished", "5/5")
        assert screen.state.progress.run_id == first and "alt+x" not in screen.text

        (waiting_project / "go").unlink()
        source = waiting_project / "agent.py"
        source.write_text(source.read_text() + "\n# changed, so that nothing is kept\n")
        await screen.press("R")
        await screen.until("3/5")
        await stop()
        (waiting_project / "go").touch()
        await screen.press("R")
        await screen.until("finished", "5/5")
        assert "alt+x" not in screen.text


async def test_a_run_stopped_by_quitting_can_be_resumed_in_the_next_session(
    waiting_project: Path, open_app: Callable[..., Any]
) -> None:
    async with open_app(waiting_project) as screen:
        await screen.until("slow")
        await screen.press("R")
        await screen.until("3/5")
        await screen.press("q", "y")
    (waiting_project / "go").touch()

    async with open_app(waiting_project) as screen:
        await screen.until("alt+x resumes the last run")
        await screen.press("alt+x")

        await screen.until("finished", "5/5")
        assert screen.state.progress.jobs.reused == 1
