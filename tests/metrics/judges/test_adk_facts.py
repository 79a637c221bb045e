"""Our arithmetic beside that of the installed ADK, where both decide alike."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from workbench.metrics.definition import Opinion, SentenceLabel
from workbench.metrics.judges.conclusions import Sentence, by_majority, by_sentences
from workbench.metrics.judges.sentences import LABELS
from workbench.model.results import STANDING

pytestmark = pytest.mark.needs_adk


def test_the_same_labels_may_stand() -> None:
    from google.adk.evaluation import hallucinations_v1 as adk

    assert STANDING == adk._POSITIVE_LABELS
    assert set(LABELS) - STANDING == adk._NEGATIVE_LABELS


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
