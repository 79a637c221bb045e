"""A JSON value as lines, with folding and highlighted matches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from rich.cells import cell_len

from workbench.model.text import REDACTED, is_secret_key, neutralise, pluralise, redact
from workbench.tui.state.text_layout import Line, Style, StyledText, safe_line, wrap

# Highlighted matches of a search.


def mark_matches(line: Line, needle: str) -> Line:
    """Highlight every occurrence of a text in a line, ignoring case, except occurrences across two pieces."""
    return tuple(part for piece in line for part in _parts(piece, needle.casefold()))


def _parts(piece: StyledText, needle: str) -> Iterator[StyledText]:
    folded = piece.text.casefold()
    if not needle or len(folded) != len(piece.text):  # some characters fold into two, which shifts the positions
        yield piece
        return
    end = 0
    while (start := folded.find(needle, end)) >= 0:
        if start > end:
            yield StyledText(piece.text[end:start], piece.style)
        yield StyledText(piece.text[start : start + len(needle)], Style.MATCH)
        end = start + len(needle)
    if end < len(piece.text):
        yield StyledText(piece.text[end:], piece.style)


# A JSON value for reading: a line for each key, real line breaks in texts, and parts to fold.

Path = tuple[str | int, ...]

_ITEMS_AT_FIRST = 100  # of one list or object
_ITEMS_MORE = 400
_TEXT_AT_FIRST = 4_000  # characters of one text
_TEXT_MORE = 16_000
_TEXT_ONCE_FULL = 400  # of one text, after the first _MOST_CHARACTERS of the value
_MOST_ROWS = 1_500  # containers after these rows start folded
_MOST_CHARACTERS = 60_000
_LONGEST_TEXT = 1_000_000  # characters of one text; the rest can only be copied
_INDENT = 2
_DEEPEST_INDENT = 24


@dataclass(slots=True)
class _Limit:
    """The rows and characters so far."""

    rows: int = 0
    characters: int = 0


class _Row(NamedTuple):
    """A row before wrapping: its head, then its text. The keys to open and fold act on `opens`."""

    depth: int
    head: Line
    text: str = ""
    style: Style = Style.TEXT
    is_block: bool = False
    opens: Path | None = None


class JsonText:
    """A JSON value with the parts that the user opened and folded."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self._folded: dict[Path, bool] = {}
        self._items: dict[Path, int] = {}
        self._windows: dict[Path, list[tuple[int, int]]] = {}
        self._windows_shown: dict[Path, list[tuple[int, int]]] = {}
        self._redacted: dict[Path, str] = {}
        self._folds_shown: dict[Path, bool] = {}
        self._opened_by_line: list[Path | None] = []
        self.needle = ""

    def render(self, width: int) -> list[Line]:
        """Return the lines for a width."""
        lines: list[Line] = []
        self._opened_by_line = []
        for row in self._rows():
            for line in _lines(row, width=width, needle=self.needle):
                lines.append(line)
                self._opened_by_line.append(row.opens)
        return lines

    def toggle(self, line: int) -> bool:
        """Open or fold the part on a line of the last layout, or show more of it. Return False without such a part."""
        path = self._opened_by_line[line] if line < len(self._opened_by_line) else None
        if path is None:
            return False
        if path and path[-1] == _MORE:
            self._show_more(path[:-1])
        elif path and path[-1] == _REST:
            self._items[path[:-1]] = self._items.get(path[:-1], _ITEMS_AT_FIRST) + _ITEMS_MORE
        else:
            self._folded[path] = not self._folds_shown.get(path, False)
        return True

    def fold(self, line: int) -> int | None:
        """Fold the innermost open part around a line of the last layout. Return the line of its heading, or None."""
        for above in range(min(line, len(self._opened_by_line) - 1), -1, -1):
            path = self._opened_by_line[above]
            if path is not None and not self._folds_shown.get(path, True):
                self._folded[path] = True
                return above
        return None

    def reveal(self, needle: str) -> None:
        """Open the parts around the first occurrence of a text, in a key or a value."""
        self.needle = needle
        wanted = needle.casefold()
        found = next(((path, place) for path, place in _occurrences(self._value, wanted)), None) if wanted else None
        if found is None:
            return
        path, place = found
        for length in range(len(path)):
            self._folded[path[:length]] = False
        self._reveal_items(path)
        if place >= _TEXT_ONCE_FULL:
            text = self._get_text(path)
            place = max(text.casefold().find(wanted), 0)
            self._add_window(path, max(place - 1_000, 0), place + 3_000)

    def _rows(self) -> Iterator[_Row]:
        self._folds_shown = {}
        yield from self._value_rows(self._value, path=(), depth=0, head=(), limit=_Limit())

    def _value_rows(self, value: Any, *, path: Path, depth: int, head: Line, limit: _Limit) -> Iterator[_Row]:
        """Yield the rows without recursion, because a value may be nested deeper than Python's stack."""
        waiting = [self._rows_of_value(value, path=path, depth=depth, head=head, limit=limit)]
        while waiting:
            item = next(waiting[-1], None)
            if item is None:
                waiting.pop()
            elif isinstance(item, _Row):
                yield item
            else:
                waiting.append(item)

    def _rows_of_value(
        self, value: Any, *, path: Path, depth: int, head: Line, limit: _Limit
    ) -> Iterator[_Row | Iterator[Any]]:
        limit.rows += 1
        if isinstance(value, dict | list) and value:
            yield from self._container(value, path=path, depth=depth, head=head, limit=limit)
        elif isinstance(value, str):
            yield from self._text_rows(value, path=path, depth=depth, head=head, limit=limit)
        else:
            yield _Row(depth, head, json.dumps(value), Style.RUNNING)

    def _container(
        self, value: dict[str, Any] | list[Any], *, path: Path, depth: int, head: Line, limit: _Limit
    ) -> Iterator[_Row | Iterator[Any]]:
        folded = self._folded.get(path, limit.rows > _MOST_ROWS)
        self._folds_shown[path] = folded
        count = f"{{{len(value):,}}}" if isinstance(value, dict) else f"[{len(value):,}]"
        if head or folded:
            yield _Row(
                depth, (StyledText("▸ " if folded else "▾ ", Style.MUTED), *head), count, Style.MUTED, opens=path
            )
        if folded:
            return
        inner = depth + 1 if head else depth
        shown = self._items.get(path, _ITEMS_AT_FIRST)
        pairs = iter(value.items()) if isinstance(value, dict) else enumerate(value)
        for number, (key, item) in enumerate(pairs):
            if number >= shown:
                rest = f"… {len(value) - shown:,} more; l shows them"
                yield _Row(inner, (), rest, Style.MUTED, opens=(*path, _REST))
                return
            secret = isinstance(key, str) and is_secret_key(key) and isinstance(item, str | int)
            step = key if isinstance(key, str) else number
            label = (StyledText(f"{safe_line(str(key))}: ", Style.KEY),)
            if secret and not isinstance(item, bool):
                yield _Row(inner, label, REDACTED, Style.MUTED)
            else:
                yield self._rows_of_value(item, path=(*path, step), depth=inner, head=label, limit=limit)

    def _text_rows(self, value: str, *, path: Path, depth: int, head: Line, limit: _Limit) -> Iterator[_Row]:
        text = self._redact_text(value, path)
        at_first = _TEXT_ONCE_FULL if limit.characters > _MOST_CHARACTERS else _TEXT_AT_FIRST
        is_block = "\n" in text.strip("\n") or len(text) > 2 * at_first
        folded = self._folded.get(path, False)
        if is_block:
            self._folds_shown[path] = folded
            mark = StyledText("▸ " if folded else "▾ ", Style.MUTED)
            size = (
                f"{pluralise(len(value), 'character')}, {pluralise(value.count(chr(10)) + 1, 'line')}" if folded else ""
            )
            yield _Row(depth, (mark, *head), size, Style.MUTED, opens=path)
            if folded:
                return
        windows = self._windows_shown[path] = self._windows.get(path, [(0, at_first)])
        limit.characters += sum(min(end, len(text)) - start for start, end in windows)
        end = 0
        for start, stop in windows:
            if start > end:
                yield self._gap(start - end, path, depth)
            part = _visible(text[start:stop])
            if is_block:
                yield _Row(depth, (), part, is_block=True, opens=None)
            else:
                yield _Row(depth, head, f'"{part}"' if stop >= len(text) else f'"{part}')
            end = min(stop, len(text))
        if end < len(text):
            yield self._gap(len(text) - end, path, depth)
        if len(value) > _LONGEST_TEXT:
            rest = f"… {pluralise(len(value) - _LONGEST_TEXT, 'more character')} not shown; copying takes them"
            yield _Row(depth, (), rest, Style.MUTED, is_block=True)

    def _gap(self, characters: int, path: Path, depth: int) -> _Row:
        text = f"… {characters:,} more characters; l shows more"
        return _Row(depth, (), text, Style.MUTED, is_block=True, opens=(*path, _MORE))

    def _redact_text(self, value: str, path: Path) -> str:
        """Redact a text. The result for a long text is cached."""
        if len(value) <= _TEXT_AT_FIRST:
            return redact(value)
        if path not in self._redacted:
            self._redacted[path] = redact(value[:_LONGEST_TEXT])
        return self._redacted[path]

    def _get_text(self, path: Path) -> str:
        value = self._value
        for step in path:
            value = value[step]
        return self._redact_text(value, path) if isinstance(value, str) else ""

    def _show_more(self, path: Path) -> None:
        """Reduce the first gap of a text."""
        start = self._windows_shown[path][0][1]
        self._add_window(path, start, start + _TEXT_MORE)

    def _add_window(self, path: Path, start: int, end: int) -> None:
        merged: list[tuple[int, int]] = []
        shown = self._windows_shown.get(path, [(0, _TEXT_ONCE_FULL)])
        for window in sorted([*shown, (start, end)]):
            if merged and window[0] <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], window[1]))
            else:
                merged.append(window)
        self._windows[path] = merged

    def _reveal_items(self, path: Path) -> None:
        value = self._value
        for length, step in enumerate(path):
            place = step if isinstance(value, list) else list(value).index(step)
            if isinstance(place, int) and place >= self._items.get(path[:length], _ITEMS_AT_FIRST):
                self._items[path[:length]] = place + 1
            value = value[step]


_MORE = "\0more"  # as the last step of a path: the rest of a text
_REST = "\0rest"  # as the last step of a path: the rest of a list or an object


def _occurrences(value: Any, needle: str) -> Iterator[tuple[Path, int]]:
    """Find a text, in order: yield the path of the value, or of the value of a matching key, and the offset in it."""
    waiting: list[Iterator[tuple[Path, Any]]] = [iter([((), value)])]
    while waiting:
        found = next(waiting[-1], None)
        if found is None:
            waiting.pop()
            continue
        path, item = found
        if path and isinstance(path[-1], str) and needle in path[-1].casefold():
            yield path, 0
        if isinstance(item, dict | list):
            waiting.append(_inside(path, item))
            continue
        text = item if isinstance(item, str) else json.dumps(item)
        place = text.casefold().find(needle)
        if place >= 0:
            yield path, place


def _inside(path: Path, value: dict[str, Any] | list[Any]) -> Iterator[tuple[Path, Any]]:
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key), inner


def _lines(row: _Row, *, width: int, needle: str) -> Iterator[Line]:
    indent = " " * min(row.depth * _INDENT, _DEEPEST_INDENT, max(width - 16, 0))
    lead = StyledText(f"{indent}  │ " if row.is_block else indent, Style.MUTED)
    head = () if row.is_block else row.head
    prefix = "".join(piece.text for piece in head)
    text = f"{prefix}{row.text}"
    room = max(width - cell_len(lead.text), 8)
    hang = 0 if row.is_block else min(4, room - 4)
    for number, (start, end) in enumerate(wrap(text, room, hang=hang)):
        if number == 0 and head:
            body = (*_clip(head, end), StyledText(text[len(prefix) : end], row.style))
        else:
            body = (StyledText(f"{' ' * (hang if number else 0)}{text[start:end]}", row.style),)
        line = (lead, *body)
        yield mark_matches(line, needle) if needle else line


def _clip(pieces: Line, end: int) -> Iterator[StyledText]:
    for piece in pieces:
        yield StyledText(piece.text[: max(end, 0)], piece.style)
        end -= len(piece.text)


def _visible(text: str) -> str:
    return neutralise(text).expandtabs(4)
