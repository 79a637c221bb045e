"""The plan of a watch, made again when eval sets, criteria or settings change."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from workbench.engine.plan import NoCases, Plan, PlanError, RunOptions, Selection
from workbench.engine.workspace import Workspace
from workbench.model.results import FailureKind
from workbench.model.run_events import Notice
from workbench.store.errors import StoreError, shown_path
from workbench.store.files import CRITERIA_FILES, SIDECAR_SUFFIX
from workbench.store.project_discovery import Project, can_claim, find_recordings
from workbench.store.settings import FILE_NAME
from workbench.watch.file_watcher import FileChange

_MOST_NAMED = 3
_GONE = "the file was deleted; the watch continues with its cases when it is back"
_NOT_WATCHED = "remote datasets are not watched; run `workbench run` after a change"
_SET_ENDINGS = (".evalset.json", ".test.json", SIDECAR_SUFFIX)
_ENDINGS = frozenset({".json", ".jsonl", ".ndjson", ".csv"})
_FILES = frozenset({FILE_NAME, *CRITERIA_FILES})
_AGENTS = frozenset({"agent.py", "__init__.py", "root_agent.yaml", ".env"})
"""Files that may add or remove an agent, or a nearer `.env` for it."""


class WatchPlanner:
    """Makes plans. If a set cannot be read, its cases of the last valid plan are kept."""

    def __init__(
        self, workspace: Workspace, select: Callable[[Workspace], Sequence[Selection]], options: RunOptions
    ) -> None:
        """`select` returns the cases to watch, each time the project was read again."""
        self._workspace = workspace
        self._select = select
        self._options = options
        self._last: Plan | None = None
        self._wanted: frozenset[str] = frozenset()  # eval sets; some may not exist any more
        self._reported: frozenset[str] = frozenset()
        self._had: set[str] = set()  # eval sets that ever had cases
        self._remote_sets: Sequence[str] = ()  # selected, but not watched

    def plan(self, saved: Collection[Path] = ()) -> tuple[Plan, tuple[Notice, ...]]:
        """Return the present plan, and problems that were not reported before.

        Problems of files that were just `saved` are reported again, so that they do not seem solved. The plan may have
        no cases. Raises PlanError and StoreError only if there was no valid plan yet.
        """
        missing = ""
        problems: tuple[str, ...] = ()
        try:
            plan, missing = self._plan_existing()
            plan, unfinished = self._restore_unreadable(plan)
            problems = (*plan.problems, *unfinished)
        except (PlanError, StoreError) as error:
            if self._last is None:
                raise
            plan, problems = self._last, getattr(error, "problems", (str(error),))
        self._last = plan
        notices = [Notice(severity="error", message=problem) for problem in problems]
        if not plan.cases and not problems:
            notices.append(Notice(message=f"{missing}; the first case that is saved will run"))
        notices += self._report_lost_sets(plan)
        notices += [Notice(message=f"{name}: {_NOT_WATCHED}") for name in self._remote_sets]
        about = _make_prefixes(saved, root=self._workspace.root)
        new = tuple(each for each in notices if each.message not in self._reported or each.message.startswith(about))
        self._reported = frozenset(notice.message for notice in notices)
        return plan, new

    def _plan_existing(self) -> tuple[Plan, str]:
        """Return the plan, and what the project lacks if the plan has no cases."""
        try:
            if self._last is not None:
                self._workspace.refresh()
            selections = self._select(self._workspace)
        except NoCases as error:
            return self._workspace.plan_existing_cases((), self._options), str(error)
        watched = drop_remote_sets(selections, self._workspace.project)
        self._remote_sets = [each.eval_set for each in selections if each not in watched]
        selections = watched
        self._wanted = frozenset(each.eval_set for each in selections)
        there = {entry.relative for entry in self._workspace.project.eval_sets}
        gone = self._wanted - there if self._last is not None else frozenset()
        left = [each for each in selections if each.eval_set not in gone]
        plan = self._workspace.plan_existing_cases(left, self._options)
        problems = (*plan.problems, *(f"{name}: {_GONE}" for name in sorted(gone)))
        return replace(plan, problems=problems), "" if plan.cases else _explain_missing(self._workspace.project)

    def make_run_plan(self, reason: str) -> Plan:
        """Return the last plan for a run with this reason in the history, without problems, which `plan` reports."""
        assert self._last is not None
        command = f"watch: {reason}" if reason else "watch"
        return replace(self._last, options=self._last.options.model_copy(update={"command": command}), problems=())

    @property
    def files(self) -> frozenset[Path]:
        """The files that the plan is made from: eval sets, criteria, recordings, simulated tools."""
        if self._last is None:
            return frozenset()
        root = self._last.root
        names = self._wanted.union(case.key.eval_set for case in self._last.cases)
        sets = {Path(os.path.normpath(root / name)) for name in names}
        configs = {Path(source) for source in {case.config.source for case in self._last.cases}}
        targets = {case.target.name: case.target for case in self._last.cases}.values()
        tools = {file for case in self._last.cases if case.tools is not None for file in case.tools.files}
        recordings = {path for target in targets if (path := find_recordings(target)) is not None}
        return frozenset(path for path in {*sets, *configs, *tools, *recordings} if path.is_absolute())

    def is_affected(self, change: FileChange) -> bool:
        """Return True if a change may change the plan."""
        if change.everything:
            return True
        paths = [Path(path) for path in change.paths]
        if any(path.name in _FILES or path.name.endswith(_SET_ENDINGS) for path in paths):
            return True
        if not self.files.isdisjoint(paths):
            return True
        return any(path.name in _AGENTS or self._is_claimed(path) for path in paths) and self._has_project_changed()

    def _is_claimed(self, path: Path) -> bool:
        """Return True if the settings may make a file an eval set or dataset, whatever its name."""
        root = self._workspace.root
        if path.suffix not in _ENDINGS or not path.is_relative_to(root):
            return False
        relative = path.relative_to(root).as_posix()
        return any(can_claim(target, relative, root=root) for target in self._workspace.project.targets.values())

    def _has_project_changed(self) -> bool:
        """Return True if the agents or eval sets changed. This avoids a new plan, which is slow for many cases."""
        before = self._workspace.project
        try:
            self._workspace.refresh()
        except (PlanError, StoreError):  # `plan` reports it
            return True
        return self._workspace.project != before

    def _report_lost_sets(self, plan: Plan) -> Iterator[Notice]:
        """Report sets that have no cases any more, unless the whole plan has none."""
        now = {case.key.eval_set for case in plan.cases}
        self._had |= now
        for name in sorted(self._had - now) if now else ():
            is_there = (plan.root / name).is_file()
            if is_there and name in self._wanted:
                yield Notice(message=f"{name}: no eval case is left in this file")
            elif not is_there and name not in self._wanted:  # a problem is reported for sets that were named
                yield Notice(message=f"{name}: {_GONE}")

    def _restore_unreadable(self, plan: Plan) -> tuple[Plan, tuple[str, ...]]:
        """Restore the last cases of sets that exist and cannot be read, for example while they are edited.

        Also return what is wrong with them, as far as the plan does not report it.
        """
        if self._last is None:
            return plan, ()
        unfinished = {
            case.key.eval_set: case.problem.message
            for case in plan.cases
            if case.problem is not None and case.problem.kind is FailureKind.FILE
        }
        unfinished = {name: why for name, why in unfinished.items() if not _is_json(plan.root / name)}
        read = {case.key.eval_set for case in plan.cases} - unfinished.keys()
        lost = [
            case
            for case in self._last.cases
            if case.key.eval_set not in read
            and (case.key.eval_set in unfinished or (plan.problems and (plan.root / case.key.eval_set).exists()))
        ]
        cases = [case for case in plan.cases if case.key.eval_set in read]
        return (replace(plan, cases=(*cases, *lost)) if lost else plan), tuple(unfinished.values())


def drop_remote_sets(selections: Sequence[Selection], project: Project) -> list[Selection]:
    """Return the selections without remote datasets, whose changes cannot be noticed."""
    remote = {entry.relative for entry in project.eval_sets if entry.address is not None}
    return [each for each in selections if each.eval_set not in remote]


def _explain_missing(project: Project) -> str:
    """Return what a project without cases lacks."""
    if not project.eval_sets:
        return f"{project.root}: no eval set (*.evalset.json or *.test.json) yet"
    unpaired = next((entry for entry in project.eval_sets if entry.target is None), None)
    if unpaired is not None:
        return f"{unpaired.relative}: {unpaired.unpaired_reason or 'no agent belongs to it'}"
    shown = ", ".join(entry.relative for entry in project.eval_sets[:_MOST_NAMED])
    more = len(project.eval_sets) - _MOST_NAMED
    return f"no eval case in {shown}{f' and {more} more sets' if more > 0 else ''} yet"


def _make_prefixes(paths: Collection[Path], *, root: Path) -> tuple[str, ...]:
    """Return the prefixes of messages about these files."""
    names = {path.relative_to(root).as_posix() for path in paths if path.is_relative_to(root)}
    return tuple(f"{name}:" for name in names.union(map(shown_path, paths)))


def _is_json(path: Path) -> bool:
    try:
        json.loads(path.read_bytes())
    except (OSError, ValueError):
        return False
    return True
