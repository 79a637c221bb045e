"""Simulated tool calls in the trace."""

from __future__ import annotations

from tests.tui.state.spans import join_text, make_view, render_rows, span
from workbench.model.trace import SpanKind
from workbench.tui.state.span_detail import SpanDetail


def test_a_simulated_call_is_marked_in_its_row_and_facts() -> None:
    simulated = {"workbench.simulated": "replayed"}
    view = make_view(
        [span("roll", kind=SpanKind.TOOL, at=(0.0, 0.5), attributes=simulated), span("weigh", at=(0.5, 1.0))]
    )
    view.move(1)
    detail = SpanDetail()
    detail.show(view)

    listed = render_rows(view)

    assert "roll simulated: replayed" in listed[1]
    assert "simulated" not in listed[2]
    facts = [join_text(line) for line in detail.render(90)]
    assert "simulated   the tool was not called: a recorded call was replayed" in [line.rstrip() for line in facts]


def test_a_replayed_model_call_is_marked_in_its_row_and_facts() -> None:
    replayed = {"workbench.simulated": "replayed"}
    view = make_view([span("gemini", kind=SpanKind.MODEL, at=(0.0, 0.5), attributes=replayed)])
    view.move(1)
    detail = SpanDetail()
    detail.show(view)

    assert "✦ ↺ gemini" in render_rows(view)[1]
    facts = [join_text(line).rstrip() for line in detail.render(90)]
    assert "replayed    the model was not asked: its recorded answer to the same request was used" in facts
