"""Standard streams, and what Ctrl-C does."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from workbench.model.text import neutralise, redact

# Standard output and error: results to the one, everything else to the other, and neither can hurt.


def prepare_streams() -> None:
    """Make both streams take any text, also closed ones (`>&-`): what their encoding lacks is written as `?`."""
    _replace_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]


def _replace_closed_streams() -> None:
    """Open the null device for standard streams that are closed.

    Otherwise the next file or socket gets the number of the stream, and what agents print ends up in it.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number, which is this one
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - stays until the end


def message(text: str, *, prefix: str = "workbench: ") -> None:
    """Tell people something on standard error. The text may hold anything: it is made safe here."""
    with contextlib.suppress(OSError, ValueError):
        print(prefix + redact(neutralise(text)), file=sys.stderr, flush=True)


def write_lines(lines: Iterable[str]) -> None:
    """Results for people, to standard output."""
    write_text("".join(f"{line}\n" for line in lines))


def write_text(text: str) -> None:
    """Text to standard output, seen at once. Where nobody reads it any more, it is dropped."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        drop_output()


def write_document(text: str) -> None:
    """A document that says it is UTF-8, to standard output in that encoding whatever the terminal's is."""
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:
        write_text(text)
        return
    try:
        sys.stdout.flush()
        buffer.write(text.encode("utf-8", errors="replace"))
        buffer.flush()
    except BrokenPipeError:
        drop_output()


READER_GONE = 141
"""The exit status of programs that end because nobody reads what they write (SIGPIPE)."""


def has_reader() -> bool:
    """Whether somebody still reads standard output; False only where that is known."""
    if _dropped:
        return False
    try:
        is_pipe = stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)
        if not is_pipe or not hasattr(select, "poll"):
            return True
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)  # of a pipe without reader an error is told
        return not any(told & select.POLLERR for _, told in poll.poll(0))
    except (AttributeError, OSError, ValueError):  # no file, or closed
        return True


_dropped: list[bool] = []


def drop_output() -> None:
    """Send what is still to be written to nowhere: the interpreter would complain at exit otherwise."""
    _dropped.append(True)
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def wants_colour(stream: object, *, plain: bool) -> bool:
    """Whether colours may be written: the stream is a terminal, and neither `--plain` nor NO_COLOR speaks against."""
    is_terminal = getattr(stream, "isatty", lambda: False)()
    return bool(is_terminal) and not plain and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


# Ctrl-C: the first stops a run so that nothing finished is lost, the second ends everything at once.

INTERRUPTED = 130


@contextmanager
def graceful_interrupt(cancel: Callable[[], None], *, announce: Callable[[str], None]) -> Iterator[None]:
    """While this is open, SIGINT and SIGTERM call `cancel` (on a thread of its own); a second one ends the process.

    `announce` and `cancel` run on another thread because a signal handler may interrupt the main thread while it holds
    the very lock that they take.
    """
    received = 0

    def stop() -> None:
        announce("interrupted: stopping; finished results are kept (once more to end at once)")
        cancel()

    def handle(_number: int, _frame: FrameType | None) -> None:
        nonlocal received
        received += 1
        if received == 1:
            threading.Thread(target=stop, daemon=True).start()
        else:
            if os.isatty(2):
                os.write(2, b"\r\x1b[K")
            os._exit(INTERRUPTED)

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
