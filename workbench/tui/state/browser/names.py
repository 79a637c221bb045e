"""Names that the user gives to cases and eval sets: what is wrong with them, and which to propose."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import PurePosixPath

from workbench.model.text import neutralise
from workbench.store.names import EVAL_SET_SUFFIX, EVAL_SET_SUFFIXES, name_of_file

_NO_ID = re.compile(r"[^a-zA-Z0-9_]+")


def case_id_problem(eval_id: str, taken: Collection[str]) -> str | None:
    """What is wrong with the id of a case in a set that has these; None where nothing is."""
    if not eval_id.strip():
        return "an id is expected"
    if eval_id != eval_id.strip():
        return "the id begins or ends with a blank"
    if neutralise(eval_id) != eval_id or "\n" in eval_id:
        return "the id has a control character in it"
    if eval_id in taken:
        return f"the set has a case {eval_id!r} already"
    return None


def set_path_problem(path: str, taken: Collection[str]) -> str | None:
    """What is wrong with the path of an eval set, relative to the project, which has these; None where nothing is."""
    if not path.strip():
        return "a file name is expected, relative to the project"
    if path != path.strip() or neutralise(path) != path or "\n" in path:
        return "the path begins or ends with a blank, or has a control character in it"
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or "\\" in path or re.match(r"[A-Za-z]:", path):
        return "the path is expected to be within the project, with / between folders"
    if any(part.startswith(".") for part in pure.parts) or path.endswith("/"):
        return "eval sets in hidden folders, and files that begin with a dot, are not found"
    if set_path(path) in taken:
        return f"there is an eval set {set_path(path)} already"
    return None


def set_path(written: str) -> str:
    """The path of an eval set as the user wrote it, with the ending that makes it one."""
    path = str(PurePosixPath(written))
    return path if path.endswith(EVAL_SET_SUFFIXES) else f"{path}{EVAL_SET_SUFFIX}"


def set_id_of(path: str) -> str:
    """The id for a new set at a path: letters, digits and underscores."""
    return _NO_ID.sub("_", name_of_file(PurePosixPath(path))).strip("_") or "eval_set"


def free_name(wanted: str, taken: Collection[str]) -> str:
    """A name like the one that is wanted, with a number behind it where it is taken."""
    if wanted not in taken:
        return wanted
    return next(name for number in range(2, len(taken) + 3) if (name := f"{wanted}_{number}") not in taken)


def copied_set_path(path: str, taken: Collection[str]) -> str:
    """The path to propose for a copy of a set."""
    ending = next((suffix for suffix in EVAL_SET_SUFFIXES if path.endswith(suffix)), EVAL_SET_SUFFIX)
    stem = path.removesuffix(ending)
    others = {other.removesuffix(ending) for other in taken}
    return f"{free_name(f'{stem}_copy', others)}{ending}"
