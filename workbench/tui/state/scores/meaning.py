"""What metrics mean: what the registry knows of them, found by the name of a result."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from workbench.tui.state.blocks import Block, Whole
from workbench.tui.state.pieces import Piece, Tone, safe

if TYPE_CHECKING:
    from workbench.metrics.definition import MetricInfo


@cache
def info_of(name: str) -> MetricInfo | None:
    """The metric of a result, which is called like its metric or begins like it; None for a custom one."""
    from workbench.metrics.registry import known_metrics  # the start of the screen need not wait for it

    known = known_metrics()
    if name in known:
        return known[name]
    return max((info for info in known.values() if name.startswith(info.name)), key=_length, default=None)


def meaning_blocks(name: str) -> list[Block]:
    """Purpose, use and range of a metric."""
    info = info_of(name)
    if info is None:
        return [Whole.of("a metric that this project defines", Tone.MUTED, indent=2)]
    facts = [("judges", info.purpose), ("use it", info.when), ("range", range_text(info))]
    if info.needs_reference:
        facts.append(("needs", "what was expected"))
    return [Whole((Piece(f"{key}  ", Tone.KEY), Piece(safe(text))), indent=2, hang=2) for key, text in facts if text]


def range_text(info: MetricInfo) -> str:
    """The bounds of the scores, and which end is the good one."""
    lowest = "…" if info.lowest is None else f"{info.lowest:g}"
    highest = "…" if info.highest is None else f"{info.highest:g}"
    return f"{lowest} to {highest}, {'lower' if info.lower_is_better else 'higher'} is better"


def _length(info: MetricInfo) -> int:
    return len(info.name)
