"""Measure commands: wall seconds, CPU seconds of all their processes, peak memory of the process tree."""

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
    """Return the median of several runs by wall time, after one run that warms the disk cache."""
    costs = [_measure_once(command, cwd=cwd, env=env) for _ in range(times + 1)][1:]
    middle = median(cost.wall for cost in costs)
    return min(costs, key=lambda cost: abs(cost.wall - middle))


def _measure_once(command: Sequence[str | Path], *, cwd: Path, env: dict[str, str] | None) -> Cost:
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
            self.peak_kb = max(self.peak_kb, sum(map(_read_pss_kb, _find_tree(self._pid))))


def measure_tree_mb(pid: int) -> float:
    """Return the current memory of a process tree: its proportional set size in MB."""
    return sum(map(_read_pss_kb, _find_tree(pid))) / 1024


def measure_tree_cpu(pid: int) -> float:
    """Return the CPU seconds of a process tree, including processes that ended."""
    return sum(map(_read_cpu, _find_tree(pid)))


def _read_cpu(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0  # the process ended
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _find_tree(pid: int) -> list[int]:
    pids = [pid]
    for parent in pids:
        try:
            tasks = list(Path(f"/proc/{parent}/task").iterdir())
            for task in tasks:
                pids.extend(int(child) for child in (task / "children").read_text().split())
        except OSError:
            continue  # the process ended
    return pids


def _read_pss_kb(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    except OSError:
        pass  # the process ended
    return 0
