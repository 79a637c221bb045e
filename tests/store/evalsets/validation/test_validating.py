"""Validation reports cases that cannot run, input that ADK refuses, and invalid JSON, with their position."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from workbench.store.errors import StoreError
from workbench.store.evalsets.adk_rules import first_of_each_kind
from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.store.evalsets.validation import fix, validate

CASE: dict[str, Any] = {"eval_id": "a", "conversation": [{"user_content": {"parts": [{"text": "hi"}], "role": "user"}}]}


def _set(*cases: Any, **header: Any) -> str:
    return json.dumps({"eval_set_id": "s", **header, "eval_cases": list(cases)})


def _case(**changes: Any) -> dict[str, Any]:
    return {**CASE, **changes}


def _turn(**changes: Any) -> dict[str, Any]:
    return _case(conversation=[{**CASE["conversation"][0], **changes}])


SESSION = {"app_name": "a", "user_id": "u"}
RUBRIC = {"rubric_id": "r", "rubric_content": {"text_property": "is polite"}}
PERSONA = {"id": "P", "description": "d", "behaviors": []}
BEHAVIOR = {"name": "n", "description": "d", "behaviorInstructions": [], "violation_rubrics": []}

REFUSED_BY_ADK = [
    ("adk-type", _set(CASE, name={"a": 1}), "name"),
    ("adk-type", _set(CASE, description=5), "description"),
    ("adk-type", _set(CASE, creation_timestamp=None), "creation_timestamp"),
    ("adk-type", _set(CASE, creation_timestamp="soon"), "creation_timestamp"),
    ("adk-type", _set(_turn(duration=[])), "eval_cases[0].conversation[0].duration"),
    ("unknown-key", _set(_turn(note="x")), "eval_cases[0].conversation[0].note"),
    ("schema", _set(_turn(finalResponce={"parts": []})), "eval_cases[0].conversation[0].finalResponce"),
    ("unknown-key", _set(_turn(intermediate_data={"tool_uses": [{"tool_name": "f"}]})),
     "eval_cases[0].conversation[0].intermediate_data.tool_uses[0].tool_name"),
    ("mixed-intermediate-data", _set(_turn(intermediate_data={"tool_uses": [], "invocation_events": []})),
     "eval_cases[0].conversation[0].intermediate_data.tool_uses"),
    ("adk-type", _set(_turn(intermediate_data={"tool_uses": ["f"]})),
     "eval_cases[0].conversation[0].intermediate_data.tool_uses[0]"),
    ("adk-type", _set(_turn(intermediate_data={"intermediate_responses": [{"author": "a", "parts": []}]})),
     "eval_cases[0].conversation[0].intermediate_data.intermediate_responses[0]"),
    ("missing-key", _set(_case(session_input={"app_name": "a"})), "eval_cases[0].session_input"),
    ("adk-type", _set(_case(session_input={**SESSION, "state": None})), "eval_cases[0].session_input.state"),
    ("schema", _set(_case(conversation_scenario={"starting_prompt": "a", "conversation_plan": "b"})), "eval_cases[0]"),
    ("schema", _set({"eval_id": "a"}), "eval_cases[0]"),
    ("schema", _set(_case(rubrics=[{"rubric_id": "r"}])), "eval_cases[0].rubrics[0]"),
    ("schema", _set(_turn(user_content="hi")), "eval_cases[0].conversation[0].user_content"),
    ("camel-case", '{"evalSetId": "s", "eval_cases": []}', "evalSetId"),
    ("camel-case", '{"eval_set_id": "s", "evalCases": []}', "evalCases"),
    ("camel-case", _set({"eval_id": "a", "conversation_scenario": {"starting_prompt": "a", "conversation_plan": "b",
     "user_persona": {**PERSONA, "behaviors": [BEHAVIOR]}}}),
     "eval_cases[0].conversation_scenario.user_persona.behaviors[0].behaviorInstructions"),
    ("set-id", '{"eval_cases": []}', "eval_set_id"),
    ("schema", r'{"eval_set_id": "s", "eval_cases": [{"eval_id": "\ud83e", "conversation": []}]}',
     "eval_cases[0].eval_id"),
]  # fmt: skip

STOPS_ADK_LATER = [
    ("unknown-persona", _set({"eval_id": "a", "conversation_scenario": {"starting_prompt": "a",
     "conversation_plan": "b", "user_persona": "novice"}}), "eval_cases[0].conversation_scenario.user_persona"),
    ("duplicate-id", _set(CASE, CASE), "eval_cases[1].eval_id"),
    ("duplicate-rubric", _set(_case(rubrics=[RUBRIC], conversation=[{**CASE["conversation"][0], "rubrics": [RUBRIC]}])),
     "eval_cases[0].conversation[0].rubrics[0].rubric_id"),
    ("set-id", _set(CASE, eval_set_id="a/b"), "eval_set_id"),
]  # fmt: skip

ACCEPTED_BY_ADK = [
    _set(CASE),
    _set(_case(owner="me"), owner="me"),
    _set(_case(conversation=[], sessionInput={"appName": "a", "userId": "u", "extra": 1})),
    _set(_turn(intermediateData={"toolUses": [{"name": "f", "args": {"any_Key": 1}}], "toolResponses": []})),
    _set(_turn(intermediate_data={"invocation_events": [{"author": "a", "uiIndex": 3, "content": None}]})),
    _set(_turn(intermediate_data={"intermediate_responses": [["a", [{"text": "t"}]]]})),
    _set(_turn(app_details={"agent_details": {"a b": {"name": "a", "tool_declarations": [{"x": 1}]}}})),
    _set(_turn(rubrics=[RUBRIC]), name=None),
    _set({"eval_id": "a", "conversation_scenario": {"starting_prompt": "a", "conversation_plan": "b",
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


def test_a_duplicate_set_id_is_reported_with_the_other_file(write_file: Callable[..., Path]) -> None:
    one, two = write_file(_set(CASE), "one.test.json"), write_file(_set(CASE), "two.test.json")

    (problem,) = validate([one, two])

    assert (problem.rule, problem.path, problem.place) == ("duplicate-set-id", two, "eval_set_id")
    assert "one.test.json" in problem.message
    assert problem.severity == "warning"  # each of them runs
    assert validate([one, two], agent_of=lambda path: path.name) == []


def test_comments_and_trailing_commas_are_warnings_unless_strict(copy_eval_set: Callable[[str], Path]) -> None:
    path = copy_eval_set("comments.evalset.json")

    warnings = validate([path])
    assert [(problem.rule, problem.severity) for problem in warnings] == [
        ("comment", "warning"),
        ("trailing-comma", "warning"),
    ]
    assert "which ADK cannot read" in warnings[0].message
    problems = validate([path], strict=True)
    assert {problem.rule for problem in problems} == {"comment", "trailing-comma"}
    assert str(problems[0]).endswith("comments.evalset.json:1:1: error: not strict JSON: a comment")
    assert validate([copy_eval_set("mixed_crlf_bom.evalset.json")])[0].severity == "warning"
    assert [problem.rule for problem in validate([copy_eval_set("odd_values.evalset.json")], strict=True)][:2] == [
        "not-a-number"
    ] * 2


def test_fix_removes_only_comments_and_trailing_commas(copy_eval_set: Callable[[str], Path]) -> None:
    path = copy_eval_set("comments.evalset.json")
    document = EvalSetDocument.open(path)
    cases = [document.raw_case(index) for index in range(len(document))]

    assert fix(path)

    text = path.read_text()
    assert json.loads(text)["eval_cases"] == cases
    assert text.startswith('\n{\n  "eval_set_id": "kettle_comments", \n')
    assert "Boil // not a comment, # nor this" in text
    assert validate([path], strict=True) == []
    assert not fix(path)


def test_fix_refuses_broken_json(write_file: Callable[..., Path]) -> None:
    path = write_file("{ // c\n oops }")

    with pytest.raises(StoreError, match=r":2:2: found 'oops', expected a key"):
        fix(path)

    assert path.read_text() == "{ // c\n oops }"


@pytest.mark.parametrize(
    ("content", "severity", "place"),
    [
        (_set(_case(x="X")).replace('"X"', '{"k": 1, "k": 2}'), "error", "eval_cases[0].x.k"),
        (_set(_case(x="X")).replace('"X"', '{"k": 1, "k": 1}'), "warning", "eval_cases[0].x.k"),
        (_set(_case(x="X")).replace('"X"', '{"k": true, "k": 1}'), "error", "eval_cases[0].x.k"),
        (_set(_case(conversation=1)).replace('conversation": 1', 'conversation": [], "conversation": [1]'),
         "error", "eval_cases[0].conversation"),
        (_set(CASE).replace("{", '{"eval_set_id": "other", ', 1), "error", "eval_set_id"),
        (_set(CASE).replace("{", '{"eval_cases": [], ', 1), "error", ""),
        ("/* c */" + _set(CASE).replace("{", '{"evalCases": [], ', 1), "error", ""),
        ('{"criteria": {"response_match_score": 0.9, "response_match_score": 0.1}}', "error",
         "criteria.response_match_score"),
        ('{"criteria": {"response_match_score": 0.9, "response_match_score": 0.9}}', "warning",
         "criteria.response_match_score"),
        ('{"criteria": {"response_match_score": 0.9}, "criteria": {"rouge_1": 0.1}}', "error", "criteria"),
        ('{"app_name": "a", "user_id": "u", "user_id": "v"}', "error", "user_id"),
    ],
)  # fmt: skip
def test_a_duplicate_key_is_an_error_if_data_is_lost(tmp_path: Path, content: str, severity: str, place: str) -> None:
    path = tmp_path / "kettle.json"
    path.write_text(content)

    found = [(problem.severity, problem.place) for problem in validate([path]) if problem.rule != "comment"]

    assert (severity, place) in found


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"criteria": {"a": 1}}', []),
        ('{"criteria": {"a": "x"}}', ["error: criteria.a: found 'x', expected a number"]),
        ('{"criteria": {"a": {"match_type": "EXACT"}}}', ["warning: criteria.a: without a threshold"]),
        ('{"criterias": {"a": 1}}',
         ["error: criterias: found the unknown key 'criterias', expected 'criteria' (did you mean that?)"]),
        ('{"criteria": {"m": 1}, "judge_metrics": {"m": {"metric_prompt_template": "{response}"}}}',
         ["warning: judge_metrics: ADK does not read"]),
        ('{"criteria": {"m": 1}, "judge_metrics": {"m": {"criteria": {}}}}',
         ["error: judge_metrics.m.criteria: found an empty object"]),
        ('{"criteria": {"m": 1}, "judge_metric": {}}', ["error: judge_metric: found the unknown key"]),
        ('{"criteria": {}, "user_simulator_config": {"type": "x"}}',
         ["warning: no criteria", "error: user_simulator_config.type"]),
        ('{"criteria": {"m": 1}, "customMetrics": {"m": {"codeConfig": {"name": "a.b", "x": 1}}}}',
         ["error: customMetrics.m.codeConfig.x: ADK refuses the unknown key 'x' in CodeConfig"]),
        ("{oops}", ["error: found 'oops', expected a key"]),
        (r'{"criteria": {"m": {"threshold": 1, "rubrics": [{"text": "\ud83e"}]}}}',
         ["error: criteria.m.rubrics[0].text: found half of a surrogate pair, expected whole characters"]),
        (f'{{"criteria": {{"m": {"1" * 310}}}}}', ["error: criteria.m: found an integer of about 310 digits"]),
        (f'{{"criteria": {{"m": {"1" * 4_301}}}}}', ["error: found an integer of 4301 digits"]),
        ('{"criteria": {"m": 1}, "custom_metrics": {"m": {"code_config": {"name": "a.b"}, "metric_info": '
         '{"metric_name": "m", "metric_value_info": {"interval": {"min_value": "x", "max_value": 1}}}}}}',
         ["error: custom_metrics.m.metric_info.metric_value_info.interval.min_value: found 'x', expected a number"]),
    ],
)  # fmt: skip
def test_configurations_are_checked_too(write_file: Callable[..., Path], content: str, expected: list[str]) -> None:
    problems = [str(problem).split(": ", 1)[1] for problem in validate([write_file(content, "test_config.json")])]

    assert len(problems) == len(expected)
    for problem, start in zip(problems, expected, strict=True):
        assert problem.startswith(start)


def test_all_files_of_a_folder_are_validated_despite_an_unreadable_one(write_file: Callable[..., Path]) -> None:
    bad = write_file(b"\xff", "bad.test.json")
    write_file(_set(_turn(note=1)), "good.evalset.json")
    write_file('{"criteria": {"a": []}}', "test_config.json")

    rules = [(problem.path.name, problem.rule) for problem in validate([bad.parent])]

    assert rules == [
        ("bad.test.json", "unreadable"),
        ("good.evalset.json", "unknown-key"),
        ("test_config.json", "schema"),
    ]


def test_a_truncated_set_is_reported_despite_another_with_the_same_id(write_file: Callable[..., Path]) -> None:
    whole = write_file(_set(_turn()), "whole.evalset.json")
    cut = write_file(whole.read_bytes()[: len(whole.read_bytes()) // 2], "cut.evalset.json")

    for order in ([whole, cut], [cut, whole]):
        assert {problem.path.name for problem in validate(order) if problem.severity == "error"} >= {"cut.evalset.json"}


def test_a_pipe_in_a_folder_is_skipped(write_file: Callable[..., Path]) -> None:
    good = write_file(_set(_turn()), "good.evalset.json")
    os.mkfifo(good.with_name("pipe.evalset.json"))

    assert validate([good.parent]) == validate([good])


def test_a_repeated_id_is_one_problem_with_its_first_cases(tmp_path: Path) -> None:
    path = tmp_path / "same.evalset.json"
    path.write_text(_set(*[CASE] * 1_000, _case(eval_id="b"), _case(eval_id="b")))

    found = [problem.message for problem in validate([path])]

    first = ", ".join(f"eval_cases[{index}]" for index in range(5))
    assert found == [
        f"found 'a' 1,000 times ({first}, …), expected a unique id",
        "found 'b' 2 times (eval_cases[1000], eval_cases[1001]), expected a unique id",
    ]


def test_the_first_twenty_problems_of_each_kind_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "many.evalset.json"
    path.write_text(_set(*({"eval_id": f"c{number}"} for number in range(2_000)), note=1))

    lines = list(first_of_each_kind(validate([path])))

    assert len(lines) == 22
    assert lines[-1].endswith("many.evalset.json: error: and 1,980 more of the kind schema")
    assert any("note" in line for line in lines)


def test_a_file_named_test_config_is_validated_as_a_configuration(tmp_path: Path) -> None:
    path = tmp_path / "test_config.json"
    path.write_text("[]")

    (problem,) = validate([path])

    assert problem.severity == "error"
    assert "expected an object with criteria" in problem.message
