"""An internal error ends the application with a one-sentence message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from workbench.tui.app import WorkbenchApp, run
from workbench.tui.screens.main_screen import MainScreen

original_run = WorkbenchApp.run


def test_an_internal_error_reaches_the_caller_but_not_the_terminal(
    make_project: Any, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project: Path = make_project()

    def break_down(screen: MainScreen) -> None:
        raise RuntimeError("it broke here")

    async def press_f5(pilot: Pilot[object]) -> None:
        await pilot.press("f5")
        await pilot.pause(1.0)

    monkeypatch.setattr(MainScreen, "action_reload", break_down)
    monkeypatch.setattr(WorkbenchApp, "run", lambda app: original_run(app, headless=True, auto_pilot=press_f5))

    with pytest.raises(RuntimeError, match="it broke here"):
        run(project)

    assert "break_down" not in "".join(capfd.readouterr())
