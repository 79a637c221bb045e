"""The line of keys at the bottom of a screen or dialog. It tells only of keys that do something where the focus is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.actions import parse
from textual.binding import ActiveBinding
from textual.dom import DOMNode
from textual.geometry import Size
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from workbench.tui.key_table import KEY_ACTIONS
from workbench.tui.state.key_line import KeyHint, fit_hints, hint_at, line_of_hints
from workbench.tui.widgets.lines import TONE_CLASSES, strip_of

_LAST = ("help",)
"""The ids of what is shown at the end, whatever else there is room for."""

_KEYS = {item.id: item.keys.split(",") for item in KEY_ACTIONS}
_IDS = [item.id for item in KEY_ACTIONS]


class KeyLine(Widget):
    """Keys from the focus outwards. A click on one is as good as pressing it."""

    COMPONENT_CLASSES: ClassVar[set[str]] = TONE_CLASSES

    def __init__(self, *, enter: str = "", first: Sequence[str] = ()) -> None:
        """`enter` says what the enter key does here, where the lists and inputs of Textual's or ours hear it.

        The actions with the ids in `first` stand before the others of their place.
        """
        super().__init__()
        self._enter = enter
        self._order = {identity: place for place, identity in enumerate(dict.fromkeys((*first, *_IDS)))}
        self._hints: dict[KeyHint, ActiveBinding | None] = {}  # None: the enter key

    def on_mount(self) -> None:
        """Follow what can be pressed."""
        self.screen.bindings_updated_signal.subscribe(self, self._look_again)
        self._look_again(self.screen)

    def get_content_width(self, container: Size, viewport: Size) -> int:  # noqa: ARG002
        """As much as all keys need."""
        return sum(hint.width + 2 for hint in self._hints) + 1

    def render_line(self, y: int) -> Strip:
        """Draw the line."""
        line = line_of_hints(self._shown) if y == 0 else ()
        return strip_of(self, line, width=self.size.width)

    async def on_click(self, event: events.Click) -> None:
        """Do what the key does."""
        index = hint_at(self._shown, event.x)
        if index is None:
            return
        active = self._hints[self._shown[index]]
        if active is None:
            self.app.simulate_key("enter")
        else:
            await self.app.run_action(active.binding.action, active.node)

    @property
    def _shown(self) -> Sequence[KeyHint]:
        last = [hint for hint, active in self._hints.items() if active and active.binding.id in _LAST]
        hints = [hint for hint in self._hints if hint not in last]
        return fit_hints(hints, last, width=self.size.width)

    def _look_again(self, screen: Screen[object]) -> None:
        if screen is not self.screen:
            return
        found: dict[KeyHint, ActiveBinding | None] = {KeyHint("⏎", self._enter): None} if self._enter else {}
        groups: dict[tuple[DOMNode, str], list[ActiveBinding]] = {}
        for active in screen.active_bindings.values():
            if active.binding.show and active.enabled and is_offered(active.node, active.binding.action):
                groups.setdefault((active.node, active.binding.action), []).append(active)
        nodes = list(dict.fromkeys(node for node, _ in groups))  # from the focus outwards
        for group in sorted(groups.values(), key=lambda group: (nodes.index(group[0].node), self._place(group[0]))):
            active = min(group, key=_rank)
            found[KeyHint(self.app.get_key_display(active.binding), active.binding.description)] = active
        if list(found) != list(self._hints):
            self.refresh(layout=self.styles.is_auto_width)
        self._hints = found

    def _place(self, active: ActiveBinding) -> int:
        """What is more useful stands before what is less among the actions of a place."""
        return self._order.get(active.binding.id or "", len(self._order))


def is_offered(node: DOMNode, action: str) -> bool:
    """Whether a key or the palette is to name an action of `node`; those with keys may know better than yes."""
    offers = getattr(node, "offers", None)
    return offers is None or offers(parse(action)[1])


def _rank(active: ActiveBinding) -> int:
    """Of several keys that do the same the one that is named first is shown."""
    names = _KEYS.get(active.binding.id or "", ())
    return names.index(active.binding.key) if active.binding.key in names else 0
