"""What was expected and what the agent did, aligned line by line as in a diff: for places that show text and no more.

`-` is what was expected, `+` what the agent did, and lines with neither are on both sides. Every line is safe to print.
"""

from __future__ import annotations

from collections.abc import Iterator

from workbench.model.trajectory import ToolCall, Trajectory, trajectory_of
from workbench.report.differences import (
    Difference,
    DifferenceKind,
    align,
    moves,
    name_at,
    value_differences,
)
from workbench.report.explain import both_texts, path_text, safe, value_text
from workbench.report.run_report import ReportedCase

_BOTH, _EXPECTED, _ACTUAL = "    ", "  - ", "  + "


def aligned_lines(case: ReportedCase) -> Iterator[str]:
    """The turns of a case that are not as expected, and its final state where that is not.

    Nothing for a case without expectations, and of turns that were not finished.
    """
    conversation = (case.expected.conversation if case.expected is not None else None) or ()
    for index, (wanted, turn) in enumerate(zip(conversation, case.result.execution.turns, strict=False)):
        if case.differences[index]:
            yield f"turn {index + 1}: {safe(wanted.user_content.text(thoughts=False))}"
            if case.compares_calls(wanted, turn):
                yield from _call_lines(trajectory_of(wanted), trajectory_of(turn.invocation))
            for difference in case.differences[index]:
                if difference.kind is DifferenceKind.RESPONSE_CHANGED:
                    yield from _sides("response", difference)
    if case.state_differences:
        yield "final state"
        for difference in case.state_differences:
            yield from _sides(path_text(difference.path), difference)


def _call_lines(wanted: Trajectory, given: Trajectory) -> Iterator[str]:
    rows = align(wanted, given)
    moved_to = moves(rows, wanted, given)
    moved_from = {new: old for old, new in moved_to.items()}
    for row in rows:
        if row.expected is not None and row.actual is not None:
            yield from _both_calls(wanted[row.expected], given[row.actual])
        elif row.expected is not None:
            note = f"made as call {moved_to[row.expected] + 1}" if row.moved else "not made"
            yield from _one_call(_EXPECTED, wanted[row.expected], note)
        elif row.actual is not None:
            note = f"expected as call {moved_from[row.actual] + 1}" if row.moved else "not expected"
            yield from _one_call(_ACTUAL, given[row.actual], note)


def _one_call(sign: str, call: ToolCall, note: str) -> Iterator[str]:
    yield f"{sign}{safe(call.name)} ({note})"
    for key, value in (call.args or {}).items():
        yield f"{sign}  {safe(key)}: {value_text(value, key)}"


def _both_calls(expected: ToolCall, actual: ToolCall) -> Iterator[str]:
    """A call that both made: its arguments key by key, inside of them only what differs."""
    yield _BOTH + safe(expected.name)
    if expected.args is None or actual.args is None:
        for sign, args in ((_EXPECTED, expected.args), (_ACTUAL, actual.args)):
            if expected.args != actual.args:
                yield f"{sign}  {'no arguments written (args absent)' if args is None else value_text(args)}"
        return
    found: dict[str | int, list[Difference]] = {}
    for kind, path, wanted, given in value_differences(expected.args, actual.args):
        found.setdefault(path[0], []).append(Difference(kind=kind, path=path, expected=wanted, actual=given))
    for key in (*expected.args, *(key for key in actual.args if key not in expected.args)):
        if key not in found:
            yield f"{_BOTH}  {safe(key)}: {value_text(expected.args[key], key)}"
        for difference in found.get(key, ()):
            yield from _sides(f"  {path_text(difference.path)}", difference)


def _sides(name: str, difference: Difference) -> Iterator[str]:
    wanted, given = both_texts(difference.expected, difference.actual, name_at(difference.path))
    if difference.kind is not DifferenceKind.ARGUMENT_EXTRA:
        yield f"{_EXPECTED}{name}: {wanted}"
    if difference.kind is DifferenceKind.ARGUMENT_MISSING:
        return
    nothing = difference.kind is DifferenceKind.RESPONSE_CHANGED and difference.actual is None
    yield f"{_ACTUAL}{name}: {'(none)' if nothing else given}"
