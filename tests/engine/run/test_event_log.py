"""Listeners of a run: each sees everything, and none holds the run up."""

from __future__ import annotations

import asyncio
import threading

import pytest

from workbench.engine.run import EventLog, PassingLog
from workbench.model.run_events import Notice, RunEvent, RunFinished, RunSummary

END = RunFinished(run_id="r", summary=RunSummary(), duration_seconds=0.0)


def notices(log: EventLog[RunEvent], *messages: str) -> None:
    for message in messages:
        log.append(Notice(message=message))


async def collect(log: EventLog[RunEvent]) -> list[RunEvent]:
    return [event async for event in log.events()]


async def test_a_listener_that_comes_late_sees_everything() -> None:
    log = EventLog[RunEvent](last=RunFinished)
    notices(log, "a", "b")
    log.append(END)

    assert await collect(log) == [Notice(message="a"), Notice(message="b"), END]


async def test_listeners_on_a_loop_are_woken_from_another_thread() -> None:
    log = EventLog[RunEvent](last=RunFinished)
    listeners = [asyncio.create_task(collect(log)) for _ in range(3)]
    await asyncio.sleep(0)

    def run() -> None:
        notices(log, *map(str, range(500)))
        log.append(END)

    await asyncio.to_thread(run)

    for heard in await asyncio.gather(*listeners):
        assert [event.message for event in heard if isinstance(event, Notice)] == list(map(str, range(500)))


async def test_a_listener_that_left_its_loop_does_not_stop_the_run() -> None:
    log = EventLog[RunEvent](last=RunFinished)

    async def leave() -> None:
        listener = asyncio.create_task(collect(log))
        await asyncio.sleep(0)
        listener.cancel()

    await asyncio.to_thread(asyncio.run, leave())
    log.append(END)

    assert await collect(log) == [END]


def test_a_thread_without_a_loop_waits_for_what_comes() -> None:
    log = EventLog[RunEvent](last=RunFinished)
    heard: list[RunEvent] = []
    listener = threading.Thread(target=lambda: heard.extend(log.iter_events()))
    listener.start()

    notices(log, "a")
    log.append(END)
    listener.join()

    assert heard == [Notice(message="a"), END]


async def test_what_the_one_listener_has_read_is_let_go_of() -> None:
    log = PassingLog[RunEvent](last=RunFinished)
    notices(log, "a", "b")
    heard: list[RunEvent] = []
    listener = asyncio.create_task(_collect_into(heard, log))
    await asyncio.sleep(0)
    assert heard == [Notice(message="a"), Notice(message="b")]

    log.append(END)
    await listener

    assert heard == [Notice(message="a"), Notice(message="b"), END]
    assert log.event_count == 0


async def _collect_into(heard: list[RunEvent], log: EventLog[RunEvent]) -> None:
    async for event in log.events():
        heard.append(event)


async def test_a_run_waits_a_moment_for_a_slow_listener_and_not_for_one_that_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = PassingLog[RunEvent](last=RunFinished)
    notices(log, *map(str, range(300)))
    waiting = asyncio.create_task(log.let_listener_catch_up())
    await asyncio.sleep(0.02)
    assert not waiting.done()

    reading = log.iter_events()
    next(reading)
    await asyncio.wait_for(waiting, timeout=0.9)

    monkeypatch.setattr("workbench.engine.run._PATIENCE", 0.05)
    notices(log, *map(str, range(300)))
    await asyncio.wait_for(log.let_listener_catch_up(), timeout=0.9)
    assert log.event_count == 300
