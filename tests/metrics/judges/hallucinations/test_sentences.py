"""Replies that split responses or label sentences, in all formats: accepted or refused."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.metrics.judges.hallucinations import read_labels, read_split
from workbench.metrics.judges.judge_calls import Sentence
from workbench.metrics.metric_types import UnreadableReply

RESPONSE = "Hello! The lamp is on:\n* kitchen, 40 W\n* hall, 60 W"
SPLIT = ["Hello!", "The lamp is on:", "* kitchen, 40 W", "* hall, 60 W"]
SENTENCES = {1: Sentence("Apples are red.", 1), 2: Sentence("Bananas are green.", 1)}


def format_split(*responses: list[Any]) -> str:
    return json.dumps(
        {"responses": [{"number": n, "sentences": sentences} for n, sentences in enumerate(responses, start=1)]}
    )


@pytest.mark.parametrize(
    "reply",
    [
        format_split(SPLIT),
        f"```json\n{format_split(SPLIT)}\n```",
        json.dumps({"sentences": SPLIT}),
        json.dumps({"responses": [{"sentences": [{"sentence": text} for text in SPLIT]}]}),
        "\n".join(f"<sentence>{text}</sentence>" for text in SPLIT),
        format_split(["HELLO", "the lamp is on", "kitchen 40 W", "hall 60 W", "---"]),
    ],
)
def test_the_sentences_of_a_response_are_read(reply: str) -> None:
    sentences = read_split(reply, [RESPONSE])

    assert list(sentences) == [1, 2, 3, 4]
    assert {sentence.response for sentence in sentences.values()} == {1}


def test_sentences_of_several_responses_are_numbered_consecutively() -> None:
    sentences = read_split(
        format_split(["Let me look."], ["Es regnet.", "明日は晴れです。"]),
        ["Let me look.", "Es regnet. 明日は晴れです。"],
    )

    assert [(number, sentence.response) for number, sentence in sentences.items()] == [(1, 1), (2, 2), (3, 2)]


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("The response has four sentences.", "does not say the sentences of the response"),
        ("", "does not say the sentences of the response"),
        (format_split(SPLIT)[:-20], "does not say the sentences of the response"),
        (format_split([]), "does not say the sentences of the response"),
        (format_split([*SPLIT, "The lamp is green."]), "a sentence that is not in response 1: The lamp is green"),
        (format_split(SPLIT[:2]), "leaves out 52% of response 1"),
    ],
)
def test_a_reply_that_does_not_split_the_response_is_refused(reply: str, problem: str) -> None:
    with pytest.raises(UnreadableReply, match=problem):
        read_split(reply, [RESPONSE])


def format_labels(*words: str, **fields: Any) -> str:
    return json.dumps({"sentences": [{"number": n, "label": word, **fields} for n, word in enumerate(words, start=1)]})


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (format_labels("supported", "contradictory"), ["supported", "contradictory"]),
        (format_labels("Supported.", "`CONTRADICTORY`"), ["supported", "contradictory"]),
        (format_labels("not applicable", "N/A"), ["not_applicable", "not_applicable"]),
        (format_labels("not_applicable", "disputed"), ["not_applicable", "disputed"]),
        (format_labels("supported", "Unsupported."), ["supported", "unsupported"]),
        (f"Sure:\n```json\n{format_labels('supported', 'disputed')}\n```", ["supported", "disputed"]),
        ('{"1": "supported", "2": {"label": "unsupported"}}', ["supported", "unsupported"]),
        (format_labels("supported (by tool output)", "not supported - no source"), ["supported", "unsupported"]),
        (format_labels("✅ supported", "Label: contradictory"), ["supported", "contradictory"]),
        (format_labels("supported by the tool", "unsupported, as it is new"), ["supported", "unsupported"]),
        (format_labels("supported\nEvidence: red", "不适用"), ["supported", "not_applicable"]),
        ("sentence：Apples are red.\nlabel：supported", ["supported", None]),
        (format_labels("supported", "supported/unsupported"), ["supported", None]),
        (f"{format_labels('supported', 'disputed')} {format_labels('supported', 'supported')}", ["supported", None]),
        (format_labels("supported", "supported by one tool, contradicted by another"), ["supported", None]),
        (format_labels("supported", "perhaps"), ["supported", None]),
        (format_labels("supported", "gestützt"), ["supported", None]),
        (format_labels("supported", "disputed")[:-15], ["supported", None]),
        (
            "sentence: Apples are red.\nlabel: supported\nrationale: r\nsupporting_excerpt: red\n"
            "contradicting_excerpt: null\n\nsentence: Bananas are green.\nlabel: contradictory\nrationale: r",
            ["supported", "contradictory"],
        ),
        (
            json.dumps({"sentences": [{"sentence": "bananas are green", "label": "disputed"}]}),
            [None, "disputed"],
        ),
    ],
)
def test_labels_are_read_by_the_number_of_their_sentence(reply: str, expected: list[str | None]) -> None:
    opinion = read_labels(reply, SENTENCES)

    labels = [opinion.sentences[number].label if number in opinion.sentences else None for number in SENTENCES]
    assert labels == expected
    assert (opinion.score is None) == (None in expected)
    assert opinion.problem is None


@pytest.mark.parametrize("reply", ["", "All of it is supported.", "{", format_labels("ja", "nein"), "[]", "{" * 5_000])
def test_a_reply_without_labels_has_a_problem_and_no_score(reply: str) -> None:
    opinion = read_labels(reply, SENTENCES)

    assert (opinion.score, opinion.sentences) == (None, {})
    assert "does not say a label for each sentence" in (opinion.problem or "")


def test_the_evidence_is_stored_and_null_means_none() -> None:
    with_evidence = read_labels(
        format_labels("disputed", supporting_excerpt="red", contradicting_excerpt="blue"), SENTENCES
    )
    without_evidence = read_labels(
        format_labels("unsupported", supporting_excerpt="null", contradicting_excerpt=None), SENTENCES
    )

    assert with_evidence.sentences[1].evidence == "red / blue"
    assert without_evidence.sentences[1].evidence == ""


@given(st.text())
def test_any_reply_is_read_without_an_unexpected_exception(reply: str) -> None:
    read_labels(reply, SENTENCES)
    with suppress(UnreadableReply):
        read_split(reply, [RESPONSE])
