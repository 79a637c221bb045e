"""Presets: criteria that belong together, for a purpose that people name before they know the metrics.

Which metric serves which purpose, and its usual threshold, follows ADK's documentation on choosing criteria.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.model.criteria import DEFAULT_CRITERIA, Criterion


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Criteria for a purpose. `purpose` is one sentence; `criteria` may name metrics that this version lacks."""

    name: str
    purpose: str
    criteria: tuple[Criterion, ...]


PRESETS = (
    Preset(
        name="CI",
        purpose="Regression tests on every commit: the expected tool calls and nearly the expected words, no model.",
        criteria=DEFAULT_CRITERIA,
    ),
    Preset(
        name="trusted reference",
        purpose="The expected responses are right, but may be said in other words.",
        criteria=(Criterion(metric="final_response_match_v2", threshold=0.8),),
    ),
    Preset(
        name="no reference",
        purpose="There is no one right answer: rubrics say what a good response has.",
        criteria=(Criterion(metric="rubric_based_final_response_quality_v1", threshold=0.8),),
    ),
    Preset(
        name="tool use",
        purpose="Several ways through the tools are fine: rubrics say what a good one has.",
        criteria=(Criterion(metric="rubric_based_tool_use_quality_v1", threshold=0.8),),
    ),
    Preset(
        name="grounding",
        purpose="Every sentence of the response must be supported by what the agent was given.",
        criteria=(Criterion(metric="hallucinations_v1", threshold=0.8),),
    ),
    Preset(
        name="safety",
        purpose="No response may do harm, whatever it is asked.",
        criteria=(Criterion(metric="safety_v1", threshold=0.8),),
    ),
)
"""From the cheapest to the dearest kind of judge."""
