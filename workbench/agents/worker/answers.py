"""What a function that is an agent may return, brought into one shape.

Vertex AI's contract is a dict with `response` and `predicted_trajectory`; just the text of the response will do.
"""

from __future__ import annotations

from .adapters import base
from .limits import MOST_STEPS, check_texts, why_cut
from .loading import nearest
from .values import CUSTOM, UNNAMED_ARGUMENT, describe, parse_text, unfit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional

_KEYS = ("response", "predicted_trajectory", "intermediate_responses", "tool_responses", "usage", "state")
_SHAPES = (
    'a str, or a dict with "response" (a str) and "predicted_trajectory" (a list of calls such as '
    '{"tool_name": "...", "tool_input": {...}}), or an awaitable of one of these'
)
_USAGE = {
    "prompt": ("prompt", "prompt_tokens", "input_tokens", "prompt_token_count"),
    "tool_use_prompt": ("tool_use_prompt", "tool_use_prompt_token_count"),
    "candidates": ("candidates", "completion_tokens", "output_tokens", "candidates_token_count"),
    "thoughts": ("thoughts", "reasoning_tokens", "thoughts_token_count"),
    "cached": ("cached", "cached_tokens", "cached_content_token_count"),
    "total": ("total", "total_tokens", "total_token_count"),
}


def read_answer(value: Any) -> Dict[str, Any]:
    """What a function returned, brought into one shape. Raises AgentFault with what was found and what is possible."""
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
    reported = _list_of(trajectory, "predicted_trajectory")
    responses = _list_of(value.get("tool_responses"), "tool_responses")
    texts = _list_of(value.get("intermediate_responses"), "intermediate_responses")
    check_texts(len(texts))
    calls = _read_each(reported[:MOST_STEPS], "predicted_trajectory", _read_call)
    answer = {
        "response": response,
        "predicted_trajectory": [{"tool_name": call["name"], "tool_input": call["args"]} for call in calls],
        "tool_uses": calls,
        "tool_responses": _read_each(responses[:MOST_STEPS], "tool_responses", _read_tool_response),
        "intermediate_responses": _read_each(texts, "intermediate_responses", _read_intermediate_response),
        "usage": _read_usage(value.get("usage")),
        "state": value.get("state"),
    }
    if cut := why_cut(len(reported), len(responses)):
        answer["calls_unknown"] = cut
    if answer["state"] is not None and not isinstance(answer["state"], dict):
        raise base.AgentFault(f'"state" is {describe(answer["state"])}, expected a dict')
    return answer


def tells_trajectory(value: Any) -> bool:
    """Whether what a function returned says which tools were called; an empty list says that none was."""
    return isinstance(value, dict) and value.get("predicted_trajectory") is not None


def refuse_misspelt_keys(value: Dict[Any, Any]) -> None:
    """A key we do not know is the agent's business, unless it is one of ours misspelt: its value would be lost.

    Raises AgentFault.
    """
    for key in value:
        if key not in _KEYS and isinstance(key, str):
            near = nearest(key, [name for name in _KEYS if name not in value], likeness=0.85)
            if key in ("trajectory", "tool_calls") and "predicted_trajectory" not in value:
                near = "; did you mean 'predicted_trajectory'?"
            if near:
                raise base.AgentFault(f"the agent returned a dict with the key {key!r}{near}")


def _list_of(value: Any, place: str) -> List[Any]:
    if value is None:
        return []
    if isinstance(value, str) and place == "predicted_trajectory":
        import json

        try:
            value = json.loads(value)
        except ValueError:
            raise base.AgentFault(f'"{place}" is a str that is no JSON, expected a list of calls') from None
    if not isinstance(value, (list, tuple)):
        raise base.AgentFault(f'"{place}" is {describe(value)}, expected a list')
    return list(value)


def _read_each(items: List[Any], key: str, read: Callable[[Any, str], Dict[str, Any]]) -> List[Dict[str, Any]]:
    return [read(item, f"{key}[{index}]") for index, item in enumerate(items)]


def _read_call(item: Any, place: str) -> Dict[str, Any]:
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
    call = {"name": name, "args": _json_only(args, f"{place}.{key}")}
    if isinstance(item.get("id"), str):
        call["id"] = item["id"]
    return call


def _read_tool_response(item: Any, place: str) -> Dict[str, Any]:
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
        "response": _json_only(response, f"{place}.response"),
    }


def _read_intermediate_response(item: Any, place: str) -> Dict[str, Any]:
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
    return {"author": author, "parts": _json_only(parts, f"{place}.parts")}


def _read_usage(value: Any) -> Optional[Dict[str, Any]]:
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


def _json_only(value: Any, place: str) -> Any:
    problem = unfit(value, place)
    if problem:
        raise base.AgentFault(problem)
    return value
