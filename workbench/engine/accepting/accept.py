"""Writes accepted hunks into a document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.engine.accepting.events import accept_in_events
from workbench.engine.accepting.hunks import Hunk, Refused, hunks
from workbench.engine.accepting.lists import LEGACY, TOOL_USES, accept_in_lists
from workbench.engine.accepting.turn_edit import TurnEdit, parts_with_text
from workbench.model.evalset import EvalCase, IntermediateData, Invocation, InvocationEvents
from workbench.model.results import Execution
from workbench.report.differences import DifferenceKind
from workbench.report.turns import compare_turn, responses_of
from workbench.store.documents import DocumentFormat, EvalSetDocument, Place


def accept(document: EvalSetDocument, index: int, accepted: Sequence[Hunk], actual: Execution) -> None:
    """Make what the agent did the expectation of the case at `index`, in these hunks: one step of undo.

    The hunks must be of the case as it is in the document and of `actual`. Names and arguments are written without ids,
    responses without thoughts; what tools gave back only where the case writes it down. Raises Refused where a hunk is
    no difference any more, and StoreError where the edit cannot be made; nothing is changed then.
    """
    known = {hunk.key for hunk in hunks(document.case(index), actual)}
    if any(hunk.key not in known for hunk in accepted):
        raise Refused("the case has changed since: that difference is not there any more")
    turns: dict[int, list[Hunk]] = {}
    for hunk in accepted:
        if hunk.turn is not None:
            turns.setdefault(hunk.turn, []).append(hunk)
    with document.step("accept what the agent did"):
        for turn, of_turn in turns.items():
            _accept_in_turn(document, index, of_turn, actual.turns[turn].invocation)
        for hunk in accepted:
            if hunk.turn is None:
                _accept_state(document, index, hunk, actual)


def _accept_in_turn(document: EvalSetDocument, index: int, accepted: Sequence[Hunk], actual: Invocation) -> None:
    case, turn = document.case(index), accepted[0].turn
    assert turn is not None
    conversation = case.conversation or []
    expected = conversation[turn]
    place: dict[DocumentFormat, Place] = {
        DocumentFormat.CURRENT: ("conversation", turn),
        DocumentFormat.LEGACY_EVALS: ("data", turn),
        DocumentFormat.LEGACY_TURNS: (turn,),
    }
    edit = TurnEdit(
        document,
        index,
        place[document.format],
        expected,
        actual,
        compare_turn(expected, actual),
        [hunk.difference for hunk in accepted],
        has_tool_responses=any(responses_of(other) for other in conversation),
    )
    if document.format is not DocumentFormat.CURRENT:
        accept_in_lists(edit, LEGACY)
    elif _holds_events(expected, case):
        accept_in_events(edit)
    else:
        accept_in_lists(edit, TOOL_USES)
    for found in edit.of_kind(DifferenceKind.RESPONSE_CHANGED):
        _accept_response(edit, found.actual)


def _holds_events(turn: Invocation, case: EvalCase) -> bool:
    """Whether a turn is in the form of events; one that says nothing takes the form of the others in its case."""
    forms = [turn.intermediate_data, *(other.intermediate_data for other in case.conversation or ())]
    said = next((form for form in forms if form is not None and form != IntermediateData()), None)
    return isinstance(said, InvocationEvents)


def _accept_response(edit: TurnEdit, text: str | None) -> None:
    """The final response: its text; where the agent gave none, none is expected."""
    if edit.document.format is not DocumentFormat.CURRENT:
        edit.write(("reference",), text or "")
    elif text is None:
        edit.document.remove_value((*edit.place, "final_response"), case=edit.case)
    else:
        edit.write(("final_response", "parts"), parts_with_text(edit.raw("final_response", "parts"), text))


def _accept_state(document: EvalSetDocument, index: int, hunk: Hunk, actual: Execution) -> None:
    """One value of the final state; where the session ended without it, it is not expected."""
    path = hunk.difference.path
    given: Any = actual.final_state
    for step in path:
        if isinstance(given, dict) and step not in given:
            document.remove_value(("final_session_state", *path), case=index)
            return
        given = given[step]
    document.set_value(("final_session_state", *path), given, case=index)
