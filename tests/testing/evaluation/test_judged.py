"""Metrics with a judge model: the engine's judges under the names of the SDK."""

from __future__ import annotations

import json
from itertools import chain, repeat

import pytest

from tests.engine.judged import serve_judge
from tests.llm.servers import Call, HttpResponse, gemini, gemini_error
from workbench.testing import (
    AutoraterConfig,
    EvalTask,
    EvaluationError,
    PairwiseMetric,
    PairwiseMetricPromptTemplate,
    PointwiseMetric,
    PointwiseMetricPromptTemplate,
)

RATING = PointwiseMetricPromptTemplate(criteria={"Short": "Is it short?"}, rating_rubric={"1": "yes", "0": "no"})
CHOICE = PairwiseMetricPromptTemplate(
    criteria={"Loud": "Which is louder?"}, rating_rubric={"A": "the first", "SAME": "neither", "B": "the second"}
)
TWICE = AutoraterConfig(sampling_count=2)


def read_prompt(call: Call) -> str:
    text: str = call.body["contents"][0]["parts"][0]["text"]
    return text


def choose_louder(call: Call) -> HttpResponse:
    """Choose the response in capitals, wherever it is in the prompt."""
    prompt = read_prompt(call)
    choice = "A" if prompt.index("HELLO") < prompt.index("hello") else "B"
    return gemini(json.dumps({"explanation": "it is louder", "pairwise_choice": choice}))


def test_a_comparison_with_a_baseline_model_has_win_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    metric = PairwiseMetric(
        metric="louder",
        metric_prompt_template=CHOICE,
        baseline_model=lambda prompt: "hello",
        autorater_config=TWICE,
    )
    task = EvalTask(dataset={"prompt": ["greet"]}, metrics=[metric])

    with serve_judge(monkeypatch, choose_louder) as server:
        result = task.evaluate(runnable=lambda prompt: "HELLO")

    assert len(server.calls) == 2  # one of them with swapped responses
    assert result.rows[0]["baseline_model_response"] == "hello"
    assert result.rows[0]["louder/pairwise_choice"] == "CANDIDATE"
    assert result.rows[0]["louder/explanation"] == "it is louder"
    assert result.summary_metrics["louder/candidate_model_win_rate"] == 1.0
    assert result.summary_metrics["louder/baseline_model_win_rate"] == 0.0
    assert "louder/mean" not in result.summary_metrics


def test_a_failing_baseline_fails_only_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def baseline(prompt: str) -> str:
        raise OSError("no such model")

    metric = PairwiseMetric(metric="louder", metric_prompt_template=CHOICE, baseline_model=baseline)

    with serve_judge(monkeypatch, choose_louder) as server:
        result = EvalTask(dataset={"prompt": ["greet"], "response": ["HELLO"]}, metrics=[metric]).evaluate()

    assert server.calls == []
    assert result.rows[0]["louder/pairwise_choice"] is None
    assert result.problems[0].column == "baseline_model_response"
    assert result.problems[1].column == "louder/pairwise_choice"
    assert {problem[2:] for problem in result.problems} == {("ERROR", "OSError: no such model")}


def test_errors_are_reported_in_one_warning_with_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def agent(prompt: str) -> str:
        if prompt == "a":
            raise OSError("no such model")
        return prompt

    metric = PointwiseMetric(metric="short", metric_prompt_template=RATING, autorater_config=TWICE)
    task = EvalTask(dataset={"prompt": ["a", "b", "c"], "reference": ["a", "b", "c"]}, metrics=[metric, "exact_match"])

    with (
        serve_judge(monkeypatch, lambda call: gemini_error(401, "no such key")),
        pytest.warns(UserWarning) as caught,
    ):
        task.evaluate(runnable=agent)

    texts = [str(each.message) for each in caught if each.category is UserWarning]
    (text,) = [text for text in texts if "values are missing because of errors" in text]
    assert text.startswith("values are missing because of errors: response, latency_in_seconds, ")
    assert ", exact_match: 1 of 3 rows (OSError: no such model); " in text
    assert "short: 3 of 3 rows (" in text
    assert text.endswith("; see `problems` of the result")


def test_the_warning_lists_the_most_frequent_reasons() -> None:
    def agent(prompt: str) -> str:
        raise OSError("no such model" if prompt == "a" else "no key")

    task = EvalTask(dataset={"prompt": ["a", "b", "c"], "reference": ["a", "b", "c"]}, metrics=["exact_match"])

    with pytest.warns(UserWarning, match=r"exact_match: 3 of 3 rows \(2: OSError: no key; 1: OSError: no such model\)"):
        task.evaluate(runnable=agent)


def test_missing_samples_are_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    score, down = gemini('{"score": 1}'), gemini_error(400, "down")
    answers = chain([score, down, score, score], repeat(down))  # a refused request is sent again in a plainer form
    metric = PointwiseMetric(metric="short", metric_prompt_template=RATING, autorater_config=TWICE)
    task = EvalTask(dataset={"prompt": ["a", "b"], "response": ["x", "y"]}, metrics=[metric])

    with serve_judge(monkeypatch, lambda call: next(answers)), pytest.warns(UserWarning) as caught:
        result = task.evaluate()

    assert result.summary_metrics["short/mean"] == 1.0
    (text,) = [str(each.message) for each in caught if each.category is UserWarning]
    assert text == "1 row judged by fewer samples than asked"


def test_a_refused_judge_call_is_an_error_of_its_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    metric = PointwiseMetric(metric="short", metric_prompt_template=RATING, autorater_config=TWICE)
    task = EvalTask(dataset={"prompt": ["p"], "response": ["r"], "reference": ["r"]}, metrics=[metric, "exact_match"])

    with serve_judge(monkeypatch, lambda call: gemini_error(401, "no such key")):
        result = task.evaluate()

    assert result.rows[0]["short/score"] is None
    empty = [(problem.column, problem.status) for problem in result.problems]
    assert empty == [("short/score", "ERROR"), ("short/explanation", "ERROR")]
    assert result.summary_metrics["exact_match/mean"] == 1.0


def test_braces_in_a_row_are_not_variables_of_the_judge_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    metric = PointwiseMetric(
        metric="short", metric_prompt_template="Rate {response} for {prompt}", autorater_config=TWICE
    )
    task = EvalTask(dataset={"prompt": ["{secret}"], "response": ["{prompt}"], "secret": ["hidden"]}, metrics=[metric])

    with serve_judge(monkeypatch, lambda call: gemini('{"score": 3, "explanation": "e"}')) as server:
        result = task.evaluate()

    assert all("Rate {prompt} for {secret}" in read_prompt(call) for call in server.calls)
    assert result.rows[0]["short/score"] == 3.0


def test_a_template_variable_without_a_column_is_refused() -> None:
    metric = PointwiseMetric(metric="short", metric_prompt_template="Rate {respons}")

    with pytest.raises(EvaluationError, match="respons"):
        EvalTask(dataset={"prompt": ["p"], "response": ["r"]}, metrics=[metric]).evaluate()


def test_an_invalid_rubric_is_refused_at_once() -> None:
    invalid_template = PointwiseMetricPromptTemplate(criteria={"c": "d"}, rating_rubric={"good": "x", "bad": "y"})

    with pytest.raises(EvaluationError, match="a number as the name of a rating"):
        EvalTask(dataset={}, metrics=[PointwiseMetric(metric="m", metric_prompt_template=invalid_template)])
