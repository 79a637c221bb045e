"""Fixtures that import and run the sample agents directly, without workers, metrics or engine."""

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


class Outcome(NamedTuple):
    """The outcome of a case: differing parts of the expectation, and the turn and type of an exception."""

    differences: set[str]
    exception: tuple[int, type[Exception]] | None


@pytest.fixture
def load_agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Import agents given as `package.module:callable`; unload their packages afterwards."""
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
    """The answer of an agent to one prompt."""

    response: str
    calls: list[ToolCall]


def make_session(state: dict[str, Any]) -> SimpleNamespace:
    """Return a session like the one that a worker passes to a function agent."""
    return SimpleNamespace(state=state, history=[], user_id="user", app_name="app", session_id="session")


def ask_agent(agent: Callable[..., Any], prompt: str, session: Any) -> Answer:
    """Return the answer of an agent of any form."""
    code = agent if inspect.isroutine(agent) else type(agent).__call__
    parameters = [name for name in inspect.signature(code).parameters if name != "self"]
    answer = agent(prompt, session) if len(parameters) == 2 else agent(prompt)
    if inspect.isawaitable(answer):
        answer = asyncio.run(_await_result(answer))
    if isinstance(answer, str):
        return Answer(answer, [])
    return Answer(answer["response"], read_trajectory(answer["predicted_trajectory"]))


async def _await_result(awaitable: Any) -> Any:
    return await awaitable


@pytest.fixture
def ask() -> Callable[[Callable[..., Any], str], Answer]:
    """Ask an agent one prompt in a new session."""
    return lambda agent, prompt: ask_agent(agent, prompt, make_session({}))


@pytest.fixture
def run_case() -> Callable[[Callable[..., Any], EvalCase], Outcome]:
    """Run a case with an agent, and compare each turn and the final state with the expectation."""

    def run_case(agent: Callable[..., Any], case: EvalCase) -> Outcome:
        state = copy.deepcopy(case.session_input.state) if case.session_input else {}
        session = make_session(state)
        differences: set[str] = set()
        for index, invocation in enumerate(case.conversation or ()):
            prompt = invocation.user_content.text()
            try:
                response, calls = ask_agent(agent, prompt, session)
            except Exception as problem:  # an agent may raise anything
                return Outcome(differences, (index, type(problem)))
            session.history.append({"prompt": prompt, "response": response})
            if calls != get_trajectory(invocation):
                differences.add("trajectory")
            if invocation.final_response is None or response != invocation.final_response.text():
                differences.add("response")
        if case.final_session_state and state != case.final_session_state:
            differences.add("state")
        return Outcome(differences, None)

    return run_case
