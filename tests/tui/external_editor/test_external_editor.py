"""The user's external editor: its text comes back or is preserved."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from workbench.tui.external_editor import EditorFailed, editor_command


async def select_case(screen: Any) -> None:
    await screen.until("2 cases")
    await screen.press("down", "down")
    await screen.until("hello")


async def test_editing_the_text_of_the_selected_case_is_one_undo_step(
    open_app: Any, project: Path, lights: Path, editor: Any
) -> None:
    before = lights.read_bytes()
    log = editor("path.write_text(path.read_text().replace('hello', 'good evening'))")
    async with open_app(project) as screen:
        await select_case(screen)
        await screen.press("E")
        await screen.until("good evening")
        assert lights.read_bytes() == before
        await screen.press("u")
        await screen.until("hello")
    assert log.read_text().strip().endswith(".json")


@pytest.mark.parametrize("answer", ["y", "n"])
async def test_a_case_that_changed_while_it_was_edited_is_replaced_only_after_a_question(
    open_app: Any, project: Path, lights: Path, editor: Any, answer: str
) -> None:
    editor(
        f"other = pathlib.Path({str(lights)!r})\n"
        "other.write_text(other.read_text().replace('hello', 'theirs'))\n"
        "path.write_text(path.read_text().replace('hello', 'mine'))"
    )
    async with open_app(project) as screen:
        await select_case(screen)
        await screen.press("E")
        await screen.until("changed while you edited it", "Replace its present text by yours?")
        await screen.press(answer)
        if answer == "y":
            await screen.until("mine")
            await screen.press("u")
        else:
            await screen.until("stays as it is now; your text is in")
        await screen.until("theirs")


async def test_text_of_a_case_that_was_deleted_while_it_was_edited_stays_in_a_named_file(
    open_app: Any, project: Path, lights: Path, editor: Any, actions: Any
) -> None:
    editor(
        f"other = pathlib.Path({str(lights)!r})\n"
        "import json\n"
        "data = json.loads(other.read_text())\n"
        "data['eval_cases'] = data['eval_cases'][1:]\n"
        "other.write_text(json.dumps(data))\n"
        "path.write_text(path.read_text().replace('hello', 'mine'))"
    )
    async with open_app(project) as screen:
        await select_case(screen)
        await screen.press("E")
        await actions.wait_for_notification(screen, "is no longer in lights.evalset.json; your text is in")


async def test_invalid_text_is_reported_with_its_place_and_edited_again(
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
        await select_case(screen)
        await screen.press("E")
        text = await screen.until("Edit it again?")
        assert re.search(r"line 3, column \d+: found", text)
        await screen.press("y")
        await screen.until("good evening")


async def test_text_that_the_user_gives_up_stays_in_a_named_file(
    open_app: Any, project: Path, lights: Path, editor: Any
) -> None:
    editor("path.write_text('precious [')")
    async with open_app(project) as screen:
        await select_case(screen)
        await screen.press("E")
        await screen.until("Edit it again?")
        await screen.press("n")
        text = await screen.until("nothing was changed", "your text is in")
        assert "hello" in text
        match = re.search(r"(/\S*workbench-\S+)", "".join(line.strip(" │▌▐") for line in text.splitlines()))
        assert match is not None


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("/no/such/editor", "cannot be started: No such file"),
        ("false", "ended with status 1"),
        ("a 'b", "cannot be read"),
    ],
)
async def test_a_failing_editor_gets_one_clear_message(
    open_app: Any, project: Path, editor: Any, actions: Any, monkeypatch: pytest.MonkeyPatch, command: str, message: str
) -> None:
    editor("")
    monkeypatch.setenv("EDITOR", command)
    async with open_app(project) as screen:
        await select_case(screen)
        await screen.press("E")
        await actions.wait_for_notification(screen, message)
        assert (await screen.app._backend.call(lambda workspace: workspace.documents.dirty())) == ()


async def test_a_terminal_that_cannot_be_suspended_is_reported(
    open_app: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", "true")
    async with open_app(project) as screen:
        await select_case(screen)
        await screen.press("E")
        await screen.until("cannot run an editor")


async def test_an_unchanged_text_is_not_an_edit(open_app: Any, project: Path, editor: Any) -> None:
    log = editor("path.write_text(path.read_text() + '\\n')")
    async with open_app(project) as screen:
        await select_case(screen)
        await screen.press("E")
        for _ in range(200):
            if log.exists():
                break
            await screen.pilot.pause(0.02)
        await screen.pilot.pause(0.2)
        assert (await screen.app._backend.call(lambda workspace: workspace.documents.dirty())) == ()


def test_visual_takes_precedence_and_each_editor_gets_its_line_option() -> None:
    file = Path("a.json")
    assert editor_command({"VISUAL": "vim -p", "EDITOR": "nano"}, file) == ["vim", "-p", "a.json"]
    assert editor_command({"EDITOR": "/usr/bin/nano"}, file, line=7) == ["/usr/bin/nano", "+7", "a.json"]
    assert editor_command({"EDITOR": "code -w"}, file, line=7) == ["code", "-w", "-g", "a.json:7"]
    assert editor_command({"EDITOR": "unknown"}, file, line=7) == ["unknown", "a.json"]


def test_without_any_editor_the_message_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/none")
    with pytest.raises(EditorFailed, match=r"set \$VISUAL or \$EDITOR"):
        editor_command({}, Path("a"))


async def test_a_file_that_cannot_be_created_is_reported(
    open_app: Any, project: Path, editor: Any, actions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor("")

    def raise_disk_full(**_: Any) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkdtemp", raise_disk_full)
    async with open_app(project) as screen:
        await select_case(screen)
        await screen.press("E")
        await actions.wait_for_notification(screen, "No space left on device")
