"""Failures of agents: their kind and message, and exceptions of tools as data."""

from __future__ import annotations

import importlib
import os
import re
import sys

from .adapters.base import AgentFault, LoadError
from .recording import hooks
from .recording.recorder import quiet
from .recording.scope import is_workspace
from .wire import explain_unfit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator


# Missing API keys, recognised in exceptions of provider libraries.

# By library, the variables that hold its key. The text of an exception that names others counts before these.
_VARIABLES = {
    "google.genai": "GOOGLE_API_KEY or GEMINI_API_KEY",
    "google.auth": "GOOGLE_APPLICATION_CREDENTIALS",
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "groq": "GROQ_API_KEY",
    "mistralai": "MISTRAL_API_KEY",
    "cohere": "CO_API_KEY",
    "botocore": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "litellm": "",
    "langchain_google_genai": "GOOGLE_API_KEY or GEMINI_API_KEY",
    "langchain_openai": "OPENAI_API_KEY",
    "langchain_anthropic": "ANTHROPIC_API_KEY",
}
_NO_KEY = re.compile(
    r"""
    no\ api\ key\ was\ provided                   # google.genai
    | api\ key\ (or\ .{1,40}\ )?must\ be\ set     # google.genai on Vertex AI
    | default\ credentials\ were\ not\ found      # google.auth
    | missing\ credentials                        # openai
    | api_key\ client\ option\ must\ be\ set      # openai, groq
    | could\ not\ resolve\ authentication\ method # anthropic
    | unable\ to\ locate\ credentials             # botocore
    | missing\ [\w ]*api\ key                     # litellm
    | api\ ?key\ (is\ )?required                  # litellm, langchain_google_genai
    | \w_API_KEY\ is\ not\ set                    # litellm
    """,
    re.IGNORECASE | re.VERBOSE,
)
_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9_]*_API_KEY\b")
_LONGEST_TEXT = 1_000  # characters; LiteLLM adds tracebacks


def describe_missing_key(error: BaseException) -> str | None:
    """Return what to do if this exception says that a model has no API key; None for any other exception.

    Only exceptions from libraries of model providers count. The same words from the agent's own code do not.
    """
    library = _find_library(error)
    if library is None:
        return None
    try:
        text = str(error)[:_LONGEST_TEXT]
    except Exception:
        return None
    if _NO_KEY.search(text) is None:
        return None
    names = " or ".join(dict.fromkeys(_VARIABLE.findall(text))) or _VARIABLES[library] or "the variable of the provider"
    return f"{library} finds no key: set {names} in the environment or in the agent's .env"


def _find_library(error: BaseException) -> str | None:
    """Return the provider library whose code raised the exception, or None."""
    entry = error.__traceback__
    if entry is None:
        return None
    while entry.tb_next is not None:
        entry = entry.tb_next
    module = entry.tb_frame.f_globals.get("__name__")
    parts = module.split(".") if isinstance(module, str) else []
    return next((name for name in (".".join(parts[:2]), *parts[:1]) if name in _VARIABLES), None)


# Exceptions of the agent for people: kind, one sentence, and the traceback without our frames.

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_LONGEST_TRACEBACK = 32_768  # characters; the end is kept
_LONGEST_MESSAGE = 4_096

# By name, because the worker must not import the libraries that define them.
_INFRASTRUCTURE_NAMES = frozenset(
    (  # noqa: SIM905 - a table of 35 quoted names would be a page
        "ResourceExhausted ServiceUnavailable TooManyRequests DeadlineExceeded GatewayTimeout "  # google.api_core
        "BadGateway InternalServerError "
        "ServerError RateLimitError APIConnectionError APITimeoutError OverloadedError "  # model clients
        "ConnectError ConnectTimeout ReadTimeout WriteTimeout PoolTimeout ReadError WriteError "  # httpx
        "RemoteProtocolError ConnectionTimeout ChunkedEncodingError Timeout "  # httpx, requests
        "ClientConnectorError ServerDisconnectedError ServerTimeoutError ClientOSError ClientPayloadError "  # aiohttp
        "NewConnectionError MaxRetryError ProtocolError ReadTimeoutError ConnectTimeoutError "  # urllib3
        "TransportError gaierror IncompleteRead"  # google.auth, socket, http.client
    ).split()
)
_CLIENT_MODULES = (
    "google", "httpx", "httpcore", "httpx2", "httpcore2", "requests", "aiohttp", "urllib3", "http", "openai",
    "anthropic", "litellm", "grpc", "socket", "botocore", "mistralai", "cohere", "groq",
)  # fmt: skip
_TRANSIENT_GRPC = ("RESOURCE_EXHAUSTED", "UNAVAILABLE", "DEADLINE_EXCEEDED")


def describe_failure(error: BaseException, *, loading: bool = False, raised_by: str = "the agent") -> dict[str, Any]:
    """Build the `failed` message for an exception of the agent, or of `raised_by`. `loading`: raised during import."""
    if isinstance(error, LoadError):
        cause = error.__cause__
        traceback = _format_traceback(cause) if cause else None
        return {"kind": "setup", "message": cut_addresses(str(error)), "traceback": traceback}
    if isinstance(error, AgentFault):
        return {"kind": error.kind, "message": cut_addresses(str(error)), "traceback": None}
    if isinstance(error, SystemExit):
        when = " while it was imported" if loading else ""
        message = (
            f"{raised_by} called sys.exit({'' if error.code is None else repr(error.code)}){when}{_find_place(error)}"
        )
        return {"kind": "setup" if loading else "agent", "message": message, "traceback": _format_traceback(error)}
    missing = _describe_missing_key(error)
    if missing is not None:
        return {"kind": "setup", "message": missing + _find_place(error), "traceback": _format_traceback(error)}
    kind = "infrastructure" if is_infrastructure(error) else "setup" if loading else "agent"
    return {"kind": kind, "message": summarize(error) + _find_place(error), "traceback": _format_traceback(error)}


def _describe_missing_key(error: BaseException) -> str | None:
    """Return what to do if the agent's model has no key; includes the exception if the missing key caused it."""
    for item in _walk_chain(error):
        missing = describe_missing_key(item)
        if missing is not None:
            return missing if item is error else f"{missing}; then {summarize(error)}"
    return None


def _find_place(error: BaseException) -> str:
    """Return where the user's own code raised, as ` (agent.py:12)`; empty outside a worker and for other code."""
    if hooks.get_recorder() is None:
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


_OBJECT = re.compile(r" at 0x[0-9a-fA-F]+>")
"""The address of an object in its text, which differs in each run."""


def cut_addresses(text: str) -> str:
    """Cut the addresses from objects as Python writes them: `<Thing object at 0x7f…>` differs in each process."""
    return _OBJECT.sub(">", text)


def summarize(error: BaseException) -> str:
    name = type(error).__qualname__
    try:
        text = str(error).strip()
    except Exception:  # the agent's own __str__
        text = "(its text is not available)"
    text = cut_addresses(text)
    if isinstance(error, ImportError) and "relative import" in text:
        text += _explain_relative_import(error)
    elif isinstance(error, ModuleNotFoundError) and error.name and not _is_of_project(error.name):
        text += f". {explain_interpreter(os.getcwd())}"
    return f"{name}: {text}"[:_LONGEST_MESSAGE] if text else name


def _is_of_project(module: str) -> bool:
    """True if the first part of a missing module is a folder or file of the project, so that nothing is installed."""
    first = module.partition(".")[0]
    return os.path.isdir(first) or os.path.isfile(f"{first}.py")


def explain_interpreter(folder: str) -> str:
    """Name the interpreter in use, and the line that gives it the packages of the project around a folder."""
    sentence, place = f"The interpreter is {sys.executable}", folder
    while True:
        environment = os.path.join(place, ".venv")
        locks = [name for name in ("uv.lock", "poetry.lock") if os.path.isfile(os.path.join(place, name))]
        pythons = [os.path.join(environment, *path) for path in (("bin", "python"), ("Scripts", "python.exe"))]
        python = next(filter(os.path.isfile, pythons), pythons[0])
        is_own = os.path.realpath(environment) == os.path.realpath(sys.prefix)
        if os.path.isfile(python) and not is_own:
            return f'{sentence}; the project has its own: set python = "{python}" for the target in workbench.toml'
        if "uv.lock" in locks:
            more = "" if is_own else f', and set python = "{python}" for the target in workbench.toml'
            return f"{sentence}; run `uv sync` in {place}{more}"
        if "poetry.lock" in locks:
            return (
                f"{sentence}; run `poetry install` in {place}, and set python to what `poetry env info --executable` "
                "prints, for the target in workbench.toml"
            )
        above = os.path.dirname(place)
        if above == place or os.path.isdir(os.path.join(place, ".git")):
            return f"{sentence}; `{sys.executable} -m pip install` adds packages to it"
        place = above


def _explain_relative_import(error: ImportError) -> str:
    """Name the module, its import root and the way out."""
    entry, module, path = error.__traceback__, "", ""
    while entry is not None:
        frame = entry.tb_frame
        if not frame.f_code.co_filename.startswith("<frozen"):
            module, path = frame.f_globals.get("__name__", ""), frame.f_code.co_filename
        entry = entry.tb_next
    if not module or not os.path.isabs(path):
        return ""
    root = path
    for _ in module.split("."):
        root = os.path.dirname(root)
    return (
        f": {module} is imported from {root}, and its import leads above that folder. Import from that folder instead, "
        "without leading dots. Or make it a package: an `__init__.py` in it, and as `path` of the target the folder "
        f"above it; the `target` of a function then begins with `{os.path.basename(root)}.`"
    )


def is_infrastructure(error: BaseException) -> bool:
    """Return True if an exception is, or was caused by, a 429, a 408, a 5xx, or a failed connection."""
    return any(_is_transient(item) for item in _walk_chain(error))


def _walk_chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the exception, its causes and contexts, and the members of groups."""
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
    status = _find_status(error)
    if status is not None:
        return status in (408, 429) or 500 <= status <= 599
    kind = type(error)
    return kind.__name__ in _INFRASTRUCTURE_NAMES and kind.__module__.split(".")[0] in _CLIENT_MODULES


def _find_status(error: BaseException) -> int | None:
    """Return the HTTP status of an exception, under any usual name. Transient gRPC codes count as 503."""
    sources = (error, getattr(error, "response", None))
    for source in sources:
        for name in ("status_code", "code", "status", "http_status"):
            try:
                value = getattr(source, name, None)
                value = value() if callable(value) else value
            except Exception:  # a property may raise
                continue
            if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599:
                return int(value)
            if getattr(value, "name", value) in _TRANSIENT_GRPC:
                return 503
    return None


def _format_traceback(error: BaseException) -> str:
    import traceback

    with quiet:  # sources are read only to be shown
        details = traceback.TracebackException(type(error), error, error.__traceback__, compact=True)
        _remove_our_frames(details, traceback)
        text = "".join(details.format())
    return text if len(text) <= _LONGEST_TRACEBACK else "[...]\n" + text[-_LONGEST_TRACEBACK:]


def _remove_our_frames(details: Any, traceback: Any) -> None:
    waiting, seen = [details], set()
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
    """Return True for frames of the event loop and of thread pools between us and the agent."""
    folder = os.path.dirname(os.__file__) + os.sep
    return filename.startswith(tuple(folder + name for name in ("asyncio", "concurrent", "threading", "importlib")))


# Exceptions of tools as data, so that a replayed call raises what the recorded call raised.


def encode_exception(error: BaseException) -> dict[str, Any]:
    """Encode an exception so that it can be raised again: its class, arguments and attributes.

    If these are not JSON, only the `text` is kept.
    """
    kind = type(error)
    data: dict[str, Any] = {"text": summarize(error)}
    parts = {"args": list(error.args), "state": dict(vars(error))}
    if explain_unfit(parts, "") is None:
        data.update(parts, type=f"{kind.__module__}:{kind.__qualname__}")
    return data


def decode_exception(data: dict[str, Any], tool: str) -> BaseException:
    """Return the exception that `encode_exception` encoded; an AgentFault if it cannot be created any more."""
    module, _, name = str(data.get("type", "")).partition(":")
    try:
        kind: Any = importlib.import_module(module)
        for part in name.split("."):
            kind = getattr(kind, part)
        error: BaseException = kind.__new__(kind, *data["args"])
        error.args = tuple(data["args"])
        vars(error).update(data["state"])
    except Exception as problem:  # the agent's class may have changed
        text = data.get("text", "an exception")
        return AgentFault(
            f"{tool} raised {text} when its calls were recorded, which cannot be raised again: {summarize(problem)}",
            kind="unsupported",
        )
    return error
