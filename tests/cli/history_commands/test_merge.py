"""`workbench merge`: the shards of several machines become one run."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.cli.command_line import CommandLine

Machine = Callable[..., str]


@pytest.fixture
def machine(workbench: CommandLine, make_turn: Callable[..., dict[str, Any]]) -> Machine:
    """Run a shard as on a machine of its own; return the folder with its results."""
    workbench.add_set(
        "home/light.evalset.json",
        {
            **{f"c{n}": [make_turn(f"light r{n}", room=f"r{n}")] for n in range(5)},
            "bad": [make_turn("light r9", room="r8")],
        },
    )

    def run(shard: str, name: str | None = None, *arguments: str) -> str:
        workbench("run", "home", "--shard", shard, *arguments)
        name = name or f"part-{shard.partition('/')[0]}"
        shutil.move(workbench.root / ".workbench", workbench.root / name)
        return name

    return run


def test_the_parts_become_one_whole_run(workbench: CommandLine, machine: Machine) -> None:
    whole = workbench("run", "home", "--format", "json").data
    shutil.rmtree(workbench.root / ".workbench")
    parts = [machine(f"{number}/3") for number in (1, 2, 3)]

    result = workbench("merge", *parts, "--format", "json")

    assert result.status == 1  # as one run with a failed case
    assert "merged 3 shards into run" in result.error
    merged = result.data
    for name in ("total", "passed", "failed", "error", "partly_judged"):
        assert merged["summary"][name] == whole["summary"][name]
    score = "tool_trajectory_avg_score"
    assert merged["summary"]["metrics"][score] == whole["summary"]["metrics"][score]
    assert [case["eval_id"] for case in merged["cases"]] == [case["eval_id"] for case in whole["cases"]]
    for mine, other in zip(merged["cases"], whole["cases"], strict=True):
        assert mine["status"] == other["status"]
        assert [turn["trajectory"] for turn in mine["turns"]] == [turn["trajectory"] for turn in other["turns"]]


def test_verdicts_of_a_merged_run_are_current(workbench: CommandLine, machine: Machine) -> None:
    workbench("merge", *(machine(f"{number}/3") for number in (1, 2, 3)))

    again = workbench("run", "home", "--affected")

    assert "affected: 0 of 6; the other verdicts are current" in again.error
    agent = workbench.root / "home/agent.py"
    agent.write_text(agent.read_text().replace('"done: ', '"ready: '))
    assert "affected: 6 of 6" in workbench("run", "home", "--affected").error


def test_a_merged_run_is_compared_reported_and_resumed_as_any_other(workbench: CommandLine, machine: Machine) -> None:
    first = [machine(f"{number}/2", f"first-{number}") for number in (1, 2)]
    agent = workbench.root / "home/agent.py"
    agent.write_text(agent.read_text().replace('{"room": rest}', '{"room": rest if rest != "r3" else "none"}'))
    second = [machine(f"{number}/2", f"second-{number}") for number in (1, 2)]
    workbench("merge", *first)
    workbench("merge", *second)

    compared = workbench("compare")

    assert "▼ regression  home/light.evalset.json:c3" in compared.out
    assert compared.out.endswith("\n1 regression, 5 same\n")
    assert "6 cases: 4 passed, 2 failed" in workbench("history").out
    assert 'tests="6"' in workbench("report", "--format", "junit").out
    resumed = workbench("run", "--resume", workbench("history", "--format", "json").data["runs"][0]["run_id"])
    assert "6 of 6 results reused" in resumed.error


def test_a_part_may_be_a_history_or_a_folder_around_it_and_is_not_changed(
    workbench: CommandLine, machine: Machine
) -> None:
    (workbench.root / "two").mkdir()
    machine("1/2", "one")
    machine("2/2", "two/.workbench")
    before = (workbench.root / "one/history.db").read_bytes()

    result = workbench("merge", "one/history.db", "two", "--output", "all.xml")

    assert result.status == 1
    assert "6 cases: 5 passed, 1 failed" in result.out
    assert 'tests="6"' in (workbench.root / "all.xml").read_text()
    assert (workbench.root / "one/history.db").read_bytes() == before


def test_the_durations_of_a_merged_run_split_the_next_shards(workbench: CommandLine, machine: Machine) -> None:
    workbench("merge", machine("1/2"), machine("2/2"))

    assert "of 6 cases, which took" in workbench("run", "home", "--shard", "1/2", "--dry-run").error


def test_a_shard_does_not_change_how_later_shards_are_split(workbench: CommandLine, machine: Machine) -> None:
    workbench("merge", machine("1/2"), machine("2/2"))
    before = workbench("run", "home", "--shard", "2/2", "--dry-run").out
    workbench("run", "home", "--shard", "1/2")

    assert workbench("run", "home", "--shard", "2/2", "--dry-run").out == before


def test_an_interrupted_shard_makes_an_interrupted_run(workbench: CommandLine, machine: Machine) -> None:
    parts = [machine("1/2"), machine("2/2")]

    with closing(sqlite3.connect(workbench.root / parts[1] / "history.db")) as history, history:
        history.execute("UPDATE run SET summary = NULL")  # as if its process had died
        history.execute("DELETE FROM job WHERE eval_id = 'c0' OR eval_id = 'c1'")

    result = workbench("merge", *parts)

    assert result.status == 130
    assert "interrupted" in result.out


def test_a_problem_of_the_plan_is_reported_with_exit_status_2(workbench: CommandLine, machine: Machine) -> None:
    workbench.add_set("home/other/a.evalset.json", {"a": []})
    workbench.write("home/other/test_config.json", "{")

    result = workbench("merge", machine("1/2"), machine("2/2"))

    assert result.status == 2
    assert result.error.count("test_config.json") == 1
    assert "6 cases" in result.out


def test_an_unreadable_case_gives_exit_status_2(workbench: CommandLine, machine: Machine) -> None:
    workbench.write("home/broken.evalset.json", '{"eval_set_id": "broken", "eval_cases": [')

    result = workbench("merge", machine("1/2"), machine("2/2"))

    assert result.status == 2
    assert "broken.evalset.json" in result.out


def refuse(workbench: CommandLine, *parts: str) -> str:
    """Merge, and return the one message; nothing must be stored."""
    result = workbench("merge", *parts)
    assert result.status == 2
    assert not result.out
    assert not (workbench.root / ".workbench/history.db").exists()
    assert result.error.count("\n") == 1
    return result.error


def test_a_missing_shard_is_named(workbench: CommandLine, machine: Machine) -> None:
    assert "2 shards missing: 2/4, 3/4;" in refuse(workbench, machine("1/4"), machine("4/4"))


def test_a_shard_that_is_there_twice_is_named(workbench: CommandLine, machine: Machine) -> None:
    parts = machine("1/2"), machine("2/2"), machine("2/2", "again")

    assert "shard 2/2 is there twice: part-2 and again" in refuse(workbench, *parts)


def test_parts_of_runs_with_other_counts_are_refused(workbench: CommandLine, machine: Machine) -> None:
    text = refuse(workbench, machine("1/2"), machine("2/3"))

    assert "part-1 (shard 1/2) and part-2 (shard 2/3) are parts of different runs" in text


def test_parts_of_runs_with_other_repeats_are_refused(workbench: CommandLine, machine: Machine) -> None:
    text = refuse(workbench, machine("1/2"), machine("2/2", None, "--runs", "2"))

    assert "are parts of different runs: their cases or repeats differ" in text


def test_parts_with_other_criteria_are_refused(workbench: CommandLine, machine: Machine) -> None:
    workbench.write("strict.json", {"criteria": {"response_match_score": 1.0}})

    text = refuse(workbench, machine("1/2"), machine("2/2", None, "--config", "strict.json"))

    assert "the criteria of home/light.evalset.json differ" in text


def test_shards_of_other_eval_sets_are_refused(workbench: CommandLine, machine: Machine) -> None:
    one = machine("1/2")
    path = workbench.root / "home/light.evalset.json"
    path.write_text(path.read_text() + "\n")

    text = refuse(workbench, one, machine("2/2"))

    assert "are of different revisions: home/light.evalset.json differs; run all shards of the same revision" in text


def test_shards_of_other_code_are_refused(workbench: CommandLine, machine: Machine) -> None:
    one = machine("1/2")
    agent = workbench.root / "home/agent.py"
    agent.write_text(agent.read_text().replace('"done: ', '"ready: '))

    assert "are of different revisions: home/agent.py differs" in refuse(workbench, one, machine("2/2"))


def test_shards_of_other_commits_are_refused(workbench: CommandLine, machine: Machine) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *identity, *arguments], cwd=workbench.root, check=True, capture_output=True)

    git("init")
    git("commit", "--allow-empty", "-m", "one")
    one = machine("1/2")
    git("commit", "--allow-empty", "-m", "two")

    assert "are of different revisions: " in refuse(workbench, one, machine("2/2"))


def test_shards_split_by_other_durations_are_refused(
    workbench: CommandLine, machine: Machine, make_turn: Callable[..., dict[str, Any]]
) -> None:
    workbench.add_set(
        "home/light.evalset.json",
        {**{f"c{n}": [make_turn(f"light r{n}", room=f"r{n}")] for n in range(5)}, "slow": [make_turn("sleep 0.5")]},
    )
    workbench("run", "home")
    one = machine("1/2")

    text = refuse(workbench, one, machine("2/2"))

    assert "are split differently, by different durations of earlier runs; give all shards the same .workbench" in text


def test_a_damaged_part_is_named_and_left_alone(workbench: CommandLine, machine: Machine) -> None:
    one = machine("1/2")
    for content in (b"", b"no database" * 500, (workbench.root / one / "history.db").read_bytes()[:5000]):
        damaged = workbench.write("damaged/history.db", content)

        text = refuse(workbench, one, "damaged")

        assert text.startswith("workbench: damaged/history.db: it is damaged") or "no run of a shard" in text
        assert damaged.read_bytes() == content
        assert [file.name for file in damaged.parent.iterdir()] == ["history.db"]


def test_a_folder_without_results_is_named(workbench: CommandLine) -> None:
    Path(workbench.root, "empty").mkdir()

    assert "empty: there is no history.db in this folder" in refuse(workbench, "empty")
    assert "nowhere: there is no such file or folder" in refuse(workbench, "nowhere")


def test_a_report_in_place_of_a_history_is_refused(workbench: CommandLine) -> None:
    workbench("run", "--shard", "1/1", "--output", "part.json")

    result = workbench("merge", "part.json")

    assert result.status == 2
    assert "part.json: it is damaged, or no history of workbench, expected the .workbench folder" in result.error


def test_a_run_that_is_no_shard_is_refused(workbench: CommandLine) -> None:
    workbench("run", "home")
    shutil.move(workbench.root / ".workbench", workbench.root / "whole")

    assert "whole: there is no run of a shard in it" in refuse(workbench, "whole")
