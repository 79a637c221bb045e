"""Model calls of ADK agents, recorded and replayed at the interface of ADK's models."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.engine.project import Project, find_result, turn
from tests.llm.servers import Call, HttpResponse, openai, run_server
from workbench.engine.workspace import Workspace
from workbench.model.results import ModelCalls
from workbench.model.target import ModelMode
from workbench.model.trace import SpanKind

pytest.importorskip("google.adk")
pytestmark = [pytest.mark.needs_fork, pytest.mark.prepared("adk")]

AGENT = """
import os
from google.adk.agents import Agent
os.environ.update(GOOGLE_GEMINI_BASE_URL="{url}", GOOGLE_API_KEY="AIzaSyAveryverysecretkey0123456789abcd")

def roll(sides: int) -> int:
    "Roll a die."
    return 4

root_agent = Agent(name="dice", model={model}, instruction="You roll dice.\\nBe nice.", tools=[roll])
"""
OWN = """
from google.adk.models import BaseLlm, LlmResponse
from google.genai import types
class Own(BaseLlm):
    async def generate_content_async(self, request, stream=False):
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="own")]))
"""


def answer(call: Call) -> HttpResponse:
    """Call the tool once, then answer, with a signature in bytes."""
    has_rolled = any("functionResponse" in part for content in call.body["contents"] for part in content["parts"])
    part: dict[str, Any] = {"functionCall": {"name": "roll", "args": {"sides": 6}}, "thoughtSignature": "AAH/"}
    candidate = {"content": {"role": "model", "parts": [{"text": "It is 4."} if has_rolled else part]}}
    usage = {"promptTokenCount": 5, "candidatesTokenCount": 2, "totalTokenCount": 7}
    return HttpResponse({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m"})


@pytest.fixture
def adk(project: Project) -> Project:
    folder = project.root / "dice"
    folder.mkdir()
    (folder / "__init__.py").write_text("from . import agent\n")
    (folder / "test_config.json").write_text('{"criteria": {"tool_trajectory_avg_score": 0.0}}')
    cases = [{"eval_id": "a", "conversation": [turn("Roll.")]}]
    (folder / "d.evalset.json").write_text(json.dumps({"eval_set_id": "d", "eval_cases": cases}))
    (project.root / "workbench.toml").write_text("")
    return project


def write_agent(project: Project, url: str, *, model: str = '"gemini-2.5-flash"', more: str = "") -> None:
    (project.root / "dice" / "agent.py").write_text(more + AGENT.format(url=url, model=model))


def run(project: Project, **options: Any) -> Any:
    from workbench.engine.plan import Selection

    workspace: Workspace = project.open_workspace()
    return project.run(Selection(eval_set="dice/d.evalset.json"), workspace=workspace, **options)


def get_calls(run: Any) -> ModelCalls:
    calls = find_result(run, "a").execution.model_calls
    assert calls is not None
    return calls


def test_calls_of_adk_are_replayed_with_everything_that_they_hold(adk: Project) -> None:
    with run_server(answer) as server:
        write_agent(adk, server.url)

        first = run(adk, models=ModelMode.AUTO)
        second = run(adk, models=ModelMode.AUTO)

        assert len(server.calls) == 2
    assert (get_calls(first).live, get_calls(second).replayed) == (2, 2)
    before, after = (find_result(each, "a").execution for each in (first, second))
    assert before.turns[0].usage == after.turns[0].usage
    events = [
        each.turns[0].invocation.intermediate_data.model_dump(exclude={"invocation_events": {"__all__": {"id"}}})
        for each in (before, after)
        if each.turns[0].invocation.intermediate_data is not None
    ]
    assert "thought_signature" in json.dumps(events[0], default=str)
    spans = [span for span in after.spans if span.kind is SpanKind.MODEL]
    assert [span.simulator for span in spans] == ["replayed", "replayed"]
    assert [span.simulator for span in before.spans if span.kind is SpanKind.MODEL] == [None, None]


def test_calls_of_an_agent_that_hands_over_are_replayed(adk: Project) -> None:
    def transfer(call: Call) -> HttpResponse:
        tools = json.dumps(call.body.get("tools", []))
        part: dict[str, Any] = {"text": "I am the helper."}
        if "helper" in tools:
            part = {"functionCall": {"name": "transfer_to_agent", "args": {"agent_name": "helper"}}}
        return HttpResponse({"candidates": [{"content": {"role": "model", "parts": [part]}}], "modelVersion": "m"})

    team = (
        'helper = Agent(name="helper", model={model}, description="Helps.")\nroot_agent = Agent(sub_agents=[helper], '
    )
    with run_server(transfer) as server:
        code = AGENT.replace("root_agent = Agent(", team).format(url=server.url, model='"gemini-2.5-flash"')
        (adk.root / "dice" / "agent.py").write_text(code)

        first = run(adk, models=ModelMode.AUTO)
        second = run(adk, models=ModelMode.AUTO)

        assert len(server.calls) == 2
    assert (get_calls(first).live, get_calls(second).replayed) == (2, 2)


def test_a_changed_instruction_is_named_with_its_line(adk: Project) -> None:
    with run_server(answer) as server:
        write_agent(adk, server.url)
        run(adk, models=ModelMode.AUTO)
        path = adk.root / "dice" / "agent.py"
        path.write_text(path.read_text().replace("Be nice.", "Be brief."))

        changed = run(adk, models=ModelMode.AUTO)

    assert str(get_calls(changed).difference) == (
        'model call 1 differs from the recording: instruction, line 2 changed: "Be nice." became "Be brief."'
    )


def test_another_endpoint_is_another_request(adk: Project) -> None:
    with run_server(answer) as server, run_server(answer) as other:
        write_agent(adk, server.url)
        run(adk, models=ModelMode.AUTO)
        write_agent(adk, other.url)

        changed = run(adk, models=ModelMode.AUTO)

        assert len(other.calls) == 2
    assert "endpoint" in str(get_calls(changed).difference)


@pytest.mark.parametrize("options", [{}, {"fresh": True}, {"models": ModelMode.AUTO}], ids=str)
def test_a_model_of_the_project_is_asked_unless_a_file_is_replayed(adk: Project, options: dict[str, Any]) -> None:
    write_agent(adk, "http://localhost", model='Own(model="own")', more=OWN)
    path = adk.root / "calls.jsonl"

    automatic = run(adk, models=ModelMode.AUTO)
    recorded = run(adk, record=path, **options)
    write_agent(adk, "http://localhost", model='Own(model="own")', more=OWN.replace('text="own"', 'text="new"'))
    replayed = run(adk, replay=path)

    assert get_calls(automatic) == ModelCalls()
    assert get_calls(recorded).live == 1
    response = find_result(replayed, "a").execution.turns[0].invocation.final_response
    assert response is not None and response.text() == "own"


IN_THREAD = """
import asyncio, concurrent.futures, httpx, threading
from google.adk.models import BaseLlm, LlmResponse
from google.genai import types

pool = concurrent.futures.ThreadPoolExecutor(1)

def ask(done):
    done.append(httpx.post("{url}/v1/chat/completions", json={{"model": "m", "messages": []}}).json())

async def ask_in_pool():
    done = []
    await asyncio.get_running_loop().run_in_executor(pool, ask, done)
    return done

async def ask_in_thread():
    done = []
    thread = threading.Thread(target=ask, args=(done,))
    thread.start()
    thread.join()
    return done

class Own(BaseLlm):
    async def generate_content_async(self, request, stream=False):
        said = (await {ask}())[0]["choices"][0]["message"]["content"]
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=said)]))
"""


@pytest.mark.parametrize("ask", ["ask_in_pool", "ask_in_thread"])
def test_what_a_model_of_adk_asks_in_a_thread_is_one_call(adk: Project, ask: str) -> None:
    path = adk.root / "calls.jsonl"
    with run_server(lambda _: openai("said")) as server:
        write_agent(adk, server.url, model='Own(model="own")', more=IN_THREAD.format(url=server.url, ask=ask))
        recorded = run(adk, record=path)
        replayed = run(adk, replay=path)

    assert [len(path.read_text().splitlines()), len(server.calls)] == [2, 1]
    assert (get_calls(recorded).live, get_calls(replayed).live, get_calls(replayed).replayed) == (1, 0, 1)


def test_no_key_of_an_adk_agent_is_recorded(adk: Project) -> None:
    path = adk.root / "calls.jsonl"
    with run_server(answer) as server:
        write_agent(adk, server.url)
        run(adk, record=path)

    assert "GENERATE" in path.read_text()
    assert "AIza" not in path.read_text()
