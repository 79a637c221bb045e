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
from workbench.store.files import has_changed, read_bytes, write_atomic, write_new


@pytest.fixture
def edited(own: Callable[[str], Path]) -> EvalSetDocument:
    document = EvalSetDocument.open(own("kettle.evalset.json"))
    document.set_value(("name",), "other")
    return document


def _fails_with(number: int) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize(
    ("function", "number", "message"),
    [
        ("fsync", errno.ENOSPC, "cannot write it: the disk is full"),
        ("replace", errno.ENOSPC, "the disk is full"),
        ("open", errno.EROFS, "the file system is read-only"),
        ("open", errno.EACCES, "no permission to write it"),
        ("fsync", errno.EIO, "Input/output error"),
        ("replace", errno.EDQUOT, "the disk quota is used up"),
    ],
)
def test_a_failed_save_says_why_and_leaves_the_old_file_and_the_edits(
    edited: EvalSetDocument, monkeypatch: pytest.MonkeyPatch, function: str, number: int, message: str
) -> None:
    old = edited.path.read_bytes()
    monkeypatch.setattr(os, function, _fails_with(number))

    with pytest.raises(StoreError, match=message):
        edited.save()

    monkeypatch.undo()
    assert edited.path.read_bytes() == old
    assert list(edited.path.parent.iterdir()) == [edited.path]
    assert edited.is_dirty
    edited.save()
    assert b'"other"' in edited.path.read_bytes() and not edited.is_dirty


def test_an_interrupted_save_leaves_the_old_file(edited: EvalSetDocument, monkeypatch: pytest.MonkeyPatch) -> None:
    old = edited.path.read_bytes()

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        edited.save()

    assert edited.path.read_bytes() == old
    assert list(edited.path.parent.iterdir()) == [edited.path]


def test_a_file_that_changed_on_disk_is_not_overwritten_and_both_texts_are_at_hand(edited: EvalSetDocument) -> None:
    theirs = edited.path.read_bytes().replace(b"Kettle", b"Teapot")  # the same length
    status = edited.path.stat()
    edited.path.write_bytes(theirs)
    os.utime(edited.path, ns=(status.st_atime_ns, status.st_mtime_ns))

    with pytest.raises(FileChanged, match="changed by another program") as caught:
        edited.save()

    assert edited.path.read_bytes() == theirs == caught.value.theirs
    assert caught.value.ours == edited.content()
    edited.save(overwrite=True)
    assert edited.path.read_bytes() == caught.value.ours


def test_an_own_save_is_no_change_that_has_to_be_read(edited: EvalSetDocument) -> None:
    edited.save()

    assert edited.stamp is not None
    assert edited.stamp.signature == files.read_signature(edited.path)


def test_the_version_on_disk_can_be_taken_and_undo_brings_ours_back(edited: EvalSetDocument) -> None:
    ours, theirs = edited.content(), edited.path.read_bytes().replace(b"Kettle", b"Teapot")
    edited.path.write_bytes(theirs)
    assert edited.has_changed_on_disk()

    edited.reload()

    assert edited.name == "Teapot" and not edited.is_dirty and not edited.has_changed_on_disk()
    edited.undo()
    assert edited.content() == ours and edited.is_dirty


def test_a_deleted_file_is_a_changed_one(edited: EvalSetDocument) -> None:
    edited.path.unlink()

    assert edited.has_changed_on_disk()
    with pytest.raises(FileChanged, match="it was deleted since"):
        edited.save()


def test_saving_keeps_the_mode_and_follows_links(edited: EvalSetDocument, tmp_path: Path) -> None:
    edited.path.chmod(0o640)
    link = tmp_path / "link.evalset.json"
    link.symlink_to(edited.path)

    document = EvalSetDocument.open(link)
    document.set_value(("name",), "linked")
    document.save()

    assert link.is_symlink()
    assert edited.path.stat().st_mode & 0o777 == 0o640
    assert b"linked" in edited.path.read_bytes()


def test_undo_over_a_save_makes_the_document_unsaved_again(edited: EvalSetDocument) -> None:
    edited.save()
    assert not edited.is_dirty
    edited.undo()
    assert edited.is_dirty
    edited.set_value(("name",), "third")
    edited.undo()
    assert edited.is_dirty  # undo can no longer reach the content on disk


def test_touching_a_file_is_no_change(tmp_path: Path) -> None:
    path = tmp_path / "a"
    stamp = write_atomic(path, b"1")
    os.utime(path, ns=(1, 1))

    assert not has_changed(path, stamp)
    write_atomic(path, b"2", expect=stamp)
    assert has_changed(path, stamp)
    assert read_bytes(path)[0] == b"2"


def test_a_new_file_never_replaces_another(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_new(path, b"1")

    with pytest.raises(StoreError, match="it exists already"):
        write_new(path, b"2")

    assert path.read_bytes() == b"1"
    assert list(tmp_path.iterdir()) == [path]


def test_folders_and_circles_of_links_are_refused_in_words(tmp_path: Path) -> None:
    circle = tmp_path / "circle"
    circle.symlink_to(circle)

    with pytest.raises(StoreError, match="it is a folder"):
        write_atomic(tmp_path, b"")
    with pytest.raises(StoreError, match="circle"):
        write_atomic(circle, b"")
    with pytest.raises(StoreError, match="there is no such file"):
        write_atomic(tmp_path / "none" / "a", b"")
