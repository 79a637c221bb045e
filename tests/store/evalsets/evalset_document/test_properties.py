"""Properties of every document: an edit changes only its own place, and undo restores every byte.

A printer of our own writes the documents as JSON in many styles and records the span of each value. The tests can
therefore check which bytes an edit changes without the code under test.
"""

from __future__ import annotations

import copy
import json
import random
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workbench.store.errors import StoreError
from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.store.json.json_path import to_camel

Place = tuple[str | int, ...]

TEXTS = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(
    ["// no comment", "# nor this", "/* nor */", ",]", '"', "\\", "🫖", "中文", "a/b", "\t", "\u2028"]
)
NUMBERS = st.integers(-(10**25), 10**25) | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
KEYS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6) | st.sampled_from(["device_id", "deviceId", "x"])
ARGS = st.dictionaries(
    KEYS,
    st.recursive(
        SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
    ),
    max_size=3,
)


@st.composite
def invocations(draw: st.DrawFn) -> dict[str, Any]:
    invocation: dict[str, Any] = {"user_content": {"parts": [{"text": draw(TEXTS)}], "role": "user"}}
    if draw(st.booleans()):
        invocation["final_response"] = {"parts": [{"text": draw(TEXTS)}], "role": None}
    if draw(st.booleans()):
        calls = draw(st.lists(st.fixed_dictionaries({"name": TEXTS, "args": ARGS}), max_size=3))
        invocation["intermediate_data"] = {"tool_uses": calls, "intermediate_responses": []}
    return invocation


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    case: dict[str, Any] = {
        "eval_id": draw(st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=1, max_size=5)),
        "conversation": draw(st.lists(invocations(), max_size=3)),
    }
    if draw(st.booleans()):
        case["session_input"] = {"app_name": "app", "user_id": "u", "state": draw(ARGS)}
    if draw(st.booleans()):
        case["owner_note"] = draw(ARGS)  # an unknown key
    return case


@dataclass
class Printer:
    """Write JSON in one of many styles, with comments and trailing commas, and record the span of each value."""

    random: random.Random
    indent: str | None
    line_break: str
    comments: bool
    trailing_commas: bool
    ascii: bool
    parts: list[str] = field(default_factory=list)
    length: int = 0
    spans: dict[Place, tuple[int, int]] = field(default_factory=dict)
    comment_count: int = 0

    def print_document(self, data: Any) -> str:
        self._maybe_comment(own_line=True)
        self._write_value(data, (), 0)
        self._write(self.line_break * self.random.randrange(3))
        return "".join(self.parts)

    def _write(self, text: str) -> None:
        self.parts.append(text)
        self.length += len(text)

    def _write_value(self, value: Any, place: Place, depth: int) -> None:
        start = self.length
        if isinstance(value, dict) and value:
            self._write_container("{}", [((*place, key), key, item) for key, item in value.items()], depth)
        elif isinstance(value, list) and value:
            self._write_container("[]", [((*place, index), None, item) for index, item in enumerate(value)], depth)
        elif isinstance(value, str):
            self._write(self._format_string(value))
        else:
            self._write(json.dumps(value))
        self.spans[place] = (start, self.length)

    def _write_container(self, brackets: str, items: list[tuple[Place, str | None, Any]], depth: int) -> None:
        inline = self.indent is None or self.random.random() < 0.3
        self._write(brackets[0])
        for number, (place, key, item) in enumerate(items):
            self._write_gap(inline, depth + 1)
            if key is not None:
                self._write(self._format_string(key) + self.random.choice([":", ": ", " : "]))
            self._write_value(item, place, depth + 1)
            if number < len(items) - 1 or (self.trailing_commas and self.random.random() < 0.5):
                self._write(self.random.choice([",", ",", " ,"]))
            self._maybe_comment(own_line=False)
        self._write_gap(inline, depth)
        self._write(brackets[1])

    def _write_gap(self, inline: bool, depth: int) -> None:
        if inline:
            self._write(self.random.choice(["", " "]))
            return
        if self.random.random() < 0.2:
            self._maybe_comment(own_line=True)
        self._write(self.line_break + (self.indent or "") * depth)

    def _maybe_comment(self, *, own_line: bool) -> None:
        if not self.comments or self.random.random() < 0.6:
            return
        self.comment_count += 1
        text = f'note{self.comment_count}: "quoted", [brackets }} and , commas'
        if self.indent is None or self.random.random() < 0.3:
            self._write(f" /* {text} */")
            return
        start = self.line_break if own_line else " "
        self._write(f"{start}{self.random.choice(['//', '# '])} {text}{self.line_break}")

    def _format_string(self, text: str) -> str:
        literal = json.dumps(text, ensure_ascii=self.ascii)
        if self.random.random() < 0.3:
            literal = literal.replace("/", "\\/")
        if self.random.random() < 0.2:
            literal = re.sub(r"(?<![\\u0-9a-f])a", lambda _: "\\u0061", literal)
        return literal


@dataclass
class PrintedDocument:
    data: dict[str, Any]
    printer: Printer
    text: str
    bytes: bytes


def _convert_to_camel_case(value: Any, *, free: bool = False) -> Any:
    if isinstance(value, dict):
        return {
            key if free else to_camel(key): _convert_to_camel_case(
                item, free=free or key in ("args", "state", "owner_note")
            )
            for key, item in value.items()
        }
    return [_convert_to_camel_case(item, free=free) for item in value] if isinstance(value, list) else value


@st.composite
def printed_documents(draw: st.DrawFn) -> PrintedDocument:
    drawn_cases = draw(st.lists(cases(), min_size=1, max_size=4))
    if draw(st.booleans()):
        drawn_cases = [_convert_to_camel_case(case) for case in drawn_cases]
    data: dict[str, Any] = {"eval_set_id": "generated", "eval_cases": drawn_cases}
    if draw(st.booleans()):
        data = {"owner": draw(TEXTS), **data, "name": draw(TEXTS)}
    printer = Printer(
        random=random.Random(draw(st.integers(0, 2**32))),
        indent=draw(st.sampled_from([None, "  ", "    ", "\t", "   ", " "])),
        line_break=draw(st.sampled_from(["\n", "\r\n"])),
        comments=draw(st.booleans()),
        trailing_commas=draw(st.booleans()),
        ascii=draw(st.booleans()),
    )
    text = printer.print_document(data)
    mark = b"\xef\xbb\xbf" if draw(st.booleans()) else b""
    return PrintedDocument(data, printer, text, mark + text.encode())


def _open(source: PrintedDocument) -> EvalSetDocument:
    return EvalSetDocument(Path("generated.evalset.json"), source.bytes, None)


def _read_raw_cases(document: EvalSetDocument) -> list[Any]:
    return [document.raw_case(index) for index in range(len(document))]


many_examples = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@many_examples
@given(printed_documents())
def test_any_document_is_read_as_written(source: PrintedDocument) -> None:
    document = _open(source)

    assert document.content() == source.bytes
    assert _read_raw_cases(document) == source.data["eval_cases"]
    for entry, case in zip(document.entries, source.data["eval_cases"], strict=True):
        assert entry.problem is None
        assert entry.eval_id == case.get("eval_id", case.get("evalId"))
        assert document.case(entry.index).eval_id == entry.eval_id


@many_examples
@given(printed_documents(), st.data(), SCALARS)
def test_setting_a_value_replaces_only_its_own_characters(
    source: PrintedDocument, data: st.DataObject, new: Any
) -> None:
    leaves = [
        place
        for place in source.printer.spans
        if len(place) > 2 and place[0] == "eval_cases" and not isinstance(_get_value(source.data, place), dict | list)
    ]
    place = data.draw(st.sampled_from(leaves))
    start, end = source.printer.spans[place]
    document = _open(source)

    document.set_value(place[2:], new, case=int(place[1]))

    content = document.content().decode().removeprefix("\ufeff")
    assert content[:start] == source.text[:start]
    tail = len(source.text) - end
    assert content[len(content) - tail :] == source.text[end:]
    assert json.loads(content[start : len(content) - tail]) == new
    expected = json.loads(json.dumps(source.data))
    _get_value(expected, place[:-1])[place[-1]] = new
    assert _read_raw_cases(document) == expected["eval_cases"]
    while document.undo():
        pass
    assert document.content() == source.bytes


@many_examples
@given(
    printed_documents(),
    st.integers(0),
    st.integers(0, 30),
    st.sampled_from(["", '"', "{", "}", "[", "]", ",", "\\", "//", "\n", "0"]),
)
def test_any_damage_gives_a_clear_error_or_a_document_that_keeps_every_byte(
    source: PrintedDocument, position: int, length: int, replacement: str
) -> None:
    start = position % (len(source.text) + 1)
    damaged = (source.text[:start] + replacement + source.text[start + length :]).encode()
    try:
        document = EvalSetDocument(Path("generated.evalset.json"), damaged, None)
    except StoreError as error:
        assert error.found and error.expected and error.line
        return

    assert document.content() == damaged
    for entry in document.entries:
        if entry.problem is None:
            assert document.case(entry.index).eval_id
        else:
            assert entry.problem.line <= damaged.count(b"\n") + 1
    for problem in document.problems:
        assert problem.line and problem.message
    for entry in document.entries:
        if entry.problem is None:
            document.set_value(("note",), "x", case=entry.index)
            document.undo()
    assert document.content() == damaged


@st.composite
def operations(draw: st.DrawFn) -> list[tuple[str, int, int]]:
    names = st.sampled_from(["insert", "remove", "move", "set", "item", "drop", "shift", "member", "header", "copy"])
    return draw(st.lists(st.tuples(names, st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6))


@many_examples
@given(printed_documents(), operations(), cases(), invocations())
def test_any_series_of_edits_gives_the_expected_data_keeps_comments_and_can_be_undone(
    source: PrintedDocument, series: list[tuple[str, int, int]], new_case: dict[str, Any], new_turn: dict[str, Any]
) -> None:
    document = _open(source)
    expected = json.loads(json.dumps(source.data["eval_cases"]))
    contents = [document.content()]

    for operation in series:
        _edit(document, expected, operation, new_case=new_case, new_turn=new_turn)
        contents.append(document.content())
        assert _convert_to_snake_case(_read_raw_cases(document)) == _convert_to_snake_case(expected)
        assert EvalSetDocument(document.path, contents[-1], None).content() == contents[-1]

    if not {name for name, _, _ in series} & {
        "remove",
        "drop",
        "set",
    }:  # removing values also removes the comments in them
        text = document.content().decode()
        assert all(f"note{number}:" in text for number in range(1, source.printer.comment_count + 1))
    for content in reversed(contents[:-1]):
        while document.content() != content:
            assert document.undo()
    assert document.content() == source.bytes
    while document.redo():
        pass
    assert document.content() == contents[-1]


def _edit(
    document: EvalSetDocument,
    expected: list[dict[str, Any]],
    operation: tuple[str, int, int],
    *,
    new_case: dict[str, Any],
    new_turn: dict[str, Any],
) -> None:
    """Make one edit in the document, and the same edit in the plain data that it must equal."""
    name, first, second = operation
    count = len(expected)
    if name == "insert":
        document.insert_case(first % (count + 1), new_case)
        expected.insert(first % (count + 1), copy.deepcopy(new_case))
    elif name == "header":
        document.set_value(("description",), f"text {first}")
    elif not count:
        return
    elif name == "remove":
        document.remove_case(first % count)
        del expected[first % count]
    elif name == "move":
        document.move_case(first % count, second % count)
        expected.insert(second % count, expected.pop(first % count))
    elif name == "copy":
        document.duplicate_case(first % count, eval_id="copy")
        copied = json.loads(json.dumps(expected[first % count]))
        copied["evalId" if "evalId" in copied else "eval_id"] = "copy"
        expected.insert(first % count + 1, copied)
    else:
        _edit_case(document, expected[first % count], name, first % count, second, new_turn=new_turn)


def _edit_case(
    document: EvalSetDocument, case: dict[str, Any], name: str, index: int, number: int, *, new_turn: dict[str, Any]
) -> None:
    turns = case["conversation"]
    if name == "item":
        document.insert_item(("conversation",), number % (len(turns) + 1), new_turn, case=index)
        turns.insert(number % (len(turns) + 1), copy.deepcopy(new_turn))
    elif name == "member":
        document.set_value(("session_input", "state", f"k{number}"), [number, {"x": []}], case=index)
        key = next((key for key in case if key in ("session_input", "sessionInput")), "session_input")
        case.setdefault(key, {"state": {}})["state"][f"k{number}"] = [number, {"x": []}]
    elif not turns:
        return
    elif name == "drop":
        document.remove_value(("conversation", number % len(turns)), case=index)
        del turns[number % len(turns)]
    elif name == "shift":
        document.move_item(("conversation",), 0, number % len(turns), case=index)
        turns.insert(number % len(turns), turns.pop(0))
    elif name == "set":
        document.set_value(("conversation", number % len(turns)), new_turn, case=index)
        turns[number % len(turns)] = copy.deepcopy(new_turn)


def _get_value(data: Any, place: Place) -> Any:
    for step in place:
        data = data[step]
    return data


def _convert_to_snake_case(value: Any, *, free: bool = False) -> Any:
    """Return the value with format keys in snake_case; other tests check which style an edit writes."""
    if isinstance(value, dict):
        return {
            key
            if free
            else re.sub("([a-z])([A-Z])", lambda hump: f"{hump[1]}_{hump[2].lower()}", key): _convert_to_snake_case(
                item, free=free or key in ("args", "state", "owner_note", "ownerNote")
            )
            for key, item in value.items()
        }
    return [_convert_to_snake_case(item, free=free) for item in value] if isinstance(value, list) else value
