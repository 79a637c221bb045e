"""Rules for comparing the arguments of tool calls: the option `args_match` of the trajectory metrics.

```json
"args_match": {
  "default": "exact",
  "tools": {
    "log_event": "ignore",
    "search": {"mode": "superset",
               "arguments": {"query": {"regex": ".*weather.*"}, "limit": {"absolute": 5}, "request_id": "ignore"}}
  }
} ``` `default` holds for every tool without rules of its own; a text in place of the whole object is the default. A
mode says how the arguments of a call are compared, seen from the call that the agent made: *exact* the same ones,
*subset* no others than expected, *superset* at least the expected, *ignore* not at all. `arguments` says how single
values are: *exact*, *ignore* (may be missing), *any* (must be there if expected), *subset* and *superset* of an
object's keys or a list's items, *regex* (the whole text must match the pattern given, or the expected value as
pattern), or a number within an *absolute* or *relative* distance of the expected one (either suffices). Values are
compared in canonical form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.metrics.canonical import canonical, same
from workbench.metrics.matching import count_shared
from workbench.metrics.options import Options, describe, is_number
from workbench.model.trajectory import ToolCall

MODES = ("exact", "ignore", "subset", "superset")
VALUE_RULES = ("exact", "ignore", "any", "subset", "superset", "regex")
_TOLERANCES = {"absolute", "relative"}
_EXPECTED_RULE = (
    f'one of {", ".join(VALUE_RULES)}, {{"regex": pattern}}, or {{"absolute": number}} and/or {{"relative": number}}'
)

ValueRule = Callable[[Any, Any], bool]
"""Whether the actual value of an argument is as good as the expected one."""


class RuleError(ValueError):
    """A rule that cannot be applied to what a case expects, such as a text that is no pattern."""


@dataclass(frozen=True)
class CallRule:
    """How the arguments of one tool are compared."""

    mode: str = "exact"
    arguments: Mapping[str, ValueRule | None] = field(default_factory=dict)  # None: ignored, may be missing

    def fits(self, actual: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
        """Whether the arguments of an actual call fit those of an expected one."""
        if self.mode == "ignore" and not self.arguments:
            return True
        ignored = {name for name, rule in self.arguments.items() if rule is None}
        names, wanted = actual.keys() - ignored, expected.keys() - ignored
        if self.mode == "ignore":
            # Only the arguments with a rule of their own still count.
            names, wanted = names & self.arguments.keys(), wanted & self.arguments.keys()
        if self.mode != "superset" and not names <= wanted:
            return False
        if self.mode != "subset" and not wanted <= names:
            return False
        return all((self.arguments.get(name) or same)(actual[name], expected[name]) for name in names & wanted)


@dataclass(frozen=True)
class ArgumentRules:
    """How calls are compared: by name, then by the rule of their tool."""

    default: CallRule = CallRule()
    tools: Mapping[str, CallRule] = field(default_factory=dict)

    def fits(self, actual: ToolCall, expected: ToolCall) -> bool:
        """Whether an actual call is as good as the expected one. Raises RuleError."""
        if actual.name != expected.name:
            return False
        return self.tools.get(actual.name, self.default).fits(actual.args or {}, expected.args or {})


def read_argument_rules(options: Options) -> ArgumentRules | None:
    """Read the option `args_match`; None where there is none."""
    value = options.raw("args_match")
    if value is None:
        return None
    if isinstance(value, str):
        value = {"default": value}
    if not isinstance(value, Mapping):
        options.refuse("args_match", found=describe(value), expected='a mode, or an object with "default" and "tools"')
        return None
    _refuse_unknown(value, {"default", "tools"}, "args_match", options)
    tools = value.get("tools", {})
    if not isinstance(tools, Mapping):
        options.refuse("args_match.tools", found=describe(tools), expected="an object from tool names to rules")
        tools = {}
    return ArgumentRules(
        default=_read_call_rule(value.get("default", "exact"), "args_match.default", options),
        tools={name: _read_call_rule(rule, f"args_match.tools.{name}", options) for name, rule in tools.items()},
    )


def _read_call_rule(value: Any, place: str, options: Options) -> CallRule:
    if isinstance(value, str):
        return CallRule(mode=_read_mode(value, place, options))
    if not isinstance(value, Mapping):
        options.refuse(place, found=describe(value), expected=f"one of {', '.join(MODES)}, or an object")
        return CallRule()
    _refuse_unknown(value, {"mode", "arguments"}, place, options)
    return CallRule(
        mode=_read_mode(value.get("mode", "exact"), f"{place}.mode", options),
        arguments=_read_value_rules(value.get("arguments", {}), f"{place}.arguments", options),
    )


def _read_mode(value: Any, place: str, options: Options) -> str:
    if value in MODES:
        return str(value)
    options.refuse(place, found=describe(value), expected=f"one of {', '.join(MODES)}")
    return "exact"


def _read_value_rules(value: Any, place: str, options: Options) -> Mapping[str, ValueRule | None]:
    if not isinstance(value, Mapping):
        options.refuse(place, found=describe(value), expected="an object from argument names to rules")
        return {}
    return {name: _read_value_rule(rule, f"{place}.{name}", options) for name, rule in value.items()}


def _read_value_rule(value: Any, place: str, options: Options) -> ValueRule | None:
    if isinstance(value, str) and value in _NAMED_RULES:
        return _NAMED_RULES[value]
    if isinstance(value, Mapping) and set(value) == {"regex"}:
        return _pattern_rule(value["regex"], f"{place}.regex", options)
    if isinstance(value, Mapping) and value and _TOLERANCES.issuperset(value):
        return _tolerance_rule(value, place, options)
    options.refuse(place, found=describe(value), expected=_EXPECTED_RULE)
    return None


def _refuse_unknown(value: Mapping[str, Any], known: set[str], place: str, options: Options) -> None:
    for key in value.keys() - known:
        options.refuse(f"{place}.{key}", found="an unknown key", expected=" or ".join(sorted(known)))


def _pattern_rule(pattern: Any, place: str, options: Options) -> ValueRule | None:
    try:
        compiled = re.compile(pattern, re.DOTALL)
    except (re.error, TypeError) as error:
        options.refuse(place, found=describe(pattern), expected=f"a regular expression ({error})")
        return None
    return lambda actual, _expected: compiled.fullmatch(_text(actual)) is not None


def _tolerance_rule(value: Mapping[str, Any], place: str, options: Options) -> ValueRule | None:
    for name, distance in value.items():
        if not is_number(distance) or distance < 0:
            options.refuse(f"{place}.{name}", found=describe(distance), expected="a number of at least 0")
            return None
    absolute, relative = value.get("absolute", 0.0), value.get("relative", 0.0)

    def is_close(actual: Any, expected: Any) -> bool:
        if not is_number(actual) or not is_number(expected):
            return same(actual, expected)
        return bool(abs(actual - expected) <= max(absolute, relative * abs(expected)))

    return is_close


def _matches_expected_pattern(actual: Any, expected: Any) -> bool:
    try:
        return re.fullmatch(_text(expected), _text(actual), re.DOTALL) is not None
    except re.error as error:
        raise RuleError(f"the expected argument {describe(expected)} is no regular expression ({error})") from error


def _text(value: Any) -> str:
    """The text that a pattern is held against; numbers and booleans as JSON writes them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else "null" if value is None else str(value)


def _is_part(part: Any, whole: Any) -> bool:
    """Whether `whole` has every key (with an equal value) or every item (one for one) of `part`."""
    if isinstance(part, Mapping) and isinstance(whole, Mapping):
        return all(key in whole and same(item, whole[key]) for key, item in part.items())
    if isinstance(part, list | tuple) and isinstance(whole, list | tuple):
        return count_shared([canonical(item) for item in part], [canonical(item) for item in whole]) == len(part)
    return same(part, whole)


_NAMED_RULES: Mapping[str, ValueRule | None] = {
    "exact": same,
    "ignore": None,
    "any": lambda _actual, _expected: True,
    "subset": _is_part,
    "superset": lambda actual, expected: _is_part(expected, actual),
    "regex": _matches_expected_pattern,
}
