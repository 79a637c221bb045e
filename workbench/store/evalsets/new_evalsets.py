"""New eval sets, scenarios, migration of older formats, and differences of two versions."""

from __future__ import annotations

import hashlib
import json
import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from workbench.model.evalset import ConversationScenario, SessionInput, UserPersona
from workbench.store.errors import StoreError, shown_path
from workbench.store.evalsets.adk_rules import check_type
from workbench.store.evalsets.case_frame import DocumentFormat, convert_session, describe_value
from workbench.store.evalsets.case_reader import InvalidData, Model, migrate_case, validate_data
from workbench.store.evalsets.config_files import JsonFile, read_json
from workbench.store.evalsets.evalset_document import DocumentView, EvalSetDocument
from workbench.store.files import EVAL_SET_SUFFIX, derive_set_name, write_new
from workbench.store.json.json_layout import JsonStyle, write_value
from workbench.store.json.json_path import Place, find_key, format_place

# New eval sets and scenarios, compatible with ADK's commands

AdkPersonas = Mapping[str, Mapping[str, Any]]
"""ADK's own personas by id, as ADK dumps them."""

_NO_PERSONAS: AdkPersonas = {}
_NEW_ID = re.compile(r"[a-zA-Z0-9_]+")


@dataclass(frozen=True, kw_only=True)
class AddedCase:
    """The case of a scenario: `added`, or already in the set.

    `is_adk_id`: its id is the one that ADK computes.
    """

    eval_id: str
    added: bool
    is_adk_id: bool


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A conversation scenario: its `data` in a file, and the same as a type."""

    data: dict[str, Any]
    scenario: ConversationScenario

    @property
    def persona_name(self) -> str | None:
        """The name of the persona, if the scenario has only a name."""
        persona = self.scenario.user_persona
        return persona if isinstance(persona, str) else None

    def eval_id(self, adk_personas: AdkPersonas = _NO_PERSONAS) -> str:
        """Compute ADK's id of its case: the first 8 hexadecimal digits of the SHA-256 of its sorted-key JSON.

        ADK replaces the name of a persona by its text. For a persona that is not in `adk_personas` the name is hashed,
        and the id differs from ADK's.
        """
        dumped = _dump_like_adk(self.scenario)
        if self.persona_name is not None:
            dumped["user_persona"] = adk_personas.get(self.persona_name, self.persona_name)
        return hashlib.sha256(json.dumps(dumped, sort_keys=True).encode()).hexdigest()[:8]


def to_scenario(scenario: ConversationScenario) -> Scenario:
    """Make a scenario with the data that a file has."""
    return Scenario(data=scenario.model_dump(mode="json", exclude_none=True), scenario=scenario)


def create_eval_set(path: Path, eval_set_id: str) -> EvalSetDocument:
    """Create an eval set without cases at `path`, which must not exist. Raises StoreError, also for an invalid id."""
    content = make_new_set_content(path, eval_set_id)
    stamp = write_new(path, content)
    return EvalSetDocument(path, content, stamp)


def open_or_make_set(path: Path) -> EvalSetDocument:
    """Open an eval set, or make a new one that its first save creates. Raises StoreError."""
    if path.exists():
        document = EvalSetDocument.open(path)
        document.refuse_broken_json()
        return document
    if not path.name.endswith(EVAL_SET_SUFFIX):
        raise StoreError(
            path, found="no such file", expected=f"an eval set, or the name of a new one: *{EVAL_SET_SUFFIX}"
        )
    if not path.parent.is_dir():
        raise StoreError(path, f"cannot create it: there is no folder {path.parent}")
    return EvalSetDocument(path, make_new_set_content(path, path.name.removesuffix(EVAL_SET_SUFFIX)), None)


def make_new_set_content(path: Path, eval_set_id: str) -> bytes:
    """Return the file of an eval set without cases. Raises StoreError for an invalid id."""
    if not _NEW_ID.fullmatch(eval_set_id):
        raise StoreError(path, found=f"the id {eval_set_id!r}", expected="letters, digits and underscores only")
    data = {"eval_set_id": eval_set_id, "name": eval_set_id, "eval_cases": [], "creation_timestamp": time.time()}
    return (json.dumps(data, indent=2) + "\n").encode()


def add_scenarios(
    eval_set: Path,
    scenarios_file: Path,
    *,
    session_input_file: Path,
    read_personas: Callable[[], AdkPersonas],
) -> list[AddedCase]:
    """Add each scenario of a file to an eval set as a case, unless it has it, and save the set.

    See `insert_scenarios`. Raises StoreError, also for scenarios that ADK would refuse, because it would then refuse
    the whole set; the set is then unchanged.
    """
    document = EvalSetDocument.open(eval_set)
    session_input = read_session_input(session_input_file)
    loaded = read_json(scenarios_file)
    scenarios: list[Scenario] = []
    for place, scenario in _list_scenarios(loaded):
        for finding in check_type(scenario.data, "ConversationScenario", place):
            if finding.severity == "error":
                line, column = loaded.position(finding.place)
                where = format_place(finding.place)
                raise StoreError(scenarios_file, finding.message, place=where, line=line, column=column)
        scenarios.append(scenario)
    results = insert_scenarios(document, scenarios, session_input=session_input, read_personas=read_personas)
    if document.is_dirty:
        document.save()
    return results


def document_for_scenarios(path: Path, eval_set_id: str) -> EvalSetDocument:
    """Open the eval set at `path`, or make a new one that its first save creates. Raises StoreError."""
    if path.exists():
        document = EvalSetDocument.open(path)
        refuse_older_format(document)
        return document
    return EvalSetDocument(path, make_new_set_content(path, eval_set_id), None)


def refuse_older_format(document: EvalSetDocument) -> None:
    """Raise StoreError if the format of the file has no scenarios."""
    if document.format is not DocumentFormat.CURRENT:
        raise StoreError(document.path, "the old format has no conversation scenarios; migrate the file first")


def insert_scenarios(
    document: EvalSetDocument,
    scenarios: Sequence[Scenario],
    *,
    session_input: Mapping[str, Any],
    read_personas: Callable[[], AdkPersonas],
) -> list[AddedCase]:
    """Append each scenario to a set as a case, unless it has it. The set is not saved.

    The name of a persona is kept; `read_personas` is called if there is one. The set has a scenario if it has ADK's id,
    or the id that is computed without ADK's personas. Raises StoreError.
    """
    refuse_older_format(document)
    known = {entry.eval_id for entry in document.entries}
    results: list[AddedCase] = []
    adk_personas = read_personas() if any(scenario.persona_name for scenario in scenarios) else _NO_PERSONAS
    for scenario in scenarios:
        eval_id = scenario.eval_id(adk_personas)
        found = next((each for each in (eval_id, scenario.eval_id()) if each in known), None)
        is_adk_id = scenario.persona_name is None or scenario.persona_name in adk_personas
        results.append(AddedCase(eval_id=found or eval_id, added=found is None, is_adk_id=is_adk_id))
        if found is not None:
            continue
        known.add(eval_id)
        case = {
            "eval_id": eval_id,
            "conversation_scenario": scenario.data,
            "session_input": dict(session_input),
            "creation_timestamp": time.time(),
        }
        document.insert_case(len(document), case)
    return results


def read_scenarios(path: Path) -> list[Scenario]:
    """Read a scenarios file: an object with `scenarios`, a list of them, or a single one. Raises StoreError."""
    return [scenario for _, scenario in _list_scenarios(read_json(path))]


def _list_scenarios(loaded: JsonFile) -> list[tuple[Place, Scenario]]:
    data = loaded.data
    above: Place = ()
    if isinstance(data, dict) and "scenarios" in data:
        data, above = data["scenarios"], ("scenarios",)
    elif isinstance(data, dict):
        return [((), _read_scenario(loaded, data, ()))]
    if not isinstance(data, list):
        raise loaded.error(above, found=describe_value(data), expected="a list of conversation scenarios")
    places: list[Place] = [(*above, index) for index in range(len(data))]
    return [(place, _read_scenario(loaded, item, place)) for place, item in zip(places, data, strict=True)]


def read_session_input(path: Path) -> dict[str, Any]:
    """Read a session-input file as data; app and user are required, as in ADK. Raises StoreError."""
    loaded = read_json(path)
    data = loaded.data
    _validate_value(loaded, SessionInput, data, ())
    for key in ("app_name", "user_id"):
        if find_key(data, key, free=False) is None:
            raise loaded.error((), found="nothing", expected=f"the required key {key}")
    return dict(data)


def _read_scenario(loaded: JsonFile, data: Any, place: Place) -> Scenario:
    return Scenario(data=data, scenario=_validate_value(loaded, ConversationScenario, data, place))


def _validate_value(loaded: JsonFile, model: type[Model], data: Any, place: Place) -> Model:
    """Validate a value. Raises StoreError with the place in the file."""
    try:
        return validate_data(model, data)
    except InvalidData as invalid:
        fault = invalid.faults[0]
        raise loaded.error((*place, *fault.place), found=fault.found, expected=fault.expected) from invalid


def _dump_like_adk(scenario: ConversationScenario) -> dict[str, Any]:
    """Dump a scenario like ADK's own type: known fields only, null included."""
    persona = scenario.user_persona
    return {
        "starting_prompt": scenario.starting_prompt,
        "conversation_plan": scenario.conversation_plan,
        "user_persona": _dump_persona(persona) if isinstance(persona, UserPersona) else persona,
    }


def _dump_persona(persona: UserPersona) -> dict[str, Any]:
    return {
        "id": persona.id,
        "description": persona.description,
        "behaviors": [
            {
                "name": behavior.name,
                "description": behavior.description,
                "behavior_instructions": behavior.behavior_instructions,
                "violation_rubrics": behavior.violation_rubrics,
            }
            for behavior in persona.behaviors
        ],
    }


# Migration: a file of an old format is written in the current one

_CARRIED = {
    "turn": {"query", "reference", "expected_tool_use", "expected_intermediate_agent_responses"},
    "call": {"tool_name", "tool_input"},
    "response": {"author", "text"},
    "eval": {"name", "data", "initial_session", "initial_state"},
}


def migrate(old: Path, new: Path, *, initial_session: Path | None = None) -> tuple[str, ...]:
    """Write the eval set of an old file in the current format to `new`, which must not exist.

    Invocations get new ids (UUID 4) and the current time; the set is named after the new file. `initial_session` is the
    session file of the older format, for cases without their own session. Returns the places of values that the current
    format cannot represent. Raises StoreError; nothing is written then.
    """
    if new.exists():
        raise StoreError(new, "cannot create it: it already exists")
    document = EvalSetDocument.open(old)
    if document.format is DocumentFormat.CURRENT:
        raise StoreError(old, found="an eval set in the current format", expected="one in an old format")
    write_new(new, _migrate_set(document, derive_set_name(new), initial_session))
    return tuple(
        format_place((*document.place_of_case(index), *place))
        for index in range(len(document))
        for place in _find_dropped_keys(document.raw_case(index), document.format)
    )


def migrate_with_session(document: EvalSetDocument, initial_session: Path) -> EvalSetDocument:
    """Migrate an old document in memory, with the session from the session file of the older format.

    Nothing is written. Raises StoreError, also for a document in the current format, which has its own sessions.
    """
    if document.format is DocumentFormat.CURRENT:
        message = f"its cases have their own session_input; {shown_path(initial_session)} cannot be used"
        raise StoreError(document.path, message)
    data = _migrate_set(document, derive_set_name(document.path), initial_session)
    return EvalSetDocument(document.path, data, None)


def _migrate_set(document: EvalSetDocument, name: str, initial_session: Path | None) -> bytes:
    """Return the content of the file in the current format."""
    document.refuse_broken_json()
    session = None if initial_session is None else _read_session(initial_session)
    now = time.time()
    cases = [_migrate_case(document, index, session, now=now) for index in range(len(document))]
    data = {"eval_set_id": name, "name": name, "eval_cases": cases, "creation_timestamp": now}
    return (write_value(data, JsonStyle(), indentation="") + "\n").encode()


def _migrate_case(
    document: EvalSetDocument, index: int, session: dict[str, Any] | None, *, now: float
) -> dict[str, Any]:
    raw = document.raw_case(index)
    case, faults = migrate_case(raw, format=document.format, eval_id=derive_set_name(document.path))
    if faults:
        raise document.locate_fault(index, faults[0])
    if session is not None:
        case.setdefault("session_input", session)
    for invocation in case["conversation"]:
        for call in invocation["intermediate_data"]["tool_uses"]:
            if call["args"] is None:
                del call["args"]
        invocation["creation_timestamp"] = now
    case["conversation"] = [{"invocation_id": str(uuid.uuid4()), **invocation} for invocation in case["conversation"]]
    case["creation_timestamp"] = now
    return case


def _read_session(path: Path) -> dict[str, Any] | None:
    loaded = read_json(path)
    if not isinstance(loaded.data, dict):
        raise loaded.error((), found=describe_value(loaded.data), expected="an object with app_name, user_id and state")
    return convert_session(loaded.data)


def _find_dropped_keys(raw: Any, format: DocumentFormat) -> list[Place]:
    """Return the places in an old case whose values the current format cannot represent."""
    above: Place = ()
    left: list[Place] = []
    if format is DocumentFormat.LEGACY_EVALS:
        left += [(key,) for key in raw if key not in _CARRIED["eval"]]
        raw, above = raw["data"], ("data",)
    for index, turn in enumerate(raw):
        place = (*above, index)
        left += [(*place, key) for key in turn if key not in _CARRIED["turn"]]
        for key, kind in (("expected_tool_use", "call"), ("expected_intermediate_agent_responses", "response")):
            for number, item in enumerate(turn.get(key) or ()):
                left += [(*place, key, number, field) for field in item if field not in _CARRIED[kind]]
    return left


# Differences of two versions of an eval set

DifferenceKind = Literal["changed", "only in ours", "only in theirs", "moved"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseDifference:
    """A case that differs between two versions: in its text, its position, or because one version lacks it."""

    eval_id: str
    occurrence: int
    how: DifferenceKind


def find_differing_cases(ours: DocumentView, theirs: DocumentView) -> list[CaseDifference]:
    """Return the cases that differ, in the order of ours, then those only in theirs. Cases are matched by id.

    A case counts as moved if its text is equal, but the order of the common cases differs.
    """
    mine, other = _collect_texts(ours), _collect_texts(theirs)
    shared = [key for key in mine if key in other]
    order = {key: place for place, key in enumerate(key for key in other if key in mine)}
    found = []
    for key, text in mine.items():
        how: DifferenceKind | None = None
        if key not in other:
            how = "only in ours"
        elif other[key] != text:
            how = "changed"
        elif shared[order[key]] != key:
            how = "moved"
        if how is not None:
            found.append(CaseDifference(eval_id=key[0], occurrence=key[1], how=how))
    return found + [
        CaseDifference(eval_id=key[0], occurrence=key[1], how="only in theirs") for key in other if key not in mine
    ]


def _collect_texts(document: DocumentView) -> dict[tuple[str, int], bytes]:
    pieces = document.pieces_of_cases()
    return {(entry.eval_id, entry.occurrence): pieces[entry.index].data for entry in document.entries}
