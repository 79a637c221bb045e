"""The problems pane: all problems with their places, and jumping to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


async def test_the_pane_says_that_there_are_no_problems(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await screen.until("off")
        await screen.press("exclamation_mark")
        await screen.until("No problems")
        await screen.press("exclamation_mark")
        await screen.until_gone("No problems")


async def test_broken_cases_duplicate_ids_settings_and_themes_are_listed_with_their_places(
    open_app: Any, project: Path, lights: Path, actions: Any
) -> None:
    cases = [actions.case("on"), actions.case("on"), {"eval_id": "odd", "conversation": 7}]
    lights.write_text(json.dumps({"eval_set_id": "lights", "eval_cases": cases}, indent=1))
    with (project / "workbench.toml").open("a") as settings:
        settings.write('colour = "x"\n[keys]\nrun_all = "nokey"\n')
    async with open_app(project) as screen:
        await screen.until("odd", "4 problems")
        await screen.press("exclamation_mark")
        text = await screen.until("Problems", "workbench.toml", "nokey", "'on' 2 times")
        assert "lights.evalset.json:29:" in text or "found 7" in text


async def test_problems_are_filtered(open_app: Any, project: Path, lights: Path, actions: Any) -> None:
    cases = [actions.case("on"), {"eval_id": "odd", "conversation": 7}, {"eval_id": "even", "conversation": 8}]
    lights.write_text(json.dumps({"eval_set_id": "lights", "eval_cases": cases}))
    async with open_app(project) as screen:
        await screen.until("odd", "even", "2 problems")
        await screen.press("exclamation_mark", "slash", *"found 8", "enter")
        rows = screen.app.screen.query_one("#problems-list")
        await screen.until("filter: found 8")
        assert len(rows.source) == 1
        await screen.press("escape")
        await screen.until_gone("filter: found 8")
        assert rows.has_focus
        assert len(rows.source) == 2
        await screen.press("slash", *"found 8", "enter")
        await screen.until("filter: found 8")

        await screen.press("enter")
        await screen.until_gone("reading")
        assert screen.state.selected_case is not None and screen.state.selected_case.eval_id == "even"


async def test_problems_that_concern_only_adk_are_listed_even_in_large_sets(
    open_app: Any, project: Path, lights: Path, actions: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr("workbench.tui.backend.document_calls._CHECKED_AT_ONCE", 1)
    cases = [actions.case("on"), actions.case("off"), {**actions.case("odd"), "rubrics": [{"rubric_id": "r"}] * 2}]
    for rubric in cases[2]["rubrics"]:
        rubric["rubric_content"] = {"text_property": "is polite"}
    lights.write_text(json.dumps({"eval_set_id": "a/b", "eval_cases": cases}))
    async with open_app(project) as screen:
        await screen.until("odd", "2 problems")
        await screen.press("exclamation_mark")
        await screen.until("duplicate rubric id 'r' in one turn", "ADK cannot save the results")


async def test_enter_goes_to_the_case(open_app: Any, project: Path, lights: Path, actions: Any) -> None:
    cases = [actions.case("on"), {"eval_id": "odd", "conversation": 7}]
    lights.write_text(json.dumps({"eval_set_id": "lights", "eval_cases": cases}))
    async with open_app(project) as screen:
        await screen.until("odd", "1 problem")
        await screen.press("exclamation_mark", "enter")
        await screen.pilot.pause(0.2)
        assert screen.state.selected_case is not None and screen.state.selected_case.eval_id == "odd"


async def test_enter_opens_a_file_at_its_line_in_the_editor(
    open_app: Any, project: Path, lights: Path, editor: Any, monkeypatch: Any
) -> None:
    lights.write_text('{"eval_set_id": "x",\n oops')
    log = editor("")
    async with open_app(project) as screen:
        await screen.until("1 problem")
        await screen.press("exclamation_mark")
        await screen.until("enter opens the file")
        await screen.press("enter")
        for _ in range(200):
            if log.exists():
                break
            await screen.pilot.pause(0.02)
    assert log.read_text().strip() == str(lights)


async def test_invalid_keys_and_themes_lead_to_their_lines_in_the_settings(open_app: Any, project: Path) -> None:
    settings = project / "workbench.toml"
    settings.write_text(f'{settings.read_text()}[keys]\nrun_cse = "z"\n[tui]\ntheme = "drak"\n')
    lines = settings.read_text().splitlines()
    async with open_app(project, size=(200, 42)) as screen:
        await screen.until("2 problems")
        await screen.press("exclamation_mark")
        key, theme = lines.index('run_cse = "z"') + 1, lines.index('theme = "drak"') + 1
        await screen.until(f"workbench.toml:{key}:1", f"workbench.toml:{theme}:1", "enter opens the file")

        problem = screen.state.problems.selected_problem
        assert (problem.path, problem.line) == (settings, key)
        assert problem.message == "[keys] run_cse: no such action; did you mean 'run_case'?"


async def test_the_file_of_a_case_opens_with_its_own_key(
    open_app: Any, project: Path, lights: Path, editor: Any, actions: Any
) -> None:
    cases = [{"eval_id": "odd", "conversation": 7}]
    lights.write_text(json.dumps({"eval_set_id": "lights", "eval_cases": cases}))
    log = editor("")
    async with open_app(project) as screen:
        await screen.until("1 problem")
        await screen.press("exclamation_mark", "F")
        for _ in range(200):
            if log.exists():
                break
            await screen.pilot.pause(0.02)
    assert log.read_text().strip() == str(lights)


async def test_an_unusable_history_is_listed(open_app: Any, project: Path) -> None:
    (project / ".workbench" / "history.db").mkdir(parents=True)
    async with open_app(project) as screen:
        await screen.until("1 problem")
        await screen.press("exclamation_mark")
        await screen.until("history.db", "it is a folder")


async def test_a_row_can_be_selected_and_copied(open_app: Any, project: Path, lights: Path, actions: Any) -> None:
    cases = [{"eval_id": f"odd{number}", "conversation": number} for number in range(30)]
    lights.write_text(json.dumps({"eval_set_id": "lights", "eval_cases": cases}))
    async with open_app(project, size=(80, 24)) as screen:
        await screen.until("30 problems")
        await screen.press("exclamation_mark", "j", "G", "k")
        await screen.until("found 28")
        await screen.press("y")
        await screen.until("copied")
