"""Accepted calls and their responses, written into the lists and events of a turn."""

from __future__ import annotations

import difflib
import json

from tests.engine.acceptance.documents import TEXT, accept_all, make_execution
from workbench.store.evalsets.evalset_document import EvalSetDocument

LOOK = ("look", {"room": "Bedroom"})
SET = ("set_device", {"id": "lamp", "status": "OFF", "deep": {"level": 1, "x": 1}})


def list_changed_lines(document: EvalSetDocument, before: str = TEXT) -> list[str]:
    after = document.content().decode()
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return [line for line in lines if line[0] in "+-" and line[:3] not in ("+++", "---")]


def test_accepting_one_argument_changes_one_line() -> None:
    args = {**SET[1], "deep": {"level": 2, "x": 1}}

    assert list_changed_lines(accept_all(make_execution(LOOK, ("set_device", args)))) == [
        '-              {"name": "set_device", "args": {"id": "lamp", "status": "OFF", "deep": {"level":  1, "x": 1}}}',
        '+              {"name": "set_device", "args": {"id": "lamp", "status": "OFF", "deep": {"level":  2, "x": 1}}}',
    ]


def test_a_new_call_is_accepted_without_id_and_response() -> None:
    assert list_changed_lines(accept_all(make_execution(LOOK, ("wait", {"minutes": 3}), SET))) == [
        '+              {"name": "wait", "args": {"minutes": 3}},',
    ]


def test_a_moved_call_keeps_its_text_and_its_comment() -> None:
    document = accept_all(make_execution(SET, LOOK))

    assert [call["name"] for call in document.raw_case(0)["conversation"][0]["intermediate_data"]["tool_uses"]] == [
        "set_device",
        "look",
    ]
    assert '{"level":  1, "x": 1}' in document.content().decode()
    assert '{"name": "look", "args": {"room": "Bedroom"}} // first' in document.content().decode()


def test_thoughts_are_not_accepted() -> None:
    parts = [{"text": "hm", "thought": True}, {"text": "It is off."}]

    assert list_changed_lines(accept_all(make_execution(LOOK, SET, response=parts))) == [
        '-          "final_response": {"parts": [{"text": "The lamp is off."}], "role": "model"},',
        '+          "final_response": {"parts": [{"text": "It is off."}], "role": "model"},',
    ]


def test_tool_responses_are_removed_moved_and_added_with_their_calls() -> None:
    data = json.loads(TEXT.replace("// first", ""))
    turn = data["eval_cases"][0]["conversation"][0]["intermediate_data"]
    turn["tool_responses"] = [{"name": "look", "response": {"ok": 1}}, {"name": "set_device", "response": {"ok": 1}}]

    document = accept_all(make_execution(SET, ("wait", {})), json.dumps(data, indent=1))

    data = document.raw_case(0)["conversation"][0]["intermediate_data"]
    assert [call["name"] for call in data["tool_uses"]] == ["set_device", "wait"]
    assert data["tool_responses"] == [
        {"name": "set_device", "response": {"ok": 1}},
        {"name": "wait", "response": {"ok": 1}},
    ]


def test_a_thousand_calls_are_accepted_at_once() -> None:
    document = accept_all(make_execution(*((f"call_{n}", {"n": n}) for n in range(1000))))

    assert len(document.raw_case(0)["conversation"][0]["intermediate_data"]["tool_uses"]) == 1000
    document.undo()
    assert document.content().decode() == TEXT
