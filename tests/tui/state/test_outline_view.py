"""The outline on the screen: texts wrapped and shortened, the cursor kept, edits and drafts marked."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.tui.state.cases import CASES, apply_to_data
from workbench.model.identity import CaseKey
from workbench.tui.state.case_edits import MoveItem, RemoveValue, SetValue, find_slot
from workbench.tui.state.case_outline import OutlineRow, case_rows
from workbench.tui.state.editor_state import CaseEditor, Edited, OpenedDocument, changed_places, find_edited
from workbench.tui.state.outline_view import MOST_LINES, OutlineView

KEY = Edited("a.evalset.json", CaseKey(target="t", eval_set="a.evalset.json", eval_id="x", occurrence=0))


def make_turn(text: str) -> dict[str, Any]:
    return {"user_content": {"parts": [{"text": text}]}}


def make_case(*texts: str) -> dict[str, Any]:
    return {"eval_id": "x", "conversation": [make_turn(text) for text in texts]}


def make_opened_case(data: Any, *, is_changed: bool = False) -> OpenedDocument:
    return OpenedDocument(edited=KEY, index=0, data=data, rows=case_rows(data), revision=1, is_changed=is_changed)


def render_lines(view: OutlineView, width: int) -> list[str]:
    view.fit(width)
    return ["".join(piece.text for piece in view.line(index, width)) for index in range(len(view))]


@settings(max_examples=60, deadline=None)
@given(CASES, st.integers(30, 120))
def test_any_case_can_be_drawn_at_any_width(case: Any, width: int) -> None:
    view = OutlineView()
    view.show(case_rows(case))

    lines = render_lines(view, width)

    assert len(lines) >= len(view.rows)
    assert all("\n" not in line and "\x1b" not in line for line in lines)


def test_a_long_text_wraps_and_counts_the_characters_left_out() -> None:
    view = OutlineView()
    view.show(case_rows(make_case("word " * 10_000)))

    lines = render_lines(view, 60)

    assert all(cell_len(line) <= 60 for line in lines)
    assert len(lines) == 2 + MOST_LINES + 1
    assert lines[-1].strip().startswith("… 49,") and lines[-1].endswith("more characters")


def test_a_row_of_several_lines_is_one_row_for_the_cursor() -> None:
    view = OutlineView()
    view.show(case_rows(make_case("a\nb\nc", "d")))
    view.fit(60)

    view.move_to_line(4)
    assert view.row is not None and view.row.value == "a\nb\nc"
    view.move(1)
    assert view.row.label == "turn 2"
    view.move_to_line(10_000)
    assert view.row.value == "d"
    view.move(-10_000)
    assert view.row.label == "eval id"


@pytest.mark.parametrize(
    ("change", "value"),
    [
        (lambda data: data["conversation"].insert(0, make_turn("new")), "b"),
        (lambda data: data["conversation"].pop(0), "b"),
        (lambda data: data["conversation"].reverse(), "b"),
        (lambda data: data["conversation"][1]["user_content"]["parts"][0].update(text="other"), "other"),
        (lambda data: data["conversation"][1].update(user_content=None), None),
    ],
)
def test_the_cursor_stays_on_its_row_when_the_file_changes(change: Any, value: Any) -> None:
    data = make_case("a", "b", "c")
    view = OutlineView()
    view.show(case_rows(data))
    view.select(("conversation", 1, "user_content"))
    after = copy.deepcopy(data)
    change(after)

    view.show(case_rows(after))

    assert view.row is not None
    assert view.row.value == value


def find_marked_lines(editor: CaseEditor, mark: str) -> list[str]:
    editor.view.fit(80)
    lines = ("".join(piece.text for piece in editor.view.line(index, 80)) for index in range(len(editor.view)))
    return [line[1:].strip() for line in lines if line.startswith(mark)]


def test_rows_with_unsaved_edits_are_marked() -> None:
    editor = CaseEditor()
    editor.open(make_opened_case(make_case("a", "b")))

    editor.open(make_opened_case(make_case("a", "new", "b, too"), is_changed=True))
    assert find_marked_lines(editor, "*") == ["user  new", "turn 3", "user  b, too"]

    editor.open(make_opened_case(make_case("a", "new", "b, too")))
    assert find_marked_lines(editor, "*") == []


def test_inserting_marks_only_the_new_item() -> None:
    old = make_case("a", "b", "c")

    assert changed_places(old, make_case("new", "a", "b", "c")) == {("conversation", 0)}
    assert changed_places(old, make_case("a", "c")) == frozenset()
    assert changed_places({"a": 1}, {"a": True}) == {("a",)}
    assert changed_places({"a": {"b": 1}}, {"a": {}}) == {("a",)}


def test_a_draft_survives_other_cases_and_is_marked() -> None:
    editor = CaseEditor()
    first = make_opened_case(make_case("a", "b"))
    editor.open(first)
    editor.begin(find_slot(find_row(first, "b"), first.data))
    editor.set_text("typed")

    other = Edited("a.evalset.json", CaseKey(target="t", eval_set="a.evalset.json", eval_id="y", occurrence=0))
    editor.open(
        OpenedDocument(
            edited=other, index=1, data=make_case("z"), rows=case_rows(make_case("z")), revision=1, is_changed=False
        )
    )
    assert editor.typing is None
    assert editor.notes == []
    editor.open(first)

    assert find_marked_lines(editor, "~") == ["user  b"]
    assert editor.begin(find_slot(find_row(first, "b"), first.data)).text == "typed"
    editor.restore()
    assert editor.typing is not None and editor.typing.text == "b"
    assert editor.stop_typing() is False


def test_a_value_that_changes_during_typing_is_noticed() -> None:
    editor = CaseEditor()
    opened_case = make_opened_case(make_case("a"))
    editor.open(opened_case)
    editor.begin(find_slot(find_row(opened_case, "a"), opened_case.data))
    editor.set_text("typed")
    assert not editor.was_changed_meanwhile

    editor.open(make_opened_case(make_case("other")))

    assert editor.was_changed_meanwhile
    assert editor.typing is not None and editor.typing.text == "typed"


def test_after_removing_the_last_item_the_one_before_is_selected() -> None:
    editor = CaseEditor()
    editor.open(make_opened_case(make_case("a", "b")))
    edit = RemoveValue(("conversation", 1))
    editor.record_edit(KEY, None, edit, now=KEY)

    editor.open(make_opened_case(make_case("a"), is_changed=True))

    assert editor.row is not None and editor.row.label == "turn 1"


def test_drafts_follow_a_case_to_its_new_id() -> None:
    editor = CaseEditor()
    opened_case = make_opened_case(make_case("a"))
    editor.open(opened_case)
    editor.begin(find_slot(find_row(opened_case, "a"), opened_case.data))
    editor.set_text("typed")
    editor.stop_typing()
    edit = SetValue(("eval_id",), "z")
    new_key = find_edited(opened_case, edit)
    assert new_key.case is not None and new_key.case.eval_id == "z"

    editor.record_edit(KEY, None, edit, now=new_key)
    data = apply_to_data(edit, opened_case.data)
    editor.open(OpenedDocument(edited=new_key, index=0, data=data, rows=case_rows(data), revision=2, is_changed=True))

    assert find_marked_lines(editor, "~") == ["user  a"]
    assert find_marked_lines(editor, "*") == ["eval id  z"]


def test_an_edit_that_is_not_of_the_id_keeps_the_key_of_the_case() -> None:
    opened_case = make_opened_case(make_case("a", "b"))

    assert find_edited(opened_case, MoveItem(("conversation",), 0, 1)) == KEY
    assert find_edited(opened_case, SetValue(("name",), "z")) == KEY


def find_row(opened_case: OpenedDocument, value: str) -> OutlineRow:
    return next(row for row in opened_case.rows if row.value == value)
