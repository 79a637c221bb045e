"""`RunReport`: the data of a run for every report format, and the texts that the formats share."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.model.criteria import EvalConfig
from workbench.model.evalset import EvalCase, Invocation, Quarantine, mask_model_secrets
from workbench.model.facts import cache_by_identity
from workbench.model.identity import CaseKey
from workbench.model.results import (
    CaseResult,
    CaseStatus,
    ConversationEnd,
    FailureKind,
    InvocationScore,
    Judgement,
    JudgeSample,
    MetricResult,
    MetricStatus,
    ModelCalls,
    RequestDifference,
    RubricScore,
    SentenceScore,
    SimulatedConversation,
    TurnResult,
    has_judgements,
    is_quarantined,
    is_unsure,
    measure_agreement,
)
from workbench.model.run_events import RunSummary
from workbench.model.text import mask_named_secrets, neutralise, one_line, pluralise, redact, redacted_line, score_text
from workbench.model.trace import get_trajectory
from workbench.model.turn_diff import (
    Difference,
    PassageChange,
    compare_words,
    find_differences,
    find_state_differences,
    have_known_calls,
    list_messages,
)

if TYPE_CHECKING:
    from workbench.store.history.history_codec import MetricNumbers
    from workbench.store.history.history_queries import StoredRun, StoredScores


# Replies of judge models as lines for people.


def judging_lines(metric: MetricResult) -> Iterator[str]:
    """Yield the failed rubrics or sentences of each turn below the best score, or else the votes with a reason.

    Texts of models are unescaped in these lines; the caller must make them safe.
    """
    for place, turn in _label_turns(metric):
        yield from (f"{place}{line}" for line in _turn_lines(turn))


def failed_judging_lines(metrics: Sequence[MetricResult]) -> Iterator[str]:
    """Yield `judging_lines` of each failed metric. If models judged several metrics, each line names its metric."""
    judged = [metric for metric in metrics if has_judgements([metric])]
    for metric in judged:
        name = f"{metric.name}: " if len(judged) > 1 else ""
        if metric.status is MetricStatus.FAILED:
            yield from (f"{name}{line}" for line in judging_lines(metric))


def sample_lines(metric: MetricResult) -> Iterator[str]:
    """Yield the reply of each sample on each turn; nothing if no model judged."""
    for place, turn in _label_turns(metric):
        if turn.judgement is not None:
            yield f"{metric.name}: {place}samples of {turn.judgement.model}:"
            for number, sample in enumerate(turn.judgement.samples, start=1):
                yield f"sample {number}: {_sample_text(sample)}"


def _sample_text(sample: JudgeSample) -> str:
    source = " (by a script)" if sample.scripted else " (cached)" if sample.cached else ""
    if sample.problem is not None:
        return f"no verdict{source}: {sample.problem}"
    verdict = sample.label or ("" if sample.score is None else f"{sample.score:.3g}")
    explanation = sample.rationale or sample.reply  # for rubrics there is no common rationale
    return f"{verdict or 'on parts'}{source}: {explanation}"


def format_metric_errors(metrics: Iterable[MetricResult]) -> str:
    """Return which metrics ended in ERROR, and why. The error of a custom function starts with its name already."""
    wrong = [metric for metric in metrics if metric.status is MetricStatus.ERROR]
    return "; ".join(f"{each.name}: {str(each.reason).removeprefix(f'{each.name}: ')}" for each in wrong)


def unsure_text(metric: MetricResult) -> str | None:
    """Say on which turns samples disagree: `own: turn 2: 3 of 5 samples agree`; None if they agree."""
    if not is_unsure(metric):
        return None
    texts = (
        f"{place}{agreement_text(turn.judgement)}"
        for place, turn in _label_turns(metric)
        if turn.judgement is not None
        and (agreement := measure_agreement(turn.judgement)) is not None
        and agreement.share < 1.0
    )
    return f"{metric.name}: {'; '.join(texts)}"


def samples_text(metric: MetricResult) -> str | None:
    """Return how many samples were readable, if some are missing: `judged by 2 of 3 samples in turn 2`."""
    count = metric.missing_samples
    if count is None:
        return None
    place = f" in turn {count.turn}" if len(metric.per_invocation) > 1 else ""
    return f"judged by {count.readable} of {count.requested} samples{place}"


def missing_samples_lines(metrics: Iterable[MetricResult]) -> list[str]:
    """Return a line for each metric with missing samples: `own: judged by 2 of 3 samples`."""
    texts = ((metric.name, samples_text(metric)) for metric in metrics)
    return [f"{one_line(name)}: {text}" for name, text in texts if text is not None]


def agreement_text(judgement: Judgement) -> str:
    """Return the agreement of samples, or of verdicts on parts, and the spread of grades: `4 of 5 samples agree`."""
    agreement = measure_agreement(judgement)
    if agreement is None:
        return "only one opinion, so agreement is undefined"
    unit = "samples"
    if judgement.rubrics or judgement.sentences:
        unit = f"verdicts on {'rubrics' if judgement.rubrics else 'sentences'}"
    spread = "" if agreement.spread is None else f", ±{agreement.spread:.2g}"
    return f"{round(agreement.share * agreement.votes)} of {agreement.votes} {unit} agree{spread}"


def _label_turns(metric: MetricResult) -> Iterator[tuple[str, InvocationScore]]:
    """Yield the turns, each with its label; the label is empty if there is only one turn."""
    several = len(metric.per_invocation) > 1
    for number, turn in enumerate(metric.per_invocation, start=1):
        yield f"turn {number}: " if several else "", turn


def _turn_lines(turn: InvocationScore) -> Iterator[str]:
    judgement = turn.judgement
    if judgement is None or turn.score is None or (judgement.best is not None and turn.score >= judgement.best):
        return
    if judgement.rubrics:
        yield from (rubric_text(rubric) for rubric in judgement.rubrics if rubric.score == 0.0)
    elif judgement.sentences:
        yield from (sentence_text(sentence) for sentence in judgement.sentences if sentence.score == 0.0)
    else:
        yield f"{votes_text(judgement)}: {find_reason(judgement, turn.score)}"


def rubric_text(rubric: RubricScore) -> str:
    """Return a rubric with votes and reason: `polite: 1 of 5 say yes: It shouts.`"""
    reason = f": {rubric.rationale}" if rubric.rationale else ""
    return f"{rubric.rubric_id} ({rubric.text}): {rubric.yes} of {rubric.yes + rubric.no} say yes{reason}"


def sentence_text(sentence: SentenceScore) -> str:
    """Return a sentence with label, votes and reason: `“It is free.”: unsupported (4 of 5): No source says so.`"""
    label = sentence.label or ""
    reason = f": {sentence.rationale}" if sentence.rationale else ""
    evidence = f" [{sentence.evidence}]" if sentence.evidence else ""
    votes = f"{sentence.votes.get(label, 0)} of {sum(sentence.votes.values())}"
    return f"“{sentence.sentence}”: {label.replace('_', ' ')} ({votes}){reason}{evidence}"


def votes_text(judgement: Judgement) -> str:
    """Return the votes of the samples: counts by label if scores have labels, else grades or approvals."""
    scores = [sample.score for sample in judgement.samples if sample.score is not None]
    unread = len(judgement.samples) - len(scores)
    left_out = f" ({unread} gave no verdict)" if unread else ""
    labels = Counter(sample.label for sample in judgement.samples if sample.label)
    if labels:
        by_label = (f"{count} {'says' if count == 1 else 'say'} {label}" for label, count in labels.most_common())
        return f"the judge: {', '.join(by_label)}{left_out}"
    if judgement.best != 1.0:
        best = "" if judgement.best is None else f" of {judgement.best:g}"
        return f"the judge: {', '.join(f'{score:g}' for score in scores)}{best}{left_out}"
    return f"the judge: {sum(score == 1.0 for score in scores)} of {len(scores)} approve{left_out}"


def find_reason(judgement: Judgement, score: float) -> str:
    """Return the rationale of the first sample whose score is nearest to the score."""
    reasons = [(abs(each.score - score), each.rationale) for each in judgement.samples if each.score is not None]
    return min((pair for pair in reasons if pair[1]), key=lambda pair: pair[0], default=(0.0, "no reason"))[1]


# The data of reports: a run, its results, and the expected cases.

ExpectedCase = Callable[[CaseResult], EvalCase | None]
"""Finds the expected case of a result; None if it no longer exists."""

NOT_GOOD = (CaseStatus.FAILED, CaseStatus.ERROR, CaseStatus.NOT_EVALUATED)
"""Statuses that a report explains."""


@dataclass(frozen=True)
class ReportedCase:
    """One result with its expected case; None if that is unknown, as for the turns of a scenario."""

    result: CaseResult
    expected: EvalCase | None

    def __post_init__(self) -> None:
        if self.expected is not None and not self.result.is_recorded:
            object.__setattr__(self, "expected", mask_model_secrets(self.expected))

    @property
    def name(self) -> str:
        """The id of the case, unique in its set."""
        return self.result.case.name

    @cached_property
    def differences(self) -> tuple[tuple[Difference, ...], ...]:
        """The differences of each finished turn with an expectation; an empty tuple if there are none."""
        conversation = (self.expected.conversation if self.expected is not None else None) or ()
        turns = self.result.execution.turns
        return tuple(
            find_differences(
                expected_turn,
                turn.invocation,
                calls_known=self.can_compare_calls(expected_turn, turn),
                response_known=turn.invocation.final_response is not None or not self.result.is_recorded,
            )
            for expected_turn, turn in zip(conversation, turns, strict=False)
        )

    def can_compare_calls(self, expected_turn: Invocation, turn: TurnResult) -> bool:
        """True if the calls of both sides of a turn are known."""
        return turn.calls_unknown is None and (
            not self.result.is_row or have_known_calls(expected_turn, turn.invocation)
        )

    @cached_property
    def state_differences(self) -> tuple[Difference, ...]:
        """The differences of the final session state, if both sides have one."""
        expected_state = self.expected.final_session_state if self.expected is not None else None
        actual_state = self.result.execution.final_state
        return (
            find_state_differences(expected_state, actual_state)
            if expected_state is not None and actual_state is not None
            else ()
        )

    @property
    def deciding_metrics(self) -> tuple[MetricResult, ...]:
        """The metrics that decide on the case: those with a threshold, and those in ERROR."""
        return _select_deciding(self.result.metrics)


@cache_by_identity(maxsize=256, skip_if=has_judgements)
def _select_deciding(metrics: tuple[MetricResult, ...]) -> tuple[MetricResult, ...]:
    return tuple(metric for metric in metrics if _is_deciding(metric))


def shown_metrics(case: ReportedCase, config: EvalConfig | None) -> tuple[MetricResult, ...]:
    """Return the metrics that are criteria or decide, without those that are always reported."""
    return _make_shown_filter(config)(case.result.metrics)


@cache_by_identity(maxsize=64)
def _make_shown_filter(
    config: EvalConfig | None,
) -> Callable[[tuple[MetricResult, ...]], tuple[MetricResult, ...]]:
    criterion_names = tuple(criterion.metric for criterion in config.criteria) if config is not None else ()

    @cache_by_identity(maxsize=256, skip_if=has_judgements)
    def find_shown(metrics: tuple[MetricResult, ...]) -> tuple[MetricResult, ...]:
        # One criterion may have several results, whose names start with its name.
        return tuple(metric for metric in metrics if _is_deciding(metric) or metric.name.startswith(criterion_names))

    return find_shown


def _is_deciding(metric: MetricResult) -> bool:
    return metric.threshold is not None or metric.status is MetricStatus.ERROR


def has_upper_limit(metric: MetricNumbers | MetricResult) -> bool:
    """Return True if the verdict shows that a lower score is better: this layer does not know the metrics."""
    if metric.score is None or metric.threshold is None:
        return False
    if metric.status == MetricStatus.PASSED:
        return metric.score < metric.threshold
    return metric.status == MetricStatus.FAILED and metric.score > metric.threshold


class CaseOutcome(NamedTuple):
    """The data of one result for the closing lines of a report. It is small, so that large runs fit into memory."""

    case: CaseKey
    repeat: int
    eval_set_id: str
    status: CaseStatus
    metrics: tuple[str, ...]
    """The names of the metrics that are shown."""
    unsure: tuple[str, ...]
    """A text for each metric with disagreeing samples."""
    partly_judged: tuple[str, ...]
    """A text for each metric with missing samples."""
    hints: tuple[str, ...]
    """Hints on metrics that passed or have no score."""
    asked_live: str | None
    """Why models were asked although there is a recording of the case."""
    is_quarantined: bool
    """True for a FAILED that does not fail the run."""
    is_outage: bool = False
    """True for an ERROR because a judge or another service did not answer."""


def summarise_case(case: ReportedCase, config: EvalConfig | None) -> CaseOutcome:
    """Summarise a result; `config` has the criteria of its eval set."""
    result = case.result
    unsure, partly_judged, hints = _summarise_texts(case.deciding_metrics)
    difference = None if result.execution.model_calls is None else result.execution.model_calls.difference
    return CaseOutcome(
        case=result.case,
        repeat=result.repeat,
        eval_set_id=result.eval_set_id,
        status=result.status,
        metrics=_list_names(shown_metrics(case, config)),
        unsure=unsure,
        partly_judged=partly_judged,
        hints=hints,
        asked_live=None
        if difference is None
        else "; ".join(filter(None, (describe_reason(difference), difference.hint))),
        is_quarantined=result.is_quarantined,
        is_outage=result.has_outage
        or (result.failure is not None and result.failure.kind is FailureKind.INFRASTRUCTURE),
    )


@cache_by_identity(maxsize=256, skip_if=has_judgements)
def _summarise_texts(metrics: tuple[MetricResult, ...]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    unsure = (unsure_text(metric) for metric in metrics)
    silent = (metric for metric in metrics if metric.status in (MetricStatus.PASSED, MetricStatus.UNDEFINED))
    return (
        tuple(text for text in unsure if text is not None),
        tuple(missing_samples_lines(metrics)),
        _intern(tuple(f"{metric.name}: {metric.hint}" for metric in silent if metric.hint is not None)),
    )


@cache_by_identity(maxsize=256, skip_if=has_judgements)
def _list_names(metrics: tuple[MetricResult, ...]) -> tuple[str, ...]:
    return _intern(tuple(metric.name for metric in metrics))


@lru_cache(maxsize=256)
def _intern(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the same object for equal texts: most cases of a run share them."""
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
    """A run with its cases. `earlier` has the runs up to this one, oldest first, if they are known."""

    cases: Sequence[ReportedCase]
    earlier_runs: Sequence[StoredRun] = ()

    @cached_property
    def outcomes(self) -> Sequence[CaseOutcome]:
        """The cases summed up, in the order of the report."""
        return [summarise_case(case, self.criteria.get(case.result.case.eval_set)) for case in self.cases]

    def by_eval_set(self) -> dict[tuple[str, str], list[ReportedCase]]:
        """The cases by target and eval set, in the order of the report."""
        groups: dict[tuple[str, str], list[ReportedCase]] = {}
        for case in self.cases:
            groups.setdefault((case.result.case.target, case.result.case.eval_set), []).append(case)
        return groups


def build_report(run: StoredRun, cases: Sequence[ReportedCase], *, summary: RunSummary) -> RunReport:
    """Build the report of a stored run, or of a part of it, from `cases` and `summary`. It has no options."""
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
    """Pair results with their expected cases."""
    return [ReportedCase(result, expected(result)) for result in results]


@dataclass(frozen=True)
class Repeats:
    """The repeats of one case that have a verdict."""

    name: str
    passed: int
    total: int

    @property
    def is_flaky(self) -> bool:
        """True if some repeats passed and some did not."""
        return 0 < self.passed < self.total


def count_repeats(outcomes: Sequence[CaseOutcome]) -> list[Repeats]:
    """Count the repeats of cases that ran more than once, without outages and skipped and cancelled repeats."""
    if not any(outcome.repeat for outcome in outcomes):  # grouping thousands of cases takes time and memory
        return []
    counts: dict[CaseKey, list[bool]] = {}
    for outcome in outcomes:
        if outcome.status not in (CaseStatus.SKIPPED, CaseStatus.CANCELLED) and not outcome.is_outage:
            counts.setdefault(outcome.case, []).append(outcome.status is CaseStatus.PASSED)
    return [Repeats(str(key), sum(passed), len(passed)) for key, passed in counts.items() if len(passed) > 1]


# Texts and symbols of all reports for people.

SYMBOLS = {
    CaseStatus.PASSED: "✓",
    CaseStatus.FAILED: "✗",
    CaseStatus.ERROR: "!",
    CaseStatus.NOT_EVALUATED: "?",
    CaseStatus.SKIPPED: "-",
    CaseStatus.CANCELLED: "-",
}

QUARANTINE_SYMBOL = "⊘"
"""Marks a FAILED that does not fail the run."""


def status_text(status: CaseStatus, quarantine: Quarantine | None) -> str:
    """Return the symbol and the word of a status: `✗ FAILED`, or `⊘ QUARANTINED` for a FAILED that does not count."""
    if is_quarantined(status, quarantine):
        return f"{QUARANTINE_SYMBOL} QUARANTINED"
    return f"{SYMBOLS[status]} {status.value}"


def quarantine_lines(result: CaseResult) -> list[str]:
    """Return a line with the quarantine of a result, if it has one."""
    return [] if result.quarantine is None else [describe_quarantine(result.status, result.quarantine)]


def describe_quarantine(status: CaseStatus | None, quarantine: Quarantine) -> str:
    """Say until when and why a case is in quarantine, and whether its verdict, if any, counts nevertheless."""
    counts = " (an ERROR counts)" if status is CaseStatus.ERROR and not quarantine.is_expired else ""
    return redacted_line(f"{quarantine}{counts}")


PARTLY_JUDGED = "judged by fewer samples than asked"
"""Describes a verdict with missing samples."""


def name_repeat(case: object, repeat: int) -> str:
    """Return the name of a case, with a number for repeats after the first: `hello [2]`."""
    return f"{case} [{repeat + 1}]" if repeat else str(case)


def set_heading(target: str, eval_set: str, config: EvalConfig | None) -> str:
    """Return the heading of a set: target, name and the file of its criteria, if it is known.

    Target and name are equal for a recorded dataset.
    """
    names = dict.fromkeys(name for name in (target, eval_set) if name)
    if config is None:
        return " · ".join(names)
    return " · ".join((*names, "default criteria" if config.is_default else f"criteria {config.source}"))


def total_line(report: RunFacts) -> str:
    """Return the run in one line, with both denominators: all cases, and the judged ones."""
    summary = report.summary
    parts = [f"{pluralise(summary.total, 'case')}: {counts_text(summary)}"]
    judged = summary.passed + summary.failed + summary.quarantined
    if 0 < judged < summary.total:
        parts.append(f"passed {summary.passed} of {judged} judged, {summary.total} in total")
    parts.append(f"in {duration_text(report.duration_seconds)}")
    if report.interrupted:
        parts.append("interrupted")
    return ", ".join(parts)


def counts_text(summary: RunSummary) -> str:
    """Return the counts above 0 of cases by status, and of verdicts with missing samples: `3 passed, 1 error`."""
    counts = {
        "passed": summary.passed,
        "failed": summary.failed,
        "quarantined": summary.quarantined,
        "error": summary.error,
        "not evaluated": summary.not_evaluated,
        "skipped": summary.skipped,
        "cancelled": summary.cancelled,
        PARTLY_JUDGED: summary.partly_judged,
    }
    return ", ".join(f"{count:,} {word}" for word, count in counts.items() if count) or "none"


def duration_text(seconds: float) -> str:
    """Format a duration for people: `0.31 s`, `12.4 s`, `3 min 05 s`."""
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60):02d} s"


_LEAST = 0.000001  # dollars that are shown


def cost_text(dollars: float | None) -> str:
    """Format US dollars with two significant digits: `$1.23`, `$0.0012`."""
    if dollars is None:
        return "cost unknown"
    if dollars == 0:
        return "$0"
    if dollars < _LEAST:
        return "less than $0.000001"
    if dollars >= 1:
        return f"${dollars:,.2f}"
    digits = 2
    while digits < 6 and dollars < 10 ** (1 - digits):
        digits += 1
    return f"${dollars:.{digits}f}"


REPLAY_MARK = "↺"
"""Marks a verdict that rests on recorded answers of the agent's models."""


def mark_replayed(calls: ModelCalls | None) -> str:
    """Return the mark of a verdict, with the share if some models were asked: `↺`, `↺ 2 of 3`; empty without replay."""
    if calls is None or not calls.replayed:
        return ""
    return f"{REPLAY_MARK} {calls.replayed:,} of {calls.live + calls.replayed:,}" if calls.live else REPLAY_MARK


def describe_sources(calls: ModelCalls) -> str:
    """Say which model calls of a case were replayed, and why others were not.

    `1 model call replayed, model calls 2 to 3 asked live: instruction, line 4 changed`.
    """
    replayed_part = f"{pluralise(calls.replayed, 'model call')} replayed" if calls.replayed else ""
    live_part = f"{pluralise(calls.live, 'model call')} asked live" if calls.live else ""
    difference, last_call = calls.difference, calls.live + calls.replayed
    if difference is not None and calls.live:
        numbers = (
            f"model call {last_call}"
            if difference.call == last_call
            else f"model calls {difference.call} to {last_call}"
        )
        live = live_part if difference.is_of_one_call else f"{numbers} asked live"
        live_part = f"{live}: {describe_reason(difference)}"
    mark = f"{REPLAY_MARK} " if calls.replayed else ""
    return one_line(mark + ", ".join(filter(None, (replayed_part, live_part))))


def describe_reason(difference: RequestDifference) -> str:
    """Say why models were asked although there is a recording: `instruction, line 4 changed`."""
    if difference.uncovered is not None:
        return f"made with {difference.uncovered}"
    if difference.unnamed is not None:
        return f"{difference.unnamed} is not in [replay] endpoints"
    if difference.error is not None:
        return "the recording has an error, which cannot be replayed"
    return "not in the recording" if difference.what is None else f"{difference.what} changed"


def difference_lines(difference: RequestDifference) -> list[str]:
    """Return what differs from the recording, as words if both have a text: `Be [-nice-]{+brief+}.`"""
    if difference.before is None or difference.now is None:
        return [str(difference)]
    first, *more = _format_words(difference.before, difference.now).split("\n")
    hint = [f"    {difference.hint}"] if difference.hint else []
    return [f"{difference.heading}: {first}", *(f"    {line}" for line in more), *hint]


_WORD_SIGNS = {PassageChange.SAME: ("", ""), PassageChange.REMOVED: ("[-", "-]"), PassageChange.ADDED: ("{+", "+}")}


def _format_words(before: str, now: str) -> str:
    """Return both texts in one, with removed and added words between signs."""
    text, removed = "", ""
    for change, words in compare_words(before, now):
        blanks = words[: len(words) - len(words.lstrip(" "))]
        opening, closing = _WORD_SIGNS[change]
        shared = change is PassageChange.ADDED and removed.startswith(blanks)  # they replace words with the same blanks
        text += f"{'' if shared else blanks}{opening}{words[len(blanks) :]}{closing}"
        removed = words if change is PassageChange.REMOVED else ""
    return text


def find_live_samples(executions: Iterable[StoredScores]) -> list[StoredScores]:
    """Return the repeats of the newest run of a case that rests on no replayed model call.

    `executions` are those of the case, newest first.
    """
    live: list[StoredScores] = []
    for each in executions:
        is_sample = not each.job.is_replayed and each.job.status not in (CaseStatus.SKIPPED, CaseStatus.CANCELLED)
        if is_sample and each.job.run_id == (live or [each])[0].job.run_id:
            live.append(each)
    return live


def describe_samples(samples: Sequence[StoredScores]) -> list[str]:
    """Describe how samples of a case differ: how many passed, mean and range of each score. Empty below two samples."""
    if len(samples) < 2:
        return []
    passed = sum(each.job.status is CaseStatus.PASSED for each in samples)
    lines = [f"{passed} of {len(samples)} live samples passed, {time_text(samples[0].job.finished_at)}"]
    scores: dict[str, list[float]] = {}
    for metric in (metric for each in samples for metric in each.metrics):
        if metric.threshold is not None and metric.score is not None:
            scores.setdefault(metric.name, []).append(metric.score)
    return [*lines, *(one_line(f"{name}: {describe_range(values)}") for name, values in scores.items())]


def describe_range(scores: Sequence[float]) -> str:
    """Return mean and range of scores: `mean 0.67, 0.33 to 1.00`."""
    return f"mean {score_text(sum(scores) / len(scores))}, {score_text(min(scores))} to {score_text(max(scores))}"


def describe_model_calls(calls: ModelCalls) -> str:
    """Describe the calls of agents' models: `↺ 12 of 14 model calls replayed, 21.0 s saved`."""
    if not calls.replayed:
        return f"{pluralise(calls.live, 'model call')} made, none replayed"
    total = pluralise(calls.live + calls.replayed, "model call")
    cost = "" if calls.saved_cost is None else f"{cost_text(calls.saved_cost)} and "
    return f"{REPLAY_MARK} {calls.replayed:,} of {total} replayed, {cost}{duration_text(calls.saved_seconds)} saved"


def agent_time_text(seconds: float) -> str:
    """Format the time of the agent; `-` if no agent ran."""
    return duration_text(seconds) if seconds else "-"


def time_text(at: datetime) -> str:
    """Format a time in the local time zone."""
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def explain_incomplete(run: StoredRun) -> str:
    """Say why not every case of a run was executed; empty if all were."""
    if run.interrupted:
        return "interrupted"
    return "" if run.ended else "unfinished"


# Conversations as text and as JSON.

_NAME = 7  # columns of a speaker's name


def case_heading(result: CaseResult) -> str:
    """Return the heading of a conversation: the case, and who plays the user."""
    simulation = result.execution.simulation
    user = "" if simulation is None else f"  {_describe_user(simulation)}"
    return one_line(f"── {name_repeat(result.case, result.repeat)}{user}")


def user_lines(text: str) -> Iterator[str]:
    return _speech_lines("user", text)


def answer_lines(turn: TurnResult) -> Iterator[str]:
    """Yield the tool calls and texts of the agent in a turn."""
    for call in get_trajectory(turn.invocation):
        arguments = json.dumps(mask_named_secrets(call.args or {}), ensure_ascii=False, default=str)
        yield " " * _NAME + one_line(f"ƒ {call.name} {redact(arguments)}")
    for message in list_messages(turn.invocation):
        yield from _speech_lines(message.author, message.text)
    response = turn.invocation.response_text(thoughts=False)
    yield from _speech_lines("agent", "(nothing)" if response is None else response)


def ending_line(result: CaseResult) -> str:
    """Say why the conversation ended, with its turns, model calls and time."""
    simulation = result.execution.simulation
    parts = [pluralise(len(result.execution.turns), "turn")]
    if simulation is not None and simulation.calls:
        cached = f" ({simulation.cached} cached)" if simulation.cached else ""
        source = "a script" if simulation.scripted else simulation.model
        parts.append(f"{pluralise(simulation.calls, 'answer')} of {source}{cached}")
    parts.append(agent_time_text(result.agent_seconds))
    return " " * _NAME + one_line(f"{_explain_end(result)} · {' · '.join(parts)}")


def conversation_lines(result: CaseResult) -> Iterator[str]:
    yield case_heading(result)
    for turn in result.execution.turns:
        yield from user_lines(turn.invocation.user_content.text(thoughts=False))
        yield from answer_lines(turn)
    yield ending_line(result)


def conversation_data(result: CaseResult) -> dict[str, Any]:
    """Return a whole conversation as JSON values; `ended` is stop_signal, limit or null."""
    simulation = result.execution.simulation
    return {
        **result.case.model_dump(exclude={"occurrence"}),
        "repeat": result.repeat,
        "ended": None if simulation is None or simulation.end is None else simulation.end.value,
        "error": None if result.failure is None else redact(result.failure.message),
        "duration_seconds": result.duration_seconds,
        "agent_seconds": result.agent_seconds,
        "user": None if simulation is None else simulation.model_dump(mode="json", exclude={"end"}),
        "turns": [
            {
                "user": turn.invocation.user_content.text(thoughts=False),
                "agent": turn.invocation.response_text(thoughts=False),
                "tool_calls": None if turn.calls_unknown is not None else call_records(turn.invocation),
            }
            for turn in result.execution.turns
        ],
    }


def call_records(invocation: Invocation) -> list[dict[str, Any]]:
    """Return the tool calls of a turn as JSON values."""
    return [call._asdict() for call in get_trajectory(invocation)]


def _describe_user(simulation: SimulatedConversation) -> str:
    """Return the persona of the user, and the model or script that plays it."""
    source = f"a script instead of {simulation.model}" if simulation.scripted else simulation.model
    return f"{simulation.persona or 'a user'}, played by {source}"


def _explain_end(result: CaseResult) -> str:
    simulation = result.execution.simulation
    if result.failure is not None:
        return f"ERROR: {redact(result.failure.message)}"
    if simulation is not None and simulation.end is ConversationEnd.LIMIT:
        return f"stopped at the limit of {pluralise(simulation.limit or 0, 'turn')}: the user had not finished"
    return "the user has finished" if simulation is not None else "all turns played"


def _speech_lines(name: str, text: str) -> Iterator[str]:
    """Yield the lines of a text, with the speaker before the first line."""
    label = one_line(name)
    for line in neutralise(redact(text)).splitlines() or [""]:
        yield f"{label:<{_NAME}}{line}"
        label = ""
