"""One case, from the open session to the last turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from workbench.agents.agent_host import (
    AgentError,
    AgentHost,
    HeldUp,
    HostSession,
    LeftByAgents,
    ModelResponder,
    SessionEnd,
    SessionRequest,
    ToolResponder,
)
from workbench.model.evalset import Content, EvalCase
from workbench.model.results import Execution, Failure, FailureKind, TurnResult
from workbench.model.target import Target
from workbench.model.text import redact, redact_data
from workbench.model.trace import Span, SpanKind
from workbench.simulation.users import User, UserCall, UserFailed

# ADK's default user: agents may have stored data under it.
DEFAULT_USER = "test_user_id"


@dataclass(frozen=True)
class Attempt:
    """One attempt at a case.

    `retry_alone`: another case broke the shared process; retry in a separate one. `retry_elsewhere`: its machine was
    lost.
    """

    execution: Execution
    retry_alone: bool = False
    retry_elsewhere: bool = False


@dataclass(frozen=True)
class CaseListener:
    """Callbacks during the run of a case. `opened` gets the node of a cluster on which the agent runs, if any."""

    user_spoke: Callable[[int, Content], None]
    turn_finished: Callable[[int, TurnResult], None]
    span_finished: Callable[[Span], None]
    opened: Callable[[str | None], None]


@dataclass
class _TurnClock:
    """Start times of `time.perf_counter`: of the session, and of the unfinished turn."""

    opened_at: float | None = None
    turn_began: float | None = None

    def unfinished_seconds(self) -> float:
        """Return the duration of the unfinished turn, without the import."""
        if self.opened_at is None or self.turn_began is None:
            return 0.0
        return time.perf_counter() - max(self.opened_at, self.turn_began)


async def execute(
    case: EvalCase,
    user: User,
    host: AgentHost,
    *,
    target: Target,
    timeout_seconds: float,
    alone: bool,
    listener: CaseListener,
    left: LeftByAgents,
    tools: ToolResponder | None = None,
    models: ModelResponder | None = None,
    instructions: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> Attempt:
    """Run the agent on a case with its user. `left` are files written in earlier cases.

    `tools` may answer tool calls, `models` model calls. `instructions`: see `SessionRequest`.

    Errors are in the failure of the execution, beside the finished turns. The timeout starts after the import of the
    agent and excludes calls to the model that plays the user. Cancelling kills the agent's process.
    """
    turns: list[TurnResult] = []
    spans: list[Span] = []

    def keep_span(span: Span) -> None:
        span = _redact_span(span)
        spans.append(span)
        listener.span_finished(span)

    def ended(
        failure: Failure | None, *, stdout: str = "", stderr: str = "", final_state: dict[str, Any] | None = None
    ) -> Execution:
        recorded = None if session is None else session.dependencies
        return Execution.construct_unvalidated(
            turns=tuple(turns),
            spans=tuple(spans),
            duration_seconds=time.perf_counter() - started,
            unfinished_seconds=clock.unfinished_seconds(),
            failure=None
            if failure is None
            else Failure.model_validate(failure.model_dump()),  # validates, which redacts; copying would not
            stdout_tail=redact(stdout),
            stderr_tail=redact(stderr),
            final_state=final_state,
            simulation=user.describe_simulation(),
            node=None if session is None else session.node,
            dependencies=None if recorded is None else recorded.close(),
        )

    started = time.perf_counter()
    clock = _TurnClock()
    session: HostSession | None = None
    try:
        async with asyncio.timeout(None) as deadline:

            def begin_turn() -> None:
                clock.opened_at = time.perf_counter()
                deadline.reschedule(asyncio.get_running_loop().time() + timeout_seconds)
                listener.opened(None if session is None else session.node)

            request = _session_request(
                case, target.name, alone=alone, left=left, tools=tools, models=models, instructions=instructions
            )
            session = await host.open(request, on_span=keep_span, on_opened=begin_turn)
            opened = time.perf_counter()
            while (message := await _ask_user(user, turns, deadline, keep_span, opened)) is not None:
                if user.turns is None:
                    listener.user_spoke(len(turns), message)
                clock.turn_began = time.perf_counter()
                result = await session.turn(message, turn=len(turns), last=len(turns) + 1 == user.turns)
                clock.turn_began = None
                turns.append(result)
                listener.turn_finished(len(turns) - 1, result)
            end = await session.finish()
        return Attempt(ended(None, stdout=end.stdout_tail, stderr=end.stderr_tail, final_state=end.final_state))
    except UserFailed as error:
        assert session is not None
        printed = await session.stop()
        failure = error.failure.model_copy(update={"turn": len(turns)})
        return Attempt(ended(failure, stdout=printed.stdout_tail, stderr=printed.stderr_tail))
    except AgentError as error:
        failure = _set_turn(error.failure, turn=len(turns), of=user.turns)
        return Attempt(
            ended(failure, stdout=error.stdout_tail, stderr=error.stderr_tail),
            retry_alone=error.retry_alone,
            retry_elsewhere=error.retry_elsewhere,
        )
    except TimeoutError:
        if not deadline.expired():
            raise
        printed = SessionEnd() if session is None else await session.stop()
        waiting = f", waiting for {target.location}" if target.is_remote else ""
        blocked = "" if printed.held_up is None else f": {printed.held_up}"
        failure = Failure(
            kind=FailureKind.TIMEOUT,
            message=f"took longer than {timeout_seconds:g} s{waiting}{blocked}",
            stderr_tail=printed.stderr_tail or None,
        )
        placed = _set_turn(failure, turn=len(turns), of=user.turns)
        execution = ended(placed, stdout=printed.stdout_tail, stderr=printed.stderr_tail)
        return Attempt(execution, retry_alone=not turns and printed.held_up is HeldUp.BEFORE_IT_BEGAN)
    finally:
        if session is not None:
            await session.kill()


async def _ask_user(
    user: User,
    turns: Sequence[TurnResult],
    deadline: asyncio.Timeout,
    keep_span: Callable[[Span], None],
    opened: float,
) -> Content | None:
    """Return the next user message. Calls to a model become spans of the trace."""
    if user.turns is not None:  # no model is asked
        return await user.next_message(turns)
    asked = len(user.calls)
    began = time.perf_counter()
    when = deadline.when()
    deadline.reschedule(None)
    said: Content | None = None
    try:
        said = await user.next_message(turns)
        return said
    finally:
        ended = time.perf_counter()
        if when is not None:
            deadline.reschedule(when + ended - began)
        # The reply that ends the conversation starts no turn.
        turn = len(turns) if said is not None else max(len(turns) - 1, 0)
        for call in user.calls[asked:]:
            keep_span(_make_user_span(call, turn=turn, start=began - opened, end=ended - opened))


def _make_user_span(call: UserCall, *, turn: int, start: float, end: float) -> Span:
    reply = call.reply
    attributes: dict[str, Any] = {"gen_ai.request.model": call.model}
    if reply is not None:
        attributes |= {"cached": reply.cached, "scripted": reply.scripted}
    return Span(
        id=f"simulated-user-{start:.6f}",
        turn=turn,
        kind=SpanKind.USER,
        name="simulated user",
        start=start,
        end=end,
        error=call.problem,
        request=call.prompt,
        response=None if reply is None else reply.text,
        attributes=attributes,
    )


def _redact_span(span: Span) -> Span:
    """Redact secrets in a span. Tool calls keep them, as they are compared with those of the turn."""
    error = None if span.error is None else redact(span.error)
    if span.kind is SpanKind.TOOL:
        return span if error == span.error else span.model_copy(update={"error": error})
    fields = {name: redact_data(getattr(span, name)) for name in ("name", "request", "response", "attributes")}
    return span.model_copy(update={**fields, "error": error})


def _session_request(
    case: EvalCase,
    target_name: str,
    *,
    alone: bool,
    left: LeftByAgents,
    tools: ToolResponder | None,
    models: ModelResponder | None,
    instructions: Mapping[str, Mapping[str, str]],
) -> SessionRequest:
    given = case.session_input
    return SessionRequest(
        app_name=(given.app_name if given else "") or target_name,
        user_id=(given.user_id if given else "") or DEFAULT_USER,
        session_id=given.session_id if given else None,
        state=dict(given.state) if given else {},
        alone=alone,
        left=left,
        tools=tools,
        models=models,
        instructions=instructions,
    )


def _set_turn(failure: Failure, *, turn: int, of: int | None) -> Failure:
    """Set the turn of a failure unless it is known or all turns are finished."""
    is_placed = failure.turn is not None or (of is not None and turn >= of)
    return failure if is_placed else failure.model_copy(update={"turn": turn})
