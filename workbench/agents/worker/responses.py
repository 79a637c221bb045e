"""Answers of agents: parsing, results and spans of turns, redaction of declarations."""

from __future__ import annotations

import re
import time
from collections import deque

from .adapters import base
from .adapters.base import MOST_STEPS, check_texts, explain_truncation
from .loading import suggest_name
from .wire import CUSTOM, UNNAMED_ARGUMENT, describe, explain_unfit, make_json_safe, parse_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable


# Return values of agents.

_KEYS = ("response", "predicted_trajectory", "intermediate_responses", "tool_responses", "usage", "state")
_SHAPES = (
    'a str, or a dict with "response" (a str) and "predicted_trajectory" (a list of calls such as '
    '{"tool_name": "...", "tool_input": {...}}), an awaitable of one of these, or an iterator of pieces of the response'
)
_USAGE = {
    "prompt": ("prompt", "prompt_tokens", "input_tokens", "prompt_token_count"),
    "tool_use_prompt": ("tool_use_prompt", "tool_use_prompt_token_count"),
    "candidates": ("candidates", "completion_tokens", "output_tokens", "candidates_token_count"),
    "thoughts": ("thoughts", "reasoning_tokens", "thoughts_token_count"),
    "cached": ("cached", "cached_tokens", "cached_content_token_count"),
    "total": ("total", "total_tokens", "total_token_count"),
}


def join_pieces(pieces: Iterable[Any]) -> str:
    """Return the response of an agent that yields it in pieces. Raises AgentFault for a piece that is no text."""
    texts = []
    for number, piece in enumerate(pieces, 1):
        if not isinstance(piece, str):
            raise base.AgentFault(
                f"the agent yielded {describe(piece)} as piece {number}, expected a str: the pieces are joined to the "
                "response, and an agent that also reports calls returns a dict"
            )
        texts.append(piece)
    return "".join(texts)


def read_answer(value: Any) -> dict[str, Any]:
    """Parse the return value of an agent. Raises AgentFault with the actual and the possible shapes."""
    if isinstance(value, str):
        value = {"response": value}
    if not isinstance(value, dict):
        raise base.AgentFault(f"the agent returned {describe(value)}, expected {_SHAPES}")
    response = value.get("response")
    trajectory = value.get("predicted_trajectory")
    refuse_misspelt_keys(value)
    if response is None and not trajectory:
        raise base.AgentFault(f"the agent returned {describe(value)} and no response, expected {_SHAPES}")
    if response is not None and not isinstance(response, str):
        raise base.AgentFault(f'"response" is {describe(response)}, expected a str')
    reported = _read_list(trajectory, "predicted_trajectory")
    responses = _read_list(value.get("tool_responses"), "tool_responses")
    texts = _read_list(value.get("intermediate_responses"), "intermediate_responses")
    check_texts(len(texts))
    calls = _read_each(reported[:MOST_STEPS], "predicted_trajectory", _read_call)
    answer = {
        "response": response,
        "predicted_trajectory": _make_trajectory(calls),
        "tool_uses": calls,
        "tool_responses": _read_each(responses[:MOST_STEPS], "tool_responses", _read_tool_response),
        "intermediate_responses": _read_each(texts, "intermediate_responses", _read_intermediate_response),
        "usage": _read_usage(value.get("usage")),
        "state": value.get("state"),
    }
    if cut := explain_truncation(len(reported), len(responses)):
        answer["calls_unknown"] = cut
    if answer["state"] is not None and not isinstance(answer["state"], dict):
        raise base.AgentFault(f'"state" is {describe(answer["state"])}, expected a dict')
    return answer


def _make_trajectory(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"tool_name": call["name"], "tool_input": call["args"]} for call in calls]


def add_reported_calls(answer: dict[str, Any], found: Any, *, missing: str | None) -> None:
    """Set the calls of an answer that reports none to those that spans report: `ReportedCalls` or `TurnTraces`.

    `missing` says why some of them may be missing.
    """
    answer["tool_uses"], answer["tool_responses"] = found.calls, answer["tool_responses"] or found.responses
    answer["predicted_trajectory"] = _make_trajectory(found.calls)
    answer["calls_unknown"] = answer.get("calls_unknown") or missing
    answer["arguments_unknown"] = found.arguments_unknown


def read_prompt(content: dict[str, Any]) -> str:
    """Return the text of a user content."""
    return "\n".join(part["text"] for part in content.get("parts") or () if part.get("text"))


def has_trajectory(value: Any) -> bool:
    """Return True if the return value reports tool calls; an empty list reports that there were none."""
    return isinstance(value, dict) and value.get("predicted_trajectory") is not None


def refuse_misspelt_keys(value: dict[Any, Any]) -> None:
    """Refuse keys that look like misspelt known keys, whose values would be lost. Other unknown keys are allowed.

    Raises AgentFault.
    """
    for key in value:
        if key not in _KEYS and isinstance(key, str):
            near = suggest_name(key, [name for name in _KEYS if name not in value], likeness=0.85)
            if key in ("trajectory", "tool_calls") and "predicted_trajectory" not in value:
                near = "; did you mean 'predicted_trajectory'?"
            if near:
                raise base.AgentFault(f"the agent returned a dict with the key {key!r}{near}")


def _read_list(value: Any, place: str) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, str) and place == "predicted_trajectory":
        import json

        try:
            value = json.loads(value)
        except ValueError:
            raise base.AgentFault(f'"{place}" is a str that is not JSON, expected a list of calls') from None
    if not isinstance(value, (list, tuple)):
        raise base.AgentFault(f'"{place}" is {describe(value)}, expected a list')
    return list(value)


def _read_each(items: list[Any], key: str, read: Callable[[Any, str], dict[str, Any]]) -> list[dict[str, Any]]:
    return [read(item, f"{key}[{index}]") for index, item in enumerate(items)]


def _read_call(item: Any, place: str) -> dict[str, Any]:
    if isinstance(item, str):
        return {"name": item, "args": None}
    if isinstance(item, dict) and isinstance(item.get("function"), dict):  # as chat completions have it
        function = item["function"]
        item = {"name": function.get("name"), "args": function.get("arguments"), "id": item.get("id")}
    if isinstance(item, dict) and item.get("type") in CUSTOM:
        custom = item["custom"] if isinstance(item.get("custom"), dict) else item
        if "input" in custom:
            item = {"name": custom.get("name"), "args": {UNNAMED_ARGUMENT: custom["input"]}, "id": item.get("id")}
    name = item.get("tool_name", item.get("name")) if isinstance(item, dict) else None
    if not isinstance(name, str):
        raise base.AgentFault(
            f'{place} is {describe(item)}, expected a call such as {{"tool_name": "...", "tool_input": {{...}}}}'
        )
    key = next((key for key in ("tool_input", "args", "arguments", "input") if key in item), "args")
    args = parse_text(item.get(key))
    if args is not None and not isinstance(args, dict):
        if key == "args" or (isinstance(args, str) and args.lstrip().startswith("{")):
            raise base.AgentFault(f"{place}.{key} is {describe(item[key])}, expected a dict of arguments")
        args = {UNNAMED_ARGUMENT: args}
    call = {"name": name, "args": _require_json(args, f"{place}.{key}")}
    if isinstance(item.get("id"), str):
        call["id"] = item["id"]
    return call


def _read_tool_response(item: Any, place: str) -> dict[str, Any]:
    name = item.get("tool_name", item.get("name")) if isinstance(item, dict) else None
    if not isinstance(name, str):
        raise base.AgentFault(f'{place} is {describe(item)}, expected {{"name": "...", "response": {{...}}}}')
    response = item.get("response", item.get("tool_output"))
    if response is not None and not isinstance(response, dict):
        response = {"result": response}
    identity = item.get("id")
    return {
        "id": identity if isinstance(identity, str) else None,  # as in `_read_call`
        "name": name,
        "response": _require_json(response, f"{place}.response"),
    }


def _read_intermediate_response(item: Any, place: str) -> dict[str, Any]:
    if isinstance(item, str):
        return {"author": "agent", "parts": [{"text": item}]}
    if isinstance(item, dict):
        author, parts = item.get("author"), item.get("parts", item.get("text"))
    elif isinstance(item, (list, tuple)) and len(item) == 2:
        author, parts = item
    else:
        author = parts = None
    if isinstance(parts, str):
        parts = [{"text": parts}]
    if not isinstance(author, str) or not isinstance(parts, list):
        raise base.AgentFault(f'{place} is {describe(item)}, expected {{"author": "...", "text": "..."}}')
    for index, part in enumerate(parts):
        if not isinstance(part, dict) or not isinstance(part.get("text", ""), str):
            raise base.AgentFault(f'{place}.parts[{index}] is {describe(part)}, expected {{"text": "..."}}')
    return {"author": author, "parts": _require_json(parts, f"{place}.parts")}


def _read_usage(value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise base.AgentFault(f'"usage" is {describe(value)}, expected a dict such as {{"prompt": 12, "total": 20}}')
    usage = {}
    for name, spellings in _USAGE.items():
        found = next((value[spelling] for spelling in spellings if value.get(spelling) is not None), None)
        if found is not None and (not isinstance(found, int) or isinstance(found, bool)):
            raise base.AgentFault(f"usage.{name} is {describe(found)}, expected a number of tokens")
        usage[name] = found
    return usage


def _require_json(value: Any, place: str) -> Any:
    problem = explain_unfit(value, place)
    if problem:
        raise base.AgentFault(problem)
    return value


# Results and spans of turns, from what the agent reports.


def make_turn_result(
    content: dict[str, Any], answer: dict[str, Any], *, duration: float, spans: list[dict[str, Any]]
) -> dict[str, Any]:
    """Build a TurnResult with its spans. `answer` has the shape of `read_answer`; `duration` is in seconds.

    `inference_calls` of the answer is set if the adapter sees model calls. `calls_unknown` says why reports of tool
    calls are missing. `calls_unknown_by_design` says why an answer without calls does not mean that no tool was called.
    `arguments_unknown` says why only the names of calls are known. `pending` is what the agent waits for. `notes` are
    remarks on the turn.
    """
    response = answer["response"]
    calls = answer["tool_uses"]
    cut = explain_truncation(len(calls), len(answer["tool_responses"]))
    check_texts(len(answer["intermediate_responses"]))
    steps = {
        "tool_uses": calls[:MOST_STEPS],
        "tool_responses": answer["tool_responses"][:MOST_STEPS],
        "intermediate_responses": answer["intermediate_responses"],
    }
    by_design = answer.get("calls_unknown_by_design")
    # Tool responses prove that there were calls.
    is_by_design = by_design is not None and not steps["tool_uses"] and not steps["tool_responses"]
    return {
        "invocation": {
            "user_content": content,
            "final_response": None if response is None else {"role": "model", "parts": [{"text": response}]},
            "intermediate_data": None if by_design is not None and not any(steps.values()) else steps,
            "creation_timestamp": time.time(),
        },
        "duration_seconds": duration,
        "inference_calls": answer.get("inference_calls"),
        "usage": answer["usage"],
        "calls_unknown": answer.get("calls_unknown") or cut or by_design,
        "arguments_unknown": answer.get("arguments_unknown"),
        "spans": spans,
        **({"calls_unknown_by_design": True} if is_by_design else {}),
        **({"pending": answer["pending"]} if answer.get("pending") else {}),
        **({"notes": answer["notes"]} if answer.get("notes") else {}),
    }


def make_agent_span(
    index: int, name: str, *, start: float, end: float | None, request: Any, response: Any = None
) -> dict[str, Any]:
    """Build the span of the agent in one turn. Times are seconds since the session was opened; `end` is None while it
    runs."""
    span = {
        "id": f"agent-{index}",
        "turn": index,
        "kind": "agent",
        "name": name,
        "start": start,
        "end": end,
        "request": request,
    }
    return span if end is None else {**span, "response": response}


def order_like_messages(tools: list[Any], places: dict[int, list[tuple[int, int]]]) -> list[Any]:
    """Return tools with those of each model message in its order. `places`, by message: in it, and among the tools."""
    ordered = list(tools)
    for found in places.values():
        for (_, number), slot in zip(sorted(found), sorted(number for _, number in found)):  # noqa: B905 - as many
            ordered[slot] = tools[number]
    return ordered


def make_call_spans(
    agent: dict[str, Any], calls: list[dict[str, Any]], responses: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Build a span without times for each call, with the response of its id, else the next of its name."""
    named: dict[Any, deque[int]] = {}
    identified: dict[Any, deque[int]] = {}
    for position, response in enumerate(responses[:MOST_STEPS]):
        named.setdefault(response["name"], deque()).append(position)
        if response.get("id") is not None:
            identified.setdefault((response["name"], response["id"]), deque()).append(position)
    taken: set[int] = set()

    def take(positions: deque[int] | None) -> int | None:
        while positions:
            position = positions.popleft()
            if position not in taken:
                taken.add(position)
                return position
        return None

    spans = []
    for number, call in enumerate(calls[:MOST_STEPS]):
        found = take(identified.get((call["name"], call.get("id"))))
        if found is None:
            found = take(named.get(call["name"]))
        spans.append(
            {
                "id": f"{agent['id']}.{number}",
                "parent_id": agent["id"],
                "turn": agent["turn"],
                "kind": "tool",
                "name": call["name"],
                "request": call["args"],
                "response": None if found is None else responses[found]["response"],
            }
        )
    return spans


# Redaction: declarations of tools appear in prompts and recorded files, secrets must not.

_NAMES_SECRET = re.compile(
    r"api[_-]?key|(secret|private|access|auth|account|encryption|signing)[_-]?key|secret|passw|passphrase|pwd"
    r"|credential|authorization|cookie|token$|bearer|(^|[_-])(key|auth|pin)$",
    re.IGNORECASE,
)
# Names of measurements in tokens. `max_tokens` and similar names do not look like secrets anyway.
_NAMES_MEASURE = re.compile(r"(to[_-]?first|(^|[_.-])per([_-](in|out)put)?)[_-]?token$", re.IGNORECASE)
_NAMES_SECRET_NUMBER = re.compile(r"secret|passw|passphrase|pwd|(^|[_-])pin$", re.IGNORECASE)
_FEW = 4  # characters; a text this short is never a secret
_MOST = 200
# Keys mix letters and digits, or have long runs of them. Other characters are excluded because of URLs with passwords.
_WORDS = re.compile(r"[^\W\d_]{0,15}\d{0,4}(?:[ _\-.,:/][^\W\d_]{0,15}\d{0,4})*")
_KEY = re.compile(r"sk-|gh[pousr]_|xox[abprs]-|ya29\.|AKIA|AIza|eyJ")
_FEWEST = 5  # characters; shorter beginnings of a cut value are ignored
_CUT = re.compile(r"\.\.\.|…|\Z")
_QUOTED = re.compile(r"""'[^'\s]*'|"[^"\s]*\"""")


def names_secret(name: str) -> bool:
    """Return True if a parameter, variable or header of this name may hold a secret."""
    return _NAMES_SECRET.search(name) is not None


def may_be_secret(name: str, value: Any) -> bool:
    """Return True if a value under this name may be a secret. Booleans and None never are, and numbers are no keys."""
    if value is None or isinstance(value, bool) or not names_secret(name) or _NAMES_MEASURE.search(name):
        return False
    return not isinstance(value, (int, float)) or _NAMES_SECRET_NUMBER.search(name) is not None


def is_safe_to_show(name: str, default: Any) -> bool:
    """Return True if the default of a parameter is certainly no secret."""
    if names_secret(name):
        return default is None
    # The text of an object may show its content.
    default = make_json_safe(default)
    if isinstance(default, str):
        return is_plain(default)
    if isinstance(default, dict):
        return all(is_plain(key) and is_safe_to_show(key, item) for key, item in default.items())
    if isinstance(default, list):
        return all(is_safe_to_show(name, item) for item in default)
    return True


def redact_schema(schema: Any, *, name: str = "") -> Any:
    """Return a JSON schema without defaults that may be secrets."""
    if isinstance(schema, list):
        return [redact_schema(item, name=name) for item in schema]
    if not isinstance(schema, dict):
        return schema
    redacted = {}
    for key, value in schema.items():
        if key == "properties" and isinstance(value, dict):
            redacted[key] = {inner: redact_schema(item, name=inner) for inner, item in value.items()}
        elif key != "default":
            redacted[key] = redact_schema(value, name=name)
        elif is_safe_to_show(name, value):
            redacted[key] = value
    return redacted


def redact_annotation(text: str) -> str:
    """Return an annotation as text. Quoted parts that may be secrets are replaced."""
    return _QUOTED.sub(lambda found: found[0] if is_plain(found[0][1:-1]) else "'...'", text)


def clean_docstring(owner: Any, text: str) -> str:
    """Return a docstring; empty if it is the generated signature of a dataclass, which contains defaults."""
    kind = owner if isinstance(owner, type) else type(owner)
    is_signature = hasattr(kind, "__dataclass_fields__") and text.startswith(f"{kind.__name__}(")
    return "" if is_signature else text


def replace_cut_value(text: str, value: str, replacement: str) -> str:
    """Replace the beginning of a value wherever the text was cut within the value."""
    head = value[:_FEWEST]
    pieces, start, at = [], 0, text.find(head)
    while at >= 0:
        end = at + len(head)
        while end - at < len(value) and text[end : end + 1] == value[end - at]:
            end += 1
        if end - at < len(value) and _CUT.match(text, end):
            pieces += [text[start:at], replacement]
            start = end
        at = text.find(head, end)
    return "".join([*pieces, text[start:]])


def is_plain(text: str) -> bool:
    """Return True if a text reads like words, names or numbers."""
    if len(text) <= _FEW:
        return True
    return len(text) <= _MOST and _KEY.match(text) is None and _WORDS.fullmatch(text) is not None
