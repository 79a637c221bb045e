"""Status of every case: newest results, jobs in progress, and counts by eval set and target."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from workbench.model.evalset import Content
from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import (
    CaseResult,
    CaseStatus,
    MetricStatus,
    TurnResult,
    has_missing_samples,
    is_quarantined,
)
from workbench.model.run_events import CaseFinished, CaseStarted, InvocationFinished, RunEvent, SpanFinished, UserSpoke
from workbench.model.trace import Span
from workbench.report.run_report import QUARANTINE_SYMBOL, REPLAY_MARK
from workbench.store.history.history_queries import StoredJob
from workbench.tui.state.text_layout import RankedPart, Style, StyledText, measure_line

# Case states, and the badge of each: a symbol, a word and a style, never a colour alone.


class CaseState(StrEnum):
    """State of a case: the outcome of its newest results, or its progress in the current run.

    QUARANTINED: it FAILED, but only in quarantine, which fails no run.
    """

    NOT_RUN = "not run"
    WAITING = "waiting"
    RUNNING = "running"
    PASSED = "passed"
    FAILED = "failed"
    QUARANTINED = "quarantined"
    ERROR = "error"
    NOT_EVALUATED = "not evaluated"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Badge:
    """Symbol (one cell wide), word and tone that show a status."""

    symbol: str
    word: str
    style: Style


QUARANTINED = Badge(QUARANTINE_SYMBOL, "quarantine", Style.WARNING)
"""Badge of a FAILED that does not fail a run."""

_BADGES = {
    CaseState.NOT_RUN: Badge("○", "not run", Style.MUTED),
    CaseState.WAITING: Badge("◌", "waiting", Style.RUNNING),
    CaseState.RUNNING: Badge("◐", "running", Style.RUNNING),
    CaseState.PASSED: Badge("✓", "passed", Style.PASSED),
    CaseState.FAILED: Badge("✗", "failed", Style.FAILED),
    CaseState.QUARANTINED: QUARANTINED,
    CaseState.ERROR: Badge("!", "error", Style.ERROR),
    CaseState.NOT_EVALUATED: Badge("?", "not evaluated", Style.WARNING),
    CaseState.SKIPPED: Badge("-", "skipped", Style.MUTED),
    CaseState.CANCELLED: Badge("⊘", "cancelled", Style.WARNING),
}

_METRIC_BADGES = {
    MetricStatus.PASSED: Badge("✓", "passed", Style.PASSED),
    MetricStatus.FAILED: Badge("✗", "failed", Style.FAILED),
    MetricStatus.ERROR: Badge("!", "error", Style.ERROR),
    MetricStatus.UNDEFINED: Badge("?", "undefined", Style.WARNING),
    MetricStatus.INFORMATIONAL: Badge("·", "informational", Style.MUTED),
}

_WORST_FIRST = (
    CaseStatus.ERROR,
    CaseStatus.FAILED,
    CaseStatus.NOT_EVALUATED,
    CaseStatus.CANCELLED,
    CaseStatus.SKIPPED,
    CaseStatus.PASSED,
)

STALE = Badge("●", "stale", Style.WARNING)
"""Badge of a case whose verdict is stale: the case or its criteria changed later."""

MARKED = Badge("◆", "marked", Style.HEADING)
"""Badge of a marked case."""

EDITED = Badge("*", "unsaved edits", Style.WARNING)
"""Badge of a case or an eval set with unsaved edits."""

PARTLY_JUDGED = Badge("†", "judged by fewer samples than asked", Style.WARNING)
"""Badge of a case whose verdict lacks samples of a judge."""

REPLAYED = Badge(REPLAY_MARK, "rests on recorded answers of models; alt+l asks them again", Style.MUTED)
"""Badge of a case whose agent got recorded answers of its models."""

FAILING_STATES = frozenset({CaseState.FAILED, CaseState.ERROR, CaseState.NOT_EVALUATED})
"""States of finished cases that did not pass: "run failed" runs them, and "next failing" finds them."""


def get_badge(state: CaseState) -> Badge:
    return _BADGES[state]


def get_metric_badge(status: MetricStatus) -> Badge:
    return _METRIC_BADGES[status]


def find_worst_state(statuses: Iterable[CaseStatus]) -> CaseState:
    """Return the state of a case from the statuses of its repeats: the worst one, because a case passes only if all
    do.
    """
    found = set(statuses)
    worst = next((status for status in _WORST_FIRST if status in found), None)
    return CaseState.NOT_RUN if worst is None else CaseState[worst.name]


def get_state(result: CaseResult | StoredJob) -> CaseState:
    """Return the state of a case with this one result."""
    in_quarantine = is_quarantined(result.status, result.quarantine)
    return CaseState.QUARANTINED if in_quarantine else CaseState[result.status.name]


_OTHERS = (CaseState.RUNNING, CaseState.WAITING, CaseState.CANCELLED, CaseState.SKIPPED, CaseState.NOT_RUN)
VERDICTS = (
    CaseState.PASSED,
    CaseState.FAILED,
    CaseState.QUARANTINED,
    CaseState.ERROR,
    CaseState.NOT_EVALUATED,
)
"""States of cases with a verdict, which may be stale."""

_FAILING_BADGES = frozenset(_BADGES[state] for state in FAILING_STATES)


def list_shares(counts: Mapping[CaseState, int], stale: Mapping[CaseState, int]) -> list[tuple[Badge, int]]:
    """List how many cases have which badge; a case with a stale verdict counts as stale only."""
    verdicts = [(get_badge(state), counts.get(state, 0) - stale.get(state, 0)) for state in VERDICTS]
    outdated = (STALE, sum(stale.get(state, 0) for state in VERDICTS))
    others = [(get_badge(state), counts.get(state, 0)) for state in _OTHERS]
    return [share for share in (*verdicts, outdated, *others) if share[1] > 0]


def describe_outdated(stale: Mapping[CaseState, int]) -> str:
    """Describe the verdicts of stale cases: "✓ 3 ✗ 1"."""
    found = ((get_badge(state), stale.get(state, 0)) for state in VERDICTS)
    return " ".join(f"{badge.symbol} {count:,}" for badge, count in found if count)


def make_count_parts(
    counts: Mapping[CaseState, int], stale: Mapping[CaseState, int], *, width: int
) -> list[RankedPart]:
    """Make a part of a line for each badge: its count and its word, without words if these do not fit into `width`.

    Failures have rank 0, stale verdicts 1, others 3.
    """
    parts: list[RankedPart] = []
    for gap, has_words in (("   ", True), ("  ", False)):
        parts.clear()
        for badge, count in list_shares(counts, stale):
            word = f" {badge.word}" if has_words else ""
            outdated = f" ({describe_outdated(stale)})" if badge is STALE else ""
            rank = 0 if badge in _FAILING_BADGES else 1 if badge is STALE else 3
            pieces = StyledText(f"{gap}{badge.symbol} {count:,}", badge.style), StyledText(word + outdated, Style.MUTED)
            parts.append(RankedPart(rank, pieces))
        if sum(measure_line(part.pieces) for part in parts) <= width:
            break
    return parts


# The status board: the state of every case, updated by RunEvents, with counts by set and target.


class ResultLocation(NamedTuple):
    """Location of a result in the history: its run, and the job within the run."""

    run_id: str
    job: JobKey


@dataclass(frozen=True, slots=True)
class RepeatOutcome:
    """Outcome of one repeat. `state` is that of a case with this outcome alone.

    `result` may be None if the history has it: it is then read when the case is selected. `location`: None if the
    result is not stored or its location is unknown. `is_played`: the agent ran, but nothing was scored; the status may
    be ERROR all the same. `misses_samples`: the verdict rests on fewer judge samples than requested. `is_replayed`: it
    rests on recorded answers of the agent's models.
    """

    status: CaseStatus
    state: CaseState
    agent_seconds: float
    result: CaseResult | None = None
    stored_at: datetime | None = None  # None for a result of this session
    in_history: bool = True
    is_played: bool = False
    location: ResultLocation | None = None
    misses_samples: bool = False
    is_replayed: bool = False


def are_flaky(samples: Collection[CaseStatus]) -> bool:
    """True if some samples of a case passed and others did not."""
    return len({status is CaseStatus.PASSED for status in samples}) > 1


def count_passed(samples: Collection[CaseStatus]) -> tuple[int, int]:
    """Return how many samples passed, and how many there are."""
    return sum(status is CaseStatus.PASSED for status in samples), len(samples)


@dataclass(slots=True)
class CaseRecord:
    """Results and progress of one case.

    `outcomes` are the finished repeats of its newest run. `turns` and `spans` are the finished turns and steps of
    repeats in progress, `pending_user_messages` the messages of simulated users that the agent has not answered yet.
    All are keyed by repeat.

    `previous_outcomes` are the outcomes before that run, kept while the run has only cancelled ones: a run that ends
    so says nothing about the case, and they are restored. `reused_verdicts` are earlier verdicts that are still
    current, while `outcomes` were only played: they determine the state. `live_samples` are the repeats of its newest
    run that replayed no model calls, if they are more than one. A run of the watch may have only some repeats: the
    outcomes of others than `begun_repeats` stay, below the number `kept_below`.
    """

    key: CaseKey
    state: CaseState = CaseState.NOT_RUN
    outcomes: dict[int, RepeatOutcome] = field(default_factory=dict)
    turns: dict[int, list[TurnResult]] = field(default_factory=dict)
    spans: dict[int, list[Span]] = field(default_factory=dict)
    pending_user_messages: dict[int, Content] = field(default_factory=dict)
    previous_outcomes: dict[int, RepeatOutcome] = field(default_factory=dict)
    reused_verdicts: dict[int, RepeatOutcome] = field(default_factory=dict)
    live_samples: Sequence[CaseStatus] = ()
    pending_jobs: int = 0  # unfinished jobs of the current run
    has_newest_outcomes: bool = True  # False from the start of a run until its first event about the case
    begun_repeats: set[int] = field(default_factory=set)
    kept_below: int = 0
    result_number: int = 0  # sequence number of its newest result within this session; 0: none in this session

    @property
    def verdicts(self) -> Mapping[int, RepeatOutcome]:
        """Outcomes that determine the state, by repeat."""
        return self.reused_verdicts or self.outcomes

    @property
    def is_only_played(self) -> bool:
        """True if the newest outcomes were not scored."""
        return bool(self.outcomes) and all(outcome.is_played for outcome in self.outcomes.values())

    @property
    def has_failed_to_play(self) -> bool:
        """True if it was only played, and a repeat ended in ERROR."""
        return self.is_only_played and any(each.status is CaseStatus.ERROR for each in self.outcomes.values())

    @property
    def agent_seconds(self) -> float | None:
        """Duration of the agent's turns, as the mean of the repeats; None before the case has run."""
        if not self.verdicts:
            return None
        return sum(outcome.agent_seconds for outcome in self.verdicts.values()) / len(self.verdicts)

    @property
    def repeats(self) -> list[int]:
        """Finished repeats and repeats in progress, in order."""
        return sorted({*self.outcomes, *self.turns})

    @property
    def passed_repeats(self) -> int:
        """Number of finished repeats that passed."""
        return sum(outcome.status is CaseStatus.PASSED for outcome in self.verdicts.values())

    @property
    def stored_at(self) -> datetime | None:
        """Time when the verdicts were stored, if they are from an earlier session."""
        return max((outcome.stored_at for outcome in self.verdicts.values() if outcome.stored_at), default=None)

    @property
    def misses_samples(self) -> bool:
        """True if the verdict on a repeat rests on fewer judge samples than requested."""
        return any(outcome.misses_samples for outcome in self.verdicts.values())

    @property
    def is_replayed(self) -> bool:
        """True if the verdict on a repeat rests on recorded answers of the agent's models."""
        return any(outcome.is_replayed for outcome in self.verdicts.values())

    @property
    def hides_flakiness(self) -> bool:
        """True if the verdict rests on replayed answers, and live samples of the case disagree."""
        return self.is_replayed and are_flaky(self.live_samples)

    @property
    def lacks_results(self) -> bool:
        """True if stored results are still to be read."""
        return any(outcome.result is None for outcome in (*self.outcomes.values(), *self.previous_outcomes.values()))


Group = tuple[str | None, str | None]
"""A target and one of its eval sets; None means all."""

_MOST_RESULTS = 200
"""Maximum results in memory that the history can provide again: ten thousand would take 200 MB."""

_Cell = tuple[str, str, CaseState, bool]  # target, eval set, state, whether its verdict is stale


class StatusBoard:
    """The records of all listed cases, and how many cases have which state."""

    def __init__(self) -> None:
        self._records: dict[CaseKey, CaseRecord] = {}
        self._counts: defaultdict[Group, Counter[CaseState]] = defaultdict(Counter)
        self._stale_counts: defaultdict[Group, Counter[CaseState]] = defaultdict(Counter)
        self._stale: set[CaseKey] = set()  # also of cases that are not listed
        self._stored: dict[CaseKey, Sequence[StoredJob]] = {}
        self._unlisted_outcomes: dict[CaseKey, dict[int, RepeatOutcome]] = {}  # of cases that are not listed yet
        self._away: dict[CaseKey, CaseRecord] = {}  # of cases that run, and that are not listed for the moment
        self._result_count = 0  # results and cases that came in this session
        self._cases_with_earlier_verdict: set[CaseKey] = set()  # their verdict is not the newest in the history
        self._held_results: dict[
            JobKey, None
        ] = {}  # results in memory that the history can provide again, oldest first

    def get_record(self, key: CaseKey) -> CaseRecord | None:
        """Return the record of a case, or None if no eval set lists it."""
        return self._records.get(key)

    @property
    def result_count(self) -> int:
        """A number that grows with every result, and with every case that is listed anew or has another name."""
        return self._result_count

    def count_states(self, target: str | None = None, eval_set: str | None = None) -> Mapping[CaseState, int]:
        """Count the cases by state: all cases, those of a target, or those of one of its sets."""
        return self._counts.get((target, eval_set), Counter())

    def count_stale_states(self, target: str | None = None, eval_set: str | None = None) -> Mapping[CaseState, int]:
        """Count those of the same cases whose verdicts are stale."""
        return self._stale_counts.get((target, eval_set), Counter())

    def mark_stale(self, key: CaseKey, is_stale: bool) -> None:
        """Record whether the newest verdict of a case is stale, also of a case that is listed later."""
        record = self._records.get(key)
        changes: Counter[_Cell] = Counter()
        if record is not None:
            changes[self._get_cell(record)] -= 1
        (self._stale.add if is_stale else self._stale.discard)(key)
        if record is not None:
            changes[self._get_cell(record)] += 1
        self._apply_counts(changes)

    def find_verdicts_by_case(self, keys: Iterable[CaseKey]) -> dict[CaseKey, dict[int, ResultLocation | None]]:
        """Return where the verdicts of these cases are stored, by case and repeat; None if the location is unknown.

        Cases in progress and cases that were only played are left out.
        """
        records = (record for key in keys if (record := self._records.get(key)) is not None)
        return {
            record.key: {repeat: outcome.location for repeat, outcome in record.verdicts.items()}
            for record in records
            if not _is_under_way(record) and not record.is_only_played
        }

    def find_verdict_locations(self) -> dict[JobKey, ResultLocation]:
        """Return where the verdicts on the screen are stored."""
        return {
            JobKey(case=key, repeat=repeat): outcome.location
            for key, record in self._records.items()
            for repeat, outcome in record.verdicts.items()
            if outcome.location is not None
        }

    def list_cases_with_earlier_verdict(self, target: str | None, eval_set: str) -> Sequence[CaseKey]:
        """List the cases of a set whose verdict is not the newest result.

        If `eval_set` is empty, list those of all sets of the target; if `target` is None, those of all targets.
        """
        return [
            key
            for key in self._cases_with_earlier_verdict
            if target in (None, key.target) and eval_set in ("", key.eval_set) and key in self._records
        ]

    def find_earlier_verdicts(self, keys: Iterable[CaseKey]) -> dict[JobKey, ResultLocation]:
        """Return where the verdicts of these cases are stored, of those whose verdict is not the newest result."""
        return {
            JobKey(case=key, repeat=repeat): outcome.location
            for key in keys
            if key in self._cases_with_earlier_verdict
            for repeat, outcome in self._records[key].verdicts.items()
            if outcome.location is not None
        }

    def add_cases(self, keys: Iterable[CaseKey]) -> None:
        """Add the cases of a set that was read. Cases that are already listed keep their records."""
        changes: Counter[_Cell] = Counter()
        for key in keys:
            if key in self._records:
                continue
            self._result_count += 1
            away = self._away.pop(key, None) if self._away else None
            record = self._records[key] = away or CaseRecord(key)
            # Keys hash slowly by the ten thousand: empty collections are not asked.
            if self._unlisted_outcomes and (early := self._unlisted_outcomes.pop(key, None)):
                record.outcomes, record.result_number = early, self._result_count
                record.state = _find_state(record)
                if any(outcome.stored_at for outcome in early.values()):
                    self._cases_with_earlier_verdict.add(key)
            elif away is None and self._stored and (stored := self._stored.get(key)):
                self._load_stored(record, stored)
            changes[self._get_cell(record)] += 1
        self._apply_counts(changes)

    def remove_cases(self, keys: Iterable[CaseKey]) -> None:
        """Remove cases that no eval set lists any longer."""
        changes: Counter[_Cell] = Counter()
        for key in keys:
            record = self._records.pop(key, None)
            self._cases_with_earlier_verdict.discard(key)
            if record is not None:
                changes[self._get_cell(record)] -= 1
                if _is_under_way(record):
                    self._away[key] = record
        self._apply_counts(changes)

    def load_stored(self, jobs: Mapping[CaseKey, Sequence[StoredJob]]) -> None:
        """Load the stored outcomes of cases, also of cases that are listed later. A case that ran in this session
        keeps its own.
        """
        self._stored.update(jobs)
        changes: Counter[_Cell] = Counter()
        for key, stored in jobs.items():
            record = self._records.get(key)
            if record is not None and not record.result_number and not _is_under_way(record):
                changes[self._get_cell(record)] -= 1
                self._load_stored(record, stored)
                changes[self._get_cell(record)] += 1
        self._apply_counts(changes)

    def has_own_result(self, key: CaseKey) -> bool:
        """True if a case shows a result of this session, or an earlier one that replaced it. `load_stored` keeps it."""
        record = self._records.get(key)
        return record is not None and bool(record.result_number)

    def find_only_played(self, keys: Iterable[CaseKey]) -> Sequence[CaseKey]:
        """Return those of the cases that were not scored since their agents ran last."""
        records = ((key, self._records.get(key)) for key in dict.fromkeys(keys))
        return [key for key, record in records if record is not None and record.is_only_played]

    def reuse_verdicts(self, held: Mapping[CaseKey, Sequence[StoredJob]]) -> None:
        """Show these current verdicts for cases that were only played since."""
        for key, stored in held.items():
            record = self._records.get(key)
            if record is not None and record.is_only_played and not _is_under_way(record):
                record.reused_verdicts = _convert_stored_jobs(stored)
                self._set_state(record, _find_state(record))

    def fill_results(self, results: Iterable[CaseResult]) -> None:
        """Add results that were read from the history, except for cases that have run since."""
        for result in results:
            record = self._records.get(result.case)
            for outcomes in (record.outcomes, record.previous_outcomes) if record is not None else ():
                outcome = outcomes.get(result.repeat)
                if outcome is not None and outcome.result is None:
                    outcomes[result.repeat] = replace(outcome, result=result)
                    self._touch_result(result.case, result.repeat)

    def fill_samples(self, key: CaseKey, statuses: Sequence[CaseStatus]) -> None:
        """Add the live samples of a case that were read from the history, unless it ran live in this session."""
        record = self._records.get(key)
        if record is not None and not record.live_samples and len(statuses) > 1:
            record.live_samples = statuses

    def restore_verdicts(self, key: CaseKey, verdicts: Mapping[int, StoredJob]) -> None:
        """Replace the newest verdicts of a case by these stored ones, by repeat, which are the current ones."""
        record = self._records.get(key)
        if record is None or _is_under_way(record) or record.is_only_played:
            return
        record.outcomes.update({repeat: _convert_stored_job(job) for repeat, job in verdicts.items()})
        record.previous_outcomes = {}
        self._mark_earlier(record)
        self._set_state(record, _find_state(record))

    def _load_stored(self, record: CaseRecord, stored: Sequence[StoredJob]) -> None:
        self._result_count += 1
        record.outcomes, record.reused_verdicts = _convert_stored_jobs(stored), {}
        record.state = _find_state(record)
        _note_samples(record)
        if any(job.case != record.key for job in stored):  # the case ran under another name
            self._cases_with_earlier_verdict.add(record.key)

    def _note_run(self, record: CaseRecord, run_id: str) -> None:
        """Note whether all outcomes are of this run, which is the newest one."""
        places = (outcome.location for outcome in record.outcomes.values())
        if any(place is not None and place.run_id != run_id for place in places):
            self._cases_with_earlier_verdict.add(record.key)
        else:
            self._cases_with_earlier_verdict.discard(record.key)

    def _mark_earlier(self, record: CaseRecord) -> None:
        self._cases_with_earlier_verdict.add(record.key)
        self._result_count += 1
        record.result_number = self._result_count

    def restore_result(self, result: CaseResult, *, stored_at: datetime, place: ResultLocation) -> Iterable[CaseKey]:
        """Replace the newest result of a case by an earlier one that is current; keep outcomes that were only played.

        Return the case if it is listed.
        """
        outcome = RepeatOutcome(
            result.status,
            get_state(result),
            result.agent_seconds,
            result,
            stored_at=stored_at,
            location=place,
            misses_samples=has_missing_samples(result.metrics),
            is_replayed=result.execution.is_replayed,
        )
        record = self._records.get(result.case)
        if record is None:
            self._unlisted_outcomes.setdefault(result.case, {})[result.repeat] = outcome
            return ()
        outcomes = record.reused_verdicts if record.is_only_played else record.outcomes
        outcomes[result.repeat] = outcome
        record.previous_outcomes = {}
        self._touch_result(result.case, result.repeat)
        self._mark_earlier(record)
        if not _is_under_way(record):
            self._set_state(record, _find_state(record))
        return (record.key,)

    def release_results(self, *, but: CaseKey | None) -> None:
        """Free results that the history can provide again, except the newest ones and those of the selected case
        `but`.
        """
        oldest = list(self._held_results)[: max(len(self._held_results) - _MOST_RESULTS, 0)]
        for job in oldest:
            if job.case == but:
                continue
            del self._held_results[job]
            record = self._records.get(job.case)
            outcome = record.outcomes.get(job.repeat) if record is not None else None
            if record is not None and outcome is not None and outcome.in_history:
                record.outcomes[job.repeat] = replace(outcome, result=None)

    def begin_jobs(self, jobs: Iterable[JobKey], *, kept_below: int = 0) -> None:
        """Mark the cases of these jobs as waiting. They keep their last results until they start.

        Outcomes of repeats below `kept_below` that are not among the jobs stay.
        """
        changes: Counter[_Cell] = Counter()
        for job in jobs:
            record = self._records.get(job.case)
            if record is None:
                continue
            record.pending_jobs += 1
            if record.has_newest_outcomes:
                record.begun_repeats, record.kept_below, record.has_newest_outcomes = set(), kept_below, False
            record.kept_below = min(record.kept_below, kept_below)
            record.begun_repeats.add(job.repeat)
            if record.state is not CaseState.WAITING:
                changes[self._get_cell(record)] -= 1
                record.state = CaseState.WAITING
                changes[self._get_cell(record)] += 1
        self._apply_counts(changes)

    def apply(self, event: RunEvent, *, run_id: str = "") -> Iterable[CaseKey]:
        """Apply one event of a run. Return the listed cases that it changed."""
        if not isinstance(event, CaseStarted | UserSpoke | InvocationFinished | SpanFinished | CaseFinished):
            return ()
        record = self._records.get(event.case)
        if record is None:
            if isinstance(event, CaseFinished):
                self._away.pop(event.case, None)
            if isinstance(event, CaseFinished) and event.status is not CaseStatus.CANCELLED:
                self._unlisted_outcomes.setdefault(event.case, {})[event.repeat] = _make_outcome(event, run_id)
            return ()
        if isinstance(event, CaseStarted):
            self._begin_new_outcomes(record)
            record.turns[event.repeat], record.spans[event.repeat] = [], []
            record.pending_user_messages.pop(event.repeat, None)
            self._set_state(record, CaseState.RUNNING)
        elif isinstance(event, UserSpoke):
            record.pending_user_messages[event.repeat] = event.content
        elif isinstance(event, InvocationFinished):
            record.pending_user_messages.pop(event.repeat, None)
            record.turns.setdefault(event.repeat, []).append(event.result)
        elif isinstance(event, SpanFinished):
            record.spans.setdefault(event.repeat, []).append(event.span)
        else:
            self._finish(record, event, run_id)
        return (record.key,)

    def end_run(self, keys: Iterable[CaseKey]) -> list[CaseKey]:
        """Restore the earlier state of cases that still wait when their run is over. Return these cases."""
        keys = tuple(keys)
        for key in keys if self._away else ():
            self._away.pop(key, None)
        left = [record for key in keys if (record := self._records.get(key)) is not None and _is_under_way(record)]
        for record in left:
            record.pending_jobs, record.turns, record.spans, record.has_newest_outcomes = 0, {}, {}, True
            record.pending_user_messages = {}
            self._end_case(record)
        return [record.key for record in left]

    def _finish(self, record: CaseRecord, event: CaseFinished, run_id: str) -> None:
        self._begin_new_outcomes(record)
        record.turns.pop(event.repeat, None)
        record.spans.pop(event.repeat, None)
        record.pending_user_messages.pop(event.repeat, None)
        record.outcomes[event.repeat] = _make_outcome(event, run_id)
        if event.in_history:
            self._touch_result(event.case, event.repeat)
        if event.status is not CaseStatus.CANCELLED:
            record.previous_outcomes, record.reused_verdicts = {}, {}
            if event.is_judged:
                self._note_run(record, run_id)
        self._result_count += 1
        record.result_number = self._result_count
        record.pending_jobs = max(record.pending_jobs - 1, 0)
        if record.turns:
            self._set_state(record, CaseState.RUNNING)
        elif record.pending_jobs:
            self._set_state(record, CaseState.WAITING)
        else:
            self._end_case(record)

    def _end_case(self, record: CaseRecord) -> None:
        """Set the state of a case without unfinished jobs: from its outcomes, or from the previous ones if all were
        cancelled.
        """
        if record.previous_outcomes:
            record.outcomes, record.previous_outcomes = record.previous_outcomes, {}
            for repeat, outcome in record.outcomes.items():
                if outcome.result is not None and outcome.in_history:
                    self._touch_result(record.key, repeat)
        _note_samples(record)
        self._set_state(record, _find_state(record))

    def _touch_result(self, case: CaseKey, repeat: int) -> None:
        job = JobKey(case=case, repeat=repeat)
        self._held_results.pop(job, None)
        self._held_results[job] = None

    def _begin_new_outcomes(self, record: CaseRecord) -> None:
        """Discard outcomes of earlier runs at the first event of a new run, except of repeats that it does not have.

        Keep them as a fallback unless all were cancelled.
        """
        if record.has_newest_outcomes:
            return
        if any(outcome.status is not CaseStatus.CANCELLED for outcome in record.outcomes.values()):
            record.previous_outcomes = record.outcomes
        record.outcomes = {
            repeat: outcome
            for repeat, outcome in record.verdicts.items()
            if _keeps(record, repeat) and not outcome.is_played and outcome.status is not CaseStatus.CANCELLED
        }
        record.turns = {repeat: turns for repeat, turns in record.turns.items() if _keeps(record, repeat)}
        record.spans = {repeat: spans for repeat, spans in record.spans.items() if _keeps(record, repeat)}
        record.has_newest_outcomes = True

    def _set_state(self, record: CaseRecord, state: CaseState) -> None:
        if state is not record.state:
            before = self._get_cell(record)
            record.state = state
            self._apply_counts({before: -1, self._get_cell(record): 1})

    def _get_cell(self, record: CaseRecord) -> _Cell:
        return record.key.target, record.key.eval_set, record.state, bool(self._stale) and record.key in self._stale

    def _apply_counts(self, changes: Mapping[_Cell, int]) -> None:
        for (target, eval_set, state, is_stale), change in changes.items():
            groups: tuple[Group, ...] = ((None, None), (target, None), (target, eval_set))
            for group in groups:
                self._counts[group][state] += change
                if is_stale:
                    self._stale_counts[group][state] += change


def _convert_stored_jobs(stored: Iterable[StoredJob]) -> dict[int, RepeatOutcome]:
    return {job.key.repeat: _convert_stored_job(job) for job in stored}


def _convert_stored_job(job: StoredJob) -> RepeatOutcome:
    return RepeatOutcome(
        job.status,
        get_state(job),
        job.agent_seconds,
        stored_at=job.finished_at,
        is_played=job.is_from_unscored_run,
        location=ResultLocation(job.run_id, job.key),
        misses_samples=job.misses_samples,
        is_replayed=job.is_replayed,
    )


def _make_outcome(event: CaseFinished, run_id: str) -> RepeatOutcome:
    is_played = event.status in (CaseStatus.NOT_EVALUATED, CaseStatus.ERROR) and not event.is_judged
    place = (
        ResultLocation(run_id, JobKey(case=event.case, repeat=event.repeat)) if run_id and event.in_history else None
    )
    return RepeatOutcome(
        event.status,
        get_state(event.result),
        event.result.agent_seconds,
        event.result,
        in_history=event.in_history,
        is_played=is_played,
        location=place,
        misses_samples=has_missing_samples(event.result.metrics),
        is_replayed=event.result.execution.is_replayed,
    )


def _note_samples(record: CaseRecord) -> None:
    """Remember the outcomes of a run that replayed nothing, for runs that replay one of them."""
    statuses = [outcome.status for outcome in record.outcomes.values() if not outcome.is_played]
    if statuses and not any(outcome.is_replayed for outcome in record.outcomes.values()):
        record.live_samples = statuses if len(statuses) > 1 else ()


def _keeps(record: CaseRecord, repeat: int) -> bool:
    return repeat < record.kept_below and repeat not in record.begun_repeats


def _is_under_way(record: CaseRecord) -> bool:
    return bool(record.pending_jobs or record.turns)


def _find_state(record: CaseRecord) -> CaseState:
    worst = find_worst_state(outcome.status for outcome in record.verdicts.values())
    has_failed = any(outcome.state is CaseState.FAILED for outcome in record.verdicts.values())
    return CaseState.QUARANTINED if worst is CaseState.FAILED and not has_failed else worst
