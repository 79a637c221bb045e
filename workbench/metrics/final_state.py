"""`final_session_state_match`: the final state of the session, compared with `final_session_state` of the case.

ADK defines the field but has no metric for it. Values are compared in canonical form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.metrics.case_view import CaseView, is_same
from workbench.metrics.metric_types import CaseJudge, CaseScore, Definition, Judge, MetricInfo, Options
from workbench.model.results import Score

NAME = "final_session_state_match"
# google-adk's evaluation keeps the key of its last model request in the state of the agent.
_ADK_KEYS = frozenset({"__llm_request_key__"})


def find_differences(expected: Mapping[str, Any], actual: Mapping[str, Any], *, exact: bool) -> list[dict[str, Any]]:
    """List the differences by key: `kind` is missing, different, or (with `exact`) unexpected."""
    found: list[dict[str, Any]] = []
    for key, value in expected.items():
        if key not in actual:
            found.append({"key": key, "kind": "missing", "expected": value})
        elif not is_same(value, actual[key]):
            found.append({"key": key, "kind": "different", "expected": value, "actual": actual[key]})
    if exact:
        found += [
            {"key": key, "kind": "unexpected", "actual": value} for key, value in actual.items() if key not in expected
        ]
    return found


def _score_state(view: CaseView, *, exact: bool, ignored: frozenset[str]) -> CaseScore:
    """Return 1 if the state is as expected, else 0. Undefined if the case expects no state, or did not end."""
    case, execution = view.subject.case, view.subject.execution
    if case is None or not case.final_session_state:
        return CaseScore(Score.undefined("the case expects no final_session_state"))
    if execution.failure is not None:
        return CaseScore(Score.undefined("the session did not end"))
    if execution.final_state is None and view.subject.recorded:
        return CaseScore(Score.undefined("the recorded session has no final state"))
    actual = _drop_keys(execution.final_state or {}, ignored)
    found = find_differences(_drop_keys(case.final_session_state, ignored), actual, exact=exact)
    if not found:
        return CaseScore(Score(1.0))
    hint = "The agent reported no session state." if execution.final_state is None else None
    return CaseScore(Score(0.0, hint=hint), {"differences": found})


def _drop_keys(state: Mapping[str, Any], ignored: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in state.items() if key not in ignored}


def _prepare(options: Options) -> Sequence[Judge]:
    exact = options.choice("match", ("subset", "exact"), default="subset") == "exact"
    ignored = _ADK_KEYS.union(options.names("ignore"))
    return [CaseJudge(name=NAME, score=lambda view: _score_state(view, exact=exact, ignored=ignored))]


METRICS = (
    Definition(
        info=MetricInfo(
            name=NAME,
            family="state",
            purpose="Whether the session ended in the state that the case expects.",
            when="The outcome matters: orders, bookings, settings.",
            fits_scenarios=True,
            options={
                "match": "subset (default): the expected keys with equal values; exact: and no others",
                "ignore": "a key, or a list of keys, to ignore",
            },
            choices={"match": ("subset", "exact")},
        ),
        prepare=_prepare,
    ),
)
