"""Scores of a group of cases, and which runs are whole."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tui.state.stored import make_run, make_stored_scores, metric, result
from workbench.tui.state.group_scores import is_whole_run, summarize_scores

SET = "sets/lights.evalset.json"


def test_a_spread_has_sample_deviation_histogram_and_the_worst_first() -> None:
    results = [result(f"c{n}", metric("response_match_score", n / 20)) for n in range(20)]
    spread = summarize_scores(
        make_stored_scores(one) for one in [*results, result("none", metric("response_match_score", None))]
    )

    (metric_spread,) = spread.metrics
    assert metric_spread.mean == pytest.approx(0.475)
    assert metric_spread.std == pytest.approx(0.29580, abs=1e-4)
    assert (metric_spread.scored, metric_spread.total, metric_spread.failed) == (20, 21, 10)
    assert metric_spread.bins == (2,) * 10
    assert [worst.case.eval_id for worst in metric_spread.worst] == [f"c{n}" for n in range(10)]


def select(*cases: str, **more: Any) -> dict[str, Any]:
    return {"options": {"selections": [{"eval_set": SET, "cases": list(cases)}], "scores": True, **more}}


@pytest.mark.parametrize(
    ("run", "is_whole"),
    [
        ({}, True),
        (select("a", "b", "gone"), True),
        (select("a"), False),  # `--failed`, or one case
        ({"interrupted": True}, False),
        ({"ended": False}, False),
        ({"command": "watch"}, False),
        ({"command": "watch: agent.py: answer() changed", "options": {}}, False),
        ({"command": "workbench run watch"}, True),
        ({"options": {"selections": [{"eval_set": SET, "cases": None}], "scores": False}}, False),
        ({"options": {"selections": [{"eval_set": "other.evalset.json", "cases": None}]}}, False),
        ({"options": {"runs": 2}, "total": 4}, True),  # recorded data has no selection
        ({"options": {"runs": 2}, "total": 3}, False),
    ],
)
def test_only_runs_of_all_cases_are_whole(run: dict[str, Any], is_whole: bool) -> None:
    assert is_whole_run(make_run(1, **run), {SET: ["a", "b"]}) is is_whole
