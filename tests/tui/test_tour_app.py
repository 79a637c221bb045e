"""The tour on the real screen and the real sample project, with the keys that its panel names."""

from __future__ import annotations

import shutil
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.tui.conftest import Driver
from workbench.store.settings import LoadedSettings, Settings
from workbench.store.toml_files import Layouts, ScreenLayout
from workbench.tui import tour_app
from workbench.tui.backend.backend import Backend
from workbench.tui.state.text_layout import Style
from workbench.tui.state.tour import AGENT_FILE, EVAL_SET, STEPS, make_first_layout
from workbench.tui.themes import load_themes, theme_folders
from workbench.tui.tour_app import TourApp, TourPanel

pytestmark = pytest.mark.needs_fork

SAMPLES = Path(__file__).parents[2] / "sample_agents"
BEGIN = make_first_layout({"home_automation": [EVAL_SET]})


@pytest.fixture(autouse=True)
def _look_often_whether_it_is_idle() -> None:
    """Wait for an idle screen as long as Textual does: keys pressed before a panel follows begin steps twice."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Copy the sample agent of the tour."""
    (tmp_path / "home_automation").mkdir()
    for name in ("__init__.py", "agent.py", "phrases.py", "tools.py", "test_config.json", Path(EVAL_SET).name):
        shutil.copy(SAMPLES / "home_automation" / name, tmp_path / "home_automation")
    (tmp_path / "workbench.toml").write_text(
        '[targets.home_automation]\nkind = "function"\ntarget = "home_automation.agent:answer"\npath = "."\n'
        f'eval_sets = ["{EVAL_SET}"]\n'
    )
    return tmp_path


@pytest.fixture
def open_tour(project: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.setattr(tour_app, "_ANNOUNCEMENT", 0.5)

    @asynccontextmanager
    async def start(
        layout: ScreenLayout = BEGIN, *, size: tuple[int, int] = (80, 24), keys: dict[str, str] | None = None
    ) -> AsyncIterator[Driver]:
        backend = Backend(project)
        settings = LoadedSettings(settings=Settings(keys=keys or {}))
        app = TourApp(backend, settings=settings, themes=load_themes(theme_folders()[:1]), layout=layout)
        try:
            async with app.run_test(size=size, notifications=True) as pilot:
                yield Driver(app, pilot, [])
        finally:
            backend.close()

    return start


def list_keys(screen: Driver) -> list[str]:
    """Return the keys that the panel names, without those of the tour itself."""
    lines = screen.app.screen_stack[0].query_one(TourPanel)._lines
    return [piece.text for line in lines[1:] for piece in line if piece.style is Style.TAB]


async def _read_settled_panel(screen: Driver) -> Any:
    """Return the lines of the panel once they stay: a save makes a verdict stale until it is checked."""
    panel, same = None, 0
    while same < 6:
        await screen.pilot.pause(0.05)
        before, panel = panel, screen.app.screen_stack[0].query_one(TourPanel)._lines
        same = same + 1 if panel == before else 0
    return panel


async def follow(screen: Driver, *, until: str) -> list[str]:
    """Press the first key that the panel names until it shows a text; return the keys."""
    pressed: list[str] = []
    await screen.until("tour  ")
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline:
        if until in screen.text:
            return pressed
        panel = await _read_settled_panel(screen)
        keys = list_keys(screen)
        if keys:
            if keys[0] == "enter" and "Change a word" in screen.text:
                await screen.press("!")
                await screen.until("device_1.!")
            await screen.press(keys[0])
            pressed.append(keys[0])
        for _ in range(200):  # a run and a save take a moment
            await screen.pilot.pause(0.05)
            if screen.app.screen_stack[0].query_one(TourPanel)._lines != panel:
                break
            if keys == ["down", "up", "left", "right"]:
                break
    raise AssertionError(f"not on the screen after {pressed}: {until}\n{screen.text}")


async def test_the_keys_that_the_panel_names_lead_through_the_whole_tour(open_tour: Any, project: Path) -> None:
    original = (project / AGENT_FILE).read_text()

    async with open_tour() as screen:
        pressed = await follow(screen, until="the tour is over")

        assert " ".join(pressed) == "down r n n a u U e enter enter r w 3 ctrl+p escape ? escape"
        assert screen.app.layout_now.tour == "over"
        added = set((project / AGENT_FILE).read_text().splitlines()) - set(original.splitlines())
        assert len(added) == 1
        assert "Turn on device_1.!" in (project / EVAL_SET).read_text(encoding="utf-8")

        await screen.press("f4")
        await screen.until_gone("the tour is over")


async def test_a_step_is_done_whichever_keys_led_to_its_result(open_tour: Any) -> None:
    async with open_tour() as screen:
        await screen.until("step 1 of 10")
        await screen.press("R")
        await screen.until("finished", "step 1 of 10")
        await screen.press("slash", *"looks", "enter", "down", "down")

        await screen.until("step 4 of 10", "Press a to accept")


async def test_steps_are_skipped_and_the_tour_ends_while_a_text_is_typed(open_tour: Any) -> None:
    async with open_tour() as screen:
        await screen.until("step 1 of 10")
        await screen.press("slash", "d", "f8")
        await screen.until("step 2 of 10")
        await screen.press("e", "f8")
        await screen.until("step 3 of 10", "de")

        await screen.press("f4")
        await screen.until("`workbench tour` continues")
        await screen.until_gone("step 3 of 10")
        await screen.press("f8")
        assert screen.app.layout_now.tour == "read"


async def test_the_tour_continues_at_the_stored_step(open_tour: Any) -> None:
    async with open_tour(BEGIN.model_copy(update={"tour": "watch"})) as screen:
        await screen.until("step 7 of 10", "Press w to turn the watch on")
        assert "end the tour" in screen.text
        await screen.press("f8")

    async with open_tour(screen.app.layout_now) as screen:
        await screen.until("step 8 of 10", "Press w")


async def test_the_step_is_saved_as_soon_as_it_is_reached(open_tour: Any, project: Path) -> None:
    async with open_tour() as screen:
        await screen.until("step 1 of 10")
        await screen.press("f8", "f8", "f8")
        await screen.until("step 4 of 10")

        for _ in range(200):
            if Layouts().load(project).tour == "accept":
                break
            await screen.pilot.pause(0.02)
        assert Layouts().load(project).tour == "accept"
        assert Layouts().load(project).folded == screen.app.layout_now.folded


async def test_the_panel_names_the_keys_of_the_settings(open_tour: Any) -> None:
    keys = {"run_case": "ctrl+b", "next_failing": "f6", "tour_skip": "f7", "rows_down": "ctrl+j"}
    async with open_tour(keys=keys) as screen:
        pressed = await follow(screen, until="step 4 of 10")

        assert pressed == ["ctrl+j", "ctrl+b", "f6"]
        assert "f7 skip" in screen.text
        await screen.press("f7")
        await screen.until("step 5 of 10")


async def test_an_agent_that_the_user_changed_is_not_changed(open_tour: Any, project: Path) -> None:
    source = "def answer(prompt): return prompt\n"
    (project / AGENT_FILE).write_text(source)

    async with open_tour(BEGIN.model_copy(update={"tour": "rerun", "watching": True})) as screen:
        await screen.until("step 9 of 10")

        await screen.press("!")
        await screen.until("tour --restart")
        assert (project / AGENT_FILE).read_text() == source


@pytest.mark.parametrize("size", [(80, 24), (140, 42), (200, 60)])
async def test_the_panel_has_three_lines_above_the_run_line(open_tour: Any, size: tuple[int, int]) -> None:
    async with open_tour(size=size) as screen:
        await screen.until("step 1 of 10")

        region = screen.app.screen.query_one(TourPanel).region
        assert (region.width, region.height, region.bottom) == (size[0], 3, size[1] - 2)


async def test_help_and_palette_have_the_keys_of_the_tour(open_tour: Any) -> None:
    async with open_tour(size=(120, 60)) as screen:
        await screen.until(f"step 1 of {len(STEPS)}")
        await screen.press("question_mark")
        await screen.until("esc close")
        await screen.press("slash", *"of the tour", "enter")
        await screen.until("During the tour", "f8", "f4")
        await screen.press("escape", "colon", *"tour step kept")
        await screen.until("close the panel of the tour")
        await screen.press("enter")
        await screen.until_gone("step 1 of")
