"""Parts of a screen that work for it and show nothing."""

from __future__ import annotations

from typing import ClassVar

from textual.widget import Widget


class Faceless(Widget):
    """Has workers, timers and messages as a widget does, and no place on the screen."""

    DEFAULT_CSS: ClassVar[str] = "Faceless { display: none; }"
