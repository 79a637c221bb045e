"""From what was written on the command line to the project and the cases that are meant."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from workbench.cli.arguments import LONGEST_NAME, Named, path_exists, split_argument
from workbench.engine.plan import NoCases, PlanError, Selection
from workbench.engine.project_selection import require_target
from workbench.model.text import shorten, suggest_name
from workbench.store.errors import NotLoaded
from workbench.store.files import make_relative_name
from workbench.store.filetypes import derive_set_name
from workbench.store.project_discovery import EvalSetEntry, Project, find_missing_files, find_recordings


def split_names(project: Project, arguments: Iterable[str]) -> list[Named]:
    """The arguments, split. Raises PlanError for those that are neither a path nor a target."""
    relatives = [entry.relative for entry in project.eval_sets]
    known = {name: name for name in (*project.targets, *relatives)}
    for relative in relatives:  # by its id as `adk eval` takes it, and by its file name, too
        known.setdefault(derive_set_name(Path(relative)), relative)
        known.setdefault(Path(relative).name, relative)
    for folder in dict.fromkeys(Path(relative).parent for relative in relatives):
        if folder != Path():
            known.setdefault(folder.as_posix(), folder.as_posix())
    by_name = {*project.targets, *_addresses(project)}
    named = []
    for text in arguments:
        if not text:  # a variable of the shell that is not set; as a path it would be the whole folder
            raise PlanError("an argument is empty, expected a file, folder or target")
        name = split_argument(text, exists=lambda text: path_exists(text) or text in by_name)
        if name is None:
            shown = shorten(text, LONGEST_NAME)
            raise PlanError(f"{shown}: no such file, folder or target{_did_you_mean_set(text, known)}")
        if name.cases == ():
            raise PlanError(f"{text}: no case stands after the colon; leave the colon out to run all")
        named.append(name)
    return named


def _did_you_mean_set(text: str, known: Mapping[str, str]) -> str:
    """As `suggest_name`, for an argument with or without cases; `known` has what to write for each name."""
    name, colon, cases = text.rpartition(":")
    if not colon:
        name, cases = text, ""
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {known[close[0]] + colon + cases!r}?" if close else ""


def only_target(project: Project, target: str) -> Project:
    """The project with the sets of this target alone. Raises PlanError where there is no such target or no set."""
    require_target(project, target)
    return project.model_copy(update={"eval_sets": _sets_of(project, target)})


def select(project: Project, named: Sequence[Named]) -> list[Selection]:
    """The cases of these names; without any, all. The plan reports the sets without an agent.

    Raises NoCases for a folder, target or project without eval sets.
    """
    if named:
        return [selection for name in named for selection in _select_one(project, name)]
    entries = _to_run(project.eval_sets, project)
    if not entries:
        raise NoCases(f"{project.root}: no eval set was found (*.evalset.json or *.test.json); see `workbench doctor`")
    return [Selection(eval_set=entry.relative) for entry in entries]


def only_cases(
    selections: Sequence[Selection], cases: Sequence[str], *, names_of: Callable[[str], Collection[str]]
) -> list[Selection]:
    """Of these selections the cases of these names, wherever they are. Raises PlanError for names that none has.

    Datasets at addresses that are not fetched may have any of them.
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
                f"no eval case {shorten(repr(case), LONGEST_NAME)} in the eval sets named{suggest_name(case, known)}"
                for case in missing
            )
        )
    return kept


def _sets_of(project: Project, target: str) -> tuple[EvalSetEntry, ...]:
    entries = tuple(entry for entry in project.eval_sets if entry.target == target)
    if not entries:
        missing = list(find_missing_files(project.targets[target]))
        if missing:
            raise PlanError(*missing)
        raise NoCases(f"target {target}: no eval set belongs to it; see `workbench doctor`")
    return entries


def _to_run(entries: Iterable[EvalSetEntry], project: Project) -> list[EvalSetEntry]:
    """These sets without the files that hold the recordings of a target, which are no sets to run."""
    recordings = {find_recordings(target) for target in project.targets.values()}
    return [entry for entry in entries if entry.target is not None or entry.path not in recordings]


def _addresses(project: Project) -> frozenset[str]:
    """The datasets elsewhere, as they are called."""
    return frozenset(entry.relative for entry in project.eval_sets if entry.address is not None)


def _select_one(project: Project, named: Named) -> list[Selection]:
    if named.name in project.targets:  # also where a folder has the same name: that one is `./NAME`
        entries = list(_sets_of(project, named.name))
    elif named.name in _addresses(project):
        return [Selection(eval_set=named.name, cases=named.cases)]
    elif named.path.is_dir():
        folder = named.path.resolve()
        within = (entry for entry in project.eval_sets if entry.path.resolve().is_relative_to(folder))
        entries = _to_run(within, project)
        if not entries:
            raise NoCases(f"{named.name}: no eval set below this folder (*.evalset.json or *.test.json)")
    else:
        return [Selection(eval_set=make_relative_name(named.path.resolve(), project.root), cases=named.cases)]
    return [Selection(eval_set=entry.relative, cases=named.cases) for entry in entries]
