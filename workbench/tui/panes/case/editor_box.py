"""Where a value is typed: what it is, the text, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static, TextArea

from workbench.tui.panes.case.typed_text import TypedText
from workbench.tui.state.editor.draft import Draft, Form
from workbench.tui.state.editor.rows import Input
from workbench.tui.state.pieces import safe, safe_line

_LEAST_LINES = 3  # of a text that may have several


class EditorBox(Vertical):
    """A draft being typed. It shows what it is told and decides nothing."""

    @dataclass
    class Typed(Message):
        """The text is another now."""

        text: str

    def compose(self) -> ComposeResult:
        """Title, text, problem."""
        yield Static(id="editor-title")
        yield TypedText(id="editor-text", compact=True, show_line_numbers=False, highlight_cursor_line=False)
        yield Static(id="editor-problem")

    def show(self, draft: Draft) -> None:
        """Show a draft, to be typed on."""
        one_line = draft.is_one_line
        keys = "   enter applies" if one_line else ""  # the footer says what the other keys do
        form = "" if draft.slot.input is Input.JSON else f" · {draft.form}"  # the title says it there
        title = f"{safe_line(draft.slot.title, width=60)}{form}{keys}"
        self.query_one("#editor-title", Static).update(Content(title))
        text = self.query_one(TypedText)
        text.is_one_line = one_line
        if text.text != draft.text:
            with text.prevent(TextArea.Changed):
                text.load_text(draft.text)
            if draft.form is not Form.JSON:  # which is read from its beginning
                text.move_cursor(text.document.end)
        self.call_after_refresh(self._fit)  # once the text has its width

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

    def on_resize(self) -> None:
        """The text wraps at another width, or there is more or less room for it."""
        self._fit()

    def _fit(self) -> None:
        """Make the field as high as its text, up to two fifths of the screen."""
        text = self.query_one(TypedText)
        least = 1 if text.is_one_line else _LEAST_LINES
        most = max(self.screen.size.height * 2 // 5, 1)
        text.styles.height = min(max(text.wrapped_document.height, least), most)

    @on(TextArea.Changed)
    def _on_changed(self, message: TextArea.Changed) -> None:
        message.stop()
        self._fit()
        self.post_message(self.Typed(message.text_area.text))
