"""Interception of model calls: what the agent sends to models, and what it gets back. See PROTOCOL.md, Models.

HTTP clients are wrapped where requests enter them (`model_clients.py`). The engine decides about each call. Either it
has the answer, or the agent's own client makes the call as always, and a copy of each chunk goes to the engine when the
answer has ended. Frameworks whose models have an interface of their own are wrapped there by their adapter; what such a
model sends is then part of its call.

Calls of gRPC are only announced: their messages are objects of the classes of each service, which are no data.
"""

from __future__ import annotations

import base64
import codecs
import contextlib
import functools
import hashlib
import importlib
import json
import re
import time
import uuid
from contextvars import ContextVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from .adapters.base import AgentFault
from .recording.recorder import quiet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, Iterator

    from .adapters.base import Adapter
    from .tool_interception import Questions

    Message = dict[str, Any]


# The intercepted calls of sessions.


class InterceptedModels:
    """The model calls of one session. Any thread may call its methods.

    `settings` is `models` of the `open` message: `endpoints`, the expressions that addresses of models match, and
    `own_models`, whether models whose code is the agent's own are intercepted as well, and `optional`, whether a
    program may ask its models without the proxy where it cannot run. `may_ask`: calls that are not recorded are made.
    """

    def __init__(self, questions: Questions, settings: Message, adapter: Adapter) -> None:
        self.adapter = adapter
        self.own_models: bool = bool(settings.get("own_models"))
        self.is_optional: bool = bool(settings.get("optional"))
        self.may_ask: bool = bool(settings.get("may_ask", True))
        self._questions = questions
        self._expressions: list[str] = settings["endpoints"]

    def covers(self, method: str, url: str, body: Any = None) -> bool:
        """True for a request to a model: by its address, or by what it says."""
        if any(each.search(url) for each in _compile(tuple(self._expressions))):
            return True
        return method.upper() == "POST" and _classify(url, body) == _CERTAIN

    def concerns(self, method: str, url: str, body: Any = None) -> bool:
        """True for a request to a model, and for one that looks so."""
        return self.covers(method, url, body) or (method.upper() == "POST" and _classify(url, body) == _LIKELY)

    def describe(self, request: Request, body: Any = None) -> Message:
        """Return a request as the engine gets it. `body` is that of a request whose client is not covered."""
        is_covered = self.covers(request.method, request.url, request.body if body is None else body)
        return request.describe() if is_covered else {**request.describe(), "is_likely": True}

    def ask(self, call: Message) -> Message:
        """Request a decision about a call; blocks."""
        answer: Message = self._post(call).result()
        return answer

    async def ask_later(self, call: Message) -> Message:
        """Request a decision about a call, in a coroutine."""
        import asyncio  # already imported by a running coroutine

        return await asyncio.wrap_future(self._post(call))

    def _post(self, call: Message) -> Any:
        try:
            return self._questions.post(model=call)
        except OSError as error:
            raise AgentFault(
                "a model was called in a subprocess of the agent, where it can be neither recorded nor replayed; run "
                "with --models live",
                kind="unsupported",
            ) from error

    def report(self, answer: Message, outcome: Message) -> None:
        """Report the outcome of a call that was made, if the engine wants it."""
        if answer.get("wants_outcome"):
            with contextlib.suppress(OSError):  # the engine is gone, and this process soon
                self._questions.report(answer, model=outcome)


@functools.cache
def _compile(expressions: tuple[str, ...]) -> list[re.Pattern[str]]:
    """Compile expressions. Many agents never send a request, so this is not done before the first one."""
    return [re.compile(each, re.IGNORECASE) for each in expressions]


_current: ContextVar[InterceptedModels | None] = ContextVar("workbench_models", default=None)
_call: ContextVar[dict[str, bool] | None] = ContextVar("workbench_model_call", default=None)
_open: list[InterceptedModels] = []


def open_session(models: InterceptedModels) -> None:
    """Intercept the calls of a session."""
    _open.append(models)


def forget(models: InterceptedModels) -> None:
    """Stop intercepting for a session."""
    if models in _open:
        _open.remove(models)


def enter(models: InterceptedModels | None) -> None:
    """Assign the calls of this task to a session. Needed if sessions share a process."""
    if _open:
        _current.set(models)


def find_session(url: str | None = None, *, method: str = "POST", body: Any = None) -> InterceptedModels | None:
    """Return the session of the current call; None if it is not intercepted, or part of one that is.

    `url`, `method` and `body` are those of a request; without an address, the call is one of a model. A thread started
    by the agent has no session of its own: the only open one is taken.
    """
    if not _open or _is_inside() or (url is not None and not _open[0].concerns(method, url, body)):
        return None
    here = _current.get()
    if here is not None:
        return here if here in _open else None
    if len(_open) > 1:
        raise AgentFault(
            "a model was called in a thread of the agent, in a process that cases share: its case is unknown; run "
            "cases with `--isolation case`, or with `--models live`",
            kind="unsupported",
        )
    return _open[0]


@contextlib.contextmanager
def inside_call() -> Iterator[None]:
    """Within this, calls are part of one that is intercepted already; so are those of tasks that start within it."""
    call = {"is_running": True}
    token = _call.set(call)
    try:
        yield
    finally:
        call["is_running"] = False  # a task that began within it may live longer
        _call.reset(token)


def carry_call(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function for another thread: what it asks is part of the current intercepted call, or of none."""
    call = _call.get()

    @functools.wraps(function)
    def run_inside(*args: Any, **options: Any) -> Any:
        token = _call.set(call)
        try:
            return function(*args, **options)
        finally:
            _call.reset(token)

    return run_inside


def _is_inside() -> bool:
    call = _call.get()
    return call is not None and call["is_running"]


# Requests to models at addresses that are not known: by the end of their path and by what they say.

_CERTAIN, _LIKELY = "certain", "likely"
_PROMPTS = ("messages", "prompt", "contents", "input", "inputs", "texts")
_MODEL_PATH = re.compile(
    r"/(chat|completions?|responses|messages|generate(_stream)?|embed(dings)?|invoke|invocations|converse(-stream)?)"
    r"/?(\?|$)",
    re.IGNORECASE,
)
_PATH_WITHOUT_MODEL = re.compile(
    r"(/(api/(chat|generate)|generate(_stream)?|completions?|invocations)/?"
    r"|/model/[^/]+/(converse(-stream)?|invoke(-with-response-stream)?)|:(rawPredict|streamRawPredict))(\?|$)",
    re.IGNORECASE,
)


def _classify(url: str, body: Any) -> str | None:
    """Return how sure it is that a request asks a model; None if nothing says so."""
    needs_no_model = _PATH_WITHOUT_MODEL.search(url) is not None
    found = _parse_object(body, is_likely=needs_no_model)
    if found is None or not any(isinstance(found.get(key), (str, list)) for key in _PROMPTS):
        return None
    if not isinstance(found.get("model"), str):
        return _LIKELY if needs_no_model else None
    messages = found.get("messages")
    has_roles = isinstance(messages, list) and any(isinstance(each, dict) and "role" in each for each in messages)
    return _CERTAIN if has_roles or _MODEL_PATH.search(url) else _LIKELY


def _parse_object(body: Any, *, is_likely: bool) -> Message | None:
    """Return a body that is a JSON object; None for others. Those of tools are not parsed."""
    if isinstance(body, dict):
        return body
    data = body.encode() if isinstance(body, str) else body
    if not isinstance(data, bytes) or not (is_likely or b'"model"' in data):
        return None
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(data)
        return found if isinstance(found, dict) else None
    return None


# Requests and answers as data, without credentials.

_CREDENTIAL = re.compile(r"auth|cookie|key|token|secret|signature|password|credential|^sig$|^x-amz-", re.IGNORECASE)
_SEPARATORS = re.compile(r"[\s;,=\"]+")
_PARAMETER = re.compile(r"(?<![^\s;,])[A-Za-z_-]{1,20}=(?=[^\s;,=])")  # its name: `session=` of a cookie
_SCHEME = re.compile(r"[A-Za-z][A-Za-z-]*\s+(?=\S)")  # of the header Authorization: `Bearer `
_AWS_CREDENTIAL = re.compile(r"\b(?:Credential|Signature)=([^\s,/]+)([^\s,]*)")
_SHORTEST_CREDENTIAL = 8  # shorter values occur in other texts
_SHORTEST_WORD = 12  # of letters only: `anything` is no key, but what is sent to a local server that needs none
_HIDDEN = "[redacted]"
_KEPT_HEADERS = frozenset({"content-type", "retry-after", "retry-after-ms", "x-should-retry"})


class Request:
    """A request of an HTTP client. `credentials` are the values that are replaced in everything that is recorded."""

    def __init__(self, method: str, url: str, headers: Iterable[tuple[str, Any]], body: Any) -> None:
        headers = list(headers)
        parts = urlsplit(url)
        query = parse_qsl(parts.query, keep_blank_values=True)
        found = [
            *((_as_text(name), _as_text(value)) for name, value in headers),
            *query,
            *(("password", value) for value in (parts.username, parts.password) if value),
        ]
        pieces = {piece for name, value in found if _CREDENTIAL.search(name) for piece in _list_pieces(name, value)}
        self.credentials = sorted(
            {form for each in pieces if not _is_word(each) for form in (each, quote(each, safe=""))},
            key=len,
            reverse=True,
        )
        place = _bracket(parts.hostname or "") + (f":{parts.port}" if parts.port else "")
        kept = sorted((name, value) for name, value in query if not _CREDENTIAL.search(name))
        self.method = method.upper()
        self.url = self.hide(urlunsplit((parts.scheme, place, parts.path, urlencode(kept), "")))
        self.body = self._read_body(body, _find_boundary(headers))

    def describe(self) -> Message:
        """Return the request as the engine gets it."""
        return {"method": self.method, "url": self.url, "body": self.body}

    def hide(self, text: str) -> str:
        """Replace the credentials of the request in a text."""
        for each in self.credentials:
            text = text.replace(each, _HIDDEN)
        return text

    def _read_body(self, body: Any, boundary: bytes) -> Any:
        if body is None or body in (b"", ""):
            return None
        if not isinstance(body, (bytes, str)):  # a file or a form, which can be read once: never the same as another
            return {"unreadable": type(body).__name__, "id": uuid.uuid4().hex}
        data = body.encode() if isinstance(body, str) else body
        if boundary:  # of a form: random text
            data = data.replace(boundary, b"boundary")
        try:
            text = self.hide(data.decode())
        except UnicodeDecodeError:
            return {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
        try:
            return json.loads(text)
        except ValueError:
            return text


def _list_pieces(name: str, value: str) -> list[str]:
    """Return a value with a credential, and the parts of it that may be one: neither a scheme nor names."""
    if value.startswith("AWS4-"):
        return [value, *(part for found in _AWS_CREDENTIAL.findall(value) for part in (found[0], "".join(found)))]
    is_authorization = name.lower().endswith("authorization")
    parameters = _SCHEME.sub("", value, count=1) if is_authorization and _SCHEME.match(value) else value
    return [value, *_SEPARATORS.split(_PARAMETER.sub("", parameters))]


def _is_word(piece: str) -> bool:
    """True for a text that others contain by chance."""
    is_plain = piece.replace("-", "").replace("_", "").isalpha()
    return len(piece) < (_SHORTEST_WORD if is_plain else _SHORTEST_CREDENTIAL)


def _find_boundary(headers: Iterable[tuple[str, Any]]) -> bytes:
    """Return the text between the parts of a form; empty if the body is none."""
    for name, value in headers:
        if _as_text(name).lower() == "content-type" and _as_text(value).lower().startswith("multipart/"):
            return _as_text(value).partition("boundary=")[2].partition(";")[0].strip('"').encode()
    return b""


def _bracket(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _as_text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


class Copy:
    """The copy of an answer while it arrives. It is reported once: at its end, or where the agent stopped reading."""

    def __init__(self, models: InterceptedModels, answer: Message, request: Request) -> None:
        self._models = models
        self._answer = answer
        self._request = request
        self._started = time.perf_counter()
        self._chunks: list[tuple[float, bytes, bool]] = []
        self._encoding = ""
        self._is_reported = False
        self._status = 0
        self._headers: dict[str, str] = {}

    def __enter__(self) -> Copy:
        return self

    def __exit__(self, _kind: Any, error: BaseException | None, _traceback: Any) -> None:
        """Report an error: there is no answer."""
        if error is not None and not self._is_reported:
            self._is_reported = True
            self._report({"error": self._request.hide(f"{type(error).__name__}: {error}")})

    def begin(self, status: int, headers: Iterable[tuple[str, Any]]) -> None:
        """Take the head of the answer."""
        named = {_as_text(name).lower(): _as_text(value) for name, value in headers}
        self._status = status
        self._headers = {name: self._request.hide(named[name]) for name in sorted(_KEPT_HEADERS & named.keys())}
        self._encoding = named.get("content-encoding", "").strip().lower()

    def add(self, chunk: bytes, *, is_decoded: bool = False) -> None:
        """Take the next chunk. `is_decoded`: the client has decompressed it."""
        if chunk and not self._is_reported:
            self._chunks.append((time.perf_counter() - self._started, bytes(chunk), is_decoded))

    def end(self, *, cut: bool = False) -> None:
        """Report the answer. `cut`: the agent did not read all of it, or not the end of a stream."""
        if self._is_reported:
            return
        self._is_reported = True
        try:
            with quiet:
                chunks = self._encode_chunks()
        except Exception as error:  # an encoding that is unknown here must not disturb the agent
            self._report({"error": f"the answer could not be copied: {type(error).__name__}: {error}"})
            return
        outcome: Message = {"status": self._status, "headers": self._headers, "chunks": chunks}
        self._report({**outcome, "cut": True} if cut and not _has_ended(chunks) else outcome)

    def _report(self, outcome: Message) -> None:
        seconds = round(time.perf_counter() - self._started, 6)
        self._models.report(self._answer, {**outcome, "seconds": seconds})

    def _encode_chunks(self) -> list[Any]:
        """Encode the chunks without credentials. Chunks do not end inside a character; one of bytes is Base64."""
        decode = None if all(is_decoded for _, _, is_decoded in self._chunks) else _make_decoder(self._encoding)
        chunks = [
            (when, chunk if is_decoded or decode is None else decode(chunk)) for when, chunk, is_decoded in self._chunks
        ]
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            texts = [(round(when, 4), decoder.decode(chunk)) for when, chunk in chunks]
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:  # a picture
            data = b"".join(chunk for _, chunk in chunks)
            for each in self._request.credentials:
                data = data.replace(each.encode(), _HIDDEN.encode())
            return [[round(chunks[-1][0], 4), {"base64": base64.b64encode(data).decode()}]]
        whole = "".join(text for _, text in texts)
        hidden = self._request.hide(whole)
        if hidden != whole:  # a credential may begin in one chunk and end in another
            return [[texts[-1][0], hidden]]
        return [[when, text] for when, text in texts if text]


_LAST_EVENTS = ("[DONE]", '"message_stop"', '"response.completed"', '"response.incomplete"', '"response.failed"')
_TAIL = 100_000  # characters: the last event of a stream may repeat the whole answer


def _has_ended(chunks: list[Any]) -> bool:
    """True if the last event of a stream has come: many clients read no further."""
    text = "".join(chunk for _, chunk in chunks if isinstance(chunk, str))[-_TAIL:]
    last = text.rstrip().rpartition("data:")[2]
    return any(each in last for each in _LAST_EVENTS)


def _make_decoder(encoding: str) -> Callable[[bytes], bytes]:
    """Return what decodes the chunks of a compressed answer, one after the other. Raises an error if nothing does."""
    if encoding in ("", "identity"):
        return bytes
    if encoding in ("gzip", "x-gzip", "deflate"):
        import zlib

        return zlib.decompressobj(zlib.MAX_WBITS | 32).decompress
    if encoding == "br":  # the client only accepts what is installed
        with contextlib.suppress(ImportError):
            return importlib.import_module("brotli").Decompressor().process  # type: ignore[no-any-return]
        return importlib.import_module("brotlicffi").Decompressor().decompress  # type: ignore[no-any-return]
    if encoding == "zstd":
        return importlib.import_module("zstandard").ZstdDecompressor().decompressobj().decompress  # type: ignore[no-any-return]
    raise ValueError(f"the encoding {encoding!r} is unknown")


class Replayed:
    """A recorded answer: what a client makes its own response of."""

    def __init__(self, answer: Message) -> None:
        response = answer["response"]
        self.status: int = response["status"]
        self.headers: dict[str, str] = dict(response["headers"])
        self.chunks = [_decode_chunk(chunk) for _, chunk in response["chunks"]]

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)


def _decode_chunk(chunk: Any) -> bytes:
    return chunk.encode() if isinstance(chunk, str) else base64.b64decode(chunk["base64"])
