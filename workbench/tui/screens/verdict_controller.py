"""Checks which of the shown verdicts are current while no watch does: at start, on reload and after saves."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Collection
from dataclasses import dataclass

from textual.message import Message
from textual.widget import Widget
from textual.worker import Worker, WorkerCancelled, WorkerFailed

from workbench.model.identity import CaseKey
from workbench.store.errors import StoreError
from workbench.tui.screen_messages import Controller, ScreenContext, background

_BETWEEN = 1.0  # seconds between two messages: showing ten thousand cases anew takes its time
_CALM = 0.3  # seconds without another change before the check begins


class VerdictController(Controller):
    """Checks verdicts in the background. A later check includes what an earlier one has not checked yet."""

    @dataclass
    class Checked(Message):
        """The verdicts of these cases have become stale, or current."""

        cases: Collection[CaseKey]

    def __init__(self, widget: Widget, context: ScreenContext) -> None:
        super().__init__(widget, context)
        self._pending: set[str] = set()  # eval sets
        self._observer: Worker[None] | None = None

    def check(self, eval_sets: Collection[str] | None = None) -> None:
        """Check the verdicts of these eval sets, by default of all. Do nothing under watch, which checks itself."""
        if self.state.watch.is_active:
            self._pending.clear()
            return
        self._pending.update(
            {each.relative for each in self.state.browser.file_sets} if eval_sets is None else eval_sets
        )
        self._check()

    @background(group="check_verdicts", exclusive=True)
    async def _check(self) -> None:
        await asyncio.sleep(_CALM)
        shown = self.state.board.find_verdicts_by_case(
            key
            for listed in self.state.browser.file_sets
            if listed.relative in self._pending
            for key in listed.case_keys
        )
        if shown:
            ended = {
                key: record.result_number for key in shown if (record := self.state.board.get_record(key)) is not None
            }
            changed, reported = set[CaseKey](), time.monotonic()
            with contextlib.suppress(StoreError):  # the reader of the stored results has reported it
                async for checked in self.backend.verdict_check.check(shown):
                    if self.state.watch.is_active:
                        return
                    changed |= self.state.apply_check(checked, ended=ended)
                    if changed and time.monotonic() - reported > _BETWEEN:
                        self.post_message(self.Checked(changed))
                        changed, reported = set(), time.monotonic()
            if changed:
                self.post_message(self.Checked(changed))
        self._pending.clear()

    def observe_saves(self) -> None:
        """Check after each save, until `stop_observing`."""
        self._observer = self._observe()

    def stop_observing(self) -> None:
        """Leave the files to the watch."""
        if self._observer is not None:
            self._observer.cancel()

    async def close(self) -> None:
        """Stop observing, and wait until no thread of the observer is left."""
        self.stop_observing()
        if self._observer is not None:
            with contextlib.suppress(WorkerCancelled, WorkerFailed):
                await self._observer.wait()

    @background(group="observe_saves", exclusive=True)
    async def _observe(self) -> None:
        # A history that cannot be read was reported already. F5 and the next start check without observing.
        with contextlib.suppress(StoreError, OSError):
            await self.backend.saved_files.observe(self.check)
