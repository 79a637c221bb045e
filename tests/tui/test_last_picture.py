"""The last picture of a project: stored at exit, painted before Textual is imported, replaced by the open project."""

from __future__ import annotations

import asyncio
import os
import pty
import select
import stat
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest
from textual.events import Key

from workbench.tui import app
from workbench.tui.last_picture import OPENING, Pictures
from workbench.tui.state.project_state import OpenedProject

SHOW = """
import sys
from pathlib import Path
from workbench.tui.last_picture import EarlyScreen, Pictures
with EarlyScreen(Path(sys.argv[1]), pictures=Pictures(Path(sys.argv[2]))):
    assert "textual" not in sys.modules and "pydantic" not in sys.modules
    print("heard", repr(sys.stdin.read(1)))
"""


class PseudoTerminal:
    """A pseudo-terminal of 20 columns and 3 rows."""

    def __init__(self) -> None:
        self.master, self.slave = pty.openpty()
        termios.tcsetwinsize(self.slave, (3, 20))

    def start(self, *arguments: str | Path) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", SHOW, *map(str, arguments)]
        environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
        return subprocess.Popen(command, stdin=self.slave, stdout=self.slave, stderr=self.slave, env=environment)

    def read_until(self, text: str) -> str:
        output = b""
        while text.encode() not in output:
            assert select.select([self.master], [], [], 30)[0], f"never written: {text} in {output!r}"
            output += os.read(self.master, 4096)
        return output.decode()

    @property
    def echoes(self) -> bool:
        flags: int = termios.tcgetattr(self.slave)[3]
        return bool(flags & termios.ECHO)


def test_a_picture_is_returned_for_its_project_and_size_only(tmp_path: Path) -> None:
    pictures = Pictures(tmp_path / "pictures")
    pictures.save(tmp_path, ["one\x1b[1m ✓\x1b[0m", "two"], columns=20)

    assert pictures.load(tmp_path, columns=20, rows=2) == ["one\x1b[1m ✓\x1b[0m", "two"]
    assert not pictures.load(tmp_path, columns=21, rows=2)
    assert not pictures.load(tmp_path, columns=20, rows=3)
    assert not pictures.load(tmp_path / "other", columns=20, rows=2)


@pytest.mark.parametrize("content", [b"", b"20x2\none", b"\xff\xfe", b"20x2"])
def test_a_damaged_picture_is_not_shown(tmp_path: Path, content: bytes) -> None:
    pictures = Pictures(tmp_path)
    pictures.save(tmp_path, ["one", "two"], columns=20)
    (file,) = tmp_path.glob("*.txt")
    file.write_bytes(content)

    assert not pictures.load(tmp_path, columns=20, rows=2)


def test_only_the_user_can_read_a_picture(tmp_path: Path) -> None:
    Pictures(tmp_path / "pictures").save(tmp_path, ["one"], columns=20)

    (file,) = (tmp_path / "pictures").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_an_unwritable_folder_is_not_an_error(tmp_path: Path) -> None:
    (tmp_path / "pictures").touch()

    Pictures(tmp_path / "pictures").save(tmp_path, ["one"], columns=20)


def test_the_picture_is_painted_without_textual_and_the_terminal_is_restored(tmp_path: Path) -> None:
    Pictures(tmp_path / "pictures").save(tmp_path, ["first row", "second row", "third row"], columns=20)
    terminal = PseudoTerminal()
    process = terminal.start(tmp_path, tmp_path / "pictures")

    painted = terminal.read_until("third row")
    assert painted.startswith("\x1b[?1049h")
    assert not terminal.echoes
    os.write(terminal.master, b"\r")
    assert "heard '\\r'" in terminal.read_until("\x1b[?1049l")

    assert process.wait(timeout=30) == 0
    assert terminal.echoes


def test_without_a_picture_the_path_is_shown(tmp_path: Path) -> None:
    terminal = PseudoTerminal()
    process = terminal.start(Path("/a\x1b[31m"), tmp_path)

    painted = terminal.read_until(OPENING)
    os.write(terminal.master, b"q")
    terminal.read_until("\x1b[?1049l")

    assert process.wait(timeout=30) == 0
    assert "workbench  /a" in painted
    assert "\x1b[31m" not in painted


async def test_the_screen_leaves_a_picture_of_the_open_project(open_fake_app: Any, backend: Any, make: Any) -> None:
    backend.add(make.case("case_0", make.turn("Hi", "Hello")))
    async with open_fake_app(backend, size=(100, 20)) as screen:
        await screen.until("case_0")
        await screen.press("q")

        picture = screen.app.last_picture
    assert len(picture) == 20
    assert "case_0" in "".join(picture)
    assert OPENING in picture[-2]
    assert "no run in this session" not in "".join(picture)


def delay_opening(backend: Any, make: Any, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Add four cases to a project that opens when the event is set."""
    backend.add(*(make.case(f"case_{number}", make.turn("Hi", "Hello")) for number in range(4)))
    may_open, open_project = asyncio.Event(), backend.project.open

    async def open_later() -> OpenedProject:
        await may_open.wait()
        opened: OpenedProject = await open_project()
        return opened

    monkeypatch.setattr(backend.project, "open", open_later)
    return may_open


async def test_keys_typed_before_the_project_is_open_act_on_it(
    open_fake_app: Any, backend: Any, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_open = delay_opening(backend, make, monkeypatch)
    async with open_fake_app(backend) as screen:
        for key in ("G", "r"):
            screen.app.post_message(Key(key, key))
        await asyncio.sleep(0.1)
        may_open.set()
        await screen.until("running")

    assert [selection.cases for selection in backend.requested_runs[0]] == [("case_3",)]


async def test_a_project_that_does_not_open_can_be_quit(
    open_fake_app: Any, backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "_LONGEST_OPENING", 0.1)
    monkeypatch.setattr(backend.project, "open", asyncio.Event().wait)
    async with open_fake_app(backend) as screen:
        await screen.press("q")
        for _ in range(200):
            if screen.app.return_code is None:
                await asyncio.sleep(0.05)

        assert screen.app.return_code == 0


async def test_keys_typed_on_the_picture_of_a_project_that_does_not_open_are_dropped(
    open_fake_app: Any, backend: Any, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "_LONGEST_OPENING", 0.3)
    monkeypatch.setattr(backend.project, "open", asyncio.Event().wait)
    async with open_fake_app(backend) as screen:
        screen.app._shows_last_picture = True
        screen.app._visible_since = float("inf")
        for key in ("q", "question_mark"):
            screen.app.post_message(Key(key, key))
        await screen.until("is still being opened")

        assert screen.app.return_code is None
        assert not screen.app._shows_last_picture


async def test_a_resize_shows_the_screen_and_keys_still_wait(
    open_fake_app: Any, backend: Any, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_open = delay_opening(backend, make, monkeypatch)
    async with open_fake_app(backend) as screen:
        screen.app._shows_last_picture = True
        await screen.pilot.resize_terminal(90, 25)
        assert not screen.app._shows_last_picture
        for key in ("G", "r"):
            screen.app.post_message(Key(key, key))
        await asyncio.sleep(0.1)
        may_open.set()
        await screen.until("running")

    assert [selection.cases for selection in backend.requested_runs[0]] == [("case_3",)]
