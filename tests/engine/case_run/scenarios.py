"""What the tests of simulated users share: scenarios, a model that plays them, and runs."""

from __future__ import annotations

import json
from typing import Any

from tests.llm.servers import Call, Said, gemini
from tests.watch.watched import Folder
from workbench.engine.plan import RunOptions, Selection
from workbench.engine.run import Run
from workbench.engine.workspace import Workspace
from workbench.model.results import CaseResult

SET = Selection(eval_set="set.evalset.json")
FITS = {"trajectory_single_tool_use": {"threshold": 0.5, "tool_name": "roll"}}
AGENT = """
def answer(prompt, session):
    session.state["n"] = session.state.get("n", 0) + 1
    called = "roll" in prompt
    return {
        "response": f"answer {session.state['n']} to {prompt}",
        "predicted_trajectory": [{"tool_name": "roll", "tool_input": {"sides": 20}}] if called else [],
    }
"""


def scenario(persona: Any = None, **other: Any) -> dict[str, Any]:
    found = {"starting_prompt": "hello", "conversation_plan": "Have a die rolled, then check it.", **other}
    return {"conversation_scenario": found if persona is None else {**found, "user_persona": persona}}


def prompt(call: Call) -> str:
    text: str = call.body["contents"][0]["parts"][0]["text"]
    return text


def plays(*messages: str) -> Any:
    """A user who says these one after the other, by how often the agent has answered, and then stops."""

    def answer(call: Call) -> Said:
        said = prompt(call).count("agent: answer")
        return gemini(messages[said - 1] if said <= len(messages) else "Thanks, that is all. </FINISHED>")

    return answer


def write(folder: Folder, cases: dict[str, Any], **config: Any) -> None:
    written = [{"eval_id": name, **case} for name, case in cases.items()]
    folder.write("set.evalset.json", json.dumps({"eval_set_id": "set", "eval_cases": written}))
    if config:
        folder.write("test_config.json", json.dumps({"criteria": FITS, **config}))


def run(folder: Folder, **options: Any) -> Run:
    with Workspace.open(folder.root) as workspace:
        started = workspace.start(workspace.plan([SET], RunOptions(**options)))
        list(started.iter_events())
        return started


def results(run: Run) -> dict[str, CaseResult]:
    return {result.case.eval_id: result for result in run.results()}


def said(result: CaseResult) -> list[str]:
    return [turn.invocation.user_content.text() for turn in result.execution.turns]


SCRIPT = {
    "rules": [
        {"for": "user", "when": ["agent: answer 2"], "reply": "</finished>"},
        {"for": "user", "when": ["answer (\\d) to (?P<what>hello)"], "reply": "roll for \\g<what> \\1"},
    ]
}
