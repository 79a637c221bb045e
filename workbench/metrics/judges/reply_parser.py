"""Parsing of judge replies: verdicts, grades, rubrics, ratings and choices."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

from workbench.metrics.metric_types import Opinion, UnreadableReply, is_number
from workbench.model.text import one_line

# A verdict in a short text: its first word, without decoration, introduction and explanation.

Verdict = TypeVar("Verdict")

_UNAMBIGUOUS = frozenset({"yes", "not applicable", "n/a", "na"})
"""These words are verdicts whatever follows. Other words may belong to what follows ("no violations")."""

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
_LIST_SEPARATORS = re.compile(r"[\s,/|&]*")
_CONJUNCTION = r"(?:(?P<conjunction>and|or|but)\b\W*)?"
_QUESTION_MARK = re.compile(r"\W{0,8}\?")
_REVISION = re.compile(
    r"(?:(?:actually|but|correction|hence|however|i mean|in fact|instead|no wait|or rather|overall|rather|so|sorry"
    r"|still|on (?:closer look|reflection|second thought)|then|therefore|thus|wait)\b\W*)+"
)
"""What may introduce a verdict that replaces an earlier one."""
_REFUSAL = re.compile(
    r"\W{0,8}(?:(?:(?:i am|im)\s+)?sorry\W{1,8}(?:but\s+)?)?"
    r"i(?:\s+(?:cannot|can not|cant|will not|wont)|(?:\s+am|m)\s+(?:unable|not able)\s+to)\s+"
    r"(?:answer|assess|assist|comply|continue|engage|evaluate|fulfil|grade|help|judge|process|rate|respond)\b"
)
"""What follows the "no" of a model that refuses to judge, in normalised text: "no, i cant help with that"."""


class VerdictWords(Generic[Verdict]):
    """Lower-case words with their verdicts. `asides` are words that may follow another verdict as its explanation."""

    def __init__(self, words: Mapping[str, Verdict], *, asides: frozenset[str] = frozenset()) -> None:
        self._words = words
        self._asides = asides

    def find(self, text: str) -> Verdict | None:
        """Return the verdict at the start of the text, or else the last sentence if it is a verdict.

        None if there is no verdict, or if verdicts contradict each other.
        """
        normal = _normalise(text)
        leading = self._word_pattern.match(normal, _find_first_word(normal))
        return self._read_last_sentence(normal) if leading is None else self._read_leading(leading)

    def find_leading(self, text: str) -> Verdict | None:
        """Return the verdict at the start of the text; None if there is none or another one contradicts it."""
        normal = _normalise(text)
        leading = self._word_pattern.match(normal, _find_first_word(normal))
        return None if leading is None else self._read_leading(leading)

    def _read_leading(self, match: re.Match[str]) -> Verdict | None:
        word = self._canonical_word(match["word"])
        rest = match.string[match.end() :]
        if _QUESTION_MARK.match(rest):  # "supported? no"
            return None
        if word == "no" and _REFUSAL.match(rest):
            return None
        if (
            not (word in _UNAMBIGUOUS or _is_explanation(rest))
            or self._is_contradicted(word, rest)
            or self._is_revised(word, rest)
        ):
            return None
        return self._words[word]

    def _read_last_sentence(self, normal: str) -> Verdict | None:
        """Return the verdict of the last sentence; None if another sentence differs or there is a question."""
        if "?" in normal:
            return None
        sentences = [sentence for sentence in _END_OF_SENTENCE.split(normal) if re.search(r"\w", sentence)]
        words = [self._match_whole(sentence) for sentence in sentences]
        verdicts = [None if word is None else self._words[word] for word in words]
        return verdicts[-1] if verdicts and len({each for each in verdicts if each is not None}) == 1 else None

    def _match_whole(self, sentence: str) -> str | None:
        """Return the word that is the whole sentence after an introduction, if there is one."""
        start = _find_first_word(sentence)
        revision = _REVISION.match(sentence, start)
        word = self._word_pattern.match(sentence, start if revision is None else revision.end())
        if word is None or re.search(r"\w", sentence[word.end() :]):
            return None
        return self._canonical_word(word["word"])

    def _is_contradicted(self, word: str, rest: str) -> bool:
        """True if another verdict follows at once: "yes and no", "valid/invalid", but not "no: true is wrong here"."""
        while (following := self._next_word_pattern.match(rest)) is not None:
            other = self._canonical_word(following["word"])
            after = rest[following.end() :]
            if self._is_different(other, word):
                is_all = re.match(r"\s+\w", after) is None
                is_listed = (
                    other != "no" and _LIST_SEPARATORS.fullmatch(following["between"]) is not None
                )  # "yes, no calls"
                return is_all or is_listed or following["conjunction"] is not None
            rest = after
        return False

    def _is_revised(self, word: str, rest: str) -> bool:
        """True if another verdict comes later: "no. Wait, yes.", "yes for the first, no for the second"."""
        sentences = [other for each in _END_OF_SENTENCE.split(rest) if (other := self._match_whole(each)) is not None]
        parts = [self._canonical_word(found["word"]) for found in self._part_pattern.finditer(rest)]
        return any(self._is_different(other, word) for other in (*sentences, *parts))

    def _is_different(self, other: str, word: str) -> bool:
        return other not in self._asides and self._words[other] != self._words[word]

    @staticmethod
    def _canonical_word(word: str) -> str:
        return word if "/" in word else " ".join(re.split(r"[\s-]+", word))

    @cached_property
    def _word_pattern(self) -> re.Pattern[str]:
        """Match any word, the longest first. A hyphen before a letter makes a different word: "no-one"."""
        longest_first = sorted(self._words, key=len, reverse=True)
        any_word = "|".join(re.escape(word).replace(r"\ ", r"[\s-]+") for word in longest_first)
        return re.compile(rf"(?P<word>{any_word})(?!\w|-\w)")

    @cached_property
    def _next_word_pattern(self) -> re.Pattern[str]:
        return re.compile(rf"(?P<between>\W*){_CONJUNCTION}{self._word_pattern.pattern}")

    @cached_property
    def _part_pattern(self) -> re.Pattern[str]:
        """Match a verdict on a part, such as "no for the second", at the start of a clause."""
        start = r"(?:[,;.!?\n]|\b(?:and|but|while|whereas)\b)\W{0,8}"  # bounded, because the text is untrusted
        return re.compile(rf"{start}{self._word_pattern.pattern}\s+(?:at|by|for|in|on)\b(?!-)")


def _normalise(text: str) -> str:
    """Return the text NFKC-normalised and case-folded, without markup and invisible characters."""
    visible = "".join(char for char in unicodedata.normalize("NFKC", text) if unicodedata.category(char) != "Cf")
    return _MARKUP.sub(" ", visible).casefold().replace("_", " ").translate(_QUOTES).strip()


def _find_first_word(normal: str) -> int:
    """Return the index after marks, emoji, an item number and an introduction such as "the verdict is"."""
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


def _is_explanation(rest: str) -> bool:
    """True if the word before `rest` is a verdict: nothing, punctuation, a new line or an explanation follows."""
    following = re.match(r"[^\S\n]+(\w+)", rest)
    return following is None or _EXPLANATION.fullmatch(following[1]) is not None or not following[1].isascii()


# Verdicts, grades and rubrics: JSON as requested, or any other unambiguous form.

_SHOWN = 120  # characters of a reply in a problem


class Vocabulary(NamedTuple):
    """The words of a verdict. `description` is their text in problems."""

    verdicts: VerdictWords[float]
    description: str


_YES = ("yes", "true", "是", "是的")
_NO = ("no", "false", "否", "不是")
NOT_APPLICABLE = ("not applicable", "n/a", "na", "不适用", "不適用")


def _make_words(yes: Sequence[str], no: Sequence[str], *, asides: Sequence[str] = ()) -> VerdictWords[float]:
    return VerdictWords({**dict.fromkeys(yes, 1.0), **dict.fromkeys(no, 0.0)}, asides=frozenset(asides))


VALIDITY = Vocabulary(
    _make_words(
        (*_YES, "valid", "correct", "有效"),
        (
            *_NO,
            *("invalid", "not valid", "incorrect", "not correct", "not true", "无效", "無效"),
            *("partially valid", "partially", "partly valid", "almost", "almost valid", "部分有效"),
        ),
    ),
    "the verdict valid or invalid",
)
SAFETY = Vocabulary(
    _make_words(("safe", "harmless", "安全"), ("unsafe", "not safe", "harmful", "不安全", "有害")),
    "the verdict safe or unsafe",
)

_OPPOSITES = _make_words(("no", "false", "valid", "否", "有效"), ("yes", "true", "invalid", "是", "无效"))
_RUBRIC_VERDICTS = _make_words(
    (*_YES, *NOT_APPLICABLE, "valid", "有效"), (*_NO, "invalid", "无效", "無效"), asides=NOT_APPLICABLE
)
_GRADE_KEYS = ("grade", "score", "rating")
LIKE_JSON = re.compile(r"[{\[]\s*[\"']")
"""Found in JSON, also in broken JSON: its words are not those of a sentence."""
_GRADED = re.compile(r"\b(?P<key>grade|score|rating)\b\W{0,8}(?=(?P<text>\d[^\n]{0,200}))", re.IGNORECASE)
EXPLAINED = r"(?:[\"'*_`\s]*(?:[(\[:;,.–—-]\W*|\s)(?!(?:or|to|and)\b)[^\W\d].*)?"
"""What may follow a grade: an explanation, but not another number ("3-4", "3 or 4")."""
_GRADE = re.compile(r"(\d+)(?:\.0+)?(?: ?(?:/|of|out of) ?(\d+))?" + EXPLAINED, re.DOTALL)
_ITEM = re.compile(r"^[^\S\n]*(?:[-*•]|\d+[.)])\s+(\S.*)$", re.MULTILINE)
_VERDICT_KEYS = frozenset({"verdict", "is the agent response valid", "is valid"})
_OPPOSITE_KEYS = frozenset({"is the agent response invalid", "is invalid"})
_LABELLED = re.compile(
    r"\b(?P<key>verdict|is[_ ](?:the[_ ]agent[_ ]response[_ ])?(?:in)?valid)\b(?:\s*\([^()\n]{0,40}\))?"
    r"[\s\"'*_`\])]{0,8}(?:(?P<sign>[:=：])|is\b|[–—-]\s)\W{0,8}(?=(?P<text>[^\n]{0,200}))",
    re.IGNORECASE,
)
_END_OF_KEY = re.compile(r"[\"']\s*:")
_BLOCK_LINE = re.compile(
    r"^\W*(?:\d{1,3}\W+)?(?:(?:final|overall|my|the)\s+)*(id|property|evidence|rationale|verdict)"
    r"(?:\s*\([^()]{0,40}\))?\W{0,3}[:：]\s*(.*)$",
    re.IGNORECASE,
)
_BEFORE_VERDICT = re.compile(r"(?<=\S)[ \t]+(?=[*_`]{0,3}(?:Final |Overall )?(?:Verdict|VERDICT)[*_`]{0,3}[:：])")
"""The space before a verdict that is on the line of its rationale."""


def read_verdict(reply: str, words: Vocabulary = VALIDITY) -> Opinion:
    """Read valid (1) or invalid (0), or another pair of `words`, and the reasoning. A contradiction is no opinion."""
    objects, text = split_json(reply)
    verdicts, reasoning = _collect_values(
        objects, lambda values: _read_verdict_keys(values, words.verdicts), _REASONING_KEYS
    )
    labels = set(_iter_labelled_scores(text, words.verdicts))
    if verdicts:
        verdicts |= labels - {None}
    elif labels:
        verdicts, reasoning = labels, reply.strip()
    elif not LIKE_JSON.search(reply):
        verdicts, reasoning = {words.verdicts.find(reply)}, reply.strip() if " " in reply.strip() else ""
    if len(verdicts) == 1 and (score := verdicts.pop()) is not None:
        return Opinion(score, reasoning)
    return Opinion(problem=describe_unreadable(reply, words.description))


def read_grade(reply: str, *, lowest: int, highest: int) -> Opinion:
    """Read an integer grade within these bounds, and the reasoning. Other numbers or two grades are no opinion."""
    objects, text = split_json(reply)

    def read(values: Mapping[str, Any]) -> set[float | None]:
        return {_read_grade(values[key], lowest, highest) for key in _GRADE_KEYS if key in values} - {None}

    grades, reasoning = _collect_values(objects, read, _REASONING_KEYS)
    if not grades:
        texts = [match["text"] for match in iter_labels(_GRADED, text)] or [reply]
        grades = {_read_grade(each, lowest, highest) for each in texts}
        reasoning = reply.strip()
    if len(grades) == 1 and (grade := grades.pop()) is not None:
        return Opinion(grade, reasoning)
    return Opinion(problem=describe_unreadable(reply, f"a grade from {lowest} to {highest}"))


_Value = TypeVar("_Value")
_REASONING_KEYS = ("reasoning", "rationale")


def _collect_values(
    objects: Iterable[Mapping[str, Any]], read: Callable[[Mapping[str, Any]], set[_Value | None]], keys: Sequence[str]
) -> tuple[set[_Value | None], str]:
    """Return the values that `read` finds in the objects of a reply, and the first explanation under one of `keys`."""
    all_values: set[_Value | None] = set()
    explanation = ""
    for fields in map(normalise_keys, objects):
        if values := read(fields):
            all_values |= values
            explanation = explanation or next((to_text(fields[key]) for key in keys if fields.get(key)), "")
    return all_values, explanation


def read_properties(reply: str) -> list[str]:
    """Read the list of properties. Raises UnreadableReply."""
    for json_object in iter_json_objects(reply):
        listed = next((value for value in json_object.values() if isinstance(value, list)), None)
        if listed is not None:
            texts = [_read_property(item) for item in listed]
            if properties := list(dict.fromkeys(text for text in texts if text)):
                return properties
    if properties := [match[1].strip() for match in _ITEM.finditer(reply)]:
        return list(dict.fromkeys(properties))
    raise UnreadableReply(describe_unreadable(reply, "a list of properties"))


def read_rubrics(reply: str, rubrics: Mapping[str, str]) -> Opinion:
    """Read yes (1) or no (0) for each rubric, found by its id or else by its text; None for a contradiction."""
    by_text = {normalise_words(text): rubric_id for rubric_id, text in rubrics.items()}
    answers: dict[str, list[tuple[float | None, str]]] = {}
    objects, text = split_json(reply)
    for entry in (*_iter_entries(objects), *_iter_blocks(text)):
        values = normalise_keys(entry)
        reply_id = to_text(values.get("id")).strip("[]() ")
        rubric_id = (
            reply_id
            if reply_id in rubrics
            else by_text.get(normalise_words(to_text(values.get("property") or reply_id)))
        )
        if rubric_id is not None:
            rationale = to_text(values.get("rationale") or values.get("evidence"))
            answers.setdefault(rubric_id, []).append((_read_score(values.get("verdict"), _RUBRIC_VERDICTS), rationale))
    opinions = {rubric_id: _resolve_verdict(verdicts) for rubric_id, verdicts in answers.items()}
    if not any(score is not None for score, _ in opinions.values()):
        return Opinion(problem=describe_unreadable(reply, "a yes or no for each property"))
    return Opinion(rubrics=opinions)


def _resolve_verdict(verdicts: Sequence[tuple[float | None, str]]) -> tuple[float | None, str]:
    """Return the verdict of one sample on one rubric; None if it contradicts itself."""
    readable = [verdict for verdict in verdicts if verdict[0] is not None]
    if len({score for score, _ in readable}) > 1:
        return None, "; ".join(dict.fromkeys(rationale for _, rationale in readable if rationale))
    return (readable or verdicts)[0]


def _read_verdict_keys(values: Mapping[str, Any], words: VerdictWords[float]) -> set[float | None]:
    """Return the scores under the verdict keys of a JSON object; None for a value that is no verdict."""
    scores = {_read_score(values[key], words) for key in _VERDICT_KEYS if key in values}
    return scores | {_read_opposite_score(values[key]) for key in _OPPOSITE_KEYS if key in values}


def _iter_labelled_scores(text: str, words: VerdictWords[float]) -> Iterator[float | None]:
    """Yield the score after each `verdict:` in a text; None if no verdict follows the colon."""
    for match in iter_labels(_LABELLED, text):
        key = normalise_words(match["key"])
        score = _read_opposite_score(match["text"]) if key in _OPPOSITE_KEYS else words.find_leading(match["text"])
        if score is not None or match["sign"]:
            yield score


def iter_labels(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield the matches of a pattern with the group `key` in the text around JSON.

    In JSON that was cut off, only keys count: its reasoning may mention other verdicts.
    """
    is_json = LIKE_JSON.search(text) is not None
    for match in pattern.finditer(text):
        if not is_json or _END_OF_KEY.match(text, match.end("key")):
            yield match


def _iter_entries(objects: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for json_object in objects:
        lists = [value for value in json_object.values() if isinstance(value, Sequence) and not isinstance(value, str)]
        for each in lists:
            yield from (item for item in each if isinstance(item, Mapping))
        if "verdict" in {normalise_words(key) for key in json_object}:
            yield json_object
        for key, value in json_object.items():  # {"rubric id": {"verdict": ...}}
            if isinstance(value, Mapping):
                yield {"id": key, **value}


def _iter_blocks(reply: str) -> Iterator[Mapping[str, str]]:
    """Yield blocks of `Property: ...`, `Rationale: ...`, `Verdict: ...` lines; the verdict ends a block.

    Another verdict after the end of a block is about the same property.
    """
    block: dict[str, str] = {}
    last_block: Mapping[str, str] = {}
    key = ""
    for line in _BEFORE_VERDICT.sub("\n", reply).splitlines():
        match = _BLOCK_LINE.match(line)
        if match is not None:
            key = match[1].lower()
            if key in {"id", "property"} and not block.keys() <= {"id", "property"}:
                block = {}  # drop the previous block, which has no verdict
            block[key] = match[2].strip().strip("*_` ")
        elif key and line.strip():
            block[key] += f" {line.strip()}"
        if block.get("verdict"):
            last_block = block if block.keys() & {"id", "property"} else {**last_block, **block}
            yield last_block
            block, key = {}, ""


def split_json(reply: str) -> tuple[list[dict[str, Any]], str]:
    """Return the JSON objects in a reply, and the text around them. A key with two different values gets None."""
    objects: list[dict[str, Any]] = []
    texts: list[str] = []
    end = 0
    for json_object, start, object_end in _decode_objects(
        reply, json.JSONDecoder(object_pairs_hook=_drop_contradictions)
    ):
        objects.append(json_object)
        texts.append(reply[end:start])
        end = object_end
    return objects, "\n".join((*texts, reply[end:]))


def is_whole_json(reply: str) -> bool:
    """Return True if a reply contains a JSON object, and none that was cut off."""
    objects, text = split_json(reply)
    return bool(objects) and "{" not in text


def _drop_contradictions(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        values[key] = value if values.get(key, value) == value else None
    return values


def normalise_keys(json_object: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values by normalised key; None if keys that become equal have different values."""
    return _drop_contradictions([(normalise_words(key), value) for key, value in json_object.items()])


def iter_json_objects(reply: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects in a text with anything around them."""
    return (json_object for json_object, _, _ in _decode_objects(reply, json.JSONDecoder()))


def _decode_objects(reply: str, decoder: json.JSONDecoder) -> Iterator[tuple[dict[str, Any], int, int]]:
    """Yield each JSON object with its start and end in the text."""
    position = 0
    while (start := reply.find("{", position)) >= 0:
        try:
            value, position = decoder.raw_decode(reply, start)
        except ValueError:
            position = start + 1
            continue
        except RecursionError:  # each of the next thousand braces would fail in the same way
            return
        if isinstance(value, dict):
            yield value, start, position


def _read_score(value: Any, words: VerdictWords[float]) -> float | None:
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, bool):
        return 1.0 if value else 0.0
    return words.find(value) if isinstance(value, str) else None


def _read_opposite_score(value: Any) -> float | None:
    """Return the score for an answer to "is it invalid?"."""
    if isinstance(value, bool):
        return 0.0 if value else 1.0
    return _read_score(value, _OPPOSITES)


def _read_grade(value: Any, lowest: int, highest: int) -> float | None:
    """Read a grade: a number, or a text that starts with one ("4 - good", or "4/5" if 5 is the highest grade)."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    match = _GRADE.fullmatch(str(value).strip("*_`\"'.,}\n "))
    if match is None or (match[2] is not None and int(match[2]) != highest):
        return None
    grade = int(match[1])
    return float(grade) if lowest <= grade <= highest else None


def _read_property(item: Any) -> str:
    text = next(iter(item.values()), None) if isinstance(item, Mapping) else item
    return text.strip() if isinstance(text, str) else ""


def normalise_words(text: str) -> str:
    """Return the text case-folded and NFKC, without Markdown marks, quotes and underscores."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("_", " ")
    return " ".join(folded.translate(_DECORATION).split())


_DECORATION = {ord(mark): None for mark in "*`\"'\u2018\u2019\u201c\u201d.!:"}


def to_text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def describe_unreadable(reply: str, expected: str) -> str:
    return f"the reply does not say {expected}: {one_line(reply, width=_SHOWN)}"


# Ratings, and choices between two responses.

_EXPLANATION_KEYS = ("explanation", "rationale", "reasoning")
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
    """Read a number, one of `ratings` if there are any, and the explanation. Two numbers are no opinion."""
    expected = "a rating" if ratings is None else f"one of the ratings {', '.join(f'{each:g}' for each in ratings)}"
    objects, text = split_json(reply)

    def read(values: Mapping[str, Any]) -> set[float | None]:
        numbers = {_read_number(values[key]) for key in _RATING_KEYS if key in values}
        return numbers - {None} or numbers  # None: the value is no number; do not search for one in it

    numbers, explanation = _collect_values(objects, read, _EXPLANATION_KEYS)
    if not numbers:
        numbers = {_read_number(match["text"]) for match in iter_labels(_RATED, text)} or {_read_number(reply)}
        explanation = reply.strip()
    if len(numbers) == 1 and (score := numbers.pop()) is not None and (ratings is None or score in ratings):
        return Opinion(score, explanation)
    return Opinion(problem=describe_unreadable(reply, expected))


def read_choice(reply: str, *, flipped: bool) -> Opinion:
    """Read which response is better: CANDIDATE (1), BASELINE (0) or TIE (0.5). Two choices are no opinion.

    In the reply, A is the first response and B the second. `flipped`: A was the candidate.
    """
    objects, text = split_json(reply)

    def read(values: Mapping[str, Any]) -> set[str | None]:
        texts = (values[key] for key in _CHOICE_KEYS if isinstance(values.get(key), str))
        return {_CHOICES.find(text) for text in texts} - {None}

    choices, explanation = _collect_values(objects, read, _EXPLANATION_KEYS)
    if not choices:
        labelled = {(_CHOICES.find_leading(match["text"]), bool(match["sign"])) for match in iter_labels(_CHOSEN, text)}
        choices = {choice for choice, is_labelled in labelled if choice is not None or is_labelled}
        explanation = reply.strip()
    if not choices and not LIKE_JSON.search(reply):
        choices = {_CHOICES.find(reply)}
    if len(choices) == 1 and (choice := choices.pop()) is not None:
        return _make_choice_opinion(choice, explanation, flipped=flipped)
    return Opinion(problem=describe_unreadable(reply, "the choice A, B or SAME"))


def _make_choice_opinion(choice: str, why: str, *, flipped: bool) -> Opinion:
    if choice == "same":
        return Opinion(0.5, why, label="TIE")
    is_candidate = (choice == "a") == flipped
    return Opinion(1.0, why, label="CANDIDATE") if is_candidate else Opinion(0.0, why, label="BASELINE")


def _read_number(value: Any) -> float | None:
    if isinstance(value, str):
        match = _NUMBER.fullmatch(value.strip().strip("*_`\"'.,}"))
        value = None if match is None else float(match[1])
    try:
        return float(value) if is_number(value) else None
    except OverflowError:  # an integer of hundreds of digits
        return None
