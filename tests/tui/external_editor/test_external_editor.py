"""The user's external editor: its text comes back or is preserved."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from workbench.tui.external_editor import EditorFailed, editor_command


async def on_a_case(screen: Any) -> None:
    await screen.until("on", "off")
    await screen.press("down", "down")
    await screen.until("hello")


async def test_the_text_of_the_selected_case_is_edited_as_a_step_of_undo(
    open_app: Any, project: Path, lights: Path, editor: Any
) -> None:
    before = lights.read_bytes()
    log = editor("path.write_text(path.read_text().replace('hello', 'good evening'))")
    async with open_app(project) as screen:
        await on_a_case(screen)
        await screen.press("E")
        await screen.until("good evening")
        assert lights.read_bytes() == before
        await screen.press("u")
        await screen.until("hello")
    assert log.read_text().strip().endswith(".json")


async def test_a_fault_has_its_place_and_what_was_typed_is_edited_again(
    open_app: Any, project: Path, editor: Any
) -> None:
    editor(
        "text = path.read_text()\n"
        "if tries == 1: path.write_text(text.replace('hello', 'good evening').replace('[', '[ oops', 1))\n"
        "else:\n"
        "    assert 'good evening' in text\n"
        "    path.write_text(text.replace('[ oops', '['))\n"
    )
    async with open_app(project) as screen:
        await on_a_case(screen)
        await screen.press("E")
        text = await screen.until("Edit it again?")
        assert re.search(r"line 3, column \d+: found", text)
        await screen.press("y")
        await screen.until("good evening")


async def test_what_was_typed_stays_in_a_file_that_is_named_where_the_user_gives_up(
    open_app: Any, project: Path, lights: Path, editor: Any
) -> None:
    editor("path.write_text('precious [')")
    async with open_app(project) as screen:
        await on_a_case(screen)
        await screen.press("E")
        await screen.until("Edit it again?")
        await screen.press("n")
        text = await screen.until("nothing was changed", "what you typed is in")
        assert "hello" in text
        kept = re.search(r"(/\S*workbench-\S+)", "".join(line.strip(" │▌▐") for line in text.splitlines()))
        assert kept is not None


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("/no/such/editor", "cannot be started: No such file"),
        ("false", "ended with status 1"),
        ("a 'b", "cannot be read"),
    ],
)
async def test_an_editor_that_fails_is_one_clear_message(
    open_app: Any, project: Path, editor: Any, do: Any, monkeypatch: pytest.MonkeyPatch, command: str, message: str
) -> None:
    editor("")
    monkeypatch.setenv("EDITOR", command)
    async with open_app(project) as screen:
        await on_a_case(screen)
        await screen.press("E")
        await do.said(screen, message)
        assert (await screen.app._backend.call(lambda workspace: workspace.documents.dirty())) == ()


async def test_a_terminal_that_cannot_be_lent_is_told(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await on_a_case(screen)
        await screen.press("E")
        await screen.until("cannot be lent")


async def test_a_text_left_as_it_was_is_no_edit(open_app: Any, project: Path, editor: Any) -> None:
    log = editor("path.write_text(path.read_text() + '\\n')")
    async with open_app(project) as screen:
        await on_a_case(screen)
        await screen.press("E")
        for _ in range(200):
            if log.exists():
                break
            await screen.pilot.pause(0.02)
        await screen.pilot.pause(0.2)
        assert (await screen.app._backend.call(lambda workspace: workspace.documents.dirty())) == ()


def test_visual_comes_before_editor_and_the_line_is_given_as_each_editor_takes_it() -> None:
    file = Path("a.json")
    assert editor_command({"VISUAL": "vim -p", "EDITOR": "nano"}, file) == ["vim", "-p", "a.json"]
    assert editor_command({"EDITOR": "/usr/bin/nano"}, file, line=7) == ["/usr/bin/nano", "+7", "a.json"]
    assert editor_command({"EDITOR": "code -w"}, file, line=7) == ["code", "-w", "-g", "a.json:7"]
    assert editor_command({"EDITOR": "unknown"}, file, line=7) == ["unknown", "a.json"]


def test_without_any_editor_the_message_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/none")
    with pytest.raises(EditorFailed, match=r"set \$VISUAL or \$EDITOR"):
        editor_command({}, Path("a"))


async def test_where_no_file_can_be_made_that_is_said(
    open_app: Any, project: Path, editor: Any, do: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor("")

    def full(**_: Any) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkdtemp", full)
    async with open_app(project) as screen:
        await on_a_case(screen)
        await screen.press("E")
        await do.said(screen, "No space left on device")
