"""One turn of a document while hunks of it are accepted: its data, what is compared, and the edits it takes."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from workbench.engine.accepting.order import New, Rearrangement, rearranged, write_list
from workbench.model.evalset import Invocation
from workbench.report.differences import Difference, DifferenceKind
from workbench.report.turns import TurnComparison
from workbench.store.documents import EvalSetDocument, Place
from workbench.store.documents.places import find_key

_ARGUMENTS = (DifferenceKind.ARGUMENT_MISSING, DifferenceKind.ARGUMENT_EXTRA, DifferenceKind.ARGUMENT_CHANGED)


@dataclass(frozen=True, slots=True)
class TurnEdit:
    """What is done to one turn.

    `place` leads from the case to the turn; `expected` and `actual` are both sides before the edit, `accepted` the
    differences that are to go. `has_tool_responses`: the case writes down what tools give back.
    """

    document: EvalSetDocument
    case: int
    place: Place
    expected: Invocation
    actual: Invocation
    comparison: TurnComparison
    accepted: Sequence[Difference]
    has_tool_responses: bool

    def of_kind(self, *kinds: DifferenceKind) -> list[Difference]:
        """The accepted differences of some kinds."""
        return [difference for difference in self.accepted if difference.kind in kinds]

    @property
    def arguments(self) -> list[Difference]:
        """The accepted differences within the arguments of calls that both sides made."""
        return self.of_kind(*_ARGUMENTS)

    def raw(self, *steps: str | int) -> Any:
        """A copy of the data at a place in the turn, None where there is nothing."""
        value = self.document.raw_case(self.case)
        for step in (*self.place, *steps):
            value = member(value, step)
        return deepcopy(value)

    def write(self, steps: Place, value: Any) -> None:
        """Make the data at a place in the turn say this, touching only what differs."""
        self.document.set_value((*self.place, *steps), value, case=self.case)

    def write_list(self, steps: Place, items: Sequence[Any], arrangement: Rearrangement, new: dict[Any, Any]) -> None:
        """Make the list at a place in the turn, which has `items`, have another order."""
        place = (*self.place, *steps)
        write_list(self.document, self.case, place, items=items, arrangement=arrangement, new=new)

    def rearranged_calls(self) -> Rearrangement:
        """The calls after those that were accepted have left, moved or come."""
        moving = [found.expected_call for found in self.of_kind(DifferenceKind.CALL_MOVED)]
        return rearranged(
            self.comparison.calls,
            leaving=[found.expected_call for found in self.of_kind(DifferenceKind.CALL_MISSING)],  # type: ignore[misc]
            moving={call: self.comparison.moves[call] for call in moving if call is not None},
            coming=self._coming(DifferenceKind.CALL_EXTRA),
        )

    def rearranged_said(self) -> Rearrangement:
        """What was said after what was accepted of it has left or come."""
        leaving = [found.expected_call for found in self.of_kind(DifferenceKind.INTERMEDIATE_MISSING)]
        coming = self._coming(DifferenceKind.INTERMEDIATE_EXTRA)
        return rearranged(self.comparison.said, leaving=leaving, coming=coming)  # type: ignore[arg-type]

    def _coming(self, kind: DifferenceKind) -> list[int]:
        return [found.actual_call for found in self.of_kind(kind) if found.actual_call is not None]

    def given_back(self, key: New) -> Any:
        """What the tool gave back to a call that comes; None where that is not known or the case leaves it open."""
        return self.comparison.actual.responses[key.actual] if self.has_tool_responses else None


def member(value: Any, key: str | int) -> Any:
    """A member of an object, its key in either style, or an item of a list; None where there is none."""
    if isinstance(value, dict) and isinstance(key, str):
        spelling = find_key(value, key, free=False)
        return None if spelling is None else value[spelling]
    if isinstance(value, list) and isinstance(key, int) and -1 < key < len(value):
        return value[key]
    return None


def put(value: dict[str, Any], key: str, item: Any) -> None:
    """Set a member of an object under the spelling that it has there, if any."""
    value[find_key(value, key, free=False) or key] = item


def parts_with_text(parts: Any, text: str) -> list[Any]:
    """The parts of a message with this text in place of theirs. Thoughts go; parts that are no text stay."""
    parts = parts if isinstance(parts, list) else []
    first = next((i for i, part in enumerate(parts) if part.get("text") and not part.get("thought")), None)
    if first is None:
        return [{"text": text}, *(part for part in parts if not part.get("text"))]
    kept = [(i, part) for i, part in enumerate(parts) if i == first or not part.get("text")]
    return [{**part, "text": text} if i == first else part for i, part in kept]


def change_arguments(call: Any, key: str, difference: Difference, given: Any) -> Any:
    """A written call (as `{name, args}` in any spelling, or a bare name) with one difference in its arguments gone.

    `key` is what it calls its arguments; `given` are those of the call that was made.
    """
    if isinstance(call, str):
        call = {"name": call}
    if not difference.path:
        spelling = find_key(call, key, free=False) or key
        rest = {name: value for name, value in call.items() if name != spelling}
        return rest if given is None else {**call, spelling: _plain(given)}
    args = member(call, key)
    _change(args, difference, given)
    return call


def _change(container: Any, difference: Difference, given: Any) -> None:
    for step in difference.path[:-1]:
        container, given = container[step], given[step]
    last = difference.path[-1]
    if difference.kind is DifferenceKind.ARGUMENT_MISSING:
        del container[last]
    else:
        container[last] = _plain(given[last])


def _plain(value: Any) -> Any:
    return deepcopy(dict(value)) if isinstance(value, dict) else deepcopy(value)
