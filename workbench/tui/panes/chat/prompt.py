"""The input of the chat: enter sends, up and down bring back what was said before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.binding import BindingType
from textual.message import Message
from textual.widgets import TextArea

from workbench.tui.keys import bindings


class Prompt(TextArea):
    """Some lines of text to be said."""

    PLACES: ClassVar[tuple[str, ...]] = ("chat_prompt",)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("chat_prompt")]

    @dataclass
    class Sent(Message):
        """The user wants to say what stands in the input."""

        text: str

    @dataclass
    class EarlierWanted(Message):
        """The user wants to see what was said before what stands in the input."""

    @dataclass
    class LaterWanted(Message):
        """The user wants to see what was said after what stands in the input."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, compact=True, placeholder="say something; enter sends, ctrl+j makes a new line")

    def show(self, text: str) -> None:
        """Replace what stands in the input, with the cursor behind it."""
        if text != self.text:
            self.load_text(text)
            self.move_cursor(self.document.end)

    def action_send(self) -> None:
        """Say it."""
        self.post_message(self.Sent(self.text))

    def action_new_line(self) -> None:
        """Break the line."""
        self.insert("\n")

    def action_earlier(self) -> None:
        """In the first line go back in what was said, else go up."""
        if self._row == 0:
            self.post_message(self.EarlierWanted())
        else:
            self.action_cursor_up()

    def action_later(self) -> None:
        """In the last line go forward in what was said, else go down."""
        if self._row >= self.wrapped_document.height - 1:
            self.post_message(self.LaterWanted())
        else:
            self.action_cursor_down()

    @property
    def _row(self) -> int:
        """The row of the cursor, as the text is wrapped."""
        return self.wrapped_document.location_to_offset(self.cursor_location).y
