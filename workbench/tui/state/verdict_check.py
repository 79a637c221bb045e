"""Whether verdicts still hold: what is checked, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.model.keys import CaseKey
from workbench.store.history import StoredJob
from workbench.tui.state.board import ResultPlace
from workbench.tui.state.browser.content import Hashes

ShownVerdicts = Mapping[CaseKey, Mapping[int, ResultPlace | None]]
"""The verdicts that the screen shows, by case and repeat: where each is stored, None where that is not known."""


@dataclass(frozen=True, slots=True)
class CurrentVerdict:
    """A stored verdict that holds in place of the one shown, and the hashes it was given by."""

    stored: StoredJob
    hashes: Hashes


@dataclass(frozen=True, slots=True)
class CheckedVerdicts:
    """Some cases whose verdicts were checked.

    `stale` says why the verdicts of a case do not hold; `current` has, by repeat, the earlier ones that do.
    """

    cases: Sequence[CaseKey]
    stale: Mapping[CaseKey, Sequence[str]]
    current: Mapping[CaseKey, Mapping[int, CurrentVerdict]]
