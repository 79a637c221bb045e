"""The detail of the selected row: its event, request, response, or its place in the graph of agents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from workbench.model.text import mask_named_secrets, redact
from workbench.tui.state.json_view import JsonText
from workbench.tui.state.text_layout import (
    Block,
    Line,
    Paragraph,
    Style,
    StyledText,
    format_span_time,
    plural,
    render_blocks,
    safe,
    safe_line,
)
from workbench.tui.state.trace_graph import Graph, draw_graph, make_graph, place_in_graph
from workbench.tui.state.trace_tree import KIND_NAMES, SpanNode, TraceTree, TurnNode, Where
from workbench.tui.state.trace_view import TraceRow, TraceView


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
_LABEL = 12  # cells of the name of a fact


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
        row, tree = view.selection, view.tree
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
        """Open a tab."""
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
        """Return the lines for a width."""
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
    if span.simulator is not None:
        yield _fact("simulated", f"the tool was not called: {_ANSWERED.get(span.simulator, span.simulator)}")
    if span.error is not None:
        yield _fact("error", f"! {redact(safe(span.error))}", Style.ERROR)
    yield _fact("event", redact(safe_line(view.find_link(node) or "it became no event of its own that is recorded")))
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
        yield _fact("inside", f"{plural(len(node.children), 'step')}, {node.below:,} with all below")
    yield _fact("turn", f"{span.turn + 1}: {view.messages.user(span.turn)}")


def _times(node: SpanNode, view: TraceView) -> Iterator[Block]:
    span = node.span
    if span.start is None:
        yield _fact("time", "not reported: the agent reported this step without times")
        return
    turn = next((item for item in view.tree.turns if item.index == node.key.turn), None)
    within = span.start - turn.start if turn is not None and turn.start is not None else 0.0
    started = f"{format_span_time(within)} into the turn, {format_span_time(span.start)} into the session"
    if span.duration is None:
        yield _fact("time", "still running", Style.RUNNING)
        yield _fact("started", started)
        return
    own = (
        f" · {format_span_time(node.own_seconds)} of its own" if node.children and node.own_seconds is not None else ""
    )
    yield _fact("time", f"{format_span_time(span.duration)}{own}")
    yield _fact("started", started)
    yield _fact("ended", f"{format_span_time(span.start + span.duration)} into the session")


def _turn_facts(turn: TurnNode, view: TraceView) -> Iterator[Block]:
    yield _fact("turn", str(turn.index + 1), Style.STRONG)
    yield _fact("steps", f"{turn.steps:,}" + (f", {plural(turn.errors, 'error')}" if turn.errors else ""))
    yield _fact("time", "not known yet" if turn.seconds is None else format_span_time(turn.seconds))
    if turn.result is not None and turn.result.inference_calls is not None:
        yield _fact("model calls", f"{turn.result.inference_calls:,}")
    if turn.tokens is not None:
        yield _fact("tokens", f"{turn.tokens:,}")
        yield from _usage(turn)
    yield _fact("user", view.messages.user(turn.index) or "(no text)")
    if turn.result is None:
        yield _fact("agent", "the turn failed, or is still running", Style.MUTED)
    elif turn.result.invocation.final_response is None:
        yield _fact("agent", "no final response", Style.WARNING)
    else:
        yield _fact("agent", redact(safe(turn.result.invocation.final_response.text())))


def _usage(turn: TurnNode) -> Iterator[Block]:
    usage = turn.result.usage if turn.result is not None else None
    if usage is not None:
        told = [f"{name} {count:,}" for name, count in usage if count is not None and name != "total"]
        if told:
            yield _fact("", " · ".join(told).replace("_", " "), Style.MUTED)


def _fact(name: str, text: str, style: Style = Style.TEXT) -> Paragraph:
    return Paragraph((StyledText(f"{name:<{_LABEL}}", Style.KEY), StyledText(text, style)), hang=_LABEL)
