"""A project on disk that is edited as editors do, with the earlier content of its files."""

from __future__ import annotations

import ast
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from .packages import LIBRARIES, TIMED, Package

FRAME = ("pack/main.py", "pack/router.py", "pack/registry.py", "pack/framework.py", "pack/__init__.py")
"""Nothing runs without these files, so they are rarely deleted."""


@lru_cache(maxsize=500)
def _parse(text: str) -> ast.Module | None:
    while True:
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError):
            return None
        except SystemError:  # Python 3.11 raises it if two threads parse at the same time
            continue


class Change(NamedTuple):
    """The content of each edited file before an edit, or None if it did not exist."""

    kind: str
    before: dict[str, bytes | None]


class Scene:
    """A generated package under edit. Everything random comes from `rng`: equal seeds make equal edits.

    It uses only files that were generated or made by edits, as files written by agents may differ from run to run.
    """

    def __init__(self, package: Package, rng: random.Random) -> None:
        self.root = package.root
        self.rng = rng
        self.files = set(package.files)
        self.changes: list[Change] = []
        self.valid_contents: dict[str, bytes] = {}
        """The last content of each Python file that compiled."""
        self.damaging_changes: list[Change] = []
        """Changes that broke something; people would soon repair it."""
        self.likely_kinds: tuple[str, ...] = ()
        """Kinds of edits to make more often."""
        self.excluded_kinds: frozenset[str] = frozenset()
        """Kinds of edits to make never."""
        self.journals: list[tuple[Path, bytes]] = []
        """Files that agents append to, with the content before they were rewritten."""
        self._before: dict[str, bytes | None] | None = None

    @contextmanager
    def record_change(self, kind: str) -> Iterator[dict[str, bytes | None]]:
        """Record everything that the block replaces as one change, or as part of an outer change."""
        if self._before is not None:
            yield self._before
            return
        self._before = {}
        try:
            yield self._before
        finally:
            if self._before:
                self.changes.append(Change(kind, self._before))
            self._before = None

    def pick_number(self) -> int:
        """Pick a number that is easy to recognise."""
        return self.rng.randint(100, 999)

    def has(self, name: str) -> bool:
        """Return whether a file or folder exists."""
        return (self.root / name).exists()

    def read(self, name: str) -> str:
        """Return the text of a file."""
        return (self.root / name).read_text("utf-8")

    def list_sources(self, accept: Callable[[str], bool] = lambda name: True) -> list[str]:
        """List the Python files that can be parsed, in an order that does not depend on the disk."""
        return [name for name in self.list_python_files() if accept(name) and self.parse(name) is not None]

    def list_python_files(self) -> list[str]:
        """List all Python files except those of libraries, which are installed, not edited."""
        return sorted(n for n in self.files if n.endswith(".py") and not n.startswith(LIBRARIES))

    def list_data_files(self) -> list[str]:
        """List the files that are neither code nor configuration."""
        folders = ("data/", "prompts/", "flags/", TIMED)
        return sorted(n for n in self.files if n.startswith(folders) and not n.startswith("data/unused"))

    def parse(self, name: str) -> ast.Module | None:
        """Return the syntax tree of a file, or None if it is broken. Equal files share a tree."""
        return _parse(self.read(name))

    def list_constants(self) -> list[str]:
        """List all text constants of the code."""
        found: set[str] = set()
        for name in self.list_sources():
            for node in ast.walk(self.parse(name) or ast.Module([], [])):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.add(node.value)
        return sorted(found)

    def write(self, name: str, text: str | bytes, style: str | None = None) -> None:
        """Save a file: `in_place`, `atomic` (rename a new file over it) or `backup` (move the old one away)."""
        self.remember(name)
        data = text.encode() if isinstance(text, str) else text
        path = self.root / name
        for parent in [str(folder) for folder in Path(name).parents if (self.root / folder).is_file()]:
            self.delete(parent)
        path.parent.mkdir(parents=True, exist_ok=True)
        match style or self.rng.choice(("in_place", "atomic", "backup")):
            case "atomic":
                temporary = path.with_name(f".{path.name}.tmp")
                temporary.write_bytes(data)
                temporary.replace(path)
            case "backup" if path.exists():
                temporary = path.with_name(f"{path.name}~")
                path.rename(temporary)
                path.write_bytes(data)
                temporary.unlink()
            case _:
                path.write_bytes(data)
        self.files.add(name)

    def write_in_the_same_second(self, name: str, text: str) -> None:
        """Save a file so that its modification time differs only in the fraction of the second."""
        path = self.root / name
        earlier = path.stat().st_mtime_ns
        self.write(name, text, "in_place")
        fraction = (earlier % 1_000_000_000 + 1_000_000) % 1_000_000_000
        os.utime(path, ns=(earlier, earlier - earlier % 1_000_000_000 + fraction))

    def delete(self, name: str) -> None:
        """Delete a file, and folders that become empty."""
        self.remember(name)
        (self.root / name).unlink()
        self._forget_file(name)

    def rename(self, name: str, other: str) -> None:
        self.remember(name)
        self.remember(other)
        target = self.root / other
        target.parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).rename(target)
        self.files.add(other)
        self._forget_file(name)

    def restore(self, before: dict[str, bytes | None]) -> None:
        """Restore the earlier content of files."""
        for name, data in sorted(before.items()):
            if data is not None and not (self.root / name).is_dir():
                self.write(name, data)
            elif (self.root / name).is_file():
                self.delete(name)

    def _forget_file(self, name: str) -> None:
        self.files.discard(name)
        for folder in (self.root / name).parents:
            if folder == self.root or any(folder.iterdir()):
                break
            folder.rmdir()

    def remember(self, name: str) -> None:
        """Remember the content of a file before it changes."""
        assert self._before is not None, "edits are made while they are recorded"
        path = self.root / name
        if name not in self._before:
            self._before[name] = path.read_bytes() if path.is_file() else None
        if name.endswith(".py") and path.is_file() and self.parse(name) is not None:
            self.valid_contents[name] = path.read_bytes()
