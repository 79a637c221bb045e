"""What an agent reported of a turn, as the result and the spans of it: calls that it told of, which nobody saw."""

from __future__ import annotations

import time
from collections import deque

from .limits import MOST_STEPS, check_texts, why_cut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional


def turn_result(
    content: Dict[str, Any], answer: Dict[str, Any], *, duration: float, spans: List[Dict[str, Any]]
) -> Dict[str, Any]:
    """A TurnResult with its spans. `answer` has the shape that `answers.read_answer` gives; `duration` is in seconds.

    `inference_calls` of the answer counts where the adapter sees model calls. `calls_unknown` says why calls of tools
    that were to be told were not, `calls_untold` why it does not mean that there was none where an agent tells of none,
    `arguments_unknown` why only the names of calls were told.
    """
    response = answer["response"]
    calls = answer["tool_uses"]
    cut = why_cut(len(calls), len(answer["tool_responses"]))
    check_texts(len(answer["intermediate_responses"]))
    steps = {
        "tool_uses": calls[:MOST_STEPS],
        "tool_responses": answer["tool_responses"][:MOST_STEPS],
        "intermediate_responses": answer["intermediate_responses"],
    }
    untold = answer.get("calls_untold")
    # What tools gave back was called for: then a case that expects no call is in doubt, too.
    never_told = untold is not None and not steps["tool_uses"] and not steps["tool_responses"]
    return {
        "invocation": {
            "user_content": content,
            "final_response": None if response is None else {"role": "model", "parts": [{"text": response}]},
            "intermediate_data": None if untold is not None and not any(steps.values()) else steps,
            "creation_timestamp": time.time(),
        },
        "duration_seconds": duration,
        "inference_calls": answer.get("inference_calls"),
        "usage": answer["usage"],
        "calls_unknown": answer.get("calls_unknown") or cut or untold,
        "arguments_unknown": answer.get("arguments_unknown"),
        "spans": spans,
        **({"calls_untold": True} if never_told else {}),
    }


def agent_span(
    index: int, name: str, *, start: float, end: Optional[float], request: Any, response: Any = None
) -> Dict[str, Any]:
    """The agent in one turn. Times are seconds since the session was opened; `end` is None where it is under way."""
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


def call_spans(
    agent: Dict[str, Any], calls: List[Dict[str, Any]], responses: List[Dict[str, Any]]
) -> List[Dict[str, Any]]:
    """A span without times for each call, below the agent's, with the response of its id, else the next of its name."""
    named: Dict[Any, deque[int]] = {}
    identified: Dict[Any, deque[int]] = {}
    for position, response in enumerate(responses[:MOST_STEPS]):
        named.setdefault(response["name"], deque()).append(position)
        if response.get("id") is not None:
            identified.setdefault((response["name"], response["id"]), deque()).append(position)
    taken: set[int] = set()

    def take(positions: Optional[deque[int]]) -> Optional[int]:
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
