"""What an agent did differently from what was expected: call by call, argument by argument.

Equality is that of ADK's trajectory metric (same name, Python's `==` on the arguments, ids ignored), but that `true` is
not 1, which other metrics tell apart: a turn without call differences scores 1 under EXACT matching. Which metric minds
which difference is for the metrics to say; how differences are worded and coloured is left to the front ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from functools import cache
from typing import Any

from workbench.model.evalset import Invocation
from workbench.model.trajectory import ToolCall, trajectory_of

_LARGEST_TABLE = 40_000
"""Cells of the alignment table above which identical calls are anchored first (200 x 200 calls)."""

Path = tuple[str | int, ...]


class DifferenceKind(StrEnum):
    """How expected and actual part."""

    CALL_MISSING = "call_missing"  # expected, never made
    CALL_EXTRA = "call_extra"  # made, not expected
    CALL_MOVED = "call_moved"  # made, but before or after its turn
    ARGUMENT_MISSING = "argument_missing"
    ARGUMENT_EXTRA = "argument_extra"
    ARGUMENT_CHANGED = "argument_changed"
    TOOL_RESPONSE_CHANGED = "tool_response_changed"  # what a tool gave back to a call that both sides made
    INTERMEDIATE_MISSING = "intermediate_missing"  # what a sub-agent was expected to say on the way, and did not
    INTERMEDIATE_EXTRA = "intermediate_extra"
    INTERMEDIATE_CHANGED = "intermediate_changed"
    RESPONSE_CHANGED = "response_changed"
    STATE_CHANGED = "state_changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One way in which a turn (or the final state) is not as expected.

    `expected_call` and `actual_call` are positions in the two trajectories, from 0, None where that side has no such
    call; for what sub-agents said they are positions among that, and `tool` is the author. `path` leads to the value
    inside the arguments (or the state); it is empty where the whole call, the whole arguments or the response are
    meant. `expected` and `actual` are the values; for a whole call its arguments.
    """

    kind: DifferenceKind
    tool: str = ""
    expected_call: int | None = None
    actual_call: int | None = None
    path: Path = ()
    expected: Any = None
    actual: Any = None


def name_at(path: Path) -> str:
    """The name of the value at a path: its last step that is no position in a list; empty if there is none."""
    return next((step for step in reversed(path) if isinstance(step, str)), "")


@dataclass(frozen=True, slots=True)
class Pair:
    """One row of two aligned trajectories: positions from 0, None on the side that has nothing there.

    A call that was moved has two rows, one for each side, both with `moved`.
    """

    expected: int | None
    actual: int | None
    moved: bool = False


def differences(
    expected: Invocation, actual: Invocation, *, calls_known: bool = True, response_known: bool = True
) -> tuple[Difference, ...]:
    """How one turn differs: its calls in order, then its response where one was expected, as far as they are known."""
    calls = call_differences(trajectory_of(expected), trajectory_of(actual)) if calls_known else ()
    return (*calls, *(response_differences(expected, actual) if response_known else ()))


def tell_calls(expected: Invocation, actual: Invocation) -> bool:
    """Whether both sides of a row tell of calls. Where one does not, nothing is known of it, and nothing differs."""
    return expected.intermediate_data is not None and actual.intermediate_data is not None


def response_differences(expected: Invocation, actual: Invocation) -> Iterator[Difference]:
    """How the final response differs, where one was expected. Thoughts are no part of it."""
    if expected.final_response is not None:
        wanted = expected.final_response.text(thoughts=False)
        given = actual.final_response.text(thoughts=False) if actual.final_response is not None else None
        if wanted != (given or ""):
            yield Difference(kind=DifferenceKind.RESPONSE_CHANGED, expected=wanted, actual=given)


def call_differences(
    expected: Sequence[ToolCall], actual: Sequence[ToolCall], rows: Sequence[Pair] | None = None
) -> Iterator[Difference]:
    """How two trajectories differ, row by row of their alignment (`rows`, where it is known already)."""
    rows = align(expected, actual) if rows is None else rows
    moved_to = moves(rows, expected, actual)
    for pair in rows:
        if pair.expected is not None and pair.actual is not None:
            yield from _within_call(expected[pair.expected], actual[pair.actual], pair)
        elif pair.expected is not None:
            call = expected[pair.expected]
            kind = DifferenceKind.CALL_MOVED if pair.moved else DifferenceKind.CALL_MISSING
            target = moved_to.get(pair.expected)
            yield Difference(
                kind=kind, tool=call.name, expected_call=pair.expected, actual_call=target, expected=call.args
            )
        elif pair.actual is not None and not pair.moved:
            call = actual[pair.actual]
            yield Difference(kind=DifferenceKind.CALL_EXTRA, tool=call.name, actual_call=pair.actual, actual=call.args)


def value_differences(expected: Any, actual: Any, path: Path = ()) -> Iterator[tuple[DifferenceKind, Path, Any, Any]]:
    """Where two JSON values part: key by key, and item by item for lists of the same length."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        for key in (*expected, *(key for key in actual if key not in expected)):
            here = (*path, key)
            if key not in actual:
                yield DifferenceKind.ARGUMENT_MISSING, here, expected[key], None
            elif key not in expected:
                yield DifferenceKind.ARGUMENT_EXTRA, here, None, actual[key]
            else:
                yield from value_differences(expected[key], actual[key], here)
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for index, (one, other) in enumerate(zip(expected, actual, strict=True)):
            yield from value_differences(one, other, (*path, index))
    elif expected != actual or isinstance(expected, bool) is not isinstance(actual, bool):
        yield DifferenceKind.ARGUMENT_CHANGED, path, expected, actual


def state_differences(expected: Mapping[str, Any], actual: Mapping[str, Any] | None) -> tuple[Difference, ...]:
    """Which values of the expected final state are not there; keys that only the actual state has are no difference."""
    return tuple(
        Difference(kind=DifferenceKind.STATE_CHANGED, path=path, expected=wanted, actual=given)
        for kind, path, wanted, given in value_differences(dict(expected), dict(actual or {}))
        if not (kind is DifferenceKind.ARGUMENT_EXTRA and len(path) == 1)
    )


def align(expected: Sequence[ToolCall], actual: Sequence[ToolCall]) -> tuple[Pair, ...]:
    """The two trajectories side by side, at the least cost.

    Calls of the same name are paired, the dearer the more their arguments differ; a call that one side lacks costs 1.
    Identical calls left unpaired on both sides were moved.
    """
    if expected == actual:
        return tuple(Pair(place, place) for place in range(len(expected)))
    rows: list[Pair] = []
    for low, high, start, stop in _blocks(expected, actual):
        rows += _align_block(expected, actual, range(low, high), range(start, stop))
    moved_to = moves(rows, expected, actual)
    arrived = set(moved_to.values())
    return tuple(
        Pair(row.expected, row.actual, moved=True)
        if (row.actual is None and row.expected in moved_to) or (row.expected is None and row.actual in arrived)
        else row
        for row in rows
    )


def _within_call(expected: ToolCall, actual: ToolCall, pair: Pair) -> Iterator[Difference]:
    if expected.args is None or actual.args is None:
        if expected.args != actual.args:
            yield Difference(
                kind=DifferenceKind.ARGUMENT_CHANGED,
                tool=expected.name,
                expected_call=pair.expected,
                actual_call=pair.actual,
                expected=expected.args,
                actual=actual.args,
            )
        return
    for kind, path, wanted, given in value_differences(expected.args, actual.args):
        yield Difference(
            kind=kind,
            tool=expected.name,
            expected_call=pair.expected,
            actual_call=pair.actual,
            path=path,
            expected=wanted,
            actual=given,
        )


def moves(rows: Sequence[Pair], expected: Sequence[ToolCall], actual: Sequence[ToolCall]) -> dict[int, int]:
    """Where each expected call went that was made at another place: expected position -> actual position."""
    extra = [row.actual for row in rows if row.expected is None and row.actual is not None]
    found: dict[int, int] = {}
    for row in rows:
        if row.expected is None or row.actual is not None:
            continue
        wanted = expected[row.expected]
        place = next((index for index in extra if actual[index] == wanted), None)
        if place is not None:
            extra.remove(place)
            found[row.expected] = place
    return found


def _blocks(expected: Sequence[ToolCall], actual: Sequence[ToolCall]) -> Iterator[tuple[int, int, int, int]]:
    """Ranges of both sides that may be aligned apart from the others: all of both, unless that would be too large."""
    if len(expected) * len(actual) <= _LARGEST_TABLE:
        yield 0, len(expected), 0, len(actual)
        return
    left, right = _signatures(expected), _signatures(actual)
    for _, low, high, start, stop in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        yield low, high, start, stop


def _signatures(calls: Sequence[ToolCall]) -> list[str]:
    return [repr((call.name, sorted(call.args.items(), key=repr) if call.args is not None else None)) for call in calls]


def _align_block(expected: Sequence[ToolCall], actual: Sequence[ToolCall], left: range, right: range) -> list[Pair]:
    """Align two ranges: position by position where they are equal or too large for a table, else at the least cost."""
    same = len(left) == len(right)
    if len(left) * len(right) > _LARGEST_TABLE or (
        same and all(expected[i] == actual[j] for i, j in zip(left, right, strict=True))
    ):
        return _by_position(expected, actual, left, right)
    return _by_least_cost(expected, actual, left, right)


def _by_position(expected: Sequence[ToolCall], actual: Sequence[ToolCall], left: range, right: range) -> list[Pair]:
    rows: list[Pair] = []
    for i, j in zip(left, right, strict=False):
        if expected[i].name == actual[j].name:
            rows.append(Pair(i, j))
        else:
            rows += [Pair(i, None), Pair(None, j)]
    shared = min(len(left), len(right))
    return rows + [Pair(i, None) for i in left[shared:]] + [Pair(None, j) for j in right[shared:]]


def _by_least_cost(expected: Sequence[ToolCall], actual: Sequence[ToolCall], left: range, right: range) -> list[Pair]:
    """Needleman-Wunsch from the end, so that walking the table yields the rows in order."""

    @cache
    def cost(i: int, j: int) -> float:
        return _cost_of_pair(expected[left[i]], actual[right[j]])

    height, width = len(left), len(right)
    table = [[float(width - j) for j in range(width + 1)]]
    for i in reversed(range(height)):
        below, row = table[-1], [0.0] * width + [float(height - i)]
        for j in reversed(range(width)):
            row[j] = min(cost(i, j) + below[j + 1], 1 + below[j], 1 + row[j + 1])
        table.append(row)
    table.reverse()
    rows: list[Pair] = []
    i = j = 0
    while i < height and j < width:
        if table[i][j] == cost(i, j) + table[i + 1][j + 1]:
            rows.append(Pair(left[i], right[j]))
            i, j = i + 1, j + 1
        elif table[i][j] == 1 + table[i + 1][j]:
            rows.append(Pair(left[i], None))
            i += 1
        else:
            rows.append(Pair(None, right[j]))
            j += 1
    return rows + [Pair(k, None) for k in left[i:]] + [Pair(None, k) for k in right[j:]]


def _cost_of_pair(expected: ToolCall, actual: ToolCall) -> float:
    """0 for identical calls, below 2 (a missing and an extra call) for the same tool, above it for different tools."""
    if expected.name != actual.name:
        return 3.0
    if expected.args == actual.args:
        return 0.0
    ours, theirs = expected.args or {}, actual.args or {}
    keys = ours.keys() | theirs.keys()
    differing = sum(1 for key in keys if key not in ours or key not in theirs or ours[key] != theirs[key])
    return 0.5 + differing / max(len(keys), 1)
