"""State of the browser: targets, eval sets and cases as one flat list of rows, some of them folded.

A list of plain rows instead of a tree of widgets: folding, moving and filtering cost the same for ten cases and for
ten thousand, and only rows on the screen are drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

from workbench.engine.plan import Selection
from workbench.model.evalset import Content, EvalCase
from workbench.model.identity import CaseKey, format_case_name
from workbench.model.results import CaseResult, CaseStatus, TurnResult
from workbench.model.trace import Span
from workbench.tui.state.browser_list import (
    BrowserRow,
    CaseContent,
    CaseContents,
    Freshness,
    ListedSet,
    Marks,
    RowKey,
    RowKind,
    WordSearch,
)
from workbench.tui.state.case_filter import Order, Query, QueryContext, has_places, parse_query, sort_rows
from workbench.tui.state.case_status import CaseRecord, CaseState, StatusBoard
from workbench.tui.state.text_layout import safe_line

# Rows, folds, filter and cursor.


class TurnCount(NamedTuple):
    """Turns of the cases that were read. `open_cases` of them are scenarios or broken: their turns are unknown."""

    cases: int = 0
    turns: int = 0
    open_cases: int = 0

    def add(self, other: TurnCount) -> TurnCount:
        """Return the sums."""
        return TurnCount(self.cases + other.cases, self.turns + other.turns, self.open_cases + other.open_cases)


class ListedCount(NamedTuple):
    """The number of cases that match the filter, and of all cases."""

    listed: int
    total: int


class Browser:
    """Targets, their eval sets and their cases: those that are unfolded and match the filter are rows."""

    def __init__(self, board: StatusBoard) -> None:
        self.rows: list[BrowserRow] = []
        self.cursor = 0
        self.query = Query()
        self.order = Order.FILE
        self.marks = Marks()
        self.freshness = Freshness(board.mark_stale)
        self._board = board
        self._targets: list[str] = []
        self._sets: dict[tuple[str, str], ListedSet] = {}
        self._folded: set[tuple[str, str]] = set()
        self._contents = CaseContents()
        self._turns: dict[tuple[str, str], TurnCount] = {}
        self.judges: dict[str, tuple[str, ...]] = {}
        """Judge models of the criteria, by eval set, for the sets that were read."""
        self._edited: dict[str, Collection[str]] = {}
        self._pending_selection: CaseKey | str | RowKey | None = None
        self._lost_row: RowKey | None = None  # was selected, and is gone without an action of the user
        self._query_context = QueryContext(board, self._contents, self.marks, self.freshness, self._edited)
        self._test: Callable[[BrowserRow], bool] | None = None
        self._ordered_cases: dict[tuple[str, str], Sequence[BrowserRow]] = {}
        self._listed_cases: dict[tuple[str, str], Sequence[BrowserRow]] = {}
        self._searches: dict[tuple[str, str], WordSearch] = {}  # in the texts of the ordered cases

    @property
    def sets(self) -> Sequence[ListedSet]:
        """All eval sets, those without an agent last."""
        return tuple(self._sets.values())

    @property
    def file_sets(self) -> Sequence[ListedSet]:
        """Eval sets that are files."""
        return tuple(listed for listed in self._sets.values() if listed.history_run is None)

    def is_from_history(self, target: str, relative: str) -> bool:
        """True if only the history has this set; for a target (empty `relative`), if that is so of all its sets."""
        if relative:
            listed = self._sets.get((target, relative))
            return listed is not None and listed.history_run is not None
        sets = self.list_sets(target)
        return bool(sets) and all(listed.history_run is not None for listed in sets)

    @property
    def selected_row(self) -> BrowserRow | None:
        """Row under the cursor; None if there are no rows."""
        return self.rows[self.cursor] if self.rows else None

    @property
    def is_filtered(self) -> bool:
        """True if the filter hides cases."""
        return self._test is not None

    @property
    def needs_results(self) -> bool:
        """True if results can change which cases are listed, or their order."""
        return self.query.needs_results or self.order.needs_results

    @property
    def read_count(self) -> int:
        """Number of cases whose content was read."""
        return len(self._contents)

    def get_set(self, target: str, relative: str) -> ListedSet | None:
        """Return an eval set by target and path."""
        return self._sets.get((target, relative))

    def list_sets(self, target: str | None) -> list[ListedSet]:
        """List the eval sets of a target; those of all targets, in the order of the screen, if it is None."""
        if target is None:
            return [self._sets[place] for place in self._iterate_set_keys()]
        return [listed for listed in self._sets.values() if listed.target == target]

    @property
    def set_of_new_case(self) -> tuple[str, str] | None:
        """The target and the set that get a new case: those of the selected row; of an agent its first set."""
        row = self.selected_row
        if row is None or row.eval_set:
            return None if row is None else (row.target, row.eval_set)
        sets = [each for each in self.list_sets(row.target) if each.history_run is None and not each.is_dataset]
        return sets[0].key if sets else None

    def find_selected_cases(self, selections: Iterable[Selection]) -> list[CaseKey]:
        """Find the listed cases of these selections."""
        found: list[CaseKey] = []
        for selection in selections:
            names = None if selection.cases is None else set(selection.cases)
            keys = (
                key for listed in self.file_sets if listed.relative == selection.eval_set for key in listed.case_keys
            )
            found += (key for key in keys if names is None or format_case_name(key.eval_id, key.occurrence) in names)
        return found

    def list_cases(self, listed: ListedSet) -> Sequence[BrowserRow]:
        """List the cases of a set that match the filter, folded or not, in the order of the screen."""
        found = self._listed_cases.get(listed.key)
        if found is None:
            ordered = self._ordered_cases.get(listed.key)
            if ordered is None:
                ordered = self._ordered_cases[listed.key] = sort_rows(listed.cases or (), self.order, self._board)
            found = self._listed_cases[listed.key] = self._filter_rows(listed.key, ordered)
        return found

    def count_cases(self) -> ListedCount:
        """Count the cases that match the filter, and all cases."""
        sets = [self._sets[place] for place in self._iterate_set_keys()]
        listed = sum(len(self.list_cases(each)) for each in sets)
        return ListedCount(listed, sum(len(each.cases or ()) for each in sets))

    def _filter_rows(self, place: tuple[str, str], rows: Sequence[BrowserRow]) -> Sequence[BrowserRow]:
        if self._test is None:
            return rows
        if not self.query.covers(*place):
            return ()
        if not self.query.has_only_words:
            return [row for row in rows if self._test(row)]
        search = self._searches.get(place)
        if search is None:
            search = self._searches[place] = WordSearch(rows, self._contents.list_texts(place, rows))
        return search.find(self.query.words)

    def describe_no_match(self) -> str:
        """Say that no case matches, and which filter lists cases if the words are in the name of a set or agent."""
        words, sets = self.query.words, self._sets.values()
        is_place = self.query.has_only_words and not self.query.places
        if not words or not is_place or not any(each.cases and has_places(words, *each.key) for each in sets):
            return "no match"
        return "no match; try " + safe_line(" ".join(f'in:"{word}"' if " " in word else f"in:{word}" for word in words))

    def iterate_case_rows(self) -> Iterable[BrowserRow]:
        """Iterate over all cases in the order of the screen, including those that the filter hides."""
        for place in self._iterate_set_keys():
            yield from self._sets[place].cases or ()

    def list_called_tools(self) -> Sequence[Collection[str]]:
        """List the names of the tools that each case calls, of the cases whose content was read."""
        return [content.tool_names for content in self._contents]

    def iterate_listed_rows(self) -> Iterable[BrowserRow]:
        """Iterate over the cases that match the filter, folded or not, in the order of the screen."""
        for place in self._iterate_set_keys():
            yield from self.list_cases(self._sets[place])

    def count_turns(self, target: str | None, eval_set: str) -> TurnCount:
        """Count the turns of the cases of a set that were read, else of all sets of a target, else of all sets."""
        found = (self._turns.get(listed.key) for listed in self.list_sets(target) if eval_set in ("", listed.relative))
        return reduce(TurnCount.add, filter(None, found), TurnCount())

    @property
    def selected_cases(self) -> Collection[CaseKey]:
        """The selected case, or all listed cases of the selected set or target."""
        row = self.selected_row
        rows = () if row is None else (row,) if row.case is not None else self._iterate_descendants(row)
        return {each.case for each in rows if each.case is not None}

    @property
    def folded_keys(self) -> Sequence[tuple[str, str]]:
        """Folded targets (with an empty eval set) and eval sets."""
        return sorted(self._folded)

    def is_folded(self, row: BrowserRow) -> bool:
        """True if the rows below this one are hidden."""
        return (row.target, row.eval_set) in self._folded

    def is_edited(self, row: BrowserRow) -> bool:
        """True if a case, or anything in a set, has unsaved edits."""
        return self._query_context.is_edited(row) if row.case is not None else self.is_set_edited(row.eval_set)

    def is_scenario(self, case: CaseKey) -> bool:
        """True if a case that was read has no conversation of its own."""
        content = self._contents.get(case)
        return content is not None and content.turns is None and content.hashes is not None  # else it is broken

    def count_edited(self) -> int:
        """Count the cases with unsaved edits, and the sets in which only other parts have some."""
        return sum(max(len(cases), 1) for cases in self._edited.values())

    def is_set_edited(self, eval_set: str) -> bool:
        """True if anything in a set has unsaved edits."""
        return eval_set in self._edited

    # Changes of the project.

    def replace_sets(self, targets: Iterable[str], sets: Iterable[ListedSet]) -> None:
        """Replace all targets and sets. Folds and cursor stay on rows that still exist."""
        sets = tuple(sets)
        named = dict.fromkeys(targets)
        self._targets = [*named, *dict.fromkeys(listed.target for listed in sets if listed.target not in named)]
        old = self._sets
        self._sets = {}
        for listed in sets:
            known = old[listed.key].cases if listed.key in old else None  # shown as it was until it is read again
            self._sets[listed.key] = listed if listed.cases is not None else replace(listed, cases=known)
        for place in old.keys() - self._sets.keys():
            self._remove_cases(old[place].case_keys)
            self._edited.pop(old[place].relative, None)
        self._relist()

    def update_set(self, listed: ListedSet) -> None:
        """Update an eval set that was read, or could not be read."""
        old = self._sets.get(listed.key)
        if old is not None and old.cases and listed.cases is not None:  # a broken file may be mended
            self._remove_cases(set(old.case_keys).difference(listed.case_keys))
        self._sets[listed.key] = listed
        self._relist(listed.key)

    def update_contents(self, contents: Iterable[CaseContent]) -> None:
        """Update the contents of cases. `refresh` then applies the filter again."""
        for content in contents:
            self._count_turns(self._contents.replace(content), -1)
            self._count_turns(content, 1)
            self.freshness.set_current_hashes(content.key, content.hashes)
        self._searches.clear()

    def set_edited_cases(self, relative: str, cases: Collection[str] | None) -> None:
        """Set the ids of the cases of a set that have unsaved edits; None if the set has no unsaved edits."""
        if cases is None:
            self._edited.pop(relative, None)
        else:
            self._edited[relative] = cases

    def refresh(self) -> None:
        """Order and filter all cases again, because contents or results changed."""
        self._relist()

    def select_when_listed(self, wanted: CaseKey | str) -> None:
        """Put the cursor on a case, or on the set with this path, as soon as it is listed."""
        self._pending_selection = wanted
        self._select_pending()

    @property
    def has_hidden_selection(self) -> bool:
        """True if the filter hides the case or set that is to be selected."""
        wanted = self._pending_selection
        if not self.is_filtered or wanted is None or isinstance(wanted, tuple):
            return False
        if isinstance(wanted, str):
            return any(listed.relative == wanted for listed in self._sets.values())
        listed = self._sets.get((wanted.target, wanted.eval_set))
        return listed is not None and wanted in listed.case_keys

    def restore_view(self, *, folded: Iterable[tuple[str, str]], selected: RowKey | None) -> None:
        """Restore folds, and the cursor as soon as its row is listed, unless the user moves it first."""
        self._folded = set(folded)
        self._pending_selection = selected
        self._rebuild()

    # Actions of the user.

    def filter(self, text: str) -> None:
        """List only the cases that match a filter line, with their sets and targets."""
        self.query = parse_query(text)
        self._test = self._query_context.compile_query(self.query)
        self._listed_cases.clear()
        self._rebuild()

    def sort(self, order: Order) -> None:
        """Sort the cases of each set in this order."""
        self.order = order
        self._relist()

    def move_cursor(self, by: int) -> None:
        """Move the cursor by a number of rows, at most to the first or last."""
        self.set_cursor(self.cursor + by)

    def set_cursor(self, index: int) -> None:
        """Put the cursor on a row, or on the first or last row if the index is out of range."""
        self._pending_selection = None
        self.forget_lost_row()
        self._clamp_cursor(index)

    def forget_lost_row(self) -> None:
        """Do not select the lost row when it is listed again: the user has pressed another key meanwhile."""
        self._lost_row = None

    def _clamp_cursor(self, index: int) -> None:
        self.cursor = max(0, min(index, len(self.rows) - 1))

    def select_case(self, key: CaseKey) -> bool:
        """Put the cursor on a case and unfold its set and target. Return False if it is not listed."""
        return self.select_row((key.target, key.eval_set, key))

    def select_set(self, listed: ListedSet) -> bool:
        """Put the cursor on an eval set and unfold its target. Return False if it is not listed."""
        return self.select_row((*listed.key, None))

    def select_row(self, key: RowKey) -> bool:
        """Put the cursor on a row and unfold what contains it. Return False if it is not listed."""
        self.forget_lost_row()
        target, eval_set, case = key
        around = {(target, "")} if eval_set else set()
        hiding = (around | ({(target, eval_set)} if case is not None else set())) & self._folded
        if hiding:
            self._folded -= hiding
            self._rebuild()
        return self._select_row(key)

    def fold(self) -> None:
        """Fold the selected row. If it is a case, or folded already, go to its parent."""
        row = self.selected_row
        if row is None:
            return
        if row.kind is not RowKind.CASE and not self.is_folded(row):
            self._folded.add((row.target, row.eval_set))
            self._rebuild()
        elif row.depth:
            self.cursor = next(i for i in range(self.cursor, -1, -1) if self.rows[i].depth < row.depth)

    def unfold(self) -> None:
        """Unfold the selected row. If it is unfolded already, go to its first child."""
        row = self.selected_row
        if row is None or row.kind is RowKind.CASE:
            return
        if self.is_folded(row):
            self._folded.discard((row.target, row.eval_set))
            self._rebuild()
        elif self.cursor + 1 < len(self.rows) and self.rows[self.cursor + 1].depth > row.depth:
            self.cursor += 1

    def toggle_fold(self) -> None:
        """Fold or unfold the selected row."""
        row = self.selected_row
        if row is not None and row.kind is not RowKind.CASE:
            self._folded ^= {(row.target, row.eval_set)}
            self._rebuild()

    def toggle_mark(self) -> None:
        """Mark the selected case and go to the next row. On a set or an agent, mark all its listed cases."""
        row = self.selected_row
        if row is None:
            return
        if row.case is None:
            self.marks.toggle([each.case for each in self._iterate_descendants(row) if each.case is not None])
            return
        self.marks.toggle([row.case])
        self.marks.anchor = row.case
        self.move_cursor(1)

    def mark_range(self) -> None:
        """Mark every case from the last marked one to the selected row."""
        anchor = self.marks.anchor
        place = None if anchor is None else (anchor.target, anchor.eval_set, anchor)
        start = next((i for i, row in enumerate(self.rows) if place is not None and row.has_key(place)), self.cursor)
        first, last = sorted((start, self.cursor))
        self.marks.add([row.case for row in self.rows[first : last + 1] if row.case is not None])
        self.marks.anchor = self.selected_row.case if self.selected_row is not None else None

    def mark_listed(self) -> None:
        """Mark every listed case, folded or not. If all are marked already, unmark them."""
        self.marks.toggle([row.case for row in self.iterate_listed_rows() if row.case is not None])

    def find_next_case(self, keep: Callable[[CaseKey], bool], *, backwards: bool = False) -> CaseKey | None:
        """Find the next listed case after the cursor that `keep` accepts, cyclically; None if there is no such case."""
        rows = list(self.iterate_listed_rows())
        if backwards:
            rows.reverse()
        start = self._find_start(rows, backwards=backwards)
        for row in (*rows[start:], *rows[:start]):
            if row.case is not None and keep(row.case):
                return row.case
        return None

    def _find_start(self, rows: Sequence[BrowserRow], *, backwards: bool) -> int:
        """Return where the search begins: after the selected case, or at the first case of the selected set or
        target.
        """
        row = self.selected_row
        if row is None:
            return 0
        if row.case is not None:
            return next((i + 1 for i, other in enumerate(rows) if other is row), 0)
        inside = [i for i, other in enumerate(rows) if row.contains(other)]
        if not inside:
            return 0
        return inside[-1] + 1 if backwards else inside[0]

    def _iterate_descendants(self, row: BrowserRow) -> Iterable[BrowserRow]:
        for listed in self.list_sets(row.target):
            if row.eval_set in ("", listed.relative):
                yield from self.list_cases(listed)

    def _iterate_set_keys(self) -> Iterable[tuple[str, str]]:
        for target in self._targets:
            yield from (place for place in self._sets if place[0] == target)

    def _remove_cases(self, keys: Collection[CaseKey]) -> None:
        self.marks.remove(keys)
        self.freshness.remove_cases(keys)
        for key in keys:
            self._count_turns(self._contents.remove(key), -1)

    def _count_turns(self, content: CaseContent | None, sign: int) -> None:
        if content is not None:
            place = content.key.target, content.key.eval_set
            known = TurnCount(sign, sign * (content.turns or 0), sign * (content.turns is None))
            self._turns[place] = self._turns.get(place, TurnCount()).add(known)

    def _relist(self, *places: tuple[str, str]) -> None:
        """Order and filter the cases of these sets again; of all sets if none is given."""
        for cache in (self._ordered_cases, self._listed_cases, self._searches):
            for place in places or tuple(cache):
                cache.pop(place, None)
        self._rebuild()

    def _rebuild(self) -> None:
        selected = self.selected_row
        rows: list[BrowserRow] = []
        for target in self._targets:
            below = self._build_target_rows(target)
            if below or not self.is_filtered:
                rows.append(BrowserRow(RowKind.TARGET, safe_line(target) or "(no agent found)", target))
                if (target, "") not in self._folded:
                    rows += below
        self.rows = rows
        self._restore_cursor(selected)
        self._select_pending()

    def _build_target_rows(self, target: str) -> list[BrowserRow]:
        sets = self.list_sets(target)
        names = [listed.short_name for listed in sets]
        times = Counter(names)
        rows: list[BrowserRow] = []
        for listed, name in zip(sets, names, strict=True):
            cases = self.list_cases(listed)
            if not cases and self.is_filtered:
                continue
            label = name if times[name] == 1 else listed.relative
            rows.append(BrowserRow(RowKind.EVAL_SET, safe_line(label), target, listed.relative, problem=listed.state))
            if listed.key not in self._folded:
                rows += cases
        return rows

    def _restore_cursor(self, selected: BrowserRow | None) -> None:
        """Stay on the same row. If it is gone, go to a sibling, else to its set or target, until it is back."""
        if self._lost_row is not None and self._select_row(self._lost_row):  # its file was read while it was written
            self.forget_lost_row()
            return
        if selected is None or self._select_row(selected.key):
            self._clamp_cursor(self.cursor)
            return
        if self._lost_row is None and not self._has(selected):
            self._lost_row = selected.key
        for index in (self.cursor, self.cursor - 1):
            if 0 <= index < len(self.rows) and self.rows[index].is_sibling(selected):
                self.cursor = index
                return
        if not self._select_row((selected.target, selected.eval_set, None)):
            self._select_row((selected.target, "", None))
        self._clamp_cursor(self.cursor)

    def _has(self, row: BrowserRow) -> bool:
        """True if a row exists, though a fold or the filter may hide it."""
        listed = self._sets.get((row.target, row.eval_set))
        return listed is not None and (row.case is None or row.case in listed.case_keys)

    def _select_pending(self) -> None:
        wanted = self._pending_selection
        if wanted is None:
            return
        self._pending_selection = None  # going there may rebuild the rows
        if isinstance(wanted, tuple):
            is_there = self._select_row(wanted)
        elif isinstance(wanted, str):
            listed = next((listed for listed in self._sets.values() if listed.relative == wanted), None)
            is_there = listed is not None and self.select_set(listed)
        else:
            is_there = self.select_case(wanted)
        if not is_there:
            self._pending_selection = wanted

    def _select_row(self, place: RowKey) -> bool:
        """Put the cursor on the row with this key. Return False if not found."""
        if self.rows and self.cursor < len(self.rows) and self.rows[self.cursor].has_key(place):
            return True
        for index, row in enumerate(self.rows):
            if row.has_key(place):
                self.cursor = index
                return True
        return False


# Selections: the cases that an action of the user applies to.


def select_cases(browser: Browser, place: RowKey | None) -> Sequence[Selection]:
    """Select the marked cases; without marks the case with this key, or the listed cases of its set or target.

    Sets that could not be read are included: they may be valid again, and if not, the plan reports it.
    """
    if len(browser.marks):
        return make_selections(browser.marks, browser)
    if place is None or not place[0]:
        return []
    target, eval_set, case = place
    if case is not None:
        return make_selections([case], browser)
    sets = (listed for listed in browser.file_sets if listed.target == target)
    return _select_listed(browser, [listed for listed in sets if eval_set in ("", listed.relative)])


def select_all(browser: Browser) -> Sequence[Selection]:
    """Select everything that is listed and has an agent, marked or not."""
    return _select_listed(browser, [listed for listed in browser.file_sets if listed.target])


def select_matching(browser: Browser, keep: Callable[[CaseKey], bool]) -> Sequence[Selection]:
    """Select the marked cases that `keep` accepts; without marks, the listed ones."""
    if len(browser.marks):
        return make_selections((key for key in browser.marks if keep(key)), browser)
    listed = (row.case for row in browser.iterate_listed_rows() if row.case is not None and keep(row.case))
    return make_selections(listed, browser)


def _select_listed(browser: Browser, sets: Iterable[ListedSet]) -> Sequence[Selection]:
    """Select whole sets, or only their listed cases if there is a filter."""
    if not browser.is_filtered:
        return [Selection(eval_set=listed.relative) for listed in sets]
    cases = (row.case for listed in sets for row in browser.list_cases(listed) if row.case is not None)
    return make_selections(cases, browser)


def make_selections(keys: Iterable[CaseKey], browser: Browser) -> Sequence[Selection]:
    """Make selections of these cases without duplicates. Cases without an agent, and those only in the history, are
    left out.
    """
    by_set: dict[str, dict[str, None]] = {}
    for key in keys:
        if key.target and not browser.is_from_history(key.target, key.eval_set):
            by_set.setdefault(key.eval_set, {})[key.eval_id] = None
    return [Selection(eval_set=eval_set, cases=tuple(ids)) for eval_set, ids in by_set.items()]


# The subject of the panes: the selected row with its case and results.


@dataclass(frozen=True, slots=True)
class LoadedCase:
    """A case as read from its file, or the problem with it, and its stored results if they were requested.

    `is_from_history`: there is no file, only stored results; `case` then has the expectations of the row at that time.
    `is_row`: it is a row of a dataset. `live_samples`: see `CaseRecord`; only read if the stored results are replayed.
    """

    key: CaseKey
    case: EvalCase | None
    problem: str = ""
    stored: Sequence[CaseResult] = ()
    is_from_history: bool = False
    is_row: bool = False
    live_samples: Sequence[CaseStatus] = ()


@dataclass(frozen=True, slots=True)
class PinnedResult:
    """A session shown instead of the newest result: one of a stored run, or a chat. `title` is safe."""

    title: str
    case: EvalCase | None
    result: CaseResult


@dataclass(frozen=True, slots=True)
class Subject:
    """Selected row: a snapshot, except that `record` changes during a run.

    `row`: None if nothing is listed, and if the whole project is shown (`is_project`). `loaded`: None while the case is
    read, and if the row is not a case. `repeat`: None if the case has not run. `stale_reasons`: empty if its verdict is
    current.
    """

    row: BrowserRow | None = None
    loaded: LoadedCase | None = None
    record: CaseRecord | None = None
    repeat: int | None = None
    pinned: PinnedResult | None = None
    stale_reasons: Sequence[str] = ()
    is_project: bool = False

    @property
    def key(self) -> CaseKey | None:
        if self.pinned is not None:
            return self.pinned.result.case
        return self.row.case if self.row is not None else None

    @property
    def case(self) -> EvalCase | None:
        """Case to compare with; None if there is no case or it could not be read."""
        if self.pinned is not None:
            return self.pinned.case
        return self.loaded.case if self.loaded is not None else None

    @property
    def is_from_history(self) -> bool:
        """True if it is a row of a dataset that only the history has."""
        is_chat = self.loaded is not None and self.key != self.loaded.key
        return self.loaded is not None and self.loaded.is_from_history and not is_chat

    @property
    def is_row(self) -> bool:
        return (self.loaded is not None and self.loaded.is_row) or (self.result is not None and self.result.is_row)

    @property
    def lacks_reference(self) -> bool:
        """True if its expectations are no longer stored."""
        return self.is_from_history and self.case is None

    @property
    def is_stale(self) -> bool:
        """True if the shown result is a stale verdict."""
        is_verdict = self.record is not None and self.record.state not in (CaseState.WAITING, CaseState.RUNNING)
        return bool(self.stale_reasons) and is_verdict and self.is_newest_result

    @property
    def is_newest_result(self) -> bool:
        """True if the newest results of the case are shown, and there are some."""
        return self.pinned is None and self.record is not None and bool(self.record.outcomes)

    @property
    def is_live(self) -> bool:
        """True if the shown repeat is in progress."""
        return self.pinned is None and self.record is not None and self.repeat in self.record.turns

    @property
    def result(self) -> CaseResult | None:
        """Shown result; None before the first result, and while it is still to be read."""
        if self.pinned is not None:
            return self.pinned.result
        if self.record is None or self.repeat is None or self.is_live:
            return None
        outcome = self.record.outcomes.get(self.repeat)
        return outcome.result if outcome is not None else None

    @property
    def turns(self) -> Sequence[TurnResult]:
        """Finished turns of the shown repeat."""
        if self.is_live and self.record is not None and self.repeat is not None:
            return self.record.turns[self.repeat]
        return self.result.execution.turns if self.result is not None else ()

    @property
    def pending_user_message(self) -> Content | None:
        """Message of a simulated user that the agent has not answered yet."""
        if self.is_live and self.record is not None and self.repeat is not None:
            return self.record.pending_user_messages.get(self.repeat)
        return None

    @property
    def spans(self) -> Sequence[Span]:
        """Finished steps of the agent."""
        if self.is_live and self.record is not None and self.repeat is not None:
            return self.record.spans.get(self.repeat, ())
        return self.result.execution.spans if self.result is not None else ()


def choose_repeat(record: CaseRecord | None, chosen: int | None) -> int | None:
    """Return the chosen repeat, else the first in progress, else the first whose status is the state of the case."""
    if record is None or not record.repeats:
        return None
    if chosen in record.repeats:
        return chosen
    if record.turns:
        return min(record.turns)
    ended_so = (r for r, outcome in sorted(record.outcomes.items()) if outcome.state is record.state)
    return next(ended_so, record.repeats[0])
