"""The events of one turn as the invocation that they were.

The rules are those of google-adk 2.13's `EvaluationGenerator.convert_events_to_eval_invocations`, held to it by a
differential test. One thing differs: ADK groups events by their invocation id, so that turns of an agent which leaves
the id empty, or resumes an earlier one, flow together; here a turn is an invocation, whatever ids its events have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...limits import MOST_STEPS, check_texts, why_cut
from ...plain import as_json

_USER = "user"
_USAGE = {
    "prompt": "prompt_token_count",
    "tool_use_prompt": "tool_use_prompt_token_count",
    "candidates": "candidates_token_count",
    "thoughts": "thoughts_token_count",
    "cached": "cached_content_token_count",
    "total": "total_token_count",
}


class TurnEvents:
    """The google.adk `Event`s of one turn as they come, of which only what an invocation needs is kept.

    Of calls and responses of tools the first MOST_STEPS are kept.
    """

    def __init__(self) -> None:
        self.invocation_id: str | None = None
        """That of the first event; None if there was no event."""
        self.error: Any | None = None
        """The event that reports an error of the model if no content came after it; else None.

        An error that was followed by content (a plugin tried again, an agent fell back) is none, nor is an answer that
        was merely cut off.
        """
        self.authors: dict[str, None] = {}
        """Who spoke, in the order of their first events."""
        self.model_calls = 0
        """Model calls as the events alone report them, for agents that call models by themselves; `usage` likewise."""
        self.usage: dict[str, int] = {}
        self._final: Any | None = None
        self._kept: list[tuple[Any, Any]] = []  # events with what is kept of their contents
        self._calls = 0
        self._responses = 0
        self._texts = 0

    @property
    def calls_unknown(self) -> str | None:
        """Why the calls of the turn cannot be judged; None if all are kept."""
        return why_cut(self._calls, self._responses)

    def add(self, event: Any) -> None:
        """Add the next event. Raises AgentFault if the agent said more texts than are kept."""
        if self.invocation_id is None:
            self.invocation_id = event.invocation_id
        self.authors.setdefault(event.author)
        if event.usage_metadata is not None or event.model_version is not None:
            self.model_calls += 1
            add_usage(self.usage, event.usage_metadata)
        if _has_parts(event):
            self.error = None
        elif event.error_code and not _is_of_user(event):
            self.error = event
        content = self._cut(event.content) if _has_parts(event) else event.content
        if self._is_final(event):
            self._final = event
        if _is_intermediate(event) and (content is event.content or content.parts or event.grounding_metadata):
            self._kept.append((event, content))

    def invocation(self, *, user_content: Any, told_at: float, app_details: Mapping[str, Any]) -> dict[str, Any]:
        """The invocation of the turn in which the user said `user_content` at `told_at` (seconds since the epoch).

        There was an event; `app_details` is what `app_details_of` gives.
        """
        invocation: dict[str, Any] = {
            "invocation_id": self.invocation_id,
            "user_content": as_json(user_content),
            "intermediate_data": {
                "invocation_events": [
                    _invocation_event(event, content, is_final=event is self._final) for event, content in self._kept
                ]
            },
            "creation_timestamp": told_at,
            "app_details": {"agent_details": dict(app_details)},
        }
        if self._final is not None:
            invocation["final_response"] = as_json(self._final.content)
        return invocation

    def _is_final(self, event: Any) -> bool:
        """True if it holds the final response so far: the last final event with text, else the last with any part."""
        if _is_of_user(event) or not _has_parts(event) or not event.is_final_response():
            return False
        return self._final is None or not _has_text(self._final) or _has_text(event)

    def _cut(self, content: Any) -> Any:
        """The content without the calls and responses that are too many."""
        parts = []
        for part in content.parts:
            self._calls += part.function_call is not None
            self._responses += part.function_response is not None
            self._texts += bool(part.text)
            if not (
                (part.function_call is not None and self._calls > MOST_STEPS)
                or (part.function_response is not None and self._responses > MOST_STEPS)
            ):
                parts.append(part)
        check_texts(self._texts)
        return content if len(parts) == len(content.parts) else content.model_copy(update={"parts": parts})


def app_details_of(authors: Iterable[str], requests: Mapping[str, Any]) -> dict[str, Any]:
    """Instructions and tool declarations of each agent that spoke, from its first model request in the turn."""
    return {
        author: {
            "name": author,
            "instructions": _instructions(request.config.system_instruction),
            "tool_declarations": as_json(request.config.tools or []),
        }
        for author in authors
        if (request := requests.get(author)) is not None
    }


def add_usage(total: dict[str, int], usage: Any) -> None:
    """Add google.genai usage metadata to `total`; what it does not say is left alone."""
    for name, field in _USAGE.items():
        count = getattr(usage, field, None)
        if count is not None:
            total[name] = total.get(name, 0) + count


def _invocation_event(event: Any, content: Any, *, is_final: bool) -> dict[str, Any]:
    """The text of the final response is not repeated; its tool calls are, since the trajectory is read from here."""
    told: dict[str, Any] = {"author": event.author}
    if not is_final or event.get_function_calls():
        told["content"] = as_json(content)
    for field in ("grounding_metadata", "usage_metadata", "model_version"):
        value = getattr(event, field)
        if value is not None:
            told[field] = as_json(value)
    return {name: value for name, value in told.items() if value is not None}


def _is_intermediate(event: Any) -> bool:
    if _is_of_user(event):
        return False
    if event.grounding_metadata is not None:
        return True
    return _has_parts(event) and any(
        part.function_call or part.function_response or part.text or part.inline_data for part in event.content.parts
    )


def _is_of_user(event: Any) -> bool:
    return bool((event.author or "agent").lower() == _USER)


def _has_parts(event: Any) -> bool:
    return bool(event.content and event.content.parts)


def _has_text(event: Any) -> bool:
    return any(part.text for part in event.content.parts)


def _instructions(instruction: Any) -> str:
    """ADK's instructions are text by the time they reach the model; a content is read for its text."""
    if instruction is None or isinstance(instruction, str):
        return instruction or ""
    parts = getattr(instruction, "parts", None) or ()
    return "\n".join(part.text for part in parts if getattr(part, "text", None))
