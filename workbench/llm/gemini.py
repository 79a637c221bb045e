"""Google's services through google-genai: Gemini models by the API or Vertex AI, and Vertex AI's evaluation service."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import ssl
import warnings
from collections.abc import Iterator, Mapping, Sequence
from json import JSONDecodeError
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from workbench.llm.model_types import (
    ModelError,
    ModelReply,
    ModelRequest,
    Trouble,
    classify_status,
    is_google_model,
    make_model_error,
    parse_retry_after,
    uses_vertex,
)
from workbench.model.criteria import InvalidConfig
from workbench.model.facts import pause_gc
from workbench.model.installation import install_command
from workbench.model.results import TokenUsage
from workbench.model.text import suggest_name

if TYPE_CHECKING:
    from google.genai import Client
    from google.genai.errors import APIError
    from google.genai.types import Candidate, GenerateContentConfig, GenerateContentResponse


# Descriptions of connection errors.

_LIBRARIES = frozenset({"httpx", "httpcore", "httpx2", "httpcore2", "aiohttp", "anyio", "requests", "urllib3", "http"})
_NOT_CONNECTED = frozenset(
    {"ClientConnectorError", "ConnectError", "ConnectTimeout", "ConnectionTimeoutError", "NewConnectionError"}
)
_TIMED_OUT = frozenset({"ServerTimeoutError", "TimeoutException", "ReadTimeout"})
_DISCONNECTED = frozenset(
    {"ServerDisconnectedError", "ClientOSError", "ClientPayloadError", "NetworkError", "ProtocolError"}
)
_NO_ADDRESS = frozenset({"InvalidURL", "NonHttpUrlClientError", "UnsupportedProtocol"})
_PORTS = {"http": 80, "https": 443}
_DEEPEST = 20  # errors below one


def is_connection_error(error: BaseException) -> bool:
    """Whether an error comes from a network library or the operating system."""
    return _get_library(error) in _LIBRARIES or isinstance(error, OSError)


def is_address_error(error: BaseException) -> bool:
    """Whether a network library refused the address of the server as malformed."""
    return _get_library(error) in _LIBRARIES and any(kind.__name__ in _NO_ADDRESS for kind in type(error).__mro__)


def describe_connection_error(error: BaseException) -> str | None:
    """Describe a failed, slow or broken connection; None if the error is of another kind."""
    causes = list(_list_causes(error))
    names = {kind.__name__ for cause in causes if _get_library(cause) in _LIBRARIES for kind in type(cause).__mro__}
    server = next(filter(None, (_find_server(cause) for cause in reversed(causes))), "the server")
    if names & _NOT_CONNECTED or any(isinstance(cause, ConnectionRefusedError | socket.gaierror) for cause in causes):
        reason = _find_reason(causes)
        return f"cannot connect to {server}{f': {reason}' if reason else ''}"
    if names & _TIMED_OUT:
        return f"no answer from {server} in time"
    if "TooManyRedirects" in names:
        return f"{server} redirected the request too often"
    if names & _DISCONNECTED or any(isinstance(cause, ConnectionError) for cause in causes):
        return f"{server} closed the connection before it answered"
    return None


def _list_causes(error: BaseException) -> Iterator[BaseException]:
    """List an error and its causes, down to the first."""
    current: BaseException | None = error
    for _ in range(_DEEPEST):
        if current is None:
            return
        yield current
        # A group has one error for each address of a name. httpcore hides the cause behind `from None`.
        group = current.exceptions if isinstance(current, BaseExceptionGroup) else ()
        current = group[0] if group else current.__cause__ or current.__context__


def _get_library(error: BaseException) -> str:
    return type(error).__module__.partition(".")[0]


def _find_server(error: BaseException) -> str | None:
    """Return host and port; None if the error does not contain them."""
    if _get_library(error) not in _LIBRARIES:
        return None
    host, port = getattr(error, "host", None), getattr(error, "port", None)
    if isinstance(host, str) and isinstance(port, int):
        return _format_address(host, port)
    try:
        parts = urlsplit(str(getattr(error, "request").url))  # noqa: B009 - httpx raises if it is not set
        host, port = parts.hostname, parts.port or _PORTS.get(parts.scheme)
    except (AttributeError, RuntimeError, ValueError):
        return None
    return _format_address(host, port) if host and port else None


def _format_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _find_reason(causes: Sequence[BaseException]) -> str:
    """Return the reason that the system or TLS gives for a failed connection; empty if it gives none."""
    for cause in reversed(causes):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not accepted ({cause.verify_message})"
        if isinstance(cause, ssl.SSLError):
            return "it does not speak TLS as expected"
        if isinstance(cause, socket.gaierror):
            return "no server has that name, or names cannot be looked up"
        if isinstance(cause, ConnectionResetError):
            return "the connection was closed at once"
        if isinstance(cause, TimeoutError):
            return "no answer in time"
        if isinstance(cause, OSError) and cause.errno is not None and cause.errno > 0:
            return os.strerror(cause.errno).lower()
    return ""


# Models of Google through google-genai: the Gemini API with a key, or Vertex AI with a project.

_NO_KEY = (
    "no API key for Gemini: set GOOGLE_API_KEY or GEMINI_API_KEY in the environment or in the agent's "
    ".env, or GOOGLE_GENAI_USE_VERTEXAI=1 with GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION"
)
_SILENCE = logging.NullHandler()
"""Without a handler, remarks of the library about replies would be written to standard error."""
RAISE_LIMIT = "raise max_output_tokens: thinking counts, too"
"""The hint if a model thought until the limit."""
_BLOCKING = frozenset({"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE"})


class Gemini:
    """Asks Google's models. Keys and projects come from the environment variables that google-genai reads."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._client: Client | None = None
        self._connecting = asyncio.Lock()

    async def prepare(self, model: str) -> None:
        """See Provider."""
        del model  # one key serves all models
        async with self._connecting:
            if self._client is None:
                self._client = await asyncio.to_thread(_load_client, self._environment)

    async def ask(self, request: ModelRequest) -> ModelReply:
        """See Provider."""
        from google.genai import errors, types

        client = self._client
        assert client is not None
        config = _make_config(request)
        contents: list[Any] = [
            types.Content(role=message.role, parts=[types.Part(text=message.text)]) for message in request.messages
        ]
        _ignore_warnings()
        try:
            response = await client.aio.models.generate_content(model=request.model, contents=contents, config=config)
        except errors.APIError as error:
            raise make_service_error(error, request.model) from error
        except Exception as error:  # from the transport or from google.auth; classified there
            raise make_library_error(error, request.model) from error
        return _read_reply(response, request.model)

    async def close(self) -> None:
        """See Provider."""
        client, self._client = self._client, None
        if client is not None:
            await client.aio.aclose()
            client.close()


def _ignore_warnings() -> None:
    """Ignore warnings of the library: with `-W error` of Python or pytest they would be errors of requests.

    Called before each request, because pytest restores the filters after each test.
    """
    warnings.filterwarnings("ignore", module=r"google\.genai\b")


def _load_client(environment: Mapping[str, str]) -> Client:
    """Load the client and everything that the first request would otherwise load on the event loop.

    The library is never unloaded. Without the pause, garbage collection would search it for 0.1 s each time.
    """
    logging.getLogger("google_genai").addHandler(_SILENCE)  # adding it again does nothing
    with pause_gc():
        client = _make_client(environment)
        from google.genai import types

        for kind in (types.Content, types.GenerateContentConfig, types.GenerateContentResponse):
            kind.model_rebuild()  # pydantic builds them on first use
        return client


def _make_client(environment: Mapping[str, str]) -> Client:
    from google.genai import Client, types

    # One try: retries are the same for all providers.
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
    except Exception as error:  # from google.auth, or ValueError for a missing value; all have readable messages
        raise ModelError(Trouble.NO_KEY, f"Vertex AI cannot be used: {error}") from error


def _make_config(request: ModelRequest) -> GenerateContentConfig:
    from google.genai import types

    try:
        config = types.GenerateContentConfig.model_validate(request.config)
    except ValidationError as error:
        details = error.errors()[0]
        location = ".".join(map(str, details["loc"]))
        raise make_model_error(
            Trouble.REFUSED, request.model, f"its configuration: {location}: {details['msg']}"
        ) from error
    config.automatic_function_calling = types.AutomaticFunctionCallingConfig(disable=True)
    if request.system is not None:
        config.system_instruction = request.system
    if request.reply_schema is not None:
        config.response_mime_type = "application/json"
        config.response_json_schema = request.reply_schema
    return config


def _read_reply(response: GenerateContentResponse, model: str) -> ModelReply:
    feedback = response.prompt_feedback
    if feedback is not None and feedback.block_reason is not None:
        explanation = feedback.block_reason_message or _get_enum_value(feedback.block_reason) or ""
        raise make_model_error(Trouble.BLOCKED, model, explanation, usage=_read_usage(response))
    candidate = response.candidates[0] if response.candidates else None
    text, finish = _read_text(candidate), None if candidate is None else _get_enum_value(candidate.finish_reason)
    if not text:
        explanation = (candidate.finish_message if candidate is not None else None) or finish or ""
        if candidate is None and response.usage_metadata is None:  # {"error": ...} of a gateway, with status 200
            explanation = "it has neither candidates nor usage: a gateway may have answered"
        hint = RAISE_LIMIT if finish == "MAX_TOKENS" else ""
        trouble = Trouble.BLOCKED if finish in _BLOCKING else Trouble.EMPTY
        raise make_model_error(trouble, model, explanation, hint=hint, usage=_read_usage(response))
    return ModelReply(text=text, finish=finish, version=response.model_version, usage=_read_usage(response))


def _read_text(candidate: Candidate | None) -> str:
    content = None if candidate is None else candidate.content
    parts = (content.parts if content is not None else None) or []
    return "".join(part.text for part in parts if part.text and not part.thought)


def _read_usage(response: GenerateContentResponse) -> TokenUsage | None:
    reported = response.usage_metadata
    if reported is None:
        return None
    return TokenUsage(
        prompt=reported.prompt_token_count,
        tool_use_prompt=reported.tool_use_prompt_token_count,
        candidates=reported.candidates_token_count,
        thoughts=reported.thoughts_token_count,
        cached=reported.cached_content_token_count,
        total=reported.total_token_count,
    )


def _get_enum_value(value: Any) -> str | None:
    return None if value is None else str(getattr(value, "value", value))


def make_service_error(error: APIError, model: str) -> ModelError:
    body = error.details.get("error", error.details) if isinstance(error.details, dict) else None
    message = str(error.message or (body if isinstance(body, str) else ""))  # gateways write {"error": "the message"}
    text = f"{error.code} {error.status or ''}".strip() + (f": {message}" if message else "")
    trouble = classify_status(error.code or 500)
    if trouble is Trouble.REFUSED and "API key" in message:  # a wrong key is a 400 there
        trouble = Trouble.DENIED
    return make_model_error(trouble, model, text, retry_after=_read_retry_after(error, body))


def _read_retry_after(error: APIError, body: Any) -> float | None:
    """Return the delay of `google.rpc.RetryInfo`, or else of the `Retry-After` header."""
    details = body.get("details") if isinstance(body, dict) else None
    for detail in details if isinstance(details, list) else []:
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str):
            return parse_retry_after(delay.removesuffix("s"))
    headers = getattr(error.response, "headers", None)
    return parse_retry_after(headers.get("Retry-After")) if headers is not None else None


def make_library_error(error: Exception, model: str) -> ModelError:
    """Classify an error of a connection or of google.auth.

    A reply that is not JSON, or not that of a model, comes from a proxy, not from the service.
    """
    problem = describe_connection_error(error)
    if problem is not None:  # google.auth also connects to servers
        return make_model_error(Trouble.UNAVAILABLE, model, problem)
    if isinstance(error, JSONDecodeError):
        return make_model_error(Trouble.UNAVAILABLE, model, f"its answer is not JSON: {error}")
    if isinstance(error, UnicodeDecodeError) or (isinstance(error, ValidationError) and "Response" in error.title):
        return make_model_error(Trouble.UNAVAILABLE, model, f"its answer cannot be read: {error}")
    if is_address_error(error):  # a retry would not help
        return make_model_error(
            Trouble.REFUSED, model, f"found the address {error}, expected one with http:// or https://"
        )
    if is_connection_error(error):
        return make_model_error(Trouble.UNAVAILABLE, model, str(error) or type(error).__name__)
    if type(error).__module__.startswith("google.auth"):
        return make_model_error(Trouble.DENIED, model, str(error.args[0] if error.args else error))
    return make_model_error(Trouble.REFUSED, model, f"{type(error).__name__}: {error}")


# The evaluation service of Vertex AI (the extra `vertex`).

COHERENCE = "coherence"
"""A metric that needs the prompt template of the library; the service knows the others by name."""

_NO_PLATFORM = "the evaluation service of Vertex AI needs google-cloud-aiplatform"
_NO_PROJECT = (
    "the evaluation service of Vertex AI needs a project: set GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION in the "
    "environment or in the agent's .env, or GOOGLE_GENAI_USE_VERTEXAI=1 with GOOGLE_API_KEY"
)
_TROUBLE_OF_CODE = {  # of google.rpc.Code
    4: Trouble.UNAVAILABLE,
    5: Trouble.UNKNOWN_MODEL,
    7: Trouble.DENIED,
    8: Trouble.LIMITED,
    13: Trouble.UNAVAILABLE,
    14: Trouble.UNAVAILABLE,
    16: Trouble.DENIED,
}


class VertexEvaluation:
    """Asks the service like a model with JSON answers: limits, retries, the cache and recordings apply.

    A request holds one message: `{"metric": NAME, "instance": {...}}`, where the instance is what the service's own
    `EvaluationInstance` has (`prompt`, `response`, `reference` as texts, or `agent_data`). The answer is
    `{"score": ..., "explanation": ..., "rubrics": [{"text": ..., "met": ..., "reasoning": ...}]}`. The environment
    variables name the project.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._client: Any = None
        self._template = ""
        self._connecting = asyncio.Lock()

    async def prepare(self, model: str) -> None:
        """See Provider."""
        del model  # one key serves all models
        async with self._connecting:
            if self._client is None:
                self._client, self._template = await asyncio.to_thread(_connect_to_service, self._environment)

    async def ask(self, request: ModelRequest) -> ModelReply:
        """See Provider."""
        from google.genai import errors
        from pydantic import ValidationError

        question = json.loads(request.messages[0].text)
        try:
            response = await self._client.aio.evals.evaluate_instances(metric_config=self._make_question(question))
        except ValidationError as error:  # an agent may describe itself in another format
            details = error.errors()[0]
            location = ".".join(map(str, details["loc"]))
            raise make_model_error(
                Trouble.REFUSED, request.model, f"the conversation: {location}: {details['msg']}"
            ) from error
        except errors.APIError as error:
            raise make_service_error(error, request.model) from error
        except Exception as error:  # from the transport or from google.auth; classified there
            raise make_library_error(error, request.model) from error
        return ModelReply(text=json.dumps(_read_grade(response, request.model), ensure_ascii=False))

    async def close(self) -> None:
        """See Provider."""
        client, self._client = self._client, None
        if client is not None:
            await client.aio.aclose()

    def _make_question(self, question: Mapping[str, Any]) -> dict[str, Any]:
        instance = question["instance"]
        if question["metric"] == COHERENCE:
            texts = json.dumps({name: instance[name] for name in ("prompt", "response")}, ensure_ascii=False)
            spec = {"metric_prompt_template": self._template}
            return {"pointwise_metric_input": {"metric_spec": spec, "instance": {"json_instance": texts}}}
        values = {name: {"text": value} if isinstance(value, str) else value for name, value in instance.items()}
        return {"metrics": [{"name": question["metric"]}], "instance": values}


def explain_missing_project(environment: Mapping[str, str]) -> str | None:
    """Return which setting of the service is missing; None if it can be asked."""
    project, location = environment.get("GOOGLE_CLOUD_PROJECT"), environment.get("GOOGLE_CLOUD_LOCATION")
    has_key = uses_vertex(environment) and bool(environment.get("GOOGLE_API_KEY"))
    return None if (project and location) or has_key else _NO_PROJECT


def _connect_to_service(environment: Mapping[str, str]) -> tuple[Client, str]:
    """Return the client, and the template of the metric that the service does not know by name."""
    project, location = environment.get("GOOGLE_CLOUD_PROJECT"), environment.get("GOOGLE_CLOUD_LOCATION")
    key = environment.get("GOOGLE_API_KEY")
    if (problem := explain_missing_project(environment)) is not None:
        raise ModelError(Trouble.NO_KEY, problem)
    # It imports LiteLLM if that is installed, which would otherwise fetch a list of prices.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    try:
        import agentplatform
        from vertexai.evaluation import MetricPromptTemplateExamples
    except ImportError as error:
        raise ModelError(Trouble.NO_LIBRARY, f"{_NO_PLATFORM}: {install_command('vertex')}") from error
    from google.genai import types

    # One try: retries are the same for all providers.
    options = types.HttpOptions(retry_options=types.HttpRetryOptions(attempts=1))
    options.base_url = environment.get("GOOGLE_VERTEX_BASE_URL")
    template = str(MetricPromptTemplateExamples.get_prompt_template(COHERENCE))
    try:
        if project and location:
            return agentplatform.Client(project=project, location=location, http_options=options), template
        return agentplatform.Client(api_key=key, http_options=options), template
    except Exception as error:  # from google.auth, or ValueError for a missing value; all have readable messages
        raise ModelError(Trouble.NO_KEY, f"the evaluation service of Vertex AI cannot be used: {error}") from error


def _read_grade(response: Any, model: str) -> dict[str, Any]:
    """Convert the answer of the service. Raises ModelError if it has no score."""
    pointwise = response.pointwise_metric_result
    result = pointwise if pointwise is not None else response.metric_results[0] if response.metric_results else None
    error = getattr(result, "error", None)
    if error is not None and error.code:
        raise make_model_error(_TROUBLE_OF_CODE.get(error.code, Trouble.REFUSED), model, error.message or "")
    if result is None or result.score is None:
        raise make_model_error(Trouble.EMPTY, model, "no score")
    return {"score": result.score, "explanation": result.explanation or "", "rubrics": list(_read_rubrics(result))}


def _read_rubrics(result: Any) -> Iterator[dict[str, Any]]:
    for verdict in getattr(result, "rubric_verdicts", None) or ():
        rubric = verdict.evaluated_rubric
        content = rubric.content if rubric is not None else None
        description = content.property if content is not None else None
        text = (description.description if description is not None else None) or (rubric.rubric_id if rubric else None)
        # The service omits the verdict if a rubric is not met.
        yield {"text": text or "", "met": bool(verdict.verdict), "reasoning": verdict.reasoning or ""}


# The keys of a generation configuration, to find misspelt ones before a model is asked.

KEYS = frozenset(
    {
        "audio_timestamp",
        "audio_transcription_config",
        "automatic_continuation",
        "automatic_function_calling",
        "cached_content",
        "candidate_count",
        "continuation_token",
        "enable_enhanced_civic_answers",
        "frequency_penalty",
        "generation_output_config",
        "http_options",
        "image_config",
        "labels",
        "logprobs",
        "max_output_tokens",
        "media_resolution",
        "model_armor_config",
        "model_selection_config",
        "presence_penalty",
        "response_json_schema",
        "response_logprobs",
        "response_mime_type",
        "response_modalities",
        "response_schema",
        "routing_config",
        "safety_settings",
        "seed",
        "service_tier",
        "should_return_http_response",
        "speech_config",
        "stop_sequences",
        "store",
        "system_instruction",
        "temperature",
        "thinking_config",
        "tool_config",
        "tools",
        "top_k",
        "top_p",
    }
)
"""The keys of google-genai's GenerateContentConfig. Importing it takes over a second, hence a list."""

THINKING_KEYS = frozenset({"include_thoughts", "thinking_budget", "thinking_level"})
"""The keys of its ThinkingConfig."""

LITELLM_KEYS: Mapping[str, str] = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "max_output_tokens": "max_tokens",
    "stop_sequences": "stop",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}
"""The keys that other providers support, with their names in LiteLLM."""

IGNORED_LITELLM_KEYS = frozenset({"thinking_config", "safety_settings", "http_options", "labels"})
"""The keys that are ignored for models of other providers."""


def find_unknown_keys(config: Mapping[str, Any], *, model: str, place: str) -> Iterator[InvalidConfig]:
    """Yield a problem for each key of a generation configuration that the model does not support.

    `place` is where the configuration is in its file. Keys may be in snake_case or camelCase. An unknown model counts
    as one of Google.
    """
    if is_google_model(model):
        yield from _find_unknown_keys(config, KEYS, place=place)
    else:
        yield from _find_unknown_keys(config, _KNOWN_LITELLM_KEYS, place=place)
    for name, value in config.items():
        if to_snake_case(name) == "thinking_config" and isinstance(value, Mapping):
            yield from _find_unknown_keys(value, THINKING_KEYS, place=f"{place}.{name}")


def to_snake_case(name: str) -> str:
    """Convert a known key from camelCase to snake_case. Return any other key unchanged."""
    return _SNAKE.get(name, name)


_KNOWN_LITELLM_KEYS = IGNORED_LITELLM_KEYS.union(LITELLM_KEYS)
_SNAKE = {to_camel(name): name for name in KEYS | THINKING_KEYS}


def _find_unknown_keys(config: Mapping[str, Any], known_keys: frozenset[str], *, place: str) -> Iterator[InvalidConfig]:
    for name in config:
        if to_snake_case(name) in known_keys:
            continue
        expected = "a key of GenerateContentConfig" if known_keys == KEYS else f"one of {', '.join(sorted(known_keys))}"
        if known_keys == _KNOWN_LITELLM_KEYS and to_snake_case(name) in KEYS:  # spelt correctly, but not supported
            found = f"the key {name!r}, which models of other providers do not receive"
        else:
            found = f"the unknown key {name!r}"
            expected += suggest_name(name, sorted({*known_keys, *map(to_camel, known_keys)}))
        yield InvalidConfig(place=f"{place}.{name}", found=found, expected=expected)
