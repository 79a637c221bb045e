"""Hostile text in every pane: the screen shows it without control characters and stays intact."""

from __future__ import annotations

import gc
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

NASTY = (
    "[/bold] [red]x[/red] [@click=app.quit]y[/] {z} %s \x1b[31m\x1b]0;title\x07 \x9b2J \x00 \r "
    "over \u202etxt.exe\u202c "
    "\u05e9\u05dc\u05d5\u05dd e\u0301\u0301\u0301 👩‍👩‍👧‍👦 🇩🇪 ❤️ ☝🏽 1️⃣ 卧室的灯 ｆｕｌｌ \u200b|\ufeff|\u2028 end"
)
LONG = NASTY + "字x" * 500_000
HARMFUL = {"\u202e", "\u202d", "\u2066", "\u2067", "\u2068", "\x9b"}

AGENT = f"""
NASTY = {NASTY!r}
def answer(prompt):
    print(NASTY)
    if "raise" in prompt:
        raise ValueError(NASTY)
    return {{
        "response": prompt[::-1] + NASTY,
        "predicted_trajectory": [{{"tool_name": NASTY, "tool_input": {{NASTY: [NASTY, {{NASTY: prompt}}]}}}}],
    }}
"""


def _case(eval_id: str, prompt: str) -> dict[str, Any]:
    content = {"role": "user", "parts": [{"text": prompt}]}
    call = {"name": NASTY, "args": {NASTY: [prompt, {"k": NASTY}], "other": 1}}
    turn = {
        "invocation_id": NASTY,
        "user_content": content,
        "final_response": content,
        "intermediate_data": {"tool_uses": [call], "intermediate_responses": [[NASTY, content["parts"]]]},
        "rubrics": [{"rubric_id": NASTY, "rubric_content": {"text_property": NASTY}}],
    }
    session = {"app_name": NASTY, "user_id": NASTY, "state": {NASTY: NASTY}}
    return {
        "eval_id": eval_id,
        "conversation": [turn],
        "session_input": session,
        "final_session_state": {NASTY: prompt},
    }


def _is_harmful(character: str) -> bool:
    return character in HARMFUL or (unicodedata.category(character) == "Cc" and character != "\n")


class ScreenChecker:
    """Press keys and check the screen after each: no harmful text, no row wider than the screen."""

    def __init__(self, screen: Any, width: int) -> None:
        self._screen = screen
        self._width = width

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self._screen.press(key)
            await self._screen.pilot.pause()
            self.check_screen()

    async def until(self, *wanted: str) -> None:
        await self._screen.until(*wanted)
        self.check_screen()

    async def wait_until_covered(self) -> None:
        """Wait until another screen opens, and check it."""
        for _ in range(600):
            if self.is_covered:
                break
            await self._screen.pilot.pause(0.02)
        assert self.is_covered, self._screen.text
        await self._screen.pilot.pause()
        self.check_screen()

    @property
    def is_covered(self) -> bool:
        return len(self._screen.app.screen_stack) > 1

    async def leave(self) -> None:
        """Press escape until the main screen is active again."""
        for _ in range(5):
            if not self.is_covered:
                return
            await self.press("escape")
        raise AssertionError(self._screen.text)

    def check_screen(self) -> None:
        shown = self._screen.text
        assert not {character for character in shown if _is_harmful(character)}, shown
        assert {cell_len(row) for row in shown.split("\n")} == {self._width}, shown
        assert self._screen.app.is_running


@pytest.fixture(autouse=True)
def _free_texts() -> Iterator[None]:
    """Free the texts of a test, which are a hundred megabytes in reference cycles."""
    yield
    gc.collect()


SIZES = pytest.mark.parametrize("size", [(80, 24), (140, 42)], ids=str)


@pytest.fixture
def nasty_project(make_project: Callable[..., Path]) -> Path:
    cases = [_case(f"short {NASTY}", NASTY), _case("long", LONG), _case(f"raises {NASTY}", f"raise {NASTY}")]
    return make_project(agent=AGENT, criteria={"tool_trajectory_avg_score": 1.0, "exact_match": 1.0}, nasty=cases)


@SIZES
async def test_every_pane_shows_hostile_text_safely(nasty_project: Path, open_app: Any, size: tuple[int, int]) -> None:
    async with open_app(nasty_project, size=size) as screen:
        checker = ScreenChecker(screen, size[0])
        await checker.until("short", "long", "raises")
        await checker.press("R")
        await checker.until("finished")
        for _ in range(3):
            await checker.press("n", "1", "2", "3", "4", "5", "6", "o", "o", "!", "!", "question_mark", "escape", "y")
            await checker.press("escape", "escape")


@SIZES
async def test_every_screen_shows_hostile_text_safely(
    nasty_project: Path, open_app: Any, size: tuple[int, int]
) -> None:
    async with open_app(nasty_project, size=size) as screen:
        checker = ScreenChecker(screen, size[0])
        await checker.until("short", "long", "raises")
        await checker.press("C")
        await checker.until("judged by")
        await checker.press("enter")
        await checker.until("finished")
        await checker.press("n", "2")
        for key in ("W", "t", "v", "C", "c"):
            await checker.press(key)
            await checker.wait_until_covered()
            await checker.press("j", "j", "right")
            await checker.leave()


@SIZES
async def test_a_chat_shows_hostile_text_safely(nasty_project: Path, open_app: Any, size: tuple[int, int]) -> None:
    async with open_app(nasty_project, size=size) as screen:
        checker = ScreenChecker(screen, size[0])
        await checker.until("short", "long", "raises")
        await checker.press("j", "j", "6")
        await checker.until("Talk to")
        await checker.press("h", "i", "enter")
        await checker.until("ih[/bold]")


@SIZES
async def test_a_conflict_shows_hostile_text_safely(nasty_project: Path, open_app: Any, size: tuple[int, int]) -> None:
    async with open_app(nasty_project, size=size) as screen:
        checker = ScreenChecker(screen, size[0])
        await checker.until("short", "long", "raises")
        await checker.press("j")
        path = nasty_project / "nasty.evalset.json"
        await screen.app._backend.edit(
            lambda workspace: workspace.documents.edit(
                path.name, lambda document: document.remove_case(0), label="delete"
            )
        )
        path.write_text(path.read_text().replace("invocation_id", "another_id"))
        await checker.press("ctrl+s")
        await checker.wait_until_covered()
        await checker.press("j", "j")
        await checker.leave()


@SIZES
async def test_the_text_box_of_the_editor_shows_hostile_text_safely(
    nasty_project: Path, open_app: Any, size: tuple[int, int]
) -> None:
    async with open_app(nasty_project, size=size) as screen:
        checker = ScreenChecker(screen, size[0])
        await checker.until("short", "long", "raises")
        for _ in range(3):
            await checker.press("e", "j", "j", "j", "enter", "end", "x", "escape", "escape", "escape", "j")
