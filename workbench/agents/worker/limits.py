"""How much is kept of one turn, so that a run stays within its memory whatever an agent does."""

from __future__ import annotations

from .adapters.base import AgentFault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional, Set

MOST_STEPS = 10_000
"""Calls of tools, responses of tools, and spans of each kind that are kept of one turn."""

MOST_TEXTS = 100_000
"""Texts of one turn before its response; an agent that reports more is refused."""

LEFT_OUT = "workbench.spans_left_out"
"""The attribute of an outermost span that says how many spans of its turn are not kept."""


def why_cut(calls: int, responses: int = 0) -> Optional[str]:
    """Why the calls of a turn cannot be judged: there are more calls or responses than are kept; None if all are."""
    if calls > MOST_STEPS:
        return f"the agent made {calls:,} tool calls in one turn; only the first {MOST_STEPS:,} are kept"
    if responses > MOST_STEPS:
        return f"the tools gave {responses:,} responses in one turn; only the first {MOST_STEPS:,} are kept"
    return None


def check_texts(count: int) -> None:
    """Raise AgentFault if a turn has more texts before its response than are kept."""
    if count > MOST_TEXTS:
        raise AgentFault(f'"intermediate_responses" has {count:,} items, expected at most {MOST_TEXTS:,}')


class SpanLimit:
    """Admits at most MOST_STEPS spans of each kind in a turn, and always the outermost ones."""

    def __init__(self) -> None:
        self._turn: Any = None
        self._admitted: Dict[str, Set[str]] = {}
        self._left_out = 0

    def admit(self, span: Dict[str, Any]) -> Optional[Dict[str, Any]]:
        """The span as it is sent; None if its turn has too many. It may come when it begins and when it ends."""
        if span["turn"] != self._turn:
            self._turn, self._admitted, self._left_out = span["turn"], {}, 0
        if span.get("parent_id") is None:
            count = self._left_out
            return {**span, "attributes": {**(span.get("attributes") or {}), LEFT_OUT: count}} if count else span
        admitted = self._admitted.setdefault(span["kind"], set())
        if span["id"] not in admitted:
            if len(admitted) >= MOST_STEPS:
                self._left_out += span.get("start") is None or span.get("end") is not None  # once, not at its begin
                return None
            admitted.add(span["id"])
        return span
