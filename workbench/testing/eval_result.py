"""`EvalResult`: summary metrics, a table of the rows, and the reasons for its empty cells."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from workbench.model.text import neutralise, one_line, pluralise
from workbench.testing.metric_classes import EvaluationError, Problem

if TYPE_CHECKING:
    from pandas import DataFrame

    from workbench.testing.result_rows import Table


_ROWS_SHOWN = 20
_PROBLEMS_SHOWN = 5
_CELL_WIDTH = 200


class EvalResult:
    """The result of `EvalTask.evaluate`.

    `summary_metrics` has `row_count` and for each metric `<metric>/mean` and `<metric>/std` (sample deviation), NaN
    if no row has the number. `rows` has a dict for each row of the dataset, with None for missing values; `problems`
    has the reasons. `metadata` has the run in the history, and the experiment.
    """

    def __init__(
        self, *, summary_metrics: Mapping[str, float], table: Table, frame: Any, metadata: Mapping[str, str]
    ) -> None:
        """`frame` has the unchanged columns of the pandas frame from which the rows came, if there was one."""
        self.summary_metrics = dict(summary_metrics)
        self.rows = table.rows
        self.problems: tuple[Problem, ...] = tuple(table.problems)
        self.metadata = dict(metadata)
        self._columns = table.columns
        self._frame = frame

    @cached_property
    def metrics_table(self) -> DataFrame:
        """The rows as a pandas frame, with the index of the dataset if it is a frame.

        Raises EvaluationError if pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            hint = "pip install 'agent-eval-workbench[pandas]'"
            raise EvaluationError(
                f"metrics_table needs pandas ({hint}); `rows` has the same data without pandas"
            ) from None
        given = {} if self._frame is None else {str(name): place for place, name in enumerate(self._frame.columns)}
        columns = {
            # Arrays, because pandas would align a series by its index, which may have duplicates.
            name: self._frame.iloc[:, given[name]].array if name in given else [row[name] for row in self.rows]
            for name in self._columns
        }
        return pd.DataFrame(columns, index=None if self._frame is None else self._frame.index)

    def __repr__(self) -> str:
        lines = [f"EvalResult of {pluralise(len(self.rows), 'row')}{self._metadata_text()}"]
        lines += [f"  {name}: {_number_text(value)}" for name, value in self.summary_metrics.items()]
        lines += [f"  {line}" for line in self._problem_lines()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return two tables for notebooks: the numbers and the first rows. All text is escaped."""
        summary = _html_table(("metric", "value"), ((n, _number_text(v)) for n, v in self.summary_metrics.items()))
        rows = _html_table(self._columns, ([row[name] for name in self._columns] for row in self.rows[:_ROWS_SHOWN]))
        left = len(self.rows) - _ROWS_SHOWN
        more = f"<p>and {pluralise(left, 'row')} more, in <code>rows</code></p>" if left > 0 else ""
        problems = "".join(f"<li>{_escape(line)}</li>" for line in self._problem_lines())
        heading = _escape(f"{pluralise(len(self.rows), 'row')}{self._metadata_text()}")
        return f"<div><p>{heading}</p>{summary}{rows}{more}<ul>{problems}</ul></div>"

    def _metadata_text(self) -> str:
        names = [f"{name.replace('_', ' ')} {value}" for name, value in self.metadata.items()]
        return f" ({one_line(', '.join(names))})" if names else ""

    def _problem_lines(self) -> Iterable[str]:
        """Yield the reasons for empty cells, with the number of rows for each column and reason."""
        counts: dict[tuple[str, str, str], int] = {}
        for problem in self.problems:
            key = problem.column, problem.status, problem.reason
            counts[key] = counts.get(key, 0) + 1
        shown = sorted(counts.items(), key=lambda item: -item[1])[:_PROBLEMS_SHOWN]
        for (column, status, reason), count in shown:
            yield one_line(f"{status} {column}: {pluralise(count, 'row')}: {reason}", width=_CELL_WIDTH)
        if len(counts) > len(shown):
            yield f"and {len(counts) - len(shown)} more reasons, in `problems`"


def _number_text(value: float) -> str:
    return "not computed" if math.isnan(value) else f"{value:g}"


def _html_table(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    head = "".join(f"<th>{_escape(name)}</th>" for name in header)
    body = "".join("<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return _escape(text if len(text) <= _CELL_WIDTH else text[: _CELL_WIDTH - 1] + "…")


def _escape(text: str) -> str:
    return html.escape(neutralise(text))
