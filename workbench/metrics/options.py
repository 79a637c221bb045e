"""Reading the options of a criterion: every mistake is kept with its place, none is passed over in silence."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard

from pydantic.alias_generators import to_camel

from workbench.model.criteria import Criterion, InvalidConfig

# Options that ADK's own criterion type allows on every metric; they change nothing in those that use no judge.
TOLERATED = ("include_intermediate_responses_in_final", "judge_model_options")

THRESHOLD = "threshold"


def misspelt_threshold(criterion: Criterion) -> list[InvalidConfig]:
    """A problem where an option of a custom metric, which may have any, is all but called `threshold`.

    Without its threshold the metric could not fail, and nobody would see why.
    """
    if criterion.threshold is not None:
        return []
    return [
        InvalidConfig(
            place=f"criteria.{criterion.metric}.{name}",
            found=f"the unknown option {name!r} ({describe(value)})",
            expected=f"{THRESHOLD!r} (did you mean that?)",
        )
        for name, value in criterion.options.items()
        if difflib.get_close_matches(name.casefold(), [THRESHOLD], n=1, cutoff=0.8)
    ]


def threshold_out_of_range(criterion: Criterion, lowest: Any, highest: Any) -> list[InvalidConfig]:
    """A problem for a threshold that no score of the metric reaches, or a negative one that every score reaches.

    `lowest` and `highest` bound the scores; a value that is no number does not. A threshold from 0 up to the lowest
    grade of a metric such as 1 to 5 is allowed.
    """
    threshold = criterion.threshold
    if threshold is None:
        return []
    above = highest if is_number(highest) else math.inf
    below = min(lowest, 0.0) if is_number(lowest) else -math.inf
    if below <= threshold <= above:
        return []
    expected = f"a number of at least {below:g}" if math.isinf(above) else f"a number of at most {above:g}"
    if not math.isinf(above) and not math.isinf(below):
        expected = f"a number from {lowest:g} to {above:g}, the range of the metric"
    place = f"criteria.{criterion.metric}.{THRESHOLD}"
    return [InvalidConfig(place=place, found=f"the threshold {threshold:.10g}", expected=expected)]


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` was most likely meant to be, or None where none is close."""
    folded = {candidate.casefold(): candidate for candidate in known}
    matches = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    return folded[matches[0]] if matches else None


def describe(value: Any) -> str:
    """What a value is, short enough for a message: its kind for objects and lists, else the value."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None:
        return "null"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


class Options:
    """The options of one criterion, read by name in either key style.

    A wrong value becomes a problem and reads as its default, so that one reading finds all problems. Options that
    nobody has read by the time `finish` is called are problems too. `judge` is the model that judges where the
    criterion names none; empty where that is not known yet.
    """

    def __init__(self, criterion: Criterion, *, judge: str = "") -> None:
        self.metric = criterion.metric
        self.judge = judge
        self.place = f"criteria.{criterion.metric}"
        self.problems: list[InvalidConfig] = []
        self._values = criterion.options
        self._read: set[str] = set(TOLERATED)

    def refuse(self, place: str, *, found: str, expected: str) -> None:
        """Keep a problem; `place` is relative to the criterion."""
        self.problems.append(InvalidConfig(place=f"{self.place}.{place}", found=found, expected=expected))

    def raw(self, name: str) -> Any:
        """The value as written, None where there is none."""
        self._read.add(name)
        return self._values.get(name, self._values.get(to_camel(name)))

    def given(self, *names: str) -> dict[str, Any]:
        """Those of these options that are there, as written: for the details of a result."""
        return {name: value for name in names if (value := self.raw(name)) is not None}

    def flag(self, name: str, *, default: bool = False) -> bool:
        """A boolean, the default where there is none."""
        value = self.raw(name)
        if isinstance(value, bool):
            return value
        if value is not None:
            self.refuse(name, found=describe(value), expected="true or false")
        return default

    def choice(self, name: str, choices: Sequence[str], *, default: str) -> str:
        """One of some words, compared without regard to case."""
        value = self.raw(name)
        if value is None:
            return default
        if isinstance(value, str) and value.strip().casefold() in choices:
            return value.strip().casefold()
        self.refuse(name, found=describe(value), expected=f"one of {', '.join(choices)}")
        return default

    def names(self, name: str) -> tuple[str, ...]:
        """A list of texts, or a single one; empty where there is none."""
        value = self.raw(name)
        if value is None:
            return ()
        values = [value] if isinstance(value, str) else value
        if isinstance(values, list | tuple) and all(isinstance(item, str) and item for item in values):
            return tuple(dict.fromkeys(values))
        self.refuse(name, found=describe(value), expected="a name or a list of names")
        return ()

    def finish(self) -> list[InvalidConfig]:
        """All problems, with one for each option that this metric does not have."""
        readable = self._read | {to_camel(name) for name in self._read}
        own = sorted({*self._read.difference(TOLERATED), THRESHOLD})
        for name, value in self._values.items():
            if name in readable:
                continue
            guess = nearest(name, own)
            hint = f"{guess!r} (did you mean that?)" if guess else f"one of {', '.join(own)}"
            self.refuse(name, found=f"the unknown option {name!r} ({describe(value)})", expected=hint)
        return self.problems


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether a JSON value is a finite number; a boolean is none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
