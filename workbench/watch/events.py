"""What a watch tells whoever listens, in the order in which it became true."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import AwareDatetime

from workbench.engine.plan import PlannedCase
from workbench.engine.run import Run
from workbench.model.base import Fact
from workbench.model.evalset import EvalCase
from workbench.model.events import Notice, RunEvent, RunSummary
from workbench.model.keys import JobKey
from workbench.model.results import CaseResult
from workbench.store.history import StoredVerdict
from workbench.watch.selection import Decision
from workbench.watch.state import BrokenSource


class WatchStarted(Fact):
    """Watching has begun. `mode` says how changes are noticed, `reason` why not otherwise; `total` counts jobs."""

    kind: Literal["watch_started"] = "watch_started"
    total: int
    files: int
    folders: int
    mode: str
    reason: str = ""


class ChangeSeen(Fact):
    """Something was saved. Of `total` jobs `run` run the agent, `judged` only judge again, `waiting` need source that
    cannot be compiled; the verdicts of the others hold. `reason` says why, `paths` are relative to the root. `held`
    says why what runs the agent does not do so by itself; empty where it does. `is_used` is false where it is nothing
    that cases have ever used, and no source: a log, it may be."""

    kind: Literal["change_seen"] = "change_seen"
    at: AwareDatetime
    paths: tuple[str, ...]
    run: int
    judged: int
    waiting: int
    total: int
    reason: str
    held: str = ""
    is_used: bool = True


class VerdictKnown(Fact):
    """A verdict on how things are now, of a case that was run or judged again just now.

    `case` is the case that it is about, as it is now. `holds` is false where it says nothing that could hold: there was
    no answer, or something changed time and again while the case ran.
    """

    kind: Literal["verdict"] = "verdict"
    result: CaseResult
    case: EvalCase | None = None
    holds: bool = True
    seconds_since_save: float | None = None  # None where no save made work of it


class SourceBroken(Fact):
    """A source file that cases need cannot be compiled: their old verdicts are stale until it can. Said once."""

    kind: Literal["source_broken"] = "source_broken"
    path: str
    line: int | None
    message: str
    cases: int


class AllKnown(Fact):
    """Nothing is running or waiting: this is how all cases stand. `stale` have no verdict that holds.

    `models` of the summary are what the runs of the watch have asked since this was told last.
    """

    kind: Literal["all_known"] = "all_known"
    summary: RunSummary
    stale: int


WatchFact = WatchStarted | ChangeSeen | VerdictKnown | SourceBroken | AllKnown | Notice
"""What can be written down."""


@dataclass(frozen=True)
class VerdictsHold:
    """Verdicts of earlier runs hold (again), each for the job that it is keyed by; `planned` has all jobs as they are.

    There may be thousands of them, so that what the agents did is left in the history: see `results_of`.
    """

    verdicts: Mapping[JobKey, StoredVerdict]
    planned: Mapping[JobKey, PlannedCase]


@dataclass(frozen=True)
class RunBegun:
    """A run of these jobs has begun, for whoever wants to follow it."""

    run: Run
    jobs: tuple[JobKey, ...]
    reason: str


@dataclass(frozen=True)
class Decided:
    """How every case stands after the last change: which verdicts hold, and why others do not.

    `work` is what is run or judged again because of it, or would be if the watch were not paused; `held` what is not
    run by itself, because it is too much. `broken` are the files that cannot be compiled and that cases wait for.
    """

    decisions: tuple[Decision, ...]
    work: tuple[Decision, ...] = ()
    broken: tuple[BrokenSource, ...] = ()
    held: frozenset[JobKey] = frozenset()


@dataclass(frozen=True)
class RunTold:
    """What a run of the watch has told. A verdict that it brings, where it still holds, is told before it."""

    run_id: str
    event: RunEvent


WatchEvent = WatchFact | VerdictsHold | RunBegun | RunTold | Decided
