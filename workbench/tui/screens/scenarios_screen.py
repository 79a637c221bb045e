"""Scenarios that a model writes, and their review by the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual import work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from workbench.model.evalset import DEFAULT_COUNT, MOST_SCENARIOS
from workbench.report.text_report import spending_text
from workbench.simulation.scenario_writer import GenerationError
from workbench.store.errors import StoreError
from workbench.tui.backend.document_calls import (
    add_scenarios,
    check_scenario_text,
    format_scenario,
    parse_scenario,
    start_generation,
)
from workbench.tui.dialogs.dialogs import AskScreen, ConfirmScreen, Dialog, MarkingScreen, add_to_set, ask_new_set
from workbench.tui.external_editor import edit_text
from workbench.tui.screen_context import ScreenContext
from workbench.tui.state.browser_list import BrowserRow
from workbench.tui.state.criteria_choice import GeneratedScenarios, check_count
from workbench.tui.state.project_state import explain_empty_selection
from workbench.tui.state.text_layout import plural, safe, safe_line
from workbench.tui.widgets.key_line import KeyLine, say

if TYPE_CHECKING:
    from workbench.engine.scenario_generation import Generation
    from workbench.engine.workspace import Workspace


# Dialogs: the progress of the generation, and the generated scenarios.

_LONGEST_TOPIC = 120  # characters in a question
_UPDATE = 0.1  # seconds between two updates of the progress


class WritingScreen(Dialog[None]):
    """Shows the progress of a generation. Closes when the generation ends."""

    PLACES = ("writing",)

    def __init__(self, generation: Generation, target: str) -> None:
        super().__init__()
        self._generation = generation
        self._target = target
        self._is_stopped = False

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog dialog-wide"):
            yield Static(Content(f"Scenarios for {safe_line(self._target)}"))
            yield Static(Content(""), id="writing-progress")
            yield KeyLine()

    def on_mount(self) -> None:
        self._show_progress()
        self.set_interval(_UPDATE, self._show_progress)

    def action_stop(self) -> None:
        self._is_stopped = True
        self._generation.cancel()

    def _show_progress(self) -> None:
        if self._generation.done.done():
            if self.is_current:  # help may cover it
                self.dismiss(None)
            return
        progress = "stopping" if self._is_stopped else self._generation.progress
        self.query_one("#writing-progress", Static).update(Content(f"{safe(progress)} …"))


class ScenariosScreen(MarkingScreen[GeneratedScenarios]):
    """Scenarios to save."""

    HELP: ClassVar[str] = (
        "Scenarios that a model wrote from the description of the agent. Review them: leave out or edit those that do "
        "not fit. Nothing is saved before you save it; undo reverts that."
    )
    ENTER = "keep or not"
    LETTERS = "letters of a scenario"
    NONE_MARKED = "no scenario is kept: enter keeps the one under the cursor"
    PLACES = ("scenarios",)

    @work(exclusive=True)
    async def action_edit(self) -> None:
        edited = await edit_text(
            self.app, format_scenario(self._rows.selected_scenario), suffix=".json", check=check_scenario_text
        )
        if edited is not None:
            self._rows.replace(parse_scenario(edited))
            self.show_rows()

    @work(exclusive=True)
    async def cancel(self) -> None:
        """Close without saving, after a confirmation."""
        question = f"Discard {plural(len(self._rows), 'scenario')}? They are not saved."
        if await self.app.push_screen_wait(ConfirmScreen(question)):
            self.dismiss(None)


# The steps: ask for number and topic, generate, review, save.

_USER = "test_user_id"  # as in the generated cases of ADK


async def generate(widget: Widget, context: ScreenContext, row: BrowserRow | None, *, topic: str = "") -> bool:
    """Run all steps for the agent of `row`. `widget` shows dialogs and messages. The user can edit the topic.

    Return True if the user has saved scenarios.
    """
    if row is None or not row.target or context.state.browser.is_from_history(row.target, row.eval_set):
        reason = explain_empty_selection(context.state)
        say(widget, f"no scenarios can be written: {reason}", severity="warning")
        return False
    try:
        generation = await _run_generation(widget, context, row, topic)
        generated = None if generation is None else generation.done.result()
        if generation is None or generated is None:
            return False
        spent = spending_text(generation.list_spending())
        scenarios = GeneratedScenarios(generated.scenarios, generated.notes, eval_set=row.eval_set, spent=spent)
        while await widget.app.push_screen_wait(ScenariosScreen(scenarios)) is not None:
            eval_set = row.eval_set or await ask_new_set(widget.app, context, row.target)
            if eval_set is not None:
                await _save(widget, context, scenarios, eval_set, row=row, state=generated.state)
                return True
    except (GenerationError, StoreError) as error:
        say(widget, str(error), severity="error")
    return False


async def _save(
    widget: Widget,
    context: ScreenContext,
    scenarios: GeneratedScenarios,
    eval_set: str,
    *,
    row: BrowserRow,
    state: Mapping[str, Any],
) -> None:
    """Add the marked scenarios to the set, and create it if it is new. Raises StoreError."""
    kept = scenarios.marked_rows
    session_input = {"app_name": row.target, "user_id": _USER, "state": dict(state)}

    def add(workspace: Workspace) -> Sequence[str]:
        return add_scenarios(workspace, eval_set, kept, session_input=session_input)

    added = await add_to_set(widget, context, eval_set, add, is_new=not row.eval_set)
    if added is None:
        return
    duplicates = f", {len(kept) - len(added)} already existed" if len(added) < len(kept) else ""
    say(widget, f"added {plural(len(added), 'scenario')} to {eval_set}{duplicates}; u undoes it")


async def _run_generation(widget: Widget, context: ScreenContext, row: BrowserRow, topic: str) -> Generation | None:
    """Ask for number and topic, and wait for the generation. Return None if cancelled. Raises StoreError."""
    count = await widget.app.push_screen_wait(
        AskScreen(
            f"How many scenarios should a model write for {safe_line(row.target)}?"
            + (f" Topic: {safe_line(topic, width=_LONGEST_TOPIC)}" if topic else ""),
            value=str(DEFAULT_COUNT),
            check=lambda text: check_count(text, most=MOST_SCENARIOS),
        )
    )
    if count is None:
        return None
    about = await widget.app.push_screen_wait(
        AskScreen("Topic of the scenarios (empty: anything that the agent can do)", value=topic, check=lambda _: None)
    )
    if about is None:
        return None
    generation = await context.backend.call(
        lambda workspace: start_generation(
            workspace, row.target, row.eval_set or None, count=int(count), instruction=about.strip()
        )
    )
    await widget.app.push_screen_wait(WritingScreen(generation, row.target))
    return generation
