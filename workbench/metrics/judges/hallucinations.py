"""`hallucinations_v1`: the share of the agent's sentences that the context supports."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from workbench.metrics.case_view import CaseView, Turn
from workbench.metrics.judges.judge_calls import (
    Sentence,
    by_sentences,
    compute_sentence_share,
    make_judge_info,
    read_judge_options,
    score_label,
)
from workbench.metrics.judges.judge_prompts import PROMPTS
from workbench.metrics.judges.reply_parser import (
    NOT_APPLICABLE,
    VerdictWords,
    describe_unreadable,
    iter_json_objects,
    normalise_keys,
    normalise_words,
    split_json,
    to_text,
)
from workbench.metrics.judges.transcript import (
    format_instructions,
    format_response,
    format_tools,
    iter_events,
    label_final_speaker,
)
from workbench.metrics.metric_types import (
    Definition,
    Judge,
    ModelJudge,
    ModelQuestion,
    Opinion,
    Options,
    PreparingQuestion,
    SentenceLabel,
    UnreadableReply,
)
from workbench.model.results import Score
from workbench.model.text import one_line

# Replies: sentences of the responses, and a label for each.

LABELS = ("supported", "unsupported", "contradictory", "disputed", "not_applicable")

_LEAST_COVERED = 0.8
"""The sentences must cover this share of a response: missing text would not be judged."""

_SHOWN = 60  # characters of a sentence in a problem

_VERDICT_WORDS = VerdictWords(
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
_EMPTY_VALUES = frozenset({"null", "none", "n/a", "-"})


def has_words(text: str) -> bool:
    """True if a text has a letter or digit, so that it may state something."""
    return bool(_normalise(text))


def read_split(reply: str, responses: Sequence[str]) -> dict[int, Sentence]:
    """Read the sentences of all responses, numbered from 1.

    Raises UnreadableReply, also for an invented sentence, and if much of a response is missing: the score would not
    be about the response.
    """
    split = _read_sentences(reply, len(responses))
    if not any(split.values()):
        raise UnreadableReply(describe_unreadable(reply, "the sentences of the response"))
    sentences: dict[int, Sentence] = {}
    for number, text in enumerate(responses, start=1):
        response_sentences = [sentence.strip() for sentence in split.get(number, ()) if has_words(sentence)]
        _check_sentences(response_sentences, text, number)
        for sentence in response_sentences:
            sentences[len(sentences) + 1] = Sentence(sentence, number)
    return sentences


def read_labels(reply: str, sentences: Mapping[int, Sentence]) -> Opinion:
    """Read the label of each sentence, found by its number or else by its text.

    There is a score only if all sentences have a label. Different labels of one sentence are ignored.
    """
    by_text = {_normalise(sentence.text): number for number, sentence in sentences.items()}
    labels_by_number: dict[int, list[SentenceLabel]] = {}
    objects, text = split_json(reply)
    for entry in (*_iter_entries(objects), *_iter_blocks(text)):
        values = normalise_keys(entry)
        number = _read_number(values.get("number", values.get("id")))
        if number not in sentences:
            number = by_text.get(_normalise(to_text(values.get("sentence"))))
        label = _VERDICT_WORDS.find(to_text(values.get("label")))
        if number is not None and label is not None:
            labels_by_number.setdefault(number, []).append(
                SentenceLabel(label, to_text(values.get("rationale")), _read_evidence(values))
            )
    agreed_labels = {
        number: labels[0] for number, labels in labels_by_number.items() if len({each.label for each in labels}) == 1
    }
    if not agreed_labels:
        return Opinion(problem=describe_unreadable(reply, "a label for each sentence"))
    scores = {number: score_label(each.label) for number, each in agreed_labels.items()}
    acceptable = sum(score == 1.0 for score in scores.values())
    rationale = (
        f"{acceptable} of {len(sentences)} sentences are acceptable" if len(agreed_labels) == len(sentences) else ""
    )
    return Opinion(compute_sentence_share(scores, sentences), rationale, sentences=agreed_labels)


def _read_sentences(reply: str, responses: int) -> dict[int, list[str]]:
    for json_object in iter_json_objects(reply):
        values = {normalise_words(key): value for key, value in json_object.items()}
        listed = values.get("responses")
        if isinstance(listed, list):
            return {
                _read_number(entry.get("number", entry.get("id"))) or position: _read_texts(entry.get("sentences"))
                for position, entry in enumerate(listed, start=1)
                if isinstance(entry, Mapping)
            }
        if responses == 1 and isinstance(values.get("sentences"), list):
            return {1: _read_texts(values["sentences"])}
    ends = [match.end() for match in _TAG_END.finditer(reply)]
    if responses != 1 or not ends:
        return {}
    return {1: _TAGGED.findall(reply[: ends[-1]])}  # no end tag follows, so a search in the rest would be quadratic


def _read_texts(value: Any) -> list[str]:
    items = value if isinstance(value, list) else []
    texts = [item.get("sentence", item.get("text")) if isinstance(item, Mapping) else item for item in items]
    return [text for text in texts if isinstance(text, str)]


def _check_sentences(sentences: Sequence[str], response: str, number: int) -> None:
    response_text = _normalise(response)
    for sentence in sentences:
        if _normalise(sentence) not in response_text:
            shown = one_line(sentence, width=_SHOWN)
            raise UnreadableReply(f"the reply has a sentence that is not in response {number}: {shown}")
    covered = sum(len(_normalise(sentence)) for sentence in sentences)
    if covered < _LEAST_COVERED * len(response_text):
        raise UnreadableReply(f"the reply leaves out {1 - covered / len(response_text):.0%} of response {number}")


def _iter_entries(objects: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for json_object in objects:
        for value in json_object.values():
            if isinstance(value, list):
                yield from (item for item in value if isinstance(item, Mapping))
        for key, value in json_object.items():  # {"1": {"label": ...}} or {"1": "supported"}
            if isinstance(value, Mapping):
                yield {"number": key, **value}
            elif isinstance(value, str) and _read_number(key) is not None:
                yield {"number": key, "label": value}
        yield json_object


def _iter_blocks(reply: str) -> Iterator[Mapping[str, str]]:
    """Yield blocks of `sentence: ...`, `label: ...` lines. A repeated key starts a new block."""
    block: dict[str, str] = {}
    for line in reply.splitlines():
        match = _BLOCK_LINE.match(line)
        if match is None:
            continue
        key = normalise_words(match[1])
        if key in block:
            yield block
            block = {}
        block[key] = match[2].strip()
    if block:
        yield block


def _read_evidence(values: Mapping[str, Any]) -> str:
    excerpts = [to_text(values.get(name)) for name in ("supporting excerpt", "contradicting excerpt")]
    return " / ".join(text for text in excerpts if text and normalise_words(text) not in _EMPTY_VALUES)


def _read_number(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    digits = value.strip("[]() .") if isinstance(value, str) else ""
    return int(digits) if digits.isdecimal() and digits.isascii() and len(digits) < 6 else None


def _normalise(text: str) -> str:
    """Keep letters and digits only, case-folded: judges do not copy punctuation and spaces exactly."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold()))


# Questions.

NAME = "hallucinations_v1"
_INTERMEDIATE = "evaluate_intermediate_nl_responses"
_NO_TEXT = Score.undefined("the responses of the turn have no text to check")

_SPLIT_SCHEMA = {
    "type": "object",
    "properties": {
        "responses": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "number": {"type": "integer"},
                    "sentences": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["number", "sentences"],
            },
        }
    },
    "required": ["responses"],
}
_LABEL_SCHEMA = {
    "type": "object",
    "properties": {
        "sentences": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "number": {"type": "integer"},
                    "supporting_excerpt": {"type": ["string", "null"]},
                    "contradicting_excerpt": {"type": ["string", "null"]},
                    "rationale": {"type": "string"},
                    "label": {"type": "string", "enum": list(LABELS)},
                },
                "required": ["number", "rationale", "label"],
            },
        }
    },
    "required": ["sentences"],
}
_PART_NAMES = {"call": "TOOL CALL", "answer": "TOOL ANSWER", "grounding": "GROUNDING"}


def ask_hallucinations(turn: Turn, view: CaseView, *, with_intermediate: bool) -> PreparingQuestion | Score:
    """Build the question about one turn; undefined if there is no text to check."""
    responses, context = _list_responses_and_context(
        _list_finished_turns(turn, view), with_intermediate=with_intermediate
    )
    if not responses:
        return _NO_TEXT
    return PreparingQuestion(
        prompt=PROMPTS.render("sentences", responses=responses),
        reply_schema=_SPLIT_SCHEMA,
        read=partial(_ask_labels, responses=responses, context=context, turn=turn),
    )


def _ask_labels(reply: str, *, responses: Sequence[str], context: Sequence[str], turn: Turn) -> ModelQuestion:
    sentences = read_split(reply, responses)
    prompt = PROMPTS.render(
        "hallucinations",
        instructions=format_instructions([turn]),
        tools=format_tools([turn]),
        context=context,
        responses=len(responses),
        sentences=sentences,
    )
    return ModelQuestion(
        prompt=prompt,
        reply_schema=_LABEL_SCHEMA,
        read=partial(read_labels, sentences=sentences),
        conclude=partial(by_sentences, sentences=sentences),
    )


def _list_finished_turns(turn: Turn, view: CaseView) -> list[Turn]:
    turns = view.turns[: next(index for index, each in enumerate(view.turns) if each is turn) + 1]
    return [each for each in turns if each.actual is not None]


def _list_responses_and_context(turns: Sequence[Turn], *, with_intermediate: bool) -> tuple[list[str], list[str]]:
    """Return the responses of the last turn to check, and the context as lines that mark the place of each response."""
    context = [line for number, turn in enumerate(turns[:-1], start=1) for line in _format_turn(turn, number)]
    turn, number = turns[-1], len(turns)
    assert turn.actual is not None
    responses: list[str] = []

    def add_response(text: str) -> str:
        responses.append(text)
        return f"TURN {number} RESPONSE {len(responses)} WAS GIVEN HERE"

    context.append(f"TURN {number} USER: {turn.actual.user_content.text_with_markers(thoughts=False)}")
    for event in iter_events(turn.actual):
        if event.kind != "text":
            context.append(f"TURN {number} {_PART_NAMES[event.kind]}: {event.text}")
        elif with_intermediate and has_words(event.text):
            context.append(add_response(event.text))
        else:
            context.append(f"TURN {number} AGENT {event.author}: {event.text}")
    if has_words(final := format_response(turn.actual)):
        context.append(add_response(final))
    return responses, context


def _format_turn(turn: Turn, number: int) -> Iterator[str]:
    assert turn.actual is not None
    yield f"TURN {number} USER: {turn.actual.user_content.text_with_markers(thoughts=False)}"
    for event in iter_events(turn.actual):
        is_text = event.kind == "text"
        yield f"TURN {number} {f'AGENT {event.author}' if is_text else _PART_NAMES[event.kind]}: {event.text}"
    if final := format_response(turn.actual):
        yield f"TURN {number} {label_final_speaker(turn.actual)}: {final}"


def _prepare(options: Options) -> Sequence[Judge]:
    ask = partial(ask_hallucinations, with_intermediate=options.flag(_INTERMEDIATE))
    return [ModelJudge(name=NAME, options=read_judge_options(options), ask=ask, prepares=True)]


METRICS: Sequence[Definition] = (
    Definition(
        info=make_judge_info(
            NAME,
            purpose="Share of the sentences of the answer that its context supports.",
            when="The agent must not make things up.",
            columns=("response",),
            options={_INTERMEDIATE: "also check intermediate responses (default false)"},
            choices={_INTERMEDIATE: (False, True)},
        ),
        prepare=_prepare,
    ),
)
