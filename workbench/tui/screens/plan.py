"""The plan of a run, shown before it begins: run it, change it, or leave it."""

from __future__ import annotations

from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from workbench.engine.plan import PlanError
from workbench.model.criteria import EvalConfig
from workbench.store.errors import StoreError
from workbench.tui.hub import Hub
from workbench.tui.keys import dialog_bindings
from workbench.tui.screens.ask import AskScreen
from workbench.tui.screens.dialog import Dialog
from workbench.tui.state.pieces import safe
from workbench.tui.state.run.planned import PlannedRun, PlanSettings, check_setting, plan_blocks
from workbench.tui.widgets.key_line import KeyLine
from workbench.tui.widgets.lines_view import LinesView
from workbench.tui.widgets.row_list import RowList

_LOW = 18
"""Rows of a screen below which the dialog takes all of them, without blanks around what it holds."""


class PlanScreen(Dialog[PlannedRun | None]):
    """Gives the plan to carry out, None where nothing is to run."""

    HELP: ClassVar[str] = (
        "What the run will do and what it may cost, from how long the cases took before. Nothing runs before enter."
    )
    CSS_PATH = "plan.tcss"
    PLACES: ClassVar[tuple[str, ...]] = ("plan",)
    BINDINGS: ClassVar[list[BindingType]] = [*dialog_bindings("plan")]

    def __init__(self, hub: Hub, planned: PlannedRun) -> None:
        super().__init__()
        self._hub = hub
        self._planned = planned
        self._settings = PlanSettings(planned)
        self._config = planned.config
        self._is_planning = False
        self._is_wanted = False

    def compose(self) -> ComposeResult:
        """What the run will do, the settings that can be changed, what is wrong, the keys."""
        with Vertical(classes="dialog", id="plan"):
            yield LinesView(id="plan-facts")
            yield RowList(id="plan-settings")
            yield Static(Content(""), classes="dialog-problem")
            yield KeyLine(enter="run")

    def on_mount(self) -> None:
        """Show the plan."""
        self.query_one("#plan").border_title = "run?"
        self.query_one(RowList).focus()
        self._show()

    def on_resize(self) -> None:
        """In a low terminal what the dialog says and asks has the room that its frame would take."""
        self.query_one("#plan").set_class(self.size.height < _LOW, "-low")

    @on(RowList.Steered)
    def _on_steered(self, message: RowList.Steered) -> None:
        message.steer(self._settings)
        self.query_one(RowList).show(self._settings)

    @on(RowList.Entered)
    def _on_entered(self) -> None:
        if self._is_planning:
            self._is_wanted = True  # as soon as the plan is that of the settings shown
        else:
            self.dismiss(self._planned)

    def action_step(self, by: int) -> None:
        """Change the selected setting."""
        self._settings.step(by)
        self._plan_again()

    @work
    async def action_type_value(self) -> None:
        """Type the value of the selected setting."""
        name, words, value = self._settings.selected
        typed = await self.app.push_screen_wait(
            AskScreen(words, value=f"{value:g}", check=lambda text: check_setting(name, text))
        )
        if typed is not None:
            self._settings.put(float(typed))
            self._plan_again()

    @work
    async def action_criteria(self) -> None:
        """Choose what the run is judged by."""
        from workbench.tui.screens.criteria import CriteriaScreen  # which brings the metrics

        chosen = await self.app.push_screen_wait(CriteriaScreen(self._hub, self._planned.selections))
        if chosen is not None:
            self._config = chosen.config
            self._plan_again()

    def action_close(self) -> None:
        """Run nothing."""
        self.dismiss(None)

    def _plan_again(self) -> None:
        self._is_planning = True
        self._is_wanted = False
        self.query_one(RowList).show(self._settings)
        self._replan(self._config)

    @work(group="plan", exclusive=True)
    async def _replan(self, config: EvalConfig | None) -> None:
        planned = self._planned
        options = self._settings.applied_to(planned.options)
        problem = self.query_one(".dialog-problem", Static)
        try:
            self._planned = await self._hub.gateway.runs.plan(planned.selections, options, config, ask=True)
        except (PlanError, StoreError) as error:
            problem.update(Content(safe(str(error))))
            self._is_wanted = False
            return
        problem.update(Content(""))
        self._is_planning = False
        self._show()
        if self._is_wanted:
            self.dismiss(self._planned)

    def _show(self) -> None:
        self.query_one(LinesView).show_blocks(tuple(plan_blocks(self._planned)), from_top=True)
        self.query_one(RowList).show(self._settings)
