"""What people say in labels: a verdict, a choice, or a rating, held against what the judge of a criterion can say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from workbench.model.results import Judgement
from workbench.store.datasets.labels import Label, LabelValue

Kind = Literal["verdict", "choice", "rating"]

PASS, FAIL = "pass", "fail"
_VERDICTS = {
    **dict.fromkeys(("pass", "passed", "passes", "valid", "yes", "true", "good", "correct", "ok", "safe"), PASS),
    **dict.fromkeys(("fail", "failed", "fails", "invalid", "no", "false", "bad", "incorrect", "unsafe"), FAIL),
}
_CHOICES = {"baseline": 0.0, "tie": 0.5, "same": 0.5, "candidate": 1.0}
NAMES_OF_CHOICES = {0.0: "BASELINE", 0.5: "TIE", 1.0: "CANDIDATE"}


class Bounds(NamedTuple):
    """The lowest and the highest score that a judge can give; None: there is no such bound."""

    lowest: float | None
    highest: float | None

    def hold(self, score: float) -> bool:
        """Whether it can give this score."""
        is_low = self.lowest is not None and score < self.lowest
        return not is_low and (self.highest is None or score <= self.highest)

    def __str__(self) -> str:
        """Such as `from 1 to 5`."""
        low = "" if self.lowest is None else f"from {self.lowest:g}"
        high = "" if self.highest is None else f"{' ' if low else 'up '}to {self.highest:g}"
        return f"{low}{high}"


def bounds_of(judgements: Sequence[Judgement]) -> Bounds:
    """The lowest and the highest score that these judges could give."""
    lows, highs = [each.lowest for each in judgements], [each.best for each in judgements]
    return Bounds(
        None if None in lows else min(low for low in lows if low is not None),
        None if None in highs else max(high for high in highs if high is not None),
    )


def kind_of_labels(labels: Sequence[Label], bounds: Bounds) -> Kind:
    """What the labels of a criterion are, by the first word that is known, else by the numbers that it can give."""
    words = [label.label.casefold() for label in labels if isinstance(label.label, str)]
    known = next((word for word in words if word in _VERDICTS or word in _CHOICES), None)
    if known is not None:
        return "choice" if known in _CHOICES else "verdict"
    numbers = {label.label for label in labels if isinstance(label.label, float) and bounds.hold(label.label)}
    return "rating" if bounds.highest != 1.0 or not numbers <= {0.0, 1.0} else "verdict"


def what_was_expected(value: LabelValue, kind: Kind, bounds: Bounds, *, name: str) -> str | None:
    """What a label should be where it is something that its criterion cannot say; None where it is right."""
    others = "like the other labels of this criterion"
    if kind == "rating":
        if isinstance(value, str):
            return f"a number, {others}"
        return None if bounds.hold(value) else f"a rating {bounds}, as {name} gives them"
    word = value.casefold() if isinstance(value, str) else None
    if word is not None and word not in _VERDICTS and word not in _CHOICES:
        return f"a number, or one of {', '.join((*_VERDICTS, *_CHOICES))}"
    if kind == "choice":
        return None if word in _CHOICES else f"CANDIDATE, BASELINE or TIE, {others}"
    if word in _VERDICTS or value in (0.0, 1.0):
        return None
    return f"pass or fail, {others}" if bounds.highest != 1.0 else f"pass or fail (also 1 or 0), as {name} gives them"


def said_by(value: LabelValue, kind: Kind) -> str:
    """A label that is as expected, as the classes have it."""
    if isinstance(value, str):
        word = value.casefold()
        return NAMES_OF_CHOICES[_CHOICES[word]] if word in _CHOICES else _VERDICTS[word]
    if kind == "verdict":
        return PASS if value else FAIL
    return f"{value:g}"


def shown_value(value: LabelValue) -> str:
    """A label as messages show it."""
    return repr(value) if isinstance(value, str) else f"{value:g}"
