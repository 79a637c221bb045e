"""What a run was: by which criteria, with which options and versions."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.model.criteria import EvalConfig
from workbench.model.text import redact
from workbench.report.criteria_changes import threshold_text
from workbench.store.history import StoredRun
from workbench.tui.state.blocks import BLANK, Block, Whole
from workbench.tui.state.pieces import Piece, Tone, safe, safe_line
from workbench.tui.state.run.criteria import CHOSEN_SOURCE
from workbench.tui.state.value_tree import value_blocks

_SHOWN_OPTIONS = ("runs", "concurrency", "timeout_seconds", "isolation", "retries")


def criteria_blocks(config: EvalConfig | None, of: str) -> Iterator[Block]:
    """What the cases `of` a set (or several) were judged by, and which file, option or function said so."""
    if config is None:
        return
    yield BLANK
    yield Whole(
        (Piece("judged by", Tone.HEADING), Piece(f"  {_source(config)}, of {safe_line(of)}", Tone.MUTED)), hang=2
    )
    for criterion in config.criteria:
        name = Piece(f"{safe_line(criterion.metric)}  ", Tone.KEY)
        yield Whole((name, Piece(threshold_text(criterion))), indent=2, hang=2)
        yield from value_blocks(criterion.options, indent=4)


def _source(config: EvalConfig) -> str:
    if config.is_default:
        return "the default ones"
    return CHOSEN_SOURCE if config.source == CHOSEN_SOURCE else f"as {safe_line(config.source)} said"


def options_blocks(run: StoredRun) -> Iterator[Block]:
    """Options that can matter, and versions."""
    options = {name: run.options[name] for name in _SHOWN_OPTIONS if name in run.options}
    for title, values in (("options", options), ("versions", run.versions)):
        if values:
            yield BLANK
            yield Whole.of(title, Tone.HEADING)
            text = "   ".join(f"{name.replace('_', ' ')} {value}" for name, value in values.items())
            yield Whole.of(safe(redact(text)), indent=2, hang=2)
