"""The project: its targets, its eval sets and their pairing, found without running its code."""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cache
from itertools import count
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field

from workbench.model.facts import Fact
from workbench.model.patterns import remove_backtracking
from workbench.model.target import AgentKind, Target
from workbench.model.text import is_valid_utf8
from workbench.store.datasets.remote_data import is_address, shown_address
from workbench.store.errors import StoreError
from workbench.store.files import (
    CRITERIA_FILES,
    EVAL_SET_SUFFIX,
    EVAL_SET_SUFFIXES,
    find_root,
    is_eval_set,
    make_relative_name,
    real_path,
)
from workbench.store.folder_scan import (
    AGENT_FILES,
    Findings,
    InvalidSource,
    explain_missing_agent,
    holds_adk_agent,
    walk,
)
from workbench.store.settings import FILE_NAME, LoadedSettings, TargetSettings

# Targets from settings and from folders of ADK agents

_IN_MODULES = (AgentKind.FUNCTION, AgentKind.LANGCHAIN, AgentKind.AGENT_ENGINE)


def make_adk_target(folder: Path, *, root: Path, name: str | None = None) -> Target:
    """Make the target of the folder of an ADK agent (or of a file in it), named `name` or like the folder.

    Its import root is the parent folder; the adapter adds folders that packages further up need. Raises StoreError if
    the folder cannot hold an agent.
    """
    folder = _resolve_agent_folder(folder, root=root)
    return Target(
        name=name or folder.name,
        kind=AgentKind.ADK,
        location=folder.name,
        path=folder.parent,
        env_file=_find_env_file(folder, root=root),
    )


def make_configured_target(name: str, settings: TargetSettings, *, root: Path) -> Target:
    """Make the target of settings. Raises StoreError if the folder of an ADK agent has no agent."""
    path = _resolve_path(root, settings.path) if settings.path is not None else root
    kind = AgentKind(settings.kind)
    found: dict[str, object] = {"location": settings.target, "path": path, "env_file": None}
    if kind is AgentKind.ADK:
        adk = make_adk_target(_find_existing(settings.target, path, root), root=root)
        folder = adk.path / adk.location
        found = {"location": adk.location, "path": adk.path, "env_file": adk.env_file}
        if settings.path is not None:
            inside = folder.is_relative_to(path)
            found |= {"location": str(folder.relative_to(path)) if inside else str(folder), "path": path}
    if settings.env_file is not None:
        found["env_file"] = _find_existing(settings.env_file, root, path)
    watch = settings.watch
    if settings.scripted_models is not None:
        script = _find_existing(settings.scripted_models, path, root)
        found["scripted_models"] = script
        watch = (*watch, str(script))  # its content affects every conversation
    return Target(
        name=name,
        kind=kind,
        python=_find_interpreter(settings.python, root) if settings.python is not None else None,
        eval_sets=settings.eval_sets or (),
        config=_find_existing(settings.config, path, root) if settings.config is not None else None,
        watch=watch,
        rerun=settings.rerun,
        simulate_tools=_find_existing(settings.simulate_tools, path, root)
        if settings.simulate_tools is not None
        else None,
        tools=settings.tools,
        options=settings.options,
        columns=tuple(settings.columns.items()),
        **found,
    )


_MARKS_OF_PATTERNS = frozenset("*?[")


def find_missing_files(target: Target) -> Iterator[str]:
    """Yield a sentence for each missing file in the settings of a target, and for each pattern in place of one."""
    for key, path, exists in (
        ("path", target.path, target.path.is_dir()),
        ("python", target.python, target.python is None or target.python.is_file()),
        ("env_file", target.env_file, target.env_file is None or target.env_file.is_file()),
        ("scripted_models", target.scripted_models, target.scripted_models is None or target.scripted_models.is_file()),
    ):
        if not exists:
            yield f"{FILE_NAME}: targets.{target.name}.{key}: there is no {path}"
    for text in target.watch:
        if not _MARKS_OF_PATTERNS.isdisjoint(text) and not (target.path / text).exists():
            yield f"{FILE_NAME}: targets.{target.name}.watch: found the pattern {text!r}, expected a file or a folder"


def find_agent_folder(target: Target) -> Path | None:
    """Return the folder of the agent's code, if it is known without running it."""
    if target.kind is AgentKind.ADK:
        return target.path / target.location
    if target.kind in _IN_MODULES and not target.is_remote:
        module = target.path.joinpath(*target.location.split(":")[0].split("."))
        return module if module.is_dir() else module.parent if module.parent.is_dir() else target.path
    return None


def find_recordings(target: Target) -> Path | None:
    """Return the file of recordings, if a target has one for all its sets."""
    return target.path / target.location if target.kind is AgentKind.RECORDED and target.location else None


def _resolve_agent_folder(path: Path, *, root: Path) -> Path:
    """Return the folder; a link below the root keeps its own path, so that a linked agent belongs to the project."""
    folder = path.absolute()
    if ".." in folder.parts or not folder.is_relative_to(root):
        folder = real_path(folder)
    if folder.name in AGENT_FILES:
        folder = folder.parent
    if not folder.is_dir():
        raise StoreError(
            path, "there is no such agent: expected a folder with agent.py, __init__.py or root_agent.yaml"
        )
    if not any((folder / name).is_file() for name in AGENT_FILES) and not (folder / "agent").is_dir():
        expected = explain_missing_agent(folder) or f"expected one of {', '.join(AGENT_FILES)} in it"
        raise StoreError(path, f"has no agent: {expected}")
    return folder


def _find_env_file(folder: Path, *, root: Path) -> Path | None:
    """Return the `.env` of the agent's folder or the nearest folder above it, up to the root."""
    if os.environ.get("ADK_DISABLE_LOAD_DOTENV", "").lower() in ("true", "1"):
        return None
    for candidate in (folder, *folder.parents):
        if candidate != folder and not candidate.is_relative_to(root):
            return None
        if (candidate / ".env").is_file():
            return candidate / ".env"
    return None


def _find_existing(text: str, *bases: Path) -> Path:
    """Return the path under the first folder in which it exists, else under the first folder."""
    candidates = [_resolve_path(base, text) for base in bases]
    return next((path for path in candidates if path.exists()), candidates[0])


def _find_interpreter(text: str, root: Path) -> Path:
    """Return the path of an interpreter, given as a path or as a name on the PATH. Links are kept: the interpreter of a
    virtual environment is one."""
    is_name = Path(text).name == text and not (root / text).exists()
    found = shutil.which(text) if is_name else None
    return Path(found) if found else _resolve_path(root, text)


def _resolve_path(root: Path, text: str) -> Path:
    """Return the absolute path without `..`; links are kept."""
    return Path(os.path.normpath(root / Path(text).expanduser()))


# Pairing of eval sets and agents

_SESSION_APP = re.compile(
    r'"(?:session_?input|initial_?session)"\s*:\s*\{.{0,2000}?"app_?name"\s*:\s*("(?:[^"\\]|\\.)*")',
    re.DOTALL | re.IGNORECASE,
)


class TargetPairing(NamedTuple):
    """The target of an eval set, or the reason why it has none with a remedy."""

    target: str | None
    reason: str | None = None


class LocationPairing:
    """Pairs a set with the first folder upwards that has agents in or below it.

    Among several agents there, it chooses the one whose folder (or name) is `session_input.app_name` in the cases, else
    the one in that very folder, else the one in whose folder all others are. A set is not paired with an agent further
    up if files beside it look like a broken agent, or if `reasons` has its folder, unless the cases name the agent.
    `reasons` explain why the agent of a folder does not own the set.
    """

    def __init__(self, targets: Iterable[Target], *, reasons: Mapping[Path, str] | None = None, root: Path) -> None:
        self._root = root
        self._reasons = reasons or {}
        self._explain_missing_agent = cache(explain_missing_agent)  # it lists the folder, and many sets share one
        self._agents: defaultdict[Path, dict[str, Path]] = defaultdict(dict)
        for target in targets:
            folder = find_agent_folder(target)
            if folder is not None:
                for ancestor in (folder, *folder.parents):
                    self._agents[ancestor][target.name] = folder

    def pair(self, eval_set: Path) -> TargetPairing:
        lacking: str | None = None
        for folder in eval_set.parents:
            agents = self._agents.get(folder)
            if agents:
                return self._choose(eval_set, folder, agents, lacking)
            lacking = lacking or self._reasons.get(folder)
            reason = self._explain_missing_agent(folder) if lacking is None else None
            if reason is not None:
                lacking = f"{folder.relative_to(self._root).as_posix()}: {reason}" if folder != self._root else reason
            if folder == self._root:
                break
        if lacking is not None:
            return _make_unpaired(lacking)
        return TargetPairing(
            None,
            "no agent was found near it: put it next to or below an ADK agent, or list it under eval_sets of a target "
            f"in {FILE_NAME}",
        )

    def _choose(self, eval_set: Path, folder: Path, agents: Mapping[str, Path], lacking: str | None) -> TargetPairing:
        if len(agents) == 1 and lacking is None:
            return TargetPairing(next(iter(agents)))
        apps = _find_app_names(eval_set)
        chosen = [name for name, place in agents.items() if place.name in apps or name in apps]
        chosen = chosen or [name for name, place in agents.items() if place == folder]
        if not chosen and lacking is None:
            chosen = [
                name for name, outer in agents.items() if all(inner.is_relative_to(outer) for inner in agents.values())
            ]
        if len(chosen) == 1:
            return TargetPairing(chosen[0])
        if lacking is not None:
            return _make_unpaired(lacking)
        shown = ", ".join(sorted(agents)[:5]) + (", …" if len(agents) > 5 else "")
        return TargetPairing(
            None,
            f"{len(agents)} agents match ({shown}): name the folder of one as session_input.app_name in the "
            f"cases, or list the set under eval_sets of a target in {FILE_NAME}",
        )


def _make_unpaired(lacking: str) -> TargetPairing:
    remedy = f"fix that, or list the set under eval_sets of a target in {FILE_NAME}"
    return TargetPairing(None, f"no agent was found: {lacking}; {remedy}")


def match_claimed_sets(target: Target, found: Mapping[str, Path], *, root: Path) -> tuple[list[Path], list[str]]:
    """Return the files that the `eval_sets` patterns of a target match, and the patterns that match none.

    `found` are the sets of the project by relative path. Patterns are relative to the target's `path` or to the root. A
    pattern without matches there may name any other file; JSON files of other programs match only without wildcards.
    Addresses are ignored.
    """
    claimed: dict[Path, None] = {}
    unmatched = []
    for pattern in target.eval_sets:
        if is_address(pattern):
            continue
        matches = []
        for base, rule in _compile_rules(target.path, pattern, root):
            matches += [path for relative, path in found.items() if rule.fullmatch(relative)]
            if not matches:
                names = glob.glob(pattern, root_dir=base)  # noqa: PTH207 - Path.glob refuses absolute patterns
                files = sorted(base / name for name in names if (base / name).is_file())
                matches += [file for file in files if is_eval_set(file) or not glob.has_magic(pattern)]
        claimed.update(dict.fromkeys(matches))
        if not matches:
            unmatched.append(pattern)
    return list(claimed), unmatched


def match_sets(patterns: Iterable[str], found: Iterable[str], *, path: Path, root: Path) -> Iterator[str]:
    """Yield the sets that match patterns relative to the path of a target or to the root."""
    rules = [rule for pattern in patterns if not is_address(pattern) for _, rule in _compile_rules(path, pattern, root)]
    return (relative for relative in found if any(rule.fullmatch(relative) for rule in rules))


def can_claim(target: Target, relative: str, *, root: Path) -> bool:
    """True if a pattern of a target matches a path, which need not exist."""
    return any(
        rule.fullmatch(relative)
        for pattern in target.eval_sets
        for _, rule in _compile_rules(target.path, pattern, root)
    )


def suggest_claimed_paths(target: Target, *, name: str, root: Path) -> Iterator[str]:
    """Yield paths of eval sets, existing or not, that match the patterns of a target, with `name` for wildcards.

    Patterns with a wildcard for a folder or a single character yield none.
    """
    for base in dict.fromkeys((target.path, root)):
        if base.is_relative_to(root):
            filled = (_fill_pattern(pattern.removeprefix("./"), name) for pattern in target.eval_sets)
            yield from (base.relative_to(root).joinpath(path).as_posix() for path in filled if path is not None)


def _fill_pattern(pattern: str, name: str) -> str | None:
    folder, slash, file = pattern.replace("**/", "").rpartition("/")
    if re.search(r"[*?\[]", folder) or re.search(r"[?\[]", file):
        return None
    head, star, tail = re.sub(r"\*+", "*", file).partition("*")
    for text in (name, f"{name}{EVAL_SET_SUFFIX.removesuffix('.json')}", f"{name}{EVAL_SET_SUFFIX}"):
        filled = f"{head}{text if star else ''}{tail.replace('*', '')}"
        if filled.endswith(EVAL_SET_SUFFIXES):
            return f"{folder}{slash}{filled}"
    return None


def _compile_rules(path: Path, pattern: str, root: Path) -> Iterator[tuple[Path, re.Pattern[str]]]:
    """Yield a pattern as an expression for paths from the root, for each folder that it may be relative to."""
    for base in dict.fromkeys((path, root)):
        yield base, _compile_pattern(_relative_pattern(base, pattern, root))


def _relative_pattern(base: Path, pattern: str, root: Path) -> str:
    prefix = base.relative_to(root).as_posix() if base.is_relative_to(root) else "."
    pattern = pattern.removeprefix("./")
    return pattern if prefix == "." else f"{glob.escape(prefix)}/{pattern}"


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of paths: `*` stays inside a name, `**` spans folders."""
    steps = re.findall(r"\*\*/|\*\*|\*|\?|\[!?\]?[^]]*\]|.", pattern, re.DOTALL)
    wild = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    texts = (
        wild.get(step) or (step.replace("[!", "[^", 1) if step[0] == "[" and len(step) > 1 else re.escape(step))
        for step in steps
    )
    return re.compile(remove_backtracking("".join(texts)), re.DOTALL)


def _find_app_names(eval_set: Path) -> set[str]:
    """Find the app names of sessions in the text of a set, because a set with a broken case still has the others."""
    try:
        text = eval_set.read_bytes().decode(errors="replace")
    except OSError:
        return set()  # opening the set reports it
    names = set()
    for match in _SESSION_APP.finditer(text):
        try:
            names.add(str(json.loads(match[1], strict=False)))
        except ValueError:
            continue  # a broken escape: opening the set reports it
    return names


# Projects: targets and eval sets, paired


class EvalSetEntry(Fact):
    """An eval-set file or dataset. `relative` is its path from the root with forward slashes, and its name everywhere
    else.

    A remote dataset has an `address`, which may contain credentials. Its `relative` is the address without them,
    numbered if several look the same, and its `path` is the file that names it. `config` is its criteria file (None:
    the default criteria). `unpaired_reason` says in one sentence why `target` is missing, and a remedy.
    """

    path: Path
    relative: str
    target: str | None = None
    kind: Literal["evalset", "test"]
    config: Path | None = None
    unpaired_reason: str | None = None
    address: str | None = Field(default=None, repr=False)


class Project(Fact):
    """The content of a project. `problems` are sentences for people; none of them affects the rest.

    `unusable` has the problem of each configured target without an agent. `unused_criteria` are files of criteria that
    judge no eval set.
    """

    root: Path
    targets: dict[str, Target]
    eval_sets: tuple[EvalSetEntry, ...]
    unused_criteria: tuple[Path, ...] = ()
    problems: tuple[str, ...] = ()
    unusable: dict[str, str] = Field(default_factory=dict)

    def name_set(self, path: Path) -> str:
        """Return the relative name of a file: that of a link among `eval_sets`, else that of the file itself."""
        link = make_relative_name(real_path(path.parent) / path.name, self.root)
        is_listed = any(entry.relative == link for entry in self.eval_sets)
        return link if is_listed else make_relative_name(real_path(path), self.root)


def discover(path: Path, loaded: LoadedSettings, *, root: Path | None = None) -> Project:
    """Find the targets and eval sets of the project around `path`; pass `root` if it is already known.

    Configured targets come first, and own the sets that their `eval_sets` match. Folders with an ADK agent that no
    configured target uses become targets, too. All other sets are paired by location. Raises StoreError for a path that
    is not UTF-8, because results and messages to agents could not contain it.
    """
    root = root or find_root(path)
    if not is_valid_utf8(str(root)):
        advice = "rename the folder, or set PYTHONUTF8=1 if only the locale of the terminal is not UTF-8"
        raise StoreError(str(root), f"the path of the project is not valid UTF-8; {advice}")
    findings = walk(root)
    problems = list(findings.problems)
    targets, unusable = _load_configured_targets(loaded, root, problems)
    targets |= _find_adk_targets(findings, targets.values(), root, problems)
    found = {make_relative_name(Path(name), root): Path(name) for name in findings.eval_sets}
    pairings = _assign_claimed_sets(targets.values(), found, root, problems)
    reasons = {
        folder: f"eval_sets of target {target.name} does not list this set"
        for target in targets.values()
        if target.eval_sets and (folder := find_agent_folder(target)) is not None
    }
    for name, problem in unusable.items():  # no other agent may replace the one that was configured
        settings = loaded.settings.targets[name]
        path = root / (settings.path or "")
        for relative in match_sets(settings.eval_sets or (), found, path=path, root=root):
            pairings.setdefault(relative, TargetPairing(None, problem))
        reasons |= {root / settings.target: problem, path / settings.target: problem}
    pairable = (target for target in targets.values() if not target.eval_sets)
    by_location = LocationPairing(pairable, reasons=reasons, root=root)
    for relative, file in found.items():
        if relative not in pairings:
            pairings[relative] = by_location.pair(file)
    named = [_make_entry(relative, pairing, targets, root) for relative, pairing in sorted(pairings.items())]
    entries = _drop_second_names(named)
    entries += _list_addresses(targets.values(), root, problems)
    used = {entry.config for entry in entries}.union(target.config for target in targets.values())
    return Project(
        root=root,
        targets=targets,
        eval_sets=tuple(entries),
        unused_criteria=tuple(file for file in map(Path, findings.criteria) if file not in used),
        problems=tuple(problems),
        unusable=unusable,
    )


def find_criteria_file(eval_set: Path, target: Target | None, *, root: Path) -> Path | None:
    """Return the criteria file of a set: the target's `config`, else the nearest one beside the set or above it.

    The root of the project is the last folder that counts. None: the default criteria.
    """
    if target is not None and target.config is not None:
        return target.config
    parents = [folder for folder in eval_set.parents if folder.is_relative_to(root)]
    candidates = (folder / name for folder in parents or [eval_set.parent] for name in CRITERIA_FILES)
    return next(filter(_is_there, candidates), None)


def find_adk_criteria(eval_set: Path, target: Target | None) -> Path | None:
    """Return the criteria file of a set by the rule of ADK, which looks only for a `test_config.json` beside it."""
    beside = eval_set.parent / CRITERIA_FILES[0]
    return target.config if target is not None and target.config is not None else beside if _is_there(beside) else None


def _is_there(file: Path) -> bool:
    """True also for a folder or a broken link: reading it reports the fault."""
    return file.is_file() or file.is_dir() or file.is_symlink()


def _load_configured_targets(
    loaded: LoadedSettings, root: Path, problems: list[str]
) -> tuple[dict[str, Target], dict[str, str]]:
    """Make the configured targets; return them and the problems of unusable ones."""
    targets: dict[str, Target] = {}
    unusable: dict[str, str] = {}
    for name, settings in loaded.settings.targets.items():
        try:
            target = make_configured_target(name, settings, root=root)
        except StoreError as error:
            unusable[name] = f"{FILE_NAME}: targets.{name}.target: {error}"
            problems.append(unusable[name])
            continue
        problems.extend(find_missing_files(target))
        targets[name] = target
    return targets, unusable


def _find_adk_targets(
    findings: Findings, configured: Iterable[Target], root: Path, problems: list[str]
) -> dict[str, Target]:
    taken = {find_agent_folder(target) for target in configured if target.kind is AgentKind.ADK}
    folders = []
    for name, files in sorted(findings.agent_files.items()):
        folder = Path(name)
        if folder not in taken and _holds_agent(folder, files, root, problems):
            folders.append(folder)
    names = Counter([folder.name for folder in folders] + [target.name for target in configured])
    targets = (
        make_adk_target(
            folder, root=root, name=folder.name if names[folder.name] == 1 else make_relative_name(folder, root)
        )
        for folder in folders
    )
    return {target.name: target for target in targets}


def _holds_agent(folder: Path, files: list[str], root: Path, problems: list[str]) -> bool:
    """True if one of the files, `agent.py` first, binds an ADK agent; an unreadable file is a problem."""
    for name in sorted(files, reverse=True):
        file = folder / name
        try:
            if holds_adk_agent(file, root=root):
                return True
        except InvalidSource as error:
            problems.append(f"{make_relative_name(file, root)}:{error}")
            if error.is_agent:
                return True
        except OSError as error:
            problems.append(f"{make_relative_name(file, root)}: cannot be read: {error.strerror}")
    return False


def _assign_claimed_sets(
    targets: Iterable[Target], found: dict[str, Path], root: Path, problems: list[str]
) -> dict[str, TargetPairing]:
    """Assign sets to the targets that name them; the first target wins."""
    pairings: dict[str, TargetPairing] = {}
    for target in targets:
        claimed, unmatched = match_claimed_sets(target, found, root=root)
        place = f"{FILE_NAME}: targets.{target.name}.eval_sets"
        problems.extend(f"{place}: {pattern} matches no file" for pattern in unmatched)
        for path in claimed:
            relative = make_relative_name(path, root)
            owner = pairings.setdefault(relative, TargetPairing(target.name)).target
            if owner != target.name:
                problems.append(f"{place}: {relative} already belongs to {owner}")
    return pairings


def _list_addresses(targets: Iterable[Target], root: Path, problems: list[str]) -> list[EvalSetEntry]:
    """List the remote datasets of targets without reading them.

    The query of an address identifies the dataset and may contain a key: datasets that look the same without it are
    numbered.
    """
    entries: dict[str, EvalSetEntry] = {}
    names: set[str] = set()
    for target in targets:
        place = f"{FILE_NAME}: targets.{target.name}.eval_sets"
        for address in filter(is_address, target.eval_sets):
            shown = shown_address(address)
            if target.kind is not AgentKind.RECORDED or target.location:
                expected = "a file: only recorded targets without `target` may have remote datasets"
                problems.append(f"{place}: found the address {shown}, expected {expected}")
            elif address in entries:
                problems.append(f"{place}: {entries[address].relative} already belongs to {entries[address].target}")
            else:
                name = _choose_free_name(shown, names)
                names.add(name)
                entry = EvalSetEntry(
                    path=root / FILE_NAME, relative=name, target=target.name, kind="evalset", address=address
                )
                entries[address] = entry.model_copy(
                    update={"config": find_criteria_file(entry.path, target, root=root)}
                )
    return list(entries.values())


def _choose_free_name(name: str, taken: Container[str]) -> str:
    """Return the name, with the first free number if it is taken."""
    numbered = (f"{name} ({number})" for number in count(2))
    return name if name not in taken else next(each for each in numbered if each not in taken)


def _make_entry(relative: str, pairing: TargetPairing, targets: dict[str, Target], root: Path) -> EvalSetEntry:
    path = root / relative
    target = targets[pairing.target] if pairing.target is not None else None
    return EvalSetEntry(
        path=path,
        relative=relative,
        target=pairing.target,
        kind="test" if relative.endswith(".test.json") else "evalset",
        config=find_criteria_file(path, target, root=root),
        unpaired_reason=pairing.reason,
    )


def _drop_second_names(entries: Iterable[EvalSetEntry]) -> list[EvalSetEntry]:
    """Keep one name of a file that links give several names, but one for each target: agents may share a set.

    A name with a target comes first, then one with a criteria file, then that of the file itself.
    """
    groups: defaultdict[object, list[EvalSetEntry]] = defaultdict(list)
    for entry in entries:
        try:
            status = entry.path.stat()
        except OSError:  # a broken link
            groups[entry.relative].append(entry)
        else:
            groups[status.st_dev, status.st_ino].append(entry)
    kept: list[EvalSetEntry] = []
    for group in groups.values():
        if len(group) > 1:
            group.sort(key=lambda entry: (not entry.target, not entry.config, real_path(entry.path) != entry.path))
        chosen = {entry.target: entry for entry in reversed(group) if entry.target or not group[0].target}
        kept.extend(chosen.values())
    return sorted(kept, key=lambda entry: entry.relative)


# Locations of new eval sets, by the same rules as the pairing of existing ones


class NewSets:
    """Possible new eval sets of a project. Paths are relative to its root, with forward slashes."""

    def __init__(self, project: Project) -> None:
        self._root = project.root
        self._targets = project.targets
        unnamed = (target for target in project.targets.values() if not target.eval_sets)
        self._by_location = LocationPairing(unnamed, root=project.root)

    def pair(self, relative: str) -> TargetPairing:
        """Find the target of a set at this path, or the reason why it has none."""
        for target in self._targets.values():
            if can_claim(target, relative, root=self._root):
                return TargetPairing(target.name)
        return self._by_location.pair(self._root / relative)

    def suggest_paths(self, target: str, *, name: str) -> Iterator[str]:
        """Yield possible paths of a new set for a target; another target may own them."""
        found = self._targets.get(target)
        if found is None:
            return
        yield from suggest_claimed_paths(found, name=name, root=self._root)
        folder = find_agent_folder(found)
        if not found.eval_sets and folder is not None and folder.is_relative_to(self._root):
            yield (folder.relative_to(self._root) / f"{name}{EVAL_SET_SUFFIX}").as_posix()

    def has_listed_sets(self, target: str) -> bool:
        """True if settings list the sets of a target."""
        return target in self._targets and bool(self._targets[target].eval_sets)
