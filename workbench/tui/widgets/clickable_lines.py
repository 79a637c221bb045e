"""Lines of which each can be clicked on."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events
from textual.message import Message

from workbench.tui.widgets.lines_view import LinesView


class ClickableLines(LinesView):
    """A text that says which of its lines was clicked on."""

    @dataclass
    class Clicked(Message):
        """The user clicked on a line, counted from the first."""

        line: int

    def on_click(self, event: events.Click) -> None:
        """Say which line it was, unless text was selected."""
        offset = event.get_content_offset(self)
        if offset is not None and self.text_selection is None:
            self.post_message(self.Clicked(offset.y + self.scroll_offset.y))
