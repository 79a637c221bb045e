"""One conversation with an HTTP agent: one session id, its cookies kept, one request a turn."""

from __future__ import annotations

import asyncio
import urllib.request
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from ...otlp.traces import Traces
from ...recording.recorder import quiet
from ...variables import Variables
from .. import base
from ..foreign import WAIT_SECONDS, ForeignSession, open_inbox, receiver_for
from .certificates import read_certificates
from .reading import Reading, beginning, kind_of
from .sending import Sending
from .words import in_words

_CONNECT_SECONDS = 15.0
_LARGEST = 64 * 1024 * 1024  # bytes of an answer


class Connections:
    """What the sessions of a process have in common: where and how they ask, and the connections that are open."""

    def __init__(
        self,
        target: dict[str, Any],
        variables: Variables,
        *,
        url: str,
        headers: dict[str, str],
        sending: Sending,
        reading: Reading,
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
        self._receiver = None if port is None else receiver_for(target, port=port)
        with quiet:  # all variables are looked at, and hardly one of them matters
            self.proxy = _proxy_for(url)
            if any(address is not None and address.lower().startswith("https:") for address in (url, self.proxy)):
                read_certificates()
        self._connector: aiohttp.TCPConnector | None = None

    def traces(self, opened: float) -> Traces:
        """For a session that is opened now, by the performance counter. Raises AgentFault where a port is taken."""
        if self._receiver is None:
            return Traces(opened=opened, conceal=self.variables.conceal_secrets)
        return Traces(
            opened=opened,
            inbox=open_inbox(self._receiver, self.target),
            wait_seconds=self.target["options"].get("otlp_wait_seconds", WAIT_SECONDS),
            conceal=self.variables.conceal_secrets,
        )

    def client(self) -> aiohttp.ClientSession:
        """A client with cookies of its own."""
        if self._connector is None:  # it belongs to the event loop, which is there only now
            self._connector = aiohttp.TCPConnector(limit=0)
        return aiohttp.ClientSession(
            connector=self._connector,
            connector_owner=False,
            cookie_jar=aiohttp.CookieJar(unsafe=True),  # also those of servers that have no name
            timeout=aiohttp.ClientTimeout(total=self.timeout_seconds, sock_connect=_CONNECT_SECONDS),
            headers={"Accept": "application/json, text/plain;q=0.5"},
        )


class HttpSession(ForeignSession):
    """Asks over connections that the sessions of a process share."""

    def __init__(self, connections: Connections, request: dict[str, Any], emit_span: base.EmitSpan) -> None:
        super().__init__(connections.target, request, emit_span, make_traces=connections.traces)
        self._shared = connections
        self._called = f"{connections.sending.method} {connections.target['location']}"
        self._client = connections.client()

    async def ask(self, content: dict[str, Any], prompt: str, index: int, traceparent: str) -> dict[str, Any]:
        """See `ForeignSession.ask`. Raises AgentFault for whatever came instead of an answer."""
        shared = self._shared
        data = self._data(content, prompt, index)
        sent: dict[str, Any] = (
            {"params": shared.sending.query(data)}
            if shared.sending.method == "GET"
            else {"json": shared.sending.body(data)}
        )
        try:
            status, content_type, text = await self._exchange(
                headers={"traceparent": traceparent, **shared.headers}, **sent
            )
            # Concealed when it is read: a value of a variable may be part of what JSON is made of.
            answer: dict[str, Any] = shared.variables.conceal_secrets(self._read(status, content_type, text))
        except BaseException as error:
            self._client.detach()  # nobody closes a session that failed, and aiohttp complains of that
            if isinstance(error, base.AgentFault):
                told = shared.variables.conceal(str(error))
                raise base.AgentFault(f"{self._called} {told}", kind=error.kind) from None
            raise
        answer["attributes"] = {
            "http.request.method": shared.sending.method,
            "url.full": shared.target["location"],
            "http.response.status_code": status,
            "traceparent": traceparent,
        }
        return answer

    async def close(self) -> dict[str, Any]:
        """See `base.Session.close`."""
        await self._client.close()
        return await super().close()

    async def _exchange(self, **request: Any) -> tuple[int, str, str]:
        """One request and its answer: status, type and text. What the agent did not get to answer is infrastructure."""
        shared = self._shared
        try:
            async with self._client.request(
                shared.sending.method,
                shared.url,
                proxy=shared.proxy,
                allow_redirects=False,  # headers may hold keys that are for this address alone
                **request,
            ) as response:
                data = await _limited(response.content)
                charset = response.charset or "utf-8"
                return response.status, response.headers.get("Content-Type", ""), _decoded(data, charset)
        except aiohttp.ConnectionTimeoutError:
            message = f"could not be connected to within {_CONNECT_SECONDS:g} s"
            raise base.AgentFault(message, kind="infrastructure") from None
        except (asyncio.TimeoutError, TimeoutError):
            if shared.timeout_seconds is None:
                raise base.AgentFault("could not be reached: timed out", kind="infrastructure") from None
            message = f"did not answer within {shared.timeout_seconds:g} s (timeout_seconds of its table)"
            raise base.AgentFault(message, kind="timeout") from None
        except aiohttp.InvalidURL as error:
            raise base.LoadError(f"{self._called}: {in_words(error)}") from None
        except (aiohttp.ClientError, OSError) as error:
            raise base.AgentFault(f"could not be reached: {in_words(error)}", kind="infrastructure") from None

    def _read(self, status: int, content_type: str, text: str) -> dict[str, Any]:
        if 200 <= status < 300:
            return self._shared.reading.read(text, content_type=content_type)
        if 300 <= status < 400:
            raise base.AgentFault(f"answered {status}, a redirection: expected the URL to which it leads as target")
        raise base.AgentFault(f"answered {status}: {beginning(text) or 'nothing'}", kind=kind_of(status))

    def _data(self, content: dict[str, Any], prompt: str, index: int) -> dict[str, Any]:
        """What templates may name."""
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


async def _limited(content: aiohttp.StreamReader) -> bytes:
    """All of an answer. Raises AgentFault where it is larger than anybody would read."""
    chunks, size = [], 0
    async for chunk in content.iter_any():
        size += len(chunk)
        if size > _LARGEST:
            raise base.AgentFault(f"answered with more than {_LARGEST // 1024 // 1024} MB, expected less")
        chunks.append(chunk)
    return b"".join(chunks)


def _decoded(data: bytes, charset: str) -> str:
    try:
        return data.decode(charset)
    except (LookupError, UnicodeDecodeError):  # a charset nobody knows, or another than it says
        return data.decode("utf-8", "replace")


def _proxy_for(url: str) -> str | None:
    """The proxy that the environment names for a URL. Raises LoadError where it is no address of one."""
    parts = urlsplit(url)
    if urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    proxy = urllib.request.getproxies().get(parts.scheme)
    if proxy and not proxy.lower().startswith(("http://", "https://")):  # not shown, as a password may be in it
        raise base.LoadError(
            f"the environment variable {parts.scheme}_proxy: found no URL of an HTTP proxy, expected one such as "
            "http://localhost:3128"
        )
    return proxy
