"""Editing: new text follows the style of its neighbours, and the rest of the file stays unchanged."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from workbench.store.errors import StoreError
from workbench.store.evalsets.evalset_document import EvalSetDocument

FIRST_TEXT = ("conversation", 0, "user_content", "parts", 0, "text")


def _find_changed_lines(old: bytes, new: bytes) -> list[tuple[bytes, bytes]]:
    before, after = old.split(b"\n"), new.split(b"\n")
    assert len(before) == len(after)
    return [(left, right) for left, right in zip(before, after, strict=True) if left != right]


@pytest.mark.parametrize(
    "name",
    [
        "kettle.evalset.json",
        "ascii_escapes.evalset.json",
        "camel_case_tabs.evalset.json",
        "mixed_crlf_bom.evalset.json",
    ],
)
def test_a_one_word_edit_changes_one_word_of_one_line(copy_eval_set: Callable[[str], Path], name: str) -> None:
    path = copy_eval_set(name)
    old = path.read_bytes()
    document = EvalSetDocument.open(path)

    document.set_value(FIRST_TEXT, "Boil milk.", case=1)
    document.save()

    ((before, after),) = _find_changed_lines(old, path.read_bytes())
    assert after == before.replace(b"water", b"milk")


def test_git_shows_a_one_word_edit_as_one_line(copy_eval_set: Callable[[str], Path]) -> None:
    path = copy_eval_set("comments.evalset.json")
    git = ["git", "-c", "core.autocrlf=false", "diff", "--no-index", "--numstat"]
    copy = path.with_suffix(".old")
    copy.write_bytes(path.read_bytes())
    document = EvalSetDocument.open(path)

    document.set_value(("conversation", 0, "final_response", "parts", 0, "text"), "烧奶中。", case=0)
    document.save()

    numbers = subprocess.run([*git, str(copy), str(path)], capture_output=True, text=True, check=False).stdout
    assert numbers.split("\t")[:2] == ["1", "1"]


def test_a_path_is_found_in_snake_case_and_camel_case(copy_eval_set: Callable[[str], Path]) -> None:
    for name in ("kettle.evalset.json", "camel_case_tabs.evalset.json"):
        for content in ("user_content", "userContent"):
            document = EvalSetDocument.open(copy_eval_set(name))
            document.set_value(("conversation", 0, content, "parts", 0, "text"), "x", case=0)
            assert document.case(0).conversation[0].user_content.text() == "x"


def test_legacy_evals_are_edited_in_their_own_form(copy_eval_set: Callable[[str], Path]) -> None:
    path = copy_eval_set("legacy_evals.evalset.json")
    old = path.read_bytes()
    document = EvalSetDocument.open(path)

    document.set_value(("data", 0, "query"), "Boil milk.", case=0)

    ((before, after),) = _find_changed_lines(old, document.content())
    assert after == before.replace(b"water", b"milk")
    assert document.case(0).conversation[0].user_content.text() == "Boil milk."


def test_an_edit_that_invalidates_a_case_shows_in_its_entry(copy_eval_set: Callable[[str], Path]) -> None:
    document = EvalSetDocument.open(copy_eval_set("kettle.evalset.json"))

    document.set_value(("conversation", 0, "user_content"), 5, case=0)

    assert document.entries[0].problem.found == "5"
    document.undo()
    assert document.entries[0].problem is None
    assert document.find_fault({"eval_id": "a"}).found == "neither"


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda d: d.set_value(("conversation", 9), {}, case=0), r"eval_cases\[0\].conversation: found nothing"),
        (lambda d: d.set_value(("eval_id", "x"), 1, case=0), r"eval_cases\[0\].eval_id"),
        (lambda d: d.set_value(("n",), float("nan"), case=0), "a finite number"),
        (lambda d: d.insert_item(("conversation",), 5, {}, case=0), "found index 5, expected 0 to 1"),
        (lambda d: d.remove_value((), case=0), "found the whole value"),
        (lambda d: d.set_value(("eval_cases",), []), "cases are edited one by one"),
        (lambda d: d.remove_case(3), "found case 3, expected 0 to 2"),
        (lambda d: d.set_case_text(0, '{"eval_id": }'), "line 1, column 13 of the case: found '}', expected a value"),
    ],
)
def test_an_impossible_edit_raises_its_reason_and_changes_nothing(
    copy_eval_set: Callable[[str], Path], edit: Callable[[EvalSetDocument], None], message: str
) -> None:
    document = EvalSetDocument.open(copy_eval_set("kettle.evalset.json"))
    old = document.content()

    with pytest.raises(StoreError, match=message):
        edit(document)

    assert document.content() == old and not document.is_dirty


def test_a_broken_case_can_be_repaired_as_text_and_others_can_be_edited(copy_eval_set: Callable[[str], Path]) -> None:
    path = copy_eval_set("broken_cases.evalset.json")
    document = EvalSetDocument.open(path)

    document.set_value(("note",), "fine", case=0)
    document.set_case_text(2, '{"eval_id": "bad_bracket", "conversation": []}')
    with pytest.raises(StoreError, match="found the end of the case"):
        document.set_value(("note",), "fine", case=5)

    expected = path.read_text().replace('"good", "conversation": []', '"good", "conversation": [], "note": "fine"')
    assert document.content().decode() == expected.replace("[}}", "[]}")
    assert document.entries[2].problem is None


def test_a_list_of_turns_cannot_have_a_second_case(copy_eval_set: Callable[[str], Path]) -> None:
    document = EvalSetDocument.open(copy_eval_set("legacy_turns.test.json"))

    with pytest.raises(StoreError, match="migrate the file"):
        document.insert_case(1, [])
