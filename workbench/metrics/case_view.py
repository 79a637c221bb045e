"""`CaseView`: a case for metrics, with paired turns and tool calls in canonical form."""

from __future__ import annotations

import marshal
import math
import operator
from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from copy import copy
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
    """Return the canonical form of a JSON value. Objects, lists and booleans become tagged tuples."""
    if isinstance(value, dict):
        # Keys are unique, so sorting never compares values. Most values are of simple types, which need no call.
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
    """True if two JSON values are equal in canonical form."""
    return canonical(left) == canonical(right)


def call_key(call: ToolCall) -> tuple[str, Hashable]:
    """Return the canonical form of a tool call: its name and its arguments."""
    return (call.name, _canonical_arguments(call.args) if call.args else _NO_ARGUMENTS)


_canonical_cache: dict[bytes, Hashable] = {}
_CACHED_AT_MOST = 4096
_SHORT = 1_000  # bytes
_STABLE = 2  # this version of marshal has no references, so equal values give equal bytes


def _canonical_arguments(args: Any) -> Hashable:
    """Return `canonical` of the arguments, with a cache for short ones.

    Most calls have exactly the expected arguments, and the cache finds that in half the time.
    """
    try:
        encoded = marshal.dumps(args, _STABLE)
    except ValueError:  # nested deeply, or of types that are not JSON's
        return canonical(args)
    if len(encoded) > _SHORT:
        return canonical(args)
    form = _canonical_cache.get(encoded)
    if form is None:
        if len(_canonical_cache) >= _CACHED_AT_MOST:
            _canonical_cache.clear()
        form = _canonical_cache[encoded] = canonical(args)
    return form


# Matching the calls of two trajectories: pure functions on lists.

T = TypeVar("T")


def is_subsequence(expected: Sequence[T], actual: Sequence[T]) -> bool:
    """True if all of `expected` occurs in `actual` in this order, with anything between; also if it is empty."""
    remaining = iter(actual)
    return all(item in remaining for item in expected)


def is_fitting_subsequence(expected: Sequence[T], actual: Sequence[T], fits: Callable[[T, T], bool]) -> bool:
    """Do as `is_subsequence`, but compare by `fits(given, wanted)`.

    Taking the first item that fits is right for any rule, transitive or not: it leaves most items for the others.
    """
    remaining = iter(actual)
    return all(any(fits(candidate, item) for candidate in remaining) for item in expected)


def count_equal(left: Sequence[object], right: Sequence[object]) -> int:
    """Count the items of `left` that have an equal item in `right`. Each item is used once. Items may be unhashable."""
    rest = list(right)
    count = 0
    for item in left:
        if item in rest:
            rest.remove(item)
            count += 1
    return count


def count_shared(left: Sequence[Hashable], right: Sequence[Hashable]) -> int:
    """Do as `count_equal` for hashable items, in linear time."""
    if len(left) * len(right) <= 64:  # below this, lists are faster than counting
        return count_equal(left, right)
    rest = Counter(right)
    return sum(min(count, rest[item]) for item, count in Counter(left).items())


def count_assigned(left: Sequence[T], right: Sequence[T], fits: Callable[[T, T], bool]) -> int:
    """Return the size of the largest assignment of items of `left` to fitting items of `right`, each used at most once.

    Augmenting paths (Kuhn, 1955; breadth first): time is O(n · m) for the rule, and O(n · edges) for the search.
    """
    partners = [[index for index, item in enumerate(right) if fits(candidate, item)] for candidate in left]
    owner: dict[int, int] = {}  # index in right -> index in left
    return sum(_augment(start, partners, owner) for start in range(len(left)))


def _augment(start: int, partners: Sequence[Sequence[int]], owner: dict[int, int]) -> bool:
    """Give `start` a partner, and move others if necessary. Return False if that is impossible."""
    taker: dict[int, int] = {}  # index in right -> the index in left that would take it
    queue = deque([start])
    while queue:
        candidate = queue.popleft()
        for item in partners[candidate]:
            if item in taker:
                continue
            taker[item] = candidate
            if item not in owner:
                _reassign(item, start, taker, owner)
                return True
            queue.append(owner[item])
    return False


def _reassign(free: int, start: int, taker: dict[int, int], owner: dict[int, int]) -> None:
    """Walk the path back from a free item to `start`: each candidate takes the item that the previous one left."""
    item_by_candidate = {candidate: item for item, candidate in owner.items()}
    item = free
    while True:
        candidate = taker[item]
        owner[item] = candidate
        if candidate == start:
            return
        item = item_by_candidate[candidate]


# The judged case, turn by turn. Values that several metrics need are cached.


@dataclass(frozen=True, kw_only=True)
class JudgedCase:
    """The data to judge.

    `expected` has the expected turns in order; it is empty if the case has no reference. `columns` is the dataset row
    of the case, if there is one; `is_row` marks a row whose columns are not available. `baselines` are the executions
    of earlier runs, the newest first, by the name of the judge metric that compares with them. `recorded`: no agent
    ran, so only the columns have its time and failures.
    """

    case: EvalCase | None
    expected: Sequence[Invocation]
    execution: Execution
    columns: Mapping[str, Any] = field(default_factory=dict)
    baselines: Mapping[str, Sequence[Execution]] = field(default_factory=dict)
    recorded: bool = False
    is_row: bool = False


class CallsUnknown(Exception):
    """The tool calls of the agent are unknown: metrics that need them have no score and end in ERROR."""


class Turn:
    """One turn: the expected and the actual side, at least one of `expected` and `result`.

    `predicted` and `reference` are the tool calls of the two sides. None means that a dataset row, or the agent that
    answered it, has no trajectory; an empty list means no calls. `is_row`: the turn is a dataset row, where a missing
    value was not recorded. `is_recorded`: no agent ran, so a missing response is unknown.
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
        """Why the tool calls are unknown; None if they are known or were not recorded."""
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
        turn = cls(expected=None, result=None, is_row=False)
        turn._predicted, turn.reference = predicted, reference
        return turn

    def without_tools(self, names: Collection[str]) -> Turn:
        """Return the turn without the calls of these tools on both sides."""
        other = copy(self)
        for side in ("_predicted", "reference"):
            calls = getattr(self, side)
            setattr(other, side, None if calls is None else [call for call in calls if call.name not in names])
        other._predicted_keys = other._reference_keys = other._shared = None
        return other

    @property
    def actual(self) -> Invocation | None:
        """The actual invocation; None if the turn was not finished."""
        return None if self.result is None else self.result.invocation

    @property
    def expects_text(self) -> bool:
        """True for rows, too: their metrics know which columns they lack."""
        response = None if self.expected is None else self.expected.final_response
        return self.is_row or (response is not None and bool(response.text(thoughts=True)))

    @property
    def predicted(self) -> Trajectory | None:
        """The predicted calls. Raises CallsUnknown."""
        if self.calls_unknown is not None:
            raise CallsUnknown(self.calls_unknown)
        return self._predicted

    @property
    def has_no_call_report(self) -> bool:
        """True if the agent never reports calls, so that there is no trajectory that was lost."""
        return self.result is not None and self.result.has_no_call_report

    @property
    def arguments_unknown(self) -> str | None:
        """Why only the names of the calls are known; None if their arguments are known, too."""
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
        """The number of calls that are equal in canonical form, each used once."""
        if self._shared is None:
            self._shared = count_shared(self.predicted_keys, self.reference_keys)
        return self._shared


def _mask_secrets(subject: JudgedCase) -> JudgedCase:
    """Mask known secrets on the expected side. They are masked on the actual side, so the sides would differ."""
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
        """True if all expected turns were finished."""
        self.is_expected = len(expected) >= len(results)
        """True if all finished turns were expected."""

    @property
    def expects_something(self) -> bool:
        """True if the case expects a text, a call or a state."""
        case = self.subject.case
        has_state = case is not None and case.final_session_state is not None
        return has_state or any(turn.expects_text or turn.reference for turn in self.turns)

    def is_recorded(self, column: str, turn: Turn) -> bool:
        """True unless a recorded row lacks its `response` or `predicted_trajectory`.

        The empty answer of an agent that ran is recorded.
        """
        if turn.actual is None or not turn.is_recorded:
            return True
        values = {"response": turn.actual.final_response, "predicted_trajectory": turn.actual.intermediate_data}
        return values[column] is not None
