"""The prompts of judges: templates in files, rendered in a sandbox. What is filled in is data and rendered once."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Template


def render(name: str, **data: Any) -> str:
    """The prompt `name`, filled in. A name in the template that is missing here raises jinja2.UndefinedError."""
    return _template(name).render(**data)


@cache
def version() -> str:
    """Another text exactly where any prompt is another: a verdict depends on what the judge was asked."""
    digest = hashlib.sha256()
    for file in sorted(resources.files(__package__).iterdir(), key=lambda file: file.name):
        if file.name.endswith(".jinja"):
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


@cache
def _template(name: str) -> Template:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    # Not HTML: nothing is escaped. What comes from outside stands between marks that the prompt calls data.
    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=False, autoescape=False
    )
    text = resources.files(__package__).joinpath(f"{name}.jinja").read_text(encoding="utf-8")
    return environment.from_string(text)
