"""What two runs did not have in common besides their results: criteria, versions and options, in sentences."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from workbench.model.criteria import Criterion, EvalConfig
from workbench.store.history import RunRecord

_OPTIONS = ("runs", "timeout_seconds", "isolation")
"""Options that can change how cases come out; the others only change how fast."""


def run_changes(before: RunRecord, after: RunRecord) -> tuple[str, ...]:
    """One sentence for each difference; the same one of several eval sets is told once, with how many they are."""
    told: dict[str, list[str]] = {}
    for eval_set in before.criteria.keys() & after.criteria.keys():
        for sentence in criteria_changes(before.criteria[eval_set], after.criteria[eval_set]):
            told.setdefault(sentence, []).append(eval_set)
    sentences = [f"{_sets(sorted(sets))}: {sentence}" for sentence, sets in sorted(told.items())]
    sentences += _changed_values(before.versions, after.versions, sorted({*before.versions, *after.versions}))
    sentences += _changed_values(before.options, after.options, _OPTIONS)
    return tuple(sentences)


def criteria_changes(before: EvalConfig, after: EvalConfig) -> tuple[str, ...]:
    """What changed in the criteria of one eval set."""
    old = {criterion.metric: criterion for criterion in before.criteria}
    new = {criterion.metric: criterion for criterion in after.criteria}
    sentences = [f"{name} is new, {threshold_text(new[name])}" for name in new if name not in old]
    sentences += [f"{name} is gone" for name in old if name not in new]
    for name in old.keys() & new.keys():
        sentences += _changed_criterion(old[name], new[name])
    if before.custom_metrics != after.custom_metrics:
        sentences.append("the custom metrics changed")
    if before.judge_metrics != after.judge_metrics:
        sentences.append("the judge metrics changed")
    return tuple(sentences)


def threshold_text(criterion: Criterion) -> str:
    """The threshold in words."""
    return "without threshold" if criterion.threshold is None else f"threshold {criterion.threshold:g}"


def _changed_criterion(old: Criterion, new: Criterion) -> Iterator[str]:
    if old.threshold != new.threshold:
        yield f"{new.metric}: {threshold_text(old)} became {threshold_text(new)}"
    for name in sorted({*old.options, *new.options}):
        if old.options.get(name) != new.options.get(name):
            yield f"{new.metric}: {name} {_value(old.options, name)} became {_value(new.options, name)}"


def _changed_values(old: Mapping[str, Any], new: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    return [
        f"{name.replace('_', ' ')} {_value(old, name)} became {_value(new, name)}"
        for name in names
        if old.get(name) != new.get(name)
    ]


def _value(values: Mapping[str, Any], name: str) -> str:
    if name not in values:
        return "(not given)"
    value = values[name]
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _sets(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
