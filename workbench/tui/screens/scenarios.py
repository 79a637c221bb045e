"""What a model writes for an agent: while it does so, and the scenarios, to be looked through before any is saved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from workbench.model.evalset import ConversationScenario
from workbench.tui.external_editor import edit_text
from workbench.tui.gateway.generating import fault_in, scenario_in, text_of
from workbench.tui.keys import dialog_bindings
from workbench.tui.screens.confirm import ConfirmScreen
from workbench.tui.screens.dialog import Dialog
from workbench.tui.state.pieces import plural, safe, safe_line
from workbench.tui.state.scenarios import WrittenScenarios
from workbench.tui.widgets.key_line import KeyLine
from workbench.tui.widgets.lines import StatusLine
from workbench.tui.widgets.row_list import RowList
from workbench.tui.widgets.rows_and_text import RowsAndText
from workbench.tui.widgets.saying import say

if TYPE_CHECKING:
    from workbench.engine.generating import Generation

_LOOK = 0.1  # seconds between two looks at how far it is


class WritingScreen(Dialog[None]):
    """How far it is; closes when it is over, or was stopped and has ended."""

    PLACES: ClassVar[tuple[str, ...]] = ("writing",)
    BINDINGS: ClassVar[list[BindingType]] = [*dialog_bindings("writing")]

    def __init__(self, generation: Generation, target: str) -> None:
        super().__init__()
        self._generation = generation
        self._target = target
        self._is_stopped = False

    def compose(self) -> ComposeResult:
        """What goes on, and the key that stops it."""
        with Vertical(classes="dialog dialog-wide"):
            yield Static(Content(f"Scenarios for {safe_line(self._target)}"))
            yield Static(Content(""), id="writing-progress")
            yield KeyLine()

    def on_mount(self) -> None:
        """Begin to look."""
        self._look()
        self.set_interval(_LOOK, self._look)

    def action_stop(self) -> None:
        """Stop it."""
        self._is_stopped = True
        self._generation.cancel()

    def _look(self) -> None:
        if self._generation.done.done():
            if self.is_current:  # help may cover it
                self.dismiss(None)
            return
        progress = "stopping" if self._is_stopped else self._generation.progress
        self.query_one("#writing-progress", Static).update(Content(f"{safe(progress)} …"))


class ScenariosScreen(Dialog[Sequence[ConversationScenario] | None]):
    """Gives the scenarios that are to be saved, None where the user changes their mind. There must be one."""

    HELP: ClassVar[str] = (
        "Scenarios that a model has written from what the agent says of itself. Look through them, leave out what is "
        "of no use, edit what nearly is. Nothing is saved before you say so; undo takes it back."
    )
    CSS_PATH = "scenarios.tcss"
    PLACES: ClassVar[tuple[str, ...]] = ("scenarios",)
    BINDINGS: ClassVar[list[BindingType]] = [*dialog_bindings("scenarios")]

    def __init__(self, scenarios: WrittenScenarios, *, eval_set: str) -> None:
        """`eval_set` is what they are for; empty for a set that is still to be made."""
        super().__init__()
        self._scenarios = scenarios
        self._eval_set = eval_set

    def compose(self) -> ComposeResult:
        """How many are kept, the scenarios, all of the selected one, the keys."""
        yield StatusLine(id="scenarios-head")
        yield RowsAndText()
        yield KeyLine()

    def on_mount(self) -> None:
        """Show them."""
        self._show()
        self.query_one(RowsAndText).focus_first()

    def action_keep_or_not(self) -> None:
        """Keep the scenario, or leave it out."""
        self._scenarios.toggle()
        self._show()

    @on(RowList.Entered)
    def _on_entered(self) -> None:
        self.action_keep_or_not()

    def action_keep_all_or_none(self) -> None:
        """Keep all, or none."""
        self._scenarios.toggle_all()
        self._show()

    @work(exclusive=True)
    async def action_edit(self) -> None:
        """Edit the scenario in the user's editor."""
        edited = await edit_text(self.app, text_of(self._scenarios.selected), suffix=".json", check=fault_in)
        if edited is not None:
            self._scenarios.replace(scenario_in(edited))
            self._show()

    def action_save(self) -> None:
        """Close with those that are kept."""
        if self._scenarios.kept:
            self.dismiss(self._scenarios.kept)
        else:
            say(self, "none is kept: x keeps the scenario under the cursor", severity="warning")

    @work(exclusive=True)
    async def action_close(self) -> None:
        """Close with none, once the user is sure."""
        question = f"Throw away {plural(len(self._scenarios), 'scenario')}? Nothing of them is saved."
        if await self.app.push_screen_wait(ConfirmScreen(question)):
            self.dismiss(None)

    def _show(self) -> None:
        self.query_one("#scenarios-head", StatusLine).show(self._scenarios.head(self._eval_set))
        self.query_one(RowsAndText).show(self._scenarios, from_top=True)
