"""What keeps a model from answering, in words for people, whoever the provider is."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum

from workbench.model.results import TokenUsage
from workbench.model.text import one_line, redact

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


def trouble_of_status(status: int) -> Trouble:
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


def words_for(trouble: Trouble) -> str:
    """What went wrong, in a few words."""
    return _WORDS.get(trouble, trouble.value)


def seconds_of(retry_after: str | None) -> float | None:
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
    own = f" ({one_line(redact(said), width=_LONGEST)})" if said else ""
    message = f"{model}: {words_for(trouble)}{own}{f'; {hint}' if hint else ''}"
    return ModelError(trouble, message, retry_after=retry_after, usage=usage)
