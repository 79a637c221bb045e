"""Properties of accepting any differences of any execution, in every format of a case."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.engine.acceptance.strategies import FORMS, VALUES, make_document, make_execution, sides
from workbench.engine.acceptance import Hunk, accept, find_hunks
from workbench.model.turn_diff import DifferenceKind, find_differences, find_state_differences, list_messages

STATES = st.dictionaries(st.sampled_from("xyz"), VALUES, max_size=3)
MORE = settings(max_examples=100, deadline=None)


@st.composite
def situations(draw: st.DrawFn, *, distinct: bool = False) -> tuple[Any, Any]:
    """Generate a document with one case, and an execution of the agent."""
    form = draw(st.sampled_from(FORMS))
    turns = draw(st.integers(1, 2))
    expected = [draw(sides(distinct=distinct)) for _ in range(turns)]
    actual = [draw(sides(distinct=distinct)) for _ in range(turns)]
    state = draw(STATES) if not form.startswith("legacy") else None
    document = make_document(
        expected, form=form, responses=draw(st.booleans()), grouped=draw(st.booleans()), state=state
    )
    execution_form = draw(st.sampled_from(["tool_uses", "events"]))
    return document, make_execution(actual, form=execution_form, responses=draw(st.booleans()), state=draw(STATES))


def list_hunks(document: Any, execution: Any) -> tuple[Hunk, ...]:
    return find_hunks(document.case(0), execution)


def count_differences(hunks: tuple[Hunk, ...]) -> Counter[str]:
    """Count differences without the positions of their calls, which shift when other calls change."""
    return Counter(f"{h.turn} {h.difference.kind} {h.difference.tool} {h.difference.path}" for h in hunks)


@MORE
@given(situations())
def test_accepting_everything_leaves_no_difference(situation: tuple[Any, Any]) -> None:
    document, execution = situation

    accept(document, 0, list_hunks(document, execution), execution)

    case = document.case(0)
    assert find_hunks(case, execution) == ()
    for expected_turn, turn in zip(case.conversation, execution.turns, strict=True):
        assert find_differences(expected_turn, turn.invocation) == ()
    if case.final_session_state is not None:
        assert find_state_differences(case.final_session_state, execution.final_state) == ()


@MORE
@given(situations(distinct=True), st.data())
def test_accepting_one_hunk_removes_only_that_difference(situation: tuple[Any, Any], data: Any) -> None:
    document, execution = situation
    before = list_hunks(document, execution)
    assume(before)
    hunk = data.draw(st.sampled_from(before))
    if hunk.difference.kind is DifferenceKind.INTERMEDIATE_MISSING:
        # A turn without expected messages of sub-agents accepts any messages.
        (turn,) = [case for number, case in enumerate(document.case(0).conversation) if number == hunk.turn]
        assume(len(list_messages(turn)) > 1)

    accept(document, 0, [hunk], execution)

    assert count_differences(list_hunks(document, execution)) == count_differences(before) - count_differences((hunk,))


@MORE
@given(situations(), st.data())
def test_accepting_hunks_one_by_one_in_any_order_ends(situation: tuple[Any, Any], data: Any) -> None:
    document, execution = situation
    for _ in range(60):
        remaining = list_hunks(document, execution)
        if not remaining:
            return
        accept(document, 0, [data.draw(st.sampled_from(remaining))], execution)
    raise AssertionError(remaining)


@MORE
@given(situations(), st.data())
def test_undo_restores_every_byte(situation: tuple[Any, Any], data: Any) -> None:
    document, execution = situation
    before = document.content()
    hunks = list_hunks(document, execution)
    accepted_hunks = [hunk for hunk in hunks if data.draw(st.booleans())]

    accept(document, 0, accepted_hunks, execution)

    assert document.undo() == ("accept what the agent did" if accepted_hunks else None)
    assert document.content() == before
