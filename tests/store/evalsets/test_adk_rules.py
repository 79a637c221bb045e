"""Rules of ADK for eval sets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.store.evalsets.cases import make_case, make_set, make_turn
from workbench.store.evalsets.adk_rules import first_of_each_kind
from workbench.store.evalsets.validation import validate

CASE: dict[str, Any] = {"eval_id": "a", "conversation": [{"user_content": {"parts": [{"text": "hi"}], "role": "user"}}]}


SESSION = {"app_name": "a", "user_id": "u"}


RUBRIC = {"rubric_id": "r", "rubric_content": {"text_property": "is polite"}}


PERSONA = {"id": "P", "description": "d", "behaviors": []}


BEHAVIOR = {"name": "n", "description": "d", "behaviorInstructions": [], "violation_rubrics": []}


REFUSED_BY_ADK = [
    ("adk-type", make_set(CASE, name={"a": 1}), "name"),
    ("adk-type", make_set(CASE, description=5), "description"),
    ("adk-type", make_set(CASE, creation_timestamp=None), "creation_timestamp"),
    ("adk-type", make_set(CASE, creation_timestamp="soon"), "creation_timestamp"),
    ("adk-type", make_set(make_turn(duration=[])), "eval_cases[0].conversation[0].duration"),
    ("unknown-key", make_set(make_turn(note="x")), "eval_cases[0].conversation[0].note"),
    ("schema", make_set(make_turn(finalResponce={"parts": []})), "eval_cases[0].conversation[0].finalResponce"),
    ("unknown-key", make_set(make_turn(intermediate_data={"tool_uses": [{"tool_name": "f"}]})),
     "eval_cases[0].conversation[0].intermediate_data.tool_uses[0].tool_name"),
    ("mixed-intermediate-data", make_set(make_turn(intermediate_data={"tool_uses": [], "invocation_events": []})),
     "eval_cases[0].conversation[0].intermediate_data.tool_uses"),
    ("adk-type", make_set(make_turn(intermediate_data={"tool_uses": ["f"]})),
     "eval_cases[0].conversation[0].intermediate_data.tool_uses[0]"),
    ("adk-type", make_set(make_turn(intermediate_data={"intermediate_responses": [{"author": "a", "parts": []}]})),
     "eval_cases[0].conversation[0].intermediate_data.intermediate_responses[0]"),
    ("missing-key", make_set(make_case(session_input={"app_name": "a"})), "eval_cases[0].session_input"),
    ("adk-type", make_set(make_case(session_input={**SESSION, "state": None})), "eval_cases[0].session_input.state"),
    ("schema", make_set(make_case(conversation_scenario={"starting_prompt": "a", "conversation_plan": "b"})),
     "eval_cases[0]"),
    ("schema", make_set({"eval_id": "a"}), "eval_cases[0]"),
    ("schema", make_set(make_case(rubrics=[{"rubric_id": "r"}])), "eval_cases[0].rubrics[0]"),
    ("schema", make_set(make_turn(user_content="hi")), "eval_cases[0].conversation[0].user_content"),
    ("camel-case", '{"evalSetId": "s", "eval_cases": []}', "evalSetId"),
    ("camel-case", '{"eval_set_id": "s", "evalCases": []}', "evalCases"),
    ("camel-case", make_set({"eval_id": "a", "conversation_scenario": {"starting_prompt": "a", "conversation_plan": "b",
     "user_persona": {**PERSONA, "behaviors": [BEHAVIOR]}}}),
     "eval_cases[0].conversation_scenario.user_persona.behaviors[0].behaviorInstructions"),
    ("set-id", '{"eval_cases": []}', "eval_set_id"),
    ("schema", r'{"eval_set_id": "s", "eval_cases": [{"eval_id": "\ud83e", "conversation": []}]}',
     "eval_cases[0].eval_id"),
]  # fmt: skip


STOPS_ADK_LATER = [
    ("unknown-persona", make_set({"eval_id": "a", "conversation_scenario": {"starting_prompt": "a",
     "conversation_plan": "b", "user_persona": "novice"}}), "eval_cases[0].conversation_scenario.user_persona"),
    ("duplicate-id", make_set(CASE, CASE), "eval_cases[1].eval_id"),
    ("duplicate-rubric",
     make_set(make_case(rubrics=[RUBRIC], conversation=[{**CASE["conversation"][0], "rubrics": [RUBRIC]}])),
     "eval_cases[0].conversation[0].rubrics[0].rubric_id"),
    ("set-id", make_set(CASE, eval_set_id="a/b"), "eval_set_id"),
]  # fmt: skip


ACCEPTED_BY_ADK = [
    make_set(CASE),
    make_set(make_case(owner="me"), owner="me"),
    make_set(make_case(conversation=[], sessionInput={"appName": "a", "userId": "u", "extra": 1})),
    make_set(make_turn(intermediateData={"toolUses": [{"name": "f", "args": {"any_Key": 1}}], "toolResponses": []})),
    make_set(make_turn(intermediate_data={"invocation_events": [{"author": "a", "uiIndex": 3, "content": None}]})),
    make_set(make_turn(intermediate_data={"intermediate_responses": [["a", [{"text": "t"}]]]})),
    make_set(make_turn(app_details={"agent_details": {"a b": {"name": "a", "tool_declarations": [{"x": 1}]}}})),
    make_set(make_turn(rubrics=[RUBRIC]), name=None),
    make_set({"eval_id": "a", "conversation_scenario": {"starting_prompt": "a", "conversation_plan": "b",
     "user_persona": "NOVICE"}}),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "content", "place"), REFUSED_BY_ADK + STOPS_ADK_LATER)
def test_input_that_adk_refuses_is_an_error_with_its_position(
    write_file: Callable[..., Path], rule: str, content: str, place: str
) -> None:
    problems = [problem for problem in validate([write_file(content)]) if problem.severity == "error"]

    assert (rule, place) in [(problem.rule, problem.place) for problem in problems]
    assert all(problem.line == 1 and problem.column for problem in problems)


@pytest.mark.parametrize("content", ACCEPTED_BY_ADK)
def test_input_that_adk_accepts_is_not_an_error(write_file: Callable[..., Path], content: str) -> None:
    assert [str(problem) for problem in validate([write_file(content)]) if problem.severity == "error"] == []


@pytest.mark.needs_adk
@pytest.mark.parametrize("content", [content for _, content, _ in REFUSED_BY_ADK])
def test_adk_refuses_the_input_that_we_expect_it_to_refuse(content: str) -> None:
    from google.adk.evaluation.eval_set import EvalSet
    from pydantic import ValidationError

    with pytest.raises(ValidationError):
        EvalSet.model_validate_json(content)


@pytest.mark.needs_adk
@pytest.mark.parametrize("content", ACCEPTED_BY_ADK)
def test_adk_accepts_the_input_that_we_expect_it_to_accept(content: str) -> None:
    from google.adk.evaluation.eval_set import EvalSet

    EvalSet.model_validate_json(content)


@pytest.mark.needs_adk
def test_our_tables_match_the_installed_adk() -> None:
    import typing

    from google.adk.evaluation.conversation_scenarios import ConversationScenarios
    from google.adk.evaluation.eval_config import EvalConfig
    from google.adk.evaluation.eval_set import EvalSet

    from workbench.store.json.json_path import ADK_TYPES

    found: dict[str, Any] = {}

    def visit(kind: Any) -> None:
        if isinstance(kind, type) and hasattr(kind, "model_fields") and kind.__name__ not in found:
            found[kind.__name__] = kind
            for field in kind.model_fields.values():
                visit(field.annotation)
        for argument in typing.get_args(kind):
            visit(argument)

    for kind in (EvalSet, EvalConfig, ConversationScenarios):
        visit(kind)
    behaviour = {"forbid": "refused", "allow": "kept", "ignore": "dropped", None: "dropped"}
    for name, ours in ADK_TYPES.items():
        theirs = found[name]
        fields = theirs.model_fields
        # google-genai adds kinds of parts from version to version.
        assert set(ours.fields) <= set(fields) if name in ("Part", "FunctionCall") else set(ours.fields) == set(fields)
        assert ours.required == {key for key, field in fields.items() if field.is_required()}, name
        assert ours.unknown == behaviour[theirs.model_config.get("extra")], name
        assert ours.reads_camel_case == any(field.alias for field in fields.values()) or "_" not in "".join(fields), (
            name
        )


def test_the_first_twenty_problems_of_each_kind_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "many.evalset.json"
    path.write_text(make_set(*({"eval_id": f"c{number}"} for number in range(2_000)), note=1))

    lines = list(first_of_each_kind(validate([path])))

    assert len(lines) == 22
    assert lines[-1].endswith("many.evalset.json: error: and 1,980 more of the kind schema")
    assert any("note" in line for line in lines)
