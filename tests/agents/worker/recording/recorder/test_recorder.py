"""The recorder alone, without hooks: which accesses become rows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from workbench.agents.worker.recording import instrument
from workbench.agents.worker.recording.fingerprints import digest, of_folder, of_names
from workbench.agents.worker.recording.recorder import Recorder, quiet


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

    assert [key for kind, key, _ in first if kind != "libraries"] == [str(tmp_path / "a")]
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
