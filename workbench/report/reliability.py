"""How far repeats of one case can be relied on: pass rate with interval, pass@k, pass^k."""

from __future__ import annotations

from math import comb, sqrt

_Z = 1.959963984540054  # 95 % of a normal distribution lie within so many deviations


def wilson_interval(passed: int, total: int) -> tuple[float, float]:
    """Where the true pass rate lies with 95 % confidence (Wilson's score interval). `total` is at least 1."""
    rate, square = passed / total, _Z * _Z
    centre = (rate + square / (2 * total)) / (1 + square / total)
    half = _Z / (1 + square / total) * sqrt(rate * (1 - rate) / total + square / (4 * total * total))
    return max(centre - half, 0.0), min(centre + half, 1.0)


def pass_at(k: int, *, passed: int, total: int) -> float:
    """The chance that at least one of `k` repeats passes, estimated without bias. `k` is at most `total`."""
    return 1.0 - comb(total - passed, k) / comb(total, k)


def pass_all(k: int, *, passed: int, total: int) -> float:
    """The chance that all of `k` repeats pass (pass^k), estimated without bias. `k` is at most `total`."""
    return comb(passed, k) / comb(total, k)
