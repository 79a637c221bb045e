"""Where on a line the bar of a span stands, and the times above."""

from __future__ import annotations

import math
from dataclasses import dataclass

from workbench.tui.state.amounts import time_text

_LABEL_WIDTH = 9  # cells that a time of the axis needs, with a gap


@dataclass(frozen=True, slots=True)
class Axis:
    """A stretch of time over `width` cells, in seconds since the session was opened."""

    start: float
    end: float
    width: int

    def cells(self, start: float, end: float) -> tuple[int, int]:
        """The first cell of a stretch and the one after its last: always at least one, and within the axis."""
        span = self.end - self.start
        if span <= 0:
            return 0, self.width
        first = math.floor((start - self.start) / span * self.width)
        after = math.ceil(round((end - self.start) / span * self.width, 6))
        first = min(max(first, 0), max(self.width - 1, 0))
        return first, min(max(after, first + 1), self.width)

    def bar(self, start: float, end: float, *, fill: str) -> str:
        """A line of `width` cells with the bar of a stretch in it."""
        first, after = self.cells(start, end)
        return f"{' ' * first}{fill * (after - first)}{' ' * (self.width - after)}"

    def labels(self) -> str:
        """Times above the bars, counted from the start of the axis, at round distances."""
        span = self.end - self.start
        if span <= 0 or self.width < _LABEL_WIDTH:
            return " " * self.width
        step = _round_step(span * _LABEL_WIDTH / self.width)
        line = ""
        for number in range(int(span / step) + 1):
            text = f"├{_label(number * step)}"
            place = round(number * step / span * self.width)
            if place + len(text) <= self.width:
                line = f"{line.ljust(place)}{text}"
        return line.ljust(self.width)


def _label(seconds: float) -> str:
    """A round time: "0", "5 s", "0.5 ms"."""
    if not seconds:
        return "0"
    number, _, unit = time_text(seconds).partition(" ")
    return f"{float(number):g} {unit}" if unit in ("µs", "ms", "s") else time_text(seconds)


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is no less."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))
