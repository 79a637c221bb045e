"""What can be accepted of a result, and why it cannot be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from workbench.model.evalset import EvalCase, Invocation
from workbench.model.results import CaseResult, CaseStatus, Execution, TurnResult
from workbench.model.text import counted
from workbench.report.differences import Difference, DifferenceKind, Path, state_differences, tell_calls
from workbench.report.turns import TurnComparison, compare_turn

HunkKey = tuple[int | None, DifferenceKind, int | None, int | None, Path]


_OF_CALLS = frozenset(
    {
        DifferenceKind.CALL_MISSING,
        DifferenceKind.CALL_EXTRA,
        DifferenceKind.CALL_MOVED,
        DifferenceKind.ARGUMENT_MISSING,
        DifferenceKind.ARGUMENT_EXTRA,
        DifferenceKind.ARGUMENT_CHANGED,
        DifferenceKind.TOOL_RESPONSE_CHANGED,
    }
)


class Refused(Exception):
    """What the agent did cannot become the expectation; the message is a sentence that says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """One difference that can be accepted by itself. `turn` counts from 0; None for the final session state."""

    turn: int | None
    difference: Difference

    @property
    def key(self) -> HunkKey:
        """What tells the hunk from the others of its case."""
        found = self.difference
        return (self.turn, found.kind, found.expected_call, found.actual_call, found.path)


def hunks(case: EvalCase, execution: Execution) -> tuple[Hunk, ...]:
    """Every difference between a case and what the agent did, in the order in which it is read.

    Turns that only one side has are none. Nor is a final state that the agent did not report.
    """
    found = [
        Hunk(turn=number, difference=difference)
        for number, comparison in enumerate(turn_comparisons(case, execution))
        for difference in comparison.differences
    ]
    return (*found, *state_hunks(case, execution))


def turn_comparisons(
    case: EvalCase, execution: Execution, *, is_row: bool = False, is_recorded: bool = False
) -> list[TurnComparison]:
    """The turns that both sides have, compared.

    The calls of a row only where both tell of some, and its response where one is recorded or an agent was asked.
    """
    turns: Sequence[Invocation] = case.conversation or ()
    pairs = ((wanted, turn.invocation) for wanted, turn in zip(turns, execution.turns, strict=False))
    return [
        compare_turn(
            wanted,
            actual,
            compares_calls=not is_row or tell_calls(wanted, actual),
            compares_response=not is_recorded or actual.final_response is not None,
        )
        for wanted, actual in pairs
    ]


def state_hunks(case: EvalCase, execution: Execution) -> list[Hunk]:
    """The values of the expected final state that are not there."""
    if not case.final_session_state or execution.final_state is None:
        return []
    found = state_differences(case.final_session_state, execution.final_state)
    return [Hunk(turn=None, difference=difference) for difference in found]


def refusal(case: EvalCase, result: CaseResult) -> str | None:
    """Why nothing of this result can be accepted; None where hunks can be."""
    if result.status is CaseStatus.ERROR:
        return "the case ended in an error: what the agent did until then is no expectation"
    if case.conversation is None:
        return "a conversation with a simulated user has no expected turns"
    if not result.execution.turns:
        return "what the agent did is no longer stored; run the case again"
    for number, (wanted, turn) in enumerate(zip(case.conversation, result.execution.turns, strict=False), start=1):
        if wanted.user_content.text() != turn.invocation.user_content.text():
            return f"turn {number} of the case asks something else than the agent was asked; run the case again"
    return None


def refusal_of_hunks(execution: Execution, wanted: Iterable[Hunk]) -> str | None:
    """Why these hunks cannot all be accepted: nobody knows what was called; None where they can be."""
    of_calls = {hunk.turn for hunk in wanted if hunk.turn is not None and hunk.difference.kind in _OF_CALLS}
    return next(filter(None, (why_unknown(execution.turns[number], number) for number in sorted(of_calls))), None)


def why_unknown(turn: TurnResult, number: int) -> str | None:
    """Why the calls of a turn, which is counted from 0, cannot be expected from now on; None where they are known."""
    if turn.calls_unknown is not None:
        return f"which tools turn {number + 1} called is not known: {turn.calls_unknown}"
    if turn.arguments_unknown is not None:
        return f"with which arguments turn {number + 1} called its tools is not known: {turn.arguments_unknown}"
    return None


def refusal_of_whole(case: EvalCase, result: CaseResult) -> str | None:
    """Why whole turns, or the whole case, cannot be accepted; None where they can be."""
    wanted, given = len(case.conversation or ()), len(result.execution.turns)
    return refusal(case, result) or (
        None if wanted == given else f"the case has {counted(wanted, 'turn')} and the agent was told {given}"
    )
