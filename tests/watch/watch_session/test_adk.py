"""Edits of a real ADK agent: the watch runs exactly the cases whose result changes in a full run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.watch.watched import Folder, turn, watching
from workbench.engine.plan import RunOptions, Selection
from workbench.engine.workspace import Workspace
from workbench.watch.watch_events import AllKnown, SourceBroken

pytestmark = [pytest.mark.needs_adk, pytest.mark.needs_fork]

AGENT = '''
import zlib
from pathlib import Path

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.genai import types

from . import billing, tools


class Scripted(BaseLlm):
    """Calls the tool that the first word names, and says what it gave and what the model was told."""

    model: str = "scripted"

    async def generate_content_async(self, llm_request, stream=False):
        part = llm_request.contents[-1].parts[0]
        told = f"{llm_request.config.system_instruction} {llm_request.config.tools}"
        billing.told = zlib.crc32(told.encode())
        if part.function_response:
            part = types.Part(text=f"{part.function_response.response['result']} [{billing.told}]")
        else:
            name, _, what = part.text.partition(" ")
            args = {"agent_name": "billing"} if name == "bill" else {"what": what}
            part = types.Part(
                function_call=types.FunctionCall(name="transfer_to_agent" if name == "bill" else name, args=args)
            )
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


root_agent = LlmAgent(
    name="root",
    model=Scripted(),
    instruction=(Path(__file__).parent / "prompt.txt").read_text(),
    tools=[tools.weather, tools.order, tools.city, tools.unused],
    sub_agents=[billing.billing_agent],
)
'''
BILLING = """
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.genai import types


told = 0  # what the root agent's model was told


class Billing(BaseLlm):
    model: str = "billing"

    async def generate_content_async(self, llm_request, stream=False):
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=f"{total()} [{told}]")]))


def total():
    return "10 Euro"


billing_agent = LlmAgent(name="billing", model=Billing(), description="Bills.", disallow_transfer_to_parent=True)
"""
TOOLS = '''
import json
import os
from pathlib import Path

from . import helper


def weather(what: str) -> str:
    """Tell the weather."""
    try:
        from . import forecast
    except ImportError:
        return helper.polite("sun in " + what)
    return forecast.of(what)


def order(what: str) -> str:
    """Look an order up."""
    orders = json.loads((Path(__file__).parent / "orders.json").read_text())
    return helper.polite(orders[what])


def city(what: str) -> str:
    """Tell the city."""
    return os.environ["SAMPLE_CITY"]


def unused(what: str) -> str:
    """Nobody calls this."""
    return "unused"
'''
HELPER = """
def polite(text):
    return text + ", please"


def rude(text):
    return text
"""
FILES = {
    "__init__.py": "from . import agent\n",
    "agent.py": AGENT,
    "billing.py": BILLING,
    "tools.py": TOOLS,
    "helper.py": HELPER,
    "prompt.txt": "Be brief.",
    "orders.json": '{"one": "shoes"}',
    ".env": "SAMPLE_CITY=Berlin\nSAMPLE_OTHER=1\n",
}
PROMPTS = {
    "weather": "weather Rome",
    "again": "weather Oslo",
    "order": "order one",
    "city": "city ?",
    "bill": "bill me",
}
ALL = set(PROMPTS)


class Project(Folder):
    """A project with one ADK agent, `shop`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name, text in FILES.items():
            self.write(f"shop/{name}", text)
        cases = [{"eval_id": name, "conversation": [turn(prompt)]} for name, prompt in PROMPTS.items()]
        self.write("shop/set.evalset.json", json.dumps({"eval_set_id": "set", "eval_cases": cases}))
        self.write("shop/test_config.json", '{"criteria": {"exact_match": 1.0}}')


EDITS: list[tuple[str, str, str, str, set[str]]] = [
    ("the body of a tool", "tools.py", '"sun in "', '"rain in "', {"weather", "again"}),
    ("a docstring of a tool that is not called", "tools.py", "Nobody calls this.", "Really nobody.", ALL),
    ("the body of a tool that is not called", "tools.py", 'return "unused"', 'return "not used"', set()),
    ("a comment", "agent.py", "\nclass Scripted", "\n# a comment\nclass Scripted", set()),
    ("the instruction in a file", "prompt.txt", "Be brief.", "Be long.", ALL),
    ("the code of a sub-agent", "billing.py", "10 Euro", "12 Euro", {"bill"}),
    ("a helper of two tools", "helper.py", ", please", ", thank you", {"weather", "again", "order"}),
    ("a helper of none", "helper.py", "return text\n", "return text.upper()\n", set()),
    ("data", "orders.json", "shoes", "boots", {"order"}),
    ("a variable that is read", ".env", "Berlin", "Bonn", {"city"}),
    ("a variable that is not read", ".env", "SAMPLE_OTHER=1", "SAMPLE_OTHER=2", set()),
    ("a new module that nobody looks for", "other.py", "", "VALUE = 1\n", set()),
    (
        "a new module that a tool looks for",
        "forecast.py",
        "",
        "def of(what):\n    return 'snow'\n",
        {"weather", "again"},
    ),
    ("a parameter of a tool", "tools.py", "def unused(what: str)", "def unused(what: str, how: str)", ALL),
]


async def test_after_each_edit_that_runs_which_a_full_run_finds_changed(tmp_path: Path) -> None:
    watched_project, other = Project(tmp_path / "watched"), Project(tmp_path / "other")
    with Workspace.open(other.root) as workspace:
        async with watching(watched_project.root) as watched:
            start = await watched.until_quiet()
            assert start.verdicts.keys() == PROMPTS.keys()
            before = await _responses(workspace)
            for what, name, old, new, expected in EDITS:
                for project in (watched_project, other):
                    path = project.root / "shop" / name
                    text = path.read_text() if path.exists() else ""
                    assert old in text, what
                    edited = text.replace(old, new, 1) if old else new
                    save = _saving(project, f"shop/{name}", edited)
                    if project is watched_project:
                        saved = await watched.after(save)
                    else:
                        save()
                after = await _responses(workspace)
                changed = {eval_id for eval_id in PROMPTS if before[eval_id] != after[eval_id]}
                assert changed == expected, what
                assert saved.verdicts.keys() == changed, (what, saved.change.reason)
                assert saved.first(AllKnown).stale == 0, what
                before = after

            undone = await watched.after(_saving(watched_project, "shop/tools.py", text))
            assert undone.verdicts == {}
            assert undone.stored.keys() == ALL

            helper = watched_project.root / "shop" / "helper.py"
            whole = helper.read_text()
            broken = await watched.after(lambda: watched_project.write("shop/helper.py", "def half(\n"))
            assert broken.verdicts == {}
            assert broken.first(SourceBroken).cases == len(PROMPTS)
            mended = await watched.after(lambda: watched_project.write("shop/helper.py", whole))
            assert mended.verdicts == {}
            assert mended.first(AllKnown).stale == 0


async def test_a_nearer_env_file_counts_from_when_it_is_there(tmp_path: Path) -> None:
    project = Project(tmp_path)
    (tmp_path / "shop/.env").rename(tmp_path / ".env")
    async with watching(tmp_path) as watched:
        await watched.until_quiet()

        nearer = await watched.after(_saving(project, "shop/.env", "SAMPLE_CITY=Bonn\n"))
        assert "city" in nearer.verdicts
        farther = await watched.after(_saving(project, ".env", "SAMPLE_CITY=Rome\n"))
        assert farther.verdicts == {}
        edited = await watched.after(_saving(project, "shop/.env", "SAMPLE_CITY=Oslo\n"))
        assert edited.verdicts.keys() == {"city"}
        gone = await watched.after((tmp_path / "shop/.env").unlink)
        assert "city" in gone.verdicts


def _saving(project: Project, name: str, text: str) -> Callable[[], object]:
    return lambda: project.write(name, text)


async def _responses(workspace: Workspace) -> dict[str, str]:
    """What a run of all cases gives."""

    def run() -> dict[str, str]:
        workspace.refresh()
        selections = [Selection(eval_set=entry.relative) for entry in workspace.project.eval_sets]
        run = workspace.start(workspace.plan(selections, RunOptions(adk_results=False, retries=0)))
        for _ in run.iter_events():
            pass
        results = run.results()
        return {result.case.eval_id: _response(result.execution.turns, result.failure) for result in results}

    return await asyncio.to_thread(run)


def _response(turns: object, failure: object) -> str:
    assert failure is None, failure
    text: str = turns[-1].invocation.final_response.text()
    return text
