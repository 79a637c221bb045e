"""Conversations by hand: opened with an agent, and written down as eval cases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.model.evalset import SessionInput
from workbench.tui.gateway.documents import Documents
from workbench.tui.gateway.thread import Call

if TYPE_CHECKING:
    from workbench.engine.chat import Chat
    from workbench.engine.chat_case import NewCase
    from workbench.engine.workspace import Workspace
    from workbench.store.discovery import NewSets
    from workbench.store.documents import EvalSetDocument


class CannotChat(Exception):
    """There is nothing to talk to; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFacts:
    """An eval set to which a case is to be added: the ids that it has, and whether it can hold a final state."""

    eval_ids: frozenset[str]
    holds_final_state: bool


class Chats:
    """Sessions with agents. Methods raise StoreError, and FileChanged where something would be overwritten."""

    def __init__(self, call: Call, documents: Documents) -> None:
        self._call = call
        self._documents = documents

    async def open(self, target: str, *, session_input: SessionInput) -> Chat:
        """Open a session with the agent of a target; no process is started before something is said.

        Raises CannotChat. The chat lives until it is ended, or the gateway is closed.
        """

        def open_chat(workspace: Workspace) -> Chat:
            from workbench.engine.chat import ChatError  # with the engine: not before it is needed

            try:
                return workspace.chat(target, session_input=session_input)
            except ChatError as error:
                raise CannotChat(str(error)) from error

        return await self._call(open_chat)

    async def facts_of(self, eval_set: str) -> SetFacts:
        """What has to be known of a set before a case is added to it."""

        def look(document: EvalSetDocument) -> SetFacts:
            from workbench.store.documents import DocumentFormat

            return SetFacts(
                eval_ids=frozenset(entry.eval_id for entry in document.entries),
                holds_final_state=document.format is DocumentFormat.CURRENT,
            )

        return await self._documents.look(eval_set, look)

    async def save(self, eval_set: str, case: NewCase) -> None:
        """Write a case into a set and save it, in place of the one that has its id."""

        from workbench.engine.chat_case import write_case  # with the engine: not before it is needed

        label = f"keep the chat as {case.eval_id}"
        await self._documents.edit_and_save(eval_set, lambda document: write_case(document, case), label=label)

    async def new_sets(self) -> NewSets:
        """Where eval sets belong that could be made, by the project as it was looked at last."""

        def look(workspace: Workspace) -> NewSets:
            from workbench.store.discovery import NewSets

            return NewSets(workspace.project)

        return await self._call(look)

    async def agent_of(self, eval_set: str) -> str | None:
        """The agent that a set belongs to, as the project is now; None where it belongs to none."""

        def find(workspace: Workspace) -> str | None:
            workspace.refresh()
            return next((entry.target for entry in workspace.project.eval_sets if entry.relative == eval_set), None)

        return await self._call(find)
