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
from workbench.tui.state.browser_list import ListedSet, index_case, make_case_row
from workbench.tui.state.browser_state import Browser
from workbench.tui.state.case_filter import Order
from workbench.tui.state.case_status import StatusBoard

SET = "sets/lights.evalset.json"


def test_text_is_searched_in_ids_prompts_and_tools(make_listed_project: Any, make: Any) -> None:
    project = make_listed_project(["one", "two", "three"])
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


def test_a_filter_by_place_lists_the_cases_of_sets_and_agents(make_listed_project: Any, make: Any) -> None:
    project = make_listed_project(["one", "two"])
    project.read(make.case("one", make.turn("Hi", "x")), make.case("two", make.turn("Lamp", "x")))

    for text, ids in {
        "in:LIGHTS": ["one", "two"],
        "in:home": ["one", "two"],
        'in:"sets/li" in:home': ["one", "two"],
        "in:home lamp": ["two"],
        "in:home !passed": [],
        "in:elsewhere": [],
    }.items():
        project.browser.filter(text)
        assert project.ids == ids, text
        assert project.browser.is_filtered
    assert project.browser.describe_no_match() == "no match"
    project.browser.filter("lights home")
    assert (project.ids, project.browser.describe_no_match()) == ([], "no match; try in:lights in:home")
    project.browser.filter("lights gone")
    assert project.browser.describe_no_match() == "no match"


def test_called_tools_keep_their_spelling(make_listed_project: Any, make: Any) -> None:
    project = make_listed_project(["one", "two"])
    calls: list[tuple[str, dict[str, Any]]] = [("lampOff", {}), ("ring", {}), ("lampOff", {})]
    project.read(make.case("one", make.turn("x", "y", *calls)), make.case("two", make.turn("x", "y", ("ring", {}))))

    assert [tuple(names) for names in project.browser.list_called_tools()] == [("lampOff", "ring"), ("ring",)]
    project.browser.filter("tool:lampoff")
    assert project.ids == ["one"]


@pytest.mark.parametrize("is_case", [True, False])
def test_a_row_within_folded_ones_is_selected(make_listed_project: Any, make: Any, is_case: bool) -> None:
    browser = make_listed_project(["one", "two"]).browser
    browser.restore_view(folded=[("home", ""), ("home", SET)], selected=None)
    key = make.key("two") if is_case else None

    assert browser.select_row(("home", SET, key))
    assert browser.selected_row.key == ("home", SET, key)
    assert browser.folded_keys == ([] if is_case else [("home", SET)])


def test_an_unread_case_is_found_by_its_id(make_listed_project: Any, make: Any) -> None:
    project = make_listed_project(["lamp", "other"])

    project.browser.filter("lamp")
    assert project.ids == ["lamp"]
    project.read(make.case("other", make.turn("lamp", "")))
    assert project.ids == ["lamp", "other"]


def test_a_filter_finds_contents_that_were_read_after_an_earlier_filter(make_listed_project: Any, make: Any) -> None:
    project = make_listed_project(["one", "two"])
    project.browser.filter("lamp")
    assert project.ids == []
    project.browser.filter("")

    project.browser.update_contents([index_case(project.key("two"), make.case("two", make.turn("Lamp on", "")))])
    project.browser.filter("lamp")
    assert project.ids == ["two"]
    project.browser.filter("lamp on")
    assert project.ids == ["two"]
    project.browser.sort(Order.ID)
    assert project.ids == ["two"]


def test_the_listed_cases_are_counted(make_listed_project: Any) -> None:
    project = make_listed_project(["lamp_1", "lamp_2", "door"])

    project.browser.filter("lamp")

    assert project.browser.count_cases() == (2, 3)


def test_status_and_traits_filter_together_with_text(make_listed_project: Any, make: Any) -> None:
    project = make_listed_project(["a1", "a2", "b1"])
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


def test_a_status_filter_follows_the_run_at_the_next_refresh(make_listed_project: Any, make: Any) -> None:
    project = make_listed_project(["a", "b"])
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
def test_cases_are_sorted_within_their_set(make_listed_project: Any, make: Any, order: Order, ids: list[str]) -> None:
    project = make_listed_project(["c10", "c2", "c1"])
    results = {"c2": (CaseStatus.FAILED, 2.0), "c1": (CaseStatus.PASSED, 1.0)}
    for eval_id, (status, duration) in results.items():
        result = make.result(project.key(eval_id), status).model_copy(update={"agent_seconds": duration})
        project.state.apply(
            [CaseFinished(case=result.case, repeat=0, status=status, duration_seconds=9.0, result=result)], now=0
        )

    project.browser.sort(order)

    assert project.ids == ids


def test_the_cursor_stays_on_its_case_when_the_order_changes(make_listed_project: Any) -> None:
    project = make_listed_project(["b", "a"])
    project.select("b")

    project.browser.sort(Order.ID)

    assert project.browser.selected_row.case.eval_id == "b"
    assert project.ids == ["a", "b"]


def test_the_cursor_returns_to_its_case_when_a_file_was_read_half_written(make_listed_project: Any) -> None:
    project = make_listed_project(["a", "b", "c", "d"])
    project.select("d")

    for half in (["a", "b", "c"], ["a", "b"], []):
        project.list_cases(*half)
        assert project.browser.selected_row is not None
    project.list_cases("a", "b", "c", "d")

    assert project.browser.selected_row.case.eval_id == "d"


def test_the_cursor_does_not_return_once_the_user_goes_on_elsewhere(make_listed_project: Any) -> None:
    project = make_listed_project(["a", "b", "c"])
    browser = project.browser
    for go_on in (lambda: browser.move_cursor(0), lambda: project.select("b"), browser.forget_lost_row):
        project.select("c")
        project.list_cases("a", "b")
        go_on()
        project.list_cases("a", "b", "c")
        assert browser.selected_row.case.eval_id == "b"


def test_the_cursor_does_not_return_to_a_row_that_was_only_hidden(make_listed_project: Any) -> None:
    project = make_listed_project(["a", "b"])
    project.select("b")

    project.browser.filter("a")
    project.browser.filter("")

    assert project.browser.selected_row.case.eval_id == "a"


def test_cycling_through_the_orders_returns_to_the_first() -> None:
    order, orders = Order.FILE, []
    for _ in Order:
        orders.append(order)
        order = order.next

    assert orders == list(Order)
    assert order is Order.FILE


def test_marking_moves_the_cursor_on_and_the_mark_survives_a_filter(make_listed_project: Any) -> None:
    project = make_listed_project(["a", "b", "c"])
    project.select("a")

    project.browser.toggle_mark()
    assert project.browser.selected_row.case.eval_id == "b"
    project.browser.filter("c")
    project.browser.toggle_mark()

    assert project.list_marked_ids() == ["a", "c"]
    project.browser.filter("")
    assert project.list_marked_ids() == ["a", "c"]


def test_a_range_is_marked_from_the_last_mark_to_the_cursor(make_listed_project: Any) -> None:
    project = make_listed_project(["a", "b", "c", "d", "e"])
    project.select("d")
    project.browser.toggle_mark()
    project.select("b")

    project.browser.mark_range()

    assert sorted(project.list_marked_ids()) == ["b", "c", "d"]


def test_marking_a_set_marks_its_listed_cases_and_again_unmarks_them(make_listed_project: Any) -> None:
    project = make_listed_project(["a1", "b1", "a2"])
    project.browser.filter("a")
    project.browser.set_cursor(1)

    project.browser.toggle_mark()
    assert project.list_marked_ids() == ["a1", "a2"]
    project.browser.toggle_mark()
    assert project.list_marked_ids() == []


def test_every_listed_case_is_marked_and_marks_are_cleared(make_listed_project: Any) -> None:
    project = make_listed_project(["a", "b"])

    project.browser.mark_listed()
    assert project.list_marked_ids() == ["a", "b"]
    project.browser.marks.clear()
    assert project.list_marked_ids() == []


def test_a_removed_case_is_no_longer_marked(make_listed_project: Any) -> None:
    project = make_listed_project(["a", "b"])
    project.browser.mark_listed()

    project.list_cases("b")

    assert project.list_marked_ids() == ["b"]


def test_run_selected_runs_the_marked_cases_wherever_the_cursor_is(make_listed_project: Any) -> None:
    project = make_listed_project(["a", "b", "c"])
    project.select("a")
    assert project.state.select_row_cases(project.state.selected_key) == [Selection(eval_set=SET, cases=("a",))]

    project.browser.marks.add([project.key("c"), project.key("b")])

    assert project.state.select_row_cases(project.state.selected_key) == [Selection(eval_set=SET, cases=("c", "b"))]


def test_run_all_runs_the_listed_cases_or_whole_sets_without_a_filter(make_listed_project: Any) -> None:
    project = make_listed_project(["a", "b", "c"])
    assert project.state.select_all_cases() == [Selection(eval_set=SET)]

    project.browser.filter("b")

    assert project.state.select_all_cases() == [Selection(eval_set=SET, cases=("b",))]


def test_run_failed_is_limited_to_marked_or_else_to_listed_cases(make_listed_project: Any) -> None:
    project = make_listed_project(["a", "b", "c"])
    project.store(a=CaseStatus.FAILED, b=CaseStatus.ERROR, c=CaseStatus.PASSED)
    assert project.state.select_failed_cases() == [Selection(eval_set=SET, cases=("a", "b"))]

    project.browser.filter("b")
    assert project.state.select_failed_cases() == [Selection(eval_set=SET, cases=("b",))]
    project.browser.marks.add([project.key("a"), project.key("c")])
    assert project.state.select_failed_cases() == [Selection(eval_set=SET, cases=("a",))]


def test_a_verdict_is_stale_while_the_case_or_its_criteria_differ(make_listed_project: Any, make: Any) -> None:
    project = make_listed_project(["a"])
    case, key = make.case("a", make.turn("Hi", "Hello")), project.key("a")
    project.store(a=CaseStatus.PASSED)
    assert not project.browser.freshness.is_stale(key)

    project.read(case, hashes=("e", "new"))
    assert project.browser.freshness.is_stale(key)
    assert project.browser.freshness.count_stale("home", SET) == project.browser.freshness.count_stale("home", "") == 1

    project.read(case, hashes=("e", "old"))
    assert not project.browser.freshness.is_stale(key)
    assert project.browser.freshness.count_stale("home", SET) == 0


def test_a_run_makes_a_stale_verdict_current_until_the_next_edit(make_listed_project: Any, make: Any) -> None:
    project = make_listed_project(["a"])
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


def test_a_stale_verdict_stays_stale_if_its_rerun_is_cancelled(make_listed_project: Any, make: Any) -> None:
    project = make_listed_project(["a"])
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
def test_filtering_sorting_and_moving_keep_the_rows_consistent(
    ids: list[str], text: str, order: Order, moves: list[int]
) -> None:
    browser = Browser(StatusBoard())
    keys = [CaseKey(target="t", eval_set="s.json", eval_id=eval_id) for eval_id in ids]
    browser.replace_sets(["t"], [ListedSet("s.json", "t", tuple(map(make_case_row, keys)))])
    for step in moves:
        browser.move_cursor(step)
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


def test_turns_are_counted_by_set_and_agent_and_follow_edits_and_removals(make_listed_project: Any, make: Any) -> None:
    project = make_listed_project(["a", "b"])
    project.read(make.case("a", make.turn("x", "y")), make.case("b", make.turn("x", "y"), make.turn("x", "y")))
    assert project.browser.count_turns("home", "") == (2, 3, 0)
    assert project.browser.count_turns("home", "other.evalset.json") == (0, 0, 0)

    scenario = {"starting_prompt": "Hi", "conversation_plan": "Ask."}
    project.read(make.case("b", conversation=None, conversation_scenario=scenario))
    assert project.browser.count_turns("home", SET) == (2, 1, 1)

    project.browser.update_set(ListedSet(SET, "home", (make_case_row(make.key("b")),)))
    assert project.browser.count_turns("home", SET) == (1, 0, 1)
