"""Places in JSON: paths, keys of the format, and duplicate keys."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple

from workbench.model.text import measure_common_prefix
from workbench.store.json.json_text import decode_tolerantly, decode_value, skip_space

# The types of google-adk 2.13: their keys, the required ones, and the handling of unknown keys

Unknown = Literal["refused", "dropped", "kept"]


@dataclass(frozen=True, kw_only=True)
class AdkType:
    """One type: its fields with the types of their values ("" if they are not checked here).

    Scalars are `text` or `number`; a question mark allows null.
    """

    fields: dict[str, str] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    unknown: Unknown = "refused"
    reads_camel_case: bool = True


def _type(fields: str, *, required: str = "", unknown: Unknown = "refused", reads_camel_case: bool = True) -> AdkType:
    """Make a type from the notation `name name:Type`."""
    pairs = (item.partition(":") for item in fields.split())
    return AdkType(
        fields={name: kind for name, _, kind in pairs},
        required=frozenset(required.split()),
        unknown=unknown,
        reads_camel_case=reads_camel_case,
    )


ADK_TYPES = {
    "EvalSet": _type(
        "eval_set_id name:text? description:text? eval_cases:EvalCase creation_timestamp:number",
        required="eval_set_id eval_cases",
        unknown="dropped",
        reads_camel_case=False,
    ),
    "EvalCase": _type(
        "eval_id conversation:Invocation conversation_scenario:ConversationScenario session_input:SessionInput"
        " creation_timestamp rubrics:Rubric final_session_state",
        required="eval_id",
        unknown="kept",
    ),
    "Invocation": _type(
        "invocation_id user_content:Content final_response:Content intermediate_data:IntermediateData"
        " creation_timestamp duration:number? model_duration:number? tool_duration:number?"
        " rubrics:Rubric app_details:AppDetails",
        required="user_content",
    ),
    "Content": _type("parts:Part role"),
    "Part": _type(
        "media_resolution code_execution_result:CodeExecutionResult executable_code:ExecutableCode file_data:FileData"
        " function_call:FunctionCall function_response:FunctionResponse inline_data:Blob text thought thought_signature"
        " video_metadata:VideoMetadata tool_call tool_response part_metadata audio_transcription media_processing"
        " speech_metadata"
    ),
    "CodeExecutionResult": _type("outcome output id"),
    "ExecutableCode": _type("code language id"),
    "FileData": _type("display_name file_uri mime_type"),
    "Blob": _type("data display_name mime_type"),
    "VideoMetadata": _type("end_offset fps start_offset"),
    "FunctionCall": _type("id args name partial_args will_continue"),
    "FunctionResponse": _type("will_continue scheduling parts id name response"),
    "IntermediateData": _type(
        "tool_uses:FunctionCall tool_responses:FunctionResponse intermediate_responses:IntermediateResponse"
    ),
    "InvocationEvents": _type("invocation_events:InvocationEvent"),
    "InvocationEvent": _type(
        "author content:Content grounding_metadata usage_metadata model_version", required="author", unknown="dropped"
    ),
    "Rubric": _type("rubric_id rubric_content:RubricContent description type", required="rubric_id rubric_content"),
    "RubricContent": _type("text_property"),
    "AppDetails": _type("agent_details"),
    "ConversationScenario": _type(
        "starting_prompt conversation_plan user_persona:UserPersona", required="starting_prompt conversation_plan"
    ),
    "UserPersona": _type(
        "id description behaviors:UserBehavior",
        required="id description behaviors",
        unknown="dropped",
        reads_camel_case=False,
    ),
    "UserBehavior": _type(
        "name description behavior_instructions violation_rubrics",
        required="name description behavior_instructions violation_rubrics",
        unknown="dropped",
        reads_camel_case=False,
    ),
    "SessionInput": _type("app_name user_id session_id state", required="app_name user_id", unknown="kept"),
    "EvalConfig": _type(
        "criteria custom_metrics user_simulator_config live_model_config:LiveModelConfig", unknown="dropped"
    ),
    "LiveModelConfig": _type("timeout_seconds", unknown="dropped"),
    "CustomMetricConfig": _type(
        "code_config:CodeConfig metric_info:MetricInfo description", required="code_config", unknown="dropped"
    ),
    "CodeConfig": _type("name", required="name", reads_camel_case=False),
    "MetricInfo": _type(
        "metric_name description metric_value_info:MetricValueInfo requires_threshold",
        required="metric_name metric_value_info",
    ),
    "MetricValueInfo": _type("interval:Interval"),
    "Interval": _type("min_value open_at_min max_value open_at_max", required="min_value max_value"),
    "ConversationScenarios": _type("scenarios:ConversationScenario"),
}

FORMAT_FIELDS = frozenset(name for kind in ADK_TYPES.values() for name in kind.fields)
"""All keys of the formats, in snake_case."""

EVENT_FIELDS = frozenset({"invocation_events"})
FLAT_FIELDS = frozenset({"tool_uses", "tool_responses", "intermediate_responses"})
"""The two forms of `intermediate_data`, which ADK does not read together."""


# Places in a JSON document, as text for people and as offsets

Place = tuple[str | int, ...]

_FREE_FIELDS = frozenset(
    {"args", "response", "state", "final_session_state", "tool_declarations", "agent_details", "custom_metadata"}
)
"""Fields of the format whose content has the user's own keys."""

_LINE_END = re.compile(r"\n")
_PLAIN_KEY = re.compile(r"[^\W\d][\w-]*")
_STEP = re.compile(r"""\[(\d+)\]|\["(.*?)"\]|([^.\[\]]+)""")
_CAMEL_HUMP = re.compile(r"(?<=[a-z0-9])([A-Z])")
_SNAKE_STEP = re.compile(r"(?<=[a-z0-9])_([a-z0-9])")


class Member(NamedTuple):
    """A member of an object or an element of a list: offsets of its key (-1 for elements) and its value."""

    key: str | int
    key_start: int
    start: int
    end: int


def format_place(place: Place) -> str:
    """Format a place as `eval_cases[3].conversation[0].user_content`; keys that are no words become `["a key"]`."""
    text = ""
    for step in place:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f'["{step}"]'
    return text


def parse_place(text: str) -> Place:
    """Parse a place of `format_place`; text in parentheses, such as `(top level)`, is the whole file."""
    if text.startswith("("):
        return ()
    steps: list[str | int] = []
    for match in _STEP.finditer(text):
        index, quoted, key = match.groups()
        steps.append(int(index) if index is not None else (quoted if quoted is not None else key))
    return tuple(steps)


@lru_cache(maxsize=1024)
def to_snake(key: str) -> str:
    return _CAMEL_HUMP.sub(lambda match: "_" + match.group(1).lower(), key)


@lru_cache(maxsize=1024)
def to_camel(key: str) -> str:
    return _SNAKE_STEP.sub(lambda match: match.group(1).upper(), key)


def get_spelled(data: Mapping[str, Any], name: str) -> Any:
    """Return the value of a key in snake case, which may be written in camel case; None if it is missing."""
    return data[name] if name in data else data.get(to_camel(name))


def is_format_key(key: str) -> bool:
    """True if a key, in either style, is defined by the format."""
    return to_snake(key) in FORMAT_FIELDS


def is_user_key(key: str | int) -> bool:
    """True if the content of this key belongs to the user, as for all keys that the format does not define."""
    return isinstance(key, str) and (to_snake(key) in _FREE_FIELDS or not is_format_key(key))


def is_same_key(key: str, other: str, *, free: bool) -> bool:
    """True if two keys are the same field: the same text or, for a field of the format, the other style."""
    return key == other or (not free and is_format_key(key) and to_snake(key) == to_snake(other))


def find_key(keys: Mapping[str, Any], key: str, *, free: bool) -> str | None:
    """Return the spelling of a key in an object; None if it is missing."""
    if key in keys:
        return key
    if free or not is_format_key(key):
        return None
    wanted = to_snake(key)
    return next((name for name in keys if to_snake(name) == wanted), None)


def list_members(text: str, start: int) -> tuple[list[Member], int]:
    """Return the members of the object or list whose bracket is at `start`, and the offset of its closing bracket.

    The text must be strict (masked) JSON; raises BrokenJson otherwise.
    """
    found: list[Member] = []
    is_object = text[start] == "{"
    position = skip_space(text, start + 1)
    while text[position] not in "]}":
        key: str | int = len(found)
        key_start = -1
        if is_object:
            key_start = position
            key, position = decode_value(text, position)
            position = skip_space(text, skip_space(text, position) + 1)
        end = decode_value(text, position).end
        found.append(Member(key, key_start, position, end))
        position = skip_space(text, end)
        if text[position] == ",":
            position = skip_space(text, position + 1)
    return found, position


def find_member(found: list[Member], step: str | int, *, free: bool) -> Member | None:
    """Find the member of a step of a place. The last of duplicate keys counts, as for every JSON reader."""
    if isinstance(step, int):
        return found[step] if -1 < step < len(found) and found[step].key_start < 0 else None
    exact = [member for member in found if member.key == step]
    if exact:
        return exact[-1]
    alike = [member for member in found if isinstance(member.key, str) and is_same_key(member.key, step, free=free)]
    return alike[-1] if alike else None


def find_offset(text: str, place: Place) -> int:
    """Return the offset of the value at a place or, if it is missing, of the nearest value above it."""
    return Locator(text).find_offset(place)


class Position(NamedTuple):
    """A position in a text: line and column in characters, both from 1."""

    line: int
    column: int


class Locator:
    """Finds places in one text and caches its members, because a text may have thousands of faults."""

    def __init__(self, text: str) -> None:
        """The text must be strict (masked) JSON, except for `get_position`."""
        self._text = text
        self._members: dict[int, dict[str | int, Member]] = {}  # by the offset of their object or list

    def find_offset(self, place: Place) -> int:
        """Return the offset of the value at a place or, if it is missing, of the nearest value above it."""
        position = skip_space(self._text, 0)
        free = False
        for step in place:
            if self._text[position : position + 1] not in ("{", "["):
                return position
            member = self._find_member(position, step, free=free)
            if member is None:
                return position
            position = member.start
            free = free or is_user_key(step)
        return position

    def get_position(self, offset: int) -> Position:
        """Return the line and column of an offset."""
        line = bisect_right(self._line_starts, offset)
        return Position(line, offset - self._line_starts[line - 1] + 1)

    def find_position(self, place: Place) -> Position:
        """Return the line and column of a place, as `find_offset` finds it."""
        return self.get_position(self.find_offset(place))

    def _find_member(self, start: int, step: str | int, *, free: bool) -> Member | None:
        found = self._members.get(start)
        if found is None:  # the last of duplicate keys counts, as for every JSON reader
            found = self._members[start] = {member.key: member for member in list_members(self._text, start)[0]}
        return found.get(step) or find_member(list(found.values()), step, free=free)

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in _LINE_END.finditer(self._text))]


def get_positions(text: str, offsets: Iterable[int]) -> Iterator[Position]:
    """Yield the lines and columns of ascending offsets in one pass over the text."""
    line, line_start, last = 1, 0, 0
    for offset in offsets:
        line += text.count("\n", last, offset)
        line_start = max(line_start, text.rfind("\n", last, offset) + 1)
        last = offset
        yield Position(line, offset - line_start + 1)


def get_position(text: str, offset: int) -> Position:
    """Return the line and column of an offset."""
    return Position(text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))


# Comparison of JSON values: numbers keep their type, and the order of keys is ignored

_MOST_COMPARISONS = 1_000_000


class AlignedBlock(NamedTuple):
    """A part of two lists: `old[old_start:old_end]` became `new[new_start:new_end]`, or is the same if `equal`."""

    equal: bool
    old_start: int
    old_end: int
    new_start: int
    new_end: int


def to_canonical(value: Any) -> str:
    """Return a text that is equal exactly for the same JSON. 1, 1.0 and true differ; NaN equals NaN."""
    return json.dumps(value, sort_keys=True)


def is_same_json(one: Any, other: Any) -> bool:
    """True if two values are the same JSON."""
    return type(one) is type(other) and to_canonical(one) == to_canonical(other)


def align_lists(old: Sequence[Any], new: Sequence[Any]) -> list[AlignedBlock]:
    """Align two lists; keys in either style are the same."""
    old_texts = [to_canonical(_to_snake_keys(item)) for item in old]
    new_texts = [to_canonical(_to_snake_keys(item)) for item in new]
    if len(old_texts) * len(new_texts) > _MOST_COMPARISONS:
        start = measure_common_prefix(old_texts, new_texts)
        end = measure_common_prefix(old_texts[start:][::-1], new_texts[start:][::-1])
        old_end, new_end = len(old) - end, len(new) - end
        return [
            AlignedBlock(True, 0, start, 0, start),
            AlignedBlock(False, start, old_end, start, new_end),
            AlignedBlock(True, old_end, len(old), new_end, len(new)),
        ]
    matcher = SequenceMatcher(None, old_texts, new_texts, autojunk=False)
    return [AlignedBlock(code[0] == "equal", *code[1:]) for code in matcher.get_opcodes()]


def _to_snake_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {to_snake(key): _to_snake_keys(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_to_snake_keys(item) for item in value]
    return value


# Duplicate keys in an object: most readers accept them and take the last, which is hardly ever intended


class RepeatedKey(NamedTuple):
    """A duplicate key in an object. `loses_data`: its values differ, so readers drop some."""

    place: Place
    loses_data: bool


class _Repeated(Exception):
    """A key is duplicate."""


def find_repeated_keys(text: str) -> Iterator[RepeatedKey]:
    """Yield the duplicate keys of all objects, each once. The text must be JSON, tolerantly read."""
    if _has_no_repeats(text):  # most texts have none and are strict JSON
        return
    strict = decode_tolerantly(text)[1].text
    if not _has_no_repeats(strict):
        yield from _search_repeats(strict, skip_space(strict, 0), ())


def _has_no_repeats(text: str) -> bool:
    """True if a text is strict JSON without duplicate keys."""
    try:
        _DECODER.decode(text)
    except (_Repeated, ValueError):
        return False
    return True


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> None:
    if len({key for key, _ in pairs}) != len(pairs):
        raise _Repeated


_DECODER = json.JSONDecoder(object_pairs_hook=_refuse_repeated)


def _search_repeats(text: str, start: int, place: Place) -> Iterator[RepeatedKey]:
    if text[start] not in "{[":
        return
    found: dict[str | int, list[Member]] = {}
    for member in list_members(text, start)[0]:
        found.setdefault(member.key, []).append(member)
    for key, same in found.items():
        inner = (*place, key)
        if len(same) > 1:
            values = {json.dumps(decode_value(text, member.start).value, sort_keys=True) for member in same}
            yield RepeatedKey(inner, loses_data=len(values) > 1)  # compared as text: True equals 1 in Python
        yield from _search_repeats(text, same[-1].start, inner)
