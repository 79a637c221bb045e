"""Helpers of notebooks: results as tables and plots. In a program without IPython, tables are printed as text.

All text of results is escaped. Plots need plotly, which is imported when it is used.
"""

from __future__ import annotations

import math
import random
import string
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.model.text import neutralise, one_line
from workbench.testing.metrics import EvalResult, EvaluationError, escape_html, format_html_table, format_number

_ALWAYS_SHOWN = ("prompt", "response", "baseline_model_response", "row_count")
_CELL_WIDTH = 120
_RUNS_SEEN = 1000
_RADAR_RANGE = (0.0, 5.0)


def is_ipython_available() -> bool:
    """True in a notebook, and in the shell of IPython."""
    return _find_shell() is not None


def generate_uuid(length: int = 8) -> str:
    """Return random lower-case letters and digits, for the names of experiments and runs."""
    return "".join(random.choices(string.ascii_lowercase + string.digits, k=length))


def display_eval_result(
    eval_result: EvalResult, title: str | None = None, metrics: Sequence[Any] | None = None
) -> None:
    """Show the summary and the rows of a result.

    `metrics` are parts of the names of the columns to show; None: all.
    """
    numbers = _filter(eval_result.summary_metrics, metrics)
    rows = [_filter(row, metrics) for row in eval_result.rows]
    show(
        [
            NotebookSection(title or "Evaluation", [], []),
            NotebookSection("Summary metrics", list(numbers), [[format_number(value) for value in numbers.values()]]),
            NotebookSection("Rows", list(rows[0]) if rows else [], [list(row.values()) for row in rows]),
        ]
    )


def display_explanations(eval_result: EvalResult, num: int = 1, metrics: Sequence[Any] | None = None) -> None:
    """Show the first `num` rows of a result with their whole texts, column by column. `metrics`: as above."""
    if num < 1:
        raise EvaluationError(f"num: found {num}, expected at least 1")
    rows = [_filter(row, metrics) for row in eval_result.rows[:num]]
    pages = [
        "".join(
            f"<h4>{escape_html(name)}</h4><div style='white-space: pre-wrap'>{escape_html(_format_cell(value))}</div>"
            for name, value in row.items()
        )
        for row in rows
    ]
    texts = [f"{neutralise(name)}: {neutralise(_format_cell(value))}" for row in rows for name, value in row.items()]
    _display("<hr>".join(pages), "\n".join(texts))


def display_radar_plot(
    eval_results_with_title: Sequence[tuple[str, EvalResult]],
    metrics: Sequence[Any],
    radar_range: tuple[float, float] = _RADAR_RANGE,
) -> None:
    """Plot the mean scores of results as one polygon each. Raises EvaluationError if plotly is not installed."""
    graph = _import_plotly("display_radar_plot")
    figure = graph.Figure()
    for title, result in eval_results_with_title:
        means = _find_means(title, result, metrics)
        names = [escape_html(name) for name in means]
        figure.add_trace(
            graph.Scatterpolar(r=list(means.values()), theta=names, fill="toself", name=escape_html(title))
        )
    figure.update_layout(polar={"radialaxis": {"visible": True, "range": list(radar_range)}}, showlegend=True)
    figure.show()


def display_bar_plot(eval_results_with_title: Sequence[tuple[str, EvalResult]], metrics: Sequence[Any]) -> None:
    """Plot the mean scores of results as bars side by side. Raises EvaluationError if plotly is not installed."""
    graph = _import_plotly("display_bar_plot")
    bars = []
    for title, result in eval_results_with_title:
        means = _find_means(title, result, metrics)
        names = [escape_html(f"{name}/mean") for name in means]
        bars.append(graph.Bar(x=names, y=list(means.values()), name=escape_html(title)))
    figure = graph.Figure(data=bars)
    figure.update_layout(barmode="group", showlegend=True)
    figure.show()


def display_experiment(experiment: str) -> None:
    """Show the runs of an experiment in the history with their mean scores, newest first. Raises EvaluationError."""
    from workbench.store.errors import StoreError
    from workbench.store.files import find_root
    from workbench.store.history.history import History
    from workbench.store.history.history_schema import get_history_path

    command = one_line(f"EvalTask: experiment {experiment}")
    try:
        root = find_root(Path.cwd())
        runs = []
        if get_history_path(root).exists():
            with History.open(root) as history:
                runs = history.runs(_RUNS_SEEN)
    except StoreError as error:
        raise EvaluationError(str(error)) from None
    experiment_runs = [
        run for run in runs if run.command == command or (run.command or "").startswith(f"{command}, run ")
    ]
    names = list(dict.fromkeys(name for run in experiment_runs for name in run.summary.metrics))
    rows = [
        [
            (run.command or "").removeprefix(command).removeprefix(", run ") or run.run_id,
            run.run_id,
            *(
                "" if (metric := run.summary.metrics.get(name)) is None or metric.mean is None else f"{metric.mean:g}"
                for name in names
            ),
        ]
        for run in experiment_runs
    ]
    show([NotebookSection(f"Experiment {experiment}", ["run", "run_id", *names], rows)])


class NotebookSection:
    """A heading with a table below it, which may be empty."""

    def __init__(self, title: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        self._title = title
        self._header = header
        self._rows = list(rows)

    def to_html(self) -> str:
        table = format_html_table(self._header, self._rows) if self._header else ""
        return f"<h3>{escape_html(self._title)}</h3>{table}"

    def to_text(self) -> str:
        """Return the section as text, with one line for each cell."""
        lines = [neutralise(self._title)]
        for number, row in enumerate(self._rows, start=1):
            lines += [f"{number}"] if len(self._rows) > 1 else []
            lines += [
                one_line(f"  {name}: {_format_cell(value)}", width=_CELL_WIDTH)
                for name, value in zip(self._header, row, strict=True)
            ]
        return "\n".join(lines)


def show(sections: Sequence[NotebookSection]) -> None:
    """Show sections below the cell of a notebook, or print them."""
    _display("".join(section.to_html() for section in sections), "\n".join(section.to_text() for section in sections))


def _display(html: str, text: str) -> None:
    if _find_shell() is None:
        print(text)
        return
    from IPython.display import display

    display({"text/html": f"<div>{html}</div>", "text/plain": text}, raw=True)


def _find_shell() -> Any:
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


def _filter(values: Mapping[str, Any], metrics: Sequence[Any] | None) -> dict[str, Any]:
    """Keep the values whose names contain one of these parts, and those that are always shown."""
    if not metrics:
        return dict(values)
    parts = [str(metric) for metric in metrics]
    return {
        name: value for name, value in values.items() if name in _ALWAYS_SHOWN or any(part in name for part in parts)
    }


def _format_cell(value: Any) -> str:
    if value is None:
        return ""
    return format_number(value) if isinstance(value, float) else str(value)


def _find_means(title: str, result: EvalResult, metrics: Sequence[Any]) -> dict[str, float]:
    """Return the mean scores of these metrics, default of all. Warns of metrics without a mean score."""
    means = {
        name.removesuffix("/mean"): float(value)
        for name, value in result.summary_metrics.items()
        if name.endswith("/mean") and not math.isnan(float(value))
    }
    if not metrics:
        return means
    names = [str(metric) for metric in metrics]
    missing = [name for name in names if name not in means]
    if missing:
        warnings.warn(one_line(f"{title}: {', '.join(missing)}: no mean score to plot"), stacklevel=3)
    return {name: means[name] for name in names if name in means}


def _import_plotly(caller: str) -> Any:
    try:
        import plotly.graph_objects as graph
    except ImportError:
        raise EvaluationError(f"{caller} needs plotly: pip install plotly") from None
    return graph
