"""The socket: who is let in, and what comes through."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import stat
import time
from collections.abc import AsyncIterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from workbench.agents.channel import PROTOCOL, Channel, Listener
from workbench.agents.processes import Child, Exit
from workbench.agents.worker import wire
from workbench.agents.worker.json_safe import describe, explain_unfit, make_json_safe
from workbench.model.text import add_secrets

HELLO = {"type": "hello", "protocol": PROTOCOL, "role": "session", "pid": 1}


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    listener = Listener()
    await listener.start()
    yield listener
    await listener.close()


async def _connect(listener: Listener) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_unix_connection(listener.address[1])


def test_both_sides_speak_the_same_version() -> None:
    assert wire.PROTOCOL == PROTOCOL


@pytest.mark.needs_fork
async def test_only_this_user_can_reach_the_socket_and_it_goes_with_the_listener(listener: Listener) -> None:
    folder = Path(listener.address[1]).parent

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    await listener.close()
    assert not folder.exists()


@pytest.mark.needs_fork
async def test_a_temporary_folder_with_a_long_name_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 120)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    listener = Listener()

    await listener.start()

    _, writer = await _connect(listener)
    writer.close()
    await listener.close()


def test_secrets_are_masked_in_what_agents_tell_but_not_in_what_they_depend_on() -> None:
    add_secrets(["hjkl9-QWERTZ-uiop"])
    messages = [
        {"type": "hello"},
        {"type": "span", "span": {"request": {"with": "it is hjkl9-QWERTZ-uiop"}}},
        {"type": "dependencies", "rows": [["file", "hjkl9-QWERTZ-uiop.txt", "1"]]},
    ]
    heard: list[dict[str, Any]] = []
    channel = Channel(lambda _, message: heard.append(message))
    channel.on_message = heard.append

    channel.data_received(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    assert heard == [messages[0], {"type": "span", "span": {"request": {"with": "it is [redacted]"}}}, messages[2]]


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
async def test_a_stranger_is_shown_the_door(listener: Listener, first: Any) -> None:
    token = listener.token()
    came: list[Channel] = []
    listener.expect(token, lambda channel, _: came.append(channel))
    reader, writer = await _connect(listener)
    if isinstance(first, dict):
        first.setdefault("token", token)

    writer.write(b"garbage\n" if first == "no json" else json.dumps(first).encode() + b"\n")

    with contextlib.suppress(ConnectionResetError):
        assert await reader.read() == b""
    assert not came
    writer.close()


@pytest.mark.needs_fork
async def test_messages_arrive_whole_however_they_are_cut(listener: Listener) -> None:
    token = listener.token()
    got: list[dict[str, Any]] = []
    done = asyncio.Event()

    def greet(channel: Channel, _: dict[str, Any]) -> None:
        channel.on_message = got.append
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

    assert got == messages


@pytest.mark.needs_fork
async def test_what_follows_from_a_message_does_not_wait_for_all_that_came_with_it(listener: Listener) -> None:
    token = listener.token()
    log: list[Any] = []
    done = asyncio.Event()

    heard = asyncio.Event()

    def hear(message: dict[str, Any]) -> None:
        log.append(message["n"])
        if message["n"] == 99:
            heard.set()
        asyncio.get_running_loop().call_soon(log.append, "followed")

    def greet(channel: Channel, _: dict[str, Any]) -> None:
        channel.on_message = hear
        channel.on_closed = lambda _: done.set()

    listener.expect(token, greet)
    _, writer = await _connect(listener)
    writer.write(wire.encode({**HELLO, "token": token}))
    writer.write(b"".join(wire.encode({"type": "span", "n": n}) for n in range(100)))
    await heard.wait()
    writer.close()
    await done.wait()

    assert [each for each in log if each != "followed"] == list(range(100))
    assert "followed" in log[: log.index(50)]


@pytest.mark.needs_fork
async def test_nothing_is_lost_where_the_process_ends_behind_its_last_message(listener: Listener) -> None:
    token = listener.token()
    got: list[int] = []
    told: list[list[int]] = []
    done = asyncio.Event()

    def greet(channel: Channel, _: dict[str, Any]) -> None:
        def closed(_: str | None) -> None:
            told.append(list(got))
            done.set()

        channel.on_message = lambda message: got.append(message["n"])
        channel.on_closed = closed

    listener.expect(token, greet)
    _, writer = await _connect(listener)
    writer.write(wire.encode({**HELLO, "token": token}))
    writer.write(b"".join(wire.encode({"type": "span", "n": n}) for n in range(500)))
    writer.close()
    await done.wait()

    assert told == [list(range(500))]


@pytest.mark.needs_fork
async def test_garbage_is_the_reason_even_if_the_end_arrives_first(listener: Listener) -> None:
    child = Child(kill=lambda: None, ask_output=lambda: None, shared=False)
    is_connected = asyncio.Event()

    def connected(channel: Channel, hello: dict[str, Any]) -> None:
        child.attach_channel(channel, hello)
        is_connected.set()

    listener.expect("token", connected)
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
async def test_an_answer_counts_though_a_busy_engine_hears_of_the_end_first(listener: Listener) -> None:
    child = Child(kill=lambda: None, ask_output=lambda: None, shared=False)
    told: list[str] = []
    child.attach(1, lambda message: told.append(message["type"]))
    child.on_exit.append(lambda end: told.append(end.describe()))
    listener.expect("token", child.attach_channel)

    with socket.socket(socket.AF_UNIX) as process:
        process.connect(listener.address[1])
        process.sendall(wire.encode({**HELLO, "token": "token"}) + wire.encode({"type": "finished", "session": 1}))
    child.set_exit(Exit(code=0))
    time.sleep(0.5)  # noqa: ASYNC251 - the engine is held up, and then has everything to do at once

    await asyncio.wait_for(child.end, 10)
    assert told == ["finished", "ended with exit status 0"]


@pytest.mark.needs_fork
async def test_a_process_that_sends_more_than_can_be_dealt_with_has_to_wait(listener: Listener) -> None:
    token = listener.token()
    got: list[int] = []
    done = asyncio.Event()

    def greet(channel: Channel, _: dict[str, Any]) -> None:
        channel.on_message = lambda message: got.append(message["n"])
        channel.on_closed = lambda _: done.set()

    listener.expect(token, greet)
    _, writer = await _connect(listener)
    writer.write(wire.encode({**HELLO, "token": token}))
    line = b'{"type":"span","n":%d,"text":"' + b"x" * 80 + b'"}\n'
    ahead = 0
    for start in range(0, 100_000, 100):
        writer.write(b"".join(line % n for n in range(start, start + 100)))
        await writer.drain()
        ahead = max(ahead, start + 100 - len(got))
    writer.close()
    await done.wait()

    assert ahead < 20_000
    assert got == list(range(100_000))


@pytest.mark.needs_fork
async def test_a_message_that_we_fail_at_ends_the_connection(listener: Listener) -> None:
    token = listener.token()
    told: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)

    def greet(channel: Channel, _: dict[str, Any]) -> None:
        def hear(message: dict[str, Any]) -> None:
            if message["n"] == 15:
                raise RuntimeError("a fault of ours")

        channel.on_message = hear
        channel.on_closed = told.set_result

    listener.expect(token, greet)
    _, writer = await _connect(listener)
    writer.write(wire.encode({**HELLO, "token": token}))
    writer.write(b"".join(wire.encode({"type": "span", "n": n}) for n in range(100)))

    assert await asyncio.wait_for(told, 60) == "a message that workbench failed to handle"
    writer.close()


@pytest.mark.needs_fork
async def test_messages_of_one_round_are_sent_together_and_before_the_connection_ends(listener: Listener) -> None:
    token = listener.token()
    came: asyncio.Future[Channel] = asyncio.get_running_loop().create_future()
    listener.expect(token, lambda channel, _: came.set_result(channel))
    reader, writer = await _connect(listener)
    writer.write(wire.encode({**HELLO, "token": token}))
    channel = await came

    channel.send({"type": "a"}, {"type": "b"})
    channel.send({"type": "c"})
    channel.close()

    assert [json.loads(line)["type"] for line in (await reader.read()).splitlines()] == ["a", "b", "c"]
    writer.close()


def test_the_workers_reader_takes_messages_apart() -> None:
    reader = wire.LineReader()

    assert reader.feed(b'{"a"') == []
    assert reader.feed(b":1}\n{}\n{") == [{"a": 1}, {}]
    assert reader.feed(b"}\n") == [{}]


def test_values_that_json_cannot_hold_are_found_or_become_text() -> None:
    loop: list[Any] = []
    loop.append(loop)

    assert explain_unfit({"a": [1, "x", None, 1.5, True]}, "v") is None
    assert explain_unfit({"a": [1, {2}]}, "v") == "v.a[1] is a set, which JSON cannot hold"
    assert explain_unfit({(1,): 2}, "v") == "v has a tuple as a key, expected a str"
    assert explain_unfit(loop, "v") == "v" + "[0]" * 101 + " is nested more than 100 levels deep"
    assert explain_unfit(float("inf"), "v") == "v is inf, which JSON cannot hold"
    assert make_json_safe({1: {2}, "x": float("nan"), "y": b"z"}) == {"1": [2], "x": "nan", "y": "b'z'"}
    assert json.loads(wire.encode({"type": "span", "span": loop}))["type"] == "span"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (3, "an int (3)"),
        ("x" * 100, "a str ('" + "x" * 56 + "...)"),
        ({}, "an empty dict"),
        ({"b": 1, "a": 2}, "a dict with the keys a, b"),
        (Fraction(1, 2), "a fractions.Fraction"),
    ],
)
def test_values_are_described_for_people(value: Any, text: str) -> None:
    assert describe(value) == text
