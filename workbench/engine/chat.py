"""Conversations by hand: one session with an agent in a process of its own, said to turn by turn.

`Chat` is what a front end holds, `Conversation` what carries it out on the engine's loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from datetime import UTC, datetime

from workbench.agents.host import AgentError, AgentSession, OnOpened, OnSpan, SessionEnd, SessionRequest, ToolDesk
from workbench.engine.case import DEFAULT_USER
from workbench.engine.event_log import EventLog
from workbench.engine.hosts import Hosts
from workbench.engine.thread import EngineThread
from workbench.model.chat import ChatEnded, ChatEvent, StateSeen, StepSeen, TurnAnswered, TurnBegan, TurnFailed
from workbench.model.evalset import Content, SessionInput
from workbench.model.results import CaseStatus, Failure, FailureKind, TurnResult
from workbench.model.target import AgentKind, Target
from workbench.store.settings import RunSettings

OpenSession = Callable[[OnSpan, OnOpened], Awaitable[AgentSession]]

_PATIENCE = 5.0  # seconds a session has to tell its state, and to end by itself


class ChatError(Exception):
    """There is nothing to talk to; the message says why."""


class Chat:
    """One session with an agent, from its first turn to its end. Every method may be called from any thread.

    `session_input` is how it started: nothing in it is left open.
    """

    def __init__(self, target: Target, session_input: SessionInput, *, call_engine: Callable[..., None]) -> None:
        self.target = target
        self.session_input = session_input
        self.log = EventLog[ChatEvent](last=ChatEnded)
        self._call_engine = call_engine
        self._conversation: Conversation | None = None
        self._done: Future[None] | None = None

    def attach(self, conversation: Conversation, done: Future[None]) -> None:
        """Connect the chat to what carries it out. For the engine."""
        self._conversation = conversation
        self._done = done

    def say(self, said: str | Content) -> None:
        """Tell the agent something, after what was said before. Returns at once; nothing happens once it is over."""
        content = Content.of_text(said, role="user") if isinstance(said, str) else said
        if self._conversation is not None:
            self._call_engine(self._conversation.say, content)

    def events(self) -> AsyncIterator[ChatEvent]:
        """Every event from the first on, for any number of listeners on any event loop."""
        return self.log.events()

    def iter_events(self) -> Iterator[ChatEvent]:
        """Every event from the first on, waiting for those to come; for a thread without an event loop."""
        return self.log.iter_events()

    def cancel(self) -> None:
        """Stop the turn that is under way; the session ends with it. Returns at once."""
        if self._conversation is not None:
            self._call_engine(self._conversation.cancel)

    def end(self) -> None:
        """End the session, at once where a turn is under way. Returns before it has ended."""
        if self._conversation is not None:
            self._call_engine(self._conversation.end)

    @property
    def is_over(self) -> bool:
        """Whether the session has ended and its process is gone."""
        return self._done is not None and self._done.done()

    def close(self) -> None:
        """End the session and wait until nothing of it is left."""
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
    tools: ToolDesk | None = None,
) -> Chat:
    """Open a session for a conversation by hand. No process is started before the first turn. Raises ChatError.

    What the session input leaves open is as where a case leaves it open. `tools` is asked before tools are called.
    """
    if target.kind is AgentKind.RECORDED:
        raise ChatError(f"target {target.name!r} holds recorded sessions: there is no agent to talk to")
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
        alone=True,  # new code in every session, and a turn that is stopped stops nobody else
        tools=tools,
    )

    async def open_session(on_span: OnSpan, on_opened: OnOpened) -> AgentSession:
        # The host that runs have: what they keep warm serves the chat too.
        host = hosts.host(target, isolation=settings.isolation, concurrency=settings.concurrency)
        return await host.open(request, on_span=on_span, on_opened=on_opened)

    chat = Chat(target, given, call_engine=thread.call)
    conversation = Conversation(chat.log, open_session=open_session, timeout_seconds=settings.timeout_seconds)
    chat.attach(conversation, thread.submit(conversation.carry_out()))
    return chat


class Conversation:
    """The engine's side of a chat; used on its loop.

    `timeout_seconds` is how long a turn may take, from the moment the agent is imported.
    """

    def __init__(self, log: EventLog[ChatEvent], *, open_session: OpenSession, timeout_seconds: float) -> None:
        self._log = log
        self._open_session = open_session
        self._timeout = timeout_seconds
        self._said: asyncio.Queue[Content | None] = asyncio.Queue()  # None: nothing more will be said
        self._turns = 0
        self._answering: asyncio.Task[TurnResult] | None = None
        self._opened = asyncio.Event()

    def say(self, content: Content) -> None:
        """See `Chat.say`."""
        self._said.put_nowait(content)

    def cancel(self) -> None:
        """See `Chat.cancel`."""
        if self._answering is not None:
            self._answering.cancel()

    def end(self) -> None:
        """See `Chat.end`."""
        self.cancel()
        self._said.put_nowait(None)

    async def carry_out(self) -> None:
        """Hold the session until it ends; whatever happens, nothing is left of it."""
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
                    unsaid=tuple(self._unsaid()),
                    stdout_tail=printed.stdout_tail,
                    stderr_tail=printed.stderr_tail,
                )
            )

    async def _converse(self, session: AgentSession) -> SessionEnd:
        """Say one thing after the other until there is no more to say, or a turn fails."""
        while (content := await self._said.get()) is not None:
            failed = await self._turn(session, content)
            if failed is not None:
                return failed
            await self._tell_state(session)
        try:
            async with asyncio.timeout(_PATIENCE):
                return await session.finish()
        except TimeoutError:
            return await session.kill()

    async def _turn(self, session: AgentSession, content: Content) -> SessionEnd | None:
        """One turn; where it fails, how the session ended."""
        turn, self._turns = self._turns, self._turns + 1
        self._log.append(TurnBegan(turn=turn, content=content, at=datetime.now(UTC)))
        started = time.perf_counter()
        self._answering = answering = asyncio.ensure_future(session.turn(content, turn=turn))
        opened = asyncio.ensure_future(self._opened.wait())
        await asyncio.wait([answering, opened], return_when=asyncio.FIRST_COMPLETED)
        opened.cancel()
        await asyncio.wait([answering], timeout=self._timeout)
        self._answering = None
        if answering.done() and not answering.cancelled() and answering.exception() is None:
            self._log.append(TurnAnswered(turn=turn, result=answering.result()))
            return None
        failure, printed = await self._failure(session, answering, turn)
        self._log.append(
            TurnFailed(
                turn=turn,
                status=CaseStatus.CANCELLED if failure is None else CaseStatus.ERROR,
                duration_seconds=time.perf_counter() - started,
                failure=failure,
            )
        )
        return printed

    async def _failure(
        self, session: AgentSession, answering: asyncio.Task[TurnResult], turn: int
    ) -> tuple[Failure | None, SessionEnd]:
        """Why a turn has no answer (None: it was cancelled), and what its process printed."""
        if answering.done() and not answering.cancelled():
            error = answering.exception()
            if not isinstance(error, AgentError):  # of ours, not of the agent
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

    async def _tell_state(self, session: AgentSession) -> None:
        """Tell what the state is after a turn. Raises AgentError."""
        try:
            async with asyncio.timeout(_PATIENCE):
                state = await session.state()
        except TimeoutError:
            message = f"the agent's process did not tell the state of the session within {_PATIENCE:g} s"
            raise AgentError(Failure(kind=FailureKind.TIMEOUT, message=message)) from None
        self._log.append(StateSeen(turn=self._turns - 1, state=state))

    def _unsaid(self) -> Iterator[Content]:
        while not self._said.empty():
            content = self._said.get_nowait()
            if content is not None:
                yield content
