"""Differences between expected and actual: calls, texts, state."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from enum import Enum, StrEnum
from functools import cache
from typing import Any, NamedTuple
from zlib import crc32

from workbench.model.evalset import (
    FunctionCall,
    FunctionResponse,
    IntermediateData,
    Invocation,
    InvocationEvents,
    mask_model_secrets,
)
from workbench.model.text import mask_named_secrets, measure_common_prefix
from workbench.model.trace import ToolCall, get_trajectory

# Differences in calls, call by call and argument by argument.

_LARGEST_TABLE = 40_000
"""Cells of the alignment table (200 x 200 calls). For larger tables, identical calls are anchored first."""

Path = tuple[str | int, ...]


class DifferenceKind(StrEnum):
    """The kind of a difference between expected and actual."""

    CALL_MISSING = "call_missing"  # expected, never made
    CALL_EXTRA = "call_extra"  # made, not expected
    CALL_MOVED = "call_moved"  # made, but before or after its turn
    ARGUMENT_MISSING = "argument_missing"
    ARGUMENT_EXTRA = "argument_extra"
    ARGUMENT_CHANGED = "argument_changed"
    TOOL_RESPONSE_CHANGED = "tool_response_changed"  # the response of a tool to a call of both sides
    INTERMEDIATE_MISSING = "intermediate_missing"  # an expected message of a sub-agent that was not sent
    INTERMEDIATE_EXTRA = "intermediate_extra"
    INTERMEDIATE_CHANGED = "intermediate_changed"
    RESPONSE_CHANGED = "response_changed"
    STATE_CHANGED = "state_changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One difference of a turn, or of the final state.

    `expected_call` and `actual_call` are positions in the two trajectories, from 0, or None if that side lacks the
    call. For messages of sub-agents they are positions in the list of messages, and `tool` is the author. `path` leads
    to the value inside the arguments or the state. It is empty for a whole call, for all arguments, and for the
    response. `expected` and `actual` are the values; for a whole call its arguments. `is_unexpected`: the expected
    state has no value there, not even null.
    """

    kind: DifferenceKind
    tool: str = ""
    expected_call: int | None = None
    actual_call: int | None = None
    path: Path = ()
    expected: Any = None
    actual: Any = None
    is_unexpected: bool = False


def find_name(path: Path) -> str:
    """Return the name of the value at a path: its last step that is a key; empty without keys."""
    return next((step for step in reversed(path) if isinstance(step, str)), "")


@dataclass(frozen=True, slots=True)
class Pair:
    """One row of two aligned trajectories: positions from 0, None for a side without a call there.

    A moved call has two rows, one for each side, both with `moved`.
    """

    expected: int | None
    actual: int | None
    moved: bool = False


def find_differences(
    expected: Invocation, actual: Invocation, *, calls_known: bool = True, response_known: bool = True
) -> tuple[Difference, ...]:
    """Find the differences of a turn: known calls in order, then the known response if one is expected."""
    differences: tuple[Difference, ...] = ()
    if calls_known:
        expected_calls, actual_calls = get_trajectory(expected), get_trajectory(actual)
        differences = (
            tuple(find_call_differences(expected_calls, actual_calls)) if expected_calls or actual_calls else ()
        )
    return (*differences, *find_response_differences(expected, actual)) if response_known else differences


def have_known_calls(expected: Invocation, actual: Invocation) -> bool:
    """Whether the calls of both sides of a row are known. Unknown calls make no difference."""
    return expected.intermediate_data is not None and actual.intermediate_data is not None


def find_response_differences(
    expected: Invocation, actual: Invocation, *, unexpected: bool = False
) -> Iterator[Difference]:
    """Find the difference of the final response, if one is expected. Thoughts are ignored.

    `unexpected`: a text where none is expected is a difference, too.
    """
    expected_text, actual_text = expected.response_text(thoughts=False), actual.response_text(thoughts=False)
    is_compared = unexpected or expected_text is not None
    if is_compared and (expected_text or "") != (actual_text or ""):
        yield Difference(kind=DifferenceKind.RESPONSE_CHANGED, expected=expected_text, actual=actual_text)


def find_call_differences(
    expected: Sequence[ToolCall], actual: Sequence[ToolCall], rows: Sequence[Pair] | None = None
) -> Iterator[Difference]:
    """Find the differences of two trajectories, row by row of their alignment. `rows` is the alignment if known."""
    rows = align(expected, actual) if rows is None else rows
    moved_to = find_moves(rows, expected, actual)
    for pair in rows:
        if pair.expected is not None and pair.actual is not None:
            yield from _find_argument_differences(expected[pair.expected], actual[pair.actual], pair)
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


def find_value_differences(
    expected: Any, actual: Any, path: Path = ()
) -> Iterator[tuple[DifferenceKind, Path, Any, Any]]:
    """Find the differences of two JSON values: key by key, and item by item for lists of the same length."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        for key in (*expected, *(key for key in actual if key not in expected)):
            inner_path = (*path, key)
            if key not in actual:
                yield DifferenceKind.ARGUMENT_MISSING, inner_path, expected[key], None
            elif key not in expected:
                yield DifferenceKind.ARGUMENT_EXTRA, inner_path, None, actual[key]
            elif not _are_same_scalars(expected[key], actual[key]):
                yield from find_value_differences(expected[key], actual[key], inner_path)
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for index, (one, other) in enumerate(zip(expected, actual, strict=True)):
            yield from find_value_differences(one, other, (*path, index))
    elif expected != actual or isinstance(expected, bool) is not isinstance(actual, bool):
        yield DifferenceKind.ARGUMENT_CHANGED, path, expected, actual


_SCALARS = frozenset({str, int, bool, type(None)})


def _are_same_scalars(expected: Any, actual: Any) -> bool:
    """True for most values: equal ones of one simple type. They are compared here without another generator."""
    return type(expected) is type(actual) and type(expected) in _SCALARS and expected == actual


def find_unexpected_state(actual: Mapping[str, Any]) -> tuple[Difference, ...]:
    """Find the values of a final state where none is expected."""
    return tuple(
        Difference(kind=DifferenceKind.STATE_CHANGED, path=(key,), actual=value, is_unexpected=True)
        for key, value in actual.items()
    )


def find_state_differences(expected: Mapping[str, Any], actual: Mapping[str, Any] | None) -> tuple[Difference, ...]:
    """Find the values of the expected final state that are missing or differ.

    Additional top-level keys are ignored, unless an empty state is expected.
    """
    if not expected:
        return find_unexpected_state(actual or {})
    return tuple(
        Difference(
            kind=DifferenceKind.STATE_CHANGED,
            path=path,
            expected=expected_value,
            actual=actual_value,
            is_unexpected=kind is DifferenceKind.ARGUMENT_EXTRA,
        )
        for kind, path, expected_value, actual_value in find_value_differences(dict(expected), dict(actual or {}))
        if not (kind is DifferenceKind.ARGUMENT_EXTRA and len(path) == 1)
    )


def align(expected: Sequence[ToolCall], actual: Sequence[ToolCall]) -> tuple[Pair, ...]:
    """Align two trajectories at the least cost.

    Calls of the same name are paired; a pair costs more if more arguments differ. A call that one side lacks costs 1.
    Identical calls that are unpaired on both sides are moved calls.
    """
    is_pair = len(expected) == len(actual) == 1 and expected[0].name == actual[0].name  # as in most cases
    if is_pair or expected == actual:
        return tuple(Pair(place, place) for place in range(len(expected)))
    rows: list[Pair] = []
    for low, high, start, stop in _split_blocks(expected, actual):
        rows += _align_block(expected, actual, range(low, high), range(start, stop))
    moved_to = find_moves(rows, expected, actual)
    arrived = set(moved_to.values())
    return tuple(
        Pair(row.expected, row.actual, moved=True)
        if (row.actual is None and row.expected in moved_to) or (row.expected is None and row.actual in arrived)
        else row
        for row in rows
    )


def _find_argument_differences(expected: ToolCall, actual: ToolCall, pair: Pair) -> Iterator[Difference]:
    for kind, path, expected_value, actual_value in find_value_differences(expected.args, actual.args):
        yield Difference(
            kind=kind,
            tool=expected.name,
            expected_call=pair.expected,
            actual_call=pair.actual,
            path=path,
            expected=expected_value,
            actual=actual_value,
        )


def find_moves(rows: Sequence[Pair], expected: Sequence[ToolCall], actual: Sequence[ToolCall]) -> dict[int, int]:
    """Find the moved calls: expected position -> actual position."""
    extra = [row.actual for row in rows if row.expected is None and row.actual is not None]
    moves: dict[int, int] = {}
    for row in rows:
        if row.expected is None or row.actual is not None:
            continue
        expected_call = expected[row.expected]
        place = next((index for index in extra if actual[index] == expected_call), None)
        if place is not None:
            extra.remove(place)
            moves[row.expected] = place
    return moves


def _split_blocks(expected: Sequence[ToolCall], actual: Sequence[ToolCall]) -> Iterator[tuple[int, int, int, int]]:
    """Yield ranges of both sides that are aligned separately: all calls together, unless these are too many."""
    if len(expected) * len(actual) <= _LARGEST_TABLE:
        yield 0, len(expected), 0, len(actual)
        return
    left, right = _signatures(expected), _signatures(actual)
    for _, low, high, start, stop in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        yield low, high, start, stop


def _signatures(calls: Sequence[ToolCall]) -> list[str]:
    return [repr((call.name, sorted(call.args.items(), key=repr) if call.args is not None else None)) for call in calls]


def _align_block(expected: Sequence[ToolCall], actual: Sequence[ToolCall], left: range, right: range) -> list[Pair]:
    """Align two ranges: by position if they are equal or too large for a table, else at the least cost."""
    has_same_length = len(left) == len(right)
    if len(left) * len(right) > _LARGEST_TABLE or (
        has_same_length and all(expected[i] == actual[j] for i, j in zip(left, right, strict=True))
    ):
        return _align_by_position(expected, actual, left, right)
    return _align_by_least_cost(expected, actual, left, right)


def _align_by_position(
    expected: Sequence[ToolCall], actual: Sequence[ToolCall], left: range, right: range
) -> list[Pair]:
    rows: list[Pair] = []
    for i, j in zip(left, right, strict=False):
        if expected[i].name == actual[j].name:
            rows.append(Pair(i, j))
        else:
            rows += [Pair(i, None), Pair(None, j)]
    shared = min(len(left), len(right))
    return rows + [Pair(i, None) for i in left[shared:]] + [Pair(None, j) for j in right[shared:]]


def _align_by_least_cost(
    expected: Sequence[ToolCall], actual: Sequence[ToolCall], left: range, right: range
) -> list[Pair]:
    """Align by Needleman-Wunsch, computed from the end so that the rows are read in order."""

    @cache
    def cost(i: int, j: int) -> float:
        return _compute_pair_cost(expected[left[i]], actual[right[j]])

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


def _compute_pair_cost(expected: ToolCall, actual: ToolCall) -> float:
    """Return 0 for identical calls, less than 2 (a missing and an extra call) for one tool, 3 for different tools."""
    if expected.name != actual.name:
        return 3.0
    if expected.args == actual.args:
        return 0.0
    expected_args, actual_args = expected.args or {}, actual.args or {}
    keys = expected_args.keys() | actual_args.keys()
    differing = sum(
        1
        for key in keys
        if key not in expected_args or key not in actual_args or expected_args[key] != actual_args[key]
    )
    return 0.5 + differing / max(len(keys), 1)


# A whole turn: calls, tool responses, messages of sub-agents, the final response.


class AgentMessage(NamedTuple):
    """A message of an agent before the final response, without thoughts."""

    author: str
    text: str


@dataclass(frozen=True, slots=True)
class TurnSide:
    """One side of a turn. `responses` has the tool response of each call, None if it is unknown."""

    calls: Sequence[ToolCall] = ()
    responses: Sequence[Mapping[str, Any] | None] = ()
    messages: Sequence[AgentMessage] = ()


@dataclass(frozen=True, slots=True)
class TurnComparison:
    """Two sides of a turn, aligned. `moves` maps the positions of moved calls from expected to actual."""

    expected: TurnSide
    actual: TurnSide
    calls: Sequence[Pair] = ()
    messages: Sequence[Pair] = ()
    moves: Mapping[int, int] = field(default_factory=dict)
    differences: tuple[Difference, ...] = ()


def make_side(invocation: Invocation | None) -> TurnSide:
    """Return the compared parts of an invocation; an empty side without one."""
    if invocation is None:
        return TurnSide()
    calls, responses = list_calls(invocation), list_responses(invocation)
    matched = match_responses(calls, responses)
    return TurnSide(
        calls=get_trajectory(invocation),
        responses=[None if index is None else responses[index].response or {} for index in matched],
        messages=list_messages(invocation),
    )


def compare_turn(
    expected: Invocation,
    actual: Invocation,
    *,
    compares_calls: bool = True,
    compares_response: bool = True,
    unexpected_response: bool = False,
) -> TurnComparison:
    """Align both sides of a turn, and find all differences in reading order.

    `unexpected_response`: a response where none is expected is a difference, too.
    """
    expected, actual = mask_model_secrets(expected), mask_model_secrets(actual)
    left, right = make_side(expected), make_side(actual)
    rows = align(left.calls, right.calls) if compares_calls else ()
    moves = find_moves(rows, left.calls, right.calls)
    message_rows = _align_messages(left.messages, right.messages)
    differences = (
        *find_call_differences(left.calls, right.calls, rows),
        *_find_tool_response_differences(left, right, rows, moves),
        *_find_message_differences(left.messages, right.messages, message_rows),
        *(find_response_differences(expected, actual, unexpected=unexpected_response) if compares_response else ()),
    )
    return TurnComparison(left, right, rows, message_rows, moves, differences)


def list_calls(invocation: Invocation) -> list[FunctionCall]:
    """Return the tool calls of an invocation with their ids, in the order of its trajectory."""
    data = invocation.intermediate_data
    if isinstance(data, IntermediateData):
        return data.tool_uses
    return [part.function_call for part in _parts(data) if part.function_call is not None]


def format_calls(invocation: Invocation) -> str:
    """Return the tool calls of an invocation as text, one per line, in the order of its trajectory.

    Arguments with the name of a secret are masked.
    """
    calls = ((call.name, mask_named_secrets(call.args)) for call in get_trajectory(invocation))
    return "\n".join(
        f"{name}({'' if args is None else json.dumps(args, ensure_ascii=False, default=repr)})" for name, args in calls
    )


def list_responses(invocation: Invocation) -> list[FunctionResponse]:
    """Return the tool responses of an invocation, in the order of the file."""
    data = invocation.intermediate_data
    if isinstance(data, IntermediateData):
        return data.tool_responses
    return [part.function_response for part in _parts(data) if part.function_response is not None]


def match_responses(calls: Sequence[FunctionCall], responses: Sequence[FunctionResponse]) -> list[int | None]:
    """Return the index of each call's response: the one with its id, else the next free one with its name."""
    by_id = {response.id: index for index, response in enumerate(responses) if response.id}
    matched = [by_id.get(call.id) if call.id else None for call in calls]
    matched_indices = {index for index in matched if index is not None}
    free: dict[str | None, list[int]] = {}
    for index, response in enumerate(responses):
        if index not in matched_indices:
            free.setdefault(response.name, []).append(index)
    for number, call in enumerate(calls):
        if matched[number] is None and free.get(call.name):
            matched[number] = free[call.name].pop(0)
    return matched


def list_messages(invocation: Invocation) -> list[AgentMessage]:
    """Return the messages of agents before the response: `intermediate_responses`, or the events with text."""
    data = invocation.intermediate_data
    if isinstance(data, IntermediateData):
        texts = ((item.author, item.parts) for item in data.intermediate_responses)
    elif isinstance(data, InvocationEvents):
        texts = (
            (event.author, event.content.parts or []) for event in data.invocation_events if event.content is not None
        )
    else:
        return []
    messages = [
        AgentMessage(author, "\n".join(p.text for p in parts if p.text and not p.thought)) for author, parts in texts
    ]
    if isinstance(data, IntermediateData):
        return messages
    return _drop_pieces([message for message in messages if message.text], invocation.response_text(thoughts=False))


def _drop_pieces(messages: list[AgentMessage], response: str | None) -> list[AgentMessage]:
    """Leave out pieces of a streamed text: messages in a row that, joined, are the next message or the response."""
    kept: list[AgentMessage] = []
    for message in [*messages, AgentMessage("", response or "")]:
        start = len(kept)
        while start and len("".join(each.text for each in kept[start:])) < len(message.text):
            start -= 1
            if len(kept) - start > 1 and "".join(each.text for each in kept[start:]) == message.text:
                del kept[start:]
                break
        kept.append(message)
    return kept[:-1]


def _parts(data: InvocationEvents | None) -> Iterator[Any]:
    for event in data.invocation_events if data is not None else ():
        yield from (event.content.parts or ()) if event.content is not None else ()


def _align_messages(expected: Sequence[AgentMessage], actual: Sequence[AgentMessage]) -> Sequence[Pair]:
    """Align messages like calls: those of the same author are paired, equal texts first."""
    if not expected or not actual:
        return [Pair(i, None) for i in range(len(expected))] + [Pair(None, j) for j in range(len(actual))]
    left, right = (
        [ToolCall(message.author, {"text": message.text}) for message in side] for side in (expected, actual)
    )
    return [Pair(row.expected, row.actual) for row in align(left, right)]


def _find_tool_response_differences(
    left: TurnSide, right: TurnSide, rows: Sequence[Pair], moves: Mapping[int, int]
) -> Iterator[Difference]:
    for row in rows:
        actual_call = row.actual if row.actual is not None or row.expected is None else moves.get(row.expected)
        if row.expected is None or actual_call is None:
            continue
        expected_response, actual_response = left.responses[row.expected], right.responses[actual_call]
        if expected_response is not None and actual_response is not None and expected_response != actual_response:
            yield Difference(
                kind=DifferenceKind.TOOL_RESPONSE_CHANGED,
                tool=left.calls[row.expected].name,
                expected_call=row.expected,
                actual_call=actual_call,
                expected=expected_response,
                actual=actual_response,
            )


def _find_message_differences(
    expected: Sequence[AgentMessage], actual: Sequence[AgentMessage], rows: Sequence[Pair]
) -> Iterator[Difference]:
    if not expected:
        return
    for row in rows:
        expected_message = None if row.expected is None else expected[row.expected]
        actual_message = None if row.actual is None else actual[row.actual]
        if expected_message == actual_message:
            continue
        if expected_message is None:
            kind = DifferenceKind.INTERMEDIATE_EXTRA
        else:
            kind = (
                DifferenceKind.INTERMEDIATE_MISSING if actual_message is None else DifferenceKind.INTERMEDIATE_CHANGED
            )
        yield Difference(
            kind=kind,
            tool=(expected_message or actual_message or AgentMessage("", "")).author,
            expected_call=row.expected,
            actual_call=row.actual,
            expected=None if expected_message is None else expected_message.text,
            actual=None if actual_message is None else actual_message.text,
        )


# Removed and added words of a text, fast for texts of any length.

_MOST_PAIRS = 1_000_000
"""Maximum words of one side times words of the other that are compared directly: some tenths of a second at worst."""
_WORDS_IN_A_PIECE = 32
"""The average length of the pieces of a long text."""

# Blanks belong to the next word. From U+2E80 on, and in Thai, Lao, Khmer and Burmese, a word is one character.
_ALONE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
_TOKEN = re.compile(rf"\s*(?:[{_ALONE}]|(?:(?![{_ALONE}])\w)+|[^\w\s])|\s+")
_ENDS = frozenset(".!?。！？")


class PassageChange(Enum):
    """The change of a passage."""

    SAME = "same"
    REMOVED = "removed"
    ADDED = "added"


class Passage(NamedTuple):
    """A part of one or both texts."""

    change: PassageChange
    text: str


def compare_words(expected: str, actual: str) -> tuple[Passage, ...]:
    """Compare two texts. Without the added passages the result is `expected`, without the removed ones `actual`."""
    if expected == actual:
        return (Passage(PassageChange.SAME, expected),) if expected else ()
    return tuple(_merge_passages(_compare_long(expected, actual)))


def _compare_long(expected: str, actual: str) -> Iterator[Passage]:
    left, right = _tokenize(expected), _tokenize(actual)
    start = measure_common_prefix(left, right)
    end = measure_common_prefix(left[start:][::-1], right[start:][::-1])
    yield from _make_same(left[:start])
    left_end, right_end = len(left) - end, len(right) - end
    inner, other = left[start:left_end], right[start:right_end]
    if len(inner) * len(other) <= _MOST_PAIRS:
        yield from _compare(inner, other)
    else:
        yield from _compare_pieces(_split_pieces(inner), _split_pieces(other))
    yield from _make_same(left[left_end:])


def _tokenize(text: str) -> list[str]:
    # Not `findall`: it holds the GIL until the end, and a thread with a megabyte of text would block the screen.
    return [match[0] for match in _TOKEN.finditer(text)]


def _split_pieces(tokens: Sequence[str]) -> list[str]:
    """Cut a text into sentences and parts of them, after words that a hash of the word selects.

    So an added word changes only the cuts next to it, however long the text is.
    """
    pieces: list[str] = []
    start = 0
    for index, token in enumerate(tokens, start=1):
        if token[-1] in _ENDS or crc32(token.encode("utf-8", "replace")) % _WORDS_IN_A_PIECE == 0:
            pieces.append("".join(tokens[start:index]))
            start = index
    return [*pieces, "".join(tokens[start:])] if start < len(tokens) else pieces


def _compare_pieces(left: Sequence[str], right: Sequence[str]) -> Iterator[Passage]:
    if len(left) * len(right) > _MOST_PAIRS * _WORDS_IN_A_PIECE:
        yield from _make_changed(left, right)
        return
    for tag, low, high, start, stop in SequenceMatcher(None, left, right).get_opcodes():
        if tag == "equal":
            yield from _make_same(left[low:high])
            continue
        inner, other = (_tokenize("".join(side)) for side in (left[low:high], right[start:stop]))
        yield from _compare(inner, other) if len(inner) * len(other) <= _MOST_PAIRS else _make_changed(inner, other)


def _compare(left: Sequence[str], right: Sequence[str]) -> Iterator[Passage]:
    """Compare words without the blanks before them. If only the blanks differ, only the blanks are changed."""
    keys, others = [token.strip() for token in left], [token.strip() for token in right]
    for tag, low, high, start, stop in SequenceMatcher(None, keys, others, autojunk=False).get_opcodes():
        if tag != "equal":
            yield from _make_changed(left[low:high], right[start:stop])
            continue
        for one, other, key in zip(left[low:high], right[start:stop], keys[low:high], strict=True):
            if one == other:
                yield Passage(PassageChange.SAME, one)
            elif key:
                yield from _make_changed([one[: one.index(key)]], [other[: other.index(key)]])
                yield Passage(PassageChange.SAME, key)
            else:
                yield from _make_changed([one], [other])


def _make_same(tokens: Sequence[str]) -> Iterator[Passage]:
    yield Passage(PassageChange.SAME, "".join(tokens))


def _make_changed(left: Sequence[str], right: Sequence[str]) -> Iterator[Passage]:
    yield Passage(PassageChange.REMOVED, "".join(left))
    yield Passage(PassageChange.ADDED, "".join(right))


def _merge_passages(passages: Iterator[Passage]) -> Iterator[Passage]:
    """Merge adjacent passages of one kind. Between two equal passages, the removed one comes before the added one."""
    texts: dict[PassageChange, list[str]] = {change: [] for change in PassageChange}

    def flush(*changes: PassageChange) -> Iterator[Passage]:
        for change in changes:
            if text := "".join(texts[change]):
                yield Passage(change, text)
            texts[change].clear()

    for change, text in passages:
        if not text:
            continue
        if change is PassageChange.SAME:
            yield from flush(PassageChange.REMOVED, PassageChange.ADDED)
        else:
            yield from flush(PassageChange.SAME)
        texts[change].append(text)
    yield from flush(PassageChange.SAME, PassageChange.REMOVED, PassageChange.ADDED)
