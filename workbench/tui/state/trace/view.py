"""The view of a trace: which rows are listed, where the cursor is, what is folded, filtered and searched for.

What the user chose outlives the spans: while a case runs, and when another session is looked at, folds and cursor stay
with the spans that have the same keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from workbench.model.results import TurnResult
from workbench.model.text import redact
from workbench.model.trace import Span, SpanKind
from workbench.tui.state.amounts import time_text
from workbench.tui.state.layout import fit
from workbench.tui.state.pieces import Line, Piece, Tone, plural, safe_line
from workbench.tui.state.trace.bars import Axis
from workbench.tui.state.trace.drawing import SLOW_MARK, Columns, span_row, turn_row
from workbench.tui.state.trace.events import linked_events
from workbench.tui.state.trace.facts import KIND_NAMES
from workbench.tui.state.trace.messages import Messages
from workbench.tui.state.trace.search import Match, Search
from workbench.tui.state.trace.tree import Node, SpanKey, TraceTree, TurnNode


class Scale(StrEnum):
    """What the width of the bars stands for."""

    TURN = "turn"
    SESSION = "session"


TraceRow = Node | TurnNode

_KINDS: tuple[SpanKind | None, ...] = (
    None,
    SpanKind.AGENT,
    SpanKind.MODEL,
    SpanKind.TOOL,
    SpanKind.USER,
    SpanKind.OTHER,
)


class TraceView:
    """The rows of one session's trace. A source for a list of rows."""

    def __init__(self) -> None:
        self.tree = TraceTree(())
        self.scale = Scale.TURN
        self.errors_only = False
        self.kind: SpanKind | None = None
        self.search: Search | None = None
        self.messages = Messages((), ())
        self._links: Mapping[SpanKey, str] = {}
        self._folded: set[SpanKey] = set()
        self._rows: list[TraceRow] = []
        self._places: dict[SpanKey, int] = {}
        self._cursor = 0

    def show(self, spans: Sequence[Span], turns: Sequence[TurnResult], prompts: Sequence[str]) -> None:
        """Take the steps of a session as they are known now. `prompts` are the user messages that the case has."""
        selected = self.selected
        path = [] if selected is None else _keys_above(selected)
        self.tree = TraceTree(spans, turns)
        self.messages = Messages(self.tree.turns, prompts)
        self._links = {key: link for turn in self.tree.turns for key, link in linked_events(turn).items()}
        self._list(path)

    def forget(self) -> None:
        """Another session comes: what was folded and selected does not hold there."""
        self._folded.clear()
        self._rows, self._places, self._cursor = [], {}, 0

    # What is listed.

    @property
    def cursor(self) -> int:
        """The index of the selected row."""
        return self._cursor

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, index: int) -> TraceRow:
        """What is listed at a place."""
        return self._rows[index]

    def line(self, index: int, width: int) -> Line:
        """One row as it is drawn now."""
        row = self._rows[index]
        columns = Columns.of(width, tokens_known=self.tree.tokens is not None)
        folded = row.key in self._folded
        if isinstance(row, TurnNode):
            axis = self._axis(row.index, columns.bar)
            return turn_row(row, self.messages.user(row.index), columns=columns, folded=folded, axis=axis)
        return span_row(
            row,
            columns=columns,
            folded=folded and bool(row.children),
            flat=self.is_filtered,
            linked=row.key in self._links,
            slowest=row is self.tree.slowest,
            axis=self._axis(row.key.turn, columns.bar),
        )

    @property
    def selected(self) -> TraceRow | None:
        """What the cursor is on."""
        return self._rows[self._cursor] if self._rows else None

    @property
    def is_filtered(self) -> bool:
        """Whether only some of the spans are listed, without those around them."""
        return self.errors_only or self.kind is not None

    def link_of(self, node: Node) -> str | None:
        """Which event a span became, in words."""
        return self._links.get(node.key)

    # Moving.

    def move(self, by: int) -> None:
        """Move the cursor by rows, no further than the ends."""
        self.move_to(self._cursor + by)

    def move_to(self, index: int) -> None:
        """Put the cursor on a row, or on the nearest there is."""
        self._cursor = min(max(index, 0), max(len(self._rows) - 1, 0))

    def go_to(self, key: SpanKey) -> bool:
        """Put the cursor on a span, unfolding and listing what hides it. False where there is no such span."""
        node = self.tree.nodes.get(key)
        if node is None:
            return False
        if key not in self._places:
            self._folded -= {SpanKey(key.turn), *(above.key for above in node.path[:-1])}
            if not self._lists(node):
                self.errors_only, self.kind = False, None
            self._list([])
        self._cursor = self._places[key]
        return True

    def go_to_slowest(self) -> bool:
        """Go to the span that took the longest by itself. False where no two spans have times."""
        return self.tree.slowest is not None and self.go_to(self.tree.slowest.key)

    def go_to_error(self, step: int) -> bool:
        """Go to the next (1) or previous (-1) span with an error, round the ends. False where there is none."""
        return self._go_around([node.key for node in self.tree.errors], step)

    def go_to_match(self, step: int) -> Match | None:
        """Go to the next (1) or previous (-1) span in which the search found something, round the ends."""
        if self.search is None or not self.search.matches:
            return None
        self._go_around(list(dict.fromkeys(match.key for match in self.search.matches)), step)
        return self.match_here()

    def match_here(self) -> Match | None:
        """What the search found in the selected span, the first of it."""
        if self.search is None or self.selected is None:
            return None
        key = self.selected.key
        return next((match for match in self.search.matches if match.key == key), None)

    # Folding and filtering.

    def toggle(self) -> None:
        """Fold or unfold the selected row."""
        row = self.selected
        if row is not None and _has_below(row):
            self._folded ^= {row.key}
            self._list([row.key])

    def fold(self) -> None:
        """Fold the selected row; one that is folded or has nothing below leads to the row around it."""
        row = self.selected
        if row is None:
            return
        if _has_below(row) and row.key not in self._folded and not (self.is_filtered and isinstance(row, Node)):
            self.toggle()
            return
        around = _keys_above(row)[1:]
        place = next((self._places[key] for key in around if key in self._places), None)
        if place is not None:
            self._cursor = place

    def unfold(self) -> None:
        """Unfold the selected row; one that is unfolded leads to the first row below."""
        row = self.selected
        if row is None or not _has_below(row):
            return
        if row.key in self._folded:
            self.toggle()
        elif not (self.is_filtered and isinstance(row, Node)):
            self.move(1)

    def fold_all(self) -> None:
        """Leave only the turns."""
        self._folded = {turn.key for turn in self.tree.turns} | {
            node.key for node in self.tree.ordered if node.children
        }
        self._list(self._path_here())

    def unfold_all(self) -> None:
        """List every span."""
        self._folded.clear()
        self._list(self._path_here())

    def toggle_errors_only(self) -> None:
        """List spans with an error alone, or all again."""
        self.errors_only = not self.errors_only
        self._list(self._path_here())

    def next_kind(self) -> None:
        """List the spans of one kind alone: the next that there is any of, in the end all again."""
        there = {node.span.kind for node in self.tree.ordered}
        for _ in _KINDS:
            self.kind = _KINDS[(_KINDS.index(self.kind) + 1) % len(_KINDS)]
            if self.kind is None or self.kind in there:
                break
        self._list(self._path_here())

    def toggle_scale(self) -> None:
        """Bars within their turn, or within the session."""
        self.scale = Scale.SESSION if self.scale is Scale.TURN else Scale.TURN

    # The lines above the rows.

    def summary(self) -> Line:
        """The whole session: how much of everything, what is listed of it, what the search found."""
        tree = self.tree
        parts = [Piece(f"{plural(len(tree.turns), 'turn')} · {plural(len(tree.ordered), 'step')}", Tone.STRONG)]
        if tree.seconds is not None:
            parts.append(Piece(f" · {time_text(tree.seconds)}"))
        if tree.tokens is not None:
            parts.append(Piece(f" · {plural(tree.tokens, 'token')}"))
        if tree.errors:
            parts.append(Piece(f" · ! {plural(len(tree.errors), 'error')}", Tone.ERROR))
        parts += self._choices()
        if tree.slowest is not None:
            name = safe_line(redact(tree.slowest.span.name), width=40)
            parts.append(Piece(f" · {SLOW_MARK} {name} {time_text(tree.slowest.own_seconds or 0)}", Tone.WARNING))
        return tuple(parts)

    def axis_line(self, width: int) -> Line:
        """The times above the bars, of the turn of the cursor or of the session."""
        columns = Columns.of(width, tokens_known=self.tree.tokens is not None)
        turn = self.selected.key.turn if self.selected is not None else 0
        axis = self._axis(turn, columns.bar)
        what = f"bars: turn {turn + 1}" if self.scale is Scale.TURN else "bars: session"
        left = fit((Piece(what, Tone.MUTED),), columns.name)
        used = sum(len(piece.text) for piece in left)
        head = f"{'time':>{columns.time - 1}} " if columns.time else ""
        head += f"{'tokens':>{columns.tokens - 1}} " if columns.tokens else ""
        labels = axis.labels() if axis is not None else ""
        return (*left, Piece(" " * (columns.name - used)), Piece(head, Tone.MUTED), Piece(labels, Tone.MUTED))

    def message_line(self) -> Line:
        """The messages of the turn that the cursor is in; the one that the row belongs to stands out."""
        row = self.selected
        return () if row is None else self.messages.line(row.key.turn, is_answer=self._is_answer(row))

    def _choices(self) -> list[Piece]:
        """What is listed alone, and what was found."""
        parts = []
        if self.errors_only:
            parts.append(Piece(f" · only errors{'' if self.tree.errors else ': there is none'}", Tone.WARNING))
        if self.kind is not None:
            parts.append(Piece(f" · only {KIND_NAMES[self.kind]}s", Tone.WARNING))
        if self.search is not None:
            keys = list(dict.fromkeys(match.key for match in self.search.matches))
            here = self.selected.key if self.selected is not None else None
            place = f"{keys.index(here) + 1} of " if here in keys else ""
            more = "" if self.search.is_done else " so far"
            text = safe_line(self.search.text, width=30)
            found = f"{place}{plural(len(keys), 'step')}{more}" if keys or not self.search.is_done else "nothing"
            parts.append(Piece(f" · “{text}”: {found}", Tone.KEY))
        return parts

    def _is_answer(self, row: TraceRow) -> bool:
        return isinstance(row, Node) and "final response" in (self._links.get(row.key) or "")

    def _axis(self, turn: int, width: int) -> Axis | None:
        if width <= 0:
            return None
        if self.scale is Scale.SESSION:
            start, end = self.tree.start, self.tree.end
        else:
            found = next((item for item in self.tree.turns if item.index == turn), None)
            start, end = (found.start, found.end) if found is not None else (None, None)
        return None if start is None or end is None else Axis(start, end, width)

    def _path_here(self) -> list[SpanKey]:
        return [] if self.selected is None else _keys_above(self.selected)

    def _go_around(self, keys: Sequence[SpanKey], step: int) -> bool:
        """Go to the nearest of these spans in one direction; beyond the last comes the first."""
        if not keys:
            return False
        order = {node.key: place for place, node in enumerate(self.tree.ordered)}
        row = self.selected
        if row is None:
            here = -1.0
        elif isinstance(row, TurnNode):
            here = min((order[root.key] for root in row.roots), default=0) - 0.5
        else:
            here = order[row.key]
        places = sorted(order[key] for key in keys if key in order)
        beyond = [place for place in places if (place > here if step > 0 else place < here)]
        chosen = (beyond or places)[0 if step > 0 else -1]
        return self.go_to(self.tree.ordered[chosen].key)

    def _lists(self, node: Node) -> bool:
        if self.errors_only and node.span.error is None:
            return False
        return self.kind is None or node.span.kind is self.kind

    def _list(self, prefer: Sequence[SpanKey]) -> None:
        """Make the rows again. The cursor goes to the first of `prefer` that is listed, else stays where it is."""
        self._rows = []
        for turn in self.tree.turns:
            self._rows.append(turn)
            if turn.key not in self._folded:
                self._list_spans(turn)
        self._places = {row.key: place for place, row in enumerate(self._rows)}
        self.move_to(next((self._places[key] for key in prefer if key in self._places), self._cursor))

    def _list_spans(self, turn: TurnNode) -> None:
        waiting = list(reversed(turn.roots))
        while waiting:
            node = waiting.pop()
            if self.is_filtered:
                if self._lists(node):
                    self._rows.append(node)
                waiting += reversed(node.children)
            else:
                self._rows.append(node)
                if node.key not in self._folded:
                    waiting += reversed(node.children)


def _has_below(row: TraceRow) -> bool:
    return bool(row.roots if isinstance(row, TurnNode) else row.children)


def _keys_above(row: TraceRow) -> list[SpanKey]:
    """The keys of a row and of all around it, innermost first, its turn last."""
    if isinstance(row, TurnNode):
        return [row.key]
    return [*(node.key for node in reversed(row.path)), SpanKey(row.key.turn)]
