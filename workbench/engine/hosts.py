"""The agents' hosts of a workspace: started when first needed, warm from run to run."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable

from workbench.agents.host import AgentHost, host_for
from workbench.engine.plan import Limits, Plan
from workbench.model.target import Isolation, Target

_ROUNDS_TO_START = 3  # of the event loop: to begin, to listen for those who will call in, to start the process


class Hosts:
    """One host for each target and way of running it. Used on the engine's loop."""

    def __init__(self) -> None:
        self._hosts: dict[tuple[Target, Isolation, int], AgentHost] = {}

    def host_of(self, target: Target, plan: Plan) -> AgentHost:
        """The host that runs a target within the limits of a plan."""
        return self.host(target, isolation=plan.limits.isolation, concurrency=plan.limits.concurrency)

    def host(self, target: Target, *, isolation: Isolation, concurrency: int) -> AgentHost:
        """The host of a target that is used in this way."""
        key = (target, isolation, concurrency)
        if key not in self._hosts:
            self._hosts[key] = host_for(target, isolation=isolation, concurrency=concurrency)
        return self._hosts[key]

    async def start_interpreters(self, targets: Iterable[Target], limits: Limits) -> None:
        """Start the interpreters of these agents, which a plan within these limits will most likely need.

        Returns when they have been started, long before they are up.
        """
        for target in targets:
            self.host(target, isolation=limits.isolation, concurrency=limits.concurrency).prepare(cases=0)
        for _ in range(_ROUNDS_TO_START):
            await asyncio.sleep(0)

    def prepare(self, plan: Plan) -> None:
        """Start what the plan's agents need.

        They, and the user's metrics, run code as it is now, which may have changed since last time.
        """
        cases: Counter[Target] = Counter()
        for key, planned in plan.jobs:
            if key not in plan.stored:
                cases[planned.target] += planned.needs_agent
        for target, count in cases.items():
            host = self.host_of(target, plan)
            host.renew()
            if count:
                host.prepare(cases=count)

    async def close(self) -> None:
        """Close every host."""
        hosts, self._hosts = list(self._hosts.values()), {}
        await asyncio.gather(*(host.close() for host in hosts))
