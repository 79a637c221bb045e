"""An evaluation carried out: agents run or rows read, and judged."""

from __future__ import annotations

import asyncio
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from workbench.engine.plan import PlanError, RunOptions
from workbench.engine.run import Run
from workbench.engine.workspace import Workspace
from workbench.model.base import pause_gc
from workbench.model.criteria import BASELINE_COLUMN, EvalConfig
from workbench.model.results import CaseResult, CaseStatus
from workbench.model.run_events import CaseFinished, Notice, RunEvent, RunFinished, RunSummary
from workbench.model.target import AgentKind, Target
from workbench.model.text import one_line, pluralise, redact
from workbench.store.errors import StoreError
from workbench.store.project_discovery import Project, find_root
from workbench.store.settings import LoadedSettings, load_settings
from workbench.testing.callables import Agent, CallingHost, Calls, quiet_frameworks
from workbench.testing.eval_result import EvalResult
from workbench.testing.metric_classes import EvaluationError, Problem
from workbench.testing.metric_criteria import SOURCE, Criteria
from workbench.testing.model_calls import apply_model_calls
from workbench.testing.pytest_session import session
from workbench.testing.result_rows import FAILURE, LATENCY, Rows, Table, build_summary

# How far an evaluation is: one line on a terminal's standard error, or below the cell of a notebook.

_INTERVAL = 0.15
"""Seconds between updates."""
_BAR = 20
"""Characters of the bar."""


class Progress:
    """Shows events of a run as they come. Where nobody looks nothing is shown."""

    def __init__(self, *, total: int) -> None:
        self._total = total
        self._done = 0
        self._errors = 0
        self._shown_at = time.monotonic()
        self._display = _notebook_display()
        self._handle: Any = None
        self._line_is_open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """It is over: the line on a terminal goes, that in a notebook stays with the last count."""
        if self._line_is_open:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
        elif self._handle is not None:
            self._show(self._text())

    def update(self, event: RunEvent) -> None:
        """Something happened."""
        if isinstance(event, CaseFinished):
            self._done += 1
            self._errors += event.status is CaseStatus.ERROR
            if time.monotonic() - self._shown_at >= _INTERVAL:
                self._shown_at = time.monotonic()
                self._show(self._text())

    def _text(self) -> str:
        filled = _BAR * self._done // self._total
        errors = f"  {self._errors} with errors" if self._errors else ""
        return f"{'█' * filled}{'░' * (_BAR - filled)}  {self._done}/{pluralise(self._total, 'row')}{errors}"

    def _show(self, text: str) -> None:
        if self._display is not None:
            shown = {"text/plain": text}
            if self._handle is None:
                self._handle = self._display(shown, raw=True, display_id=True)
            else:
                self._handle.update(shown, raw=True)
        elif sys.stderr.isatty():
            sys.stderr.write(f"\r{text}\x1b[K")
            sys.stderr.flush()
            self._line_is_open = True


def _notebook_display() -> Any:
    """What shows things in the notebook that this runs in; None elsewhere."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    return display


# One evaluation: its rows planned, carried out by the engine, and read as a result.

_METRICS_SHOWN = 3
_WIDTH = 300  # characters that a warning says of one metric
_REASONS_SHOWN = 2


@dataclass(frozen=True, kw_only=True)
class Names:
    """What a run is called: the experiment that it belongs to, and itself, as far as they have names.

    `dataset` and `metrics` tell runs without names apart.
    """

    experiment: str | None
    run: str | None
    dataset: str
    metrics: Sequence[str]

    @property
    def command(self) -> str:
        """What the history shows of it."""
        named = [f"{kind} {name}" for kind, name in (("experiment", self.experiment), ("run", self.run)) if name]
        if not named:
            more = len(self.metrics) - _METRICS_SHOWN
            metrics = ", ".join(self.metrics[:_METRICS_SHOWN]) + (f" and {more} more" if more > 0 else "")
            named = [f"dataset {self.dataset}: {metrics}"]
        return one_line(f"EvalTask: {', '.join(named)}")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How agents, metric functions and judges are asked. None: as the project's settings say.

    `timeout_seconds` is for one row, `judge_seconds` for one try at a judge; `judges_per_second` limits the requests to
    each judge model.
    """

    concurrency: int | None
    timeout_seconds: float | None
    judges_per_second: float | None
    judge_seconds: float | None


@dataclass(frozen=True, kw_only=True)
class Respondents:
    """Who answers the prompts of the rows: `agent` what is judged, `baseline` what that is compared with.

    None: the rows have the answers.
    """

    agent: Agent | None
    baseline: Agent | None


class Evaluation:
    """Rows being judged in the project around the working directory."""

    def __init__(
        self,
        rows: Rows,
        criteria: Criteria,
        asked: Respondents,
        *,
        names: Names,
        limits: Limits,
        history: bool,
        loop: asyncio.AbstractEventLoop | None,
    ) -> None:
        """`loop` is the caller's event loop, where it runs meanwhile. Raises EvaluationError."""
        self._rows = rows
        self._criteria = criteria
        self._asked = asked
        self._names = names
        self._limits = limits
        self._history = history
        try:
            root = find_root(Path.cwd())
            loaded = _apply_limits(load_settings(root), limits)
        except StoreError as error:
            raise EvaluationError(str(error)) from None
        # Nothing is discovered: what the project holds besides does not matter here.
        self._workspace = Workspace(Project(root=root, targets={}, eval_sets=()), loaded)
        self._calls = Calls(loop)
        self._problems: list[Problem] = []
        self._run: Run | None = None
        self._is_cancelled = False

    def run(self) -> EvalResult:
        """Judge the rows, and give everything back. Blocking. Raises EvaluationError."""
        try:
            if self._asked.baseline is not None:
                with quiet_frameworks():
                    self._ask_baseline(self._asked.baseline)
            rows = self._rows if self._asked.agent is None else self._rows.without_answers()
            calls_anybody = self._asked.agent is not None or self._criteria.functions
            # Code of the caller may leave cycles that are to be collected.
            with (
                quiet_frameworks(),
                nullcontext() if calls_anybody else pause_gc(),
                self._start(rows, self._criteria.config, self._asked.agent, history=self._history) as run,
            ):
                return self._build_result(run, rows, self._follow(run))
        finally:
            self._workspace.close()
            self._calls.close()

    def cancel(self) -> None:
        """Have `carry_out` end soon, with an EvaluationError. May be called from any thread."""
        self._is_cancelled = True
        if self._run is not None:
            self._run.cancel()

    def _follow(self, run: Run) -> RunSummary:
        """Wait for the end of a run, and show meanwhile how far it is."""
        self._run = run
        if self._is_cancelled:
            run.cancel()
        summary = RunSummary()
        with Progress(total=run.plan.total) as progress:
            for event in run.iter_events():
                progress.update(event)
                if isinstance(event, Notice):
                    warnings.warn(one_line(event.message), stacklevel=4)
                elif isinstance(event, RunFinished):
                    summary = event.summary
        return summary

    @contextmanager
    def _start(self, rows: Rows, config: EvalConfig, agent: Agent | None, *, history: bool) -> Iterator[Run]:
        """A run that goes on. What its models answered is recorded afterwards, where a test of pytest wants that."""
        name = self._names.experiment or rows.name
        target = Target(name=one_line(name), kind=AgentKind.FUNCTION if agent else AgentKind.RECORDED, path=Path.cwd())
        options = RunOptions(
            concurrency=self._limits.concurrency,
            timeout_seconds=self._limits.timeout_seconds,
            command=self._names.command,
            history=history,
        )
        try:
            plan = self._workspace.plan_rows(rows.to_recorded(), options, target=target, config=config)
            with apply_model_calls(plan, session.calls) as ready:
                host = CallingHost(self._calls, agent=agent, functions=self._criteria.functions)
                yield self._workspace.start(ready, host=host)
        except (PlanError, StoreError) as error:
            raise EvaluationError(str(error)) from None

    def _ask_baseline(self, baseline: Agent) -> None:
        """What the baseline answers becomes a column, as if the dataset had it."""
        config = EvalConfig(criteria=(), source=SOURCE)
        with self._start(self._rows.without_answers(), config, baseline, history=False) as run:
            self._follow(run)
            results = _collect_results(run)
        answers: list[str | None] = []
        for number, result in enumerate(results, start=1):
            turns = result.execution.turns
            answer = turns[0].invocation.final_response if turns else None
            answers.append(None if answer is None else answer.text())
            if answer is None:
                reason = "the baseline gave no response" if result.failure is None else result.failure.message
                self._problems.append(Problem(number, BASELINE_COLUMN, "ERROR", reason))
        self._rows = self._rows.with_column(BASELINE_COLUMN, answers)

    def _build_result(self, run: Run, rows: Rows, summary: RunSummary) -> EvalResult:
        asked = self._asked.agent is not None
        metrics = self._criteria.metrics
        table = Table(rows, _collect_results(run), metrics, asked_agent=asked)
        table.problems[:0] = self._problems
        if warning := _describe_missing(table, partly_judged=summary.partly_judged):
            warnings.warn(warning, stacklevel=4)
        measures = [name for name in (LATENCY, FAILURE) if asked or name in rows.columns]
        metadata = {"experiment": self._names.experiment, "experiment_run": self._names.run}
        if self._history:
            metadata["run_id"] = run.run_id
        return EvalResult(
            summary_metrics=build_summary(summary, metrics, row_count=len(rows.rows), measures=measures),
            table=table,
            frame=rows.frame,
            metadata={name: value for name, value in metadata.items() if value},
        )


def _describe_missing(table: Table, *, partly_judged: int) -> str | None:
    """One sentence with how many rows lack what because of errors, or were judged by too few samples; None if none."""
    rows: dict[str, dict[int, str]] = {}
    for problem in table.problems:
        if problem.status == "ERROR":
            rows.setdefault(problem.column.split("/")[0], {}).setdefault(problem.row, problem.reason)
    alike: dict[tuple[tuple[int, str], ...], list[str]] = {}
    for name, found in rows.items():
        alike.setdefault(tuple(found.items()), []).append(name)
    told = []
    for reasons, names in alike.items():
        why = _format_reasons(reason for _, reason in reasons)
        told.append(f"{', '.join(names)}: {len(reasons)} of {pluralise(len(table.rows), 'row')} ({why})")
    parts = [f"errors left values out: {'; '.join(told)}; see `problems` of the result"] if told else []
    if partly_judged:
        parts.append(f"{pluralise(partly_judged, 'row')} judged by fewer samples than asked")
    return ". ".join(parts) or None


def _format_reasons(reasons: Iterable[str]) -> str:
    """The reason that all share, or else the most frequent ones with their counts."""
    counts = Counter(one_line(redact(reason), width=_WIDTH) for reason in reasons)
    if len(counts) == 1:
        return next(iter(counts))
    shown = [f"{count}: {reason}" for reason, count in counts.most_common(_REASONS_SHOWN)]
    return "; ".join([*shown, *(["…"] if len(counts) > _REASONS_SHOWN else [])])


def _collect_results(run: Run) -> Sequence[CaseResult]:
    results = run.results()
    if run.interrupted or len(results) != run.plan.total:
        raise EvaluationError(
            f"the evaluation ended early: there are results of {len(results)} of {pluralise(run.plan.total, 'row')}"
        )
    return results


def _apply_limits(loaded: LoadedSettings, limits: Limits) -> LoadedSettings:
    """The settings, with what limits say about judges."""
    judge: dict[str, float] = {}
    if limits.judges_per_second is not None:
        judge["requests_per_minute"] = max(1, round(limits.judges_per_second * 60))
    if limits.judge_seconds is not None:
        judge["timeout_seconds"] = min(loaded.settings.judge.timeout_seconds, limits.judge_seconds)
    if not judge:
        return loaded
    settings = loaded.settings.model_copy(update={"judge": loaded.settings.judge.model_copy(update=judge)})
    return loaded.model_copy(update={"settings": settings})
