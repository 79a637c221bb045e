"""What is worked out once for each object."""

from __future__ import annotations

import gc
import weakref

from workbench.engine.run import make_verdict
from workbench.model.facts import cache_by_identity
from workbench.model.results import (
    CaseResult,
    CaseStatus,
    InvocationScore,
    Judgement,
    MetricResult,
    MetricStatus,
    decide_case_status,
)
from workbench.store.history.history_codec import metrics_from_blob, metrics_to_blob


def test_works_out_once_for_each_object_however_equal_they_are() -> None:
    asked: list[list[int]] = []

    @cache_by_identity(maxsize=8)
    def total(numbers: list[int]) -> int:
        asked.append(numbers)
        return sum(numbers)

    one, equal = [1, 2], [1, 2]

    assert [total(one), total(equal), total(one)] == [3, 3, 3]
    assert [id(each) for each in asked] == [id(one), id(equal)]


def test_never_takes_one_object_for_another_that_had_its_place_in_memory() -> None:
    @cache_by_identity(maxsize=4)
    def copied(numbers: list[int]) -> list[int]:
        return [*numbers]

    # Each list is gone before the next is made, which would mostly get its id.
    assert [copied([number]) for number in range(1_000)] == [[number] for number in range(1_000)]


def test_keeps_no_more_than_it_may() -> None:
    asked = []

    @cache_by_identity(maxsize=2)
    def first(text: list[str]) -> str:
        asked.append(text[0])
        return text[0]

    texts = [["a"], ["b"], ["c"]]
    for each in (*texts, texts[2], texts[0]):
        first(each)

    assert asked == ["a", "b", "c", "a"]


def test_keeps_nothing_alive_that_it_is_not_to_keep() -> None:
    class Prompt(str): ...

    @cache_by_identity(maxsize=2, skip_if=lambda text: len(text) > 3)
    def length(text: str) -> int:
        return len(text)

    short, long = Prompt("abc"), Prompt("abcdef")
    kept, gone = weakref.ref(short), weakref.ref(long)
    found = [length(each) for each in (short, long, short, long)]
    del short, long
    gc.collect()

    assert found == [3, 6, 3, 6]
    assert kept() is not None
    assert gone() is None


def test_the_prompts_of_judges_do_not_outlive_their_results() -> None:
    judgement = Judgement(model="m", prompt="Is that right? " * 1_000)
    scores = (InvocationScore(score=1.0, judgement=judgement),)
    metric = MetricResult(name="judged", score=1.0, threshold=0.5, status=MetricStatus.PASSED, per_invocation=scores)
    result = CaseResult.construct_unvalidated(case=None, eval_set_id="s", status=CaseStatus.PASSED, metrics=(metric,))
    held = weakref.ref(judgement)

    assert decide_case_status(result.metrics) is CaseStatus.PASSED
    assert make_verdict(result).scores == (("judged", 1.0),)
    assert metrics_from_blob(metrics_to_blob(result.metrics)) == result.metrics
    del judgement, scores, metric, result
    gc.collect()

    assert held() is None


def test_cases_share_the_metrics_on_which_they_are_alike() -> None:
    alike = MetricResult(name="match", score=1.0, threshold=0.5, status=MetricStatus.PASSED)
    took = (
        MetricResult(name="latency", score=each, threshold=None, status=MetricStatus.INFORMATIONAL) for each in (1, 2)
    )

    one, other = (metrics_from_blob(metrics_to_blob((alike, each))) for each in took)

    assert one[0] is other[0]
    assert [one[1].score, other[1].score] == [1, 2]
