"""Where the module of an agent lies, found on `sys.path` without importing any of it.

Agents run in processes of their own: what the process of the tests needs is their folder.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import NamedTuple


class AgentPlace(NamedTuple):
    """The folder of an agent, and the one from which its modules are imported by their dotted names."""

    folder: Path
    import_root: Path


def find_agent_module(name: str) -> AgentPlace:
    """Where `package` (which has a module `agent`) or `package.agent` lies.

    Raises ModuleNotFoundError where there is no such module, and ValueError where it can hold no agent.
    """
    __tracebackhide__ = True
    importlib.invalidate_caches()
    parts = name.split(".")
    search: Sequence[str] | None = None
    spec: ModuleSpec | None = None
    for number, part in enumerate(parts, start=1):
        spec = None if number > 1 and search is None else _find(part, search)
        if spec is None:
            missing = ".".join(parts[:number])
            raise ModuleNotFoundError(
                f"agent_module {name!r}: there is no module {missing!r} on sys.path; expected a package with a module "
                "`agent`, importable from the tests (see `pythonpath` in pytest's documentation)",
                name=missing,
            )
        search = None if spec.submodule_search_locations is None else list(spec.submodule_search_locations)
    assert spec is not None  # a text that is split has a part
    if search is not None:
        return _place(Path(search[0]), parts)
    if parts[-1] == "agent" and spec.origin is not None and len(parts) > 1:
        return _place(Path(spec.origin).parent, parts[:-1])
    raise ValueError(
        f"agent_module {name!r}: found the file {spec.origin}, expected a package with a module `agent`, "
        "or a module called `agent` in a package"
    )


def _find(part: str, search: Sequence[str] | None) -> ModuleSpec | None:
    """The spec of a module by the last part of its name, in the folders of its package or, without, from the top."""
    if search is not None:
        return PathFinder.find_spec(part, search)
    if not part:
        return None
    # Editable installations bring finders of their own.
    specs = (finder.find_spec(part, None) for finder in sys.meta_path if hasattr(finder, "find_spec"))
    return next((spec for spec in specs if spec is not None), None)


def _place(folder: Path, package: Sequence[str]) -> AgentPlace:
    root = folder
    for name in reversed(package):
        if root.name != name:  # it is called otherwise than its folder: only the adapter can tell how to import it
            return AgentPlace(folder, folder.parent)
        root = root.parent
    return AgentPlace(folder, root)
