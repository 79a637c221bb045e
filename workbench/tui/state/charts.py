"""Numbers as pictures of characters."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

_HEIGHTS = "▁▂▃▄▅▆▇█"
_ABSENT = "·"


def bar(share: float, *, width: int, mark: float | None = None) -> str:
    """A bar of `width` cells, filled to `share` of it; `mark` is a share at which a line stands, as for a threshold."""
    filled = round(_clamped(share) * width)
    cells = ["█" if cell < filled else "░" for cell in range(width)]
    if mark is not None and width:
        cells[min(int(_clamped(mark) * width), width - 1)] = "┃"
    return "".join(cells)


def sparkline(values: Sequence[float | None], *, lowest: float = 0.0, highest: float | None = None) -> str:
    """One character for each value, the higher the greater it is; a point where there is none.

    Without `highest` the greatest value is as high as can be.
    """
    known = [value for value in values if value is not None]
    top = max(known, default=0.0) if highest is None else highest
    spread = top - lowest
    return "".join(
        _ABSENT if value is None else _HEIGHTS[_step(value - lowest, spread, steps=len(_HEIGHTS))] for value in values
    )


def share_of(score: float, lowest: float | None, highest: float | None) -> float | None:
    """Where a score lies between the bounds of its metric, in [0, 1]; None where it has no bounds."""
    if lowest is None or highest is None or highest <= lowest:
        return None
    return _clamped((score - lowest) / (highest - lowest))


def histogram(values: Sequence[float], *, lowest: float, highest: float, bins: int) -> list[int]:
    """How many values lie in each of `bins` equal parts; those beyond the bounds count in the part at that end."""
    counts = [0] * bins
    for value in values:
        counts[_step(value - lowest, highest - lowest, steps=bins)] += 1
    return counts


def _step(value: float, spread: float, *, steps: int) -> int:
    if spread <= 0:
        return steps - 1 if value > 0 else 0
    return min(int(_clamped(value / spread) * steps), steps - 1)


def _clamped(share: float) -> float:
    return 0.0 if isnan(share) else min(max(share, 0.0), 1.0)
