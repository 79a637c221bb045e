"""New eval sets, and scenarios added to them as ADK's commands do it."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.model.evalset import ConversationScenario, SessionInput, UserPersona
from workbench.store.documents.cases import InvalidData, validated
from workbench.store.documents.evalset_document import EvalSetDocument
from workbench.store.documents.frame import DocumentFormat, kind_of
from workbench.store.documents.places import Place, find_key
from workbench.store.documents.reader import Loaded, read_json
from workbench.store.errors import StoreError
from workbench.store.files import write_new

_NEW_ID = re.compile(r"[a-zA-Z0-9_]+")


@dataclass(frozen=True, kw_only=True)
class AddedCase:
    """A scenario's case: `added` now, or already in the set."""

    eval_id: str
    added: bool


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A conversation scenario as a file has it (`data`), and as it is read."""

    data: dict[str, Any]
    scenario: ConversationScenario

    @property
    def eval_id(self) -> str:
        """The id ADK gives its case: the first 8 hexadecimal digits of the SHA-256 of its sorted-key JSON.

        For a persona given by name ADK hashes the text of its own persona in place of the name, so ids of such cases
        differ from ADK's.
        """
        text = json.dumps(_as_adk_dumps(self.scenario), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]


def as_data(scenario: ConversationScenario) -> Scenario:
    """A scenario with what a file has of it."""
    return Scenario(data=scenario.model_dump(mode="json", exclude_none=True), scenario=scenario)


def new_eval_set(path: Path, eval_set_id: str) -> EvalSetDocument:
    """Create an eval set without cases at `path`, which must not exist. Raises StoreError, also for a wrong id."""
    content = content_of_new_set(path, eval_set_id)
    stamp = write_new(path, content)
    return EvalSetDocument(path, content, stamp)


def content_of_new_set(path: Path, eval_set_id: str) -> bytes:
    """The file of an eval set without cases. Raises StoreError for a wrong id."""
    if not _NEW_ID.fullmatch(eval_set_id):
        raise StoreError(path, found=f"the id {eval_set_id!r}", expected="letters, digits and underscores only")
    data = {"eval_set_id": eval_set_id, "name": eval_set_id, "eval_cases": [], "creation_timestamp": time.time()}
    return (json.dumps(data, indent=2) + "\n").encode()


def add_scenarios(eval_set: Path, scenarios_file: Path, *, session_input_file: Path) -> list[AddedCase]:
    """Add each scenario of a file to an eval set as a case of its own, and save it; those it has are left out.

    A persona given by name stays a name. Raises StoreError; the set is then as it was.
    """
    document = EvalSetDocument.open(eval_set)
    session_input = read_session_input(session_input_file)
    results = insert_scenarios(document, read_scenarios(scenarios_file), session_input=session_input)
    if document.dirty:
        document.save()
    return results


def document_for_scenarios(path: Path, eval_set_id: str) -> EvalSetDocument:
    """The eval set at `path`, or one that is not there yet and begins with its first save. Raises StoreError."""
    if path.exists():
        document = EvalSetDocument.open(path)
        refuse_older_format(document)
        return document
    return EvalSetDocument(path, content_of_new_set(path, eval_set_id), None)


def refuse_older_format(document: EvalSetDocument) -> None:
    """Raise StoreError where the file cannot hold scenarios."""
    if document.format is not DocumentFormat.CURRENT:
        raise StoreError(document.path, "the older format holds no conversation scenarios; migrate the file first")


def insert_scenarios(
    document: EvalSetDocument, scenarios: Sequence[Scenario], *, session_input: Mapping[str, Any]
) -> list[AddedCase]:
    """Put each scenario at the end of a set as a case of its own, unsaved; those it has are left out.

    Raises StoreError.
    """
    refuse_older_format(document)
    known = {entry.eval_id for entry in document.entries}
    results: list[AddedCase] = []
    for scenario in scenarios:
        eval_id = scenario.eval_id
        results.append(AddedCase(eval_id=eval_id, added=eval_id not in known))
        if eval_id in known:
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
    loaded = read_json(path)
    data = loaded.data
    above: Place = ()
    if isinstance(data, dict) and "scenarios" in data:
        data, above = data["scenarios"], ("scenarios",)
    elif isinstance(data, dict):
        return [_read_scenario(loaded, data, ())]
    if not isinstance(data, list):
        raise loaded.error(above, found=kind_of(data), expected="a list of conversation scenarios")
    return [_read_scenario(loaded, item, (*above, index)) for index, item in enumerate(data)]


def read_session_input(path: Path) -> dict[str, Any]:
    """Read a session-input file as data; it must name app and user, as ADK wants it. Raises StoreError."""
    loaded = read_json(path)
    data = loaded.data
    try:
        validated(SessionInput, data)
    except InvalidData as invalid:
        fault = invalid.faults[0]
        raise loaded.error(fault.place, found=fault.found, expected=fault.expected) from invalid
    for key in ("app_name", "user_id"):
        if find_key(data, key, free=False) is None:
            raise loaded.error((), found="nothing", expected=f"{key}, which it must have")
    return dict(data)


def _read_scenario(loaded: Loaded, data: Any, place: Place) -> Scenario:
    try:
        return Scenario(data=data, scenario=validated(ConversationScenario, data))
    except InvalidData as invalid:
        fault = invalid.faults[0]
        raise loaded.error((*place, *fault.place), found=fault.found, expected=fault.expected) from invalid


def _as_adk_dumps(scenario: ConversationScenario) -> dict[str, Any]:
    """The scenario as ADK's own type dumps it: known fields only, null included."""
    persona = scenario.user_persona
    return {
        "starting_prompt": scenario.starting_prompt,
        "conversation_plan": scenario.conversation_plan,
        "user_persona": _persona(persona) if isinstance(persona, UserPersona) else persona,
    }


def _persona(persona: UserPersona) -> dict[str, Any]:
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
