"""Why, in words: the reasons of decisions as people read them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from workbench.agents.worker.recording.definitions import DOCSTRING
from workbench.agents.worker.recording.fingerprints import ABSENT
from workbench.model.dependencies import Dependency, DependencyKind
from workbench.model.text import counted, neutralise
from workbench.watch.selection import Action, Decision, Reason, Why, path_of, rank_of
from workbench.watch.state import OF_SOURCE, Question, State

Kind = DependencyKind


def words_of(reason: Reason, *, root: Path, state: State | None = None) -> str:
    """One reason, in a few words; with `state` it is told whether something is new, gone or different."""
    if reason.row is None:
        return str(reason.why or Why.UNKNOWN)
    return neutralise(_row_in_words(reason.row, root=root, state=state))


def summary_of(decisions: Sequence[Decision], *, root: Path, state: State | None = None) -> str:
    """What made work of these cases: the most frequent reason first, `tools.py: refund() (8), $KEY (2)`.

    Equally frequent reasons are in the order of `rank_of`.
    """
    reasons = Counter(each.reasons[0] for each in decisions if each.action is not Action.NOTHING and each.reasons)
    counts: Counter[str] = Counter()
    for reason in sorted(reasons, key=lambda reason: rank_of(reason.row)):  # of thousands of cases there are a few
        counts[words_of(reason, root=root, state=state)] += reasons[reason]
    return ", ".join(f"{words} ({count})" if len(counts) > 1 else words for words, count in counts.most_common(3))


def chain_of(row: Dependency, decisions: Iterable[Decision], *, total: int, root: Path, state: State) -> str:
    """A reason with how far it reaches: `tools.py: refund() changed <- 8 of 24 cases`."""
    concerned = sum(any(reason.row == row for reason in decision.reasons) for decision in decisions)
    words = words_of(Reason(row=row), root=root, state=state)
    return f"{words} <- {_relation(row)} {concerned} of {counted(total, 'case')}"


def _relation(row: Dependency) -> str:
    relations = {
        Kind.BLOCK: "called by",
        Kind.MODULE: "imported by",
        Kind.REST: "imported by",
        Kind.IMPORT: "looked for by",
        Kind.VARIABLE: "read by",
        Kind.FOLDER: "listed by",
    }
    return relations.get(Kind(row.kind), "used by") if row.kind in set(Kind) else "used by"


_NOUNS: dict[str, tuple[str, str]] = {
    Kind.MODULE: ("module", "modules"),
    Kind.REST: ("module without its definitions", "modules without their definitions"),
    Kind.NAME: ("name", "names"),
    Kind.BLOCK: ("function", "functions"),
    Kind.FILE: ("file", "files"),
    Kind.FOLDER: ("folder", "folders"),
    Kind.PROBE: ("path looked for", "paths looked for"),
    Kind.TIME: ("time of a file", "times of files"),
    Kind.MODE: ("mode of a file", "modes of files"),
    Kind.IMPORT: ("import", "imports"),
    Kind.VARIABLE: ("environment variable", "environment variables"),
    Kind.EARLY_VARIABLE: ("environment variable", "environment variables"),
    Kind.VARIABLES: ("set of variables", "sets of variables"),
    Kind.ENV_FILES: ("set of .env files", "sets of .env files"),
    Kind.INSTALLED: ("set of installed packages", "sets of installed packages"),
    Kind.INTERPRETER: ("Python version", "Python versions"),
    Kind.STATE: ("file it read and wrote", "files it read and wrote"),
    Kind.WRITTEN: ("file it wrote", "files it wrote"),
    Kind.FOUND: ("file from an earlier case", "files from earlier cases"),
    Kind.OPAQUE: ("thing that cannot be followed", "things that cannot be followed"),
    Kind.TREE: ("watched path", "watched paths"),
}


def noun_of(kind: str, *, count: int = 1) -> str:
    """What rows of a kind are called in front of users."""
    singular, plural = _NOUNS.get(kind, ("unknown dependency", "unknown dependencies"))
    return singular if count == 1 else plural


_WORDS: dict[str, str] = {
    Kind.FOLDER: "{where}: other files are in it",
    Kind.TIME: "{where} has another time of change",
    Kind.MODE: "{where} has another mode or owner",
    Kind.IMPORT: "{where}: an import of {name} may find something else",
    Kind.VARIABLE: "${key} has another value",
    Kind.EARLY_VARIABLE: "${key} has another value",
    Kind.VARIABLES: "{variables}",
    Kind.INSTALLED: "other packages are installed in {where}",
    Kind.INTERPRETER: "another version of Python, or of what is recorded",
    Kind.OPAQUE: "it uses what cannot be followed ({key}): any change counts",
}


_OF_VARIABLES = {
    "all": "environment variables have other values, and all of them are read",
    "proxies": "the variables for proxies have other values",
    "locale": "the variables for the time zone and the locale have other values",
}


def _row_in_words(row: Dependency, *, root: Path, state: State | None) -> str:
    where = _shown(path_of(row), root)
    if row.kind in OF_SOURCE:
        return _source_in_words(row, where, state)
    if row.kind in (Kind.FILE, Kind.STATE, Kind.PROBE, Kind.TREE):
        if row.fingerprint == ABSENT:
            return f"{where} is new"
        return f"{where} changed" if os.path.lexists(path_of(row)) else f"{where} is gone"
    words = _WORDS.get(row.kind, f"something of an unknown kind ({row.kind}) changed")
    name = ", ".join(_other_names(row, state)) if row.kind == Kind.IMPORT else ""
    return words.format(where=where, key=row.key, name=name, variables=_OF_VARIABLES.get(row.key.split("\0")[0]))


def _other_names(row: Dependency, state: State | None) -> list[str]:
    """Of the modules that were looked for in a folder, those of which something else would be found now."""
    names = row.key.rpartition("::")[2].split(",")
    if state is None:
        return names
    now = state.answer(Question(row.kind, row.key, None)).split(",")
    return [name for name, then, is_now in zip(names, row.fingerprint.split(","), now, strict=False) if then != is_now]


def _source_in_words(row: Dependency, where: str, state: State | None) -> str:
    broken = None if state is None else state.broken(path_of(row))
    if broken is not None:
        line = "" if broken.line is None else f":{broken.line}"
        return f"{where}{line} cannot be compiled: {broken.message}"
    if not Path(path_of(row)).exists():
        return f"{where} is gone"
    if row.kind in (Kind.MODULE, Kind.REST):
        return f"{where} changed outside of its functions"
    name = row.key.rpartition("::")[2].replace("<locals>.", "")
    if row.kind == Kind.BLOCK:
        return f"{where}: {name}() changed"
    name = name.removesuffix("()").removesuffix("?")
    if name == DOCSTRING:
        return f"{where}: its docstring changed"
    return f"{where}: {name} is new" if row.fingerprint == ABSENT else f"{where}: {name} changed"


def _shown(path: str, root: Path) -> str:
    try:
        return "the project" if path == str(root) else Path(path).relative_to(root).as_posix()
    except ValueError:
        return path
