"""The status of cases, derived from RunEvents."""

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
from workbench.tui.state.case_status import CaseRecord, CaseState, ResultLocation, StatusBoard


@pytest.fixture
def board(make: Any) -> StatusBoard:
    board = StatusBoard()
    board.add_cases([make.key("a"), make.key("b"), make.key("c", eval_set="other.evalset.json")])
    return board


def _finished(result: CaseResult) -> CaseFinished:
    return CaseFinished(
        case=result.case, repeat=result.repeat, status=result.status, duration_seconds=0.1, result=result
    )


def _begin(board: StatusBoard, *keys: CaseKey, repeats: int = 1) -> None:
    board.begin_jobs([JobKey(case=key, repeat=repeat) for repeat in range(repeats) for key in keys])


def _standing(board: StatusBoard, key: CaseKey) -> CaseState:
    record = board.get_record(key)
    assert record is not None
    return record.state


def test_a_case_waits_then_runs_then_stands_as_it_ended(board: StatusBoard, make: Any) -> None:
    seen = [_standing(board, make.key("a"))]
    _begin(board, make.key("a"))
    seen.append(_standing(board, make.key("a")))
    board.apply(CaseStarted(case=make.key("a"), repeat=0, turns=1))
    seen.append(_standing(board, make.key("a")))
    board.apply(_finished(make.result(make.key("a"), CaseStatus.FAILED)))
    seen.append(_standing(board, make.key("a")))

    assert seen == [CaseState.NOT_RUN, CaseState.WAITING, CaseState.RUNNING, CaseState.FAILED]


def test_counts_roll_up_to_the_set_the_target_and_everything(board: StatusBoard, make: Any) -> None:
    board.apply(_finished(make.result(make.key("a"), CaseStatus.PASSED)))
    board.apply(_finished(make.result(make.key("c", eval_set="other.evalset.json"), CaseStatus.ERROR)))

    assert board.count_states("home", "sets/lights.evalset.json")[CaseState.PASSED] == 1
    assert board.count_states("home", "sets/lights.evalset.json")[CaseState.ERROR] == 0
    assert board.count_states("home")[CaseState.ERROR] == 1
    assert sum(board.count_states().values()) == 3


def test_a_case_passes_only_where_all_its_repeats_do(board: StatusBoard, make: Any) -> None:
    _begin(board, make.key("a"), repeats=3)
    for repeat, status in enumerate([CaseStatus.PASSED, CaseStatus.FAILED]):
        board.apply(_finished(make.result(make.key("a"), status, repeat=repeat)))
    assert _standing(board, make.key("a")) is CaseState.WAITING

    board.apply(_finished(make.result(make.key("a"), CaseStatus.PASSED, repeat=2)))

    record = board.get_record(make.key("a"))
    assert record is not None
    assert (record.state, record.passed_repeats) == (CaseState.FAILED, 2)


def test_turns_are_there_as_soon_as_they_end(board: StatusBoard, make: Any) -> None:
    board.apply(CaseStarted(case=make.key("a"), repeat=0, turns=2))
    done = make.turn_result(make.turn("hi", "hello"))

    board.apply(InvocationFinished(case=make.key("a"), repeat=0, turn=0, result=done))

    record = board.get_record(make.key("a"))
    assert record is not None
    assert record.turns == {0: [done]}


def test_a_second_attempt_starts_without_the_turns_of_the_first(board: StatusBoard, make: Any) -> None:
    board.apply(CaseStarted(case=make.key("a"), repeat=0, turns=2))
    done = make.turn_result(make.turn("hi", "hello"))
    board.apply(InvocationFinished(case=make.key("a"), repeat=0, turn=0, result=done))

    board.apply(CaseStarted(case=make.key("a"), repeat=0, turns=2, attempt=2))

    record = board.get_record(make.key("a"))
    assert record is not None
    assert record.turns == {0: []}


def test_the_last_results_stay_until_the_case_starts_again(board: StatusBoard, make: Any) -> None:
    old = make.result(make.key("a"), CaseStatus.FAILED)
    board.apply(_finished(old))
    _begin(board, make.key("a"))
    record = board.get_record(make.key("a"))
    assert record is not None
    assert record.outcomes[0].result == old

    board.apply(CaseStarted(case=make.key("a"), repeat=0, turns=1))

    assert record.outcomes == {}


def test_stored_results_count_for_cases_listed_before_and_after(make: Any) -> None:
    board = StatusBoard()
    board.add_cases([make.key("a")])
    stored = [make.result(make.key(name), CaseStatus.PASSED) for name in ("a", "b")]
    board.load_stored({result.case: [make.stored_job(result)] for result in stored})
    board.add_cases([make.key("b")])

    records = [board.get_record(make.key("a")), board.get_record(make.key("b"))]

    assert [(r.state, r.lacks_results) for r in records if r is not None] == [(CaseState.PASSED, True)] * 2
    board.fill_results(stored)
    assert [r.outcomes[0].result for r in records if r is not None] == stored


def test_stored_results_never_replace_those_of_this_session(board: StatusBoard, make: Any) -> None:
    board.apply(_finished(make.result(make.key("a"), CaseStatus.PASSED)))

    old = make.result(make.key("a"), CaseStatus.FAILED)
    board.load_stored({old.case: [make.stored_job(old)]})
    board.fill_results([old])

    record = board.get_record(make.key("a"))
    assert record is not None
    assert (record.state, record.stored_at) == (CaseState.PASSED, None)


def test_results_stored_by_another_process_replace_older_stored_ones(board: StatusBoard, make: Any) -> None:
    for status in (CaseStatus.FAILED, CaseStatus.PASSED):
        stored = make.stored_job(make.result(make.key("a"), status))
        board.load_stored({stored.case: [stored]})

    assert _record(board, make.key("a")).state is CaseState.PASSED
    assert board.count_states()[CaseState.PASSED] == 1
    assert not board.count_states()[CaseState.FAILED]


def test_a_run_that_ends_early_leaves_nothing_waiting(board: StatusBoard, make: Any) -> None:
    board.apply(_finished(make.result(make.key("a"), CaseStatus.PASSED)))
    _begin(board, make.key("a"), make.key("b"))

    changed = board.end_run([make.key("a"), make.key("b")])

    assert set(changed) == {make.key("a"), make.key("b")}
    assert _standing(board, make.key("a")) is CaseState.PASSED
    assert _standing(board, make.key("b")) is CaseState.NOT_RUN


def test_a_run_that_ends_settles_only_its_own_cases(board: StatusBoard, make: Any) -> None:
    _begin(board, make.key("a"), make.key("b"))

    board.end_run([make.key("a")])

    assert _standing(board, make.key("a")) is CaseState.NOT_RUN
    assert _standing(board, make.key("b")) is CaseState.WAITING


def test_a_case_that_is_cancelled_before_it_has_a_verdict_keeps_the_one_before(board: StatusBoard, make: Any) -> None:
    old = make.result(make.key("a"), CaseStatus.FAILED)
    board.apply(_finished(old))
    cancelled = [make.result(make.key(name), CaseStatus.CANCELLED) for name in ("a", "b")]
    _begin(board, make.key("a"), make.key("b"))
    board.apply(CaseStarted(case=make.key("a"), repeat=0, turns=1))

    for result in cancelled:
        board.apply(_finished(result))

    assert (_standing(board, make.key("a")), _standing(board, make.key("b"))) == (CaseState.FAILED, CaseState.CANCELLED)
    assert _record(board, make.key("a")).outcomes[0].result == old
    assert board.count_states()[CaseState.FAILED] == board.count_states()[CaseState.CANCELLED] == 1


def test_one_repeat_with_a_verdict_puts_an_end_to_those_before(board: StatusBoard, make: Any) -> None:
    for status in (CaseStatus.PASSED, CaseStatus.FAILED):
        _begin(board, make.key("a"), repeats=2)
        board.apply(_finished(make.result(make.key("a"), status)))
        board.apply(_finished(make.result(make.key("a"), CaseStatus.CANCELLED, repeat=1)))

    statuses = [outcome.status for outcome in _record(board, make.key("a")).outcomes.values()]
    assert statuses == [CaseStatus.FAILED, CaseStatus.CANCELLED]


def test_a_stored_verdict_is_kept_and_can_be_read_while_the_case_runs(board: StatusBoard, make: Any) -> None:
    old = make.result(make.key("a"), CaseStatus.PASSED)
    board.load_stored({old.case: [make.stored_job(old)]})
    _begin(board, make.key("a"))
    board.apply(CaseStarted(case=make.key("a"), repeat=0, turns=1))
    record = _record(board, make.key("a"))
    assert (record.outcomes, record.lacks_results) == ({}, True)

    board.fill_results([old])
    board.end_run([make.key("a")])  # as when a run ends by an internal error

    assert (record.state, record.outcomes[0].result) == (CaseState.PASSED, old)
    assert record.stored_at is not None


def test_missing_samples_are_known_of_every_verdict(board: StatusBoard, make: Any) -> None:
    said = Judgement(model="m", prompt="p", samples=(JudgeSample(score=1.0), JudgeSample(problem="503")))
    turn = InvocationScore(score=1.0, judgement=said)
    metric = MetricResult(name="m", score=1.0, threshold=1.0, status=MetricStatus.PASSED, per_invocation=(turn,))
    key = make.key("a")
    whole, partly = (make.result(key, CaseStatus.PASSED, metrics=metrics) for metrics in (None, [metric]))
    stored, place = (
        make.stored_job(partly)._replace(misses_samples=True),
        ResultLocation("r0", JobKey(case=key, repeat=0)),
    )
    record = _record(board, key)

    def seen_after(change: Callable[[], object]) -> bool:
        change()
        return record.misses_samples

    assert seen_after(lambda: board.apply(_finished(partly)))
    assert not seen_after(lambda: board.apply(_finished(whole)))
    assert seen_after(lambda: board.restore_result(partly, stored_at=stored.finished_at, place=place))
    assert not seen_after(lambda: board.apply(_finished(whole)))
    assert seen_after(lambda: board.restore_verdicts(key, {0: stored}))


def test_events_of_cases_that_no_set_lists_change_nothing(board: StatusBoard, make: Any) -> None:
    assert board.apply(_finished(make.result(make.key("gone"), CaseStatus.PASSED))) == ()
    assert sum(board.count_states().values()) == 3


def test_forgotten_cases_leave_the_counts(board: StatusBoard, make: Any) -> None:
    board.remove_cases([make.key("a")])

    assert board.get_record(make.key("a")) is None
    assert sum(board.count_states("home").values()) == 2


def test_results_that_can_be_read_again_are_not_all_held(make: Any) -> None:
    board, keys = StatusBoard(), [make.key(f"c{number}") for number in range(300)]
    board.add_cases(keys)
    for key in keys:
        in_history = key is not keys[1]
        finished = _finished(make.result(key, CaseStatus.PASSED)).model_copy(update={"in_history": in_history})
        board.apply(finished)

    board.release_results(but=keys[0])

    held = [key for key in keys if not _record(board, key).lacks_results]
    assert held == [keys[0], keys[1], *keys[100:]]  # viewed; not in the history; the newest
    assert board.count_states()[CaseState.PASSED] == 300


def test_a_result_that_was_let_go_of_is_filled_in_again(make: Any) -> None:
    board, keys = StatusBoard(), [make.key(f"c{number}") for number in range(201)]
    board.add_cases(keys)
    results = [make.result(key, CaseStatus.PASSED) for key in keys]
    for result in results:
        board.apply(_finished(result).model_copy(update={"in_history": True}))
    board.release_results(but=None)
    assert _record(board, keys[0]).lacks_results

    board.fill_results([results[0]])
    board.release_results(but=keys[0])

    assert _record(board, keys[0]).outcomes[0].result == results[0]
    assert _record(board, keys[1]).lacks_results


def _record(board: StatusBoard, key: CaseKey) -> CaseRecord:
    record = board.get_record(key)
    assert record is not None
    return record
