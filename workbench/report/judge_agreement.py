"""Agreement of several judgements of the same answers, for each criterion, as text and as JSON.

The compared verdicts are those on each rubric, or else on each turn: whether its score reaches the threshold, or the
rounded score if there is no threshold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, NamedTuple

from workbench.model.identity import CaseKey
from workbench.model.results import (
    CaseResult,
    MetricResult,
    MetricStatus,
    cohen_kappa,
    fleiss_kappa,
    has_judgements,
    observed_agreement,
)
from workbench.model.text import one_line, pluralise
from workbench.report.report_formats import SCHEMA_VERSION
from workbench.report.run_report import PARTLY_JUDGED, name_repeat
from workbench.report.significance import Interval, bootstrap_statistic, format_interval

_ONE_VERDICT = "all verdicts are equal, so kappa is undefined"


class Judgements(NamedTuple):
    """The ids and results of the runs that judged the same answers. The first run is the original one."""

    run_ids: Sequence[str]
    results: Sequence[Sequence[CaseResult]]


@dataclass(frozen=True, kw_only=True)
class Flip:
    """One repeat of a case with different verdicts. `verdicts` are in the order of the judgements."""

    case: CaseKey
    repeat: int
    verdicts: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class CriterionAgreement:
    """The agreement of judgements for one criterion.

    `compared` counts the verdicts of all judgements, `unjudged` those that are missing in one of them. `agreement` is
    the share of agreeing pairs of judgements, `kappa` the agreement beyond chance: Cohen's for two judgements, Fleiss'
    for more. Both are None if they are undefined; their 95 % intervals also for fewer than 10 cases. `spread` is the
    mean standard deviation of the scores of a turn. `partly_judged` counts the verdicts with missing samples.
    """

    metric: str
    judgements: int
    compared: int
    unjudged: int
    agreement: float | None
    agreement_interval: Interval | None
    kappa: float | None
    kappa_interval: Interval | None
    spread: float | None
    partly_judged: int
    flips: Sequence[Flip]

    @property
    def kappa_name(self) -> str:
        return "Cohen" if self.judgements == 2 else "Fleiss"

    @property
    def no_kappa_reason(self) -> str | None:
        """Why kappa is undefined; None if it is defined."""
        if self.kappa is not None:
            return None
        return _ONE_VERDICT if self.compared else "no verdict is in every judgement"


def compute_agreements(judgements: Judgements) -> list[CriterionAgreement]:
    """Compute the agreement for each criterion with a judge model that all judgements have."""
    by_job = [{(result.case, result.repeat): result for result in results} for results in judgements.results]
    jobs = [job for job in by_job[0] if all(job in results for results in by_job)]
    names = dict.fromkeys(
        metric.name
        for results in judgements.results
        for result in results
        for metric in result.metrics
        if has_judgements([metric])
    )
    agreements = []
    for name in names:
        rows = [(job, [_find_metric(results[job], name) for results in by_job]) for job in jobs]
        complete = [(job, row) for job, row in rows if all(metric is not None for metric in row)]
        if complete:
            agreements.append(
                _compute_agreement(name, [(job, [m for m in row if m is not None]) for job, row in complete])
            )
    return agreements


def _compute_agreement(
    name: str, rows: Sequence[tuple[tuple[CaseKey, int], Sequence[MetricResult]]]
) -> CriterionAgreement:
    items: dict[CaseKey, list[tuple[str, ...]]] = {}
    deviations: list[float] = []
    flips: list[Flip] = []
    unjudged = 0
    for (case, repeat), metrics in rows:
        sides = [dict(_list_verdicts(metric)) for metric in metrics]
        for place in dict.fromkeys(place for side in sides for place in side):
            verdicts = tuple(verdict for side in sides if (verdict := side.get(place)) is not None)
            if len(verdicts) == len(sides):
                items.setdefault(case, []).append(verdicts)
            else:
                unjudged += 1
        deviations += _list_deviations(metrics)
        outcomes = [_classify_result(metric) for metric in metrics]
        if len({outcome for outcome in outcomes if outcome != MetricStatus.ERROR.value}) > 1:  # an ERROR is no verdict
            flips.append(Flip(case=case, repeat=repeat, verdicts=outcomes))
    judgements = len(rows[0][1])
    compared = [item for of_case in items.values() for item in of_case]
    kappa = cohen_kappa if judgements == 2 else fleiss_kappa
    return CriterionAgreement(
        metric=name,
        judgements=judgements,
        compared=len(compared),
        unjudged=unjudged,
        agreement=observed_agreement(compared),
        agreement_interval=bootstrap_statistic([*items.values()], observed_agreement),
        kappa=kappa(compared),
        kappa_interval=bootstrap_statistic([*items.values()], kappa),
        spread=fmean(deviations) if deviations else None,
        partly_judged=sum(metric.missing_samples is not None for _, metrics in rows for metric in metrics),
        flips=flips,
    )


def _list_verdicts(metric: MetricResult) -> Iterator[tuple[tuple[int, str | None], str | None]]:
    """Yield the verdicts of a judge by turn and rubric; None if it has none."""
    for number, turn in enumerate(metric.per_invocation):
        if turn.judgement is None:
            continue
        for rubric in turn.judgement.rubrics:
            is_judged = rubric.score is not None and turn.score is not None
            yield (number, rubric.rubric_id), ("yes" if rubric.score else "no") if is_judged else None
        if not turn.judgement.rubrics:
            yield (number, None), None if turn.score is None else _classify_score(turn.score, metric.threshold)


def _classify_score(score: float, threshold: float | None) -> str:
    if threshold is None:
        return f"{round(score)}"
    return "passes" if score >= threshold else "fails"


def _classify_result(metric: MetricResult) -> str:
    if metric.status is not MetricStatus.INFORMATIONAL or metric.score is None:
        return metric.status.value
    return _classify_score(metric.score, None)


def _list_deviations(metrics: Sequence[MetricResult]) -> Iterator[float]:
    """Yield the standard deviation of the scores of each turn that all judgements scored."""
    for turns in zip(*(metric.per_invocation for metric in metrics), strict=False):
        scores = [turn.score for turn in turns if turn.score is not None and turn.judgement is not None]
        if len(scores) == len(metrics) > 1:
            yield stdev(scores)


def _find_metric(result: CaseResult, name: str) -> MetricResult | None:
    return next((metric for metric in result.metrics if metric.name == name), None)


def agreement_lines(judgements: Judgements, agreements: Sequence[CriterionAgreement]) -> Iterator[str]:
    yield f"{pluralise(len(judgements.run_ids), 'judgement')} of the same answers: {', '.join(judgements.run_ids)}"
    for agreement in agreements:
        yield ""
        yield one_line(agreement.metric)
        share = _percent(agreement.agreement) + format_interval(agreement.agreement_interval, ".0%")
        yield f"  agreement  {share} of {pluralise(agreement.compared, 'verdict')}{_unjudged_text(agreement)}"
        kappa = (
            agreement.no_kappa_reason if agreement.kappa is None else f"{agreement.kappa:.2f} ({agreement.kappa_name})"
        )
        yield f"  kappa      {kappa}{format_interval(agreement.kappa_interval, '.2f')}"
        if agreement.spread is not None:
            yield f"  spread     ±{agreement.spread:.2g} in the score of a turn between judgements"
        if agreement.partly_judged:
            yield f"  samples    {pluralise(agreement.partly_judged, 'verdict')} {PARTLY_JUDGED}"
        yield f"  flips      {pluralise(len(agreement.flips), 'case') if agreement.flips else 'none'}"
        for flip in agreement.flips:
            yield f"    {one_line(name_repeat(flip.case, flip.repeat))}: {', '.join(flip.verdicts)}"


def outcome_text(agreements: Sequence[CriterionAgreement]) -> str:
    """Return the agreement of two judgements, a line for each criterion."""
    lines = []
    for agreement in agreements:
        flips = "; ".join(", then ".join(flip.verdicts) for flip in agreement.flips)
        share = (
            "no verdict to compare"
            if agreement.agreement is None
            else f"{agreement.agreement:.0%} of the verdicts agree"
        )
        lines.append(one_line(f"{agreement.metric}: {share}{f' ({flips})' if flips else ''}"))
    return "\n".join(lines) or "no criterion used a judge before"


def agreement_record(judgements: Judgements, agreements: Sequence[CriterionAgreement]) -> Mapping[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": judgements.run_ids[0],
        "judgements": list(judgements.run_ids),
        "criteria": [
            {
                "name": agreement.metric,
                "compared": agreement.compared,
                "unjudged": agreement.unjudged,
                "agreement": agreement.agreement,
                "agreement_interval": agreement.agreement_interval,
                "kappa": agreement.kappa,
                "kappa_interval": agreement.kappa_interval,
                "kappa_of": agreement.kappa_name.lower(),
                "reason": agreement.no_kappa_reason,
                "spread": agreement.spread,
                "partly_judged": agreement.partly_judged,
                "flips": [
                    {
                        **flip.case.model_dump(),
                        "repeat": flip.repeat,
                        "verdicts": list(flip.verdicts),
                    }
                    for flip in agreement.flips
                ],
            }
            for agreement in agreements
        ],
    }


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _unjudged_text(agreement: CriterionAgreement) -> str:
    return f", {agreement.unjudged} more not in every judgement" if agreement.unjudged else ""
