"""Open documents: no edit is lost when files change on disk, and both versions can be compared."""

from __future__ import annotations

import contextlib
import os
from datetime import date
from pathlib import Path

import pytest

from tests.engine.open_documents.files import LIGHTS, make_prompt_edit, make_unsaved_edit, write_set
from workbench.engine.open_documents import OpenDocuments
from workbench.model.evalset import Quarantine
from workbench.store.errors import FileChanged, IsDataset, StoreError
from workbench.store.evalsets.quarantine import set_quarantine
from workbench.store.files import get_sidecar_path


def test_a_change_on_disk_is_loaded_if_nothing_is_unsaved(documents: OpenDocuments, path: Path) -> None:
    documents.document(LIGHTS)
    write_set(path.parent.parent, LIGHTS, "on", "off", "dim")
    assert documents.find_changed_sets() == {LIGHTS}

    assert [entry.eval_id for entry in documents.document(LIGHTS).entries] == ["on", "off", "dim"]
    assert documents.find_changed_sets() == frozenset() and not documents.get_status(LIGHTS).dirty


def test_loading_a_change_on_disk_is_an_undo_step_after_earlier_edits(documents: OpenDocuments, path: Path) -> None:
    make_unsaved_edit(documents, "ours")
    documents.save(LIGHTS)
    theirs = path.read_bytes().replace(b"ours", b"theirs")
    path.write_bytes(theirs)

    assert documents.document(LIGHTS).name == "theirs"
    documents.undo(LIGHTS)
    assert documents.document(LIGHTS).name == "ours" and documents.get_status(LIGHTS).dirty
    documents.undo(LIGHTS)
    assert documents.document(LIGHTS).name == "lights"
    assert path.read_bytes() == theirs


def test_unsaved_edits_conflict_with_a_change_on_disk(documents: OpenDocuments, path: Path) -> None:
    make_unsaved_edit(documents)
    theirs = path.read_bytes().replace(b"lights", b"theirs")
    path.write_bytes(theirs)

    assert documents.get_status(LIGHTS).changed_on_disk
    assert documents.document(LIGHTS).name == "ours"
    with pytest.raises(FileChanged) as error:
        documents.save(LIGHTS)
    assert error.value.theirs == theirs == path.read_bytes()

    documents.save(LIGHTS, overwrite=True)
    assert b"ours" in path.read_bytes() and not documents.get_status(LIGHTS).changed_on_disk


def test_reloading_the_version_on_disk_can_be_undone(documents: OpenDocuments, path: Path) -> None:
    make_unsaved_edit(documents)
    path.write_bytes(path.read_bytes().replace(b'"name": "lights"', b'"name": "theirs"'))

    documents.reload(LIGHTS)

    assert documents.document(LIGHTS).name == "theirs" and not documents.get_status(LIGHTS).dirty
    documents.undo(LIGHTS)
    assert documents.document(LIGHTS).name == "ours" and documents.get_status(LIGHTS).dirty


def test_a_conflict_ends_if_the_edits_are_undone(documents: OpenDocuments, path: Path) -> None:
    make_unsaved_edit(documents)
    path.write_bytes(path.read_bytes().replace(b'"name": "lights"', b'"name": "theirs"'))
    assert documents.get_status(LIGHTS).changed_on_disk

    documents.undo(LIGHTS)

    assert documents.document(LIGHTS).name == "theirs"
    assert not documents.get_status(LIGHTS).changed_on_disk and not documents.get_status(LIGHTS).dirty


def test_a_conflict_ends_if_the_file_is_restored(documents: OpenDocuments, path: Path) -> None:
    old = path.read_bytes()
    make_unsaved_edit(documents)
    path.write_bytes(old + b" ")
    assert documents.get_status(LIGHTS).changed_on_disk
    path.write_bytes(old)
    assert not documents.get_status(LIGHTS).changed_on_disk


def test_a_new_modification_time_is_not_a_change(documents: OpenDocuments, path: Path) -> None:
    document = documents.document(LIGHTS)
    os.utime(path, ns=(1, 1))
    assert documents.document(LIGHTS) is document
    make_unsaved_edit(documents)
    os.utime(path, ns=(2, 2))
    assert not documents.get_status(LIGHTS).changed_on_disk


def test_edits_of_a_deleted_file_stay_and_can_be_saved(documents: OpenDocuments, path: Path) -> None:
    make_unsaved_edit(documents)
    path.unlink()
    path.parent.rmdir()

    assert documents.get_status(LIGHTS).changed_on_disk and documents.document(LIGHTS).name == "ours"
    with pytest.raises(FileChanged) as error:
        documents.save(LIGHTS)
    assert error.value.theirs is None
    documents.save(LIGHTS, overwrite=True)
    assert b"ours" in path.read_bytes()


@pytest.mark.parametrize("edited", [False, True])
def test_a_broken_file_keeps_its_last_valid_state_and_reports_the_place(
    documents: OpenDocuments, path: Path, edited: bool
) -> None:
    if edited:
        make_unsaved_edit(documents)
        documents.save(LIGHTS)
    name = documents.document(LIGHTS).name
    path.write_text('{\n  "eval_set_id": oops')

    assert documents.document(LIGHTS).name == name
    status = documents.get_status(LIGHTS)
    assert status.problem is not None and status.problem.line == 2 and not status.dirty
    with pytest.raises(StoreError):
        documents.document_on_disk(LIGHTS)

    write_set(path.parent.parent, LIGHTS, "mended")
    assert [entry.eval_id for entry in documents.document(LIGHTS).entries] == ["mended"]
    assert documents.get_status(LIGHTS).problem is None


def test_a_deletion_and_a_return_under_unsaved_edits_differ_from_a_change(documents: OpenDocuments, path: Path) -> None:
    content = path.read_bytes()
    make_unsaved_edit(documents)
    seen = []
    for now in (content + b" ", None, content):
        path.unlink() if now is None else path.write_bytes(now)
        assert documents.find_changed_sets() == {LIGHTS}
        status = documents.get_status(LIGHTS)
        seen.append((status.changed_on_disk, status.deleted_on_disk))

    assert seen == [(True, False), (True, True), (False, False)]


def test_a_deleted_file_keeps_its_last_state_and_can_be_written_again(documents: OpenDocuments, path: Path) -> None:
    content = documents.document(LIGHTS).content()
    path.unlink()

    assert documents.document(LIGHTS).content() == content
    assert documents.get_status(LIGHTS).problem.message == "it was deleted"
    documents.save(LIGHTS, overwrite=True)
    assert path.read_bytes() == content and documents.get_status(LIGHTS).problem is None


def test_a_file_that_was_never_readable_is_an_error(documents: OpenDocuments, path: Path) -> None:
    with pytest.raises(StoreError, match="no such file"):
        documents.document("sets/none.evalset.json")
    path.write_text("[")
    with pytest.raises(StoreError):
        documents.get_status(LIGHTS)


# Two versions.


def test_two_versions_are_compared_part_by_part(documents: OpenDocuments, path: Path) -> None:
    documents.edit(LIGHTS, make_prompt_edit("ours"), label="edit")
    make_unsaved_edit(documents)
    write_set(path.parent.parent, LIGHTS, "on", "dim")

    versions = documents.versions(LIGHTS)

    assert versions.differences is not None
    assert [(item.eval_id, item.how) for item in versions.differences] == [
        ("on", "changed"),
        ("off", "only in ours"),
        ("dim", "only in theirs"),
    ]
    assert [(part.title, part.ours is None, part.theirs is None) for part in versions.parts] == [
        ("the eval set itself", False, False),
        ("on", False, False),
        ("off", False, True),
        ("dim", True, False),
    ]


@pytest.mark.parametrize("theirs", [None, b"{ broken", b"\xff\xfe"])
def test_a_version_that_is_not_an_eval_set_is_shown_unchanged(
    documents: OpenDocuments, path: Path, theirs: bytes | None
) -> None:
    make_unsaved_edit(documents)
    path.unlink() if theirs is None else path.write_bytes(theirs)

    versions = documents.versions(LIGHTS)

    assert versions.theirs == theirs and versions.differences is None and versions.problem
    assert len(versions.parts) == (0 if theirs is None else 1)


@pytest.mark.parametrize("seen", ["file", "nothing"])
def test_our_version_overwrites_only_the_version_that_was_shown(
    documents: OpenDocuments, path: Path, seen: str
) -> None:
    make_unsaved_edit(documents)
    path.write_bytes(path.read_bytes() + b" ") if seen == "file" else path.unlink()
    theirs = documents.versions(LIGHTS).theirs
    path.write_text("newer")

    with pytest.raises(FileChanged):
        documents.overwrite_version(LIGHTS, theirs)
    assert path.read_text() == "newer" and documents.get_status(LIGHTS).dirty

    documents.overwrite_version(LIGHTS, documents.versions(LIGHTS).theirs)
    assert b"ours" in path.read_bytes() and not documents.get_status(LIGHTS).dirty


def test_changed_broken_deleted_and_repaired_sets_are_reported_once(documents: OpenDocuments, path: Path) -> None:
    root = path.parent.parent
    other = write_set(root, "b.evalset.json", "b")
    other.write_text("[")
    documents.document(LIGHTS)
    with pytest.raises(StoreError):
        documents.document("b.evalset.json")
    assert documents.find_changed_sets() == frozenset()

    path.write_text("{")
    assert documents.find_changed_sets() == {LIGHTS} and documents.find_changed_sets() == frozenset()
    path.unlink()
    assert documents.find_changed_sets() == {LIGHTS} and documents.find_changed_sets() == frozenset()
    write_set(root, LIGHTS, "back")
    write_set(root, "b.evalset.json", "b")
    assert documents.find_changed_sets() == {LIGHTS, "b.evalset.json"}


def test_a_change_is_reported_even_if_the_document_was_read_first(documents: OpenDocuments, path: Path) -> None:
    documents.document(LIGHTS)
    write_set(path.parent.parent, LIGHTS, "new")
    documents.document(LIGHTS)
    make_unsaved_edit(documents)

    assert documents.find_changed_sets() == {LIGHTS} and documents.find_changed_sets() == frozenset()
    make_unsaved_edit(documents, "ours, again")
    documents.save(LIGHTS)
    assert documents.find_changed_sets() == frozenset()


def test_an_error_in_the_text_of_a_case_is_reported_with_its_place(documents: OpenDocuments) -> None:
    document = documents.document(LIGHTS)
    text = document.case_text(0)

    assert document.find_fault_in_text(text) is None
    assert (document.find_fault_in_text('\n{"eval_id": "a",\n x') or "").startswith("line 3, column 2: found 'x'")
    fault = document.find_fault_in_text('{"eval_id": "a",\n "conversation": 7}') or ""
    assert fault.startswith("line 2, column 18: conversation: found 7")


def test_a_changed_dataset_is_reported_once_even_if_it_was_read_first(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"prompt": "a"}')
    documents = OpenDocuments(tmp_path)

    def read_dataset() -> None:
        with pytest.raises(IsDataset, match="is a dataset, which cannot be edited"):
            documents.document("rows.jsonl")

    read_dataset()
    path.write_text('{"prompt": "another"}')
    read_dataset()

    assert [documents.find_changed_sets(), documents.find_changed_sets()] == [frozenset({"rows.jsonl"}), frozenset()]


@pytest.mark.parametrize("name", [LIGHTS, "rows.jsonl"])
def test_a_changed_quarantine_is_reported_once(documents: OpenDocuments, path: Path, name: str) -> None:
    eval_set = path.parent.parent / name
    if name != LIGHTS:
        eval_set.write_text('{"eval_id": "a", "prompt": "a"}')
    with contextlib.suppress(IsDataset):
        documents.document(name)
    assert documents.find_changed_sets() == frozenset()

    set_quarantine(eval_set, ["a"], Quarantine(until=date.today()))
    assert [documents.find_changed_sets(), documents.find_changed_sets()] == [{name}, frozenset()]

    get_sidecar_path(eval_set).unlink()
    assert [documents.find_changed_sets(), documents.find_changed_sets()] == [{name}, frozenset()]
