"""The verdicts of commits: stored ones that are current there, and new ones, from a worktree.

A commit has a stored verdict if the selector of the watch says that the verdict is current there: everything that the
execution used has the same content in that commit.
"""

from __future__ import annotations

import ast
import os
import re
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from workbench.agents.worker.recording.blocks import EVERYTHING, cut, list_executed, parse_source
from workbench.agents.worker.recording.definitions import count_bound_names, find_defined_names
from workbench.engine.case_variants import map_paths
from workbench.engine.git_worktrees import Worktree
from workbench.engine.plan import Plan, PlanError, PlannedCase, Selection, SetContext
from workbench.engine.run import Run
from workbench.engine.shrinking import find_failure
from workbench.engine.verdict_index import Verdicts
from workbench.engine.workspace import Workspace
from workbench.model.evalset import EvalCase
from workbench.model.identity import Dependency, DependencyKind, JobKey
from workbench.model.results import CaseResult, CaseStatus
from workbench.model.target import ModelMode, Target
from workbench.model.turn_diff import DifferenceKind
from workbench.report.bisect_report import Commit, CommitOutcome, Sample, SampleSource, Used
from workbench.report.run_report import ReportedCase
from workbench.simulation.replayed_models import hash_calls
from workbench.store.errors import StoreError
from workbench.store.history.history import History
from workbench.store.history.history_queries import StoredVerdict
from workbench.store.history.history_schema import get_history_path
from workbench.store.model_answers import RecordingStore
from workbench.store.project_discovery import discover
from workbench.store.settings import LoadedSettings, load_settings
from workbench.watch.selector import Action, Decision, Selector, get_path, plan_decisions, read_results
from workbench.watch.snapshot import SOURCE_KINDS, Snapshot

_CONTENT_KINDS = frozenset({DependencyKind.FILE, DependencyKind.FOLDER, DependencyKind.TREE, DependencyKind.PROBE})
_TEXTS = frozenset(
    {
        DifferenceKind.RESPONSE_CHANGED,
        DifferenceKind.INTERMEDIATE_CHANGED,
        DifferenceKind.INTERMEDIATE_EXTRA,
        DifferenceKind.INTERMEDIATE_MISSING,
    }
)
_FOLDER_KINDS = frozenset({DependencyKind.FOLDER, DependencyKind.TREE})
_PART_KINDS = frozenset({DependencyKind.BLOCK, DependencyKind.BRANCH, DependencyKind.NAME})
_NO_WHOLE_FILES = frozenset({DependencyKind.MODULE, DependencyKind.REST, DependencyKind.PROBE, DependencyKind.IMPORT})
_REST = ""  # as the name of a part: the statements of a module that define nothing
_DECIDED = (CaseStatus.PASSED, CaseStatus.FAILED)

Failure = frozenset[str]
"""What is wrong in a result, for comparison."""


class BisectInterrupted(Exception):
    """The user stopped the search."""


@dataclass(slots=True)
class KnownCommit:
    """What is known of a commit so far. `reason` is set if it has no verdict."""

    commit: Commit
    samples: list[Sample] = field(default_factory=list)
    reason: str = ""
    is_looked_up: bool = False

    @property
    def outcome(self) -> CommitOutcome | None:
        """FAILED if any sample failed; None if nothing is known."""
        if any(sample.status is CaseStatus.FAILED for sample in self.samples):
            return CommitOutcome.FAILED
        if self.samples:
            return CommitOutcome.PASSED
        return CommitOutcome.SKIPPED if self.reason else None


class _Place(NamedTuple):
    """A history, and a selector that compares its verdicts with the commit that is checked out."""

    root: Path
    verdicts: Verdicts
    selector: Selector


class _Planned(NamedTuple):
    """The case in a commit: as it runs in the worktree, and as it would be planned in the folder of the user."""

    in_worktree: PlannedCase
    in_project: PlannedCase
    loaded: LoadedSettings


class CommitVerdicts:
    """Looks up the verdicts of commits, and executes the case in the worktree."""

    def __init__(self, workspace: Workspace, plan: Plan, worktree: Worktree, *, as_committed: bool) -> None:
        """`plan` has the case, as it is in the working tree."""
        self._workspace = workspace
        self._plan = plan
        self._case = plan.cases[0]
        self._worktree = worktree
        self._as_committed = as_committed
        self._loaded = load_settings(workspace.root)
        self._run: Run | None = None
        self._is_cancelled = threading.Event()
        self._places = (
            self._open_place(workspace.root, locate=worktree.to_worktree),
            self._open_place(worktree.results, locate=str),
        )
        self.executions = 0

    def cancel(self) -> None:
        """Stop what runs. Thread-safe."""
        self._is_cancelled.set()
        if (run := self._run) is not None:
            run.cancel()

    def check(self) -> None:
        """Raise BisectInterrupted after `cancel`."""
        if self._is_cancelled.is_set():
            raise BisectInterrupted

    @property
    def has_passed(self) -> bool:
        """True if any stored verdict of the case is PASSED, in whatever commit."""
        return any(place.verdicts.has_status(CaseStatus.PASSED) for place in self._places)

    def look_up(self, known: KnownCommit, *, repeats: int) -> None:
        """Add the stored verdicts that are current in a commit."""
        self.check()
        known.is_looked_up = True
        planned = self._enter(known)
        if planned is None:
            return
        for repeat in range(repeats):
            place, decision = self._decide(planned, repeat)
            if decision is None or decision.action is not Action.NOTHING or decision.verdict is None:
                break
            self._add_known(known, place, decision.verdict)
            if known.reason:
                break

    def execute(self, known: KnownCommit) -> None:
        """Add one sample of a commit: score an execution that is current there, or run the agent."""
        self.check()
        planned = self._enter(known)
        if planned is None:
            return
        repeat = len(known.samples)
        place, decision = self._decide(planned, repeat)
        if decision is not None and decision.action is Action.NOTHING and decision.verdict is not None:
            self._add_known(known, place, decision.verdict)
            return
        plan = self._make_plan(planned, repeat, place, decision)
        job, case = plan.jobs[0]
        is_scored = case.executed is not None
        run_id, result = self._execute(plan, planned)
        if not is_scored:
            self.executions += 1
        place = self._open_place(self._worktree.results, locate=str)
        self._places = (self._places[0], place)
        verdict = place.verdicts.newest(job)
        # On a full disk the newest verdict is that of an earlier run.
        rows = _list_rows(place, verdict) if verdict is not None and verdict.job.run_id == run_id else ()
        self._refuse_content_of_working_tree(rows, known.commit)
        if result.status not in _DECIDED:
            known.reason = _explain_no_verdict(result)
            return
        known.samples.append(
            Sample(
                status=result.status,
                source=SampleSource.SCORED if is_scored else SampleSource.EXECUTED,
                run_id=run_id,
                execution=(str(place.root), run_id, job.repeat),
                read_result=lambda: result,
                read_used=lambda: self._list_used(rows),
                is_replayed=result.execution.is_replayed,
            )
        )

    def _enter(self, known: KnownCommit) -> _Planned | None:
        """Check out a commit and plan the case there; None if it has no agent or no such case."""
        self._worktree.check_out(known.commit.id)
        for place in self._places:
            place.selector.forget()
        try:
            return self._plan_case()
        except (PlanError, StoreError) as error:
            known.reason = str(error)
            return None

    def _open_place(self, root: Path, *, locate: Callable[[str], str]) -> _Place:
        verdicts = Verdicts()
        if get_history_path(root).exists():  # opening the history would create it
            with History.open(root) as history:
                verdicts = Verdicts.read_case(history, self._case.key)
        state = Snapshot(leftovers=verdicts.list_agent_files, locate=locate)
        rejects_replays = self._plan.options.rejects_replays
        return _Place(root, verdicts, Selector(verdicts, state, rejects_replays=rejects_replays))

    def _plan_case(self) -> _Planned:
        """Plan the case in the commit that is checked out. Raises PlanError and StoreError."""
        root, name = self._worktree.project, self._case.target.name
        if not self._worktree.has_project:
            raise PlanError("the folder of the project does not exist, or is a link to elsewhere")
        loaded = load_settings(root) if self._as_committed else self._loaded
        project = discover(root, loaded, root=root)
        if name in project.unusable:
            raise PlanError(project.unusable[name])
        if name not in project.targets:
            raise PlanError(f"there is no agent {name}")
        target = self._move_paths(project.targets[name])
        if not target.path.is_dir():
            raise PlanError(f"there is no agent {name}: its folder does not exist")
        case = self._case
        if self._as_committed:
            with Workspace(project, loaded) as workspace:
                selection = Selection(eval_set=case.key.eval_set, cases=(case.key.name,))
                planned = workspace.plan([selection], self._plan.options).cases
            found = next((each for each in planned if each.key == case.key), None)
            if found is None or found.problem is not None:
                raise PlanError(
                    "there is no such case" if found is None or found.problem is None else found.problem.message
                )
            case = found

        def plan_for(target: Target) -> PlannedCase:
            return SetContext(case.eval_set_id, target, case.criteria, case.tools).plan_case(case.key, case.case)

        in_project = map_paths(target, self._worktree.to_repository)
        return _Planned(plan_for(target), plan_for(in_project), loaded)

    def _move_paths(self, target: Target) -> Target:
        """Return the target with the paths of the worktree, and the interpreter of the user."""
        moved = map_paths(target, self._worktree.to_worktree)
        if target.python is None:
            return moved
        return moved.model_copy(update={"python": Path(self._worktree.to_repository(str(target.python)))})

    def _decide(self, planned: _Planned, repeat: int) -> tuple[_Place, Decision | None]:
        """Return the best decision of both histories: a current verdict, else a current execution."""
        best: tuple[_Place, Decision | None] = (self._places[0], None)
        for place, case in zip(self._places, (planned.in_project, planned.in_worktree), strict=True):
            decision = place.selector.decide(JobKey(case.key, repeat), case)
            if decision.action is Action.NOTHING:
                return place, decision
            if decision.action is Action.JUDGE and best[1] is None:
                best = place, decision
        return best

    def _make_plan(self, planned: _Planned, repeat: int, place: _Place, decision: Decision | None) -> Plan:
        """Plan one repeat: to score a current execution, or to run the agent."""
        case = planned.in_worktree
        plan = replace(
            self._plan,
            root=self._worktree.project,
            cases=(case,),
            stored={},
            problems=(),
        )
        job = JobKey(case.key, repeat)
        action, verdict = (Action.RUN, None) if decision is None else (decision.action, decision.verdict)
        root = place.root if action is Action.JUDGE else self._worktree.results
        with History.open(root) as history:
            return plan_decisions(
                plan, [Decision(job, case, action, verdict=verdict)], runs={Action.RUN}, history=history,
                with_stored=False,
            )  # fmt: skip

    def _execute(self, plan: Plan, planned: _Planned) -> tuple[str, CaseResult]:
        """Run a plan of one job in the worktree; return the id of the run and the result.

        It has processes of its own: the code differs in each commit.
        """
        project = discover(plan.root, planned.loaded, root=plan.root)
        for job, _ in plan.jobs:
            self._lend_recordings(job)
        with Workspace(project, planned.loaded) as workspace:
            self._run = run = workspace.start(plan)
            if self._is_cancelled.is_set():
                run.cancel()
            for _ in run.iter_events():
                pass
            results = run.results()
        self.check()
        if not results:
            raise PlanError(f"{self._case.key}: the run {run.run_id} ended without a result")
        return run.run_id, results[0]

    def _lend_recordings(self, job: JobKey) -> None:
        """Copy what the project recorded of the models for a repeat, so that equal requests of a commit cost nothing.

        They are the newest recordings then, so that those of earlier commits do not displace them.
        """
        models = self._plan.models
        if models is None or models.mode is ModelMode.LIVE or models.replay is not None:
            return
        recorded = list(self._workspace.iter_stored_calls(job))
        if recorded:
            with closing(RecordingStore(self._worktree.results)) as store:
                for each in reversed(recorded):
                    store.write(job, each, name=hash_calls(each.calls))

    def _add_known(self, known: KnownCommit, place: _Place, verdict: StoredVerdict) -> None:
        job = verdict.job
        if job.status not in _DECIDED:
            known.reason = "nothing was evaluated" if job.failure is None else job.failure.message
            return
        if place.root == self._worktree.results:
            self._refuse_content_of_working_tree(_list_rows(place, verdict), known.commit)

        def read_result() -> CaseResult | None:
            with History.open(place.root) as history:
                return next((result for _, result in read_results(history, {job.key: verdict})), None)

        known.samples.append(
            Sample(
                status=job.status,
                source=SampleSource.KNOWN,
                run_id=job.run_id,
                execution=(str(place.root), job.run_id, job.key.repeat),
                read_result=read_result,
                read_used=lambda: self._list_used(_list_rows(place, verdict)),
                is_replayed=job.is_replayed,
            )
        )

    def _list_used(self, rows: Sequence[Dependency]) -> Used:
        """Return what these rows say of the repository."""
        top = f"{self._worktree.top}{os.sep}"

        def select(kinds: Collection[str]) -> frozenset[str]:
            of_kinds = {get_path(row) for row in rows if row.kind in kinds}
            paths = {self._worktree.to_worktree(path) for path in of_kinds if path}
            return frozenset(
                os.path.relpath(path, self._worktree.top) for path in paths if f"{path}{os.sep}".startswith(top)
            )

        opaque = frozenset(row.key for row in rows if row.kind == DependencyKind.OPAQUE)
        folders, trees = select({DependencyKind.FOLDER}), select({DependencyKind.TREE})
        kinds = {row.kind for row in rows} - _FOLDER_KINDS
        names = {row.key.rpartition("::")[::2] for row in rows if row.kind in _PART_KINDS}
        names |= {(row.key, EVERYTHING) for row in rows if row.kind == DependencyKind.MODULE}
        names |= {(row.key, _REST) for row in rows if row.kind == DependencyKind.REST}
        parts = frozenset(
            f"{os.path.relpath(path, self._worktree.top)}::{name}"
            for path, name in ((self._worktree.to_worktree(path), name) for path, name in names)
            if path.startswith(top)
        )
        return Used(select(kinds), folders, trees, opaque, select(kinds - _PART_KINDS - _NO_WHOLE_FILES), parts)

    def _refuse_content_of_working_tree(self, rows: Iterable[Dependency], commit: Commit) -> None:
        """Raise PlanError if the agent used files of the working tree: then its verdict is none on the commit."""
        foreign = [row for row in rows if self._worktree.is_only_in_repository(get_path(row))]
        code = [get_path(row) for row in foreign if row.kind in SOURCE_KINDS]
        if code:
            raise PlanError(
                f"{min(code)}: the agent imported this file from the working tree, not from commit {commit.short}. "
                "Is the project installed in editable mode? Uninstall it, or set `path` of the target to the folder "
                "that contains its packages"
            )
        paths = sorted({get_path(row) for row in foreign if row.kind in _CONTENT_KINDS})
        if (data := next(filter(self._worktree.is_tracked, paths), None)) is not None:
            raise PlanError(
                f"{data}: the agent read this from the working tree, not from commit {commit.short}. Is the path "
                "absolute, in `.env` or in a variable? Make it relative to the file of the agent"
            )


def _list_rows(place: _Place, verdict: StoredVerdict) -> Sequence[Dependency]:
    """List what the agent and the custom metrics of a verdict used."""
    numbers = (verdict.dependencies, verdict.scoring_dependencies)
    rows = place.verdicts
    return [rows.row(row) for number in numbers if number is not None for row in rows.list_rows(number)]


# The part of a diff that a case used.


def limit_diff(diff: str, sides: tuple[str, str], parts: Collection[str]) -> tuple[str, int]:
    """Leave out the hunks of a diff of one Python module that change nothing that a case used; also count them.

    `sides` are its content before and after, `parts` the names in it that were used. A source that cannot be parsed is
    used as a whole.
    """
    lines = diff.splitlines(keepends=True)
    starts = [number for number, line in enumerate(lines) if line.startswith("@@ ")]
    try:
        before, after = (find_used_lines(text, parts) for text in sides)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return diff, 0
    if not starts:
        return diff, 0
    kept = [
        lines[start:end]
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)
        if _is_hunk_used(lines[start:end], before, after)
    ]
    head = lines[: starts[0]] if kept else []
    return "".join([*head, *(line for hunk in kept for line in hunk)]), len(starts) - len(kept)


def _is_hunk_used(lines: Sequence[str], before: Collection[int], after: Collection[int]) -> bool:
    found = _HUNK.match(lines[0])
    if found is None:
        return True
    old, new = int(found[1]), int(found[2])
    for line in lines[1:]:
        if (line[0] == "-" and old in before) or (line[0] == "+" and new in after):
            return True
        old += line[0] in "- "
        new += line[0] in "+ "
    return False


_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


def find_used_lines(text: str, parts: Collection[str]) -> frozenset[int]:
    """Return the numbers of the lines of a source that belong to used functions or definitions.

    Comments between statements belong to nothing. Raises what `parse_source` raises.
    """
    tree = parse_source(text.encode("utf-8", "surrogateescape"), "")
    defined = find_defined_names(tree, count_bound_names(tree))
    used: set[int] = set()
    for position, statement in enumerate(tree.body):
        names = defined.get(position)
        if EVERYTHING in parts or (_REST in parts if names is None else not set(names).isdisjoint(parts)):
            used.update(range(_get_first_line(statement), (statement.end_lineno or statement.lineno) + 1))
    for name, function in cut(tree)[1]:  # the outer ones first
        executed = list_executed(function)
        if not executed:
            continue
        body = range(_get_first_line(executed[0]), (function.end_lineno or function.lineno) + 1)
        if name in parts:
            used.update(body)
        else:  # what is on one line with the head is part of it, too
            used.difference_update(line for line in body if line > function.lineno)
    return frozenset(used)


def _get_first_line(statement: ast.stmt) -> int:
    decorators: Sequence[ast.expr] = getattr(statement, "decorator_list", ())
    return min([statement.lineno, *(each.lineno for each in decorators)])


def _explain_no_verdict(result: CaseResult) -> str:
    if result.failure is not None:
        return result.failure.message
    reasons = [metric.reason for metric in result.metrics if metric.reason]
    return reasons[0] if reasons else f"it ended as {result.status.value}"


def describe_failure(case: EvalCase, result: CaseResult) -> Failure:
    """Describe what is wrong in a result. Texts of answers do not count: models word them anew each time."""
    reported = ReportedCase(result, case)
    differences = [each for turn in (*reported.differences, reported.state_differences) for each in turn]
    values = (f"{each.kind} {each.tool} {each.path} {each.actual!r}" for each in differences if each.kind not in _TEXTS)
    return frozenset([*map(str, find_failure(case, result).symptoms), *values])
