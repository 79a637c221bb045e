"""The adapter for agents written with google-adk.

google.adk is imported inside functions, so that this package can be imported and its pure parts tested without it.
google.adk.evaluation is never imported: it costs 6 s and 340 MB, and running an agent does not need it.
"""

from __future__ import annotations

import functools
import sys
import warnings
from typing import Any

from .. import base
from .adk_agents import (
    AdkAgentSource,
    Instructions,
    agent_folder,
    find_agent,
    find_env_file,
    import_roots,
    make_agent,
    refuse_unknown_tools,
    require_adk,
    sub_agent,
)
from .adk_session import AdkSession, open_session, run_dummy

_LITE_LLM = "google.adk.models.lite_llm"


class Adapter(base.Adapter):
    """One ADK agent in one process. `location` is its folder."""

    preload = (
        "google.adk.agents",
        "google.adk.runners",
        "google.adk.apps.app",
        "google.adk.tools.agent_tool",
        "google.adk.artifacts.in_memory_artifact_service",
        "google.adk.memory.in_memory_memory_service",
        "google.adk.sessions.in_memory_session_service",
        "google.adk.models.google_llm",
    )

    def __init__(self, target: dict[str, Any]) -> None:
        super().__init__(target)
        self._folder = agent_folder(target)
        self._source: AdkAgentSource | None = None
        self._users: set[object] = set()
        self._instructions = Instructions()
        # ADK's own modules use what ADK calls experimental; a warning about the user's modules stays.
        warnings.filterwarnings("ignore", message=r"\[EXPERIMENTAL\]", module=r"google\.adk\.")

    def import_roots(self) -> list[str]:
        """Return the folder above the agent's, so that `from my_agent.tools import x` works, and the target's path."""
        return list(dict.fromkeys([*import_roots(self._folder), self.target["path"]]))

    def env_files(self) -> list[str]:
        """Return the target's own file, else the nearest `.env` from the agent's folder upwards, as ADK does."""
        configured = super().env_files()
        nearest = None if configured else find_env_file(self._folder)
        return configured or ([nearest] if nearest else [])

    def run_warmup(self) -> None:
        """Run a dummy agent with a model and a tool once. See `Adapter.run_warmup`."""
        run_dummy()

    def late_imports(self) -> list[str]:
        """Return LiteLLM if the agent has such a model: ADK imports it at the first call."""
        return ["litellm"] if _LITE_LLM in sys.modules else []

    def import_library(self, name: str) -> None:
        """Import LiteLLM as ADK does: with the mode in which it reads no `.env` file by itself."""
        lite_llm = sys.modules.get(_LITE_LLM) if name == "litellm" else None
        getattr(lite_llm, "_ensure_litellm_imported", lambda: None)()  # earlier versions of ADK do not have it
        super().import_library(name)

    def intercept_models(self) -> None:
        """Wrap the classes of models when an agent uses them. See `Adapter.intercept_models`."""
        from .adk_plugin import wrap_models

        wrap_models(self.import_roots())

    def load(self) -> None:
        """Import the agent. A factory is called later for each session, because it may need the event loop."""
        require_adk()
        self._source = find_agent(self._folder)

    async def open(
        self, session: dict[str, Any], emit_span: base.EmitSpan, tools: base.InterceptedTools | None = None
    ) -> AdkSession:
        if self._source is None:
            self.load()
        source = self._source
        assert source is not None
        agent, stack = (source.agent, None) if source.factory is None else await make_agent(source)
        app = source.app
        name = self.target.get("sub_agent")
        if name:
            agent = sub_agent(agent if app is None else app.root_agent, name)
            app = app if app is None else app.model_copy(update={"root_agent": agent})
        root = agent if app is None else app.root_agent
        self._instructions.replace(root, session.get("instructions") or {})
        if tools is not None:
            refuse_unknown_tools(tools, root)
        # A factory makes an agent for this session only. The last session that uses any other agent closes it.
        users = self._users if source.factory is None else set()
        user = object()
        release = functools.partial(_release, users, user)
        opened = await open_session(session, emit_span, app=app, agent=agent, release=release, stack=stack, tools=tools)
        users.add(user)
        return opened


def _release(users: set[object], user: object) -> bool:
    """Remove a session from the users of an agent; return True if none is left."""
    users.discard(user)
    return not users
