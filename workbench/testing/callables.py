"""Agents and functions of the caller, called in its own process.

Calls use daemon threads instead of a pool or `anyio.to_thread`: Python waits for the threads of these at its exit, so a
call that never returns would keep the program from ending.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import logging
import math
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from workbench.agents.agent_host import (
    AgentError,
    CustomScoreAnswer,
    CustomScoreRequest,
    HeldUp,
    OnOpened,
    OnSpan,
    SessionEnd,
    SessionRequest,
    make_metric_timeout,
)
from workbench.agents.agent_sessions import build_instance, read_scores
from workbench.agents.worker.adapters import function
from workbench.agents.worker.adapters.base import AgentFault, EmitSpan, Session
from workbench.agents.worker.faults import describe_failure
from workbench.agents.worker.responses import has_trajectory
from workbench.agents.worker.scoring import RowMetric
from workbench.agents.worker.wire import describe
from workbench.engine.run_resources import EngineThread
from workbench.llm.model_types import Ask, Message, ModelError, ModelReply, ModelRequest, Trouble
from workbench.metrics.judges.transcript import format_value
from workbench.model.criteria import add_provider
from workbench.model.evalset import Content, Invocation, Part
from workbench.model.results import Failure, FailureKind, InvocationScore, TurnResult
from workbench.model.target import AgentDescription, AgentPart
from workbench.model.text import mask_data, pluralise
from workbench.model.trace import Span
from workbench.testing.metric_criteria import ParsedJudge, TaskCriteria
from workbench.testing.metrics import EvaluationError
from workbench.testing.utils import parse_question_blocks

# Calls of functions: each in its own thread, or on an event loop if they are asynchronous.

_SECONDS_TO_STOP = 1.0  # time limit for stopping a loop
_SECONDS_TO_ANSWER = 0.1  # a loop that does not answer in this time is blocked


class FunctionRaised(Exception):
    """A function of the caller raised `error`.

    The wrapper is necessary because some errors have a meaning here: KeyboardInterrupt ends an event loop, and
    CancelledError means that our own task was cancelled.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(type(error).__qualname__)
        self.error = error


class Calls:
    """Calls functions of the caller from the loop of the engine.

    `loop` is the event loop of the caller, if it is running: clients that were created on it work only there. Without
    it, awaitables run on a loop in another thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self._callers_loop = loop
        self._thread: EngineThread | None = None
        self._context = contextvars.copy_context()

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call the function and await its result if necessary. Raises FunctionRaised for every exception of it."""
        context = self._context.copy()
        value = _unwrap(*await _capture_in_thread(lambda: context.run(function, *args)))
        return await self._await(value, context) if is_awaitable(value) else value

    async def await_value(self, value: Any) -> Any:
        """Return the value, awaited if necessary. Raises FunctionRaised for every exception of the awaitable."""
        return await self._await(value, self._context.copy()) if is_awaitable(value) else value

    def isolate(self) -> Calls:
        """Return calls that other calls cannot block: on a separate loop, unless the loop of the caller is required."""
        if self._callers_loop is not None:
            return self
        isolated = Calls(None)
        isolated._context = self._context
        return isolated

    def close(self) -> None:
        """Close the loop. Work that does not stop is abandoned."""
        if self._thread is not None:
            self._thread.close(patience=_SECONDS_TO_STOP)

    async def _await(self, awaitable: Awaitable[Any], context: contextvars.Context) -> Any:
        claim = threading.Lock()  # taken by the loop when the work starts, or by us to prevent the start

        async def run() -> tuple[Any, BaseException | None]:
            if not claim.acquire(blocking=False):
                return None, None  # it was abandoned before its start
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
            if not _is_being_cancelled():  # the function cancelled its own task
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
        """Return True if the loop is blocked by work that never yields. Later calls then get a new loop."""
        if self._thread is thread:
            has_answered = threading.Event()
            thread.call(has_answered.set)
            if not has_answered.wait(_SECONDS_TO_ANSWER):
                self._thread = None
        return self._thread is not thread


def get_block_phase(cancelled: asyncio.CancelledError) -> HeldUp | None:
    """Return when the loop of a cancelled call was blocked; None if it was not."""
    return cancelled.args[0] if cancelled.args and isinstance(cancelled.args[0], HeldUp) else None


def is_awaitable(value: Any) -> bool:
    """True if the result of a function must be awaited."""
    return hasattr(type(value), "__await__")


async def run_in_own_thread(function: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
    """Do as `asyncio.to_thread`, but in a new daemon thread."""
    context = contextvars.copy_context()
    value, error = await _capture_in_thread(lambda: context.run(function, *args, **options))
    if error is not None:
        raise error
    return value


class _ThreadPerCall(ThreadPoolExecutor):
    """An executor for frameworks: each call has its own daemon thread, for which the exit of the program does not wait.

    It is no pool, but an event loop accepts only a subclass of ThreadPoolExecutor.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def run() -> None:
            try:
                value = fn(*args, **kwargs)
            except BaseException as error:  # passed to the waiting caller
                future.set_exception(error)
            else:
                future.set_result(value)

        future.set_running_or_notify_cancel()
        threading.Thread(target=run, name="workbench-call", daemon=True).start()
        return future


def _new_loop() -> EngineThread:
    """Start an event loop for awaitables of the caller."""
    thread = EngineThread()
    thread.call(lambda: asyncio.get_running_loop().set_default_executor(_ThreadPerCall()))
    return thread


async def _capture_in_thread(work: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """Run work in a new daemon thread and return its value and its exception."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if not outcome.done():  # done if the waiting task was cancelled
            outcome.set_result((value, error))

    def run() -> None:
        value, error = None, None
        try:
            value = work()
        except BaseException as raised:  # the exception of the caller's code, also that of sys.exit
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed: the work was abandoned
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=run, name="workbench-call", daemon=True).start()
    return await outcome


def _unwrap(value: Any, error: BaseException | None) -> Any:
    if error is not None:
        raise FunctionRaised(error) from error
    return value


def _close_coroutine(coroutine: Awaitable[Any]) -> None:
    """Close a coroutine that never started, and those in its arguments, so that Python does not warn."""
    if inspect.iscoroutine(coroutine) and inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
        for inner in inspect.getcoroutinelocals(coroutine).values():
            if inspect.iscoroutine(inner):
                _close_coroutine(inner)
        coroutine.close()


def _is_being_cancelled() -> bool:
    """True if the current task was cancelled. Otherwise a CancelledError comes from something that it awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


# Agents: functions, objects with a query method, and agents of frameworks.

_LOGGER = "google_adk"  # the parent of all loggers of google-adk
_EXPECTED = (
    "a function f(prompt), an object with query(input=), a Runnable or compiled graph of LangChain, "
    "or an agent or app of google-adk"
)


@dataclass(frozen=True)
class Agent:
    """An agent with a new session for each prompt. `open` has the parameters of `Adapter.open`."""

    name: str
    open: Callable[[dict[str, Any], EmitSpan], Session | Awaitable[Session]]


@contextmanager
def quiet_frameworks() -> Iterator[None]:
    """Suppress the default output of framework loggers: the row has the error already."""
    silence = logging.NullHandler()  # one for each caller, as several may run at a time
    logger = logging.getLogger(_LOGGER)
    logger.addHandler(silence)
    try:
        yield
    finally:
        logger.removeHandler(silence)


def make_agent(runnable: Any) -> Agent:
    """Make the agent of a `runnable`. Raises EvaluationError."""
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
    hint = " that was not compiled (pass the result of its .compile())" if is_unfinished else ""
    raise EvaluationError(f"runnable: found {describe(runnable)}{hint}, expected {_EXPECTED}")


@dataclass(frozen=True)
class ModelAgent:
    """A model with a name, which the model client of workbench asks. `config` is that of its requests."""

    name: str
    config: Mapping[str, Any] = field(default_factory=dict)


def make_model_agent(model: Any) -> Agent | ModelAgent:
    """Make the agent of a `model`: a name, a function `f(prompt)`, or an object with `generate_content(prompt)`.

    Raises EvaluationError.
    """
    if isinstance(model, str):
        if not model.strip():
            raise EvaluationError(f"model: found {model!r}, expected the name of a model")
        return ModelAgent(add_provider(model) or model)  # the SDK takes bare names of other vendors
    generate = getattr(model, "generate_content", None)
    if callable(generate) and not isinstance(model, type):
        return _make_function_agent(partial(_generate, generate), name=_get_name(model))
    if callable(model):
        return _make_function_agent(model)
    expected = "the name of a model, a function f(prompt) or an object with generate_content"
    raise EvaluationError(f"model: found {describe(model)}, expected {expected}")


class _FunctionSession(function.FunctionSession):
    """The session of a function. If neither its result nor its spans report calls, its rows have no trajectory, which
    differs from an empty list. The reason why spans may be incomplete stays."""

    def _finish_turn(self, value: Any, *others: Any) -> dict[str, Any]:
        turn = super()._finish_turn(value, *others)
        if not has_trajectory(value) and turn.pop("calls_unknown_by_design", False):
            turn["invocation"]["intermediate_data"] = None
            turn["calls_unknown"] = None
        return turn


def _make_function_agent(call: Callable[[str], Any], *, name: str = "") -> Agent:
    agent_name = name or _get_name(call)
    return Agent(agent_name, partial(_open_function, agent_name, lambda prompt, _session: call(prompt)))


def _open_function(name: str, call: Callable[..., Any], request: dict[str, Any], emit: EmitSpan) -> Session:
    return _FunctionSession(name=name, call=call, request=request, emit_span=emit, describe=dict)


def _open_engine(agent: Any, request: dict[str, Any], emit: EmitSpan) -> Session:
    from workbench.agents.worker.adapters.agent_engine import EngineConversation, LocalEngine

    conversation = EngineConversation(LocalEngine(agent, in_thread=run_in_own_thread))
    return _open_function(_get_name(agent), conversation.say, request, emit)


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
    """True if a value is an instance of this class of a package. The package is not imported."""
    return any(
        base.__name__ == name and f"{base.__module__}.".startswith(f"{package}.") for base in type(value).__mro__
    )


def _get_name(value: Any) -> str:
    name = getattr(value, "__name__", None) or getattr(value, "name", None)
    return name if isinstance(name, str) and name else type(value).__name__


# The host of the agent and the metric functions of a task.


class CallingHost:
    """The `AgentHost` of one task, in the process of the caller. `close` abandons calls that do not return."""

    def __init__(
        self,
        calls: Calls,
        *,
        agent: Agent | ModelAgent | None,
        criteria: TaskCriteria,
        ask_agent: Ask,
        ask_judge: Ask,
        judge: str,
    ) -> None:
        """`ask_agent` asks a model that is the agent, and `ask_judge` one that judges. `judge` is the default judge."""
        self._calls = calls
        self._agent = agent
        self._functions = criteria.functions
        self._parsed = criteria.parsed
        self._ask_agent = ask_agent
        self._ask_judge = ask_judge
        self._judge = judge

    def prepare(self, *, cases: int) -> None:
        """See `AgentHost.prepare`: there is nothing to start."""

    def renew(self) -> None:
        """See `AgentHost.renew`: the objects are as they are."""

    async def open(
        self, request: SessionRequest, *, on_span: OnSpan, on_opened: OnOpened = lambda: None
    ) -> CallingSession | ModelSession:
        assert self._agent is not None  # a plan without agent has no case that needs one
        if isinstance(self._agent, ModelAgent):
            on_opened()
            return ModelSession(self._agent, self._ask_agent)
        calls = self._calls.isolate() if request.alone else self._calls
        on_opened()
        return CallingSession(self._agent, request, calls, on_span=on_span)

    async def score(self, request: CustomScoreRequest, *, timeout_seconds: float = math.inf) -> CustomScoreAnswer:
        limit = None if math.isinf(timeout_seconds) else timeout_seconds
        try:
            async with asyncio.timeout(limit) as deadline:
                return await self._score(request)
        except TimeoutError as error:
            if not deadline.expired():
                raise
            raise make_metric_timeout(timeout_seconds) from error

    async def _score(self, request: CustomScoreRequest) -> CustomScoreAnswer:
        judge = self._parsed.get(request.metric)
        try:
            if judge is not None:
                return await self._score_by_judge(judge, build_instance(request, 0))
            metric = RowMetric(request.metric, self._functions[request.metric])
            # Copies: a function that changes its row must not affect other functions or the result.
            instances = [deepcopy(build_instance(request, number)) for number in range(len(request.actual))]
            scores = await self._calls.call(metric.score, {"metric": request.metric, "instances": instances})
            return read_scores(scores, None)
        except AgentError:
            raise
        except ModelError as unanswered:
            message = f"{request.metric}: {unanswered.message}"
            raise AgentError(Failure(kind=FailureKind.METRIC, message=message)) from unanswered
        except Exception as raised:  # an error of the caller's function fails only this row
            error = _unwrap_error(raised)
            failure = describe_failure(error, raised_by="the metric")
            message = f"{request.metric}: {failure['message']}"
            raise AgentError(
                Failure(kind=FailureKind.METRIC, message=message, traceback=failure["traceback"])
            ) from error

    async def _score_by_judge(self, judge: ParsedJudge, row: Mapping[str, Any]) -> CustomScoreAnswer:
        """Ask the judge about a row, and let the caller's function read the replies. Raises ModelError."""
        missing_names = sorted(name for name in judge.template.variables if row.get(name) is None)
        if missing_names:
            return _make_undefined(f"the row has no {missing_names[0]}")
        values = {name: format_value(row[name]) for name in judge.template.variables}
        request = ModelRequest(
            model=judge.model or self._judge,
            messages=(Message(role="user", text=judge.template.assemble(**values).template),),
            system=judge.system,
            config=dict(judge.config),
            purpose=judge.name,
        )
        requests = [request.model_copy(update={"sample": number}) for number in range(judge.samples)]
        answers = await asyncio.gather(*map(self._ask_judge, requests), return_exceptions=True)
        model_replies = [answer for answer in answers if isinstance(answer, ModelReply)]
        for answer in answers:
            if isinstance(answer, BaseException) and (not model_replies or not isinstance(answer, ModelError)):
                raise answer
        gaps = [_find_gap(judge, row, reply) for reply in model_replies]
        if all(gaps):
            raise AgentError(Failure(kind=FailureKind.METRIC, message=f"{judge.name}: {gaps[0]}"))
        replies = [reply.text for reply, gap in zip(model_replies, gaps, strict=True) if not gap]
        if judge.parse is None:
            parsed: Any = {"raw_output": replies}
        else:
            parsed = await self._calls.call(judge.parse, replies)
        if not isinstance(parsed, Mapping):
            raise EvaluationError(f"parsing_fn returned {describe(parsed)}, expected a dict")
        values_by_name = {judge.name: None, **parsed}
        values_by_name[judge.name] = values_by_name.pop("score", values_by_name[judge.name])
        metric = RowMetric(judge.name, lambda _: values_by_name)
        return read_scores(cast(Any, metric.score({"metric": judge.name, "instances": [row]})), None)

    async def explain_imports(self) -> list[str]:
        return []

    async def close(self) -> None:
        self._calls.close()


def _find_gap(judge: ParsedJudge, row: Mapping[str, Any], reply: ModelReply) -> str | None:
    """Return why a reply of a judge is incomplete; None if it is not."""
    questions = None if judge.questions is None else row[judge.questions]
    if isinstance(questions, list):
        question_count = len({format_value(question) for question in questions})
        answer_count = len(dict(parse_question_blocks(reply.text)))
        if answer_count != question_count:
            cut = ", and its reply was cut off" if reply.is_truncated else ""
            return f"the judge answered {answer_count} of {pluralise(question_count, 'question')}{cut}"
    return "the reply of the judge was cut off" if reply.is_truncated and not judge.may_be_cut else None


def _make_undefined(reason: str) -> CustomScoreAnswer:
    return CustomScoreAnswer(score=None, reason=reason, per_invocation=(InvocationScore(score=None, reason=reason),))


class _PromptSession:
    """A `HostSession` for one prompt in this process: its dependencies are unknown."""

    dependencies = None
    node = None

    def __init__(self, agent: Agent | ModelAgent) -> None:
        self._name = agent.name

    async def describe(self) -> AgentDescription:
        return AgentDescription(agents=(AgentPart(name=self._name),))

    async def kill(self) -> SessionEnd:
        return SessionEnd()

    async def stop(self) -> SessionEnd:
        return await self.kill()


class ModelSession(_PromptSession):
    """The session of a model. Each prompt is asked alone, without the reply cache."""

    def __init__(self, agent: ModelAgent, ask: Ask) -> None:
        super().__init__(agent)
        self._agent = agent
        self._ask = ask

    async def turn(self, content: Content, *, turn: int, last: bool = False) -> TurnResult:  # noqa: ARG002 - ends at once
        request = ModelRequest(
            model=self._agent.name,
            messages=(Message(role="user", text=content.text()),),
            config=dict(self._agent.config),
            purpose="model",
        )
        try:
            reply = await self._ask(request)
        except ModelError as error:
            raise AgentError(
                Failure(kind=_classify_trouble(error.trouble), message=error.message, turn=turn)
            ) from error
        answer = Content(role="model", parts=(Part(text=reply.text),))
        return TurnResult(
            invocation=Invocation(user_content=content, final_response=answer),
            duration_seconds=reply.seconds,  # without imports, and without waiting for the quota
            inference_calls=1,
            usage=reply.usage,
        )

    async def state(self) -> None:
        """See `HostSession.state`."""

    async def finish(self) -> SessionEnd:
        return SessionEnd()


def _classify_trouble(trouble: Trouble) -> FailureKind:
    """Return the part that failed. The model client has already retried what may succeed."""
    if trouble is Trouble.TIMEOUT:
        return FailureKind.TIMEOUT
    if trouble.is_outage:
        return FailureKind.INFRASTRUCTURE
    return FailureKind.SETUP if trouble.is_lasting or trouble.is_unasked else FailureKind.AGENT


_MOST_ASKED = 500  # characters of a question in a message


class CallingSession(_PromptSession):
    """The session of an agent. It uses the adapters of the worker in this process."""

    def __init__(self, agent: Agent, request: SessionRequest, calls: Calls, *, on_span: OnSpan) -> None:
        """If `request` is `alone`, `calls` belong to this session and are closed with it."""
        super().__init__(agent)
        self._agent = agent
        self._request = request
        self._calls = calls
        self._on_span = on_span
        self._loop = asyncio.get_running_loop()
        self._session: Any = None  # from the first turn on
        self._held_up: HeldUp | None = None

    async def turn(self, content: Content, *, turn: int, last: bool = False) -> TurnResult:  # noqa: ARG002 - ends at once
        try:
            if self._session is None:
                self._session = await self._await_adapter(self._open)
            message_data = content.model_dump(mode="json", exclude_none=True)
            result = mask_data(await self._calls.call(self._session.turn, message_data, turn))
            for span in result.pop("spans", ()):
                self._on_span(Span.model_validate(span))
            answer = TurnResult.model_validate(result)
        except asyncio.CancelledError as cancelled:
            self._held_up = get_block_phase(cancelled)
            raise
        except AgentError:
            raise
        except Exception as raised:  # an error of the caller's agent fails only this row
            error = _unwrap_error(raised)
            raise AgentError(Failure.model_validate({**describe_failure(error), "turn": turn})) from error
        if answer.pending is not None:
            message = f"the agent waits for an answer, which a row cannot give; it asks: {answer.pending[:_MOST_ASKED]}"
            raise AgentError(Failure(kind=FailureKind.UNSUPPORTED, message=message, turn=turn))
        return answer

    async def state(self) -> dict[str, Any] | None:
        state: dict[str, Any] | None = None if self._session is None else await self._await_adapter(self._session.state)
        return mask_data(state)  # type: ignore[no-any-return]

    async def finish(self) -> SessionEnd:
        if self._session is None:
            return SessionEnd()
        return SessionEnd(final_state=mask_data((await self._await_adapter(self._session.close))["final_state"]))

    async def kill(self) -> SessionEnd:
        """See `HostSession.kill`: a call cannot be ended and is abandoned."""
        if self._request.alone:
            await run_in_own_thread(self._calls.close)
        return SessionEnd(held_up=self._held_up)

    def _open(self) -> Any:
        """Open the session of the adapter; the result may be an awaitable."""
        request = {
            "app_name": self._request.app_name,
            "user_id": self._request.user_id,
            "session_id": self._request.session_id,
            "state": dict(self._request.state),
            "collect_spans": self._request.collect_spans,
        }
        return self._agent.open(request, self._emit_from_thread)

    async def _await_adapter(self, ask: Callable[[], Any]) -> Any:
        """Call a method of the adapter that never blocks, and await its result. Raises AgentError."""
        try:
            return await self._calls.await_value(ask())
        except Exception as raised:  # the data has objects of the caller, which may raise
            error = _unwrap_error(raised)
            raise AgentError(Failure.model_validate(describe_failure(error))) from error

    def _emit_from_thread(self, span: dict[str, Any]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the call was abandoned
            self._loop.call_soon_threadsafe(self._emit, span)

    def _emit(self, span: dict[str, Any]) -> None:
        self._on_span(Span.model_validate(span))


def _unwrap_error(error: Exception) -> BaseException:
    """Return the exception of the caller's function, or else the error itself."""
    return error.error if isinstance(error, FunctionRaised) else error
