"""Has a model write scenarios for the selected agent: asked how many, waited for, looked through, saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from textual.app import App
from textual.widget import Widget

from workbench.model.evalset import ConversationScenario
from workbench.model.generation import DEFAULT_COUNT, MOST_SCENARIOS
from workbench.report.spending import spending_text
from workbench.simulation.generating.writing import GenerationError
from workbench.store.errors import FileChanged, StoreError
from workbench.store.names import name_of_file
from workbench.tui.hub import Hub
from workbench.tui.messages import DocumentsChanged, ProjectChanged, SaveWanted
from workbench.tui.screens.ask import AskScreen
from workbench.tui.screens.scenarios import ScenariosScreen, WritingScreen
from workbench.tui.state.browser.listed import Row
from workbench.tui.state.chat.keeping import new_set_name, problem_of_set_name, warning_of_set_name
from workbench.tui.state.pieces import plural, safe_line
from workbench.tui.state.scenarios import WrittenScenarios, count_problem
from workbench.tui.widgets.saying import say

if TYPE_CHECKING:
    from workbench.engine.generating import Generation

_USER = "test_user_id"  # as ADK's generated cases have it


async def generate(widget: Widget, hub: Hub, row: Row) -> None:
    """Everything from the questions to the saved set. `widget` is what asks and says; `row` has an agent."""
    try:
        generation = await _generation(widget, hub, row)
        generated = None if generation is None else generation.done.result()
        if generation is None or generated is None:
            return
        spent = spending_text(generation.spending())
        scenarios = WrittenScenarios(generated.scenarios, generated.notes, spent=spent)
        chosen = await _chosen(widget.app, hub, row, scenarios)
        if chosen is not None:
            await _save(widget, hub, chosen, row=row, state=generated.state)
    except (GenerationError, StoreError) as error:
        say(widget, str(error), severity="error")


class _Chosen(NamedTuple):
    """What is to be saved where."""

    scenarios: Sequence[ConversationScenario]
    eval_set: str


async def _chosen(app: App[object], hub: Hub, row: Row, scenarios: WrittenScenarios) -> _Chosen | None:
    """What the user keeps, and in which set; None for nothing. From the name of a set there is a way back."""
    while True:
        kept = await app.push_screen_wait(ScenariosScreen(scenarios, eval_set=row.eval_set))
        if kept is None:
            return None
        eval_set = row.eval_set or await _new_set(app, hub, row.target)
        if eval_set is not None:
            return _Chosen(kept, eval_set)


async def _save(widget: Widget, hub: Hub, chosen: _Chosen, *, row: Row, state: Mapping[str, Any]) -> None:
    """Add them to the set, which is made where it is a new one, and say so. Raises StoreError."""
    kept, eval_set = chosen
    if not row.eval_set:
        await hub.gateway.documents.create_set(eval_set, eval_set_id=name_of_file(PurePosixPath(eval_set)))
        widget.post_message(ProjectChanged(select=eval_set))
    session_input = {"app_name": row.target, "user_id": _USER, "state": dict(state)}
    try:
        added = await hub.gateway.generating.add(eval_set, kept, session_input=session_input)
    except FileChanged:  # the edit is made; whose version of the file is to be saved the user decides
        widget.post_message(SaveWanted(eval_set))
        return
    widget.post_message(DocumentsChanged(frozenset([eval_set])))
    said = f", {len(kept) - len(added)} were there already" if len(added) < len(kept) else ""
    say(widget, f"added {plural(len(added), 'scenario')} to {eval_set}{said}; u takes it back")


async def _generation(widget: Widget, hub: Hub, row: Row) -> Generation | None:
    """What the user asked for, once it is over; None where they changed their mind. Raises what starting it does."""
    count = await widget.app.push_screen_wait(
        AskScreen(
            f"How many scenarios is a model to write for {safe_line(row.target)}?",
            value=str(DEFAULT_COUNT),
            check=lambda text: count_problem(text, most=MOST_SCENARIOS),
        )
    )
    if count is None:
        return None
    about = await widget.app.push_screen_wait(
        AskScreen("What should they be about? Nothing: whatever the agent can do.", check=lambda _: None)
    )
    if about is None:
        return None
    generation = await hub.gateway.generating.start(
        row.target, row.eval_set or None, count=int(count), instruction=about.strip()
    )
    await widget.app.push_screen_wait(WritingScreen(generation, row.target))
    return generation


async def _new_set(app: App[object], hub: Hub, target: str) -> str | None:
    """The file of the set that is to be made; None where the user goes back to the scenarios."""
    sets = hub.state.browser.files
    places = await hub.gateway.chats.new_sets()
    return await app.push_screen_wait(
        AskScreen(
            "File of the new eval set, relative to the project",
            value=new_set_name(sets, target=target, places=places),
            check=lambda name: problem_of_set_name(name, sets=sets),
            warn=lambda name: warning_of_set_name(name, target=target, places=places),
        )
    )
