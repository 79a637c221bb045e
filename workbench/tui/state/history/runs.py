"""The runs of a set or target as rows, and the run under the cursor in detail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from workbench.model.criteria import EvalConfig
from workbench.model.events import RunSummary
from workbench.model.text import redact
from workbench.report.wording import counts_text, cut_short, when
from workbench.store.history import RunPart, StoredRun
from workbench.tui.state.amounts import duration
from workbench.tui.state.blocks import BLANK, Block, Whole
from workbench.tui.state.charts import bar, sparkline
from workbench.tui.state.cursor import CursorRows
from workbench.tui.state.history.run_facts import criteria_blocks, options_blocks
from workbench.tui.state.layout import fit
from workbench.tui.state.pieces import Line, Piece, Tone, plural, safe, safe_line

_BAR = 10
_MOST_CONFIGS = 5


class GroupRuns(CursorRows):
    """Rows for a list. `eval_set` is None for a whole target."""

    def __init__(self, parts: Sequence[RunPart], *, target: str, eval_set: str | None) -> None:
        self.parts = parts
        self.target = target
        self.eval_set = eval_set
        self.marked: str | None = None  # the id of the run to compare with

    def __len__(self) -> int:
        return len(self.parts)

    def line(self, index: int, width: int) -> Line:
        """One run: when, pass rate, counts, whether it was cut short."""
        run, summary = self.parts[index]
        rate = pass_rate(summary)
        tone = Tone.PASSED if rate == 1.0 else Tone.ERROR if summary.error else Tone.FAILED
        mark = "●" if run.run_id == self.marked else " "
        share = "  no verdict" if rate is None else f"  {bar(rate, width=_BAR)} {rate:>4.0%}"
        pieces = [
            Piece(f"{mark} {when(run.started_at)}"),
            Piece(share, tone if rate is not None else Tone.MUTED),
            Piece(f"  {summary.passed:,}/{summary.total:,}"),
            Piece(f"  ✗ {summary.failed:,}" if summary.failed else "", Tone.FAILED),
            Piece(f"  ! {summary.error:,}" if summary.error else "", Tone.ERROR),
            Piece(f"  ? {summary.not_evaluated:,}" if summary.not_evaluated else "", Tone.WARNING),
            Piece(f"  {cut_short(run)}" if cut_short(run) else "", Tone.WARNING),
        ]
        return fit(tuple(pieces), width)

    @property
    def selected_run(self) -> StoredRun | None:
        """The run under the cursor."""
        return self.parts[self.cursor].run if self.parts else None

    @property
    def older_run(self) -> StoredRun | None:
        """The run before the one under the cursor."""
        return self.parts[self.cursor + 1].run if self.cursor + 1 < len(self.parts) else None

    def in_order(self, *run_ids: str) -> list[str]:
        """Runs from old to new."""
        newest_first = [part.run.run_id for part in self.parts]
        return sorted(run_ids, key=newest_first.index, reverse=True)

    def blocks(self) -> list[Block]:
        """The pass rates over time, and the run under the cursor in detail."""
        run = self.selected_run
        if run is None:
            return []
        summary = self.parts[self.cursor].summary
        took = "" if run.duration_seconds is None else f" in {duration(run.duration_seconds)}"
        whole = "" if summary.total == run.summary.total else f"; the whole run: {counts_text(run.summary)}"
        blocks = [*self._course(), BLANK, Whole.of(f"run {safe_line(run.run_id)}", Tone.HEADING)]
        facts = [("came out", f"{counts_text(summary)}{whole}{took}"), ("command", run.command)]
        if cut_short(run):
            facts.append(("ended", f"{cut_short(run)}: not every case ran"))
        blocks += [
            Whole((Piece(f"{name}  ", Tone.KEY), Piece(safe(redact(text)))), indent=2, hang=2)
            for name, text in facts
            if text
        ]
        return [*blocks, *self._means(run), *self._criteria(run), *options_blocks(run)]

    def _course(self) -> Iterator[Block]:
        rates = [pass_rate(part.summary) for part in reversed(self.parts)]
        times = [part.run.duration_seconds for part in reversed(self.parts)]
        yield Whole.of(f"{plural(len(self.parts), 'run')}, old to new", Tone.HEADING)
        yield Whole((Piece(sparkline(rates, highest=1.0), Tone.KEY), Piece("  pass rate", Tone.MUTED)), indent=2)
        yield Whole((Piece(sparkline(times), Tone.KEY), Piece("  duration", Tone.MUTED)), indent=2)

    def _means(self, run: StoredRun) -> Iterator[Block]:
        means = {name: metric for name, metric in run.summary.metrics.items() if metric.mean is not None}
        if not means:
            return
        yield BLANK
        yield Whole((Piece("means", Tone.HEADING), Piece("  over the whole run", Tone.MUTED)))
        for name, metric in means.items():
            std = "" if metric.std is None else f" ±{metric.std:.3g}"
            text = f"{metric.mean:.4g}{std}  ({metric.scored:,} of {metric.total:,} scored)"
            yield Whole((Piece(f"{safe_line(name)}  ", Tone.KEY), Piece(text)), indent=2, hang=2)

    def _criteria(self, run: StoredRun) -> Iterator[Block]:
        """The criteria of its sets, those that are the same told once."""
        chosen = {name: config for name, config in run.criteria.items() if self.eval_set in (None, name)}
        told: list[tuple[EvalConfig, list[str]]] = []
        for name, config in chosen.items():
            same = next((names for other, names in told if other == config), None)
            if same is None:
                told.append((config, [name]))
            else:
                same.append(name)
        for config, names in told[:_MOST_CONFIGS]:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            yield from criteria_blocks(config, f"{names[0]}{more}")
        if len(told) > _MOST_CONFIGS:
            yield Whole.of(f"… and {len(told) - _MOST_CONFIGS} more", Tone.MUTED, indent=2)


def pass_rate(summary: RunSummary) -> float | None:
    """Passed of all that came to a verdict or an error; None where nothing did."""
    judged = summary.passed + summary.failed + summary.error + summary.not_evaluated
    return summary.passed / judged if judged else None
