"""The prompts of judges: templates in files, rendered in a sandbox. Values are data and never rendered again."""

from __future__ import annotations

from typing import Any

from workbench.llm.prompt_templates import PromptFiles

_FILES = PromptFiles(__name__)


def render(name: str, **data: Any) -> str:
    """Render the prompt `name`. Raises jinja2.UndefinedError if `data` lacks a name of the template."""
    return _FILES.render(name, **data)


def get_version() -> str:
    """Return a text that changes if and only if a prompt changes: verdicts depend on the prompts."""
    return _FILES.version
