"""Stepping through the cases that did not pass, without a screen."""

from __future__ import annotations

from typing import Any

import pytest

from workbench.tui.state.diff_state import DiffDecision, ReviewWalk
from workbench.tui.state.text_layout import render_blocks


@pytest.fixture
def walk(make: Any) -> ReviewWalk:
    return ReviewWalk([make.key("a"), make.key("b"), make.key("c")])


def render_progress(walk: ReviewWalk) -> str:
    return "".join(piece.text for piece in walk.progress())


def test_the_review_continues_only_after_all_differences_are_accepted(walk: ReviewWalk) -> None:
    walk.accept(is_done=False)
    assert "review 1 of 3" in render_progress(walk)
    assert "accepted in part" in render_progress(walk)

    walk.accept(is_done=True)
    walk.skip()

    assert "review 3 of 3" in render_progress(walk)
    assert "1 accepted, 1 skipped" in render_progress(walk)


def test_undo_returns_to_the_last_accepted_case(walk: ReviewWalk, make: Any) -> None:
    walk.accept(is_done=False)
    walk.accept(is_done=True)
    walk.skip()

    assert walk.undo() == make.key("a")
    assert (walk.place, walk.decisions[0]) == (0, DiffDecision.PARTLY)
    assert walk.undo() == make.key("a")
    assert 0 not in walk.decisions
    assert walk.undo() is None


def test_a_refused_case_stays_selected_with_the_reason(walk: ReviewWalk) -> None:
    walk.refuse("it ended in an error")

    assert walk.reason() == "it ended in an error"
    walk.skip()
    assert walk.decisions[0] is DiffDecision.REFUSED
    assert walk.reason() is None


def test_going_back_ends_at_the_first_case(walk: ReviewWalk) -> None:
    walk.skip()

    assert walk.go_back()
    assert not walk.go_back()


def test_the_summary_names_every_case_with_its_outcome(walk: ReviewWalk) -> None:
    walk.accept(is_done=True)
    walk.refuse("no")
    walk.skip()
    walk.place = 3

    lines = ["".join(p.text for p in line) for line in render_blocks(walk.summary(), width=80, side_by_side=False)]

    assert walk.key is None
    assert "2 of 3 cases reviewed" in lines
    assert "  accepted  sets/lights.evalset.json:a" in lines
    assert "  refused  sets/lights.evalset.json:b  no" in lines
    assert "  not reviewed  sets/lights.evalset.json:c" in lines
    assert "review is over  1 accepted, 1 refused" in render_progress(walk)
