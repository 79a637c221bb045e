"""Simulated tools: the configuration of replies without a call of the tool.

The format is ADK's `EnvironmentSimulationConfig`. ADK's own reader accepts obvious mistakes (a misspelt key, a
probability of 50); here each mistake is reported with its place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import Field
from pydantic.alias_generators import to_camel

from workbench.model.criteria import explain_wrong_vendor
from workbench.model.facts import Fact
from workbench.model.text import one_line, suggest_name

LONGEST_LATENCY = 120.0  # seconds, as in ADK

_STRATEGIES = {0: False, 1: True, 2: True}
_STRATEGY_NAMES = {"MOCK_STRATEGY_UNSPECIFIED": 0, "MOCK_STRATEGY_TOOL_SPEC": 1, "MOCK_STRATEGY_TRACING": 2}


class InjectedError(Fact):
    """The reply of a tool that fails."""

    code: int
    message: str

    @property
    def answer(self) -> dict[str, Any]:
        """The reply for the agent, in ADK's format."""
        return {"error_code": self.code, "error_message": self.message}


class Injection(Fact):
    """A reply that replaces some calls of a tool: those with these arguments, at random.

    Without `match_args` every call matches. Without an `error` the `response` is used. Without `random_seed` the draw
    depends on the case and its repeat.
    """

    probability: float = 1.0
    match_args: dict[str, Any] | None = None
    latency_seconds: float = 0.0
    random_seed: int | None = None
    error: InjectedError | None = None
    response: Any = None

    @property
    def answer(self) -> Any:
        """The reply for the agent."""
        return self.response if self.error is None else self.error.answer


class SimulatedTool(Fact):
    """The simulation of one tool: the first matching injection that is drawn, else a model if `by_model` is set.

    `place` is the tool's place in the configuration, for messages. A call without a simulated reply reaches the tool.
    """

    name: str
    injections: tuple[Injection, ...] = ()
    by_model: bool = False
    place: str = ""


class Environment(Fact):
    """The content of a configuration file. `source` is the file as shown to people.

    `model` replies for tools that are simulated by a model (empty: the model of the settings). `configuration` are its
    parameters, as in the Gemini API. Its prompt contains `data`, the state of the simulated world, and `tracing`,
    recorded replies of tools.
    """

    tools: tuple[SimulatedTool, ...]
    model: str = ""
    configuration: dict[str, Any] = Field(default_factory=dict)
    data: str | None = None
    tracing: str | None = None
    source: str = ""

    @property
    def needs_model(self) -> bool:
        """True if a model replies for any tool."""
        return any(tool.by_model for tool in self.tools)

    @property
    def depends_on_case(self) -> bool:
        """True if a reply depends on the case."""
        injections = (injection for tool in self.tools for injection in tool.injections)
        return any(each.random_seed is None and each.probability < 1.0 for each in injections)


class Mistake(NamedTuple):
    """An invalid value and its place in the file."""

    place: tuple[str | int, ...]
    found: str
    expected: str


def read_environment(data: Any, *, source: str) -> tuple[Environment, list[Mistake]]:
    """Read a configuration that was parsed from JSON. Return it with all mistakes: with any, it must not be used.

    Both spellings of keys are accepted.
    """
    top = _Object(data, (), [])
    tool_items = top.get_value("tool_simulation_configs")
    if not isinstance(tool_items, list) or not tool_items:
        top.refuse("tool_simulation_configs", tool_items, "a list with at least one tool")
        tool_items = []
    place = top.get_place("tool_simulation_configs")
    tools = [_read_tool(_Object(item, (*place, index), top.mistakes)) for index, item in enumerate(tool_items)]
    _refuse_duplicates(tools, place, top.mistakes)
    model = top.read_text("simulation_model")
    if (expected := explain_wrong_vendor(model)) is not None:
        top.mistakes.append(Mistake(top.get_place("simulation_model"), repr(model), expected))
    environment = Environment(
        tools=tuple(tools),
        model=model,
        configuration=dict(top.read_mapping("simulation_model_configuration") or {}),
        data=_as_text(top.get_value("environment_data")),
        tracing=_as_text(top.get_value("tracing")),
        source=source,
    )
    top.refuse_unknown()
    return environment, top.mistakes


def _read_tool(item: _Object) -> SimulatedTool:
    name = item.read_text("tool_name", required=True)
    listed = item.get_value("injection_configs")
    if listed is not None and not isinstance(listed, list):
        item.refuse("injection_configs", listed, "a list")
    place = item.get_place("injection_configs")
    injections = [
        _read_injection(_Object(each, (*place, index), item.mistakes))
        for index, each in enumerate(listed if isinstance(listed, list) else ())
    ]
    by_model = _read_strategy(item)
    if item.is_object and not injections and not by_model and listed in (None, []):
        item.mistakes.append(
            Mistake(item.place, "neither injection_configs nor a mock_strategy_type", "one of them, or both")
        )
    item.refuse_unknown()
    return SimulatedTool(name=name, injections=tuple(injections), by_model=by_model)


def _read_strategy(item: _Object) -> bool:
    """True if a model replies. ADK's deprecated strategy of traces counts as this one, which also gets traces."""
    value = item.get_value("mock_strategy_type")
    number = _STRATEGY_NAMES.get(value.strip().upper()) if isinstance(value, str) else value
    if value is None:
        return False
    if isinstance(number, bool) or not isinstance(number, int) or number not in _STRATEGIES:
        item.refuse("mock_strategy_type", value, "MOCK_STRATEGY_TOOL_SPEC (or 1)")
        return False
    return _STRATEGIES[number]


def _read_injection(item: _Object) -> Injection:
    probability = item.read_number("injection_probability", 1.0, lowest=0.0, highest=1.0)
    latency = item.read_number("injected_latency_seconds", 0.0, lowest=0.0, highest=LONGEST_LATENCY)
    response, error = item.get_value("injected_response"), item.get_value("injected_error")
    if item.is_object and (response is None) == (error is None):
        found = "neither injected_error nor injected_response" if error is None else "both of them"
        item.mistakes.append(Mistake(item.place, found, "either injected_error or injected_response"))
    injection = Injection(
        probability=probability,
        match_args=item.read_mapping("match_args"),
        latency_seconds=latency,
        random_seed=item.read_integer("random_seed"),
        error=None if error is None else _read_error(item.get_object("injected_error", error)),
        response=response,
    )
    item.refuse_unknown()
    return injection


def _read_error(item: _Object) -> InjectedError:
    error = InjectedError(
        code=item.read_integer("injected_http_error_code", required=True) or 0,
        message=item.read_text("error_message", required=True),
    )
    item.refuse_unknown()
    return error


def _refuse_duplicates(tools: list[SimulatedTool], place: tuple[str | int, ...], mistakes: list[Mistake]) -> None:
    first_indices: dict[str, int] = {}
    for index, tool in enumerate(tools):
        first_index = first_indices.setdefault(tool.name, index)
        if tool.name and first_index != index:
            expected = f"each tool once ({tool.name!r} is number {first_index} already)"
            mistakes.append(Mistake((*place, index, "tool_name"), repr(tool.name), expected))


class _Object:
    """An object of the file that is read key by key in either spelling; faults are added to `mistakes`."""

    def __init__(self, data: Any, place: tuple[str | int, ...], mistakes: list[Mistake]) -> None:
        self.place = place
        self.mistakes = mistakes
        self.is_object = isinstance(data, Mapping)
        self._data: Mapping[str, Any] = data if isinstance(data, Mapping) else {}
        self._names_read: list[str] = []
        if not self.is_object:
            mistakes.append(Mistake(place, _describe_kind(data), "an object"))

    def get_value(self, name: str) -> Any:
        """Return the value of a key; None if it is missing."""
        self._names_read.append(name)
        return self._data.get(self._get_spelling(name))

    def get_place(self, name: str) -> tuple[str | int, ...]:
        """Return the place of a key, as the file spells it."""
        return (*self.place, self._get_spelling(name))

    def get_object(self, name: str, value: Any) -> _Object:
        """Return the object under a key."""
        return _Object(value, self.get_place(name), self.mistakes)

    def read_text(self, name: str, *, required: bool = False) -> str:
        value = self.get_value(name)
        if value is None and not required:
            return ""
        if isinstance(value, str) and value.strip():
            return value
        if self.is_object:
            self.refuse(name, value, "text")
        return ""

    def read_mapping(self, name: str) -> dict[str, Any] | None:
        value = self.get_value(name)
        if value is None or isinstance(value, Mapping):
            return None if value is None else dict(value)
        self.refuse(name, value, "an object")
        return None

    def read_number(self, name: str, default: float, *, lowest: float, highest: float) -> float:
        value = self.get_value(name)
        if value is None:
            return default
        if isinstance(value, int | float) and not isinstance(value, bool) and lowest <= value <= highest:
            return float(value)
        self.refuse(name, value, f"a number from {lowest:g} to {highest:g}")
        return default

    def read_integer(self, name: str, *, required: bool = False) -> int | None:
        value = self.get_value(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if (value is not None or required) and self.is_object:
            self.refuse(name, value, "a whole number")
        return None

    def refuse(self, name: str, value: Any, expected: str) -> None:
        self.mistakes.append(Mistake(self.get_place(name), _describe_kind(value), expected))

    def refuse_unknown(self) -> None:
        """Report keys that were not read."""
        for key in self._data:
            if not any(key == self._get_spelling(name) for name in self._names_read):
                expected = f"one of {', '.join(self._names_read)}{suggest_name(key, self._names_read)}"
                self.mistakes.append(Mistake((*self.place, key), f"the unknown key {key!r}", expected))

    def _get_spelling(self, name: str) -> str:
        camel = to_camel(name)
        return camel if name not in self._data and camel in self._data else name


def _as_text(value: Any) -> str | None:
    """Return JSON values as text, which ADK requires: the file may contain the value itself."""
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _describe_kind(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    return one_line(json.dumps(value, ensure_ascii=False), width=60)
