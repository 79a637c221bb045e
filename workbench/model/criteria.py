"""Criteria: metrics with their thresholds and options, as eval configs define them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import Field
from pydantic.alias_generators import to_camel

from workbench.model.facts import Fact
from workbench.model.text import shorten, suggest_name

# Values of a configuration; faults are reported with their place

_LONGEST_PART = 300
"""Maximum length of a key or value of a file in a message, in characters."""


class InvalidConfig(ValueError):
    """A value of a configuration is invalid.

    `place` is the JSON path of the value, such as `criteria.response_match_score.threshold`.
    """

    def __init__(self, *, place: str, found: str, expected: str) -> None:
        found, expected = shorten(found, _LONGEST_PART), shorten(expected, _LONGEST_PART)
        super().__init__(f"{shorten(place, _LONGEST_PART)}: found {found}, expected {expected}")
        self.place = place
        self.found = found
        self.expected = expected


def get_object(data: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """Return the object under one of these keys, empty if it is missing. Raises InvalidConfig for any other value."""
    value = get_member(data, *names)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidConfig(place=names[0], found=describe_kind(value), expected="an object")
    return value


def get_member(data: Mapping[str, Any], *names: str) -> Any:
    """Return the value under the first of these keys that exists."""
    return next((data[name] for name in names if name in data), None)


def describe_kind(value: Any) -> str:
    """Describe a value in terms of JSON, short enough for a message."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# Judge metrics of a configuration: the prompt about a response, and the possible ratings

BASELINE_COLUMN = "baseline_model_response"
"""The default column of the baseline of a pairwise metric."""

CHOICES = ("A", "SAME", "B")
"""The verdicts of a pairwise metric: A is the baseline, B the candidate."""

_FEWEST_RATINGS = 2
_PART_KEYS = frozenset(
    {"criteria", "input_variables", "instruction", "metric_definition", "evaluation_steps", "few_shot_examples"}
)


class Baseline(Fact):
    """The baseline of a response: a column of the dataset, or the response to the same turn in an earlier run.

    `run` is the id of a run, a prefix of it, or "latest": the newest one before.
    """

    column: str | None = BASELINE_COLUMN
    run: str | None = None


class JudgeMetric(Fact):
    """A metric for which a model rates each response, or compares two responses.

    The prompt is built from its parts, or is the `template` with `{variable}` for each value. `input_variables` are
    shown to the judge besides the responses. `rating_rubric` explains each rating: by number for a pointwise metric, by
    A, SAME and B for a pairwise one. A template may omit it, and then any number is a rating. `flip`: A and B change
    places in every second sample.
    """

    kind: Literal["pointwise", "pairwise"] = "pointwise"
    description: str = ""
    criteria: dict[str, str] = Field(default_factory=dict)
    rating_rubric: dict[str, str] = Field(default_factory=dict)
    input_variables: tuple[str, ...] = ("prompt",)
    instruction: str | None = None
    metric_definition: str | None = None
    evaluation_steps: dict[str, str] = Field(default_factory=dict)
    few_shot_examples: tuple[str, ...] = ()
    template: str | None = None
    system_instruction: str | None = None
    baseline: Baseline | None = None
    flip: bool = False

    @property
    def ratings(self) -> tuple[float, ...] | None:
        """The possible scores of a sample, lowest first; None: any number."""
        if self.kind == "pairwise":
            return (0.0, 0.5, 1.0)
        return tuple(sorted(map(float, self.rating_rubric))) or None


def read_judge_metric(name: str, value: Any) -> JudgeMetric:
    """Read the definition of a metric in a configuration. Raises InvalidConfig with the place."""
    return _Reader(f"judge_metrics.{name}", value).read()


KEYS = {
    "kind": "kind",
    "description": "description",
    "criteria": "criteria",
    "rating_rubric": "rating_rubric",
    "input_variables": "input_variables",
    "instruction": "instruction",
    "metric_definition": "metric_definition",
    "evaluation_steps": "evaluation_steps",
    "few_shot_examples": "few_shot_examples",
    "metric_prompt_template": "template",
    "system_instruction": "system_instruction",
    "baseline": "baseline",
    "flip": "flip",
}
"""The fields of the keys of a definition."""


class _Reader:
    """Reads one definition."""

    def __init__(self, place: str, value: Any) -> None:
        self._place = place
        if not isinstance(value, Mapping):
            raise InvalidConfig(
                place=place, found=describe_kind(value), expected="an object that defines a judge metric"
            )
        self._values = {find_known_key(key, KEYS): item for key, item in value.items() if item is not None}
        for key in value:
            if find_known_key(key, KEYS) not in KEYS:
                expected = f"one of {', '.join(KEYS)}{suggest_name(key, KEYS)}"
                raise self._make_error(key, f"the unknown key {key!r}", expected)

    def read(self) -> JudgeMetric:
        """The metric. Raises InvalidConfig."""
        kind = self._values.get("kind", "pointwise")
        if kind not in ("pointwise", "pairwise"):
            raise self._make_error("kind", describe_kind(kind), '"pointwise" or "pairwise"')
        fields: dict[str, Any] = {"kind": kind}
        for key in ("description", "instruction", "metric_definition", "metric_prompt_template", "system_instruction"):
            if key in self._values:
                fields[KEYS[key]] = self._read_text(key)
        for key in ("criteria", "rating_rubric", "evaluation_steps"):
            if key in self._values:
                fields[key] = self._read_texts_by_name(key)
        for key in ("input_variables", "few_shot_examples"):
            if key in self._values:
                fields[key] = self._read_texts(key)
        self._check_parts()
        if kind == "pairwise":
            fields |= {"baseline": self._read_baseline(), "flip": self._read_flag("flip", default=True)}
            self._check_choices(fields.get("rating_rubric", {}))
        else:
            for key in ("baseline", "flip"):
                if key in self._values:
                    raise self._make_error(
                        key, describe_kind(self._values[key]), 'this key only if "kind" is "pairwise"'
                    )
            if "rating_rubric" in fields:
                self._check_ratings(fields["rating_rubric"])
        return JudgeMetric(**fields)

    def _check_parts(self) -> None:
        if "metric_prompt_template" in self._values:
            conflicting = sorted(_PART_KEYS & self._values.keys())
            if conflicting:
                expected = "either a metric_prompt_template or the parts of a prompt"
                raise self._make_error(conflicting[0], f"both {conflicting[0]} and metric_prompt_template", expected)
            return
        for key in ("criteria", "rating_rubric"):
            if key not in self._values:
                raise self._make_error(key, "nothing", "criteria and rating_rubric, or a metric_prompt_template")

    def _check_ratings(self, rubric: Mapping[str, str]) -> None:
        numbers: dict[float, str] = {}
        for rating in rubric:
            number = _parse_number(rating)
            if number is None:
                raise self._make_error(f"rating_rubric.{rating}", repr(rating), "a number as the name of a rating")
            if number in numbers:
                raise self._make_error(f"rating_rubric.{rating}", f"{numbers[number]!r} once more", "each rating once")
            numbers[number] = rating
        if len(rubric) < _FEWEST_RATINGS:
            raise self._make_error("rating_rubric", f"{len(rubric)} rating", "at least two ratings")

    def _check_choices(self, rubric: Mapping[str, str]) -> None:
        for choice in rubric:
            if choice not in CHOICES:
                raise self._make_error(f"rating_rubric.{choice}", repr(choice), f"one of {', '.join(CHOICES)}")
        if rubric and not {"A", "B"} <= rubric.keys():
            raise self._make_error("rating_rubric", ", ".join(rubric), f"what {', '.join(CHOICES)} mean")

    def _read_baseline(self) -> Baseline:
        value = self._values.get("baseline")
        if value is None:
            return Baseline()
        expected = '{"column": "a column of the dataset"} or {"run": "latest, or the id of a run"}'
        if not isinstance(value, Mapping) or len(value) != 1:
            raise self._make_error("baseline", describe_kind(value), expected)
        ((key, name),) = value.items()
        if key not in ("column", "run") or not isinstance(name, str) or not name.strip():
            raise self._make_error("baseline", f"{key}: {describe_kind(name)}", expected)
        return Baseline(column=name) if key == "column" else Baseline(column=None, run=name)

    def _read_text(self, key: str) -> str:
        value = self._values[key]
        if isinstance(value, str) and value.strip():
            return value
        raise self._make_error(key, describe_kind(value), "a text")

    def _read_texts(self, key: str) -> tuple[str, ...]:
        value = self._values[key]
        if isinstance(value, list | tuple) and all(isinstance(item, str) and item.strip() for item in value):
            return tuple(dict.fromkeys(value))
        raise self._make_error(key, describe_kind(value), "a list of texts")

    def _read_texts_by_name(self, key: str) -> dict[str, str]:
        value = self._values[key]
        if not isinstance(value, Mapping) or not value:
            found = "an empty object" if isinstance(value, Mapping) else describe_kind(value)
            raise self._make_error(key, found, "an object with a text for each name")
        for name, text in value.items():
            if not isinstance(text, str) or not text.strip():
                raise self._make_error(f"{key}.{name}", describe_kind(text), "a text")
        return dict(value)

    def _read_flag(self, key: str, *, default: bool) -> bool:
        value = self._values.get(key, default)
        if isinstance(value, bool):
            return value
        raise self._make_error(key, describe_kind(value), "true or false")

    def _make_error(self, key: str, found: str, expected: str) -> InvalidConfig:
        return InvalidConfig(place=f"{self._place}.{key}", found=found, expected=expected)


def _parse_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def find_known_key(key: str, known: Iterable[str]) -> str:
    """Return the known key in snake case that this one spells in camel case; else the key itself."""
    return next((name for name in known if to_camel(name) == key), key)


# Criteria: the metrics of a case with thresholds and options

DEFAULT_SOURCE = "default"
"""`EvalConfig.source` of the default criteria."""


class Criterion(Fact):
    """A metric, the lowest score that passes, and the metric's own options.

    Without a `threshold` the criterion is informational: reported, never failing. `options` are all other keys
    of the criterion (for instance `match_type`); the metric reads them.
    """

    metric: str
    threshold: float | None = None
    options: dict[str, Any] = Field(default_factory=dict)


class CustomMetricFunction(Fact):
    """A metric function of the user: a dotted path, run in the worker of the target.

    `lowest` and `highest` bound its scores if the configuration defines them; `extra` are unknown keys.
    """

    path: str
    description: str = ""
    lowest: float | None = None
    highest: float | None = None
    extra: dict[str, Any] = Field(default_factory=dict)


class EvalConfig(Fact):
    """The content of a configuration file. `source` is the file as shown to people, or "default".

    `custom_metrics` and `judge_metrics` are own metrics that the criteria may name. Three values come from the
    settings, and a plan fills them in if they are needed. `judge` is the judge model for criteria that name none.
    `quorum` is the share of a judge's samples that must be readable for a verdict. `user_model` plays the users of
    scenarios if `user_simulator_config` names no model.
    """

    criteria: tuple[Criterion, ...]
    custom_metrics: dict[str, CustomMetricFunction] = Field(default_factory=dict)
    judge_metrics: dict[str, JudgeMetric] = Field(default_factory=dict)
    user_simulator_config: dict[str, Any] | None = None
    live_model_config: dict[str, Any] | None = None
    source: str = DEFAULT_SOURCE
    judge: str = ""
    quorum: float = 0.5
    user_model: str = ""

    @property
    def is_default(self) -> bool:
        """True if no file defines criteria."""
        return self.source == DEFAULT_SOURCE


DEFAULT_CRITERIA = (
    Criterion(metric="tool_trajectory_avg_score", threshold=1.0),
    Criterion(metric="response_match_score", threshold=0.8),
)


def default_config() -> EvalConfig:
    """Return the criteria that ADK uses without a configuration."""
    return EvalConfig(criteria=DEFAULT_CRITERIA)


def read_config(data: Any, *, source: str) -> EvalConfig:
    """Read a `test_config.json` or eval config that was parsed from JSON.

    A criterion is a number (its threshold) or an object with `threshold` and options. As in ADK, a boolean or the text
    of a number is a threshold, too. Without a threshold, or with null, the criterion is informational. A file without
    criteria gets the default ones, and its `source` is "default". Unknown keys are ignored. Raises InvalidConfig with
    the place.
    """
    if not isinstance(data, Mapping):
        raise InvalidConfig(place="(top level)", found=describe_kind(data), expected="an object with criteria")
    criteria = get_object(data, "criteria")
    custom_metrics = get_object(data, "custom_metrics", "customMetrics")
    judge_metrics = get_object(data, "judge_metrics", "judgeMetrics")
    for name in judge_metrics.keys() & custom_metrics.keys():
        found = "the name of a custom metric"
        raise InvalidConfig(place=f"judge_metrics.{name}", found=found, expected="another name")
    parsed_criteria = tuple(read_criterion(name, value) for name, value in criteria.items())
    return EvalConfig(
        criteria=parsed_criteria or DEFAULT_CRITERIA,
        custom_metrics={name: _read_custom_metric(name, value) for name, value in custom_metrics.items()},
        judge_metrics={name: read_judge_metric(name, value) for name, value in judge_metrics.items()},
        user_simulator_config=get_object(data, "user_simulator_config", "userSimulatorConfig") or None,
        live_model_config=get_object(data, "live_model_config", "liveModelConfig") or None,
        source=source if parsed_criteria else DEFAULT_SOURCE,
    )


def read_criterion(name: str, value: Any) -> Criterion:
    """Read one criterion in either of its forms. Raises InvalidConfig."""
    place = f"criteria.{name}"
    if isinstance(value, Mapping):
        options = {key: item for key, item in value.items() if key != "threshold"}
        return Criterion(
            metric=name, threshold=_read_threshold(value.get("threshold"), place=f"{place}.threshold"), options=options
        )
    return Criterion(metric=name, threshold=_read_threshold(value, place=place))


def _read_threshold(value: Any, *, place: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool | int | float | str):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = math.nan
        if math.isfinite(number):
            return number
    raise InvalidConfig(
        place=place, found=describe_kind(value), expected="a number, or an object with a number as threshold"
    )


def _read_bound(interval: Mapping[str, Any], *names: str, place: str) -> float | None:
    """Read one end of the interval of a custom metric's scores."""
    value = get_member(interval, *names)
    if value is not None and not isinstance(value, int | float):
        place = f"{place}.metric_info.metric_value_info.interval.{names[0]}"
        raise InvalidConfig(place=place, found=describe_kind(value), expected="a number")
    return value


def _read_custom_metric(name: str, value: Any) -> CustomMetricFunction:
    place = f"custom_metrics.{name}"
    if isinstance(value, str):
        return CustomMetricFunction(path=value)
    code = get_member(value, "code_config", "codeConfig") if isinstance(value, Mapping) else None
    path = code.get("name") if isinstance(code, Mapping) else None
    if not isinstance(path, str) or "." not in path:
        raise InvalidConfig(
            place=f"{place}.code_config.name", found=describe_kind(path), expected="the dotted path of a function"
        )
    info = get_member(value, "metric_info", "metricInfo")
    value_info = get_member(info, "metric_value_info", "metricValueInfo") if isinstance(info, Mapping) else None
    interval = value_info.get("interval") if isinstance(value_info, Mapping) else None
    interval = interval if isinstance(interval, Mapping) else {}
    return CustomMetricFunction(
        path=path,
        description=str(value.get("description") or ""),
        lowest=_read_bound(interval, "min_value", "minValue", place=place),
        highest=_read_bound(interval, "max_value", "maxValue", place=place),
        extra={key: item for key, item in value.items() if key not in ("code_config", "codeConfig", "description")},
    )


# Names of models of other vendors

# Prefixes of the names of a vendor's models, and LiteLLM's name of the vendor.
_VENDORS = (
    (r"(ft:)?gpt-|chatgpt-|o[1-9](-|$)|davinci|text-embedding-", "openai"),
    (r"claude-", "anthropic"),
    (r"mistral-|mixtral-|ministral-|magistral-|codestral-|open-mi[sx]tral-", "mistral"),
    (r"grok-", "xai"),
    (r"deepseek-", "deepseek"),
    (r"command-", "cohere"),
    (r"(meta-)?llama-?[1-9]", "groq"),
    (r"qwen", "dashscope"),
)


def add_provider(model: str) -> str | None:
    """Return `provider/model` for a bare name of a model of another vendor than Google; else None.

    A bare name would be requested from Google, which would only reply that it does not exist. The same holds for a name
    below `models/`; without a version it may be a tuned model.
    """
    name = model.removeprefix("models/")
    if name != model and not any(character.isdigit() for character in name):
        return None
    for pattern, provider in _VENDORS:
        if re.match(pattern, name, re.IGNORECASE) and "/" not in name:
            return f"{provider}/{name}"
    return None


def explain_wrong_vendor(model: str) -> str | None:
    """Return the expected name if a model of another vendor has a bare name; else None."""
    full_name = add_provider(model)
    return None if full_name is None else f"{full_name!r}: models of vendors other than Google are named provider/model"
