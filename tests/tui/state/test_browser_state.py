"""Listed cases, their order, their marks, and the resulting selection of a run."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.engine.plan import Selection
from workbench.model.identity import CaseKey
from workbench.model.results import CaseStatus
from workbench.model.run_events import CaseFinished, CaseStarted
from workbench.tui.state.browser_list import ListedSet, make_case_row
from workbench.tui.state.browser_state import Browser
from workbench.tui.state.case_filter import Order
from workbench.tui.state.case_status import StatusBoard

SET = "sets/lights.evalset.json"


def test_text_is_looked_for_in_ids_prompts_and_tools(listed: Any, make: Any) -> None:
    project = listed(["one", "two", "three"])
    project.read(
        make.case("one", make.turn("Turn on the LAMP", "done")),
        make.case("two", make.turn("Hi", "the lamp"), make.turn("x", "y", ("lamp_off", {}))),
        make.case("three", make.turn("Hi", "the lamp is off")),
    )

    project.browser.filter("lamp")
    assert project.ids == ["one", "two"]
    project.browser.filter("t lamp")
    assert project.ids == ["one", "two"]
    project.browser.filter('"turn on"')
    assert project.ids == ["one"]
    project.browser.filter("tool:off")
    assert project.ids == ["two"]
    project.browser.filter("HREE")
    assert project.ids == ["three"]


def test_before_a_case_is_read_it_is_found_by_its_id(listed: Any, make: Any) -> None:
    project = listed(["lamp", "other"])

    project.browser.filter("lamp")
    assert project.ids == ["lamp"]
    project.read(make.case("other", make.turn("lamp", "")))
    assert project.ids == ["lamp", "other"]


def test_status_and_traits_filter_together_with_text(listed: Any, make: Any) -> None:
    project = listed(["a1", "a2", "b1"])
    project.store(a1=CaseStatus.FAILED, a2=CaseStatus.PASSED, b1=CaseStatus.FAILED)
    project.browser.set_edited_cases(SET, frozenset({"a2"}))

    project.browser.filter("!failed a")
    assert project.ids == ["a1"]
    project.browser.filter("is:dirty")
    assert project.ids == ["a2"]
    project.browser.filter("!bogus")
    assert project.ids == []
    project.browser.filter("")
    assert len(project.ids) == 3


def test_a_status_filter_follows_the_run_when_it_is_listed_anew(listed: Any, make: Any) -> None:
    project = listed(["a", "b"])
    project.store(a=CaseStatus.FAILED, b=CaseStatus.FAILED)
    project.browser.filter("!failed")
    assert project.browser.needs_results

    project.state.apply([CaseStarted(case=project.key("a"), repeat=0, turns=1)], now=0)
    project.browser.refresh()

    assert project.ids == ["b"]


@pytest.mark.parametrize(
    ("order", "ids"),
    [
        (Order.FILE, ["c10", "c2", "c1"]),
        (Order.ID, ["c1", "c2", "c10"]),
        (Order.STATUS, ["c2", "c10", "c1"]),
        (Order.DURATION, ["c2", "c1", "c10"]),
        (Order.NEWEST, ["c1", "c2", "c10"]),
    ],
)
def test_cases_are_sorted_within_their_set(listed: Any, make: Any, order: Order, ids: list[str]) -> None:
    project = listed(["c10", "c2", "c1"])
    results = {"c2": (CaseStatus.FAILED, 2.0), "c1": (CaseStatus.PASSED, 1.0)}
    for eval_id, (status, duration) in results.items():
        result = make.result(project.key(eval_id), status).model_copy(update={"agent_seconds": duration})
        project.state.apply(
            [CaseFinished(case=result.case, repeat=0, status=status, duration_seconds=9.0, result=result)], now=0
        )

    project.browser.sort(order)

    assert project.ids == ids


def test_the_cursor_stays_on_its_case_when_the_order_changes(listed: Any) -> None:
    project = listed(["b", "a"])
    project.select("b")

    project.browser.sort(Order.ID)

    assert project.browser.selected_row.case.eval_id == "b"
    assert project.ids == ["a", "b"]


def test_going_through_the_orders_comes_back_to_the_first() -> None:
    order, seen = Order.FILE, []
    for _ in Order:
        seen.append(order)
        order = order.next

    assert seen == list(Order)
    assert order is Order.FILE


def test_a_mark_moves_on_and_survives_a_filter(listed: Any) -> None:
    project = listed(["a", "b", "c"])
    project.select("a")

    project.browser.toggle_mark()
    assert project.browser.selected_row.case.eval_id == "b"
    project.browser.filter("c")
    project.browser.toggle_mark()

    assert project.marked() == ["a", "c"]
    project.browser.filter("")
    assert project.marked() == ["a", "c"]


def test_a_range_is_marked_from_the_last_mark_to_the_cursor(listed: Any) -> None:
    project = listed(["a", "b", "c", "d", "e"])
    project.select("d")
    project.browser.toggle_mark()
    project.select("b")

    project.browser.mark_range()

    assert sorted(project.marked()) == ["b", "c", "d"]


def test_marking_a_set_marks_what_is_listed_of_it_and_again_unmarks_it(listed: Any) -> None:
    project = listed(["a1", "b1", "a2"])
    project.browser.filter("a")
    project.browser.set_cursor(1)

    project.browser.toggle_mark()
    assert project.marked() == ["a1", "a2"]
    project.browser.toggle_mark()
    assert project.marked() == []


def test_every_listed_case_is_marked_and_marks_are_cleared(listed: Any) -> None:
    project = listed(["a", "b"])

    project.browser.mark_listed()
    assert project.marked() == ["a", "b"]
    project.browser.marks.clear()
    assert project.marked() == []


def test_a_case_that_is_gone_is_no_longer_marked(listed: Any) -> None:
    project = listed(["a", "b"])
    project.browser.mark_listed()

    project.list_cases("b")

    assert project.marked() == ["b"]


def test_run_selected_runs_the_marked_cases_wherever_the_cursor_is(listed: Any) -> None:
    project = listed(["a", "b", "c"])
    project.select("a")
    assert project.state.select_row_cases(project.state.selected_key) == [Selection(eval_set=SET, cases=("a",))]

    project.browser.marks.add([project.key("c"), project.key("b")])

    assert project.state.select_row_cases(project.state.selected_key) == [Selection(eval_set=SET, cases=("c", "b"))]


def test_run_all_runs_what_is_listed_and_whole_sets_where_nothing_is_filtered(listed: Any) -> None:
    project = listed(["a", "b", "c"])
    assert project.state.select_all_cases() == [Selection(eval_set=SET)]

    project.browser.filter("b")

    assert project.state.select_all_cases() == [Selection(eval_set=SET, cases=("b",))]


def test_run_failed_keeps_to_what_is_marked_else_to_what_is_listed(listed: Any) -> None:
    project = listed(["a", "b", "c"])
    project.store(a=CaseStatus.FAILED, b=CaseStatus.ERROR, c=CaseStatus.PASSED)
    assert project.state.select_failed_cases() == [Selection(eval_set=SET, cases=("a", "b"))]

    project.browser.filter("b")
    assert project.state.select_failed_cases() == [Selection(eval_set=SET, cases=("b",))]
    project.browser.marks.add([project.key("a"), project.key("c")])
    assert project.state.select_failed_cases() == [Selection(eval_set=SET, cases=("a",))]


def test_a_verdict_is_stale_when_the_case_or_its_criteria_have_changed_and_fresh_when_they_are_back(
    listed: Any, make: Any
) -> None:
    project = listed(["a"])
    case, key = make.case("a", make.turn("Hi", "Hello")), project.key("a")
    project.store(a=CaseStatus.PASSED)
    assert not project.browser.freshness.is_stale(key)

    project.read(case, hashes=("e", "new"))
    assert project.browser.freshness.is_stale(key)
    assert project.browser.freshness.count_stale("home", SET) == project.browser.freshness.count_stale("home", "") == 1

    project.read(case, hashes=("e", "old"))
    assert not project.browser.freshness.is_stale(key)
    assert project.browser.freshness.count_stale("home", SET) == 0


def test_a_run_makes_a_stale_verdict_fresh_and_a_later_edit_stale_again(listed: Any, make: Any) -> None:
    project = listed(["a"])
    case, key = make.case("a", make.turn("Hi", "Hello")), project.key("a")
    project.store(a=CaseStatus.PASSED)
    project.read(case, hashes=("e", "new"))
    result = make.result(key, CaseStatus.PASSED)

    project.browser.freshness.set_planned_hashes({key: ("e", "new")})
    assert project.browser.freshness.is_stale(key)
    project.state.apply(
        [CaseFinished(case=key, repeat=0, status=result.status, duration_seconds=1, result=result)], now=0
    )
    assert not project.browser.freshness.is_stale(key)

    project.read(case, hashes=("changed", "new"))
    assert project.browser.freshness.is_stale(key)
    project.browser.filter("is:stale")
    assert project.ids == ["a"]


def test_a_stale_verdict_stays_stale_where_the_run_that_would_have_renewed_it_is_cancelled(
    listed: Any, make: Any
) -> None:
    project = listed(["a"])
    key = project.key("a")
    project.store(a=CaseStatus.PASSED)
    project.read(make.case("a", make.turn("Hi", "Hello")), hashes=("e", "new"))
    project.browser.freshness.set_planned_hashes({key: ("e", "new")})

    cancelled = make.result(key, CaseStatus.CANCELLED)
    project.state.apply(
        [CaseFinished(case=key, repeat=0, status=cancelled.status, duration_seconds=1, result=cancelled)], now=0
    )

    assert project.browser.freshness.is_stale(key)


@given(
    ids=st.lists(st.text(min_size=1, max_size=5), unique=True, max_size=12),
    text=st.text(max_size=6),
    order=st.sampled_from(Order),
    moves=st.lists(st.integers(-3, 3), max_size=6),
)
def test_whatever_is_filtered_sorted_and_moved_the_rows_are_of_the_set_and_the_cursor_on_one(
    ids: list[str], text: str, order: Order, moves: list[int]
) -> None:
    browser = Browser(StatusBoard())
    keys = [CaseKey(target="t", eval_set="s.json", eval_id=eval_id) for eval_id in ids]
    browser.replace_sets(["t"], [ListedSet("s.json", "t", tuple(map(make_case_row, keys)))])
    for by in moves:
        browser.move_cursor(by)
        browser.toggle_mark()
    selected = browser.selected_row

    browser.sort(order)
    browser.filter(text)
    assert 0 <= browser.cursor < max(len(browser.rows), 1)
    assert {row.case for row in browser.rows if row.case} <= set(keys)

    browser.filter("")
    assert {row.case for row in browser.rows if row.case} == set(keys)
    browser.sort(Order.FILE)
    assert [row.case for row in browser.rows if row.case] == keys
    assert set(browser.marks) <= set(keys)
    if selected is not None and not text.strip():
        assert browser.selected_row is not None
