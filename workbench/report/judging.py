"""What a judge model said, in lines for people: the verdicts that cost points, each with its reason."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.model.results import Judgement, MetricResult, RubricScore


def judging_lines(metric: MetricResult) -> Iterator[str]:
    """For each turn that lost points: the rubrics that it does not meet, else how the samples voted, and why.

    What models said stands in these lines as it is: whoever shows them makes it safe.
    """
    several = len(metric.per_invocation) > 1
    for number, turn in enumerate(metric.per_invocation, start=1):
        if turn.judgement is None or turn.score is None or turn.score >= 1.0:
            continue
        place = f"turn {number}: " if several else ""
        unmet = [rubric for rubric in turn.judgement.rubrics if rubric.score == 0.0]
        if unmet:
            yield from (f"{place}{rubric_text(rubric)}" for rubric in unmet)
        elif not turn.judgement.rubrics:
            yield f"{place}{votes_text(turn.judgement)}: {_reason_of_majority(turn.judgement, turn.score)}"


def rubric_text(rubric: RubricScore) -> str:
    """A rubric with how the samples voted and why: `polite: 1 of 5 say yes: It shouts.`"""
    why = f": {rubric.rationale}" if rubric.rationale else ""
    return f"{rubric.rubric_id} ({rubric.text}): {rubric.yes} of {rubric.yes + rubric.no} say yes{why}"


def votes_text(judgement: Judgement) -> str:
    """How the samples voted."""
    scores = [sample.score for sample in judgement.samples if sample.score is not None]
    unread = len(judgement.samples) - len(scores)
    left_out = f" ({unread} gave no verdict)" if unread else ""
    return f"the judge: {sum(score == 1.0 for score in scores)} of {len(scores)} say valid{left_out}"


def _reason_of_majority(judgement: Judgement, score: float) -> str:
    return next((each.rationale for each in judgement.samples if each.score == score and each.rationale), "no reason")
