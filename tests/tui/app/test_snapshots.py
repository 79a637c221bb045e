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
def utc_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show times of day in UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.fixture
def judged_project(lights: Any, make: Any) -> Any:
    """Create a project with one passed case, one failed case and one error."""
    on, off, two = make.key("on"), make.key("off"), make.key("两盏灯")
    made_call = ("set_device", {"id": "stove", "status": "OFF"})
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
    lights.stored_results = {
        on: [make.result(on, CaseStatus.PASSED)],
        off: [
            make.result(
                off,
                CaseStatus.FAILED,
                make.turn(
                    "Turn off the lamp", "The stove is off. [bold]Enjoy[/bold] your meal.", made_call, ("ring", {})
                ),
                metrics=metrics,
            )
        ],
        two: [make.result(two, CaseStatus.ERROR, failure=failure, metrics=[])],
    }
    return lights


def press_when_listed(
    screen_reader: Any, *keys: str, expected_text: str
) -> Callable[[Pilot[None]], Coroutine[Any, Any, None]]:
    """Press keys once everything is listed, and wait until the screen shows a text."""

    async def run(pilot: Pilot[None]) -> None:
        await wait_for_text(pilot, screen_reader, "250 ms" if keys else expected_text)
        await pilot.press(*keys)
        await wait_for_text(pilot, screen_reader, expected_text)
        await pilot.pause(0.2)

    return run


async def wait_for_text(pilot: Pilot[None], screen_reader: Any, text: str) -> None:
    for _ in range(200):
        if text in screen_reader.text(pilot.app):
            return
        await pilot.pause(0.02)
    raise AssertionError(f"not on the screen: {text}\n{screen_reader.text(pilot.app)}")


def test_expected_beside_actual(
    snap_compare: Any, judged_project: Any, make_app: Callable[..., WorkbenchApp], screen_reader: Any
) -> None:
    app = make_app(judged_project)

    assert snap_compare(
        app, terminal_size=(120, 30), run_before=press_when_listed(screen_reader, "n", expected_text="ring")
    )


def test_expected_above_actual_in_the_light_theme(
    snap_compare: Any, judged_project: Any, make_app: Callable[..., WorkbenchApp], screen_reader: Any
) -> None:
    app = make_app(judged_project, Settings(tui=TuiSettings(theme="light")))

    assert snap_compare(
        app, terminal_size=(80, 24), run_before=press_when_listed(screen_reader, "n", expected_text="ring")
    )


def test_a_failure(
    snap_compare: Any, judged_project: Any, make_app: Callable[..., WorkbenchApp], screen_reader: Any
) -> None:
    app = make_app(judged_project, Settings(tui=TuiSettings(theme="colour_blind")))

    assert snap_compare(
        app, terminal_size=(100, 24), run_before=press_when_listed(screen_reader, "p", expected_text="traceback")
    )


def test_a_dashboard_before_any_run(
    snap_compare: Any, lights: Any, make_app: Callable[..., WorkbenchApp], screen_reader: Any
) -> None:
    app = make_app(lights)

    assert snap_compare(
        app, terminal_size=(80, 24), run_before=press_when_listed(screen_reader, expected_text="3 turns")
    )


def test_an_empty_project(
    snap_compare: Any, backend: Any, make_app: Callable[..., WorkbenchApp], screen_reader: Any
) -> None:
    app = make_app(backend)

    assert snap_compare(
        app, terminal_size=(80, 24), run_before=press_when_listed(screen_reader, expected_text="workbench demo")
    )


def test_the_palette_in_a_small_terminal(
    snap_compare: Any, judged_project: Any, make_app: Callable[..., WorkbenchApp], screen_reader: Any
) -> None:
    app = make_app(judged_project)

    async def find(pilot: Pilot[None]) -> None:
        await wait_for_text(pilot, screen_reader, "250 ms")
        await pilot.press("ctrl+p", *"on")
        await wait_for_text(pilot, screen_reader, "Cases")
        await pilot.pause(0.2)

    assert snap_compare(app, terminal_size=(40, 10), run_before=find)
