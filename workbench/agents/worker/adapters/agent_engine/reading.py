"""What agents on Agent Engine answer, brought into the shape that a function may return."""

from __future__ import annotations

import json
import re
from typing import Any

from ...steps import as_json, read_steps
from ...wire import describe
from ..base import AgentFault
from ..langchain.langchain_messages import add_usage, read_messages

_SHAPES = (
    'text, a dict with "output" and "intermediate_steps", one with "response" and "predicted_trajectory", or one with '
    '"messages"'
)
_ANSWER_KEYS = ("response", "predicted_trajectory", "messages")
_OF_EXECUTOR = frozenset({"steps", "actions", "messages"})
_ERROR_KEYS = {"code", "message", "status", "details"}
_PASSING_CODES = ("408", "429", "RESOURCE_EXHAUSTED", "UNAVAILABLE", "INTERNAL", "DEADLINE_EXCEEDED")
_MESSAGE_CLASSES = {"AIMessage": "ai", "HumanMessage": "human", "ToolMessage": "tool", "SystemMessage": "system"}
_MESSAGE_ROLES = {"user": "human", "assistant": "ai", "model": "ai", "function": "tool"}
_ITEMS = ("reasoning", "mcp_list_tools", "mcp_approval_request")
"""Items of OpenAI's Responses that are neither messages, calls nor what calls gave."""
_KEYS_OF_RESULTS = ("function_response", "functionResponse", "toolResult")  # Gemini, Bedrock
_IDS_OF_CALLS = ("id", "toolUseId", "tool_use_id")
_MAY_BE_CALLS = re.compile("tool|function|call", re.IGNORECASE)
_FIELDS = frozenset(
    {
        "tool_calls", "invalid_tool_calls", "function_call", "tool_call_id", "tool_call_chunks", "tool_choice",
        "tool_plan",
    }
)  # fmt: skip
"""Fields of a message that speak of calls, and are read or say nothing new."""
_USAGE = {
    "prompt": "prompt_token_count",
    "tool_use_prompt": "tool_use_prompt_token_count",
    "candidates": "candidates_token_count",
    "thoughts": "thoughts_token_count",
    "cached": "cached_content_token_count",
    "total": "total_token_count",
}


def read_output(output: Any, *, is_stream: bool) -> dict[str, Any]:
    """What `query` gave, or the chunks of a stream. Raises AgentFault with what was found and what is possible."""
    if is_stream:
        # The service tells of an error in a chunk of its own, whatever the agent streams.
        _refuse_error([chunk for chunk in output if isinstance(chunk, dict)])
        if output and all(isinstance(chunk, dict) and (_is_event(chunk) or _error_in(chunk)) for chunk in output):
            return read_events(output)
        output = _joined(output)
    if isinstance(output, str):
        return {"response": output}
    if isinstance(output, dict):
        if "predicted_trajectory" in output or "response" in output:
            return output
        if "output" in output or "intermediate_steps" in output:
            return _read_steps_output(output)
        if isinstance(output.get("messages"), list):
            return _read_message_list(output["messages"])
    raise AgentFault(f"the agent returned {describe(output)}, expected {_SHAPES}")


def read_events(events: list[Any]) -> dict[str, Any]:
    """The events of an app of ADK, as JSON. Raises AgentFault where there are none, or one tells of an error."""
    told = [as_json(event) for event in events]
    odd = next((event for event in told if not isinstance(event, dict)), None)
    if odd is not None or not told:
        found = "no events" if not told else describe(odd)
        raise AgentFault(f"the agent streamed {found}, expected events of ADK")
    _refuse_error(told)
    uses, responses, texts = [], [], []
    usage: dict[str, int] = {}
    state: dict[str, Any] = {}
    for event in told:
        actions = event.get("actions") or {}
        state.update(_get(actions, "state_delta") or {})
        if event.get("partial") or event.get("author") == "user":
            continue
        counts = _get(event, "usage_metadata") or {}
        for name, field in _USAGE.items():
            count = _get(counts, field)
            if isinstance(count, int):
                usage[name] = usage.get(name, 0) + count
        parts = (event.get("content") or {}).get("parts") or []
        calls = [call for part in parts if (call := _get(part, "function_call"))]
        answers = [answer for part in parts if (answer := _get(part, "function_response"))]
        uses += [{"id": call.get("id"), "name": call.get("name"), "args": call.get("args") or {}} for call in calls]
        responses += [{name: answer.get(name) for name in ("id", "name", "response")} for answer in answers]
        text = "\n".join(part["text"] for part in parts if part.get("text") and not part.get("thought"))
        if text:
            author = str(event.get("author") or "agent")
            texts.append({"author": author, "text": text, "final": not calls and not answers})
    final = next((item for item in reversed(texts) if item["final"]), None)
    return {
        "response": None if final is None else final["text"],
        "predicted_trajectory": uses,
        "tool_responses": responses,
        "intermediate_responses": [item for item in texts if item is not final],
        "usage": usage or None,
        "state": {key: value for key, value in state.items() if not key.startswith("temp:")} or None,
    }


def _is_event(chunk: dict[str, Any]) -> bool:
    return "author" in chunk and ("content" in chunk or "actions" in chunk or _get(chunk, "error_code") is not None)


def _refuse_error(events: list[dict[str, Any]]) -> None:
    """Raise where an error was not followed by content: a plugin may have tried again, an agent fallen back."""
    error = None
    for event in events:
        error = None if _get(event.get("content"), "parts") else _error_in(event) or error
    if error is not None:
        code, text = error
        passing = code in _PASSING_CODES or (code.isdecimal() and 500 <= int(code) <= 599)
        raise AgentFault(f"the agent answered with error {code}: {text}", kind="infrastructure" if passing else "agent")


def _error_in(chunk: dict[str, Any]) -> tuple[str, str] | None:
    """Code and message of an error that a chunk tells of: as an event of ADK, or as Google's services do."""
    code, text = _get(chunk, "error_code"), _get(chunk, "error_message")
    if code is None:
        told = chunk.get("error", chunk if chunk.keys() <= _ERROR_KEYS else None)
        if isinstance(told, dict) and isinstance(told.get("message"), str):
            code, text = told.get("code", told.get("status")), told["message"]
        elif isinstance(told, str) and len(chunk) == 1:  # a node of a graph writes no text
            code, text = "without a code", told
    return None if isinstance(code, dict) or code is None else (str(code), str(text or "no message"))


def _read_steps_output(output: dict[str, Any]) -> dict[str, Any]:
    told = output.get("intermediate_steps")
    steps = read_steps(told)
    said = output.get("output")
    if isinstance(said, list):  # content in blocks, as some models give it
        odd = next((index for index, block in enumerate(said) if not isinstance(block, (str, dict))), None)
        if odd is not None:
            raise AgentFault(f'"output[{odd}]" is {describe(said[odd])}, expected text or a block with text')
        said = "".join(block if isinstance(block, str) else str(block.get("text", "")) for block in said)
    if said is not None and not isinstance(said, str):
        raise AgentFault(f'"output" is {describe(said)}, expected a str')
    return {
        "response": said,
        "predicted_trajectory": None if told is None else steps["tool_uses"],
        "tool_responses": steps["tool_responses"],
    }


def _read_message_list(messages: list[Any]) -> dict[str, Any]:
    """What a graph gave: the messages after the user's last one."""
    read = [message for index, item in enumerate(messages) for message in _messages_in(item, index)]
    asked = max((index for index, item in enumerate(read) if item.type == "human"), default=-1)
    new = read[asked + 1 :]
    if not new:
        raise AgentFault("the agent ended the turn without a message of its own")
    answer = read_messages(new)
    usage: dict[str, int] = {}
    for item in new:
        add_usage(usage, item.usage_metadata)
    return {
        "response": answer["response"],
        "predicted_trajectory": answer["tool_uses"],
        "tool_responses": answer["tool_responses"],
        "intermediate_responses": answer["intermediate_responses"],
        "usage": usage or None,
    }


def _messages_in(message: Any, index: int) -> list[_Message]:
    """A message as JSON: in LangChain's serialised form, which has all under `kwargs`, or with its own keys.

    Results of tools in it become messages of their own: other SDKs have them as said by the user.
    """
    told = message.get("kwargs", message) if isinstance(message, dict) else None
    told = _with_content(told) if isinstance(told, dict) else None
    if told is None or not isinstance(told["content"], (str, list, type(None))):
        raise AgentFault(f'"messages[{index}]" is {describe(message)}, expected a message with content')
    place = message.get("id")
    kind = _MESSAGE_CLASSES.get(str(place[-1]).removesuffix("Chunk")) if isinstance(place, list) and place else None
    read = _Message(told, kind)
    odd = next((key for key in told if told[key] and key not in _FIELDS and _MAY_BE_CALLS.search(str(key))), None)
    if read.type not in ("human", "system", "tool") and odd is not None:
        raise AgentFault(f'"messages[{index}].{odd}" is {describe(told[odd])}, expected calls in "tool_calls"')
    if read.type == "ai" or not isinstance(read.content, list):
        return [read]
    results = [_result_in(block) for block in read.content]
    read.content = [block for block, result in zip(read.content, results, strict=True) if result is None]
    found = [_Message(result, "tool") for result in results if result is not None]
    return [*found, read] if read.content or not found else found


def _with_content(told: dict[str, Any]) -> dict[str, Any] | None:
    """A message with its content under that key: an item of OpenAI's Responses has none, Gemini's has `parts`."""
    kind = told.get("type")
    if isinstance(kind, str) and "role" not in told:
        if kind.endswith("_call_output"):
            return {"role": "tool", "tool_call_id": told.get("call_id"), "content": told.get("output")}
        if kind.endswith("_call") or kind in _ITEMS:
            return {"role": "assistant", "content": [] if kind in _ITEMS else [told]}
    content = told.get("content")
    holder = content if isinstance(content, dict) else told
    if isinstance(holder.get("parts"), list) and not isinstance(content, list):
        return {**told, **holder, "content": holder["parts"]}
    return told if "content" in told else None


def _result_in(block: Any) -> dict[str, Any] | None:
    """What a tool gave, where a block of a message says so, as a message of its own."""
    if not isinstance(block, dict):
        return None
    keyed = next((block[key] for key in _KEYS_OF_RESULTS if isinstance(block.get(key), dict)), None)
    if keyed is None and block.get("type") != "tool_result":
        return None
    result = block if keyed is None else keyed
    content = result.get("response", result.get("content"))
    return {
        "content": json.dumps(content, ensure_ascii=False) if isinstance(content, dict) else content,
        "name": result.get("name"),
        "tool_call_id": next((result[key] for key in _IDS_OF_CALLS if key in result), None),
        "status": "error" if result.get("is_error") else result.get("status", "success"),
    }


class _Message:
    """A message with the attributes that LangChain's have; `kind` is its type where that is known."""

    def __init__(self, told: dict[str, Any], kind: str | None) -> None:
        names = [told[key] for key in ("role", "type") if isinstance(told.get(key), str)]
        self.type = kind or next(
            (_MESSAGE_ROLES[name] for name in names if name in _MESSAGE_ROLES), "".join(names[-1:])
        )
        self.content = told["content"]
        self.name = told.get("name")
        more = told.get("additional_kwargs")
        holders = (told, more if isinstance(more, dict) else {})
        self.tool_calls: list[Any] = next((each["tool_calls"] for each in holders if each.get("tool_calls")), [])
        if not self.tool_calls:  # OpenAI's before there were tools
            self.tool_calls = [each["function_call"] for each in holders if each.get("function_call")][:1]
        self.invalid_tool_calls = told.get("invalid_tool_calls") or []
        self.tool_call_id = told.get("tool_call_id")
        self.status = told.get("status", "success")
        self.usage_metadata = told.get("usage_metadata")


def _joined(chunks: list[Any]) -> Any:
    """The chunks of a stream as the answer that they are parts of."""
    if all(isinstance(chunk, str) for chunk in chunks):
        return "".join(chunks) if chunks else None
    if not all(isinstance(chunk, dict) for chunk in chunks):
        return chunks
    if any("steps" in chunk or "output" in chunk or "actions" in chunk for chunk in chunks):  # of an AgentExecutor
        said = next((chunk["output"] for chunk in reversed(chunks) if "output" in chunk), None)
        return {"output": said, "intermediate_steps": _steps_in(chunks)}
    # A node of a graph may have any name: what it wrote is a dict, and an answer is none.
    if len(chunks) == 1 and any(not isinstance(chunks[0].get(key, {}), dict) for key in _ANSWER_KEYS):
        return chunks[0]
    # Of a graph: what each node wrote.
    written = [part for chunk in chunks for part in chunk.values() if isinstance(part, dict)]
    messages = [message for part in written for message in part.get("messages") or ()]
    return {"messages": messages} if messages else chunks[0] if len(chunks) == 1 else chunks


def _steps_in(chunks: list[dict[str, Any]]) -> list[Any] | None:
    """The steps that were streamed, or else told at the end; None where no chunk is such that it would tell of any."""
    steps = [_unpacked(step) for chunk in chunks for step in chunk.get("steps") or ()]
    at_end = next((chunk["intermediate_steps"] for chunk in reversed(chunks) if "intermediate_steps" in chunk), None)
    if steps or at_end is None:
        # An AgentExecutor streams its steps, and has its messages in each chunk.
        return steps if any(not _OF_EXECUTOR.isdisjoint(chunk) for chunk in chunks) else None
    return at_end  # type: ignore[no-any-return]  # what is no list is refused where steps are read


def _unpacked(step: Any) -> Any:
    """A step of a stream, which LangChain's serialised form has under `kwargs`."""
    return step.get("kwargs", step) if isinstance(step, dict) else step


def _get(told: Any, name: str) -> Any:
    """A value by its name in Python, or as JSON of Google spells it."""
    if not isinstance(told, dict):
        return None
    head, *rest = name.split("_")
    return told.get(name, told.get(head + "".join(word.capitalize() for word in rest)))
