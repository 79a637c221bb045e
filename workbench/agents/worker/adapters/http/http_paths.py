"""JSONPaths of the settings. The library is imported with this module: see `Adapter.import_libraries`."""

from __future__ import annotations

from typing import Any

from jsonpath import JSONPath, JSONPathError, compile

from .. import base


class Path:
    """A JSONPath of the settings; `key` is its place there. Raises LoadError if it is invalid."""

    def __init__(self, text: str, *, key: str) -> None:
        try:
            path = compile(text)
        except JSONPathError as error:
            reason = str(error).strip().splitlines()[0]
            message = f'{key}: found {text!r}, expected a JSONPath such as "$.output.text" ({reason})'
            raise base.LoadError(message) from None
        if not isinstance(path, JSONPath):
            raise base.LoadError(f"{key}: found {text!r}, expected one JSONPath, not several put together")
        self._path = path
        self.text = text
        self.is_single: bool = path.singular_query()
        """True if it leads to one value at most."""
        heads = (JSONPath(env=path.env, segments=path.segments[:end]) for end in range(len(path.segments) + 1))
        self._head = [head for head in heads if head.singular_query()][-1]

    def values(self, document: Any) -> list[Any]:
        """Return the values that it leads to."""
        return list(self._path.findall(document))

    def has_place(self, document: Any) -> bool:
        """Return True if the container that it searches exists."""
        return bool(self._head.findall(document))
