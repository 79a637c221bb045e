"""Criteria: which metrics judge a case, from what score on it passes, and with which options."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from workbench.model.base import Fact
from workbench.model.config_values import InvalidConfig, kind_of, member, object_in
from workbench.model.judge_metrics import JudgeMetric, read_judge_metric

__all__ = [
    "DEFAULT_CRITERIA",
    "DEFAULT_SOURCE",
    "Criterion",
    "CustomMetric",
    "EvalConfig",
    "InvalidConfig",
    "JudgeMetric",
    "default_config",
    "read_config",
    "read_criterion",
]

DEFAULT_SOURCE = "default"
"""`EvalConfig.source` of the criteria that hold where no configuration names any."""


class Criterion(Fact):
    """A metric, the least score that passes, and the metric's own options.

    `threshold` is None for an informational criterion: reported, never failing. `options` holds every other key of
    the criterion as the file has it (for instance `match_type`); the metric reads them.
    """

    metric: str
    threshold: float | None = None
    options: dict[str, Any] = Field(default_factory=dict)


class CustomMetric(Fact):
    """A metric function of the user: a dotted path, run in the worker of the target.

    `lowest` and `highest` bound its scores where the configuration says so; `extra` keeps keys that are not ours.
    """

    path: str
    description: str = ""
    lowest: float | None = None
    highest: float | None = None
    extra: dict[str, Any] = Field(default_factory=dict)


class EvalConfig(Fact):
    """What a configuration file says. `source` is the file as shown to people, or "default".

    `custom_metrics` and `judge_metrics` are metrics of its own, which its criteria may name. `judge` is the model that
    judges where a criterion names none: a plan fills it in, from the settings, where there is anything for it to do.
    `quorum` is the share of the samples of a judge that must be readable for a verdict, filled in from the settings.
    `user_model` is the one that plays the users of scenarios where `user_simulator_config` names none, filled in
    likewise.
    """

    criteria: tuple[Criterion, ...]
    custom_metrics: dict[str, CustomMetric] = Field(default_factory=dict)
    judge_metrics: dict[str, JudgeMetric] = Field(default_factory=dict)
    user_simulator_config: dict[str, Any] | None = None
    live_model_config: dict[str, Any] | None = None
    source: str = DEFAULT_SOURCE
    judge: str = ""
    quorum: float = 0.5
    user_model: str = ""

    @property
    def is_default(self) -> bool:
        """Whether the criteria are the default ones because no file named any."""
        return self.source == DEFAULT_SOURCE


DEFAULT_CRITERIA = (
    Criterion(metric="tool_trajectory_avg_score", threshold=1.0),
    Criterion(metric="response_match_score", threshold=0.8),
)


def default_config() -> EvalConfig:
    """The criteria ADK uses where no configuration names any."""
    return EvalConfig(criteria=DEFAULT_CRITERIA)


def read_config(data: Any, *, source: str) -> EvalConfig:
    """Read a `test_config.json` or eval config that has been parsed from JSON.

    A criterion is a number (its threshold) or an object with `threshold` and options; as in ADK a boolean or the text
    of a number is a threshold too. Without one, or with null, the criterion is informational. A file without criteria
    gets the default ones, its `source` then being "default". Keys that are not ours are ignored here (the file keeps
    them). Raises InvalidConfig naming the place.
    """
    if not isinstance(data, Mapping):
        raise InvalidConfig(place="(top level)", found=kind_of(data), expected="an object with criteria")
    criteria = object_in(data, "criteria")
    custom_metrics = object_in(data, "custom_metrics", "customMetrics")
    judge_metrics = object_in(data, "judge_metrics", "judgeMetrics")
    for name in judge_metrics.keys() & custom_metrics.keys():
        found = "a name that a custom metric has, too"
        raise InvalidConfig(place=f"judge_metrics.{name}", found=found, expected="a name of its own")
    read = tuple(read_criterion(name, value) for name, value in criteria.items())
    return EvalConfig(
        criteria=read or DEFAULT_CRITERIA,
        custom_metrics={name: _read_custom_metric(name, value) for name, value in custom_metrics.items()},
        judge_metrics={name: read_judge_metric(name, value) for name, value in judge_metrics.items()},
        user_simulator_config=object_in(data, "user_simulator_config", "userSimulatorConfig") or None,
        live_model_config=object_in(data, "live_model_config", "liveModelConfig") or None,
        source=source if read else DEFAULT_SOURCE,
    )


def read_criterion(name: str, value: Any) -> Criterion:
    """Read one criterion in either of its forms. Raises InvalidConfig."""
    place = f"criteria.{name}"
    if isinstance(value, Mapping):
        options = {key: item for key, item in value.items() if key != "threshold"}
        return Criterion(
            metric=name, threshold=_threshold(value.get("threshold"), place=f"{place}.threshold"), options=options
        )
    return Criterion(metric=name, threshold=_threshold(value, place=place))


def _threshold(value: Any, *, place: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool | int | float | str):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = math.nan
        if math.isfinite(number):
            return number
    raise InvalidConfig(place=place, found=kind_of(value), expected="a number, or an object with a number as threshold")


def _bound(interval: Mapping[str, Any], *names: str, place: str) -> float | None:
    """An end of the interval of a custom metric's scores."""
    value = member(interval, *names)
    if value is not None and not isinstance(value, int | float):
        place = f"{place}.metric_info.metric_value_info.interval.{names[0]}"
        raise InvalidConfig(place=place, found=kind_of(value), expected="a number")
    return value


def _read_custom_metric(name: str, value: Any) -> CustomMetric:
    place = f"custom_metrics.{name}"
    if isinstance(value, str):
        return CustomMetric(path=value)
    code = member(value, "code_config", "codeConfig") if isinstance(value, Mapping) else None
    path = code.get("name") if isinstance(code, Mapping) else None
    if not isinstance(path, str) or "." not in path:
        raise InvalidConfig(
            place=f"{place}.code_config.name", found=kind_of(path), expected="the dotted path of a function"
        )
    info = member(value, "metric_info", "metricInfo")
    value_info = member(info, "metric_value_info", "metricValueInfo") if isinstance(info, Mapping) else None
    interval = value_info.get("interval") if isinstance(value_info, Mapping) else None
    interval = interval if isinstance(interval, Mapping) else {}
    return CustomMetric(
        path=path,
        description=str(value.get("description") or ""),
        lowest=_bound(interval, "min_value", "minValue", place=place),
        highest=_bound(interval, "max_value", "maxValue", place=place),
        extra={key: item for key, item in value.items() if key not in ("code_config", "codeConfig", "description")},
    )
