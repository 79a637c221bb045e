"""Calling functions of the caller: in threads of their own, or on an event loop where they are asynchronous.

A function that never returns keeps its thread, and nothing else: threads are daemons, which the interpreter does not
wait for.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from workbench.agents.host import HeldUp
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
        value = _settled(*await _in_thread(lambda: context.run(function, *args)))
        return await self._awaited(value, context) if is_awaitable(value) else value

    async def settle(self, value: Any) -> Any:
        """The value, awaited where that is to be. Raises FunctionRaised for whatever that raises."""
        return await self._awaited(value, self._context.copy()) if is_awaitable(value) else value

    def alone(self) -> Calls:
        """Calls that no other call holds up: on a loop of their own, unless the caller's has to be used."""
        if self._callers_loop is not None:
            return self
        alone = Calls(None)
        alone._context = self._context
        return alone

    def close(self) -> None:
        """Give the loop back. What still runs there is left alone."""
        if self._thread is not None:
            self._thread.close(patience=_PATIENCE)

    async def _awaited(self, awaitable: Awaitable[Any], context: contextvars.Context) -> Any:
        claim = threading.Lock()  # whoever has it decides: the loop that it begins, or we that it never will

        async def run() -> tuple[Any, BaseException | None]:
            if not claim.acquire(blocking=False):
                return None, None  # it was given up
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
            thread = self._thread = self._thread or _new_loop()
            future = thread.submit(run_in_context())
        try:
            return _settled(*await asyncio.wrap_future(future))
        except asyncio.CancelledError as error:
            if not _is_being_cancelled():  # the function has cancelled its own task
                raise FunctionRaised(error) from error
            never_began = claim.acquire(blocking=False)
            if never_began:
                _close(awaitable)
            is_stuck = thread is not None and self._leave_if_stuck(thread)
            if never_began:
                raise asyncio.CancelledError(HeldUp.BEFORE_IT_BEGAN) from None
            if is_stuck:
                raise asyncio.CancelledError(HeldUp.WHILE_IT_RAN) from None
            raise

    def _leave_if_stuck(self, thread: EngineThread) -> bool:
        """Let later calls have a loop of their own where one is held up by work that never gives way."""
        if self._thread is thread:
            answered = threading.Event()
            thread.call(answered.set)
            if not answered.wait(_MOMENT):
                self._thread = None
        return self._thread is not thread


def held_up(cancelled: asyncio.CancelledError) -> HeldUp | None:
    """When the loop of a call that was cancelled was blocked; None where it was not."""
    return cancelled.args[0] if cancelled.args and isinstance(cancelled.args[0], HeldUp) else None


def is_awaitable(value: Any) -> bool:
    """Whether a function gave a promise of its value."""
    return hasattr(type(value), "__await__")


async def in_own_thread(function: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
    """As `asyncio.to_thread`, in a thread of its own. Raises whatever the function raises."""
    context = contextvars.copy_context()
    value, error = await _in_thread(lambda: context.run(function, *args, **options))
    if error is not None:
        raise error
    return value


class _OwnThreads(ThreadPoolExecutor):
    """For what frameworks have run in threads: each call in one of its own, which the program does not wait for.

    It is no pool, but loops take nothing else.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """See `Executor.submit`."""
        future: Future[Any] = Future()

        def run() -> None:
            try:
                value = fn(*args, **kwargs)
            except BaseException as error:  # whatever it is, whoever awaits it gets it
                future.set_exception(error)
            else:
                future.set_result(value)

        future.set_running_or_notify_cancel()
        threading.Thread(target=run, name="workbench-call", daemon=True).start()
        return future


def _new_loop() -> EngineThread:
    """An event loop for awaitables of the caller's."""
    thread = EngineThread()
    thread.call(lambda: asyncio.get_running_loop().set_default_executor(_OwnThreads()))
    return thread


async def _in_thread(work: Callable[[], Any]) -> tuple[Any, BaseException | None]:
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
    return await done


def _settled(value: Any, error: BaseException | None) -> Any:
    if error is not None:
        raise FunctionRaised(error) from error
    return value


def _close(coroutine: Awaitable[Any]) -> None:
    """Close a coroutine that has not begun, and those it was to await: else Python warns that nobody did."""
    if inspect.iscoroutine(coroutine) and inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
        for inner in inspect.getcoroutinelocals(coroutine).values():
            if inspect.iscoroutine(inner):
                _close(inner)
        coroutine.close()


def _is_being_cancelled() -> bool:
    """Whether somebody wants the task that runs here to end. Else a CancelledError is of something it waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
