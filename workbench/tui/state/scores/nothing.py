"""What stands where there are no scores, and what to do about it."""

from __future__ import annotations

from workbench.tui.state.blocks import BLANK, Block, Whole
from workbench.tui.state.pieces import Tone, safe
from workbench.tui.state.standing import Standing
from workbench.tui.state.subject import Subject


def nothing_blocks(subject: Subject) -> list[Block]:
    """Of a case without a result, or where nothing is selected."""
    if subject.row is None:
        return [Whole.of("No case is selected.", Tone.MUTED)]
    if subject.is_live:
        return [Whole.of("The case is running: it is judged when its last turn has ended.", Tone.RUNNING)]
    if subject.record is not None and subject.record.outcomes:
        return [Whole.of("reading the scores …", Tone.MUTED)]
    if subject.record is not None and subject.record.standing is Standing.WAITING:
        return [Whole.of("The case waits for its turn to run.", Tone.RUNNING)]
    return [
        Whole.of("This case has no scores: it has not run yet.", Tone.STRONG),
        BLANK,
        Whole.of("r runs it; R runs everything.", Tone.MUTED),
    ]


def nothing_ran_blocks() -> list[Block]:
    """Of a set or target of which no case has run."""
    return [
        Whole.of("None of its cases has run yet.", Tone.STRONG),
        BLANK,
        Whole.of("r runs them; R runs everything.", Tone.MUTED),
    ]


def unreadable_blocks(problem: str) -> list[Block]:
    """Where the history cannot be read; `problem` names the file and what is wrong with it."""
    return [
        Whole.of("! The history cannot be read", Tone.ERROR),
        Whole.of(safe(problem), indent=2),
        BLANK,
        Whole.of(
            "Everything else works. Update workbench where a newer version wrote the file, or move the file away to "
            "begin a new one; F5 looks again.",
            Tone.MUTED,
        ),
    ]
