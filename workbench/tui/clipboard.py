"""The clipboards beside the terminal's own: that of tmux, and that of the machine the program runs on.

The terminal is asked by an escape sequence (OSC 52), which reaches the user's machine over SSH; not every terminal
listens to it, and tmux passes it on only where it is told to.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress

_PATIENCE = 2.0  # seconds for a program that may wait for a display that is not there


def copy_beside_terminal(text: str) -> None:
    """Put a text into every other clipboard there is; where there is none nothing happens. Not for the event loop."""
    if "TMUX" in os.environ:
        with suppress(OSError, subprocess.SubprocessError):
            command = ["tmux", "load-buffer", "-w", "-"]  # -w: to the outer terminal as well
            subprocess.run(command, input=text.encode(), capture_output=True, timeout=_PATIENCE, check=False)
    import pyperclip

    with suppress(pyperclip.PyperclipException, OSError):
        pyperclip.copy(text)
