"""What every report format is made from: a run, its results, and the cases they were held against."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from workbench.model.criteria import EvalConfig
from workbench.model.evalset import EvalCase, Invocation
from workbench.model.events import RunSummary
from workbench.model.keys import CaseKey
from workbench.model.results import CaseResult, CaseStatus, MetricResult, MetricStatus, TurnResult
from workbench.report.differences import Difference, differences, state_differences, tell_calls

if TYPE_CHECKING:
    from workbench.store.history import StoredRun

ExpectedCase = Callable[[CaseResult], EvalCase | None]
"""Finds the case that a result was held against; None where that is gone."""

NOT_GOOD = (CaseStatus.FAILED, CaseStatus.ERROR, CaseStatus.NOT_EVALUATED)
"""Statuses that a report explains."""


@dataclass(frozen=True)
class ReportedCase:
    """One result with the case it was held against (None where that is not known, as for a scenario's turns)."""

    result: CaseResult
    expected: EvalCase | None

    @property
    def name(self) -> str:
        """The id of the case as people tell it from its neighbours."""
        return self.result.case.name

    @cached_property
    def differences(self) -> tuple[tuple[Difference, ...], ...]:
        """What differs in each turn that was finished and has an expectation; empty tuples where nothing does."""
        conversation = (self.expected.conversation if self.expected is not None else None) or ()
        turns = self.result.execution.turns
        return tuple(
            differences(
                wanted,
                turn.invocation,
                calls_known=self.compares_calls(wanted, turn),
                response_known=turn.invocation.final_response is not None or not self.result.is_recorded,
            )
            for wanted, turn in zip(conversation, turns, strict=False)
        )

    def compares_calls(self, wanted: Invocation, turn: TurnResult) -> bool:
        """Whether the calls of a turn can be held against those that were wanted."""
        return turn.calls_unknown is None and (not self.result.is_row or tell_calls(wanted, turn.invocation))

    @cached_property
    def state_differences(self) -> tuple[Difference, ...]:
        """What differs in the final session state, where the case expects one and the agent has one."""
        wanted = self.expected.final_session_state if self.expected is not None else None
        given = self.result.execution.final_state
        return state_differences(wanted, given) if wanted and given is not None else ()

    @property
    def judged(self) -> tuple[MetricResult, ...]:
        """The metrics that decide: those with a threshold, and those that could not be computed."""
        return tuple(metric for metric in self.result.metrics if _decides(metric))


def shown_metrics(case: ReportedCase, config: EvalConfig | None) -> list[MetricResult]:
    """The metrics that were asked for or decide; those that are always reported are left out."""
    wanted = tuple(criterion.metric for criterion in config.criteria) if config is not None else ()
    # One criterion may have several results, which begin with its name.
    return [metric for metric in case.result.metrics if _decides(metric) or metric.name.startswith(wanted)]


def _decides(metric: MetricResult) -> bool:
    return metric.threshold is not None or metric.status is MetricStatus.ERROR


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """A run as reports show it. `criteria` is by eval set (path relative to the root)."""

    run_id: str
    started_at: datetime | None = None
    duration_seconds: float = 0.0
    interrupted: bool = False
    command: str = ""
    summary: RunSummary
    cases: Sequence[ReportedCase]
    criteria: Mapping[str, EvalConfig] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    def by_eval_set(self) -> dict[tuple[str, str], list[ReportedCase]]:
        """The cases by target and eval set, in the order of the report."""
        groups: dict[tuple[str, str], list[ReportedCase]] = {}
        for case in self.cases:
            groups.setdefault((case.result.case.target, case.result.case.eval_set), []).append(case)
        return groups


def report_of(run: StoredRun, cases: Sequence[ReportedCase], *, summary: RunSummary) -> RunReport:
    """A stored run, or what `cases` and `summary` are of it, without the options it ran with."""
    return RunReport(
        run_id=run.run_id,
        started_at=run.started_at,
        duration_seconds=run.duration_seconds or 0.0,
        interrupted=run.interrupted or not run.ended,
        command=run.command,
        summary=summary,
        cases=cases,
        criteria=run.criteria,
        versions=run.versions,
    )


def reported_cases(results: Iterable[CaseResult], expected: ExpectedCase) -> list[ReportedCase]:
    """Results with the cases they were held against."""
    return [ReportedCase(result, expected(result)) for result in results]


@dataclass(frozen=True)
class Repeats:
    """How the repeats of one case came out, of those that were executed to a verdict."""

    name: str
    passed: int
    total: int

    @property
    def flaky(self) -> bool:
        """Whether the case passed sometimes, and sometimes did not."""
        return 0 < self.passed < self.total


def repeats(cases: Iterable[ReportedCase]) -> list[Repeats]:
    """The cases that were executed more than once; skipped and cancelled repeats are not counted."""
    counts: dict[CaseKey, list[bool]] = {}
    for case in cases:
        if case.result.status not in (CaseStatus.SKIPPED, CaseStatus.CANCELLED):
            counts.setdefault(case.result.case, []).append(case.result.status is CaseStatus.PASSED)
    return [Repeats(str(key), sum(passed), len(passed)) for key, passed in counts.items() if len(passed) > 1]
