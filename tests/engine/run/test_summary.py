"""The numbers of a run, and the exit status of a command."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.engine.plan import Plan, PlannedCase, RunOptions, resolve_limits
from workbench.engine.run import Run, Verdict, exit_status, make_verdict, summarise
from workbench.metrics.registry import prepare
from workbench.model.criteria import EvalConfig
from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import CaseResult, CaseStatus, MetricResult, MetricStatus
from workbench.model.run_events import RunSummary
from workbench.model.target import AgentKind, Target
from workbench.store.settings import Settings


def make_case_verdict(status: CaseStatus, **scores: float | None) -> Verdict:
    metrics = tuple(
        MetricResult(name=name, score=score, threshold=None, status=MetricStatus.INFORMATIONAL)
        for name, score in scores.items()
    )
    key = CaseKey(target="t", eval_set="s", eval_id="c")
    return make_verdict(CaseResult(case=key, eval_set_id="s", status=status, metrics=metrics))


@given(st.lists(st.floats(-1e6, 1e6), min_size=2))
def test_mean_and_deviation_agree_with_the_statistics_module(scores: list[float]) -> None:
    metric = summarise(make_case_verdict(CaseStatus.PASSED, m=score) for score in scores).metrics["m"]

    assert metric.mean == pytest.approx(statistics.fmean(scores), abs=1e-6)
    assert metric.std == pytest.approx(statistics.stdev(scores), abs=1e-4)
    assert (metric.scored, metric.total) == (len(scores), len(scores))


def test_the_summary_of_a_run_counts_each_result_that_follows() -> None:
    key = CaseKey(target="t", eval_set="s", eval_id="c")
    target = Target(name="t", kind=AgentKind.FUNCTION, location="agent:answer", path=Path())
    planned = PlannedCase(key=key, eval_set_id="s", target=target, criteria=prepare(EvalConfig(criteria=())))
    limits = resolve_limits(Settings(), RunOptions(runs=2))
    run = Run("r", Plan(root=Path(), cases=(planned,), limits=limits, options=RunOptions()), call_engine=print)

    for repeat, status in enumerate((CaseStatus.PASSED, CaseStatus.FAILED)):
        run.add_results([(JobKey(key, repeat), CaseResult(case=key, eval_set_id="s", repeat=repeat, status=status))])
        assert run.summary().total == repeat + 1

    assert (run.summary().passed, run.summary().failed) == (1, 1)


@pytest.mark.parametrize(
    ("scores", "mean"),
    [([0.2, 0.4], 0.3), ([0.1, 0.2, 0.6], 0.3), ([1.0, 0.0, 1.0], 2 / 3), ([0.1] * 7, 0.1), ([0.7, 0.8, 0.9], 0.8)],
)
def test_a_mean_has_no_rounding_noise(scores: list[float], mean: float) -> None:
    summary = summarise(Verdict(CaseStatus.PASSED, None, (("m", score),)) for score in scores)

    assert repr(summary.metrics["m"].mean) == repr(mean)


def test_a_missing_score_counts_in_the_total_but_not_in_the_mean() -> None:
    metric = summarise(
        [make_case_verdict(CaseStatus.PASSED, m=1.0), make_case_verdict(CaseStatus.PASSED, m=None)]
    ).metrics["m"]

    assert (metric.mean, metric.std, metric.scored, metric.total) == (1.0, None, 1, 2)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"passed": 2}, 0),
        ({"passed": 1, "skipped": 1}, 0),
        ({"passed": 1, "failed": 1}, 1),
        ({"failed": 1, "error": 1}, 1),
        ({"passed": 1, "error": 1}, 3),
        ({"passed": 1, "not_evaluated": 1}, 1),
        ({"passed": 1, "cancelled": 1}, 1),
        ({"skipped": 1}, 1),
        ({"quarantined": 1}, 0),
        ({"passed": 1, "quarantined": 1}, 0),
        ({"quarantined": 1, "failed": 1}, 1),
        ({"quarantined": 1, "error": 1}, 3),
        ({}, 1),
    ],
)
def test_the_exit_status_depends_on_the_counts(counts: dict[str, int], expected: int) -> None:
    assert exit_status(RunSummary(total=sum(counts.values()), **counts)) == expected


def test_an_interrupted_run_and_a_wrong_file_have_their_own_exit_statuses() -> None:
    summary = RunSummary(total=2, passed=1, failed=1)

    assert exit_status(summary, interrupted=True, wrong_input=True) == 130
    assert exit_status(summary, wrong_input=True) == 2


def test_repeats_of_a_case_count_together_in_the_interval_of_a_mean() -> None:
    def make(case: str, score: float) -> Verdict:
        key = CaseKey(target="t", eval_set="s", eval_id=case)
        return Verdict(CaseStatus.PASSED, None, (("m", score),), case=key)

    scores = [place % 2 for place in range(20)]
    alone = summarise(make(f"{place}-{repeat}", score) for place, score in enumerate(scores) for repeat in range(5))
    together = summarise(make(str(place), score) for place, score in enumerate(scores) for repeat in range(5))

    narrow, wide = alone.metrics["m"].interval, together.metrics["m"].interval
    assert narrow is not None
    assert wide is not None
    assert wide[1] - wide[0] > 2 * (narrow[1] - narrow[0])
    assert summarise(make(str(place), 1.0) for place in range(20)).metrics["m"].interval is None
    assert summarise(make(str(place), place) for place in range(9)).metrics["m"].interval is None


@pytest.mark.parametrize("largest", [1e200, 1.7e308])
def test_scores_whose_squares_are_infinite_have_a_mean_only(largest: float) -> None:
    keys = [CaseKey(target="t", eval_set="s", eval_id=str(place)) for place in range(20)]
    scores = [largest if place == 7 else 1.0 for place in range(20)]

    summary = summarise(
        Verdict(CaseStatus.PASSED, None, (("m", score),), case=key) for key, score in zip(keys, scores, strict=True)
    )

    assert summary.metrics["m"].mean == pytest.approx(largest / 20)
    assert summary.metrics["m"].std is None
    assert summary.metrics["m"].interval is None
