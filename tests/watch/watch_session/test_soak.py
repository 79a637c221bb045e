"""A watch over a project that is edited all the time: what it takes levels off, and in the end it is right.

Some twenty seconds of edits; `WORKBENCH_SOAK_SECONDS` asks for more (before anything lands: a minute).
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest

from tests.watch.generated.edits import edit, scene_of
from tests.watch.generated.harness import make_project
from tests.watch.generated.oracle import Oracle, quick_folder
from tests.watch.generated.outcomes import Outcome, outcome_of
from tests.watch.generated.packages import CRITERIA, ENVIRONMENT
from tests.watch.watched import Watched, watching
from workbench.model.results import CaseResult
from workbench.store.history.history import History
from workbench.watch.selector import Action, read_results
from workbench.watch.watch_events import AllKnown, ChangeSeen, DecisionsMade, VerdictKnown, VerdictsReused, WatchEvent

pytestmark = pytest.mark.needs_fork

_SECONDS = float(os.environ.get("WORKBENCH_SOAK_SECONDS", "20"))
_PAUSES = (0.05, 0.3, 0.6, 1.0)  # seconds between edits, while cases run or when they have
_SAMPLE = 0.5
_QUIET = 2.0  # seconds without any news
_MEGA = 1 << 20
_UNSTEADY = ("journal", "hanging", "hanging_by_constant", "crashing", "crashing_by_content")
"""Tools that give what was there when they were called last, or nothing."""


class Taken(NamedTuple):
    """What a watch takes at a moment."""

    memory: int
    memory_of_workers: int
    processes: int
    threads: int
    files: int
    """Open ones."""
    history: int
    sets: int
    """Sets of dependencies that are known."""


class Claims(Watched):
    """What the watch claims of each case now; of what it told nothing else is kept."""

    root: Path
    results: dict[str, CaseResult]
    stale: frozenset[str]
    changes = 0
    executed = 0
    at = 0.0
    is_quiet = False

    def take(self, event: WatchEvent) -> None:
        self.at, self.is_quiet = time.monotonic(), isinstance(event, AllKnown)
        self.changes += isinstance(event, ChangeSeen)
        if isinstance(event, VerdictKnown):
            self.executed += 1
            self.results[event.case.eval_id] = event.result
        elif isinstance(event, VerdictsReused):
            with History.open(self.root) as history:
                self.results.update((job.case.eval_id, each) for job, each in read_results(history, event.verdicts))
        elif isinstance(event, DecisionsMade):
            stale = [each.job.case.eval_id for each in event.decisions if each.action is not Action.NOTHING]
            self.stale = frozenset(stale)


@pytest.fixture
def oracle(monkeypatch: pytest.MonkeyPatch) -> Iterator[Oracle]:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with quick_folder() as scratch, Oracle(scratch) as oracle:
        yield oracle


async def test_a_long_watch_keeps_its_resources_and_is_right_at_the_end(tmp_path: Path, oracle: Oracle) -> None:
    scene = scene_of(make_project(tmp_path / "project", 1, oracle, tools=(10, 10), cases=(12, 12), without=_UNSTEADY))
    pauses = random.Random(1)
    taken: list[Taken] = []
    edits = 0
    async with watching(scene.root, retries=0) as watched:
        claims = _claims_of(watched, scene.root)
        await _until_quiet(claims)
        started = sampled = time.monotonic()
        while time.monotonic() - started < _SECONDS:
            assert edit(scene) is not None
            edits += 1
            await asyncio.sleep(pauses.choice(_PAUSES))
            if time.monotonic() - sampled >= _SAMPLE:
                sampled = time.monotonic()
                taken.append(_taken(scene.root, watched))
        while edit(scene, "syntax_repaired") is not None:
            edits += 1
        await _until_quiet(claims)
        found, stale = _outcomes(claims, scene.root), claims.stale
        truth = await asyncio.to_thread(oracle.run, scene.root)
    third, fourth = _quarters(taken)
    print(f"\n{edits} edits, {claims.changes} changes seen, {claims.executed} verdicts\n{third}\n{fourth}")

    assert not stale
    for eval_id, outcome in truth.items():
        assert found[eval_id] == outcome, (eval_id, found[eval_id].differences(outcome))
    assert claims.executed > edits / 2
    assert fourth.memory - third.memory < 24 * _MEGA
    assert fourth.memory_of_workers < 2 * third.memory_of_workers + 64 * _MEGA
    assert fourth.processes <= third.processes + 6
    assert fourth.threads <= third.threads + 4
    assert fourth.files <= third.files + 24
    assert fourth.sets - third.sets < 2_000
    assert fourth.history < 2 * third.history + _MEGA


def _claims_of(watched: Watched, root: Path) -> Claims:
    """Have a watch told to claims instead of a list."""
    claims = Claims.__new__(Claims)
    claims.root = root
    claims.results, claims.stale, claims.at = {}, frozenset(), time.monotonic()

    class Taking(list[WatchEvent]):
        def append(self, event: WatchEvent) -> None:
            claims.take(event)

    watched.events = Taking()
    return claims


async def _until_quiet(claims: Claims) -> None:
    async with asyncio.timeout(120):
        while not (claims.is_quiet and time.monotonic() - claims.at > _QUIET):  # noqa: ASYNC110 - that nothing comes
            await asyncio.sleep(0.1)


def _outcomes(claims: Claims, root: Path) -> dict[str, Outcome]:
    criteria = json.loads((root / CRITERIA).read_text())["criteria"]
    return {eval_id: outcome_of(result, root=root, criteria=criteria) for eval_id, result in claims.results.items()}


def _taken(root: Path, watched: Watched) -> Taken:
    below = _descendants(os.getpid())
    return Taken(
        memory=_memory(os.getpid()),
        memory_of_workers=sum(map(_memory, below)),
        processes=len(below),
        threads=threading.active_count(),
        files=len(os.listdir("/proc/self/fd")),  # noqa: PTH208
        history=sum(path.stat().st_size for path in (root / ".workbench").glob("history*")),
        sets=len(watched.session._workspace.verdicts._sets),
    )


def _quarters(taken: list[Taken]) -> tuple[Taken, Taken]:
    """The medians of the third and of the last quarter."""
    quarter = len(taken) // 4
    parts = taken[2 * quarter : 3 * quarter], taken[3 * quarter :]
    third, fourth = (Taken(*(int(median(values)) for values in zip(*part, strict=True))) for part in parts)
    return third, fourth


def _memory(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:  # it has just ended
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


def _descendants(process: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{process}/task").iterdir())
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []
    return [found for child in children for found in (child, *_descendants(child))]
