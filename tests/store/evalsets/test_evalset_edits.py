"""Edits of eval sets as steps, and undo."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.store.conftest import COMMENTED
from workbench.store.errors import StoreError
from workbench.store.evalsets.evalset_document import EvalSetDocument

FIRST_TEXT = ("conversation", 0, "user_content", "parts", 0, "text")


def test_moved_cases_take_their_comments_along(write_file: Callable[..., Path]) -> None:
    document = EvalSetDocument.open(write_file(COMMENTED))

    document.move_case(0, 2)

    text = document.content().decode()
    assert [entry.eval_id for entry in document.entries] == ["b", "c", "a"]
    assert '// about a\n    {"eval_id": "a", "conversation": []} // trailing a' in text
    assert '{"eval_id": "c", "conversation": []}, // trailing c' in text


def test_every_edit_can_be_undone_and_redone(copy_eval_set: Callable[[str], Path]) -> None:
    document = EvalSetDocument.open(copy_eval_set("comments.evalset.json"))
    contents = [document.content()]
    edits: tuple[Callable[[], object], ...] = (
        lambda: document.set_value(FIRST_TEXT, "x", case=0),
        lambda: document.duplicate_case(0, eval_id="copy"),
        lambda: document.remove_case(0),
        lambda: document.move_case(0, 1),
        lambda: document.set_case_text(0, '{"eval_id": "t", "conversation": [],} // done'[:-8]),
        lambda: document.set_value(("name",), "n"),
    )
    for edit in edits:
        edit()
        contents.append(document.content())

    for content in reversed(contents[:-1]):
        assert document.undo() is not None
        assert document.content() == content
    assert document.undo() is None and not document.is_dirty
    for content in contents[1:]:
        assert document.redo() is not None
        assert document.content() == content
    assert document.redo() is None and document.is_dirty


def test_a_step_is_undone_as_a_whole_and_rolled_back_on_failure(copy_eval_set: Callable[[str], Path]) -> None:
    document = EvalSetDocument.open(copy_eval_set("kettle.evalset.json"))
    old = document.content()

    with document.step("accept"):
        document.set_value(FIRST_TEXT, "x", case=0)
        document.set_value(FIRST_TEXT, "y", case=1)
    assert document.undo_label == "accept"
    document.undo()
    assert document.content() == old
    with pytest.raises(StoreError), document.step("accept"):
        document.set_value(FIRST_TEXT, "x", case=0)
        document.remove_value(("no_such",), case=0)

    assert document.content() == old
    assert document.undo_label is None


def test_an_edit_that_changes_nothing_is_not_a_step(copy_eval_set: Callable[[str], Path]) -> None:
    document = EvalSetDocument.open(copy_eval_set("kettle.evalset.json"))

    document.set_value(("conversation",), document.raw_case(1)["conversation"], case=1)

    assert document.undo_label is None and not document.is_dirty


def test_many_cases_are_removed_as_one_step(tmp_path: Path) -> None:
    path = tmp_path / "a.evalset.json"
    cases = [{"eval_id": name, "conversation": []} for name in "abcd"]
    path.write_text(json.dumps({"eval_set_id": "a", "eval_cases": cases}, indent=2))
    document, one_by_one = EvalSetDocument.open(path), EvalSetDocument.open(path)
    before = document.content()

    document.remove_cases([2, 0])

    one_by_one.remove_case(2)
    one_by_one.remove_case(0)
    assert document.content() == one_by_one.content() != before
    assert document.undo() == "remove a, c" and document.content() == before
