"""Two versions of a set as a text diff."""

from __future__ import annotations

from workbench.engine.set_files import VersionPart, Versions
from workbench.store.evalsets.new_evalsets import CaseDifference
from workbench.tui.state.diff_state import find_merge_mark, merged_text, version_blocks
from workbench.tui.state.text_layout import ColumnHeadings, Paragraph, SideBySide, render_blocks


def make_versions(ours: str, theirs: str, *, title: str = "a") -> Versions:
    return Versions(
        ours=ours.encode(),
        theirs=theirs.encode(),
        differences=(CaseDifference(eval_id=title, occurrence=0, how="changed"),),
        parts=(VersionPart(title=title, ours=ours, theirs=theirs),),
    )


def render_versions(two: Versions, *, width: int = 80, side_by_side: bool = False) -> list[str]:
    lines = render_blocks(version_blocks(two, ours="mine", theirs="disk"), width=width, side_by_side=side_by_side)
    return ["".join(piece.text for piece in line).rstrip() for line in lines]


def test_differences_are_marked_and_equal_lines_left_out() -> None:
    same = [f"line {number}" for number in range(20)]
    two = make_versions("\n".join([*same, "ours", "end"]), "\n".join([*same, "theirs", "end"]))

    text = render_versions(two)

    assert "- theirs" in text and "+ ours" in text
    assert "  line 19" in text and "  line 0" not in text
    assert "  … 18 lines are the same" in text
    assert text[0] == "1 case different: a (changed)"


def test_wide_screens_show_the_sides_side_by_side() -> None:
    (line,) = [line for line in render_versions(make_versions("ours", "theirs"), side_by_side=True) if "ours" in line]
    assert line.index("theirs") < line.index("│") < line.index("ours")


def test_markup_and_control_characters_are_shown_as_text() -> None:
    text = "\n".join(render_versions(make_versions("[bold]x\x1b[31m", "[/b]", title="[red]\n")))
    assert "[bold]x" in text and "[/b]" in text and "\x1b" not in text


def test_a_missing_and_a_broken_file_are_reported() -> None:
    gone = Versions(ours=b"{}", theirs=None, differences=None, parts=(), problem="the file no longer exists")
    assert render_versions(gone)[0] == "On disk the file no longer exists."


def test_equal_versions_are_reported_as_equal() -> None:
    same = Versions(ours=b"x", theirs=b"x", differences=(), parts=())
    assert render_versions(same)[0] == "Both versions are the same."


def test_a_huge_difference_is_cut_with_a_note() -> None:
    ours, theirs = ("\n".join(f"{side} {number}" for number in range(20_000)) for side in ("o", "t"))

    blocks = version_blocks(make_versions(ours, theirs), ours="mine", theirs="disk")

    assert 1_000 < len(blocks) < 2_000
    assert isinstance(blocks[-1], Paragraph) and "your editor shows all" in blocks[-1].pieces[0].text
    assert sum(isinstance(block, ColumnHeadings) for block in blocks) == 1
    assert all(block.differs for block in blocks if isinstance(block, SideBySide))


def test_merged_text_keeps_equal_parts_to_the_byte() -> None:
    text = merged_text(make_versions("a\r\nours\r\nb\n", "a\r\ntheirs\r\nb\n"), ours="mine", theirs="disk")

    assert text == "a\r\n<<<<<<< mine\nours\r\n=======\ntheirs\r\n>>>>>>> disk\nb\n"
    assert (find_merge_mark(text) or "").startswith("line 2: remove the mark <<<<<<<")
    assert find_merge_mark("a\r\nours\r\nb\n") is None
