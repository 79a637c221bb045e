"""The detail of the selected row: its event, request or response as JSON, or its place in the graph of agents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple

from rich.cells import cell_len

from workbench.model.text import REDACTED, format_duration, mask_named_secrets, neutralise, pluralise, redact
from workbench.model.trace import SpanKind
from workbench.tui.state.text_layout import (
    Block,
    Line,
    Paragraph,
    Style,
    StyledText,
    plural,
    render_blocks,
    safe,
    safe_line,
    wrap,
)
from workbench.tui.state.trace_graph import Graph, draw_graph, make_graph, place_in_graph
from workbench.tui.state.trace_tree import KIND_NAMES, SpanNode, TraceTree, TurnNode, Where
from workbench.tui.state.trace_view import TraceRow, TraceView

# Highlighted matches of a search.


def mark_matches(line: Line, needle: str) -> Line:
    """Highlight every occurrence of a text in a line, ignoring case, except occurrences across two pieces."""
    return tuple(part for piece in line for part in _parts(piece, needle.casefold()))


def _parts(piece: StyledText, needle: str) -> Iterator[StyledText]:
    folded = piece.text.casefold()
    if not needle or len(folded) != len(piece.text):  # some characters fold into two, which shifts the positions
        yield piece
        return
    end = 0
    while (start := folded.find(needle, end)) >= 0:
        if start > end:
            yield StyledText(piece.text[end:start], piece.style)
        yield StyledText(piece.text[start : start + len(needle)], Style.MATCH)
        end = start + len(needle)
    if end < len(piece.text):
        yield StyledText(piece.text[end:], piece.style)


# A JSON value for reading: a line for each key, real line breaks in texts, and parts to fold.

Path = tuple[str | int, ...]

_ITEMS_AT_FIRST = 100  # of one list or object
_ITEMS_MORE = 400
_TEXT_AT_FIRST = 4_000  # characters of one text
_TEXT_MORE = 16_000
_TEXT_ONCE_FULL = 400  # of one text, after the first _MOST_CHARACTERS of the value
_MOST_ROWS = 1_500  # containers after these rows start folded
_MOST_CHARACTERS = 60_000
_LONGEST_TEXT = 1_000_000  # characters of one text; the rest can only be copied
_INDENT = 2
_DEEPEST_INDENT = 24


@dataclass(slots=True)
class _Limit:
    """The rows and characters so far."""

    rows: int = 0
    characters: int = 0


class _Row(NamedTuple):
    """A row before wrapping: its head, then its text. The keys to open and fold act on `opens`."""

    depth: int
    head: Line
    text: str = ""
    style: Style = Style.TEXT
    is_block: bool = False
    opens: Path | None = None


class JsonText:
    """A JSON value with the parts that the user opened and folded."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self._folded: dict[Path, bool] = {}
        self._items: dict[Path, int] = {}
        self._windows: dict[Path, list[tuple[int, int]]] = {}
        self._windows_shown: dict[Path, list[tuple[int, int]]] = {}
        self._redacted: dict[Path, str] = {}
        self._folds_shown: dict[Path, bool] = {}
        self._opened_by_line: list[Path | None] = []
        self.needle = ""

    def render(self, width: int) -> list[Line]:
        lines: list[Line] = []
        self._opened_by_line = []
        for row in self._rows():
            for line in _lines(row, width=width, needle=self.needle):
                lines.append(line)
                self._opened_by_line.append(row.opens)
        return lines

    def toggle(self, line: int) -> bool:
        """Open or fold the part on a line of the last layout, or show more of it. Return False without such a part."""
        path = self._opened_by_line[line] if line < len(self._opened_by_line) else None
        if path is None:
            return False
        if path and path[-1] == _MORE:
            self._show_more(path[:-1])
        elif path and path[-1] == _REST:
            self._items[path[:-1]] = self._items.get(path[:-1], _ITEMS_AT_FIRST) + _ITEMS_MORE
        else:
            self._folded[path] = not self._folds_shown.get(path, False)
        return True

    def fold(self, line: int) -> int | None:
        """Fold the innermost open part around a line of the last layout. Return the line of its heading, or None."""
        for above in range(min(line, len(self._opened_by_line) - 1), -1, -1):
            path = self._opened_by_line[above]
            if path is not None and not self._folds_shown.get(path, True):
                self._folded[path] = True
                return above
        return None

    def reveal(self, needle: str) -> None:
        """Open the parts around the first occurrence of a text, in a key or a value."""
        self.needle = needle
        wanted = needle.casefold()
        found = next(((path, place) for path, place in _occurrences(self._value, wanted)), None) if wanted else None
        if found is None:
            return
        path, place = found
        for length in range(len(path)):
            self._folded[path[:length]] = False
        self._reveal_items(path)
        if place >= _TEXT_ONCE_FULL:
            text = self._get_text(path)
            place = max(text.casefold().find(wanted), 0)
            self._add_window(path, max(place - 1_000, 0), place + 3_000)

    def _rows(self) -> Iterator[_Row]:
        self._folds_shown = {}
        yield from self._value_rows(self._value, path=(), depth=0, head=(), limit=_Limit())

    def _value_rows(self, value: Any, *, path: Path, depth: int, head: Line, limit: _Limit) -> Iterator[_Row]:
        """Yield the rows without recursion, because a value may be nested deeper than Python's stack."""
        waiting = [self._rows_of_value(value, path=path, depth=depth, head=head, limit=limit)]
        while waiting:
            item = next(waiting[-1], None)
            if item is None:
                waiting.pop()
            elif isinstance(item, _Row):
                yield item
            else:
                waiting.append(item)

    def _rows_of_value(
        self, value: Any, *, path: Path, depth: int, head: Line, limit: _Limit
    ) -> Iterator[_Row | Iterator[Any]]:
        limit.rows += 1
        if isinstance(value, dict | list) and value:
            yield from self._container(value, path=path, depth=depth, head=head, limit=limit)
        elif isinstance(value, str):
            yield from self._text_rows(value, path=path, depth=depth, head=head, limit=limit)
        else:
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            yield _Row(depth, head, json.dumps(value), Style.NUMBER if is_number else Style.CONSTANT)

    def _container(
        self, value: dict[str, Any] | list[Any], *, path: Path, depth: int, head: Line, limit: _Limit
    ) -> Iterator[_Row | Iterator[Any]]:
        folded = self._folded.get(path, limit.rows > _MOST_ROWS)
        self._folds_shown[path] = folded
        count = f"{{{len(value):,}}}" if isinstance(value, dict) else f"[{len(value):,}]"
        if head or folded:
            yield _Row(
                depth, (StyledText("▸ " if folded else "▾ ", Style.MUTED), *head), count, Style.MUTED, opens=path
            )
        if folded:
            return
        inner = depth + 1 if head else depth
        shown = self._items.get(path, _ITEMS_AT_FIRST)
        pairs = iter(value.items()) if isinstance(value, dict) else enumerate(value)
        for number, (key, item) in enumerate(pairs):
            if number >= shown:
                rest = f"… {len(value) - shown:,} more; l shows them"
                yield _Row(inner, (), rest, Style.MUTED, opens=(*path, _REST))
                return
            secret = isinstance(item, str | int) and mask_named_secrets(item, key) != item
            step = key if isinstance(key, str) else number
            label = (StyledText(f"{safe_line(str(key))}: ", Style.KEY),)
            if secret:
                yield _Row(inner, label, REDACTED, Style.MUTED)
            else:
                yield self._rows_of_value(item, path=(*path, step), depth=inner, head=label, limit=limit)

    def _text_rows(self, value: str, *, path: Path, depth: int, head: Line, limit: _Limit) -> Iterator[_Row]:
        text = self._redact_text(value, path)
        at_first = _TEXT_ONCE_FULL if limit.characters > _MOST_CHARACTERS else _TEXT_AT_FIRST
        is_block = "\n" in text.strip("\n") or len(text) > 2 * at_first
        folded = self._folded.get(path, False)
        if is_block:
            self._folds_shown[path] = folded
            mark = StyledText("▸ " if folded else "▾ ", Style.MUTED)
            size = (
                f"{pluralise(len(value), 'character')}, {pluralise(value.count(chr(10)) + 1, 'line')}" if folded else ""
            )
            yield _Row(depth, (mark, *head), size, Style.MUTED, opens=path)
            if folded:
                return
        windows = self._windows_shown[path] = self._windows.get(path, [(0, at_first)])
        limit.characters += sum(min(end, len(text)) - start for start, end in windows)
        end = 0
        for start, stop in windows:
            if start > end:
                yield self._gap(start - end, path, depth)
            part = _visible(text[start:stop])
            if is_block:
                yield _Row(depth, (), part, is_block=True, opens=None)
            else:
                yield _Row(depth, head, f'"{part}"' if stop >= len(text) else f'"{part}', Style.STRING)
            end = min(stop, len(text))
        if end < len(text):
            yield self._gap(len(text) - end, path, depth)
        if len(value) > _LONGEST_TEXT:
            rest = f"… {pluralise(len(value) - _LONGEST_TEXT, 'more character')} not shown; copying includes them"
            yield _Row(depth, (), rest, Style.MUTED, is_block=True)

    def _gap(self, characters: int, path: Path, depth: int) -> _Row:
        text = f"… {characters:,} more characters; l shows more"
        return _Row(depth, (), text, Style.MUTED, is_block=True, opens=(*path, _MORE))

    def _redact_text(self, value: str, path: Path) -> str:
        """Redact a text. The result for a long text is cached."""
        if len(value) <= _TEXT_AT_FIRST:
            return redact(value)
        if path not in self._redacted:
            self._redacted[path] = redact(value[:_LONGEST_TEXT])
        return self._redacted[path]

    def _get_text(self, path: Path) -> str:
        value = self._value
        for step in path:
            value = value[step]
        return self._redact_text(value, path) if isinstance(value, str) else ""

    def _show_more(self, path: Path) -> None:
        """Reduce the first gap of a text."""
        start = self._windows_shown[path][0][1]
        self._add_window(path, start, start + _TEXT_MORE)

    def _add_window(self, path: Path, start: int, end: int) -> None:
        merged: list[tuple[int, int]] = []
        shown = self._windows_shown.get(path, [(0, _TEXT_ONCE_FULL)])
        for window in sorted([*shown, (start, end)]):
            if merged and window[0] <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], window[1]))
            else:
                merged.append(window)
        self._windows[path] = merged

    def _reveal_items(self, path: Path) -> None:
        value = self._value
        for length, step in enumerate(path):
            place = step if isinstance(value, list) else list(value).index(step)
            if isinstance(place, int) and place >= self._items.get(path[:length], _ITEMS_AT_FIRST):
                self._items[path[:length]] = place + 1
            value = value[step]


_MORE = "\0more"  # as the last step of a path: the rest of a text
_REST = "\0rest"  # as the last step of a path: the rest of a list or an object


def _occurrences(value: Any, needle: str) -> Iterator[tuple[Path, int]]:
    """Find a text, in order: yield the path of the value, or of the value of a matching key, and the offset in it."""
    waiting: list[Iterator[tuple[Path, Any]]] = [iter([((), value)])]
    while waiting:
        found = next(waiting[-1], None)
        if found is None:
            waiting.pop()
            continue
        path, item = found
        if path and isinstance(path[-1], str) and needle in path[-1].casefold():
            yield path, 0
        if isinstance(item, dict | list):
            waiting.append(_inside(path, item))
            continue
        text = item if isinstance(item, str) else json.dumps(item)
        place = text.casefold().find(needle)
        if place >= 0:
            yield path, place


def _inside(path: Path, value: dict[str, Any] | list[Any]) -> Iterator[tuple[Path, Any]]:
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key), inner


def _lines(row: _Row, *, width: int, needle: str) -> Iterator[Line]:
    indent = " " * min(row.depth * _INDENT, _DEEPEST_INDENT, max(width - 16, 0))
    lead = StyledText(f"{indent}  │ " if row.is_block else indent, Style.MUTED)
    head = () if row.is_block else row.head
    prefix = "".join(piece.text for piece in head)
    text = f"{prefix}{row.text}"
    room = max(width - cell_len(lead.text), 8)
    hang = 0 if row.is_block else min(4, room - 4)
    for number, (start, end) in enumerate(wrap(text, room, hang=hang)):
        if number == 0 and head:
            body = (*_clip(head, end), StyledText(text[len(prefix) : end], row.style))
        else:
            body = (StyledText(f"{' ' * (hang if number else 0)}{text[start:end]}", row.style),)
        line = (lead, *body)
        yield mark_matches(line, needle) if needle else line


def _clip(pieces: Line, end: int) -> Iterator[StyledText]:
    for piece in pieces:
        yield StyledText(piece.text[: max(end, 0)], piece.style)
        end -= len(piece.text)


def _visible(text: str) -> str:
    return neutralise(text).expandtabs(4)


# The detail in four tabs.


class DetailTab(StrEnum):
    """The tabs of the detail."""

    EVENT = "Event"
    REQUEST = "Request"
    RESPONSE = "Response"
    GRAPH = "Graph"


_TABS = tuple(DetailTab)
_TAB_OF = {Where.REQUEST: DetailTab.REQUEST, Where.RESPONSE: DetailTab.RESPONSE}
_ANSWERED = {
    "injected": "the answer was injected",
    "model": "a model answered",
    "replayed": "a recorded call was replayed",
}
_fact = partial(Paragraph.from_fact, column=12)  # cells of the name


class SpanDetail:
    """The selected row in one of four tabs. Another row is shown in the same tab."""

    def __init__(self) -> None:
        self.tab = DetailTab.EVENT
        self._row: TraceRow | None = None
        self._head: list[Block] = []
        self._head_lines = 0
        self._json: JsonText | None = None
        self._tree: TraceTree | None = None
        self._graph: tuple[TraceTree, Graph] | None = None

    def show(self, view: TraceView) -> bool:
        """Show the row at the cursor of the view. Return True if it is another row than before."""
        row, tree = view.selected_row, view.tree
        if row is self._row and tree is self._tree:
            return False
        same = _is_same(row, self._row)
        self._row, self._tree = row, tree
        if not same:
            self._make(view)
        else:
            self._make_head(view)  # its parent and children may be new
        return not same

    def choose(self, tab: DetailTab, view: TraceView) -> None:
        self.tab = tab
        self._make(view)

    def step(self, by: int, view: TraceView) -> None:
        """Open the next (1) or previous (-1) tab, cyclically."""
        self.choose(_TABS[(_TABS.index(self.tab) + by) % len(_TABS)], view)

    def reveal(self, needle: str, where: Where, view: TraceView) -> None:
        """Open the tab of a match, with the first occurrence unfolded."""
        self.choose(_TAB_OF.get(where, DetailTab.EVENT), view)
        if self._json is not None:
            self._json.reveal(needle)

    def unmark(self) -> None:
        """Remove the highlights of the search."""
        if self._json is not None:
            self._json.needle = ""

    def render(self, width: int) -> list[Line]:
        if self.tab is DetailTab.GRAPH:
            return self._draw_graph(width)
        head = render_blocks(self._head, width=width, side_by_side=False)
        self._head_lines = len(head)
        return [*head, *(self._json.render(width) if self._json is not None else ())]

    def toggle(self, line: int) -> bool:
        """Open or fold the part on a line. Return False if there is no such part."""
        return self._json is not None and line >= self._head_lines and self._json.toggle(line - self._head_lines)

    def fold(self, line: int) -> int | None:
        """Fold the innermost open part around a line. Return the line of its heading, None if there is no such part."""
        folded = self._json.fold(line - self._head_lines) if self._json is not None else None
        return None if folded is None else folded + self._head_lines

    def copyable(self) -> str | None:
        """Return the content of the tab without secrets: a text unchanged, any other value as JSON."""
        if self._row is None:
            return None
        if self.tab is DetailTab.EVENT:
            return self.copyable_row()
        if self.tab is DetailTab.GRAPH:
            return "\n".join("".join(piece.text for piece in line).rstrip() for line in self._draw_graph(120))
        value = _get_content(self._row, self.tab)
        return redact(
            value if isinstance(value, str) else json.dumps(mask_named_secrets(value), ensure_ascii=False, indent=2)
        )

    def copyable_row(self) -> str | None:
        """Return everything recorded of the row, as JSON without secrets."""
        if self._row is None:
            return None
        return redact(json.dumps(mask_named_secrets(_dump_row(self._row)), ensure_ascii=False, indent=2))

    def _make(self, view: TraceView) -> None:
        value = self._value()
        self._json = None if value is None else JsonText(value)
        if self._json is not None and view.search is not None:
            self._json.needle = view.search.text
        self._make_head(view)

    def _value(self) -> Any:
        """Return the JSON value of the tab, None if it has none."""
        row = self._row
        if row is None or self.tab is DetailTab.GRAPH:
            return None
        if self.tab is not DetailTab.EVENT:
            return _get_content(row, self.tab)
        attributes = {} if isinstance(row, TurnNode) else row.span.attributes
        return {name: value for name, value in attributes.items() if name != "agents"} or None

    def _make_head(self, view: TraceView) -> None:
        row = self._row
        self._head = []
        if row is None:
            return
        if self.tab is DetailTab.EVENT:
            self._head = list(_turn_facts(row, view) if isinstance(row, TurnNode) else _span_facts(row, view))
            if self._json is not None:
                self._head.append(Paragraph.from_text("attributes", Style.HEADING))
        elif self._json is None and self.tab is not DetailTab.GRAPH:
            self._head = [Paragraph.from_text(_explain_missing(row, self.tab), Style.MUTED)]

    def _draw_graph(self, width: int) -> list[Line]:
        if self._tree is None or self._row is None:
            return []
        if self._graph is None or self._graph[0] is not self._tree:
            self._graph = (self._tree, make_graph(self._tree))
        here = place_in_graph(self._row) if isinstance(self._row, SpanNode) else None
        return draw_graph(self._graph[1], width=width, here=here)


def _dump_row(row: TraceRow) -> Any:
    """Return everything recorded of a row, as JSON data."""
    if isinstance(row, SpanNode):
        return row.span.model_dump(mode="json", exclude_none=True)
    if row.result is None:
        return [root.span.model_dump(mode="json", exclude_none=True) for root in row.roots]
    return row.result.model_dump(mode="json", exclude_none=True)


def _is_same(one: TraceRow | None, other: TraceRow | None) -> bool:
    if isinstance(one, SpanNode) and isinstance(other, SpanNode):
        return one.span is other.span
    if isinstance(one, TurnNode) and isinstance(other, TurnNode):
        return one.index == other.index and one.result is other.result
    return False


def _get_content(row: TraceRow, tab: DetailTab) -> Any:
    if isinstance(row, SpanNode):
        return row.span.request if tab is DetailTab.REQUEST else row.span.response
    if row.result is None:
        return None
    invocation = row.result.invocation
    content = invocation.user_content if tab is DetailTab.REQUEST else invocation.final_response
    return content.model_dump(mode="json", exclude_none=True) if content is not None else None


def _explain_missing(row: TraceRow, tab: DetailTab) -> str:
    what = "request" if tab is DetailTab.REQUEST else "response"
    if isinstance(row, SpanNode) and row.span.is_running:
        return f"The step is still running; its {what} is not known yet."
    return f"No {what} is recorded for this {'step' if isinstance(row, SpanNode) else 'turn'}."


def _span_facts(node: SpanNode, view: TraceView) -> Iterator[Block]:
    span = node.span
    yield _fact("name", redact(safe_line(span.name)) or "(none)", Style.STRONG)
    slow = " · the slowest step" if node is view.tree.slowest else " · slow" if node.slow else ""
    yield _fact("kind", f"{KIND_NAMES[span.kind]}{slow}")
    if span.simulator is not None and span.kind is SpanKind.MODEL:
        yield _fact("replayed", "the model was not asked: its recorded answer to the same request was used")
    elif span.simulator is not None:
        yield _fact("simulated", f"the tool was not called: {_ANSWERED.get(span.simulator, span.simulator)}")
    if span.error is not None:
        yield _fact("error", f"! {redact(safe(span.error))}", Style.ERROR)
    yield _fact("event", redact(safe_line(view.find_link(node) or "no event of its own is recorded")))
    yield from _times(node, view)
    if node.tokens is not None:
        own = "none of its own" if node.own_tokens is None else f"{node.own_tokens:,} of its own"
        yield _fact("tokens", f"{node.tokens:,} · {own}" if node.children else f"{node.tokens:,}")
    yield _fact("id", safe_line(span.id))
    around = node.parent
    if around is not None:
        name = f"{safe_line(around.span.id)} · {redact(safe_line(around.span.name))}"
    else:
        name = f"{safe_line(span.parent_id)}, which has not been reported" if span.parent_id else "none"
    yield _fact("parent", name)
    if node.children:
        yield _fact("inside", f"{plural(len(node.children), 'step')}, {node.below:,} with all levels below")
    yield _fact("turn", f"{span.turn + 1}: {view.messages.user(span.turn)}")


def _times(node: SpanNode, view: TraceView) -> Iterator[Block]:
    span = node.span
    if span.start is None:
        yield _fact("time", "not reported: the agent reported this step without times")
        return
    turn = next((item for item in view.tree.turns if item.index == node.key.turn), None)
    within = span.start - turn.start if turn is not None and turn.start is not None else 0.0
    started = f"{format_duration(within)} into the turn, {format_duration(span.start)} into the session"
    if span.duration is None:
        yield _fact("time", "still running", Style.RUNNING)
        yield _fact("started", started)
        return
    own = f" · {format_duration(node.own_seconds)} of its own" if node.children and node.own_seconds is not None else ""
    yield _fact("time", f"{format_duration(span.duration)}{own}")
    yield _fact("started", started)
    yield _fact("ended", f"{format_duration(span.start + span.duration)} into the session")


def _turn_facts(turn: TurnNode, view: TraceView) -> Iterator[Block]:
    yield _fact("turn", str(turn.index + 1), Style.STRONG)
    yield _fact("steps", f"{turn.steps:,}" + (f", {plural(turn.errors, 'error')}" if turn.errors else ""))
    unknown = "not known yet" if view.is_live else "not known"
    yield _fact("time", unknown if turn.seconds is None else format_duration(turn.seconds))
    if turn.result is not None and turn.result.inference_calls is not None:
        yield _fact("model calls", f"{turn.result.inference_calls:,}")
    if turn.tokens is not None:
        yield _fact("tokens", f"{turn.tokens:,}")
        yield from _usage(turn)
    yield _fact("user", view.messages.user(turn.index) or "(no text)")
    if turn.result is None:
        is_running = view.is_live and turn is view.tree.turns[-1]
        yield _fact("agent", "the turn is still running" if is_running else "the turn failed", Style.MUTED)
    elif turn.result.invocation.final_response is None:
        yield _fact("agent", "no final response", Style.WARNING)
    else:
        yield _fact("agent", redact(safe(turn.result.invocation.final_response.text())))


def _usage(turn: TurnNode) -> Iterator[Block]:
    usage = turn.result.usage if turn.result is not None else None
    if usage is not None:
        usage_texts = [f"{name} {count:,}" for name, count in usage if count is not None and name != "total"]
        if usage_texts:
            yield _fact("", " · ".join(usage_texts).replace("_", " "), Style.MUTED)
