"""The clipboards beside the terminal's own: that of tmux, and that of the machine the program runs on.

The terminal is asked by an escape sequence (OSC 52), which reaches the user's machine over SSH; not every terminal
listens to it, and tmux passes it on only where it is told to.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress

_PATIENCE = 2.0  # seconds for a program that may wait for a display that is not there
_MOST_BY_SEQUENCE = 700_000  # bytes of text: tmux drops a sequence of more than a million characters


def copy_beside_terminal(text: str) -> None:
    """Put a text into every other clipboard there is; where there is none nothing happens. Not for the event loop."""
    if "TMUX" in os.environ:
        _copy_to_tmux(text.encode())
    import pyperclip

    with suppress(pyperclip.PyperclipException, OSError):
        pyperclip.copy(text)


def _copy_to_tmux(data: bytes) -> None:
    """Make a buffer of it, unless tmux has made one of what the terminal was asked."""
    with suppress(OSError, subprocess.SubprocessError):
        heard = _tmux("show-options", "-sv", "set-clipboard").strip()
        if heard != b"on" or len(data) > _MOST_BY_SEQUENCE:
            _tmux("load-buffer", "-w", "-", given=data)  # -w: to the outer terminal as well


def _tmux(*arguments: str, given: bytes = b"") -> bytes:
    done = subprocess.run(["tmux", *arguments], input=given, capture_output=True, timeout=_PATIENCE, check=False)
    return done.stdout
