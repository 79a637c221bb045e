"""What ADK, Vertex AI and agentevals say of the tool calls that a metric on trajectories judged."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.model.dialects import POLICIES
from workbench.model.evalset import EvalCase
from workbench.model.results import Execution
from workbench.report.dialects import rule_texts
from workbench.tui.state.blocks import BLANK, Block, Whole
from workbench.tui.state.pieces import Piece, Tone
from workbench.tui.state.scores.meaning import info_of


def dialect_blocks(metric: str, execution: Execution, case: EvalCase, *, is_row: bool) -> Iterator[Block]:
    """The dialects side by side below a metric on trajectories; nothing below others, or where nothing compares.

    `is_row`: the case is the row of a dataset.
    """
    info = info_of(metric)
    if info is None or info.family != "trajectory" or not case.conversation:
        return
    from workbench.metrics.dialects import dialects_of  # the start of the screen need not wait for metrics
    from workbench.metrics.subject import CaseView, JudgedCase

    judged = JudgedCase(case=case, expected=case.conversation, execution=execution, is_row=is_row)
    found = dialects_of(CaseView(judged))
    yield BLANK
    yield Whole.of("the same calls in other dialects", Tone.HEADING)
    if found.reason:
        yield Whole.of(f"not compared: {found.reason}", Tone.MUTED, indent=2)
        return
    for comparison in found.whole:
        sign = Piece("≠ ", Tone.WARNING) if comparison.causes else Piece("  ")
        yield Whole((sign, Piece(comparison.question, Tone.KEY)), indent=2, hang=2)
        yield Whole.of(" · ".join(rule_texts(comparison)), indent=6, hang=2)
        for cause in comparison.causes:
            yield Whole.of(cause, Tone.MUTED, indent=6, hang=2)
    for policy in POLICIES:
        facts = (
            ("duplicates", policy.duplicates),
            ("empties", policy.empties),
            ("arguments", policy.arguments),
            ("several turns", policy.turns),
        )
        yield Whole.of(policy.dialect, Tone.KEY, indent=2)
        for name, text in facts:
            yield Whole((Piece(f"{name}  ", Tone.MUTED), Piece(text, Tone.MUTED)), indent=6, hang=2)
