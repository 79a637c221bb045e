"""Calling functions of the caller: in threads of their own, or on an event loop where they are asynchronous.

A function that never returns keeps its thread, and nothing else: threads are daemons, which the interpreter does not
wait for.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from workbench.engine.thread import EngineThread

_PATIENCE = 1.0  # seconds that a loop with work of the caller gets to stop
_MOMENT = 0.1  # seconds in which a loop answers that is not held up


class FunctionRaised(Exception):
    """A function of the caller raised `error`, of whatever kind.

    As what it is it could be mistaken here: KeyboardInterrupt ends an event loop, and CancelledError says that we were
    cancelled.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(type(error).__qualname__)
        self.error = error


class Calls:
    """Calls functions, for whoever asks on the engine's loop.

    `loop` is the caller's own event loop, where it runs meanwhile: clients that were made on it work only there. Else
    awaitables are run on one in another thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self._callers_loop = loop
        self._thread: EngineThread | None = None
        self._context = contextvars.copy_context()

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """What the function gives, awaited where that is to be. Raises FunctionRaised for whatever it raises."""
        context = self._context.copy()
        value = await _in_thread(lambda: context.run(function, *args))
        return await self._awaited(value, context) if hasattr(type(value), "__await__") else value

    def close(self) -> None:
        """Give the loop back. What still runs there is left alone."""
        if self._thread is not None:
            self._thread.close(patience=_PATIENCE)

    async def _awaited(self, awaitable: Awaitable[Any], context: contextvars.Context) -> Any:
        async def run() -> tuple[Any, BaseException | None]:
            try:
                return await awaitable, None
            except asyncio.CancelledError as error:
                if _is_being_cancelled():
                    raise
                return None, error
            except BaseException as error:  # as a value: SystemExit would end the loop's thread
                return None, error

        async def run_in_context() -> tuple[Any, BaseException | None]:
            return await asyncio.get_running_loop().create_task(run(), context=context)

        thread = None
        if self._callers_loop is not None:
            future = asyncio.run_coroutine_threadsafe(run_in_context(), self._callers_loop)
        else:
            thread = self._thread = self._thread or EngineThread()
            future = thread.submit(run_in_context())
        try:
            return _settled(*await asyncio.wrap_future(future))
        except asyncio.CancelledError as error:
            if not _is_being_cancelled():  # the function has cancelled its own task
                raise FunctionRaised(error) from error
            if thread is not None:
                self._leave_if_stuck(thread)
            raise

    def _leave_if_stuck(self, thread: EngineThread) -> None:
        """Let later calls have a loop of their own where one is held up by work that never gives way."""
        try:
            thread.submit(asyncio.sleep(0)).result(_MOMENT)
        except TimeoutError:
            if self._thread is thread:
                self._thread = None


async def _in_thread(work: Callable[[], Any]) -> Any:
    """Run work in a thread of its own: those of a pool would be waited for at the end of the program."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if not done.done():  # else nobody waits any more
            done.set_result((value, error))

    def run() -> None:
        value, error = None, None
        try:
            value = work()
        except BaseException as raised:  # whatever it is, it is the caller's; sys.exit included
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed: the work was given up long ago
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=run, name="workbench-call", daemon=True).start()
    return _settled(*await done)


def _settled(value: Any, error: BaseException | None) -> Any:
    if error is not None:
        raise FunctionRaised(error) from error
    return value


def _is_being_cancelled() -> bool:
    """Whether somebody wants the task that runs here to end. Else a CancelledError is of something it waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
