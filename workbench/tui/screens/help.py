"""Help: every key, and what the symbols stand for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from workbench.tui.keys import KEY_ACTIONS, KeyPlace, keys_of
from workbench.tui.state.standing import Standing, look_of

_KEY_WIDTH = 26


class HelpScreen(ModalScreen[None]):
    """What can be done where the focus is: what the pane is for, and its keys as they are now, remapped ones too."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q,enter", "dismiss", "close"),
    ]

    def __init__(self, helps: Sequence[str], places: Sequence[KeyPlace], *, keymap: Mapping[str, str]) -> None:
        super().__init__()
        self._helps = helps
        self._places = places
        self._keymap = keymap

    def compose(self) -> ComposeResult:
        """One scrolling text."""
        with VerticalScroll(classes="dialog dialog-tall"):
            yield Static(Content("\n".join(self._lines())))

    def _lines(self) -> Iterator[str]:
        for text in self._helps:
            yield text
            yield ""
        for place in self._places:
            yield place.title
            for item in place.actions:
                yield f"  {keys_of(item, self._keymap):<{_KEY_WIDTH}}{item.help}"
            yield ""
        yield "What the symbols mean"
        for standing in Standing:
            look = look_of(standing)
            yield f"  {look.symbol:<{_KEY_WIDTH}}{look.word}"
        yield "\nKeys are changed in [keys] of workbench.toml, by these names:"
        yield "  " + ", ".join(item.id for item in KEY_ACTIONS)
        yield "\nescape closes this."
