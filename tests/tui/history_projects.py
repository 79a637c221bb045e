"""Projects whose cases ran before the screen opens, so that they have a history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from workbench.engine.plan import RunOptions, Selection
from workbench.engine.workspace import Workspace
from workbench.model.results import CaseResult

AGENT = """
from pathlib import Path

def answer(prompt):
    broken = Path(__file__).with_name("broken.txt")
    wrong = broken.exists() and prompt in broken.read_text().split()
    if prompt == "raise":
        raise ValueError("x [/foo] [bold] \\x1b[31m")
    call = {"tool_name": "pong" if wrong else "ping", "tool_input": {"n": 1}}
    return {"response": f"did {prompt} [/b]", "predicted_trajectory": [call]}
"""


def case(eval_id: str, prompt: str | None = None) -> dict[str, Any]:
    """Return a case that expects a call of ping."""
    return {
        "eval_id": eval_id,
        "conversation": [
            {
                "user_content": {"role": "user", "parts": [{"text": prompt or eval_id}]},
                "final_response": {"role": "model", "parts": [{"text": f"did {prompt or eval_id} [/b]"}]},
                "intermediate_data": {"tool_uses": [{"name": "ping", "args": {"n": 1}}]},
            }
        ],
    }


class HistoryProject:
    """A project in a folder, and its runs."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def set_failing_prompts(self, *prompts: str) -> None:
        """Set how the agent fails from now on."""
        (self.path / "broken.txt").write_text(" ".join(prompts), encoding="utf-8")

    def run(self, *sets: str, runs: int = 1) -> Sequence[CaseResult]:
        """Run whole sets, every case several times."""
        with Workspace.open(self.path) as workspace:
            selections = [Selection(eval_set=f"{name}.evalset.json") for name in sets or ("lights",)]
            run = workspace.start(
                workspace.plan(selections, RunOptions(runs=runs, concurrency=1, command="workbench run lights"))
            )
            for _ in run.iter_events():
                pass
            return run.results()


@pytest.fixture
def make_history_project(make_project: Callable[..., Path]) -> Callable[..., HistoryProject]:
    """Create a project with the set `lights` of these cases, and other sets."""

    def make(*eval_ids: str, **more: Any) -> HistoryProject:
        return HistoryProject(make_project(agent=AGENT, lights=[case(eval_id) for eval_id in eval_ids], **more))

    return make


@pytest.fixture
def make_case() -> Callable[..., dict[str, Any]]:
    return case
