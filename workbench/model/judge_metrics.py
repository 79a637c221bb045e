"""Judge metrics that a configuration defines: what a model is asked about a response, and which ratings it may give.

The parts are those of the Vertex AI documentation, PointwiseMetric and PairwiseMetric with their prompt templates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field
from pydantic.alias_generators import to_camel

from workbench.model.base import Fact
from workbench.model.config_values import InvalidConfig, kind_of
from workbench.model.text import did_you_mean

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
    return _Reader(f"judge_metrics.{name}", value).metric()


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
            raise InvalidConfig(place=place, found=kind_of(value), expected="an object that defines a judge metric")
        self._values = {_snake(key): item for key, item in value.items() if item is not None}
        for key in value:
            if _snake(key) not in KEYS:
                expected = f"one of {', '.join(KEYS)}{did_you_mean(key, KEYS)}"
                raise self._wrong(key, f"the unknown key {key!r}", expected)

    def metric(self) -> JudgeMetric:
        """The metric. Raises InvalidConfig."""
        kind = self._values.get("kind", "pointwise")
        if kind not in ("pointwise", "pairwise"):
            raise self._wrong("kind", kind_of(kind), '"pointwise" or "pairwise"')
        fields: dict[str, Any] = {"kind": kind}
        for key in ("description", "instruction", "metric_definition", "metric_prompt_template", "system_instruction"):
            if key in self._values:
                fields[KEYS[key]] = self._text(key)
        for key in ("criteria", "rating_rubric", "evaluation_steps"):
            if key in self._values:
                fields[key] = self._texts_by_name(key)
        for key in ("input_variables", "few_shot_examples"):
            if key in self._values:
                fields[key] = self._texts(key)
        self._check_parts()
        if kind == "pairwise":
            fields |= {"baseline": self._baseline(), "flip": self._flag("flip", default=True)}
            self._check_choices(fields.get("rating_rubric", {}))
        else:
            for key in ("baseline", "flip"):
                if key in self._values:
                    raise self._wrong(key, kind_of(self._values[key]), 'this only where "kind" is "pairwise"')
            if "rating_rubric" in fields:
                self._check_ratings(fields["rating_rubric"])
        return JudgeMetric(**fields)

    def _check_parts(self) -> None:
        if "metric_prompt_template" in self._values:
            both = sorted(_OF_PARTS & self._values.keys())
            if both:
                expected = "either a metric_prompt_template or the parts that a prompt is put together of"
                raise self._wrong(both[0], f"{both[0]} beside metric_prompt_template", expected)
            return
        for key in ("criteria", "rating_rubric"):
            if key not in self._values:
                raise self._wrong(key, "nothing", "criteria and rating_rubric, or a metric_prompt_template")

    def _check_ratings(self, rubric: Mapping[str, str]) -> None:
        numbers: dict[float, str] = {}
        for rating in rubric:
            number = _number(rating)
            if number is None:
                raise self._wrong(f"rating_rubric.{rating}", repr(rating), "a number as the name of a rating")
            if number in numbers:
                raise self._wrong(f"rating_rubric.{rating}", f"{numbers[number]!r} once more", "each rating once")
            numbers[number] = rating
        if len(rubric) < _FEWEST_RATINGS:
            raise self._wrong("rating_rubric", f"{len(rubric)} rating", "at least two ratings")

    def _check_choices(self, rubric: Mapping[str, str]) -> None:
        for choice in rubric:
            if choice not in CHOICES:
                raise self._wrong(f"rating_rubric.{choice}", repr(choice), f"one of {', '.join(CHOICES)}")
        if rubric and not {"A", "B"} <= rubric.keys():
            raise self._wrong("rating_rubric", ", ".join(rubric), f"what {', '.join(CHOICES)} mean")

    def _baseline(self) -> Baseline:
        value = self._values.get("baseline")
        if value is None:
            return Baseline()
        expected = '{"column": "a column of the dataset"} or {"run": "latest, or the id of a run"}'
        if not isinstance(value, Mapping) or len(value) != 1:
            raise self._wrong("baseline", kind_of(value), expected)
        ((key, name),) = value.items()
        if key not in ("column", "run") or not isinstance(name, str) or not name.strip():
            raise self._wrong("baseline", f"{key}: {kind_of(name)}", expected)
        return Baseline(column=name) if key == "column" else Baseline(column=None, run=name)

    def _text(self, key: str) -> str:
        value = self._values[key]
        if isinstance(value, str) and value.strip():
            return value
        raise self._wrong(key, kind_of(value), "a text")

    def _texts(self, key: str) -> tuple[str, ...]:
        value = self._values[key]
        if isinstance(value, list | tuple) and all(isinstance(item, str) and item.strip() for item in value):
            return tuple(dict.fromkeys(value))
        raise self._wrong(key, kind_of(value), "a list of texts")

    def _texts_by_name(self, key: str) -> dict[str, str]:
        value = self._values[key]
        if not isinstance(value, Mapping) or not value:
            found = "an empty object" if isinstance(value, Mapping) else kind_of(value)
            raise self._wrong(key, found, "an object with a text for each name")
        for name, text in value.items():
            if not isinstance(text, str) or not text.strip():
                raise self._wrong(f"{key}.{name}", kind_of(text), "a text")
        return dict(value)

    def _flag(self, key: str, *, default: bool) -> bool:
        value = self._values.get(key, default)
        if isinstance(value, bool):
            return value
        raise self._wrong(key, kind_of(value), "true or false")

    def _wrong(self, key: str, found: str, expected: str) -> InvalidConfig:
        return InvalidConfig(place=f"{self._place}.{key}", found=found, expected=expected)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _snake(key: str) -> str:
    return next((known for known in KEYS if to_camel(known) == key), key)
