"""Ablation of the prompt: which parts of the instructions matter for a case, by leaving out one at a time.

Nothing of the project changes: the worker replaces the texts of the instructions in the process of the case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from workbench.engine.plan import PlanError
from workbench.engine.shrinking import Symptom, find_failure
from workbench.engine.workspace import CaseExecutor, Interrupted, Variant
from workbench.model.identity import CaseKey
from workbench.model.results import CaseStatus
from workbench.model.target import AgentDescription
from workbench.model.trace import SpanKind

# The blocks of instructions.


class Block(NamedTuple):
    """Some lines of an instruction, numbered from 1: of the agent of this name, in this field."""

    agent: str
    field: str
    first_line: int
    last_line: int
    text: str


def list_blocks(description: AgentDescription, *, by_line: bool) -> list[Block]:
    """Return the paragraphs of all instructions that are texts; with `by_line` the lines that are not blank."""
    return [
        Block(part.name, name, first, last, "\n".join(text.split("\n")[first - 1 : last]))
        for part in description.agents
        for name, text in part.instructions.items()
        for first, last in _split_lines(text, by_line=by_line)
    ]


def _split_lines(text: str, *, by_line: bool) -> Iterator[tuple[int, int]]:
    """Yield the first and the last line of each block."""
    begin: int | None = None
    lines = text.split("\n")
    for number, line in enumerate([*lines, ""], start=1):
        if begin is not None and (by_line or not line.strip()):
            yield begin, number - 1
            begin = None
        if line.strip() and begin is None:
            begin = number


def remove_block(text: str, block: Block) -> str:
    """Return an instruction without a block, and without the blank line behind it if there is one before it, too."""
    lines = text.split("\n")
    before, after = lines[: block.first_line - 1], lines[block.last_line :]
    if after and not after[0].strip() and (not before or not before[-1].strip()):
        after = after[1:]
    return "\n".join([*before, *after])


# The effect of a block.


class Effect(StrEnum):
    """What happens without a block, compared with the whole instruction."""

    VERDICT = "the verdict changes"
    SCORES = "scores change"
    UNCLEAR = "unclear"
    NONE = "no difference"
    ERROR = "error"
    UNUSED = "not used"
    UNTRIED = "not tried"


@dataclass(frozen=True, kw_only=True)
class Executions:
    """Repeated executions with the same instructions."""

    variants: Sequence[Variant] = ()

    @property
    def statuses(self) -> Counter[CaseStatus]:
        """How often each status occurred."""
        return Counter(variant.result.status for variant in self.variants)

    @property
    def verdict(self) -> CaseStatus | None:
        """The status of all executions; None if they disagree, or there are none."""
        statuses = self.statuses
        return next(iter(statuses)) if len(statuses) == 1 else None

    @property
    def replayed(self) -> int:
        """The number of executions that rest on recorded answers of models."""
        return sum(variant.result.execution.is_replayed for variant in self.variants)

    @property
    def symptoms(self) -> frozenset[Symptom]:
        """The symptoms of all failed executions."""
        failed = (each for each in self.variants if each.result.status is CaseStatus.FAILED)
        return frozenset(symptom for each in failed for symptom in find_failure(*each).symptoms)

    @property
    def score_ranges(self) -> Mapping[str, tuple[float, float]]:
        """The lowest and the highest score of each metric that has a threshold."""
        scores: dict[str, list[float]] = {}
        for variant in self.variants:
            for metric in variant.result.metrics:
                if metric.threshold is not None and metric.score is not None:
                    scores.setdefault(metric.name, []).append(metric.score)
        return {name: (min(values), max(values)) for name, values in scores.items()}


@dataclass(frozen=True, kw_only=True)
class BlockEffect:
    """The effect of one block. `changed` are the metrics whose scores are all outside of the range before."""

    block: Block
    effect: Effect
    without: Executions = Executions()
    changed: Sequence[str] = ()


def compare_executions(whole: Executions, without: Executions) -> tuple[Effect, Sequence[str]]:
    """Return the effect of leaving something out, and the metrics whose scores changed.

    A score changed only if it is beyond all scores of the whole instruction in every execution: these show the noise.
    """
    if without.verdict is CaseStatus.ERROR:
        return Effect.ERROR, ()
    if whole.verdict is None or without.verdict is None:
        share = [each.statuses[CaseStatus.PASSED] / len(each.variants) for each in (whole, without)]
        return (Effect.UNCLEAR if share[0] != share[1] or without.verdict is None else Effect.NONE), ()
    before, after = whole.score_ranges, without.score_ranges
    both = [name for name in before if name in after]
    changed = [name for name in both if after[name][1] < before[name][0] or after[name][0] > before[name][1]]
    if without.verdict is not whole.verdict:
        return Effect.VERDICT, changed
    return (Effect.SCORES if changed else Effect.NONE), changed


# The ablation of one case.


@dataclass(frozen=True, kw_only=True)
class Ablated:
    """The result of an ablation. Blocks have an effect only if the `whole` instruction did not end in ERROR.

    `unknown` are sentences about instructions that cannot be left out.
    """

    case: CaseKey
    whole: Executions
    effects: Sequence[BlockEffect]
    executions: int
    unknown: Sequence[str] = ()
    is_interrupted: bool = False

    @property
    def is_error(self) -> bool:
        """True if the case ended in ERROR with the whole instruction."""
        return CaseStatus.ERROR in self.whole.statuses


class _BudgetUsedUp(Exception):
    """No execution is left."""


@dataclass(kw_only=True)
class Ablation:
    """Leaves out the blocks of the instructions one by one.

    A block is executed `repeats` times. If the budget does not suffice for as many of each block that follows, a block
    that makes no difference is executed once, unless the case itself is not the same each time.
    `report_whole` gets the executions with the whole instruction, `report` the effect of each block as soon as it is
    known, `announce` the part that is tried, `count` the status of each execution.
    """

    executor: CaseExecutor
    description: AgentDescription
    by_line: bool
    budget: int
    repeats: int
    report_whole: Callable[[Executions], None] = lambda _: None
    report: Callable[[BlockEffect], None] = lambda _: None
    announce: Callable[[str], None] = lambda _: None
    count: Callable[[CaseStatus], None] = lambda _: None
    _executions: int = 0

    def run(self) -> Ablated:
        """Run the case with the whole instructions, and without each block. Raises PlanError without instructions."""
        blocks = list_blocks(self.description, by_line=self.by_line)
        if not blocks:
            target = self.executor.planned.target
            raise PlanError(
                *self.description.unknown,
                f"{target.name}: workbench knows no instruction that it could leave out; it does for agents of kind adk"
                " whose instructions are texts",
            )
        effects: list[BlockEffect] = []
        whole = Executions()
        is_interrupted = False
        try:
            self.announce("the whole instruction")
            whole = self._execute({}, self.repeats)
            self.report_whole(whole)
            if CaseStatus.ERROR not in whole.statuses:
                used = [_has_run(block.agent, whole) for block in blocks]
                for number, block in enumerate(blocks):
                    reserved = self.repeats * sum(used[number + 1 :])
                    effects.append(
                        self._try_block(block, whole, reserved=reserved)
                        if used[number]
                        else BlockEffect(block=block, effect=Effect.UNUSED)
                    )
                    self.report(effects[-1])
        except _BudgetUsedUp:
            pass
        except Interrupted:
            is_interrupted = True
        effects += [BlockEffect(block=block, effect=Effect.UNTRIED) for block in blocks[len(effects) :]]
        return Ablated(
            case=self.executor.key,
            whole=whole,
            effects=effects,
            executions=self._executions,
            unknown=[each for each in self.description.unknown if "instruction" in each],
            is_interrupted=is_interrupted,
        )

    def _try_block(self, block: Block, whole: Executions, *, reserved: int) -> BlockEffect:
        """Execute a block. `reserved` executions are for the blocks that follow."""
        self.announce(f"without line {block.first_line} of {block.agent}")
        (part,) = [each for each in self.description.agents if each.name == block.agent][:1]
        changed = {block.agent: {block.field: remove_block(part.instructions[block.field], block)}}
        without = self._execute(changed, 1)
        effect, scores = compare_executions(whole, without)
        has_room = self._executions + self.repeats - 1 + reserved <= self.budget
        if self.repeats > 1 and (has_room or effect is not Effect.NONE or whole.verdict is None):
            try:
                more = self._execute(changed, self.repeats, first=1)
            except _BudgetUsedUp:  # one execution may be chance
                return BlockEffect(block=block, effect=Effect.UNCLEAR, without=without)
            without = Executions(variants=[*without.variants, *more.variants])
            effect, scores = compare_executions(whole, without)
        return BlockEffect(block=block, effect=effect, without=without, changed=scores)

    def _execute(self, instructions: Mapping[str, Mapping[str, str]], repeats: int, *, first: int = 0) -> Executions:
        """Execute the repeats from `first` on. Raises _BudgetUsedUp if not all of them are within the budget."""
        if self._executions + repeats - first > self.budget:
            raise _BudgetUsedUp
        variants = []
        for repeat in range(first, repeats):
            self._executions += 1
            variant = self.executor.execute(self.executor.data, repeat=repeat, instructions=instructions)
            self.count(variant.result.status)
            variants.append(variant)
        return Executions(variants=variants)


def _has_run(agent: str, whole: Executions) -> bool:
    """Return False if an agent took no part in the case, although the agents that did are known."""
    spans = [span for variant in whole.variants for span in variant.result.execution.spans]
    names = {span.name for span in spans if span.kind is SpanKind.AGENT}
    return agent in names or not names
