"""A turn of an ADK agent is reported completely: calls, answers, state, counts and errors."""

from __future__ import annotations

import logging
import re

import pytest

from tests.agents.worker.adapters.adk.conftest import Agents
from workbench.agents.worker.adapters.base import AgentFault
from workbench.metrics.case_view import Turn
from workbench.metrics.judges.transcript import format_instructions
from workbench.model.evalset import InvocationEvents
from workbench.model.trace import get_trajectory
from workbench.simulation.users import format_history

pytestmark = pytest.mark.needs_adk


async def test_calls_answers_and_counts_of_a_turn_are_reported(agents: Agents) -> None:
    conversation = await agents.talk_to(
        """
        def add(a: int, b: int) -> dict:
            return {"sum": a + b}

        root_agent = llm_agent("root", [call("add", a=1, b=2), call("add", a=3, b=4)], "3 and 7", tools=[add])
        """,
        "add",
    )

    assert conversation.calls == [("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})]
    assert conversation.text == "3 and 7"
    turn = conversation.turns[0]
    assert turn.inference_calls == 2
    assert turn.usage is not None
    assert (turn.usage.prompt, turn.usage.candidates, turn.usage.total, turn.usage.thoughts) == (20, 4, 24, None)
    assert turn.duration_seconds > 0
    assert turn.invocation.invocation_id.startswith("e-")


async def test_a_null_argument_differs_from_an_absent_one(agents: Agents) -> None:
    conversation = await agents.talk_to(
        """
        def look(place: str, day: str | None = None) -> dict:
            return {"when": day}

        root_agent = llm_agent("root", [call("look", place="here", day=None)], "done", tools=[look])
        """,
        "look",
    )

    assert conversation.calls == [("look", {"place": "here", "day": None})]


async def test_turns_of_a_conversation_keep_their_order(agents: Agents) -> None:
    conversation = await agents.talk_to('root_agent = llm_agent("root", "one", "two")', "a", "b")

    assert [turn.invocation.final_response.text() for turn in conversation.turns] == ["one", "two"]
    assert [turn.invocation.user_content.text() for turn in conversation.turns] == ["a", "b"]


async def test_turns_of_an_agent_without_invocation_ids_stay_separate(agents: Agents) -> None:
    conversation = await agents.talk_to(
        """
        class Echo(BaseAgent):
            async def _run_async_impl(self, ctx):
                yield Event(author=self.name, content=ctx.user_content)

        root_agent = Echo(name="echo")
        """,
        "a",
        "b",
    )

    assert [turn.invocation.final_response.text() for turn in conversation.turns] == ["a", "b"]


async def test_a_sequential_agent_keeps_its_intermediate_responses(agents: Agents) -> None:
    conversation = await agents.talk_to(
        """
        parts = [llm_agent("first", "draft"), llm_agent("second", "ok")]
        root_agent = SequentialAgent(name="root", sub_agents=parts)
        """,
        "go",
    )

    data = conversation.invocation.intermediate_data
    assert isinstance(data, InvocationEvents)
    assert [(event.author, event.content and event.content.text()) for event in data.invocation_events] == [
        ("first", "draft"),
        ("second", None),
    ]
    assert conversation.text == "ok"


async def test_a_transfer_is_a_call_and_the_sub_agent_continues_in_the_next_turn(agents: Agents) -> None:
    conversation = await agents.talk_to(
        """
        sub = llm_agent("sub", "hello from sub", "still sub", description="the other")
        root_agent = llm_agent("root", [call("transfer_to_agent", agent_name="sub")], sub_agents=[sub])
        """,
        "hi",
        "again",
    )

    first = conversation.turns[0].invocation
    assert first.final_response is not None
    assert first.final_response.text() == "hello from sub"
    assert conversation.text == "still sub"
    assert conversation.turns[0].invocation.app_details is not None
    assert list(conversation.turns[0].invocation.app_details["agent_details"]) == ["root", "sub"]
    assert format_history(conversation.turns, with_calls=False).split("\n\n") == [
        "user: hi",
        "sub: hello from sub",
        "user: again",
        "sub: still sub",
    ]


async def test_each_turn_reports_the_instructions_at_that_time(agents: Agents) -> None:
    conversation = await agents.talk_to(
        """
        def pay(amount: int, tool_context: ToolContext) -> dict:
            tool_context.state["balance"] -= amount
            return {"paid": amount}

        root_agent = llm_agent(
            "root", [call("pay", amount=30)], "Paid.", "You have 70.", tools=[pay], instruction="Balance: {balance}."
        )
        """,
        "pay 30",
        "how much is left?",
        state={"balance": 100},
    )

    details = [(turn.invocation.app_details or {})["agent_details"]["root"] for turn in conversation.turns]
    assert ["Balance: 100." in first["instructions"] for first in details] == [True, False]
    assert ["Balance: 70." in second["instructions"] for second in details] == [False, True]
    turns = [Turn(expected=None, result=result, is_row=False) for result in conversation.turns]
    text = format_instructions(turns)
    assert re.findall(r"root \((turn \d)\)|(Balance: \d+)", text) == [
        ("turn 1", ""),
        ("", "Balance: 100"),
        ("turn 2", ""),
        ("", "Balance: 70"),
    ]


async def test_state_is_passed_in_and_returned_without_temporary_keys(agents: Agents) -> None:
    conversation = await agents.talk_to(
        """
        def remember(key: str, tool_context: ToolContext) -> dict:
            tool_context.state["seen"] = tool_context.state["start"] + 1
            tool_context.state["user:name"] = key
            tool_context.state["temp:scratch"] = 1
            return {"ok": True}

        root_agent = llm_agent("root", [call("remember", key="Ana")], "noted", tools=[remember], output_key="said")
        """,
        "remember",
        state={"start": 1, "app:limit": 5},
    )

    assert conversation.state == {"start": 1, "seen": 2, "said": "noted", "app:limit": 5, "user:name": "Ana"}


async def test_sessions_with_the_same_id_share_no_state(agents: Agents) -> None:
    agents.write_agent(
        "counter",
        """
        class Counter(BaseAgent):
            async def _run_async_impl(self, ctx):
                count = ctx.session.state.get("user:count", 0) + 1
                actions = EventActions(state_delta={"user:count": count})
                yield Event(author=self.name, invocation_id=ctx.invocation_id, content=say(str(count)), actions=actions)

        root_agent = Counter(name="counter")
        """,
    )

    texts = [(await agents.talk("counter", "count", session_id="pinned")).text for _ in range(3)]

    assert texts == ["1", "1", "1"]


async def test_a_tool_that_raises_ends_the_turn_with_its_exception(agents: Agents) -> None:
    conversation = await agents.talk_to(
        """
        def broken() -> dict:
            raise ValueError("no such device")

        root_agent = llm_agent("root", "fine", [call("broken")], tools=[broken])
        """,
        "first",
        "second",
    )

    assert isinstance(conversation.error, ValueError)
    assert str(conversation.error) == "no such device"
    assert [turn.invocation.final_response.text() for turn in conversation.turns] == ["fine"]


async def test_a_tool_result_that_no_model_can_be_sent_names_the_tool(agents: Agents) -> None:
    conversation = await agents.talk_to(
        """
        import datetime, json

        class Sending(Scripted):
            async def generate_content_async(self, llm_request, stream=False):
                for content in llm_request.contents:
                    json.dumps([part.function_response.response for part in content.parts if part.function_response])
                async for answer in super().generate_content_async(llm_request, stream):
                    yield answer

        def when() -> dict:
            return {"at": datetime.date(2026, 5, 1)}

        root_agent = LlmAgent(name="root", model=Sending(answers=[[call("when")]]), tools=[when])
        """,
        "when?",
    )

    assert str(conversation.error) == (
        "no model can be sent what the tool when returned: its result.at is a datetime.date, which JSON cannot hold"
    )


@pytest.mark.parametrize(("error", "cause"), [("OSError('no server')", "no server"), ("OSError()", "OSError")])
async def test_a_toolset_that_cannot_be_loaded_ends_the_turn_with_its_cause(
    agents: Agents, error: str, cause: str
) -> None:
    conversation = await agents.talk_to(
        f"""
        from google.adk.tools.base_toolset import BaseToolset

        class Remote(BaseToolset):
            async def get_tools(self, readonly_context=None):
                raise {error}

            async def close(self):
                pass

        root_agent = llm_agent("root", "I have no tools", tools=[Remote()])
        """,
        "look",
    )

    assert isinstance(conversation.error, AgentFault)
    assert re.search(f"toolset Remote.*{cause}", str(conversation.error))


async def test_errors_that_adk_logs_and_events_that_are_only_partial_are_remarks_on_the_turn(
    agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("google_adk"), "propagate", False)  # handlers of pytest raise
    conversation = await agents.talk_to(
        """
        import logging

        from google.adk.agents import BaseAgent
        from google.adk.events import Event
        from google.genai import types

        class Streaming(BaseAgent):
            async def _run_async_impl(self, context):
                try:
                    raise OSError("no store")
                except OSError:
                    logging.getLogger("google_adk.memory").exception("Memory is not available")
                logging.getLogger("google_adk.memory").error("%s is one argument too many for this text", 1, 2)
                for text in ("It is ", "dark."):
                    yield Event(author="root", partial=True, content=types.Content(parts=[types.Part(text=text)]))

        root_agent = Streaming(name="root")
        """,
        "look",
    )

    (turn,) = conversation.turns
    assert turn.notes[0] == ("logged as an error, and the agent went on: Memory is not available: OSError: no store")
    assert turn.notes[1].startswith("the agent sent partial events only, so the turn has no response")


@pytest.mark.parametrize(
    ("texts", "count"),
    [
        (["The ", "light ", "is off."], 1),
        (["The", " light", " is off.", "The light is off."], 1),
        (["First draft.", "Second draft."], 0),
        (["The light is off."], 0),
    ],
)
async def test_pieces_that_lost_their_partial_flag_are_a_remark(agents: Agents, texts: list[str], count: int) -> None:
    conversation = await agents.talk_to(
        f"""
        from google.adk.agents import BaseAgent
        from google.adk.events import Event
        from google.genai import types

        class Streaming(BaseAgent):
            async def _run_async_impl(self, context):
                for text in {texts!r}:
                    yield Event(author="root", content=types.Content(role="model", parts=[types.Part(text=text)]))

        root_agent = Streaming(name="root")
        """,
        "look",
    )

    (turn,) = conversation.turns
    assert sum("pieces of a text as whole responses" in note for note in turn.notes) == count


@pytest.mark.parametrize("part", [{}, {"id": "of a recorded session"}])
async def test_a_turn_confirms_the_call_of_the_turn_before(agents: Agents, part: dict[str, str]) -> None:
    answer = {"name": "adk_request_confirmation", "response": {"confirmed": True}, **part}
    conversation = await agents.talk_to(
        """
        from google.adk.tools import FunctionTool

        def pay(amount: int) -> dict:
            return {"paid": amount}

        root_agent = llm_agent(
            "root", [call("pay", amount=5)], "done", tools=[FunctionTool(pay, require_confirmation=True)]
        )
        """,
        "pay 5",
        {"function_response": answer},
    )

    first, second = conversation.turns
    assert [call.name for call in get_trajectory(first.invocation)] == ["pay", "adk_request_confirmation"]
    assert '{"paid":5}' in second.invocation.model_dump_json()


@pytest.mark.parametrize(("version", "count"), [("1.39.1", 1), ("2.0.0", 0)])
async def test_a_call_that_adk_eval_does_not_count_is_a_remark(
    agents: Agents, monkeypatch: pytest.MonkeyPatch, version: str, count: int
) -> None:
    monkeypatch.setattr("google.adk.version.__version__", version)
    conversation = await agents.talk_to(
        """
        from google.adk.tools import LongRunningFunctionTool

        def ask_boss() -> None:
            pass

        root_agent = llm_agent("root", [call("ask_boss")], "done", tools=[LongRunningFunctionTool(ask_boss)])
        """,
        "look",
    )

    (turn,) = conversation.turns
    assert len(turn.notes) == count
    assert all("judges the trajectory without ask_boss, which ends the turn" in note for note in turn.notes)


async def test_a_model_that_raises_ends_the_turn_with_its_exception(agents: Agents) -> None:
    conversation = await agents.talk_to(
        """
        from google.genai.errors import ClientError

        busy = ClientError(429, {"error": {"message": "quota", "status": "RESOURCE_EXHAUSTED"}})
        root_agent = llm_agent("root", busy)
        """,
        "hi",
    )

    assert getattr(conversation.error, "code", None) == 429


@pytest.mark.parametrize(("code", "kind"), [("429", "infrastructure"), ("503", "infrastructure"), ("SAFETY", "agent")])
async def test_an_error_event_is_not_an_empty_answer(agents: Agents, code: str, kind: str) -> None:
    conversation = await agents.talk_to(
        f'root_agent = llm_agent("root", LlmResponse(error_code="{code}", error_message="try later"))', "hi"
    )

    assert isinstance(conversation.error, AgentFault)
    assert conversation.error.kind == kind
    assert f"error {code}: try later" in str(conversation.error)


async def test_an_error_event_followed_by_an_answer_is_ignored(agents: Agents) -> None:
    conversation = await agents.talk_to(
        """
        class Retrying(BaseAgent):
            async def _run_async_impl(self, ctx):
                yield Event(author=self.name, invocation_id=ctx.invocation_id, error_code="503", error_message="busy")
                yield Event(author=self.name, invocation_id=ctx.invocation_id, content=say("here you are"))

        root_agent = Retrying(name="root")
        """,
        "hi",
    )

    assert conversation.text == "here you are"


async def test_an_agent_that_yields_no_events_is_an_error(agents: Agents) -> None:
    conversation = await agents.talk_to(
        """
        class Silent(BaseAgent):
            async def _run_async_impl(self, ctx):
                return
                yield

        root_agent = Silent(name="silent")
        """,
        "hi",
    )

    assert isinstance(conversation.error, AgentFault)
    assert "yielded no events" in str(conversation.error)


async def test_a_turn_may_consist_of_calls_without_a_final_response(agents: Agents) -> None:
    conversation = await agents.talk_to(
        """
        class Acting(BaseAgent):
            async def _run_async_impl(self, ctx):
                content = types.Content(role="model", parts=[call("switch", on=True)])
                yield Event(author=self.name, invocation_id=ctx.invocation_id, content=content)

        root_agent = Acting(name="acting")
        """,
        "hi",
    )

    assert conversation.text is None
    assert conversation.calls == [("switch", {"on": True})]


async def test_a_long_running_call_is_both_the_final_response_and_a_call(agents: Agents) -> None:
    conversation = await agents.talk_to(
        """
        def approve(amount: int) -> None:
            return None

        root_agent = llm_agent("root", [call("approve", amount=5)], tools=[LongRunningFunctionTool(approve)])
        """,
        "buy",
    )

    assert conversation.calls == [("approve", {"amount": 5})]
    response = conversation.invocation.final_response
    assert response is not None
    assert response.parts is not None
    assert response.parts[0].function_call is not None


async def test_content_unknown_to_google_genai_is_reported_before_the_agent_runs(agents: Agents) -> None:
    agents.write_agent("plain", 'root_agent = llm_agent("root", "hello")')
    adapter = agents.adapter("plain")
    session = await adapter.open({"app_name": "", "user_id": "", "session_id": None, "state": {}}, lambda span: None)

    with pytest.raises(AgentFault, match="user content") as caught:
        await session.turn({"role": "user", "parts": [{"hologram": 1}]}, 0)

    assert caught.value.kind == "unsupported"


async def test_shared_plugins_are_closed_when_the_last_session_ends(agents: Agents) -> None:
    agents.write_agent(
        "shared",
        """
        class Counted(BasePlugin):
            closed = 0

            async def close(self):
                Counted.closed += 1

        class Moody(BaseAgent):
            async def _run_async_impl(self, ctx):
                if ctx.user_content.parts[0].text == "fail":
                    raise RuntimeError("no")
                yield Event(author=self.name, invocation_id=ctx.invocation_id, content=ctx.user_content)

        app = App(name="shared", root_agent=Moody(name="root"), plugins=[Counted(name="counted")])
        """,
    )
    adapter = agents.adapter("shared")
    first, failing, last = [await adapter.open({}, lambda span: None) for _ in range(3)]

    from shared.agent import Counted

    await first.close()
    with pytest.raises(RuntimeError, match="no"):
        await failing.turn({"role": "user", "parts": [{"text": "fail"}]}, 0)
    assert Counted.closed == 0
    await last.close()
    assert Counted.closed == 1


async def test_a_plugin_that_fails_to_close_prints_to_stderr_and_keeps_the_answer(
    agents: Agents, capsys: pytest.CaptureFixture[str]
) -> None:
    conversation = await agents.talk_to(
        """
        class Sticky(BasePlugin):
            async def close(self):
                raise OSError("cannot let go")

        app = App(name="sticky", root_agent=llm_agent("root", "hello"), plugins=[Sticky(name="sticky")])
        """,
        "hi",
    )

    assert conversation.text == "hello"
    assert conversation.state == {}
    assert "Failed to close plugins: 'sticky'" in capsys.readouterr().err


async def test_too_many_tool_responses_are_cut_and_not_judged(agents: Agents) -> None:
    conversation = await agents.talk_to(
        """
        class Busy(BaseAgent):
            async def _run_async_impl(self, ctx):
                given = types.Part.from_function_response(name="look", response={"found": 1})
                yield Event(author=self.name, content=types.Content(role="user", parts=[given] * 10_001))
                yield Event(author=self.name, content=say("at last"))

        root_agent = Busy(name="busy")
        """,
        "look",
    )

    assert conversation.turns[0].calls_unknown == (
        "the tools gave 10,001 responses in one turn; only the first 10,000 are kept"
    )


async def test_too_many_tool_calls_are_cut_and_not_judged(agents: Agents) -> None:
    conversation = await agents.talk_to(
        """
        class Busy(BaseAgent):
            async def _run_async_impl(self, ctx):
                for number in range(3):
                    parts = [call("look", at=number * 5000 + each) for each in range(5000)] + [types.Part(text="hm")]
                    yield Event(author=self.name, content=types.Content(role="model", parts=parts))
                yield Event(author=self.name, content=say("at last"))

        root_agent = Busy(name="busy")
        """,
        "look",
    )

    assert conversation.text == "at last"
    assert [args["at"] for _, args in conversation.calls] == list(range(10_000))
    assert conversation.turns[0].calls_unknown == (
        "the agent made 15,000 tool calls in one turn; only the first 10,000 are kept"
    )
    data = conversation.invocation.intermediate_data
    assert isinstance(data, InvocationEvents)
    assert data.invocation_events[2].content.text() == "hm"  # text next to the calls is kept


async def test_too_many_texts_end_the_turn_with_an_error(agents: Agents) -> None:
    conversation = await agents.talk_to(
        """
        class Talker(BaseAgent):
            async def _run_async_impl(self, ctx):
                for _ in range(3):
                    parts = [types.Part(text="hm")] * 50_000
                    yield Event(author=self.name, content=types.Content(role="model", parts=parts))

        root_agent = Talker(name="talker")
        """,
        "talk",
    )

    assert isinstance(conversation.error, AgentFault)
    assert "expected at most 100,000" in str(conversation.error)
