"""`workbench coverage`: which parts of agents and their code cases reach, and which none does."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from workbench.store.evalsets.evalset_document import EvalSetDocument

if TYPE_CHECKING:
    from tests.cli.command_line import CommandLine, CommandResult

SAMPLES = Path(__file__).parents[3] / "sample_agents"

AGENT = """
from home import rooms

def answer(prompt):
    if prompt.startswith("light"):
        calls = [{"tool_name": "set_light", "tool_input": {"room": rooms.find(prompt)}}]
    else:
        calls = rooms.close_all()
    return {"response": "done", "predicted_trajectory": calls}
"""
ROOMS = """
from pathlib import Path

def find(prompt):
    return prompt.split()[-1] + Path(__file__).with_name("suffix.txt").read_text().strip()

def close_all():
    def close(room):
        return {"tool_name": "close", "tool_input": {"room": room}}
    return [close("hall")]

def stub():
    ...
"""
SETTINGS = """
[targets.home]
kind = "function"
target = "home.agent:answer"
tools = ["home.rooms:set_light", "home.rooms:close", "home.rooms:heat"]
"""


def read_parts(result: CommandResult) -> dict[str, dict[str, tuple[str, list[str]]]]:
    """Return status and case ids of each part by kind and name."""
    found: dict[str, dict[str, tuple[str, list[str]]]] = {}
    for section in result.data["sections"]:
        for part in section["parts"]:
            cases = [case.rpartition(":")[2] for case in part["cases"] or part["stale_cases"]]
            found.setdefault(part["kind"], {})[part["name"]] = (part["status"], cases)
    return found


@pytest.fixture
def home(workbench: CommandLine, make_turn: Callable[..., dict[str, Any]]) -> CommandLine:
    workbench.write("workbench.toml", SETTINGS)
    workbench.write("home/agent.py", AGENT)
    workbench.write("home/rooms.py", ROOMS)
    workbench.write("home/suffix.txt", "")
    workbench.write("home/unused.txt", "never read")
    cases = {
        "on": [make_turn("light hall", room="hall")],
        "again": [make_turn("light hall", room="hall")],
        "attic": [make_turn("light attic", room="attic")],
    }
    workbench.add_set("home/light.evalset.json", cases)
    return workbench


def test_parts_have_the_cases_that_reach_them(home: CommandLine) -> None:
    home("run")

    result = home("coverage", "--format", "json")
    parts, every = read_parts(result), ["on", "again", "attic"]

    assert (result.status, result.data["schema_version"]) == (0, 2)
    assert result.data["cases"] == {"selected": 3, "current": 3, "stale": [], "unknown": []}
    assert parts["function"] == {
        "answer": ("reached", every),
        "find": ("reached", every),
        "close_all": ("unreached", []),
        "close_all.<locals>.close": ("unreached", []),
    }
    assert parts["tool"] == {"set_light": ("reached", every), "close": ("unreached", []), "heat": ("unreached", [])}
    assert parts["prompt_file"] == {
        "home/suffix.txt": ("reached", every),
        "home/unused.txt": ("unreached", []),
    }
    assert parts["expected_tool"]["set_light"] == ("reached", every)
    assert parts["expected_tool"]["heat"] == ("unreached", [])
    arguments = [section["arguments"] for section in result.data["sections"] if section["arguments"]]
    assert arguments == [[{"tool": "set_light", "argument": "room", "values": 2, "once": ['"attic"']}]]


def test_cases_without_a_record_are_unknown_and_changed_ones_stale(home: CommandLine) -> None:
    home("run", "home/light.evalset.json:on,again")

    parts = read_parts(home("coverage", "--format", "json"))

    assert parts["function"]["find"] == ("reached", ["on", "again"])
    assert parts["function"]["close_all"] == ("unknown", [])
    text = home("coverage").out
    assert "coverage by 3 cases: 2 with a current record, 1 unknown" in text
    assert "unknown, never ran: 1 case: home/light.evalset.json:attic" in text

    home.write("home/rooms.py", ROOMS.replace("split()[-1]", "split()[1]"))
    changed = home("coverage", "home/light.evalset.json:on,again", "--format", "json")

    assert read_parts(changed)["function"]["find"] == ("stale", ["on", "again"])
    assert [each["reason"] for each in changed.data["cases"]["stale"]] == ["home/rooms.py: find() changed"] * 2


def test_all_repeats_and_executions_count(home: CommandLine) -> None:
    agent = AGENT.replace(
        "    if prompt",
        """    from pathlib import Path
    state = Path(__file__).with_name("calls.log")
    if state.exists():
        rooms.close_all()
    state.touch()
    if prompt""",
    )
    home.write("home/agent.py", agent)
    home("run", "home/light.evalset.json:on", "--runs", "2", "--concurrency", "1")

    reached = read_parts(home("coverage", "home/light.evalset.json:on", "--format", "json"))

    assert reached["function"]["close_all"] == ("reached", ["on"])
    home.write("home/rooms.py", ROOMS.replace('close("hall")', 'close("attic")'))
    changed = read_parts(home("coverage", "home/light.evalset.json:on", "--format", "json"))
    assert changed["function"]["close_all"] == ("stale", ["on"])
    assert changed["function"]["find"] == ("reached", ["on"])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("def answer(prompt):\n    import time\n    rooms.find('a') and time.sleep(60)", "timeout"),
        ("raise ValueError('no key')\ndef answer(prompt):", "setup"),
    ],
)
def test_a_case_without_an_answer_is_unknown(home: CommandLine, line: str, reason: str) -> None:
    home.write("home/agent.py", AGENT.replace("def answer(prompt):", line))
    assert home("run", "home/light.evalset.json:on", "--timeout", "1").status == 3

    result = home("coverage", "home/light.evalset.json:on", "--format", "json")

    assert result.data["cases"]["current"] == 0
    assert [each["reason"] for each in result.data["cases"]["unknown"]] == [f"it has no answer ({reason})"]
    assert read_parts(result)["function"]["close_all"] == ("unknown", [])


def test_functions_that_may_have_run_in_another_process_are_unknown(home: CommandLine) -> None:
    start = """    import concurrent.futures, multiprocessing
    fork = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=fork) as pool:
        pool.submit(rooms.close_all).result()
    if prompt"""
    home.write("home/agent.py", AGENT.replace("    if prompt", start))
    home("run")

    result = home("coverage", "--format", "json")

    assert read_parts(result)["function"]["close_all"] == ("unknown", [])
    assert read_parts(result)["function"]["find"][0] == "reached"
    notes = [note for section in result.data["sections"] for note in section["notes"]]
    assert [note for note in notes if "3 cases started other processes (os.fork)" in note]


def test_nothing_has_run(home: CommandLine) -> None:
    result = home("coverage")

    assert result.status == 0
    assert "coverage by 3 cases: 0 with a current record, 3 unknown" in result.out
    assert "unknown: find (home/rooms.py:4)" in result.out
    assert "note: no case has run yet" in result.out
    assert "never expected: heat" in result.out
    assert not (home.root / ".workbench").exists()


def test_text_names_gaps_and_with_all_the_cases(home: CommandLine) -> None:
    home("run")

    short, long = home("coverage").out, home("coverage", "--all").out

    assert "functions     █████░░░░░ 2 of 4" in short
    assert "not reached: close_all (home/rooms.py:7)" in short
    assert "find (" not in short
    assert (
        "reached: find (home/rooms.py:4): 3 cases: home/light.evalset.json:on, home/light.evalset.json:again, "
        "home/light.evalset.json:attic" in long
    )
    assert 'set_light.room: 1 of 2 values: "attic"' in short


def test_markdown_and_files(home: CommandLine) -> None:
    home("run")

    result = home("coverage", "--output", "coverage.md")

    assert (result.status, result.out) == (0, "")
    text = (home.root / "coverage.md").read_text("utf-8")
    assert "| tools | 1 of 3 | close, heat |" in text
    assert home("coverage", "--output", "coverage.xml").status == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "nothing: no such file, folder or target"),
        (["home/light.evalset.json:onn"], "did you mean 'on'?"),
        (["home/light.evalset.json:"], "no case after the colon"),
    ],
)
def test_unknown_arguments_are_one_message(home: CommandLine, arguments: list[str], message: str) -> None:
    result = home("coverage", *arguments)

    assert result.status == 2
    assert message in result.error
    assert "Traceback" not in result.error


def test_a_project_without_sets_is_one_message(workbench: CommandLine) -> None:
    shutil.rmtree(workbench.root / "home")

    result = workbench("coverage")

    assert result.status == 2
    assert "no eval set was found" in result.error


def test_damaged_source_is_named_and_its_functions_are_unknown(home: CommandLine) -> None:
    home("run")
    home.write("home/rooms.py", "def find(:\n")

    result = home("coverage")

    assert result.status == 0
    assert "note: home/rooms.py:1: invalid syntax; its functions and agents are unknown" in result.out
    assert "stale, home/rooms.py" in result.out


def test_a_damaged_history_is_one_message(home: CommandLine) -> None:
    home("run")
    for path in (home.root / ".workbench").glob("history.db*"):
        path.write_bytes(b"no database" * 1000)

    result = home("coverage")

    assert result.status == 0
    assert "Traceback" not in result.error
    assert "damaged" in result.error + result.out


def test_names_from_outside_are_neutralised(home: CommandLine, make_turn: Callable[..., dict[str, Any]]) -> None:
    turn = make_turn("light hall")
    turn["intermediate_data"] = {
        "tool_uses": [{"name": "set\x1b[31m\nlight", "args": {"api_key": "sk-1", "x": "\x07"}}]
    }
    home.add_set("home/light.evalset.json", {"on": [turn]})

    out = home("coverage", "--all").out

    assert "\x1b" not in out
    assert "\x07" not in out
    assert "sk-1" not in out


def test_tools_of_agents_elsewhere_are_known_and_their_functions_not(
    workbench: CommandLine, make_turn: Callable[..., dict[str, Any]]
) -> None:
    answer = {"type": "finished", "response": "done", "predicted_trajectory": [{"tool_name": "ping"}]}
    program = f"import json, sys\nfor line in sys.stdin: print(json.dumps({answer}), flush=True)"
    workbench.write("ping.py", program)
    workbench.write(
        "workbench.toml",
        f'[targets.ping]\nkind = "command"\ntarget = "{sys.executable} ping.py"\neval_sets = ["*.evalset.json"]\n',
    )
    shutil.rmtree(workbench.root / "home")
    workbench.add_set("ping.evalset.json", {"one": [make_turn("hello")]})
    workbench("run")

    result = workbench("coverage", "--format", "json")

    assert read_parts(result)["tool"]["ping"] == ("reached", ["one"])
    notes = [note for section in result.data["sections"] for note in section["notes"]]
    assert any("the code of ping does not run in a worker" in note for note in notes)


# Parity with coverage.py, in a process that knows nothing of workbench.

ORACLE = """
import ast, asyncio, importlib, inspect, json, os, sys, types
from pathlib import Path
import coverage

os.environ["COVERAGE_CORE"] = "ctrace"  # the default one of Python 3.14 knows no contexts

location, folder, cases = json.load(sys.stdin)
files = [str(path) for path in Path(folder).rglob("*.py")]
measured = coverage.Coverage(data_file=None, include=files)
measured.start()
module, name = location.split(":")
agent = getattr(importlib.import_module(module), name)
code = agent if inspect.isroutine(agent) else type(agent).__call__
takes_session = "session" in inspect.signature(code).parameters
for case, (prompts, state) in cases.items():
    measured.switch_context(case)
    session = types.SimpleNamespace(state=state, history=[], user_id="user", app_name="app", session_id="s")
    try:
        for prompt in prompts:
            answer = agent(prompt, session) if takes_session else agent(prompt)
            if inspect.isawaitable(answer):
                async def wait(awaitable): return await awaitable
                answer = asyncio.run(wait(answer))
            response = answer if isinstance(answer, str) else answer["response"]
            session.history.append({"prompt": prompt, "response": response})
    except Exception:
        pass
measured.stop()

def functions(node, prefix=""):
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            body = [each for each in child.body if not isinstance(getattr(each, "value", None), ast.Constant)
                    or not isinstance(each, ast.Expr)]
            yield prefix + child.name, body[0].lineno
            yield from functions(child, f"{prefix}{child.name}.<locals>.")
        else:
            inner = f"{prefix}{child.name}." if isinstance(child, ast.ClassDef) else prefix
            yield from functions(child, inner)

data, reached = measured.get_data(), {}
for path in files:
    contexts = data.contexts_by_lineno(path)
    for function, line in functions(ast.parse(Path(path).read_text("utf-8"))):
        found = set(contexts.get(line, ()))
        for case in cases if "" in found else found:
            reached.setdefault(f"{Path(path).name}::{function}", []).append(case)
print(json.dumps({function: sorted(found) for function, found in reached.items()}))
"""


@pytest.mark.parametrize(
    ("target", "location"),
    [
        ("content_creation", "content_creation.agent:assistant"),
        ("customer_support", "customer_support.agent:answer"),
        ("hello_world", "hello_world.agent:answer"),
        ("home_automation", "home_automation.agent:answer"),
        ("on_device", "on_device.agent:answer"),
    ],
)
def test_reached_functions_agree_with_coverage_py(workbench: CommandLine, target: str, location: str) -> None:
    shutil.rmtree(workbench.root)
    shutil.copytree(SAMPLES, workbench.root, ignore=shutil.ignore_patterns("__pycache__", ".workbench"))
    workbench("run", target)
    result = workbench("coverage", target, "--format", "json")
    names = [case.partition(":") for case in sorted({c for s in result.data["sections"] for p in s["parts"]
                                                     for c in p["cases"]})]  # fmt: skip
    cases = {}
    for eval_set, _, name in names:
        document = EvalSetDocument.open(workbench.root / eval_set)
        case = document.case(document.find_index(name))
        state = case.session_input.state if case.session_input else {}
        cases[f"{eval_set}:{name}"] = ([turn.user_content.text() for turn in case.conversation or ()], state)

    oracle = subprocess.run(
        [sys.executable, "-c", ORACLE], cwd=workbench.root, capture_output=True, encoding="utf-8", check=True,
        input=json.dumps([location, str(workbench.root / target), cases]),
    )  # fmt: skip
    ours = {
        f"{part['place'].rpartition('/')[2].partition(':')[0]}::{part['name']}": sorted(part["cases"])
        for section in result.data["sections"]
        for part in section["parts"]
        if part["kind"] == "function" and part["cases"]
    }

    assert result.data["cases"]["current"] == result.data["cases"]["selected"] > 3
    assert len(ours) > 5
    assert ours == json.loads(oracle.stdout)
