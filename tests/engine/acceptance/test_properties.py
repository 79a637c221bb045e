"""Promises that hold for whatever is accepted of whatever an agent did, in every form that a case can have."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.engine.acceptance.strategies import FORMS, VALUES, document_of, execution_of, sides
from workbench.engine.acceptance import Hunk, accept, find_hunks
from workbench.report.turn_diff import DifferenceKind, find_differences, find_state_differences, list_messages

STATES = st.dictionaries(st.sampled_from("xyz"), VALUES, max_size=3)
MORE = settings(max_examples=100, deadline=None)


@st.composite
def situations(draw: st.DrawFn, *, distinct: bool = False) -> tuple[Any, Any]:
    """A document with one case, and what the agent did in it."""
    form = draw(st.sampled_from(FORMS))
    turns = draw(st.integers(1, 2))
    expected = [draw(sides(distinct=distinct)) for _ in range(turns)]
    actual = [draw(sides(distinct=distinct)) for _ in range(turns)]
    state = draw(STATES) if not form.startswith("legacy") else None
    document = document_of(expected, form=form, responses=draw(st.booleans()), grouped=draw(st.booleans()), state=state)
    told = draw(st.sampled_from(["tool_uses", "events"]))
    return document, execution_of(actual, form=told, responses=draw(st.booleans()), state=draw(STATES))


def found_in(document: Any, execution: Any) -> tuple[Hunk, ...]:
    return find_hunks(document.case(0), execution)


def told(found: tuple[Hunk, ...]) -> Counter[str]:
    """Differences without the positions of their calls, which shift as others come and go."""
    return Counter(f"{h.turn} {h.difference.kind} {h.difference.tool} {h.difference.path}" for h in found)


@MORE
@given(situations())
def test_accepting_everything_leaves_no_difference(situation: tuple[Any, Any]) -> None:
    document, execution = situation

    accept(document, 0, found_in(document, execution), execution)

    case = document.case(0)
    assert find_hunks(case, execution) == ()
    for wanted, turn in zip(case.conversation, execution.turns, strict=True):
        assert find_differences(wanted, turn.invocation) == ()
    assert find_state_differences(case.final_session_state or {}, execution.final_state) == ()


@MORE
@given(situations(distinct=True), st.data())
def test_accepting_one_hunk_makes_that_difference_go_and_no_other(situation: tuple[Any, Any], data: Any) -> None:
    document, execution = situation
    before = found_in(document, execution)
    assume(before)
    one = data.draw(st.sampled_from(before))
    if one.difference.kind is DifferenceKind.INTERMEDIATE_MISSING:
        # A turn that expects nothing of sub-agents any more leaves open what else they say.
        (turn,) = [case for number, case in enumerate(document.case(0).conversation) if number == one.turn]
        assume(len(list_messages(turn)) > 1)

    accept(document, 0, [one], execution)

    assert told(found_in(document, execution)) == told(before) - told((one,))


@MORE
@given(situations(), st.data())
def test_accepting_one_by_one_in_any_order_comes_to_an_end(situation: tuple[Any, Any], data: Any) -> None:
    document, execution = situation
    for _ in range(60):
        left = found_in(document, execution)
        if not left:
            return
        accept(document, 0, [data.draw(st.sampled_from(left))], execution)
    raise AssertionError(left)


@MORE
@given(situations(), st.data())
def test_undo_brings_back_every_byte(situation: tuple[Any, Any], data: Any) -> None:
    document, execution = situation
    before = document.content()
    found = found_in(document, execution)
    some = [hunk for hunk in found if data.draw(st.booleans())]

    accept(document, 0, some, execution)

    assert document.undo() == ("accept what the agent did" if some else None)
    assert document.content() == before
