"""The frame of an eval-set file: the positions of its cases, in the current format and in older ones."""

from __future__ import annotations

import contextlib
import hashlib
import json
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from platformdirs import user_cache_path

from workbench.store.errors import StoreError
from workbench.store.files import PRIVATE, describe_program, make_private_folder, write_atomic
from workbench.store.json.json_path import Place
from workbench.store.json.json_text import (
    UNCLOSED,
    BrokenJson,
    Decoded,
    Masked,
    decode_value,
    describe_found,
    mask,
    skip_space,
)

if TYPE_CHECKING:
    from workbench.store.json.json_text import CaseEnds


# Format, positions of cases, and the text around them

CASES_KEYS = ("eval_cases", "evalCases")

_MOST_FAULTS = 20
"""Maximum number of reported faults around the cases: the first ones show what happened to a file."""
_MOST_GUESSED = 20
"""Reading stops after this number of cases with a guessed end, because each may be decoded far into later ones."""


class DocumentFormat(StrEnum):
    """The format of an eval-set file."""

    CURRENT = "current"
    LEGACY_TURNS = "legacy turns"
    LEGACY_EVALS = "legacy evals"


class NotAnEvalSet(Exception):
    """The file is valid JSON of another type. `found` describes it, `offset` is where this shows."""

    def __init__(self, *, found: str, expected: str = "an eval set with eval_cases", offset: int = 0) -> None:
        super().__init__(f"found {found}, expected {expected}")
        self.found = found
        self.expected = expected
        self.offset = offset


@dataclass
class CaseSpan:
    """The span of a case in the text. `head` is made of its decoded value; `broken` says why it cannot be decoded."""

    start: int
    end: int
    head: Any = None
    broken: BrokenJson | None = None


@dataclass
class EvalSetFrame:
    """The structure of a file. `broken` are the first faults between the cases or around them."""

    format: DocumentFormat
    masked: Masked
    spans: list[CaseSpan] = field(default_factory=list)
    header: dict[str, Any] = field(default_factory=dict)
    cases_start: int = 0
    cases_end: int = 0
    broken: list[BrokenJson] = field(default_factory=list)


ReadHeads = Mapping[DocumentFormat, Callable[[Any], Any]]
"""For each format, the function that extracts the head of a case from its data."""


def read_frame(text: str, *, read_heads: ReadHeads) -> EvalSetFrame:
    """Find the cases of a file: strictly, else with masked comments, else around broken parts.

    Raises NotAnEvalSet, or BrokenJson if there is no list of cases.
    """
    try:
        return _Reader(Masked(text), read_heads, recover=False).read()
    except BrokenJson:
        masked = mask(text)
    if not masked.is_strict:
        try:
            return _Reader(masked, read_heads, recover=False).read()
        except BrokenJson:
            pass
    return _Reader(masked, read_heads, recover=True).read()


class _Reader:
    """One pass over a text. With `recover`, faults are recorded and skipped instead of raised."""

    def __init__(self, masked: Masked, read_heads: ReadHeads, *, recover: bool) -> None:
        self.masked = masked
        self.text = masked.text
        self.read_heads = read_heads
        self.recover = recover
        self.frame = EvalSetFrame(DocumentFormat.CURRENT, masked)
        self.found_cases = False
        self.ends: CaseEnds | None = None
        self.guessed_ends = 0

    def read(self) -> EvalSetFrame:
        start = skip_space(self.text, 0)
        opening = self.text[start : start + 1]
        if opening == "{":
            end = self._read_set(start)
        elif opening == "[":
            end = self._read_legacy(start)
        else:
            found = describe_found(self.text, start)
            raise BrokenJson(start, found=found, expected="an eval set: an object, or a list in the old formats")
        rest = skip_space(self.text, end)
        if rest < len(self.text):
            self._record_fault(BrokenJson(rest, found=describe_found(self.text, rest), expected="the end of the file"))
        return self.frame

    def _read_set(self, start: int) -> int:
        try:
            end = self._read_members(start)
        except BrokenJson as broken:
            self._record_fault(broken)
            end = len(self.text)
            if not self.found_cases and not self._find_cases_by_name(start):
                raise
        if not self.found_cases:
            raise NotAnEvalSet(found=_describe_object(self.frame.header), offset=start)
        return end

    def _read_members(self, start: int) -> int:
        position = skip_space(self.text, start + 1)
        if self.text[position : position + 1] == "}":
            return position + 1
        while True:
            if self.text[position : position + 1] != '"':
                raise BrokenJson(position, found=describe_found(self.text, position), expected="a key in double quotes")
            key_start = position
            key, position = decode_value(self.text, position)
            if key in CASES_KEYS and self.found_cases:
                self._record_fault(BrokenJson(key_start, found=f"a second {key!r}", expected="all cases in one list"))
            position = skip_space(self.text, position)
            if self.text[position : position + 1] != ":":
                raise BrokenJson(position, found=describe_found(self.text, position), expected="':' after the key")
            position = self._read_member(key, skip_space(self.text, position + 1))
            position = skip_space(self.text, position)
            closing = self.text[position : position + 1]
            if closing == "}":
                return position + 1
            if closing != ",":
                raise BrokenJson(position, found=describe_found(self.text, position), expected="',' or '}'")
            position = skip_space(self.text, position + 1)

    def _read_member(self, key: str, start: int) -> int:
        if key in CASES_KEYS and self.text[start : start + 1] == "[":
            return self._read_cases(start)
        value, end = decode_value(self.text, start, level=1)
        if key in CASES_KEYS:
            raise NotAnEvalSet(found=f"{describe_value(value)} as {key}", expected="a list of cases", offset=start)
        self.frame.header[key] = value
        return end

    def _find_cases_by_name(self, start: int) -> bool:
        """Find the list of cases by its key if the text before it is broken."""
        for key in CASES_KEYS:
            quoted = self.text.find(f'"{key}"', start)
            colon = skip_space(self.text, quoted + len(key) + 2)
            bracket = skip_space(self.text, colon + 1)
            if quoted >= 0 and self.text[colon : colon + 1] == ":" and self.text[bracket : bracket + 1] == "[":
                try:
                    self._read_cases(bracket)
                except BrokenJson as broken:
                    self._record_fault(broken)
                return True
        return False

    def _read_legacy(self, start: int) -> int:
        self.frame.format = DocumentFormat.LEGACY_EVALS
        first = self._read_first_item(start)
        if isinstance(first, dict) and "query" in first and "data" not in first:
            self.frame.format = DocumentFormat.LEGACY_TURNS
            return self._read_turns(start)
        if first is not None and not (isinstance(first, dict) and "data" in first):
            raise NotAnEvalSet(found=f"a list that begins with {_describe_item(first)}", offset=start)
        return self._read_cases(start)

    def _read_first_item(self, start: int) -> Any:
        position = skip_space(self.text, start + 1)
        if self.text[position : position + 1] == "]":
            return None
        try:
            return decode_value(self.text, position, level=1).value
        except BrokenJson:
            head = self.text[position : position + 400]
            if not self.recover or ('"query"' not in head and '"data"' not in head):
                raise
        return {"data": []} if '"data"' in head else {"query": ""}

    def _read_turns(self, start: int) -> int:
        """Read a whole list of turns as one case."""
        self.frame.cases_start = self.frame.cases_end = start
        try:
            turns, end = decode_value(self.text, start)
        except BrokenJson as broken:
            if not self.recover:
                raise
            self.frame.spans.append(CaseSpan(start, len(self.text.rstrip()), broken=broken))
            return len(self.text)
        self.frame.spans.append(CaseSpan(start, end, self.read_heads[self.frame.format](turns)))
        return end

    def _read_cases(self, start: int) -> int:
        self.found_cases = True
        self.frame.spans = spans = []
        self.frame.cases_start = start
        text, read_head = self.text, self.read_heads[self.frame.format]
        level = 2 if self.frame.format is DocumentFormat.CURRENT else 1
        position = skip_space(text, start + 1)
        if text[position : position + 1] == "]":
            self.frame.cases_end = position
            return position + 1
        while True:
            try:
                value, end = self._decode_case(position, level=level)
                spans.append(CaseSpan(position, end, read_head(value)))
            except BrokenJson as broken:
                if not self.recover:
                    raise
                end = self._close_broken_case(position, broken)
            position = skip_space(text, end)
            closing = text[position : position + 1]
            if closing == "]":
                self.frame.cases_end = position
                return position + 1
            if closing == ",":
                position = skip_space(text, position + 1)
                continue
            fault = BrokenJson(position, found=describe_found(text, position), expected="',' or ']' after the case")
            self._record_fault(fault)
            if closing != "{":
                self.frame.cases_end = position
                raise fault

    def _decode_case(self, start: int, *, level: int) -> Decoded:
        """Decode the case that begins at `start`. Raises BrokenJson.

        After a broken case, it is decoded separately: json counts the lines before each error.
        """
        end = None if self.ends is None else self.ends.find_matched_end(start)
        if end is None:
            return decode_value(self.text, start, level=level)
        case = self.text[start:end]
        try:
            decoded = decode_value(case, 0, level=level)
        except BrokenJson as broken:
            if broken.offset >= len(case) or broken.found == UNCLOSED:  # brackets in its texts may have been counted
                return decode_value(self.text, start, level=level)
            raise BrokenJson(start + broken.offset, found=broken.found, expected=broken.expected) from None
        return Decoded(decoded.value, start + decoded.end)

    def _close_broken_case(self, start: int, broken: BrokenJson) -> int:
        from workbench.store.json.json_text import CaseEnds

        if self.guessed_ends >= _MOST_GUESSED:
            self.frame.cases_end = start
            raise BrokenJson(start, found=f"more than {_MOST_GUESSED} cases without an end", expected="valid JSON")
        self.ends = self.ends or CaseEnds(self.text, list_start=self.frame.cases_start)
        end, matched = self.ends.find_end(start)
        self.guessed_ends += not matched
        if broken.offset >= end:  # the fault is in the next case
            broken = _explain_cut_case(self.text[start:end], start)
        self.frame.spans.append(CaseSpan(start, end, broken=broken))
        return end

    def _record_fault(self, broken: BrokenJson) -> None:
        if not self.recover:
            raise broken
        known = self.frame.broken
        if len(known) < _MOST_FAULTS and all(each.offset != broken.offset for each in known):
            known.append(broken)


def _explain_cut_case(text: str, start: int) -> BrokenJson:
    """Return the fault of the text of a case that was cut off."""
    try:
        decode_value(text, 0)
    except BrokenJson as broken:
        found = "the end of the case" if broken.offset >= len(text) else broken.found
        return BrokenJson(start + broken.offset, found=found, expected=broken.expected)
    return BrokenJson(start + len(text), found="the end of the case", expected="',' or ']'")


def describe_value(value: Any) -> str:
    """Describe a value in terms of JSON, short enough for a message."""
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return "true" if value else "false"
    shown = repr(value) if not isinstance(value, str) else '"' + value.replace("\n", "\\n") + '"'
    return shown if len(shown) <= 60 else f"{shown[:57]}…"


def _describe_object(header: dict[str, Any]) -> str:
    if "criteria" in header:
        return "an eval config (it has criteria)"
    if "scenarios" in header:
        return "conversation scenarios (`workbench eval-set add-eval-case` adds them to an eval set)"
    if "starting_prompt" in header or "startingPrompt" in header:
        return "one conversation scenario (`workbench eval-set add-eval-case` adds it to an eval set)"
    if "app_name" in header or "appName" in header:
        return "a session input"
    if "eval_id" in header or "evalId" in header:
        return "one eval case outside of an eval set"
    return "an object without eval_cases"


def _describe_item(first: Any) -> str:
    if isinstance(first, dict) and ("eval_id" in first or "evalId" in first):
        return "an eval case (put the list into an object, as its eval_cases)"
    if isinstance(first, dict) and "starting_prompt" in first:
        return "a conversation scenario"
    return describe_value(first)


# Frames of large files, kept from one start to the next: a hundred thousand cases take seconds to read

_LARGE = 1 << 20
"""Bytes from which on the frame of a file is kept."""
_MOST_KEPT = 40
"""Maximum number of files in the folder. The oldest ones are deleted."""
_APPROVED = ".approved"
_READER = ("model/*.py", "store/evalsets/*.py", "store/json/*.py")
"""The modules that decide how a file is read and checked."""


class FrameCache:
    """Frames of large files in the user's cache folder, by the content of the file.

    Only frames of files without any fault are kept: they are the positions and ids of cases. An empty file beside a
    frame says that the rules of ADK found nothing in its cases.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or user_cache_path("workbench", appauthor=False) / "frames"

    def load(self, data: bytes, text: str, *, make_head: Callable[[str], Any]) -> EvalSetFrame | None:
        """Return the frame of a file with this content; None if it is unknown. `make_head` makes a head of an id."""
        if len(data) < _LARGE:
            return None
        with contextlib.suppress(OSError, ValueError, KeyError):
            return self._parse(self._file(data).read_bytes(), text, make_head)
        return None

    def save(self, data: bytes, frame: EvalSetFrame, *, ids: list[str]) -> None:
        """Keep the frame of a file without faults. `ids` are the ids of its cases. A failure is ignored."""
        is_plain = frame.format is DocumentFormat.CURRENT and frame.masked.is_strict and not frame.broken
        if len(data) < _LARGE or not is_plain:
            return
        facts = {"ids": ids, "header": frame.header, "cases": [frame.cases_start, frame.cases_end]}
        starts, ends = array("q", (span.start for span in frame.spans)), array("q", (span.end for span in frame.spans))
        content = b"\n".join([json.dumps(facts).encode(), starts.tobytes() + ends.tobytes()])
        with contextlib.suppress(StoreError, OSError):
            make_private_folder(self._folder)
            write_atomic(self._file(data), hashlib.sha256(content).digest() + content, mode=PRIVATE)
            kept = sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
            for path in kept[_MOST_KEPT:]:
                path.unlink()

    def is_approved(self, data: bytes) -> bool:
        """Return True if the rules of ADK found nothing in the cases of a file with this content."""
        return len(data) >= _LARGE and self._file(data).with_suffix(_APPROVED).exists()

    def approve(self, data: bytes) -> None:
        """Note that the rules of ADK found nothing in the cases of a file. A failure is ignored."""
        if len(data) >= _LARGE:
            with contextlib.suppress(StoreError):
                make_private_folder(self._folder)
                write_atomic(self._file(data).with_suffix(_APPROVED), b"", mode=PRIVATE)

    def _parse(self, stored: bytes, text: str, make_head: Callable[[str], Any]) -> EvalSetFrame | None:
        checksum, content = stored[:32], stored[32:]
        if hashlib.sha256(content).digest() != checksum:
            return None
        written, _, positions = content.partition(b"\n")
        facts = json.loads(written)
        ids = facts["ids"]
        places = array("q", positions)
        frame = EvalSetFrame(DocumentFormat.CURRENT, Masked(text), header=facts["header"])
        frame.cases_start, frame.cases_end = facts["cases"]
        frame.spans = [
            CaseSpan(start, end, make_head(eval_id))
            for start, end, eval_id in zip(places[: len(ids)], places[len(ids) :], ids, strict=True)
        ]
        return frame

    def _file(self, data: bytes) -> Path:
        reader = describe_program(*_READER).encode()
        return self._folder / hashlib.sha256(reader + hashlib.sha256(data).digest()).hexdigest()


# The formats before eval sets: a list of turns, and a list of named evals with their turns in `data`

Note = Callable[[Place, str, str], None]
"""Reports a fault: its place in the old data, the value found, the expectation."""


def convert_turns(data: Any, *, eval_id: str, note: Note) -> dict[str, Any]:
    """Convert a list of turns to a case."""
    return {"eval_id": eval_id, "conversation": _convert_conversation(data, (), note)}


def convert_eval(data: Any, *, note: Note) -> dict[str, Any]:
    """Convert a named eval to a case. An empty session is no session input, as in ADK."""
    if not isinstance(data, dict):
        note((), describe_value(data), "an eval (an object with name and data)")
        data = {"name": "", "data": []}
    name = _read_text(data, "name", None, (), note)
    case: dict[str, Any] = {"eval_id": name, "conversation": _convert_conversation(data.get("data"), ("data",), note)}
    session_input = _convert_session_input(data, note)
    if session_input is not None:
        case["session_input"] = session_input
    return case


def convert_session(session: dict[str, Any]) -> dict[str, Any] | None:
    """Convert an old `initial_session` to a session input; None for an empty one."""
    if not session:
        return None
    return {
        "app_name": session.get("app_name", ""),
        "user_id": session.get("user_id", ""),
        "state": session.get("state") or {},
    }


def _convert_session_input(data: dict[str, Any], note: Note) -> dict[str, Any] | None:
    """Convert `initial_session` (app name, user and state), or the still older `initial_state` (only the state)."""
    session = data.get("initial_session")
    if session is not None:
        if isinstance(session, dict):
            return convert_session(session)
        note(("initial_session",), describe_value(session), "an object with app_name, user_id and state")
    state = data.get("initial_state")
    if state is None or state == {}:
        return None
    if not isinstance(state, dict):
        note(("initial_state",), describe_value(state), "an object")
        return None
    return convert_session({"state": state})


def _convert_conversation(turns: Any, place: Place, note: Note) -> list[dict[str, Any]]:
    if not isinstance(turns, list):
        note(place, describe_value(turns), "a list of turns")
        return []
    return [_convert_turn(turn, (*place, index), note) for index, turn in enumerate(turns)]


def _convert_turn(turn: Any, place: Place, note: Note) -> dict[str, Any]:
    if not isinstance(turn, dict):
        note(place, describe_value(turn), "a turn (an object with query and reference)")
        turn = {"query": ""}
    query = _read_text(turn, "query", None, place, note)
    reference = _read_text(turn, "reference", "", place, note)
    calls = _read_list(turn, "expected_tool_use", place, note)
    responses = _read_list(turn, "expected_intermediate_agent_responses", place, note)
    return {
        "user_content": {"parts": [{"text": query}], "role": "user"},
        "final_response": {"parts": [{"text": reference}], "role": "model"},
        "intermediate_data": {
            "tool_uses": [
                _convert_call(call, (*place, "expected_tool_use", index), note) for index, call in enumerate(calls)
            ],
            "intermediate_responses": [
                _convert_response(response, (*place, "expected_intermediate_agent_responses", index), note)
                for index, response in enumerate(responses)
            ],
        },
    }


def _convert_call(call: Any, place: Place, note: Note) -> dict[str, Any]:
    if not isinstance(call, dict):
        note(place, describe_value(call), "a tool call (an object with tool_name and tool_input)")
        return {}
    name = _read_text(call, "tool_name", None, place, note)
    args = call.get("tool_input")
    if args is not None and not isinstance(args, dict):
        note((*place, "tool_input"), describe_value(args), "an object")
        args = None
    return {"name": name, "args": args}


def _convert_response(response: Any, place: Place, note: Note) -> list[Any]:
    if not isinstance(response, dict):
        note(place, describe_value(response), "a response (an object with author and text)")
        response = {"author": "", "text": ""}
    author = _read_text(response, "author", None, place, note)
    return [author, [{"text": _read_text(response, "text", None, place, note)}]]


def _read_text(data: dict[str, Any], key: str, default: str | None, place: Place, note: Note) -> str:
    value = data.get(key, default)
    if isinstance(value, str):
        return value
    if key in data:
        note((*place, key), describe_value(value), "a text")
    else:
        note(place, "nothing", f"the required key {key}")
    return ""


def _read_list(data: dict[str, Any], key: str, place: Place, note: Note) -> list[Any]:
    value = data.get(key)
    if value is None:
        return []
    if isinstance(value, list):
        return value
    note((*place, key), describe_value(value), "a list")
    return []
