"""A2A agents on real servers of the protocol's own library: their requests, and how answers are read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from workbench.agents.worker.adapters.base import AgentFault
from workbench.model.results import FailureKind
from workbench.model.trace import SpanKind

pytestmark = [
    pytest.mark.needs_a2a,
    pytest.mark.prepared("a2a"),
    pytest.mark.filterwarnings("ignore:.EXPERIMENTAL.:UserWarning"),  # from ADK, about its own code
]


def make_turn(known: dict[str, Any]) -> Any:
    """Return a turn of the adapter, which can be imported with the extra only."""
    from workbench.agents.worker.adapters.a2a.a2a_session import A2aTurn

    return A2aTurn(known)


def get_calls(turn: Any) -> list[tuple[str, Any]]:
    return [(call.name, call.args) for call in turn.invocation.intermediate_data.tool_uses]


def get_intermediate_responses(turn: Any) -> list[tuple[str, str]]:
    responses = turn.invocation.intermediate_data.intermediate_responses
    return [(item.author, item.parts[0].text) for item in responses]


async def test_messages_tasks_artefacts_and_calls_are_read(
    bench: Any, serve: Any, create_host: Any, variant: dict[str, Any]
) -> None:
    agent = serve(**variant)

    talk = await bench.talk(create_host(agent.url), "message hi", "work lamp", "calls moon", "chunks", "data")

    assert talk.error is None, talk.message
    assert talk.responses == [
        "said hi",
        "found lamp\nand more",
        "looked",
        "one two three",
        '{"degrees": 3, "rain": false}',
    ]
    assert get_intermediate_responses(talk.turns[1]) == [("agent", "let me see")]
    assert get_calls(talk.turns[2]) == [("look", {"at": "moon", "times": 2})]
    data = talk.turns[2].invocation.intermediate_data
    assert [item.response for item in data.tool_responses] == [{"seen": True}]
    assert [text for _, text in get_intermediate_responses(talk.turns[2])] == ["hm"]
    assert {context for context, _ in agent.executor.contexts} == {agent.executor.contexts[0][0]}
    assert len({task for _, task in agent.executor.contexts}) == 5
    assert talk.end.final_state is None


async def test_only_agents_served_by_adk_report_that_no_tool_was_called(
    bench: Any, serve: Any, create_host: Any
) -> None:
    talk = await bench.talk(create_host(serve().url), "message hi", "calls moon")

    assert talk.turns[0].calls_unknown == (
        "the agent does not say which tools were called: A2A has no format for tool calls, and only ADK agents report "
        "them"
    )
    assert talk.turns[0].invocation.intermediate_data is None
    assert talk.turns[1].calls_unknown is None


@pytest.mark.parametrize(
    ("task", "tells"),
    [
        ({"artifacts": [{"artifactId": "a", "parts": [{"text": "Done."}]}]}, False),
        ({"artifacts": [{"artifactId": "a", "parts": [{"text": "D", "metadata": {"adk_thought": True}}]}]}, True),
        ({"metadata": {"adk_app_name": "lamps"}}, True),
        ({"metadata": {"trace": "adk_"}}, False),
    ],
)
def test_adk_is_recognised_by_its_metadata_on_answers(task: dict[str, Any], tells: bool) -> None:
    turn = make_turn({})

    turn.take({"task": {"id": "one", "status": {"state": "TASK_STATE_COMPLETED"}, **task}})

    assert turn.reports_calls is tells


async def test_streamed_metadata_of_adk_is_read(bench: Any, serve: Any, create_host: Any) -> None:
    talk = await bench.talk(create_host(serve().url), "calls moon")

    assert talk.turns[0].usage.model_dump(exclude_none=True) == {"prompt": 14, "total": 18}
    assert get_intermediate_responses(talk.turns[0]) == [("looker", "hm")]
    agent, tool = talk.spans
    assert (agent.kind, agent.response, tool.kind, tool.name, tool.response) == (
        SpanKind.AGENT,
        "looked",
        SpanKind.TOOL,
        "look",
        {"seen": True},
    )
    assert agent.attributes["a2a.task_state"] == "TASK_STATE_COMPLETED"


async def test_a_task_that_needs_input_continues_with_the_next_turn(
    bench: Any, serve: Any, create_host: Any, variant: dict[str, Any]
) -> None:
    agent = serve(**variant)

    talk = await bench.talk(create_host(agent.url), "ask", "work lamp", "message hi")

    assert talk.error is None, talk.message
    assert talk.responses == ["which one?", "found lamp\nand more", "said hi"]
    (first, second, third) = (task for _, task in agent.executor.contexts)
    assert first == second != third
    assert get_intermediate_responses(talk.turns[1]) == [("agent", "let me see")]  # earlier text is not repeated


async def test_a_task_that_continues_after_the_answer_is_polled_until_it_is_done(
    bench: Any, serve: Any, create_host: Any
) -> None:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    methods: list[str] = []

    def app(port: int) -> Any:
        interface = {"url": f"http://127.0.0.1:{port}/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}

        async def card(_: Request) -> JSONResponse:
            return JSONResponse({"name": "x", "capabilities": {}, "supportedInterfaces": [interface]})

        async def rpc(request: Request) -> JSONResponse:
            body = await request.json()
            methods.append(body["method"])
            texts = ["one ", "two ", "three"][: len(methods)]
            state = "TASK_STATE_COMPLETED" if len(methods) == 3 else "TASK_STATE_WORKING"
            artefact = {"artifactId": "a", "parts": [{"text": text} for text in texts]}
            task = {"id": "t", "contextId": "c", "status": {"state": state}, "artifacts": [artefact]}
            result = task if body["method"] == "GetTask" else {"task": task}
            return JSONResponse({"jsonrpc": "2.0", "id": body["id"], "result": result})

        return Starlette(routes=[Route("/.well-known/agent-card.json", card), Route("/", rpc, methods=["POST"])])

    talk = await bench.talk(create_host(serve(app).url), "go")

    assert talk.error is None, talk.message
    assert talk.responses == ["one two three"]
    assert methods == ["SendMessage", "GetTask", "GetTask"]


def test_an_artefact_that_a_later_turn_changes_is_an_answer_again() -> None:
    def task(state: str, text: str) -> dict[str, Any]:
        artefact = {"artifactId": "a", "parts": [{"text": text}]}
        return {"task": {"id": "t", "contextId": "c", "status": {"state": state}, "artifacts": [artefact]}}

    known: dict[str, Any] = {}
    answers = []
    for state, text in (("INPUT_REQUIRED", "draft"), ("INPUT_REQUIRED", "better"), ("COMPLETED", "better")):
        turn = make_turn(known)
        turn.take(task(f"TASK_STATE_{state}", text))
        try:
            answers.append(turn.answer()["response"])
        except AgentFault as error:
            answers.append(str(error))

    assert answers == ["draft", "better", "the agent ended the turn without text, data or tool calls"]


def make_completed_task(task: str, *parts: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """Return a completed task with one artefact of a constant id."""
    artefact = {"artifactId": "result", "parts": list(parts)}
    status = {"state": "TASK_STATE_COMPLETED"}
    return {"task": {"id": task, "status": status, "artifacts": [artefact], "metadata": metadata}}


def test_artefacts_of_two_tasks_may_have_the_same_id_and_text() -> None:
    known: dict[Any, Any] = {}
    answers = []
    for task in ("one", "two"):
        turn = make_turn(known)
        turn.take(make_completed_task(task, {"text": "Done."}))
        answers.append(turn.answer()["response"])

    assert answers == ["Done.", "Done."]


def test_tokens_of_a_task_are_counted_once_however_often_it_is_polled() -> None:
    turn = make_turn({})
    for _ in range(3):
        turn.take(make_completed_task("one", {"text": "Done."}, adk_usage_metadata={"promptTokenCount": 10.0}))

    assert turn.answer()["usage"] == {"prompt": 10}


@pytest.mark.parametrize("data", ["look", [1], None])
def test_a_call_whose_data_is_not_an_object_is_an_error(data: Any) -> None:
    turn = make_turn({})
    turn.take(make_completed_task("one", {"text": "Done."}, {"data": data, "metadata": {"adk_type": "function_call"}}))

    with pytest.raises(AgentFault, match=r"the agent sent a function_call with .* expected an object"):
        turn.answer()


async def test_sessions_share_a_process_and_nothing_else(bench: Any, serve: Any, create_host: Any) -> None:
    agent = serve()
    host = create_host(agent.url)
    host.prepare(cases=4)

    async with asyncio.timeout(60):  # without concurrency they would wait for ever
        talks = await asyncio.gather(*(bench.talk(host, "meet 4", f"message {number}") for number in range(4)))

    assert [talk.responses for talk in talks] == [["at last", f"said {number}"] for number in range(4)]
    assert len({context for context, _ in agent.executor.contexts}) == 4
    assert not any("cookie" in headers for headers in agent.headers)


async def test_headers_use_environment_variables_and_never_show_their_values(
    bench: Any, serve: Any, create_host: Any
) -> None:
    from starlette.responses import PlainTextResponse

    agent = serve()
    options = {
        "env_file": bench.write("a2a.env", "LAMP_KEY=secret-of-lamps"),
        "options": {"headers": {"Authorization": "Bearer ${LAMP_KEY}"}},
    }

    talk = await bench.talk(create_host(agent.url, **options), "message hi")
    agent.refuse_with = PlainTextResponse("not secret-of-lamps", status_code=403)
    refused = await bench.talk(create_host(agent.url, **options), "message hi")
    unset = await bench.talk(create_host(agent.url, options={"headers": {"X": "${NOT_SET}"}}), "message hi")

    assert talk.responses == ["said hi"]
    assert {headers["authorization"] for headers in agent.headers} == {"Bearer secret-of-lamps"}
    assert refused.message == f"the agent {agent.url} answered with HTTP 403"
    assert unset.message == "targets.bench.a2a.headers.X: the environment variable NOT_SET is not set"


async def test_a_key_that_the_agent_repeats_is_neither_shown_nor_stored(
    bench: Any, serve: Any, create_host: Any
) -> None:
    options = {
        "env_file": bench.write("a2a.env", "LAMP_KEY=secret-of-lamps\nTOWN=Springfield"),
        "options": {
            "headers": {"Authorization": "Bearer ${LAMP_KEY}", "X-Api-Key": "literal-key", "X-Town": "${TOWN}"}
        },
    }
    host = create_host(serve().url, **options)

    failed = await bench.talk(host, "refuse secret-of-lamps literal-key")
    answered = await bench.talk(host, "message secret-of-lamps literal-key Springfield")

    assert failed.message == "the agent's task failed: bad ${LAMP_KEY} [redacted]"
    assert answered.responses == ["said ${LAMP_KEY} [redacted] Springfield"]


async def test_headers_are_sent_only_to_the_host_of_the_target(bench: Any, serve: Any, create_host: Any) -> None:
    agent, other = serve(), serve()
    interfaces = [
        {"url": f"{each.url}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"} for each in (other, agent)
    ]
    headers = {"options": {"headers": {"X-Town": "Springfield"}}}

    agent.card = {"name": "x", "supportedInterfaces": interfaces}
    own = await bench.talk(create_host(agent.url, **headers), "message hi")
    agent.card = {"name": "x", "supportedInterfaces": interfaces[:1]}
    refused = await bench.talk(create_host(agent.url, **headers), "message hi")
    request_count = len(other.headers)
    bare = await bench.talk(create_host(agent.url), "message hi")

    assert own.responses == bare.responses == ["said hi"]
    assert refused.error.failure.kind is FailureKind.SETUP
    assert f"names {other.url}/rpc, which has another scheme, host or port than target" in refused.message
    assert request_count == 0


async def test_requests_continue_the_trace_that_the_result_names(bench: Any, serve: Any, create_host: Any) -> None:
    agent = serve()

    talk = await bench.talk(create_host(agent.url), "message a", "message b")

    sent = [headers["traceparent"] for headers in agent.headers if "traceparent" in headers]
    assert sent == [span.attributes["traceparent"] for span in talk.spans]
    assert len({each.split("-")[1] for each in sent}) == 1


async def test_the_card_describes_the_agent(bench: Any, serve: Any, create_host: Any) -> None:
    session = await bench.open(create_host(serve().url))
    description = await session.describe()
    await session.kill()

    assert (description.agents[0].name, description.agents[0].description) == (
        "lamps",
        "Knows lamps.\nswitch: Switches lamps.",
    )
    assert description.unknown


@pytest.mark.needs_adk
async def test_an_agent_served_by_adk_reports_its_calls_and_tokens(bench: Any, serve: Any, create_host: Any) -> None:
    from google.adk.a2a.utils.agent_to_a2a import to_a2a
    from google.adk.agents import LlmAgent
    from google.adk.models import BaseLlm, LlmResponse
    from google.genai import types

    class Model(BaseLlm):
        model: str = "made-up"

        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            last = llm_request.contents[-1].parts[-1]
            call = types.Part(function_call=types.FunctionCall(name="switch", args={"lamp": 2, "on": True}))
            part = types.Part(text="It is on.") if last.function_response else call
            part = types.Part(text="Gladly.") if last.text == "thanks" else part
            usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=10, total_token_count=12)
            yield LlmResponse(content=types.Content(role="model", parts=[part]), usage_metadata=usage)

    def switch(lamp: int, on: bool) -> dict[str, Any]:
        return {"lamp": lamp, "on": on}

    root = LlmAgent(name="lamps", description="Knows lamps.", model=Model(), tools=[switch])
    agent = serve(lambda port: to_a2a(root, host="127.0.0.1", port=port))

    talk = await bench.talk(create_host(agent.url), "lamp 2", "again", "thanks")

    assert talk.error is None, talk.message
    assert talk.responses == ["It is on.", "It is on.", "Gladly."]
    assert [get_calls(turn) for turn in talk.turns] == [*[[("switch", {"lamp": 2, "on": True})]] * 2, []]
    assert talk.turns[2].calls_unknown is None
    data = talk.turns[1].invocation.intermediate_data
    assert [item.response for item in data.tool_responses] == [{"lamp": 2, "on": True}]
    assert data.intermediate_responses == []
    assert talk.turns[0].usage.total == 24


async def test_too_many_tool_calls_are_cut_and_not_judged(bench: Any, serve: Any, create_host: Any) -> None:
    talk = await bench.talk(create_host(serve().url), "many 12000")

    assert talk.error is None, talk.message
    assert talk.responses == ["looked"]
    assert [args["at"] for _, args in get_calls(talk.turns[0])] == list(range(10_000))
    assert talk.turns[0].calls_unknown == "the agent made 12,000 tool calls in one turn; only the first 10,000 are kept"
