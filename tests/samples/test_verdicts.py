"""The samples in a run: every case of every set comes out as `expected.json` says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from workbench.engine.plan import RunOptions, Selection
from workbench.engine.workspace import Workspace

SAMPLES = Path(__file__).parents[2] / "sample_agents"


@pytest.fixture(autouse=True)
def without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The samples in a folder of their own, so that the history of the run is not left in the checkout."""
    folder = tmp_path_factory.mktemp("samples") / "sample_agents"
    shutil.copytree(SAMPLES, folder, ignore=shutil.ignore_patterns("__pycache__", ".workbench", ".adk"))
    return folder


def verdicts(root: Path, *, kind: str) -> tuple[dict[str, dict[str, str]], dict[str, dict[str, str]]]:
    """What came out and what was expected, for the sets of agents of one kind."""
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


def test_every_case_of_a_function_agent_comes_out_as_expected(copied: Path) -> None:
    found, expected = verdicts(copied, kind="function")

    assert len(found) >= 20
    assert found == expected


@pytest.mark.needs_adk
def test_every_case_of_the_adk_agent_comes_out_as_expected(copied: Path) -> None:
    found, expected = verdicts(copied, kind="adk")

    assert found
    assert found == expected


@pytest.mark.needs_node
def test_every_case_of_the_program_comes_out_as_expected(copied: Path) -> None:
    found, expected = verdicts(copied, kind="command")

    assert found
    assert found == expected
