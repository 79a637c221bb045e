"""Models of other providers and of local servers, through LiteLLM (the extra `litellm`): `provider/model`."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from workbench.llm.gemini import (
    IGNORED_LITELLM_KEYS,
    LITELLM_KEYS,
    RAISE_LIMIT,
    describe_connection_error,
    to_snake_case,
)
from workbench.llm.model_types import (
    ModelError,
    ModelReply,
    ModelRequest,
    Trouble,
    classify_status,
    is_secret_name,
    make_model_error,
    parse_retry_after,
)
from workbench.model.installation import install_command
from workbench.model.results import TokenUsage

_NEED_KEY = frozenset({"anthropic", "cohere", "deepseek", "gemini", "groq", "mistral", "openai", "openrouter", "xai"})
"""Providers that need a key. A list, because loading the library takes seconds."""
_OTHER_KEYS = {"gemini": ("GOOGLE_API_KEY",), "cohere": ("CO_API_KEY",)}
_NO_KEY = re.compile(r"missing (credentials|[\w ]*api[ _]key)|unable to locate credentials|no key is set", re.I)
"""Messages of provider libraries without a key. LiteLLM gives them various statuses."""
_NO_CREDIT = re.compile(r"insufficient_quota|credit balance is too low", re.I)
"""Messages of OpenAI (429) and Anthropic (400) for an account without credit."""
_NO_SCHEMA = re.compile(r"response_format|json_schema", re.I)
"""Messages of local servers that do not support the reply format. Some send them with status 500."""
_TRACEBACK = "Traceback (most recent call last)"
"""LiteLLM appends its traceback to some messages."""
_TEMPORARY = {"Timeout": Trouble.TIMEOUT, "APIConnectionError": Trouble.UNAVAILABLE}


class LiteLLMProvider:
    """Asks any provider. Keys and addresses come from the variables of LiteLLM (`OPENAI_API_KEY` ...)."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._loading = asyncio.Lock()
        self._library: Any = None

    async def prepare(self, model: str) -> None:
        """See Provider."""
        if key_variables := find_missing_keys(model, self._environment):
            raise ModelError(Trouble.NO_KEY, f"{model}: {explain_missing_key(key_variables)}")
        async with self._loading:
            if self._library is None:
                self._library = await asyncio.to_thread(_load_library)

    async def ask(self, request: ModelRequest) -> ModelReply:
        """See Provider."""
        try:
            response = await self._library.acompletion(**_make_arguments(request, self._environment))
        except Exception as error:  # each provider raises its own types; status and name classify them
            raise _make_error(error, request.model) from error
        return _read_reply(response, request.model)

    async def close(self) -> None:
        """See Provider."""
        if self._library is not None:
            await self._library.close_litellm_async_clients()


def key_names(model: str) -> tuple[str, ...]:
    """Return the variables that may hold the key for a model, the usual one first."""
    return f"{_prefix(model)}_API_KEY", *_OTHER_KEYS.get(model.partition("/")[0], ())


def find_missing_keys(model: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that may hold the missing key; empty if one is set or no key is needed."""
    if model.partition("/")[0] not in _NEED_KEY:
        return ()
    names = key_names(model)
    # Some providers also accept a token under another name.
    prefix = f"{_prefix(model)}_"
    has_key = any(
        value and (name in names or (name.startswith(prefix) and (name.endswith("_KEY") or is_secret_name(name))))
        for name, value in environment.items()
    )
    return () if has_key else names


def explain_missing_key(names: Sequence[str]) -> str:
    """Say that a key is missing and which variables to set."""
    return f"no API key: set {' or '.join(names)} in the environment or in the agent's .env"


def address_names(model: str) -> tuple[str, str]:
    """Return the variables that may hold the address of the server."""
    return f"{_prefix(model)}_API_BASE", f"{_prefix(model)}_BASE_URL"


def _prefix(model: str) -> str:
    return model.partition("/")[0].upper().replace("-", "_")


def _load_library() -> Any:
    # Otherwise the import fetches a list of prices from the network.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    try:
        import litellm
    except ImportError as error:
        raise ModelError(
            Trouble.NO_LIBRARY, f"a model named provider/model needs LiteLLM: {install_command('litellm')}"
        ) from error
    litellm.suppress_debug_info = True  # it prints to the terminal otherwise
    litellm.telemetry = False
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)  # it logs remarks about replies on the terminal
    warnings.filterwarnings("ignore", message="Pydantic serializer warnings")  # as above
    return litellm


def _make_arguments(request: ModelRequest, environment: Mapping[str, str]) -> dict[str, Any]:
    messages = [
        {"role": "assistant" if message.role == "model" else "user", "content": message.text}
        for message in request.messages
    ]
    if request.system is not None:
        messages.insert(0, {"role": "system", "content": request.system})
    arguments: dict[str, Any] = {"model": request.model, "messages": messages, "num_retries": 0, "drop_params": True}
    for name, value in request.config.items():
        library_name = LITELLM_KEYS.get(to_snake_case(name))
        if library_name is not None:
            arguments[library_name] = value
        elif to_snake_case(name) not in IGNORED_LITELLM_KEYS:
            known_keys = ", ".join(sorted(LITELLM_KEYS))
            problem = (
                f"its configuration: {name} is not known for models of other providers; expected one of {known_keys}"
            )
            raise make_model_error(Trouble.REFUSED, request.model, problem)
    if request.reply_schema is not None:
        schema = {"name": "reply", "schema": request.reply_schema, "strict": False}
        arguments["response_format"] = {"type": "json_schema", "json_schema": schema}
    for argument, names in (("api_key", key_names(request.model)), ("api_base", address_names(request.model))):
        value = next((environment[name] for name in names if environment.get(name)), None)
        if value is not None:
            arguments[argument] = value
    return arguments


def _read_reply(response: Any, model: str) -> ModelReply:
    choice = response.choices[0] if response.choices else None
    text = (choice.message.content if choice is not None else None) or ""
    finish = None if choice is None else choice.finish_reason
    reported = getattr(response, "usage", None)
    usage = None
    # LiteLLM writes zeros if the server reports nothing.
    if reported is not None and (reported.prompt_tokens or reported.completion_tokens or reported.total_tokens):
        usage = TokenUsage(
            prompt=reported.prompt_tokens, candidates=reported.completion_tokens, total=reported.total_tokens
        )
    if not text:
        trouble = Trouble.BLOCKED if finish == "content_filter" else Trouble.EMPTY
        hint = RAISE_LIMIT if finish == "length" else ""
        raise make_model_error(trouble, model, finish or "", hint=hint, usage=usage)
    return ModelReply(text=text, finish=finish, version=response.model, usage=usage)


def _make_error(error: Exception, model: str) -> ModelError:
    if isinstance(error, ModelError):
        return error
    status = getattr(error, "status_code", None)
    name = type(error).__name__
    trouble = _TEMPORARY.get(name) or (classify_status(status) if isinstance(status, int) else Trouble.REFUSED)
    if trouble is not Trouble.REFUSED and _NO_KEY.search(str(error)):
        return make_model_error(Trouble.NO_KEY, model, str(error))
    if trouble is Trouble.UNAVAILABLE and _NO_SCHEMA.search(str(error)):
        trouble = Trouble.REFUSED
    if trouble in (Trouble.LIMITED, Trouble.REFUSED) and _NO_CREDIT.search(f"{error} {getattr(error, 'body', None)}"):
        trouble = Trouble.NO_CREDIT
    # LiteLLM drops the headers of most responses, but keeps those of the provider in an attribute.
    headers = getattr(error, "litellm_response_headers", None)
    retry_after = None if headers is None else parse_retry_after(headers.get("retry-after"))
    # For answers of the provider, the text of the library says most.
    problem = describe_connection_error(error) if trouble.is_outage else None
    text = f"{name}: {error}".partition(_TRACEBACK)[0].rstrip()
    return make_model_error(trouble, model, problem or text, retry_after=retry_after)
