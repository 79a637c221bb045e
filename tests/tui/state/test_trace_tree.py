"""The nesting of spans, and their totals."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tui.state.spans import span, turn_result
from workbench.model.text import format_duration
from workbench.model.trace import SpanKind
from workbench.tui.state.trace_tree import Axis, SpanKey, TraceTree, count_tokens


def test_spans_are_below_their_parents_in_order_of_their_start() -> None:
    tree = TraceTree(
        [
            span("late", "agent", at=(0.5, 0.6)),
            span("early", "agent", at=(0.1, 0.2)),
            span("reported", "agent"),
            span("agent", at=(0.0, 1.0)),
        ]
    )

    assert [node.span.name for node in tree.ordered] == ["agent", "early", "late", "reported"]
    assert [node.depth for node in tree.ordered] == [0, 1, 1, 1]


def test_a_span_without_its_parent_is_below_its_turn_until_the_parent_arrives() -> None:
    inner = span("inner", "outer", at=(0.1, 0.2))

    assert [root.span.name for root in TraceTree([inner]).turns[0].roots] == ["inner"]
    tree = TraceTree([inner, span("outer", at=(0.0, 0.3))])
    assert [root.span.name for root in tree.turns[0].roots] == ["outer"]


def test_a_span_reported_again_at_its_end_is_one_span() -> None:
    began = span("tool", start=0.1)
    tree = TraceTree([began, began.model_copy(update={"end": 0.4})])

    assert [node.span.duration for node in tree.ordered] == [pytest.approx(0.3)]


def test_the_same_ids_in_another_turn_are_other_spans() -> None:
    tree = TraceTree([span("a"), span("b", "a"), span("a", turn=1), span("b", "a", turn=1)])

    assert [(turn.index, turn.steps) for turn in tree.turns] == [(0, 2), (1, 2)]


def test_spans_that_name_each_other_as_parents_are_all_listed() -> None:
    tree = TraceTree([span("a", "c"), span("b", "a"), span("c", "b"), span("self", "self"), span("below", "a")])

    assert sorted(node.span.name for node in tree.ordered) == ["a", "b", "below", "c", "self"]


def test_a_chain_of_five_thousand_spans_does_not_overflow_the_stack() -> None:
    chain = [span(f"s{number}", f"s{number - 1}" if number else None) for number in range(5_000)]

    assert TraceTree(reversed(chain)).ordered[-1].depth == 4_999


def test_own_time_excludes_children_and_counts_overlaps_once() -> None:
    tree = TraceTree(
        [span("a", at=(0.0, 1.0)), span("b", "a", at=(0.1, 0.5)), span("c", "a", at=(0.3, 0.6)), span("d", "a")]
    )

    own = {node.span.name: node.own_seconds for node in tree.ordered}
    assert own == {"a": pytest.approx(0.5), "b": pytest.approx(0.4), "c": pytest.approx(0.3), "d": None}
    assert tree.slowest is tree.nodes[SpanKey(0, "a")]


def test_tokens_are_summed_and_unknown_counts_stay_unknown() -> None:
    usage = {"usage_metadata": {"total_token_count": 12}}
    tree = TraceTree(
        [span("a"), span("m1", "a", response=usage), span("t", "a"), span("inner", "t", response=usage), span("x")]
    )

    tokens = {node.span.name: (node.own_tokens, node.tokens) for node in tree.ordered}
    assert tokens == {"a": (None, 24), "m1": (12, 12), "t": (None, 12), "inner": (12, 12), "x": (None, None)}
    assert (tree.turns[0].tokens, tree.tokens) == (24, 24)


def test_a_turn_has_the_time_and_tokens_of_its_result_if_known() -> None:
    turn = turn_result("hi", "ho").model_copy(update={"duration_seconds": 3.0})
    tree = TraceTree([span("a", at=(0.0, 1.0))], [turn])

    assert tree.turns[0].seconds == 3.0
    assert TraceTree([span("a", at=(0.5, 1.0))]).turns[0].seconds == 0.5
    assert TraceTree([span("a")]).turns[0].seconds is None


def test_a_step_that_takes_a_large_part_of_its_turn_is_slow() -> None:
    tree = TraceTree(
        [
            span("agent", at=(0.0, 1.0)),
            span("a", "agent", at=(0.0, 0.1)),
            span("b", "agent", at=(0.1, 0.8)),
            span("c", "agent", at=(0.8, 1.0)),
        ]
    )

    assert [node.span.name for node in tree.ordered if node.slow] == ["b"]


def test_errors_below_are_counted() -> None:
    tree = TraceTree([span("a"), span("b", "a", error="x"), span("c", "b", error="y"), span("d", "a")])

    assert [node.errors_below for node in tree.ordered] == [2, 1, 0, 0]
    assert tree.turns[0].errors == 2


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"response": {"usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4}}}, 7),
        ({"response": {"usage": {"prompt_tokens": 3, "completion_tokens": 4}}}, 7),
        ({"attributes": {"gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 1}}, 6),
        ({"attributes": {"usage": {"total": 9, "prompt": 1}}}, 9),
        ({"response": {"usage_metadata": "many"}}, None),
        ({"response": {"usage_metadata": {"total_token_count": True}}}, None),
        ({"response": "text"}, None),
    ],
)
def test_tokens_are_read_in_all_known_spellings(facts: dict[str, Any], expected: int | None) -> None:
    assert count_tokens(span("m", kind=SpanKind.MODEL, **facts)) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.0, "0.0 ms"),
        (0.00000812, "8.1 µs"),
        (0.0004, "0.4 ms"),
        (0.0124, "12 ms"),
        (1.254, "1.25 s"),
        (0.2071, "207 ms"),
        (9.9, "9.90 s"),
        (12.34, "12 s"),
        (125.0, "2 min 05 s"),
        (7260, "2 h 01 min"),
    ],
)
def test_times_are_short_and_readable(seconds: float, expected: str) -> None:
    assert format_duration(seconds) == expected


def test_an_axis_without_room_for_a_step_has_its_end() -> None:
    assert Axis(0.0, 0.066, width=12).labels() == "├0    66 ms┤"
    assert Axis(0.0, 0.066, width=9).labels() == "├0 66 ms┤"
    assert len(Axis(0.0, 6666.0, width=9).labels()) == 9


def test_the_axis_of_a_turn_of_microseconds_has_distinct_times() -> None:
    labels = Axis(0.0, 0.00001, width=40).labels()

    shown = [label.strip() for label in labels.split("├")[1:]]
    assert len(set(shown)) == len(shown) > 1 and shown[1].endswith(" µs")
