"""Clipboards other than the clipboard of the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pyperclip
import pytest

from workbench.tui.app import copy_beside_terminal

# Answers how its option is set, and notes what it makes a buffer of.
TMUX = """#!{python}
import pathlib, sys
if sys.argv[1] == "show-options":
    assert sys.argv[2:] == ["-sv", "set-clipboard"]
    print({option!r})
else:
    assert sys.argv[1:] == ["load-buffer", "-w", "-"]
    with pathlib.Path({log!r}).open("a") as log:
        log.write(sys.stdin.read() + "\\n")
"""


@pytest.fixture
def buffers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Simulate a tmux with this `set-clipboard`; return the file that records its buffers."""
    monkeypatch.setattr(pyperclip, "copy", lambda text: None)
    monkeypatch.setenv("TMUX", "/tmp/tmux,1,0")
    monkeypatch.setenv("PATH", str(tmp_path))

    def create_tmux(option: str) -> Path:
        program, log = tmp_path / "tmux", tmp_path / "buffers"
        program.write_text(TMUX.format(python=sys.executable, option=option, log=str(log)))
        program.chmod(0o755)
        log.touch()
        return log

    return create_tmux


@pytest.mark.skipif(sys.platform == "win32", reason="there is no tmux")
@pytest.mark.parametrize(
    ("option", "expected"), [("on", ""), ("external", "lamp\n"), ("off", "lamp\n"), ("", "lamp\n")]
)
def test_tmux_gets_a_buffer_unless_it_creates_one_itself(
    buffers: Callable[[str], Path], option: str, expected: str
) -> None:
    log = buffers(option)

    copy_beside_terminal("lamp")

    assert log.read_text() == expected


@pytest.mark.skipif(sys.platform == "win32", reason="there is no tmux")
def test_text_too_long_for_an_escape_sequence_always_becomes_a_buffer(buffers: Callable[[str], Path]) -> None:
    log = buffers("on")

    copy_beside_terminal("灯" * 250_000)

    assert len(log.read_text()) == 250_001


@pytest.mark.usefixtures("buffers")
def test_without_a_tmux_program_no_buffer_is_created(tmp_path: Path) -> None:
    copy_beside_terminal("lamp")

    assert list(tmp_path.iterdir()) == []
