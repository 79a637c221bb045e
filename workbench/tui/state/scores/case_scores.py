"""The criteria of one case as rows, and the one under the cursor in detail."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.model.evalset import EvalCase
from workbench.model.results import CaseResult, CaseStatus, MetricResult
from workbench.model.text import redact
from workbench.report.reliability import pass_all, pass_at, wilson_interval
from workbench.tui.state.blocks import BLANK, Block, Whole
from workbench.tui.state.cursor import CursorRows
from workbench.tui.state.pieces import Line, Piece, Tone, safe
from workbench.tui.state.scores.dialect_lines import dialect_blocks
from workbench.tui.state.scores.metric_lines import metric_blocks, metric_row, scores_over

_NEVER_RAN = (CaseStatus.SKIPPED, CaseStatus.CANCELLED)
_SHOWN_K = (2, 3, 5, 10)


class CaseScores(CursorRows):
    """Rows for a list: the metrics that decide, then a heading and those that are only reported."""

    def __init__(
        self,
        result: CaseResult,
        repeats: Sequence[CaseResult],
        case: EvalCase | None = None,
        *,
        is_row: bool = False,
        note: str = "",
    ) -> None:
        """`result` is the repeat that is looked at, `repeats` all that have ended, with it; `case` what it is held
        against, where that is known; `is_row`: it is the row of a dataset; `note` stands above."""
        self._note = note
        self._result = result
        self._case = case
        self._is_row = is_row
        self._repeats = [other for other in repeats if other.status not in _NEVER_RAN]
        deciding = [metric for metric in result.metrics if metric.threshold is not None]
        reported = [metric for metric in result.metrics if metric.threshold is None]
        heading: list[MetricResult | None] = [None] if reported else []
        self._rows: list[MetricResult | None] = [*deciding, *heading, *reported]
        self.move_to(0)

    def __len__(self) -> int:
        return len(self._rows)

    def line(self, index: int, width: int) -> Line:
        """One row."""
        metric = self._rows[index]
        if metric is None:
            return (Piece(" only reported, they decide nothing", Tone.MUTED),)
        return metric_row(metric, self._scores(metric), width=width)

    def select(self, name: str) -> None:
        """Put the cursor on the metric of this name, where there is one."""
        for index, metric in enumerate(self._rows):
            if metric is not None and metric.name == name:
                self.cursor = index

    @property
    def selected(self) -> MetricResult | None:
        """The metric under the cursor."""
        return self._rows[self.cursor] if self._rows else None

    def blocks(self) -> list[Block]:
        """How the repeats came out, and the metric under the cursor in detail."""
        blocks: list[Block] = [Whole.of(self._note, Tone.WARNING), BLANK] if self._note else []
        blocks += self._repeat_blocks()
        failure = self._result.failure
        if failure is not None:
            blocks.append(Whole.of(f"! it ended in an error: {safe(redact(failure.message))}", Tone.ERROR))
        if self.selected is not None:
            blocks += metric_blocks(self.selected, self._repeats)
            if self._case is not None:
                execution = self._result.execution
                blocks += dialect_blocks(self.selected.name, execution, self._case, is_row=self._is_row)
        elif failure is None:
            blocks.append(Whole.of("Nothing was scored: no criterion had anything to judge.", Tone.WARNING))
        return blocks

    def text(self) -> str:
        """The scores as text to copy."""
        rows = [metric for metric in self._rows if metric is not None]
        return "\n".join(
            f"{metric.name}\t{'' if metric.score is None else metric.score}\t{metric.status.value}" for metric in rows
        )

    def _repeat_blocks(self) -> list[Block]:
        total = len(self._repeats)
        if total < 2:
            return []
        passed = sum(result.status is CaseStatus.PASSED for result in self._repeats)
        low, high = wilson_interval(passed, total)
        pieces = [
            Piece(f"{passed} of {total} repeats passed", Tone.STRONG),
            Piece(f" · {passed / total:.0%}, 95 % interval {low:.0%} to {high:.0%}", Tone.MUTED),
        ]
        if 0 < passed < total:
            pieces.append(Piece("  ~ flaky", Tone.WARNING))
        chances = "   ".join(
            f"pass@{k} {pass_at(k, passed=passed, total=total):.0%}  "
            f"pass^{k} {pass_all(k, passed=passed, total=total):.0%}"
            for k in sorted({*(k for k in _SHOWN_K if k < total), total})
        )
        return [Whole(tuple(pieces)), Whole.of(chances, Tone.MUTED), BLANK]

    def _scores(self, metric: MetricResult) -> Sequence[float | None]:
        if len(self._repeats) < 2:
            return [metric.score]
        return scores_over(metric.name, self._repeats)

    def _can_stand(self, index: int) -> bool:
        return self._rows[index] is not None
