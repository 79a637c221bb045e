"""What a watch tells whoever listens, in the order in which it became true."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from workbench.model.base import Fact
from workbench.model.evalset import EvalCase
from workbench.model.events import Notice, RunSummary
from workbench.model.results import CaseResult


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
    cannot be compiled; the verdicts of the others hold. `reason` says why, `paths` are relative to the root."""

    kind: Literal["change_seen"] = "change_seen"
    at: AwareDatetime
    paths: tuple[str, ...]
    run: int
    judged: int
    waiting: int
    total: int
    reason: str


class VerdictKnown(Fact):
    """A verdict on how things are now: "executed" just now, or "stored" where an earlier one holds (again).

    `case` is the case that it is about, as it is now.
    """

    kind: Literal["verdict"] = "verdict"
    result: CaseResult
    case: EvalCase | None = None
    source: Literal["executed", "stored"]
    seconds_since_save: float | None = None  # None where no save made work of it


class SourceBroken(Fact):
    """A source file that cases need cannot be compiled: their old verdicts are stale until it can. Said once."""

    kind: Literal["source_broken"] = "source_broken"
    path: str
    line: int | None
    message: str
    cases: int


class AllKnown(Fact):
    """Nothing is running or waiting: this is how all cases stand. `stale` have no verdict that holds."""

    kind: Literal["all_known"] = "all_known"
    summary: RunSummary
    stale: int


WatchEvent = Annotated[
    WatchStarted | ChangeSeen | VerdictKnown | SourceBroken | AllKnown | Notice, Field(discriminator="kind")
]
