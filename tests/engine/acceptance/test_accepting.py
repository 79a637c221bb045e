"""Accepting results: the text that it writes, and when it is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.engine.acceptance.documents import TEXT, accept_all, make_execution, open_document
from workbench.engine.acceptance import (
    AcceptanceRefused,
    Hunk,
    accept,
    expect_response,
    explain_hunk_refusal,
    explain_refusal,
    explain_whole_refusal,
    find_hunks,
)
from workbench.model.identity import CaseKey
from workbench.model.results import CaseResult, CaseStatus, Execution
from workbench.model.turn_diff import DifferenceKind

LOOK = ("look", {"room": "Bedroom"})
SET = ("set_device", {"id": "lamp", "status": "OFF", "deep": {"level": 1, "x": 1}})


def test_a_missing_value_of_the_state_is_no_longer_expected() -> None:
    document = accept_all(make_execution(LOOK, SET, final_state={"lamp": "dim"}))

    assert document.raw_case(0)["final_session_state"] == {"lamp": "dim"}


def test_an_unreported_state_is_not_a_difference() -> None:
    assert find_hunks(open_document().case(0), make_execution(LOOK, SET, final_state=None)) == ()


def test_a_missing_response_is_no_longer_expected() -> None:
    silent_execution = make_execution(LOOK, SET)
    turn = silent_execution.turns[0]
    invocation = turn.invocation.model_copy(update={"final_response": None})
    silent_execution = silent_execution.model_copy(
        update={"turns": (turn.model_copy(update={"invocation": invocation}),)}
    )

    assert "final_response" not in accept_all(silent_execution).raw_case(0)["conversation"][0]


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        TEXT.replace('          "final_response": {"parts": [{"text": "The lamp is off."}], "role": "model"},\n', ""),
        '[{"query": "Turn it off", "expected_tool_use": [], "reference": "The lamp is off."}]',
        '[{"query": "Turn it off", "expected_tool_use": []}]',
    ],
    ids=["changed", "added", "legacy-changed", "legacy-added"],
)
def test_any_turn_can_expect_another_response(text: str) -> None:
    document = open_document(text)
    before = document.content()

    expect_response(document, 0, 0, "Done.")

    (turn,) = document.case(0).conversation or []
    assert turn.final_response is not None
    assert turn.final_response.text() == "Done."
    assert document.undo() is not None
    assert document.content() == before


def test_a_turn_without_data_gets_the_format_of_the_other_turns() -> None:
    events = {"invocation_events": [{"author": "root", "content": {"parts": [{"functionCall": {"name": "look"}}]}}]}
    turns: list[dict[str, Any]] = [
        {"userContent": {"parts": [{"text": "Turn it off"}]}},
        {"userContent": {"parts": [{"text": "2"}]}, "intermediateData": events},
    ]
    text = json.dumps({"eval_set_id": "s", "eval_cases": [{"evalId": "a", "conversation": turns}]})

    turn = accept_all(make_execution(("wait", {"minutes": 3})), text).raw_case(0)["conversation"][0]

    assert turn["intermediateData"] == {
        "invocationEvents": [
            {
                "author": "agent",
                "content": {"parts": [{"functionCall": {"name": "wait", "args": {"minutes": 3}}}], "role": "model"},
            }
        ]
    }


def test_a_difference_that_no_longer_exists_is_refused_and_nothing_changes() -> None:
    document, execution = open_document(), make_execution(LOOK, SET, response="It is off.")
    (hunk,) = find_hunks(document.case(0), execution)
    document.set_value(("conversation", 0, "final_response", "parts", 0, "text"), "It is off.", case=0)
    before = document.content()

    with pytest.raises(AcceptanceRefused, match="no longer exists"):
        accept(document, 0, [hunk], execution)

    assert document.content() == before


@pytest.mark.parametrize(
    ("execution", "status", "sentence"),
    [
        (make_execution(LOOK), CaseStatus.FAILED, None),
        (make_execution(LOOK), CaseStatus.ERROR, "ended in an error"),
        (Execution(), CaseStatus.FAILED, "no longer stored"),
        (make_execution(LOOK, prompt="Turn it on"), CaseStatus.FAILED, "turn 1 of the case differs from the prompt"),
    ],
)
def test_refusals_give_the_reason(execution: Execution, status: CaseStatus, sentence: str | None) -> None:
    key = CaseKey(target="t", eval_set="s", eval_id="off")
    result = CaseResult(case=key, eval_set_id="s", status=status, execution=execution)

    refusal = explain_refusal(open_document().case(0), result)

    assert refusal is None if sentence is None else sentence in str(refusal)


def test_a_whole_case_is_refused_if_the_number_of_turns_differs() -> None:
    key = CaseKey(target="t", eval_set="s", eval_id="off")
    turns = make_execution(LOOK).turns * 2
    result = CaseResult(case=key, eval_set_id="s", status=CaseStatus.FAILED, execution=Execution(turns=turns))

    assert explain_refusal(open_document().case(0), result) is None
    assert explain_whole_refusal(open_document().case(0), result) == "the case has 1 turn, but the agent got 2"


@pytest.mark.parametrize(
    ("unknown", "sentence"),
    [
        ({"calls_unknown": "no span arrived"}, "the tool calls of turn 1 are unknown: no span arrived"),
        (
            {"arguments_unknown": "no span tells"},
            "the arguments of the tool calls of turn 1 are unknown: no span tells",
        ),
    ],
)
def test_calls_with_unknown_parts_are_refused_but_their_response_is_not(unknown: dict[str, str], sentence: str) -> None:
    execution = make_execution(("set_device", None), response="Done.")
    turn = execution.turns[0].model_copy(update=unknown)
    execution = execution.model_copy(update={"turns": (turn,)})
    hunks = find_hunks(open_document().case(0), execution)
    response = [hunk for hunk in hunks if hunk.difference.kind is DifferenceKind.RESPONSE_CHANGED]

    assert explain_hunk_refusal(execution, hunks) == sentence
    assert response and explain_hunk_refusal(execution, response) is None


def test_hunks_come_in_reading_order() -> None:
    hunks: tuple[Hunk, ...] = find_hunks(
        open_document().case(0), make_execution(LOOK, response="No.", final_state={"lamp": "on", "seen": True})
    )

    assert [(hunk.turn, hunk.difference.kind) for hunk in hunks] == [
        (0, DifferenceKind.CALL_MISSING),
        (0, DifferenceKind.RESPONSE_CHANGED),
        (None, DifferenceKind.STATE_CHANGED),
    ]
