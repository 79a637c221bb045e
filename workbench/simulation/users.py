"""Users of a conversation: with fixed messages, or simulated by a model, with their options and prompts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from workbench.llm.gemini import find_unknown_keys
from workbench.llm.model_types import Message, ModelError, ModelReply, ModelRequest, is_google_model
from workbench.llm.prompt_templates import TemplateProblem, find_names, render_text
from workbench.model.criteria import EvalConfig, InvalidConfig, explain_wrong_vendor, find_known_key
from workbench.model.evalset import (
    DEFAULT_STOP_SIGNAL,
    Content,
    ConversationScenario,
    Invocation,
    UnknownPersona,
    UserPersona,
    find_persona,
)
from workbench.model.results import ConversationEnd, Failure, FailureKind, SimulatedConversation, TurnResult
from workbench.model.text import suggest_name
from workbench.model.trace import CallEvent, ResponseEvent, TextEvent, find_final_author, iterate_events
from workbench.simulation.user_templates import PROMPTS

# `user_simulator_config` of an eval config: the model that plays users, and its options.

SECTION = "user_simulator_config"
DEFAULT_LIMIT = 20
NO_LIMIT = -1

REQUIRED_NAMES = ("stop_signal", "conversation_plan", "conversation_history")
"""The names that custom instructions must use."""

KEYS = (
    "type",
    "model",
    "model_configuration",
    "max_allowed_invocations",
    "custom_instructions",
    "include_function_calls",
)
_TYPE = "llm_backed"
_AUDIO = "llm_audio"

# The default of ADK.
_THINKING: Mapping[str, Any] = {"thinking_config": {"include_thoughts": True, "thinking_budget": 10240}}


@dataclass(frozen=True, kw_only=True)
class UserOptions:
    """Options of simulated users. `limit` is the maximum of turns, including the starting prompt, or NO_LIMIT.

    `model_config` is a generation configuration of the Gemini API. `instructions` is a template that replaces ours.
    `with_calls`: the user sees tool calls and their responses.
    """

    model: str
    model_config: Mapping[str, Any] = field(default_factory=dict)
    limit: int = DEFAULT_LIMIT
    instructions: str | None = None
    with_calls: bool = False


def read_user_options(config: EvalConfig, *, default_model: str) -> tuple[UserOptions, list[InvalidConfig]]:
    """Read the options of a config; also return their problems. The default replaces a wrong value."""
    section = config.user_simulator_config or {}
    values = {find_known_key(name, KEYS): value for name, value in section.items()}
    problems = list(_find_unknown_keys(section))
    reader = _Reader(values, problems)
    kind = reader.read("type", str, default=_TYPE, expected=f"{_TYPE!r}")
    if kind == _AUDIO:
        reader.refuse("type", expected=f"{_TYPE!r}: users that speak aloud are not supported")
    elif kind != _TYPE:
        reader.refuse("type", expected=f"{_TYPE!r}")
    model = reader.read("model", str, default=default_model, expected="the name of a model")
    if "model" in values and not model.strip():
        reader.refuse("model", expected="the name of a model")
    elif (expected := explain_wrong_vendor(model)) is not None:
        reader.refuse("model", expected=expected)
    limit = reader.read("max_allowed_invocations", int, default=DEFAULT_LIMIT, expected="a whole number")
    if limit < 1 and limit != NO_LIMIT:
        reader.refuse("max_allowed_invocations", expected="a number from 1 on, or -1 for no limit")
    instructions = reader.read("custom_instructions", str, default="", expected="a text")
    if instructions:
        problems += _check_instructions(instructions)
    default_config = _THINKING if is_google_model(model) else {}
    model_config = reader.read("model_configuration", dict, default=dict(default_config), expected="an object")
    problems += find_unknown_keys(model_config, model=model, place=f"{SECTION}.model_configuration")
    options = UserOptions(
        model=model,
        model_config=model_config,
        limit=limit,
        instructions=instructions or None,
        with_calls=reader.read("include_function_calls", bool, default=False, expected="true or false"),
    )
    return options, problems


_T = TypeVar("_T")


class _Reader:
    def __init__(self, values: Mapping[str, Any], problems: list[InvalidConfig]) -> None:
        self._values = values
        self._problems = problems

    def read(self, name: str, kind: type[_T], *, default: _T, expected: str) -> _T:
        value = self._values.get(name)
        if value is None:
            return default
        if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
            return value
        self.refuse(name, expected=expected)
        return default

    def refuse(self, name: str, *, expected: str) -> None:
        value = self._values.get(name)
        found = "an object" if isinstance(value, Mapping) else "a list" if isinstance(value, list) else repr(value)
        self._problems.append(InvalidConfig(place=f"{SECTION}.{name}", found=found[:80], expected=expected))


def _find_unknown_keys(section: Mapping[str, Any]) -> Iterator[InvalidConfig]:
    for name in section:
        if find_known_key(name, KEYS) not in KEYS:
            expected = f"one of {', '.join(KEYS)}{suggest_name(name, KEYS)}"
            yield InvalidConfig(place=f"{SECTION}.{name}", found=f"the unknown key {name!r}", expected=expected)


def _check_instructions(instructions: str) -> Iterator[InvalidConfig]:
    place = f"{SECTION}.custom_instructions"
    try:
        names = find_names(instructions)
    except TemplateProblem as error:
        yield InvalidConfig(place=place, found=f"no template ({error})", expected="a jinja2 template")
        return
    for name in REQUIRED_NAMES:
        if name not in names:
            shown = "{{ " + name + " }}"
            yield InvalidConfig(place=place, found=f"no {shown}", expected=f"a template with {shown}")


# The prompt for a simulated user, and the check of a scenario.

_END = f"To end the conversation, reply with {DEFAULT_STOP_SIGNAL} and nothing else."


def render_persona(scenario: ConversationScenario) -> UserPersona | None:
    """Return the persona of a scenario with `{{ stop_signal }}` replaced in its texts.

    Raises UnknownPersona, and TemplateProblem.
    """
    persona = find_persona(scenario)
    if persona is None:
        return None
    data = {"stop_signal": DEFAULT_STOP_SIGNAL}

    def fill(text: str, behavior: str) -> str:
        try:
            return render_text(text, data)
        except TemplateProblem as error:
            raise TemplateProblem(f"the template of behaviour {behavior!r} cannot be rendered: {error}") from error

    behaviors = [
        behavior.model_copy(
            update={
                "name": fill(behavior.name, behavior.name),
                "description": fill(behavior.description, behavior.name),
                "behavior_instructions": [fill(text, behavior.name) for text in behavior.behavior_instructions],
                "violation_rubrics": [fill(text, behavior.name) for text in behavior.violation_rubrics],
            }
        )
        for behavior in persona.behaviors
    ]
    return persona.model_copy(update={"behaviors": behaviors})


def render_user_prompt(plan: str, history: str, persona: UserPersona | None, options: UserOptions) -> str:
    """Render the prompt. It always contains the stop signal. Raises TemplateProblem.

    `persona` comes from `render_persona`.
    """
    if options.instructions is None:
        data = {"stop_signal": DEFAULT_STOP_SIGNAL, "conversation_plan": plan, "conversation_history": history}
        return PROMPTS.render("user", **data, persona=persona)
    prompt = _render_instructions(options.instructions, plan, history, persona)
    # Rendered without messages, which could contain the signal.
    if DEFAULT_STOP_SIGNAL in _render_instructions(options.instructions, "", "", persona):
        return prompt
    return f"{prompt}\n\n{_END}"


def check_scenario(scenario: ConversationScenario, options: UserOptions) -> str | None:
    """Return why a scenario cannot be played; None if it can. Called before a run, when nothing has cost anything."""
    if not scenario.starting_prompt.strip():
        return "starting_prompt: found no text, expected what the user says first"
    if not scenario.conversation_plan.strip():
        return "conversation_plan: found no text, expected the goals of the user and how the conversation continues"
    try:
        persona = render_persona(scenario)
    except (UnknownPersona, TemplateProblem) as error:
        return f"user_persona: {error}"
    if options.instructions is None:
        return None
    place = "custom_instructions of user_simulator_config"
    try:
        if persona is not None and "persona" not in find_names(options.instructions):
            return f"{place}: found no {{{{ persona }}}}, expected it because the scenario has a persona"
        render_user_prompt("a plan", "user: hello", persona, options)
    except TemplateProblem as error:
        note = "" if persona is not None else " (the scenario has no persona)"
        return f"{place}: cannot be rendered{note}: {error}"
    return None


def _render_instructions(instructions: str, plan: str, history: str, persona: UserPersona | None) -> str:
    data: dict[str, Any] = {
        "stop_signal": DEFAULT_STOP_SIGNAL,
        "conversation_plan": plan,
        "conversation_history": history,
    }
    return render_text(instructions, data if persona is None else {**data, "persona": _build_persona_data(persona)})


def _build_persona_data(persona: UserPersona) -> Mapping[str, Any]:
    """Build the persona for custom instructions: plain values, and the two text functions of ADK's personas."""
    return {
        "id": persona.id,
        "description": persona.description,
        "behaviors": [
            {
                **behavior.model_dump(include={"name", "description", "behavior_instructions", "violation_rubrics"}),
                "get_behavior_instructions_str": _make_list_function(behavior.behavior_instructions),
                "get_violation_rubrics_str": _make_list_function(behavior.violation_rubrics),
            }
            for behavior in persona.behaviors
        ],
    }


def _make_list_function(texts: Sequence[str]) -> Callable[[], str]:
    return lambda: "\n".join(f"  * {text}" for text in texts)


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
    message = invocation.user_content.text(thoughts=False)
    yield f"user: {message or _describe_missing_text(invocation.user_content)}"
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
        message = await self._ask_model(turns)
        if DEFAULT_STOP_SIGNAL in message.casefold():
            self._end = ConversationEnd.STOP_SIGNAL
            return None
        return Content.of_text(message, role="user")

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
            message = f"the custom instructions of the simulated user cannot be rendered: {error}"
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
            message = f"the simulated user: {request.model} gave an empty reply"
            raise UserFailed(Failure(kind=FailureKind.USER, message=message))
        if reply.is_truncated and DEFAULT_STOP_SIGNAL not in reply.text.casefold():  # the agent would get half of it
            message = f"the simulated user: the reply of {request.model} was cut off: raise max_output_tokens"
            raise UserFailed(Failure(kind=FailureKind.USER, message=message))
        return reply.text.strip()

    def _render_prompt(self, turns: Sequence[TurnResult]) -> str:
        history = format_history(turns, with_calls=self._options.with_calls)
        return render_user_prompt(self._scenario.conversation_plan, history, self._persona, self._options)
