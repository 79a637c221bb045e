"""The account of one run: what its models were asked, what that cost, and the budget beyond which nobody is asked."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from workbench.llm.prices import Prices, Tokens, UnknownPrice, tokens_of
from workbench.llm.trouble import ModelError, Trouble, words_for
from workbench.model.results import TokenUsage
from workbench.model.spending import ModelSpending

_WORTH_TELLING = 1.0  # seconds
_MOST_OUTAGES = 3
"""Different requests that a service failed at one after the other, each with all its tries, until nobody asks it."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How often models may be asked in a run (tries included), and for how many US dollars. None: without limit."""

    calls: int | None = None
    cost: float | None = None


@dataclass
class _Spent:
    calls: int = 0
    cached: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    untold: int = 0
    cost: Decimal = Decimal(0)
    cost_unknown: str | None = None


class Breaker:
    """Ends the asking of one model for the rest of a run, once it is known that it will not answer.

    Used on one event loop.
    """

    def __init__(self, model: str, *, tell: Callable[[str], None] | None, waits: Callable[[str, float], None]) -> None:
        """`tell` is given the reason, once; without it the breaker never trips. `waits`: see Account."""
        self._model = model
        self._tell = tell
        self._waits = waits
        self._trouble: Trouble | None = None
        self._waits_until = 0.0
        self._outages: set[object] = set()
        self._last_outage = 0.0
        self.tripped = asyncio.Event()
        """Set when the asking has ended: no request has to wait for its turn any longer."""

    def trip(self, error: ModelError) -> None:
        """End the asking for this reason. Raises ModelError where nothing was asked: the reason is known by then."""
        if self._tell is None:
            return
        if self._trouble is None:
            self._trouble = error.trouble
            self.tripped.set()
            wants = "" if error.retry_after is None else f", which wants {error.retry_after:,.0f} s without requests"
            self._tell(f"{error.message}; this run no longer asks {self._model}{wants}")
        if error.trouble in (Trouble.NO_KEY, Trouble.NO_LIBRARY):
            self.check()

    def count_outage(self, error: ModelError, *, prompt: object, began: float) -> None:
        """Count a request that was given up, and end the asking after several.

        A service may be away for a while, or fail at one prompt only: requests under way at the same time (`began` is
        of `time.monotonic`) and those with the same prompt count once, and an answer to any other begins anew.
        """
        if began >= self._last_outage and prompt not in self._outages:
            self._outages.add(prompt)
            self._last_outage = time.monotonic()
        if len(self._outages) >= _MOST_OUTAGES:
            self.trip(error)

    def forget_outages(self) -> None:
        """The service answers."""
        self._outages.clear()

    def check(self) -> None:
        """Raises ModelError where the asking has ended."""
        if self._trouble is not None:
            raise ModelError(Trouble.STOPPED, f"{self._model} was not asked: {words_for(self._trouble)}")

    async def sleep(self, seconds: float) -> None:
        """Wait, but not beyond the end of the asking."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.tripped.wait()

    def tell_wait(self, seconds: float) -> None:
        """Report that a request waits so long for the quota; several that wait together are reported once."""
        until = time.monotonic() + seconds
        if seconds >= _WORTH_TELLING and until > self._waits_until + _WORTH_TELLING:
            self._waits_until = until
            self._waits(self._model, seconds)


class Account:
    """Used on one event loop."""

    def __init__(
        self,
        prices: Prices | None = None,
        budget: Budget | None = None,
        *,
        before: Sequence[ModelSpending] = (),
        changed: Callable[[], None] = lambda: None,
        stopped: Callable[[str], None] | None = None,
        waits: Callable[[str, float], None] = lambda *_: None,
    ) -> None:
        """`before` was asked earlier on the same budget: it is charged, and not told again by `spending`.

        `changed` hears of everything that is booked; `waits` of a model that is not asked for so many seconds, for the
        sake of its quota. `stopped` hears, once each, why all models or one are not asked any more; without it only a
        budget ends the asking: there is no run whose other requests would meet the same.
        """
        self._prices = prices or Prices()
        self._budget = budget or Budget()
        self._changed = changed
        self._stopped = stopped
        self._waits = waits
        self._breakers: dict[tuple[object, str], Breaker] = {}
        self._spent: dict[str, _Spent] = {}
        self._before = tuple(before)
        self._tries = sum(each.calls + each.failed for each in before)
        self._under_way = 0
        self._said_exhausted = False
        self._loading = asyncio.Lock()
        self._is_loaded = False

    async def prepare(self) -> None:
        """Load what is needed to know prices, off the event loop."""
        if self._is_loaded:
            return
        async with self._loading:
            if not self._is_loaded:
                await asyncio.to_thread(self._prices.load)
                self._is_loaded = True

    def breaker(self, provider: object, model: str) -> Breaker:
        """What ends the asking of a model through this provider: with another key it may well answer."""
        key = provider, model
        if key not in self._breakers:
            self._breakers[key] = Breaker(model, tell=self._stopped, waits=self._waits)
        return self._breakers[key]

    def known(self, model: str) -> None:
        """Book an answer that cost nothing."""
        self._of(model).cached += 1
        self._changed()

    @contextlib.contextmanager
    def one_try(self, model: str) -> Iterator[None]:
        """Ask a model once; it failed where this raises. Raises ModelError before that where the budget is used up."""
        self._refuse_beyond_budget(model)
        spent = self._of(model)
        self._tries += 1
        self._under_way += 1
        try:
            yield
        except ModelError as error:
            spent.failed += 1
            if (tokens := tokens_of(error.usage)) is not None:
                self._book(model, tokens)  # an answer without text is paid for, too
            self._changed()
            raise
        finally:
            self._under_way -= 1

    def answered(self, model: str, usage: TokenUsage | None) -> None:
        """Book the answer to a try."""
        spent = self._of(model)
        spent.calls += 1
        tokens = tokens_of(usage)
        if tokens is None:
            spent.untold += 1
            spent.cost_unknown = f"{model} does not tell how many tokens its answers take"
        else:
            self._book(model, tokens)
        self._changed()

    def _book(self, model: str, tokens: Tokens) -> None:
        spent = self._of(model)
        spent.input_tokens += tokens.input
        spent.output_tokens += tokens.output
        try:
            spent.cost += self._prices.cost(model, tokens)
        except UnknownPrice as error:
            spent.cost_unknown = str(error)

    def spending(self) -> tuple[ModelSpending, ...]:
        """What was booked so far, by model."""
        return tuple(
            ModelSpending(
                model=model,
                calls=spent.calls,
                cached=spent.cached,
                failed=spent.failed,
                input_tokens=spent.input_tokens,
                output_tokens=spent.output_tokens,
                untold=spent.untold,
                cost=float(spent.cost) if spent.cost_unknown is None else None,
                cost_unknown=spent.cost_unknown,
            )
            for model, spent in self._spent.items()
        )

    def _of(self, model: str) -> _Spent:
        return self._spent.setdefault(model, _Spent())

    def _refuse_beyond_budget(self, model: str) -> None:
        reason = self._why_not(model)
        if reason is None:
            return
        if not self._said_exhausted:
            self._said_exhausted = True
            if self._stopped is not None:
                self._stopped(reason)
        raise ModelError(Trouble.BUDGET, reason)

    def _why_not(self, model: str) -> str | None:
        calls, cost = self._budget.calls, self._budget.cost
        if calls is not None and self._tries >= calls:
            return f"the budget of {calls:,} model calls is used up: raise --max-model-calls, or max_calls of [judge]"
        if cost is None:
            return None
        unknown = self._prices.why_unknown(model) or self._why_cost_unknown(model)
        if unknown is not None:
            return f"a budget of ${cost:g} cannot be kept: {unknown}"
        if self._expected_cost() >= cost:
            return f"the budget of ${cost:g} for models is used up: raise --max-model-cost, or max_cost of [judge]"
        return None

    def _why_cost_unknown(self, model: str) -> str | None:
        """Why nobody knows what a model has cost, now or before."""
        before = (each.cost_unknown for each in self._before if each.model == model)
        return self._of(model).cost_unknown or next(before, None)

    def _expected_cost(self) -> float:
        """What was spent, and what the calls under way will cost if they are like those before."""
        spent = float(sum(each.cost for each in self._spent.values())) + sum(each.cost or 0.0 for each in self._before)
        answers = sum(each.calls for each in self._spent.values()) + sum(each.calls for each in self._before)
        return spent * (1 + self._under_way / answers) if answers else spent
