"""Writes the fixture of one version of Langfuse's SDK: documents that its own model classes serialise.

Run it in an environment with that version: `pip install "langfuse>=3,<4" langchain && python make.py`. It writes
`v3.json`, an object with a document for each shape. The tests of workbench only read these files, without the SDK.
"""

import importlib
import json
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

RELEASE = version("langfuse")
MAJOR = int(RELEASE.split(".")[0])
PACKAGE = "langfuse.api" if MAJOR >= 4 else "langfuse.api.resources"
COMMONS = importlib.import_module(f"{PACKAGE}.commons")
BEGAN = datetime(2026, 3, 1, 10, 0, 0, 120000, tzinfo=UTC)

SYSTEM = {"role": "system", "content": "be nice"}
ASKED = {"role": "user", "content": "light on"}
CALL = {"id": "c1", "type": "function", "function": {"name": "set_light", "arguments": '{"on": true}'}}
CALLED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RETURNED = {"role": "tool", "tool_call_id": "c1", "content": '{"ok": true}'}
ANSWERED = {"role": "assistant", "content": "It is on."}
AGAIN = {"role": "user", "content": "thanks"}
BYE = {"role": "assistant", "content": "You are welcome."}


def dump(model: Any) -> Any:
    """Return a model as the JSON that the SDK makes of it."""
    return json.loads(model.json() if MAJOR < 4 else model.model_dump_json())


def dump_fields(model: Any) -> Any:
    """Return a model as people often save it: a dictionary, whose times become texts of Python."""
    return json.loads(json.dumps(model.dict() if MAJOR < 4 else model.model_dump(), default=str))


def make_trace(number: int, said: str, answer: str, kind: str = "Trace", **more: Any) -> Any:
    """Make a trace of one turn."""
    facts = {
        "id": f"t{number}",
        "timestamp": BEGAN + timedelta(minutes=number),
        "name": "home",
        "input": said,
        "output": answer,
        "session_id": "s1",
        "user_id": "ann",
        "metadata": {"channel": "web"},
        "tags": ["production"],
        "public": False,
        "bookmarked": False,
        "environment": "default",
        "release": None,
        "version": None,
    }
    if kind != "Trace":
        facts |= {"html_path": f"/project/p1/traces/t{number}", "latency": 2.5, "total_cost": 0.01}
    return getattr(COMMONS, kind)(**facts, **more)


def make_observation(
    trace: int, number: int, kind: str, name: str, given: Any, result: Any, *, parent: str | None, **more: Any
) -> Any:
    """Make an observation as the API returns it."""
    began = BEGAN + timedelta(minutes=trace, seconds=number)
    is_model = kind == "GENERATION"
    return COMMONS.ObservationsView(
        id=f"o{trace}{number}",
        trace_id=f"t{trace}",
        type=kind,
        name=name,
        start_time=began,
        end_time=began + timedelta(milliseconds=500),
        completion_start_time=None,
        model="gpt-4o" if is_model else None,
        model_parameters={"temperature": 0.1} if is_model else {},
        input=given,
        output=result,
        metadata={},
        usage=COMMONS.Usage(input=10, output=5, total=15, unit="TOKENS"),
        usage_details={"input": 10, "output": 5, "total": 15},
        cost_details={"total": 0.001},
        level=COMMONS.ObservationLevel.DEFAULT,
        status_message=None,
        parent_observation_id=parent,
        environment="default",
        version=None,
        **more,
    )


def list_observations(trace: int) -> list[Any]:
    """List the observations of a turn: version 2 knows no agents and tools, they are spans."""
    agent, tool = ("AGENT", "TOOL") if MAJOR >= 3 else ("SPAN", "SPAN")
    if trace == 2:
        history = [SYSTEM, ASKED, CALLED, RETURNED, ANSWERED, AGAIN]
        return [
            make_observation(2, 1, agent, "home", {"question": "thanks"}, "You are welcome.", parent=None),
            make_observation(2, 2, "GENERATION", "OpenAI-generation", {"messages": history}, BYE, parent="o21"),
        ]
    tools = [{"type": "function", "function": {"name": "set_light", "parameters": {"type": "object"}}}]
    first, second = [SYSTEM, ASKED], [SYSTEM, ASKED, CALLED, RETURNED]
    return [
        make_observation(1, 1, agent, "home", {"question": "light on"}, "It is on.", parent=None),
        make_observation(
            1, 2, "GENERATION", "OpenAI-generation", {"messages": first, "tools": tools}, CALLED, parent="o11"
        ),
        make_observation(1, 3, tool, "set_light", {"on": True}, {"ok": True}, parent="o11"),
        make_observation(
            1, 4, "GENERATION", "OpenAI-generation", {"messages": second, "tools": tools}, ANSWERED, parent="o11"
        ),
        make_observation(1, 5, "EVENT", "feedback", None, None, parent=None),
    ]


def list_langchain_observations(trace: int) -> list[Any]:
    """List the observations of a turn of LangChain, with messages as the SDK's own callback handler converts them."""
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

    module = "langfuse.callback.langchain" if MAJOR < 3 else "langfuse.langchain.CallbackHandler"
    handler = importlib.import_module(module).LangchainCallbackHandler
    convert = handler.__new__(handler)._convert_message_to_dict
    called = AIMessage(
        content="",
        tool_calls=[{"name": "set_light", "args": {"on": True}, "id": "c1"}],
        additional_kwargs={"tool_calls": [CALL]},
    )
    asked, returned = HumanMessage(content="light on"), ToolMessage(content='{"ok": true}', tool_call_id="c1")
    answered, again, bye = AIMessage(content="It is on."), HumanMessage(content="thanks"), BYE["content"]
    first, system = [asked, called, returned, answered], SystemMessage(content="be nice")
    last = [again, AIMessage(content=bye)]
    graph, tool = ("CHAIN", "TOOL") if MAJOR >= 3 else ("SPAN", "SPAN")
    if trace == 2:
        whole = {"messages": [each.model_dump() for each in [*first, *last]]}
        given = {"messages": [each.model_dump() for each in [*first, again]]}
        history = [convert(each) for each in [system, *first, again]]
        return [
            make_observation(2, 1, graph, "LangGraph", given, whole, parent=None),
            make_observation(2, 2, "GENERATION", "ChatOpenAI", history, convert(last[1]), parent="o21"),
        ]
    whole = {"messages": [each.model_dump() for each in first]}
    before = [convert(each) for each in (system, asked)]
    after = [convert(each) for each in (system, asked, called, returned)]
    inputs, output = ({"on": True}, returned.model_dump()) if MAJOR >= 4 else ("{'on': True}", '{"ok": true}')
    return [
        make_observation(1, 1, graph, "LangGraph", {"messages": [asked.model_dump()]}, whole, parent=None),
        make_observation(1, 2, "GENERATION", "ChatOpenAI", before, convert(called), parent="o11"),
        make_observation(1, 3, tool, "set_light", inputs, output, parent="o11"),
        make_observation(1, 4, "GENERATION", "ChatOpenAI", after, convert(answered), parent="o11"),
    ]


def make_page(module: str, name: str, data: list[Any]) -> Any:
    """Make a page of a list."""
    types = importlib.import_module(f"{PACKAGE}.{module}")
    meta = importlib.import_module(f"{PACKAGE}.utils")
    found = getattr(meta, "MetaResponse", None) or importlib.import_module(f"{PACKAGE}.utils.pagination").MetaResponse
    return getattr(types, name)(data=data, meta=found(page=1, limit=50, total_items=len(data), total_pages=1))


def make_documents() -> dict[str, Any]:
    """Make a document of each shape."""
    turns = {1: ("light on", "It is on."), 2: ("thanks", "You are welcome.")}
    full = {
        number: make_trace(
            number, *turn, kind="TraceWithFullDetails", observations=list_observations(number), scores=[]
        )
        for number, turn in turns.items()
    }
    listed = [
        make_trace(
            number,
            *turn,
            kind="TraceWithDetails",
            observations=[each.id for each in list_observations(number)],
            scores=[],
        )
        for number, turn in turns.items()
    ]
    chains = [
        make_trace(
            number,
            *turn,
            kind="TraceWithFullDetails",
            observations=list_langchain_observations(number),
            scores=[],
        )
        for number, turn in turns.items()
    ]
    session = COMMONS.SessionWithTraces(
        id="s1",
        created_at=BEGAN,
        project_id="p1",
        environment="default",
        traces=[make_trace(number, *turn) for number, turn in turns.items()],
    )
    observations = [each for number in turns for each in list_observations(number)]
    views = "legacy.observations_v1" if MAJOR >= 4 else "observations"
    documents = {
        "traces with details": [dump(each) for each in full.values()],
        "one trace": dump(full[1]),
        "traces as dictionaries": [dump_fields(each) for each in full.values()],
        "traces of LangChain": [dump(each) for each in chains],
        "page of traces": dump(make_page("trace", "Traces", listed)),
        "session": dump(session),
        "page of observations": dump(make_page(views, "ObservationsViews", observations)),
    }
    if MAJOR >= 4:
        documents["page of observations v2"] = make_second_page(observations)
    return documents


def make_second_page(observations: list[Any]) -> Any:
    """Make a page of the second API of observations, whose rows have the fields of their traces."""
    module = importlib.import_module(f"{PACKAGE}.observations")
    rows = [
        COMMONS.ObservationV2(
            id=each.id,
            trace_id=each.trace_id,
            start_time=each.start_time,
            end_time=each.end_time,
            project_id="p1",
            parent_observation_id=each.parent_observation_id,
            type=each.type,
            is_root_observation=each.parent_observation_id is None,
            name=each.name,
            level=each.level,
            user_id="ann",
            session_id="s1",
            trace_name="home",
            input=None if each.input is None else json.dumps(each.input),
            output=each.output if isinstance(each.output, str | None) else json.dumps(each.output),
        )
        for each in observations
    ]
    return dump(module.ObservationsV2Response(data=rows, meta=module.ObservationsV2Meta(cursor=None)))


if __name__ == "__main__":
    content = {"made by": f"make.py with langfuse {RELEASE}", **make_documents()}
    lines = [f"{json.dumps(name)}: {json.dumps(document)}" for name, document in content.items()]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    Path(__file__).with_name(f"v{MAJOR}.json").write_text(text)
