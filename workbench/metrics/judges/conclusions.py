"""What the samples of a judge come to: votes by the majority, grades by their mean, parts of a whole one by one."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from workbench.metrics.definition import Conclusion, Opinion, SentenceLabel
from workbench.model.results import STANDING, RubricScore, SentenceScore


class Sentence(NamedTuple):
    """One sentence that the agent said, and in which of its responses in the turn, counted from 1."""

    text: str
    response: int


def majority(scores: Sequence[float | None]) -> float | None:
    """1 where more scores are 1 than 0, else 0, a tie included; None where there are none."""
    given = [score for score in scores if score is not None]
    return None if not given else 1.0 if sum(given) * 2 > len(given) else 0.0


def by_majority(opinions: Sequence[Opinion]) -> Conclusion:
    """Each sample is a vote."""
    return Conclusion(majority([opinion.score for opinion in opinions]))


def by_majority_of_two(opinions: Sequence[Opinion], *, low: float, high: float) -> Conclusion:
    """Each sample is a vote for one of two ratings; a tie is the lower one."""
    given = [opinion.score for opinion in opinions if opinion.score is not None]
    return Conclusion(None if not given else high if given.count(high) * 2 > len(given) else low)


def by_preference(opinions: Sequence[Opinion]) -> Conclusion:
    """1 where more samples prefer the candidate (1) than the baseline (0), 0 where fewer, else 0.5."""
    given = [opinion.score for opinion in opinions if opinion.score is not None]
    lead = given.count(1.0) - given.count(0.0)
    return Conclusion(None if not given else 1.0 if lead > 0 else 0.0 if lead < 0 else 0.5)


def by_mean(opinions: Sequence[Opinion]) -> Conclusion:
    """Each sample is a grade.

    The mean, not the median: one sample that is a grade off moves it by a fraction, where a median stays or jumps by a
    whole grade. That samples disagree is said by the spread.
    """
    return Conclusion(_mean([opinion.score for opinion in opinions]), spread=_spread(opinions))


def by_rubrics(opinions: Sequence[Opinion], *, rubrics: Mapping[str, str]) -> Conclusion:
    """The share of the rubrics (texts by id) that are met, each by its majority."""
    scores = tuple(_rubric(rubric_id, text, opinions) for rubric_id, text in rubrics.items())
    unsaid = [repr(rubric.rubric_id) for rubric in scores if rubric.score is None]
    if unsaid and any(opinion.problem is None for opinion in opinions):  # a score without them would be about less
        return Conclusion(None, f"no sample of the judge says anything about {', '.join(unsaid)}", rubrics=scores)
    return Conclusion(_mean([rubric.score for rubric in scores]), rubrics=scores)


def by_sentences(opinions: Sequence[Opinion], *, sentences: Mapping[int, Sentence]) -> Conclusion:
    """The share of the sentences (by number) that may stand, each by its majority; of several responses the mean."""
    labelled = {number: _sentence(number, sentence, opinions) for number, sentence in sentences.items()}
    scores = tuple(labelled.values())
    unsaid = [str(number) for number, score in labelled.items() if score.score is None]
    if unsaid:
        read = any(opinion.problem is None for opinion in opinions)
        reason = f"no sample of the judge says anything about the sentences {', '.join(unsaid)}" if read else None
        return Conclusion(None, reason, sentences=scores)
    shares = share_of_sentences({number: score.score for number, score in labelled.items()}, sentences)
    return Conclusion(shares, sentences=scores, spread=_spread(opinions))


def share_of_sentences(scores: Mapping[int, float | None], sentences: Mapping[int, Sentence]) -> float | None:
    """The mean over the responses of the share that may stand; None where a sentence has no score."""
    if any(scores.get(number) is None for number in sentences):
        return None
    responses: dict[int, list[float | None]] = {}
    for number, sentence in sentences.items():
        responses.setdefault(sentence.response, []).append(scores[number])
    return _mean([_mean(each) for each in responses.values()])


def _sentence(number: int, sentence: Sentence, opinions: Sequence[Opinion]) -> SentenceScore:
    said = [opinion.sentences[number] for opinion in opinions if number in opinion.sentences]
    score = majority([score_of_label(each.label) for each in said])
    chosen = _most_frequent([each for each in said if score_of_label(each.label) == score])
    return SentenceScore(
        sentence=sentence.text,
        response=sentence.response,
        score=score,
        label=chosen.label if chosen is not None else None,
        rationale=chosen.rationale if chosen is not None else "",
        evidence=chosen.evidence if chosen is not None else "",
        votes=dict(Counter(each.label for each in said)),
    )


def score_of_label(label: str) -> float:
    """1 for a sentence that may stand."""
    return 1.0 if label in STANDING else 0.0


def _most_frequent(said: Sequence[SentenceLabel]) -> SentenceLabel | None:
    """The first with the label that most have."""
    votes = Counter(each.label for each in said)
    return max(said, key=lambda each: votes[each.label], default=None)


def _rubric(rubric_id: str, text: str, opinions: Sequence[Opinion]) -> RubricScore:
    said = [opinion.rubrics.get(rubric_id, (None, "")) for opinion in opinions]
    score = majority([each for each, _ in said])
    return RubricScore(
        rubric_id=rubric_id,
        text=text,
        score=score,
        rationale=next((rationale for each, rationale in said if each is not None and each == score), ""),
        yes=sum(each == 1.0 for each, _ in said),
        no=sum(each == 0.0 for each, _ in said),
    )


def _mean(scores: Sequence[float | None]) -> float | None:
    given = [score for score in scores if score is not None]
    return sum(given) / len(given) if given else None


def _spread(opinions: Sequence[Opinion]) -> float | None:
    given = [opinion.score for opinion in opinions if opinion.score is not None]
    return statistics.stdev(given) if len(given) > 1 else None
