"""How judges split responses and label sentences, in all the ways they do: what is read, and what is refused."""

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


def split(*responses: list[Any]) -> str:
    return json.dumps({"responses": [{"number": n, "sentences": each} for n, each in enumerate(responses, start=1)]})


@pytest.mark.parametrize(
    "reply",
    [
        split(SPLIT),
        f"```json\n{split(SPLIT)}\n```",
        json.dumps({"sentences": SPLIT}),
        json.dumps({"responses": [{"sentences": [{"sentence": text} for text in SPLIT]}]}),
        "\n".join(f"<sentence>{text}</sentence>" for text in SPLIT),
        split(["HELLO", "the lamp is on", "kitchen 40 W", "hall 60 W", "---"]),
    ],
)
def test_the_sentences_of_a_response_are_read(reply: str) -> None:
    sentences = read_split(reply, [RESPONSE])

    assert list(sentences) == [1, 2, 3, 4]
    assert {sentence.response for sentence in sentences.values()} == {1}


def test_sentences_of_several_responses_are_numbered_through() -> None:
    sentences = read_split(
        split(["Let me look."], ["Es regnet.", "明日は晴れです。"]), ["Let me look.", "Es regnet. 明日は晴れです。"]
    )

    assert [(number, each.response) for number, each in sentences.items()] == [(1, 1), (2, 2), (3, 2)]


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("The response has four sentences.", "does not say the sentences of the response"),
        ("", "does not say the sentences of the response"),
        (split(SPLIT)[:-20], "does not say the sentences of the response"),
        (split([]), "does not say the sentences of the response"),
        (split([*SPLIT, "The lamp is green."]), "a sentence that is not in response 1: The lamp is green"),
        (split(SPLIT[:2]), "leaves out 52% of response 1"),
    ],
)
def test_what_is_no_split_of_the_response_is_refused(reply: str, problem: str) -> None:
    with pytest.raises(UnreadableReply, match=problem):
        read_split(reply, [RESPONSE])


def labels(*said: str, **more: Any) -> str:
    return json.dumps({"sentences": [{"number": n, "label": word, **more} for n, word in enumerate(said, start=1)]})


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (labels("supported", "contradictory"), ["supported", "contradictory"]),
        (labels("Supported.", "`CONTRADICTORY`"), ["supported", "contradictory"]),
        (labels("not applicable", "N/A"), ["not_applicable", "not_applicable"]),
        (labels("not_applicable", "disputed"), ["not_applicable", "disputed"]),
        (labels("supported", "Unsupported."), ["supported", "unsupported"]),
        (f"Sure:\n```json\n{labels('supported', 'disputed')}\n```", ["supported", "disputed"]),
        ('{"1": "supported", "2": {"label": "unsupported"}}', ["supported", "unsupported"]),
        (labels("supported (by tool output)", "not supported - no source"), ["supported", "unsupported"]),
        (labels("✅ supported", "Label: contradictory"), ["supported", "contradictory"]),
        (labels("supported by the tool", "unsupported, as it is new"), ["supported", "unsupported"]),
        (labels("supported\nEvidence: red", "不适用"), ["supported", "not_applicable"]),
        ("sentence：Apples are red.\nlabel：supported", ["supported", None]),
        (labels("supported", "supported/unsupported"), ["supported", None]),
        (f"{labels('supported', 'disputed')} {labels('supported', 'supported')}", ["supported", None]),
        (labels("supported", "supported by one tool, contradicted by another"), ["supported", None]),
        (labels("supported", "perhaps"), ["supported", None]),
        (labels("supported", "gestützt"), ["supported", None]),
        (labels("supported", "disputed")[:-15], ["supported", None]),
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

    said = [opinion.sentences[number].label if number in opinion.sentences else None for number in SENTENCES]
    assert said == expected
    assert (opinion.score is None) == (None in expected)
    assert opinion.problem is None


@pytest.mark.parametrize("reply", ["", "All of it is supported.", "{", labels("ja", "nein"), "[]", "{" * 5_000])
def test_a_reply_without_labels_is_a_problem_and_no_score(reply: str) -> None:
    opinion = read_labels(reply, SENTENCES)

    assert (opinion.score, opinion.sentences) == (None, {})
    assert "does not say a label for each sentence" in (opinion.problem or "")


def test_the_evidence_is_kept_and_null_is_none() -> None:
    said = read_labels(labels("disputed", supporting_excerpt="red", contradicting_excerpt="blue"), SENTENCES)
    none = read_labels(labels("unsupported", supporting_excerpt="null", contradicting_excerpt=None), SENTENCES)

    assert said.sentences[1].evidence == "red / blue"
    assert none.sentences[1].evidence == ""


@given(st.text())
def test_no_reply_breaks_the_reading(reply: str) -> None:
    read_labels(reply, SENTENCES)
    with suppress(UnreadableReply):
        read_split(reply, [RESPONSE])
