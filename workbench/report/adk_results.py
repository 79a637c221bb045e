"""Results in the format of google-adk, so that `adk web` shows our runs beside its own.

There is one file for each run of a set, in snake_case, with integer statuses and without the nulls that ADK writes:
`<agents_dir>/<app>/.adk/eval_history/<app>_<set>_<unix time>.evalset_result.json`.

ADK has no errors, repeats and reasons: a case in ERROR is FAILED. Data without a field in ADK is under the key
`workbench`, which ADK accepts only in the result of a set and of a case. Fields of invocations that ADK refuses are
left out.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from workbench import __version__
from workbench.model.criteria import Criterion, EvalConfig, get_member
from workbench.model.evalset import Content, EvalCase, Invocation, InvocationEvents
from workbench.model.identity import CaseKey
from workbench.model.results import CaseResult, CaseStatus, InvocationScore, MetricResult, MetricStatus
from workbench.model.text import redact
from workbench.report.run_report import has_upper_limit
from workbench.store.files import make_folder, write_new
from workbench.store.json.json_path import to_snake

RESULT_SUFFIX = ".evalset_result.json"
SCHEMA_VERSION = 1
"""The version of the data under the key `workbench`."""

_PASSED, _FAILED, _NOT_EVALUATED, _INFORMATIONAL = 1, 2, 3, 4  # google.adk.evaluation.evaluator.EvalStatus
_CASE_STATUS = {CaseStatus.PASSED: _PASSED, CaseStatus.FAILED: _FAILED, CaseStatus.ERROR: _FAILED}
_METRIC_STATUS = {
    MetricStatus.PASSED: _PASSED,
    MetricStatus.FAILED: _FAILED,
    MetricStatus.INFORMATIONAL: _INFORMATIONAL,
}
_DEFAULT_USER = "test_user_id"  # ADK's default for a case without session input

# The extra fields that google-adk 2.13 and google-genai accept. Any other field makes them refuse the whole file.
_INVOCATION_EXTRAS = frozenset({"duration", "model_duration", "tool_duration"})
_EVENT_EXTRAS = frozenset({"grounding_metadata", "usage_metadata", "model_version"})
_CALL_EXTRAS = frozenset({"partial_args", "will_continue"})
_RESPONSE_EXTRAS = frozenset({"parts", "scheduling", "will_continue"})
_PART_EXTRAS = frozenset(
    {
        "audio_transcription",
        "code_execution_result",
        "executable_code",
        "file_data",
        "inline_data",
        "media_resolution",
        "part_metadata",
        "thought_signature",
        "tool_call",
        "tool_response",
        "video_metadata",
    }
)
_AGENT_DETAILS = frozenset({"name", "instructions", "tool_declarations"})
_LONGEST_NAME = 180  # bytes of app and set in a file name, which may have 255


def write_adk_results(
    agent_folder: Path,
    results: Sequence[CaseResult],
    *,
    config: EvalConfig,
    expected: Mapping[CaseKey, EvalCase],
    run_id: str,
    ended_at: float | None = None,
) -> Path:
    """Write the results of one eval set of an ADK agent, and return the file.

    `agent_folder` is the folder of the agent (`<agents_dir>/<app>`). `results` are of one set and not empty. `expected`
    has their cases; the result of a missing case has no expected side. `ended_at` is the end of the run (seconds since
    1970; None: now). An existing file is never replaced. Raises StoreError.
    """
    folder = agent_folder / ".adk" / "eval_history"
    app, eval_set_id = agent_folder.name, results[0].eval_set_id
    moment = time.time() if ended_at is None else ended_at
    name = result_name(app, eval_set_id, moment)
    while (folder / f"{name}{RESULT_SUFFIX}").exists():
        moment += 1e-5
        name = result_name(app, eval_set_id, moment)
    data = {
        "eval_set_result_id": name,
        "eval_set_result_name": name,
        "eval_set_id": eval_set_id,
        "eval_case_results": [
            _case_result(result, config=config, expected=expected.get(result.case)) for result in results
        ],
        "creation_timestamp": moment,
        "workbench": {
            "schema_version": SCHEMA_VERSION,
            "version": __version__,
            "run_id": run_id,
            "target": results[0].case.target,
            "eval_set": results[0].case.eval_set,
        },
    }
    make_folder(folder)
    path = folder / f"{name}{RESULT_SUFFIX}"
    write_new(path, _to_json(data))
    return path


def result_name(app: str, eval_set_id: str, moment: float) -> str:
    """Return the name of a result, which is also its id. ADK finds a result by its file, so the id has no slash."""
    name = re.sub(r"[/\\:\x00-\x1f]", "_", f"{app}_{eval_set_id}")
    name = name.encode("utf-8", "replace")[:_LONGEST_NAME].decode("utf-8", "ignore")
    return f"{name}_{moment:.6f}".rstrip("0").rstrip(".")


def _case_result(result: CaseResult, *, config: EvalConfig, expected: EvalCase | None) -> dict[str, Any]:
    session = expected.session_input if expected else None
    criteria = {criterion.metric: criterion for criterion in config.criteria}
    return {
        "eval_set_file": result.eval_set_id,
        "eval_set_id": result.eval_set_id,
        "eval_id": result.case.eval_id,
        "final_eval_status": _CASE_STATUS.get(result.status, _NOT_EVALUATED),
        "overall_eval_metric_results": [
            _metric_result(
                metric,
                config=config,
                criteria=criteria,
                score=metric.score,
                status=_METRIC_STATUS.get(metric.status, _NOT_EVALUATED),
                rubrics=_overall_rubrics(metric),
            )
            for metric in result.metrics
        ],
        "eval_metric_result_per_invocation": list(
            _list_turns(result, config=config, criteria=criteria, expected=expected)
        ),
        "session_id": (session.session_id if session else None) or "",
        "user_id": (session.user_id if session else None) or _DEFAULT_USER,
        "workbench": _workbench_details(result),
    }


def _workbench_details(result: CaseResult) -> dict[str, Any]:
    """Return the data for which ADK has no field."""
    details: dict[str, Any] = {
        "status": result.status.value,
        "repeat": result.repeat,
        "occurrence": result.case.occurrence,
        "duration_seconds": result.duration_seconds,
        "turn_durations_seconds": [turn.duration_seconds for turn in result.execution.turns],
        "metrics": {
            metric.name: {
                "status": metric.status.value,
                "scored": metric.scored,
                "total": metric.total,
                **({"reason": redact(metric.reason)} if metric.reason else {}),
            }
            for metric in result.metrics
        },
    }
    if result.failure is not None:
        details["failure"] = {
            "kind": result.failure.kind.value,
            "message": redact(result.failure.message),
            "turn": result.failure.turn,
        }
    return details


def _list_turns(
    result: CaseResult, *, config: EvalConfig, criteria: Mapping[str, Criterion], expected: EvalCase | None
) -> Iterator[dict[str, Any]]:
    expected_turns = (expected.conversation if expected else None) or []
    for index, turn in enumerate(result.execution.turns):
        record: dict[str, Any] = {
            "actual_invocation": {**_invocation(turn.invocation), "duration": round(turn.duration_seconds, 3)},
            "eval_metric_results": [
                _metric_result(
                    metric,
                    config=config,
                    criteria=criteria,
                    score=metric.per_invocation[index].score,
                    status=_status_of_turn(metric, metric.per_invocation[index]),
                    rubrics=_list_rubric_scores(metric.per_invocation[index]),
                )
                for metric in result.metrics
                if index < len(metric.per_invocation)
            ],
        }
        if index < len(expected_turns):
            record["expected_invocation"] = _invocation(expected_turns[index])
        yield record


def _metric_result(
    metric: MetricResult,
    *,
    config: EvalConfig,
    criteria: Mapping[str, Criterion],
    score: float | None,
    status: int,
    rubrics: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    record: dict[str, Any] = {"metric_name": metric.name, "eval_status": status}
    if rubrics:
        record["details"] = {"rubric_scores": list(rubrics)}
    if score is not None:
        record["score"] = score
    if metric.threshold is not None:
        record["threshold"] = metric.threshold
        criterion = criteria.get(metric.name)
        record["criterion"] = {**(criterion.options if criterion else {}), "threshold": metric.threshold}
    custom = config.custom_metrics.get(metric.name)
    if custom is not None:
        record["custom_function_path"] = custom.path
    return record


def _list_rubric_scores(score: InvocationScore) -> Sequence[Mapping[str, Any]]:
    """Return the rubric scores of a turn. A rubric without verdict has no score."""
    if score.judgement is None:
        return ()
    return [
        _drop_none(rubric_id=rubric.rubric_id, rationale=redact(rubric.rationale) or None, score=rubric.score)
        for rubric in score.judgement.rubrics
    ]


def _overall_rubrics(metric: MetricResult) -> Sequence[Mapping[str, Any]]:
    """Return the mean score of each rubric over the turns, as in ADK. The turns have the rationales."""
    scores: dict[str, list[float]] = {}
    for turn in metric.per_invocation:
        for rubric in turn.judgement.rubrics if turn.judgement is not None else ():
            scores.setdefault(rubric.rubric_id, []).extend([] if rubric.score is None else [rubric.score])
    return [
        _drop_none(
            rubric_id=rubric_id,
            rationale="the mean over the turns; each of them has the reasons of the judge",
            score=sum(values) / len(values) if values else None,
        )
        for rubric_id, values in scores.items()
    ]


def _status_of_turn(metric: MetricResult, score: InvocationScore) -> int:
    if score.score is None:
        return _NOT_EVALUATED
    if metric.status is MetricStatus.INFORMATIONAL or metric.threshold is None:
        return _INFORMATIONAL
    is_passed = score.score <= metric.threshold if has_upper_limit(metric) else score.score >= metric.threshold
    return _PASSED if is_passed else _FAILED


def _invocation(invocation: Invocation) -> dict[str, Any]:
    record: dict[str, Any] = {
        "invocation_id": invocation.invocation_id,
        "user_content": _content(invocation.user_content),
        "creation_timestamp": invocation.creation_timestamp,
        **_known_extras(invocation, _INVOCATION_EXTRAS),
    }
    if invocation.final_response is not None:
        record["final_response"] = _content(invocation.final_response)
    data = invocation.intermediate_data
    if isinstance(data, InvocationEvents):
        record["intermediate_data"] = {"invocation_events": _events(data)}
    elif data is not None:
        record["intermediate_data"] = {
            "tool_uses": [_call(call) for call in data.tool_uses],
            "tool_responses": [_response(response) for response in data.tool_responses],
            "intermediate_responses": [
                [item.author, [_part(part) for part in item.parts]] for item in data.intermediate_responses
            ],
        }
    if invocation.rubrics:
        record["rubrics"] = [
            _drop_none(
                rubric_id=rubric.rubric_id,
                rubric_content={"text_property": get_member(rubric.rubric_content, "text_property", "textProperty")},
                description=rubric.description,
                type=rubric.type,
            )
            for rubric in invocation.rubrics
        ]
    details = _app_details(invocation.app_details or {})
    return {**record, "app_details": details} if details else record


def _events(data: InvocationEvents) -> list[dict[str, Any]]:
    return [
        {
            "author": event.author,
            **({} if event.content is None else {"content": _content(event.content)}),
            **_known_extras(event, _EVENT_EXTRAS),
        }
        for event in data.invocation_events
    ]


def _content(content: Content) -> dict[str, Any]:
    parts = None if content.parts is None else [_part(part) for part in content.parts]
    return _drop_none(parts=parts, role=content.role)


def _part(part: Any) -> dict[str, Any]:
    return _drop_none(
        text=part.text,
        thought=part.thought,
        function_call=_call(part.function_call) if part.function_call else None,
        function_response=_response(part.function_response) if part.function_response else None,
        **_known_extras(part, _PART_EXTRAS),
    )


def _call(call: Any) -> dict[str, Any]:
    return _drop_none(id=call.id, name=call.name, args=call.args, **_known_extras(call, _CALL_EXTRAS))


def _response(response: Any) -> dict[str, Any]:
    return _drop_none(
        id=response.id, name=response.name, response=response.response, **_known_extras(response, _RESPONSE_EXTRAS)
    )


def _app_details(details: Mapping[str, Any]) -> dict[str, Any]:
    agents = get_member(details, "agent_details", "agentDetails")
    if not isinstance(agents, Mapping):
        return {}
    record = {}
    for name, agent in agents.items():
        snake_agent = {to_snake(key): value for key, value in agent.items()} if isinstance(agent, Mapping) else {}
        record[name] = {"name": name, **{key: value for key, value in snake_agent.items() if key in _AGENT_DETAILS}}
    return {"agent_details": record}


def _known_extras(model: Any, allowed: frozenset[str]) -> dict[str, Any]:
    """Return the extra fields of one of our models that ADK knows, in snake_case."""
    extras = model.model_extra or {}
    return {to_snake(key): value for key, value in extras.items() if value is not None and to_snake(key) in allowed}


def _drop_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _to_json(data: Any) -> bytes:
    """Encode as indented UTF-8. Infinity becomes null, and half a surrogate pair a replacement character."""
    try:
        return to_json(data, indent=2, inf_nan_mode="null")
    except (PydanticSerializationError, UnicodeEncodeError):
        return to_json(_encodable(data), indent=2, inf_nan_mode="null")


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, Mapping):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    if isinstance(value, Iterable):
        return [_encodable(item) for item in value]
    return value
