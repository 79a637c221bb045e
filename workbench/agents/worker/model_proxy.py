"""A proxy on this machine for programs: what they send to models is recorded and replayed as in a worker.

Environment variables that SDKs read lead to it. Its paths name the place that the request is for,
`/TOKEN/https/api.openai.com/v1/responses`, and only the program knows the token. Each conversation has its own proxy.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import re
import secrets
import socket
import ssl
from collections.abc import AsyncIterator, Collection, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import aiohttp
from aiohttp import web
from yarl import URL

from .adapters.base import LoadError
from .adapters.http.http_session import describe_connection_error, find_proxy
from .model_interception import Copy, InterceptedModels, Replayed, Request
from .otlp_receiver import LocalServer
from .tool_interception import NotAnswered

if TYPE_CHECKING:
    from multidict import CIMultiDict, CIMultiDictProxy


# Variables that lead to the proxy.

VARIABLE = "WORKBENCH_MODEL_PROXY"
"""The address of the proxy, for programs whose SDK reads no variable."""

_OPENAI, _GOOGLE, _MISTRAL, _GROQ = (
    ("OPENAI_API_KEY",),
    ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    ("MISTRAL_API_KEY",),
    ("GROQ_API_KEY",),
)
_PROVIDERS = (
    (("OPENAI_BASE_URL", "OPENAI_API_BASE"), _OPENAI, "https://api.openai.com/v1", ""),
    (("ANTHROPIC_BASE_URL",), ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"), "https://api.anthropic.com", "v1"),
    (("GOOGLE_GEMINI_BASE_URL",), _GOOGLE, "https://generativelanguage.googleapis.com", "v1beta"),
    (("GEMINI_API_BASE",), _GOOGLE, "https://generativelanguage.googleapis.com", "v1beta"),
    (("MISTRAL_BASE_URL",), _MISTRAL, "https://api.mistral.ai", "v1"),
    (("MISTRAL_AZURE_API_BASE",), _MISTRAL, "https://api.mistral.ai", "v1"),
    (("GROQ_BASE_URL",), _GROQ, "https://api.groq.com", "openai/v1"),
    (("GROQ_API_BASE",), _GROQ, "https://api.groq.com", "openai/v1"),
    (("CO_API_URL",), ("CO_API_KEY", "COHERE_API_KEY"), "https://api.cohere.com", ""),
    (("OPENROUTER_API_BASE",), ("OPENROUTER_API_KEY",), "https://openrouter.ai", "api/v1"),
    (("OLLAMA_HOST",), (), "http://127.0.0.1:11434", ""),
    (("OLLAMA_API_BASE",), (), "http://127.0.0.1:11434", ""),
)
"""Variables, those with the key, the address that SDKs use without the former, and the begin of its paths.

SDKs differ on whether the address holds that begin, so the proxy completes it. Of variables that one SDK reads in turn,
none is set if the user has set another. Without a key the program is unlikely to ask the provider: it may have a
default address of its own, which a variable would overrule.
"""

_WITHOUT_DEFAULT = (
    "ANTHROPIC_API_BASE",
    "ANTHROPIC_VERTEX_BASE_URL",
    "AZURE_API_BASE",
    "AZURE_OPENAI_ENDPOINT",
    "DEEPSEEK_API_BASE",
    "GOOGLE_VERTEX_BASE_URL",
    "HOSTED_VLLM_API_BASE",
    "LITELLM_PROXY_API_BASE",
)
"""Variables that lead to the proxy only if the user has set them."""

_SPECIAL = ".googleapis.com"  # google-genai treats such addresses of Vertex AI in a way of its own
_VERSION = re.compile(r"(^|/)v\d")
_OLLAMA_PORT = 11434
_LISTENS_SECONDS = 0.2


def _complete(name: str, value: str) -> str:
    """Return the value of a variable as a URL: Ollama's may lack the scheme and the port."""
    if name != "OLLAMA_HOST" or "://" in value:
        return value
    parts = urlsplit(f"http://{value}")
    host = parts.hostname or "127.0.0.1"
    return f"http://{f'[{host}]' if ':' in host else host}:{parts.port or _OLLAMA_PORT}{parts.path}"


def _listens(port: int) -> bool:
    """Return True if a server on this machine listens on a port."""
    with socket.socket() as client:
        client.settimeout(_LISTENS_SECONDS)
        return client.connect_ex(("127.0.0.1", port)) == 0


def _exempt_this_machine(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that keep the user's own proxy from requests to this machine."""
    if not any(value and name.lower() in ("http_proxy", "all_proxy") for name, value in environment.items()):
        return {}
    either = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    exempt = {}
    for name in ("NO_PROXY",) if os.name == "nt" else ("no_proxy", "NO_PROXY"):
        before = environment.get(name) or either
        exempt[name] = before if before == "*" else ",".join(filter(None, (before, "127.0.0.1")))
    return exempt


# The proxy.

_HOP_BY_HOP = frozenset(
    {
        "connection", "content-length", "expect", "host", "keep-alive", "proxy-authenticate", "proxy-authorization",
        "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
_NOT_ADDED = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")  # by the client of the proxy
_ADDRESSES = ("Location", "X-Goog-Upload-URL", "X-Goog-Upload-Control-URL")  # headers of responses
_DECODABLE = ("gzip", "deflate")
_LONGEST_LINE = 1 << 16  # bytes of a URL or a header
_CONNECT_SECONDS = 30.0
_SETTLE_SECONDS = 0.5  # for calls that the program has read, or left, when it ends its turn
_CERTIFICATES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")


class ModelProxy:
    """Serves one program, in a thread of its own: the worker's event loop runs only during turns."""

    def __init__(self, models: InterceptedModels) -> None:
        """Start to listen. Raises OSError."""
        self._models = models
        self._token = secrets.token_urlsafe(16)
        self._begins: dict[str, str] = {}  # of paths, by default address
        self._own_places: set[_Place] = set()  # that the user has set in a variable
        self._calls: set[asyncio.Task[Any]] = set()
        self._context: ssl.SSLContext | None = None
        application = web.Application(client_max_size=0)
        application.router.add_route("*", "/{path:.*}", self._handle)
        application.cleanup_ctx.append(self._run_client)
        self._server = LocalServer(
            application,
            name="workbench-models",
            auto_decompress=False,  # a model gets the body as the program sends it
            handler_cancellation=True,  # a program that hangs up ends its request to the model
            max_line_size=_LONGEST_LINE,
            max_field_size=_LONGEST_LINE,
        )
        self.url = f"http://127.0.0.1:{self._server.port}/{self._token}"
        """Its address; the place that a request is for follows."""

    def build_environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a program that asks its models here. What the user has set is where they are."""
        found = {**environment, **_exempt_this_machine(environment), VARIABLE: self.url}
        for names, keys, base, begin in _PROVIDERS:
            own = [name for name in names if environment.get(name)]
            for name in own:
                found[name] = self._lead_here_from(_complete(name, environment[name]), default=base)
            if not own and self._is_likely(keys, base, environment):
                found.update(dict.fromkeys(names, self._lead_here(base)))
                self._begins[base] = begin
        for name in _WITHOUT_DEFAULT:
            value = environment.get(name, "")
            if not value.rstrip("/").endswith(_SPECIAL):
                found[name] = self._lead_here_from(value)
        return {name: value for name, value in found.items() if value or name in environment}

    def _is_likely(self, keys: Collection[str], base: str, environment: Mapping[str, str]) -> bool:
        """Return True if a program that asks this address is not led astray; a replay asks no address at all."""
        if not self._models.may_ask:
            return True
        return any(map(environment.get, keys)) if keys else _listens(urlsplit(base).port or 80)

    def _lead_here_from(self, url: str, *, default: str | None = None) -> str:
        """Return the address that replaces one of the user's; its server is then one of models, unless it is default.

        Which requests to the default are calls of models is known.
        """
        if (found := self._lead_here(url)) != url and _has_host(url):
            self._own_places |= {_find_place(url)} - ({_find_place(default)} if default else set())
        return found

    def _is_own(self, method: str, url: str) -> bool:
        """Return True for a request to the user's own servers of models, which may have any paths."""
        return method == "POST" and _find_place(url) in self._own_places

    def _lead_here(self, url: str) -> str:
        scheme, _, rest = url.partition("://")
        return f"{self.url}/{scheme.lower()}/{rest}" if scheme.lower() in ("http", "https") and rest else url

    async def settle(self) -> None:
        """Wait until the outcomes of calls are reported that the program has read. Used on the worker's loop."""
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._settle(), self._server.loop))

    async def _settle(self) -> None:
        if self._calls:
            await asyncio.wait(self._calls, timeout=_SETTLE_SECONDS)

    def stop(self) -> None:
        """Stop listening. Calls that are not over are cut."""
        self._server.stop()

    async def _run_client(self, _: web.Application) -> AsyncIterator[None]:
        self._client = aiohttp.ClientSession(
            auto_decompress=False,
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            max_field_size=_LONGEST_LINE,
            max_line_size=_LONGEST_LINE,
            skip_auto_headers=_NOT_ADDED,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
        )
        async with self._client:
            yield

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        _, _, path = request.raw_path.partition("/")
        token, _, path = path.partition("/")
        if not secrets.compare_digest(token.encode(), self._token.encode()):
            return _refuse(403, f"this address belongs to a case of workbench: expected the path of {VARIABLE}")
        scheme, _, path = path.partition("/")
        host, _, path = path.partition("/")
        host = re.sub("%(?:3A|40|5B|5D)", lambda match: unquote(match[0]), host, flags=re.IGNORECASE)
        base = f"{scheme}://{host}"
        if scheme not in ("http", "https") or not _has_host(base):
            return _refuse(404, f"found no address of a model, expected a path such as {VARIABLE}/https/HOST/...")
        if request.headers.get("Upgrade", "").lower() == "websocket":
            return _refuse(501, "websockets do not pass workbench's proxy for models: run with --models live")
        begin = self._begins.get(base)
        url = f"{base}/{path if not begin or _VERSION.search(path) else f'{begin}/{path}'}"
        body = await request.read()
        is_own = self._is_own(request.method, url)
        if not is_own and not self._models.concerns(request.method, url, body):
            return await self._pass_on(request, url, body, copy=None)
        call = Request(request.method, url, request.headers.items(), body)
        try:
            answer = await self._models.ask_later(call.describe() if is_own else self._models.describe(call))
        except NotAnswered:
            return _refuse(502, "the case has ended: workbench has no answer to this request")
        if answer["source"] is not None:
            return await _replay(request, Replayed(answer))
        task = asyncio.current_task()
        assert task is not None
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        return await self._pass_on(request, url, body, copy=Copy(self._models, answer, call))

    async def _pass_on(self, request: web.Request, url: str, body: bytes, *, copy: Copy | None) -> web.StreamResponse:
        """Ask the model, and send its answer as it arrives; `copy` records it."""
        with contextlib.ExitStack() as stack:
            try:
                with contextlib.nullcontext() if copy is None else copy:
                    response = await self._send(request, url, body)
            except ConnectionError as error:
                return _refuse(502, f"{URL(url).host} could not be reached: {error}")
            stack.callback(response.close)
            answer = web.StreamResponse(
                status=response.status, reason=response.reason, headers=self._convert_headers(response, url)
            )
            if copy is not None:
                copy.begin(response.status, response.headers.items())
                stack.callback(copy.end, cut=True)  # unless it has ended
            try:
                await answer.prepare(request)
                async for chunk in response.content.iter_any():
                    if copy is not None:
                        copy.add(chunk)
                        if response.content.at_eof():
                            copy.end()  # before the program can end its turn
                    await answer.write(chunk)
            except (aiohttp.ClientError, ConnectionError):  # one of both is gone; the program must notice a cut answer
                if request.transport is not None:
                    request.transport.close()
                return answer
            if copy is not None:
                copy.end()
            return answer

    async def _send(self, request: web.Request, url: str, body: bytes) -> aiohttp.ClientResponse:
        """Send a request as the program made it, but accept only encodings that are known here.

        Raises ConnectionError.
        """
        place = URL(url, encoded=True)
        headers = _copy_headers(request.headers)
        if "Accept-Encoding" in headers:
            accepted = [each for each in _DECODABLE if each in headers["Accept-Encoding"].lower()]
            headers["Accept-Encoding"] = ", ".join(accepted) or "identity"
        if place.user is not None:
            credentials = f"{place.user}:{place.password or ''}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(credentials).decode()}"
        try:
            proxy = find_proxy(url)
            is_encrypted = any(address.lower().startswith("https:") for address in (url, proxy or ""))
            return await self._client.request(
                request.method,
                place.with_user(None),
                data=body or None,
                headers=headers,
                allow_redirects=False,  # the program follows them, or does not
                proxy=proxy,
                ssl=self._load_certificates() if is_encrypted else True,
            )
        except (aiohttp.ClientError, OSError) as error:
            raise ConnectionError(describe_connection_error(error)) from None
        except (LoadError, ValueError) as error:  # of the proxy, or of the address
            raise ConnectionError(str(error)) from None

    def _load_certificates(self) -> ssl.SSLContext:
        """Return the context with the certificates that the environment names, or the system trusts."""
        if self._context is None:
            context = ssl.create_default_context()
            for name in _CERTIFICATES:
                path = os.environ.get(name)
                if path:
                    folder = os.path.isdir(path)
                    context.load_verify_locations(cafile=None if folder else path, capath=path if folder else None)
            known = ssl.get_default_verify_paths()
            if known.cafile is None and known.capath is None:  # such as Python of python.org for macOS
                with contextlib.suppress(ImportError):
                    import certifi

                    context.load_verify_locations(cafile=certifi.where())
            self._context = context
        return self._context

    def _convert_headers(self, response: aiohttp.ClientResponse, url: str) -> CIMultiDict[str]:
        """Return the headers of a response. Addresses in them lead here too."""
        headers = _copy_headers(response.headers)
        if "Content-Length" in response.headers:
            headers["Content-Length"] = response.headers["Content-Length"]
        origin = "/".join(url.split("/", 3)[:3])
        for name in _ADDRESSES:
            if headers.get(name, "").startswith(f"{origin}/"):
                headers[name] = self._lead_here(headers[name])
        return headers


_Place = tuple[str, str | None, int | None]


def _find_place(url: str) -> _Place:
    """Return the scheme, host and port of an address."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def _has_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:  # raised for an invalid port too
        return False


def _copy_headers(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """Copy headers without those that concern one connection."""
    copied = headers.copy()
    listed = {each.strip().lower() for value in headers.getall("Connection", ()) for each in value.split(",")}
    for name in _HOP_BY_HOP | listed:
        copied.popall(name, None)
    return copied


async def _replay(request: web.Request, replayed: Replayed) -> web.StreamResponse:
    answer = web.StreamResponse(status=replayed.status, headers=replayed.headers)
    if request.method != "HEAD":
        answer.content_length = len(replayed.body)
    await answer.prepare(request)
    for chunk in replayed.chunks:
        await answer.write(chunk)
    return answer


def _refuse(status: int, message: str) -> web.Response:
    """Return an error in a form that the SDKs of all providers show."""
    error = {"type": "workbench", "code": status, "status": "WORKBENCH", "message": f"workbench: {message}"}
    return web.json_response({"type": "error", "error": error}, status=status)
