"""The proof: after every edit, the claims of a strategy about every case are compared with a fresh run of all cases.

A strategy is a way to watch. It runs a project once. After each edit it learns that something changed, but not what. It
reruns the cases that it selects, and claims an outcome for every case. A claim that differs from the finding of the
oracle is a miss. The share of useful reruns is its precision.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from .cases import expect
from .edits import Edit, edit, make_scene
from .oracle import Oracle
from .outcomes import Outcome
from .packages import EVAL_SET, TIMED, Package, generate
from .scene import Scene

_RECENT_STATES = 5  # of a project
_STORED_RUNS = 5
"""The history may have dropped the verdict of an earlier state after this many runs of a case."""
_RERUNNING_KINDS = frozenset({"env_overruled"})
"""Neutral kinds after which a case may run: an agent that reads all variables sees a new one."""


@dataclass(frozen=True)
class Claims:
    """The claims of a strategy after an edit: the cases that it reran or rescored, and the outcome of every case.

    Nothing is claimed of `waiting_cases`, whose source does not compile. `opaque_reruns` ran because their dependencies
    are unknown. `claim_later` returns the claims when even a slow watch must have seen the edit.
    """

    reruns: frozenset[str]
    outcomes: Mapping[str, Outcome]
    rescorings: frozenset[str] = frozenset()
    waiting_cases: frozenset[str] = frozenset()
    opaque_reruns: frozenset[str] = frozenset()
    claim_later: Callable[[], Awaitable[Claims]] | None = None


class Strategy(Protocol):
    """A way to watch a project."""

    async def first_run(self, project: Path) -> None:
        """Run every case of a project once, and forget the previous project."""

    async def after_edit(self, project: Path) -> Claims:
        """Rerun the cases that an edit may have affected, and claim an outcome for every case."""

    async def close(self) -> None:
        """Release the project."""


class Miss(NamedTuple):
    """A case with a wrong claim."""

    seed: int
    number: int
    edit: str
    eval_id: str
    has_rerun: bool
    differences: tuple[str, ...]

    def __str__(self) -> str:
        how = "though it was run" if self.has_rerun else "it was not run"
        return (
            f"seed {self.seed}, edit {self.number} ({self.edit}), {self.eval_id}, {how}: {'; '.join(self.differences)}"
        )


@dataclass
class Tally:
    """Counts of the cases that exist before and after edits.

    `changed_results` counts any change of a result, `changed_executions` only changes of what the agent did.
    """

    edits: int = 0
    selective_edits: int = 0
    """Edits that changed some results and not all."""
    decisions: int = 0
    changed_results: int = 0
    changed_executions: int = 0
    reruns: int = 0
    useful_reruns: int = 0
    rescorings: int = 0
    opaque_reruns: int = 0
    """Reruns because dependencies are unknown."""
    useless_opaque_reruns: int = 0

    @property
    def rerun_share(self) -> float:
        """The share of decisions to run the agent."""
        return self.reruns / max(1, self.decisions)

    @property
    def opaque_share(self) -> float:
        """The share of decisions to run the agent because its dependencies are unknown."""
        return self.opaque_reruns / max(1, self.decisions)

    @property
    def changed_share(self) -> float:
        """The share of cases whose agent really did something else."""
        return self.changed_executions / max(1, self.decisions)

    @property
    def precision(self) -> float:
        """The share of reruns with a new result."""
        return self.useful_reruns / max(1, self.reruns)

    def add(self, other: Tally) -> None:
        """Add the counts of another tally."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def __str__(self) -> str:
        useless = 1 - self.precision
        opaque_share = self.useless_opaque_reruns / max(1, self.decisions)
        return (
            f"{self.edits} edits, {self.decisions} decisions, {self.rerun_share:.1%} run again, "
            f"{self.changed_share:.1%} truly changed, {self.rerun_share * useless:.1%} in vain "
            f"({useless:.0%} of those run; {opaque_share:.1%} cannot be followed), "
            f"{self.opaque_share:.1%} not followed, {self.rescorings} judged again"
        )


@dataclass
class Report:
    """The result of the proof."""

    total: Tally = field(default_factory=Tally)
    by_kind: dict[str, Tally] = field(default_factory=dict)
    misses: list[Miss] = field(default_factory=list)
    false_neutral_edits: list[str] = field(default_factory=list)
    """Edits of neutral kinds that did change a result: a fault of the generator."""
    useless_reruns: list[str] = field(default_factory=list)
    """Edits with reruns although they affect no case, or restored a recent state of the project."""

    def add(self, other: Report) -> None:
        """Add another report."""
        self.total.add(other.total)
        for kind, tally in other.by_kind.items():
            self.by_kind.setdefault(kind, Tally()).add(tally)
        self.misses.extend(other.misses)
        self.false_neutral_edits.extend(other.false_neutral_edits)
        self.useless_reruns.extend(other.useless_reruns)

    def __str__(self) -> str:
        kinds = "".join(
            f"\n  {name:24} {tally.edits:5} edits, {tally.selective_edits:4} selective, of {tally.decisions:6} cases "
            f"{tally.changed_results:5} changed, {tally.reruns:5} run"
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
    max_misses: int = 0,
    write_line: Callable[[str], None] = lambda line: None,
    likely: tuple[str, ...] = (),
    excluded: Collection[str] = (),
    **sizes: Any,
) -> Report:
    """Edit the packages of these seeds and check the claims, until there are more than `max_misses` misses.

    `edits` is per package. `likely` kinds of edits are made more often, `excluded` ones never. `sizes` are options of
    `packages.generate`.
    """
    report = Report()
    for seed in seeds:
        scene = make_scene(make_project(folder / f"seed{seed}", seed, oracle, **sizes))
        scene.likely_kinds = likely
        scene.excluded_kinds = frozenset(excluded)
        await strategy.first_run(scene.root)
        try:
            await _edit_and_compare(strategy, oracle, scene, report, seed=seed, edits=edits, max_misses=max_misses)
        finally:
            await strategy.close()
        write_line(f"seed {seed}: {str(report).splitlines()[0]}")
        if len(report.misses) > max_misses:
            break
    return report


def make_project(root: Path, seed: int, oracle: Oracle, **sizes: Any) -> Package:
    """Generate a package. Most of its cases expect what it does."""
    package = generate(root, seed, **sizes)
    expect(root / EVAL_SET, oracle.run(root), random.Random(seed))
    return package


async def _edit_and_compare(
    strategy: Strategy, oracle: Oracle, scene: Scene, report: Report, *, seed: int, edits: int, max_misses: int
) -> None:
    before = await asyncio.to_thread(oracle.run, scene.root)
    recent_states = deque([_read_state(scene)], maxlen=_RECENT_STATES)
    runs = Counter(before.keys())
    opaque_cases: set[str] = set()  # also at an earlier edit: their verdict of a restored state cannot be reused
    for number in range(edits):
        new_edit = edit(scene)
        assert new_edit is not None
        state = _read_state(scene)
        future = oracle.begin(scene.root)
        claims = await strategy.after_edit(scene.root)
        truth = await asyncio.wrap_future(future)
        misses = _find_misses(claims, truth, seed=seed, number=number, new_edit=new_edit)
        if misses and claims.claim_later is not None:
            claims = await claims.claim_later()
            misses = _find_misses(claims, truth, seed=seed, number=number, new_edit=new_edit)
        report.misses += misses
        tally = _make_tally(claims, before, truth)
        if new_edit.neutral and tally.changed_results:
            report.false_neutral_edits.append(f"seed {seed}, edit {number}: {new_edit}")
        runs.update(claims.reruns)
        useless_reruns = claims.reruns if new_edit.neutral and new_edit.kind not in _RERUNNING_KINDS else frozenset()
        if state in recent_states and new_edit.paths:
            useless_reruns |= {eval_id for eval_id in claims.reruns if runs[eval_id] < _STORED_RUNS}
        opaque_cases |= claims.opaque_reruns
        useless_reruns -= opaque_cases
        if not new_edit.paths:  # the edit is not part of the state
            recent_states.clear()
        if useless_reruns:
            report.useless_reruns.append(
                f"seed {seed}, edit {number}: {new_edit}, ran {', '.join(sorted(useless_reruns))}"
            )
        recent_states.append(state)
        report.total.add(tally)
        report.by_kind.setdefault(new_edit.kind, Tally()).add(tally)
        before = truth
        if len(report.misses) > max_misses:
            return


def _read_state(scene: Scene) -> tuple[tuple[str, bytes, int], ...]:
    paths = ((name, scene.root / name) for name in sorted(scene.files))
    return tuple((name, path.read_bytes(), path.stat().st_mtime_ns * name.startswith(TIMED)) for name, path in paths)


def _find_misses(claims: Claims, truth: Mapping[str, Outcome], *, seed: int, number: int, new_edit: Edit) -> list[Miss]:
    misses = []
    for eval_id in sorted({*truth, *claims.outcomes} - claims.waiting_cases):
        claimed, found = claims.outcomes.get(eval_id), truth.get(eval_id)
        if claimed == found:
            continue
        if claimed is None or found is None:
            differences = ["nothing is claimed of it" if claimed is None else "there is no such case any more"]
        else:
            differences = claimed.list_differences(found)
        misses.append(Miss(seed, number, str(new_edit), eval_id, eval_id in claims.reruns, tuple(differences)))
    return misses


def _make_tally(claims: Claims, before: Mapping[str, Outcome], truth: Mapping[str, Outcome]) -> Tally:
    known = before.keys() & truth.keys()
    changed_results = {eval_id for eval_id in known if before[eval_id] != truth[eval_id]}
    changed_executions = {eval_id for eval_id in known if not before[eval_id].has_same_execution(truth[eval_id])}
    reruns = claims.reruns & known
    return Tally(
        edits=1,
        selective_edits=int(0 < len(changed_results) < len(known)),
        decisions=len(known),
        changed_results=len(changed_results),
        changed_executions=len(changed_executions),
        reruns=len(reruns),
        useful_reruns=len(reruns & changed_executions),
        rescorings=len(claims.rescorings & known),
        opaque_reruns=len(claims.opaque_reruns & known),
        useless_opaque_reruns=len((claims.opaque_reruns & known) - changed_executions),
    )


class RunEverything:
    """Reruns all cases after every edit: correct but useless."""

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
    """Runs only new cases: precise but wrong."""

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
    """Reruns the cases that imported a changed file, as test runners with an import graph do."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle

    async def first_run(self, project: Path) -> None:
        """See Strategy."""
        self._known = self._oracle.run(project)
        self._modules = dict(self._oracle.modules)
        self._set = _read_file(project, EVAL_SET)
        self._files = {name: _read_file(project, name) for name in _merge_modules(self._modules)}

    async def after_edit(self, project: Path) -> Claims:
        """See Strategy."""
        now = self._oracle.run(project)
        files = {name: _read_file(project, name) for name in {*self._files, *_merge_modules(self._oracle.modules)}}
        changed = {name for name, data in files.items() if data != self._files.get(name, data)}
        is_set_edited = self._set != _read_file(project, EVAL_SET)
        reruns = frozenset(i for i in now if is_set_edited or i not in self._known or self._modules[i] & changed)
        self._known = {eval_id: now[eval_id] if eval_id in reruns else self._known[eval_id] for eval_id in now}
        self._modules = {i: self._oracle.modules[i] if i in reruns else self._modules[i] for i in now}
        self._files, self._set = files, _read_file(project, EVAL_SET)
        return Claims(reruns, self._known)

    async def close(self) -> None:
        """See Strategy."""


def _merge_modules(modules: Mapping[str, frozenset[str]]) -> set[str]:
    return set().union(*modules.values())


def _read_file(project: Path, name: str) -> bytes | None:
    path = project / name
    return path.read_bytes() if path.is_file() else None
