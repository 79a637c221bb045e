"""The prompts of judges: templates in files, rendered in a sandbox. What is filled in is data and rendered once."""

from __future__ import annotations

from typing import Any

from workbench.llm.prompt_templates import PromptFiles

_FILES = PromptFiles(__name__)


def render(name: str, **data: Any) -> str:
    """The prompt `name`, filled in. A name in the template that is missing here raises jinja2.UndefinedError."""
    return _FILES.render(name, **data)


def get_version() -> str:
    """Another text exactly where any prompt is another: a verdict depends on what the judge was asked."""
    return _FILES.version
