"""A conversation so far, as the text that a simulated user sees of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from workbench.model.evalset import Content, Invocation
from workbench.model.results import TurnResult
from workbench.model.turn_events import GotResponse, MadeCall, SaidText, events_of, final_author_of

_AGENT = "agent"


def history_of(turns: Sequence[TurnResult], *, with_calls: bool) -> str:
    """`user: ...` and the name of each agent that spoke, in order, a blank line between them; thoughts left out.

    `with_calls`: also which tools were called, and what they gave.
    """
    return "\n\n".join(line for turn in turns for line in _lines(turn.invocation, with_calls=with_calls))


def _lines(invocation: Invocation, *, with_calls: bool) -> Iterator[str]:
    said = invocation.user_content.text(thoughts=False)
    yield f"user: {said or _other_kinds(invocation.user_content)}"
    for event in events_of(invocation):
        match event:
            case SaidText(author, text):
                yield f"{author}: {text}"
            case MadeCall(author, call) if with_calls:
                yield f"{author or _AGENT} called the tool {call.name!r} with {_json(call.args or {})}"
            case GotResponse(response) if with_calls:
                yield f"the tool {response.name!r} gave {_json(response.response or {})}"
    if invocation.final_response is not None:
        answer = invocation.final_response.text(thoughts=False)
        author = final_author_of(invocation) or _AGENT
        yield f"{author}: {answer or _other_kinds(invocation.final_response)}"


def _other_kinds(content: Content) -> str:
    """What stands for a message without text."""
    return "(something that is no text)" if content.parts else "(nothing)"


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
