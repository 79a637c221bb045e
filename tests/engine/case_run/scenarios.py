"""Shared helpers for tests of simulated users: scenarios, a model that plays them, and runs."""

from __future__ import annotations

import json
from typing import Any

from tests.llm.servers import Call, HttpResponse, gemini
from tests.watch.watched import Folder
from workbench.engine.plan import RunOptions, Selection
from workbench.engine.run import Run
from workbench.engine.workspace import Workspace
from workbench.model.results import CaseResult

SET = Selection(eval_set="set.evalset.json")
CRITERIA = {"trajectory_single_tool_use": {"threshold": 0.5, "tool_name": "roll"}}
AGENT = """
def answer(prompt, session):
    session.state["n"] = session.state.get("n", 0) + 1
    called = "roll" in prompt
    return {
        "response": f"answer {session.state['n']} to {prompt}",
        "predicted_trajectory": [{"tool_name": "roll", "tool_input": {"sides": 20}}] if called else [],
    }
"""


def scenario(persona: Any = None, **options: Any) -> dict[str, Any]:
    definition = {"starting_prompt": "hello", "conversation_plan": "Have a die rolled, then check it.", **options}
    return {"conversation_scenario": definition if persona is None else {**definition, "user_persona": persona}}


def get_prompt(call: Call) -> str:
    text: str = call.body["contents"][0]["parts"][0]["text"]
    return text


def play_user(*messages: str) -> Any:
    """Make a model that plays a user. It sends these messages one after the other, then the stop signal."""

    def answer(call: Call) -> HttpResponse:
        answer_count = get_prompt(call).count("agent: answer")
        return gemini(
            messages[answer_count - 1] if answer_count <= len(messages) else "Thanks, that is all. </FINISHED>"
        )

    return answer


def write_cases(folder: Folder, cases: dict[str, Any], **config: Any) -> None:
    eval_cases = [{"eval_id": name, **case} for name, case in cases.items()]
    folder.write("set.evalset.json", json.dumps({"eval_set_id": "set", "eval_cases": eval_cases}))
    if config:
        folder.write("test_config.json", json.dumps({"criteria": CRITERIA, **config}))


def run(folder: Folder, **options: Any) -> Run:
    with Workspace.open(folder.root) as workspace:
        finished_run = workspace.start(workspace.plan([SET], RunOptions(**options)))
        list(finished_run.iter_events())
        return finished_run


def get_results(run: Run) -> dict[str, CaseResult]:
    return {result.case.eval_id: result for result in run.results()}


def get_user_messages(result: CaseResult) -> list[str]:
    return [turn.invocation.user_content.text() for turn in result.execution.turns]


SCRIPT = {
    "rules": [
        {"for": "user", "when": ["agent: answer 2"], "reply": "</finished>"},
        {"for": "user", "when": ["answer (\\d) to (?P<what>hello)"], "reply": "roll for \\g<what> \\1"},
    ]
}
