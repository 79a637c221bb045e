"""How cases stand, as RunEvents say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import (
    CaseResult,
    CaseStatus,
    InvocationScore,
    Judgement,
    JudgeSample,
    MetricResult,
    MetricStatus,
)
from workbench.model.run_events import CaseFinished, CaseStarted, InvocationFinished
from workbench.tui.state.case_board import Board, CaseRecord, ResultPlace, Standing


@pytest.fixture
def board(make: Any) -> Board:
    board = Board()
    board.list_cases([make.key("a"), make.key("b"), make.key("c", eval_set="other.evalset.json")])
    return board


def _finished(result: CaseResult) -> CaseFinished:
    return CaseFinished(
        case=result.case, repeat=result.repeat, status=result.status, duration_seconds=0.1, result=result
    )


def _begin(board: Board, *keys: CaseKey, repeats: int = 1) -> None:
    board.begin([JobKey(case=key, repeat=repeat) for repeat in range(repeats) for key in keys])


def _standing(board: Board, key: CaseKey) -> Standing:
    record = board.record(key)
    assert record is not None
    return record.standing


def test_a_case_waits_then_runs_then_stands_as_it_ended(board: Board, make: Any) -> None:
    seen = [_standing(board, make.key("a"))]
    _begin(board, make.key("a"))
    seen.append(_standing(board, make.key("a")))
    board.apply(CaseStarted(case=make.key("a"), repeat=0, turns=1))
    seen.append(_standing(board, make.key("a")))
    board.apply(_finished(make.result(make.key("a"), CaseStatus.FAILED)))
    seen.append(_standing(board, make.key("a")))

    assert seen == [Standing.NOT_RUN, Standing.WAITING, Standing.RUNNING, Standing.FAILED]


def test_counts_roll_up_to_the_set_the_target_and_everything(board: Board, make: Any) -> None:
    board.apply(_finished(make.result(make.key("a"), CaseStatus.PASSED)))
    board.apply(_finished(make.result(make.key("c", eval_set="other.evalset.json"), CaseStatus.ERROR)))

    assert board.counts("home", "sets/lights.evalset.json")[Standing.PASSED] == 1
    assert board.counts("home", "sets/lights.evalset.json")[Standing.ERROR] == 0
    assert board.counts("home")[Standing.ERROR] == 1
    assert sum(board.counts().values()) == 3


def test_a_case_passes_only_where_all_its_repeats_do(board: Board, make: Any) -> None:
    _begin(board, make.key("a"), repeats=3)
    for repeat, status in enumerate([CaseStatus.PASSED, CaseStatus.FAILED]):
        board.apply(_finished(make.result(make.key("a"), status, repeat=repeat)))
    assert _standing(board, make.key("a")) is Standing.WAITING

    board.apply(_finished(make.result(make.key("a"), CaseStatus.PASSED, repeat=2)))

    record = board.record(make.key("a"))
    assert record is not None
    assert (record.standing, record.passed_repeats) == (Standing.FAILED, 2)


def test_turns_are_there_as_soon_as_they_end(board: Board, make: Any) -> None:
    board.apply(CaseStarted(case=make.key("a"), repeat=0, turns=2))
    done = make.turn_result(make.turn("hi", "hello"))

    board.apply(InvocationFinished(case=make.key("a"), repeat=0, turn=0, result=done))

    record = board.record(make.key("a"))
    assert record is not None
    assert record.turns == {0: [done]}


def test_a_second_attempt_starts_without_the_turns_of_the_first(board: Board, make: Any) -> None:
    board.apply(CaseStarted(case=make.key("a"), repeat=0, turns=2))
    done = make.turn_result(make.turn("hi", "hello"))
    board.apply(InvocationFinished(case=make.key("a"), repeat=0, turn=0, result=done))

    board.apply(CaseStarted(case=make.key("a"), repeat=0, turns=2, attempt=2))

    record = board.record(make.key("a"))
    assert record is not None
    assert record.turns == {0: []}


def test_the_last_results_stay_until_the_case_starts_again(board: Board, make: Any) -> None:
    old = make.result(make.key("a"), CaseStatus.FAILED)
    board.apply(_finished(old))
    _begin(board, make.key("a"))
    record = board.record(make.key("a"))
    assert record is not None
    assert record.outcomes[0].result == old

    board.apply(CaseStarted(case=make.key("a"), repeat=0, turns=1))

    assert record.outcomes == {}


def test_stored_results_count_for_cases_listed_before_and_after(make: Any) -> None:
    board = Board()
    board.list_cases([make.key("a")])
    stored = [make.result(make.key(name), CaseStatus.PASSED) for name in ("a", "b")]
    board.show_stored({result.case: [make.stored_job(result)] for result in stored})
    board.list_cases([make.key("b")])

    records = [board.record(make.key("a")), board.record(make.key("b"))]

    assert [(r.standing, r.lacks_results) for r in records if r is not None] == [(Standing.PASSED, True)] * 2
    board.fill(stored)
    assert [r.outcomes[0].result for r in records if r is not None] == stored


def test_stored_results_never_replace_those_of_this_session(board: Board, make: Any) -> None:
    board.apply(_finished(make.result(make.key("a"), CaseStatus.PASSED)))

    old = make.result(make.key("a"), CaseStatus.FAILED)
    board.show_stored({old.case: [make.stored_job(old)]})
    board.fill([old])

    record = board.record(make.key("a"))
    assert record is not None
    assert (record.standing, record.stored_at) == (Standing.PASSED, None)


def test_results_that_somebody_else_has_stored_meanwhile_replace_older_stored_ones(board: Board, make: Any) -> None:
    for status in (CaseStatus.FAILED, CaseStatus.PASSED):
        stored = make.stored_job(make.result(make.key("a"), status))
        board.show_stored({stored.case: [stored]})

    assert _record(board, make.key("a")).standing is Standing.PASSED
    assert board.counts()[Standing.PASSED] == 1
    assert not board.counts()[Standing.FAILED]


def test_a_run_that_ends_early_leaves_nothing_waiting(board: Board, make: Any) -> None:
    board.apply(_finished(make.result(make.key("a"), CaseStatus.PASSED)))
    _begin(board, make.key("a"), make.key("b"))

    changed = board.settle([make.key("a"), make.key("b")])

    assert set(changed) == {make.key("a"), make.key("b")}
    assert _standing(board, make.key("a")) is Standing.PASSED
    assert _standing(board, make.key("b")) is Standing.NOT_RUN


def test_a_run_that_ends_settles_only_its_own_cases(board: Board, make: Any) -> None:
    _begin(board, make.key("a"), make.key("b"))

    board.settle([make.key("a")])

    assert _standing(board, make.key("a")) is Standing.NOT_RUN
    assert _standing(board, make.key("b")) is Standing.WAITING


def test_a_case_that_is_cancelled_before_it_has_a_verdict_keeps_the_one_before(board: Board, make: Any) -> None:
    old = make.result(make.key("a"), CaseStatus.FAILED)
    board.apply(_finished(old))
    cancelled = [make.result(make.key(name), CaseStatus.CANCELLED) for name in ("a", "b")]
    _begin(board, make.key("a"), make.key("b"))
    board.apply(CaseStarted(case=make.key("a"), repeat=0, turns=1))

    for result in cancelled:
        board.apply(_finished(result))

    assert (_standing(board, make.key("a")), _standing(board, make.key("b"))) == (Standing.FAILED, Standing.CANCELLED)
    assert _record(board, make.key("a")).outcomes[0].result == old
    assert board.counts()[Standing.FAILED] == board.counts()[Standing.CANCELLED] == 1


def test_one_repeat_with_a_verdict_puts_an_end_to_those_before(board: Board, make: Any) -> None:
    for status in (CaseStatus.PASSED, CaseStatus.FAILED):
        _begin(board, make.key("a"), repeats=2)
        board.apply(_finished(make.result(make.key("a"), status)))
        board.apply(_finished(make.result(make.key("a"), CaseStatus.CANCELLED, repeat=1)))

    statuses = [outcome.status for outcome in _record(board, make.key("a")).outcomes.values()]
    assert statuses == [CaseStatus.FAILED, CaseStatus.CANCELLED]


def test_a_stored_verdict_is_kept_and_can_be_read_while_the_case_runs(board: Board, make: Any) -> None:
    old = make.result(make.key("a"), CaseStatus.PASSED)
    board.show_stored({old.case: [make.stored_job(old)]})
    _begin(board, make.key("a"))
    board.apply(CaseStarted(case=make.key("a"), repeat=0, turns=1))
    record = _record(board, make.key("a"))
    assert (record.outcomes, record.lacks_results) == ({}, True)

    board.fill([old])
    board.settle([make.key("a")])  # as where a run ends by a fault of its own

    assert (record.standing, record.outcomes[0].result) == (Standing.PASSED, old)
    assert record.stored_at is not None


def test_missing_samples_are_known_of_every_verdict(board: Board, make: Any) -> None:
    said = Judgement(model="m", prompt="p", samples=(JudgeSample(score=1.0), JudgeSample(problem="503")))
    turn = InvocationScore(score=1.0, judgement=said)
    metric = MetricResult(name="m", score=1.0, threshold=1.0, status=MetricStatus.PASSED, per_invocation=(turn,))
    key = make.key("a")
    whole, partly = (make.result(key, CaseStatus.PASSED, metrics=metrics) for metrics in (None, [metric]))
    stored, place = make.stored_job(partly)._replace(misses_samples=True), ResultPlace("r0", JobKey(case=key, repeat=0))
    record = _record(board, key)

    def seen_after(change: Callable[[], object]) -> bool:
        change()
        return record.misses_samples

    assert seen_after(lambda: board.apply(_finished(partly)))
    assert not seen_after(lambda: board.apply(_finished(whole)))
    assert seen_after(lambda: board.show_again(partly, stored_at=stored.finished_at, place=place))
    assert not seen_after(lambda: board.apply(_finished(whole)))
    assert seen_after(lambda: board.show_current(key, {0: stored}))


def test_events_of_cases_that_no_set_lists_change_nothing(board: Board, make: Any) -> None:
    assert board.apply(_finished(make.result(make.key("gone"), CaseStatus.PASSED))) == ()
    assert sum(board.counts().values()) == 3


def test_forgotten_cases_leave_the_counts(board: Board, make: Any) -> None:
    board.forget([make.key("a")])

    assert board.record(make.key("a")) is None
    assert sum(board.counts("home").values()) == 2


def test_results_that_can_be_read_again_are_not_all_held(make: Any) -> None:
    board, keys = Board(), [make.key(f"c{number}") for number in range(300)]
    board.list_cases(keys)
    for key in keys:
        in_history = key is not keys[1]
        finished = _finished(make.result(key, CaseStatus.PASSED)).model_copy(update={"in_history": in_history})
        board.apply(finished)

    board.let_go(but=keys[0])

    held = [key for key in keys if not _record(board, key).lacks_results]
    assert held == [keys[0], keys[1], *keys[100:]]  # looked at; in no history; the newest
    assert board.counts()[Standing.PASSED] == 300


def test_a_result_that_was_let_go_of_is_filled_in_again(make: Any) -> None:
    board, keys = Board(), [make.key(f"c{number}") for number in range(201)]
    board.list_cases(keys)
    results = [make.result(key, CaseStatus.PASSED) for key in keys]
    for result in results:
        board.apply(_finished(result).model_copy(update={"in_history": True}))
    board.let_go(but=None)
    assert _record(board, keys[0]).lacks_results

    board.fill([results[0]])
    board.let_go(but=keys[0])

    assert _record(board, keys[0]).outcomes[0].result == results[0]
    assert _record(board, keys[1]).lacks_results


def _record(board: Board, key: CaseKey) -> CaseRecord:
    record = board.record(key)
    assert record is not None
    return record
