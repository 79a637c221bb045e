"""Whether cases have what a metric needs: expected responses, an expected state, a fixed conversation."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.metrics.definition import MetricInfo
from workbench.model.evalset import EvalCase


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
