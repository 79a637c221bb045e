"""The table of a result: what the engine found out about each row, in the columns that the SDK documents."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from workbench.model.by_identity import by_identity
from workbench.model.events import MetricSummary, RunSummary
from workbench.model.results import CaseResult, FailureKind, Judgement, MetricResult, MetricStatus
from workbench.model.trajectory import trajectory_of
from workbench.testing.evaluation.criteria import AskedMetric
from workbench.testing.evaluation.problems import Problem
from workbench.testing.evaluation.rows import FAILURE, LATENCY, OUTPUTS, RESPONSE, TRAJECTORY, Rows

_CHOICES = {1.0: "CANDIDATE", 0.5: "TIE", 0.0: "BASELINE"}


class Table:
    """Rows with their results, and why cells are empty.

    `rows` has a dict for each row of the dataset, all with the same `columns`; what does not exist is None.
    """

    def __init__(
        self, rows: Rows, results: Sequence[CaseResult], metrics: Sequence[AskedMetric], *, asked_agent: bool
    ) -> None:
        self.problems: list[Problem] = []
        self._metrics = [(asked, _main_column(asked)) for asked in metrics]
        scores_of = by_identity(at_most=256)(self._scores)
        found: list[dict[str, Any]] = []
        for row, result in zip(rows.rows, results, strict=True):
            cells = dict(row.columns)
            if asked_agent:
                cells.update(_answer(result))
            cells.update(scores_of(result.metrics))
            found.append(cells)
        own = rows.columns
        others = dict.fromkeys(name for cells in found for name in cells if name not in own and name not in OUTPUTS)
        outputs = [name for name in OUTPUTS if name not in own and any(name in cells for cells in found)]
        self.columns = (*own, *outputs, *_in_order(others, metrics))
        self.rows = [
            cells if (*cells,) == self.columns else {name: cells.get(name) for name in self.columns} for cells in found
        ]
        if asked_agent:
            self._explain_answers(results)
        self._explain_scores(results)

    def _explain_answers(self, results: Sequence[CaseResult]) -> None:
        """Why cells that the agent should have filled are empty."""
        for number, (cells, result) in enumerate(zip(self.rows, results, strict=True), start=1):
            reason = _failure_of(result)
            for name in OUTPUTS:
                if name in self.columns and cells[name] is None:
                    said = reason or f"the agent gave no {name}"
                    self.problems.append(Problem(number, name, "ERROR" if reason else "UNDEFINED", said))

    def _explain_scores(self, results: Sequence[CaseResult]) -> None:
        """Why cells that metrics should have filled are empty."""
        columns = [(name, asked) for asked, _ in self._metrics for name in self.columns if _belongs(name, asked)]
        for number, (cells, result) in enumerate(zip(self.rows, results, strict=True), start=1):
            empty = [(name, asked) for name, asked in columns if cells[name] is None]
            if empty:
                found = {metric.name: metric for metric in result.metrics}
                self.problems += [
                    Problem(number, name, *_why_empty(found.get(asked.result), result)) for name, asked in empty
                ]

    def _scores(self, metrics: tuple[MetricResult, ...]) -> dict[str, Any]:
        found = {metric.name: metric for metric in metrics}
        cells: dict[str, Any] = {}
        for asked, main in self._metrics:
            metric = found.get(asked.result)
            score = None if metric is None else metric.score
            cells[main] = _CHOICES[_side(score)] if asked.kind == "pairwise" and score is not None else score
            if asked.kind in ("pairwise", "pointwise"):
                cells[f"{asked.name}/explanation"] = None if metric is None else _explanation(metric)
            if asked.kind == "custom" and metric is not None:
                prefix = f"{asked.name}/"
                more = {name: other.score for name, other in found.items() if name.startswith(prefix)}
                more |= {prefix + name: value for name, value in metric.details.items() if name != "traceback"}
                cells |= {name: value for name, value in more.items() if name != main}
        return cells


def _main_column(asked: AskedMetric) -> str:
    return f"{asked.name}/{'pairwise_choice' if asked.kind == 'pairwise' else 'score'}"


def _answer(result: CaseResult) -> Iterator[tuple[str, Any]]:
    """What the agent did. A trajectory is there only where it told one."""
    turn = result.execution.turns[0] if result.execution.turns else None
    answer = None if turn is None else turn.invocation.final_response
    yield RESPONSE, None if answer is None else answer.text()
    yield LATENCY, None if turn is None else turn.duration_seconds
    asked = result.failure is None or result.failure.kind is not FailureKind.FILE
    yield FAILURE, int(turn is None) if asked else None
    if turn is not None and turn.invocation.intermediate_data is not None:
        calls = trajectory_of(turn.invocation)
        yield TRAJECTORY, [{"tool_name": call.name, "tool_input": call.args} for call in calls]


def summary_of(
    summary: RunSummary, metrics: Sequence[AskedMetric], *, row_count: int, measures: Sequence[str]
) -> dict[str, float]:
    """The numbers of a run under their documented names; NaN where there is none. `measures` are latency and failure,
    as far as they are known."""
    numbers: dict[str, float] = {"row_count": row_count}
    for asked in metrics:
        if asked.kind == "pairwise":
            for side in ("candidate", "baseline"):
                name = f"{asked.name}/{side}_model_win_rate"
                numbers[name] = _number(summary.metrics.get(name), "mean")
        else:
            numbers |= _mean_and_std(asked.name, summary.metrics.get(asked.result))
    engine_names = {LATENCY: "latency", FAILURE: "failure"}
    for measure in measures:
        numbers |= _mean_and_std(measure, summary.metrics.get(engine_names[measure]))
    return numbers


def _mean_and_std(name: str, summary: MetricSummary | None) -> dict[str, float]:
    return {f"{name}/mean": _number(summary, "mean"), f"{name}/std": _number(summary, "std")}


def _number(summary: MetricSummary | None, which: Literal["mean", "std"]) -> float:
    value: float | None = None if summary is None else getattr(summary, which)
    return math.nan if value is None else value


def _in_order(names: dict[str, None], metrics: Sequence[AskedMetric]) -> Iterator[str]:
    """The columns of metrics metric by metric: a row may have given more numbers than the first."""
    left = dict(names)
    for asked in metrics:
        for name in [name for name in left if _belongs(name, asked)]:
            del left[name]
            yield name


def _side(score: float) -> float:
    """Which side a comparison speaks for; what several samples come to may lie between."""
    return 0.5 if score == 0.5 else float(score > 0.5)


def _why_empty(metric: MetricResult | None, result: CaseResult) -> tuple[Literal["ERROR", "UNDEFINED"], str]:
    """Why a metric left a cell of a row empty."""
    if result.failure is not None:
        return "ERROR", result.failure.message
    if metric is None:
        return "ERROR", f"the row was not judged: it is {result.status.value}"
    if metric.score is not None:
        return "UNDEFINED", "the metric gave none for this row"
    return "ERROR" if metric.status is MetricStatus.ERROR else "UNDEFINED", metric.reason or "the metric gave no score"


def _belongs(column: str, asked: AskedMetric) -> bool:
    return column.startswith(f"{asked.name}/")


def _failure_of(result: CaseResult) -> str | None:
    return None if result.failure is None else result.failure.message


def _explanation(metric: MetricResult) -> str | None:
    """What the judge says in favour of the score: the first sample that gave it, else the first that says anything."""
    judgement: Judgement | None = next(
        (score.judgement for score in metric.per_invocation if score.judgement is not None), None
    )
    if judgement is None:
        return None
    told = [sample for sample in judgement.samples if sample.rationale]
    fitting = [sample for sample in told if sample.score == metric.score]
    return next((sample.rationale for sample in (*fitting, *told)), None)
