"""What asking models has taken: calls, tokens and, where prices are known, money."""

from __future__ import annotations

from workbench.model.base import Fact


class ModelSpending(Fact):
    """What was asked of one model in a run.

    `calls` are answers that the model gave, `cached` those that were known and cost nothing, `failed` tries that got
    no answer. Tokens are of `calls`, as far as the model told them (of `untold` answers it did not), and of those
    `failed` in which it answered without a text. `cost` is in US dollars by list prices; None where it is not known,
    and then `cost_unknown` says why.
    """

    model: str
    calls: int = 0
    cached: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    untold: int = 0
    cost: float | None = 0.0
    cost_unknown: str | None = None

    @property
    def tokens(self) -> int:
        """All tokens that are known of."""
        return self.input_tokens + self.output_tokens
