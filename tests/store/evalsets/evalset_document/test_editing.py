"""Editing: new text follows the style of its neighbours, and the rest of the file stays unchanged."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from workbench.store.errors import StoreError
from workbench.store.evalsets.evalset_document import EvalSetDocument

TURN = {"user_content": {"parts": [{"text": "hi"}], "role": "user"}}
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


def test_escapes_around_an_edit_inside_a_string_stay(write_file: Callable[..., Path]) -> None:
    text = r'{"eval_cases": [{"eval_id": "a", "conversation": [], "note": "a\/b \u00e9 \ud83e\uded6 word \u0041é"}]}'
    path = write_file(text)
    document = EvalSetDocument.open(path)

    document.set_value(("note",), "a/b é 🫖 other Aé", case=0)

    assert document.content().decode() == text.replace("word", "other")


def test_text_is_escaped_only_in_a_file_with_escapes(copy_eval_set: Callable[[str], Path]) -> None:
    escaped = EvalSetDocument.open(copy_eval_set("ascii_escapes.evalset.json"))
    plain = EvalSetDocument.open(copy_eval_set("kettle.evalset.json"))

    for document in (escaped, plain):
        document.set_value(FIRST_TEXT, "水🫖", case=1)

    assert b'"\\u6c34\\ud83e\\uded6"' in escaped.content()
    assert '"水🫖"'.encode() in plain.content()


def test_other_numbers_and_escapes_keep_their_spelling(copy_eval_set: Callable[[str], Path]) -> None:
    path = copy_eval_set("odd_values.evalset.json")
    old = path.read_bytes()
    document = EvalSetDocument.open(path)
    turn = document.raw_case(0)["conversation"][0]
    turn["intermediate_data"]["tool_uses"][0]["name"] = "sum"

    document.set_value(("conversation", 0), turn, case=0)

    assert document.content() == old.replace(b'"add"', b'"sum"')


def test_new_keys_take_the_style_of_their_neighbours(copy_eval_set: Callable[[str], Path]) -> None:
    document = EvalSetDocument.open(copy_eval_set("camel_case_tabs.evalset.json"))

    document.insert_item(("conversation",), 1, {**TURN, "intermediate_data": {"tool_uses": [
        {"name": "f", "args": {"snake_arg": {"camelArg": 1}}}]}}, case=0)  # fmt: skip
    document.set_value(("final_session_state",), {"my_key": 1}, case=0)

    text = document.case_text(0)
    assert '\n\t\t\t\t{\n\t\t\t\t\t"userContent": {' in text
    assert '"toolUses"' in text and '"snake_arg"' in text and '"camelArg"' in text
    assert '"finalSessionState": {\n\t\t\t\t"my_key": 1' in text
    assert "final_session_state" not in text


def test_a_path_is_found_in_snake_case_and_camel_case(copy_eval_set: Callable[[str], Path]) -> None:
    for name in ("kettle.evalset.json", "camel_case_tabs.evalset.json"):
        for content in ("user_content", "userContent"):
            document = EvalSetDocument.open(copy_eval_set(name))
            document.set_value(("conversation", 0, content, "parts", 0, "text"), "x", case=0)
            assert document.case(0).conversation[0].user_content.text() == "x"


COMMENTED = dedent(
    """\
    {
      "eval_set_id": "s",
      "eval_cases": [ // all of them
        // about a
        {"eval_id": "a", "conversation": []}, // trailing a
        // about b
        {"eval_id": "b", "conversation": [ /* none */ ]}, # trailing b
        {"eval_id": "c", "conversation": []} // trailing c
        // the end
      ], // after
      "name": "n"
    }
    """
)


@pytest.mark.parametrize(
    ("edit", "old", "new"),
    [
        (lambda d: d.remove_case(2), '}, # trailing b\n    {"eval_id": "c", "conversation": []} // trailing c',
         "} # trailing b\n    // trailing c"),
        (lambda d: d.remove_case(0), '// about a\n    {"eval_id": "a", "conversation": []}, // trailing a',
         "// about a\n    // trailing a"),
        (lambda d: d.insert_case(3, {"eval_id": "d", "conversation": []}), '"c", "conversation": []} // trailing c',
         '"c", "conversation": []}, // trailing c\n    {"eval_id": "d", "conversation": []}'),
        (lambda d: d.insert_case(1, {"eval_id": "d", "conversation": []}), "    // about b",
         '    {"eval_id": "d", "conversation": []},\n    // about b'),
        (lambda d: d.set_value(("name",), "other"), '"name": "n"', '"name": "other"'),
        (lambda d: d.set_value(("description",), "new"), '"name": "n"', '"name": "n",\n  "description": "new"'),
        (lambda d: d.remove_value(("name",)), '], // after\n  "name": "n"', "] // after"),
        (lambda d: d.insert_item(("conversation",), 0, 1, case=1), "[ /* none */ ]", "[1 /* none */ ]"),
    ],
)  # fmt: skip
def test_edits_keep_comments_and_correct_commas(
    write_file: Callable[..., Path], edit: Callable[[EvalSetDocument], None], old: str, new: str
) -> None:
    document = EvalSetDocument.open(write_file(COMMENTED))

    edit(document)

    assert old in COMMENTED
    assert document.content().decode() == COMMENTED.replace(old, new)
    EvalSetDocument(document.path, document.content(), None)


def test_moved_cases_take_their_comments_along(write_file: Callable[..., Path]) -> None:
    document = EvalSetDocument.open(write_file(COMMENTED))

    document.move_case(0, 2)

    text = document.content().decode()
    assert [entry.eval_id for entry in document.entries] == ["b", "c", "a"]
    assert '// about a\n    {"eval_id": "a", "conversation": []} // trailing a' in text
    assert '{"eval_id": "c", "conversation": []}, // trailing c' in text


def test_a_file_on_one_line_stays_on_one_line(copy_eval_set: Callable[[str], Path]) -> None:
    document = EvalSetDocument.open(copy_eval_set("one_line.evalset.json"))

    document.insert_case(0, {"eval_id": "new", "conversation": [TURN]})
    document.remove_case(1)
    document.set_value(("session_input", "state", "k"), [1, {"a": None}], case=1)

    text = document.content().decode()
    assert "\n" not in text
    assert text.startswith('{"eval_set_id":"kettle","name":"Kettle","description":null,"eval_cases":[{"eval_id":"new",')
    assert '"state":{"k":[1,{"a":null}]}' in text


def test_items_in_empty_lists_follow_the_style_of_the_file(write_file: Callable[..., Path]) -> None:
    document = EvalSetDocument.open(write_file('{\n    "eval_set_id": "s",\n    "eval_cases": []\n}\n'))

    document.insert_case(0, {"eval_id": "a", "conversation": []})
    document.insert_item(("conversation",), 0, TURN, case=0)

    expected: dict[str, Any] = {"eval_set_id": "s", "eval_cases": [{"eval_id": "a", "conversation": [TURN]}]}
    assert document.content().decode() == json.dumps(expected, indent=4) + "\n"


def test_the_first_item_of_an_inline_list_keeps_its_shape(copy_eval_set: Callable[[str], Path]) -> None:
    path = copy_eval_set("legacy_turns_inline.test.json")
    document = EvalSetDocument.open(path)

    document.set_value((0, "expected_tool_use", 0, "tool_input", "device"), "pot", case=0)
    document.insert_item((), 1, {"query": "Thanks!", "reference": "Welcome."}, case=0)

    assert document.content().decode() == path.read_text().replace('"kettle"', '"pot"').replace(
        "}]\n", '}, {\n  "query": "Thanks!",\n  "reference": "Welcome."\n}]\n'
    )
    assert document.case(0).conversation[1].final_response.text() == "Welcome."


def test_legacy_evals_are_edited_in_their_own_form(copy_eval_set: Callable[[str], Path]) -> None:
    path = copy_eval_set("legacy_evals.evalset.json")
    old = path.read_bytes()
    document = EvalSetDocument.open(path)

    document.set_value(("data", 0, "query"), "Boil milk.", case=0)

    ((before, after),) = _find_changed_lines(old, document.content())
    assert after == before.replace(b"water", b"milk")
    assert document.case(0).conversation[0].user_content.text() == "Boil milk."


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
