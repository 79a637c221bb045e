"""Shared helpers for tests of the chat pane: an agent, and chatting by keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from workbench.tui.panes.chat_pane import Prompt

AGENT = """
import os, time
from pathlib import Path

def answer(prompt, session):
    Path("pid").write_text(str(os.getpid()))
    if prompt == "hang":
        time.sleep(1000)
    if prompt == "slow":
        time.sleep(1)
    if prompt == "die":
        os._exit(7)
    if prompt == "raise":
        raise ValueError("x [/foo] [bold]")
    if prompt == "flaky" and not Path("mended").exists():
        raise ConnectionError("connection refused")
    count = session.state["count"] = session.state.get("count", 0) + 1
    calls = [{"tool_name": "add", "tool_input": {"to": count}}]
    return {"response": f"{prompt} makes {count}", "predicted_trajectory": calls, "usage": {"total": 12}}
"""


def case(eval_id: str, *prompts: str, **more: Any) -> dict[str, Any]:
    turns = [{"user_content": {"role": "user", "parts": [{"text": prompt}]}} for prompt in prompts]
    return {"eval_id": eval_id, "conversation": turns, **more}


async def open_chat(screen: Any) -> None:
    """Open the chat of the agent, with the cursor on its first case."""
    await screen.until("one")
    await screen.press("j", "j", "6")
    await screen.until("Talk to pinger")


async def say(screen: Any, text: str) -> None:
    await screen.press(*text, "enter")


def get_draft(screen: Any) -> str:
    text: str = screen.app.screen_stack[0].query_one(Prompt).text
    return text


def read_cases(path: Path) -> list[Any]:
    cases: list[Any] = json.loads(path.read_text())["eval_cases"]
    return cases
