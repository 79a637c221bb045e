"""Snapshots of the screen. After an intended change, run `pytest --snapshot-update` and look at them."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from textual.pilot import Pilot

from workbench.model.results import CaseStatus, Failure, FailureKind, MetricResult, MetricStatus
from workbench.store.settings import Settings, TuiSettings
from workbench.tui.app import WorkbenchApp


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show times of day in UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.fixture
def judged(lights: Any, make: Any) -> Any:
    """Create a project with one passed case, one failed case and one error."""
    on, off, two = make.key("on"), make.key("off"), make.key("两盏灯")
    called = ("set_device", {"id": "stove", "status": "OFF"})
    metrics = [
        MetricResult(name="tool_trajectory_avg_score", score=0.0, threshold=1.0, status=MetricStatus.FAILED),
        MetricResult(name="response_match_score", score=0.75, threshold=0.7, status=MetricStatus.PASSED),
        MetricResult(
            name="bleu", score=None, threshold=None, status=MetricStatus.UNDEFINED, reason="no countable word"
        ),
    ]
    failure = Failure(
        kind=FailureKind.AGENT,
        message="KeyError: '卧室'",
        turn=0,
        traceback="File \"agent.py\", line 3\nKeyError: '卧室'",
    )
    lights.stored = {
        on: [make.result(on, CaseStatus.PASSED)],
        off: [
            make.result(
                off,
                CaseStatus.FAILED,
                make.turn("Turn off the lamp", "The stove is off. [bold]Enjoy[/bold] your meal.", called, ("ring", {})),
                metrics=metrics,
            )
        ],
        two: [make.result(two, CaseStatus.ERROR, failure=failure, metrics=[])],
    }
    return lights


def _when(look: Any, *keys: str, shown: str) -> Callable[[Pilot[None]], Coroutine[Any, Any, None]]:
    """Press keys once everything is listed, and wait until the screen shows a text."""

    async def run(pilot: Pilot[None]) -> None:
        await _until(pilot, look, "stored" if keys else shown)
        await pilot.press(*keys)
        await _until(pilot, look, shown)
        await pilot.pause(0.2)

    return run


async def _until(pilot: Pilot[None], look: Any, text: str) -> None:
    for _ in range(200):
        if text in look.text(pilot.app):
            return
        await pilot.pause(0.02)
    raise AssertionError(f"not on the screen: {text}\n{look.text(pilot.app)}")


def test_expected_beside_actual(
    snap_compare: Any, judged: Any, make_app: Callable[..., WorkbenchApp], look: Any
) -> None:
    app = make_app(judged)

    assert snap_compare(app, terminal_size=(120, 30), run_before=_when(look, "n", shown="ring"))


def test_expected_above_actual_in_the_light_theme(
    snap_compare: Any, judged: Any, make_app: Callable[..., WorkbenchApp], look: Any
) -> None:
    app = make_app(judged, Settings(tui=TuiSettings(theme="light")))

    assert snap_compare(app, terminal_size=(80, 24), run_before=_when(look, "n", shown="ring"))


def test_a_failure(snap_compare: Any, judged: Any, make_app: Callable[..., WorkbenchApp], look: Any) -> None:
    app = make_app(judged, Settings(tui=TuiSettings(theme="colour_blind")))

    assert snap_compare(app, terminal_size=(100, 24), run_before=_when(look, "p", shown="traceback"))


def test_an_empty_project(snap_compare: Any, backend: Any, make_app: Callable[..., WorkbenchApp], look: Any) -> None:
    app = make_app(backend)

    assert snap_compare(app, terminal_size=(80, 24), run_before=_when(look, shown="workbench demo"))
