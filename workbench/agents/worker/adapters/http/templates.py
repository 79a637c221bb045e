"""Templates of the user's for what an HTTP agent is sent: jinja2, rendered in a sandbox.

What is filled in is data, and never rendered again. jinja2 is imported with this module: see `Adapter.import_own`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from jinja2 import StrictUndefined, TemplateSyntaxError, Undefined, UndefinedError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ...loading import nearest
from .. import base

Fill = Callable[["dict[str, Any]"], Any]
"""Makes a JSON value of what templates may name."""

_WHOLE = re.compile(r"\{\{(?![-+])(?P<expression>(?:(?!\{\{|\}\}).)+)(?<![-+])\}\}", re.DOTALL)


class Templates:
    """Reads templates that may use certain names. `key` says where in the settings they stand."""

    def __init__(self, names: tuple[str, ...], *, key: str) -> None:
        self._names = names
        self._key = key
        self._texts = ImmutableSandboxedEnvironment(undefined=StrictUndefined)
        self._json = ImmutableSandboxedEnvironment(undefined=StrictUndefined, finalize=_as_json)

    def of_json(self, text: str) -> Fill:
        """A template of a whole JSON text: what is filled in is written as JSON, so that no quote in it breaks out."""
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

    def of_value(self, value: Any) -> Fill:
        """A JSON value in which each text is a template; one that is a single expression gives its value."""
        if isinstance(value, dict):
            items = [(key, self.of_value(item)) for key, item in value.items()]
            return lambda data: {key: fill(data) for key, fill in items}
        if isinstance(value, list):
            fills = [self.of_value(item) for item in value]
            return lambda data: [fill(data) for fill in fills]
        if not isinstance(value, str) or "{" not in value:
            return lambda _: value
        self._check(value)
        whole = _WHOLE.fullmatch(value.strip())
        if whole is None:
            return self._texts.from_string(value).render
        expression = self._texts.compile_expression(whole["expression"], undefined_to_none=False)
        return lambda data: _defined(expression(**data))

    def _check(self, text: str) -> None:
        """Raise LoadError where a text is no template, or names what there is not."""
        try:
            names = meta.find_undeclared_variables(self._texts.parse(text))
        except TemplateSyntaxError as error:
            raise base.LoadError(f"{self._key}: line {error.lineno}: {error.message}") from None
        for name in sorted(names.difference(self._names)):
            near = nearest(name, list(self._names))
            raise base.LoadError(f"{self._key}: found {name!r}, expected one of {', '.join(self._names)}{near}")


def _as_json(value: Any) -> Any:
    """What stands for a value in a template of JSON; what has `__html__` comes from `tojson`, and is JSON already."""
    return value if hasattr(value, "__html__") or isinstance(value, Undefined) else json.dumps(value)


def _defined(value: Any) -> Any:
    if isinstance(value, Undefined):
        raise UndefinedError(value._undefined_message)
    return value
