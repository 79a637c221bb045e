"""Wrappers of clients: `send` of httpx and httpx2, `urlopen` of urllib3 (under requests and botocore), aiohttp.

Calls of gRPC and of `http.client` are only announced: they are never replayed, but never made unnoticed either.
Threads are wrapped too, because a model of a framework may ask its service in one.

A module that is imported later is wrapped at the end of its import. A client that is already wrapped stays so.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from urllib.parse import urlencode

from . import model_interception
from .adapters.base import AgentFault
from .model_interception import Copy, InterceptedModels, Replayed, Request, carry_call, find_session, inside_call
from .recording.recorder import quiet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, AsyncIterator, Callable, Iterator

    Message = dict[str, Any]


def open_session(models: InterceptedModels) -> None:
    """Intercept the calls of a session."""
    if not models.adapter.is_outside:
        with quiet:
            _wrap_clients()
    model_interception.open_session(models)


def _wrap_clients() -> None:
    """Wrap all clients that are imported, now or later. Can be called again."""
    if any(isinstance(finder, _LateImports) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _LateImports())
    for name, wrap in _WRAPPERS.items():
        module = sys.modules.get(name)
        if module is not None:
            wrap(module)


class _LateImports:
    """A finder that finds nothing: it wraps clients whose modules are imported later."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the spec of a client's module with a loader that wraps it; None for all others."""
        wrap = _WRAPPERS.get(name)
        if wrap is None:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            found = None if find is None else find(name, path, target)
            if found is not None and found.loader is not None:
                found.loader.exec_module = functools.partial(_execute, found.loader.exec_module, wrap)
                return found
        return None


def _execute(execute: Callable[[Any], None], wrap: Callable[[Any], None], module: Any) -> None:
    execute(module)
    wrap(module)


def _make_streams(module: Any) -> tuple[type, type, type]:
    """Return the classes of streams: copies of a plain and an asynchronous stream, and recorded chunks."""

    class Tee(module.SyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any, copy: Copy) -> None:
            self._stream, self._copy = stream, copy

        def __iter__(self) -> Iterator[bytes]:
            for chunk in self._stream:
                self._copy.add(chunk)
                yield chunk
            self._copy.end()

        def close(self) -> None:
            self._stream.close()
            self._copy.end(cut=True)

    class AsyncTee(module.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any, copy: Copy) -> None:
            self._stream, self._copy = stream, copy

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for chunk in self._stream:
                self._copy.add(chunk)
                yield chunk
            self._copy.end()

        async def aclose(self) -> None:
            await self._stream.aclose()
            self._copy.end(cut=True)

    class Chunks(module.SyncByteStream, module.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, chunks: list[bytes]) -> None:
            self._chunks = chunks

        def __iter__(self) -> Iterator[bytes]:
            yield from self._chunks

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for chunk in self._chunks:
                yield chunk

    return Tee, AsyncTee, Chunks


def _wrap_httpx(module: Any) -> None:
    from datetime import timedelta

    tee, async_tee, chunks = _make_streams(module)

    def make_response(request: Any, answer: Message) -> Any:
        replayed = Replayed(answer)
        stream = chunks(replayed.chunks)
        response = module.Response(replayed.status, headers=replayed.headers, stream=stream, request=request)
        response.elapsed = timedelta(0)
        return response

    send, send_async = module.Client.send, module.AsyncClient.send

    @functools.wraps(send)
    def ask_and_send(self: Any, request: Any, *, stream: bool = False, **options: Any) -> Any:
        models = find_session(str(request.url), method=request.method, body=_peek_body(request))
        if models is None:
            return send(self, request, stream=stream, **options)
        call = Request(request.method, str(request.url), request.headers.items(), request.read())
        answer = models.ask(models.describe(call))
        if answer["source"] is not None:
            response = make_response(request, answer)
            for hook in self.event_hooks["response"]:
                hook(response)
        else:
            with inside_call(), Copy(models, answer, call) as copy:
                response = send(self, request, stream=True, **options)
            _copy_httpx_response(response, copy, tee)
        if not stream:
            try:
                response.read()
            finally:
                response.close()
        return response

    @functools.wraps(send_async)
    async def ask_and_send_async(self: Any, request: Any, *, stream: bool = False, **options: Any) -> Any:
        models = find_session(str(request.url), method=request.method, body=_peek_body(request))
        if models is None:
            return await send_async(self, request, stream=stream, **options)
        call = Request(request.method, str(request.url), request.headers.items(), await request.aread())
        answer = await models.ask_later(models.describe(call))
        if answer["source"] is not None:
            response = make_response(request, answer)
            for hook in self.event_hooks["response"]:
                await hook(response)
        else:
            with inside_call(), Copy(models, answer, call) as copy:
                response = await send_async(self, request, stream=True, **options)
            _copy_httpx_response(response, copy, async_tee)
        if not stream:
            try:
                await response.aread()
            finally:
                await response.aclose()
        return response

    module.Client.send, module.AsyncClient.send = ask_and_send, ask_and_send_async


def _peek_body(request: Any) -> Any:
    """Return the body of a request of httpx; None if it is a stream, which could be read only once."""
    try:
        return request.content
    except RuntimeError:  # RequestNotRead
        return None


def _copy_httpx_response(response: Any, copy: Copy, tee: Callable[[Any, Copy], Any]) -> None:
    copy.begin(response.status_code, response.headers.items())
    if response.is_stream_consumed:  # by a hook
        copy.add(response.content, is_decoded=True)
        copy.end()
    else:
        response.stream = tee(response.stream, copy)


def _wrap_urllib3(module: Any) -> None:
    urlopen = module.HTTPConnectionPool.urlopen

    @functools.wraps(urlopen)
    def ask_and_open(
        self: Any, method: str, url: str, body: Any = None, headers: Any = None, *more: Any, **options: Any
    ) -> Any:
        host = f"[{self.host}]" if ":" in self.host else self.host
        full = url if "://" in url else f"{self.scheme}://{host}{f':{self.port}' if self.port else ''}{url}"
        models = find_session(full, method=method, body=body)
        if models is None:
            return urlopen(self, method, url, body, headers, *more, **options)
        call = Request(method, full, dict(headers if headers is not None else self.headers).items(), body)
        answer = models.ask(models.describe(call))
        if answer["source"] is not None:
            return _make_urllib3_response(Replayed(answer), method=method, url=url, options=options)
        with inside_call(), Copy(models, answer, call) as copy:
            response = urlopen(self, method, url, body, headers, *more, **options)
        copy.begin(response.status, response.headers.items())
        if options.get("preload_content", True):
            copy.add(response.data, is_decoded=options.get("decode_content", True))
            copy.end()
        else:
            _copy_reads(response, copy)
        return response

    module.HTTPConnectionPool.urlopen = ask_and_open


def _make_urllib3_response(replayed: Replayed, *, method: str, url: str, options: Message) -> Any:
    from io import BytesIO

    from urllib3.response import HTTPResponse

    return HTTPResponse(
        body=BytesIO(replayed.body),
        headers=replayed.headers,
        status=replayed.status,
        request_method=method,
        request_url=url,
        preload_content=options.get("preload_content", True),
        decode_content=options.get("decode_content", True),
    )


def _copy_reads(response: Any, copy: Copy) -> None:
    """Copy what is read of a response of urllib3 that is read later, in whichever way."""
    read, stream, close = response.read, response.stream, response.close
    depth = 0  # `stream` calls `read`

    def will_decode(wanted: bool | None) -> bool:
        return response.decode_content if wanted is None else wanted

    def read_and_copy(amt: int | None = None, decode_content: bool | None = None, cache_content: bool = False) -> Any:
        data = read(amt, decode_content, cache_content)
        if not depth:
            copy.add(data, is_decoded=will_decode(decode_content))
            if amt is None or not data:
                copy.end()
        return data

    def stream_and_copy(amt: int = 2**16, decode_content: bool | None = None) -> Iterator[bytes]:
        nonlocal depth
        chunks = stream(amt, decode_content)
        while True:
            depth += 1
            try:
                chunk = next(chunks, None)
            finally:
                depth -= 1
            if chunk is None:
                break
            copy.add(chunk, is_decoded=will_decode(decode_content))
            yield chunk
        copy.end()

    def close_and_report() -> None:
        close()
        if depth == 0:  # the end of a stream closes as well
            copy.end(cut=True)

    response.read, response.stream, response.close = read_and_copy, stream_and_copy, close_and_report


def _wrap_aiohttp(module: Any) -> None:
    # Private: all public methods lead here. Middlewares are public, but only newer versions of aiohttp have them, and
    # a request may replace those of its session.
    request = getattr(module.ClientSession, "_request", None)
    if request is None:
        _announce_aiohttp(module)
        return

    @functools.wraps(request)
    async def ask_and_request(self: Any, method: str, url: Any, **options: Any) -> Any:
        full = _build_aiohttp_url(self, url, options.get("params"))
        sent = options.get("data") if options.get("json") is None else options["json"]
        models = find_session(full, method=method, body=sent)
        if models is None:
            return await request(self, method, url, **options)
        headers = [*dict(self.headers).items(), *dict(options.get("headers") or {}).items()]
        call = Request(method, full, headers, _read_aiohttp_body(self, options))
        answer = await models.ask_later(models.describe(call))
        check = options.get("raise_for_status")
        if answer["source"] is not None:
            response = await _make_aiohttp_response(module, self, call, Replayed(answer))
            await _check_status(self, response, check)
            return response
        with inside_call(), Copy(models, answer, call) as copy:
            response = await request(self, method, url, **{**options, "raise_for_status": False})
        copy.begin(response.status, response.headers.items())
        response.content = _make_copying_reader(response, copy)
        await _check_status(self, response, check)
        return response

    module.ClientSession._request = ask_and_request


def _announce_aiohttp(module: Any) -> None:
    """Announce the calls of a version of aiohttp whose requests cannot be wrapped."""
    create = module.ClientSession.__init__

    async def announce(_session: Any, _context: Any, started: Any) -> None:
        url = str(started.url)
        if (models := find_session(url, method=started.method)) is not None:
            call = Request(started.method, url, started.headers.items(), None)
            await models.ask_later({**models.describe(call), "uncovered": "aiohttp"})

    @functools.wraps(create)
    def create_announced(self: Any, *more: Any, **options: Any) -> None:
        from aiohttp import TraceConfig

        own = TraceConfig()
        own.on_request_start.append(announce)
        options["trace_configs"] = [*(options.get("trace_configs") or ()), own]
        create(self, *more, **options)

    module.ClientSession.__init__ = create_announced


def _build_aiohttp_url(session: Any, url: Any, params: Any) -> str:
    from yarl import URL

    full = URL(url)
    base = getattr(session, "_base_url", None)
    if base is not None and not full.is_absolute():
        full = base.join(full)
    return str(full.update_query(params) if params else full)


def _read_aiohttp_body(session: Any, options: Message) -> Any:
    if options.get("json") is not None:
        return session.json_serialize(options["json"])
    data = options.get("data")
    if data is None or isinstance(data, (bytes, str)):
        return data
    if isinstance(data, dict):
        return urlencode(data)
    value = getattr(data, "_value", None)  # of a payload that was made before
    return value if isinstance(value, (bytes, str)) else data


def _make_copying_reader(response: Any, copy: Copy) -> Any:
    """Return a reader in place of `response.content` that copies what is read, in whichever way."""
    from aiohttp import StreamReader

    reader = response.content

    class Reader(StreamReader):
        """Reads of `reader`. It is not initialised: all attributes are those of `reader`, iterators read from here."""

        def __init__(self) -> None:
            pass

        def __getattr__(self, name: str) -> Any:
            return getattr(reader, name)

        def _add(self, data: bytes) -> bytes:
            copy.add(data, is_decoded=True)
            if reader.at_eof():
                copy.end()
            return data

        async def read(self, n: int = -1) -> bytes:
            return self._add(await reader.read(n))

        async def readany(self) -> bytes:
            return self._add(await reader.readany())

        async def readline(self, **options: Any) -> bytes:
            return self._add(await reader.readline(**options))

        async def readuntil(self, separator: bytes = b"\n", **options: Any) -> bytes:
            return self._add(await reader.readuntil(separator, **options))

        async def readexactly(self, n: int) -> bytes:
            return self._add(await reader.readexactly(n))

        async def readchunk(self) -> tuple[bytes, bool]:
            data, is_end = await reader.readchunk()
            return self._add(data), is_end

        def read_nowait(self, n: int = -1) -> bytes:
            return self._add(reader.read_nowait(n))

    close, release = response.close, response.release

    def close_and_report() -> None:
        close()
        copy.end(cut=True)

    def release_and_report() -> Any:
        copy.end(cut=not reader.at_eof())
        return release()

    response.close, response.release = close_and_report, release_and_report
    return Reader()


async def _make_aiohttp_response(module: Any, session: Any, call: Request, replayed: Replayed) -> Any:
    import asyncio
    import inspect
    from http import HTTPStatus
    from types import SimpleNamespace

    from aiohttp.base_protocol import BaseProtocol
    from aiohttp.streams import StreamReader
    from multidict import CIMultiDict, CIMultiDictProxy
    from yarl import URL

    loop, url = asyncio.get_running_loop(), URL(call.url)
    headers = CIMultiDictProxy(CIMultiDict(replayed.headers))
    known = {
        "writer": None, "continue100": None, "timer": None, "traces": [], "loop": loop, "session": session,
        "request_info": module.RequestInfo(url, call.method, headers, url),
        "stream_writer": SimpleNamespace(output_size=0),
    }  # fmt: skip
    wanted = inspect.signature(module.ClientResponse.__init__).parameters  # they differ between versions
    response = module.ClientResponse(call.method, url, **{key: known[key] for key in known.keys() & wanted.keys()})
    reader = StreamReader(BaseProtocol(loop), 2**30, loop=loop)
    for chunk in replayed.chunks:
        reader.feed_data(chunk)
    reader.feed_eof()
    response.status, response.content, response._headers = replayed.status, reader, headers
    response.reason = ""
    with contextlib.suppress(ValueError):
        response.reason = HTTPStatus(replayed.status).phrase
    response._raw_headers = tuple((name.encode(), value.encode()) for name, value in replayed.headers.items())
    if getattr(response, "headers", None) != headers:  # private attributes, because the public ones are read-only
        message = "recorded answers of models cannot be replayed with this version of aiohttp"
        raise AgentFault(message, kind="unsupported")
    return response


async def _check_status(session: Any, response: Any, check: Any) -> None:
    """Do what the option `raise_for_status` says, or that of the session."""
    check = session.raise_for_status if check is None else check
    if callable(check):
        await check(response)
    elif check:
        response.raise_for_status()


def _wrap_grpc(module: Any) -> None:
    class Announcer(module.UnaryUnaryClientInterceptor, module.UnaryStreamClientInterceptor):  # type: ignore[misc]
        def __init__(self, target: str) -> None:
            self._target = target

        def intercept_unary_unary(self, proceed: Any, details: Any, request: Any) -> Any:
            url = _build_grpc_url(self._target, details.method)
            if (models := find_session(url)) is not None:
                models.ask(_describe_grpc_call(url))
            return proceed(details, request)

        intercept_unary_stream = intercept_unary_unary

    for name in ("secure_channel", "insecure_channel"):
        setattr(module, name, _announce_calls(getattr(module, name), module.intercept_channel, Announcer))
    _wrap_grpc_aio(module.aio)


def _announce_calls(open_channel: Any, intercept: Any, announcer: Any) -> Any:
    @functools.wraps(open_channel)
    def open_announced(target: str, *more: Any, **options: Any) -> Any:
        return intercept(open_channel(target, *more, **options), announcer(target))

    return open_announced


def _wrap_grpc_aio(module: Any) -> None:
    import inspect

    async def announce(self: Any, proceed: Any, details: Any, request: Any) -> Any:
        url = _build_grpc_url(self.target, details.method)
        if (models := find_session(url)) is not None:
            await models.ask_later(_describe_grpc_call(url))
        return await proceed(details, request)

    # Each interceptor may be of one kind only.
    unary = type("Unary", (module.UnaryUnaryClientInterceptor,), {"intercept_unary_unary": announce})
    stream = type("Stream", (module.UnaryStreamClientInterceptor,), {"intercept_unary_stream": announce})

    def announce_calls(open_channel: Any) -> Any:
        @functools.wraps(open_channel)
        def open_announced(target: str, *more: Any, **options: Any) -> Any:
            own = [unary(), stream()]
            for each in own:
                each.target = target
            given = inspect.signature(open_channel).bind(target, *more, **options)
            given.arguments["interceptors"] = [*own, *(given.arguments.get("interceptors") or ())]
            return open_channel(*given.args, **given.kwargs)

        return open_announced

    for name in ("secure_channel", "insecure_channel"):
        setattr(module, name, announce_calls(getattr(module, name)))


def _build_grpc_url(target: str, method: Any) -> str:
    path = method.decode() if isinstance(method, bytes) else method
    return f"grpc://{target.removeprefix('dns:').lstrip('/')}{path}"


def _describe_grpc_call(url: str) -> Message:
    return {"method": "POST", "url": url, "body": None, "uncovered": "gRPC"}


def _wrap_http_client(module: Any) -> None:
    connection = module.HTTPConnection
    request, putrequest = connection.request, connection.putrequest

    @functools.wraps(request)
    def keep_body_and_request(self: Any, method: str, url: str, body: Any = None, *more: Any, **options: Any) -> Any:
        self._workbench_body = body
        return request(self, method, url, body, *more, **options)

    @functools.wraps(putrequest)
    def announce_and_put(self: Any, method: str, url: str, *more: Any, **options: Any) -> Any:
        full, body = url if "://" in url else _build_http_client_url(self, url), vars(self).pop("_workbench_body", None)
        if (models := find_session(full, method=method, body=body)) is not None:
            models.ask({**models.describe(Request(method, full, (), None), body), "uncovered": "http.client"})
        return putrequest(self, method, url, *more, **options)

    connection.request, connection.putrequest = keep_body_and_request, announce_and_put


def _build_http_client_url(connection: Any, path: str) -> str:
    host, port = getattr(connection, "_tunnel_host", None), getattr(connection, "_tunnel_port", None)
    if host is None:  # else through a proxy; `set_tunnel` sets private attributes only
        host, port = connection.host, connection.port
    host = f"[{host}]" if ":" in host else host
    scheme = "https" if connection.default_port == 443 else "http"
    return f"{scheme}://{host}{'' if port in (None, connection.default_port) else f':{port}'}{path}"


def _wrap_threads(module: Any) -> None:
    start = module.Thread.start

    @functools.wraps(start)
    def carry_and_start(self: Any) -> None:
        self.run = carry_call(self.run)
        start(self)

    module.Thread.start = carry_and_start


def _wrap_pools(module: Any) -> None:
    submit = module.ThreadPoolExecutor.submit

    @functools.wraps(submit)
    def carry_and_submit(self: Any, function: Any, /, *args: Any, **options: Any) -> Any:
        return submit(self, carry_call(function), *args, **options)

    module.ThreadPoolExecutor.submit = carry_and_submit


_WRAPPERS: dict[str, Callable[[Any], None]] = {
    "httpx": _wrap_httpx,
    "httpx2": _wrap_httpx,
    "urllib3.connectionpool": _wrap_urllib3,
    "aiohttp.client": _wrap_aiohttp,
    "grpc": _wrap_grpc,
    "http.client": _wrap_http_client,
    "threading": _wrap_threads,
    "concurrent.futures.thread": _wrap_pools,
}
