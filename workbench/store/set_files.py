"""Eval-set files as files: put there, taken away and moved, inside one folder, and never over another file."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from workbench.store.errors import FileChanged, StoreError, cannot
from workbench.store.files import make_folder, read_bytes, write_new
from workbench.store.names import EVAL_SET_SUFFIX, EVAL_SET_SUFFIXES


@dataclass(frozen=True, kw_only=True)
class KeptFile:
    """What a file was: its content, the permission bits (None: as the system sets them), where it led as a link."""

    data: bytes
    mode: int | None = None
    link: str | None = None


class SetFiles:
    """The eval-set files below a folder. Names are relative to it, with forward slashes."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def path_of(self, relative: str) -> Path:
        """Where a set of this name is or would be. Raises StoreError for a name that cannot be one in the folder."""
        path = self._root / relative
        name = PurePosixPath(relative)
        if not relative.endswith(EVAL_SET_SUFFIXES) or name.name in EVAL_SET_SUFFIXES or "\0" in relative:
            raise StoreError(path, found=f"the name {relative!r}", expected=f"a name that ends in {EVAL_SET_SUFFIX}")
        if name.is_absolute() or ".." in name.parts or not self._is_inside(path.parent):
            raise StoreError(path, "it would be outside of the project; eval sets are made and moved only inside")
        return path

    def put(self, relative: str, kept: KeptFile) -> None:
        """Write a file that is not there, with the folders above it. Raises StoreError, also where it is there."""
        path = self.path_of(relative)
        make_folder(path.parent)
        if kept.link is not None:
            try:
                path.symlink_to(kept.link)
            except OSError as error:
                raise cannot("create", path, error) from error
            return
        write_new(path, kept.data)
        if kept.mode is not None:
            with contextlib.suppress(OSError):  # the content is what matters, and it is there
                path.chmod(kept.mode)

    def take(self, relative: str, *, expect: bytes | None = None) -> KeptFile:
        """Remove a file and give what it was. Raises StoreError; FileChanged where it is not what was expected."""
        path = self.path_of(relative)
        data = read_bytes(path)[0]
        if expect is not None and data != expect:
            raise FileChanged(path, ours=expect, theirs=data)
        try:
            link = str(path.readlink()) if path.is_symlink() else None
            kept = KeptFile(data=data, mode=path.stat().st_mode & 0o7777, link=link)
            path.unlink()
        except OSError as error:
            raise cannot("delete", path, error) from error
        return kept

    def move(self, old: str, new: str) -> None:
        """Give a file another name that no file has. Raises StoreError."""
        source, target = self.path_of(old), self.path_of(new)
        if target.exists() or target.is_symlink():
            raise StoreError(target, "cannot create it: it exists already")
        make_folder(target.parent)
        try:
            os.link(source, target, follow_symlinks=False)  # never replaces a file that appeared meanwhile
        except FileExistsError as error:
            raise cannot("create", target, error) from error
        except FileNotFoundError as error:
            raise cannot("read", source, error) from error
        except OSError:  # a file system without hard links
            self._rename(source, target)
            return
        try:
            source.unlink()
        except OSError as error:
            target.unlink()
            raise cannot("delete", source, error) from error

    def _rename(self, source: Path, target: Path) -> None:
        try:
            source.rename(target)
        except OSError as error:
            raise cannot("create", target, error) from error

    def _is_inside(self, folder: Path) -> bool:
        """Whether a folder, which need not be there yet, is in ours wherever links lead."""
        try:
            return folder.resolve().is_relative_to(self._root.resolve())
        except (OSError, RuntimeError):  # RuntimeError: links in a circle, before Python 3.13
            return False
