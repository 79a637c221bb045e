"""ADK agents: loading, structure and description, and interception of their tools."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
import inspect
import os
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

from ... import faults
from ...loading import suggest_name
from ...responses import clean_docstring, redact_schema
from ...wire import describe
from ..base import LoadError, make_not_installed_error
from ..object_json import as_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..base import InterceptedTools

# Structure: sub-agents, tools and models, read without calling the agent.

_MOST_AGENTS = 200  # a larger graph cannot be drawn, and is sent with every turn
_MOST_TRANSFERS = 1_000  # each of 200 agents may hand over to all others


def describe_structure(agent: Any) -> dict[str, dict[str, Any]]:
    """Return the agent and all below it by name, the outermost first.

    Each has `type`, and if present `model`, `tools` (names) and `agents` (names of agents that it hands over to or
    runs, including agents used as tools). `transfers` are the names of agents that its model is offered for a transfer,
    also above it and beside it; none has them if there are too many.
    """
    found: dict[str, dict[str, Any]] = {}
    transfers = {item.name: list_transfers(item) for item in walk_agents(agent)}
    if sum(len(names or ()) for names in transfers.values()) > _MOST_TRANSFERS:
        transfers = {}
    for item in walk_agents(agent):
        facts = {
            "type": type(item).__name__,
            "model": _read_model_name(item),
            "tools": [name for name in map(tool_name, list_own_tools(item)) if name],
            "agents": list_reachable_agents(item),
        }
        found[item.name] = {name: value for name, value in facts.items() if value}
        offered = transfers.get(item.name)
        if offered is not None:
            found[item.name]["transfers"] = offered
    return found


def list_transfers(agent: Any) -> list[str] | None:
    """List the names of agents that the model of an agent is offered for a transfer, as ADK decides it; None for an
    agent without transfers, and if this version of ADK does not say."""
    if not hasattr(agent, "disallow_transfer_to_parent"):
        return None
    try:
        from google.adk.flows.llm_flows.agent_transfer import _get_transfer_targets
    except ImportError:
        return None
    return [other.name for other in _get_transfer_targets(agent)]


def walk_agents(agent: Any) -> Iterator[Any]:
    """Yield the agent and all below it, each once, the outermost first."""
    seen: set[str] = set()
    waiting = [agent]
    while waiting and len(seen) < _MOST_AGENTS:
        item = waiting.pop(0)
        if item.name not in seen:
            seen.add(item.name)
            yield item
            waiting += _walk_agents_below(item)


def list_reachable_agents(agent: Any) -> list[str]:
    """List the names of agents that it can hand over to or run."""
    return [other.name for other in _walk_agents_below(agent)]


def _walk_agents_below(agent: Any) -> Iterator[Any]:
    yield from getattr(agent, "sub_agents", None) or ()
    for node in getattr(getattr(agent, "graph", None), "nodes", None) or ():
        if node.name != "__START__":
            yield node
    for tool in list_own_tools(agent):
        wrapped = getattr(tool, "agent", None)
        if hasattr(wrapped, "sub_agents"):
            yield wrapped


def list_own_tools(agent: Any) -> list[Any]:
    """List the tools of this agent only; toolsets are not expanded."""
    tools = getattr(agent, "tools", None)
    return list(tools) if isinstance(tools, (list, tuple)) else []


def tool_name(tool: Any) -> str:
    """Return the name of a tool; of a partial function that of its function, as ADK does."""
    while isinstance(tool, functools.partial):
        tool = tool.func
    name = getattr(tool, "name", None) or getattr(tool, "__name__", None)
    return name if isinstance(name, str) else type(tool).__name__


def _read_model_name(agent: Any) -> str | None:
    model = getattr(agent, "model", None)
    name = model if isinstance(model, str) else getattr(model, "model", None)
    return name if isinstance(name, str) and name else None


# The version of google-adk (1.18 or newer), and names that differ between versions.

_OLDEST = (1, 18)


def require_adk() -> None:
    """Import what every session needs. Raises LoadError if google-adk is missing or too old."""
    try:
        found = importlib.metadata.version("google-adk")
    except importlib.metadata.PackageNotFoundError:
        found = None
    problem = None if found is None else find_version_error(found)
    if problem is not None:
        raise LoadError(f"{problem} (interpreter: {sys.executable})")
    try:
        from google.adk.runners import Runner  # noqa: F401
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "google":
            raise
        if found is None:
            raise make_not_installed_error("google-adk", extra="adk") from None
        raise LoadError(
            f"google-adk {found} is installed for this interpreter ({sys.executable}), but {error.name} is missing: "
            f"install it again there (pip install --force-reinstall google-adk)"
        ) from None
    get_agent_type()  # also imports what 2.x would import during the first turn


def find_version_error(found: str) -> str | None:
    """Return why a version of google-adk cannot be used; None if it can."""
    parts = found.split(".")[:2]
    if not all(part.isdecimal() for part in parts) or tuple(map(int, parts)) >= _OLDEST:
        return None
    return f"google-adk {found} is too old, expected {_OLDEST[0]}.{_OLDEST[1]} or newer: pip install -U google-adk"


def get_agent_type() -> Any:
    """Return the base class of all agents: a workflow node since 2.0, BaseAgent before."""
    try:
        from google.adk.workflow import BaseNode, Workflow  # noqa: F401 - with it most of the rest
    except ModuleNotFoundError:
        from google.adk.agents import BaseAgent

        return BaseAgent
    return BaseNode


# Loading, which finds what `adk web`, `adk run` and `adk eval` find, and a little more.

_FACTORIES = ("get_agent_async", "get_agent")
_SOUGHT = "`root_agent`, `app` (a google.adk App), `get_agent_async` or `get_agent`"


class AdkAgentSource(NamedTuple):
    """A loaded app, agent, or factory of agents. Exactly one of them is set. `place` is its module and name."""

    place: str
    app: Any = None
    agent: Any = None
    factory: Any = None


CONFIG_FILE = "root_agent.yaml"
"""The file of an agent that is configured without code."""


def agent_folder(target: dict[str, Any]) -> str:
    """Return the agent's folder: `location` inside `path`, or absolute; `path` may also be the parent of the agent's
    folder.

    `find_agent` checks whether it exists.
    """
    base, location = target["path"], target.get("location") or ""
    inside = os.path.normpath(os.path.join(base, location))
    beside = os.path.join(base, os.path.basename(os.path.normpath(location)))
    return beside if not os.path.isdir(inside) and os.path.isdir(beside) else inside


def import_roots(folder: str) -> list[str]:
    """Return folders for `sys.path`: the parent of the agent's; if that is a package, also the parent of its root."""
    roots = [os.path.dirname(folder)]
    while os.path.isfile(os.path.join(roots[-1], "__init__.py")) and os.path.dirname(roots[-1]) != roots[-1]:
        roots.append(os.path.dirname(roots[-1]))
    return [roots[0]] if len(roots) == 1 else [roots[0], roots[-1]]


def find_env_file(folder: str) -> str | None:
    """Return the nearest `.env` from the agent's folder upwards, or None. ADK_DISABLE_LOAD_DOTENV disables the
    search."""
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


def find_agent(folder: str) -> AdkAgentSource:
    """Import the agent in `folder`. Raises LoadError without an agent; the agent's own exceptions propagate."""
    if not os.path.isdir(folder):
        raise LoadError(f"no agent folder {folder}: expected a folder with agent.py, __init__.py or root_agent.yaml")
    has_package = os.path.isfile(os.path.join(folder, "__init__.py"))
    has_module = os.path.isfile(os.path.join(folder, "agent.py")) or os.path.isdir(os.path.join(folder, "agent"))
    config = os.path.join(folder, CONFIG_FILE)
    if os.path.isfile(config) and not has_module:
        return AdkAgentSource(place=config, agent=_load_config(config))
    if not has_package and not has_module:
        raise LoadError(f"no agent in {folder}: expected root_agent.yaml, or agent.py or __init__.py with {_SOUGHT}")
    package = _import_package(folder)
    source = _find_source(_find_agent_module(package)) or _find_source(package)
    if source is None and has_module:
        source = _find_source(_import(f"{package.__name__}.agent", folder))
    if source is None:
        modules = [package, sys.modules.get(f"{package.__name__}.agent")]
        values = {name: value for module in modules if module is not None for name, value in vars(module).items()}
        if "root_agent" in values:
            near = f"; root_agent is {describe(values['root_agent'])}"
        else:
            near = suggest_name("root_agent", list(values), likeness=0.8)
        looked = " and ".join(name for name, there in (("__init__.py", has_package), ("agent.py", has_module)) if there)
        raise LoadError(f"no agent in {folder}: looked in {looked} for {_SOUGHT}{near}")
    return source


def _load_config(path: str) -> Any:
    """Build the agent of a YAML file (Agent Config). Raises LoadError if it cannot be built."""
    try:
        from google.adk.agents.config_agent_utils import from_config
    except ImportError:
        raise LoadError(f"{path}: this version of google-adk does not read agent configs") from None
    try:
        return from_config(path)
    except Exception as error:  # of its YAML, its schema, or the modules that it names
        raise LoadError(f"{path}: google-adk cannot build the agent: {error}") from error


async def make_agent(source: AdkAgentSource) -> tuple[Any, Any]:
    """Call a factory; return the agent and its exit stack (or None).

    As in ADK a factory returns the agent, or the pair of agent and exit stack, plain or awaitable. Raises LoadError for
    anything else.
    """
    made = source.factory()
    if inspect.isawaitable(made):
        made = await made
    agent, stack = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(agent, get_agent_type()):
        raise LoadError(
            f"{source.place}() gave {_describe_kind(agent)}, expected an agent (or an agent and an exit stack)"
        )
    return agent, stack


def sub_agent(root: Any, name: str) -> Any:
    """Return the agent of this name: the root agent or one below it. Raises LoadError for an unknown name."""
    known = list(walk_agents(root))
    for agent in known:
        if agent.name == name:
            return agent
    listed = ", ".join(agent.name for agent in known)
    raise LoadError(f"there is no agent {name!r} in {root.name}: it has {listed}")


def _find_source(module: ModuleType | None) -> AdkAgentSource | None:
    from google.adk.apps.app import App

    if module is None:
        return None
    app = getattr(module, "app", None)
    if isinstance(app, App):
        return AdkAgentSource(place=f"{module.__name__}.app", app=app)
    place = f"{module.__name__}.root_agent"
    agent = getattr(module, "root_agent", None)
    if isinstance(agent, get_agent_type()):
        return AdkAgentSource(place=place, agent=agent)
    if callable(agent) and not isinstance(agent, type):
        return AdkAgentSource(place=place, factory=agent)
    if agent is not None:
        hint = ": an App must be named `app`" if isinstance(agent, App) else ""
        if inspect.iscoroutine(agent):
            agent.close()
            hint = ": bind the function itself, without calling it, or name it get_agent_async"
        raise LoadError(f"{place} is {_describe_kind(agent)}, expected an agent of google.adk{hint}")
    for name in _FACTORIES:
        factory = getattr(module, name, None)
        if callable(factory):
            return AdkAgentSource(place=f"{module.__name__}.{name}", factory=factory)
    return None


def _find_agent_module(package: ModuleType) -> ModuleType | None:
    """Return the package's module `agent` if its `__init__.py` has imported it; `adk eval` looks there first."""
    module = getattr(package, "agent", None)
    return module if isinstance(module, ModuleType) else None


def _import_package(folder: str) -> ModuleType:
    """Import the agent's folder as a package under its own name, or a private one if another module has that name."""
    name = _find_package_name(folder)
    if "." not in os.path.basename(folder):
        package = _import(name, folder)
        if os.path.realpath(folder) in (os.path.realpath(path) for path in getattr(package, "__path__", ())):
            return package
    return _import_under_name(f"adk_agent_{os.path.basename(folder).replace('.', '_')}", folder)


def _find_package_name(folder: str) -> str:
    """Return the dotted name of the folder, from the outermost package around it."""
    parts = [os.path.basename(folder)]
    above = os.path.dirname(folder)
    while os.path.isfile(os.path.join(above, "__init__.py")) and os.path.dirname(above) != above:
        parts.insert(0, os.path.basename(above))
        above = os.path.dirname(above)
    return ".".join(parts)


def _import(name: str, folder: str) -> ModuleType:
    """Import a module. If a missing module lies in the agent's folder, the error says how to import it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        beside = os.path.join(folder, *missing.split("."))
        if missing and (os.path.isfile(f"{beside}.py") or os.path.isdir(beside)):
            package = os.path.basename(folder)
            error.msg = f"{error.msg} (it lies in the agent's folder: import .{missing} or {package}.{missing})"
        raise


def _import_under_name(name: str, folder: str) -> ModuleType:
    """Import the folder as a package called `name`, without `sys.path`."""
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
        except BaseException:  # like any failed import, remove the partial module
            del sys.modules[name]
            raise
    return module


def _describe_kind(value: Any) -> str:
    return "nothing" if value is None else f"a value of type {type(value).__name__}"


# Interception of tool calls.

_REPORTED_ACTIONS = ("state_delta", "transfer_to_agent", "escalate", "skip_summarization")
_OF_THE_FRAMEWORK = frozenset({"transfer_to_agent", "exit_loop"})


def refuse_unknown_tools(tools: InterceptedTools, agent: Any) -> None:
    """Raise LoadError for a configured tool that no agent has.

    The content of toolsets is unknown: with one, every tool is accepted.
    """
    known: dict[str, None] = {}
    for name, facts in describe_structure(agent).items():
        known.update(dict.fromkeys(facts.get("tools", ())))
        known[name] = None  # workflows and agents may use agents as tools
    if not any(hasattr(tool, "get_tools") for item in walk_agents(agent) for tool in list_own_tools(item)):
        tools.require_known(known)


class AdkToolCalls:
    """Interception of the calls of one session."""

    def __init__(self, tools: InterceptedTools) -> None:
        self._tools = tools
        self._made: dict[int, tuple[Any, dict[str, Any]]] = {}  # by id of the context, which is held
        self._to_raise: dict[int, tuple[Any, BaseException]] = {}

    async def decide(self, tool: Any, args: dict[str, Any], tool_context: Any) -> tuple[str | None, Any]:
        """Return who answers instead of the tool, and the answer; None and None if the tool is to be called."""
        if not self._tools.wants(tool.name, is_plain=_is_plain(tool)):
            return None, None
        answer = await self._tools.ask_later(tool.name, as_json(args), describe_tool(tool))
        if answer["source"] is None:
            self._made[id(tool_context)] = (tool_context, answer)
            return None, None
        _repeat_actions(tool_context, answer.get("actions") or {})
        if answer.get("error") is not None:
            self._raise_in_tool(tool, tool_context, faults.decode_exception(answer["error"], tool.name))
            return answer["source"], None
        response = answer.get("response")
        # ADK wraps other values in an object, and takes None for no answer.
        return answer["source"], {"result": None} if response is None else response

    def report_result(self, tool_context: Any, result: Any) -> None:
        _, answer = self._made.pop(id(tool_context), (None, None))
        if answer is not None:
            actions = as_json(tool_context.actions) or {}
            side_effects = {name: actions[name] for name in _REPORTED_ACTIONS if actions.get(name)}
            self._tools.report_outcome(answer, response=as_json(result), actions=side_effects)

    def report_error(self, tool_context: Any, error: BaseException) -> None:
        _, answer = self._made.pop(id(tool_context), (None, None))
        if answer is not None:
            self._tools.report_outcome(answer, error=faults.encode_exception(error))

    def _raise_in_tool(self, tool: Any, tool_context: Any, error: BaseException) -> None:
        """Make the tool itself raise in this call: ADK takes an exception of a callback for a fault of the callback."""
        self._to_raise[id(tool_context)] = (tool_context, error)
        run = tool.run_async
        if getattr(run, "raises_for", None) is self:
            return

        async def run_or_raise(*, args: dict[str, Any], tool_context: Any) -> Any:
            _, recorded = self._to_raise.pop(id(tool_context), (None, None))
            if recorded is not None:
                raise recorded
            return await run(args=args, tool_context=tool_context)

        run_or_raise.raises_for = self  # type: ignore[attr-defined]
        tool.run_async = run_or_raise


def _is_plain(tool: Any) -> bool:
    """Return False for tools that hand over, or run an agent whose own tools are intercepted."""
    return tool.name not in _OF_THE_FRAMEWORK and not hasattr(getattr(tool, "agent", None), "sub_agents")


def _repeat_actions(tool_context: Any, actions: dict[str, Any]) -> None:
    """Apply the recorded side effects of a call to the session."""
    for key, value in (actions.get("state_delta") or {}).items():
        tool_context.state[key] = value
    for name in _REPORTED_ACTIONS:
        if name in actions and name != "state_delta":
            setattr(tool_context.actions, name, actions[name])


def describe_tool(tool: Any) -> dict[str, Any]:
    """Return the declaration of a tool, as models get it."""
    try:
        schema: dict[str, Any] = redact_schema(as_json(_read_declaration(tool)) or {})
    except Exception:  # a custom tool may have no valid declaration
        schema = {}
    declaration = {"name": tool.name, "description": tool.description or "", **schema}
    if isinstance(declaration["description"], str):
        function = getattr(tool, "func", None)
        declaration["description"] = clean_docstring(function, declaration["description"])
    return declaration


def _read_declaration(tool: Any) -> Any:
    """Return what a tool adds to a request; None for one that adds no function."""
    from google.adk.models.llm_request import LlmRequest

    request = LlmRequest()
    request.append_tools([tool])
    added = request.config.tools or []
    return added[0].function_declarations[0] if added else None


# Description: instructions and tools, read without running the agent.

_INSTRUCTIONS = ("global_instruction", "static_instruction", "instruction")


def describe_agent(agent: Any) -> dict[str, Any]:
    unknown: list[str] = []
    parts = [_describe_part(item, unknown) for item in walk_agents(agent)]
    return {"agents": parts, "unknown": unknown}


def _describe_part(agent: Any, unknown: list[str]) -> dict[str, Any]:
    facts = {
        "type": type(agent).__name__,
        "description": _read_text(getattr(agent, "description", None)),
        "instruction": _read_instruction(agent, unknown),
        "instructions": {name: text for name, text in _list_instructions(agent) if text},
        "tools": _describe_tools(agent, unknown),
        "agents": list_reachable_agents(agent),
    }
    return {"name": agent.name, **{name: value for name, value in facts.items() if value}}


def _list_instructions(agent: Any) -> Iterator[tuple[str, str]]:
    for name in _INSTRUCTIONS:
        value = getattr(agent, name, None)
        if isinstance(value, str):
            yield name, value


class Instructions:
    """Replaces instructions of agents for one session at a time, and puts the original ones back for the next one."""

    def __init__(self) -> None:
        self._originals: list[tuple[Any, str, str]] = []

    def replace(self, root: Any, texts: dict[str, dict[str, str]]) -> None:
        """Replace instructions of the agents at and below `root`, by the name of the agent and of the field."""
        while self._originals:
            setattr(*self._originals.pop())
        for agent in walk_agents(root) if texts else ():
            for name, text in _list_instructions(agent):
                changed = texts.get(agent.name, {}).get(name, text)
                if changed != text:
                    self._originals.append((agent, name, text))
                    setattr(agent, name, changed)


def _read_instruction(agent: Any, unknown: list[str]) -> str:
    texts = []
    for name in _INSTRUCTIONS:
        value = getattr(agent, name, None)
        if callable(value):
            unknown.append(f"{name} of {agent.name} is computed by a function at run time")
            value = inspect.getdoc(value)
        texts.append(_read_text(value))
    return "\n\n".join(text for text in texts if text)


def _read_text(value: Any) -> str:
    """Return a text, or the texts in a content of google.genai; empty for anything else."""
    if isinstance(value, str):
        return value
    parts = getattr(value, "parts", None) or ([value] if hasattr(value, "text") else value)
    if not isinstance(parts, (list, tuple)):
        return ""
    texts = (part if isinstance(part, str) else getattr(part, "text", None) for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str))


def _describe_tools(agent: Any, unknown: list[str]) -> list[dict[str, Any]]:
    declarations = []
    for tool in list_own_tools(agent):
        if hasattr(tool, "get_tools"):
            unknown.append(f"the tools in {type(tool).__name__} of {agent.name}")
            continue
        try:
            declarations.append(as_json(describe_tool(_as_tool(tool))))
        except Exception:  # a custom tool of which only the name is known
            declarations.append({"name": tool_name(tool)})
    return declarations


def _as_tool(tool: Any) -> Any:
    """Return a function as the tool that ADK makes of it."""
    from google.adk.tools.base_tool import BaseTool
    from google.adk.tools.function_tool import FunctionTool

    return tool if isinstance(tool, BaseTool) else FunctionTool(func=tool)
