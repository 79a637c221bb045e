"""What the line at the top says of judge models: which ones the criteria ask, and what the run has asked of models."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from workbench.model.spending import ModelSpending
from workbench.report.spending import spending_text
from workbench.tui.state.amounts import thousands
from workbench.tui.state.pieces import Line, Piece, Tone, safe_line

_WIDE = 100  # columns from which judges are named in full, and tokens are told
_NARROW = 60  # columns below which nothing is said
_LONGEST_NAME = 22  # cells for a name where there is little room
_MOST_NAMED = 2


def judge_line(judges: Collection[str], models: Sequence[ModelSpending], *, width: int) -> Line:
    """The judges of the project, and what was asked of `models`, at this width of the screen."""
    if width < _NARROW:
        return ()
    if not judges:
        return (Piece(" judge: none ", Tone.MUTED),)
    names = sorted(judges)
    shown = ", ".join(names) if len(names) <= _MOST_NAMED else f"{len(names)} models"
    if width < _WIDE:
        return (Piece(f" judge: {safe_line(shown, width=_LONGEST_NAME)} ", Tone.MUTED),)
    spent = asked_text(models)
    return (Piece(f" judge: {safe_line(shown)} ", Tone.MUTED), *((Piece(f"{spent} "),) if spent else ()))


def asked_text(models: Sequence[ModelSpending]) -> str:
    """What was asked of models: calls and those whose answer was known, money, tokens. Empty where nothing was."""
    tokens = sum(spent.tokens for spent in models)
    return spending_text(models) + (f" {thousands(tokens)} tokens" if tokens else "")
