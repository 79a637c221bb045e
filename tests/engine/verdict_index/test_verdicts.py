"""The verdicts in memory during runs: as many as the history keeps, and no more."""

from __future__ import annotations

import random
from datetime import UTC, datetime

from workbench.engine.verdict_index import Asked, Verdicts
from workbench.model.identity import CaseKey, Dependencies, Dependency, JobKey
from workbench.model.results import CaseResult, CaseStatus, Execution
from workbench.store.history.history_queries import StoredJob, StoredVerdict
from workbench.store.history.history_writer import MAX_TRACES_PER_VARIANT

CASE = CaseKey(target="t", eval_set="s.evalset.json", eval_id="a")
KEY = Asked("t", "asked", 0)


def add_verdict(
    verdicts: Verdicts, execution: int, scoring: str = "criteria", content: str | None = None, case: CaseKey = CASE
) -> None:
    rows = frozenset({Dependency("file", "/project/data", content or str(execution))})
    result = CaseResult(
        case=case,
        eval_set_id="s",
        status=CaseStatus.PASSED,
        execution=Execution(dependencies=Dependencies(rows=rows, complete=True)),
    )
    job = StoredJob("run", JobKey(case=case), CaseStatus.PASSED, 0.1, 0.1, None, datetime.now(UTC), "asked", scoring)
    verdicts.add(StoredVerdict(job, execution, execution, None, is_certain=True), result)


def list_executions(verdicts: Verdicts) -> list[int | None]:
    return [each.execution for each in verdicts.find(KEY)]


def test_the_newest_executions_are_known_even_if_an_older_one_was_judged_later() -> None:
    verdicts = Verdicts()
    for number in range(MAX_TRACES_PER_VARIANT):
        add_verdict(verdicts, number)
    add_verdict(verdicts, 0, scoring="other criteria")

    add_verdict(verdicts, MAX_TRACES_PER_VARIANT)

    assert list_executions(verdicts) == list(range(MAX_TRACES_PER_VARIANT, 0, -1))


def test_the_stored_data_of_a_case_stays_bounded() -> None:
    verdicts = Verdicts()
    for number in range(3_000):
        add_verdict(verdicts, number)
        add_verdict(verdicts, number, scoring=f"criteria {number}")
    for number in range(100):
        add_verdict(verdicts, 2_999, scoring=f"more criteria {number}")

    assert len(verdicts.find(KEY)) < 50
    assert set(list_executions(verdicts)) == set(range(2_995, 3_000))
    assert [verdicts.row(row) for row in verdicts.list_rows(2_995)] == [Dependency("file", "/project/data", "2995")]
    assert not verdicts.list_rows(0)


def test_the_newest_verdict_of_a_case_outlasts_many_verdicts_of_equal_cases() -> None:
    verdicts = Verdicts()
    add_verdict(verdicts, 0)
    add_verdict(verdicts, 1)
    for number in range(2, 3_000):
        add_verdict(verdicts, number, case=CASE.model_copy(update={"eval_id": f"other {number % 10}"}))

    *others, own = verdicts.for_job(JobKey(case=CASE), KEY)

    assert [each.execution for each in others] == list_executions(verdicts)
    assert own.execution == 1
    assert [verdicts.row(row).fingerprint for row in verdicts.list_rows(1)] == ["1"]
    assert not verdicts.list_rows(0)


def test_the_newest_verdict_of_each_of_many_equal_cases_is_always_found() -> None:
    rng = random.Random(1)
    cases = [CASE.model_copy(update={"eval_id": f"equal {number}"}) for number in range(12)]
    for _ in range(20):
        verdicts, newest = Verdicts(), dict[CaseKey, str]()
        for number in range(60):
            case = rng.choice(cases)
            newest[case] = f"criteria {number}"
            add_verdict(verdicts, rng.randint(max(0, number - 8), number), scoring=newest[case], case=case)

            for each, scoring in newest.items():
                found = verdicts.for_job(JobKey(case=each), KEY)
                assert scoring in [verdict.job.scoring_key for verdict in found]


def test_a_recreated_history_is_not_mistaken_for_the_old_one() -> None:
    verdicts = Verdicts()
    for number in range(1, 4):
        add_verdict(verdicts, number)

    add_verdict(verdicts, 1, content="something else")

    found = [
        verdicts.row(row).fingerprint
        for each in verdicts.find(KEY)
        for row in verdicts.list_rows(each.dependencies or 0)
    ]
    assert found == ["something else", "3", "2", "1"]
    add_verdict(verdicts, 2, content="more")
    assert len(verdicts.find(KEY)) == 5
