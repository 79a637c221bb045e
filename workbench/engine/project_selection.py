"""Projects with selected eval sets or a selected agent, for the command line and for pytest.

The command line parses its arguments; this module takes paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from workbench.engine.plan import PlanError
from workbench.model.target import Target
from workbench.model.text import suggest_name
from workbench.store import project_discovery as described
from workbench.store.datasets.dataset_files import is_dataset
from workbench.store.errors import StoreError
from workbench.store.files import SETTINGS_FILE, TEST_SUFFIX, find_root, make_relative_name, real_path
from workbench.store.history.history_schema import get_history_path
from workbench.store.project_discovery import (
    EvalSetEntry,
    LocationPairing,
    Project,
    find_adk_criteria,
    find_criteria_file,
    make_adk_target,
)
from workbench.store.settings import LoadedSettings, load_settings

_MARKS = (SETTINGS_FILE, ".git", "pyproject.toml")


def find_common_root(paths: Sequence[Path]) -> Path:
    """Find the root of the project of all paths; without paths, of the working directory.

    A folder without a marker file is replaced by the project of the working directory that contains it, as is a package
    (`pyproject.toml`) without stored results if that project has some: both then have the same results, whatever the
    arguments are. Raises PlanError for paths of several projects.
    """
    here = Path.cwd()
    roots: dict[Path, Path] = {}
    for path in paths:
        roots.setdefault(_find_root(path, here), path)
    if len(roots) <= 1:
        return next(iter(roots), find_root(here))
    places = "; ".join(f"{path} to {root}" for root, path in roots.items())
    raise PlanError(
        f"the arguments belong to different projects ({places}); run them separately, or put {SETTINGS_FILE} into a "
        "folder above them"
    )


def _find_root(path: Path, here: Path) -> Path:
    root, around = find_root(path), find_root(here)
    if not root.is_relative_to(around) or any((root / mark).exists() for mark in (SETTINGS_FILE, ".git")):
        return root
    is_alone = is_marked(root) and (get_history_path(root).exists() or not get_history_path(around).exists())
    return root if is_alone else around


def is_marked(root: Path) -> bool:
    """Whether a folder has a marker file of a project."""
    return any((root / mark).exists() for mark in _MARKS)


def add_sets(project: Project, sets: Iterable[Path], *, target: str | None) -> Project:
    """Return the project with these sets added, whatever their names are.

    A dataset becomes a recorded target. With `target`, that agent runs all sets. Raises PlanError if there is no such
    target, and StoreError if a file cannot be read.
    """
    if target is not None:
        require_target(project, target)
    entries = {entry.relative: entry for entry in project.eval_sets}
    targets = dict(project.targets)
    pairing = LocationPairing((t for t in project.targets.values() if not t.eval_sets), root=project.root)
    for path in sets:
        relative = project.name_set(path)
        if not path.is_file() or relative in entries:
            continue
        if is_dataset(path):
            from workbench.engine.recorded_data import make_recorded_target  # imported for datasets only

            dataset = make_recorded_target(real_path(path), root=project.root)
            targets[dataset.name] = dataset
            entries[relative] = make_entry(path, root=project.root, target=dataset)
        else:
            near, reason = pairing.pair(real_path(path))
            agent = project.targets[near] if near is not None else None
            entries[relative] = make_entry(path, root=project.root, target=agent, reason=reason)
    if target is not None:
        agent = project.targets[target]
        entries = {
            name: make_entry(entry.path, root=project.root, target=agent)
            for name, entry in entries.items()
            if entry.address is None  # a dataset at an address has no agent
        }
    return project.model_copy(update={"eval_sets": tuple(entries.values()), "targets": targets})


def make_entry(path: Path, *, root: Path, target: Target | None, reason: str | None = None) -> EvalSetEntry:
    file = real_path(path)
    return EvalSetEntry(
        path=file,
        relative=make_relative_name(file, root),
        target=target.name if target is not None else None,
        kind="test" if path.name.endswith(TEST_SUFFIX) else "evalset",
        config=find_criteria_file(file, target, root=root),
        unpaired_reason=reason,
    )


def require_target(project: Project, name: str) -> None:
    """Raise PlanError if the project has no such target."""
    if name not in project.targets:
        if name in project.unusable:
            raise PlanError(project.unusable[name])
        raise PlanError(f"no such target: {name!r}{suggest_name(name, project.targets)}")


def make_project(agent: Path, sets: Iterable[Path]) -> tuple[Project, LoadedSettings]:
    """Make a project of one agent and these sets, without discovery, with the criteria that ADK would use.

    The agent is the target of workbench.toml in this folder, or else the ADK agent in it.
    """
    root = find_common_root([agent])
    if root == real_path(agent):
        root = root.parent  # ADK's folder of agents, with their .env
    loaded = load_settings(root)
    target = _find_configured_target(agent, loaded, root=root) or make_adk_target(agent, root=root)
    entries = {entry.relative: entry for entry in (make_entry(path, root=root, target=target) for path in sets)}
    judged = [entry.model_copy(update={"config": find_adk_criteria(entry.path, target)}) for entry in entries.values()]
    project = Project(root=root, targets={target.name: target}, eval_sets=tuple(judged))
    return project, loaded


def _find_configured_target(agent: Path, loaded: LoadedSettings, *, root: Path) -> Target | None:
    """Find the first target of workbench.toml with code in this folder."""
    for name, settings in loaded.settings.targets.items():
        try:
            target = described.make_configured_target(name, settings, root=root)
        except StoreError:
            continue  # a broken target is not this agent
        folder = described.find_agent_folder(target)
        if folder is not None and real_path(folder) == real_path(agent):
            return target
    return None
