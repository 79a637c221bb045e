"""The tolerant reader of configurations and other JSON files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from workbench.store.errors import StoreError
from workbench.store.evalsets.config_files import load_config, read_json


def test_the_position_of_a_value_is_found_despite_comments(copy_eval_set: Callable[[str], Path]) -> None:
    loaded = read_json(copy_eval_set("test_config.json"))

    assert not loaded.strict
    assert loaded.data["criteria"]["response_match_score"] == {"threshold": "0.5"}
    assert loaded.position(("criteria", "response_match_score", "threshold")) == (4, 43)
    assert loaded.position(("criteria", "none")) == (2, 15)


def test_an_invalid_config_value_is_reported_with_its_position(write_file: Callable[..., Path]) -> None:
    path = write_file('{\n  "criteria": {"a b": {"threshold": []}}\n}', "c.json")

    with pytest.raises(StoreError) as caught:
        load_config(path)

    assert (caught.value.line, caught.value.expected) == (2, "a number, or an object with a number as threshold")
    assert caught.value.found == "a list"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"criterias": {"rouge_1": 1}}',
            "c.json:1:15: criterias: found the unknown key 'criterias', expected 'criteria'",
        ),
        ('{"criteria": {}, "customMetric": {}}', "customMetric: found the unknown key 'customMetric', expected"),
        (
            '{"rouge_1": 0.5}',
            "c.json:1:13: rouge_1: found the unknown key 'rouge_1', expected criteria inside",
        ),
        (
            '{"eval_set_id": "s", "eval_cases": []}',
            "eval_cases: found the unknown key 'eval_cases', expected 'criteria': this is an eval set",
        ),
        ('{"criteria": {}, "rouge_1": {"threshold": 1}}', "rouge_1: found the unknown key 'rouge_1', expected"),
    ],
)
def test_a_misspelt_key_never_selects_the_default_criteria(
    text: str, message: str, write_file: Callable[..., Path]
) -> None:
    with pytest.raises(StoreError) as caught:
        load_config(write_file(text, "c.json"))

    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["{}", '{"criteria": {}}', '{"note": "x", "strict": true}', '{"criteria": null}'])
def test_a_config_without_criteria_uses_the_default_ones(text: str, write_file: Callable[..., Path]) -> None:
    assert load_config(write_file(text, "c.json")).is_default


def test_foreign_keys_in_a_config_are_ignored(write_file: Callable[..., Path]) -> None:
    config = load_config(write_file('{"version": 2, "$schema": "s", "criteria": {"rouge_1": 1}}', "c.json"))

    assert [criterion.metric for criterion in config.criteria] == ["rouge_1"]


def test_a_config_is_read_with_its_file_as_source(copy_eval_set: Callable[[str], Path]) -> None:
    config = load_config(copy_eval_set("test_config.json"))

    assert [(criterion.metric, criterion.threshold) for criterion in config.criteria] == [
        ("tool_trajectory_avg_score", 1.0),
        ("response_match_score", 0.5),
    ]
    assert config.source.endswith("test_config.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": tru}', "1:7: found 'tru', expected a value"),
        ('{"a": 1 "b": 2}', "1:9: found \"b\", expected ',' or the closing bracket"),
        ('{"a" 1}', "1:6: found '1', expected ':' after the key"),
        ("{'a': 1}", "1:2: found \"'a'\", expected a key in double quotes"),
        ('{"a": "x\n"}', "1:9: found '\\n', expected a string without raw control characters"),
        ('{"a": "x', "1:7: found a string without its closing quote"),
        ('{"a": "\\q"}', "1:8: found \\q, expected an escape that JSON has"),
        ('{"a": "\\u12"}', "1:8: found \\u, expected four hexadecimal digits"),
        ('{"a": [1,,2]}', "1:10: found ',', expected a value"),
        ("[,]", "1:2: found ',', expected a value"),
        ('{"a": 1} x', "1:10: found 'x', expected the end of the file"),
        ("[1 /* open", "1:4: found '/*', expected ',' or the closing bracket"),
        ("# only a comment\n", "2:1: found the end of the file, expected a value"),
    ],
)
def test_broken_json_is_reported_with_position_found_and_expected(
    write_file: Callable[..., Path], text: str, message: str
) -> None:
    with pytest.raises(StoreError) as caught:
        read_json(write_file(text, "x.json"))

    assert message in str(caught.value)
