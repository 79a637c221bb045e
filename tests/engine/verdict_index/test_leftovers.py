"""Files and folders written by agents, and whether they are still as the agents left them."""

from __future__ import annotations

from pathlib import Path

from workbench.agents.agent_host import LeftByAgents
from workbench.agents.worker.recording.fingerprints import ABSENT
from workbench.engine.verdict_index import AgentFileNames, AgentWrittenFiles, LeftFiles
from workbench.store.history.history_queries import AgentWrittenFile


def make_file(
    state: str, reported_at: float, *, found: str | None = None, seconds: float = 1.0, path: str = "/p/log"
) -> AgentWrittenFile:
    return AgentWrittenFile(path, state, reported_at, reported_at - seconds, found)


def test_the_newest_state_of_a_file_written_by_agents_is_known() -> None:
    files = LeftFiles()
    files.add([make_file("one", 10.0), make_file("two", 20.0), make_file("x", 5.0, path="/p/out")])
    files.add([make_file("one", 30.0), make_file("two", 15.0), make_file(ABSENT, 6.0, path="/p/out")])

    assert files.newest("/p/log") == "one"
    assert files.newest("/p/other") is None
    assert files.list_presence() == {"/p/log": True, "/p/out": False}


def test_consecutive_writes_of_agents_are_agent_changes() -> None:
    files = LeftFiles()
    files.add([make_file("1", 10.0, found="0"), make_file("2", 20.0, found="1"), make_file("3", 30.0, found="2")])

    assert files.is_agent_change("/p/log", left="1", now="3", since=9.0)
    assert files.is_agent_change("/p/log", left="1", now="2", since=9.0)
    assert not files.is_agent_change("/p/log", left="3", now="2", since=29.0)  # an older state was restored
    assert not files.is_agent_change("/p/log", left="1", now="9", since=9.0)
    assert not files.is_agent_change("/p/other", left="1", now="1", since=0.0)


def test_writes_of_agents_after_a_manual_edit_are_not_agent_changes() -> None:
    files = LeftFiles()
    files.add(
        [
            make_file("1", 10.0, found="0"),
            make_file("by hand, 1", 20.0, found="by hand"),
            make_file("2", 30.0, found="by hand, 1"),
        ]
    )

    assert not files.is_agent_change("/p/log", left="1", now="by hand, 1", since=9.0)
    assert not files.is_agent_change("/p/log", left="1", now="2", since=9.0)
    assert files.is_agent_change("/p/log", left="by hand, 1", now="2", since=19.0)


def test_a_write_of_an_agent_without_a_read_is_an_agent_change() -> None:
    files = LeftFiles()
    files.add([make_file("1", 10.0, found="0"), make_file("anew", 20.0)])

    assert files.is_agent_change("/p/log", left="1", now="anew", since=9.0)
    assert not files.is_agent_change("/p/log", left="1", now="anew", since=21.0)


def test_writes_of_agents_that_run_at_the_same_time_are_agent_changes() -> None:
    files = LeftFiles()
    files.add(
        [make_file("1", 10.0, found="0"), make_file("2", 10.5, found="half of 1"), make_file("3", 20.0, found="2")]
    )

    assert files.is_agent_change("/p/log", left="1", now="2", since=9.0)
    assert files.is_agent_change("/p/log", left="1", now="3", since=9.0)
    assert not files.is_agent_change("/p/log", left="3", now="2", since=19.0)


def test_a_name_belongs_to_the_agents_while_it_is_as_they_left_it(tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    (tmp_path / "put there").touch()
    presence = {"kept": True, "deleted": True, "put there": False, "removed": False}

    leftovers = AgentWrittenFiles({f"{tmp_path}/{name}": is_present for name, is_present in presence.items()})

    assert leftovers.names(str(tmp_path)) == AgentFileNames(frozenset({"kept", "removed"}), frozenset({"deleted"}))
    assert leftovers.list_written(str(tmp_path)) == presence.keys()
    assert leftovers.names("/elsewhere") == AgentFileNames()


def test_the_summary_for_workers_is_limited_and_starts_with_relevant_folders(tmp_path: Path) -> None:
    for folder in ("a", "b", "c"):
        (tmp_path / folder).mkdir()
        for number in range(3):
            (tmp_path / folder / str(number)).touch()
    paths = [f"{tmp_path}/{folder}/{number}" for folder in "abc" for number in range(3)]
    leftovers = AgentWrittenFiles({**dict.fromkeys(paths, True), f"{tmp_path}/b/deleted": True})
    folders = {name: str(tmp_path / name) for name in "abc"}

    summary = leftovers.summarise({folders["b"]}, most=6)

    assert summary == LeftByAgents(
        {folders["b"]: ("0", "1", "2"), folders["a"]: ("0", "1")}, {folders["b"]: ("deleted",)}
    )
    assert leftovers.summarise((), most=0) == LeftByAgents()
