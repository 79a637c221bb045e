"""Views of lines that draw no more than what looks other than before: with thousands of rows keys stay quick."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

Look = TypeVar("Look", bound=Hashable)

_MOST_STRIPS = 500


class DrawnLines(Generic[Look]):
    """What stands on each line of a view, as its looks: all that the strip of a line depends on besides the styles."""

    def __init__(self, view: ScrollView) -> None:
        self._view = view
        self._looks: dict[int, Look] = {}  # by line of the screen
        self._strips: dict[Look, Strip] = {}

    def strip(self, y: int, look: Look, draw: Callable[[Look], Strip]) -> Strip:
        """The strip for a line of the screen; where it was scrolled here it is not made again."""
        self._looks[y] = look
        strip = self._strips.get(look)
        if strip is None:
            if len(self._strips) >= _MOST_STRIPS:
                self._strips.clear()
            strip = self._strips[look] = draw(look)
        return strip

    def refresh(self, look_of: Callable[[int], Look]) -> None:
        """Have those lines of the view drawn anew that look other than they were drawn."""
        region = self._view.scrollable_content_region
        lines = range(region.height)
        changed = [Region(0, y, region.width, 1) for y in lines if self._looks.get(y) != look_of(y)]
        if changed:
            self._view.refresh(*changed)

    def forget(self) -> None:
        """The styles are others now."""
        self._looks.clear()
        self._strips.clear()


def set_content_size(view: ScrollView, size: Size) -> None:
    """Say how large that is which a view shows. Where no scroll bar comes or goes nothing is laid out anew for it.

    Laying out the screen takes longer than all else that a key press does.
    """
    height = view.scrollable_content_region.height
    same_bar = height and view.show_vertical_scrollbar == (size.height > height)
    if not same_bar or size.width != view.virtual_size.width or view.styles.auto_dimensions:
        view.virtual_size = size
        return
    view.set_reactive(ScrollView.virtual_size, size)
    if view.show_vertical_scrollbar:
        view.vertical_scrollbar.window_virtual_size = size.height
    if view.scroll_offset.y > view.max_scroll_y:
        view.scroll_to(y=view.max_scroll_y, animate=False, force=True, immediate=True)


def bring_into_sight(view: ScrollView, index: int) -> None:
    """Scroll a view of lines no further than needed for one of them to be seen."""
    top, height = view.scroll_offset.y, view.scrollable_content_region.height
    if index < top:
        view.scroll_to(y=index, animate=False, force=True, immediate=True)
    elif height and index >= top + height:
        view.scroll_to(y=index - height + 1, animate=False, force=True, immediate=True)
