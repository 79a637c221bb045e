"""What became of one case in every run, as rows, and the execution under the cursor in detail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from workbench.model.criteria import EvalConfig
from workbench.model.keys import CaseKey
from workbench.model.results import MetricResult
from workbench.model.text import redact
from workbench.report.criteria_changes import run_changes
from workbench.report.judging import samples_text
from workbench.report.wording import cut_short, when
from workbench.store.history import StoredJob, StoredRun, StoredScores
from workbench.tui.state.amounts import duration, time_taken
from workbench.tui.state.blocks import BLANK, Block, Whole
from workbench.tui.state.board import ResultPlace
from workbench.tui.state.charts import sparkline
from workbench.tui.state.cursor import CursorRows
from workbench.tui.state.history.run_facts import criteria_blocks, options_blocks
from workbench.tui.state.layout import fit
from workbench.tui.state.pieces import Line, Piece, Tone, plural, safe, safe_line
from workbench.tui.state.scores.metric_lines import metric_row
from workbench.tui.state.standing import PARTLY_JUDGED, STALE, look_of, look_of_metric, standing_of

_SHOWN_IN_LINE = 60
"""How many of the newest executions a sparkline shows."""

CURRENT = "→"
"""The mark of an execution whose verdict counts now."""

_KEPT = "These are stored results of a dataset, in memory or of a file: there is no eval case to run again."


class ContentKeys(NamedTuple):
    """Hashes of a case as it is now: what reaches the agent, and what its answers are held against."""

    execution: str
    scoring: str


@dataclass(frozen=True)
class CaseHistory:
    """The executions of a case, newest first, with their runs by id. `now` is None where it could not run now.

    `is_kept`: it is a row of a dataset of which there are only stored results, and never could. `is_recorded`: its
    target has no agent, only what one once answered.
    """

    case: CaseKey
    executions: tuple[StoredScores, ...] = ()
    runs: Mapping[str, StoredRun] = field(default_factory=dict)
    now: ContentKeys | None = None
    is_kept: bool = False
    is_recorded: bool = False


class Executions(CursorRows):
    """Rows for a list."""

    def __init__(self, history: CaseHistory) -> None:
        self.history = history
        self.marked: str | None = None  # the id of the run to compare with
        self.current: frozenset[ResultPlace] = frozenset()  # those whose verdicts count now
        self.is_stale = False  # whether those do not hold any longer

    def __len__(self) -> int:
        return len(self.history.executions)

    def line(self, index: int, width: int) -> Line:
        """One execution: when, repeat, status, duration, the scores that decide."""
        job, metrics = self.history.executions[index]
        look = look_of(standing_of([job.status]))
        mark = "●" if job.run_id == self.marked else " "
        current = CURRENT if self._is_current(job) else " "
        word = f"{look.word}{f' {PARTLY_JUDGED.symbol}' if job.misses_samples else ''}"
        repeat = f" [{job.key.repeat + 1}]" if self._has_repeats(job.run_id) else ""
        pieces = [
            Piece(mark, Tone.HEADING),
            Piece(current, Tone.KEY),
            Piece(f"{look.symbol} ", look.tone),
            Piece(f"{when(job.finished_at)}{repeat} "),
            Piece(f" {word:<9}", look.tone),
            Piece(f"{time_taken(job.agent_seconds):>8}", Tone.MUTED),
            Piece("  △" if self._differs_from_older(index) else "   ", Tone.WARNING),
        ]
        for metric in metrics:
            if metric.threshold is not None:
                shown = look_of_metric(metric.status)
                score = "no score" if metric.score is None else f"{metric.score:.3g}"
                pieces.append(Piece(f"  {shown.symbol} {safe_line(metric.name)} {score}", shown.tone))
        return fit(tuple(pieces), width)

    @property
    def selected(self) -> StoredJob | None:
        """The execution under the cursor."""
        return self.history.executions[self.cursor].job if self.history.executions else None

    @property
    def selected_run(self) -> StoredRun | None:
        """The run that it was part of."""
        return None if self.selected is None else self.history.runs[self.selected.run_id]

    @property
    def older_run(self) -> StoredRun | None:
        """The newest run of the case before the one under the cursor."""
        if self.selected is None:
            return None
        older = (stored.job.run_id for stored in self.history.executions[self.cursor :])
        run_id = next((run_id for run_id in older if run_id != self.selected.run_id), None)
        return None if run_id is None else self.history.runs[run_id]

    def in_order(self, *run_ids: str) -> list[str]:
        """Runs from old to new."""
        newest_first = list(self.history.runs)
        return sorted(run_ids, key=newest_first.index, reverse=True)

    def blocks(self) -> list[Block]:
        """The course of scores and durations, and the execution under the cursor in detail."""
        job = self.selected
        if job is None:
            return []
        run = self.history.runs[job.run_id]
        blocks = [*self._course(), BLANK]
        blocks.append(Whole((Piece(f"run {safe_line(job.run_id)}", Tone.HEADING), Piece(f"  {cut_short(run)}"))))
        if self._is_current(job):
            counts = f"{CURRENT} its verdict counts now"
            stale = Piece(f", but is stale {STALE.symbol}", STALE.tone) if self.is_stale else Piece("")
            blocks.append(Whole((Piece(counts, Tone.KEY), stale), indent=2, hang=2))
        if run.command:
            blocks.append(Whole((Piece("command  ", Tone.KEY), Piece(safe(redact(run.command)))), indent=2, hang=2))
        if job.failure is not None:
            failure = f"! {job.failure.kind.value} error  {safe(redact(job.failure.message))}"
            blocks.append(Whole.of(failure, Tone.ERROR, indent=2, hang=2))
        blocks += self._changes()
        blocks += _score_blocks(self.history.executions[self.cursor].metrics)
        blocks += criteria_blocks(self._config(run), self.history.case.eval_set)
        return [*blocks, *options_blocks(run)]

    def _course(self) -> Iterator[Block]:
        """Sparklines from old to new: each metric that decides, then durations."""
        shown = self.history.executions[:_SHOWN_IN_LINE][::-1]
        names = dict.fromkeys(m.name for _, metrics in shown for m in metrics if m.threshold is not None)
        yield Whole.of(f"{plural(len(self), 'execution')}, old to new", Tone.HEADING)
        for name in names:
            scores = [next((m.score for m in metrics if m.name == name), None) for _, metrics in shown]
            line = sparkline(scores, lowest=0.0, highest=1.0)
            yield Whole((Piece(line, Tone.KEY), Piece(f"  {safe_line(name)}", Tone.MUTED)), indent=2)
        times = [job.agent_seconds or None for job, _ in shown]
        if taken := [time for time in times if time is not None]:
            span = f"{duration(min(taken))} to {duration(max(taken))}"
            yield Whole((Piece(sparkline(times), Tone.KEY), Piece(f"  duration, {span}", Tone.MUTED)), indent=2)

    def _changes(self) -> Iterator[Block]:
        """What was different in the run before, and what is different now."""
        job, older = self.selected, self._older(self.cursor)
        if job is None:
            return
        keys = ContentKeys(job.execution_key, job.scoring_key)
        told = [*self._differing(older, keys)] if older is not None else []
        if older is not None:
            told += run_changes(self._only_this_set(older.run_id), self._only_this_set(job.run_id))
        if told:
            yield Whole.of("changed since the run before it", Tone.HEADING)
            yield from (Whole.of(f"△ {safe(sentence)}", Tone.WARNING, indent=2, hang=2) for sentence in told)
        if self.history.is_kept:
            yield Whole.of(_KEPT, Tone.MUTED)
        elif self.history.now is None:
            recorded = self.history.is_recorded
            what = "What was recorded cannot be judged as it is now" if recorded else "The case as it is now cannot run"
            yield Whole.of(f"{what}, or is gone.", Tone.WARNING)
        elif since := list(self._differing(job, self.history.now)):
            yield Whole.of("changed since then, up to now", Tone.HEADING)
            yield from (Whole.of(f"△ {sentence}", Tone.WARNING, indent=2, hang=2) for sentence in since)

    def _is_current(self, job: StoredJob) -> bool:
        return ResultPlace(job.run_id, job.key) in self.current

    def _only_this_set(self, run_id: str) -> StoredRun:
        run = self.history.runs[run_id]
        criteria = {name: config for name, config in run.criteria.items() if name == self.history.case.eval_set}
        return run.model_copy(update={"criteria": criteria})

    def _config(self, run: StoredRun) -> EvalConfig | None:
        return run.criteria.get(self.history.case.eval_set)

    def _older(self, index: int) -> StoredJob | None:
        """The newest execution of an earlier run."""
        run_id = self.history.executions[index].job.run_id
        later = (stored.job for stored in self.history.executions[index + 1 :])
        return next((job for job in later if job.run_id != run_id), None)

    def _differs_from_older(self, index: int) -> bool:
        job, older = self.history.executions[index].job, self._older(index)
        keys = ContentKeys(job.execution_key, job.scoring_key)
        return older is not None and any(True for _ in self._differing(older, keys))

    def _differing(self, job: StoredJob, other: ContentKeys) -> Iterator[str]:
        if self.history.is_kept:
            return _differing_row(job, other)
        return (_differing_recorded if self.history.is_recorded else _differing_case)(job, other)

    def _has_repeats(self, run_id: str) -> bool:
        run = self.history.runs[run_id]
        return bool(run.options.get("runs", 1) != 1)


def _differing_case(job: StoredJob, other: ContentKeys) -> Iterator[str]:
    """What is not the same in the case, as its hashes tell."""
    if job.execution_key and other.execution and job.execution_key != other.execution:
        yield "what the agent is asked: prompts, session or scenario of the case, or settings of the target"
    if job.scoring_key and other.scoring and job.scoring_key != other.scoring:
        yield "what it is held against: expectations of the case, or criteria"


def _differing_row(job: StoredJob, other: ContentKeys) -> Iterator[str]:
    """What is not the same in the row: where its answer was recorded, one hash covers all that it says."""
    if job.execution_key and other.execution and job.execution_key != other.execution:
        yield "the row: what was asked, answered or expected in it"
    elif job.scoring_key and other.scoring and job.scoring_key != other.scoring:
        yield "what it is held against: what the row expected, or the metrics"


def _differing_recorded(job: StoredJob, other: ContentKeys) -> Iterator[str]:
    """The same of what a target has recorded, in rows or in sessions that are held against an eval set."""
    if job.execution_key and other.execution and job.execution_key != other.execution:
        yield "what is judged: what was asked, answered or expected, or settings of the target"
    elif job.scoring_key and other.scoring and job.scoring_key != other.scoring:
        yield "what it is judged by: criteria"


def _score_blocks(metrics: tuple[MetricResult, ...]) -> Iterator[Block]:
    yield BLANK
    yield Whole.of("scores", Tone.HEADING)
    if not metrics:
        yield Whole.of("none: it was not judged, or its scores have been forgotten", Tone.MUTED, indent=2)
    for metric in metrics:
        pieces = metric_row(metric, [metric.score], width=56)
        yield Whole(pieces, indent=1)
        for text in (metric.reason, samples_text(metric)):
            if text:
                yield Whole.of(safe(redact(text)), Tone.MUTED, indent=6)
