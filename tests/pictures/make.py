"""Makes the pictures of README and docs from the program as it is: `python tests/pictures/make.py`.

The sample agents are copied to a folder of their own, run, and photographed in every pane that has a picture.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
SIZE = (132, 38)


@dataclass(frozen=True)
class Picture:
    """What to press after a run of everything, and the text that then must stand on the screen."""

    name: str
    keys: Sequence[str]
    shown: str
    theme: str = "dark"


ALL = (
    Picture("diff", ("n", "n", "2"), "difference 1 of"),
    Picture("dashboard", ("g",), "whole runs"),
    Picture("palette", ("colon", *"set_d"), "Tools"),
    Picture("case", ("n", "n", "1"), "user"),
    Picture("trace", ("slash", *"forgotten_transfer", "enter", "n", "3", "j", "j", "d", "d", "d"), "prime_checker"),
    Picture("scores", ("n", "n", "4"), "tool_trajectory_avg_score", theme="light"),
    Picture("criteria", ("n", "n", "c"), "threshold"),
)


async def make(pictures: Sequence[Picture], folder: Path) -> None:
    """Write each picture into the folder, as an SVG file."""
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["XDG_STATE_HOME"] = scratch
        samples = Path(scratch) / "sample_agents"
        ignore = shutil.ignore_patterns(".workbench", ".adk", "__pycache__")
        shutil.copytree(ROOT / "sample_agents", samples, ignore=ignore)
        for picture in pictures:
            svg = await _photograph(samples, picture)
            (folder / f"{picture.name}.svg").write_text(svg, encoding="utf-8")
            print(folder / f"{picture.name}.svg")


async def _photograph(samples: Path, picture: Picture) -> str:
    from workbench.store.settings import LoadedSettings, Settings, TuiSettings
    from workbench.tui.app import WorkbenchApp
    from workbench.tui.backend.backend import Backend
    from workbench.tui.themes import load_themes, theme_folders

    backend = Backend(samples)
    settings = LoadedSettings(settings=Settings(tui=TuiSettings(theme=picture.theme)))
    app = WorkbenchApp(backend, settings=settings, themes=load_themes(theme_folders()[:1]))
    try:
        async with app.run_test(size=SIZE) as pilot:

            async def until(text: str) -> None:
                for _ in range(1_500):
                    strips = app.screen._compositor.render_strips()
                    if text in "\n".join("".join(segment.text for segment in strip) for strip in strips):
                        return
                    await pilot.pause(0.02)
                raise AssertionError(f"{picture.name}: not on the screen: {text}")

            await until("light_on_off")
            await pilot.press("R")
            await until(" jobs")  # the samples have an agent with a model, so the plan is shown first
            await pilot.press("enter")
            await until("finished")
            app.clear_notifications()
            await pilot.press(*picture.keys)
            await until(picture.shown)
            await pilot.pause(0.5)
            app.clear_notifications()
            await pilot.pause(0.2)
            return app.export_screenshot(title="workbench sample_agents", simplify=True)
    finally:
        backend.close()


if __name__ == "__main__":
    PICTURES.mkdir(parents=True, exist_ok=True)
    asyncio.run(make(ALL, PICTURES))
