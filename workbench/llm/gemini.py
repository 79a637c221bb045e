"""Models of Google, through google-genai: with a key of the Gemini API, or in a project of Vertex AI."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from json import JSONDecodeError
from typing import TYPE_CHECKING, Any

from workbench.llm.connections import is_no_address, is_of_connection, said_of_connection
from workbench.llm.provider import uses_vertex
from workbench.llm.requests import ModelReply, ModelRequest
from workbench.llm.trouble import ModelError, Trouble, failed, seconds_of, trouble_of_status
from workbench.model.results import TokenUsage
from workbench.store.garbage import without_collecting

if TYPE_CHECKING:
    from google.genai import Client
    from google.genai.errors import APIError
    from google.genai.types import Candidate, GenerateContentConfig, GenerateContentResponse

_NO_KEY = (
    "there is no key for the Gemini API: set GOOGLE_API_KEY or GEMINI_API_KEY in the environment or in the agent's "
    ".env, or GOOGLE_GENAI_USE_VERTEXAI=1 with GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION"
)
_BLOCKING = frozenset({"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE"})


class Gemini:
    """Asks Google's models. Who pays is in the environment variables that google-genai itself would read."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._client: Client | None = None
        self._connecting = asyncio.Lock()

    async def prepare(self, model: str) -> None:
        """See Provider."""
        del model  # one key is for all
        async with self._connecting:
            if self._client is None:
                self._client = await asyncio.to_thread(_load, self._environment)

    async def ask(self, request: ModelRequest) -> ModelReply:
        """See Provider."""
        from google.genai import errors, types

        client = self._client
        assert client is not None
        config = _config(request)
        contents: list[Any] = [
            types.Content(role=message.role, parts=[types.Part(text=message.text)]) for message in request.messages
        ]
        try:
            response = await client.aio.models.generate_content(model=request.model, contents=contents, config=config)
        except errors.APIError as error:
            raise error_of_service(error, request.model) from error
        except (
            Exception
        ) as error:  # of whichever transport the library has chosen, and of google.auth: told apart there
            raise error_of_library(error, request.model) from error
        return _reply(response, request.model)

    async def close(self) -> None:
        """See Provider."""
        client, self._client = self._client, None
        if client is not None:
            await client.aio.aclose()
            client.close()


def _load(environment: Mapping[str, str]) -> Client:
    """The client, with all that the first request and its answer would have to wait for, and the event loop with them.

    The library stays as long as the process: looking through it for garbage would take a tenth of a second every time.
    """
    with without_collecting():
        client = _client(environment)
        from google.genai import types

        for kind in (types.Content, types.GenerateContentConfig, types.GenerateContentResponse):
            kind.model_rebuild()  # pydantic has put it off until they are used
        return client


def _client(environment: Mapping[str, str]) -> Client:
    from google.genai import Client, types

    # One try: how often to try again, and when, is the same for all providers.
    options = types.HttpOptions(retry_options=types.HttpRetryOptions(attempts=1))
    on_vertex = uses_vertex(environment)
    options.base_url = environment.get("GOOGLE_VERTEX_BASE_URL" if on_vertex else "GOOGLE_GEMINI_BASE_URL")
    key = environment.get("GOOGLE_API_KEY") or environment.get("GEMINI_API_KEY")
    if not on_vertex:
        if not key:
            raise ModelError(Trouble.NO_KEY, _NO_KEY)
        return Client(vertexai=False, api_key=key, http_options=options)
    try:
        project, location = environment.get("GOOGLE_CLOUD_PROJECT"), environment.get("GOOGLE_CLOUD_LOCATION")
        if key and not project:
            return Client(vertexai=True, api_key=key, http_options=options)
        return Client(vertexai=True, project=project, location=location, http_options=options)
    except Exception as error:  # of google.auth, and ValueError for what is missing: all of them in words
        raise ModelError(Trouble.NO_KEY, f"Vertex AI cannot be used: {error}") from error


def _config(request: ModelRequest) -> GenerateContentConfig:
    from google.genai import types
    from pydantic import ValidationError

    try:
        config = types.GenerateContentConfig.model_validate(request.config)
    except ValidationError as error:
        place = error.errors()[0]
        where = ".".join(map(str, place["loc"]))
        raise failed(Trouble.REFUSED, request.model, f"its configuration: {where}: {place['msg']}") from error
    config.automatic_function_calling = types.AutomaticFunctionCallingConfig(disable=True)
    if request.system is not None:
        config.system_instruction = request.system
    if request.reply_schema is not None:
        config.response_mime_type = "application/json"
        config.response_json_schema = request.reply_schema
    return config


def _reply(response: GenerateContentResponse, model: str) -> ModelReply:
    feedback = response.prompt_feedback
    if feedback is not None and feedback.block_reason is not None:
        said = feedback.block_reason_message or _name(feedback.block_reason) or ""
        raise failed(Trouble.BLOCKED, model, said, usage=_usage(response))
    candidate = response.candidates[0] if response.candidates else None
    text, finish = _text_of(candidate), None if candidate is None else _name(candidate.finish_reason)
    if not text:
        said = (candidate.finish_message if candidate is not None else None) or finish or ""
        hint = "raise max_output_tokens: thinking counts, too" if finish == "MAX_TOKENS" else ""
        trouble = Trouble.BLOCKED if finish in _BLOCKING else Trouble.EMPTY
        raise failed(trouble, model, said, hint=hint, usage=_usage(response))
    return ModelReply(text=text, finish=finish, version=response.model_version, usage=_usage(response))


def _text_of(candidate: Candidate | None) -> str:
    content = None if candidate is None else candidate.content
    parts = (content.parts if content is not None else None) or []
    return "".join(part.text for part in parts if part.text and not part.thought)


def _usage(response: GenerateContentResponse) -> TokenUsage | None:
    told = response.usage_metadata
    if told is None:
        return None
    return TokenUsage(
        prompt=told.prompt_token_count,
        tool_use_prompt=told.tool_use_prompt_token_count,
        candidates=told.candidates_token_count,
        thoughts=told.thoughts_token_count,
        cached=told.cached_content_token_count,
        total=told.total_token_count,
    )


def _name(value: Any) -> str | None:
    return None if value is None else str(getattr(value, "value", value))


def error_of_service(error: APIError, model: str) -> ModelError:
    said = f"{error.code} {error.status or ''}: {error.message or ''}".strip(" :")
    trouble = trouble_of_status(error.code or 500)
    if trouble is Trouble.REFUSED and "API key" in (error.message or ""):  # a wrong key is a 400 there
        trouble = Trouble.DENIED
    return failed(trouble, model, said, retry_after=_retry_after(error))


def _retry_after(error: APIError) -> float | None:
    """What `google.rpc.RetryInfo` says, else the header."""
    details = error.details.get("error", error.details).get("details") if isinstance(error.details, dict) else None
    for detail in details if isinstance(details, list) else []:
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str):
            return seconds_of(delay.removesuffix("s"))
    headers = getattr(error.response, "headers", None)
    return seconds_of(headers.get("Retry-After")) if headers is not None else None


def error_of_library(error: Exception, model: str) -> ModelError:
    """Of a connection, or of google.auth, which has errors of its own for what a project lacks.

    What is not JSON was not said by the service but by something on the way to it.
    """
    said = said_of_connection(error)
    if said is not None:  # google.auth has to be connected, too
        return failed(Trouble.UNAVAILABLE, model, said)
    if isinstance(error, JSONDecodeError):
        return failed(Trouble.UNAVAILABLE, model, f"its answer is no JSON: {error}")
    if is_no_address(error):  # and will be none the next time
        return failed(Trouble.REFUSED, model, f"found the address {error}, expected one with http:// or https://")
    if is_of_connection(error):
        return failed(Trouble.UNAVAILABLE, model, str(error) or type(error).__name__)
    if type(error).__module__.startswith("google.auth"):
        return failed(Trouble.DENIED, model, str(error.args[0] if error.args else error))
    return failed(Trouble.REFUSED, model, f"{type(error).__name__}: {error}")
