"""The rows of the eval-set tree."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from workbench.tui.state.browser_list import BrowserRow, ListedSet, RowKind, WordSearch, make_case_row
from workbench.tui.state.browser_state import Browser
from workbench.tui.state.case_status import StatusBoard


@pytest.fixture
def browser(make: Any) -> Browser:
    """Return a browser with two agents, three sets and six cases."""
    browser = Browser(StatusBoard())
    sets = [
        ListedSet("a/one.evalset.json", "alpha", make_rows(make, "a/one.evalset.json", "alpha", "x", "y", "z")),
        ListedSet("a/two.evalset.json", "alpha", make_rows(make, "a/two.evalset.json", "alpha", "p")),
        ListedSet("b/one.test.json", "beta", make_rows(make, "b/one.test.json", "beta", "q", "r")),
    ]
    browser.replace_sets(["alpha", "beta"], sets)
    for listed_set in sets:
        browser.update_set(listed_set)
    return browser


def make_rows(make: Any, eval_set: str, target: str, *ids: str) -> tuple[BrowserRow, ...]:
    return tuple(make_case_row(make.key(name, eval_set=eval_set, target=target)) for name in ids)


def list_labels(browser: Browser) -> list[str]:
    return ["  " * row.depth + row.label for row in browser.rows]


def test_a_removed_case_is_no_longer_counted_as_stale(browser: Browser, make: Any) -> None:
    listed = browser.get_set("alpha", "a/two.evalset.json")
    assert listed is not None
    for key in listed.case_keys:
        browser.freshness.set_stale_reasons(key, ["the code changed"])
    assert browser.freshness.count_stale("alpha", listed.relative) == 1

    browser.update_set(replace(listed, cases=make_rows(make, listed.relative, "alpha", "renamed")))

    assert browser.freshness.count_stale("alpha", listed.relative) == 0


def test_rows_are_targets_then_their_sets_then_their_cases(browser: Browser) -> None:
    assert list_labels(browser) == [
        "alpha", "  one", "    x", "    y", "    z", "  two", "    p", "beta", "  one", "    q", "    r",
    ]  # fmt: skip


def test_folding_hides_the_children_and_folding_again_goes_up(browser: Browser) -> None:
    browser.set_cursor(2)

    browser.fold()
    assert browser.selected_row is not None
    assert browser.selected_row.label == "one"

    browser.fold()
    assert list_labels(browser)[:3] == ["alpha", "  one", "  two"]
    browser.fold()
    assert browser.cursor == 0
    browser.fold()
    assert list_labels(browser) == ["alpha", "beta", "  one", "    q", "    r"]


def test_unfolding_shows_the_children_and_unfolding_again_goes_down(browser: Browser) -> None:
    browser.toggle_fold()
    assert list_labels(browser)[:2] == ["alpha", "beta"]

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
        ListedSet("a/one.evalset.json", "alpha", make_rows(make, "a/one.evalset.json", "alpha", "x", "new"))
    )

    assert browser.selected_row is not None
    assert browser.selected_row.label == "q"


@pytest.mark.parametrize(("left", "label"), [(("x", "z"), "z"), (("x",), "x"), ((), "one")])
def test_a_removed_case_leaves_the_cursor_on_its_neighbour_or_its_set(
    browser: Browser, make: Any, left: tuple[str, ...], label: str
) -> None:
    browser.select_case(make.key("y", eval_set="a/one.evalset.json", target="alpha"))

    browser.update_set(ListedSet("a/one.evalset.json", "alpha", make_rows(make, "a/one.evalset.json", "alpha", *left)))

    assert browser.selected_row is not None
    assert browser.selected_row.label == label


def test_a_requested_case_is_selected_as_soon_as_it_is_listed(browser: Browser, make: Any) -> None:
    browser.select_when_listed(make.key("new", eval_set="a/one.evalset.json", target="alpha"))
    assert browser.cursor == 0

    browser.update_set(
        ListedSet("a/one.evalset.json", "alpha", make_rows(make, "a/one.evalset.json", "alpha", "x", "new"))
    )
    assert browser.selected_row is not None
    assert browser.selected_row.label == "new"

    browser.set_cursor(0)
    browser.refresh()
    assert browser.cursor == 0


def test_a_requested_set_is_selected_as_soon_as_it_is_listed(browser: Browser) -> None:
    browser.select_when_listed("b/new.evalset.json")

    browser.replace_sets(["alpha", "beta"], [*browser.sets, ListedSet("b/new.evalset.json", "beta")])

    assert browser.selected_row is not None
    assert browser.selected_row.eval_set == "b/new.evalset.json"


def test_selecting_a_case_unfolds_the_rows_that_hide_it(browser: Browser, make: Any) -> None:
    browser.toggle_fold()

    browser.select_case(make.key("z", eval_set="a/one.evalset.json", target="alpha"))

    assert browser.selected_row is not None
    assert browser.selected_row.label == "z"


@pytest.mark.parametrize(
    ("start", "backwards", "expected_id"),
    [("x", False, "z"), ("z", False, "q"), ("q", False, "z"), ("z", True, "q"), ("q", True, "z")],
)
def test_the_search_for_the_next_case_wraps_around(
    browser: Browser, start: str, backwards: bool, expected_id: str
) -> None:
    row = next(row for row in browser.iterate_case_rows() if row.label == start)
    assert row.case is not None
    browser.select_case(row.case)

    key = browser.find_next_case(lambda key: key.eval_id in ("z", "q"), backwards=backwards)

    assert key is not None
    assert key.eval_id == expected_id


def test_from_a_set_the_next_case_may_be_the_first_in_it(browser: Browser) -> None:
    browser.set_cursor(1)

    key = browser.find_next_case(lambda key: key.eval_id in ("x", "q"))

    assert key is not None
    assert key.eval_id == "x"


def test_sets_of_the_same_name_in_one_target_show_their_paths(make: Any) -> None:
    browser = Browser(StatusBoard())
    browser.replace_sets(["a"], [ListedSet("x/s.evalset.json", "a"), ListedSet("y/s.evalset.json", "a")])

    assert [row.label for row in browser.rows] == ["a", "x/s.evalset.json", "y/s.evalset.json"]


def test_sets_without_an_agent_come_last_under_their_own_heading(make: Any) -> None:
    browser = Browser(StatusBoard())
    browser.replace_sets(
        ["a"], [ListedSet("lost.evalset.json", pairing_problem="no agent"), ListedSet("s.evalset.json", "a")]
    )

    assert [(row.label, row.problem) for row in browser.rows] == [
        ("a", ""), ("s", "reading"), ("(no agent found)", ""), ("lost", "no agent"),
    ]  # fmt: skip


def test_external_ids_are_shown_on_one_line_without_control_characters(make: Any) -> None:
    browser = Browser(StatusBoard())
    browser.replace_sets(["a"], [ListedSet("s.evalset.json", "a")])
    browser.update_set(
        ListedSet("s.evalset.json", "a", (*make_rows(make, "s.evalset.json", "a", "a\x1b[31m\nb", "", "[bold]"),))
    )

    assert [row.label for row in browser.iterate_case_rows()] == ["a␛[31m b", "(empty id)", "[bold]"]


def test_a_search_finds_the_same_rows_however_its_words_were_typed() -> None:
    rows = [
        BrowserRow(RowKind.CASE, text, "agent", "a.evalset.json") for text in ("red fox", "red box", "blue fox", "fix")
    ]
    texts = [row.label for row in rows]
    search = WordSearch(rows, texts)
    queries = [("f",), ("fo",), ("fox",), ("fo",), ("fox", "red"), ("fox", "r"), ("x",), (), ("b",), ("zz",), ("z",)]

    found = [[row.label for row in search.find(words)] for words in queries]

    assert found == [[text for text in texts if all(word in text for word in words)] for words in queries]
