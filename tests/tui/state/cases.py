"""Shared helpers for tests of the editor: eval sets in all formats, and their outlines."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from workbench.store.errors import StoreError
from workbench.store.evalsets.case_frame import DocumentFormat
from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.tui.state.case_edits import Edit, InsertItem, MoveItem, RemoveValue, RenameKey, ReplaceMember, SetValue
from workbench.tui.state.case_outline import OutlineRow, Place, case_rows, get_value, legacy_rows, spell_place

ROOT = Path(__file__).parent.parent.parent.parent
FOLDERS = (
    ROOT / "tests" / "fixtures" / "evalsets",
    *(ROOT.parent / "shared" / "corpus" / name for name in ("new", "legacy", "documentation")),
)
FILES = [
    path for folder in FOLDERS for pattern in ("*.evalset.json", "*.test.json") for path in sorted(folder.glob(pattern))
]


def file_name(path: Path) -> str:
    """Return the label of a file for a test id."""
    return f"{path.parent.name}/{path.name}"


def outline_case(document: EvalSetDocument, index: int) -> Sequence[OutlineRow]:
    """Return the outline of a case of a document."""
    build = case_rows if document.format is DocumentFormat.CURRENT else legacy_rows
    return build(document.raw_case(index))


def iterate_readable_cases(document: EvalSetDocument) -> Iterator[int]:
    """Return the cases whose JSON can be read."""
    for entry in document.entries:
        try:
            document.raw_case(entry.index)
        except StoreError:
            continue
        yield entry.index


def iterate_leaves(data: Any, place: Place = ()) -> Iterator[Place]:
    """Return the paths of all values without children."""
    if isinstance(data, dict) and data:
        for key, value in data.items():
            yield from iterate_leaves(value, (*place, key))
    elif isinstance(data, list) and data:
        for index, value in enumerate(data):
            yield from iterate_leaves(value, (*place, index))
    else:
        yield place


def make_set_bytes(*cases: Any, **header: Any) -> bytes:
    """Return an eval set as a file."""
    return json.dumps({"eval_set_id": "s", **header, "eval_cases": list(cases)}, indent=2, ensure_ascii=False).encode()


def make_document(*cases: Any, **header: Any) -> EvalSetDocument:
    """Return an eval set in memory."""
    return EvalSetDocument(Path("s.evalset.json"), make_set_bytes(*cases, **header), None)


def apply_to_data(edit: Edit, data: Any) -> Any:
    """Apply an edit to the plain data of a case; the test oracle, which never uses the text of the file."""
    data = copy.deepcopy(data)
    match edit:
        case SetValue(place=(), value=value):
            return value
        case SetValue(place, value):
            parent_value = data
            *steps, last = spell_place(data, place)
            for step in steps:
                if isinstance(parent_value, dict) and parent_value.get(step) is None:
                    parent_value[step] = {}
                parent_value = parent_value[step]
            parent_value[last] = value
        case InsertItem(place, index, value):
            get_value(data, place).insert(index, value)
        case RemoveValue(place):
            place = spell_place(data, place)
            del get_value(data, place[:-1])[place[-1]]
        case MoveItem(place, source, target):
            items = get_value(data, place)
            items.insert(target, items.pop(source))
        case RenameKey(place, key):
            parent = get_value(data, place[:-1])
            members = [(key if old == place[-1] else old, value) for old, value in parent.items()]
            parent.clear()
            parent.update(members)
        case ReplaceMember(old, new):
            return apply_to_data(RemoveValue(old), apply_to_data(new, data))
    return data


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NUMBERS = st.integers(-(10**6), 10**6) | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
FREE = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=6
)
OBJECTS = st.dictionaries(TEXTS, FREE, max_size=3)


def _record(required: dict[str, Any], optional: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(required, optional=optional)


CALLS = _record({"name": TEXTS}, {"args": OBJECTS | st.none(), "id": TEXTS})
RESPONSES = _record({"name": TEXTS, "response": OBJECTS}, {"id": TEXTS})
PARTS = st.one_of(
    _record({"text": TEXTS}, {"thought": st.booleans()}),
    _record({"function_call": CALLS}, {}),
    _record({"function_response": RESPONSES}, {"thought": st.booleans()}),
    _record({"inline_data": st.fixed_dictionaries({"mime_type": TEXTS, "data": TEXTS})}, {}),
)
CONTENTS = _record({"parts": st.lists(PARTS, max_size=3)}, {"role": st.sampled_from(["user", "model", "tool"])})
RUBRICS = _record(
    {"rubric_id": TEXTS, "rubric_content": st.fixed_dictionaries({"text_property": TEXTS | st.none()})},
    {"description": TEXTS, "type": TEXTS},
)
FLAT = _record(
    {},
    {
        "tool_uses": st.lists(CALLS, max_size=3),
        "tool_responses": st.lists(RESPONSES, max_size=2),
        "intermediate_responses": st.lists(st.tuples(TEXTS, st.lists(PARTS, max_size=2)).map(list), max_size=2),
    },
)
EVENTS = st.fixed_dictionaries(
    {"invocation_events": st.lists(_record({"author": TEXTS}, {"content": CONTENTS | st.none()}), max_size=3)}
)
TURNS = _record(
    {"user_content": CONTENTS},
    {
        "invocation_id": TEXTS,
        "final_response": CONTENTS | st.none(),
        "intermediate_data": FLAT | EVENTS | st.none(),
        "rubrics": st.lists(RUBRICS, max_size=2),
        "creation_timestamp": NUMBERS,
        "note": FREE,
    },
)
PERSONAS = st.fixed_dictionaries(
    {
        "id": TEXTS,
        "description": TEXTS,
        "behaviors": st.lists(
            st.fixed_dictionaries(
                {
                    "name": TEXTS,
                    "description": TEXTS,
                    "behavior_instructions": st.lists(TEXTS, max_size=2),
                    "violation_rubrics": st.lists(TEXTS, max_size=2),
                }
            ),
            max_size=2,
        ),
    }
)
_MORE = {
    "session_input": _record({"app_name": TEXTS, "user_id": TEXTS}, {"state": OBJECTS, "session_id": TEXTS}),
    "final_session_state": OBJECTS,
    "rubrics": st.lists(RUBRICS, max_size=2),
    "creation_timestamp": NUMBERS,
    "owner": FREE,
}
CASES = st.one_of(
    _record({"eval_id": TEXTS, "conversation": st.lists(TURNS, max_size=3)}, _MORE),
    _record(
        {
            "eval_id": TEXTS,
            "conversation_scenario": _record(
                {"starting_prompt": TEXTS, "conversation_plan": TEXTS}, {"user_persona": TEXTS | PERSONAS | st.none()}
            ),
        },
        _MORE,
    ),
)
