"""A folder with a real agent, and a server over HTTP whose model plays the user."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.case_run.scenarios import AGENT, FITS, plays
from tests.llm.servers import Server, serving
from tests.watch.watched import Folder


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    for name in ("GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    yield monkeypatch


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path)
    made.write("agent.py", AGENT)
    made.write(
        "workbench.toml",
        '[targets.sample]\nkind = "function"\ntarget = "agent:answer"\neval_sets = ["*.evalset.json"]\n'
        '[simulation]\nmodel = "gemini-of-the-settings"\n[judge]\ntries = 1\n',
    )
    made.criteria(**FITS)
    return made


@pytest.fixture
def server(environment: pytest.MonkeyPatch) -> Iterator[Server]:
    environment.setenv("GOOGLE_API_KEY", "k")
    with serving(plays("please roll a die", "is it prime?")) as started:
        environment.setenv("GOOGLE_GEMINI_BASE_URL", started.url)
        yield started
