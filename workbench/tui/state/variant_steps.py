"""Searches with variants of one case, step by step: for the smallest one, and for the parts of an instruction that
matter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from workbench.engine.ablation import Ablated, AblationExecutions, BlockEffect, Effect, InstructionBlock
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
from workbench.model.results import CaseStatus
from workbench.model.target import AgentKind
from workbench.model.text import format_duration, redact, score_text
from workbench.tui.state.case_status import CaseState
from workbench.tui.state.cause_search import WIDTH_FOR_OUTCOMES, CaseChange, SearchSteps
from workbench.tui.state.project_state import ProjectState
from workbench.tui.state.text_layout import Block, Line, Paragraph, Style, StyledText, cut_line, plural, safe, safe_line

# The search for the smallest variant of a case that fails the same way: a row for each variant that was executed.

SHRINK_BUDGET = 100
"""Maximum executions, unless the user chooses another number."""

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
        super().__init__(case, budget=SHRINK_BUDGET)
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


# The search for the parts of an instruction that matter for a case: the text, with the effect of each part.

BUDGET = 60
REPEATS = 3
"""Maximum executions, and those of each part, unless the user chooses other numbers."""

EFFECT_SYMBOLS: Mapping[Effect, tuple[str, Style]] = {
    Effect.VERDICT: ("■", Style.FAILED),
    Effect.SCORES: ("□", Style.WARNING),
    Effect.FAILURE: ("≠", Style.WARNING),
    Effect.UNCLEAR: ("~", Style.WARNING),
    Effect.NONE: ("·", Style.MUTED),
    Effect.ERROR: ("!", Style.ERROR),
    Effect.UNUSED: ("-", Style.MUTED),
    Effect.UNTRIED: (" ", Style.TEXT),
}
_SHORT = {Effect.VERDICT: "verdict", Effect.SCORES: "scores", Effect.FAILURE: "failure"}
_EFFECT = max(len(effect.value) for effect in Effect)
_LONGEST_LINE = 500  # characters of an instruction in a row
_STATUS_STYLES = {
    CaseStatus.PASSED: Style.PASSED,
    CaseStatus.FAILED: Style.FAILED,
    CaseStatus.ERROR: Style.ERROR,
}


class _Row(NamedTuple):
    """A line of an instruction. A heading or a blank line has no block; the first line of a block has a number."""

    text: str = ""
    block: InstructionBlock | None = None
    number: int | None = None


def _list_rows(blocks: Sequence[InstructionBlock]) -> Iterator[_Row]:
    """Yield the lines of all blocks, below the agent and the field that they are from."""
    for before, block in pairwise([None, *blocks]):
        assert block is not None
        is_new = before is None or (before.agent, before.field) != (block.agent, block.field)
        if before is not None and (is_new or block.first_line > before.last_line + 1):
            yield _Row()
        if is_new:
            yield _Row(_name_place(block))
        for number, text in enumerate(redact(block.text).split("\n")):
            yield _Row(safe(text[:_LONGEST_LINE].rstrip()), block, None if number else block.first_line)


def _name_place(block: InstructionBlock) -> str:
    return safe_line(f"{block.agent}, {block.field}")


def _name_lines(block: InstructionBlock) -> str:
    if block.first_line == block.last_line:
        return f"line {block.first_line}"
    return f"lines {block.first_line}-{block.last_line}"


class AblationSteps(SearchSteps[Ablated]):
    """Rows of a list: first the result so far, then the lines of the instructions, each part with its effect."""

    COMMAND = "why"
    FIRST = "The agent is asked for its instruction first."

    def __init__(self, case: CaseKey, *, by_line: bool = False, budget: int = BUDGET, repeats: int = REPEATS) -> None:
        super().__init__(case, budget=budget)
        self.by_line = by_line
        self.repeats = repeats
        """Executions with the whole instruction, and without each part while the budget suffices."""
        self._executions = 0
        self._rows: Sequence[_Row] = ()
        self._whole = AblationExecutions()
        self._effects: dict[InstructionBlock, BlockEffect] = {}
        self._tried: InstructionBlock | None = None
        self._newest = 0  # the row to which the cursor went by itself

    def __len__(self) -> int:
        return len(self._rows) + bool(self._rows)

    def can_select(self, index: int) -> bool:
        """Return True for the result and the first line of a block."""
        return index == 0 or self._rows[index - 1].number is not None

    def move_to(self, index: int) -> None:
        """Put the cursor on the block with this row."""
        while 0 < index < len(self) and self._rows[index - 1].block is not None and not self.can_select(index):
            index -= 1
        super().move_to(index)

    # Progress of the search.

    def begin(self, *, is_continued: bool = False) -> None:
        """Begin the search, or continue one that ended early."""
        if not is_continued:
            self._rows, self._whole, self._effects, self._executions, self._newest = (), AblationExecutions(), {}, 0, 0
        super().begin(is_continued=is_continued)

    def set_parts(self, blocks: Sequence[InstructionBlock]) -> None:
        if not self._rows:
            self._rows = list(_list_rows(blocks))

    def set_whole(self, whole: AblationExecutions) -> None:
        """Show how the case ends with the whole instruction."""
        self._whole = whole

    def try_part(self, trying: str, block: InstructionBlock | None) -> None:
        """Show what is executed now; `block` is left out."""
        self.announce(trying)
        self._tried = block

    def count_execution(self) -> None:
        self._executions += 1

    def add(self, found: BlockEffect) -> None:
        """Show the effect of a block. The cursor follows the newest unless the user moved it."""
        follows, self._tried = self.follows_newest, None
        self._effects[found.block] = found
        if follows and found.effect is not Effect.UNUSED:
            places = (row.block == found.block and row.number is not None for row in self._rows)
            self.cursor = self._newest = next(number for number, is_place in enumerate(places, 1) if is_place)

    def finish(self, found: Ablated) -> None:
        self._take(found)
        super().finish(found)

    def fail(self, problem: str, found: Ablated | None = None) -> None:
        """Show what prevents the search, or what ended it after something was `found`."""
        if found is not None:
            self._take(found)
        super().fail(problem, found)

    def _take(self, found: Ablated) -> None:
        self._whole, self._tried, self._executions = found.whole, None, found.executions
        self._effects = {each.block: each for each in found.effects}

    @property
    def unit(self) -> str:
        """What is left out at once."""
        return "line" if self.by_line else "paragraph"

    @property
    def follows_newest(self) -> bool:
        """True unless the user moved the cursor away from the newest effect."""
        return self.cursor == self._newest

    @property
    def has_result(self) -> bool:
        """True if the case was executed."""
        return self._found is not None and bool(self._whole.variants)

    @property
    def least_budget(self) -> int:
        """One execution more than those with the whole instruction."""
        return self.repeats + 1

    @property
    def can_continue(self) -> bool:
        """True if parts lack executions that the budget allows."""
        found = self._found
        if found is None or self.is_running or self.change is CaseChange.EDITED or not found.effects:
            return False
        return found.can_continue(budget=self.budget, repeats=self.repeats)

    @property
    def selected_effect(self) -> BlockEffect | None:
        """The block under the cursor; None on the result."""
        block = self._rows[self.cursor - 1].block if self.cursor else None
        return None if block is None else self._get_effect(block)

    @property
    def selected_variant(self) -> Variant | None:
        """The last execution without the selected block; on the result, the last one with the whole instruction."""
        effect = self.selected_effect
        variants = self._whole.variants if effect is None else effect.without.variants
        return variants[-1] if variants else None

    def _get_effect(self, block: InstructionBlock) -> BlockEffect:
        return self._effects.get(block) or BlockEffect(block=block, effect=Effect.UNTRIED)

    # What the screen shows.

    def line(self, index: int, width: int) -> Line:
        """Format the result, or one line of the instructions."""
        if index == 0:
            return cut_line((StyledText(f" ▸ {self._summarise()}", Style.STRONG),), width)
        row = self._rows[index - 1]
        if row.block is None:
            return cut_line((StyledText(f" {row.text}", Style.HEADING),), width)
        effect = self._get_effect(row.block).effect
        symbol, style = EFFECT_SYMBOLS[effect]
        word, word_style = "" if effect is Effect.UNTRIED else effect.value, style
        if row.block == self._tried:
            symbol, word, word_style = "◐", "trying …", Style.RUNNING
        word = word if row.number is not None else ""
        pieces = (
            StyledText(f" {symbol} ", word_style),
            StyledText(f"{row.number or '':>4}  ", Style.MUTED),
            StyledText(f"{word:<{_EFFECT}}  " if width >= WIDTH_FOR_OUTCOMES else "", word_style),
            StyledText(row.text, style),
        )
        return cut_line(pieces, width)

    def describe_end(self) -> str:
        if self._problem or self._found is None:
            return self._problem
        return self._summarise()

    def _summarise(self) -> str:
        counts = Counter(self._get_effect(block).effect for block in self._list_blocks())
        total, so_far = plural(counts.total(), self.unit), "" if self._found is not None else " so far"
        if self._found is not None and self._found.is_error:
            return "ERROR with the whole instruction"
        if not self._whole.variants:
            return f"the whole instruction: {total}"
        matter = {word: counts[effect] for effect, word in _SHORT.items() if counts[effect]}
        number = sum(matter.values())
        kinds = f": {', '.join(f'{word} {count}' for word, count in matter.items())}" if matter else ""
        others = (Effect.UNCLEAR, Effect.ERROR, Effect.UNUSED, Effect.UNTRIED)
        rest = "".join(f"; {counts[each]} {each.value}" for each in others if counts[each])
        return f"{number} of {total} {'matters' if number == 1 else 'matter'}{so_far}{kinds}{rest}"

    def _list_blocks(self) -> list[InstructionBlock]:
        return [row.block for row in self._rows if row.block is not None and row.number is not None]

    @property
    def _question(self) -> str:
        return f"which {self.unit}s of the instruction matter?   nothing of the project is written"

    def _goal_line(self) -> Line:
        if not self._whole.variants:
            return (StyledText(" first, the case with the whole instruction", Style.MUTED),) if self.is_running else ()
        verdict = self._whole.verdict
        style = Style.WARNING if verdict is None else _STATUS_STYLES.get(verdict, Style.WARNING)
        return (StyledText(f" {self._whole.describe_whole()}", style),)

    def _count_executions(self) -> int:
        return self._executions

    def _end_pieces(self) -> Line:
        found = self._found
        pieces = [StyledText(f"   up to {self.repeats} for each {self.unit}", Style.MUTED)]
        if found is not None and found.untried and not found.is_error:
            reason = "stopped" if found.is_interrupted else found.reason_untried
            text = f"   not tried ({reason}): {plural(found.untried, self.unit)}"
            pieces.insert(0, StyledText(text, Style.WARNING))
        return tuple(pieces)

    def _selected_blocks(self) -> Iterator[Block]:
        effect = self.selected_effect
        yield from self._describe_result() if effect is None else self._describe_part(effect)

    def _describe_result(self) -> Iterator[Block]:
        found, whole = self._found, self._whole
        if found is not None and found.changed_files:
            yield Paragraph.from_text(safe_line(explain_changed_files(found.changed_files)), Style.WARNING)
        if found is not None and found.is_error:
            yield Paragraph.from_text(f"{whole.describe()}, so no part was left out", Style.ERROR)
            yield from _describe_failures(whole)
        if found is not None and found.error:
            yield Paragraph.from_text(
                "the whole instruction ends in ERROR now, too, so the search stopped", Style.ERROR
            )
            yield Paragraph.from_text(safe(redact(found.error)), Style.ERROR, indent=2)
        for symptom in sorted(whole.symptoms):
            yield Paragraph.from_text(safe(redact(str(symptom))), Style.FAILED, hang=2)
        for block in self._list_blocks():
            effect = self._get_effect(block).effect
            if effect in (*_SHORT, Effect.UNCLEAR, Effect.ERROR):
                symbol, style = EFFECT_SYMBOLS[effect]
                first = safe_line(redact(block.text).strip().split("\n")[0])
                place = StyledText(f"{symbol} {effect.value:<{_EFFECT}}  {_name_lines(block)}  ", style)
                yield Paragraph((place, StyledText(first)), hang=2)
        for sentence in found.unknown if found is not None else ():
            yield Paragraph.from_text(safe(redact(f"not tried: {sentence}")), Style.WARNING, hang=2)

    def _describe_part(self, found: BlockEffect) -> Iterator[Block]:
        symbol, style = EFFECT_SYMBOLS[found.effect]
        place = f"{_name_place(found.block)}, {_name_lines(found.block)}"
        effect = StyledText(f"{symbol} {found.effect.value}".strip(), style)
        yield Paragraph((effect, StyledText(f"   {place}", Style.HEADING)), hang=2)
        yield Paragraph.from_text(safe(redact(found.block.text)), indent=2)
        if found.effect is Effect.UNUSED:
            yield Paragraph.from_text("The agent took no part in the case.", Style.MUTED)
        if not found.without.variants:
            return
        yield Paragraph.from_text(f"{found.without.describe()} without it")
        for name in found.changed:
            before, after = (_format_range(each.score_ranges.get(name)) for each in (self._whole, found.without))
            change = StyledText(f"  {before} → "), StyledText(after, Style.WARNING)
            yield Paragraph((StyledText(safe_line(name), Style.STRONG), *change), hang=2)
        if found.effect is not Effect.NONE:
            for symptom in sorted(found.without.symptoms):
                yield Paragraph.from_text(safe(redact(str(symptom))), Style.FAILED, hang=2)
        yield from _describe_failures(found.without)


def _format_range(scores: tuple[float, float] | None) -> str:
    if scores is None:
        return "no score"
    low, high = scores
    return score_text(low) if low == high else f"{score_text(low, high)} to {score_text(high, low)}"


def _describe_failures(executions: AblationExecutions) -> Iterator[Block]:
    """Describe why the last execution that ended in ERROR did."""
    failures = [each.result.failure for each in executions.variants if each.result.failure is not None]
    if failures:
        yield Paragraph.from_text(safe(redact(failures[-1].message)), Style.ERROR, hang=2)


_WITHOUT_PROMPT = frozenset({AgentKind.AGENT_ENGINE, AgentKind.A2A, AgentKind.HTTP, AgentKind.COMMAND})


def explain_no_ablation(state: ProjectState, case: CaseKey) -> str:
    """Explain why no part of an instruction can be left out for a case; empty if that can be tried."""
    name = safe_line(case.name, width=40)
    facts = {} if state.project is None else dict(state.project.targets.get(case.target, ()))
    if state.board.get_record(case) is None:
        return "no eval set lists this case any more"
    if "kind" not in facts:
        return f"{name}: no agent belongs to it, so there is no instruction"
    if facts["kind"] == AgentKind.RECORDED:
        return f"{name} is recorded: no agent can be run with another instruction"
    if facts["kind"] in _WITHOUT_PROMPT:
        return f"an agent of kind {facts['kind']} does not show its instruction"
    if state.browser.is_scenario(case):
        key = state.find_key("keep_conversation")
        return f"{name} is a scenario, whose user says something else each time: {key} saves a talk as a fixed case"
    return ""
