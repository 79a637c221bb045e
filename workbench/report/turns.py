"""One turn compared in full: calls, what tools gave back, what sub-agents said on the way, the final response.

`differences` tells what the deterministic criteria look at; here is what else there is to see and to accept. Tool
responses and the words of sub-agents are compared only where the case has some: most cases leave them open.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from workbench.model.evalset import FunctionCall, FunctionResponse, IntermediateData, Invocation, InvocationEvents
from workbench.model.masking import without_secrets
from workbench.model.text import mask_named
from workbench.model.trajectory import ToolCall, trajectory_of
from workbench.report.differences import (
    Difference,
    DifferenceKind,
    Pair,
    align,
    call_differences,
    moves,
    response_differences,
)


class Said(NamedTuple):
    """What an agent said on the way to the final response, thoughts left out."""

    author: str
    text: str


@dataclass(frozen=True, slots=True)
class TurnSide:
    """One side of a turn. `responses` has what the tool gave back for each call, None where that is not known."""

    calls: Sequence[ToolCall] = ()
    responses: Sequence[Mapping[str, Any] | None] = ()
    said: Sequence[Said] = ()


@dataclass(frozen=True, slots=True)
class TurnComparison:
    """Two sides of a turn, aligned. `moves` leads from expected calls to the places at which they were made."""

    expected: TurnSide
    actual: TurnSide
    calls: Sequence[Pair] = ()
    said: Sequence[Pair] = ()
    moves: Mapping[int, int] = field(default_factory=dict)
    differences: tuple[Difference, ...] = ()


def side_of(invocation: Invocation | None) -> TurnSide:
    """What is compared of an invocation; an empty side for none."""
    if invocation is None:
        return TurnSide()
    calls, responses = calls_of(invocation), responses_of(invocation)
    matched = match_responses(calls, responses)
    return TurnSide(
        calls=trajectory_of(invocation),
        responses=[None if index is None else responses[index].response or {} for index in matched],
        said=said_in(invocation),
    )


def compare_turn(
    expected: Invocation, actual: Invocation, *, compares_calls: bool = True, compares_response: bool = True
) -> TurnComparison:
    """Both sides of a turn, aligned, with every difference in the order in which it is read."""
    expected, actual = without_secrets(expected), without_secrets(actual)
    left, right = side_of(expected), side_of(actual)
    rows = align(left.calls, right.calls) if compares_calls else ()
    moved = moves(rows, left.calls, right.calls)
    said = _align_said(left.said, right.said)
    found = (
        *call_differences(left.calls, right.calls, rows),
        *_tool_response_differences(left, right, rows, moved),
        *_said_differences(left.said, right.said, said),
        *(response_differences(expected, actual) if compares_response else ()),
    )
    return TurnComparison(left, right, rows, said, moved, found)


def calls_of(invocation: Invocation) -> list[FunctionCall]:
    """The tool calls of an invocation with their ids, in the order of its trajectory."""
    data = invocation.intermediate_data
    if isinstance(data, IntermediateData):
        return data.tool_uses
    return [part.function_call for part in _parts(data) if part.function_call is not None]


def calls_text(invocation: Invocation) -> str:
    """The tool calls of an invocation as text, a line for each, in the order of its trajectory.

    Arguments whose names are those of secrets are masked.
    """
    calls = ((call.name, mask_named(call.args)) for call in trajectory_of(invocation))
    return "\n".join(
        f"{name}({'' if args is None else json.dumps(args, ensure_ascii=False, default=repr)})" for name, args in calls
    )


def responses_of(invocation: Invocation) -> list[FunctionResponse]:
    """What tools gave back in an invocation, in the order in which it is written."""
    data = invocation.intermediate_data
    if isinstance(data, IntermediateData):
        return data.tool_responses
    return [part.function_response for part in _parts(data) if part.function_response is not None]


def match_responses(calls: Sequence[FunctionCall], responses: Sequence[FunctionResponse]) -> list[int | None]:
    """Which response belongs to each call: the one with its id, else the next of its name that is nobody's."""
    by_id = {response.id: index for index, response in enumerate(responses) if response.id}
    matched = [by_id.get(call.id) if call.id else None for call in calls]
    taken = {index for index in matched if index is not None}
    free: dict[str | None, list[int]] = {}
    for index, response in enumerate(responses):
        if index not in taken:
            free.setdefault(response.name, []).append(index)
    for number, call in enumerate(calls):
        if matched[number] is None and free.get(call.name):
            matched[number] = free[call.name].pop(0)
    return matched


def said_in(invocation: Invocation) -> list[Said]:
    """What agents said on the way: `intermediate_responses`, or the events with text."""
    data = invocation.intermediate_data
    if isinstance(data, IntermediateData):
        texts = ((item.author, item.parts) for item in data.intermediate_responses)
    elif isinstance(data, InvocationEvents):
        texts = (
            (event.author, event.content.parts or []) for event in data.invocation_events if event.content is not None
        )
    else:
        return []
    spoken = [Said(author, "\n".join(p.text for p in parts if p.text and not p.thought)) for author, parts in texts]
    return spoken if isinstance(data, IntermediateData) else [said for said in spoken if said.text]


def _parts(data: InvocationEvents | None) -> Iterator[Any]:
    for event in data.invocation_events if data is not None else ():
        yield from (event.content.parts or ()) if event.content is not None else ()


def _align_said(expected: Sequence[Said], actual: Sequence[Said]) -> Sequence[Pair]:
    """What was said, aligned like calls: an author's words are paired, the same words first."""
    if not expected or not actual:
        return [Pair(i, None) for i in range(len(expected))] + [Pair(None, j) for j in range(len(actual))]
    left, right = ([ToolCall(said.author, {"text": said.text}) for said in side] for side in (expected, actual))
    return [Pair(row.expected, row.actual) for row in align(left, right)]


def _tool_response_differences(
    left: TurnSide, right: TurnSide, rows: Sequence[Pair], moved: Mapping[int, int]
) -> Iterator[Difference]:
    for row in rows:
        made = row.actual if row.actual is not None or row.expected is None else moved.get(row.expected)
        if row.expected is None or made is None:
            continue
        wanted, given = left.responses[row.expected], right.responses[made]
        if wanted is not None and given is not None and wanted != given:
            yield Difference(
                kind=DifferenceKind.TOOL_RESPONSE_CHANGED,
                tool=left.calls[row.expected].name,
                expected_call=row.expected,
                actual_call=made,
                expected=wanted,
                actual=given,
            )


def _said_differences(expected: Sequence[Said], actual: Sequence[Said], rows: Sequence[Pair]) -> Iterator[Difference]:
    if not expected:
        return
    for row in rows:
        wanted = None if row.expected is None else expected[row.expected]
        given = None if row.actual is None else actual[row.actual]
        if wanted == given:
            continue
        if wanted is None:
            kind = DifferenceKind.INTERMEDIATE_EXTRA
        else:
            kind = DifferenceKind.INTERMEDIATE_MISSING if given is None else DifferenceKind.INTERMEDIATE_CHANGED
        yield Difference(
            kind=kind,
            tool=(wanted or given or Said("", "")).author,
            expected_call=row.expected,
            actual_call=row.actual,
            expected=None if wanted is None else wanted.text,
            actual=None if given is None else given.text,
        )
