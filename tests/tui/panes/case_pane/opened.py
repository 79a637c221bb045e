"""Shared helpers for tests of the case pane: a set with a case and a scenario, moving to rows and typing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from textual.worker import WorkerCancelled

from workbench.tui.panes.case_pane import CasePane
from workbench.tui.widgets.inputs import TypedText

CALL = {"name": "find", "args": {"location": "Bedroom", "depth": 2, "exact": True}}


def turn(prompt: str, response: str, *calls: dict[str, Any]) -> dict[str, Any]:
    return {
        "user_content": {"role": "user", "parts": [{"text": prompt}]},
        "intermediate_data": {"tool_uses": list(calls)},
        "final_response": {"role": "model", "parts": [{"text": response}]},
    }


LAMP = {
    "eval_id": "lamp",
    "conversation": [turn("Find the lamp.", "It is there.", CALL), turn("Thanks.", "You are welcome.")],
    "session_input": {"app_name": "home", "user_id": "u", "state": {}},
}
TEA = {
    "eval_id": "tea",
    "conversation_scenario": {"starting_prompt": "Tea?", "conversation_plan": "Get tea.", "user_persona": "NOVICE"},
}


async def open_case(screen: Any, case: str = "lamp") -> None:
    """Open the case in tab 1 with the cursor on its first row."""
    await screen.until(case)
    rows = screen.state.browser.rows
    position = next(index for index, row in enumerate(rows) if row.label == case)
    screen.state.browser.set_cursor(position)
    await screen.press("1")
    screen.app.screen._show_cursor_row()
    await screen.until("eval id")
    await screen.pilot.pause()


async def select_row(screen: Any, label: str, *, number: int = 0) -> None:
    """Put the cursor on a row by its label."""
    view = get_pane(screen).editor.view
    target = [index for index, row in enumerate(view.rows) if row.label == label][number]
    await screen.press("g", *["j"] * target)
    await screen.pilot.pause()
    assert view.row.label == label


async def type_text(screen: Any, text: str) -> None:
    """Replace the text in the box."""
    screen.app.screen.query_one(TypedText).text = text
    await screen.pilot.pause()


async def wait_until_idle(screen: Any) -> None:
    """Wait until all requested work is done."""
    while True:
        try:
            # The worker that observes saved files ends only with the application.
            workers = [worker for worker in screen.app.workers if worker.group != "observe_saves"]
            if workers:  # an empty list means all of them
                await screen.app.workers.wait_for_complete(workers)
        except WorkerCancelled:  # a newer worker of its group replaced it
            continue
        break
    await screen.pilot.pause()


def get_pane(screen: Any) -> CasePane:
    pane = screen.app.screen_stack[0].query_one(CasePane)
    assert isinstance(pane, CasePane)
    return pane


def get_data(screen: Any) -> Any:
    return get_pane(screen).editor.opened.data


def read_cases(project: Path) -> Any:
    return json.loads((project / "home.evalset.json").read_text())["eval_cases"]
