"""The metrics of a set or target as rows, each with its worst cases below it where it is unfolded."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len

from workbench.model.results import CaseStatus
from workbench.tui.state.blocks import BLANK, Block, Whole
from workbench.tui.state.charts import bar, share_of, sparkline
from workbench.tui.state.cursor import CursorRows
from workbench.tui.state.layout import fit
from workbench.tui.state.pieces import Line, Piece, Tone, plural, safe_line
from workbench.tui.state.scores.meaning import meaning_blocks
from workbench.tui.state.scores.spread import GroupSpread, MetricSpread, WorstCase
from workbench.tui.state.standing import STALE, look_of, standing_of

_NUMBERS = 23
_BAR = 12
_BAR_FROM = 58


@dataclass(frozen=True, slots=True)
class _Row:
    """A metric, one of its worst cases, or (without a metric) the heading of those that are only reported."""

    metric: MetricSpread | None = None
    worst: WorstCase | None = None


class GroupScores(CursorRows):
    """Rows for a list."""

    def __init__(self, spread: GroupSpread, *, stale: int) -> None:
        """`stale` is how many of the cases have a verdict that no longer holds."""
        self.spread = spread
        self._stale = stale
        self._unfolded: set[str] = set()
        self._rows: list[_Row] = []
        self._list()

    def __len__(self) -> int:
        return len(self._rows)

    def line(self, index: int, width: int) -> Line:
        """One row."""
        row = self._rows[index]
        if row.metric is None:
            return (Piece(" only reported, they decide nothing", Tone.MUTED),)
        if row.worst is not None:
            return _worst_line(row.worst, width=width)
        return _metric_line(row.metric, is_unfolded=row.metric.name in self._unfolded, width=width)

    def take(self, spread: GroupSpread, *, stale: int) -> None:
        """The same set or target, gathered anew: cursor and what is unfolded stay."""
        self.spread, self._stale = spread, stale
        self._list()
        self.move_to(self.cursor)

    @property
    def selected(self) -> MetricSpread | None:
        """The metric under the cursor, or of the case there."""
        return self._rows[self.cursor].metric if self._rows else None

    @property
    def selected_case(self) -> WorstCase | None:
        """The case under the cursor."""
        return self._rows[self.cursor].worst if self._rows else None

    def toggle(self) -> None:
        """Show or hide the worst cases of the metric under the cursor."""
        if self.selected is not None:
            self._unfolded ^= {self.selected.name}
            self._list()

    def blocks(self) -> list[Block]:
        """How the cases ended, and the metric under the cursor with its distribution."""
        blocks: list[Block] = [self._counts()]
        metric = self.selected
        if metric is None:
            return [*blocks, BLANK, Whole.of("Nothing has been scored yet.", Tone.MUTED)]
        blocks += [BLANK, Whole.of(safe_line(metric.name), Tone.HEADING), *_number_blocks(metric)]
        if metric.scored:
            blocks += [BLANK, Whole.of("distribution", Tone.HEADING), *_histogram_blocks(metric)]
        return [*blocks, BLANK, Whole.of("what it means", Tone.HEADING), *meaning_blocks(metric.name)]

    def text(self) -> str:
        """The metrics as text to copy."""
        rows = ["metric\tmean\tstd\tscored\ttotal"]
        for metric in self.spread.metrics:
            numbers = ("" if value is None else str(value) for value in (metric.mean, metric.std))
            rows.append("\t".join([metric.name, *numbers, str(metric.scored), str(metric.total)]))
        return "\n".join(rows)

    def _counts(self) -> Block:
        pieces = [Piece(plural(self.spread.statuses.total(), "result"), Tone.STRONG)]
        for status in CaseStatus:
            if count := self.spread.statuses[status]:
                look = look_of(standing_of([status]))
                pieces.append(Piece(f"   {look.symbol} {count:,} {look.word}", look.tone))
        if self._stale:
            pieces.append(Piece(f"   {STALE.symbol} {plural(self._stale, 'case')} {STALE.word}", STALE.tone))
        return Whole(tuple(pieces))

    def _list(self) -> None:
        self._rows = []
        for metric in self.spread.metrics:
            if not metric.decides and not any(row.metric is None for row in self._rows):
                self._rows.append(_Row())
            self._rows.append(_Row(metric))
            if metric.name in self._unfolded:
                self._rows += [_Row(metric, worst) for worst in metric.worst]
        if self._rows and not self._can_stand(self.cursor):
            self.move_to(self.cursor)

    def _can_stand(self, index: int) -> bool:
        return 0 <= index < len(self._rows) and self._rows[index].metric is not None


def _metric_line(metric: MetricSpread, *, is_unfolded: bool, width: int) -> Line:
    lead = f" {'▾' if is_unfolded else '▸'} "
    tone = Tone.ERROR if metric.errors else Tone.FAILED if metric.failed else Tone.PASSED
    tone = tone if metric.decides else Tone.TEXT
    numbers = f"{_mean_text(metric):>{_NUMBERS}} "
    picture = ""
    if width >= _BAR_FROM:
        share = None if metric.mean is None else share_of(metric.mean, metric.lowest, metric.highest)
        mark = None if metric.threshold is None else share_of(metric.threshold, metric.lowest, metric.highest)
        picture = f"  {' ' * _BAR if share is None else bar(share, width=_BAR, mark=mark)}"
    room = max(width - len(lead) - len(numbers) - len(picture), 8)
    short = f"  ✗ {metric.failed:,}" if metric.failed else ""
    errors = f"  ! {metric.errors:,}" if metric.errors else ""
    name = fit((Piece(safe_line(metric.name)), Piece(short, Tone.FAILED), Piece(errors, Tone.ERROR)), room)
    gap = " " * max(room - sum(cell_len(piece.text) for piece in name), 0)
    return (Piece(lead), *name, Piece(gap), Piece(picture, tone), Piece(numbers, tone))


def _worst_line(worst: WorstCase, *, width: int) -> Line:
    name = str(worst.case) + (f" [{worst.repeat + 1}]" if worst.repeat else "")
    score = f"{worst.score:.4g} "
    room = max(width - len(score) - 5, 8)
    label = fit((Piece(safe_line(name)),), room)
    gap = " " * max(room - sum(cell_len(piece.text) for piece in label), 0)
    return (Piece("     "), *label, Piece(gap), Piece(score, Tone.KEY))


def _mean_text(metric: MetricSpread) -> str:
    if metric.mean is None:
        return "no score"
    std = "" if metric.std is None else f" ±{metric.std:.3g}"
    return f"{metric.mean:.4g}{std}"


def _number_blocks(metric: MetricSpread) -> list[Block]:
    facts = [("mean", "no score" if metric.mean is None else f"{metric.mean:.6g}")]
    if metric.std is not None:
        facts.append(("deviation", f"{metric.std:.6g}, of the sample"))
    facts.append(("scored", f"{metric.scored:,} of {metric.total:,}"))
    if metric.threshold is not None:
        facts.append(("threshold", f"{metric.threshold:.6g}"))
    if metric.decides:
        facts.append(("fell short", f"{metric.failed:,}"))
    if metric.errors:
        facts.append(("errors", f"{metric.errors:,}"))
    if metric.unsure:
        facts.append(("unsure", f"{metric.unsure:,}, on which the samples of the judge disagree"))
    return [Whole((Piece(f"{name}  ", Tone.KEY), Piece(value)), indent=2) for name, value in facts]


def _histogram_blocks(metric: MetricSpread) -> list[Block]:
    step = (metric.highest - metric.lowest) / len(metric.bins)
    if not step:
        return [Whole.of(f"all {metric.scored:,} are {metric.lowest:.4g}", indent=2)]
    most = max(metric.bins)
    blocks: list[Block] = [Whole.of(sparkline([float(count) for count in metric.bins]), Tone.KEY, indent=2)]
    for place, count in enumerate(metric.bins):
        low = metric.lowest + place * step
        label = f"{low:>8.3g} – {low + step:<8.3g}"
        filled = "█" * (round(count / most * 24) or (1 if count else 0))
        blocks.append(Whole((Piece(label, Tone.KEY), Piece(f"{filled} ", Tone.TEXT), Piece(f"{count:,}")), indent=2))
    return blocks
