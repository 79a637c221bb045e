"""Models by name: answered, compared and asked for rubrics through the model client."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine.judged import serve_judge
from tests.llm.servers import Call, HttpResponse, gemini, gemini_error
from workbench.testing import (
    AutoraterConfig,
    CustomMetric,
    CustomOutputConfig,
    EvalTask,
    EvaluationError,
    PairwiseMetric,
    PointwiseMetric,
    PredefinedRubricMetrics,
    PromptTemplate,
    RubricBasedMetric,
    RubricGenerationConfig,
)
from workbench.testing.callables import ModelAgent, make_model_agent

ONCE = AutoraterConfig(sampling_count=1)
PROMPTS = {"prompt": ["one", "two"]}


def read_prompt(call: Call) -> str:
    text: str = call.body["contents"][0]["parts"][0]["text"]
    return text


def echo(call: Call) -> HttpResponse:
    """Answer with the name of the model and the prompt."""
    model = call.path.rpartition("/")[2].partition(":")[0]
    return gemini(f"{model}: {read_prompt(call)}")


def make_raw_metric(parse: Callable[[list[str]], object] | None, *, template: str = "{response}?") -> PointwiseMetric:
    return PointwiseMetric(
        metric="raw",
        metric_prompt_template=template,
        custom_output_config=CustomOutputConfig(return_raw_output=True, parsing_fn=parse),  # type: ignore[arg-type]
    )


def test_a_model_by_name_answers_every_prompt_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    task = EvalTask(dataset={"question": ["one"], "reference": ["gemini-x: <one>"]}, metrics=["exact_match"])

    with serve_judge(monkeypatch, echo) as server:
        for _ in range(2):
            result = task.evaluate(model="gemini-x", prompt_template=PromptTemplate("<{question}>"))

    assert len(server.calls) == 2  # replies of the model under test are not taken from the cache
    assert result.summary_metrics["exact_match/mean"] == 1.0
    assert result.rows[0]["response"] == "gemini-x: <one>"
    assert result.rows[0]["latency_in_seconds"] > 0


def test_a_baseline_model_by_name_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(call: Call) -> HttpResponse:
        return gemini(json.dumps({"pairwise_choice": "B"})) if "pairwise_choice" in read_prompt(call) else echo(call)

    metric = PairwiseMetric(
        metric="better",
        metric_prompt_template="{prompt} {baseline_model_response} {response}",
        baseline_model="gemini-old",
        autorater_config=ONCE,
    )
    with serve_judge(monkeypatch, answer):
        result = EvalTask(dataset={"prompt": ["one"]}, metrics=[metric]).evaluate(model="gemini-new")

    assert (result.rows[0]["baseline_model_response"], result.rows[0]["response"]) == (
        "gemini-old: one",
        "gemini-new: one",
    )
    assert result.summary_metrics["better/candidate_model_win_rate"] == 1.0


def test_an_outage_of_the_model_is_an_error_and_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    task = EvalTask(dataset={**PROMPTS, "reference": ["a", "b"]}, metrics=["exact_match"])

    with serve_judge(monkeypatch, lambda call: gemini_error(401, "no such key")), pytest.warns(UserWarning):
        result = task.evaluate(model="gemini-x")

    assert [row["exact_match/score"] for row in result.rows] == [None, None]
    assert {problem.status for problem in result.problems} == {"ERROR"}
    assert "the key was not accepted" in result.problems[0].reason


def test_answers_comparisons_and_judges_share_one_budget(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "workbench.toml").write_text("[judge]\nmax_calls = 3\n", encoding="utf-8")
    metric = PairwiseMetric(
        metric="better", metric_prompt_template="{baseline_model_response} {response}", baseline_model="gemini-old"
    )

    with serve_judge(monkeypatch, echo) as server, pytest.warns(UserWarning, match="budget of 3 model calls"):
        result = EvalTask(dataset=PROMPTS, metrics=[metric]).evaluate(model="gemini-new", concurrency=1)

    assert len(server.calls) == 3  # two of the baseline, one of the model
    assert result.rows[1]["response"] is None


def test_a_model_of_another_vendor_gets_its_provider_and_an_empty_name_is_refused() -> None:
    agent = make_model_agent("gpt-4o")

    assert isinstance(agent, ModelAgent)
    assert agent.name == "openai/gpt-4o"
    with pytest.raises(EvaluationError, match="expected the name of a model"):
        EvalTask(dataset=PROMPTS, metrics=["bleu"]).evaluate(model=" ")


@pytest.mark.parametrize(
    "image",
    [
        '{"contents": [{"parts": [{"file_data": {"file_uri": "gs://b/i.png"}}]}]}',
        {"parts": [{"inlineData": {"data": "aGk=", "mimeType": "image/png"}}]},
        'contents { parts { file_data { file_uri: "gs://b/i.png" } } }',
    ],
)
def test_images_are_refused_where_a_model_would_have_to_see_them(image: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = {"prompt": ["one"], "image": [image], "response": ["r"], "reference": ["r"]}
    judge = PointwiseMetric(metric="m", metric_prompt_template="{image} {response}")
    message = "row 1: image: found a file, such as an image, expected text"

    for metric in (judge, make_raw_metric(None, template="{image} {response}")):
        with pytest.raises(EvaluationError, match=message):
            EvalTask(dataset=dataset, metrics=[metric]).evaluate()
    with pytest.raises(EvaluationError, match="row 1: prompt: found a file"):
        EvalTask(dataset={"image": [image], "reference": ["r"]}, metrics=["bleu"]).evaluate(
            model="gemini-x", prompt_template="{image}"
        )
    assert EvalTask(dataset=dataset, metrics=["exact_match"]).evaluate().summary_metrics["exact_match/mean"] == 1.0


def test_braces_of_values_in_a_judge_template_are_no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    template = PromptTemplate("{style} and {{x}}: {response}").assemble(style="like {reference}")
    metrics = [
        PointwiseMetric(metric="rated", metric_prompt_template=template),
        PointwiseMetric(
            metric="raw",
            metric_prompt_template=template,
            custom_output_config=CustomOutputConfig(return_raw_output=True),
        ),
    ]
    dataset = {"response": ["r"], "reference": ["secret"]}

    with serve_judge(monkeypatch, lambda call: gemini('{"score": 1}')) as server:
        EvalTask(dataset=dataset, metrics=metrics, autorater_config=ONCE).evaluate()

    assert len(server.calls) == 2
    for call in server.calls:
        assert "like {reference} and {x}: r" in read_prompt(call)
        assert "secret" not in read_prompt(call)


def test_a_text_that_mentions_files_is_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = {"prompt": ['What does "file_data": mean, or inlineData: {...}?']}

    with serve_judge(monkeypatch, echo):
        result = EvalTask(dataset=dataset, metrics=[CustomMetric("m", lambda row: 1)]).evaluate(model="gemini-x")

    assert result.rows[0]["m/score"] == 1.0


def test_replies_of_a_judge_are_read_by_a_function_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    def parse(replies: list[str]) -> dict[str, object]:
        if "bad" in replies[0]:
            raise ValueError("no verdict")
        return {"score": len(replies), "first": replies[0], "labels": [{"a": 1}]}

    dataset = {"response": ["{good}", "bad", None]}
    task = EvalTask(
        dataset=dataset, metrics=[make_raw_metric(parse)], autorater_config=AutoraterConfig(sampling_count=2)
    )

    with serve_judge(monkeypatch, lambda call: gemini(f"said {read_prompt(call)}")), pytest.warns(UserWarning):
        result = task.evaluate()

    assert result.rows[0]["raw/score"] == 2
    assert result.rows[0]["raw/first"] == "said {good}?"
    assert result.rows[0]["raw/labels"] == [{"a": 1}]
    assert result.summary_metrics["raw/mean"] == 2
    assert [row["raw/score"] for row in result.rows[1:]] == [None, None]
    reasons = {(each.row, each.status): each.reason for each in result.problems if each.column == "raw/score"}
    assert "no verdict" in reasons[2, "ERROR"]
    assert reasons[3, "UNDEFINED"] == "the row has no response"


def test_raw_replies_are_kept_and_a_parser_need_not_give_a_score(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve_judge(monkeypatch, echo):
        dataset = {"response": ["r"]}
        raw = EvalTask(dataset=dataset, metrics=[make_raw_metric(None)], autorater_config=ONCE).evaluate()
        own = EvalTask(dataset=dataset, metrics=[make_raw_metric(lambda replies: {"n": 7})], autorater_config=ONCE)
        parsed = own.evaluate()

    assert raw.rows[0]["raw/raw_output"][0].endswith(": r?")
    assert parsed.rows[0] == {"response": "r", "raw/n": 7}
    assert "raw/mean" not in parsed.summary_metrics


def test_an_outage_of_a_judge_with_a_parser_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    task = EvalTask(dataset={"response": ["r"]}, metrics=[make_raw_metric(lambda replies: {"score": 1})])

    with serve_judge(monkeypatch, lambda call: gemini_error(401, "no such key")), pytest.warns(UserWarning):
        result = task.evaluate()

    assert result.rows[0]["raw/score"] is None
    assert result.problems[0].status == "ERROR"
    assert "the key was not accepted" in result.problems[0].reason


@pytest.mark.parametrize(
    ("metric", "config", "message"),
    [
        (make_raw_metric(None, template="{respons}"), ONCE, "found the variable 'respons', expected a column"),
        (make_raw_metric(None), AutoraterConfig(flip_enabled=True), "found flip_enabled with return_raw_output"),
        (make_raw_metric("f"), ONCE, "expected a function"),  # type: ignore[arg-type]
    ],
)
def test_an_invalid_parser_or_template_is_refused(
    metric: PointwiseMetric, config: AutoraterConfig, message: str
) -> None:
    with pytest.raises(EvaluationError, match=message):
        EvalTask(dataset={"response": ["r"]}, metrics=[metric], autorater_config=config).evaluate()


def answer_rubrics(call: Call) -> HttpResponse:
    """Write questions, and answer the first with yes and the second with no."""
    prompt = read_prompt(call)
    if '{"questions":' in prompt:
        return gemini('```json\n{"questions": ["Is it short?", "Is it true?"]}\n```')
    if "<questions>" in prompt:
        assert '["Is it short?", "Is it true?"]' in prompt
        blocks = ("Is it short?", "yes"), ("Is it true?", "no")
        return gemini("".join(f"<question>\nQuestion: {q}\nVerdict: {v}\n</question>\n" for q, v in blocks))
    return echo(call)


@pytest.mark.needs_pandas
def test_rubrics_are_written_by_a_model_and_answered_by_a_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    import pandas as pd

    metric = PredefinedRubricMetrics.Pointwise.INSTRUCTION_FOLLOWING
    with serve_judge(monkeypatch, answer_rubrics):
        frame = metric.generate_rubrics(pd.DataFrame(PROMPTS, index=[5, 6]))
        of_rows = metric.generate_rubrics([{"prompt": "one"}])
        result = EvalTask(dataset=frame, metrics=[metric]).evaluate(model="gemini-x")

    assert list(frame["rubrics"]) == [["Is it short?", "Is it true?"]] * 2
    assert list(of_rows["rubrics"]) == [["Is it short?", "Is it true?"]]
    assert result.rows[0]["rb_instruction_following/score"] == 0.5
    assert result.rows[0]["rb_instruction_following/rubric_verdict_pairs"] == "Is it short?: True\nIs it true?: False"


def test_rubrics_are_written_during_the_evaluation_if_the_dataset_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    task = EvalTask(dataset=PROMPTS, metrics=["rubric_based_instruction_following"], autorater_config=ONCE)

    with serve_judge(monkeypatch, answer_rubrics) as server:
        result = task.evaluate(model="gemini-x")

    assert len(server.calls) == 2 + 2 + 2
    assert result.rows[0]["rubrics"] == ["Is it short?", "Is it true?"]
    assert result.summary_metrics["rubric_based_instruction_following/mean"] == 0.5
    assert result.rows[0]["rubric_based_instruction_following/per_rubric_result"] == [
        {"rubric": "Is it short?", "verdict": True},
        {"rubric": "Is it true?", "verdict": False},
    ]


@pytest.mark.parametrize(
    ("answered", "finish", "reason"),
    [
        (["Is it short?"], "STOP", "the judge answered 1 of 2 questions"),
        (["Is it short?"], "MAX_TOKENS", "the judge answered 1 of 2 questions, and its reply was cut off"),
        (["Is it short?"] * 2, "STOP", "the judge answered 1 of 2 questions"),
        ([], "STOP", "the judge answered 0 of 2 questions"),
    ],
)
def test_an_incomplete_reply_about_rubrics_is_an_error_and_no_score(
    monkeypatch: pytest.MonkeyPatch, answered: list[str], finish: str, reason: str
) -> None:
    blocks = "".join(f"<question>\nQuestion: {question}\nVerdict: yes\n</question>\n" for question in answered)
    dataset = {"prompt": ["p"], "response": ["r"], "rubrics": [["Is it short?", "Is it true?"]]}
    metric = PredefinedRubricMetrics.Pointwise.TEXT_QUALITY

    with (
        serve_judge(monkeypatch, lambda call: gemini(blocks or "I cannot say", finish=finish)),
        pytest.warns(UserWarning),
    ):
        result = EvalTask(dataset=dataset, metrics=[metric]).evaluate()

    assert result.rows[0]["rb_text_quality/score"] is None
    assert {(problem.status, problem.reason) for problem in result.problems} == {
        ("ERROR", f"rb_text_quality: {reason}")
    }


def test_questions_of_a_csv_file_must_all_be_answered(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "rows.csv").write_text('prompt,response,rubrics\np,r,"[""Short?"", ""True?""]"\n', encoding="utf-8")
    block = "<question>\nQuestion: Short?\nVerdict: yes\n</question>"
    metric = PredefinedRubricMetrics.Pointwise.TEXT_QUALITY

    with serve_judge(monkeypatch, lambda call: gemini(block)), pytest.warns(UserWarning, match="answered 1 of 2"):
        result = EvalTask(dataset="rows.csv", metrics=[metric]).evaluate()

    assert result.rows[0]["rb_text_quality/score"] is None


def test_a_comparison_by_rubrics_has_the_columns_of_the_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = {"prompt": ["p"], "response": ["r"], "baseline_model_response": ["b"], "rubrics": [["Is it short?"]]}
    block = "<question>\nQuestion: Is it short?\nVerdict: {}\n</question>\n[[Rubric Score: 1/1]]"
    reply = (
        f"[[Response A Answers:]]\n{block.format('no')}\n[[Response B Answers:]]\n{block.format('yes')}\n"
        "[[SxSRating: B>A]]"
    )

    with serve_judge(monkeypatch, lambda call: gemini(reply)):
        result = EvalTask(dataset=dataset, metrics=[PredefinedRubricMetrics.Pairwise.TEXT_QUALITY]).evaluate()

    name = "pairwise_rb_text_quality"
    assert {key.partition("/")[2]: value for key, value in result.rows[0].items() if key.startswith(name)} == {
        "pairwise_choice": "CANDIDATE",
        "score": 0.5,
        "baseline_rubric_verdict_pairs": "Is it short?: False",
        "candidate_rubric_verdict_pairs": "Is it short?: True",
        "raw_outputs": [reply],
    }


def test_a_comparison_that_was_cut_off_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = {"prompt": ["p"], "response": ["r"], "baseline_model_response": ["b"], "rubrics": [["Is it short?"]]}
    metric = PredefinedRubricMetrics.Pairwise.TEXT_QUALITY
    reply = gemini("a quotation: [[SxSRating: B>A]]", finish="MAX_TOKENS")

    with serve_judge(monkeypatch, lambda call: reply), pytest.warns(UserWarning):
        result = EvalTask(dataset=dataset, metrics=[metric]).evaluate()

    assert {problem.reason for problem in result.problems} == {
        "pairwise_rb_text_quality: the reply of the judge was cut off"
    }


def test_a_rubric_metric_of_the_caller_is_compared_and_its_failures_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(prompt: str) -> str:
        return "nothing" if "two" in prompt else '["Is it short?", "Is it true?"]'

    critique = PairwiseMetric(
        metric="mine",
        metric_prompt_template="{rubrics} {baseline_model_response} {response}",
        custom_output_config=CustomOutputConfig(parsing_fn=lambda replies: {"pairwise_choice": "CANDIDATE"}),
        autorater_config=ONCE,
    )
    metric = RubricBasedMetric(
        generation_config=RubricGenerationConfig(prompt_template="about {prompt}", model=write),
        critique_metric=critique,
    )
    dataset = {**PROMPTS, "response": ["a", "b"], "baseline_model_response": ["c", "d"]}

    with serve_judge(monkeypatch, echo), pytest.warns(UserWarning):
        result = EvalTask(dataset=dataset, metrics=[metric]).evaluate()

    assert [row["mine/pairwise_choice"] for row in result.rows] == ["CANDIDATE", None]
    assert result.summary_metrics["mine/candidate_model_win_rate"] == 1.0
    (problem,) = [problem for problem in result.problems if problem.column == "rubrics"]
    assert (problem.row, problem.status) == (2, "ERROR")
    assert "no JSON" in problem.reason
    causes = {(each.status, each.reason) for each in result.problems if each.row == 2}
    assert causes == {("ERROR", problem.reason)}


def test_two_rubric_metrics_and_metrics_of_images_are_refused() -> None:
    metric = PredefinedRubricMetrics.Pointwise.TEXT_QUALITY
    with pytest.raises(EvaluationError, match="found 2 rubric-based metrics, expected one"):
        EvalTask(dataset=PROMPTS, metrics=[metric, "rubric_based_instruction_following"])
    with pytest.raises(EvaluationError, match="sends only text to models"):
        PredefinedRubricMetrics.Pairwise.MULTIMODAL_UNDERSTANDING  # noqa: B018 - the name raises
