"""What all screens over the main one have in common: each closes once, whatever is typed while it closes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from typing import Any, TypeVar

from textual import on
from textual.app import App
from textual.await_complete import AwaitComplete
from textual.command import CommandList, CommandPalette
from textual.dom import DOMNode
from textual.events import ScreenResume
from textual.message_pump import MessagePump
from textual.screen import ModalScreen, Screen

from workbench.tui.panes.pane import Pane

Result = TypeVar("Result")

_LONGEST_BUILD = 5.0  # seconds, after which keys are handled all the same
_MOMENT = 0.005


class ResultScreen(Screen[Result]):
    """A screen that can be dismissed at any time and any number of times: the first result counts.

    Textual pops whatever screen is on top. Keys that are typed faster than a screen goes away, and work that ends
    while another screen covers this one, would otherwise close a screen that is not theirs.
    """

    _is_dismissed = False
    _pending: tuple[Result | None] | None = None  # the result, while another screen covers this one

    def dismiss(self, result: Result | None = None) -> AwaitComplete:
        """Close with this result, once nothing covers the screen; do nothing if it was closed before."""
        if self._is_dismissed or self not in self.app.screen_stack:
            return AwaitComplete()
        if not self.is_active:
            self._pending = self._pending or (result,)
            return AwaitComplete()
        self._is_dismissed = True
        return super().dismiss(result)

    @on(ScreenResume)
    def _dismiss_uncovered(self) -> None:
        if self._pending is not None:
            self.dismiss(*self._pending)


class Dialog(ModalScreen[Result], ResultScreen[Result]):
    """A modal screen: what it covers stays visible around it, and hears no keys."""


class Palette(CommandPalette, Dialog[None]):
    """Textual's list of commands."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Refuse keys for a list without a place on the screen.

        Until then Textual (8.2.8, `OptionList._update_lines`) knows no lines of it, and a page up or down looks one up
        in vain. No other `OptionList` is in use.
        """
        if action == "command_list":
            return any(commands.scrollable_content_region for commands in self.query(CommandList))
        return super().check_action(action, parameters)


async def wait_until_built(app: App[Any]) -> None:
    """Wait until the screen on top has all its widgets: keys for it may follow at once on those that opened it."""
    until = time.monotonic() + _LONGEST_BUILD
    while app.screen_stack and _is_being_built(app.screen) and time.monotonic() < until:  # noqa: ASYNC110
        await asyncio.sleep(_MOMENT)


def _is_being_built(screen: Screen[Any]) -> bool:
    return not screen.is_mounted or any(not pane.is_mounted for pane in screen.query(Pane))


def is_leaving(node: MessagePump, screens: Collection[Screen[object]]) -> bool:
    """Return True if a widget was removed, or is on a screen that was closed: not one of `screens`.

    Such a widget may still have work to end, without its children: these go before it does.
    """
    if not isinstance(node, DOMNode) or node.is_dom_root:
        return False
    around = node.ancestors_with_self
    screen = next((each for each in around if isinstance(each, Screen)), None)
    return screen not in screens or any(each._pruning for each in around)
