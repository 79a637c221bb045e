"""Selects the cases that the arguments of a command name."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

from workbench.cli.shared_options import LONGEST_NAME, NamedArgument, path_exists, split_argument
from workbench.engine.plan import NoCases, PlanError, Selection
from workbench.engine.project_selection import require_target
from workbench.model.text import shorten, suggest_name
from workbench.store.errors import NotLoaded, StoreError
from workbench.store.files import derive_set_name, is_inside, real_path
from workbench.store.project_discovery import EvalSetEntry, Project, find_missing_files, find_recordings


def split_names(project: Project, arguments: Iterable[str]) -> list[NamedArgument]:
    """Split the arguments. Raises PlanError for one that is neither a path nor a target."""
    relatives = [entry.relative for entry in project.eval_sets]
    known = {name: name for name in (*project.targets, *relatives)}
    for relative in relatives:  # also by the id that `adk eval` takes, and by the file name
        known.setdefault(derive_set_name(Path(relative)), relative)
        known.setdefault(Path(relative).name, relative)
    for folder in dict.fromkeys(Path(relative).parent for relative in relatives):
        if folder != Path():
            known.setdefault(folder.as_posix(), folder.as_posix())
    by_name = {*project.targets, *_find_remote_sets(project)}

    def exists(text: str) -> bool:
        return path_exists(text) or text in by_name

    named = []
    for text in arguments:
        if not text:  # an unset variable of the shell; as a path it would be the current folder
            raise PlanError("an argument is empty, expected a file, folder or target")
        name = split_argument(text, exists=exists)
        if name is None:
            shown = shorten(text, LONGEST_NAME)
            if any(map(os.path.islink, (text, text.rpartition(":")[0]))):  # Path raises for a name that is too long
                raise PlanError(f"{shown}: a symbolic link that leads to no file")
            if (place := _find_existing_start(text, exists)) is not None:
                raise PlanError(f"{shown}: an id with a colon is named by --case: {place} --case ID")
            meant = _find_case(project, text) or _did_you_mean_set(text, known)
            raise PlanError(f"{shown}: no such file, folder or target{meant}")
        if name.cases == ():
            raise PlanError(f"{text}: no case after the colon; name a case, or remove the colon to run all")
        named.append(name)
    return named


def _find_existing_start(text: str, exists: Callable[[str], bool]) -> str | None:
    """Return the part before one of the colons if it exists, the longest first."""
    start, colon, _ = text.rpartition(":")
    while colon and not exists(start):
        start, colon, _ = start.rpartition(":")
    return start if colon else None


def _find_case(project: Project, text: str) -> str:
    """Return what to write instead of the mere id of a case; empty if no eval set has it."""
    from workbench.store.evalsets.evalset_document import EvalSetDocument  # needed for this message only

    for entry in project.eval_sets:
        with suppress(StoreError):
            if any(case.eval_id == text for case in EvalSetDocument.open(project.root / entry.relative).entries):
                return f"; did you mean {f'{entry.relative}:{text}'!r}?"
    return ""


def _did_you_mean_set(text: str, known: Mapping[str, str]) -> str:
    """As `suggest_name`, for an argument with or without cases; `known` has what to write for each name."""
    name, colon, cases = text.rpartition(":")
    if not colon:
        name, cases = text, ""
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {known[close[0]] + colon + cases!r}?" if close else ""


def only_target(project: Project, target: str) -> Project:
    """Return the project with the sets of one target. Raises PlanError if there is no such target or set."""
    require_target(project, target)
    return project.model_copy(update={"eval_sets": _find_sets(project, target)})


def select(project: Project, named: Sequence[NamedArgument]) -> list[Selection]:
    """Select the named cases; without names, all. The plan reports sets without an agent.

    Raises NoCases for a folder, target or project without eval sets.
    """
    if named:
        return [selection for name in named for selection in _select_one(project, name)]
    entries = _drop_recordings(project.eval_sets, project)
    if not entries:
        raise NoCases(f"{project.root}: no eval set was found (*.evalset.json or *.test.json); see `workbench doctor`")
    return [Selection(eval_set=entry.relative) for entry in entries]


def only_cases(
    selections: Sequence[Selection], cases: Sequence[str], *, names_of: Callable[[str], Collection[str]]
) -> list[Selection]:
    """Return the selections with only these cases. Raises PlanError for a name that is in none of them.

    Remote datasets that are not fetched may contain any name.
    """
    kept: list[Selection] = []
    all_read = True
    missing = dict.fromkeys(cases)
    known: list[str] = []
    for selection in selections:
        try:
            names = names_of(selection.eval_set)
        except NotLoaded:
            kept.append(Selection(eval_set=selection.eval_set, cases=tuple(cases)))
            all_read = False
            continue
        known += names
        chosen = tuple(case for case in cases if case in names)
        if chosen:
            kept.append(Selection(eval_set=selection.eval_set, cases=chosen))
        for case in chosen:
            missing.pop(case, None)
    if missing and all_read:
        raise PlanError(
            *(
                f"no eval case {shorten(repr(case), LONGEST_NAME)} in the named eval sets{suggest_name(case, known)}"
                for case in missing
            )
        )
    return kept


def _find_sets(project: Project, target: str) -> tuple[EvalSetEntry, ...]:
    entries = tuple(entry for entry in project.eval_sets if entry.target == target)
    if not entries:
        missing = list(find_missing_files(project.targets[target]))
        if missing:
            raise PlanError(*missing)
        raise NoCases(f"target {target}: no eval set belongs to it; see `workbench doctor`")
    return entries


def _drop_recordings(entries: Iterable[EvalSetEntry], project: Project) -> list[EvalSetEntry]:
    """Drop files with the recordings of a target, which are no eval sets."""
    recordings = {find_recordings(target) for target in project.targets.values()}
    return [entry for entry in entries if entry.target is not None or entry.path not in recordings]


def _find_remote_sets(project: Project) -> frozenset[str]:
    """Return the names of remote datasets."""
    return frozenset(entry.relative for entry in project.eval_sets if entry.address is not None)


def _select_one(project: Project, named: NamedArgument) -> list[Selection]:
    if named.name in project.targets:  # `./NAME` is a folder of the same name
        entries = list(_find_sets(project, named.name))
    elif named.name in _find_remote_sets(project):
        return [Selection(eval_set=named.name, cases=named.cases)]
    elif named.path.is_dir():
        folder = real_path(named.path)
        within = (entry for entry in project.eval_sets if is_inside(entry.path, folder))
        entries = _drop_recordings(within, project)
        if not entries:
            raise NoCases(f"{named.name}: no eval set below this folder (*.evalset.json or *.test.json)")
    else:
        return [Selection(eval_set=project.name_set(named.path), cases=named.cases)]
    return [Selection(eval_set=entry.relative, cases=named.cases) for entry in entries]
