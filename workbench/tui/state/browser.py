"""The browser: targets, their eval sets and their cases as one flat list of rows, some of them folded away.

A list of plain rows instead of a tree of widgets: folding, moving and filtering cost the same for ten cases and for
ten thousand, and only the rows on the screen are ever drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from workbench.model.keys import CaseKey
from workbench.tui.state.pieces import safe_line


class RowKind(StrEnum):
    """What a row stands for."""

    TARGET = "target"
    EVAL_SET = "eval_set"
    CASE = "case"


_DEPTHS = {RowKind.TARGET: 0, RowKind.EVAL_SET: 1, RowKind.CASE: 2}


Place = tuple[str, str, CaseKey | None]
"""Target, eval set (empty for a target) and case (None for both): what tells rows apart."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row. `label` is safe to show; `problem` is the safe word for what is wrong with it, empty where nothing is.

    Rows are told apart by target, eval set and case: `eval_set` is empty for a target, `case` None for both.
    """

    kind: RowKind
    label: str
    target: str
    eval_set: str = ""
    case: CaseKey | None = None
    problem: str = ""

    @property
    def depth(self) -> int:
        """How deep it is in the tree."""
        return _DEPTHS[self.kind]

    @property
    def place(self) -> Place:
        """What tells it apart from all other rows."""
        return self.target, self.eval_set, self.case

    def is_at(self, place: Place) -> bool:
        """Whether this is the row of that place."""
        target, eval_set, case = place
        if case is None or self.case is None:
            return self.case is case and (self.target, self.eval_set) == (target, eval_set)
        # Comparing keys is slow by the ten thousand, comparing ids is not.
        return self.case is case or (self.case.eval_id == case.eval_id and self.case == case)


@dataclass(frozen=True, slots=True)
class ListedSet:
    """An eval set as far as it has been read.

    `cases` is None while it has not been. `target` is empty for a set that no agent was found for, `unpaired` then
    says why; `problem` says why the file could not be read.
    """

    relative: str
    target: str = ""
    cases: tuple[Row, ...] | None = None
    problem: str = ""
    unpaired: str = ""
    config: str = ""

    @property
    def keys(self) -> list[CaseKey]:
        """The keys of its cases."""
        return [row.case for row in self.cases or () if row.case is not None]

    @property
    def state(self) -> str:
        """In a word what keeps it from being an ordinary set; empty where nothing does."""
        if self.problem:
            return "broken"
        if self.unpaired:
            return "no agent"
        return "" if self.cases is not None else "reading"


def case_row(key: CaseKey, problem: str = "") -> Row:
    """The row of a case. `problem` says what keeps it from running, empty where nothing does."""
    suffix = f" #{key.occurrence + 1}" if key.occurrence else ""
    label = f"{safe_line(key.eval_id) or '(empty id)'}{suffix}"
    return Row(RowKind.CASE, label, key.target, key.eval_set, key, safe_line(problem))


class Browser:
    """Which rows there are, which are unfolded, and where the cursor is."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.cursor = 0
        self._targets: list[str] = []
        self._sets: dict[tuple[str, str], ListedSet] = {}
        self._folded: set[tuple[str, str]] = set()
        self._filter: Callable[[Row], bool] | None = None

    @property
    def sets(self) -> Sequence[ListedSet]:
        """Every eval set, those of no agent last."""
        return tuple(self._sets.values())

    @property
    def selected(self) -> Row | None:
        """The row under the cursor, None where there are no rows."""
        return self.rows[self.cursor] if self.rows else None

    def eval_set(self, target: str, relative: str) -> ListedSet | None:
        """An eval set as listed."""
        return self._sets.get((target, relative))

    def sets_of(self, target: str) -> list[ListedSet]:
        """The eval sets of a target."""
        return [listed for listed in self._sets.values() if listed.target == target]

    @property
    def is_filtered(self) -> bool:
        """Whether only some cases are listed."""
        return self._filter is not None

    def cases_in(self, listed: ListedSet) -> Sequence[Row]:
        """The cases of a set that are listed, folded away or not."""
        cases = listed.cases or ()
        return cases if self._filter is None else [row for row in cases if self._filter(row)]

    def case_rows(self) -> Iterable[Row]:
        """Every case in the order of the screen, folded away or not."""
        for place in self._ordered():
            yield from self._sets[place].cases or ()

    def is_folded(self, row: Row) -> bool:
        """Whether the rows below this one are hidden."""
        return (row.target, row.eval_set) in self._folded

    def show(self, targets: Iterable[str], sets: Iterable[ListedSet]) -> None:
        """Replace what there is; folds and the cursor stay where their rows still exist."""
        sets = tuple(sets)
        named = dict.fromkeys(targets)
        self._targets = [*named, *dict.fromkeys(listed.target for listed in sets if listed.target not in named)]
        old = self._sets
        self._sets = {}
        for listed in sets:
            place = (listed.target, listed.relative)
            known = old[place].cases if place in old else None  # shown as it was until it has been read again
            self._sets[place] = listed if listed.cases is not None else replace(listed, cases=known)
        self._rebuild()

    def show_set(self, listed: ListedSet) -> None:
        """An eval set has been read, or could not be."""
        self._sets[listed.target, listed.relative] = listed
        self._rebuild()

    def filter(self, keep: Callable[[Row], bool] | None) -> None:
        """Show only the cases that `keep` keeps, and what they are in; None shows all."""
        self._filter = keep
        self._rebuild()

    def move(self, by: int) -> None:
        """Move the cursor by so many rows, as far as there are rows."""
        self.move_to(self.cursor + by)

    def move_to(self, index: int) -> None:
        """Put the cursor on a row; an index past either end means the row there."""
        self.cursor = max(0, min(index, len(self.rows) - 1))

    def go_to(self, key: CaseKey) -> None:
        """Put the cursor on a case, unfolding what hides it."""
        self._folded -= {(key.target, ""), (key.target, key.eval_set)}
        self._rebuild()
        self._put_cursor_on((key.target, key.eval_set, key))

    def go_to_set(self, listed: ListedSet) -> None:
        """Put the cursor on an eval set, unfolding what hides it."""
        self._folded.discard((listed.target, ""))
        self._rebuild()
        self._put_cursor_on((listed.target, listed.relative, None))

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

    def next_case(self, keep: Callable[[CaseKey], bool], *, backwards: bool = False) -> CaseKey | None:
        """The next listed case after the cursor that `keep` keeps, going round at the end; None where there is none."""
        rows = [row for place in self._ordered() for row in self.cases_in(self._sets[place])]
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
        inside = [i for i, other in enumerate(rows) if _contains(row, other)]
        if not inside:
            return 0
        return inside[-1] + 1 if backwards else inside[0]

    def _ordered(self) -> Iterable[tuple[str, str]]:
        for target in self._targets:
            yield from (place for place in self._sets if place[0] == target)

    def _rebuild(self) -> None:
        place = self.selected.place if self.selected else None
        rows: list[Row] = []
        for target in self._targets:
            below = self._rows_of_target(target)
            if below or self._filter is None:
                rows.append(Row(RowKind.TARGET, safe_line(target) or "(no agent found)", target))
                if (target, "") not in self._folded:
                    rows += below
        self.rows = rows
        self._restore_cursor(place)

    def _rows_of_target(self, target: str) -> list[Row]:
        sets = self.sets_of(target)
        names = [set_name(listed.relative) for listed in sets]
        times = Counter(names)
        rows: list[Row] = []
        for listed, name in zip(sets, names, strict=True):
            place = (target, listed.relative)
            cases = self.cases_in(listed)
            if not cases and self.is_filtered:
                continue
            label = name if times[name] == 1 else listed.relative
            rows.append(Row(RowKind.EVAL_SET, safe_line(label), target, listed.relative, problem=listed.state))
            if place not in self._folded:
                rows += cases
        return rows

    def _restore_cursor(self, place: Place | None) -> None:
        """Stay on the same row; where it is gone, on what it was in; else near where the cursor was."""
        if place is None:
            self.move_to(self.cursor)
            return
        target, eval_set, _ = place
        if not any(map(self._put_cursor_on, (place, (target, eval_set, None), (target, "", None)))):
            self.move_to(self.cursor)

    def _put_cursor_on(self, place: Place) -> bool:
        """Put the cursor on the row of that place; False where there is none."""
        for index, row in enumerate(self.rows):
            if row.is_at(place):
                self.cursor = index
                return True
        return False


def _contains(outer: Row, inner: Row) -> bool:
    return outer.target == inner.target and outer.eval_set in ("", inner.eval_set)


def set_name(relative: str) -> str:
    """The name of an eval set's file without folder and ending."""
    name = relative.rsplit("/", 1)[-1]
    for ending in (".evalset.json", ".test.json", ".json"):
        if name.endswith(ending):
            return name.removesuffix(ending)
    return name
