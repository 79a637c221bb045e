"""The formats before eval sets: a list of turns, and a list of named evals with their turns in `data`.

Both are turned into the data of cases in the current format, for looking at (without ids of invocations, so that the
same text always gives the same case) and for `migrate`, which adds ids and times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.store.documents.frame import kind_of
from workbench.store.documents.places import Place

Note = Callable[[Place, str, str], None]
"""Takes a fault: its place in the old data, what was found, what was expected."""


def case_of_turns(data: Any, *, eval_id: str, note: Note) -> dict[str, Any]:
    """The case that a list of turns is."""
    return {"eval_id": eval_id, "conversation": _conversation(data, (), note)}


def case_of_eval(data: Any, *, note: Note) -> dict[str, Any]:
    """The case that a named eval is. A session that says nothing is no session input, as in ADK."""
    if not isinstance(data, dict):
        note((), kind_of(data), "an eval (an object with name and data)")
        data = {"name": "", "data": []}
    name = _text(data, "name", None, (), note)
    case: dict[str, Any] = {"eval_id": name, "conversation": _conversation(data.get("data"), ("data",), note)}
    session_input = _session_input(data, note)
    if session_input is not None:
        case["session_input"] = session_input
    return case


def session_input_of(session: dict[str, Any]) -> dict[str, Any] | None:
    """The session input that an old `initial_session` stands for; None for an empty one."""
    if not session:
        return None
    return {
        "app_name": session.get("app_name", ""),
        "user_id": session.get("user_id", ""),
        "state": session.get("state") or {},
    }


def _session_input(data: dict[str, Any], note: Note) -> dict[str, Any] | None:
    """`initial_session` holds app name, user and state; the still older `initial_state` is the state itself."""
    session = data.get("initial_session")
    if session is not None:
        if isinstance(session, dict):
            return session_input_of(session)
        note(("initial_session",), kind_of(session), "an object with app_name, user_id and state")
    state = data.get("initial_state")
    if state is None or state == {}:
        return None
    if not isinstance(state, dict):
        note(("initial_state",), kind_of(state), "an object")
        return None
    return session_input_of({"state": state})


def _conversation(turns: Any, place: Place, note: Note) -> list[dict[str, Any]]:
    if not isinstance(turns, list):
        note(place, kind_of(turns), "a list of turns")
        return []
    return [_invocation(turn, (*place, index), note) for index, turn in enumerate(turns)]


def _invocation(turn: Any, place: Place, note: Note) -> dict[str, Any]:
    if not isinstance(turn, dict):
        note(place, kind_of(turn), "a turn (an object with query and reference)")
        turn = {"query": ""}
    query = _text(turn, "query", None, place, note)
    reference = _text(turn, "reference", "", place, note)
    calls = _list(turn, "expected_tool_use", place, note)
    responses = _list(turn, "expected_intermediate_agent_responses", place, note)
    return {
        "user_content": {"parts": [{"text": query}], "role": "user"},
        "final_response": {"parts": [{"text": reference}], "role": "model"},
        "intermediate_data": {
            "tool_uses": [_call(call, (*place, "expected_tool_use", index), note) for index, call in enumerate(calls)],
            "intermediate_responses": [
                _response(response, (*place, "expected_intermediate_agent_responses", index), note)
                for index, response in enumerate(responses)
            ],
        },
    }


def _call(call: Any, place: Place, note: Note) -> dict[str, Any]:
    if not isinstance(call, dict):
        note(place, kind_of(call), "a tool call (an object with tool_name and tool_input)")
        return {}
    name = _text(call, "tool_name", None, place, note)
    args = call.get("tool_input")
    if args is not None and not isinstance(args, dict):
        note((*place, "tool_input"), kind_of(args), "an object")
        args = None
    return {"name": name, "args": args}


def _response(response: Any, place: Place, note: Note) -> list[Any]:
    if not isinstance(response, dict):
        note(place, kind_of(response), "a response (an object with author and text)")
        response = {"author": "", "text": ""}
    author = _text(response, "author", None, place, note)
    return [author, [{"text": _text(response, "text", None, place, note)}]]


def _text(data: dict[str, Any], key: str, default: str | None, place: Place, note: Note) -> str:
    value = data.get(key, default)
    if isinstance(value, str):
        return value
    if key in data:
        note((*place, key), kind_of(value), "a text")
    else:
        note(place, "nothing", f"{key}, which it must have")
    return ""


def _list(data: dict[str, Any], key: str, place: Place, note: Note) -> list[Any]:
    value = data.get(key)
    if value is None:
        return []
    if isinstance(value, list):
        return value
    note((*place, key), kind_of(value), "a list")
    return []
