"""The browser: targets, their eval sets and their cases as one flat list of rows, some of them folded away.

A list of plain rows instead of a tree of widgets: folding, moving and filtering cost the same for ten cases and for
ten thousand, and only the rows on the screen are ever drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from workbench.engine.plan import Selection
from workbench.model.evalset import Content, EvalCase
from workbench.model.identity import CaseKey
from workbench.model.results import CaseResult, TurnResult
from workbench.model.trace import Span
from workbench.tui.state.browser_list import CaseContent, Freshness, ListedSet, Marks, Place, Row, RowKind
from workbench.tui.state.case_board import Board, CaseRecord, Standing
from workbench.tui.state.case_filter import Knowledge, Order, Query, in_order, parse_query
from workbench.tui.state.text_layout import safe_line

# The rows of the browser: which there are, which are unfolded, which are listed, and where the cursor is.


class Browser:
    """Targets, their eval sets and their cases, as far as they are unfolded and meant by the filter."""

    def __init__(self, board: Board) -> None:
        self.rows: list[Row] = []
        self.cursor = 0
        self.query = Query()
        self.order = Order.FILE
        self.marks = Marks()
        self.freshness = Freshness()
        self._board = board
        self._targets: list[str] = []
        self._sets: dict[tuple[str, str], ListedSet] = {}
        self._folded: set[tuple[str, str]] = set()
        self._contents: dict[CaseKey, CaseContent] = {}
        self.judges: dict[str, tuple[str, ...]] = {}
        """The models that the criteria ask, by eval set, as far as the sets have been read."""
        self._edited: dict[str, Collection[str]] = {}
        self._expected: CaseKey | str | Place | None = None
        self._knowledge = Knowledge(board, self._contents, self.marks, self.freshness, self._edited)
        self._test: Callable[[Row], bool] | None = None
        self._ordered_cases: dict[tuple[str, str], Sequence[Row]] = {}
        self._listed_cases: dict[tuple[str, str], Sequence[Row]] = {}

    @property
    def sets(self) -> Sequence[ListedSet]:
        """Every eval set, those of no agent last."""
        return tuple(self._sets.values())

    @property
    def files(self) -> Sequence[ListedSet]:
        """Every eval set that is a file."""
        return tuple(listed for listed in self._sets.values() if listed.kept is None)

    def is_kept(self, target: str, relative: str) -> bool:
        """Whether this set is what is kept of a run, and no file; of a target (no set) whether all of it is."""
        if relative:
            listed = self._sets.get((target, relative))
            return listed is not None and listed.kept is not None
        sets = self.sets_of(target)
        return bool(sets) and all(listed.kept is not None for listed in sets)

    @property
    def selected(self) -> Row | None:
        """The row under the cursor, None where there are no rows."""
        return self.rows[self.cursor] if self.rows else None

    @property
    def is_filtered(self) -> bool:
        """Whether only some cases are listed."""
        return self._test is not None

    @property
    def needs_results(self) -> bool:
        """Whether what a run does may change which cases are listed, or in which order."""
        return self.query.needs_results or self.order.needs_results

    @property
    def read_count(self) -> int:
        """Of how many cases the content is known."""
        return len(self._contents)

    def eval_set(self, target: str, relative: str) -> ListedSet | None:
        """An eval set as listed."""
        return self._sets.get((target, relative))

    def sets_of(self, target: str) -> list[ListedSet]:
        """The eval sets of a target."""
        return [listed for listed in self._sets.values() if listed.target == target]

    def cases_in(self, listed: ListedSet) -> Sequence[Row]:
        """The cases of a set that are listed, folded away or not, in the order of the screen."""
        found = self._listed_cases.get(listed.place)
        if found is None:
            ordered = self._ordered_cases.get(listed.place)
            if ordered is None:
                ordered = self._ordered_cases[listed.place] = in_order(listed.cases or (), self.order, self._board)
            found = ordered if self._test is None else [row for row in ordered if self._test(row)]
            self._listed_cases[listed.place] = found
        return found

    def case_rows(self) -> Iterable[Row]:
        """Every case in the order of the screen, listed or not."""
        for place in self._places():
            yield from self._sets[place].cases or ()

    def listed_case_rows(self) -> Iterable[Row]:
        """Every listed case in the order of the screen, folded away or not."""
        for place in self._places():
            yield from self.cases_in(self._sets[place])

    @property
    def selected_cases(self) -> Collection[CaseKey]:
        """The selected case, or all listed cases of the selected set or target."""
        row = self.selected
        rows = () if row is None else (row,) if row.case is not None else self._cases_below(row)
        return {each.case for each in rows if each.case is not None}

    @property
    def folded(self) -> Sequence[tuple[str, str]]:
        """Which targets (with an empty eval set) and eval sets hide what is below them."""
        return sorted(self._folded)

    def is_folded(self, row: Row) -> bool:
        """Whether the rows below this one are hidden."""
        return (row.target, row.eval_set) in self._folded

    def is_edited(self, row: Row) -> bool:
        """Whether a case, or anything in a set, has unsaved edits."""
        return self._knowledge.is_edited(row) if row.case is not None else row.eval_set in self._edited

    # What becomes known.

    def show(self, targets: Iterable[str], sets: Iterable[ListedSet]) -> None:
        """Replace what there is; folds and the cursor stay where their rows still exist."""
        sets = tuple(sets)
        named = dict.fromkeys(targets)
        self._targets = [*named, *dict.fromkeys(listed.target for listed in sets if listed.target not in named)]
        old = self._sets
        self._sets = {}
        for listed in sets:
            known = old[listed.place].cases if listed.place in old else None  # shown as it was until it is read again
            self._sets[listed.place] = listed if listed.cases is not None else replace(listed, cases=known)
        for place in old.keys() - self._sets.keys():
            self._forget(old[place].keys)
            self._edited.pop(old[place].relative, None)
        self._relist()

    def show_set(self, listed: ListedSet) -> None:
        """An eval set has been read, or could not be."""
        old = self._sets.get(listed.place)
        if old is not None and old.cases and listed.cases is not None:  # a broken file may be mended
            self._forget(set(old.keys).difference(listed.keys))
        self._sets[listed.place] = listed
        self._relist(listed.place)

    def show_contents(self, contents: Iterable[CaseContent]) -> None:
        """Cases have been read. `refresh` lists them anew where the filter asks for that."""
        for content in contents:
            self._contents[content.key] = content
            self.freshness.read(content.key, content.hashes)

    def show_edited(self, relative: str, cases: Collection[str] | None) -> None:
        """Which cases of a set, by id, have unsaved edits; None where the set has none at all."""
        if cases is None:
            self._edited.pop(relative, None)
        else:
            self._edited[relative] = cases

    def refresh(self) -> None:
        """List anew: what is known of the cases has changed."""
        self._relist()

    def expect(self, wanted: CaseKey | str) -> None:
        """Put the cursor on a case, or on the set with this path, as soon as it is listed."""
        self._expected = wanted
        self._go_to_expected()

    @property
    def hides_expected(self) -> bool:
        """Whether what the cursor is to be put on is there, and only the filter does not list it."""
        wanted = self._expected
        if not self.is_filtered or wanted is None or isinstance(wanted, tuple):
            return False
        if isinstance(wanted, str):
            return any(listed.relative == wanted for listed in self._sets.values())
        listed = self._sets.get((wanted.target, wanted.eval_set))
        return listed is not None and wanted in listed.keys

    def return_to(self, *, folded: Iterable[tuple[str, str]], selected: Place | None) -> None:
        """Fold as it was left, and put the cursor where it was as soon as that is listed, unless it is moved before."""
        self._folded = set(folded)
        self._expected = selected
        self._rebuild()

    # What the user does.

    def filter(self, text: str) -> None:
        """List only the cases that a filter line means, and what they are in."""
        self.query = parse_query(text)
        self._test = self._knowledge.test_of(self.query)
        self._listed_cases.clear()
        self._rebuild()

    def sort(self, order: Order) -> None:
        """List the cases of each set in this order."""
        self.order = order
        self._relist()

    def move(self, by: int) -> None:
        """Move the cursor by so many rows, as far as there are rows."""
        self.move_to(self.cursor + by)

    def move_to(self, index: int) -> None:
        """Put the cursor on a row; an index past either end means the row there."""
        self._expected = None
        self._keep_cursor_at(index)

    def _keep_cursor_at(self, index: int) -> None:
        self.cursor = max(0, min(index, len(self.rows) - 1))

    def go_to(self, key: CaseKey) -> bool:
        """Put the cursor on a case, unfolding what hides it; False where it is not listed."""
        hiding = {(key.target, ""), (key.target, key.eval_set)} & self._folded
        if hiding:
            self._folded -= hiding
            self._rebuild()
        return self._put_cursor_on((key.target, key.eval_set, key))

    def go_to_set(self, listed: ListedSet) -> bool:
        """Put the cursor on an eval set, unfolding what hides it; False where it is not listed."""
        if (listed.target, "") in self._folded:
            self._folded.discard((listed.target, ""))
            self._rebuild()
        return self._put_cursor_on((*listed.place, None))

    def fold(self) -> None:
        """Fold the selected row, or go to the row that it is in where it is a case or folded already."""
        row = self.selected
        if row is None:
            return
        if row.kind is not RowKind.CASE and not self.is_folded(row):
            self._folded.add((row.target, row.eval_set))
            self._rebuild()
        elif row.depth:
            self.cursor = next(i for i in range(self.cursor, -1, -1) if self.rows[i].depth < row.depth)

    def unfold(self) -> None:
        """Unfold the selected row, or go to the first row in it where it is unfolded already."""
        row = self.selected
        if row is None or row.kind is RowKind.CASE:
            return
        if self.is_folded(row):
            self._folded.discard((row.target, row.eval_set))
            self._rebuild()
        elif self.cursor + 1 < len(self.rows) and self.rows[self.cursor + 1].depth > row.depth:
            self.cursor += 1

    def toggle(self) -> None:
        """Fold the selected row where it is unfolded, else unfold it."""
        row = self.selected
        if row is not None and row.kind is not RowKind.CASE:
            self._folded ^= {(row.target, row.eval_set)}
            self._rebuild()

    def toggle_mark(self) -> None:
        """Mark the selected case and go to the next row; of a set or an agent mark all that is listed of it."""
        row = self.selected
        if row is None:
            return
        if row.case is None:
            self.marks.toggle([each.case for each in self._cases_below(row) if each.case is not None])
            return
        self.marks.toggle([row.case])
        self.marks.anchor = row.case
        self.move(1)

    def mark_range(self) -> None:
        """Mark every case on the screen's list from the one that was marked last to the selected row."""
        anchor = self.marks.anchor
        place = None if anchor is None else (anchor.target, anchor.eval_set, anchor)
        start = next((i for i, row in enumerate(self.rows) if place is not None and row.is_at(place)), self.cursor)
        first, last = sorted((start, self.cursor))
        self.marks.add([row.case for row in self.rows[first : last + 1] if row.case is not None])
        self.marks.anchor = self.selected.case if self.selected is not None else None

    def mark_listed(self) -> None:
        """Mark every listed case, folded away or not; where all are marked already, unmark them."""
        self.marks.toggle([row.case for row in self.listed_case_rows() if row.case is not None])

    def next_case(self, keep: Callable[[CaseKey], bool], *, backwards: bool = False) -> CaseKey | None:
        """The next listed case after the cursor that `keep` keeps, going round at the end; None where there is none."""
        rows = list(self.listed_case_rows())
        if backwards:
            rows.reverse()
        start = self._position_among(rows, backwards=backwards)
        for row in (*rows[start:], *rows[:start]):
            if row.case is not None and keep(row.case):
                return row.case
        return None

    def _position_among(self, rows: Sequence[Row], *, backwards: bool) -> int:
        """Where the search begins: behind the selected case, or at the first case in the selected set or target."""
        row = self.selected
        if row is None:
            return 0
        if row.case is not None:
            return next((i + 1 for i, other in enumerate(rows) if other is row), 0)
        inside = [i for i, other in enumerate(rows) if row.contains(other)]
        if not inside:
            return 0
        return inside[-1] + 1 if backwards else inside[0]

    def _cases_below(self, row: Row) -> Iterable[Row]:
        for listed in self.sets_of(row.target):
            if row.eval_set in ("", listed.relative):
                yield from self.cases_in(listed)

    def _places(self) -> Iterable[tuple[str, str]]:
        for target in self._targets:
            yield from (place for place in self._sets if place[0] == target)

    def _forget(self, keys: Collection[CaseKey]) -> None:
        self.marks.forget(keys)
        self.freshness.forget(keys)
        for key in keys:
            self._contents.pop(key, None)

    def _relist(self, *places: tuple[str, str]) -> None:
        """Order and filter the cases of these sets anew, of all sets where none is named."""
        for cache in (self._ordered_cases, self._listed_cases):
            for place in places or tuple(cache):
                cache.pop(place, None)
        self._rebuild()

    def _rebuild(self) -> None:
        selected = self.selected
        rows: list[Row] = []
        for target in self._targets:
            below = self._rows_of_target(target)
            if below or not self.is_filtered:
                rows.append(Row(RowKind.TARGET, safe_line(target) or "(no agent found)", target))
                if (target, "") not in self._folded:
                    rows += below
        self.rows = rows
        self._restore_cursor(selected)
        self._go_to_expected()

    def _rows_of_target(self, target: str) -> list[Row]:
        sets = self.sets_of(target)
        names = [listed.short_name for listed in sets]
        times = Counter(names)
        rows: list[Row] = []
        for listed, name in zip(sets, names, strict=True):
            cases = self.cases_in(listed)
            if not cases and self.is_filtered:
                continue
            label = name if times[name] == 1 else listed.relative
            rows.append(Row(RowKind.EVAL_SET, safe_line(label), target, listed.relative, problem=listed.state))
            if listed.place not in self._folded:
                rows += cases
        return rows

    def _restore_cursor(self, selected: Row | None) -> None:
        """Stay on the same row; where it is gone, on a neighbour, else on what it was in."""
        if selected is None or self._put_cursor_on(selected.place):
            self._keep_cursor_at(self.cursor)
            return
        for index in (self.cursor, self.cursor - 1):
            if 0 <= index < len(self.rows) and self.rows[index].is_beside(selected):
                self.cursor = index
                return
        if not self._put_cursor_on((selected.target, selected.eval_set, None)):
            self._put_cursor_on((selected.target, "", None))
        self._keep_cursor_at(self.cursor)

    def _go_to_expected(self) -> None:
        wanted = self._expected
        if wanted is None:
            return
        self._expected = None  # going there may rebuild the rows
        if isinstance(wanted, tuple):
            is_there = self._put_cursor_on(wanted)
        elif isinstance(wanted, str):
            listed = next((listed for listed in self._sets.values() if listed.relative == wanted), None)
            is_there = listed is not None and self.go_to_set(listed)
        else:
            is_there = self.go_to(wanted)
        if not is_there:
            self._expected = wanted

    def _put_cursor_on(self, place: Place) -> bool:
        """Put the cursor on the row of that place; False where there is none."""
        for index, row in enumerate(self.rows):
            if row.is_at(place):
                self.cursor = index
                return True
        return False


# Which cases an order of the user means: to run, to move, to delete.


def wanted_at(browser: Browser, place: Place | None) -> Sequence[Selection]:
    """The marked cases; where none are, the case of this place, or what is listed of its set or target.

    Sets that cannot be read are part of it: they may be whole again, and where not, a plan says so.
    """
    if len(browser.marks):
        return selections_of(browser.marks, browser)
    if place is None or not place[0]:
        return []
    target, eval_set, case = place
    if case is not None:
        return selections_of([case], browser)
    sets = (listed for listed in browser.files if listed.target == target)
    return _listed(browser, [listed for listed in sets if eval_set in ("", listed.relative)])


def wanted_all(browser: Browser) -> Sequence[Selection]:
    """Everything that is listed and has an agent, marked or not."""
    return _listed(browser, [listed for listed in browser.files if listed.target])


def wanted_of(browser: Browser, keep: Callable[[CaseKey], bool]) -> Sequence[Selection]:
    """The cases that `keep` keeps of the marked ones; where none are marked, of the listed ones."""
    if len(browser.marks):
        return selections_of((key for key in browser.marks if keep(key)), browser)
    listed = (row.case for row in browser.listed_case_rows() if row.case is not None and keep(row.case))
    return selections_of(listed, browser)


def _listed(browser: Browser, sets: Iterable[ListedSet]) -> Sequence[Selection]:
    """The sets as a whole; where a filter lists only some of their cases, these."""
    if not browser.is_filtered:
        return [Selection(eval_set=listed.relative) for listed in sets]
    cases = (row.case for listed in sets for row in browser.cases_in(listed) if row.case is not None)
    return selections_of(cases, browser)


def selections_of(keys: Iterable[CaseKey], browser: Browser) -> Sequence[Selection]:
    """These cases, each once, but for those that have no agent, or are only kept of a run."""
    by_set: dict[str, dict[str, None]] = {}
    for key in keys:
        if key.target and not browser.is_kept(key.target, key.eval_set):
            by_set.setdefault(key.eval_set, {})[key.eval_id] = None
    return [Selection(eval_set=eval_set, cases=tuple(ids)) for eval_set, ids in by_set.items()]


# What the panes show: the selected row, and all that is known of it.


@dataclass(frozen=True, slots=True)
class ReadCase:
    """A case as its file has it now, or why it could not be read, and its stored results where they were asked for.

    `is_kept`: there is no file, only what a run has stored, and `case` what the row expected then. `is_row`: it is a
    row of a dataset, as far as the file tells.
    """

    key: CaseKey
    case: EvalCase | None
    problem: str = ""
    stored: Sequence[CaseResult] = ()
    is_kept: bool = False
    is_row: bool = False


@dataclass(frozen=True, slots=True)
class Pinned:
    """A session that was asked for in place of the newest result: a stored run's, or a chat's. `title` is safe."""

    title: str
    case: EvalCase | None
    result: CaseResult


@dataclass(frozen=True, slots=True)
class Subject:
    """What is selected. A snapshot, but for `record`, which changes as a run goes on.

    `row` is None where nothing is listed; `read` while the case is read, and where the row is no case. `repeat` is the
    one that is looked at, None where the case has not run. `why_stale` says why its verdict does not hold; nothing
    where it does.
    """

    row: Row | None = None
    read: ReadCase | None = None
    record: CaseRecord | None = None
    repeat: int | None = None
    pinned: Pinned | None = None
    why_stale: Sequence[str] = ()

    @property
    def key(self) -> CaseKey | None:
        """The case that is looked at."""
        if self.pinned is not None:
            return self.pinned.result.case
        return self.row.case if self.row is not None else None

    @property
    def case(self) -> EvalCase | None:
        """The case as it is to be compared with; None where there is none or it could not be read."""
        if self.pinned is not None:
            return self.pinned.case
        return self.read.case if self.read is not None else None

    @property
    def is_kept(self) -> bool:
        """Whether it is a row of a dataset of which there are only stored results."""
        is_chat = self.read is not None and self.key != self.read.key
        return self.read is not None and self.read.is_kept and not is_chat

    @property
    def is_row(self) -> bool:
        """Whether it is a row of a dataset."""
        return (self.read is not None and self.read.is_row) or (self.result is not None and self.result.is_row)

    @property
    def lacks_expected(self) -> bool:
        """Whether what was expected is known to nobody any longer."""
        return self.is_kept and self.case is None

    @property
    def is_stale(self) -> bool:
        """Whether what is looked at is a verdict that does not hold any longer."""
        is_verdict = self.record is not None and self.record.standing not in (Standing.WAITING, Standing.RUNNING)
        return bool(self.why_stale) and is_verdict and self.result_is_newest

    @property
    def result_is_newest(self) -> bool:
        """Whether the newest results of the case are looked at, and there are any."""
        return self.pinned is None and self.record is not None and bool(self.record.outcomes)

    @property
    def is_live(self) -> bool:
        """Whether the repeat that is looked at is under way."""
        return self.pinned is None and self.record is not None and self.repeat in self.record.turns

    @property
    def result(self) -> CaseResult | None:
        """The result that is looked at; None before there is one, and while it is still to be read."""
        if self.pinned is not None:
            return self.pinned.result
        if self.record is None or self.repeat is None or self.is_live:
            return None
        outcome = self.record.outcomes.get(self.repeat)
        return outcome.result if outcome is not None else None

    @property
    def turns(self) -> Sequence[TurnResult]:
        """The turns that the agent has finished."""
        if self.is_live and self.record is not None and self.repeat is not None:
            return self.record.turns[self.repeat]
        return self.result.execution.turns if self.result is not None else ()

    @property
    def spoken(self) -> Content | None:
        """What a simulated user has said and the agent has not answered yet."""
        if self.is_live and self.record is not None and self.repeat is not None:
            return self.record.spoken.get(self.repeat)
        return None

    @property
    def spans(self) -> Sequence[Span]:
        """The steps of the agent that have ended."""
        if self.is_live and self.record is not None and self.repeat is not None:
            return self.record.spans.get(self.repeat, ())
        return self.result.execution.spans if self.result is not None else ()


def shown_repeat(record: CaseRecord | None, chosen: int | None) -> int | None:
    """The chosen repeat, else the first under way, else the first that ended as the case stands."""
    if record is None or not record.repeats:
        return None
    if chosen in record.repeats:
        return chosen
    if record.turns:
        return min(record.turns)
    ended_so = (r for r, outcome in sorted(record.outcomes.items()) if outcome.status.name == record.standing.name)
    return next(ended_so, record.repeats[0])
