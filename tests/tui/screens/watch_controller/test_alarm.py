"""Alarms when a passing case fails: once for each change, also outside the terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.tui.screens.watch_controller.conftest import TOOLS, Shop, WatchedShop
from workbench.model.identity import CaseKey
from workbench.model.results import CaseStatus
from workbench.tui.screens import watch_controller
from workbench.tui.screens.watch_controller import notification
from workbench.tui.state.case_status import CaseState
from workbench.tui.state.watch_state import Alarm

DEARER = TOOLS.replace('"amount": 1', '"amount": 2')


def key(eval_id: str) -> CaseKey:
    return CaseKey(target="t", eval_set="s", eval_id=eval_id)


@pytest.fixture
def output(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the output that bypasses the screen, with the bell as BEL."""
    sequences: list[str] = []
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.setattr(watch_controller, "_write", lambda app, sequence: sequences.append(sequence))
    monkeypatch.setattr("textual.app.App.bell", lambda app: sequences.append("BEL"))
    return sequences


def list_alarms(watched: WatchedShop) -> list[str]:
    return [notice.text for notice in watched.screen.state.problems.messages if "passed before" in notice.text]


def count_saves(watched: WatchedShop) -> int:
    """Count the detected changes of the tools; temporary files of a save may count separately."""
    return sum("tools.py" in change.event.paths for change in watched.watch.changes)


async def test_an_alarm_is_raised_once_for_each_change(
    open_shop: Callable[..., Any], shop: Shop, output: list[str]
) -> None:
    async with open_shop() as watched:
        shop.save("tools.py", DEARER)
        await watched.until_true(lambda: list_alarms(watched))
        (message,) = list_alarms(watched)
        assert message.startswith("2 cases passed before and do not now: refund_")
        assert message.endswith("tools.py: refund() changed")
        assert output == ["BEL", f"\x1b]9;workbench: {message}\x07"]

        shop.save("tools.py", DEARER.replace('"amount": 2', '"amount": 3'))  # a failed case stays failed
        await watched.until_true(lambda: count_saves(watched) >= 2 and not watched.state.is_running)
        await watched.until_true(lambda: not watched.watch.stale)
        assert output.count("BEL") == 1

        shop.save("tools.py", TOOLS)
        await watched.until_true(lambda: watched.get_state("refund_1") is CaseState.PASSED)
        shop.save("tools.py", TOOLS.replace('"amount": 1', '"amount": 4'))
        await watched.until_true(lambda: output.count("BEL") == 2)


@pytest.mark.parametrize(("notify", "toasts", "rings"), [("off", 0, []), ("toast", 1, []), ("bell", 1, ["BEL"])])
async def test_the_settings_choose_the_kind_of_alarm(
    open_shop: Callable[..., Any], shop: Shop, output: list[str], notify: str, toasts: int, rings: list[str]
) -> None:
    shop.save("workbench.toml", f'{(shop.path / "workbench.toml").read_text()}[watch]\nnotify = "{notify}"\n')
    async with open_shop() as watched:
        shop.save("tools.py", DEARER)
        await watched.until_true(lambda: watched.get_state("refund_1") is CaseState.FAILED and not watched.watch.stale)
        await watched.until_true(lambda: all(change.alarm.is_complete for change in watched.watch.changes))
        await watched.screen.pilot.pause(0.3)

        assert len(list_alarms(watched)) == toasts
        assert output == rings


def test_failures_in_quick_succession_share_one_alarm() -> None:
    alarm = Alarm()
    alarm.add(key("one"), CaseStatus.FAILED, now=10.0)
    assert alarm.announce(now=10.5) is None
    alarm.add(key("two"), CaseStatus.ERROR, now=10.6)

    assert alarm.announce(now=11.0) == "2 cases passed before and do not now: one, two"
    alarm.add(key("three"), CaseStatus.FAILED, now=12.0)
    assert alarm.announce(now=20.0) is None
    alarm.is_complete = True
    assert alarm.announce(now=20.1) == "3 cases passed before and do not now: one, two, three"
    assert alarm.announce(now=20.2) is None


def test_an_alarm_of_one_case_has_its_status() -> None:
    alarm = Alarm()
    alarm.add(key("one\x1b[31m"), CaseStatus.ERROR, now=10.0)
    alarm.is_complete = True

    assert alarm.announce(now=10.0) == "one␛[31m passed before and is ERROR now"


def test_a_notification_contains_no_control_characters_of_its_text() -> None:
    text = notification("x\x07\x1b]52;c;evil\x07\x9d\n[bold]", in_tmux=False)

    assert text.startswith("\x1b]9;workbench: x")
    assert text.endswith("\x07")
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in text[4:-1])


def test_a_notification_is_wrapped_in_tmux() -> None:
    assert notification("x", in_tmux=True) == "\x1bPtmux;\x1b\x1b]9;workbench: x\x07\x1b\\"
