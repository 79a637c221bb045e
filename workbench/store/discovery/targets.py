"""Targets: from what settings say, and from the folder of an ADK agent."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from workbench.model.target import AgentKind, Target
from workbench.store.discovery.adk_source import why_no_agent
from workbench.store.discovery.walk import AGENT_FILES
from workbench.store.errors import StoreError
from workbench.store.settings import FILE_NAME
from workbench.store.target_settings import TargetSettings

_IN_MODULES = (AgentKind.FUNCTION, AgentKind.LANGCHAIN, AgentKind.AGENT_ENGINE)


def adk_target(folder: Path, *, root: Path, name: str | None = None) -> Target:
    """The target for the folder of an ADK agent (or a file in it), called `name` or else like the folder.

    Its import root is the folder around it; the adapter adds what packages further up need. Raises StoreError where
    there can be no agent.
    """
    folder = _agent_folder(folder, root=root)
    return Target(
        name=name or folder.name,
        kind=AgentKind.ADK,
        location=folder.name,
        path=folder.parent,
        env_file=_nearest_env_file(folder, root=root),
    )


def configured_target(name: str, settings: TargetSettings, *, root: Path) -> Target:
    """The target that settings describe. Raises StoreError where the folder of an ADK agent holds none."""
    path = _below(root, settings.path) if settings.path is not None else root
    kind = AgentKind(settings.kind)
    found: dict[str, object] = {"location": settings.target, "path": path, "env_file": None}
    if kind is AgentKind.ADK:
        adk = adk_target(_existing(settings.target, path, root), root=root)
        folder = adk.path / adk.location
        found = {"location": adk.location, "path": adk.path, "env_file": adk.env_file}
        if settings.path is not None:
            inside = folder.is_relative_to(path)
            found |= {"location": str(folder.relative_to(path)) if inside else str(folder), "path": path}
    if settings.env_file is not None:
        found["env_file"] = _existing(settings.env_file, root, path)
    watch = settings.watch
    if settings.scripted_models is not None:
        script = _existing(settings.scripted_models, path, root)
        found["scripted_models"] = script
        watch = (*watch, str(script))  # what it says reaches every conversation
    return Target(
        name=name,
        kind=kind,
        python=_interpreter(settings.python, root) if settings.python is not None else None,
        eval_sets=settings.eval_sets or (),
        config=_existing(settings.config, path, root) if settings.config is not None else None,
        watch=watch,
        rerun=settings.rerun,
        simulate_tools=_existing(settings.simulate_tools, path, root) if settings.simulate_tools is not None else None,
        tools=settings.tools,
        options=settings.options,
        columns=tuple(settings.columns.items()),
        **found,
    )


def missing_files(target: Target) -> Iterator[str]:
    """What the settings of a target name that is not there, one sentence each."""
    for key, path, exists in (
        ("path", target.path, target.path.is_dir()),
        ("python", target.python, target.python is None or target.python.is_file()),
        ("env_file", target.env_file, target.env_file is None or target.env_file.is_file()),
        ("scripted_models", target.scripted_models, target.scripted_models is None or target.scripted_models.is_file()),
    ):
        if not exists:
            yield f"{FILE_NAME}: targets.{target.name}.{key}: there is no {path}"


def folder_of(target: Target) -> Path | None:
    """The folder with the agent's code, where that is known without running it."""
    if target.kind is AgentKind.ADK:
        return target.path / target.location
    if target.kind in _IN_MODULES and not target.runs_elsewhere:
        module = target.path.joinpath(*target.location.split(":")[0].split("."))
        return module if module.is_dir() else module.parent if module.parent.is_dir() else target.path
    return None


def recordings_in(target: Target) -> Path | None:
    """The file with the recordings of a target that has one for all its sets."""
    return target.path / target.location if target.kind is AgentKind.RECORDED and target.location else None


def _agent_folder(path: Path, *, root: Path) -> Path:
    """The folder, below the root by its own name where it can be: a link to an agent elsewhere is an agent of ours."""
    folder = path.absolute()
    if ".." in folder.parts or not folder.is_relative_to(root):
        folder = folder.resolve()
    if folder.name in AGENT_FILES:
        folder = folder.parent
    if not folder.is_dir():
        raise StoreError(path, "there is no such agent: expected a folder with agent.py or __init__.py")
    if not any((folder / name).is_file() for name in AGENT_FILES) and not (folder / "agent").is_dir():
        raise StoreError(path, f"holds no agent: {why_no_agent(folder) or 'expected agent.py or __init__.py in it'}")
    return folder


def _nearest_env_file(folder: Path, *, root: Path) -> Path | None:
    """The `.env` of the agent's folder or of the nearest one above it, not above the root."""
    if os.environ.get("ADK_DISABLE_LOAD_DOTENV", "").lower() in ("true", "1"):
        return None
    for candidate in (folder, *folder.parents):
        if candidate != folder and not candidate.is_relative_to(root):
            return None
        if (candidate / ".env").is_file():
            return candidate / ".env"
    return None


def _existing(text: str, *bases: Path) -> Path:
    """The path under the first of the folders in which it exists; under the first where it is in none."""
    candidates = [_below(base, text) for base in bases]
    return next((path for path in candidates if path.exists()), candidates[0])


def _interpreter(text: str, root: Path) -> Path:
    """A path, or the name of a program on the PATH. Links stay: a virtual environment's interpreter is one."""
    is_name = Path(text).name == text and not (root / text).exists()
    found = shutil.which(text) if is_name else None
    return Path(found) if found else _below(root, text)


def _below(root: Path, text: str) -> Path:
    """The path absolute and without `..`, its links kept."""
    return Path(os.path.normpath(root / Path(text).expanduser()))
