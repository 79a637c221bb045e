"""How much a change may cost by itself: what is more waits until the user wants it."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.model.text import counted
from workbench.store.settings import WatchSettings
from workbench.watch.selection import Action, Decision


def beyond_cap(work: Sequence[Decision], settings: WatchSettings) -> str:
    """How running the agents of these is more than is wanted for one change, in words; empty where it is not.

    Judging again what an agent did costs nothing. A case counts once, the turns of all its repeats; one whose turns a
    simulated user decides counts as one turn.
    """
    ran = [each for each in work if each.action is not Action.JUDGE and each.planned.needs_agent]
    cases = len({each.job.case for each in ran})
    if settings.max_cases_per_change is not None and cases > settings.max_cases_per_change:
        return f"{counted(cases, 'case')}, more than max_cases_per_change = {settings.max_cases_per_change:,}"
    if settings.max_turns_per_change is None:
        return ""
    turns = sum(1 if (known := each.planned.turns) is None else known for each in ran)
    if turns > settings.max_turns_per_change:
        return f"{counted(turns, 'turn')}, more than max_turns_per_change = {settings.max_turns_per_change:,}"
    return ""
