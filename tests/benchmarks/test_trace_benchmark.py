"""The trace on the screen: opening, moving in and searching 5,000 steps, and a response of 1 MB.

Runs with WORKBENCH_BENCHMARKS=1; `-s` shows the figures, also for a trace of 50 steps. It never fails for being slow.
The times include about 40 ms of waiting by the test.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Iterator
from pathlib import Path

import pytest

from tests.benchmarks.loop_lag import LoopLag
from workbench.model.identity import CaseKey
from workbench.model.results import CaseResult, CaseStatus, Execution
from workbench.model.trace import Span, SpanKind
from workbench.store.settings import LoadedSettings
from workbench.tui.app import WorkbenchApp
from workbench.tui.backend.backend import Backend
from workbench.tui.panes.trace_pane import TracePane
from workbench.tui.screen_context import SessionWanted
from workbench.tui.state.browser_state import PinnedResult
from workbench.tui.themes import load_themes, theme_folders

pytestmark = pytest.mark.skipif(
    os.environ.get("WORKBENCH_BENCHMARKS") != "1", reason="benchmarks run with WORKBENCH_BENCHMARKS=1"
)

_TURNS = 10
_HISTORY = [{"role": "user", "parts": [{"text": "What is on in the kitchen? " * 10}]}] * 8


def make_spans(count: int) -> Iterator[Span]:
    """Yield ten turns with one agent each, and alternating model and tool calls."""
    for turn in range(_TURNS):
        begin, agent = turn * 10.0, f"a{turn}"
        yield Span(id=agent, turn=turn, kind=SpanKind.AGENT, name="root", start=begin, end=begin + 10)
        share = count // _TURNS - 1
        for number in range(share):
            kind = SpanKind.TOOL if number % 2 else SpanKind.MODEL
            start = begin + 10 * number / share
            yield Span(
                id=f"{agent}.{number}", parent_id=agent, turn=turn, kind=kind, name=f"step_{number % 7}",
                start=start, end=start + 9 / share, error="ValueError: no" if number == 44 else None,
                request={"contents": _HISTORY}, response={"usage_metadata": {"total_token_count": 12}},
            )  # fmt: skip


def make_session_request(title: str, *session_spans: Span) -> SessionWanted:
    """Build a request to show spans as a session."""
    case = CaseKey(target="t", eval_set="s", eval_id=title)
    execution = Execution(spans=session_spans)
    result = CaseResult(case=case, eval_set_id="s", status=CaseStatus.PASSED, execution=execution)
    return SessionWanted(PinnedResult(title, None, result), tab="trace")


@pytest.mark.parametrize("count", [50, 5_000])
@pytest.mark.usefixtures("gc_settings_of_program")
async def test_opening_moving_in_and_searching_a_trace(tmp_path: Path, count: int) -> None:
    (tmp_path / "workbench.toml").write_text("", encoding="utf-8")
    backend = Backend(tmp_path)
    app = WorkbenchApp(backend, settings=LoadedSettings(), themes=load_themes(theme_folders()[:1]))
    try:
        async with app.run_test(size=(140, 42), notifications=True) as pilot:
            await pilot.pause(0.5)
            app.screen.post_message(make_session_request("warm", Span(id="x", name="x")))
            await pilot.pause(0.5)
            pane = app.screen.query_one(TracePane)

            async def show(request: SessionWanted) -> None:
                app.screen.post_message(request)
                await pilot.pause()

            async def search() -> None:
                await pilot.press("slash", *"kitchen?", "enter")
                # The observer of saved files ends with the application.
                if workers := [worker for worker in app.workers if worker.group != "saved"]:
                    await app.workers.wait_for_complete(workers)
                await pilot.pause()

            steps, big = (
                list(make_spans(count)),
                Span(id="b", name="big", response={"text": "all work no play\n" * 60_000}),
            )
            print(f"\n{count:,} steps", end="")
            await _print_time("opened", show(make_session_request("steps", *steps)))
            pane.focus_first()
            await _print_time("a key press", pilot.press("j"))
            await _print_time("forty key presses", pilot.press(*["j"] * 40))
            await _print_time("fold all, unfold all", pilot.press("H", "L"))
            await _print_time("to the next error and the slowest", pilot.press("full_stop", "m"))
            await _print_time("searched", search())
            await pilot.press("d", "d")
            await show(make_session_request("big", big))
            pane.focus_first()
            await _print_time("a response of 1 MB", pilot.press("j"))
    finally:
        backend.close()


async def _print_time(name: str, work: Awaitable[None]) -> None:
    with LoopLag() as lag:
        began = time.perf_counter()
        await work
        seconds, blocked = time.perf_counter() - began, lag.take_longest()
    print(
        f"\n  {name}: {seconds * 1e3:.0f} ms, longest without a key {blocked.wall * 1e3:.0f} ms "
        f"({blocked.cpu * 1e3:.0f} ms CPU)",
        end="",
    )
