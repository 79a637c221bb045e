"""Sessions with agents in workers: turns, tool requests, dependencies, custom metrics."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import json
import math
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from workbench.agents.agent_host import (
    AgentError,
    CustomScoreAnswer,
    CustomScoreRequest,
    ModelResponder,
    OnOpened,
    OnSpan,
    PendingToolCall,
    SessionEnd,
    SessionRequest,
    ToolAnswer,
    ToolOutcome,
    ToolResponder,
    make_metric_timeout,
)
from workbench.agents.channel import Message
from workbench.agents.processes import Child, Exit, Lease, describe_slow_import, resolve
from workbench.model.evalset import Content, Invocation
from workbench.model.identity import Dependencies, Dependency, DependencyKind
from workbench.model.results import Failure, FailureKind, InvocationScore, TurnResult
from workbench.model.target import AgentDescription, Target
from workbench.model.text import redact
from workbench.model.trace import Span, get_trajectory

# Requests of a worker process about calls of tools and models.


class CallRequests:
    """The requests of one session about calls. Each is answered in its own task, because agents call in parallel."""

    def __init__(
        self,
        session: int,
        *,
        tools: ToolResponder | None,
        models: ModelResponder | None,
        on_failure: Callable[[AgentError], None],
    ) -> None:
        """`on_failure` gets the error of a request that cannot be answered."""
        self._session = session
        self._tools = tools
        self._models = models
        self._give_up = on_failure
        self._context = contextvars.copy_context()  # of the case: messages of workers arrive in another one
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def interception(self) -> Mapping[str, Any]:
        """`tools` and `models` of the message `open`."""
        return {
            "tools": None if self._tools is None else dict(self._tools.interception),
            "models": None if self._models is None else dict(self._models.interception),
        }

    def handle_message(self, message: Message, send: Callable[[Message], None]) -> None:
        """Handle a request, or the outcome of a call."""
        if "model" in message:
            if self._models is not None:
                self._handle_model_message(self._models, message, send)
        elif self._tools is not None:
            self._handle_tool_message(self._tools, message, send)

    def _handle_model_message(
        self, responder: ModelResponder, message: Message, send: Callable[[Message], None]
    ) -> None:
        if message["type"] == "outcome":
            responder.record_outcome(message["ask"], message["model"])
            return

        async def answer() -> Message:
            response = await responder.answer(message["ask"], message["model"])
            source = None if response is None else "replayed"
            return {"source": source, "wants_outcome": response is None, "response": response}

        self._start(self._answer(message["ask"], "a model", answer(), send))

    def _handle_tool_message(self, responder: ToolResponder, message: Message, send: Callable[[Message], None]) -> None:
        if message["type"] == "outcome":
            responder.record_outcome(
                message["ask"],
                ToolOutcome(
                    response=message.get("response"),
                    error=message.get("error"),
                    actions=message.get("actions") or {},
                    unfit=message.get("unfit"),
                ),
            )
            return
        call = PendingToolCall(
            number=message["ask"], tool=message["tool"], args=message["args"], declaration=message["declaration"]
        )

        async def answer() -> Message:
            return _encode_answer(await responder.answer(call))

        self._start(self._answer(call.number, f"the tool {call.tool}", answer(), send))

    def _start(self, answering: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(answering, context=self._context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def settle(self) -> None:
        """Wait for the answers to all requests, which may say why the agent fails."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_PATIENCE)

    def cancel(self) -> None:
        """Cancel all requests: the session is over."""
        for task in list(self._tasks):
            if task is not asyncio.current_task():
                task.cancel()

    async def _answer(
        self, number: int, whom: str, answer: Awaitable[Message], send: Callable[[Message], None]
    ) -> None:
        try:
            message = await answer
        except AgentError as error:
            self._give_up(error)
        except Exception as error:  # a bug of ours must end this case and be visible
            text = f"workbench itself failed while it answered for {whom}: {error!r}"
            self._give_up(AgentError(Failure(kind=FailureKind.CRASH, message=text)))
        else:
            send({"type": "answer", "session": self._session, "ask": number, **message})


def _encode_answer(answer: ToolAnswer) -> Message:
    message: Message = {"source": answer.source, "wants_outcome": answer.wants_outcome}
    if answer.source is not None:
        outcome = answer.outcome
        message.update(response=outcome.response, error=outcome.error, actions=dict(outcome.actions))
    return message


# Dependencies that workers report.

CompleteRecord = Callable[[Dependencies | None], Awaitable[Dependencies | None]]
"""Adds to a record what only the engine knows."""

_ASKED = frozenset({DependencyKind.FILE, DependencyKind.PROBE, DependencyKind.TIME, DependencyKind.MODE})
_FILE = DependencyKind.FILE


def add_reported_dependencies(before: Dependencies | None, message: Message) -> Dependencies:
    """Add reported rows to earlier ones. Raises TypeError or ValueError for a malformed message."""
    intern = sys.intern  # thousands of cases report the same strings
    rows = [Dependency(intern(kind), intern(key), intern(value)) for kind, key, value in message["rows"]]
    dependencies = (before or Dependencies()).add_rows(
        rows, complete=message["complete"], tainted=message["tainted"], recorded_at=time.time()
    )
    return _replace_rewritten_files(dependencies)


def _replace_rewritten_files(dependencies: Dependencies) -> Dependencies:
    """Replace reads of files that the case wrote later: only the content that the case left counts.

    The content that it read is kept as a `found` row, which says whose version the case continued from.
    """
    written = {row.key: row for row in dependencies.rows if row.kind in (DependencyKind.STATE, DependencyKind.WRITTEN)}
    if not written:
        return dependencies
    asked = {row for row in dependencies.rows if row.kind in _ASKED and row.key in written}
    if not asked:
        return dependencies
    found = {Dependency(DependencyKind.FOUND.value, row.key, row.fingerprint) for row in asked if row.kind == _FILE}
    states = {Dependency(DependencyKind.STATE.value, row.key, written[row.key].fingerprint) for row in asked}
    replaced = {written[row.key] for row in asked}
    return dependencies.model_copy(update={"rows": dependencies.rows - asked - replaced | states | found})


# Sessions with an agent in a worker process.

_PATIENCE = 1.0  # seconds for a process to confirm a cancellation or send its output
_ASK_AGAIN = 0.05  # seconds; the process ignores an interruption at a bad moment
_END = 5.0  # seconds to wait for the end of a killed process


class WorkerSession:
    """One conversation in a worker process, which is acquired at the first turn. See `HostSession`."""

    def __init__(
        self,
        *,
        number: int,
        request: SessionRequest,
        on_span: OnSpan,
        on_opened: OnOpened,
        lease: Lease,
        target: Target,
        timeout: float,
        complete: CompleteRecord,
    ) -> None:
        self._complete = complete
        self._number = number
        self._request = request
        self._on_span = on_span
        self._on_opened: OnOpened | None = on_opened
        self._lease = lease
        self._target = target
        self._timeout = timeout
        self._child: Child | None = None
        self.node: str | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._answer: asyncio.Future[Message] | None = None
        self._is_closing = False
        self._early_answer: Message | None = None
        self._refusal: AgentError | None = None  # of a request that cannot be answered
        self._turn: int | None = None
        self._is_over = False
        self._has_ended = False  # in its process, which has nothing more to say about it
        self._exit: Exit | None = None
        self._output = ("", "")
        self._dependencies: Dependencies | None = None
        self._has_full_record = asyncio.Event()
        self._calls = CallRequests(number, tools=request.tools, models=request.models, on_failure=self._fail_unanswered)

    @property
    def dependencies(self) -> Dependencies | None:
        return self._dependencies

    async def turn(self, content: Content, *, turn: int, last: bool = False) -> TurnResult:
        self._turn = turn
        if self._request.models is not None:
            self._request.models.begin_turn(turn)
        self._is_closing = last
        message = {"type": "turn", "session": self._number, "turn": turn}
        message["content"] = content.model_dump(mode="json", exclude_none=True)
        answer = await self._ask(message, *([self._close] if last else []))
        try:
            return TurnResult.model_validate(answer["result"])
        except (ValidationError, KeyError) as error:
            failure = Failure(
                kind=FailureKind.AGENT, message=f"the result of the agent's turn cannot be read: {error}", turn=turn
            )
            raise AgentError(failure) from error

    async def state(self) -> dict[str, Any] | None:
        if self._child is None:
            return None
        answer = await self._ask({"type": "state", "session": self._number})
        state: dict[str, Any] | None = answer["result"]["state"]
        return state

    async def describe(self) -> AgentDescription:
        answer = await self._ask({"type": "describe", "session": self._number})
        try:
            return AgentDescription.model_validate(answer["result"])
        except (ValidationError, KeyError) as error:
            failure = Failure(kind=FailureKind.AGENT, message=f"the description of the agent cannot be read: {error}")
            raise AgentError(failure) from error

    async def finish(self) -> SessionEnd:
        child = self._child
        if child is None:
            self._is_over = True
            return SessionEnd(final_state=dict(self._request.state))
        messages = () if self._is_closing else (self._close,)
        self._is_closing = True
        answer = await self._ask(*messages)
        state = answer["result"]["final_state"]
        self._is_over = True
        self._release_process(reusable=True)
        end = None if child.shared else await asyncio.shield(child.end)  # shared with other waiters
        self._dependencies = await self._complete(self._dependencies)
        if end is None:
            return SessionEnd(final_state=state)
        return SessionEnd(final_state=state, stdout_tail=end.stdout, stderr_tail=end.stderr)

    async def stop(self) -> SessionEnd:
        """See `HostSession.stop`. A shared process reports when it receives `cancel`."""
        child = self._child
        if child is not None and not child.shared:
            for _ in range(int(_PATIENCE / _ASK_AGAIN)):
                if self._has_full_record.is_set() or child.end.done():
                    break
                child.interrupt()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._has_full_record.wait(), _ASK_AGAIN)
        return await self.kill()

    async def kill(self) -> SessionEnd:
        child, self._is_over = self._child, True
        self._calls.cancel()
        self._set_answer({"type": "killed"})
        if child is not None:
            if child.shared:
                self._output = await self._fetch_output(child)
                await self._cancel(child)
            else:
                child.kill()
                self._release_process(reusable=False)
                await asyncio.wait([child.end], timeout=_END)
                self._output = await self._fetch_output(child)
        self._dependencies = await self._complete(self._dependencies)
        return SessionEnd(stdout_tail=self._output[0], stderr_tail=self._output[1])

    async def _cancel(self, child: Child) -> None:
        """End the session in a shared process: on request, or by force if the process does not respond."""
        cancelled: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        if self._has_ended:
            self._release_process(reusable=True)
            return

        def hear(message: Message) -> None:
            if message["type"] == "dependencies":
                self._handle_message(message)
            if self._is_end(message):
                resolve(cancelled, message)

        child.attach(self._number, hear)
        child.send({"type": "cancel", "session": self._number})
        ends: list[asyncio.Future[Any]] = [cancelled, child.end]
        done, _ = await asyncio.wait(ends, timeout=_PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        self._release_process(reusable=cancelled.done() and cancelled.result().get("clean", True))
        if not done:
            child.kill()
            await asyncio.wait([child.end], timeout=_END)

    @property
    def _close(self) -> Message:
        return {"type": "close", "session": self._number}

    def _is_end(self, message: Message) -> bool:
        """Return True if the process has nothing more to do for this session."""
        if message["type"] == "finished":
            return self._is_closing and message.get("turn") is None
        return message["type"] in ("cancelled", "failed")

    async def _ask(self, *messages: Message) -> Message:
        """Send messages and wait for the answer to the first; without messages wait for the outstanding answer.

        Raises AgentError.
        """
        if self._is_over:
            raise RuntimeError("the session is over")
        self._answer = asyncio.get_running_loop().create_future()
        if self._refusal is not None:
            self._answer.set_result({"type": "unanswered"})
        elif self._early_answer is not None:
            self._answer.set_result(self._early_answer)
        elif self._child is None:
            await self._acquire_process(*messages)
            if self._is_over:  # killed while it waited for a process
                await self.kill()
        elif self._exit is not None:  # it ended between turns
            self._answer.set_result({"type": "failed", "end": self._exit})
        else:
            self._child.send(*messages)
        answer = await self._answer
        if answer["type"] == "conflict":  # its libraries are imported anew
            self._dependencies = None
            self._release_process(reusable=False)
            return await self._ask(*messages)
        if answer["type"] == "killed":
            raise AgentError(Failure(kind=FailureKind.CRASH, message="the session was killed", turn=self._turn))
        if answer["type"] == "failed":
            await self._calls.settle()
        if self._refusal is not None:
            raise await self._end_unanswered(self._refusal)
        if answer["type"] == "failed":
            error = await self._build_error(answer)
            self._dependencies = await self._complete(self._dependencies)
            raise error
        return answer

    async def _acquire_process(self, *messages: Message) -> None:
        opening = {
            "type": "open",
            "session": self._number,
            "app_name": self._request.app_name,
            "user_id": self._request.user_id,
            "session_id": self._request.session_id,
            "state": self._request.state,
            "collect_spans": self._request.collect_spans,
            "announce_spans": self._request.announce_spans,
            "left": self._request.left.as_message(),
            **({"instructions": self._request.instructions} if self._request.instructions else {}),
            **self._calls.interception,
        }
        await self._lease.acquire([opening, *messages], self._attach)

    def _attach(self, child: Child) -> None:
        self._child, self.node = child, child.node
        child.attach(self._number, self._handle_message)
        child.on_exit.append(self._handle_exit)
        self._timer = asyncio.get_running_loop().call_later(self._timeout, self._kill_slow_start)
        if child.opened or self._target.is_remote:  # nothing is left to import
            self._mark_opened()

    def _handle_message(self, message: Message) -> None:
        kind = message["type"]
        if kind == "span":
            try:
                span = Span.model_validate(message["span"])
            except ValidationError:  # an adapter's mistake; the case does not depend on it
                return
            self._on_span(span)
        elif kind in ("finished", "failed"):
            self._stop_timer()
            self._has_ended = self._has_ended or self._is_end(message)
            if self._answer is not None and not self._answer.done():
                self._answer.set_result(message)
            elif self._is_closing and self._has_ended:
                self._early_answer = message
        elif kind == "dependencies":
            self._dependencies = add_reported_dependencies(self._dependencies, message)
            if self._dependencies.complete:
                self._has_full_record.set()
        elif kind == "conflict":
            self._set_answer(message)
        elif kind == "opened":
            self._stop_timer()
            self._mark_opened()
        elif kind in ("ask", "outcome") and self._child is not None:
            self._calls.handle_message(message, self._child.send)

    def _mark_opened(self) -> None:
        on_opened, self._on_opened = self._on_opened, None
        if on_opened is not None and not self._is_over:
            on_opened()

    def _fail_unanswered(self, error: AgentError) -> None:
        """End the turn, or the next one, with an error, because a request has no answer."""
        self._refusal = self._refusal or error
        self._set_answer({"type": "unanswered"})

    def _set_answer(self, message: Message) -> None:
        """Answer the waiting caller, if there is one."""
        if self._answer is not None:
            resolve(self._answer, message)

    async def _end_unanswered(self, error: AgentError) -> AgentError:
        printed = await self.stop()
        failure = error.failure.model_copy(update={"turn": self._turn, "stderr_tail": printed.stderr_tail or None})
        return AgentError(failure, stdout_tail=printed.stdout_tail, stderr_tail=printed.stderr_tail)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _kill_slow_start(self) -> None:
        # If other sessions are open, the agent is imported and only busy: that is no slow start.
        if self._child is not None and not self._child.opened:
            self._child.kill(describe_slow_import(self._target, seconds=self._timeout))

    def _handle_exit(self, end: Exit) -> None:
        """Note that the process is gone. A pending answer will not come."""
        self._stop_timer()
        self._exit = end
        self._set_answer({"type": "failed", "end": end})

    async def _build_error(self, answer: Message) -> AgentError:
        """Return the error for a failure that the process reported, or for its end."""
        child = self._child
        assert child is not None
        self._is_over = True
        if "end" in answer:
            self._release_process(reusable=False)
            return self._build_crash_error(child, answer["end"])
        stdout, stderr = self._output = await self._fetch_output(child)
        self._release_process(reusable=True)
        failure = Failure(
            kind=FailureKind(answer["kind"]),
            message=answer["message"],
            turn=answer.get("turn"),
            traceback=answer.get("traceback"),
            stderr_tail=stderr or None,
        )
        return AgentError(failure, stdout_tail=stdout, stderr_tail=stderr)

    async def _fetch_output(self, child: Child) -> tuple[str, str]:
        """Return the output of the process; complete if the process ends with its session."""
        waiting = asyncio.ensure_future(child.output()) if child.shared else child.end
        await asyncio.wait([waiting], timeout=_PATIENCE)
        if not waiting.done():
            return "", ""
        result = waiting.result()
        return (result.stdout, result.stderr) if isinstance(result, Exit) else result

    def _build_crash_error(self, child: Child, end: Exit) -> AgentError:
        failure = end.failure or Failure(
            kind=FailureKind.CRASH,
            message=f"the agent's process {end.describe()} before it answered",
        )
        failure = failure.model_copy(update={"turn": self._turn, "stderr_tail": end.stderr or None})
        # A process without an exit status was lost with the process that forked it.
        innocent = (child.shared or end.code is None) and not self._request.alone and end.failure is None
        return AgentError(
            failure,
            retry_alone=innocent,
            retry_elsewhere=end.lost,
            stdout_tail=end.stdout,
            stderr_tail=end.stderr,
        )

    def _release_process(self, *, reusable: bool) -> None:
        child, self._child = self._child, None
        self._stop_timer()
        self._calls.cancel()
        if child is not None:
            child.detach(self._number)
            if self._handle_exit in child.on_exit:
                child.on_exit.remove(self._handle_exit)
            self._lease.release(child, reusable=reusable)


# Custom metrics, which run in a process of the target.

_EXPECTED = ("reference", "reference_trajectory")
_GIVEN = ("response", "predicted_trajectory", *_EXPECTED)


async def run_custom_metric(
    lease: Lease,
    numbers: itertools.count[int],
    request: CustomScoreRequest,
    *,
    alone: bool,
    timeout_seconds: float,
    complete: CompleteRecord,
) -> CustomScoreAnswer:
    """Run the metric in a process from `lease`. Raises AgentError, with `retry_alone` if another metric killed it."""
    number = next(numbers)
    answered: asyncio.Future[Message | Exit] = asyncio.get_running_loop().create_future()

    dependencies: Dependencies | None = None

    def answer(value: Message | Exit) -> None:
        nonlocal dependencies
        if not isinstance(value, Exit) and value["type"] == "dependencies":
            dependencies = add_reported_dependencies(dependencies, value)
        else:
            resolve(answered, value)

    def attach(child: Child) -> None:
        child.attach(number, answer)
        child.on_exit.append(answer)

    started = time.monotonic()
    try:
        async with asyncio.timeout(_get_limit(timeout_seconds)):
            child = await lease.acquire([_build_score_message(number, request)], attach)
    except TimeoutError as error:
        raise make_metric_timeout(timeout_seconds) from error
    reusable = False
    try:
        await asyncio.wait([answered], timeout=_get_limit(timeout_seconds - (time.monotonic() - started)))
        reusable = answered.done()
        if not reusable:  # the process then reports what the metric used until now
            child.send({"type": "cancel", "session": number})
            await asyncio.wait([answered], timeout=_PATIENCE)
    finally:
        child.detach(number)
        if answer in child.on_exit:
            child.on_exit.remove(answer)
        lease.release(child, reusable=reusable)
    dependencies = await complete(dependencies)
    if not reusable:
        raise make_metric_timeout(timeout_seconds, dependencies=dependencies)
    found = answered.result()
    if isinstance(found, Exit):
        message = f"{request.metric}: the process of the metric {found.describe()}"
        failure = found.failure or Failure(kind=FailureKind.METRIC, message=message, stderr_tail=found.stderr or None)
        raise AgentError(
            failure,
            retry_alone=not alone and found.failure is None,
            stderr_tail=found.stderr,
            dependencies=dependencies,
        )
    if found["type"] == "failed":
        raise AgentError(_build_metric_failure(request, found), dependencies=dependencies)
    return read_scores(found["result"], dependencies)


def _get_limit(seconds: float) -> float | None:
    """Return a limit for asyncio, which has None for no limit."""
    return None if math.isinf(seconds) else max(0.0, seconds)


def _build_metric_failure(request: CustomScoreRequest, found: Message) -> Failure:
    kind = FailureKind(found["kind"])
    return Failure(
        kind=kind if kind is FailureKind.INFRASTRUCTURE else FailureKind.METRIC,
        message=f"{request.metric}: {found['message']}",
        traceback=found.get("traceback"),
    )


def read_scores(result: dict[str, Any], dependencies: Dependencies | None) -> CustomScoreAnswer:
    """Read the result of a metric function in the shape of the message `finished`."""
    return CustomScoreAnswer(
        score=result["score"],
        reason=_redact_reason(result["reason"]),
        verdict=result["verdict"],
        per_invocation=tuple(
            InvocationScore.model_validate({**item, "reason": _redact_reason(item.get("reason"))})
            for item in result["per_invocation"]
        ),
        scores=result["scores"],
        dependencies=dependencies,
    )


def _redact_reason(reason: str | None) -> str | None:
    return None if reason is None else redact(reason)


def _build_score_message(number: int, request: CustomScoreRequest) -> Message:
    expected, scenario = request.expected, request.scenario
    return {
        "type": "score",
        "session": number,
        "metric": request.metric,
        "function": request.function,
        "threshold": request.threshold,
        "options": dict(request.options),
        "actual": [_dump(item) for item in request.actual],
        "expected": None if expected is None else [_dump(item) for item in expected],
        "left": request.left.as_message(),
        "scenario": None if scenario is None else _dump(scenario),
        "instances": [build_instance(request, index) for index in range(len(request.actual))],
    }


def _dump(value: BaseModel) -> dict[str, Any]:
    return value.model_dump(mode="json", exclude_none=True)


def build_instance(request: CustomScoreRequest, index: int) -> dict[str, Any]:
    """Build one row for custom metrics of Vertex AI: prompt, responses, trajectories and measurements.

    All columns of a dataset are included, in the form in which they were given. The results of an agent that ran
    replace those of the dataset.
    """
    actual = request.actual[index]
    expected = request.expected[index] if request.expected and index < len(request.expected) else None
    was_run = request.failure is not None
    is_row = bool(request.columns)
    instance: dict[str, Any] = {
        "prompt": actual.user_content.text() or None,
        "response": _read_response_text(actual),
        "predicted_trajectory": None
        if index in request.unknown
        else _build_trajectory(actual, is_row=is_row and not was_run),
        "reference": _read_response_text(expected),
        "reference_trajectory": _build_trajectory(expected, is_row=is_row),
    }
    if request.seconds:
        instance["latency_in_seconds"] = request.seconds[index]
    if was_run:
        instance["failure"] = request.failure
    for name in _EXPECTED if was_run else _GIVEN:
        if instance[name] is not None and request.columns.get(name) is not None:
            instance[name] = request.columns[name]
    return {**request.columns, **instance}


def _read_response_text(invocation: Invocation | None) -> str | None:
    return None if invocation is None else invocation.response_text()


def _build_trajectory(invocation: Invocation | None, *, is_row: bool) -> list[dict[str, Any]] | None:
    if invocation is None or (is_row and invocation.intermediate_data is None):
        return None  # unknown in a row; in an eval set it means no calls
    return [{"tool_name": call.name, "tool_input": dict(call.args or {})} for call in get_trajectory(invocation)]


# Personas of the agent's google-adk as data: ids of ADK's cases are hashes of them.

_TIMEOUT_SECONDS = 120.0  # for a cold disk on a busy machine; it usually takes a third of a second
_BEFORE = "workbench-personas:"  # marks the line: libraries may print before and after it

# Empty modules replace the packages above, whose imports take seconds and are not needed.
_CODE = f"""
import sys
sys.path[:] = [path for path in sys.path if path]  # nothing of the folder that this was started in
import json, os, types
from importlib.machinery import PathFinder
google = PathFinder.find_spec("google")
for name in ("adk", "adk.errors", "adk.evaluation", "adk.evaluation.simulation"):
    package = sys.modules["google." + name] = types.ModuleType("google." + name)
    package.__path__ = [os.path.join(folder, *name.split(".")) for folder in google.submodule_search_locations]
from google.adk.evaluation.simulation.pre_built_personas import get_default_persona_registry
personas = get_default_persona_registry().get_registered_personas()
print("{_BEFORE}" + json.dumps({{persona.id: persona.model_dump() for persona in personas}}))
"""


def read_adk_personas(python: Path | None = None) -> Mapping[str, Mapping[str, Any]]:
    """Return ADK's personas by id, as ADK dumps them; empty if the interpreter's google-adk has none.

    `python` is an interpreter, by default our own. No code of the user runs.
    """
    try:
        done = subprocess.run(
            [str(python or sys.executable), "-c", _CODE],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_TIMEOUT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    said = done.stdout.decode("utf-8", "replace").rpartition(_BEFORE)[2]
    personas: Mapping[str, Mapping[str, Any]] = json.JSONDecoder().raw_decode(said)[0]
    return personas
