"""Short builders for spans, and the state of spans as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from workbench.model.results import TurnResult
from workbench.model.trace import Span, SpanKind
from workbench.tui.state.span_detail import DetailTab, JsonText, SpanDetail
from workbench.tui.state.text_layout import Line
from workbench.tui.state.trace_tree import SpanNode
from workbench.tui.state.trace_view import TraceView


def span(
    name: str, parent: str | None = None, *, turn: int = 0, at: tuple[float, float] | None = None, **more: Any
) -> Span:
    """Return a span whose id is its name. `at` holds its start and end."""
    start, end = at if at is not None else (None, None)
    facts: dict[str, Any] = {"id": name, "kind": SpanKind.OTHER, "start": start, "end": end}
    return Span(name=name, parent_id=parent, turn=turn, **{**facts, **more})


def turn_result(prompt: str, response: str, **more: Any) -> TurnResult:
    """Return a successful turn; `more` is for its invocation."""
    content = {"user_content": {"parts": [{"text": prompt}]}, "final_response": {"parts": [{"text": response}]}}
    return TurnResult.model_validate({"invocation": {**content, **more}, "duration_seconds": 1.0})


def make_view(spans: Iterable[Span], *turns: TurnResult, prompts: Iterable[str] = ()) -> TraceView:
    """Return a view of these spans."""
    view = TraceView()
    view.show(list(spans), turns, list(prompts))
    return view


def join_text(line: Line) -> str:
    """Return the text of a line."""
    return "".join(piece.text for piece in line)


def render_rows(view: TraceView, *, width: int = 100) -> list[str]:
    """Return the rows as text, without trailing blanks."""
    return [join_text(view.line(index, width)).rstrip() for index in range(len(view))]


def list_names(view: TraceView) -> list[str]:
    """Return the listed names: span names and "turn N"."""
    return [row.span.name if isinstance(row, SpanNode) else f"turn {row.index + 1}" for row in view.rows]


def join(line: Line) -> str:
    """Return the text of a line, without trailing blanks."""
    return "".join(piece.text for piece in line).rstrip()


def render_lines(source: JsonText | SpanDetail, *, width: int = 80) -> list[str]:
    """Return the lines as text."""
    return [join_text(line).rstrip() for line in source.render(width)]


def make_detail(view: TraceView, row: int, tab: DetailTab = DetailTab.EVENT) -> SpanDetail:
    """Return the detail of a row."""
    view.move_to(row)
    detail = SpanDetail()
    detail.show(view)
    detail.choose(tab, view)
    return detail
