"""Manual conversations with real agents in real processes: their events and their ends."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.engine.chat_session.listener import Listener
from tests.engine.project import Project
from tests.processes import is_running
from workbench.engine.chat_session import ChatError
from workbench.model.evalset import Content, SessionInput
from workbench.model.results import CaseStatus, FailureKind
from workbench.model.run_events import ChatEnded, StateSeen, StepSeen, TurnAnswered, TurnBegan, TurnFailed

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
    if prompt not in ("hello", "hang"):
        time.sleep(0.2)  # until the next message waits
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


def start_chat(project: Project, agent: str, **options: Any) -> Listener:
    project.add_agent(agent)
    return Listener(project.open_workspace().chat("sample", **options))


def test_the_events_of_a_turn_come_in_order(project: Project) -> None:
    listener = start_chat(project, KEEPS_COUNT, session_input=SessionInput(state={"turns": 5}))

    state = listener.say("hello")

    kinds = [event.kind for event in listener.events]
    # One step when the agent begins; two more when it has ended: the agent, and the call that it reports.
    assert kinds == ["turn_began", "step_seen", "step_seen", "step_seen", "turn_answered", "state_seen"]
    turn_began, first, *_, answered, _ = listener.events
    assert isinstance(turn_began, TurnBegan) and turn_began.content.text() == "hello"
    assert isinstance(first, StepSeen) and first.span.is_running
    assert isinstance(answered, TurnAnswered)
    assert answered.result.invocation.final_response == Content.of_text("HELLO", role="model")
    assert answered.result.usage is not None and answered.result.usage.total == 7
    assert state.state == {"turns": 6}


def test_turns_share_a_session_and_wait_for_each_other(project: Project) -> None:
    listener = start_chat(project, KEEPS_COUNT)

    listener.chat.say("one")
    listener.chat.say("two")

    assert [listener.wait_for(StateSeen).state for _ in range(2)] == [{"turns": 1}, {"turns": 2}]


def test_a_new_session_runs_the_current_code(project: Project) -> None:
    workspace = project.open_workspace()
    project.add_agent("def answer(prompt): return 'old'")
    old_listener = Listener(workspace.chat("sample"))
    old_listener.say("x")
    project.add_agent("def answer(prompt): return 'the new one'")
    new_listener = Listener(workspace.chat("sample"))
    new_listener.say("x")

    texts = [
        event.result.invocation.final_response.text()
        for event in (*old_listener.events, *new_listener.events)
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
def test_an_agent_that_dies_during_a_turn_fails_the_turn_and_ends_the_chat(
    project: Project, said: str, kind: FailureKind, message: str
) -> None:
    listener = start_chat(project, DIES)
    listener.say("hello")

    listener.chat.say(said)
    listener.chat.say("still to be said")
    failed = listener.wait_for(TurnFailed)
    chat_ended = listener.wait_for(ChatEnded)

    assert (failed.turn, failed.status, failed.failure.kind) == (1, CaseStatus.ERROR, kind)
    assert message in failed.failure.message
    assert "last words" in failed.failure.stderr_tail
    assert "last words" in chat_ended.stderr_tail
    assert [content.text() for content in chat_ended.unsaid] == ["still to be said"]


@pytest.mark.parametrize("isolation", ["case", "worker"])
def test_cancelling_a_hanging_turn_ends_its_process(project: Project, isolation: str) -> None:
    with (project.root / "workbench.toml").open("a") as file:
        file.write(f'[run]\nisolation = "{isolation}"\n')
    listener = start_chat(project, "import os, pathlib, time\n" + DIES.replace("time.sleep", HANG))
    listener.chat.say("hang")
    pid = int(wait_until(lambda: _read_text(project.root / "pid")))

    listener.chat.cancel()
    failed = listener.wait_for(TurnFailed)
    listener.wait_for(ChatEnded)

    assert (failed.status, failed.failure) == (CaseStatus.CANCELLED, None)
    assert wait_until(lambda: not is_running(pid))


HANG = "(pathlib.Path('pid.new').write_text(str(os.getpid())), os.rename('pid.new', 'pid')) and time.sleep"


def test_a_turn_ends_at_the_timeout_of_the_settings(project: Project) -> None:
    with (project.root / "workbench.toml").open("a") as file:
        file.write("[run]\ntimeout_seconds = 2.0\n")
    listener = start_chat(project, DIES)

    failed = listener.say("hang")

    assert failed.status is CaseStatus.ERROR
    assert failed.failure.kind is FailureKind.TIMEOUT and "longer than 2 s" in failed.failure.message
    assert "last words" in failed.failure.stderr_tail


def test_cancelling_between_turns_changes_nothing(project: Project) -> None:
    listener = start_chat(project, KEEPS_COUNT)
    listener.say("one")

    listener.chat.cancel()

    assert listener.say("two").state == {"turns": 2}


def test_closing_a_chat_ends_its_process(project: Project) -> None:
    listener = start_chat(project, KEEPS_COUNT)
    listener.say("one")
    pid = int((project.root / "pid").read_text())
    assert is_running(pid)

    listener.chat.close()

    assert listener.chat.is_over and isinstance(listener.wait_for(ChatEnded), ChatEnded)
    assert wait_until(lambda: not is_running(pid))


@pytest.mark.parametrize("said", ["hang", None])
def test_closing_the_workspace_ends_its_chats(project: Project, said: str | None) -> None:
    project.add_agent("import os, pathlib, time\n" + DIES.replace("time.sleep", HANG))
    workspace = project.open_workspace()
    chats = [workspace.chat("sample") for _ in range(2)]
    if said is not None:
        chats[0].say(said)
        wait_until((project.root / "pid").exists)

    workspace.close()

    assert all(chat.is_over for chat in chats)
    assert said is None or wait_until(lambda: not is_running(int((project.root / "pid").read_text())))


def test_an_agent_that_dies_between_turns_fails_the_next_turn(project: Project) -> None:
    listener = start_chat(
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
    listener.say("one")
    wait_until(lambda: not is_running(int((project.root / "pid").read_text())))

    listener.chat.say("two")
    failed = listener.wait_for(TurnFailed)

    assert failed.failure.kind is FailureKind.CRASH and "exit status 3" in failed.failure.message


async def test_a_chat_has_any_number_of_listeners_on_any_loop(project: Project) -> None:
    listener = start_chat(project, KEEPS_COUNT)
    listener.chat.say("one")
    listener.chat.say("two")
    listener.wait_for(StateSeen)
    listener.wait_for(StateSeen)
    listener.chat.end()

    events = [event async for event in listener.chat.events()]

    assert isinstance(events[-1], ChatEnded)
    assert sum(isinstance(event, TurnAnswered) for event in events) == 2
    assert listener.read_rest()[-1] == events[-1]


def test_a_chat_needs_a_known_target_with_an_agent(project: Project) -> None:
    with (project.root / "workbench.toml").open("a") as file:
        file.write('[targets.tape]\nkind = "recorded"\n')
    workspace = project.open_workspace()

    with pytest.raises(ChatError, match="no target 'sampel'; did you mean 'sample'"):
        workspace.chat("sampel")
    with pytest.raises(ChatError, match="no agent to talk to"):
        workspace.chat("tape")


def wait_until(condition: Any) -> Any:
    """Wait until the condition returns a true value, and return the value."""
    for _ in range(1500):
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it never came to be so")


def _read_text(path: Path) -> str:
    return path.read_text() if path.exists() else ""
