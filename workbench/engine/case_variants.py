"""Executions of variants of one case, which leave no trace in the project."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, TypeVar, cast

from workbench.engine.agent_source import is_prompt_file, make_relative, read_agent_source
from workbench.engine.plan import Plan, PlanError, PlannedCase, RunOptions, Selection
from workbench.engine.run import Run
from workbench.engine.workspace import Workspace
from workbench.model.criteria import EvalConfig
from workbench.model.evalset import EvalCase
from workbench.model.identity import CaseKey, Dependency, DependencyKind, JobKey
from workbench.model.results import CaseResult, CaseStatus
from workbench.model.target import AgentDescription, AgentKind, ModelMode, Target
from workbench.model.text import pluralise
from workbench.simulation.replayed_models import hash_calls
from workbench.store.evalsets.case_frame import DocumentFormat
from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.store.model_answers import RecordingStore
from workbench.store.settings import load_settings

CaseData = Mapping[str, Any]
"""A case as data of its eval set, with unknown keys."""


class Variant(NamedTuple):
    """One execution of a variant of the case: the variant as a type, and its result."""

    case: EvalCase
    result: CaseResult


class Interrupted(Exception):
    """The user stopped the executions."""


class BudgetUsedUp(Exception):
    """No execution is left."""


class AgentFailed(Exception):
    """What was executed without an error before ends in ERROR now, as `result` does."""

    def __init__(self, result: CaseResult) -> None:
        super().__init__("a criterion has no score" if result.failure is None else result.failure.message)


ERRORS_IN_A_ROW = 3
"""Executions that end in ERROR, after which one that did not is repeated, then after twice as many."""


def run_search(work: Callable[[], None]) -> tuple[bool, str]:
    """Execute variants until the end, or the end of the budget. Return if the user stopped it, and why the agent
    failed."""
    try:
        work()
    except BudgetUsedUp:
        return False, ""
    except Interrupted:
        return True, ""
    except AgentFailed as error:
        return False, str(error)
    return False, ""


def explain_end(what: str, *, is_interrupted: bool, error: str) -> str:
    """Return why a search ended too early. With an `error`, `what` was executed again in vain."""
    if error:
        return f"{what} ends in ERROR now, too"
    return "interrupted" if is_interrupted else "the budget was used up"


_REPEATS_LOOKED_UP = 3
T = TypeVar("T")


class Caller(Protocol):
    """Does work on another thread, and waits for its end."""

    def __call__(self, work: Callable[[], T], /) -> T: ...


def _call_here(work: Callable[[], T], /) -> T:
    return work()


def require_one_case(plan: Plan) -> PlannedCase:
    """Return the only case of a plan. Raises PlanError."""
    if len(plan.cases) == 1:
        return plan.cases[0]
    named = f"{pluralise(len(plan.cases), 'case')} selected, expected one: name it as SET:CASE"
    if len({(case.key.eval_set, case.key.eval_id) for case in plan.cases}) == 1:  # cases with the same id
        named = next((case.problem.message for case in plan.cases if case.problem is not None), named)
    raise PlanError(*plan.problems, named)


class CaseExecutor:
    """Executes variants of one case, one after the other. Results are not stored.

    Recorded model calls of the case are replayed where requests are the same. New calls are recorded in a temporary
    folder, so that variants with the same beginning share them, and the recordings of the project stay as they are.
    """

    def __init__(
        self,
        workspace: Workspace,
        selections: Sequence[Selection],
        options: RunOptions,
        *,
        config: EvalConfig | None = None,
        call: Caller | None = None,
    ) -> None:
        """`config` replaces the criteria. `call` does work on the thread of the workspace; None: any thread may.

        Raises PlanError unless the selections name one case that can be executed.
        """
        self._workspace = workspace
        self._call = call or _call_here
        self._options = options.model_copy(update={"history": False, "adk_results": False, "runs": 1})
        self._config = config
        self._plan = workspace.plan(selections, self._options, config=config)
        self.planned = require_one_case(self._plan)
        self.document = self._open_document().make_scratch()  # it stays as it is now
        self.data: CaseData = self.document.raw_case(self._find_index())
        self._run: Run | None = None
        self._describing: Future[AgentDescription] | None = None
        self._is_cancelled = False
        self._lock = threading.Lock()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._recorded: set[int] = set()
        self._code: dict[str, bytes] | None = None
        self._changed_files: set[str] = set()

    def _open_document(self) -> EvalSetDocument:
        """Return the eval set. Raises PlanError if the case cannot be executed or has no conversation of its own."""
        planned, key = self.planned, self.planned.key
        if planned.problem is not None:
            raise PlanError(planned.problem.message)
        if not planned.needs_agent:
            raise PlanError(f"{key}: it is recorded, and no agent can be run with a variant of it")
        if planned.scenario is not None:
            raise PlanError(
                f"{key}: it is a scenario, whose user says something else each time; save one of its conversations as "
                "a fixed case (alt+k on the screen), and name that case"
            )
        document = self._workspace.document(key.eval_set)
        if document.format is not DocumentFormat.CURRENT:
            raise PlanError(f"{key.eval_set}: it has an old format; migrate it first (workbench eval-set migrate)")
        return document

    def _find_index(self) -> int:
        return self.document.find_index(self.planned.key.eval_id, occurrence=self.planned.key.occurrence)

    @property
    def key(self) -> CaseKey:
        return self.planned.key

    @property
    def root(self) -> Path:
        return self._workspace.root

    @property
    def changed_files(self) -> Sequence[str]:
        """The files of the agent's code and prompts that changed between its description and the last execution."""
        return sorted(self._changed_files)

    def describe(self) -> AgentDescription:
        """Describe the agent. Raises PlanError if it cannot, and Interrupted if it was stopped."""
        self._note_changed_files()
        future = self._call(lambda: self._workspace.start_describing(self.key.target))
        with self._lock:
            self._describing = future
            if self._is_cancelled:
                future.cancel()
        try:
            return future.result()
        except CancelledError:
            raise Interrupted from None

    def list_known_dependencies(self) -> frozenset[Dependency]:
        """Return what the newest stored executions of the case used; empty if none is stored. Raises StoreError."""
        return self._call(self._read_known_dependencies)

    def _read_known_dependencies(self) -> frozenset[Dependency]:
        verdicts = self._workspace.verdicts
        newest = (verdicts.newest(JobKey(self.key, repeat)) for repeat in range(_REPEATS_LOOKED_UP))
        numbers = {each.dependencies for each in newest if each is not None and each.dependencies is not None}
        return frozenset(verdicts.row(row) for number in numbers for row in verdicts.list_rows(number))

    @property
    def notices(self) -> tuple[str, ...]:
        return (*self._plan.notices, *self._plan.problems)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the new recordings of model calls."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def cancel(self) -> None:
        """Stop the present execution, and allow no other. Any thread may call it."""
        with self._lock:
            self._is_cancelled = True
            run, describing = self._run, self._describing
        if describing is not None:
            describing.cancel()
        if run is not None:
            run.cancel()

    def reopen(self) -> None:
        """Allow executions again after `cancel`."""
        with self._lock:
            self._is_cancelled = False

    def is_valid(self, data: CaseData) -> bool:
        """Return True if a variant could be executed."""
        return self.document.find_fault(data) is None

    def execute(
        self,
        data: CaseData,
        *,
        repeat: int,
        instructions: Mapping[str, Mapping[str, str]],
        copy: Path | None = None,
        replays: bool = True,
    ) -> Variant:
        """Execute a variant as this repeat. `instructions` replace those of agents: see `SessionRequest`. `copy` is a
        copy of the project, whose code runs instead. Without `replays` known answers of models are not used.

        Raises Interrupted if the executions were stopped, and PlanError.
        """
        with self._lock:
            if self._is_cancelled:
                raise Interrupted
        self._note_changed_files()
        if copy is None:
            found = self._follow(*self._call(lambda: self._start(data, repeat, instructions, replays=replays)))
        else:
            plan, case = self._call(lambda: self._make_plan(data, repeat, instructions, replays=replays))
            # It has processes of its own: the code differs.
            with Workspace(self._workspace.project, load_settings(self.root)) as workspace:
                found = self._follow(workspace.start(_move_plan(plan, self.root, copy)), case)
        self._note_changed_files()
        return found

    def _note_changed_files(self) -> None:
        """Compare the files of the agent with those at the first call. Prompts count if the case used them before."""
        if self._code is None:
            self._code = {}
            rows = self.list_known_dependencies()
            used = {row.key for row in rows if row.kind == DependencyKind.FILE and is_prompt_file(row.key)}
            written = {row.key for row in rows if row.kind == DependencyKind.WRITTEN}
            self.follow_files([*read_agent_source(self.planned.target, root=self.root).files, *(used - written)])
        changed = (path for path, content in self._code.items() if _hash_file(path) != content)
        self._changed_files.update(make_relative(path, self.root) for path in changed)

    def follow_files(self, paths: Iterable[str]) -> None:
        """Say from now on in `changed_files` if one of these changes. Only called after `describe` or `execute`."""
        assert self._code is not None
        self._code |= {path: _hash_file(path) for path in paths if path not in self._code}

    def _follow(self, run: Run, case: EvalCase) -> Variant:
        """Wait for the end of a run of the case. Raises Interrupted."""
        with self._lock:
            self._run = run
            if self._is_cancelled:
                run.cancel()
        for _ in run.iter_events():
            pass
        results = run.results()
        if self._is_cancelled or not results or results[0].status is CaseStatus.CANCELLED:
            raise Interrupted
        return Variant(case, results[0])

    def _start(
        self, data: CaseData, repeat: int, instructions: Mapping[str, Mapping[str, str]], *, replays: bool
    ) -> tuple[Run, EvalCase]:
        plan, case = self._make_plan(data, repeat, instructions, replays=replays)
        return self._workspace.start(plan), case

    def _make_plan(
        self, data: CaseData, repeat: int, instructions: Mapping[str, Mapping[str, str]], *, replays: bool
    ) -> tuple[Plan, EvalCase]:
        key = self.key
        document = self._make_document(data)
        plan = self._workspace.plan_documents(
            self._workspace.project, {key.eval_set: document}, self._options, config=self._config
        )
        if not plan.cases:  # the agent was removed meanwhile
            raise PlanError(*plan.problems, f"{key}: it can no longer be planned")
        planned = replace(plan.cases[0], key=key, repeat=repeat)
        models = plan.models
        if models is not None and models.mode is ModelMode.AUTO and not replays:
            models = None
        elif models is not None:
            models = replace(models, folder=self._copy_recordings(repeat))
        limits = plan.limits.model_copy(update={"runs": repeat + 1})
        plan = replace(
            plan, cases=(planned,), limits=limits, models=models, instructions=instructions, whole_sets=frozenset()
        )
        case = planned.case
        assert case is not None
        return plan, case

    def _make_document(self, data: CaseData) -> EvalSetDocument:
        """Return an eval set in memory that has only this variant."""
        content = {**self.document.header, "eval_cases": [data]}
        return EvalSetDocument(self.document.path, json.dumps(content).encode(), None)

    def _copy_recordings(self, repeat: int) -> Path:
        """Copy the recorded model calls of a repeat to the temporary folder, once. Return the folder."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="workbench-", ignore_cleanup_errors=True)
        folder = Path(self._folder.name)
        if repeat not in self._recorded:
            self._recorded.add(repeat)
            job = JobKey(case=self.key, repeat=repeat)
            recorded = list(self._workspace.iter_stored_calls(job))
            if recorded:
                store = RecordingStore(folder)
                try:
                    for each in reversed(recorded):  # the newest last
                        store.write(job, each, name=hash_calls(each.calls))
                finally:
                    store.close()
        return folder


def _hash_file(path: str) -> bytes:
    try:
        return hashlib.sha256(Path(path).read_bytes()).digest()
    except OSError:
        return b""


_MOST_NAMED = 3


def explain_changed_files(files: Sequence[str]) -> str:
    """Say that files of the agent changed during a search; empty if none did."""
    if not files:
        return ""
    others = [f"{len(files) - _MOST_NAMED} more"] if len(files) > _MOST_NAMED else []
    names = ", ".join([*files[:_MOST_NAMED], *others])
    return f"{names} changed during the search: its executions used different code, so search again"


def _move_plan(plan: Plan, root: Path, copy: Path) -> Plan:
    """Return the plan of one case for a copy of the project."""

    def move(path: str) -> str:
        return f"{copy}{path[len(str(root)) :]}" if _is_in(path, str(root)) else path

    (planned,) = plan.cases
    return replace(plan, root=copy, cases=(replace(planned, target=map_paths(planned.target, move)),))


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}{os.sep}")


def map_paths(target: Target, move: Callable[[str], str]) -> Target:
    changes: dict[str, object] = {
        name: Path(move(str(path)))
        for name in ("path", "env_file", "config", "scripted_models", "simulate_tools")
        if (path := cast("Path | None", getattr(target, name))) is not None
    }
    if target.kind is AgentKind.ADK and Path(target.location).is_absolute():
        changes["location"] = move(target.location)
    changes["watch"] = tuple(move(each) for each in target.watch)
    return target.model_copy(update=changes)
