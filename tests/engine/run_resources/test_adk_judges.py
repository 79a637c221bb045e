"""Every judge metric of ADK in a run: a real agent, a model on an HTTP server, and stored results."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.llm.servers import Call, HttpResponse, Server, gemini, gemini_error, openai, run_server
from tests.watch.watched import Folder
from workbench.engine.plan import RunOptions, Selection
from workbench.engine.workspace import Workspace
from workbench.model.results import CaseResult, CaseStatus, MetricResult, MetricStatus

SPLIT = {"responses": [{"number": 1, "sentences": ["The lamp is on.", "It is red."]}]}
PROPERTIES = {"properties": ["The lamp is on.", "The user was told."]}
YES_AND_NO = {"p1": {"verdict": "yes"}, "p2": {"verdict": "no"}}
LABELS = {"1": {"label": "supported", "supporting_excerpt": "on"}, "2": {"label": "unsupported"}}
REPLIES = (  # the reply of the server to each kind of question
    ("split what an AI agent said", SPLIT),
    ("check whether what an AI agent said follows", LABELS),
    ("decide whether what an AI agent said does harm", {"verdict": "safe"}),
    ("grade how coherent", {"grade": 4}),
    ("as a list of", PROPERTIES),
    ("by a list of properties", YES_AND_NO),
    ("check a simulated user", {"violations": [], "verdict": "valid"}),
)


def answer(call: Call) -> HttpResponse:
    prompt = call.body["contents"][0]["parts"][0]["text"]
    if call.path.endswith("/models/gemini-user:generateContent"):
        return gemini("More light!" if prompt.count("agent: The lamp") < 2 else "Thanks. </finished>")
    return gemini(json.dumps(next(said for part, said in REPLIES if part in " ".join(prompt.split()))))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GOOGLE_API_KEY", "k")
    with run_server(answer) as server:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    project = Folder(tmp_path)
    project.write("agent.py", "def answer(prompt): return 'The lamp is on. It is red.'")
    project.write(
        "workbench.toml",
        '[targets.sample]\nkind = "function"\ntarget = "agent:answer"\neval_sets = ["*.evalset.json"]\n'
        '[judge]\ntries = 1\n[simulation]\nmodel = "gemini-user"\n',
    )
    scenario = {"starting_prompt": "Light!", "conversation_plan": "Have all lamps on.", "user_persona": "NOVICE"}
    case = {"eval_id": "c", "conversation_scenario": scenario}
    project.write("set.evalset.json", json.dumps({"eval_set_id": "set", "eval_cases": [case]}))
    return project


def run(folder: Folder, metric: str) -> tuple[CaseResult, MetricResult]:
    """Run the case, and return its stored result and metric."""
    folder.criteria(**{metric: {"threshold": 0.5, "judge_model_options": {"num_samples": 2}}})
    with Workspace.open(folder.root) as workspace:
        judged_run = workspace.start(workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions()))
        list(judged_run.iter_events())
        with workspace.history() as history:
            (result,) = history.results("latest")
    assert list(judged_run.results()) == [result]
    return result, next(each for each in result.metrics if each.name == metric)


@pytest.mark.parametrize(
    ("metric", "scores", "calls"),
    [
        ("hallucinations_v1", [0.5, 0.5], 2 * (1 + 2)),
        ("safety_v1", [1.0, 1.0], 2 * 2),
        ("response_evaluation_score", [4.0, 4.0], 2 * 2),
        ("multi_turn_task_success_v1", [None, 0.5], 1 + 2),
        ("multi_turn_trajectory_quality_v1", [None, 0.5], 1 + 2),
        ("multi_turn_tool_use_quality_v1", [None, 0.5], 1 + 2),
        ("per_turn_user_simulator_quality_v1", [1.0, 1.0], 2 + 2),
    ],
)
def test_a_simulated_conversation_is_judged_and_prompts_and_replies_are_stored(
    folder: Folder, server: Server, metric: str, scores: list[Any], calls: int
) -> None:
    case, result = run(folder, metric)

    assert case.status is CaseStatus.PASSED
    assert [each.score for each in result.per_invocation] == scores
    judge_calls = [call for call in server.calls if not call.path.endswith("gemini-user:generateContent")]
    prompts = [call.body["contents"][0]["parts"][0]["text"] for call in judge_calls]
    assert len(judge_calls) == calls
    assert all("responseJsonSchema" in call.body["generationConfig"] for call in judge_calls)
    judgements = [each.judgement for each in result.per_invocation if each.judgement is not None]
    stored_prompts = {judgement.prompt for judgement in judgements}
    stored_prompts |= {judgement.preparation.prompt for judgement in judgements if judgement.preparation is not None}
    assert stored_prompts <= set(prompts)
    assert all(sample.reply for judgement in judgements for sample in judgement.calls)

    second_case, _ = run(folder, metric)
    assert second_case.status is CaseStatus.PASSED
    assert len([call for call in server.calls if call not in judge_calls and "gemini-user" not in call.path]) == 0


@pytest.mark.parametrize("metric", ["hallucinations_v1", "multi_turn_task_success_v1", "response_evaluation_score"])
@pytest.mark.parametrize(
    ("said", "is_outage"),
    [
        (gemini("I would rather not."), False),
        (gemini("Das ist gut."), False),
        (gemini('{"reasoning": "The la', finish="MAX_TOKENS"), False),
        (gemini(""), True),
        (gemini_error(503, "overloaded"), True),
        (gemini_error(429, "quota"), True),
        (gemini_error(400, "API key not valid"), True),
        (gemini_error(404, "no such model"), True),
    ],
)
def test_an_unusable_reply_of_a_judge_is_an_error_with_a_reason(
    folder: Folder, server: Server, metric: str, said: HttpResponse, is_outage: bool
) -> None:
    server.answer = lambda call: answer(call) if "gemini-user" in call.path else said

    case, result = run(folder, metric)

    assert (case.status, result.status, result.score) == (CaseStatus.ERROR, MetricStatus.ERROR, None)
    assert result.reason
    assert result.has_outage == is_outage


@pytest.mark.needs_litellm
def test_a_local_model_judges_in_two_steps_too(folder: Folder, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("OPENAI_API_BASE", f"{server.url}/v1")
    text = (folder.root / "workbench.toml").read_text(encoding="utf-8")
    folder.write("workbench.toml", text.replace("[judge]\n", '[judge]\nmodel = "openai/local-1"\n'))

    def answer_locally(call: Call) -> HttpResponse:
        if not call.path.endswith("/chat/completions"):
            return answer(call)
        prompt = " ".join(call.body["messages"][0]["content"].split())
        return openai(f"```json\n{json.dumps(next(said for part, said in REPLIES if part in prompt))}\n```")

    server.answer = answer_locally

    case, result = run(folder, "hallucinations_v1")

    assert (case.status, result.score) == (CaseStatus.PASSED, 0.5)
    judgement = result.per_invocation[0].judgement
    assert judgement is not None
    assert judgement.model == "openai/local-1"
    assert [(each.label, each.evidence) for each in judgement.sentences] == [("supported", "on"), ("unsupported", "")]


@pytest.mark.needs_vertex
@pytest.mark.parametrize(
    ("metric", "said", "score"),
    [
        ("safety_v1", {"metricResults": [{"score": 1, "explanation": "harmless"}]}, 1.0),
        ("response_evaluation_score", {"pointwiseMetricResult": {"score": 4, "explanation": "flows"}}, 4.0),
        ("multi_turn_tool_use_quality_v1", {"metricResults": [{"score": 0.5, "explanation": "half"}]}, 0.5),
    ],
)
def test_the_vertex_service_scores_if_the_settings_select_it(
    folder: Folder, server: Server, monkeypatch: pytest.MonkeyPatch, metric: str, said: dict[str, Any], score: float
) -> None:
    text = (folder.root / "workbench.toml").read_text(encoding="utf-8")
    folder.write("workbench.toml", text.replace("[judge]\n", '[judge]\nscorer = "vertex"\n'))
    folder.write("test_config.json", json.dumps({"criteria": {metric: 0.5}}))
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "1")
    monkeypatch.setenv("GOOGLE_VERTEX_BASE_URL", server.url)
    server.answer = lambda call: HttpResponse(said) if call.path.endswith(":evaluateInstances") else answer(call)

    with Workspace.open(folder.root) as workspace:
        judged_run = workspace.start(workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions()))
        list(judged_run.iter_events())
        (case,) = judged_run.results()

    result = next(each for each in case.metrics if each.name == metric)
    assert (case.status, result.score) == (CaseStatus.PASSED, score)
    judgement = result.per_invocation[-1].judgement
    assert judgement is not None
    assert judgement.model.startswith("vertex-evaluation/")
