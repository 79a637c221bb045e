"""Reading a verdict out of a short text: the word that leads it, whatever decorates, introduces or explains that word.

A text that says two things is no verdict, nor is one whose first word may belong to a sentence ("no violations found").
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import cached_property
from typing import Generic, TypeVar

Verdict = TypeVar("Verdict")

_UNAMBIGUOUS = frozenset({"yes", "not applicable", "n/a", "na"})
"""These are verdicts whatever follows. Other words may describe what follows ("no violations", "valid in part")."""

_EXPLANATION = re.compile(
    "a|according|all|also|an|and|as|at|because|both|by|due|each|every|for|from|given|he|her|his|i|it|its|per|she|since|"
    "so|that|the|their|there|these|they|this|those|to|via|was|we|when|with|you|your"
)
"""The first word of an explanation that needs no punctuation before it."""
_INTRODUCTION = re.compile(
    r"(?:(?:my|the|our|your|final|overall)\s+)*"
    r"(?:answer|assessment|conclusion|decision|judge?ment|label|result|verdict|判定|判断|結論|结论|裁决)"
    r"(?:\s*\([^()]{0,40}\))?\s*(?:[:=–—-]|\b(?:is|was)\b)\W*"
)
_NUMBER_OF_ITEM = re.compile(r"\d{1,3}\s*[.):]\s*")
_MARKUP = re.compile(r"</?\w[^<>]{0,40}>|\\[A-Za-z]+\{")
_QUOTES = {ord(mark): None for mark in "*`~\"'\u00b4\u2018\u2019\u201a\u201c\u201d\u201e\u00ab\u00bb"}
_END_OF_SENTENCE = re.compile(r"[\n.;!。→⇒]|[=-]>|\s[–—-]\s")
_OF_A_LIST = re.compile(r"[\s,/|&]*")
_CONJUNCTION = r"(?:(?P<conjunction>and|or|but)\b\W*)?"
_IS_ASKED = re.compile(r"\W{0,8}\?")
_REVISION = re.compile(
    r"(?:(?:actually|but|correction|hence|however|i mean|in fact|instead|no wait|or rather|overall|rather|so|sorry"
    r"|still|on (?:closer look|reflection|second thought)|then|therefore|thus|wait)\b\W*)+"
)
"""What may introduce a verdict that replaces an earlier one."""


class VerdictWords(Generic[Verdict]):
    """The words of a vocabulary, in lower case, each with the verdict that it stands for.

    `asides` are words that explain another verdict when they follow it, so that they do not contradict it.
    """

    def __init__(self, words: Mapping[str, Verdict], *, asides: frozenset[str] = frozenset()) -> None:
        self._words = words
        self._asides = asides

    def find(self, text: str) -> Verdict | None:
        """The verdict that leads the text, or else is all of its last sentence; None if it has none or two."""
        normal = _normal(text)
        leading = self._word.match(normal, _start_of_words(normal))
        return self._last(normal) if leading is None else self._leading(leading)

    def find_leading(self, text: str) -> Verdict | None:
        """The verdict that leads the text; None if it has none or two."""
        normal = _normal(text)
        leading = self._word.match(normal, _start_of_words(normal))
        return None if leading is None else self._leading(leading)

    def _leading(self, found: re.Match[str]) -> Verdict | None:
        word = self._known(found["word"])
        rest = found.string[found.end() :]
        if _IS_ASKED.match(rest):  # "supported? no"
            return None
        if not (word in _UNAMBIGUOUS or _explains(rest)) or self._contradicts(word, rest) or self._revises(word, rest):
            return None
        return self._words[word]

    def _last(self, normal: str) -> Verdict | None:
        """What the last sentence is, if no other sentence is another verdict and none is a question."""
        if "?" in normal:
            return None
        sentences = [sentence for sentence in _END_OF_SENTENCE.split(normal) if re.search(r"\w", sentence)]
        words = [self._whole(sentence) for sentence in sentences]
        found = [None if word is None else self._words[word] for word in words]
        return found[-1] if found and len({each for each in found if each is not None}) == 1 else None

    def _whole(self, sentence: str) -> str | None:
        """The word that is all of a sentence, whatever introduces it."""
        start = _start_of_words(sentence)
        revision = _REVISION.match(sentence, start)
        word = self._word.match(sentence, start if revision is None else revision.end())
        if word is None or re.search(r"\w", sentence[word.end() :]):
            return None
        return self._known(word["word"])

    def _contradicts(self, word: str, rest: str) -> bool:
        """True if another verdict follows at once: "yes and no", "valid/invalid", but not "no: true is wrong here"."""
        while (following := self._following.match(rest)) is not None:
            other = self._known(following["word"])
            after = rest[following.end() :]
            if self._differs(other, word):
                is_all = re.match(r"\s+\w", after) is None
                is_listed = other != "no" and _OF_A_LIST.fullmatch(following["between"]) is not None  # "yes, no calls"
                return is_all or is_listed or following["conjunction"] is not None
            rest = after
        return False

    def _revises(self, word: str, rest: str) -> bool:
        """True if another verdict comes later: "no. Wait, yes.", "yes for the first, no for the second"."""
        sentences = [other for each in _END_OF_SENTENCE.split(rest) if (other := self._whole(each)) is not None]
        parts = [self._known(found["word"]) for found in self._of_a_part.finditer(rest)]
        return any(self._differs(other, word) for other in (*sentences, *parts))

    def _differs(self, other: str, word: str) -> bool:
        return other not in self._asides and self._words[other] != self._words[word]

    @staticmethod
    def _known(found: str) -> str:
        return found if "/" in found else " ".join(re.split(r"[\s-]+", found))

    @cached_property
    def _word(self) -> re.Pattern[str]:
        """Any of the words, the longest first. A hyphen between letters makes another word of it: "no-one"."""
        longest_first = sorted(self._words, key=len, reverse=True)
        any_word = "|".join(re.escape(word).replace(r"\ ", r"[\s-]+") for word in longest_first)
        return re.compile(rf"(?P<word>{any_word})(?!\w|-\w)")

    @cached_property
    def _following(self) -> re.Pattern[str]:
        return re.compile(rf"(?P<between>\W*){_CONJUNCTION}{self._word.pattern}")

    @cached_property
    def _of_a_part(self) -> re.Pattern[str]:
        """A verdict on a part only, such as "no for the second", at the start of a clause."""
        start = r"(?:[,;.!?\n]|\b(?:and|but|while|whereas)\b)\W{0,8}"  # bounded: the text may be hostile
        return re.compile(rf"{start}{self._word.pattern}\s+(?:at|by|for|in|on)\b(?!-)")


def _normal(text: str) -> str:
    """Lower case, without markup and invisible characters, full-width forms as the usual ones."""
    visible = "".join(char for char in unicodedata.normalize("NFKC", text) if unicodedata.category(char) != "Cf")
    return _MARKUP.sub(" ", visible).casefold().replace("_", " ").translate(_QUOTES).strip()


def _start_of_words(normal: str) -> int:
    """Where the words begin, after marks, emoji, the number of an item and an introduction such as "the verdict is"."""
    start = _skip_decoration(normal)
    introduction = _INTRODUCTION.match(normal, start)
    return start if introduction is None else _skip_decoration(normal, introduction.end())


def _skip_decoration(normal: str, start: int = 0) -> int:
    while True:
        while start < len(normal) and not normal[start].isalnum():
            start += 1
        number = _NUMBER_OF_ITEM.match(normal, start)
        if number is None:
            return start
        start = number.end()


def _explains(rest: str) -> bool:
    """True if what follows a word leaves it a verdict: nothing, punctuation, a new line, or the beginning of an
    explanation."""
    following = re.match(r"[^\S\n]+(\w+)", rest)
    return following is None or _EXPLANATION.fullmatch(following[1]) is not None or not following[1].isascii()
