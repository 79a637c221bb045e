"""The chat pane, by keys, with real agents in real processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import TextArea

from tests.processes import is_running
from tests.tui.panes.chat_pane.talking import case, get_draft, open_chat, say
from workbench.tui.panes.chat_pane import ChatPane, Prompt
from workbench.tui.screen_context import SessionWanted


async def test_a_conversation_is_shown_with_calls_tokens_and_time(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await open_chat(screen)
        assert isinstance(screen.app.focused, Prompt)

        await say(screen, "hello")
        await screen.until("hello makes 1", "→ add  to=1", "12 tokens")
        await say(screen, "again")

        await screen.until("again makes 2", "2 turns · 24 tokens")


async def test_the_view_follows_the_end_until_the_user_scrolls_up(project: Path, open_app: Any) -> None:
    async with open_app(project, size=(44, 20)) as screen:  # the greeting is longer than the pane
        await screen.until("one")
        await screen.press("j", "j", "6")
        await screen.until("type a message")
        for word in ("one", "two", "three"):
            await say(screen, word)
            await screen.until(f"{word} makes")
        await screen.pilot.resize_terminal(44, 17)
        await screen.until("three makes 3")

        await say(screen, "slow")
        await screen.until("turn 4")  # sending a message goes to the end
        await screen.press("shift+tab", "g")
        await screen.until("4 turns · 48 tokens", "turn 1")
        assert "slow makes 4" not in screen.text

        await screen.press("G", "tab")
        await say(screen, "five")
        await screen.until("five makes 5")


async def test_a_message_stays_in_its_input_while_its_agent_is_away(project: Path, open_app: Any) -> None:
    settings = project / "workbench.toml"
    before = settings.read_text()
    async with open_app(project) as screen:
        await open_chat(screen)
        await screen.press("h", "i")
        settings.write_text(before.replace("targets.pinger", "targets.other"))
        screen.app.screen.action_reload()
        await screen.until("▾ other")
        await screen.press("R", "D", "d")
        assert get_draft(screen) == "hiRDd"
        await screen.press("enter")
        await screen.until("pinger")

        settings.write_text(before)
        screen.app.screen.action_reload()
        await screen.until("▾ pinger")
        assert isinstance(screen.app.focused, Prompt)
        assert screen.state.progress is None


async def test_keys_insert_new_lines_and_recall_earlier_prompts(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await open_chat(screen)
        await screen.press("a", "ctrl+j", "b")
        assert get_draft(screen) == "a\nb"
        await screen.press("enter")
        await screen.until("makes 1")

        await screen.press("t", "y", "p", "e", "d", "up")
        assert get_draft(screen) == "a\nb"
        await screen.press("down")

        assert get_draft(screen) == "typed"


async def test_a_stopped_turn_returns_its_prompt_to_the_input(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await open_chat(screen)
        await say(screen, "hello")
        await screen.until("hello makes 1")
        await say(screen, "hang")
        await screen.until("waiting for the agent")

        await screen.press("ctrl+g")

        await screen.until("stopped after", "the session is over")
        assert get_draft(screen) == "hang"
        # The prompt is replaced: the earlier turns are replayed first, so that the session is the same.
        await screen.press("ctrl+a", "ctrl+k", "x", "enter")
        await screen.until("hello makes 1", "x makes 2")


@pytest.mark.parametrize(("prompt", "message"), [("die", "exit status 7"), ("raise", "ValueError: x [/foo] [bold]")])
async def test_a_crash_of_the_agent_loses_no_typed_text(
    project: Path, open_app: Any, prompt: str, message: str
) -> None:
    async with open_app(project) as screen:
        await open_chat(screen)
        await say(screen, prompt)

        await screen.until(message, "the session is over")

        assert get_draft(screen) == prompt


async def test_an_outage_is_an_error_of_its_turn_and_a_retry_repeats_all_turns(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await open_chat(screen)
        await say(screen, "hello")
        await screen.until("hello makes 1")
        await say(screen, "flaky")
        await screen.until("infrastructure error", "retry repeats all messages")
        (project / "mended").touch()

        await screen.press("ctrl+r")

        await screen.until("hello makes 1", "flaky makes 2")
        assert get_draft(screen) == ""


async def test_a_new_session_runs_new_code_and_asks_before_it_discards_turns(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await open_chat(screen)
        await say(screen, "hello")
        await screen.until("hello makes 1")
        (project / "agent.py").write_text("def answer(prompt): return prompt + ' from the new code'")

        await screen.press("ctrl+n")
        await screen.until("1 turn of it will be lost")
        await screen.press("n")
        await screen.until("hello makes 1")
        await screen.press("ctrl+n", "y")
        await screen.until("Talk to pinger")
        await say(screen, "hello")

        await screen.until("hello from the new code")


async def test_a_draft_stays_while_another_row_or_tab_is_open(project: Path, open_app: Any) -> None:
    with (project / "workbench.toml").open("a") as file:
        file.write('[targets.zebra]\nkind = "function"\ntarget = "agent:answer"\neval_sets = ["z/*.evalset.json"]\n')
    (project / "z").mkdir()
    (project / "z" / "z.evalset.json").write_text(json.dumps({"eval_set_id": "z", "eval_cases": [case("zz", "hi")]}))
    async with open_app(project) as screen:
        await open_chat(screen)
        await screen.press("d", "r", "a", "f", "t", "escape", "G")
        await screen.until("Talk to zebra")
        assert get_draft(screen) == ""
        await screen.press("1", "escape", "g", "6")
        await screen.until("Talk to pinger")

        assert get_draft(screen) == "draft"


async def test_a_conversation_continues_while_another_row_or_tab_is_open(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await open_chat(screen)
        await say(screen, "hello")
        await screen.press("escape", "1")
        await screen.until_gone("hello")

        await screen.press("6")

        await screen.until("hello makes 1")


async def test_the_start_of_a_session_can_be_edited_until_the_first_message(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await open_chat(screen)
        await screen.press("f2")
        await screen.until("How the session starts")
        screen.app.screen.query_one(TextArea).focus()
        await screen.press(*'{"count":', "ctrl+s")
        await screen.until("How the session starts", "line 1, column")
        await screen.press(*"99}", "ctrl+s")
        await screen.until('"count": 99')
        await screen.press("f2", "escape")
        await say(screen, "hello")
        await screen.until("hello makes 100")

        await screen.press("f2")

        await screen.until("the session has begun")


async def test_the_turns_of_a_case_are_sent_and_the_user_continues_the_chat(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await open_chat(screen)

        await screen.press("ctrl+l")
        await screen.until("first of the case makes 41", "second of the case makes 42")
        await say(screen, "more")

        await screen.until("more makes 43")


async def test_a_chat_that_was_never_saved_has_a_trace(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await open_chat(screen)
        await say(screen, "hello")
        await screen.until("hello makes 1")

        await screen.press("ctrl+t")
        await screen.until("chat 1 with pinger")

        wanted = next(message for message in screen.messages if isinstance(message, SessionWanted))
        result = wanted.pinned.result
        assert (result.case.target, result.case.eval_set, result.status) == ("pinger", "", "NOT_EVALUATED")
        assert [span.name for span in result.execution.spans] == ["answer", "add"]
        assert result.execution.final_state == {"count": 1}
        await screen.press("j", "j", "j")  # keys go to the visible view, not to the hidden input
        await screen.until("tool call 1 of this turn")


async def test_a_click_selects_a_turn_and_copying_takes_its_answer(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await open_chat(screen)
        await say(screen, "alpha")
        await screen.until("alpha makes 1")
        await say(screen, "beta")
        await screen.until("beta makes 2")
        pane = screen.app.screen.query_one(ChatPane)
        assert pane.copyable() == "beta makes 2"

        await screen.pilot.click("#chat-talk", offset=(2, 0))

        assert pane.copyable() == "alpha makes 1"
        await screen.press("i")
        assert isinstance(screen.app.focused, Prompt)


async def test_quitting_ends_the_process_of_the_agent(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await open_chat(screen)
        await say(screen, "hang")
        await screen.until("waiting for the agent")
        for _ in range(500):
            if (project / "pid").exists() and (project / "pid").read_text():
                break
            await screen.pilot.pause(0.02)
        pid = int((project / "pid").read_text())

    assert not is_running(pid)


@pytest.mark.needs_adk
async def test_a_tool_of_an_adk_agent_is_shown_while_it_works(make_project: Any, open_app: Any) -> None:
    path: Path = make_project(lights=[])
    (path / "slow").mkdir()
    (path / "slow" / "__init__.py").touch()
    (path / "slow" / "agent.py").write_text(ADK_AGENT)
    async with open_app(path) as screen:
        await screen.until("slow")
        await screen.press("G", "6")
        await screen.until("Talk to slow")
        await say(screen, "go")

        await screen.until('→ wait_for  name="let_go"', "… running")
        (path / "let_go").touch()

        await screen.until('← {"found": "let_go"}', "all done")


ADK_AGENT = '''
import asyncio
from pathlib import Path
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.genai import types

HERE = Path(__file__).parent.parent

class Scripted(BaseLlm):
    model: str = "script"

    async def generate_content_async(self, llm_request, stream=False):
        last = llm_request.contents[-1].parts[-1]
        if last.function_response:
            part = types.Part(text="all done")
        else:
            part = types.Part(function_call=types.FunctionCall(name="wait_for", args={"name": "let_go"}))
        yield LlmResponse(content=types.Content(role="model", parts=[part]))

async def wait_for(name: str) -> dict:
    """Wait for a file."""
    while not (HERE / name).exists():
        await asyncio.sleep(0.02)
    return {"found": name}

root_agent = LlmAgent(name="slow", model=Scripted(), tools=[wait_for])
'''
