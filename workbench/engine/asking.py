"""How models are asked, by runs and beside them: opened with the first request, and what befalls the cache of all."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from workbench.engine.cost import prices_of
from workbench.engine.run import Run
from workbench.llm.account import Account, Budget
from workbench.llm.requests import Ask, ModelReply, ModelRequest
from workbench.llm.trouble import ModelError, Trouble
from workbench.model.target import Target
from workbench.store.errors import StoreError
from workbench.store.settings import JudgeSettings

if TYPE_CHECKING:
    from workbench.engine.judges import Judges  # with what asks models: not before one is asked


def opened_when_asked(open_models: Callable[[], Ask]) -> Ask:
    """Asks through what `open_models` gives, which is called with the first request.

    A file that will not do there (StoreError) is a ModelError for whoever asks.
    """
    opened: Ask | None = None

    async def ask(request: ModelRequest) -> ModelReply:
        nonlocal opened
        if opened is None:
            try:
                opened = open_models()
            except StoreError as error:
                raise ModelError(Trouble.NOT_RECORDED, str(error)) from error
        return await opened(request)

    return ask


def ask_outside_runs(target: Target, settings: JudgeSettings, *, judges: Callable[[], Judges]) -> Ask:
    """Asks the models of a target within the budgets of the settings, which count for this alone."""
    account = Account(prices_of(settings), Budget(calls=settings.max_calls, cost=settings.max_cost))
    return opened_when_asked(lambda: partial(judges().models_for(target, settings).ask, account=account))


class CacheWarnings:
    """What goes wrong with the cache that all share: told to the run that asks models, else to the next that does."""

    def __init__(self) -> None:
        self._run: Run | None = None
        self._untold: list[str] = []

    def tell(self, message: str) -> None:
        """Something went wrong, for whomever it was used."""
        if self._run is None or self._run.is_over:
            self._untold.append(message)
        else:
            self._run.warn(message)

    def tell_to(self, run: Run) -> None:
        """This run asks models from now on."""
        self._run = run
        untold, self._untold = self._untold, []
        for message in untold:
            run.warn(message)
