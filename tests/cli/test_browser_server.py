"""The screen in a browser: who gets it, and that it can be used there."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator

import aiohttp
import pytest

from tests.browser import Page, browser_address, browser_page  # noqa: F401 - fixtures
from tests.cli.command_line import CommandLine
from tests.processes import find_children
from workbench.model.installation import install_command

pytestmark = pytest.mark.needs_serve
LIGHT = "home/light.evalset.json"


class Served:
    """A running server."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self.link = process.stdout.readline().strip()
        self.address = self.link.partition("/?")[0]


@pytest.fixture
def served(workbench: CommandLine) -> Iterator[Served]:
    process = workbench.start("serve", str(workbench.root), "--port", "0")
    try:
        yield Served(process)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    """A browser with cookies."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        yield session


async def test_the_link_opens_the_screen_once(served: Served, client: aiohttp.ClientSession) -> None:
    async with client.get(served.link) as first:
        page = await first.text()
    async with (
        client.get(served.address) as again,
        aiohttp.ClientSession() as other,
        other.get(served.link) as second,
        other.get(served.address) as without,
    ):
        texts = await second.text(), await without.text()

    assert (first.status, again.status, str(first.url)) == (200, 200, f"{served.address}/")
    assert "textual-terminal" in page
    assert "style-src 'self'" in first.headers["Content-Security-Policy"]
    assert (second.status, without.status) == (401, 401)
    assert "It has been used" in texts[0]
    assert "Open the link that `workbench serve` has printed" in texts[1]


async def test_a_wrong_token_is_refused_and_does_not_use_up_the_link(
    served: Served, client: aiohttp.ClientSession
) -> None:
    async with client.get(f"{served.address}/?token=é") as wrong:
        text = await wrong.text()
    async with client.get(served.link) as right:
        pass

    assert (wrong.status, right.status) == (401, 200)
    assert text.startswith("The token of this link is wrong. Restart")


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/", {"Host": "evil.example"}),
        ("/", {"Origin": "http://evil.example"}),
        ("/ws", {"Origin": "http://evil.example"}),
        ("/ws", {"Origin": "null"}),
        ("/ws", {}),
        ("/static/js/textual.js", {"Host": "127.0.0.1.evil.example"}),
    ],
    ids=["host", "origin", "socket-origin", "file-origin", "no-browser", "host-prefix"],
)
async def test_other_hosts_and_origins_are_refused_even_with_the_cookie(
    served: Served, client: aiohttp.ClientSession, path: str, headers: dict[str, str]
) -> None:
    async with client.get(served.link) as opened:
        (cookie,) = [morsel for each in opened.history for morsel in each.cookies.values()]

    async with client.get(served.address + path, headers=headers) as refused:
        pass

    assert refused.status == 403
    assert (cookie["httponly"], cookie["samesite"]) == (True, "Strict")


async def test_the_socket_is_closed_to_those_without_the_cookie(served: Served) -> None:
    async with aiohttp.ClientSession() as other:
        with pytest.raises(aiohttp.WSServerHandshakeError) as failure:
            await other.ws_connect(f"{served.address}/ws", headers={"Origin": served.address})

    assert failure.value.status == 401


def test_a_port_that_is_taken_is_one_clear_message(workbench: CommandLine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        result = workbench("serve", "--port", port)

    assert result.status == 2
    assert result.error == f"workbench: 127.0.0.1:{port}: the port is taken; choose another with --port\n"


def test_without_the_extra_the_command_says_what_to_install(
    workbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "textual_serve.server", None)
    monkeypatch.delitem(sys.modules, "workbench.cli.browser_server", raising=False)

    result = workbench("serve")

    assert result.status == 2
    assert f"textual-serve is not installed: {install_command('serve')}" in result.error


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
async def test_the_screen_ends_with_its_page_and_with_the_server(
    served: Served, client: aiohttp.ClientSession, number: signal.Signals
) -> None:
    async with client.get(served.link):
        pass
    address = f"{served.address}/ws?width=120&height=40"
    first = await client.ws_connect(address, headers={"Origin": served.address})
    await read_screen(first, "off")
    assert find_children(served.process.pid)
    await first.close()
    await until(lambda: not find_children(served.process.pid))

    second = await client.ws_connect(address, headers={"Origin": served.address})
    await read_screen(second, "off")
    (screen,) = find_children(served.process.pid)
    served.process.send_signal(number)
    async with asyncio.timeout(15):  # the open page would hold the server for 23 seconds
        await until(lambda: served.process.poll() is not None)

    assert served.process.returncode == (0 if number is signal.SIGINT else -number)
    await until(lambda: screen not in find_children(1))
    await second.close()


async def read_screen(connection: aiohttp.ClientWebSocketResponse, text: str) -> None:
    """Read until the terminal got this text."""
    seen = ""
    async with asyncio.timeout(30):
        while text not in seen:
            message = await connection.receive()
            if message.type is aiohttp.WSMsgType.BINARY:
                seen += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", message.data.decode("utf-8", "replace"))


@pytest.mark.needs_chromium
async def test_cases_are_run_compared_and_edited_in_a_real_browser(
    served: Served,
    workbench: CommandLine,
    browser_page: Page,  # noqa: F811
) -> None:
    def read_rooms() -> list[str]:
        cases = json.loads((workbench.root / LIGHT).read_text())["eval_cases"]
        return [case["conversation"][0]["intermediate_data"]["tool_uses"][0]["args"]["room"] for case in cases]

    def count_finished_runs() -> int:
        runs = workbench("history", "--format", "json").data["runs"]
        return sum(run["duration_seconds"] is not None for run in runs)

    await browser_page.visit(served.link)
    await asyncio.sleep(5)  # the screen is open, and has the focus
    assert await browser_page.evaluate("document.activeElement.className") == "xterm-helper-textarea"
    await browser_page.press("R")
    await until(lambda: count_finished_runs() == 1)
    for _ in range(5):  # what the terminal shows cannot be read from the page: the keys may come too early
        await browser_page.press("n", "2")
        await asyncio.sleep(1)
        await browser_page.press("A")
        await asyncio.sleep(1)
        await browser_page.press("Enter")
        await asyncio.sleep(2)
        if read_rooms() == ["kitchen", "hall"]:
            break
    assert read_rooms() == ["kitchen", "hall"]

    outside = [url for url in browser_page.requests if not url.startswith(served.address)]
    assert all("fonts.googleapis.com" in url for url in outside)  # asked for by the page, and blocked
    assert [error for error in browser_page.errors if "fonts.googleapis.com" not in error and "404" not in error] == []


async def until(condition: Callable[[], object], seconds: float = 30) -> None:
    """Wait until something is true."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.1)
