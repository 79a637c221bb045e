"""The record by itself: what becomes a row, without any hooks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from workbench.agents.worker.recording import instrument
from workbench.agents.worker.recording.fingerprints import digest, of_folder, of_names
from workbench.agents.worker.recording.recorder import Recorder, quiet
from workbench.agents.worker.recording.scope import AgentFolders, is_workspace


def rows(recorder: Recorder) -> dict[tuple[str, str], str]:
    told, _ = recorder.read_rows(0)
    return {(kind, key): fingerprint for kind, key, fingerprint in [*told, *recorder.build_final_rows()]}


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(str(tmp_path))


def test_rows_are_read_once_from_each_position(tmp_path: Path, recorder: Recorder) -> None:
    (tmp_path / "a").write_text("a")
    recorder.note_read(str(tmp_path / "a"))
    first, position = recorder.read_rows(0)
    recorder.note_read(str(tmp_path / "a"))
    recorder.note_read(str(tmp_path / "b"))

    second, _ = recorder.read_rows(position)

    assert [key for _, key, _ in first] == [str(tmp_path / "a")]
    assert [key for _, key, _ in second] == [str(tmp_path / "b")]


def test_files_that_other_cases_left_do_not_count_in_listings(tmp_path: Path, recorder: Recorder) -> None:
    (tmp_path / "out-of-another.txt").touch()
    (tmp_path / "a").touch()
    recorder.add_agent_writes({str(tmp_path): ["out-of-another.txt"]}, gone={})

    recorder.note_listing(str(tmp_path))

    expected = of_folder(str(tmp_path), without={"out-of-another.txt"})
    assert rows(recorder)["folder", str(tmp_path)] == expected != of_folder(str(tmp_path))


def test_names_that_others_deleted_count_while_they_are_missing(tmp_path: Path, recorder: Recorder) -> None:
    folders = {name: str(tmp_path / name) for name in ("gone", "back", "own", "left again")}
    for folder in folders.values():
        Path(folder).mkdir()
    recorder.add_agent_writes({}, gone={folder: ["out.txt"] for folder in folders.values()})
    recorder.add_agent_writes({folders["left again"]: ["out.txt"]}, gone={})
    (tmp_path / "back/out.txt").touch()

    recorder.note_write(f"{folders['own']}/out.txt")
    for folder in folders.values():
        recorder.note_listing(folder)

    listed = {name: rows(recorder)["folder", folder] for name, folder in folders.items()}
    assert listed["back"] == listed["own"] == listed["left again"] == of_names([])
    assert listed["gone"] == of_names([], gone=["out.txt"]) != of_names([])


def test_a_save_of_the_same_length_in_the_same_second_taints(tmp_path: Path, recorder: Recorder) -> None:
    file = tmp_path / "a"
    for text in ("one", "two"):
        file.write_text(text)
        os.utime(file, (1_700_000_000, 1_700_000_000))
        recorder.note_read(str(file))

    assert recorder.tainted is not None


def test_what_is_in_the_four_folders_of_others_or_in_the_system_never_counts(tmp_path: Path) -> None:
    places = AgentFolders(str(tmp_path))

    assert places.is_inside(str(tmp_path / "a" / "b"))
    for path in (tmp_path / ".git" / "HEAD", tmp_path / "a" / "__pycache__" / "x.pyc", "/proc/self/stat", "/dev/null"):
        assert places.is_inside(str(path)) is False
    assert places.is_inside(os.__file__) is False
    assert places.is_inside("/elsewhere") is places.is_inside("/elsewhere/file") is None
    assert places.find_own_folder("/elsewhere/") == "/elsewhere"  # it is imported from
    assert places.is_inside("/elsewhere") and places.is_inside("/elsewhere/file")
    assert places.is_inside("/elsewhere/.git") is False


@pytest.mark.parametrize(("sign", "holds"), [(".git", "HEAD"), ("workbench.toml", None)])
def test_the_agent_is_at_home_in_its_repository_or_project(tmp_path: Path, sign: str, holds: str | None) -> None:
    home = tmp_path / "agents" / "one"
    home.mkdir(parents=True)
    if holds is None:
        (tmp_path / sign).touch()
    else:
        (tmp_path / sign).mkdir()

    places = AgentFolders(str(home))

    assert places.is_inside(str(tmp_path / "prompts" / "a.txt")) is True
    assert places.is_inside(str(tmp_path / "pyproject.toml")) is True
    assert places.is_inside(str(home / ".hidden" / "a.txt")) is True
    assert places.is_inside(str(tmp_path / ".cache" / "a.txt")) is None
    assert places.is_inside(str(tmp_path.parent / "a.txt")) is None
    assert places.is_inside(str(tmp_path / ".git" / "HEAD")) is False


def test_a_home_folder_with_a_repository_is_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".git").mkdir()

    assert AgentFolders(str(tmp_path / "code" / "agent")).is_inside(str(tmp_path / "code" / "notes.txt")) is None


def test_an_environment_inside_the_project_is_no_part_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.prefix", str(tmp_path / ".venv"))

    places = AgentFolders(str(tmp_path))

    assert places.is_inside(str(tmp_path / ".venv" / "bin" / "python")) is False
    assert places.is_inside(str(tmp_path / "agent.py"))
    assert not is_workspace(str(tmp_path / ".venv" / "lib" / "site-packages" / "x.py"))


def test_quiet_is_for_one_thread_and_may_be_nested() -> None:
    import threading

    seen = []
    with quiet, quiet:
        thread = threading.Thread(target=lambda: seen.append(bool(quiet)))
        thread.start()
        thread.join()
        seen.append(bool(quiet))

    assert seen == [False, True] and not quiet


def test_a_source_that_cannot_be_cut_counts_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_deep(tree: object) -> object:
        raise RecursionError

    monkeypatch.setattr(instrument, "cut", too_deep)

    made = instrument.compile_source("deep.py", b"def f(): pass\n")

    assert made.blocks is None and made.fingerprint() == digest(b"def f(): pass\n")
    assert instrument.NAME not in made.code.co_consts[0].co_names


def test_a_project_on_a_disk_that_is_mounted_below_run_is_recorded_as_any_other() -> None:
    places = AgentFolders("/run/media/somebody/disk/project")

    assert places.is_inside("/run/media/somebody/disk/project/agent.py")
    assert places.is_inside("/proc/self/maps") is False
    assert AgentFolders("/home/somebody/project").is_inside("/run/user/1000/bus") is False
