"""Agents of a watch are imported before their first case has to run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from workbench.engine.run_resources import Hosts
from workbench.model.target import AgentKind, Target


@pytest.mark.needs_fork
async def test_the_agents_of_a_plan_are_imported_in_advance_and_a_broken_one_stops_no_other(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise ValueError('kaboom')\n", encoding="utf-8")
    (tmp_path / "agent.py").write_text("open('imported', 'w').close()\ndef answer(prompt): return prompt\n", "utf-8")
    targets = [
        Target(name=name, kind=AgentKind.FUNCTION, location=f"{name}:answer", path=tmp_path)
        for name in ("broken", "agent")
    ]
    limits = SimpleNamespace(isolation="case", concurrency=1, ray=None)
    jobs = [(each.name, SimpleNamespace(target=each, needs_agent=True)) for each in targets]
    plan: Any = SimpleNamespace(jobs=jobs, limits=limits)
    hosts = Hosts(tmp_path)
    try:
        hosts.warm(plan)
        async with asyncio.timeout(60):
            while not (tmp_path / "imported").exists():  # noqa: ASYNC110 - another process makes it
                await asyncio.sleep(0.02)
    finally:
        await hosts.close()
