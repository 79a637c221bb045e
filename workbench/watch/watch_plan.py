"""What a watch is about: the plan of all its cases, made again when eval sets, criteria or settings change."""

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
from workbench.store.project_discovery import Project, can_claim, find_recordings
from workbench.store.settings import FILE_NAME
from workbench.watch.file_watcher import Change

_MOST_NAMED = 3
_GONE = "it is gone, and its cases with it"
_NOT_WATCHED = "it stands elsewhere, where nobody tells of changes, and is not watched"
_SET_ENDINGS = (".evalset.json", ".test.json")
_ENDINGS = frozenset({".json", ".jsonl", ".ndjson", ".csv"})
_FILES = frozenset({FILE_NAME, "test_config.json"})
_AGENTS = frozenset({"agent.py", "__init__.py", "root_agent.yaml", ".env"})
"""Files that may bind an agent which was none before, or no longer do, or that are nearer to it than its `.env`."""


class WatchPlanner:
    """Keeps the last plan that was good: of a set that cannot be read at the moment the cases are as they were."""

    def __init__(
        self, workspace: Workspace, select: Callable[[Workspace], Sequence[Selection]], options: RunOptions
    ) -> None:
        """`select` says which cases are meant, each time the project has been looked at again."""
        self._workspace = workspace
        self._select = select
        self._options = options
        self._last: Plan | None = None
        self._wanted: frozenset[str] = frozenset()  # eval sets, of which some may be gone
        self._reported: frozenset[str] = frozenset()
        self._had: set[str] = set()  # eval sets that had cases at any time
        self._remote_sets: Sequence[str] = ()  # datasets that were meant and are not watched

    def plan(self, saved: Collection[Path] = ()) -> tuple[Plan, tuple[Notice, ...]]:
        """The plan as things are now, and what is wrong or missing and was not told before.

        What is still wrong with a file that was `saved` just now is told again: nobody must take it for mended.
        There may be no case yet, or none any longer. Raises PlanError and StoreError only where there was no good plan
        yet.
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
        """The plan, and what is missing where it has no case."""
        try:
            if self._last is not None:
                self._workspace.refresh()
            selections = self._select(self._workspace)
        except NoCases as error:
            return self._workspace.plan_what_is_there((), self._options), str(error)
        watched = drop_remote_sets(selections, self._workspace.project)
        self._remote_sets = [each.eval_set for each in selections if each not in watched]
        selections = watched
        self._wanted = frozenset(each.eval_set for each in selections)
        there = {entry.relative for entry in self._workspace.project.eval_sets}
        gone = self._wanted - there if self._last is not None else frozenset()
        left = [each for each in selections if each.eval_set not in gone]
        plan = self._workspace.plan_what_is_there(left, self._options)
        problems = (*plan.problems, *(f"{name}: {_GONE}" for name in sorted(gone)))
        return replace(plan, problems=problems), "" if plan.cases else _explain_missing(self._workspace.project)

    def make_run_plan(self, reason: str) -> Plan:
        """The last plan, as the history will name a run of a part of it; its problems have been told by `plan`."""
        assert self._last is not None
        command = f"watch: {reason}" if reason else "watch"
        return replace(self._last, options=self._last.options.model_copy(update={"command": command}), problems=())

    @property
    def files(self) -> frozenset[Path]:
        """The files that a plan is made from, wherever they are: eval sets, criteria, recordings, simulated tools."""
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

    def is_affected(self, change: Change) -> bool:
        """Whether a change may make another plan."""
        if change.everything:
            return True
        paths = [Path(path) for path in change.paths]
        if any(path.name in _FILES or path.name.endswith(_SET_ENDINGS) for path in paths):
            return True
        if not self.files.isdisjoint(paths):
            return True
        return any(path.name in _AGENTS or self._is_claimed(path) for path in paths) and self._has_project_changed()

    def _is_claimed(self, path: Path) -> bool:
        """Whether the settings may say that a file is an eval set or dataset, whatever it is called."""
        root = self._workspace.root
        if path.suffix not in _ENDINGS or not path.is_relative_to(root):
            return False
        relative = path.relative_to(root).as_posix()
        return any(can_claim(target, relative, root=root) for target in self._workspace.project.targets.values())

    def _has_project_changed(self) -> bool:
        """Whether there are other agents or eval sets than before: planning ten thousand cases takes a second."""
        before = self._workspace.project
        try:
            self._workspace.refresh()
        except (PlanError, StoreError):  # making the plan says so
            return True
        return self._workspace.project != before

    def _report_lost_sets(self, plan: Plan) -> Iterator[Notice]:
        """Of the sets that had cases those that have none any longer, where others have some."""
        now = {case.key.eval_set for case in plan.cases}
        self._had |= now
        for name in sorted(self._had - now) if now else ():
            is_there = (plan.root / name).is_file()
            if is_there and name in self._wanted:
                yield Notice(message=f"{name}: there is no eval case in it any longer")
            elif not is_there and name not in self._wanted:  # of those that were named it is a problem
                yield Notice(message=f"{name}: {_GONE}")

    def _restore_unreadable(self, plan: Plan) -> tuple[Plan, tuple[str, ...]]:
        """Of sets that are there and cannot be read, as while they are typed, the cases are as they were.

        With what is wrong, as far as the plan does not say so.
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
    """What of this can be watched: not datasets elsewhere, of whose changes nothing tells and which are not fetched for
    it."""
    elsewhere = {entry.relative for entry in project.eval_sets if entry.address is not None}
    return [each for each in selections if each.eval_set not in elsewhere]


def _explain_missing(project: Project) -> str:
    """What a project without cases lacks first."""
    if not project.eval_sets:
        return f"{project.root}: there is no eval set (*.evalset.json or *.test.json) yet"
    unpaired = next((entry for entry in project.eval_sets if entry.target is None), None)
    if unpaired is not None:
        return f"{unpaired.relative}: {unpaired.unpaired_reason or 'no agent belongs to it'}"
    shown = ", ".join(entry.relative for entry in project.eval_sets[:_MOST_NAMED])
    more = len(project.eval_sets) - _MOST_NAMED
    return f"there is no eval case in {shown}{f' and {more} more sets' if more > 0 else ''} yet"


def _make_prefixes(paths: Collection[Path], *, root: Path) -> tuple[str, ...]:
    """How messages about these files begin."""
    names = {path.relative_to(root).as_posix() for path in paths if path.is_relative_to(root)}
    return tuple(f"{name}:" for name in names.union(map(shown_path, paths)))


def _is_json(path: Path) -> bool:
    try:
        json.loads(path.read_bytes())
    except (OSError, ValueError):
        return False
    return True
