"""Prompt templates for simulated users, one file each."""

from __future__ import annotations

from workbench.llm.prompt_templates import PromptFiles

PROMPTS = PromptFiles(__name__)
