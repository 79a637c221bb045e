"""The messages that the turns of a trace belong to: what the user said and what was answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.model.evalset import Content
from workbench.model.text import redact
from workbench.tui.state.pieces import Line, Piece, Tone, safe_line
from workbench.tui.state.trace.tree import TurnNode

_WIDTH = 300  # characters of one message that are looked at


class Messages:
    """The messages of each turn: from its result, else from its case, else from what its outermost span was given."""

    def __init__(self, turns: Sequence[TurnNode], prompts: Sequence[str]) -> None:
        self._user: dict[int, str] = {}
        self._agent: dict[int, str] = {}
        for turn in turns:
            self._user[turn.index] = _line(_prompt(turn, prompts))
            self._agent[turn.index] = _line(_answer(turn))

    def user(self, turn: int) -> str:
        """What the user said, on one line, safe."""
        return self._user.get(turn, "")

    def line(self, turn: int, *, is_answer: bool) -> Line:
        """Both messages of a turn; the answer stands out where a step is that answer, else the user's."""
        user, agent = (Tone.MUTED, Tone.STRONG) if is_answer else (Tone.STRONG, Tone.MUTED)
        said = self._user.get(turn) or "(no text)"
        answered = self._agent.get(turn)
        mark = ("  ", "▸ ") if is_answer else ("▸ ", "  ")
        pieces = [Piece(f"{mark[0]}user: {safe_line(said, width=60 if answered else 200)}", user)]
        if answered:
            pieces.append(Piece(f"  {mark[1]}agent: {answered}", agent))
        return tuple(pieces)


def _prompt(turn: TurnNode, prompts: Sequence[str]) -> str:
    if turn.result is not None:
        return turn.result.invocation.user_content.text()
    if turn.index < len(prompts):
        return prompts[turn.index]
    return next((text for node in turn.roots if (text := _text_of(node.span.request))), "")


def _answer(turn: TurnNode) -> str:
    final = turn.result.invocation.final_response if turn.result is not None else None
    return final.text(thoughts=False) if final is not None else ""


def _text_of(request: Any) -> str:
    """A user content as an agent was given it: a text, or parts."""
    if isinstance(request, str):
        return request
    if not isinstance(request, dict):
        return ""
    try:
        return Content.model_validate(request).text()
    except ValueError:  # whatever it was given, it is no message
        return ""


def _line(text: str) -> str:
    return safe_line(redact(text), width=_WIDTH)
