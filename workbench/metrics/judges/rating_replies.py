"""Reading what judges reply that rate by a rubric, or choose between two responses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from workbench.metrics.definition import Opinion
from workbench.metrics.judges.replies import (
    EXPLAINED,
    LIKE_JSON,
    as_text,
    by_plain_key,
    find_labels,
    split_json,
    unread,
)
from workbench.metrics.judges.verdict_words import VerdictWords
from workbench.metrics.options import is_number

_RATING_KEYS = ("score", "rating", "verdict")
_CHOICE_KEYS = ("pairwise choice", "choice", "preference", "winner", "verdict")
_CHOICES = VerdictWords(
    {
        **dict.fromkeys(("a", "response a", "baseline"), "a"),
        **dict.fromkeys(("b", "response b", "candidate"), "b"),
        **dict.fromkeys(("same", "tie", "a tie", "equal", "both", "neither"), "same"),
    }
)
_CHOSEN = re.compile(
    r"\b(?P<key>pairwise[_ ]choice|choice|preference|winner)\b[\s\"'*_`]{0,8}(?:(?P<sign>[:=：])|is\b)\W{0,8}"
    r"(?=(?P<text>[^\n]{0,200}))",
    re.IGNORECASE,
)
_RATED = re.compile(r"\b(?P<key>score|rating)\b\W{0,8}?(?=(?P<text>-?\d[^\n]{0,200}))", re.IGNORECASE)
_NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)(?:\s*(?:/|of|out of)\s*\d+)?" + EXPLAINED, re.DOTALL)


def read_rating(reply: str, *, ratings: Sequence[float] | None) -> Opinion:
    """A number, with the explanation; of `ratings` one, where only these may be given. Two are no opinion."""
    wanted = "a rating" if ratings is None else f"one of the ratings {', '.join(f'{each:g}' for each in ratings)}"
    found, text = split_json(reply)
    said: set[float | None] = set()
    explanation = ""
    for values in map(by_plain_key, found):
        given = {_number(values[key]) for key in _RATING_KEYS if key in values}
        if given:
            said |= given - {None} or {None}  # the value is no number, so no part of it is read as one
            explanation = explanation or _explanation(values)
    if not said:
        said = {_number(match["text"]) for match in find_labels(_RATED, text)} or {_number(reply)}
        explanation = reply.strip()
    if len(said) == 1 and (score := said.pop()) is not None and (ratings is None or score in ratings):
        return Opinion(score, explanation)
    return Opinion(problem=unread(reply, wanted))


def read_choice(reply: str, *, flipped: bool) -> Opinion:
    """Which of two responses is better: CANDIDATE (1), BASELINE (0) or TIE (0.5). Two choices are no opinion.

    The reply speaks of A, the response that stood first, and B; `flipped`: A was the candidate.
    """
    found, text = split_json(reply)
    said: set[str | None] = set()
    explanation = ""
    for values in map(by_plain_key, found):
        choices = {_choice(values[key]) for key in _CHOICE_KEYS if key in values} - {None}
        if choices:
            said |= choices
            explanation = explanation or _explanation(values)
    if not said:
        chosen = {(_CHOICES.find_leading(match["text"]), bool(match["sign"])) for match in find_labels(_CHOSEN, text)}
        said = {choice for choice, is_labelled in chosen if choice is not None or is_labelled}
        explanation = reply.strip()
    if not said and not LIKE_JSON.search(reply):
        said = {_CHOICES.find(reply)}
    if len(said) == 1 and (choice := said.pop()) is not None:
        return _chosen(choice, explanation, flipped=flipped)
    return Opinion(problem=unread(reply, "the choice A, B or SAME"))


def _chosen(choice: str, why: str, *, flipped: bool) -> Opinion:
    if choice == "same":
        return Opinion(0.5, why, label="TIE")
    is_candidate = (choice == "a") == flipped
    return Opinion(1.0, why, label="CANDIDATE") if is_candidate else Opinion(0.0, why, label="BASELINE")


def _choice(value: Any) -> str | None:
    return _CHOICES.find(value) if isinstance(value, str) else None


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        match = _NUMBER.fullmatch(value.strip().strip("*_`\"'.,}"))
        value = None if match is None else float(match[1])
    try:
        return float(value) if is_number(value) else None
    except OverflowError:  # an integer of hundreds of digits
        return None


def _explanation(values: Mapping[str, Any]) -> str:
    return next((as_text(values[key]) for key in ("explanation", "rationale", "reasoning") if values.get(key)), "")
