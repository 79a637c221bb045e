"""Aggregation and parsing, compared with the installed ADK where both must agree."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from workbench.metrics.judges.hallucinations import LABELS
from workbench.metrics.judges.judge_calls import Sentence, by_majority, by_sentences
from workbench.metrics.judges.reply_parser import read_rubrics, read_verdict
from workbench.metrics.metric_types import Opinion, SentenceLabel
from workbench.model.results import SUPPORTED_LABELS

pytestmark = pytest.mark.needs_adk


def test_the_supported_labels_equal_those_of_adk() -> None:
    from google.adk.evaluation import hallucinations_v1 as adk

    assert SUPPORTED_LABELS == adk._POSITIVE_LABELS
    assert set(LABELS) - SUPPORTED_LABELS == adk._NEGATIVE_LABELS


@pytest.mark.parametrize("labels", list(product(LABELS, repeat=3)))
def test_one_sample_gives_the_same_share_of_sentences_as_in_adk(labels: tuple[str, ...]) -> None:
    from google.adk.evaluation import hallucinations_v1 as adk

    blocks = "\n\n".join(
        f"sentence: s{number}\nlabel: {label}\nrationale: r\nsupporting_excerpt: null\ncontradicting_excerpt: null"
        for number, label in enumerate(labels)
    )
    adk_scores = [
        float(result_block["label"] in adk._POSITIVE_LABELS) for result_block in adk._parse_validation_results(blocks)
    ]
    sentences = {number: Sentence(f"s{number}", 1) for number in range(3)}
    sentence_labels = {number: SentenceLabel(label) for number, label in enumerate(labels)}

    result = by_sentences([Opinion(sentences=sentence_labels)], sentences=sentences)

    assert result.score == pytest.approx(sum(adk_scores) / len(adk_scores))


@pytest.mark.parametrize("scores", [each for count in (1, 2, 3, 4) for each in product((1.0, 0.0, None), repeat=count)])
def test_messages_of_simulated_users_have_the_same_majority_as_in_adk(scores: tuple[float | None, ...]) -> None:
    from google.adk.evaluation.evaluator import PerInvocationResult
    from google.adk.evaluation.simulation.per_turn_user_simulator_quality_v1 import PerTurnUserSimulatorQualityV1

    adk: Any = PerTurnUserSimulatorQualityV1.__new__(PerTurnUserSimulatorQualityV1)
    turn = {"user_content": {"parts": [{"text": "?"}]}}
    adk_result = adk._aggregate_samples(
        [PerInvocationResult(actual_invocation=turn, score=score, eval_status=3) for score in scores]
    )

    result = by_majority([Opinion(score) for score in scores])

    assert result.score == adk_result.score


DECORATED = (
    "{}",
    "**{}**",
    "{}.",
    "{}, it is not short.",
    "{} - far too long",
    "{} (by the tool)",
    "✅ {}",
    "[{}]",
    "{}。",
)


@pytest.mark.parametrize("verdict", [form.format(word) for form in DECORATED for word in ("yes", "No", "YES", "no")])
@pytest.mark.parametrize(
    "key", ["Verdict: ", "**Verdict: ", "Final Verdict: ", "Rationale: it is. Verdict: ", "\tVerdict: "]
)
def test_verdicts_on_rubrics_are_read_as_in_adk(key: str, verdict: str) -> None:
    from google.adk.evaluation.rubric_based_evaluator import DefaultAutoRaterResponseParser

    rationale = "" if "Rationale" in key else "Rationale: r\n"
    reply = f"Property: Short.\n{rationale}{key}{verdict}\n\nProperty: Polite.\nRationale: r\nVerdict: yes\n"
    adk_rubrics = DefaultAutoRaterResponseParser().parse(reply)

    rubrics = read_rubrics(reply, {"s": "Short.", "p": "Polite."}).rubrics

    assert [score for score, _ in rubrics.values()] == [rubric_score.score for rubric_score in adk_rubrics]


@pytest.mark.parametrize("key", ["is_the_agent_response_valid", "is_the_agent_response_invalid"])
@pytest.mark.parametrize(
    "label", ['"valid"', '"invalid"', "true", "false", '"true"', '"false"', '["valid"]', '"almost"', '"?"']
)
def test_verdicts_on_responses_are_read_as_in_adk(key: str, label: str) -> None:
    from google.adk.evaluation.final_response_match_v2 import _parse_critique

    reply = f'```json\n{{\n"reasoning": "r",\n"{key}": {label}\n}}\n```'
    adk_score = {"valid": 1.0, "invalid": 0.0}.get(_parse_critique(reply).value)
    if key.endswith("invalid") and label in ('"valid"', '["valid"]', '"almost"', '"?"'):
        return  # ADK treats unreadable values as valid here

    assert read_verdict(reply).score == adk_score


@pytest.mark.parametrize("label", ["valid", "invalid", "Valid", "TRUE", "false", "almost", "perhaps"])
def test_verdicts_on_simulated_users_are_read_as_in_adk(label: str) -> None:
    from google.adk.evaluation.simulation.per_turn_user_simulator_quality_v1 import _parse_llm_response

    reply = f'{{"reasoning": "r", "is_valid": "{label}"}}'

    assert read_verdict(reply).score == {"valid": 1.0, "invalid": 0.0}.get(_parse_llm_response(reply).value)
