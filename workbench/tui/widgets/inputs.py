"""Text inputs: of filters and searches, and the field of the editor."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal, NamedTuple

from rich.cells import cell_len
from rich.style import Style as RichStyle
from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import Reactive
from textual.widget import Widget
from textual.widgets import Input, Label, Static, TextArea

from workbench.tui.keys import KeyHolder
from workbench.tui.state.call_line import Completion, KnownCalls, list_completions
from workbench.tui.state.case_outline import Input as ValueInput
from workbench.tui.state.editor_state import Draft, TextForm
from workbench.tui.state.finder import FilteredRows
from workbench.tui.state.text_layout import (
    Style,
    safe,
    safe_line,
    wrap,
)
from workbench.tui.widgets.row_lists import RowList, RowsAndText, StyledScreen

# Inputs of search texts, and the filter line.

Follow = Callable[[str], object]
"""Lists what matches the text of a filter. It is called at once: a message would be answered one frame later."""


class FindInput(KeyHolder, Input):
    """Input of a search text. Enter keeps the matches, escape leaves the input."""

    PLACES: ClassVar[tuple[str, ...]] = ("finding",)
    virtual_size = Reactive(Size(0, 0))  # without a new layout of the screen for every letter

    @dataclass
    class Left(Message):
        """The user looks for nothing any more."""

    def action_leave(self) -> None:
        self.post_message(self.Left())


class FilterInput(FindInput):
    """Input of a filter. Up and down move in the list, enter keeps the filter, escape ends it."""

    PLACES = ("filtering", "finding")

    @dataclass
    class Moved(Message):
        """The user moves in the list, by rows or by pages."""

        by: int = 0
        pages: int = 0

    def __init__(self, placeholder: str, follow: Follow) -> None:
        super().__init__(placeholder=placeholder, compact=True, select_on_focus=False)
        self._follow = follow

    def watch_value(self, value: str) -> None:
        self._follow(value)

    def allow_focus(self) -> bool:
        """Return False while the filter line is hidden: a new screen would focus it, and take keys as its text."""
        is_hidden = any(isinstance(each, Widget) and not each.display for each in self.ancestors)
        return super().allow_focus() and not is_hidden

    def action_leave(self) -> None:
        self.value = ""
        super().action_leave()

    def action_move(self, by: int) -> None:
        self.post_message(self.Moved(by=by))

    def action_page(self, pages: int) -> None:
        self.post_message(self.Moved(pages=pages))


class FilterLine(Vertical):
    """The filter line with its name and help; hidden without a filter."""

    class Resized(Message):
        """It has more or fewer lines, or is shown or hidden."""

    def __init__(self, placeholder: str, follow: Follow, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.display = False
        self._placeholder = placeholder
        self._follow = follow
        self._help = ""

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield Label("filter:", markup=False)
            yield FilterInput(self._placeholder, self._follow)
        yield Static(Content(""), classes="filter-help")

    @property
    def text(self) -> str:
        """Text of the filter."""
        return self.query_one(FilterInput).value

    def open(self) -> None:
        """Show the line and give it the focus. The old text is selected: the next letter replaces it."""
        self.display = True
        field = self.query_one(FilterInput)
        field.focus()
        field.select_all()

    def write(self, text: str) -> None:
        self.display = bool(text)
        field = self.query_one(FilterInput)
        field.value, field.cursor_position = text, len(text)

    def show_help(self, text: str, *, problem: bool) -> None:
        """Show help or an error below the input. The text is never parsed as markup."""
        line = self.query_one(".filter-help", Static)
        line.set_class(problem, "-problem")
        line.set_class(bool(text), "-filled")
        if text != self._help:  # a new help text causes a new layout of the screen
            self._help = text
            line.update(Content(text))

    def on_descendant_focus(self) -> None:
        """Show the help while the input has the focus."""
        self.add_class("-writing")

    @on(events.Resize)
    @on(events.Hide)
    def _on_resized(self) -> None:
        self.post_message(self.Resized())

    @on(FilterInput.Blurred)
    def _on_blurred(self, message: FilterInput.Blurred) -> None:
        self.remove_class("-writing")
        self.display = bool(message.value)


class Filtering(Widget):
    """A dialog or pane with a `FilterLine`, whose rows follow the typed text. By default these are the `listed` rows.

    It is the last base of a class, because Textual takes the stylesheet from the first one.
    """

    listed: FilteredRows

    def show_rows(self) -> None:
        """Show the listed rows, and what depends on the selected one."""
        self.query_one(RowList).show(self.listed)

    def filter_rows(self, text: str) -> bool:
        """List the rows that match a text. Return False if no row does."""
        self.listed.filter(text)
        self.show_rows()
        return self.listed.is_found

    def follow_text(self, text: str) -> None:
        """List the rows that match the text of the filter line, and say if there are none."""
        is_found = self.filter_rows(text)
        self.query_one(FilterLine).show_help("" if is_found else "no row matches", problem=not is_found)

    def focus_rows(self) -> None:
        """Focus the rows, because the user has typed the text."""
        self.query_one(RowList).focus()

    def enter_filtered(self) -> None:
        """Do what the enter key does in the filter line: go to the rows."""
        self.focus_rows()

    def steer_rows(self, message: RowList.Steered) -> None:
        """Move the cursor of the rows."""
        message.steer(self.listed)
        self.show_rows()

    @on(RowList.Steered)
    def _on_steered(self, message: RowList.Steered) -> None:
        self.steer_rows(message)

    def move_rows(self, message: FilterInput.Moved) -> None:
        """Move the cursor of the rows while the user types."""
        rows = self.query_one(RowList)
        owner = next(each for each in rows.ancestors if isinstance(each, RowsAndText | Filtering))
        # At once, because the next key may choose the row.
        owner.steer_rows(RowList.Moved(rows, message.by or message.pages * rows.page_size))

    def action_filter(self) -> None:
        self.query_one(FilterLine).open()

    def begin_filter(self, event: events.Key) -> bool:
        """Open the filter line with a typed letter that is not a key here. Return False for any other key."""
        letter = event.character or ""
        line = self.query_one(FilterLine)
        if not letter.isalpha() or line.has_focus_within or event.key in self.screen.active_bindings:
            return False
        event.stop()
        line.open()
        line.write(line.text + letter)
        return True

    def end_filter(self) -> bool:
        """List all rows again. Return False if there is no filter."""
        line = self.query_one(FilterLine)
        if not line.display:
            return False
        line.write("")
        self.focus_rows()
        return True

    @on(FilterInput.Moved)
    def _filter_moved(self, message: FilterInput.Moved) -> None:
        message.stop()
        self.move_rows(message)

    @on(FilterInput.Submitted)
    def _filter_done(self, message: FilterInput.Submitted) -> None:
        if isinstance(message.input, FilterInput):
            message.stop()
            self.enter_filtered()

    @on(FilterInput.Left)
    def _filter_left(self, message: FilterInput.Left) -> None:
        message.stop()
        self.focus_rows()


# JSON as it is typed: the tokens of a line, and the brackets that belong together. A text never continues on the next
# line, so each line has its own tokens. A call in one line has the same tokens.

_TOKEN = re.compile(
    r"""
    (?P<text>"[^"\\]*(?:\\.[^"\\]*)*"? | '[^'\\]*(?:\\.[^'\\]*)*'?)
    | (?P<bracket>[{}\[\]()])
    | (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?!\w)
    | (?P<word>[^\W\d]\w*)
    """,
    re.VERBOSE,
)
_CONSTANTS = frozenset({"true", "false", "null", "True", "False", "None"})
_OPENING = {"}": "{", "]": "[", ")": "("}
_COLON = re.compile(r"\s*[:=]")

Location = tuple[int, int]
"""Line and column of a character, from 0."""


class Token(NamedTuple):
    """A part of a line of JSON. A bracket has the style TEXT."""

    start: int
    end: int
    style: Style


@lru_cache(2_000)  # lines: those of the longest typed text
def split_json(line: str) -> tuple[Token, ...]:
    """Return the keys, values and brackets of a line, valid or not. A text without an end ends with the line."""
    tokens: list[Token] = []
    for found in _TOKEN.finditer(line):
        start, end = found.span()
        match found.lastgroup:
            case "text":
                style = Style.KEY if _COLON.match(line, end) else Style.STRING
            case "number":
                style = Style.NUMBER
            case "bracket":
                style = Style.TEXT
            case _ if found[0] in _CONSTANTS:
                style = Style.CONSTANT
            case _ if _COLON.match(line, end):
                style = Style.KEY
            case _:
                continue
        tokens.append(Token(start, end, style))
    return tuple(tokens)


@dataclass(frozen=True, slots=True)
class Brackets:
    """The brackets of a text: the counterpart of each, and those that have none."""

    pairs: Mapping[Location, Location]
    unbalanced: frozenset[Location]

    def find_pair(self, cursor: Location) -> tuple[Location, ...]:
        """Return the bracket at the cursor, or else that before it, and its counterpart; empty if there is none."""
        line, column = cursor
        places = ((line, column), (line, column - 1))
        return next(((place, self.pairs[place]) for place in places if place in self.pairs), ())


def match_brackets(lines: Iterable[str]) -> Brackets:
    """Match the brackets of a text. Brackets in quoted texts do not count."""
    pairs: dict[Location, Location] = {}
    unbalanced: set[Location] = set()
    waiting: list[tuple[str, Location]] = []
    counts: Counter[str] = Counter()  # of the waiting brackets
    for number, line in enumerate(lines):
        for start, _, style in split_json(line):
            bracket, place = line[start], (number, start)
            if style is not Style.TEXT:
                continue
            opening = _OPENING.get(bracket)
            if opening is None:
                waiting.append((bracket, place))
                counts[bracket] += 1
                continue
            if not counts[opening]:
                unbalanced.add(place)
                continue
            while True:  # brackets inside the pair that have no end
                other, start_place = waiting.pop()
                counts[other] -= 1
                if other == opening:
                    break
                unbalanced.add(start_place)
            pairs[place], pairs[start_place] = start_place, place
    return Brackets(pairs, frozenset(unbalanced.union(place for _, place in waiting)))


# The text field of the editor and its keys.

_MOST_TOKENS = 500
"""Maximum parts of a line with colours. A text area draws a whole line again for each of the rows that it wraps to."""


_JOINERS = "\u200c\u200d"


class TextField(KeyHolder, TextArea):
    """A text field for several lines, whose cursor is visible at every size."""

    def on_key(self, event: events.Key) -> None:
        """Insert a typed joiner of Persian, Indic scripts and emoji, which Textual discards as not printable."""
        if event.character and event.character in _JOINERS:
            event.stop()
            event.prevent_default()
            self.replace(event.character, *self.selection, maintain_selection_offset=False)

    def on_resize(self) -> None:
        self.call_after_refresh(self.scroll_cursor_visible)


class TypedText(TextField):
    """The text field. It sends a message for each command of the user."""

    # Bound here because a text area uses some of these keys for other commands.
    PLACES = ("typing",)

    @dataclass
    class ApplyWanted(Message):
        """The user applies the value. `then` is an action of the screen that follows, such as `save`."""

        then: str = ""

    @dataclass
    class Commanded(Message):
        """The user changes the type of the value, restores its text, continues in their editor, or goes to the rows."""

        command: Literal["form", "original", "external", "leave"]

    class ChoicesChanged(Message):
        """There are other continuations, or another one is chosen."""

    known_calls: KnownCalls | None = None  # while a call is typed
    lists_choices = False  # up and down choose one of the continuations
    choices: Sequence[Completion] = ()
    choice = 0

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, compact=True, show_line_numbers=False, highlight_cursor_line=False)
        self.match_cursor_bracket = False  # it would count brackets in quoted texts
        self._is_json = False
        self._lines: list[str] = []
        self._brackets = match_brackets(self._lines)

    def set_json(self, is_json: bool) -> None:
        """Set whether the text is JSON, which has colours and marked brackets."""
        self._is_json = is_json
        self.notify_style_update()

    def get_line(self, line_index: int) -> Text:
        """Return a line as it is drawn."""
        text = super().get_line(line_index)
        tokens = split_json(text.plain) if self._is_json else ()
        if not 0 < len(tokens) <= _MOST_TOKENS:
            return text
        if self._lines != self.document.lines:  # unchanged lines are the same objects, so this is fast
            self._lines = list(self.document.lines)
            self._brackets = match_brackets(self._lines)
        pair = self._brackets.find_pair(self.cursor_location) if self.selection.is_empty else ()
        screen = self.screen
        assert isinstance(screen, StyledScreen)
        for start, end, kind in tokens:
            place = line_index, start
            is_wrong = place in self._brackets.unbalanced
            style = Style.MATCH if place in pair else Style.ERROR if is_wrong else kind
            if style is not Style.TEXT:
                text.stylize(screen.get_text_style(RichStyle.null(), style), start, end)
        return text

    def update_suggestion(self) -> None:
        """Suggest what most likely follows at the end of a call: the right arrow or tab inserts it."""
        is_at_end = self.cursor_location == self.document.end
        choices = [] if self.known_calls is None or not is_at_end else list_completions(self.text, self.known_calls)
        if choices != self.choices:
            self.choices, self.choice = choices, 0
            self.post_message(self.ChoicesChanged())
        self.suggestion = choices[self.choice].rest if choices else ""

    @on(TextArea.SelectionChanged)
    def _on_cursor_moved(self) -> None:
        self.update_suggestion()

    def on_key(self, event: events.Key) -> None:
        """Handle some keys instead of the text area, which gets all others afterwards. Tab never leaves the field."""
        if event.key in ("tab", "shift+tab"):
            event.stop()
            event.prevent_default()
            if event.key == "tab" and self.suggestion:
                self.insert(self.suggestion)
        elif event.key in ("up", "down") and self.lists_choices and len(self.choices) > 1:
            event.stop()
            event.prevent_default()
            self.choice = (self.choice + (1 if event.key == "down" else -1)) % len(self.choices)
            self.suggestion = self.choices[self.choice].rest
            self.post_message(self.ChoicesChanged())
        elif event.key == "enter" and self._applies_with_enter:
            event.stop()
            event.prevent_default()
            self.action_apply()

    @property
    def _applies_with_enter(self) -> bool:
        """Whether enter is a key that applies the value. The text area would insert a line break first."""
        active = self.screen.active_bindings.get("enter")
        return active is not None and active.node is self

    def action_apply(self) -> None:
        self.post_message(self.ApplyWanted())

    def action_new_line(self) -> None:
        self.replace("\n", *self.selection, maintain_selection_offset=False)

    def action_apply_and(self, then: str) -> None:
        self.post_message(self.ApplyWanted(then=then))

    def action_next_form(self) -> None:
        self.post_message(self.Commanded("form"))

    def action_original(self) -> None:
        self.post_message(self.Commanded("original"))

    def action_external(self) -> None:
        self.post_message(self.Commanded("external"))

    def action_leave(self) -> None:
        self.post_message(self.Commanded("leave"))


# The box for a value: title, text field, error message.

_LEAST_LINES = 3  # of a text that may have several
_LEAST_WIDTH = 10  # cells for a text in a row
_MOST_PROBLEM_LINES = 3
_MOST_CHOICES = 8
_GAP = 4  # cells between a text in a row and the remark at its end


class EditorBox(Vertical):
    """Shows the draft that is being typed, in the row of its value or below all rows. It decides nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.known_calls = KnownCalls()
        self._least_lines = 1
        self._title = self._shown_title = self._remark = self._problem = ""
        self._notes: list[tuple[str, str]] = []  # as shown, with their styles
        self._rows = Region()
        self._field: Region | None = None  # on the screen, while the text is in a row

    @dataclass
    class Typed(Message):
        """The user changed the text."""

        text: str

    def compose(self) -> ComposeResult:
        yield Static(id="editor-title")
        yield TypedText(id="editor-text")
        yield Static(id="editor-notes")

    def show(self, draft: Draft) -> None:
        self._least_lines = 1 if draft.is_one_line else _LEAST_LINES
        is_call = draft.slot.input is ValueInput.CALL
        keys = "   tab completes, enter applies" if is_call else "   enter applies"
        form = "" if is_call or draft.slot.input is ValueInput.JSON else f" · {draft.form}"  # the title says it there
        self._title = f"{safe_line(draft.slot.title, width=60)}{form}{keys}"
        is_typed_otherwise = draft.slot.input is ValueInput.VALUE or draft.form is TextForm.JSON
        self._remark = "tab completes" if is_call else str(draft.form) if is_typed_otherwise else ""
        self._show_title()
        text = self.query_one(TypedText)
        text.known_calls = self.known_calls if is_call else None
        text.set_json(draft.form in (TextForm.JSON, TextForm.CALL))
        if text.text != draft.text:
            with text.prevent(TextArea.Changed):
                text.load_text(draft.text)
            if draft.form is not TextForm.JSON:  # JSON is read from its beginning
                text.move_cursor(text.document.end)
        text.update_suggestion()
        self.call_after_refresh(self._fit)  # once the text has its width

    def show_known_calls(self, known: KnownCalls) -> None:
        """Complete calls by these from now on."""
        self.known_calls = known
        text = self.query_one(TypedText)
        if text.known_calls is not None:
            text.known_calls = known
            text.update_suggestion()

    def fits(self, draft: Draft, width: int) -> bool:
        """Return whether the text of a draft, with the cursor after it, fits into one line of a row."""
        return width >= _LEAST_WIDTH and "\n" not in draft.text and cell_len(draft.text.expandtabs(4)) < width

    def place_in(self, field: Region, rows: Region) -> None:
        """Show the text in a row, at a place on the screen. Notes are over the rows below it, or above it."""
        self._field, self._rows = field, rows
        self.query_one(TypedText).lists_choices = True
        self.add_class("-in-row")
        self.styles.offset = field.offset - self.query_ancestor(Widget).content_region.offset
        self.styles.width = field.width
        self._show_title()
        self._fit()
        self._show_notes()

    def place_below(self) -> None:
        """Show the title, the text and errors in lines of their own."""
        if self._field is None:
            return
        self._field = None
        self.remove_class("-in-row")
        self.styles.offset, self.styles.width = (0, 0), "100%"
        self._show_title()
        self.query_one("#editor-title", Static).display = True
        self.query_one(TypedText).lists_choices = False
        notes = self.query_one("#editor-notes", Static)
        notes.styles.offset, notes.styles.width = (0, 0), "100%"
        self._show_notes()
        self.call_after_refresh(self._fit)

    def _show_title(self) -> None:
        """Show the title, or the remark at the end of a row."""
        title = self._title if self._field is None else self._remark
        if title != self._shown_title:  # another title causes a new layout of the screen
            self._shown_title = title
            self.query_one("#editor-title", Static).update(Content(title))

    def show_problem(self, problem: str) -> None:
        """Show an error message, or remove it if `problem` is empty."""
        self._problem = f"! {safe(problem)}" if problem else ""
        self._show_notes()

    @on(TypedText.ChoicesChanged)
    def _show_notes(self) -> None:
        """Show the error message, and for a text in a row also the continuations: over the rows below or above it."""
        notes, field, rows = self.query_one("#editor-notes", Static), self._field, self._rows
        parts: list[tuple[str, str]] = [(self._problem, "")] if self._problem else []
        if field is not None:
            text = self.query_one(TypedText)
            used = cell_len(text.text + text.suggestion) + _GAP + cell_len(self._remark)
            self.query_one("#editor-title", Static).display = bool(self._remark) and used <= field.width
            lines = min(len(wrap(self._problem, rows.width - 2)), _MOST_PROBLEM_LINES) if self._problem else 0
            below, above = rows.bottom - field.bottom, field.y - rows.y
            choices = self._list_choices(max(below, above) - lines, width=rows.width - 2)
            parts = [*choices, *parts]
            lines += len(choices)
            notes.styles.width = rows.width
            notes.styles.offset = (rows.x - field.x, 0 if lines <= below or below >= above else -1 - lines)
        if parts != self._notes:  # other notes cause a new layout of the screen
            self._notes = parts
            notes.update(Content("\n").join([Content.styled(*part) for part in parts]))
            self.set_class(bool(parts), "-noted")

    def _list_choices(self, most: int, *, width: int) -> list[tuple[str, str]]:
        """Return lines with the continuations around the chosen one, if there are several."""
        text, most = self.query_one(TypedText), min(most, _MOST_CHOICES)
        if len(text.choices) < 2 or most < 1:
            return []
        start = max(text.choice - most + 1, 0)
        labels = [safe_line(each.label, width=width) for each in text.choices[start : start + most]]
        return [
            (label, "reverse $foreground" if index == text.choice else "$foreground")
            for index, label in enumerate(labels, start)
        ]

    def focus_text(self) -> None:
        self.query_one(TypedText).focus()

    @property
    def text(self) -> str:
        return self.query_one(TypedText).text

    def on_resize(self) -> None:
        """Adapt the height: the text wraps at another width, or the screen has another height."""
        self._fit()

    def _fit(self) -> None:
        """Make the field as high as its text, up to two fifths of the screen."""
        text = self.query_one(TypedText)
        most = 1 if self._field is not None else max(self.screen.size.height * 2 // 5, 1)
        text.styles.height = min(max(text.wrapped_document.height, self._least_lines), most)

    @on(TextArea.Changed)
    def _on_changed(self, message: TextArea.Changed) -> None:
        message.stop()
        self._fit()
        self.post_message(self.Typed(message.text_area.text))
