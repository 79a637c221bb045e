"""Eval sets as ADK defines them: sets, cases, invocations and what they hold.

These types read what google-adk 2.13 reads and more (both key styles everywhere, unknown keys kept). They are for
looking at a case and running it; editing goes through `store.documents`, which changes the text of the file.
"""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from workbench.model.base import AdkModel


class FunctionCall(AdkModel):
    """A tool call. `tool_name`/`tool_input` (Vertex) are read as `name`/`args`; a bare string is a call's name."""

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
    """What a tool gave back; `id` is the call's."""

    id: str | None = None
    name: str | None = None
    response: dict[str, Any] | None = None


class Part(AdkModel):
    """One part of a content. Kinds we do not interpret (files, code, inline data) are kept as extra fields."""

    text: str | None = None
    thought: bool | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None


class Content(AdkModel):
    """A message: parts and the role that wrote them."""

    parts: list[Part] | None = None
    role: str | None = None

    def text(self, *, thoughts: bool = True) -> str:
        """All text parts joined by line breaks, as ADK joins them for its metrics (thoughts included, unless told)."""
        parts = self.parts or ()
        if len(parts) == 1:  # nearly always, and then joining takes longer than all the rest
            (part,) = parts
            return part.text if part.text and (thoughts or not part.thought) else ""
        return "\n".join(part.text for part in parts if part.text and (thoughts or not part.thought))

    @classmethod
    def of_text(cls, text: str, *, role: str) -> Content:
        """A message of one text part."""
        return cls(parts=[Part(text=text)], role=role)


class IntermediateResponse(AdkModel):
    """What a sub-agent said on the way to the final response."""

    author: str
    parts: list[Part]


class IntermediateData(AdkModel):
    """The older, flat form of what happened in an invocation."""

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
    """One event of an agent on the way to the final response."""

    author: str
    content: Content | None = None


class InvocationEvents(AdkModel):
    """The newer form of what happened in an invocation: the agents' events in order."""

    invocation_events: list[InvocationEvent] = Field(default_factory=list)


class Rubric(AdkModel):
    """A statement that a judge answers with yes or no."""

    rubric_id: str
    rubric_content: dict[str, Any]
    description: str | None = None
    type: str | None = None


class Invocation(AdkModel):
    """One turn: what the user said, what happened, what the agent finally answered."""

    invocation_id: str = ""
    user_content: Content
    final_response: Content | None = None
    intermediate_data: IntermediateData | InvocationEvents | None = None
    creation_timestamp: float = 0.0
    rubrics: list[Rubric] | None = None
    app_details: dict[str, Any] | None = None

    @field_validator("intermediate_data", mode="before")
    @classmethod
    def _choose_form(cls, value: Any) -> Any:
        """The form is told by its keys; `{}` is the older one, as in ADK."""
        if isinstance(value, dict):
            newer = "invocation_events" in value or "invocationEvents" in value
            return (InvocationEvents if newer else IntermediateData).model_validate(value)
        return value


class SessionInput(AdkModel):
    """How the session of a case starts."""

    app_name: str = ""
    user_id: str = ""
    session_id: str | None = None
    state: dict[str, Any] = Field(default_factory=dict)

    @field_validator("state", mode="before")
    @classmethod
    def _null_is_empty(cls, value: Any) -> Any:
        return {} if value is None else value


class UserBehavior(AdkModel):
    """One trait of a persona, with what would violate it."""

    name: str
    description: str
    behavior_instructions: list[str]
    violation_rubrics: list[str]


class UserPersona(AdkModel):
    """Who a simulated user is."""

    id: str
    description: str
    behaviors: list[UserBehavior]


class ConversationScenario(AdkModel):
    """A conversation that a simulated user holds: how it starts and what the user wants."""

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
    def _is_conversation_or_scenario(self) -> Self:
        if (self.conversation is None) == (self.conversation_scenario is None):
            found = "neither" if self.conversation is None else "both"
            raise ValueError(f"expected exactly one of conversation and conversation_scenario, found {found}")
        return self
