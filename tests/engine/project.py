"""A project with a function agent, created for each test and run for real."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from workbench.engine.plan import Plan, RunOptions, Selection
from workbench.engine.run import Run
from workbench.engine.workspace import Workspace
from workbench.model.results import CaseResult

SET = Selection(eval_set="set.evalset.json")


def turn(prompt: str, *, response: str | None = None, calls: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """Make an invocation in the file format. The expected response defaults to the prompt."""
    return {
        "user_content": {"role": "user", "parts": [{"text": prompt}]},
        "final_response": {"role": "model", "parts": [{"text": prompt if response is None else response}]},
        "intermediate_data": {"tool_uses": calls or []},
    }


class Project:
    """A folder with one function agent, `agent.answer`, and the eval set `set.evalset.json`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._workspaces: list[Workspace] = []
        (root / "workbench.toml").write_text(
            '[targets.sample]\nkind = "function"\ntarget = "agent:answer"\neval_sets = ["*.evalset.json"]\n'
        )
        self.add_agent("def answer(prompt): return {'response': prompt, 'predicted_trajectory': []}")

    def add_agent(self, code: str) -> None:
        """Replace the agent's module."""
        (self.root / "agent.py").write_text(dedent(code))

    def add_set(self, cases: Mapping[str, list[dict[str, Any]] | dict[str, Any]], *, name: str = "set") -> str:
        """Write an eval set. Each case is a list of turns, or a whole case without its id."""
        eval_cases = [
            {"eval_id": eval_id, **({"conversation": case} if isinstance(case, list) else case)}
            for eval_id, case in cases.items()
        ]
        path = self.root / f"{name}.evalset.json"
        path.write_text(json.dumps({"eval_set_id": name, "eval_cases": eval_cases}), encoding="utf-8")
        return path.name

    def add_criteria(self, **criteria: Any) -> None:
        """Write the `test_config.json` next to the sets."""
        (self.root / "test_config.json").write_text(json.dumps({"criteria": criteria}))

    def open_workspace(self) -> Workspace:
        """Open the project. The workspace is closed when the test ends."""
        workspace = Workspace.open(self.root)
        self._workspaces.append(workspace)
        return workspace

    def run(self, *selections: Selection, workspace: Workspace | None = None, **options: Any) -> Run:
        """Run to the end. The default selection is `set.evalset.json`, or that of the resumed run."""
        workspace = workspace or self.open_workspace()
        default = [] if "resume" in options else [Selection(eval_set="set.evalset.json")]
        plan = workspace.plan(selections or default, RunOptions(**options))
        run = workspace.start(plan)
        list(run.iter_events())
        return run

    def close(self) -> None:
        for workspace in self._workspaces:
            workspace.close()


def get_statuses(run: Run) -> dict[str, str]:
    """Return the status of each case, by its id."""
    return {result.case.eval_id: result.status.value for result in run.results()}


def get_failure_message(run: Run, eval_id: str) -> str:
    """Return the failure message of a case."""
    failure = find_result(run, eval_id).failure
    assert failure is not None
    return failure.message


def find_result(run: Run, eval_id: str) -> CaseResult:
    return next(result for result in run.results() if result.case.eval_id == eval_id)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.setattr("workbench.engine.runner._backoff_seconds", lambda tries: 0.01)  # the default takes seconds
    project = Project(tmp_path)
    project.add_criteria(tool_trajectory_avg_score=1.0)
    yield project
    project.close()


def make_plan(project: Project, *selections: Selection, **options: object) -> Plan:
    return project.open_workspace().plan(selections or [SET], RunOptions.model_validate(options))
