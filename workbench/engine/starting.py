"""How a run comes about: what carries a plan out, put together from what the runs of a project share."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import proxy

from workbench.agents.host import AgentHost, load_hosts
from workbench.engine.ids import new_run_id
from workbench.engine.once import Once, once_each
from workbench.engine.plan import Plan
from workbench.engine.recorder import HistoryRecorder
from workbench.engine.resources import Resources
from workbench.engine.run import Holds, Run
from workbench.engine.runner import Runner
from workbench.engine.services import RunServices
from workbench.engine.stored_verdicts import StoredVerdicts
from workbench.engine.versions import versions
from workbench.metrics.registry import needs_of
from workbench.model.events import QuotaWait
from workbench.model.target import Target
from workbench.store.settings import JudgeSettings

if TYPE_CHECKING:
    from workbench.engine.judges import JudgesOfRun


def start_run(
    plan: Plan,
    *,
    holds: Holds,
    host: AgentHost | None,
    root: Path,
    judge: JudgeSettings,
    resources: Resources,
    verdicts: StoredVerdicts,
) -> Run:
    """Start to carry out a plan in the project at `root`. See `Workspace.start`, for what it raises too."""
    run = Run(plan.resumes or new_run_id(datetime.now()), plan, call_engine=resources.thread.call, holds=holds)

    def host_of(target: Target) -> AgentHost:
        return host or resources.hosts.host_of(target, plan)

    def prepare(plan: Plan) -> None:
        resources.prepare_text(plan)
        if host is None:
            resources.hosts.prepare(plan)

    def open_judges() -> JudgesOfRun:
        from workbench.engine.judges import JudgesOfRun  # with what asks models: not before one is asked

        resources.cache_warnings.tell_to(run)
        return JudgesOfRun(plan, judge, judges=resources.open_judges, changed=changed, warn=run.warn, waits=waits)

    def waits(model: str, seconds: float) -> None:
        run.log.append(QuotaWait(model=model, seconds=seconds))

    def changed() -> None:
        with suppress(ReferenceError):  # the run is over, and nobody is told any more
            running.spending_changed()

    judges = Once(open_judges)
    runner = Runner(
        run,
        host_of=host_of,
        services_of=once_each(
            lambda target: RunServices(
                resources.text,
                lambda: host_of(target),
                timeout_seconds=plan.limits.timeout_seconds,
                left=lambda: running.left_by_agents,
                ask=lambda: judges.get().ask_for(target),
            )
        ),
        recorder=HistoryRecorder(root, warn=run.warn, lose=run.lose, stored=verdicts.note),
        prepare=prepare,
        look_at_leftovers=verdicts.left_by_agents,
        spending=lambda: judges.get().spending(),
        load=_load,
    )
    # What it holds asks it in turn, and must not keep it: a run may be large, and nobody looks for cycles soon.
    running = proxy(runner)
    if plan.options.record_calls is not None or plan.options.replay_calls is not None:
        judges.get()  # a file that will not do is said before anything runs
    run.attach(runner, resources.thread.submit(runner.carry_out()))
    return run


def _load(plan: Plan) -> None:
    """Import what carrying out a plan needs. Blocking."""
    versions()
    if any(case.needs_agent for case in plan.cases):
        load_hosts()
    if any("judge" in needs_of(config) for config in {id(case.config): case.config for case in plan.cases}.values()):
        import workbench.engine.judges  # noqa: F401
