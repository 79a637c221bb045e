"""The criteria of a plan: with the models that the settings name, and whether they can judge what they are to judge."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.metrics.definition import ModelJudge
from workbench.metrics.registry import check_criteria, info_of, prepare, with_judge, with_scorer
from workbench.model.criteria import Criterion, EvalConfig, InvalidConfig
from workbench.model.text import one_line
from workbench.simulation.options import read_user_options
from workbench.store.settings import Settings

_WORKS = '{"criteria": {"hallucinations_v1": {"threshold": 0.5}, "safety_v1": {"threshold": 0.8}}}'


def with_models(config: EvalConfig, settings: Settings) -> EvalConfig:
    """The config with the models that judge and play users where it names none, and the quorum of judges."""
    config = with_scorer(with_judge(config, settings.judge.model), settings.judge.scorer)
    return config.model_copy(update={"user_model": settings.simulation.model, "quorum": settings.judge.quorum})


def judge_models_of(config: EvalConfig) -> tuple[str, ...]:
    """The models that the criteria ask."""
    judges = (judge for prepared in prepare(config) for judge, _ in prepared.judges)
    models = (judge.options.model or config.judge for judge in judges if isinstance(judge, ModelJudge))
    return tuple(dict.fromkeys(models))


def criteria_below_every_score(config: EvalConfig) -> Iterator[tuple[Criterion, float]]:
    """The criteria whose threshold every score reaches, with the lowest score of the metric."""
    for criterion in config.criteria:
        info = info_of(criterion.metric, config)
        lowest = None if info is None else info.lowest
        if criterion.threshold is not None and lowest is not None and criterion.threshold < lowest:
            yield criterion, lowest


def problems_of(config: EvalConfig) -> Iterator[InvalidConfig]:
    """What is wrong in a config, with its models in it (`with_models`): its criteria, and how it has users played."""
    yield from check_criteria(config)
    yield from read_user_options(config, default_model=config.user_model)[1]


def why_no_scenario(config: EvalConfig) -> str | None:
    """Why these criteria can judge no conversation with a simulated user, with some that can; None where one can."""
    for criterion in config.criteria:
        info = info_of(criterion.metric, config)
        if criterion.metric in config.custom_metrics or (info is not None and info.fits_scenarios):
            return None
    named = ", ".join(criterion.metric for criterion in config.criteria) or "none"
    where = "no configuration names criteria, and the default ones" if config.is_default else config.source
    return (
        f"a conversation with a simulated user has no expected turns, and {one_line(where)}: {named} need them; "
        f"criteria that work: {_WORKS}"
    )
