"""Results of metrics."""

from __future__ import annotations

from workbench.metrics import registry
from workbench.metrics.metric_types import Options, Rule, build_case_result
from workbench.model.criteria import Criterion
from workbench.model.results import Score


def test_only_frequent_results_are_shared_between_cases() -> None:
    rule = Rule(name="latency")

    assert build_case_result(rule, Score(1.0)) is build_case_result(rule, Score(1.0))
    assert build_case_result(rule, Score(0.123)) is not build_case_result(rule, Score(0.123))


def test_the_described_options_are_exactly_those_that_are_read() -> None:
    for name, definition in registry._collect_definitions().items():
        options = Options(Criterion(metric=name))
        common_options = set(options._names_read)
        definition.prepare(options)
        described_options = set(definition.info.options)
        assert options._names_read - (common_options - described_options) == described_options, name
