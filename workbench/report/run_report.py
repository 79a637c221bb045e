"""What every report format is made from: a run, its results, and the cases they were held against."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.model.by_identity import by_identity
from workbench.model.criteria import EvalConfig
from workbench.model.evalset import EvalCase, Invocation
from workbench.model.events import RunSummary
from workbench.model.keys import CaseKey
from workbench.model.masking import without_secrets
from workbench.model.results import (
    CaseResult,
    CaseStatus,
    MetricResult,
    MetricStatus,
    TurnResult,
    were_asked_of_models,
)
from workbench.report.differences import Difference, differences, state_differences, tell_calls
from workbench.report.judging import missing_samples_lines, unsure_text

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

    def __post_init__(self) -> None:
        if self.expected is not None and not self.result.is_recorded:
            object.__setattr__(self, "expected", without_secrets(self.expected))

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
        return _judged_of(self.result.metrics)


@by_identity(at_most=256, but=were_asked_of_models)
def _judged_of(metrics: tuple[MetricResult, ...]) -> tuple[MetricResult, ...]:
    return tuple(metric for metric in metrics if _decides(metric))


def shown_metrics(case: ReportedCase, config: EvalConfig | None) -> tuple[MetricResult, ...]:
    """The metrics that were asked for or decide; those that are always reported are left out."""
    return _finder_of_shown(config)(case.result.metrics)


@by_identity(at_most=64)
def _finder_of_shown(
    config: EvalConfig | None,
) -> Callable[[tuple[MetricResult, ...]], tuple[MetricResult, ...]]:
    wanted = tuple(criterion.metric for criterion in config.criteria) if config is not None else ()

    @by_identity(at_most=256, but=were_asked_of_models)
    def find_shown(metrics: tuple[MetricResult, ...]) -> tuple[MetricResult, ...]:
        # One criterion may have several results, which begin with its name.
        return tuple(metric for metric in metrics if _decides(metric) or metric.name.startswith(wanted))

    return find_shown


def _decides(metric: MetricResult) -> bool:
    return metric.threshold is not None or metric.status is MetricStatus.ERROR


class CaseOutcome(NamedTuple):
    """What the closing lines of a report need of one result: little, so that all of a large run fit into memory."""

    case: CaseKey
    repeat: int
    eval_set_id: str
    status: CaseStatus
    metrics: tuple[str, ...]
    """The names of the metrics that are shown."""
    unsure: tuple[str, ...]
    """A text for each metric on which the samples of a judge disagree."""
    partly_judged: tuple[str, ...]
    """A text for each metric that lacks samples of a judge."""
    hints: tuple[str, ...]
    """Hints on metrics that passed."""


def outcome_of(case: ReportedCase, config: EvalConfig | None) -> CaseOutcome:
    """Sum up a result; `config` holds the criteria of its eval set."""
    result = case.result
    unsure, partly_judged, hints = _texts_of(case.judged)
    return CaseOutcome(
        case=result.case,
        repeat=result.repeat,
        eval_set_id=result.eval_set_id,
        status=result.status,
        metrics=_names_of(shown_metrics(case, config)),
        unsure=unsure,
        partly_judged=partly_judged,
        hints=hints,
    )


@by_identity(at_most=256, but=were_asked_of_models)
def _texts_of(judged: tuple[MetricResult, ...]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    unsure = (unsure_text(metric) for metric in judged)
    passed = (metric for metric in judged if metric.status is MetricStatus.PASSED)
    return (
        tuple(text for text in unsure if text is not None),
        tuple(missing_samples_lines(judged)),
        _shared(tuple(f"{metric.name}: {metric.hint}" for metric in passed if metric.hint is not None)),
    )


@by_identity(at_most=256, but=were_asked_of_models)
def _names_of(metrics: tuple[MetricResult, ...]) -> tuple[str, ...]:
    return _shared(tuple(metric.name for metric in metrics))


@lru_cache(maxsize=256)
def _shared(texts: tuple[str, ...]) -> tuple[str, ...]:
    """The same object for equal texts: most cases of a run have the same."""
    return texts


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """A run without its cases. `criteria` is by eval set (path relative to the root)."""

    run_id: str
    started_at: datetime | None = None
    duration_seconds: float = 0.0
    interrupted: bool = False
    command: str = ""
    summary: RunSummary
    criteria: Mapping[str, EvalConfig] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class StreamedRun(RunFacts):
    """A run whose cases were printed as they ended. `outcomes` are in the order of the plan."""

    outcomes: Sequence[CaseOutcome]


@dataclass(frozen=True, kw_only=True)
class RunReport(RunFacts):
    """A run as reports show it, with its cases."""

    cases: Sequence[ReportedCase]

    @cached_property
    def outcomes(self) -> Sequence[CaseOutcome]:
        """The cases summed up, in the order of the report."""
        return [outcome_of(case, self.criteria.get(case.result.case.eval_set)) for case in self.cases]

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


def repeats(outcomes: Iterable[CaseOutcome]) -> list[Repeats]:
    """The cases that were executed more than once; skipped and cancelled repeats are not counted."""
    counts: dict[CaseKey, list[bool]] = {}
    for outcome in outcomes:
        if outcome.status not in (CaseStatus.SKIPPED, CaseStatus.CANCELLED):
            counts.setdefault(outcome.case, []).append(outcome.status is CaseStatus.PASSED)
    return [Repeats(str(key), sum(passed), len(passed)) for key, passed in counts.items() if len(passed) > 1]
