"""Environment variables that the settings of a target name as `${NAME}`: looked up late, and never told."""

from __future__ import annotations

import os
import re

from .adapters.base import LoadError
from .responses import names_secret, without_beginning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, Match, Set

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_PARAMETER = re.compile(r"[?&]([^?&=]+)=[^&]*$")  # of a URL, up to a variable in it
_SHORTEST_SECRET = 8  # characters: what is shorter stands in other words by chance


class Variables:
    """Fills in the variables of one target, and takes their values out of texts that are shown or kept."""

    def __init__(self, target: Dict[str, Any]) -> None:
        self._target = target
        self._values: Dict[str, str] = {}  # what stands in place of each value
        self._secrets: Set[str] = set()

    def fill(self, text: str, *, key: str) -> str:
        """The text with values in place of names; `key` says where below the target it stands. Raises LoadError."""

        def value_of(match: Match[str]) -> str:
            value = os.environ.get(match[1])
            if not value:
                raise self._problem(key, f"the environment variable {match[1]} is not set")
            self._values[value] = match[0]
            parameter = _PARAMETER.search(text[: match.start()])
            names = (match[1], key.rpartition(".")[2], parameter[1] if parameter else "")
            if any(names_secret(name) for name in names):
                self._secrets.add(value)
            return value

        filled = _VARIABLE.sub(value_of, text)
        if not filled.isprintable():
            raise self._problem(key, "a variable in it holds a line break or another control character")
        return filled

    def headers(self) -> Dict[str, str]:
        """The headers of the target's own table, filled in. Raises LoadError."""
        headers: Dict[str, str] = self._target["options"].get("headers", {})
        filled = {
            name: self.fill(value, key=f"{self._target['kind']}.headers.{name}") for name, value in headers.items()
        }
        for name, value in filled.items():
            if names_secret(name):
                words = value.split()  # such as Bearer and a token
                self._secrets.update(words)
                for word in words:
                    self._values.setdefault(word, "[redacted]")
        return filled

    def conceal(self, text: str) -> str:
        """The text of a failure, with `${NAME}` for every value that was filled in, also where the text was cut within
        it."""
        text = self._without(self._values, text)
        for value in self._values:
            if len(value) >= _SHORTEST_SECRET:
                text = without_beginning(text, value, self._values[value])
        return text

    def conceal_secrets(self, value: Any) -> Any:
        """A JSON value that is judged, with `${NAME}` in its texts for values that are secrets.

        That is told by the name of the variable, header or parameter: other values may be what the agent should say.
        """
        if isinstance(value, str):
            return self._without(self._secrets, value)
        if isinstance(value, dict):
            return {key: self.conceal_secrets(item) for key, item in value.items()}
        return [self.conceal_secrets(item) for item in value] if isinstance(value, list) else value

    def _without(self, values: Iterable[str], text: str) -> str:
        for value in sorted(values, key=len, reverse=True):  # one may stand in another
            if len(value) >= _SHORTEST_SECRET:
                text = text.replace(value, self._values[value])
        return text

    def _problem(self, key: str, message: str) -> LoadError:
        return LoadError(f"targets.{self._target['name']}.{key}: {message}")
