"""From what was written on the command line to the project and the cases that are meant."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from workbench.cli.arguments import Named, split_argument
from workbench.engine.plan import NoCases, PlanError, Selection
from workbench.engine.recordings import recorded_target
from workbench.model.target import Target
from workbench.model.text import did_you_mean
from workbench.store.datasets import holds_rows
from workbench.store.discovery import EvalSetEntry, Project, criteria_file, find_root
from workbench.store.discovery.pairing import ByLocation

_MARKS = ("workbench.toml", ".git", "pyproject.toml")


def root_of(paths: Sequence[Path]) -> Path:
    """The one project that all paths belong to; without any, the one around the working directory.

    A folder that nothing marks as a project is no better a root than the working directory, where that holds it.
    Raises PlanError for paths of several projects.
    """
    here = Path.cwd()
    roots: dict[Path, Path] = {}
    for path in paths:
        root = find_root(path)
        roots.setdefault(root if is_marked(root) or not root.is_relative_to(here) else find_root(here), path)
    if len(roots) <= 1:
        return next(iter(roots), find_root(here))
    places = "; ".join(f"{path} to {root}" for root, path in roots.items())
    raise PlanError(f"the arguments belong to different projects ({places}): run them one at a time")


def is_marked(root: Path) -> bool:
    """Whether a folder has a file that says that it is a project."""
    return any((root / mark).exists() for mark in _MARKS)


def split_names(project: Project, arguments: Iterable[str]) -> list[Named]:
    """The arguments, split. Raises PlanError for those that are neither a path nor a target."""
    known = [*project.targets, *(entry.relative for entry in project.eval_sets)]
    named = []
    for text in arguments:
        name = split_argument(text, exists=lambda text: Path(text).exists() or text in project.targets)
        if name is None:
            raise PlanError(
                f"{text}: no such file, folder or target{did_you_mean(text.rpartition(':')[0] or text, known)}"
            )
        if name.cases == ():
            raise PlanError(f"{text}: no case stands after the colon; leave the colon out to run all")
        named.append(name)
    return named


def only_target(project: Project, target: str) -> Project:
    """The project with the sets of this target alone. Raises PlanError where there is no such target or no set."""
    _require_target(project, target)
    return project.model_copy(update={"eval_sets": _sets_of(project, target)})


def with_named_sets(project: Project, named: Iterable[Named], *, target: str | None) -> Project:
    """The project with the sets that were named but are called otherwise than discovery looks for.

    A dataset is a target of its own, whose recordings it holds. With `target`, that agent runs all sets. Raises
    PlanError where there is no such target, and StoreError where a file cannot be read.
    """
    if target is not None:
        _require_target(project, target)
    entries = {entry.relative: entry for entry in project.eval_sets}
    targets = dict(project.targets)
    pairing = ByLocation((t for t in project.targets.values() if not t.eval_sets), root=project.root)
    for name in named:
        relative = relative_name(name.path, project.root)
        if not name.path.is_file() or relative in entries:
            continue
        if holds_rows(name.path):
            dataset = recorded_target(name.path.resolve(), root=project.root)
            targets[dataset.name] = dataset
            entries[relative] = entry_of(name.path, root=project.root, target=dataset)
        else:
            near, reason = pairing.pair(name.path.resolve())
            agent = project.targets[near] if near is not None else None
            entries[relative] = entry_of(name.path, root=project.root, target=agent, reason=reason)
    if target is not None:
        agent = project.targets[target]
        entries = {name: entry_of(entry.path, root=project.root, target=agent) for name, entry in entries.items()}
    return project.model_copy(update={"eval_sets": tuple(entries.values()), "targets": targets})


def select(project: Project, named: Sequence[Named]) -> list[Selection]:
    """The cases of these names; without any, all that have an agent.

    Raises NoCases for a folder, target or project without eval sets.
    """
    if named:
        return [selection for name in named for selection in _select_one(project, name)]
    entries = [entry for entry in project.eval_sets if entry.target is not None]
    if not entries:
        raise NoCases(f"{project.root}: no eval set with an agent was found; see `workbench doctor`")
    return [Selection(eval_set=entry.relative) for entry in entries]


def only_cases(
    selections: Sequence[Selection], cases: Sequence[str], *, ids_of: Callable[[str], Sequence[str]]
) -> list[Selection]:
    """Of these selections the cases with these ids, wherever they are. Raises PlanError for ids that are nowhere."""
    kept: list[Selection] = []
    missing = dict.fromkeys(cases)
    known: list[str] = []
    for selection in selections:
        ids = ids_of(selection.eval_set)
        known += ids
        chosen = tuple(case for case in cases if case in ids)
        if chosen:
            kept.append(Selection(eval_set=selection.eval_set, cases=chosen))
        for case in chosen:
            missing.pop(case, None)
    if missing:
        raise PlanError(
            *(f"no eval case {case!r} in the eval sets named{did_you_mean(case, known)}" for case in missing)
        )
    return kept


def entry_of(path: Path, *, root: Path, target: Target | None, reason: str | None = None) -> EvalSetEntry:
    """A set that was named on the command line."""
    entry = EvalSetEntry(
        path=path.resolve(),
        relative=relative_name(path, root),
        target=target.name if target is not None else None,
        kind="test" if path.name.endswith(".test.json") else "evalset",
        unpaired_reason=reason,
    )
    return entry.model_copy(update={"config": criteria_file(entry, target)})


def relative_name(path: Path, root: Path) -> str:
    """The name of a set: its path relative to the root, with forward slashes, also where it lies outside."""
    return Path(os.path.relpath(path.resolve(), root)).as_posix()


def _require_target(project: Project, name: str) -> None:
    if name not in project.targets:
        raise PlanError(f"no such target: {name!r}{did_you_mean(name, project.targets)}")


def _sets_of(project: Project, target: str) -> tuple[EvalSetEntry, ...]:
    entries = tuple(entry for entry in project.eval_sets if entry.target == target)
    if not entries:
        raise NoCases(f"target {target}: no eval set belongs to it; see `workbench doctor`")
    return entries


def _select_one(project: Project, named: Named) -> list[Selection]:
    if named.name in project.targets:  # also where a folder has the same name: that one is `./NAME`
        entries = list(_sets_of(project, named.name))
    elif named.path.is_dir():
        folder = named.path.resolve()
        entries = [entry for entry in project.eval_sets if entry.path.resolve().is_relative_to(folder)]
        if not entries:
            raise NoCases(f"{named.name}: no eval set below this folder (*.evalset.json or *.test.json)")
    else:
        return [Selection(eval_set=relative_name(named.path, project.root), cases=named.cases)]
    return [Selection(eval_set=entry.relative, cases=named.cases) for entry in entries]
