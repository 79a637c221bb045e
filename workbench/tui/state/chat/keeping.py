"""Where a chat is kept as an eval case: the choices, and what is wrong with names as they are typed."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from workbench.model.keys import CaseKey
from workbench.store.names import EVAL_SET_SUFFIX, EVAL_SET_SUFFIXES, name_of_file
from workbench.store.settings import FILE_NAME
from workbench.tui.state.browser import ListedSet
from workbench.tui.state.browser.names import free_name
from workbench.tui.state.pieces import safe_line

if TYPE_CHECKING:
    from workbench.store.discovery import NewSets

_ID = re.compile(r"[A-Za-z0-9_]+")
_LONGEST_ID = 200
_NAME = "chats"  # of a new set


@dataclass(frozen=True, slots=True)
class Shelf:
    """A place for a case: in a set, or in a new one (`eval_set` is None); `replaces` is the case that goes."""

    label: str
    eval_set: str | None = None
    replaces: CaseKey | None = None


def shelves(sets: Sequence[ListedSet], *, target: str, eval_set: str | None, case: CaseKey | None) -> list[Shelf]:
    """Every place there is, the nearest first: the selected set, the case there, the agent's, a new one, all others."""
    target_of = {listed.relative: listed.target for listed in sets if not listed.problem}
    near = [name for name in target_of if name == eval_set]
    own = [name for name, owner in target_of.items() if owner == target and name not in near]
    others = [name for name in target_of if name not in near and name not in own]
    found = [Shelf(f"in {safe_line(name)}", name) for name in near]
    if case is not None and case.eval_set in near and not case.occurrence:
        found.append(Shelf(f"in place of the case {safe_line(case.eval_id)}", case.eval_set, case))
    found += [Shelf(f"in {safe_line(name)}", name) for name in own]
    found.append(Shelf("in a new eval set"))
    return [*found, *(Shelf(f"in {safe_line(name)} · of {_owner(target_of[name])}", name) for name in others)]


def new_set_name(sets: Sequence[ListedSet], *, target: str, places: NewSets) -> str:
    """A free name for a new set of the agent: beside one of its sets, else where its settings look for them.

    Where nothing new can be the agent's it is beside the first of its sets all the same.
    """
    taken = {listed.relative for listed in sets}
    stems = {relative.removesuffix(EVAL_SET_SUFFIX) for relative in taken}
    folders = dict.fromkeys(PurePosixPath(listed.relative).parent for listed in sets if listed.target == target)
    beside = [f"{free_name(str(folder / _NAME), stems)}{EVAL_SET_SUFFIX}" for folder in folders or [PurePosixPath()]]
    names = (_NAME, *(f"{_NAME}_{number}" for number in range(2, len(taken) + 2)))
    elsewhere = (path for name in names for path in places.paths_of(target, name=name))
    for path in chain(beside, elsewhere):
        if problem_of_set_name(path, sets=sets) is None and places.pairing(path).target == target:
            return path
    return beside[0]


def warning_of_set_name(name: str, *, target: str, places: NewSets) -> str | None:
    """What is to be known of a new set with this path where it would not be the agent's; None where it would."""
    pairing = places.pairing(name)
    if pairing.target == target:
        return None
    owner = f"the agent {pairing.target}" if pairing.target else "no agent"
    if places.lists_sets(target):
        return f"it will belong to {owner}: {FILE_NAME} does not list it under eval_sets of {target}"
    return f"it will belong to {owner}" if pairing.target else f"it will belong to {owner}: {pairing.reason}"


def problem_of_set_name(name: str, *, sets: Sequence[ListedSet]) -> str | None:
    """What is wrong with the path of a new set, relative to the project; None where nothing is."""
    if not name.endswith(EVAL_SET_SUFFIXES):
        return "the name has to end in .evalset.json (or .test.json)"
    if name.startswith(("/", "\\")) or ".." in name.split("/"):
        return "the file has to be inside the project: a path relative to it"
    if not _ID.fullmatch(name_of_file(PurePosixPath(name))):
        return "the name of a new set holds letters, digits and underscores only"
    if any(listed.relative == name for listed in sets):
        return "there is such an eval set already"
    return None


def new_case_id(taken: Collection[str]) -> str:
    """A free id for a case that was a chat."""
    number = 1
    while (eval_id := f"chat_{number}") in taken:
        number += 1
    return eval_id


def problem_of_case_id(eval_id: str, *, taken: Collection[str]) -> str | None:
    """What is wrong with the id of a new case; None where nothing is."""
    if not eval_id.strip():
        return "a case needs an id"
    if eval_id != eval_id.strip() or not eval_id.isprintable():
        return "an id has no blanks around it, and nothing that cannot be seen in it"
    if len(eval_id) > _LONGEST_ID:
        return f"an id has {_LONGEST_ID} characters at most"
    if eval_id in taken:
        return "the set has a case of this id already"
    return None


def _owner(target: str) -> str:
    return safe_line(target) or "no agent"
