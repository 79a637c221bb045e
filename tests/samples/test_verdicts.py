"""Runs of the samples: every case of every set gets the verdict in `expected.json`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from workbench.engine.plan import RunOptions, Selection
from workbench.engine.workspace import Workspace

SAMPLES = Path(__file__).parents[2] / "sample_agents"


@pytest.fixture(autouse=True)
def no_model_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the samples, so that the run leaves no history in the checkout."""
    folder = tmp_path_factory.mktemp("samples") / "sample_agents"
    shutil.copytree(SAMPLES, folder, ignore=shutil.ignore_patterns("__pycache__", ".workbench", ".adk"))
    return folder


def run_eval_sets(root: Path, *, kind: str) -> tuple[dict[str, dict[str, str]], dict[str, dict[str, str]]]:
    """Run the sets of agents of one kind; return actual and expected verdicts."""
    workspace = Workspace.open(root)
    try:
        entries = [
            entry
            for entry in workspace.project.eval_sets
            if entry.target and workspace.project.targets[entry.target].kind == kind
        ]
        run = workspace.start(
            workspace.plan([Selection(eval_set=entry.relative) for entry in entries], RunOptions(adk_results=False))
        )
        for _ in run.iter_events():
            pass
        found: dict[str, dict[str, str]] = {entry.relative: {} for entry in entries}
        for result in run.results():
            found[result.case.eval_set][result.case.eval_id] = result.status.value
        run.close()
    finally:
        workspace.close()
    expected = {
        entry.relative: json.loads((entry.path.parent / "expected.json").read_text(encoding="utf-8"))[entry.path.name]
        for entry in entries
    }
    return found, expected


def test_every_case_of_a_function_agent_has_its_expected_verdict(samples: Path) -> None:
    found, expected = run_eval_sets(samples, kind="function")

    assert len(found) >= 20
    assert found == expected


@pytest.mark.needs_adk
@pytest.mark.prepared("adk")
def test_every_case_of_the_adk_agent_has_its_expected_verdict(samples: Path) -> None:
    found, expected = run_eval_sets(samples, kind="adk")

    assert found
    assert found == expected


@pytest.mark.needs_node
def test_every_case_of_the_command_agent_has_its_expected_verdict(samples: Path) -> None:
    found, expected = run_eval_sets(samples, kind="command")

    assert found
    assert found == expected
