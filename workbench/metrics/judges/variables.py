"""The variables that a judge metric of a configuration may show the judge, and what they stand for in a turn."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from workbench.metrics.judges.dialogue import conversation_of, instructions_of, response_of, steps_of, tools_of
from workbench.metrics.subject import CaseView, Turn
from workbench.model.results import Score
from workbench.model.trajectory import Trajectory

# As in str.format, two braces stand for one. Any other brace is text, so that a template can show JSON.
_PLACE = re.compile(r"\{\{|\}\}|\{([A-Za-z_]\w*)\}")


class Variable(NamedTuple):
    """What a variable means, and how its text is found; None where the turn has none."""

    meaning: str
    find: Callable[[Turn, CaseView], str | None]


def _prompt(turn: Turn, view: CaseView) -> str | None:
    del view
    return None if turn.actual is None else turn.actual.user_content.text() or None


def _response(turn: Turn, view: CaseView) -> str | None:
    return response_of(turn.actual) if view.is_recorded("response", turn) else None


def _reference(turn: Turn, view: CaseView) -> str | None:
    del view
    return None if turn.expected is None or turn.expected.final_response is None else response_of(turn.expected)


def _history(turn: Turn, view: CaseView) -> str | None:
    before = view.turns[: next(index for index, each in enumerate(view.turns) if each is turn)]
    return conversation_of(before)


def _trajectory(calls: Trajectory | None) -> str | None:
    if calls is None:
        return None
    return text_of([{"tool_name": call.name, "tool_input": call.args} for call in calls])


VARIABLES: Mapping[str, Variable] = MappingProxyType(
    {
        "prompt": Variable("what the user said in the turn", _prompt),
        "response": Variable("what the agent answered in the end", _response),
        "reference": Variable("the expected answer", _reference),
        "predicted_trajectory": Variable(
            "the tool calls of the turn, as JSON", lambda turn, _: _trajectory(turn.predicted)
        ),
        "reference_trajectory": Variable(
            "the expected tool calls, as JSON", lambda turn, _: _trajectory(turn.reference)
        ),
        "steps": Variable(
            "the tool calls with what the tools answered, a line of JSON each",
            lambda turn, _: None if turn.actual is None else steps_of(turn.actual),
        ),
        "history": Variable("the conversation before the turn", _history),
        "instructions": Variable(
            "the instructions of the agents that took part", lambda turn, _: instructions_of([turn])
        ),
        "tools": Variable("the tools that they had, as JSON", lambda turn, _: tools_of([turn])),
    }
)
"""Those that every case has; the columns of a dataset are variables besides."""

_MISSING = {
    "prompt": "the turn has no prompt",
    "reference": "the case has no expected response",
    "reference_trajectory": "nothing is known of the expected tool calls",
}


def names_in(template: str) -> tuple[str, ...]:
    """The variables that a template names, each once, in alphabetical order."""
    return tuple(sorted({match[1] for match in _PLACE.finditer(template) if match[1] is not None}))


def fill_in(template: str, values: Mapping[str, str]) -> str:
    """The template with every variable replaced by its value, in one go: what a value says is never looked at."""
    return _PLACE.sub(lambda match: match[0][0] if match[1] is None else values[match[1]], template)


def values_of(names: Iterable[str], turn: Turn, view: CaseView) -> dict[str, str] | Score:
    """The texts of these variables in a turn; a score that does not exist, where the turn has none of one."""
    values: dict[str, str] = {}
    for name in names:
        value = value_of(name, turn, view)
        if value is None:
            why = f"the row has no {name}" if turn.is_row else _MISSING.get(name, f"the case has no {name}")
            return Score.undefined(why)
        values[name] = value
    return values


def value_of(name: str, turn: Turn, view: CaseView) -> str | None:
    """The text of a variable: what the row of a dataset says, else what the turn was."""
    column = view.subject.columns.get(name)
    if column is not None:
        return text_of(column)
    known = VARIABLES.get(name)
    return None if known is None else known.find(turn, view)


def text_of(value: Any) -> str:
    """The text of the value of a column: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
