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

from workbench.model.base import Fact
from workbench.model.results import TokenUsage
from workbench.model.text import is_secret_key, is_short_word, one_line, redact

# What a model is asked, and what it answers: the same for all providers.


class Message(Fact):
    """One message of a conversation with a model."""

    role: Literal["user", "model"]
    text: str


class ModelRequest(Fact):
    """Everything that shapes an answer.

    `config` is a generation configuration in the words of the Gemini API (temperature, top_p, max_output_tokens,
    thinking_config ...), in snake_case or camelCase, as ADK's `judge_model_config` has it. `reply_schema` is a JSON
    schema that the reply is to follow, where the model can. `sample` tells requests apart that are equal otherwise:
    several opinions on one question. `purpose` says who asks, `user` or the name of a metric; it shapes no answer.
    `served_by` is the address that answers, where that is not the vendor's own: another server, another answer.
    `renewed`: what the cache has is of no use, and is to be replaced.
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
        """Equal exactly for requests that may get the same answer: the name of the answer in a cache or a record."""
        no_matter = {"purpose", "renewed"} if self.served_by else {"purpose", "renewed", "served_by"}
        data = self.model_dump(mode="json", exclude=no_matter)
        text = json.dumps(data, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


class ModelReply(Fact):
    """What a model answered.

    `finish` is why it stopped, in the provider's words (`STOP`, `MAX_TOKENS`, `stop`, `length`); `version` the model
    that did answer, where it says so. `seconds` is how long the answer took when it was given; `cached`: long ago.
    `scripted`: no model gave it, a script did. `renewed`: it took the place of one that could not be read.
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
        """Whether it ended because it was long enough, not because all was said."""
        return self.finish in ("MAX_TOKENS", "length")


Ask = Callable[[ModelRequest], Awaitable[ModelReply]]
"""Asks a model, or answers in its place. Raises ModelError."""


async def ask_for_readable(ask: Ask, request: ModelRequest, is_readable: Callable[[str], bool]) -> ModelReply:
    """The answer to a request, anew where the cache has one that cannot be read: once, as it may have been bad luck.

    Answers that were given just now are final, and so are those in the cache that were asked for anew: a model that
    gives nothing readable is not asked in every run. `is_readable` is called off the event loop. Raises ModelError.
    """
    reply = await ask(request)
    if not reply.cached or reply.renewed or await asyncio.to_thread(is_readable, reply.text):
        return reply
    return await ask(request.model_copy(update={"renewed": True}))


# What keeps a model from answering, in words for people, whoever the provider is.

LONGEST_WAIT = 60.0
"""Seconds. A service that wants to be left alone for longer is not waited for."""
_LONGEST = 300  # characters of a provider's own words


class Trouble(StrEnum):
    """Why there is no answer."""

    NO_KEY = "no key"
    DENIED = "denied"  # 401, 403: a wrong key, or one that may not
    NO_CREDIT = "no credit"  # 402: the account has to be paid for first
    UNKNOWN_MODEL = "unknown model"  # 404
    REFUSED = "refused"  # 400: the request is not as the provider wants it
    LIMITED = "limited"  # 429: too much at a time, or the quota is used up
    UNAVAILABLE = "unavailable"  # 408, 5xx, no connection
    TIMEOUT = "timeout"
    BLOCKED = "blocked"  # by the provider's safety filters
    EMPTY = "empty"  # an answer without text
    NO_LIBRARY = "no library"
    NOT_RECORDED = "not recorded"
    BUDGET = "budget"
    STOPPED = "stopped"  # an earlier request of the run has shown that asking is of no use

    @property
    def is_temporary(self) -> bool:
        """Whether the same request is worth another try."""
        return self in (Trouble.LIMITED, Trouble.UNAVAILABLE)

    @property
    def is_lasting(self) -> bool:
        """Whether every other request to the model would meet the same."""
        return self in _LASTING

    @property
    def is_outage(self) -> bool:
        """Whether neither who asks nor the answer is at fault."""
        return self.is_temporary or self is Trouble.TIMEOUT

    @property
    def is_unasked(self) -> bool:
        """Whether nobody was asked, and that on purpose: another run may."""
        return self in (Trouble.BUDGET, Trouble.NOT_RECORDED, Trouble.STOPPED)


_WORDS = {
    Trouble.DENIED: "the key was not accepted",
    Trouble.NO_CREDIT: "the account has no credit left",
    Trouble.UNKNOWN_MODEL: "there is no such model, or the key may not use it",
    Trouble.REFUSED: "the request was refused",
    Trouble.LIMITED: "too many requests, or the quota is used up",
    Trouble.UNAVAILABLE: "the service cannot be reached or has failed",
    Trouble.BLOCKED: "the answer was blocked",
    Trouble.EMPTY: "the answer has no text",
}
_LASTING = frozenset({Trouble.NO_KEY, Trouble.NO_LIBRARY, Trouble.DENIED, Trouble.NO_CREDIT, Trouble.UNKNOWN_MODEL})


class ModelError(Exception):
    """A model gave no answer.

    `retry_after` is how many seconds the provider wants to be left alone, `usage` what it took all the same, where it
    says so.
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
        """Whether the model need not be asked anything else: it will refuse, or wants too long to be left alone.

        One that is LIMITED was given the time to recover by what asks it.
        """
        too_long = self.retry_after is not None and self.retry_after > LONGEST_WAIT
        return self.trouble.is_lasting or self.trouble is Trouble.LIMITED or too_long


def classify_status(status: int) -> Trouble:
    """What an HTTP status means."""
    if status in (401, 403):
        return Trouble.DENIED
    if status == 402:
        return Trouble.NO_CREDIT
    if status == 404:
        return Trouble.UNKNOWN_MODEL
    if status == 429:
        return Trouble.LIMITED
    if status == 501:  # nor will it be there the next time
        return Trouble.REFUSED
    if status == 408 or status >= 500:
        return Trouble.UNAVAILABLE
    return Trouble.REFUSED


def describe_trouble(trouble: Trouble) -> str:
    """What went wrong, in a few words."""
    return _WORDS.get(trouble, trouble.value)


def parse_retry_after(retry_after: str | None) -> float | None:
    """The value of a `Retry-After` header, which may be a date, in seconds from now; None where it says nothing."""
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
    said: str,
    *,
    hint: str = "",
    retry_after: float | None = None,
    usage: TokenUsage | None = None,
) -> ModelError:
    """The error for a model, with the provider's own words and what to do about it."""
    own = f" ({one_line(redact(said), width=_LONGEST)})" if said else ""
    message = f"{model}: {describe_trouble(trouble)}{own}{f'; {hint}' if hint else ''}"
    return ModelError(trouble, message, retry_after=retry_after, usage=usage)


# Who answers for which model name.

_OF_SECRETS = ("_TOKEN", "_SECRET", "_PASSWORD")
_SHORTEST_SECRET = 6  # characters: shorter ones are words that stand in any text
_OF_ADDRESSES = ("_BASE_URL", "_API_BASE", "_API_BASE_URL", "_ENDPOINT")


class Provider(Protocol):
    """One vendor's library. Used on one event loop, several requests at a time."""

    async def prepare(self, model: str) -> None:
        """Load the library, off the event loop, and find the key for a model: before any clock runs.

        Raises ModelError.
        """

    async def ask(self, request: ModelRequest) -> ModelReply:
        """One answer, after `prepare`, without trying again. Raises ModelError.

        Trouble.REFUSED where it may be that the model cannot answer by the schema of the request. `seconds` and
        `cached` are set by the caller.
        """

    async def close(self) -> None:
        """Give connections back."""


VERTEX_EVALUATION = "vertex-evaluation/"
"""What the names of metrics begin with that the evaluation service of Vertex AI is asked for, in place of a model."""


def get_vendor(model: str) -> str:
    """Equal for models that the same provider answers for."""
    if model.startswith(VERTEX_EVALUATION):
        return VERTEX_EVALUATION
    return "google" if is_google_model(model) else "litellm"


def is_google_model(model: str) -> bool:
    """Whether google-genai answers for a model; LiteLLM does for `provider/model`.

    A name with a slash is LiteLLM's unless it is a resource name of the Gemini API or of Vertex AI.
    """
    return "/" not in model or model.startswith(("models/", "tunedModels/", "projects/", "publishers/"))


def uses_vertex(environment: Mapping[str, str]) -> bool:
    """Whether models of Google are those of a project of Vertex AI, not those of the Gemini API."""
    return environment.get("GOOGLE_GENAI_USE_VERTEXAI", "").lower() in ("1", "true")


def find_address(environment: Mapping[str, str]) -> str:
    """The servers that variables name in place of the vendors' own, as a short text; empty where they name none."""
    named = sorted((name, value) for name, value in environment.items() if name.endswith(_OF_ADDRESSES) and value)
    return hashlib.sha256(repr(named).encode()).hexdigest()[:16] if named else ""


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name holds a secret."""
    return is_secret_key(name) or name.upper().endswith(_OF_SECRETS)


def find_secrets(environment: Mapping[str, str]) -> frozenset[str]:
    """The values of variables whose names say that they are secrets."""
    return frozenset(
        value
        for name, value in environment.items()
        if len(value) >= _SHORTEST_SECRET and not is_short_word(value) and is_secret_name(name)
    )


def has_key(model: str, environment: Mapping[str, str]) -> bool:
    """Whether a model can be asked at all, as far as variables tell: LiteLLM knows best what its providers need."""
    if not is_google_model(model):
        return True
    if uses_vertex(environment):
        return True
    return any(environment.get(name) for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY"))
