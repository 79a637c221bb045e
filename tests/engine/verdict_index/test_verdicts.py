"""What is known of verdicts while runs go on: as much as the history keeps, and no more."""

from __future__ import annotations

from datetime import UTC, datetime

from workbench.engine.verdict_index import Asked, Verdicts
from workbench.model.identity import CaseKey, Dependencies, Dependency, JobKey
from workbench.model.results import CaseResult, CaseStatus, Execution
from workbench.store.history.history_queries import StoredJob, StoredVerdict
from workbench.store.history.history_writer import MAX_TRACES_PER_VARIANT

CASE = CaseKey(target="t", eval_set="s.evalset.json", eval_id="a")
ASKED = Asked("t", "asked", 0)


def add(
    verdicts: Verdicts, execution: int, scoring: str = "criteria", read: str | None = None, case: CaseKey = CASE
) -> None:
    rows = frozenset({Dependency("file", "/project/data", read or str(execution))})
    result = CaseResult(
        case=case,
        eval_set_id="s",
        status=CaseStatus.PASSED,
        execution=Execution(dependencies=Dependencies(rows=rows, complete=True)),
    )
    job = StoredJob("run", JobKey(case=case), CaseStatus.PASSED, 0.1, 0.1, None, datetime.now(UTC), "asked", scoring)
    verdicts.add(StoredVerdict(job, execution, execution, None, is_certain=True), result)


def executions(verdicts: Verdicts) -> list[int | None]:
    return [each.execution for each in verdicts.find(ASKED)]


def test_the_executions_that_are_known_are_the_newest_however_lately_an_older_one_was_judged() -> None:
    verdicts = Verdicts()
    for number in range(MAX_TRACES_PER_VARIANT):
        add(verdicts, number)
    add(verdicts, 0, scoring="other criteria")

    add(verdicts, MAX_TRACES_PER_VARIANT)

    assert executions(verdicts) == list(range(MAX_TRACES_PER_VARIANT, 0, -1))


def test_what_is_kept_of_a_case_does_not_grow_for_ever() -> None:
    verdicts = Verdicts()
    for number in range(3_000):
        add(verdicts, number)
        add(verdicts, number, scoring=f"criteria {number}")
    for number in range(100):
        add(verdicts, 2_999, scoring=f"more criteria {number}")

    assert len(verdicts.find(ASKED)) < 50
    assert set(executions(verdicts)) == set(range(2_995, 3_000))
    assert [verdicts.row(row) for row in verdicts.list_rows(2_995)] == [Dependency("file", "/project/data", "2995")]
    assert not verdicts.list_rows(0)


def test_the_newest_verdict_of_a_case_is_known_however_many_others_asked_the_same() -> None:
    verdicts = Verdicts()
    add(verdicts, 0)
    add(verdicts, 1)
    for number in range(2, 3_000):
        add(verdicts, number, case=CASE.model_copy(update={"eval_id": f"other {number % 10}"}))

    *others, own = verdicts.for_job(JobKey(case=CASE), ASKED)

    assert [each.execution for each in others] == executions(verdicts)
    assert own.execution == 1
    assert [verdicts.row(row).fingerprint for row in verdicts.list_rows(1)] == ["1"]
    assert not verdicts.list_rows(0)


def test_a_history_that_is_deleted_and_begun_anew_is_not_mistaken_for_the_old_one() -> None:
    verdicts = Verdicts()
    for number in range(1, 4):
        add(verdicts, number)

    add(verdicts, 1, read="something else")

    found = [
        verdicts.row(row).fingerprint
        for each in verdicts.find(ASKED)
        for row in verdicts.list_rows(each.dependencies or 0)
    ]
    assert found == ["something else", "3", "2", "1"]
    add(verdicts, 2, read="more")
    assert len(verdicts.find(ASKED)) == 5
