"""What was said, to read: a click chooses a turn."""

from __future__ import annotations

from workbench.tui.widgets.clickable_lines import ClickableLines
from workbench.tui.widgets.lines_view import LayOut


class TalkView(ClickableLines):
    """The lines of a conversation, kept at their end while it goes on unless the reader has left it."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._is_following = False  # new lines, and lines that wrap anew, then scroll to the end

    def show(self, lay_out: LayOut, *, from_top: bool, cursor: int | None = None) -> None:
        """Replace what is shown; what is read from its top is not followed to its end."""
        if from_top:
            self._is_following = False
        super().show(lay_out, from_top=from_top, cursor=cursor)

    def go_to_end(self) -> None:
        """Bring the last line into sight, and keep it there."""
        self.scroll_end(animate=False, force=True, immediate=True)
        self._is_following = True

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Only scrolling leaves the end or comes back to it, not that there are more lines."""
        super().watch_scroll_y(old_value, new_value)
        self._is_following = new_value >= self.max_scroll_y

    def _refresh_lines(self) -> None:
        super()._refresh_lines()
        if self._is_following:
            self.go_to_end()
