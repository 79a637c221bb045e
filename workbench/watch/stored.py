"""Verdicts of earlier runs that hold, told where others are shown or none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

from workbench.engine.workspace import Workspace
from workbench.model.keys import JobKey
from workbench.model.results import MetricScores
from workbench.store.history import StoredVerdict
from workbench.watch.affected import scores_of
from workbench.watch.news import News
from workbench.watch.selection import Action, Decision, place_of

T = TypeVar("T")


class OffLoop(Protocol):
    """Calls a function where it does not hold up the event loop, and where the workspace may be used."""

    async def __call__(self, function: Callable[[], T], /) -> T: ...


async def show_stored(decisions: Iterable[Decision], news: News, workspace: Workspace, *, off_loop: OffLoop) -> None:
    """Tell the verdicts that hold and are not the ones that were told last."""
    held = {
        each.job: each
        for each in decisions
        if each.action is Action.NOTHING
        and each.verdict is not None
        and news.shown.get(each.job) != place_of(each.verdict)
    }
    if not held:
        return
    verdicts = {job: each.verdict for job, each in held.items() if each.verdict is not None}
    news.verdicts_hold(verdicts, {job: each.planned for job, each in held.items()})
    news.count(verdicts, await off_loop(lambda: _scores(workspace, verdicts)))


def _scores(workspace: Workspace, verdicts: Mapping[JobKey, StoredVerdict]) -> dict[JobKey, MetricScores]:
    with workspace.history() as history:
        return scores_of(history, verdicts)
