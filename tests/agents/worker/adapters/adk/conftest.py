"""ADK agents in a folder of the test, run through the adapter in this process."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.agents.worker.adapters.adk.prelude import PRELUDE
from workbench.agents.worker.adapters import adk
from workbench.model.evalset import Invocation
from workbench.model.results import TurnResult
from workbench.model.trace import Span, SpanKind, get_trajectory

TOOL_AGENT = """
def add(a: int, b: int) -> dict:
    return {"sum": a + b}

root_agent = llm_agent("root", [call("add", a=1, b=2)], "3", tools=[add], instruction="Add numbers.")
"""


@dataclass
class Conversation:
    """The outcome of a conversation: its finished turns, its error, its spans and its state."""

    turns: list[TurnResult] = field(default_factory=list)
    error: BaseException | None = None
    spans: list[Span] = field(default_factory=list)
    state: dict[str, Any] | None = None

    @property
    def invocation(self) -> Invocation:
        return self.turns[-1].invocation

    @property
    def text(self) -> str | None:
        response = self.invocation.final_response
        return None if response is None else response.text()

    @property
    def calls(self) -> list[tuple[str, Any]]:
        return [(call.name, call.args) for call in get_trajectory(self.invocation)]

    def find_spans(self, kind: SpanKind, name: str | None = None) -> list[Span]:
        return [span for span in self.spans if span.kind == kind and name in (None, span.name)]

    def find_span(self, kind: SpanKind, name: str | None = None) -> Span:
        (span,) = self.find_spans(kind, name)
        return span

    def get_ancestors(self, span: Span) -> list[str]:
        """Return the kinds and names of the ancestors of a span, innermost first."""
        by_id = {span.id: span for span in self.spans}
        ancestors = []
        while span.parent_id is not None:
            span = by_id[span.parent_id]
            ancestors.append(f"{span.kind.value} {span.name}")
        return ancestors


class Agents:
    """A folder of agents, in the layout of `adk web`."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._monkeypatch = monkeypatch

    def write(self, name: str, files: dict[str, str]) -> Path:
        for path, text in files.items():
            file = self.folder / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(textwrap.dedent(text), encoding="utf-8")
        return self.folder / name

    def write_agent(self, name: str, code: str) -> Path:
        """Write a package with `agent.py`, which may use everything in PRELUDE."""
        return self.write(name, {"__init__.py": "from . import agent\n", "agent.py": PRELUDE + textwrap.dedent(code)})

    def adapter(self, name: str) -> adk.Adapter:
        adapter = adk.Adapter(
            {"kind": "adk", "name": name, "location": name, "path": str(self.folder), "env_file": None}
        )
        for root in reversed(adapter.import_roots()):
            self._monkeypatch.syspath_prepend(root)
        return adapter

    async def talk(self, name: str, *prompts: str | dict[str, Any], **session: Any) -> Conversation:
        """Load the agent and hold a conversation with it; an error ends it and is stored in it."""
        adapter = self.adapter(name)
        adapter.load()
        return await converse(adapter, *prompts, **session)

    async def talk_to(self, code: str, *prompts: str | dict[str, Any], **session: Any) -> Conversation:
        """Hold a conversation with an agent made of this code."""
        self.write_agent("the_agent", code)
        return await self.talk("the_agent", *prompts, **session)


async def converse(adapter: adk.Adapter, *prompts: str | dict[str, Any], **session: Any) -> Conversation:
    """Hold a conversation. A prompt is a text, or a part of a user content as data."""
    conversation = Conversation()
    span_data: list[dict[str, Any]] = []
    adapter_session = await adapter.open(
        {"app_name": "app", "user_id": "user", "session_id": None, "state": {}, "collect_spans": True, **session},
        span_data.append,
    )
    try:
        for index, prompt in enumerate(prompts):
            part = {"text": prompt} if isinstance(prompt, str) else prompt
            turn = await adapter_session.turn({"role": "user", "parts": [part]}, index)
            conversation.turns.append(TurnResult.model_validate(turn))
    except Exception as error:
        conversation.error = error
    conversation.state = (await adapter_session.close())["final_state"]
    conversation.spans = [Span.model_validate(span) for span in span_data]
    return conversation


@pytest.fixture
def agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Agents]:
    """A folder for the agents of one test; their modules are unloaded afterwards."""
    folder = tmp_path / "agents"
    folder.mkdir()
    before = set(sys.modules)
    yield Agents(folder, monkeypatch)
    for name in set(sys.modules) - before:
        file: Sequence[str] = [str(getattr(sys.modules[name], "__file__", None) or "")]
        file = [*file, *map(str, getattr(sys.modules[name], "__path__", ()))]
        if any(path.startswith(str(tmp_path)) for path in file):
            del sys.modules[name]
