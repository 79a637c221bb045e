"""Two runs side by side: a row for each case, and what changed in the one under the cursor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from workbench.report.comparing import FLIPS, Change, ComparedCase, RunComparison, Verdict
from workbench.report.comparison_formats import CHANGE_SYMBOLS, changes_text, score_change_text
from workbench.report.wording import counts_text, cut_short, when
from workbench.store.history import StoredRun
from workbench.tui.state.amounts import time_taken
from workbench.tui.state.blocks import BLANK, Block, Whole
from workbench.tui.state.cursor import CursorRows
from workbench.tui.state.layout import fit
from workbench.tui.state.pieces import Line, Piece, Tone, plural, safe, safe_line
from workbench.tui.state.standing import PARTLY_JUDGED, look_of, standing_of

_TONES = {
    Change.REGRESSION: Tone.FAILED,
    Change.FLAKY: Tone.WARNING,
    Change.FIX: Tone.PASSED,
    Change.OTHER: Tone.ERROR,
    Change.NEW: Tone.KEY,
    Change.GONE: Tone.MUTED,
    Change.SAME: Tone.MUTED,
}
_IN_BOTH = (Change.REGRESSION, Change.FIX, Change.FLAKY, Change.OTHER, Change.SAME)
"""Changes of cases that both runs have, in the order in which they are listed."""

_IN_ONE = {Change.NEW: "only in the run after", Change.GONE: "only in the run before"}
_MOST_UNFOLDED = 5  # cases that only one run has and that are listed without being asked for
_WORD = max(map(len, Change))
_VERDICT = 9
_SCORES_FROM = 100  # cells of a row that has room for changed scores


@dataclass(frozen=True, slots=True)
class Fold:
    """The row that stands for many cases which only one of the runs has."""

    change: Change
    count: int
    is_open: bool


class ComparedCases(CursorRows):
    """Rows for a list: cases that both runs have, then those that only one has, folded where they are many.

    With `only_flips` regressions, fixes and flaky cases alone.
    """

    def __init__(self, comparison: RunComparison, *, only_flips: bool = False) -> None:
        self.comparison = comparison
        self.only_flips = only_flips
        changes = [change for change in _IN_BOTH if change in FLIPS or not only_flips]
        self._in_both = [case for change in changes for case in comparison.of(change)]
        self._open: set[Change] = set() if self._in_both else set(_IN_ONE)
        self.rows: Sequence[ComparedCase | Fold] = self._listed_rows()

    def __len__(self) -> int:
        return len(self.rows)

    def line(self, index: int, width: int) -> Line:
        """One case: what changed, its id, both verdicts, and scores that moved where there is room."""
        case = self.rows[index]
        if isinstance(case, Fold):
            words = f" {'▾' if case.is_open else '▸'} {plural(case.count, 'case')} {_IN_ONE[case.change]}"
            return (Piece(words, _TONES[case.change]),)
        tone = _TONES[case.change]
        lead = Piece(f" {CHANGE_SYMBOLS[case.change]} {case.change.value:<{_WORD}} ", tone)
        verdicts = (*_verdict(case.before), Piece("→ ", Tone.MUTED), *_verdict(case.after))
        scores = [Piece(f" {_score_text(case)}", Tone.KEY)] if width >= _SCORES_FROM else []
        room = width - cell_len(lead.text) - sum(cell_len(piece.text) for piece in (*verdicts, *scores))
        name = fit((Piece(safe_line(_name(case)), Tone.STRONG),), max(room - 1, 8))
        gap = " " * max(room - sum(cell_len(piece.text) for piece in name), 1)
        return (lead, *name, Piece(gap), *verdicts, *scores)

    @property
    def selected(self) -> ComparedCase | None:
        """The case under the cursor; None on a row that stands for several."""
        row = self.rows[self.cursor] if self.rows else None
        return row if isinstance(row, ComparedCase) else None

    def toggle_fold(self) -> None:
        """List the cases for which the row under the cursor stands, or no longer."""
        row = self.rows[self.cursor] if self.rows else None
        if isinstance(row, Fold):
            self._open ^= {row.change}
            self.rows = self._listed_rows()

    def head(self) -> list[Line]:
        """Both runs, and how many cases changed in which way."""
        return [
            (Piece(" before  ", Tone.REMOVED), *_run_line(self.comparison.before)),
            (Piece(" after   ", Tone.ADDED), *_run_line(self.comparison.after)),
            (Piece(f" {changes_text(self.comparison)}", Tone.STRONG), Piece(self._listed(), Tone.MUTED)),
        ]

    def blocks(self) -> list[Block]:
        """The case under the cursor, then what was judged differently, then the means."""
        blocks = [] if self.selected is None else [*_case_blocks(self.selected), BLANK]
        return [*blocks, *self._differences(), *self._means()]

    def _listed_rows(self) -> list[ComparedCase | Fold]:
        rows: list[ComparedCase | Fold] = [*self._in_both]
        for change in () if self.only_flips else _IN_ONE:
            cases = self.comparison.of(change)
            if len(cases) > _MOST_UNFOLDED:
                rows.append(Fold(change, len(cases), is_open=change in self._open))
            if len(cases) <= _MOST_UNFOLDED or change in self._open:
                rows += cases
        return rows

    def _listed(self) -> str:
        return f"   only the {len(self):,} whose verdict flipped are listed" if self.only_flips else ""

    def _differences(self) -> Iterator[Block]:
        if self.comparison.judged_differently:
            yield Whole.of("the runs were not judged alike", Tone.HEADING)
            for sentence in self.comparison.judged_differently:
                yield Whole.of(f"△ {safe(sentence)}", Tone.WARNING, indent=2, hang=2)
            yield BLANK

    def _means(self) -> Iterator[Block]:
        if not self.comparison.metrics:
            return
        yield Whole((Piece("means", Tone.HEADING), Piece("  over the cases that both runs scored", Tone.MUTED)))
        for metric in self.comparison.metrics:
            numbers = (
                f"{metric.before:.4g} → {metric.after:.4g} ({metric.difference:+.4g}), {plural(metric.cases, 'case')}"
            )
            yield Whole((Piece(f"{safe_line(metric.name)}  ", Tone.KEY), Piece(numbers)), indent=2, hang=2)


def _case_blocks(case: ComparedCase) -> Iterator[Block]:
    symbol = f"{CHANGE_SYMBOLS[case.change]} {case.change.value}"
    reason = f", for {case.reason}" if case.reason else ""
    yield Whole(
        (Piece(safe_line(_name(case)), Tone.HEADING), Piece(f"  {symbol}{reason}", _TONES[case.change])), hang=2
    )
    yield Whole.of(safe_line(case.case.eval_set), Tone.MUTED, indent=2)
    if case.asks_otherwise:
        yield Whole.of("△ the case or its target was changed in between: the agent was not asked the same",
                       Tone.WARNING, indent=2, hang=2)  # fmt: skip
    if case.judged_otherwise:
        yield Whole.of("△ expectations or criteria were changed in between", Tone.WARNING, indent=2, hang=2)
    changed = {score.name for score in case.changed_scores}
    for score in case.scores:
        tone = Tone.WARNING if score.name in changed else Tone.TEXT
        name = Piece(f"{safe_line(score.name)}  ", Tone.KEY)
        yield Whole((name, Piece(score_change_text(score), tone)), indent=2, hang=2)
    if case.before is not None and case.after is not None:
        times = f"{time_taken(case.before.agent_seconds)} → {time_taken(case.after.agent_seconds)}"
        yield Whole((Piece("duration  ", Tone.KEY), Piece(times)), indent=2)


def _verdict(verdict: Verdict | None) -> tuple[Piece, ...]:
    if verdict is None:
        return (Piece(f"{'  not run':<{_VERDICT + 2}}", Tone.MUTED),)
    look = look_of(standing_of(verdict.statuses))
    passed = sum(status.value == "PASSED" for status in verdict.statuses)
    word = look.word if len(verdict.statuses) == 1 else f"{passed}/{len(verdict.statuses)} passed"
    partly = f" {PARTLY_JUDGED.symbol}" if verdict.misses_samples else ""
    return (Piece(f"{look.symbol} {f'{word}{partly}':<{_VERDICT}}", look.tone),)


def _score_text(case: ComparedCase) -> str:
    """The score that moved most, in a fixed width."""
    most = max(case.changed_scores, key=lambda score: abs(score.difference or 0.0), default=None)
    text = "" if most is None else f"{safe_line(most.name)} {most.difference:+.3g}"
    return f"{text[:34]:<34}"


def _run_line(run: StoredRun) -> tuple[Piece, ...]:
    mark = f"  {cut_short(run)}" if cut_short(run) else ""
    return (
        Piece(f"{safe_line(run.run_id)}", Tone.STRONG),
        Piece(f"  {when(run.started_at)}  {counts_text(run.summary)}"),
        Piece(mark, Tone.WARNING),
    )


def _name(case: ComparedCase) -> str:
    key = case.case
    return f"{key.eval_id}#{key.occurrence + 1}" if key.occurrence else key.eval_id
