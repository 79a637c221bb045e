"""The GitHub Action: its steps run here as on a runner, with stand-ins for what GitHub provides."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import check_jsonschema
import pytest
import yaml
from click.testing import CliRunner

from tests.docs.blocks import find_blocks
from workbench.cli.main import main

ROOT = Path(__file__).parent.parent
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
STEPS = {step["id"]: step for step in ACTION["runs"]["steps"] if "run" in step}
_EXPRESSION = re.compile(r"\$\{\{ *([\w.-]+) *\}\}")

# `gh` that stores each call, and lists the comments in a file.
GH = """#!/bin/sh
case "$*" in
  *--paginate*) cat comments 2>/dev/null; exit 0 ;;
esac
printf '%s\\n' "$*" >> calls
for argument in "$@"; do case "$argument" in body=@*) cp "${argument#body=@}" posted.md ;; esac; done
"""


class Runner:
    """A project on a runner. `outputs` are those of the steps so far."""

    def __init__(self, root: Path) -> None:
        self.project = root / "workspace"
        self._root = root
        self.outputs: dict[str, str] = {}
        (root / "bin").mkdir()
        (root / "bin/gh").write_text(GH)
        (root / "bin/gh").chmod(0o755)
        (root / "summary").touch()

    @property
    def summary(self) -> str:
        return (self._root / "summary").read_text("utf-8")

    def run(self, step: str, inputs: Mapping[str, str] | None = None) -> int:
        """Run a step of the action; return its exit status."""
        known = {f"inputs.{name}": str(value.get("default", "")) for name, value in ACTION["inputs"].items()}
        known |= {f"inputs.{name}": value for name, value in (inputs or {}).items()}
        known |= {"inputs.python": sys.executable, "github.event.pull_request.number": "7"}
        known |= {f"steps.{name}": value for name, value in self.outputs.items()}
        assert not _EXPRESSION.search(STEPS[step]["run"])  # inputs come as variables, so that they cannot inject code
        environment = {
            name: _EXPRESSION.sub(lambda match: known[match[1]], value) for name, value in STEPS[step]["env"].items()
        }
        output = self._root / "output"
        output.write_text("")
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[step]["run"]],
            cwd=self.project,
            env={
                **os.environ,
                "PATH": f"{self._root / 'bin'}{os.pathsep}{os.environ['PATH']}",
                "PYTHONPATH": str(ROOT),
                "RUNNER_TEMP": str(self._root / "temp"),
                "GITHUB_OUTPUT": str(output),
                "GITHUB_STEP_SUMMARY": str(self._root / "summary"),
                "GITHUB_WORKSPACE": str(self.project),
                "GITHUB_REPOSITORY": "me/agents",
                **environment,
            },
            check=False,
            capture_output=True,
            text=True,
        )
        pairs = (line.split("=", 1) for line in output.read_text().splitlines())
        self.outputs |= {f"{step}.outputs.{name}": value for name, value in pairs}
        return done.returncode

    def read(self, name: str) -> str:
        """Read a file that `gh` has written in the project."""
        path = self.project / name
        return path.read_text("utf-8") if path.exists() else ""

    def spoil(self) -> None:
        """Make the agent answer something else."""
        (self.project / "agent.py").write_text("def answer(prompt):\n    return 'spoiled'\n")


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    found = Runner(tmp_path)
    found.project.mkdir()
    (found.project / "workbench.toml").write_text(
        '[targets.echo]\nkind = "function"\ntarget = "agent:answer"\neval_sets = ["*.evalset.json"]\n'
    )
    (found.project / "agent.py").write_text("def answer(prompt):\n    return prompt\n")
    (found.project / "test_config.json").write_text('{"criteria": {"exact_match": 1.0}}')
    turns = '[{"user_content": {"parts": [{"text": "hi"}]}, "final_response": {"parts": [{"text": "hi"}]}}]'
    cases = ", ".join(f'{{"eval_id": "case {n}", "conversation": {turns}}}' for n in range(4))
    (found.project / "set.evalset.json").write_text(f'{{"eval_set_id": "set", "eval_cases": [{cases}]}}')
    return found


def run_in_this_process(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run all cases without the action, for a history with another run."""
    monkeypatch.chdir(runner.project)
    assert main(["run"]) == 0


def test_a_run_writes_summary_junit_and_page(runner: Runner) -> None:
    assert runner.run("run", {"arguments": "set.evalset.json --case 'case 2' --plain"}) == 0

    folder = Path(runner.outputs["run.outputs.folder"])
    assert runner.outputs["run.outputs.status"] == "0"
    assert 'tests="1"' in (folder / "results.xml").read_text()
    assert "<html" in (folder / "report.html").read_text()
    assert "1 case: 1 passed" in runner.summary
    assert runner.run("exit") == 0


def test_the_exit_status_of_the_action_is_that_of_the_run(runner: Runner) -> None:
    runner.spoil()

    assert runner.run("run") == 0  # reports are uploaded before the action fails
    assert runner.run("exit") == 1


def test_a_run_that_cannot_start_reports_nothing(runner: Runner) -> None:
    runner.run("run")

    runner.run("run", {"arguments": "nowhere"})

    assert runner.outputs["run.outputs.status"] == "2"
    assert not Path(runner.outputs["run.outputs.folder"], "report.html").exists()


def test_arguments_are_no_code(runner: Runner) -> None:
    runner.run("run", {"arguments": "$(touch broken) ; touch broken `touch broken`"})

    assert not (runner.project / "broken").exists()
    assert runner.outputs["run.outputs.status"] == "2"


def test_shards_are_merged(runner: Runner) -> None:
    for number in (1, 2):
        assert runner.run("run", {"shard": f"{number}/2"}) == 0
        assert runner.outputs["run.outputs.suffix"] == f"-{number}-of-2"  # names of artefacts may not have slashes
        part = runner.project / f"shards/workbench-history-{number}-of-2"
        part.parent.mkdir(exist_ok=True)
        (runner.project / ".workbench").rename(part)

    assert runner.run("run", {"merge": "shards"}) == 0

    assert runner.outputs["run.outputs.status"] == "0"
    assert "4 cases: 4 passed" in runner.summary


def test_a_regression_is_commented_once_and_then_updated(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    run_in_this_process(runner, monkeypatch)
    runner.spoil()
    runner.run("run")

    assert runner.run("comment") == 0
    assert "--method POST repos/me/agents/issues/7/comments" in runner.read("calls")
    assert "4 regressions" in runner.read("posted.md")
    (runner.project / "comments").write_text("123\n")
    assert runner.run("comment") == 0
    assert "--method PATCH repos/me/agents/issues/comments/123" in runner.read("calls")


def test_without_regressions_or_an_earlier_run_nothing_is_commented(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.run("run")
    assert runner.run("comment") == 0
    run_in_this_process(runner, monkeypatch)
    assert runner.run("comment") == 0

    assert runner.read("calls") == ""


def test_the_install_step_takes_extras(runner: Runner) -> None:
    step = STEPS["install"]["run"].replace('"$PYTHON" -m pip', "printf '%s\\n'")
    for extras, expected in (("", "/action"), ("adk,pandas", "/action[adk,pandas]")):
        environment = {"SOURCE": "/action", "EXTRAS": extras}
        printed = subprocess.run(["bash", "-c", step], env=environment, check=True, capture_output=True, text=True)
        assert printed.stdout.split()[-1] == expected


def check_schema(schema: str, file: Path) -> None:
    done = CliRunner().invoke(check_jsonschema.main, ["--builtin-schema", f"vendor.{schema}", str(file)])
    assert done.exit_code == 0, f"{file}: {done.output}"


def test_the_action_fits_its_schema() -> None:
    check_schema("github-actions", ROOT / "action.yml")


@pytest.mark.parametrize("workflow", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=lambda path: path.name)
def test_workflows_fit_their_schema(workflow: Path) -> None:
    check_schema("github-workflows", workflow)


def test_documented_examples_fit_their_schemas_and_use_known_inputs(tmp_path: Path) -> None:
    blocks = [block for block in find_blocks("yaml") if block.page == "docs/ci.md"]
    used = 0
    for number, block in enumerate(blocks):
        path = tmp_path / f"{number}.yml"
        path.write_text(block.text)
        content: dict[str, Any] = yaml.safe_load(block.text)
        check_schema("github-workflows" if "jobs" in content else "gitlab-ci", path)
        for job in content.get("jobs", {}).values():
            for step in job["steps"]:
                if step.get("uses", "").startswith("OWNER/workbench"):
                    used += 1
                    assert set(step["with"]) <= set(ACTION["inputs"])

    assert len(blocks) == 3
    assert used == 3
