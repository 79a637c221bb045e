"""The palette: what each kind of item does, themes that are previewed, and what it remembers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from textual.actions import parse
from textual.widgets import Input

from workbench.model.run_events import RunSummary
from workbench.store.history.history_queries import StoredRun
from workbench.store.settings import LoadedSettings
from workbench.store.toml_files import ScreenLayout
from workbench.tui import app as app_module
from workbench.tui.app import WorkbenchApp
from workbench.tui.dialogs.dialogs import ConfirmScreen
from workbench.tui.dialogs.finder_screen import FinderScreen
from workbench.tui.dialogs.results_screen import TableScreen
from workbench.tui.themes import load_themes, theme_folders
from workbench.tui.widgets.inputs import FilterInput
from workbench.tui.widgets.row_lists import CaseList, PickList

Open = Callable[..., Any]


async def find(screen: Any, typed: str, *wanted: str) -> None:
    """Open the palette, type, and wait until it lists some texts."""
    await screen.until("两盏灯")
    await screen.press("ctrl+p", *typed)
    await screen.until(*wanted)


async def wait_until(screen: Any, is_true: Callable[[], bool]) -> None:
    for _ in range(500):
        if is_true():
            return
        await screen.pilot.pause(0.02)
    raise AssertionError(screen.text)


def list_lines(screen: Any) -> list[str]:
    """Return the listed lines without their frame."""
    rows = screen.app.screen.query_one(PickList)
    return ["".join(piece.text for piece in rows.source.line(index, 70)).strip() for index in range(len(rows.source))]


async def test_an_action_runs(open_fake_app: Open, lights: Any) -> None:
    async with open_fake_app(lights) as screen:
        await find(screen, "run all", "run every case")
        await screen.press("enter")

        await wait_until(screen, lambda: bool(lights.started_runs))
        assert len(lights.started_runs[0].jobs) == 3


async def test_impossible_actions_are_not_listed(open_fake_app: Open, lights: Any) -> None:
    async with open_fake_app(lights) as screen:
        await find(screen, "run", "run case")
        assert not any(line.startswith("cancel run") for line in list_lines(screen))
        await screen.press("escape", "r")
        await screen.until("running")

        await find(screen, "run", "Actions")
        assert any(line.startswith("cancel run") for line in list_lines(screen))
        assert not any(line.startswith("run case") for line in list_lines(screen))


async def test_actions_without_anything_to_act_on_are_not_listed(
    tmp_path: Path, open_app: Open, open_fake_app: Open, lights: Any
) -> None:
    async with open_app(tmp_path) as screen:
        await screen.until("No eval sets were found")
        assert "filter" not in screen.text.splitlines()[-1]
        await screen.press("ctrl+p")
        await screen.until("new set", "add target")
        names = {line.split("  ")[0] for line in list_lines(screen)}

    assert not {"filter", "new case", "rename", "move", "delete", "criteria", "project", "results table"} & names
    assert {"new set", "add target", "help", "problems pane"} <= names
    async with open_fake_app(lights) as screen:
        await find(screen, "", "Actions")
        names = {line.split("  ")[0] for line in list_lines(screen)}
        assert "rename" not in names
        assert {"criteria", "plan run", "run fresh", "generate"} <= names
        await screen.press("escape", "j", "ctrl+p")
        await screen.until("Actions")
        assert any(line.startswith("rename") for line in list_lines(screen))


async def test_every_action_is_performed_by_the_node_that_takes_its_arguments(open_fake_app: Open, lights: Any) -> None:
    async with open_fake_app(lights) as screen:
        await screen.until("两盏灯")
        await screen.press("j", "space")
        for keys in (("j",), ("2",), ("3",), ("4",), ("5",), ("o",), ("exclamation_mark",), ("O",)):
            await screen.press(*keys)
            for item, owner in screen.app.find_actions(screen.app.screen):
                _, name, parameters = parse(item.action)
                signature(getattr(owner, f"action_{name}")).bind(*parameters)


async def test_a_colon_opens_it_too_but_not_while_text_is_typed(open_fake_app: Open, lights: Any) -> None:
    async with open_fake_app(lights) as screen:
        await screen.until("两盏灯")
        await screen.press("slash", "colon")
        assert not isinstance(screen.app.screen, FinderScreen)
        await screen.press("escape", "colon", "colon")

        assert isinstance(screen.app.screen, FinderScreen)
        assert screen.app.screen.query_one(FilterInput).value == ":"
        await screen.press("escape")
        await wait_until(screen, lambda: not isinstance(screen.app.screen, FinderScreen))


@pytest.mark.parametrize("filter_text", ["", "lamp is on", "两"])
async def test_a_case_is_selected_in_the_tree_even_if_a_filter_hides_it(
    open_fake_app: Open, lights: Any, make: Any, filter_text: str
) -> None:
    async with open_fake_app(lights) as screen:
        await screen.until("两盏灯")
        screen.app._main.list_matching(filter_text)
        screen.state.browser._folded.add(("home", ""))
        screen.state.browser.refresh()

        await screen.press("ctrl+p", "o", "f", "f")
        await screen.until("Cases")
        await screen.press("enter")

        await wait_until(screen, lambda: screen.state.selected_case == make.key("off"))
        assert isinstance(screen.app.focused, CaseList)
        assert not screen.state.browser.is_filtered


async def test_sets_and_agents_are_selected_in_the_tree(open_fake_app: Open, lights: Any) -> None:
    async with open_fake_app(lights) as screen:
        await screen.until("两盏灯")
        screen.app._main.list_matching("nothing")
        await screen.press("ctrl+p", *"lights", "enter")
        await wait_until(screen, lambda: screen.state.selected_key == ("home", "sets/lights.evalset.json", None))

        await screen.press("ctrl+p", *"home", "enter")
        await wait_until(screen, lambda: screen.state.selected_key == ("home", "", None))


async def test_a_tool_lists_the_cases_that_call_it(open_fake_app: Open, lights: Any, make: Any) -> None:
    lights.add(
        make.case("on", make.turn("Turn on", "On.", ("setDevice", {}))), make.case("silent", make.turn("Hi", "Hi."))
    )
    async with open_fake_app(lights) as screen:
        await screen.until("silent")
        await wait_until(screen, lambda: screen.state.browser.read_count == 2)
        await screen.press("ctrl+p", *"setd")
        await screen.until("setDevice", "1 case")
        await screen.press("enter")

        await screen.until("filter: tool:setDevice")
        await screen.until_gone("silent")


async def test_a_run_opens_as_a_table(make_history_project: Open, open_app: Open) -> None:
    project = make_history_project("on", "off")
    project.set_failing_prompts("off")
    project.run()
    async with open_app(project.path) as screen:
        await screen.until("1/2")
        await screen.press("ctrl+p", *"1 passed")
        await screen.until("Runs", "1 passed, 1 failed")
        await screen.press("enter")

        await screen.until("results of run", "2 rows")
        assert isinstance(screen.app.screen, TableScreen)
        await screen.press("enter")
        await wait_until(screen, lambda: screen.app.screen is screen.app._main)
        assert screen.state.selected_case is not None


async def test_a_setting_opens_its_file_at_its_line(
    make_project: Open, open_app: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[tuple[Path, int | None]] = []

    async def record(app: Any, path: Path, *, line: int | None) -> bool:
        opened.append((path, line))
        return True

    monkeypatch.setattr(app_module, "open_file", record)
    path = make_project(lights=[{"eval_id": "one", "conversation": []}])
    settings = path / "workbench.toml"
    settings.write_text(settings.read_text() + "\n[run]\n\nconcurrency = 3\n")
    async with open_app(path) as screen:
        await screen.until("one")
        await screen.press("ctrl+p", *"run.conc")
        await screen.until("run.concurrency  3 · workbench.toml:8")
        await screen.press("enter")
        await wait_until(screen, lambda: bool(opened))

        await screen.press("ctrl+p", *"isolation")
        await screen.until("case · default")
        await screen.press("enter")
        await wait_until(screen, lambda: len(opened) == 2)

    assert opened == [(settings, 8), (settings, None)]


async def test_a_theme_is_previewed_until_it_is_kept_or_cancelled(open_fake_app: Open, lights: Any) -> None:
    async with open_fake_app(lights) as screen:
        await find(screen, "high_con", "Themes", "high_contrast")
        await wait_until(screen, lambda: screen.app.theme == "high_contrast")
        await screen.press("escape")
        assert screen.app.theme == "dark"

        await screen.press("ctrl+p", *"high_con")
        await wait_until(screen, lambda: screen.app.theme == "high_contrast")
        await screen.press("enter")
        await screen.pilot.pause(0.2)
        assert screen.app.theme == "high_contrast"
        assert screen.app.layout_now.theme == "high_contrast"


async def test_the_setting_of_the_theme_lists_all_themes_and_the_cursor_previews_them(
    open_fake_app: Open, lights: Any
) -> None:
    async with open_fake_app(lights) as screen:
        await find(screen, "tui.theme", "tui.theme")
        await screen.press("enter")
        await screen.until("dark  in use")
        themes = [line.partition("  ")[0] for line in list_lines(screen)[1:]]

        await screen.press("down")

        following = themes[themes.index("dark") + 1]
        await wait_until(screen, lambda: screen.app.theme == following)
        await screen.press("down", "escape")
        await screen.pilot.pause(0.2)
        assert screen.app.theme == "dark"


async def test_what_was_chosen_comes_first_next_time(open_fake_app: Open, lights: Any, make: Any) -> None:
    async with open_fake_app(lights) as screen:
        await find(screen, "off", "Cases")
        await screen.press("enter")
        await wait_until(screen, lambda: screen.state.selected_case == make.key("off"))
        await screen.press("ctrl+p", *"zoom", "enter")
        await wait_until(screen, lambda: screen.app._main.has_class("-zoomed"))
        layout = ScreenLayout.model_validate_json(screen.app.layout_now.model_dump_json())

    app = WorkbenchApp(lights, settings=LoadedSettings(), themes=load_themes(theme_folders()[:1]), layout=layout)
    async with app.run_test(size=(120, 30)) as pilot:
        for _ in range(200):
            await pilot.pause(0.02)
            if app._main.state.browser.read_count == 3:
                break
        await pilot.press("colon")
        await pilot.pause(0.1)
        source = app.screen.query_one(PickList).source
        lines = ["".join(piece.text for piece in source.line(index, 70)).strip() for index in range(4)]

    assert lines[0] == "Recent"
    assert lines[1].startswith("zoom")
    assert lines[2].startswith("off")
    assert lines[3] == "Actions"


async def test_only_eight_items_are_remembered(open_fake_app: Open, lights: Any) -> None:
    async with open_fake_app(lights) as screen:
        await screen.until("两盏灯")
        for name in ("filter", "zoom", "widen", "narrow", "sort", "watch pane", "run pane", "problems pane", "mark"):
            await screen.press("ctrl+p", *name, "enter")
            await screen.press("escape")

        assert len(screen.app.layout_now.recent) == 8


async def test_the_mouse_chooses_and_closes(open_fake_app: Open, lights: Any, make: Any) -> None:
    async with open_fake_app(lights) as screen:
        await find(screen, "off", "Cases")
        rows = screen.app.screen.query_one(PickList)
        line = next(index for index, text in enumerate(list_lines(screen)) if text.startswith("off"))
        await screen.pilot.click(rows, offset=(5, line))
        await wait_until(screen, lambda: screen.state.selected_case == make.key("off"))

        await screen.press("ctrl+p")
        await screen.until("esc close")
        await screen.pilot.click("KeyLine", offset=(10, 0))
        await wait_until(screen, lambda: screen.app.screen is screen.app._main)


async def test_keys_typed_ahead_choose_what_they_name(open_fake_app: Open, lights: Any, make: Any) -> None:
    async with open_fake_app(lights) as screen:
        await screen.until("两盏灯")
        await screen.press("ctrl+p", "o", "f", "f", "enter")

        await wait_until(screen, lambda: screen.state.selected_case == make.key("off"))


async def test_over_another_dialog_it_lists_only_its_actions_and_themes(open_fake_app: Open, lights: Any) -> None:
    answers: list[bool | None] = []
    async with open_fake_app(lights) as screen:
        await screen.until("两盏灯")
        screen.app.push_screen(ConfirmScreen("Is it so?"), answers.append)
        await screen.until("Is it so?")
        await screen.press("ctrl+p", "ctrl+p")
        await screen.until("an action or a theme")
        assert [line.partition("  ")[0] for line in list_lines(screen)] == ["Actions", "yes", "no"]
        await screen.press(*"yes", "enter")

        await wait_until(screen, lambda: answers == [True])


@pytest.mark.parametrize("size", [(40, 10), (80, 24), (140, 42)])
async def test_it_fits_every_terminal(open_fake_app: Open, lights: Any, size: tuple[int, int]) -> None:
    async with open_fake_app(lights, size=size) as screen:
        await wait_until(screen, lambda: screen.state.browser.read_count == 3)
        await screen.press("ctrl+p", *"run")
        await screen.until("Actions", "run case")
        box, rows = screen.app.screen.query_one("#finder"), screen.app.screen.query_one(PickList)

        assert box.region.width == min(size[0], 80)
        assert box.region.x == (size[0] - box.region.width) // 2
        assert rows.size.height >= 5
        assert isinstance(screen.app.focused, Input)


async def test_letters_stay_quick_with_many_cases(open_fake_app: Open, backend: Any, make: Any) -> None:
    backend.add(*(make.case(f"case_{number:05d}_lamp") for number in range(10_000)))
    async with open_fake_app(backend) as screen:
        await screen.until("case_00001")
        await screen.press("ctrl+p")
        await asyncio.sleep(0.1)
        finder = screen.app.screen._finder
        slices: list[bool] = []
        step = finder.step
        finder.step = lambda seconds: slices.append(step(min(seconds, 0.0005))) or slices[-1]

        await screen.press("_", "l", "m", "p")
        await wait_until(screen, lambda: "… 9,900 more" in list_lines(screen))
        assert False in slices
        await screen.press("down", "enter")

        await wait_until(screen, lambda: screen.state.selected_case == make.key("case_00001_lamp"))


async def test_stored_runs_are_listed_with_time_and_outcome(open_fake_app: Open, lights: Any) -> None:
    lights.stored_runs = [
        StoredRun(
            run_id="r[42]",
            root=Path("/project"),
            started_at=datetime(2026, 1, 2, tzinfo=UTC),
            command="workbench\x1b run",
            summary=RunSummary(total=1, passed=1),
            ended=True,
        )
    ]
    async with open_fake_app(lights) as screen:
        await find(screen, "r[4", "Runs", "r[42]", "1 passed", "workbench␛ run")
