"""Small dialogs: rows to mark, text question, choice, confirmation, help, and the questions for a new agent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from textual import on
from textual.app import App, ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.dom import DOMNode
from textual.events import Key, ScreenResume
from textual.message_pump import MessagePump
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Input, Static

from workbench.store import settings
from workbench.store.errors import FileChanged, StoreError, shown_path
from workbench.store.files import derive_set_name
from workbench.store.project_discovery import NewSets
from workbench.store.settings import LOCATIONS, NewTarget, check_target, get_default_eval_sets
from workbench.tui.keys import KEY_ACTIONS, PLACES, KeyPlace, bindings, keys_of
from workbench.tui.screen_context import DocumentsChanged, Pane, ProjectChanged, SaveWanted, ScreenContext
from workbench.tui.state.case_filter import problem_of_set_name, propose_set_name, warning_of_set_name
from workbench.tui.state.case_status import EDITED, MARKED, PARTLY_JUDGED, REPLAYED, STALE, Badge, CaseState, get_badge
from workbench.tui.state.finder import FilteredRows, FinderPattern, fold
from workbench.tui.state.text_layout import (
    BLANK,
    Block,
    ItemRows,
    Line,
    MarkedRows,
    Paragraph,
    Style,
    StyledText,
    safe,
    safe_line,
)
from workbench.tui.widgets.inputs import Filtering, FilterInput, FilterLine
from workbench.tui.widgets.key_line import KeyLine, StatusLine, report_errors, say
from workbench.tui.widgets.row_lists import LinesView, RowList, RowsAndText, StyledScreen

if TYPE_CHECKING:
    from workbench.engine.workspace import Workspace

# Base of all screens over the main one. Each closes only once, whatever keys the user types meanwhile.

Result = TypeVar("Result")

_LONGEST_BUILD = 5.0  # maximum seconds that keys wait for a screen
_MOMENT = 0.005
_TOAST_DELAY = 0.1  # seconds after which a screen has its layout and the toasts of the one below

SYMBOLS_OF_CASES: Sequence[Badge] = (*map(get_badge, CaseState), STALE, PARTLY_JUDGED, REPLAYED, MARKED, EDITED)
"""The symbols of the main screen, and of lists of cases."""


class ResultScreen(StyledScreen[Result]):
    """A screen that can be dismissed at any time and any number of times. The first result counts.

    Textual always pops the top screen. Without this class, two causes would close the wrong screen: keys typed before
    a screen has closed, and work that ends while another screen covers this one.
    """

    SYMBOLS: ClassVar[Sequence[Badge]] = SYMBOLS_OF_CASES
    """What the help of this screen explains."""

    _is_dismissed = False
    _pending: tuple[Result | None] | None = None  # the result while another screen covers this one

    def dismiss(self, result: Result | None = None) -> AwaitComplete:
        """Close with a result when no other screen covers this one. Do nothing if it was closed before."""
        if self._is_dismissed or self not in self.app.screen_stack:
            return AwaitComplete()
        if not self.is_active:
            self._pending = self._pending or (result,)
            return AwaitComplete()
        self._is_dismissed = True
        return super().dismiss(result)

    def action_close(self) -> None:
        """Close without a result. A filter ends first: the key then lists all rows again."""
        if not (isinstance(self, Filtering) and self.end_filter()):
            self.cancel()

    def cancel(self) -> object:
        """Close without a result."""
        return self.dismiss(None)

    @on(ScreenResume)
    def _dismiss_uncovered(self) -> None:
        if self._pending is not None:
            self.dismiss(*self._pending)

    @on(ScreenResume)
    def _uncover_fields(self) -> None:
        """Remove a toast of the screen below if it covers a field of this one."""
        self.set_timer(_TOAST_DELAY, self._remove_covering_toast)

    def _remove_covering_toast(self) -> None:
        toasts = [toast.region for toast in self.query("Toast")]
        fields = [field.region for field in self.query("Input, TextArea") if field.is_on_screen]
        if any(toast.overlaps(field) for toast in toasts for field in fields):
            self.app.clear_notifications()


class Dialog(ModalScreen[Result], ResultScreen[Result]):
    """A modal screen. The covered screen stays visible around it, but neither it nor the application receives keys."""

    SHARED_KEYS: ClassVar[tuple[str, ...]] = ("help",)


async def wait_until_built(app: App[Any]) -> None:
    """Wait until the top screen has all its widgets.

    The user may type keys for a screen immediately after the keys that open it.
    """
    until = time.monotonic() + _LONGEST_BUILD
    while app.screen_stack and _is_being_built(app.screen) and time.monotonic() < until:  # noqa: ASYNC110
        await asyncio.sleep(_MOMENT)


def _is_being_built(screen: Screen[Any]) -> bool:
    # At every key, so without a query by selector, which takes twenty times as long.
    return not screen.is_mounted or any(not pane.is_mounted for pane in screen.walk_children(Pane))


def is_leaving(node: MessagePump, screens: Collection[Screen[object]]) -> bool:
    """Return True if a widget was removed, or its screen was closed, which means it is not in `screens`.

    Such a widget may still finish work, but its children are already removed.
    """
    if not isinstance(node, DOMNode) or node.is_dom_root:
        return False
    around = node.ancestors_with_self
    screen = next((each for each in around if isinstance(each, Screen)), None)
    # Private: the public `is_attached` is still true while a widget is being removed, `display` is false if hidden.
    return screen not in screens or any(getattr(each, "_pruning", False) for each in around)


# Rows to mark, with the details of the one under the cursor.


Rows = TypeVar("Rows", bound=MarkedRows[Any])


class MarkingScreen(Dialog[Rows | None], Filtering, Generic[Rows]):
    """Rows that the user marks, filters and saves, at least one. The result is None if the user cancels.

    `ENTER` says what the enter key does with a row, `LETTERS` what the letters of the filter are of, `REFUSED` why a
    row cannot be marked, and `NONE_MARKED` why nothing can be saved.
    """

    ENTER: ClassVar[str] = "mark"
    LETTERS: ClassVar[str]
    REFUSED: ClassVar[str] = ""
    NONE_MARKED: ClassVar[str]

    def __init__(self, rows: Rows) -> None:
        super().__init__()
        self._rows = rows
        self.listed = FilteredRows(rows)

    def compose(self) -> ComposeResult:
        yield StatusLine(id="marked-head")
        yield FilterLine(self.LETTERS, self.follow_text)
        yield RowsAndText()
        yield KeyLine(enter=self.ENTER, first=[f"{self.PLACES[0]}_{name}" for name in ("save", "close", "all")])

    def on_mount(self) -> None:
        self.show_rows()
        self.query_one(RowsAndText).focus_first()

    def action_mark(self) -> None:
        if self._rows.toggle():
            self.listed.move(1)
            self.show_rows()
        elif self.REFUSED:
            say(self, self.REFUSED, severity="warning")

    @on(RowList.Entered)
    def _on_entered(self) -> None:
        self.action_mark()

    def action_mark_all_or_none(self) -> None:
        self._rows.toggle_all(self.listed.list_indexes())
        self.show_rows()

    def action_save(self) -> None:
        if self._rows.marked:
            self.dismiss(self._rows)
        else:
            say(self, self.NONE_MARKED, severity="warning")

    def show_rows(self) -> None:
        self.query_one("#marked-head", StatusLine).show(self._rows.header_line())
        self.query_one(RowsAndText).show(self.listed, from_top=True)


# Question with a line of text as its answer.

Check = Callable[[str], str | None]
"""Describes the problem of a text in a sentence; None if it has no problem."""


class AskScreen(Dialog[str | None]):
    """Question for a name, a path or another line of text. The result is the text, or None if the user cancels."""

    PLACES = ("ask",)

    def __init__(self, question: str, *, value: str = "", check: Check, warn: Check | None = None) -> None:
        """Create the dialog. A problem from `check` prevents the answer; one from `warn` is only shown."""
        super().__init__()
        self._question = question
        self._value = value
        self._check = check
        self._warn = warn

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog dialog-wide"):
            yield Static(Content(safe(self._question)))
            yield Input(self._value, compact=True)
            yield Static(Content(""), classes="dialog-problem")
            yield KeyLine(enter="done")

    @on(Input.Changed)
    def _on_changed(self, message: Input.Changed) -> None:
        problem = self._check(message.value) if message.value else None  # refuse an empty line only on enter
        warning = self._warn(message.value) if problem is None and message.value and self._warn is not None else None
        shown = self.query_one(".dialog-problem", Static)
        shown.set_class(warning is not None, "-warning")
        shown.update(Content(safe(problem or warning or "")))

    @on(Input.Submitted)
    def _on_submitted(self, message: Input.Submitted) -> None:
        problem = self._check(message.value)
        if problem is None:
            self.dismiss(message.value)
        else:
            self.query_one(".dialog-problem", Static).update(Content(safe(problem)))


_LONGEST_NUMBER = 10  # digits


async def ask_number(app: App[object], question: str, *, value: int, most: int, least: int = 1) -> int | None:
    """Ask for a number. Return None if the user cancels."""

    def check(text: str) -> str | None:
        return explain_invalid_number(text, most=most, least=least)

    answer = await app.push_screen_wait(AskScreen(question, value=str(value), check=check))
    return None if answer is None else int(answer)


def explain_invalid_number(text: str, *, most: int, least: int) -> str | None:
    """Describe the problem of a typed number from `least` to `most`; None if it has none."""
    number = text.strip()
    if number.isascii() and number.isdecimal() and len(number) < _LONGEST_NUMBER and least <= int(number) <= most:
        return None
    return f"found {number[:20]!r}, expected a number from {least:,} to {most:,}"


# Question with a list of choices.

_DIGITS = "123456789"  # keys of the first choices that are listed, while nothing is typed
_AROUND_LIST = 7  # lines for the border and padding of the dialog, the keys, and a blank line on both sides


class _Choices(ItemRows[str]):
    """Rows with one choice each."""

    def __init__(self, choices: Sequence[str], cursor: int) -> None:
        self.rows = choices
        self.cursor = cursor
        self.has_digits = True

    def line(self, index: int, width: int) -> Line:
        """Return the row of a choice, cut to `width` cells."""
        digit = (_DIGITS[index : index + 1] if self.has_digits else "") or " "
        return StyledText(f" {digit} ", Style.KEY), StyledText(safe_line(self.rows[index], width=max(width - 4, 1)))


class ChooseScreen(Dialog[int | None], Filtering):
    """Question with at least one choice. The result is the index of the choice, or None if the user cancels.

    Digits choose, and letters filter the choices.
    """

    PLACES = ("choose",)

    def __init__(self, question: str, choices: Sequence[str], *, chosen: int = 0) -> None:
        super().__init__()
        self._question = question
        self._choices = _Choices(choices, chosen)
        self.listed = FilteredRows(self._choices)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog dialog-wide"):
            yield Static(Content(safe(self._question)))
            yield FilterLine("letters of a choice", self.follow_text)
            yield RowList()
            yield KeyLine(enter="choose")

    def on_mount(self) -> None:
        """Show the choices in a low list; `on_resize` gives it more lines if they fit."""
        rows = self.query_one(RowList)
        rows.styles.height = min(len(self._choices), 3)
        rows.focus()
        rows.show(self.listed)

    def on_resize(self) -> None:
        self.call_after_refresh(self._share_height)

    @on(FilterLine.Resized)
    def _share_height(self) -> None:
        around = self.query_one(Static).size.height + self.query_one(FilterLine).outer_size.height + _AROUND_LIST
        self.query_one(RowList).styles.height = min(len(self._choices), max(self.size.height * 9 // 10 - around, 3))

    @on(RowList.Entered)
    def enter_filtered(self) -> None:
        """Choose the selected row, unless no row matches the typed text."""
        if self.listed.is_found:
            self.dismiss(self._choices.cursor)

    def on_key(self, event: Key) -> None:
        if self.begin_filter(event) or not self._choices.has_digits:
            return
        index = _DIGITS.find(event.character or " ")
        if 0 <= index < len(self._choices):
            event.stop()
            self.dismiss(index)

    def filter_rows(self, text: str) -> bool:
        self._choices.has_digits = not text
        return super().filter_rows(text)


# Question with yes or no as its answer.


class ConfirmScreen(Dialog[bool]):
    """Question whose result is True only for yes."""

    PLACES = ("confirm",)

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content(self._question))
            yield KeyLine()

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)


# Help: actions at the focus, and the meaning of the symbols.

_KEY_WIDTH = 19


class HelpScreen(Dialog[None], Filtering):
    """Dialog with the purpose of the focused pane and its current keys, including remapped ones."""

    PLACES = ("help",)
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings("help"),
        Binding("question_mark,f1", "close", show=False, id="help"),  # the key that opens help also closes it
    ]

    def __init__(
        self,
        helps: Sequence[str],
        places: Sequence[KeyPlace],
        *,
        keymap: Mapping[str, str],
        symbols: Sequence[Badge] = SYMBOLS_OF_CASES,
    ) -> None:
        super().__init__()
        self._symbols = symbols
        self._helps = helps
        self._places = places
        self._keymap = keymap

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog dialog-tall"):
            yield FilterLine("letters of a key or of what it does", self.follow_text)
            yield LinesView()
            yield KeyLine()

    def on_mount(self) -> None:
        self.query_one(LinesView).show_blocks(tuple(self._blocks()), from_top=True)
        self.focus_rows()

    def on_key(self, event: Key) -> None:
        self.begin_filter(event)

    def filter_rows(self, text: str) -> bool:
        pattern = FinderPattern(text)
        blocks = tuple(self._find_keys(pattern) if pattern.words else self._blocks())
        if blocks:
            self.query_one(LinesView).show_blocks(blocks, from_top=True)
        return bool(blocks)

    def focus_rows(self) -> None:
        self.query_one(LinesView).focus()

    def move_rows(self, message: FilterInput.Moved) -> None:
        view = self.query_one(LinesView)
        view.scroll_relative(y=message.by + message.pages * view.size.height, animate=False)

    def _find_keys(self, pattern: FinderPattern) -> Iterator[Block]:
        """Find the keys that match, below the titles of their places."""
        for place in self._ordered_places:
            found = [
                _row(keys, item.help)
                for item in place.actions
                for keys in [keys_of(item, self._keymap)]
                if pattern.matches_row(fold(f"{keys} {item.help} {item.description} {item.id}"))
            ]
            if found:
                yield from (Paragraph.from_text(place.title, Style.HEADING), *found, BLANK)

    @property
    def _ordered_places(self) -> Sequence[KeyPlace]:
        """The places; keys that are shared by many follow those of one."""
        return sorted(self._places, key=lambda place: place in (PLACES["rows"], PLACES["lines"]))

    def _blocks(self) -> Iterator[Block]:
        for text in self._helps:
            yield Paragraph.from_text(text)
            yield BLANK
        for place in self._ordered_places:
            yield Paragraph.from_text(place.title, Style.HEADING)
            for item in place.actions:
                yield _row(keys_of(item, self._keymap), item.help)
            yield BLANK
        yield Paragraph.from_text("What the symbols mean", Style.HEADING)
        for look in self._symbols:
            yield Paragraph((StyledText(f"{look.symbol:<{_KEY_WIDTH}}", look.style), StyledText(look.word)), indent=2)
        yield BLANK
        yield Paragraph.from_text("Keys are changed in [keys] of workbench.toml, by these names:", Style.HEADING)
        yield Paragraph.from_text(", ".join(item.id for item in KEY_ACTIONS), indent=2)


def _row(keys: str, what: str) -> Paragraph:
    return Paragraph((StyledText(f"{keys:<{_KEY_WIDTH - 1}} ", Style.KEY), StyledText(what)), indent=2, hang=_KEY_WIDTH)


# The question for a new eval set, and what is added to one.

Added = TypeVar("Added")


async def ask_new_set(app: App[Any], context: ScreenContext, target: str) -> str | None:
    """Ask for the file of the new set. Return None if the user cancels. Raises StoreError."""
    sets = context.state.browser.file_sets
    places = await context.backend.call(lambda workspace: NewSets(workspace.project))
    return await app.push_screen_wait(
        AskScreen(
            "File of the new eval set, relative to the project",
            value=propose_set_name(sets, target=target, places=places),
            check=lambda name: problem_of_set_name(name, sets=sets),
            warn=lambda name: warning_of_set_name(name, target=target, places=places),
        )
    )


async def add_to_set(
    widget: Widget, context: ScreenContext, eval_set: str, add: Callable[[Workspace], Added], *, is_new: bool
) -> Added | None:
    """Create the set if it is new, and add to it. Return None if its file has changed. Raises StoreError."""
    if is_new:
        set_id = derive_set_name(PurePosixPath(eval_set))
        await context.backend.edit(lambda workspace: workspace.documents.create_set(eval_set, eval_set_id=set_id))
        widget.post_message(ProjectChanged(select=eval_set))
    try:
        added = await context.backend.edit(add)
    except FileChanged:  # the edit is unsaved; the user chooses between the versions
        widget.post_message(SaveWanted(eval_set))
        return None
    widget.post_message(DocumentsChanged(frozenset([eval_set])))
    return added


# Questions for a new agent: its kind, name, location and eval sets.


async def add_target(widget: Widget, context: ScreenContext) -> None:
    """Ask for a new agent and add it to the settings of the project. `widget` shows the questions and messages."""
    with report_errors(widget):
        target = await _ask_target(widget)
        if target is None:
            return
        file = await context.backend.call(lambda workspace: shown_path(settings.add_target(target, workspace.root)))
        widget.post_message(ProjectChanged())
        say(widget, f"added {target.name} to {file}; `workbench doctor --check` checks whether it can be reached")


async def _ask_target(widget: Widget) -> NewTarget | None:
    """Ask for the new target; return None if the user cancels."""
    kinds = list(LOCATIONS)
    chosen = await widget.app.push_screen_wait(
        ChooseScreen("Add an agent: of which kind?", [f"{kind}: {what}" for kind, what in LOCATIONS.items()])
    )
    if chosen is None:
        return None
    kind = kinds[chosen]

    def problem_of(name: str, location: str) -> str | None:
        try:
            check_target(NewTarget(name=name, kind=kind, location=location))
        except StoreError as error:
            return error.message
        return None

    name = await widget.app.push_screen_wait(AskScreen("Name of the agent", check=_problem_of_name))
    if name is None:
        return None
    question = f"Where is it? {LOCATIONS[kind]}"
    location = await widget.app.push_screen_wait(AskScreen(question, check=lambda text: problem_of(name, text)))
    if location is None:
        return None
    usual = " ".join(get_default_eval_sets(kind, name))
    sets = await widget.app.push_screen_wait(
        AskScreen("Patterns of its eval sets (empty: those near it)", value=usual, check=lambda _: None)
    )
    return None if sets is None else NewTarget(name=name, kind=kind, location=location, eval_sets=tuple(sets.split()))


def _problem_of_name(text: str) -> str | None:
    return None if text and text.isprintable() else "found nothing, expected the name of an agent"
