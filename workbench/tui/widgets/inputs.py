"""Inputs and bars: filter, find, tabs, the line of keys, and toasts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from textual import events, on
from textual.actions import parse
from textual.app import App, ComposeResult
from textual.binding import ActiveBinding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.dom import DOMNode
from textual.geometry import Size
from textual.message import Message
from textual.notifications import Notification
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, Label, Static

from workbench.model.text import pluralise
from workbench.tui.key_table import KEY_ACTIONS
from workbench.tui.keys import bindings
from workbench.tui.state.text_layout import KeyHint, Line, Style, StyledText, find_hint, fit_hints, make_hint_line, safe
from workbench.tui.widgets.row_lists import STYLE_CLASSES, strip_of

# A line in which the user writes what to look for.


class FindInput(Input):
    """Enter goes on with what is found, escape leaves the line."""

    PLACES: ClassVar[tuple[str, ...]] = ("finding",)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("finding")]

    @dataclass
    class Left(Message):
        """The user looks for nothing any more."""

    def action_leave(self) -> None:
        """Say that the user looks for nothing any more."""
        self.post_message(self.Left())


# The line in which the user writes which cases to list.


class FilterInput(FindInput):
    """Where it is written. Enter keeps the filter, escape ends it."""

    def __init__(self) -> None:
        super().__init__(placeholder="text in id, prompt or tool", compact=True, select_on_focus=False)

    def action_leave(self) -> None:
        """Empty the line and leave it."""
        self.value = ""
        super().action_leave()


class FilterLine(Vertical):
    """The line with its name before it and help below it: hidden while nothing is filtered."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.display = False
        self._help = ""

    def compose(self) -> ComposeResult:
        """The name, where to write, and what can be written."""
        with Horizontal():
            yield Label("filter:", markup=False)
            yield FilterInput()
        yield Static(Content(""), id="filter-help")

    @property
    def text(self) -> str:
        """What is written."""
        return self.query_one(FilterInput).value

    def open(self) -> None:
        """Show the line and let the user write."""
        self.display = True
        self.query_one(FilterInput).focus()

    def write(self, text: str) -> None:
        """Put a text in place of what is written."""
        self.display = bool(text)
        self.query_one(FilterInput).value = text

    def show_help(self, text: str, *, problem: bool) -> None:
        """Say below the line what can be written, or what is wrong with what is. The text is never parsed as markup."""
        line = self.query_one("#filter-help", Static)
        line.set_class(problem, "-problem")
        if text != self._help:  # another help lays out the screen anew
            self._help = text
            line.update(Content(text))

    def on_descendant_focus(self) -> None:
        """Help is there while something is written."""
        self.add_class("-writing")

    @on(FilterInput.Blurred)
    def _on_blurred(self, message: FilterInput.Blurred) -> None:
        self.remove_class("-writing")
        self.display = bool(message.value)


# The line of keys at the bottom of a screen or dialog. It tells only of keys that do something where the focus is.

_LAST = ("help",)
"""The ids of what is shown at the end, whatever else there is room for."""

_KEYS = {item.id: item.keys.split(",") for item in KEY_ACTIONS}
_IDS = [item.id for item in KEY_ACTIONS]


class KeyLine(Widget):
    """Keys from the focus outwards. A click on one is as good as pressing it."""

    COMPONENT_CLASSES: ClassVar[set[str]] = STYLE_CLASSES

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
        line = make_hint_line(self._shown) if y == 0 else ()
        return strip_of(self, line, width=self.size.width)

    async def on_click(self, event: events.Click) -> None:
        """Do what the key does."""
        index = find_hint(self._shown, event.x)
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


# The names of the panes in one line, with the one that is open standing out.

_LEAST_NAME = 4
"""Characters of a name below which it says nothing."""


class TabBar(Widget):
    """Tabs, numbered from 1."""

    COMPONENT_CLASSES: ClassVar[set[str]] = STYLE_CLASSES

    @dataclass
    class Chosen(Message):
        """The user clicked on the tab with this index."""

        index: int

    def __init__(self, names: Sequence[str], *, id: str) -> None:
        super().__init__(id=id)
        self._names = list(names)
        self._open = 0
        self._marked: Collection[int] = ()

    def show(self, index: int) -> None:
        """Let this tab stand out."""
        self._open = index
        self.refresh()

    def mark(self, indexes: Collection[int]) -> None:
        """Mark these tabs: what is in them is not saved."""
        if indexes != self._marked:
            self._marked = indexes
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw the line."""
        return strip_of(self, self._line if y == 0 else (), width=self.size.width)

    def on_click(self, event: events.Click) -> None:
        """A click opens a tab."""
        end = 0
        for index, piece in enumerate(self._line):
            end += len(piece.text)
            if event.x < end:
                self.post_message(self.Chosen(index))
                return

    @property
    def _line(self) -> Line:
        labels = labels_for(self._names, open_index=self._open, marked=self._marked, width=self.size.width)
        return tuple(StyledText(label, Style.TAB if i == self._open else Style.MUTED) for i, label in enumerate(labels))


def labels_for(names: Sequence[str], *, open_index: int, marked: Collection[int], width: int) -> list[str]:
    """What stands on the tabs: all of the names, else less of them, and where that is no help numbers alone.

    The number says which key opens a tab; the name of the one that is open is always whole.
    """
    marks = ["*" if index in marked else "" for index in range(len(names))]
    for least in range(max(map(len, names)), _LEAST_NAME - 1, -1):
        shown = [name if i == open_index else name[:least] for i, name in enumerate(names)]
        for gap in (" ", ""):
            labels = [f" {i} {name}{mark or gap}" for i, (name, mark) in enumerate(zip(shown, marks, strict=True), 1)]
            if sum(map(len, labels)) <= width:
                return labels
    numbers = [f" {i} {name}" if i - 1 == open_index else f" {i}" for i, name in enumerate(names, 1)]
    return [f"{label}{mark or ' '}" for label, mark in zip(numbers, marks, strict=True)]


# Which messages are shown over the screen at a time: each once, and no more than leave room for what is below them.

_LINES_FOR_ONE = 10
"""Lines of the terminal for each message: two messages if there are 24."""

_WEIGHT = {"information": 0, "warning": 1, "error": 2}


def make_room(app: App[None], shown: Sequence[Notification], coming: Notification) -> list[Notification]:
    """Let messages expire that may not be shown beside a coming one. Return those that may, with the coming one last.

    Textual removes an expired message when it shows the next one, but not what held it on the screen.
    """
    for screen in app.screen_stack:
        for holder in screen.query("ToastHolder"):
            if holder.is_mounted and not holder.children:
                holder.remove()
    shown = [notification for notification in shown if not notification.has_expired]
    outdated = outdated_by(coming, shown, most=max(app.size.height // _LINES_FOR_ONE, 1))
    for notification in outdated:
        notification.timeout = 0
    return [*(notification for notification in shown if notification not in outdated), coming]


def outdated_by(coming: Notification, standing: Sequence[Notification], *, most: int) -> Sequence[Notification]:
    """The same message, and of others, where they were more than `most` with it, the least grave, the oldest first."""
    same = [each for each in standing if (each.title, each.message) == (coming.title, coming.message)]
    others = sorted((each for each in standing if each not in same), key=lambda each: _WEIGHT[each.severity])
    return [*same, *others[: max(len(others) + 1 - most, 0)]]


# Short messages over the screen.

Severity = Literal["information", "warning", "error"]


def say(widget: Widget | App[None], message: str, *, severity: Severity = "information") -> None:
    """Show a message for some seconds. Its text may come from outside."""
    widget.notify(safe(message), severity=severity, markup=False, timeout=10)


def copy(widget: Widget, text: str | None) -> None:
    """Copy a text and say so, or that there is none."""
    if not text:
        say(widget, "there is nothing to copy here", severity="warning")
        return
    widget.app.copy_to_clipboard(text)
    say(widget, f"copied {pluralise(len(text), 'character')}")
