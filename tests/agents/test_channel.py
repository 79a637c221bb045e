"""The socket: authentication of workers, and delivery of their messages."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import stat
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from workbench.agents.channel import PROTOCOL, Channel, ChannelListener
from workbench.agents.processes import Child, Exit
from workbench.agents.worker import wire
from workbench.model.text import add_secrets

HELLO = {"type": "hello", "protocol": PROTOCOL, "role": "session", "pid": 1}


@pytest.fixture
async def listener() -> AsyncIterator[ChannelListener]:
    listener = ChannelListener()
    await listener.start()
    yield listener
    await listener.close()


async def _connect(listener: ChannelListener) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_unix_connection(listener.address[1])


@pytest.mark.needs_fork
async def test_only_this_user_can_reach_the_socket_and_closing_removes_it(listener: ChannelListener) -> None:
    folder = Path(listener.address[1]).parent

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    await listener.close()
    assert not folder.exists()


@pytest.mark.needs_fork
async def test_the_listener_starts_below_a_temporary_folder_with_a_long_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 120)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    listener = ChannelListener()

    await listener.start()

    _, writer = await _connect(listener)
    writer.close()
    await listener.close()


def test_secrets_are_masked_in_spans_but_not_in_dependencies() -> None:
    add_secrets(["hjkl9-QWERTZ-uiop"])
    messages = [
        {"type": "hello"},
        {"type": "span", "span": {"request": {"with": "it is hjkl9-QWERTZ-uiop"}}},
        {"type": "dependencies", "rows": [["file", "hjkl9-QWERTZ-uiop.txt", "1"]]},
    ]
    received_messages: list[dict[str, Any]] = []
    channel = Channel(lambda _, message: received_messages.append(message))
    channel.on_message = received_messages.append

    channel.data_received(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    assert received_messages == [
        messages[0],
        {"type": "span", "span": {"request": {"with": "it is [redacted]"}}},
        messages[2],
    ]


@pytest.mark.needs_fork
@pytest.mark.parametrize(
    "first",
    [
        {**HELLO, "token": "wrong"},
        {**HELLO, "protocol": PROTOCOL + 1},
        {"type": "turn"},
        [],
        "no json",
    ],
)
async def test_a_connection_without_a_valid_hello_is_closed(listener: ChannelListener, first: Any) -> None:
    token = listener.token()
    channels: list[Channel] = []
    listener.expect(token, lambda channel, _: channels.append(channel))
    reader, writer = await _connect(listener)
    if isinstance(first, dict):
        first.setdefault("token", token)

    writer.write(b"garbage\n" if first == "no json" else json.dumps(first).encode() + b"\n")

    with contextlib.suppress(ConnectionResetError):
        assert await reader.read() == b""
    assert not channels
    writer.close()


@pytest.mark.needs_fork
async def test_messages_arrive_complete_however_the_stream_is_split(listener: ChannelListener) -> None:
    token = listener.token()
    received_messages: list[dict[str, Any]] = []
    done = asyncio.Event()

    def greet(channel: Channel, _: dict[str, Any]) -> None:
        channel.on_message = received_messages.append
        channel.on_closed = lambda _: done.set()

    listener.expect(token, greet)
    _, writer = await _connect(listener)
    messages: list[dict[str, Any]] = [{"type": "span", "text": "\u2713" * size} for size in (0, 1, 100_000, 3)]
    data = b"".join(wire.encode(message) for message in ({**HELLO, "token": token}, *messages))
    for start in range(0, len(data), 7_001):
        writer.write(data[start : start + 7_001])
        await writer.drain()
        await asyncio.sleep(0)
    writer.close()
    await done.wait()

    assert received_messages == messages


@pytest.mark.needs_fork
async def test_the_event_loop_runs_callbacks_between_messages_of_one_burst(listener: ChannelListener) -> None:
    token = listener.token()
    log: list[Any] = []
    done = asyncio.Event()

    all_received = asyncio.Event()

    def hear(message: dict[str, Any]) -> None:
        log.append(message["n"])
        if message["n"] == 99:
            all_received.set()
        asyncio.get_running_loop().call_soon(log.append, "followed")

    def greet(channel: Channel, _: dict[str, Any]) -> None:
        channel.on_message = hear
        channel.on_closed = lambda _: done.set()

    listener.expect(token, greet)
    _, writer = await _connect(listener)
    writer.write(wire.encode({**HELLO, "token": token}))
    writer.write(b"".join(wire.encode({"type": "span", "n": n}) for n in range(100)))
    await all_received.wait()
    writer.close()
    await done.wait()

    assert [each for each in log if each != "followed"] == list(range(100))
    assert "followed" in log[: log.index(50)]


@pytest.mark.needs_fork
async def test_no_message_is_lost_if_the_process_ends_after_its_last_one(listener: ChannelListener) -> None:
    token = listener.token()
    numbers: list[int] = []
    numbers_at_close: list[list[int]] = []
    done = asyncio.Event()

    def greet(channel: Channel, _: dict[str, Any]) -> None:
        def record_close(_: str | None) -> None:
            numbers_at_close.append(list(numbers))
            done.set()

        channel.on_message = lambda message: numbers.append(message["n"])
        channel.on_closed = record_close

    listener.expect(token, greet)
    _, writer = await _connect(listener)
    writer.write(wire.encode({**HELLO, "token": token}))
    writer.write(b"".join(wire.encode({"type": "span", "n": n}) for n in range(500)))
    writer.close()
    await done.wait()

    assert numbers_at_close == [list(range(500))]


@pytest.mark.needs_fork
async def test_invalid_data_is_the_reported_reason_even_if_the_exit_comes_first(listener: ChannelListener) -> None:
    child = Child(kill=lambda: None, ask_output=lambda: None, shared=False)
    is_connected = asyncio.Event()

    def attach(channel: Channel, hello: dict[str, Any]) -> None:
        child.attach_channel(channel, hello)
        is_connected.set()

    listener.expect("token", attach)
    _, writer = await _connect(listener)
    writer.write(json.dumps({**HELLO, "token": "token"}).encode() + b"\n")
    await is_connected.wait()

    child.set_exit(Exit(code=0))
    writer.write(b"garbage\n")
    writer.close()

    failure = (await asyncio.wait_for(child.end, 10)).failure
    assert failure is not None
    assert failure.message == "the agent's process sent data that is not a protocol message"


@pytest.mark.needs_fork
async def test_an_answer_counts_even_if_a_busy_engine_sees_the_exit_first(listener: ChannelListener) -> None:
    child = Child(kill=lambda: None, ask_output=lambda: None, shared=False)
    events: list[str] = []
    child.attach(1, lambda message: events.append(message["type"]))
    child.on_exit.append(lambda end: events.append(end.describe()))
    listener.expect("token", child.attach_channel)

    with socket.socket(socket.AF_UNIX) as process:
        process.connect(listener.address[1])
        process.sendall(wire.encode({**HELLO, "token": "token"}) + wire.encode({"type": "finished", "session": 1}))
    child.set_exit(Exit(code=0))
    time.sleep(0.5)  # noqa: ASYNC251 - blocks the engine, so that everything is pending at once

    await asyncio.wait_for(child.end, 10)
    assert events == ["finished", "ended with exit status 0"]


@pytest.mark.needs_fork
async def test_a_process_that_sends_faster_than_we_read_is_slowed_down(listener: ChannelListener) -> None:
    token = listener.token()
    numbers: list[int] = []
    done = asyncio.Event()

    def greet(channel: Channel, _: dict[str, Any]) -> None:
        channel.on_message = lambda message: numbers.append(message["n"])
        channel.on_closed = lambda _: done.set()

    listener.expect(token, greet)
    _, writer = await _connect(listener)
    writer.write(wire.encode({**HELLO, "token": token}))
    line = b'{"type":"span","n":%d,"text":"' + b"x" * 80 + b'"}\n'
    largest_backlog = 0
    for start in range(0, 100_000, 100):
        writer.write(b"".join(line % n for n in range(start, start + 100)))
        await writer.drain()
        largest_backlog = max(largest_backlog, start + 100 - len(numbers))
    writer.close()
    await done.wait()

    assert largest_backlog < 20_000
    assert numbers == list(range(100_000))


@pytest.mark.needs_fork
async def test_a_message_that_workbench_fails_to_handle_ends_the_connection(listener: ChannelListener) -> None:
    token = listener.token()
    close_reason: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)

    def greet(channel: Channel, _: dict[str, Any]) -> None:
        def hear(message: dict[str, Any]) -> None:
            if message["n"] == 15:
                raise RuntimeError("a fault of ours")

        channel.on_message = hear
        channel.on_closed = close_reason.set_result

    listener.expect(token, greet)
    _, writer = await _connect(listener)
    writer.write(wire.encode({**HELLO, "token": token}))
    writer.write(b"".join(wire.encode({"type": "span", "n": n}) for n in range(100)))

    assert await asyncio.wait_for(close_reason, 60) == "a message that workbench failed to handle"
    writer.close()


@pytest.mark.needs_fork
async def test_messages_are_sent_in_order_before_the_connection_closes(listener: ChannelListener) -> None:
    token = listener.token()
    connection: asyncio.Future[Channel] = asyncio.get_running_loop().create_future()
    listener.expect(token, lambda channel, _: connection.set_result(channel))
    reader, writer = await _connect(listener)
    writer.write(wire.encode({**HELLO, "token": token}))
    channel = await connection

    channel.send({"type": "a"}, {"type": "b"})
    channel.send({"type": "c"})
    channel.close()

    assert [json.loads(line)["type"] for line in (await reader.read()).splitlines()] == ["a", "b", "c"]
    writer.close()
