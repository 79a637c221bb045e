"""Scenarios that a model writes: asked for, read again where the user has edited them, and added to a set."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from workbench.model.evalset import ConversationScenario
from workbench.tui.gateway.documents import Documents
from workbench.tui.gateway.thread import Call

if TYPE_CHECKING:
    from workbench.engine.generating import Generation
    from workbench.engine.workspace import Workspace
    from workbench.store.documents import EvalSetDocument


class Generating:
    """Methods raise StoreError, and FileChanged where something would be overwritten."""

    def __init__(self, call: Call, documents: Documents) -> None:
        self._call = call
        self._documents = documents

    async def start(self, target: str, eval_set: str | None, *, count: int, instruction: str) -> Generation:
        """Have a model write scenarios for an agent, other ones than the set has. It is always asked anew."""

        def start(workspace: Workspace) -> Generation:
            from workbench.engine.generating import AskOptions, known_scenarios  # with what asks models
            from workbench.model.generation import WantedScenarios
            from workbench.store.documents import refuse_older_format

            known: Sequence[ConversationScenario] = ()
            if eval_set is not None:
                document = workspace.documents.document(eval_set)
                refuse_older_format(document)
                known = known_scenarios(document)
            wanted = WantedScenarios(count=count, model=workspace.settings.simulation.model, instruction=instruction)
            return workspace.generate(target, wanted, known=known, options=AskOptions(use_cache=False))

        return await self._call(start)

    async def add(
        self, eval_set: str, scenarios: Sequence[ConversationScenario], *, session_input: Mapping[str, Any]
    ) -> Sequence[str]:
        """Add scenarios to a set as one step of undo, and save it; gives the ids of those that it did not have."""

        def add(document: EvalSetDocument) -> Sequence[str]:
            from workbench.agents.adk_personas import read_adk_personas
            from workbench.store.documents import as_data, insert_scenarios

            data = [as_data(each) for each in scenarios]
            added = insert_scenarios(document, data, session_input=session_input, read_personas=read_adk_personas)
            return [case.eval_id for case in added if case.added]

        label = f"add {len(scenarios)} scenario{'' if len(scenarios) == 1 else 's'}"
        return await self._documents.edit_and_save(eval_set, add, label=label)


def text_of(scenario: ConversationScenario) -> str:
    """A scenario as text to be edited."""
    return json.dumps(scenario.model_dump(mode="json", exclude_none=True), indent=2, ensure_ascii=False) + "\n"


def fault_in(text: str) -> str | None:
    """What keeps an edited text from being a scenario that can be played; None where nothing does."""
    from workbench.simulation.options import UserOptions
    from workbench.simulation.prompting import check_scenario
    from workbench.store.documents import InvalidData, format_place

    try:
        return check_scenario(scenario_in(text), UserOptions(model=""))
    except json.JSONDecodeError as error:
        return f"line {error.lineno}, column {error.colno}: {error.msg}"
    except InvalidData as invalid:
        fault = invalid.faults[0]
        return f"{format_place(fault.place)}: found {fault.found}, expected {fault.expected}"


def scenario_in(text: str) -> ConversationScenario:
    """The scenario in a text that has no fault."""
    from workbench.store.documents import validated

    return validated(ConversationScenario, json.loads(text))
