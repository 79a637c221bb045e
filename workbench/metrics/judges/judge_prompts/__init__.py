"""The prompts of judges, one file each. Verdicts depend on their version."""

from __future__ import annotations

from workbench.llm.prompt_templates import PromptFiles

PROMPTS = PromptFiles(__name__)
