"""What a watch tells the screen. Reasons are in words already; they and all names may come from outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.model.events import Notice, RunEvent
from workbench.model.keys import JobKey
from workbench.model.results import CaseResult
from workbench.tui.state.board import ResultPlace
from workbench.tui.state.browser.content import Hashes

if TYPE_CHECKING:
    from workbench.engine.run import Run


@dataclass(frozen=True, slots=True)
class Began:
    """Watching has begun. `reason` says why changes are looked for instead of being told by the system."""

    reason: str


@dataclass(frozen=True, slots=True)
class Concerned:
    """A job that a change concerns, and why; `is_judged` where its agent need not run."""

    job: JobKey
    why: str
    is_judged: bool


@dataclass(frozen=True, slots=True)
class Broken:
    """A source file that cannot be compiled. `shown` is its path below the root, `line` counts from 1."""

    path: Path
    shown: str
    line: int | None
    message: str

    @property
    def where(self) -> str:
        """File and line."""
        return self.shown if self.line is None else f"{self.shown}:{self.line}"


@dataclass(frozen=True, slots=True)
class Standings:
    """How every case stands: `stale` are the jobs whose verdicts do not hold, with the reasons.

    `concerned` are those that run or are judged because of that, or wait to be; `chains` say how far each reason
    reaches. `held` wait because they are more than a change may run by itself; of `again` a verdict of an earlier run
    is the one that holds.
    """

    files: int
    total: int
    stale: Mapping[JobKey, Sequence[str]]
    concerned: Sequence[Concerned]
    chains: Sequence[str]
    broken: Sequence[Broken]
    held: frozenset[JobKey]
    again: int = 0


@dataclass(frozen=True, slots=True)
class Changed:
    """Something was saved. The `Standings` before this say what it concerns; `held` why that does not run by itself.

    Of `paths` those in `gone` are there no longer.
    """

    at: datetime
    paths: Sequence[str]
    gone: frozenset[str]
    run: int
    judged: int
    waiting: int
    total: int
    reason: str
    held: str


@dataclass(frozen=True, slots=True)
class Executed:
    """A case was run on how things are now; `seconds` since the save that made work of it, where one did.

    `holds` is false where what came of it is no verdict, as where there was no answer.
    """

    result: CaseResult
    seconds: float | None
    holds: bool


@dataclass(frozen=True, slots=True)
class HoldsAgain:
    """A verdict of an earlier run is the one that holds, and was given by these hashes."""

    result: CaseResult
    stored_at: datetime
    hashes: Hashes
    place: ResultPlace


@dataclass(frozen=True, slots=True)
class BrokenTold:
    """A source file cannot be compiled any longer, and so many cases wait until it can: told once."""

    broken: Broken
    cases: int


@dataclass(frozen=True, slots=True)
class Begun:
    """The watch has begun a run."""

    run: Run
    jobs: Sequence[JobKey]
    reason: str


@dataclass(frozen=True, slots=True)
class OfRun:
    """An event of a run that the watch has begun."""

    run_id: str
    event: RunEvent


@dataclass(frozen=True, slots=True)
class Quiet:
    """Nothing runs, and nothing is about to."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The watch has ended by itself."""

    problem: str


WatchNews = Began | Standings | Changed | Executed | HoldsAgain | BrokenTold | Begun | OfRun | Quiet | Ended | Notice
