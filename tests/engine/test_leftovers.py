"""What agents have left in files and folders, and what of it is still as they left it."""

from __future__ import annotations

from pathlib import Path

from workbench.agents.host import LeftByAgents
from workbench.agents.worker.recording.fingerprints import ABSENT
from workbench.engine.leftovers import LeftFiles, Leftovers, Names
from workbench.store.history import LeftFile


def test_the_states_of_a_file_by_when_an_agent_left_it_so() -> None:
    files = LeftFiles()
    files.add([LeftFile("/p/log", "one", 10.0), LeftFile("/p/log", "two", 20.0), LeftFile("/p/out", "x", 5.0)])
    files.add([LeftFile("/p/log", "one", 30.0), LeftFile("/p/log", "two", 15.0), LeftFile("/p/out", ABSENT, 6.0)])

    assert set(files.since("/p/log", 20.0)) == {"one", "two"}
    assert set(files.since("/p/log", 20.1)) == {"one"}
    assert files.newest("/p/log") == "one"
    assert not files.since("/p/other", 0.0)
    assert files.newest("/p/other") is None
    assert files.are_there() == {"/p/log": True, "/p/out": False}


def test_a_name_is_the_agents_as_long_as_it_is_as_they_left_it(tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    (tmp_path / "put there").touch()
    was_there = {"kept": True, "deleted": True, "put there": False, "removed": False}

    leftovers = Leftovers({f"{tmp_path}/{name}": there for name, there in was_there.items()})

    assert leftovers.names(str(tmp_path)) == Names(frozenset({"kept", "removed"}), frozenset({"deleted"}))
    assert leftovers.written(str(tmp_path)) == was_there.keys()
    assert leftovers.names("/elsewhere") == Names()


def test_workers_are_told_of_no_more_than_so_many_names_and_first_of_those_that_matter(tmp_path: Path) -> None:
    for folder in ("a", "b", "c"):
        (tmp_path / folder).mkdir()
        for number in range(3):
            (tmp_path / folder / str(number)).touch()
    paths = [f"{tmp_path}/{folder}/{number}" for folder in "abc" for number in range(3)]
    leftovers = Leftovers({**dict.fromkeys(paths, True), f"{tmp_path}/b/deleted": True})
    folders = {name: str(tmp_path / name) for name in "abc"}

    told = leftovers.told({folders["b"]}, most=6)

    assert told == LeftByAgents({folders["b"]: ("0", "1", "2"), folders["a"]: ("0", "1")}, {folders["b"]: ("deleted",)})
    assert leftovers.told((), most=0) == LeftByAgents()
