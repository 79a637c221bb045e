"""Spans of OpenTelemetry that an agent's code makes in a turn in this process, as spans of ours.

What they say is in `conventions.py`. Nothing here imports OpenTelemetry: `telemetry_processor.py` does, once the
agent's code has.
"""

from __future__ import annotations

import sys
import threading
import time
from contextvars import ContextVar

from .conventions import MOST, exception_text, span_of, without_secrets
from .wire import lenient

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

_API = "opentelemetry.trace"
_here: ContextVar[Optional[Turn]] = ContextVar("workbench_telemetry", default=None)
_under_way: List[Turn] = []
_lock = threading.Lock()


class Turn:
    """The spans that begin while an agent answers one user content."""

    def __init__(self, index: int, *, around: Optional[str], opened: float) -> None:
        """`around` is the span that those without a parent are in; `opened` when the session was, by the performance
        counter."""
        self._index = index
        self._around = around
        self._zero = time.time_ns() - int((time.perf_counter() - opened) * 1e9)
        self._known: Dict[int, str] = {}
        self._spans: List[Dict[str, Any]] = []

    def enter(self) -> None:
        """What this task or thread, and what it starts, makes from now on belongs here."""
        _here.set(self)

    def began(self, span: Any) -> None:
        """A span of the agent's begins."""
        if len(self._known) < MOST:
            self._known[span.context.span_id] = f"otel-{span.context.span_id:016x}"

    def ended(self, span: Any) -> None:
        """One that began here has ended."""
        if span.context.span_id in self._known:
            self._spans.append(self._told(span))

    def end(self) -> List[Dict[str, Any]]:
        """The spans that have ended. What ends later is not told."""
        with _lock:
            if self in _under_way:
                _under_way.remove(self)
        _here.set(None)
        return self._spans

    def _told(self, span: Any) -> Dict[str, Any]:
        found: Dict[str, Any] = {str(key): lenient(value) for key, value in dict(span.attributes or {}).items()}
        parent = None if span.parent is None else self._known.get(span.parent.span_id)
        told = span_of(
            found,
            span_id=self._known[span.context.span_id],
            parent_id=parent or self._around,
            turn=self._index,
            name=span.name,
            start=self._seconds(span.start_time),
            end=self._seconds(span.end_time),
            error=_error(span),
        )
        return without_secrets(told)

    def _seconds(self, nanoseconds: int) -> float:
        return max(0.0, round((nanoseconds - self._zero) / 1e9, 6))


def begin_turn(index: int, *, around: Optional[str], opened: float) -> Optional[Turn]:
    """Hear of the spans that this task or thread, and what it starts, makes from now on; None where the agent's code
    has nothing to do with OpenTelemetry, or its spans cannot be heard of."""
    if _API not in sys.modules:
        return None
    try:
        from .telemetry_processor import listen

        if not listen():
            return None
    except ImportError:  # the interface alone is installed: nobody makes spans
        return None
    turn = Turn(index, around=around, opened=opened)
    with _lock:
        _under_way.append(turn)
    turn.enter()
    return turn


def current() -> Optional[Turn]:
    """The turn to which a span belongs that begins here. A thread that the agent started knows none: there may be only
    one."""
    here = _here.get()
    if here is None and len(_under_way) == 1:
        return _under_way[0]
    return here


def _error(span: Any) -> Optional[str]:
    """What went wrong: the exception that was noted, else the status."""
    if getattr(span.status.status_code, "name", "") != "ERROR":
        return None
    for event in span.events:
        if event.name == "exception":
            return exception_text(dict(event.attributes or {}))
    return str(span.status.description or "error")
