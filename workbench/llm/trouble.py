"""What keeps a model from answering, in words for people, whoever the provider is."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from workbench.model.results import TokenUsage
from workbench.model.text import REDACTED, one_line, redact

_LONGEST = 300  # characters of a provider's own words


class Trouble(StrEnum):
    """Why there is no answer."""

    NO_KEY = "no key"
    DENIED = "denied"  # 401, 403: a wrong key, or one that may not
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

    @property
    def is_temporary(self) -> bool:
        """Whether the same request is worth another try."""
        return self in (Trouble.LIMITED, Trouble.UNAVAILABLE)

    @property
    def is_outage(self) -> bool:
        """Whether neither who asks nor the answer is at fault."""
        return self.is_temporary or self is Trouble.TIMEOUT

    @property
    def is_unasked(self) -> bool:
        """Whether nobody was asked, and that on purpose: another run may."""
        return self in (Trouble.BUDGET, Trouble.NOT_RECORDED)


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

    def without(self, secrets: Iterable[str]) -> ModelError:
        """The same with these values left out of the message."""
        message = self.message
        for secret in sorted(secrets, key=len, reverse=True):
            message = message.replace(secret, REDACTED)
        return ModelError(self.trouble, message, retry_after=self.retry_after, usage=self.usage)


def trouble_of_status(status: int) -> Trouble:
    """What an HTTP status means."""
    if status in (401, 403):
        return Trouble.DENIED
    if status == 404:
        return Trouble.UNKNOWN_MODEL
    if status == 429:
        return Trouble.LIMITED
    if status == 408 or status >= 500:
        return Trouble.UNAVAILABLE
    return Trouble.REFUSED


def failed(
    trouble: Trouble,
    model: str,
    said: str,
    *,
    hint: str = "",
    retry_after: float | None = None,
    usage: TokenUsage | None = None,
) -> ModelError:
    """The error for a model, with the provider's own words and what to do about it."""
    words = {
        Trouble.DENIED: "the key was not accepted",
        Trouble.UNKNOWN_MODEL: "there is no such model, or the key may not use it",
        Trouble.REFUSED: "the request was refused",
        Trouble.LIMITED: "too many requests, or the quota is used up",
        Trouble.UNAVAILABLE: "the service cannot be reached or has failed",
        Trouble.BLOCKED: "the answer was blocked",
        Trouble.EMPTY: "the answer has no text",
    }.get(trouble, trouble.value)
    own = f" ({one_line(said, width=_LONGEST)})" if said else ""
    message = f"{model}: {words}{own}{f'; {hint}' if hint else ''}"
    return ModelError(trouble, message, retry_after=retry_after, usage=usage)
