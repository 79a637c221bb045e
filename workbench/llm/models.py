"""`Models`: requests with limits, retries, a cache and a budget."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Protocol, TypeVar

from aiolimiter import AsyncLimiter
from pydantic import ValidationError
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt
from tenacity.wait import wait_random_exponential

from workbench.llm.model_types import (
    LONGEST_WAIT,
    VERTEX_EVALUATION,
    ModelError,
    ModelReply,
    ModelRequest,
    Provider,
    Trouble,
    describe_trouble,
    find_address,
    find_secrets,
    get_vendor,
    has_key,
    is_google_model,
    make_model_error,
)
from workbench.llm.prompt_templates import Prices, Tokens, UnknownPrice, count_tokens
from workbench.model.results import ModelSpending, TokenUsage
from workbench.model.text import add_secrets, replace_surrogates
from workbench.store.errors import StoreError
from workbench.store.model_answers import ReplyStore

# The limit of parallel requests to a model: that of the settings, and less while the service refuses requests.

_LONGEST_WITHOUT_ANSWER = 120.0  # seconds of consecutive refusals
_BACKOFF = 4.0  # factor between waits: four waits outlast a quota per minute
_SLOWLY = 10  # near the refused number, growth takes this many times more replies


class AdaptiveLimit:
    """The limit of parallel requests to one model, at most `most`. Used on one event loop.

    After a refusal (429), only as many requests run as are being answered. Each reply raises the limit a little
    (additive increase). All requests pause if the service says how long, or if it refused the only request.
    """

    def __init__(self, most: int, *, per_minute: int | None = None, first_wait_seconds: float = 1.0) -> None:
        self._most = most
        self._first_wait_seconds = first_wait_seconds
        self._allowed = float(most)
        self._refused_at = math.inf  # this many parallel requests were refused
        self._running = 0
        self._active = 0  # running, without those that wait for the end of the pause
        self._answers = 0
        self._lone_refusals = 0  # refusals of single requests since the last reply
        self._first_refusal_at = 0.0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._paused_until = 0.0
        self._rate = None if per_minute is None else AsyncLimiter(max(1, per_minute // 6), 10.0)

    @property
    def capacity(self) -> int:
        """The number of requests that may run in parallel now."""
        return max(1, int(self._allowed))

    @contextlib.asynccontextmanager
    async def slot(
        self, *, interrupt: asyncio.Event | None = None, on_pause: Callable[[float], None] = lambda _: None
    ) -> AsyncIterator[int]:
        """Wait for a slot. Yield the number of replies so far, a parameter of `record_refusal`.

        `on_pause` is called with the seconds of a pause before it begins. `interrupt` ends the pause.
        """
        await self._acquire()
        try:
            await self._wait_for_pause(interrupt or asyncio.Event(), on_pause)
            if self._rate is not None:
                await self._rate.acquire()
            self._active += 1
            try:
                yield self._answers
            finally:
                self._active -= 1
        finally:
            self._running -= 1
            self._wake()

    def record_answer(self) -> None:
        """Raise the limit after a reply."""
        self._answers += 1
        self._lone_refusals = 0
        slowdown = _SLOWLY if self._allowed + 1 >= self._refused_at else 1
        self._allowed = min(self._most, self._allowed + 1 / (slowdown * self._allowed))
        if self._allowed > self._refused_at:
            self._refused_at = math.inf
        self._wake()

    def record_refusal(self, *, answers: int, retry_after: float | None, most: int) -> bool:
        """Lower the limit after a refusal (429). Return whether to retry; the retry waits for the pause.

        Call it within the slot of the request. `answers` is the number that the slot yielded. There is no retry if the
        pause exceeds a minute, or after `most` consecutive refusals of single requests.
        """
        others = self._active - 1
        self._refused_at = others + 1
        self._allowed = max(1.0, min(self._allowed, others))
        now = time.monotonic()
        wait = retry_after or 0.0
        if not others and self._answers == answers:
            if not self._lone_refusals:
                self._first_refusal_at = now
            self._lone_refusals += 1
            wait = self._compute_backoff() if retry_after is None else retry_after
            total_wait = now + wait - self._first_refusal_at
            if self._lone_refusals >= most or total_wait > _LONGEST_WITHOUT_ANSWER:
                self._lone_refusals = 0  # the next request starts counting again
                return False
        if wait > LONGEST_WAIT:
            return False
        self._paused_until = max(self._paused_until, now + wait)
        return True

    def _compute_backoff(self) -> float:
        longest = self._first_wait_seconds * _BACKOFF ** (self._lone_refusals - 1)
        return min(longest, LONGEST_WAIT) * random.uniform(0.75, 1.0)

    async def _wait_for_pause(self, interrupt: asyncio.Event, on_pause: Callable[[float], None]) -> None:
        while (
            seconds_left := self._paused_until - time.monotonic()
        ) > 0 and not interrupt.is_set():  # another refusal may extend the pause
            on_pause(seconds_left)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds_left):
                    await interrupt.wait()

    async def _acquire(self) -> None:
        if self._running < self.capacity and not self._waiting:
            self._running += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the slot was assigned at the same moment
                self._running -= 1
                self._wake()
            raise

    def _wake(self) -> None:
        while self._waiting and self._running < self.capacity:
            turn = self._waiting.popleft()
            if not turn.done():
                self._running += 1
                turn.set_result(None)


# The account of one run: calls of models, their cost, and the budget.

_SHORTEST_REPORTED_WAIT = 1.0  # seconds
_MOST_OUTAGES = 3
"""After this many different requests failed with all retries, the run stops asking the model."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Maximum calls to models in a run, retries included, and maximum cost in US dollars. None means no limit."""

    calls: int | None = None
    cost: float | None = None


@dataclass
class _Spending:
    calls: int = 0
    cached: int = 0
    replayed: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    calls_without_usage: int = 0
    cost: Decimal = Decimal(0)
    cost_unknown: str | None = None


class Breaker:
    """Stops requests to one model for the rest of a run, once the model is known not to answer.

    Used on one event loop.
    """

    def __init__(
        self, model: str, *, on_trip: Callable[[str], None] | None, on_wait: Callable[[str, float], None]
    ) -> None:
        """`on_trip` gets the reason, once. Without it the breaker never trips. `on_wait`: see Account."""
        self._model = model
        self._on_trip = on_trip
        self._on_wait = on_wait
        self._trouble: Trouble | None = None
        self._reported_wait_end = 0.0
        self._outages: set[object] = set()
        self._last_outage = 0.0
        self.tripped = asyncio.Event()
        """Set when the breaker has tripped, so that waiting requests end."""

    def trip(self, error: ModelError) -> None:
        """Stop further requests for this reason. Raises ModelError if no request was sent."""
        if self._on_trip is None:
            return
        if self._trouble is None:
            self._trouble = error.trouble
            self.tripped.set()
            wait = error.retry_after or 0.0
            request = f", which asks to wait {wait:,.0f} s" if wait > LONGEST_WAIT else ""  # shorter ones were kept
            self._on_trip(f"{error.message}; this run no longer calls {self._model}{request}")
        if error.trouble in (Trouble.NO_KEY, Trouble.NO_LIBRARY):
            self.check()

    def count_outage(self, error: ModelError, *, prompt: object, began: float) -> None:
        """Count a failed request, and trip after several.

        A service may be down for a moment, or fail for one prompt only. Therefore parallel requests and requests with
        the same prompt count once, and a reply resets the count. `began` is a time of `time.monotonic`.
        """
        if began >= self._last_outage and prompt not in self._outages:
            self._outages.add(prompt)
            self._last_outage = time.monotonic()
        if len(self._outages) >= _MOST_OUTAGES:
            self.trip(error)

    def forget_outages(self) -> None:
        """Reset the count after a reply."""
        self._outages.clear()

    def check(self) -> None:
        """Raise ModelError if the breaker has tripped."""
        if self._trouble is not None:
            raise ModelError(Trouble.STOPPED, f"{self._model} was not called: {describe_trouble(self._trouble)}")

    async def sleep(self, seconds: float) -> None:
        """Sleep, at most until the breaker trips."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.tripped.wait()

    def report_wait(self, seconds: float) -> None:
        """Report that a request waits for the quota. Requests that wait together are reported once."""
        until = time.monotonic() + seconds
        if seconds >= _SHORTEST_REPORTED_WAIT and until > self._reported_wait_end + _SHORTEST_REPORTED_WAIT:
            self._reported_wait_end = until
            self._on_wait(self._model, seconds)


class Account:
    """Counts the calls of a run and their cost, and enforces the budget. Used on one event loop."""

    def __init__(
        self,
        prices: Prices | None = None,
        budget: Budget | None = None,
        *,
        earlier_spending: Sequence[ModelSpending] = (),
        on_change: Callable[[], None] = lambda: None,
        on_stop: Callable[[str], None] | None = None,
        on_wait: Callable[[str, float], None] = lambda *_: None,
    ) -> None:
        """`earlier_spending` counts on the same budget. `list_spending` does not repeat it.

        `on_change` is called after every booking. `on_wait` is called with a model and the seconds that it waits for
        its quota. `on_stop` gets, once each, the reason why one or all models are no longer asked. Without it, only the
        budget stops requests: there is no run whose other requests would fail the same way.
        """
        self._prices = prices or Prices()
        self._budget = budget or Budget()
        self._on_change = on_change
        self._on_stop = on_stop
        self._on_wait = on_wait
        self._breakers: dict[tuple[object, str], Breaker] = {}
        self._spending: dict[str, _Spending] = {}
        self._earlier_spending = tuple(earlier_spending)
        self._tries = sum(each.calls + each.failed for each in earlier_spending)
        self._active_calls = 0
        self._is_exhaustion_reported = False
        self._loading = asyncio.Lock()
        self._is_loaded = False

    async def prepare(self) -> None:
        """Load the prices, off the event loop."""
        if self._is_loaded:
            return
        async with self._loading:
            if not self._is_loaded:
                await asyncio.to_thread(self._prices.load)
                self._is_loaded = True

    def breaker(self, provider: object, model: str) -> Breaker:
        """Return the breaker of a model. Each provider has its own, as the model may answer with another key."""
        key = provider, model
        if key not in self._breakers:
            self._breakers[key] = Breaker(model, on_trip=self._on_stop, on_wait=self._on_wait)
        return self._breakers[key]

    def book_cached(self, model: str) -> None:
        """Book a reply of the cache, which cost nothing."""
        self._get_spending(model).cached += 1
        self._on_change()

    def book_replayed(self, model: str) -> None:
        """Book a reply of a recording, which cost nothing."""
        self._get_spending(model).replayed += 1
        self._on_change()

    @contextlib.contextmanager
    def track_try(self, model: str) -> Iterator[None]:
        """Count one call to a model; it failed if it raises. Raises ModelError first if the budget is used up."""
        self._check_budget(model)
        spending = self._get_spending(model)
        self._tries += 1
        self._active_calls += 1
        try:
            yield
        except ModelError as error:
            spending.failed += 1
            if (tokens := count_tokens(error.usage)) is not None:
                self._book(model, tokens)  # a reply without text costs, too
            self._on_change()
            raise
        finally:
            self._active_calls -= 1

    def book_answer(self, model: str, usage: TokenUsage | None) -> None:
        """Book a reply."""
        spending = self._get_spending(model)
        spending.calls += 1
        tokens = count_tokens(usage)
        if tokens is None:
            spending.calls_without_usage += 1
            if not self._prices.is_free(model):
                spending.cost_unknown = f"{model} does not report how many tokens its answers use"
        else:
            self._book(model, tokens)
        self._on_change()

    def _book(self, model: str, tokens: Tokens) -> None:
        spending = self._get_spending(model)
        spending.input_tokens += tokens.input
        spending.output_tokens += tokens.output
        try:
            spending.cost += self._prices.cost(model, tokens)
        except UnknownPrice as error:
            spending.cost_unknown = str(error)

    def list_spending(self) -> tuple[ModelSpending, ...]:
        """List the bookings so far, by model."""
        return tuple(
            ModelSpending(
                model=model,
                calls=spending.calls,
                cached=spending.cached,
                replayed=spending.replayed,
                failed=spending.failed,
                input_tokens=spending.input_tokens,
                output_tokens=spending.output_tokens,
                calls_without_usage=spending.calls_without_usage,
                cost=float(spending.cost) if spending.cost_unknown is None else None,
                cost_unknown=spending.cost_unknown,
            )
            for model, spending in self._spending.items()
        )

    def _get_spending(self, model: str) -> _Spending:
        return self._spending.setdefault(model, _Spending())

    def _check_budget(self, model: str) -> None:
        reason = self._explain_refusal(model)
        if reason is None:
            return
        if not self._is_exhaustion_reported:
            self._is_exhaustion_reported = True
            if self._on_stop is not None:
                self._on_stop(reason)
        raise ModelError(Trouble.BUDGET, reason)

    def _explain_refusal(self, model: str) -> str | None:
        calls, cost = self._budget.calls, self._budget.cost
        if calls is not None and self._tries >= calls:
            return f"the budget of {calls:,} model calls is used up: raise --max-model-calls, or max_calls of [judge]"
        if cost is None:
            return None
        price_problem = self._prices.explain_unknown(model) or self._explain_unknown_cost(model)
        if price_problem is not None:
            return f"the budget of ${cost:g} cannot be checked: {price_problem}"
        if self._predict_cost() >= cost:
            return f"the budget of ${cost:g} for models is used up: raise --max-model-cost, or max_cost of [judge]"
        return None

    def _explain_unknown_cost(self, model: str) -> str | None:
        """Return why the cost of a model is unknown, now or before; None if it is known."""
        earlier_problems = (each.cost_unknown for each in self._earlier_spending if each.model == model)
        return self._get_spending(model).cost_unknown or next(earlier_problems, None)

    def _predict_cost(self) -> float:
        """Add to the spending the expected cost of the running calls, by the mean of earlier calls."""
        spent = float(sum(each.cost for each in self._spending.values())) + sum(
            each.cost or 0.0 for each in self._earlier_spending
        )
        answers = sum(each.calls for each in self._spending.values()) + sum(
            each.calls for each in self._earlier_spending
        )
        return spent * (1 + self._active_calls / answers) if answers else spent


# Requests through the cache, within limits, and with retries.


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Limits of requests. `tries` includes the first; `timeout_seconds` applies to one try."""

    concurrency: int = 8
    per_minute: int | None = None
    tries: int = 5
    timeout_seconds: float = 120.0
    first_wait_seconds: float = 1.0


def open_provider(model: str, environment: Mapping[str, str]) -> Provider:
    """Open the provider of a model. Keys and addresses come from `environment`."""
    # The libraries of providers take long to import: only those in use are.
    if model.startswith(VERTEX_EVALUATION):
        from workbench.llm.gemini import VertexEvaluation

        return VertexEvaluation(environment)
    if is_google_model(model):
        from workbench.llm.gemini import Gemini

        return Gemini(environment)
    from workbench.llm.litellm_provider import LiteLLMProvider

    return LiteLLMProvider(environment)


class Replies(Protocol):
    """A cache of replies. Its errors must not fail a request."""

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
        open_provider: Callable[[str, Mapping[str, str]], Provider] = open_provider,
    ) -> None:
        """`replies` is the cache; `script` answers for models without a key."""
        self._environment = environment
        self._options = options or ModelOptions()
        self._replies = replies
        self._script = script
        self._open_provider = open_provider
        self._providers: dict[str, Provider] = {}
        self._limits: dict[str, AdaptiveLimit] = {}
        self._without_schema: set[str] = set()  # models that cannot answer by a schema
        self._address = find_address(environment)
        add_secrets(find_secrets(environment))  # error messages of services contain the rejected key

    async def ask(self, request: ModelRequest, *, use_cache: bool = True, account: Account | None = None) -> ModelReply:
        """Return the reply of a model, from the cache if it has one and the request allows it. Raises ModelError.

        The call is booked on the account, which raises ModelError if the budget is used up.
        """
        if self._script is not None and not has_key(request.model, self._environment):
            return await self._script.ask(request)
        account = account or Account()
        cache_request = request.model_copy(update={"served_by": self._address}) if self._address else request
        if self._replies is not None and use_cache and not request.renewed:
            cached_reply = await self._replies.get(cache_request)
            if cached_reply is not None:
                account.book_cached(request.model)
                return cached_reply.model_copy(update={"cached": True})
        reply = await self._ask_until_answered(request, account)
        if request.renewed:
            reply = reply.model_copy(update={"renewed": True})
        if self._replies is not None:
            await self._replies.put(cache_request, reply)
        return reply

    async def close(self) -> None:
        """Give connections back."""
        for provider in self._providers.values():
            await provider.close()
        self._providers.clear()

    async def _ask_until_answered(self, request: ModelRequest, account: Account) -> ModelReply:
        """Retry while the service cannot be reached. Lasting errors and repeated outages trip the breaker."""
        provider = self._get_provider(request.model)
        breaker = account.breaker(provider, request.model)
        tries = AsyncRetrying(
            retry=retry_if_exception(_is_unavailable),
            stop=stop_after_attempt(self._options.tries),
            wait=_Wait(self._options.first_wait_seconds),
            sleep=breaker.sleep,
            reraise=True,
        )
        start_times: list[float] = []
        try:
            async for attempt in tries:
                with attempt:
                    return await self._ask_within_quota(provider, request, account, breaker, start_times)
        except ModelError as error:
            if error.ends_asking:
                breaker.trip(error)
            elif error.trouble.is_outage and start_times:
                breaker.count_outage(error, prompt=(request.system, request.messages), began=start_times[0])
            raise
        raise AssertionError("tenacity raises what the last attempt raised")

    async def _ask_within_quota(
        self, provider: Provider, request: ModelRequest, account: Account, breaker: Breaker, start_times: list[float]
    ) -> ModelReply:
        """Repeat a refused request (429) while other requests are answered. `start_times` collects the start times."""
        limit = self._limits.get(request.model)
        if limit is None:
            options = self._options
            limit = self._limits[request.model] = AdaptiveLimit(
                options.concurrency, per_minute=options.per_minute, first_wait_seconds=options.first_wait_seconds
            )
        while True:
            async with limit.slot(interrupt=breaker.tripped, on_pause=breaker.report_wait) as answers:
                breaker.check()
                start_times.append(time.monotonic())
                try:
                    reply = await self._ask_once(provider, request, account)
                except ModelError as error:
                    if not error.trouble.is_outage and not error.trouble.is_unasked:
                        breaker.forget_outages()  # the service responded, so there is no outage
                    is_refused = error.trouble is Trouble.LIMITED
                    if not is_refused or not limit.record_refusal(
                        answers=answers, retry_after=error.retry_after, most=self._options.tries
                    ):
                        raise
                else:
                    limit.record_answer()
                    breaker.forget_outages()
                    return reply

    async def _ask_once(self, provider: Provider, request: ModelRequest, account: Account) -> ModelReply:
        """Ask once; again without the schema if the model does not support it."""
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
        with account.track_try(request.model):
            reply = await self._answer_in_time(provider, request)
        account.book_answer(request.model, reply.usage)
        text = replace_surrogates(reply.text)  # neither the cache nor the history can store them
        return reply.model_copy(update={"seconds": time.perf_counter() - began, "text": text})

    def _get_provider(self, model: str) -> Provider:
        vendor = get_vendor(model)
        if vendor not in self._providers:
            self._providers[vendor] = self._open_provider(model, self._environment)
        return self._providers[vendor]

    async def _answer_in_time(self, provider: Provider, request: ModelRequest) -> ModelReply:
        try:
            async with asyncio.timeout(self._options.timeout_seconds) as deadline:
                return await provider.ask(request)
        except TimeoutError as error:
            if not deadline.expired():
                raise
            problem = f"no answer within {self._options.timeout_seconds:g} s"
            raise make_model_error(Trouble.TIMEOUT, request.model, problem) from error


class _Wait:
    """The pause that the service asks for, else random up to 1, 2, 4 ... seconds, so that retries do not coincide."""

    def __init__(self, first_seconds: float) -> None:
        self._by_chance = wait_random_exponential(multiplier=first_seconds, max=LONGEST_WAIT)

    def __call__(self, state: RetryCallState) -> float:
        error = None if state.outcome is None else state.outcome.exception()
        retry_after = error.retry_after if isinstance(error, ModelError) else None
        return self._by_chance(state) if retry_after is None else retry_after


def _is_unavailable(error: BaseException) -> bool:
    return isinstance(error, ModelError) and error.trouble is Trouble.UNAVAILABLE and not error.ends_asking


def _without_schema(request: ModelRequest) -> ModelRequest:
    return request if request.reply_schema is None else request.model_copy(update={"reply_schema": None})


# The cache of replies. If it fails, models are asked.

T = TypeVar("T")


class Cache:
    """The cached replies of one project. The file is opened on first use, off the event loop."""

    def __init__(self, root: Path, *, warn: Callable[[str], None]) -> None:
        """`warn` receives once the reason why replies are not cached."""
        self._root = root
        self._warn = warn
        self._store: ReplyStore | None = None
        self._trouble: StoreError | None = None
        self._is_trouble_reported = False
        self._is_closed = False
        # One thread instead of a lock: a cancelled caller stops waiting while its action completes in the thread.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="replies")

    async def get(self, request: ModelRequest) -> ModelReply | None:
        """Return the cached reply to a request."""
        text = await self._run_off_loop(lambda store: store.get(request.key), reads=True)
        if text is None:
            return None
        try:
            return ModelReply.model_validate_json(text)
        except ValidationError:  # written by another version
            return None

    async def put(self, request: ModelRequest, reply: ModelReply) -> None:
        """Store a reply."""
        await self._run_off_loop(lambda store: store.put(request.key, reply.model_dump_json(exclude_defaults=True)))

    async def close(self) -> None:
        """Close the file after pending actions. The cache is then empty and stores nothing."""
        self._is_closed = True
        closing = asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown(wait=False)
        await closing

    # `action` makes keys and texts off the loop: those of a thousand requests would block it.
    async def _run_off_loop(self, action: Callable[[ReplyStore], T], *, reads: bool = False) -> T | None:
        result = None
        if self._may_try(reads=reads) and not self._is_closed:
            result = await asyncio.get_running_loop().run_in_executor(self._thread, self._run_action, action, reads)
        if self._trouble is not None and not self._is_trouble_reported:
            self._is_trouble_reported = True
            self._warn(f"answers of models are not cached: {self._trouble}")
        return result

    def _may_try(self, *, reads: bool) -> bool:
        """A file that cannot be written, as on a full disk, is still read."""
        return self._trouble is None or (reads and self._store is not None)

    def _run_action(self, action: Callable[[ReplyStore], T], reads: bool) -> T | None:
        if not self._may_try(reads=reads):
            return None
        try:
            if self._store is None:
                self._store = ReplyStore(self._root)
            return action(self._store)
        except StoreError as error:
            self._trouble = error  # the next call that is not cancelled reports it
            if reads:
                self._close()
            return None

    def _close(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()
