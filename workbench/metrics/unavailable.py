"""Metrics that ADK has and this version has not: known, so that a config naming one is understood, never ignored."""

from __future__ import annotations

from workbench.metrics.definition import MetricInfo

_JUDGE = "needs a judge model, asked in a way that this version does not know"
_SERVICE = "needs the Vertex AI evaluation service, which this version does not use"


def _by_judge(name: str, purpose: str, when: str, *, reference: bool = False, scenarios: bool = True) -> MetricInfo:
    return MetricInfo(
        name=name,
        family="judge",
        purpose=purpose,
        when=when,
        needs_reference=reference,
        needs=frozenset({"judge"}),
        fits_scenarios=scenarios,
        available=False,
        missing=_JUDGE,
    )


def _by_service(
    name: str, purpose: str, when: str, *, lowest: float = 0.0, highest: float = 1.0, reference: bool = False
) -> MetricInfo:
    return MetricInfo(
        name=name,
        family="service",
        purpose=purpose,
        when=when,
        lowest=lowest,
        highest=highest,
        needs_reference=reference,
        needs=frozenset({"service"}),
        fits_scenarios=not reference,
        available=False,
        missing=_SERVICE,
    )


UNAVAILABLE = (
    _by_judge(
        "hallucinations_v1",
        "Which share of the sentences of the answer its context supports.",
        "The agent must not make things up.",
    ),
    _by_judge(
        "per_turn_user_simulator_quality_v1",
        "Which share of the simulated user's messages follows the scenario.",
        "Simulated users are to be trusted.",
    ),
    _by_service("safety_v1", "Whether the response is harmless.", "Anyone may talk to the agent."),
    _by_service(
        "response_evaluation_score",
        "How coherent the response is, from 1 to 5.",
        "The language of the answers matters.",
        lowest=1.0,
        highest=5.0,
        reference=True,
    ),
    _by_service(
        "multi_turn_task_success_v1", "Whether the conversation reached its goal.", "Long tasks, whatever the path."
    ),
    _by_service(
        "multi_turn_trajectory_quality_v1", "How good the path of the conversation was.", "The path matters as well."
    ),
    _by_service(
        "multi_turn_tool_use_quality_v1", "How good the tool calls of the conversation were.", "Tools do the work."
    ),
)
