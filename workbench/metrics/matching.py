"""Matching the calls of two trajectories: pure functions on lists.

Where calls are compared by equality, taking the first that fits is always right. Where a rule decides (see
`arguments`), a call may fit several others that do not fit each other; then the largest assignment is looked for.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

T = TypeVar("T")


def is_subsequence(wanted: Sequence[T], given: Sequence[T]) -> bool:
    """Whether all of `wanted` occurs in `given` in this order, with anything between. Nothing always does."""
    rest = iter(given)
    return all(item in rest for item in wanted)


def is_subsequence_by(wanted: Sequence[T], given: Sequence[T], fits: Callable[[T, T], bool]) -> bool:
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
                _shift(wanted, start, taker, owner)
                return True
            queue.append(owner[wanted])
    return False


def _shift(free: int, start: int, taker: dict[int, int], owner: dict[int, int]) -> None:
    """Walk the path back from a free item to `start`, each taking over what the next one leaves."""
    held = {candidate: item for item, candidate in owner.items()}
    item = free
    while True:
        candidate = taker[item]
        owner[item] = candidate
        if candidate == start:
            return
        item = held[candidate]
