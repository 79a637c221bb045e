"""Eval sets as ADK writes them: cases, invocations, contents, conversation scenarios and personas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from types import MappingProxyType
from typing import Any, Self, TypeVar

from pydantic import Field, field_validator, model_validator

from workbench.model.facts import AdkModel, Fact
from workbench.model.text import has_known_secrets, mask_data, may_hold_secret, suggest_name

# Eval sets in ADK's format: sets, cases, invocations and their content


class FunctionCall(AdkModel):
    """A tool call. `tool_name`/`tool_input` (Vertex AI) are read as `name`/`args`; a string is the name of a call."""

    id: str | None = None
    name: str | None = None
    args: dict[str, Any] | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_other_spellings(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"name": value}
        if isinstance(value, dict) and ("tool_name" in value or "tool_input" in value):
            value = dict(value)
            if "tool_name" in value:
                value["name"] = value.pop("tool_name")
            if "tool_input" in value:
                value["args"] = value.pop("tool_input")
        return value


class FunctionResponse(AdkModel):
    """The response of a tool; `id` is that of the call."""

    id: str | None = None
    name: str | None = None
    response: dict[str, Any] | None = None


class Part(AdkModel):
    """One part of a content. Other kinds (files, code, inline data) are kept as extra fields."""

    text: str | None = None
    thought: bool | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None


_MEDIA_KEYS = ("inline_data", "inlineData", "file_data", "fileData")


class Content(AdkModel):
    """A message: its parts and the role of the author."""

    parts: list[Part] | None = None
    role: str | None = None

    def text(self, *, thoughts: bool = True) -> str:
        """Return all text parts joined by line breaks, as ADK does for its metrics, by default with thoughts."""
        parts = self.parts or ()
        if len(parts) == 1:  # nearly always, and faster than joining
            (part,) = parts
            return part.text if part.text and (thoughts or not part.thought) else ""
        return "\n".join(part.text for part in parts if part.text and (thoughts or not part.thought))

    @property
    def media(self) -> list[str]:
        """The types of the images and files among the parts, such as `image/png`."""
        found = []
        for part in self.parts or ():
            extra = part.model_extra or {}
            data = next((extra[key] for key in _MEDIA_KEYS if isinstance(extra.get(key), dict)), None)
            if data is not None:
                found.append(str(data.get("mime_type") or data.get("mimeType") or "a file"))
        return found

    def text_with_markers(self, *, thoughts: bool = True) -> str:
        """Return the text as people and judge models get it: with a marker for each image and file, which is not
        shown, and for each answer of the user to a call, such as a confirmation."""
        markers = [f"[{kind}, not shown]" for kind in self.media]
        if self.role == "user":
            answers = [part.function_response for part in self.parts or () if part.function_response is not None]
            markers += [f"[answers {each.name}: {json.dumps(each.response, ensure_ascii=False)}]" for each in answers]
        return "\n".join(filter(None, (self.text(thoughts=thoughts), *markers)))

    @classmethod
    def of_text(cls, text: str, *, role: str) -> Content:
        """Make a message of one text part."""
        return cls(parts=[Part(text=text)], role=role)


class IntermediateResponse(AdkModel):
    """A message of a sub-agent before the final response."""

    author: str
    parts: list[Part]


class IntermediateData(AdkModel):
    """The older, flat form of the events of an invocation."""

    tool_uses: list[FunctionCall] = Field(default_factory=list)
    tool_responses: list[FunctionResponse] = Field(default_factory=list)
    intermediate_responses: list[IntermediateResponse] = Field(default_factory=list)

    @field_validator("intermediate_responses", mode="before")
    @classmethod
    def _read_pairs(cls, value: Any) -> Any:
        """The format writes each response as the pair [author, parts]."""
        if not isinstance(value, list):
            return value
        return [
            {"author": item[0], "parts": item[1]} if isinstance(item, list | tuple) and len(item) == 2 else item
            for item in value
        ]


class InvocationEvent(AdkModel):
    """One event of an agent before the final response."""

    author: str
    content: Content | None = None


class InvocationEvents(AdkModel):
    """The newer form of the events of an invocation, in order."""

    invocation_events: list[InvocationEvent] = Field(default_factory=list)


class Rubric(AdkModel):
    """A statement that a judge answers with yes or no."""

    rubric_id: str
    rubric_content: dict[str, Any]
    description: str | None = None
    type: str | None = None


class Invocation(AdkModel):
    """One turn: the user's message, the events, the final response."""

    invocation_id: str = ""
    user_content: Content
    final_response: Content | None = None
    intermediate_data: IntermediateData | InvocationEvents | None = None
    creation_timestamp: float = 0.0
    rubrics: list[Rubric] | None = None
    app_details: dict[str, Any] | None = None

    def response_text(self, *, thoughts: bool = True) -> str | None:
        """Return the text of the final response; None if there is none."""
        return None if self.final_response is None else self.final_response.text(thoughts=thoughts)

    @field_validator("intermediate_data", mode="before")
    @classmethod
    def _choose_form(cls, value: Any) -> Any:
        """Choose the form by its keys; `{}` is the older one, as in ADK."""
        if isinstance(value, dict):
            newer = "invocation_events" in value or "invocationEvents" in value
            return (InvocationEvents if newer else IntermediateData).model_validate(value)
        return value


class SessionInput(AdkModel):
    """The start of the session of a case."""

    app_name: str = ""
    user_id: str = ""
    session_id: str | None = None
    state: dict[str, Any] = Field(default_factory=dict)

    @field_validator("state", mode="before")
    @classmethod
    def _read_null_as_empty(cls, value: Any) -> Any:
        return {} if value is None else value


class UserBehavior(AdkModel):
    """One trait of a persona, and rubrics that detect its violation."""

    name: str
    description: str
    behavior_instructions: list[str]
    violation_rubrics: list[str]


class UserPersona(AdkModel):
    """The character of a simulated user."""

    id: str
    description: str
    behaviors: list[UserBehavior]


class ConversationScenario(AdkModel):
    """A conversation with a simulated user: how it starts and what the user wants."""

    starting_prompt: str
    conversation_plan: str
    user_persona: UserPersona | str | None = None


class EvalCase(AdkModel):
    """One session to evaluate: a fixed conversation or a scenario, never both."""

    eval_id: str
    conversation: list[Invocation] | None = None
    conversation_scenario: ConversationScenario | None = None
    session_input: SessionInput | None = None
    creation_timestamp: float = 0.0
    rubrics: list[Rubric] | None = None
    final_session_state: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _check_conversation_or_scenario(self) -> Self:
        if (self.conversation is None) == (self.conversation_scenario is None):
            found = "neither" if self.conversation is None else "both"
            raise ValueError(f"expected exactly one of conversation and conversation_scenario, found {found}")
        return self


# Scenarios that a model writes. Source: google-adk 2.13, `ConversationGenerationConfig`.

DEFAULT_COUNT = 5
MOST_SCENARIOS = 200
"""Maximum number in one request: a person has to read them."""


class GenerationConfig(AdkModel):
    """The configuration of generated scenarios. Missing values come from options or defaults."""

    count: int | None = Field(default=None, ge=1, le=MOST_SCENARIOS, strict=True)
    model_name: str | None = None
    generation_instruction: str | None = None
    environment_context: str | None = None


class ScenarioRequest(Fact):
    """A request for scenarios.

    `instruction` is their topic, `context` the data that the agent's tools would find. `personas` are the ids of
    possible users; without any the model chooses one or none.
    """

    count: int = Field(ge=1, le=MOST_SCENARIOS)
    model: str
    instruction: str = ""
    context: str = ""
    personas: tuple[str, ...] = ()


# Personas that a scenario may name, with their behaviours

DEFAULT_STOP_SIGNAL = "</finished>"
"""The message of a simulated user that ends the conversation."""


class UnknownPersona(ValueError):
    """A scenario names an unknown persona. The message lists the known ones."""


def find_persona(scenario: ConversationScenario) -> UserPersona | None:
    """Return the persona of a scenario: its own, or the one that it names. Raises UnknownPersona."""
    reference = scenario.user_persona
    if not isinstance(reference, str):
        return reference
    persona = PERSONAS.get(reference)
    if persona is None:
        expected = f"one of {', '.join(PERSONAS)}, or a persona in full (id, description, behaviors)"
        raise UnknownPersona(
            f"there is no persona {reference!r}, expected {expected}{suggest_name(reference, PERSONAS)}"
        )
    return persona


_ADVANCE_WITH_DETAILS = UserBehavior(
    name="Advance when the agent has succeeded, with all details",
    description="Goes on to the next request of the plan as soon as the last one is done, and says all it takes.",
    behavior_instructions=[
        "When the agent has done what was asked, make the next request of the plan.",
        "Leave out requests that are done already, even if nobody asked for them in so many words.",
        "Say what you want and every detail that the plan gives for it, in the same message.",
    ],
    violation_rubrics=[
        "The message asks for something that the agent has already done.",
        "The message gives details of something that the agent has already done.",
        "The message is about a topic or task that is not in the plan.",
        "The message asks for something that neither the plan nor the agent has brought up.",
        "The message gives details that are not in the plan.",
        "The message only says what is wanted, so that the agent has to ask for details that are in the plan.",
        "The message makes more than one new request at once.",
    ],
)
_ADVANCE_WITH_GOAL = UserBehavior(
    name="Advance when the agent has succeeded, with the goal only",
    description="Goes on to the next request of the plan as soon as the last one is done, and waits to be asked.",
    behavior_instructions=[
        "When the agent has done what was asked, make the next request of the plan.",
        "Leave out requests that are done already, even if nobody asked for them in so many words.",
        "Say only what you want. Keep the details to yourself until the agent asks for them.",
    ],
    violation_rubrics=[
        "The message asks for something that the agent has already done.",
        "The message gives details of something that the agent has already done.",
        "The message asks for something that neither the plan nor the agent has brought up.",
        "The message gives details that are not in the plan.",
        "The message gives details before the agent has asked for them.",
        "The message makes more than one new request at once.",
    ],
)
_ANSWER_RELEVANT = UserBehavior(
    name="Answer only questions that matter",
    description="Answers what the agent needs to know for the task, and nothing else.",
    behavior_instructions=[
        "Answer the agent's questions with what the plan says.",
        "Tell nothing that you were not asked for.",
        "Where the plan does not have the answer, say that you do not know.",
        "Do not answer questions that have nothing to do with the task.",
    ],
    violation_rubrics=["The message answers a question that has nothing to do with the task."],
)
_ANSWER_ALL = UserBehavior(
    name="Answer every question",
    description="Answers whatever the agent asks, as far as it can.",
    behavior_instructions=[
        "Answer every question of the agent with what the plan says.",
        "Tell nothing that you were not asked for.",
        "Where the plan does not have the answer, admit that you do not know.",
    ],
    violation_rubrics=[
        "The message leaves a question of the agent without an answer.",
        "The message answers a question with something that is not in the plan.",
    ],
)
_CORRECT = UserBehavior(
    name="Correct the agent when it is wrong",
    description="Does not let mistakes pass.",
    behavior_instructions=[
        "When the agent says something that contradicts the plan or an earlier message, say so.",
        "When the agent has done something wrong, ask it to put that right before you go on.",
    ],
    violation_rubrics=[
        "The agent said something wrong, and the message goes on as if it had not.",
        "The agent took something dangerous for granted, and the message goes on as if it had not.",
    ],
)
_DO_NOT_CORRECT = UserBehavior(
    name="Do not correct the agent",
    description="Gives up when the agent is wrong, without a word about it.",
    behavior_instructions=[
        "When the agent says or does something wrong, end the conversation: answer with `{{ stop_signal }}`.",
    ],
    violation_rubrics=["The message corrects the agent."],
)
_TROUBLESHOOT_ONCE = UserBehavior(
    name="Help once when something fails",
    description="Gives the agent one second chance in a conversation.",
    behavior_instructions=[
        "When the agent fails for the first time, help: say it in other words, or give what it lacks.",
        "Do so only once in the whole conversation.",
    ],
    violation_rubrics=[
        "The message ends the conversation right after the first failure.",
        "The agent has failed for the second time, and the message does not hold `{{ stop_signal }}`.",
        "The agent has failed for the second time, and the message tries to help once more.",
    ],
)
_END_AFTER_SECOND_FAILURE = UserBehavior(
    name="End the conversation when it is over",
    description="Ends when all is done, when a person takes over, or after the second failure.",
    behavior_instructions=[
        "End the conversation only when the agent has confirmed that everything in the plan is done, when it has "
        "handed you over to a person, or when it has failed more than once.",
        "Wait for the confirmation: having asked for the last thing is not the end.",
        "Count failures over the whole conversation.",
        "To end the conversation, answer with `{{ stop_signal }}`.",
    ],
    violation_rubrics=[
        "The conversation should have ended, and the message does not hold `{{ stop_signal }}`.",
        "The message holds `{{ stop_signal }}` although there was no reason to end.",
    ],
)
_END_AFTER_FAILURE = UserBehavior(
    name="End the conversation at the first failure",
    description="Ends when all is done, when a person takes over, or as soon as the agent fails.",
    behavior_instructions=[
        "End the conversation only when the agent has confirmed that everything in the plan is done, when it has "
        "handed you over to a person, or when it has failed.",
        "Wait for the confirmation: having asked for the last thing is not the end.",
        "To end the conversation, answer with `{{ stop_signal }}`.",
    ],
    violation_rubrics=[
        "The conversation should have ended, and the message does not hold `{{ stop_signal }}`.",
        "The message holds `{{ stop_signal }}` although there was no reason to end.",
        "The agent has failed, and the message goes on.",
        "The agent has failed, and the message tries to help it.",
    ],
)
_PROFESSIONAL = UserBehavior(
    name="Speak like a professional",
    description="Clear and to the point, in the terms of the trade.",
    behavior_instructions=[
        "Be clear and exact, and use the proper terms.",
        "No slang, no abbreviations of chats, no emoji, no filler words.",
    ],
    violation_rubrics=[
        "The message has slang, abbreviations of chats, or emoji.",
        "The message has filler words or small talk.",
        "The message is one long block of text.",
        "The message is in another tone than those before it.",
    ],
)
_CONVERSATIONAL = UserBehavior(
    name="Speak as people chat",
    description="Relaxed and natural.",
    behavior_instructions=[
        "Write as one person talks to another: relaxed, in everyday words.",
        "Be neither too formal nor as curt as a command line.",
    ],
    violation_rubrics=[
        "The message is a bare command.",
        "The message is too formal for a chat.",
        "The message is one long block of text.",
        "The message is in another tone than those before it.",
    ],
)

PERSONAS: Mapping[str, UserPersona] = MappingProxyType(
    {
        persona.id: persona
        for persona in (
            UserPersona(
                id="EXPERT",
                description=(
                    "Knows exactly what is wanted and how such tasks are done, and takes the agent for a tool: no "
                    "chatting, no patience for detours, and a word when something is wrong."
                ),
                behaviors=[
                    _ADVANCE_WITH_DETAILS,
                    _ANSWER_RELEVANT,
                    _CORRECT,
                    _TROUBLESHOOT_ONCE,
                    _END_AFTER_SECOND_FAILURE,
                    _PROFESSIONAL,
                ],
            ),
            UserPersona(
                id="NOVICE",
                description=(
                    "Knows what is wanted and little about how it is done, relies on the agent to ask and to lead, and "
                    "can neither help it nor tell when it is wrong."
                ),
                behaviors=[_ADVANCE_WITH_GOAL, _DO_NOT_CORRECT, _ANSWER_ALL, _END_AFTER_FAILURE, _CONVERSATIONAL],
            ),
            UserPersona(
                id="EVALUATOR",
                description=(
                    "Finds out whether the agent can do what the plan asks of it: gives it what it needs, and neither "
                    "help nor corrections."
                ),
                behaviors=[
                    _ADVANCE_WITH_DETAILS,
                    _ANSWER_RELEVANT,
                    _END_AFTER_FAILURE,
                    _DO_NOT_CORRECT,
                    _CONVERSATIONAL,
                ],
            ),
        )
    }
)
"""The personas that a scenario may name, by their ids."""


# Known secrets in expectations are masked as in actual results, so that both can be compared

_Model = TypeVar("_Model", EvalCase, Invocation)


def mask_model_secrets(model: _Model) -> _Model:
    """Mask known secrets in a model; return the same object if it has none."""
    if not has_known_secrets():
        return model
    data = model.model_dump(mode="json")
    return model.model_validate(mask_data(data)) if may_hold_secret(json.dumps(data).encode()) else model


# Data on a case that ADK's format does not have


class Quarantine(Fact):
    """The quarantine of a case: up to the day `until`, in local time, a FAILED does not fail a run.

    `is_expired` of a result: the day was over when the case ended, so that its verdict counts.
    """

    until: date
    reason: str = ""
    is_expired: bool = False

    def at_day(self, day: date) -> Quarantine:
        """Return the quarantine as it is on a day."""
        is_expired = day > self.until
        return self if is_expired == self.is_expired else self.model_copy(update={"is_expired": is_expired})

    def __str__(self) -> str:
        """Say in a few words until when and why the case is in quarantine, or that this is over."""
        why = f": {self.reason}" if self.reason else ""
        if self.is_expired:
            return f"its quarantine ended on {self.until}, so its verdict counts again{why}"
        return f"quarantined until {self.until}{why}"
