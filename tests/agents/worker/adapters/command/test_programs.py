"""Agents that are programs: real processes that speak JSON lines, and the messages for violations."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from tests.agents.worker.adapters.command.conftest import Program
from workbench.model.target import AgentKind
from workbench.model.trace import SpanKind

pytestmark = pytest.mark.prepared("http")


async def test_a_program_answers_turn_by_turn_in_one_process(
    bench: Any, write_program: Program, way: dict[str, Any]
) -> None:
    target = write_program("""
        for turn in turns():
            count = turn["session"]["state"].get("count", 0) + 1
            say(type="finished", response=f'{turn["turn"]} {turn["prompt"]} {count} {os.getpid()} {sys.argv[1]}',
                predicted_trajectory=[{"name": "count", "args": {"to": count}}],
                usage={"prompt": 3, "total": 5}, state={"count": count})
    """, "an argument")  # fmt: skip
    host = bench.host(**target, **way)

    talk, other = await asyncio.gather(
        bench.talk(host, "a", "b", state={"count": 5}), bench.talk(host, "c", session_id="s")
    )

    assert talk.error is None, talk.message
    first, second = (response.split(" ", 3) for response in talk.responses)
    assert (first[:3], second[:3]) == (["0", "a", "6"], ["1", "b", "7"])
    assert first[3] == second[3] != other.responses[0].split(" ", 3)[3]
    assert first[3].endswith("an argument")
    assert [call.args for turn in talk.turns for call in turn.invocation.intermediate_data.tool_uses] == [
        {"to": 6},
        {"to": 7},
    ]
    assert talk.turns[0].usage.total == 5
    assert (talk.end.final_state, other.end.final_state) == ({"count": 7}, {"count": 1})


async def test_the_program_receives_each_turn_with_its_session(bench: Any, write_program: Program) -> None:
    bench.write(".env", "DESK_KEY=value")
    target = write_program("""
        for turn in turns():
            say(type="finished", response=json.dumps([turn, os.environ["DESK_KEY"], os.getcwd()]))
    """)

    talk = await bench.talk(
        bench.host(**target, env_file=bench.folder / ".env"), "hé\nllo", session_id="s-1", state={"a": [1]}
    )

    import json

    turn, variable, folder = json.loads(talk.responses[0])
    assert re.fullmatch("00-[0-9a-f]{32}-[0-9a-f]{16}-01", turn.pop("traceparent"))
    assert turn == {
        "type": "turn",
        "turn": 0,
        "prompt": "hé\nllo",
        "content": {"role": "user", "parts": [{"text": "hé\nllo"}]},
        "session": {"app_name": "app", "user_id": "user", "id": "s-1", "state": {"a": [1]}},
    }
    assert (variable, Path(folder)) == ("value", bench.folder)


async def test_events_become_the_trajectory_and_spans_with_times(bench: Any, write_program: Program) -> None:
    target = write_program("""
        for turn in turns():
            say(type="event", tool_call={"name": "find", "args": {"t": 1}, "id": "1"})
            say(type="event", tool_call={"name": "find", "args": {"t": 2}, "id": "2"})
            say(type="event", text="looking", author="clerk")
            say(type="event", tool_response={"name": "find", "response": {"n": 2}, "id": "2"})
            time.sleep(0.05)
            say(type="event", tool_response={"name": "find", "response": "one", "id": "1"})
            say(type="event", tool_call={"name": "ring", "args": {}})
            say(type="event", span={"name": "small-model", "kind": "model", "start": 0.01, "end": 0.02,
                                    "attributes": {"usage": {"total": 3}}})
            say(type="finished", response="done")
    """)  # fmt: skip

    talk = await bench.talk_once("hi", **target)

    assert talk.error is None, talk.message
    data = talk.turns[0].invocation.intermediate_data
    assert [(call.name, call.args) for call in data.tool_uses] == [("find", {"t": 1}), ("find", {"t": 2}), ("ring", {})]
    assert [each.response for each in data.tool_responses] == [{"n": 2}, {"result": "one"}]
    agent, first, second, ring, model = talk.spans
    assert [span.parent_id for span in (first, second, ring, model)] == [agent.id] * 4
    assert (first.response, second.response) == ("one", {"n": 2})
    assert first.duration > 0.04
    assert first.duration > second.duration
    assert (ring.duration, ring.request) == (None, {})
    assert (model.kind, model.attributes) == ("model", {"usage": {"total": 3}})
    assert model.duration == pytest.approx(0.01)
    assert agent.start < model.start < agent.end


async def test_a_turn_without_reported_calls_has_no_calls(bench: Any, write_program: Program) -> None:
    target = write_program("""
        for turn in turns():
            say(type="finished", response="hello")
    """)

    talk = await bench.talk_once("hi", **target)

    assert talk.turns[0].invocation.intermediate_data.tool_uses == []
    assert talk.turns[0].calls_unknown is None


async def test_running_steps_are_announced_to_a_chat(bench: Any, write_program: Program) -> None:
    target = write_program("""
        for turn in turns():
            say(type="event", tool_call={"name": "find", "args": {}})
            say(type="event", tool_response={"name": "find", "response": {}})
            say(type="finished", response="done")
    """)

    talk = await bench.talk(bench.host(**target), "hi", announce_spans=True)

    assert [(span.name, span.is_running) for span in talk.spans] == [
        ("desk", True),
        ("find", True),
        ("find", False),
        ("desk", False),
        ("find", False),
    ]


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            "print('Starting...', flush=True)",
            "agent",
            "wrote a line that is not JSON: 'Starting...'; expected one object",
        ),
        ("print('[1]', flush=True)", "agent", "wrote the line '[1]', expected an object with a \"type\""),
        ("say(type='finish')", "agent", "wrote a line of type 'finish', expected event, finished or failed"),
        ("say(type='event', tool='x')", "agent", "wrote an event with tool, expected one of tool_call, tool_response"),
        ("say(type='event', tool_call='x')", "agent", "whose tool_call is a str ('x'), expected an object with a"),
        ("say(type='finished')", "agent", "finished with neither a response nor tool calls"),
        ("say(type='finished', response=3)", "agent", "finished with the number 3 as response, expected text"),
        (
            "say(type='finished', response='a', usage=3)",
            "agent",
            'finished with an invalid value: "usage" is an int (3), expected a dict',
        ),
        ("say(type='failed', message='no books')", "agent", "failed: no books"),
        ("say(type='failed', message='later', kind='infrastructure')", "infrastructure", "failed: later"),
        ("sys.exit()", "crash", "ended with exit status 0 before it had answered"),
        (
            "print('a\\nout of \\x1b[1mpaper', file=sys.stderr); sys.exit(4)",
            "crash",
            "ended with exit status 4 before it had answered: out of",
        ),
        ("os.kill(os.getpid(), 9)", "crash", "ended with signal 9 (SIGKILL) before it had answered"),
        (
            'sys.stdout.write(\'{"type": "fin\'); sys.stdout.flush(); sys.exit(1)',
            "crash",
            'ended with exit status 1 in the middle of the line \'{"type": "fin\'',
        ),
        ("os.close(1); time.sleep(60)", "crash", "closed its standard output before it answered"),
    ],
)
async def test_an_invalid_answer_of_a_program_is_reported(
    bench: Any, write_program: Program, text: str, kind: str, message: str
) -> None:
    target = write_program(f"for turn in turns():\n    {text}\n")

    talk = await bench.talk_once("hi", **target)

    assert talk.kind == kind
    assert talk.message.startswith(f"the program {target['location']} ")
    assert message in talk.message


@pytest.mark.parametrize(
    "text",
    [
        "for turn in turns():\n    for _ in 'ab': say(type='finished', response='to ' + turn['prompt'])",
        "say(type='finished', response='ready')\nfor turn in turns(): say(type='finished', response=turn['prompt'])",
        "for turn in turns():\n    say(type='finished', response='a')\n    say(type='event', text='late')",
        "for turn in turns(): say(type='finished', response='a')\nprint('Good bye')",
    ],
)
@pytest.mark.parametrize("prompts", [["one"], ["one", "two"]])
async def test_a_line_that_belongs_to_no_turn_is_never_the_answer_of_another(
    bench: Any, write_program: Program, text: str, prompts: list[str]
) -> None:
    target = write_program(text)

    talk = await bench.talk_once(*prompts, **target)

    assert talk.kind == "agent"
    assert "; expected one finished or failed for each turn, its events before it, and nothing else" in talk.message


async def test_a_turn_number_that_a_program_repeats_is_checked(bench: Any, write_program: Program) -> None:
    target = write_program("""
        for turn in turns():
            say(type="finished", response="a", turn=0)
    """)

    talk = await bench.talk_once("one", "two", **target)

    assert talk.responses == ["a"]
    assert talk.message.endswith('wrote a line whose "turn" is the number 0, expected 1, the turn it was given')


async def test_the_end_of_a_program_is_seen_even_if_a_child_keeps_its_output_open(
    bench: Any, write_program: Program
) -> None:
    target = write_program("""
        import subprocess
        for turn in turns():
            subprocess.Popen(["sleep", "600"], stderr=subprocess.DEVNULL)
            sys.exit(3)
    """)

    talk = await asyncio.wait_for(bench.talk_once("hi", **target), 60)

    assert talk.kind == "crash"
    assert talk.message.endswith("ended with exit status 3 before it had answered")


async def test_the_error_line_of_node_is_reported(bench: Any, write_program: Program) -> None:
    error_text = "agent.js:3\n^\n\nError: kaboom\n    at Object (agent.js:3:7)\n\nNode.js v20.20.2\n"
    target = write_program(f"sys.stderr.write({error_text!r})\nsys.exit(1)")

    talk = await bench.talk_once("hi", **target)

    assert talk.message.endswith("ended with exit status 1 before it had answered: Error: kaboom")


async def test_an_endless_line_is_cut_off(bench: Any, write_program: Program) -> None:
    target = write_program("""
        while True:
            sys.stdout.write("x" * (1 << 20))
    """)

    talk = await bench.talk_once("hi", **target)

    assert talk.kind == "agent"
    assert talk.message.endswith("wrote a line of more than 64 MB, expected less")


@pytest.mark.needs_fork
async def test_the_standard_error_of_a_program_is_kept(bench: Any, write_program: Program) -> None:
    target = write_program("""
        for turn in turns():
            print("thinking", file=sys.stderr)
            say(type="finished", response="done")
        print("good bye", file=sys.stderr)
    """)

    talk = await bench.talk_once("hi", mode="fork", **target)

    assert talk.responses == ["done"]
    assert talk.end.stderr_tail == "thinking\ngood bye\n"


async def test_a_long_prompt_and_early_output_of_the_program_do_not_deadlock(
    bench: Any, write_program: Program
) -> None:
    target = write_program("""
        begun = sys.stdin.read(1)
        for number in range(20000):
            say(type="event", text="x" * 20)
        for turn in [json.loads(begun + sys.stdin.readline())]:
            say(type="finished", response=str(len(turn["prompt"])))
    """)

    talk = await bench.talk_once("y" * 3_000_000, **target)

    assert talk.error is None, talk.message
    assert talk.responses == ["3000000"]


@pytest.mark.parametrize("isolation", ["case", "worker"])
async def test_a_program_that_never_answers_ends_with_its_children_when_its_case_ends(
    bench: Any, write_program: Program, isolation: str, is_alive: Any, wait_until: Any
) -> None:
    target = write_program("""
        import subprocess
        child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
        open("pids", "w").write(f"{os.getpid()} {child.pid}")
        time.sleep(600)
    """)
    session = await bench.open(bench.host(**target, isolation=isolation))
    from workbench.model.evalset import Content

    turn = asyncio.ensure_future(session.turn(Content.of_text("hi", role="user"), turn=0))
    pids = await wait_until(lambda: (bench.folder / "pids").exists() and (bench.folder / "pids").read_text().split())
    assert all(is_alive(int(pid)) for pid in pids)
    await session.kill()
    await asyncio.wait([turn])

    await wait_until(lambda: not any(is_alive(int(pid)) for pid in pids))


async def test_a_program_that_stays_after_the_end_of_its_input_is_ended(
    bench: Any, write_program: Program, is_alive: Any, wait_until: Any
) -> None:
    target = write_program("""
        for turn in turns():
            say(type="finished", response=str(os.getpid()))
        time.sleep(600)
    """)

    talk = await bench.talk_once("hi", **target)

    assert talk.error is None, talk.message
    await wait_until(lambda: not is_alive(int(talk.responses[0])))


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("no-such-program --x", "the program 'no-such-program' of target 'desk' does not exist (looked on PATH)"),
        ("./agent.sh", "the program './agent.sh' of target 'desk' does not exist (looked in "),
        ("./notes.txt", "the program './notes.txt' of target 'desk' is not executable (looked in "),
        ("./broken", "the program './broken' of target 'desk' cannot be started: "),
    ],
)
async def test_a_program_that_cannot_be_started_is_named(bench: Any, location: str, message: str) -> None:
    bench.write("notes.txt", "hello")
    bench.write("broken", "#!/no/such/interpreter\n").chmod(0o755)

    talk = await bench.talk_once("hi", name="desk", kind=AgentKind.COMMAND, location=location)

    assert talk.kind == "setup"
    assert talk.message.startswith(message)


async def test_the_dependencies_of_a_program_are_opaque(bench: Any, write_program: Program) -> None:
    target = write_program("""
        for turn in turns():
            say(type="finished", response="done")
    """)
    session = await bench.open(bench.host(**target))
    from workbench.model.evalset import Content

    await session.turn(Content.of_text("hi", role="user"), turn=0)
    await session.finish()

    assert session.dependencies is not None
    assert session.dependencies.complete
    assert session.dependencies.is_opaque


async def test_too_many_tool_calls_are_read_in_linear_time(bench: Any, write_program: Program) -> None:
    target = write_program("""
        for turn in turns():
            for at in range(30_000):
                say(type="event", tool_call={"name": "look", "args": {"at": at}})
                say(type="event", tool_response={"name": "look", "response": {"at": at}})
            say(type="finished", turn=turn["turn"], response="at last")
    """)

    talk = await bench.talk(bench.host(mode="fork", **target), "look")

    assert talk.error is None, talk.message
    data = talk.turns[0].invocation.intermediate_data
    assert [call.args["at"] for call in data.tool_uses] == list(range(10_000))
    assert [item.response["at"] for item in data.tool_responses] == list(range(10_000))
    assert talk.turns[0].calls_unknown == "the agent made 30,000 tool calls in one turn; only the first 10,000 are kept"
    spans = [span for span in talk.spans if span.kind is SpanKind.TOOL]
    assert [span.response["at"] for span in spans] == list(range(10_000))


async def test_too_many_tool_responses_are_reported(bench: Any, write_program: Program) -> None:
    target = write_program("""
        for turn in turns():
            for at in range(10_001):
                say(type="event", tool_response={"name": "look", "response": {"at": at}})
            say(type="finished", turn=turn["turn"], response="at last")
    """)

    talk = await bench.talk(bench.host(mode="fork", **target), "look")

    assert talk.error is None, talk.message
    assert talk.turns[0].calls_unknown == "the tools gave 10,001 responses in one turn; only the first 10,000 are kept"
