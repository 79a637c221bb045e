"""Agents of Agent Engine: objects in the project, real templates, and deployed agents behind a local server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.llm.servers import Answer, Call, HttpResponse, Server, run_server
from workbench.agents.worker.adapters.agent_engine import read_output
from workbench.agents.worker.adapters.base import AgentFault
from workbench.model.results import FailureKind
from workbench.model.target import AgentKind

pytestmark = pytest.mark.prepared("http")

RESOURCE = "projects/p/locations/europe-west1/reasoningEngines/7"
STEPS = [[{"lc": 1, "kwargs": {"tool": "look", "tool_input": {"at": "moon"}}}, {"seen": True}]]


@pytest.fixture
def create_host(bench: Any) -> Callable[..., Any]:
    return lambda **options: bench.host(kind=AgentKind.AGENT_ENGINE, **{"mode": "fork", **options})


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], Server]]:
    with ExitStack() as stack:
        yield lambda answer: stack.enter_context(run_server(answer))


def get_calls(turn: Any) -> list[tuple[str, Any]]:
    return [(call.name, call.args) for call in turn.invocation.intermediate_data.tool_uses]


def get_results(turn: Any) -> list[Any]:
    return [item.response for item in turn.invocation.intermediate_data.tool_responses]


async def test_an_object_with_query_is_set_up_and_called(bench: Any, create_host: Any, way: dict[str, Any]) -> None:
    bench.agent("""
        class Agent:
            def set_up(self):
                self.greeting = "hello"

            def query(self, *, input, config):
                self.asked = getattr(self, "asked", set()) | {config["configurable"]["session_id"]}
                step = [{"kwargs": {"tool": "look", "tool_input": {"at": input}}}, "seen"]
                return {"output": f"{self.greeting} {input} {len(self.asked)}", "intermediate_steps": [step]}

        answer = Agent()
    """)

    talk = await bench.talk(create_host(**way), "sun", "moon", state={"x": 1})

    assert talk.error is None, talk.message
    assert talk.responses == ["hello sun 1", "hello moon 1"]  # both turns have the same session id
    assert [get_calls(turn) for turn in talk.turns] == [[("look", {"at": "sun"})], [("look", {"at": "moon"})]]
    assert get_results(talk.turns[0]) == [{"result": "seen"}]
    assert [(span.kind.value, span.name) for span in talk.spans[:2]] == [("agent", "answer"), ("tool", "look")]
    assert talk.end.final_state is None


@pytest.mark.needs_fork
@pytest.mark.parametrize(
    ("body", "response"),
    [
        ("def query(self, input): return 'plain ' + input", "plain hi"),
        ("def query(self, input): return {'response': input, 'predicted_trajectory': [{'tool_name': 'look'}]}", "hi"),
        ("async def async_query(self, input): return {'output': input}", "hi"),
        ("def query(self, input): return {'output': [{'type': 'text', 'text': input}]}", "hi"),
        ("def stream_query(self, input):\n  yield input\n  yield '!'", "hi!"),
        ("async def async_stream_query(self, input):\n  yield {'steps': []}\n  yield {'output': input}", "hi"),
        (
            "def query(self, input): return {'messages': [{'role': 'user', 'content': input}, "
            "{'role': 'assistant', 'content': 'ok'}]}",
            "ok",
        ),
    ],
)
async def test_each_method_and_shape_of_answer_is_read(bench: Any, create_host: Any, body: str, response: str) -> None:
    bench.write("agent.py", "class answer:\n  " + body.replace("\n", "\n  "))

    talk = await bench.talk(create_host(), "hi")

    assert talk.error is None, talk.message
    assert talk.responses == [response]


@pytest.mark.needs_fork
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"output": "x", "intermediate_steps": ["look(moon)"]}, '"intermediate_steps[0]" is a str'),
        ({"output": "x", "intermediate_steps": "[]"}, '"intermediate_steps" is a str'),
        ({"output": "x", "intermediate_steps": [[{"kwargs": {}}, 1]]}, '"intermediate_steps[0][0]" is a dict'),
        ({"output": {"a": 1}}, '"output" is a dict with the keys a'),
        ({"result": 1}, 'the agent returned a dict with the keys result, expected text, a dict with "output"'),
        (None, "the agent returned None"),
        ({"output": [None]}, '"output[0]" is None, expected text or a block with text'),
        ({"messages": [{"type": "ai", "content": "", "tool_calls": [{"id": "1"}]}]}, "expected a call with a name"),
    ],
)
async def test_an_unreadable_answer_is_an_error_and_never_an_empty_trajectory(
    bench: Any, create_host: Any, answer: Any, message: str
) -> None:
    bench.agent(f"""
        class answer:
            def query(self, input):
                return {answer!r}
    """)

    talk = await bench.talk(create_host(), "hi")

    assert talk.error.failure.kind is FailureKind.AGENT
    assert message in talk.message


CALL = {"type": "ai", "content": "", "tool_calls": [{"id": "1", "name": "look", "args": {}}]}
EVENT = {"author": "a", "content": {"parts": [{"function_call": {"name": "look", "args": {}}}]}}


@pytest.mark.parametrize(
    ("chunks", "calls"),
    [
        ([{"output": "x"}], None),
        ([{"output": "x", "messages": [{"type": "ai", "content": "x"}]}], []),
        ([{"actions": []}, {"steps": []}, {"output": "x"}], []),
        ([{"output": "x", "intermediate_steps": []}], []),
        ([{"output": "x", "intermediate_steps": [[{"kwargs": {"tool": "look", "tool_input": {}}}, 1]]}], ["look"]),
        ([{"steps": [{"action": {"tool": "look", "tool_input": {}}, "observation": 1}]}, {"output": "x"}], ["look"]),
    ],
)
def test_a_stream_without_calls_means_no_calls_only_if_its_format_reports_them(
    chunks: list[Any], calls: list[str] | None
) -> None:
    trajectory = read_output(chunks, is_stream=True)["predicted_trajectory"]

    assert (None if trajectory is None else [call["name"] for call in trajectory]) == calls


@pytest.mark.parametrize("before", [[], [{"agent": {"messages": [CALL]}}], [{"actions": []}, {"steps": []}], [EVENT]])
@pytest.mark.parametrize("error", [{"code": 503, "message": "down"}, {"error": {"code": 503, "message": "down"}}])
def test_an_error_in_a_stream_is_never_part_of_an_answer(before: list[Any], error: dict[str, Any]) -> None:
    with pytest.raises(AgentFault, match="the agent answered with error 503: down") as raised:
        read_output([*before, error], is_stream=True)

    assert raised.value.kind == "infrastructure"


def test_an_error_in_a_stream_may_be_only_text() -> None:
    with pytest.raises(AgentFault, match="the agent answered with error without a code: down"):
        read_output([{"agent": {"messages": [CALL]}}, {"error": "down"}], is_stream=True)


def test_an_event_after_an_error_is_the_answer() -> None:
    answer_event = {"author": "a", "content": {"parts": [{"text": "ok"}]}}

    output = read_output([EVENT, {"code": 503, "message": "down"}, answer_event], is_stream=True)

    assert (output["response"], len(output["predicted_trajectory"])) == ("ok", 1)


@pytest.mark.parametrize("node", ["agent", "response", "error"])
def test_the_single_chunk_of_a_streaming_graph_is_read(node: str) -> None:
    output = read_output([{node: {"messages": [{"type": "ai", "content": "hi"}]}}], is_stream=True)

    assert (output["response"], output["predicted_trajectory"]) == ("hi", [])


def test_calls_in_the_format_of_chat_completions_are_read() -> None:
    calls = [
        {"id": "1", "type": "function", "function": {"name": "look", "arguments": '{"at": "moon"}'}},
        {"id": "2", "type": "function", "function": {"name": "look", "arguments": '{"at": '}},
    ]
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "content": "seen", "tool_call_id": "1"},
        {"role": "assistant", "content": "done"},
    ]

    output = read_output({"messages": messages}, is_stream=False)

    assert [(call["name"], call["args"]) for call in output["predicted_trajectory"]] == [
        ("look", {"at": "moon"}),
        ("look", None),
    ]
    assert output["tool_responses"] == [{"id": "1", "name": "look", "response": {"result": "seen"}}]


@pytest.mark.parametrize(
    ("block", "name"),
    [
        ({"type": "server_tool_use", "id": "1", "name": "look", "input": {"at": "moon"}}, "look"),
        ({"type": "tool_use", "id": "1", "name": "look", "input": {"at": "moon"}}, "look"),
        ({"toolUse": {"toolUseId": "1", "name": "look", "input": {"at": "moon"}}}, "look"),
        ({"type": "mcp_call", "id": "1", "name": "look", "arguments": '{"at": "moon"}'}, "look"),
        ({"type": "web_search_call", "id": "1", "action": {"at": "moon"}}, "web_search"),
        ({"function_call": {"id": "1", "name": "look", "args": {"at": "moon"}}}, "look"),
    ],
)
@pytest.mark.parametrize("key", ["content", "parts"])
def test_calls_that_appear_only_in_the_content_are_read(block: dict[str, Any], name: str, key: str) -> None:
    message = {"role": "model", key: [block, {"type": "text", "text": "done"}]}

    output = read_output({"messages": [{"role": "user", "content": "hi"}, message]}, is_stream=False)

    assert output["predicted_trajectory"] == [{"id": "1", "name": name, "args": {"at": "moon"}}]
    assert output["response"] == "done"


OK = {"role": "assistant", "content": "done"}
ITEM = {"type": "function_call", "id": "fc_1", "call_id": "1", "name": "look", "arguments": "{}"}


@pytest.mark.parametrize(
    ("messages", "args"),
    [
        ([ITEM, {"type": "function_call_output", "call_id": "1", "output": '{"seen": true}'}], {}),
        (
            [
                {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]},
                {"type": "custom_tool_call", "call_id": "1", "name": "look", "input": '{"at": 1}'},
                {"type": "custom_tool_call_output", "call_id": "1", "output": '{"seen": true}'},
            ],
            {"__arg1": '{"at": 1}'},
        ),
        (
            [
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": "1", "type": "custom", "custom": {"name": "look", "input": "moon"}}],
                },
                {"role": "tool", "tool_call_id": "1", "content": '{"seen": true}'},
            ],
            {"__arg1": "moon"},
        ),
        (
            [
                {"role": "model", "parts": [{"functionCall": {"id": "1", "name": "look", "args": {}}}]},
                {"role": "user", "parts": [{"functionResponse": {"id": "1", "response": {"seen": True}}}]},
            ],
            {},
        ),
        (
            [
                {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "look", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": '{"seen": true}'}]},
            ],
            {},
        ),
    ],
)
def test_calls_and_results_in_the_formats_of_other_sdks_are_read(messages: list[Any], args: dict[str, Any]) -> None:
    output = read_output({"messages": [{"role": "user", "content": "hi"}, *messages, OK]}, is_stream=False)

    assert output["predicted_trajectory"] == [{"id": "1", "name": "look", "args": args}]
    assert output["tool_responses"] == [{"id": "1", "name": "look", "response": {"seen": True}}]
    assert output["response"] == "done"


def test_a_call_in_the_old_function_call_field_is_read() -> None:
    message = {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}}

    output = read_output({"messages": [message, OK]}, is_stream=False)

    assert [call["name"] for call in output["predicted_trajectory"]] == ["look"]


def test_thoughts_and_messages_with_role_and_type_are_read() -> None:
    content = [{"text": "hm", "thought": True}, {"type": "output_text", "text": "done"}]

    output = read_output({"messages": [{"type": "message", "role": "assistant", "content": content}]}, is_stream=False)

    assert output["response"] == "done"


@pytest.mark.parametrize(
    "block",
    [
        {"type": "invoke", "tool": "look", "input": {}},
        {"type": "invoke", "tool": "look"},
        {"type": "run", "name": "look"},
        {"type": "tool_request", "value": 1},
        {"run": {"name": "look"}},
        {"text": "done", "tool_request": {"a": 1}},
    ],
)
def test_a_block_that_looks_like_a_call_of_an_unknown_kind_is_an_error(block: dict[str, Any]) -> None:
    message = {"type": "ai", "content": [block, {"type": "text", "text": "done"}]}

    keys = ", ".join(sorted(block))
    with pytest.raises(AgentFault, match=f"a dict with the keys {keys} in its content"):
        read_output({"messages": [message]}, is_stream=False)


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"content": "x", "tools_used": ["look"]}, r"messages\[0\].tools_used"),
        ({"content": "x", "toolInvocations": [{"toolName": "look"}]}, r"messages\[0\].toolInvocations"),
        ({"content": {"text": "x"}}, r"messages\[0\]"),
    ],
)
def test_a_message_that_may_hold_calls_in_other_fields_is_an_error(fields: dict[str, Any], place: str) -> None:
    with pytest.raises(AgentFault, match=place):
        read_output({"messages": [{"role": "assistant", **fields}]}, is_stream=False)


@pytest.mark.parametrize(
    "block",
    [
        {"type": "file", "name": "a.pdf", "id": "1"},
        {"document": {"name": "a", "format": "pdf"}},
        {"type": "web_search_tool_result", "tool_use_id": "1", "content": []},
        {"type": "reasoning", "summary": []},
        {"type": "something_new", "data": 1},
    ],
)
def test_other_blocks_of_content_are_not_calls(block: dict[str, Any]) -> None:
    message = {"type": "ai", "content": [block, {"type": "text", "text": "done"}]}

    output = read_output({"messages": [message]}, is_stream=False)

    assert (output["predicted_trajectory"], output["response"]) == ([], "done")


def test_the_result_of_a_tool_is_never_read_as_a_call() -> None:
    result = {"type": "tool", "tool_call_id": "1", "content": [{"name": "Ann", "tool": "saw", "input": 1}]}

    output = read_output({"messages": [CALL, result, OK]}, is_stream=False)

    assert [call["name"] for call in output["predicted_trajectory"]] == ["look"]


def test_calls_in_both_a_field_and_the_content_count_once() -> None:
    call = {"id": "1", "name": "look", "args": {}}
    message = {**CALL, "tool_calls": [call], "content": [{"type": "tool_use", "id": "1", "name": "look", "input": {}}]}

    output = read_output({"messages": [message]}, is_stream=False)

    assert output["predicted_trajectory"] == [call]


@pytest.mark.needs_fork
async def test_an_agent_with_sessions_but_without_a_stream_is_reported(bench: Any, create_host: Any) -> None:
    bench.agent("""
        class answer:
            def create_session(self, user_id): return {"id": "s"}
            async def async_query(self, input): return input
    """)

    talk = await bench.talk(create_host(), "hi")

    assert talk.error.failure.kind is FailureKind.SETUP
    assert talk.message == "the agent has create_session and no async_stream_query, expected both or query"


@pytest.mark.needs_fork
async def test_an_object_without_query_is_reported_with_the_expected_methods(bench: Any, create_host: Any) -> None:
    bench.agent("class answer: pass")

    talk = await bench.talk(create_host(), "hi")

    assert talk.error.failure.kind is FailureKind.SETUP
    assert talk.message.startswith("agent:answer() is an agent.answer, expected an object with query, async_query")


@pytest.mark.needs_fork
@pytest.mark.needs_vertex
@pytest.mark.needs_adk
async def test_googles_own_template_for_adk_keeps_its_session(bench: Any, create_host: Any) -> None:
    bench.agent("""
        import vertexai
        from google.adk.agents import LlmAgent
        from google.adk.models import BaseLlm, LlmResponse
        from google.auth.credentials import AnonymousCredentials
        from google.genai import types
        from vertexai.agent_engines import AdkApp

        vertexai.init(project="p", location="us-central1", credentials=AnonymousCredentials())

        class Model(BaseLlm):
            model: str = "made-up"

            async def generate_content_async(self, llm_request, stream=False):
                answered = llm_request.contents[-1].parts[0].function_response
                call = types.FunctionCall(name="count", args={"n": 2})
                part = types.Part(text="counted") if answered else types.Part(function_call=call)
                usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=1, total_token_count=1)
                yield LlmResponse(content=types.Content(role="model", parts=[part]), usage_metadata=usage)

        def count(n: int, tool_context) -> dict:
            tool_context.state["count"] = tool_context.state.get("count", 0) + n
            return {"count": tool_context.state["count"]}

        answer = AdkApp(agent=LlmAgent(name="counter", model=Model(), tools=[count]))
    """)

    talk = await bench.talk(create_host(), "go", "on", state={"count": 1})

    assert talk.error is None, talk.message
    assert talk.responses == ["counted", "counted"]
    assert [get_results(turn) for turn in talk.turns] == [[{"count": 3}], [{"count": 5}]]
    assert talk.turns[0].usage.total == 2
    assert talk.end.final_state == {"count": 5}


def make_server_answer(methods: dict[str, list[str]], answer: Callable[[str, dict[str, Any]], Any]) -> Answer:
    """Return the answers of an Agent Engine server; its agent has `methods` with these parameters."""

    def say(call: Call) -> HttpResponse:
        if call.path == f"/v1/{RESOURCE}":
            class_methods = [
                {"name": name, "api_mode": "", "parameters": {"properties": {key: {} for key in names}}}
                for name, names in methods.items()
            ]
            return HttpResponse({"name": RESOURCE, "spec": {"agentFramework": "custom", "classMethods": class_methods}})
        assert call.path.startswith(f"/v1/{RESOURCE}:"), call.path
        result = answer(call.body["classMethod"], call.body["input"])
        if isinstance(result, HttpResponse):
            return result
        if call.path.endswith(":streamQuery?alt=sse"):
            return HttpResponse("".join(f"data: {json.dumps(chunk)}\n\n" for chunk in result))
        return HttpResponse({"output": result})

    return say


def make_target_options(bench: Any, server: Server, **variables: str) -> dict[str, Any]:
    """Return options of a target that uses the server with a key from its `.env`."""
    defaults = {"GOOGLE_VERTEX_BASE_URL": server.url, "GOOGLE_API_KEY": "key-1", "GOOGLE_GENAI_USE_VERTEXAI": "1"}
    lines = "\n".join(f"{name}={value}" for name, value in {**defaults, **variables}.items())
    return {"location": RESOURCE, "env_file": bench.write("vertex.env", lines)}


async def test_a_deployed_object_is_called_over_rest(bench: Any, create_host: Any, serve: Any) -> None:
    def answer(method: str, arguments: dict[str, Any]) -> Any:
        assert method == "query"
        return {"output": f"saw {arguments['input']}", "intermediate_steps": STEPS}

    server = serve(make_server_answer({"query": ["input"]}, answer))
    host = create_host(**make_target_options(bench, server))

    first = await bench.talk(host, "it", "more")
    second = await bench.talk(host, "again")

    assert first.error is None, first.message
    assert (first.responses, second.responses) == (["saw it", "saw more"], ["saw again"])
    assert get_calls(first.turns[0]) == [("look", {"at": "moon"})]
    assert get_results(first.turns[0]) == [{"seen": True}]
    assert [call.path.rpartition("/")[2] for call in server.calls] == ["7", "7:query", "7:query", "7:query"]
    assert {call.headers["x-goog-api-key"] for call in server.calls} == {"key-1"}


async def test_a_deployed_app_of_adk_streams_events(bench: Any, create_host: Any, serve: Any) -> None:
    requests = []

    def answer(method: str, arguments: dict[str, Any]) -> Any:
        requests.append((method, arguments))
        if method == "async_create_session":
            return {"id": "session-9", "state": arguments.get("state", {})}
        call = {"id": "c", "name": "look", "args": {"at": arguments["message"]}}
        return [
            {"author": "a", "content": {"parts": [{"text": "hm"}, {"function_call": call}]}},
            {
                "author": "a",
                "content": {"parts": [{"function_response": {"id": "c", "name": "look", "response": {"seen": 1}}}]},
                "actions": {"state_delta": {"seen": 1, "temp:x": 2}},
            },
            {"author": "b", "partial": True, "content": {"parts": [{"text": "do"}]}},
            {"author": "b", "content": {"parts": [{"text": "done"}]}, "usage_metadata": {"total_token_count": 9}},
        ]

    methods = {
        "async_create_session": ["user_id", "state"],
        "async_stream_query": ["message", "user_id", "session_id"],
        "stream_query": ["message", "user_id", "session_id"],
    }
    host = create_host(**make_target_options(bench, serve(make_server_answer(methods, answer))))

    talk = await bench.talk(host, "sun", "moon", state={"seen": 0})

    assert talk.error is None, talk.message
    assert talk.responses == ["done", "done"]
    assert get_calls(talk.turns[1]) == [("look", {"at": "moon"})]
    assert [item.author for item in talk.turns[0].invocation.intermediate_data.intermediate_responses] == ["a"]
    assert talk.turns[0].usage.total == 9
    assert talk.end.final_state == {"seen": 1}
    session = {"user_id": "user", "session_id": "session-9"}
    assert requests == [
        ("async_create_session", {"user_id": "user", "state": {"seen": 0}}),
        ("async_stream_query", {**session, "message": "sun"}),
        ("async_stream_query", {**session, "message": "moon"}),
    ]


@pytest.mark.parametrize(
    ("said", "kind", "message"),
    [
        (HttpResponse({"error": {"message": "quota"}}, status=429), FailureKind.INFRASTRUCTURE, "with HTTP 429: quota"),
        (HttpResponse("<html>down</html>", status=503), FailureKind.INFRASTRUCTURE, "with HTTP 503: <html>down</html>"),
        (
            HttpResponse({"error": {"message": "KeyError: 'x'"}}, status=400),
            FailureKind.AGENT,
            "with HTTP 400: KeyError: 'x'",
        ),
        (HttpResponse({"error": {"message": "not you"}}, status=403), FailureKind.SETUP, "refuses access to"),
        (HttpResponse({"error": {"message": "gone"}}, status=404), FailureKind.SETUP, f"there is no agent {RESOURCE}"),
        (HttpResponse("<html>hi</html>"), FailureKind.AGENT, "answered <html>hi</html>, expected JSON"),
        (HttpResponse({"output": {"other": 1}}), FailureKind.AGENT, "the agent returned a dict with the keys other"),
    ],
)
async def test_failures_of_deployed_agents_are_distinguished(
    bench: Any, create_host: Any, serve: Any, said: HttpResponse, kind: FailureKind, message: str
) -> None:
    server = serve(make_server_answer({"query": ["input"]}, lambda *_: said))

    talk = await bench.talk(create_host(**make_target_options(bench, server)), "hi")

    assert talk.error.failure.kind is kind
    assert message in talk.message
    assert talk.error.failure.traceback is None


async def test_an_unreachable_service_is_an_infrastructure_error(bench: Any, create_host: Any, serve: Any) -> None:
    with run_server(lambda _: HttpResponse({})) as server:
        options = make_target_options(bench, server)

    talk = await bench.talk(create_host(**options), "hi")

    assert talk.error.failure.kind is FailureKind.INFRASTRUCTURE
    assert "cannot be reached: ConnectError" in talk.message


async def test_missing_credentials_are_reported_with_what_to_set(
    bench: Any, create_host: Any, serve: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # a home folder without a login
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    server = serve(make_server_answer({"query": ["input"]}, lambda *_: "x"))
    options = make_target_options(bench, server, GOOGLE_API_KEY="", NO_GCE_CHECK="true")

    talk = await bench.talk(create_host(**options), "hi")

    assert talk.error.failure.kind is FailureKind.SETUP
    assert talk.message.startswith(
        f"the agent {RESOURCE} needs credentials of Google Cloud: set GOOGLE_APPLICATION_CRE"
    )
    assert server.calls == []


async def test_a_service_account_gets_a_token_and_uses_it(bench: Any, create_host: Any, serve: Any) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    say = make_server_answer({"query": ["input"]}, lambda *_: "x")
    token_answer = HttpResponse({"access_token": "token-5", "expires_in": 3600, "token_type": "Bearer"})
    server = serve(lambda call: token_answer if call.path == "/token" else say(call))
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    account = {
        "type": "service_account",
        "client_email": "a@b.c",
        "private_key": pem,
        "token_uri": f"{server.url}/token",
    }
    file = bench.write("account.json", json.dumps(account))
    options = make_target_options(bench, server, GOOGLE_API_KEY="", GOOGLE_APPLICATION_CREDENTIALS=str(file))

    talk = await bench.talk(create_host(**options), "hi", "ho")

    assert talk.error is None, talk.message
    assert [call.path.rpartition("/")[2] for call in server.calls] == ["token", "7", "7:query", "7:query"]
    assert {call.headers["authorization"] for call in server.calls[1:]} == {"Bearer token-5"}


@pytest.mark.parametrize("stream", [False, True])
async def test_too_many_tool_calls_are_cut_and_not_judged(bench: Any, create_host: Any, stream: bool) -> None:
    bench.agent("""
        STEPS = [[{"kwargs": {"tool": "look", "tool_input": {"at": at}}}, "seen"] for at in range(12_000)]

        class Agent:
            def query(self, *, input):
                return {"output": "at last", "intermediate_steps": STEPS}

        class App:
            def create_session(self, *, user_id, **options):
                return {"id": "s"}

            def stream_query(self, *, user_id, session_id, message):
                for at in range(12_000):
                    call = {"function_call": {"name": "look", "args": {"at": at}}}
                    yield {"author": "a", "content": {"parts": [call]}}
                yield {"author": "a", "content": {"parts": [{"text": "at last"}]}}

        asked, streamed = Agent(), App()
    """)

    talk = await bench.talk(create_host(location="agent:streamed" if stream else "agent:asked"), "look")

    assert talk.error is None, talk.message
    assert talk.responses == ["at last"]
    assert [args["at"] for _, args in get_calls(talk.turns[0])] == list(range(10_000))
    assert talk.turns[0].calls_unknown == "the agent made 12,000 tool calls in one turn; only the first 10,000 are kept"
