"""Two runs compared: regressions, fixes, flaky cases, changed scores and criteria."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import Any, NamedTuple

from workbench.model.criteria import Criterion, EvalConfig
from workbench.model.identity import CaseKey
from workbench.model.results import CaseStatus
from workbench.model.text import (
    format_limit,
    format_mean,
    format_measured,
    format_score_change,
    join_some,
    pluralise,
    redacted_line,
)
from workbench.report.report_formats import SCHEMA_VERSION, escape_markdown, summary_record
from workbench.report.run_report import (
    PARTLY_JUDGED,
    SYMBOLS,
    counts_text,
    duration_text,
    explain_incomplete,
    has_upper_limit,
    time_text,
)
from workbench.report.significance import (
    Count,
    PairedTest,
    Significance,
    StratifiedTest,
    compare_pass_rates,
    compare_repeats,
    compare_scores,
    correct_for_many,
    explain_pass_rates,
    explain_repeats,
    explain_scores,
)
from workbench.report.text_report import TableStyle, cell_length
from workbench.store.errors import StoreError
from workbench.store.history.history import LATEST, History
from workbench.store.history.history_codec import MetricNumbers
from workbench.store.history.history_queries import RunRecord, StoredJob, StoredRun, StoredScores

# Changes of criteria, versions and options between two runs, in sentences.

_RESULT_OPTIONS = ("runs", "timeout_seconds", "isolation")
"""Options that can change results. The others only change the speed."""


def describe_run_changes(before: RunRecord, after: RunRecord) -> tuple[str, ...]:
    """Return a sentence for each change. Equal changes of several eval sets share one sentence."""
    changed_sets: dict[str, list[str]] = {}
    for eval_set in before.criteria.keys() & after.criteria.keys():
        for sentence in describe_criteria_changes(before.criteria[eval_set], after.criteria[eval_set]):
            changed_sets.setdefault(sentence, []).append(eval_set)
    sentences = [f"{join_some(sorted(sets), 1)}: {sentence}" for sentence, sets in sorted(changed_sets.items())]
    sentences += _describe_changed_values(before.versions, after.versions, sorted({*before.versions, *after.versions}))
    sentences += _describe_changed_values(before.options, after.options, _RESULT_OPTIONS)
    return tuple(sentences)


def describe_criteria_changes(before: EvalConfig, after: EvalConfig) -> tuple[str, ...]:
    """Return a sentence for each change in the criteria of one eval set."""
    old = {criterion.metric: criterion for criterion in before.criteria}
    new = {criterion.metric: criterion for criterion in after.criteria}
    sentences = [f"{name} is new, {threshold_text(new[name])}" for name in new if name not in old]
    sentences += [f"{name} is gone" for name in old if name not in new]
    for name in old.keys() & new.keys():
        sentences += _describe_changed_criterion(old[name], new[name])
    if before.custom_metrics != after.custom_metrics:
        sentences.append("the custom metrics changed")
    if before.judge_metrics != after.judge_metrics:
        sentences.append("the judge metrics changed")
    return tuple(sentences)


def threshold_text(criterion: Criterion) -> str:
    return (
        "without threshold"
        if criterion.threshold is None
        else f"threshold {format_limit(criterion.metric, criterion.threshold)}"
    )


def _describe_changed_criterion(old: Criterion, new: Criterion) -> Iterator[str]:
    if old.threshold != new.threshold:
        yield f"{new.metric}: {threshold_text(old)} became {threshold_text(new)}"
    for name in sorted({*old.options, *new.options}):
        if old.options.get(name) != new.options.get(name):
            yield f"{new.metric}: {name} {_value_text(old.options, name)} became {_value_text(new.options, name)}"


def _describe_changed_values(old: Mapping[str, Any], new: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    return [
        f"{name.replace('_', ' ')} {_value_text(old, name)} became {_value_text(new, name)}"
        for name in names
        if old.get(name) != new.get(name)
    ]


def _value_text(values: Mapping[str, Any], name: str) -> str:
    if name not in values:
        return "(not given)"
    value = values[name]
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:59]}…"


# Two runs side by side: changed verdicts and scores.

RUNS_LOOKED_BACK = 10
"""Number of runs before the earlier one that are searched for a case with alternating verdicts."""

INPUT_CHANGED = "the case or its target changed between the runs, so the agent got different input"
SCORING_CHANGED = "the expectations or criteria changed between the runs"

_NEVER_RAN = (CaseStatus.SKIPPED, CaseStatus.CANCELLED)
_JUDGED = (CaseStatus.PASSED, CaseStatus.FAILED)
_PASSED_ONCE, _ONE_PASSED = (CaseStatus.PASSED,), Count(1, 1)
_WORST_FIRST = (CaseStatus.ERROR, CaseStatus.FAILED, CaseStatus.NOT_EVALUATED, CaseStatus.PASSED)
_SAME_SCORE = 1e-9


class VerdictChange(StrEnum):
    """The change of a case from the earlier to the later run, the most urgent first."""

    REGRESSION = "regression"  # passed before, does not pass now
    FLAKY = "flaky"  # its repeats disagree, or its verdict also alternated in earlier runs
    FIX = "fix"  # did not pass before, passes now
    OTHER = "changed"  # passes in neither run, but the status differs: FAILED became ERROR
    NEW = "new"  # only the later run has it
    GONE = "gone"  # only the earlier run has it
    SAME = "same"


FLIPS = (VerdictChange.REGRESSION, VerdictChange.FLAKY, VerdictChange.FIX)
"""Changes of the verdict."""


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The verdict on one case in one run, from its repeats in order."""

    statuses: tuple[CaseStatus, ...]
    scores: Mapping[str, float]  # the mean of each metric over the repeats that have it
    deciding: frozenset[str]  # the metrics with a threshold; the others are only reported
    limited: frozenset[str]  # the metrics whose threshold is an upper limit
    duration_seconds: float  # the mean, as of agent_seconds
    agent_seconds: float
    execution_key: str
    scoring_key: str
    has_missing_samples: bool  # True if samples of a judge are missing in a repeat
    is_in_quarantine: bool = False

    @property
    def status(self) -> CaseStatus:
        """The worst of the repeats."""
        if len(self.statuses) == 1:
            return self.statuses[0]
        return next(status for status in _WORST_FIRST if status in self.statuses)

    @property
    def is_passed(self) -> bool:
        return self.status is CaseStatus.PASSED

    @property
    def count(self) -> Count:
        """The repeats that passed, and those with a verdict: an ERROR is none."""
        if self.statuses == _PASSED_ONCE:
            return _ONE_PASSED
        judged = [status for status in self.statuses if status in _JUDGED]
        return Count(judged.count(CaseStatus.PASSED), len(judged))

    @property
    def pass_rate(self) -> float | None:
        """The share of repeats that passed, of those with a verdict; None if there is none."""
        passed, total = self.count
        return passed / total if total else None

    @property
    def is_mixed(self) -> bool:
        """True if some repeats passed and some did not."""
        return len(self.statuses) > 1 and CaseStatus.PASSED in self.statuses and not self.is_passed


@dataclass(frozen=True, slots=True)
class ScoreChange:
    """The scores of a metric of a case in both runs; None if a run has no score."""

    name: str
    before: float | None
    after: float | None

    @property
    def difference(self) -> float | None:
        """By how much the score rose."""
        return None if self.before is None or self.after is None else self.after - self.before


@dataclass(frozen=True, slots=True)
class ComparedCase:
    """One case in both runs; None if a run does not have it."""

    case: CaseKey
    before: RunVerdict | None
    after: RunVerdict | None
    change: VerdictChange
    reason: str = ""  # why it counts as flaky

    @property
    def scores(self) -> tuple[ScoreChange, ...]:
        """Every metric that either run has."""
        before = self.before.scores if self.before is not None else {}
        after = self.after.scores if self.after is not None else {}
        return tuple([ScoreChange(name, before.get(name), after.get(name)) for name in {**before, **after}])

    @property
    def changed_scores(self) -> tuple[ScoreChange, ...]:
        """The deciding metrics with different scores in both runs."""
        deciding = {name for verdict in (self.before, self.after) if verdict is not None for name in verdict.deciding}
        if not deciding:
            return ()
        return tuple(
            score for score in self.scores if abs(score.difference or 0.0) > _SAME_SCORE and score.name in deciding
        )

    @property
    def is_in_quarantine(self) -> bool:
        """True if the case was in quarantine in the later run: it is in no test, and its FAILED is no failure."""
        return self.after is not None and self.after.is_in_quarantine

    @property
    def has_changed_input(self) -> bool:
        """True if the input of the agent changed: prompts of the case, or settings of the target."""
        return _has_different_key(self.before, self.after, lambda verdict: verdict.execution_key)

    @property
    def has_changed_scoring(self) -> bool:
        """True if the expectations of the case or the criteria changed."""
        return _has_different_key(self.before, self.after, lambda verdict: verdict.scoring_key)


@dataclass(frozen=True)
class RunComparison:
    """Two runs. `cases` are sorted by how urgent their change is, then by set and id.

    `pass_rates` tests the verdicts on the cases that both runs judged, and `repeats` the repeats within these cases, if
    there are several. Both are None if there is no such case, or if `is_selected`: the later run has only cases that
    did not pass before, and can only get better. `metrics` tests each metric over the cases with a score in both runs,
    so that an added case changes no mean. Their p-values are corrected, since one of many metrics may seem to differ
    by chance: those of criteria with a threshold, and those of the other metrics.
    """

    before: StoredRun
    after: StoredRun
    cases: Sequence[ComparedCase]
    configuration_changes: Sequence[str]  # criteria, versions and options that differ, in sentences
    counts: Mapping[VerdictChange, int]
    pass_rates: PairedTest | None
    metrics: Mapping[str, PairedTest]
    is_selected: bool
    repeats: StratifiedTest | None = None

    @property
    def is_significantly_worse(self) -> bool:
        """True if the pass rate, or a criterion with a threshold, got worse by more than chance explains."""
        deciding = _list_deciding(self.cases)
        limited = {name for case in self.cases for each in (case.before, case.after) if each for name in each.limited}
        has_worse_rate = self.pass_rates is not None and self.pass_rates.finding is Significance.LOWER
        has_worse_rate |= self.repeats is not None and self.repeats.finding is Significance.LOWER
        return has_worse_rate or any(
            test.finding is (Significance.HIGHER if name in limited else Significance.LOWER)
            for name, test in self.metrics.items()
            if name in deciding
        )

    @property
    def unjudged(self) -> int:
        """The number of cases of both runs that are in no test, because one of the runs has no verdict on them."""
        if self.is_selected:
            return 0
        in_both = sum(case.before is not None and case.after is not None for case in self.cases)
        return in_both - self.quarantined - (0 if self.pass_rates is None else self.pass_rates.cases)

    @property
    def quarantined(self) -> int:
        """The number of cases of both runs that are in no test, because they are in quarantine."""
        return sum(case.before is not None and case.is_in_quarantine for case in self.cases)

    @property
    def forgotten(self) -> int:
        """The number of cases whose verdict is stored in a run, but not its scores any more: they are in no mean."""
        return sum(
            any(each is not None and each.status in _JUDGED and not each.scores for each in (case.before, case.after))
            for case in self.cases
        )

    def select(self, *changes: VerdictChange) -> list[ComparedCase]:
        """Return the cases with one of these changes."""
        return [case for case in self.cases if case.change in changes]


ListEarlier = Callable[[CaseKey], Sequence[Sequence[CaseStatus]]]
"""Returns the statuses of the repeats of a case in the runs up to the earlier one, the newest first."""


def compare_stored_runs(history: History, before: str | None = None, after: str | None = None) -> RunComparison:
    """Compare two runs of a history, named by id, the start of an id, or "latest".

    Default of `after` is the newest run that judged a case. Default of `before`, also if it names the same run, is the
    previous run that judged cases of the same sets. Raises StoreError, also if both names mean one run.
    """
    newest = history.get_newest_judged_run() if after is None else None
    later_run = newest or history.run(LATEST if after is None else after)
    earlier_run = None if before is None else history.run(before)
    if earlier_run is not None and earlier_run.run_id == later_run.run_id:
        if after is not None:
            raise StoreError(history.path, f"both runs are {later_run.run_id}; name two runs, or only the earlier one")
        earlier_run = None
    if earlier_run is None:
        earlier_run = history.get_previous_run(later_run.run_id)
    if earlier_run is None:
        words = " ".join(later_run.command.split()[:2])
        command = words if words in ("workbench eval", "workbench score") else "workbench run"
        problem = f"no run before {later_run.run_id} judged cases of its sets; run `{command}` again, or name two runs"
        raise StoreError(history.path, problem)

    def list_earlier(case: CaseKey) -> Sequence[Sequence[CaseStatus]]:
        return history.earlier_statuses(case, earlier_run.run_id, limit=RUNS_LOOKED_BACK)

    return compare_runs(
        earlier_run,
        later_run,
        collect_verdicts(history.numbers(earlier_run.run_id)),
        collect_verdicts(history.numbers(later_run.run_id)),
        list_earlier=list_earlier,
    )


def compare_runs(
    before: StoredRun,
    after: StoredRun,
    verdicts_before: Mapping[CaseKey, RunVerdict],
    verdicts_after: Mapping[CaseKey, RunVerdict],
    *,
    list_earlier: ListEarlier,
) -> RunComparison:
    """Compare two runs by their verdicts. `list_earlier` is called only for cases whose verdict changed."""
    keys = {**dict.fromkeys(verdicts_before), **dict.fromkeys(verdicts_after)}
    cases = [_compare_case(key, verdicts_before.get(key), verdicts_after.get(key), list_earlier) for key in keys]
    order = {change: place for place, change in enumerate(VerdictChange)}
    cases.sort(key=lambda item: (order[item.change], item.case.target, item.case.eval_set, item.case.eval_id))
    counts = dict.fromkeys(VerdictChange, 0)
    for case in cases:
        counts[case.change] += 1
    is_selected = _has_selected_cases(cases)
    return RunComparison(
        before=before,
        after=after,
        cases=cases,
        configuration_changes=describe_run_changes(before, after),
        counts=counts,
        pass_rates=None if is_selected else _test_pass_rates(cases),
        metrics=_test_metrics(cases, is_selected=is_selected),
        is_selected=is_selected,
        repeats=None if is_selected else _test_repeats(cases),
    )


def _has_selected_cases(cases: Sequence[ComparedCase]) -> bool:
    """Return True if the cases of the later run were chosen because they did not pass, as by `run --failed`.

    A case that passes by chance half of the time then seems to get better: its bad draw is compared with a new one.
    """
    in_both = [case.before for case in cases if case.before is not None and case.after is not None]
    has_passed = any(case.before.is_passed for case in cases if case.before is not None and case.after is None)
    return bool(in_both) and has_passed and not any(verdict.is_passed for verdict in in_both)


def _test_pass_rates(cases: Sequence[ComparedCase]) -> PairedTest | None:
    rates = [
        (case.before.pass_rate, case.after.pass_rate)
        for case in cases
        if case.before is not None and case.after is not None and not case.is_in_quarantine
    ]
    return compare_pass_rates([(one, other) for one, other in rates if one is not None and other is not None])


def _test_repeats(cases: Sequence[ComparedCase]) -> StratifiedTest | None:
    return compare_repeats(
        [
            (case.before.count, case.after.count)
            for case in cases
            if case.before is not None and case.after is not None and not case.is_in_quarantine
        ]
    )


def _test_metrics(cases: Sequence[ComparedCase], *, is_selected: bool) -> Mapping[str, PairedTest]:
    pairs: dict[str, list[tuple[float, float]]] = {}
    for case in cases:
        for score in () if case.is_in_quarantine else case.scores:
            if score.before is not None and score.after is not None:
                pairs.setdefault(score.name, []).append((score.before, score.after))
    tests = {name: compare_scores(scores) for name, scores in pairs.items()}
    if is_selected:
        return {name: replace(test, p_value=1.0, interval=None) for name, test in tests.items()}
    deciding = _list_deciding(cases)
    criteria = correct_for_many({name: test for name, test in tests.items() if name in deciding})
    informational = correct_for_many({name: test for name, test in tests.items() if name not in deciding})
    return {name: criteria.get(name) or informational[name] for name in tests}


def _list_deciding(cases: Sequence[ComparedCase]) -> frozenset[str]:
    """Return the metrics with a threshold in the later run."""
    return frozenset(name for case in cases if case.after is not None for name in case.after.deciding)


def collect_verdicts(
    jobs: Iterable[tuple[StoredJob, Sequence[MetricNumbers]] | StoredScores],
) -> dict[CaseKey, RunVerdict]:
    """Return the verdict on each case of a run, in the order in which the cases ended."""
    repeats: dict[CaseKey, list[_Repeat]] = {}
    name_sets: dict[tuple[str, ...], frozenset[str]] = {}  # most cases have the same metrics

    def collect(names: tuple[str, ...]) -> frozenset[str]:
        return name_sets.get(names) or name_sets.setdefault(names, frozenset(names))

    for job, metrics in jobs:
        if job.status not in _NEVER_RAN:
            numbers = {metric.name: metric.score for metric in metrics if metric.score is not None}
            deciding = collect(tuple([metric.name for metric in metrics if metric.threshold is not None]))
            limited = collect(tuple([metric.name for metric in metrics if has_upper_limit(metric)]))
            repeats.setdefault(job.case, []).append(_Repeat(job.key.repeat, job, numbers, deciding, limited))
    return {case: _verdict(sorted(each, key=lambda repeat: repeat.number)) for case, each in repeats.items()}


class _Repeat(NamedTuple):
    """The needed data of one repeat. Its metrics are large, and there are thousands of repeats."""

    number: int
    job: StoredJob
    scores: Mapping[str, float]
    deciding: frozenset[str]
    limited: frozenset[str]


def _verdict(repeats: Sequence[_Repeat]) -> RunVerdict:
    newest = repeats[-1].job
    if len(repeats) == 1:
        _, _, means, deciding, limited = repeats[0]
    else:
        scores: dict[str, list[float]] = {}
        for repeat in repeats:
            for name, score in repeat.scores.items():
                scores.setdefault(name, []).append(score)
        means = {name: sum(values) / len(values) for name, values in scores.items()}
        deciding = frozenset().union(*(repeat.deciding for repeat in repeats))
        limited = frozenset().union(*(repeat.limited for repeat in repeats))
    return RunVerdict(
        statuses=tuple([repeat.job.status for repeat in repeats]),
        scores=means,
        deciding=deciding,
        limited=limited,
        duration_seconds=sum(repeat.job.duration_seconds for repeat in repeats) / len(repeats),
        agent_seconds=sum(repeat.job.agent_seconds for repeat in repeats) / len(repeats),
        execution_key=newest.execution_key,
        scoring_key=newest.scoring_key,
        has_missing_samples=any(repeat.job.misses_samples for repeat in repeats),
        is_in_quarantine=newest.quarantine is not None and not newest.quarantine.is_expired,
    )


def _compare_case(
    case: CaseKey, before: RunVerdict | None, after: RunVerdict | None, list_earlier: ListEarlier
) -> ComparedCase:
    if before is None:
        return ComparedCase(case, before, after, VerdictChange.NEW)
    if after is None:
        return ComparedCase(case, before, after, VerdictChange.GONE)
    if before.is_mixed or after.is_mixed:
        return ComparedCase(case, before, after, VerdictChange.FLAKY, "its repeats disagree")
    if before.is_passed is after.is_passed:
        change = VerdictChange.SAME if before.status is after.status else VerdictChange.OTHER
        return ComparedCase(case, before, after, change)
    earlier_passed = [all(status is CaseStatus.PASSED for status in statuses) for statuses in list_earlier(case)]
    if is_alternating([before.is_passed, *earlier_passed]):
        return ComparedCase(case, before, after, VerdictChange.FLAKY, "it also alternated in earlier runs")
    return ComparedCase(case, before, after, VerdictChange.FIX if after.is_passed else VerdictChange.REGRESSION)


def is_alternating(passed: Sequence[bool]) -> bool:
    """True if the verdicts of consecutive runs changed at least twice. One change is a fix or a regression."""
    changes = sum(one is not other for one, other in pairwise(passed))
    return changes >= 2


def _has_different_key(before: RunVerdict | None, after: RunVerdict | None, key: Callable[[RunVerdict], str]) -> bool:
    if before is None or after is None:
        return False
    return bool(key(before) and key(after)) and key(before) != key(after)


# A comparison of two runs as text for people and as a versioned JSON document.

CHANGE_SYMBOLS = {
    VerdictChange.REGRESSION: "▼",
    VerdictChange.FLAKY: "~",
    VerdictChange.FIX: "▲",
    VerdictChange.OTHER: "±",
    VerdictChange.NEW: "+",
    VerdictChange.GONE: "-",
    VerdictChange.SAME: "=",
}
_COLOURS = {
    VerdictChange.REGRESSION: "31",
    VerdictChange.FLAKY: "33",
    VerdictChange.FIX: "32",
    VerdictChange.OTHER: "35",
    VerdictChange.NEW: "36",
    VerdictChange.GONE: "2",
    VerdictChange.SAME: "2",
}
_WORD_WIDTH = max(map(len, VerdictChange))
_NAME_WIDTH = 48


def comparison_lines(comparison: RunComparison, *, style: TableStyle, show_same: bool) -> list[str]:
    """Return the comparison for people. `show_same` also lists unchanged cases."""
    lines = [style.paint(significance_text(comparison), "1"), ""]
    lines += [_run_line("before", comparison.before), _run_line("after", comparison.after)]
    lines += [f"  {redacted_line(sentence)}" for sentence in comparison.configuration_changes]
    shown = [
        case for case in comparison.cases if show_same or case.change is not VerdictChange.SAME or case.changed_scores
    ]
    if shown:
        lines.append("")
    width = min(max((cell_length(redacted_line(str(case.case))) for case in shown), default=0), _NAME_WIDTH)
    for case in shown:
        lines += _case_lines(case, style=style, width=width)
    if comparison.metrics:
        lines.append("")
        lines += _metric_lines(comparison)
    if comparison.forgotten:
        lines += ["", forgotten_text(comparison)]
    return [*lines, "", style.paint(changes_text(comparison), "1")]


_FORGOTTEN = (
    "the scores of {} in one of the runs are not stored any more, so that no mean has them: the history keeps those of "
    "the last run, of the last two runs of the same selection, and of the last 10,000 executions"
)


def forgotten_text(comparison: RunComparison) -> str:
    """Say how many cases are in no mean, because their scores are not stored any more; empty if there are none."""
    return _FORGOTTEN.format(pluralise(comparison.forgotten, "case")) if comparison.forgotten else ""


def changes_text(comparison: RunComparison) -> str:
    """Return the number of cases by change: `1 regression, 2 fixes, 7 same`."""
    words = {VerdictChange.REGRESSION: "regressions", VerdictChange.FIX: "fixes"}
    counts = [
        f"{count} {words.get(change, change.value) if count != 1 else change.value}"
        for change, count in comparison.counts.items()
        if count
    ]
    return ", ".join(counts) or "no case ran in either"


def difference_text(comparison: RunComparison) -> str:
    """Say in a word or two whether the verdicts differ: `worse`, `cannot tell`."""
    return significance_text(comparison).partition(":")[0]


def significance_text(comparison: RunComparison) -> str:
    """Say in a sentence whether the verdicts differ by more than chance."""
    if comparison.is_selected:
        return "cannot tell: the later run has only cases that did not pass before, so that they could only get better"
    test = comparison.pass_rates
    sentence = "cannot tell: no case has a verdict in both runs" if test is None else explain_pass_rates(test)
    repeats = comparison.repeats
    if (
        repeats is not None
        and repeats.finding is not Significance.CANNOT_TELL
        and (test is None or test.finding is not repeats.finding)
    ):
        sentence += f"; {explain_repeats(repeats)}"
    if comparison.unjudged:
        sentence += f"; left out: {pluralise(comparison.unjudged, 'case')} without a verdict in one of the runs"
    if comparison.quarantined:
        sentence += f"; left out: {pluralise(comparison.quarantined, 'case')} in quarantine"
    return sentence


def verdict_text(verdict: RunVerdict | None) -> str:
    """Return the status and, for several repeats, the number of passed ones."""
    if verdict is None:
        return "not run"
    text = f"{SYMBOLS[verdict.status]} {verdict.status.value}"
    passed = sum(status is CaseStatus.PASSED for status in verdict.statuses)
    return text if len(verdict.statuses) == 1 else f"{text} {passed}/{len(verdict.statuses)}"


def score_change_text(score: ScoreChange) -> str:
    """Format a change: `0.50 → 1.00 (+0.50)`, without the difference if it is 0 or unknown."""
    if score.before is not None and score.after is not None:
        return format_score_change(score.before, score.after, metric=score.name)
    scores = (score.before, score.after)
    return " → ".join("no score" if each is None else format_measured(score.name, each) for each in scores)


_CHANGES_IN_MARKDOWN = (*FLIPS, VerdictChange.OTHER)
_MOST_ROWS = 100
"""Rows of a table: a comment on GitHub has at most 65,536 characters."""


def comparison_markdown(comparison: RunComparison) -> str:
    """Write the comparison for a comment on a pull request: the changed verdicts, the worst first."""
    lines = [f"## workbench: {changes_text(comparison)}", "", f"**{significance_text(comparison)}**", ""]
    shown = comparison.select(*_CHANGES_IN_MARKDOWN)
    if shown:
        lines += ["| change | case | before | after | scores |", "|---|---|---|---|---|"]
        lines += [_markdown_row(case) for case in shown[:_MOST_ROWS]]
        if len(shown) > _MOST_ROWS:
            lines += ["", f"and {len(shown) - _MOST_ROWS:,} more changed cases"]
        lines.append("")
    lines += [f"- {escape_markdown(sentence)}" for sentence in comparison.configuration_changes]
    for word, run in (("before", comparison.before), ("after", comparison.after)):
        lines.append(f"- {escape_markdown(' '.join(_run_line(word, run).split()))}")
    return "\n".join(lines) + "\n"


def _markdown_row(case: ComparedCase) -> str:
    scores = [f"{score.name} {score_change_text(score)}" for score in case.changed_scores]
    notes = [INPUT_CHANGED] if case.has_changed_input else [SCORING_CHANGED] if case.has_changed_scoring else []
    change = f"{CHANGE_SYMBOLS[case.change]} {case.change.value}"
    reason = "".join(f" ({each})" for each in _list_notes(case))
    cells = [change + reason, str(case.case), verdict_text(case.before), verdict_text(case.after)]
    return "| " + " | ".join(escape_markdown(cell) for cell in [*cells, "; ".join([*scores, *notes])]) + " |"


def comparison_record(comparison: RunComparison) -> dict[str, Any]:
    """Return the document of `workbench compare --format json`. It has the schema version of all documents."""
    return {
        "schema_version": SCHEMA_VERSION,
        "before": _run_record(comparison.before),
        "after": _run_record(comparison.after),
        "judged_differently": list(comparison.configuration_changes),
        "counts": {change.name.lower(): count for change, count in comparison.counts.items()},
        "significance": {
            "sentence": significance_text(comparison),
            "significantly_worse": comparison.is_significantly_worse,
            "unjudged": comparison.unjudged,
            "quarantined": comparison.quarantined,
            "scores_forgotten": comparison.forgotten,
            "only_failed": comparison.is_selected,
            "pass_rate": None if comparison.pass_rates is None else _test_record(comparison.pass_rates),
            "within_cases": None
            if comparison.repeats is None
            else {**_finding_record(comparison.repeats), "changed_cases": comparison.repeats.changed},
        },
        "metrics": {name: _test_record(test) for name, test in comparison.metrics.items()},
        "cases": [_case_record(case) for case in comparison.cases],
    }


def _test_record(test: PairedTest) -> dict[str, Any]:
    return {
        **_finding_record(test),
        "interval": None if test.interval is None else list(test.interval),
        "cases_needed": test.needed,
        "visible_difference": test.visible,
    }


def _finding_record(test: PairedTest | StratifiedTest) -> dict[str, Any]:
    return {
        "before": test.before,
        "after": test.after,
        "difference": test.after - test.before,
        "cases": test.cases,
        "finding": test.finding.value,
        "p_value": test.p_value,
    }


def _run_line(word: str, run: StoredRun) -> str:
    ended = "" if run.duration_seconds is None else f", {duration_text(run.duration_seconds)}"
    mark = f", {explain_incomplete(run)}" if explain_incomplete(run) else ""
    run_id = redacted_line(run.run_id)
    return f"{word:<6}  {run_id}  {time_text(run.started_at)}  {counts_text(run.summary)}{ended}{mark}"


def _case_lines(case: ComparedCase, *, style: TableStyle, width: int) -> Iterator[str]:
    word = style.paint(f"{CHANGE_SYMBOLS[case.change]} {case.change.value:<{_WORD_WIDTH}}", _COLOURS[case.change])
    name = redacted_line(str(case.case))
    padding = " " * max(width - cell_length(name), 0)
    reason = "".join(f"  ({each})" for each in _list_notes(case))
    yield f"{word}  {name}{padding}  {verdict_text(case.before)} → {verdict_text(case.after)}{reason}"
    for side, verdict in (("before", case.before), ("after", case.after)):
        if verdict is not None and verdict.has_missing_samples:
            yield f"    {side}: {PARTLY_JUDGED}"
    for score in case.changed_scores:
        yield f"    {redacted_line(score.name)}  {score_change_text(score)}"
    if case.has_changed_input:
        yield f"    {INPUT_CHANGED}"
    elif case.has_changed_scoring:
        yield f"    {SCORING_CHANGED}"


def _list_notes(case: ComparedCase) -> list[str]:
    return [*([case.reason] if case.reason else []), *(["in quarantine"] if case.is_in_quarantine else [])]


def _metric_lines(comparison: RunComparison) -> Iterator[str]:
    names = [redacted_line(name) for name in comparison.metrics]
    width = max(map(cell_length, names))
    for name, (metric, test) in zip(names, comparison.metrics.items(), strict=True):
        before, after = format_mean(metric, test.before), format_mean(metric, test.after)
        yield (
            f"{name}{' ' * (width - cell_length(name))}  mean {before} → {after} "
            f"({format_mean(metric, test.difference, sign='+')})  over {pluralise(test.cases, 'case')} of both: "
            f"{explain_scores(test, metric)}"
        )


def _run_record(run: StoredRun) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "started_at": run.started_at.isoformat(),
        "duration_seconds": run.duration_seconds,
        "interrupted": run.interrupted or not run.ended,
        "summary": summary_record(run.summary),
    }


def _case_record(case: ComparedCase) -> dict[str, Any]:
    return {
        **case.case.model_dump(),
        "change": case.change.name.lower(),
        "reason": case.reason or None,
        "in_quarantine": case.is_in_quarantine,
        "asks_otherwise": case.has_changed_input,
        "judged_otherwise": case.has_changed_scoring,
        "before": _verdict_record(case.before),
        "after": _verdict_record(case.after),
    }


def _verdict_record(verdict: RunVerdict | None) -> dict[str, Any] | None:
    if verdict is None:
        return None
    return {
        "status": verdict.status.value,
        "repeats": [status.value for status in verdict.statuses],
        "scores": dict(verdict.scores),
        "partly_judged": verdict.has_missing_samples,
        "duration_seconds": verdict.duration_seconds,
        "agent_seconds": verdict.agent_seconds,
    }
