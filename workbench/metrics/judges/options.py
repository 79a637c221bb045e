"""`judge_model_options` of a criterion, read with the place of every mistake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic.alias_generators import to_camel

from workbench.llm.configuration import unknown_keys
from workbench.metrics.definition import JudgeOptions
from workbench.metrics.options import Options, describe, nearest
from workbench.model.model_names import wrong_vendor

NAME = "judge_model_options"
WITH_INTERMEDIATE = "include_intermediate_responses_in_final"
"""Whether what was said on the way counts as part of the answer; read by metrics that judge one answer."""
DESCRIBE_INTERMEDIATE: Mapping[str, str] = {WITH_INTERMEDIATE: "judge what was said on the way, too (default false)"}
INTERMEDIATE_CHOICES: Mapping[str, Sequence[str | bool]] = {WITH_INTERMEDIATE: (False, True)}

SAMPLES = 5
MOST_SAMPLES = 100
KNOWN = ("judge_model", "judge_model_config", "num_samples", "parallelism_limit")


def describe_options(*, samples: int) -> Mapping[str, str]:
    """What `judge_model_options` are, where a judge is asked `samples` times by default."""
    return {
        NAME: f"judge_model (default: the one of the settings), num_samples (default {samples}), "
        "parallelism_limit (default: that of the model), judge_model_config (as in the Gemini API)",
    }


DESCRIPTION = describe_options(samples=SAMPLES)


def read_judge_options(options: Options, *, samples: int = SAMPLES) -> JudgeOptions:
    """The options for the judge, asked `samples` times where nothing else is said; mistakes are kept in `options`."""
    given = options.raw(NAME)
    if given is None:
        return JudgeOptions(samples=samples)
    if not isinstance(given, Mapping):
        options.refuse(NAME, found=describe(given), expected="an object")
        return JudgeOptions(samples=samples)
    values = {_snake(name): value for name, value in given.items()}
    for name in given:
        if _snake(name) not in KNOWN:
            guess = nearest(name, KNOWN)
            expected = f"{guess!r} (did you mean that?)" if guess else f"one of {', '.join(KNOWN)}"
            options.refuse(f"{NAME}.{name}", found=f"the unknown option {name!r}", expected=expected)
    model = values.get("judge_model")
    if model is not None and not (isinstance(model, str) and model.strip()):
        options.refuse(f"{NAME}.judge_model", found=describe(model), expected="the name of a model")
        model = None
    elif model is not None and (wanted := wrong_vendor(model)) is not None:
        options.refuse(f"{NAME}.judge_model", found=repr(model), expected=wanted)
    config = values.get("judge_model_config")
    if config is not None and not isinstance(config, Mapping):
        options.refuse(f"{NAME}.judge_model_config", found=describe(config), expected="an object")
        config = None
    place = f"{options.place}.{NAME}.judge_model_config"
    options.problems += unknown_keys(config or {}, model=model or options.judge, place=place)
    return JudgeOptions(
        model=model,
        samples=_count(options, values, "num_samples", most=MOST_SAMPLES) or samples,
        parallel=_count(options, values, "parallelism_limit", most=None),
        config=dict(config or {}),
    )


def _count(options: Options, values: Mapping[str, Any], name: str, *, most: int | None) -> int | None:
    value = values.get(name)
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value > 0 and (most is None or value <= most):
        return value
    expected = "a whole number from 1 on" if most is None else f"a whole number from 1 to {most}"
    options.refuse(f"{NAME}.{name}", found=describe(value), expected=expected)
    return None


def _snake(name: str) -> str:
    return next((known for known in KNOWN if to_camel(known) == name), name)
