"""The sample agents, imported by path and run directly, without workers, metrics or engine."""

from __future__ import annotations

import asyncio
import copy
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from workbench.model.evalset import EvalCase
from workbench.model.trace import ToolCall, get_trajectory, read_trajectory

SAMPLES = Path(__file__).parents[2] / "sample_agents"


class Course(NamedTuple):
    """How a case went: the parts of the expectation that were missed, and the turn that raised, if one did."""

    missed: set[str]
    raised: tuple[int, type[Exception]] | None


@pytest.fixture
def load_agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Imports an agent, given as `package.module:callable`, and forgets its package afterwards."""
    monkeypatch.syspath_prepend(str(SAMPLES))
    before = set(sys.modules)

    def load(location: str) -> Any:
        module, name = location.split(":")
        return getattr(importlib.import_module(module), name)

    yield load
    for module in set(sys.modules) - before:
        file = getattr(sys.modules[module], "__file__", None)
        if file and Path(file).is_relative_to(SAMPLES):
            del sys.modules[module]


class Answer(NamedTuple):
    """What an agent gave for one prompt."""

    response: str
    calls: list[ToolCall]


def session_of(state: dict[str, Any]) -> SimpleNamespace:
    """A session as the worker hands it to a function agent."""
    return SimpleNamespace(state=state, history=[], user_id="user", app_name="app", session_id="session")


def answer_of(agent: Callable[..., Any], prompt: str, session: Any) -> Answer:
    """What an agent of any form answers."""
    code = agent if inspect.isroutine(agent) else type(agent).__call__
    parameters = [name for name in inspect.signature(code).parameters if name != "self"]
    given = agent(prompt, session) if len(parameters) == 2 else agent(prompt)
    if inspect.isawaitable(given):
        given = asyncio.run(_result(given))
    if isinstance(given, str):
        return Answer(given, [])
    return Answer(given["response"], read_trajectory(given["predicted_trajectory"]))


async def _result(awaitable: Any) -> Any:
    return await awaitable


@pytest.fixture
def ask() -> Callable[[Callable[..., Any], str], Answer]:
    """Asks an agent one thing in a session of its own."""
    return lambda agent, prompt: answer_of(agent, prompt, session_of({}))


@pytest.fixture
def follow() -> Callable[[Callable[..., Any], EvalCase], Course]:
    """Runs a case with an agent and holds each turn, and the state at the end, against the expectation."""

    def follow(agent: Callable[..., Any], case: EvalCase) -> Course:
        state = copy.deepcopy(case.session_input.state) if case.session_input else {}
        session = session_of(state)
        missed: set[str] = set()
        for index, invocation in enumerate(case.conversation or ()):
            prompt = invocation.user_content.text()
            try:
                response, calls = answer_of(agent, prompt, session)
            except Exception as problem:  # an agent may raise anything
                return Course(missed, (index, type(problem)))
            session.history.append({"prompt": prompt, "response": response})
            if calls != get_trajectory(invocation):
                missed.add("trajectory")
            if invocation.final_response is None or response != invocation.final_response.text():
                missed.add("response")
        if case.final_session_state and state != case.final_session_state:
            missed.add("state")
        return Course(missed, None)

    return follow
