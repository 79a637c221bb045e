"""Prompts as jinja2 templates, rendered in a sandbox. What is filled in is data: it is rendered once, as it is."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache, cached_property
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Template
    from jinja2.sandbox import SandboxedEnvironment


class TemplateProblem(ValueError):
    """A template of the user cannot be read or filled in; the message says where and why."""


class PromptFiles:
    """The templates in one package of ours: files named `<prompt>.jinja`."""

    def __init__(self, package: str) -> None:
        self._package = package
        self._templates: dict[str, Template] = {}

    def render(self, name: str, **data: Any) -> str:
        """The prompt `name`, filled in. A name in the template that is missing here raises jinja2.UndefinedError."""
        template = self._templates.get(name)
        if template is None:
            text = resources.files(self._package).joinpath(f"{name}.jinja").read_text(encoding="utf-8")
            template = self._templates[name] = _environment().from_string(text)
        return template.render(**data)

    @cached_property
    def version(self) -> str:
        """Another text exactly where any prompt is another: what a model says depends on what it was asked."""
        digest = hashlib.sha256()
        for file in sorted(resources.files(self._package).iterdir(), key=lambda file: file.name):
            if file.name.endswith(".jinja"):
                digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
        return digest.hexdigest()


def names_in(text: str) -> frozenset[str]:
    """The names that a template of the user expects to be given. Raises TemplateProblem where it is no template."""
    from jinja2 import TemplateSyntaxError, meta

    try:
        return frozenset(meta.find_undeclared_variables(_environment().parse(text)))
    except TemplateSyntaxError as error:
        raise TemplateProblem(f"line {error.lineno}: {error.message}") from error


def render_text(text: str, data: Mapping[str, Any]) -> str:
    """A template of the user, filled in. Raises TemplateProblem."""
    names_in(text)
    try:
        return _environment().from_string(text).render(**data)
    except Exception as error:  # whatever the template does, MemoryError included: it is code of the user
        raise TemplateProblem(str(error) or type(error).__name__) from error


@cache
def _environment() -> SandboxedEnvironment:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    # Not HTML: nothing is escaped. What comes from outside stands between marks that the prompt calls data.
    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=False, autoescape=False
    )
    # Templates written for ADK use it on texts of personas, which are given here as they are after that.
    environment.filters["render_string_filter"] = str
    return environment
