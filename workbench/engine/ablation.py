"""Ablation of the prompt: which parts of the instructions matter for a case, by leaving out one at a time.

Nothing of the project changes. The worker replaces the texts of instructions of ADK agents in the process of the case.
Prompts in files and in constants of the code are changed in a temporary copy of the project.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from workbench.agents.worker.recording.blocks import EVERYTHING, parse_source
from workbench.engine.agent_source import get_text, is_prompt_file, make_relative, read_agent_source
from workbench.engine.case_variants import (
    ERRORS_IN_A_ROW,
    AgentFailed,
    BudgetUsedUp,
    CaseExecutor,
    Variant,
    explain_end,
    run_search,
)
from workbench.engine.plan import PlanError
from workbench.engine.shrinking import Symptom, find_failure
from workbench.model.identity import CaseKey, Dependency, DependencyKind
from workbench.model.results import CaseStatus
from workbench.model.target import AgentDescription, AgentPart
from workbench.model.text import pluralise
from workbench.model.trace import SpanKind

# The blocks of instructions.


class InstructionBlock(NamedTuple):
    """Some lines of an instruction, numbered from 1: of the agent of this name, in this field."""

    agent: str
    field: str
    first_line: int
    last_line: int
    text: str


def list_blocks(description: AgentDescription, *, by_line: bool) -> list[InstructionBlock]:
    """Return the paragraphs of all instructions that are texts; with `by_line` the lines that are not blank."""
    return [
        block
        for part in description.agents
        for name, text in part.instructions.items()
        for block in _split_text(part.name, name, text, by_line=by_line)
    ]


def _split_text(agent: str, name: str, text: str, *, by_line: bool) -> Iterator[InstructionBlock]:
    """Yield the blocks of a text, without carriage returns at the ends of lines."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    for first, last in _split_lines(text, by_line=by_line):
        yield InstructionBlock(agent, name, first, last, "\n".join(lines[first - 1 : last]))


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


def remove_block(text: str, block: InstructionBlock) -> str:
    """Return an instruction without a block, and without the blank line behind it if there is one before it, too."""
    lines = text.split("\n")
    before, after = lines[: block.first_line - 1], lines[block.last_line :]
    if after and not after[0].strip() and (not before or not before[-1].strip()):
        after = after[1:]
    return "\n".join([*before, *after])


# Prompts in files and in the code, for agents that do not show their instructions.

_PROMPT_NAME = re.compile(r"prompt|instruct|system|persona|guideline|rules|template|message", re.IGNORECASE)
_PROMPT_KEYWORDS = frozenset({"prompt", "system_prompt", "system_message", "instruction", "instructions", "system"})
_MOST_PROMPT_BYTES = 200_000
_LARGE_FILE = 1_000_000  # bytes; larger files of a copy are links
_NOT_COPIED = frozenset({".git", ".workbench", "__pycache__", "node_modules", "site-packages", "venv", ".venv"})


class PromptText(NamedTuple):
    """A prompt in a file, relative to the project. `span` has the places in the file's text that it takes, as a string
    literal of Python; None for a text file."""

    file: str
    name: str
    text: str
    span: tuple[int, int] | None = None

    def list_blocks(self, *, by_line: bool) -> list[InstructionBlock]:
        """Return its paragraphs, or its lines."""
        return list(_split_text(self.file, self.name, self.text, by_line=by_line))

    def edit(self, content: bytes, block: InstructionBlock) -> bytes:
        """Return the content of the file without a block of this text."""
        changed = remove_block(self.text, block)
        if self.span is None:
            return changed.encode()
        begin, end = self.span
        return content[:begin] + ascii(changed).encode() + content[end:]


def find_prompts(executor: CaseExecutor) -> list[PromptText]:
    """Find the prompts of an agent whose code runs in a worker: text files and constants that the case used.

    If the case has no record, these are the text files beside the agent and the constants of its modules. Files outside
    of the folder from which the agent is imported do not count: it may get them from elsewhere than from a copy.
    """
    root, target = executor.root, executor.planned.target
    base = f"{target.path if target.path.is_relative_to(root) else root}{os.sep}"
    source = read_agent_source(target, root=root)
    rows = executor.list_known_dependencies()
    files = {row.key for row in rows if row.kind == DependencyKind.FILE and is_prompt_file(row.key)}
    found = []
    for path in sorted(files if rows else source.prompt_files):
        text = _read_prompt_file(Path(path)) if path.startswith(base) else None
        if text is not None:
            found.append(PromptText(make_relative(path, root), "file", text))
    for path in sorted(source.files):
        text = _read_prompt_file(Path(path))
        if text is not None and path.startswith(base):
            names = _list_used_names(rows, path) if rows else None
            found += [
                PromptText(make_relative(path, root), name, value, span)
                for name, value, span in iter_constants(text, names)
            ]
    return found


def _read_prompt_file(path: Path) -> str | None:
    """Return the text of a file; None if it cannot be read, is no text, or is too long for a prompt."""
    try:
        data = path.read_bytes()
        return data.decode() if len(data) <= _MOST_PROMPT_BYTES else None
    except (OSError, ValueError):
        return None


def _list_used_names(rows: Collection[Dependency], path: str) -> frozenset[str] | None:
    """Return the names of a module that the case used; None for all, empty if it did not use the module."""
    if any(row.kind == DependencyKind.MODULE and row.key == path for row in rows):
        return None
    keys = (row.key.rpartition("::") for row in rows if row.kind in (DependencyKind.NAME, DependencyKind.BLOCK))
    return frozenset(name for file, _, name in keys if file == path)


def iter_constants(text: str, names: Collection[str] | None) -> Iterator[tuple[str, str, tuple[int, int]]]:
    """Yield texts in the source of a module that look like prompts: name, text, and place in the source.

    These are constants at the top with such a name or several lines, and texts that are passed as a prompt.
    """
    try:
        tree = parse_source(text.encode(), "")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    starts = [0]
    for line in text.encode().split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    seen: set[int] = set()
    places: set[str] = set()
    for name, value in [*_iter_assigned(tree, names), *_iter_passed(tree, names)]:
        content = get_text(value)
        if value is None or content is None or not content.strip() or id(value) in seen:
            continue
        seen.add(id(value))
        end_line, end_column = value.end_lineno or value.lineno, value.end_col_offset or 0
        span = (starts[value.lineno - 1] + value.col_offset, starts[end_line - 1] + end_column)
        place = f"{name}, line {value.lineno}"
        yield place if place not in places else f"{place}, column {value.col_offset + 1}", content, span
        places.add(place)


def _iter_assigned(tree: ast.Module, names: Collection[str] | None) -> Iterator[tuple[str, ast.expr | None]]:
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
                is_used = isinstance(target, ast.Name) and (names is None or target.id in names or EVERYTHING in names)
                if isinstance(target, ast.Name) and is_used:
                    is_long = "\n" in (get_text(statement.value) or "").strip()
                    if is_long or _PROMPT_NAME.search(target.id):
                        yield target.id, statement.value


def _iter_passed(tree: ast.Module, names: Collection[str] | None) -> Iterator[tuple[str, ast.expr | None]]:
    if names is not None and not names:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            for keyword in node.keywords:
                if keyword.arg in _PROMPT_KEYWORDS or (called == "SystemMessage" and keyword.arg == "content"):
                    yield f"{called}({keyword.arg})", keyword.value
            if called == "SystemMessage" and node.args:
                yield called, node.args[0]
        elif isinstance(node, ast.Tuple) and len(node.elts) == 2 and get_text(node.elts[0]) == "system":
            yield "system message", node.elts[1]
        elif isinstance(node, ast.Dict):
            pairs = {get_text(key): value for key, value in zip(node.keys, node.values, strict=True)}
            if get_text(pairs.get("role")) in ("system", "developer"):
                yield "system message", pairs.get("content")


def copy_project(root: Path, folder: Path, changed: Mapping[str, bytes]) -> None:
    """Copy a project, with other content of some files. Environments, results and version control are left out.

    Large files and those with secrets (`.env`) are links. What disappears meanwhile is left out: agents write temporary
    files. Raises PlanError if a file cannot be copied.
    """
    for source in _list_folder(root):
        name = source.name
        place = folder / name
        if name in _NOT_COPIED:
            continue
        if name in changed:
            place.write_bytes(changed[name])
        elif source.is_dir() and not source.is_symlink():
            place.mkdir()
            prefix = f"{name}/"
            inner = {key.removeprefix(prefix): data for key, data in changed.items() if key.startswith(prefix)}
            copy_project(source, place, inner)
        else:
            try:
                _copy_file(source, place)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise PlanError(
                    f"{source}: the agent runs in a copy of the project, but it cannot be copied: {error}"
                ) from error


def _list_folder(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise PlanError(f"{folder}: the agent runs in a copy of the project, but it cannot be read: {error}") from error


def _copy_file(source: Path, place: Path) -> None:
    if (
        source.is_symlink()
        or source.name.startswith(".env")
        or (source.is_file() and source.stat().st_size > _LARGE_FILE)
    ):
        if source.exists():
            place.symlink_to(source.resolve())
    elif source.is_file():
        shutil.copy2(source, place)


# The effect of a block.


class Effect(StrEnum):
    """What happens without a block, compared with the whole instruction."""

    VERDICT = "the verdict changes"
    SCORES = "scores change"
    FAILURE = "the failure changes"
    UNCLEAR = "unclear"
    NONE = "no difference"
    ERROR = "error"
    UNUSED = "not used"
    UNTRIED = "not tried"


@dataclass(frozen=True, kw_only=True)
class AblationExecutions:
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

    def describe(self) -> str:
        """Say how many executions ended in each status: `2 of 3 passed, 1 failed`."""
        counts = [(number, status.value.lower().replace("_", " ")) for status, number in self.statuses.most_common()]
        (first, name), *others = counts
        return ", ".join([f"{first} of {len(self.variants)} {name}", *(f"{number} {name}" for number, name in others)])

    def describe_whole(self) -> str:
        """Describe them as those with the whole instruction; say if the case is flaky, and how many are replayed."""
        replayed = (
            f" ({pluralise(self.replayed, 'execution')} with recorded answers of models)" if self.replayed else ""
        )
        is_flaky = self.verdict is None and CaseStatus.ERROR not in self.statuses
        noise = "; the case is flaky, so that differences may be chance" if is_flaky else ""
        return f"{self.describe()} with the whole instruction{replayed}{noise}"

    @property
    def replayed(self) -> int:
        """The number of executions that rest on recorded answers of models."""
        return sum(variant.result.execution.is_replayed for variant in self.variants)

    @property
    def failures(self) -> frozenset[frozenset[Symptom]]:
        """The symptoms of each execution; none of one that did not fail."""
        return frozenset(find_failure(*each).symptoms for each in self.variants)

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

    def has_each_score(self, metric: str) -> bool:
        """Return True if each execution has a score of a metric."""
        return all(
            any(each.name == metric and each.score is not None for each in variant.result.metrics)
            for variant in self.variants
        )


@dataclass(frozen=True, kw_only=True)
class BlockEffect:
    """The effect of one block. `changed` are the metrics whose scores are all outside of the range before, or missing
    on one side only."""

    block: InstructionBlock
    effect: Effect
    without: AblationExecutions = AblationExecutions()
    changed: Sequence[str] = ()

    def count_missing(self, repeats: int) -> int:
        """Return the number of executions that it lacks; 0 if its agent took no part."""
        return 0 if self.effect is Effect.UNUSED else max(repeats - len(self.without.variants), 0)


def compare_executions(whole: AblationExecutions, without: AblationExecutions) -> tuple[Effect, Sequence[str]]:
    """Return the effect of leaving something out, and the metrics whose scores changed.

    A score changed only if it is beyond all scores of the whole instruction in every execution: these show the noise.
    So did a score that all executions of one side have, and none of the other one.
    A failure changed only if no execution has the symptoms of one with the whole instruction.
    """
    if without.verdict is CaseStatus.ERROR:
        return Effect.ERROR, ()
    if whole.verdict is None or without.verdict is None:
        share = [each.statuses[CaseStatus.PASSED] / len(each.variants) for each in (whole, without)]
        return (Effect.UNCLEAR if share[0] != share[1] or without.verdict is None else Effect.NONE), ()
    before, after = whole.score_ranges, without.score_ranges
    changed = [
        name
        for name in dict.fromkeys([*before, *after])
        if (
            after[name][1] < before[name][0] or after[name][0] > before[name][1]
            if name in before and name in after
            else whole.has_each_score(name) or without.has_each_score(name)
        )
    ]
    if without.verdict is not whole.verdict:
        return Effect.VERDICT, changed
    if changed:
        return Effect.SCORES, changed
    return (Effect.FAILURE if whole.failures.isdisjoint(without.failures) else Effect.NONE), ()


# The ablation of one case.


@dataclass(frozen=True, kw_only=True)
class Ablated:
    """The result of an ablation. Blocks have an effect only if the `whole` instruction did not end in ERROR.

    `unknown` are sentences about instructions that cannot be left out. `changed_files` are files of the agent that
    changed during the ablation. `error` is set if the whole instruction ended in ERROR later: something broke.
    """

    case: CaseKey
    whole: AblationExecutions
    effects: Sequence[BlockEffect]
    executions: int
    unknown: Sequence[str] = ()
    is_interrupted: bool = False
    error: str = ""
    changed_files: Sequence[str] = ()

    @property
    def is_error(self) -> bool:
        """True if the case ended in ERROR with the whole instruction."""
        return CaseStatus.ERROR in self.whole.statuses

    @property
    def untried(self) -> int:
        """The number of blocks that were not tried."""
        return sum(each.effect is Effect.UNTRIED for each in self.effects)

    @property
    def reason_untried(self) -> str:
        """Why blocks were not tried."""
        return explain_end("the whole instruction", is_interrupted=self.is_interrupted, error=self.error)

    def can_continue(self, *, budget: int, repeats: int) -> bool:
        """Return True if a block, or the whole instruction, lacks executions and the budget suffices for some.

        Executions before and after a change of the agent cannot be compared.
        """
        left = budget - self.executions
        if self.is_error or self.changed_files or left <= 0:
            return False
        return len(self.whole.variants) < repeats or any(
            missing and (missing <= left or effect is not Effect.NONE)
            for missing, effect in ((each.count_missing(repeats), each.effect) for each in self.effects)
        )


@dataclass(kw_only=True)
class Ablation:
    """Leaves out the blocks of the instructions one by one.

    A block is executed `repeats` times. If the budget does not suffice for as many of each block that follows, a block
    that makes no difference is executed once, unless the case itself is not the same each time. `budget` and `repeats`
    may change at any time, from any thread. After errors the whole instruction is executed again: if it ends in ERROR,
    too, the errors say nothing about the blocks, and the ablation stops.
    `report_blocks` gets all blocks before the first execution, `report_whole` the executions with the whole
    instruction, `report` the effect of each block as soon as it is known, `count` the status of each execution.
    `announce` gets what is tried; `trying` is then the block that is left out.
    """

    executor: CaseExecutor
    by_line: bool
    budget: int
    repeats: int
    report_blocks: Callable[[Sequence[InstructionBlock]], None] = lambda _: None
    report_whole: Callable[[AblationExecutions], None] = lambda _: None
    report: Callable[[BlockEffect], None] = lambda _: None
    announce: Callable[[str], None] = lambda _: None
    count: Callable[[CaseStatus], None] = lambda _: None
    trying: InstructionBlock | None = None
    _executions: int = 0
    _agents: Sequence[AgentPart] = ()
    _unknown: Sequence[str] = ()
    _prompts: dict[tuple[str, str], PromptText] = field(default_factory=dict)
    _contents: dict[str, bytes] = field(default_factory=dict)  # of their files, in which they have these places
    _whole: AblationExecutions = AblationExecutions()
    _effects: list[BlockEffect] = field(default_factory=list)
    _errors: list[int] = field(default_factory=list)  # the blocks of the newest executions, if these ended in ERROR
    _next_check: int = ERRORS_IN_A_ROW

    def run(self) -> Ablated:
        """Run the case with the whole instructions, and without each block.

        Another call continues after an interruption, with a larger budget, or with more repeats. Raises PlanError
        without instructions, and StoreError.
        """
        is_interrupted, problem = run_search(self._search)
        self._report_errors()
        return self.make_result(is_interrupted=is_interrupted, error=problem)

    def _search(self) -> None:
        if not self._effects:
            self._effects = [BlockEffect(block=each, effect=Effect.UNTRIED) for each in self._find_blocks()]
        self.report_blocks([each.block for each in self._effects])
        self._execute_whole()
        if CaseStatus.ERROR not in self._whole.statuses:
            self._try_blocks()

    def make_result(self, *, is_interrupted: bool, error: str = "") -> Ablated:
        """Return what is known so far."""
        return Ablated(
            case=self.executor.key,
            whole=self._whole,
            effects=tuple(self._effects),
            executions=self._executions,
            unknown=[
                each
                for each in self._unknown
                if "instruction" in each and not (self._prompts and each.endswith("in its code"))
            ],
            is_interrupted=is_interrupted,
            error=error,
            changed_files=self.executor.changed_files,
        )

    def _find_blocks(self) -> list[InstructionBlock]:
        description = self.executor.describe()
        self._agents, self._unknown = description.agents, description.unknown
        blocks = list_blocks(description, by_line=self.by_line)
        if not blocks or any("instruction" in each for each in description.unknown):
            known = [text for each in description.agents for text in each.instructions.values()]
            blocks += self._list_prompt_blocks(known)
        if not blocks:
            raise PlanError(*description.unknown, self._explain_no_instruction())
        return blocks

    def _execute_whole(self) -> None:
        if len(self._whole.variants) >= self.repeats:
            return
        self.trying = None
        self.announce("the whole instruction")
        while len(self._whole.variants) < self.repeats:
            self._whole = self._execute(None, self._whole)
        for number, each in enumerate(self._effects):  # of an earlier call
            self._effects[number] = self._judge(each.block, each.without)
        self.report_whole(self._whole)

    def _try_blocks(self) -> None:
        """Execute all blocks of agents that took part, in order."""
        for number, each in enumerate(self._effects):
            if (each.block.agent, each.block.field) not in self._prompts and not _has_run(
                each.block.agent, self._whole
            ):
                self._effects[number] = replace(each, effect=Effect.UNUSED)
        for number, each in enumerate(self._effects):
            if each.count_missing(self.repeats) or each.effect is Effect.UNUSED:
                following = [other.effect for other in self._effects[number + 1 :]]
                try:
                    self._try_block(number, reserved=self.repeats * following.count(Effect.UNTRIED))
                finally:
                    if self._effects[number].effect is not Effect.UNTRIED and number not in self._errors:
                        self.report(self._effects[number])
        if self._errors:
            self._check_agent()

    def _try_block(self, number: int, *, reserved: int) -> None:
        """Execute a block. `reserved` executions are for the blocks that follow."""
        while missing := self._effects[number].count_missing(self.repeats):
            found = self._effects[number]
            if found.effect is Effect.NONE and self._executions + missing + reserved > self.budget:
                return
            self.trying = found.block
            self.announce(f"without line {found.block.first_line} of {found.block.agent}")
            without = self._execute(found.block, found.without)
            self._effects[number] = self._judge(found.block, without)
            if without.variants[-1].result.status is not CaseStatus.ERROR:
                self._report_errors(besides=number)
                self._next_check = ERRORS_IN_A_ROW
                continue
            self._errors.append(number)
            if len(self._errors) >= self._next_check:
                self._next_check *= 2
                self._check_agent()

    def _report_errors(self, *, besides: int | None = None) -> None:
        """Report the blocks whose errors are not those of an agent that is broken."""
        numbers, self._errors = dict.fromkeys(self._errors), []
        for number in numbers:
            if number != besides:
                self.report(self._effects[number])

    def _check_agent(self) -> None:
        """Execute the whole instruction again after errors. Raises AgentFailed if it ends in ERROR, too.

        Then the executions with these errors are forgotten, and another call repeats them.
        """
        self.trying = None
        self.announce("the whole instruction again, after errors")
        result = self._execute(None, AblationExecutions(), replays=False).variants[0].result
        if result.status is not CaseStatus.ERROR:
            self._report_errors()
            return
        errors, self._errors = self._errors, []
        for number in errors:
            found = self._effects[number]
            self._effects[number] = self._judge(found.block, AblationExecutions(variants=found.without.variants[:-1]))
        self._next_check = ERRORS_IN_A_ROW
        raise AgentFailed(result)

    def _judge(self, block: InstructionBlock, without: AblationExecutions) -> BlockEffect:
        """Compare the executions without a block with those of the whole instruction."""
        if not without.variants:
            return BlockEffect(block=block, effect=Effect.UNTRIED)
        effect, scores = compare_executions(self._whole, without)
        if effect is not Effect.NONE and len(without.variants) < self.repeats:  # one execution may be chance
            return BlockEffect(block=block, effect=Effect.UNCLEAR, without=without)
        return BlockEffect(block=block, effect=effect, without=without, changed=scores)

    def _list_prompt_blocks(self, known: Sequence[str]) -> list[InstructionBlock]:
        """List the blocks of prompts in files and in the code that are in none of the `known` instructions."""
        if not self.executor.planned.target.runs_in_worker:
            return []
        prompts = find_prompts(self.executor)
        found = [each for each in prompts if not any(each.text.strip() in text for text in known)]
        self._prompts = {(each.file, each.name): each for each in found}
        self._contents = {each.file: (self.executor.root / each.file).read_bytes() for each in found}
        self.executor.follow_files(str(self.executor.root / name) for name in self._contents)
        return [block for each in found for block in each.list_blocks(by_line=self.by_line)]

    def _explain_no_instruction(self) -> str:
        target = self.executor.planned.target
        known = f"{target.name}: workbench knows no instruction that it could leave out"
        if not target.runs_in_worker:
            return f"{known}: an agent of kind {target.kind.value} does not show its prompt"
        return (
            f"{known}, neither in a text file that the case read, nor as a text in the modules of the agent; put the "
            'prompt into a file such as prompt.md beside the agent, or into a constant such as SYSTEM_PROMPT = "…"'
        )

    def _execute(
        self, block: InstructionBlock | None, before: AblationExecutions, *, replays: bool = True
    ) -> AblationExecutions:
        """Execute the next repeat without a block. Return it with those `before`.

        Raises BudgetUsedUp if no execution is left.
        """
        if self._executions >= self.budget:
            raise BudgetUsedUp
        prompt = None if block is None else self._prompts.get((block.agent, block.field))
        if block is None or prompt is None:
            return self._execute_repeat(before, self._list_instructions(block), replays=replays)
        with tempfile.TemporaryDirectory(prefix="workbench-") as folder:
            # An agent may be named after the folder that it lies in.
            copy = Path(folder).resolve() / (self.executor.root.name or "project")
            copy.mkdir()
            changed = {prompt.file: prompt.edit(self._contents[prompt.file], block)}
            copy_project(self.executor.root, copy, changed)
            return self._execute_repeat(before, {}, copy=copy)

    def _list_instructions(self, block: InstructionBlock | None) -> Mapping[str, Mapping[str, str]]:
        """Return the changed instruction of an ADK agent without a block."""
        if block is None:
            return {}
        (part,) = [each for each in self._agents if each.name == block.agent][:1]
        return {block.agent: {block.field: remove_block(part.instructions[block.field], block)}}

    def _execute_repeat(
        self,
        before: AblationExecutions,
        instructions: Mapping[str, Mapping[str, str]],
        *,
        copy: Path | None = None,
        replays: bool = True,
    ) -> AblationExecutions:
        self._executions += 1
        repeat = len(before.variants)
        variant = self.executor.execute(
            self.executor.data, repeat=repeat, instructions=instructions, copy=copy, replays=replays
        )
        self.count(variant.result.status)
        return AblationExecutions(variants=[*before.variants, variant])


def _has_run(agent: str, whole: AblationExecutions) -> bool:
    """Return False if an agent took no part in the case, although the agents that did are known."""
    spans = [span for variant in whole.variants for span in variant.result.execution.spans]
    names = {span.name for span in spans if span.kind is SpanKind.AGENT}
    return agent in names or not names
