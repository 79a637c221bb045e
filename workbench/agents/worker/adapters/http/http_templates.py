"""Templates for requests to an HTTP agent: jinja2, rendered in a sandbox.

Inserted values are data and never rendered again. jinja2 is imported with this module: see `Adapter.import_libraries`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from jinja2 import StrictUndefined, TemplateSyntaxError, Undefined, UndefinedError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ...loading import suggest_name
from .. import base

Fill = Callable[["dict[str, Any]"], Any]
"""Creates a JSON value from the values for templates."""

_WHOLE = re.compile(r"\{\{(?![-+])(?P<expression>(?:(?!\{\{|\}\}).)+)(?<![-+])\}\}", re.DOTALL)


class Templates:
    """Compiles templates that may use certain names. `key` is their place in the settings."""

    def __init__(self, names: tuple[str, ...], *, key: str) -> None:
        self._names = names
        self._key = key
        self._texts = ImmutableSandboxedEnvironment(undefined=StrictUndefined)
        self._json = ImmutableSandboxedEnvironment(undefined=StrictUndefined, finalize=_as_json)

    def compile_json(self, text: str) -> Fill:
        """Compile a template of a whole JSON text. Values are inserted as JSON, so that quotes cannot break it."""
        self._check(text)
        template = self._json.from_string(text)

        def fill(data: dict[str, Any]) -> Any:
            written = template.render(data)
            try:
                return json.loads(written)
            except ValueError as error:
                raise base.LoadError(
                    f"{self._key}: gives no JSON ({error}): values are written as JSON, hence without quotes around "
                    'them: {"text": {{ prompt }}}'
                ) from None

        return fill

    def compile_value(self, value: Any) -> Fill:
        """Compile a JSON value whose texts are templates; a text that is one expression becomes its value."""
        if isinstance(value, dict):
            items = [(key, self.compile_value(item)) for key, item in value.items()]
            return lambda data: {key: fill(data) for key, fill in items}
        if isinstance(value, list):
            fills = [self.compile_value(item) for item in value]
            return lambda data: [fill(data) for fill in fills]
        if not isinstance(value, str) or "{" not in value:
            return lambda _: value
        self._check(value)
        whole = _WHOLE.fullmatch(value.strip())
        if whole is None:
            return self._texts.from_string(value).render
        expression = self._texts.compile_expression(whole["expression"], undefined_to_none=False)
        return lambda data: _require_defined(expression(**data))

    def _check(self, text: str) -> None:
        """Raise LoadError if a text is no template, or uses an unknown name."""
        try:
            names = meta.find_undeclared_variables(self._texts.parse(text))
        except TemplateSyntaxError as error:
            raise base.LoadError(f"{self._key}: line {error.lineno}: {error.message}") from None
        for name in sorted(names.difference(self._names)):
            near = suggest_name(name, list(self._names))
            raise base.LoadError(f"{self._key}: found {name!r}, expected one of {', '.join(self._names)}{near}")


def _as_json(value: Any) -> Any:
    """Return the text for a value in a JSON template. A value with `__html__` comes from `tojson` and is JSON
    already."""
    return value if hasattr(value, "__html__") or isinstance(value, Undefined) else json.dumps(value)


def _require_defined(value: Any) -> Any:
    if isinstance(value, Undefined):
        raise UndefinedError(value._undefined_message)
    return value
