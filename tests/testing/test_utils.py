"""Replies that write and answer rubrics, and the constants of the SDK."""

from __future__ import annotations

import pytest

from workbench.testing import constants
from workbench.testing.utils import (
    UnreadableRubrics,
    parse_pairwise_rubric_result,
    parse_pointwise_rubric_result,
    parse_question_blocks,
    parse_rubrics,
)

YES = "<question>\nQuestion: Short?\nVerdict: **Yes**, it is\n</question>"
NO = "<question>\nSTEP 1: Short?\nVerdict: no\n</question>"


@pytest.mark.parametrize("reply", ['```json\n{"questions": ["a"]}\n```', '{"questions": ["a"]}', '["a"]'])
def test_questions_are_read(reply: str) -> None:
    assert parse_rubrics(reply) == {"questions": ["a"]}


@pytest.mark.parametrize("reply", ["nothing", "```json\nnothing\n```", "7"])
def test_a_reply_without_questions_is_an_error(reply: str) -> None:
    with pytest.raises(UnreadableRubrics):
        parse_rubrics(reply)


def test_answers_are_counted_by_majority() -> None:
    assert parse_pointwise_rubric_result([YES, YES, NO])["score"] == 1.0
    assert parse_pointwise_rubric_result([YES, NO])["score"] == 0.0
    assert parse_pointwise_rubric_result(["I cannot say"])["score"] is None


def test_quotations_in_a_reason_are_neither_question_nor_verdict() -> None:
    said = 'Question: Polite?\nReason: It only says "Question: why?" and "Verdict: yes".\nVerdict: no\n'

    assert parse_question_blocks(f"<question>\n{said}</question>") == [("Polite?", False)]
    assert parse_question_blocks('<question>\nQuestion: Q?\nReason: says "Verdict: yes".\n</question>') == []
    rated = parse_pairwise_rubric_result(["A says [[SxSRating: B>>A]].\n[[SxSRating: A>B]]"])
    assert rated["pairwise_choice"] == "BASELINE"


@pytest.mark.parametrize(
    ("rating", "score", "choice"),
    [
        ("B>>A", 1.0, "CANDIDATE"),
        ("B < A", -0.5, "BASELINE"),
        ("A=B", 0.0, "TIE"),
        ("A<>B", None, None),
    ],
)
def test_a_comparison_is_read(rating: str, score: float | None, choice: str | None) -> None:
    answers = f"[[Response A Answers:]]{NO}[[Rubric Score: 0]][[Response B Answers:]]{YES}[[Rubric Score: 1]]"
    reply = f"{answers}[[SxSRating: {rating}]]"

    read = parse_pairwise_rubric_result([reply])

    assert (read["score"], read["pairwise_choice"]) == (score, choice)
    assert read["baseline_rubric_verdict_pairs"] == "Short?: False"
    assert read["candidate_rubric_verdict_pairs"] == "Short?: True"


def test_constants_are_the_names_of_metrics_and_columns() -> None:
    assert constants.Metric.ROUGE_L_SUM == "rouge_l_sum"
    assert constants.Dataset.PROMPT_COLUMN == "prompt"
