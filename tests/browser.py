"""A headless browser, driven through its DevTools protocol."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import aiohttp
import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_SECONDS = 60


class Page:
    """One page of the browser. It records every request and every error of a script."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._replies: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._session = ""
        self._loaded = asyncio.Event()
        self.requests: list[str] = []
        self.errors: list[str] = []
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, socket: aiohttp.ClientWebSocketResponse) -> Self:
        """Open an empty page."""
        page = cls(socket)
        target = await page.call("Target.createTarget", url="about:blank")
        attached = await page.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        page._session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            await page.call(f"{domain}.enable")
        return page

    async def close(self) -> None:
        """Stop to read messages."""
        self._reader.cancel()

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol."""
        number = next(self._numbers)
        reply = self._replies[number] = asyncio.get_running_loop().create_future()
        session = {"sessionId": self._session} if self._session else {}
        await self._socket.send_json({"id": number, "method": method, "params": parameters, **session})
        return await asyncio.wait_for(reply, _SECONDS)

    async def _read(self) -> None:
        async for message in self._socket:
            data = json.loads(message.data)
            if "id" in data:
                reply = self._replies.pop(data["id"])
                if "error" in data:
                    reply.set_exception(RuntimeError(data["error"]["message"]))
                else:
                    reply.set_result(data["result"])
            match data.get("method"):
                case "Network.requestWillBeSent":
                    self.requests.append(data["params"]["request"]["url"])
                case "Runtime.exceptionThrown":
                    self.errors.append(json.dumps(data["params"]["exceptionDetails"]))
                case "Log.entryAdded" if data["params"]["entry"]["level"] == "error":
                    self.errors.append(data["params"]["entry"]["text"])
                case "Page.loadEventFired":
                    self._loaded.set()

    async def visit(self, path: Path | str) -> float:
        """Open a file or an address; return the seconds until it was loaded and drawn."""
        self._loaded.clear()
        start = time.perf_counter()
        await self.call("Page.navigate", url=path.as_uri() if isinstance(path, Path) else path)
        await asyncio.wait_for(self._loaded.wait(), _SECONDS)
        await self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return time.perf_counter() - start

    async def evaluate(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        reply = await self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in reply, reply
        return reply["result"].get("value")

    async def press(self, *keys: str) -> None:
        """Press keys: names such as "ArrowDown", or characters."""
        for key in keys:
            text = {"Enter": "\r", "Escape": ""}.get(key, key if len(key) == 1 else "")
            shared = {"key": key, "windowsVirtualKeyCode": _CODES.get(key, ord(key[0].upper()))}
            await self.call("Input.dispatchKeyEvent", type="keyDown", **shared, **({"text": text} if text else {}))
            await self.call("Input.dispatchKeyEvent", type="keyUp", **shared)
        await self.settle()

    async def write(self, text: str) -> None:
        """Insert text at the focus."""
        await self.call("Input.insertText", text=text)
        await self.settle()

    async def click(self, selector: str, *, place: int = 0) -> None:
        """Click into the middle of an element with the mouse."""
        found = f"document.querySelectorAll({json.dumps(selector)})[{place}]"
        await self.evaluate(f"{found}.scrollIntoView()")
        box = await self.evaluate(f"{found}.getBoundingClientRect().toJSON()")
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        for kind in ("mousePressed", "mouseReleased"):
            await self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        await self.settle()

    async def settle(self) -> None:
        """Wait until the page has been drawn."""
        await self.evaluate("new Promise(done => setTimeout(() => requestAnimationFrame(done), 30))")

    async def texts(self, selector: str) -> list[str]:
        """Return the visible texts of the elements."""
        found = await self.evaluate(
            f"[...document.querySelectorAll({json.dumps(selector)})].map(found => found.innerText.trim())"
        )
        return list(found)

    async def focus(self) -> str:
        """Return the text of the element with the focus."""
        return str(await self.evaluate("document.activeElement.innerText || document.activeElement.id"))


_CODES = {
    "Enter": 13, "Escape": 27, "Tab": 9, "PageUp": 33, "PageDown": 34, "End": 35, "Home": 36, "ArrowUp": 38,
    "ArrowDown": 40, "/": 191,
}  # fmt: skip


@pytest.fixture(scope="session")
def browser_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start the browser; return the address of its protocol."""
    program = next(filter(None, map(shutil.which, BROWSERS)))
    folder = tmp_path_factory.mktemp("browser")
    command = [
        program, "--headless=new", "--remote-debugging-port=0", f"--user-data-dir={folder}", "--no-first-run",
        "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,900",
        *(["--no-sandbox"] if os.geteuid() == 0 else []), "about:blank",
    ]  # fmt: skip
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    port_file = folder / "DevToolsActivePort"
    deadline = time.monotonic() + _SECONDS
    while not (port_file.exists() and len(port_file.read_text().splitlines()) == 2):
        assert process.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
        time.sleep(0.05)
    port, path = port_file.read_text().splitlines()
    yield f"ws://127.0.0.1:{port}{path}"
    process.terminate()
    process.wait(_SECONDS)


@asynccontextmanager
async def open_page(address: str) -> AsyncIterator[Page]:
    """Open a page in this context."""
    async with aiohttp.ClientSession() as session, session.ws_connect(address, max_msg_size=0) as socket:
        page = await Page.open(socket)
        try:
            yield page
        finally:
            await page.close()


@pytest.fixture
async def browser_page(browser_address: str) -> AsyncIterator[Page]:
    async with open_page(browser_address) as page:
        yield page
