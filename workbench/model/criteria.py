"""Criteria: metrics with their thresholds and options, as eval configs name them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field
from pydantic.alias_generators import to_camel

from workbench.model.base import Fact
from workbench.model.text import shorten, suggest_name

if TYPE_CHECKING:
    pass


# Reading values of a configuration: what is wrong is said with its place.

_LONGEST_PART = 300
"""How many characters of a key or value from a file a message repeats."""


class InvalidConfig(ValueError):
    """A value of a configuration that cannot be used.

    `place` is the JSON path of the value, such as `criteria.response_match_score.threshold`.
    """

    def __init__(self, *, place: str, found: str, expected: str) -> None:
        found, expected = shorten(found, _LONGEST_PART), shorten(expected, _LONGEST_PART)
        super().__init__(f"{shorten(place, _LONGEST_PART)}: found {found}, expected {expected}")
        self.place = place
        self.found = found
        self.expected = expected


def get_object(data: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """The object under one of these keys, empty where there is none. Raises InvalidConfig for any other value."""
    value = get_member(data, *names)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidConfig(place=names[0], found=describe_kind(value), expected="an object")
    return value


def get_member(data: Mapping[str, Any], *names: str) -> Any:
    """The value under the first of these keys that is there."""
    return next((data[name] for name in names if name in data), None)


def describe_kind(value: Any) -> str:
    """What a value is, in the words of JSON, short enough for a message."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# Judge metrics that a configuration defines: what a model is asked about a response, and which ratings it may give.

BASELINE_COLUMN = "baseline_model_response"
"""The column of a dataset that a response is compared with where a pairwise metric does not say."""

CHOICES = ("A", "SAME", "B")
"""What a pairwise rating rubric tells apart: the baseline is A, the candidate B."""

_FEWEST_RATINGS = 2
_OF_PARTS = frozenset(
    {"criteria", "input_variables", "instruction", "metric_definition", "evaluation_steps", "few_shot_examples"}
)


class Baseline(Fact):
    """What a response is compared with: a column of the dataset, or the response to the same turn in an earlier run.

    `run` is the id of a run, the start of one, or "latest": the newest one before.
    """

    column: str | None = BASELINE_COLUMN
    run: str | None = None


class JudgeMetric(Fact):
    """A metric by which a model rates each response, or says which of two is better.

    The prompt is put together of its parts, or is the `template` with `{variable}` where a value belongs.
    `input_variables` name what the judge sees besides the responses. `rating_rubric` has what each rating means: for a
    pointwise metric by the number (without one, which only a template may be, any number is a rating), for a pairwise
    one by A, SAME and B. `flip`: in every second sample A and B change places.
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
        """The scores that a sample may give, the lowest first; None: any number."""
        if self.kind == "pairwise":
            return (0.0, 0.5, 1.0)
        return tuple(sorted(map(float, self.rating_rubric))) or None


def read_judge_metric(name: str, value: Any) -> JudgeMetric:
    """Read the definition of a metric as it stands in a configuration. Raises InvalidConfig naming the place."""
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
"""The keys of a definition with the fields that they are."""


class _Reader:
    """Reads one definition."""

    def __init__(self, place: str, value: Any) -> None:
        self._place = place
        if not isinstance(value, Mapping):
            raise InvalidConfig(
                place=place, found=describe_kind(value), expected="an object that defines a judge metric"
            )
        self._values = {_to_snake_key(key): item for key, item in value.items() if item is not None}
        for key in value:
            if _to_snake_key(key) not in KEYS:
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
                        key, describe_kind(self._values[key]), 'this only where "kind" is "pairwise"'
                    )
            if "rating_rubric" in fields:
                self._check_ratings(fields["rating_rubric"])
        return JudgeMetric(**fields)

    def _check_parts(self) -> None:
        if "metric_prompt_template" in self._values:
            both = sorted(_OF_PARTS & self._values.keys())
            if both:
                expected = "either a metric_prompt_template or the parts that a prompt is put together of"
                raise self._make_error(both[0], f"{both[0]} beside metric_prompt_template", expected)
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


def _to_snake_key(key: str) -> str:
    return next((known for known in KEYS if to_camel(known) == key), key)


# Criteria: which metrics judge a case, from what score on it passes, and with which options.

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
        raise InvalidConfig(place="(top level)", found=describe_kind(data), expected="an object with criteria")
    criteria = get_object(data, "criteria")
    custom_metrics = get_object(data, "custom_metrics", "customMetrics")
    judge_metrics = get_object(data, "judge_metrics", "judgeMetrics")
    for name in judge_metrics.keys() & custom_metrics.keys():
        found = "a name that a custom metric has, too"
        raise InvalidConfig(place=f"judge_metrics.{name}", found=found, expected="a name of its own")
    read = tuple(read_criterion(name, value) for name, value in criteria.items())
    return EvalConfig(
        criteria=read or DEFAULT_CRITERIA,
        custom_metrics={name: _read_custom_metric(name, value) for name, value in custom_metrics.items()},
        judge_metrics={name: read_judge_metric(name, value) for name, value in judge_metrics.items()},
        user_simulator_config=get_object(data, "user_simulator_config", "userSimulatorConfig") or None,
        live_model_config=get_object(data, "live_model_config", "liveModelConfig") or None,
        source=source if read else DEFAULT_SOURCE,
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
    """An end of the interval of a custom metric's scores."""
    value = get_member(interval, *names)
    if value is not None and not isinstance(value, int | float):
        place = f"{place}.metric_info.metric_value_info.interval.{names[0]}"
        raise InvalidConfig(place=place, found=describe_kind(value), expected="a number")
    return value


def _read_custom_metric(name: str, value: Any) -> CustomMetric:
    place = f"custom_metrics.{name}"
    if isinstance(value, str):
        return CustomMetric(path=value)
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
    return CustomMetric(
        path=path,
        description=str(value.get("description") or ""),
        lowest=_read_bound(interval, "min_value", "minValue", place=place),
        highest=_read_bound(interval, "max_value", "maxValue", place=place),
        extra={key: item for key, item in value.items() if key not in ("code_config", "codeConfig", "description")},
    )


# Regular expressions and patterns of paths that come from files, matched within a time limit.


# Names of models that plainly belong to a vendor.

# What the names of a vendor's models begin with, and what LiteLLM calls the vendor.
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
    """Return `provider/model` for a bare name that plainly is another vendor's than Google's; else None.

    A bare name is asked of Google, which would only answer that it does not exist. So is one below `models/`,
    where a name without a version may be that of a tuned model.
    """
    name = model.removeprefix("models/")
    if name != model and not any(character.isdigit() for character in name):
        return None
    for pattern, provider in _VENDORS:
        if re.match(pattern, name, re.IGNORECASE) and "/" not in name:
            return f"{provider}/{name}"
    return None


def explain_wrong_vendor(model: str) -> str | None:
    """Return what is expected in place of such a name; None for every other name."""
    named = add_provider(model)
    return None if named is None else f"{named!r}: a model of another vendor than Google is named provider/model"
