"""Calls that chat, and that generate scenarios."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.model.evalset import ConversationScenario, SessionInput

if TYPE_CHECKING:
    from workbench.engine.chat_session import Chat, NewCase
    from workbench.engine.scenario_generation import Generation
    from workbench.engine.workspace import Workspace
    from workbench.store.evalsets.evalset_document import EvalSetDocument
    from workbench.store.project_discovery import NewSets


# Manual chats with an agent, saved as eval cases.


class CannotChat(Exception):
    """The agent cannot be opened for a chat; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFacts:
    """Facts about an eval set for a new case: its ids, and whether its format can hold a final state."""

    eval_ids: frozenset[str]
    holds_final_state: bool


def open_chat(workspace: Workspace, target: str, *, session_input: SessionInput) -> Chat:
    """Open a session with the agent of a target; its process starts with the first message.

    Raises CannotChat. The chat lives until it is ended, or the backend is closed.
    """
    from workbench.engine.chat_session import ChatError  # with the engine: not before it is needed

    try:
        return workspace.chat(target, session_input=session_input)
    except ChatError as error:
        raise CannotChat(str(error)) from error


def read_set_facts(workspace: Workspace, eval_set: str) -> SetFacts:
    """Read the facts of a set that limit a new case. Raises StoreError."""
    from workbench.store.evalsets.case_frame import DocumentFormat

    document = workspace.documents.document(eval_set)
    return SetFacts(
        eval_ids=frozenset(entry.eval_id for entry in document.entries),
        holds_final_state=document.format is DocumentFormat.CURRENT,
    )


def save_chat_case(workspace: Workspace, eval_set: str, case: NewCase) -> None:
    """Write a case into a set and save the set. The case replaces one with the same id."""
    from workbench.engine.chat_session import write_case  # with the engine: not before it is needed

    label = f"save the chat as {case.eval_id}"
    workspace.documents.edit_and_save(eval_set, lambda document: write_case(document, case), label=label)


def find_new_sets(workspace: Workspace) -> NewSets:
    """Find where new eval sets belong."""
    from workbench.store.project_discovery import NewSets

    return NewSets(workspace.project)


def find_agent(workspace: Workspace, eval_set: str) -> str | None:
    """Read the project again and find the agent of a set; None if it has none."""
    workspace.refresh()
    return next((entry.target for entry in workspace.project.eval_sets if entry.relative == eval_set), None)


# Scenarios written by a model: generate, parse after an edit by the user, and add to a set.


def start_generation(
    workspace: Workspace, target: str, eval_set: str | None, *, count: int, instruction: str
) -> Generation:
    """Have a model write scenarios for an agent that the set does not have. Never uses cached replies."""
    from workbench.engine.scenario_generation import AskOptions, known_scenarios  # with what asks models
    from workbench.model.evalset import ScenarioRequest
    from workbench.store.evalsets.new_evalsets import refuse_older_format

    known: Sequence[ConversationScenario] = ()
    if eval_set is not None:
        document = workspace.documents.document(eval_set)
        refuse_older_format(document)
        known = known_scenarios(document)
    wanted = ScenarioRequest(count=count, model=workspace.settings.simulation.model, instruction=instruction)
    return workspace.generate(target, wanted, known=known, options=AskOptions(use_cache=False))


def add_scenarios(
    workspace: Workspace,
    eval_set: str,
    scenarios: Sequence[ConversationScenario],
    *,
    session_input: Mapping[str, Any],
) -> Sequence[str]:
    """Add scenarios to a set as one step of undo, and save it. Return the ids of those that are new."""

    def add(document: EvalSetDocument) -> Sequence[str]:
        from workbench.agents.agent_sessions import read_adk_personas
        from workbench.store.evalsets.new_evalsets import insert_scenarios, to_scenario

        data = [to_scenario(each) for each in scenarios]
        added = insert_scenarios(document, data, session_input=session_input, read_personas=read_adk_personas)
        return [case.eval_id for case in added if case.added]

    label = f"add {len(scenarios)} scenario{'' if len(scenarios) == 1 else 's'}"
    return workspace.documents.edit_and_save(eval_set, add, label=label)


def format_scenario(scenario: ConversationScenario) -> str:
    """Format a scenario as JSON for an editor."""
    return json.dumps(scenario.model_dump(mode="json", exclude_none=True), indent=2, ensure_ascii=False) + "\n"


def check_scenario_text(text: str) -> str | None:
    """Describe why an edited text is not a valid scenario; None if it is valid."""
    from workbench.simulation.users import UserOptions, check_scenario
    from workbench.store.evalsets.case_reader import InvalidData
    from workbench.store.json.json_path import format_place

    try:
        return check_scenario(parse_scenario(text), UserOptions(model=""))
    except json.JSONDecodeError as error:
        return f"line {error.lineno}, column {error.colno}: {error.msg}"
    except InvalidData as invalid:
        fault = invalid.faults[0]
        return f"{format_place(fault.place)}: found {fault.found}, expected {fault.expected}"


def parse_scenario(text: str) -> ConversationScenario:
    """Parse the scenario in a valid text."""
    from workbench.store.evalsets.case_reader import validate_data

    return validate_data(ConversationScenario, json.loads(text))
