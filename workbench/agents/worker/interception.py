"""Tools of agents that are plain Python: found by name, and made to ask before they do anything.

The code of the function object itself is replaced, not the name that leads to it: whoever holds the function (a list of
tools, another module, a partial, a closure) gets the new behaviour, and its name, signature and identity stay.
"""

from __future__ import annotations

import builtins
import inspect
import os
import sys
import time
from contextvars import ContextVar
from types import CodeType, FunctionType

from . import faults
from .adapters.base import AgentFault, LoadError
from .asking import Tools
from .loading import find_object
from .recording.scope import is_workspace
from .responses import annotation_to_tell, may_be_told
from .wire import describe, lenient

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Optional, Tuple

_CALL, _CALL_LATER = "__workbench_call__", "__workbench_call_later__"
_MAKERS = {
    False: "def stand_in(*args, **kwargs): return {call}({number}, args, kwargs)",
    True: "async def stand_in(*args, **kwargs): return await {call}({number}, args, kwargs)",
}
_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}
_EXPECTED = "a function of the agent's own modules (one elsewhere is named as module:function)"


class _Nobody:
    """A session that wants to hear of no tool."""


_nobody = _Nobody()
_here: ContextVar[Any] = ContextVar("workbench_tools", default=None)
_open: List[Session] = []


class Session:
    """The calls of one session: which tools it wants to hear of, and what has been called since it was last asked."""

    def __init__(self, tools: Tools) -> None:
        self.tools = tools
        self._calls: List[Dict[str, Any]] = []

    def note(self, call: Dict[str, Any]) -> None:
        """A call has ended."""
        self._calls.append(call)

    def take_calls(self) -> List[Dict[str, Any]]:
        """The calls since the last time, in the order of their ends: `tool`, `args`, `start`, `end` (of the performance
        counter), `source` (None where the tool itself was called), `response`, `error`."""
        calls, self._calls = self._calls, []
        return calls

    def close(self) -> None:
        """No more calls come."""
        if self in _open:
            _open.remove(self)


class _Tool:
    """A function whose code was replaced."""

    def __init__(self, name: str, function: FunctionType, *, bound: bool) -> None:
        self.names = [name]  # several where sessions of one process call it differently
        self.signature = inspect.signature(function)
        self.original = FunctionType(
            function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        self.original.__kwdefaults__ = function.__kwdefaults__
        self._bound = bound
        self.declaration = declaration_of(name, function, list(self.signature.parameters.values())[bound:])

    def wanted_by(self, session: Optional[Session]) -> str:
        """The name under which a session wants to hear of it; empty where it does not."""
        if session is None:
            return ""
        return next((name for name in self.names if session.tools.wants(name)), "")

    def arguments(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Optional[Dict[str, Any]]:
        """The arguments by name, without the object that a method belongs to; None where the call is wrong."""
        try:
            given = self.signature.bind(*args, **kwargs)
        except TypeError:
            return None
        named: Dict[str, Any] = {}
        for position, (name, value) in enumerate(given.arguments.items()):
            if self._bound and position == 0:
                continue
            if self.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                named.update(value)
            else:
                named[name] = value
        return named


_tools: List[_Tool] = []
_known: Dict[int, Tuple[FunctionType, _Tool]] = {}  # by identity; held, so that it stays unique


def open_session(tools: Tools, roots: List[str]) -> Session:
    """Have the tools that a session wants to hear of ask it. Raises LoadError where one is not there."""
    for name in dict.fromkeys((*tools.names, *tools.functions)):
        found = _find(name, tools, roots)
        if found is not None:
            _replace(name, *found)
    session = Session(tools)
    _open.append(session)
    return session


def forget(tools: Tools) -> None:
    """A session has ended without having been closed."""
    for session in [session for session in _open if session.tools is tools]:
        session.close()


def enter(session: Optional[Session]) -> None:
    """What this task, or this thread, calls from now on is this session's. Needed where sessions share a process."""
    if _tools:
        _here.set(session or _nobody)


def _find(name: str, tools: Tools, roots: List[str]) -> Optional[Tuple[FunctionType, bool]]:
    """The function of a tool, and whether it gets an object first; None for one that need not be there."""
    location = tools.functions.get(name, name)
    if ":" in location:
        return _located(location, roots)
    found: Dict[int, Tuple[FunctionType, bool, str]] = {}
    names = set()
    for key, function, bound, place in own_functions(roots):
        names.add(key)
        if key == name:
            found.setdefault(id(function), (function, bound, place))
    if len(found) > 1:
        places = " and ".join(sorted(place for _, _, place in found.values()))
        raise tools.refuse_unknown(name, (), expected=f"one function: that name have {places}; name it in `tools`")
    for function, bound, _ in found.values():
        return function, bound
    if tools.names.get(name) is None and name not in tools.functions:
        return None
    raise tools.refuse_unknown(name, names, expected=_EXPECTED)


def _located(location: str, roots: List[str]) -> Tuple[FunctionType, bool]:
    value = find_object(location, roots, wanted="a tool")
    owner, _, last = location.rpartition(".")
    held: Any = value
    if "." in location.partition(":")[2]:
        held = inspect.getattr_static(find_object(owner, roots, wanted="a tool"), last, value)
    function = getattr(value, "__func__", value)
    if not isinstance(function, FunctionType):
        raise LoadError(f"{location} is {describe(value)}, expected a function written in Python")
    is_method = "." in location.partition(":")[2] and not isinstance(held, staticmethod)
    return function, is_method


def own_functions(roots: List[str]) -> Iterator[Tuple[str, FunctionType, bool, str]]:
    """The functions and methods in the agent's own modules: name, function, whether it gets an object first, place."""
    folders = tuple(os.path.abspath(root) + os.sep for root in roots)
    for module_name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if not isinstance(path, str) or not path.startswith(folders) or not is_workspace(path):
            continue
        for key, value in list(vars(module).items()):
            if isinstance(value, FunctionType):
                yield key, value, False, f"{value.__module__}:{value.__qualname__}"
            elif isinstance(value, type) and value.__module__ == module_name:
                for name, member in list(vars(value).items()):
                    function = getattr(member, "__func__", member)
                    if isinstance(function, FunctionType):
                        place = f"{module_name}:{value.__qualname__}.{name}"
                        yield name, function, not isinstance(member, staticmethod), place


def _replace(name: str, function: FunctionType, bound: bool) -> None:
    if id(function) in _known:
        tool = _known[id(function)][1]
        if name not in tool.names:
            tool.names.append(name)
        return
    flags = function.__code__.co_flags
    if flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR):
        raise LoadError(f"{function.__module__}:{function.__qualname__} is a generator, which cannot be simulated")
    setattr(builtins, _CALL, _call)
    setattr(builtins, _CALL_LATER, _call_later)
    tool = _Tool(name, function, bound=bound)
    _tools.append(tool)
    _known[id(function)] = (function, tool)
    if not hasattr(function, "__signature__"):
        function.__signature__ = tool.signature  # type: ignore[attr-defined]  # read by inspect.signature
    function.__code__ = _code(len(_tools) - 1, function)


def _code(number: int, function: FunctionType) -> CodeType:
    """Code that asks; with as many free variables as the function's own, as Python wants it."""
    old = function.__code__
    is_async = bool(old.co_flags & inspect.CO_COROUTINE)
    body = _MAKERS[is_async].format(call=_CALL_LATER if is_async else _CALL, number=number)
    free = [f"_{index}" for index in range(len(old.co_freevars))]
    if free:
        head, _, rest = body.partition(":")
        body = f"def around({', '.join(free)}):\n {head}:\n  if False: {', '.join(free)}\n  {rest.strip()}"
    module = compile(body, __file__, "exec")
    code = _inner(_inner(module) if free else module)
    return code.replace(co_name=old.co_name)


def _inner(code: CodeType) -> CodeType:
    return next(item for item in code.co_consts if isinstance(item, CodeType))


class _Call:
    """One call of a tool that its session wanted to hear of."""

    def __init__(self, session: Session, tool: str, args: Dict[str, Any]) -> None:
        self._session = session
        self._tool = tool
        self._args = args
        self._started = time.perf_counter()

    def given(self, answer: Dict[str, Any]) -> Any:
        """Another answered in place of the tool: what it gave, or raises what it raised."""
        told = answer.get("error")
        self._note(source=answer["source"], response=answer.get("response"), error=told)
        if told is not None:
            raise faults.made_of(told, self._tool)
        return answer.get("response")

    def returned(self, answer: Dict[str, Any], value: Any) -> None:
        """The tool itself was called."""
        self._note(source=None, response=lenient(value), error=None)
        self._session.tools.tell(answer, response=value)

    def raised(self, answer: Dict[str, Any], error: BaseException) -> None:
        """The tool itself was called, and raised."""
        told = faults.as_data(error)
        self._note(source=None, response=None, error=told)
        self._session.tools.tell(answer, error=told)

    def _note(self, **outcome: Any) -> None:
        times = {"start": self._started, "end": time.perf_counter()}
        self._session.note({"tool": self._tool, "args": lenient(self._args), **times, **outcome})


def _call(number: int, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    tool, session = _tools[number], _session()
    name, named = tool.wanted_by(session), tool.arguments(args, kwargs)
    if session is None or not name or named is None:
        return tool.original(*args, **kwargs)
    call = _Call(session, name, named)
    answer = session.tools.ask(name, named, tool.declaration)
    if answer["source"] is not None:
        return call.given(answer)
    try:
        value = tool.original(*args, **kwargs)
    except BaseException as error:
        call.raised(answer, error)
        raise
    call.returned(answer, value)
    return value


async def _call_later(number: int, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    tool, session = _tools[number], _session()
    name, named = tool.wanted_by(session), tool.arguments(args, kwargs)
    if session is None or not name or named is None:
        return await tool.original(*args, **kwargs)
    call = _Call(session, name, named)
    answer = await session.tools.ask_later(name, named, tool.declaration)
    if answer["source"] is not None:
        return call.given(answer)
    try:
        value = await tool.original(*args, **kwargs)
    except BaseException as error:
        call.raised(answer, error)
        raise
    call.returned(answer, value)
    return value


def _session() -> Optional[Session]:
    """Whose call this is. A thread that the agent started knows no session: there may be one only."""
    here = _here.get()
    if here is _nobody:
        return None
    if here is not None:
        return here  # type: ignore[no-any-return]
    if len(_open) > 1:
        raise AgentFault(
            "a tool was called in a thread of the agent's, in a process that cases share: which case it is for cannot "
            "be told; run cases with `--isolation case`",
            kind="unsupported",
        )
    return _open[0] if _open else None


def declaration_of(name: str, function: FunctionType, parameters: List[inspect.Parameter]) -> Dict[str, Any]:
    """What a model is told of a tool: its name, docstring and parameters, as declarations of functions are written."""
    properties = {parameter.name: _parameter(parameter) for parameter in parameters}
    required = [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    ]
    returns = function.__annotations__.get("return")
    return {
        "name": name.rpartition(":")[2].rpartition(".")[2],
        "description": inspect.getdoc(function) or "",
        "parameters": {"type": "object", "properties": properties, "required": required},
        **({} if returns is None else {"returns": _annotation(returns)}),
    }


def _parameter(parameter: inspect.Parameter) -> Dict[str, Any]:
    told: Dict[str, Any] = {}
    if parameter.annotation is not parameter.empty:
        kind = _JSON_TYPES.get(parameter.annotation)
        told = {"type": kind} if kind else {"description": _annotation(parameter.annotation)}
    if parameter.default is not parameter.empty and may_be_told(parameter.name, parameter.default):
        told["default"] = lenient(parameter.default)
    return told


def _annotation(annotation: Any) -> str:
    return annotation_to_tell(annotation if isinstance(annotation, str) else inspect.formatannotation(annotation))
