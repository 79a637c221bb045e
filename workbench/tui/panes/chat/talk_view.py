"""What was said, to read: a click chooses a turn."""

from __future__ import annotations

from dataclasses import dataclass

from textual.events import Click
from textual.message import Message

from workbench.tui.widgets.lines_view import LinesView


class TalkView(LinesView):
    """The lines of a conversation, kept at their end while it goes on unless the reader has left it."""

    @dataclass
    class Clicked(Message):
        """The user clicked on a line."""

        line: int

    @property
    def is_at_end(self) -> bool:
        """Whether the last line is in sight."""
        return self.scroll_offset.y >= self.max_scroll_y

    def go_to_end(self) -> None:
        """Bring the last line into sight."""
        self.scroll_end(animate=False, force=True, immediate=True)

    def on_click(self, event: Click) -> None:
        """Say which line was clicked on, unless text was selected."""
        offset = event.get_content_offset(self)
        if offset is not None and self.text_selection is None:
            self.post_message(self.Clicked(offset.y + self.scroll_offset.y))
