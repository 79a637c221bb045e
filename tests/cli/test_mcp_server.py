"""Coding agents test the agents of a project over the Model Context Protocol; the client of the SDK asks the server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.cli.command_line import CommandLine, turn
from workbench.model.installation import install_command

pytestmark = pytest.mark.needs_mcp
LIGHT = "home/light.evalset.json"
Connect = Callable[..., Any]


class Connection:
    """A client that is connected to the command."""

    def __init__(self, client: Any) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: Any) -> Any:
        """Call a tool that must succeed."""
        answer = await self.client.call_tool(tool, arguments)
        assert not answer.is_error, answer.content
        found = answer.structured_content
        return found["result"] if set(found) == {"result"} and isinstance(found["result"], str) else found

    async def refuse(self, tool: str, **arguments: Any) -> str:
        """Call a tool that must fail; return the message."""
        answer = await self.client.call_tool(tool, arguments)
        assert answer.is_error, answer.content
        return str(answer.content[0].text)


@pytest.fixture
def connect(workbench: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Connect:
    """Connect to a server with options: `async with connect("--allow-run") as server`.

    It is in this process, because its own would import the SDK for each test. `connect_to_command` starts one.
    """
    from mcp import Client

    from workbench.cli.mcp_server import ProjectServer

    @asynccontextmanager
    async def start(*options: str) -> AsyncIterator[Connection]:
        monkeypatch.chdir("/")
        server = ProjectServer(workbench.root, may_run="--allow-run" in options, may_edit="--allow-edit" in options)
        try:
            async with Client(server._server) as client:
                yield Connection(client)
        finally:
            await asyncio.to_thread(server._close)

    return start


@pytest.fixture
def connect_to_command(workbench: CommandLine) -> Connect:
    """Start the command with options, and connect to it over its standard input and output."""
    from mcp import Client, StdioServerParameters

    @asynccontextmanager
    async def start(*options: str) -> AsyncIterator[Connection]:
        command = StdioServerParameters(
            command=sys.executable,
            args=["-m", "workbench.cli.main", "mcp", "--path", str(workbench.root), *options],
            env=dict(os.environ),
            cwd="/",
        )
        async with Client(command) as client:
            yield Connection(client)

    return start


async def test_cases_run_and_failures_are_explained(connect: Connect) -> None:
    async with connect("--allow-run") as server:
        before = await server.call("list_eval_sets")
        ran = await server.call("run_cases")
        after = await server.call("list_cases", status="FAILED")
        shown = await server.call("show_result", eval_set=LIGHT, case="off")
        trace = await server.call("show_trace", eval_set=LIGHT, case="off")

    assert before["eval_sets"] == [{"eval_set": LIGHT, "agent": "home", "cases": 2, "verdicts": {}}]
    assert (ran["summary"]["passed"], ran["summary"]["failed"], ran["exit_status"]) == (1, 1, 1)
    assert [(row["case"], "bedroom" in row["why"]) for row in ran["not_passed"]] == [("off", True)]
    assert [row["case"] for row in after["cases"]] == ["off"]
    assert shown["status"] == "FAILED"
    assert '  -   room: "bedroom"\n  +   room: "hall"' in shown["differences"]
    assert [span["name"] for span in trace["spans"]][-1:] == ["set_light"]


async def test_only_affected_cases_run_again(connect: Connect, workbench: CommandLine) -> None:
    async with connect("--allow-run") as server:
        await server.call("run_cases")
        unchanged = await server.call("run_cases")
        agent = workbench.root / "home" / "agent.py"
        agent.write_text(agent.read_text().replace("done:", "finished:"))
        explained = await server.call("explain_cases")
        changed = await server.call("run_cases")

    assert (unchanged["reused"], changed["reused"]) == (2, 0)
    assert "off: would run" in explained
    assert "agent.py" in explained


async def test_a_failure_in_quarantine_fails_no_run(connect: Connect, workbench: CommandLine) -> None:
    entry = {"until": "2999-01-01", "reason": "guesses"}
    workbench.write("home/light.evalset.workbench.json", {"quarantine": {"off": entry}})
    async with connect("--allow-run") as server:
        ran = await server.call("run_cases")
        listed = await server.call("list_cases")
        shown = await server.call("show_result", eval_set=LIGHT, case="off")

    assert (ran["summary"]["failed"], ran["summary"]["quarantined"], ran["exit_status"]) == (0, 1, 0)
    assert [(row["case"], row["quarantined"]) for row in ran["not_passed"]] == [("off", True)]
    assert [row.get("quarantine") for row in listed["cases"]] == [None, {**entry, "is_expired": False}]
    assert shown["quarantine"]["until"] == "2999-01-01"


async def test_runs_are_compared(connect: Connect, workbench: CommandLine) -> None:
    async with connect("--allow-run") as server:
        await server.call("run_cases")
        workbench.add_set(
            LIGHT, {"on": [turn("light kitchen", room="cellar")], "off": [turn("light hall", room="hall")]}
        )
        await server.call("run_cases")
        compared = await server.call("compare_runs")

    assert [(case["eval_id"], case["change"]) for case in compared["cases"]] == [("on", "regression"), ("off", "fix")]


async def test_a_server_without_permission_runs_and_writes_nothing(
    connect_to_command: Connect, workbench: CommandLine
) -> None:
    before = (workbench.root / LIGHT).read_bytes()
    async with connect_to_command() as server:
        run = await server.refuse("run_cases")
        proposed = await server.call(
            "propose_edit", eval_set=LIGHT, case="off", tool_calls=[{"name": "set_light", "args": {"room": "hall"}}]
        )
        applied = await server.refuse("apply_edit", eval_set=LIGHT, case="off", proposal=proposed["proposal"])
        tools = {tool.name: tool.annotations.read_only_hint for tool in (await server.client.list_tools()).tools}

    assert "start it with `workbench mcp --allow-run`" in run
    assert "start it with `workbench mcp --allow-edit`" in applied
    assert (workbench.root / LIGHT).read_bytes() == before
    assert not (workbench.root / ".workbench" / "history.db").exists()
    assert {name for name, reads in tools.items() if not reads} == {"run_cases", "apply_edit"}


async def test_an_edit_is_shown_as_a_diff_and_written_when_it_is_confirmed(
    connect_to_command: Connect, workbench: CommandLine
) -> None:
    async with connect_to_command("--allow-run", "--allow-edit") as server:
        await server.call("run_cases")
        proposed = await server.call("propose_edit", eval_set=LIGHT, case="off", accept_last=True)
        unwritten = json.loads((workbench.root / LIGHT).read_text())
        await server.call("apply_edit", eval_set=LIGHT, case="off", proposal=proposed["proposal"])
        ran = await server.call("run_cases")
        again = await server.refuse("propose_edit", eval_set=LIGHT, case="off", accept_last=True)

    diff = [
        line.strip() for line in proposed["diff"].splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")
    ]
    assert [line.replace(" ", "") for line in diff] == ['-"room":"bedroom"', '+"room":"hall"']
    assert (
        unwritten["eval_cases"][1]["conversation"][0]["intermediate_data"]["tool_uses"][0]["args"]["room"] == "bedroom"
    )
    assert (ran["summary"]["passed"], ran["exit_status"]) == (2, 0)
    assert "already expects this" in again


async def test_an_expected_response_is_proposed_for_one_turn(connect: Connect, workbench: CommandLine) -> None:
    workbench.add_set(LIGHT, {"two": [turn("say a", "done: a"), turn("say b", "wrong")]})
    async with connect("--allow-edit") as server:
        none = await server.refuse("propose_edit", eval_set=LIGHT, case="two", turn=3, response="x")
        nothing = await server.refuse("propose_edit", eval_set=LIGHT, case="two", turn=2)
        proposed = await server.call("propose_edit", eval_set=LIGHT, case="two", turn=2, response="done: b")
        await server.call("apply_edit", eval_set=LIGHT, case="two", proposal=proposed["proposal"])
        twice = await server.refuse("apply_edit", eval_set=LIGHT, case="two", proposal=proposed["proposal"])

    saved = json.loads((workbench.root / LIGHT).read_text())["eval_cases"][0]["conversation"]
    assert [each["final_response"]["parts"][0]["text"] for each in saved] == ["done: a", "done: b"]
    assert "the case has 2 turns" in none
    assert "nothing to change" in nothing
    assert "no proposal" in twice


async def test_a_file_that_changed_after_the_proposal_is_not_written(connect: Connect, workbench: CommandLine) -> None:
    async with connect("--allow-edit") as server:
        proposed = await server.call("propose_edit", eval_set=LIGHT, case="off", response="ok")
        path = workbench.add_set(LIGHT, {"off": [turn("light hall", room="attic")]})
        theirs = path.read_bytes()
        refused = await server.refuse("apply_edit", eval_set=LIGHT, case="off", proposal=proposed["proposal"])

    assert "the case has changed since the edit was proposed" in refused
    assert path.read_bytes() == theirs


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        (
            "show_result",
            {"eval_set": "home/lihgt.evalset.json", "case": "on"},
            "did you mean 'home/light.evalset.json'",
        ),
        ("show_result", {"eval_set": LIGHT, "case": "onn"}, "there is no case 'onn'; did you mean 'on'"),
        ("show_result", {"eval_set": LIGHT, "case": "on"}, "the case 'on' did not run yet"),
        ("compare_runs", {}, "there are no runs yet"),
        ("list_cases", {"what": ["nowhere"]}, "nowhere: no such file, folder or target"),
        ("explain_cases", {"cases": ["missing"]}, "no eval case 'missing'"),
        ("apply_edit", {"eval_set": LIGHT, "case": "on", "proposal": "1"}, "--allow-edit"),
        ("run_cases", {"eval_set": LIGHT}, "run_cases has no argument 'eval_set'; it has: what, cases"),
        ("show_result", {"case": "on"}, "show_result: eval_set: field required"),
        ("list_cases", {"status": "failed"}, "list_cases: status: input should be 'PASSED', "),
        ("list_cases", {"status": "failed"}, ", got 'failed'"),
        (
            "propose_edit",
            {"eval_set": LIGHT, "case": "on", "tool_calls": [{"name": "a", "arguments": {}}]},
            "arguments",
        ),
    ],
    ids=[
        "set",
        "case",
        "no-result",
        "no-runs",
        "path",
        "filter",
        "permission",
        "argument",
        "missing",
        "value",
        "found",
        "key-of-call",
    ],
)
async def test_wrong_names_get_one_clear_message(
    connect: Connect, tool: str, arguments: dict[str, Any], expected: str
) -> None:
    async with connect() as server:
        message = await server.refuse(tool, **arguments)

    assert expected in message
    assert "Traceback" not in message and "pydantic" not in message


async def test_broken_files_are_reported_and_the_rest_is_listed(connect: Connect, workbench: CommandLine) -> None:
    workbench.write("home/broken.evalset.json", '{"eval_cases": [')
    async with connect("--allow-run") as server:
        sets = await server.call("list_eval_sets")
        ran = await server.call("run_cases")

    by_name = {entry["eval_set"]: entry for entry in sets["eval_sets"]}
    assert "broken.evalset.json" in by_name["home/broken.evalset.json"]["problems"][0]
    assert by_name[LIGHT]["cases"] == 2
    assert ran["exit_status"] == 2
    assert any("broken.evalset.json" in notice for notice in ran["notices"])


async def test_what_agents_print_does_not_disturb_the_protocol_and_secrets_are_masked(
    connect_to_command: Connect, workbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789")
    workbench.add_set(LIGHT, {"a": [turn("loud sk-proj-abcdefghijklmnopqrstuvwxyz0123456789\u001b[31m\u202e", "no")]})
    workbench.write("home/test_config.json", {"criteria": {"response_match_score": 1.0}})
    async with connect_to_command("--allow-run") as server:
        await server.call("run_cases")
        shown = await server.call("show_result", eval_set=LIGHT, case="a", whole=True)

    assert shown["status"] == "FAILED"
    assert "done:" in json.dumps(shown)
    assert "sk-proj-abcdefghij" not in json.dumps(shown)
    texts = [text for text in list_texts(shown) if "done" in text]
    assert texts
    assert not [text for text in texts if "\x1b" in text or "\u202e" in text]


def list_texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for key, item in value.items() for text in (key, *list_texts(item))]
    if isinstance(value, list):
        return [text for item in value for text in list_texts(item)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.2])
async def test_a_call_that_is_cancelled_at_once_leaves_no_run(
    connect_to_command: Connect, workbench: CommandLine, seconds: float
) -> None:
    workbench.add_set(LIGHT, {"slow": [turn("sleep 60", "done: 60")]})
    async with connect_to_command("--allow-run") as server:
        await server.call("list_cases")  # the server is ready
        running = asyncio.create_task(server.client.call_tool("run_cases", {}))
        await asyncio.sleep(seconds)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await asyncio.sleep(1)
        await server.call("list_cases")
        await asyncio.sleep(2)
        runs = workbench("history", "--format", "json").data["runs"]

    assert all(run["interrupted"] for run in runs)


async def test_an_edit_that_cannot_be_saved_is_undone(
    connect: Connect, workbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    import workbench.store.evalsets.evalset_document as module
    from workbench.cli.mcp_server import ProjectTools
    from workbench.store.errors import StoreError

    monkeypatch.chdir(workbench.root)
    tools = ProjectTools(workbench.root, may_run=False, may_edit=True)
    try:
        proposed = tools.propose_edit(eval_set=LIGHT, case="off", response="ok")
        with monkeypatch.context() as patch:

            def fail(*_: Any, **__: Any) -> None:
                raise StoreError(workbench.root / LIGHT, "the disk is full")

            patch.setattr(module, "write_atomic", fail)
            with pytest.raises(StoreError, match="the disk is full"):
                tools.apply_edit(eval_set=LIGHT, case="off", proposal=proposed["proposal"])
        before = (workbench.root / LIGHT).read_bytes()
        again = tools.propose_edit(eval_set=LIGHT, case="off", response="ok")
        tools.apply_edit(eval_set=LIGHT, case="off", proposal=again["proposal"])
    finally:
        tools.close()

    assert b'"ok"' not in before
    assert b'"ok"' in (workbench.root / LIGHT).read_bytes()


async def test_several_proposals_for_one_file_are_applied_one_after_the_other(
    connect: Connect, workbench: CommandLine
) -> None:
    async with connect("--allow-edit") as server:
        proposed = {
            case: await server.call("propose_edit", eval_set=LIGHT, case=case, response='{"status": "ok"}')
            for case in ("off", "on")
        }
        mixed = await server.refuse("apply_edit", eval_set=LIGHT, case="on", proposal=proposed["off"]["proposal"])
        for case, each in proposed.items():
            await server.call("apply_edit", eval_set=LIGHT, case=case, proposal=each["proposal"])

    cases = json.loads((workbench.root / LIGHT).read_text())["eval_cases"]
    assert [case["conversation"][0]["final_response"]["parts"][0]["text"] for case in cases] == ['{"status": "ok"}'] * 2
    assert "no proposal" in mixed


async def test_cases_with_the_same_id_have_names_of_their_own(connect: Connect, workbench: CommandLine) -> None:
    entries = [{"eval_id": "dup", "conversation": [turn("light a", room=room)]} for room in ("a", "b")]
    workbench.write(LIGHT, {"eval_set_id": "light", "eval_cases": entries})
    async with connect("--allow-run") as server:
        await server.call("run_cases")
        listed = await server.call("list_cases")
        shown = [await server.call("show_result", eval_set=LIGHT, case=row["case"]) for row in listed["cases"]]

    assert [each["case"] for each in shown] == ["dup", "dup#2"]
    assert all("make it unique" in each["reasons"][0] for each in shown)


async def test_renamed_and_deleted_cases_are_counted_once_and_stale_verdicts_are_marked(
    connect: Connect, workbench: CommandLine
) -> None:
    path = workbench.add_set(LIGHT, {name: [turn(f"light {name}", room=name)] for name in ("a", "b", "c")})
    async with connect("--allow-run") as server:
        await server.call("run_cases")
        before = await server.call("list_cases")
        workbench.add_set(LIGHT, {name: [turn(f"light {name[0]}", room=name[0])] for name in ("a_new", "b")})
        renamed = await server.call("show_result", eval_set=LIGHT, case="a_new")
        sets = await server.call("list_eval_sets")
        path.write_text(path.read_text().replace('"room": "b"', '"room": "z"'))
        stale = await server.call("list_cases")
        shown = await server.call("show_result", eval_set=LIGHT, case="b")

    assert [(row["status"], row["is_current"]) for row in before["cases"]] == [("PASSED", True)] * 3
    assert renamed["status"] == "PASSED"
    assert (sets["eval_sets"][0]["cases"], sets["eval_sets"][0]["verdicts"]) == (2, {"PASSED": 2})
    assert [row["is_current"] for row in stale["cases"]] == [True, False]
    assert (shown["status"], shown["is_current"]) == ("PASSED", False)


async def test_the_worst_repeat_is_shown(connect: Connect, workbench: CommandLine) -> None:
    agent = workbench.root / "home" / "agent.py"
    agent.write_text(
        agent.read_text().replace(
            '    word, _, rest = prompt.partition(" ")',
            '    word, _, rest = prompt.partition(" ")\n    open("seen", "x")',  # fails in the other repeat
        )
    )
    workbench.add_set(LIGHT, {"once": [turn("light a", room="a")]})
    async with connect("--allow-run") as server:
        await server.call("run_cases", repeats=2)
        worst = await server.call("show_result", eval_set=LIGHT, case="once")
        traces = await server.call("show_trace", eval_set=LIGHT, case="once", repeat=worst["repeat"])
        none = await server.refuse("show_result", eval_set=LIGHT, case="once", repeat=3)

    assert sorted(worst["repeats"]) == ["ERROR", "PASSED"]
    assert (worst["status"], "FileExistsError" in worst["output"]) == ("ERROR", True)
    assert traces["repeat"] == worst["repeat"]
    assert "there is no repeat 3: the case ran 2 times" in none


async def test_recorded_rows_are_listed_and_shown(connect: Connect, workbench: CommandLine) -> None:
    workbench.write("rows.jsonl", '{"prompt": "a", "response": "x", "reference": "x"}\n')
    workbench.write(
        "workbench.toml", '[targets.rec]\nkind = "recorded"\npath = "rows.jsonl"\neval_sets = ["rows.jsonl"]\n'
    )
    workbench.write("test_config.json", {"criteria": {"response_match_score": 0.5}})
    async with connect("--allow-run") as server:
        sets = await server.call("list_eval_sets")
        await server.call("run_cases", what=["rows.jsonl"])
        (row,) = (await server.call("list_cases", what=["rows.jsonl"]))["cases"]
        shown = await server.call("show_result", eval_set="rows.jsonl", case=row["case"])

    (listed,) = [entry for entry in sets["eval_sets"] if entry["eval_set"] == "rows.jsonl"]
    assert (listed["cases"], listed.get("problems")) == (1, None)
    assert shown["status"] == "PASSED"


async def test_a_project_with_broken_settings_is_served_once_they_are_mended(
    connect: Connect, workbench: CommandLine
) -> None:
    good = (workbench.root / "workbench.toml").read_text()
    workbench.write("workbench.toml", "[targets")
    async with connect() as server:
        broken = await server.refuse("list_cases")
        workbench.write("workbench.toml", good)
        mended = await server.call("list_cases")

    assert "workbench.toml" in broken
    assert mended["total"] == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server(workbench: CommandLine, number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "workbench.cli.main", "mcp"],
        cwd=workbench.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        greeting = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": greeting}
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        assert b"serverInfo" in process.stdout.readline()
        process.send_signal(number)
        _, error = process.communicate(timeout=20)
    finally:
        process.kill()

    assert process.returncode == 128 + number
    assert b"Traceback" not in error


async def test_lists_answer_while_agents_run_and_a_cancelled_call_ends_the_run(
    connect_to_command: Connect, workbench: CommandLine, tmp_path: Any
) -> None:
    workbench.add_set(LIGHT, {"slow": [turn("sleep 60", "done: 60")]})
    async with connect_to_command("--allow-run") as server:
        running = asyncio.create_task(server.client.call_tool("run_cases", {}))
        await asyncio.sleep(1.5)
        listed = await asyncio.wait_for(server.call("list_cases"), timeout=10)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        deadline = asyncio.get_running_loop().time() + 20
        while not (runs := workbench("history", "--format", "json").data["runs"]) or not runs[0]["interrupted"]:
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.2)

    assert [row["case"] for row in listed["cases"]] == ["slow"]


def test_without_the_extra_the_command_says_what_to_install(
    workbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    monkeypatch.delitem(sys.modules, "workbench.cli.mcp_server", raising=False)

    result = workbench("mcp")

    assert result.status == 2
    assert result.error == f"workbench: the package mcp is not installed: {install_command('mcp')}\n"
