"""The plan of a run, and the choice of its criteria."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from workbench.engine.plan import PlanError
from workbench.metrics.registry import PRESETS, CaseFacts
from workbench.model.criteria import EvalConfig
from workbench.store.errors import FileChanged, StoreError
from workbench.tui.dialogs.dialogs import AskScreen, ChooseScreen, ConfirmScreen, Dialog
from workbench.tui.screen_context import ProjectChanged, ScreenContext
from workbench.tui.state.criteria_choice import (
    CriteriaChoice,
    CriteriaFile,
    CriteriaRows,
    MetricChoice,
    OptionRow,
    describe_selected,
    format_header,
    format_option_value,
    parse_value,
)
from workbench.tui.state.finder import FilteredRows
from workbench.tui.state.run_plan import PlannedRun, PlanSettings, check_setting, describe_plan
from workbench.tui.state.text_layout import SIDE_BY_SIDE_FROM, plural, safe, safe_line
from workbench.tui.widgets.inputs import Filtering, FilterLine
from workbench.tui.widgets.key_line import KeyLine, StatusLine, report_errors, say
from workbench.tui.widgets.row_lists import FramedBox, LinesView, RowList

if TYPE_CHECKING:
    from workbench.engine.plan import Selection


# The plan of a run, shown before it begins: run it, change it, or leave it.

_LOW = 18
"""Screens with fewer rows are filled by the dialog, without margins."""


class PlanScreen(Dialog[PlannedRun | None], Filtering):
    """Shows the plan of a run, of a search or of the watch. Returns the plan to run; None if the user cancels."""

    HELP: ClassVar[str] = (
        "The plan of the run, with duration and cost estimated from earlier runs. Nothing runs before enter."
    )
    CSS_PATH = "plan.tcss"
    PLACES = ("plan",)

    def __init__(
        self,
        context: ScreenContext,
        planned: PlannedRun,
        *,
        title: str = "run?",
        enter: str = "run",
        executions: str | None = None,
    ) -> None:
        """Create the screen. With `executions`, only their number can be changed: it is called so."""
        super().__init__()
        self._screen_context = context
        self._planned = planned
        self._title, self._enter = title, enter
        self._settings = PlanSettings(planned, executions=executions)
        self.listed = FilteredRows(self._settings)
        self._config = planned.config
        self._is_planning = False
        self._is_wanted = False

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog", id="plan"):
            yield LinesView(id="plan-facts")
            yield FilterLine("letters of a setting", self.follow_text)
            yield RowList(id="plan-settings")
            yield Static(Content(""), classes="dialog-problem")
            yield KeyLine(enter=self._enter)

    def on_mount(self) -> None:
        self.query_one("#plan").border_title = Content(self._title)
        self.query_one(RowList).focus()
        self._show()

    def on_resize(self) -> None:
        """In a low terminal, use the rows of the frame for the content."""
        self.query_one("#plan").set_class(self.size.height < _LOW, "-low")

    @on(RowList.Entered)
    def _on_entered(self) -> None:
        if self._is_planning:
            self._is_wanted = True  # run as soon as the plan has the shown settings
        else:
            self.dismiss(self._planned)

    def action_step(self, by: int) -> None:
        self._settings.step(by)
        self._start_planning()

    @work
    async def action_type_value(self) -> None:
        name, words, value = self._settings.selected_setting
        typed = await self.app.push_screen_wait(
            AskScreen(words, value=f"{value:g}", check=lambda text: check_setting(name, text))
        )
        if typed is not None:
            self._settings.set_value(float(typed))
            self._start_planning()

    @work
    async def action_criteria(self) -> None:
        chosen = await self.app.push_screen_wait(CriteriaScreen(self._screen_context, self._planned.selections))
        if chosen is not None:
            self._config = chosen.config
            self._start_planning()

    def _start_planning(self) -> None:
        self._is_planning = True
        self._is_wanted = False
        self.show_rows()
        self._replan(self._config)

    @work(group="plan", exclusive=True, description="replan")
    async def _replan(self, config: EvalConfig | None) -> None:
        planned = self._planned
        options = self._settings.apply(planned.options)
        problem = self.query_one(".dialog-problem", Static)
        try:
            self._planned = await self._screen_context.backend.runs.plan(planned.selections, options, config, ask=True)
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
        self.query_one(LinesView).show_blocks(tuple(describe_plan(self._planned)), from_top=True)
        self.show_rows()


# The criteria picker: the metrics of the selected cases, with thresholds and options.

_MOST_SCORED = 10_000  # cases whose scores are read; more would delay other work


@dataclass(frozen=True)
class ChosenCriteria:
    """Criteria of a run; `config` is None if the criteria of the files apply."""

    config: EvalConfig | None


class CriteriaList(RowList):
    """The metrics. The mouse moves their thresholds."""

    @dataclass
    class Slid(Message):
        """The user set a threshold with the mouse."""

        metric: str
        threshold: float

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Set the threshold at the mouse, which may then be dragged."""
        if self._slide(event):
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self.app.mouse_captured is self:
            self._slide(event)

    def on_mouse_up(self) -> None:
        self.release_mouse()

    def _slide(self, event: events.MouseEvent) -> bool:
        index, offset = self.find_index(event), event.get_content_offset(self)
        if index is None or offset is None or not isinstance(self.source, CriteriaRows):
            return False
        found = self.source.find_threshold(index, offset.x, self.scrollable_content_region.width)
        if found is not None:
            self.post_message(self.Slid(*found))
        return found is not None


class CriteriaScreen(Dialog[ChosenCriteria | None], Filtering):
    """Returns the criteria to run with; None if the user runs nothing.

    The choice is remembered for each eval set until the session ends.
    """

    HELP: ClassVar[str] = (
        "The criteria of the selected cases. A choice applies until the session ends; it is written to the "
        "configuration file only if you save it."
    )
    CSS_PATH = "criteria.tcss"
    PLACES = ("criteria",)

    def __init__(self, context: ScreenContext, selections: Sequence[Selection]) -> None:
        super().__init__()
        self._screen_context = context
        self._selections = selections
        self._eval_sets = list(dict.fromkeys(selection.eval_set for selection in selections))
        self._file: CriteriaFile | None = None
        self._choice: CriteriaChoice | None = None
        self._facts: CaseFacts | None = None
        self._scores: Mapping[str, Sequence[float]] = {}

    def compose(self) -> ComposeResult:
        yield StatusLine(id="criteria-header")
        with Container(id="criteria-body"):
            with FramedBox(id="criteria-list"):
                yield FilterLine("text in the name or purpose of a metric", self.follow_text)
                yield CriteriaList(id="criteria-rows")
            yield LinesView(id="criteria-detail")
        yield KeyLine(first=("criteria_toggle", "criteria_more", "criteria_run", "criteria_keep"))

    def on_mount(self) -> None:
        self.query_one(RowList).focus()
        self._read()
        self._count()
        self._read_scores()

    def on_resize(self) -> None:
        """Show metrics and details side by side if the screen is wide enough."""
        self.query_one("#criteria-body").set_class(self.size.width >= SIDE_BY_SIDE_FROM, "-beside")
        self._show()

    def steer_rows(self, message: RowList.Steered) -> None:
        if self._choice is not None:
            message.steer(self._choice)
            self._show()

    @on(RowList.Entered)
    def _on_entered(self) -> None:
        row = self._choice.selected_row if self._choice is not None else None
        if isinstance(row, MetricChoice):
            self._type_threshold(row)
        elif isinstance(row, OptionRow):
            self._type_option(row)

    def filter_rows(self, text: str) -> bool:
        if self._choice is not None:
            self._choice.search_for_text(text)
            self._show()
        return self._choice is None or len(self._choice) > 0

    def offers(self, action: str) -> bool:
        """True if keys may name an action: nothing can be undone before something was saved."""
        return action != "undo" or (self._file is not None and self._file.can_undo)

    def action_switch(self) -> None:
        if self._choice is not None:
            self._choice.toggle()
            self._show()

    def action_step(self, by: int) -> None:
        if self._choice is not None:
            self._choice.step(by)
            self._show()

    @work(group="keep", exclusive=True)
    async def action_reset(self) -> None:
        if self._choice is None:
            return
        self._choice.reset()
        self._show()
        with report_errors(self):
            await self._show_changed_file()

    def cancel(self) -> object:
        """Close and remember the choice."""
        self._remember()
        return self.dismiss(None)

    def action_run(self) -> None:
        if self._choice is None or not self._is_usable():
            return
        self._remember()
        self.dismiss(ChosenCriteria(self._choice.config if self._choice.is_changed else None))

    @work
    async def action_preset(self) -> None:
        names = [f"{preset.name}: {preset.purpose}" for preset in PRESETS]
        chosen = await self.app.push_screen_wait(ChooseScreen("Judge for which purpose?", names))
        if chosen is None or self._choice is None:
            return
        preset = PRESETS[chosen]
        self._choice.apply_preset(preset)
        self._go_to(preset.criteria[0].metric)

    @work(group="keep", exclusive=True)
    async def action_keep(self) -> None:
        if self._choice is None or self._file is None or not self._is_usable():
            return
        if not self._choice.is_changed and not self._file.config.is_default:
            with report_errors(self):
                if not await self._show_changed_file():
                    say(self, f"{self._file.path} already has these criteria")
            return
        criteria, existed = self._choice.config.criteria, self._file.exists
        with report_errors(self):
            try:
                file = await self._screen_context.backend.criteria.keep(self._eval_sets, criteria)
            except FileChanged:
                question = (
                    f"{safe_line(self._file.path)} was changed by another program since it was read.\n"
                    "Write these criteria into the changed file? Everything else in it stays."
                )
                if not await self.app.push_screen_wait(ConfirmScreen(question)):
                    return
                await self._screen_context.backend.criteria.read(self._eval_sets)
                file = await self._screen_context.backend.criteria.keep(self._eval_sets, criteria)
            self._show_file(file, existed_before=existed)
            others = f", shared with {plural(file.also_judges, 'other set')}" if file.also_judges else ""
            key = self._screen_context.state.find_key("criteria_undo")
            say(self, f"saved in {file.path}{others}; {key} undoes it")

    async def _show_changed_file(self) -> bool:
        """Show the criteria of the file if another program changed them; return False if none did."""
        before = self._file
        file = await self._screen_context.backend.criteria.read(self._eval_sets)
        if before is None or file.config == before.config:
            return False
        self._show_file(file, existed_before=before.exists)
        say(self, f"{file.path} was changed by another program; its present criteria are shown")
        return True

    @work(group="keep", exclusive=True)
    async def action_undo(self) -> None:
        if self._file is None or not self._file.can_undo:
            say(self, "nothing was saved in this session")
            return
        existed = self._file.exists
        with report_errors(self):
            file = await self._screen_context.backend.criteria.undo(self._eval_sets)
            chosen = self._choice.config if self._choice is not None else None
            self._show_file(file, existed_before=existed, chosen=chosen)
            say(self, f"{file.path} is restored" if file.exists else f"{file.path} is deleted again")

    @work(group="read")
    async def _read(self) -> None:
        try:
            file = await self._screen_context.backend.criteria.read(self._eval_sets)
        except StoreError as error:
            say(self, str(error), severity="error")
            self.dismiss(None)
            return
        self._file = file
        chosen = self._screen_context.state.chosen_criteria.get(self._eval_sets[0])
        self._choice = CriteriaChoice(file.config, chosen=chosen)
        self._show()

    @work(group="count")
    async def _count(self) -> None:
        self._facts = await self._screen_context.backend.criteria.read_facts(self._selections)
        self._show()

    @work(group="scores")
    async def _read_scores(self) -> None:
        """Read the newest scores of all cases in the sets, which show what a threshold would change."""
        state, backend = self._screen_context.state, self._screen_context.backend
        whole = {each.eval_set: each.model_copy(update={"cases": None}) for each in self._selections}
        cases = state.browser.find_selected_cases(whole.values())
        if len(cases) > _MOST_SCORED:
            return
        try:
            self._scores = await backend.history.read_scores(cases, earlier=state.board.find_earlier_verdicts(cases))
        except StoreError:
            return  # the list of problems shows it
        self._show()

    @on(CriteriaList.Slid)
    def _on_slid(self, message: CriteriaList.Slid) -> None:
        if self._choice is not None:
            self._choice.set_threshold(message.metric, message.threshold)
            self._choice.move_to(self._choice.rows.index(MetricChoice(message.metric)))
            self._show()

    @work
    async def _type_threshold(self, row: MetricChoice) -> None:
        choice = self._choice
        if choice is None:
            return
        threshold = choice.get_criterion(row.metric).threshold
        typed = await self.app.push_screen_wait(
            AskScreen(
                f"threshold of {row.metric} (empty: only reported)",
                value="" if threshold is None else f"{threshold:g}",
                check=lambda text: choice.check_threshold(row.metric, text),
            )
        )
        if typed is not None:
            choice.set_threshold(row.metric, float(typed) if typed.strip() else None)
            self._show()

    @work
    async def _type_option(self, row: OptionRow) -> None:
        choice = self._choice
        if choice is None:
            return
        value = choice.get_option(row.metric, row.option)
        typed = await self.app.push_screen_wait(
            AskScreen(
                f"{row.option} of {row.metric} (empty: the default)",
                value="" if value is None else format_option_value(value),
                check=lambda text: choice.check_option(row.metric, row.option, text),
            )
        )
        if typed is not None:
            choice.set_option(row.metric, row.option, parse_value(typed))
            self._show()

    def _show_file(self, file: CriteriaFile, *, existed_before: bool, chosen: EvalConfig | None = None) -> None:
        """Show the written file, and compare the choice with it."""
        self._file = file
        if self._choice is not None:
            cursor = self._choice.cursor
            self._choice = CriteriaChoice(file.config, chosen=chosen)
            self._choice.move_to(cursor)
        self._remember()
        if file.exists != existed_before:
            self.app.screen_stack[0].post_message(ProjectChanged())
        self._show()

    def _remember(self) -> None:
        """Store the choice for the next time that the picker opens for these sets."""
        if self._choice is None:
            return
        for eval_set in self._eval_sets:
            if self._choice.is_changed:
                self._screen_context.state.chosen_criteria[eval_set] = self._choice.config
            else:
                self._screen_context.state.chosen_criteria.pop(eval_set, None)

    def _is_usable(self) -> bool:
        """Return True if the choice is usable. Otherwise show the first problem, and select its metric."""
        if self._choice is None:
            return False
        for metric, problems in self._choice.problems.items():
            self._go_to(metric)
            say(self, f"{metric}: {problems[0]}", severity="error")
            return False
        if not self._choice.config.criteria:
            say(self, "no metric is on; turn on at least one", severity="error")
            return False
        return True

    def _go_to(self, metric: str) -> None:
        if self._choice is not None:
            self._choice.search_for_text("")
            self._choice.move_to(self._choice.rows.index(MetricChoice(metric)))
            self._show()

    def _show(self) -> None:
        choice, file = self._choice, self._file
        if choice is None or file is None:
            return
        of = self._eval_sets[0] if len(self._eval_sets) == 1 else plural(len(self._eval_sets), "eval set")
        choice.scores = self._scores
        self.query_one(StatusLine).show(format_header(choice, file, of=of, width=self.size.width))
        self.query_one(RowList).show(CriteriaRows(choice))
        self.query_one(LinesView).show_blocks(tuple(describe_selected(choice, self._facts)), from_top=True)
