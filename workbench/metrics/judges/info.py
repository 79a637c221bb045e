"""What there is to know about metrics that a judge model scores, as far as it is the same for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench.metrics.definition import MetricInfo
from workbench.metrics.judges.options import DESCRIPTION

_NONE: Mapping[str, str] = {}
_NO_CHOICES: Mapping[str, Sequence[str | bool]] = {}


def info_of_judge(
    name: str,
    *,
    purpose: str,
    when: str,
    columns: Sequence[str] = (),
    bounds: tuple[float, float] = (0.0, 1.0),
    options: Mapping[str, str] = _NONE,
    choices: Mapping[str, Sequence[str | bool]] = _NO_CHOICES,
) -> MetricInfo:
    """A metric for which a judge needs no expected answer, with its options besides those for the judge.

    `bounds` are the lowest and the highest score; for the rest see MetricInfo.
    """
    lowest, highest = bounds
    return MetricInfo(
        name=name,
        family="judge",
        purpose=purpose,
        when=when,
        lowest=lowest,
        highest=highest,
        needs_reference=False,
        needs=frozenset({"judge"}),
        fits_scenarios=True,
        columns=columns,
        options={**DESCRIPTION, **options},
        choices=choices,
    )
