"""Tracebacks show the user's own frames and fold those of libraries."""

from __future__ import annotations

from collections.abc import Callable

from workbench.model.results import CaseStatus, MetricResult, MetricStatus
from workbench.report.run_report import ReportedCase
from workbench.report.text_report import explain_at_length, fold_library_frames
from workbench.tui.state.case_scores import describe_result
from workbench.tui.state.text_layout import render_blocks

PACKAGES = "/venv/lib/python3.11/site-packages"
TRACEBACK = f"""Traceback (most recent call last):
  File "{PACKAGES}/google/adk/runners.py", line 5, in run
    run_agent()
  File "{PACKAGES}/google/adk/flows/flow.py", line 9, in flow
    step(
    ^^^^^
  [Previous line repeated 7 more times]
  File "/usr/lib/python3.11/contextlib.py", line 9, in inner
    yield
  File "/home/me/agent.py", line 3, in look_up
    return prices[name]
           ~~~~~~^^^^^^
  File "{PACKAGES}/prices.py", line 3, in get
    raise KeyError(name)
KeyError: 'x'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/home/me/agent.py", line 8, in answer
    look_up()
ValueError: no
"""
FOLDED = """Traceback (most recent call last):
  … 3 frames in google.adk, contextlib
  File "/home/me/agent.py", line 3, in look_up
    return prices[name]
           ~~~~~~^^^^^^
  … 1 frame in prices
KeyError: 'x'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/home/me/agent.py", line 8, in answer
    look_up()
ValueError: no
"""


def test_library_frames_are_folded_and_others_stay_whole() -> None:
    assert fold_library_frames(TRACEBACK) == FOLDED


def test_frames_of_an_exception_group_are_folded_too() -> None:
    def in_group(text: str) -> str:
        return "".join(f"  | {line}\n" for line in text.split("\n"))

    assert fold_library_frames(in_group(TRACEBACK)) == in_group(FOLDED)


def test_a_traceback_with_only_library_frames_stays_whole() -> None:
    text = TRACEBACK.replace("/home/me", PACKAGES)

    assert fold_library_frames(text) == text


def test_tracebacks_of_custom_metrics_are_folded_in_reports_and_on_the_screen(
    make_case: Callable[..., ReportedCase],
) -> None:
    details = {"traceback": TRACEBACK, "tries": 2}
    metric = MetricResult(name="own", score=None, threshold=0.5, status=MetricStatus.ERROR, details=details)
    folded = [line.strip() for line in FOLDED.split("\n") if line.strip()]

    explanation = explain_at_length(make_case("a", CaseStatus.ERROR, metrics=(metric,)))
    screen = render_blocks(list(describe_result(metric, ())), width=200, side_by_side=False)

    assert explanation[0] == "traceback of own:"
    assert [line.strip() for line in explanation[1:] if line.strip()] == folded
    shown = "\n".join("".join(piece.text for piece in line).strip() for line in screen)
    assert "… 3 frames in google.adk, contextlib" in shown and "flow.py" not in shown
    assert "tries  2" in shown
