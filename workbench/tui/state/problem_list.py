"""Problems of the project, messages of the screen, and recovered unsaved edits, as rows."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Literal

from workbench.engine.open_documents import FoundEdits
from workbench.model.identity import CaseKey
from workbench.store.errors import StoreError
from workbench.tui.state.text_layout import (
    Block,
    ItemRows,
    Line,
    ListRows,
    Paragraph,
    Style,
    StyledText,
    cut_line,
    plural,
    safe,
    safe_line,
)

# Problems with file and position: the problems pane lists them, the header counts them.

_PLACED = re.compile(r"(?P<file>[^\n:]+?)(?::(?P<line>\d+))?(?::(?P<column>\d+))?: (?P<message>.+)", re.DOTALL)
_MOST_OF_RUN = 100
_MOST_MESSAGES = 200


def find_file_name(message: str) -> str | None:
    """Return the beginning of a sentence that may be a file name. The caller checks whether such a file exists."""
    placed = _PLACED.fullmatch(message)
    return placed["file"] if placed is not None else None


class ProblemSource(StrEnum):
    """Origin of a problem, in the order of the list."""

    APPEARANCE = "themes and keys"
    PROJECT = "project"
    HISTORY = "history"
    RECOVERY = "recovery"
    EVAL_SET = "eval set"
    SOURCE = "source"
    RUN = "run"


BrokenSource = tuple[Path, str, int | None, str]
"""Path, path to show, line (from 1) and message."""


@dataclass(frozen=True, slots=True)
class SetProblem:
    """A problem of an eval set. `case` is the id and the occurrence of its case.

    `path`: None if it is not a file of this machine. `conflict`: the user must choose between the file and the unsaved
    edits.
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
    """One row. `message` and `shown` (the file) may contain foreign text."""

    source: ProblemSource
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
        """File, line and column, as far as known."""
        position = "" if self.line is None else f":{self.line}:{self.column or 1}"
        return f"{self.shown}{position}"


Severity = Literal["information", "warning", "error"]

_MARKS = {
    "information": StyledText(" · ", Style.MUTED),
    "warning": StyledText(" ▲ ", Style.WARNING),
    "error": StyledText(" ✗ ", Style.ERROR),
}


@dataclass(frozen=True, slots=True)
class LoggedMessage:
    """A message that the screen showed. `times` counts equal messages in a row, `at` is the time of the last one."""

    at: datetime
    text: str
    severity: Severity
    times: int = 1


@dataclass
class Problems(ListRows):
    """The problems of all sources, then the messages of the screen, as a list with a cursor."""

    _messages: deque[LoggedMessage] = field(default_factory=lambda: deque(maxlen=_MOST_MESSAGES))
    _by_source: dict[ProblemSource, Sequence[ListedProblem]] = field(default_factory=dict)
    _by_set: dict[str, Sequence[ListedProblem]] = field(default_factory=dict)
    _rows: list[ListedProblem] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._rows) + (1 + len(self._messages) if self._messages else 0)

    @property
    def selected_problem(self) -> ListedProblem | None:
        return self._rows[self.cursor] if self.cursor < len(self._rows) else None

    @property
    def selected_message(self) -> LoggedMessage | None:
        index = self.cursor - len(self._rows) - 1
        return self._messages[index] if 0 <= index < len(self._messages) else None

    @property
    def messages(self) -> Sequence[LoggedMessage]:
        """The last messages of the screen, newest first."""
        return self._messages

    @property
    def rows(self) -> Sequence[ListedProblem]:
        """All problems in the order of the list."""
        return self._rows

    def set_messages(self, source: ProblemSource, messages: Iterable[str], *, files: Mapping[str, Path]) -> None:
        """Set the problems of a source to these sentences. `files` has the paths of files by the names they begin
        with.
        """
        self._set_source(source, [_parse_message(source, message, files) for message in messages])

    def set_error(self, source: ProblemSource, error: StoreError | None) -> None:
        """Set the problem of a source to this error, or remove it."""
        self._set_source(source, [] if error is None else [_convert_error(source, error)])

    def set_recoveries(self, eval_sets: Sequence[str]) -> None:
        """Set the eval sets with unsaved edits of earlier sessions."""
        message = "unsaved edits of an earlier session: restore or discard them"
        self._set_source(
            ProblemSource.RECOVERY,
            [
                ListedProblem(ProblemSource.RECOVERY, message, shown=name, eval_set=name, warning=True)
                for name in eval_sets
            ],
        )

    def set_problems_in_set(self, eval_set: str, target: str, problems: Sequence[SetProblem]) -> None:
        listed = [_convert_set_problem(eval_set, target, problem) for problem in problems]
        if listed != self._by_set.get(eval_set, []):
            self._by_set[eval_set] = listed
            self._rebuild_rows()

    def keep_only_sets(self, eval_sets: Iterable[str]) -> None:
        remaining = set(eval_sets)
        self._by_set = {name: listed for name, listed in self._by_set.items() if name in remaining}
        self._rebuild_rows()

    def set_broken_sources(self, sources: Iterable[BrokenSource]) -> None:
        """Set the source files that cannot be compiled."""
        self._set_source(
            ProblemSource.SOURCE,
            [
                ListedProblem(
                    ProblemSource.SOURCE, message, shown=shown, place="cannot be compiled", path=path, line=line
                )
                for path, shown, line, message in sources
            ],
        )

    def clear_run_problems(self) -> None:
        self._set_source(ProblemSource.RUN, [])

    def drop_run_problems(self, paths: Collection[str]) -> None:
        """Remove the problems of runs in these files, because they were saved. The watch reports again what remains."""
        starts = tuple(f"{path}:" for path in paths)
        known = self._by_source.get(ProblemSource.RUN, ())
        self._set_source(ProblemSource.RUN, [each for each in known if not each.message.startswith(starts)])

    def add_run_problem(self, message: str, *, warning: bool) -> None:
        """Add a problem of a run, without duplicates."""
        known = self._by_source.get(ProblemSource.RUN, ())
        problem = ListedProblem(ProblemSource.RUN, message, warning=warning)
        if problem not in known and len(known) < _MOST_OF_RUN:
            self._set_source(ProblemSource.RUN, [*known, problem])

    def add_message(self, text: str, severity: Severity, *, at: datetime) -> None:
        """Add a message of the screen. The cursor stays on its row; on the newest message, it follows."""
        last = self._messages[0] if self._messages else None
        if last is not None and (last.text, last.severity) == (text, severity):
            self._messages[0] = replace(last, at=at, times=last.times + 1)
            return
        is_older = self.cursor > len(self._rows) + 1
        self._messages.appendleft(LoggedMessage(at, text, severity))
        self.move_to(self.cursor + 1 if is_older else self.cursor)

    def line(self, index: int, width: int) -> Line:
        if index == len(self._rows):
            return (StyledText(" messages, newest first", Style.HEADING),)
        if index > len(self._rows):
            return cut_line(_format_message(self._messages[index - len(self._rows) - 1]), width)
        problem = self._rows[index]
        mark = _MARKS["warning" if problem.warning else "error"]
        where = safe_line(problem.where or problem.source.value)
        pieces = [mark, StyledText(where, Style.KEY), StyledText("  ")]
        if problem.place:
            pieces.append(StyledText(f"{safe_line(problem.place)}: ", Style.MUTED))
        return cut_line((*pieces, StyledText(safe_line(problem.message))), width)

    def detail(self) -> tuple[Block, ...]:
        """Describe the selected problem, and what enter does."""
        problem, message = self.selected_problem, self.selected_message
        if message is not None:
            return (
                Paragraph.from_text(safe(message.text)),
                Paragraph.from_text(f"{message.severity} · shown at {message.at:%H:%M:%S}", Style.MUTED),
            )
        if problem is None:
            return (
                Paragraph.from_text("No problems.", Style.PASSED),
                Paragraph.from_text(
                    "Broken eval sets and cases, settings, themes and keys are listed here, with file and place."
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
            Paragraph.from_text(_describe_enter_key(problem), Style.MUTED),
        )

    def can_select(self, index: int) -> bool:
        """Return False for the heading of the messages."""
        return index != len(self._rows)

    def _set_source(self, source: ProblemSource, problems: Sequence[ListedProblem]) -> None:
        if list(problems) != list(self._by_source.get(source, ())):
            self._by_source[source] = problems
            self._rebuild_rows()

    def _rebuild_rows(self) -> None:
        """Sort all problems. The cursor stays on its row, but goes from the newest message to the first problem."""
        selected, message = self.selected_problem, self.selected_message
        is_on_newest = not self._rows and message is not None and message is self._messages[0]
        below = len(self) - self.cursor
        self._rows = list(self._sort_problems())
        if selected in self._rows:
            self.cursor = self._rows.index(selected)
        elif message is not None:
            self.cursor = 0 if is_on_newest else len(self) - below
        self.move_to(self.cursor)

    def _sort_problems(self) -> Iterator[ListedProblem]:
        for source in ProblemSource:
            if source is ProblemSource.EVAL_SET:
                listed = [problem for name in sorted(self._by_set) for problem in self._by_set[name]]
                yield from sorted(listed, key=lambda problem: not problem.conflict)
            yield from self._by_source.get(source, ())


def _describe_enter_key(problem: ListedProblem) -> str:
    if problem.conflict:
        return "enter shows both versions, to choose"
    if problem.source is ProblemSource.RECOVERY:
        return "enter shows the unsaved edits that were found"
    if problem.case is not None:
        return "enter goes to the case, F opens the file there in your editor"
    return "enter opens the file there in your editor" if problem.path is not None else ""


def _format_message(message: LoggedMessage) -> Line:
    times = f"  ({message.times:,} times)" if message.times > 1 else ""
    return (
        _MARKS[message.severity],
        StyledText(f"{message.at:%H:%M:%S}", Style.MUTED),
        StyledText(f"  {safe_line(message.text)}"),
        StyledText(times, Style.MUTED),
    )


def _parse_message(source: ProblemSource, message: str, files: Mapping[str, Path]) -> ListedProblem:
    listed = ListedProblem(source, message, warning=True)
    placed = _PLACED.fullmatch(message)
    if placed is None or placed["file"] not in files:
        return listed
    name, path = placed["file"], files[placed["file"]]
    line, column = (int(placed[part]) if placed[part] else None for part in ("line", "column"))
    return replace(listed, message=placed["message"], shown=name, path=path, line=line, column=column)


def _convert_error(source: ProblemSource, error: StoreError) -> ListedProblem:
    return ListedProblem(
        source,
        error.message,
        shown=error.location if error.line is None else error.location.rsplit(":", 2)[0],
        place=error.place,
        path=Path(error.path),
        line=error.line,
        column=error.column,
    )


def _convert_set_problem(eval_set: str, target: str, problem: SetProblem) -> ListedProblem:
    case = None
    if problem.case is not None:
        eval_id, occurrence = problem.case
        case = CaseKey(target=target, eval_set=eval_set, eval_id=eval_id, occurrence=occurrence)
    return ListedProblem(
        ProblemSource.EVAL_SET,
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


# Unsaved edits of earlier sessions, to restore or discard.


@dataclass
class RecoveryList(ItemRows[FoundEdits]):
    """Recovered edits, newest first, with a cursor. `now` is the present time."""

    rows: Sequence[FoundEdits]
    now: datetime

    def remove_selected(self) -> None:
        """Remove the edits under the cursor after the user's decision."""
        self.rows = [*self.rows[: self.cursor], *self.rows[self.cursor + 1 :]]
        self.move_to(self.cursor)

    def line(self, index: int, width: int) -> Line:
        found = self.rows[index]
        written = found.recovery.written_at.astimezone(self.now.tzinfo)
        pieces = (
            StyledText(f" {written:%Y-%m-%d %H:%M}", Style.MUTED),
            StyledText(f"   {_count_differences(found)}   "),
            StyledText(safe_line(found.eval_set), Style.KEY),
        )
        return cut_line(pieces, width)

    def detail(self) -> tuple[Block, ...]:
        """Describe the selected edits."""
        found = self.selected_row
        if found is None:
            return (Paragraph.from_text("No unsaved edits are left."),)
        if found.problem:
            return (Paragraph.from_text(safe(f"These edits cannot be read: {found.problem}"), Style.ERROR),)
        if found.differences is None:
            text = "The file is gone or broken. Restore these edits to save them as the file."
            return (Paragraph.from_text(text, Style.WARNING),)
        named = ", ".join(f"{safe_line(item.eval_id)} ({item.how})" for item in found.differences[:20])
        more = len(found.differences) - 20
        return (Paragraph.from_text(named + (f", {more:,} more" if more > 0 else "")),)


def _count_differences(found: FoundEdits) -> str:
    if found.problem:
        return "cannot be read"
    if found.differences is None:
        return "the file is gone or broken"
    count = len(found.differences)
    return f"{plural(count, 'case')} differ{'s' if count == 1 else ''}" if count else "no case differs"
