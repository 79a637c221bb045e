"""Which conversation scenarios a model is to write. Facts: google-adk 2.13, `ConversationGenerationConfig`."""

from __future__ import annotations

from pydantic import Field

from workbench.model.base import AdkModel, Fact

DEFAULT_COUNT = 5
MOST_SCENARIOS = 200
"""How many are written at a time: somebody has to read them."""


class GenerationConfig(AdkModel):
    """The file that says it. What it leaves open is said elsewhere, or has a default."""

    count: int | None = Field(default=None, ge=1, le=MOST_SCENARIOS, strict=True)
    model_name: str | None = None
    generation_instruction: str | None = None
    environment_context: str | None = None


class WantedScenarios(Fact):
    """What is asked for.

    `instruction` is what they should be about, `context` what the agent's tools would find. `personas` are the ids of
    those that may play the users; without any the model chooses, or chooses none.
    """

    count: int = Field(ge=1, le=MOST_SCENARIOS)
    model: str
    instruction: str = ""
    context: str = ""
    personas: tuple[str, ...] = ()
