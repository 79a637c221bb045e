"""A project on disk that is edited as editors do, with the earlier content of each file."""

from __future__ import annotations

import ast
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from .packages import LIBRARIES, TIMED, Package

FRAME = ("pack/main.py", "pack/router.py", "pack/registry.py", "pack/framework.py", "pack/__init__.py")
"""Without these nothing runs: they are rarely taken away."""


class Change(NamedTuple):
    """What an edit replaced: each file as it was, None where there was none."""

    kind: str
    before: dict[str, bytes | None]


class Scene:
    """A generated package that is being edited. Everything random comes from `rng`: equal seeds make equal edits.

    Only files that were generated or made by edits are looked at: what agents write may differ from run to run.
    """

    def __init__(self, package: Package, rng: random.Random) -> None:
        self.root = package.root
        self.rng = rng
        self.files = set(package.files)
        self.changes: list[Change] = []
        self.good: dict[str, bytes] = {}
        """For files that do not compile any more, what they were when they did."""
        self.damage: list[Change] = []
        """Changes after which people find out that something is missing."""
        self.likely: tuple[str, ...] = ()
        """Kinds of edits that are made more often than others."""
        self.journals: list[tuple[Path, bytes]] = []
        """Files to which agents append, as they were before they were begun anew."""
        self._before: dict[str, bytes | None] | None = None

    @contextmanager
    def recording(self, kind: str) -> Iterator[dict[str, bytes | None]]:
        """Keep what is replaced meanwhile as one change; within another, as part of that one."""
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

    def number(self) -> int:
        """A number that tells."""
        return self.rng.randint(100, 999)

    def has(self, name: str) -> bool:
        """Whether there is a file or folder of that name."""
        return (self.root / name).exists()

    def read(self, name: str) -> str:
        """The text of a file."""
        return (self.root / name).read_text("utf-8")

    def sources(self, accept: Callable[[str], bool] = lambda name: True) -> list[str]:
        """Python files that can be parsed, in an order that does not depend on the disk."""
        return [name for name in self.pythons() if accept(name) and self.tree(name) is not None]

    def pythons(self) -> list[str]:
        """All Python files, but for those of libraries: these are installed, not edited."""
        return sorted(n for n in self.files if n.endswith(".py") and not n.startswith(LIBRARIES))

    def data(self) -> list[str]:
        """Files that are neither code nor configuration."""
        folders = ("data/", "prompts/", "flags/", TIMED)
        return sorted(n for n in self.files if n.startswith(folders) and not n.startswith("data/unused"))

    def tree(self, name: str) -> ast.Module | None:
        """The syntax tree of a file; None where it is broken."""
        while True:
            try:
                return ast.parse(self.read(name))
            except (SyntaxError, ValueError):
                return None
            except SystemError:  # of Python 3.11 where two threads parse at the same moment
                continue

    def constants(self) -> list[str]:
        """All texts that stand in the code."""
        found: set[str] = set()
        for name in self.sources():
            for node in ast.walk(self.tree(name) or ast.Module([], [])):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.add(node.value)
        return sorted(found)

    def write(self, name: str, text: str | bytes, style: str | None = None) -> None:
        """Save a file: `in_place`, `atomic` (a new file renamed over it) or `backup` (the old one is moved away)."""
        self.keep(name)
        data = text.encode() if isinstance(text, str) else text
        path = self.root / name
        for above in [str(folder) for folder in Path(name).parents if (self.root / folder).is_file()]:
            self.delete(above)
        path.parent.mkdir(parents=True, exist_ok=True)
        match style or self.rng.choice(("in_place", "atomic", "backup")):
            case "atomic":
                beside = path.with_name(f".{path.name}.tmp")
                beside.write_bytes(data)
                beside.replace(path)
            case "backup" if path.exists():
                beside = path.with_name(f"{path.name}~")
                path.rename(beside)
                path.write_bytes(data)
                beside.unlink()
            case _:
                path.write_bytes(data)
        self.files.add(name)

    def write_in_the_same_second(self, name: str, text: str) -> None:
        """Save a file so that its time of change differs only in the fraction of the second."""
        path = self.root / name
        earlier = path.stat().st_mtime_ns
        self.write(name, text, "in_place")
        fraction = (earlier % 1_000_000_000 + 1_000_000) % 1_000_000_000
        os.utime(path, ns=(earlier, earlier - earlier % 1_000_000_000 + fraction))

    def delete(self, name: str) -> None:
        """Remove a file, and folders that are empty then."""
        self.keep(name)
        (self.root / name).unlink()
        self._forget(name)

    def rename(self, name: str, other: str) -> None:
        """Move a file."""
        self.keep(name)
        self.keep(other)
        target = self.root / other
        target.parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).rename(target)
        self.files.add(other)
        self._forget(name)

    def restore(self, before: dict[str, bytes | None]) -> None:
        """Have files be as they were."""
        for name, data in sorted(before.items()):
            if data is not None and not (self.root / name).is_dir():
                self.write(name, data)
            elif (self.root / name).is_file():
                self.delete(name)

    def _forget(self, name: str) -> None:
        self.files.discard(name)
        for folder in (self.root / name).parents:
            if folder == self.root or any(folder.iterdir()):
                break
            folder.rmdir()

    def keep(self, name: str) -> None:
        """Take note of how a file is, before it is changed."""
        assert self._before is not None, "edits are made while they are recorded"
        path = self.root / name
        if name not in self._before:
            self._before[name] = path.read_bytes() if path.is_file() else None
        if name.endswith(".py") and path.is_file() and self.tree(name) is not None:
            self.good[name] = path.read_bytes()
