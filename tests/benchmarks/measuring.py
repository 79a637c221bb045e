"""Whole commands, measured: wall seconds, CPU seconds of all their processes, memory of the whole tree at its peak."""

from __future__ import annotations

import os
import resource
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median


@dataclass(frozen=True)
class Cost:
    """One run of a command. Memory is the proportional set size of the whole process tree, in MB."""

    wall: float
    cpu: float
    peak_mb: float
    status: int
    stdout: str

    def __str__(self) -> str:
        return f"{self.wall:.2f} s wall, {self.cpu:.2f} s CPU, {self.peak_mb:.0f} MB, exit {self.status}"


def measure(command: Sequence[str | Path], *, cwd: Path, env: dict[str, str] | None = None, times: int = 3) -> Cost:
    """The median run (by wall time) of `times`, after one that warms the disk cache."""
    costs = [_once(command, cwd=cwd, env=env) for _ in range(times + 1)][1:]
    middle = median(cost.wall for cost in costs)
    return min(costs, key=lambda cost: abs(cost.wall - middle))


def _once(command: Sequence[str | Path], *, cwd: Path, env: dict[str, str] | None) -> Cost:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    process = subprocess.Popen(
        [str(word) for word in command], cwd=cwd, env={**os.environ, **(env or {})}, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    sampler = _MemorySampler(process.pid)
    sampler.start()
    stdout, _ = process.communicate()
    wall = time.perf_counter() - started
    sampler.ended.set()
    sampler.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall=wall, cpu=cpu, peak_mb=sampler.peak_kb / 1024, status=process.returncode, stdout=stdout)


class _MemorySampler(threading.Thread):
    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self.peak_kb = 0
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.05):
            self.peak_kb = max(self.peak_kb, sum(map(_pss_kb, _tree(self._pid))))


def tree_mb(pid: int) -> float:
    """What a process and all below it take now: the proportional set size, in MB."""
    return sum(map(_pss_kb, _tree(pid))) / 1024


def tree_cpu(pid: int) -> float:
    """The seconds of CPU that a process, all below it and what of those has ended have taken."""
    return sum(map(_cpu, _tree(pid)))


def _cpu(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0  # it ended while we looked
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _tree(pid: int) -> list[int]:
    pids = [pid]
    for parent in pids:
        try:
            tasks = list(Path(f"/proc/{parent}/task").iterdir())
            for task in tasks:
                pids.extend(int(child) for child in (task / "children").read_text().split())
        except OSError:
            continue  # it ended while we looked
    return pids


def _pss_kb(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    except OSError:
        pass  # it ended while we looked
    return 0
