"""Help: every key, and what the symbols stand for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from workbench.tui.keymap import KEY_ACTIONS, Where, keys_of
from workbench.tui.state.standing import Standing, look_of

_PLACES: tuple[tuple[Where, str], ...] = (
    ("screen", "Everywhere"),
    ("app", ""),
    ("list", "In the eval sets"),
    ("pane", "In the case"),
)
_KEY_WIDTH = 26


class HelpScreen(ModalScreen[None]):
    """The keys as they are now, remapped ones too."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,q,enter", "dismiss", "close")]

    def __init__(self, keymap: Mapping[str, str]) -> None:
        super().__init__()
        self._keymap = keymap

    def compose(self) -> ComposeResult:
        """One scrolling text."""
        with VerticalScroll(classes="dialog dialog-tall"):
            yield Static(Content("\n".join(self._lines())))

    def _lines(self) -> Iterator[str]:
        for where, title in _PLACES:
            if title:
                yield f"\n{title}" if where != "screen" else title
            for item in KEY_ACTIONS:
                if item.where == where:
                    yield f"  {keys_of(item, self._keymap):<{_KEY_WIDTH}}{item.help}"
        yield "\nWhat the symbols mean"
        for standing in Standing:
            look = look_of(standing)
            yield f"  {look.symbol:<{_KEY_WIDTH}}{look.word}"
        yield "\nKeys are changed in [keys] of workbench.toml, by these names:"
        yield "  " + ", ".join(item.id for item in KEY_ACTIONS)
        yield "\nescape closes this."
