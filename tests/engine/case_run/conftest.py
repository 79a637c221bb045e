"""A folder with a real agent, and an HTTP server whose model plays the user."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.case_run.scenarios import AGENT, CRITERIA, play_user
from tests.llm.servers import Server, run_server
from tests.watch.watched import Folder


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    for name in ("GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    yield monkeypatch


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    project = Folder(tmp_path)
    project.write("agent.py", AGENT)
    project.write(
        "workbench.toml",
        '[targets.sample]\nkind = "function"\ntarget = "agent:answer"\neval_sets = ["*.evalset.json"]\n'
        '[simulation]\nmodel = "gemini-of-the-settings"\n[judge]\ntries = 1\n',
    )
    project.criteria(**CRITERIA)
    return project


@pytest.fixture
def server(environment: pytest.MonkeyPatch) -> Iterator[Server]:
    environment.setenv("GOOGLE_API_KEY", "k")
    with run_server(play_user("please roll a die", "is it prime?")) as server:
        environment.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        yield server
