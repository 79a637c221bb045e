"""Users of a conversation: with fixed messages, or simulated by a model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from workbench.llm.model_types import Message, ModelError, ModelReply, ModelRequest
from workbench.llm.prompt_templates import TemplateProblem
from workbench.model.evalset import DEFAULT_STOP_SIGNAL, Content, ConversationScenario, Invocation
from workbench.model.results import ConversationEnd, Failure, FailureKind, SimulatedConversation, TurnResult
from workbench.model.trace import CallEvent, ResponseEvent, TextEvent, find_final_author, iterate_events
from workbench.simulation.user_prompts import NO_LIMIT, UserOptions, render_persona, render_user_prompt

# The interface of users.


class UserFailed(Exception):
    """The user cannot continue, through no fault of the agent."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(frozen=True, kw_only=True)
class UserCall:
    """A call to the model that plays the user. The reply is a message or ends the conversation."""

    model: str
    prompt: str
    reply: ModelReply | None
    problem: str | None = None


class User(Protocol):
    """Talks to the agent in one conversation."""

    @property
    def turns(self) -> int | None:
        """The number of turns of the conversation; None if the user decides during it."""

    @property
    def calls(self) -> Sequence[UserCall]:
        """The calls to a model so far."""

    async def next_message(self, turns: Sequence[TurnResult]) -> Content | None:
        """Return the next message after these turns; None at the end of the conversation. Raises UserFailed."""

    def describe_simulation(self) -> SimulatedConversation | None:
        """Describe the simulation so far; None if no model plays the user."""


# The user of a case with a fixed conversation.


class FixedConversation:
    """Sends the user messages of a case in order, regardless of the answers."""

    calls: Sequence[UserCall] = ()

    def __init__(self, conversation: Sequence[Invocation]) -> None:
        self._contents = tuple(invocation.user_content for invocation in conversation)

    @property
    def turns(self) -> int:
        """The number of turns of the conversation."""
        return len(self._contents)

    async def next_message(self, turns: Sequence[TurnResult]) -> Content | None:
        """Return the next message after these turns; None at the end of the conversation."""
        return self._contents[len(turns)] if len(turns) < len(self._contents) else None

    def describe_simulation(self) -> None:
        """Return None: no model plays this user."""


# The conversation so far, as text for a simulated user.

_AGENT = "agent"


def format_history(turns: Sequence[TurnResult], *, with_calls: bool) -> str:
    """Format the messages in order as `user: ...` or `<agent>: ...`, separated by blank lines, without thoughts.

    `with_calls`: also format tool calls and their responses.
    """
    return "\n\n".join(line for turn in turns for line in _format_turn(turn.invocation, with_calls=with_calls))


def _format_turn(invocation: Invocation, *, with_calls: bool) -> Iterator[str]:
    said = invocation.user_content.text(thoughts=False)
    yield f"user: {said or _describe_missing_text(invocation.user_content)}"
    for event in iterate_events(invocation):
        match event:
            case TextEvent(author, text):
                yield f"{author}: {text}"
            case CallEvent(author, call) if with_calls:
                yield f"{author or _AGENT} called the tool {call.name!r} with {_json(call.args or {})}"
            case ResponseEvent(response) if with_calls:
                yield f"the tool {response.name!r} gave {_json(response.response or {})}"
    if invocation.final_response is not None:
        answer = invocation.final_response.text(thoughts=False)
        author = find_final_author(invocation) or _AGENT
        yield f"{author}: {answer or _describe_missing_text(invocation.final_response)}"


def _describe_missing_text(content: Content) -> str:
    """Return a placeholder for a message without text."""
    return "(something that is no text)" if content.parts else "(nothing)"


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


# A user played by a model, by the plan and the persona of a scenario.

PURPOSE = "user"
"""The purpose of requests of simulated users (see ModelRequest)."""

Ask = Callable[[ModelRequest], Awaitable[ModelReply]]


class SimulatedUser:
    """Plays the user of one conversation."""

    turns: None = None

    def __init__(self, scenario: ConversationScenario, options: UserOptions, *, ask: Ask, sample: int = 0) -> None:
        """`sample` is the repeat of the case, so that repeats get different replies.

        Raises UnknownPersona, and TemplateProblem if behaviours cannot be rendered.
        """
        self._scenario = scenario
        self._options = options
        self._ask = ask
        self._sample = sample
        self._persona = render_persona(scenario)
        self._calls: list[UserCall] = []
        self._end: ConversationEnd | None = None

    @property
    def calls(self) -> Sequence[UserCall]:
        """See User."""
        return self._calls

    async def next_message(self, turns: Sequence[TurnResult]) -> Content | None:
        """See User. The first message is the starting prompt, unchanged."""
        if not turns:
            return Content.of_text(self._scenario.starting_prompt, role="user")
        if self._options.limit != NO_LIMIT and len(turns) >= self._options.limit:
            self._end = ConversationEnd.LIMIT
            return None
        said = await self._ask_model(turns)
        if DEFAULT_STOP_SIGNAL in said.casefold():
            self._end = ConversationEnd.STOP_SIGNAL
            return None
        return Content.of_text(said, role="user")

    def describe_simulation(self) -> SimulatedConversation:
        """See User."""
        replies = [call.reply for call in self._calls if call.reply is not None]
        return SimulatedConversation(
            model=self._options.model,
            persona=None if self._persona is None else self._persona.id,
            end=self._end,
            limit=None if self._options.limit == NO_LIMIT else self._options.limit,
            calls=len(replies),
            cached=sum(reply.cached for reply in replies),
            scripted=any(reply.scripted for reply in replies),
        )

    async def _ask_model(self, turns: Sequence[TurnResult]) -> str:
        try:
            # Off the loop: the first prompt imports the template library, and a long conversation takes long to render.
            prompt = await asyncio.to_thread(self._render_prompt, turns)
        except TemplateProblem as error:
            message = f"the custom instructions of the simulated user cannot be filled in: {error}"
            raise UserFailed(Failure(kind=FailureKind.USER, message=message)) from error
        request = ModelRequest(
            model=self._options.model,
            messages=(Message(role="user", text=prompt),),
            config=dict(self._options.model_config),
            sample=self._sample,
            purpose=PURPOSE,
        )
        try:
            reply = await self._ask(request)
        except ModelError as error:
            self._calls.append(UserCall(model=request.model, prompt=prompt, reply=None, problem=error.message))
            kind = FailureKind.INFRASTRUCTURE if error.trouble.is_outage else FailureKind.USER
            raise UserFailed(Failure(kind=kind, message=f"the simulated user: {error.message}")) from error
        self._calls.append(UserCall(model=request.model, prompt=prompt, reply=reply))
        if not reply.text.strip():
            message = f"the simulated user: {request.model} said nothing"
            raise UserFailed(Failure(kind=FailureKind.USER, message=message))
        return reply.text.strip()

    def _render_prompt(self, turns: Sequence[TurnResult]) -> str:
        history = format_history(turns, with_calls=self._options.with_calls)
        return render_user_prompt(self._scenario.conversation_plan, history, self._persona, self._options)
