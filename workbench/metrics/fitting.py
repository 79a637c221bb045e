"""Whether cases have what a metric needs: expected responses, a fixed conversation, ...; and rows the columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from workbench.metrics.definition import MetricInfo
from workbench.model.criteria import EvalConfig
from workbench.model.evalset import EvalCase
from workbench.model.judge_metrics import JudgeMetric


@dataclass(frozen=True, kw_only=True)
class CaseFacts:
    """How many of some cases have what. Facts of parts add up to those of the whole.

    `responses` counts cases in which every turn has an expected response, `rubrics` those with rubrics of their own.
    """

    cases: int = 0
    conversations: int = 0
    scenarios: int = 0
    responses: int = 0
    states: int = 0
    rubrics: int = 0

    @classmethod
    def of(cls, case: EvalCase) -> CaseFacts:
        """The facts of one case."""
        turns = case.conversation or ()
        return cls(
            cases=1,
            conversations=int(case.conversation is not None),
            scenarios=int(case.conversation_scenario is not None),
            responses=int(bool(turns) and all(turn.final_response is not None for turn in turns)),
            states=int(case.final_session_state is not None),
            rubrics=int(bool(case.rubrics) or any(turn.rubrics for turn in turns)),
        )

    def __add__(self, other: CaseFacts) -> CaseFacts:
        return CaseFacts(
            cases=self.cases + other.cases,
            conversations=self.conversations + other.conversations,
            scenarios=self.scenarios + other.scenarios,
            responses=self.responses + other.responses,
            states=self.states + other.states,
            rubrics=self.rubrics + other.rubrics,
        )


@dataclass(frozen=True)
class Fit:
    """How many of some cases a metric can say something about; `lacking` is what the others do not have."""

    usable: int
    lacking: str


def fit_of(info: MetricInfo, facts: CaseFacts) -> Fit:
    """How well a metric fits cases.

    A case without expected tool calls is one that expects none, so trajectories need no more than a conversation.
    Rubrics are not counted: a criterion may bring its own.
    """
    if info.family == "state":
        return Fit(facts.states, "an expected final state")
    if info.name == "per_turn_user_simulator_quality_v1":
        return Fit(facts.scenarios, "a scenario")
    if info.needs_reference and info.family != "trajectory":
        return Fit(facts.responses, "an expected response in every turn")
    if not info.fits_scenarios:
        return Fit(facts.conversations, "a fixed conversation")
    return Fit(facts.cases, "anything to judge")


_COLUMNS_OF = {
    "trajectory": ("predicted_trajectory", "reference_trajectory"),
    "response": ("response", "reference"),
    "judge": ("response", "reference"),
}
"""What metrics of a family compare: what was done, and what should have been."""

_OF_ROWS = frozenset({"prompt", "response", "reference", "predicted_trajectory", "reference_trajectory", "history"})
"""What judges may be shown of any case; of a row only where it is a column."""

_COLUMNS_TOLD = 8


@dataclass(frozen=True)
class LackingColumns:
    """The metrics that cannot have a score in any row of a dataset, each with the columns that it misses.

    `are_all`: there is no metric besides, so that nothing at all would come of judging.
    """

    missing: Mapping[str, tuple[str, ...]]
    are_all: bool

    def said_beside(self, found: Sequence[str]) -> str:
        """What is wrong, for people: the columns that were found, and which are expected for what."""
        metrics: dict[tuple[str, ...], list[str]] = {}
        for metric, names in self.missing.items():
            metrics.setdefault(names, []).append(metric)
        expected = "; ".join(f"{' and '.join(names)} for {', '.join(those)}" for names, those in metrics.items())
        more = ", …" if len(found) > _COLUMNS_TOLD else ""
        return f"found the columns {', '.join(found[:_COLUMNS_TOLD])}{more}, expected {expected}"


def lacking_columns(config: EvalConfig, columns: Collection[str]) -> LackingColumns:
    """What the criteria of a config miss in a dataset with these columns.

    Of custom metrics nobody knows what they look at.
    """
    from workbench.metrics.registry import info_of  # the screen is there before what judges

    missing: dict[str, tuple[str, ...]] = {}
    for metric in dict.fromkeys(criterion.metric for criterion in config.criteria):
        judge, info = config.judge_metrics.get(metric), info_of(metric, config)
        if judge is not None:
            missing[metric] = _missing_for_judge(judge, columns)
        else:
            missing[metric] = () if info is None else _missing(info, columns)
    lacking = {metric: names for metric, names in missing.items() if names}
    return LackingColumns(lacking, are_all=bool(lacking) and len(lacking) == len(missing))


def _missing_for_judge(metric: JudgeMetric, columns: Collection[str]) -> tuple[str, ...]:
    from workbench.metrics.judges.templated import inputs_of

    needed = [name for name in inputs_of(metric) if name in _OF_ROWS]
    if metric.baseline is not None and metric.baseline.column is not None:
        needed.append(metric.baseline.column)
    return tuple(name for name in needed if name not in columns)


def _missing(info: MetricInfo, columns: Collection[str]) -> tuple[str, ...]:
    if info.family not in _COLUMNS_OF:
        return ()
    if info.family == "judge" and not info.needs_reference:  # each knows itself what it looks at
        return () if not info.columns or any(name in columns for name in info.columns) else (info.columns[0],)
    actual, expected = _COLUMNS_OF[info.family]
    needed = (actual, expected) if info.needs_reference else (actual,)
    return tuple(name for name in needed if name not in columns)
