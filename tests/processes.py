"""What tests ask about processes."""

from __future__ import annotations

from pathlib import Path


def is_running(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def children(of: int | None = None) -> set[int]:
    """The processes that this one, or the one with this id, has started."""
    tasks = Path(f"/proc/{of or 'self'}/task").iterdir()
    return {int(pid) for task in tasks for pid in (task / "children").read_text().split()}
