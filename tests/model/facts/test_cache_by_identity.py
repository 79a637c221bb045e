"""Results that are computed once per object."""

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


def test_equal_objects_are_computed_separately_and_each_once() -> None:
    computed: list[list[int]] = []

    @cache_by_identity(maxsize=8)
    def total(numbers: list[int]) -> int:
        computed.append(numbers)
        return sum(numbers)

    one, equal = [1, 2], [1, 2]

    assert [total(one), total(equal), total(one)] == [3, 3, 3]
    assert [id(each) for each in computed] == [id(one), id(equal)]


def test_a_new_object_with_a_reused_id_is_computed_again() -> None:
    @cache_by_identity(maxsize=4)
    def copy_list(numbers: list[int]) -> list[int]:
        return [*numbers]

    # Each list is freed before the next one is created, which would often reuse its id.
    assert [copy_list([number]) for number in range(1_000)] == [[number] for number in range(1_000)]


def test_the_cache_drops_the_oldest_object_beyond_its_size() -> None:
    computed = []

    @cache_by_identity(maxsize=2)
    def get_first(text: list[str]) -> str:
        computed.append(text[0])
        return text[0]

    texts = [["a"], ["b"], ["c"]]
    for each in (*texts, texts[2], texts[0]):
        get_first(each)

    assert computed == ["a", "b", "c", "a"]


def test_skipped_objects_are_not_kept_alive() -> None:
    class Prompt(str): ...

    @cache_by_identity(maxsize=2, skip_if=lambda text: len(text) > 3)
    def length(text: str) -> int:
        return len(text)

    short, long = Prompt("abc"), Prompt("abcdef")
    short_reference, long_reference = weakref.ref(short), weakref.ref(long)
    found = [length(each) for each in (short, long, short, long)]
    del short, long
    gc.collect()

    assert found == [3, 6, 3, 6]
    assert short_reference() is not None
    assert long_reference() is None


def test_judgements_are_freed_with_their_results() -> None:
    judgement = Judgement(model="m", prompt="Is that right? " * 1_000)
    scores = (InvocationScore(score=1.0, judgement=judgement),)
    metric = MetricResult(name="judged", score=1.0, threshold=0.5, status=MetricStatus.PASSED, per_invocation=scores)
    result = CaseResult.construct_unvalidated(case=None, eval_set_id="s", status=CaseStatus.PASSED, metrics=(metric,))
    judgement_reference = weakref.ref(judgement)

    assert decide_case_status(result.metrics) is CaseStatus.PASSED
    assert make_verdict(result).scores == (("judged", 1.0),)
    assert metrics_from_blob(metrics_to_blob(result.metrics)) == result.metrics
    del judgement, scores, metric, result
    gc.collect()

    assert judgement_reference() is None


def test_cases_share_equal_metrics() -> None:
    shared = MetricResult(name="match", score=1.0, threshold=0.5, status=MetricStatus.PASSED)
    latencies = (
        MetricResult(name="latency", score=each, threshold=None, status=MetricStatus.INFORMATIONAL) for each in (1, 2)
    )

    one, other = (metrics_from_blob(metrics_to_blob((shared, each))) for each in latencies)

    assert one[0] is other[0]
    assert [one[1].score, other[1].score] == [1, 2]


def test_metrics_that_cases_share_are_stored_in_little_space() -> None:
    metrics = tuple(
        MetricResult(name=f"match_{n}", score=1.0, threshold=0.5, status=MetricStatus.PASSED, scored=1, total=1)
        for n in range(8)
    )

    blob = metrics_to_blob(metrics)

    assert len(blob) < len(str(metrics)) / 5
    assert metrics_from_blob(blob) == metrics
