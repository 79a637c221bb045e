"""The rows of the watch pane: what waits, then what was saved, the newest first, with what that concerned and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.cells import cell_len

from workbench.model.keys import CaseKey, JobKey
from workbench.tui.state.amounts import time_text
from workbench.tui.state.board import Board
from workbench.tui.state.cursor import CursorRows
from workbench.tui.state.layout import fit
from workbench.tui.state.pieces import Line, Piece, Tone, plural, safe_line
from workbench.tui.state.standing import STALE, Look, Standing, look_of, standing_of
from workbench.tui.state.watch.news import Broken, Concerned
from workbench.tui.state.watch.watch import SeenChange, WatchMode, WatchState

_MOST_PATHS = 3
_CASE_WIDTH = 36
_WIDE = 100  # cells from which there is room for all words


@dataclass(frozen=True, slots=True)
class Entry:
    """A row: a line that is cut at the end, what follows at the right end, shorter where it is narrow, and what it is
    about.
    """

    line: Line
    right: Line = ()
    short: Line = ()
    job: JobKey | None = None
    broken: Broken | None = None
    identity: tuple[object, ...] = ()


class WatchRows(CursorRows):
    """Rows for a list. The cursor stays with its row while others come; at the top it stays with the newest."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._stays = False  # on its row

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def selected_case(self) -> CaseKey | None:
        """The case of the row under the cursor."""
        entry = self._selected
        return entry.job.case if entry is not None and entry.job is not None else None

    @property
    def selected_broken(self) -> Broken | None:
        """The file of the row under the cursor, where it is about one that cannot be compiled."""
        return self._selected.broken if self._selected is not None else None

    @property
    def text(self) -> str:
        """All rows, to copy."""
        return "\n".join("".join(piece.text for piece in (*each.line, *each.right)).strip() for each in self._entries)

    def show(self, watch: WatchState, board: Board) -> None:
        """Take the rows as they are now."""
        selected = self._selected
        self._entries = list(_entries(watch, board))
        super().move_to(self._place_of(selected) if self._stays else 0)

    def move(self, by: int) -> None:
        """Move the cursor by so many rows."""
        super().move(by)
        self._note_place()

    def move_to(self, index: int) -> None:
        """Put the cursor on a row; past either end means the row there."""
        super().move_to(index)
        self._note_place()

    def line(self, index: int, width: int) -> Line:
        """One row as it is drawn now."""
        entry = self._entries[index]
        right = entry.right if width >= _WIDE else entry.short or entry.right
        if not right:
            return fit(entry.line, width)
        taken = sum(cell_len(piece.text) for piece in right)
        left = fit(entry.line, max(width - taken - 2, 10))
        gap = max(width - taken - 1 - sum(cell_len(piece.text) for piece in left), 1)
        return fit((*left, Piece(" " * gap), *right), width)

    @property
    def _selected(self) -> Entry | None:
        return self._entries[self.cursor] if self._entries else None

    def _note_place(self) -> None:
        first = self._place_at(0, onward=1, otherwise=0)
        self._stays = self.cursor != first

    def _place_of(self, entry: Entry | None) -> int:
        if entry is None:
            return 0
        return next((i for i, each in enumerate(self._entries) if each.identity == entry.identity), self.cursor)

    def _can_stand(self, index: int) -> bool:
        return bool(self._entries[index].identity)


def how_line(watch: WatchState) -> Line:
    """The line above the rows: what the watch does."""
    if watch.mode is WatchMode.OFF:
        return (Piece(" watch is off", Tone.MUTED),)
    pieces = [*watch.header(200)]
    if watch.stale:
        pieces += [Piece(" "), Piece(f"{STALE.symbol} {watch.stale:,} of {watch.total:,} stale", STALE.tone)]
    if watch.looking:
        pieces.append(Piece(f"   it looks again and again: {safe_line(watch.looking)}", Tone.WARNING))
    return tuple(pieces)


def nothing_text(watch: WatchState) -> str:
    """What stands in place of the rows."""
    ended = f"It ended: {safe_line(watch.ended)}. " if watch.ended else ""
    if watch.mode is WatchMode.OFF:
        return (
            f"{ended}w turns watch on: from then on every save of the agent's code, of what it reads, of eval sets and "
            "criteria runs the cases that it affects, and no others. What was saved and what that ran then stands "
            "here, and why."
        )
    if watch.mode is WatchMode.STARTING:
        return "It looks at what there is …"
    waits = "w resumes, alt+w turns it off." if watch.mode is WatchMode.PAUSED else "w pauses, alt+w turns it off."
    if not watch.total:
        return f"There are no eval cases yet. The first one that is saved and has an agent runs by itself. {waits}"
    return f"Nothing has been saved since. Edit the agent, and the cases that it affects run by themselves. {waits}"


def _entries(watch: WatchState, board: Board) -> Iterator[Entry]:
    for broken in watch.broken:
        text = f" ! {safe_line(broken.where)} cannot be compiled: {safe_line(broken.message)}"
        waiting = watch.waiting_for(broken)
        right = (Piece(f"{plural(waiting, 'case')} {'waits' if waiting == 1 else 'wait'}", Tone.MUTED),)
        yield Entry((Piece(text, Tone.ERROR),), right if waiting else (), broken=broken, identity=("broken", broken))
    if watch.held:
        cases = len({job.case for job in watch.held})
        text = f" {plural(cases, 'case')} {'is' if cases == 1 else 'are'} held back: alt+r runs "
        yield Entry((Piece(f"{text}{'it' if cases == 1 else 'them'} all the same", Tone.WARNING),))
    if watch.mode is WatchMode.PAUSED and watch.pending:
        yield Entry((Piece(f" {plural(len(watch.pending), 'case')} to run or judge when w resumes", Tone.WARNING),))
        pending = [(each, STALE) for each in watch.pending[:_MOST_PENDING]]
        yield from _cases(pending, ("pending",), with_reasons=True)
        yield from _more(len(watch.pending) - _MOST_PENDING)
    for change in watch.changes:
        yield from _of_change(change, board)


_MOST_PENDING = 100


def _of_change(change: SeenChange, board: Board) -> Iterator[Entry]:
    changed = change.changed
    shown = ", ".join(safe_line(path, width=60) for path in changed.paths[:_MOST_PATHS]) or "the project"
    more = f" and {len(changed.paths) - _MOST_PATHS:,} more" if len(changed.paths) > _MOST_PATHS else ""
    line = (
        Piece(f" {_clock(change.at)}  ", Tone.MUTED),
        Piece(f"{shown}{more}", Tone.STRONG),
        Piece(f"  {_what_it_did(change)}"),
    )
    took = "" if change.seconds is None else f"after {time_text(change.seconds)}"
    right, short = ((Piece(f"{lead}{took}", Tone.MUTED),) if took else () for lead in ("first verdict ", ""))
    yield Entry(line, right, short, identity=("change", change.number))
    if changed.held:
        yield Entry((Piece(f"   not run by itself: {safe_line(changed.held)}", Tone.WARNING),))
    for chain in change.chains:
        yield Entry((Piece(f"   {safe_line(chain)}", Tone.KEY),))
    concerned = [(each, _look(each.job, change, board)) for each in change.concerned]
    yield from _cases(concerned, ("change", change.number), with_reasons=len(change.chains) != 1)
    yield from _more(len(change.jobs) - len(change.concerned))


def _what_it_did(change: SeenChange) -> str:
    changed, parts = change.changed, []
    if changed.run:
        parts.append(f"{changed.run:,} of {changed.total:,} {'to run' if changed.held else 'run'}")
    if changed.judged:
        parts.append(f"{changed.judged:,} judged again")
    if changed.waiting:
        parts.append(f"{changed.waiting:,} wait")
    if change.again:
        parts.append(f"of {change.again:,} a stored verdict holds")
    return ", ".join(parts) or f"concerns none of {plural(changed.total, 'case')}"


def _look(job: JobKey, change: SeenChange, board: Board) -> Look:
    """How the case of a change ended because of it, or what is going on with it."""
    status = change.verdicts.get(job)
    if status is not None:
        return look_of(standing_of([status]))
    record = board.record(job.case)
    is_under_way = record is not None and record.standing in (Standing.WAITING, Standing.RUNNING)
    return look_of(record.standing if record is not None and is_under_way else Standing.NOT_RUN)


def _cases(
    concerned: Sequence[tuple[Concerned, Look]], place: tuple[object, ...], *, with_reasons: bool
) -> Iterator[Entry]:
    for each, look in concerned:
        repeat = f" repeat {each.job.repeat + 1}" if each.job.repeat else ""
        name = safe_line(f"{each.job.case.eval_id}{repeat}", width=60)
        gap = " " * max(_CASE_WIDTH - cell_len(name), 2)
        facts = ["judged again" if each.is_judged else "", safe_line(each.why) if with_reasons else ""]
        line = (
            Piece(f"   {look.symbol} ", look.tone),
            Piece(f"{name}{gap}"),
            Piece(": ".join(filter(None, facts)), Tone.MUTED),
        )
        yield Entry(line, job=each.job, identity=(*place, each.job))


def _more(count: int) -> Iterator[Entry]:
    if count > 0:
        yield Entry((Piece(f"     and {count:,} more", Tone.MUTED),))


def _clock(at: datetime) -> str:
    return f"{at.astimezone():%H:%M:%S}"
