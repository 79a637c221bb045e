"""Conversations by hand with real agents in real processes: what they tell, how they end, what they leave behind."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.engine.conftest import Project
from tests.processes import is_running
from workbench.engine.chat_session import Chat, ChatError
from workbench.model.evalset import Content, SessionInput
from workbench.model.results import CaseStatus, FailureKind
from workbench.model.run_events import ChatEnded, ChatEvent, StateSeen, StepSeen, TurnAnswered, TurnBegan, TurnFailed

KEEPS_COUNT = """
import os
from pathlib import Path
def answer(prompt, session):
    Path("pid").write_text(str(os.getpid()))
    session.state["turns"] = session.state.get("turns", 0) + 1
    calls = [{"tool_name": "count", "tool_input": {"to": session.state["turns"]}}]
    return {"response": prompt.upper(), "predicted_trajectory": calls, "usage": {"total": 7}}
"""

DIES = """
import os, sys, time
def answer(prompt):
    print("last words", file=sys.stderr, flush=True)
    if prompt == "exit":
        os._exit(7)
    if prompt == "sys.exit":
        sys.exit("bye")
    if prompt == "raise":
        raise ValueError("kaboom")
    if prompt == "outage":
        raise ConnectionError("connection refused")
    if prompt == "hang":
        time.sleep(1000)
    return prompt
"""


class Listener:
    """Reads a chat as it goes on."""

    def __init__(self, chat: Chat) -> None:
        self.chat = chat
        self.heard: list[ChatEvent] = []
        self._events = chat.iter_events()

    def until(self, *kinds: type[Any]) -> Any:
        """Everything up to the next event of one of these kinds, which is returned."""
        for event in self._events:
            self.heard.append(event)
            if isinstance(event, kinds):
                return event
        raise AssertionError("the chat is over")

    def say(self, said: str) -> Any:
        self.chat.say(said)
        return self.until(StateSeen, TurnFailed)

    def rest(self) -> list[ChatEvent]:
        return list(self._events)


def chat_with(project: Project, agent: str, **given: Any) -> Listener:
    project.add_agent(agent)
    return Listener(project.workspace().chat("sample", **given))


def test_a_conversation_tells_its_story_in_order(project: Project) -> None:
    talk = chat_with(project, KEEPS_COUNT, session_input=SessionInput(state={"turns": 5}))

    state = talk.say("hello")

    kinds = [event.kind for event in talk.heard]
    # The agent is seen to begin; it, and the call that it reports, are told when it has ended.
    assert kinds == ["turn_began", "step_seen", "step_seen", "step_seen", "turn_answered", "state_seen"]
    began, first, *_, answered, _ = talk.heard
    assert isinstance(began, TurnBegan) and began.content.text() == "hello"
    assert isinstance(first, StepSeen) and first.span.is_running
    assert isinstance(answered, TurnAnswered)
    assert answered.result.invocation.final_response == Content.of_text("HELLO", role="model")
    assert answered.result.usage is not None and answered.result.usage.total == 7
    assert state.state == {"turns": 6}


def test_turns_share_a_session_and_wait_for_each_other(project: Project) -> None:
    talk = chat_with(project, KEEPS_COUNT)

    talk.chat.say("one")
    talk.chat.say("two")

    assert [talk.until(StateSeen).state for _ in range(2)] == [{"turns": 1}, {"turns": 2}]


def test_a_new_session_runs_the_code_as_it_is_then(project: Project) -> None:
    workspace = project.workspace()
    project.add_agent("def answer(prompt): return 'old'")
    old = Listener(workspace.chat("sample"))
    old.say("x")
    project.add_agent("def answer(prompt): return 'the new one'")
    new = Listener(workspace.chat("sample"))
    new.say("x")

    texts = [
        event.result.invocation.final_response.text()
        for event in (*old.heard, *new.heard)
        if isinstance(event, TurnAnswered) and event.result.invocation.final_response
    ]
    assert texts == ["old", "the new one"]


@pytest.mark.parametrize(
    ("said", "kind", "message"),
    [
        ("exit", FailureKind.CRASH, "exit status 7"),
        ("sys.exit", FailureKind.AGENT, "bye"),
        ("raise", FailureKind.AGENT, "ValueError: kaboom"),
        ("outage", FailureKind.INFRASTRUCTURE, "connection refused"),
    ],
)
def test_an_agent_that_dies_in_the_middle_fails_its_turn_and_ends_the_chat(
    project: Project, said: str, kind: FailureKind, message: str
) -> None:
    talk = chat_with(project, DIES)
    talk.say("hello")

    talk.chat.say(said)
    talk.chat.say("still to be said")
    failed = talk.until(TurnFailed)
    ended = talk.until(ChatEnded)

    assert (failed.turn, failed.status, failed.failure.kind) == (1, CaseStatus.ERROR, kind)
    assert message in failed.failure.message
    assert "last words" in failed.failure.stderr_tail
    assert "last words" in ended.stderr_tail
    assert [content.text() for content in ended.unsaid] == ["still to be said"]


@pytest.mark.parametrize("isolation", ["case", "worker"])
def test_a_hanging_turn_is_cancelled_and_its_process_gone(project: Project, isolation: str) -> None:
    with (project.root / "workbench.toml").open("a") as file:
        file.write(f'[run]\nisolation = "{isolation}"\n')
    talk = chat_with(project, "import os, pathlib, time\n" + DIES.replace("time.sleep", HANG))
    talk.chat.say("hang")
    pid = int(eventually(lambda: _text(project.root / "pid")))

    talk.chat.cancel()
    failed = talk.until(TurnFailed)
    talk.until(ChatEnded)

    assert (failed.status, failed.failure) == (CaseStatus.CANCELLED, None)
    assert eventually(lambda: not is_running(pid))


HANG = "(pathlib.Path('pid.new').write_text(str(os.getpid())), os.rename('pid.new', 'pid')) and time.sleep"


def test_a_turn_ends_at_the_timeout_of_the_settings(project: Project) -> None:
    with (project.root / "workbench.toml").open("a") as file:
        file.write("[run]\ntimeout_seconds = 2.0\n")
    talk = chat_with(project, DIES)

    failed = talk.say("hang")

    assert failed.status is CaseStatus.ERROR
    assert failed.failure.kind is FailureKind.TIMEOUT and "longer than 2 s" in failed.failure.message
    assert "last words" in failed.failure.stderr_tail


def test_cancelling_between_turns_changes_nothing(project: Project) -> None:
    talk = chat_with(project, KEEPS_COUNT)
    talk.say("one")

    talk.chat.cancel()

    assert talk.say("two").state == {"turns": 2}


def test_after_close_nothing_is_left(project: Project) -> None:
    talk = chat_with(project, KEEPS_COUNT)
    talk.say("one")
    pid = int((project.root / "pid").read_text())
    assert is_running(pid)

    talk.chat.close()

    assert talk.chat.is_over and isinstance(talk.until(ChatEnded), ChatEnded)
    assert eventually(lambda: not is_running(pid))


@pytest.mark.parametrize("said", ["hang", None])
def test_closing_the_workspace_ends_its_chats(project: Project, said: str | None) -> None:
    project.add_agent("import os, pathlib, time\n" + DIES.replace("time.sleep", HANG))
    workspace = project.workspace()
    chats = [workspace.chat("sample") for _ in range(2)]
    if said is not None:
        chats[0].say(said)
        eventually((project.root / "pid").exists)

    workspace.close()

    assert all(chat.is_over for chat in chats)
    assert said is None or eventually(lambda: not is_running(int((project.root / "pid").read_text())))


def test_an_agent_that_dies_between_turns_says_so_at_the_next(project: Project) -> None:
    talk = chat_with(
        project,
        """
        import os, threading
        from pathlib import Path
        def answer(prompt):
            Path("pid").write_text(str(os.getpid()))
            threading.Timer(0.3, os._exit, [3]).start()
            return prompt
        """,
    )
    talk.say("one")
    eventually(lambda: not is_running(int((project.root / "pid").read_text())))

    talk.chat.say("two")
    failed = talk.until(TurnFailed)

    assert failed.failure.kind is FailureKind.CRASH and "exit status 3" in failed.failure.message


async def test_any_number_of_listeners_on_any_loop(project: Project) -> None:
    talk = chat_with(project, KEEPS_COUNT)
    talk.chat.say("one")
    talk.chat.say("two")
    talk.until(StateSeen)
    talk.until(StateSeen)
    talk.chat.end()

    heard = [event async for event in talk.chat.events()]

    assert isinstance(heard[-1], ChatEnded)
    assert sum(isinstance(event, TurnAnswered) for event in heard) == 2
    assert talk.rest()[-1] == heard[-1]


def test_where_there_is_no_agent_to_talk_to(project: Project) -> None:
    with (project.root / "workbench.toml").open("a") as file:
        file.write('[targets.tape]\nkind = "recorded"\n')
    workspace = project.workspace()

    with pytest.raises(ChatError, match="no target 'sampel'; did you mean 'sample'"):
        workspace.chat("sampel")
    with pytest.raises(ChatError, match="no agent to talk to"):
        workspace.chat("tape")


def eventually(condition: Any) -> Any:
    """Waits until something is so. It fails after a time that no machine needs."""
    for _ in range(1500):
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it never came to be so")


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""
