"""The status of cases, derived from RunEvents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import (
    CaseResult,
    CaseStatus,
    Execution,
    InvocationScore,
    Judgement,
    JudgeSample,
    MetricResult,
    MetricStatus,
    ModelCalls,
)
from workbench.model.run_events import CaseFinished, CaseStarted, InvocationFinished
from workbench.tui.state.case_status import CaseRecord, CaseState, ResultLocation, StatusBoard


@pytest.fixture
def board(make: Any) -> StatusBoard:
    board = StatusBoard()
    board.add_cases([make.key("a"), make.key("b"), make.key("c", eval_set="other.evalset.json")])
    return board


def make_finished(result: CaseResult) -> CaseFinished:
    return CaseFinished(
        case=result.case, repeat=result.repeat, status=result.status, duration_seconds=0.1, result=result
    )


def begin_jobs(board: StatusBoard, *keys: CaseKey, repeats: int = 1) -> None:
    board.begin_jobs([JobKey(case=key, repeat=repeat) for repeat in range(repeats) for key in keys])


def get_state(board: StatusBoard, key: CaseKey) -> CaseState:
    record = board.get_record(key)
    assert record is not None
    return record.state


def test_a_case_waits_then_runs_then_has_its_final_state(board: StatusBoard, make: Any) -> None:
    states = [get_state(board, make.key("a"))]
    begin_jobs(board, make.key("a"))
    states.append(get_state(board, make.key("a")))
    board.apply(CaseStarted(case=make.key("a"), repeat=0, turns=1))
    states.append(get_state(board, make.key("a")))
    board.apply(make_finished(make.result(make.key("a"), CaseStatus.FAILED)))
    states.append(get_state(board, make.key("a")))

    assert states == [CaseState.NOT_RUN, CaseState.WAITING, CaseState.RUNNING, CaseState.FAILED]


def test_counts_roll_up_to_the_set_the_target_and_everything(board: StatusBoard, make: Any) -> None:
    board.apply(make_finished(make.result(make.key("a"), CaseStatus.PASSED)))
    board.apply(make_finished(make.result(make.key("c", eval_set="other.evalset.json"), CaseStatus.ERROR)))

    assert board.count_states("home", "sets/lights.evalset.json")[CaseState.PASSED] == 1
    assert board.count_states("home", "sets/lights.evalset.json")[CaseState.ERROR] == 0
    assert board.count_states("home")[CaseState.ERROR] == 1
    assert sum(board.count_states().values()) == 3


def test_a_case_passes_only_if_all_its_repeats_pass(board: StatusBoard, make: Any) -> None:
    begin_jobs(board, make.key("a"), repeats=3)
    for repeat, status in enumerate([CaseStatus.PASSED, CaseStatus.FAILED]):
        board.apply(make_finished(make.result(make.key("a"), status, repeat=repeat)))
    assert get_state(board, make.key("a")) is CaseState.WAITING

    board.apply(make_finished(make.result(make.key("a"), CaseStatus.PASSED, repeat=2)))

    record = board.get_record(make.key("a"))
    assert record is not None
    assert (record.state, record.passed_repeats) == (CaseState.FAILED, 2)


def test_turns_are_available_as_soon_as_they_end(board: StatusBoard, make: Any) -> None:
    board.apply(CaseStarted(case=make.key("a"), repeat=0, turns=2))
    turn_result = make.turn_result(make.turn("hi", "hello"))

    board.apply(InvocationFinished(case=make.key("a"), repeat=0, turn=0, result=turn_result))

    record = board.get_record(make.key("a"))
    assert record is not None
    assert record.turns == {0: [turn_result]}


def test_a_second_attempt_starts_without_the_turns_of_the_first(board: StatusBoard, make: Any) -> None:
    board.apply(CaseStarted(case=make.key("a"), repeat=0, turns=2))
    turn_result = make.turn_result(make.turn("hi", "hello"))
    board.apply(InvocationFinished(case=make.key("a"), repeat=0, turn=0, result=turn_result))

    board.apply(CaseStarted(case=make.key("a"), repeat=0, turns=2, attempt=2))

    record = board.get_record(make.key("a"))
    assert record is not None
    assert record.turns == {0: []}


def test_the_last_results_stay_until_the_case_starts_again(board: StatusBoard, make: Any) -> None:
    old = make.result(make.key("a"), CaseStatus.FAILED)
    board.apply(make_finished(old))
    begin_jobs(board, make.key("a"))
    record = board.get_record(make.key("a"))
    assert record is not None
    assert record.outcomes[0].result == old

    board.apply(CaseStarted(case=make.key("a"), repeat=0, turns=1))

    assert record.outcomes == {}


def test_stored_results_count_for_cases_listed_before_and_after(make: Any) -> None:
    board = StatusBoard()
    board.add_cases([make.key("a")])
    stored_summary = [make.result(make.key(name), CaseStatus.PASSED) for name in ("a", "b")]
    board.load_stored({result.case: [make.stored_job(result)] for result in stored_summary})
    board.add_cases([make.key("b")])

    records = [board.get_record(make.key("a")), board.get_record(make.key("b"))]

    assert [(r.state, r.lacks_results) for r in records if r is not None] == [(CaseState.PASSED, True)] * 2
    board.fill_results(stored_summary)
    assert [r.outcomes[0].result for r in records if r is not None] == stored_summary


def test_stored_results_never_replace_those_of_this_session(board: StatusBoard, make: Any) -> None:
    board.apply(make_finished(make.result(make.key("a"), CaseStatus.PASSED)))

    old = make.result(make.key("a"), CaseStatus.FAILED)
    board.load_stored({old.case: [make.stored_job(old)]})
    board.fill_results([old])

    record = board.get_record(make.key("a"))
    assert record is not None
    assert (record.state, record.stored_at) == (CaseState.PASSED, None)


def test_results_stored_by_another_process_replace_older_stored_ones(board: StatusBoard, make: Any) -> None:
    for status in (CaseStatus.FAILED, CaseStatus.PASSED):
        stored_summary = make.stored_job(make.result(make.key("a"), status))
        board.load_stored({stored_summary.case: [stored_summary]})

    assert get_record(board, make.key("a")).state is CaseState.PASSED
    assert board.count_states()[CaseState.PASSED] == 1
    assert not board.count_states()[CaseState.FAILED]


def test_a_run_that_ends_early_leaves_nothing_waiting(board: StatusBoard, make: Any) -> None:
    board.apply(make_finished(make.result(make.key("a"), CaseStatus.PASSED)))
    begin_jobs(board, make.key("a"), make.key("b"))

    changed = board.end_run([make.key("a"), make.key("b")])

    assert set(changed) == {make.key("a"), make.key("b")}
    assert get_state(board, make.key("a")) is CaseState.PASSED
    assert get_state(board, make.key("b")) is CaseState.NOT_RUN


def test_a_run_that_ends_settles_only_its_own_cases(board: StatusBoard, make: Any) -> None:
    begin_jobs(board, make.key("a"), make.key("b"))

    board.end_run([make.key("a")])

    assert get_state(board, make.key("a")) is CaseState.NOT_RUN
    assert get_state(board, make.key("b")) is CaseState.WAITING


def test_a_case_cancelled_before_its_verdict_keeps_the_earlier_verdict(board: StatusBoard, make: Any) -> None:
    old = make.result(make.key("a"), CaseStatus.FAILED)
    board.apply(make_finished(old))
    cancelled = [make.result(make.key(name), CaseStatus.CANCELLED) for name in ("a", "b")]
    begin_jobs(board, make.key("a"), make.key("b"))
    board.apply(CaseStarted(case=make.key("a"), repeat=0, turns=1))

    for result in cancelled:
        board.apply(make_finished(result))

    assert (get_state(board, make.key("a")), get_state(board, make.key("b"))) == (CaseState.FAILED, CaseState.CANCELLED)
    assert get_record(board, make.key("a")).outcomes[0].result == old
    assert board.count_states()[CaseState.FAILED] == board.count_states()[CaseState.CANCELLED] == 1


def test_a_verdict_of_one_repeat_replaces_all_earlier_results(board: StatusBoard, make: Any) -> None:
    for status in (CaseStatus.PASSED, CaseStatus.FAILED):
        begin_jobs(board, make.key("a"), repeats=2)
        board.apply(make_finished(make.result(make.key("a"), status)))
        board.apply(make_finished(make.result(make.key("a"), CaseStatus.CANCELLED, repeat=1)))

    statuses = [outcome.status for outcome in get_record(board, make.key("a")).outcomes.values()]
    assert statuses == [CaseStatus.FAILED, CaseStatus.CANCELLED]


def test_a_run_of_one_repeat_by_the_watch_keeps_the_verdict_on_the_other_one(board: StatusBoard, make: Any) -> None:
    def finish(run_id: str, status: CaseStatus, *, repeat: int) -> None:
        finished = make_finished(make.result(key, status, repeat=repeat))
        board.apply(finished.model_copy(update={"in_history": True}), run_id=run_id)

    key = make.key("a")
    begin_jobs(board, key, repeats=3)
    for repeat in range(3):
        finish("mine", CaseStatus.FAILED, repeat=repeat)

    board.begin_jobs([JobKey(case=key, repeat=0)], kept_below=2)
    finish("watch", CaseStatus.PASSED, repeat=0)

    record = get_record(board, key)
    statuses = {repeat: outcome.status for repeat, outcome in record.outcomes.items()}
    assert statuses == {0: CaseStatus.PASSED, 1: CaseStatus.FAILED}
    assert record.state is CaseState.FAILED
    places = {job.repeat: place.run_id for job, place in board.find_earlier_verdicts([key]).items()}
    assert places == {0: "watch", 1: "mine"}


def test_a_stored_verdict_stays_readable_while_the_case_runs(board: StatusBoard, make: Any) -> None:
    old = make.result(make.key("a"), CaseStatus.PASSED)
    board.load_stored({old.case: [make.stored_job(old)]})
    begin_jobs(board, make.key("a"))
    board.apply(CaseStarted(case=make.key("a"), repeat=0, turns=1))
    record = get_record(board, make.key("a"))
    assert (record.outcomes, record.lacks_results) == ({}, True)

    board.fill_results([old])
    board.end_run([make.key("a")])  # as when a run ends by an internal error

    assert (record.state, record.outcomes[0].result) == (CaseState.PASSED, old)
    assert record.stored_at is not None


def test_every_verdict_knows_if_samples_are_missing(board: StatusBoard, make: Any) -> None:
    judgement = Judgement(model="m", prompt="p", samples=(JudgeSample(score=1.0), JudgeSample(problem="503")))
    turn = InvocationScore(score=1.0, judgement=judgement)
    metric = MetricResult(name="m", score=1.0, threshold=1.0, status=MetricStatus.PASSED, per_invocation=(turn,))
    key = make.key("a")
    whole, partly = (make.result(key, CaseStatus.PASSED, metrics=metrics) for metrics in (None, [metric]))
    stored_summary, place = (
        make.stored_job(partly)._replace(misses_samples=True),
        ResultLocation("r0", JobKey(case=key, repeat=0)),
    )
    record = get_record(board, key)

    def is_missing_samples(change: Callable[[], object]) -> bool:
        change()
        return record.misses_samples

    assert is_missing_samples(lambda: board.apply(make_finished(partly)))
    assert not is_missing_samples(lambda: board.apply(make_finished(whole)))
    assert is_missing_samples(lambda: board.restore_result(partly, stored_at=stored_summary.finished_at, place=place))
    assert not is_missing_samples(lambda: board.apply(make_finished(whole)))
    assert is_missing_samples(lambda: board.restore_verdicts(key, {0: stored_summary}))


def test_every_verdict_knows_if_model_calls_were_replayed(board: StatusBoard, make: Any) -> None:
    key = make.key("a")
    live = make.result(key, CaseStatus.PASSED)
    replayed = live.model_copy(update={"execution": Execution(model_calls=ModelCalls(live=1, replayed=1))})
    stored = make.stored_job(replayed)._replace(is_replayed=True)
    place = ResultLocation("r0", JobKey(case=key, repeat=0))
    record = get_record(board, key)

    def is_replayed(change: Callable[[], object]) -> bool:
        change()
        return record.is_replayed

    assert is_replayed(lambda: board.apply(make_finished(replayed)))
    assert not is_replayed(lambda: board.apply(make_finished(live)))
    assert is_replayed(lambda: board.restore_result(replayed, stored_at=stored.finished_at, place=place))
    assert not is_replayed(lambda: board.apply(make_finished(live)))
    assert is_replayed(lambda: board.restore_verdicts(key, {0: stored}))


def test_events_of_unlisted_cases_change_nothing(board: StatusBoard, make: Any) -> None:
    assert board.apply(make_finished(make.result(make.key("gone"), CaseStatus.PASSED))) == ()
    assert sum(board.count_states().values()) == 3


def test_a_case_that_is_away_for_a_moment_still_runs(board: StatusBoard, make: Any) -> None:
    key = make.key("a")
    begin_jobs(board, key)
    board.apply(CaseStarted(case=key, repeat=0, turns=1))

    board.remove_cases([key])
    assert not board.count_states().get(CaseState.RUNNING)
    board.add_cases([key])
    assert get_state(board, key) is CaseState.RUNNING
    board.remove_cases([key])
    board.apply(make_finished(make.result(key, CaseStatus.PASSED)))
    board.add_cases([key])
    assert get_state(board, key) is CaseState.PASSED


def test_a_case_that_was_away_at_the_end_of_its_run_does_not_run(board: StatusBoard, make: Any) -> None:
    key = make.key("a")
    begin_jobs(board, key)
    board.remove_cases([key])

    board.end_run([key])
    board.add_cases([key])

    assert get_state(board, key) is CaseState.NOT_RUN


def test_removed_cases_are_not_counted(board: StatusBoard, make: Any) -> None:
    board.remove_cases([make.key("a")])

    assert board.get_record(make.key("a")) is None
    assert sum(board.count_states("home").values()) == 2


def test_only_viewed_unstored_and_newest_results_stay_in_memory(make: Any) -> None:
    board, keys = StatusBoard(), [make.key(f"c{number}") for number in range(300)]
    board.add_cases(keys)
    for key in keys:
        in_history = key is not keys[1]
        event = make_finished(make.result(key, CaseStatus.PASSED)).model_copy(update={"in_history": in_history})
        board.apply(event)

    board.release_results(but=keys[0])

    held_keys = [key for key in keys if not get_record(board, key).lacks_results]
    assert held_keys == [keys[0], keys[1], *keys[100:]]  # viewed; not in the history; the newest
    assert board.count_states()[CaseState.PASSED] == 300


def test_a_released_result_can_be_loaded_again(make: Any) -> None:
    board, keys = StatusBoard(), [make.key(f"c{number}") for number in range(201)]
    board.add_cases(keys)
    results = [make.result(key, CaseStatus.PASSED) for key in keys]
    for result in results:
        board.apply(make_finished(result).model_copy(update={"in_history": True}))
    board.release_results(but=None)
    assert get_record(board, keys[0]).lacks_results

    board.fill_results([results[0]])
    board.release_results(but=keys[0])

    assert get_record(board, keys[0]).outcomes[0].result == results[0]
    assert get_record(board, keys[1]).lacks_results


def get_record(board: StatusBoard, key: CaseKey) -> CaseRecord:
    record = board.get_record(key)
    assert record is not None
    return record


def test_stale_verdicts_are_counted_by_state_and_move_with_it(board: StatusBoard, make: Any) -> None:
    board.apply(make_finished(make.result(make.key("a"), CaseStatus.FAILED)))
    for name in ("a", "b", "late"):
        board.mark_stale(make.key(name), True)
    assert board.count_stale_states("home") == {CaseState.FAILED: 1, CaseState.NOT_RUN: 1}

    begin_jobs(board, make.key("a"))
    assert +board.count_stale_states() == {CaseState.WAITING: 1, CaseState.NOT_RUN: 1}

    board.mark_stale(make.key("a"), False)
    board.remove_cases([make.key("b")])
    assert not +board.count_stale_states()

    board.add_cases([make.key("late")])
    assert +board.count_stale_states("home", make.key("late").eval_set) == {CaseState.NOT_RUN: 1}
    assert sum(board.count_states().values()) == 3
