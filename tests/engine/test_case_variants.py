"""Executions of variants of one case, which leave the project as it is."""

from __future__ import annotations

import json

import pytest

from tests.engine.project import Project, turn
from tests.engine.varied import describe_project, light, shrink, small_talk
from tests.llm.servers import Call, HttpResponse, run_server
from workbench.engine.plan import Selection
from workbench.engine.shrinking import (
    CandidateOutcome,
)
from workbench.model.identity import CaseKey
from workbench.model.target import ModelMode

ADK = """
import os
from google.adk.agents import Agent
os.environ.update(GOOGLE_GEMINI_BASE_URL="{url}", GOOGLE_API_KEY="AIzaSyAveryverysecretkey0123456789abcd")

def set_light(room: str) -> str:
    "Switch on a light."
    return "on"

root_agent = Agent(name="house", model="gemini-2.5-flash", instruction="You switch lights.", tools=[set_light])
"""


def reply(call: Call) -> HttpResponse:
    """Switch on the light of the attic if the user said before that they are away."""
    contents = call.body["contents"]
    texts = [part.get("text", "") for content in contents for part in content["parts"]]
    room = "attic" if any("away" in text for text in texts) else "hall"
    asks = "light" in texts[-1] and "functionResponse" not in contents[-1]["parts"][-1]
    part = {"functionCall": {"name": "set_light", "args": {"room": room}}} if asks else {"text": "ok"}
    return HttpResponse({"candidates": [{"content": {"role": "model", "parts": [part]}}], "modelVersion": "m"})


@pytest.mark.needs_adk
@pytest.mark.prepared("adk")
@pytest.mark.needs_fork
def test_an_adk_agent_replays_recorded_calls_and_the_project_stays_as_it_is(project: Project) -> None:
    folder = project.root / "house"
    folder.mkdir()
    (project.root / "workbench.toml").write_text("")
    (folder / "__init__.py").write_text("from . import agent\n")
    (folder / "test_config.json").write_text('{"criteria": {"tool_trajectory_avg_score": 1.0}}')
    turns = [small_talk(1), turn("We are away.", response="ok"), small_talk(2), light("Switch on the light.", "hall")]
    cases = [{"eval_id": "a", "conversation": turns}]
    (folder / "h.evalset.json").write_text(json.dumps({"eval_set_id": "h", "eval_cases": cases}))
    with run_server(reply) as server:
        (folder / "agent.py").write_text(ADK.format(url=server.url))
        workspace = project.open_workspace()
        project.run(Selection(eval_set="house/h.evalset.json"), workspace=workspace, models=ModelMode.AUTO)
        recorded, case = len(server.calls), CaseKey(target="house", eval_set="house/h.evalset.json", eval_id="a")
        before = describe_project(workspace, case)

        found = shrink(project, name="house/h.evalset.json")

        asked = len(server.calls) - recorded
    assert (found.outcome, found.turns) == (CandidateOutcome.SAME, [1, 3])
    (first,) = found.steps[0].variants
    assert first.result.execution.model_calls is not None
    assert (first.result.execution.model_calls.live, first.result.execution.model_calls.replayed) == (0, recorded)
    counts = [step.variants[0].result.execution.model_calls for step in found.steps]
    assert asked == sum(each.live for each in counts if each is not None)
    assert any(each is not None and each.live and each.replayed for each in counts)  # equal beginnings are shared
    assert describe_project(workspace, case) == before
    assert len(before[2]) == 1
