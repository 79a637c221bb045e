"""Comparison of two runs: regressions, fixes, flaky cases, and changes of criteria."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from workbench.model.criteria import Criterion, EvalConfig
from workbench.model.evalset import Quarantine
from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import CaseStatus, MetricResult, MetricStatus
from workbench.report.comparison import (
    RunComparison,
    VerdictChange,
    changes_text,
    collect_verdicts,
    compare_runs,
    comparison_lines,
    comparison_markdown,
    comparison_record,
    describe_run_changes,
)
from workbench.report.text_report import TableStyle
from workbench.store.history.history_queries import StoredJob, StoredRun, StoredScores

STATUSES = {
    "P": CaseStatus.PASSED,
    "F": CaseStatus.FAILED,
    "E": CaseStatus.ERROR,
    "N": CaseStatus.NOT_EVALUATED,
    "S": CaseStatus.SKIPPED,
}
SET = "sets/a.evalset.json"


def key(eval_id: str) -> CaseKey:
    return CaseKey(target="t", eval_set=SET, eval_id=eval_id)


def make_stored_repeats(eval_id: str, letters: str, score: float | None = None, **keys: str) -> list[StoredScores]:
    """Build the stored repeats of a case, with a letter for each status."""
    metrics = [MetricResult(name="latency", score=0.1, threshold=None, status=MetricStatus.INFORMATIONAL)]
    if score is not None:
        metrics.append(MetricResult(name="m", score=score, threshold=0.5, status=MetricStatus.PASSED))
    return [
        StoredScores(
            StoredJob(
                run_id="r",
                key=JobKey(case=key(eval_id), repeat=number),
                status=STATUSES[letter],
                duration_seconds=0.5,
                agent_seconds=0.5,
                failure=None,
                finished_at=datetime(2026, 1, 1, tzinfo=UTC),
                execution_key=keys.get("execution_key", "e"),
                scoring_key=keys.get("scoring_key", "s"),
            ),
            tuple(metrics),
        )
        for number, letter in enumerate(letters)
    ]


def run(run_id: str, **facts: Any) -> StoredRun:
    return StoredRun(run_id=run_id, started_at=datetime(2026, 1, 1, tzinfo=UTC), root=Path("/p"), ended=True, **facts)


def compare_letters(
    before: Mapping[str, str], after: Mapping[str, str], earlier: Mapping[str, Sequence[str]] | None = None
) -> RunComparison:
    def statuses(case: CaseKey) -> list[list[CaseStatus]]:
        return [[STATUSES[letter] for letter in letters] for letters in (earlier or {}).get(case.eval_id, ())]

    one, other = (
        collect_verdicts(item for eval_id, letters in side.items() for item in make_stored_repeats(eval_id, letters))
        for side in (before, after)
    )
    return compare_runs(run("1"), run("2"), one, other, list_earlier=statuses)


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ("P", "F", VerdictChange.REGRESSION),
        ("P", "E", VerdictChange.REGRESSION),
        ("P", "N", VerdictChange.REGRESSION),
        ("PP", "FF", VerdictChange.REGRESSION),
        ("F", "P", VerdictChange.FIX),
        ("E", "P", VerdictChange.FIX),
        ("P", "P", VerdictChange.SAME),
        ("F", "F", VerdictChange.SAME),
        ("F", "E", VerdictChange.OTHER),
        ("PPP", "PFP", VerdictChange.FLAKY),
        ("PF", "PP", VerdictChange.FLAKY),
        ("P", "PS", VerdictChange.SAME),
        ("S", "P", VerdictChange.NEW),
        ("P", "S", VerdictChange.GONE),
    ],
)
def test_the_repeats_of_a_case_decide_its_kind_of_change(before: str, after: str, change: VerdictChange) -> None:
    comparison = compare_letters({"a": before}, {"a": after})

    assert [case.change for case in comparison.cases] == [change]
    assert comparison.counts[change] == 1


def test_a_case_that_alternated_in_earlier_runs_is_flaky() -> None:
    comparison = compare_letters(
        {"often": "P", "once": "P", "steady": "F"},
        {"often": "F", "once": "F", "steady": "P"},
        {"often": ["F", "P", "F"], "once": ["F", "F"], "steady": ["F", "F"]},
    )

    assert {case.case.eval_id: case.change for case in comparison.cases} == {
        "often": VerdictChange.FLAKY,
        "once": VerdictChange.REGRESSION,
        "steady": VerdictChange.FIX,
    }
    assert "alternated" in comparison.select(VerdictChange.FLAKY)[0].reason


def test_the_most_urgent_changes_come_first() -> None:
    comparison = compare_letters(
        {"a": "P", "b": "F", "c": "P", "gone": "P"}, {"a": "P", "b": "P", "c": "F", "new": "P"}
    )

    assert [case.case.eval_id for case in comparison.cases] == ["c", "b", "new", "gone", "a"]
    assert changes_text(comparison) == "1 regression, 1 fix, 1 new, 1 gone, 1 same"


def test_scores_are_compared_over_the_cases_of_both_runs() -> None:
    before = collect_verdicts(
        [
            *make_stored_repeats("a", "PP", 0.5),
            *make_stored_repeats("b", "P", 1.0),
            *make_stored_repeats("gone", "P", 0.0),
        ]
    )
    after = collect_verdicts(
        [
            *make_stored_repeats("a", "P", 0.75),
            *make_stored_repeats("b", "P", 1.0),
            *make_stored_repeats("new", "P", 0.0),
        ]
    )

    comparison = compare_runs(run("1"), run("2"), before, after, list_earlier=lambda _: ())

    means = {name: (test.before, test.after, test.cases) for name, test in comparison.metrics.items()}
    assert means == {"m": (0.75, 0.875, 2), "latency": (pytest.approx(0.1), pytest.approx(0.1), 2)}
    changed = {case.case.eval_id: [s.difference for s in case.changed_scores] for case in comparison.cases}
    assert changed == {"a": [0.25], "b": [], "new": [], "gone": []}


def test_an_informational_metric_is_not_a_changed_score() -> None:
    slow_repeats = [
        StoredScores(job, (metrics[0].model_copy(update={"score": 9.0}),))
        for job, metrics in make_stored_repeats("a", "P")
    ]

    comparison = compare_runs(
        run("1"),
        run("2"),
        collect_verdicts(make_stored_repeats("a", "P")),
        collect_verdicts(slow_repeats),
        list_earlier=lambda _: (),
    )

    assert comparison.cases[0].changed_scores == ()
    assert comparison.metrics["latency"].difference == pytest.approx(8.9)


def test_keys_show_changed_input_and_changed_scoring() -> None:
    before = collect_verdicts(
        [
            *make_stored_repeats("a", "P"),
            *make_stored_repeats("b", "P"),
            *make_stored_repeats("c", "P", execution_key=""),
        ]
    )
    after = collect_verdicts(
        [
            *make_stored_repeats("a", "P", execution_key="x"),
            *make_stored_repeats("b", "P", scoring_key="x"),
            *make_stored_repeats("c", "P", execution_key="y"),
        ]
    )

    comparison = compare_runs(run("1"), run("2"), before, after, list_earlier=lambda _: ())

    changes = {case.case.eval_id: (case.has_changed_input, case.has_changed_scoring) for case in comparison.cases}
    assert changes == {"a": (True, False), "b": (False, True), "c": (False, False)}


def test_changes_of_criteria_are_described_once_for_all_sets() -> None:
    def config(*criteria: Criterion) -> EvalConfig:
        return EvalConfig(criteria=criteria, source="x")

    old = config(Criterion(metric="m", threshold=0.8), Criterion(metric="out", threshold=1.0))
    new = config(Criterion(metric="m", threshold=0.5, options={"match_type": "EXACT"}), Criterion(metric="in"))
    before = run("1", criteria={"a": old, "b": old, "only": old}, versions={"adk": "1"}, options={"runs": 1})
    after = run("2", criteria={"a": new, "b": new}, versions={"adk": "2"}, options={"runs": 3, "concurrency": 4})

    assert describe_run_changes(before, after) == (
        "a and 1 more: in is new, without threshold",
        "a and 1 more: m: match_type (not given) became EXACT",
        "a and 1 more: m: threshold 0.80 became threshold 0.50",
        "a and 1 more: out is gone",
        "adk 1 became 2",
        "runs 1 became 3",
    )
    assert describe_run_changes(before, before) == ()


def test_the_text_lists_only_changed_cases_by_default() -> None:
    comparison = compare_letters({"a": "P", "b": "P", "x\x1b[31m": "PF"}, {"a": "F", "b": "P", "x\x1b[31m": "PP"})

    text = "\n".join(comparison_lines(comparison, style=TableStyle(), show_same=False))

    assert f"▼ regression  {SET}:a" in text
    assert "✓ PASSED → ✗ FAILED" in text
    assert "✗ FAILED 1/2 → ✓ PASSED 2/2  (its repeats disagree)" in text
    assert f"{SET}:b" not in text
    assert "\x1b" not in text
    assert f"{SET}:b" in "\n".join(comparison_lines(comparison, style=TableStyle(), show_same=True))


def test_the_record_has_the_counts_and_cases_of_the_comparison() -> None:
    record = comparison_record(compare_letters({"a": "P"}, {"a": "F", "n": "P"}))

    assert record["counts"] == {
        "regression": 1, "flaky": 0, "fix": 0, "other": 0, "new": 1, "gone": 0, "same": 0
    }  # fmt: skip
    assert [(case["eval_id"], case["change"]) for case in record["cases"]] == [("a", "regression"), ("n", "new")]
    assert record["cases"][1]["before"] is None
    assert record["cases"][0]["after"]["repeats"] == ["FAILED"]


def test_markdown_lists_changed_verdicts_and_escapes_their_names() -> None:
    comparison = compare_letters({"a|b": "P", "fixed": "F", "same": "P"}, {"a|b": "F", "fixed": "P", "same": "P"})

    text = comparison_markdown(comparison)

    assert text.startswith("## workbench: 1 regression, 1 fix, 1 same\n")
    assert "regression | sets/a.evalset.json:a\\|b | ✓ PASSED | ✗ FAILED |" in text
    assert "same |" not in text


def many(letters: str, count: int = 40) -> dict[str, str]:
    """Build the repeats of many cases."""
    return {f"c{number}": letters for number in range(count)}


def test_the_verdict_on_the_difference_comes_first() -> None:
    comparison = compare_letters(many("P"), many("F", 10) | {f"c{number}": "P" for number in range(10, 40)})
    sentence = "worse: the pass rate fell by 25.0 points over 40 cases (95 % from -38.3 to -9.3, p = 0.002)"

    assert comparison_lines(comparison, style=TableStyle(), show_same=False)[0] == sentence
    assert comparison_markdown(comparison).splitlines()[2] == f"**{sentence}**"
    record = comparison_record(comparison)["significance"]
    assert record["sentence"] == sentence
    assert record["significantly_worse"] is True
    assert record["pass_rate"] == {
        "before": 1.0,
        "after": 0.75,
        "difference": -0.25,
        "cases": 40,
        "finding": "lower",
        "p_value": pytest.approx(2 / 2**10),
        "interval": [pytest.approx(-0.383, abs=1e-3), pytest.approx(-0.093, abs=1e-3)],
        "cases_needed": None,
        "visible_difference": 0.25,
    }


def test_an_outage_is_no_worse_pass_rate() -> None:
    comparison = compare_letters(many("P"), many("E", 30) | {f"c{number}": "P" for number in range(30, 40)})

    assert not comparison.is_significantly_worse
    first = comparison_lines(comparison, style=TableStyle(), show_same=False)[0]
    assert first.startswith("cannot tell: the pass rate changed by +0.0 points over 10 cases")
    assert first.endswith("; left out: 30 cases without a verdict in one of the runs")
    assert comparison_lines(compare_letters({"a": "E"}, {"a": "P"}), style=TableStyle(), show_same=False)[0] == (
        "cannot tell: no case has a verdict in both runs; left out: 1 case without a verdict in one of the runs"
    )


def test_repeats_are_shares_of_their_case() -> None:
    comparison = compare_letters({"a": "PPFE", "b": "PP"}, {"a": "PFFF", "b": "PP"})

    assert comparison.pass_rates is not None
    assert comparison.pass_rates.before == pytest.approx((2 / 3 + 1) / 2)
    assert comparison.pass_rates.after == pytest.approx((1 / 4 + 1) / 2)


def test_a_criterion_that_fell_is_significantly_worse_and_an_informational_metric_is_not() -> None:
    def verdicts(score: float, latency: float) -> dict[CaseKey, Any]:
        stored = [item for name in many("P") for item in make_stored_repeats(name, "P", score)]
        return collect_verdicts(
            StoredScores(job, (metrics[0].model_copy(update={"score": latency}), *metrics[1:]))
            for job, metrics in stored
        )

    def compare(before: dict[CaseKey, Any], after: dict[CaseKey, Any]) -> RunComparison:
        return compare_runs(run("1"), run("2"), before, after, list_earlier=lambda _: ())

    assert compare(verdicts(0.9, 1.0), verdicts(0.8, 1.0)).is_significantly_worse
    assert not compare(verdicts(0.9, 1.0), verdicts(0.9, 0.5)).is_significantly_worse
    text = "\n".join(
        comparison_lines(compare(verdicts(0.9, 1.0), verdicts(0.8, 1.0)), style=TableStyle(), show_same=False)
    )
    assert "m        mean 0.9 → 0.8 (-0.1)  over 40 cases of both: lower (p < 0.001)" in text
    assert "latency  mean 1 s → 1 s (+0 s)  over 40 cases of both: unchanged" in text
    assert "not stored any more" not in text


def test_scores_that_the_history_has_forgotten_are_counted() -> None:
    stored = make_stored_repeats("a", "P", 0.5)
    before = collect_verdicts(StoredScores(job, ()) for job, _ in stored)
    after = collect_verdicts(stored)

    comparison = compare_runs(run("1"), run("2"), before, after, list_earlier=lambda _: ())

    text = "\n".join(comparison_lines(comparison, style=TableStyle(), show_same=False))
    assert "the scores of 1 case in one of the runs are not stored any more" in text
    assert comparison_record(comparison)["significance"]["scores_forgotten"] == 1


def test_the_p_value_of_a_criterion_is_not_corrected_for_informational_metrics() -> None:
    def verdicts(score: float) -> dict[CaseKey, Any]:
        stored = [item for name in many("P", 6) for item in make_stored_repeats(name, "P", score)]
        return collect_verdicts(stored)

    comparison = compare_runs(run("1"), run("2"), verdicts(0.9), verdicts(0.8), list_earlier=lambda _: ())

    assert comparison.metrics["m"].p_value == pytest.approx(2 / 2**6)
    assert comparison.metrics["latency"].p_value == 1.0


def test_cases_that_were_chosen_because_they_failed_are_not_compared() -> None:
    before = many("P", 20) | {f"f{number}": "F" for number in range(20)}
    comparison = compare_letters(before, {f"f{number}": "P" for number in range(20)})

    assert comparison.pass_rates is None
    first = comparison_lines(comparison, style=TableStyle(), show_same=False)[0]
    assert first.startswith("cannot tell: the later run has only cases that did not pass before")
    assert comparison_record(comparison)["significance"]["only_failed"] is True


def test_a_criterion_with_an_upper_limit_gets_worse_by_rising() -> None:
    def verdicts(latency: float) -> dict[CaseKey, Any]:
        status = MetricStatus.PASSED if latency < 5 else MetricStatus.FAILED
        metric = MetricResult(name="latency", score=latency, threshold=5.0, status=status)
        stored = [item for name in many("P", 12) for item in make_stored_repeats(name, "P")]
        return collect_verdicts(StoredScores(job, (metric,)) for job, _ in stored)

    def compare(before: float, after: float) -> RunComparison:
        return compare_runs(run("1"), run("2"), verdicts(before), verdicts(after), list_earlier=lambda _: ())

    assert compare(1.0, 2.0).is_significantly_worse
    assert compare(1.0, 9.0).is_significantly_worse
    assert not compare(2.0, 1.0).is_significantly_worse


def test_a_case_in_quarantine_is_no_evidence_and_its_failure_is_marked() -> None:
    def verdicts(letters: str, quarantine: Quarantine | None) -> dict[CaseKey, Any]:
        stored = [
            each._replace(job=each.job._replace(quarantine=quarantine))
            for number, letter in enumerate(letters)
            for each in make_stored_repeats(f"c{number}", letter, float(letter == "P"))
        ]
        return dict(collect_verdicts(stored))

    now = Quarantine(until=date(2026, 12, 24))
    compared = [
        compare_runs(
            run("1"), run("2"), verdicts("PPPPPPPP", None), verdicts("FFFFFFFP", each), list_earlier=lambda _: []
        )
        for each in (None, now.at_day(date(2027, 1, 1)), now)
    ]

    assert [each.is_significantly_worse for each in compared] == [True, True, False]
    assert [each.quarantined for each in compared] == [0, 0, 8]
    assert compared[2].unjudged == 0
    assert "left out: 8 cases in quarantine" in comparison_lines(compared[2], style=TableStyle(), show_same=False)[0]
    assert any("(in quarantine)" in line for line in comparison_lines(compared[2], style=TableStyle(), show_same=False))
    record = comparison_record(compared[2])
    assert record["cases"][0]["in_quarantine"]
    assert record["significance"]["quarantined"] == 8


def test_a_case_that_lost_its_repeats_is_significantly_worse() -> None:
    comparison = compare_letters({"a": "PPPPP", "b": "P"}, {"a": "FFFFF", "b": "P"})

    assert comparison.is_significantly_worse
    assert "these very cases pass less often" in comparison_lines(comparison, style=TableStyle(), show_same=False)[0]
    assert comparison_record(comparison)["significance"]["within_cases"]["finding"] == "lower"
    assert comparison_record(compare_letters({"a": "P"}, {"a": "F"}))["significance"]["within_cases"] is None
