"""What a model is asked, and what it answers: the same for all providers."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from pydantic import Field

from workbench.model.base import Fact
from workbench.model.results import TokenUsage


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
    def is_cut_off(self) -> bool:
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
