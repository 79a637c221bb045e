"""Verdicts of earlier runs that hold, told where others are shown or none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from workbench.engine.workspace import Workspace
from workbench.model.results import CaseResult
from workbench.store.history import StoredVerdict
from workbench.watch.affected import results_of
from workbench.watch.news import News
from workbench.watch.selection import Action, Decision, Place, place_of

T = TypeVar("T")


class OffLoop(Protocol):
    """Calls a function where it does not hold up the event loop, and where the workspace may be used."""

    async def __call__(self, function: Callable[[], T], /) -> T: ...


async def show_stored(decisions: Iterable[Decision], news: News, workspace: Workspace, *, off_loop: OffLoop) -> None:
    """Tell the verdicts that hold and are not the ones that were told last."""
    held = {
        each.job: (each.planned, each.verdict)
        for each in decisions
        if each.action is Action.NOTHING
        and each.verdict is not None
        and news.shown.get(each.job) != place_of(each.verdict)
    }
    if not held:
        return
    results = await off_loop(lambda: _results(workspace, [verdict for _, verdict in held.values()]))
    for job, (planned, verdict) in held.items():
        result = results.get(place_of(verdict))
        if result is not None:
            named = result.model_copy(update={"case": job.case, "repeat": job.repeat})
            news.verdict(planned, named, "stored", saved_at=None, place=place_of(verdict))


def _results(workspace: Workspace, verdicts: Sequence[StoredVerdict]) -> dict[Place, CaseResult]:
    with workspace.history() as history:
        return results_of(history, verdicts)
