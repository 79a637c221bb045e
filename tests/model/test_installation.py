"""Hints on extras name where this program came from, never a name that no index has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from workbench.model import installation

HERE = Path(installation.__file__).parents[2]


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        ({"url": "file:///my%20code/x", "dir_info": {}}, "pip install '/my code/x[adk]'"),
        ({"url": "file:///x", "dir_info": {"editable": True}}, "pip install -e '/x[adk]'"),
        (
            {"url": "https://host/x.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "pip install 'agent-eval-workbench[adk] @ git+https://host/x.git@abc'",
        ),
        ({"url": "file:///x.whl", "archive_info": {}}, "pip install 'agent-eval-workbench[adk] @ file:///x.whl'"),
        ({}, f"pip install '{HERE}[adk]'"),
    ],
)
def test_the_command_names_the_origin(monkeypatch: pytest.MonkeyPatch, origin: dict[str, object], command: str) -> None:
    class Installed:
        def read_text(self, name: str) -> str | None:
            return json.dumps(origin) if name == "direct_url.json" and origin else None

    monkeypatch.setattr(installation, "distribution", lambda _: Installed())

    assert installation.install_command("adk") == command
