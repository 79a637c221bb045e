"""Differences of a case, and blocks as text."""

from __future__ import annotations

from typing import Any

from workbench.model.results import CaseStatus, MetricResult
from workbench.tui.state.diff_content import make_diff
from workbench.tui.state.diff_lines import DiffSource, Level
from workbench.tui.state.text_layout import Block, render_blocks


def render(blocks: Any, *, width: int = 70, side_by_side: bool = True) -> list[str]:
    block_list: list[Block] = list(blocks)
    return [
        "".join(piece.text for piece in line).rstrip()
        for line in render_blocks(block_list, width=width, side_by_side=side_by_side)
    ]


def make_difference(
    make: Any, expected: Any, actual: Any, *metrics: MetricResult, level: Level = Level.EVERYTHING
) -> Any:
    turns = expected if isinstance(expected, list) else [expected]
    actual_turns = actual if isinstance(actual, list) else [actual]
    result = make.result(make.key("a"), CaseStatus.FAILED, *actual_turns, metrics=metrics)
    return make_diff(DiffSource(case=make.case("a", *turns), turns=result.execution.turns, result=result, level=level))
