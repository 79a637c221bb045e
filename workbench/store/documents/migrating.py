"""Migration: a file of an old format written anew in the current one."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import Any

from workbench.store.documents.cases import migrated_case
from workbench.store.documents.evalset_document import EvalSetDocument
from workbench.store.documents.frame import DocumentFormat, kind_of
from workbench.store.documents.legacy import session_input_of
from workbench.store.documents.manner import Manner, write_value
from workbench.store.documents.places import Place, format_place
from workbench.store.documents.reader import read_json
from workbench.store.errors import StoreError, shown_path
from workbench.store.files import write_new
from workbench.store.names import name_of_file

_CARRIED = {
    "turn": {"query", "reference", "expected_tool_use", "expected_intermediate_agent_responses"},
    "call": {"tool_name", "tool_input"},
    "response": {"author", "text"},
    "eval": {"name", "data", "initial_session", "initial_state"},
}


def migrate(old: Path, new: Path, *, initial_session: Path | None = None) -> tuple[str, ...]:
    """Write the eval set of an old file in the current format to `new`, which must not exist.

    Invocations get new ids (UUID 4) and the present time; the set is named after the new file. `initial_session` is the
    file in which the older format kept the session; it holds for cases that have none of their own. Gives the places of
    what the current format has no room for. Raises StoreError; nothing is written then.
    """
    if new.exists():
        raise StoreError(new, "cannot create it: it exists already")
    document = EvalSetDocument.open(old)
    if document.format is DocumentFormat.CURRENT:
        raise StoreError(old, found="an eval set in the current format", expected="one in an old format")
    write_new(new, _migrated_set(document, name_of_file(new), initial_session))
    return tuple(
        format_place((*document.place_of_case(index), *place))
        for index in range(len(document))
        for place in _left_behind(document.raw_case(index), document.format)
    )


def with_initial_session(document: EvalSetDocument, initial_session: Path) -> EvalSetDocument:
    """An old document in the current format, its session taken from the file in which the older format kept it.

    Nothing is written. Raises StoreError, also for a document in the current format, which says itself how sessions
    start.
    """
    if document.format is DocumentFormat.CURRENT:
        message = f"its cases have their own session_input: there is no room for {shown_path(initial_session)}"
        raise StoreError(document.path, message)
    data = _migrated_set(document, name_of_file(document.path), initial_session)
    return EvalSetDocument(document.path, data, None)


def _migrated_set(document: EvalSetDocument, name: str, initial_session: Path | None) -> bytes:
    """The content of the file in the current format."""
    document.refuse_broken_json()
    session = None if initial_session is None else _read_session(initial_session)
    now = time.time()
    cases = [_migrated(document, index, session, now=now) for index in range(len(document))]
    data = {"eval_set_id": name, "name": name, "eval_cases": cases, "creation_timestamp": now}
    return (write_value(data, Manner(), indentation="") + "\n").encode()


def _migrated(document: EvalSetDocument, index: int, session: dict[str, Any] | None, *, now: float) -> dict[str, Any]:
    raw = document.raw_case(index)
    case, faults = migrated_case(raw, format=document.format, eval_id=name_of_file(document.path))
    if faults:
        raise document.error_in(index, faults[0])
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
        raise loaded.error((), found=kind_of(loaded.data), expected="an object with app_name, user_id and state")
    return session_input_of(loaded.data)


def _left_behind(raw: Any, format: DocumentFormat) -> list[Place]:
    """The places in an old case whose values the current format does not have."""
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
