"""Typed letters against names, rows that follow them, and the groups of the palette."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from workbench.tui.state.browser_list import ListedSet, make_case_row
from workbench.tui.state.browser_state import Browser
from workbench.tui.state.case_filter import parse_query
from workbench.tui.state.case_status import StatusBoard
from workbench.tui.state.finder import (
    FilteredRows,
    Finder,
    FinderKind,
    FinderPattern,
    Group,
    Item,
    Key,
    Rank,
    fold,
    make_project_groups,
    make_tool_filter,
    make_tool_group,
)
from workbench.tui.state.text_layout import Line, ListRows, Style, StyledText


def find_rank(typed: str, name: str, detail: str = "") -> Rank | None:
    return FinderPattern(typed).rank(fold(name), fold(detail))


def read(line: Line) -> str:
    return "".join(piece.text for piece in line)


@pytest.mark.parametrize(
    ("typed", "name", "rank"),
    [
        ("lamp", "Lamp", Rank.SAME),
        ("LAMP", "lamp_off", Rank.PREFIX),
        ("off", "lamp_off", Rank.WORD_START),
        ("amp", "lamp_off", Rank.INSIDE),
        ("lo", "lamp_off", Rank.INITIALS),
        ("laof", "lamp_off", Rank.INITIALS),
        ("lmp", "lamp_off", Rank.SCATTERED),
        ("off lamp", "lamp_off", Rank.WORD_START),
        ("灯", "两盏灯", Rank.INSIDE),
        ("pl", "lamp", None),
        ("lamp on", "lamp_off", None),
        ("lz", "l" + "a" * 60 + "z", None),
    ],
)
def test_a_name_is_ranked_by_how_well_it_matches(typed: str, name: str, rank: Rank | None) -> None:
    assert find_rank(typed, name) is rank


def test_a_word_of_the_details_matches_after_the_names() -> None:
    assert find_rank("case", "filter", "list only cases") is Rank.DETAIL
    assert find_rank("filter case", "filter", "list only cases") is Rank.DETAIL
    assert find_rank("fr", "filter", "front") is Rank.DETAIL
    assert find_rank("fr", "filter") is Rank.SCATTERED


@pytest.mark.parametrize(
    ("typed", "name", "marked"),
    [
        ("off", "lamp_off", "off"),
        ("of", "roof_off", "of"),
        ("lo", "lamp_off", "lo"),
        ("lmp", "lamp_off", "lmp"),
        ("x", "lamp_off", ""),
    ],
)
def test_the_matching_letters_are_marked(typed: str, name: str, marked: str) -> None:
    positions = FinderPattern(typed).find(fold(name))

    assert "".join(name[place] for place in sorted(positions)) == marked


def test_starts_of_words_are_marked_before_other_letters() -> None:
    assert sorted(FinderPattern("of").find("roof_off")) == [5, 6]
    assert sorted(FinderPattern("ro").find("rrr_off")) == [0, 4]


def test_letters_with_another_length_in_lower_case_keep_their_positions() -> None:
    assert len(fold("STRAßE İ")) == len("STRAßE İ")
    assert FinderPattern("e").find(fold("ßE")) == {1}


# Rows that follow a typed text.


class Rows(ListRows):
    def __init__(self, *names: str) -> None:
        self.names = list(names)

    def __len__(self) -> int:
        return len(self.names)

    def line(self, index: int, width: int) -> Line:
        return (StyledText(self.names[index][:width]),)

    def can_select(self, index: int) -> bool:
        return not self.names[index].startswith("--")


def list_rows(rows: FilteredRows) -> list[str]:
    return [read(rows.line(index, 40)) for index in range(len(rows))]


def test_rows_that_match_keep_their_order_and_the_cursor_stays_on_one_of_them() -> None:
    rows = Rows("--lamps", "lamp_off", "fan", "lamp_on")
    filtered = FilteredRows(rows)
    rows.move_to(2)

    filtered.filter("lamp")

    assert list_rows(filtered) == ["lamp_off", "lamp_on"]
    assert rows.names[rows.cursor] == "lamp_on"
    filtered.move(-1)
    assert (filtered.cursor, rows.cursor) == (0, 1)
    filtered.filter("")
    assert len(filtered) == 4
    assert filtered.cursor == 1


def test_rows_without_a_match_stay_listed() -> None:
    rows = Rows("lamp_off", "fan", "lamp_on")
    filtered = FilteredRows(rows)
    filtered.filter("lamp")

    filtered.filter("lamp zz")

    assert not filtered.is_found
    assert list_rows(filtered) == ["lamp_off", "lamp_on"]


def test_removed_rows_are_no_longer_listed() -> None:
    rows = Rows("lamp_off", "fan", "lamp_on")
    filtered = FilteredRows(rows)
    filtered.filter("lamp_on")

    rows.names.pop()
    assert len(filtered) == 0
    filtered.refresh()

    assert list_rows(filtered) == ["lamp_off", "fan"]


def test_initials_match_a_name_but_not_words_far_apart() -> None:
    filtered = FilteredRows(Rows("set_device_info", "s of d or i"))

    filtered.filter("sdi")

    assert list_rows(filtered) == ["set_device_info"]


# The groups of the palette.


def make_group(kind: FinderKind, *labels: str, detail: str = "", keys: str = "") -> Group:
    return Group.from_items(kind, [Item(kind, (label,), label, detail, keys) for label in labels])


def make_finder(*groups: Group, recent: Sequence[Key] = (), typed: str = "", scope: FinderKind | None = None) -> Finder:
    finder = Finder(recent, scope=scope)
    finder.add(*groups)
    finder.finish()
    finder.search(typed)
    finder.finish()
    return finder


def list_texts(finder: Finder) -> list[str]:
    return [read(finder.line(index, 40)).strip() for index in range(len(finder))]


ACTIONS = make_group(FinderKind.ACTION, "run case", "filter")
CASES = make_group(FinderKind.CASE, "run_lamp", "fan", "lamp")


def test_without_letters_recent_items_come_before_the_actions() -> None:
    finder = make_finder(ACTIONS, CASES, recent=[("Cases", "fan"), ("Actions", "filter"), ("Cases", "gone")])

    assert list_texts(finder) == ["Recent", "fan", "filter", "Actions", "run case"]
    assert finder.selected_item == Item(FinderKind.CASE, ("fan",), "fan")


def test_the_group_with_the_best_match_comes_first_and_equal_ones_in_their_order() -> None:
    assert list_texts(make_finder(ACTIONS, CASES, typed="lamp")) == ["Cases", "lamp", "run_lamp"]
    assert list_texts(make_finder(CASES, ACTIONS, typed="run")) == ["Actions", "run case", "Cases", "run_lamp"]
    better = make_group(FinderKind.THEME, "run")
    assert list_texts(make_finder(ACTIONS, better, typed="run")) == ["Themes", "run", "Actions", "run case"]


def test_the_name_of_a_kind_finds_its_items_letter_by_letter() -> None:
    finder = make_finder(make_group(FinderKind.THEME, "nord", "gruvbox"), make_group(FinderKind.TOOL, "nordic"))
    for end in range(1, len("theme nor") + 1):
        finder.search("theme nor"[:end])
        finder.finish()

    assert list_texts(finder) == ["Themes", "nord"]
    assert list_texts(make_finder(CASES, make_group(FinderKind.EVAL_SET, "a", "b"), typed="set")) == [
        "Eval sets",
        "a",
        "b",
    ]
    assert list_texts(make_finder(CASES, ACTIONS, typed="theme zzz")) == ["no match"]


def test_a_recent_item_is_listed_once_and_first() -> None:
    finder = make_finder(ACTIONS, CASES, recent=[("Cases", "run_lamp")], typed="run")

    assert list_texts(finder) == ["Recent", "run_lamp", "Actions", "run case"]


def test_the_cursor_passes_titles_by() -> None:
    finder = make_finder(ACTIONS, CASES, typed="run")
    finder.move(1)

    assert finder.selected_item == Item(FinderKind.CASE, ("run_lamp",), "run_lamp")


def test_a_group_that_arrives_later_keeps_the_selected_item() -> None:
    finder = make_finder(CASES, typed="run")

    finder.add(make_group(FinderKind.TOOL, "run"))
    finder.finish()

    assert list_texts(finder) == ["Tools", "run", "Cases", "run_lamp"]
    assert finder.selected_item == Item(FinderKind.CASE, ("run_lamp",), "run_lamp")


def test_a_scope_lists_all_items_of_one_kind() -> None:
    finder = Finder(scope=FinderKind.THEME)
    finder.add(ACTIONS, make_group(FinderKind.THEME, "dark", "light"))
    finder.select(("Themes", "light"))
    finder.finish()

    assert list_texts(finder) == ["Themes", "dark", "light"]
    assert finder.selected_item == Item(FinderKind.THEME, ("light",), "light")


def test_many_matches_are_counted_and_more_letters_find_the_others() -> None:
    finder = make_finder(make_group(FinderKind.CASE, *(f"case_{number}" for number in range(1_000))), typed="case")

    assert len(finder) == 102
    assert list_texts(finder)[-1] == "… 900 more"
    for typed in ("case_99", "case_999"):
        finder.search(typed)
        finder.finish()
    assert list_texts(finder) == ["Cases", "case_999"]
    finder.search("case_1")
    finder.finish()
    assert list_texts(finder)[1:3] == ["case_1", "case_10"]


def test_a_search_can_be_divided_and_shows_the_last_rows_until_its_end() -> None:
    finder = make_finder(
        CASES, make_group(FinderKind.TOOL, *(f"tool_{number}" for number in range(5_000))), typed="lamp"
    )
    finder.search("tool_4999")

    steps = 1
    while not finder.step(0.0):
        assert list_texts(finder)[0] == "Cases"
        steps += 1

    assert steps > 10
    assert list_texts(finder) == ["Tools", "tool_4999"]


@pytest.mark.parametrize("width", [20, 36, 76])
def test_keys_are_at_the_right_and_no_line_is_too_wide(width: int) -> None:
    group = make_group(FinderKind.ACTION, "两盏灯两盏灯两盏灯", detail="打开卧室的灯 " * 8, keys="ctrl+p")
    finder = make_finder(group, typed="灯")

    line = finder.line(1, width)

    cells = sum(2 if ord(letter) > 0x2E80 else 1 for letter in read(line))
    assert cells == width - 1  # and a blank at the right
    assert read(line).rstrip().endswith("ctrl+p")
    assert any(piece.style is Style.FOUND and "灯" in piece.text for piece in line)


def test_texts_of_files_are_harmless() -> None:
    key = ("home", "sets/a.evalset.json", "x\x1b[31m[bold]", "0")
    browser = make_browser(key[2])

    (cases, *_) = make_project_groups(browser, None)
    item = cases.make(0)

    assert item.key == key
    assert "\x1b" not in item.label
    assert "[bold]" in item.label
    assert cases.find(key) == item


def make_browser(*ids: str) -> Browser:
    from workbench.model.identity import CaseKey

    path = "sets/a.evalset.json"
    rows = tuple(make_case_row(CaseKey(target="home", eval_set=path, eval_id=name)) for name in ids)
    browser = Browser(StatusBoard())
    browser.replace_sets(["home"], [ListedSet(path, "home", rows)])
    return browser


def test_words_find_cases_and_sets_by_their_folder_but_not_by_what_all_have() -> None:
    groups = list(make_project_groups(make_browser("on", "off"), None))

    assert list_texts(make_finder(*groups, typed="off sets")) == ["Cases", "off  sets/a"]
    assert list_texts(make_finder(*groups, typed="json")) == ["no match"]
    assert list_texts(make_finder(make_tool_group(Counter(["ring"])), typed="case")) == ["no match"]
    assert list_texts(make_finder(*groups, typed="home sets"))[0] == "Eval sets"


def test_sets_name_their_file_and_their_cases() -> None:
    _, sets, agents = make_project_groups(make_browser("on", "off"), None)

    assert sets.make(0) == Item(
        FinderKind.EVAL_SET, ("home", "sets/a.evalset.json"), "a", "home · sets/a.evalset.json · 2 cases"
    )
    assert not agents.names


@pytest.mark.parametrize("name", ["set_device", "set device", 'say "hi there"', "ToolWithCapitals"])
def test_the_filter_of_a_tool_finds_its_name(name: str) -> None:
    query = parse_query(make_tool_filter(name))

    assert not query.words
    assert all(tool in name.casefold() for tool in query.tools)
    assert query.tools


def test_tools_have_the_number_of_cases_that_call_them() -> None:
    group = make_tool_group(Counter(["ring", "light", "light"]))

    assert [group.make(index).detail for index in range(2)] == ["2 cases", "1 case"]


def test_the_detail_of_the_selected_item_is_known_if_its_row_cuts_it() -> None:
    finder = make_finder(
        make_group(FinderKind.ACTION, "run", detail="run the marked cases, else the selected one"), typed="run"
    )

    assert finder.find_cut_detail(76) == ""
    assert finder.find_cut_detail(36) == "run the marked cases, else the selected one"
    assert read(finder.line(1, 36)).rstrip().endswith("…")
    assert read(finder.line(1, 28)).strip() == "run"  # a few letters of a detail say nothing
