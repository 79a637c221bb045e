"""What was said, to read: a click chooses a turn."""

from __future__ import annotations

from workbench.tui.widgets.clickable_lines import ClickableLines


class TalkView(ClickableLines):
    """The lines of a conversation, kept at their end while it goes on unless the reader has left it."""

    @property
    def is_at_end(self) -> bool:
        """Whether the last line is in sight."""
        return self.scroll_offset.y >= self.max_scroll_y

    def go_to_end(self) -> None:
        """Bring the last line into sight."""
        self.scroll_end(animate=False, force=True, immediate=True)
