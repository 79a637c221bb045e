"""The rows of a trace: their list, their drawing, and cursor moves."""

from __future__ import annotations

from rich.cells import cell_len

from tests.tui.state.spans import names, rows, span, text, turn_result, view_of
from workbench.model.trace import Span, SpanKind
from workbench.tui.state.trace_tree import Search, SpanKey, Where
from workbench.tui.state.trace_view import TraceView


def lights() -> list[Span]:
    """Return two turns of an agent, with a failure in the second."""
    return [
        span("run", at=(0.0, 1.0), kind=SpanKind.INVOCATION),
        span("root", "run", at=(0.0, 1.0), kind=SpanKind.AGENT),
        span("ask", "root", at=(0.0, 0.25), kind=SpanKind.MODEL),
        span("set", "root", at=(0.25, 0.5), kind=SpanKind.TOOL, request={"room": "Kitchen"}),
        span("tell", "root", at=(0.5, 1.0), kind=SpanKind.MODEL),
        span("again", turn=1, at=(5.0, 6.0), kind=SpanKind.AGENT, error="ValueError: no"),
        span("lost", "again", turn=1, kind=SpanKind.TOOL, error="ValueError: no"),
    ]


def test_each_user_message_heads_the_steps_that_it_led_to() -> None:
    view = view_of(lights(), turn_result("light on", "done"), prompts=["ignored", "and off"])

    assert names(view) == ["turn 1", "run", "root", "ask", "set", "tell", "turn 2", "again", "lost"]
    assert "user light on" in rows(view)[0]
    assert "! 2" in rows(view)[6] and "user and off" in rows(view)[6]


def test_bars_stand_where_and_as_long_as_the_steps_took_within_the_turn() -> None:
    drawn = rows(view_of(lights()))

    first, second = drawn[3].index("█"), drawn[4].index("█")
    assert abs(drawn[3].count("█") * 2 - drawn[5].count("█")) <= 1
    assert first < second < drawn[5].index("█")
    assert drawn[1].count("━") == drawn[7].count("━")  # each turn has the whole width


def test_bars_within_the_session_leave_room_for_the_other_turns() -> None:
    view = view_of(lights())
    view.toggle_scale()

    drawn = rows(view)
    assert drawn[1].rindex("━") < drawn[7].index("━")
    assert "bars: session" in text(view.axis_line(100)) and "4 s" in text(view.axis_line(100))


def test_a_step_without_times_has_no_bar_and_no_zero() -> None:
    line = rows(view_of(lights()))[8]

    assert "no times reported" in line and "–" in line
    assert "0" not in line and "█" not in line


def test_kinds_errors_and_slow_steps_show_without_colour() -> None:
    drawn = rows(view_of(lights()))

    assert "◎ run" in drawn[1] and "◆ root" in drawn[2] and "✦ ask" in drawn[3] and "ƒ set" in drawn[4]
    assert "! ◆ again" in drawn[7]
    assert "◷ ✦ tell" in drawn[5] and "slowest" in rows(view_of(lights()[:5]))[5]


def test_what_a_session_amounts_to_is_above_the_rows() -> None:
    line = text(view_of(lights()).summary())

    assert "2 turns · 7 steps · 2.00 s" in line
    assert "! 2 errors" in line


def test_a_running_step_is_drawn_to_the_end_and_marked() -> None:
    view = view_of([span("a", at=(0.0, 1.0)), span("b", start=0.5, kind=SpanKind.TOOL)])

    assert "… ƒ b" in rows(view)[2] and "░" in rows(view)[2]


def test_a_folded_row_counts_its_hidden_steps_and_errors() -> None:
    view = view_of(lights())
    view.move_to(2)
    view.fold()
    assert names(view) == ["turn 1", "run", "root", "turn 2", "again", "lost"]
    assert "+3" in rows(view)[2]

    view.unfold()
    view.unfold()
    assert view.selection is not None and view.selection.key == SpanKey(0, "ask")
    view.fold()
    assert view.selection.key == SpanKey(0, "root")
    view.fold_all()
    assert names(view) == ["turn 1", "turn 2"]
    view.unfold_all()
    assert len(view) == 9
    view.move_to(7)
    view.fold()
    assert "+1, 1 error" in rows(view)[7]


def test_what_arrives_leaves_cursor_and_folds_where_they_are() -> None:
    spans = lights()
    view = view_of(spans[3:5])
    view.move_to(2)
    assert view.selection is not None and view.selection.key == SpanKey(0, "tell")

    view.show(spans, (), ())

    assert view.selection.key == SpanKey(0, "tell")
    view.select_span(SpanKey(0, "root"))
    view.fold()
    view.show([*spans, span("new", "root", at=(0.1, 0.2))], (), ())
    assert view.selection.key == SpanKey(0, "root") and "new" not in names(view)


def test_a_jump_to_an_error_or_the_slowest_unfolds_what_hides_it_and_goes_round() -> None:
    view = view_of(lights())
    view.fold_all()

    assert view.go_to_error(1) and view.selection is not None
    assert view.selection.key == SpanKey(1, "again")
    view.go_to_error(1)
    assert view.selection.key == SpanKey(1, "lost")
    view.go_to_error(1)
    assert view.selection.key == SpanKey(1, "again")
    view.go_to_error(-1)
    assert view.selection.key == SpanKey(1, "lost")
    assert view.go_to_slowest() and view.selection.key == SpanKey(1, "again")
    assert not view_of(lights()[:1]).go_to_slowest()
    assert not view_of(lights()[:1]).go_to_error(1)


def test_the_error_filter_reports_a_session_without_errors() -> None:
    view = view_of([span("a", at=(0.0, 1.0))])
    view.toggle_errors_only()

    assert names(view) == ["turn 1"]
    assert "only errors: there is none" in text(view.summary())


def test_only_errors_and_only_one_kind_list_spans_with_what_they_were_in() -> None:
    view = view_of(lights())
    view.move_to(4)
    view.toggle_errors_only()
    assert names(view) == ["turn 1", "turn 2", "again", "lost"]
    assert "ƒ lost in again" in rows(view)[3] and "only errors" in text(view.summary())
    view.toggle_errors_only()

    kinds = []
    for _ in range(4):
        view.next_kind()
        kinds.append((view.kind, len(view)))
    assert kinds == [(SpanKind.AGENT, 4), (SpanKind.MODEL, 4), (SpanKind.TOOL, 4), (None, 9)]


def test_a_jump_to_what_a_filter_hides_ends_the_filter() -> None:
    view = view_of(lights())
    view.toggle_errors_only()

    assert view.select_span(SpanKey(0, "ask"))
    assert not view.is_filtered


def find(view: TraceView, needle: str) -> Search:
    """Search through everything."""
    search = Search(needle, view.tree.ordered)
    while not search.is_done:
        search.step(1)
    view.search = search
    return search


def test_a_text_is_found_in_names_requests_responses_and_errors_whatever_its_case() -> None:
    spans = [
        span("a", request={"deep": [{"room": "KITCHEN"}]}),
        span("Kitchen_tool"),
        span("c", response="in the kitchen"),
        span("d", error="no kitchen"),
        span("e", attributes={"place": "kitchen"}),
        span("f", request={"kitchen": 5, "n": 12345}),
    ]
    search = find(view_of(spans), "kitchen")

    assert [match.where for match in search.matches] == [
        Where.REQUEST, Where.NAME, Where.RESPONSE, Where.ERROR, Where.ATTRIBUTES, Where.REQUEST
    ]  # fmt: skip
    assert [match.key.id for match in find(view_of(spans), "234").matches] == ["f"]


def test_a_search_takes_no_more_at_once_than_it_is_given() -> None:
    search = Search("x", view_of([span(f"s{number}", request="y" * 1_000) for number in range(100)]).tree.ordered)

    search.step(5_000)

    assert not search.is_done


def test_next_and_previous_go_from_match_to_match_round_the_ends() -> None:
    view = view_of([item.model_copy(update={"error": None}) for item in lights()])
    find(view, "a")  # ask, again

    order = []
    for step in (1, 1, 1, -1):
        assert view.go_to_match(step) is not None
        assert view.selection is not None
        order.append(view.selection.key.id)
    assert order == ["ask", "again", "ask", "again"]
    assert "2 of 2 steps" in text(view.summary())
    find(view, "nowhere")
    assert view.go_to_match(1) is None and "“nowhere”: nothing" in text(view.summary())


def test_the_message_of_the_selected_row_is_highlighted() -> None:
    answer = span("f", turn=0, kind=SpanKind.AGENT, response="done")
    view = view_of([answer, span("t", "f", kind=SpanKind.TOOL)], turn_result("light on", "done"))
    view.move_to(1)
    assert text(view.message_line()) == "  user: light on  ▸ agent: done"

    view.move_to(2)
    assert text(view.message_line()) == "▸ user: light on    agent: done"


def test_no_row_is_wider_than_its_list_however_narrow_deep_or_odd() -> None:
    spans = [span(f"s{number}", f"s{number - 1}" if number else None, at=(0.0, 1.0)) for number in range(40)]
    spans += [span("漢字" * 40), span("e\u0301" * 50, error="x"), span("[b]\x1b[31m\u202e", kind=SpanKind.TOOL)]
    view = view_of(spans, turn_result("漢字" * 100, "x"))

    for width in (10, 20, 33, 46, 90, 180):
        for index in range(len(view)):
            line = text(view.line(index, width))
            assert cell_len(line) <= width
            assert "\x1b" not in line and "\u202e" not in line
        assert cell_len(text(view.axis_line(width))) <= width


def test_nothing_at_all_can_be_moved_in_folded_and_searched() -> None:
    view = TraceView()
    view.move(1)
    view.fold()
    view.unfold()
    view.toggle()
    view.fold_all()
    assert (len(view), view.selection, view.go_to_match(1)) == (0, None, None)
    assert text(view.message_line()) == ""
