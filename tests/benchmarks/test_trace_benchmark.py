"""The trace on the screen: opening 5,000 steps, moving in them, looking through them, and a response of 1 MB.

Runs with WORKBENCH_BENCHMARKS=1; `-s` shows the figures, beside those of a trace of 50 steps. Nothing here fails for
being slow. A freeze is the longest time in which the event loop did nothing else.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from statistics import quantiles

import pytest

from workbench.model.keys import CaseKey
from workbench.model.results import CaseResult, CaseStatus, Execution
from workbench.model.trace import Span, SpanKind
from workbench.store.settings import Settings
from workbench.tui.app import WorkbenchApp
from workbench.tui.gateway import Gateway
from workbench.tui.messages import SessionWanted
from workbench.tui.panes.trace.pane import TracePane
from workbench.tui.state.subject import Pinned
from workbench.tui.themes import load_themes, theme_folders

pytestmark = pytest.mark.skipif(
    os.environ.get("WORKBENCH_BENCHMARKS") != "1", reason="benchmarks run with WORKBENCH_BENCHMARKS=1"
)

_TURNS = 10
_GLANCE = 0.002  # seconds between two looks at the loop; without any it would never be idle
_HISTORY = [{"role": "user", "parts": [{"text": "What is on in the kitchen? " * 10}]}] * 8


def spans(count: int) -> Iterator[Span]:
    """Ten turns of one agent each, with model calls and tool calls in turn."""
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


def session(title: str, *of: Span) -> SessionWanted:
    """Spans as a session that was asked for."""
    case = CaseKey(target="t", eval_set="s", eval_id=title)
    execution = Execution(spans=of)
    result = CaseResult(case=case, eval_set_id="s", status=CaseStatus.PASSED, execution=execution)
    return SessionWanted(Pinned(title, None, result), tab="trace")


class Freezes:
    """The longest time that the event loop did not come round, while it is watched."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def during(self, work: Callable[[], Awaitable[None]]) -> tuple[float, float]:
        """Milliseconds that the work took, and of the longest freeze in it."""
        self.longest = 0.0
        watch = asyncio.create_task(self._watch())
        started = time.perf_counter()
        await work()
        took = time.perf_counter() - started
        watch.cancel()
        return took * 1e3, self.longest * 1e3

    async def _watch(self) -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(_GLANCE)
            now = time.perf_counter()
            self.longest, last = max(self.longest, now - last - _GLANCE), now


@pytest.mark.parametrize("count", [50, 5_000])
async def test_a_trace_is_opened_moved_in_and_searched(tmp_path: Path, count: int) -> None:
    (tmp_path / "workbench.toml").write_text("", encoding="utf-8")
    gateway = Gateway(tmp_path)
    app = WorkbenchApp(gateway, settings=Settings(), themes=load_themes(theme_folders()[:1]))
    freezes = Freezes()
    try:
        async with app.run_test(size=(140, 42), notifications=True) as pilot:
            await pilot.pause(0.5)
            app.screen.post_message(session("warm", Span(id="x", name="x")))
            await pilot.pause(0.5)
            pane = app.screen.query_one(TracePane)

            async def show(wanted: SessionWanted) -> None:
                app.screen.post_message(wanted)
                await pilot.pause()

            async def press(*keys: str) -> None:
                for key in keys:
                    await pilot.press(key)

            steps, big = list(spans(count)), Span(id="b", name="big", response={"text": "all work no play\n" * 60_000})
            print(f"\n{count:,} steps", end="")
            _tell("opened", await freezes.during(lambda: show(session("steps", *steps))))
            pane.focus_first()
            times = [(await freezes.during(lambda: press("j")))[0] for _ in range(40)]
            print(
                f"\n  a key press: median {quantiles(times)[1]:.0f} ms, p95 {quantiles(times, n=20)[-1]:.0f} ms", end=""
            )
            _tell("fold all, unfold all", await freezes.during(lambda: press("H", "L")))
            _tell("to the next error and the slowest", await freezes.during(lambda: press("full_stop", "m")))

            async def search() -> None:
                await press("slash", *"kitchen?", "enter")
                await app.workers.wait_for_complete()
                await pilot.pause()

            _tell("searched", await freezes.during(search))
            await press("d", "d")
            await show(session("big", big))
            pane.focus_first()
            _tell("a response of 1 MB", await freezes.during(lambda: press("j")))
    finally:
        gateway.close()


def _tell(what: str, measured: tuple[float, float]) -> None:
    print(f"\n  {what}: {measured[0]:.0f} ms, longest freeze {measured[1]:.0f} ms", end="")
