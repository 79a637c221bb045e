"""Reading what a model writes as scenarios: JSON as it was asked for, or whatever else still says it without doubt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.metrics.judges.replies import json_objects, plain_words
from workbench.model.evalset import ConversationScenario
from workbench.model.text import did_you_mean, one_line
from workbench.simulation.options import UserOptions
from workbench.simulation.prompting import check_scenario

NO_PERSONA = "NONE"

_STARTS = ("startingprompt", "prompt")
_PLANS = ("conversationplan", "plan")
_PERSONAS = ("userpersona", "persona")
_NOBODY = frozenset({"", "none", "null", "no persona"})
_SHOWN = 60  # characters of a scenario in a note


@dataclass(frozen=True, kw_only=True)
class Draft:
    """What was written as one scenario: that, or why it is none."""

    scenario: ConversationScenario | None
    problem: str = ""


def read_drafts(reply: str, *, personas: Sequence[str], required: bool) -> list[Draft]:
    """The scenarios in a reply; of one that was cut off, those that are whole.

    `personas` are the ids that may be named; where one is `required` a scenario without any is none.
    """
    return [_read(draft, personas=personas, required=required) for draft in _objects(reply)]


def _objects(reply: str) -> Iterator[Mapping[str, str | Any]]:
    for found in json_objects(reply):
        plain = _plain(found)
        if any(key in plain for key in (*_STARTS, *_PLANS)):
            yield plain
            continue
        for value in found.values():
            if isinstance(value, list):
                yield from (_plain(item) for item in value if isinstance(item, Mapping))


def _plain(item: Mapping[str, Any]) -> Mapping[str, Any]:
    return {plain_words(key).replace(" ", ""): value for key, value in item.items()}


def _read(draft: Mapping[str, Any], *, personas: Sequence[str], required: bool) -> Draft:
    start, plan = _text(draft, _STARTS), _text(draft, _PLANS)
    named = _text(draft, _PERSONAS)
    if required and len(personas) == 1:
        named = personas[0]
    persona: str | None = named.upper()
    if plain_words(named) in _NOBODY:
        persona = None
    about = f"{one_line(start, width=_SHOWN)!r}" if start else "one without a starting prompt"
    if required and persona is None:
        return Draft(scenario=None, problem=f"{about}: found no persona, expected one of {', '.join(personas)}")
    if persona is not None and persona not in personas:
        expected = f"one of {', '.join(personas)}{did_you_mean(named, personas)}"
        return Draft(scenario=None, problem=f"{about}: found the persona {named!r}, expected {expected}")
    scenario = ConversationScenario(starting_prompt=start, conversation_plan=plan, user_persona=persona)
    problem = check_scenario(scenario, UserOptions(model="")) or _unwritable(start + plan)
    return Draft(scenario=None, problem=f"{about}: {problem}") if problem else Draft(scenario=scenario)


def _text(draft: Mapping[str, Any], names: Sequence[str]) -> str:
    value = next((draft[name] for name in names if name in draft), None)
    return value.strip() if isinstance(value, str) else ""


def _unwritable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return "found half of a surrogate pair, expected whole characters"
    return ""
