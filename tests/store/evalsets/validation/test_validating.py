"""Validation reports cases that cannot run, input that ADK refuses, and invalid JSON, with their position."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.store.evalsets.cases import CASE, make_case, make_set, make_turn
from workbench.store.errors import StoreError
from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.store.evalsets.validation import fix, validate


def test_a_duplicate_set_id_is_reported_with_the_other_file(write_file: Callable[..., Path]) -> None:
    one, two = write_file(make_set(CASE), "one.test.json"), write_file(make_set(CASE), "two.test.json")

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
        (make_set(make_case(x="X")).replace('"X"', '{"k": 1, "k": 2}'), "error", "eval_cases[0].x.k"),
        (make_set(make_case(x="X")).replace('"X"', '{"k": 1, "k": 1}'), "warning", "eval_cases[0].x.k"),
        (make_set(make_case(x="X")).replace('"X"', '{"k": true, "k": 1}'), "error", "eval_cases[0].x.k"),
        (make_set(make_case(conversation=1)).replace('conversation": 1', 'conversation": [], "conversation": [1]'),
         "error", "eval_cases[0].conversation"),
        (make_set(CASE).replace("{", '{"eval_set_id": "other", ', 1), "error", "eval_set_id"),
        (make_set(CASE).replace("{", '{"eval_cases": [], ', 1), "error", ""),
        ("/* c */" + make_set(CASE).replace("{", '{"evalCases": [], ', 1), "error", ""),
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
    write_file(make_set(make_turn(note=1)), "good.evalset.json")
    write_file('{"criteria": {"a": []}}', "test_config.json")

    rules = [(problem.path.name, problem.rule) for problem in validate([bad.parent])]

    assert rules == [
        ("bad.test.json", "unreadable"),
        ("good.evalset.json", "unknown-key"),
        ("test_config.json", "schema"),
    ]


def test_a_truncated_set_is_reported_despite_another_with_the_same_id(write_file: Callable[..., Path]) -> None:
    whole = write_file(make_set(make_turn()), "whole.evalset.json")
    cut = write_file(whole.read_bytes()[: len(whole.read_bytes()) // 2], "cut.evalset.json")

    for order in ([whole, cut], [cut, whole]):
        assert {problem.path.name for problem in validate(order) if problem.severity == "error"} >= {"cut.evalset.json"}


def test_a_pipe_in_a_folder_is_skipped(write_file: Callable[..., Path]) -> None:
    good = write_file(make_set(make_turn()), "good.evalset.json")
    os.mkfifo(good.with_name("pipe.evalset.json"))

    assert validate([good.parent]) == validate([good])


def test_a_repeated_id_is_one_problem_with_its_first_cases(tmp_path: Path) -> None:
    path = tmp_path / "same.evalset.json"
    path.write_text(make_set(*[CASE] * 1_000, make_case(eval_id="b"), make_case(eval_id="b")))

    found = [problem.message for problem in validate([path])]

    first = ", ".join(f"eval_cases[{index}]" for index in range(5))
    assert found == [
        f"found 'a' 1,000 times ({first}, …), expected a unique id",
        "found 'b' 2 times (eval_cases[1000], eval_cases[1001]), expected a unique id",
    ]


def test_a_file_named_test_config_is_validated_as_a_configuration(tmp_path: Path) -> None:
    path = tmp_path / "test_config.json"
    path.write_text("[]")

    (problem,) = validate([path])

    assert problem.severity == "error"
    assert "expected an object with criteria" in problem.message
