"""The results table: rows that come in stretches, sorted and filtered, in columns that scroll."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from math import sqrt

from rich.cells import cell_len

from workbench.model.keys import CaseKey
from workbench.tui.state.cursor import CursorRows
from workbench.tui.state.layout import fit, shorten
from workbench.tui.state.pieces import Line, Piece, Tone, plural
from workbench.tui.state.standing import STALE, Standing, look_of
from workbench.tui.state.table.columns import EVAL_SET, Column, columns_of
from workbench.tui.state.table.rows import TableRow, merged

_ID_WIDTH = 30
_LEAST_ID_WIDTH = 14
_AROUND_NAME = 3  # blanks before and behind it


class ResultTable(CursorRows):
    """Rows for a list, with a column under a second cursor."""

    def __init__(self) -> None:
        self.by_repeat = False
        self.filtered_by = ""
        self.sorted_by: str | None = None
        self.is_descending = False
        self.hidden: set[str] = set()
        self.column = 0
        self._offset = 0  # the first column that is drawn
        self._all: list[TableRow] = []
        self._sets: set[str] = set()
        self._metrics: dict[str, None] = {}
        self.all_columns: list[Column] = columns_of(())
        self._found: list[TableRow] = []  # what is listed, in the order of the files
        self._rows: list[TableRow] = []
        self._has_repeats = False
        self._longest_name = 0  # in cells
        self._standings: Counter[Standing] = Counter()
        self._stale = 0  # rows that are listed
        self._figures: dict[str, tuple[float | None, float | None]] = {}  # mean and deviation by column

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> Sequence[TableRow]:
        """What is listed, in its order."""
        return self._rows

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to list, whatever the filter."""
        return not self._all

    @property
    def selected(self) -> TableRow | None:
        """The row under the cursor."""
        return self._rows[self.cursor] if self._rows else None

    @property
    def columns(self) -> list[Column]:
        """The columns that are not hidden; that of the eval set where there are several."""
        unwanted = self.hidden if len(self._sets) > 1 else {*self.hidden, EVAL_SET}
        return [column for column in self.all_columns if column.id not in unwanted]

    def take_over(self, other: ResultTable) -> None:
        """Show rows as another table does: the same columns, order and filter."""
        self.by_repeat, self.filtered_by = other.by_repeat, other.filtered_by
        self.sorted_by, self.is_descending = other.sorted_by, other.is_descending
        self.hidden, self.column = other.hidden, min(other.column, len(self.columns) - 1)

    def add(self, rows: Iterable[TableRow]) -> None:
        """Take more rows; `arrange` lists them."""
        before = len(self._metrics)
        for row in rows:
            self._all.append(row)
            self._sets.add(row.case.eval_set)
            self._has_repeats = self._has_repeats or bool(row.repeat)
            self._longest_name = max(self._longest_name, cell_len(row.name))
            self._metrics.update(dict.fromkeys(row.scores))
        if len(self._metrics) != before:
            self.all_columns = columns_of(self._metrics)

    def mark_stale(self, stale: Collection[CaseKey]) -> bool:
        """Mark the rows of these cases, and no others, for `arrange`. Return False if they were marked before."""
        changed = [index for index, row in enumerate(self._all) if row.is_stale != (row.case in stale)]
        for index in changed:
            self._all[index] = replace(self._all[index], is_stale=not self._all[index].is_stale)
        return bool(changed)

    def arrange(self) -> None:
        """List what there is now: one row a case or a repeat, filtered and sorted. The same row stays selected."""
        selected = self.selected
        rows = self._all if self.by_repeat or not self._has_repeats else merged(self._all)
        words = self.filtered_by.casefold().split()
        if words:
            rows = [row for row in rows if all(word in row.searched for word in words)]
        self._found = list(rows)
        self._standings = Counter(row.status for row in rows)
        self._stale = sum(row.is_stale for row in rows)
        self._figures.clear()
        self._order(selected)

    def move_column(self, by: int) -> None:
        """Move the cursor to another column."""
        self.column = min(max(self.column + by, 0), len(self.columns) - 1)

    def sort(self) -> None:
        """Sort by the column under the cursor; again, the other way round; a third time, not at all."""
        chosen = self.columns[self.column].id
        if self.sorted_by != chosen:
            self.sorted_by, self.is_descending = chosen, False
        elif not self.is_descending:
            self.is_descending = True
        else:
            self.sorted_by, self.is_descending = None, False
        self._order(self.selected)

    def toggle_column(self, column: str) -> None:
        """Hide a column, or show it again; one column always stays."""
        if column in self.hidden or len(self.columns) > 1:
            self.hidden ^= {column}
        self.move_column(0)

    def fit_columns(self, width: int) -> None:
        """Scroll the columns so that the one under the cursor is drawn in rows of this width."""
        room = width - self._id_width(width)
        self._offset = min(self._offset, self.column)
        columns = self.columns
        while self._offset < self.column and _width(columns[self._offset : self.column + 1]) > room:
            self._offset += 1

    def head(self, width: int) -> Line:
        """The titles of the columns."""
        cells = []
        for index, column in self._drawn(width):
            arrow = "" if column.id != self.sorted_by else " ▼" if self.is_descending else " ▲"
            title = fit((Piece(column.title),), column.width - 2 - len(arrow))
            text = "".join(piece.text for piece in title) + arrow
            cells.append((Piece(text, Tone.TAB if index == self.column else Tone.HEADING), column.width))
        return self._line(Piece("case", Tone.HEADING), cells, width=width)

    def line(self, index: int, width: int) -> Line:
        """One row."""
        row = self._rows[index]
        cells = [(column.cell(row), column.width) for _, column in self._drawn(width)]
        return self._line(
            Piece(shorten(row.name, self._id_width(width) - _AROUND_NAME), Tone.STRONG), cells, width=width
        )

    def feet(self, width: int) -> list[Line]:
        """Mean and deviation of what is listed, below the columns that have figures."""
        figures = [(column.width, *self._figures_of(column)) for _, column in self._drawn(width)]
        means = [(Piece("" if mean is None else f"{mean:.4g}"), cells) for cells, mean, _ in figures]
        deviations = [(Piece("" if std is None else f"±{std:.4g}", Tone.MUTED), cells) for cells, _, std in figures]
        return [
            self._line(Piece("mean", Tone.KEY), means, width=width),
            self._line(Piece("deviation", Tone.KEY), deviations, width=width),
        ]

    def counts(self) -> list[Piece]:
        """How many rows are listed, and how they stand."""
        pieces = [Piece(plural(len(self._rows), "row"), Tone.STRONG)]
        if self._stale:
            pieces.append(Piece(f"   {STALE.symbol} {self._stale:,} {STALE.word}", STALE.tone))
        for standing in Standing:
            count = self._standings[standing]
            if count:
                look = look_of(standing)
                pieces.append(Piece(f"   {look.symbol} {count:,} {look.word}", look.tone))
        return pieces

    def text_of(self, row: TableRow) -> str:
        """A row as text to copy: its cells with their titles."""
        cells = [f"{column.title}: {column.cell(row).text}" for column in self.columns if column.cell(row).text]
        return "\n".join([f"case: {row.case}", *cells])

    def _order(self, selected: TableRow | None) -> None:
        """Sort what was found. The cursor stays on the row `selected`, else on one of its case, else where it is."""
        self._rows = self._sorted(self._found)
        if selected is not None:
            same = [index for index, row in enumerate(self._rows) if row.case is selected.case]
            exact = (index for index in same if self._rows[index].repeat == selected.repeat)
            nearest = same[0] if same else min(self.cursor, max(len(self._rows) - 1, 0))
            self.cursor = next(exact, nearest)

    def _sorted(self, rows: list[TableRow]) -> list[TableRow]:
        column = next((column for column in self.all_columns if column.id == self.sorted_by), None)
        if column is None:
            return rows
        known: list[tuple[float | str, TableRow]] = []
        absent: list[TableRow] = []
        for row in rows:
            value = column.value(row)
            if value is None:
                absent.append(row)
            else:
                known.append((value, row))
        known.sort(key=_first, reverse=self.is_descending)
        return [*(row for _, row in known), *absent]

    def _figures_of(self, column: Column) -> tuple[float | None, float | None]:
        """Mean and sample deviation of what is listed, reckoned once: there may be ten thousand rows."""
        if column.id not in self._figures:
            number = column.number
            values = [] if number is None else [one for row in self._rows if (one := number(row)) is not None]
            mean = sum(values) / len(values) if values else None
            squares = 0.0 if mean is None else sum((value - mean) ** 2 for value in values)
            self._figures[column.id] = mean, sqrt(squares / (len(values) - 1)) if len(values) > 1 else None
        return self._figures[column.id]

    def _drawn(self, width: int) -> list[tuple[int, Column]]:
        """The columns that stand in rows of this width, the last of them perhaps in part, with their places."""
        drawn: list[tuple[int, Column]] = []
        used = self._id_width(width)
        for place, column in list(enumerate(self.columns))[self._offset :]:
            if used >= width:
                break
            drawn.append((place, column))
            used += column.width
        return drawn

    def _id_width(self, width: int) -> int:
        """Enough for every name, as far as that leaves two thirds of the width to other columns."""
        usual = min(max(width // 4, _LEAST_ID_WIDTH), _ID_WIDTH)
        return max(usual, min(self._longest_name + _AROUND_NAME, width // 3))

    def _line(self, name: Piece, cells: Iterable[tuple[Piece, int]], *, width: int) -> Line:
        """The name, which stays where it is, and cells beside it."""
        pieces = [Piece(" "), *_cell(name, self._id_width(width) - 1)]
        for piece, cell_width in cells:
            pieces += _cell(piece, cell_width)
        return fit(tuple(pieces), width)


def _cell(piece: Piece, width: int) -> list[Piece]:
    shown = fit((piece,), width - 2)
    return [*shown, Piece(" " * (width - sum(cell_len(part.text) for part in shown)))]


def _width(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns)


def _first(pair: tuple[float | str, TableRow]) -> float | str:
    return pair[0]
