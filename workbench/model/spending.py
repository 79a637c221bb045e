"""What asking models has taken: calls, tokens and, where prices are known, money."""

from __future__ import annotations

from collections.abc import Iterable

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

    def and_then(self, more: ModelSpending) -> ModelSpending:
        """Both of the same model in one; what they cost is known where both costs are."""
        cost = None if self.cost is None or more.cost is None else self.cost + more.cost
        return ModelSpending(
            model=self.model,
            calls=self.calls + more.calls,
            cached=self.cached + more.cached,
            failed=self.failed + more.failed,
            input_tokens=self.input_tokens + more.input_tokens,
            output_tokens=self.output_tokens + more.output_tokens,
            untold=self.untold + more.untold,
            cost=cost,
            cost_unknown=self.cost_unknown if self.cost_unknown is not None else more.cost_unknown,
        )


def by_model(spendings: Iterable[ModelSpending]) -> tuple[ModelSpending, ...]:
    """What was asked of each model in several runs, in the order in which they were asked first."""
    found: dict[str, ModelSpending] = {}
    for each in spendings:
        found[each.model] = found[each.model].and_then(each) if each.model in found else each
    return tuple(found.values())
