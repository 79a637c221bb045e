"""A zygote as the engine sees it: a process that forks others. The other side is `worker.zygote`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass

from workbench.agents.channel import Channel, Message
from workbench.agents.processes import Child, Exit
from workbench.model.results import Failure, FailureKind


@dataclass(frozen=True, kw_only=True, slots=True)
class Layer:
    """What one zygote imports beyond the one it is forked from. `framework`: the adapter's own, and its warm-up."""

    framework: bool = False
    imports: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    """Files of the agent: compiled early, never run."""
    environment: tuple[str, ...] = ()
    """Variables that children set before they import: what looks at them is not imported early."""


class Zygote:
    """One zygote that is ready: forks children on request and tells how they ended."""

    def __init__(self, channel: Channel, pid: int, *, generation: int, agent: int | None = None) -> None:
        self._channel = channel
        self.pid = pid
        self.generation = generation
        self.agent = agent
        """Which import of the agent it holds, as a number; None where it holds none."""
        self.busy = 0
        """How many of its children serve cases."""
        self._children: dict[int, Child] = {}
        self._checks: deque[asyncio.Future[bool]] = deque()
        self.alive = True
        self._was_stopped = False
        self.on_lost: Callable[[], None] = lambda: None
        channel.on_message = self._hear
        channel.on_closed = lambda _: self._lost()

    def fork(self, number: int, message: Message, *, shared: bool = False) -> Child:
        """A child that plays the role in `message`."""
        child = Child(
            shared=shared,
            kill=lambda: self._channel.send({"type": "kill", "child": number}),
            interrupt=lambda: self._channel.send({"type": "interrupt", "child": number}),
            ask_output=lambda: self._channel.send({"type": "output", "child": number}),
        )
        self._children[number] = child
        if message["role"] != "zygote":
            self.busy += 1
            child.on_exit.append(self._served)
        self._channel.send({"type": "start", "child": number, **message})
        return child

    async def is_current(self) -> bool:
        """Whether all that the import of the agent read is still as it was; False where the zygote is gone."""
        if not self.alive:
            return False
        checked: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._checks.append(checked)
        self._channel.send({"type": "check"})
        return await checked

    @property
    def children(self) -> Collection[Child]:
        """Its children that have not ended."""
        return list(self._children.values())

    def kill_stopped(self) -> None:
        """See `processes.Stoppable.kill_stopped`."""
        self._was_stopped = True
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Let it end, and with it all its children."""
        self._channel.close()

    def retire(self) -> None:
        """Let it end while others are still to come. It forks no more."""
        self.alive = False
        self._channel.send({"type": "end"})

    def _checked(self, *, current: bool) -> None:
        checked = self._checks.popleft()
        if not checked.done():  # a task that was cancelled waits no longer
            checked.set_result(current)

    def _served(self, _: Exit) -> None:
        self.busy -= 1

    def _hear(self, message: Message) -> None:
        if message["type"] == "checked":
            self._checked(current=message["current"])
            return
        child = self._children.get(message["child"])
        if child is None:
            return
        if message["type"] == "output":
            child.told_output(message["stdout"], message["stderr"])
            return
        del self._children[message["child"]]
        error = message.get("error")
        if error is not None:
            child.exited(Exit(failure=Failure(kind=FailureKind.INFRASTRUCTURE, message=error)))
        else:
            child.exited(Exit(code=message["code"], stdout=message["stdout"], stderr=message["stderr"]))

    def _lost(self) -> None:
        """The zygote is gone, and its children with it; what they started may not be."""
        self.alive = False
        while self._checks:
            self._checked(current=False)
        for child in self._children.values():
            if child.pid is not None:
                with contextlib.suppress(OSError):
                    os.killpg(child.pid, signal.SIGKILL)
            child.exited(Exit(stopped=self._was_stopped))
        self._children.clear()
        self.on_lost()
