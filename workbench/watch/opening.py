"""Puts a watch together: which folders, which cases, and the session over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workbench.engine.plan import RunOptions, Selection
from workbench.engine.workspace import Workspace
from workbench.model.keys import JobKey
from workbench.watch.planning import Planning
from workbench.watch.session import WatchSession
from workbench.watch.stored import OffLoop
from workbench.watch.watcher import Folders, Watcher


def open_watch(
    workspace: Workspace,
    select: Callable[[Workspace], Sequence[Selection]],
    options: RunOptions,
    *,
    off_loop: OffLoop,
    catches_up: bool = True,
    first: Callable[[JobKey], float] = lambda _: 0,
) -> WatchSession:
    """A watch over the cases that `select` names, each time the project has been looked at again.

    Jobs with the smallest `first` come first; `off_loop` calls what takes time, one thing at a time. With
    `catches_up` cases without a verdict that holds run at the start. Raises StoreError where there is no history to be
    read.
    """
    watcher = Watcher(Folders.of(workspace.root, workspace.project.targets.values()))
    planning = Planning(workspace, select, options)
    return WatchSession(workspace, planning, watcher, off_loop=off_loop, catches_up=catches_up, first=first)
