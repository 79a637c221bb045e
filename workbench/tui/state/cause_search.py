"""Searches for the cause of a failure, step by step: the commit that turned a case red, and the base of searches with
variants of one case, which are in `variant_steps`."""

from __future__ import annotations

import shlex
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from workbench.engine.case_variants import Variant, explain_changed_files
from workbench.model.identity import CaseKey
from workbench.model.text import format_duration, redact
from workbench.report.bisect_report import (
    BisectReport,
    BisectStep,
    Commit,
    CommitOutcome,
    bisect_lines,
    describe_step,
    describe_work,
)
from workbench.tui.state.diff_content import make_diff
from workbench.tui.state.diff_lines import DiffSource
from workbench.tui.state.project_state import ProjectState
from workbench.tui.state.text_layout import (
    BLANK,
    Block,
    Line,
    ListRows,
    Paragraph,
    Style,
    StyledText,
    bar,
    cut_line,
    plural,
    safe,
    safe_line,
)
from workbench.tui.state.watch_state import WatchMode

if TYPE_CHECKING:
    from workbench.engine.ablation import Ablated
    from workbench.engine.shrinking import Shrunk

# The search for the commit that turned a case red: a row for each commit that was looked at.

COMMIT_SYMBOLS = {
    CommitOutcome.PASSED: ("✓", Style.PASSED),
    CommitOutcome.FAILED: ("✗", Style.FAILED),
    CommitOutcome.SKIPPED: ("-", Style.MUTED),
}
UNSAVED_EDITS = "the case has unsaved edits, which the search uses"
_SHOWN_SUBJECT = 40  # characters of a commit in the head
_LEAST_WAIT = 2  # seconds; a shorter wait is not shown
_MINUTE = 60  # seconds
_DIFF_STYLES = {"+": Style.ADDED, "-": Style.REMOVED, "@": Style.KEY}


class BisectSteps(ListRows):
    """Rows of a list: first the result, once there is one, then the commits in the order in which they came."""

    def __init__(self, case: CaseKey) -> None:
        self._case = case
        self._began = time.monotonic()
        self._steps: dict[str, BisectStep] = {}
        self._executing: Commit | None = None
        self._report: BisectReport | None = None
        self.problem = ""

    def __len__(self) -> int:
        return len(self._steps) + (self._report is not None)

    def add(self, step: BisectStep) -> None:
        """Add a commit, or what else is now known of one. The cursor follows the newest unless the user moved it."""
        is_at_end = self.cursor >= len(self) - 1
        self._executing = None
        self._steps[step.commit.id] = step
        if is_at_end:
            self.cursor = len(self) - 1

    def announce(self, commit: Commit) -> None:
        """Show the commit in which the case is executed now."""
        self._executing, self._began = commit, time.monotonic()

    def finish(self, report: BisectReport) -> None:
        """Add the result, and put the cursor on it."""
        self._report = report
        self.cursor = 0

    @property
    def is_running(self) -> bool:
        """True until there is a result, or a problem that ended the search."""
        return self._report is None and not self.problem

    @property
    def selected_step(self) -> BisectStep | None:
        """Commit under the cursor; None on the result."""
        number = self.cursor - (self._report is not None)
        return list(self._steps.values())[number] if 0 <= number < len(self._steps) else None

    @property
    def found_step(self) -> BisectStep | None:
        found = self._report.found if self._report is not None else None
        return None if found is None else self._steps.get(found.id)

    def line(self, index: int, width: int) -> Line:
        """Format one commit, or the result."""
        if self._report is not None and index == 0:
            return (StyledText(f" ▸ {self._result_text(self._report)}", Style.STRONG),)
        step = list(self._steps.values())[index - (self._report is not None)]
        symbol, style = COMMIT_SYMBOLS[step.outcome]
        pieces = (
            StyledText(f" {symbol} ", style),
            StyledText(step.commit.short, Style.KEY),
            StyledText(f"  {describe_step(step)}", style),
            StyledText(f"  {safe_line(step.commit.subject)}", Style.MUTED),
        )
        return cut_line(pieces, width)

    def header_lines(self) -> list[Line]:
        """Format the case, and how far the search is."""
        if self._report is not None:
            done = describe_work(self._report)
        elif self.problem:
            done = "the search found nothing"
        else:
            left = next((step.suspects for step in reversed(self._steps.values()) if step.suspects is not None), None)
            searched = f", {plural(left, 'commit')} left" if left is not None else ""
            done = f"{self._format_work()}   {plural(len(self._steps), 'commit')} looked at{searched}"
            done += _format_wait(self._began)
        name = StyledText(f" {safe_line(str(self._case))}", Style.STRONG)
        return [(name, StyledText("   which commit turned it red?", Style.MUTED)), (StyledText(f" {done}"),)]

    def _format_work(self) -> str:
        commit = self._executing
        if commit is None:
            return "searching …"
        return f"executing {commit.short} {safe_line(redact(commit.subject), width=_SHOWN_SUBJECT)} …"

    def blocks(self) -> list[Block]:
        """Describe the result, or the selected commit; before them what stopped the search."""
        blocks = self.problem_blocks()
        step = self.selected_step
        if step is not None:
            return [*blocks, *_describe_commit(step)]
        if self._report is not None:
            lines = list(bisect_lines(self._report))
            blocks += [*map(_format_diff_line, lines), *self._name_command(" ".join(lines))]
        return blocks

    def problem_blocks(self) -> list[Block]:
        """Describe what stopped the search."""
        if not self.problem:
            return []
        return [Paragraph.from_text(safe(self.problem), Style.ERROR), *self._name_command(self.problem), BLANK]

    def _name_command(self, text: str) -> Iterator[Block]:
        """Say how to set the options that a text advises: one of them is asked for, the others the command has."""
        if " --repeats" in text:
            words = "The number of repeats is asked for when you press escape, and then b again."
            yield Paragraph.from_text(words, Style.MUTED)
        if " --" in text.replace(" --repeats", ""):
            yield _name_command("bisect", self._case)

    @staticmethod
    def _result_text(report: BisectReport) -> str:
        found = report.found
        if report.doubt:
            return f"not certain: {report.suspects[0].commit.short}"
        if found is None:
            return f"one of {plural(len(report.suspects), 'commit')}"
        return f"{found.short}  {safe_line(found.subject)}"


def _name_command(command: str, case: CaseKey) -> Block:
    """Name the command as one types it in a shell. In `SET:CASE` a colon or comma of an id would separate."""
    is_plain = not set(":,").intersection(case.name)
    words = [f"{case.eval_set}:{case.name}"] if is_plain else [case.eval_set, "--case", case.name]
    typed = shlex.join(["workbench", command, *words])
    return Paragraph.from_text(f"Options are those of the command `{safe_line(typed)}`.", Style.MUTED)


def _format_wait(since: float) -> str:
    """Format the whole seconds since a moment of the monotonic clock; empty below two of them."""
    seconds = int(time.monotonic() - since)
    if seconds < _LEAST_WAIT:
        return ""
    return f"   {seconds} s" if seconds < _MINUTE else f"   {format_duration(seconds)}"


def _describe_commit(step: BisectStep) -> Iterator[Block]:
    commit = step.commit
    yield Paragraph.from_text(f"{commit.id}", Style.HEADING)
    yield Paragraph.from_text(f"{commit.date[:10]}  {safe_line(commit.author)}", Style.MUTED)
    yield Paragraph.from_text(safe_line(commit.subject))
    yield BLANK
    yield Paragraph.from_text(safe(redact(describe_step(step))), COMMIT_SYMBOLS[step.outcome][1])
    if step.reason:
        yield Paragraph.from_text(safe(redact(step.reason)), indent=2)
    for sample in step.samples:
        text = f"{sample.status.value.lower()}, {sample.source.value}, run {safe_line(sample.run_id)}"
        yield Paragraph.from_text(text, Style.MUTED, indent=2)


def _format_diff_line(line: str) -> Block:
    """Format a line of the result, whose differences begin with a sign."""
    text = line.lstrip()
    style = _DIFF_STYLES.get(text[:1], Style.TEXT)
    return Paragraph.from_text(safe(text), style, indent=len(line) - len(text)) if text else BLANK


# A search with variants of one case: what both searches below have in common.

MOST_EXECUTIONS = 100_000

_PROGRESS_BAR = 10
WIDTH_FOR_OUTCOMES = 60
"""Least width of a row that says in words how a variant ended; below it, only the symbol does."""


class CaseChange(Enum):
    """What became of a case after a search for it began, in words for the user."""

    EDITED = "the case was edited after the search began; only a search that begins again uses the edits"
    REMOVED = "the case was renamed or deleted after the search began"


def find_change(before: Mapping[str, Any], now: Mapping[str, Any] | None) -> CaseChange | None:
    """Compare a case as it was when the search began with the case of the eval set now; None if that is gone."""
    if now is None:
        return CaseChange.REMOVED
    return None if now == before else CaseChange.EDITED


Found = TypeVar("Found", bound="Shrunk | Ablated")


class SearchSteps(ListRows, Generic[Found]):
    """Rows of a list: first the result so far, then what the search has tried."""

    COMMAND: ClassVar[str]
    FIRST: ClassVar[str]
    """What is executed first, in a sentence."""

    def __init__(self, case: CaseKey, *, budget: int) -> None:
        self.case = case
        self.notes: Sequence[str] = ()
        """Sentences about what may influence the search."""
        self.budget = budget
        self.change: CaseChange | None = None
        """What became of the case in its eval set; None while it is as it was."""
        self.changed_files: Sequence[str] = ()
        """Files of the agent that changed since the search began."""
        self.is_running = False
        self.is_stopping = False
        self._problem = ""
        self._trying = ""
        self._tried_since = 0.0
        self._found: Found | None = None
        self._diff: tuple[Variant, Sequence[Block]] | None = None  # of the variant that was shown last

    # Progress of the search.

    def begin(self, *, is_continued: bool = False) -> None:
        """Begin the search, or continue one that ended early."""
        if not is_continued:
            self.cursor, self.change, self.changed_files = 0, None, ()
        self._found, self._problem, self._trying = None, "", ""
        self.is_running, self.is_stopping = True, False

    def announce(self, trying: str) -> None:
        """Show what is executed now."""
        self._trying, self._tried_since = safe_line(redact(trying)), time.monotonic()

    def finish(self, found: Found) -> None:
        """Show the result; put the cursor on it unless the user looks at something else."""
        if self.follows_newest:
            self.cursor = 0
        self._found = found
        self.is_running = self.is_stopping = False

    def fail(self, problem: str, found: Found | None = None) -> None:
        """Show what prevents the search, or what ended it after something was `found`."""
        self._problem, self._found = problem, found
        self.is_running = self.is_stopping = False

    @property
    @abstractmethod
    def follows_newest(self) -> bool:
        """True unless the user moved the cursor away from the newest variant."""

    @property
    @abstractmethod
    def has_result(self) -> bool:
        """True if the search ended with something to show."""

    @property
    def is_lost(self) -> bool:
        """True if there is a result that must not be lost, and no row of its case leads to it."""
        return False

    @property
    @abstractmethod
    def can_continue(self) -> bool:
        """True if the search ended before everything was tried."""

    @property
    def least_budget(self) -> int:
        """The least budget that makes sense."""
        return 1

    @property
    def can_start(self) -> bool:
        """True if the search can continue, or begin again: that needs the case."""
        return not self.is_running and (self.can_continue or self.change is not CaseChange.REMOVED)

    @property
    @abstractmethod
    def selected_variant(self) -> Variant | None:
        """The last execution of the row under the cursor."""

    # What the screen shows.

    @abstractmethod
    def describe_end(self) -> str:
        """Describe the result in one line; empty without a result."""

    @property
    @abstractmethod
    def _question(self) -> str: ...

    @abstractmethod
    def _goal_line(self) -> Line: ...

    @abstractmethod
    def _count_executions(self) -> int: ...

    @abstractmethod
    def _end_pieces(self) -> Line: ...

    @abstractmethod
    def _selected_blocks(self) -> Iterator[Block]: ...

    def header_lines(self) -> list[Line]:
        """Format the case, what the search compares with, and how far it is."""
        name = StyledText(f" {safe_line(str(self.case))}", Style.STRONG)
        title: Line = (name, StyledText(f"   {self._question}", Style.MUTED))
        return [title, self._goal_line(), self._progress_line()]

    def note_line(self) -> Line:
        """Format what changed since the search began, and what may influence it; empty if nothing does."""
        changed = explain_changed_files(self.changed_files if self._found is None else self._found.changed_files)
        notes = [
            *([self.change.value] if self.change is not None else ()),
            *([changed] if changed else ()),
            *self.notes,
        ]
        return (StyledText(f" {safe_line('; '.join(notes))}", Style.WARNING),) if notes else ()

    def blocks(self) -> list[Block]:
        """Describe the selected row, with the diff of its last execution."""
        if not len(self):
            return self.text_blocks()
        blocks = [*self._problem_blocks(), *self._selected_blocks()]
        diff = self._make_diff()
        return [*blocks, BLANK, *diff] if diff else blocks

    def _make_diff(self) -> Sequence[Block]:
        variant, source = self.selected_variant, self.make_source()
        if variant is None or source is None:
            return ()
        if self._diff is None or self._diff[0] is not variant:
            self._diff = variant, make_diff(source).blocks
        return self._diff[1]

    def text_blocks(self) -> list[Block]:
        """Describe the search before there are rows."""
        if self._problem:
            return [*self._problem_blocks()]
        if self._found is not None:
            return [Paragraph.from_text("The search was stopped before its first execution ended.", Style.MUTED)]
        return [Paragraph.from_text(self.FIRST, Style.MUTED)]

    def make_source(self) -> DiffSource | None:
        """Return the selected execution beside what was expected; None without one."""
        if self.selected_variant is None:
            return None
        case, result = self.selected_variant
        return DiffSource(case=case, turns=result.execution.turns, result=result)

    def _progress_line(self) -> Line:
        used = self._count_executions() if self._found is None else self._found.executions
        spent = f"{used} of {plural(self.budget, 'execution')}"
        if used > self.budget:  # it was lowered after they were used
            spent = f"{plural(used, 'execution')}, more than the budget of {self.budget}"
        if self.is_running:
            share = min(used / self.budget, 1.0)
            trying = f"trying {self._trying} …{_format_wait(self._tried_since)}" if self._trying else "planning …"
            doing = "stopping …" if self.is_stopping else trying
            return (
                StyledText(f" {bar(share, width=_PROGRESS_BAR)} ", Style.RUNNING),
                StyledText(spent),
                StyledText(f"   {doing}", Style.RUNNING),
            )
        if self._problem and not self.has_result:
            return (StyledText(" the search found nothing", Style.ERROR),)
        return (StyledText(f" {spent}"), *self._end_pieces())

    def _problem_blocks(self) -> Iterator[Block]:
        if self._problem:
            yield Paragraph.from_text(safe(redact(self._problem)), Style.ERROR)
            if " --" in self._problem:
                yield _name_command(self.COMMAND, self.case)
            yield BLANK


def has_unsaved_edits(state: ProjectState, case: CaseKey) -> bool:
    """True if the case has edits that its file does not have."""
    return any(state.browser.is_edited(row) for row in state.browser.rows if row.case == case)


def list_influences(state: ProjectState, case: CaseKey) -> list[str]:
    """List what may influence a search that begins now, in sentences."""
    found = []
    if has_unsaved_edits(state, case):
        found.append(UNSAVED_EDITS)
    if state.watch.is_active:
        word = "paused" if state.watch.mode is WatchMode.PAUSED else "on"
        found.append(f"watch is {word}: code that you save counts from the next execution on")
    if state.is_busy:
        found.append("a run is in progress: it and the search use the agent at the same time")
    return found
