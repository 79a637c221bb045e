"""Sessions with HTTP agents: one session id with its own cookies, one request per turn."""

from __future__ import annotations

import asyncio
import urllib.request
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from ...otlp import Traces
from ...recording.recorder import quiet
from .. import base
from ..external_session import WAIT_SECONDS, ExternalSession, Variables, create_receiver, open_inbox
from .http_mapping import AnswerMapping, RequestMapping, read_certificates, shorten


def describe_connection_error(error: aiohttp.ClientError | OSError) -> str:
    """Describe a failed request without URLs, which may contain keys and passwords."""
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered {error.status}: {error.message}"
    if isinstance(error, aiohttp.ClientResponseError):
        return error.message or type(error).__name__
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"its certificate is not trusted: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return f"cannot connect to the proxy: {error.os_error.strerror}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect to {error.host}:{error.port}: {error.os_error.strerror or error.os_error}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "it closed the connection before it answered"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "it closed the connection in the middle of its answer"
    if isinstance(error, aiohttp.InvalidURL):
        return "found no URL, expected one once its variables are filled in"
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__


_CONNECT_SECONDS = 15.0
_LARGEST = 64 * 1024 * 1024  # bytes of an answer


class Connections:
    """What the sessions of a process share: settings and open connections."""

    def __init__(
        self,
        target: dict[str, Any],
        variables: Variables,
        *,
        url: str,
        headers: dict[str, str],
        sending: RequestMapping,
        reading: AnswerMapping,
    ) -> None:
        """`url` and `headers` are filled in from `variables`."""
        self.target = target
        self.variables = variables
        self.url = url
        self.headers = headers
        self.sending = sending
        self.reading = reading
        self.timeout_seconds: float | None = target["options"].get("timeout_seconds")
        port: int | None = target["options"].get("otlp_port")
        self._receiver = None if port is None else create_receiver(target, port=port)
        with quiet:  # this reads all variables, and few of them matter
            self.proxy = find_proxy(url)
            if any(address is not None and address.lower().startswith("https:") for address in (url, self.proxy)):
                read_certificates()
        self._connector: aiohttp.TCPConnector | None = None

    def traces(self, opened: float) -> Traces:
        """Create the traces of a session, opened at `opened` by the performance counter. Raises AgentFault if a port is
        in use."""
        if self._receiver is None:
            return Traces(opened=opened, conceal=self.variables.conceal_secrets)
        return Traces(
            opened=opened,
            inbox=open_inbox(self._receiver, self.target),
            wait_seconds=self.target["options"].get("otlp_wait_seconds", WAIT_SECONDS),
            conceal=self.variables.conceal_secrets,
        )

    def client(self) -> aiohttp.ClientSession:
        """Create a client with its own cookies."""
        if self._connector is None:  # it needs the running event loop
            self._connector = aiohttp.TCPConnector(limit=0)
        return aiohttp.ClientSession(
            connector=self._connector,
            connector_owner=False,
            cookie_jar=aiohttp.CookieJar(unsafe=True),  # also for servers without a name
            timeout=aiohttp.ClientTimeout(total=self.timeout_seconds, sock_connect=_CONNECT_SECONDS),
            headers={"Accept": "application/json, text/plain;q=0.5"},
        )


class HttpSession(ExternalSession):
    """A session that uses shared connections."""

    def __init__(self, connections: Connections, request: dict[str, Any], emit_span: base.EmitSpan) -> None:
        super().__init__(connections.target, request, emit_span, make_traces=connections.traces)
        self._shared = connections
        self._called = f"{connections.sending.method} {connections.target['location']}"
        self._client = connections.client()

    async def ask(self, content: dict[str, Any], prompt: str, index: int, traceparent: str) -> dict[str, Any]:
        """See `ExternalSession.ask`. Raises AgentFault if there is no answer."""
        shared = self._shared
        data = self._build_data(content, prompt, index)
        sent: dict[str, Any] = (
            {"params": shared.sending.query(data)}
            if shared.sending.method == "GET"
            else {"json": shared.sending.body(data)}
        )
        try:
            status, content_type, text = await self._exchange(
                headers={"traceparent": traceparent, **shared.headers}, **sent
            )
            # Concealed after parsing: a value may be part of the JSON syntax.
            answer: dict[str, Any] = shared.variables.conceal_secrets(self._read(status, content_type, text))
        except BaseException as error:
            self._client.detach()  # a failed session is not closed, about which aiohttp would warn
            if isinstance(error, base.AgentFault):
                message = shared.variables.conceal(str(error))
                raise base.AgentFault(f"{self._called} {message}", kind=error.kind) from None
            raise
        answer["attributes"] = {
            "http.request.method": shared.sending.method,
            "url.full": shared.target["location"],
            "http.response.status_code": status,
            "traceparent": traceparent,
        }
        return answer

    async def close(self) -> dict[str, Any]:
        await self._client.close()
        return await super().close()

    async def _exchange(self, **request: Any) -> tuple[int, str, str]:
        """Send one request; return status, content type and text. Raises AgentFault of kind infrastructure without an
        answer."""
        shared = self._shared
        try:
            async with self._client.request(
                shared.sending.method,
                shared.url,
                proxy=shared.proxy,
                allow_redirects=False,  # headers may hold keys that are only for this address
                **request,
            ) as response:
                data = await _read_limited(response.content)
                charset = response.charset or "utf-8"
                return response.status, response.headers.get("Content-Type", ""), _decode_body(data, charset)
        except aiohttp.ConnectionTimeoutError:
            message = f"could not be connected to within {_CONNECT_SECONDS:g} s"
            raise base.AgentFault(message, kind="infrastructure") from None
        except (asyncio.TimeoutError, TimeoutError):
            if shared.timeout_seconds is None:
                raise base.AgentFault("could not be reached: timed out", kind="infrastructure") from None
            message = f"did not answer within {shared.timeout_seconds:g} s (timeout_seconds of its table)"
            raise base.AgentFault(message, kind="timeout") from None
        except aiohttp.InvalidURL as error:
            raise base.LoadError(f"{self._called}: {describe_connection_error(error)}") from None
        except (aiohttp.ClientError, OSError) as error:
            raise base.AgentFault(
                f"could not be reached: {describe_connection_error(error)}", kind="infrastructure"
            ) from None

    def _read(self, status: int, content_type: str, text: str) -> dict[str, Any]:
        if 200 <= status < 300:
            return self._shared.reading.read(text, content_type=content_type)
        if 300 <= status < 400:
            raise base.AgentFault(f"answered {status}, a redirection: set target to the URL it leads to")
        raise base.AgentFault(f"answered {status}: {shorten(text) or 'nothing'}", kind=base.classify_status(status))

    def _build_data(self, content: dict[str, Any], prompt: str, index: int) -> dict[str, Any]:
        """Return the values for templates."""
        messages = []
        for turn in self.history:
            messages.append({"role": "user", "content": turn["prompt"]})
            messages.append({"role": "assistant", "content": turn["response"]})
        return {
            "prompt": prompt,
            "content": content,
            "messages": [*messages, {"role": "user", "content": prompt}],
            "history": self.history,
            "turn": index,
            "session_id": self.session_id,
            "user_id": self.user_id,
            "app_name": self.app_name,
            "state": self.state(),
        }


async def _read_limited(content: aiohttp.StreamReader) -> bytes:
    """Read an answer. Raises AgentFault if it is too large."""
    chunks, size = [], 0
    async for chunk in content.iter_any():
        size += len(chunk)
        if size > _LARGEST:
            raise base.AgentFault(f"answered with more than {_LARGEST // 1024 // 1024} MB, expected less")
        chunks.append(chunk)
    return b"".join(chunks)


def _decode_body(data: bytes, charset: str) -> str:
    try:
        return data.decode(charset)
    except (LookupError, UnicodeDecodeError):  # an unknown or wrong charset
        return data.decode("utf-8", "replace")


def find_proxy(url: str) -> str | None:
    """Return the proxy that the environment names for a URL. Raises LoadError if its address is invalid."""
    parts = urlsplit(url)
    if urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    proxy = urllib.request.getproxies().get(parts.scheme)
    if proxy and not proxy.lower().startswith(("http://", "https://")):  # not shown, because it may contain a password
        raise base.LoadError(
            f"the environment variable {parts.scheme}_proxy: found no URL of an HTTP proxy, expected one such as "
            "http://localhost:3128"
        )
    return proxy
