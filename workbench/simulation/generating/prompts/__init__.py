"""What a model is told that writes scenarios: a template in a file. What is filled in is data and rendered once."""

from __future__ import annotations

from workbench.llm.prompt_templates import PromptFiles

PROMPTS = PromptFiles(__name__)
