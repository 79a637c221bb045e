"""Where a chat is kept as an eval case: the choices, and what is wrong with names as they are typed."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from workbench.model.keys import CaseKey
from workbench.store.names import EVAL_SET_SUFFIX, EVAL_SET_SUFFIXES, name_of_file
from workbench.tui.state.browser import ListedSet
from workbench.tui.state.browser.names import free_name
from workbench.tui.state.pieces import safe_line

_ID = re.compile(r"[A-Za-z0-9_]+")
_LONGEST_ID = 200


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


def new_set_name(sets: Sequence[ListedSet], *, target: str) -> str:
    """A free name for a new set, beside the first of the agent's."""
    first = next((listed.relative for listed in sets if listed.target == target), "")
    wanted = PurePosixPath(first).parent / "chats"
    taken = {listed.relative.removesuffix(EVAL_SET_SUFFIX) for listed in sets}
    return f"{free_name(str(wanted), taken)}{EVAL_SET_SUFFIX}"


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
