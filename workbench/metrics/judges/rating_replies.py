"""Reading what judges reply that rate by a rubric, or choose between two responses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from workbench.metrics.definition import Opinion
from workbench.metrics.judges.replies import as_text, json_objects, plain_words, unread
from workbench.metrics.options import is_number

_RATING_KEYS = ("score", "rating", "verdict")
_CHOICE_KEYS = ("pairwise choice", "choice", "preference", "winner", "verdict")
_CHOICES = {
    "a": frozenset({"a", "response a", "baseline"}),
    "b": frozenset({"b", "response b", "candidate"}),
    "same": frozenset({"same", "tie", "equal", "both", "neither"}),
}
_CHOSEN = re.compile(r"\b(?:pairwise[_ ]choice|choice|preference|winner)\b\W{0,8}([^\n,.;}\])]+)", re.I)
_RATED = re.compile(r"\b(?:score|rating)\b\W{0,8}?(-?\d+(?:\.\d+)?)", re.I)
_WHOLE_NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)(?:\s*(?:/|out of)\s*\d+)?")


def read_rating(reply: str, *, ratings: Sequence[float] | None) -> Opinion:
    """A number, with the explanation; of `ratings` one, where only these may be given."""
    wanted = "a rating" if ratings is None else f"one of the ratings {', '.join(f'{each:g}' for each in ratings)}"
    for found in json_objects(reply):
        values = {plain_words(key): value for key, value in found.items()}
        given = [_number(values[key]) for key in _RATING_KEYS if key in values]
        score = next((number for number in given if number is not None), None)
        if given and score is None:  # what stands there is no number, and parts of it are none either
            return Opinion(problem=unread(reply, wanted))
        if score is not None:
            return _rating(score, _explanation(values), ratings, reply=reply, wanted=wanted)
    told = {number for match in _RATED.finditer(reply) if (number := _number(match[1])) is not None}
    if len(told) == 1:
        return _rating(told.pop(), reply.strip(), ratings, reply=reply, wanted=wanted)
    whole = _number(reply)
    if whole is not None:
        return _rating(whole, "", ratings, reply=reply, wanted=wanted)
    return Opinion(problem=unread(reply, wanted))


def read_choice(reply: str, *, flipped: bool) -> Opinion:
    """Which of two responses is better: CANDIDATE (1), BASELINE (0) or TIE (0.5).

    The reply speaks of A, the response that stood first, and B; `flipped`: A was the candidate.
    """
    for found in json_objects(reply):
        values = {plain_words(key): value for key, value in found.items()}
        choice = next((_choice(values[key]) for key in _CHOICE_KEYS if key in values), None)
        if choice is not None:
            return _chosen(choice, _explanation(values), flipped=flipped)
    told = {choice for match in _CHOSEN.finditer(reply) if (choice := _choice(match[1])) is not None}
    if len(told) == 1:
        return _chosen(told.pop(), reply.strip(), flipped=flipped)
    whole = _choice(reply)
    if whole is not None:
        return _chosen(whole, "", flipped=flipped)
    return Opinion(problem=unread(reply, "the choice A, B or SAME"))


def _rating(score: float, why: str, ratings: Sequence[float] | None, *, reply: str, wanted: str) -> Opinion:
    if ratings is not None and score not in ratings:
        return Opinion(problem=unread(reply, wanted))
    return Opinion(score, why)


def _chosen(choice: str, why: str, *, flipped: bool) -> Opinion:
    if choice == "same":
        return Opinion(0.5, why, label="TIE")
    is_candidate = (choice == "a") == flipped
    return Opinion(1.0, why, label="CANDIDATE") if is_candidate else Opinion(0.0, why, label="BASELINE")


def _choice(value: Any) -> str | None:
    word = plain_words(value) if isinstance(value, str) else ""
    return next((choice for choice, words in _CHOICES.items() if word in words), None)


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        match = _WHOLE_NUMBER.fullmatch(value.strip().strip("*_`\"'."))
        value = None if match is None else float(match[1])
    try:
        return float(value) if is_number(value) else None
    except OverflowError:  # an integer of hundreds of digits
        return None


def _explanation(values: Mapping[str, Any]) -> str:
    return next((as_text(values[key]) for key in ("explanation", "rationale", "reasoning") if values.get(key)), "")
