"""What asks models: through the cache, within the limits of each, again where an answer may come later."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt
from tenacity.wait import wait_random_exponential

from workbench.llm.account import Account, Breaker
from workbench.llm.limits import AdaptiveLimit
from workbench.llm.provider import Provider, address_of, has_key, provider_for, secrets_in, vendor_of
from workbench.llm.requests import ModelReply, ModelRequest
from workbench.llm.trouble import LONGEST_WAIT, ModelError, Trouble, failed
from workbench.model.text import add_secrets


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
        self._without_schema: set[str] = set()  # models that cannot answer by a schema
        self._address = address_of(environment)
        add_secrets(secrets_in(environment))  # services repeat the key that they do not accept

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
        if request.renewed:
            reply = reply.model_copy(update={"renewed": True})
        if self._replies is not None:
            await self._replies.put(kept_as, reply)
        return reply

    async def close(self) -> None:
        """Give connections back."""
        for provider in self._providers.values():
            await provider.close()
        self._providers.clear()

    async def _ask_until_answered(self, request: ModelRequest, account: Account) -> ModelReply:
        """Try again where the service cannot be reached; what will stay as it is ends the asking of the model, and so
        does a service that fails at one request after the other."""
        provider = self._provider_of(request.model)
        breaker = account.breaker(provider, request.model)
        tries = AsyncRetrying(
            retry=retry_if_exception(_is_unavailable),
            stop=stop_after_attempt(self._options.tries),
            wait=_Wait(self._options.first_wait_seconds),
            sleep=breaker.sleep,
            reraise=True,
        )
        asked: list[float] = []
        try:
            async for attempt in tries:
                with attempt:
                    return await self._ask_within_quota(provider, request, account, breaker, asked)
        except ModelError as error:
            if error.ends_asking:
                breaker.trip(error)
            elif error.trouble.is_outage and asked:
                breaker.count_outage(error, prompt=(request.system, request.messages), began=asked[0])
            raise
        raise AssertionError("tenacity raises what the last attempt raised")

    async def _ask_within_quota(
        self, provider: Provider, request: ModelRequest, account: Account, breaker: Breaker, asked: list[float]
    ) -> ModelReply:
        """A request that was too much for the service has its turn again, as long as others are answered.

        `asked` gets when it was asked.
        """
        limit = self._limits.get(request.model)
        if limit is None:
            options = self._options
            limit = self._limits[request.model] = AdaptiveLimit(
                options.concurrency, per_minute=options.per_minute, first_wait_seconds=options.first_wait_seconds
            )
        while True:
            async with limit.slot(ended=breaker.tripped, waits=breaker.tell_wait) as answers:
                breaker.check()
                asked.append(time.monotonic())
                try:
                    reply = await self._ask_once(provider, request, account)
                except ModelError as error:
                    if not error.trouble.is_outage and not error.trouble.is_unasked:
                        breaker.forget_outages()  # it refused, blocked or said nothing, and so it is there
                    is_refused = error.trouble is Trouble.LIMITED
                    if not is_refused or not limit.refused(
                        answers=answers, retry_after=error.retry_after, most=self._options.tries
                    ):
                        raise
                else:
                    limit.answered()
                    breaker.forget_outages()
                    return reply

    async def _ask_once(self, provider: Provider, request: ModelRequest, account: Account) -> ModelReply:
        """One answer; where the model cannot answer by a schema, without one."""
        await provider.prepare(request.model)
        await account.prepare()
        if not request.reply_schema or request.model in self._without_schema:
            return await self._try_once(provider, _without_schema(request), account)
        try:
            return await self._try_once(provider, request, account)
        except ModelError as error:
            if error.trouble is not Trouble.REFUSED:
                raise
        reply = await self._try_once(provider, _without_schema(request), account)
        self._without_schema.add(request.model)
        return reply

    async def _try_once(self, provider: Provider, request: ModelRequest, account: Account) -> ModelReply:
        began = time.perf_counter()
        with account.one_try(request.model):
            reply = await self._answer_in_time(provider, request)
        account.answered(request.model, reply.usage)
        return reply.model_copy(update={"seconds": time.perf_counter() - began})

    def _provider_of(self, model: str) -> Provider:
        vendor = vendor_of(model)
        if vendor not in self._providers:
            self._providers[vendor] = self._provider_for(model, self._environment)
        return self._providers[vendor]

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
        self._by_chance = wait_random_exponential(multiplier=first_seconds, max=LONGEST_WAIT)

    def __call__(self, state: RetryCallState) -> float:
        error = None if state.outcome is None else state.outcome.exception()
        wanted = error.retry_after if isinstance(error, ModelError) else None
        return self._by_chance(state) if wanted is None else wanted


def _is_unavailable(error: BaseException) -> bool:
    return isinstance(error, ModelError) and error.trouble is Trouble.UNAVAILABLE and not error.ends_asking


def _without_schema(request: ModelRequest) -> ModelRequest:
    return request if request.reply_schema is None else request.model_copy(update={"reply_schema": None})
