"""What the line at the top says: the project, which judges its criteria ask, what the run has asked of models."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich.cells import cell_len

from workbench.model.spending import ModelSpending
from workbench.report.spending import spending_text
from workbench.tui.state.amounts import thousands
from workbench.tui.state.layout import end_of
from workbench.tui.state.pieces import Line, Piece, Tone, plural, safe_line

_WIDE = 100  # columns from which judges are named in full, and tokens are told
_NARROW = 60  # columns below which nothing is said
_LONGEST_NAME = 22  # cells for a name where there is little room
_MOST_NAMED = 2
_SHORTEST_FOLDER = 12  # cells of its end that always stay


def project_line(root: str, *, sets: int, cases: int, reading: int, problems: int, width: int) -> Line:
    """The folder of the project, how much it holds, how many of its sets are still to be read, in so many cells."""
    before = [Piece(" workbench ", Tone.STRONG)]
    if problems:
        before.append(Piece(f" ! {plural(problems, 'problem')} ", Tone.WARNING))
    after = [Piece(f"   {plural(sets, 'eval set')} · {plural(cases, 'case')}", Tone.MUTED)]
    if reading:
        after.append(Piece(f" · reading {reading:,} …", Tone.RUNNING))
    # The folder, whose name may be long, gives way to what there is to know; its end tells most.
    left = width - sum(cell_len(piece.text) for piece in (*before, *after)) - 2
    return (*before, Piece(f" {end_of(safe_line(root), max(left, _SHORTEST_FOLDER))}"), *after)


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
