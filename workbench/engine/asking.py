"""How models are asked, by runs and beside them: opened with the first request, and what befalls the cache of all."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from workbench.engine.cost import prices_of
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
