"""The events of one turn as the invocation that they were.

The rules are those of google-adk 2.13's `EvaluationGenerator.convert_events_to_eval_invocations`, held to it by a
differential test. One thing differs: ADK groups events by their invocation id, so that turns of an agent which leaves
the id empty, or resumes an earlier one, flow together; here a turn is an invocation, whatever ids its events have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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


def invocation_of(
    events: Sequence[Any], *, user_content: Any, told_at: float, app_details: Mapping[str, Any]
) -> dict[str, Any]:
    """The invocation of the turn in which the user said `user_content` at `told_at` (seconds since the epoch).

    `events` are google.adk `Event`s and not empty; `app_details` is what `app_details_of` gives.
    """
    final = final_event(events)
    invocation: dict[str, Any] = {
        "invocation_id": events[0].invocation_id,
        "user_content": as_json(user_content),
        "intermediate_data": {
            "invocation_events": [
                _invocation_event(event, is_final=event is final) for event in events if _is_intermediate(event)
            ]
        },
        "creation_timestamp": told_at,
        "app_details": {"agent_details": dict(app_details)},
    }
    if final is not None:
        invocation["final_response"] = as_json(final.content)
    return invocation


def final_event(events: Iterable[Any]) -> Any | None:
    """The event that holds the final response: the last final one with text, else the last final one with any part."""
    found = None
    for event in events:
        if _is_of_user(event) or not _has_parts(event) or not event.is_final_response():
            continue
        if found is None or not _has_text(found) or _has_text(event):
            found = event
    return found


def unanswered_error(events: Iterable[Any]) -> Any | None:
    """The event that reports an error of the model where no content came after it; else None.

    An error that was followed by content (a plugin tried again, an agent fell back) is none, nor is an answer that was
    merely cut off.
    """
    error = None
    for event in events:
        if _has_parts(event):
            error = None
        elif event.error_code and not _is_of_user(event):
            error = event
    return error


def app_details_of(events: Iterable[Any], requests: Mapping[str, Any]) -> dict[str, Any]:
    """Instructions and tool declarations of each agent that spoke, from its first model request in the turn."""
    details: dict[str, Any] = {}
    for event in events:
        request = requests.get(event.author)
        if request is None or event.author in details:
            continue
        details[event.author] = {
            "name": event.author,
            "instructions": _instructions(request.config.system_instruction),
            "tool_declarations": as_json(request.config.tools or []),
        }
    return details


def add_usage(total: dict[str, int], usage: Any) -> None:
    """Add google.genai usage metadata to `total`; what it does not say is left alone."""
    for name, field in _USAGE.items():
        count = getattr(usage, field, None)
        if count is not None:
            total[name] = total.get(name, 0) + count


def usage_of_events(events: Iterable[Any]) -> tuple[int, dict[str, int]]:
    """Model calls and their tokens as the events alone tell them, for agents that call models by themselves."""
    calls = 0
    total: dict[str, int] = {}
    for event in events:
        if event.usage_metadata is not None or event.model_version is not None:
            calls += 1
            add_usage(total, event.usage_metadata)
    return calls, total


def _invocation_event(event: Any, *, is_final: bool) -> dict[str, Any]:
    """The text of the final response is not repeated; its tool calls are, since the trajectory is read from here."""
    told: dict[str, Any] = {"author": event.author}
    if not is_final or event.get_function_calls():
        told["content"] = as_json(event.content)
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
