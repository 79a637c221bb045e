"""What spans of OpenTelemetry say, wherever they were made, as spans of ours.

The GenAI conventions (`gen_ai.*`) say what is a call of a model, a tool or an agent, and with how many tokens; those of
OpenInference are understood too.
"""

from __future__ import annotations

import json
import re

from .responses import may_be_secret
from .wire import unfit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Optional, Tuple

MOST = 5000
"""Spans of a turn; what an agent makes beyond is noise, and memory."""

_KINDS = {
    "chat": "model", "text_completion": "model", "generate_content": "model", "embeddings": "model",
    "execute_tool": "tool", "invoke_agent": "agent", "create_agent": "agent", "invoke_workflow": "agent",
    "LLM": "model", "EMBEDDING": "model", "TOOL": "tool", "AGENT": "agent",
}  # fmt: skip
_NAMES = {
    "model": ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name"),
    "tool": ("gen_ai.tool.name", "tool.name"),
    "agent": ("gen_ai.agent.name", "agent.name"),
}
_REQUESTS = ("gen_ai.tool.call.arguments", "gen_ai.input.messages", "gen_ai.prompt", "input.value")
_RESPONSES = ("gen_ai.tool.call.result", "gen_ai.output.messages", "gen_ai.completion", "output.value")
_USAGE = {
    "prompt": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"),
    "candidates": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"),
    "cached": ("gen_ai.usage.cache_read.input_tokens", "llm.token_count.prompt_details.cache_read"),
    "total": ("gen_ai.usage.total_tokens", "llm.token_count.total"),
}
_REDACTED = "[redacted]"
# A key and its value, in a text that cannot be read as a whole: of an object or list nobody knows there where it ends.
_KEY = re.compile(r"""(?P<quote>["'])(?P<name>[^"'\\\s]{1,100})(?P=quote)\s*:\s*""")
_PLAIN = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}
_VALUE = re.compile(r""""(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|[\[{(].*|[^\s,}\])]*""", re.DOTALL)


def span_of(
    attributes: Dict[str, Any],
    *,
    span_id: str,
    parent_id: Optional[str],
    turn: int,
    name: str,
    start: Optional[float],
    end: Optional[float],
    error: Optional[str],
) -> Dict[str, Any]:
    """A span of ours. `attributes` are JSON values, and become its own; times are seconds since the session was opened.

    It is whole, for what is judged is taken from it: `without_secrets` makes of it what may be kept.
    """
    kind = _kind(attributes)
    request, response = _taken(attributes, _REQUESTS), _taken(attributes, _RESPONSES)
    usage = _usage(attributes)
    found = dict(attributes)
    if usage:
        found["usage"] = usage
    call_id = found.get("gen_ai.tool.call.id")
    if kind == "tool" and call_id:
        found["function_call_id"] = call_id
    return {
        "id": span_id,
        "parent_id": parent_id,
        "turn": turn,
        "kind": kind,
        "name": next((str(found[key]) for key in _NAMES.get(kind, ()) if found.get(key)), name),
        "start": start,
        "end": end,
        "error": error,
        "request": request,
        "response": response,
        "attributes": found,
    }


def without_secrets(span: Dict[str, Any]) -> Dict[str, Any]:
    """A span without the values that stand under names of secrets: an instrumented client may note its headers.

    Its attributes, its request and its response are looked through, down to their innermost keys, JSON in texts too.
    """
    return {**span, **{key: _redacted(span[key]) for key in ("request", "response", "attributes")}}


def _redacted(value: Any) -> Any:
    """A JSON value without the secrets that stand under their names."""
    if isinstance(value, dict):
        return {key: _REDACTED if may_be_secret(key, item) else _redacted(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_redacted(item) for item in value]
    if not isinstance(value, str) or not _looks_like_json(value):
        return value
    document = _read(value)
    if document is None:  # such as what was cut, or is written as Python writes it
        return _redacted_text(value)
    redacted = _redacted(document)
    return value if redacted == document else json.dumps(redacted, ensure_ascii=False)


def _redacted_text(text: str) -> str:
    told, here = [], 0
    for key in _KEY.finditer(text):
        value = _VALUE.match(text, key.end())
        if key.start() >= here and may_be_secret(key["name"], _read_plain(value[0] if value else "")):
            told += [text[here : key.end()], _REDACTED]
            here = value.end() if value else key.end()
    return "".join([*told, text[here:]])


def _read_plain(text: str) -> Any:
    """The number, yes, no or nothing that is written so in JSON or Python; any other value as it is written."""
    if text in _PLAIN:
        return _PLAIN[text]
    try:
        return float(text)
    except ValueError:
        return text


def model_calls(spans: List[Dict[str, Any]]) -> Tuple[Optional[int], Optional[Dict[str, int]]]:
    """How many models were called, and their tokens; None where no span tells of it.

    A call inside another is the same call, told by a framework and by the client that it uses.
    """
    by_id = {span["id"]: span for span in spans}
    outermost = [
        span
        for span in spans
        if span["kind"] == "model" and all(around["kind"] != "model" for around in _above(span, by_id))
    ]
    usage: Dict[str, int] = {}
    for span in outermost:
        for name, count in span["attributes"].get("usage", {}).items():
            usage[name] = usage.get(name, 0) + count
    return len(outermost) or None, usage or None


def _above(span: Dict[str, Any], by_id: Dict[str, Dict[str, Any]]) -> Iterator[Dict[str, Any]]:
    around = by_id.get(span["parent_id"])
    while around is not None:
        yield around
        around = by_id.get(around["parent_id"])


def _kind(attributes: Dict[str, Any]) -> str:
    told = attributes.get("gen_ai.operation.name") or attributes.get("openinference.span.kind")
    found = _KINDS.get(str(told))
    if found is None and told is None and attributes.get("gen_ai.request.model"):
        return "model"  # as conventions had it before there was a name of the operation
    return found or "other"


def _taken(attributes: Dict[str, Any], names: Tuple[str, ...]) -> Any:
    """The first of some attributes, which is one no longer; JSON in it is read."""
    for name in names:
        if name in attributes:
            value = attributes.pop(name)
            document = _read(value) if isinstance(value, str) and _looks_like_json(value) else None
            return value if document is None else document
    return None


def _looks_like_json(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[")


def _read(text: str) -> Any:
    """The object or list that is written in a text; None where it only looks like one, was cut, or is too deep."""
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if unfit(document, "it") is None else None


def _usage(attributes: Dict[str, Any]) -> Dict[str, int]:
    usage: Dict[str, int] = {}
    for name, spellings in _USAGE.items():
        found = next((attributes[spelling] for spelling in spellings if spelling in attributes), None)
        if isinstance(found, int) and not isinstance(found, bool):
            usage[name] = found
    if "total" not in usage and "prompt" in usage and "candidates" in usage:
        usage["total"] = usage["prompt"] + usage["candidates"]
    return usage


def exception_text(attributes: Dict[str, Any]) -> str:
    """What the event of an exception says of it."""
    kind, text = attributes.get("exception.type", "exception"), attributes.get("exception.message", "")
    return f"{kind}: {text}" if text else str(kind)
