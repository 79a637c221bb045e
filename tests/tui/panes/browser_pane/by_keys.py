"""Shared helpers for tests of the browser pane: list rows and move to them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual.widgets import Input


def read_ids(project: Path, name: str = "lamps") -> list[str]:
    data = json.loads((project / f"{name}.evalset.json").read_text(encoding="utf-8"))
    return [case["eval_id"] for case in data["eval_cases"]]


async def select(screen: Any, eval_id: str) -> None:
    """Put the cursor on a case as soon as it is listed."""
    await wait_until_true(screen, lambda: eval_id in list_case_ids(screen))
    key = next(row.case for row in screen.state.browser.iterate_case_rows() if row.case and row.case.eval_id == eval_id)
    screen.state.browser.select_case(key)


async def answer_dialog(screen: Any, text: str) -> None:
    """Replace the proposed text in the dialog."""
    for _ in range(200):
        inputs = screen.app.screen.query(Input)
        if len(screen.app.screen_stack) > 1 and inputs:
            inputs.first().value = text
            await screen.press("enter")
            return
        await screen.pilot.pause(0.02)
    raise AssertionError(f"no dialog asks for anything\n{screen.text}")


async def wait_until_true(screen: Any, condition: Callable[[], bool]) -> None:
    for _ in range(300):
        if condition():
            return
        await screen.pilot.pause(0.02)
    raise AssertionError(f"it does not come true\n{screen.text}")


def list_case_ids(screen: Any) -> list[str]:
    return [row.case.eval_id for row in screen.state.browser.rows if row.case is not None]
