"""What the browser has to know of a case besides its row: what it can be found by, and what verdicts of it hang on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from workbench.model.evalset import EvalCase
from workbench.model.keys import CaseKey
from workbench.model.trajectory import trajectory_of

Hashes = tuple[str, str]
"""Of what reaches the agent, and of what the case is judged by besides, as plans have them."""


@dataclass(frozen=True, slots=True)
class CaseContent:
    """A case as it was read.

    `text` is its id, what the user says and the names of its tools, `tools` these names alone; both are without
    capitals. `hashes` are those that a plan would have now; None where no plan can be made.
    """

    key: CaseKey
    text: str
    tools: tuple[str, ...]
    hashes: Hashes | None = None


def content_of(key: CaseKey, case: EvalCase, hashes: Hashes | None = None) -> CaseContent:
    """What there is to know of a case."""
    tools = tuple(dict.fromkeys(name.casefold() for name in _tools(case)))
    text = "\n".join((key.eval_id.casefold(), *(said.casefold() for said in _said(case)), *tools))
    return CaseContent(key, text, tools, hashes)


def content_of_broken(key: CaseKey, text: str) -> CaseContent:
    """What there is to know of a case that cannot be read: its id and its text as the file has it."""
    return CaseContent(key, f"{key.eval_id}\n{text}".casefold(), ())


def _said(case: EvalCase) -> Iterator[str]:
    for invocation in case.conversation or ():
        yield invocation.user_content.text()
    if case.conversation_scenario is not None:
        yield case.conversation_scenario.starting_prompt
        yield case.conversation_scenario.conversation_plan


def _tools(case: EvalCase) -> Iterator[str]:
    for invocation in case.conversation or ():
        yield from (call.name for call in trajectory_of(invocation))
