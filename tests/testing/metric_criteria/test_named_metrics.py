"""Named metrics of the SDK: same judges, documented scales, our prompts."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.engine.judged import serve_judge
from tests.llm.servers import Call, HttpResponse, gemini
from workbench.testing import (
    AutoraterConfig,
    EvalTask,
    EvaluationError,
    MetricPromptTemplateExamples,
    PairwiseMetric,
    PointwiseMetric,
    Rouge,
)

SCALES = {
    "coherence": (1, 5),
    "fluency": (1, 5),
    "safety": (0, 1),
    "groundedness": (0, 1),
    "instruction_following": (1, 5),
    "verbosity": (-2, 2),
    "text_quality": (1, 5),
    "summarization_quality": (1, 5),
    "question_answering_quality": (1, 5),
    "multi_turn_chat_quality": (1, 5),
    "multi_turn_safety": (0, 1),
    "fulfillment": (1, 5),
}
ROWS = {
    "prompt": ["sum up"],
    "response": ["in short"],
    "history": ["user: hello"],
    "baseline_model_response": ["at great length"],
}
ONCE = AutoraterConfig(sampling_count=1, flip_enabled=False)


def make_rater(score: float) -> Callable[[Call], HttpResponse]:
    return lambda call: gemini(json.dumps({"explanation": "so it is", "score": score}))


def read_prompt(call: Call) -> str:
    text: str = call.body["contents"][0]["parts"][0]["text"]
    return text


@pytest.mark.parametrize("name", SCALES)
def test_a_named_metric_is_judged_on_its_scale(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lowest, highest = SCALES[name]
    task = EvalTask(dataset=ROWS, metrics=[name], autorater_config=ONCE, history=False)

    with serve_judge(monkeypatch, make_rater(highest)) as server:
        (row,) = task.evaluate().rows
    assert (row[f"{name}/score"], row[f"{name}/explanation"]) == (highest, "so it is")
    prompt = read_prompt(server.calls[0])
    assert "<prompt>\nsum up\n</prompt>" in prompt
    assert "<response>\nin short\n</response>" in prompt
    assert ("<history>\nuser: hello\n</history>" in prompt) is name.startswith("multi_turn")

    for invalid_score in (lowest - 1, highest + 1):
        with serve_judge(monkeypatch, make_rater(invalid_score)):
            result = task.evaluate()
        assert result.rows[0][f"{name}/score"] is None
        assert result.problems[0].status == "ERROR"


@pytest.mark.parametrize("name", [f"pairwise_{name}" for name in SCALES])
def test_a_named_comparison_takes_the_baseline_from_its_column(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def choose(call: Call) -> HttpResponse:
        prompt = read_prompt(call)
        first = prompt.index("at great length") < prompt.index("in short")
        return gemini(json.dumps({"explanation": "shorter", "pairwise_choice": "B" if first else "A"}))

    task = EvalTask(dataset=ROWS, metrics=[name], autorater_config=AutoraterConfig(sampling_count=2), history=False)

    with serve_judge(monkeypatch, choose):
        result = task.evaluate()

    assert result.rows[0][f"{name}/pairwise_choice"] == "CANDIDATE"
    assert result.summary_metrics[f"{name}/candidate_model_win_rate"] == 1.0


def test_examples_are_available_as_metrics_and_as_templates(monkeypatch: pytest.MonkeyPatch) -> None:
    examples = MetricPromptTemplateExamples
    names = examples.list_example_metric_names()
    text = examples.get_prompt_template("pairwise_fluency")
    own_metric = PointwiseMetric(
        metric="mine", metric_prompt_template=examples.get_prompt_template("coherence").replace("train", "line")
    )

    assert names == [*SCALES, *(f"pairwise_{name}" for name in SCALES)]
    assert isinstance(examples.Pointwise.MULTI_TURN_SAFETY, PointwiseMetric)
    assert isinstance(examples.Pairwise.GROUNDEDNESS, PairwiseMetric)
    assert all(f"{{{name}}}" in text for name in ("prompt", "baseline_model_response", "response"))
    with serve_judge(monkeypatch, make_rater(4)) as server:
        metrics = [own_metric, examples.Pointwise.VERBOSITY]
        (row,) = EvalTask(dataset=ROWS, metrics=metrics, autorater_config=ONCE, history=False).evaluate().rows
    assert row["mine/score"] == 4
    assert row["verbosity/score"] is None  # 4 is not one of its ratings
    assert any("line of thought" in read_prompt(call) and "in short" in read_prompt(call) for call in server.calls)


def test_unknown_metric_names_and_missing_columns_are_reported() -> None:
    with pytest.raises(EvaluationError, match="did you mean 'coherence'"):
        MetricPromptTemplateExamples.get_prompt_template("coherense")
    with pytest.raises(EvaluationError, match=r"'coherence' \(did you mean that\?\)"):
        EvalTask(dataset=ROWS, metrics=["coherense"])
    with pytest.raises(EvaluationError, match="expected history for multi_turn_safety"):
        EvalTask(dataset={"prompt": ["p"], "response": ["r"]}, metrics=["multi_turn_safety"]).evaluate()


def test_rouge_has_the_column_and_the_stemmer_of_the_sdk() -> None:
    dataset = {"response": ["the lights are turned off"], "reference": ["the light is turned off"]}

    plain, stemmed = (
        EvalTask(dataset=dataset, metrics=[Rouge(rouge_type="rouge1", use_stemmer=stemmer)], history=False).evaluate()
        for stemmer in (False, True)
    )

    assert plain.rows[0]["rouge/score"] == pytest.approx(0.6)
    assert stemmed.rows[0]["rouge/score"] == pytest.approx(0.8)
    assert stemmed.summary_metrics["rouge/mean"] == stemmed.rows[0]["rouge/score"]


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        (
            [Rouge(rouge_type="rouge10")],
            "found 'rouge10' as rouge_type, expected one of rouge1, rouge2",
        ),
        ([Rouge(rouge_type="rougeLsum", split_summaries=True)], "found split_summaries"),
        ([Rouge(rouge_type="rouge1"), Rouge(rouge_type="rouge2")], "found 'rouge' twice"),
        ([Rouge(rouge_type="rouge1"), "rouge_1"], "found 'rouge' and 'rouge_1', which are both rouge_1"),
        (["rouge_1", Rouge(rouge_type="rouge1")], "found 'rouge_1' and 'rouge', which are both rouge_1"),
        ([Rouge(rouge_type=["x"])], "found a list as rouge_type, expected one of rouge1"),  # type: ignore[arg-type]
    ],
)
def test_invalid_rouge_options_are_refused(metrics: list[Rouge | str], message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        EvalTask(dataset={}, metrics=metrics)
