"""The progress of a run in one line."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from rich.cells import cell_len

from workbench.model.results import CaseStatus, ModelCalls
from workbench.model.run_events import (
    AgentsImporting,
    CaseFinished,
    CaseStarted,
    InvocationFinished,
    QuotaWait,
    RunFinished,
    RunStarted,
    RunSummary,
)
from workbench.tui.state.run_progress import RunProgress, format_project_line
from workbench.tui.state.text_layout import format_count


@pytest.fixture
def progress() -> RunProgress:
    progress = RunProgress("r7", total=0, began=0.0)
    progress.apply(RunStarted(run_id="r7", total=4, at=datetime(2026, 1, 1, tzinfo=UTC)), now=10.0)
    return progress


def finish_job(progress: RunProgress, make: Any, status: CaseStatus, now: float, eval_id: str = "a") -> None:
    result = make.result(make.key(eval_id), status)
    progress.apply(CaseFinished(case=result.case, repeat=0, status=status, duration_seconds=1, result=result), now=now)


def format_line(progress: RunProgress, now: float) -> str:
    return "".join(piece.text for piece in progress.format_line(now=now, width=200))


def test_a_slow_import_is_shown(progress: RunProgress) -> None:
    progress.apply(AgentsImporting(targets=("home",)), now=11.0)
    assert "importing home" in format_line(progress, 11.0)

    progress.apply(AgentsImporting(targets=()), now=12.0)
    assert "importing" not in format_line(progress, 12.0)


def test_rate_and_remaining_time_come_from_ended_jobs(progress: RunProgress, make: Any) -> None:
    assert progress.calculate_rate(now=12.0) is None

    finish_job(progress, make, CaseStatus.PASSED, 12.0)

    assert progress.calculate_rate(now=12.0) == pytest.approx(0.5)
    assert progress.estimate_remaining(now=12.0) == pytest.approx(6.0)


def test_jobs_that_are_slower_than_the_others_have_no_remaining_time(progress: RunProgress, make: Any) -> None:
    for eval_id in "abc":
        finish_job(progress, make, CaseStatus.PASSED, 11.0, eval_id)

    assert progress.estimate_remaining(now=11.5) == pytest.approx(0.5)
    assert progress.estimate_remaining(now=14.0) is None


def test_the_line_says_counts_rate_time_left_and_tokens(progress: RunProgress, make: Any) -> None:
    turn = make.turn_result(make.turn("hi", "hello"))
    progress.apply(InvocationFinished(case=make.key("a"), repeat=0, turn=0, result=turn), now=11.0)
    finish_job(progress, make, CaseStatus.PASSED, 12.0)
    finish_job(progress, make, CaseStatus.ERROR, 12.0, "b")

    line = format_line(progress, 12.0)

    assert line == " running  ████████░░░░░░░░  2/4  ✓1 !1  1.0/s  eta 2.00 s  10 tokens  run r7"


def test_replayed_model_calls_are_summed_with_what_they_saved(progress: RunProgress, make: Any) -> None:
    calls = [ModelCalls(live=1), ModelCalls(replayed=3, saved_seconds=4.0, saved_cost=0.02)]
    for eval_id, made in zip("ab", calls, strict=True):
        result = make.result(make.key(eval_id), CaseStatus.PASSED)
        execution = result.execution.model_copy(update={"model_calls": made})
        result = result.model_copy(update={"execution": execution})
        finished = CaseFinished(case=result.case, repeat=0, status=result.status, duration_seconds=1, result=result)
        progress.apply(finished, now=12.0)
        progress.apply(finished.model_copy(update={"source": "stored"}), now=12.0)

    assert "  ↺ 3 of 4 model calls replayed, $0.020 and 4.00 s saved  run r7" in format_line(progress, 12.0)


def test_a_wait_for_a_quota_is_shown_while_it_lasts(progress: RunProgress) -> None:
    progress.apply(QuotaWait(model="gemini-2.5-flash", seconds=40), now=11.0)

    assert "  waiting 40 s for quota" in format_line(progress, 11.0)
    assert "  waiting 10 s for quota" in format_line(progress, 41.5)
    assert "waiting" not in format_line(progress, 52.0)


def test_an_ended_run_shows_its_duration_and_stops_counting(progress: RunProgress, make: Any) -> None:
    finish_job(progress, make, CaseStatus.PASSED, 12.0)
    progress.apply(RunFinished(run_id="r7", summary=RunSummary(), duration_seconds=5, interrupted=True), now=15.0)

    assert " cancelled " in format_line(progress, 99.0)
    assert "in 5.00 s" in format_line(progress, 99.0)


def test_cancelled_jobs_are_counted_separately_and_do_not_raise_the_rate(progress: RunProgress, make: Any) -> None:
    finish_job(progress, make, CaseStatus.PASSED, 12.0)
    for eval_id in "bcd":
        finish_job(progress, make, CaseStatus.CANCELLED, 12.0, eval_id)

    assert "1/4  ✓1 ⊘3  0.5/s" in format_line(progress, 12.0)


def test_a_rerun_job_counts_once_with_its_last_status(progress: RunProgress, make: Any) -> None:
    finish_job(progress, make, CaseStatus.FAILED, 12.0)
    progress.apply(CaseStarted(case=make.key("a"), repeat=0, turns=1), now=13.0)
    assert "0/4" in format_line(progress, 13.0)

    finish_job(progress, make, CaseStatus.PASSED, 14.0)

    assert "1/4  ✓1  " in format_line(progress, 14.0)


def test_cancelled_jobs_are_not_waited_for(progress: RunProgress, make: Any) -> None:
    finish_job(progress, make, CaseStatus.PASSED, 12.0)
    finish_job(progress, make, CaseStatus.CANCELLED, 12.0, "b")

    assert progress.estimate_remaining(now=12.0) == pytest.approx(4.0)


def test_reused_results_do_not_raise_the_rate(progress: RunProgress, make: Any) -> None:
    for eval_id, source in (("a", "stored"), ("b", "executed")):
        result = make.result(make.key(eval_id), CaseStatus.PASSED)
        fact = {"case": result.case, "repeat": 0, "status": CaseStatus.PASSED, "duration_seconds": 1, "result": result}
        progress.apply(CaseFinished(**fact, source=source), now=12.0)

    assert progress.calculate_rate(now=12.0) == pytest.approx(0.5)
    assert progress.estimate_remaining(now=12.0) == pytest.approx(4.0)


def test_further_tries_are_counted_as_retries(progress: RunProgress, make: Any) -> None:
    for attempt in (1, 2, 3):
        progress.apply(CaseStarted(case=make.key("a"), repeat=0, turns=1, attempt=attempt), now=11.0)

    assert "  2 retries  " in format_line(progress, 12.0)


@pytest.mark.parametrize(
    ("count", "shown"), [(999, "999"), (12_345, "12.3k"), (999_949, "999.9k"), (999_950, "1.0M"), (2_500_000, "2.5M")]
)
def test_large_counts_are_rounded(count: int, shown: str) -> None:
    assert format_count(count) == shown


@pytest.mark.parametrize(
    ("width", "edited", "expected"),
    [
        (80, 0, " workbench  /work/lamps/project   25 eval sets · 127 cases"),
        (44, 0, " …/lamps/project   25 eval sets · 127 cases"),
        (40, 0, " /work/lamps/project   127 cases"),
        (40, 3, " * 3 unsaved  …amps/project   127 cases"),
        (30, 3, " * 3 unsaved  …/lamps/project"),
    ],
)
def test_a_narrow_project_line_leaves_out_whole_parts(width: int, edited: int, expected: str) -> None:
    line = format_project_line(
        "/work/lamps/project", sets=25, cases=127, reading=0, problems=0, edited=edited, width=width
    )

    text = "".join(piece.text for piece in line)
    assert text == expected
    assert cell_len(text) <= width


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (70, " running  ████████████░░░░  3/4  ✓1 ✗1 !1  1.5/s  eta 667 ms  run r7"),
        (57, " running  ████████████░░░░  3/4  ✓1 ✗1 !1  eta 667 ms"),
        (40, " running  3/4  ✓1 ✗1 !1  eta 667 ms"),
        (25, " running  3/4  ✓1 ✗1 !1"),
        (20, " running  3/4 ✗1 !1"),
        (7, " ✗1 !1"),
    ],
)
def test_counts_of_cases_that_did_not_pass_are_left_out_last(
    progress: RunProgress, make: Any, width: int, expected: str
) -> None:
    for eval_id, status in zip("abc", (CaseStatus.PASSED, CaseStatus.FAILED, CaseStatus.ERROR), strict=True):
        finish_job(progress, make, status, 12.0, eval_id)

    assert "".join(piece.text for piece in progress.format_line(now=12.0, width=width)) == expected
