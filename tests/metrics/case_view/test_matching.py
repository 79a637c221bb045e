"""Matching, compared with brute force on small inputs."""

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


def find_best_assignment(left: list[int], right: list[int], relation: set[tuple[int, int]]) -> int:
    if len(left) > len(right):
        return find_best_assignment(right, left, {(second, first) for first, second in relation})
    return max(
        sum(pair in relation for pair in zip(left, order, strict=True))
        for order in itertools.permutations(right, len(left))
    )


@given(items, items, relations)
def test_the_largest_assignment_is_found(left: list[int], right: list[int], relation: set[tuple[int, int]]) -> None:
    count = count_assigned(left, right, lambda first, second: (first, second) in relation)

    assert count == find_best_assignment(left, right, relation)


@given(items, items, relations)
def test_an_ordered_match_is_found_if_one_exists(
    expected: list[int], available: list[int], relation: set[tuple[int, int]]
) -> None:
    """Rules may be intransitive, so every choice of positions is tried."""
    is_possible = any(
        all((item, want) in relation for item, want in zip(choice, expected, strict=True))
        for choice in itertools.combinations(available, len(expected))
    )

    assert is_fitting_subsequence(expected, available, lambda item, want: (item, want) in relation) == is_possible


@given(items, items)
def test_counting_equal_items_gives_the_best_assignment(left: list[int], right: list[int]) -> None:
    shared = (Counter(left) & Counter(right)).total()

    assert count_equal(left, right) == count_shared(left, right) == shared
    assert count_assigned(left, right, lambda first, second: first == second) == shared
    assert is_subsequence(left, right) == is_fitting_subsequence(left, right, lambda first, second: first == second)


def test_long_trajectories_are_counted_one_for_one() -> None:
    left, right = [index % 7 for index in range(5000)], [index % 5 for index in range(5000)]

    assert count_shared(left, right) == (Counter(left) & Counter(right)).total()


def test_an_assignment_that_needs_a_long_chain_of_swaps_is_found() -> None:
    """Each item fits its own position and the previous one. The order of the items forces every swap."""
    size = 2000
    left = list(range(size))

    assert count_assigned([*left[1:], 0], left, lambda item, place: place in (item, item - 1)) == size
