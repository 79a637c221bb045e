"""The view of a trace: its rows, folding, the cursor, filters and search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import Any, NamedTuple

from rich.cells import cell_len

from workbench.model.results import TurnResult
from workbench.model.text import format_duration, redact, redact_data
from workbench.model.trace import Span, SpanKind
from workbench.report.text_report import format_value
from workbench.tui.state.browser_state import Subject
from workbench.tui.state.call_line import format_call
from workbench.tui.state.case_status import REPLAYED
from workbench.tui.state.text_layout import (
    BLANK,
    Block,
    ItemRows,
    Line,
    Paragraph,
    Style,
    StyledText,
    cut_line,
    fill_line,
    measure_line,
    plural,
    safe,
    safe_line,
)
from workbench.tui.state.trace_tree import (
    KIND_NAMES,
    SYMBOLS,
    Axis,
    Match,
    Messages,
    Search,
    SpanKey,
    SpanNode,
    TraceTree,
    TurnNode,
    linked_events,
)

# A row of the span tree as a line: name, marks, time, tokens and bar.

EVENT_MARK = "»"
"""The mark after the name of a span that became an event."""
SLOW_MARK = "◷"
ERROR_MARK = "!"
RUNNING_MARK = "…"

_TIME = 9  # cells of the column, with the gap before it
_TOKENS = 8
_TOKENS_FROM = 64  # minimum cells of a row with a column for tokens
_LEAST_BAR = 10
_LEAST_NAME = 16
_DEEPEST = 10  # indented levels; a deeper row shows its level as a number


_NO_TIMES, _NO_TIMES_SHORT = "no times reported", "no times"
_WIDE = 70  # cells of a row from which the longer note is shown
_LEAST_VALUES = 8  # cells for arguments and result of a tool
_MOST_ITEMS = 20
_MOST_CHARACTERS = 2_000  # of a text; more than a row shows, so that a secret is not cut before it is masked
_KIND_STYLES = {
    SpanKind.INVOCATION: Style.MUTED,
    SpanKind.AGENT: Style.RUNNING,
    SpanKind.MODEL: Style.KEY,
    SpanKind.TOOL: Style.PASSED,
    SpanKind.USER: Style.MUTED,
    SpanKind.OTHER: Style.MUTED,
}


class TraceColumns(NamedTuple):
    """Width of each column of a row in cells; 0 for a column without room."""

    name: int
    time: int
    tokens: int
    bar: int

    @classmethod
    def divide(cls, width: int, *, tokens_known: bool) -> TraceColumns:
        """Divide a row of this width. Without known tokens there is no column for them."""
        tokens = _TOKENS if tokens_known and width >= _TOKENS_FROM else 0
        time = _TIME if width >= _LEAST_NAME + _TIME else 0
        left = width - tokens - time
        bar = left * 2 // 5 if left - _LEAST_BAR >= _LEAST_NAME else 0
        return cls(name=max(left - bar, 0), time=time, tokens=tokens, bar=bar)

    def without_times(self) -> TraceColumns:
        """Give all room to the name, except for the note that there are no times."""
        width = sum(self)
        note = len(_NO_TIMES if width >= _WIDE else _NO_TIMES_SHORT) + 1
        return TraceColumns(name=width - note, time=0, tokens=0, bar=note)


def turn_row(turn: TurnNode, message: str, *, columns: TraceColumns, folded: bool, axis: Axis | None) -> Line:
    """Draw the row of a turn: the user's message (safe, one line), its time and tokens."""
    errors = f"{ERROR_MARK} {turn.errors} " if turn.errors else ""
    head = (
        StyledText("▸ " if folded else "▾ ", Style.MUTED),
        StyledText(f"turn {turn.index + 1} ", Style.HEADING),
        StyledText(errors, Style.ERROR),
        StyledText(f"user {message}", Style.STRONG),
    )
    bar = ""
    if axis is not None and turn.start is not None and turn.end is not None:
        bar = axis.bar(turn.start, turn.end, fill="╌")
    return (*_name(head, columns.name), *_figures(turn.seconds, turn.tokens, columns), StyledText(bar, Style.MUTED))


def span_row(
    node: SpanNode, *, columns: TraceColumns, folded: bool, flat: bool, linked: bool, slowest: bool, axis: Axis | None
) -> Line:
    """Draw the row of a span. In a `flat` list it names the parent instead of an indentation."""
    span = node.span
    has_times = span.start is not None or span.duration is not None or node.tokens is not None
    if not has_times and columns.bar and axis is not None:
        columns = columns.without_times()
    fold = ("▸ " if folded else "▾ ") if node.children and not flat else "  "
    head: Line = (
        StyledText(_indent(0 if flat else node.depth + 1, columns.name), Style.MUTED),
        StyledText(fold, Style.MUTED),
        _status(node, slowest=slowest),
        StyledText(f"{SYMBOLS[span.kind]} ", _KIND_STYLES[span.kind]),
        StyledText(f"{REPLAYED.symbol} " if _is_replayed(span) else "", REPLAYED.style),
        StyledText(redact(safe_line(span.name or span.id)), Style.ERROR if span.error is not None else Style.TEXT),
    )
    notes = (
        StyledText(f" {EVENT_MARK}" if linked else "", Style.KEY),
        _describe_simulator(span),
        *_name_notes(node, folded=folded, flat=flat, slowest=slowest),
    )
    room = columns.name - measure_line((*head, *notes))
    head = (*head, *_format_values(span, room), *notes)
    return (*_name(head, columns.name), *_figures(span.duration, node.tokens, columns), *_bar(node, axis, columns))


def _describe_simulator(span: Span) -> StyledText:
    if span.simulator is None or _is_replayed(span):
        return StyledText("")
    return StyledText(f" simulated: {safe_line(span.simulator)}", Style.WARNING)


def _is_replayed(span: Span) -> bool:
    """True if the span is a model call with a recorded answer."""
    return span.kind is SpanKind.MODEL and span.simulator is not None


def _format_values(span: Span, room: int) -> Line:
    """Format arguments and result of a tool call: `(sides=19) → 17`, cut to a number of cells."""
    if span.kind is not SpanKind.TOOL or room < _LEAST_VALUES:
        return ()
    call = "" if span.request is None else "(…)"
    if isinstance(span.request, Mapping):
        call = format_call("", redact_data(_clip(span.request)))
    result = span.response
    if isinstance(result, Mapping) and list(result) == ["result"]:  # how ADK wraps a plain value
        result = result["result"]
    shown = "" if result is None else f" → {safe_line(format_value(_clip(result)))}"
    call = safe_line(call)
    # Both may be cut, but some of the result stays visible.
    left = room - min(cell_len(shown), max(room // 3, room - cell_len(call)))
    line = cut_line((StyledText(call, Style.MUTED),), left)
    return (*line, *cut_line((StyledText(shown),), room - measure_line(line)))


def _clip(value: Any, depth: int = 3) -> Any:
    """Shorten JSON data that may be huge to what a row can show."""
    if isinstance(value, str):
        return redact(value[: 2 * _MOST_CHARACTERS])[:_MOST_CHARACTERS]  # a secret at the end is masked before the cut
    if isinstance(value, Mapping):
        return {str(key): _clip(item, depth - 1) for key, item in islice(value.items(), _MOST_ITEMS)} if depth else "…"
    if isinstance(value, list | tuple):
        return [_clip(item, depth - 1) for item in value[:_MOST_ITEMS]] if depth else "…"
    return value


def _status(node: SpanNode, *, slowest: bool) -> StyledText:
    if node.span.error is not None:
        return StyledText(f"{ERROR_MARK} ", Style.ERROR)
    if node.span.is_running:
        return StyledText(f"{RUNNING_MARK} ", Style.RUNNING)
    return StyledText(f"{SLOW_MARK} ", Style.WARNING) if slowest or node.slow else StyledText("  ")


def _name_notes(node: SpanNode, *, folded: bool, flat: bool, slowest: bool) -> Line:
    pieces = [StyledText(" slowest", Style.WARNING)] if slowest else []
    if folded:
        errors = f", {plural(node.errors_below, 'error')}" if node.errors_below else ""
        pieces.append(StyledText(f" +{node.below:,}{errors}", Style.ERROR if errors else Style.MUTED))
    if flat and node.parent is not None:
        pieces.append(StyledText(f" in {safe_line(node.parent.span.name)}", Style.MUTED))
    return tuple(pieces)


def _indent(depth: int, width: int) -> str:
    deepest = max(min(_DEEPEST, width // 4), 1)
    return "  " * depth if depth <= deepest else f"{depth}›".rjust(2 * deepest)


def _name(pieces: Line, width: int) -> Line:
    return fill_line(tuple(piece for piece in pieces if piece.text), width)


def _figures(seconds: float | None, tokens: int | None, columns: TraceColumns) -> Line:
    time = "–" if seconds is None else format_duration(seconds)
    spent = "" if tokens is None else f"{tokens:,} t" if tokens < 100_000 else f"{tokens / 1e3:,.0f}k t"
    return (
        StyledText(f"{time} ".rjust(columns.time) if columns.time else ""),
        StyledText(f"{spent} ".rjust(columns.tokens) if columns.tokens else "", Style.MUTED),
    )


def _bar(node: SpanNode, axis: Axis | None, columns: TraceColumns) -> Line:
    span = node.span
    if not columns.bar or axis is None:
        return ()
    if span.start is None:
        note = _NO_TIMES if len(_NO_TIMES) < columns.bar else _NO_TIMES_SHORT
        return cut_line((StyledText(f" {note}", Style.MUTED),), columns.bar)
    if span.end is None:
        return (StyledText(axis.bar(span.start, axis.end, fill="░"), Style.RUNNING),)
    fill = "━" if node.children else "█"
    style = Style.ERROR if span.error is not None else Style.WARNING if node.slow else _KIND_STYLES[span.kind]
    return (StyledText(axis.bar(span.start, span.end, fill=fill), style),)


# The view: listed rows, cursor, folding, filters and search.


class Scale(StrEnum):
    """The period over the whole width of the bars."""

    TURN = "turn"
    SESSION = "session"


TraceRow = SpanNode | TurnNode

_KINDS: tuple[SpanKind | None, ...] = (
    None,
    SpanKind.AGENT,
    SpanKind.MODEL,
    SpanKind.TOOL,
    SpanKind.USER,
    SpanKind.OTHER,
)


class TraceView(ItemRows[TraceRow]):
    """The rows of the trace of one session. A source for a row list."""

    def __init__(self) -> None:
        self.tree = TraceTree(())
        self.scale = Scale.TURN
        self.is_live = False
        self.errors_only = False
        self.kind: SpanKind | None = None
        self.search: Search | None = None
        self.messages = Messages((), ())
        self._links: Mapping[SpanKey, str] = {}
        self._folded: set[SpanKey] = set()
        self.rows: list[TraceRow] = []
        self._places: dict[SpanKey, int] = {}

    def show(
        self, spans: Sequence[Span], turns: Sequence[TurnResult], prompts: Sequence[str], *, is_live: bool = False
    ) -> None:
        """Show the known steps of a session. `prompts` are the user messages of the case; `is_live`: it is running."""
        self.is_live = is_live
        selected = self.selected_row
        path = [] if selected is None else _keys_above(selected)
        self.tree = TraceTree(spans, turns)
        self.messages = Messages(self.tree.turns, prompts)
        self._links = {key: link for turn in self.tree.turns for key, link in linked_events(turn).items()}
        self._list(path)

    def forget(self) -> None:
        """Reset folds and cursor before another session is shown."""
        self._folded.clear()
        self.rows, self._places, self.cursor = [], {}, 0

    # The listed rows.

    def line(self, index: int, width: int) -> Line:
        row = self.rows[index]
        columns = TraceColumns.divide(width, tokens_known=self.tree.tokens is not None)
        folded = row.key in self._folded
        if isinstance(row, TurnNode):
            axis = self._axis(row.index, columns.bar)
            return turn_row(row, self.messages.user(row.index), columns=columns, folded=folded, axis=axis)
        return span_row(
            row,
            columns=columns,
            folded=folded and bool(row.children),
            flat=self.is_filtered,
            linked=row.key in self._links,
            slowest=row is self.tree.slowest,
            axis=self._axis(row.key.turn, columns.bar),
        )

    @property
    def is_filtered(self) -> bool:
        """Whether a filter is active. Matching spans are then listed without their parents."""
        return self.errors_only or self.kind is not None

    def find_link(self, node: SpanNode) -> str | None:
        """Describe the event that a span became; None if it became none."""
        return self._links.get(node.key)

    # Moving.

    def select_span(self, key: SpanKey) -> bool:
        """Put the cursor on a span. Unfold its parents, and end filters that hide it. Return False if it is unknown."""
        node = self.tree.nodes.get(key)
        if node is None:
            return False
        if key not in self._places:
            self._folded -= {SpanKey(key.turn), *(above.key for above in node.path[:-1])}
            if not self._lists(node):
                self.errors_only, self.kind = False, None
            self._list([])
        self.cursor = self._places[key]
        return True

    def go_to_slowest(self) -> bool:
        """Go to the span with the most time of its own. Return False if fewer than two spans have times."""
        return self.tree.slowest is not None and self.select_span(self.tree.slowest.key)

    def go_to_error(self, step: int) -> bool:
        """Go to the next (1) or previous (-1) span with an error, cyclically. Return False if there are no errors."""
        return self._go_around([node.key for node in self.tree.errors], step)

    def go_to_match(self, step: int) -> Match | None:
        """Go to the next (1) or previous (-1) span with a match, cyclically."""
        if self.search is None or not self.search.matches:
            return None
        self._go_around(list(dict.fromkeys(match.key for match in self.search.matches)), step)
        return self.match_here()

    def match_here(self) -> Match | None:
        """Return the first match in the selected span."""
        if self.search is None or self.selected_row is None:
            return None
        key = self.selected_row.key
        return next((match for match in self.search.matches if match.key == key), None)

    # Folding and filtering.

    def toggle(self) -> None:
        """Fold or unfold the selected row."""
        row = self.selected_row
        if row is not None and _has_below(row):
            self._folded ^= {row.key}
            self._list([row.key])

    def fold(self) -> None:
        """Fold the selected row. If it is folded or has no children, go to its parent."""
        row = self.selected_row
        if row is None:
            return
        if _has_below(row) and row.key not in self._folded and not (self.is_filtered and isinstance(row, SpanNode)):
            self.toggle()
            return
        around = _keys_above(row)[1:]
        place = next((self._places[key] for key in around if key in self._places), None)
        if place is not None:
            self.cursor = place

    def unfold(self) -> None:
        """Unfold the selected row. If it is unfolded, go to its first child."""
        row = self.selected_row
        if row is None or not _has_below(row):
            return
        if row.key in self._folded:
            self.toggle()
        elif not (self.is_filtered and isinstance(row, SpanNode)):
            self.move(1)

    def fold_all(self) -> None:
        """Fold all rows, so that only the turns are listed."""
        self._folded = {turn.key for turn in self.tree.turns} | {
            node.key for node in self.tree.ordered if node.children
        }
        self._list(self._path_here())

    def unfold_all(self) -> None:
        """List every span."""
        self._folded.clear()
        self._list(self._path_here())

    def toggle_errors_only(self) -> None:
        """List only spans with an error, or all spans again."""
        self.errors_only = not self.errors_only
        self._list(self._path_here())

    def next_kind(self) -> None:
        """List only spans of the next kind that occurs; after the last kind, list all spans again."""
        there = {node.span.kind for node in self.tree.ordered}
        for _ in _KINDS:
            self.kind = _KINDS[(_KINDS.index(self.kind) + 1) % len(_KINDS)]
            if self.kind is None or self.kind in there:
                break
        self._list(self._path_here())

    def toggle_scale(self) -> None:
        """Scale the bars to their turn, or to the session."""
        self.scale = Scale.SESSION if self.scale is Scale.TURN else Scale.TURN

    # The lines above the rows.

    def summary(self) -> Line:
        """Summarise the session: counts, active filters, and matches of the search."""
        tree = self.tree
        parts = [StyledText(f"{plural(len(tree.turns), 'turn')} · {plural(len(tree.ordered), 'step')}", Style.STRONG)]
        if tree.seconds is not None:
            parts.append(StyledText(f" · {format_duration(tree.seconds)}"))
        if tree.tokens is not None:
            parts.append(StyledText(f" · {plural(tree.tokens, 'token')}"))
        if tree.errors:
            parts.append(StyledText(f" · ! {plural(len(tree.errors), 'error')}", Style.ERROR))
        parts += self._choices()
        if tree.slowest is not None:
            name = safe_line(redact(tree.slowest.span.name), width=40)
            parts.append(
                StyledText(f" · {SLOW_MARK} {name} {format_duration(tree.slowest.own_seconds or 0)}", Style.WARNING)
            )
        return tuple(parts)

    def axis_line(self, width: int) -> Line:
        """Draw the times above the bars, of the turn at the cursor or of the session."""
        columns = TraceColumns.divide(width, tokens_known=self.tree.tokens is not None)
        turn = self.selected_row.key.turn if self.selected_row is not None else 0
        axis = self._axis(turn, columns.bar)
        what = f"bars: turn {turn + 1}" if self.scale is Scale.TURN else "bars: session"
        head = f"{'time':>{columns.time - 1}} " if columns.time else ""
        head += f"{'tokens':>{columns.tokens - 1}} " if columns.tokens else ""
        labels = axis.labels() if axis is not None else ""
        return (
            *fill_line((StyledText(what, Style.MUTED),), columns.name),
            StyledText(head, Style.MUTED),
            StyledText(labels, Style.MUTED),
        )

    def message_line(self) -> Line:
        """Draw the messages of the turn at the cursor. The message of the selected row is highlighted."""
        row = self.selected_row
        return () if row is None else self.messages.line(row.key.turn, is_answer=self._is_answer(row))

    def _choices(self) -> list[StyledText]:
        """Describe the active filters and the matches of the search."""
        parts = []
        if self.errors_only:
            parts.append(StyledText(f" · only errors{'' if self.tree.errors else ': none'}", Style.WARNING))
        if self.kind is not None:
            parts.append(StyledText(f" · only {KIND_NAMES[self.kind]}s", Style.WARNING))
        if self.search is not None:
            keys = list(dict.fromkeys(match.key for match in self.search.matches))
            here = self.selected_row.key if self.selected_row is not None else None
            place = f"{keys.index(here) + 1} of " if here in keys else ""
            more = "" if self.search.is_done else " so far"
            text = safe_line(self.search.text, width=30)
            found = f"{place}{plural(len(keys), 'step')}{more}" if keys or not self.search.is_done else "nothing"
            parts.append(StyledText(f" · “{text}”: {found}", Style.KEY))
        return parts

    def _is_answer(self, row: TraceRow) -> bool:
        return isinstance(row, SpanNode) and "final response" in (self._links.get(row.key) or "")

    def _axis(self, turn: int, width: int) -> Axis | None:
        if width <= 0:
            return None
        if self.scale is Scale.SESSION:
            start, end = self.tree.start, self.tree.end
        else:
            found = next((item for item in self.tree.turns if item.index == turn), None)
            start, end = (found.start, found.end) if found is not None else (None, None)
        return None if start is None or end is None else Axis(start, end, width)

    def _path_here(self) -> list[SpanKey]:
        return [] if self.selected_row is None else _keys_above(self.selected_row)

    def _go_around(self, keys: Sequence[SpanKey], step: int) -> bool:
        """Go to the nearest of these spans in one direction, cyclically."""
        if not keys:
            return False
        order = {node.key: place for place, node in enumerate(self.tree.ordered)}
        row = self.selected_row
        if row is None:
            here = -1.0
        elif isinstance(row, TurnNode):
            here = min((order[root.key] for root in row.roots), default=0) - 0.5
        else:
            here = order[row.key]
        places = sorted(order[key] for key in keys if key in order)
        beyond = [place for place in places if (place > here if step > 0 else place < here)]
        chosen = (beyond or places)[0 if step > 0 else -1]
        return self.select_span(self.tree.ordered[chosen].key)

    def _lists(self, node: SpanNode) -> bool:
        if self.errors_only and node.span.error is None:
            return False
        return self.kind is None or node.span.kind is self.kind

    def _list(self, prefer: Sequence[SpanKey]) -> None:
        """List the rows again. The cursor goes to the first listed key of `prefer`, else it stays."""
        self.rows = []
        for turn in self.tree.turns:
            self.rows.append(turn)
            if turn.key not in self._folded:
                self._list_spans(turn)
        self._places = {row.key: place for place, row in enumerate(self.rows)}
        self.move_to(next((self._places[key] for key in prefer if key in self._places), self.cursor))

    def _list_spans(self, turn: TurnNode) -> None:
        waiting = list(reversed(turn.roots))
        while waiting:
            node = waiting.pop()
            if self.is_filtered:
                if self._lists(node):
                    self.rows.append(node)
                waiting += reversed(node.children)
            else:
                self.rows.append(node)
                if node.key not in self._folded:
                    waiting += reversed(node.children)


def _has_below(row: TraceRow) -> bool:
    return bool(row.roots if isinstance(row, TurnNode) else row.children)


def _keys_above(row: TraceRow) -> list[SpanKey]:
    """Return the keys of a row and its parents, innermost first, its turn last."""
    if isinstance(row, TurnNode):
        return [row.key]
    return [*(node.key for node in reversed(row.path)), SpanKey(row.key.turn)]


# The reason for a missing trace, and what to do.

_NOT_STORED = (
    "The agent reported none, or this execution is an older one: the history keeps the steps of the five newest "
    "executions of each case by the same agent, and the results of many more."
)


def list_prompts(subject: Subject) -> tuple[str, ...]:
    """Return the user messages of the case by turn; of a scenario only the first one is known."""
    case = subject.case
    if case is None:
        return ()
    if case.conversation_scenario is not None:
        return (case.conversation_scenario.starting_prompt,)
    return tuple(invocation.user_content.text() for invocation in case.conversation or ())


def explain_absence(subject: Subject) -> Iterator[Block]:
    """Explain why a case has no steps, and what to do."""
    result, record = subject.result, subject.record
    if subject.is_live:
        yield Paragraph.from_text("The agent is running; none of its steps has ended yet.", Style.RUNNING)
    elif result is None and record is not None and record.pending_jobs:
        yield Paragraph.from_text("The case waits for its turn to run.", Style.MUTED)
    elif result is None and record is not None and record.outcomes:
        yield Paragraph.from_text("reading the stored result …", Style.MUTED)
    elif result is None:
        yield Paragraph.from_text("The case has not run: there is nothing to trace.", Style.STRONG)
        yield BLANK
        yield Paragraph.from_text("r runs it. The steps of the agent then appear here while it runs.")
    elif result.failure is not None and not result.execution.turns:
        yield Paragraph.from_text("The agent ended before its first step.", Style.STRONG)
        yield BLANK
        yield Paragraph.from_text(f"! {redact(safe(result.failure.message))}", Style.ERROR)
    elif not result.execution.turns:
        yield Paragraph.from_text("The agent was not run in this case, so there is nothing to trace.", Style.STRONG)
    elif result.is_recorded:
        yield Paragraph.from_text("There are no steps of this row.", Style.STRONG)
        yield BLANK
        yield Paragraph.from_text("It was scored as recorded: no agent ran.")
    else:
        yield Paragraph.from_text("There are no steps of this execution.", Style.STRONG)
        yield BLANK
        yield Paragraph.from_text(_NOT_STORED if _is_stored(subject) else "The agent reported none.")
        yield BLANK
        yield Paragraph.from_text("r runs the case again.", Style.MUTED)


def _is_stored(subject: Subject) -> bool:
    """Whether the result is from the history and not from this session."""
    if subject.pinned is not None or subject.record is None or subject.repeat is None:
        return True
    outcome = subject.record.outcomes.get(subject.repeat)
    return outcome is None or outcome.stored_at is not None
