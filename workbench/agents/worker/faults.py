"""What went wrong in an agent, and exceptions as they travel."""

from __future__ import annotations

import importlib
import os

from .adapters.base import AgentFault, LoadError
from .missing_keys import describe_missing_key
from .recording import hooks
from .recording.recorder import quiet
from .recording.scope import is_workspace
from .wire import unfit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, Optional


# Exceptions of the agent, told to people: what kind of failure, one sentence, and the traceback without our frames.

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_LONGEST_TRACEBACK = 32_768  # characters, the end counts
_LONGEST_MESSAGE = 4_096

# By name, because the worker must not import the libraries that define them.
_INFRASTRUCTURE_NAMES = frozenset(
    (  # noqa: SIM905 - a table of 35 quoted names would be a page
        "ResourceExhausted ServiceUnavailable TooManyRequests DeadlineExceeded GatewayTimeout "  # google.api_core
        "BadGateway InternalServerError "
        "ServerError RateLimitError APIConnectionError APITimeoutError OverloadedError "  # model clients
        "ConnectError ConnectTimeout ReadTimeout WriteTimeout PoolTimeout ReadError WriteError "  # httpx
        "RemoteProtocolError ConnectionTimeout ChunkedEncodingError Timeout "  # httpx, requests
        "ClientConnectorError ServerDisconnectedError ServerTimeoutError ClientOSError "  # aiohttp
        "NewConnectionError MaxRetryError ProtocolError ReadTimeoutError ConnectTimeoutError "  # urllib3
        "TransportError gaierror"  # google.auth, socket
    ).split()
)
_CLIENT_MODULES = (
    "google", "httpx", "httpcore", "requests", "aiohttp", "urllib3", "openai", "anthropic", "litellm", "grpc",
    "socket", "botocore", "mistralai", "cohere", "groq",
)  # fmt: skip
_TRANSIENT_GRPC = ("RESOURCE_EXHAUSTED", "UNAVAILABLE", "DEADLINE_EXCEEDED")


def describe_failure(error: BaseException, *, loading: bool = False, raised_by: str = "the agent") -> Dict[str, Any]:
    """The `failed` message for what an agent, or whatever `raised_by` is, raised; `loading` while it was imported."""
    if isinstance(error, LoadError):
        cause = error.__cause__
        return {"kind": "setup", "message": str(error), "traceback": _traceback(cause) if cause else None}
    if isinstance(error, AgentFault):
        return {"kind": error.kind, "message": str(error), "traceback": None}
    if isinstance(error, SystemExit):
        when = " while it was imported" if loading else ""
        message = f"{raised_by} called sys.exit({'' if error.code is None else repr(error.code)}){when}{_place(error)}"
        return {"kind": "setup" if loading else "agent", "message": message, "traceback": _traceback(error)}
    missing = _describe_missing_key(error)
    if missing is not None:
        return {"kind": "setup", "message": missing + _place(error), "traceback": _traceback(error)}
    kind = "infrastructure" if is_infrastructure(error) else "setup" if loading else "agent"
    return {"kind": kind, "message": summary(error) + _place(error), "traceback": _traceback(error)}


def _describe_missing_key(error: BaseException) -> Optional[str]:
    """What to do if the model of the agent has no key; with the exception itself if the missing key only led to it."""
    for item in _chain(error):
        missing = describe_missing_key(item)
        if missing is not None:
            return missing if item is error else f"{missing}; then {summary(error)}"
    return None


def _place(error: BaseException) -> str:
    """Where in the user's own code it was raised, as ` (agent.py:12)`; empty outside a worker, and for other code."""
    if hooks.active() is None:
        return ""
    place = ""
    try:
        here = os.getcwd() + os.sep
    except OSError:  # removed by the agent
        here = os.sep
    entry = error.__traceback__
    while entry is not None:
        path = entry.tb_frame.f_code.co_filename
        if os.path.isabs(path) and not _is_ours(path) and is_workspace(path):
            place = f" ({path[len(here) :] if path.startswith(here) else path}:{entry.tb_lineno})"
        entry = entry.tb_next
    return place


def summary(error: BaseException) -> str:
    """Type and text of an exception."""
    name = type(error).__qualname__
    try:
        text = str(error).strip()
    except Exception:  # the agent's own __str__
        text = "(its text cannot be had)"
    return f"{name}: {text}"[:_LONGEST_MESSAGE] if text else name


def is_infrastructure(error: BaseException) -> bool:
    """Whether an exception is, or was caused by, a 429, a 408, a 5xx, or a connection that failed."""
    return any(_is_transient(item) for item in _chain(error))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception, what it was raised from or while handling, and what groups hold."""
    waiting, seen = [error], set()
    while waiting:
        item = waiting.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        yield item
        context = None if item.__suppress_context__ else item.__context__
        children = getattr(item, "exceptions", None)
        nested = children if isinstance(children, (tuple, list)) else ()
        waiting += [other for other in (item.__cause__, context, *nested) if isinstance(other, BaseException)]


def _is_transient(error: BaseException) -> bool:
    if isinstance(error, (ConnectionError, BrokenPipeError)):
        return True
    if isinstance(error, TimeoutError):  # also socket.timeout; asyncio's own from 3.11 on
        return True
    status = _status(error)
    if status is not None:
        return status in (408, 429) or 500 <= status <= 599
    kind = type(error)
    return kind.__name__ in _INFRASTRUCTURE_NAMES and kind.__module__.split(".")[0] in _CLIENT_MODULES


def _status(error: BaseException) -> Optional[int]:
    """The HTTP status an exception carries, under any of the usual names. Of gRPC codes only what is passing: 503."""
    sources = (error, getattr(error, "response", None))
    for source in sources:
        for name in ("status_code", "code", "status", "http_status"):
            try:
                value = getattr(source, name, None)
                value = value() if callable(value) else value
            except Exception:  # a property of the agent's exception
                continue
            if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599:
                return int(value)
            if getattr(value, "name", value) in _TRANSIENT_GRPC:
                return 503
    return None


def _traceback(error: BaseException) -> str:
    import traceback

    with quiet:  # the sources are only read to be shown
        told = traceback.TracebackException(type(error), error, error.__traceback__, compact=True)
        _without_our_frames(told, traceback)
        text = "".join(told.format())
    return text if len(text) <= _LONGEST_TRACEBACK else "[...]\n" + text[-_LONGEST_TRACEBACK:]


def _without_our_frames(told: Any, traceback: Any) -> None:
    waiting, seen = [told], set()
    while waiting:
        item = waiting.pop()
        if item is None or id(item) in seen:
            continue
        seen.add(id(item))
        kept = [frame for frame in item.stack if not _is_ours(frame.filename)]
        while kept and _is_plumbing(kept[0].filename):
            del kept[0]
        item.stack = traceback.StackSummary.from_list(kept)
        waiting += [item.__cause__, item.__context__, *(getattr(item, "exceptions", None) or ())]


def _is_ours(filename: str) -> bool:
    return filename.startswith((_HERE, "<frozen importlib"))


def _is_plumbing(filename: str) -> bool:
    """Frames of the event loop and of thread pools that stand between us and the agent."""
    folder = os.path.dirname(os.__file__) + os.sep
    return filename.startswith(tuple(folder + name for name in ("asyncio", "concurrent", "threading", "importlib")))


# Exceptions of tools as data, and back: what a tool raised once is raised again where its calls are replayed.


def as_data(error: BaseException) -> Dict[str, Any]:
    """What is needed to raise the same: where its class is, its arguments and its attributes.

    Where those are no JSON there are none, only the `text`.
    """
    kind = type(error)
    data: Dict[str, Any] = {"text": summary(error)}
    parts = {"args": list(error.args), "state": dict(vars(error))}
    if unfit(parts, "") is None:
        data.update(parts, type=f"{kind.__module__}:{kind.__qualname__}")
    return data


def made_of(data: Dict[str, Any], tool: str) -> BaseException:
    """The exception that `as_data` told of; AgentFault where it cannot be made any more."""
    module, _, name = str(data.get("type", "")).partition(":")
    try:
        kind: Any = importlib.import_module(module)
        for part in name.split("."):
            kind = getattr(kind, part)
        error: BaseException = kind.__new__(kind, *data["args"])
        error.args = tuple(data["args"])
        vars(error).update(data["state"])
    except Exception as problem:  # whatever becomes of a class of the agent's
        text = data.get("text", "an exception")
        return AgentFault(
            f"{tool} raised {text} when its calls were recorded, which cannot be raised again: {summary(problem)}",
            kind="unsupported",
        )
    return error
