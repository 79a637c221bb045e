"""Lines without a border: the keys of a screen or dialog with its messages, a status, and the names of panes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from textual import events
from textual.actions import parse
from textual.app import App
from textual.binding import ActiveBinding
from textual.dom import DOMNode
from textual.geometry import Size
from textual.message import Message
from textual.screen import Screen
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input

from workbench.model.text import pluralise
from workbench.store.errors import StoreError
from workbench.tui.keys import KEY_ACTIONS, find_character
from workbench.tui.state.problem_list import Severity
from workbench.tui.state.text_layout import (
    KeyHint,
    Line,
    Style,
    StyledText,
    cut_line,
    cut_parts,
    find_hint,
    fit_hints,
    make_hint_line,
    measure_line,
    safe,
    safe_line,
)
from workbench.tui.widgets.inputs import Filtering, FilterInput
from workbench.tui.widgets.row_lists import RowsAndText, make_strip

# The line of keys at the bottom of a screen or dialog: only keys that have an effect at the current focus. Messages
# appear in it too, before the keys, so that they cover nothing else.

DECISION = "needs a decision"
"""The title of messages that are shown as a toast although nothing went wrong."""

_MESSAGE_SECONDS = 6.0
_WHOLE_MESSAGE = "  ! all "  # after a message that is cut: the key that lists messages in full
_LEAST_ROOM = 24  # cells that a message needs at least; in a shorter line it is shown without keys
_UNREAD_SECONDS = 1.0  # within which a message that is replaced counts as unread

_LAST = ("help",)
"""Ids of the keys that are always shown, at the end."""

_MESSAGE_STYLES: dict[Severity, Style] = {
    "information": Style.STRONG,
    "warning": Style.WARNING,
    "error": Style.ERROR,
}
_KEYS = {item.id: item.keys.split(",") for item in KEY_ACTIONS}
_IDS = [item.id for item in KEY_ACTIONS]


class KeyLine(Widget):
    """Keys from the focus outwards, after a message if there is one. A click on a key has the effect of the key."""

    def __init__(self, *, enter: str = "", first: Sequence[str] = ()) -> None:
        """Make the line. `enter` names the effect of the enter key in lists and inputs."""
        super().__init__()
        self._enter = enter
        self._order = {identity: place for place, identity in enumerate(dict.fromkeys((*first, *_IDS)))}
        self._hints: dict[KeyHint, ActiveBinding | None] = {}  # None: the enter key
        self._message: Line = ()
        self._message_timer: Timer | None = None
        self._message_since = 0.0
        self._is_outdated = False  # the keys will be updated soon
        self._unread = 0  # messages that were replaced before they could be read

    def on_mount(self) -> None:
        """Update the line when the active keys change."""
        self.screen.bindings_updated_signal.subscribe(self, self._update_soon, immediate=True)
        self._update_hints()

    def get_content_width(self, container: Size, viewport: Size) -> int:  # noqa: ARG002
        return measure_line(self._message) + sum(hint.width + 2 for hint in self._hints) + 1

    def show_message(self, text: str, severity: Severity) -> None:
        """Show a message for some seconds; without a text, remove the message.

        A message that replaces another one at once has the number of those that could not be read.
        """
        if self._message_timer is not None:
            self._message_timer.stop()
            self._message_timer = None
        if text:
            now = time.monotonic()
            self._unread = self._unread + 1 if self._message and now - self._message_since < _UNREAD_SECONDS else 0
            self._message_since = now
            unread = f"({self._unread} more: !) " if self._unread else ""
            self._message = (
                StyledText(f" {safe_line(text)} ", _MESSAGE_STYLES[severity]),
                StyledText(f"{unread} ", Style.MUTED),
            )
            self._message_timer = self.set_timer(_MESSAGE_SECONDS, lambda: self.show_message("", severity))
        else:
            self._message = ()
        self.refresh(layout=self.styles.is_auto_width)

    def render_line(self, y: int) -> Strip:
        line = (*self._shown_message, *make_hint_line(self._visible_hints)) if y == 0 else ()
        return make_strip(self, line, width=self.size.width)

    async def on_click(self, event: events.Click) -> None:
        index = find_hint(self._visible_hints, event.x - measure_line(self._shown_message))
        if index is None:
            return
        active = self._hints[self._visible_hints[index]]
        if active is None:
            self.app.simulate_key("enter")
        else:
            await self.app.run_action(active.binding.action, active.node)

    @property
    def _visible_hints(self) -> Sequence[KeyHint]:
        last = self._last_hints
        hints = [hint for hint in self._hints if hint not in last]
        width = self.size.width - measure_line(self._shown_message)
        is_room = not self._message or width > sum(hint.width + 2 for hint in last)
        return fit_hints(hints, last, width=width) if is_room else ()

    @property
    def _last_hints(self) -> Sequence[KeyHint]:
        return [hint for hint, active in self._hints.items() if active and active.binding.id in _LAST]

    @property
    def _shown_message(self) -> Line:
        """The message, cut if it does not fit before the last keys; `!` then opens the list with the whole text."""
        room = self.size.width - 1 - sum(hint.width + 2 for hint in self._last_hints)
        room = room if room >= _LEAST_ROOM else self.size.width
        if measure_line(self._message) <= room:
            return self._message
        lists_messages = any(each.binding.id == "problems_pane" for each in self.screen.active_bindings.values())
        more = StyledText(_WHOLE_MESSAGE if lists_messages else " ", Style.MUTED)
        return (*cut_line(self._message[:1], room - measure_line((more,))), more)

    def _update_soon(self, screen: Screen[object]) -> None:  # noqa: ARG002
        """Update the keys after the screen was drawn: a change of the focus sends the signal several times."""
        self._is_outdated = True
        self.call_after_refresh(self._update_if_outdated)  # each time, because a screen that closes calls nothing

    def _update_if_outdated(self) -> None:
        if self._is_outdated and self.is_attached:
            self._update_hints()

    def _update_hints(self) -> None:
        self._is_outdated = False
        screen = self.screen
        enter = self._enter if self._enter and not _ignores_enter(screen) else ""
        field = screen.focused if isinstance(screen.focused, Input) else None
        found: dict[KeyHint, ActiveBinding | None] = {KeyHint("⏎", enter): None} if enter else {}
        groups: dict[tuple[DOMNode, str], list[ActiveBinding]] = {}
        for active in screen.active_bindings.values():
            if (enter and active.binding.key == "enter") or _is_typed(active.binding.key, field):
                continue
            is_shown = active.binding.show and is_offered(active.node, active.binding.action)
            if active.enabled and (is_shown or _is_leading(active)):
                groups.setdefault((active.node, active.binding.action), []).append(active)
        nodes = list(dict.fromkeys(node for node, _ in groups))  # from the focus outwards
        for group in sorted(
            groups.values(),
            key=lambda group: (
                not _is_leading(group[0]),
                nodes.index(group[0].node),
                self._rank_binding(group[0]),
            ),
        ):
            active = min(group, key=_rank_key)
            found[KeyHint(self.app.get_key_display(active.binding), _describe_action(active))] = active
        if list(found) != list(self._hints):
            self.refresh(layout=self.styles.is_auto_width)
        self._hints = found

    def _rank_binding(self, active: ActiveBinding) -> int:
        """Rank the more useful actions of a place first."""
        return self._order.get(active.binding.id or "", len(self._order))


def _is_typed(key: str, field: Input | None) -> bool:
    """Return True if the focused input takes the key as text. Textual does not know this of `slash`."""
    return field is not None and field.check_consume_key(key, find_character(key))


def _ignores_enter(screen: Screen[object]) -> bool:
    """True if the enter key opens no row: it only keeps the filter that the user types, or there are no rows."""
    is_typed = isinstance(screen.focused, FilterInput)
    keeps_filter = is_typed and getattr(type(screen), "enter_filtered", None) is Filtering.enter_filtered
    return keeps_filter or any(not body.has_rows for body in screen.query(RowsAndText))


def is_offered(node: DOMNode, action: str) -> bool:
    """True if keys and palette may name an action of `node`; a node can hide actions that are available."""
    offers = getattr(node, "offers", None)
    return offers is None or offers(parse(action)[1])


def _is_leading(active: ActiveBinding) -> bool:
    """True if a node wants this key before all others, as long as its state lasts."""
    leads = getattr(active.node, "leads", None)
    return leads is not None and leads(parse(active.binding.action)[1])


def _describe_action(active: ActiveBinding) -> str:
    """Return the name of an action: that of its key, unless the node has one for its present state."""
    name_action = getattr(active.node, "name_action", None)
    name = name_action(parse(active.binding.action)[1]) if name_action is not None else ""
    return name or active.binding.description


def _rank_key(active: ActiveBinding) -> int:
    """Rank keys with the same action: the one named first is shown."""
    names = _KEYS.get(active.binding.id or "", ())
    return names.index(active.binding.key) if active.binding.key in names else 0


# A line of pieces of text.


class StatusLine(Widget):
    """One line of pieces."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._line: Line = ()

    def show(self, line: Line) -> None:
        if line != self._line:
            self._line = line
            self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        return make_strip(self, cut_parts(self._line, width) if y == 0 else (), width=width)


# The names of the panes in one line, with the open one highlighted.


class TabBar(Widget):
    """Tabs, numbered from 1."""

    @dataclass
    class Chosen(Message):
        """The user clicked on the tab with this index."""

        index: int

    def __init__(self, names: Sequence[str], *, id: str) -> None:
        super().__init__(id=id)
        self._names = list(names)
        self.open_index: int | None = 0

    def show(self, index: int | None) -> None:
        """Highlight this tab; none if the index is None."""
        if index != self.open_index:
            self.open_index = index
            self.refresh()

    def render_line(self, y: int) -> Strip:
        labels = enumerate(self.list_labels() if y == 0 else ())
        line = tuple(StyledText(label, Style.TAB if i == self.open_index else Style.MUTED) for i, label in labels)
        return make_strip(self, line, width=self.size.width)

    def on_click(self, event: events.Click) -> None:
        end = 0
        for index, label in enumerate(self.list_labels()[: len(self._names)]):
            end += len(label)
            if event.x < end:
                self.post_message(self.Chosen(index))
                return

    def list_labels(self) -> Sequence[str]:
        """List the labels of the tabs for the width of the line."""
        return shorten_labels(self._names, open_index=self.open_index, width=self.size.width)


def shorten_labels(names: Sequence[str], *, open_index: int | None, width: int) -> list[str]:
    """Return the labels of the tabs: all names if they fit, with fewer blanks or without numbers, else only some names.

    The number is the key that opens the tab. The open tab always has both; the last names are left out first.
    """
    bare = [f" {i + 1}{name}" if i == open_index else f" {name}" for i, name in enumerate(names)]
    labels: list[str] = []
    for named in range(len(names), -1, -1):
        for blank, end in ((" ", " "), (" ", ""), ("", "")):
            labels = [
                f" {i}{blank}{name}{end}" if i <= named or i - 1 == open_index else f" {i}{end}"
                for i, name in enumerate(names, 1)
            ]
            if sum(map(len, labels)) <= width:
                return labels
        if named == len(names) and sum(map(len, bare)) <= width:
            return bare
    return labels


# Messages to the user.


def say(
    widget: Widget | App[None] | App[object],
    message: str,
    *,
    severity: Severity = "information",
    needs_decision: bool = False,
) -> None:
    """Show a message: an error, and what needs a decision, as a toast, anything else in the line of keys.

    The text may come from outside; it is never parsed as markup.
    """
    widget.notify(safe(message), title=DECISION if needs_decision else "", severity=severity, markup=False)


@contextmanager
def report_errors(widget: Widget, *kinds: type[Exception]) -> Iterator[None]:
    """Show an error of the store, or one of these `kinds`, as a message. What follows it in the block is left out."""
    caught: tuple[type[Exception], ...] = (StoreError, *kinds)
    try:
        yield
    except caught as error:
        say(widget, str(error), severity="error")


def copy(widget: Widget, text: str | None) -> None:
    """Copy a text to the clipboard and show a message; show a warning if there is no text."""
    if not text:
        say(widget, "there is nothing to copy here", severity="warning")
        return
    widget.app.copy_to_clipboard(text)
    say(widget, f"copied {pluralise(len(text), 'character')}")
