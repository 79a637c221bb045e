"""Where git keeps what concerns a folder: the lock that tells that it is at work, and rules above the folder."""

from __future__ import annotations

import os
from pathlib import Path

from workbench.watch.ignoring import Rules


def lock_of(work_tree: str) -> str | None:
    """The file that exists while git changes the work tree that has a `.git` in it; None where that is no repository.

    In a worktree and in a submodule `.git` is a file that names the folder.
    """
    there = Path(work_tree, ".git")
    try:
        if not there.is_dir():
            kind, _, place = there.read_text(errors="surrogateescape").partition(":")
            if kind != "gitdir":
                return None
            there = Path(work_tree, place.strip())
    except OSError:
        return None
    return os.fspath(there / "index.lock")


def top_of(folder: str) -> str | None:
    """The nearest folder at or above this one with a `.git` in it."""
    path = Path(folder)
    for candidate in (path, *path.parents):
        if (candidate / ".git").exists():
            return os.fspath(candidate)
    return None


def rules_above(folder: str, top: str | None) -> tuple[Rules, list[str]]:
    """What the repository says about a folder in it, and the files that say so, which may not exist.

    A folder that is left out itself was asked for by name: then nothing said above it counts.
    """
    none = Rules(folder, b"", None)
    if top is None:
        return none, []
    files: list[str] = []
    exclude = Path(lock_of(top) or os.path.join(top, ".git", "index.lock")).with_name("info") / "exclude"
    rules = Rules(top, read(exclude), None)
    place = Path(top)
    for part in Path(folder).relative_to(top).parts:
        file = place / ".gitignore"
        files.append(os.fspath(file))
        rules = rules.below(os.fspath(place), read(file), None)
        place /= part
        if rules.leave_out(os.fspath(place), folder=True):
            return none, files
    return rules, files


def read(path: str | Path) -> bytes:
    """The bytes of a file of rules; nothing where it cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
