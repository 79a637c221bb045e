"""What the panes show: the selected row, and all that is known of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.model.evalset import Content, EvalCase
from workbench.model.keys import CaseKey
from workbench.model.results import CaseResult, TurnResult
from workbench.model.trace import Span
from workbench.tui.state.board import CaseRecord
from workbench.tui.state.browser import Row
from workbench.tui.state.standing import Standing


@dataclass(frozen=True, slots=True)
class ReadCase:
    """A case as its file has it now, or why it could not be read, and its stored results where they were asked for.

    `is_kept`: there is no file, only what a run has stored, and `case` what the row expected then. `is_row`: it is a
    row of a dataset, as far as the file tells.
    """

    key: CaseKey
    case: EvalCase | None
    problem: str = ""
    stored: Sequence[CaseResult] = ()
    is_kept: bool = False
    is_row: bool = False


@dataclass(frozen=True, slots=True)
class Pinned:
    """A session that was asked for in place of the newest result: a stored run's, or a chat's. `title` is safe."""

    title: str
    case: EvalCase | None
    result: CaseResult


@dataclass(frozen=True, slots=True)
class Subject:
    """What is selected. A snapshot, but for `record`, which changes as a run goes on.

    `row` is None where nothing is listed; `read` while the case is read, and where the row is no case. `repeat` is the
    one that is looked at, None where the case has not run. `why_stale` says why its verdict does not hold; nothing
    where it does.
    """

    row: Row | None = None
    read: ReadCase | None = None
    record: CaseRecord | None = None
    repeat: int | None = None
    pinned: Pinned | None = None
    why_stale: Sequence[str] = ()

    @property
    def key(self) -> CaseKey | None:
        """The case that is looked at."""
        if self.pinned is not None:
            return self.pinned.result.case
        return self.row.case if self.row is not None else None

    @property
    def case(self) -> EvalCase | None:
        """The case as it is to be compared with; None where there is none or it could not be read."""
        if self.pinned is not None:
            return self.pinned.case
        return self.read.case if self.read is not None else None

    @property
    def is_kept(self) -> bool:
        """Whether it is a row of a dataset of which there are only stored results."""
        is_chat = self.read is not None and self.key != self.read.key
        return self.read is not None and self.read.is_kept and not is_chat

    @property
    def is_row(self) -> bool:
        """Whether it is a row of a dataset."""
        return (self.read is not None and self.read.is_row) or (self.result is not None and self.result.is_row)

    @property
    def lacks_expected(self) -> bool:
        """Whether what was expected is known to nobody any longer."""
        return self.is_kept and self.case is None

    @property
    def is_stale(self) -> bool:
        """Whether what is looked at is a verdict that does not hold any longer."""
        is_verdict = self.record is not None and self.record.standing not in (Standing.WAITING, Standing.RUNNING)
        return bool(self.why_stale) and is_verdict and self.result_is_newest

    @property
    def result_is_newest(self) -> bool:
        """Whether the newest results of the case are looked at, and there are any."""
        return self.pinned is None and self.record is not None and bool(self.record.outcomes)

    @property
    def is_live(self) -> bool:
        """Whether the repeat that is looked at is under way."""
        return self.pinned is None and self.record is not None and self.repeat in self.record.turns

    @property
    def result(self) -> CaseResult | None:
        """The result that is looked at; None before there is one, and while it is still to be read."""
        if self.pinned is not None:
            return self.pinned.result
        if self.record is None or self.repeat is None or self.is_live:
            return None
        outcome = self.record.outcomes.get(self.repeat)
        return outcome.result if outcome is not None else None

    @property
    def turns(self) -> Sequence[TurnResult]:
        """The turns that the agent has finished."""
        if self.is_live and self.record is not None and self.repeat is not None:
            return self.record.turns[self.repeat]
        return self.result.execution.turns if self.result is not None else ()

    @property
    def spoken(self) -> Content | None:
        """What a simulated user has said and the agent has not answered yet."""
        if self.is_live and self.record is not None and self.repeat is not None:
            return self.record.spoken.get(self.repeat)
        return None

    @property
    def spans(self) -> Sequence[Span]:
        """The steps of the agent that have ended."""
        if self.is_live and self.record is not None and self.repeat is not None:
            return self.record.spans.get(self.repeat, ())
        return self.result.execution.spans if self.result is not None else ()


def shown_repeat(record: CaseRecord | None, chosen: int | None) -> int | None:
    """The chosen repeat, else the first under way, else the first that ended as the case stands."""
    if record is None or not record.repeats:
        return None
    if chosen in record.repeats:
        return chosen
    if record.turns:
        return min(record.turns)
    ended_so = (r for r, outcome in sorted(record.outcomes.items()) if outcome.status.name == record.standing.name)
    return next(ended_so, record.repeats[0])
