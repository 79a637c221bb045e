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

# Exit statuses of all commands.

WRONG = 2
"""The command, the configuration or a file is wrong."""
ERRORS = 3
"""Some cases ended in ERROR, and none failed."""
INTERRUPTED = 130
READER_GONE = 141
"""The reader of standard output is gone; the status that SIGPIPE causes."""

# Standard streams: results go to standard output, everything else to standard error.


def prepare_streams() -> None:
    """Make both streams accept any text: replace characters that the encoding lacks, and closed streams (`>&-`)."""
    _replace_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]


def _replace_closed_streams() -> None:
    """Open the null device for closed standard streams.

    Otherwise the next file or socket gets the number of the stream, and receives what agents print.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # gets the lowest free number
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - stays until the end


def message(text: str, *, prefix: str = "workbench: ") -> None:
    """Write a message to standard error. The text may contain anything: it is escaped and redacted here."""
    with contextlib.suppress(OSError, ValueError):
        print(prefix + redact(neutralise(text)), file=sys.stderr, flush=True)


def write_lines(lines: Iterable[str]) -> None:
    """Write lines of text to standard output."""
    write_text("".join(f"{line}\n" for line in lines))


def write_text(text: str) -> None:
    """Write text to standard output and flush. If the reader is gone, drop the text."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        drop_output()


def write_document(text: str) -> None:
    """Write a UTF-8 document to standard output, whatever the encoding of the terminal."""
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


def write_record(record: object) -> None:
    """Write a record to standard output as a JSON document."""
    from workbench.report.report_formats import dump

    write_document(dump(record, indent=2) + "\n")


def has_reader() -> bool:
    """Return False if the reader of standard output is known to be gone."""
    if _dropped:
        return False
    try:
        is_pipe = stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)
        if not is_pipe or not hasattr(select, "poll"):
            return True
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)  # a pipe without reader reports an error
        return not any(events & select.POLLERR for _, events in poll.poll(0))
    except (AttributeError, OSError, ValueError):  # no file, or closed
        return True


_dropped: list[bool] = []


def drop_output() -> None:
    """Redirect further output to the null device; the interpreter would report an error at exit otherwise."""
    _dropped.append(True)
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def is_interactive() -> bool:
    """Return True if the user can be asked: standard input and output are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def wants_colour(stream: object, *, plain: bool) -> bool:
    """Return True if the stream is a terminal, and neither `--plain` nor NO_COLOR forbids colours."""
    is_terminal = getattr(stream, "isatty", lambda: False)()
    return bool(is_terminal) and not plain and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


# Ctrl-C: the first one stops a run and keeps finished results, the second one ends the process at once.


class LateCancel:
    """Cancels what starts after Ctrl-C can come: at once if it came before."""

    def __init__(self) -> None:
        self._cancel: Callable[[], None] | None = None
        self._is_cancelled = False

    def __call__(self) -> None:
        self._is_cancelled = True
        if self._cancel is not None:
            self._cancel()

    def connect(self, cancel: Callable[[], None]) -> None:
        """Call `cancel` on Ctrl-C from now on."""
        self._cancel = cancel
        if self._is_cancelled:
            cancel()


@contextmanager
def graceful_interrupt(
    cancel: Callable[[], None], *, announce: Callable[[str], None], promise: str = "finished results are kept"
) -> Iterator[Callable[[], bool]]:
    """In this context, SIGINT, SIGTERM and SIGHUP call `announce` and `cancel`; a second signal ends the process.

    Yields a function that returns True once a signal came.

    SIGHUP stays ignored if it is, as by nohup. A terminal that closes may send it twice, so it never ends the process.
    Both run on another thread, because the handler may interrupt the main thread while it holds a lock that they need.
    `promise` says what becomes of the work done so far.
    """
    received = 0

    def stop() -> None:
        announce(f"interrupted: stopping; {promise} (press Ctrl-C again to exit at once)")
        cancel()

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal received
        received += 1
        if received == 1:
            threading.Thread(target=stop, daemon=True).start()
        elif number in (signal.SIGINT, signal.SIGTERM):
            if os.isatty(2):
                os.write(2, b"\r\x1b[K")
            os._exit(INTERRUPTED)

    numbers = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    previous = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield lambda: received > 0
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
