"""The coverage of the project: a tree of agents and code with bars, and the cases that reach each part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widget import Widget

from workbench.engine.plan import PlanError, RunOptions, Selection
from workbench.engine.workspace import Workspace
from workbench.model.identity import CaseKey
from workbench.model.target import AgentKind
from workbench.report.coverage_report import (
    KIND_NAMES,
    STATUS_NAMES,
    Coverage,
    Part,
    PartKind,
    PartStatus,
    Section,
    argument_lines,
    count_reached,
    describe_gaps,
    draw_bar,
    group_by_kind,
    summary_line,
    uncertain_lines,
)
from workbench.store.errors import StoreError
from workbench.tui.dialogs.dialogs import ResultScreen
from workbench.tui.keys import bindings
from workbench.tui.screen_context import CaseWanted, ScreenContext
from workbench.tui.screens.scenarios_screen import generate
from workbench.tui.state.browser_list import Row, RowKind
from workbench.tui.state.finder import FilteredDetails
from workbench.tui.state.text_layout import (
    BLANK,
    Block,
    CursorRows,
    Line,
    Paragraph,
    Style,
    StyledText,
    plural,
    safe_line,
    shorten,
)
from workbench.tui.widgets.inputs import Filtering, FilterLine, KeyLine, say
from workbench.tui.widgets.row_lists import RowList, RowsAndText, StatusLine
from workbench.watch.case_coverage import measure_coverage

_SYMBOLS = {
    PartStatus.REACHED: StyledText("✓", Style.PASSED),
    PartStatus.STALE: StyledText("~", Style.WARNING),
    PartStatus.UNKNOWN: StyledText("?", Style.MUTED),
    PartStatus.UNREACHED: StyledText("✗", Style.FAILED),
}
_BAR = 12  # cells
_MOST_CASES = 200  # in the text below; the rows have all


def measure_project(workspace: Workspace) -> Coverage:
    """Measure the coverage by all cases of a project. Raises PlanError without cases, and StoreError."""
    project = workspace.project
    with_agent = {name for name, target in project.targets.items() if target.kind is not AgentKind.RECORDED}
    selections = [Selection(eval_set=entry.relative) for entry in project.eval_sets if entry.target in with_agent]
    if not selections:
        raise PlanError("no eval set with an agent was found: nothing can be covered")
    return measure_coverage(workspace, workspace.plan(selections, RunOptions()), targets=project.targets.values())


@dataclass(frozen=True, slots=True)
class _TreeRow:
    """A row of the tree: a section, the parts of one kind in it, a part, or a case that reaches it."""

    section: Section
    parts: Sequence[Part]
    kind: PartKind | None = None
    part: Part | None = None
    case: CaseKey | None = None

    @property
    def key(self) -> tuple[str, PartKind | None, str, str]:
        """Identity of a row that can be unfolded."""
        part = self.part
        return self.section.title, self.kind, part.name if part else "", part.place if part else ""


class CoverageTree(CursorRows):
    """Rows of a coverage. Sections are unfolded at first. With `only_gaps`, parts that a case reaches are left out."""

    def __init__(self, coverage: Coverage) -> None:
        self.coverage = coverage
        self.only_gaps = False
        self._unfolded = {_TreeRow(section, section.parts).key for section in coverage.sections}
        self._rows: list[_TreeRow] = list(self._make_rows())

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def selected_row(self) -> _TreeRow | None:
        """The row under the cursor."""
        return self._rows[self.cursor] if self._rows else None

    def toggle_fold(self) -> None:
        """Unfold or fold the row under the cursor."""
        row = self.selected_row
        if row is not None and row.case is None:
            self._unfolded ^= {row.key}
            self._rows = list(self._make_rows())

    def toggle_gaps(self) -> None:
        """List only parts that no current record reaches, unfolded, or all parts again."""
        self.only_gaps = not self.only_gaps
        if self.only_gaps:
            self._unfolded |= {
                _TreeRow(section, parts, kind).key
                for section in self.coverage.sections
                for kind, parts in group_by_kind(section.parts)
            }
        self._rows = list(self._make_rows())
        self.move_to(0)

    def _make_rows(self) -> Iterator[_TreeRow]:
        for section in self.coverage.sections:
            if self.only_gaps and all(each.status is PartStatus.REACHED for each in section.parts):
                continue
            yield (row := _TreeRow(section, section.parts))
            if row.key not in self._unfolded:
                continue
            for kind, parts in group_by_kind(section.parts):
                shown = [each for each in parts if not (self.only_gaps and each.status is PartStatus.REACHED)]
                if shown:
                    yield (group := _TreeRow(section, parts, kind))
                    yield from self._make_part_rows(section, kind, shown) if group.key in self._unfolded else ()

    def _make_part_rows(self, section: Section, kind: PartKind, parts: Sequence[Part]) -> Iterator[_TreeRow]:
        for part in parts:
            yield (row := _TreeRow(section, [part], kind, part))
            if row.key in self._unfolded:
                for case in part.cases or part.stale_cases:
                    yield _TreeRow(section, [part], kind, part, case)

    def line(self, index: int, width: int) -> Line:
        """Format one row."""
        row = self._rows[index]
        if row.case is not None:
            return (StyledText(f"         {safe_line(str(row.case))}", Style.TEXT),)
        fold = "▾" if row.key in self._unfolded else "▸"
        if row.part is None:
            # What cases expect is no part that they reach.
            reached, total = count_reached(
                part for part in row.parts if row.kind or part.kind is not PartKind.EXPECTED_TOOL
            )
            indent = " " if row.kind is None else "   "
            room = max(min(width - _BAR - 22, 40), 12) - len(indent)
            name = shorten(safe_line(row.section.title if row.kind is None else KIND_NAMES[row.kind]), room)
            bar = (
                StyledText(draw_bar(reached, total, width=_BAR), Style.PASSED if reached == total else Style.WARNING),
                StyledText(f" {reached:,} of {total:,}", Style.MUTED),
            )
            return (
                StyledText(f"{indent}{fold} ", Style.MUTED),
                StyledText(name + " " * (room + 1 - cell_len(name)), Style.HEADING if row.kind is None else Style.TEXT),
                *(bar if total else (StyledText("no part is declared", Style.MUTED),)),
            )
        cases = row.part.cases or row.part.stale_cases
        count = f" · {plural(len(cases), 'case')}" if cases else ""
        place = f" · {safe_line(row.part.place)}" if row.part.place else ""
        return (
            StyledText(f"     {fold if cases else ' '} ", Style.MUTED),
            _SYMBOLS[row.part.status],
            StyledText(f" {safe_line(row.part.name)}", Style.TEXT),
            StyledText(f"{count}{place}", Style.MUTED),
        )

    def blocks(self) -> Sequence[Block]:
        """Describe the row under the cursor."""
        row = self.selected_row
        if row is None:
            return ()
        if row.part is not None:
            return list(_describe_part(row.part))
        if row.kind is not None:
            return list(_describe_kind(row))
        return list(self._describe_section(row.section))

    def _describe_section(self, section: Section) -> Iterator[Block]:
        yield Paragraph.from_text(safe_line(section.title), Style.HEADING)
        for note in section.notes:
            yield Paragraph.from_text(f"note: {safe_line(note)}", Style.WARNING, indent=2)
        for line in argument_lines(section, show_all=False):
            yield Paragraph.from_text(line.strip(), indent=2 + 2 * line.startswith(" "))
        for line in uncertain_lines(self.coverage):
            yield Paragraph.from_text(line.strip(), Style.MUTED, indent=2)


def _describe_kind(row: _TreeRow) -> Iterator[Block]:
    assert row.kind is not None
    for status in PartStatus:
        names = [safe_line(part.name) for part in row.parts if part.status is status]
        if names:
            title = STATUS_NAMES[status]
            if row.kind is PartKind.EXPECTED_TOOL:
                title = "expected" if status is PartStatus.REACHED else "never expected"
            yield Paragraph.from_text(f"{title}: {len(names):,}", Style.HEADING)
            more = f" and {len(names) - _MOST_CASES:,} more" if len(names) > _MOST_CASES else ""
            yield Paragraph.from_text(", ".join(names[:_MOST_CASES]) + more, indent=2)
            yield BLANK


def _describe_part(part: Part) -> Iterator[Block]:
    yield Paragraph.from_text(safe_line(part.name), Style.HEADING)
    if part.place:
        yield Paragraph.from_text(safe_line(part.place), Style.MUTED, indent=2)
    status = STATUS_NAMES[part.status]
    if part.kind is PartKind.EXPECTED_TOOL:
        status = "expected" if part.cases else "never expected"
    yield Paragraph.from_text(status, indent=2)
    for title, cases in (("cases", part.cases), ("cases with a stale record", part.stale_cases)):
        if cases:
            yield BLANK
            yield Paragraph.from_text(f"{title}: {len(cases):,}", Style.HEADING)
            yield from (Paragraph.from_text(safe_line(str(case)), indent=2) for case in cases[:_MOST_CASES])
            if len(cases) > _MOST_CASES:
                yield Paragraph.from_text(f"and {len(cases) - _MOST_CASES:,} more", Style.MUTED, indent=2)


@dataclass(frozen=True, slots=True)
class ScenariosWanted:
    """The user wants scenarios for an agent, with this topic."""

    target: str
    topic: str


class CoverageScreen(ResultScreen[CaseKey | ScenariosWanted | None], Filtering):
    """The tree. The result is the case that the user opens, or the scenarios that a model should write."""

    HELP: ClassVar[str] = (
        "Which parts of agents and their code the cases of the project reach, by the records of earlier runs; nothing "
        "runs. Enter unfolds a row, lists the cases of a part, and goes to a case. ✓ reached, ✗ not reached, ? unknown "
        "because some cases have no current record, ~ reached only before something changed."
    )
    CSS_PATH = "coverage.tcss"
    PLACES: ClassVar[tuple[str, ...]] = ("coverage",)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("coverage")]

    def __init__(self, context: ScreenContext) -> None:
        super().__init__()
        self._screen_context = context
        self._tree: CoverageTree | None = None
        self._listed: FilteredDetails[CoverageTree] | None = None

    def compose(self) -> ComposeResult:
        """Yield the counts, the filter, the tree with the details of a row, and the keys."""
        yield StatusLine(id="coverage-head")
        yield FilterLine("letters of a part, a file or a case")
        yield RowsAndText()
        yield KeyLine()

    def on_mount(self) -> None:
        """Start to measure."""
        self.query_one("#coverage-head", StatusLine).show((StyledText(" reading the records …", Style.RUNNING),))
        self.query_one(RowsAndText).focus_first()  # not the hidden filter
        self._measure()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Leave letters to the filter while the user types."""
        return action != "generate" or not any(line.has_focus_within for line in self.query(FilterLine))

    @work(group="measure", exclusive=True)
    async def _measure(self) -> None:
        try:
            coverage = await self._screen_context.backend.call(measure_project)
        except (PlanError, StoreError) as error:
            self.query_one("#coverage-head", StatusLine).show((StyledText(" Coverage", Style.HEADING),))
            self.query_one(RowsAndText).show_text([Paragraph.from_text(safe_line(str(error)), Style.WARNING)])
            return
        self._tree = CoverageTree(coverage)
        self._listed = FilteredDetails(self._tree)
        head = StyledText(f" {safe_line(summary_line(coverage))}", Style.HEADING)
        self.query_one("#coverage-head", StatusLine).show((head,))
        self._show()

    @on(RowList.Entered)
    def _on_entered(self) -> None:
        if self._tree is None or self._tree.selected_row is None:
            return
        if self._tree.selected_row.case is not None:
            self.dismiss(self._tree.selected_row.case)
            return
        self._tree.toggle_fold()
        self._refresh_rows(from_top=False)

    def steer_rows(self, message: RowList.Steered) -> None:
        """Move the cursor while the user types."""
        self.query_one(RowsAndText).steer_rows(message)

    def filter_rows(self, text: str) -> bool:
        """List the rows that match a text. Return False if no row does."""
        if self._listed is None:
            return True
        self._listed.filter(text)
        self._show()
        return self._listed.is_found

    def action_toggle_gaps(self) -> None:
        """Switch between all parts and those that no case reaches."""
        if self._tree is not None:
            self._tree.toggle_gaps()
            self._refresh_rows(from_top=True)

    def action_generate(self) -> None:
        """Close, and ask for scenarios for what no case reaches in the row under the cursor."""
        row = None if self._tree is None else self._tree.selected_row
        if row is None:
            return
        topic = describe_gaps(row.parts)
        if not topic:
            message = "no scenario can be asked for: choose an agent, or a tool or transfer that no case reaches"
            say(self, message, severity="warning")
            return
        self.dismiss(ScenariosWanted(row.section.targets[0], topic))

    def action_close(self) -> None:
        """List all rows again; without a filter, close the coverage."""
        if not self.end_filter():
            self.dismiss(None)

    def _refresh_rows(self, *, from_top: bool) -> None:
        if self._listed is not None:
            self._listed.refresh()
            self._show(from_top=from_top)

    def _show(self, *, from_top: bool = True) -> None:
        if self._listed is None:
            return
        body = self.query_one(RowsAndText)
        if len(self._listed):
            body.show(self._listed, from_top=from_top)
        else:
            body.show_text([Paragraph.from_text("Every part is reached. f lists all.", Style.STRONG)])


async def show_coverage(widget: Widget, context: ScreenContext) -> None:
    """Show the coverage, then go to the chosen case, or let a model write the wanted scenarios."""
    chosen = await widget.app.push_screen_wait(CoverageScreen(context))
    if isinstance(chosen, CaseKey):
        widget.post_message(CaseWanted(chosen, tab="diff"))
    elif chosen is not None:
        row = Row(kind=RowKind.TARGET, label=safe_line(chosen.target), target=chosen.target)
        await generate(widget, context, row, topic=chosen.topic)
