"""A `workbench watch` in a process of its own, whose verdicts are timed."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.benchmarks.measuring import measure_tree_cpu


def save_atomically(path: Path, text: str) -> float:
    """Save atomically like an editor, and return the time."""
    temporary = path.with_name(".beside~")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
    return time.perf_counter()


class Watch:
    """A `workbench watch` process, and its output lines with their arrival times."""

    def __init__(self, root: Path) -> None:
        command = [str(Path(sys.executable).with_name("workbench")), "watch", "--format", "jsonl", str(root)]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root, text=True, env=environment)
        self._lines: queue.Queue[tuple[float, dict[str, Any]]] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put((time.perf_counter(), json.loads(line)))

    def wait_until_quiet(self, *, after_save: bool) -> list[float]:
        """Return the times of verdicts until all are known, starting at a detected save or at the beginning."""
        times: list[float] = []
        while True:
            at, line = self._lines.get(timeout=120)
            if after_save:
                after_save = line["kind"] != "change_seen" or not line["run"]
                continue
            if line["kind"] == "verdict" and line["source"] == "executed":
                times.append(at)
            if line["kind"] == "all_known":
                return times

    @property
    def cpu(self) -> float:
        """CPU seconds of the watch and all its processes so far."""
        return measure_tree_cpu(self._process.pid)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


@contextmanager
def run_watch(root: Path) -> Iterator[Watch]:
    """Run a watch, and wait until it knows all verdicts."""
    watch = Watch(root)
    try:
        watch.wait_until_quiet(after_save=False)
        yield watch
    finally:
        watch.close()
