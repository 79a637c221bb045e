"""The progress line: one line on a terminal's standard error, drawn a few times a second by a thread of its own.

The thread keeps it alive while nothing happens (an agent that thinks, or hangs), and bounds what a fast run draws.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Self

from workbench.model.results import CaseStatus
from workbench.model.spending import ModelSpending
from workbench.model.text import one_line
from workbench.report.spending import quota_wait_text, spending_text
from workbench.report.table import cell_length
from workbench.report.wording import SYMBOLS, duration_text

_INTERVAL = 0.15
"""Seconds between updates."""
_BAR = 20
"""Characters of the bar."""
_COUNTED = (CaseStatus.PASSED, CaseStatus.FAILED, CaseStatus.ERROR, CaseStatus.NOT_EVALUATED)


class Progress:
    """Shows how far a run is, between `with` and its end. Where `shown` is false nothing is ever drawn."""

    def __init__(self, *, total: int, shown: bool) -> None:
        self._total = total
        self._counts = dict.fromkeys(CaseStatus, 0)
        self._current = ""
        self._models = ""
        self._importing = ""
        self._waits_until = 0.0
        self._started = time.monotonic()
        self._visible = False
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._draw_until_the_end, daemon=True) if shown and total else None

    def __enter__(self) -> Self:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        self._clear()

    def started(self, name: str) -> None:
        """This case is running now."""
        self._current = name

    def asked(self, models: Sequence[ModelSpending]) -> None:
        """Models were asked so much until now."""
        self._models = spending_text(models)

    def importing(self, targets: Sequence[str]) -> None:
        """The agents of these targets are being imported now."""
        self._importing = ", ".join(targets)

    @property
    def is_shown(self) -> bool:
        """Whether anybody sees the line."""
        return self._thread is not None

    def waits(self, seconds: float) -> None:
        """A model is not asked for so many seconds."""
        self._waits_until = time.monotonic() + seconds

    def finished(self, status: CaseStatus) -> None:
        """One more case ended."""
        self._counts[status] += 1

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """While this is open the line is gone and something else may be printed."""
        with self._lock:
            self._clear()
            yield

    def _draw_until_the_end(self) -> None:
        while not self._ended.wait(_INTERVAL):
            with self._lock:
                self._draw(one_line(self.text(time.monotonic() - self._started)))

    def _draw(self, text: str) -> None:
        room = shutil.get_terminal_size().columns - 1
        while cell_length(text) > room:
            text = text[:-1]
        sys.stderr.write(f"\r{text}\x1b[K")
        sys.stderr.flush()
        self._visible = True

    def _clear(self) -> None:
        if self._visible:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._visible = False

    def text(self, elapsed: float) -> str:
        """The line after so many seconds."""
        done = sum(self._counts.values())
        filled = _BAR * done // self._total
        counts = [f"{SYMBOLS[status]}{self._counts[status]}" for status in _COUNTED if self._counts[status]]
        parts = ["█" * filled + "░" * (_BAR - filled), f"{done}/{self._total}", *counts, duration_text(elapsed)]
        if 0 < done < self._total and elapsed > 0:
            parts.append(f"{done / elapsed:.1f}/s  eta {elapsed / done * (self._total - done):.0f} s")
        if (left := self._waits_until - time.monotonic()) > 0:
            parts.append(quota_wait_text(left))
        if self._models:
            parts.append(self._models)
        return "  ".join([*parts, f"importing {self._importing}" if self._importing else self._current])
