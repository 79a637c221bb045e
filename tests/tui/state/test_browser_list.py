"""The rows of the eval-set tree."""

from __future__ import annotations

from typing import Any

import pytest

from workbench.tui.state.browser_list import ListedSet, Row, make_case_row
from workbench.tui.state.browser_state import Browser
from workbench.tui.state.case_status import StatusBoard


@pytest.fixture
def browser(make: Any) -> Browser:
    """Return a browser with two agents, three sets and six cases."""
    browser = Browser(StatusBoard())
    sets = [
        ListedSet("a/one.evalset.json", "alpha", _cases(make, "a/one.evalset.json", "alpha", "x", "y", "z")),
        ListedSet("a/two.evalset.json", "alpha", _cases(make, "a/two.evalset.json", "alpha", "p")),
        ListedSet("b/one.test.json", "beta", _cases(make, "b/one.test.json", "beta", "q", "r")),
    ]
    browser.replace_sets(["alpha", "beta"], sets)
    for listed in sets:
        browser.update_set(listed)
    return browser


def _cases(make: Any, eval_set: str, target: str, *ids: str) -> tuple[Row, ...]:
    return tuple(make_case_row(make.key(name, eval_set=eval_set, target=target)) for name in ids)


def _labels(browser: Browser) -> list[str]:
    return ["  " * row.depth + row.label for row in browser.rows]


def test_rows_are_targets_then_their_sets_then_their_cases(browser: Browser) -> None:
    assert _labels(browser) == [
        "alpha", "  one", "    x", "    y", "    z", "  two", "    p", "beta", "  one", "    q", "    r",
    ]  # fmt: skip


def test_folding_hides_what_is_below_and_folding_again_goes_up(browser: Browser) -> None:
    browser.set_cursor(2)

    browser.fold()
    assert browser.selected_row is not None
    assert browser.selected_row.label == "one"

    browser.fold()
    assert _labels(browser)[:3] == ["alpha", "  one", "  two"]
    browser.fold()
    assert browser.cursor == 0
    browser.fold()
    assert _labels(browser) == ["alpha", "beta", "  one", "    q", "    r"]


def test_unfolding_shows_what_is_below_and_unfolding_again_goes_in(browser: Browser) -> None:
    browser.toggle_fold()
    assert _labels(browser)[:2] == ["alpha", "beta"]

    browser.unfold()
    browser.unfold()

    assert browser.selected_row is not None
    assert browser.selected_row.label == "one"


def test_the_cursor_stays_within_the_rows(browser: Browser) -> None:
    browser.move_cursor(-5)
    assert browser.cursor == 0
    browser.move_cursor(500)
    assert browser.cursor == len(browser.rows) - 1


def test_the_cursor_stays_on_its_case_when_rows_before_it_come_and_go(browser: Browser, make: Any) -> None:
    browser.select_case(make.key("q", eval_set="b/one.test.json", target="beta"))

    browser.update_set(
        ListedSet("a/one.evalset.json", "alpha", _cases(make, "a/one.evalset.json", "alpha", "x", "new"))
    )

    assert browser.selected_row is not None
    assert browser.selected_row.label == "q"


@pytest.mark.parametrize(("left", "label"), [(("x", "z"), "z"), (("x",), "x"), ((), "one")])
def test_a_case_that_is_gone_leaves_the_cursor_on_its_neighbour_or_its_set(
    browser: Browser, make: Any, left: tuple[str, ...], label: str
) -> None:
    browser.select_case(make.key("y", eval_set="a/one.evalset.json", target="alpha"))

    browser.update_set(ListedSet("a/one.evalset.json", "alpha", _cases(make, "a/one.evalset.json", "alpha", *left)))

    assert browser.selected_row is not None
    assert browser.selected_row.label == label


def test_a_case_that_is_expected_is_gone_to_when_it_is_listed(browser: Browser, make: Any) -> None:
    browser.select_when_listed(make.key("new", eval_set="a/one.evalset.json", target="alpha"))
    assert browser.cursor == 0

    browser.update_set(
        ListedSet("a/one.evalset.json", "alpha", _cases(make, "a/one.evalset.json", "alpha", "x", "new"))
    )
    assert browser.selected_row is not None
    assert browser.selected_row.label == "new"

    browser.set_cursor(0)
    browser.refresh()
    assert browser.cursor == 0


def test_a_set_that_is_expected_is_gone_to_when_it_is_listed(browser: Browser) -> None:
    browser.select_when_listed("b/new.evalset.json")

    browser.replace_sets(["alpha", "beta"], [*browser.sets, ListedSet("b/new.evalset.json", "beta")])

    assert browser.selected_row is not None
    assert browser.selected_row.eval_set == "b/new.evalset.json"


def test_going_to_a_case_unfolds_what_hides_it(browser: Browser, make: Any) -> None:
    browser.toggle_fold()

    browser.select_case(make.key("z", eval_set="a/one.evalset.json", target="alpha"))

    assert browser.selected_row is not None
    assert browser.selected_row.label == "z"


@pytest.mark.parametrize(
    ("start", "backwards", "found"),
    [("x", False, "z"), ("z", False, "q"), ("q", False, "z"), ("z", True, "q"), ("q", True, "z")],
)
def test_the_next_case_is_looked_for_all_the_way_round(
    browser: Browser, start: str, backwards: bool, found: str
) -> None:
    row = next(row for row in browser.iterate_case_rows() if row.label == start)
    assert row.case is not None
    browser.select_case(row.case)

    key = browser.find_next_case(lambda key: key.eval_id in ("z", "q"), backwards=backwards)

    assert key is not None
    assert key.eval_id == found


def test_from_a_set_the_next_case_may_be_the_first_in_it(browser: Browser) -> None:
    browser.set_cursor(1)

    key = browser.find_next_case(lambda key: key.eval_id in ("x", "q"))

    assert key is not None
    assert key.eval_id == "x"


def test_sets_of_one_name_in_one_target_are_told_apart_by_their_paths(make: Any) -> None:
    browser = Browser(StatusBoard())
    browser.replace_sets(["a"], [ListedSet("x/s.evalset.json", "a"), ListedSet("y/s.evalset.json", "a")])

    assert [row.label for row in browser.rows] == ["a", "x/s.evalset.json", "y/s.evalset.json"]


def test_sets_without_an_agent_come_last_under_a_heading_of_their_own(make: Any) -> None:
    browser = Browser(StatusBoard())
    browser.replace_sets(
        ["a"], [ListedSet("lost.evalset.json", pairing_problem="no agent"), ListedSet("s.evalset.json", "a")]
    )

    assert [(row.label, row.problem) for row in browser.rows] == [
        ("a", ""), ("s", "reading"), ("(no agent found)", ""), ("lost", "no agent"),
    ]  # fmt: skip


def test_ids_from_outside_are_shown_on_one_line_without_control_characters(make: Any) -> None:
    browser = Browser(StatusBoard())
    browser.replace_sets(["a"], [ListedSet("s.evalset.json", "a")])
    browser.update_set(
        ListedSet("s.evalset.json", "a", (*_cases(make, "s.evalset.json", "a", "a\x1b[31m\nb", "", "[bold]"),))
    )

    assert [row.label for row in browser.iterate_case_rows()] == ["a␛[31m b", "(empty id)", "[bold]"]
