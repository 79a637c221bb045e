"""Edits of a real ADK agent: the watch runs exactly the cases whose result changes in a full run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.watch.watched import Folder, turn, watch_project
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


async def test_each_edit_runs_exactly_the_cases_that_a_full_run_finds_changed(tmp_path: Path) -> None:
    first_project, second_project = Project(tmp_path / "watched"), Project(tmp_path / "other")
    with Workspace.open(second_project.root) as workspace:
        async with watch_project(first_project.root) as watch:
            start = await watch.wait_until_quiet()
            assert start.verdicts.keys() == PROMPTS.keys()
            before = await _run_all(workspace)
            for description, name, old, new, expected in EDITS:
                for project in (first_project, second_project):
                    path = project.root / "shop" / name
                    text = path.read_text() if path.exists() else ""
                    assert old in text, description
                    edited = text.replace(old, new, 1) if old else new
                    save = _make_save(project, f"shop/{name}", edited)
                    if project is first_project:
                        saved = await watch.apply(save)
                    else:
                        save()
                after = await _run_all(workspace)
                changed = {eval_id for eval_id in PROMPTS if before[eval_id] != after[eval_id]}
                assert changed == expected, description
                assert saved.verdicts.keys() == changed, (description, saved.change.reason)
                assert saved.first(AllKnown).stale == 0, description
                before = after

            undone = await watch.apply(_make_save(first_project, "shop/tools.py", text))
            assert undone.verdicts == {}
            assert undone.stored_verdicts.keys() == ALL

            helper = first_project.root / "shop" / "helper.py"
            original_text = helper.read_text()
            broken = await watch.apply(lambda: first_project.write("shop/helper.py", "def half(\n"))
            assert broken.verdicts == {}
            assert broken.first(SourceBroken).cases == len(PROMPTS)
            mended = await watch.apply(lambda: first_project.write("shop/helper.py", original_text))
            assert mended.verdicts == {}
            assert mended.first(AllKnown).stale == 0


async def test_a_nearer_env_file_overrides_once_it_exists(tmp_path: Path) -> None:
    project = Project(tmp_path)
    (tmp_path / "shop/.env").rename(tmp_path / ".env")
    async with watch_project(tmp_path) as watch:
        await watch.wait_until_quiet()

        nearer = await watch.apply(_make_save(project, "shop/.env", "SAMPLE_CITY=Bonn\n"))
        assert "city" in nearer.verdicts
        farther = await watch.apply(_make_save(project, ".env", "SAMPLE_CITY=Rome\n"))
        assert farther.verdicts == {}
        edited = await watch.apply(_make_save(project, "shop/.env", "SAMPLE_CITY=Oslo\n"))
        assert edited.verdicts.keys() == {"city"}
        deletion = await watch.apply((tmp_path / "shop/.env").unlink)
        assert "city" in deletion.verdicts


def _make_save(project: Project, name: str, text: str) -> Callable[[], object]:
    return lambda: project.write(name, text)


async def _run_all(workspace: Workspace) -> dict[str, str]:
    """Run all cases, and return their responses."""

    def run() -> dict[str, str]:
        workspace.refresh()
        selections = [Selection(eval_set=entry.relative) for entry in workspace.project.eval_sets]
        run = workspace.start(workspace.plan(selections, RunOptions(adk_results=False, retries=0)))
        for _ in run.iter_events():
            pass
        results = run.results()
        return {result.case.eval_id: _get_response(result.execution.turns, result.failure) for result in results}

    return await asyncio.to_thread(run)


def _get_response(turns: object, failure: object) -> str:
    assert failure is None, failure
    text: str = turns[-1].invocation.final_response.text()
    return text
