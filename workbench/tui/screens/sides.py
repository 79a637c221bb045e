"""What of the main screen is seen: both sides, or one of them, and how wide."""

from __future__ import annotations

from textual.screen import Screen
from textual.widget import Widget

_LEAST_LEFT, _LEAST_RIGHT = 16, 30  # columns that no resizing takes away
_NARROW = 72  # columns below which only the side with the focus is shown


class Sides:
    """The eval sets on the left, the panes on the right, the drawer below."""

    def __init__(self, screen: Screen[None]) -> None:
        self._screen = screen
        self.left_width: int | None = None  # None: as the stylesheet has it

    def show(self, *, is_zoomed: bool) -> None:
        """Both sides, or the one with the focus where it is zoomed or where there is no room for both."""
        left, right, drawer = (self._screen.query_one(selector) for selector in ("#left", "#right", "#drawer"))
        only_one = is_zoomed or self._screen.size.width < _NARROW
        is_right, is_drawer = self._has_focus(right), is_zoomed and self._has_focus(drawer)
        left.display = not is_drawer and (not only_one or not is_right)
        right.display = not is_drawer and (not only_one or is_right)
        self._screen.query_one("#body").display = not is_drawer  # empty it would keep half of the screen
        drawer.set_class(is_drawer, "-alone")

    def set_left_width(self, width: int | None) -> None:
        """Give the eval sets so many columns, as far as that leaves both sides some."""
        if width is None:
            return
        most = max(self._screen.app.size.width - _LEAST_RIGHT, _LEAST_LEFT)
        self.left_width = min(max(width, _LEAST_LEFT), most)
        styles = self._screen.query_one("#left").styles
        styles.width = styles.min_width = styles.max_width = self.left_width

    def widen_left(self, by: int) -> None:
        """Give the eval sets more columns, or fewer."""
        self.set_left_width(self._screen.query_one("#left").outer_size.width + by)

    def _has_focus(self, part: Widget) -> bool:
        focused = self._screen.focused
        return focused is not None and part in focused.ancestors_with_self
