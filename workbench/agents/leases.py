"""Which process a session gets: one of its own, or a place in one that serves many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from workbench.agents.channel import Message
from workbench.agents.processes import Child


class Launcher(Protocol):
    """Makes worker processes."""

    def prepare(self, *, cases: int) -> None:
        """Start early what `cases` sessions will need."""

    def renew(self) -> bool:
        """What the agent's environment is may have changed: processes started from now on are to know it.

        Whether it has, so that those that are there may not.
        """

    async def launch(self, role: str, messages: Sequence[Message], attach: Callable[[Child], None]) -> Child:
        """Start a process; `attach` gets it before it can say anything. Raises AgentError."""

    async def close(self) -> None:
        """End all processes."""


class Lease(Protocol):
    """How a session gets a process, and gives it back."""

    async def take(self, messages: Sequence[Message], attach: Callable[[Child], None]) -> Child:
        """A process, with `messages` sent to it. Raises AgentError."""

    def give_back(self, child: Child, *, reusable: bool) -> None:
        """The session needs it no longer; `reusable` where nothing is left of the session in it."""


class OwnProcess:
    """A lease of a new process for each session, which ends with it."""

    def __init__(self, launcher: Launcher, *, role: str = "session") -> None:
        self._launcher = launcher
        self._role = role

    async def take(self, messages: Sequence[Message], attach: Callable[[Child], None]) -> Child:
        """See `Lease.take`."""
        child = await self._launcher.launch(self._role, messages, attach)
        if child.shared:
            child.send(*messages)
        return child

    def give_back(self, child: Child, *, reusable: bool) -> None:  # noqa: ARG002 - never used again
        """See `Lease.give_back`. One that is for a single session has ended, or ends by itself."""
        if child.shared:
            child.kill()


class SharedProcesses:
    """A lease of processes that serve one session after another, `at_once` of them at a time.

    A process in which something of a session may be left, and after `renew` any process that has had one, gets no new
    sessions, and ends with the last it has.
    """

    def __init__(self, launcher: Launcher, *, at_once: int | None) -> None:
        self._launcher = launcher
        self._at_once = at_once
        self._processes: list[Child] = []
        self._load: dict[Child, int] = {}
        self._unused: set[Child] = set()
        self._starting: asyncio.Task[Child] | None = None

    def prepare(self) -> None:
        """Start a process where there is none, without waiting for it."""
        if not self._processes:
            self._begin_start()

    def renew(self, *, unused_too: bool) -> None:
        """Give no new sessions to the processes there are, `unused_too` also not to those that never had one."""
        for child in list(self._processes):
            if unused_too or child not in self._unused:
                self._retire(child)

    async def take(self, messages: Sequence[Message], attach: Callable[[Child], None]) -> Child:
        """See `Lease.take`."""
        child = await self._free_process()
        attach(child)
        child.send(*messages)
        return child

    def give_back(self, child: Child, *, reusable: bool) -> None:
        """See `Lease.give_back`."""
        self._load[child] -= 1
        if not reusable or child not in self._processes:
            self._retire(child)

    def _retire(self, child: Child) -> None:
        if child in self._processes:
            self._processes.remove(child)
        if not self._load[child]:
            del self._load[child]
            self._unused.discard(child)
            child.kill()

    async def _free_process(self) -> Child:
        """A process with room, reserved for the caller."""
        while True:
            for child in self._processes:
                if self._at_once is None or self._load[child] < self._at_once:
                    self._load[child] += 1
                    self._unused.discard(child)
                    return child
            starting = self._begin_start()
            try:
                await asyncio.shield(starting)
            finally:
                if self._starting is starting and starting.done():
                    self._starting = None

    def _begin_start(self) -> asyncio.Task[Child]:
        """What starts a process; one that failed before anybody asked for it is tried again."""
        if self._starting is None or self._starting.done():
            self._starting = asyncio.create_task(self._start())
            self._starting.add_done_callback(_heed)
        return self._starting

    async def _start(self) -> Child:
        child = await self._launcher.launch("shared", (), lambda _: None)
        self._load[child] = 0
        self._unused.add(child)
        self._processes.append(child)
        child.on_exit.append(lambda _: self._forget(child))
        return child

    def _forget(self, child: Child) -> None:
        if child in self._processes:
            self._retire(child)


def _heed(task: asyncio.Task[Child]) -> None:
    """Whoever needed the process is told that it could not be started; where nobody did, nobody need be."""
    if not task.cancelled():
        task.exception()
