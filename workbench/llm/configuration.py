"""The words of a generation configuration: which keys a model can be told, so that a misspelt one is found unasked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic.alias_generators import to_camel

from workbench.llm.provider import is_of_google
from workbench.model.config_values import InvalidConfig
from workbench.model.text import did_you_mean

KEYS = frozenset(
    {
        "audio_timestamp",
        "audio_transcription_config",
        "automatic_continuation",
        "automatic_function_calling",
        "cached_content",
        "candidate_count",
        "continuation_token",
        "enable_enhanced_civic_answers",
        "frequency_penalty",
        "generation_output_config",
        "http_options",
        "image_config",
        "labels",
        "logprobs",
        "max_output_tokens",
        "media_resolution",
        "model_armor_config",
        "model_selection_config",
        "presence_penalty",
        "response_json_schema",
        "response_logprobs",
        "response_mime_type",
        "response_modalities",
        "response_schema",
        "routing_config",
        "safety_settings",
        "seed",
        "service_tier",
        "should_return_http_response",
        "speech_config",
        "stop_sequences",
        "store",
        "system_instruction",
        "temperature",
        "thinking_config",
        "tool_config",
        "tools",
        "top_k",
        "top_p",
    }
)
"""Those of google-genai's GenerateContentConfig. Its import takes a second and more, hence a list."""

THINKING_KEYS = frozenset({"include_thoughts", "thinking_budget", "thinking_level"})
"""Those of its ThinkingConfig."""

ELSEWHERE: Mapping[str, str] = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "max_output_tokens": "max_tokens",
    "stop_sequences": "stop",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}
"""Those that models of other providers can be told, and what LiteLLM calls them, in the words of OpenAI."""

NOT_SAID_ELSEWHERE = frozenset({"thinking_config", "safety_settings", "http_options", "labels"})
"""Those that change nothing in what models of other providers are asked."""


def unknown_keys(config: Mapping[str, Any], *, model: str, place: str) -> Iterator[InvalidConfig]:
    """A problem for each key of a generation configuration, at `place` of a file, that this model cannot be told.

    Keys may be in snake_case or camelCase. Where it is not known which model will be asked it counts as one of Google.
    """
    if is_of_google(model):
        yield from _unknown(config, KEYS, place=place)
    else:
        yield from _unknown(config, _KNOWN_ELSEWHERE, place=place)
    for name, value in config.items():
        if snake(name) == "thinking_config" and isinstance(value, Mapping):
            yield from _unknown(value, THINKING_KEYS, place=f"{place}.{name}")


def snake(name: str) -> str:
    """A key in snake_case where it is one of ours in camelCase; any other as it is."""
    return _SNAKE.get(name, name)


_KNOWN_ELSEWHERE = NOT_SAID_ELSEWHERE.union(ELSEWHERE)
_SNAKE = {to_camel(name): name for name in KEYS | THINKING_KEYS}


def _unknown(config: Mapping[str, Any], known: frozenset[str], *, place: str) -> Iterator[InvalidConfig]:
    for name in config:
        if snake(name) in known:
            continue
        expected = "a key of GenerateContentConfig" if known == KEYS else f"one of {', '.join(sorted(known))}"
        if known == _KNOWN_ELSEWHERE and snake(name) in KEYS:  # it is spelt right
            found = f"the key {name!r}, which models of other providers are not told"
        else:
            found = f"the unknown key {name!r}"
            expected += did_you_mean(name, sorted({*known, *map(to_camel, known)}))
        yield InvalidConfig(place=f"{place}.{name}", found=found, expected=expected)
