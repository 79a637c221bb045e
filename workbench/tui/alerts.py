"""Says that something has gone wrong to somebody who may be looking elsewhere: in the editor, or at another window."""

from __future__ import annotations

import os
from typing import Literal

from textual.app import App

from workbench.model.text import one_line
from workbench.tui.state.pieces import safe

How = Literal["desktop", "bell", "toast", "off"]

_WIDTH = 200


def alert(app: App[object], message: str, reason: str, *, how: How) -> None:
    """Show a message with its reason; the terminal's bell and a notification of the desktop besides, as it is wanted.

    The text may come from outside.
    """
    if how == "off":
        return
    text = f"{message}: {reason}" if reason else message
    app.notify(safe(text), severity="error", markup=False, timeout=15)
    if how == "toast":
        return
    app.bell()
    if how == "desktop":
        _write(app, notification(text, in_tmux="TMUX" in os.environ))


def notification(text: str, *, in_tmux: bool) -> str:
    """What makes terminals that can (OSC 9) show a notification of the desktop; others pass it over.

    Tmux only lets it through where it is wrapped, and allowed to. The text never begins with a number, which some
    terminals would take for another order.
    """
    sequence = f"\x1b]9;workbench: {one_line(text, width=_WIDTH)}\x07"
    if not in_tmux:
        return sequence
    return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"


def _write(app: App[object], sequence: str) -> None:
    """Past what is drawn; Textual itself does so for its bell, and has no public way for others."""
    if app._driver is not None and not app.is_headless:
        app._driver.write(sequence)
