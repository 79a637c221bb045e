"""A question that is answered by choosing one of several lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from workbench.tui.keys import dialog_bindings
from workbench.tui.screens.dialog import Dialog
from workbench.tui.state.cursor import CursorRows
from workbench.tui.state.pieces import Line, Piece, safe, safe_line
from workbench.tui.widgets.key_line import KeyLine
from workbench.tui.widgets.row_list import RowList

_AROUND_LIST = 7  # border and padding of the dialog, the keys, a blank line on both sides of the list


class _Choices(CursorRows):
    """The lines to choose from."""

    def __init__(self, choices: Sequence[str], cursor: int) -> None:
        self._choices = choices
        self.cursor = cursor

    def __len__(self) -> int:
        return len(self._choices)

    def line(self, index: int, width: int) -> Line:
        """One choice."""
        return (Piece(f" {safe_line(self._choices[index], width=max(width - 2, 1))}"),)


class ChooseScreen(Dialog[int | None]):
    """Gives the index of the chosen line, None where the user changes their mind. There must be a choice."""

    PLACES: ClassVar[tuple[str, ...]] = ("choose",)
    BINDINGS: ClassVar[list[BindingType]] = [*dialog_bindings("choose")]

    def __init__(self, question: str, choices: Sequence[str], *, chosen: int = 0) -> None:
        super().__init__()
        self._question = question
        self._choices = _Choices(choices, chosen)

    def compose(self) -> ComposeResult:
        """The question and the lines."""
        with Vertical(classes="dialog dialog-wide"):
            yield Static(Content(safe(self._question)))
            yield RowList()
            yield KeyLine(enter="choose")

    def on_mount(self) -> None:
        """The list is as high as its lines, as far as there is room."""
        rows = self.query_one(RowList)
        rows.styles.height = min(len(self._choices), 3)
        rows.focus()
        rows.show(self._choices)

    def on_resize(self) -> None:
        """Question, list and keys share the height."""
        self.call_after_refresh(self._share_height)

    def _share_height(self) -> None:
        room = self.size.height * 9 // 10 - self.query_one(Static).size.height - _AROUND_LIST
        self.query_one(RowList).styles.height = min(len(self._choices), max(room, 3))

    @on(RowList.Steered)
    def _on_steered(self, message: RowList.Steered) -> None:
        message.steer(self._choices)
        self.query_one(RowList).show(self._choices)

    @on(RowList.Entered)
    def _on_entered(self) -> None:
        self.dismiss(self._choices.cursor)

    def action_cancel(self) -> None:
        """Close without a choice."""
        self.dismiss(None)
