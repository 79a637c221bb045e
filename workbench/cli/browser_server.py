"""The server of `workbench serve`: the screen in a browser, for one person.

The pages come from textual-serve. This module adds a token that works once, and checks of host and origin. Without
them, another program on this machine or a page in the same browser could reach the screen, run agents and edit files.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hmac
import secrets
import shlex
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp_jinja2
import click
import jinja2
from aiohttp import web
from textual_serve.server import Server

from workbench.cli.console import message, write_lines
from workbench.store.files import real_path

_COOKIE = "workbench-session"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_NEW_LINK = "Restart `workbench serve` for a new link."

_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:"
)
"""The page loads nothing from other servers: it would name a font of one."""

_FOCUS = """<script>
  const focusing = setInterval(() => {
    const found = document.querySelector(".xterm-helper-textarea");
    if (found && document.body.classList.contains("-first-byte")) { found.focus(); clearInterval(focusing); }
  }, 50);
</script>"""
"""Keys reach the screen at once; the page itself waits for a click."""

_SHUTDOWN = 0.5  # seconds for requests that are in progress at Ctrl-C; the connection of an open page never ends

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class BrowserServer:
    """Serves the screen of a project. The first browser that opens the link gets it, and no other."""

    def __init__(self, path: Path, *, host: str, port: int, allowed_hosts: tuple[str, ...] = ()) -> None:
        """`allowed_hosts` are names under which browsers may also ask for it, such as that of a proxy."""
        self._path = path
        self._host = host
        self._port = port
        self._allowed_hosts = {name.lower() for name in (*_LOOPBACK, host, *allowed_hosts)}
        self._token: str | None = secrets.token_urlsafe(24)
        self._session = secrets.token_urlsafe(32)

    def run(self) -> None:
        """Serve until Ctrl-C. Raises click.ClickException if the port is taken."""
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(self._serve())

    async def _serve(self) -> None:
        runner = web.AppRunner(self._make_app(), access_log=None, shutdown_timeout=_SHUTDOWN)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port).start()
        except OSError as error:
            await runner.cleanup()
            taken = error.errno == errno.EADDRINUSE
            reason = "the port is taken; choose another with --port" if taken else error.strerror
            raise click.ClickException(f"{self._host}:{self._port}: {reason}") from None
        port = runner.addresses[0][1]
        shown = f"[{self._host}]" if ":" in self._host else self._host
        write_lines([f"http://{shown}:{port}/?token={self._token}"])
        message(
            "open the link in a browser. It works once, and gives the right to run agents and edit files. Ctrl-C ends"
        )
        if self._host not in _LOOPBACK:
            message(f"{self._host} can be reached from other machines, and the connection is not encrypted")
        try:
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()

    def _make_app(self) -> web.Application:
        # The screen is a process of its own for each connection.
        command = shlex.join([sys.executable, "-m", "workbench", str(real_path(self._path))])
        pages = Server(command)

        async def show_screen(request: web.Request) -> web.StreamResponse:
            # The page asks for everything under the name by which the browser knows this server.
            named = Server(command, title="workbench", public_url=f"{request.scheme}://{request.host}")
            answer: web.StreamResponse = await named.handle_index(request)
            assert isinstance(answer, web.Response)
            answer.text = (answer.text or "").replace("</body>", f"{_FOCUS}</body>")
            answer.headers["Content-Security-Policy"] = _POLICY
            answer.headers["Cache-Control"] = "no-store"
            return answer

        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._check(request, handler)

        app = web.Application(middlewares=[check])
        aiohttp_jinja2.setup(app, loader=jinja2.FileSystemLoader(pages.templates_path))
        app.add_routes(
            [
                web.get("/", show_screen, name="index"),
                web.get("/ws", pages.handle_websocket, name="websocket"),
                web.get("/download/{key}", pages.handle_download, name="download"),
                web.static("/static", pages.statics_path, name="static"),
            ]
        )
        return app

    async def _check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let a request pass if it comes from the browser that opened the link."""
        if _name_host(request.host) not in self._allowed_hosts:  # a page that gave its own name our address
            raise web.HTTPForbidden(text=f"This server is not called {_name_host(request.host)!r}.")
        origin = request.headers.get("Origin")
        if origin is not None and origin.partition("://")[2] != request.host:
            raise web.HTTPForbidden(text="Requests of other sites are refused.")
        if request.path == "/ws" and origin is None:
            raise web.HTTPForbidden(text="Only a browser may connect.")
        if request.path == "/" and (given := request.query.get("token")) is not None:
            return self._open_session(given)
        if not hmac.compare_digest(request.cookies.get(_COOKIE, "").encode(), self._session.encode()):
            raise web.HTTPUnauthorized(text=f"Open the link that `workbench serve` has printed. {_NEW_LINK}")
        return await handler(request)

    def _open_session(self, given: str) -> web.StreamResponse:
        """Answer the link: its token becomes a cookie of this browser, and is worth nothing from then on."""
        if self._token is None or not hmac.compare_digest(given.encode(), self._token.encode()):
            used = " It has been used." if self._token is None else ""
            raise web.HTTPUnauthorized(text=f"The token of this link is wrong.{used} {_NEW_LINK}")
        self._token = None
        answer = web.HTTPSeeOther("/")  # without the token, which the history of the browser would keep
        answer.set_cookie(_COOKIE, self._session, httponly=True, samesite="Strict", path="/")
        return answer


def _name_host(host: str) -> str:
    """Return the name in a Host header, in lower case and without port and brackets."""
    name = host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host
    return name.strip("[]").lower()
