"""The plan before a run: show, change, run or cancel it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from workbench.tui.state.run_plan import check_setting
from workbench.tui.widgets.key_line import KeyLine

AGENT = """
def answer(prompt):
    return {"response": prompt, "predicted_trajectory": []}
"""


@pytest.fixture
def hello(make_project: Callable[..., Path], make: Any) -> Path:
    """Create a project with two cases."""
    cases = [{"eval_id": name, "conversation": [make.turn("hi", "hi")]} for name in ("one", "two")]
    return make_project(agent=AGENT, lights=cases)


def add_run_setting(project: Path, setting: str) -> None:
    """Add a setting of `[run]`."""
    with (project / "workbench.toml").open("a") as file:
        file.write(f"\n[run]\n{setting}\n")


async def test_a_run_of_function_agents_starts_without_a_question(hello: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(hello) as screen:
        await screen.until("one")

        await screen.press("R")

        await screen.until("finished", "2/2")


async def test_the_plan_shows_the_jobs_the_cost_and_the_criteria(hello: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(hello) as screen:
        await screen.until("one")

        await screen.press("C")

        text = await screen.until("2 cases × 1 repeat = 2 jobs")
        assert "2 turns of functions, which cost nothing" in text
        assert "no estimate: no earlier run of these cases" in text
        assert "tool_trajectory_avg_score 1" in text and "test_config.json" in text


async def test_the_run_line_is_idle_while_the_plan_waits_for_an_answer(
    hello: Path, open_app: Callable[..., Any]
) -> None:
    async with open_app(hello) as screen:
        await screen.until("one")
        await screen.press("C")
        await screen.until("2 cases × 1 repeat", "no run in this session")
        assert "planning the run" not in screen.text
        await screen.press("escape")
        await screen.until_gone("2 cases × 1 repeat")


async def test_options_of_criteria_are_shown_as_names_and_values(
    make_project: Callable[..., Path], open_app: Callable[..., Any], make: Any
) -> None:
    criteria = {
        "rouge_1": {"threshold": 0.5, "stemmer": True, "tokenizer": "unicode"},
        "trajectory_recall": {"threshold": 1, "args_match": {"default": "exact", "tools": {"log": "ignore"}}},
    }
    project = make_project(criteria=criteria, lights=[{"eval_id": "one", "conversation": [make.turn("hi", "hi")]}])
    async with open_app(project) as screen:
        await screen.until("one")
        await screen.press("C")

        await screen.until("rouge_1 0.50 [stemmer true, tokenizer unicode]")
        await screen.until("(default exact, tools (log ignore))]")


async def test_keys_that_need_an_agent_say_why_they_do_nothing(
    make_project: Callable[..., Path], open_app: Callable[..., Any], make: Any
) -> None:
    project = make_project(lights=[])
    (project / "workbench.toml").write_text("")
    case = {"eval_id": "one", "conversation": [make.turn("hi", "hi")]}
    (project / "lights.evalset.json").write_text(json.dumps({"eval_set_id": "l", "eval_cases": [case]}))
    async with open_app(project) as screen:
        await screen.until("one")
        for row in ("j", "j"):  # the set, the case
            await screen.press(row, "C")
            await screen.until("there is nothing to run: no agent belongs to it")
            await screen.press("alt+s", "alt+g")
            await screen.until("no scenarios can be written: no agent belongs to it")
            screen.app.screen.query_one(KeyLine).show_message("", "warning")
            await screen.until_gone("no agent belongs to it")


async def test_a_small_terminal_shows_every_value_and_the_keys(hello: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(hello, size=(40, 10)) as screen:
        await screen.until("one")

        await screen.press("C")

        text = await screen.until("⏎ run", "2 cases × 1 repeat")
        for words in (r"repeats of each case +1  ◂ ▸", r"cases at a time +\d+ ", r"seconds for a case +120 "):
            assert re.search(words, text), text


async def test_enter_runs_and_escape_does_not(hello: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(hello) as screen:
        await screen.until("one")
        await screen.press("C")
        await screen.until("2 jobs")
        await screen.press("escape")
        await screen.until("no run in this session")

        await screen.press("C")
        await screen.until("2 jobs")
        await screen.press("enter")

        await screen.until("finished", "2/2")
        await screen.press("C")
        await screen.until("from earlier runs of 2 of 2 cases")


async def test_repeats_are_changed_with_the_arrows_and_the_plan_follows(
    hello: Path, open_app: Callable[..., Any]
) -> None:
    async with open_app(hello) as screen:
        await screen.until("one")
        await screen.press("C")
        await screen.until("2 jobs")

        await screen.press("right", "right")
        await screen.until("2 cases × 3 repeats = 6 jobs")
        await screen.press("left", "enter")

        await screen.until("finished", "4/4")


async def test_settings_are_filtered_and_enter_in_the_filter_does_not_run(
    hello: Path, open_app: Callable[..., Any]
) -> None:
    async with open_app(hello) as screen:
        await screen.until("one")
        await screen.press("C")
        await screen.until("2 jobs", "cases at a time")

        await screen.press("slash", *"at a time", "enter")
        await screen.until("filter: at a time", "2 jobs")
        rows = screen.app.screen.query_one("#plan-settings")
        assert len(rows.source) == 1
        await screen.press("escape", "enter")

        await screen.until("finished", "2/2")


async def test_a_value_is_typed_and_a_wrong_one_refused(hello: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(hello) as screen:
        await screen.until("one")
        await screen.press("C")
        await screen.until("2 jobs")

        await screen.press("j", "e")
        await screen.until("cases at a time", "⏎ done")
        await screen.press("ctrl+u", *"none", "enter")
        await screen.until("expected a whole number of at least 1")
        await screen.press("ctrl+u", "3", "enter")

        await screen.until_gone("⏎ done")
        await screen.until("2 jobs")
        await screen.press("enter")
        await screen.until("finished", "2/2")


@pytest.mark.parametrize(
    ("setting", "asks"),
    [("runs = 2", True), ('runs = 2\nconfirm = "never"', False), ('confirm = "always"', True), ("runs = 1", False)],
)
async def test_the_settings_decide_which_runs_need_a_confirmation(
    hello: Path, open_app: Callable[..., Any], setting: str, asks: bool
) -> None:
    add_run_setting(hello, setting)
    async with open_app(hello) as screen:
        await screen.until("one")

        await screen.press("R")

        await screen.until("⏎ run" if asks else "finished")


async def test_criteria_are_chosen_from_the_plan(hello: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(hello) as screen:
        await screen.until("one")
        await screen.press("C")
        await screen.until("2 jobs")

        await screen.press("c")
        await screen.until("criteria of")
        await screen.press("left", "r")

        await screen.until("tool_trajectory_avg_score 0.95", "chosen for this run")


@pytest.mark.parametrize(
    ("name", "text", "is_right"), [("runs", "3", True), ("runs", "0", False), ("runs", "x", False)]
)
def test_repeats_are_whole_numbers(name: Any, text: str, is_right: bool) -> None:
    assert (check_setting(name, text) is None) is is_right


@pytest.mark.parametrize(("text", "is_right"), [("0.5", True), ("nan", False), ("inf", False), ("-1", False)])
def test_a_time_limit_is_a_positive_number(text: str, is_right: bool) -> None:
    assert (check_setting("timeout_seconds", text) is None) is is_right
