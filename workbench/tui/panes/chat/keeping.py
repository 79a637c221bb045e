"""The questions that are asked before a chat is written down as an eval case."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from textual.app import App

from workbench.model.evalset import SessionInput
from workbench.model.keys import CaseKey
from workbench.store.errors import FileChanged, StoreError
from workbench.store.names import name_of_file
from workbench.tui.hub import Hub
from workbench.tui.screens.ask import AskScreen
from workbench.tui.screens.choose import ChooseScreen
from workbench.tui.screens.confirm import ConfirmScreen
from workbench.tui.screens.conflict import ConflictScreen
from workbench.tui.state.chat import Conversation
from workbench.tui.state.chat.keeping import (
    Shelf,
    new_case_id,
    new_set_name,
    problem_of_case_id,
    problem_of_set_name,
    shelves,
    warning_of_set_name,
)
from workbench.tui.state.pieces import plural, safe_line

if TYPE_CHECKING:
    from workbench.engine.chat_case import NewCase


class NotKept(Exception):
    """The user changed their mind."""


async def keep(app: App[None], hub: Hub, conversation: Conversation, *, chosen: int | None) -> CaseKey:
    """Ask what has to be known and write the case, whose key is given.

    Raises NotKept and StoreError; then the set is as it was.
    """
    first = await _ask_first(app, conversation, chosen)
    shelf = await _ask_shelf(app, hub, conversation)
    is_new_set = shelf.eval_set is None
    eval_set = shelf.eval_set or await _ask_new_set(app, hub, conversation)
    taken: frozenset[str] = frozenset()
    holds_state = True
    if not is_new_set:
        facts = await hub.gateway.chats.facts_of(eval_set)
        taken, holds_state = facts.eval_ids, facts.holds_final_state
    eval_id = await _ask_id(app, shelf, taken)
    final_state = await _ask_final_state(app, conversation) if holds_state else None
    case = _case(conversation, first=first, eval_id=eval_id, final_state=final_state)
    if is_new_set:
        await hub.gateway.documents.create_set(eval_set, eval_set_id=name_of_file(PurePosixPath(eval_set)))
    try:
        await hub.gateway.chats.save(eval_set, case)
    except FileChanged:
        if not await app.push_screen_wait(ConflictScreen(hub.gateway.documents, eval_set)):
            raise
    return CaseKey(target=await _agent_of(hub, eval_set, conversation), eval_set=eval_set, eval_id=eval_id)


async def _ask_first(app: App[None], conversation: Conversation, chosen: int | None) -> int:
    """The turn that the case begins with: the first, or the chosen one."""
    count = len(conversation.answered)
    if not chosen or chosen >= count:
        return 0
    rest = f"from turn {chosen + 1} on, in the state before it"
    return chosen * _answer(await app.push_screen_wait(ChooseScreen("Keep", [f"all {count} turns", rest], chosen=1)))


async def _ask_shelf(app: App[None], hub: Hub, conversation: Conversation) -> Shelf:
    state = hub.state
    found = shelves(
        state.browser.files, target=conversation.target, eval_set=state.selected_set, case=state.selected_case
    )
    question = f"Keep the chat with {safe_line(conversation.target)} as an eval case"
    shelf = found[_answer(await app.push_screen_wait(ChooseScreen(question, [item.label for item in found])))]
    if shelf.replaces is not None:
        sure = f"Replace the case {safe_line(shelf.replaces.eval_id)}? Undo brings it back."
        if not await app.push_screen_wait(ConfirmScreen(sure)):
            raise NotKept
    return shelf


async def _ask_new_set(app: App[None], hub: Hub, conversation: Conversation) -> str:
    sets, target = hub.state.browser.files, conversation.target
    places = await hub.gateway.chats.new_sets()
    answer = await app.push_screen_wait(
        AskScreen(
            "File of the new eval set, relative to the project",
            value=new_set_name(sets, target=target, places=places),
            check=lambda name: problem_of_set_name(name, sets=sets),
            warn=lambda name: warning_of_set_name(name, target=target, places=places),
        )
    )
    return _given(answer)


async def _ask_id(app: App[None], shelf: Shelf, taken: frozenset[str]) -> str:
    if shelf.replaces is not None:
        return shelf.replaces.eval_id
    answer = await app.push_screen_wait(
        AskScreen(
            "Id of the case",
            value=new_case_id(taken),
            check=lambda eval_id: problem_of_case_id(eval_id, taken=taken),
        )
    )
    return _given(answer)


async def _ask_final_state(app: App[None], conversation: Conversation) -> dict[str, object] | None:
    state = conversation.final_state
    if not state:
        return None
    named = safe_line(", ".join(state), width=120)
    choices = ["no", f"yes: {plural(len(state), 'key')} ({named})"]
    answer = await app.push_screen_wait(ChooseScreen("Expect the final state of the session, too?", choices))
    return state if _answer(answer) else None


async def _agent_of(hub: Hub, eval_set: str, conversation: Conversation) -> str:
    """The agent that the set belongs to; empty for none."""
    try:
        return await hub.gateway.chats.agent_of(eval_set) or ""
    except StoreError:  # of the settings: told where the project is looked at again, and the case is written
        return conversation.target


def _case(conversation: Conversation, *, first: int, eval_id: str, final_state: dict[str, object] | None) -> NewCase:
    from workbench.engine.chat_case import NewCase  # with the engine: not before it is needed

    started = conversation.session_input
    return NewCase(
        eval_id=eval_id,
        turns=[turn.result for turn in conversation.answered[first:] if turn.result is not None],
        session_input=SessionInput(
            app_name=started.app_name, user_id=started.user_id, state=conversation.state_before(first)
        ),
        final_state=final_state,
    )


def _answer(index: int | None) -> int:
    if index is None:
        raise NotKept
    return index


def _given(text: str | None) -> str:
    if text is None:
        raise NotKept
    return text
