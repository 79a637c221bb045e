"""The packages that each front end imports in a fresh interpreter."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interpreters import find_loaded_packages

HEAVY = ("textual", "rich", "google", "rouge_score", "nltk", "numpy", "scipy", "jinja2", "sacrebleu", "watchfiles")


@pytest.mark.parametrize(
    "module",
    [
        "workbench.model.run_events",
        "workbench.store.evalsets.evalset_document",
        "workbench.metrics.evaluate",
        "workbench.engine.workspace",
    ],
)
def test_the_engine_imports_no_heavy_packages(module: str) -> None:
    assert not find_loaded_packages(f"import {module}") & set(HEAVY)


def test_the_command_line_starts_without_pydantic_and_textual() -> None:
    assert not find_loaded_packages("import workbench.cli.main") & {*HEAVY, "pydantic", "asyncio"}


def test_the_screen_imports_no_agent_framework_and_no_scorer() -> None:
    assert not find_loaded_packages("import workbench.tui.app") & {
        "google",
        "rouge_score",
        "nltk",
        "numpy",
        "sacrebleu",
    }


def test_the_screen_imports_nothing_of_the_tour() -> None:
    code = "import sys, workbench.tui.app; print([name for name in sys.modules if 'tour' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


def test_the_python_api_imports_no_heavy_packages() -> None:
    names = "EvalTask, EvalResult, CustomMetric, PointwiseMetric, PairwiseMetric, TrajectorySingleToolUse"

    assert not find_loaded_packages(f"from workbench.testing import {names}") & {*HEAVY, "pandas", "pydantic"}


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_paths_named_in_contributor_pages_exist(page: str) -> None:
    root = Path(__file__).parents[1]
    names = re.findall(r"`((?:workbench|tests|docs)/[\w./]+)", (root / page).read_text(encoding="utf-8"))

    assert names
    assert [name for name in names if not ((root / name).exists() or (root / f"{name}.py").exists())] == []


def test_quick_tests_exist_for_every_layer() -> None:
    root = Path(__file__).parents[1]
    names = (root / "tests" / "quick.txt").read_text(encoding="utf-8").split()

    assert [name for name in names if not (root / name).exists()] == []
    layers = {path.name for path in (root / "workbench").iterdir() if (path / "__init__.py").exists()}
    assert layers <= {name.split("/")[1] for name in names}
