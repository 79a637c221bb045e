"""What answers prompts: functions, objects that are asked through a method, and agents of frameworks.

They run in the caller's process, through the adapters that workers have: what they tell is read in one place. No
framework is imported here: whoever made an object has imported what it needs, and it is known by what it is.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from workbench.agents.worker.adapters import function
from workbench.agents.worker.adapters.base import AgentFault, EmitSpan, Session
from workbench.agents.worker.answers import tells_trajectory
from workbench.agents.worker.values import describe
from workbench.testing.evaluation.calling import in_own_thread
from workbench.testing.evaluation.problems import EvaluationError

_LOUD = "google_adk"  # above all loggers of google-adk
_EXPECTED = (
    "a function f(prompt), an object with query(input=), a Runnable or compiled graph of LangChain, "
    "or an agent or app of google-adk"
)


@dataclass(frozen=True)
class Agent:
    """What is asked, a fresh session for each prompt: `open` takes what `Adapter.open` does."""

    name: str
    open: Callable[[dict[str, Any], EmitSpan], Session | Awaitable[Session]]


@contextmanager
def quiet_frameworks() -> Iterator[None]:
    """Frameworks log the tracebacks of what a row says in a sentence: where nobody listens, they are not printed."""
    silence = logging.NullHandler()  # of each caller, who may be one of several at a time
    logger = logging.getLogger(_LOUD)
    logger.addHandler(silence)
    try:
        yield
    finally:
        logger.removeHandler(silence)


def agent_of(runnable: Any) -> Agent:
    """The agent that a `runnable` is. Raises EvaluationError."""
    if _is_a(runnable, "Runnable", package="langchain_core"):
        return Agent(_name_of(runnable), partial(_open_langchain, runnable))
    if _is_a(runnable, "BaseNode", package="google.adk") or _is_a(runnable, "App", package="google.adk"):
        return Agent(_name_of(runnable), partial(_open_adk, runnable))
    if not isinstance(runnable, type):
        from workbench.agents.worker.adapters.agent_engine import is_agent

        if is_agent(runnable):
            return Agent(_name_of(runnable), partial(_open_engine, runnable))
    if callable(runnable):
        return _agent_of_function(runnable)
    is_unfinished = _is_a(runnable, "StateGraph", package="langgraph")
    hint = " that was not compiled (its .compile() gives what can be asked)" if is_unfinished else ""
    raise EvaluationError(f"runnable: found {describe(runnable)}{hint}, expected {_EXPECTED}")


def agent_of_model(model: Any) -> Agent:
    """The agent that a `model` is: a function `f(prompt)`, or an object with `generate_content(prompt)`.

    Raises EvaluationError.
    """
    generate = getattr(model, "generate_content", None)
    if callable(generate) and not isinstance(model, type):
        return _agent_of_function(partial(_generate, generate), name=_name_of(model))
    if callable(model):
        return _agent_of_function(model)
    expected = "a function f(prompt) or an object with generate_content"
    raise EvaluationError(f"model: found {describe(model)}, expected {expected}")


class _FunctionSession(function.Session):
    """A prompt for a function. One that says nothing of a trajectory has none, which is not the same as one that called
    no tool."""

    def _finish_turn(self, value: Any, *others: Any) -> dict[str, Any]:
        told = super()._finish_turn(value, *others)
        if not tells_trajectory(value):
            told["invocation"]["intermediate_data"] = None
            told["calls_unknown"] = None
            told.pop("calls_untold", None)
        return told


def _agent_of_function(call: Callable[[str], Any], *, name: str = "") -> Agent:
    named = name or _name_of(call)
    return Agent(named, partial(_open_function, named, lambda prompt, _session: call(prompt)))


def _open_function(name: str, call: Callable[..., Any], request: dict[str, Any], emit: EmitSpan) -> Session:
    return _FunctionSession(name=name, call=call, request=request, emit_span=emit, describe=dict)


def _open_engine(agent: Any, request: dict[str, Any], emit: EmitSpan) -> Session:
    from workbench.agents.worker.adapters.agent_engine import Local
    from workbench.agents.worker.adapters.agent_engine.talk import Talk

    talk = Talk(Local(agent, in_thread=in_own_thread))
    return _open_function(_name_of(agent), talk.say, request, emit)


def _open_langchain(runnable: Any, request: dict[str, Any], emit: EmitSpan) -> Session:
    from workbench.agents.worker.adapters.langchain.forms import form_of
    from workbench.agents.worker.adapters.langchain.session import LangchainSession

    form = form_of(runnable, request)
    return LangchainSession(name=_name_of(runnable), runnable=runnable, form=form, request=request, emit=emit)


def _open_adk(agent: Any, request: dict[str, Any], emit: EmitSpan) -> Awaitable[Session]:
    from workbench.agents.worker.adapters.adk.session import open_session

    app, root = (agent, None) if _is_a(agent, "App", package="google.adk") else (None, agent)
    # The caller's tools stay open: they may be used again.
    return open_session(request, emit, app=app, agent=root, release=lambda: False, stack=None)


def _generate(generate: Callable[[str], Any], prompt: str) -> str:
    reply = generate(prompt)
    text = getattr(reply, "text", None)
    if not isinstance(text, str):
        raise AgentFault(f"the model gave {describe(reply)} without text")
    return text


def _is_a(value: Any, name: str, *, package: str) -> bool:
    """Whether a value is of that class of a package, which need not be installed."""
    return any(
        base.__name__ == name and f"{base.__module__}.".startswith(f"{package}.") for base in type(value).__mro__
    )


def _name_of(value: Any) -> str:
    name = getattr(value, "__name__", None) or getattr(value, "name", None)
    return name if isinstance(name, str) and name else type(value).__name__
