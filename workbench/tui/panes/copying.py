"""Copying what the user sees."""

from __future__ import annotations

from textual.widget import Widget

from workbench.model.text import counted
from workbench.tui.panes.pane import Pane
from workbench.tui.widgets.saying import say


def copyable_at(focused: Widget | None, *, otherwise: Pane) -> str | None:
    """What the pane with the focus takes for the thing to copy; `otherwise` is asked where no pane has it."""
    around = focused.ancestors_with_self if focused is not None else []
    return next((node for node in around if isinstance(node, Pane)), otherwise).copyable()


def copy(widget: Widget, text: str | None) -> None:
    """Copy a text and say so, or that there is none."""
    if not text:
        say(widget, "there is nothing to copy here", severity="warning")
        return
    widget.app.copy_to_clipboard(text)
    say(widget, f"copied {counted(len(text), 'character')}")
