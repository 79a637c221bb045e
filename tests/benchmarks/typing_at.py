"""A program in a pseudo-terminal, typed at by the clock: how long from a key press until the screen changes."""

from __future__ import annotations

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
from typing import Self

from tests.benchmarks.measuring import tree_mb

_QUIET = 0.08  # seconds without output after which a screen is taken to be painted


class TypedAt:
    """A running program. Its output is read and forgotten, but for when it came and what it had in it."""

    def __init__(self, command: Sequence[str | Path], *, cwd: Path, columns: int = 140, lines: int = 42) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # installed programs are compiled, and so is this one then
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
        """What the program itself has computed so far, without its children."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def memory_mb(self) -> float:
        """What the program and all its children take now, in MB, shared pages counted in part."""
        return tree_mb(self._process.pid)

    def seconds_until(self, wanted: str, *, patience: float = 60.0) -> float:
        """Seconds from the start of the program until it has written this."""
        seen = b""
        end = time.perf_counter() + patience
        while time.perf_counter() < end:
            seen = seen[-4096:] + self._read(timeout=0.5)
            if wanted.encode() in seen:
                return time.perf_counter() - self.started
        raise AssertionError(f"never written: {wanted}")

    def press(self, key: str) -> float:
        """Seconds from a key press until the program has painted what it changes."""
        self.settle()
        started = time.perf_counter()
        os.write(self._master, key.encode())
        painted = started
        while self._read(timeout=_QUIET if painted > started else 5.0):
            painted = time.perf_counter()
        return painted - started

    def press_until(self, key: str, wanted: str) -> float:
        """Seconds from a key press until this is written, in a program that writes by itself as well."""
        self._drain()
        seen = b""
        started = time.perf_counter()
        os.write(self._master, key.encode())
        while wanted.encode() not in seen:
            seen += self._read(timeout=1.0)
            if time.perf_counter() - started > 5.0:
                raise AssertionError(f"never written: {wanted}")
        return time.perf_counter() - started

    def first_output(self, key: str) -> float:
        """Seconds until the first output after a key press."""
        self._drain()
        started = time.perf_counter()
        os.write(self._master, key.encode())
        self._read(timeout=5.0)
        return time.perf_counter() - started

    def wait(self, seconds: float) -> None:
        """Let time go by; what is written meanwhile is read, for a terminal would."""
        end = time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            self._read(timeout=left)

    def settle(self, *, quiet: float = 0.25) -> None:
        """Wait until nothing is written any longer."""
        while self._read(timeout=quiet):
            pass

    def _drain(self) -> None:
        while self._read(timeout=0.0):
            pass

    def _read(self, *, timeout: float) -> bytes:
        ready, _, _ = select.select([self._master], [], [], timeout)
        return os.read(self._master, 1 << 16) if ready else b""
