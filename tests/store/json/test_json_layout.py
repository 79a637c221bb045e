"""New text in JSON takes the style of its neighbours."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.store.conftest import COMMENTED
from workbench.store.evalsets.evalset_document import EvalSetDocument

FIRST_TEXT = ("conversation", 0, "user_content", "parts", 0, "text")


TURN = {"user_content": {"parts": [{"text": "hi"}], "role": "user"}}


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
