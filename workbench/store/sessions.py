"""Which process wrote something, and whether that process is still there.

A process number alone does not tell: after a restart, or in another container, another process has it.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

SESSION = secrets.token_hex(8)
"""Tells this process from every other, also from an earlier one that had the same number."""


def session_mark() -> dict[str, Any]:
    """What a file of this process says of its writer, as members of a JSON object."""
    return {"process": os.getpid(), "started": _started(os.getpid()), "session": SESSION}


def is_running(mark: dict[str, Any]) -> bool:
    """Whether the process that wrote this mark is still there. Where the system cannot tell, it counts as there."""
    process, started = mark.get("process"), mark.get("started")
    if os.name == "nt" or process == os.getpid():  # on Windows asking would interrupt the process
        return bool(mark.get("session") == SESSION)
    if not isinstance(process, int):
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # no permission to signal it: it is there
        pass
    return started is None or _started(process) in (None, started)


def _started(process: int) -> str | None:
    """When a process began, as far as the system tells: in Linux's clock ticks since the machine started."""
    try:
        status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = status.rpartition(")")[2].split()  # the name before it may hold anything
    return fields[19] if len(fields) > 19 else None
