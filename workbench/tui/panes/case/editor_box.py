"""Where a value is typed: what it is, the text, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static, TextArea

from workbench.tui.keys import bindings
from workbench.tui.state.editor.draft import Draft
from workbench.tui.state.pieces import safe, safe_line


class TypedText(TextArea):
    """The text. Enter is said to the box where the text has one line."""

    @dataclass
    class Entered(Message):
        """The user pressed enter on a single line."""

    is_one_line = False

    async def _on_key(self, event: events.Key) -> None:
        if event.key == "enter" and self.is_one_line:
            event.stop()
            event.prevent_default()
            self.post_message(self.Entered())
        elif event.key != "escape":  # which would move the focus; here it leaves the box
            await super()._on_key(event)


class EditorBox(Vertical):
    """A draft being typed. It says what the user does and shows what it is told; it decides nothing."""

    PLACES: ClassVar[tuple[str, ...]] = ("typing",)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("typing")]

    @dataclass
    class Typed(Message):
        """The text is another now."""

        text: str

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

    def compose(self) -> ComposeResult:
        """Title, text, problem."""
        yield Static(id="editor-title")
        yield TypedText(id="editor-text", compact=True, show_line_numbers=False, highlight_cursor_line=False)
        yield Static(id="editor-problem")

    def show(self, draft: Draft) -> None:
        """Show a draft, to be typed on."""
        one_line = draft.is_one_line
        keys = "enter applies" if one_line else "ctrl+j applies"
        title = f"{safe_line(draft.slot.title, width=60)} · {draft.form}   {keys}, escape leaves"
        self.query_one("#editor-title", Static).update(Content(title))
        text = self.query_one(TypedText)
        text.is_one_line = one_line
        text.set_class(one_line, "-one-line")
        if text.text != draft.text:
            with text.prevent(TextArea.Changed):
                text.load_text(draft.text)
                text.move_cursor(text.document.end)

    def show_problem(self, problem: str) -> None:
        """Say what is wrong with the text; nothing where it is right."""
        self.query_one("#editor-problem", Static).update(Content(f"! {safe(problem)}" if problem else ""))
        self.set_class(bool(problem), "-wrong")

    def focus_text(self) -> None:
        """Go on typing."""
        self.query_one(TypedText).focus()

    @property
    def text(self) -> str:
        """What is typed."""
        return self.query_one(TypedText).text

    @on(TextArea.Changed)
    def _on_changed(self, message: TextArea.Changed) -> None:
        message.stop()
        self.post_message(self.Typed(message.text_area.text))

    @on(TypedText.Entered)
    def _on_entered(self, message: TypedText.Entered) -> None:
        message.stop()
        self.post_message(self.ApplyWanted())

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
