"""Recovery: the next session offers the unsaved edits of a crashed session."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from workbench.store.errors import FileChanged
from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.store.evalsets.recovery import RecoveryFolder

CRASH = """
import os, sys
from pathlib import Path
from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.store.evalsets.recovery import RecoveryFolder
path = Path(sys.argv[1])
document = EvalSetDocument.open(path)
document.set_value(("name",), "unsaved")
RecoveryFolder(path.parent).write(document)
os._exit(9)
"""


@pytest.fixture
def crashed_file(copy_eval_set: Callable[[str], Path]) -> Path:
    path = copy_eval_set("comments.evalset.json")
    assert subprocess.run([sys.executable, "-c", CRASH, str(path)], check=False).returncode == 9
    return path


def test_unsaved_edits_of_a_crashed_session_can_be_recovered_and_undone(crashed_file: Path) -> None:
    old = crashed_file.read_bytes()
    folder = RecoveryFolder(crashed_file.parent)

    (recovery,) = folder.list_recoveries()
    document = folder.load(recovery)

    assert recovery.document == crashed_file
    assert document.name == "unsaved" and document.is_dirty
    document.undo()
    assert document.content() == old
    document.redo()
    document.save()
    folder.discard(recovery)
    assert b"unsaved" in crashed_file.read_bytes()
    assert folder.list_recoveries() == []


def test_recovered_edits_do_not_overwrite_later_changes(crashed_file: Path) -> None:
    crashed_file.write_bytes(crashed_file.read_bytes().replace(b"kettle", b"teapot"))
    folder = RecoveryFolder(crashed_file.parent)

    document = folder.load(folder.list_recoveries()[0])

    with pytest.raises(FileChanged):
        document.save()


@pytest.mark.parametrize("fate", ["gone", "broken"])
def test_edits_are_recovered_even_if_the_file_is_missing_or_broken(crashed_file: Path, fate: str) -> None:
    crashed_file.unlink() if fate == "gone" else crashed_file.write_text("{")
    folder = RecoveryFolder(crashed_file.parent)

    document = folder.load(folder.list_recoveries()[0])

    assert document.name == "unsaved" and document.is_dirty
    with pytest.raises(FileChanged):
        document.save()
    document.save(overwrite=True)
    assert b"unsaved" in crashed_file.read_bytes()


def test_a_running_session_removes_its_recovery_file_after_saving(copy_eval_set: Callable[[str], Path]) -> None:
    path = copy_eval_set("kettle.evalset.json")
    document = EvalSetDocument.open(path)
    folder = RecoveryFolder(path.parent)
    document.set_value(("name",), "unsaved")

    folder.write(document)

    recovery = path.parent / ".workbench" / "recovery"
    assert len(list(recovery.iterdir())) == 1
    assert folder.list_recoveries() == []
    assert (path.parent / ".workbench" / ".gitignore").read_text() == "*\n"
    document.save()
    folder.write(document)
    assert list(recovery.iterdir()) == []


def test_invalid_recovery_files_are_ignored(tmp_path: Path) -> None:
    folder = tmp_path / ".workbench" / "recovery"
    folder.mkdir(parents=True)
    (folder / "x.recovery").write_bytes(b"\x00\xff")
    (folder / "y.recovery").write_text('{"version": 99}\n')

    assert RecoveryFolder(tmp_path).list_recoveries() == []
    assert RecoveryFolder(tmp_path / "none").list_recoveries() == []
