"""Layout of blocks as lines: widths in cells, no text lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from workbench.tui.state.text_layout import (
    MOST_CHARACTERS,
    Block,
    ColumnHeadings,
    Line,
    Paragraph,
    RankedPart,
    Side,
    SideBySide,
    Style,
    StyledText,
    TrackMark,
    add_fitting,
    cut_line,
    cut_parts,
    cut_to_rows,
    draw_track,
    fit_parts,
    render_blocks,
    safe,
    safe_line,
    shorten,
    shorten_name,
    wrap,
)

_TEXTS = st.text(st.characters(codec="utf-8"), max_size=200).map(safe)


def join_text(line: Line) -> str:
    return "".join(piece.text for piece in line)


def render(*blocks: Block, width: int, side_by_side: bool = True) -> list[str]:
    return [join_text(line).rstrip() for line in render_blocks(blocks, width=width, side_by_side=side_by_side)]


def make_sides(expected: str | None, actual: str | None, *, differs: bool) -> SideBySide:
    sides = [None if text is None else Side((StyledText(text),)) for text in (expected, actual)]
    return SideBySide(sides[0], sides[1], differs)


@given(_TEXTS, st.integers(-2, 60), st.integers(0, 6))
def test_wrapping_loses_only_blanks_and_line_feeds_at_line_breaks(text: str, width: int, hang: int) -> None:
    lines = [text[start:end] for start, end in wrap(text, width, hang=hang)]

    assert "".join(lines).replace(" ", "") == text.replace("\n", "").replace(" ", "")


@given(_TEXTS, st.integers(0, 8), st.booleans())
def test_blocks_are_laid_out_however_narrow_the_pane(text: str, width: int, side_by_side: bool) -> None:
    paragraph = Paragraph.from_text(text, indent=4, hang=2)
    sides: list[Block] = [make_sides(text, None, differs=True), ColumnHeadings("EXPECTED", "ACTUAL")]

    lines = render_blocks([paragraph], width=width, side_by_side=side_by_side)

    assert "".join(map(join_text, lines)).replace(" ", "") == text.replace("\n", "").replace(" ", "")
    assert render_blocks(sides, width=width, side_by_side=side_by_side)


@given(_TEXTS, _TEXTS, st.integers(8, 120), st.booleans(), st.booleans())
def test_no_line_is_wider_than_the_pane(one: str, other: str, width: int, side_by_side: bool, differs: bool) -> None:
    blocks: list[Any] = [
        Paragraph.from_text(one, indent=4),
        make_sides(one, other, differs=differs),
        ColumnHeadings("EXPECTED", "ACTUAL"),
    ]

    lines = render_blocks(blocks, width=width, side_by_side=side_by_side)

    assert max(cell_len(join_text(line)) for line in lines) <= width


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one two three", ["one two", "three"]),
        ("unbreakable", ["unbreak", "able"]),
        ("打开卧室的灯", ["打开卧", "室的灯"]),
        ("a 打开卧室", ["a 打开", "卧室"]),
        ("x\n\ny", ["x", "", "y"]),
        ("", [""]),
    ],
)
def test_lines_break_at_blanks_and_between_east_asian_characters(text: str, lines: list[str]) -> None:
    assert [text[start:end] for start, end in wrap(text, 7)] == lines


def test_a_comparison_is_broken_only_if_it_is_wider_than_a_line() -> None:
    def list_lines(text: str, width: int) -> list[str]:
        return [text[start:end].strip() for start, end in wrap(text, width)]

    text = "response 0.50 < 0.80, calls 1.00 ≥ 1.00"
    assert list_lines(text, 18) == ["response", "0.50 < 0.80, calls", "1.00 ≥ 1.00"]
    assert list_lines("0.50 < 0.80", 7) == ["0.50 <", "0.80"]


def test_differences_are_marked_on_both_sides() -> None:
    assert render(make_sides("lamp", "stove", differs=True), width=30) == ["- lamp        │ + stove"]


def test_in_one_column_the_expected_comes_before_the_actual() -> None:
    assert render(make_sides("lamp", "stove", differs=True), width=30, side_by_side=False) == ["- lamp", "+ stove"]


def test_one_column_shows_equal_sides_once() -> None:
    assert render(make_sides("lamp", "lamp", differs=False), width=30, side_by_side=False) == ["  lamp"]


def test_columns_stay_aligned_with_unequal_lines_and_wide_characters() -> None:
    shown = render(make_sides("打开卧室的灯", "on", differs=True), width=24)

    assert shown == ["- 打开卧室 │ + on", "  的灯     │"]


@pytest.mark.parametrize("text", ["x" * 400, "打开卧室的灯" * 40], ids=["latin", "cjk"])
def test_both_sides_are_equally_wide_at_every_width(text: str) -> None:
    for width in range(24, 201):
        sides = [line.split("│") for line in render(make_sides(text, text, differs=True), width=width)]

        assert all(expected.strip(" -") == actual.strip(" +") for expected, actual in sides), width
        assert max(cell_len(actual.rstrip()) for _, actual in sides) >= (width - 3) // 2 - 1, width


def test_continued_lines_keep_the_indent() -> None:
    assert render(Paragraph.from_text("one two three", indent=2), width=10) == ["  one two", "  three"]


def test_lines_after_the_first_may_be_indented() -> None:
    block = Paragraph((StyledText("one two three four\nfive"),), hang=2)

    assert render(block, width=10) == ["one two", "  three", "  four", "  five"]


def test_a_line_that_does_not_fit_ends_in_an_ellipsis() -> None:
    line = (StyledText("卧室的灯", Style.STRONG), StyledText(" on"))

    assert join_text(cut_line(line, 11)) == "卧室的灯 on"
    assert join_text(cut_line(line, 6)) == "卧室…"


def test_blanks_at_the_end_of_a_line_are_cut_without_an_ellipsis() -> None:
    assert join_text(cut_line((StyledText("on"), StyledText("    ")), 4)) == "on  "


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (60, "finished  12/12 ✓12  in 9 s  run 2026"),
        (30, "finished  12/12 ✓12  in 9 s"),
        (26, "finished  12/12 ✓12"),
        (12, "finished"),
        (5, "fini…"),
    ],
)
def test_short_parts_of_a_line_are_left_out_as_a_whole(width: int, expected: str) -> None:
    texts = ("finished", "  12/12", " ✓12", "  in 9 s", "  run 2026")

    assert join_text(cut_parts(tuple(StyledText(text) for text in texts), width)) == expected


def test_a_long_part_of_a_line_is_cut_if_enough_of_it_is_seen() -> None:
    line = (StyledText("difference 1 of 3"), StyledText(f"  {'long ' * 10}"))

    assert join_text(cut_parts(line, 40)) == "difference 1 of 3  long long long long …"
    assert join_text(cut_parts(line, 30)) == "difference 1 of 3"


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (45, " one  a long part that may also be cut  three"),
        (40, " one  a long part that may also …  three"),
        (9, " three"),
    ],
)
def test_the_parts_of_least_rank_are_shown_in_their_order(width: int, expected: str) -> None:
    parts = [(1, " one"), (2, "  a long part that may also be cut"), (0, "  three")]

    line = fit_parts([RankedPart(rank, (StyledText(text),)) for rank, text in parts], width)

    assert join_text(line) == expected


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (25, "tool_trajectory_avg_score"),
        (24, "tool_trajectory_…_score"),
        (22, "…_trajectory_avg_score"),
        (16, "tool_…_avg_score"),
        (12, "tool_…_score"),
        (8, "…_score"),
        (5, "to…re"),
    ],
)
def test_a_name_is_shortened_by_whole_words(width: int, expected: str) -> None:
    assert shorten_name("tool_trajectory_avg_score", width) == expected


def test_parts_are_added_up_to_the_first_that_does_not_fit() -> None:
    parts = [(StyledText(f"  {name}"),) for name in ("one", "three", "x")]

    assert join_text(add_fitting((StyledText("0"),), parts, 9)) == "0  one"
    assert join_text(add_fitting((StyledText("0"),), parts, 16)) == "0  one  three  x"


@pytest.mark.parametrize("width", [1, 2, 9, 61])
def test_a_long_message_keeps_its_start_and_end_in_its_rows(width: int) -> None:
    for text in ("error: " + "打开卧室的灯 " * 40 + "do this", "x" * 300, "one two"):
        rows = cut_to_rows(text, width, rows=2).split("\n")

        assert len(rows) <= 2 and all(cell_len(row) <= max(width, 2) for row in rows)
        if width == 61:
            assert rows[0].startswith(text[:6]) and rows[-1].endswith(text[-7:])
    assert cut_to_rows("one two\n three", 9, rows=2) == "one two\nthree"


def test_control_characters_are_made_visible() -> None:
    assert safe("a\x1b[31mb\tc\r\nd") == "a␛[31mb c\nd"
    assert safe_line("x [/foo]\n\x9b1m[bold]") == "x [/foo] \\x9b1m[bold]"


def test_a_text_too_long_to_show_says_how_much_is_missing() -> None:
    text = safe("x" * (MOST_CHARACTERS + 1_234))

    assert text.endswith("… 1,234 more characters not shown")


@pytest.mark.parametrize("width", range(24))
def test_a_shortened_text_keeps_both_ends_within_its_width(width: int) -> None:
    shown = {shorten(f"case_{number:05d}_打开卧室的灯_{number}", width) for number in (1, 2)}

    assert all(cell_len(text) <= width for text in shown)
    assert len(shown) == 2 or width < 4


def test_a_text_that_fits_is_not_shortened() -> None:
    assert shorten("case_00001", 10) == "case_00001"
    assert shorten("case_of_this_set_00001", 12) == "case…t_00001"


def test_a_track_is_heavy_where_the_band_is_and_later_marks_cover_earlier_ones() -> None:
    marks = [TrackMark(0.5, "┃", Style.STRONG), TrackMark(1.4, "●", Style.KEY), TrackMark(0.5, "┿", Style.FAILED)]

    line = draw_track(11, marks=marks, find_band=lambda place: Style.PASSED if place > 0.75 else None)

    assert join_text(line) == "─────┿──━━●"
    assert [piece.style for piece in line] == [Style.MUTED, Style.FAILED, Style.MUTED, Style.PASSED, Style.KEY]
