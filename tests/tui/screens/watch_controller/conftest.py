"""Projects to watch: real files, the real watcher, real processes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from workbench.tui.state.case_status import CaseState

AGENT = """
import tools

def answer(prompt):
    if "refund" in prompt:
        return {"response": "ok", "predicted_trajectory": [tools.refund(prompt)]}
    return {"response": "ok", "predicted_trajectory": [tools.ship(prompt)]}
"""
TOOLS = '''
def refund(prompt):
    """Give money back."""
    return {"tool_name": "refund", "tool_input": {"amount": 1}}


def ship(prompt):
    return {"tool_name": "ship", "tool_input": {}}
'''
CALLS = {"refund": {"name": "refund", "args": {"amount": 1}}, "ship": {"name": "ship", "args": {}}}


def case(eval_id: str) -> dict[str, Any]:
    """Return a case that expects a call of the tool that its id begins with."""
    tool = eval_id.partition("_")[0]
    turn = {
        "user_content": {"role": "user", "parts": [{"text": eval_id}]},
        "intermediate_data": {"tool_uses": [CALLS[tool]]},
    }
    return {"eval_id": eval_id, "conversation": [turn]}


class Shop:
    """A folder with an agent of two tools, and a set with two cases per tool."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def save(self, name: str, text: str) -> None:
        """Save as most editors do: write under another name, then rename."""
        temporary = self.path / f".{name}.tmp"
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(self.path / name)

    def write(self, name: str, text: str) -> None:
        """Save as other editors do: write into the file itself."""
        (self.path / name).write_text(text, encoding="utf-8")

    def save_cases(self, *names: str) -> None:
        """Save the set."""
        self.save("shop.evalset.json", json.dumps({"eval_set_id": "shop", "eval_cases": [case(n) for n in names]}))


class WatchedShop:
    """The application on such a folder, after one run of every case, with the watch on."""

    def __init__(self, screen: Any, shop: Shop) -> None:
        self.screen = screen
        self.shop = shop
        self.press = screen.press
        self.until = screen.until

    @property
    def state(self) -> Any:
        return self.screen.state

    @property
    def watch(self) -> Any:
        return self.state.watch

    @property
    def text(self) -> str:
        return self.screen.text

    def get_state(self, eval_id: str) -> CaseState:
        return self._record(eval_id).state

    def is_stale(self, eval_id: str) -> bool:
        return self.state.browser.freshness.is_stale(self._record(eval_id).key)

    def get_result_number(self, eval_id: str) -> int:
        """Return the sequence number within this session of the newest result of the case."""
        return self._record(eval_id).result_number

    def _record(self, eval_id: str) -> Any:
        (row,) = (row for row in self.state.browser.iterate_case_rows() if row.label == eval_id)
        return self.state.board.get_record(row.case)

    async def until_true(self, condition: Callable[[], object], seconds: float = 15) -> None:
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    await self.screen.pilot.pause(0.02)
        except TimeoutError:
            raise AssertionError(self.text) from None

    async def select_case(self, eval_id: str) -> None:
        """Put the cursor on a case."""
        self.state.browser.select_case(self._record(eval_id).key)
        self.screen.app._main._show_cursor_row()
        await self.screen.pilot.pause()


@pytest.fixture
def shop(make_project: Callable[..., Path]) -> Shop:
    new_shop = Shop(make_project(agent=AGENT))
    new_shop.save("tools.py", TOOLS)
    new_shop.save_cases("refund_1", "refund_2", "ship_1", "ship_2")
    return new_shop


@pytest.fixture
def open_shop(open_app: Callable[..., Any], shop: Shop) -> Callable[..., Any]:
    """Open the shop, run every case, and turn the watch on: `async with open_shop() as watched`."""

    @asynccontextmanager
    async def start(*, runs: bool = True, watches: bool = True, **options: Any) -> AsyncIterator[WatchedShop]:
        async with open_app(shop.path, **options) as screen:
            watched = WatchedShop(screen, shop)
            await watched.until_true(lambda: sum(screen.state.board.count_states().values()) == 4)
            await watched.until_true(lambda: screen.state.browser.read_count == 4)
            if runs:
                await screen.press("R")
                await watched.until_true(lambda: screen.state.progress is not None and not screen.state.is_busy)
                assert watched.get_state("refund_1") is CaseState.PASSED
            if watches:
                await screen.press("w")
                await watched.until_true(lambda: watched.watch.files)
            yield watched

    return start
