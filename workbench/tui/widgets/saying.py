"""Short messages over the screen."""

from __future__ import annotations

from typing import Literal

from textual.app import App
from textual.widget import Widget

from workbench.tui.state.pieces import safe

Severity = Literal["information", "warning", "error"]


def say(widget: Widget | App[None], message: str, *, severity: Severity = "information") -> None:
    """Show a message for some seconds. Its text may come from outside."""
    widget.notify(safe(message), severity=severity, markup=False, timeout=10)
