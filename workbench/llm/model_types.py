"""Requests, replies and errors of models, and the interface of providers."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any, Literal, Protocol

from pydantic import Field

from workbench.model.facts import Fact
from workbench.model.results import TokenUsage
from workbench.model.text import is_secret_key, is_short_word, one_line, redact

# Requests and replies, the same for all providers.


class Message(Fact):
    """One message of a conversation with a model."""

    role: Literal["user", "model"]
    text: str


class ModelRequest(Fact):
    """Everything that affects a reply.

    `config` is a generation configuration of the Gemini API (temperature, top_p, max_output_tokens,
    thinking_config ...), in snake_case or camelCase, like ADK's `judge_model_config`. `reply_schema` is a JSON schema
    for the reply; models that do not support it ignore it. `sample` numbers requests that are otherwise equal, for
    several opinions on one question. `purpose` is `user` or the name of a metric and does not affect the reply.
    `served_by` is the address of the server if it is not the vendor's own. `renewed`: replace the cached reply.
    """

    model: str
    messages: tuple[Message, ...]
    system: str | None = None
    config: dict[str, Any] = Field(default_factory=dict)
    reply_schema: dict[str, Any] | None = None
    sample: int = 0
    purpose: str = ""
    served_by: str = ""
    renewed: bool = False

    @property
    def key(self) -> str:
        """The key of the reply in a cache or recording: equal for requests that may share a reply."""
        ignored_fields = {"purpose", "renewed"} if self.served_by else {"purpose", "renewed", "served_by"}
        data = self.model_dump(mode="json", exclude=ignored_fields)
        text = json.dumps(data, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


class ModelReply(Fact):
    """The reply of a model.

    `finish` is the provider's reason to stop (`STOP`, `MAX_TOKENS`, `stop`, `length`). `version` is the model that
    answered, if the provider reports it. `seconds` is how long the model took. `cached`: it comes from the cache.
    `scripted`: it comes from a script. `renewed`: it replaced an unreadable reply.
    """

    text: str
    finish: str | None = None
    version: str | None = None
    usage: TokenUsage | None = None
    seconds: float = 0.0
    cached: bool = False
    scripted: bool = False
    renewed: bool = False

    @property
    def is_truncated(self) -> bool:
        """Whether the limit of tokens ended it."""
        return self.finish in ("MAX_TOKENS", "length")


Ask = Callable[[ModelRequest], Awaitable[ModelReply]]
"""Asks a model, a cache, a recording or a script. Raises ModelError."""


async def ask_for_readable(ask: Ask, request: ModelRequest, is_readable: Callable[[ModelReply], bool]) -> ModelReply:
    """Ask a model. If the cached reply is unreadable, ask once more, since another sample may be readable.

    New replies are final. So are cached replies that were renewed before: otherwise a model that never answers
    readably would be asked in every run. `is_readable` is called off the event loop. Raises ModelError.
    """
    reply = await ask(request)
    if not reply.cached or reply.renewed or await asyncio.to_thread(is_readable, reply):
        return reply
    return await ask(request.model_copy(update={"renewed": True}))


# Errors of models, the same for all providers.

LONGEST_WAIT = 60.0
"""Seconds. Requests are not retried if the service asks for a longer pause."""
_LONGEST = 300  # characters of a provider's own words


class Trouble(StrEnum):
    """Why there is no answer."""

    NO_KEY = "no key"
    DENIED = "denied"  # 401, 403: a wrong key, or one without permission
    NO_CREDIT = "no credit"  # 402: the account has no credit
    UNKNOWN_MODEL = "unknown model"  # 404
    REFUSED = "refused"  # 400: the provider does not accept the request
    LIMITED = "limited"  # 429: too much at a time, or the quota is used up
    UNAVAILABLE = "unavailable"  # 408, 5xx, no connection
    TIMEOUT = "timeout"
    BLOCKED = "blocked"  # by the provider's safety filters
    EMPTY = "empty"  # an answer without text
    NO_LIBRARY = "no library"
    NOT_RECORDED = "not recorded"
    BUDGET = "budget"
    STOPPED = "stopped"  # an earlier request of the run showed that the model does not answer

    @property
    def is_temporary(self) -> bool:
        """Whether a retry may succeed."""
        return self in (Trouble.LIMITED, Trouble.UNAVAILABLE)

    @property
    def is_lasting(self) -> bool:
        """Whether every other request to the model would fail the same way."""
        return self in _LASTING

    @property
    def is_outage(self) -> bool:
        """Whether the service failed: neither the request nor the reply is at fault."""
        return self.is_temporary or self is Trouble.TIMEOUT

    @property
    def is_unasked(self) -> bool:
        """Whether no model was asked, deliberately: another run may ask it."""
        return self in (Trouble.BUDGET, Trouble.NOT_RECORDED, Trouble.STOPPED)


_WORDS = {
    Trouble.DENIED: "the key was not accepted",
    Trouble.NO_CREDIT: "the account has no credit left",
    Trouble.UNKNOWN_MODEL: "the model does not exist, or the key may not use it",
    Trouble.REFUSED: "the request was refused",
    Trouble.LIMITED: "too many requests, or the quota is used up",
    Trouble.UNAVAILABLE: "the service cannot be reached or has failed",
    Trouble.BLOCKED: "the answer was blocked",
    Trouble.EMPTY: "the answer has no text",
}
_LASTING = frozenset({Trouble.NO_KEY, Trouble.NO_LIBRARY, Trouble.DENIED, Trouble.NO_CREDIT, Trouble.UNKNOWN_MODEL})


class ModelError(Exception):
    """A model gave no reply.

    `retry_after` is the pause in seconds that the provider asks for. `usage` are the tokens that it reports to have
    used nevertheless.
    """

    def __init__(
        self, trouble: Trouble, message: str, *, retry_after: float | None = None, usage: TokenUsage | None = None
    ) -> None:
        self.trouble = trouble
        self.message = one_line(redact(message))
        self.retry_after = retry_after
        self.usage = usage
        super().__init__(self.message)

    @property
    def ends_asking(self) -> bool:
        """Whether the run stops asking the model: it will refuse, or asks for too long a pause.

        LIMITED stops it too, because the limit has already waited for the quota.
        """
        too_long = self.retry_after is not None and self.retry_after > LONGEST_WAIT
        return self.trouble.is_lasting or self.trouble is Trouble.LIMITED or too_long


def classify_status(status: int) -> Trouble:
    """Map an HTTP status to a kind of trouble."""
    if status in (401, 403):
        return Trouble.DENIED
    if status == 402:
        return Trouble.NO_CREDIT
    if status == 404:
        return Trouble.UNKNOWN_MODEL
    if status == 429:
        return Trouble.LIMITED
    if status == 501:  # not implemented: a retry would not help
        return Trouble.REFUSED
    if status == 408 or status >= 500:
        return Trouble.UNAVAILABLE
    return Trouble.REFUSED


def describe_trouble(trouble: Trouble) -> str:
    """Describe a trouble in a few words."""
    return _WORDS.get(trouble, trouble.value)


def parse_retry_after(retry_after: str | None) -> float | None:
    """Parse a `Retry-After` header, a number or a date, as seconds from now; None if it is neither."""
    if retry_after is None:
        return None
    try:
        return max(0.0, float(retry_after))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(retry_after) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):  # no date, or one without a time zone
        return None


def make_model_error(
    trouble: Trouble,
    model: str,
    detail: str,
    *,
    hint: str = "",
    retry_after: float | None = None,
    usage: TokenUsage | None = None,
) -> ModelError:
    """Make the error of a model. `detail` is the explanation of the provider, `hint` what to do."""
    quoted_detail = f" ({one_line(redact(detail), width=_LONGEST)})" if detail else ""
    message = f"{model}: {describe_trouble(trouble)}{quoted_detail}{f'; {hint}' if hint else ''}"
    return ModelError(trouble, message, retry_after=retry_after, usage=usage)


# Providers, and which one answers for a model.

_SECRET_SUFFIXES = ("_TOKEN", "_SECRET", "_PASSWORD")
_SHORTEST_SECRET = 6  # characters: shorter values occur in any text
_ADDRESS_SUFFIXES = ("_BASE_URL", "_API_BASE", "_API_BASE_URL", "_ENDPOINT")


class Provider(Protocol):
    """One vendor's library. Used on one event loop, several requests at a time."""

    async def prepare(self, model: str) -> None:
        """Load the library off the event loop and find the key for a model, before any timeout begins.

        Raises ModelError.
        """

    async def ask(self, request: ModelRequest) -> ModelReply:
        """Return one reply, after `prepare` and without retries. Raises ModelError.

        The trouble is REFUSED if the model may not support the schema of the request. The caller sets `seconds` and
        `cached`.
        """

    async def close(self) -> None:
        """Close the connections."""


VERTEX_EVALUATION = "vertex-evaluation/"
"""Prefix of model names that denote metrics of the evaluation service of Vertex AI."""


def get_vendor(model: str) -> str:
    """Return a name that is equal for all models of one provider."""
    if model.startswith(VERTEX_EVALUATION):
        return VERTEX_EVALUATION
    return "google" if is_google_model(model) else "litellm"


def is_google_model(model: str) -> bool:
    """Whether google-genai answers for a model. LiteLLM answers for `provider/model`.

    Resource names of the Gemini API and of Vertex AI also contain slashes; google-genai answers for them.
    """
    return "/" not in model or model.startswith(("models/", "tunedModels/", "projects/", "publishers/"))


def uses_vertex(environment: Mapping[str, str]) -> bool:
    """Whether models of Google are those of a project of Vertex AI, not those of the Gemini API."""
    return environment.get("GOOGLE_GENAI_USE_VERTEXAI", "").lower() in ("1", "true")


def find_address(environment: Mapping[str, str]) -> str:
    """Return a short hash of the server addresses set by variables; empty if the vendors' own servers are used."""
    addresses = sorted(
        (name, value) for name, value in environment.items() if name.endswith(_ADDRESS_SUFFIXES) and value
    )
    return hashlib.sha256(repr(addresses).encode()).hexdigest()[:16] if addresses else ""


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name holds a secret."""
    return is_secret_key(name) or name.upper().endswith(_SECRET_SUFFIXES)


def find_secrets(environment: Mapping[str, str]) -> frozenset[str]:
    """Return the values of variables with names of secrets."""
    return frozenset(
        value
        for name, value in environment.items()
        if len(value) >= _SHORTEST_SECRET and not is_short_word(value) and is_secret_name(name)
    )


def has_key(model: str, environment: Mapping[str, str]) -> bool:
    """Whether the variables have a key for the model; always True for models of LiteLLM, which checks keys itself."""
    if not is_google_model(model):
        return True
    if uses_vertex(environment):
        return True
    return any(environment.get(name) for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY"))
