"""The calls of a turn side by side: aligned, their arguments key by key, what tools gave back below them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from workbench.model.trajectory import ToolCall
from workbench.report.differences import Difference, DifferenceKind, Pair, Path, name_at
from workbench.report.turns import TurnComparison, TurnSide
from workbench.tui.state.blocks import Both, Side, Whole
from workbench.tui.state.diff.costs import TurnCosts
from workbench.tui.state.diff.source import Level
from workbench.tui.state.diff.texts import ABSENT, Texts, json_text
from workbench.tui.state.diff.writer import Writer, name_side
from workbench.tui.state.pieces import Piece, Tone, plural, safe_line

_WHOLE_CALL = (DifferenceKind.CALL_MISSING, DifferenceKind.CALL_EXTRA, DifferenceKind.CALL_MOVED)
_ABOUT_CALLS = (
    *_WHOLE_CALL,
    DifferenceKind.ARGUMENT_MISSING,
    DifferenceKind.ARGUMENT_EXTRA,
    DifferenceKind.ARGUMENT_CHANGED,
    DifferenceKind.TOOL_RESPONSE_CHANGED,
)


def write_lone_calls(
    writer: Writer, side: TurnSide, *, is_expected: bool, simulated: Sequence[str | None] = ()
) -> None:
    """The calls of a turn that only one side has."""
    for row in _told_rows(side, simulated, writer.texts):
        writer.both(row if is_expected else None, None if is_expected else row)


def write_told_calls(
    writer: Writer,
    expected: TurnSide,
    actual: TurnSide,
    *,
    told: tuple[bool, bool],
    simulated: Sequence[str | None] = (),
) -> None:
    """The calls of a row of which not both sides tell theirs: those of the other are neither right nor wrong."""
    left = _told_rows(expected, (), writer.texts) if told[0] else [_untold("reference_trajectory")]
    right = _told_rows(actual, simulated, writer.texts) if told[1] else [_untold("predicted_trajectory")]
    for pair in zip_longest(left, right):
        writer.both(*pair)


def _told_rows(side: TurnSide, simulated: Sequence[str | None], texts: Texts) -> Sequence[Side]:
    if not side.calls:
        return [Side((Piece("no tool calls", Tone.MUTED),))]
    return [
        row
        for call, source in zip_longest(side.calls, simulated)
        for row in _call_rows(call, texts, _answered_by(source))
    ]


def _untold(column: str) -> Side:
    return Side((Piece(f"no {column}", Tone.MUTED),))


class CallWriter:
    """Writes the calls of one turn that both sides have."""

    def __init__(
        self,
        writer: Writer,
        turn: int,
        comparison: TurnComparison,
        costs: TurnCosts,
        *,
        level: Level,
        simulated: Sequence[str | None] = (),
    ) -> None:
        """`simulated`: who answered each actual call in place of its tool."""
        self._writer = writer
        self._turn = turn
        self._comparison = comparison
        self._costs = costs
        self._notes = [_answered_by(source) for source in simulated] or [""] * len(comparison.actual.calls)
        self._hides_equal = level is Level.DIFFERENCES
        self._equal = 0  # calls as expected that were left out since something was written
        self._by_call: dict[tuple[int | None, int | None], list[Difference]] = {}
        for found in comparison.differences:
            if found.kind in _ABOUT_CALLS:
                key = (None if found.kind is DifferenceKind.CALL_EXTRA else found.expected_call, found.actual_call)
                self._by_call.setdefault(key, []).append(found)

    def write(self) -> None:
        """All of them."""
        comparison = self._comparison
        if not comparison.calls:
            none = Side((Piece("no tool calls", Tone.MUTED),))
            self._writer.both(none, none)
        arrived = {actual: expected for expected, actual in comparison.moves.items()}
        for row in comparison.calls:
            self._write_row(row, arrived)
        self._tell_equal()

    def _write_row(self, row: Pair, arrived: Mapping[int, int]) -> None:
        moves = self._comparison.moves
        if row.expected is not None and row.actual is not None:
            self._matched(row.expected, row.actual)
        elif row.expected is not None and row.moved:
            target = moves[row.expected]
            self._lone(row.expected, target, f" (made as call {target + 1})", is_expected=True)
        elif row.expected is not None:
            self._lone(row.expected, None, " (not made)", is_expected=True)
        elif row.actual is not None and row.moved:
            source = arrived[row.actual]
            self._lone(source, row.actual, f" (expected as call {source + 1})", is_expected=False)
        elif row.actual is not None:
            self._lone(None, row.actual, " (not expected)", is_expected=False)

    def _lone(self, expected: int | None, actual: int | None, note: str, *, is_expected: bool) -> None:
        """A call that one side has, or has elsewhere."""
        self._tell_equal()
        found = self._by_call[expected, actual]
        whole = next(difference for difference in found if difference.kind in _WHOLE_CALL)
        side, place = (self._comparison.expected, expected) if is_expected else (self._comparison.actual, actual)
        assert place is not None
        answered = "" if is_expected else self._notes[place]
        rows = _call_rows(side.calls[place], self._writer.texts, f"{note}{answered}")
        self._difference(whole, [(row, None) if is_expected else (None, row) for row in rows])
        if is_expected and expected is not None and actual is not None:
            self._response(expected, actual, found)

    def _matched(self, expected: int, actual: int) -> None:
        found = self._by_call.get((expected, actual), ())
        if not found and self._hides_equal:
            self._equal += 1
            return
        self._tell_equal()
        wanted, given = self._comparison.expected.calls[expected], self._comparison.actual.calls[actual]
        name = name_side(_name(wanted))
        self._writer.both(name, name)
        if self._notes[actual]:
            self._writer.both(None, Side((Piece(self._notes[actual].strip(), Tone.MUTED),), indent=2))
        by_path = {item.path: item for item in found if item.kind is not DifferenceKind.TOOL_RESPONSE_CHANGED}
        if () in by_path:
            texts = self._writer.texts
            self._difference(by_path[()], [(_arguments(wanted.args, texts), _arguments(given.args, texts))])
        elif wanted.args is not None and given.args is not None:
            self._arguments(wanted.args, given.args, by_path)
        self._response(expected, actual, found)

    def _arguments(
        self, wanted: Mapping[str, Any], given: Mapping[str, Any], by_path: Mapping[Path, Difference]
    ) -> None:
        inner = {path[:depth] for path in by_path for depth in range(1, len(path))}
        hidden = 0
        for key in (*wanted, *(key for key in given if key not in wanted)):
            path = (key,)
            if self._hides_equal and path not in by_path and path not in inner:
                hidden += 1
                continue
            self._value(path, wanted.get(key, ABSENT), given.get(key, ABSENT), by_path, inner)
        if hidden:
            self._writer.add(Whole.of(f"… {plural(hidden, 'argument')} as expected", Tone.MUTED, indent=4))

    def _value(
        self, path: Path, expected: Any, actual: Any, by_path: Mapping[Path, Difference], inner: set[Path]
    ) -> None:
        """One argument; where only something inside it differs, its members on lines of their own."""
        if path in by_path:
            self._difference(by_path[path], [value_sides(path, expected, actual, self._writer.texts)])
        elif path in inner:
            key = Side((Piece(_key(path), Tone.KEY),), indent=2 * len(path))
            self._writer.both(key, key)
            for member in _members(expected, actual):
                values = _member(expected, member), _member(actual, member)
                self._value((*path, member), *values, by_path, inner)
        else:
            side = _value_side(path, self._writer.texts.of(json_text(expected, name_at(path))))
            self._writer.both(side, side)

    def _response(self, expected: int, actual: int, found: Sequence[Difference]) -> None:
        """What the tool gave back, where the case has it."""
        wanted, given = self._comparison.expected.responses[expected], self._comparison.actual.responses[actual]
        if wanted is None:
            return
        texts = self._writer.texts
        differing = next((item for item in found if item.kind is DifferenceKind.TOOL_RESPONSE_CHANGED), None)
        if differing is not None:
            left, right = texts.two(json_text(wanted), json_text(given))
            self._difference(differing, [(_gave(left), _gave(right))])
        elif not self._hides_equal:
            side = _gave(texts.of(json_text(wanted), Tone.MUTED))
            self._writer.add(Both(side, None if given is None else side))

    def _difference(self, found: Difference, rows: Sequence[tuple[Side | None, Side | None]]) -> None:
        self._writer.difference(self._turn, found, self._costs, rows)

    def _tell_equal(self) -> None:
        if self._equal:
            self._writer.add(Whole.of(f"… {plural(self._equal, 'call')} as expected", Tone.MUTED, indent=2))
            self._equal = 0


def value_sides(path: Path, expected: Any, actual: Any, texts: Texts) -> tuple[Side | None, Side | None]:
    """Both sides of a value that differs, under the last step of its path; ABSENT where a side has none."""
    name = name_at(path)
    if expected is ABSENT or actual is ABSENT:
        left = None if expected is ABSENT else texts.of(json_text(expected, name))
        right = None if actual is ABSENT else texts.of(json_text(actual, name))
    else:
        left, right = texts.values(expected, actual, name)
    return (
        None if left is None else _value_side(path, left),
        None if right is None else _value_side(path, right),
    )


def _value_side(path: Path, pieces: tuple[Piece, ...]) -> Side:
    return Side((Piece(f"{_key(path)}  ", Tone.KEY), *pieces), indent=2 * len(path))


def _call_rows(call: ToolCall, texts: Texts, note: str = "") -> Iterator[Side]:
    yield name_side(_name(call), note)
    for key, value in (call.args or {}).items():
        yield _value_side((key,), texts.of(json_text(value, key)))


def _answered_by(source: str | None) -> str:
    return f" (simulated: {safe_line(source)})" if source else ""


def _arguments(args: Mapping[str, Any] | None, texts: Texts) -> Side:
    pieces = (Piece("no arguments written", Tone.MUTED),) if args is None else texts.of(json_text(args))
    return Side(pieces, indent=2)


def _gave(pieces: tuple[Piece, ...]) -> Side:
    return Side((Piece("gave  ", Tone.KEY), *pieces), indent=2)


def _members(expected: Any, actual: Any) -> Sequence[str | int]:
    if isinstance(expected, Mapping):
        return [*expected, *(key for key in actual if key not in expected)]
    return range(len(expected))


def _member(value: Any, member: str | int) -> Any:
    return value.get(member, ABSENT) if isinstance(value, Mapping) else value[member]


def _name(call: ToolCall) -> str:
    return safe_line(call.name) or "(no name)"


def _key(path: Path) -> str:
    last = path[-1]
    return f"[{last}]" if isinstance(last, int) else safe_line(last)
