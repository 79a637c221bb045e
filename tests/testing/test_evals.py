"""The newer API: datasets, inference, evaluation and results."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.engine.judged import serve_judge
from tests.llm.servers import Call, HttpResponse, gemini, gemini_error
from workbench.testing import (
    Client,
    CustomMetric,
    EvaluationDataset,
    EvaluationError,
    TrajectorySingleToolUse,
    types,
)

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


@pytest.mark.parametrize("as_frame", [False, True])
def test_requests_of_gemini_and_openai_are_answered_and_judged(monkeypatch: pytest.MonkeyPatch, as_frame: bool) -> None:
    chat = [{"role": "user", "content": "two"}]
    rows: list[dict[str, Any]] = [
        {"request": {"contents": [{"parts": [{"text": "one"}]}]}},
        {"request": {"messages": chat}},
    ]
    replies: list[dict[str, Any]] = [
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "gemini-x"}]}}]},
        {"choices": [{"message": {"role": "assistant", "content": "no"}}]},
    ]
    recorded: Any = [{**row, "response": reply} for row, reply in zip(rows, replies, strict=True)]
    if as_frame:
        import pandas

        recorded = EvaluationDataset(eval_dataset_df=pandas.DataFrame(recorded))
    metrics = [types.Metric(name="General_Quality_v1"), types.Metric(name="Long", custom_function=lambda row: 1)]

    with serve_judge(monkeypatch, answer):
        answered = Client().evals.run_inference(src=rows, model="gemini-x")
        result = Client().evals.evaluate(dataset=recorded, metrics=metrics, config={"dataset_schema": "gemini"})

    assert [row["response"] for row in answered.rows] == ["gemini-x: one", "gemini-x: two"]
    assert [each.metric_name for each in result.summary_metrics] == ["general_quality", "long"]
    assert [score for score, _ in read_cells(result, "general_quality")] == [1.0, 0.5]


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
    assert (project / "results/1/1.jsonl").exists()


def test_each_candidate_has_its_own_files(project: Path) -> None:
    cases = [types.EvalCase(prompt="?", responses=[{"response": text}], reference="a") for text in ("a", "b")]
    datasets = [types.EvaluationDataset(eval_cases=[case]) for case in cases]

    Client().evals.evaluate(dataset=datasets, metrics=["exact_match"], config={"dest": "results"})

    folder = project / "results"
    assert sorted(path.relative_to(folder).as_posix() for path in folder.glob("*/*")) == [
        "1/1.jsonl",
        "1/summary_metrics.json",
        "2/2.jsonl",
        "2/summary_metrics.json",
    ]
    summaries = [json.loads((folder / str(number) / "summary_metrics.json").read_bytes()) for number in (1, 2)]
    assert [summary["summary_metrics"]["exact_match/mean"] for summary in summaries] == [1.0, 0.0]


def test_contents_of_the_gemini_api_are_texts() -> None:
    content = {"role": "user", "parts": [{"text": "a"}, {"text": "b"}]}
    case = types.EvalCase(prompt=content, responses=[{"response": content}], reference=content, context="c")

    assert case.to_row() == {"prompt": "ab", "response": "ab", "reference": "ab", "context": "c"}


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([{"text": "hmm", "thought": True}, {"text": "r"}], "r"),
        ([{"text": "r"}, {"function_call": {"name": "f", "args": {}}}], "r"),
        ([{"function_call": {"name": "f", "args": {}}}], None),
        ([], None),
    ],
)
def test_thoughts_and_calls_are_no_text(parts: list[Any], text: str | None) -> None:
    pd = pytest.importorskip("pandas")
    content = {"role": "model", "parts": parts}

    assert types.EvalCase(prompt="p", responses=[content]).to_row()["response"] == text
    frame = pd.DataFrame({"prompt": ["p"], "response": [content]})
    assert EvaluationDataset(eval_dataset_df=frame).rows[0]["response"] == text


@pytest.mark.parametrize("response", ["r", {"response": "r"}, types.ResponseCandidate(response="r")])
def test_responses_and_cases_may_be_dicts(response: Any) -> None:
    cases = [{"prompt": "p", "responses": [response], "reference": response}]
    result = Client().evals.evaluate(dataset={"eval_cases": cases}, metrics=["exact_match"])

    assert result.summary_metrics[0].mean_score == 1.0


def read_cells(result: Any, metric: str) -> list[tuple[float | None, str | None]]:
    """Return score and error of each row of the first candidate."""
    found = [case.response_candidate_results[0].metric_results[metric] for case in result.eval_case_results]
    return [(cell.score, cell.error_message) for cell in found]


def test_a_row_that_failed_keeps_its_reason_and_has_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_second(call: Call) -> HttpResponse:
        return gemini_error(401, "no such key") if read_prompt(call) == "two" else answer(call)

    asked: list[str] = []

    async def measure(row: dict[str, Any]) -> float:
        asked.append(row["prompt"])
        return 0.0

    metrics = [
        types.Metric(name="plain", custom_function=lambda row: len(row["response"] or "")),
        types.Metric(name="later", custom_function=measure),
        types.Metric(name="code", custom_function="def evaluate(row):\n    return 0"),
        CustomMetric("own", lambda row: 0),
        "exact_match",
        types.RubricMetric.FLUENCY,
    ]
    evals = Client().evals
    with serve_judge(monkeypatch, fail_second), pytest.warns(UserWarning):
        dataset = evals.run_inference(src=PROMPTS, model="gemini-x")
        result = evals.evaluate(dataset=dataset, metrics=metrics)

    reason = dataset.rows[1]["failure_reason"]
    assert [row["failure"] for row in dataset.rows] == [0, 1]
    assert "the key was not accepted" in reason
    for name in ("plain", "later", "code", "own", "exact_match", "fluency"):
        first, second = read_cells(result, name)
        assert first[0] is not None
        assert second == (None, reason)
    assert asked == ["one"]
    with serve_judge(monkeypatch, answer):
        assert "failure" not in evals.run_inference(src=dataset, model="gemini-x").rows[1]


def test_functions_are_not_called_for_rows_without_a_response() -> None:
    calls = [{"tool_name": "a", "tool_input": {}}]
    rows = [{"prompt": "a", "response": None}, {"prompt": "b", "response": None, "predicted_trajectory": calls}]
    with pytest.warns(UserWarning):
        result = Client().evals.evaluate(
            dataset=rows, metrics=[types.Metric(name="m", custom_function=lambda row: 1), "exact_match"]
        )

    assert read_cells(result, "m") == [(None, "the row has no response"), (1.0, None)]


@pytest.mark.parametrize("group", [None, "mine"])
def test_a_failed_author_is_the_reason_of_a_missing_score(monkeypatch: pytest.MonkeyPatch, group: str | None) -> None:
    def fail_to_write(call: Call) -> HttpResponse:
        return gemini_error(401, "no such key") if '{"questions":' in read_prompt(call) else answer(call)

    evals = Client().evals
    metric = types.RubricMetric.GENERAL_QUALITY(rubric_group_name=group)
    with serve_judge(monkeypatch, fail_to_write), pytest.warns(UserWarning):
        dataset = make_dataset("a")
        if group is not None:
            dataset = evals.generate_rubrics(src=dataset, rubric_group_name=group)
        result = evals.evaluate(dataset=dataset, metrics=[metric])

    ((score, reason),) = read_cells(result, "general_quality")
    assert score is None
    assert "the key was not accepted" in str(reason)
    assert {problem.status for problem in result.results[0].problems} == {"ERROR"}


def test_rubrics_are_written_although_the_source_has_a_column_of_that_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve_judge(monkeypatch, answer):
        rows = Client().evals.generate_rubrics(src=[{"prompt": "p", "rubrics": ["q"]}], rubric_group_name="m").rows

    assert rows == [{"prompt": "p", "rubrics": ["q"], "rubric_groups": {"m": ["Short?", "True?"]}}]


def test_comparisons_and_several_tools_have_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    def prefer_candidate(call: Call) -> HttpResponse:
        prompt = read_prompt(call)
        choice = "A" if prompt.index("GOOD") < prompt.index("BAD") else "B"
        return gemini(json.dumps({"explanation": "better", "pairwise_choice": choice}))

    calls = [{"tool_name": "a", "tool_input": {}}]
    row = {"prompt": "p", "response": "GOOD", "baseline_model_response": "BAD", "predicted_trajectory": calls}
    metrics = [types.Metric(name="pairwise_fluency"), TrajectorySingleToolUse("a"), TrajectorySingleToolUse("b")]
    with serve_judge(monkeypatch, prefer_candidate):
        result = Client().evals.evaluate(dataset=[row], metrics=metrics)

    assert {each.metric_name: each.mean_score for each in result.summary_metrics} == {
        "pairwise_fluency": 1.0,
        "trajectory_single_tool_use(a)": 1.0,
        "trajectory_single_tool_use(b)": 0.0,
    }


def test_the_best_length_wins_and_not_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    def rate_length(call: Call) -> HttpResponse:
        return gemini(json.dumps({"score": 2 if "LONG" in read_prompt(call) else 0, "explanation": ""}))

    with serve_judge(monkeypatch, rate_length):
        result = Client().evals.evaluate(
            dataset=[make_dataset("LONG"), make_dataset("FIT")], metrics=[types.RubricMetric.VERBOSITY]
        )

    assert result.win_rates is not None
    assert result.win_rates["verbosity"].win_rates == [0.0, 1.0]


@pytest.mark.parametrize("summarise", [lambda found: 1 / 0, lambda found: None, lambda found: sys.exit(0)])
def test_a_failing_summary_function_keeps_the_results(summarise: Any) -> None:
    metric = types.Metric(name="m", custom_function=lambda row: 1, aggregate_summary_fn=summarise)

    with pytest.warns(UserWarning, match="m: aggregate_summary_fn"):
        result = Client().evals.evaluate(dataset=make_dataset("a"), metrics=[metric])

    assert result.summary_metrics[0].mean_score == 1.0


def test_some_candidates_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    metric = types.Metric(name="m", custom_function=lambda row: len(row["response"]))
    datasets = [make_dataset("SHORT", name="first"), make_dataset("VERY LONG", name="second")]
    result = Client().evals.evaluate(dataset=datasets, metrics=[metric])

    result.show(candidate_names=["second"])
    shown = capsys.readouterr().out
    assert "VERY LONG" in shown
    assert "SHORT" not in shown
    assert "second: 1" in shown
    with pytest.raises(EvaluationError, match="candidate_names: found 'third', expected some of first, second"):
        result.show(candidate_names=["third"])


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
        (
            lambda evals: evals.evaluate(dataset=[make_dataset("a", "b"), [{"prompt": "p0"}, {"prompt": "other"}]]),
            "row 2: found the prompt 'other' in candidate_2, expected 'p1' as in candidate_1",
        ),
        (lambda evals: types.EvalCase(responses=["a", "b"]), "found 2 responses, expected one"),
        (lambda evals: types.EvalCase(responses="a"), "as responses, expected a list"),
        (lambda evals: types.EvaluationDataset(eval_cases=["a"]), "expected EvalCase objects"),
        (lambda evals: evals.evaluate(dataset={"eval_cases": [], "foo": 1}), "EvaluationDataset: found the key 'foo'"),
        (
            lambda evals: evals.evaluate(dataset=PROMPTS, metrics=[{"name": "c", "foo": 1}]),
            "Metric: found the key 'foo'",
        ),
        (lambda evals: evals.evaluate(dataset=PROMPTS, metrics=["grounding"]), "expected types.RubricMetric.GROUNDING"),
        (
            lambda evals: evals.evaluate(
                dataset=PROMPTS, metrics=[types.Metric(name="m", remote_custom_function="import sys; sys.exit(0)")]
            ),
            "found code that raises SystemExit",
        ),
        (lambda evals: evals.evaluate(dataset=PROMPTS, metrics=[types.Metric(name="blue")]), "'bleu'"),
        (lambda evals: types.RubricMetric.HALLUCINATION, "found a metric of agents"),
        (lambda evals: types.RubricMetric.GECKO_TEXT2IMAGE, "found a metric of images"),
        (lambda evals: types.RubricMetric.GENERAL_QALITY, "did you mean 'general_quality'"),
        (lambda evals: types.evals, "found a type of the Vertex AI service"),
        (lambda evals: types.Metric(), "found None as name"),
        (lambda evals: types.LLMMetric(name="m"), "found no prompt_template"),
        (lambda evals: types.LLMMetric(name="m", prompt_template=" "), "found no prompt_template"),
        (
            lambda evals: types.LLMMetric(name="m", prompt_template="{response}", judge_model_sampling_count=33),
            "LLMMetric m: found 33 as judge_model_sampling_count, expected 1 to 32",
        ),
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
