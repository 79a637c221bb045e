"""The trace of a case: nested steps with requests and responses. Tracing never disturbs the run."""

from __future__ import annotations

import json

import pytest

from tests.agents.worker.adapters.adk.conftest import TOOL_AGENT, Agents, converse
from workbench.model.trace import SpanKind

pytestmark = pytest.mark.needs_adk


async def test_model_and_tool_spans_are_inside_their_agent_with_request_and_response(agents: Agents) -> None:
    conversation = await agents.talk_to(TOOL_AGENT, "1 + 2?")

    first, second = conversation.find_spans(SpanKind.MODEL)
    assert first.name == "scripted"
    assert conversation.get_ancestors(first) == ["agent root", "invocation invocation"]
    assert first.request["config"]["system_instruction"].startswith("Add numbers.")
    assert first.request["contents"][0]["parts"][0]["text"] == "1 + 2?"
    assert first.request["config"]["tools"][0]["function_declarations"][0]["name"] == "add"
    assert first.response["content"]["parts"][0]["function_call"]["args"] == {"a": 1, "b": 2}
    assert second.response["usage_metadata"]["total_token_count"] == 12
    tool = conversation.find_span(SpanKind.TOOL, "add")
    assert conversation.get_ancestors(tool) == ["agent root", "invocation invocation"]
    assert (tool.request, tool.response, tool.error) == ({"a": 1, "b": 2}, {"sum": 3}, None)


async def test_every_span_ends_after_it_starts_and_inside_its_parent(agents: Agents) -> None:
    conversation = await agents.talk_to(TOOL_AGENT, "1 + 2?")

    by_id = {span.id: span for span in conversation.spans}
    assert len(by_id) == len(conversation.spans) == 5
    for span in conversation.spans:
        assert 0 <= span.start <= span.end
        if span.parent_id is not None:
            assert by_id[span.parent_id].start <= span.start
            assert span.end <= by_id[span.parent_id].end


async def test_spans_with_unusual_values_can_be_written_as_json(agents: Agents) -> None:
    conversation = await agents.talk_to(
        """
        import datetime

        class Thing:
            def __str__(self):
                raise RuntimeError("unprintable")

        def odd() -> dict:
            return {"when": datetime.date(2026, 1, 2), "raw": b"\\xff", "thing": Thing(), "set": {1}, 5: float("inf")}

        root_agent = llm_agent(
            "root", [call("odd")], "done", tools=[odd],
            after_tool_callback=lambda tool, args, tool_context, tool_response: {"ok": True},
        )
        """,
        "hi",
    )

    tool = conversation.find_span(SpanKind.TOOL)
    assert tool.response == {
        "when": "2026-01-02", "raw": "_w==", "thing": "<Thing>", "set": [1], "5": float("inf")
    }  # fmt: skip
    json.dumps([span.model_dump(mode="json") for span in conversation.spans])


async def test_each_span_has_the_number_of_its_turn(agents: Agents) -> None:
    conversation = await agents.talk_to('root_agent = llm_agent("root", "one", "two")', "a", "b")

    assert [span.turn for span in conversation.find_spans(SpanKind.INVOCATION)] == [0, 1]
    assert [span.parent_id for span in conversation.find_spans(SpanKind.INVOCATION)] == [None, None]


async def test_an_agent_used_as_a_tool_is_inside_the_span_of_its_tool_call(agents: Agents) -> None:
    conversation = await agents.talk_to(
        """
        def look(place: str) -> dict:
            return {"weather": "rain"}

        expert = llm_agent("expert", [call("look", place="x")], "rain", tools=[look])
        root_agent = llm_agent("root", [call("expert", request="weather?")], "it rains", tools=[AgentTool(expert)])
        """,
        "hi",
    )

    inner = conversation.find_span(SpanKind.TOOL, "look")
    ancestors = ["agent expert", "invocation invocation", "tool expert", "agent root", "invocation invocation"]
    assert conversation.get_ancestors(inner) == ancestors
    assert conversation.calls == [("expert", {"request": "weather?"})]
    assert conversation.turns[0].inference_calls == 4
    assert conversation.turns[0].usage.total == 48


async def test_concurrent_agents_used_as_tools_are_inside_their_own_calls(agents: Agents) -> None:
    conversation = await agents.talk_to(
        """
        calls = [call("expert", request="a"), call("expert", request="b")]
        expert = llm_agent("expert", "one", "two")
        root_agent = llm_agent("root", calls, "both", tools=[AgentTool(expert)])
        """,
        "hi",
    )

    tools = {span.id: span.request["request"] for span in conversation.find_spans(SpanKind.TOOL, "expert")}
    nested = [span for span in conversation.find_spans(SpanKind.INVOCATION) if span.parent_id is not None]
    assert sorted(tools.values()) == ["a", "b"]
    assert {tools[span.parent_id]: span.request["parts"][0]["text"] for span in nested} == {"a": "a", "b": "b"}


async def test_an_agent_used_as_a_tool_without_plugins_is_only_a_tool_call(agents: Agents) -> None:
    conversation = await agents.talk_to(
        """
        expert = AgentTool(llm_agent("expert", "rain"), include_plugins=False)
        root_agent = llm_agent("root", [call("expert", request="weather?")], "it rains", tools=[expert])
        """,
        "hi",
    )

    assert conversation.find_span(SpanKind.TOOL, "expert").response == "rain"
    assert [span.name for span in conversation.find_spans(SpanKind.AGENT)] == ["root"]


async def test_parallel_and_sequential_agents_are_inside_the_one_that_runs_them(agents: Agents) -> None:
    conversation = await agents.talk_to(
        """
        pair = ParallelAgent(name="pair", sub_agents=[llm_agent("left", "l"), llm_agent("right", "r")])
        root_agent = SequentialAgent(name="root", sub_agents=[llm_agent("first", "f"), pair, llm_agent("last", "z")])
        """,
        "hi",
    )

    parents = {span.name: conversation.get_ancestors(span)[0] for span in conversation.find_spans(SpanKind.AGENT)}
    assert parents == {
        "root": "invocation invocation",
        "first": "agent root",
        "pair": "agent root",
        "left": "agent pair",
        "right": "agent pair",
        "last": "agent root",
    }
    for model in conversation.find_spans(SpanKind.MODEL):
        assert conversation.get_ancestors(model)[0] == f"agent {model.attributes['agent']}"


async def test_an_agent_that_transfers_ends_before_the_other_one_starts(agents: Agents) -> None:
    conversation = await agents.talk_to(
        """
        sub = llm_agent("sub", "hello", description="the other")
        root_agent = llm_agent("root", [call("transfer_to_agent", agent_name="sub")], sub_agents=[sub])
        """,
        "hi",
    )

    root, sub = conversation.find_span(SpanKind.AGENT, "root"), conversation.find_span(SpanKind.AGENT, "sub")
    assert root.end <= sub.start
    assert conversation.get_ancestors(conversation.find_span(SpanKind.TOOL, "transfer_to_agent"))[0] == "agent root"


async def test_an_error_is_on_every_span_that_it_passed_through(agents: Agents) -> None:
    conversation = await agents.talk_to(
        """
        def broken(x: int) -> dict:
            raise ValueError("no such device")

        root_agent = llm_agent("root", [call("broken", x=1)], tools=[broken])
        """,
        "hi",
    )

    failed = {span.kind: span.error for span in conversation.spans if span.error}
    assert failed == dict.fromkeys((SpanKind.TOOL, SpanKind.AGENT, SpanKind.INVOCATION), "ValueError: no such device")
    assert conversation.find_span(SpanKind.TOOL).request == {"x": 1}


async def test_the_error_of_a_model_is_on_its_span(agents: Agents) -> None:
    conversation = await agents.talk_to('root_agent = llm_agent("root", ConnectionError("gone"))', "hi")

    model = conversation.find_span(SpanKind.MODEL)
    assert model.error == "ConnectionError: gone"
    assert model.request["contents"][0]["parts"][0]["text"] == "hi"


async def test_the_span_of_a_missing_tool_shows_the_message_to_the_model(agents: Agents) -> None:
    conversation = await agents.talk_to(
        """
        def real() -> dict:
            return {}

        root_agent = llm_agent("root", [call("imagined")], "sorry", tools=[real])
        """,
        "hi",
    )

    tool = conversation.find_span(SpanKind.TOOL, "imagined")
    assert "no tool with that name" in tool.response["error"]
    assert tool.error is not None
    assert conversation.text == "sorry"


async def test_headers_of_requests_are_not_in_the_trace(agents: Agents) -> None:
    conversation = await agents.talk_to(
        """
        config = types.GenerateContentConfig(http_options=types.HttpOptions(headers={"X-Key": "hush"}))
        root_agent = llm_agent("root", "hello", generate_content_config=config)
        """,
        "hi",
    )

    assert "hush" not in json.dumps([span.model_dump(mode="json") for span in conversation.spans])


async def test_an_error_in_tracing_costs_spans_but_never_the_run(
    agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    from workbench.agents.worker.adapters.adk.adk_tracing import Trace

    def refuse(*args: object, **options: object) -> None:
        raise RuntimeError("broken watcher")

    monkeypatch.setattr(Trace, "begin", refuse)
    conversation = await agents.talk_to(TOOL_AGENT, "1 + 2?")

    assert conversation.text == "3"
    assert conversation.spans == []


async def test_steps_are_announced_at_their_start_on_request(agents: Agents) -> None:
    conversation = await agents.talk_to(TOOL_AGENT, "1 + 2?", announce_spans=True)

    running_spans = [span for span in conversation.spans if span.is_running]
    finished_spans = {span.id: span for span in conversation.spans if not span.is_running}
    assert [span.kind for span in running_spans] == ["agent", "model", "tool", "model"]
    assert all(finished_spans[span.id].end is not None for span in running_spans)
    tool = next(span for span in running_spans if span.kind == "tool")
    assert tool.request == finished_spans[tool.id].request and tool.response is None


async def test_a_model_span_has_the_id_and_the_actions_of_its_event(agents: Agents) -> None:
    conversation = await agents.talk_to(TOOL_AGENT.replace('"3", ', '"3", output_key="sum", '), "1 + 2?")

    first, second = conversation.find_spans(SpanKind.MODEL)
    assert first.attributes["event_id"] != second.attributes["event_id"]
    assert "is_final_response" not in first.attributes and second.attributes["is_final_response"] is True
    assert second.attributes["actions"] == {"state_delta": {"sum": "3"}}


async def test_a_tool_span_has_the_state_changes_of_the_tool(agents: Agents) -> None:
    conversation = await agents.talk_to(
        """
        def note(tool_context: ToolContext) -> dict:
            tool_context.state["seen"] = 1
            return {}

        root_agent = llm_agent("root", [call("note")], "ok", tools=[note])
        """,
        "hi",
    )

    assert conversation.find_span(SpanKind.TOOL).attributes["actions"] == {"state_delta": {"seen": 1}}


async def test_the_span_of_an_invocation_describes_all_its_agents(agents: Agents) -> None:
    conversation = await agents.talk_to(
        """
        def look(place: str) -> dict:
            return {}

        expert = llm_agent("expert", tools=[look])
        pair = ParallelAgent(name="pair", sub_agents=[llm_agent("left")])
        root_agent = llm_agent("root", "hello", tools=[AgentTool(expert), look], sub_agents=[pair])
        """,
        "hi",
    )

    descriptions = conversation.find_span(SpanKind.INVOCATION).attributes["agents"]
    assert list(descriptions) == ["root", "pair", "expert", "left"]
    assert descriptions["root"] == {
        "type": "LlmAgent", "model": "scripted", "tools": ["expert", "look"], "agents": ["pair", "expert"],
        "transfers": ["pair"],
    }  # fmt: skip
    assert descriptions["pair"] == {"type": "ParallelAgent", "agents": ["left"]}
    assert descriptions["left"]["transfers"] == []  # no model is above it


async def test_concurrent_sessions_keep_their_spans_apart(agents: Agents) -> None:
    import asyncio

    agents.write_agent(
        "slow",
        """
        import asyncio

        class Slow(BaseAgent):
            async def _run_async_impl(self, ctx):
                await asyncio.sleep(0)
                yield Event(author=self.name, invocation_id=ctx.invocation_id, content=ctx.user_content)

        root_agent = SequentialAgent(name="root", sub_agents=[Slow(name="slow")])
        """,
    )
    adapter = agents.adapter("slow")

    conversations = await asyncio.gather(*(converse(adapter, f"prompt {number}") for number in range(5)))

    for number, conversation in enumerate(conversations):
        assert conversation.text == f"prompt {number}"
        assert [span.name for span in conversation.spans] == ["slow", "root", "invocation"]
