"""One walk over a project: the files that may hold an agent, and the eval sets."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from workbench.store.names import EVAL_SET_SUFFIXES
from workbench.store.recognising import is_eval_set

AGENT_FILES = ("agent.py", "__init__.py")

_SKIPPED = frozenset({"node_modules", "site-packages", "__pycache__", "venv"})


@dataclass
class Findings:
    """What the walk came across. `agent_files` maps a folder to those of AGENT_FILES that it has."""

    agent_files: dict[str, list[str]] = field(default_factory=dict)
    eval_sets: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def walk(root: Path) -> Findings:
    """Look through the folders below `root`. JSON of other programs is left alone.

    Left out are hidden folders (version control, caches, `.venv`, `.adk`, `.workbench`), virtual environments and
    installed packages. Links to folders are followed where they lead out of the root, each folder once.
    """
    findings = Findings()
    seen_links: set[str] = set()
    waiting = [str(root)]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                found = list(entries)
        except OSError as error:
            findings.problems.append(f"{os.path.relpath(folder, root)}: cannot be looked through: {error.strerror}")
            continue
        if any(entry.name == "pyvenv.cfg" for entry in found):
            continue
        for entry in found:
            name = entry.name
            if name in AGENT_FILES:
                findings.agent_files.setdefault(folder, []).append(name)
            elif name.endswith(EVAL_SET_SUFFIXES) and _is_file(entry):
                if is_eval_set(Path(entry.path)):
                    findings.eval_sets.append(entry.path)
            elif not name.startswith(".") and name not in _SKIPPED and _leads_on(entry, str(root), seen_links):
                waiting.append(entry.path)
    findings.eval_sets.sort()
    return findings


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Whether this can be read, or is a link that leads nowhere, which must be said. A pipe would never end."""
    return entry.is_file() or (entry.is_symlink() and not os.path.exists(entry.path))  # noqa: PTH110 - as os.scandir


def _leads_on(entry: os.DirEntry[str], root: str, seen_links: set[str]) -> bool:
    """Whether this is a folder that the walk has not covered and will not cover otherwise."""
    if not entry.is_symlink():
        return entry.is_dir()
    if not entry.is_dir():
        return False
    real = os.path.realpath(entry.path)
    if real in seen_links or os.path.commonpath([real, root]) in (root, real):
        return False
    seen_links.add(real)
    return True
