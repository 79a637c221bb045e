"""Keeps up which of the shown verdicts hold while no watch does: checks them at start, on reload and after saves."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Collection
from dataclasses import dataclass

from textual import work
from textual.message import Message

from workbench.model.keys import CaseKey
from workbench.store.errors import StoreError
from workbench.tui.hub import Hub
from workbench.tui.screens.faceless import Faceless

_BETWEEN = 1.0  # seconds between two messages: showing ten thousand cases anew takes its time
_CALM = 0.3  # seconds without another change before the check begins


class VerdictChecker(Faceless):
    """Checks in the background; a later check takes over what an earlier one has left."""

    @dataclass
    class Checked(Message):
        """The verdicts of these cases have become stale, or current."""

        cases: Collection[CaseKey]

    def __init__(self, hub: Hub) -> None:
        super().__init__()
        self._hub = hub
        self._state = hub.state
        self._left: set[str] = set()  # eval sets that are still to be checked

    def check(self, eval_sets: Collection[str] | None = None) -> None:
        """Check the verdicts of these eval sets, by default of all. A watch needs no check: it says so by itself."""
        if self._state.watch.is_on:
            self._left.clear()
            return
        self._left.update({each.relative for each in self._state.browser.files} if eval_sets is None else eval_sets)
        self._check()

    @work(group="check", exclusive=True)
    async def _check(self) -> None:
        await asyncio.sleep(_CALM)
        shown = self._state.board.shown_verdicts(
            key for listed in self._state.browser.files if listed.relative in self._left for key in listed.keys
        )
        if shown:
            ended = {key: record.ended for key in shown if (record := self._state.board.record(key)) is not None}
            changed, told = set[CaseKey](), time.monotonic()
            with contextlib.suppress(StoreError):  # whatever shows the stored results has reported it
                async for checked in self._hub.gateway.verdict_check.check(shown):
                    if self._state.watch.is_on:
                        return
                    changed |= self._state.take_checked(checked, ended=ended)
                    if changed and time.monotonic() - told > _BETWEEN:
                        self.post_message(self.Checked(changed))
                        changed, told = set(), time.monotonic()
            if changed:
                self.post_message(self.Checked(changed))
        self._left.clear()
