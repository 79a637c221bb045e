"""The search among commits, without repositories: which commit is looked at next, and how certain the answer is."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.engine.git_worktrees import choose_evenly, find_middles
from workbench.watch.commit_search import CommitSearch, Counts, share_samples

LINE_OF_64: Sequence[Sequence[int]] = [[number - 1] if number else [] for number in range(64)]


def play(search: CommitSearch, fails: Callable[[int], bool], *, repeats: int = 1) -> int:
    """Answer every question of a search, at most `repeats` about a commit; return their number."""
    counts: dict[int, Counts] = {}
    questions = 0
    while (commit := search.choose_next()) is not None:
        questions += 1
        sample = Counts(failed=1) if fails(commit) else Counts(passed=1)
        counts[commit] = counts.get(commit, Counts()).add(sample)
        search.set_samples(commit, counts[commit])
        if counts[commit].total == repeats:
            search.close(commit)
    return questions


@given(st.data())
def test_any_first_red_commit_of_any_graph_is_found(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 40))
    parents = [
        data.draw(st.lists(st.integers(0, number - 1), max_size=2, unique=True)) if number else []
        for number in range(size)
    ]
    heads = {*range(size - 1)}.difference(*parents[:-1])
    parents[-1] = sorted(heads)  # the last commit has all others as ancestors
    first = data.draw(st.integers(0, size - 1))
    descendants = {first}
    for number in range(first, size):
        if descendants.intersection(parents[number]):
            descendants.add(number)
    search = CommitSearch(parents)

    play(search, lambda commit: commit in descendants)

    assert search.suspects == [first]


@pytest.mark.parametrize("first", [0, 1, 31, 62, 63])
def test_64_commits_in_a_line_take_6_questions(first: int) -> None:
    search = CommitSearch(LINE_OF_64)

    assert play(search, lambda commit: commit >= first) == 6
    assert search.suspects == [first]
    assert search.posterior[first] == 1


def test_skipped_commits_between_leave_several_suspects() -> None:
    search = CommitSearch(LINE_OF_64)
    for commit in (30, 31, 32):
        search.close(commit)

    play(search, lambda commit: commit >= 32)

    assert search.suspects == [30, 31, 32, 33]
    assert sum(search.posterior) == pytest.approx(1)


def test_a_red_commit_that_was_mended_later_does_not_count() -> None:
    search = CommitSearch(LINE_OF_64)
    search.set_samples(10, Counts(failed=1))
    search.set_samples(20, Counts(passed=1))

    assert play(search, lambda commit: commit >= 40) <= 6
    assert search.suspects == [40]


RATES = [(0.0, 1.0), (0.0, 0.5), (0.1, 0.9)]


@pytest.mark.parametrize(("before", "after"), RATES)
def test_stated_probabilities_are_kept(before: float, after: float) -> None:
    right = reached = 0
    for seed in range(20):
        chance = random.Random(seed)
        first = chance.randrange(16)
        search = CommitSearch(LINE_OF_64[:16], is_sampling=True)
        search.set_good_samples(Counts(passed=5))
        rates = [after if commit >= first else before for commit in range(16)]
        play(search, lambda commit, rates=rates, chance=chance: chance.random() < rates[commit], repeats=20)
        posterior = search.posterior
        assert sum(posterior) == pytest.approx(1)
        if max(posterior) >= 0.95:
            reached += 1
            right += posterior.index(max(posterior)) == first

    assert reached >= 14
    assert right >= reached - 2  # 95 % of up to 20, and chance


def test_suspects_of_samples_have_the_probability_together() -> None:
    search = CommitSearch(LINE_OF_64[:8], is_sampling=True, confidence=0.9)
    search.set_samples(7, Counts(failed=2))

    suspects = search.suspects

    assert sum(search.posterior[commit] for commit in suspects) >= 0.9
    assert len(suspects) > 1


def test_commits_that_change_nothing_have_no_probability() -> None:
    search = CommitSearch(LINE_OF_64[:8], is_sampling=True)
    search.set_unchanged([0, 1, 2, 4, 5, 6, 7])

    play(search, lambda commit: commit >= 3, repeats=5)

    assert search.posterior[3] == 1
    assert search.suspects == [3]
    assert search.compute_contrast(3) >= 0.95


def test_the_only_commit_that_changes_something_is_not_certain_without_samples() -> None:
    search = CommitSearch(LINE_OF_64[:8], is_sampling=True)
    search.set_unchanged([0, 1, 2, 4, 5, 6, 7])
    search.set_good_samples(Counts(passed=1))
    search.set_samples(7, Counts(failed=1))

    assert search.choose_next() == 3
    assert search.compute_contrast(3) < 0.95


def test_if_no_commit_changes_anything_all_are_possible() -> None:
    search = CommitSearch(LINE_OF_64[:4], is_sampling=True)
    search.set_unchanged(range(4))

    assert sum(search.posterior) == pytest.approx(1)
    assert min(search.posterior) > 0


def test_the_next_of_10000_commits_is_chosen_at_once() -> None:
    search = CommitSearch([[number - 1] if number else [] for number in range(10_000)], is_sampling=True)
    search.set_samples(9_999, Counts(failed=3))
    for number in range(60):
        search.set_samples(number * 160, Counts(passed=1))
    began = time.process_time()

    search.choose_next()

    assert time.process_time() - began < 1  # 0.03 s


def test_an_execution_of_equal_commits_counts_once() -> None:
    counts = share_samples([[("a", False), ("b", True)], [("a", False)], []])

    assert counts == [Counts(passed=1, failed=0.5), Counts(failed=0.5), Counts()]


def test_commits_to_look_up_are_spread_evenly() -> None:
    assert choose_evenly(range(5), 8) == [0, 1, 2, 3, 4]
    assert choose_evenly(range(101), 3) == [0, 50, 100]


def test_the_middles_of_gaps_lie_between_known_places() -> None:
    assert find_middles({0, 1, 3, 7, 63}, after=1) == [2, 5, 35]
    assert find_middles({0, 1}, after=0) == []
