"""The rows of a trace: their list, their drawing, and cursor moves."""

from __future__ import annotations

from typing import Any

from rich.cells import cell_len

from tests.tui.state.spans import join_text, list_names, make_view, render_rows, span, turn_result
from workbench.model.trace import Span, SpanKind
from workbench.tui.state.trace_tree import Search, SpanKey, Where
from workbench.tui.state.trace_view import TraceView


def make_light_spans() -> list[Span]:
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


def test_each_user_message_is_above_its_steps() -> None:
    view = make_view(make_light_spans(), turn_result("light on", "done"), prompts=["ignored", "and off"])

    assert list_names(view) == ["turn 1", "run", "root", "ask", "set", "tell", "turn 2", "again", "lost"]
    assert "user light on" in render_rows(view)[0]
    assert "! 2" in render_rows(view)[6] and "user and off" in render_rows(view)[6]


def test_bars_show_the_start_and_duration_of_steps_within_the_turn() -> None:
    drawn_rows = render_rows(make_view(make_light_spans()))

    first, second = drawn_rows[3].index("█"), drawn_rows[4].index("█")
    assert abs(drawn_rows[3].count("█") * 2 - drawn_rows[5].count("█")) <= 1
    assert first < second < drawn_rows[5].index("█")
    assert drawn_rows[1].count("━") == drawn_rows[7].count("━")  # each turn has the whole width


def test_bars_within_the_session_leave_room_for_the_other_turns() -> None:
    view = make_view(make_light_spans())
    view.toggle_scale()

    drawn_rows = render_rows(view)
    assert drawn_rows[1].rindex("━") < drawn_rows[7].index("━")
    assert "bars: session" in join_text(view.axis_line(100)) and "4 s" in join_text(view.axis_line(100))


def test_a_step_without_times_has_no_bar_and_no_zero() -> None:
    line = render_rows(make_view(make_light_spans()))[8]

    assert line.endswith(" no times reported")
    assert "0" not in line and "█" not in line


def test_a_step_without_times_uses_their_room_for_its_call() -> None:
    call = span("set_light", kind=SpanKind.TOOL, request={"room": "hall"}, response={"result": "done"})
    line = render_rows(make_view([span("agent", at=(0.0, 1.0)), call]), width=45)[2]

    assert 'ƒ set_light(room="hall") → "d… no times' in line


def test_a_tool_call_shows_its_arguments_and_its_result() -> None:
    def draw(width: int = 100, **facts: Any) -> str:
        row = render_rows(make_view([span("roll", kind=SpanKind.TOOL, at=(0.0, 1.0), **facts)]), width=width)[1]
        return row.partition("1.00 s")[0].strip()

    assert draw(request={"sides": 19}, response={"result": 17}) == "ƒ roll(sides=19) → 17"
    assert draw(request={}, response={"status": "ok", "n": 1}) == 'ƒ roll() → {"status": "ok", "n": 1}'
    assert draw(140, request={"api_key": "hidden"}, response={"password": "hidden"}).count("redacted") == 2
    assert draw(request={"a": "x\x1b[31m[b]"}, response="y\n[/b]") == 'ƒ roll(a="x\\u001b[31m[b]") → "y\\n[/b]"'
    assert draw(response=None) == "ƒ roll"
    assert draw(request=[1, 2]) == "ƒ roll(…)"
    long = draw(request={"text": "文" * 5_000_000}, response={"result": ["很长的" * 1_000_000] * 3})
    assert long.startswith('ƒ roll(text="文') and "… → [" in long
    assert draw(30, request={"n": 1}, response=2).startswith("ƒ roll(n")


def test_kinds_errors_and_slow_steps_show_without_colour() -> None:
    drawn_rows = render_rows(make_view(make_light_spans()))

    assert (
        "◎ run" in drawn_rows[1] and "◆ root" in drawn_rows[2] and "✦ ask" in drawn_rows[3] and "ƒ set" in drawn_rows[4]
    )
    assert "! ◆ again" in drawn_rows[7]
    assert "◷ ✦ tell" in drawn_rows[5] and "slowest" in render_rows(make_view(make_light_spans()[:5]))[5]


def test_the_totals_of_a_session_are_above_the_rows() -> None:
    line = join_text(make_view(make_light_spans()).summary())

    assert "2 turns · 7 steps · 2.00 s" in line
    assert "! 2 errors" in line


def test_a_running_step_is_drawn_to_the_end_and_marked() -> None:
    view = make_view([span("a", at=(0.0, 1.0)), span("b", start=0.5, kind=SpanKind.TOOL)])

    assert "… ƒ b" in render_rows(view)[2] and "░" in render_rows(view)[2]


def test_a_folded_row_counts_its_hidden_steps_and_errors() -> None:
    view = make_view(make_light_spans())
    view.move_to(2)
    view.fold()
    assert list_names(view) == ["turn 1", "run", "root", "turn 2", "again", "lost"]
    assert "+3" in render_rows(view)[2]

    view.unfold()
    view.unfold()
    assert view.selected_row is not None and view.selected_row.key == SpanKey(0, "ask")
    view.fold()
    assert view.selected_row.key == SpanKey(0, "root")
    view.fold_all()
    assert list_names(view) == ["turn 1", "turn 2"]
    view.unfold_all()
    assert len(view) == 9
    view.move_to(7)
    view.fold()
    assert "+1, 1 error" in render_rows(view)[7]


def test_new_steps_change_neither_the_cursor_nor_the_folds() -> None:
    spans = make_light_spans()
    view = make_view(spans[3:5])
    view.move_to(2)
    assert view.selected_row is not None and view.selected_row.key == SpanKey(0, "tell")

    view.show(spans, (), ())

    assert view.selected_row.key == SpanKey(0, "tell")
    view.select_span(SpanKey(0, "root"))
    view.fold()
    view.show([*spans, span("new", "root", at=(0.1, 0.2))], (), ())
    assert view.selected_row.key == SpanKey(0, "root") and "new" not in list_names(view)


def test_a_jump_to_an_error_or_the_slowest_step_unfolds_it_and_wraps() -> None:
    view = make_view(make_light_spans())
    view.fold_all()

    assert view.go_to_error(1) and view.selected_row is not None
    assert view.selected_row.key == SpanKey(1, "again")
    view.go_to_error(1)
    assert view.selected_row.key == SpanKey(1, "lost")
    view.go_to_error(1)
    assert view.selected_row.key == SpanKey(1, "again")
    view.go_to_error(-1)
    assert view.selected_row.key == SpanKey(1, "lost")
    assert view.go_to_slowest() and view.selected_row.key == SpanKey(1, "again")
    assert not make_view(make_light_spans()[:1]).go_to_slowest()
    assert not make_view(make_light_spans()[:1]).go_to_error(1)


def test_the_error_filter_reports_a_session_without_errors() -> None:
    view = make_view([span("a", at=(0.0, 1.0))])
    view.toggle_errors_only()

    assert list_names(view) == ["turn 1"]
    assert "only errors: none" in join_text(view.summary())


def test_filters_by_error_or_kind_list_spans_with_their_parents() -> None:
    view = make_view(make_light_spans())
    view.move_to(4)
    view.toggle_errors_only()
    assert list_names(view) == ["turn 1", "turn 2", "again", "lost"]
    assert "ƒ lost in again" in render_rows(view)[3] and "only errors" in join_text(view.summary())
    view.toggle_errors_only()

    kinds = []
    for _ in range(4):
        view.next_kind()
        kinds.append((view.kind, len(view)))
    assert kinds == [(SpanKind.AGENT, 4), (SpanKind.MODEL, 4), (SpanKind.TOOL, 4), (None, 9)]


def test_a_jump_to_a_hidden_step_ends_the_filter() -> None:
    view = make_view(make_light_spans())
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


def test_the_search_covers_names_requests_responses_and_errors() -> None:
    spans = [
        span("a", request={"deep": [{"room": "KITCHEN"}]}),
        span("Kitchen_tool"),
        span("c", response="in the kitchen"),
        span("d", error="no kitchen"),
        span("e", attributes={"place": "kitchen"}),
        span("f", request={"kitchen": 5, "n": 12345}),
    ]
    search = find(make_view(spans), "kitchen")

    assert [match.where for match in search.matches] == [
        Where.REQUEST, Where.NAME, Where.RESPONSE, Where.ERROR, Where.ATTRIBUTES, Where.REQUEST
    ]  # fmt: skip
    assert [match.key.id for match in find(make_view(spans), "234").matches] == ["f"]


def test_a_step_of_a_search_stays_within_its_budget() -> None:
    search = Search("x", make_view([span(f"s{number}", request="y" * 1_000) for number in range(100)]).tree.ordered)

    search.step(5_000)

    assert not search.is_done


def test_next_and_previous_match_wrap_around_the_ends() -> None:
    view = make_view([item.model_copy(update={"error": None}) for item in make_light_spans()])
    find(view, "a")  # ask, again

    order = []
    for step in (1, 1, 1, -1):
        assert view.go_to_match(step) is not None
        assert view.selected_row is not None
        order.append(view.selected_row.key.id)
    assert order == ["ask", "again", "ask", "again"]
    assert "2 of 2 steps" in join_text(view.summary())
    find(view, "nowhere")
    assert view.go_to_match(1) is None and "“nowhere”: nothing" in join_text(view.summary())


def test_the_message_of_the_selected_row_is_highlighted() -> None:
    answer = span("f", turn=0, kind=SpanKind.AGENT, response="done")
    view = make_view([answer, span("t", "f", kind=SpanKind.TOOL)], turn_result("light on", "done"))
    view.move_to(1)
    assert join_text(view.message_line()) == "  user: light on  ▸ agent: done"

    view.move_to(2)
    assert join_text(view.message_line()) == "▸ user: light on    agent: done"


def test_no_row_is_wider_than_its_list() -> None:
    spans = [span(f"s{number}", f"s{number - 1}" if number else None, at=(0.0, 1.0)) for number in range(40)]
    spans += [span("漢字" * 40), span("e\u0301" * 50, error="x"), span("[b]\x1b[31m\u202e", kind=SpanKind.TOOL)]
    view = make_view(spans, turn_result("漢字" * 100, "x"))

    for width in (10, 20, 33, 46, 90, 180):
        for index in range(len(view)):
            line = join_text(view.line(index, width))
            assert cell_len(line) <= width
            assert "\x1b" not in line and "\u202e" not in line
        assert cell_len(join_text(view.axis_line(width))) <= width


def test_an_empty_view_can_be_moved_in_folded_and_searched() -> None:
    view = TraceView()
    view.move(1)
    view.fold()
    view.unfold()
    view.toggle()
    view.fold_all()
    assert (len(view), view.selected_row, view.go_to_match(1)) == (0, None, None)
    assert join_text(view.message_line()) == ""
