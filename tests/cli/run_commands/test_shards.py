"""`--shard K/N`: one part of the cases, the same on every machine."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.command_line import CommandLine


def list_cases(workbench: CommandLine, *arguments: str) -> list[str]:
    """Run a command and return its cases; no machine sees results of another."""
    report = workbench(*arguments, "--format", "json").data
    return sorted(case["eval_id"] for case in report["cases"])


@pytest.fixture
def project(workbench: CommandLine, make_turn: Callable[..., dict[str, Any]]) -> CommandLine:
    workbench.add_set("home/light.evalset.json", {f"c{n}": [make_turn(f"light r{n}", room=f"r{n}")] for n in range(7)})
    return workbench


def test_the_shards_have_every_case_once(project: CommandLine) -> None:
    shards = [list_cases(project, "run", "--shard", f"{number}/3") for number in (1, 2, 3)]

    assert sorted(case for shard in shards for case in shard) == [f"c{n}" for n in range(7)]
    assert sorted(map(len, shards)) == [2, 2, 3]


def test_eval_takes_a_shard_as_run_does(project: CommandLine) -> None:
    arguments = ("home", "home/light.evalset.json", "--shard", "2/3")

    assert list_cases(project, "eval", *arguments) == list_cases(project, "run", "home", "--shard", "2/3")


def test_durations_of_whole_runs_balance_the_shards(project: CommandLine) -> None:
    project("run", "home")
    with closing(sqlite3.connect(project.root / ".workbench/history.db")) as history, history:
        history.execute("UPDATE job SET duration_seconds = CASE eval_id WHEN 'c3' THEN 60.0 ELSE 1.0 END")

    shards = [list_cases(project, "run", "--shard", f"{number}/2") for number in (1, 2)]

    assert shards == [["c3"], ["c0", "c1", "c2", "c4", "c5", "c6"]]


def test_a_shard_says_its_part_in_advance(project: CommandLine) -> None:
    result = project("run", "--shard", "1/3", "--dry-run")

    assert "shard 1/3: 3 of 7 cases, split by their number: no durations are known" in result.error
    assert "3 cases x 1 = 3" in result.out


def test_an_empty_shard_is_a_run_that_passed(workbench: CommandLine) -> None:
    result = workbench("run", "--shard", "3/3")

    assert result.status == 0
    assert "0 cases: none" in result.out
    assert workbench("history").out.startswith("2")  # it is stored, so that a merge does not miss it


def test_a_resumed_shard_has_the_same_cases(project: CommandLine) -> None:
    before = list_cases(project, "run", "--shard", "2/3")
    (run,) = project("history", "--format", "json").data["runs"]

    after = project("run", "--resume", run["run_id"], "--format", "json")

    assert sorted(case["eval_id"] for case in after.data["cases"]) == before
    assert f"{len(before)} of {len(before)} results reused" in after.error


@pytest.mark.parametrize("shard", ["0/3", "4/3", "3", "a/b", "1/", "-1/2", "1/1001", ""])
def test_a_wrong_shard_is_refused(workbench: CommandLine, shard: str) -> None:
    result = workbench("run", "--shard", shard)

    assert result.status == 2
    assert f"found {shard!r}, expected a number and a count, such as 2/5" in result.error


def test_resume_and_shard_exclude_each_other(workbench: CommandLine) -> None:
    result = workbench("run", "--resume", "--shard", "1/2")

    assert result.status == 2
    assert "--resume and --shard exclude each other" in result.error


def test_planning_a_shard_writes_no_history(project: CommandLine) -> None:
    project("run", "--shard", "1/3", "--dry-run")

    assert not Path(project.root, ".workbench", "history.db").exists()
