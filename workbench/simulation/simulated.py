"""A user that a model plays, by the plan of a scenario and the persona of its user.

Facts: google-adk 2.13, `LlmBackedUserSimulator`. Unlike there the signal that ends a conversation is always in the
prompt, whatever the persona says, and reaching the limit of turns is told as what it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from workbench.llm.requests import Message, ModelReply, ModelRequest
from workbench.llm.templates import TemplateProblem
from workbench.llm.trouble import ModelError
from workbench.model.evalset import Content, ConversationScenario
from workbench.model.personas import DEFAULT_STOP_SIGNAL
from workbench.model.results import ConversationEnd, Failure, FailureKind, SimulatedConversation, TurnResult
from workbench.simulation.dialogue import history_of
from workbench.simulation.options import NO_LIMIT, UserOptions
from workbench.simulation.prompting import player_of, prompt_of
from workbench.simulation.user import UserCall, UserFailed

PURPOSE = "user"
"""What requests of simulated users are for (see ModelRequest)."""

Ask = Callable[[ModelRequest], Awaitable[ModelReply]]


class SimulatedUser:
    """Plays the user of one conversation."""

    turns: None = None

    def __init__(self, scenario: ConversationScenario, options: UserOptions, *, ask: Ask, sample: int = 0) -> None:
        """`sample` tells conversations apart that start alike: the repeats of a case.

        Raises UnknownPersona, and TemplateProblem for behaviours that cannot be rendered.
        """
        self._scenario = scenario
        self._options = options
        self._ask = ask
        self._sample = sample
        self._persona = player_of(scenario)
        self._calls: list[UserCall] = []
        self._end: ConversationEnd | None = None

    @property
    def calls(self) -> Sequence[UserCall]:
        """See User."""
        return self._calls

    async def next_message(self, turns: Sequence[TurnResult]) -> Content | None:
        """See User. The first message is the starting prompt as it stands."""
        if not turns:
            return Content.of_text(self._scenario.starting_prompt, role="user")
        if self._options.limit != NO_LIMIT and len(turns) >= self._options.limit:
            self._end = ConversationEnd.LIMIT
            return None
        said = await self._say(turns)
        if DEFAULT_STOP_SIGNAL in said.casefold():
            self._end = ConversationEnd.STOP_SIGNAL
            return None
        return Content.of_text(said, role="user")

    def told(self) -> SimulatedConversation:
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

    async def _say(self, turns: Sequence[TurnResult]) -> str:
        try:
            # Off the loop: the first one imports the templates' library, and a long conversation takes its time.
            prompt = await asyncio.to_thread(self._prompt, turns)
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

    def _prompt(self, turns: Sequence[TurnResult]) -> str:
        history = history_of(turns, with_calls=self._options.with_calls)
        return prompt_of(self._scenario.conversation_plan, history, self._persona, self._options)
