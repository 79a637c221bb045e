"""Messages of the screen: in the line of keys, as the only toast, and in the list of messages."""

from __future__ import annotations

from typing import Any

import pytest
from rich.cells import cell_len
from textual.screen import Screen
from textual.widgets import Input

from workbench.tui.widgets.key_line import DECISION, say


async def wait_for_toasts(screen: Any, *wanted: str) -> None:
    """Wait until the screen shows exactly these toasts."""
    for _ in range(300):
        shown = [str(toast.render()) for toast in screen.app.screen.query("Toast")]
        if shown == list(wanted):
            return
        await screen.pilot.pause(0.02)
    raise AssertionError(shown)


def last_line(screen: Any) -> str:
    """Return the text of the last line of the screen."""
    return str(screen.text.rstrip("\n").splitlines()[-1])


async def test_a_message_is_shown_before_the_keys_and_covers_nothing(open_fake_app: Any, lights: Any) -> None:
    async with open_fake_app(lights, size=(80, 24)) as screen:
        await screen.until("两盏灯", "judge: none")
        before = screen.text.splitlines()

        say(screen.app, "copied [b]12[/b] characters")
        await screen.until("copied [b]12[/b] characters")

        assert last_line(screen).lstrip().startswith("copied [b]12[/b] characters")
        assert last_line(screen).rstrip().endswith("? help")
        assert screen.text.splitlines()[:-1] == before[:-1]
        await wait_for_toasts(screen)

        await screen.press("escape")
        await screen.until_gone("copied")
        assert last_line(screen) == before[-1]


async def test_messages_that_were_replaced_at_once_are_counted(open_fake_app: Any, lights: Any) -> None:
    async with open_fake_app(lights) as screen:
        await screen.until("两盏灯")
        for text in ("first", "second", "third"):
            say(screen.app, text)

        await screen.until("third (2 more: !)")


@pytest.mark.parametrize("size", [(40, 10), (80, 24)], ids=str)
async def test_a_message_that_is_cut_names_the_keys_for_the_whole_text_and_for_help(
    open_fake_app: Any, lights: Any, size: tuple[int, int]
) -> None:
    async with open_fake_app(lights, size=size) as screen:
        await screen.until("两盏灯")
        say(screen.app, "a long text " * 5 + "with an end")
        await screen.until("a long text")

        assert last_line(screen).rstrip().endswith("…  ! all  ? help")
        await screen.press("!")
        await screen.until("with an end")


async def test_a_click_on_a_key_behind_a_message_finds_the_key(open_fake_app: Any, lights: Any) -> None:
    async with open_fake_app(lights, size=(80, 24)) as screen:
        await screen.until("两盏灯", "judge: none")
        say(screen.app, "文 saved")
        await screen.until("文 saved")

        cell = cell_len(last_line(screen).partition("? help")[0])
        await screen.pilot.click(offset=(cell, 23))

        await screen.until("In the eval sets")


async def test_enter_is_named_by_what_it_does_in_a_filter(open_fake_app: Any, lights: Any) -> None:
    lights.asks_first = True
    async with open_fake_app(lights, size=(80, 24)) as screen:
        await screen.until("两盏灯", "judge: none")
        await screen.press("R")
        await screen.until("⏎ run")
        await screen.press("slash")
        await screen.until("⏎ done")
        assert "⏎ run" not in screen.text

        await screen.press("enter")
        await screen.until("⏎ run")
    assert lights.started_runs == []


async def test_what_went_wrong_is_the_only_toast(open_fake_app: Any, lights: Any) -> None:
    async with open_fake_app(lights) as screen:
        await screen.until("两盏灯")
        say(screen.app, "first [b]", severity="error")
        await wait_for_toasts(screen, "first [b]")
        say(screen.app, "second", severity="warning", needs_decision=True)
        await wait_for_toasts(screen, f"{DECISION}: second")

        await screen.press("escape")
        await wait_for_toasts(screen)


async def test_a_toast_covers_neither_the_help_nor_a_field(open_fake_app: Any, lights: Any) -> None:
    async with open_fake_app(lights, size=(80, 24)) as screen:
        await screen.until("两盏灯", "judge: none")
        await screen.press("f1")
        await screen.until("In the eval sets")
        say(screen.app, "broken", severity="error")
        await screen.until("broken")
        await wait_for_toasts(screen)
        await screen.press("escape")

        await screen.press("slash", "x", "enter", "z")  # the filter is at the top, as wide as the screen, without focus
        await screen.until("filter: x")
        assert not isinstance(screen.app.focused, Input)
        say(screen.app, "worse " * 30, severity="error")
        await screen.until("worse")
        await wait_for_toasts(screen)
        assert "worse" in last_line(screen)


@pytest.mark.parametrize("size", [(40, 10), (80, 24), (140, 42)], ids=str)
async def test_a_toast_is_as_small_as_its_text_and_covers_no_line_of_the_state(
    open_fake_app: Any, lights: Any, size: tuple[int, int]
) -> None:
    async with open_fake_app(lights, size=size) as screen:
        await screen.until("两盏灯")
        await screen.pilot.pause(0.3)
        before = screen.text.splitlines()
        say(screen.app, "it broke", severity="error")
        await wait_for_toasts(screen, "it broke")
        await screen.until("it broke")
        pairs = enumerate(zip(before, screen.text.splitlines(), strict=True))
        assert [line for line, (old, new) in pairs if old != new] == [1]  # the border of the panes
        toast = screen.app.screen.query_one("Toast").region
        assert (toast.width, toast.right) == (len("it broke") + 3, size[0])

        say(screen.app, "打开卧室的灯 " * 40, severity="error")
        await screen.until("打开卧室的灯 打开")
        toast = screen.app.screen.query_one("Toast").region
        assert toast.height == 2 and toast.y == 1
        assert "…" in "".join(screen.text.splitlines()[toast.y : toast.bottom])


async def test_removed_toasts_leave_no_widgets(open_fake_app: Any, lights: Any) -> None:
    async with open_fake_app(lights, size=(80, 24)) as screen:
        await screen.until("两盏灯", "judge: none")
        for number in range(10):
            say(screen.app, f"message {number}", severity="error")
            await wait_for_toasts(screen, f"message {number}")

        assert len(screen.app.screen.query("ToastHolder")) <= 2


async def test_the_last_messages_are_listed_below_the_problems(open_fake_app: Any, lights: Any) -> None:
    async with open_fake_app(lights) as screen:
        await screen.until("两盏灯")
        for text in ("saved", "nothing to copy", "nothing to copy"):
            say(screen.app, text)
        await screen.press("exclamation_mark")
        await screen.until("messages, newest first")
        assert "nothing to copy  (2 times)" in screen.text
        assert "  saved" in screen.text

        say(screen.app, "shown at once")
        await screen.until("shown at once  ")
        assert [message.text for message in screen.state.problems.messages][:2] == ["shown at once", "nothing to copy"]
        assert "information · shown at" in screen.text


async def test_the_keys_are_found_once_after_several_changes(
    open_fake_app: Any, lights: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_keys, looks = Screen.active_bindings.fget, []  # type: ignore[attr-defined]

    def note_look(self: Screen[Any]) -> Any:
        looks.append(self)
        return find_keys(self)

    async with open_fake_app(lights) as screen:
        await screen.until("两盏灯", "judge: none")
        monkeypatch.setattr(Screen, "active_bindings", property(note_look))
        for _ in range(3):
            screen.app.screen.refresh_bindings()
        await screen.pilot.pause()

        assert len(looks) == 1
