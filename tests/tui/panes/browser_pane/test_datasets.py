"""Datasets in the browser: their rows are read-only cases, judged as `score` judges them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.tui.edited_project import wait_for_notification
from workbench.cli.main import main

SETTINGS = """
[targets.stored]
kind = "recorded"
eval_sets = ["*.jsonl", "*.csv"]
columns = {response = "answer"}
"""
CALL = {"tool_name": "set_light", "tool_input": {"room": "hall"}}
ROWS: list[dict[str, Any]] = [
    {
        "eval_id": "on",
        "prompt": "Light in the hall!",
        "answer": "It is on.",
        "reference": "It is on.",
        "predicted_trajectory": [CALL],
        "reference_trajectory": [CALL],
    },
    {
        "eval_id": "off",
        "prompt": "No light!",
        "answer": "Which one?",
        "reference": "It is off.",
        "predicted_trajectory": ["list_lights"],
        "reference_trajectory": [CALL],
    },
    {"eval_id": "bad", "prompt": 7},
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "workbench.toml").write_text(SETTINGS)
    (tmp_path / "test_config.json").write_text('{"criteria": {"trajectory_exact_match": 1.0}}')
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    return tmp_path


async def select_row(screen: Any, label: str) -> None:
    await screen.until(f" {label}  ")
    rows = screen.state.browser.rows
    screen.state.browser.set_cursor(next(index for index, row in enumerate(rows) if row.label == label))
    screen.app.screen._show_cursor_row()


async def test_rows_are_listed_as_cases_with_their_problems(project: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(project) as screen:
        await screen.until("rows.jsonl", "on", "off", "bad", "broken")
        await screen.press("exclamation_mark")
        await screen.until("rows.jsonl:3:30  prompt: found a number, expected text")

        assert [row.label for row in screen.state.browser.rows][-3:] == ["on", "off", "bad"]


async def test_rows_are_judged_and_compared(project: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(project) as screen:
        await screen.until("off")
        await screen.press("R")
        await screen.until("finished", "✓1", "✗1", "!1")
        await select_row(screen, "off")
        await screen.press("2")
        await screen.until("list_lights", "trajectory_exact_match 0.00 < 1.00")
        await screen.press("4")
        await screen.until("score 0.00, needs at least 1.00")


async def test_the_history_of_a_recorded_row_describes_the_recording(
    project: Path, open_app: Callable[..., Any]
) -> None:
    rows = project / "rows.jsonl"
    main(["run", str(project)])
    rows.write_text(rows.read_text().replace("Which one?", "Which of them?"))
    main(["run", str(project)])
    (project / "test_config.json").write_text('{"criteria": {"trajectory_exact_match": 0.5}}')
    async with open_app(project) as screen:
        await select_row(screen, "off")
        await screen.press("5")
        await screen.until("changed since the previous run", "the recording: its prompt, answer or reference")
        await screen.until("changed since this run", "△ criteria")


async def test_the_history_of_a_row_that_became_unreadable_says_so(project: Path, open_app: Callable[..., Any]) -> None:
    rows = project / "rows.jsonl"
    main(["run", str(project)])
    rows.write_text(rows.read_text().replace('"list_lights"', "3"))
    async with open_app(project) as screen:
        await select_row(screen, "off")
        await screen.press("5")
        await screen.until("The recording cannot be judged now, or no longer exists.")

        assert "agent input" not in screen.text


async def test_a_row_is_shown_and_an_edit_is_refused_with_the_reason(
    project: Path, open_app: Callable[..., Any]
) -> None:
    before = (project / "rows.jsonl").read_bytes()
    async with open_app(project) as screen:
        await select_row(screen, "on")
        await screen.press("1", "e")
        await screen.until("a dataset can be judged here, but not edited", "Light in the hall!")
        await screen.press("enter")
        await wait_for_notification(screen, "a dataset can be judged here")

        assert not [row for row in screen.state.browser.rows if row.problem and row.label == "on"]
    assert (project / "rows.jsonl").read_bytes() == before


async def test_a_changed_dataset_is_listed_again(project: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(project) as screen:
        await screen.until("off")
        (project / "rows.jsonl").write_text(json.dumps({**ROWS[0], "eval_id": "another"}))
        await screen.until("another")
        await screen.until_gone("off ")
        (project / "rows.jsonl").write_text("{")
        await screen.until("rows.jsonl", "broken")


async def test_a_dataset_of_a_runnable_agent_is_reported_with_what_to_do(
    project: Path, open_app: Callable[..., Any]
) -> None:
    settings = '[targets.pinger]\nkind = "function"\ntarget = "agent:answer"\neval_sets = ["*.jsonl"]\n'
    (project / "workbench.toml").write_text(settings)
    async with open_app(project) as screen:
        await screen.until("rows.jsonl", "broken")
        await screen.press("j", "1", "e", "exclamation_mark")
        await screen.until("has recorded sessions: list it under eval_sets of a target of kind recorded")


async def test_the_filter_finds_rows_by_their_texts_and_calls(project: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(project) as screen:
        await screen.until("off")
        await screen.press("slash", *"hall!")
        await screen.until_gone("bad ")

        assert [row.label for row in screen.state.browser.rows if row.case is not None] == ["on"]


async def test_the_criteria_picker_knows_the_columns_of_the_rows(project: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(project) as screen:
        await select_row(screen, "off")
        await screen.press("c")
        await screen.until("the selected case has what it needs")


async def test_columns_that_fit_no_criterion_are_reported_in_one_sentence(
    project: Path, open_app: Callable[..., Any]
) -> None:
    (project / "rows.jsonl").write_text('{"eval_id": "on", "answer": "It is on.", "gold": "It is on."}\n')
    async with open_app(project) as screen:
        await select_row(screen, "on")
        await screen.press("r")
        wanted = ("found the columns", "gold", "predicted_trajectory", '{reference_trajectory = "NAME"}')
        for part in wanted:
            await wait_for_notification(screen, part)
        assert any(all(part in message.text for part in wanted) for message in screen.state.problems.messages)
        await screen.press("exclamation_mark")
        await screen.until("messages, newest first", "found the columns")


@pytest.mark.parametrize(
    ("row", "key"),
    [
        *(("on", key) for key in ("N", "d", "D", "f2", "J", "m", "a", "E", "alt+g", "alt+k")),
        *(("rows.jsonl", key) for key in ("N", "d", "f2")),
    ],
)
async def test_editing_a_dataset_or_its_rows_is_refused_before_any_question(
    project: Path, open_app: Callable[..., Any], row: str, key: str
) -> None:
    async with open_app(project) as screen:
        await select_row(screen, row)
        await screen.press(key)
        await screen.until("is a dataset, which cannot be edited")

        assert len(screen.app.screen_stack) == 1


async def test_only_actions_that_work_on_a_row_are_offered(project: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(project) as screen:
        await select_row(screen, "on")
        await screen.until_gone("e edit")
        footer = screen.text.splitlines()[-1]
        assert "r run" in footer and "accept" not in footer
        assert find_offered_keys(screen, ("list_mark", *EDITING)) == {"list_mark"}

        await screen.press("2")
        await screen.until("d more/less")
        footer = screen.text.splitlines()[-1]
        assert "accept" not in footer and "edit" not in footer

        await screen.press("1")
        await screen.until("a dataset can be judged here")
        assert "delete" not in screen.text.splitlines()[-1]


EDITING = ("edit", "accept", "new_case", "list_duplicate", "list_delete", "edit_text")


def find_offered_keys(screen: Any, keys: Iterable[str]) -> set[str]:
    """Return which of these keys the palette offers."""
    return {item.id for item, _ in screen.app.find_actions(screen.app.screen)}.intersection(keys)


async def test_json_files_of_a_recorded_target_are_datasets_or_eval_sets(
    tmp_path: Path, open_app: Callable[..., Any]
) -> None:
    (tmp_path / "workbench.toml").write_text(SETTINGS.replace("*.csv", "*.json"))
    columns = {name: [row[name] for row in ROWS[:2]] for name in ROWS[0]}
    (tmp_path / "columns.json").write_text(json.dumps(columns))
    (tmp_path / "rows.json").write_text(json.dumps([{**row, "eval_id": f"row {row['eval_id']}"} for row in ROWS[:2]]))
    turn = {"user_content": {"role": "user", "parts": [{"text": "Hi"}]}}
    case = {"eval_id": "greeting", "conversation": [turn]}
    (tmp_path / "sessions.json").write_text(json.dumps({"eval_set_id": "s", "eval_cases": [case]}))
    async with open_app(tmp_path) as screen:
        await screen.until("columns.json", " on ", "rows.json", "row off", "sessions", "greeting")
        await select_row(screen, "row off")
        await screen.press("2")
        await screen.until("set_light")
        await screen.press("r")
        await screen.until("finished", "✗1")
