"""A case that is renamed in the case pane keeps its verdict and its history."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.tui.panes.case_pane.opened import get_data, open_case, wait_until_idle
from workbench.tui.state.case_status import CaseState


def get_state(screen: Any, eval_id: str) -> CaseState:
    (key,) = [row.case for row in screen.state.browser.rows if row.case is not None and row.case.eval_id == eval_id]
    record = screen.state.board.get_record(key)
    assert record is not None
    return record.state


async def rename(screen: Any, ending: str) -> None:
    await screen.press("g", "enter", *ending, "enter")
    await wait_until_idle(screen)


async def test_a_renamed_case_keeps_its_verdict_and_its_history(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await screen.press("r")
        await screen.until("finished")
        await wait_until_idle(screen)
        before = get_state(screen, "lamp")
        assert before is not CaseState.NOT_RUN

        await rename(screen, "_1")
        await screen.until("lamp_1")
        assert get_data(screen)["eval_id"] == "lamp_1"
        assert get_state(screen, "lamp_1") is before
        await screen.press("2")
        await screen.until("pong")  # what the agent answered under the former name
        await screen.press("5")
        await screen.until("1 execution", "this run gave the current verdict")

        await screen.press("ctrl+s")
        await screen.until("saved")
    async with open_app(project) as screen:  # another session
        await open_case(screen, "lamp_1")
        await wait_until_idle(screen)
        assert get_state(screen, "lamp_1") is before
    assert "lamp_1" in json.dumps(json.loads((project / "home.evalset.json").read_text()))


async def test_an_undone_renaming_shows_the_verdict_under_the_old_name(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await screen.press("r")
        await screen.until("finished")
        await wait_until_idle(screen)
        before = get_state(screen, "lamp")
        await rename(screen, "_1")
        await screen.until("lamp_1")

        await screen.press("u")
        await screen.until_gone("lamp_1")
        await wait_until_idle(screen)
        assert get_state(screen, "lamp") is before
