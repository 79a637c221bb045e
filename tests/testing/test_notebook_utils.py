"""Results as tables and plots in notebooks and programs."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from workbench.testing import EvalResult, EvalTask, EvaluationError, notebook_utils

HOSTILE = "<script>alert(1)</script>\x1b[31m"


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """Return what a notebook shows."""
    found: list[dict[str, str]] = []
    ipython = ModuleType("IPython")
    ipython.get_ipython = object  # type: ignore[attr-defined]
    display = ModuleType("IPython.display")
    display.display = lambda data, raw: found.append(data)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return found


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[SimpleNamespace]:
    """Return the figures of a stand-in for plotly."""
    found: list[SimpleNamespace] = []

    def make_figure(data: list[Any] | None = None) -> SimpleNamespace:
        figure = SimpleNamespace(traces=list(data or []), layout={}, show=lambda: None)
        figure.add_trace = figure.traces.append
        figure.update_layout = lambda **options: figure.layout.update(options)
        found.append(figure)
        return figure

    graph = ModuleType("plotly.graph_objects")
    for name in ("Bar", "Scatterpolar"):
        setattr(graph, name, SimpleNamespace)
    graph.Figure = make_figure  # type: ignore[attr-defined]
    plotly = ModuleType("plotly")
    plotly.graph_objects = graph  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "plotly", plotly)
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", graph)
    return found


def make_result(**numbers: float) -> EvalResult:
    summary = {"row_count": 1.0, **{f"{name}/mean": value for name, value in numbers.items()}}
    result = EvalResult(summary, metadata={"experiment": "e"})
    result.rows = [{"prompt": HOSTILE, "fluency/score": 5.0, "other/score": None}]
    return result


def test_results_are_shown_escaped_in_a_notebook(shown: list[dict[str, str]]) -> None:
    notebook_utils.display_eval_result(make_result(fluency=5), title=HOSTILE, metrics=["fluency"])
    notebook_utils.display_explanations(make_result(fluency=5), metrics=["fluency"])

    assert len(shown) == 2
    for each in shown:
        assert "<script>" not in each["text/html"]
        assert "&lt;script&gt;" in each["text/html"]
        assert "fluency/score" in each["text/html"]
        assert "other/score" not in each["text/html"]
        assert "\x1b" not in "".join(each.values())


def test_results_are_printed_outside_of_notebooks(capsys: pytest.CaptureFixture[str]) -> None:
    notebook_utils.display_eval_result(make_result(fluency=5))

    printed = capsys.readouterr().out
    assert "fluency/mean: 5" in printed
    assert "\x1b" not in printed


def test_plots_have_the_metrics_by_name_and_report_missing_ones(figures: list[SimpleNamespace]) -> None:
    results = [("<b>a</b>", make_result(fluency=5, safety=1)), ("b", make_result(fluency=3))]

    with pytest.warns(UserWarning, match="b: safety: no mean score to plot"):
        notebook_utils.display_radar_plot(results, metrics=["fluency", "safety"], radar_range=(0, 9))
    notebook_utils.display_bar_plot(results, metrics=["fluency"])

    radar, bars = figures
    assert [(trace.name, trace.theta, trace.r) for trace in radar.traces] == [
        ("&lt;b&gt;a&lt;/b&gt;", ["fluency", "safety"], [5.0, 1.0]),
        ("b", ["fluency"], [3.0]),
    ]
    assert radar.layout["polar"]["radialaxis"]["range"] == [0, 9]
    assert [(bar.x, bar.y) for bar in bars.traces] == [(["fluency/mean"], [5.0]), (["fluency/mean"], [3.0])]


def test_a_plot_without_plotly_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly", None)

    with pytest.raises(EvaluationError, match="display_bar_plot needs plotly: pip install plotly"):
        notebook_utils.display_bar_plot([("a", make_result())], metrics=[])


def test_names_are_random_and_as_long_as_asked() -> None:
    names = {notebook_utils.generate_uuid(12) for _ in range(50)}

    assert len(names) == 50
    assert {len(name) for name in names} == {12}


def test_runs_of_an_experiment_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "workbench.toml").write_text("", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    dataset = {"response": ["a"], "reference": ["a"]}
    named, other = (EvalTask(dataset=dataset, metrics=["exact_match"], experiment=name) for name in ("e", "e2"))
    named.evaluate(experiment_run_name="first")
    unnamed = named.evaluate()
    other.evaluate(experiment_run_name="hidden")

    named.display_runs()

    printed = capsys.readouterr().out
    assert "run: first" in printed
    assert f"run: {unnamed.metadata['experiment_run']}" in printed
    assert "exact_match: 1" in printed
    assert "hidden" not in printed
    with pytest.raises(EvaluationError, match="found no experiment"):
        EvalTask(dataset=dataset, metrics=["exact_match"]).display_runs()
