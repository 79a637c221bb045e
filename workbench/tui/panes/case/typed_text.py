"""The text field of the editor, with the keys that there are while a value is typed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.message import Message
from textual.widgets import TextArea

from workbench.tui.keys import bindings


class TypedText(TextArea):
    """The text that is typed. It says what the user wants done with it."""

    # The keys are this widget's own, for some of them are those that a text area has for something else.
    PLACES: ClassVar[tuple[str, ...]] = ("typing",)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("typing")]

    @dataclass
    class ApplyWanted(Message):
        """The user wants the value put into the case and, where `then_save`, the set saved."""

        then_save: bool = False

    @dataclass
    class FormWanted(Message):
        """The user wants another type of value."""

    @dataclass
    class OriginalWanted(Message):
        """The user wants the text as it was."""

    @dataclass
    class ExternalWanted(Message):
        """The user wants to type in their own editor."""

    @dataclass
    class Left(Message):
        """The user goes back to the rows."""

    is_one_line = False  # enter applies the value then

    async def _on_key(self, event: events.Key) -> None:
        """Textual's own, which inserts what is typed: a handler beside it would come too late to keep it from that."""
        if event.key == "enter" and self.is_one_line:
            event.stop()
            event.prevent_default()
            self.post_message(self.ApplyWanted())
        elif event.key != "escape":  # with which a text area moves the focus
            await super()._on_key(event)

    def action_apply(self) -> None:
        """Put the value into the case."""
        self.post_message(self.ApplyWanted())

    def action_apply_and_save(self) -> None:
        """Put the value into the case and save the set."""
        self.post_message(self.ApplyWanted(then_save=True))

    def action_next_form(self) -> None:
        """Another type of value."""
        self.post_message(self.FormWanted())

    def action_original(self) -> None:
        """The text as it was."""
        self.post_message(self.OriginalWanted())

    def action_external(self) -> None:
        """Type in the user's own editor."""
        self.post_message(self.ExternalWanted())

    def action_leave(self) -> None:
        """Back to the rows."""
        self.post_message(self.Left())
