"""The agents of a trace as a graph."""

from __future__ import annotations

from typing import Any

import pytest
from rich.cells import cell_len

from tests.tui.state.spans import join_text, make_detail, make_view, render_lines, span, turn_result
from workbench.model.trace import SpanKind
from workbench.tui.state.span_detail import DetailTab

AGENTS = {
    "root": {"type": "LlmAgent", "model": "gemini", "tools": ["look", "expert"], "agents": ["expert", "spare"]},
    "expert": {"type": "LlmAgent", "tools": ["find"], "agents": ["root"]},
    "spare": {"type": "LoopAgent"},
}


def render_graph(row: int = 0, agents: Any = AGENTS) -> list[str]:
    spans = [
        span("run", at=(0.0, 9.0), kind=SpanKind.INVOCATION, attributes={"agents": agents}),
        span("root", "run", at=(0.0, 8.0), kind=SpanKind.AGENT),
        span("1", "root", at=(1.0, 2.0), kind=SpanKind.TOOL).model_copy(update={"name": "look"}),
        span("2", "root", at=(2.0, 3.0), kind=SpanKind.TOOL, error="x").model_copy(update={"name": "look"}),
        span("expert", "root", at=(3.0, 4.0), kind=SpanKind.AGENT),
    ]
    return render_lines(make_detail(make_view(spans), row, DetailTab.GRAPH))


def test_the_graph_draws_all_agents_with_tools_and_counts_their_use() -> None:
    graph_lines = render_graph()

    assert any("◆ root" in line and "×1" in line and line.startswith("┃") for line in graph_lines)
    assert any("ƒ look" in line and "×2 !" in line for line in graph_lines)
    assert any("ƒ find" in line and "×" not in line for line in graph_lines)
    assert any("◆ spare" in line and "│" in line and "┃" not in line for line in graph_lines)
    assert any("├▶┃ ◆ expert" in line for line in graph_lines) and any("╰▶│ ◆ spare" in line for line in graph_lines)
    assert any("◆ root, see above" in line for line in graph_lines)
    assert graph_lines[-1] == "◆ root → ƒ look ×2 → ◆ expert"


def test_the_graph_marks_the_place_of_the_selected_step() -> None:
    assert next(line for line in render_graph(3) if "◀" in line).count("ƒ look") == 1
    assert "◆ expert" in next(line for line in render_graph(5) if "◀" in line)
    assert not any("◀" in line for line in render_graph(0))


@pytest.mark.parametrize("agents", [None, "x", {"root": 5}, {"root": {"tools": 3, "agents": "x", "model": []}}])
def test_the_graph_is_drawn_from_spans_without_reported_agents(agents: Any) -> None:
    graph_lines = render_graph(agents=agents)

    assert any("◆ root" in line for line in graph_lines) and any("◆ expert" in line for line in graph_lines)


def test_unused_tools_that_models_were_offered_are_in_the_graph() -> None:
    declarations = [{"function_declarations": [{"name": "offered"}]}]
    details = {"agent_details": {"root": {"tool_declarations": declarations}}}
    view = make_view([span("root", kind=SpanKind.AGENT)], turn_result("a", "b", app_details=details))

    assert any("ƒ offered" in line for line in render_lines(make_detail(view, 1, DetailTab.GRAPH)))


def test_the_graph_says_that_no_agent_is_named() -> None:
    graph_lines = render_lines(make_detail(make_view([span("x")]), 1, DetailTab.GRAPH))

    assert graph_lines == ["No agent or tool is known: the spans of this session name none."]


def test_the_graph_fits_narrow_views_and_odd_names() -> None:
    agents = {
        f"[b]{'漢' * number}": {"tools": ["\x1b[31m" * 20], "agents": [f"[b]{'漢' * (number + 1)}"]}
        for number in range(30)
    }
    view = make_view([span("run", kind=SpanKind.INVOCATION, attributes={"agents": agents})])

    for line in make_detail(view, 1, DetailTab.GRAPH).render(60):
        assert cell_len(join_text(line)) <= 60
        assert "\x1b" not in join_text(line)
