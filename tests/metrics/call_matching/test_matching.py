"""Matching, against brute force on small inputs."""

from __future__ import annotations

import itertools
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from workbench.metrics.case_view import (
    count_assigned,
    count_equal,
    count_shared,
    is_fitting_subsequence,
    is_subsequence,
)

items = st.lists(st.integers(0, 4), max_size=6)
relations = st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4)))


def best_assignment(left: list[int], right: list[int], relation: set[tuple[int, int]]) -> int:
    if len(left) > len(right):
        return best_assignment(right, left, {(second, first) for first, second in relation})
    return max(
        sum(pair in relation for pair in zip(left, order, strict=True))
        for order in itertools.permutations(right, len(left))
    )


@given(items, items, relations)
def test_the_largest_assignment_is_found(left: list[int], right: list[int], relation: set[tuple[int, int]]) -> None:
    found = count_assigned(left, right, lambda first, second: (first, second) in relation)

    assert found == best_assignment(left, right, relation)


@given(items, items, relations)
def test_an_ordered_match_is_found_where_there_is_one(
    wanted: list[int], available: list[int], relation: set[tuple[int, int]]
) -> None:
    """Rules need not be transitive: every choice of places is tried."""
    possible = any(
        all((item, want) in relation for item, want in zip(chosen, wanted, strict=True))
        for chosen in itertools.combinations(available, len(wanted))
    )

    assert is_fitting_subsequence(wanted, available, lambda item, want: (item, want) in relation) == possible


@given(items, items)
def test_equality_needs_no_search(left: list[int], right: list[int]) -> None:
    shared = (Counter(left) & Counter(right)).total()

    assert count_equal(left, right) == count_shared(left, right) == shared
    assert count_assigned(left, right, lambda first, second: first == second) == shared
    assert is_subsequence(left, right) == is_fitting_subsequence(left, right, lambda first, second: first == second)


def test_long_trajectories_are_counted_one_for_one() -> None:
    left, right = [index % 7 for index in range(5000)], [index % 5 for index in range(5000)]

    assert count_shared(left, right) == (Counter(left) & Counter(right)).total()


def test_a_long_chain_of_exchanges_is_followed() -> None:
    """Each item fits its own place and the one before, and all arrive in the order that needs every exchange."""
    size = 2000
    left = list(range(size))

    assert count_assigned([*left[1:], 0], left, lambda item, place: place in (item, item - 1)) == size
