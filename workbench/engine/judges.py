"""The models of a workspace, which judge and play users: asked with the keys of the target, answers kept in the
project."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

from workbench.engine.cost import prices_of
from workbench.engine.environment import environment_of
from workbench.engine.plan import Plan
from workbench.llm.account import Account, Budget
from workbench.llm.cache import Cache
from workbench.llm.models import ModelOptions, Models
from workbench.llm.recording import Recording, Replay
from workbench.llm.requests import Ask, ModelReply, ModelRequest
from workbench.llm.scripted import Script, read_script
from workbench.metrics.judges.options import MOST_SAMPLES
from workbench.model.spending import ModelSpending
from workbench.model.target import Target
from workbench.store.settings import JudgeSettings


class Judges:
    """Access to models, kept from run to run. Used on the engine's loop."""

    def __init__(self, root: Path, *, warn: Callable[[str], None]) -> None:
        self._cache = Cache(root, warn=warn)
        self._models: dict[tuple[frozenset[tuple[str, str]], ModelOptions, Script | None], Models] = {}

    def models_for(self, target: Target, settings: JudgeSettings) -> Models:
        """The models as this target's environment reaches them: what its `.env` says counts where nothing else does.

        Raises StoreError for a script of it that cannot be read.
        """
        options = ModelOptions(
            concurrency=settings.concurrency,
            per_minute=settings.requests_per_minute,
            tries=settings.tries,
            timeout_seconds=settings.timeout_seconds,
        )
        environment = environment_of(target)
        script = None if target.scripted_models is None else read_script(target.scripted_models)
        key = frozenset(environment.items()), options, script
        if key not in self._models:
            self._models[key] = Models(environment, options, replies=self._cache, script=script)
        return self._models[key]

    async def close(self) -> None:
        """Give connections and the file of answers back."""
        models, self._models = list(self._models.values()), {}
        await asyncio.gather(*(each.close() for each in models))
        await self._cache.close()


class JudgesOfRun:
    """How the judges of one run are asked: on its account, and from a file or into one where it says so."""

    def __init__(
        self,
        plan: Plan,
        settings: JudgeSettings,
        *,
        judges: Callable[[], Judges],
        changed: Callable[[], None],
        warn: Callable[[str], None],
        waits: Callable[[str, float], None],
    ) -> None:
        """`changed` hears of everything that is asked, `waits` of a model that is not asked for so many seconds.

        Raises StoreError where the file of calls will not do.
        """
        budget = Budget(calls=plan.limits.max_model_calls, cost=plan.limits.max_model_cost)
        self._account = Account(
            prices_of(settings), budget, before=plan.spent, changed=changed, stopped=warn, waits=waits
        )
        self._settings = settings
        self._use_cache = plan.options.use_cache
        self._judgement = plan.options.judgement
        self._judges = judges
        record, replay = plan.options.record_calls, plan.options.replay_calls
        self._recording = None if record is None else Recording(record)
        self._replay = None if replay is None else Replay(replay)

    def ask_for(self, target: Target) -> Ask:
        """What asks the models of a target."""
        if self._replay is not None:
            return _numbered(self._replayed(self._replay), self._judgement)
        models = self._judges().models_for(target, self._settings)
        ask = partial(models.ask, use_cache=self._use_cache, account=self._account)
        return _numbered(ask if self._recording is None else self._recording.of(ask), self._judgement)

    def spending(self) -> tuple[ModelSpending, ...]:
        """What was asked so far, without what the plan says was spent before."""
        return self._account.spending()

    def _replayed(self, replay: Replay) -> Ask:
        async def ask(request: ModelRequest) -> ModelReply:
            reply = await replay.ask(request)
            if not request.renewed:  # the same once more
                self._account.known(request.model)
            return reply

        return ask


def _numbered(ask: Ask, judgement: int) -> Ask:
    """Asks for the samples of this judgement: those of another have other numbers, and other answers in the cache."""

    async def ask_numbered(request: ModelRequest) -> ModelReply:
        return await ask(request.model_copy(update={"sample": request.sample + judgement * MOST_SAMPLES}))

    return ask_numbered if judgement else ask
