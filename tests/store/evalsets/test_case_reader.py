"""Cases as they are read: faults, misspelt keys, and values that cannot be used."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from workbench.store.errors import StoreError
from workbench.store.evalsets.evalset_document import EvalSetDocument


def test_odd_values_are_read_and_half_a_character_is_a_problem_of_its_case(
    copy_eval_set: Callable[[str], Path],
) -> None:
    document = EvalSetDocument.open(copy_eval_set("odd_values.evalset.json"))

    args = document.raw_case(0)["conversation"][0]["intermediate_data"]["tool_uses"][0]["args"]
    assert args["huge"] == 123456789012345678901234567890
    assert args["twice"] == 2
    assert document.entries[1].problem.place == "eval_cases[1].conversation[0].user_content.parts[0].text"
    assert document.entries[2].problem is None
    assert document.header["tags"] == ["a", "b"]


def test_an_integer_too_long_for_python_fails_only_its_case(write_file: Callable[..., Path]) -> None:
    long = '{"eval_id": "long", "conversation": [], "n": ' + "1" * 5000 + "}"
    document = EvalSetDocument.open(write_file(f'{{"eval_cases": [{long}, {{"eval_id": "b", "conversation": []}}]}}'))

    assert "5000 digits" in str(document.entries[0].problem)
    assert document.entries[1].problem is None


@pytest.mark.parametrize(
    ("turn", "extra", "place", "meant"),
    [
        ({"final_respnse": {}}, {}, "conversation[0].final_respnse", "final_response"),
        ({"intermediateDta": {}}, {}, "conversation[0].intermediateDta", "intermediate_data"),
        ({"intermediateData": {"toolUse": []}}, {}, "conversation[0].intermediateData.toolUse", "tool_uses"),
        ({}, {"final_sesion_state": {}}, "final_sesion_state", "final_session_state"),
    ],
)
def test_a_misspelt_expectation_is_a_fault_of_its_case(
    write_file: Callable[..., Path], turn: dict[str, Any], extra: dict[str, Any], place: str, meant: str
) -> None:
    content = {"user_content": {"role": "user", "parts": [{"text": "hi"}]}}
    cases = [{"eval_id": "a", "conversation": [{**content, **turn}], **extra}, {"eval_id": "b", "conversation": []}]

    document = EvalSetDocument.open(write_file(json.dumps({"eval_set_id": "s", "eval_cases": cases}), "a.evalset.json"))

    invalid, valid = document.entries
    assert valid.problem is None
    assert invalid.problem is not None
    assert invalid.problem.place == f"eval_cases[0].{place}"
    assert invalid.problem.expected == f"{meant!r} (did you mean that?)"
    with pytest.raises(StoreError):
        document.case(0)


@pytest.mark.parametrize(
    ("key", "meant"), [("conversatoin", "conversation"), ("conversationScenrio", "conversation_scenario")]
)
def test_a_misspelt_conversation_key_is_reported(write_file: Callable[..., Path], key: str, meant: str) -> None:
    cases = [{"eval_id": "a", "conversation_id": 7, key: []}]

    document = EvalSetDocument.open(write_file(json.dumps({"eval_set_id": "s", "eval_cases": cases}), "a.evalset.json"))

    (invalid,) = document.entries
    assert invalid.problem is not None
    assert (invalid.problem.place, invalid.problem.found) == (f"eval_cases[0].{key}", f"the unknown key {key!r}")
    assert invalid.problem.expected == f"{meant!r} (did you mean that?)"


def test_keys_of_other_tools_are_not_a_fault(write_file: Callable[..., Path]) -> None:
    case = {"eval_id": "a", "conversation": [], "conversation_id": 7, "tags": ["x"], "owner": "me"}

    document = EvalSetDocument.open(
        write_file(json.dumps({"eval_set_id": "s", "eval_cases": [case]}), "a.evalset.json")
    )

    assert document.entries[0].problem is None
