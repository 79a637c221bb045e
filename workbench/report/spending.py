"""What models that judge or play users were asked and what that cost, in words."""

from __future__ import annotations

import math
from collections.abc import Iterable

from workbench.model.spending import ModelSpending
from workbench.model.text import counted

_LEAST = 0.000001


def spending_line(spent: ModelSpending) -> str:
    """One model in a line: `model gemini-2.5-flash: 20 calls, 4 known from before, 240 tokens, $0.0012`."""
    parts = [counted(spent.calls, "call")]
    if spent.cached:
        parts.append(f"{spent.cached:,} known from before")
    if spent.failed:
        parts.append(f"{spent.failed:,} {'try' if spent.failed == 1 else 'tries'} without an answer")
    if spent.calls:
        parts.append(counted(spent.tokens, "token") + (f" and more in {spent.untold:,} calls" if spent.untold else ""))
        parts.append(cost_text(spent.cost))
    why = f" ({spent.cost_unknown})" if spent.cost_unknown is not None else ""
    return f"model {spent.model}: {', '.join(parts)}{why}"


def cost_text(dollars: float | None) -> str:
    """US dollars for people, with two digits that count: `$1.23`, `$0.0012`."""
    if dollars is None:
        return "cost unknown"
    if dollars == 0:
        return "$0"
    if dollars < _LEAST:
        return "less than $0.000001"
    if dollars >= 1:
        return f"${dollars:,.2f}"
    digits = 2
    while digits < 6 and dollars < 10 ** (1 - digits):
        digits += 1
    return f"${dollars:.{digits}f}"


def spending_text(models: Iterable[ModelSpending]) -> str:
    """All models in a few words: `20 model calls (+4 known) $0.0012`."""
    asked = list(models)
    calls, known = sum(spent.calls for spent in asked), sum(spent.cached for spent in asked)
    cost = f" {cost_text(_total(asked))}" if calls else ""
    more = f" (+{known:,} known)" if known else ""
    return f"{calls:,} model {'call' if calls == 1 else 'calls'}{more}{cost}" if asked else ""


def quota_wait_text(seconds: float) -> str:
    """That a model is not asked for so many seconds: `waiting 40 s for quota`."""
    return f"waiting {math.ceil(seconds)} s for quota"


def _total(models: Iterable[ModelSpending]) -> float | None:
    costs = [spent.cost for spent in models]
    return None if None in costs else sum(cost for cost in costs if cost is not None)
