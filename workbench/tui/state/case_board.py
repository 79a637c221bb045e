"""How each case is: its newest result, what is running, whether the verdict is current."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from workbench.model.evalset import Content
from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import CaseResult, CaseStatus, MetricStatus, TurnResult, has_missing_samples
from workbench.model.run_events import CaseFinished, CaseStarted, InvocationFinished, RunEvent, SpanFinished, UserSpoke
from workbench.model.trace import Span
from workbench.store.history.history_queries import StoredJob
from workbench.tui.state.text_layout import Style

# How a case stands, and how that is shown: a symbol, a word and a style, never a colour alone.


class Standing(StrEnum):
    """How a case stands now: the outcome of its newest results, or what a run is doing with it."""

    NOT_RUN = "not run"
    WAITING = "waiting"
    RUNNING = "running"
    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    NOT_EVALUATED = "not evaluated"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Look:
    """How something is shown: the symbol is one cell wide."""

    symbol: str
    word: str
    style: Style


_LOOKS = {
    Standing.NOT_RUN: Look("○", "not run", Style.MUTED),
    Standing.WAITING: Look("○", "waiting", Style.RUNNING),
    Standing.RUNNING: Look("◐", "running", Style.RUNNING),
    Standing.PASSED: Look("✓", "passed", Style.PASSED),
    Standing.FAILED: Look("✗", "failed", Style.FAILED),
    Standing.ERROR: Look("!", "error", Style.ERROR),
    Standing.NOT_EVALUATED: Look("?", "not evaluated", Style.WARNING),
    Standing.SKIPPED: Look("-", "skipped", Style.MUTED),
    Standing.CANCELLED: Look("-", "cancelled", Style.WARNING),
}

_METRIC_LOOKS = {
    MetricStatus.PASSED: Look("✓", "passed", Style.PASSED),
    MetricStatus.FAILED: Look("✗", "failed", Style.FAILED),
    MetricStatus.ERROR: Look("!", "error", Style.ERROR),
    MetricStatus.UNDEFINED: Look("?", "undefined", Style.WARNING),
    MetricStatus.INFORMATIONAL: Look("·", "informational", Style.MUTED),
}

_WORST_FIRST = (
    CaseStatus.ERROR,
    CaseStatus.FAILED,
    CaseStatus.NOT_EVALUATED,
    CaseStatus.CANCELLED,
    CaseStatus.SKIPPED,
    CaseStatus.PASSED,
)

STALE = Look("●", "stale", Style.WARNING)
"""How a case is shown whose verdict no longer holds: it or its criteria have changed since."""

MARKED = Look("◆", "marked", Style.HEADING)
"""How a case is shown that the user has marked."""

EDITED = Look("*", "unsaved edits", Style.WARNING)
"""How a case or an eval set is shown that has edits which are not in its file."""

PARTLY_JUDGED = Look("†", "judged by fewer samples than asked", Style.WARNING)
"""How a case is shown whose verdict lacks samples of a judge."""

FALLS_SHORT = frozenset({Standing.FAILED, Standing.ERROR, Standing.NOT_EVALUATED})
"""Standings of a finished case that did not pass: what "run failed" runs and "next failing" finds."""


def look_of(standing: Standing) -> Look:
    """How a standing is shown."""
    return _LOOKS[standing]


def look_of_metric(status: MetricStatus) -> Look:
    """How the outcome of a metric is shown."""
    return _METRIC_LOOKS[status]


def standing_of(statuses: Iterable[CaseStatus]) -> Standing:
    """How a case stands whose repeats ended so: as its worst repeat, for it passes only where all do."""
    found = set(statuses)
    worst = next((status for status in _WORST_FIRST if status in found), None)
    return Standing.NOT_RUN if worst is None else Standing[worst.name]


# The board: how every case stands, kept up to date by RunEvents, with counts that roll up.


class ResultPlace(NamedTuple):
    """Where a result is in the history: its run, and the job in that."""

    run_id: str
    job: JobKey


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one repeat ended. A `result` that is in the history is read when it is looked at, and may be None before.

    `place` is where it is stored; None where that is not known, or it is not.
    `is_played`: nothing was to judge it; it may have failed all the same. `misses_samples`: a verdict on it rests on
    fewer samples of a judge than were asked for.
    """

    status: CaseStatus
    agent_seconds: float
    result: CaseResult | None = None
    stored_at: datetime | None = None  # None for a result of this session
    in_history: bool = True
    is_played: bool = False
    place: ResultPlace | None = None
    misses_samples: bool = False


@dataclass(slots=True)
class CaseRecord:
    """What is known of one case.

    `outcomes` are the finished repeats of its newest run, `turns` and `spans` what the repeats that are under way have
    finished, `spoken` what a simulated user has said in them that is not answered yet. `former` are the outcomes before
    that run, for as long as it has none but cancelled ones: where it ends so, it has said nothing about the case.
    `judged` is the verdict from before that still holds where `outcomes` were only played: the case stands by it.
    """

    key: CaseKey
    standing: Standing = Standing.NOT_RUN
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    turns: dict[int, list[TurnResult]] = field(default_factory=dict)
    spans: dict[int, list[Span]] = field(default_factory=dict)
    spoken: dict[int, Content] = field(default_factory=dict)
    former: dict[int, Outcome] = field(default_factory=dict)
    judged: dict[int, Outcome] = field(default_factory=dict)
    outstanding: int = 0  # jobs of the current run that have not ended
    renewed: bool = True  # whether `outcomes` are those of the newest run it was part of
    ended: int = 0  # its newest result is the how-manieth of this session; 0: it has none of this session

    @property
    def verdicts(self) -> Mapping[int, Outcome]:
        """What the case stands by, by repeat."""
        return self.judged or self.outcomes

    @property
    def is_only_played(self) -> bool:
        """Whether nothing has judged what the agent did last."""
        return bool(self.outcomes) and all(outcome.is_played for outcome in self.outcomes.values())

    @property
    def has_failed_to_play(self) -> bool:
        """Whether it was only played, and not to its end."""
        return self.is_only_played and any(each.status is CaseStatus.ERROR for each in self.outcomes.values())

    @property
    def agent_seconds(self) -> float | None:
        """How long the agent's turns took, the mean of the repeats; None before the case has run."""
        if not self.verdicts:
            return None
        return sum(outcome.agent_seconds for outcome in self.verdicts.values()) / len(self.verdicts)

    @property
    def repeats(self) -> list[int]:
        """The repeats that have ended or are under way, in order."""
        return sorted({*self.outcomes, *self.turns})

    @property
    def passed_repeats(self) -> int:
        """How many of the finished repeats passed."""
        return sum(outcome.status is CaseStatus.PASSED for outcome in self.verdicts.values())

    @property
    def stored_at(self) -> datetime | None:
        """When what it stands by was stored, where that is of an earlier session."""
        return max((outcome.stored_at for outcome in self.verdicts.values() if outcome.stored_at), default=None)

    @property
    def misses_samples(self) -> bool:
        """Whether the verdict on a repeat rests on fewer samples of a judge than were asked for."""
        return any(outcome.misses_samples for outcome in self.verdicts.values())

    @property
    def lacks_results(self) -> bool:
        """Whether stored results are still to be read."""
        return any(outcome.result is None for outcome in (*self.outcomes.values(), *self.former.values()))


Group = tuple[str | None, str | None]
"""A target and one of its eval sets; None stands for all of them."""

_MOST_RESULTS = 200
"""Results held at the same time of those that can be read again: ten thousand would take 200 MB."""

_Cell = tuple[str, str, Standing]  # target, eval set, standing: what is counted


class Board:
    """How every case stands."""

    def __init__(self) -> None:
        self._records: dict[CaseKey, CaseRecord] = {}
        self._counts: dict[Group, Counter[Standing]] = {}
        self._stored: dict[CaseKey, Sequence[StoredJob]] = {}
        self._early: dict[CaseKey, dict[int, Outcome]] = {}  # of cases that were told of before they were listed
        self._results = 0  # of this session
        self._earlier: set[CaseKey] = set()  # that stand by another verdict than the newest in the history
        self._held: dict[JobKey, None] = {}  # whose result is held and in the history, the oldest first

    def record(self, key: CaseKey) -> CaseRecord | None:
        """What is known of a case, None where no eval set lists it."""
        return self._records.get(key)

    @property
    def results(self) -> int:
        """How many results this session has brought."""
        return self._results

    def counts(self, target: str | None = None, eval_set: str | None = None) -> Mapping[Standing, int]:
        """How many cases stand how: of everything, of a target, or of one of its sets."""
        return self._counts.get((target, eval_set), Counter())

    def shown_verdicts(self, keys: Iterable[CaseKey]) -> dict[CaseKey, dict[int, ResultPlace | None]]:
        """Where the verdicts of these cases are stored, by repeat; of one that has none, nothing.

        Without those that are under way, or were only played.
        """
        records = (record for key in keys if (record := self._records.get(key)) is not None)
        return {
            record.key: {repeat: outcome.place for repeat, outcome in record.verdicts.items()}
            for record in records
            if not _is_under_way(record) and not record.is_only_played
        }

    def places(self) -> dict[JobKey, ResultPlace]:
        """Where the verdicts that are shown are stored."""
        return {
            JobKey(case=key, repeat=repeat): outcome.place
            for key, record in self._records.items()
            for repeat, outcome in record.verdicts.items()
            if outcome.place is not None
        }

    def earlier_verdicts(self, keys: Iterable[CaseKey]) -> dict[JobKey, ResultPlace]:
        """Where the results of those of the cases are stored that stand by others than their newest."""
        return {
            JobKey(case=key, repeat=repeat): outcome.place
            for key in keys
            if key in self._earlier
            for repeat, outcome in self._records[key].verdicts.items()
            if outcome.place is not None
        }

    def list_cases(self, keys: Iterable[CaseKey]) -> None:
        """Add the cases of a set that has been read; those already known keep what is known of them."""
        changes: Counter[_Cell] = Counter()
        for key in keys:
            if key in self._records:
                continue
            record = self._records[key] = CaseRecord(key)
            if early := self._early.pop(key, None):
                self._results += 1
                record.outcomes, record.ended = early, self._results
                record.standing = _outcome(record)
                if any(outcome.stored_at for outcome in early.values()):
                    self._earlier.add(key)
            elif stored := self._stored.get(key):
                _take_stored(record, stored)
            changes[key.target, key.eval_set, record.standing] += 1
        self._count(changes)

    def forget(self, keys: Iterable[CaseKey]) -> None:
        """Remove cases that no eval set lists any longer."""
        changes: Counter[_Cell] = Counter()
        for key in keys:
            record = self._records.pop(key, None)
            self._earlier.discard(key)
            if record is not None:
                changes[key.target, key.eval_set, record.standing] -= 1
        self._count(changes)

    def show_stored(self, jobs: Mapping[CaseKey, Sequence[StoredJob]]) -> None:
        """Take how cases ended last, for those listed now or later; one that has run in this session keeps its own."""
        self._stored.update(jobs)
        changes: Counter[_Cell] = Counter()
        for key, stored in jobs.items():
            record = self._records.get(key)
            if record is not None and not record.ended and not _is_under_way(record):
                changes[key.target, key.eval_set, record.standing] -= 1
                _take_stored(record, stored)
                changes[key.target, key.eval_set, record.standing] += 1
        self._count(changes)

    def only_played(self, keys: Iterable[CaseKey]) -> Sequence[CaseKey]:
        """Those of the cases that nothing has judged since their agents ran last."""
        records = ((key, self._records.get(key)) for key in dict.fromkeys(keys))
        return [key for key, record in records if record is not None and record.is_only_played]

    def show_verdicts(self, held: Mapping[CaseKey, Sequence[StoredJob]]) -> None:
        """These verdicts hold: cases that were only played since stand by them."""
        for key, stored in held.items():
            record = self._records.get(key)
            if record is not None and record.is_only_played and not _is_under_way(record):
                record.judged = _outcomes_of(stored)
                self._stand(record, _outcome(record))

    def fill(self, results: Iterable[CaseResult]) -> None:
        """Add what was read of stored results; of a case that has run since, nothing."""
        for result in results:
            record = self._records.get(result.case)
            for outcomes in (record.outcomes, record.former) if record is not None else ():
                outcome = outcomes.get(result.repeat)
                if outcome is not None and outcome.result is None:
                    outcomes[result.repeat] = replace(outcome, result=result)
                    self._hold(result.case, result.repeat)

    def show_current(self, key: CaseKey, verdicts: Mapping[int, StoredJob]) -> None:
        """These stored verdicts, by repeat, are the ones that count: they take the place of newer ones."""
        record = self._records.get(key)
        if record is None or _is_under_way(record) or record.is_only_played:
            return
        record.outcomes.update({repeat: _stored_outcome(job) for repeat, job in verdicts.items()})
        record.former = {}
        self._note_earlier(record)
        self._stand(record, _outcome(record))

    def _note_earlier(self, record: CaseRecord) -> None:
        self._earlier.add(record.key)
        self._results += 1
        record.ended = self._results

    def show_again(self, result: CaseResult, *, stored_at: datetime, place: ResultPlace) -> Iterable[CaseKey]:
        """An earlier result is the one that counts: it takes the place of the newest, but for one that was only played.

        Returns the case if listed.
        """
        outcome = Outcome(
            result.status,
            result.agent_seconds,
            result,
            stored_at=stored_at,
            place=place,
            misses_samples=has_missing_samples(result.metrics),
        )
        record = self._records.get(result.case)
        if record is None:
            self._early.setdefault(result.case, {})[result.repeat] = outcome
            return ()
        outcomes = record.judged if record.is_only_played else record.outcomes
        outcomes[result.repeat] = outcome
        record.former = {}
        self._hold(result.case, result.repeat)
        self._note_earlier(record)
        if not _is_under_way(record):
            self._stand(record, _outcome(record))
        return (record.key,)

    def let_go(self, *, but: CaseKey | None) -> None:
        """Let go of results that can be read again, all but the newest and those of one case, which is looked at."""
        oldest = list(self._held)[: max(len(self._held) - _MOST_RESULTS, 0)]
        for job in oldest:
            if job.case == but:
                continue
            del self._held[job]
            record = self._records.get(job.case)
            outcome = record.outcomes.get(job.repeat) if record is not None else None
            if record is not None and outcome is not None and outcome.in_history:
                record.outcomes[job.repeat] = replace(outcome, result=None)

    def begin(self, jobs: Iterable[JobKey]) -> None:
        """A run is about to do these jobs: their cases wait, and show their last results until they start."""
        changes: Counter[_Cell] = Counter()
        for job in jobs:
            record = self._records.get(job.case)
            if record is None:
                continue
            record.outstanding += 1
            record.renewed = False
            if record.standing is not Standing.WAITING:
                changes[job.case.target, job.case.eval_set, record.standing] -= 1
                changes[job.case.target, job.case.eval_set, Standing.WAITING] += 1
                record.standing = Standing.WAITING
        self._count(changes)

    def apply(self, event: RunEvent, *, run_id: str = "") -> Iterable[CaseKey]:
        """Take one event of a run. Returns the listed cases that it changed."""
        if not isinstance(event, CaseStarted | UserSpoke | InvocationFinished | SpanFinished | CaseFinished):
            return ()
        record = self._records.get(event.case)
        if record is None:
            if isinstance(event, CaseFinished) and event.status is not CaseStatus.CANCELLED:
                self._early.setdefault(event.case, {})[event.repeat] = _outcome_of(event, run_id)
            return ()
        if isinstance(event, CaseStarted):
            self._renew(record)
            record.turns[event.repeat], record.spans[event.repeat] = [], []
            record.spoken.pop(event.repeat, None)
            self._stand(record, Standing.RUNNING)
        elif isinstance(event, UserSpoke):
            record.spoken[event.repeat] = event.content
        elif isinstance(event, InvocationFinished):
            record.spoken.pop(event.repeat, None)
            record.turns.setdefault(event.repeat, []).append(event.result)
        elif isinstance(event, SpanFinished):
            record.spans.setdefault(event.repeat, []).append(event.span)
        else:
            self._finish(record, event, run_id)
        return (record.key,)

    def settle(self, keys: Iterable[CaseKey]) -> list[CaseKey]:
        """A run of these cases is over: those that still wait stand as they did before it. Returns them."""
        left = [record for key in keys if (record := self._records.get(key)) is not None and _is_under_way(record)]
        for record in left:
            record.outstanding, record.turns, record.spans, record.renewed = 0, {}, {}, True
            record.spoken = {}
            self._end(record)
        return [record.key for record in left]

    def _finish(self, record: CaseRecord, event: CaseFinished, run_id: str) -> None:
        self._renew(record)
        record.turns.pop(event.repeat, None)
        record.spans.pop(event.repeat, None)
        record.spoken.pop(event.repeat, None)
        record.outcomes[event.repeat] = _outcome_of(event, run_id)
        if event.in_history:
            self._hold(event.case, event.repeat)
        if event.status is not CaseStatus.CANCELLED:
            record.former, record.judged = {}, {}
            if event.is_judged:
                self._earlier.discard(event.case)
        self._results += 1
        record.ended = self._results
        record.outstanding = max(record.outstanding - 1, 0)
        if record.turns:
            self._stand(record, Standing.RUNNING)
        elif record.outstanding:
            self._stand(record, Standing.WAITING)
        else:
            self._end(record)

    def _end(self, record: CaseRecord) -> None:
        """Nothing of the case is under way any longer: it stands as it ended, else as it did before."""
        if record.former:
            record.outcomes, record.former = record.former, {}
            for repeat, outcome in record.outcomes.items():
                if outcome.result is not None and outcome.in_history:
                    self._hold(record.key, repeat)
        self._stand(record, _outcome(record))

    def _hold(self, case: CaseKey, repeat: int) -> None:
        job = JobKey(case=case, repeat=repeat)
        self._held.pop(job, None)
        self._held[job] = None

    def _renew(self, record: CaseRecord) -> None:
        """The first event of a run about a case puts an end to what earlier runs said of it, unless it is cancelled."""
        if not record.renewed:
            if any(outcome.status is not CaseStatus.CANCELLED for outcome in record.outcomes.values()):
                record.former = record.outcomes
            record.outcomes, record.turns, record.spans, record.renewed = {}, {}, {}, True

    def _stand(self, record: CaseRecord, standing: Standing) -> None:
        if standing is not record.standing:
            target, eval_set = record.key.target, record.key.eval_set
            self._count({(target, eval_set, record.standing): -1, (target, eval_set, standing): 1})
            record.standing = standing

    def _count(self, changes: Mapping[_Cell, int]) -> None:
        for (target, eval_set, standing), change in changes.items():
            groups: tuple[Group, ...] = ((None, None), (target, None), (target, eval_set))
            for group in groups:
                self._counts.setdefault(group, Counter())[standing] += change


def _take_stored(record: CaseRecord, stored: Sequence[StoredJob]) -> None:
    record.outcomes, record.judged = _outcomes_of(stored), {}
    record.standing = _outcome(record)


def _outcomes_of(stored: Iterable[StoredJob]) -> dict[int, Outcome]:
    return {job.key.repeat: _stored_outcome(job) for job in stored}


def _stored_outcome(job: StoredJob) -> Outcome:
    return Outcome(
        job.status,
        job.agent_seconds,
        stored_at=job.finished_at,
        is_played=job.is_from_unscored_run,
        place=ResultPlace(job.run_id, job.key),
        misses_samples=job.misses_samples,
    )


def _outcome_of(event: CaseFinished, run_id: str) -> Outcome:
    is_played = event.status in (CaseStatus.NOT_EVALUATED, CaseStatus.ERROR) and not event.is_judged
    place = ResultPlace(run_id, JobKey(case=event.case, repeat=event.repeat)) if run_id and event.in_history else None
    return Outcome(
        event.status,
        event.result.agent_seconds,
        event.result,
        in_history=event.in_history,
        is_played=is_played,
        place=place,
        misses_samples=has_missing_samples(event.result.metrics),
    )


def _is_under_way(record: CaseRecord) -> bool:
    return bool(record.outstanding or record.turns)


def _outcome(record: CaseRecord) -> Standing:
    return standing_of(outcome.status for outcome in record.verdicts.values())
