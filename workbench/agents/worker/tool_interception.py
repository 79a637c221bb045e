"""Interception of tool calls: requests to the engine, and plain Python functions that ask before they run.

A tool may be called from any thread and any task, and some calls block the thread whose event loop others need. A
separate thread therefore reads answers. To intercept a function, its code object is replaced: every reference to the
function (a list of tools, another module, a partial, a closure) gets the new behaviour. See PROTOCOL.md, Tools.
"""

from __future__ import annotations

import builtins
import inspect
import itertools
import os
import queue
import sys
import threading
import time
from concurrent.futures import Future
from contextvars import ContextVar
from types import CodeType, FunctionType

from . import faults
from .adapters.base import AgentFault, LoadError
from .loading import find_object, suggest_name
from .recording.recorder import quiet
from .recording.scope import is_workspace
from .responses import clean_docstring, is_safe_to_show, redact_annotation
from .wire import Wire, describe, explain_unfit, make_json_safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, Iterator

    from .adapters.base import InterceptedTools

    Message = dict[str, Any]


# Requests to the engine.

MARK = "workbench.simulated"
"""The span attribute that says who answered instead of the tool: injected, model or replayed."""


class NotAnswered(BaseException):
    """The session is over and the engine will not answer. No Exception, so that agents do not catch it."""


class Questions:
    """What one session asks the engine. Any thread may call the methods. `send` sends a message."""

    def __init__(self, session: int, send: Callable[[Message], None]) -> None:
        self._session = session
        self._send = send
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[Message]] = {}
        self._is_over = False
        self._process = os.getpid()
        self._lock = threading.Lock()
        self.on_post: Callable[[], None] = lambda: None
        """Called before a question is sent: something must read the answer."""

    def post(self, **question: Any) -> Future[Message]:
        """Send a question. Raises OSError in a process that the agent forked."""
        if os.getpid() != self._process:
            raise OSError("the connection to the engine belongs to another process")
        number = next(self._numbers)
        answered: Future[Message] = Future()
        answered.set_running_or_notify_cancel()  # the answer is dropped if the agent stops waiting
        with self._lock:
            if self._is_over:
                raise NotAnswered
            self._waiting[number] = answered
        self.on_post()
        self._send({"type": "ask", "session": self._session, "ask": number, **question})
        return answered

    def report(self, answer: Message, **outcome: Any) -> None:
        """Report the outcome of what the engine did not answer itself."""
        self._send({"type": "outcome", "session": self._session, "ask": answer["ask"], **outcome})

    @property
    def are_waiting(self) -> bool:
        """True if a question waits for an answer."""
        return bool(self._waiting)

    def receive(self, message: Message) -> None:
        """Deliver an answer of the engine."""
        with self._lock:
            answered = self._waiting.pop(message["ask"], None)
        if answered is not None:
            answered.set_result(message)

    def abandon(self) -> None:
        """End all waiting calls with NotAnswered: no answer will come."""
        with self._lock:
            self._is_over = True
            waiting, self._waiting = list(self._waiting.values()), {}
        for answered in waiting:
            answered.set_exception(NotAnswered())


class Tools:
    """The intercepted tools of one session, whose calls are questions to the engine. See `InterceptedTools`.

    `settings` is `tools` of the `open` message.
    """

    def __init__(self, questions: Questions, settings: Message) -> None:
        self.names: dict[str, str | None] = settings["names"]
        self.functions: dict[str, str] = settings.get("functions") or {}
        self._everything: bool = bool(settings.get("everything"))
        self._questions = questions

    def wants(self, name: str, *, is_plain: bool = True) -> bool:
        return name in self.names or (self._everything and is_plain)

    def make_unknown_tool_error(self, name: str, known: Iterable[str], *, expected: str) -> LoadError:
        near = suggest_name(name, list(known))
        return LoadError(f"{self.names.get(name) or 'tools'}: found {name!r}, expected {expected}{near}")

    def require_known(self, known: Iterable[str]) -> None:
        names = list(known)
        for name, place in self.names.items():
            if place is not None and name not in names:
                raise self.make_unknown_tool_error(
                    name, names, expected=f"one of the agent's tools ({', '.join(names)})"
                )

    def ask(self, tool: str, args: dict[str, Any], declaration: dict[str, Any]) -> Message:
        return self._post(tool, args, declaration).result()

    async def ask_later(self, tool: str, args: dict[str, Any], declaration: dict[str, Any]) -> Message:
        import asyncio  # already imported by a running coroutine

        return await asyncio.wrap_future(self._post(tool, args, declaration))

    def _post(self, tool: str, args: dict[str, Any], declaration: dict[str, Any]) -> Future[Message]:
        try:
            return self._questions.post(tool=tool, args=make_json_safe(args), declaration=declaration)
        except OSError as error:
            raise AgentFault(
                f"{tool} was called in a subprocess of the agent, where it can be neither simulated nor recorded",
                kind="unsupported",
            ) from error

    def report_outcome(self, answer: Message, **outcome: Any) -> None:
        if not answer.get("wants_outcome"):
            return
        response = outcome.get("response")
        problem = explain_unfit(response, "the result of the tool") or _find_json_change(
            response, "the result of the tool"
        )
        if problem is not None:
            outcome["response"], outcome["unfit"] = None, problem
        self._questions.report(answer, **outcome)


def _find_json_change(value: Any, place: str) -> str | None:
    """Return where JSON would change a value: keys that are no text become text. Tuples may become lists."""
    if isinstance(value, dict):
        odd = next((key for key in value if not isinstance(key, str)), None)
        if odd is not None:
            return f"{place} has {describe(odd)} as a key, which JSON turns into text"
        return next(
            (found for key, item in value.items() if (found := _find_json_change(item, f"{place}.{key}"))), None
        )
    if isinstance(value, (list, tuple)):
        inner = (_find_json_change(item, f"{place}[{index}]") for index, item in enumerate(value))
        return next((found for found in inner if found), None)
    return None


class MessageInbox:
    """The messages to a process of one session. Answers go to their callers, the others wait in order.

    The main thread reads them. If a question waits while it is busy, a thread is started that reads from then on.
    """

    def __init__(self, wire: Wire, questions: Questions) -> None:
        self._wire = wire
        self._questions = questions
        self._messages: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._is_main_reading = False
        self._has_thread = False
        questions.on_post = self._ensure_reader

    def receive(self) -> Message | None:
        """Return the next message that is no answer; None when the engine is gone. Called by the main thread."""
        with self._lock:
            self._is_main_reading = not self._has_thread
        if self._has_thread:
            return self._messages.get()
        while (message := self._wire.receive()) is not None and message["type"] == "answer":
            self._questions.receive(message)
        with self._lock:
            self._is_main_reading = False
            if self._questions.are_waiting:
                self._start_thread()
        return message

    def _ensure_reader(self) -> None:
        with self._lock:
            if not (self._is_main_reading or self._has_thread):
                self._start_thread()

    def _start_thread(self) -> None:
        self._has_thread = True
        with quiet:
            threading.Thread(target=self._read, name="workbench-answers", daemon=True).start()

    def _read(self) -> None:
        while (message := self._wire.receive()) is not None:
            if message["type"] == "answer":
                self._questions.receive(message)
            else:
                self._messages.put(message)
        if self._questions.are_waiting:
            os._exit(1)  # the agent's code waits for an answer that never comes
        self._messages.put(None)


# Functions that ask before they run.

_CALL, _CALL_LATER = "__workbench_call__", "__workbench_call_later__"
_MAKERS = {
    False: "def stand_in(*args, **kwargs): return {call}({number}, args, kwargs)",
    True: "async def stand_in(*args, **kwargs): return await {call}({number}, args, kwargs)",
}
_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}
_EXPECTED = "a function of the agent's own modules (name other functions as module:function)"


class _NoSession:
    """A session without intercepted tools."""


_no_session = _NoSession()
_current_session: ContextVar[Any] = ContextVar("workbench_tools", default=None)
_open: list[InterceptedCalls] = []


class InterceptedCalls:
    """The intercepted calls of one session."""

    def __init__(self, tools: InterceptedTools) -> None:
        self.tools = tools
        self._calls: list[dict[str, Any]] = []

    def note(self, call: dict[str, Any]) -> None:
        """Note that a call has ended."""
        self._calls.append(call)

    def take_calls(self) -> list[dict[str, Any]]:
        """Return the calls since the last time, in the order of their ends.

        Each has `tool`, `args`, `start`, `end` (by the performance counter), `source` (None if the tool was called),
        `response` and `error`.
        """
        calls, self._calls = self._calls, []
        return calls

    def close(self) -> None:
        """Stop intercepting for this session."""
        if self in _open:
            _open.remove(self)


class _Tool:
    """A function whose code was replaced."""

    def __init__(self, name: str, function: FunctionType, *, bound: bool) -> None:
        self.names = [name]  # several if sessions of one process use different names
        self.signature = inspect.signature(function)
        self.original = FunctionType(
            function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        self.original.__kwdefaults__ = function.__kwdefaults__
        self._bound = bound
        self.declaration = describe_function(name, function, list(self.signature.parameters.values())[bound:])

    def find_wanted_name(self, session: InterceptedCalls | None) -> str:
        """Return the name under which a session intercepts the tool; empty if it does not."""
        if session is None:
            return ""
        return next((name for name in self.names if session.tools.wants(name)), "")

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
        """Return the arguments by name, without the bound object; None if the call does not fit the signature."""
        try:
            given = self.signature.bind(*args, **kwargs)
        except TypeError:
            return None
        named: dict[str, Any] = {}
        for position, (name, value) in enumerate(given.arguments.items()):
            if self._bound and position == 0:
                continue
            if self.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                named.update(value)
            else:
                named[name] = value
        return named


_tools: list[_Tool] = []
_known: dict[int, tuple[FunctionType, _Tool]] = {}  # by id; the function is held so that the id stays unique


def open_session(tools: InterceptedTools, roots: list[str]) -> InterceptedCalls:
    """Intercept the tools of a session. Raises LoadError if one does not exist."""
    for name in dict.fromkeys((*tools.names, *tools.functions)):
        found = _find(name, tools, roots)
        if found is not None:
            _replace(name, *found)
    session = InterceptedCalls(tools)
    _open.append(session)
    return session


def forget(tools: InterceptedTools) -> None:
    """Close the session of these tools, if it was not closed."""
    for session in [session for session in _open if session.tools is tools]:
        session.close()


def enter(session: InterceptedCalls | None) -> None:
    """Assign the calls of this task or thread to a session. Needed if sessions share a process."""
    if _tools:
        _current_session.set(session or _no_session)


def _find(name: str, tools: InterceptedTools, roots: list[str]) -> tuple[FunctionType, bool] | None:
    """Return the function of a tool, and whether it is bound; None if it does not exist and need not."""
    location = tools.functions.get(name, name)
    if ":" in location:
        return _resolve_location(location, roots)
    found: dict[int, tuple[FunctionType, bool, str]] = {}
    names = set()
    for key, function, bound, place in walk_own_functions(roots):
        names.add(key)
        if key == name:
            found.setdefault(id(function), (function, bound, place))
    if len(found) > 1:
        places = " and ".join(sorted(place for _, _, place in found.values()))
        raise tools.make_unknown_tool_error(
            name, (), expected=f"a unique name: {places} share it; name the function in `tools`"
        )
    for function, bound, _ in found.values():
        return function, bound
    if tools.names.get(name) is None and name not in tools.functions:
        return None
    raise tools.make_unknown_tool_error(name, names, expected=_EXPECTED)


def _resolve_location(location: str, roots: list[str]) -> tuple[FunctionType, bool]:
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


def walk_own_functions(roots: list[str]) -> Iterator[tuple[str, FunctionType, bool, str]]:
    """Yield the functions and methods of the agent's own modules: name, function, whether it is bound, location."""
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
    function.__code__ = _compile_asking_code(len(_tools) - 1, function)


def _compile_asking_code(number: int, function: FunctionType) -> CodeType:
    """Compile code that asks first, with the same number of free variables as the function, as Python requires."""
    old = function.__code__
    is_async = bool(old.co_flags & inspect.CO_COROUTINE)
    body = _MAKERS[is_async].format(call=_CALL_LATER if is_async else _CALL, number=number)
    free = [f"_{index}" for index in range(len(old.co_freevars))]
    if free:
        head, _, rest = body.partition(":")
        body = f"def around({', '.join(free)}):\n {head}:\n  if False: {', '.join(free)}\n  {rest.strip()}"
    module = compile(body, __file__, "exec")
    code = _find_inner_code(_find_inner_code(module) if free else module)
    return code.replace(co_name=old.co_name)


def _find_inner_code(code: CodeType) -> CodeType:
    return next(item for item in code.co_consts if isinstance(item, CodeType))


class _Call:
    """One intercepted call."""

    def __init__(self, session: InterceptedCalls, tool: str, args: dict[str, Any]) -> None:
        self._session = session
        self._tool = tool
        self._args = args
        self._started = time.perf_counter()

    def apply_answer(self, answer: dict[str, Any]) -> Any:
        """Return, or raise, the answer given instead of calling the tool."""
        error = answer.get("error")
        self._note(source=answer["source"], response=answer.get("response"), error=error)
        if error is not None:
            raise faults.decode_exception(error, self._tool)
        return answer.get("response")

    def report_result(self, answer: dict[str, Any], value: Any) -> None:
        """Report that the tool was called and returned a value."""
        self._note(source=None, response=make_json_safe(value), error=None)
        self._session.tools.report_outcome(answer, response=value)

    def report_error(self, answer: dict[str, Any], error: BaseException) -> None:
        """Report that the tool was called and raised an exception."""
        encoded = faults.encode_exception(error)
        self._note(source=None, response=None, error=encoded)
        self._session.tools.report_outcome(answer, error=encoded)

    def _note(self, **outcome: Any) -> None:
        times = {"start": self._started, "end": time.perf_counter()}
        self._session.note({"tool": self._tool, "args": make_json_safe(self._args), **times, **outcome})


def _call(number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tool, session = _tools[number], _find_session()
    name, named = tool.find_wanted_name(session), tool.arguments(args, kwargs)
    if session is None or not name or named is None:
        return tool.original(*args, **kwargs)
    call = _Call(session, name, named)
    answer = session.tools.ask(name, named, tool.declaration)
    if answer["source"] is not None:
        return call.apply_answer(answer)
    try:
        value = tool.original(*args, **kwargs)
    except BaseException as error:
        call.report_error(answer, error)
        raise
    call.report_result(answer, value)
    return value


async def _call_later(number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tool, session = _tools[number], _find_session()
    name, named = tool.find_wanted_name(session), tool.arguments(args, kwargs)
    if session is None or not name or named is None:
        return await tool.original(*args, **kwargs)
    call = _Call(session, name, named)
    answer = await session.tools.ask_later(name, named, tool.declaration)
    if answer["source"] is not None:
        return call.apply_answer(answer)
    try:
        value = await tool.original(*args, **kwargs)
    except BaseException as error:
        call.report_error(answer, error)
        raise
    call.report_result(answer, value)
    return value


def _find_session() -> InterceptedCalls | None:
    """Return the session of the current call. A thread started by the agent has none, unless only one is open."""
    here = _current_session.get()
    if here is _no_session:
        return None
    if here is not None:
        return here  # type: ignore[no-any-return]
    if len(_open) > 1:
        raise AgentFault(
            "a tool was called in a thread of the agent, in a process that cases share: its case is unknown; run cases "
            "with `--isolation case`",
            kind="unsupported",
        )
    return _open[0] if _open else None


def describe_function(name: str, function: FunctionType, parameters: list[inspect.Parameter]) -> dict[str, Any]:
    """Describe a function like a tool declaration: name, docstring and parameters."""
    properties = {parameter.name: _describe_parameter(parameter) for parameter in parameters}
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
        **({} if returns is None else {"returns": _describe_annotation(returns)}),
    }


def _describe_parameter(parameter: inspect.Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    if parameter.annotation is not parameter.empty:
        kind = _JSON_TYPES.get(parameter.annotation)
        schema = {"type": kind} if kind else {"description": _describe_annotation(parameter.annotation)}
    if parameter.default is not parameter.empty and is_safe_to_show(parameter.name, parameter.default):
        schema["default"] = make_json_safe(parameter.default)
    return schema


def _describe_annotation(annotation: Any) -> str:
    return redact_annotation(annotation if isinstance(annotation, str) else inspect.formatannotation(annotation))


# Description of function agents.

_MOST_FUNCTIONS = 150  # of a project that holds more, a model would read the rest without gain


def describe_agent(function: Any, location: str, roots: list[str]) -> dict[str, Any]:
    """Describe a function agent. Only its author knows which functions are tools, so all public ones are listed."""
    while hasattr(function, "func") and hasattr(function, "keywords"):  # functools.partial
        function = function.func
    unknown: list[str] = []
    declarations = []
    for name, found, bound in _walk_public_functions(roots):
        if found is not getattr(function, "__func__", function):
            declarations.append(_describe_public_function(name, found, bound=bound))
    if len(declarations) > _MOST_FUNCTIONS:
        unknown.append(f"only the first {_MOST_FUNCTIONS} of {len(declarations)} public functions are listed")
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    part = {
        "name": location.partition(":")[2] or location,
        "type": "function",
        "description": clean_docstring(function, inspect.getdoc(function) or ""),
        "instruction": (inspect.getdoc(module) or "") if module is not None else "",
        "tools": declarations[:_MOST_FUNCTIONS],
    }
    return {"agents": [part], "unknown": unknown}


def _walk_public_functions(roots: list[str]) -> Iterator[tuple[str, FunctionType, bool]]:
    """Yield each public function once, where it is defined."""
    folders = tuple(os.path.abspath(root) + os.sep for root in roots)
    seen = set()
    for name, function, bound, place in walk_own_functions(roots):
        names = place.partition(":")[2].split(".")
        if any(part.startswith(("_", "<")) for part in (name, *names)) or id(function) in seen:
            continue
        home = getattr(sys.modules.get(function.__module__), "__file__", None) or ""
        if home.startswith(folders):  # where it is defined, with or without a decorator of a library
            seen.add(id(function))
            yield name, function, bound


def _describe_public_function(name: str, function: FunctionType, *, bound: bool) -> dict[str, Any]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
        declaration = describe_function(name, function, parameters[1:] if bound else parameters)
    except Exception:  # annotations and defaults are objects of the user's, which may do anything
        declaration = {"name": name, "description": inspect.getdoc(function)}
    return {key: value for key, value in declaration.items() if value not in ("", None)}
