"""What a judge model said, in lines for people: the verdicts that cost points, each with its reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from workbench.model.agreement import agreement_of, is_unsure
from workbench.model.results import (
    InvocationScore,
    Judgement,
    JudgeSample,
    MetricResult,
    MetricStatus,
    RubricScore,
    SentenceScore,
    were_asked_of_models,
)
from workbench.model.text import one_line


def judging_lines(metric: MetricResult) -> Iterator[str]:
    """For each turn that lost points: what of it cost them, else how the samples voted, and why.

    What models said stands in these lines as it is: whoever shows them makes it safe.
    """
    for place, turn in _placed_turns(metric):
        yield from (f"{place}{line}" for line in _turn_lines(turn))


def failed_judging_lines(metrics: Sequence[MetricResult]) -> Iterator[str]:
    """Those lines for each metric that failed; of several metrics that models judged each line names its own."""
    judged = [metric for metric in metrics if were_asked_of_models([metric])]
    for metric in judged:
        name = f"{metric.name}: " if len(judged) > 1 else ""
        if metric.status is MetricStatus.FAILED:
            yield from (f"{name}{line}" for line in judging_lines(metric))


def sample_lines(metric: MetricResult) -> Iterator[str]:
    """What each sample of a judge said about each turn; nothing where no model judged."""
    for place, turn in _placed_turns(metric):
        if turn.judgement is not None:
            yield f"{metric.name}: {place}samples of {turn.judgement.model}:"
            for number, sample in enumerate(turn.judgement.samples, start=1):
                yield f"sample {number}: {_sample_text(sample)}"


def _sample_text(sample: JudgeSample) -> str:
    source = " (by a script)" if sample.scripted else " (cached)" if sample.cached else ""
    if sample.problem is not None:
        return f"no verdict{source}: {sample.problem}"
    verdict = sample.label or ("" if sample.score is None else f"{sample.score:.3g}")
    said = sample.rationale or sample.reply  # on several rubrics there is no rationale of the whole
    return f"{verdict or 'on parts'}{source}: {said}"


def unsure_text(metric: MetricResult) -> str | None:
    """How far the samples of a judge agree on each turn, where they do not: `own: turn 2: 3 of 5 samples agree`."""
    if not is_unsure(metric):
        return None
    told = (
        f"{place}{agreement_text(turn.judgement)}"
        for place, turn in _placed_turns(metric)
        if turn.judgement is not None and (found := agreement_of(turn.judgement)) is not None and found.share < 1.0
    )
    return f"{metric.name}: {'; '.join(told)}"


def samples_text(metric: MetricResult) -> str | None:
    """How many samples a verdict rests on, if some are missing: `judged by 2 of 3 samples in turn 2`."""
    count = metric.missing_samples
    if count is None:
        return None
    place = f" in turn {count.turn}" if len(metric.per_invocation) > 1 else ""
    return f"judged by {count.read} of {count.asked} samples{place}"


def missing_samples_lines(metrics: Iterable[MetricResult]) -> list[str]:
    """A line for each metric that lacks samples: `own: judged by 2 of 3 samples`."""
    texts = ((metric.name, samples_text(metric)) for metric in metrics)
    return [f"{one_line(name)}: {text}" for name, text in texts if text is not None]


def agreement_text(judgement: Judgement) -> str:
    """How far the samples agree: `4 of 5 samples agree`, the verdicts on parts, of grades the spread."""
    agreement = agreement_of(judgement)
    if agreement is None:
        return "one opinion, with which nobody could agree"
    what = "samples"
    if judgement.rubrics or judgement.sentences:
        what = f"verdicts on {'rubrics' if judgement.rubrics else 'sentences'}"
    spread = "" if agreement.spread is None else f", ±{agreement.spread:.2g}"
    return f"{round(agreement.share * agreement.votes)} of {agreement.votes} {what} agree{spread}"


def _placed_turns(metric: MetricResult) -> Iterator[tuple[str, InvocationScore]]:
    """The turns, each with what to call it where there are several."""
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
        yield f"{votes_text(judgement)}: {reason_of(judgement, turn.score)}"


def rubric_text(rubric: RubricScore) -> str:
    """A rubric with how the samples voted and why: `polite: 1 of 5 say yes: It shouts.`"""
    why = f": {rubric.rationale}" if rubric.rationale else ""
    return f"{rubric.rubric_id} ({rubric.text}): {rubric.yes} of {rubric.yes + rubric.no} say yes{why}"


def sentence_text(sentence: SentenceScore) -> str:
    """A sentence with its label, how many samples gave it, and why: `“It is free.”: unsupported (4 of 5): Not told.`"""
    label = sentence.label or ""
    why = f": {sentence.rationale}" if sentence.rationale else ""
    evidence = f" [{sentence.evidence}]" if sentence.evidence else ""
    votes = f"{sentence.votes.get(label, 0)} of {sum(sentence.votes.values())}"
    return f"“{sentence.sentence}”: {label.replace('_', ' ')} ({votes}){why}{evidence}"


def votes_text(judgement: Judgement) -> str:
    """How the samples voted, by the names of what they said where it has names, or what they gave as grades."""
    scores = [sample.score for sample in judgement.samples if sample.score is not None]
    unread = len(judgement.samples) - len(scores)
    left_out = f" ({unread} gave no verdict)" if unread else ""
    labels = Counter(sample.label for sample in judgement.samples if sample.label)
    if labels:
        said = (f"{count} {'says' if count == 1 else 'say'} {label}" for label, count in labels.most_common())
        return f"the judge: {', '.join(said)}{left_out}"
    if judgement.best != 1.0:
        best = "" if judgement.best is None else f" of {judgement.best:g}"
        return f"the judge: {', '.join(f'{score:g}' for score in scores)}{best}{left_out}"
    return f"the judge: {sum(score == 1.0 for score in scores)} of {len(scores)} approve{left_out}"


def reason_of(judgement: Judgement, score: float) -> str:
    """That of the first sample whose own score is nearest to the score."""
    reasons = [(abs(each.score - score), each.rationale) for each in judgement.samples if each.score is not None]
    return min((pair for pair in reasons if pair[1]), key=lambda pair: pair[0], default=(0.0, "no reason"))[1]
