"""ADK agents found and loaded."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import inspect
import os
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from ...loading import nearest
from ...wire import describe
from ..base import LoadError, not_installed

# What an agent is made of: its sub-agents, their tools and models, told without calling any of it.

_MOST_AGENTS = 200  # a graph of more could not be drawn, and is told with every turn


def structure_of(agent: Any) -> dict[str, dict[str, Any]]:
    """The agent and all below it by name, the outermost first.

    Each has `type`, and where it has them `model`, `tools` (names) and `agents` (names of those it can hand over to or
    runs, agents used as tools included).
    """
    found: dict[str, dict[str, Any]] = {}
    for item in agents_of(agent):
        told = {
            "type": type(item).__name__,
            "model": _model_name(item),
            "tools": [name for name in map(tool_name, tools_held_by(item)) if name],
            "agents": names_below(item),
        }
        found[item.name] = {name: value for name, value in told.items() if value}
    return found


def tools_of(agent: Any) -> list[Any]:
    """The tools of the agent and of all below it, toolsets as they are."""
    return [tool for item in agents_of(agent) for tool in tools_held_by(item)]


def agents_of(agent: Any) -> Iterator[Any]:
    """The agent and all below it, each once, the outermost first."""
    seen: set[str] = set()
    waiting = [agent]
    while waiting and len(seen) < _MOST_AGENTS:
        item = waiting.pop(0)
        if item.name not in seen:
            seen.add(item.name)
            yield item
            waiting += _agents_below(item)


def names_below(agent: Any) -> list[str]:
    """The names of those that it can hand over to or runs."""
    return [other.name for other in _agents_below(agent)]


def _agents_below(agent: Any) -> Iterator[Any]:
    yield from getattr(agent, "sub_agents", None) or ()
    for node in getattr(getattr(agent, "graph", None), "nodes", None) or ():
        if node.name != "__START__":
            yield node
    for tool in tools_held_by(agent):
        wrapped = getattr(tool, "agent", None)
        if hasattr(wrapped, "sub_agents"):
            yield wrapped


def tools_held_by(agent: Any) -> list[Any]:
    """The tools of this agent itself, toolsets as they are."""
    tools = getattr(agent, "tools", None)
    return list(tools) if isinstance(tools, (list, tuple)) else []


def tool_name(tool: Any) -> str:
    """What a tool is called."""
    name = getattr(tool, "name", None) or getattr(tool, "__name__", None)
    return name if isinstance(name, str) else type(tool).__name__


def _model_name(agent: Any) -> str | None:
    model = getattr(agent, "model", None)
    name = model if isinstance(model, str) else getattr(model, "model", None)
    return name if isinstance(name, str) and name else None


# Which google-adk there is: 1.18 or newer. What the releases have under different names is here.

_OLDEST = (1, 18)


def require_adk() -> None:
    """Import what every session needs. Raises LoadError where google-adk is missing or too old."""
    try:
        found = importlib.metadata.version("google-adk")
    except importlib.metadata.PackageNotFoundError:
        found = None
    problem = None if found is None else wrong_version(found)
    if problem is not None:
        raise LoadError(f"{problem}; it is what this interpreter has: {sys.executable}")
    try:
        from google.adk.runners import Runner  # noqa: F401
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "google":
            raise
        if found is None:
            raise not_installed("google-adk", extra="adk") from None
        raise LoadError(
            f"google-adk {found} is installed for this interpreter ({sys.executable}), but {error.name} is missing: "
            f"install it again there (pip install --force-reinstall google-adk)"
        ) from None
    agent_type()  # and what a first run of 2.x would import late, as time of the first turn


def wrong_version(found: str) -> str | None:
    """Why a version of google-adk cannot be used; None where it can."""
    parts = found.split(".")[:2]
    if not all(part.isdecimal() for part in parts) or tuple(map(int, parts)) >= _OLDEST:
        return None
    return f"google-adk {found} is too old, expected {_OLDEST[0]}.{_OLDEST[1]} or newer: pip install -U google-adk"


def agent_type() -> Any:
    """What every agent is: a node of a workflow from 2.0 on, a BaseAgent before."""
    try:
        from google.adk.workflow import BaseNode, Workflow  # noqa: F401 - with it most of the rest
    except ModuleNotFoundError:
        from google.adk.agents import BaseAgent

        return BaseAgent
    return BaseNode


# Where an ADK agent is and how it is imported: what `adk web`, `adk run` and `adk eval` each find, and a little more.

_FACTORIES = ("get_agent_async", "get_agent")
_SOUGHT = "`root_agent`, `app` (a google.adk App), `get_agent_async` or `get_agent`"


class AgentSource:
    """What was found: an app, an agent, or a function that makes an agent. Exactly one of them is set."""

    def __init__(self, *, place: str, app: Any = None, agent: Any = None, factory: Any = None) -> None:
        self.place = place  # for messages: module and name
        self.app = app
        self.agent = agent
        self.factory = factory


def agent_folder(target: dict[str, Any]) -> str:
    """The agent's folder: `location` inside `path` (or absolute); `path` may also be the folder that holds the agent's.

    Whether it exists is for `find_agent` to say.
    """
    base, location = target["path"], target.get("location") or ""
    inside = os.path.normpath(os.path.join(base, location))
    beside = os.path.join(base, os.path.basename(os.path.normpath(location)))
    return beside if not os.path.isdir(inside) and os.path.isdir(beside) else inside


def import_roots(folder: str) -> list[str]:
    """Folders for `sys.path`: the one that holds the agent's, and where that is a package itself, its root's parent."""
    roots = [os.path.dirname(folder)]
    while os.path.isfile(os.path.join(roots[-1], "__init__.py")) and os.path.dirname(roots[-1]) != roots[-1]:
        roots.append(os.path.dirname(roots[-1]))
    return [roots[0]] if len(roots) == 1 else [roots[0], roots[-1]]


def nearest_env_file(folder: str) -> str | None:
    """The `.env` of the agent's folder or of the nearest folder above it; None where there is none, or ADK is told not
    to load it (ADK_DISABLE_LOAD_DOTENV)."""
    if os.environ.get("ADK_DISABLE_LOAD_DOTENV", "").lower() in ("true", "1"):
        return None
    while True:
        path = os.path.join(folder, ".env")
        if os.path.isfile(path):
            return path
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def find_agent(folder: str) -> AgentSource:
    """Import the agent in `folder`. Raises LoadError where there is none, and whatever the agent's own code raises."""
    if not os.path.isdir(folder):
        raise LoadError(f"no agent folder {folder}: expected a folder with agent.py or __init__.py")
    has_package = os.path.isfile(os.path.join(folder, "__init__.py"))
    has_module = os.path.isfile(os.path.join(folder, "agent.py")) or os.path.isdir(os.path.join(folder, "agent"))
    if not has_package and not has_module:
        raise LoadError(f"no agent in {folder}: expected agent.py or __init__.py with {_SOUGHT}")
    package = _import_package(folder)
    source = _source_in(_agent_module(package)) or _source_in(package)
    if source is None and has_module:
        source = _source_in(_import(f"{package.__name__}.agent", folder))
    if source is None:
        modules = [package, sys.modules.get(f"{package.__name__}.agent")]
        values = {name: value for module in modules if module is not None for name, value in vars(module).items()}
        if "root_agent" in values:
            near = f"; root_agent is {describe(values['root_agent'])}"
        else:
            near = nearest("root_agent", list(values), likeness=0.8)
        looked = " and ".join(name for name, there in (("__init__.py", has_package), ("agent.py", has_module)) if there)
        raise LoadError(f"no agent in {folder}: looked in {looked} for {_SOUGHT}{near}")
    return source


async def make_agent(source: AgentSource) -> tuple[Any, Any]:
    """The agent of a factory and the exit stack that came with it (or None).

    As in ADK a factory gives the agent or the pair of agent and exit stack, at once or awaited. Raises LoadError for
    anything else.
    """
    made = source.factory()
    if inspect.isawaitable(made):
        made = await made
    agent, stack = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(agent, agent_type()):
        raise LoadError(f"{source.place}() gave {_kind(agent)}, expected an agent (or an agent and an exit stack)")
    return agent, stack


def sub_agent(root: Any, name: str) -> Any:
    """The agent of this name: the root agent or one below it. Raises LoadError where there is none."""
    known = list(agents_of(root))
    for agent in known:
        if agent.name == name:
            return agent
    listed = ", ".join(agent.name for agent in known)
    raise LoadError(f"there is no agent {name!r} in {root.name}: it has {listed}")


def _source_in(module: ModuleType | None) -> AgentSource | None:
    from google.adk.apps.app import App

    if module is None:
        return None
    app = getattr(module, "app", None)
    if isinstance(app, App):
        return AgentSource(place=f"{module.__name__}.app", app=app)
    place = f"{module.__name__}.root_agent"
    agent = getattr(module, "root_agent", None)
    if isinstance(agent, agent_type()):
        return AgentSource(place=place, agent=agent)
    if callable(agent) and not isinstance(agent, type):
        return AgentSource(place=place, factory=agent)
    if agent is not None:
        hint = ": an App must be named `app`" if isinstance(agent, App) else ""
        raise LoadError(f"{place} is {_kind(agent)}, expected an agent of google.adk{hint}")
    for name in _FACTORIES:
        factory = getattr(module, name, None)
        if callable(factory):
            return AgentSource(place=f"{module.__name__}.{name}", factory=factory)
    return None


def _agent_module(package: ModuleType) -> ModuleType | None:
    """The package's module `agent`, where its `__init__.py` has imported it; `adk eval` looks there first."""
    module = getattr(package, "agent", None)
    return module if isinstance(module, ModuleType) else None


def _import_package(folder: str) -> ModuleType:
    """The agent's folder as a package under its own name, or, where another module has that name, under one of ours."""
    name = _package_name(folder)
    if "." not in os.path.basename(folder):
        package = _import(name, folder)
        if os.path.realpath(folder) in (os.path.realpath(path) for path in getattr(package, "__path__", ())):
            return package
    return _import_as(f"adk_agent_{os.path.basename(folder).replace('.', '_')}", folder)


def _package_name(folder: str) -> str:
    """The dotted name of the folder, from the outermost folder around it that is a package."""
    parts = [os.path.basename(folder)]
    above = os.path.dirname(folder)
    while os.path.isfile(os.path.join(above, "__init__.py")) and os.path.dirname(above) != above:
        parts.insert(0, os.path.basename(above))
        above = os.path.dirname(above)
    return ".".join(parts)


def _import(name: str, folder: str) -> ModuleType:
    """Import a module; a missing one that lies beside the agent's files is told how to be imported."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        beside = os.path.join(folder, *missing.split("."))
        if missing and (os.path.isfile(f"{beside}.py") or os.path.isdir(beside)):
            package = os.path.basename(folder)
            error.msg = f"{error.msg} (it lies in the agent's folder: import .{missing} or {package}.{missing})"
        raise


def _import_as(name: str, folder: str) -> ModuleType:
    """Import the folder as a package called `name`, without looking at `sys.path`."""
    path = os.path.join(folder, "__init__.py")
    if os.path.isfile(path):
        spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=[folder])
    else:
        spec = importlib.util.spec_from_loader(name, loader=None, is_package=True)
        if spec is not None:
            spec.submodule_search_locations = [folder]
    if spec is None:
        raise LoadError(f"{folder} cannot be imported as a package")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if spec.loader is not None:
        try:
            spec.loader.exec_module(module)
        except BaseException:  # whatever the agent's package raises: as with any import, no half of it stays
            del sys.modules[name]
            raise
    return module


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"a value of type {type(value).__name__}"
