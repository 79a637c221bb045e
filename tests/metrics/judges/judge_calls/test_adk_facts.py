"""Our arithmetic beside that of the installed ADK, where both decide alike."""

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


def test_the_same_labels_may_stand() -> None:
    from google.adk.evaluation import hallucinations_v1 as adk

    assert SUPPORTED_LABELS == adk._POSITIVE_LABELS
    assert set(LABELS) - SUPPORTED_LABELS == adk._NEGATIVE_LABELS


@pytest.mark.parametrize("labels", list(product(LABELS, repeat=3)))
def test_one_sample_has_the_same_share_of_sentences(labels: tuple[str, ...]) -> None:
    from google.adk.evaluation import hallucinations_v1 as adk

    blocks = "\n\n".join(
        f"sentence: s{number}\nlabel: {label}\nrationale: r\nsupporting_excerpt: null\ncontradicting_excerpt: null"
        for number, label in enumerate(labels)
    )
    theirs = [float(each["label"] in adk._POSITIVE_LABELS) for each in adk._parse_validation_results(blocks)]
    sentences = {number: Sentence(f"s{number}", 1) for number in range(3)}
    said = {number: SentenceLabel(label) for number, label in enumerate(labels)}

    ours = by_sentences([Opinion(sentences=said)], sentences=sentences)

    assert ours.score == pytest.approx(sum(theirs) / len(theirs))


@pytest.mark.parametrize("scores", [each for count in (1, 2, 3, 4) for each in product((1.0, 0.0, None), repeat=count)])
def test_messages_of_a_simulated_user_go_by_the_same_majority(scores: tuple[float | None, ...]) -> None:
    from google.adk.evaluation.evaluator import PerInvocationResult
    from google.adk.evaluation.simulation.per_turn_user_simulator_quality_v1 import PerTurnUserSimulatorQualityV1

    adk: Any = PerTurnUserSimulatorQualityV1.__new__(PerTurnUserSimulatorQualityV1)
    turn = {"user_content": {"parts": [{"text": "?"}]}}
    theirs = adk._aggregate_samples(
        [PerInvocationResult(actual_invocation=turn, score=score, eval_status=3) for score in scores]
    )

    ours = by_majority([Opinion(score) for score in scores])

    assert ours.score == theirs.score


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
def test_verdicts_on_rubrics_are_read_alike(key: str, verdict: str) -> None:
    from google.adk.evaluation.rubric_based_evaluator import DefaultAutoRaterResponseParser

    rationale = "" if "Rationale" in key else "Rationale: r\n"
    reply = f"Property: Short.\n{rationale}{key}{verdict}\n\nProperty: Polite.\nRationale: r\nVerdict: yes\n"
    theirs = DefaultAutoRaterResponseParser().parse(reply)

    ours = read_rubrics(reply, {"s": "Short.", "p": "Polite."}).rubrics

    assert [score for score, _ in ours.values()] == [each.score for each in theirs]


@pytest.mark.parametrize("key", ["is_the_agent_response_valid", "is_the_agent_response_invalid"])
@pytest.mark.parametrize(
    "label", ['"valid"', '"invalid"', "true", "false", '"true"', '"false"', '["valid"]', '"almost"', '"?"']
)
def test_verdicts_on_responses_are_read_alike(key: str, label: str) -> None:
    from google.adk.evaluation.final_response_match_v2 import _parse_critique

    reply = f'```json\n{{\n"reasoning": "r",\n"{key}": {label}\n}}\n```'
    theirs = {"valid": 1.0, "invalid": 0.0}.get(_parse_critique(reply).value)
    if key.endswith("invalid") and label in ('"valid"', '["valid"]', '"almost"', '"?"'):
        return  # ADK takes whatever it cannot read for valid here

    assert read_verdict(reply).score == theirs


@pytest.mark.parametrize("label", ["valid", "invalid", "Valid", "TRUE", "false", "almost", "perhaps"])
def test_verdicts_on_simulated_users_are_read_alike(label: str) -> None:
    from google.adk.evaluation.simulation.per_turn_user_simulator_quality_v1 import _parse_llm_response

    reply = f'{{"reasoning": "r", "is_valid": "{label}"}}'

    assert read_verdict(reply).score == {"valid": 1.0, "invalid": 0.0}.get(_parse_llm_response(reply).value)
