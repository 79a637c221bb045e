"""A tool call as one line of text, `set_light(room="hall", on=true)`: reading, writing and completing it."""

from __future__ import annotations

import ast
import json
import math
import re
import warnings
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

from workbench.model.text import neutralise, one_line

NAME_KEYS = ("name", "tool_name")
ARGUMENT_KEYS = ("args", "tool_input")

_NAME = re.compile(r"[^\s(){}\[\],=\"']+")
_SPACE = re.compile(r"\s*")
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_DEEPEST = 200  # brackets


class InvalidCall(Exception):
    """The text is no call. The message says where, what was found, and what was expected."""


class TypedCall(NamedTuple):
    """A call. `arguments` is None if the text has only a name, without parentheses."""

    name: str
    arguments: dict[str, Any] | None


def parse_call(text: str) -> TypedCall:
    """Parse a call in the spelling of Python or JSON, or a call as a JSON object. Raises InvalidCall."""
    return _Parser(text).parse()


def format_call(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a call as one line. Names of arguments that are not words are quoted, values are JSON."""
    return f"{name}({', '.join(f'{_format_name(key)}={_format_value(value)}' for key, value in arguments.items())})"


def read_call(value: Any) -> TypedCall | None:
    """Read the name and the arguments of a call in the data of a case; None if one of them is unusable."""
    if not isinstance(value, dict):
        return None
    name = next((value[key] for key in NAME_KEYS if key in value), "")
    arguments = next((value[key] for key in ARGUMENT_KEYS if key in value), None)
    is_usable = isinstance(name, str) and (not name or _is_plain_name(name))
    return TypedCall(name, arguments or {}) if is_usable and isinstance(arguments, dict | None) else None


def replace_call(value: Mapping[str, Any], call: TypedCall) -> dict[str, Any]:
    """Return the data of a call with another name and other arguments. Other members, and their order, stay."""
    new = dict(value)
    is_vertex = any(key in value for key in (NAME_KEYS[1], ARGUMENT_KEYS[1]))
    new[next((key for key in NAME_KEYS if key in value), NAME_KEYS[is_vertex])] = call.name
    if call.arguments is not None:
        key = next((key for key in ARGUMENT_KEYS if key in value), ARGUMENT_KEYS[is_vertex])
        if call.arguments or new.get(key) is not None:  # null is as good as no arguments
            new[key] = call.arguments
    return new


def _is_plain_name(name: str) -> bool:
    """True if a name can be written without quotes, and drawn as it is."""
    return bool(_NAME.fullmatch(name)) and neutralise(name) == name


def _format_name(name: str) -> str:
    return name if _is_plain_name(name) and ":" not in name else _format_value(name)


def _format_value(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if neutralise(text) == text and len(text.splitlines()) == 1 else json.dumps(value)


class _Parser:
    """Reads one call from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def parse(self) -> TypedCall:
        self._skip_space()
        if self._peek() == "{":
            return self._parse_object()
        name = self._read_name("the name of a tool")
        self._skip_space()
        if self._is_over:
            return TypedCall(name, None)
        self._expect("(", "( or the end")
        arguments = self._parse_arguments()
        self._skip_space()
        if not self._is_over:
            self._fail("the end")
        return TypedCall(name, arguments)

    def _parse_object(self) -> TypedCall:
        """Parse `{"name": …, "args": …}`, as files have it."""
        data = self._read_value()
        self._skip_space()
        if not self._is_over:
            self._fail("the end")
        unknown = [key for key in data if key not in (*NAME_KEYS, *ARGUMENT_KEYS)] if isinstance(data, dict) else []
        call = read_call(data)
        if call is None or not call.name or unknown:
            raise InvalidCall(f'expected an object with "name" and "args"{" only" if unknown else ""}')
        has_arguments = any(data.get(key) is not None for key in ARGUMENT_KEYS)
        return call if has_arguments else TypedCall(call.name, None)

    def _parse_arguments(self) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        self._skip_space()
        if self._peek() == "{":  # name({"room": "hall"})
            only = self._read_value()
            self._skip_space()
            self._expect(")", ")")
            if not isinstance(only, dict):
                raise InvalidCall("expected an object of arguments")
            return only
        while self._peek() != ")":
            start = self._at
            name = self._read_key()
            self._skip_space()
            if self._peek() not in ("=", ":"):
                self._at = start
                self._fail("an argument as name=value")
            self._at += 1
            if name in arguments:
                raise InvalidCall(f"{self._place(start)}: duplicate argument {one_line(name, width=30)!r}")
            self._skip_space()
            arguments[name] = self._read_value()
            self._skip_space()
            if self._peek() == ",":
                self._at += 1
                self._skip_space()
            elif self._peek() != ")":
                self._fail("a comma or )")
        self._at += 1
        return arguments

    def _read_key(self) -> str:
        if self._peek() in ('"', "'"):
            start, self._at = self._at, self._find_quote(self._at) + 1
            return str(self._parse_value(self._text[start : self._at], start))
        return self._read_name("the name of an argument")

    def _read_name(self, expected: str) -> str:
        found = _NAME.match(self._text, self._at)
        if found is None:
            self._fail(expected)
        name = found[0].partition(":")[0] if expected.endswith("argument") else found[0]
        if not name:
            self._fail(expected)
        self._at += len(name)
        return name

    def _read_value(self) -> Any:
        """Read a value up to the next comma or bracket of the level around it."""
        start, end = self._at, self._find_end()
        text = self._text[start:end].rstrip()
        if not text:
            self._fail("a value")
        self._at = start + len(text)
        return self._parse_value(text, start)

    def _parse_value(self, text: str, start: int) -> Any:
        """Parse a value that begins at `start`, as JSON or else as a literal of Python."""
        try:
            return json.loads(text, parse_constant=_reject, parse_float=_read_float, object_pairs_hook=_make_object)
        except (ValueError, RecursionError):
            pass
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about backslashes in texts
                tree = ast.parse(text, mode="eval")
                _refuse_duplicate_keys(tree)
                return _check_value(ast.literal_eval(tree))
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            self._at = start
            hint = f'; write texts in quotes: "{text}"' if text.isidentifier() else ""
            raise InvalidCall(
                f"{self._place(start)}: found {one_line(text, width=30)}, expected a value{hint}"
            ) from None

    def _find_end(self) -> int:
        """Return where the value at the current place ends. Brackets and quotes are skipped in pairs."""
        open_brackets: list[str] = []
        at = self._at
        while at < len(self._text):
            character = self._text[at]
            if character in ('"', "'"):
                at = self._find_quote(at)
            elif character in _CLOSING:
                open_brackets.append(_CLOSING[character])
                if len(open_brackets) > _DEEPEST:
                    raise InvalidCall("the value is nested too deeply")
            elif open_brackets and character == open_brackets[-1]:
                open_brackets.pop()
                if not open_brackets:
                    return at + 1
            elif not open_brackets and character in ",)]}":
                return at
            at += 1
        if open_brackets:
            self._at = at
            self._fail(open_brackets[-1])
        return at

    def _find_quote(self, start: int) -> int:
        """Return the place of the quote that ends the text which begins at `start`."""
        at = start + 1
        while at < len(self._text):
            if self._text[at] == self._text[start]:
                return at
            at += 2 if self._text[at] == "\\" else 1
        raise InvalidCall(f"{self._place(start)}: the text has no closing quote")

    def _expect(self, character: str, expected: str) -> None:
        if self._peek() != character:
            self._fail(expected)
        self._at += 1

    def _skip_space(self) -> None:
        found = _SPACE.match(self._text, self._at)
        self._at = found.end() if found is not None else self._at

    def _peek(self) -> str:
        if self._at < len(self._text):
            return self._text[self._at]
        return ""

    @property
    def _is_over(self) -> bool:
        return self._at >= len(self._text)

    def _place(self, at: int) -> str:
        return f"column {at + 1}"

    def _fail(self, expected: str) -> NoReturn:
        found = one_line(self._text[self._at : self._at + 1], width=8) or "the end"
        raise InvalidCall(f"{self._place(self._at)}: found {found}, expected {expected}")


def _reject(name: str) -> NoReturn:
    raise ValueError(name)


def _read_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _make_object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in members:
        if key in found:
            raise InvalidCall(f"duplicate key {one_line(key, width=30)!r} in an object")
        found[key] = value
    return found


def _refuse_duplicate_keys(tree: ast.AST) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            _make_object([(str(key.value), None) for key in node.keys if isinstance(key, ast.Constant)])


def _check_value(value: Any) -> Any:
    """Return a value of Python as JSON has it: tuples as lists. Raises ValueError for what JSON has not."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, list | tuple):
        return [_check_value(item) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _check_value(item) for key, item in value.items()}
    raise ValueError(value)


# Completion: calls that are known already.

_LONGEST_VALUE = 80  # characters of a value that is offered
_DECLARED = ("parameters", "parametersJsonSchema", "parameters_json_schema", "input_schema", "inputSchema")
"""Keys of the declaration of a tool."""


_BEGINNINGS = {"string": ('"',), "array": ("[",), "object": ("{",), "boolean": ("true", "false")}
"""How a value of a type begins, for parameters without known values."""


@dataclass
class KnownCalls:
    """Names of tools, their arguments, and the values seen, each with how often it was seen.

    `types` are the types of declared parameters, `optional` those that a call may leave out. `others` are the calls of
    other agents, which may have tools of the same names: they come last.
    """

    tools: Counter[str] = field(default_factory=Counter)
    arguments: dict[str, Counter[str]] = field(default_factory=dict)
    values: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    types: dict[tuple[str, str], str] = field(default_factory=dict)
    optional: set[tuple[str, str]] = field(default_factory=set)
    others: KnownCalls | None = None

    def add_call(self, name: str, arguments: Mapping[str, Any]) -> None:
        self.tools[name] += 1
        for key, value in arguments.items():
            self.arguments.setdefault(name, Counter())[key] += 1
            self._add_value(name, key, value, seen=1)

    def add_data(self, value: Any) -> None:
        """Count all calls in the data of a case, and the tools that it declares for agents."""
        waiting = [value]
        while waiting:
            value = waiting.pop()
            if isinstance(value, list):
                waiting += reversed(value)
            elif isinstance(value, dict):
                call = read_call(value) if any(key in value for key in (*ARGUMENT_KEYS, *_DECLARED)) else None
                if call is not None and call.name:
                    declared = next((value[key] for key in _DECLARED if key in value), None)
                    if declared is None:
                        self.add_call(call.name, call.arguments or {})
                    else:
                        self.add_tool(call.name, declared)
                else:
                    waiting += reversed(value.values())

    def add_tool(self, name: str, parameters: Any) -> None:
        """Add a tool that an agent declares, seen or not. `parameters` is their JSON Schema."""
        self.tools[name] += 0
        schema = parameters if isinstance(parameters, dict) else {}
        properties, required = schema.get("properties"), schema.get("required")
        for key, each in properties.items() if isinstance(properties, dict) else ():
            self.arguments.setdefault(name, Counter())[key] += 0
            if isinstance(required, list) and key not in required:
                self.optional.add((name, key))
            if isinstance(each, dict):
                for value in each["enum"] if isinstance(each.get("enum"), list) else ():
                    self._add_value(name, key, value, seen=0)
                if isinstance(each.get("type"), str):
                    self.types[name, key] = each["type"].lower()

    def _add_value(self, name: str, key: str, value: Any, *, seen: int) -> None:
        text = _format_value(value)
        if len(text) <= _LONGEST_VALUE:
            self.values.setdefault((name, key), Counter())[text] += seen


_OPEN_NAME = re.compile(r"\s*([^\s(){}\[\],=\"']*)$")
_OPEN_CALL = re.compile(r"\s*([^\s(){}\[\],=\"']+)\s*\(")
_OPEN_ARGUMENT = re.compile(r"\s*([^\s(){}\[\],=:\"']*)$")
_END_OF_NAME = re.compile("[=:]")
_OPEN_VALUE = re.compile(r"""\s*("[^"]*"|'[^']*'|[^\s(){}\[\],=:"']+)\s*[=:](\s*)(.*)$""", re.DOTALL)


class Completion(NamedTuple):
    """A continuation of an unfinished call: its name in a list, and the text that follows the typed one."""

    label: str
    rest: str


def list_completions(text: str, known: KnownCalls) -> list[Completion]:
    """Return what may follow an unfinished call, the most likely first; empty if nothing is known."""
    name = _OPEN_NAME.fullmatch(text)
    if name is not None:
        foreign = _rank(known.others.tools, name[1]) if known.others is not None else []
        tools = [*_rank(known.tools, name[1]), *(tool for tool in foreign if tool not in known.tools)]
        if not name[1] and text:  # only spaces
            tools = []
        return [Completion(tool, f"{tool[len(name[1]) :]}(") for tool in tools]
    opened = _OPEN_CALL.match(text)
    if opened is None:
        return []
    tool, (done, last) = opened[1], _split_arguments(text[opened.end() :])
    known = known if tool in known.tools else known.others or known
    value = _OPEN_VALUE.fullmatch(last)
    if value is not None:
        return _complete_value(known, tool, value[1].strip("\"'"), value[3], done)
    begun = _OPEN_ARGUMENT.fullmatch(last)
    if begun is None:
        return []
    keys = _rank_arguments(known, tool, done, begun[1])
    if keys:
        rests = [key[len(begun[1]) :] if begun[1] else _format_name(key) for key in keys]
        labels = [f"{key}: {known.types[tool, key]}" if (tool, key) in known.types else key for key in keys]
        return [Completion(label, f"{rest}=") for label, rest in zip(labels, rests, strict=True)]
    return [] if last.strip() or text.rstrip().endswith(",") else [Completion(")", ")")]


def _complete_value(known: KnownCalls, tool: str, key: str, begun: str, done: Collection[str]) -> list[Completion]:
    values, begins = known.values.get((tool, key), Counter()), _BEGINNINGS.get(known.types.get((tool, key), ""), ())
    if begun in values or _is_value(begun):
        following = _rank_arguments(known, tool, (*done, key), "")
        if following and not ((tool, following[0]) in known.optional and not known.arguments[tool][following[0]]):
            rest = f", {_format_name(following[0])}="
            return [Completion(rest, rest)]
        return [Completion(")", ")")]
    candidates = _rank(values, begun) or [text for text in begins if text.startswith(begun) and text != begun]
    return [Completion(value, value[len(begun) :]) for value in candidates]


def _rank(counts: Counter[str], begun: str) -> list[str]:
    """Return the texts that begin so, those seen most often first."""
    return sorted((text for text in counts if text.startswith(begun) and text != begun), key=lambda text: -counts[text])


def _rank_arguments(known: KnownCalls, tool: str, done: Collection[str], begun: str) -> list[str]:
    """Return the arguments as they were seen, but first the first one that is not much rarer than the others."""
    counts = {
        key: count
        for key, count in known.arguments.get(tool, Counter()).items()
        if key not in done and key.startswith(begun) and (not begun or _format_name(key) == key)
    }
    first = next((key for key, count in counts.items() if 2 * count >= max(counts.values())), "")
    return sorted(counts, key=lambda key: key != first)


def _is_value(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _split_arguments(text: str) -> tuple[list[str], str]:
    """Return the names of the finished arguments and the text of the last, unfinished one."""
    done: list[str] = []
    depth, start, quote = 0, 0, ""
    at = 0
    while at < len(text):
        character = text[at]
        if quote:
            if character == "\\":
                at += 1
            elif character == quote:
                quote = ""
        elif character in ('"', "'"):
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and not depth:
            done.append(_END_OF_NAME.split(text[start:at], maxsplit=1)[0].strip(" \n\"'"))
            start = at + 1
        at += 1
    return done, text[start:]
