"""The recorder alone, without hooks: which accesses become rows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from workbench.agents.worker.recording import instrument
from workbench.agents.worker.recording.fingerprints import digest, of_folder, of_names
from workbench.agents.worker.recording.recorder import Recorder, quiet
from workbench.agents.worker.recording.scope import AgentFolders, is_workspace


def collect_rows(recorder: Recorder) -> dict[tuple[str, str], str]:
    early_rows, _ = recorder.read_rows(0)
    return {(kind, key): fingerprint for kind, key, fingerprint in [*early_rows, *recorder.build_final_rows()]}


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(str(tmp_path), home=str(tmp_path))


def test_rows_are_read_once_from_each_position(tmp_path: Path, recorder: Recorder) -> None:
    (tmp_path / "a").write_text("a")
    recorder.note_read(str(tmp_path / "a"))
    first, position = recorder.read_rows(0)
    recorder.note_read(str(tmp_path / "a"))
    recorder.note_read(str(tmp_path / "b"))

    second, _ = recorder.read_rows(position)

    assert [key for _, key, _ in first] == [str(tmp_path / "a")]
    assert [key for _, key, _ in second] == [str(tmp_path / "b")]


def test_files_left_by_other_cases_do_not_count_in_listings(tmp_path: Path, recorder: Recorder) -> None:
    (tmp_path / "out-of-another.txt").touch()
    (tmp_path / "a").touch()
    recorder.add_agent_writes({str(tmp_path): ["out-of-another.txt"]}, gone={})

    recorder.note_listing(str(tmp_path))

    expected = of_folder(str(tmp_path), without={"out-of-another.txt"})
    assert collect_rows(recorder)["folder", str(tmp_path)] == expected != of_folder(str(tmp_path))


def test_names_deleted_by_other_cases_count_while_they_are_missing(tmp_path: Path, recorder: Recorder) -> None:
    folders = {name: str(tmp_path / name) for name in ("gone", "back", "own", "left again")}
    for folder in folders.values():
        Path(folder).mkdir()
    recorder.add_agent_writes({}, gone={folder: ["out.txt"] for folder in folders.values()})
    recorder.add_agent_writes({folders["left again"]: ["out.txt"]}, gone={})
    (tmp_path / "back/out.txt").touch()

    recorder.note_write(f"{folders['own']}/out.txt")
    for folder in folders.values():
        recorder.note_listing(folder)

    listings = {name: collect_rows(recorder)["folder", folder] for name, folder in folders.items()}
    assert listings["back"] == listings["own"] == listings["left again"] == of_names([])
    assert listings["gone"] == of_names([], gone=["out.txt"]) != of_names([])


def test_a_save_of_the_same_length_in_the_same_second_taints_the_record(tmp_path: Path, recorder: Recorder) -> None:
    file = tmp_path / "a"
    for text in ("one", "two"):
        file.write_text(text)
        os.utime(file, (1_700_000_000, 1_700_000_000))
        recorder.note_read(str(file))

    assert recorder.tainted is not None


def test_folders_of_other_tools_and_of_the_system_never_count(tmp_path: Path) -> None:
    folders = AgentFolders(str(tmp_path))

    assert folders.is_inside(str(tmp_path / "a" / "b"))
    for path in (tmp_path / ".git" / "HEAD", tmp_path / "a" / "__pycache__" / "x.pyc", "/proc/self/stat", "/dev/null"):
        assert folders.is_inside(str(path)) is False
    assert folders.is_inside(os.__file__) is False
    assert folders.is_inside("/elsewhere") is folders.is_inside("/elsewhere/file") is None
    assert folders.find_own_folder("/elsewhere/") == "/elsewhere"  # an import from it makes it the agent's own
    assert folders.is_inside("/elsewhere") and folders.is_inside("/elsewhere/file")
    assert folders.is_inside("/elsewhere/.git") is False


@pytest.mark.parametrize(("sign", "holds"), [(".git", "HEAD"), ("workbench.toml", None)])
def test_the_agents_own_folders_include_its_repository_or_project(tmp_path: Path, sign: str, holds: str | None) -> None:
    home = tmp_path / "agents" / "one"
    home.mkdir(parents=True)
    if holds is None:
        (tmp_path / sign).touch()
    else:
        (tmp_path / sign).mkdir()

    folders = AgentFolders(str(home))

    assert folders.is_inside(str(tmp_path / "prompts" / "a.txt")) is True
    assert folders.is_inside(str(tmp_path / "pyproject.toml")) is True
    assert folders.is_inside(str(home / ".hidden" / "a.txt")) is True
    assert folders.is_inside(str(tmp_path / ".cache" / "a.txt")) is None
    assert folders.is_inside(str(tmp_path.parent / "a.txt")) is None
    assert folders.is_inside(str(tmp_path / ".git" / "HEAD")) is False


def test_a_repository_in_the_home_folder_does_not_count_as_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".git").mkdir()

    assert AgentFolders(str(tmp_path / "code" / "agent")).is_inside(str(tmp_path / "code" / "notes.txt")) is None


def test_a_virtual_environment_inside_the_project_is_not_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.prefix", str(tmp_path / ".venv"))

    folders = AgentFolders(str(tmp_path))

    assert folders.is_inside(str(tmp_path / ".venv" / "bin" / "python")) is False
    assert folders.is_inside(str(tmp_path / "agent.py"))
    assert not is_workspace(str(tmp_path / ".venv" / "lib" / "site-packages" / "x.py"))


def test_quiet_applies_to_one_thread_and_can_be_nested() -> None:
    import threading

    seen = []
    with quiet, quiet:
        thread = threading.Thread(target=lambda: seen.append(bool(quiet)))
        thread.start()
        thread.join()
        seen.append(bool(quiet))

    assert seen == [False, True] and not quiet


def test_source_that_cannot_be_split_into_blocks_counts_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_deep(tree: object, **_: object) -> object:
        raise RecursionError

    monkeypatch.setattr(instrument, "cut", too_deep)

    module = instrument.compile_source("deep.py", b"def f(): pass\n")

    assert module.blocks is None and module.fingerprint() == digest(b"def f(): pass\n")
    assert instrument.NAME not in module.code.co_consts[0].co_names


def test_a_project_on_a_disk_mounted_below_run_is_recorded_as_usual() -> None:
    folders = AgentFolders("/run/media/somebody/disk/project")

    assert folders.is_inside("/run/media/somebody/disk/project/agent.py")
    assert folders.is_inside("/proc/self/maps") is False
    assert AgentFolders("/home/somebody/project").is_inside("/run/user/1000/bus") is False
