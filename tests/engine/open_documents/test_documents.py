"""Open documents: edits, undo, and recovery after a crash."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.open_documents.files import LIGHTS, make_prompt_edit, make_rename, make_unsaved_edit, write_set
from workbench.engine.open_documents import OpenDocuments
from workbench.store.errors import FileChanged, StoreError
from workbench.store.evalsets.evalset_document import EvalSetDocument

# Edits.


def test_an_edit_is_one_unsaved_step_and_returns_the_result_of_its_change(documents: OpenDocuments, path: Path) -> None:
    old = path.read_bytes()

    def change(document: EvalSetDocument) -> int:
        document.set_value(("name",), "one")
        document.set_value(("description",), "two")
        return 7

    assert documents.edit(LIGHTS, change, label="name it") == 7

    status = documents.get_status(LIGHTS)
    assert status.dirty and status.undoable == "name it" and documents.dirty() == (LIGHTS,)
    assert path.read_bytes() == old
    assert documents.undo(LIGHTS) == "name it"
    assert documents.document(LIGHTS).content() == old and not documents.get_status(LIGHTS).dirty
    assert documents.redo(LIGHTS) == "name it"
    documents.save(LIGHTS)
    assert b'"one"' in path.read_bytes() and documents.dirty() == ()


def test_a_failing_change_leaves_the_document_unchanged(documents: OpenDocuments) -> None:
    def change(document: EvalSetDocument) -> None:
        document.set_value(("name",), "half")
        document.remove_case(99)

    with pytest.raises(StoreError):
        documents.edit(LIGHTS, change, label="fail")

    assert documents.document(LIGHTS).name == "lights"
    assert not documents.get_status(LIGHTS).dirty and documents.undo(LIGHTS) is None


def test_a_document_keeps_its_undo_log_after_saves(documents: OpenDocuments, path: Path) -> None:
    first = path.read_bytes()
    make_unsaved_edit(documents, "one")
    documents.save(LIGHTS)
    make_unsaved_edit(documents, "two")
    documents.save(LIGHTS)

    documents.undo(LIGHTS)
    documents.undo(LIGHTS)
    documents.save(LIGHTS)

    assert path.read_bytes() == first


def test_undo_and_redo_of_an_immediately_saved_edit_are_saved_too(documents: OpenDocuments, path: Path) -> None:
    first = path.read_bytes()
    documents.edit_and_save(LIGHTS, make_rename("at once"), label="accept")
    second = path.read_bytes()
    assert b"at once" in second

    documents.undo(LIGHTS)
    assert path.read_bytes() == first and not documents.get_status(LIGHTS).dirty
    documents.redo(LIGHTS)
    assert path.read_bytes() == second and not documents.get_status(LIGHTS).dirty


def test_undoing_an_edit_of_the_editor_does_not_save(documents: OpenDocuments, path: Path) -> None:
    documents.edit_and_save(LIGHTS, make_rename("at once"), label="accept")
    saved_content = path.read_bytes()
    make_unsaved_edit(documents, "typed")

    documents.undo(LIGHTS)
    assert path.read_bytes() == saved_content and not documents.get_status(LIGHTS).dirty
    make_unsaved_edit(documents, "typed again")
    documents.save(LIGHTS)
    documents.undo(LIGHTS)
    assert b"typed again" in path.read_bytes() and documents.get_status(LIGHTS).dirty


def test_the_cases_with_unsaved_edits_are_known(documents: OpenDocuments) -> None:
    documents.edit(LIGHTS, make_prompt_edit("good night", index=1), label="edit")
    assert documents.get_status(LIGHTS).changed_cases == {"off"}

    documents.edit(LIGHTS, lambda document: document.duplicate_case(0, eval_id="on_2"), label="copy")
    documents.edit(LIGHTS, lambda document: document.move_case(0, 2), label="move")
    assert documents.get_status(LIGHTS).changed_cases == {"off", "on_2"}

    documents.edit(LIGHTS, make_prompt_edit("hello", index=1), label="as it was")
    assert documents.get_status(LIGHTS).changed_cases == {"on_2"}
    documents.save(LIGHTS)
    assert documents.get_status(LIGHTS).changed_cases == frozenset()


def test_the_revision_differs_for_different_contents(documents: OpenDocuments, path: Path) -> None:
    first = documents.get_status(LIGHTS).revision
    assert documents.get_status(LIGHTS).revision == first
    make_unsaved_edit(documents)
    second = documents.get_status(LIGHTS).revision
    write_set(path.parent.parent, LIGHTS, "other")
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


def list_recovery_files(root: Path) -> list[Path]:
    return list((root / ".workbench" / "recovery").glob("*"))


def test_recovery_files_follow_the_unsaved_edits(documents: OpenDocuments, tmp_path: Path) -> None:
    make_unsaved_edit(documents)
    documents.write_recovery_files()
    (file,) = list_recovery_files(tmp_path)
    assert b"ours" in file.read_bytes()
    make_unsaved_edit(documents, "newer")
    documents.write_recovery_files()
    assert b"newer" in file.read_bytes()

    documents.undo(LIGHTS)
    documents.undo(LIGHTS)
    documents.write_recovery_files()
    assert list_recovery_files(tmp_path) == []
    documents.redo(LIGHTS)
    documents.write_recovery_files()
    documents.save(LIGHTS)
    assert list_recovery_files(tmp_path) == []


def test_edits_of_a_crashed_session_are_found_and_restored_as_one_step(documents: OpenDocuments, path: Path) -> None:
    crash(path.parent.parent)
    (found,) = documents.find_recoveries()
    assert found.eval_set == LIGHTS and found.differences is not None
    assert [(item.eval_id, item.how) for item in found.differences] == [("on", "only in theirs")]

    assert documents.restore(found.recovery) == LIGHTS

    assert documents.document(LIGHTS).name == "recovered" and documents.get_status(LIGHTS).dirty
    assert documents.find_recoveries() == [] and len(list_recovery_files(path.parent.parent)) == 1
    documents.undo(LIGHTS)
    assert documents.document(LIGHTS).name == "lights"
    documents.redo(LIGHTS)
    documents.save(LIGHTS)
    assert b"recovered" in path.read_bytes() and list_recovery_files(path.parent.parent) == []


def test_restoring_over_unsaved_edits_keeps_them_in_the_undo_log(documents: OpenDocuments, path: Path) -> None:
    crash(path.parent.parent)
    make_unsaved_edit(documents)
    (found,) = documents.find_recoveries()

    documents.restore(found.recovery)

    assert documents.document(LIGHTS).name == "recovered"
    documents.undo(LIGHTS)
    assert documents.document(LIGHTS).name == "ours"


def test_recovered_edits_conflict_with_a_file_that_changed_since(documents: OpenDocuments, path: Path) -> None:
    crash(path.parent.parent)
    documents.document(LIGHTS)
    write_set(path.parent.parent, LIGHTS, "on", "off", "theirs")
    (found,) = documents.find_recoveries()

    documents.restore(found.recovery)

    assert documents.get_status(LIGHTS).changed_on_disk
    with pytest.raises(FileChanged):
        documents.save(LIGHTS)


def test_recovered_edits_of_a_deleted_file_can_be_saved(documents: OpenDocuments, path: Path) -> None:
    crash(path.parent.parent)
    path.unlink()
    (found,) = documents.find_recoveries()
    assert found.differences is None

    documents.restore(found.recovery)

    assert documents.get_status(LIGHTS).changed_on_disk
    documents.save(LIGHTS, overwrite=True)
    assert b"recovered" in path.read_bytes()


def test_recovered_edits_can_be_discarded(documents: OpenDocuments, path: Path) -> None:
    crash(path.parent.parent)
    documents.discard(documents.find_recoveries()[0].recovery)
    assert documents.find_recoveries() == [] and list_recovery_files(path.parent.parent) == []
    assert documents.document(LIGHTS).name == "lights"
