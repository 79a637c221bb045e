"""Options of pytest that concern cases: last failures, coverage, and what is imported."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.command_line import turn
from tests.testing.pytest_project import PytestProject

DOCS = Path(__file__).parents[3] / "docs"
GOOD = [turn("light hall", room="hall")]
BAD = [turn("light hall", room="kitchen")]
RAISES = [turn("raise it", room="hall")]


def test_the_agent_is_not_imported_by_pytest(project: PytestProject) -> None:
    project.write("home/__init__.py", "import sys\n\nassert 'pytest' not in sys.modules\n")
    project.add_set("home/light.evalset.json", good=GOOD)

    project.pytest("--workbench").assert_outcomes(passed=1)


def test_last_failed_runs_only_the_failed_cases(project: PytestProject) -> None:
    project.add_set("home/light.evalset.json", good=GOOD, bad=BAD, raises=RAISES)
    project.run_with_cache("--workbench")

    again = project.run_with_cache("--workbench", "--lf")

    again.assert_outcomes(failed=1, errors=1)


def test_the_documented_settings_measure_coverage_of_the_agent(
    project: PytestProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pytest_cov")
    for name in [name for name in os.environ if name.startswith(("COVERAGE", "COV_CORE"))]:
        monkeypatch.delenv(name)
    blocks = re.findall(
        r"^```toml\n(.*?)^```", (DOCS / "pytest.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    project.write("pyproject.toml", next(block for block in blocks if "[tool.coverage.run]" in block))
    project.add_set("home/light.evalset.json", on=[turn("light kitchen", room="kitchen")])

    started_anew = replace(project, forked=None)
    result = started_anew.pytest("--workbench", "--cov=home", "--cov-report=json")

    assert result.ret == 0
    coverage = json.loads((project.root / "coverage.json").read_text(encoding="utf-8"))["files"]["home/agent.py"]
    assert coverage["summary"]["missing_lines"] == 4  # code that no prompt reaches
    assert not [path.name for path in project.root.glob(".coverage.*")]
