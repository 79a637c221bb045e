"""Run a program in a pseudo-terminal and measure the time from a key press until the screen changes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from tests.benchmarks.measuring import measure_tree_cpu, measure_tree_mb

_QUIET = 0.08  # seconds without output after which the screen counts as painted


class LoopSeconds(NamedTuple):
    """Times of the main thread of a program in seconds: on a core, and ready but without a core."""

    cpu: float
    waiting: float


class TerminalProgram:
    """A running program. Its output is read and discarded; only its times and searched texts count."""

    def __init__(self, command: Sequence[str | Path], *, cwd: Path, columns: int = 140, lines: int = 42) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # compile modules, as for installed programs
        self.started = time.perf_counter()
        self._process = subprocess.Popen(
            [str(word) for word in command], cwd=cwd, env=environment, stdin=slave, stdout=slave, stderr=slave,
            start_new_session=True,
        )  # fmt: skip
        os.close(slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._master)

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of the program so far, without its children."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def loop_seconds(self) -> LoopSeconds:
        """CPU seconds of the thread of the event loop so far, and seconds that it waited for a core."""
        cpu, waiting, _ = Path(f"/proc/{self._process.pid}/schedstat").read_text().split()
        return LoopSeconds(int(cpu) / 1e9, int(waiting) / 1e9)

    @property
    def tree_cpu_seconds(self) -> float:
        """CPU seconds of the program and its children so far."""
        return measure_tree_cpu(self._process.pid)

    @property
    def memory_mb(self) -> float:
        """Current memory of the program and its children in MB (proportional set size)."""
        return measure_tree_mb(self._process.pid)

    def measure_time_to_text(self, text: str, *, patience: float = 60.0) -> float:
        """Return the seconds from the start of the program until it has written a text."""
        output = b""
        end = time.perf_counter() + patience
        while time.perf_counter() < end:
            output = output[-4096:] + self._read(timeout=0.5)
            if text.encode() in output:
                return time.perf_counter() - self.started
        raise AssertionError(f"never written: {text}")

    def quit(self, key: str) -> None:
        """Press a key that ends the program, and wait for its end."""
        os.write(self._master, key.encode())
        with contextlib.suppress(OSError):  # the end of its output
            self.settle(quiet=10.0)
        self._process.wait()

    def measure_press(self, key: str) -> float:
        """Return the seconds from a key press until the program has finished painting."""
        self.settle()
        started = time.perf_counter()
        os.write(self._master, key.encode())
        painted = started
        while self._read(timeout=_QUIET if painted > started else 5.0):
            painted = time.perf_counter()
        return painted - started

    def measure_press_to_text(self, key: str, text: str, *, patience: float = 5.0) -> float:
        """Return the seconds from a key press until a text is written, for a program that also writes by itself."""
        self._drain()
        output = b""
        started = time.perf_counter()
        os.write(self._master, key.encode())
        while text.encode() not in output:
            output += self._read(timeout=1.0)
            if time.perf_counter() - started > patience:
                raise AssertionError(f"never written: {text}")
        return time.perf_counter() - started

    def measure_first_output(self, key: str) -> float:
        """Return the seconds from a key press until the first output."""
        self._drain()
        started = time.perf_counter()
        os.write(self._master, key.encode())
        self._read(timeout=5.0)
        return time.perf_counter() - started

    def wait(self, seconds: float) -> None:
        """Wait, and read the output meanwhile like a terminal."""
        end = time.perf_counter() + seconds
        while (remaining := end - time.perf_counter()) > 0:
            self._read(timeout=remaining)

    def settle(self, *, quiet: float = 0.25) -> None:
        """Wait until the program stops writing."""
        while self._read(timeout=quiet):
            pass

    def _drain(self) -> None:
        while self._read(timeout=0.0):
            pass

    def _read(self, *, timeout: float) -> bytes:
        ready, _, _ = select.select([self._master], [], [], timeout)
        return os.read(self._master, 1 << 16) if ready else b""
