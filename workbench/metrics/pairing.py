"""Ways of comparing the two trajectories of a turn, one for each notion of what makes two calls equal."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from workbench.metrics.arguments import ArgumentRules, Form, RuleError, read_argument_rules
from workbench.metrics.canonical import canonical
from workbench.metrics.declarations import declared_arguments
from workbench.metrics.definition import TurnJudge
from workbench.metrics.matching import (
    count_assigned,
    count_equal,
    count_shared,
    is_subsequence,
    is_subsequence_by,
)
from workbench.metrics.options import Options
from workbench.metrics.subject import CallsUnknown, CaseView, Turn
from workbench.model.results import Score
from workbench.model.trajectory import ToolCall, Trajectory

NAMES_ALONE_HINT = "Expected calls without arguments stand for calls with none: ignore_args compares names alone."
"""What to say where a reference of names alone did not match calls that had arguments."""


def has_names_alone(calls: Trajectory) -> bool:
    """Whether calls are written without arguments, all of them."""
    return bool(calls) and all(call.args is None for call in calls)


def nothing_to_compare(turn: Turn) -> Score | None:
    """Why the trajectories of a turn cannot be held against each other; None where both are there.

    An agent that never tells of calls says nothing of a turn in which none was expected; where some were, nobody knows
    whether they were made. Raises CallsUnknown then.
    """
    if turn.reference is None:
        return Score.undefined("the row has no reference_trajectory")
    if turn.calls_unknown is not None and turn.is_untold and not turn.reference:
        return Score.undefined(turn.calls_unknown)
    if turn.predicted is None:
        return Score.undefined("the row has no predicted_trajectory")
    return None


def refuse_unknown_arguments(turn: Turn, *, names_do_better: Callable[[], bool]) -> None:
    """Raise CallsUnknown where calls fell short, and it may be for arguments that nobody knows.

    By names alone calls match at least as well as with any arguments: where that is no better, the verdict stands.
    """
    if turn.arguments_unknown is not None and names_do_better():
        raise CallsUnknown(turn.arguments_unknown)


# Rules are tried for every pair of calls: at this many for about three seconds, in which no other case is judged.
_PAIRS_AT_MOST = 1_000_000


class Membership(NamedTuple):
    """How many predicted calls occur in the reference and the other way round, each call looked at by itself."""

    predicted: int
    reference: int


class Pairing(Protocol):
    """How the calls of a turn are compared. Both trajectories of the turn are there."""

    def exact(self, turn: Turn) -> bool:
        """Whether the same calls were made in the same order."""

    def in_order(self, turn: Turn) -> bool:
        """Whether all reference calls were made in their order, with others anywhere."""

    def matched(self, turn: Turn) -> int:
        """How many calls of both sides can be matched one for one."""


class MemberPairing(Pairing, Protocol):
    """A pairing that can look at each call by itself too."""

    def membership(self, turn: Turn) -> Membership:
        """How many calls of either side the other one has at all."""


class PythonEquality:
    """Calls compared by name and Python's `==` on the arguments, absent ones unlike empty ones: as ADK does."""

    def exact(self, turn: Turn) -> bool:
        """See Pairing."""
        return self._calls(turn.predicted) == self._calls(turn.reference)

    def in_order(self, turn: Turn) -> bool:
        """See Pairing."""
        return is_subsequence(self._calls(turn.reference), self._calls(turn.predicted))

    def matched(self, turn: Turn) -> int:
        """See Pairing."""
        return count_equal(self._calls(turn.predicted), self._calls(turn.reference))

    def _calls(self, calls: Sequence[ToolCall] | None) -> Sequence[tuple[str, Any]]:
        return calls or ()


class EmptyForAbsent(PythonEquality):
    """Calls compared as agentevals does: as ADK, but for absent arguments, which are taken as empty."""

    def _calls(self, calls: Sequence[ToolCall] | None) -> Sequence[tuple[str, Any]]:
        return [(call.name, call.args or {}) for call in calls or ()]


class CanonicalEquality:
    """Calls compared by name and canonical arguments."""

    def exact(self, turn: Turn) -> bool:
        """See Pairing."""
        predicted, reference = self._keys(turn)
        return predicted == reference

    def in_order(self, turn: Turn) -> bool:
        """See Pairing."""
        predicted, reference = self._keys(turn)
        return is_subsequence(reference, predicted)

    def matched(self, turn: Turn) -> int:
        """See Pairing."""
        return turn.shared_calls

    def membership(self, turn: Turn) -> Membership:
        """See MemberPairing."""
        predicted, reference = self._keys(turn)
        in_predicted, in_reference = set(predicted), set(reference)
        return Membership(sum(key in in_reference for key in predicted), sum(key in in_predicted for key in reference))

    def _keys(self, turn: Turn) -> tuple[Sequence[Hashable], Sequence[Hashable]]:
        return turn.predicted_keys, turn.reference_keys


class NameEquality(CanonicalEquality):
    """Calls compared by name alone."""

    def matched(self, turn: Turn) -> int:
        """See Pairing."""
        return count_shared(*self._keys(turn))

    def _keys(self, turn: Turn) -> tuple[Sequence[Hashable], Sequence[Hashable]]:
        return [call.name for call in turn.predicted or ()], [call.name for call in turn.reference or ()]


@dataclass(frozen=True)
class RuledArguments:
    """Calls compared by name and by rules for their arguments. All methods raise RuleError."""

    rules: ArgumentRules

    def exact(self, turn: Turn) -> bool:
        """See Pairing."""
        predicted, reference = turn.predicted or (), turn.reference or ()
        return len(predicted) == len(reference) and all(map(self.rules.within_time_limit(), predicted, reference))

    def in_order(self, turn: Turn) -> bool:
        """See Pairing."""
        return is_subsequence_by(turn.reference or (), turn.predicted or (), self.rules.within_time_limit())

    def matched(self, turn: Turn) -> int:
        """See Pairing. One call may fit several, so the largest assignment is counted."""
        predicted, reference = turn.predicted or (), turn.reference or ()
        _refuse_too_many(predicted, reference)
        return count_assigned(predicted, reference, self.rules.within_time_limit())

    def membership(self, turn: Turn) -> Membership:
        """See MemberPairing."""
        predicted, reference = turn.predicted or (), turn.reference or ()
        _refuse_too_many(predicted, reference)
        fits = self.rules.within_time_limit()
        return Membership(
            sum(any(fits(call, other) for other in reference) for call in predicted),
            sum(any(fits(other, call) for other in predicted) for call in reference),
        )


def read_rules(options: Options, *, ignore_args: bool, form: Form = canonical) -> ArgumentRules | None:
    """Read the option `args_match`; None if there is none. It excludes `ignore_args`. Values are compared in `form`."""
    rules = read_argument_rules(options, form)
    if rules is not None and ignore_args:
        options.refuse("args_match", found="both args_match and ignore_args", expected="one of them")
    return rules


def judge_of_calls(
    name: str, score: Callable[[Turn], Score], rules: ArgumentRules | None, *, details: Mapping[str, Any]
) -> TurnJudge:
    """A judge of turns that compares calls, by `rules` if there are any: these are checked against each case."""
    if rules is None:
        return TurnJudge(name=name, score=score, details=details)

    def check(view: CaseView) -> str | None:
        calls = [call for turn in view.turns for call in (*(turn.predicted or ()), *(turn.reference or ()))]
        return "; ".join(rules.find_unmatched(calls, declared_arguments(view.turns))) or None

    return TurnJudge(name=name, score=score, details=details, check=check, may_take_long=rules.has_patterns)


def _refuse_too_many(predicted: Trajectory, reference: Trajectory) -> None:
    if len(predicted) * len(reference) > _PAIRS_AT_MOST:
        raise RuleError(
            f"args_match cannot compare {len(predicted):,} calls with {len(reference):,} in any order, expected a "
            f"product of at most {_PAIRS_AT_MOST:,}"
        )
