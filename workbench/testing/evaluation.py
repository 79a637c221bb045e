"""`Evaluation`: runs an agent on rows, or reads their answers, and judges them."""

from __future__ import annotations

import asyncio
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from workbench.engine.plan import PlanError, RunOptions
from workbench.engine.run import Run
from workbench.engine.run_resources import open_lazily
from workbench.engine.workspace import Workspace
from workbench.llm.model_types import Ask
from workbench.metrics.judges.templated import list_inputs
from workbench.model.criteria import BASELINE_COLUMN, EvalConfig
from workbench.model.facts import pause_gc
from workbench.model.results import CaseResult, CaseStatus, ModelSpending
from workbench.model.run_events import CaseFinished, Notice, RunEvent, RunFinished, RunSummary
from workbench.model.target import AgentKind, Target
from workbench.model.text import join_some, one_line, pluralise, redacted_line
from workbench.store.errors import StoreError
from workbench.store.files import find_root
from workbench.store.project_discovery import Project
from workbench.store.settings import LoadedSettings, load_settings
from workbench.testing.callables import Agent, CallingHost, Calls, ModelAgent, quiet_frameworks
from workbench.testing.metric_criteria import SOURCE, TaskCriteria
from workbench.testing.metrics import EvalResult, EvaluationError, Problem, PromptTemplate
from workbench.testing.pytest_session import session
from workbench.testing.result_rows import (
    FAILURE,
    LATENCY,
    RUBRICS,
    Rows,
    Table,
    build_summary,
    count_wins,
    has_file,
)
from workbench.testing.shared_resources import apply_model_calls

# Progress: one line on standard error of a terminal, or below the cell of a notebook.

_INTERVAL = 0.15
"""Seconds between updates."""
_BAR = 20
"""Characters of the bar."""


class EvaluationProgress:
    """Shows the progress of a run. Without terminal and notebook it shows nothing."""

    def __init__(self, *, total: int) -> None:
        self._total = total
        self._finished = 0
        self._errors = 0
        self._shown_at = time.monotonic()
        self._display = _notebook_display()
        self._handle: Any = None
        self._line_is_open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Clear the line on a terminal; show the final count in a notebook."""
        if self._line_is_open:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
        elif self._handle is not None:
            self._show(self._text())

    def update(self, event: RunEvent) -> None:
        """Count the event, and update the line if enough time has passed."""
        if isinstance(event, CaseFinished):
            self._finished += 1
            self._errors += event.status is CaseStatus.ERROR
            if time.monotonic() - self._shown_at >= _INTERVAL:
                self._shown_at = time.monotonic()
                self._show(self._text())

    def _text(self) -> str:
        filled = _BAR * self._finished // self._total
        errors = f"  {self._errors} with errors" if self._errors else ""
        return f"{'█' * filled}{'░' * (_BAR - filled)}  {self._finished}/{pluralise(self._total, 'row')}{errors}"

    def _show(self, text: str) -> None:
        if self._display is not None:
            content = {"text/plain": text}
            if self._handle is None:
                self._handle = self._display(content, raw=True, display_id=True)
            else:
                self._handle.update(content, raw=True)
        elif sys.stderr.isatty():
            sys.stderr.write(f"\r{text}\x1b[K")
            sys.stderr.flush()
            self._line_is_open = True


def _notebook_display() -> Any:
    """Return the display function of the current notebook; None outside of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    return display


# The evaluation.

_METRICS_SHOWN = 3
_WIDTH = 300  # characters of a warning about one metric
_REASONS_SHOWN = 2


@dataclass(frozen=True, kw_only=True)
class RunNames:
    """The names of a run and its experiment, if they have any. `dataset` and `metrics` identify runs without names."""

    experiment: str | None
    run: str | None
    dataset: str
    metrics: Sequence[str]

    @property
    def command(self) -> str:
        """The text of the run in the history."""
        parts = [f"{kind} {name}" for kind, name in (("experiment", self.experiment), ("run", self.run)) if name]
        if not parts:
            parts = [f"dataset {self.dataset}: {join_some(self.metrics, _METRICS_SHOWN)}"]
        return one_line(f"EvalTask: {', '.join(parts)}")


@dataclass(frozen=True, kw_only=True)
class EvaluationLimits:
    """The limits of agents, metric functions and judges. None: as in the settings of the project.

    `timeout_seconds` is for one row, `judge_seconds` for one request to a judge. `judges_per_second` limits the
    requests to each judge model.
    """

    concurrency: int | None
    timeout_seconds: float | None
    judges_per_second: float | None
    judge_seconds: float | None


_NO_CRITERIA = TaskCriteria(EvalConfig(criteria=(), source=SOURCE), (), {}, {})
NO_LIMITS = EvaluationLimits(concurrency=None, timeout_seconds=None, judges_per_second=None, judge_seconds=None)


@dataclass(frozen=True, kw_only=True)
class Respondents:
    """The judged `agent`, and the `baseline` of comparisons. None: the rows have the answers. `author`: see Author."""

    agent: Agent | ModelAgent | None
    baseline: Agent | ModelAgent | None
    author: Author | None = None


@dataclass(frozen=True, kw_only=True)
class Author:
    """The author of the rubrics of each row: `agent` answers the `template`, and `parse` reads its answer.

    `agent` is None for the judge of the settings.
    """

    agent: Agent | ModelAgent | None
    template: PromptTemplate
    parse: Callable[[str], Any]


class Evaluation:
    """One evaluation of rows, in the project around the working directory."""

    def __init__(
        self,
        rows: Rows,
        criteria: TaskCriteria,
        respondents: Respondents,
        *,
        names: RunNames,
        limits: EvaluationLimits,
        history: bool,
        loop: asyncio.AbstractEventLoop | None,
        missing_reasons: Mapping[tuple[int, str], str],
    ) -> None:
        """`loop` is the running event loop of the caller, if there is one. `missing_reasons` says why cells of the rows
        are empty, by row number and column. Raises EvaluationError."""
        _refuse_files(rows, criteria, respondents)
        self._rows = rows
        self._criteria = criteria
        self._respondents = respondents
        self._names = names
        self._limits = limits
        self._history = history
        try:
            root = find_root(Path.cwd())
            loaded = _apply_limits(load_settings(root), limits)
        except StoreError as error:
            raise EvaluationError(str(error)) from None
        # No discovery: targets and eval sets of the project are not needed.
        self._workspace = Workspace(Project(root=root, targets={}, eval_sets=()), loaded)
        self._calls = Calls(loop)
        self._missing_reasons = missing_reasons
        self._problems: list[Problem] = []
        self._run: Run | None = None
        self._is_cancelled = False
        self._spending: tuple[ModelSpending, ...] = ()  # in the runs before the last; it counts on the same budget

    def run(self) -> EvalResult:
        """Judge the rows and close all resources. Blocking. Raises EvaluationError."""
        try:
            self._prepare_rows()
            rows = self._rows if self._respondents.agent is None else self._rows.without_answers()
            runs_caller_code = self._respondents.agent is not None or self._criteria.functions or self._criteria.parsed
            # Code of the caller may create garbage cycles, so the collector stays on for it.
            with (
                quiet_frameworks(),
                nullcontext() if runs_caller_code else pause_gc(),
                self._start(rows, self._criteria.config, self._respondents.agent, history=self._history) as run,
            ):
                return self._build_result(run, rows, self._follow(run))
        finally:
            self._workspace.close()
            self._calls.close()

    def answer(self) -> tuple[Rows, tuple[Problem, ...]]:
        """Let the baseline and the author answer, without judging; return the rows and the reasons for missing answers.

        Blocking. Closes all resources. Raises EvaluationError.
        """
        try:
            self._prepare_rows()
            return self._rows, tuple(self._problems)
        finally:
            self._workspace.close()
            self._calls.close()

    def _prepare_rows(self) -> None:
        with quiet_frameworks():
            if self._respondents.baseline is not None:
                self._ask_baseline(self._respondents.baseline)
            if self._respondents.author is not None:
                self._write_rubrics(self._respondents.author)

    def cancel(self) -> None:
        """Make `run` end soon with an EvaluationError. May be called from any thread."""
        self._is_cancelled = True
        if self._run is not None:
            self._run.cancel()

    def _follow(self, run: Run) -> RunSummary:
        """Wait for the end of a run, and show its progress."""
        self._run = run
        if self._is_cancelled:
            run.cancel()
        summary = RunSummary()
        with EvaluationProgress(total=run.plan.total) as progress:
            for event in run.iter_events():
                progress.update(event)
                if isinstance(event, Notice):
                    warnings.warn(one_line(event.message), stacklevel=4)
                elif isinstance(event, RunFinished):
                    summary = event.summary
        return summary

    @contextmanager
    def _start(
        self, rows: Rows, config: EvalConfig, agent: Agent | ModelAgent | None, *, history: bool
    ) -> Iterator[Run]:
        """Start a run. In a pytest test that records model calls, it writes them."""
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
            asks_models = isinstance(agent, ModelAgent) or bool(self._criteria.parsed)
            plan = apply_model_calls(replace(plan, spent=self._spending), session.calls, asks_models=asks_models)

            def open_host(ask_of: Callable[[Target, bool], Ask]) -> CallingHost:
                return CallingHost(
                    self._calls,
                    agent=agent,
                    criteria=self._criteria,
                    ask_agent=open_lazily(lambda: ask_of(target, True)),
                    ask_judge=open_lazily(lambda: ask_of(target, False)),
                    judge=self._workspace.settings.judge.model,
                )

            run = self._workspace.start(plan, host=open_host)
            yield run
            self._spending = run.models
        except (PlanError, StoreError) as error:
            raise EvaluationError(str(error)) from None

    def _ask_baseline(self, baseline: Agent | ModelAgent) -> None:
        """Run the baseline, and add its answers as a column of the rows."""
        answers = self._ask(baseline, self._rows, BASELINE_COLUMN, role="the baseline")
        self._rows = self._rows.with_column(BASELINE_COLUMN, answers)

    def _write_rubrics(self, author: Author) -> None:
        """Let the author answer its prompt for each row, and add the rubrics as columns of the rows."""
        agent = author.agent or ModelAgent(self._workspace.settings.judge.model)
        answers = self._ask(agent, self._rows.with_prompts(author.template), RUBRICS, role="the author of rubrics")
        rubric_columns: list[Mapping[str, Any]] = []
        for number, answer in enumerate(answers, start=1):
            rubric_columns.append({} if answer is None else self._read_rubrics(author, answer, number))
        for name in dict.fromkeys((RUBRICS, *(name for columns in rubric_columns for name in columns))):
            self._rows = self._rows.with_column(name, [columns.get(name) for columns in rubric_columns])

    def _read_rubrics(self, author: Author, answer: str, number: int) -> Mapping[str, Any]:
        """Read the answer of an author; empty if the caller's function cannot."""
        try:
            parsed = author.parse(answer)
        except Exception as error:  # code of the caller: it fails only this row
            self._problems.append(Problem(number, RUBRICS, "ERROR", f"{type(error).__name__}: {error}"))
            return {}
        columns = dict(parsed) if isinstance(parsed, Mapping) else {RUBRICS: parsed}
        if "questions" in columns:
            columns[RUBRICS] = columns.pop("questions")
        if not columns.get(RUBRICS):
            self._problems.append(Problem(number, RUBRICS, "ERROR", "the reply of the model has no questions"))
            columns[RUBRICS] = None
        return columns

    def _ask(self, agent: Agent | ModelAgent, rows: Rows, column: str, *, role: str) -> list[str | None]:
        """Return the answers of an agent to the prompts of rows, with a problem of `column` for each missing one."""
        config = EvalConfig(criteria=(), source=SOURCE)
        with self._start(rows.without_answers(), config, agent, history=False) as run:
            self._follow(run)
            results = _collect_results(run)
        answers: list[str | None] = []
        for number, result in enumerate(results, start=1):
            turns = result.execution.turns
            answer = turns[0].invocation.final_response if turns else None
            answers.append(None if answer is None else answer.text())
            if answer is None:
                reason = f"{role} gave no response" if result.failure is None else result.failure.message
                self._problems.append(Problem(number, column, "ERROR", reason))
        return answers

    def _build_result(self, run: Run, rows: Rows, summary: RunSummary) -> EvalResult:
        has_agent = self._respondents.agent is not None
        metrics = self._criteria.metrics
        missing_reasons = {**self._missing_reasons, **{(each.row, each.column): each.reason for each in self._problems}}
        table = Table(rows, _collect_results(run), metrics, has_agent=has_agent, missing_reasons=missing_reasons)
        table.problems[:0] = self._problems
        if warning := _describe_missing(table, partly_judged=summary.partly_judged):
            warnings.warn(warning, stacklevel=4)
        measures = [name for name in (LATENCY, FAILURE) if has_agent or name in rows.columns]
        metadata = {"experiment": self._names.experiment, "experiment_run": self._names.run or run.run_id}
        if self._history:
            metadata["run_id"] = run.run_id
        numbers = build_summary(summary, metrics, row_count=len(rows.rows), measures=measures)
        return EvalResult.from_rows(
            numbers | count_wins(table.rows, metrics),
            table.rows,
            columns=table.columns,
            problems=table.problems,
            frame=rows.frame,
            metadata={name: value for name, value in metadata.items() if value},
        )


def _refuse_files(rows: Rows, criteria: TaskCriteria, respondents: Respondents) -> None:
    """Refuse rows whose images and files a model would have to see. Raises EvaluationError."""
    columns = {name for judge in criteria.config.judge_metrics.values() for name in list_inputs(judge)}
    columns |= {name for judge in criteria.parsed.values() for name in judge.template.variables}
    if respondents.author is not None:
        columns |= respondents.author.template.variables
    if isinstance(respondents.agent, ModelAgent) or isinstance(respondents.baseline, ModelAgent):
        columns.add("prompt")
    for number, row in enumerate(rows.rows, start=1):
        for name in columns & row.columns.keys():
            if has_file(row.columns[name]):
                raise EvaluationError(
                    f"{rows.place}: row {number}: {name}: found a file, such as an image, expected text: workbench "
                    "sends only text to models"
                )


def infer(rows: Rows, agent: Agent | ModelAgent, *, limits: EvaluationLimits) -> EvalResult:
    """Let an agent answer rows, without a run in the history. Warns of missing answers. Raises EvaluationError."""
    names = RunNames(experiment=None, run=None, dataset=rows.place, metrics=("inference",))
    respondents = Respondents(agent=agent, baseline=None)
    return Evaluation(
        rows, _NO_CRITERIA, respondents, names=names, limits=limits, history=False, loop=None, missing_reasons={}
    ).run()


def write_rubrics(rows: Rows, author: Author) -> tuple[dict[str, list[Any]], dict[int, str]]:
    """Let an author write rubrics for rows, without a run in the history. Warns of rows without rubrics.

    Returns the columns of rubrics, and the reasons for missing ones by row number. Raises EvaluationError.
    """
    respondents = Respondents(agent=None, baseline=None, author=author)
    names = RunNames(experiment=None, run=None, dataset=rows.place, metrics=("rubrics",))
    answered_rows, problems = Evaluation(
        rows, _NO_CRITERIA, respondents, names=names, limits=NO_LIMITS, history=False, loop=None, missing_reasons={}
    ).answer()
    if problems:
        reasons = _format_reasons(problem.reason for problem in problems)
        affected_rows = f"{len(problems)} of {pluralise(len(rows.rows), 'row')}"
        warnings.warn(f"{RUBRICS} is missing in {affected_rows} ({reasons})", stacklevel=3)
    filled = [name for name in answered_rows.columns if name == RUBRICS or name not in rows.columns]
    columns = {name: [row.columns[name] for row in answered_rows.rows] for name in filled}
    return columns, {problem.row: problem.reason for problem in problems}


def _describe_missing(table: Table, *, partly_judged: int) -> str | None:
    """Return a sentence with the rows that have errors or missing samples, by metric; None if there are none."""
    rows: dict[str, dict[int, str]] = {}
    for problem in table.problems:
        if problem.status == "ERROR":
            rows.setdefault(problem.column.split("/")[0], {}).setdefault(problem.row, problem.reason)
    metrics_by_reasons: dict[tuple[tuple[int, str], ...], list[str]] = {}
    for name, row_reasons in rows.items():
        metrics_by_reasons.setdefault(tuple(row_reasons.items()), []).append(name)
    errors = []
    for reasons, names in metrics_by_reasons.items():
        summary = _format_reasons(reason for _, reason in reasons)
        errors.append(f"{', '.join(names)}: {len(reasons)} of {pluralise(len(table.rows), 'row')} ({summary})")
    parts = []
    if errors:
        parts.append(f"values are missing because of errors: {'; '.join(errors)}; see `problems` of the result")
    if partly_judged:
        parts.append(f"{pluralise(partly_judged, 'row')} judged by fewer samples than asked")
    return ". ".join(parts) or None


def _format_reasons(reasons: Iterable[str]) -> str:
    """Return the common reason, or else the most frequent ones with their counts."""
    counts = Counter(redacted_line(reason, width=_WIDTH) for reason in reasons)
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


def _apply_limits(loaded: LoadedSettings, limits: EvaluationLimits) -> LoadedSettings:
    judge: dict[str, float] = {}
    if limits.judges_per_second is not None:
        judge["requests_per_minute"] = max(1, round(limits.judges_per_second * 60))
    if limits.judge_seconds is not None:
        judge["timeout_seconds"] = min(loaded.settings.judge.timeout_seconds, limits.judge_seconds)
    if not judge:
        return loaded
    settings = loaded.settings.model_copy(update={"judge": loaded.settings.judge.model_copy(update=judge)})
    return loaded.model_copy(update={"settings": settings})
