"""google-adk reads our result files completely, and our additional details survive in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from workbench.model.criteria import CustomMetricFunction, EvalConfig, default_config, read_config
from workbench.model.evalset import EvalCase, Invocation
from workbench.model.identity import CaseKey
from workbench.model.results import (
    CaseResult,
    CaseStatus,
    Execution,
    Failure,
    FailureKind,
    InvocationScore,
    Judgement,
    MetricResult,
    MetricStatus,
    RubricScore,
    TurnResult,
)
from workbench.report.adk_results import write_adk_results
from workbench.store.errors import StoreError

ACTUAL = {
    "invocation_id": "e-1",
    "user_content": {"role": "user", "parts": [{"text": "Olá 你好 😀"}]},
    "final_response": {"role": "model", "parts": [{"text": "done"}, {"text": "hm", "thought": True}]},
    "intermediate_data": {
        "invocation_events": [
            {
                "author": "root",
                "content": {
                    "role": "model",
                    "parts": [
                        {"function_call": {"id": "c", "name": "f", "args": {"x": None}}, "thought_signature": "__4="},
                        {"inline_data": {"mime_type": "image/png", "data": "__4="}},
                    ],
                },
                "usage_metadata": {"prompt_token_count": 3},
                "model_version": "m",
            },
            {"author": "root"},
        ]
    },
    "creation_timestamp": 5.5,
    "app_details": {"agent_details": {"root": {"name": "root", "instructions": "Do.", "tool_declarations": [{}]}}},
}
EXPECTED = {
    "eval_id": "c1",
    "conversation": [
        {
            "invocationId": "i",
            "userContent": {"parts": [{"text": "Olá", "note": "ours"}]},
            "finalResponse": {"parts": [{"text": "done"}]},
            "intermediateData": {
                "toolUses": [{"name": "f", "args": {"x": 1}, "comment": "unknown to ADK"}],
                "toolResponses": [{"name": "f", "response": {}}],
                "intermediateResponses": [["sub", [{"text": "well"}]]],
            },
            "modelDuration": 0.5,
            "owner": "unknown to ADK",
            "rubrics": [{"rubricId": "r", "rubricContent": {"textProperty": "is polite"}, "weight": 2}],
        }
    ],
    "sessionInput": {"appName": "my_agent", "userId": "u1", "sessionId": "s1", "state": {}},
}


def metric(name: str, status: MetricStatus, score: float | None, **options: Any) -> MetricResult:
    scores = (InvocationScore(score=score, reason=None if score is not None else "nothing to compare"),)
    return MetricResult(
        name=name, status=status, score=score, **{"threshold": 0.5, "per_invocation": scores, "total": 1, **options}
    )


def case(
    eval_id: str = "c1",
    status: CaseStatus = CaseStatus.PASSED,
    *metrics: MetricResult,
    eval_set_id: str = "set1",
    turns: int = 1,
    **options: Any,
) -> CaseResult:
    turn = TurnResult(invocation=Invocation.model_validate(ACTUAL), duration_seconds=0.12345)
    return CaseResult(
        case=CaseKey(target="my_agent", eval_set="my_agent/set1.evalset.json", eval_id=eval_id),
        eval_set_id=eval_set_id,
        status=status,
        metrics=metrics,
        execution=Execution(turns=(turn,) * turns),
        **options,
    )


def write(tmp_path: Path, *results: CaseResult, config: EvalConfig | None = None, **options: Any) -> Path:
    expected = {result.case: EvalCase.model_validate(EXPECTED) for result in results}
    return write_adk_results(
        tmp_path / "my_agent",
        results,
        config=config or default_config(),
        **{"expected": expected, "run_id": "r1", "ended_at": 1700000000.25, **options},
    )


def read_with_adk(path: Path) -> Any:
    """Read the result like `adk web`: find its file in the list, then read it by its id."""
    from google.adk.evaluation.local_eval_set_results_manager import LocalEvalSetResultsManager

    manager = LocalEvalSetResultsManager(str(path.parents[3]))
    app = path.parents[2].name
    (name,) = manager.list_eval_set_results(app)
    return manager.get_eval_set_result(app, name)


def test_the_file_has_the_folder_and_name_that_adk_expects(tmp_path: Path) -> None:
    path = write(tmp_path, case())

    history = tmp_path / "my_agent" / ".adk" / "eval_history"
    assert path == history / "my_agent_set1_1700000000.25.evalset_result.json"


@pytest.mark.needs_adk
def test_adk_reads_actual_and_expected_turns(tmp_path: Path) -> None:
    passed = metric("tool_trajectory_avg_score", MetricStatus.PASSED, 1.0, threshold=1.0)
    result = read_with_adk(write(tmp_path, case("c1", CaseStatus.PASSED, passed)))

    (case_result,) = result.eval_case_results
    assert (result.eval_set_id, case_result.eval_id, case_result.session_id, case_result.user_id) == (
        "set1",
        "c1",
        "s1",
        "u1",
    )
    (turn,) = case_result.eval_metric_result_per_invocation
    assert turn.actual_invocation.user_content.parts[0].text == "Olá 你好 😀"
    assert turn.actual_invocation.duration == 0.123
    event = turn.actual_invocation.intermediate_data.invocation_events[0]
    assert event.content.parts[0].function_call.args == {"x": None}
    assert event.content.parts[0].thought_signature == b"\xff\xfe"
    assert event.usage_metadata.prompt_token_count == 3
    assert turn.actual_invocation.app_details.get_developer_instructions("root") == "Do."
    expected = turn.expected_invocation
    assert expected.intermediate_data.tool_uses[0].args == {"x": 1}
    assert expected.intermediate_data.intermediate_responses[0][0] == "sub"
    assert expected.model_duration == 0.5
    assert expected.rubrics[0].rubric_content.text_property == "is polite"


@pytest.mark.needs_adk
@pytest.mark.parametrize(
    ("status", "name"),
    [
        (CaseStatus.PASSED, "PASSED"),
        (CaseStatus.FAILED, "FAILED"),
        (CaseStatus.ERROR, "FAILED"),
        (CaseStatus.NOT_EVALUATED, "NOT_EVALUATED"),
        (CaseStatus.SKIPPED, "NOT_EVALUATED"),
        (CaseStatus.CANCELLED, "NOT_EVALUATED"),
    ],
)
def test_case_statuses_are_mapped_to_those_of_adk(tmp_path: Path, status: CaseStatus, name: str) -> None:
    path = write(tmp_path, case("c1", status))

    (case_result,) = read_with_adk(path).eval_case_results
    assert case_result.final_eval_status.name == name
    assert json.loads(path.read_bytes())["eval_case_results"][0]["workbench"]["status"] == status.value


@pytest.mark.needs_adk
@pytest.mark.parametrize(
    ("status", "score", "name", "turn"),
    [
        (MetricStatus.PASSED, 0.9, "PASSED", "PASSED"),
        (MetricStatus.FAILED, 0.1, "FAILED", "FAILED"),
        (MetricStatus.PASSED, 0.1, "PASSED", "PASSED"),  # the threshold is an upper limit
        (MetricStatus.FAILED, 0.9, "FAILED", "FAILED"),
        (MetricStatus.ERROR, None, "NOT_EVALUATED", "NOT_EVALUATED"),
        (MetricStatus.UNDEFINED, None, "NOT_EVALUATED", "NOT_EVALUATED"),
        (MetricStatus.INFORMATIONAL, 3.0, "INFORMATIONAL", "INFORMATIONAL"),
    ],
)
def test_metric_statuses_are_mapped_to_those_of_adk(
    tmp_path: Path, status: MetricStatus, score: float | None, name: str, turn: str
) -> None:
    judged = metric("rouge_l", status, score, threshold=None if status is MetricStatus.INFORMATIONAL else 0.5)
    (case_result,) = read_with_adk(write(tmp_path, case("c1", CaseStatus.FAILED, judged))).eval_case_results

    (overall,) = case_result.overall_eval_metric_results
    assert (overall.metric_name, overall.eval_status.name, overall.score) == ("rouge_l", name, score)
    (turn_metric,) = case_result.eval_metric_result_per_invocation[0].eval_metric_results
    assert (turn_metric.eval_status.name, turn_metric.score) == (turn, score)


@pytest.mark.needs_adk
def test_criteria_and_custom_functions_are_written_with_their_options(tmp_path: Path) -> None:
    config = read_config(
        {"criteria": {"tool_trajectory_avg_score": {"threshold": 0.5, "match_type": "IN_ORDER"}, "mine": 0.5}},
        source="x",
    ).model_copy(update={"custom_metrics": {"mine": CustomMetricFunction(path="pkg.mod.f")}})
    judged = [metric(name, MetricStatus.PASSED, 1.0) for name in ("tool_trajectory_avg_score", "mine")]

    (case_result,) = read_with_adk(
        write(tmp_path, case("c1", CaseStatus.PASSED, *judged), config=config)
    ).eval_case_results

    trajectory, mine = case_result.overall_eval_metric_results
    assert (trajectory.criterion.threshold, trajectory.criterion.model_extra) == (0.5, {"match_type": "IN_ORDER"})
    assert (mine.threshold, mine.custom_function_path) == (0.5, "pkg.mod.f")


@pytest.mark.needs_adk
def test_rubrics_are_written_with_scores_and_rationales_of_the_judge(tmp_path: Path) -> None:
    scores = (
        score_rubrics(polite=(1.0, "It greets."), short=(0.0, "Too long.")),
        score_rubrics(polite=(0.0, "It shouts."), silent=(None, "")),
    )
    judged = metric("rubric_based_final_response_quality_v1", MetricStatus.FAILED, 1 / 3, per_invocation=scores)

    (case_result,) = read_with_adk(write(tmp_path, case("c1", CaseStatus.FAILED, judged, turns=2))).eval_case_results

    first, second = (turn.eval_metric_results[0] for turn in case_result.eval_metric_result_per_invocation)
    assert [(each.rubric_id, each.rationale, each.score) for each in first.details.rubric_scores] == [
        ("polite", "It greets.", 1.0),
        ("short", "Too long.", 0.0),
    ]
    assert [(each.rubric_id, each.rationale, each.score) for each in second.details.rubric_scores] == [
        ("polite", "It shouts.", 0.0),
        ("silent", None, None),
    ]
    overall = case_result.overall_eval_metric_results[0].details.rubric_scores
    assert [(each.rubric_id, each.score) for each in overall] == [("polite", 0.5), ("short", 0.0), ("silent", None)]


def score_rubrics(**rubrics: tuple[float | None, str]) -> InvocationScore:
    scores = tuple(
        RubricScore(rubric_id=name, text=f"It is {name}.", score=score, rationale=rationale)
        for name, (score, rationale) in rubrics.items()
    )
    return InvocationScore(score=0.5, judgement=Judgement(model="m", prompt="p", rubrics=scores))


@pytest.mark.needs_adk
def test_repeats_and_errors_are_recorded_under_our_own_key(tmp_path: Path) -> None:
    failure = Failure(kind=FailureKind.AGENT, message="ValueError: api_key=abcdef123456 refused", turn=1)
    path = write(tmp_path, case(repeat=0), case("c1", CaseStatus.ERROR, repeat=1, failure=failure))

    assert len(read_with_adk(path).eval_case_results) == 2
    first, second = (case_result["workbench"] for case_result in json.loads(path.read_bytes())["eval_case_results"])
    assert (first["repeat"], second["repeat"]) == (0, 1)
    assert "failure" not in first
    assert second["failure"] == {"kind": "agent", "message": "ValueError: api_key=[redacted] refused", "turn": 1}


@pytest.mark.needs_adk
@pytest.mark.parametrize("eval_set_id", ["a/b", "sets\\b", "C:x", "legacy/old.evalset.json", "名" * 300, "..", ""])
def test_adk_finds_the_file_of_any_eval_set_id(tmp_path: Path, eval_set_id: str) -> None:
    path = write(tmp_path, case(eval_set_id=eval_set_id))

    assert path.parent == tmp_path / "my_agent" / ".adk" / "eval_history"
    assert read_with_adk(path).eval_set_id == eval_set_id


@pytest.mark.needs_adk
def test_adk_reads_results_with_a_missing_case_and_invalid_unicode(tmp_path: Path) -> None:
    broken = Invocation.model_validate({**ACTUAL, "final_response": {"parts": [{"text": "half \ud83d"}]}})
    turn = TurnResult(invocation=broken, duration_seconds=float("inf"))
    result = case().model_copy(update={"execution": Execution(turns=(turn,))})

    case_result = read_with_adk(write(tmp_path, result, expected={})).eval_case_results[0]

    (turn_result,) = case_result.eval_metric_result_per_invocation
    assert turn_result.expected_invocation is None
    assert turn_result.actual_invocation.final_response.parts[0].text == "half ?"
    assert case_result.user_id == "test_user_id"


def test_an_existing_file_is_never_replaced(tmp_path: Path) -> None:
    first, second = write(tmp_path, case()), write(tmp_path, case("c2"))

    assert first != second
    assert json.loads(first.read_bytes())["eval_case_results"][0]["eval_id"] == "c1"


def test_a_folder_that_cannot_be_created_is_an_error_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "my_agent").write_text("a file")

    with pytest.raises(StoreError, match="my_agent"):
        write(tmp_path, case())
