"""A case as blocks: what was expected beside what the agent did, turn by turn, and how that was judged.

Which calls belong together and which values differ is `report.differences`'s to say.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from workbench.model.evalset import Content, EvalCase, Invocation
from workbench.model.results import CaseResult, Failure, MetricResult, TurnResult
from workbench.model.text import redact
from workbench.model.trajectory import ToolCall, trajectory_of
from workbench.report.differences import Pair, align, state_differences, value_differences
from workbench.tui.state.blocks import BLANK, Block, Both, Columns, Side, Whole
from workbench.tui.state.pieces import Piece, Tone, safe, safe_line
from workbench.tui.state.standing import look_of_metric

_Path = tuple[str | int, ...]
_ABSENT = object()


def case_blocks(case: EvalCase | None, *, turns: Sequence[TurnResult], result: CaseResult | None) -> Iterator[Block]:
    """Everything about one repeat of a case.

    `case` is None where it could not be read; `turns` are those that the agent has finished; `result` is None while
    the case has not been judged.
    """
    failure = result.failure if result is not None else None
    if failure is not None:
        yield from _failure_blocks(failure)
        yield BLANK
    if case is not None and case.conversation_scenario is not None:
        yield from _scenario_blocks(case)
    expected = (case.conversation if case is not None else None) or []
    stopped = failure is not None and len(turns) < len(expected)
    for number, (wanted, turn) in enumerate(zip_longest(expected, turns)):
        yield from _turn_blocks(number, wanted, turn, is_over=result is not None)
        if stopped and number == len(turns):
            yield Whole.of("the agent did not finish this turn", Tone.ERROR, indent=2)
        yield BLANK
    if result is not None:
        yield from _state_blocks(case, result)
        yield from _metric_blocks(result.metrics)
        yield from _output_blocks(result)


def _turn_blocks(
    number: int, expected: Invocation | None, turn: TurnResult | None, *, is_over: bool
) -> Iterator[Block]:
    actual = turn.invocation if turn is not None else None
    asked = expected if expected is not None else actual
    prompt = safe(_text(asked.user_content if asked is not None else None))
    yield Whole((Piece(f"turn {number + 1} · user  ", Tone.HEADING), Piece(prompt)), hang=2)
    if expected is None and actual is None:
        return
    yield Columns(
        "EXPECTED" if expected is not None else "EXPECTED (nothing)",
        "ACTUAL" if actual is not None else "ACTUAL (nothing)" if is_over else "ACTUAL (none yet)",
    )
    yield from _call_blocks(
        trajectory_of(expected) if expected is not None else None,
        trajectory_of(actual) if actual is not None else None,
    )
    yield from _response_blocks(expected, actual)


def _call_blocks(expected: Sequence[ToolCall] | None, actual: Sequence[ToolCall] | None) -> Iterator[Block]:
    """The calls of a turn; a side that is None is not there to be compared with."""
    if not expected and not actual:
        none = Side((Piece("no tool calls", Tone.MUTED),))
        yield Both(none if expected is not None else None, none if actual is not None else None)
        return
    if expected is None or actual is None:
        for call in expected or actual or ():
            yield from _lone_call(call, expected=expected is not None, differs=False)
        return
    for pair in align(expected, actual):
        yield from _pair_blocks(pair, expected, actual)


def _pair_blocks(pair: Pair, expected: Sequence[ToolCall], actual: Sequence[ToolCall]) -> Iterator[Block]:
    if pair.expected is not None and pair.actual is not None:
        yield from _matched_call(expected[pair.expected], actual[pair.actual])
    elif pair.expected is not None:
        note = " (made at another place)" if pair.moved else " (not made)"
        yield from _lone_call(expected[pair.expected], expected=True, differs=True, note=note)
    elif pair.actual is not None:
        note = " (expected at another place)" if pair.moved else " (not expected)"
        yield from _lone_call(actual[pair.actual], expected=False, differs=True, note=note)


def _lone_call(call: ToolCall, *, expected: bool, differs: bool, note: str = "") -> Iterator[Block]:
    name = Side((Piece(_name(call), Tone.STRONG), Piece(note, Tone.MUTED)))
    yield Both(name, None, differs) if expected else Both(None, name, differs)
    for key, value in (call.args or {}).items():
        side = _value_side((key,), value, depth=1)
        yield Both(side, None, differs) if expected else Both(None, side, differs)


def _matched_call(expected: ToolCall, actual: ToolCall) -> Iterator[Block]:
    name = Side((Piece(_name(expected), Tone.STRONG),))
    yield Both(name, name)
    if expected.args is None or actual.args is None:
        differs = expected.args != actual.args
        yield from _arguments_missing(expected.args, actual.args) if differs else ()
        return
    differing = {path for _, path, _, _ in value_differences(expected.args, actual.args)}
    for key in (*expected.args, *(key for key in actual.args if key not in expected.args)):
        yield from _value_blocks(
            (key,), expected.args.get(key, _ABSENT), actual.args.get(key, _ABSENT), differing=differing
        )


def _arguments_missing(expected: Mapping[str, Any] | None, actual: Mapping[str, Any] | None) -> Iterator[Block]:
    yield Both(_arguments_side(expected), _arguments_side(actual), differs=True)


def _arguments_side(args: Mapping[str, Any] | None) -> Side:
    text = "no arguments written" if args is None else safe(_json(args))
    return Side((Piece(text, Tone.MUTED if args is None else Tone.TEXT),), indent=2)


def _value_blocks(path: _Path, expected: Any, actual: Any, *, differing: set[_Path]) -> Iterator[Block]:
    """One argument; where only something inside it differs, its members on lines of their own."""
    if path in differing:
        yield Both(_value_side(path, expected), _value_side(path, actual), differs=True)
    elif any(other[: len(path)] == path for other in differing):
        key = Side((Piece(_key(path), Tone.KEY),), indent=2 * len(path))
        yield Both(key, key)
        for member in _members(expected, actual):
            yield from _value_blocks(
                (*path, member), _member(expected, member), _member(actual, member), differing=differing
            )
    else:
        yield Both(_value_side(path, expected), _value_side(path, actual))


def _members(expected: Any, actual: Any) -> Sequence[str | int]:
    if isinstance(expected, Mapping):
        return [*expected, *(key for key in actual if key not in expected)]
    return range(len(expected))


def _member(value: Any, member: str | int) -> Any:
    if isinstance(value, Mapping):
        return value.get(member, _ABSENT)
    return value[member]


def _value_side(path: _Path, value: Any, *, depth: int | None = None) -> Side | None:
    if value is _ABSENT:
        return None
    indent = 2 * (len(path) if depth is None else depth)
    return Side((Piece(f"{_key(path)}  ", Tone.KEY), Piece(safe(_json(value)))), indent=indent)


def _response_blocks(expected: Invocation | None, actual: Invocation | None) -> Iterator[Block]:
    wanted = _response_side(expected)
    given = _response_side(actual)
    if wanted is None and given is None:
        return
    differs = expected is not None and actual is not None and wanted is not None and wanted != given
    if differs and given is None:
        given = Side((Piece("(no response)", Tone.MUTED),))
    yield Both(wanted, given, differs)


def _response_side(invocation: Invocation | None) -> Side | None:
    if invocation is None or invocation.final_response is None:
        return None
    return Side((Piece(safe(_text(invocation.final_response)) or "(empty response)"),))


def _scenario_blocks(case: EvalCase) -> Iterator[Block]:
    scenario = case.conversation_scenario
    if scenario is None:
        return
    yield Whole.of("a simulated user holds this conversation", Tone.HEADING)
    yield Whole((Piece("starts with  ", Tone.KEY), Piece(safe(scenario.starting_prompt))), indent=2)
    yield Whole((Piece("plan  ", Tone.KEY), Piece(safe(scenario.conversation_plan))), indent=2)
    yield BLANK


def _state_blocks(case: EvalCase | None, result: CaseResult) -> Iterator[Block]:
    expected = case.final_session_state if case is not None else None
    if expected is None or result.failure is not None:
        return
    actual = result.execution.final_state
    found = state_differences(expected, actual)
    yield Whole.of("final session state", Tone.HEADING)
    if not found:
        yield Whole.of("as expected", Tone.PASSED, indent=2)
    for difference in found:
        key = Piece(f"{safe_line('.'.join(map(str, difference.path)))}  ", Tone.KEY)
        yield Both(
            Side((key, Piece(safe(_json(difference.expected)))), indent=2),
            Side((key, Piece(safe(_json(difference.actual)))), indent=2),
            differs=True,
        )
    yield BLANK


def _metric_blocks(metrics: Sequence[MetricResult]) -> Iterator[Block]:
    if not metrics:
        return
    yield Whole.of("scores", Tone.HEADING)
    for metric in metrics:
        look = look_of_metric(metric.status)
        score = "no score" if metric.score is None else f"{metric.score:.4g}"
        threshold = "" if metric.threshold is None else f"  threshold {metric.threshold:.4g}"
        yield Whole(
            (
                Piece(f"{look.symbol} {look.word}  ", look.tone),
                Piece(safe_line(metric.name), Tone.STRONG),
                Piece(f"  {score}"),
                Piece(threshold, Tone.MUTED),
            ),
            indent=2,
            hang=2,
        )
        yield from _explanation_blocks(metric)


def _explanation_blocks(metric: MetricResult) -> Iterator[Block]:
    if metric.reason:
        yield Whole((Piece("why  ", Tone.KEY), Piece(safe(metric.reason))), indent=4)
    if metric.hint:
        yield Whole((Piece("hint  ", Tone.KEY), Piece(safe(metric.hint))), indent=4)
    if len(metric.per_invocation) < 2:
        return
    for number, score in enumerate(metric.per_invocation, start=1):
        value = "no score" if score.score is None else f"{score.score:.4g}"
        notes = "  ".join(safe(note) for note in (score.reason, score.hint) if note)
        yield Whole((Piece(f"turn {number}  ", Tone.KEY), Piece(value), Piece(f"  {notes}", Tone.MUTED)), indent=4)


def _failure_blocks(failure: Failure) -> Iterator[Block]:
    place = "" if failure.turn is None else f" at turn {failure.turn + 1}"
    yield Whole(
        (Piece(f"! {failure.kind.value} error{place}  ", Tone.ERROR), Piece(safe(redact(failure.message)))),
    )
    for name, text in (("traceback", failure.traceback), ("stderr, its end", failure.stderr_tail)):
        if text and text.strip():
            yield Whole.of(name, Tone.HEADING)
            yield Whole.of(safe(redact(text.rstrip())), Tone.MUTED, indent=2)


def _output_blocks(result: CaseResult) -> Iterator[Block]:
    execution = result.execution
    shown = result.failure.stderr_tail if result.failure is not None else None
    for name, text in (("stdout, its end", execution.stdout_tail), ("stderr, its end", execution.stderr_tail)):
        if text.strip() and text != shown:
            yield BLANK
            yield Whole.of(name, Tone.HEADING)
            yield Whole.of(safe(redact(text.rstrip())), Tone.MUTED, indent=2)


def _name(call: ToolCall) -> str:
    return safe_line(call.name) or "(no name)"


def _key(path: _Path) -> str:
    last = path[-1]
    return f"[{last}]" if isinstance(last, int) else safe_line(last)


def _text(content: Content | None) -> str:
    """The words of a message; parts that are no text are named, so that they are not overlooked."""
    if content is None:
        return ""
    others = sum(
        part.text is None and part.function_call is None and part.function_response is None
        for part in content.parts or ()
    )
    note = f"\n({others} parts that are no text)" if others > 1 else "\n(1 part that is no text)" if others else ""
    return content.text() + note


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
