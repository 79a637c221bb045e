"""The proof: after every edit, what a strategy claims of every case is held against a fresh run of all of them.

A strategy stands for a way to watch: it runs a project once, is told after each edit that something changed (not what),
runs again what it thinks it must, and says what every case gives now. A claim that is not what the oracle finds is a
miss. How many cases a strategy runs again in vain is its precision.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from .cases import expect
from .edits import Edit, edit, scene_of
from .oracle import Oracle
from .outcomes import Outcome
from .packages import EVAL_SET, TIMED, Package, generate
from .scene import Scene

_REMEMBERED = 5  # states of a project
_REMEMBERED_RUNS = 5
"""Of a case that has run so often the verdict of a state that was there before may be forgotten."""
_CONCERN_SOME = frozenset({"env_overruled"})
"""Neutral kinds after which something may run: agents that look at all variables see that there is one more."""


@dataclass(frozen=True)
class Claims:
    """What a strategy says after an edit: the cases whose agent it ran again, those it only judged again, and what
    every case of the set gives now.

    Nothing is claimed of those that are `waiting` for source that can be compiled. Those `unfollowed` ran because what
    they use is not known. `later` says what is claimed once even a slow watch must have seen everything.
    """

    ran: frozenset[str]
    outcomes: Mapping[str, Outcome]
    rescored: frozenset[str] = frozenset()
    waiting: frozenset[str] = frozenset()
    unfollowed: frozenset[str] = frozenset()
    later: Callable[[], Awaitable[Claims]] | None = None


class Strategy(Protocol):
    """A way to watch a project."""

    async def first_run(self, project: Path) -> None:
        """Run every case once. Called anew for each project; what was known of the one before is of no use."""

    async def after_edit(self, project: Path) -> Claims:
        """Do what is needed now that something may have changed, and say what every case gives."""

    async def close(self) -> None:
        """Let go of the project."""


class Miss(NamedTuple):
    """A case of which something was claimed that is not so."""

    seed: int
    number: int
    edit: str
    eval_id: str
    was_run: bool
    differences: tuple[str, ...]

    def __str__(self) -> str:
        how = "though it was run" if self.was_run else "it was not run"
        return (
            f"seed {self.seed}, edit {self.number} ({self.edit}), {self.eval_id}, {how}: {'; '.join(self.differences)}"
        )


@dataclass
class Tally:
    """What became of the cases that were there before and after edits. A case is `changed` where anything about its
    result is another, `executed_otherwise` where the agent itself did something else."""

    edits: int = 0
    selective: int = 0
    """Edits that changed some results and not all."""
    decisions: int = 0
    changed: int = 0
    executed_otherwise: int = 0
    ran: int = 0
    ran_rightly: int = 0
    rescored: int = 0
    unfollowed: int = 0
    """Those that ran because it is not known what they use."""

    @property
    def rerun_share(self) -> float:
        """The share of decisions that were to run the agent."""
        return self.ran / max(1, self.decisions)

    @property
    def unfollowed_share(self) -> float:
        """The share of decisions to run the agent because it is not known what it uses."""
        return self.unfollowed / max(1, self.decisions)

    @property
    def changed_share(self) -> float:
        """The share of cases whose agent had to be run, as it turned out."""
        return self.executed_otherwise / max(1, self.decisions)

    @property
    def precision(self) -> float:
        """The share of runs that gave something new."""
        return self.ran_rightly / max(1, self.ran)

    def add(self, other: Tally) -> None:
        """Count another tally in."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def __str__(self) -> str:
        in_vain = self.rerun_share * (1 - self.precision)
        return (
            f"{self.edits} edits, {self.decisions} decisions, {self.rerun_share:.1%} run again, {in_vain:.1%} in vain "
            f"({self.unfollowed_share:.1%} not followed), {self.changed_share:.1%} truly changed, "
            f"{self.rescored} judged again"
        )


@dataclass
class Report:
    """What the proof found."""

    total: Tally = field(default_factory=Tally)
    by_kind: dict[str, Tally] = field(default_factory=dict)
    misses: list[Miss] = field(default_factory=list)
    wrongly_neutral: list[str] = field(default_factory=list)
    """Edits of kinds that should change nothing, and did: a fault of the generator."""
    in_vain: list[str] = field(default_factory=list)
    """Edits after which agents ran though they concern nobody, or left the project as it was a moment ago."""

    def add(self, other: Report) -> None:
        """Count another report in."""
        self.total.add(other.total)
        for kind, tally in other.by_kind.items():
            self.by_kind.setdefault(kind, Tally()).add(tally)
        self.misses.extend(other.misses)
        self.wrongly_neutral.extend(other.wrongly_neutral)
        self.in_vain.extend(other.in_vain)

    def __str__(self) -> str:
        kinds = "".join(
            f"\n  {name:24} {tally.edits:5} edits, {tally.selective:4} selective, of {tally.decisions:6} cases "
            f"{tally.changed:5} changed, {tally.ran:5} run"
            for name, tally in sorted(self.by_kind.items())
        )
        return f"{self.total}, {len(self.misses)} missed{kinds}"


async def prove(
    strategy: Strategy,
    oracle: Oracle,
    folder: Path,
    seeds: Iterable[int],
    *,
    edits: int = 30,
    misses_at_most: int = 0,
    tell: Callable[[str], None] = lambda line: None,
    likely: tuple[str, ...] = (),
    **sizes: Any,
) -> Report:
    """Edit the packages of these seeds, each so many times, and compare; until more is missed than may be.

    `likely` are kinds of edits to make more often than others; `sizes` are what `packages.generate` takes.
    """
    report = Report()
    for seed in seeds:
        scene = scene_of(make_project(folder / f"seed{seed}", seed, oracle, **sizes))
        scene.likely = likely
        await strategy.first_run(scene.root)
        try:
            await _edit_and_compare(strategy, oracle, scene, report, seed=seed, edits=edits, at_most=misses_at_most)
        finally:
            await strategy.close()
        tell(f"seed {seed}: {str(report).splitlines()[0]}")
        if len(report.misses) > misses_at_most:
            break
    return report


def make_project(root: Path, seed: int, oracle: Oracle, **sizes: Any) -> Package:
    """A generated package whose cases expect what it does, most of them."""
    package = generate(root, seed, **sizes)
    expect(root / EVAL_SET, oracle.run(root), random.Random(seed))
    return package


async def _edit_and_compare(
    strategy: Strategy, oracle: Oracle, scene: Scene, report: Report, *, seed: int, edits: int, at_most: int
) -> None:
    before = await asyncio.to_thread(oracle.run, scene.root)
    lately = deque([_state(scene)], maxlen=_REMEMBERED)
    runs = Counter(before.keys())
    for number in range(edits):
        made = edit(scene)
        assert made is not None
        state = _state(scene)
        finding = oracle.begin(scene.root)
        claims = await strategy.after_edit(scene.root)
        truth = await asyncio.wrap_future(finding)
        misses = _misses(claims, truth, seed=seed, number=number, made=made)
        if misses and claims.later is not None:
            claims = await claims.later()
            misses = _misses(claims, truth, seed=seed, number=number, made=made)
        report.misses += misses
        tally = _counted(claims, before, truth)
        if made.neutral and tally.changed:
            report.wrongly_neutral.append(f"seed {seed}, edit {number}: {made}")
        runs.update(claims.ran)
        in_vain = claims.ran if made.neutral and made.kind not in _CONCERN_SOME else frozenset()
        if state in lately and made.paths:
            in_vain |= {eval_id for eval_id in claims.ran if runs[eval_id] < _REMEMBERED_RUNS}
        in_vain -= claims.unfollowed
        if not made.paths:  # something that is no part of the state
            lately.clear()
        if in_vain:
            report.in_vain.append(f"seed {seed}, edit {number}: {made}, ran {', '.join(sorted(in_vain))}")
        lately.append(state)
        report.total.add(tally)
        report.by_kind.setdefault(made.kind, Tally()).add(tally)
        before = truth
        if len(report.misses) > at_most:
            return


def _state(scene: Scene) -> tuple[tuple[str, bytes, int], ...]:
    paths = ((name, scene.root / name) for name in sorted(scene.files))
    return tuple((name, path.read_bytes(), path.stat().st_mtime_ns * name.startswith(TIMED)) for name, path in paths)


def _misses(claims: Claims, truth: Mapping[str, Outcome], *, seed: int, number: int, made: Edit) -> list[Miss]:
    misses = []
    for eval_id in sorted({*truth, *claims.outcomes} - claims.waiting):
        claimed, found = claims.outcomes.get(eval_id), truth.get(eval_id)
        if claimed == found:
            continue
        if claimed is None or found is None:
            differences = ["nothing is claimed of it" if claimed is None else "there is no such case any more"]
        else:
            differences = claimed.differences(found)
        misses.append(Miss(seed, number, str(made), eval_id, eval_id in claims.ran, tuple(differences)))
    return misses


def _counted(claims: Claims, before: Mapping[str, Outcome], truth: Mapping[str, Outcome]) -> Tally:
    known = before.keys() & truth.keys()
    changed = {eval_id for eval_id in known if before[eval_id] != truth[eval_id]}
    otherwise = {eval_id for eval_id in known if not before[eval_id].same_execution(truth[eval_id])}
    ran = claims.ran & known
    return Tally(
        edits=1,
        selective=int(0 < len(changed) < len(known)),
        decisions=len(known),
        changed=len(changed),
        executed_otherwise=len(otherwise),
        ran=len(ran),
        ran_rightly=len(ran & otherwise),
        rescored=len(claims.rescored & known),
        unfollowed=len(claims.unfollowed & known),
    )


class RunEverything:
    """Runs all cases after every edit: right, and of no use."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle

    async def first_run(self, project: Path) -> None:
        """See Strategy."""

    async def after_edit(self, project: Path) -> Claims:
        """See Strategy."""
        outcomes = self._oracle.run(project)
        return Claims(frozenset(outcomes), outcomes)

    async def close(self) -> None:
        """See Strategy."""


class RunNothing:
    """Runs only cases that it does not know: of great precision, and wrong."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle

    async def first_run(self, project: Path) -> None:
        """See Strategy."""
        self._known = self._oracle.run(project)

    async def after_edit(self, project: Path) -> Claims:
        """See Strategy."""
        now = self._oracle.run(project)
        new = frozenset(now.keys() - self._known.keys())
        self._known = {eval_id: self._known.get(eval_id, outcome) for eval_id, outcome in now.items()}
        return Claims(new, self._known)

    async def close(self) -> None:
        """See Strategy."""


class RunByModules:
    """Runs the cases that had imported a module whose file has changed, as test runners with a graph of imports do."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle

    async def first_run(self, project: Path) -> None:
        """See Strategy."""
        self._known = self._oracle.run(project)
        self._modules = dict(self._oracle.modules)
        self._set = _read(project, EVAL_SET)
        self._files = {name: _read(project, name) for name in _all(self._modules)}

    async def after_edit(self, project: Path) -> Claims:
        """See Strategy."""
        now = self._oracle.run(project)
        files = {name: _read(project, name) for name in {*self._files, *_all(self._oracle.modules)}}
        changed = {name for name, data in files.items() if data != self._files.get(name, data)}
        edited = self._set != _read(project, EVAL_SET)
        ran = frozenset(i for i in now if edited or i not in self._known or self._modules[i] & changed)
        self._known = {eval_id: now[eval_id] if eval_id in ran else self._known[eval_id] for eval_id in now}
        self._modules = {i: self._oracle.modules[i] if i in ran else self._modules[i] for i in now}
        self._files, self._set = files, _read(project, EVAL_SET)
        return Claims(ran, self._known)

    async def close(self) -> None:
        """See Strategy."""


def _all(modules: Mapping[str, frozenset[str]]) -> set[str]:
    return set().union(*modules.values())


def _read(project: Path, name: str) -> bytes | None:
    path = project / name
    return path.read_bytes() if path.is_file() else None
