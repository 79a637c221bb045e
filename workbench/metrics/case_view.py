"""A case as metrics see it: its turns, with tool calls in canonical form."""

from __future__ import annotations

import marshal
import math
import operator
from collections import Counter, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, TypeVar

from workbench.model.evalset import EvalCase, Invocation, mask_model_secrets
from workbench.model.results import Execution, TurnResult
from workbench.model.text import has_known_secrets, mask_data
from workbench.model.trace import ToolCall, Trajectory, get_trajectory

# Canonical form of JSON values: equal values have equal, hashable forms.

_NO_ARGUMENTS = ("{",)
_UNCHANGED_TYPES = frozenset({str, int, type(None)})


def canonical(value: Any) -> Hashable:
    """The canonical form of a JSON value. Objects, lists and booleans become tagged tuples, which no other value is."""
    if isinstance(value, dict):
        # No two items have the same key, so that values, of which those of different kinds have no order, are never
        # compared. What most values are takes no call each.
        items = sorted(value.items())
        if _UNCHANGED_TYPES.issuperset(map(type, value.values())):
            return ("{", *items)
        return ("{", *[(key, item if type(item) in _UNCHANGED_TYPES else canonical(item)) for key, item in items])
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return ("b", value)
    if isinstance(value, list | tuple):
        return ("[", *map(canonical, value))
    if isinstance(value, float) and math.isnan(value):
        return ("nan",)
    return value  # type: ignore[no-any-return]


def is_same(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal in canonical form."""
    return canonical(left) == canonical(right)


def call_key(call: ToolCall) -> tuple[str, Hashable]:
    """The canonical form of a tool call: its name and its arguments."""
    return (call.name, _canonical_arguments(call.args) if call.args else _NO_ARGUMENTS)


_known: dict[bytes, Hashable] = {}
_KNOWN_AT_MOST = 4096
_SHORT = 1_000  # bytes
_STABLE = 2  # the version of the format without references, which depend on more than the values


def _canonical_arguments(args: Any) -> Hashable:
    """As `canonical`, which is asked once for arguments that come again and again.

    Most calls that are made were expected with the same arguments, and to tell that takes half as long.
    """
    try:
        written = marshal.dumps(args, _STABLE)
    except ValueError:  # nested deeply, or of types that are not JSON's
        return canonical(args)
    if len(written) > _SHORT:
        return canonical(args)
    known = _known.get(written)
    if known is None:
        if len(_known) >= _KNOWN_AT_MOST:
            _known.clear()
        known = _known[written] = canonical(args)
    return known


# Matching the calls of two trajectories: pure functions on lists.

T = TypeVar("T")


def is_subsequence(wanted: Sequence[T], given: Sequence[T]) -> bool:
    """Whether all of `wanted` occurs in `given` in this order, with anything between. Nothing always does."""
    rest = iter(given)
    return all(item in rest for item in wanted)


def is_fitting_subsequence(wanted: Sequence[T], given: Sequence[T], fits: Callable[[T, T], bool]) -> bool:
    """As `is_subsequence`, with `fits(given, wanted)` deciding.

    Taking the first that fits is right for any rule, transitive or not: it leaves the longest rest to what follows.
    """
    rest = iter(given)
    return all(any(fits(candidate, item) for candidate in rest) for item in wanted)


def count_equal(left: Sequence[object], right: Sequence[object]) -> int:
    """How many items of `left` find an equal one in `right`, each of which is used once. Items need not be hashable."""
    rest = list(right)
    count = 0
    for item in left:
        if item in rest:
            rest.remove(item)
            count += 1
    return count


def count_shared(left: Sequence[Hashable], right: Sequence[Hashable]) -> int:
    """As `count_equal`, for hashable items: in linear time."""
    if len(left) * len(right) <= 64:  # below this, lists are faster than counting
        return count_equal(left, right)
    rest = Counter(right)
    return sum(min(count, rest[item]) for item, count in Counter(left).items())


def count_assigned(left: Sequence[T], right: Sequence[T], fits: Callable[[T, T], bool]) -> int:
    """The size of the largest assignment of items of `left` to items of `right` that fit, each used at most once.

    Augmenting paths (Kuhn, 1955; breadth first): time is O(n · m) for the rule, and O(n · edges) for the search.
    """
    partners = [[index for index, item in enumerate(right) if fits(candidate, item)] for candidate in left]
    owner: dict[int, int] = {}  # index in right -> index in left
    return sum(_augment(start, partners, owner) for start in range(len(left)))


def _augment(start: int, partners: Sequence[Sequence[int]], owner: dict[int, int]) -> bool:
    """Give `start` a partner, moving others to different ones where that helps. False where nothing helps."""
    taker: dict[int, int] = {}  # index in right -> the index in left that would take it
    queue = deque([start])
    while queue:
        candidate = queue.popleft()
        for wanted in partners[candidate]:
            if wanted in taker:
                continue
            taker[wanted] = candidate
            if wanted not in owner:
                _reassign(wanted, start, taker, owner)
                return True
            queue.append(owner[wanted])
    return False


def _reassign(free: int, start: int, taker: dict[int, int], owner: dict[int, int]) -> None:
    """Walk the path back from a free item to `start`, each taking over what the next one leaves."""
    held = {candidate: item for item, candidate in owner.items()}
    item = free
    while True:
        candidate = taker[item]
        owner[item] = candidate
        if candidate == start:
            return
        item = held[candidate]


# What is judged: a case as its metrics see it, turn by turn, with what several of them need worked out once.


@dataclass(frozen=True, kw_only=True)
class JudgedCase:
    """What is to be judged.

    `expected` holds the turns that were expected, in order; it is empty where the case has no reference. `columns` is
    the row of a dataset, if the case came from one; `is_row` says so where the columns are not at hand.
    `baselines` are what agents did in earlier runs of the case, the newest first, by the judge metric that compares
    with it. `recorded` is True where no agent ran, so that nothing is known about its time and failures except what the
    columns say.
    """

    case: EvalCase | None
    expected: Sequence[Invocation]
    execution: Execution
    columns: Mapping[str, Any] = field(default_factory=dict)
    baselines: Mapping[str, Sequence[Execution]] = field(default_factory=dict)
    recorded: bool = False
    is_row: bool = False


class CallsUnknown(Exception):
    """Nobody knows which tools the agent called: what needs to know it has no score, and that is an error."""


class Turn:
    """One turn: what was expected beside what the agent did. At least one of `expected` and `result` is there.

    `predicted` and `reference` are the tool calls of the two sides; None where a dataset row, or the agent that
    answered it, tells no trajectory, which is not the same as an empty one. `is_row`: it comes from a dataset, where
    what is absent was not recorded. `is_recorded`: no agent was asked, so that the row does not tell a response that is
    absent.
    """

    __slots__ = (
        "_predicted",
        "_predicted_keys",
        "_reference_keys",
        "_shared",
        "calls_unknown",
        "expected",
        "is_recorded",
        "is_row",
        "reference",
        "result",
    )

    def __init__(
        self, *, expected: Invocation | None, result: TurnResult | None, is_row: bool, is_recorded: bool = False
    ) -> None:
        self.expected = expected
        self.result = result
        self.calls_unknown = None if result is None else result.calls_unknown
        """Why nobody knows what the agent called; None where that is known, or was not recorded."""
        self.is_row = is_row
        self.is_recorded = is_row and is_recorded
        self._predicted: Trajectory | None = None if result is None else get_trajectory(result.invocation)
        self.reference: Trajectory | None = None if expected is None else get_trajectory(expected)
        if is_row:
            if result is not None and result.invocation.intermediate_data is None:
                self._predicted = None
            if expected is not None and expected.intermediate_data is None:
                self.reference = None
        self._predicted_keys: list[Any] | None = None
        self._reference_keys: list[Any] | None = None
        self._shared: int | None = None

    @classmethod
    def from_calls(cls, *, predicted: Trajectory, reference: Trajectory) -> Turn:
        """A turn of which nothing but its calls is known."""
        turn = cls(expected=None, result=None, is_row=False)
        turn._predicted, turn.reference = predicted, reference
        return turn

    @property
    def actual(self) -> Invocation | None:
        """What the agent did; None where the turn was not finished."""
        return None if self.result is None else self.result.invocation

    @property
    def predicted(self) -> Trajectory | None:
        """The predicted calls. Raises CallsUnknown."""
        if self.calls_unknown is not None:
            raise CallsUnknown(self.calls_unknown)
        return self._predicted

    @property
    def has_no_call_report(self) -> bool:
        """Whether nothing was to tell of calls: there is no trajectory, and none that was lost."""
        return self.result is not None and self.result.has_no_call_report

    @property
    def arguments_unknown(self) -> str | None:
        """Why nobody knows the arguments of the calls, whose names are known; None where that is not so."""
        return None if self.result is None else self.result.arguments_unknown

    @property
    def predicted_keys(self) -> list[Any]:
        """The predicted calls in canonical, hashable form."""
        if self._predicted_keys is None:
            self._predicted_keys = [call_key(call) for call in self.predicted or ()]
        return self._predicted_keys

    @property
    def reference_keys(self) -> list[Any]:
        """The reference calls in canonical, hashable form."""
        if self._reference_keys is None:
            self._reference_keys = [call_key(call) for call in self.reference or ()]
        return self._reference_keys

    @property
    def shared_calls(self) -> int:
        """How many calls of both sides are equal in canonical form, one for one."""
        if self._shared is None:
            self._shared = count_shared(self.predicted_keys, self.reference_keys)
        return self._shared


def _mask_secrets(subject: JudgedCase) -> JudgedCase:
    """Mask known secrets in what was expected, as they are masked in what an agent did: both would differ otherwise."""
    if subject.recorded or not has_known_secrets():
        return subject
    case = None if subject.case is None else mask_model_secrets(subject.case)
    expected = [mask_model_secrets(each) for each in subject.expected]
    if case is subject.case and all(map(operator.is_, expected, subject.expected)):
        return subject
    turns = [
        turn.model_copy(update={"invocation": mask_model_secrets(turn.invocation)}) for turn in subject.execution.turns
    ]
    update = {"turns": tuple(turns), "final_state": mask_data(subject.execution.final_state)}
    execution = subject.execution.model_copy(update=update)
    return replace(subject, case=case, expected=expected, columns=mask_data(dict(subject.columns)), execution=execution)


class CaseView:
    """A case with its turns paired: the first expected with the first actual, and so on."""

    __slots__ = ("is_expected", "is_finished", "subject", "turns")

    def __init__(self, subject: JudgedCase) -> None:
        subject = _mask_secrets(subject)
        expected, results = subject.expected, subject.execution.turns
        is_row = subject.is_row or bool(subject.columns)
        self.subject = subject
        self.turns = [
            Turn(expected=of_case, result=of_agent, is_row=is_row, is_recorded=subject.recorded)
            for of_case, of_agent in zip_longest(expected, results)
        ]
        self.is_finished = len(results) >= len(expected)
        """Whether all turns that were expected have been finished."""
        self.is_expected = len(expected) >= len(results)
        """Whether all turns that were finished had been expected."""

    def is_recorded(self, column: str, turn: Turn) -> bool:
        """Whether a turn can tell its `response` or `predicted_trajectory`: only of a row may they be missing.

        An agent that was asked and says nothing has told that.
        """
        if turn.actual is None or not turn.is_recorded:
            return True
        told = {"response": turn.actual.final_response, "predicted_trajectory": turn.actual.intermediate_data}
        return told[column] is not None
