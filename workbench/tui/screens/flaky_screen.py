"""The flaky cases: how likely each passes, where its executions part, and quarantine."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.screen import Screen

from workbench.model.evalset import EvalCase, Quarantine
from workbench.model.identity import CaseKey
from workbench.model.results import CaseResult
from workbench.model.text import redact
from workbench.report.flaky_cases import (
    FlakyCase,
    FlakySearch,
    QuarantinedCase,
    StoredPlace,
    describe_divergence,
    explain_no_divergence,
    find_flaky_cases,
    list_quarantined,
)
from workbench.report.significance import format_interval
from workbench.store.errors import StoreError
from workbench.store.evalsets.quarantine import (
    DIFFERENT_CASE,
    find_quarantine,
    read_project_quarantines,
    release_cases,
    set_quarantine,
)
from workbench.store.history.history_schema import get_history_path
from workbench.tui.dialogs.dialogs import AskScreen, ResultScreen
from workbench.tui.panes.diff_pane import WholeScreen
from workbench.tui.screen_context import CaseWanted, DocumentsChanged, ScreenContext
from workbench.tui.state.case_status import QUARANTINED, Badge
from workbench.tui.state.diff_lines import DiffSource
from workbench.tui.state.finder import FilteredRows
from workbench.tui.state.text_layout import (
    BLANK,
    Block,
    ItemRows,
    Line,
    Paragraph,
    Style,
    StyledText,
    bar,
    cut_parts,
    format_set_name,
    plural,
    safe,
    safe_line,
)
from workbench.tui.widgets.inputs import Filtering, FilterLine
from workbench.tui.widgets.key_line import KeyLine, StatusLine, report_errors, say
from workbench.tui.widgets.row_lists import RowList, RowsAndText

if TYPE_CHECKING:
    from workbench.engine.workspace import Workspace

_DAYS = 14
_MOST_DAYS = 3650
_LONGEST_NAME = 24  # characters of a case in a question or message


def open_flaky_cases(screen: Screen[None], context: ScreenContext) -> None:
    """Show the flaky cases over a screen, and post a message to it if the user wants to go to a case."""

    def leave(case: CaseKey | None) -> None:
        if flaky.changed_sets:
            screen.post_message(DocumentsChanged(frozenset(flaky.changed_sets)))
        if case is not None:
            screen.post_message(CaseWanted(case, tab="history"))

    flaky = FlakyScreen(context)
    screen.app.push_screen(flaky, leave)


# Flaky cases, and the others in quarantine.

_PROBABILITY_BAR = 10


class FlakyRows(ItemRows[FlakyCase | QuarantinedCase]):
    """Rows of a list: the flaky cases, then those in quarantine that are not flaky."""

    def __init__(self, search: FlakySearch, quarantined: Sequence[QuarantinedCase]) -> None:
        flaky = {(each.case.eval_set, each.case.name) for each in search.cases}
        others = [each for each in quarantined if (each.eval_set, each.name) not in flaky]
        self.rows: Sequence[FlakyCase | QuarantinedCase] = [*search.cases, *others]
        self.left_out = search.left_out

    def line(self, index: int, width: int) -> Line:
        """Format one case: how likely it passes, its id, its quarantine, and where executions part."""
        row = self.rows[index]
        is_stale = isinstance(row, QuarantinedCase) and row.is_stale
        mark = _format_quarantine_mark(None if is_stale else row.quarantine)
        if isinstance(row, QuarantinedCase):
            what = "not found" if row.is_missing else "other text" if row.is_changed else "not flaky"
            share = StyledText(f" {what:<{_PROBABILITY_BAR + 5}}", Style.MUTED)
            name = StyledText(f" {safe_line(row.name)}", Style.STRONG)
            eval_set = StyledText(f"  {format_set_name(row.eval_set)}", Style.MUTED)
            return cut_parts((share, mark, name, *_note_expired(row.quarantine), eval_set), width)
        share = StyledText(f" {bar(row.probability, width=_PROBABILITY_BAR)} {row.probability:>4.0%}", Style.WARNING)
        place = "" if row.divergence is None else f"turn {row.divergence.turn + 1}, {row.divergence.what}"
        pieces = (
            share,
            mark,
            StyledText(f" {safe_line(row.case.name)}", Style.STRONG),
            StyledText(f"  {format_set_name(row.case.eval_set)}", Style.MUTED),
            *_note_expired(row.quarantine),
            StyledText(f"  {safe_line(place)}"),
        )
        return cut_parts(pieces, width)

    @property
    def selected_name(self) -> tuple[str, str] | None:
        """The eval set and the name of the case under the cursor."""
        row = self.selected_row
        if row is None:
            return None
        return (row.eval_set, row.name) if isinstance(row, QuarantinedCase) else (row.case.eval_set, row.case.name)

    def title(self) -> Line:
        """Count the cases, and those left out."""
        flaky = sum(isinstance(row, FlakyCase) for row in self.rows)
        others = [row for row in self.rows if isinstance(row, QuarantinedCase)]
        over = sum(row.quarantine.is_expired for row in others)
        stale = sum(row.is_stale and not row.quarantine.is_expired for row in others)
        active = len(others) - over - stale
        more = f", {plural(active, 'other case')} in quarantine" if active else ""
        more += f", {plural(over, 'other quarantine')} that ended" if over else ""
        more += f", {plural(stale, 'quarantine')} without effect" if stale else ""
        left_out = f"   left out after an outage: {plural(len(self.left_out), 'case')}" if self.left_out else ""
        return (
            StyledText(f" {plural(flaky, 'flaky case')}{more}", Style.STRONG),
            StyledText(left_out, Style.WARNING),
        )

    def blocks(self) -> list[Block]:
        row = self.selected_row
        if row is None:
            return []
        eval_set, name = self.selected_name or ("", "")
        blocks: list[Block] = [
            Paragraph.from_text(safe_line(name), Style.HEADING, hang=2),
            Paragraph.from_text(safe_line(eval_set), Style.MUTED, indent=2),
        ]
        if row.quarantine is not None:
            style = Style.ERROR if row.quarantine.is_expired else Style.WARNING
            is_stale = isinstance(row, QuarantinedCase) and row.is_stale
            mark = "" if row.quarantine.is_expired or is_stale else f"{QUARANTINED.symbol} "
            text = f"{mark}{redact(str(row.quarantine))}"
            blocks.append(Paragraph.from_text(safe(text), style, indent=2, hang=2))
        if isinstance(row, QuarantinedCase):
            missing = "the eval set no longer has this case; x removes the quarantine"
            why = missing if row.is_missing else "no execution shows that it is flaky"
            why = f"without effect: {DIFFERENT_CASE}; x removes it" if row.is_changed else why
            return [*blocks, Paragraph.from_text(why, Style.WARNING if row.is_stale else Style.MUTED, indent=2)]
        blocks += [
            Paragraph.from_text(
                f"{row.passed} of {row.samples} passed: {row.probability:.0%}{format_interval(row.interval, '.0%')}, "
                f"in {plural(len(row.runs), 'run')}",
                indent=2,
                hang=2,
            ),
            BLANK,
        ]
        if row.divergence is None:
            return [*blocks, Paragraph.from_text(safe(explain_no_divergence(row)), Style.WARNING, indent=2, hang=2)]
        first, passed, failed = describe_divergence(row.divergence)
        blocks.append(Paragraph.from_text(safe(first), Style.STRONG, indent=2, hang=2))
        blocks.append(_format_side("passed", passed, Style.PASSED))
        blocks.append(_format_side("failed", failed, Style.FAILED))
        return blocks


def _format_side(word: str, text: str, style: Style) -> Paragraph:
    return Paragraph((StyledText(f"{word}  ", style), StyledText(safe(text))), indent=2, hang=8)


def _format_quarantine_mark(quarantine: Quarantine | None) -> StyledText:
    if quarantine is None or quarantine.is_expired:
        return StyledText("  ")
    return StyledText(f" {QUARANTINED.symbol}", QUARANTINED.style)


def _note_expired(quarantine: Quarantine | None) -> Line:
    if quarantine is None or not quarantine.is_expired:
        return ()
    return (StyledText("  quarantine ended", Style.ERROR),)


# The screen.


@dataclass(frozen=True, slots=True)
class _Found:
    """What the screen shows. `problems` are files of quarantines that cannot be read."""

    search: FlakySearch
    quarantined: tuple[QuarantinedCase, ...]
    problems: tuple[str, ...]


class FlakyScreen(ResultScreen[CaseKey | None], Filtering):
    """Cases whose verdict changed while nothing that they use did. The result is the case that the user opens."""

    HELP: ClassVar[str] = (
        "Cases whose verdict changed while nothing that they use changed, with the share of executions that passed and "
        "the first step that sets failed ones apart. Enter shows an execution that passed beside one that failed. A "
        "case in quarantine (⊘) runs and is reported, but its FAILED fails no run until a day; x begins and ends it."
    )
    SYMBOLS: ClassVar[Sequence[Badge]] = (QUARANTINED,)
    PLACES = ("flaky",)

    def __init__(self, context: ScreenContext) -> None:
        super().__init__()
        self._screen_context = context
        self._rows = FlakyRows(FlakySearch((), ()), ())
        self.listed = FilteredRows(self._rows)
        self.changed_sets: set[str] = set()
        """The eval sets whose quarantines the user changed."""

    def compose(self) -> ComposeResult:
        yield StatusLine(id="flaky-title")
        yield FilterLine("letters of a case or of a step", self.follow_text)
        yield RowsAndText(self._can_open)
        yield KeyLine(enter="executions", first=("flaky_close",))

    def on_mount(self) -> None:
        self.query_one("#flaky-title", StatusLine).show((StyledText(" searching the history …", Style.RUNNING),))
        self.query_one(RowsAndText).focus_first()
        self._read()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Dim the actions on a case, and the filter, without one."""
        row = self._rows.selected_row
        if action == "open_case" and isinstance(row, QuarantinedCase) and row.is_missing:
            return None
        if action in ("quarantine", "open_case", "filter"):
            return True if row is not None else None
        return True

    def _can_open(self) -> bool:
        """Return whether there are executions to show of the case under the cursor."""
        row = self._rows.selected_row
        return isinstance(row, FlakyCase) and row.compared_places is not None

    def name_action(self, action: str) -> str:
        """Name what the key does with the case under the cursor."""
        return "end quarantine" if action == "quarantine" and _can_be_ended(self._rows.selected_row) else ""

    @on(RowList.Entered)
    def _on_entered(self) -> None:
        row = self._rows.selected_row
        if row is None:
            return
        if isinstance(row, QuarantinedCase):
            say(self, "no execution shows that it is flaky, so there is nothing to compare", severity="warning")
            return
        if row.compared_places is None:
            say(self, "the traces of its executions are not stored any more", severity="warning")
            return
        self._show_executions(row.case, row.compared_places)

    def action_open_case(self) -> None:
        row = self._rows.selected_row
        if isinstance(row, FlakyCase):
            self.dismiss(row.case)
        elif row is not None:
            self._open_quarantined(row)

    def _open_quarantined(self, row: QuarantinedCase) -> None:
        rows = (each for listed in self._screen_context.state.browser.sets for each in listed.cases or ())
        keys = (each.case for each in rows if each.case is not None and each.eval_set == row.eval_set)
        found = next((key for key in keys if key.name == row.name), None)
        if found is None:
            missing = "the eval set no longer has this case"
            say(self, missing if row.is_stale else "the dataset belongs to no target", severity="warning")
            return
        self.dismiss(found)

    @work(group="read", exclusive=True, description="read flaky cases")
    async def _read(self) -> None:
        selected = self._rows.selected_name
        try:
            found = await self._screen_context.backend.call(_find)
        except StoreError as error:
            self._rows = FlakyRows(FlakySearch((), ()), ())
            self.query_one("#flaky-title", StatusLine).show((StyledText(f" ! {safe_line(str(error))}", Style.ERROR),))
            return
        self._rows = FlakyRows(found.search, found.quarantined)
        for index in range(len(self._rows)):
            self._rows.move_to(index)
            if self._rows.selected_name == selected:
                break
        else:
            self._rows.move_to(0)
        self.listed = FilteredRows(self._rows)
        self.filter_rows(self.query_one(FilterLine).text)
        self.refresh_bindings()
        for problem in found.problems:
            say(self, problem, severity="error")

    def show_rows(self) -> None:
        self.query_one("#flaky-title", StatusLine).show(self._rows.title())
        body = self.query_one(RowsAndText)
        if len(self._rows):
            body.show(self.listed, from_top=True)
            return
        body.show_text(
            [
                Paragraph.from_text("No case is known to be flaky.", Style.STRONG),
                BLANK,
                Paragraph.from_text(
                    "Press escape, then C in the main screen: it plans a run with several repeats of each case. More "
                    "executions show which cases pass and fail while nothing that they use changes.",
                    Style.MUTED,
                ),
            ]
        )

    @work(group="show", exclusive=True, description="show executions")
    async def _show_executions(self, case: CaseKey, places: tuple[StoredPlace, StoredPlace]) -> None:
        history = self._screen_context.backend.history
        with report_errors(self):
            passed, failed = [await history.read_result(*place) for place in places]
            if passed is None or failed is None:
                say(self, "the executions are no longer in the history", severity="warning")
                return
            self.app.push_screen(WholeScreen(make_source(case, passed, failed, places)))

    @work(group="quarantine", exclusive=True, description="quarantine")
    async def action_quarantine(self) -> None:
        """Begin or end the quarantine of the case under the cursor."""
        row, name = self._rows.selected_row, self._rows.selected_name
        if row is None or name is None:
            return
        eval_set, case = name
        shown = safe_line(case, width=_LONGEST_NAME)
        if _can_be_ended(row):
            await self._change(
                eval_set,
                lambda workspace: release_cases(workspace.root / eval_set, [case]),
                f"{shown}: the quarantine is over, a FAILED counts from the next run on",
            )
            return
        example = date.today() + timedelta(_DAYS)
        answer = await self.app.push_screen_wait(
            AskScreen(
                f"Quarantine of {shown}: why? Ends in {_DAYS} days, or begin with `30 days` or {example}.",
                check=explain_invalid_quarantine,
            )
        )
        quarantine = None if answer is None else parse_quarantine(answer)
        if quarantine is not None:
            await self._change(
                eval_set,
                lambda workspace: set_quarantine(workspace.root / eval_set, [case], quarantine),
                f"{shown}: {quarantine}; it counts from the next run on",
            )

    async def _change(self, eval_set: str, write: Callable[[Workspace], object], done: str) -> None:
        """Write the file beside the eval set, and read the list again."""
        with report_errors(self):
            await self._screen_context.backend.call(write)
            self.changed_sets.add(eval_set)
            say(self, done)
            self._read()


def _can_be_ended(row: FlakyCase | QuarantinedCase | None) -> bool:
    """True for a quarantine in force, and for the entry of a case that the set does not have now."""
    if row is None or row.quarantine is None:
        return False
    return not row.quarantine.is_expired or (isinstance(row, QuarantinedCase) and row.is_stale)


_DAYS_TYPED = re.compile(r"([0-9]{1,9})\s*(?:d|days?)(?:\s+(.*)|)", re.DOTALL)


def explain_invalid_quarantine(text: str) -> str | None:
    """Describe the problem of a typed quarantine; None if it has none."""
    if text.strip().isdecimal():
        return f'found only a number, expected days such as "{text.strip()[:4]} days", or a reason in words'
    return None if parse_quarantine(text) else "the last day is over, or too far away"


def parse_quarantine(text: str) -> Quarantine | None:
    """Read a reason, after a number of days or a last day if they are given. Return None for a day that is over.

    A number without a unit belongs to the reason, as in "404 from the api".
    """
    word, _, reason = text.strip().partition(" ")
    today = date.today()
    typed = _DAYS_TYPED.fullmatch(text.strip())
    if typed is not None:
        days = int(typed[1])
        until = today + timedelta(days) if 1 <= days <= _MOST_DAYS else None
        return None if until is None else Quarantine(until=until, reason=(typed[2] or "").strip())
    if len(word) == len("2026-12-24"):
        with suppress(ValueError):
            until = date.fromisoformat(word)
            return Quarantine(until=until, reason=reason.strip()) if until >= today else None
    return Quarantine(until=today + timedelta(_DAYS), reason=text.strip())


def make_source(
    case: CaseKey, passed: CaseResult, failed: CaseResult, places: tuple[StoredPlace, StoredPlace]
) -> DiffSource:
    """Return the two executions as the sides of a diff: the one that passed as the expected side."""
    runs = [f"run {safe_line(place.run_id)}, repeat {place.job.repeat + 1}" for place in places]
    head = (
        Paragraph((StyledText("left   passed  ", Style.PASSED), StyledText(runs[0]))),
        Paragraph((StyledText("right  failed  ", Style.FAILED), StyledText(runs[1]))),
        BLANK,
    )
    conversation = [turn.invocation for turn in passed.execution.turns]
    return DiffSource(
        case=EvalCase(eval_id=case.eval_id, conversation=conversation),
        turns=failed.execution.turns,
        result=failed.model_copy(update={"metrics": ()}),  # they compare with what the case expects
        head=head,
        titles=("PASSED", "FAILED"),
    )


def _find(workspace: Workspace) -> _Found:
    """Search the history. Without one, only the quarantines are read."""
    workspace.refresh()
    local = [entry.relative for entry in workspace.project.eval_sets if entry.address is None]
    quarantines = read_project_quarantines(workspace.root, local)
    search = FlakySearch((), ())
    if get_history_path(workspace.root).exists():  # reading must not create it
        with workspace.history() as history:
            search = find_flaky_cases(history, find_quarantine=lambda case: find_quarantine(quarantines, case))
    in_project = [each for each in search.cases if _has_case(workspace, each.case.eval_set, each.case.name)]
    left_out = [case for case in search.left_out if _has_case(workspace, case.eval_set, case.name)]
    quarantined = list_quarantined(  # rows of datasets without a target are not looked for
        quarantines, has_case=lambda name, case: name not in local or _has_case(workspace, name, case)
    )
    problems = [str(problem) for of_set in quarantines.values() for problem in of_set.problems]
    return _Found(FlakySearch(in_project, left_out), tuple(quarantined), tuple(problems))


def _has_case(workspace: Workspace, eval_set: str, name: str) -> bool:
    """Return False for a case that the project no longer has. A set that cannot be read may have any."""
    if all(entry.relative != eval_set for entry in workspace.project.eval_sets):
        return False
    try:
        return name in workspace.cases_by_name(eval_set)
    except StoreError:
        return True
