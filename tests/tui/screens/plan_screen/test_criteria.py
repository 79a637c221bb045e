"""The criteria picker: choose criteria, try them, and save them to the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

AGENT = """
def answer(prompt):
    return {"response": prompt, "predicted_trajectory": []}
"""

FILE = """\
{
  "criteria": {
    "tool_trajectory_avg_score": 1.0, // every call
    "mine": {"threshold": 0.5}
  },
  "custom_metrics": {"mine": {"code_config": {"name": "agent.mine"}, "description": "Whether [b] it is mine."}}
}
"""


@pytest.fixture
def hello(make_project: Callable[..., Path], make: Any) -> Path:
    """Create a project with two cases, one without an expected response; a file with comments has the criteria."""
    mute = make.turn("hi", None)
    cases = [{"eval_id": "one", "conversation": [make.turn("hi", "hi")]}, {"eval_id": "two", "conversation": [mute]}]
    project = make_project(agent=AGENT, lights=cases)
    (project / "test_config.json").write_text(FILE)
    return project


async def open_picker(screen: Any) -> None:
    """Open the picker."""
    await screen.until("one")
    await screen.press("c")
    await screen.until("criteria of", "[x] tool_trajectory_avg_score")


async def test_all_metrics_are_listed_by_kind_with_their_details(hello: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(hello, size=(160, 60)) as screen:
        await open_picker(screen)

        text = await screen.until("all 2 have what it needs")

        for title in ("tool calls", "responses", "final state", "metrics of this project", "judged by a model"):
            assert title in text
        assert "[x] mine" in text and "[ ] hallucinations_v1" in text
        assert "a number from 0 to 1, more is better" in text and "match_type" in text


async def test_metrics_are_listed_on_a_screen_of_ten_lines(hello: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(hello, size=(40, 10)) as screen:
        await screen.until("one")
        await screen.press("c")

        await screen.until("[x] tool_t")


async def test_a_metric_says_which_of_the_selected_cases_it_can_judge(
    hello: Path, open_app: Callable[..., Any]
) -> None:
    async with open_app(hello) as screen:
        await open_picker(screen)

        await screen.press("slash", *"response_match_s", "enter")

        await screen.until("1 of 2 cases; the others lack an")


async def test_a_metric_is_switched_on_and_off(hello: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(hello) as screen:
        await open_picker(screen)
        await screen.press("slash", *"response_match_s", "enter")
        await screen.until("[ ] response_match_score")

        await screen.press("space")
        await screen.until("[x] response_match_score", "≥ 0.8", "● changed, not in the file")

        await screen.press("space")
        await screen.until("[ ] response_match_score")
        await screen.until_gone("● changed")


async def test_the_threshold_changes_in_steps_within_its_range(hello: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(hello) as screen:
        await open_picker(screen)

        await screen.press("right")
        await screen.until("≥ 1.00")
        await screen.press("h", "left")
        await screen.until("≥ 0.90")
        await screen.press("l")
        await screen.until("≥ 0.95")


async def test_the_mouse_moves_a_threshold_and_the_last_scores_say_how_many_would_pass(
    hello: Path, open_app: Callable[..., Any]
) -> None:
    async with open_app(hello, size=(200, 50)) as screen:
        await screen.until("one")
        await screen.press("R")
        await screen.until("finished")
        await open_picker(screen)
        text = await screen.until("2 of 2 would pass", "●")
        y, line = next((y, line) for y, line in enumerate(text.splitlines()) if "●" in line and "[x]" in line)
        start = line.index("─")

        await screen.pilot.mouse_down(offset=(start, y))
        await screen.until("≥ 0.00")
        await screen.pilot.hover(offset=(start + 12, y))
        await screen.until("≥ 0.5")
        await screen.pilot.mouse_up(offset=(start + 12, y))
        await screen.pilot.hover(offset=(start, y))
        await screen.pilot.pause()
        assert "≥ 0.5" in screen.text


async def test_a_single_case_shows_what_a_threshold_would_change_for_its_whole_set(
    hello: Path, open_app: Callable[..., Any]
) -> None:
    async with open_app(hello, size=(200, 50)) as screen:
        await screen.until("one")
        await screen.press("R")
        await screen.until("finished")
        await screen.press("G", "c")

        await screen.until("the selected case has", "2 of 2 would pass")


async def test_a_threshold_is_checked_while_typing(hello: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(hello) as screen:
        await open_picker(screen)

        await screen.press("enter")
        await screen.until("threshold of tool_trajectory_avg_score")
        await screen.press("ctrl+u", "7")
        await screen.until("expected a number from 0 to 1")
        await screen.press("ctrl+u", *"0.25", "enter")

        await screen.until("≥ 0.25")


async def test_an_empty_threshold_makes_a_metric_informational(hello: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(hello) as screen:
        await open_picker(screen)

        await screen.press("enter")
        await screen.until("threshold of")
        await screen.press("ctrl+u", "enter")

        await screen.until("informs", "none: only reported")


async def test_an_option_is_changed_to_its_next_value_or_typed(hello: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(hello) as screen:
        await open_picker(screen)

        await screen.press("j", "right")
        await screen.until("IN_ORDER", "EXACT, IN_ORDER, ANY_ORDER")
        await screen.press("left")
        await screen.until_gone("match_type                            IN_ORDER")

        await screen.press("j", "j", "enter")
        await screen.until("args_match of tool_trajectory_avg_score")
        await screen.press(*"exakt")
        await screen.until("expected one of exact, ignore, subset, superset")
        await screen.press("ctrl+u", *"subset", "enter")
        await screen.until("subset", "● changed")


async def test_a_preset_replaces_the_criteria(hello: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(hello) as screen:
        await open_picker(screen)

        await screen.press("p")
        await screen.until(
            "Judge for which purpose?", "CI: Expected calls", "safety: No response may do harm, whatever is asked."
        )
        await screen.press("j", "enter")
        await screen.until("[x] final_response_match_v2")

        await screen.press("p")
        await screen.until("Judge for which purpose?")
        await screen.press("enter")
        await screen.until("[x] tool_trajectory_avg_score", "[x] response_match_score")


async def test_b_restores_the_criteria_of_the_file(hello: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(hello) as screen:
        await open_picker(screen)
        await screen.press("left")
        await screen.until("● changed")

        await screen.press("b")

        await screen.until_gone("● changed")
        await screen.until("≥ 1.00")


async def test_cases_run_with_the_chosen_criteria_and_the_file_is_unchanged(
    hello: Path, open_app: Callable[..., Any]
) -> None:
    async with open_app(hello) as screen:
        await open_picker(screen)
        await screen.press("slash", *"mine", "enter")
        await screen.press("space", "escape", "left", "r")

        await screen.until("finished", "2/2")

        stored_config = await screen.app._backend.call(read_newest_criteria)
        assert stored_config.source == "chosen for this run"
        assert [criterion.metric for criterion in stored_config.criteria] == ["tool_trajectory_avg_score"]
        assert (hello / "test_config.json").read_text() == FILE


def read_newest_criteria(workspace: Any) -> Any:
    with workspace.history() as history:
        return history.run("latest").criteria["lights.evalset.json"]


async def test_the_choice_is_remembered_for_the_set(hello: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(hello) as screen:
        await open_picker(screen)
        await screen.press("left", "escape")
        await screen.until_gone("criteria of")

        await screen.press("c")

        await screen.until("≥ 0.95", "● changed, not in the file")


async def test_an_invalid_choice_does_not_run(hello: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(hello) as screen:
        await open_picker(screen)
        await screen.press("slash", *"single_tool", "enter", "space")
        await screen.until("[x] trajectory_single_tool_use", "!")

        await screen.press("r")

        await screen.until("trajectory_single_tool_use: found")
        assert "criteria of" in screen.text


async def test_criteria_can_be_saved_to_the_file_and_undone(hello: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(hello) as screen:
        await open_picker(screen)
        await screen.until_gone("u undo")
        await screen.press("left", "ctrl+s")

        await screen.until("saved in test_config.json", "u undo")
        assert (hello / "test_config.json").read_text() == FILE.replace("1.0, //", "0.95, //")
        assert "● changed" not in screen.text

        await screen.press("u")
        await screen.until("test_config.json is restored")
        assert (hello / "test_config.json").read_text() == FILE


async def test_a_missing_criteria_file_is_created_next_to_the_set(hello: Path, open_app: Callable[..., Any]) -> None:
    file = hello / "test_config.json"
    file.unlink()
    async with open_app(hello) as screen:
        await open_picker(screen)
        await screen.until("saving them creates test_config.json")

        await screen.press("left", "ctrl+s")

        await screen.until("saved in test_config.json")
        assert json.loads(file.read_text()) == {
            "criteria": {"tool_trajectory_avg_score": 0.95, "response_match_score": 0.8}
        }
        await screen.press("u")
        await screen.until("test_config.json is deleted again")
        assert not file.exists()


@pytest.mark.parametrize("width", [40, 80, 100, 160])
async def test_a_file_that_also_judges_other_sets_says_so_at_every_width(
    make_project: Callable[..., Path], make: Any, open_app: Callable[..., Any], width: int
) -> None:
    case = {"eval_id": "one", "conversation": [make.turn("hi", "hi")]}
    project = make_project(agent=AGENT, a_set_with_a_name_so_long_that_it_fills_the_line=[case], b=[case], c=[case])
    async with open_app(project, size=(width, 24)) as screen:
        await screen.until("one" if width > 40 else "pinger")
        await screen.press("j", "c")
        await screen.until("shared with 2 other sets")

        await screen.press("left")
        await screen.until("● changed", "shared with 2 other sets")
        await screen.press("ctrl+s")

        await screen.until("saved in")
        assert any("shared with 2 other sets" in notice.text for notice in screen.state.problems.messages)


async def test_no_other_sets_are_mentioned_if_all_sets_of_a_file_are_selected(
    make_project: Callable[..., Path], make: Any, open_app: Callable[..., Any]
) -> None:
    case = {"eval_id": "one", "conversation": [make.turn("hi", "hi")]}
    async with open_app(make_project(agent=AGENT, a=[case], b=[case])) as screen:
        await screen.until("one")

        await screen.press("g", "c")

        text = await screen.until("criteria of 2 eval sets", "test_config.json")
        assert "shared with" not in text


async def test_saving_over_a_changed_file_asks_first(hello: Path, open_app: Callable[..., Any]) -> None:
    file = hello / "test_config.json"
    async with open_app(hello) as screen:
        await open_picker(screen)
        file.write_text('{"criteria": {"bleu": 0.1}, "theirs": 1}')

        await screen.press("left", "ctrl+s")
        await screen.until("was changed by another program", "Write these criteria into the changed file")
        await screen.press("n")
        assert json.loads(file.read_text())["criteria"] == {"bleu": 0.1}

        await screen.press("ctrl+s")
        await screen.until("Write these criteria into the changed file")
        await screen.press("y")
        await screen.until("saved in test_config.json")
        file_content = json.loads(file.read_text())
        assert file_content["theirs"] == 1 and file_content["criteria"]["tool_trajectory_avg_score"] == 0.95


async def test_criteria_that_another_program_wrote_are_shown_instead_of_those_that_were_read(
    hello: Path, open_app: Callable[..., Any]
) -> None:
    file = hello / "test_config.json"
    file.write_text('{"criteria": {"tool_trajectory_avg_score": 0.1}}')
    async with open_app(hello) as screen:
        await open_picker(screen)
        for key, threshold in (("ctrl+s", 0.35), ("b", 0.45)):
            file.write_text(json.dumps({"criteria": {"tool_trajectory_avg_score": threshold}}))

            await screen.press(key)

            await screen.until(f"≥ {threshold}", "changed by another program; its present criteria are shown")
        assert json.loads(file.read_text()) == {"criteria": {"tool_trajectory_avg_score": 0.45}}


async def test_an_unreadable_file_is_reported_and_the_picker_closes(hello: Path, open_app: Callable[..., Any]) -> None:
    (hello / "test_config.json").write_text("{")
    async with open_app(hello) as screen:
        await screen.until("one")

        await screen.press("c")

        await screen.until("test_config.json:1:2")
        await screen.until_gone("criteria of")


async def test_the_picker_is_usable_in_a_small_terminal(hello: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(hello, size=(80, 24)) as screen:
        await open_picker(screen)

        text = await screen.until("≥ 1", "Whether the agent made the expected tool calls")
        assert "^s save" in text and "r run" in text
