"""Help: what can be done where the focus is, and what the symbols stand for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from workbench.tui.key_table import KEY_ACTIONS, PLACES, KeyPlace
from workbench.tui.keys import bindings, keys_of
from workbench.tui.screens.dialog import Dialog
from workbench.tui.state.blocks import BLANK, Block, Whole
from workbench.tui.state.pieces import Piece, Tone
from workbench.tui.state.standing import EDITED, MARKED, PARTLY_JUDGED, STALE, Standing, look_of
from workbench.tui.widgets.key_line import KeyLine
from workbench.tui.widgets.lines_view import LinesView

_KEY_WIDTH = 24


class HelpScreen(Dialog[None]):
    """What the focused pane is for, and the keys as they are now, remapped ones too."""

    PLACES: ClassVar[tuple[str, ...]] = ("help",)
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings("help"),
        Binding("question_mark,f1", "close", show=False, id="help"),  # what opens it closes it
    ]

    def __init__(self, helps: Sequence[str], places: Sequence[KeyPlace], *, keymap: Mapping[str, str]) -> None:
        super().__init__()
        self._helps = helps
        self._places = places
        self._keymap = keymap

    def compose(self) -> ComposeResult:
        """One scrolling text."""
        with Vertical(classes="dialog dialog-tall"):
            yield LinesView()
            yield KeyLine()

    def on_mount(self) -> None:
        """Show it."""
        view = self.query_one(LinesView)
        view.show_blocks(tuple(self._blocks()), from_top=True)
        view.focus()

    def action_close(self) -> None:
        """Back to where one was."""
        self.dismiss(None)

    def _blocks(self) -> Iterator[Block]:
        for text in self._helps:
            yield Whole.of(text)
            yield BLANK
        # What is shared by many places comes after what this one has for itself.
        for place in sorted(self._places, key=lambda place: place in (PLACES["rows"], PLACES["lines"])):
            yield Whole.of(place.title, Tone.HEADING)
            for item in place.actions:
                yield _row(keys_of(item, self._keymap), item.help)
            yield BLANK
        yield Whole.of("What the symbols mean", Tone.HEADING)
        for look in (*map(look_of, Standing), STALE, PARTLY_JUDGED, MARKED, EDITED):
            yield Whole((Piece(f"{look.symbol:<{_KEY_WIDTH}}", look.tone), Piece(look.word)), indent=2)
        yield BLANK
        yield Whole.of("Keys are changed in [keys] of workbench.toml, by these names:", Tone.HEADING)
        yield Whole.of(", ".join(item.id for item in KEY_ACTIONS), indent=2)


def _row(keys: str, what: str) -> Whole:
    return Whole((Piece(f"{keys:<{_KEY_WIDTH - 1}} ", Tone.KEY), Piece(what)), indent=2, hang=_KEY_WIDTH)
