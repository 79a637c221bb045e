"""Files that are watched, and scans of them."""

from __future__ import annotations

import os
from pathlib import Path

from workbench.watch.folder_scanner import Folders, Picture, Scanner, scan_folders


def make_files(root: Path, *names: str) -> Path:
    """Make files, each with its own path as its content."""
    for file in names:
        path = root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file)
    return root


def scan(folders: Folders | Path, known_picture: Picture | None = None) -> Picture:
    return scan_folders(Folders(folders) if isinstance(folders, Path) else folders, known_picture, lambda: False)


def list_files(picture: Picture, root: Path) -> set[str]:
    """List the watched files below a root, by every path that leads to them."""
    paths = (path for folder in picture.folders.values() for name in folder.files for path in folder.list_paths(name))
    return {os.path.relpath(path, root) for path in paths if Path(path).is_relative_to(root) and Path(path).is_file()}


def start_scanner(folders: Folders | Path) -> Scanner:
    scanner = Scanner(Folders(folders) if isinstance(folders, Path) else folders)
    scanner.start()
    return scanner
