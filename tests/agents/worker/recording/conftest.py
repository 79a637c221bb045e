"""Agents that run in real worker processes, and the dependencies that these report."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from workbench.agents.agent_host import AgentError
from workbench.model.evalset import Content
from workbench.model.identity import Dependencies


@dataclass
class Record:
    """The outcome of one session."""

    folder: Path
    dependencies: Dependencies
    responses: list[str]
    error: AgentError | None

    def rows(self, kind: str) -> dict[str, str]:
        """Return keys and fingerprints of one kind; keys inside the agent's folder are relative to it."""
        rows = {row.key: row.fingerprint for row in self.dependencies.rows if row.kind == kind}
        home = f"{self.folder}/"
        return {key.removeprefix(home).replace(str(self.folder), "."): value for key, value in rows.items()}

    def lookups(self, folder: str = ".") -> dict[str, str]:
        """Return the names that imports searched for in a folder, and what they found."""
        results: dict[str, str] = {}
        for key, states in self.rows("import").items():
            place, _, names = key.rpartition("::")
            if place == folder:
                results.update(zip(names.split(","), states.split(","), strict=True))
        return results


Run = Callable[..., Awaitable[Record]]


@pytest.fixture
def run(bench: Any) -> Run:
    """Return a function that holds one session, on the given host or a new one, and returns its record."""

    async def run(*prompts: str, host: Any = None, **options: Any) -> Record:
        host = host or bench.host(**{"mode": "fork", **options})
        session = await bench.open(host)
        responses, error = [], None
        try:
            for turn, prompt in enumerate(prompts or ("hi",)):
                result = await session.turn(Content.of_text(prompt, role="user"), turn=turn)
                final = result.invocation.final_response
                responses.append("" if final is None else final.text())
            await session.finish()
        except AgentError as raised:
            error = raised
        finally:
            await session.kill()
        assert session.dependencies is not None, error
        return Record(bench.folder, session.dependencies, responses, error)

    return run
