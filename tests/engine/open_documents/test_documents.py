"""Open documents: no edit is lost, whatever becomes of the session."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.open_documents.files import LIGHTS, dirty, prompt, rename, write
from workbench.engine.open_documents import OpenDocuments
from workbench.store.errors import FileChanged, StoreError
from workbench.store.evalsets.evalset_document import EvalSetDocument

# Edits.


def test_an_edit_is_unsaved_one_step_and_gives_what_the_change_gives(documents: OpenDocuments, path: Path) -> None:
    old = path.read_bytes()

    def change(document: EvalSetDocument) -> int:
        document.set_value(("name",), "one")
        document.set_value(("description",), "two")
        return 7

    assert documents.edit(LIGHTS, change, label="name it") == 7

    standing = documents.get_status(LIGHTS)
    assert standing.dirty and standing.undoable == "name it" and documents.dirty() == (LIGHTS,)
    assert path.read_bytes() == old
    assert documents.undo(LIGHTS) == "name it"
    assert documents.document(LIGHTS).content() == old and not documents.get_status(LIGHTS).dirty
    assert documents.redo(LIGHTS) == "name it"
    documents.save(LIGHTS)
    assert b'"one"' in path.read_bytes() and documents.dirty() == ()


def test_of_a_change_that_fails_nothing_remains(documents: OpenDocuments) -> None:
    def change(document: EvalSetDocument) -> None:
        document.set_value(("name",), "half")
        document.remove_case(99)

    with pytest.raises(StoreError):
        documents.edit(LIGHTS, change, label="fail")

    assert documents.document(LIGHTS).name == "lights"
    assert not documents.get_status(LIGHTS).dirty and documents.undo(LIGHTS) is None


def test_the_document_with_its_undo_log_stays_open_over_saves(documents: OpenDocuments, path: Path) -> None:
    first = path.read_bytes()
    dirty(documents, "one")
    documents.save(LIGHTS)
    dirty(documents, "two")
    documents.save(LIGHTS)

    documents.undo(LIGHTS)
    documents.undo(LIGHTS)
    documents.save(LIGHTS)

    assert path.read_bytes() == first


def test_what_was_saved_at_once_is_saved_again_when_it_is_undone_and_redone(
    documents: OpenDocuments, path: Path
) -> None:
    first = path.read_bytes()
    documents.edit_and_save(LIGHTS, rename("at once"), label="accept")
    second = path.read_bytes()
    assert b"at once" in second

    documents.undo(LIGHTS)
    assert path.read_bytes() == first and not documents.get_status(LIGHTS).dirty
    documents.redo(LIGHTS)
    assert path.read_bytes() == second and not documents.get_status(LIGHTS).dirty


def test_undoing_an_edit_of_the_editor_saves_nothing(documents: OpenDocuments, path: Path) -> None:
    documents.edit_and_save(LIGHTS, rename("at once"), label="accept")
    saved = path.read_bytes()
    dirty(documents, "typed")

    documents.undo(LIGHTS)
    assert path.read_bytes() == saved and not documents.get_status(LIGHTS).dirty
    dirty(documents, "typed again")
    documents.save(LIGHTS)
    documents.undo(LIGHTS)
    assert b"typed again" in path.read_bytes() and documents.get_status(LIGHTS).dirty


def test_the_cases_with_unsaved_edits_are_known(documents: OpenDocuments) -> None:
    documents.edit(LIGHTS, prompt("good night", index=1), label="edit")
    assert documents.get_status(LIGHTS).changed_cases == {"off"}

    documents.edit(LIGHTS, lambda document: document.duplicate_case(0, eval_id="on_2"), label="copy")
    documents.edit(LIGHTS, lambda document: document.move_case(0, 2), label="move")
    assert documents.get_status(LIGHTS).changed_cases == {"off", "on_2"}

    documents.edit(LIGHTS, prompt("hello", index=1), label="as it was")
    assert documents.get_status(LIGHTS).changed_cases == {"on_2"}
    documents.save(LIGHTS)
    assert documents.get_status(LIGHTS).changed_cases == frozenset()


def test_the_revision_tells_contents_apart(documents: OpenDocuments, path: Path) -> None:
    first = documents.get_status(LIGHTS).revision
    assert documents.get_status(LIGHTS).revision == first
    dirty(documents)
    second = documents.get_status(LIGHTS).revision
    write(path.parent.parent, LIGHTS, "other")
    documents.reload(LIGHTS)

    assert len({first, second, documents.get_status(LIGHTS).revision}) == 3


# Recovery.

CRASH = """
import os, sys
from pathlib import Path
from workbench.engine.open_documents import OpenDocuments
documents = OpenDocuments(Path(sys.argv[1]))
documents.edit("sets/lights.evalset.json", lambda document: document.set_value(("name",), "recovered"), label="x")
documents.edit("sets/lights.evalset.json", lambda document: document.remove_case(0), label="x")
documents.write_recovery_files()
os._exit(9)
"""


def crash(root: Path) -> None:
    assert subprocess.run([sys.executable, "-c", CRASH, str(root)], check=False).returncode == 9


def recovery_files(root: Path) -> list[Path]:
    return list((root / ".workbench" / "recovery").glob("*"))


def test_recovery_files_follow_the_unsaved_edits(documents: OpenDocuments, tmp_path: Path) -> None:
    dirty(documents)
    documents.write_recovery_files()
    (file,) = recovery_files(tmp_path)
    assert b"ours" in file.read_bytes()
    dirty(documents, "newer")
    documents.write_recovery_files()
    assert b"newer" in file.read_bytes()

    documents.undo(LIGHTS)
    documents.undo(LIGHTS)
    documents.write_recovery_files()
    assert recovery_files(tmp_path) == []
    documents.redo(LIGHTS)
    documents.write_recovery_files()
    documents.save(LIGHTS)
    assert recovery_files(tmp_path) == []


def test_edits_of_a_crashed_session_are_found_and_restored_as_one_step(documents: OpenDocuments, path: Path) -> None:
    crash(path.parent.parent)
    (found,) = documents.find_recoveries()
    assert found.eval_set == LIGHTS and found.differences is not None
    assert [(item.eval_id, item.how) for item in found.differences] == [("on", "only in theirs")]

    assert documents.restore(found.recovery) == LIGHTS

    assert documents.document(LIGHTS).name == "recovered" and documents.get_status(LIGHTS).dirty
    assert documents.find_recoveries() == [] and len(recovery_files(path.parent.parent)) == 1
    documents.undo(LIGHTS)
    assert documents.document(LIGHTS).name == "lights"
    documents.redo(LIGHTS)
    documents.save(LIGHTS)
    assert b"recovered" in path.read_bytes() and recovery_files(path.parent.parent) == []


def test_restoring_over_unsaved_edits_keeps_them_in_the_undo_log(documents: OpenDocuments, path: Path) -> None:
    crash(path.parent.parent)
    dirty(documents)
    (found,) = documents.find_recoveries()

    documents.restore(found.recovery)

    assert documents.document(LIGHTS).name == "recovered"
    documents.undo(LIGHTS)
    assert documents.document(LIGHTS).name == "ours"


def test_recovered_edits_of_a_file_that_changed_since_stand_in_conflict(documents: OpenDocuments, path: Path) -> None:
    crash(path.parent.parent)
    documents.document(LIGHTS)
    write(path.parent.parent, LIGHTS, "on", "off", "theirs")
    (found,) = documents.find_recoveries()

    documents.restore(found.recovery)

    assert documents.get_status(LIGHTS).changed_on_disk
    with pytest.raises(FileChanged):
        documents.save(LIGHTS)


def test_recovered_edits_of_a_file_that_is_gone_can_be_saved(documents: OpenDocuments, path: Path) -> None:
    crash(path.parent.parent)
    path.unlink()
    (found,) = documents.find_recoveries()
    assert found.differences is None

    documents.restore(found.recovery)

    assert documents.get_status(LIGHTS).changed_on_disk
    documents.save(LIGHTS, overwrite=True)
    assert b"recovered" in path.read_bytes()


def test_found_edits_can_be_thrown_away(documents: OpenDocuments, path: Path) -> None:
    crash(path.parent.parent)
    documents.discard(documents.find_recoveries()[0].recovery)
    assert documents.find_recoveries() == [] and recovery_files(path.parent.parent) == []
    assert documents.document(LIGHTS).name == "lights"
