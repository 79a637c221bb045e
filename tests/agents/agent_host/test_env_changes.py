"""Changed variables of `.env` and replaced libraries reach code that was started or imported early."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from workbench.agents import agent_host as agents
from workbench.agents.worker_host import create_host
from workbench.model.evalset import Content
from workbench.model.target import AgentKind, Target

pytestmark = pytest.mark.needs_fork
LIBRARY = 'import os\nLEVEL = os.environ.get("LIBRARY_LEVEL")\n'
AGENT = """
import library

def answer(prompt):
    return str(library.LEVEL)
"""


async def _collect_answers(host: agents.AgentHost, count: int) -> list[str]:
    async def ask_once() -> str:
        session = await host.open(agents.SessionRequest(app_name="app", user_id="user"), on_span=lambda _: None)
        result = await session.turn(Content.of_text("hi", role="user"), turn=0)
        await session.finish()
        response = result.invocation.final_response
        assert response is not None
        return response.text()

    host.renew()
    host.prepare(cases=count)
    return await asyncio.gather(*(ask_once() for _ in range(count)))


async def test_an_early_imported_library_sees_changes_of_the_env_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    libraries, folder = tmp_path / "site-packages", tmp_path / "agent"
    libraries.mkdir()
    folder.mkdir()
    (libraries / "library.py").write_text(LIBRARY)
    (folder / "agent.py").write_text(AGENT)
    monkeypatch.setenv("PYTHONPATH", str(libraries))
    target = Target(name="t", kind=AgentKind.FUNCTION, location="agent:answer", path=folder, env_file=folder / ".env")
    host = create_host(target, isolation="case", concurrency=2)
    try:
        assert await _collect_answers(host, 4) == ["None"] * 4

        (folder / ".env").write_text("LIBRARY_LEVEL=high\n")
        assert await _collect_answers(host, 4) == ["high"] * 4

        (folder / ".env").write_text("LIBRARY_LEVEL=low\n")
        assert await _collect_answers(host, 4) == ["low"] * 4

        (folder / ".env").unlink()
        assert await _collect_answers(host, 4) == ["None"] * 4
    finally:
        await host.close()


async def test_a_replaced_library_is_imported_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    libraries, folder = tmp_path / "site-packages", tmp_path / "agent"
    libraries.mkdir()
    folder.mkdir()
    (libraries / "library.py").write_text("LEVEL = 'old'\n")
    (folder / "agent.py").write_text(AGENT)
    monkeypatch.setenv("PYTHONPATH", str(libraries))
    target = Target(name="t", kind=AgentKind.FUNCTION, location="agent:answer", path=folder)
    host = create_host(target, isolation="case", concurrency=2)
    try:
        assert await _collect_answers(host, 4) == ["old"] * 4
        assert await _collect_answers(host, 4) == ["old"] * 4  # from a process that imported the library early

        (libraries / "library.py").write_text("LEVEL = 'new one'\n")
        assert await _collect_answers(host, 4) == ["new one"] * 4
    finally:
        await host.close()


async def test_a_module_of_the_agent_shadows_a_library_for_other_libraries_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    libraries, folder = tmp_path / "site-packages", tmp_path / "agent"
    libraries.mkdir()
    folder.mkdir()
    (libraries / "low.py").write_text("LEVEL = 'library'\n")
    (libraries / "library.py").write_text("from low import LEVEL\n")
    (folder / "agent.py").write_text(AGENT)
    monkeypatch.setenv("PYTHONPATH", str(libraries))
    target = Target(name="t", kind=AgentKind.FUNCTION, location="agent:answer", path=folder)
    host = create_host(target, isolation="case", concurrency=2)
    try:
        assert await _collect_answers(host, 4) == ["library"] * 4
        assert await _collect_answers(host, 4) == ["library"] * 4  # from a process that imported the libraries early

        (folder / "low.py").write_text("LEVEL = 'own'\n")
        assert await _collect_answers(host, 4) == ["own"] * 4

        (folder / "agent.py").write_text(AGENT + "\nimport library as again\n")
        assert await _collect_answers(host, 4) == ["own"] * 4

        (folder / "low.py").unlink()
        assert await _collect_answers(host, 4) == ["library"] * 4
    finally:
        await host.close()
