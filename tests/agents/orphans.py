"""An agent that starts processes, and whether they have ended."""

from __future__ import annotations

from typing import Any

AGENT = """
    import os, subprocess, time
    from pathlib import Path
    def answer(prompt):
        same = subprocess.Popen(["sleep", "1000"])
        other = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        Path("pids.new").write_text(f"{os.getppid()} {os.getpid()} {same.pid} {other.pid}")
        os.rename("pids.new", "pids")
        if prompt == "hang":
            time.sleep(1000)
        return "done"
"""


def read_pids(bench: Any) -> list[int]:
    path = bench.folder / "pids"
    return [int(item) for item in path.read_text().split()] if path.exists() else []


def have_ended(is_alive: Any, pids: list[int]) -> bool:
    return not any(is_alive(pid) for pid in pids)
