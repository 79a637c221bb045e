"""One conversation with an agent that has the methods of Agent Engine: which of them is asked, and with what."""

from __future__ import annotations

import uuid
from typing import Any

from ..base import LoadError
from .reading import read_events, read_output

ASKED = ("query", "async_query", "stream_query", "async_stream_query")
"""Methods that answer, the first one that is there counts."""
CREATES = ("async_create_session", "create_session")
"""Methods that an app of ADK opens a session with; such an app streams events."""
STREAMS = ("stream_query", "async_stream_query")


class Engine:
    """Where the methods are."""

    async def parameters(self) -> dict[str, set[str]]:
        """The methods that there are, each with the names of its parameters."""
        raise NotImplementedError

    async def call(self, method: str, arguments: dict[str, Any]) -> Any:
        """What a method gives; of a stream all chunks as a list."""
        raise NotImplementedError


class Talk:
    """One conversation. `say` is what `function.Session` calls."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._methods: dict[str, set[str]] = {}
        self._session_id = ""
        self.is_with_app = False
        """Whether an app of ADK has answered."""

    async def say(self, prompt: str, session: Any) -> dict[str, Any]:
        """The answer to a prompt, in one of the shapes that a function may return."""
        if not self._methods:
            self._methods = await self._engine.parameters()
        creates = next((name for name in CREATES if name in self._methods), None)
        if creates is not None and "query" not in self._methods:
            return await self._say_to_app(creates, prompt, session)
        method = next((name for name in ASKED if name in self._methods), None)
        if method is None:
            raise LoadError(f"the agent has the methods {', '.join(self._methods) or '(none)'}, expected {ASKED[0]}")
        arguments: dict[str, Any] = {"input": prompt}
        if "config" in self._methods[method]:  # agents of LangChain keep what was said under one of these
            self._session_id = self._session_id or str(uuid.uuid4())
            arguments["config"] = {"configurable": {"session_id": self._session_id, "thread_id": self._session_id}}
        return read_output(await self._engine.call(method, arguments), is_stream=method in STREAMS)

    async def _say_to_app(self, creates: str, prompt: str, session: Any) -> dict[str, Any]:
        streams = next((name for name in reversed(STREAMS) if name in self._methods), None)
        if streams is None:
            raise LoadError(f"the agent has {creates} and no {STREAMS[1]}, expected both or {ASKED[0]}")
        if not self._session_id:
            state = {"state": session.state} if session.state else {}
            created = await self._engine.call(creates, {"user_id": session.user_id, **state})
            found = created.get("id") if isinstance(created, dict) else getattr(created, "id", None)
            if not isinstance(found, str):
                raise LoadError(f"{creates} gave no session with an id")
            self._session_id, self.is_with_app = found, True
        arguments = {"user_id": session.user_id, "session_id": self._session_id, "message": prompt}
        return read_events(await self._engine.call(streams, arguments))
