"""An agent that is deployed on Agent Engine, asked over its REST protocol.

google.auth and httpx are imported where they are used: they come with the extra `vertex`, and with google-genai.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from typing import Any

from ..base import AgentFault, LoadError, not_installed
from .talk import STREAMS, Engine

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_NO_CREDENTIALS = (
    "the agent {resource} needs credentials of Google Cloud: set GOOGLE_APPLICATION_CREDENTIALS in the environment or "
    "in the target's env_file, or run `gcloud auth application-default login`"
)
_YES = ("1", "true")
_CONNECT_SECONDS = 20.0  # the answer may take as long as the case


class Deployed(Engine):
    """The methods of one deployed agent. What they are is asked once."""

    def __init__(self, resource: str) -> None:
        try:
            import google.auth
            import httpx
        except ModuleNotFoundError:
            raise not_installed("google-auth with httpx", extra="vertex") from None
        self._auth = google.auth
        self._resource = resource
        self._url = f"{_base_url(resource, os.environ)}/v1/{resource}"
        self._client = httpx.AsyncClient(timeout=httpx.Timeout(None, connect=_CONNECT_SECONDS))
        self._transport_error = httpx.TransportError
        self._credentials: Any = None
        self._asking = asyncio.Lock()
        self._parameters: dict[str, set[str]] | None = None

    async def parameters(self) -> dict[str, set[str]]:
        async with self._asking:
            if self._parameters is None:
                self._parameters = _methods_in(_json_of(await self._send("GET", self._url), self._url))
        return self._parameters

    async def call(self, method: str, arguments: dict[str, Any]) -> Any:
        body = {"classMethod": method, "input": arguments}
        if method in STREAMS:
            url = f"{self._url}:streamQuery?alt=sse"
            return _chunks(await self._send("POST", url, body), url)
        url = f"{self._url}:query"
        answer = _json_of(await self._send("POST", url, body), url)
        return answer.get("output", answer) if isinstance(answer, dict) else answer

    async def _send(self, verb: str, url: str, body: dict[str, Any] | None = None) -> str:
        headers = await self._headers()
        try:
            response = await self._client.request(verb, url, json=body, headers=headers)
        except self._transport_error as error:
            message = f"{url} cannot be reached: {type(error).__name__}: {error}"
            raise AgentFault(message, kind="infrastructure") from error
        if response.status_code >= 300:  # redirections too: the key is for this address alone
            raise _refusal(response.status_code, response.text, self._resource)
        return response.text

    async def _headers(self) -> dict[str, str]:
        key = os.environ.get("GOOGLE_API_KEY")
        if key and os.environ.get("GOOGLE_GENAI_USE_VERTEXAI", "").lower() in _YES:
            return {"x-goog-api-key": key}
        try:
            return await asyncio.to_thread(self._authorize)
        except self._auth.exceptions.TransportError as error:
            raise AgentFault(f"Google Cloud cannot be asked for a token: {error}", kind="infrastructure") from error
        except self._auth.exceptions.GoogleAuthError as error:
            reason = str(error).partition("\n")[0]
            raise LoadError(f"{_NO_CREDENTIALS.format(resource=self._resource)} ({reason})") from None

    def _authorize(self) -> dict[str, str]:
        from google.auth.transport.requests import Request

        if self._credentials is None:
            self._credentials, _ = self._auth.default(scopes=[_SCOPE])
        if not self._credentials.valid:
            self._credentials.refresh(Request())
        headers: dict[str, str] = {}
        self._credentials.apply(headers)
        return headers


def _base_url(resource: str, environment: Mapping[str, str]) -> str:
    given = environment.get("GOOGLE_VERTEX_BASE_URL")
    if given:
        return given.rstrip("/")
    location = resource.split("/")[3]
    return f"https://{'' if location == 'global' else location + '-'}aiplatform.googleapis.com"


def _methods_in(engine: Any) -> dict[str, set[str]]:
    spec = engine.get("spec") if isinstance(engine, dict) else None
    methods = (spec or {}).get("classMethods") or (spec or {}).get("class_methods") or []
    found = {}
    for method in methods:
        if isinstance(method, dict) and isinstance(method.get("name"), str):
            properties = (method.get("parameters") or {}).get("properties") or {}
            found[method["name"]] = set(properties)
    return found


def _json_of(text: str, url: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise AgentFault(f"{url} answered {_beginning(text)}, expected JSON") from None


def _chunks(text: str, url: str) -> list[Any]:
    """The chunks of a stream: JSON, one a line, in the frames of server-sent events or without."""
    lines = (line.strip() for line in text.splitlines())
    data = [line.partition(":")[2].strip() if line.startswith("data:") else line for line in lines]
    return [_json_of(line, url) for line in data if line and not line.startswith((":", "event:", "id:", "retry:"))]


def _refusal(status: int, text: str, resource: str) -> Exception:
    """Why a request was refused, with what the service says."""
    try:
        said = json.loads(text)
        said = said[0] if isinstance(said, list) else said
        reason = str(said["error"]["message"])
    except (ValueError, LookupError, TypeError):
        reason = _beginning(text)
    if status in (401, 403):
        return LoadError(f"Google Cloud refuses access to {resource} (HTTP {status}): {reason}")
    if status == 404:
        return LoadError(f"there is no agent {resource} (HTTP 404): {reason}")
    passing = status in (408, 429) or status >= 500
    message = f"the agent {resource} answered with HTTP {status}: {reason}"
    return AgentFault(message, kind="infrastructure" if passing else "agent")


def _beginning(text: str) -> str:
    short = " ".join(text[:400].split())
    return (short[:200] + "...") if len(short) > 200 else short or "nothing"
