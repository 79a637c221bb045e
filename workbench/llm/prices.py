"""What answers of models cost: by the list prices that genai-prices keeps, and by those that the settings give."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import NamedTuple

from workbench.llm.provider import is_of_google
from workbench.model.results import TokenUsage

_MILLION = 1_000_000
_AT_HOME = frozenset({"ollama", "ollama_chat", "lm_studio", "llamafile", "hosted_vllm", "docker_model_runner"})
"""Providers of LiteLLM whose models run on machines of one's own."""


class OwnPrice(NamedTuple):
    """US dollars for a million tokens."""

    input: float
    output: float


class UnknownPrice(Exception):
    """What a model costs is not known; the text says what to do about it."""


class Tokens(NamedTuple):
    """What is paid for in one answer: thinking is output, what the provider had cached is a part of the input."""

    input: int
    output: int
    cached_input: int = 0


def tokens_of(usage: TokenUsage | None) -> Tokens | None:
    """The tokens of an answer; None where the model did not tell both sides of it."""
    if usage is None or usage.prompt is None:
        return None
    given = usage.prompt + (usage.tool_use_prompt or 0)
    if usage.candidates is None and usage.thoughts is None:
        return None if usage.total is None else Tokens(given, max(usage.total - given, 0), usage.cached or 0)
    return Tokens(given, (usage.candidates or 0) + (usage.thoughts or 0), usage.cached or 0)


class Prices:
    """The price of every model by its name. `load` before anything else: off the event loop, as it reads a library."""

    def __init__(self, own: Mapping[str, OwnPrice] | None = None) -> None:
        """`own` counts before what the library says."""
        self._own = own or {}

    def load(self) -> None:
        """Import the library with its prices, which come with the first question."""
        self.why_unknown("gemini-2.5-flash")

    def cost(self, model: str, tokens: Tokens) -> Decimal:
        """US dollars for one answer. Raises UnknownPrice."""
        own = self._own.get(model)
        if own is not None:
            dollars = Decimal(repr(own.input)) * tokens.input + Decimal(repr(own.output)) * tokens.output
            return dollars / _MILLION
        name, provider = _of_library(model)
        if provider in _AT_HOME:
            return Decimal(0)
        from genai_prices import Usage, calc_price

        usage = Usage(input_tokens=tokens.input, output_tokens=tokens.output, cache_read_tokens=tokens.cached_input)
        try:
            return calc_price(usage, name, provider_id=provider).total_price
        except (LookupError, ValueError) as error:
            raise UnknownPrice(
                f'the price of {model} is not known: [judge.prices."{model}"] may give input and output, in US dollars '
                "for a million tokens"
            ) from error

    def why_unknown(self, model: str) -> str | None:
        """Why the price of a model is not known; None where it is."""
        try:
            self.cost(model, Tokens(1, 1))
        except UnknownPrice as error:
            return str(error)
        return None


def _of_library(model: str) -> tuple[str, str]:
    """The name and the provider by which the library knows a model."""
    if is_of_google(model):
        return model.rpartition("/")[2], "google"
    provider, _, name = model.partition("/")
    return name, provider
