"""Runs of `EvalTask` and `workbench score` in the browser: their stored data is shown read-only."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tui.edited_project import wait_for_notification
from workbench.cli.main import main
from workbench.engine import runner
from workbench.model.results import CaseResult
from workbench.testing import EvalTask, TrajectorySingleToolUse

CALL = {"tool_name": "set_light", "tool_input": {"room": "hall"}}
ROWS: list[dict[str, Any]] = [
    {"prompt": f"Light in room {number}!", "reference": "It is on.", "reference_trajectory": [CALL]}
    for number in (1, 2)
]
TURN = {"user_content": {"role": "user", "parts": [{"text": "Ping!"}]}}


def answer(prompt: str) -> dict[str, Any]:
    if "room 1" in prompt:
        return {"response": "It is on.", "predicted_trajectory": [CALL]}
    return {"response": "Which [one]?", "predicted_trajectory": [{"tool_name": "list_lights", "tool_input": {}}]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "workbench.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def evaluate_rows(rows: list[dict[str, Any]] = ROWS, *, experiment: str = "lights") -> None:
    EvalTask(dataset=rows, metrics=["trajectory_exact_match"], experiment=experiment).evaluate(runnable=answer)


def score_file(file: str) -> None:
    assert main(["score", file, "--metric", "trajectory_exact_match=1"]) == 1


def write_rows(path: Path) -> bytes:
    path.parent.mkdir(exist_ok=True)
    rows = [{**row, "eval_id": f"id {n}", **answer(row["prompt"])} for n, row in enumerate(ROWS, start=1)]
    path.write_text(json.dumps(rows) if path.suffix == ".json" else "".join(f"{json.dumps(row)}\n" for row in rows))
    return path.read_bytes()


def list_labels(screen: Any) -> list[str]:
    return [row.label for row in screen.state.browser.rows]


async def select_row(screen: Any, label: str) -> None:
    await screen.until(f" {label}  ")
    screen.state.browser.set_cursor(list_labels(screen).index(label))
    screen.app.screen._show_cursor_row()


async def test_a_run_of_eval_task_is_listed_in_a_project_without_eval_sets(
    folder: Path, open_app: Callable[..., Any]
) -> None:
    evaluate_rows()
    async with open_app(folder) as screen:
        await screen.until("row_1", "row_2", "EvalTask: experiment lights", "the project has no target")
        await select_row(screen, "row_2")
        await screen.press("4")
        await screen.until("trajectory_exact_match", "score 0")
        await screen.press("3")
        await screen.until("ƒ list_lights")
        await screen.press("5")
        await screen.until("1 execution", "criteria")

        assert "No eval sets were found" not in screen.text


async def test_the_diff_of_rows_from_memory_shows_expected_and_actual(
    folder: Path, open_app: Callable[..., Any]
) -> None:
    evaluate_rows()
    async with open_app(folder) as screen:
        await select_row(screen, "row_2")
        await screen.press("2")
        await screen.until("EXPECTED   ", "ACTUAL", "- set_light", "+ list_lights", "It is on.", "Which [one]?")

        assert "not stored" not in screen.text


async def test_the_diff_of_scored_rows_shows_the_file_as_it_was_scored(
    folder: Path, open_app: Callable[..., Any]
) -> None:
    write_rows(folder / "rows.jsonl")
    score_file("rows.jsonl")
    (folder / "rows.jsonl").unlink()
    async with open_app(folder) as screen:
        await select_row(screen, "id 2")
        await screen.press("2")
        await screen.until("EXPECTED   ", "- set_light", "+ list_lights", "It is on.", "Which [one]?")


async def test_an_older_run_is_compared_with_its_own_reference(folder: Path, open_app: Callable[..., Any]) -> None:
    evaluate_rows([{**ROWS[1], "reference": "Of old."}])
    evaluate_rows([{**ROWS[1], "reference": "Of now."}])
    async with open_app(folder) as screen:
        await select_row(screen, "row_1")
        await screen.press("2")
        await screen.until("Of now.")
        await screen.press("5", "down", "enter")
        await screen.until("Of old.", "Which [one]?")

        assert "Of now." not in screen.text


async def test_a_row_whose_agent_failed_shows_the_expected_response(folder: Path, open_app: Callable[..., Any]) -> None:
    def fail(prompt: str) -> str:
        raise RuntimeError("out of lamps")

    EvalTask(dataset=ROWS, metrics=["trajectory_exact_match"], experiment="lights").evaluate(runnable=fail)
    async with open_app(folder) as screen:
        await select_row(screen, "row_2")
        await screen.press("2")
        await screen.until("out of lamps", "Light in room 2!", "set_light", "It is on.", "ACTUAL (nothing)")


def evaluate_without_reference() -> None:
    rows = [{"prompt": row["prompt"]} for row in ROWS]
    EvalTask(dataset=rows, metrics=[TrajectorySingleToolUse("set_light")], experiment="lights").evaluate(
        runnable=answer
    )


async def test_a_row_without_reference_expects_nothing(folder: Path, open_app: Callable[..., Any]) -> None:
    evaluate_without_reference()
    async with open_app(folder) as screen:
        await select_row(screen, "row_2")
        await screen.press("2")
        await screen.until("EXPECTED (nothing)", "list_lights", "Which [one]?")

        assert "(not expected)" not in screen.text
        assert "not stored" not in screen.text


async def test_the_diff_says_that_no_reference_is_stored(
    folder: Path, open_app: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def make_older_result(facts: dict[str, Any]) -> CaseResult:
        """Make a result as older versions did for rows without reference."""
        return CaseResult(**{**facts, "expected_by_row": None})

    monkeypatch.setattr(runner, "_result", make_older_result)
    evaluate_without_reference()
    async with open_app(folder) as screen:
        await select_row(screen, "row_2")
        await screen.press("2")
        await screen.until("The reference of this row is not stored", "EXPECTED (not stored)", "Which [one]?")

        assert "(not expected)" not in screen.text


async def test_missing_columns_of_a_row_are_not_differences(folder: Path, open_app: Callable[..., Any]) -> None:
    call = {"tool_name": "list_lights", "tool_input": {"room": 1}}
    rows = [
        {"prompt": "one", "reference": "x", "response": "x", "predicted_trajectory": [call]},
        {"prompt": "two", "reference": "x", "response": "x", "reference_trajectory": [call]},
        {"prompt": "three", "reference": "x", "response": "y"},
        {"prompt": "four", "reference": "x", "predicted_trajectory": [call], "reference_trajectory": [call]},
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = '[targets.rows]\nkind = "recorded"\neval_sets = ["rows.jsonl"]\n'
    (folder / "workbench.toml").write_text(settings)
    async with open_app(folder) as screen:
        await screen.until("row_1", "row_3")
        await screen.press("r")
        await screen.until("✗ row_3")
        await select_row(screen, "row_1")
        await screen.press("2")
        await screen.until("no differences", "no reference_trajectory", "list_lights")
        await screen.press("4")
        await screen.until("not compared: no reference_trajectory")
        await screen.press("3")
        await screen.until("There are no steps of this row.", "no agent ran")
        await screen.press("1")
        await select_row(screen, "row_2")
        await screen.press("2")
        await screen.until("no differences", "no predicted_trajectory", "list_lights")
        await screen.press("1")
        await select_row(screen, "row_3")
        await screen.press("2")
        await screen.until("difference 1 of 1", "- x", "+ y")
        await screen.press("1")
        await select_row(screen, "row_4")
        await screen.press("2")
        await screen.until("no differences", "no response", "the row has no response")

        assert "no tool calls" not in screen.text


async def test_scored_rows_are_listed_with_their_stored_verdicts(folder: Path, open_app: Callable[..., Any]) -> None:
    write_rows(folder / "data" / "rows.jsonl")
    score_file("data/rows.jsonl")
    async with open_app(folder) as screen:
        await screen.until("✓ id 1", "✗ id 2", "✗ 1/2")
        assert "0.0 ms" not in screen.text  # no agent ran, so there is no duration

        assert list_labels(screen) == ["data/rows.jsonl", "data/rows.jsonl", "id 1", "id 2"]


@pytest.mark.parametrize("key", ["r", "E", "N", "D", "m", "d", "i", "c", "a"])
async def test_keys_that_would_change_or_run_a_row_say_why_they_cannot(
    key: str, folder: Path, open_app: Callable[..., Any]
) -> None:
    evaluate_rows()
    async with open_app(folder) as screen:
        await select_row(screen, "row_2")
        await screen.press(*([key, key] if key == "a" else [key]))
        await screen.until("stored results")

        assert list_labels(screen)[-2:] == ["row_1", "row_2"]


def get_footer(screen: Any) -> str:
    return str(screen.text).rstrip().splitlines()[-1]


async def test_the_history_of_a_row_describes_stored_results_not_a_case(
    folder: Path, open_app: Callable[..., Any]
) -> None:
    evaluate_rows(ROWS[:1])
    evaluate_rows([{**ROWS[0], "prompt": "Light in room 1, now!"}])
    async with open_app(folder) as screen:
        await select_row(screen, "row_1")
        await screen.press("5")
        await screen.until("2 executions", "changed since the previous run", "the row: its prompt, answer")
        await screen.until("These are stored results of a dataset", "there is no eval")

        assert "or no longer exists" not in screen.text
        assert "agent input" not in screen.text


async def test_the_history_of_a_row_names_the_source_of_its_metrics(folder: Path, open_app: Callable[..., Any]) -> None:
    write_rows(folder / "rows.jsonl")
    score_file("rows.jsonl")
    async with open_app(folder) as screen:
        await select_row(screen, "id 2")
        await screen.press("5")
        await screen.until("criteria  from --metrics, of rows.jsonl")


async def test_a_changed_reference_is_distinguished_from_a_changed_row(
    folder: Path, open_app: Callable[..., Any]
) -> None:
    evaluate_rows(ROWS[:1])
    evaluate_rows([{**ROWS[0], "reference": "It is on now."}])
    async with open_app(folder) as screen:
        await select_row(screen, "row_1")
        await screen.press("5")
        await screen.until("changed since the previous run", "the reference of the row, or the metrics")

        assert "the row: its prompt" not in screen.text


async def test_keys_that_do_nothing_for_rows_are_not_offered_and_say_why(
    folder: Path, open_app: Callable[..., Any]
) -> None:
    write_rows(folder / "rows.jsonl")
    score_file("rows.jsonl")
    async with open_app(folder) as screen:
        await select_row(screen, "id 2")
        await screen.until("n next failing")
        for key_label in ("f failed", "w watch", "R all", "r run"):
            assert key_label not in get_footer(screen)
        await screen.press("f")
        await screen.until("stored results cannot be edited")
        await screen.press("w")
        await screen.until("w pause", "watching")


async def test_the_review_of_rows_offers_neither_accepting_nor_editing(
    folder: Path, open_app: Callable[..., Any]
) -> None:
    write_rows(folder / "rows.jsonl")
    score_file("rows.jsonl")
    async with open_app(folder) as screen:
        await select_row(screen, "id 2")
        await screen.until("v review")  # the stored verdicts are read
        await screen.press("v")
        await screen.until("review 1 of 1", "s skip")
        for key_label in ("a accept", "A accept all", "e edit"):
            assert key_label not in get_footer(screen)
        await screen.press("A")
        await screen.until("not accepted: stored results cannot be edited")


async def test_cases_of_an_agent_still_run_in_a_project_with_stored_rows(
    make_project: Callable[..., Path], open_app: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_project(pings=[{"eval_id": "ping", "conversation": [{**TURN, "intermediate_data": {}}]}])
    monkeypatch.chdir(folder)
    write_rows(folder / "rows.jsonl")
    score_file("rows.jsonl")
    async with open_app(folder) as screen:
        await select_row(screen, "id 2")
        await screen.until("R all", "w watch")
        assert "f failed" not in get_footer(screen)  # the failure is a row, not a case

        await screen.press("R")
        await screen.until("finished", "✗1", "f failed")


async def test_a_row_is_shown_read_only(folder: Path, open_app: Callable[..., Any]) -> None:
    evaluate_rows()
    async with open_app(folder) as screen:
        await select_row(screen, "row_2")
        await screen.press("1", "e")
        await screen.until("stored results cannot be edited", "Light in room 2!", "It is on.", "set_light")
        await screen.press("enter")
        await wait_for_notification(screen, "stored results cannot be edited")


async def test_a_file_with_the_name_of_stored_results_stays_unchanged(
    folder: Path, open_app: Callable[..., Any]
) -> None:
    before = write_rows(folder / "rows.json")
    score_file("rows.json")
    async with open_app(folder) as screen:
        await screen.until("id 1", "id 2")
        screen.state.browser.set_cursor(1)
        for key in ("D", "f2", "Y", "ctrl+s", "u"):
            await screen.press(key)
        await wait_for_notification(screen, "stored results cannot be edited")

        assert not screen.state.problems.rows
    assert (folder / "rows.json").read_bytes() == before


async def test_reloading_the_project_shows_the_newest_run(folder: Path, open_app: Callable[..., Any]) -> None:
    evaluate_rows()
    async with open_app(folder) as screen:
        await screen.until("row_2")
        evaluate_rows(ROWS[:1])
        evaluate_rows(experiment="more [/lights]")
        await screen.press("f5")
        await screen.until("more [/lights]")

        assert list_labels(screen) == [
            "more [/lights]",
            "more [/lights]",
            "row_1",
            "row_2",
            "lights",
            "lights",
            "row_1",
        ]


async def test_running_all_runs_only_the_eval_sets_of_the_project(
    make_project: Callable[..., Path], open_app: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_project(pings=[{"eval_id": "ping", "conversation": [TURN]}])
    monkeypatch.chdir(folder)
    evaluate_rows(experiment="pinger")  # the same name as the agent
    evaluate_rows(experiment="pings.evalset.json")  # the same name as its eval set
    async with open_app(folder) as screen:
        await screen.until("row_2", "3 eval sets")
        await screen.press("R")
        await screen.until("finished", "1/1")
        await screen.press("ctrl+a", "R")
        await screen.until("finished", "1/1")

        assert list_labels(screen)[:3] == ["pinger", "pings", "ping"]


async def test_the_filter_finds_rows_by_their_texts_and_calls(folder: Path, open_app: Callable[..., Any]) -> None:
    evaluate_rows()
    async with open_app(folder) as screen:
        await screen.until("row_2")
        await screen.press("slash", *"list_lights")
        await screen.until("eval sets · 1 of 2")

        assert list_labels(screen)[-1] == "row_2"
