"""Facts about a stored run besides its results."""

from __future__ import annotations

import pytest

from workbench.model.criteria import Criterion, EvalConfig
from workbench.tui.state.criteria_choice import PICKER_SOURCE
from workbench.tui.state.history_state import describe_criteria
from workbench.tui.state.text_layout import render_blocks


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("default", "judged by  the default ones, of lights"),
        ("sets/test_config.json", "judged by  as sets/test_config.json said, of lights"),
        ("--metrics", "judged by  as --metrics said, of lights"),
        (PICKER_SOURCE, "judged by  chosen for this run, of lights"),
    ],
)
def test_criteria_are_told_with_what_named_them(source: str, told: str) -> None:
    config = EvalConfig(criteria=(Criterion(metric="exact_match", threshold=1.0),), source=source)

    lines = render_blocks(list(describe_criteria(config, "lights")), width=80, side_by_side=False)

    assert told in ["".join(piece.text for piece in line) for line in lines]
