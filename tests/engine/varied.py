"""Agents and conversations of which tests run variants."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.engine.project import Project, turn
from tests.llm.servers import Call, HttpResponse
from workbench.engine.case_variants import CaseExecutor
from workbench.engine.plan import RunOptions, Selection
from workbench.engine.shrinking import FailureTest, Shrinker, Shrunk, make_predicate_config
from workbench.engine.workspace import Workspace
from workbench.model.identity import CaseKey, JobKey
from workbench.model.target import ModelMode

ADK = '''
import os
from google.adk.agents import Agent
os.environ.update(GOOGLE_GEMINI_BASE_URL="{url}", GOOGLE_API_KEY="AIzaSyAveryverysecretkey0123456789abcd")

def set_light(room: str) -> str:
    "Switch on a light."
    return "on"

def computed(context):
    return "You are idle."

helper = Agent(name="helper", model="gemini-2.5-flash", description="Helps.", instruction="Help.")
idle = Agent(name="idle", model="gemini-2.5-flash", description="Idles.", instruction=computed)
root_agent = Agent(
    name="house", model="gemini-2.5-flash", sub_agents=[helper, idle], tools=[set_light],
    instruction="""You switch lights.
Be nice.

Always use the tool.
The room is {{room?}}.
""",
)
'''


LIGHTS = """
from pathlib import Path

def answer(prompt, session):
    if not session.history:
        with Path(__file__).with_name("sessions.txt").open("a") as file:
            file.write("x")
    if "away" in prompt:
        session.state["away"] = True
    if "crash" in prompt and not session.state.get("safe"):
        raise ValueError("kaboom")
    if "light" not in prompt:
        return "ok"
    room = "attic" if session.state.get("away") else "hall"
    return {"response": "ok", "predicted_trajectory": [{"tool_name": "set_light", "tool_input": {"room": room}}]}
"""


def light(prompt: str, room: str) -> dict[str, Any]:
    return turn(prompt, response="ok", calls=[{"name": "set_light", "args": {"room": room}}])


def small_talk(number: int) -> dict[str, Any]:
    return turn(f"This is remark {number}.", response="ok")


def make_conversation() -> list[dict[str, Any]]:
    """Return 12 turns. The 9th fails because of the 3rd."""
    turns = [small_talk(number) for number in range(1, 13)]
    turns[2] = turn("We are away.", response="ok")
    turns[8] = light("Switch on the light.", "hall")
    return turns


def shrink(
    project: Project,
    *,
    budget: int = 100,
    repeats: int = 1,
    criteria: Sequence[str] = (),
    predicate: str | None = None,
    name: str = "set.evalset.json",
    **options: Any,
) -> Shrunk:
    config = None if predicate is None else make_predicate_config(predicate)
    options = {"models_by_default": ModelMode.AUTO, **options}
    workspace = project.open_workspace()
    with CaseExecutor(workspace, [Selection(eval_set=name)], RunOptions(**options), config=config) as executor:
        test = FailureTest(predicate=predicate is not None, criteria=criteria)
        return Shrinker(executor=executor, test=test, budget=budget, repeats=repeats).shrink()


def reply(call: Call) -> HttpResponse:
    """Use the tool only if the instruction says so; without "Be nice." answer in another way."""
    contents = call.body["contents"]
    system = json.dumps(call.body["systemInstruction"])
    part: dict[str, Any] = {"text": "The light is on." if "Be nice." in system else "It is done."}
    if "Always use the tool." in system and "functionResponse" not in contents[-1]["parts"][-1]:
        part = {"functionCall": {"name": "set_light", "args": {"room": "hall"}}}
    return HttpResponse({"candidates": [{"content": {"role": "model", "parts": [part]}}], "modelVersion": "m"})


def describe_project(workspace: Workspace, case: CaseKey) -> Any:
    """Return the files of a project, its runs, and the recorded model calls of a case."""
    files = {
        str(path.relative_to(workspace.root)): path.read_bytes()
        for path in workspace.root.rglob("*")
        if path.is_file() and not {"__pycache__", ".workbench"} & set(path.parts)
    }
    with workspace.history() as history:
        runs = [run.run_id for run in history.runs(10)]
    return files, runs, [recorded.calls for recorded in workspace.iter_stored_calls(JobKey(case=case))]
