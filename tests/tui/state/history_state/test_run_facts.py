"""Facts about a stored run besides its results."""

from __future__ import annotations

import pytest

from workbench.model.criteria import Criterion, EvalConfig
from workbench.tui.state.criteria_choice import PICKER_SOURCE
from workbench.tui.state.history_state import describe_criteria
from workbench.tui.state.text_layout import render_blocks


@pytest.mark.parametrize(
    ("source", "expected_line"),
    [
        ("default", "criteria  the default ones, of lights"),
        ("sets/test_config.json", "criteria  from sets/test_config.json, of lights"),
        ("--metrics", "criteria  from --metrics, of lights"),
        (PICKER_SOURCE, "criteria  chosen for this run, of lights"),
    ],
)
def test_criteria_are_shown_with_their_source(source: str, expected_line: str) -> None:
    config = EvalConfig(criteria=(Criterion(metric="exact_match", threshold=1.0),), source=source)

    lines = render_blocks(list(describe_criteria(config, "lights")), width=80, side_by_side=False)

    assert expected_line in ["".join(piece.text for piece in line) for line in lines]
