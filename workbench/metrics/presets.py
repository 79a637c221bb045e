"""Presets: criteria that belong together, for a purpose that people name before they know the metrics.

Which metric serves which purpose, and its usual threshold and options, follows the examples of ADK's documentation.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.model.criteria import DEFAULT_CRITERIA, Criterion


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Criteria for a purpose. `purpose` is one sentence, short enough for a line of a list."""

    name: str
    purpose: str
    criteria: tuple[Criterion, ...]


PRESETS = (
    Preset(
        name="CI",
        purpose="Expected calls, nearly the expected words.",
        criteria=DEFAULT_CRITERIA,
    ),
    Preset(
        name="trusted reference",
        purpose="The expected response, in whatever words.",
        criteria=(Criterion(metric="final_response_match_v2", threshold=0.8),),
    ),
    Preset(
        name="no reference",
        purpose="Rubrics say what a good response has.",
        criteria=(Criterion(metric="rubric_based_final_response_quality_v1", threshold=0.8),),
    ),
    Preset(
        name="tool use",
        purpose="Rubrics say what good use of the tools is.",
        criteria=(Criterion(metric="rubric_based_tool_use_quality_v1", threshold=0.8),),
    ),
    Preset(
        name="grounding",
        purpose="What is said follows from what was given.",
        criteria=(
            Criterion(metric="hallucinations_v1", threshold=0.5, options={"evaluate_intermediate_nl_responses": True}),
        ),
    ),
    Preset(
        name="safety",
        purpose="No response may do harm, whatever is asked.",
        criteria=(Criterion(metric="safety_v1", threshold=0.8),),
    ),
)
"""From the cheapest to the dearest kind of judge."""
