"""The keys of a generation configuration: known keys of the library, and problems with unknown keys."""

from __future__ import annotations

import pytest
from google.genai import types

from workbench.llm.gemini import IGNORED_LITELLM_KEYS, KEYS, LITELLM_KEYS, THINKING_KEYS, find_unknown_keys


def list_problems(config: dict[str, object], model: str = "gemini-2.5-flash") -> list[str]:
    return [str(problem) for problem in find_unknown_keys(config, model=model, place="config")]


def test_the_known_keys_match_the_fields_of_the_library() -> None:
    assert types.GenerateContentConfig.model_fields.keys() == KEYS
    assert types.ThinkingConfig.model_fields.keys() == THINKING_KEYS
    assert LITELLM_KEYS.keys() | IGNORED_LITELLM_KEYS < KEYS


def test_every_key_may_be_written_in_snake_and_in_camel_case() -> None:
    fields = {**types.GenerateContentConfig.model_fields, **types.ThinkingConfig.model_fields}
    aliases = {name: field.alias or name for name, field in fields.items()}
    thinking = dict.fromkeys([*THINKING_KEYS, *(aliases[name] for name in THINKING_KEYS)])

    assert (
        list_problems({**dict.fromkeys([*KEYS, *(aliases[name] for name in KEYS)]), "thinking_config": thinking}) == []
    )


@pytest.mark.parametrize(
    ("config", "model", "problem"),
    [
        ({"temprature": 0}, "", "temprature: found the unknown key 'temprature', expected a key of "
         "GenerateContentConfig; did you mean 'temperature'?"),
        ({"maxOutputToken": 1}, "gemini-x", "did you mean 'maxOutputTokens'?"),
        ({"max_output_token": 1}, "gemini-x", "did you mean 'max_output_tokens'?"),
        ({"thinkingConfig": {"thinking_budgets": 1}}, "gemini-x", "config.thinkingConfig.thinking_budgets: found the "
         "unknown key 'thinking_budgets', expected one of include_thoughts, thinking_budget, thinking_level; did you "
         "mean 'thinking_budget'?"),
        ({"responseModalities": []}, "openai/x", "found the key 'responseModalities', which models of other providers "
         "do not receive, expected one of frequency_penalty, http_options, labels, "),
        ({"thinking_config": {"seed": 1}}, "gemini-x", "found the unknown key 'seed', expected one of include"),
    ],
)  # fmt: skip
def test_an_unknown_key_is_reported_with_the_nearest_known_one(
    config: dict[str, object], model: str, problem: str
) -> None:
    (reported_problem,) = list_problems(config, model)

    assert problem in reported_problem
