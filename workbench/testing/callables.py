"""Agents and functions of the caller, called in its own process."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

from workbench.agents.agent_host import (
    AgentError,
    CustomScoreAnswer,
    CustomScoreRequest,
    HeldUp,
    OnOpened,
    OnSpan,
    SessionEnd,
    SessionRequest,
)
from workbench.agents.agent_sessions import build_instance, read_scores
from workbench.agents.worker.adapters import function
from workbench.agents.worker.adapters.base import AgentFault, EmitSpan, Session
from workbench.agents.worker.faults import describe_failure
from workbench.agents.worker.json_safe import describe
from workbench.agents.worker.responses import has_trajectory
from workbench.agents.worker.scoring import RowMetric
from workbench.engine.run_resources import EngineThread
from workbench.model.evalset import Content
from workbench.model.results import Failure, FailureKind, TurnResult
from workbench.model.target import AgentDescription, AgentPart
from workbench.model.text import mask_data
from workbench.model.trace import Span
from workbench.testing.metric_classes import EvaluationError

# Calling functions of the caller: in threads of their own, or on an event loop where they are asynchronous.

_SECONDS_TO_STOP = 1.0  # seconds that a loop with work of the caller gets to stop
_SECONDS_TO_ANSWER = 0.1  # seconds in which a loop answers that is not held up


class FunctionRaised(Exception):
    """A function of the caller raised `error`, of whatever kind.

    As what it is it could be mistaken here: KeyboardInterrupt ends an event loop, and CancelledError says that we were
    cancelled.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(type(error).__qualname__)
        self.error = error


class Calls:
    """Calls functions, for whoever asks on the engine's loop.

    `loop` is the caller's own event loop, where it runs meanwhile: clients that were made on it work only there. Else
    awaitables are run on one in another thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self._callers_loop = loop
        self._thread: EngineThread | None = None
        self._context = contextvars.copy_context()

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """What the function gives, awaited where that is to be. Raises FunctionRaised for whatever it raises."""
        context = self._context.copy()
        value = _unwrap(*await _capture_in_thread(lambda: context.run(function, *args)))
        return await self._await(value, context) if is_awaitable(value) else value

    async def await_value(self, value: Any) -> Any:
        """The value, awaited where that is to be. Raises FunctionRaised for whatever that raises."""
        return await self._await(value, self._context.copy()) if is_awaitable(value) else value

    def isolate(self) -> Calls:
        """Calls that no other call holds up: on a loop of their own, unless the caller's has to be used."""
        if self._callers_loop is not None:
            return self
        alone = Calls(None)
        alone._context = self._context
        return alone

    def close(self) -> None:
        """Give the loop back. What still runs there is left alone."""
        if self._thread is not None:
            self._thread.close(patience=_SECONDS_TO_STOP)

    async def _await(self, awaitable: Awaitable[Any], context: contextvars.Context) -> Any:
        claim = threading.Lock()  # whoever has it decides: the loop that it begins, or we that it never will

        async def run() -> tuple[Any, BaseException | None]:
            if not claim.acquire(blocking=False):
                return None, None  # it was given up
            try:
                return await awaitable, None
            except asyncio.CancelledError as error:
                if _is_being_cancelled():
                    raise
                return None, error
            except BaseException as error:  # as a value: SystemExit would end the loop's thread
                return None, error

        async def run_in_context() -> tuple[Any, BaseException | None]:
            return await asyncio.get_running_loop().create_task(run(), context=context)

        thread = None
        if self._callers_loop is not None:
            future = asyncio.run_coroutine_threadsafe(run_in_context(), self._callers_loop)
        else:
            thread = self._thread = self._thread or _new_loop()
            future = thread.submit(run_in_context())
        try:
            return _unwrap(*await asyncio.wrap_future(future))
        except asyncio.CancelledError as error:
            if not _is_being_cancelled():  # the function has cancelled its own task
                raise FunctionRaised(error) from error
            never_began = claim.acquire(blocking=False)
            if never_began:
                _close_coroutine(awaitable)
            is_stuck = thread is not None and self._replace_stuck_loop(thread)
            if never_began:
                raise asyncio.CancelledError(HeldUp.BEFORE_IT_BEGAN) from None
            if is_stuck:
                raise asyncio.CancelledError(HeldUp.WHILE_IT_RAN) from None
            raise

    def _replace_stuck_loop(self, thread: EngineThread) -> bool:
        """Let later calls have a loop of their own where one is held up by work that never gives way."""
        if self._thread is thread:
            answered = threading.Event()
            thread.call(answered.set)
            if not answered.wait(_SECONDS_TO_ANSWER):
                self._thread = None
        return self._thread is not thread


def get_block_phase(cancelled: asyncio.CancelledError) -> HeldUp | None:
    """When the loop of a call that was cancelled was blocked; None where it was not."""
    return cancelled.args[0] if cancelled.args and isinstance(cancelled.args[0], HeldUp) else None


def is_awaitable(value: Any) -> bool:
    """Whether a function gave a promise of its value."""
    return hasattr(type(value), "__await__")


async def run_in_own_thread(function: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
    """As `asyncio.to_thread`, in a thread of its own. Raises whatever the function raises."""
    context = contextvars.copy_context()
    value, error = await _capture_in_thread(lambda: context.run(function, *args, **options))
    if error is not None:
        raise error
    return value


class _ThreadPerCall(ThreadPoolExecutor):
    """For what frameworks have run in threads: each call in one of its own, which the program does not wait for.

    It is no pool, but loops take nothing else.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """See `Executor.submit`."""
        future: Future[Any] = Future()

        def run() -> None:
            try:
                value = fn(*args, **kwargs)
            except BaseException as error:  # whatever it is, whoever awaits it gets it
                future.set_exception(error)
            else:
                future.set_result(value)

        future.set_running_or_notify_cancel()
        threading.Thread(target=run, name="workbench-call", daemon=True).start()
        return future


def _new_loop() -> EngineThread:
    """An event loop for awaitables of the caller's."""
    thread = EngineThread()
    thread.call(lambda: asyncio.get_running_loop().set_default_executor(_ThreadPerCall()))
    return thread


async def _capture_in_thread(work: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """Run work in a thread of its own: those of a pool would be waited for at the end of the program."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if not done.done():  # else nobody waits any more
            done.set_result((value, error))

    def run() -> None:
        value, error = None, None
        try:
            value = work()
        except BaseException as raised:  # whatever it is, it is the caller's; sys.exit included
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed: the work was given up long ago
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=run, name="workbench-call", daemon=True).start()
    return await done


def _unwrap(value: Any, error: BaseException | None) -> Any:
    if error is not None:
        raise FunctionRaised(error) from error
    return value


def _close_coroutine(coroutine: Awaitable[Any]) -> None:
    """Close a coroutine that has not begun, and those it was to await: else Python warns that nobody did."""
    if inspect.iscoroutine(coroutine) and inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
        for inner in inspect.getcoroutinelocals(coroutine).values():
            if inspect.iscoroutine(inner):
                _close_coroutine(inner)
        coroutine.close()


def _is_being_cancelled() -> bool:
    """Whether somebody wants the task that runs here to end. Else a CancelledError is of something it waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


# What answers prompts: functions, objects that are asked through a method, and agents of frameworks.

_LOGGER = "google_adk"  # above all loggers of google-adk
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
    logger = logging.getLogger(_LOGGER)
    logger.addHandler(silence)
    try:
        yield
    finally:
        logger.removeHandler(silence)


def make_agent(runnable: Any) -> Agent:
    """The agent that a `runnable` is. Raises EvaluationError."""
    if _is_framework_type(runnable, "Runnable", package="langchain_core"):
        return Agent(_get_name(runnable), partial(_open_langchain, runnable))
    if _is_framework_type(runnable, "BaseNode", package="google.adk") or _is_framework_type(
        runnable, "App", package="google.adk"
    ):
        return Agent(_get_name(runnable), partial(_open_adk, runnable))
    if not isinstance(runnable, type):
        from workbench.agents.worker.adapters.agent_engine import is_agent

        if is_agent(runnable):
            return Agent(_get_name(runnable), partial(_open_engine, runnable))
    if callable(runnable):
        return _make_function_agent(runnable)
    is_unfinished = _is_framework_type(runnable, "StateGraph", package="langgraph")
    hint = " that was not compiled (its .compile() gives what can be asked)" if is_unfinished else ""
    raise EvaluationError(f"runnable: found {describe(runnable)}{hint}, expected {_EXPECTED}")


def make_model_agent(model: Any) -> Agent:
    """The agent that a `model` is: a function `f(prompt)`, or an object with `generate_content(prompt)`.

    Raises EvaluationError.
    """
    generate = getattr(model, "generate_content", None)
    if callable(generate) and not isinstance(model, type):
        return _make_function_agent(partial(_generate, generate), name=_get_name(model))
    if callable(model):
        return _make_function_agent(model)
    expected = "a function f(prompt) or an object with generate_content"
    raise EvaluationError(f"model: found {describe(model)}, expected {expected}")


class _FunctionSession(function.Session):
    """A prompt for a function. One that says nothing of a trajectory has none, which is not the same as one that called
    no tool."""

    def _finish_turn(self, value: Any, *others: Any) -> dict[str, Any]:
        told = super()._finish_turn(value, *others)
        if not has_trajectory(value):
            told["invocation"]["intermediate_data"] = None
            told["calls_unknown"] = None
            told.pop("calls_unknown_by_design", None)
        return told


def _make_function_agent(call: Callable[[str], Any], *, name: str = "") -> Agent:
    named = name or _get_name(call)
    return Agent(named, partial(_open_function, named, lambda prompt, _session: call(prompt)))


def _open_function(name: str, call: Callable[..., Any], request: dict[str, Any], emit: EmitSpan) -> Session:
    return _FunctionSession(name=name, call=call, request=request, emit_span=emit, describe=dict)


def _open_engine(agent: Any, request: dict[str, Any], emit: EmitSpan) -> Session:
    from workbench.agents.worker.adapters.agent_engine import EngineConversation, LocalEngine

    talk = EngineConversation(LocalEngine(agent, in_thread=run_in_own_thread))
    return _open_function(_get_name(agent), talk.say, request, emit)


def _open_langchain(runnable: Any, request: dict[str, Any], emit: EmitSpan) -> Session:
    from workbench.agents.worker.adapters.langchain.langchain_messages import choose_form
    from workbench.agents.worker.adapters.langchain.langchain_session import LangchainSession

    form = choose_form(runnable, request)
    return LangchainSession(name=_get_name(runnable), runnable=runnable, form=form, request=request, emit=emit)


def _open_adk(agent: Any, request: dict[str, Any], emit: EmitSpan) -> Awaitable[Session]:
    from workbench.agents.worker.adapters.adk.adk_session import open_session

    app, root = (agent, None) if _is_framework_type(agent, "App", package="google.adk") else (None, agent)
    # The caller's tools stay open: they may be used again.
    return open_session(request, emit, app=app, agent=root, release=lambda: False, stack=None)


def _generate(generate: Callable[[str], Any], prompt: str) -> str:
    reply = generate(prompt)
    text = getattr(reply, "text", None)
    if not isinstance(text, str):
        raise AgentFault(f"the model gave {describe(reply)} without text")
    return text


def _is_framework_type(value: Any, name: str, *, package: str) -> bool:
    """Whether a value is of that class of a package, which need not be installed."""
    return any(
        base.__name__ == name and f"{base.__module__}.".startswith(f"{package}.") for base in type(value).__mro__
    )


def _get_name(value: Any) -> str:
    name = getattr(value, "__name__", None) or getattr(value, "name", None)
    return name if isinstance(name, str) and name else type(value).__name__


# Where the agent and the metric functions of a task run: in the caller's process, as the objects that they are.


class CallingHost:
    """Calls what it is given. An `AgentHost` for one task; `close` leaves calls alone that do not come back."""

    def __init__(self, calls: Calls, *, agent: Agent | None, functions: Mapping[str, Callable[..., Any]]) -> None:
        """`functions` are the metric functions, by the name of their metric."""
        self._calls = calls
        self._agent = agent
        self._functions = functions

    def prepare(self, *, cases: int) -> None:
        """See `AgentHost.prepare`: there is nothing to start."""

    def renew(self) -> None:
        """See `AgentHost.renew`: the objects are as they are."""

    async def open(
        self, request: SessionRequest, *, on_span: OnSpan, on_opened: OnOpened = lambda: None
    ) -> CallingSession:
        """See `AgentHost.open`."""
        assert self._agent is not None  # a plan without agent has no case that needs one
        calls = self._calls.isolate() if request.alone else self._calls
        on_opened()
        return CallingSession(self._agent, request, calls, on_span=on_span)

    async def score(self, request: CustomScoreRequest) -> CustomScoreAnswer:
        """See `AgentHost.score`."""
        metric = RowMetric(request.metric, self._functions[request.metric])
        try:
            # Copies: what one function does to its row is nothing to the next one, nor to the result.
            instances = [deepcopy(build_instance(request, number)) for number in range(len(request.actual))]
            told = await self._calls.call(metric.score, {"metric": request.metric, "instances": instances})
            return read_scores(told, None)
        except Exception as raised:  # the function is the caller's: whatever it raises costs this row
            error = _unwrap_error(raised)
            failed = describe_failure(error, raised_by="the metric")
            message = f"{request.metric}: {failed['message']}"
            raise AgentError(
                Failure(kind=FailureKind.METRIC, message=message, traceback=failed["traceback"])
            ) from error

    async def close(self) -> None:
        """See `AgentHost.close`."""
        self._calls.close()


class CallingSession:
    """One prompt. The `AgentSession` of `CallingHost`: what an adapter does in a worker, done here."""

    def __init__(self, agent: Agent, request: SessionRequest, calls: Calls, *, on_span: OnSpan) -> None:
        """Where `request` wants to be alone, `calls` are of this session only, and are closed with it."""
        self._agent = agent
        self._request = request
        self._calls = calls
        self._on_span = on_span
        self._loop = asyncio.get_running_loop()
        self._session: Any = None  # from the first turn on
        self._held_up: HeldUp | None = None

    @property
    def dependencies(self) -> None:
        """See `AgentSession.dependencies`: in the caller's process nobody can tell what an agent depends on."""
        return None

    async def turn(self, content: Content, *, turn: int, last: bool = False) -> TurnResult:  # noqa: ARG002 - ends at once
        """See `AgentSession.turn`."""
        try:
            if self._session is None:
                self._session = await self._await_adapter(self._open)
            said = content.model_dump(mode="json", exclude_none=True)
            told = mask_data(await self._calls.call(self._session.turn, said, turn))
            for span in told.pop("spans", ()):
                self._on_span(Span.model_validate(span))
            return TurnResult.model_validate(told)
        except asyncio.CancelledError as cancelled:
            self._held_up = get_block_phase(cancelled)
            raise
        except AgentError:
            raise
        except Exception as raised:  # the agent is the caller's: whatever it raises costs this row
            error = _unwrap_error(raised)
            raise AgentError(Failure.model_validate({**describe_failure(error), "turn": turn})) from error

    async def state(self) -> dict[str, Any] | None:
        """See `AgentSession.state`."""
        state: dict[str, Any] | None = None if self._session is None else await self._await_adapter(self._session.state)
        return mask_data(state)  # type: ignore[no-any-return]

    async def describe(self) -> AgentDescription:
        """See `AgentSession.describe`."""
        return AgentDescription(agents=(AgentPart(name=self._agent.name),))

    async def finish(self) -> SessionEnd:
        """See `AgentSession.finish`."""
        if self._session is None:
            return SessionEnd()
        return SessionEnd(final_state=mask_data((await self._await_adapter(self._session.close))["final_state"]))

    async def stop(self) -> SessionEnd:
        """See `AgentSession.stop`."""
        return await self.kill()

    async def kill(self) -> SessionEnd:
        """See `AgentSession.kill`: a call cannot be ended, and is left alone."""
        if self._request.alone:
            await run_in_own_thread(self._calls.close)
        return SessionEnd(held_up=self._held_up)

    def _open(self) -> Any:
        """The session of the adapter, or what is to be awaited for it."""
        asked = {
            "app_name": self._request.app_name,
            "user_id": self._request.user_id,
            "session_id": self._request.session_id,
            "state": dict(self._request.state),
            "collect_spans": self._request.collect_spans,
        }
        return self._agent.open(asked, self._emit_from_thread)

    async def _await_adapter(self, ask: Callable[[], Any]) -> Any:
        """What the adapter gives for that, which never blocks. Raises AgentError."""
        try:
            return await self._calls.await_value(ask())
        except Exception as raised:  # what is asked about is the caller's, and so are the objects in it
            error = _unwrap_error(raised)
            raise AgentError(Failure.model_validate(describe_failure(error))) from error

    def _emit_from_thread(self, span: dict[str, Any]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the call was given up long ago
            self._loop.call_soon_threadsafe(self._emit, span)

    def _emit(self, span: dict[str, Any]) -> None:
        self._on_span(Span.model_validate(span))


def _unwrap_error(error: Exception) -> BaseException:
    """What a function of the caller raised; an error about what it gave is that error itself."""
    return error.error if isinstance(error, FunctionRaised) else error
