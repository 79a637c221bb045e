"""The coverage of the project: a tree of agents and code with bars, and the cases that reach each part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from rich.cells import cell_len
from textual import on, work
from textual.app import ComposeResult
from textual.widget import Widget

from workbench.engine.plan import PlanError, RunOptions, Selection
from workbench.engine.workspace import Workspace
from workbench.model.identity import CaseKey
from workbench.model.target import AgentKind
from workbench.model.text import join_some
from workbench.report.coverage_report import (
    KIND_NAMES,
    STATUS_NAMES,
    Coverage,
    CoveragePart,
    CoverageSection,
    PartKind,
    PartStatus,
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
from workbench.tui.screen_context import CaseWanted, ScreenContext
from workbench.tui.screens.scenarios_screen import generate
from workbench.tui.state.browser_list import BrowserRow, RowKind
from workbench.tui.state.case_status import Badge
from workbench.tui.state.finder import FilteredRows
from workbench.tui.state.text_layout import (
    BLANK,
    Block,
    ItemRows,
    Line,
    Paragraph,
    Style,
    StyledText,
    plural,
    safe_line,
    shorten,
)
from workbench.tui.widgets.inputs import Filtering, FilterLine
from workbench.tui.widgets.key_line import KeyLine, StatusLine, say
from workbench.tui.widgets.row_lists import RowList, RowsAndText
from workbench.watch.case_coverage import measure_coverage

_BADGES = {
    PartStatus.REACHED: Badge("✓", "reached", Style.PASSED),
    PartStatus.STALE: Badge("~", "reached only before something changed", Style.WARNING),
    PartStatus.UNKNOWN: Badge("?", "unknown, because some cases have no current record", Style.MUTED),
    PartStatus.UNREACHED: Badge("✗", "not reached", Style.FAILED),
}
_BAR = 12  # cells
_MOST_CASES = 200  # in the text below; the rows have all


_UNCERTAIN = {PartStatus.STALE: "stale", PartStatus.UNKNOWN: "unknown"}
"""The words for parts that may be reached, in the counts of a row."""


def _draw_statuses(statuses: Counter[PartStatus]) -> Line:
    """Draw a bar whose middle are the parts of which no current record says whether a case reaches them."""
    reached, total = statuses[PartStatus.REACHED], statuses.total()
    uncertain = sum(statuses[each] for each in _UNCERTAIN)
    drawn = draw_bar(reached, total, width=_BAR)
    both = draw_bar(reached + uncertain, total, width=_BAR)
    filled = drawn.count("█")
    between = max(both.count("█") - filled, 1 if uncertain and filled < _BAR else 0)
    return (
        StyledText("█" * filled, Style.PASSED if reached == total else Style.WARNING),
        StyledText("▒" * between, Style.MUTED),
        StyledText("░" * (_BAR - filled - between), Style.PASSED if reached == total else Style.WARNING),
    )


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

    section: CoverageSection
    parts: Sequence[CoveragePart]
    kind: PartKind | None = None
    part: CoveragePart | None = None
    case: CaseKey | None = None

    @property
    def key(self) -> tuple[str, PartKind | None, str, str]:
        """Identity of a row that can be unfolded."""
        part = self.part
        return self.section.title, self.kind, part.name if part else "", part.place if part else ""


class CoverageTree(ItemRows[_TreeRow]):
    """Rows of a coverage. Sections are unfolded at first. With `only_gaps`, parts that a case reaches are left out."""

    def __init__(self, coverage: Coverage) -> None:
        self.coverage = coverage
        self.only_gaps = False
        self._is_searched = False
        titles = [safe_line(section.title) for section in coverage.sections]
        self._longest = max(map(cell_len, (*KIND_NAMES.values(), *titles))) + 4  # with the fold before it
        self._unfolded = {_TreeRow(section, section.parts).key for section in coverage.sections}
        self.rows: list[_TreeRow] = list(self._make_rows())

    def toggle_fold(self) -> None:
        """Unfold or fold the row under the cursor."""
        row = self.selected_row
        if row is not None and row.case is None:
            self._unfolded ^= {row.key}
            self._rebuild()

    def search(self, *, is_searched: bool) -> None:
        """Begin or end to list all parts, also those of folded rows. The row under the cursor stays, and is visible."""
        if is_searched == self._is_searched:
            return
        self._is_searched = is_searched
        row = self.selected_row
        if row is not None and not is_searched:
            self._unfolded |= {_TreeRow(row.section, ()).key}
            if row.part is not None:
                self._unfolded |= {_TreeRow(row.section, (), row.kind).key}
        self._rebuild()

    def unfold(self) -> None:
        """Unfold the row under the cursor."""
        row = self.selected_row
        if row is not None and row.key not in self._unfolded:
            self.toggle_fold()

    def _rebuild(self) -> None:
        """List the rows again, with the cursor on the same one."""
        row = self.selected_row
        self.rows = list(self._make_rows())
        selected = None if row is None else (row.key, row.case)
        self.move_to(next((place for place, each in enumerate(self.rows) if (each.key, each.case) == selected), 0))

    def _is_unfolded(self, row: _TreeRow) -> bool:
        return row.key in self._unfolded or (self._is_searched and row.part is None)

    def toggle_gaps(self) -> None:
        """List only parts that no current record reaches, unfolded, or all parts again."""
        self.only_gaps = not self.only_gaps
        if self.only_gaps:
            self._unfolded |= {
                _TreeRow(section, parts, kind).key
                for section in self.coverage.sections
                for kind, parts in group_by_kind(section.parts)
            }
        self.rows = list(self._make_rows())
        self.move_to(0)

    def _make_rows(self) -> Iterator[_TreeRow]:
        for section in self.coverage.sections:
            if self.only_gaps and all(each.status is PartStatus.REACHED for each in section.parts):
                continue
            yield (row := _TreeRow(section, section.parts))
            if not self._is_unfolded(row):
                continue
            for kind, parts in group_by_kind(section.parts):
                shown = [each for each in parts if not (self.only_gaps and each.status is PartStatus.REACHED)]
                if shown:
                    yield (group := _TreeRow(section, parts, kind))
                    yield from self._make_part_rows(section, kind, shown) if self._is_unfolded(group) else ()

    def _make_part_rows(
        self, section: CoverageSection, kind: PartKind, parts: Sequence[CoveragePart]
    ) -> Iterator[_TreeRow]:
        for part in parts:
            yield (row := _TreeRow(section, [part], kind, part))
            if row.key in self._unfolded:
                for case in part.cases or part.stale_cases:
                    yield _TreeRow(section, [part], kind, part, case)

    def line(self, index: int, width: int) -> Line:
        row = self.rows[index]
        if row.case is not None:
            return (StyledText(f"         {safe_line(str(row.case))}", Style.TEXT),)
        fold = "▾" if self._is_unfolded(row) else "▸"
        if row.part is None:
            # What cases expect is no part that they reach.
            reached, total = count_reached(
                part for part in row.parts if row.kind or part.kind is not PartKind.EXPECTED_TOOL
            )
            indent = " " if row.kind is None else "   "
            room = max(min(width - _BAR - 22, self._longest), 12) - len(indent)
            name = shorten(safe_line(row.section.title if row.kind is None else KIND_NAMES[row.kind]), room)
            statuses = Counter(part.status for part in row.parts if row.kind or part.kind is not PartKind.EXPECTED_TOOL)
            counts = ((f"{statuses[each]:,} {word}", statuses[each]) for each, word in _UNCERTAIN.items())
            more = "".join(f" · {text}" for text, count in counts if count)
            bar = (
                *_draw_statuses(statuses),
                StyledText(f" {reached:,} of {total:,}", Style.MUTED),
                StyledText(more, Style.MUTED),
            )
            return (
                StyledText(f"{indent}{fold} ", Style.MUTED),
                StyledText(name + " " * (room + 1 - cell_len(name)), Style.HEADING if row.kind is None else Style.TEXT),
                *(bar if total else (StyledText("no part is declared", Style.MUTED),)),
            )
        cases, badge = row.part.cases or row.part.stale_cases, _BADGES[row.part.status]
        count = f" · {plural(len(cases), 'case')}" if cases else ""
        place = f" · {safe_line(row.part.place)}" if row.part.place else ""
        return (
            StyledText(f"     {fold if cases else ' '} ", Style.MUTED),
            StyledText(badge.symbol, badge.style),
            StyledText(f" {safe_line(row.part.name)}", Style.TEXT),
            StyledText(f"{count}{place}", Style.MUTED),
        )

    def blocks(self) -> Sequence[Block]:
        row = self.selected_row
        if row is None:
            return ()
        if row.part is not None:
            return list(_describe_part(row.part))
        if row.kind is not None:
            return list(_describe_kind(row))
        return list(self._describe_section(row.section))

    def _describe_section(self, section: CoverageSection) -> Iterator[Block]:
        yield Paragraph.from_text(safe_line(section.title), Style.HEADING)
        for note in section.notes:
            yield Paragraph.from_text(f"note: {safe_line(note)}", Style.WARNING, indent=2)
        for line in argument_lines(section, show_all=False):
            yield Paragraph.from_text(line.strip(), indent=2 + 2 * line.startswith(" "))
        for kind, parts in group_by_kind(section.parts):
            counts = Counter(
                "expected"
                if kind is PartKind.EXPECTED_TOOL and part.cases
                else "never expected"
                if kind is PartKind.EXPECTED_TOOL
                else STATUS_NAMES[part.status]
                for part in parts
            )
            text = ", ".join(f"{count:,} {status}" for status, count in counts.items())
            yield Paragraph.from_fact(KIND_NAMES[kind], text, indent=2)
        targets = {*section.targets}
        of_section = replace(
            self.coverage,
            stale=[each for each in self.coverage.stale if each.case.target in targets],
            unknown=[each for each in self.coverage.unknown if each.case.target in targets],
        )
        for line in uncertain_lines(of_section):
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
            yield Paragraph.from_text(join_some(names, _MOST_CASES), indent=2)
            yield BLANK


def _describe_part(part: CoveragePart) -> Iterator[Block]:
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


def describe_wanted(parts: Iterable[CoveragePart]) -> str:
    """Describe the parts that no case reaches as a topic. A run shows whether parts that are unknown need scenarios."""
    return describe_gaps(part for part in parts if part.status is PartStatus.UNREACHED)


class CoverageScreen(ResultScreen[CaseKey | None], Filtering):
    """The tree. The result is the case that the user opens."""

    HELP: ClassVar[str] = (
        "Which parts of agents and their code the cases of the project reach, by the records of earlier runs; nothing "
        "runs. Enter unfolds a row, lists the cases of a part, and goes to a case. ✓ reached, ✗ not reached, ? unknown "
        "because some cases have no current record, ~ reached only before something changed."
    )
    SYMBOLS: ClassVar[Sequence[Badge]] = (*_BADGES.values(), Badge("▒", "stale or unknown, in a bar", Style.MUTED))
    CSS_PATH = "coverage.tcss"
    PLACES = ("coverage",)

    def __init__(self, context: ScreenContext, main: Widget) -> None:
        """Create the screen. `main` gets the messages about new scenarios."""
        super().__init__()
        self._screen_context = context
        self._main = main
        self._tree: CoverageTree | None = None
        self._listed: FilteredRows | None = None

    def compose(self) -> ComposeResult:
        yield StatusLine(id="coverage-head")
        yield FilterLine("letters of a part or a file", self.follow_text)
        yield RowsAndText()
        yield KeyLine(enter="open", first=("coverage_close",))

    def on_mount(self) -> None:
        self.query_one("#coverage-head", StatusLine).show((StyledText(" reading the records …", Style.RUNNING),))
        self.query_one(RowsAndText).focus_first()  # not the hidden filter
        self._measure()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Leave letters to the filter while the user types. Without anything to list, no key changes the list."""
        if action in ("generate", "toggle_gaps") and any(line.has_focus_within for line in self.query(FilterLine)):
            return False
        has_rows = self._tree is not None and bool(self._tree.coverage.sections)
        return action not in ("generate", "toggle_gaps") or has_rows

    @work(group="measure", exclusive=True)
    async def _measure(self) -> None:
        try:
            coverage = await self._screen_context.backend.call(measure_project)
        except (PlanError, StoreError) as error:
            self.query_one("#coverage-head", StatusLine).show((StyledText(" Coverage", Style.HEADING),))
            self.query_one(RowsAndText).show_text([Paragraph.from_text(safe_line(str(error)), Style.WARNING)])
            return
        self._tree = CoverageTree(coverage)
        self._listed = FilteredRows(self._tree)
        self.filter_rows(self.query_one(FilterLine).text)  # typed meanwhile
        self.refresh_bindings()

    @on(RowList.Entered)
    def _on_entered(self) -> None:
        if self._tree is None or self._tree.selected_row is None:
            return
        if self._tree.selected_row.case is not None:
            self.dismiss(self._tree.selected_row.case)
            return
        if self.query_one(FilterLine).text:  # it would hide what the row contains
            self._tree.unfold()
            self.end_filter()
            return
        self._tree.toggle_fold()
        self._refresh_rows(from_top=False)

    def filter_rows(self, text: str) -> bool:
        if self._listed is None or self._tree is None:
            return True
        self._tree.search(is_searched=bool(text))
        self._listed.filter(text)
        self._show()
        return self._listed.is_found

    def action_toggle_gaps(self) -> None:
        if self._tree is not None:
            self._tree.toggle_gaps()
            self._refresh_rows(from_top=True)

    @work(group="generate", exclusive=True)
    async def action_generate(self) -> None:
        """Let a model write scenarios for what no case reaches in the row under the cursor. Close if some are saved."""
        row = None if self._tree is None else self._tree.selected_row
        if row is None:
            return
        topic = describe_wanted(row.parts)
        if not topic:
            message = "no scenario can be asked for: choose an agent, or a tool or transfer that no case reaches"
            say(self, message, severity="warning")
            return
        target = row.section.targets[0]
        agent = BrowserRow(kind=RowKind.TARGET, label=safe_line(target), target=target)
        if await generate(self._main, self._screen_context, agent, topic=topic):
            self.dismiss(None)

    def _refresh_rows(self, *, from_top: bool) -> None:
        if self._listed is not None:
            self._listed.refresh()
            self._show(from_top=from_top)

    def on_resize(self) -> None:
        self._show_head()

    def _show_head(self) -> None:
        if self._tree is None:
            return
        coverage = self._tree.coverage
        gaps = "   only what no current record reaches" if self._tree.only_gaps else ""
        whole = f" {safe_line(summary_line(coverage))}"
        if cell_len(whole + gaps) > self.size.width:
            counts = [f"{coverage.current:,} current"]
            counts += [
                f"{len(cases):,} {word}"
                for word, cases in (("stale", coverage.stale), ("unknown", coverage.unknown))
                if cases
            ]
            whole, gaps = f" {plural(coverage.selected, 'case')}: {', '.join(counts)}", gaps and "   gaps"
        head = StyledText(whole, Style.HEADING), StyledText(gaps, Style.WARNING)
        self.query_one("#coverage-head", StatusLine).show(head)

    def _show(self, *, from_top: bool = True) -> None:
        if self._listed is None:
            return
        self._show_head()
        body = self.query_one(RowsAndText)
        if len(self._listed):
            body.show(self._listed, from_top=from_top)
        else:
            body.show_text([Paragraph.from_text("Every part is reached. f lists all.", Style.STRONG)])


async def show_coverage(widget: Widget, context: ScreenContext) -> None:
    """Show the coverage, then go to the chosen case."""
    chosen = await widget.app.push_screen_wait(CoverageScreen(context, widget))
    if chosen is not None:
        widget.post_message(CaseWanted(chosen, tab="diff"))
