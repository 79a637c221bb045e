"""Which agent an eval set belongs to."""

from __future__ import annotations

import glob
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from workbench.model.patterns import without_backtracking
from workbench.model.target import Target
from workbench.store.datasets import is_address
from workbench.store.discovery.adk_source import why_no_agent
from workbench.store.discovery.targets import folder_of
from workbench.store.names import EVAL_SET_SUFFIX, EVAL_SET_SUFFIXES
from workbench.store.recognising import is_eval_set
from workbench.store.settings import FILE_NAME

_SESSION_APP = re.compile(
    r'"(?:session_?input|initial_?session)"\s*:\s*\{.{0,2000}?"app_?name"\s*:\s*("(?:[^"\\]|\\.)*")',
    re.DOTALL | re.IGNORECASE,
)


class Pairing(NamedTuple):
    """The target of an eval set, or why it has none and what to do about it."""

    target: str | None
    reason: str | None = None


class ByLocation:
    """Pairs by climbing from the set to the first folder with agents in or below it.

    Of several agents there it takes the one whose folder (or own name) the cases name as `session_input.app_name`, else
    the one that lives in that very folder. A set beside files that look like an agent and are none, or in a folder of
    `reasons`, which say why its agent is not that of the set, belongs to no agent elsewhere, unless the cases name it.
    """

    def __init__(self, targets: Iterable[Target], *, reasons: Mapping[Path, str] | None = None, root: Path) -> None:
        self._root = root
        self._reasons = reasons or {}
        self._agents: defaultdict[Path, dict[str, Path]] = defaultdict(dict)
        for target in targets:
            folder = folder_of(target)
            if folder is not None:
                for ancestor in (folder, *folder.parents):
                    self._agents[ancestor][target.name] = folder

    def pair(self, eval_set: Path) -> Pairing:
        """The target of a set."""
        lacking: str | None = None
        for folder in eval_set.parents:
            agents = self._agents.get(folder)
            if agents:
                return self._choose(eval_set, folder, agents, lacking)
            lacking = lacking or self._reasons.get(folder)
            reason = why_no_agent(folder) if lacking is None else None
            if reason is not None:
                lacking = f"{folder.relative_to(self._root).as_posix()}: {reason}" if folder != self._root else reason
            if folder == self._root:
                break
        if lacking is not None:
            return _lacking_agent(lacking)
        return Pairing(
            None,
            "no agent was found near it: put it beside or below an ADK agent, or list it under eval_sets of a target "
            f"in {FILE_NAME}",
        )

    def _choose(self, eval_set: Path, folder: Path, agents: Mapping[str, Path], lacking: str | None) -> Pairing:
        if len(agents) == 1 and lacking is None:
            return Pairing(next(iter(agents)))
        apps = _apps_named_in(eval_set)
        chosen = [name for name, place in agents.items() if place.name in apps or name in apps]
        chosen = chosen or [name for name, place in agents.items() if place == folder]
        if len(chosen) == 1:
            return Pairing(chosen[0])
        if lacking is not None:
            return _lacking_agent(lacking)
        shown = ", ".join(sorted(agents)[:5]) + (", …" if len(agents) > 5 else "")
        return Pairing(
            None,
            f"{len(agents)} agents may be meant ({shown}): name the folder of one as session_input.app_name in the "
            f"cases, or list the set under eval_sets of a target in {FILE_NAME}",
        )


def _lacking_agent(lacking: str) -> Pairing:
    remedy = f"mend that, or list the set under eval_sets of a target in {FILE_NAME}"
    return Pairing(None, f"no agent was found: {lacking}; {remedy}")


def claimed_sets(target: Target, found: Mapping[str, Path], *, root: Path) -> tuple[list[Path], list[str]]:
    """The files that the `eval_sets` patterns of a target match, and the patterns that match none.

    `found` are the sets of the project by their relative path. Patterns are relative to the target's `path` or to the
    root; one that matches nothing there may name any other file, but JSON of other programs only without wildcards.
    Addresses are none.
    """
    claimed: dict[Path, None] = {}
    unmatched = []
    for pattern in target.eval_sets:
        if is_address(pattern):
            continue
        matches = []
        for base, rule in _rules(target.path, pattern, root):
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
    """The sets that patterns relative to the path of a target or to the root match."""
    rules = [rule for pattern in patterns if not is_address(pattern) for _, rule in _rules(path, pattern, root)]
    return (relative for relative in found if any(rule.fullmatch(relative) for rule in rules))


def claims(target: Target, relative: str, *, root: Path) -> bool:
    """Whether a pattern of a target matches a path that need not be there."""
    return any(
        rule.fullmatch(relative) for pattern in target.eval_sets for _, rule in _rules(target.path, pattern, root)
    )


def paths_claimed(target: Target, *, name: str, root: Path) -> Iterator[str]:
    """Paths of eval sets, there or not, that the patterns of a target name, with `name` for what may be anything.

    Patterns that leave a folder or a single character open give none.
    """
    for base in dict.fromkeys((target.path, root)):
        if base.is_relative_to(root):
            filled = (_filled(pattern.removeprefix("./"), name) for pattern in target.eval_sets)
            yield from (base.relative_to(root).joinpath(path).as_posix() for path in filled if path is not None)


def _filled(pattern: str, name: str) -> str | None:
    folder, slash, file = pattern.replace("**/", "").rpartition("/")
    if re.search(r"[*?\[]", folder) or re.search(r"[?\[]", file):
        return None
    head, star, tail = re.sub(r"\*+", "*", file).partition("*")
    for text in (name, f"{name}{EVAL_SET_SUFFIX.removesuffix('.json')}", f"{name}{EVAL_SET_SUFFIX}"):
        filled = f"{head}{text if star else ''}{tail.replace('*', '')}"
        if filled.endswith(EVAL_SET_SUFFIXES):
            return f"{folder}{slash}{filled}"
    return None


def _rules(path: Path, pattern: str, root: Path) -> Iterator[tuple[Path, re.Pattern[str]]]:
    """What a pattern of a target with this path means: as a rule for paths from the root, for each folder it may be
    relative to."""
    for base in dict.fromkeys((path, root)):
        yield base, _rule(_relative_pattern(base, pattern, root))


def _relative_pattern(base: Path, pattern: str, root: Path) -> str:
    prefix = base.relative_to(root).as_posix() if base.is_relative_to(root) else "."
    pattern = pattern.removeprefix("./")
    return pattern if prefix == "." else f"{glob.escape(prefix)}/{pattern}"


def _rule(pattern: str) -> re.Pattern[str]:
    """A pattern of paths as a regular expression: `*` stays inside a name, `**` spans folders."""
    steps = re.findall(r"\*\*/|\*\*|\*|\?|\[!?\]?[^]]*\]|.", pattern, re.DOTALL)
    wild = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    texts = (
        wild.get(step) or (step.replace("[!", "[^", 1) if step[0] == "[" and len(step) > 1 else re.escape(step))
        for step in steps
    )
    return re.compile(without_backtracking("".join(texts)), re.DOTALL)


def _apps_named_in(eval_set: Path) -> set[str]:
    """The app names of the sessions in a set: read from its text, as a set with a broken case still has the others'."""
    try:
        text = eval_set.read_bytes().decode(errors="replace")
    except OSError:
        return set()  # opening the set says why
    names = set()
    for match in _SESSION_APP.finditer(text):
        try:
            names.add(str(json.loads(match[1], strict=False)))
        except ValueError:
            continue  # a broken escape: opening the set says where
    return names
