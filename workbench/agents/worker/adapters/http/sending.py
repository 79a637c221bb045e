"""What an HTTP agent is sent: the body or query that the settings describe, filled in with what a turn is about."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from .. import base

NAMES = ("prompt", "content", "messages", "history", "turn", "session_id", "user_id", "app_name", "state")
"""What templates may name: the text of the user and its content; the conversation with it, as chat models take it, and
the turns before it; the number of the turn, from 0; the session, its user, app and state."""


class Sending:
    """The `body` of `[targets.NAME.http]`. Raises LoadError where that is no template, or names what there is not."""

    def __init__(self, target: dict[str, Any]) -> None:
        options = target["options"]
        self._key = f"targets.{target['name']}.http.body"
        self.method: str = options.get("method", "POST")
        body = options.get("body")
        self._fill: Callable[[dict[str, Any]], Any] = _default
        if body is None:
            return
        from .templates import Templates

        templates = Templates(NAMES, key=self._key)
        self._fill = templates.of_json(body) if isinstance(body, str) else templates.of_value(body)

    def body(self, data: dict[str, Any]) -> Any:
        """The JSON value to send, given the values of NAMES. Raises LoadError where a template fails on them."""
        try:
            return self._fill(data)
        except base.LoadError:
            raise
        except Exception as error:  # whatever a template of the user's does
            raise base.LoadError(f"{self._key}: {str(error) or type(error).__name__}") from None

    def query(self, data: dict[str, Any]) -> dict[str, str]:
        """The same as the query of a URL: what is no text is written as JSON."""
        body = self.body(data)
        if not isinstance(body, dict):
            raise base.LoadError(f"{self._key}: found no table, expected one: with GET its keys are the query")
        return {key: value if isinstance(value, str) else json.dumps(value) for key, value in body.items()}


def _default(data: dict[str, Any]) -> Any:
    return {"prompt": data["prompt"], "session_id": data["session_id"]}
