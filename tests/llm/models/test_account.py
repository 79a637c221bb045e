"""Costs of model calls, sources of prices, and budgets that stop further requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from decimal import Decimal

import pytest

from tests.llm.conftest import request
from tests.llm.servers import Answer, HttpResponse, Server, gemini
from workbench.llm.model_types import ModelError, Trouble
from workbench.llm.models import Account, Budget, Models
from workbench.llm.prompt_templates import OwnPrice, Prices, Tokens, UnknownPrice, count_tokens
from workbench.model.results import ModelSpending, TokenUsage

Serve = Callable[[Answer], Server]
OpenModels = Callable[..., Models]
FLASH = "gemini-2.5-flash"
MILLION = Tokens(1_000_000, 1_000_000)


@pytest.mark.parametrize(
    "model", [FLASH, f"models/{FLASH}", f"publishers/google/models/{FLASH}", f"gemini/{FLASH}", f"vertex_ai/{FLASH}"]
)
def test_all_spellings_of_a_model_have_the_same_price(model: str) -> None:
    assert Prices().cost(model, MILLION) == Prices().cost(FLASH, MILLION) > 0


def test_models_of_other_providers_have_prices() -> None:
    assert Prices().cost("openai/gpt-4o", Tokens(1_000, 0)) > 0
    assert Prices().cost("anthropic/claude-sonnet-4-5", Tokens(1_000, 0)) > 0


def test_local_models_are_free() -> None:
    assert Prices().cost("ollama/llama3.2", MILLION) == 0


def test_settings_add_unknown_prices_and_override_known_ones() -> None:
    own = Prices({"openai/mine": OwnPrice(0.5, 1.5), FLASH: OwnPrice(0.0, 0.0)})

    assert own.cost("openai/mine", MILLION) == Decimal(2)
    assert own.cost(FLASH, MILLION) == 0
    with pytest.raises(
        UnknownPrice,
        match=r'the price of openai/mine is unknown: set input and output of \[judge.prices."openai/mine"\]',
    ):
        Prices().cost("openai/mine", MILLION)


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (TokenUsage(prompt=7, candidates=3, thoughts=2, total=12), Tokens(7, 5)),
        (TokenUsage(prompt=7, tool_use_prompt=1, candidates=3, cached=4), Tokens(8, 3, 4)),
        (TokenUsage(prompt=7, total=12), Tokens(7, 5)),
        (TokenUsage(prompt=7), None),
        (TokenUsage(prompt=-7, candidates=3, total=-4), None),
        (TokenUsage(total=12), None),
        (None, None),
    ],
)
def test_tokens_are_counted_only_if_the_model_reports_usage(usage: TokenUsage | None, tokens: Tokens | None) -> None:
    assert count_tokens(usage) == tokens


async def test_an_unknown_price_is_not_zero(serve: Serve, open_models: OpenModels) -> None:
    account = Account()
    models = open_models(serve(lambda _: gemini("yes")))

    await models.ask(request(), account=account)
    await models.ask(request(model=FLASH), account=account)

    unknown, known = account.list_spending()
    assert unknown.cost is None and "the price of gemini-test is unknown" in (unknown.cost_unknown or "")
    assert known.cost == pytest.approx(float(Prices().cost(FLASH, Tokens(7, 5))))


async def test_an_answer_without_usage_has_an_unknown_cost(serve: Serve, open_models: OpenModels) -> None:
    account = Account()
    body = {"candidates": [{"content": {"role": "model", "parts": [{"text": "yes"}]}, "finishReason": "STOP"}]}

    await open_models(serve(lambda _: HttpResponse(body))).ask(request(model=FLASH), account=account)

    (spent,) = account.list_spending()
    assert (spent.calls, spent.calls_without_usage, spent.cost) == (1, 1, None)


async def test_a_reply_without_text_is_charged(serve: Serve, open_models: OpenModels) -> None:
    server = serve(lambda _: gemini("", thoughts="hm", finish="MAX_TOKENS"))
    account = Account(Prices({"gemini-test": OwnPrice(0.0, 1_000_000)}), Budget(cost=9.0))
    models = open_models(server)

    troubles = [await _find_trouble(models, account, number) for number in range(3)]

    assert troubles == [Trouble.EMPTY, Trouble.EMPTY, Trouble.BUDGET]  # five tokens each, one dollar per token
    (spent,) = account.list_spending()
    assert (spent.calls, spent.failed, spent.input_tokens, spent.output_tokens, spent.cost) == (0, 2, 14, 10, 10.0)


async def test_a_call_budget_stops_further_requests(serve: Serve, open_models: OpenModels) -> None:
    messages: list[str] = []
    server = serve(lambda _: gemini("yes", seconds=0.02))
    account = Account(budget=Budget(calls=3), on_stop=messages.append)
    models = open_models(server)

    troubles = await asyncio.gather(*(_find_trouble(models, account, number) for number in range(8)))

    assert (troubles.count(None), troubles.count(Trouble.BUDGET), len(server.calls)) == (3, 5, 3)
    assert messages == ["the budget of 3 model calls is used up: raise --max-model-calls, or max_calls of [judge]"]


async def test_a_cost_budget_stops_further_requests(serve: Serve, open_models: OpenModels) -> None:
    server = serve(lambda _: gemini("yes"))
    account = Account(Prices({"gemini-test": OwnPrice(0.0, 1_000_000)}), Budget(cost=12.0))
    models = open_models(server, options={"concurrency": 1})

    troubles = await asyncio.gather(*(_find_trouble(models, account, number) for number in range(5)))

    assert troubles == [None, None, None, Trouble.BUDGET, Trouble.BUDGET]  # five tokens each, one dollar per token
    assert account.list_spending()[0].cost == 15.0


@pytest.mark.parametrize(
    ("before", "budget", "reason"),
    [
        (ModelSpending(model="gemini-test", calls=1, failed=1), Budget(calls=2), "the budget of 2 model calls"),
        (ModelSpending(model="another", calls=1, cost=3.0), Budget(cost=3.0), r"the budget of \$3 for models"),
        (
            ModelSpending(model="gemini-test", calls=1, cost=None, cost_unknown="nobody told"),
            Budget(cost=3.0),
            r"the budget of \$3 cannot be checked: nobody told",
        ),
    ],
)
async def test_earlier_spending_counts_against_the_budget_but_is_not_listed_again(
    serve: Serve, open_models: OpenModels, before: ModelSpending, budget: Budget, reason: str
) -> None:
    server = serve(lambda _: gemini("yes"))
    account = Account(Prices({"gemini-test": OwnPrice(0.0, 1.0)}), budget, earlier_spending=[before])

    with pytest.raises(ModelError, match=reason):
        await open_models(server).ask(request(), account=account)

    assert server.calls == []
    assert sum(spent.calls for spent in account.list_spending()) == 0


async def test_a_cost_budget_without_a_known_price_sends_no_request(serve: Serve, open_models: OpenModels) -> None:
    server = serve(lambda _: gemini("yes"))

    with pytest.raises(ModelError, match=r"the budget of \$1 cannot be checked: the price of gemini-test is unknown"):
        await open_models(server).ask(request(), account=Account(budget=Budget(cost=1.0)))

    assert server.calls == []


async def _find_trouble(models: Models, account: Account, number: int) -> Trouble | None:
    try:
        await models.ask(request(str(number)), account=account)
    except ModelError as error:
        return error.trouble
    return None
