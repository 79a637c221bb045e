"""One step in detail: facts, input, output and events."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rich.cells import cell_len

from tests.tui.state.spans import join_text, make_detail, make_view, render_lines, span, turn_result
from workbench.model.trace import Span, SpanKind
from workbench.tui.state import trace_tree
from workbench.tui.state.span_detail import DetailTab, JsonText
from workbench.tui.state.trace_tree import Where


def toggle_line(value: Any, key: str) -> JsonText:
    """Return the value with the line that has this beginning opened or folded."""
    source = JsonText(value)
    place = next(number for number, line in enumerate(render_lines(source)) if key in line)
    assert source.toggle(place)
    return source


def test_json_is_one_line_for_each_key_with_real_line_breaks_in_texts() -> None:
    value = {"city": "Rome", "n": 1, "none": None, "yes": True, "empty": [], "list": [{"a": "x\ny"}, 2]}

    assert render_lines(JsonText(value)) == [
        'city: "Rome"',
        "n: 1",
        "none: null",
        "yes: true",
        "empty: []",
        "▾ list: [2]",
        "  ▾ 0: {1}",
        "    ▾ a:",
        "      │ x",
        "      │ y",
        "  1: 2",
    ]


def test_a_text_alone_and_a_number_alone_are_shown_too() -> None:
    assert render_lines(JsonText("hello")) == ['"hello"']
    assert render_lines(JsonText(3.5)) == ["3.5"]


def test_a_folded_part_shows_its_size() -> None:
    assert render_lines(toggle_line({"list": [1, 2, 3]}, "list")) == ["▸ list: [3]"]
    assert render_lines(toggle_line({"text": "a\nb\nc"}, "text")) == ["▸ text: 5 characters, 3 lines"]
    source = toggle_line({"text": "a\nb"}, "text")
    assert len(render_lines(source)) == 1 and source.toggle(0)
    assert len(render_lines(source)) == 3


def test_folding_inside_a_part_folds_the_innermost_part() -> None:
    source = JsonText({"outer": {"inner": {"x": 1}}})
    render_lines(source)

    assert source.fold(2) == 1
    assert render_lines(source) == ["▾ outer: {1}", "  ▸ inner: {1}"]
    assert not JsonText({"x": 1}).toggle(0)


def test_secrets_are_redacted_by_their_form_and_by_their_name() -> None:
    value = {"api_key": "abcdef", "headers": {"auth_token": "t0ken"}, "note": f"use AIza{'x' * 35} now"}

    shown = "\n".join(render_lines(JsonText(value)))

    assert "abcdef" not in shown and "t0ken" not in shown and "AIza" not in shown
    assert shown.count("[redacted]") == 3


def test_a_megabyte_is_laid_out_in_parts_and_counts_the_rest() -> None:
    source = JsonText({"text": "all work [b]and[/b] no play\n" * 40_000})

    first = render_lines(source)
    assert len(first) < 400 and "996,000 more characters" in first[-2]
    assert "120,000 more characters not shown" in first[-1] + render_lines(source, width=200)[-1]
    assert source.toggle(len(first) - 2)
    assert len(render_lines(source)) > len(first) + 400


def test_a_long_list_shows_more_on_request() -> None:
    source = toggle_line(list(range(1_000)), "900 more")

    assert any("500 more" in line for line in render_lines(source))


def test_thousands_of_keys_are_folded_and_deep_values_do_not_recurse() -> None:
    wide = {f"key_{number}": {str(item): item for item in range(90)} for number in range(99)}
    assert len(render_lines(JsonText(wide))) < 2_000

    deep: Any = "end"
    for _ in range(5_000):
        deep = {"d": deep}
    assert len(render_lines(JsonText(deep))) < 2_000


@pytest.mark.parametrize("width", [8, 20, 46, 120])
def test_no_line_is_wider_than_the_view_and_none_holds_a_control_character(width: int) -> None:
    nasty = "x [/foo] [bold] \x1b[31m \u202e rtl \u0627\u0644 e\u0301 \U0001f468\u200d\U0001f469 漢字かな\ttab " * 30
    value = {nasty[:80]: nasty, "lines": f"{nasty}\n{nasty}", "list": [nasty]}

    for line in JsonText(value).render(width):
        assert cell_len(join_text(line)) <= max(width, 24)
        assert not set(join_text(line)) & {"\x1b", "\u202e", "\n", "\t"}


def test_a_match_is_unfolded_and_highlighted() -> None:
    value = {"a": {"b": [*range(300), "needle one"]}, "long": f"{'hay ' * 50_000}NEEDLE two"}
    source = JsonText(value)
    source.reveal("needle one")
    assert any("needle one" in line for line in render_lines(source))

    source = JsonText(value)
    source.reveal("needle two")
    shown = source.render(80)
    assert any("NEEDLE two" in join_text(line) for line in shown)
    assert any(piece.text == "NEEDLE two" and piece.style == "match" for line in shown for piece in line)
    source.reveal("")


def test_the_event_of_a_step_has_its_facts_and_attributes() -> None:
    spans = [
        span("root", at=(1.0, 3.0), kind=SpanKind.AGENT, attributes={"type": "LlmAgent", "agents": {}}),
        span("set", "root", at=(1.5, 2.0), kind=SpanKind.TOOL, error="ValueError: [b]no[/b]"),
        span("m", "root", at=(2.0, 2.5), kind=SpanKind.MODEL, response={"usage_metadata": {"total_token_count": 7}}),
    ]
    view = make_view(spans, turn_result("light on", "done"))

    shown = render_lines(make_detail(view, 1))
    assert "kind        agent · the slowest step" in shown
    assert "time        2.00 s · 1.00 s of its own" in shown
    assert "tokens      7 · none of its own" in shown
    assert 'type: "LlmAgent"' in shown and not any("agents" in line for line in shown)
    shown = render_lines(make_detail(view, 2))
    assert "error       ! ValueError: [b]no[/b]" in shown
    assert "parent      root · root" in shown
    assert "started     500 ms into the turn, 1.50 s into the session" in shown


def test_a_turn_without_a_response_is_running_only_if_the_case_is() -> None:
    view = make_view([span("root")])
    assert "agent       the turn failed" in render_lines(make_detail(view, 0))

    view.show([span("root")], (), (), is_live=True)
    assert "agent       the turn is still running" in render_lines(make_detail(view, 0))


def test_a_step_without_times_or_parent_is_described() -> None:
    shown = render_lines(make_detail(make_view([span("t", "gone")]), 1))

    assert "time        not reported: the agent reported this step without times" in shown
    assert "parent      gone, which has not been reported" in shown
    shown = render_lines(make_detail(make_view([span("t", start=0.5)]), 1, DetailTab.RESPONSE))
    assert shown == ["The step is still running; its response is not known yet."]


def test_request_and_response_follow_the_step_and_the_tab_stays() -> None:
    view = make_view([span("a", request={"x": 1}, response="yes"), span("b", request={"x": 2})])
    detail = make_detail(view, 1, DetailTab.REQUEST)
    assert render_lines(detail) == ["x: 1"]
    assert detail.copyable() == '{\n  "x": 1\n}'

    view.move_to(2)
    assert detail.show(view)
    assert render_lines(detail) == ["x: 2"]
    detail.step(1, view)
    assert render_lines(detail) == ["No response is recorded for this step."]
    detail.step(2, view)
    assert detail.tab is DetailTab.EVENT


def test_a_turn_has_its_messages_and_counts() -> None:
    turn = turn_result("light on", "done").model_copy(update={"inference_calls": 2})
    view = make_view([span("a")], turn)

    assert "model calls 2" in render_lines(make_detail(view, 0))
    assert render_lines(make_detail(view, 0, DetailTab.RESPONSE))[2] == '    text: "done"'
    assert render_lines(make_detail(make_view([span("a")]), 0, DetailTab.REQUEST)) == [
        "No request is recorded for this turn."
    ]


def test_opened_parts_stay_open_when_more_steps_arrive() -> None:
    spans = [span("a", request={"list": [1, 2]})]
    view = make_view(spans)
    detail = make_detail(view, 1, DetailTab.REQUEST)
    assert len(render_lines(detail)) == 3 and detail.toggle(0)

    view.show([*spans, span("b")], (), ())

    assert not detail.show(view)
    assert render_lines(detail) == ["▸ list: [2]"]


def test_a_copy_is_the_whole_step_without_secrets() -> None:
    view = make_view([span("a", request={"x": "\x1b漢"}, response=f"AIza{'x' * 35}")])
    copied_text = make_detail(view, 1).copyable_row()

    assert copied_text is not None
    assert json.loads(copied_text) == {**json.loads(copied_text), "request": {"x": "\x1b漢"}, "response": "[redacted]"}


def test_a_match_in_a_response_is_shown_in_the_response() -> None:
    view = make_view([span("a", response={"deep": {"city": "Rome"}})])
    detail = make_detail(view, 1)
    detail.reveal("rome", Where.RESPONSE, view)

    assert detail.tab is DetailTab.RESPONSE
    assert any(piece.style == "match" for line in detail.render(80) for piece in line)


# Links from spans to events.


def find_link(spans: list[Span], name: str, **invocation: Any) -> str | None:
    view = make_view(spans, turn_result("hi", "done", **invocation))
    node = next(node for node in view.tree.ordered if node.span.name == name)
    return view.find_link(node)


def make_tool_span(name: str, request: Any = None, **more: Any) -> Span:
    return span(name, kind=SpanKind.TOOL, request=request, **more)


def test_a_model_call_is_linked_to_its_event_also_in_a_nested_run() -> None:
    own = {"event_id": "e1", "invocation_id": "i1", "is_final_response": True}
    spans = [span("m", attributes=own), span("n", attributes={**own, "invocation_id": "i2"}), span("x")]

    assert find_link(spans, "m", invocation_id="i1") == "the final response of this turn, id e1"
    assert find_link(spans, "n", invocation_id="i1") == "the final response of a nested run, id e1"
    assert find_link(spans, "x", invocation_id="i1") is None


def test_tool_calls_are_linked_by_id_even_if_two_share_one() -> None:
    calls = [{"functionCall": {"id": "c1", "name": "roll"}}, {"functionCall": {"id": "c1", "name": "roll"}}]
    events = {"invocation_events": [{"author": "root", "content": {"parts": calls}}]}
    spans = [
        make_tool_span(name, attributes={"function_call_id": "c1"}, at=(0.0, 1.0)) for name in ("one", "two", "three")
    ]

    links = [find_link(spans, name, intermediate_data=events) for name in ("one", "two", "three")]
    assert links == ["tool call 1 of this turn", "tool call 2 of this turn", None]


def test_tool_calls_without_ids_are_linked_by_name_and_arguments_each_once() -> None:
    data = {"tool_uses": [{"name": "set", "args": {"x": 1}}, {"name": "set", "args": {"x": 2}}, {"name": "get"}]}
    spans = [make_tool_span("set", {"x": 2}), make_tool_span("get"), make_tool_span("set ", {"x": 1})]

    assert find_link(spans, "set", intermediate_data=data) == "tool call 2 of this turn"
    assert find_link(spans, "get", intermediate_data=data) == "tool call 3 of this turn"
    assert find_link(spans, "set ", intermediate_data=data) is None


def test_tool_calls_in_the_order_of_their_spans_are_linked_without_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = {"tool_uses": [{"name": "set", "args": {"x": n}} for n in range(3)]}
    spans = [make_tool_span("set", {"x": n}, id=str(n)) for n in range(3)]
    monkeypatch.setattr(trace_tree, "_content", None)

    view = make_view(spans, turn_result("hi", "done", intermediate_data=data))

    assert [view.find_link(node) for node in view.tree.ordered] == [f"tool call {n} of this turn" for n in (1, 2, 3)]


def test_an_agent_that_answered_with_the_final_response_is_linked_to_it() -> None:
    spans = [span("f", kind=SpanKind.AGENT, response="done"), span("g", kind=SpanKind.AGENT, response="other")]

    assert find_link(spans, "f") == "the final response of this turn"
    assert find_link(spans, "g") is None
