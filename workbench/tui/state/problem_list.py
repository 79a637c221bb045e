"""Problems of the project and unsaved edits that were recovered, as rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from workbench.engine.open_documents import FoundEdits
from workbench.model.identity import CaseKey
from workbench.store.errors import StoreError
from workbench.tui.state.text_layout import (
    Block,
    CursorRows,
    Line,
    Paragraph,
    Style,
    StyledText,
    cut_line,
    plural,
    safe,
    safe_line,
)

# Everything that is wrong, with file and place: what the problems pane lists and the header counts.

_PLACED = re.compile(r"(?P<file>[^\n:]+?)(?::(?P<line>\d+))?(?::(?P<column>\d+))?: (?P<message>.+)", re.DOTALL)
_MOST_OF_RUN = 100


def named_in(message: str) -> str | None:
    """What a sentence begins with where that may be the name of a file: only the disk tells whether it is one."""
    placed = _PLACED.fullmatch(message)
    return placed["file"] if placed is not None else None


class Source(StrEnum):
    """Where a problem comes from; the order is that of the list."""

    APPEARANCE = "themes and keys"
    PROJECT = "project"
    HISTORY = "history"
    RECOVERY = "recovery"
    EVAL_SET = "eval set"
    SOURCE = "source"
    RUN = "run"


BrokenSource = tuple[Path, str, int | None, str]
"""Its path, that as it is shown, the line (from 1), and what is wrong."""


@dataclass(frozen=True, slots=True)
class SetProblem:
    """What is wrong with an eval set. `case` is the id and the occurrence of the case it is about.

    `path` is None where it is no file of this machine. `conflict`: the user has to decide between the file and the
    unsaved edits.
    """

    path: Path | None
    message: str
    place: str = ""
    line: int | None = None
    column: int | None = None
    case: tuple[str, int] | None = None
    conflict: bool = False


@dataclass(frozen=True, slots=True)
class ListedProblem:
    """One row. `message` and `shown` (what it is about: file, line and column) may come from outside."""

    source: Source
    message: str
    shown: str = ""
    place: str = ""
    path: Path | None = None
    line: int | None = None
    column: int | None = None
    eval_set: str = ""
    case: CaseKey | None = None
    conflict: bool = False
    warning: bool = False

    @property
    def where(self) -> str:
        """File, line and column, as far as they are known."""
        position = "" if self.line is None else f":{self.line}:{self.column or 1}"
        return f"{self.shown}{position}"


@dataclass
class Problems(CursorRows):
    """The problems of all sources, the list of them with its cursor."""

    _by_source: dict[Source, Sequence[ListedProblem]] = field(default_factory=dict)
    _by_set: dict[str, Sequence[ListedProblem]] = field(default_factory=dict)
    _rows: list[ListedProblem] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def selected(self) -> ListedProblem | None:
        """The problem under the cursor."""
        return self._rows[self.cursor] if self._rows else None

    @property
    def rows(self) -> Sequence[ListedProblem]:
        """All of them in the order of the list."""
        return self._rows

    def show_messages(self, source: Source, messages: Iterable[str], *, files: Mapping[str, Path]) -> None:
        """The problems of a source are these sentences; `files` are those they begin with, by their names there."""
        self._show(source, [_of_message(source, message, files) for message in messages])

    def show_error(self, source: Source, error: StoreError | None) -> None:
        """The problem of a source is this error, or there is none."""
        self._show(source, [] if error is None else [_of_error(source, error)])

    def show_recoveries(self, eval_sets: Sequence[str]) -> None:
        """Unsaved edits of earlier sessions wait to be restored or thrown away."""
        message = "unsaved edits of an earlier session wait to be restored or thrown away"
        self._show(
            Source.RECOVERY,
            [ListedProblem(Source.RECOVERY, message, shown=name, eval_set=name, warning=True) for name in eval_sets],
        )

    def show_set(self, eval_set: str, target: str, problems: Sequence[SetProblem]) -> None:
        """What is wrong with an eval set now."""
        listed = [_of_set(eval_set, target, problem) for problem in problems]
        if listed != self._by_set.get(eval_set, []):
            self._by_set[eval_set] = listed
            self._list()

    def forget_sets_but(self, eval_sets: Iterable[str]) -> None:
        """Only these sets are listed any longer."""
        remaining = set(eval_sets)
        self._by_set = {name: listed for name, listed in self._by_set.items() if name in remaining}
        self._list()

    def show_broken(self, sources: Iterable[BrokenSource]) -> None:
        """These source files cannot be compiled; cases wait for them."""
        self._show(
            Source.SOURCE,
            [
                ListedProblem(Source.SOURCE, message, shown=shown, place="cannot be compiled", path=path, line=line)
                for path, shown, line, message in sources
            ],
        )

    def begin_run(self) -> None:
        """What earlier runs had to say no longer counts."""
        self._show(Source.RUN, [])

    def add_of_run(self, message: str, *, warning: bool) -> None:
        """Something that went wrong around a run; said twice it is listed once."""
        known = self._by_source.get(Source.RUN, ())
        problem = ListedProblem(Source.RUN, message, warning=warning)
        if problem not in known and len(known) < _MOST_OF_RUN:
            self._show(Source.RUN, [*known, problem])

    def line(self, index: int, width: int) -> Line:
        """One row as it is drawn."""
        problem = self._rows[index]
        mark = StyledText(" ▲ ", Style.WARNING) if problem.warning else StyledText(" ✗ ", Style.ERROR)
        where = safe_line(problem.where or problem.source.value)
        pieces = [mark, StyledText(where, Style.KEY), StyledText("  ")]
        if problem.place:
            pieces.append(StyledText(f"{safe_line(problem.place)}: ", Style.MUTED))
        return cut_line((*pieces, StyledText(safe_line(problem.message))), width)

    def detail(self) -> tuple[Block, ...]:
        """The problem under the cursor in full, and what enter does."""
        problem = self.selected
        if problem is None:
            return (
                Paragraph.from_text("No problems.", Style.PASSED),
                Paragraph.from_text(
                    "Broken eval sets and cases, settings, themes and keys would stand here, with file and place."
                ),
            )
        pieces = [
            StyledText(f"{'warning' if problem.warning else 'error'} · {problem.source.value}  ", Style.MUTED),
            StyledText(safe_line(problem.where), Style.KEY),
        ]
        if problem.place:
            pieces.append(StyledText(f"  {safe_line(problem.place)}", Style.MUTED))
        return (
            Paragraph(tuple(pieces)),
            Paragraph.from_text(safe(problem.message)),
            Paragraph.from_text(_what_enter_does(problem), Style.MUTED),
        )

    def _show(self, source: Source, problems: Sequence[ListedProblem]) -> None:
        if list(problems) != list(self._by_source.get(source, ())):
            self._by_source[source] = problems
            self._list()

    def _list(self) -> None:
        """Sort anew; the cursor stays on its problem."""
        selected = self.selected
        self._rows = list(self._sorted())
        if selected in self._rows:
            self.cursor = self._rows.index(selected)
        self.move_to(self.cursor)

    def _sorted(self) -> Iterator[ListedProblem]:
        for source in Source:
            if source is Source.EVAL_SET:
                listed = [problem for name in sorted(self._by_set) for problem in self._by_set[name]]
                yield from sorted(listed, key=lambda problem: not problem.conflict)
            yield from self._by_source.get(source, ())


def _what_enter_does(problem: ListedProblem) -> str:
    if problem.conflict:
        return "enter shows both versions, to choose"
    if problem.source is Source.RECOVERY:
        return "enter shows the unsaved edits that were found"
    if problem.case is not None:
        return "enter goes to the case, F opens the file there in your editor"
    return "enter opens the file there in your editor" if problem.path is not None else ""


def _of_message(source: Source, message: str, files: Mapping[str, Path]) -> ListedProblem:
    listed = ListedProblem(source, message, warning=True)
    placed = _PLACED.fullmatch(message)
    if placed is None or placed["file"] not in files:
        return listed
    name, path = placed["file"], files[placed["file"]]
    line, column = (int(placed[part]) if placed[part] else None for part in ("line", "column"))
    return replace(listed, message=placed["message"], shown=name, path=path, line=line, column=column)


def _of_error(source: Source, error: StoreError) -> ListedProblem:
    return ListedProblem(
        source,
        error.message,
        shown=error.location if error.line is None else error.location.rsplit(":", 2)[0],
        place=error.place,
        path=Path(error.path),
        line=error.line,
        column=error.column,
    )


def _of_set(eval_set: str, target: str, problem: SetProblem) -> ListedProblem:
    case = None
    if problem.case is not None:
        eval_id, occurrence = problem.case
        case = CaseKey(target=target, eval_set=eval_set, eval_id=eval_id, occurrence=occurrence)
    return ListedProblem(
        Source.EVAL_SET,
        problem.message,
        shown=eval_set,
        place=problem.place,
        path=problem.path,
        line=problem.line,
        column=problem.column,
        eval_set=eval_set,
        case=case,
        conflict=problem.conflict,
    )


# Unsaved edits that an earlier session left behind, as a list to decide about.


@dataclass
class RecoveryList(CursorRows):
    """What was found, the newest first, and which of it is selected. `now` is when it is looked at."""

    found: Sequence[FoundEdits]
    now: datetime

    def __len__(self) -> int:
        return len(self.found)

    @property
    def selected(self) -> FoundEdits | None:
        """What is under the cursor."""
        return self.found[self.cursor] if self.found else None

    def remove_selected(self) -> None:
        """It was decided about what is under the cursor."""
        self.found = [*self.found[: self.cursor], *self.found[self.cursor + 1 :]]
        self.move_to(self.cursor)

    def line(self, index: int, width: int) -> Line:
        """One row."""
        found = self.found[index]
        written = found.recovery.written_at.astimezone(self.now.tzinfo)
        pieces = (
            StyledText(f" {written:%Y-%m-%d %H:%M}", Style.MUTED),
            StyledText(f"   {_how_many(found)}   "),
            StyledText(safe_line(found.eval_set), Style.KEY),
        )
        return cut_line(pieces, width)

    def detail(self) -> tuple[Block, ...]:
        """The selected edits in words."""
        found = self.selected
        if found is None:
            return (Paragraph.from_text("Nothing is left to decide about."),)
        if found.problem:
            return (Paragraph.from_text(safe(f"These edits cannot be read: {found.problem}"), Style.ERROR),)
        if found.differences is None:
            text = "The file is gone or broken. Restored, these edits can be saved in its place."
            return (Paragraph.from_text(text, Style.WARNING),)
        named = ", ".join(f"{safe_line(item.eval_id)} ({item.how})" for item in found.differences[:20])
        more = len(found.differences) - 20
        return (Paragraph.from_text(named + (f", {more:,} more" if more > 0 else "")),)


def _how_many(found: FoundEdits) -> str:
    if found.problem:
        return "cannot be read"
    if found.differences is None:
        return "the file is gone or broken"
    count = len(found.differences)
    return f"{plural(count, 'case')} differ{'s' if count == 1 else ''}" if count else "no case differs"
