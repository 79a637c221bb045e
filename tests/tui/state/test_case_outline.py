"""The outline: every value of every case has a row, in the words of the field."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from pydantic.alias_generators import to_camel

from tests.tui.state.cases import (
    CASES,
    FILES,
    apply_to_data,
    file_name,
    iterate_leaves,
    iterate_readable_cases,
    outline_case,
)
from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.tui.state.case_edits import list_additions
from workbench.tui.state.case_outline import Input, OutlineKind, OutlineRow, Place, case_rows, set_rows


def find_uncovered(data: Any, rows: Sequence[OutlineRow]) -> list[Place]:
    """Return the values that no row shows."""
    whole = {row.value_place if row.value_place is not None else row.place for row in rows}
    shown = whole.union(*(row.covered for row in rows)) if rows else whole
    return [
        place for place in iterate_leaves(data) if not any(place[:end] in shown for end in range(len(place), -1, -1))
    ]


def find_exactly_uncovered(data: Any, rows: Sequence[OutlineRow]) -> list[Place]:
    shown = {row.value_place if row.value_place is not None else row.place for row in rows}
    shown |= {place for row in rows for place in row.covered}
    return [place for place in iterate_leaves(data) if place not in shown]


@pytest.mark.parametrize("path", FILES, ids=file_name)
def test_every_value_of_every_file_has_its_row(path: Path) -> None:
    document = EvalSetDocument.open(path)

    for index in iterate_readable_cases(document):
        assert find_exactly_uncovered(document.raw_case(index), outline_case(document, index)) == []
    header = {key: value for key, value in document.header.items() if key != document.cases_key}
    assert find_exactly_uncovered(header, set_rows(header)) == ([] if header else [()])


@settings(max_examples=200, deadline=None)
@given(CASES)
def test_every_value_of_any_case_has_its_row(case: Any) -> None:
    assert find_exactly_uncovered(case, case_rows(case)) == []


@pytest.mark.parametrize(
    "case",
    [
        None,
        [],
        "text",
        {},
        {"eval_id": 3, "conversation": {"a": 1}, "conversation_scenario": [1], "session_input": "x", "rubrics": 5},
        {"conversation": [1, [], {}, {"user_content": "hi", "intermediate_data": [1], "final_response": 2.5}]},
        {"conversation": [{"user_content": {"parts": "x", "role": 1}, "intermediate_data": {"tool_uses": {"a": 1}}}]},
        {"conversation": [{"intermediate_data": {"tool_uses": ["roll", 1, {"name": 2, "args": [1]}, {}]}}]},
        {"conversation": [{"intermediate_data": {"intermediate_responses": [["a"], ["a", "b"], {"author": 1}, 4]}}]},
        {"conversation": [{"intermediate_data": {"invocation_events": [1, {"content": 1}, {"author": "a", "x": {}}]}}]},
        {"rubrics": [{"rubric_id": "a", "rubric_content": {"text_property": "x", "more": 1}}, {"rubric_id": None}]},
        {"conversation_scenario": {"user_persona": {"id": "x", "behaviors": [{"name": "n", "violation_rubrics": 3}]}}},
    ],
    ids=repr,
)
def test_values_that_break_the_format_are_shown(case: Any) -> None:
    assert find_exactly_uncovered(case, case_rows(case)) == []


def test_json_below_a_certain_depth_is_one_row() -> None:
    deep: Any = 1
    for _ in range(150):
        deep = {"a": [deep]}

    rows = case_rows({"eval_id": "x", "conversation": [], "session_input": {"state": deep}})

    assert find_uncovered({"eval_id": "x", "session_input": {"state": deep}}, rows) == []
    assert rows[-1].input is Input.JSON
    assert len(rows) < 60


def test_the_outline_of_a_case_has_a_readable_order() -> None:
    case = {
        "conversation": [
            {
                "intermediate_data": {
                    "tool_uses": [{"args": {"location": "Bedroom", "size": {"w": 1}}, "name": "find"}]
                },
                "final_response": {"parts": [{"text": "Done."}], "role": "model"},
                "user_content": {"parts": [{"text": "Find it."}], "role": "user"},
            }
        ],
        "session_input": {"app_name": "home", "user_id": "u", "state": {}},
        "eval_id": "x",
    }

    assert [(row.depth, row.label) for row in case_rows(case)] == [
        (0, "eval id"),
        (0, "turn 1"),
        (1, "user"),
        (1, "call"),
        (2, "location"),
        (2, "size"),
        (3, "w"),
        (1, "response"),
        (0, "session"),
        (1, "app name"),
        (1, "user id"),
        (1, "state"),
    ]


def test_null_members_have_no_rows() -> None:
    nulls = {"video_metadata": None, "thought": None, "inline_data": None, "file_data": None, "function_response": None}
    content = {"parts": [{**nulls, "function_call": None, "text": "Hi."}], "role": None}
    call = {"id": None, "args": None, "name": "find", "partial_args": None}
    events = [
        {"author": "home", "content": {"parts": [{**nulls, "text": None, "function_call": call}], "role": "model"}}
    ]
    case = {
        "eval_id": "x",
        "conversation": [
            {"user_content": content, "final_response": content, "intermediate_data": {"invocation_events": events}}
        ],
    }

    rows = case_rows(case)

    assert [(row.depth, row.label, row.value) for row in rows if row.kind is not OutlineKind.TURN] == [
        (0, "eval id", "x"),
        (1, "user", "Hi."),
        (1, "event", "home"),
        (2, "call", "find"),
        (1, "response", "Hi."),
    ]
    assert find_exactly_uncovered(case, rows) == []
    index_of_call = next(index for index, row in enumerate(rows) if row.label == "call")
    (argument,) = [addition for addition in list_additions(rows, index_of_call, case) if addition.label == "argument"]
    edit = argument.with_key("location").edit("Bedroom", case)
    event_content = apply_to_data(edit, case)["conversation"][0]["intermediate_data"]["invocation_events"][0][
        "content"
    ]["parts"][0]
    assert event_content["function_call"]["args"] == {"location": "Bedroom"}


def test_both_spellings_give_the_same_outline() -> None:
    case = {
        "eval_id": "x",
        "conversation": [
            {
                "user_content": {"parts": [{"text": "hi"}], "role": "user"},
                "intermediate_data": {
                    "invocation_events": [
                        {"author": "a", "content": {"parts": [{"function_call": {"name": "f", "args": {"a_b": 1}}}]}}
                    ]
                },
                "invocation_id": "e-1",
                "rubrics": [{"rubric_id": "r", "rubric_content": {"text_property": "is kind"}}],
            }
        ],
    }

    camel = rename_keys(case, lambda key: key if key == "a_b" else to_camel(key))

    assert "functionCall" in json.dumps(camel)
    assert [summarize_row(row) for row in case_rows(camel)] == [summarize_row(row) for row in case_rows(case)]


def summarize_row(row: OutlineRow) -> tuple[Any, ...]:
    return row.kind, row.depth, row.label, row.input, row.value_place is None


def rename_keys(data: Any, rename: Callable[[str], str]) -> Any:
    if isinstance(data, dict):
        return {rename(key): rename_keys(value, rename) for key, value in data.items()}
    return [rename_keys(item, rename) for item in data] if isinstance(data, list) else data
