"""What asks models: through the cache, within the limits of each, again where an answer may come later."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt
from tenacity.wait import wait_random_exponential

from workbench.llm.account import Account
from workbench.llm.limits import AdaptiveLimit
from workbench.llm.provider import Provider, address_of, has_key, provider_for, secrets_in, vendor_of
from workbench.llm.requests import ModelReply, ModelRequest
from workbench.llm.trouble import ModelError, Trouble, failed

_LONGEST_WAIT = 60.0  # seconds between two tries


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """How models are asked. `tries` counts the first; `timeout_seconds` is for one try."""

    concurrency: int = 8
    per_minute: int | None = None
    tries: int = 5
    timeout_seconds: float = 120.0
    first_wait_seconds: float = 1.0


class Replies(Protocol):
    """Where answers are kept. A cache that fails must not cost an answer."""

    async def get(self, request: ModelRequest) -> ModelReply | None: ...

    async def put(self, request: ModelRequest, reply: ModelReply) -> None: ...


class Models:
    """Access to every model by its name, for one set of environment variables. Used on one event loop."""

    def __init__(
        self,
        environment: Mapping[str, str],
        options: ModelOptions | None = None,
        *,
        replies: Replies | None = None,
        script: Provider | None = None,
        provider_for: Callable[[str, Mapping[str, str]], Provider] = provider_for,
    ) -> None:
        """`replies` keeps answers from run to run; `script` answers for models that there is no key for."""
        self._environment = environment
        self._options = options or ModelOptions()
        self._replies = replies
        self._script = script
        self._provider_for = provider_for
        self._providers: dict[str, Provider] = {}
        self._limits: dict[str, AdaptiveLimit] = {}
        self._address = address_of(environment)
        self._secrets = secrets_in(environment)

    async def ask(self, request: ModelRequest, *, use_cache: bool = True, account: Account | None = None) -> ModelReply:
        """The answer of a model, from the cache where it has one unless a new one is wanted. Raises ModelError.

        What it takes is booked on the account, which may refuse it.
        """
        if self._script is not None and not has_key(request.model, self._environment):
            return await self._script.ask(request)
        account = account or Account()
        kept_as = request.model_copy(update={"served_by": self._address}) if self._address else request
        if self._replies is not None and use_cache and not request.renewed:
            known = await self._replies.get(kept_as)
            if known is not None:
                account.known(request.model)
                return known.model_copy(update={"cached": True})
        reply = await self._ask_until_answered(request, account)
        if self._replies is not None:
            await self._replies.put(kept_as, reply)
        return reply

    async def close(self) -> None:
        """Give connections back."""
        for provider in self._providers.values():
            await provider.close()
        self._providers.clear()

    async def _ask_until_answered(self, request: ModelRequest, account: Account) -> ModelReply:
        limit = self._limits.get(request.model)
        if limit is None:
            limit = AdaptiveLimit(self._options.concurrency, per_minute=self._options.per_minute)
            self._limits[request.model] = limit
        tries = AsyncRetrying(
            retry=retry_if_exception(_may_be_answered_later),
            stop=stop_after_attempt(self._options.tries),
            wait=_Wait(self._options.first_wait_seconds),
            reraise=True,
        )
        async for attempt in tries:
            with attempt:
                async with limit.slot():
                    try:
                        reply = await self._ask_once(request, account)
                    except ModelError as error:
                        if error.trouble is Trouble.LIMITED:
                            limit.too_many(retry_after=error.retry_after)
                        raise
                    limit.answered()
                    return reply
        raise AssertionError("tenacity raises what the last attempt raised")

    async def _ask_once(self, request: ModelRequest, account: Account) -> ModelReply:
        vendor = vendor_of(request.model)
        provider = self._providers.get(vendor)
        if provider is None:
            provider = self._providers[vendor] = self._provider_for(request.model, self._environment)
        await provider.prepare()
        await account.prepare()
        began = time.perf_counter()
        with account.one_try(request.model):
            try:
                reply = await self._answer_in_time(provider, request)
            except ModelError as error:  # services repeat the key that they do not accept
                raise error.without(self._secrets) from error
        account.answered(request.model, reply.usage)
        return reply.model_copy(update={"seconds": time.perf_counter() - began})

    async def _answer_in_time(self, provider: Provider, request: ModelRequest) -> ModelReply:
        try:
            async with asyncio.timeout(self._options.timeout_seconds) as deadline:
                return await provider.ask(request)
        except TimeoutError as error:
            if not deadline.expired():
                raise
            said = f"no answer within {self._options.timeout_seconds:g} s"
            raise failed(Trouble.TIMEOUT, request.model, said) from error


class _Wait:
    """As long as the service wants; else 1, 2, 4 ... seconds at most, at random so that nobody comes back together."""

    def __init__(self, first_seconds: float) -> None:
        self._by_chance = wait_random_exponential(multiplier=first_seconds, max=_LONGEST_WAIT)

    def __call__(self, state: RetryCallState) -> float:
        error = None if state.outcome is None else state.outcome.exception()
        wanted = error.retry_after if isinstance(error, ModelError) else None
        return self._by_chance(state) if wanted is None else min(wanted, _LONGEST_WAIT)


def _may_be_answered_later(error: BaseException) -> bool:
    return isinstance(error, ModelError) and error.trouble.is_temporary
