"""Every pane, screen and dialog on small screens: with long names, the rows, fields and keys stay visible."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.geometry import Region
from textual.widget import Widget
from textual.widgets import Input, TextArea

from workbench.tui.widgets.key_line import KeyLine
from workbench.tui.widgets.row_lists import RowList

LONG = "a very long name that does not end anywhere soon 打开卧室的灯 " * 4
AGENT = """
def answer(prompt):
    print("x" * 300)
    return {"response": prompt[::-1], "predicted_trajectory": [{"tool_name": "y" * 70, "tool_input": {"n": 1}}]}
"""


@pytest.fixture
def long_names(make_project: Callable[..., Path]) -> Path:
    """Create a project whose agent, set, cases, tools and texts have long names, and which fails."""
    text = {"role": "user", "parts": [{"text": LONG}]}
    calls = [{"name": "x" * 70, "args": {"n" * 50: 1}}]
    turn = {"user_content": text, "final_response": text, "intermediate_data": {"tool_uses": calls}}
    cases = [{"eval_id": f"{LONG}{number}", "conversation": [turn, turn]} for number in range(6)]
    criteria = {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}
    path = make_project(agent=AGENT, criteria=criteria, **{"n" * 80: cases, "other": cases[:1]})
    settings = (path / "workbench.toml").read_text(encoding="utf-8")
    (path / "workbench.toml").write_text(settings.replace("pinger", "t" * 70), encoding="utf-8")
    return path


def find_visible(screen: Any, widget: Widget) -> Region:
    """Return the part of a widget that the screen shows."""
    active = screen.app.screen
    return active.find_widget(widget).visible_region.intersection(active.region)


def check_usable(screen: Any, where: str) -> None:
    """Check that the keys, and the row or field with the focus, are on the screen."""
    active, focused = screen.app.screen, screen.app.focused
    assert any(find_visible(screen, line).height for line in active.query(KeyLine)), (where, screen.text)
    if focused is None:  # a question, whose keys are visible
        question = active.query_one(".dialog Static")
        assert find_visible(screen, question).height >= 1, (where, screen.text)
        return
    visible = find_visible(screen, focused)
    assert visible.height >= 1 and visible.width >= 10, (where, screen.text)
    if isinstance(focused, RowList):
        row = focused.content_region.y + focused.source.cursor - focused.scroll_offset.y
        assert len(focused.source) > 0 and visible.y <= row < visible.bottom, (where, screen.text)
    elif isinstance(focused, Input | TextArea):
        assert visible.y <= focused.cursor_screen_offset.y < visible.bottom, (where, screen.text)
    else:
        lines = screen.text.splitlines()[visible.y : visible.bottom]
        assert any(line[visible.x : visible.right].strip() for line in lines), (where, screen.text)
    for rows in active.query(RowList):  # also beside the field of a filter
        if rows.is_on_screen and len(rows.source):
            assert find_visible(screen, rows).height >= 1, (where, rows, screen.text)


PANES = ("1", "2", "3", "4", "5", "6")
DRAWERS = ("o", "exclamation_mark", "O")
SCREENS = (
    ("t",), ("C",), ("c",), ("c", "slash"), ("v",), ("question_mark",), ("question_mark", "slash"), ("ctrl+p",),
    ("2", "W"), ("escape", "m"), ("escape", "m", "slash"), ("escape", "i"), ("escape", "N"), ("escape", "ctrl+n"),
    ("escape", "alt+n"), ("2", "A"), ("t", "slash"), ("t", "c"), ("escape", "alt+y"),
)  # fmt: skip


@pytest.mark.parametrize("size", [(40, 10), (80, 24)], ids=str)
async def test_rows_fields_and_keys_are_visible_everywhere(
    long_names: Path, open_app: Any, size: tuple[int, int]
) -> None:
    async with open_app(long_names, size=size) as screen:
        await screen.until("tttt")
        await screen.press("R")
        for _ in range(1000):
            if screen.state.progress is not None and screen.state.progress.ended is not None:
                break
            await screen.pilot.pause(0.02)
        check_usable(screen, "start")
        for keys in (("slash", "x"), ("escape", "0"), ("escape", "n"), *((key,) for key in PANES)):
            await screen.press(*keys)
            await screen.pilot.pause(0.3)
            check_usable(screen, str(keys))
        for key in DRAWERS:
            await screen.press("escape", "escape", key, "tab", "tab")
            await screen.pilot.pause(0.3)
            check_usable(screen, key)
            await screen.press("escape", key)
        await screen.press("escape", "escape", "o", "6")
        await screen.pilot.pause(0.3)
        prompt = screen.app.focused
        assert isinstance(prompt, TextArea) and find_visible(screen, prompt).height >= 1, screen.text
        await screen.press("escape", "escape", "o")
        for keys in SCREENS:
            await screen.press("escape", "escape", *keys)
            await screen.pilot.pause(0.4)
            check_usable(screen, str(keys))
            for _ in range(4):
                if screen.app.screen is screen.app._main:
                    break
                await screen.press("escape")
                await screen.pilot.pause(0.05)
            assert screen.app.screen is screen.app._main, (keys, screen.text)
