"""What a screen styles and lays out again, which decides how fast keys are."""

from __future__ import annotations

from typing import Any

import pytest
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode
from textual.geometry import Region
from textual.widget import Widget

from tests.tui.panes.browser_pane.by_keys import wait_until_true


async def test_a_move_of_the_focus_changes_only_the_frames_and_the_rows_under_the_cursor(
    open_fake_app: Any, lights: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    styled: list[DOMNode] = []
    laid_out: list[Widget] = []
    drawn: list[tuple[Widget, tuple[Region, ...]]] = []
    apply, refresh = Stylesheet.apply, Widget.refresh

    def note_style(self: Stylesheet, node: DOMNode, **more: Any) -> None:
        styled.append(node)
        apply(self, node, **more)

    def note_refresh(self: Widget, *regions: Region, layout: bool = False, **more: Any) -> Widget:
        laid_out.extend([self] if layout else [])
        drawn.append((self, regions))
        return refresh(self, *regions, layout=layout, **more)

    async with open_fake_app(lights) as screen:
        await screen.until("两盏灯", "judge: none")
        await wait_until_true(screen, lambda: bool(screen.app.screen.query(".filter-help.-filled")))  # written last
        before = screen.app.focused
        with monkeypatch.context() as patch:
            patch.setattr(Stylesheet, "apply", note_style)
            patch.setattr(Widget, "refresh", note_refresh)
            await screen.press("tab")
            await screen.pilot.pause()
        after = screen.app.focused

        assert before is not after
        frames = set(screen.app.screen.query("#left, #right"))
        assert {node for node in styled if isinstance(node, Widget)} <= frames
        assert not laid_out
        assert [regions for widget, regions in drawn if widget is before] == [
            (Region(0, 0, before.scrollable_content_region.width, 1),)
        ]
        assert not [regions for widget, regions in drawn if widget is after and not regions]
        assert [frame.has_class("-focused") for frame in screen.app.screen.query("#left, #right")] == [False, True]
