"""The layers hold: what each front end may import, seen in a fresh interpreter."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("textual", "rich", "google", "rouge_score", "nltk", "numpy", "scipy", "jinja2", "sacrebleu", "watchfiles")


def modules_after(statement: str) -> set[str]:
    """The top-level packages of which a statement loads anything into a fresh interpreter.

    What every interpreter loads at its start does not count: google-cloud-aiplatform puts `google` into each.
    """
    told = "print(json.dumps(sorted({name.partition('.')[0] for name in {*sys.modules} - before})))"
    code = f"import json, sys\nbefore = {{*sys.modules}}\n{statement}\n{told}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "module",
    [
        "workbench.model.run_events",
        "workbench.store.evalsets.evalset_document",
        "workbench.metrics.evaluate",
        "workbench.engine.workspace",
    ],
)
def test_the_engine_imports_nothing_heavy(module: str) -> None:
    assert not modules_after(f"import {module}") & set(HEAVY)


def test_the_command_line_starts_without_pydantic_and_textual() -> None:
    assert not modules_after("import workbench.cli.main") & {*HEAVY, "pydantic", "asyncio"}


def test_the_screen_imports_no_agent_framework_and_no_scorer() -> None:
    assert not modules_after("import workbench.tui.app") & {"google", "rouge_score", "nltk", "numpy", "sacrebleu"}


def test_the_python_api_is_imported_with_nothing_heavy() -> None:
    names = "EvalTask, EvalResult, CustomMetric, PointwiseMetric, PairwiseMetric, TrajectorySingleToolUse"

    assert not modules_after(f"from workbench.testing import {names}") & {*HEAVY, "pandas", "pydantic"}


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_modules_that_pages_for_contributors_name_are_there(page: str) -> None:
    root = Path(__file__).parents[1]
    named = re.findall(r"`((?:workbench|tests|docs)/[\w./]+)", (root / page).read_text(encoding="utf-8"))

    assert named
    assert [name for name in named if not ((root / name).exists() or (root / f"{name}.py").exists())] == []


def test_the_quick_tests_are_there_for_every_layer() -> None:
    root = Path(__file__).parents[1]
    named = (root / "tests" / "quick.txt").read_text(encoding="utf-8").split()

    assert [name for name in named if not (root / name).exists()] == []
    layers = {path.name for path in (root / "workbench").iterdir() if (path / "__init__.py").exists()}
    assert layers <= {name.split("/")[1] for name in named}
