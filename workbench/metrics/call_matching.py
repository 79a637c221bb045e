"""Comparison of expected and actual tool calls, argument by argument."""

from __future__ import annotations

import operator
import re
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple, Protocol

from workbench.metrics.case_view import (
    CallsUnknown,
    CaseView,
    Turn,
    canonical,
    count_assigned,
    count_equal,
    count_shared,
    is_fitting_subsequence,
    is_subsequence,
)
from workbench.metrics.metric_types import Options, TurnJudge, describe, is_number
from workbench.model.evalset import Invocation
from workbench.model.patterns import Pattern, PatternError, PatternTooSlow
from workbench.model.results import Score
from workbench.model.text import suggest_name
from workbench.model.trace import ToolCall, Trajectory

# Declared arguments of tools, from the declarations that the agent gave to its models (if it reports them).

ANYTHING = "*"
"""Matches any argument, at the end of a path to an object without a schema."""

_COMBINING = ("$ref", "anyOf", "any_of", "oneOf", "allOf")
_DEPTH_AT_MOST = 8
_PLAIN = frozenset({"STRING", "INTEGER", "NUMBER", "BOOLEAN", "NULL"})


def declared_arguments(turns: Iterable[Turn]) -> Mapping[str, Set[str]]:
    """Return the arguments of each declared tool as dotted paths. Tools without a declaration are missing."""
    declared: dict[str, set[str]] = {}
    for turn in turns:
        for name, schema in iterate_declarations(turn.actual):
            declared.setdefault(name, set()).update(_iter_paths(schema))
    return declared


def iterate_declarations(invocation: Invocation | None) -> Iterator[tuple[str, Any]]:
    """Yield names and parameters of the tools that all agents of an actual invocation declared to their models."""
    details = (invocation.app_details or {}) if invocation is not None else {}
    agents = details.get("agent_details") or details.get("agentDetails")
    for agent in agents.values() if isinstance(agents, Mapping) else ():
        tools = agent.get("tool_declarations") or agent.get("toolDeclarations") if isinstance(agent, dict) else None
        yield from _iter_declarations(tools)


def _iter_declarations(tools: Any) -> Iterator[tuple[str, Any]]:
    """Yield names and parameters from tool declarations in the format of google.genai."""
    for tool in tools if isinstance(tools, list) else ():
        functions = (
            tool.get("function_declarations") or tool.get("functionDeclarations") if isinstance(tool, dict) else ()
        )
        for function in functions if isinstance(functions, list) else ():
            if isinstance(function, dict) and isinstance(function.get("name"), str):
                schemas = (function.get(key) for key in _PARAMETERS)
                yield function["name"], next(filter(None, schemas), {"properties": {}})


def _is_plain(schema: Mapping[str, Any]) -> bool:
    """True for the schema of a value without parts, such as a number."""
    types = schema.get("type")
    types = [types] if isinstance(types, str) else types if isinstance(types, list) else []
    return bool(types) and all(str(name).upper() in _PLAIN for name in types)


_PARAMETERS = ("parameters", "parameters_json_schema", "parametersJsonSchema")


def _iter_paths(schema: Any, prefix: str = "", depth: int = 0) -> Iterator[str]:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if isinstance(schema, Mapping) and _is_plain(schema):
        return
    is_open = (
        not isinstance(properties, Mapping)
        or depth > _DEPTH_AT_MOST
        or any(key in schema for key in _COMBINING)
        or schema.get("additionalProperties", schema.get("additional_properties")) not in (None, False)
    )
    if is_open:
        yield f"{prefix}{ANYTHING}"
    for name, inner in properties.items() if isinstance(properties, Mapping) and depth <= _DEPTH_AT_MOST else ():
        yield f"{prefix}{name}"
        yield from _iter_paths(inner, f"{prefix}{name}.", depth + 1)


# Rules for comparing the arguments of tool calls: the option `args_match` of the trajectory metrics.

MODES = ("exact", "ignore", "subset", "superset")
VALUE_RULES = ("exact", "ignore", "any", "subset", "superset", "regex")
_TOLERANCES = {"absolute", "relative"}
_EXPECTED_RULE = (
    f'one of {", ".join(VALUE_RULES)}, {{"regex": pattern}}, or {{"absolute": number}} and/or {{"relative": number}}'
)

Form = Callable[[Any], Hashable]
"""The form in which values are compared: `canonical`, or `python_form` in which true and 1 are equal."""


def python_form(value: Any) -> Hashable:
    """Return the canonical form with true as 1 and false as 0: ADK and agentevals compare by Python's `==`."""
    return canonical(_without_booleans(value))


def _without_booleans(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, dict):
        return {key: _without_booleans(item) for key, item in value.items()}
    return [_without_booleans(item) for item in value] if isinstance(value, list | tuple) else value


_MISSING = object()

ValueRule = Callable[[Any, Any, Form], bool]
"""Decides whether the actual value of an argument matches the expected one."""

SECONDS_AT_MOST = 5.0
"""The time limit for comparing the calls of one turn."""

_NAMES_AT_MOST = 1000  # argument names to search for a misspelt one
_NAMES_SHOWN = 10
_NAME_LENGTH_AT_MOST = 60


class RuleError(ValueError):
    """A rule cannot be applied to the expectations of a case, such as a text that is no pattern."""


@dataclass(frozen=True)
class CallRule:
    """How the arguments of one tool are compared."""

    mode: str = "exact"
    arguments: Mapping[str, ValueRule | None] = field(default_factory=dict)  # None: ignored, may be missing

    def fits(self, actual: Mapping[str, Any], expected: Mapping[str, Any], form: Form) -> bool:
        """True if the arguments of an actual call match those of an expected one."""
        if self.mode == "ignore" and not self.arguments:
            return True
        paths = [name for name in self.arguments if "." in name and name not in actual and name not in expected]
        if paths:
            actual, expected = _lift(actual, paths), _lift(expected, paths)
        ignored = {name for name, rule in self.arguments.items() if rule is None}
        actual_names, expected_names = actual.keys() - ignored, expected.keys() - ignored
        if self.mode == "ignore":
            # Only the arguments with their own rule count.
            actual_names, expected_names = actual_names & self.arguments.keys(), expected_names & self.arguments.keys()
        if self.mode != "superset" and not actual_names <= expected_names:
            return False
        if self.mode != "subset" and not expected_names <= actual_names:
            return False
        rules = ((name, self.arguments.get(name) or _is_same) for name in actual_names & expected_names)
        return all(rule(actual[name], expected[name], form) for name, rule in rules)


@dataclass(frozen=True)
class KeysRule(CallRule):
    """Only these arguments are compared, all by equality. A missing one is equal to null, as in agentevals."""

    @classmethod
    def of_keys(cls, keys: Iterable[str]) -> KeysRule:
        """Make the rule. Dotted keys are paths into objects."""
        return cls(mode="ignore", arguments=dict.fromkeys(keys, _is_same))

    def fits(self, actual: Mapping[str, Any], expected: Mapping[str, Any], form: Form) -> bool:
        return all(_is_same(_find_value(actual, key), _find_value(expected, key), form) for key in self.arguments)


@dataclass(frozen=True)
class FunctionRule(CallRule):
    """A function of the caller compares the arguments: `f(actual, expected)` returns True if they match."""

    function: Callable[[dict[str, Any], dict[str, Any]], Any] = operator.eq

    def fits(self, actual: Mapping[str, Any], expected: Mapping[str, Any], form: Form) -> bool:
        """See CallRule. Raises what the function raises."""
        del form
        return bool(self.function(dict(actual), dict(expected)))


@dataclass(frozen=True)
class ArgumentRules:
    """How calls are compared: by name, then by the rule of their tool."""

    default: CallRule = CallRule()
    tools: Mapping[str, CallRule] = field(default_factory=dict)
    form: Form = canonical

    def fits(self, actual: ToolCall, expected: ToolCall) -> bool:
        """True if an actual call matches the expected one. Raises RuleError."""
        if actual.name != expected.name:
            return False
        return self.tools.get(actual.name, self.default).fits(actual.args or {}, expected.args or {}, self.form)

    def within_time_limit(self) -> Callable[[ToolCall, ToolCall], bool]:
        """Return `fits` with one time limit for all calls of a turn. It raises RuleError, also at the time limit."""
        end = time.monotonic() + SECONDS_AT_MOST

        def fits(actual: ToolCall, expected: ToolCall) -> bool:
            if time.monotonic() > end:
                raise RuleError(f"args_match needs more than {SECONDS_AT_MOST:g} s to compare the calls of one turn")
            return self.fits(actual, expected)

        return fits

    @property
    def has_patterns(self) -> bool:
        """True if comparing two calls may take as long as a regular expression needs."""
        rules = (self.default, *self.tools.values())
        return any(isinstance(value, _PatternRule) for rule in rules for value in rule.arguments.values())

    def find_unmatched(self, calls: Trajectory, declared: Mapping[str, Set[str]]) -> Iterator[str]:
        """Find the names in the rules that match nothing in a case; yield a text for each.

        `calls` are the calls of both sides, `declared` is the result of `declared_arguments`. Ignored arguments are
        reported too: their names may be misspelt. Raises RuleError for an argument that a tool does not declare, and
        for rules that compare nothing at all.
        """
        args_by_tool: dict[str, list[Mapping[str, Any]]] = {}
        for call in calls:
            args_by_tool.setdefault(call.name, []).append(call.args or {})
        for name in self.tools.keys() - args_by_tool.keys() - declared.keys():
            near = suggest_name(name, args_by_tool.keys() | declared.keys())
            if near:
                yield f"args_match.tools.{name}: no tool of this name was called{near}"
        for name in self.tools.keys() & args_by_tool.keys():
            yield from _find_unmatched_arguments(
                self.tools[name], args_by_tool[name], declared.get(name), f"args_match.tools.{name}"
            )
        other_args = [args for name, of_tool in args_by_tool.items() if name not in self.tools for args in of_tool]
        if other_args:
            yield from _find_unmatched_arguments(self.default, other_args, None, "args_match.default")


def _find_unmatched_arguments(
    rule: CallRule, calls: list[Mapping[str, Any]], declared: Set[str] | None, place: str
) -> Iterator[str]:
    """See `ArgumentRules.find_unmatched`; `declared` is None if the tool's arguments are unknown."""
    unmatched = [name for name in rule.arguments if not any(_has_path(args, name) for args in calls)]
    if declared is not None:
        undeclared = [name for name in unmatched if not _is_declared(name, declared)]
        for name in undeclared:
            near = (
                suggest_name(name, declared)
                or f"; expected one of {', '.join(sorted(declared)[:_NAMES_SHOWN]) or 'none'}"
            )
            raise RuleError(f"{place}.arguments.{name}: the tool has no such argument{near}")
        # Only an object without a schema can hold the argument, and some call has this object without it.
        unmatched = [name for name in unmatched if name not in declared and _has_parent_object(calls, name)]
    names = sorted(set(islice((path for args in calls for path in _iter_call_paths(args)), _NAMES_AT_MOST)))
    if rule.mode == "ignore" and unmatched and len(unmatched) == len(rule.arguments) and names:
        raise RuleError(
            f"{place} compares nothing: no call has {' or '.join(map(repr, unmatched))}, and all other arguments are "
            f"ignored{suggest_name(unmatched[0], names) or '; expected one of ' + ', '.join(names[:_NAMES_SHOWN])}"
        )
    for name in unmatched:
        undeclared_too = "" if declared is None else ", and the tool does not declare it"
        yield f"{place}.arguments.{name}: no call has this argument{undeclared_too}{suggest_name(name, names)}"


def _has_parent_object(calls: list[Mapping[str, Any]], name: str) -> bool:
    """Whether some call has the object that a path leads into."""
    above = name.rpartition(".")[0]
    return any(_has_path(args, above) if above else args for args in calls)


def _is_declared(name: str, declared: Set[str]) -> bool:
    steps = name.split(".")
    return name in declared or any(".".join([*steps[:end], ANYTHING]) in declared for end in range(len(steps)))


def read_argument_rules(options: Options, form: Form = canonical) -> ArgumentRules | None:
    """Read the option `args_match`; None if it is missing. Values are compared in `form`."""
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
        form=form,
    )


def _read_call_rule(value: Any, place: str, options: Options) -> CallRule:
    if isinstance(value, str):
        return CallRule(mode=_read_mode(value, place, options))
    if isinstance(value, list | tuple):
        names = [name for name in value if isinstance(name, str) and name]
        if not names or len(names) != len(value):
            options.refuse(place, found=describe(value), expected="a list of the names of arguments")
        return KeysRule.of_keys(names)
    if not isinstance(value, Mapping):
        expected = f"one of {', '.join(MODES)}, a list of arguments, or an object"
        options.refuse(place, found=describe(value), expected=expected)
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
        return _read_pattern_rule(value["regex"], f"{place}.regex", options)
    if isinstance(value, Mapping) and value and _TOLERANCES.issuperset(value):
        return _read_tolerance_rule(value, place, options)
    options.refuse(place, found=describe(value), expected=_EXPECTED_RULE)
    return None


def _refuse_unknown(value: Mapping[str, Any], known_keys: set[str], place: str, options: Options) -> None:
    for key in value.keys() - known_keys:
        options.refuse(f"{place}.{key}", found="an unknown key", expected=" or ".join(sorted(known_keys)))


def _lift(args: Mapping[str, Any], paths: Iterable[str]) -> Mapping[str, Any]:
    """Return the arguments with the values at some paths moved to the top, named by their path."""
    lifted = dict(args)
    for path in sorted(paths, key=lambda path: -path.count(".")):  # the deepest first: `a.b.c` is part of `a.b`
        _lift_path(lifted, path.split("."), path, lifted)
    return lifted


def _lift_path(level: dict[str, Any], steps: list[str], path: str, lifted: dict[str, Any]) -> None:
    first, *rest = steps
    if not rest:
        if first in level:
            lifted[path] = level.pop(first)
        return
    if isinstance(level.get(first), Mapping):
        inner = dict(level[first])
        _lift_path(inner, rest, path, lifted)
        if inner:
            level[first] = inner
        else:
            del level[first]


def _has_path(args: Mapping[str, Any], name: str) -> bool:
    return _find_value(args, name, default=_MISSING) is not _MISSING


def _find_value(args: Mapping[str, Any], name: str, *, default: Any = None) -> Any:
    """Return the value of an argument, or at a dotted path into objects; `default` if it does not exist."""
    if name in args:
        return args[name]
    value: Any = args
    for step in name.split("."):
        if not isinstance(value, Mapping) or step not in value:
            return default
        value = value[step]
    return value


def _iter_call_paths(args: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the paths of a call's arguments, two levels deep, without names that are too long for a message."""
    for key, value in args.items():
        if len(key) > _NAME_LENGTH_AT_MOST:
            continue
        yield f"{prefix}{key}"
        if isinstance(value, Mapping) and not prefix:
            yield from _iter_call_paths(value, f"{key}.")


class _PatternRule:
    """The whole text of a value must match the pattern, or else the expected value as a pattern."""

    def __init__(self, pattern: Pattern | None = None) -> None:
        self._pattern = pattern

    def __call__(self, actual: Any, expected: Any, _form: Form) -> bool:
        """See ValueRule. Raises RuleError."""
        try:
            pattern = self._pattern or _compile(_text(expected))
        except PatternError as error:
            raise RuleError(
                f"the expected argument {describe(expected)} is not a regular expression ({error})"
            ) from error
        try:
            return pattern.fullmatch(_text(actual))
        except PatternTooSlow as error:
            raise RuleError(str(error)) from None


@lru_cache(maxsize=512)
def _compile(pattern: str) -> Pattern:
    return Pattern(pattern, flags=re.DOTALL)


def _read_pattern_rule(pattern: Any, place: str, options: Options) -> ValueRule | None:
    if not isinstance(pattern, str):
        options.refuse(place, found=describe(pattern), expected="a regular expression")
        return None
    try:
        return _PatternRule(_compile(pattern))
    except PatternError as error:
        options.refuse(place, found=describe(pattern), expected=f"a regular expression ({error})")
        return None


def _read_tolerance_rule(value: Mapping[str, Any], place: str, options: Options) -> ValueRule | None:
    for name, distance in value.items():
        if not is_number(distance) or distance < 0:
            options.refuse(f"{place}.{name}", found=describe(distance), expected="a number of at least 0")
            return None
    absolute, relative = value.get("absolute", 0.0), value.get("relative", 0.0)

    def is_close(actual: Any, expected: Any, form: Form) -> bool:
        if not is_number(actual) or not is_number(expected):
            return _is_same(actual, expected, form)
        return bool(abs(actual - expected) <= max(absolute, relative * abs(expected)))

    return is_close


def _text(value: Any) -> str:
    """Return a value as text to match with a pattern; numbers and booleans as in JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else "null" if value is None else str(value)


def _is_same(actual: Any, expected: Any, form: Form) -> bool:
    return form(actual) == form(expected)


def _is_contained(part: Any, whole: Any, form: Form) -> bool:
    """True if `whole` has every key (with an equal value) or every item (each used once) of `part`."""
    if isinstance(part, Mapping) and isinstance(whole, Mapping):
        return all(key in whole and _is_same(item, whole[key], form) for key, item in part.items())
    if isinstance(part, list | tuple) and isinstance(whole, list | tuple):
        return count_shared([form(item) for item in part], [form(item) for item in whole]) == len(part)
    return _is_same(part, whole, form)


_NAMED_RULES: Mapping[str, ValueRule | None] = {
    "exact": _is_same,
    "ignore": None,
    "any": lambda _actual, _expected, _form: True,
    "subset": _is_contained,
    "superset": lambda actual, expected, form: _is_contained(expected, actual, form),
    "regex": _PatternRule(),
}


# Pairings: comparisons of the two trajectories of a turn, one for each definition of equal calls.

ONLY_NAMES_HINT = (
    "Expected calls without arguments mean calls without arguments; use ignore_args to compare names only."
)
"""Hint for a reference with names only that did not match calls with arguments."""


def has_only_names(calls: Trajectory) -> bool:
    """True if there are calls and none is written with arguments."""
    return bool(calls) and all(call.args is None for call in calls)


def explain_missing_calls(turn: Turn) -> Score | None:
    """Return the undefined score of a turn without two trajectories; None if it has both.

    An agent that never reports calls has an undefined score if no call was expected. If calls were expected, it is
    unknown whether they were made, and CallsUnknown is raised.
    """
    if turn.reference is None:
        return Score.undefined("the row has no reference_trajectory")
    if turn.calls_unknown is not None and turn.has_no_call_report and not turn.reference:
        return Score.undefined(turn.calls_unknown)
    if turn.predicted is None:
        return Score.undefined("the row has no predicted_trajectory")
    return None


_UNKNOWN_ARGUMENTS = {"\0": "unknown"}


def replace_unknown_arguments(turn: Turn) -> Turn:
    """Return the turn with a value for unknown arguments that equals no other, so that every match is certain."""
    if turn.arguments_unknown is None:
        return turn
    calls = [call._replace(args=_UNKNOWN_ARGUMENTS) if call.args is None else call for call in turn.predicted or ()]
    return Turn.from_calls(predicted=calls, reference=turn.reference or ())


def check_arguments_known(turn: Turn, *, is_better_by_name: Callable[[], bool]) -> None:
    """Raise CallsUnknown if unknown arguments may be the reason why calls do not match.

    A comparison by name matches at least as many calls as one with arguments. If both match equally many, the verdict
    is certain.
    """
    if turn.arguments_unknown is not None and is_better_by_name():
        raise CallsUnknown(turn.arguments_unknown)


# Rules run for every pair of calls: for this many about 3 s, during which no other case is judged.
_PAIRS_AT_MOST = 1_000_000


class Membership(NamedTuple):
    """How many predicted calls occur in the reference, and how many reference calls among the predicted ones."""

    predicted: int
    reference: int


class Pairing(Protocol):
    """A comparison of the calls of a turn, which has both trajectories."""

    def is_exact(self, turn: Turn) -> bool:
        """True if the same calls were made in the same order."""

    def is_in_order(self, turn: Turn) -> bool:
        """True if all reference calls were made in their order, with other calls anywhere."""

    def count_matched(self, turn: Turn) -> int:
        """Count the calls that can be matched, each used once."""


class MemberPairing(Pairing, Protocol):
    """A pairing that can also count calls without using each only once."""

    def count_members(self, turn: Turn) -> Membership:
        """Count the calls of each side that occur on the other side."""


class PythonEquality:
    """Calls compared as in ADK: by name and Python's `==` on the arguments. Absent and empty arguments differ."""

    def is_exact(self, turn: Turn) -> bool:
        return self._calls(turn.predicted) == self._calls(turn.reference)

    def is_in_order(self, turn: Turn) -> bool:
        return is_subsequence(self._calls(turn.reference), self._calls(turn.predicted))

    def count_matched(self, turn: Turn) -> int:
        return count_equal(self._calls(turn.predicted), self._calls(turn.reference))

    def _calls(self, calls: Sequence[ToolCall] | None) -> Sequence[tuple[str, Any]]:
        return calls or ()


class EmptyForAbsent(PythonEquality):
    """Calls compared as in agentevals: as in ADK, but absent and empty arguments are equal."""

    def _calls(self, calls: Sequence[ToolCall] | None) -> Sequence[tuple[str, Any]]:
        return [(call.name, call.args or {}) for call in calls or ()]


class CanonicalEquality:
    """Calls compared by name and canonical arguments."""

    def is_exact(self, turn: Turn) -> bool:
        predicted, reference = self._keys(turn)
        return predicted == reference

    def is_in_order(self, turn: Turn) -> bool:
        predicted, reference = self._keys(turn)
        return is_subsequence(reference, predicted)

    def count_matched(self, turn: Turn) -> int:
        return turn.shared_calls

    def count_members(self, turn: Turn) -> Membership:
        predicted, reference = self._keys(turn)
        in_predicted, in_reference = set(predicted), set(reference)
        return Membership(sum(key in in_reference for key in predicted), sum(key in in_predicted for key in reference))

    def _keys(self, turn: Turn) -> tuple[Sequence[Hashable], Sequence[Hashable]]:
        return turn.predicted_keys, turn.reference_keys


class NameEquality(CanonicalEquality):
    """Calls compared by name only."""

    def count_matched(self, turn: Turn) -> int:
        return count_shared(*self._keys(turn))

    def _keys(self, turn: Turn) -> tuple[Sequence[Hashable], Sequence[Hashable]]:
        return [call.name for call in turn.predicted or ()], [call.name for call in turn.reference or ()]


@dataclass(frozen=True)
class RuledArguments:
    """Calls compared by name and by rules for their arguments. All methods raise RuleError."""

    rules: ArgumentRules

    def is_exact(self, turn: Turn) -> bool:
        predicted, reference = turn.predicted or (), turn.reference or ()
        return len(predicted) == len(reference) and all(map(self.rules.within_time_limit(), predicted, reference))

    def is_in_order(self, turn: Turn) -> bool:
        return is_fitting_subsequence(turn.reference or (), turn.predicted or (), self.rules.within_time_limit())

    def count_matched(self, turn: Turn) -> int:
        """See Pairing. One call may fit several, so the largest assignment is counted."""
        predicted, reference = turn.predicted or (), turn.reference or ()
        _check_pair_count(predicted, reference)
        return count_assigned(predicted, reference, self.rules.within_time_limit())

    def count_members(self, turn: Turn) -> Membership:
        predicted, reference = turn.predicted or (), turn.reference or ()
        _check_pair_count(predicted, reference)
        fits = self.rules.within_time_limit()
        return Membership(
            sum(any(fits(call, other) for other in reference) for call in predicted),
            sum(any(fits(other, call) for other in predicted) for call in reference),
        )


def read_rules(options: Options, *, ignore_args: bool, form: Form = canonical) -> ArgumentRules | None:
    """Read the option `args_match`; None if it is missing. It excludes `ignore_args`. Values are compared in `form`."""
    rules = read_argument_rules(options, form)
    if rules is not None and ignore_args:
        options.refuse("args_match", found="both args_match and ignore_args", expected="one of them")
    return rules


def make_call_judge(
    options: Options, score: Callable[[Turn], Score], rules: ArgumentRules | None, *, details: Mapping[str, Any]
) -> TurnJudge:
    """Make a judge that compares the calls of turns, without those that the option `ignore_tools` names.

    If there are `rules`, they are checked with each case.
    """
    name, ignored = options.metric, options.names("ignore_tools")
    details = {**details, **options.collect("ignore_args", "args_match", "ignore_tools")}

    def score_some(turn: Turn) -> Score:
        return score(turn.without_tools(ignored))

    score_turn = score_some if ignored else score
    if rules is None:
        return TurnJudge(name=name, score=score_turn, details=details)

    def check(view: CaseView) -> str | None:
        calls = [call for turn in view.turns for call in (*(turn.predicted or ()), *(turn.reference or ()))]
        return "; ".join(rules.find_unmatched(calls, declared_arguments(view.turns))) or None

    return TurnJudge(name=name, score=score_turn, details=details, check=check, may_take_long=rules.has_patterns)


def _check_pair_count(predicted: Trajectory, reference: Trajectory) -> None:
    if len(predicted) * len(reference) > _PAIRS_AT_MOST:
        raise RuleError(
            f"args_match cannot compare {len(predicted):,} calls with {len(reference):,} in any order, expected a "
            f"product of at most {_PAIRS_AT_MOST:,}"
        )
