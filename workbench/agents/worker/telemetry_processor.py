"""The span processor through which `telemetry.py` hears of OpenTelemetry's spans. Imports the SDK."""

from __future__ import annotations

import sys
import threading

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from . import telemetry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

_heard: List[Any] = []  # providers that have a processor of ours
_lock = threading.Lock()


class _Processor(SpanProcessor):  # type: ignore[misc]  # opentelemetry is untyped here: it may not be installed
    """Tells turns of the spans that begin in them."""

    def __init__(self) -> None:
        self._turns: Dict[int, telemetry.Turn] = {}

    def on_start(self, span: Any, parent_context: Any = None) -> None:  # noqa: ARG002
        turn = telemetry.current()
        if turn is not None:
            self._turns[span.context.span_id] = turn
            turn.began(span)

    def on_end(self, span: Any) -> None:
        turn = self._turns.pop(span.context.span_id, None)
        if turn is not None:
            try:
                turn.ended(span)
            except Exception:  # whatever an agent puts into a span costs that span, never the agent's run
                sys.stderr.write(f"workbench: the span {span.name!r} could not be read\n")


def listen() -> bool:
    """Hear of the spans of whichever provider is set now; whether that can be."""
    with _lock:
        provider = trace.get_tracer_provider()
        if isinstance(provider, trace.ProxyTracerProvider):
            provider = _own_provider()
        if any(provider is known for known in _heard):
            return True
        if not hasattr(provider, "add_span_processor"):
            return False
        provider.add_span_processor(_Processor())
        _heard.append(provider)
        return True


def _own_provider() -> Any:
    """A provider for code that makes spans and leaves it to others to set one up.

    Put in place without `set_tracer_provider`, which works once only: an agent that sets up its own later still can.
    """
    provider = TracerProvider(resource=Resource.get_empty(), shutdown_on_exit=False)
    if hasattr(trace, "_TRACER_PROVIDER"):
        trace._TRACER_PROVIDER = provider
    return provider
