"""Shards: every case is in exactly one, and they take about the same time."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from workbench.engine.plan import RunOptions, Selection
from workbench.engine.shards import split_cases, take_shard
from workbench.model.identity import CaseKey

if TYPE_CHECKING:
    from tests.engine.project import Project

texts = st.text(st.characters(exclude_categories=()), max_size=3)
keys = st.builds(CaseKey, target=texts, eval_set=texts, eval_id=texts, occurrence=st.integers(0, 2))
durations = st.floats(0, 1e6)


def key(number: int) -> CaseKey:
    return CaseKey(target="t", eval_set="a.evalset.json", eval_id=f"case_{number}")


@given(cases=st.lists(keys, unique=True), known=st.lists(durations), count=st.integers(1, 12), seed=st.randoms())
def test_every_case_is_in_one_shard_in_any_order(
    cases: list[CaseKey], known: list[float], count: int, seed: random.Random
) -> None:
    seconds = dict(zip(cases, known, strict=False))
    mixed = seed.sample(cases, len(cases))

    shards = split_cases(cases, seconds, count)

    assert shards.keys() == set(cases)
    assert set(shards.values()) <= set(range(1, count + 1))
    assert split_cases(mixed, {case: seconds[case] for case in mixed if case in seconds}, count) == shards


def test_shards_differ_by_at_most_a_tenth_on_known_durations() -> None:
    for seed in range(20):
        chance = random.Random(seed)
        seconds = {key(number): chance.lognormvariate(0, 1.0) for number in range(200)}

        shards = split_cases(list(seconds), seconds, 5)

        loads = [sum(seconds[case] for case in seconds if shards[case] == number) for number in range(1, 6)]
        assert max(loads) <= 1.1 * min(loads)


def test_a_case_of_unknown_duration_counts_as_the_mean() -> None:
    shards = split_cases([key(1), key(2), key(3)], {key(1): 1.0, key(2): 3.0}, 2)

    assert shards[key(2)] != shards[key(1)] == shards[key(3)]


def test_cases_are_counted_without_durations() -> None:
    shards = split_cases([key(number) for number in range(10)], {}, 4)

    assert sorted(list(shards.values()).count(number) for number in range(1, 5)) == [2, 2, 3, 3]


def test_repeats_of_a_case_stay_together(project: Project) -> None:
    project.add_set({name: [{"user_content": {"role": "user", "parts": [{"text": name}]}}] for name in "abcd"})
    plan = project.open_workspace().plan([Selection(eval_set="set.evalset.json")], RunOptions(runs=3))

    parts = [take_shard(plan, number, 2, {}) for number in (1, 2)]

    for part in parts:
        assert sorted(job.repeat for job, _ in part.jobs) == [0, 0, 1, 1, 2, 2]
        assert len({job.case for job, _ in part.jobs}) == 2
        assert part.whole_sets == frozenset()
    assert take_shard(plan, 1, 1, {}).whole_sets == {"set.evalset.json"}
