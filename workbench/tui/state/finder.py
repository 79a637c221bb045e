"""Type-to-filter: how a typed text matches names, rows that follow it, and the rows of the palette."""

from __future__ import annotations

import re
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from itertools import chain, islice, pairwise

from rich.cells import cell_len

from workbench.report.run_report import counts_text, explain_incomplete, time_text
from workbench.store.files import EVAL_SET_SUFFIXES
from workbench.store.history.history_queries import StoredRun
from workbench.store.settings import FoundSetting
from workbench.tui.state.browser_list import BrowserRow
from workbench.tui.state.browser_state import Browser
from workbench.tui.state.project_state import OpenedProject
from workbench.tui.state.text_layout import (
    Block,
    ItemRows,
    Line,
    ListRows,
    Style,
    StyledText,
    cut_line,
    measure_line,
    plural,
    safe_line,
    shorten,
)

# Typed words against names: equal letters in their order, best at the starts of words and without gaps.


class Rank(IntEnum):
    """How well a name matches a typed word, the best first."""

    SAME = 0
    PREFIX = 1
    WORD_START = 2
    INSIDE = 3
    INITIALS = 4  # each letter follows the one before it, or starts a word
    DETAIL = 5  # the word is in the details, not in the name
    SCATTERED = 6


_LONGEST_GAP = 8  # characters between two letters
_MOST_MARKED = 200  # characters of a name in which scattered letters are marked


def fold(text: str) -> str:
    """Fold the case of each character by itself, so that positions stay the same."""
    folded = text.casefold()
    return folded if len(folded) == len(text) else "".join(character.casefold()[:1] for character in text)


class FinderPattern:
    """A typed text. A name matches if it matches every word of the text."""

    def __init__(self, text: str) -> None:
        self.words = tuple(fold(text).split())
        self._scattered = [re.compile(_make_scattered(word)).search for word in self.words]
        self._bits = [_make_bits(word) for word in self.words]

    def rank(self, name: str, detail: str = "") -> Rank | None:
        """Return the rank of the word that matches worst; None if a word does not match. Both texts are folded."""
        worst = Rank.SAME
        for number, word in enumerate(self.words):
            place = name.find(word)
            if place == 0:
                rank = Rank.SAME if len(name) == len(word) else Rank.PREFIX
            elif place > 0:
                rank = Rank.INSIDE if _find_at_word_start(word, name, place) is None else Rank.WORD_START
            elif self._scattered[number](name) is None:
                if word not in detail:
                    return None
                rank = Rank.DETAIL
            elif _matches_initials(self._bits[number], len(word), name):
                rank = Rank.INITIALS
            else:
                rank = Rank.DETAIL if word in detail else Rank.SCATTERED
            worst = max(worst, rank)
        return worst

    def matches_text(self, text: str) -> bool:
        """Return True if a folded text contains every word: for texts in which scattered letters would mean nothing."""
        return all(word in text for word in self.words)

    def matches_row(self, text: str) -> bool:
        """Return True if the folded text of a row contains every word, or a name with the letters as initials."""
        return all(
            word in text or any(_matches_initials(bits, len(word), name) for name in text.split())
            for word, bits in zip(self.words, self._bits, strict=True)
        )

    def find(self, name: str) -> set[int]:
        """Find the positions in a folded name to mark: of whole words, else of their letters."""
        missing = [word for word in self.words if word not in name]
        return self.find_words(name).union(*(_spread(word, name[:_MOST_MARKED]) for word in missing))

    def find_words(self, text: str) -> set[int]:
        """Find the positions in a folded text to mark: of whole words."""
        found: set[int] = set()
        for word in self.words:
            place = text.find(word)
            if place >= 0:
                start = _find_at_word_start(word, text, place)
                place = place if start is None else start
                found.update(range(place, place + len(word)))
        return found


def mark(line: Line, positions: Collection[int]) -> Line:
    """Mark the characters at these positions of a line."""
    if not positions:
        return line
    marked: list[StyledText] = []
    start = 0
    for piece in line:
        end = start + len(piece.text)
        edges = {start, end}
        for position in positions:
            if start <= position < end:
                edges |= {position, position + 1}
        for begin, stop in pairwise(sorted(edges)):
            style = Style.FOUND if begin in positions else piece.style
            marked.append(StyledText(piece.text[begin - start : stop - start], style))
        start = end
    return tuple(marked)


def _make_scattered(word: str) -> str:
    """Make the expression for the letters of a word in their order, each near the one before it."""
    first, *others = map(re.escape, word)
    return first + "".join(f"[^{letter}]{{0,{_LONGEST_GAP}}}{letter}" for letter in others)


def _make_bits(word: str) -> Mapping[str, int]:
    """Map each letter of a word to the bits of its places."""
    bits: dict[str, int] = {}
    for place, letter in enumerate(word):
        bits[letter] = bits.get(letter, 0) | 1 << place
    return bits


def _is_word_start(name: str, place: int) -> bool:
    return place == 0 or not name[place - 1].isalnum()


def _find_at_word_start(word: str, name: str, place: int) -> int | None:
    """Find the first occurrence of a word, from `place` on, at the start of a word of the name."""
    while place >= 0:
        if _is_word_start(name, place):
            return place
        place = name.find(word, place + 1)
    return None


def _matches_initials(bits: Mapping[str, int], size: int, name: str) -> bool:
    """Return True if each letter is found directly after the one before it, or at the start of a word."""
    reached = 1  # bit n: the first n letters were found
    adjacent = 0  # the same, with the last of them just before this character
    is_start = True
    for character in name:
        adjacent = ((reached if is_start else adjacent) & bits.get(character, 0)) << 1
        reached |= adjacent
        is_start = not character.isalnum()
    return bool(reached >> size & 1)


def _spread(word: str, name: str) -> list[int]:
    """Find the letters of a word in their order, with few gaps and at starts of words; none if one is missing."""
    none = -1_000_000
    scores: list[int] = []  # best sum for the letters so far, by the place of the last one
    links: list[list[int]] = []  # place of the letter before it
    for number, letter in enumerate(word):
        now, link = [none] * len(name), [-1] * len(name)
        best, best_place = none, -1  # before the last character
        for place, character in enumerate(name):
            if character == letter:
                bonus = 2 if _is_word_start(name, place) else 0
                after_gap = bonus if number == 0 else best + bonus
                adjacent = none if number == 0 or place == 0 else scores[place - 1] + 3
                now[place], link[place] = max((adjacent, place - 1), (after_gap, best_place))
            if number and place and scores[place - 1] > best:
                best, best_place = scores[place - 1], place - 1
        scores = now
        links.append(link)
    place = max(range(len(name)), key=scores.__getitem__, default=-1)
    if place < 0 or scores[place] < 0:
        return []
    places = [place]
    for link in reversed(links[1:]):
        place = link[place]
        places.append(place)
    return places[::-1]


# Rows of a dialog that follow a typed text.


_WIDE = 1_000  # cells of a row whose text is searched


class FilteredRows(ListRows):
    """Those of some rows whose text matches a typed text, in their order. The cursor is that of the rows.

    If no row matches, the rows stay as they are, so that a row is always selected.
    """

    def __init__(self, rows: ListRows) -> None:
        self.rows = rows
        self.is_found = True  # False if no row matches the text
        self._pattern = FinderPattern("")
        self._matching: Sequence[int] | None = None  # None: all rows

    def __len__(self) -> int:
        return len(self._listed)

    @property
    def _listed(self) -> Sequence[int]:
        count = len(self.rows)
        matching = range(count) if self._matching is None else self._matching
        end = bisect_left(matching, count)
        return matching if end == len(matching) else matching[:end]  # rows have gone since the last refresh

    @property
    def cursor(self) -> int:
        """Index of the selected row among the listed ones."""
        listed = self._listed
        return max(min(bisect_left(listed, self.rows.cursor), len(listed) - 1), 0)

    @cursor.setter
    def cursor(self, index: int) -> None:
        listed = self._listed
        if index < len(listed):
            self.rows.move_to(listed[index])

    def list_indexes(self) -> Sequence[int]:
        """Return the indexes of the listed rows among all."""
        return self._listed

    def filter(self, text: str) -> None:
        """List only the rows that match a text."""
        self._pattern = FinderPattern(text)
        self.refresh()

    def refresh(self) -> None:
        """Filter again, because the rows changed."""
        matching = [index for index in range(len(self.rows)) if self._matches(index)] if self._pattern.words else None
        self.is_found = matching != [] or not len(self.rows)
        if matching or not self._pattern.words or not self._listed:
            self._matching = matching or None
        if self.rows.cursor not in self._listed:
            self.cursor = self.cursor

    def line(self, index: int, width: int) -> Line:
        """Format one row, with the matching letters marked."""
        line = self.rows.line(self._listed[index], width)
        return mark(line, self._pattern.find(_join(line))) if self._pattern.words else line

    def blocks(self) -> Sequence[Block]:
        return self.rows.blocks()

    def can_select(self, index: int) -> bool:
        return self.rows.can_select(self._listed[index])

    def _matches(self, index: int) -> bool:
        return self.rows.can_select(index) and self._pattern.matches_row(_join(self.rows.line(index, _WIDE)))


def _join(line: Line) -> str:
    return fold("".join(piece.text for piece in line))


# What the palette finds.


class FinderKind(StrEnum):
    """Kinds of items, in the order of their groups. The value is the title of the group."""

    RECENT = "Recent"
    ACTION = "Actions"
    CASE = "Cases"
    EVAL_SET = "Eval sets"
    AGENT = "Agents"
    TOOL = "Tools"
    RUN = "Runs"
    SETTING = "Settings"
    THEME = "Themes"


Key = tuple[str, ...]
"""Identity of an item within its kind. With the kind in front, it is remembered between sessions."""


@dataclass(frozen=True, slots=True)
class Item:
    """Something to go to. The texts are safe and for one line; `keys` are those of an action."""

    kind: FinderKind
    key: Key
    label: str
    detail: str = ""
    keys: str = ""

    @property
    def identity(self) -> Key:
        """Identity among all items."""
        return self.kind.value, *self.key


@dataclass(frozen=True)
class Group:
    """The items of one kind. They are made when they are shown, because there may be a hundred thousand.

    Typed letters match `names`, and typed words also `details`.
    """

    kind: FinderKind
    names: Sequence[str]
    details: Sequence[str]
    make: Callable[[int], Item]
    find: Callable[[Key], Item | None]

    @classmethod
    def from_items(cls, kind: FinderKind, items: Sequence[Item], details: Sequence[str] | None = None) -> Group:
        """Make a group of a few items. Without `details`, words match the details that are shown."""
        by_key = {item.key: item for item in items}
        searched = [item.detail for item in items] if details is None else details
        return cls(kind, [item.label for item in items], searched, items.__getitem__, by_key.get)


def make_project_groups(browser: Browser, project: OpenedProject | None) -> Iterator[Group]:
    """Make the groups of cases, eval sets and agents."""
    yield _make_case_group(browser)
    yield Group.from_items(
        FinderKind.EVAL_SET,
        [
            Item(
                FinderKind.EVAL_SET,
                listed.key,
                safe_line(listed.short_name),
                safe_line(" · ".join(filter(None, about))),
            )
            for listed in browser.sets
            for about in [(listed.target, listed.relative, plural(len(listed.cases or ()), "case"))]
        ],
        [f"{listed.target} {_shorten_path(listed.relative)}" for listed in browser.sets],
    )
    agents = {} if project is None else project.targets
    yield Group.from_items(
        FinderKind.AGENT,
        [
            Item(FinderKind.AGENT, (name,), safe_line(name), safe_line(" · ".join(value for _, value in facts)))
            for name, facts in agents.items()
        ],
    )


def _make_case_group(browser: Browser) -> Group:
    rows = list(browser.iterate_case_rows())

    def make(index: int) -> Item:
        return _make_case_item(rows[index])

    def find(key: Key) -> Item | None:
        listed = browser.get_set(*key[:2]) if len(key) == 4 else None
        cases = () if listed is None else listed.cases or ()
        row = next((row for row in cases if row.case and (row.case.eval_id, str(row.case.occurrence)) == key[2:]), None)
        return None if row is None else _make_case_item(row)

    paths = {row.eval_set: _shorten_path(row.eval_set) for row in rows}
    return Group(FinderKind.CASE, [row.label for row in rows], [paths[row.eval_set] for row in rows], make, find)


def _make_case_item(row: BrowserRow) -> Item:
    case = row.case
    key = () if case is None else (case.target, case.eval_set, case.eval_id, str(case.occurrence))
    return Item(FinderKind.CASE, key, row.label, safe_line(_shorten_path(row.eval_set)))


def _shorten_path(path: str) -> str:
    """Return the path of an eval set without the suffix that all have."""
    return path.removesuffix(next((suffix for suffix in EVAL_SET_SUFFIXES if path.endswith(suffix)), ""))


def make_tool_group(counts: Counter[str]) -> Group:
    """Make the group of tools from the number of cases that call each."""
    items = [Item(FinderKind.TOOL, (name,), safe_line(name), plural(counts[name], "case")) for name in sorted(counts)]
    return Group.from_items(FinderKind.TOOL, items, [""] * len(items))


def make_run_group(runs: Sequence[StoredRun]) -> Group:
    return Group.from_items(FinderKind.RUN, [Item(FinderKind.RUN, (run.run_id,), *_describe_run(run)) for run in runs])


def _describe_run(run: StoredRun) -> tuple[str, str]:
    facts = (time_text(run.started_at), counts_text(run.summary), explain_incomplete(run), run.command)
    return safe_line(run.run_id), safe_line(" · ".join(filter(None, facts)))


def make_setting_group(settings: Sequence[FoundSetting], root: str) -> Group:
    """Make the group of settings of the project at `root`, each with its value and where it is set."""
    return Group.from_items(
        FinderKind.SETTING,
        [
            Item(FinderKind.SETTING, setting.place, safe_line(".".join(setting.place)), safe_line(f"{value} · {where}"))
            for setting in settings
            for value, where in [(setting.value or "none", setting.where.removeprefix(f"{root}/") or "default")]
        ],
    )


def make_theme_group(names: Sequence[str], current: str) -> Group:
    about = {current: "in use"}
    return Group.from_items(
        FinderKind.THEME, [Item(FinderKind.THEME, (name,), name, about.get(name, "")) for name in names]
    )


def make_tool_filter(name: str) -> str:
    """Return the filter of the eval sets for the cases that call a tool."""
    longest = max(name.split('"'), key=len)  # the filter knows no quotation mark within a value
    return f'tool:"{longest}"' if re.search(r"\s", longest) else f"tool:{longest}"


# The rows of the palette.

MOST_RECENT = 8
"""Items that are remembered."""

_NAMED_KINDS = frozenset(FinderKind) - {FinderKind.RECENT, FinderKind.ACTION, FinderKind.CASE}
"""Kinds whose names, or the beginnings of these, match all their items: `theme nord`."""
_MOST_SHOWN = 100  # items of a group; another letter finds the rest sooner than scrolling
_AT_ONCE = 250  # names between two looks at the clock


@dataclass(frozen=True, slots=True)
class _Found:
    """The items of a group that match: their indexes by rank, and in their order."""

    ranked: Sequence[Sequence[int]]
    indexes: Sequence[int]

    @property
    def best(self) -> int:
        """The best rank."""
        return next(rank for rank, indexes in enumerate(self.ranked) if indexes)


class Finder(ItemRows[Item | str]):
    """Groups of items that match a typed text, each below its title, the best first.

    Without a text, the recent items and the actions are listed; with a `scope`, all items of this kind.
    """

    def __init__(self, recent: Sequence[Key] = (), *, scope: FinderKind | None = None) -> None:
        self.text = ""
        self._recent = recent
        self._scope = scope
        self._groups: dict[FinderKind, Group] = {}
        self._folded: dict[FinderKind, list[str]] = {}
        self._folded_details: dict[str, str] = {}
        self._pattern = FinderPattern("")
        self._found: dict[FinderKind, _Found] = {}
        self._found_text: str | None = None  # that `_found` belongs to
        self._steps: Iterator[None] = iter(())
        self.rows: list[Item | str] = []  # a text is a title, the number of hidden items, or that nothing matches
        self._selected: Key | None = None  # item to select at the end of the search

    @property
    def selected_item(self) -> Item | None:
        return self.selected_row if isinstance(self.selected_row, Item) else None

    def can_select(self, index: int) -> bool:
        return isinstance(self.rows[index], Item)

    def add(self, *groups: Group) -> None:
        """Add groups, and begin to search again. The selected item stays selected if it is still listed."""
        for group in groups:
            self._groups[group.kind] = group
            self._folded.pop(group.kind, None)
        items = [item for key in self._recent if (item := self._find_recent(key)) is not None]
        self._groups[FinderKind.RECENT] = Group.from_items(FinderKind.RECENT, items)
        self._folded.pop(FinderKind.RECENT, None)
        self._found_text = None
        selected = self.selected_item
        self.search(self.text)
        self._selected = None if selected is None else selected.identity

    def select(self, identity: Key) -> None:
        """Put the cursor on an item, if it is listed at the end of this search."""
        self._selected = identity

    def search(self, text: str) -> None:
        """Begin to search for a text; `step` continues. Until the end, the rows are those of the last text."""
        self.text = text
        self._pattern = FinderPattern(text)
        self._selected = None
        known = self._found_text
        is_narrower = known is not None and known.strip() and text.startswith(known)
        self._steps = self._search(
            {kind: found.indexes for kind, found in self._found.items()} if is_narrower else None
        )

    def step(self, seconds: float) -> bool:
        """Search for some time. Return True at the end."""
        until = time.perf_counter() + seconds
        return all(time.perf_counter() < until for _ in self._steps)

    def finish(self) -> None:
        for _ in self._steps:
            pass

    def line(self, index: int, width: int) -> Line:
        """Format a title or an item, with its label left and its key right."""
        row = self.rows[index]
        if isinstance(row, str):
            return cut_line((StyledText(f" {row}", Style.MUTED),), width)
        label, room = _fit_label(row, width)
        pieces = [StyledText("   "), *mark((StyledText(label),), self._pattern.find(fold(label)))]
        if row.detail and room >= min(_LEAST_DETAIL, cell_len(row.detail) + 2):
            detail = cut_line((StyledText(f"  {row.detail}", Style.MUTED),), room)
            pieces += mark(detail, self._pattern.find_words(_join(detail)))
            room -= measure_line(detail)
        if row.keys:
            pieces += [StyledText(" " * (max(room, 0) + 2)), StyledText(row.keys, Style.KEY)]
        return cut_line(tuple(pieces), width)

    def find_cut_detail(self, width: int) -> str:
        """Return the detail of the selected item if a row of this width does not show all of it."""
        item = self.selected_item
        return item.detail if item and cell_len(item.detail) + 2 > _fit_label(item, width)[1] else ""

    def _find_recent(self, identity: Key) -> Item | None:
        kind = next((kind for kind in self._groups if identity and kind.value == identity[0]), None)
        return None if kind in (None, FinderKind.RECENT) else self._groups[kind].find(identity[1:])

    def _search(self, within: Mapping[FinderKind, Sequence[int]] | None) -> Iterator[None]:
        """Search all groups, or only these of their items, with pauses."""
        found: dict[FinderKind, _Found] = {}
        for kind, group in self._groups.items():
            if self._pattern.words:
                ranked: list[list[int]] = [[] for _ in Rank]
                indexes: list[int] = []
                for places in _split(range(len(group.names)) if within is None else within.get(kind, ())):
                    self._rank(group, places, ranked, indexes)
                    yield
                if indexes:
                    found[kind] = _Found(ranked, indexes)
            elif group.names and kind in (
                (FinderKind.RECENT, FinderKind.ACTION) if self._scope is None else (self._scope,)
            ):
                every = range(len(group.names))
                found[kind] = _Found([every], every)
        self._found, self._found_text = found, self.text
        self._list()

    def _rank(self, group: Group, places: Sequence[int], ranked: Sequence[list[int]], indexes: list[int]) -> None:
        folded, details, rank = self._folded.setdefault(group.kind, []), self._folded_details, self._pattern.rank
        names = fold(group.kind.value).split() if group.kind in _NAMED_KINDS else ()
        others = [word for word in self._pattern.words if not any(name.startswith(word) for name in names)]
        within_kind = FinderPattern(" ".join(others)) if len(others) < len(self._pattern.words) else None
        for place in places:
            if place == len(folded):
                folded.append(fold(group.names[place]))
            detail = group.details[place]
            if detail not in details:
                details[detail] = fold(detail)
            how_well = rank(folded[place], details[detail])
            if how_well is None and within_kind is not None:
                how_well = within_kind.rank(folded[place], details[detail])
                how_well = None if how_well is None else max(how_well, Rank.DETAIL)
            if how_well is not None:
                ranked[how_well].append(place)
                indexes.append(place)

    def _list(self) -> None:
        """List the items that were found."""
        order = list(FinderKind)
        listed: set[Key] = set()
        self.rows = []
        for kind, found in sorted(self._found.items(), key=lambda pair: (pair[1].best, order.index(pair[0]))):
            make = self._groups[kind].make
            most = _MOST_SHOWN if self._pattern.words else len(found.indexes)
            items = [make(index) for index in islice(chain.from_iterable(found.ranked), most)]
            items = [item for item in items if item.identity not in listed]
            listed.update(item.identity for item in items)
            if items:
                more = len(found.indexes) - most
                self.rows += [kind.value, *items, *([f"  … {more:,} more"] if more > 0 else [])]
        if self._pattern.words and not self.rows:
            self.rows = ["no match"]
        rows = enumerate(self.rows)
        places = (index for index, row in rows if isinstance(row, Item) and row.identity == self._selected)
        self.move_to(next(places, 0))


_LEAST_DETAIL = 24  # cells of a detail that is cut


def _fit_label(item: Item, width: int) -> tuple[str, int]:
    """Return the label for a row of this width, and the cells that remain for the detail."""
    room = width - 4 - (cell_len(item.keys) + 2 if item.keys else 0)
    label = shorten(item.label, max(room, 4))
    return label, room - cell_len(label)


def _split(places: Sequence[int]) -> Iterator[Sequence[int]]:
    return (places[start : start + _AT_ONCE] for start in range(0, len(places), _AT_ONCE))
