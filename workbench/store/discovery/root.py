"""The root of a project: the folder to which all paths that people see are relative."""

from __future__ import annotations

from pathlib import Path

from workbench.store.errors import StoreError
from workbench.store.settings import FILE_NAME


def find_root(path: Path) -> Path:
    """The nearest folder upwards with `workbench.toml`, else with `.git` or `pyproject.toml`, else the folder given.

    `path` may be a file; its folder counts. The answer is absolute. Raises StoreError where `path` does not exist.
    """
    folder = path.absolute()
    if not folder.exists():
        raise StoreError(path, "there is no such file or folder")
    folder = folder.resolve()
    if not folder.is_dir():
        folder = folder.parent
    for marks in ((FILE_NAME,), (".git", "pyproject.toml")):
        for candidate in (folder, *folder.parents):
            if any((candidate / mark).exists() for mark in marks):
                return candidate
    return folder
