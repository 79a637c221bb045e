"""Operations: each changes only the place that it names, keeps the case readable, and can be undone exactly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic.alias_generators import to_snake

from tests.tui.state.cases import (
    CASES,
    FILES,
    apply_to_data,
    file_name,
    iterate_readable_cases,
    make_document,
    make_set_bytes,
    outline_case,
)
from workbench.store.errors import StoreError
from workbench.store.evalsets.case_frame import DocumentFormat
from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.tui.state.call_line import TypedCall
from workbench.tui.state.case_edits import (
    Edit,
    Impossible,
    RenameKey,
    SetValue,
    Slot,
    add_ghost_rows,
    add_typing_row,
    copy_item,
    copy_under_key,
    find_ghost_addition,
    find_json_slot,
    find_slot,
    find_typing_row,
    list_additions,
    make_move,
    make_removal,
)
from workbench.tui.state.case_outline import Input, OutlineKind, OutlineRow, case_rows, get_value

TYPED = {
    Input.LINE: "other",
    Input.CALL: TypedCall("other", {"new": 1}),
    Input.TEXT: "two\nlines",
    Input.NUMBER: 3,
    Input.VALUE: False,
    Input.JSON: {"new": [1]},
}


def apply_and_undo(document: EvalSetDocument, index: int, edit: Edit) -> Any:
    """Make an edit, check that text and data agree, and undo it to the byte."""
    before, data = document.content(), document.raw_case(index)
    expected = apply_to_data(edit, data)
    edit.apply(document, case=index)
    after = document.raw_case(index)
    assert normalize_keys(after) == normalize_keys(expected)
    if document.content() != before:
        assert document.undo() is not None
    assert document.content() == before
    return after


def normalize_keys(data: Any) -> str:
    """Return the data as text with all keys in snake_case: the document writes new keys in the style of the file."""

    def fold(value: Any) -> Any:
        if isinstance(value, dict):
            return {to_snake(key): fold(item) for key, item in value.items()}
        return [fold(item) for item in value] if isinstance(value, list) else value

    return json.dumps(fold(data), sort_keys=True)


def list_edits(row: OutlineRow, data: Any) -> list[Edit]:
    edits: list[Edit] = [
        slot.edit(TYPED[slot.input], data) for slot in (find_slot(row, data), find_json_slot(row, data))
    ]
    for make in (lambda: make_removal(row), lambda: copy_item(row, data), lambda: make_move(row, data, by=1)):
        try:
            edits.append(make())
        except Impossible:
            continue
    if row.is_key:
        edits += [copy_under_key(row, data, "a new key"), RenameKey(row.place, "a new key")]
    return edits


@pytest.mark.parametrize("path", FILES, ids=file_name)
def test_every_row_of_every_file_can_be_edited_and_undone(path: Path) -> None:
    document = EvalSetDocument.open(path)
    if document.path.name.startswith(("odd_values", "broken")):
        pytest.skip("has cases that no edit can be written into: NaN, halves of characters")

    for index in iterate_readable_cases(document):
        data = document.raw_case(index)
        for row in outline_case(document, index)[:60]:
            for edit in list_edits(row, data):
                apply_and_undo(document, index, edit)


@settings(max_examples=120, deadline=None)
@given(CASES, st.data())
def test_an_edit_of_a_row_changes_only_its_place(case: Any, choose: st.DataObject) -> None:
    document = make_document(case)
    rows = case_rows(case)
    row = choose.draw(st.sampled_from(rows))

    for edit in list_edits(row, case):
        after = apply_and_undo(document, 0, edit)
        if isinstance(edit, SetValue) and edit.place and get_value(case, edit.place) is not None:
            value = get_value(after, edit.place)
            assert json.dumps(apply_to_data(SetValue(edit.place, value), case)) == json.dumps(after)


@settings(max_examples=120, deadline=None)
@given(CASES, st.data())
def test_any_addition_leaves_a_valid_case(case: Any, choose: st.DataObject) -> None:
    document = make_document(case)
    rows = case_rows(case)
    addition = choose.draw(st.sampled_from(list_additions(rows, choose.draw(st.integers(0, len(rows) - 1)), case)))
    slot = addition.with_key("a new key") if addition.needs_key else addition.slot
    typed_value = {"text": "x"} if slot.input is Input.JSON else TYPED[slot.input]

    after = apply_and_undo(document, 0, slot.edit(typed_value, case))

    assert document.find_fault(after) is None
    assert slot.instead_of is not None or len(json.dumps(after)) > len(json.dumps(case))


@pytest.mark.parametrize("path", FILES, ids=file_name)
def test_any_addition_to_a_valid_case_of_a_file_leaves_it_valid(path: Path) -> None:
    document = EvalSetDocument.open(path)
    for index in iterate_readable_cases(document):
        data, rows = document.raw_case(index), outline_case(document, index)
        if document.find_fault(data) is not None or "odd_values" in path.name:
            continue
        for position in range(0, len(rows), 1 + len(rows) // 12):
            for addition in list_additions(rows, position, data):
                slot = addition.with_key("a new key") if addition.needs_key else addition.slot
                typed_value = {"text": "x"} if slot.input is Input.JSON else TYPED[slot.input]
                assert document.find_fault(apply_and_undo(document, index, slot.edit(typed_value, data))) is None


def add_item(case: Any, label: str, title: str) -> Any:
    rows = case_rows(case)
    index = next(index for index, row in enumerate(rows) if row.label == label)
    addition = next(item for item in list_additions(rows, index, case) if item.label == title)
    value = TypedCall("typed", None) if addition.slot.input is Input.CALL else "typed"
    return apply_to_data(addition.slot.edit(value, case), case)


def test_additions_to_a_case_of_events_are_events() -> None:
    turn = {"user_content": {"parts": [{"text": "hi"}]}}
    events = {"invocation_events": [{"author": "roller", "content": {"parts": [{"text": "hm"}]}}]}
    case = {"eval_id": "x", "conversation": [{**turn, "intermediate_data": events}, turn]}

    after = add_item(case, "turn 2", "call, as an event")

    (event,) = after["conversation"][1]["intermediate_data"]["invocation_events"]
    assert event["content"]["parts"] == [{"function_call": {"name": "typed", "args": {}}}]


def test_each_kind_of_event_is_offered_once_after_an_event() -> None:
    event = {"author": "roller", "content": {"parts": [{"text": "hm"}]}}
    turn = {"userContent": {"parts": [{"text": "hi"}]}, "intermediateData": {"invocationEvents": [event, event]}}
    case = {"evalId": "x", "conversation": [turn]}
    rows = case_rows(case)
    index = next(index for index, row in enumerate(rows) if row.label == "event")

    wanted = [item for item in list_additions(rows, index, case) if item.label.endswith("as an event")]

    assert [item.label.partition(",")[0] for item in wanted] == ["call", "tool response", "message"]
    after = apply_to_data(wanted[1].slot.edit("roll", case), case)
    new_content = after["conversation"][0]["intermediateData"]["invocationEvents"][1]["content"]
    assert new_content == {"parts": [{"function_response": {"name": "roll", "response": {}}}], "role": "user"}


def test_a_scenario_can_replace_a_conversation_and_be_replaced_by_one() -> None:
    case = {"eval_id": "x", "conversation": [{"user_content": {"parts": [{"text": "hi"}]}}]}
    document = make_document(case)
    rows = case_rows(case)
    scenario = next(item for item in list_additions(rows, 0, case) if item.label.startswith("scenario"))

    after = apply_and_undo(document, 0, scenario.slot.edit("Tea?", case))

    assert after == {"eval_id": "x", "conversation_scenario": {"starting_prompt": "Tea?", "conversation_plan": ""}}
    assert document.find_fault(after) is None
    addition = next(
        item for item in list_additions(case_rows(after), 0, after) if item.label.startswith("conversation")
    )
    restored = apply_and_undo(make_document(after), 0, addition.slot.edit("hi", after))
    assert list(restored) == ["eval_id", "conversation"] and document.find_fault(restored) is None


def test_additions_to_a_case_of_flat_lists_are_calls() -> None:
    case = {"eval_id": "x", "conversation": [{"user_content": {"parts": [{"text": "hi"}]}}]}

    after = add_item(case, "turn 1", "call")

    assert after["conversation"][0]["intermediate_data"] == {"tool_uses": [{"name": "typed", "args": {}}]}


def test_new_content_is_written_in_the_style_of_the_file() -> None:
    case = {"evalId": "x", "conversation": [{"userContent": {"parts": [{"text": "hi"}]}}]}
    document = make_document(case)
    rows = case_rows(case)
    response = next(item for item in list_additions(rows, 1, case) if item.label == "response")

    response.slot.edit("Hello.", case).apply(document, case=0)

    assert document.raw_case(0)["conversation"][0]["finalResponse"] == {"parts": [{"text": "Hello."}], "role": "model"}


def test_a_one_word_edit_changes_one_line_of_the_file() -> None:
    case = {"eval_id": "x", "conversation": [{"user_content": {"parts": [{"text": "Boil water."}]}}]}
    document = make_document(case)
    row = next(row for row in case_rows(case) if row.label == "user")

    find_slot(row, case).edit("Boil milk.", case).apply(document, case=0)

    before, after = make_set_bytes(case).decode().splitlines(), document.content().decode().splitlines()
    ((old, new),) = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
    assert new == old.replace("water", "milk")


def test_a_missing_message_gets_its_parts_with_the_first_text() -> None:
    case = {"eval_id": "x", "conversation": [{"user_content": {"parts": []}, "final_response": None}]}
    rows = {row.label: row for row in case_rows(case)}

    assert find_slot(rows["response"], case).edit("Hi", case) == SetValue(
        ("conversation", 0, "final_response"), {"parts": [{"text": "Hi"}], "role": "model"}
    )
    assert find_slot(rows["user"], case).edit("Hi", case) == SetValue(
        ("conversation", 0, "user_content", "parts"), [{"text": "Hi"}]
    )


def test_a_copied_rubric_gets_its_own_id() -> None:
    rubric = {"rubric_id": "kind", "rubric_content": {"text_property": "is kind"}}
    case = {"eval_id": "x", "conversation": [], "rubrics": [rubric]}
    row = next(row for row in case_rows(case) if row.label == "rubric")

    ids = [rubric["rubric_id"] for rubric in apply_to_data(copy_item(row, case), case)["rubrics"]]

    assert ids == ["kind", "kind_2"]


def test_the_arguments_of_a_call_are_edited_as_json() -> None:
    calls = {"tool_uses": [{"name": "f", "args": {"a": 1}}]}
    case = {"eval_id": "x", "conversation": [{"user_content": {"parts": []}, "intermediate_data": calls}]}
    row = next(row for row in case_rows(case) if row.label == "call")

    slot = find_json_slot(row, case)

    assert get_value(case, slot.place) == {"a": 1}
    assert slot.input is Input.JSON


@pytest.mark.parametrize(
    ("label", "operation", "why"),
    [
        ("user", lambda row, data: make_move(row, data, by=1), "only items of a list"),
        ("turn 1", lambda row, data: make_move(row, data, by=1), "it is the last already"),
        ("turn 1", lambda row, data: make_move(row, data, by=-1), "it is the first already"),
        ("user", copy_item, "only items of a list"),
        ("parts", lambda row, data: make_removal(row), "both an author and parts"),
    ],
)
def test_an_impossible_edit_is_refused_with_a_reason(label: str, operation: Any, why: str) -> None:
    intermediate_data = {"intermediate_responses": [["helper", []]]}
    case = {
        "eval_id": "x",
        "conversation": [{"user_content": {"parts": [{"text": "a"}]}, "intermediate_data": intermediate_data}],
    }
    row = next(row for row in case_rows(case) if row.label == label)

    with pytest.raises(Impossible, match=why):
        operation(row, case)


def test_a_slot_creates_its_missing_list() -> None:
    slot = Slot(place=("rubrics",), index=3, title="rubric", input=Input.TEXT)

    assert slot.edit("x", {}) == SetValue(("rubrics",), ["x"])


def test_legacy_formats_are_edited_with_their_own_keys(tmp_path: Path) -> None:
    path = tmp_path / "a.test.json"
    path.write_text('[\n  {\n    "query": "Boil water.",\n    "reference": "Done."\n  }\n]\n')
    document = EvalSetDocument.open(path)
    assert document.format is DocumentFormat.LEGACY_TURNS
    data, rows = document.raw_case(0), outline_case(document, 0)
    call = next(item for item in list_additions(rows, 0, data) if item.label == "call")

    call.slot.edit(TypedCall("switch", None), data).apply(document, case=0)

    assert document.raw_case(0)[0]["expected_tool_use"] == [{"tool_name": "switch", "tool_input": {}}]


def test_a_refused_edit_leaves_the_document_unchanged() -> None:
    document = make_document({"eval_id": "x", "conversation": []})
    before = document.content()

    with pytest.raises(StoreError):
        SetValue(("conversation", 3, "user_content"), 1).apply(document, case=0)

    assert document.content() == before


def test_a_new_value_has_its_row_after_the_item_before_it_or_at_the_end_of_its_parent() -> None:
    turns = [{"user_content": {"parts": [{"text": text}]}} for text in ("one", "two")]
    data = {"eval_id": "x", "conversation": turns, "session_input": {"app_name": "a", "state": {"k": 1}}}
    rows = case_rows(data)
    shown = add_ghost_rows(rows, data)

    def find_neighbours(slot: Slot) -> tuple[str, str, int]:
        with_new, new = add_typing_row(shown, slot)
        at = list(with_new).index(new)
        assert [row for row in with_new if row is not new] == list(shown)
        following = with_new[at + 1].label if at + 1 < len(with_new) else ""
        return with_new[at - 1].label, following, new.depth

    def find_depth(label: str) -> int:
        return next(row.depth for row in rows if row.label == label)

    between = Slot(place=("conversation",), index=1, title="turn", input=Input.TEXT, template={"x": ""}, hole=("x",))
    assert find_neighbours(between) == ("+ response", "turn 2", find_depth("turn 1"))
    member = Slot(place=("session_input", "state", "new"), title="new", input=Input.VALUE)
    assert find_neighbours(member) == ("k", "", find_depth("k"))
    assert find_neighbours(Slot(place=("name",), title="name", input=Input.LINE))[1:] == ("", 0)


def test_a_value_is_typed_in_the_row_that_shows_it_or_offers_to_add_it() -> None:
    data = {"eval_id": "x", "conversation": [{"user_content": {"parts": [{"text": "one"}]}}]}
    shown = add_ghost_rows(case_rows(data), data)
    for row in shown:
        addition = find_ghost_addition(row, data) if row.kind is OutlineKind.GHOST else None
        slot = find_slot(row, data) if addition is None else addition.slot
        assert find_typing_row(shown, slot, data) == row

    assert find_typing_row(shown, Slot(place=("name",), title="name", input=Input.LINE), data) is None
