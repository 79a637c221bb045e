"""Sessions with agents in workers: turns, tool requests, dependencies, custom metrics."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from workbench.agents.agent_host import (
    AgentError,
    CustomScoreAnswer,
    CustomScoreRequest,
    OnOpened,
    OnSpan,
    SessionEnd,
    SessionRequest,
    ToolAnswer,
    ToolCall,
    ToolDesk,
    ToolOutcome,
)
from workbench.agents.channel import Message
from workbench.agents.processes import Child, Exit, Lease, slow_import
from workbench.model.evalset import Content, Invocation
from workbench.model.identity import Dependencies, Dependency, DependencyKind
from workbench.model.results import Failure, FailureKind, InvocationScore, TurnResult
from workbench.model.target import AgentDescription, Target
from workbench.model.text import redact
from workbench.model.trace import Span, get_trajectory

# The calls of tools that a worker process asks about, and the answers on their way.


class AskedCalls:
    """The questions of one session: each is answered in a task of its own, as agents call tools side by side."""

    def __init__(self, session: int, desk: ToolDesk, *, give_up: Callable[[AgentError], None]) -> None:
        """`give_up` hears of a question that has no answer."""
        self._session = session
        self._desk = desk
        self._give_up = give_up
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def wanted(self) -> Mapping[str, Any]:
        """See `ToolDesk.wanted`."""
        return self._desk.wanted

    def hear(self, message: Message, send: Callable[[Message], None]) -> None:
        """A question, or what came of a call."""
        if message["type"] == "told":
            self._desk.told(message["ask"], _outcome(message))
            return
        call = ToolCall(
            number=message["ask"], tool=message["tool"], args=message["args"], declaration=message["declaration"]
        )
        task = asyncio.get_running_loop().create_task(self._answer(call, send))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def drop(self) -> None:
        """Nobody waits any more."""
        for task in list(self._tasks):
            if task is not asyncio.current_task():
                task.cancel()

    async def _answer(self, call: ToolCall, send: Callable[[Message], None]) -> None:
        try:
            answer = await self._desk.answer(call)
        except AgentError as error:
            self._give_up(error)
        except Exception as error:  # a fault of ours must end this case, and be seen
            message = f"workbench itself failed while it answered for the tool {call.tool}: {error!r}"
            self._give_up(AgentError(Failure(kind=FailureKind.CRASH, message=message)))
        else:
            send({"type": "answer", "session": self._session, "ask": call.number, **_as_message(answer)})


def _as_message(answer: ToolAnswer) -> Message:
    told: Message = {"source": answer.source, "tell": answer.tell}
    if answer.source is not None:
        outcome = answer.outcome
        told.update(response=outcome.response, error=outcome.error, actions=dict(outcome.actions))
    return told


def _outcome(message: Message) -> ToolOutcome:
    return ToolOutcome(
        response=message.get("response"),
        error=message.get("error"),
        actions=message.get("actions") or {},
        unfit=message.get("unfit"),
    )


# What workers tell of dependencies, read.

_ASKED = frozenset({DependencyKind.FILE, DependencyKind.PROBE, DependencyKind.TIME, DependencyKind.MODE})
_FILE = DependencyKind.FILE


def dependencies_told(before: Dependencies | None, message: Message) -> Dependencies:
    """What was told before and now. Raises TypeError or ValueError where the message has not the shape it should."""
    intern = sys.intern  # thousands of cases tell the same words
    rows = [Dependency(intern(kind), intern(key), intern(value)) for kind, key, value in message["rows"]]
    told = (before or Dependencies()).add_rows(
        rows, complete=message["complete"], tainted=message["tainted"], recorded_at=time.time()
    )
    return _without_own_work(told)


def _without_own_work(told: Dependencies) -> Dependencies:
    """What a case asked about a file before it wrote that file is no longer so: what counts is how the case left it.

    How it found the file is kept beside that: it tells whose work the case went on with.
    """
    written = {row.key: row for row in told.rows if row.kind in (DependencyKind.STATE, DependencyKind.WRITTEN)}
    if not written:
        return told
    asked = {row for row in told.rows if row.kind in _ASKED and row.key in written}
    if not asked:
        return told
    found = {Dependency(DependencyKind.FOUND.value, row.key, row.fingerprint) for row in asked if row.kind == _FILE}
    states = {Dependency(DependencyKind.STATE.value, row.key, written[row.key].fingerprint) for row in asked}
    replaced = {written[row.key] for row in asked}
    return told.model_copy(update={"rows": told.rows - asked - replaced | states | found})


# Sessions with an agent in a worker process.

_PATIENCE = 1.0  # seconds a process has to say that it cancelled a session, or what it printed
_ASK_AGAIN = 0.05  # seconds; an interruption at a bad moment is ignored
_END = 5.0  # seconds until we no longer wait for the end of a process that was killed


class WorkerSession:
    """One conversation in a worker process. The process is taken at the first turn."""

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
    ) -> None:
        self._number = number
        self._request = request
        self._on_span = on_span
        self._on_opened: OnOpened | None = on_opened
        self._lease = lease
        self._target = target
        self._timeout = timeout
        self._child: Child | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._answer: asyncio.Future[Message] | None = None
        self._is_closing = False
        self._unasked: Message | None = None
        self._turn: int | None = None
        self._over = False
        self._gone: Exit | None = None
        self._printed = ("", "")
        self._dependencies: Dependencies | None = None
        self._has_full_record = asyncio.Event()
        self._calls = None if request.tools is None else AskedCalls(number, request.tools, give_up=self._give_up)

    @property
    def dependencies(self) -> Dependencies | None:
        """See `AgentSession.dependencies`."""
        return self._dependencies

    async def turn(self, content: Content, *, turn: int, last: bool = False) -> TurnResult:
        """See `AgentSession.turn`."""
        self._turn = turn
        self._is_closing = last
        message = {"type": "turn", "session": self._number, "turn": turn}
        message["content"] = content.model_dump(mode="json", exclude_none=True)
        answer = await self._ask(message, *([self._close] if last else []))
        try:
            return TurnResult.model_validate(answer["result"])
        except (ValidationError, KeyError) as error:
            failure = Failure(kind=FailureKind.AGENT, message=f"what the agent did cannot be read: {error}", turn=turn)
            raise AgentError(failure) from error

    async def state(self) -> dict[str, Any] | None:
        """See `AgentSession.state`."""
        if self._child is None:
            return None
        answer = await self._ask({"type": "state", "session": self._number})
        state: dict[str, Any] | None = answer["result"]["state"]
        return state

    async def describe(self) -> AgentDescription:
        """See `AgentSession.describe`."""
        answer = await self._ask({"type": "describe", "session": self._number})
        try:
            return AgentDescription.model_validate(answer["result"])
        except (ValidationError, KeyError) as error:
            failure = Failure(kind=FailureKind.AGENT, message=f"what the agent is cannot be read: {error}")
            raise AgentError(failure) from error

    async def finish(self) -> SessionEnd:
        """See `AgentSession.finish`."""
        child = self._child
        if child is None:
            self._over = True
            return SessionEnd(final_state=dict(self._request.state))
        answer = await (self._ask() if self._is_closing else self._ask(self._close))
        state = answer["result"]["final_state"]
        self._over = True
        self._leave(reusable=True)
        if child.shared:
            return SessionEnd(final_state=state)
        end = await asyncio.shield(child.end)  # others wait for it too
        return SessionEnd(final_state=state, stdout_tail=end.stdout, stderr_tail=end.stderr)

    async def stop(self) -> SessionEnd:
        """See `AgentSession.stop`. A shared process reports when it is asked to cancel."""
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
        """See `AgentSession.kill`."""
        child, self._over = self._child, True
        if self._calls is not None:
            self._calls.drop()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result({"type": "killed"})
        if child is not None:
            if child.shared:
                self._printed = await self._ask_output(child)
                await self._cancel(child)
            else:
                child.kill()
                self._leave(reusable=False)
                await asyncio.wait([child.end], timeout=_END)
                self._printed = await self._ask_output(child)
        return SessionEnd(stdout_tail=self._printed[0], stderr_tail=self._printed[1])

    async def _cancel(self, child: Child) -> None:
        """End the session in a process that others share: asked for, and by force where the process does not answer."""
        cancelled: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        if self._unasked is not None:  # what there was to cancel has ended
            self._leave(reusable=True)
            return

        def hear(message: Message) -> None:
            if message["type"] == "dependencies":
                self._hear(message)
            _settle_if(self._is_end(message), cancelled, message)

        child.attach(self._number, hear)
        child.send({"type": "cancel", "session": self._number})
        ends: list[asyncio.Future[Any]] = [cancelled, child.end]
        done, _ = await asyncio.wait(ends, timeout=_PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        self._leave(reusable=cancelled.done() and cancelled.result().get("clean", True))
        if not done:
            child.kill()
            await asyncio.wait([child.end], timeout=_END)

    @property
    def _close(self) -> Message:
        return {"type": "close", "session": self._number}

    def _is_end(self, message: Message) -> bool:
        """Whether it says that the process has nothing more to do with this session."""
        if message["type"] == "finished":
            return self._is_closing and message.get("turn") is None
        return message["type"] in ("cancelled", "failed")

    async def _ask(self, *messages: Message) -> Message:
        """Send messages, and wait for the answer to the first; without any, for the one that is still to come.

        Raises AgentError.
        """
        if self._over:
            raise RuntimeError("the session is over")
        self._answer = asyncio.get_running_loop().create_future()
        if self._unasked is not None:
            self._answer.set_result(self._unasked)
        elif self._child is None:
            await self._take(*messages)
            if self._over:  # killed while it waited for a process
                await self.kill()
        elif self._gone is not None:  # it ended between turns
            self._answer.set_result({"type": "failed", "end": self._gone})
        else:
            self._child.send(*messages)
        answer = await self._answer
        if answer["type"] == "killed":
            raise AgentError(Failure(kind=FailureKind.CRASH, message="the session was killed", turn=self._turn))
        if answer["type"] == "unanswered":
            raise await self._not_answered(answer["error"])
        if answer["type"] == "failed":
            raise await self._failed(answer)
        return answer

    async def _take(self, *messages: Message) -> None:
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
            "tools": None if self._calls is None else dict(self._calls.wanted),
        }
        await self._lease.take([opening, *messages], self._attach)

    def _attach(self, child: Child) -> None:
        self._child = child
        child.attach(self._number, self._hear)
        child.on_exit.append(self._exited)
        self._timer = asyncio.get_running_loop().call_later(self._timeout, self._start_timed_out)
        if child.opened or self._target.is_remote:  # nothing is imported: what remains is up to the agent
            self._opened()

    def _hear(self, message: Message) -> None:
        kind = message["type"]
        if kind == "span":
            try:
                span = Span.model_validate(message["span"])
            except ValidationError:  # of an adapter; the case does not depend on it
                return
            self._on_span(span)
        elif kind in ("finished", "failed"):
            self._stop_timer()
            if self._answer is not None and not self._answer.done():
                self._answer.set_result(message)
            elif self._is_closing and self._is_end(message):
                self._unasked = message
        elif kind == "dependencies":
            self._dependencies = dependencies_told(self._dependencies, message)
            if self._dependencies.complete:
                self._has_full_record.set()
        elif kind == "opened":
            self._stop_timer()
            self._opened()
        elif kind in ("ask", "told") and self._calls is not None and self._child is not None:
            self._calls.hear(message, self._child.send)

    def _opened(self) -> None:
        on_opened, self._on_opened = self._on_opened, None
        if on_opened is not None and not self._over:
            on_opened()

    def _give_up(self, error: AgentError) -> None:
        """What a tool is to answer cannot be said, so that the agent cannot go on."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result({"type": "unanswered", "error": error})

    async def _not_answered(self, error: AgentError) -> AgentError:
        printed = await self.stop()
        failure = error.failure.model_copy(update={"turn": self._turn, "stderr_tail": printed.stderr_tail or None})
        return AgentError(failure, stdout_tail=printed.stdout_tail, stderr_tail=printed.stderr_tail)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start_timed_out(self) -> None:
        # Where others have been opened the agent is imported, and merely busy with them: that is no slow start.
        if self._child is not None and not self._child.opened:
            self._child.kill(slow_import(self._target, seconds=self._timeout))

    def _exited(self, end: Exit) -> None:
        """The process is gone. An answer that is still awaited will not come."""
        self._stop_timer()
        self._gone = end
        if self._answer is not None and not self._answer.done():
            self._answer.set_result({"type": "failed", "end": end})

    async def _failed(self, answer: Message) -> AgentError:
        """The error for a failure that the process told, or for its end."""
        child = self._child
        assert child is not None
        self._over = True
        if "end" in answer:
            self._leave(reusable=False)
            return self._crashed(child, answer["end"])
        stdout, stderr = self._printed = await self._ask_output(child)
        self._leave(reusable=True)
        failure = Failure(
            kind=FailureKind(answer["kind"]),
            message=answer["message"],
            turn=answer.get("turn"),
            traceback=answer.get("traceback"),
            stderr_tail=stderr or None,
        )
        return AgentError(failure, stdout_tail=stdout, stderr_tail=stderr)

    async def _ask_output(self, child: Child) -> tuple[str, str]:
        """What the process printed; complete where it ends with its session."""
        waiting = asyncio.ensure_future(child.output()) if child.shared else child.end
        await asyncio.wait([waiting], timeout=_PATIENCE)
        if not waiting.done():
            return "", ""
        result = waiting.result()
        return (result.stdout, result.stderr) if isinstance(result, Exit) else result

    def _crashed(self, child: Child, end: Exit) -> AgentError:
        failure = end.failure or Failure(
            kind=FailureKind.CRASH,
            message=f"the agent's process {end.why()} before it answered",
        )
        failure = failure.model_copy(update={"turn": self._turn, "stderr_tail": end.stderr or None})
        # A process of its own without an exit status was lost with the one that it was forked from.
        innocent = (child.shared or end.code is None) and not self._request.alone and end.failure is None
        return AgentError(failure, retry_alone=innocent, stdout_tail=end.stdout, stderr_tail=end.stderr)

    def _leave(self, *, reusable: bool) -> None:
        child, self._child = self._child, None
        self._stop_timer()
        if self._calls is not None:
            self._calls.drop()
        if child is not None:
            child.detach(self._number)
            if self._exited in child.on_exit:
                child.on_exit.remove(self._exited)
            self._lease.give_back(child, reusable=reusable)


def _settle_if(condition: bool, future: asyncio.Future[Message], message: Message) -> None:
    if condition and not future.done():
        future.set_result(message)


# Custom metrics, run in a process of the target: what is sent, what comes back.

_EXPECTED = ("reference", "reference_trajectory")
_GIVEN = ("response", "predicted_trajectory", *_EXPECTED)


async def score_in(
    lease: Lease, numbers: itertools.count[int], request: CustomScoreRequest, *, alone: bool
) -> CustomScoreAnswer:
    """Run the metric in a process from `lease`. Raises AgentError, with `retry_alone` where another one killed it."""
    number = next(numbers)
    answered: asyncio.Future[Message | Exit] = asyncio.get_running_loop().create_future()

    dependencies: Dependencies | None = None

    def answer(value: Message | Exit) -> None:
        nonlocal dependencies
        if not isinstance(value, Exit) and value["type"] == "dependencies":
            dependencies = dependencies_told(dependencies, value)
        elif not answered.done():
            answered.set_result(value)

    def attach(child: Child) -> None:
        child.attach(number, answer)
        child.on_exit.append(answer)

    child = await lease.take([_message(number, request)], attach)
    reusable = False
    try:
        found = await answered
        reusable = True
    finally:
        child.detach(number)
        if answer in child.on_exit:
            child.on_exit.remove(answer)
        lease.give_back(child, reusable=reusable)
    if isinstance(found, Exit):
        message = f"{request.metric}: the process of the metric {found.why()}"
        failure = found.failure or Failure(kind=FailureKind.METRIC, message=message, stderr_tail=found.stderr or None)
        raise AgentError(
            failure,
            retry_alone=not alone and found.failure is None,
            stderr_tail=found.stderr,
            dependencies=dependencies,
        )
    if found["type"] == "failed":
        raise AgentError(_failure(request, found), dependencies=dependencies)
    return read_scores(found["result"], dependencies)


def _failure(request: CustomScoreRequest, found: Message) -> Failure:
    kind = FailureKind(found["kind"])
    return Failure(
        kind=kind if kind is FailureKind.INFRASTRUCTURE else FailureKind.METRIC,
        message=f"{request.metric}: {found['message']}",
        traceback=found.get("traceback"),
    )


def read_scores(result: dict[str, Any], dependencies: Dependencies | None) -> CustomScoreAnswer:
    """What a metric function gave, in the shape of the message `finished`."""
    return CustomScoreAnswer(
        score=result["score"],
        reason=_shown(result["reason"]),
        verdict=result["verdict"],
        per_invocation=tuple(
            InvocationScore.model_validate({**item, "reason": _shown(item.get("reason"))})
            for item in result["per_invocation"]
        ),
        scores=result["scores"],
        dependencies=dependencies,
    )


def _shown(reason: str | None) -> str | None:
    return None if reason is None else redact(reason)


def _message(number: int, request: CustomScoreRequest) -> Message:
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
        "scenario": None if scenario is None else scenario.model_dump(mode="json", exclude_none=True),
        "instances": [instance_of(request, index) for index in range(len(request.actual))],
    }


def _dump(invocation: Invocation) -> dict[str, Any]:
    return invocation.model_dump(mode="json", exclude_none=True)


def instance_of(request: CustomScoreRequest, index: int) -> dict[str, Any]:
    """One row as Vertex AI's custom metrics get it: what was said, done and measured.

    The columns of a dataset are all there; answers and trajectories are in the form in which they were given, but for
    those of an agent that ran: they replace what the dataset has.
    """
    actual = request.actual[index]
    expected = request.expected[index] if request.expected and index < len(request.expected) else None
    was_run = request.failure is not None
    is_row = bool(request.columns)
    instance: dict[str, Any] = {
        "prompt": actual.user_content.text() or None,
        "response": _text(actual),
        "predicted_trajectory": None
        if index in request.unknown
        else _trajectory(actual, is_row=is_row and not was_run),
        "reference": _text(expected),
        "reference_trajectory": _trajectory(expected, is_row=is_row),
    }
    if request.seconds:
        instance["latency_in_seconds"] = request.seconds[index]
    if was_run:
        instance["failure"] = request.failure
    for name in _EXPECTED if was_run else _GIVEN:
        if instance[name] is not None and request.columns.get(name) is not None:
            instance[name] = request.columns[name]
    return {**request.columns, **instance}


def _text(invocation: Invocation | None) -> str | None:
    return None if invocation is None or invocation.final_response is None else invocation.final_response.text()


def _trajectory(invocation: Invocation | None, *, is_row: bool) -> list[dict[str, Any]] | None:
    if invocation is None or (is_row and invocation.intermediate_data is None):
        return None  # of a row nothing is known then; in an eval set no calls are
    return [{"tool_name": call.name, "tool_input": dict(call.args or {})} for call in get_trajectory(invocation)]


# The personas of the google-adk that an agent's interpreter has, as data: ids of ADK's cases are hashes of them.

_TIMEOUT_SECONDS = 120.0  # from a cold disk on a busy machine; else it takes a third of a second
_BEFORE = "workbench-personas:"  # libraries print before it while they are imported, and after it at the end

# The packages above the module are stand-ins: what their own code imports takes seconds, and nothing here needs it.
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
    """Return ADK's personas by id, as ADK dumps them; empty if the interpreter has no google-adk that has them.

    `python` is an interpreter, by default our own. It runs no code of the user.
    """
    command = [str(python or sys.executable), "-c", _CODE]
    try:
        done = subprocess.run(
            command,
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
