"""Scores pane: the scores of a case, and statistics of a set or target; and the dashboard."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import chain

from textual import on, work
from textual.app import ComposeResult
from textual.worker import Worker

from workbench.engine.plan import PlanError
from workbench.model.evalset import EvalCase
from workbench.model.results import CaseResult
from workbench.store.errors import StoreError
from workbench.tui.backend.run_calls import describe_agreement, plan_judging, start_judging
from workbench.tui.dialogs.dialogs import ConfirmScreen
from workbench.tui.screen_context import CaseWanted, Pane, RestingTimer, RunBegun, ScreenContext
from workbench.tui.state.browser_rows import describe_flakiness, describe_unjudged
from workbench.tui.state.browser_state import Subject
from workbench.tui.state.case_scores import (
    CaseScores,
    describe_missing_scores,
    describe_unreadable_history,
    describe_unrun_group,
)
from workbench.tui.state.dashboard import Dashboard, list_sets_of
from workbench.tui.state.group_scores import GroupKey, GroupReport, GroupScores, GroupSummary
from workbench.tui.state.project_state import ProjectState
from workbench.tui.state.text_layout import Line, Paragraph, Style, plural
from workbench.tui.widgets.key_line import report_errors, say
from workbench.tui.widgets.row_lists import ClickableLines, RowList, RowsAndText

_PAUSE = 1.0  # seconds between two updates of the scores of a set during a run


ResultsVersion = tuple[int, int, int]
"""Result count of the board, and numbers of listed cases of a set or target, and of its stale ones."""


def get_results_version(state: ProjectState, key: GroupKey) -> ResultsVersion:
    """Return the version of the results of a group: a different one means that they have changed."""
    target, eval_set = key
    listed = state.board.count_states(target, eval_set or None)
    stale = state.board.count_stale_states(target, eval_set or None)
    return state.board.result_count, sum(listed.values()), sum(stale.values())


# The dashboard of the project or the selected set or target.

_CALM = 0.15  # seconds on a row before the history is read
_RATIO = 8  # shortest pause between two readings, as a multiple of the time that one takes
_MOST_KEPT = 50  # reports of rows
_SECOND = 1.0


class DashboardLines(ClickableLines, inherit_bindings=False):
    """The page. Keys move its cursor from case to case, or scroll a page without cases."""

    PLACES = ("rows",)

    def __init__(self, dashboard: Dashboard) -> None:
        super().__init__()
        self._dashboard = dashboard

    def redraw(self, *, from_top: bool = False) -> None:
        """Draw the dashboard as it is now."""
        self.show(self._lay_out_page, from_top=from_top)

    def _lay_out_page(self, width: int) -> list[Line]:
        height = self.scrollable_content_region.height
        return self._dashboard.lay_out(width, height, now=datetime.now(UTC), has_focus=self.has_focus)

    def on_focus(self) -> None:
        self.redraw()

    def on_blur(self) -> None:
        self.redraw()

    def action_move(self, by: int) -> None:
        self._dashboard.move(by)
        self._follow_cursor(otherwise=self.scroll_offset.y + by)

    def action_page(self, pages: int) -> None:
        self.action_move(pages * self.page_size)

    def action_first(self) -> None:
        self._dashboard.move_to(0)
        self._follow_cursor(otherwise=0)

    def action_last(self) -> None:
        self._dashboard.move_to_last()
        self._follow_cursor(otherwise=len(self.lines))

    def action_enter(self) -> None:
        spot = self._dashboard.selected_spot
        if spot is not None:
            self.post_message(CaseWanted(spot.case, tab="diff"))

    def _follow_cursor(self, *, otherwise: int) -> None:
        self.redraw()
        spot = self._dashboard.selected_spot
        if spot is not None:
            self.bring_into_sight(spot.line)
        else:
            self.scroll_to(y=otherwise, animate=False, force=True, immediate=True)


class DashboardPane(Pane):
    """What is known of the project, a set or target, and what to do next. It replaces the tabs that show one case."""

    HELP = (
        "The verdicts, failing cases, times and runs of the selected eval set or agent, or of the whole project. j and "
        "k go from case to case, enter opens one. The bar counts every case once; stale verdicts have a part of their "
        "own."
    )

    def __init__(self, context: ScreenContext, *, id: str) -> None:
        super().__init__(context, id=id)
        self._dashboard = Dashboard(context.state)
        self._place: GroupKey | None = None
        self._reports: dict[GroupKey, tuple[ResultsVersion, GroupReport]] = {}
        self._reading: Worker[None] | None = None
        self._aging: RestingTimer | None = None

    def compose(self) -> ComposeResult:
        yield DashboardLines(self._dashboard)

    def on_mount(self) -> None:
        """Keep the age of the last save current."""
        self._aging = RestingTimer(self, _SECOND, self._redraw_age)

    def show(self, subject: Subject) -> None:
        """Show the project or the selected set or target as it is now, with its scores as they were read last."""
        place = _find_group(subject)
        is_other = place != self._place
        if is_other:  # what is being read now is of the other row
            self.workers.cancel_group(self, "dashboard")
            self._reading, self._dashboard.problem = None, ""
        self._place = place
        version, report = self._reports.get(place, (None, None)) if place is not None else (None, None)
        self._dashboard.report = report
        if place is None:
            self.hide()
        elif version != get_results_version(self.context.state, place) and (
            is_other or self._reading is None or self._reading.is_finished
        ):
            self._reading = self._read_report(place)
        self.query_one(DashboardLines).redraw(from_top=is_other)
        if self._aging is not None and self.context.state.watch.changes:
            self._aging.wake()

    def focus_first(self) -> None:
        self.query_one(DashboardLines).focus()

    def hide(self) -> None:
        self.workers.cancel_group(self, "dashboard")
        self._place = None

    def copyable(self) -> str | None:
        lines = self.query_one(DashboardLines).lines
        found = ("".join(piece.text for piece in lines[index]).rstrip() for index in range(len(lines)))
        return "\n".join(found).strip()

    @on(ClickableLines.Clicked)
    def _on_clicked(self, message: ClickableLines.Clicked) -> None:
        message.stop()
        case = self._dashboard.find_case(message.line, message.cell)
        if case is not None:
            self.post_message(CaseWanted(case, tab="diff"))

    def _redraw_age(self) -> bool:
        has_age = self.display and self._place is not None and bool(self.context.state.watch.changes)
        if has_age:
            self.query_one(DashboardLines).redraw()
        return has_age

    @work(group="dashboard", exclusive=True, description="read report")
    async def _read_report(self, place: GroupKey) -> None:
        """Read the report of a group, and again while there are new results; the more seldom the longer it takes."""
        state, (target, eval_set) = self.context.state, place
        await asyncio.sleep(_CALM)
        read: ResultsVersion | None = None
        while read != (there_is := get_results_version(state, place)):
            began = time.monotonic()
            earlier = state.board.find_earlier_verdicts(state.board.list_cases_with_earlier_verdict(target, eval_set))
            sets = list_sets_of(state, place)
            try:
                report = await self.context.backend.history.read_report(target, eval_set or None, sets, earlier=earlier)
            except StoreError as error:
                self._dashboard.problem = str(error)
                self.query_one(DashboardLines).redraw()
                return
            read, self._dashboard.problem = there_is, ""
            self._reports.pop(place, None)
            self._reports[place] = read, report
            if len(self._reports) > _MOST_KEPT:
                del self._reports[next(iter(self._reports))]
            self._dashboard.report = report
            self.query_one(DashboardLines).redraw()
            await asyncio.sleep(max(_PAUSE, _RATIO * (time.monotonic() - began)))


def _find_group(subject: Subject) -> GroupKey | None:
    if subject.is_project:
        return None, ""
    return None if subject.row is None else (subject.row.target, subject.row.eval_set)


# The scores of the selected row.


class ScoresPane(Pane):
    """One row for each criterion, and details of the selected one."""

    TAB = "Scores"
    HELP = (
        "Every criterion with its score and threshold, turn by turn, with reasons and an explanation. Several repeats "
        "have mean, spread and pass count. An eval set or an agent has the mean, deviation and distribution of each "
        "metric; enter lists its worst cases, and goes to the one under the cursor. If a model judged, J judges again."
    )
    PLACES = ("scores",)

    def __init__(self, context: ScreenContext, *, id: str) -> None:
        super().__init__(context, id=id)
        self._case: CaseScores | None = None
        self._results: tuple[CaseResult, ...] = ()  # what `_case` shows: the shown repeat, then all repeats
        self._held_against: EvalCase | None = None
        self._notes: Sequence[str] = ()  # above the scores of a case
        self._group: GroupScores | None = None
        self._place: GroupKey | None = None  # set or target that is shown or being read
        self._gathered: ResultsVersion | None = None  # version of the results when they were read
        self._gathering: Worker[None] | None = None

    def compose(self) -> ComposeResult:
        yield RowsAndText()

    def show(self, subject: Subject) -> None:
        """Show the scores of the shown repeat, or read those of the set or target."""
        if subject.key is None and subject.row is not None:
            self._show_group((subject.row.target, subject.row.eval_set))
            return
        self._cancel_reading()
        self._group = None
        result = subject.result
        if result is None:
            self._case, self._results = None, ()
            self.query_one(RowsAndText).show_text(describe_missing_scores(subject))
            return
        repeats = _list_repeats(subject, result)
        notes = [note for note in (describe_unjudged(subject), describe_flakiness(subject)) if note]
        if (result, *repeats) != self._results or subject.case is not self._held_against or notes != self._notes:
            self._notes = notes
            self._show_case(result, repeats, subject)

    def focus_first(self) -> None:
        self.query_one(RowsAndText).focus_first()

    def hide(self) -> None:
        self._cancel_reading()

    def copyable(self) -> str | None:
        shown = self._case or self._group
        return None if shown is None else shown.text()

    @on(RowList.Entered)
    def _on_entered(self, message: RowList.Entered) -> None:
        message.stop()
        self.action_open_row()

    def action_open_row(self) -> None:
        if self._group is None:
            self.query_one(RowsAndText).focus_text()
        elif (worst := self._group.selected_case) is not None:
            self.post_message(CaseWanted(worst.case, tab="scores"))
        else:
            self._group.toggle()
            self.query_one(RowsAndText).show(self._group, from_top=True)

    @work(group="judge", exclusive=True)
    async def action_judge_again(self) -> None:
        backend = self.context.backend
        if not self._results:
            say(self, "there is no case with scores here to judge again", severity="warning")
            return
        if self.context.state.is_busy:
            say(self, "a run is in progress; x stops it", severity="warning")
            return
        with report_errors(self, PlanError):
            case = self._results[0].case
            planned = await backend.call(lambda workspace: plan_judging(workspace, case))
            question = f"Judge this case again? About {plural(planned.calls, 'judge call')}; the agent does not run."
            if planned.asks and not await self.app.push_screen_wait(ConfirmScreen(question)):
                return
            begun = await backend.call(lambda workspace: start_judging(workspace, planned))
            self.post_message(RunBegun(begun.run, begun.jobs, is_shown=True))
            outcome = await describe_agreement(begun)
            if outcome is not None:
                say(self, f"judged again\n{outcome}")

    def _show_case(self, result: CaseResult, repeats: tuple[CaseResult, ...], subject: Subject) -> None:
        shown = CaseScores(result, repeats, subject.case, is_row=subject.is_row, notes=self._notes)
        is_same = self._case is not None and self._results[0].case == result.case
        if self._case is not None and self._case.selected_row is not None:
            shown.select(self._case.selected_row.name)
        self._case, self._results, self._held_against = shown, (result, *repeats), subject.case
        if len(shown):
            self.query_one(RowsAndText).show(shown, from_top=not is_same)
        else:
            self.query_one(RowsAndText).show_text(shown.blocks())

    def _show_group(self, place: GroupKey) -> None:
        self._case, self._results = None, ()
        if place != self._place:
            self._place, self._group = place, None
            self.query_one(RowsAndText).show_text([Paragraph.from_text("reading the scores …", Style.MUTED)])
            self._gathering = self._read_scores(place)
        elif get_results_version(self.context.state, place) != self._gathered and (
            self._gathering is None or self._gathering.is_finished
        ):
            self._gathering = self._read_scores(place)

    @work(group="gather", exclusive=True, description="read scores")
    async def _read_scores(self, place: GroupKey) -> None:
        """Show the scores of a set or target, and repeat while there are new results."""
        self._gathered = None
        while self._gathered != (there_is := get_results_version(self.context.state, place)):
            sets = list_sets_of(self.context.state, place)
            keys = list(chain.from_iterable(listed.case_keys for listed in sets))
            earlier = self.context.state.board.find_earlier_verdicts(keys)
            try:
                spread = await self.context.backend.history.read_spread(keys, earlier=earlier)
            except StoreError as error:
                self._group = None
                self.query_one(RowsAndText).show_text(describe_unreadable_history(str(error)))
                return
            self._gathered = there_is
            self._show_summary(spread, stale=there_is[-1])
            await asyncio.sleep(_PAUSE)

    def _cancel_reading(self) -> None:
        """Stop reading, so that a late result does not replace the shown one."""
        self.workers.cancel_group(self, "gather")
        self._place = None

    def _show_summary(self, spread: GroupSummary, *, stale: int) -> None:
        if not spread.statuses:
            self.query_one(RowsAndText).show_text(describe_unrun_group())
            return
        is_new = self._group is None
        if self._group is None:
            self._group = GroupScores(spread, stale=stale)
        else:
            self._group.update(spread, stale=stale)
        self.query_one(RowsAndText).show(self._group, from_top=is_new)


def _list_repeats(subject: Subject, result: CaseResult) -> tuple[CaseResult, ...]:
    """List all finished repeats, with the shown one; of a pinned session only that one."""
    if subject.pinned is not None or subject.record is None:
        return (result,)
    outcomes = sorted(subject.record.outcomes.items())
    return tuple(outcome.result for _, outcome in outcomes if outcome.result is not None)
