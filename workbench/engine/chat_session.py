"""Chats with agents, and conversations saved as cases."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count, zip_longest
from pathlib import Path
from typing import Any

from workbench.agents.agent_host import (
    AgentError,
    HostSession,
    OnOpened,
    OnSpan,
    SessionEnd,
    SessionRequest,
    ToolResponder,
)
from workbench.engine.acceptance import explain_unknown_calls
from workbench.engine.case_run import DEFAULT_USER
from workbench.engine.run import EventLog
from workbench.engine.run_resources import EngineThread, Hosts
from workbench.model.evalset import (
    Content,
    EvalCase,
    IntermediateData,
    Invocation,
    InvocationEvents,
    Part,
    SessionInput,
)
from workbench.model.identity import CaseKey
from workbench.model.results import CaseResult, CaseStatus, Execution, Failure, FailureKind, TurnResult
from workbench.model.run_events import ChatEnded, ChatEvent, StateSeen, StepSeen, TurnAnswered, TurnBegan, TurnFailed
from workbench.model.target import AgentKind, Target
from workbench.model.text import REDACTED
from workbench.model.trace import Span, SpanKind, get_trajectory
from workbench.model.turn_diff import list_messages, list_responses
from workbench.simulation.replayed_models import CaseModels
from workbench.simulation.simulated_tools import CaseTools, RecordedCall, ToolRecording
from workbench.store.errors import StoreError
from workbench.store.evalsets.case_frame import DocumentFormat
from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.store.evalsets.new_evalsets import open_or_make_set
from workbench.store.model_answers import RecordedModels
from workbench.store.settings import RunSettings

# Branches: chats that begin with the turns of a recording.

_OF_THE_FRAMEWORK = frozenset({"transfer_to_agent", "exit_loop"})
"""Tools of ADK that only steer the agents. They are called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatBranch:
    """The begin of a chat: answered turns that are replayed before its first live message.

    `tools` are the recorded tool calls of each turn. `unrecorded_tools` are the tools of each turn without a result to
    replay, with the reason. `models` are the recorded model calls; None if there are none.
    """

    turns: Sequence[TurnResult] = ()
    tools: Sequence[Sequence[RecordedCall]] = ()
    unrecorded_tools: Sequence[Mapping[str, str]] = ()
    models: RecordedModels | None = None

    def limit_turns(self, count: int) -> ChatBranch:
        """Return the branch with only so many of its turns."""
        tools, unrecorded = self.tools[:count], self.unrecorded_tools[:count]
        return replace(self, turns=self.turns[:count], tools=tools, unrecorded_tools=unrecorded)

    @property
    def tool_recording(self) -> ToolRecording:
        """The recorded tool calls of all turns."""
        case = CaseKey(target="", eval_set="", eval_id="")
        return ToolRecording.of_case(case, (call for calls in self.tools for call in calls))


def make_branch(execution: Execution, turns: int, *, target: Target, models: RecordedModels | None) -> ChatBranch:
    """Make a branch of the first turns of an execution. `models` are its recorded model calls."""
    count = min(turns, len(execution.turns))
    calls = [_read_tool_calls(execution.spans, turn, target) for turn in range(count)]
    return ChatBranch(
        turns=execution.turns[:count],
        tools=[[call for call in of_turn if call.unfit is None] for of_turn in calls],
        unrecorded_tools=[{call.tool: call.unfit for call in of_turn if call.unfit is not None} for of_turn in calls],
        models=models,
    )


def _read_tool_calls(spans: Sequence[Span], turn: int, target: Target) -> list[RecordedCall]:
    """Read the tool calls of a turn from its trace. Those whose result is not what the tool returned are `unfit`."""
    found = []
    for span in spans:
        if span.kind is not SpanKind.TOOL or span.turn != turn or span.name in _OF_THE_FRAMEWORK:
            continue
        response = span.response
        if target.kind is AgentKind.LANGCHAIN and _is_wrapped(response) and isinstance(response["result"], str):
            response = response["result"]  # the text of a message
        actions = span.attributes.get("actions")
        unfit = None if _has_result(span, target) else "its result is not recorded"
        if _has_redaction((response, actions)):
            unfit = "its result holds a secret, which is not recorded"
        found.append(
            RecordedCall(
                tool=span.name,
                args=dict(span.request) if isinstance(span.request, Mapping) else {},
                response=response,
                actions=dict(actions) if isinstance(actions, Mapping) else {},
                unfit=unfit,
            )
        )
    return found


def _has_redaction(data: Any) -> bool:
    """Return True if a secret was replaced in JSON data."""
    if isinstance(data, Mapping):
        return any(_has_redaction(each) for item in data.items() for each in item)
    if isinstance(data, list | tuple):
        return any(map(_has_redaction, data))
    return isinstance(data, str) and REDACTED in data


def _is_wrapped(response: Any) -> bool:
    """Return True if a response may be a value that was put into an object."""
    return isinstance(response, dict) and [*response] == ["result"]


def _has_result(span: Span, target: Target) -> bool:
    """Return True if the trace of a tool call has what the tool returned, and all its changes to the session."""
    match target.kind:
        case AgentKind.ADK:
            return span.response is not None or span.error is None  # a tool may return None
        case AgentKind.LANGCHAIN:
            return span.response is not None
        case AgentKind.FUNCTION:
            return span.response is not None and not _is_wrapped(span.response)
        case _:
            return False


def find_tool_warning(branch: ChatBranch, target: Target) -> str:
    """Return which tools a replay of the turns really calls, and why; empty if it calls none."""
    if not branch.turns:
        return ""
    if not target.runs_in_worker:
        has_calls = any(turn.calls_unknown or get_trajectory(turn.invocation) for turn in branch.turns)
        why = f"the tools of an agent of kind {target.kind.value} run elsewhere"
        return f"the tools of the replayed turns will really be called: {why}" if has_calls else ""
    reasons = {tool: why for of_turn in branch.unrecorded_tools for tool, why in of_turn.items()}
    if not reasons:
        return ""
    tools = ", ".join(f"{tool} ({why})" for tool, why in reasons.items())
    return f"the results of these tools cannot be replayed, so they will really be called: {tools}"


class BranchReplay:
    """Replays the turns of a branch, and says what of them was not replayed."""

    def __init__(
        self, branch: ChatBranch, target: Target, *, models: CaseModels | None, tools: ToolResponder | None
    ) -> None:
        self.turns = len(branch.turns)
        self.messages = [turn.invocation.user_content for turn in branch.turns]
        self._branch = branch
        self._target = target
        self._models = models
        self._tools = tools if isinstance(tools, CaseTools) else None
        self._has_explained = False  # the first model call that differs

    def begin_turn(self, turn: int) -> None:
        """Answer tool calls from the recording of a turn; after the last one, from none."""
        if self._tools is not None:
            self._tools.unrecorded_calls.clear()
            self._tools.replay(self._branch.tools[turn] if turn < self.turns else None)

    def list_live_parts(self, turn: int, result: TurnResult | None) -> tuple[str, ...]:
        """Return sentences that say what of a turn was not replayed, and why. It has no result if it failed."""
        if turn >= self.turns:
            return ()
        why = self._explain_live_models(turn)
        found = [] if why is None else [f"turn {turn + 1} was asked again: {why}"]
        called = dict.fromkeys(() if self._tools is None else self._tools.unrecorded_calls)
        lacks = f"the recording of turn {turn + 1} lacks this call"
        found += [f"{tool} was called: {self._branch.unrecorded_tools[turn].get(tool, lacks)}" for tool in called]
        if not found and result is not None and not _is_same_answer(result, self._branch.turns[turn]):
            found = [f"turn {turn + 1} has another answer, or other tool calls, than in the recording"]
        return tuple(found)

    def _explain_live_models(self, turn: int) -> str | None:
        """Return why models were asked in a turn; None if they were not."""
        if self._models is None:
            return f"an agent of kind {self._target.kind.value} asks its models itself"
        if not self._models.count_live_calls(turn):
            return None
        if self._models.difference is None:
            return "its model calls are not recorded"
        if self._has_explained:
            return "an earlier model call differs from the recording"
        self._has_explained = True
        return str(self._models.difference)


def _is_same_answer(one: TurnResult, other: TurnResult) -> bool:
    said, recorded = (each.invocation.response_text(thoughts=False) for each in (one, other))
    return said == recorded and get_trajectory(one.invocation) == get_trajectory(other.invocation)


# Manual chats: one session with an agent in its own process.

OpenSession = Callable[[OnSpan, OnOpened], Awaitable[HostSession]]

_PATIENCE = 5.0  # seconds for a session to report its state, and to end


class ChatError(Exception):
    """A chat cannot start; the message says why."""


class Chat:
    """One session with an agent, from its first turn to its end. Every method may be called from any thread.

    `session_input` is the complete initial session.
    """

    def __init__(self, target: Target, session_input: SessionInput, *, call_engine: Callable[..., None]) -> None:
        self.target = target
        self.session_input = session_input
        self.log = EventLog[ChatEvent](last=ChatEnded)
        self.models: CaseModels | None = None
        """Records the model calls of the session; None if they are not recorded."""
        self._call_engine = call_engine
        self._conversation: ChatRunner | None = None
        self._done: Future[None] | None = None

    def attach(self, conversation: ChatRunner, done: Future[None]) -> None:
        """Connect the chat to its conversation. For the engine."""
        self._conversation = conversation
        self._done = done

    def say(self, said: str | Content) -> None:
        """Queue a message to the agent. Returns at once; does nothing once the chat is over."""
        content = Content.of_text(said, role="user") if isinstance(said, str) else said
        if self._conversation is not None:
            self._call_engine(self._conversation.say, content)

    def events(self) -> AsyncIterator[ChatEvent]:
        """Yield every event from the first on, for any number of listeners on any event loop."""
        return self.log.events()

    def iter_events(self) -> Iterator[ChatEvent]:
        """Yield every event from the first on and wait for new ones, on a thread without an event loop."""
        return self.log.iter_events()

    def cancel(self) -> None:
        """Cancel the running turn, which ends the session. Returns at once."""
        if self._conversation is not None:
            self._call_engine(self._conversation.cancel)

    def end(self) -> None:
        """End the session, and cancel a running turn. Returns at once."""
        if self._conversation is not None:
            self._call_engine(self._conversation.end)

    @property
    def is_over(self) -> bool:
        """Whether the session has ended and its process is gone."""
        return self._done is not None and self._done.done()

    def close(self) -> None:
        self.end()
        if self._done is not None:
            self._done.result()


def start_chat(
    target: Target,
    session_input: SessionInput,
    *,
    hosts: Hosts,
    settings: RunSettings,
    thread: EngineThread,
    tools: ToolResponder | None = None,
    models: CaseModels | None = None,
    branch: ChatBranch | None = None,
) -> Chat:
    """Start a manual chat. No process starts before the first turn. Raises ChatError.

    The session input has the defaults of a case. `tools` may answer tool calls, `models` model calls. The turns of
    `branch` are replayed at once.
    """
    if target.kind is AgentKind.RECORDED:
        raise ChatError(f"target {target.name!r} has recorded sessions, so there is no agent to talk to")
    given = SessionInput(
        app_name=session_input.app_name or target.name,
        user_id=session_input.user_id or DEFAULT_USER,
        session_id=session_input.session_id,
        state=dict(session_input.state),
    )
    request = SessionRequest(
        app_name=given.app_name,
        user_id=given.user_id,
        session_id=given.session_id,
        state=given.state,
        announce_spans=True,
        alone=True,  # current code in every session, and cancelling affects no other session
        tools=tools,
        models=models,
    )

    async def open_session(on_span: OnSpan, on_opened: OnOpened) -> HostSession:
        # The host of runs, which is kept warm.
        host = hosts.get_host(
            target, isolation=settings.isolation, concurrency=settings.concurrency, ray=settings.cluster
        )
        if settings.cluster is not None:  # nodes get the current code
            host.renew()
        return await host.open(request, on_span=on_span, on_opened=on_opened)

    chat = Chat(target, given, call_engine=thread.call)
    chat.models = models
    replay = None if branch is None else BranchReplay(branch, target, models=models, tools=tools)
    conversation = ChatRunner(
        chat.log, open_session=open_session, timeout_seconds=settings.timeout_seconds, replay=replay
    )
    chat.attach(conversation, thread.submit(conversation.run()))
    return chat


class ChatRunner:
    """A chat on the engine's loop.

    `timeout_seconds` is how long a turn may take, from the moment the agent is imported. `replay` has the first turns.
    """

    def __init__(
        self,
        log: EventLog[ChatEvent],
        *,
        open_session: OpenSession,
        timeout_seconds: float,
        replay: BranchReplay | None = None,
    ) -> None:
        self._log = log
        self._replay = replay
        self._open_session = open_session
        self._timeout = timeout_seconds
        self._said: asyncio.Queue[Content | None] = asyncio.Queue()  # None: the end
        self._turns = 0
        self._answering: asyncio.Task[TurnResult] | None = None
        self._opened = asyncio.Event()
        self._is_cancelled = False
        for content in () if replay is None else replay.messages:
            self._said.put_nowait(content)

    def say(self, content: Content) -> None:
        self._said.put_nowait(content)

    def cancel(self) -> None:
        self._is_cancelled = True
        if self._answering is not None:
            self._answering.cancel()

    def end(self) -> None:
        self.cancel()
        self._said.put_nowait(None)

    async def run(self) -> None:
        """Run the session to its end, and kill its process in any case."""
        session = await self._open_session(lambda span: self._log.append(StepSeen(span=span)), self._opened.set)
        failure: Failure | None = None
        printed = SessionEnd()
        try:
            printed = await self._converse(session)
        except AgentError as error:  # between two turns
            failure = error.failure
            printed = SessionEnd(stdout_tail=error.stdout_tail, stderr_tail=error.stderr_tail)
        finally:
            await session.kill()
            self._log.append(
                ChatEnded(
                    failure=failure,
                    unsaid=tuple(self._drain_messages()),
                    stdout_tail=printed.stdout_tail,
                    stderr_tail=printed.stderr_tail,
                )
            )

    async def _converse(self, session: HostSession) -> SessionEnd:
        """Send the messages in order until the end, or until a turn fails."""
        while (content := await self._said.get()) is not None:
            failed = await self._turn(session, content)
            if failed is not None:
                return failed
            await self._report_state(session)
        try:
            async with asyncio.timeout(_PATIENCE):
                return await session.finish()
        except TimeoutError:
            return await session.kill()

    async def _turn(self, session: HostSession, content: Content) -> SessionEnd | None:
        """Run one turn. If it fails, return the end of the session."""
        turn, self._turns = self._turns, self._turns + 1
        is_replayed = self._replay is not None and turn < self._replay.turns
        self._log.append(TurnBegan(turn=turn, content=content, at=datetime.now(UTC), is_replayed=is_replayed))
        if self._replay is not None:
            self._replay.begin_turn(turn)
        started = time.perf_counter()
        self._answering = answering = asyncio.ensure_future(session.turn(content, turn=turn))
        if is_replayed and self._is_cancelled:  # between two turns of a branch
            answering.cancel()
        opened = asyncio.ensure_future(self._opened.wait())
        await asyncio.wait([answering, opened], return_when=asyncio.FIRST_COMPLETED)
        opened.cancel()
        await asyncio.wait([answering], timeout=self._timeout)
        self._answering = None
        if answering.done() and not answering.cancelled() and answering.exception() is None:
            result = answering.result()
            live_parts = () if self._replay is None else self._replay.list_live_parts(turn, result)
            self._log.append(TurnAnswered(turn=turn, result=result, live_parts=live_parts))
            return None
        failure, printed = await self._failure(session, answering, turn)
        live_parts = () if self._replay is None or failure is None else self._replay.list_live_parts(turn, None)
        self._log.append(
            TurnFailed(
                turn=turn,
                status=CaseStatus.CANCELLED if failure is None else CaseStatus.ERROR,
                duration_seconds=time.perf_counter() - started,
                failure=failure,
                live_parts=live_parts,
            )
        )
        return printed

    async def _failure(
        self, session: HostSession, answering: asyncio.Task[TurnResult], turn: int
    ) -> tuple[Failure | None, SessionEnd]:
        """Return the failure of a turn (None: it was cancelled), and the output of its process."""
        if answering.done() and not answering.cancelled():
            error = answering.exception()
            if not isinstance(error, AgentError):  # a bug of workbench, not of the agent
                raise error if error is not None else RuntimeError("the turn has an answer")
            failure = error.failure.model_copy(update={"turn": turn})
            return failure, SessionEnd(stdout_tail=error.stdout_tail, stderr_tail=error.stderr_tail)
        timed_out = not answering.done()
        answering.cancel()
        printed = await session.kill()
        if not timed_out:
            return None, printed
        message = f"took longer than {self._timeout:g} s"
        tail = printed.stderr_tail or None
        return Failure(kind=FailureKind.TIMEOUT, message=message, turn=turn, stderr_tail=tail), printed

    async def _report_state(self, session: HostSession) -> None:
        """Report the state after a turn. Raises AgentError."""
        try:
            async with asyncio.timeout(_PATIENCE):
                state = await session.state()
        except TimeoutError:
            message = f"the agent's process did not report the state of the session within {_PATIENCE:g} s"
            raise AgentError(Failure(kind=FailureKind.TIMEOUT, message=message)) from None
        self._log.append(StateSeen(turn=self._turns - 1, state=state))

    def _drain_messages(self) -> Iterator[Content]:
        while not self._said.empty():
            content = self._said.get_nowait()
            if content is not None:
                yield content


# A chat as an eval case, in the form of the other cases of the set.

_LOOKED_AT = 20  # cases to detect the form from


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseForm:
    """The form of the cases of a set.

    `as_events`: intermediate data is a list of events, not lists of calls and responses. `tool_responses`: cases
    contain tool responses.
    """

    format: DocumentFormat = DocumentFormat.CURRENT
    as_events: bool = False
    tool_responses: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCase:
    """A new case: actual turns as expectations, and the initial session.

    `final_state` is the expected final state; None expects none. `expected` are the first turns as another case of the
    form `expected_format` expects them, None for an actual one.
    """

    eval_id: str
    turns: Sequence[TurnResult]
    session_input: SessionInput
    final_state: Mapping[str, Any] | None = None
    expected: Sequence[Mapping[str, Any] | None] = ()
    expected_format: DocumentFormat | None = None

    def list_turns(self, format: DocumentFormat) -> Iterator[tuple[TurnResult, Mapping[str, Any] | None]]:
        """Yield each turn with its expected data, None if the actual one is expected."""
        expected = self.expected if format is self.expected_format else ()
        return zip_longest(self.turns, expected[: len(self.turns)])


def detect_form(document: EvalSetDocument) -> CaseForm:
    """Detect the form of the first cases of a set."""
    as_events = tool_responses = False
    if document.format is DocumentFormat.CURRENT:
        invocations = list(_first_invocations(document))
        forms = [invocation.intermediate_data for invocation in invocations if invocation.intermediate_data is not None]
        as_events = bool(forms) and isinstance(forms[0], InvocationEvents)
        tool_responses = any(list_responses(invocation) for invocation in invocations)
    return CaseForm(format=document.format, as_events=as_events, tool_responses=tool_responses)


def write_case(document: EvalSetDocument, case: NewCase) -> None:
    """Append a case to a set, or replace the one with its id. Calls are not written if the agent does not report any.

    Raises StoreError, also if calls or arguments are unknown.
    """
    actual = [
        (number, turn)
        for number, (turn, expected) in enumerate(case.list_turns(document.format))
        if expected is None and not turn.has_no_call_report
    ]
    unknown = next(filter(None, (explain_unknown_calls(turn, number) for number, turn in actual)), None)
    if unknown is not None:
        raise StoreError(document.path, f"{case.eval_id} cannot be saved: {unknown}")
    data = _case_data(document, case, detect_form(document))
    found = next((entry.index for entry in document.entries if entry.eval_id == case.eval_id), None)
    if found is None:
        document.insert_case(len(document), data)
        return
    document.remove_case(found)
    document.insert_case(found, data)


def append_cases(document: EvalSetDocument, cases: Sequence[NewCase]) -> None:
    """Append cases, whose ids are new and whose calls are known or not reported, in one edit. Raises StoreError."""
    form = detect_form(document)
    document.insert_cases(len(document), [_case_data(document, case, form) for case in cases])


def _first_invocations(document: EvalSetDocument) -> Iterator[Invocation]:
    for entry in document.entries[:_LOOKED_AT]:
        if entry.problem is None:
            yield from document.case(entry.index).conversation or ()


def _case_data(document: EvalSetDocument, case: NewCase, form: CaseForm) -> dict[str, Any]:
    if form.format is not DocumentFormat.CURRENT:
        return _legacy_data(document, case)
    data: dict[str, Any] = {
        "eval_id": case.eval_id,
        "conversation": [
            expected or _turn_data(turn, form, invocation_id=f"{case.eval_id}_{number}")
            for number, (turn, expected) in enumerate(case.list_turns(form.format), start=1)
        ],
        "session_input": _session_data(case.session_input),
        "creation_timestamp": time.time(),
    }
    if case.final_state is not None:
        data["final_session_state"] = dict(case.final_state)
    return data


def _turn_data(turn: TurnResult, form: CaseForm, *, invocation_id: str) -> dict[str, Any]:
    invocation = turn.invocation
    data = {"invocation_id": invocation_id, "user_content": _dump_content(invocation.user_content)}
    response = _dump_without_thoughts(invocation.final_response)
    if response is not None:
        data["final_response"] = response
    if invocation.intermediate_data is not None:
        data["intermediate_data"] = _events_data(invocation, form) if form.as_events else _flat_data(turn, form)
    return data


def _flat_data(turn: TurnResult, form: CaseForm) -> dict[str, Any]:
    invocation, data = turn.invocation, dict[str, Any]()
    if not turn.has_no_call_report:
        data["tool_uses"] = [_call(call.name, call.args) for call in get_trajectory(invocation)]
    if form.tool_responses and not turn.has_no_call_report:
        data["tool_responses"] = [_response(item.name, item.response) for item in list_responses(invocation)]
    data["intermediate_responses"] = [[said.author, [{"text": said.text}]] for said in list_messages(invocation)]
    return data


def _events_data(invocation: Invocation, form: CaseForm) -> dict[str, Any]:
    """Dump the expected parts of events. Lists of calls become one event."""
    found = invocation.intermediate_data
    if isinstance(found, InvocationEvents):
        expected = [(event.author, (event.content and event.content.parts) or []) for event in found.invocation_events]
    else:
        expected = list(_as_events(found))
    events = []
    for author, parts in expected:
        kept = [part for part in (_part(part, form) for part in parts) if part is not None]
        if kept:
            events.append({"author": author, "content": {"role": "model", "parts": kept}})
    return {"invocation_events": events}


def _as_events(data: IntermediateData | None) -> Iterator[tuple[str, list[Part]]]:
    if data is not None:
        yield "agent", [Part(function_call=call) for call in data.tool_uses]
        yield "agent", [Part(function_response=response) for response in data.tool_responses]
        for said in data.intermediate_responses:
            yield said.author, said.parts


def _part(part: Part, form: CaseForm) -> dict[str, Any] | None:
    """Dump the expected part; None for thoughts, and for tool responses if the cases have none."""
    if part.function_call is not None:
        return {"function_call": _call(part.function_call.name or "", part.function_call.args)}
    if part.function_response is not None:
        found = part.function_response
        return {"function_response": _response(found.name, found.response)} if form.tool_responses else None
    return {"text": part.text} if part.text and not part.thought else None


def _legacy_data(document: EvalSetDocument, case: NewCase) -> dict[str, Any]:
    """Dump a case in the older format, which has only text and no final state."""
    if case.final_state is not None:
        raise StoreError(document.path, "the old format has no final session state; migrate the file first")
    return {
        "name": case.eval_id,
        "data": [
            expected or _legacy_turn(document, turn.invocation) for turn, expected in case.list_turns(document.format)
        ],
        "initial_session": _session_data(case.session_input),
    }


def _legacy_turn(document: EvalSetDocument, invocation: Invocation) -> dict[str, Any]:
    if any(part.text is None for part in invocation.user_content.parts or ()):
        raise StoreError(document.path, "the old format has only text; migrate the file first")
    return {
        "query": invocation.user_content.text(),
        "expected_tool_use": [
            {"tool_name": call.name, "tool_input": dict(call.args or {})} for call in get_trajectory(invocation)
        ],
        "expected_intermediate_agent_responses": [
            {"author": said.author, "text": said.text} for said in list_messages(invocation)
        ],
        "reference": invocation.response_text(thoughts=False) or "",
    }


def _session_data(session_input: SessionInput) -> dict[str, Any]:
    return {"app_name": session_input.app_name, "user_id": session_input.user_id, "state": dict(session_input.state)}


def _call(name: str, args: Mapping[str, Any] | None) -> dict[str, Any]:
    # Missing arguments differ from empty arguments.
    return {"name": name} if args is None else {"name": name, "args": dict(args)}


def _response(name: str | None, response: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"name": name or "", "response": dict(response or {})}


def _dump_without_thoughts(content: Content | None) -> dict[str, Any] | None:
    if content is None:
        return None
    spoken = [part for part in content.parts or () if not part.thought]
    return _dump_content(Content(role=content.role or "model", parts=spoken))


def _dump_content(content: Content) -> dict[str, Any]:
    dumped: dict[str, Any] = content.model_dump(mode="json", exclude_none=True)
    return {"role": dumped.pop("role", "user"), **dumped}


# A simulated conversation as a fixed case, with the actual turns as expectations.


def can_save(result: CaseResult) -> bool:
    """Whether the result has a complete simulated conversation, ended by the user or by the limit."""
    simulation = result.execution.simulation
    return simulation is not None and simulation.end is not None and result.execution.failure is None


def make_fixed_case(result: CaseResult, case: EvalCase, *, taken: Collection[str]) -> NewCase:
    """Make a fixed case of a simulated conversation, with an id that is not `taken`."""
    numbered = (f"{case.eval_id}_played{'' if number == 1 else f'_{number}'}" for number in count(1))
    given = case.session_input or SessionInput()
    session_input = SessionInput(
        app_name=given.app_name or result.case.target,
        user_id=given.user_id or DEFAULT_USER,
        state=dict(given.state),
    )
    eval_id = next(name for name in numbered if name not in taken)
    return NewCase(eval_id=eval_id, turns=result.execution.turns, session_input=session_input)


def save_conversations(path: Path, results: Sequence[CaseResult], cases: Mapping[CaseKey, EvalCase]) -> Sequence[str]:
    """Add the complete conversations to an eval set, which is created if missing; return the new ids.

    `cases` has the scenarios. Raises StoreError and then changes nothing.
    """
    keepable = [result for result in results if can_save(result)]
    if not keepable:
        return ()
    document = open_or_make_set(path)
    kept: list[str] = []
    for result in keepable:
        taken = {entry.eval_id for entry in document.entries}
        new = make_fixed_case(result, cases[result.case], taken=taken)
        write_case(document, new)
        kept.append(new.eval_id)
    document.save()
    return kept
