"""Makes the pictures and the recording of README and docs from the program as it is: `python tests/pictures/make.py`.

The sample agents are copied to a folder of their own, run, and photographed in every pane that has a picture. The
recording is one story on the same screen, played by keys.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.pictures.animation import Frame, Row, animate, read_rows  # noqa: E402 - found by the line above

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from workbench.store.toml_files import ScreenLayout
    from workbench.tui.app import WorkbenchApp

PICTURES = ROOT / "docs" / "pictures"
SIZE = (132, 38)


@dataclass(frozen=True)
class Picture:
    """What to press, by default after a run of everything, and the text that then must be on the screen."""

    name: str
    keys: Sequence[str]
    shown: str
    runs: bool = True


ALL = (
    Picture("start", (), "127 not run", runs=False),
    Picture("plan", ("R",), "cases at a time", runs=False),
    Picture("diff", ("n", "n", "2"), "difference 1 of"),
    Picture("dashboard", ("g",), "whole runs"),
    Picture("palette", ("colon", *"set_d"), "Tools"),
    Picture("case", ("n", "n", "1"), "user"),
    Picture("trace", ("slash", *"forgotten_transfer", "enter", "n", "3", "j", "j", "d", "d", "d"), "prime_checker"),
    Picture("scores", ("n", "n", "4"), "tool_trajectory_avg_score"),
    Picture("criteria", ("n", "n", "c"), "threshold"),
    Picture("table", ("t", "j", "j"), "results of"),
    Picture("history", ("g", "5"), "old to new"),
    Picture("chat", ("n", "n", "6", *"Turn off device_2 in the Bedroom", "enter"), "set_device_info"),
)
THEMES = {"dark": "", "light": "-light"}
"""The endings of the names of files by theme."""


async def make(pictures: Sequence[Picture], folder: Path) -> None:
    """Write each picture into the folder, as an SVG file for each theme."""
    with _copy_samples() as samples:
        for picture in pictures:
            for theme, svg in (await _photograph(samples, picture)).items():
                path = folder / f"{picture.name}{THEMES[theme]}.svg"
                path.write_text(svg, encoding="utf-8")
                print(path)


@contextmanager
def _copy_samples() -> Iterator[Path]:
    """Copy the sample agents to a folder that is removed at the end, with the state of the screen."""
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["XDG_STATE_HOME"] = scratch
        samples = Path(scratch) / "sample_agents"
        ignore = shutil.ignore_patterns(".workbench", ".adk", "__pycache__")
        shutil.copytree(ROOT / "sample_agents", samples, ignore=ignore)
        yield samples


@contextmanager
def _open(samples: Path, theme: str, layout: ScreenLayout | None = None) -> Iterator[WorkbenchApp]:
    from workbench.store.settings import LoadedSettings, Settings, TuiSettings
    from workbench.tui.app import WorkbenchApp
    from workbench.tui.backend.backend import Backend
    from workbench.tui.themes import load_themes, theme_folders

    backend = Backend(samples)
    settings = LoadedSettings(settings=Settings(tui=TuiSettings(theme=theme)))
    try:
        yield WorkbenchApp(backend, settings=settings, themes=load_themes(theme_folders()[:1]), layout=layout)
    finally:
        backend.close()


def _read_text(app: WorkbenchApp) -> str:
    return "\n".join("".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips())


def _read_screen(app: WorkbenchApp, samples: Path) -> tuple[Row, ...]:
    """Read the rows of the screen. The folder of the samples, which has another path each time, is `~`."""
    theme = app.theme_variables
    strips = app.screen._compositor.render_strips()
    rows = read_rows(strips, colour=theme["foreground"], background=theme["background"])
    path = str(samples)
    name = f"~/{samples.name}".ljust(len(path))
    return tuple(tuple(run._replace(text=run.text.replace(path, name)) for run in row) for row in rows)


async def _photograph(samples: Path, picture: Picture) -> Mapping[str, str]:
    """Return the picture in each theme."""
    with _open(samples, "dark") as app:
        async with app.run_test(size=SIZE) as pilot:

            async def until(text: str) -> None:
                for _ in range(1_500):
                    if text in _read_text(app):
                        return
                    await pilot.pause(0.02)
                raise AssertionError(f"{picture.name}: not on the screen: {text}")

            await until("light_on_off")
            if picture.runs:
                await pilot.press("R")
                await until(" jobs")  # the samples have an agent with a model, so the plan is shown first
                await pilot.press("enter")
                await until("finished")
                if app.screen.query_one("#drawer").display:  # it opens by itself in long runs
                    await pilot.press("o")
            await pilot.press(*("space" if key == " " else key for key in picture.keys))
            await until(picture.shown)
            await pilot.pause(0.5)
            svgs = {}
            for theme in THEMES:
                app.theme = theme
                app._remove_messages()
                await pilot.pause(0.5)
                frame = Frame(_read_screen(app, samples), 1.0, "", "")
                svgs[theme] = animate([frame], columns=SIZE[0], divide_at=0, poster=0)
            return svgs


# The recording.

RECORDING_SIZE = (110, 30)
_TICK = 0.12  # seconds of a frame in which something moves
_LONGEST = 30.0  # seconds to wait for the end of a scene


@dataclass(frozen=True)
class Scene:
    """Keys to press, the text that the screen must then show, and for how many seconds it is shown.

    `words` are the caption, `shown` the key in it. `text` is typed after the keys. A scene that `mends` saves a change
    of the agent as an editor does.
    """

    words: str
    keys: Sequence[str]
    wanted: str
    seconds: float
    shown: str = ""
    mends: bool = False
    text: str = ""


STORY = (
    Scene("a project: agents, eval sets, cases", (), "15 not run", 2.5),
    Scene("run the cases of an eval set", ("r",), "finished", 2.5, "r"),
    Scene("the next failure: expected device_5, got device_2", ("n",), "difference 1 of 2", 4, "n"),
    Scene("watch: each save runs the cases that it affects", ("w",), "watching", 2, "w"),
    Scene(
        "choose() is mended in an editor and saved: the 2 cases that use it run", (), "no differences", 4, mends=True
    ),
    Scene("the next failure: the agent looked the device up first", ("n",), "difference 1 of 1", 3, "n"),
    Scene("accept what it did as the new expectation", ("a",), "no differences", 2.5, "a"),
    Scene("edit a case", ("e", "enter"), "⏎ apply", 1.2, "e"),
    Scene("edit a case", ("backspace", *", please."), ", please.", 0.8, "e"),
    Scene("apply and save: the watch runs the case", ("enter", "ctrl+s"), "1/1", 2.5, "ctrl+s"),
    Scene("its steps", ("3",), "3 steps", 3, "3"),
)


FIRST_CASE = (
    Scene("a case of two turns: written, run, accepted", (), "15 not run", 2),
    Scene("a new case and its id", ("N",), "off_and_on", 0.8, "N", text="off_and_on"),
    Scene(
        "the first prompt",
        ("enter",),
        "Turn off device_2 in the Bedroom.",
        0.8,
        "⏎",
        text="Turn off device_2 in the Bedroom.",
    ),
    Scene("apply: the cursor is on what comes next", ("enter",), "+ call", 1.2, "⏎"),
    Scene("a call: tab completes the agent's tools", ("enter",), "set_dev", 0.8, "⏎", text="set_dev"),
    Scene("a call: its parameters and known values", ("tab",) * 8, '"OFF")', 1.5, "tab"),
    Scene("apply; the response is left to the run", ("enter",), "call  set_device_info", 1.2, "⏎"),
    Scene(
        "the second turn",
        ("down", "enter"),
        "Turn on device_2 in the Bedroom.",
        0.8,
        "⏎",
        text="Turn on device_2 in the Bedroom.",
    ),
    Scene("apply, save and run", ("enter", "r"), "finished", 2.5, "r"),
    Scene("what the agent did and the case does not expect", ("2",), "difference 1 of 3", 3, "2"),
    Scene("accept it: 12 keys beside the text and its completion", ("A", "y"), "✓ off_and_on", 3, "A y"),
)
"""Its last caption counts the keys beside the text; tab completes text."""


async def record(story: Sequence[Scene], file: Path, *, poster: int) -> None:
    """Write a story as an animation. `poster` is the number of the scene that programs without animation show."""
    from workbench.store.settings import load_settings
    from workbench.tui.state.tour import EVAL_SET, TARGET, make_first_layout

    with _copy_samples() as samples:
        targets = load_settings(samples).settings.targets
        layout = make_first_layout({name: target.eval_sets or () for name, target in targets.items()})
        layout = layout.model_copy(update={"selected": (TARGET, EVAL_SET, None)})
        with _open(samples, "dark", layout) as app:
            async with app.run_test(size=RECORDING_SIZE) as pilot:
                camera = _Camera(app, pilot, samples)
                ends = [await camera.play(scene) for scene in story]
                divide_at = app.screen.query_one("#right").region.x
    svg = animate(camera.frames, columns=RECORDING_SIZE[0], divide_at=divide_at, poster=ends[poster])
    file.write_text(svg, encoding="utf-8")
    print(f"{file}: {len(camera.frames)} frames, {len(svg) / 1000:.0f} kB")


class _Camera:
    """Plays scenes and takes a frame whenever the screen has changed."""

    def __init__(self, app: WorkbenchApp, pilot: Pilot[None], samples: Path) -> None:
        self._app = app
        self._pilot = pilot
        self._samples = samples
        self.frames: list[Frame] = []

    async def play(self, scene: Scene) -> int:
        """Play a scene; return the number of its last frame."""
        if scene.mends:
            _mend(self._samples)
        for key in (*scene.keys, *("space" if letter == " " else letter for letter in scene.text)):
            await self._pilot.press(key)
            self._shoot(scene)
        deadline = asyncio.get_running_loop().time() + _LONGEST
        while scene.wanted not in _read_text(self._app):
            if asyncio.get_running_loop().time() > deadline:
                raise AssertionError(f"not on the screen: {scene.wanted}\n{_read_text(self._app)}")
            await self._pilot.pause(_TICK)
            self._shoot(scene)
        for _ in range(8):  # panes are drawn after the list
            await self._pilot.pause(_TICK)
        if scene.mends:
            self._app._remove_messages()  # about a run of the watch, which the run line shows too
        self._shoot(scene, seconds=scene.seconds)
        return len(self.frames) - 1

    def _shoot(self, scene: Scene, *, seconds: float = _TICK) -> None:
        rows = _read_screen(self._app, self._samples)
        if self.frames and seconds == _TICK and self.frames[-1].rows == rows:
            return
        self.frames.append(Frame(rows, seconds, scene.shown, scene.words))


def _mend(samples: Path) -> None:
    from workbench.tui.state.tour import AGENT_FILE, mend_agent

    file = samples / AGENT_FILE
    mended = mend_agent(file.read_text(encoding="utf-8"))
    assert mended is not None
    file.write_text(mended[0], encoding="utf-8")


if __name__ == "__main__":
    PICTURES.mkdir(parents=True, exist_ok=True)
    asyncio.run(make(ALL, PICTURES))
    asyncio.run(record(STORY, PICTURES / "recording.svg", poster=2))
    asyncio.run(record(FIRST_CASE, PICTURES / "first-case.svg", poster=9))
