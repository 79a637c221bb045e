"""A conversation by hand as an eval case, written as the cases beside it are."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.engine.accepting import why_unknown
from workbench.model.evalset import Content, IntermediateData, Invocation, InvocationEvents, Part, SessionInput
from workbench.model.results import TurnResult
from workbench.model.trajectory import trajectory_of
from workbench.report.turns import responses_of, said_in
from workbench.store.documents import DocumentFormat, EvalSetDocument
from workbench.store.errors import StoreError

_LOOKED_AT = 20  # cases that tell how a set is written


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseForm:
    """How the cases of a set are written, for a new one among them.

    `as_events`: what happened on the way is a list of events, not lists of calls and responses. `tool_responses`: the
    cases hold what tools gave back, too.
    """

    format: DocumentFormat = DocumentFormat.CURRENT
    as_events: bool = False
    tool_responses: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCase:
    """What is to be expected from now on: turns as the agent did them, and how the session starts.

    `final_state` is the state to expect at the end; None expects none.
    """

    eval_id: str
    turns: Sequence[TurnResult]
    session_input: SessionInput
    final_state: Mapping[str, Any] | None = None


def form_of(document: EvalSetDocument) -> CaseForm:
    """The form that the first cases of a set have."""
    as_events = tool_responses = False
    if document.format is DocumentFormat.CURRENT:
        invocations = list(_first_invocations(document))
        forms = [invocation.intermediate_data for invocation in invocations if invocation.intermediate_data is not None]
        as_events = bool(forms) and isinstance(forms[0], InvocationEvents)
        tool_responses = any(responses_of(invocation) for invocation in invocations)
    return CaseForm(format=document.format, as_events=as_events, tool_responses=tool_responses)


def write_case(document: EvalSetDocument, case: NewCase) -> None:
    """Put a case at the end of a set, or in the place of the one that has its id. Raises StoreError, also where nobody
    knows what is to be expected. Of an agent that tells nothing of its calls nothing of them is written."""
    told = [pair for pair in enumerate(case.turns) if not pair[1].is_untold]
    unknown = next(filter(None, (why_unknown(turn, number) for number, turn in told)), None)
    if unknown is not None:
        raise StoreError(document.path, f"{case.eval_id} cannot be kept: {unknown}")
    data = _case_data(document, case)
    found = next((entry.index for entry in document.entries if entry.eval_id == case.eval_id), None)
    if found is None:
        document.insert_case(len(document), data)
        return
    document.remove_case(found)
    document.insert_case(found, data)


def _first_invocations(document: EvalSetDocument) -> Iterator[Invocation]:
    for entry in document.entries[:_LOOKED_AT]:
        if entry.problem is None:
            yield from document.case(entry.index).conversation or ()


def _case_data(document: EvalSetDocument, case: NewCase) -> dict[str, Any]:
    form = form_of(document)
    if form.format is not DocumentFormat.CURRENT:
        return _legacy_data(document, case)
    data: dict[str, Any] = {
        "eval_id": case.eval_id,
        "conversation": [
            _turn_data(turn, form, invocation_id=f"{case.eval_id}_{number}")
            for number, turn in enumerate(case.turns, start=1)
        ],
        "session_input": _session_data(case.session_input),
        "creation_timestamp": time.time(),
    }
    if case.final_state is not None:
        data["final_session_state"] = dict(case.final_state)
    return data


def _turn_data(turn: TurnResult, form: CaseForm, *, invocation_id: str) -> dict[str, Any]:
    invocation = turn.invocation
    data = {"invocation_id": invocation_id, "user_content": _dumped(invocation.user_content)}
    response = _without_thoughts(invocation.final_response)
    if response is not None:
        data["final_response"] = response
    if invocation.intermediate_data is not None:
        data["intermediate_data"] = _events_data(invocation, form) if form.as_events else _flat_data(turn, form)
    return data


def _flat_data(turn: TurnResult, form: CaseForm) -> dict[str, Any]:
    invocation, data = turn.invocation, dict[str, Any]()
    if not turn.is_untold:
        data["tool_uses"] = [_call(call.name, call.args) for call in trajectory_of(invocation)]
    if form.tool_responses and not turn.is_untold:
        data["tool_responses"] = [_response(item.name, item.response) for item in responses_of(invocation)]
    data["intermediate_responses"] = [[said.author, [{"text": said.text}]] for said in said_in(invocation)]
    return data


def _events_data(invocation: Invocation, form: CaseForm) -> dict[str, Any]:
    """The events with what is expected of them; an agent that reported lists has all its calls in one event."""
    found = invocation.intermediate_data
    if isinstance(found, InvocationEvents):
        told = [(event.author, (event.content and event.content.parts) or []) for event in found.invocation_events]
    else:
        told = list(_as_events(found))
    events = []
    for author, parts in told:
        kept = [part for part in (_part(part, form) for part in parts) if part is not None]
        if kept:
            events.append({"author": author, "content": {"role": "model", "parts": kept}})
    return {"invocation_events": events}


def _as_events(data: IntermediateData | None) -> Iterator[tuple[str, list[Part]]]:
    if data is not None:
        yield "agent", [Part(function_call=call) for call in data.tool_uses]
        yield "agent", [Part(function_response=response) for response in data.tool_responses]
        for said in data.intermediate_responses:
            yield said.author, said.parts


def _part(part: Part, form: CaseForm) -> dict[str, Any] | None:
    """What is expected of a part; None for what no case expects: thoughts, and answers of tools where none has them."""
    if part.function_call is not None:
        return {"function_call": _call(part.function_call.name or "", part.function_call.args)}
    if part.function_response is not None:
        found = part.function_response
        return {"function_response": _response(found.name, found.response)} if form.tool_responses else None
    return {"text": part.text} if part.text and not part.thought else None


def _legacy_data(document: EvalSetDocument, case: NewCase) -> dict[str, Any]:
    """An eval of the older format, which knows text alone and no final state."""
    if case.final_state is not None:
        raise StoreError(document.path, "the older format holds no final session state; migrate the file first")
    return {
        "name": case.eval_id,
        "data": [_legacy_turn(document, turn.invocation) for turn in case.turns],
        "initial_session": _session_data(case.session_input),
    }


def _legacy_turn(document: EvalSetDocument, invocation: Invocation) -> dict[str, Any]:
    if any(part.text is None for part in invocation.user_content.parts or ()):
        raise StoreError(document.path, "the older format holds nothing but text; migrate the file first")
    response = invocation.final_response
    return {
        "query": invocation.user_content.text(),
        "expected_tool_use": [
            {"tool_name": call.name, "tool_input": dict(call.args or {})} for call in trajectory_of(invocation)
        ],
        "expected_intermediate_agent_responses": [
            {"author": said.author, "text": said.text} for said in said_in(invocation)
        ],
        "reference": response.text(thoughts=False) if response is not None else "",
    }


def _session_data(session_input: SessionInput) -> dict[str, Any]:
    return {"app_name": session_input.app_name, "user_id": session_input.user_id, "state": dict(session_input.state)}


def _call(name: str, args: Mapping[str, Any] | None) -> dict[str, Any]:
    # No arguments are not the same as arguments that are empty.
    return {"name": name} if args is None else {"name": name, "args": dict(args)}


def _response(name: str | None, response: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"name": name or "", "response": dict(response or {})}


def _without_thoughts(content: Content | None) -> dict[str, Any] | None:
    if content is None:
        return None
    spoken = [part for part in content.parts or () if not part.thought]
    return _dumped(Content(role=content.role or "model", parts=spoken))


def _dumped(content: Content) -> dict[str, Any]:
    dumped: dict[str, Any] = content.model_dump(mode="json", exclude_none=True)
    return {"role": dumped.pop("role", "user"), **dumped}
