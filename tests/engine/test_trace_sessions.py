"""Conversations in traces: OTLP from OpenTelemetry's SDK and from google-adk, runs of LangSmith, traces of Langfuse."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from workbench.engine.trace_sessions import (
    NO_CONTENT,
    build_sessions,
    is_langfuse,
    is_langsmith,
    is_otlp,
    read_langfuse_steps,
    read_langsmith_steps,
    read_otlp_steps,
)
from workbench.model.trace import ResponseEvent, get_trajectory, iterate_events
from workbench.model.turn_diff import list_messages
from workbench.store.datasets.adk_sessions import SourceSession, read_adk_session

Answers = list[tuple[str, list[tuple[str, Any]], str | None]]


def list_turns(session: SourceSession) -> Answers:
    """Return prompt, calls and response of each turn."""
    return [
        (
            turn.user_content.text(),
            [(call.name, call.args) for call in get_trajectory(turn)],
            None if turn.final_response is None else turn.final_response.text(),
        )
        for turn in session.turns
    ]


# OpenTelemetry: spans that its SDK recorded and its exporter encoded


class Recorder:
    """A tracer of OpenTelemetry's SDK; what it recorded is encoded as exporters do."""

    def __init__(self) -> None:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = provider.get_tracer("test")

    def span(self, name: str, **attributes: Any) -> Any:
        return self.tracer.start_as_current_span(
            name, attributes={key.replace("__", "."): value for key, value in attributes.items()}
        )

    def encode(self) -> Any:
        """Return the document that an exporter sends, with ids as the collector's file exporter writes them."""
        from google.protobuf.json_format import MessageToDict
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

        def write_ids(value: Any) -> Any:
            if isinstance(value, list):
                return [write_ids(each) for each in value]
            if not isinstance(value, dict):
                return value
            return {
                key: base64.b64decode(each).hex() if key in ("traceId", "spanId", "parentSpanId") else write_ids(each)
                for key, each in value.items()
            }

        return write_ids(MessageToDict(encode_spans(self._exporter.get_finished_spans())))

    def read(self) -> list[SourceSession]:
        document = self.encode()
        assert is_otlp(document)
        steps, problems = read_otlp_steps([document])
        assert problems == ()
        return build_sessions(steps)


@pytest.fixture
def recorder() -> Recorder:
    pytest.importorskip("opentelemetry.sdk")
    return Recorder()


CALL = {"type": "tool_call", "id": "c1", "name": "set_light", "arguments": {"on": True}}
ASKED = [{"role": "user", "parts": [{"type": "text", "content": "light on"}]}]
CALLED = [{"role": "assistant", "parts": [CALL], "finish_reason": "tool_call"}]
RETURNED = [{"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": {"ok": True}}]}]
ANSWERED = [{"role": "assistant", "parts": [{"type": "text", "content": "It is on."}], "finish_reason": "stop"}]
ONE_TURN: Answers = [("light on", [("set_light", {"on": True})], "It is on.")]


def record_newest(
    recorder: Recorder, *, session: str = "s1", earlier: Sequence[Any] = (), prompt: str = "light on"
) -> None:
    """Record an invocation in the newest convention: `gen_ai.input.messages`."""
    asked = [{"role": "user", "parts": [{"type": "text", "content": prompt}]}]
    with recorder.span("invoke_agent home", gen_ai__operation__name="invoke_agent", gen_ai__conversation__id=session):
        for messages, reply in (([*earlier, *asked], CALLED), ([*earlier, *asked, *CALLED, *RETURNED], ANSWERED)):
            with recorder.span(
                "chat m",
                gen_ai__operation__name="chat",
                gen_ai__request__model="m",
                gen_ai__input__messages=json.dumps(messages),
                gen_ai__output__messages=json.dumps(reply),
            ):
                pass


def record_indexed(recorder: Recorder) -> None:
    """Record as OpenLLMetry did: an attribute for each field of a message."""
    first = {
        "gen_ai.prompt.0.role": "system",
        "gen_ai.prompt.0.content": "be nice",
        "gen_ai.prompt.1.role": "user",
        "gen_ai.prompt.1.content": json.dumps([{"type": "text", "text": "light on"}]),
    }
    called = {"id": "c1", "name": "set_light", "arguments": '{"on": true}'}
    with recorder.tracer.start_as_current_span(
        "chat",
        attributes={
            "gen_ai.request.model": "m",
            **first,
            "gen_ai.prompt.2.role": "assistant",
            **{f"gen_ai.prompt.2.tool_calls.0.{key}": value for key, value in called.items()},
            "gen_ai.prompt.3.role": "tool",
            "gen_ai.prompt.3.content": '{"ok": true}',
            "gen_ai.prompt.3.tool_call_id": "c1",
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.content": "It is on.",
            "gen_ai.completion.0.finish_reason": "stop",
            "session.id": "s1",
        },
    ):
        pass


def record_openinference(recorder: Recorder) -> None:
    """Record in the convention of OpenInference."""
    function = {"name": "set_light", "arguments": '{"on": true}'}
    with recorder.tracer.start_as_current_span(
        "ChatCompletion",
        attributes={
            "openinference.span.kind": "LLM",
            "session.id": "s1",
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.contents.0.message_content.type": "text",
            "llm.input_messages.0.message.contents.0.message_content.text": "light on",
            "llm.input_messages.1.message.role": "assistant",
            **{
                f"llm.input_messages.1.message.tool_calls.0.tool_call.function.{key}": value
                for key, value in function.items()
            },
            "llm.input_messages.2.message.role": "tool",
            "llm.input_messages.2.message.content": '{"ok": true}',
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": "It is on.",
        },
    ):
        pass


def record_events(recorder: Recorder) -> None:
    """Record as the conventions of 1.28 did: an event for each message."""
    called = [{"id": "c1", "type": "function", "function": {"name": "set_light", "arguments": '{"on": true}'}}]
    with recorder.span("chat m", gen_ai__operation__name="chat", session__id="s1") as span:
        span.add_event("gen_ai.system.message", {"content": "be nice"})
        span.add_event("gen_ai.user.message", {"content": "light on"})
        span.add_event("gen_ai.assistant.message", {"tool_calls": json.dumps(called)})
        span.add_event("gen_ai.tool.message", {"content": '{"ok": true}', "id": "c1"})
        answer = {"role": "assistant", "content": "It is on."}
        span.add_event("gen_ai.choice", {"index": 0, "message": json.dumps(answer)})


def record_prompt_event(recorder: Recorder) -> None:
    """Record as the conventions of 1.26 did: events with a prompt and a completion."""
    with recorder.span("chat m", gen_ai__operation__name="chat", session__id="s1") as span:
        called = {"type": "function", "id": "c1", "function": {"name": "set_light", "arguments": '{"on": true}'}}
        prompt = [
            {"role": "user", "content": "light on"},
            {"role": "assistant", "content": None, "tool_calls": [called]},
            {"role": "tool", "content": "{}", "tool_call_id": "c1"},
        ]
        span.add_event("gen_ai.content.prompt", {"gen_ai.prompt": json.dumps(prompt)})
        reply = [{"role": "assistant", "content": "It is on."}]
        span.add_event("gen_ai.content.completion", {"gen_ai.completion": json.dumps(reply)})


def record_call_llm(recorder: Recorder) -> None:
    """Record as google-adk did before it used the conventions, with its own function."""
    from google.adk.models import LlmRequest, LlmResponse
    from google.adk.telemetry.tracing import trace_call_llm
    from google.genai import types

    asked = types.Content(role="user", parts=[types.Part.from_text(text="light on")])
    called = types.Content(
        role="model", parts=[types.Part(function_call=types.FunctionCall(name="set_light", args={"on": True}))]
    )
    returned = types.Content(
        role="user",
        parts=[types.Part(function_response=types.FunctionResponse(name="set_light", response={"ok": True}))],
    )
    answer = types.Content(role="model", parts=[types.Part.from_text(text="It is on.")])
    context: Any = SimpleNamespace(
        invocation_id="i1", session=SimpleNamespace(id="s1"), agent=SimpleNamespace(name="home"), run_config=None
    )
    request = LlmRequest(model="gemini", contents=[asked, called, returned], config=types.GenerateContentConfig())
    with recorder.span("call_llm"):
        trace_call_llm(context, "e1", request, LlmResponse(content=answer))


@pytest.mark.parametrize(
    "record",
    [
        record_newest,
        record_indexed,
        record_openinference,
        record_events,
        record_prompt_event,
        pytest.param(record_call_llm, marks=pytest.mark.needs_adk),
    ],
)
def test_every_convention_shows_the_same_turn(
    recorder: Recorder, record: Callable[[Recorder], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADK_TELEMETRY_SCHEMA_VERSION_OPT_IN", "1")  # for the one of google-adk
    record(recorder)

    (session,) = recorder.read()

    assert session.id == "s1"
    assert session.problem is None
    assert list_turns(session) == ONE_TURN


def test_traces_of_one_session_are_its_turns(recorder: Recorder) -> None:
    record_newest(recorder)
    record_newest(recorder, earlier=[*ASKED, *CALLED, *RETURNED, *ANSWERED])
    record_newest(recorder, session="other")

    sessions = {session.id: session for session in recorder.read()}

    assert list_turns(sessions["s1"]) == ONE_TURN * 2
    assert list_turns(sessions["other"]) == ONE_TURN


def test_the_same_prompt_twice_without_a_history_is_two_turns(recorder: Recorder) -> None:
    record_newest(recorder)
    record_newest(recorder)

    (session,) = recorder.read()

    assert list_turns(session) == ONE_TURN * 2


def test_long_texts_are_whole(recorder: Recorder) -> None:
    prompt = "x" * 300_000
    record_newest(recorder, prompt=prompt)

    (session,) = recorder.read()

    assert [said for said, _, _ in list_turns(session)] == [prompt]


def test_agents_in_one_trace_are_turns(recorder: Recorder) -> None:
    with recorder.span("script"):
        record_newest(recorder)
        record_newest(recorder, prompt="and now?")

    (session,) = recorder.read()

    assert [prompt for prompt, _, _ in list_turns(session)] == ["light on", "and now?"]


def test_an_agent_that_gets_a_handoff_gives_the_response_of_the_turn(recorder: Recorder) -> None:
    called = [{"role": "assistant", "parts": [{**CALL, "name": "transfer", "arguments": {}}]}]
    with recorder.span("workflow"):
        for messages, reply in ((ASKED, called), (ASKED, ANSWERED)):
            with (
                recorder.span("invoke_agent", gen_ai__operation__name="invoke_agent"),
                recorder.span(
                    "chat m",
                    gen_ai__operation__name="chat",
                    gen_ai__input__messages=json.dumps(messages),
                    gen_ai__output__messages=json.dumps(reply),
                ),
            ):
                pass

    (session,) = recorder.read()

    assert list_turns(session) == [("light on", [("transfer", {})], "It is on.")]


def test_spans_of_tools_know_the_calls_of_sub_agents(recorder: Recorder) -> None:
    with recorder.span("invoke_agent home", gen_ai__operation__name="invoke_agent"):
        with recorder.span(
            "execute_tool find",
            gen_ai__operation__name="execute_tool",
            gen_ai__tool__name="find",
            gen_ai__tool__call__arguments='{"room": "hall"}',
            gen_ai__tool__call__result='{"id": 7}',
        ):
            pass
        with recorder.span(
            "chat m",
            gen_ai__operation__name="chat",
            gen_ai__input__messages=json.dumps(ASKED),
            gen_ai__output__messages=json.dumps(ANSWERED),
        ):
            pass

    (session,) = recorder.read()

    assert list_turns(session) == [("light on", [("find", {"room": "hall"})], "It is on.")]


def test_a_trace_without_content(recorder: Recorder) -> None:
    with recorder.span("chat m", gen_ai__operation__name="chat", gen_ai__conversation__id="s1"):
        pass

    (session,) = recorder.read()

    assert session.problem == NO_CONTENT


def test_messages_of_an_unknown_form_are_a_problem(recorder: Recorder) -> None:
    messages = [{"role": "user", "content": "hi"}, {"role": "robot", "content": "?"}]
    with recorder.span("chat", gen_ai__operation__name="chat", gen_ai__prompt=json.dumps(messages)):
        pass

    (session,) = recorder.read()

    assert session.problem is not None
    assert session.problem.startswith("the messages cannot be read: [1]: found an object")


# Calls of models that are no part of the conversation, and histories that differ from what the model got


def say(role: str, text: str) -> Any:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


@contextmanager
def record_agent(recorder: Recorder, *, session: str = "s1", name: str = "home", **attributes: Any) -> Iterator[Any]:
    given = {"gen_ai__operation__name": "invoke_agent", "gen_ai__conversation__id": session, **attributes}
    with recorder.span(f"invoke_agent {name}", **given) as span:
        yield span


def record_chat(recorder: Recorder, messages: Any, reply: Any | None, error: str | None = None) -> None:
    replied = {} if reply is None else {"gen_ai__output__messages": json.dumps(reply)}
    with recorder.span(
        "chat m", gen_ai__operation__name="chat", gen_ai__input__messages=json.dumps(messages), **replied
    ) as span:
        if error is not None:
            fail(span, error)


def record_tool(recorder: Recorder, *, error: str | None = None, **attributes: Any) -> None:
    with recorder.span(
        "execute_tool set_light",
        gen_ai__operation__name="execute_tool",
        gen_ai__tool__name="set_light",
        **attributes,
    ) as span:
        if error is not None:
            fail(span, error)


def fail(span: Any, error: str) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_status(Status(StatusCode.ERROR, error))


TITLE = [say("system", "Write a title"), say("user", "Conversation: light on")]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_call_for_a_title_is_no_message_of_the_user(recorder: Recorder, is_first: bool) -> None:
    calls = [(ASKED, ANSWERED), (TITLE, [say("assistant", "Light")])]
    with record_agent(recorder):
        for messages, reply in reversed(calls) if is_first else calls:
            record_chat(recorder, messages, reply)

    (session,) = recorder.read()

    assert list_turns(session) == [("light on", [], "It is on.")]
    assert "check the message" in session.notes[0]


def test_the_outermost_step_says_what_the_user_wrote(recorder: Recorder) -> None:
    attributes = {"session__id": "s1", "input__value": "light on", "output__value": "It is on."}
    with recorder.span("chain", **attributes):
        record_chat(recorder, ASKED, ANSWERED)
        for _ in range(3):
            record_chat(recorder, [say("user", "Is this safe?")], [say("assistant", "SAFE")])

    (session,) = recorder.read()

    assert list_turns(session) == [("light on", [], "It is on.")]
    assert session.notes == ()


def test_a_history_may_have_less_text_than_the_model_got(recorder: Recorder) -> None:
    history: list[Any] = []
    for number in range(1, 4):
        with record_agent(recorder):
            asked = say("user", f"Context: a\nQuestion: q{number}")
            record_chat(recorder, [*history, asked], [say("assistant", f"r{number}")])
        history += [say("user", f"q{number}"), say("assistant", f"r{number}")]

    (session,) = recorder.read()

    assert [said for said, _, _ in list_turns(session)] == ["q1", "q2", "Context: a\nQuestion: q3"]
    assert session.notes[0].startswith("turns 1 to 2: the message is as later messages repeat it")
    assert session.notes[1].startswith("turn 3: no later message repeats the message")


def test_a_history_that_is_another_one_is_left_out(recorder: Recorder) -> None:
    record_newest(recorder, prompt="first")
    record_newest(recorder, earlier=[say("user", "summary of before"), say("assistant", "ok")], prompt="second")

    (session,) = recorder.read()

    assert [said for said, _, _ in list_turns(session)] == ["first", "second"]
    assert session.notes == (
        "turn 2: the earlier messages that the model got differ from the turns before it, and are left out",
    )


def test_equal_ids_of_other_users_are_other_sessions(recorder: Recorder) -> None:
    for user in ("ann", "bob", ""):
        with record_agent(recorder, session="default", user__id=user):
            record_chat(recorder, [say("user", f"I am {user}")], ANSWERED)

    sessions = {session.user: session for session in recorder.read()}

    assert {user: [said for said, _, _ in list_turns(each)] for user, each in sessions.items()} == {
        "ann": ["I am ann"], "bob": ["I am bob"], "": ["I am "],
    }  # fmt: skip


def test_texts_of_other_agents_are_intermediate(recorder: Recorder) -> None:
    context = {
        "role": "user",
        "parts": [{"type": "text", "content": "For context:"}, {"type": "text", "content": "[one] said: First."}],
    }
    with record_agent(recorder):
        with record_agent(recorder, name="one"):
            record_chat(recorder, ASKED, [say("assistant", "First.")])
        with record_agent(recorder, name="two"):
            record_chat(recorder, [*ASKED, context], ANSWERED)

    (session,) = recorder.read()

    assert list_turns(session) == [("light on", [], "It is on.")]
    assert [each.text for each in list_messages(session.turns[0])] == ["First."]


# What is unknown, and what failed


def test_calls_between_the_input_and_output_of_an_agent_are_unknown(recorder: Recorder) -> None:
    attributes = {"gen_ai__input__messages": json.dumps(ASKED), "gen_ai__output__messages": json.dumps(ANSWERED)}
    with record_agent(recorder, **attributes):
        pass

    (session,) = recorder.read()

    assert session.turns[0].intermediate_data is None
    assert session.notes == ("turn 1: tool calls are unknown, so none are expected or excluded",)


def test_calls_without_arguments_are_unknown(recorder: Recorder) -> None:
    with record_agent(recorder):
        record_tool(recorder)
        record_chat(recorder, ASKED, ANSWERED)

    (session,) = recorder.read()

    assert session.turns[0].intermediate_data is None


def test_calls_of_a_reply_that_is_missing_are_unknown(recorder: Recorder) -> None:
    with record_agent(recorder):
        record_chat(recorder, ASKED, None)

    (session,) = recorder.read()

    assert session.turns[0].intermediate_data is None
    assert "turn 1: no response is known, so none is expected" in session.notes


def test_a_run_that_failed(recorder: Recorder) -> None:
    with record_agent(recorder):
        record_chat(recorder, ASKED, None, error="no quota")

    (session,) = recorder.read()

    assert session.turns[0].intermediate_data is None
    assert "turn 1: the run failed: no quota" in session.notes


def test_a_call_that_failed_has_its_own_result(recorder: Recorder) -> None:
    arguments = {"gen_ai__tool__call__arguments": '{"on": true}'}
    with record_agent(recorder):
        record_chat(recorder, ASKED, CALLED)
        record_tool(recorder, error="timeout", **arguments)
        record_tool(recorder, gen_ai__tool__call__result='{"ok": true}', **arguments)
        record_chat(recorder, [*ASKED, *CALLED, *RETURNED], ANSWERED)

    (session,) = recorder.read()

    results = [each.response.response for each in iterate_events(session.turns[0]) if isinstance(each, ResponseEvent)]
    assert results == [{"error": "timeout"}, {"ok": True}]
    assert session.notes == ("turn 1: calls failed: set_light",)


def test_notes_name_turns_in_short(recorder: Recorder) -> None:
    for number in range(40):
        with record_agent(recorder):
            record_chat(recorder, [say("user", f"q{number}")], None)

    (session,) = recorder.read()

    assert len(session.turns) == 40
    assert [note.split(":")[0] for note in session.notes] == ["turns 1 to 40"] * 2


def test_spans_that_are_exported_twice_count_once(recorder: Recorder) -> None:
    record_newest(recorder)
    document = recorder.encode()

    steps, _ = read_otlp_steps([document, document])

    assert len(steps) == 3


def make_run(number: int, kind: str, inputs: Any, outputs: Any = None, **changes: Any) -> Any:
    return {
        "id": f"r{number}",
        "trace_id": "r0",
        "parent_run_id": "r0" if number else None,
        "name": changes.pop("name", kind),
        "run_type": kind,
        "inputs": inputs,
        "outputs": outputs,
        "start_time": f"2026-11-01T10:00:0{number}",
        "end_time": f"2026-11-01T10:00:0{number}.5",
        **changes,
    }


def test_inputs_of_langchain_tools_are_arguments_in_the_order_of_the_model() -> None:
    calls = [
        {"id": name, "type": "function", "function": {"name": name, "arguments": '{"a": 2}'}} for name in ("add", "mul")
    ]
    question = {"role": "user", "content": "2 and 2"}
    asked = {"role": "assistant", "content": "", "tool_calls": calls}
    runs = [
        make_run(0, "chain", {"messages": [question]}, {"messages": [{"role": "assistant", "content": "4"}]}),
        make_run(1, "llm", {"messages": [question]}, asked),
        make_run(2, "tool", {"input": "{'a': 2}"}, {"output": 4}, name="mul"),
        make_run(3, "tool", {"input": '{"a": 2}'}, {"output": 4}, name="add"),
    ]

    (session,) = build_sessions(read_langsmith_steps(runs))

    assert list_turns(session) == [("2 and 2", [("add", {"a": 2}), ("mul", {"a": 2})], "4")]


def test_the_state_that_a_graph_returns_repeats_no_message_of_the_user() -> None:
    def say(role: str, text: str) -> dict[str, str]:
        return {"type": role, "content": text}

    first = [say("human", "hi"), say("ai", "hello")]
    second = [*first, say("human", "bye"), say("ai", "see you")]
    runs = [
        {**make_run(n, "chain", {"messages": asked}, {"messages": state}), "trace_id": f"t{n}", "parent_run_id": None}
        for n, asked, state in ((1, first[:1], first), (2, second[2:3], second))
    ]
    runs = [{**run, "extra": {"metadata": {"thread_id": "s"}}} for run in runs]

    (session,) = build_sessions(read_langsmith_steps(runs))

    assert [turn[::2] for turn in list_turns(session)] == [("hi", "hello"), ("bye", "see you")]

    run = make_run(3, "chain", {"messages": second[:3]}, {"messages": second[2:]})  # a graph that removes old messages
    (session,) = build_sessions(read_langsmith_steps([{**run, "parent_run_id": None}]))
    assert [turn[::2] for turn in list_turns(session)] == [("hi", "hello"), ("bye", "see you")]


def test_a_run_of_langsmith_that_failed() -> None:
    runs = [make_run(0, "chain", {"input": "do it"}, error="ValueError: no")]

    (session,) = build_sessions(read_langsmith_steps(runs))

    assert session.turns[0].intermediate_data is None
    assert "turn 1: the run failed: ValueError: no" in session.notes


def test_a_circle_of_parents_ends(recorder: Recorder) -> None:
    record_newest(recorder)
    document = recorder.encode()
    for span in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        span["parentSpanId"] = span["spanId"]

    (session,) = build_sessions(read_otlp_steps([document])[0])

    assert session.turns


@pytest.mark.parametrize("of", ["Tempo", "Tempo, version 2", "Jaeger"])
def test_the_json_of_tempo_and_jaeger_is_read(recorder: Recorder, of: str) -> None:
    record_newest(recorder)
    document = recorder.encode()
    batches = {"batches": document["resourceSpans"]}
    exported = {"Tempo": batches, "Tempo, version 2": {"trace": document}, "Jaeger": {"result": document}}[of]

    assert is_otlp(exported)
    assert read_otlp_steps([exported]) == read_otlp_steps([document])


def test_what_is_no_span_is_reported() -> None:
    steps, problems = read_otlp_steps([{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "x"}]}]}]}])

    assert steps == []
    assert problems[0].startswith("resourceSpans[0].scopeSpans[0].spans[0]: traceId")


# google-adk: a real agent whose model is scripted, traced by the SDK

AGENT = '''
import asyncio, json, sys, warnings
warnings.simplefilter("ignore")
from google.protobuf.json_format import MessageToJson
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)

from google.adk.agents import Agent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types


class Model(BaseLlm):
    async def generate_content_async(self, request, stream=False):
        parts = request.contents[-1].parts
        has_result = any(part.function_response for part in parts)
        said = " ".join(part.text or "" for part in parts)
        if has_result:
            parts = [types.Part.from_text(text="The light is on.")]
        elif "light" in said:
            calls = [types.FunctionCall(name="set_light", args={"on": on}) for on in (True, False)]
            parts = [types.Part.from_text(text="One moment."), *(types.Part(function_call=call) for call in calls)]
        elif "weather" in said and self.model == "home":
            parts = [types.Part(function_call=types.FunctionCall(name="transfer_to_agent", args={"agent_name": "sky"}))]
        else:
            parts = [types.Part.from_text(text=f"{self.model}: sunny")]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


def set_light(on: bool) -> dict:
    """Set the light."""
    return {"ok": on}


sky = Agent(name="sky", model=Model(model="sky"), description="knows the weather")
root = Agent(name="home", model=Model(model="home"), tools=[set_light], sub_agents=[sky])


async def main():
    runner = InMemoryRunner(agent=root, app_name="home")
    await runner.session_service.create_session(app_name="home", user_id="ann", session_id="s1")
    for text in ("turn on the light", "and the weather?", "and tomorrow?"):
        message = types.Content(role="user", parts=[types.Part.from_text(text=text)])
        async for _ in runner.run_async(user_id="ann", session_id="s1", new_message=message):
            pass
    return await runner.session_service.get_session(app_name="home", user_id="ann", session_id="s1")


session = asyncio.run(main())
print(json.dumps({
    "session": session.model_dump(mode="json", by_alias=True, exclude_none=True),
    "traces": json.loads(MessageToJson(encode_spans(exporter.get_finished_spans()))),
}))
'''


@pytest.mark.needs_adk
@pytest.mark.parametrize(
    "variables",
    [
        pytest.param(
            {
                "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "span_only",
                "OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental",
            },
            id="conventions",
        ),
        pytest.param({"ADK_TELEMETRY_SCHEMA_VERSION_OPT_IN": "1"}, id="own attributes"),
    ],
)
def test_traces_and_session_of_an_adk_agent_agree(tmp_path: Path, variables: dict[str, str]) -> None:
    pytest.importorskip("opentelemetry.sdk")
    script = tmp_path / "agent.py"
    script.write_text(AGENT)
    done = subprocess.run([sys.executable, script], capture_output=True, env=variables, check=True)
    recorded = json.loads(done.stdout.splitlines()[-1])

    stored = read_adk_session(recorded["session"])
    (traced,) = build_sessions(read_otlp_steps([recorded["traces"]])[0])

    assert list_turns(stored) == [
        ("turn on the light", [("set_light", {"on": True}), ("set_light", {"on": False})], "The light is on."),
        ("and the weather?", [("transfer_to_agent", {"agent_name": "sky"})], "sky: sunny"),
        ("and tomorrow?", [], "sky: sunny"),
    ]
    assert list_turns(traced) == list_turns(stored)
    assert traced.id == stored.id == "s1"
    for session in (stored, traced):
        assert [each.text for each in list_messages(session.turns[0])] == ["One moment."]


# LangSmith: runs that its own client, and LangChain's tracer, made


def dump_runs(trees: Sequence[Any]) -> list[Any]:
    """Return the runs as LangSmith's API returns them."""
    known = {"id", "name", "run_type", "start_time", "end_time", "inputs", "outputs", "extra", "parent_run_id", "error"}
    runs: list[Any] = []
    pending = list(trees)
    while pending:
        tree = pending.pop()
        pending += tree.child_runs
        runs.append(json.loads(tree.model_dump_json(include={*known, "trace_id", "dotted_order"})))
    return runs


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a client of LangSmith that sends nothing."""
    langsmith = pytest.importorskip("langsmith")
    utils = pytest.importorskip("langsmith.utils")
    from unittest.mock import MagicMock

    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    utils.get_env_var.cache_clear()  # another test may have used LangChain
    made = MagicMock(spec=langsmith.Client)
    made.tracing_queue = None
    yield made
    utils.get_env_var.cache_clear()


def test_runs_of_traced_functions(client: Any) -> None:
    from langsmith import traceable

    trees: list[Any] = []
    called = {"id": "c1", "type": "function", "function": {"name": "set_light", "arguments": '{"on": true}'}}

    @traceable(run_type="tool", client=client)
    def set_light(on: bool) -> Any:
        return {"ok": on}

    @traceable(run_type="llm", client=client)
    def ask(messages: Any) -> Any:
        if messages[-1]["role"] == "tool":
            return {"role": "assistant", "content": "It is on."}
        return {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [called]}}]}

    @traceable(run_type="chain", client=client, name="home")
    def agent(question: str) -> Any:
        messages: list[Any] = [{"role": "system", "content": "be nice"}, {"role": "user", "content": question}]
        messages.append(ask([*messages])["choices"][0]["message"])
        set_light(on=True)
        messages.append({"role": "tool", "tool_call_id": "c1", "content": "{}"})
        return ask([*messages])["content"]

    extra: Any = {"metadata": {"thread_id": "s1", "user_id": "ann"}, "on_end": trees.append}
    for _ in range(2):
        agent("light on", langsmith_extra=extra)
    runs = dump_runs(trees)

    assert all(map(is_langsmith, runs))
    (session,) = build_sessions(read_langsmith_steps(runs))
    assert (session.id, session.user, session.app) == ("s1", "ann", "home")
    assert list_turns(session) == ONE_TURN * 2


def test_runs_of_a_langchain_agent(client: Any) -> None:
    pytest.importorskip("langchain")
    from langchain.agents import create_agent
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.tools import tool
    from langchain_core.tracers.langchain import LangChainTracer

    @tool  # type: ignore[untyped-decorator]
    def weather(city: str) -> str:
        """Return the weather."""
        return f"sunny in {city}"

    class Model(GenericFakeChatModel):
        def bind_tools(self, *_: Any, **__: Any) -> Any:
            return self

    call: Any = {"id": "c1", "name": "weather", "args": {"city": "Rome"}}
    agent = create_agent(Model(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("Sunny.")])), [weather])
    trees: list[Any] = []
    tracer = LangChainTracer(client=client)
    tracer._persist_run = trees.append
    config: Any = {"callbacks": [tracer], "metadata": {"session_id": "s1"}}
    question: Any = {"messages": [{"role": "user", "content": "weather in Rome?"}]}
    agent.invoke(question, config=config)

    (session,) = build_sessions(read_langsmith_steps(dump_runs(trees)))

    assert session.id == "s1"
    assert list_turns(session) == [("weather in Rome?", [("weather", {"city": "Rome"})], "Sunny.")]


# Langfuse: shapes of its API and exports, with the fields that its reference lists

MESSAGES = [{"role": "system", "content": "be nice"}, {"role": "user", "content": "light on"}]
OPENAI_CALL = {"id": "c1", "type": "function", "function": {"name": "set_light", "arguments": '{"on": true}'}}


def make_observations(spell: Callable[[str], str] = lambda name: name, *, as_text: bool = False) -> list[Any]:
    def encode(value: Any) -> Any:
        return json.dumps(value) if as_text else value

    def make(number: int, kind: str, parent: str | None, given: Any, output: Any) -> Any:
        return {
            "id": f"o{number}",
            spell("traceId"): "t1",
            "type": kind,
            "name": "set_light" if kind == "TOOL" else "chat",
            spell("startTime"): f"2026-03-01T10:00:0{number}.000Z",
            spell("endTime"): f"2026-03-01T10:00:0{number}.500Z",
            spell("parentObservationId"): parent,
            "input": encode(given),
            "output": encode(output),
        }

    called = {"role": "assistant", "content": None, "tool_calls": [OPENAI_CALL]}
    returned = {"role": "tool", "tool_call_id": "c1", "content": "{}"}
    answer = {"role": "assistant", "content": "It is on."}
    return [
        make(1, "SPAN", None, {"question": "light on"}, "It is on."),
        make(2, "GENERATION", "o1", MESSAGES, called),
        make(3, "TOOL", "o1", {"on": True}, {"ok": True}),
        make(4, "GENERATION", "o1", {"messages": [*MESSAGES, called, returned]}, answer),
    ]


TRACE = {
    "id": "t1",
    "timestamp": "2026-03-01T10:00:00.000Z",
    "name": "home",
    "input": "light on",
    "output": "It is on.",
    "sessionId": "s1",
    "userId": "ann",
    "metadata": {},
}


def to_snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


@pytest.mark.parametrize(
    "items",
    [
        pytest.param([{**TRACE, "observations": make_observations()}], id="trace of the API"),
        pytest.param([{"trace": TRACE, "observations": make_observations(as_text=True)}], id="download of a trace"),
        pytest.param(
            [{"id": "s1", "traces": [{**TRACE, "sessionId": None, "observations": make_observations()}]}],
            id="session of the API",
        ),
        pytest.param(
            [
                {**each, "session_id": "s1", "user_id": "ann", "trace_name": "home"}
                for each in make_observations(to_snake, as_text=True)
            ],
            id="rows of observations",
        ),
    ],
)
def test_exports_of_langfuse(items: list[Any]) -> None:
    assert all(map(is_langfuse, items))

    (session,) = build_sessions(read_langfuse_steps(items))

    assert (session.id, session.user, session.app) == ("s1", "ann", "home")
    assert list_turns(session) == ONE_TURN
    assert session.began is not None
    assert session.began.isoformat().startswith("2026-03-01T10:00:0")


def test_a_trace_of_langfuse_without_observations() -> None:
    (session,) = build_sessions(read_langfuse_steps([TRACE]))

    assert session.turns[0].user_content.text() == "light on"
    assert session.turns[0].final_response is not None
    assert session.turns[0].intermediate_data is None
    assert session.notes == ("turn 1: tool calls are unknown, so none are expected or excluded",)


def test_arguments_that_are_no_object_are_read_from_the_messages() -> None:
    observations = make_observations()
    observations[2]["input"] = "{'on': True}"

    (session,) = build_sessions(read_langfuse_steps([{**TRACE, "observations": observations}]))

    assert list_turns(session) == ONE_TURN
