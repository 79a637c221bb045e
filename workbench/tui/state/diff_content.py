"""Makes a diff: the turns, calls and texts of a case as blocks, expected beside actual."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any

from workbench.engine.acceptance import compare_turns, find_state_hunks
from workbench.model.evalset import Content, EvalCase, Invocation
from workbench.model.results import CaseResult, Execution, Failure, FailureKind, MetricResult, MetricStatus, TurnResult
from workbench.model.text import redact, score_text
from workbench.model.trace import ToolCall, find_simulators, get_trajectory
from workbench.model.turn_diff import (
    AgentMessage,
    Difference,
    DifferenceKind,
    Pair,
    Path,
    TurnComparison,
    TurnSide,
    find_name,
    find_state_differences,
    make_side,
)
from workbench.report.explanation import find_causes
from workbench.report.run_report import ReportedCase, samples_text
from workbench.report.text_report import describe_metric, failure_texts
from workbench.tui.state.case_scores import format_score
from workbench.tui.state.case_status import get_metric_badge
from workbench.tui.state.diff_lines import (
    ABSENT,
    DiffContent,
    DiffSource,
    DiffWriter,
    Level,
    StyledTexts,
    TurnCosts,
    json_text,
    name_side,
    played_blocks,
    scenario_blocks,
)
from workbench.tui.state.text_layout import (
    BLANK,
    Block,
    ColumnHeadings,
    Paragraph,
    Side,
    SideBySide,
    Style,
    StyledText,
    plural,
    safe_line,
)

# The calls of a turn side by side: aligned, with arguments key by key and tool responses.

_WHOLE_CALL = (DifferenceKind.CALL_MISSING, DifferenceKind.CALL_EXTRA, DifferenceKind.CALL_MOVED)
_ABOUT_CALLS = (
    *_WHOLE_CALL,
    DifferenceKind.ARGUMENT_MISSING,
    DifferenceKind.ARGUMENT_EXTRA,
    DifferenceKind.ARGUMENT_CHANGED,
    DifferenceKind.TOOL_RESPONSE_CHANGED,
)


def write_lone_calls(
    writer: DiffWriter, side: TurnSide, *, is_expected: bool, simulated: Sequence[str | None] = ()
) -> None:
    """Write the calls of a turn that only one side has."""
    for row in _list_call_rows(side, simulated, writer.texts):
        writer.add_sides(row if is_expected else None, None if is_expected else row)


def write_uncompared_calls(
    writer: DiffWriter,
    expected: TurnSide,
    actual: TurnSide,
    *,
    reported: tuple[bool, bool],
    simulated: Sequence[str | None] = (),
) -> None:
    """Write the calls of a row if those of one side are unknown. The calls of the other side are not scored."""
    left = _list_call_rows(expected, (), writer.texts) if reported[0] else [_make_missing_side("reference_trajectory")]
    right = (
        _list_call_rows(actual, simulated, writer.texts)
        if reported[1]
        else [_make_missing_side("predicted_trajectory")]
    )
    for pair in zip_longest(left, right):
        writer.add_sides(*pair)


def _list_call_rows(side: TurnSide, simulated: Sequence[str | None], texts: StyledTexts) -> Sequence[Side]:
    if not side.calls:
        return [Side((StyledText("no tool calls", Style.MUTED),))]
    return [
        row
        for call, source in zip_longest(side.calls, simulated)
        for row in _call_rows(call, texts, _describe_simulation(source))
    ]


def _make_missing_side(column: str) -> Side:
    return Side((StyledText(f"no {column}", Style.MUTED),))


class CallWriter:
    """Writes the calls of one turn that both sides have."""

    def __init__(
        self,
        writer: DiffWriter,
        turn: int,
        comparison: TurnComparison,
        costs: TurnCosts,
        *,
        level: Level,
        simulated: Sequence[str | None] = (),
    ) -> None:
        """`simulated` has the simulator that answered each actual call, None for a call of the tool itself."""
        self._writer = writer
        self._turn = turn
        self._comparison = comparison
        self._costs = costs
        self._notes = [_describe_simulation(source) for source in simulated] or [""] * len(comparison.actual.calls)
        self._hides_equal = level is Level.DIFFERENCES
        self._equal = 0  # equal calls that were left out since the last written row
        self._by_call: dict[tuple[int | None, int | None], list[Difference]] = {}
        for found in comparison.differences:
            if found.kind in _ABOUT_CALLS:
                key = (None if found.kind is DifferenceKind.CALL_EXTRA else found.expected_call, found.actual_call)
                self._by_call.setdefault(key, []).append(found)

    def write(self) -> None:
        comparison = self._comparison
        if not comparison.calls:
            none = Side((StyledText("no tool calls", Style.MUTED),))
            self._writer.add_sides(none, none)
        arrived = {actual: expected for expected, actual in comparison.moves.items()}
        for row in comparison.calls:
            self._write_row(row, arrived)
        self._write_equal_count()

    def _write_row(self, row: Pair, arrived: Mapping[int, int]) -> None:
        moves = self._comparison.moves
        if row.expected is not None and row.actual is not None:
            self._write_matched(row.expected, row.actual)
        elif row.expected is not None and row.moved:
            target = moves[row.expected]
            self._write_one_sided(row.expected, target, f" (made as call {target + 1})", is_expected=True)
        elif row.expected is not None:
            self._write_one_sided(row.expected, None, " (not made)", is_expected=True)
        elif row.actual is not None and row.moved:
            source = arrived[row.actual]
            self._write_one_sided(source, row.actual, f" (expected as call {source + 1})", is_expected=False)
        elif row.actual is not None:
            self._write_one_sided(None, row.actual, " (not expected)", is_expected=False)

    def _write_one_sided(self, expected: int | None, actual: int | None, note: str, *, is_expected: bool) -> None:
        """Write a call that the other side lacks, or has at another position."""
        self._write_equal_count()
        found = self._by_call[expected, actual]
        whole = next(difference for difference in found if difference.kind in _WHOLE_CALL)
        side, place = (self._comparison.expected, expected) if is_expected else (self._comparison.actual, actual)
        assert place is not None
        answered = "" if is_expected else self._notes[place]
        rows = _call_rows(side.calls[place], self._writer.texts, f"{note}{answered}")
        self._write_difference(whole, [_differing(row, None) if is_expected else _differing(None, row) for row in rows])
        if is_expected and expected is not None and actual is not None:
            self._write_response(expected, actual, found)

    def _write_matched(self, expected: int, actual: int) -> None:
        found = self._by_call.get((expected, actual), ())
        if not found and self._hides_equal:
            self._equal += 1
            return
        self._write_equal_count()
        wanted, given = self._comparison.expected.calls[expected], self._comparison.actual.calls[actual]
        name = name_side(_name(wanted))
        self._writer.add_sides(name, name)
        if self._notes[actual]:
            self._writer.add_sides(None, Side((StyledText(self._notes[actual].strip(), Style.MUTED),), indent=2))
        by_path = {item.path: item for item in found if item.kind is not DifferenceKind.TOOL_RESPONSE_CHANGED}
        if () in by_path:
            texts = self._writer.texts
            self._write_difference(
                by_path[()], [_differing(_arguments_side(wanted.args, texts), _arguments_side(given.args, texts))]
            )
        elif wanted.args is not None and given.args is not None:
            self._write_arguments(wanted.args, given.args, by_path)
        self._write_response(expected, actual, found)

    def _write_arguments(
        self, wanted: Mapping[str, Any], given: Mapping[str, Any], by_path: Mapping[Path, Difference]
    ) -> None:
        inner = {path[:depth] for path in by_path for depth in range(1, len(path))}
        hidden = 0
        for key in (*wanted, *(key for key in given if key not in wanted)):
            path = (key,)
            if self._hides_equal and path not in by_path and path not in inner:
                hidden += 1
                continue
            self._write_value(path, wanted.get(key, ABSENT), given.get(key, ABSENT), by_path, inner)
        if hidden:
            self._writer.add(Paragraph.from_text(f"… {plural(hidden, 'argument')} as expected", Style.MUTED, indent=4))

    def _write_value(
        self, path: Path, expected: Any, actual: Any, by_path: Mapping[Path, Difference], inner: set[Path]
    ) -> None:
        """Write one argument. If only values inside it differ, write each of its members."""
        if path in by_path:
            rows = value_rows(path, expected, actual, self._writer.texts, hides_equal=self._hides_equal)
            self._write_difference(by_path[path], rows)
        elif path in inner:
            key = Side((StyledText(_key(path), Style.KEY),), indent=2 * len(path))
            self._writer.add_sides(key, key)
            for member in _members(expected, actual):
                values = _member(expected, member), _member(actual, member)
                self._write_value((*path, member), *values, by_path, inner)
        else:
            side = _value_side(path, self._writer.texts.style(json_text(expected, find_name(path))))
            self._writer.add_sides(side, side)

    def _write_response(self, expected: int, actual: int, found: Sequence[Difference]) -> None:
        """Write the tool response, if the case has one."""
        wanted, given = self._comparison.expected.responses[expected], self._comparison.actual.responses[actual]
        if wanted is None:
            return
        texts = self._writer.texts
        differing = next((item for item in found if item.kind is DifferenceKind.TOOL_RESPONSE_CHANGED), None)
        if differing is not None:
            left, right = texts.style_both(json_text(wanted), json_text(given))
            self._write_difference(differing, [_differing(_response_side(left), _response_side(right))])
        elif not self._hides_equal:
            side = _response_side(texts.style(json_text(wanted), Style.MUTED))
            self._writer.add(SideBySide(side, None if given is None else side))

    def _write_difference(self, found: Difference, rows: Sequence[SideBySide]) -> None:
        self._writer.add_difference(self._turn, found, self._costs, rows)

    def _write_equal_count(self) -> None:
        if self._equal:
            self._writer.add(Paragraph.from_text(f"… {plural(self._equal, 'call')} as expected", Style.MUTED, indent=2))
            self._equal = 0


_MOST_ITEMS = 500  # of a list that is aligned item by item
_MOST_EQUAL = 3  # equal items in a row that are shown one by one


def value_rows(path: Path, expected: Any, actual: Any, texts: StyledTexts, *, hides_equal: bool) -> list[SideBySide]:
    """Return the rows of a value that differs. The items of two lists are aligned, each in a row.

    With `hides_equal`, longer runs of equal items are counted instead.
    """
    are_lists = isinstance(expected, list) and isinstance(actual, list) and expected and actual
    if not are_lists or max(len(expected), len(actual)) > _MOST_ITEMS:
        return [_differing(*_value_sides(path, expected, actual, texts))]
    name = Side((StyledText(_key(path), Style.KEY),), indent=2 * len(path))
    rows = [SideBySide(name, name)]
    wanted, given = ([_make_key(item) for item in side] for side in (expected, actual))
    for tag, low, high, start, stop in SequenceMatcher(None, wanted, given, autojunk=False).get_opcodes():
        if tag == "equal" and hides_equal and high - low > _MOST_EQUAL:
            count = Side((StyledText(f"… {high - low:,} items as expected", Style.MUTED),), indent=2 * len(path) + 2)
            rows.append(SideBySide(count, count))
            continue
        for left, right in zip_longest(range(low, high), range(start, stop)):
            sides = _value_sides(
                path,
                ABSENT if left is None else expected[left],
                ABSENT if right is None else actual[right],
                texts,
                steps=(left, right),
            )
            rows.append(SideBySide(*sides, differs=tag != "equal"))
    return rows


def _make_key(item: Any) -> str:
    """Return a text that is the same for equal items: 1 and 1.0 are equal."""
    return json.dumps(_unify_numbers(item), sort_keys=True, default=repr)


def _unify_numbers(item: Any) -> Any:
    if isinstance(item, dict):
        return {key: _unify_numbers(value) for key, value in item.items()}
    if isinstance(item, list):
        return [_unify_numbers(value) for value in item]
    return int(item) if isinstance(item, float) and item.is_integer() else item


def _differing(expected: Side | None, actual: Side | None) -> SideBySide:
    return SideBySide(expected, actual, differs=True)


def _value_sides(
    path: Path,
    expected: Any,
    actual: Any,
    texts: StyledTexts,
    *,
    steps: tuple[int | None, int | None] | None = None,
) -> tuple[Side | None, Side | None]:
    """Return both sides of a value that differs, labelled with the last step of its path. A missing value is ABSENT.

    `steps`: the indexes of two items of the lists at `path`.
    """
    name = find_name(path)
    if expected is ABSENT or actual is ABSENT:
        left = None if expected is ABSENT else texts.style(json_text(expected, name))
        right = None if actual is ABSENT else texts.style(json_text(actual, name))
    else:
        left, right = texts.style_values(expected, actual, name)
    places = [path, path] if steps is None else [(*path, step or 0) for step in steps]
    return (
        None if left is None else _value_side(places[0], left),
        None if right is None else _value_side(places[1], right),
    )


def _value_side(path: Path, pieces: tuple[StyledText, ...]) -> Side:
    return Side((StyledText(f"{_key(path)}  ", Style.KEY), *pieces), indent=2 * len(path))


def _call_rows(call: ToolCall, texts: StyledTexts, note: str = "") -> Iterator[Side]:
    yield name_side(_name(call), note)
    for key, value in (call.args or {}).items():
        yield _value_side((key,), texts.style(json_text(value, key)))


def _describe_simulation(source: str | None) -> str:
    return f" (simulated: {safe_line(source)})" if source else ""


def _arguments_side(args: Mapping[str, Any] | None, texts: StyledTexts) -> Side:
    pieces = (StyledText("no arguments written", Style.MUTED),) if args is None else texts.style(json_text(args))
    return Side(pieces, indent=2)


def _response_side(pieces: tuple[StyledText, ...]) -> Side:
    return Side((StyledText("gave  ", Style.KEY), *pieces), indent=2)


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


# The diff of a case: failures, then the turns, then the final state and the scores.

_ABOUT_MESSAGES = (
    DifferenceKind.INTERMEDIATE_MISSING,
    DifferenceKind.INTERMEDIATE_EXTRA,
    DifferenceKind.INTERMEDIATE_CHANGED,
)
_CALLS_UNKNOWN = "calls unknown"


def make_diff(source: DiffSource) -> DiffContent:
    """Make the diff of a case. This takes long for a large case, and can run in a thread."""
    return _Diff(source).content()


class _Diff:
    def __init__(self, source: DiffSource) -> None:
        self._source = source
        self._writer = DiffWriter(StyledTexts(source.most))
        self._metrics = source.result.metrics if source.result is not None and source.result.metrics else None
        execution = Execution.construct_unvalidated(turns=tuple(source.turns))
        scored = None if self._metrics is None or source.is_row else source.result
        self._causes = [] if scored is None else list(find_causes(ReportedCase(scored, source.case)))
        self._comparisons = (
            []
            if source.case is None
            else compare_turns(
                source.case,
                execution,
                self._metrics or (),
                is_row=source.is_row,
                is_recorded=source.is_recorded,
            )
        )
        differing = any(comparison.differences for comparison in self._comparisons)
        self._level = source.level if differing else Level.EVERYTHING

    def content(self) -> DiffContent:
        source, add = self._source, self._writer.extend
        add(source.head)
        failure = source.result.failure if source.result is not None else None
        if failure is not None:
            add(self._failure_blocks(failure))
        if source.result is not None:
            add(_errors(source.result.metrics))
        if source.case is not None:
            add(scenario_blocks(source, self._writer.texts))
        if source.is_scenario:
            add(played_blocks(source, self._writer.texts))
        else:
            self._write_turns(failure)
        if source.result is not None:
            if source.case is not None and failure is None:
                self._write_state(source.case, source.result.execution)
            add(self._metric_blocks(source.result.metrics))
            add(self._output_blocks(source.result))
        return self._writer.content()

    def _write_turns(self, failure: Failure | None) -> None:
        case, turns = self._source.case, self._source.turns
        expected = (case.conversation if case is not None else None) or []
        # A file that cannot be read was not run.
        ran = failure is not None and failure.kind is not FailureKind.FILE
        stopped = ran and len(turns) < len(expected)
        for number, (wanted, turn) in enumerate(zip_longest(expected, turns)):
            self._write_turn(number, wanted, turn)
            if stopped and number == len(turns):
                self._writer.add(Paragraph.from_text("the agent did not finish this turn", Style.ERROR, indent=2))
            self._writer.add_footnotes()
            self._writer.add(BLANK)

    def _write_turn(self, number: int, expected: Invocation | None, turn: TurnResult | None) -> None:
        actual = turn.invocation if turn is not None else None
        asked = expected if expected is not None else actual
        prompt = asked.user_content.text_with_markers(thoughts=False) if asked is not None else ""
        head = StyledText(f"turn {number + 1} · user  ", Style.HEADING)
        comparison = self._comparisons[number] if number < len(self._comparisons) else None
        if expected is not None and actual is not None and self._expects_nothing(expected):
            expected = comparison = None
        unknown = None if turn is None else turn.calls_unknown
        # An agent that never reports calls makes no difference in a turn without expected calls.
        is_unreported = turn is not None and turn.has_no_call_report and _expects_no_call(expected)
        is_equal = comparison is not None and not comparison.differences and (unknown is None or is_unreported)
        if comparison is not None and is_equal and self._level is not Level.EVERYTHING:
            assert actual is not None
            is_reported = unknown is None and not any(self._has_unknown_calls(side) for side in (expected, actual))
            calls = plural(len(comparison.calls), "call") if is_reported else _CALLS_UNKNOWN
            count = sum(source is not None for source in self._find_simulations(number, actual))
            note = f", {count} simulated" if count else ""
            folded = StyledText(f"  as expected ({calls}{note})", Style.MUTED)
            self._writer.add(Paragraph((head, StyledText(safe_line(prompt, width=120)), folded), hang=2))
            return
        self._writer.add(Paragraph((head, *self._writer.texts.style(prompt)), hang=2))
        is_over = self._source.result is not None
        left, right = self._source.titles
        nothing = f"{left} (not stored)" if self._source.lacks_expected else f"{left} (nothing)"
        self._writer.add(
            ColumnHeadings(
                left if expected is not None else nothing,
                right if actual is not None else f"{right} (nothing)" if is_over else f"{right} (none yet)",
            )
        )
        if unknown is not None and is_unreported:  # true for every turn of such an agent; the scores give the reason
            self._writer.add(Paragraph.from_text(_CALLS_UNKNOWN, Style.MUTED, indent=2))
        elif unknown is not None:
            words = f"tool calls are unknown: {unknown}"
            self._writer.add(Paragraph.from_text(safe_line(words), Style.ERROR, indent=2))
        if comparison is not None:
            assert expected is not None
            assert actual is not None
            costs = TurnCosts(self._metrics, number, comparison)
            simulated = self._find_simulations(number, actual)
            reported = not self._has_unknown_calls(expected), not self._has_unknown_calls(actual)
            if unknown is None and all(reported):
                CallWriter(self._writer, number, comparison, costs, level=self._level, simulated=simulated).write()
            elif unknown is None and any(reported):
                sides = comparison.expected, comparison.actual
                write_uncompared_calls(self._writer, *sides, reported=reported, simulated=simulated)
            elif unknown is not None and comparison.expected.calls:  # an unknown call is not a missing one
                write_lone_calls(self._writer, comparison.expected, is_expected=True)
            self._write_messages(number, comparison, costs)
            self._write_response(number, comparison, costs, expected, actual)
        else:
            self._write_lone_turn(number, expected, actual)
        for cause in (text for place, text in self._causes if place == number):
            self._writer.add(Paragraph.from_text(safe_line(cause), Style.WARNING, indent=2, hang=2))

    def _expects_nothing(self, side: Invocation) -> bool:
        """Whether it is a row without a reference response and without a reference trajectory."""
        return self._has_unknown_calls(side) and side.final_response is None

    def _has_unknown_calls(self, side: Invocation | None) -> bool:
        """Whether the calls of this side are unknown, which is possible only in a row."""
        return self._source.is_row and side is not None and side.intermediate_data is None

    def _find_simulations(self, turn: int, actual: Invocation) -> list[str | None]:
        """Return the simulator that answered each call, None for a real tool or without a trace."""
        spans = () if self._source.result is None else self._source.result.execution.spans
        return find_simulators(spans, get_trajectory(actual), turn=turn)

    def _write_lone_turn(self, turn: int, expected: Invocation | None, actual: Invocation | None) -> None:
        """Write a turn that only one side has."""
        invocation = expected if expected is not None else actual
        assert invocation is not None
        is_expected = expected is not None
        side = make_side(invocation)
        simulated = () if is_expected else self._find_simulations(turn, invocation)
        if not self._has_unknown_calls(invocation):
            write_lone_calls(self._writer, side, is_expected=is_expected, simulated=simulated)
        rows = [_message_side(said, self._writer.texts) for said in side.messages]
        if invocation.final_response is not None:
            rows.append(Side(self._style_response(invocation.final_response)))
        for row in rows:
            self._writer.add_sides(row if is_expected else None, None if is_expected else row)

    def _write_messages(self, turn: int, comparison: TurnComparison, costs: TurnCosts) -> None:
        """Write the messages of sub-agents. They are compared only if the case expects such messages."""
        found = {(d.expected_call, d.actual_call): d for d in comparison.differences if d.kind in _ABOUT_MESSAGES}
        texts = self._writer.texts
        for row in comparison.messages:
            left = None if row.expected is None else comparison.expected.messages[row.expected]
            right = None if row.actual is None else comparison.actual.messages[row.actual]
            difference = found.get((row.expected, row.actual))
            if difference is not None:
                self._writer.add_difference(turn, difference, costs, [_differing(*_message_sides(left, right, texts))])
            elif self._level is not Level.DIFFERENCES:
                style = Style.TEXT if left is not None else Style.MUTED
                sides = (None if said is None else _message_side(said, texts, style) for said in (left, right))
                self._writer.add_sides(*sides)

    def _write_response(
        self, turn: int, comparison: TurnComparison, costs: TurnCosts, expected: Invocation, actual: Invocation
    ) -> None:
        wanted, given = expected.final_response, actual.final_response
        found = next((d for d in comparison.differences if d.kind is DifferenceKind.RESPONSE_CHANGED), None)
        texts = self._writer.texts
        if found is not None:
            sides: tuple[tuple[StyledText, ...], tuple[StyledText, ...]]
            if given is None:
                sides = self._style_response(wanted), (StyledText("(no response)", Style.MUTED),)
            elif wanted is None:
                sides = (), (*self._style_response(given), StyledText(" (none expected)", Style.MUTED))
            else:
                sides = texts.style_both(
                    _message_text(wanted, empty="(empty response)"), _message_text(given, empty="(empty response)")
                )
            self._writer.add_difference(
                turn, found, costs, [_differing(Side(sides[0]) if sides[0] else None, Side(sides[1]))]
            )
        elif self._level is not Level.DIFFERENCES and (wanted is not None or given is not None):
            left = None if wanted is None else Side(self._style_response(wanted))
            right = (
                Side((StyledText("no response", Style.MUTED),)) if given is None and self._source.is_recorded else None
            )
            self._writer.add_sides(left, right if given is None else Side(self._style_response(given)))
        elif wanted is not None and (given is not None or not self._source.is_recorded):
            self._writer.add(Paragraph.from_text("… the response is as expected", Style.MUTED, indent=2))

    def _style_response(self, content: Content | None) -> tuple[StyledText, ...]:
        return self._writer.texts.style(_message_text(content, empty="(empty response)"))

    def _write_state(self, case: EvalCase, execution: Execution) -> None:
        expected = case.final_session_state
        found: Sequence[Difference]
        if expected is None:
            found = [hunk.difference for hunk in find_state_hunks(case, execution, self._metrics or ())]
            if not found:
                return
        else:
            found = find_state_differences(expected, execution.final_state)
        writer, costs = self._writer, TurnCosts(self._metrics, None, None)
        writer.add(Paragraph.from_text("final session state", Style.HEADING))
        if execution.final_state is None and expected:
            writer.add(Paragraph.from_text("the agent reported no session state", Style.WARNING, indent=2))
        if not found:
            writer.add(Paragraph.from_text("the expected keys are as expected", Style.PASSED, indent=2))
        for difference in found:
            path = ".".join(map(str, difference.path))
            given = difference.actual if _has_value(execution.final_state, difference) else ABSENT
            wanted = ABSENT if difference.is_unexpected else difference.expected
            rows = value_rows((path,), wanted, given, writer.texts, hides_equal=self._level is Level.DIFFERENCES)
            if execution.final_state is None:  # nothing can be accepted
                writer.extend(rows)
            else:
                writer.add_difference(None, difference, costs, rows)
        writer.add_footnotes()
        writer.add(BLANK)

    def _failure_blocks(self, failure: Failure) -> Iterator[Block]:
        texts = self._writer.texts
        place = "" if failure.turn is None else f" at turn {failure.turn + 1}"
        message = texts.style(redact(failure.message))
        yield Paragraph((StyledText(f"! {failure.kind.value} error{place}  ", Style.ERROR), *message))
        is_whole = self._source.most is None
        for name, text in failure_texts(failure, fold=str) if is_whole else failure_texts(failure):
            is_folded = not is_whole and text not in f"{failure.traceback}\n{failure.stderr_tail}"
            hint = StyledText("  W or enter shows all frames" if is_folded else "", Style.MUTED)
            yield Paragraph((StyledText(name, Style.HEADING), hint))
            yield Paragraph(texts.style(redact(text), Style.MUTED), indent=2)
        yield BLANK

    def _metric_blocks(self, metrics: Sequence[MetricResult]) -> Iterator[Block]:
        """Return the blocks of the criteria with a threshold. The others are in the scores pane."""
        decided = [metric for metric in metrics if metric.threshold is not None]
        if not decided:
            return
        yield Paragraph.from_text("scores", Style.HEADING)
        for metric in decided:
            badge = get_metric_badge(metric.status)
            yield Paragraph(
                (
                    StyledText(f"{badge.symbol} ", badge.style),
                    StyledText(safe_line(metric.name), Style.STRONG),
                    StyledText(f"  {format_score(metric)}"),
                ),
                indent=2,
                hang=2,
            )
            yield from self._explanation_blocks(metric)

    def _explanation_blocks(self, metric: MetricResult) -> Iterator[Block]:
        texts = self._writer.texts
        for name, text in (("why", metric.reason), ("hint", metric.hint), ("judge", samples_text(metric))):
            if text:
                yield Paragraph((StyledText(f"{name}  ", Style.KEY), *texts.style(redact(text))), indent=4)
        if len(metric.per_invocation) < 2:
            return
        for number, score in enumerate(metric.per_invocation, start=1):
            value = "no score" if score.score is None else score_text(score.score)
            notes = "  ".join(redact(note) for note in (score.reason, score.hint) if note)
            pieces = (
                StyledText(f"turn {number}  ", Style.KEY),
                StyledText(value),
                *texts.style(f"  {notes}", Style.MUTED),
            )
            yield Paragraph(pieces, indent=4)

    def _output_blocks(self, result: CaseResult) -> Iterator[Block]:
        execution = result.execution
        shown = result.failure.stderr_tail if result.failure is not None else None
        for name, text in (("stdout, its end", execution.stdout_tail), ("stderr, its end", execution.stderr_tail)):
            if text.strip() and text != shown:
                yield BLANK
                yield Paragraph.from_text(name, Style.HEADING)
                yield Paragraph(self._writer.texts.style(redact(text.rstrip()), Style.MUTED), indent=2)


def _expects_no_call(expected: Invocation | None) -> bool:
    return expected is None or not get_trajectory(expected)


def _errors(metrics: Sequence[MetricResult]) -> Iterator[Block]:
    """Return the blocks of the metrics with an error. They come first, because they make the case an error."""
    broken = [metric for metric in metrics if metric.status is MetricStatus.ERROR]
    for metric in broken:
        yield Paragraph.from_text(f"! {describe_metric(metric)}", Style.ERROR, hang=2)
    if broken:
        yield BLANK


def _message_side(said: AgentMessage, texts: StyledTexts, style: Style = Style.TEXT) -> Side:
    return Side((StyledText(f"{safe_line(said.author)}  ", Style.KEY), *texts.style(said.text, style)))


def _message_sides(
    left: AgentMessage | None, right: AgentMessage | None, texts: StyledTexts
) -> tuple[Side | None, Side | None]:
    if left is None or right is None:
        return (
            None if left is None else _message_side(left, texts),
            None if right is None else _message_side(right, texts),
        )
    sides = texts.style_both(left.text, right.text)
    author = StyledText(f"{safe_line(left.author)}  ", Style.KEY)
    return Side((author, *sides[0])), Side((author, *sides[1]))


def _has_value(state: object, difference: Difference) -> bool:
    for step in difference.path:
        if isinstance(state, dict) and step not in state:
            return False
        state = state[step] if isinstance(state, dict | list) else None  # type: ignore[index]
    return True


def _message_text(content: Content | None, *, empty: str = "") -> str:
    """Return the text of a message without thoughts, and the number of parts that are not text."""
    if content is None:
        return empty
    others = sum(
        part.text is None and part.function_call is None and part.function_response is None
        for part in content.parts or ()
    )
    note = f"\n({others} parts other than text)" if others > 1 else "\n(1 part other than text)" if others else ""
    return (content.text(thoughts=False) + note) or empty
