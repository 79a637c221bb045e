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
from workbench.store.history.history_queries import AgentWrittenFile, ResultToStore


def make_dependencies(*rows: tuple[str, str, str], at: float) -> Dependencies:
    return Dependencies(rows=frozenset(Dependency(*row) for row in rows), complete=True, recorded_at=at)


def make_result_with_dependencies(eval_id: str, dependencies: Dependencies, *, seconds: float = 0.01) -> CaseResult:
    plain_result = make_result(eval_id)
    execution = plain_result.execution.model_copy(update={"dependencies": dependencies, "duration_seconds": seconds})
    return plain_result.model_copy(update={"execution": execution, "duration_seconds": seconds})


def test_agent_written_files_are_listed_with_their_newest_times(history: History) -> None:
    history.begin_run(make_record("r"))
    log_states = ("state", "/p/log", "one"), ("found", "/p/log", "zero")
    history.finish_job("r", make_result_with_dependencies("a", make_dependencies(*log_states, at=100.0)))
    history.finish_job(
        "r",
        make_result_with_dependencies(
            "b", make_dependencies(("written", "/p/log", "two"), ("folder", "/p/out", "y"), at=200.0)
        ),
    )
    history.finish_job("r", make_result_with_dependencies("c", make_dependencies(*log_states, at=300.0), seconds=5.0))
    scored = make_result_with_dependencies("d", make_dependencies(at=50.0))
    metric = scored.metrics[0].model_copy(
        update={"dependencies": make_dependencies(("written", "/p/scores", "z"), at=60.0)}
    )
    history.finish_job("r", scored.model_copy(update={"metrics": (metric,)}))

    log_files = [each for each in history.list_agent_written_files() if each.path == "/p/log"]

    assert log_files == [
        AgentWrittenFile("/p/log", "two", 200.0, pytest.approx(199.99)),  # type: ignore[arg-type]
        AgentWrittenFile("/p/log", "one", 300.0, pytest.approx(295.0), "zero"),  # type: ignore[arg-type]
    ]
    assert {each.path for each in history.list_agent_written_files()} == {"/p/log", "/p/scores"}
    assert history.list_folder_dependencies() == {"/p/out"}


def test_a_rescored_verdict_keeps_the_start_time_of_its_agent(history: History) -> None:
    history.begin_run(make_record("r"))
    case_result = make_result_with_dependencies(
        "a", make_dependencies(("file", "/p/data", "x"), at=1_000.0), seconds=5.0
    )
    (stored,) = history.finish_jobs("r", [ResultToStore(case_result, "asked", "criteria")])
    history.begin_run(make_record("later"))
    without = case_result.model_copy(
        update={"execution": case_result.execution.model_copy(update={"dependencies": None})}
    )
    (again,) = history.finish_jobs("later", [ResultToStore(without, "asked", "other criteria", is_rescored=True)])

    assert stored.started_at == again.started_at == pytest.approx(995.0)
    assert again.execution == stored.execution
    assert [each.started_at for each in history.last_verdicts()] == [pytest.approx(995.0)] * 2


def test_a_new_execution_is_stored_separately_from_a_rescored_one(history: History) -> None:
    history.begin_run(make_record("r"))
    history.begin_run(make_record("later"))
    case_result = make_result("a")
    (stored,) = history.finish_jobs("r", [ResultToStore(case_result, "asked", "criteria")])

    again, fresh = history.finish_jobs(
        "later",
        [
            ResultToStore(case_result, "asked", "other criteria", is_rescored=True),
            ResultToStore(make_result("b"), "asked", "other criteria"),
        ],
    )

    assert again.execution == stored.execution != fresh.execution


def test_a_recorded_execution_is_stored_once_until_it_is_deleted(history: History) -> None:
    job = ResultToStore(make_result("a"), "what was said", "criteria", is_rescored=True, is_recorded=True)
    stored: list[Any] = []
    for run in ("first", "again", "anew"):
        history.begin_run(make_record(run))
        stored += history.finish_jobs(run, [job])
        if run == "again":
            history._database.execute("UPDATE execution SET blob = NULL")

    first, again, anew = (each.execution for each in stored)
    assert first == again != anew
    assert list(history.results("anew")) == [job.result]


def test_an_execution_stored_by_an_older_program_is_recognised(history: History) -> None:
    history.begin_run(make_record("r"))
    case_result = make_result("a", answer="héllo")
    (stored,) = history.finish_jobs("r", [ResultToStore(case_result, "asked", "criteria")])
    with sqlite3.connect(history.path) as connection:
        older = case_result.execution.model_dump(mode="json")
        for turn in older["turns"]:
            del turn["calls_unknown"]  # older versions did not write it
        connection.execute("UPDATE blob SET data = ?", (zlib.compress(json.dumps(older).encode()),))
    connection.close()

    history.begin_run(make_record("later"))
    (again,) = history.finish_jobs("later", [ResultToStore(case_result, "asked", "other criteria", is_rescored=True)])
    (other,) = history.finish_jobs("later", [ResultToStore(make_result("a"), "asked", "criteria", is_rescored=True)])

    assert again.execution == stored.execution != other.execution
    assert list(history.results("r")) == [case_result]
