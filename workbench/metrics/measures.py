"""Measures of a case, and the comparison of its final state.

Measures (time, failures, calls, tokens) are informational and always reported. Only a criterion with a threshold makes
them fail.

`latency` and `failure` are Vertex's and about the whole case. The other four are ADK's: per turn, and the mean for the
case (google-adk 2.13, `evaluation/_efficiency_evaluators.py`). `invocation_duration_v1` adds nothing to `latency`, so
it is computed only for a criterion. Lower is better for all: the threshold is the highest value that passes.

`final_session_state_match` compares the final state of the session with `final_session_state` of the case. ADK defines
the field but has no metric for it. Values are compared in canonical form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench.metrics.case_view import CaseView, Turn, is_same
from workbench.metrics.metric_types import (
    CaseJudge,
    CaseScore,
    Definition,
    Judge,
    MetricInfo,
    Options,
    TurnJudge,
    is_number,
)
from workbench.model.evalset import InvocationEvents
from workbench.model.results import Score, TokenUsage
from workbench.model.text import join_some
from workbench.store.json.json_path import to_camel

FAMILY = "measure"
_NOT_FINISHED = Score.undefined("the turn was not finished")
_NO_CALLS_REPORTED = Score.undefined("model calls were not reported")
_NO_TOKENS_REPORTED = Score.undefined("tokens were not reported")
_NOT_RECORDED = {
    column: CaseScore(Score.undefined(f"no agent ran, and the row has no {column}"))
    for column in ("latency_in_seconds", "failure")
}


def measure_latency(view: CaseView) -> CaseScore:
    """Return the seconds of the agent for the case, the sum of its turns. Undefined if it failed, as in Vertex."""
    execution = view.subject.execution
    if view.subject.recorded:
        return _read_recorded(view, "latency_in_seconds")
    if execution.failure is not None:
        return CaseScore(Score.undefined("the agent did not finish"))
    return CaseScore(Score(sum((turn.duration_seconds for turn in execution.turns), 0.0)))


def measure_failure(view: CaseView) -> CaseScore:
    """Return 1 if the agent could not finish the case, else 0."""
    if view.subject.recorded:
        return _read_recorded(view, "failure")
    return CaseScore(Score(0.0 if view.subject.execution.failure is None else 1.0))


def count_tool_calls(turn: Turn) -> Score:
    """Count the tool calls of the turn, with those of sub-agents."""
    if turn.calls_unknown is not None:
        return Score.undefined(turn.calls_unknown)
    if turn.predicted is None:
        return Score.undefined("the row has no predicted_trajectory")
    return Score(float(len(turn.predicted)))


def count_inference_calls(turn: Turn) -> Score:
    """Count the model calls of the turn; undefined if neither the adapter nor the events show them."""
    calls = None if turn.result is None else turn.result.inference_calls
    if calls is None:
        calls = len(_list_model_events(turn)) or None
    return _NO_CALLS_REPORTED if calls is None else Score(float(calls))


def count_tokens(turn: Turn) -> Score:
    """Count the tokens of the turn: input (prompt and tool use) plus output (candidates and thoughts).

    Undefined if none were reported, by the adapter or in the events. The model's `total` is used only if the parts are
    unknown.
    """
    usage = None if turn.result is None else turn.result.usage
    known = [usage] if usage is not None else list(map(_read_usage, _list_model_events(turn)))
    counts = [count for each in known if (count := _sum_parts(each)) is not None]
    tokens = sum(counts) if counts else None
    return _NO_TOKENS_REPORTED if tokens is None else Score(float(tokens))


def measure_duration(turn: Turn) -> Score:
    """Return the seconds from the user's message to the agent's last event; undefined if they were not measured."""
    if turn.result is None:
        return _NOT_FINISHED
    if not turn.result.duration_seconds:  # recorded turns have none; a real one takes time
        return Score.undefined("the duration of the turn was not recorded")
    return Score(turn.result.duration_seconds)


def _list_model_events(turn: Turn) -> list[Mapping[str, Any]]:
    """List what the events of the turn say about model calls, as google-adk counts them: one call for each event."""
    data = None if turn.result is None else turn.result.invocation.intermediate_data
    events = data.invocation_events if isinstance(data, InvocationEvents) else []
    extras = [event.model_extra or {} for event in events]
    return [extra for extra in extras if any(_get(extra, key) is not None for key in _OF_MODEL_CALLS)]


_OF_MODEL_CALLS = ("usage_metadata", "model_version")
_PARTS = ("prompt", "tool_use_prompt", "candidates", "thoughts", "total")


def _get(data: Mapping[str, Any], key: str) -> Any:
    return data.get(key, data.get(to_camel(key)))


def _read_usage(event: Mapping[str, Any]) -> TokenUsage:
    """Read the usage metadata of google.genai in an event."""
    usage = _get(event, "usage_metadata")
    counts = {name: _get(usage, f"{name}_token_count") for name in _PARTS} if isinstance(usage, Mapping) else {}
    return TokenUsage(**{name: count for name, count in counts.items() if isinstance(count, int)})


def _sum_parts(usage: TokenUsage) -> int | None:
    parts = (usage.prompt, usage.tool_use_prompt, usage.candidates, usage.thoughts)
    reported = [part for part in parts if part is not None]
    return sum(reported) if reported else usage.total


def _read_recorded(view: CaseView, column: str) -> CaseScore:
    """Read a measure of a dataset row from its column."""
    value = view.subject.columns.get(column)
    return _NOT_RECORDED[column] if value is None or not is_number(value) else CaseScore(Score(float(value)))


def _define_case_measure(
    name: str, score: Callable[[CaseView], CaseScore], *, purpose: str, when: str, highest: float | None = None
) -> Definition:
    def prepare(_options: Options) -> Sequence[Judge]:
        return [CaseJudge(name=name, score=score)]

    return Definition(info=_make_info(name, purpose=purpose, when=when, highest=highest), prepare=prepare)


def _define_turn_measure(
    name: str, score: Callable[[Turn], Score], *, purpose: str, when: str, missing_is_zero: bool = False
) -> Definition:
    def prepare(_options: Options) -> Sequence[Judge]:
        return [TurnJudge(name=name, score=score, missing_is_zero=missing_is_zero)]

    return Definition(info=_make_info(name, purpose=purpose, when=when, highest=None), prepare=prepare)


def _make_info(name: str, *, purpose: str, when: str, highest: float | None) -> MetricInfo:
    return MetricInfo(
        name=name,
        family=FAMILY,
        purpose=purpose,
        when=when,
        highest=highest,
        lower_is_better=True,
        needs_reference=False,
        fits_scenarios=True,
        informational=True,
    )


ALWAYS_REPORTED = (
    _define_case_measure(
        "latency", measure_latency, purpose="Seconds the agent took for the case.", when="Always reported."
    ),
    _define_case_measure(
        "failure", measure_failure, purpose="1 where the agent failed, else 0.", when="Always reported.", highest=1.0
    ),
    _define_turn_measure(
        "tool_call_count_v1", count_tool_calls, purpose="Tool calls for each turn.", when="Always reported."
    ),
    _define_turn_measure(
        "inference_call_count_v1",
        count_inference_calls,
        purpose="Model calls for each turn.",
        when="Always reported if the adapter sees model calls.",
    ),
    _define_turn_measure(
        "token_usage_v1",
        count_tokens,
        purpose="Tokens for each turn, input and output.",
        when="Always reported if the model reports tokens.",
        missing_is_zero=True,  # ADK: if one turn reports tokens, a turn without a report used none
    ),
)

METRICS = (
    *ALWAYS_REPORTED,
    _define_turn_measure(
        "invocation_duration_v1",
        measure_duration,
        purpose="Seconds for each turn.",
        when="A limit on the mean turn; for the whole case see latency.",
    ),
)


# The final state of the session.

STATE_MATCH = "final_session_state_match"
# google-adk's evaluation keeps the key of its last model request in the state of the agent.
_ADK_KEYS = frozenset({"__llm_request_key__"})
_MOST_KEYS = 8  # in a hint


def find_state_differences(
    expected: Mapping[str, Any], actual: Mapping[str, Any], *, exact: bool
) -> list[dict[str, Any]]:
    """List the differences by key: `kind` is missing, different, or (with `exact`) unexpected."""
    differences: list[dict[str, Any]] = []
    for key, value in expected.items():
        if key not in actual:
            differences.append({"key": key, "kind": "missing", "expected": value})
        elif not is_same(value, actual[key]):
            differences.append({"key": key, "kind": "different", "expected": value, "actual": actual[key]})
    if exact:
        differences += [
            {"key": key, "kind": "unexpected", "actual": value} for key, value in actual.items() if key not in expected
        ]
    return differences


def _score_state(view: CaseView, *, exact: bool, ignored: frozenset[str]) -> CaseScore:
    """Return 1 if the state is as expected, else 0. Undefined if the case expects no state, or did not end.

    An empty object expects an empty state, in both modes.
    """
    case, execution = view.subject.case, view.subject.execution
    if case is None or case.final_session_state is None:
        return CaseScore(Score.undefined("the case expects no final_session_state"))
    if execution.failure is not None:
        return CaseScore(Score.undefined("the session did not end"))
    if execution.final_state is None and view.subject.recorded:
        return CaseScore(Score.undefined("the recorded session has no final state"))
    actual = _drop_keys(execution.final_state or {}, ignored)
    is_exact = exact or not case.final_session_state
    differences = find_state_differences(_drop_keys(case.final_session_state, ignored), actual, exact=is_exact)
    if not differences:
        return CaseScore(Score(1.0))
    return CaseScore(Score(0.0, hint=_explain_state(execution.final_state, differences)), {"differences": differences})


def _explain_state(actual: Mapping[str, Any] | None, differences: Sequence[Mapping[str, Any]]) -> str | None:
    """Explain what the differences between expected and actual values do not show."""
    if actual is None:
        return "The agent reported no session state."
    unexpected = [str(each["key"]) for each in differences if each["kind"] == "unexpected"]
    if not unexpected:
        return None
    return f"The state has keys that are not expected: {join_some(unexpected, _MOST_KEYS)}."


def _drop_keys(state: Mapping[str, Any], ignored: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in state.items() if key not in ignored}


def _prepare_state_match(options: Options) -> Sequence[Judge]:
    exact = options.choice("match", ("subset", "exact"), default="subset") == "exact"
    ignored = _ADK_KEYS.union(options.names("ignore"))
    return [CaseJudge(name=STATE_MATCH, score=lambda view: _score_state(view, exact=exact, ignored=ignored))]


STATE_METRICS = (
    Definition(
        info=MetricInfo(
            name=STATE_MATCH,
            family="state",
            purpose="Whether the session ended in the state that the case expects.",
            when="The outcome matters: orders, bookings, settings.",
            fits_scenarios=True,
            options={
                "match": "subset (default): the expected keys with equal values (none for {}); exact: and no others",
                "ignore": "a key, or a list of keys, to ignore",
            },
            choices={"match": ("subset", "exact")},
        ),
        prepare=_prepare_state_match,
    ),
)
