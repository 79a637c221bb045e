"""Animated SVG of a terminal: frames of styled rows, of which each distinct row is stored once.

The file needs no script and no font from elsewhere. Rows appear and disappear by SMIL animation, which browsers play in
an `img` element too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import NamedTuple

from rich.cells import cell_len
from rich.color import Color
from rich.segment import Segment
from rich.style import Style

FONT_SIZE, CELL_WIDTH, CELL_HEIGHT, MARGIN = 16.6, 10, 20, 12
_FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_CAPTION = 3  # rows below the screen
_GAP = 12  # blanks that take more room than the start of another text


class Run(NamedTuple):
    """Text of one style that begins at a cell."""

    cell: int
    text: str
    colour: str
    background: str
    is_bold: bool


Row = tuple[Run, ...]


@dataclass(frozen=True)
class Frame:
    """What the screen shows for some seconds. `key` was pressed before it; `words` say what happens."""

    rows: Sequence[Row]
    seconds: float
    key: str
    words: str


def read_rows(strips: Iterable[Iterable[Segment]], *, colour: str, background: str) -> tuple[Row, ...]:
    """Read the rows of a screen; `colour` and `background` are those of text without any."""
    return tuple(tuple(_read_row(strip, colour, background)) for strip in strips)


def _read_row(strip: Iterable[Segment], colour: str, background: str) -> Iterator[Run]:
    def look(segment: Segment) -> tuple[str, str, bool]:
        style = segment.style or Style()
        front, back = _hex(style.color, colour), _hex(style.bgcolor, background)
        return (back, front, bool(style.bold)) if style.reverse else (front, back, bool(style.bold))

    cell = 0
    for (front, back, is_bold), group in groupby((each for each in strip if not each.control), look):
        text = "".join(segment.text for segment in group)
        yield Run(cell, text, front, back, is_bold)
        cell += cell_len(text)


def _hex(colour: Color | None, default: str) -> str:
    return default if colour is None or colour.is_default else colour.get_truecolor().hex


def animate(frames: Sequence[Frame], *, columns: int, divide_at: int, poster: int) -> str:
    """Write the frames as an endless animation. Programs that cannot animate show the frame with number `poster`.

    Rows are stored in two parts, divided at a cell, because the two sides of the screen change at different times.
    Without words there is no line for them below the screen.
    """
    background, colour = _find_usual_colours(frames[0].rows)
    total = sum(frame.seconds for frame in frames)
    rows = len(frames[0].rows)
    caption = _CAPTION if any(frame.words for frame in frames) else 0
    width, height = columns * CELL_WIDTH + 2 * MARGIN, (rows + caption) * CELL_HEIGHT + 2 * MARGIN
    classes: dict[tuple[str, bool], str] = {}
    spans: dict[str, list[int]] = {}  # drawn rows, with the frames that show them
    for number, frame in enumerate(frames):
        parts = [(part, y) for y, row in enumerate(frame.rows) for part in _divide(row, divide_at)]
        drawn = [_draw_row(part, y, background, classes) for part, y in parts]
        words = _draw_caption(frame, (rows + 1.5) * CELL_HEIGHT, colour) if caption else ""
        for svg in (*drawn, words):
            if svg:
                spans.setdefault(svg, []).append(number)
    starts = [sum(frame.seconds for frame in frames[:number]) for number in range(len(frames) + 1)]
    body = "".join(_show_during(svg, shown, starts, total, poster) for svg, shown in spans.items())
    styles = "".join(
        f".{name}{{fill:{fill}{';font-weight:bold' if is_bold else ''}}}" for (fill, is_bold), name in classes.items()
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" viewBox="0 0 {width} {height}">'
        f"<style>text{{font:{FONT_SIZE}px {_FONTS}}}{styles}</style>"
        f'<rect width="100%" height="100%" rx="8" fill="{background}"/>'
        f'<g transform="translate({MARGIN} {MARGIN})">{body}</g></svg>\n'
    )


def _find_usual_colours(rows: Sequence[Row]) -> tuple[str, str]:
    """Return the background and the colour of most cells."""
    backgrounds: Counter[str] = Counter()
    colours: Counter[str] = Counter()
    for run in (run for row in rows for run in row):
        backgrounds[run.background] += cell_len(run.text)
        colours[run.colour] += len(run.text.strip())
    return backgrounds.most_common(1)[0][0], colours.most_common(1)[0][0]


def _divide(row: Row, at: int) -> tuple[Row, Row]:
    left = [run._replace(text=run.text[: max(at - run.cell, 0)]) for run in row]  # all cells before are narrow
    right = [
        run._replace(cell=max(run.cell, at), text=run.text[max(at - run.cell, 0) :])
        for run in row
        if run.cell + cell_len(run.text) > at
    ]
    return tuple(run for run in left if run.text), tuple(right)


def _show_during(svg: str, shown: Sequence[int], starts: Sequence[float], total: float, poster: int) -> str:
    """Make a row visible during its frames."""
    if len(shown) == len(starts) - 1:
        return svg
    changes: list[tuple[float, str]] = [] if 0 in shown else [(0.0, "hidden")]
    for number in shown:
        if number - 1 not in shown:
            changes.append((starts[number] / total, "visible"))
        if number + 1 not in shown and number + 2 < len(starts):
            changes.append((starts[number + 1] / total, "hidden"))
    values, times = ";".join(value for _, value in changes), ";".join(f"{time:.4f}" for time, _ in changes)
    hidden = "" if poster in shown else ' visibility="hidden"'
    return (
        f'<g{hidden}>{svg}<animate attributeName="visibility" calcMode="discrete" repeatCount="indefinite" '
        f'dur="{total:.2f}s" values="{values}" keyTimes="{times}"/></g>'
    )


def _draw_row(row: Row, y: int, background: str, classes: dict[tuple[str, bool], str]) -> str:
    """Draw a row: rectangles where the background differs, and its words at their cells.

    `textLength` keeps the cells with a font of another width. Firefox ignores it in `tspan`.
    """
    top = y * CELL_HEIGHT
    boxes = ""
    for fill, group in groupby(row, lambda run: run.background):
        runs = list(group)
        if fill != background:
            cells = sum(cell_len(run.text) for run in runs)
            place = f'x="{runs[0].cell * CELL_WIDTH}" y="{top}" width="{cells * CELL_WIDTH}"'
            boxes += f'<rect {place} height="{CELL_HEIGHT}" fill="{fill}"/>'
    words = ""
    for run in row:
        name = classes.setdefault((run.colour, run.is_bold), f"c{len(classes)}")
        for cell, text in _split(run):
            place = f'x="{cell * CELL_WIDTH}" textLength="{cell_len(text) * CELL_WIDTH}"'
            words += f'<text {place} y="{top + 15}" class="{name}">{escape(text, quote=False)}</text>'
    return boxes + words


def _split(run: Run) -> Iterator[tuple[int, str]]:
    """Split the text of a run at long gaps, and remove the blanks around each part."""
    cell = run.cell
    for part in re.split(f"( {{{_GAP},}})", run.text):
        if text := part.strip(" "):
            yield cell + len(part) - len(part.lstrip(" ")), text
        cell += cell_len(part)


def _draw_caption(frame: Frame, top: float, colour: str) -> str:
    """Draw the key that was pressed, and what happens."""
    size = FONT_SIZE + 2
    key = f'<tspan font-weight="bold" fill="#6cb6ff">{escape(frame.key)}</tspan>  ' if frame.key else ""
    words = escape(frame.words, quote=False)
    return f'<text x="8" y="{top:.0f}" style="font-size:{size}px" fill="{colour}">{key}{words}</text>'
