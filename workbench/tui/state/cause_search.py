"""Searches for the cause of a failure, step by step: the commit that turned a case red, and its smallest variant.

What searches with variants of one case have in common is here, too; that in the instruction is in `ablation_steps`.
"""

from __future__ import annotations

import shlex
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar, Generic, TypeVar

from workbench.engine.ablation import Ablated
from workbench.engine.case_variants import Variant, explain_changed_files
from workbench.engine.shrinking import (
    CandidateOutcome,
    CasePart,
    Failing,
    ShrinkStep,
    Shrunk,
    explain_outcome,
    explain_untried,
    format_numbers,
)
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
from workbench.tui.state.case_status import CaseState
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
        """Commit that was found."""
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

BUDGET = 100
"""Maximum executions, unless the user chooses another number."""
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


Found = TypeVar("Found", bound=Shrunk | Ablated)


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
        """Describe the result in one line; empty as long as there is none."""

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


# The search for the smallest variant of a case that fails the same way: a row for each variant that was executed.

VARIANT_SYMBOLS: Mapping[CandidateOutcome, tuple[str, Style]] = {
    CandidateOutcome.SAME: ("✗", Style.FAILED),
    CandidateOutcome.OTHER: ("≠", Style.WARNING),
    CandidateOutcome.PASSED: ("✓", Style.PASSED),
    CandidateOutcome.ERROR: ("!", Style.ERROR),
    CandidateOutcome.MIXED: ("~", Style.WARNING),
}
_NAME = 14  # width of the names of parts
_OUTCOME = max(len(outcome.value) for outcome in CandidateOutcome)


class ShrinkSteps(SearchSteps[Shrunk]):
    """Rows of a list: first the smallest case so far, then the variants in the order in which they came."""

    COMMAND = "shrink"
    FIRST = "The case itself is executed first: does it still fail?"

    def __init__(self, case: CaseKey) -> None:
        super().__init__(case, budget=BUDGET)
        self.criteria: tuple[str, ...] = ()
        """The failed criteria that the search looks at; empty: all."""
        self.kept_as = ""
        """The id under which the smallest case was kept."""
        self.is_unsaved = False
        """True if the kept case is an unsaved edit, because the file of the set could not be written."""
        self._failure = Failing(frozenset())
        self._steps: list[ShrinkStep] = []

    def __len__(self) -> int:
        return len(self._steps) + bool(self._steps)

    # Progress of the search.

    def begin(self, *, is_continued: bool = False) -> None:
        """Begin the search, or continue one that ended early."""
        if not is_continued:
            self._steps, self._failure, self.kept_as = [], Failing(frozenset()), ""
        super().begin(is_continued=is_continued)

    def add(self, step: ShrinkStep, failure: Failing) -> None:
        """Add a variant. The cursor follows the newest unless the user moved it."""
        follows = self.follows_newest
        self._failure = failure
        self._steps.append(step)
        if follows:
            self.cursor = len(self) - 1

    @property
    def follows_newest(self) -> bool:
        """True unless the user moved the cursor away from the newest variant."""
        return self.cursor >= len(self) - 1

    @property
    def failed_criteria(self) -> Sequence[str]:
        """The criteria that the case fails; empty as long as they are unknown."""
        results = [variant.result for step in self._steps[:1] for variant in step.variants]
        return sorted({each.name for result in results for each in result.metrics if each.status.value == "FAILED"})

    @property
    def smallest(self) -> ShrinkStep | None:
        """The smallest variant so far that fails the same way."""
        return next((step for step in reversed(self._steps) if step.is_smallest), None)

    @property
    def smaller_case(self) -> Shrunk | None:
        """The result if something was left out."""
        return self._found if self._found is not None and self._found.is_smaller else None

    @property
    def is_unkept(self) -> bool:
        """True if there is a result that no eval set has yet."""
        return self.smaller_case is not None and not self.kept_as

    @property
    def has_result(self) -> bool:
        """True if something was left out."""
        return self.smaller_case is not None

    @property
    def is_lost(self) -> bool:
        """True if there is a result that no eval set has yet, and no row of its case leads to it."""
        return self.is_unkept and self.change is CaseChange.REMOVED

    @property
    def can_continue(self) -> bool:
        """True if the search ended before everything was tried."""
        found = self._found
        if found is None or self.is_running or self.change is CaseChange.EDITED:
            return False
        is_early = found.outcome is None or (found.outcome is CandidateOutcome.SAME and bool(found.untried))
        return is_early and (found.is_interrupted or self.budget > found.executions)

    @property
    def selected_step(self) -> ShrinkStep | None:
        """The variant under the cursor; the smallest one on the first row."""
        if not self._steps:
            return None
        return self._steps[self.cursor - 1] if self.cursor else self.smallest or self._steps[0]

    @property
    def selected_variant(self) -> Variant | None:
        """The last execution of the variant under the cursor."""
        return None if self.selected_step is None else self.selected_step.variants[-1]

    # What the screen shows.

    def line(self, index: int, width: int) -> Line:
        """Format one variant, or the smallest case."""
        if index == 0:
            return cut_line((StyledText(f" ▸ {self._format_smallest()}", Style.STRONG),), width)
        step = self._steps[index - 1]
        symbol, style = VARIANT_SYMBOLS[step.outcome]
        sizes = _count(step.sizes[step.part or CasePart.TURNS], step.part or CasePart.TURNS)
        pieces = (
            StyledText(f" {symbol} ", style),
            StyledText(f"{step.executions:>3}  ", Style.MUTED),
            StyledText(f"{step.outcome.value:<{_OUTCOME}}  " if width >= WIDTH_FOR_OUTCOMES else "", style),
            StyledText(sizes, Style.STRONG if step.is_smallest else Style.MUTED),
            StyledText(f"  {safe_line(redact(str(step)), width=max(width, 1))}", Style.MUTED),
        )
        return cut_line(pieces, width)

    @property
    def _question(self) -> str:
        return "what does its failure need?"

    def _selected_blocks(self) -> Iterator[Block]:
        step = self.selected_step
        if not self.cursor:
            yield from self._result_blocks()
        elif step is not None:
            yield from _describe_variant(step)

    def describe_end(self) -> str:
        """Describe the result in one line; empty as long as there is none."""
        if self._problem:
            return self._problem
        if self._found is None:
            return ""
        if self._found.outcome is None:
            return "the search was stopped before the case itself had run"
        if self._found.outcome is not CandidateOutcome.SAME:
            return explain_outcome(self._found, repeats=1)
        return self._format_smallest()

    def _format_smallest(self) -> str:
        found, smallest = self._found, self.smallest
        if smallest is None:
            return f"the case itself: {self._steps[0].outcome.value}"
        if found is None:
            return f"smallest so far: {_format_sizes(smallest.sizes)}"
        if not found.is_smaller:
            return "no smaller case was found" if found.untried else "nothing can be left out"
        before, after = self._steps[0].sizes, smallest.sizes
        changes = [f"{before[part]} → {_count(after[part], part)}" for part in CasePart if before[part] != after[part]]
        return f"smallest case: {', '.join(changes)}"

    def _goal_line(self) -> Line:
        symptoms = [redact(str(symptom)) for symptom in sorted(self._failure.symptoms)]
        if symptoms:
            count = f" (1 of {len(symptoms)} differences)" if len(symptoms) > 1 else ""  # first: the line may be cut
            return StyledText(f" must still fail{count}: ", Style.MUTED), StyledText(safe_line(symptoms[0]))
        wanted = ", ".join(self.criteria) or "all criteria that fail now, by the same differences"
        return StyledText(" must still fail: ", Style.MUTED), StyledText(safe_line(wanted))

    def _count_executions(self) -> int:
        return self._steps[-1].executions if self._steps else 0

    def _end_pieces(self) -> Line:
        end = "   not kept yet" if self.is_unkept else ""
        if self.kept_as:
            end = f"   {'not saved yet: ' if self.is_unsaved else 'kept as '}{safe_line(self.kept_as)}"
        untried = explain_untried(self._found) if self._found is not None else ""
        return (
            StyledText(end, Style.PASSED if self.kept_as and not self.is_unsaved else Style.WARNING),
            StyledText(f"   {untried}" if untried else "", Style.WARNING),
        )

    def _result_blocks(self) -> Iterator[Block]:
        found, smallest = self._found, self.smallest
        if found is not None and found.changed_files:
            yield Paragraph.from_text(safe_line(explain_changed_files(found.changed_files)), Style.WARNING)
        if found is not None and found.outcome not in (None, CandidateOutcome.SAME):
            yield Paragraph.from_text(safe(redact(explain_outcome(found, repeats=1))), Style.WARNING)
            return
        if smallest is None:
            return
        before = self._steps[0].sizes
        for part in CasePart:
            if not before[part]:
                continue
            numbers = f"  ({format_numbers(found.turns)})" if found is not None and part is CasePart.TURNS else ""
            count = StyledText(f"{before[part]:>3} → {smallest.sizes[part]}")
            yield Paragraph((StyledText(f"{part.value:<{_NAME}}", Style.MUTED), count, StyledText(numbers, Style.KEY)))
        for symptom in sorted(self._failure.symptoms):
            yield Paragraph.from_text(safe(redact(str(symptom))), Style.FAILED, hang=2)
        if found is not None and (untried := explain_untried(found)):
            yield Paragraph.from_text(untried, Style.WARNING)
            if found.error:
                yield Paragraph.from_text(safe(redact(found.error)), Style.ERROR, indent=2)
        errors = sum(step.outcome is CandidateOutcome.ERROR for step in self._steps)
        if errors:
            text = f"{plural(errors, 'variant')} ended in ERROR, which never counts as the same failure"
            yield Paragraph.from_text(text, Style.WARNING)


def _describe_variant(step: ShrinkStep) -> Iterator[Block]:
    yield Paragraph.from_text(safe(redact(str(step))), Style.HEADING, hang=2)
    symbol, style = VARIANT_SYMBOLS[step.outcome]
    yield Paragraph.from_text(f"{symbol} {step.outcome.value}", style)
    sizes = f"{_format_sizes(step.sizes)}; execution {step.executions}, {format_duration(step.seconds)}"
    yield Paragraph.from_text(sizes, Style.MUTED)
    failure = next((each.result.failure for each in reversed(step.variants) if each.result.failure is not None), None)
    if failure is not None:
        yield Paragraph.from_text(safe(redact(failure.message)), Style.ERROR, hang=2)


def _format_sizes(sizes: Mapping[CasePart, int]) -> str:
    return ", ".join(_count(sizes[part], part) for part in CasePart if sizes[part] or part is CasePart.TURNS)


def _count(number: int, part: CasePart) -> str:
    return plural(number, part.value.removesuffix("s"))


def explain_unshrinkable(state: ProjectState, case: CaseKey) -> str:
    """Explain by its newest verdict why a case has no failure to shrink; empty if it has one."""
    record = state.board.get_record(case)
    if record is None:
        return "no eval set lists this case any more"
    name = safe_line(case.name, width=40)
    match record.state:
        case CaseState.FAILED | CaseState.QUARANTINED:
            return ""
        case CaseState.PASSED:
            return f"{name} passed, so there is no failure to shrink"
        case CaseState.ERROR:
            return f"{name} ended in ERROR, which is not a failure to shrink: see the diff for its reason"
        case CaseState.WAITING | CaseState.RUNNING:
            return f"{name} is {record.state.value} in a run: wait for its result"
        case CaseState.NOT_RUN:
            return f"{name} has not run yet: {state.find_key('run_case')} runs it; a failure can be shrunk then"
        case _:
            return f"{name}: {record.state.value}; only a case that FAILED can be shrunk"


def has_unsaved_edits(state: ProjectState, case: CaseKey) -> bool:
    """True if the case has edits that its file does not have."""
    return any(state.browser.is_edited(row) for row in state.browser.rows if row.case == case)


def list_influences(state: ProjectState, case: CaseKey) -> list[str]:
    """List what may influence a search that begins now, in sentences."""
    found = []
    if has_unsaved_edits(state, case):
        found.append(UNSAVED_EDITS)
    if state.watch.is_active:
        found.append("watch is on: code that you save counts from the next execution on")
    if state.is_busy:
        found.append("a run is in progress: it and the search use the agent at the same time")
    return found
