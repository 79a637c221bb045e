"""How far opinions agree: the samples of one judgement, several judgements, a judge and people.

Kappa is agreement beyond what chance would give: (observed - expected) / (1 - expected). Sources: J. Cohen, "A
coefficient of agreement for nominal scales", Educational and Psychological Measurement 20 (1960), 37-46, for two raters
with habits of their own; J. L. Fleiss, "Measuring nominal scale agreement among many raters", Psychological Bulletin
76 (1971), 378-382, for any number, all with the same habits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from workbench.model.results import STANDING, InvocationScore, Judgement, MetricResult, SentenceScore


class Agreement(NamedTuple):
    """The `share` of the votes of samples that say what most of them say; of grades also the `spread` (see Judgement).

    Of rubrics every verdict on each is a vote, of sentences whether each may stand.
    """

    share: float
    votes: int
    spread: float | None = None


def agreement_of(judgement: Judgement) -> Agreement | None:
    """How far the samples of a judgement agree; None where fewer than two say anything."""
    counts = _votes(judgement)
    votes = sum(sum(each) for each in counts)
    if not votes:
        return None
    share = sum(max(each) for each in counts) / votes
    return Agreement(share, votes, judgement.spread)


def is_unsure(metric: MetricResult) -> bool:
    """Whether samples of a judge disagree on a case: another draw of them may decide otherwise.

    Grades disagree where some would pass by themselves and others would not.
    """
    return any(_disagree(turn, metric.threshold) for turn in metric.per_invocation)


def cohen_kappa(pairs: Sequence[tuple[Hashable, Hashable]]) -> float | None:
    """Agreement of two raters beyond chance; None where there is nothing rated, or only one rating was ever given."""
    if not pairs:
        return None
    first, second = (Counter(side) for side in zip(*pairs, strict=True))
    observed = sum(one == other for one, other in pairs) / len(pairs)
    expected = sum(first[rating] * second[rating] for rating in first) / len(pairs) ** 2
    return _beyond_chance(observed, expected)


def weighted_kappa(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Agreement of two raters beyond chance where a larger difference weighs more: by its square.

    J. Cohen, "Weighted kappa", Psychological Bulletin 70 (1968), 213-220. None as for `cohen_kappa`.
    """
    if not pairs:
        return None
    first, second = (Counter(side) for side in zip(*pairs, strict=True))
    observed = sum((one - other) ** 2 for one, other in pairs) / len(pairs)
    by_chance = sum(
        (one - other) ** 2 * count * another for one, count in first.items() for other, another in second.items()
    )
    expected = by_chance / len(pairs) ** 2
    return None if expected == 0.0 else 1.0 - observed / expected


def fleiss_kappa(items: Sequence[Sequence[Hashable]]) -> float | None:
    """Agreement of several raters beyond chance; every item has a rating of each of them.

    None where there is nothing rated by two, or only one rating was ever given.
    """
    observed = observed_agreement(items)
    if observed is None:
        return None
    given = Counter(rating for item in items for rating in item)
    total = given.total()
    return _beyond_chance(observed, sum((count / total) ** 2 for count in given.values()))


def observed_agreement(items: Sequence[Sequence[Hashable]]) -> float | None:
    """The share of all pairs of raters that give an item the same rating, mean over the items; None without pairs."""
    raters = len(items[0]) if items else 0
    if raters < 2:
        return None
    same = [sum(count * (count - 1) for count in Counter(item).values()) for item in items]
    return sum(same) / (len(items) * raters * (raters - 1))


def _beyond_chance(observed: float, expected: float) -> float | None:
    # Where only one rating is ever given, chance explains everything: 0/0.
    return None if expected >= 1.0 else (observed - expected) / (1.0 - expected)


def _votes(judgement: Judgement) -> list[Sequence[int]]:
    """For each matter that at least two samples speak of how often each verdict was given."""
    if judgement.rubrics:
        counts: list[Sequence[int]] = [(rubric.yes, rubric.no) for rubric in judgement.rubrics]
    elif judgement.sentences:
        counts = [_stand_or_not(sentence) for sentence in judgement.sentences]
    else:
        counts = [tuple(Counter(_scores(judgement)).values())]
    return [each for each in counts if sum(each) > 1]


def _stand_or_not(sentence: SentenceScore) -> tuple[int, int]:
    standing = sum(count for label, count in sentence.votes.items() if label in STANDING)
    return standing, sum(sentence.votes.values()) - standing


def _scores(judgement: Judgement) -> list[float]:
    return [sample.score for sample in judgement.samples if sample.score is not None]


def _disagree(turn: InvocationScore, threshold: float | None) -> bool:
    judgement = turn.judgement
    if judgement is None or turn.score is None:
        return False
    if judgement.spread is not None and threshold is not None:
        return len({score >= threshold for score in _scores(judgement)}) > 1
    return any(max(each) < sum(each) for each in _votes(judgement))
