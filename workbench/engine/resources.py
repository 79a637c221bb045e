"""What the runs of a project share: an event loop in a thread, processes of agents, what compares texts, judges."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.agents.host import load_hosts
from workbench.engine.cache_warnings import CacheWarnings
from workbench.engine.hosts import Hosts
from workbench.engine.plan import Limits, Plan, Selection
from workbench.engine.thread import EngineThread
from workbench.metrics.text import TextScorer
from workbench.model.target import AgentKind, Target
from workbench.store.discovery import Project

if TYPE_CHECKING:
    from workbench.engine.judges import Judges


def agents_of(project: Project, selections: Iterable[Selection]) -> list[Target]:
    """The targets of these cases that have an agent to run."""
    wanted = {selection.eval_set for selection in selections}
    named = {entry.target for entry in project.eval_sets if entry.relative in wanted}
    targets = [target for name, target in project.targets.items() if name in named]
    return [target for target in targets if target.kind is not AgentKind.RECORDED]


class Resources:
    """Made when first needed, kept from run to run until `close`, which leaves no process behind."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._thread: EngineThread | None = None
        self._judges: Judges | None = None
        self.hosts = Hosts()
        self.text = TextScorer()
        self.cache_warnings = CacheWarnings()

    @property
    def thread(self) -> EngineThread:
        """Where the engine works; hosts and judges may be used there alone."""
        if self._thread is None:
            self._thread = EngineThread()
        return self._thread

    @property
    def are_idle(self) -> bool:
        """Whether nothing was ever started."""
        return self._thread is None

    def start_interpreters(self, agents: Collection[Target], limits: Limits) -> None:
        """Start the interpreters that these agents need, which come up while others are busy.

        Nothing of an agent's own runs. Waits until they have been started: once planning keeps this process busy, the
        engine's thread would hardly get to it.
        """
        if agents:
            load_hosts()
            self.thread.submit(self.hosts.start_interpreters(agents, limits)).result()

    def prepare_text(self, plan: Plan) -> None:
        """Start what compares texts, which takes time, so that it is ready when the first case needs it."""
        from workbench.metrics.registry import needs_of

        if any("text" in needs_of(config) for config in {id(c.config): c.config for c in plan.cases}.values()):
            self.text.start()

    def open_judges(self) -> Judges:
        """Made when the first model is asked, whoever asks it."""
        from workbench.engine.judges import Judges  # with what asks models: not before one is asked

        if self._judges is None:
            self._judges = Judges(self._root, warn=self.cache_warnings.tell)
        return self._judges

    def close(self) -> None:
        """End every process. Blocking; nothing may be running any more."""
        if self._thread is None:
            return
        self._thread.submit(self._close_processes()).result()
        self._thread.close()
        self._thread = None

    async def _close_processes(self) -> None:
        await self.hosts.close()
        await self.text.close()
        judges, self._judges = self._judges, None
        if judges is not None:
            await judges.close()
