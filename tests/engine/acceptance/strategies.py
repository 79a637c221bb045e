"""Cases in every format, and executions of agents in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st

from workbench.model.results import Execution
from workbench.store.evalsets.evalset_document import EvalSetDocument

WORDS = st.sampled_from(["The lamp is on.", "灯亮了。", "Off it is!", "one\ntwo"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["", "a", "灯"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("pq"), inner, max_size=2),
    max_leaves=4,
)
ARGS = st.none() | st.dictionaries(st.sampled_from(["device_id", "deviceId", "n"]), VALUES, max_size=3)
FORMS = ("tool_uses", "names", "events", "legacy evals", "legacy turns")


class Call(NamedTuple):
    name: str
    args: dict[str, Any] | None
    response: dict[str, Any]


class Side(NamedTuple):
    """One side of a turn: the expected or the actual one."""

    calls: list[Call]
    messages: list[tuple[str, str]]
    response: str


def sides(*, distinct: bool = False) -> st.SearchStrategy[Side]:
    """Generate one side of a turn. `distinct`: no tool is called twice, and no agent speaks twice."""
    calls = st.lists(
        st.builds(Call, st.sampled_from("abcdef" if distinct else "ab"), ARGS, st.fixed_dictionaries({"ok": VALUES})),
        max_size=5,
        unique_by=(lambda call: call.name) if distinct else None,
    )
    messages = st.lists(
        st.tuples(st.sampled_from(["cook", "waiter"]), WORDS),
        max_size=2,
        unique_by=(lambda one: one[0]) if distinct else None,
    )
    return st.builds(Side, calls, messages, WORDS)


def format_turn(side: Side, *, form: str, responses: bool, grouped: bool = False) -> dict[str, Any]:
    """Format a turn as in the file."""
    if form.startswith("legacy"):
        return {
            "query": "hi",
            "expected_tool_use": [
                {"tool_name": c.name} | ({"tool_input": c.args} if c.args is not None else {}) for c in side.calls
            ],
            "expected_intermediate_agent_responses": [{"author": a, "text": t} for a, t in side.messages],
            "reference": side.response,
        }
    turn: dict[str, Any] = {
        "user_content": {"parts": [{"text": "hi"}], "role": "user"},
        "final_response": {"parts": [{"text": side.response}], "role": "model"},
    }
    calls = [_format_call(c, "name", "args") for c in side.calls]
    tool_responses = [{"name": c.name, "response": c.response} for c in side.calls] if responses else []
    if form == "events":
        turn["intermediate_data"] = {"invocation_events": _make_events(side, calls, tool_responses, grouped=grouped)}
        return turn
    if form == "names":
        calls = [c["name"] if "args" not in c else {"tool_name": c["name"], "tool_input": c["args"]} for c in calls]
    turn["intermediate_data"] = {
        "tool_uses": calls,
        "tool_responses": tool_responses,
        "intermediate_responses": [[author, [{"text": text}]] for author, text in side.messages],
    }
    return turn


def _format_call(call: Call, name: str, args: str) -> dict[str, Any]:
    return {name: call.name} if call.args is None else {name: call.name, args: call.args}


def _make_events(side: Side, calls: list[Any], tool_responses: list[Any], *, grouped: bool) -> list[dict[str, Any]]:
    def event(author: str, *parts: dict[str, Any]) -> dict[str, Any]:
        return {"author": author, "content": {"parts": list(parts), "role": "model"}}

    events = [event(author, {"text": text}) for author, text in side.messages]
    if grouped and calls:
        events.append(event("root", *({"function_call": call} for call in calls)))
        events += [event("root", *({"functionResponse": one} for one in tool_responses))] if tool_responses else []
        return events
    for number, call in enumerate(calls):
        events.append(event("root", {"function_call": {"id": f"c{number}", **call}}))
        if tool_responses:
            events.append(event("root", {"function_response": {"id": f"c{number}", **tool_responses[number]}}))
    return events


def make_document(
    sides: list[Side], *, form: str, responses: bool, grouped: bool, state: Any = None
) -> EvalSetDocument:
    """Make a document with one case of these turns."""
    turns = [format_turn(side, form=form, responses=responses, grouped=grouped) for side in sides]
    if form == "legacy turns":
        data: Any = turns
    elif form == "legacy evals":
        data = [{"name": "one", "data": turns}]
    else:
        case = {"eval_id": "one", "conversation": turns} | ({"final_session_state": state} if state else {})
        data = {"eval_set_id": "s", "eval_cases": [case]}
    return EvalSetDocument(Path("set.evalset.json"), json.dumps(data, indent=2, ensure_ascii=False).encode(), None)


def make_execution(sides: list[Side], *, form: str, responses: bool, state: Any = None) -> Execution:
    """Make the execution of an agent, in one of the two formats."""
    turns = [
        {"invocation": format_turn(side, form=form, responses=responses), "duration_seconds": 0.1} for side in sides
    ]
    return Execution.model_validate({"turns": turns, "final_state": state})
