"""The dependencies and written files of executions survive a round trip through the history."""

from __future__ import annotations

import json
import sqlite3
import zlib
from typing import Any

import pytest

from tests.store.history.conftest import make_record, make_result
from workbench.model.identity import Dependencies, Dependency
from workbench.model.results import CaseResult
from workbench.store.history.history import History
from workbench.store.history.history_queries import AgentWrittenFile, FinishedJob


def told(*rows: tuple[str, str, str], at: float) -> Dependencies:
    return Dependencies(rows=frozenset(Dependency(*row) for row in rows), complete=True, recorded_at=at)


def result(eval_id: str, dependencies: Dependencies, *, seconds: float = 0.01) -> CaseResult:
    made = make_result(eval_id)
    execution = made.execution.model_copy(update={"dependencies": dependencies, "duration_seconds": seconds})
    return made.model_copy(update={"execution": execution, "duration_seconds": seconds})


def test_states_in_which_agents_left_files_with_when_that_was_last(history: History) -> None:
    history.begin_run(make_record("r"))
    found = ("state", "/p/log", "one"), ("found", "/p/log", "zero")
    history.finish_job("r", result("a", told(*found, at=100.0)))
    history.finish_job("r", result("b", told(("written", "/p/log", "two"), ("folder", "/p/out", "y"), at=200.0)))
    history.finish_job("r", result("c", told(*found, at=300.0), seconds=5.0))
    scored = result("d", told(at=50.0))
    metric = scored.metrics[0].model_copy(update={"dependencies": told(("written", "/p/scores", "z"), at=60.0)})
    history.finish_job("r", scored.model_copy(update={"metrics": (metric,)}))

    left = [each for each in history.list_agent_written_files() if each.path == "/p/log"]

    assert left == [
        AgentWrittenFile("/p/log", "two", 200.0, pytest.approx(199.99)),  # type: ignore[arg-type]
        AgentWrittenFile("/p/log", "one", 300.0, pytest.approx(295.0), "zero"),  # type: ignore[arg-type]
    ]
    assert {each.path for each in history.list_agent_written_files()} == {"/p/log", "/p/scores"}
    assert history.list_folder_dependencies() == {"/p/out"}


def test_a_verdict_says_when_its_agent_began_however_late_it_was_judged(history: History) -> None:
    history.begin_run(make_record("r"))
    ran = result("a", told(("file", "/p/data", "x"), at=1_000.0), seconds=5.0)
    (stored,) = history.finish_jobs("r", [FinishedJob(ran, "asked", "criteria")])
    history.begin_run(make_record("later"))
    without = ran.model_copy(update={"execution": ran.execution.model_copy(update={"dependencies": None})})
    (again,) = history.finish_jobs("later", [FinishedJob(without, "asked", "other criteria", is_rescored=True)])

    assert stored.started_at == again.started_at == pytest.approx(995.0)
    assert again.execution == stored.execution
    assert [each.started_at for each in history.last_verdicts()] == [pytest.approx(995.0)] * 2


def test_a_fresh_execution_beside_one_that_is_judged_again_is_one_of_its_own(history: History) -> None:
    history.begin_run(make_record("r"))
    history.begin_run(make_record("later"))
    ran = make_result("a")
    (stored,) = history.finish_jobs("r", [FinishedJob(ran, "asked", "criteria")])

    again, fresh = history.finish_jobs(
        "later",
        [
            FinishedJob(ran, "asked", "other criteria", is_rescored=True),
            FinishedJob(make_result("b"), "asked", "other criteria"),
        ],
    )

    assert again.execution == stored.execution != fresh.execution


def test_what_was_recorded_is_stored_once_for_all_that_judge_it_until_it_is_forgotten(history: History) -> None:
    job = FinishedJob(make_result("a"), "what was said", "criteria", is_rescored=True, is_recorded=True)
    stored: list[Any] = []
    for run in ("first", "again", "anew"):
        history.begin_run(make_record(run))
        stored += history.finish_jobs(run, [job])
        if run == "again":
            history._database.execute("UPDATE execution SET blob = NULL")

    first, again, anew = (each.execution for each in stored)
    assert first == again != anew
    assert list(history.results("anew")) == [job.result]


def test_what_an_older_program_wrote_in_other_bytes_is_the_same_execution(history: History) -> None:
    history.begin_run(make_record("r"))
    ran = make_result("a", answer="héllo")
    (stored,) = history.finish_jobs("r", [FinishedJob(ran, "asked", "criteria")])
    with sqlite3.connect(history.path) as connection:
        older = ran.execution.model_dump(mode="json")
        for turn in older["turns"]:
            del turn["calls_unknown"]  # older versions did not write it
        connection.execute("UPDATE blob SET data = ?", (zlib.compress(json.dumps(older).encode()),))
    connection.close()

    history.begin_run(make_record("later"))
    (again,) = history.finish_jobs("later", [FinishedJob(ran, "asked", "other criteria", is_rescored=True)])
    (other,) = history.finish_jobs("later", [FinishedJob(make_result("a"), "asked", "criteria", is_rescored=True)])

    assert again.execution == stored.execution != other.execution
    assert list(history.results("r")) == [ran]
