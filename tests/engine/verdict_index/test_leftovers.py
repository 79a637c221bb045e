"""What agents have left in files and folders, and what of it is still as they left it."""

from __future__ import annotations

from pathlib import Path

from workbench.agents.agent_host import LeftByAgents
from workbench.agents.worker.recording.fingerprints import ABSENT
from workbench.engine.verdict_index import AgentWrittenFiles, LeftFiles, Names
from workbench.store.history.history_queries import AgentWrittenFile


def left(
    state: str, told_at: float, *, found: str | None = None, seconds: float = 1.0, path: str = "/p/log"
) -> AgentWrittenFile:
    return AgentWrittenFile(path, state, told_at, told_at - seconds, found)


def test_the_state_in_which_an_agent_left_a_file_last() -> None:
    files = LeftFiles()
    files.add([left("one", 10.0), left("two", 20.0), left("x", 5.0, path="/p/out")])
    files.add([left("one", 30.0), left("two", 15.0), left(ABSENT, 6.0, path="/p/out")])

    assert files.newest("/p/log") == "one"
    assert files.newest("/p/other") is None
    assert files.list_presence() == {"/p/log": True, "/p/out": False}


def test_what_agents_make_of_a_file_one_after_the_other_goes_on() -> None:
    files = LeftFiles()
    files.add([left("1", 10.0, found="0"), left("2", 20.0, found="1"), left("3", 30.0, found="2")])

    assert files.is_agent_change("/p/log", left="1", now="3", since=9.0)
    assert files.is_agent_change("/p/log", left="1", now="2", since=9.0)
    assert not files.is_agent_change("/p/log", left="3", now="2", since=29.0)  # somebody has brought it back
    assert not files.is_agent_change("/p/log", left="1", now="9", since=9.0)
    assert not files.is_agent_change("/p/other", left="1", now="1", since=0.0)


def test_what_agents_make_of_what_somebody_else_put_there_does_not() -> None:
    files = LeftFiles()
    files.add(
        [left("1", 10.0, found="0"), left("by hand, 1", 20.0, found="by hand"), left("2", 30.0, found="by hand, 1")]
    )

    assert not files.is_agent_change("/p/log", left="1", now="by hand, 1", since=9.0)
    assert not files.is_agent_change("/p/log", left="1", now="2", since=9.0)
    assert files.is_agent_change("/p/log", left="by hand, 1", now="2", since=19.0)


def test_what_an_agent_writes_without_reading_is_nobody_elses() -> None:
    files = LeftFiles()
    files.add([left("1", 10.0, found="0"), left("anew", 20.0)])

    assert files.is_agent_change("/p/log", left="1", now="anew", since=9.0)
    assert not files.is_agent_change("/p/log", left="1", now="anew", since=21.0)


def test_agents_that_run_at_the_same_time_find_what_the_others_are_at() -> None:
    files = LeftFiles()
    files.add([left("1", 10.0, found="0"), left("2", 10.5, found="half of 1"), left("3", 20.0, found="2")])

    assert files.is_agent_change("/p/log", left="1", now="2", since=9.0)
    assert files.is_agent_change("/p/log", left="1", now="3", since=9.0)
    assert not files.is_agent_change("/p/log", left="3", now="2", since=19.0)


def test_a_name_is_the_agents_as_long_as_it_is_as_they_left_it(tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    (tmp_path / "put there").touch()
    was_there = {"kept": True, "deleted": True, "put there": False, "removed": False}

    leftovers = AgentWrittenFiles({f"{tmp_path}/{name}": there for name, there in was_there.items()})

    assert leftovers.names(str(tmp_path)) == Names(frozenset({"kept", "removed"}), frozenset({"deleted"}))
    assert leftovers.list_written(str(tmp_path)) == was_there.keys()
    assert leftovers.names("/elsewhere") == Names()


def test_workers_are_told_of_no_more_than_so_many_names_and_first_of_those_that_matter(tmp_path: Path) -> None:
    for folder in ("a", "b", "c"):
        (tmp_path / folder).mkdir()
        for number in range(3):
            (tmp_path / folder / str(number)).touch()
    paths = [f"{tmp_path}/{folder}/{number}" for folder in "abc" for number in range(3)]
    leftovers = AgentWrittenFiles({**dict.fromkeys(paths, True), f"{tmp_path}/b/deleted": True})
    folders = {name: str(tmp_path / name) for name in "abc"}

    told = leftovers.summarise({folders["b"]}, most=6)

    assert told == LeftByAgents({folders["b"]: ("0", "1", "2"), folders["a"]: ("0", "1")}, {folders["b"]: ("deleted",)})
    assert leftovers.summarise((), most=0) == LeftByAgents()
