"""The project: its targets and eval sets, paired."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable
from itertools import count
from pathlib import Path
from typing import Literal

from pydantic import Field

from workbench.model.base import Fact
from workbench.model.target import AgentKind, Target
from workbench.store.datasets import is_address, shown_address
from workbench.store.discovery.adk_source import BrokenSource, holds_adk_agent
from workbench.store.discovery.pairing import ByLocation, Pairing, claimed_sets, match_sets
from workbench.store.discovery.root import find_root
from workbench.store.discovery.targets import adk_target, configured_target, folder_of, missing_files
from workbench.store.discovery.walk import Findings, walk
from workbench.store.errors import StoreError
from workbench.store.files import relative_name
from workbench.store.settings import FILE_NAME, LoadedSettings

CRITERIA_FILE = "test_config.json"


class EvalSetEntry(Fact):
    """An eval-set file, or a dataset. `relative` is its path from the root with forward slashes, and its name
    everywhere else.

    Of a dataset elsewhere `address` is where, with what gives access to it; `relative` is that as people may see it,
    with a number where several look the same, and `path` the file that names it.
    `config` is the criteria file that holds for it (None: the default criteria); `unpaired_reason` says in one
    sentence why `target` is None and what to do about it.
    """

    path: Path
    relative: str
    target: str | None = None
    kind: Literal["evalset", "test"]
    config: Path | None = None
    unpaired_reason: str | None = None
    address: str | None = Field(default=None, repr=False)


class Project(Fact):
    """What is in a project. `problems` are for people: one sentence each, none of them keeps the rest from working.

    `unusable` has the configured targets without an agent, by name, each with its problem.
    """

    root: Path
    targets: dict[str, Target]
    eval_sets: tuple[EvalSetEntry, ...]
    problems: tuple[str, ...] = ()
    unusable: dict[str, str] = Field(default_factory=dict)


def discover(path: Path, loaded: LoadedSettings, *, root: Path | None = None) -> Project:
    """Find the targets and eval sets of the project around `path`; `root` is given where it was found before.

    Configured targets come first, and claim the sets that their `eval_sets` name; folders with an ADK agent that no
    configured target uses are targets too. Every other set is paired by location.
    """
    root = root or find_root(path)
    findings = walk(root)
    problems = list(findings.problems)
    targets, unusable = _configured(loaded, root, problems)
    targets |= _discovered(findings, targets.values(), root, problems)
    found = {relative_name(Path(name), root): Path(name) for name in findings.eval_sets}
    pairings = _claimed(targets.values(), found, root, problems)
    reasons = {
        folder: f"the target {target.name} has eval_sets, which do not name this set"
        for target in targets.values()
        if target.eval_sets and (folder := folder_of(target)) is not None
    }
    for name, problem in unusable.items():  # no other agent may answer in place of the one that was named
        settings = loaded.settings.targets[name]
        path = root / (settings.path or "")
        for relative in match_sets(settings.eval_sets or (), found, path=path, root=root):
            pairings.setdefault(relative, Pairing(None, problem))
        reasons |= {root / settings.target: problem, path / settings.target: problem}
    pairable = (target for target in targets.values() if not target.eval_sets)
    by_location = ByLocation(pairable, reasons=reasons, root=root)
    for relative, file in found.items():
        if relative not in pairings:
            pairings[relative] = by_location.pair(file)
    entries = [_entry(relative, pairing, targets, root) for relative, pairing in sorted(pairings.items())]
    entries += _addresses(targets.values(), root, problems)
    return Project(root=root, targets=targets, eval_sets=tuple(entries), problems=tuple(problems), unusable=unusable)


def criteria_file(entry: EvalSetEntry, target: Target | None) -> Path | None:
    """The criteria file of a set: the target's `config`, else the one beside the set, else none."""
    return target.config if target is not None and target.config is not None else criteria_beside(entry.path)


def criteria_beside(eval_set: Path) -> Path | None:
    """The `test_config.json` beside a set, also if it is a folder or a link to nothing: reading it says so."""
    beside = eval_set.parent / CRITERIA_FILE
    return beside if beside.is_file() or beside.is_dir() or beside.is_symlink() else None


def _configured(loaded: LoadedSettings, root: Path, problems: list[str]) -> tuple[dict[str, Target], dict[str, str]]:
    """The configured targets, and the problems of those that are unusable."""
    targets: dict[str, Target] = {}
    unusable: dict[str, str] = {}
    for name, settings in loaded.settings.targets.items():
        try:
            target = configured_target(name, settings, root=root)
        except StoreError as error:
            unusable[name] = f"{FILE_NAME}: targets.{name}.target: {error}"
            problems.append(unusable[name])
            continue
        problems.extend(missing_files(target))
        targets[name] = target
    return targets, unusable


def _discovered(findings: Findings, configured: Iterable[Target], root: Path, problems: list[str]) -> dict[str, Target]:
    taken = {folder_of(target) for target in configured if target.kind is AgentKind.ADK}
    folders = []
    for name, files in sorted(findings.agent_files.items()):
        folder = Path(name)
        if folder not in taken and _holds_agent(folder, files, root, problems):
            folders.append(folder)
    names = Counter([folder.name for folder in folders] + [target.name for target in configured])
    targets = (
        adk_target(folder, root=root, name=folder.name if names[folder.name] == 1 else relative_name(folder, root))
        for folder in folders
    )
    return {target.name: target for target in targets}


def _holds_agent(folder: Path, files: list[str], root: Path, problems: list[str]) -> bool:
    """Whether one of the files, `agent.py` first, binds an ADK agent; one that cannot be read is a problem."""
    for name in sorted(files, reverse=True):
        file = folder / name
        try:
            if holds_adk_agent(file, root=root):
                return True
        except BrokenSource as error:
            problems.append(f"{relative_name(file, root)}:{error}")
            if error.is_agent:
                return True
        except OSError as error:
            problems.append(f"{relative_name(file, root)}: cannot be read: {error.strerror}")
    return False


def _claimed(targets: Iterable[Target], found: dict[str, Path], root: Path, problems: list[str]) -> dict[str, Pairing]:
    """The sets that targets name; of two targets that name the same set the first has it."""
    pairings: dict[str, Pairing] = {}
    for target in targets:
        claimed, unmatched = claimed_sets(target, found, root=root)
        place = f"{FILE_NAME}: targets.{target.name}.eval_sets"
        problems.extend(f"{place}: {pattern} matches no file" for pattern in unmatched)
        for path in claimed:
            relative = relative_name(path, root)
            owner = pairings.setdefault(relative, Pairing(target.name)).target
            if owner != target.name:
                problems.append(f"{place}: {relative} belongs to {owner} already")
    return pairings


def _addresses(targets: Iterable[Target], root: Path, problems: list[str]) -> list[EvalSetEntry]:
    """The datasets elsewhere that targets name; nothing is read of them.

    The query of an address tells datasets apart and may hold a key: those that look the same without are numbered.
    """
    entries: dict[str, EvalSetEntry] = {}
    names: set[str] = set()
    for target in targets:
        place = f"{FILE_NAME}: targets.{target.name}.eval_sets"
        for address in filter(is_address, target.eval_sets):
            shown = shown_address(address)
            if target.kind is not AgentKind.RECORDED or target.location:
                expected = "a file: only recorded targets without `target` have datasets elsewhere"
                problems.append(f"{place}: found the address {shown}, expected {expected}")
            elif address in entries:
                problems.append(f"{place}: {entries[address].relative} belongs to {entries[address].target} already")
            else:
                name = _free_name(shown, names)
                names.add(name)
                entry = EvalSetEntry(
                    path=root / FILE_NAME, relative=name, target=target.name, kind="evalset", address=address
                )
                entries[address] = entry.model_copy(update={"config": criteria_file(entry, target)})
    return list(entries.values())


def _free_name(name: str, taken: Container[str]) -> str:
    """The name, with the first number that makes it a free one where it is taken."""
    numbered = (f"{name} ({number})" for number in count(2))
    return name if name not in taken else next(each for each in numbered if each not in taken)


def _entry(relative: str, pairing: Pairing, targets: dict[str, Target], root: Path) -> EvalSetEntry:
    entry = EvalSetEntry(
        path=root / relative,
        relative=relative,
        target=pairing.target,
        kind="test" if relative.endswith(".test.json") else "evalset",
        unpaired_reason=pairing.reason,
    )
    target = targets[pairing.target] if pairing.target is not None else None
    return entry.model_copy(update={"config": criteria_file(entry, target)})
