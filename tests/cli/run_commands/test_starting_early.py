"""`workbench run` and `eval` start the interpreters of agents before they import planner and judges."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.command_line import CommandLine, turn

# Prints the number of running processes just before the planner is imported.
PROBE = """
import os, sys
from tests.processes import find_children


class Probe:
    def find_spec(self, name, path=None, target=None):
        if name == "workbench.engine.planner":
            print("started:", len(find_children()), file=sys.stderr, flush=True)
            os._exit(0)  # the rest is of no interest here


sys.meta_path.insert(0, Probe())
from workbench.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.needs_fork
@pytest.mark.parametrize(
    ("arguments", "process_count"),
    [
        (["run"], 1),
        (["run", "home"], 1),
        (["run", "home/set.evalset.json:a"], 1),
        (["run", "home/set.evalset.json", "--case", "a"], 1),
        (["eval", "agent", "a"], 1),
        (["run", "--dry-run"], 0),
        (["run", "--concurrency", "0"], None),
        (["run", "nowhere"], None),
    ],
)
def test_interpreters_start_before_the_planner_is_imported(
    workbench: CommandLine, arguments: list[str], process_count: int | None
) -> None:
    workbench.add_set("home/set.evalset.json", {"a": [turn("say hello", "done: hello")]})
    workbench.write("agent/agent.py", "root_agent = None")
    workbench.write("agent/__init__.py", "")
    workbench.add_set("agent/a.evalset.json", {"a": [turn("hi")]})

    result = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments], cwd=workbench.root, capture_output=True, text=True, check=False
    )

    lines = [line for line in result.stderr.splitlines() if line.startswith("started:")]
    assert lines == ([] if process_count is None else [f"started: {process_count}"])
