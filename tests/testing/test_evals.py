"""The newer API: datasets, inference, evaluation and results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.engine.judged import serve_judge
from tests.llm.servers import Call, HttpResponse, gemini, gemini_error
from workbench.testing import Client, EvaluationDataset, EvaluationError, types

pytestmark = pytest.mark.needs_pandas

PROMPTS = [{"prompt": "one", "reference": "gemini-x: one"}, {"prompt": "two", "reference": "no"}]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create an empty project as the working directory."""
    (tmp_path / "workbench.toml").write_text("[judge]\ntries = 1\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read_prompt(call: Call) -> str:
    text: str = call.body["contents"][0]["parts"][0]["text"]
    return text


def answer(call: Call) -> HttpResponse:
    """Write two questions, answer them by the response, rate 1, or else echo the prompt with the name of the model."""
    prompt = read_prompt(call)
    if '{"questions":' in prompt:
        return gemini('{"questions": ["Short?", "True?"]}')
    if "<questions>" in prompt:
        verdict = "yes" if "gemini-x" in prompt else "no"
        questions = (("Short?", "yes"), ("True?", verdict))
        return gemini("".join(f"<question>\nQuestion: {q}\nVerdict: {v}\n</question>" for q, v in questions))
    if '"score":' in prompt:
        return gemini('{"score": 1, "explanation": "so it is"}')
    return gemini(f"{call.path.rpartition('/')[2].partition(':')[0]}: {prompt}")


def make_dataset(*responses: str | None, name: str | None = None) -> EvaluationDataset:
    cases = [types.EvalCase(prompt=f"p{n}", responses=[each]) for n, each in enumerate(responses)]
    return EvaluationDataset(eval_cases=cases, candidate_name=name)


def test_a_model_answers_and_its_answers_are_judged_by_rubrics(monkeypatch: pytest.MonkeyPatch) -> None:
    evals = Client(project="p", location="l").evals

    with serve_judge(monkeypatch, answer) as server:
        dataset = evals.run_inference(
            src=PROMPTS,
            model="gemini-x",
            config={"prompt_template": "<{prompt}>", "generate_content_config": {"temperature": 0.5}},
        )
        assert {call.body["generationConfig"]["temperature"] for call in server.calls} == {0.5}
        result = evals.evaluate(dataset=dataset)

    assert dataset.candidate_name == "gemini-x"
    assert [row["response"] for row in dataset.rows] == ["gemini-x: <one>", "gemini-x: <two>"]
    (summary,) = result.summary_metrics
    assert (summary.metric_name, summary.mean_score, summary.num_cases_valid) == ("general_quality", 1.0, 2)
    found = result.eval_case_results[0].response_candidate_results[0].metric_results["general_quality"]
    assert found.rubric_verdicts == "Short?: True\nTrue?: True"


def test_candidates_are_compared_by_the_same_rubrics(monkeypatch: pytest.MonkeyPatch) -> None:
    evals = Client().evals
    metric = types.RubricMetric.GENERAL_QUALITY(rubric_group_name="mine")

    with serve_judge(monkeypatch, answer) as server:
        source = evals.generate_rubrics(src=PROMPTS, rubric_group_name="mine", predefined_spec_name="general_quality")
        answered = [evals.run_inference(src=source, model=each) for each in ("gemini-x", lambda prompt: "no")]
        before = len(server.calls)
        result = evals.evaluate(dataset=answered, metrics=[metric, types.Metric(name="exact_match")])

    assert source.rows[0]["rubric_groups"] == {"mine": ["Short?", "True?"]}
    assert not any('{"questions":' in read_prompt(call) for call in server.calls[before:])
    assert result.candidate_names == ["gemini-x", "<lambda>"]
    assert result.win_rates is not None
    assert result.win_rates["general_quality"].win_rates == [1.0, 0.0]
    assert result.win_rates["exact_match"].win_rates == [0.5, 0.5]


def test_metrics_are_functions_code_and_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    path = "['contents']['gemini_contents'][0]['parts'][0]['text']"
    code = f"def evaluate(instance):\n    return len(instance['response']{path})"
    judge = types.LLMMetric(
        name="judged",
        prompt_template=types.MetricPromptBuilder(criteria={"c": "d"}, rating_scores={"1": "yes", "0": "no"}),
        judge_model_sampling_count=1,
    )
    metrics = [
        types.Metric(name="length", custom_function=lambda row: {"score": len(row["response"]), "explanation": "long"}),
        types.Metric(
            name="remote", remote_custom_function=code, aggregate_summary_fn=lambda found: {"count": len(found)}
        ),
        types.CodeExecutionMetric(
            name="code", custom_function="def evaluate(instance):\n    return instance['response'] == 'abc'"
        ),
        {"name": "parsed", "prompt_template": "{response}", "parse_and_reduce_fn": lambda replies: {"score": 7}},
        judge,
        types.RubricMetric.FLUENCY,
    ]
    with serve_judge(monkeypatch, answer):
        result = Client().evals.evaluate(dataset=make_dataset("abc"), metrics=metrics)

    scores = {each.metric_name: each.mean_score for each in result.summary_metrics}
    assert scores == {"length": 3, "remote": 3, "code": 1, "parsed": 7, "judged": 1, "fluency": 1}
    assert result.summary_metrics[1].count == 1  # type: ignore[attr-defined]
    found = result.eval_case_results[0].response_candidate_results[0].metric_results["length"]
    assert found.explanation == "long"


def test_an_outage_is_an_error_of_the_row_and_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    evals = Client().evals
    with serve_judge(monkeypatch, lambda call: gemini_error(401, "no such key")), pytest.warns(UserWarning):
        dataset = evals.run_inference(src=PROMPTS, model="gemini-x")
        result = evals.evaluate(dataset=make_dataset("a"), metrics=[types.RubricMetric.FLUENCY])

    assert [row["response"] for row in dataset.rows] == [None, None]
    assert (result.summary_metrics[0].mean_score, result.summary_metrics[0].num_cases_error) == (None, 1)
    found = result.eval_case_results[0].response_candidate_results[0].metric_results["fluency"]
    assert found.score is None
    assert "the key was not accepted" in str(found.error_message)


def test_results_and_datasets_are_shown_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    dataset = make_dataset("<script>x</script>\x1b[0m", name="<b>")
    result = Client().evals.evaluate(dataset=dataset, metrics=[types.Metric(name="one", custom_function=lambda row: 1)])

    for html in (dataset._repr_html_(), result._repr_html_()):
        assert "&lt;script&gt;" in html
        assert "<script>" not in html
        assert "<b>" not in html
        assert "\x1b" not in html
    result.show(candidate_names=["renamed"])
    dataset.show()
    printed = capsys.readouterr().out
    assert "renamed" in printed
    assert "mean: 1" in printed
    assert "\x1b" not in printed


def test_inference_and_results_are_written_to_a_folder(project: Path) -> None:
    evals = Client().evals
    dataset = evals.run_inference(src=PROMPTS, model=str.upper, config={"dest": "out"})
    evals.evaluate(dataset=dataset, metrics=["exact_match"], config={"dest": "results"})

    lines = (project / "out/inference_results.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["response"] for line in lines] == ["ONE", "TWO"]
    assert (project / "results/1.jsonl").exists()


def test_contents_of_the_gemini_api_are_texts() -> None:
    content = {"role": "user", "parts": [{"text": "a"}, {"text": "b"}]}
    case = types.EvalCase(prompt=content, responses=[{"response": content}, "ignored"], reference=content, context="c")

    assert case.to_row()["prompt"] == "ab"
    assert case.to_row()["reference"] == "ab"
    assert case.to_row()["context"] == "c"


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda evals: evals.run_inference(src=PROMPTS), "found neither model and agent"),
        (lambda evals: evals.run_inference(src=PROMPTS, agent="projects/p"), "expected an agent in this process"),
        (lambda evals: evals.run_inference(src=PROMPTS, model=str, config={"nonsense": 1}), "found 'nonsense'"),
        (
            lambda evals: evals.run_inference(src=PROMPTS, model=str, config={"generate_content_config": {}}),
            "found it without the name of a model",
        ),
        (lambda evals: evals.create_evaluation_run(), "found a job of the Vertex AI service"),
        (lambda evals: evals.evaluate(dataset=PROMPTS, agent="a"), "found agent, expected responses"),
        (lambda evals: evals.evaluate(dataset=[]), "found no dataset rows"),
        (lambda evals: evals.evaluate(dataset=PROMPTS, metrics=[types.Metric(name="blue")]), "'bleu'"),
        (lambda evals: types.RubricMetric.HALLUCINATION, "found a metric of agents"),
        (lambda evals: types.RubricMetric.GECKO_TEXT2IMAGE, "found a metric of images"),
        (lambda evals: types.RubricMetric.GENERAL_QALITY, "did you mean 'general_quality'"),
        (lambda evals: types.evals, "found a type of the Vertex AI service"),
        (lambda evals: types.Metric(), "found None as name"),
        (lambda evals: types.LLMMetric(name="m"), "found no prompt_template"),
        (lambda evals: types.EvalCase(agent_data={}), "found agent_data"),
        (lambda evals: EvaluationDataset(), "found neither"),
        (lambda evals: EvaluationDataset(gcs_source="gs://b/x"), "found a source of the service"),
        (
            lambda evals: evals.evaluate(
                dataset=make_dataset("a"), metrics=[types.Metric(name="m", remote_custom_function="x = 1")]
            ),
            "found code without evaluate",
        ),
        (
            lambda evals: evals.evaluate(
                dataset=make_dataset("a"), metrics=[types.RubricMetric.TEXT_QUALITY(rubric_group_name="g")]
            ),
            "found no rubrics of the group 'g'",
        ),
    ],
)
def test_what_cannot_run_here_is_refused_with_the_reason(act: Any, message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        act(Client().evals)
