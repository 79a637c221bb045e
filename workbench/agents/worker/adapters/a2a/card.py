"""The agent card of an A2A agent, and the client that speaks as it says: one for all sessions of a process."""

from __future__ import annotations

import asyncio
import contextlib
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any
from urllib.parse import urlsplit

import httpx
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.client.card_resolver import parse_agent_card
from a2a.types import AgentCard, CancelTaskRequest
from google.protobuf.json_format import MessageToDict, ParseError

from ...variables import Variables
from ..base import AgentFault, LoadError

_PLACES = ("/.well-known/agent-card.json", "/.well-known/agent.json")  # today's, and that of A2A 0.2
_BINDINGS = ["JSONRPC", "HTTP+JSON"]
_CONNECT_SECONDS = 15.0  # the answer may take as long as the case
_CARD_SECONDS = 15.0  # to connect, and for the next piece of the card
_CANCEL_SECONDS = 10.0  # for the agent to answer that it cancelled a task
_CANCEL_PATIENCE = 0.2  # of those for which a session waits: less than a cancelled one has to end
_AGAIN = (408, 425, 429)  # and 5xx: another time it may answer


class Peer:
    """Where the agent is. The card is fetched once, by the first session that needs it."""

    def __init__(self, target: dict[str, Any], variables: Variables, *, url: str, headers: dict[str, str]) -> None:
        """`url` and `headers` are filled in from `variables`."""
        self.target = target
        self.variables = variables
        self.card: dict[str, Any] = {}
        """The card as JSON, once it is there."""
        self._url = url
        self._headers = headers
        self._client: Client | None = None
        self._connecting: asyncio.Task[Client] | None = None
        self._cancelling: set[asyncio.Task[None]] = set()

    async def connect(self) -> Client:
        """The client. Raises LoadError or AgentFault where the card cannot be had, or says nothing of use.

        Sessions that wait at the same time wait for one attempt, and its failure is that of all; the next one tries
        again.
        """
        if self._client is not None:
            return self._client
        if self._connecting is None or self._connecting.done():
            self._connecting = asyncio.ensure_future(self._connect())
            self._connecting.add_done_callback(lambda task: task.cancelled() or task.exception())  # all may be gone
        return await asyncio.shield(self._connecting)

    async def cancel_task(self, task_id: str) -> None:
        """Have the agent cancel a task that nobody waits for any more. Whether it does is its own business.

        Returns soon, whatever the agent does: who was cancelled has little time to end.
        """
        if self._client is None:
            return
        asking = asyncio.ensure_future(self._cancel(self._client, task_id))
        self._cancelling.add(asking)
        asking.add_done_callback(self._cancelling.discard)
        await asyncio.wait({asking}, timeout=_CANCEL_PATIENCE)

    async def _cancel(self, client: Client, task_id: str) -> None:
        with contextlib.suppress(Exception):  # it may be over, or the agent may know of no such thing: nobody waits
            await asyncio.wait_for(client.cancel_task(CancelTaskRequest(id=task_id)), _CANCEL_SECONDS)

    async def _connect(self) -> Client:
        # Redirections are not followed: headers may hold keys that are for this address alone. Cookies are refused:
        # the client is that of all sessions, and nothing of one may reach another.
        http = httpx.AsyncClient(
            headers=self._headers,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            timeout=httpx.Timeout(None, connect=_CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=None),
        )
        try:
            self._client = await self._client_over(http)
        except BaseException:  # whatever ended it, a cancellation too: nobody else would close these connections
            await http.aclose()
            raise
        return self._client

    async def _client_over(self, http: httpx.AsyncClient) -> Client:
        place, told = await self._fetch(http)
        try:
            card = parse_agent_card(told)
        except ParseError as error:
            raise LoadError(f"{place} holds no agent card: {error}") from None
        if self._headers:
            self._keep_to_own_origin(card, place)
        config = ClientConfig(httpx_client=http, supported_protocol_bindings=_BINDINGS)
        try:
            client = ClientFactory(config).create(card)
        except ValueError:
            found = ", ".join(f"{each.protocol_binding} {each.protocol_version}" for each in card.supported_interfaces)
            expected = f"expected {' or '.join(_BINDINGS)} of version 0.3 or newer"
            if any(each.protocol_binding == "GRPC" for each in card.supported_interfaces):
                expected += ": gRPC is not spoken here, so let the agent serve one of these beside it"
            raise LoadError(f"{place}: found {found or 'no interface'}, {expected}") from None
        self.card = MessageToDict(card)
        return client

    def _keep_to_own_origin(self, card: AgentCard, place: str) -> None:
        """Strike out what lies elsewhere: whoever serves a card must not decide who gets the target's keys."""
        told = list(card.supported_interfaces)
        own = [each for each in told if _origin(each.url) == _origin(self._url)]
        if told and not own:
            raise LoadError(
                f"{place} leads to {self.variables.conceal(told[0].url)}, another scheme, host or port than that of "
                "target: the target's headers are sent only there"
            )
        del card.supported_interfaces[:]
        card.supported_interfaces.extend(own)

    async def _fetch(self, http: httpx.AsyncClient) -> tuple[str, Any]:
        """The card, and where it was: in messages without what was filled in."""
        shown, url = self.target["location"].rstrip("/"), self._url.rstrip("/")
        is_card = urlsplit(url).path.endswith(".json")
        for place in ("",) if is_card else _PLACES:
            response = await self._get(http, url + place, shown + place)
            if response.status_code != 404:
                return shown + place, _card_in(response, shown + place)
        places = shown if is_card else " and ".join(shown + place for place in _PLACES)
        raise LoadError(f"there is no agent card: {places} answered 404")

    async def _get(self, http: httpx.AsyncClient, url: str, shown: str) -> httpx.Response:
        try:
            return await http.get(url, timeout=_CARD_SECONDS)
        except httpx.InvalidURL:
            raise LoadError(f"{shown}: found no URL, expected one once its variables are filled in") from None
        except httpx.RequestError as error:
            reason = self.variables.conceal(str(error)) or type(error).__name__
            raise AgentFault(f"the agent card {shown} cannot be fetched: {reason}", kind="infrastructure") from None


def _origin(url: str) -> tuple[str, str, int | None]:
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL:
        return "", url, None
    return parts.scheme, parts.host, parts.port


def _card_in(response: httpx.Response, shown: str) -> Any:
    """The JSON of a response. Raises LoadError or AgentFault for anything else."""
    status = response.status_code
    if status >= 300:
        message = f"the agent card {shown} cannot be fetched: answered {status}"
        if status in _AGAIN or status >= 500:
            raise AgentFault(message, kind="infrastructure")
        hint = ", a redirection: expected the URL to which it leads as target" if status < 400 else ""
        raise LoadError(message + hint)
    try:
        told = response.json()
    except ValueError:
        kind = response.headers.get("content-type", "").partition(";")[0] or "something"
        raise LoadError(f"{shown} is no agent card: found {kind}, expected JSON") from None
    if not isinstance(told, dict) or "name" not in told:
        raise LoadError(f"{shown} is no agent card: expected an object with a name")
    return told
