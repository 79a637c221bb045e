"""Text that means harm, in every pane: nothing of it is obeyed, and nothing of it breaks the screen."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

NASTY = (
    "[/bold] [red]x[/red] [@click=app.quit]y[/] {z} %s \x1b[31m\x1b]0;title\x07 \x9b2J \x00 \r "
    "over \u202etxt.exe\u202c "
    "\u05e9\u05dc\u05d5\u05dd e\u0301\u0301\u0301 👩‍👩‍👧‍👦 🇩🇪 卧室的灯 ｆｕｌｌ \u200b|\ufeff|\u2028 end"
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


@pytest.fixture
def nasty_project(make_project: Callable[..., Path]) -> Path:
    cases = [_case(f"short {NASTY}", NASTY), _case("long", LONG), _case(f"raises {NASTY}", f"raise {NASTY}")]
    return make_project(agent=AGENT, criteria={"tool_trajectory_avg_score": 1.0, "exact_match": 1.0}, nasty=cases)


@pytest.mark.parametrize("size", [(80, 24), (140, 42)], ids=str)
async def test_every_pane_shows_it_and_obeys_nothing(nasty_project: Path, open_app: Any, size: tuple[int, int]) -> None:
    async with open_app(nasty_project, size=size) as screen:
        await screen.until("short", "long", "raises")
        await screen.press("R")
        await screen.until("finished")
        for _ in range(3):
            await screen.press("n")
            for key in ("1", "2", "3", "4", "5", "o", "!", "question_mark", "escape", "y"):
                await screen.press(key)
                await screen.pilot.pause(0.3)
                shown = screen.text
                assert not {character for character in shown if _is_harmful(character)}, shown
                assert screen.app.is_running
            await screen.press("escape", "escape")
