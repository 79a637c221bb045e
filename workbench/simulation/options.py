"""`user_simulator_config` of an eval config: who plays the users of scenarios, and how.

Facts: google-adk 2.13, `LlmBackedUserSimulatorConfig`. Unlike there every mistake is found when the file is read, and a
key that nobody knows is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic.alias_generators import to_camel

from workbench.llm.configuration import unknown_keys
from workbench.llm.provider import is_of_google
from workbench.llm.templates import TemplateProblem, names_in
from workbench.model.criteria import EvalConfig, InvalidConfig
from workbench.model.model_names import wrong_vendor
from workbench.model.text import did_you_mean

SECTION = "user_simulator_config"
DEFAULT_LIMIT = 20
NO_LIMIT = -1

REQUIRED_NAMES = ("stop_signal", "conversation_plan", "conversation_history")
"""What custom instructions must make use of."""

KEYS = (
    "type",
    "model",
    "model_configuration",
    "max_allowed_invocations",
    "custom_instructions",
    "include_function_calls",
)
_TYPE = "llm_backed"
_AUDIO = "llm_audio"

# As in ADK, where a configuration does not say how the model is to be asked.
_THINKING: Mapping[str, Any] = {"thinking_config": {"include_thoughts": True, "thinking_budget": 10240}}


@dataclass(frozen=True, kw_only=True)
class UserOptions:
    """How users are played. `limit` is the most turns of a conversation, the starting prompt included; NO_LIMIT: none.

    `model_config` is a generation configuration in the words of the Gemini API. `instructions` is a template in place
    of ours. `with_calls`: the user sees the agent's tool calls and what they gave.
    """

    model: str
    model_config: Mapping[str, Any] = field(default_factory=dict)
    limit: int = DEFAULT_LIMIT
    instructions: str | None = None
    with_calls: bool = False


def read_user_options(config: EvalConfig, *, default_model: str) -> tuple[UserOptions, list[InvalidConfig]]:
    """The options of a config, and what is wrong with them; a wrong value reads as its default."""
    given = config.user_simulator_config or {}
    values = {_snake(name): value for name, value in given.items()}
    problems = list(_unknown(given))
    reader = _Reader(values, problems)
    kind = reader.read("type", str, default=_TYPE, expected=f"{_TYPE!r}")
    if kind == _AUDIO:
        reader.refuse("type", expected=f"{_TYPE!r}: users that speak aloud are not played here")
    elif kind != _TYPE:
        reader.refuse("type", expected=f"{_TYPE!r}")
    model = reader.read("model", str, default=default_model, expected="the name of a model")
    if "model" in values and not model.strip():
        reader.refuse("model", expected="the name of a model")
    elif (expected := wrong_vendor(model)) is not None:
        reader.refuse("model", expected=expected)
    limit = reader.read("max_allowed_invocations", int, default=DEFAULT_LIMIT, expected="a whole number")
    if limit < 1 and limit != NO_LIMIT:
        reader.refuse("max_allowed_invocations", expected="a number from 1 on, or -1 for no limit")
    instructions = reader.read("custom_instructions", str, default="", expected="a text")
    if instructions:
        problems += _problems_of(instructions)
    default_config = _THINKING if is_of_google(model) else {}
    model_config = reader.read("model_configuration", dict, default=dict(default_config), expected="an object")
    problems += unknown_keys(model_config, model=model, place=f"{SECTION}.model_configuration")
    options = UserOptions(
        model=model,
        model_config=model_config,
        limit=limit,
        instructions=instructions or None,
        with_calls=reader.read("include_function_calls", bool, default=False, expected="true or false"),
    )
    return options, problems


_T = TypeVar("_T")


class _Reader:
    def __init__(self, values: Mapping[str, Any], problems: list[InvalidConfig]) -> None:
        self._values = values
        self._problems = problems

    def read(self, name: str, kind: type[_T], *, default: _T, expected: str) -> _T:
        value = self._values.get(name)
        if value is None:
            return default
        if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
            return value
        self.refuse(name, expected=expected)
        return default

    def refuse(self, name: str, *, expected: str) -> None:
        value = self._values.get(name)
        found = "an object" if isinstance(value, Mapping) else "a list" if isinstance(value, list) else repr(value)
        self._problems.append(InvalidConfig(place=f"{SECTION}.{name}", found=found[:80], expected=expected))


def _unknown(given: Mapping[str, Any]) -> Iterator[InvalidConfig]:
    for name in given:
        if _snake(name) not in KEYS:
            expected = f"one of {', '.join(KEYS)}{did_you_mean(name, KEYS)}"
            yield InvalidConfig(place=f"{SECTION}.{name}", found=f"the unknown key {name!r}", expected=expected)


def _problems_of(instructions: str) -> Iterator[InvalidConfig]:
    place = f"{SECTION}.custom_instructions"
    try:
        names = names_in(instructions)
    except TemplateProblem as error:
        yield InvalidConfig(place=place, found=f"no template ({error})", expected="a jinja2 template")
        return
    for name in REQUIRED_NAMES:
        if name not in names:
            shown = "{{ " + name + " }}"
            yield InvalidConfig(place=place, found=f"no {shown}", expected=f"a template that makes use of {shown}")


def _snake(name: str) -> str:
    return next((known for known in KEYS if to_camel(known) == name), name)
