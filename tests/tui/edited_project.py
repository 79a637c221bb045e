"""A set with edits, other programs that write to it, and an editor that the test scripts."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.tui.app import WorkbenchApp
from workbench.tui.screen_context import DocumentsChanged

LIGHTS = "lights.evalset.json"


def case(eval_id: str, prompt: str = "hello") -> dict[str, Any]:
    """Return a case of one turn."""
    return {"eval_id": eval_id, "conversation": [{"user_content": {"parts": [{"text": prompt}]}}]}


async def edit(screen: Any, change: Callable[[EvalSetDocument], Any], *, label: str = "edit") -> None:
    """Edit the set as a pane does."""
    await screen.app._backend.edit(lambda workspace: workspace.documents.edit(LIGHTS, change, label=label))
    screen.app.screen_stack[0].post_message(DocumentsChanged(frozenset([LIGHTS])))
    await screen.pilot.pause()


async def insert(screen: Any, eval_id: str) -> None:
    """Add a case, unsaved."""
    await edit(screen, lambda document: document.insert_case(0, case(eval_id)), label=f"add {eval_id}")


async def wait_for_notification(screen: Any, wanted: str, *, times: int = 1) -> None:
    """Wait until a notification contains this text, and was given this often."""
    for _ in range(600):
        if any(wanted in each.text and each.times >= times for each in screen.state.problems.messages):
            return
        await screen.pilot.pause(0.02)
    raise AssertionError(f"not said: {wanted}\n{[message.text for message in screen.state.problems.messages]}")


def write(path: Path, *eval_ids: str) -> None:
    """Write the set as another program does."""
    data = {"eval_set_id": "lights", "eval_cases": [case(eval_id) for eval_id in eval_ids]}
    path.write_text(json.dumps(data, indent=2), encoding="utf-8")


@pytest.fixture
def actions() -> Any:
    """Actions of tests on a set."""
    return SimpleNamespace(
        case=case, edit=edit, insert=insert, wait_for_notification=wait_for_notification, write=write, lights=LIGHTS
    )


@pytest.fixture
def project(make_project: Callable[..., Path]) -> Path:
    """Create a project with one set of two cases."""
    return make_project(lights=[case("on"), case("off")])


@pytest.fixture
def lights(project: Path) -> Path:
    """Return the file of the set."""
    return project / LIGHTS


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Make $EDITOR a program that does this to the file `path`; return the file that records its arguments."""
    monkeypatch.setattr(WorkbenchApp, "suspend", lambda app: nullcontext())
    monkeypatch.delenv("VISUAL", raising=False)

    def set_editor_program(code: str) -> Path:
        script, log = tmp_path / "editor.py", tmp_path / "editor.log"
        head = f"import sys, pathlib\nlog = pathlib.Path({str(log)!r})\n"
        note = "with log.open('a') as file: file.write(' '.join(sys.argv[1:]) + '\\n')\n"
        tries = "tries = len(log.read_text().splitlines())\n"
        script.write_text(f"{head}{note}{tries}path = pathlib.Path(sys.argv[-1])\n{code}\n", encoding="utf-8")
        monkeypatch.setenv("EDITOR", f"{sys.executable} {script}")
        return log

    return set_editor_program
