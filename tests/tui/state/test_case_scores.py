"""Judge output, as the Scores pane shows it."""

from __future__ import annotations

from typing import Any

import pytest

from workbench.model.results import (
    InvocationScore,
    Judgement,
    JudgeSample,
    MetricResult,
    MetricStatus,
    Preparation,
    SentenceScore,
)
from workbench.tui.state.case_scores import describe_judgements, describe_result, format_score
from workbench.tui.state.text_layout import render_blocks


def render_judgement(**judgement: Any) -> str:
    model = Judgement.model_validate({"model": "gemini", "prompt": "the prompt", **judgement})
    metric = MetricResult(
        name="m",
        score=0.5,
        threshold=1.0,
        status=MetricStatus.FAILED,
        per_invocation=(InvocationScore(score=0.5, judgement=model),),
    )
    lines = render_blocks(describe_judgements(metric), width=200, side_by_side=False)
    return "\n".join("".join(piece.text for piece in line) for line in lines)


def sentence(text: str, label: str | None, response: int = 1, **more: Any) -> SentenceScore:
    score = None if label is None else float(label == "supported")
    return SentenceScore(sentence=text, label=label, score=score, response=response, **more)


def test_each_sentence_has_its_label_votes_reason_and_evidence() -> None:
    votes = {"supported": 1, "not_applicable": 1, "unsupported": 3}

    text = render_judgement(
        sentences=[
            sentence("It is [red].", "supported", evidence="red"),
            sentence("It\x1b is free.", "unsupported", votes=votes, rationale="Not told."),
            sentence("So it is.", None),
        ]
    )

    assert "✓ supported  It is [red]." in text and "“red”" in text
    assert "1 supported, 1 not applicable, 3 unsupported  Not told." in text
    assert "✗ unsupported  It" in text and "\x1b" not in text
    assert "! no label  So it is." in text


def test_several_responses_are_numbered() -> None:
    text = render_judgement(sentences=[sentence("A.", "supported", 1), sentence("B.", "supported", 2)])

    assert text.index("response 1") < text.index("A.") < text.index("response 2") < text.index("B.")
    assert "response 1" not in render_judgement(sentences=[sentence("A.", "supported")])


def test_grades_are_shown_unchanged_with_their_spread() -> None:
    samples = [JudgeSample(score=1.0, rationale="bad"), JudgeSample(score=5.0, rationale="good")]

    text = render_judgement(samples=samples, best=5.0, spread=2.828)

    assert "sample 1   · 1  bad" in text
    assert "sample 2   ✓ 5  good" in text
    assert "±2.8" in text


def test_both_prompts_and_all_replies_are_shown_verbatim() -> None:
    tries = (JudgeSample(reply="prose", problem="the reply says nothing"), JudgeSample(reply="the split"))

    text = render_judgement(
        samples=[JudgeSample(reply="the labels")], preparation=Preparation(prompt="split!", tries=tries)
    )

    for word in ("the prompt", "the labels", "split!", "prose", "the split", "reply 2 to the preparing prompt"):
        assert word in text


def test_a_judge_that_failed_at_its_first_question_shows_that_question() -> None:
    tries = (JudgeSample(reply="prose", problem="the reply says nothing"),)

    text = render_judgement(prompt="", preparation=Preparation(prompt="split!", tries=tries))

    assert "split!" in text and "! the reply says nothing" in text


def test_a_verdict_with_missing_samples_says_so_in_its_heading() -> None:
    samples = (JudgeSample(score=1.0), JudgeSample(score=1.0), JudgeSample(problem="503"))
    model = Judgement(model="gemini", prompt="p", samples=samples)
    score = InvocationScore(score=1.0, judgement=model)
    metric = MetricResult(name="m", score=1.0, threshold=1.0, status=MetricStatus.PASSED, per_invocation=(score,))

    heading = render_blocks(describe_result(metric, ()), width=200, side_by_side=False)[0]

    assert "judged by 2 of 3 samples" in "".join(piece.text for piece in heading)


def test_a_turn_without_a_score_has_its_reason_after_a_blank() -> None:
    turns = (InvocationScore(score=1.0), InvocationScore(score=None, reason="the turn failed"))
    metric = MetricResult(name="m", score=1.0, threshold=1.0, status=MetricStatus.PASSED, per_invocation=turns)

    lines = render_blocks(describe_result(metric, ()), width=200, side_by_side=False)

    assert any("no score the turn failed" in "".join(piece.text for piece in line) for line in lines)


@pytest.mark.parametrize(
    ("name", "score", "shown"),
    [
        ("latency", 0.0406, "41 ms"),
        ("latency", 75.0, "75 s"),
        ("token_usage_v1", 12345.0, "12,345"),
        ("tool_call_count_v1", 0.0, "0"),
        ("tool_call_count_v1", 1.5, "1.50"),
    ],
)
def test_a_measure_is_a_time_or_a_count(name: str, score: float, shown: str) -> None:
    metric = MetricResult(name=name, score=score, threshold=None, status=MetricStatus.INFORMATIONAL)

    assert format_score(metric) == shown
    assert format_score(metric.model_copy(update={"threshold": 2.0, "status": MetricStatus.PASSED})) != shown
