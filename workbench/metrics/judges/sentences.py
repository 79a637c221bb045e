"""Reading how a judge splits responses into sentences, and what it says of each of them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from workbench.metrics.definition import Opinion, SentenceLabel, UnreadableReply
from workbench.metrics.judges.conclusions import Sentence, score_of_label, share_of_sentences
from workbench.metrics.judges.replies import (
    NOT_APPLICABLE,
    as_text,
    by_plain_key,
    json_objects,
    plain_words,
    split_json,
    unread,
)
from workbench.metrics.judges.verdict_words import VerdictWords
from workbench.model.text import one_line

LABELS = ("supported", "unsupported", "contradictory", "disputed", "not_applicable")

_LEAST_COVERED = 0.8
"""How much of a response its sentences must hold: what is left out would be judged by nobody."""

_SHOWN = 60  # characters of a sentence in a problem

_WORDS = VerdictWords(
    {
        **{label: label for label in LABELS},
        **dict.fromkeys(("not supported", "不支持"), "unsupported"),
        **dict.fromkeys(("contradicted", "contradicting"), "contradictory"),
        **dict.fromkeys(NOT_APPLICABLE, "not_applicable"),
        "支持": "supported",
    },
    asides=frozenset(NOT_APPLICABLE),
)
_TAGGED = re.compile(r"<sentence>(.*?)</sentence>", re.DOTALL | re.IGNORECASE)
_TAG_END = re.compile("</sentence>", re.IGNORECASE)
_BLOCK_LINE = re.compile(
    r"^\W*(sentence|number|label|rationale|supporting[_ ]excerpt|contradicting[_ ]excerpt)\W{0,3}[:：]\s*(.*)$",
    re.IGNORECASE,
)
_NOTHING = frozenset({"null", "none", "n/a", "-"})


def has_words(text: str) -> bool:
    """Whether there is anything in a text that could be true or false."""
    return bool(_letters(text))


def read_split(reply: str, responses: Sequence[str]) -> dict[int, Sentence]:
    """The sentences of all responses, numbered from 1.

    Raises UnreadableReply, also for a sentence that was made up and where much of a response was left out: the score
    would be about something else.
    """
    split = _split(reply, len(responses))
    if not any(split.values()):
        raise UnreadableReply(unread(reply, "the sentences of the response"))
    sentences: dict[int, Sentence] = {}
    for number, text in enumerate(responses, start=1):
        said = [sentence.strip() for sentence in split.get(number, ()) if has_words(sentence)]
        _check(said, text, number)
        for sentence in said:
            sentences[len(sentences) + 1] = Sentence(sentence, number)
    return sentences


def read_labels(reply: str, sentences: Mapping[int, Sentence]) -> Opinion:
    """The label of each sentence, found by its number, else by its text; the score only where all have one.

    Of a sentence with several labels the reply says nothing.
    """
    by_text = {_letters(sentence.text): number for number, sentence in sentences.items()}
    given: dict[int, list[SentenceLabel]] = {}
    found, text = split_json(reply)
    for entry in (*_entries(found), *_blocks(text)):
        values = by_plain_key(entry)
        number = _number(values.get("number", values.get("id")))
        if number not in sentences:
            number = by_text.get(_letters(as_text(values.get("sentence"))))
        label = _WORDS.find(as_text(values.get("label")))
        if number is not None and label is not None:
            given.setdefault(number, []).append(
                SentenceLabel(label, as_text(values.get("rationale")), _evidence(values))
            )
    said = {number: labels[0] for number, labels in given.items() if len({each.label for each in labels}) == 1}
    if not said:
        return Opinion(problem=unread(reply, "a label for each sentence"))
    scores = {number: score_of_label(each.label) for number, each in said.items()}
    standing = sum(score == 1.0 for score in scores.values())
    told = f"{standing} of {len(sentences)} sentences may stand" if len(said) == len(sentences) else ""
    return Opinion(share_of_sentences(scores, sentences), told, sentences=said)


def _split(reply: str, responses: int) -> dict[int, list[str]]:
    for found in json_objects(reply):
        values = {plain_words(key): value for key, value in found.items()}
        listed = values.get("responses")
        if isinstance(listed, list):
            return {
                _number(entry.get("number", entry.get("id"))) or position: _texts(entry.get("sentences"))
                for position, entry in enumerate(listed, start=1)
                if isinstance(entry, Mapping)
            }
        if responses == 1 and isinstance(values.get("sentences"), list):
            return {1: _texts(values["sentences"])}
    ends = [found.end() for found in _TAG_END.finditer(reply)]
    if responses != 1 or not ends:
        return {}
    return {1: _TAGGED.findall(reply[: ends[-1]])}  # after the last end each search would read the rest in vain


def _texts(value: Any) -> list[str]:
    items = value if isinstance(value, list) else []
    texts = [item.get("sentence", item.get("text")) if isinstance(item, Mapping) else item for item in items]
    return [text for text in texts if isinstance(text, str)]


def _check(sentences: Sequence[str], response: str, number: int) -> None:
    whole = _letters(response)
    for sentence in sentences:
        if _letters(sentence) not in whole:
            shown = one_line(sentence, width=_SHOWN)
            raise UnreadableReply(f"the reply has a sentence that response {number} has not: {shown}")
    covered = sum(len(_letters(sentence)) for sentence in sentences)
    if covered < _LEAST_COVERED * len(whole):
        raise UnreadableReply(f"the reply leaves out {1 - covered / len(whole):.0%} of response {number}")


def _entries(objects: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for found in objects:
        for value in found.values():
            if isinstance(value, list):
                yield from (item for item in value if isinstance(item, Mapping))
        for key, value in found.items():  # {"1": {"label": ...}} or {"1": "supported"}
            if isinstance(value, Mapping):
                yield {"number": key, **value}
            elif isinstance(value, str) and _number(key) is not None:
                yield {"number": key, "label": value}
        yield found


def _blocks(reply: str) -> Iterator[Mapping[str, str]]:
    """Blocks of `sentence: ...`, `label: ...` lines, each begun by its sentence or number."""
    block: dict[str, str] = {}
    for line in reply.splitlines():
        match = _BLOCK_LINE.match(line)
        if match is None:
            continue
        key = plain_words(match[1])
        if key in block:
            yield block
            block = {}
        block[key] = match[2].strip()
    if block:
        yield block


def _evidence(values: Mapping[str, Any]) -> str:
    excerpts = [as_text(values.get(name)) for name in ("supporting excerpt", "contradicting excerpt")]
    return " / ".join(text for text in excerpts if text and plain_words(text) not in _NOTHING)


def _number(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    digits = value.strip("[]() .") if isinstance(value, str) else ""
    return int(digits) if digits.isdecimal() and digits.isascii() and len(digits) < 6 else None


def _letters(text: str) -> str:
    """What of a text counts when sentences are found in it: neither marks nor spaces, which judges do not copy well."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold()))
