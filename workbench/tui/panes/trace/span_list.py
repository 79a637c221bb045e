"""The tree of steps, as rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.binding import BindingType

from workbench.tui.keys import bindings
from workbench.tui.widgets.row_list import RowList


class SpanList(RowList):
    """Rows that can be folded."""

    PLACES: ClassVar[tuple[str, ...]] = ("trace_tree", "rows")
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("trace_tree")]

    @dataclass
    class FoldWanted(RowList._OfList):
        """The user wants to `fold`, `unfold`, `fold_all` or `unfold_all`."""

        how: str

    @dataclass
    class Resized(RowList._OfList):
        """The rows have another width now."""

    def on_resize(self) -> None:
        """What stands above the rows has to follow."""
        self.post_message(self.Resized(self))

    def action_fold(self, how: str) -> None:
        """Say what the user wants."""
        self.post_message(self.FoldWanted(self, how))
