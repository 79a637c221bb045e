"""The diff on the screen of a real project: every key does its documented action."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.tui.differing_project import AGENT, RIGHT, make_differing_project, open_diff, read_calls, turn
from workbench.tui.panes.diff_pane import DiffView
from workbench.tui.screen_context import DocumentsChanged, RunBegun


@pytest.fixture
def project(make: Any, make_project: Any) -> Path:
    return make_differing_project(make, make_project)


async def test_the_cursor_goes_from_difference_to_difference(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_diff(screen)
        await screen.until("difference 1 of 2", "▌a ", "a tool_trajectory_avg_score 0.00 < 1.00", "EXPECTED", "ACTUAL")

        await screen.press("right_curly_bracket")
        await screen.until("difference 2 of 2", "exact_match 0.00 < 1.00")
        await screen.press("right_curly_bracket")
        await screen.until("no further difference")
        await screen.press("K")
        await screen.until("difference 1 of 2")
        await screen.press("{")
        await screen.until("no earlier difference")


async def test_a_diff_opens_at_the_first_difference_that_cost_points(
    open_app: Any, make: Any, make_project: Any
) -> None:
    free = [turn(make, f"step {number}", f"other words {number}", *RIGHT) for number in range(12)]
    cases = [{"eval_id": "long", "conversation": [*free, turn(make, "last", None, ("look", {}))]}]
    project = make_project(agent=AGENT, criteria={"tool_trajectory_avg_score": 1.0}, lights=cases)
    async with open_app(project) as screen:
        await screen.until("lights", "long")
        await screen.press("R")
        await screen.until("✗ long", "finished")
        await screen.press("n", "2")
        await screen.until("difference 13 of 13", "tool_trajectory_avg_score 0.00 < 1.00", "turn 13", "+ set")

        await screen.press("{")
        await screen.until("difference 12 of 13", "costs nothing")


async def test_accepting_one_difference_saves_it_and_scores_again_without_the_agent(
    open_app: Any, project: Path
) -> None:
    async with open_app(project) as screen:
        await open_diff(screen)
        (project / "agent.py").write_text("raise SystemExit('must not run')")  # the verdicts become stale, too

        await screen.press("a")
        await screen.until("accepted 1 difference", "difference 1 of 1", "✓ tool_trajectory_avg_score")
        assert read_calls(project, 0)[1]["args"] == {"n": 2, "m": [1]}
        assert "✗ exact_match" in screen.text
        assert any(isinstance(message, RunBegun) for message in screen.messages)
        assert any(isinstance(message, DocumentsChanged) for message in screen.messages)

        await screen.press("a")
        await screen.until("no differences", "✓ tool_trajectory_avg_score", "✓ exact_match")


async def test_undo_reverts_an_acceptance_and_scores_again(open_app: Any, project: Path) -> None:
    before = (project / "lights.evalset.json").read_bytes()
    async with open_app(project) as screen:
        await open_diff(screen)
        await screen.press("A")
        await screen.until("Accept 2 differences of one")
        await screen.press("y")
        await screen.until("✓ one", "no differences")

        await screen.press("u")

        await screen.until("✗ one", "difference 1 of 2", "undone: accept 2 differences of one")
        assert (project / "lights.evalset.json").read_bytes() == before
        await screen.press("U")
        await screen.until("✓ one", "no differences")


async def test_undo_in_another_tab_scores_again_too(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_diff(screen)
        await screen.press("A")
        await screen.until("Accept 2 differences of one")
        await screen.press("y")
        await screen.until("✓ one", "no differences")

        await screen.press("4", "u")

        await screen.until("✗ one", "FAILED · one")
        await screen.press("U")
        await screen.until("✓ one", "PASSED · one")
        await screen.press("n", "u")  # from another case of the set
        await screen.until("two · lights", "✗ one")


async def test_a_turn_can_be_accepted_and_equal_turns_are_folded(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_diff(screen, case="two")
        await screen.until("turn 1 · user  hi  as expected (2 calls)", "set (not expected)")

        await screen.press("d")
        await screen.until("only differences", "… 1 call as expected")
        await screen.press("d")
        await screen.until("· everything", "It is done: hi")
        await screen.press("T")
        await screen.until("accepted 1 difference", "no differences")
    assert [call["name"] for call in read_calls(project, 1, 1)] == ["look", "set"]


async def test_an_error_is_shown_first_and_cannot_be_accepted(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_diff(screen, case="two")
        await screen.press("n")
        await screen.until("broken · lights", "! agent error at turn 1", "no such lamp", "did not finish this turn")

        assert "no differences" not in screen.text
        await screen.press("a")
        await screen.until("the case ended in an error; its incomplete")


async def test_a_case_that_changed_on_disk_is_refused_with_the_reason(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_diff(screen)
        path = project / "lights.evalset.json"
        path.write_text(path.read_text().replace('"n": 1', '"n": 7'))

        await screen.press("a")

        await screen.until("not accepted: the case")
        assert read_calls(project, 0)[1]["args"]["n"] == 7


async def test_a_in_the_list_opens_the_diff_and_W_shows_the_whole_text(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await screen.until("lights", "right")
        await screen.press("R")
        await screen.until("✗ one", "finished")
        await screen.press("n", "4")
        await screen.press("a")
        await screen.until("difference 1 of 2")

        await screen.press("W")
        await screen.until("· everything", "back")
        await screen.press("}", "d", "{")
        await screen.press("escape")
        await screen.until("1 Case")


async def test_a_click_puts_the_cursor_on_a_difference(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_diff(screen)
        await screen.until("difference 1 of 2")
        rows = screen.text.split("\n")
        row = next(number for number, line in enumerate(rows) if "It was done: on" in line)

        await screen.pilot.click(offset=(80, row))

        await screen.until("difference 2 of 2")


async def test_the_diff_is_unified_on_a_narrow_screen(open_app: Any, project: Path) -> None:
    async with open_app(project, size=(90, 30)) as screen:
        await screen.until("lights", "right")
        await screen.press("R")
        await screen.until("✗ one", "finished")
        await screen.press("n", "2")

        await screen.until("- EXPECTED  + ACTUAL", "-   n  1", "+   n  2")


async def test_a_large_diff_is_computed_in_a_thread(open_app: Any, make: Any, make_project: Any) -> None:
    agent = 'def answer(prompt):\n    return "a word " * 30_000 + "end"\n'
    cases = [{"eval_id": "large", "conversation": [make.turn("Go", "a word " * 30_000 + "END")]}]
    project = make_project(agent=agent, criteria={"exact_match": 1.0}, big=cases)
    async with open_app(project) as screen:
        await screen.until("large")
        await screen.press("R")
        await screen.until("✗ large", "finished")
        await screen.press("n", "2")
        await screen.until("difference 1 of 1", "a word a word")

        await screen.press("G")
        await screen.until("different: W shows all")
        await screen.press("W")
        await screen.until("everything")
        await screen.press("G")
        await screen.until("END", "exact_match 0.00 < 1.00")


PROMPT_ONLY = [{"eval_id": "new", "conversation": [{"user_content": {"role": "user", "parts": [{"text": "on"}]}}]}]


@pytest.mark.parametrize("has_criteria", [True, False])
async def test_a_prompt_becomes_a_whole_case_by_three_keys(
    open_app: Any, make_project: Any, has_criteria: bool
) -> None:
    criteria = {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}
    project = make_project(agent=AGENT, criteria=criteria, lights=PROMPT_ONLY)
    if not has_criteria:
        (project / "test_config.json").unlink()
    async with open_app(project) as screen:
        await screen.until("new")
        await screen.press("j", "j", "2")

        await screen.press("r")
        await screen.until("(none expected)", "(not expected)")
        await screen.press("A")
        await screen.until("as the new expectation?")
        await screen.press("y")

        await screen.until("✓ PASSED", "no differences")
        assert [call["name"] for call in read_calls(project, 0)] == ["look", "set"]
        (saved,) = json.loads((project / "lights.evalset.json").read_text())["eval_cases"]
        assert saved["conversation"][0]["final_response"]["parts"] == [{"text": "It is done: on"}]


async def test_a_response_that_no_criterion_judges_is_not_offered(open_app: Any, make_project: Any) -> None:
    async with open_app(make_project(agent=AGENT, lights=PROMPT_ONLY)) as screen:
        await screen.until("new")
        await screen.press("j", "j", "2", "r")
        await screen.until("+ look", "(not expected)")
        assert "(none expected)" not in screen.text


async def test_there_is_nothing_to_accept_if_all_cases_passed(open_app: Any, make: Any, make_project: Any) -> None:
    case = {"eval_id": "right", "conversation": [turn(make, "on", None, *RIGHT)]}
    async with open_app(make_project(agent=AGENT, lights=[case])) as screen:
        await screen.until("right")
        await screen.press("R")
        await screen.until("✓ right", "finished")
        await screen.press("j", "j", "2", "a")
        await screen.until("nothing to accept")


async def test_another_selection_cancels_a_large_diff(open_app: Any, make: Any, make_project: Any) -> None:
    agent = 'def answer(prompt):\n    return "a word " * 30_000 + "end" if prompt == "Go" else "short"\n'
    cases = [
        {"eval_id": "small", "conversation": [make.turn("Stay", "SHORT")]},
        {"eval_id": "large", "conversation": [make.turn("Go", "a word " * 30_000 + "END")]},
    ]
    project = make_project(agent=agent, criteria={"exact_match": 1.0}, big=cases)
    async with open_app(project) as screen:
        await screen.until("large")
        await screen.press("R")
        await screen.until("✗ large", "finished")
        await screen.press("n", "2")
        await screen.until("small · big", "SHORT")
        view = screen.app.screen.query_one(DiffView)
        small = view.state.source
        large = replace(small, case=make.case("large", make.turn("Go", "a word " * 30_000)))

        view.show(large, about="large")
        view.show(small, about="small")
        await screen.pilot.pause(1.0)  # the large diff would have arrived by now

        await screen.until("SHORT", "difference 1 of 1")
        assert view.state.source == small
