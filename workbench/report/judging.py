"""What a judge model said, in lines for people: the verdicts that cost points, each with its reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from workbench.model.agreement import agreement_of, is_unsure
from workbench.model.results import InvocationScore, Judgement, MetricResult, RubricScore


def judging_lines(metric: MetricResult) -> Iterator[str]:
    """For each turn that lost points: the rubrics that it does not meet, else how the samples voted, and why.

    What models said stands in these lines as it is: whoever shows them makes it safe.
    """
    for place, turn, judgement in _judged_turns(metric):
        if turn.score is None or not _lost_points(turn.score, judgement, metric.threshold):
            continue
        unmet = [rubric for rubric in judgement.rubrics if rubric.score == 0.0]
        if unmet:
            yield from (f"{place}{rubric_text(rubric)}" for rubric in unmet)
        elif not judgement.rubrics:
            yield f"{place}{votes_text(judgement)}: {_reason_nearest(judgement, turn.score)}"


def unsure_text(metric: MetricResult) -> str | None:
    """How far the samples of a judge agree on each turn, where they do not: `own: turn 2: 3 of 5 samples agree`."""
    if not is_unsure(metric):
        return None
    told = (
        f"{place}{agreement_text(judgement)}"
        for place, _, judgement in _judged_turns(metric)
        if (agreement := agreement_of(judgement)) is not None and agreement.share < 1.0
    )
    return f"{metric.name}: {'; '.join(told)}"


def agreement_text(judgement: Judgement) -> str:
    """How far the samples agree: `4 of 5 samples agree`, of rubrics their verdicts, of grades the spread, too."""
    agreement = agreement_of(judgement)
    if agreement is None:
        return "one opinion, with which nobody could agree"
    what = "verdicts on rubrics" if judgement.rubrics else "samples"
    spread = "" if agreement.spread is None else f", spread {agreement.spread:.2g}"
    return f"{round(agreement.share * agreement.votes)} of {agreement.votes} {what} agree{spread}"


def rubric_text(rubric: RubricScore) -> str:
    """A rubric with how the samples voted and why: `polite: 1 of 5 say yes: It shouts.`"""
    why = f": {rubric.rationale}" if rubric.rationale else ""
    return f"{rubric.rubric_id} ({rubric.text}): {rubric.yes} of {rubric.yes + rubric.no} say yes{why}"


def votes_text(judgement: Judgement) -> str:
    """How the samples voted: by the names of what they said, where it has names."""
    scores = [sample.score for sample in judgement.samples if sample.score is not None]
    unread = len(judgement.samples) - len(scores)
    left_out = f" ({unread} gave no verdict)" if unread else ""
    labels = Counter(sample.label for sample in judgement.samples if sample.label)
    if labels:
        said = (f"{count} {'says' if count == 1 else 'say'} {label}" for label, count in labels.most_common())
        return f"the judge: {', '.join(said)}{left_out}"
    return f"the judge: {sum(score == 1.0 for score in scores)} of {len(scores)} say valid{left_out}"


def _judged_turns(metric: MetricResult) -> Iterator[tuple[str, InvocationScore, Judgement]]:
    """The turns on which a model was asked, each with what to call it where there are several."""
    several = len(metric.per_invocation) > 1
    for number, turn in enumerate(metric.per_invocation, start=1):
        if turn.judgement is not None:
            yield f"turn {number}: " if several else "", turn, turn.judgement


def _lost_points(score: float, judgement: Judgement, threshold: float | None) -> bool:
    """Votes lose points below the best there is, grades below what is enough."""
    is_grade = judgement.spread is not None or judgement.best != 1.0
    enough = threshold if is_grade and threshold is not None else judgement.best
    return enough is not None and score < enough


def _reason_nearest(judgement: Judgement, score: float) -> str:
    """The rationale of the sample that comes nearest to what all of them come to."""
    told = [(abs(each.score - score), each.rationale) for each in judgement.samples if each.score is not None]
    return min(((far, why) for far, why in told if why), default=(0.0, "no reason"), key=lambda item: item[0])[1]
