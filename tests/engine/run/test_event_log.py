"""Listeners of a run: each receives every event, and none delays the run."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from workbench.engine.run import EventLog, PassingLog
from workbench.model.run_events import Notice, RunEvent, RunFinished, RunSummary

END = RunFinished(run_id="r", summary=RunSummary(), duration_seconds=0.0)


def append_notices(log: EventLog[RunEvent], *messages: str) -> None:
    for message in messages:
        log.append(Notice(message=message))


async def collect(log: EventLog[RunEvent]) -> list[RunEvent]:
    return [event async for event in log.events()]


async def test_a_late_listener_receives_all_events() -> None:
    log = EventLog[RunEvent](last=RunFinished)
    append_notices(log, "a", "b")
    log.append(END)

    assert await collect(log) == [Notice(message="a"), Notice(message="b"), END]


async def test_listeners_on_a_loop_are_woken_from_another_thread() -> None:
    log = EventLog[RunEvent](last=RunFinished)
    listeners = [asyncio.create_task(collect(log)) for _ in range(3)]
    await asyncio.sleep(0)

    def run() -> None:
        append_notices(log, *map(str, range(500)))
        log.append(END)

    await asyncio.to_thread(run)

    for events in await asyncio.gather(*listeners):
        assert [event.message for event in events if isinstance(event, Notice)] == list(map(str, range(500)))


async def test_a_cancelled_listener_on_another_loop_does_not_stop_the_run() -> None:
    log = EventLog[RunEvent](last=RunFinished)

    async def leave() -> None:
        listener = asyncio.create_task(collect(log))
        await asyncio.sleep(0)
        listener.cancel()

    await asyncio.to_thread(asyncio.run, leave())
    log.append(END)

    assert await collect(log) == [END]


def test_a_thread_without_a_loop_waits_for_events() -> None:
    log = EventLog[RunEvent](last=RunFinished)
    events: list[RunEvent] = []
    listener = threading.Thread(target=lambda: events.extend(log.iter_events()))
    listener.start()

    append_notices(log, "a")
    log.append(END)
    listener.join()

    assert events == [Notice(message="a"), END]


def test_events_that_came_together_are_one_batch_that_ends_with_the_last_event() -> None:
    log = PassingLog[RunEvent](last=RunFinished)
    append_notices(log, "a", "b")
    batches = log.iter_batches()
    assert next(batches) == [Notice(message="a"), Notice(message="b")]

    append_notices(log, "c")
    log.append(END)
    append_notices(log, "too late")

    assert list(batches) == [[Notice(message="c"), END]]


@pytest.mark.parametrize("log_type", [EventLog, PassingLog])
def test_a_listener_does_not_wait_for_more_events_if_many_have_come(
    log_type: type[EventLog[RunEvent]], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_type(last=RunFinished)
    append_notices(log, *map(str, range(300)))
    batches = log.iter_batches()
    read = [next(batches), next(batches)]
    monkeypatch.setattr("workbench.engine.run._GATHER_SECONDS", 60.0)
    listener = threading.Thread(target=lambda: read.extend(batches), daemon=True)
    listener.start()
    time.sleep(0.2)  # until it waits

    log.extend([*(Notice(message=str(n)) for n in range(300, 700)), END])
    listener.join(timeout=30.0)

    assert not listener.is_alive()
    assert [event for batch in read for event in batch] == [*(Notice(message=str(n)) for n in range(700)), END]


def test_many_events_come_in_several_batches() -> None:
    log = PassingLog[RunEvent](last=RunFinished)
    append_notices(log, *map(str, range(1_000)))
    log.append(END)

    batches = list(log.iter_batches())

    assert max(map(len, batches)) < 500
    assert [event for batch in batches for event in batch] == [*(Notice(message=str(n)) for n in range(1_000)), END]


async def test_a_passing_log_drops_the_events_that_its_listener_has_read() -> None:
    log = PassingLog[RunEvent](last=RunFinished)
    append_notices(log, "a", "b")
    events: list[RunEvent] = []
    listener = asyncio.create_task(_extend_with_events(events, log))
    await asyncio.sleep(0)
    assert events == [Notice(message="a"), Notice(message="b")]

    log.append(END)
    await listener

    assert events == [Notice(message="a"), Notice(message="b"), END]
    assert log.event_count == 0


async def _extend_with_events(events: list[RunEvent], log: EventLog[RunEvent]) -> None:
    async for event in log.events():
        events.append(event)


async def test_a_run_waits_briefly_for_a_slow_listener_but_not_for_a_stopped_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = PassingLog[RunEvent](last=RunFinished)
    append_notices(log, *map(str, range(300)))
    wait_task = asyncio.create_task(log.let_listener_catch_up())
    await asyncio.sleep(0.02)
    assert not wait_task.done()

    events = log.iter_events()
    next(events)
    await asyncio.wait_for(wait_task, timeout=0.9)

    monkeypatch.setattr("workbench.engine.run._PATIENCE", 0.05)
    append_notices(log, *map(str, range(300)))
    await asyncio.wait_for(log.let_listener_catch_up(), timeout=0.9)
    assert log.event_count == 300
