"""Queries about processes for tests."""

from __future__ import annotations

from pathlib import Path


def is_running(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def find_children(of: int | None = None) -> set[int]:
    """Return the child processes of the process with this id, by default of this process."""
    tasks = Path(f"/proc/{of or 'self'}/task").iterdir()
    return {int(pid) for task in tasks for pid in (task / "children").read_text().split()}
