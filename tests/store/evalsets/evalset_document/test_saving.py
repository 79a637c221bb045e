"""Saving: the file on disk is the old one or the new one, and changes by others are never lost."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from workbench.store import files
from workbench.store.errors import FileChanged, StoreError
from workbench.store.evalsets.evalset_document import EvalSetDocument


@pytest.fixture
def edited_document(copy_eval_set: Callable[[str], Path]) -> EvalSetDocument:
    document = EvalSetDocument.open(copy_eval_set("kettle.evalset.json"))
    document.set_value(("name",), "other")
    return document


def _make_failing_function(number: int) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize(
    ("function", "number", "message"),
    [
        ("fsync", errno.ENOSPC, "cannot write it: the disk is full"),
        ("replace", errno.ENOSPC, "the disk is full"),
        ("open", errno.EROFS, "the file system is read-only"),
        ("open", errno.EACCES, "permission denied"),
        ("fsync", errno.EIO, "Input/output error"),
        ("replace", errno.EDQUOT, "the disk quota is used up"),
    ],
)
def test_a_failed_save_raises_its_reason_and_keeps_the_old_file_and_edits(
    edited_document: EvalSetDocument, monkeypatch: pytest.MonkeyPatch, function: str, number: int, message: str
) -> None:
    old = edited_document.path.read_bytes()
    monkeypatch.setattr(os, function, _make_failing_function(number))

    with pytest.raises(StoreError, match=message):
        edited_document.save()

    monkeypatch.undo()
    assert edited_document.path.read_bytes() == old
    assert list(edited_document.path.parent.iterdir()) == [edited_document.path]
    assert edited_document.is_dirty
    edited_document.save()
    assert b'"other"' in edited_document.path.read_bytes() and not edited_document.is_dirty


def test_an_interrupted_save_leaves_the_old_file(
    edited_document: EvalSetDocument, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = edited_document.path.read_bytes()

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        edited_document.save()

    assert edited_document.path.read_bytes() == old
    assert list(edited_document.path.parent.iterdir()) == [edited_document.path]


def test_a_file_changed_on_disk_is_not_overwritten_and_both_versions_are_available(
    edited_document: EvalSetDocument,
) -> None:
    theirs = edited_document.path.read_bytes().replace(b"Kettle", b"Teapot")  # the same length
    status = edited_document.path.stat()
    edited_document.path.write_bytes(theirs)
    os.utime(edited_document.path, ns=(status.st_atime_ns, status.st_mtime_ns))

    with pytest.raises(FileChanged, match="changed by another program") as caught:
        edited_document.save()

    assert edited_document.path.read_bytes() == theirs == caught.value.theirs
    assert caught.value.ours == edited_document.content()
    edited_document.save(overwrite=True)
    assert edited_document.path.read_bytes() == caught.value.ours


def test_an_own_save_does_not_count_as_a_change_on_disk(edited_document: EvalSetDocument) -> None:
    edited_document.save()

    assert edited_document.stamp is not None
    assert edited_document.stamp.signature == files.read_signature(edited_document.path)


def test_reload_takes_the_version_on_disk_and_undo_restores_ours(edited_document: EvalSetDocument) -> None:
    ours, theirs = edited_document.content(), edited_document.path.read_bytes().replace(b"Kettle", b"Teapot")
    edited_document.path.write_bytes(theirs)
    assert edited_document.has_changed_on_disk()

    edited_document.reload()

    assert (
        edited_document.name == "Teapot" and not edited_document.is_dirty and not edited_document.has_changed_on_disk()
    )
    edited_document.undo()
    assert edited_document.content() == ours and edited_document.is_dirty


def test_a_deleted_file_counts_as_changed(edited_document: EvalSetDocument) -> None:
    edited_document.path.unlink()

    assert edited_document.has_changed_on_disk()
    with pytest.raises(FileChanged, match="it was deleted since"):
        edited_document.save()


def test_saving_keeps_the_mode_and_follows_links(edited_document: EvalSetDocument, tmp_path: Path) -> None:
    edited_document.path.chmod(0o640)
    link = tmp_path / "link.evalset.json"
    link.symlink_to(edited_document.path)

    document = EvalSetDocument.open(link)
    document.set_value(("name",), "linked")
    document.save()

    assert link.is_symlink()
    assert edited_document.path.stat().st_mode & 0o777 == 0o640
    assert b"linked" in edited_document.path.read_bytes()


def test_undo_after_a_save_makes_the_document_dirty_again(edited_document: EvalSetDocument) -> None:
    edited_document.save()
    assert not edited_document.is_dirty
    edited_document.undo()
    assert edited_document.is_dirty
    edited_document.set_value(("name",), "third")
    edited_document.undo()
    assert edited_document.is_dirty  # undo can no longer reach the content on disk
