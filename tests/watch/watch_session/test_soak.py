"""A watch of a project under constant edits: its resources stay bounded, and its final verdicts are right.

The edits take about twenty seconds. `WORKBENCH_SOAK_SECONDS` sets the time; use a minute before a merge.
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

from tests.watch.generated.edits import edit, make_scene
from tests.watch.generated.harness import make_project
from tests.watch.generated.oracle import Oracle, quick_folder
from tests.watch.generated.outcomes import Outcome, make_outcome
from tests.watch.generated.packages import CRITERIA, ENVIRONMENT
from tests.watch.watched import WatchListener, watch_project
from workbench.model.results import CaseResult
from workbench.store.history.history import History
from workbench.watch.selector import Action, read_results
from workbench.watch.watch_events import AllKnown, ChangeSeen, DecisionsMade, VerdictKnown, VerdictsReused, WatchEvent

pytestmark = pytest.mark.needs_fork

_SECONDS = float(os.environ.get("WORKBENCH_SOAK_SECONDS", "20"))
_PAUSES = (0.05, 0.3, 0.6, 1.0)  # seconds between edits, during and after runs
_SAMPLE_SECONDS = 0.5
_QUIET_SECONDS = 2.0  # seconds without events
_MEGA = 1 << 20
_UNSTABLE = ("journal", "hanging", "hanging_by_constant", "crashing", "crashing_by_content")
"""Recipes of tools whose result depends on their previous call, or that give no result."""


class ResourceUsage(NamedTuple):
    """The resources of a watch at one moment."""

    memory: int
    memory_of_workers: int
    processes: int
    threads: int
    files: int
    """Open files."""
    history: int
    sets: int
    """Known dependency sets."""


class Claims(WatchListener):
    """The current claim of the watch about each case. Events are not stored."""

    root: Path
    results: dict[str, CaseResult]
    stale: frozenset[str]
    changes = 0
    verdict_count = 0
    updated_at = 0.0
    is_quiet = False

    def record(self, event: WatchEvent) -> None:
        self.updated_at, self.is_quiet = time.monotonic(), isinstance(event, AllKnown)
        self.changes += isinstance(event, ChangeSeen)
        if isinstance(event, VerdictKnown):
            self.verdict_count += 1
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


async def test_a_long_watch_stays_within_its_resources_and_ends_with_right_verdicts(
    tmp_path: Path, oracle: Oracle
) -> None:
    scene = make_scene(make_project(tmp_path / "project", 1, oracle, tools=(10, 10), cases=(12, 12), without=_UNSTABLE))
    scene.excluded_kinds = frozenset({"branch_statement"})  # may leave source that does not compile
    pauses = random.Random(1)
    samples: list[ResourceUsage] = []
    edits = 0
    async with watch_project(scene.root, retries=0) as watch:
        claims = _collect_claims(watch, scene.root)
        await _until_quiet(claims)
        started_at = sampled_at = time.monotonic()
        while time.monotonic() - started_at < _SECONDS:
            assert edit(scene) is not None
            edits += 1
            await asyncio.sleep(pauses.choice(_PAUSES))
            if time.monotonic() - sampled_at >= _SAMPLE_SECONDS:
                sampled_at = time.monotonic()
                samples.append(_measure_resources(scene.root, watch))
        while edit(scene, "syntax_repaired") is not None:
            edits += 1
        await _until_quiet(claims)
        found, stale = _make_outcomes(claims, scene.root), claims.stale
        truth = await asyncio.to_thread(oracle.run, scene.root)
    third, fourth = _find_quarter_medians(samples)
    print(f"\n{edits} edits, {claims.changes} changes seen, {claims.verdict_count} verdicts\n{third}\n{fourth}")

    assert not stale
    for eval_id, outcome in truth.items():
        assert found[eval_id] == outcome, (eval_id, found[eval_id].list_differences(outcome))
    assert claims.verdict_count > edits / 2
    assert fourth.memory - third.memory < 24 * _MEGA
    assert fourth.memory_of_workers < 2 * third.memory_of_workers + 64 * _MEGA
    assert fourth.processes <= third.processes + 6
    assert fourth.threads <= third.threads + 4
    assert fourth.files <= third.files + 24
    assert fourth.sets - third.sets < 2_000
    assert fourth.history < 2 * third.history + _MEGA


def _collect_claims(watch: WatchListener, root: Path) -> Claims:
    """Make a listener pass its events to claims instead of a list."""
    claims = Claims.__new__(Claims)
    claims.root = root
    claims.results, claims.stale, claims.updated_at = {}, frozenset(), time.monotonic()

    class EventSink(list[WatchEvent]):
        def append(self, event: WatchEvent) -> None:
            claims.record(event)

    watch.events = EventSink()
    return claims


async def _until_quiet(claims: Claims) -> None:
    async with asyncio.timeout(120):
        while not (claims.is_quiet and time.monotonic() - claims.updated_at > _QUIET_SECONDS):  # noqa: ASYNC110 - waits for silence
            await asyncio.sleep(0.1)


def _make_outcomes(claims: Claims, root: Path) -> dict[str, Outcome]:
    criteria = json.loads((root / CRITERIA).read_text())["criteria"]
    return {eval_id: make_outcome(result, root=root, criteria=criteria) for eval_id, result in claims.results.items()}


def _measure_resources(root: Path, watch: WatchListener) -> ResourceUsage:
    descendants = _list_descendants(os.getpid())
    return ResourceUsage(
        memory=_read_memory(os.getpid()),
        memory_of_workers=sum(map(_read_memory, descendants)),
        processes=len(descendants),
        threads=threading.active_count(),
        files=len(os.listdir("/proc/self/fd")),  # noqa: PTH208
        history=sum(path.stat().st_size for path in (root / ".workbench").glob("history*")),
        sets=len(watch.session._workspace.verdicts._sets),
    )


def _find_quarter_medians(samples: list[ResourceUsage]) -> tuple[ResourceUsage, ResourceUsage]:
    """Return the medians of the third and of the last quarter."""
    quarter = len(samples) // 4
    parts = samples[2 * quarter : 3 * quarter], samples[3 * quarter :]
    third, fourth = (ResourceUsage(*(int(median(values)) for values in zip(*part, strict=True))) for part in parts)
    return third, fourth


def _read_memory(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:  # it has just ended
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


def _list_descendants(process: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{process}/task").iterdir())
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []
    return [found for child in children for found in (child, *_list_descendants(child))]
