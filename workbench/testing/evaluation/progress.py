"""How far an evaluation is: one line on a terminal's standard error, or below the cell of a notebook."""

from __future__ import annotations

import sys
import time
from typing import Any, Self

from workbench.model.events import CaseFinished, RunEvent
from workbench.model.results import CaseStatus
from workbench.model.text import counted

_INTERVAL = 0.15
"""Seconds between updates."""
_BAR = 20
"""Characters of the bar."""


class Progress:
    """Shows events of a run as they come. Where nobody looks nothing is shown."""

    def __init__(self, *, total: int) -> None:
        self._total = total
        self._done = 0
        self._errors = 0
        self._shown_at = time.monotonic()
        self._display = _notebook_display()
        self._handle: Any = None
        self._line_is_open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """It is over: the line on a terminal goes, that in a notebook stays with the last count."""
        if self._line_is_open:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
        elif self._handle is not None:
            self._show(self._text())

    def heard(self, event: RunEvent) -> None:
        """Something happened."""
        if isinstance(event, CaseFinished):
            self._done += 1
            self._errors += event.status is CaseStatus.ERROR
            if time.monotonic() - self._shown_at >= _INTERVAL:
                self._shown_at = time.monotonic()
                self._show(self._text())

    def _text(self) -> str:
        filled = _BAR * self._done // self._total
        errors = f"  {self._errors} with errors" if self._errors else ""
        return f"{'█' * filled}{'░' * (_BAR - filled)}  {self._done}/{counted(self._total, 'row')}{errors}"

    def _show(self, text: str) -> None:
        if self._display is not None:
            shown = {"text/plain": text}
            if self._handle is None:
                self._handle = self._display(shown, raw=True, display_id=True)
            else:
                self._handle.update(shown, raw=True)
        elif sys.stderr.isatty():
            sys.stderr.write(f"\r{text}\x1b[K")
            sys.stderr.flush()
            self._line_is_open = True


def _notebook_display() -> Any:
    """What shows things in the notebook that this runs in; None elsewhere."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    return display
