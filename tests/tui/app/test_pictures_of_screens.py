"""Pictures of every screen, pane, drawer and dialog, in dark and light and at three sizes.

After an intended change, run `pytest --snapshot-update` and look at the SVG files. The project is real, its history
is written by hand: no time, id or path depends on when or where the test runs.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pytest_textual_snapshot import SVGImageExtension
from rich.segment import Segment
from textual.widgets import Input, TextArea

from workbench.model.criteria import Criterion, EvalConfig
from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import (
    CaseResult,
    CaseStatus,
    Execution,
    Failure,
    FailureKind,
    InvocationScore,
    MetricResult,
    MetricStatus,
)
from workbench.model.run_events import RunSummary
from workbench.model.trace import Span, SpanKind
from workbench.store.history import history
from workbench.store.history.history import History
from workbench.store.history.history_queries import RunRecord
from workbench.store.settings import load_settings
from workbench.tui.app import WorkbenchApp
from workbench.tui.backend.backend import Backend
from workbench.tui.dialogs.dialogs import ConfirmScreen
from workbench.tui.panes import drawer_panes as run_pane
from workbench.tui.panes.scores_pane import DashboardLines
from workbench.tui.screens import main_screen
from workbench.tui.screens.run_controller import FollowedRun
from workbench.tui.state.browser_list import Freshness
from workbench.tui.state.watch_state import AffectedJob, CaseStates
from workbench.tui.themes import load_themes, theme_folders
from workbench.tui.widgets.row_lists import LinesView
from workbench.watch.watch_events import ChangeSeen, SourceBroken, VerdictKnown, WatchStarted

SIZES = ((80, 24), (140, 42), (200, 60))
LIGHTS = "lights.evalset.json"
AT = datetime(2026, 1, 2, 12, tzinfo=UTC)
LAMPS = {
    "response": "There is one lamp.",
    "predicted_trajectory": [{"tool_name": "list_devices", "tool_input": {"room": "Bedroom"}}],
}
STOVE = {"response": "Done. [b]", "predicted_trajectory": [{"tool_name": "set_device", "tool_input": {"to": "stove"}}]}
QUIET = 4
"""This many consecutive looks at the screen must be equal."""

CRASH = """
import os, sys
from datetime import datetime, timezone
from pathlib import Path
from workbench.engine.open_documents import OpenDocuments
from workbench.store.evalsets import recovery

class Frozen(datetime):
    now = classmethod(lambda cls, zone: cls(2026, 1, 2, 12, tzinfo=timezone.utc))

recovery.datetime = Frozen
documents = OpenDocuments(Path(sys.argv[1]))
case = {"eval_id": "kept", "conversation": []}
documents.edit("lights.evalset.json", lambda document: document.insert_case(0, case), label="x")
documents.write_recovery_files()
os._exit(9)
"""

Step = Callable[["Screen"], Awaitable[None]]


def call(name: str, **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args}


def turn(prompt: str, response: str, *calls: dict[str, Any]) -> dict[str, Any]:
    return {
        "user_content": {"role": "user", "parts": [{"text": prompt}]},
        "final_response": {"role": "model", "parts": [{"text": response}]},
        "intermediate_data": {"tool_uses": list(calls)},
    }


SWITCH_OFF = call("set_device", room="Bedroom", device_id="lamp", status="OFF")
EXPECTED: dict[str, list[dict[str, Any]]] = {
    "lamp_on": [turn("Turn on the lamp.", "The lamp is on.", call("set_device", device_id="lamp", status="ON"))],
    "lamp_off": [
        turn("Which lamps are there in the bedroom?", "There is one lamp.", call("list_devices", room="Bedroom")),
        turn("Turn it off [bold]now[/bold], please.", "I have turned off the lamp in the bedroom.", SWITCH_OFF),
    ],
    "关灯_两轮对话": [turn("请打开卧室的灯。", "已打开卧室的灯。", call("set_device", room="卧室", status="ON"))],
    "never_ran": [turn("Good night!", "Good night. All lamps are off.", call("all_off"))],
}
ACTUAL: dict[str, list[dict[str, Any]]] = {
    "lamp_on": EXPECTED["lamp_on"],
    "lamp_off": [
        EXPECTED["lamp_off"][0],
        turn(
            "Turn it off [bold]now[/bold], please.",
            "I have turned off the stove in the kitchen.",
            call("set_device", room="Bedroom", device_id="stove", status="OFF"),
            call("ring", times=2),
        ),
    ],
    "关灯_两轮对话": [],
}


class Screen:
    """The application while it is photographed."""

    def __init__(self, app: WorkbenchApp, pilot: Any, screen_reader: Any, make: Any) -> None:
        self.app, self.pilot, self._look, self.make = app, pilot, screen_reader, make
        self.folder = Path()

    async def until(self, *wanted: str) -> None:
        """Wait until the screen shows all of these texts."""
        for _ in range(600):
            shown = self._look.text(self.app)
            if all(text in shown for text in wanted):
                return
            await self.pilot.pause(0.02)
        raise AssertionError(f"not on the screen: {wanted}\n{self._look.text(self.app)}")

    async def picture(self, size: tuple[int, int], theme: str) -> str:
        """Return the picture of the screen at this size as soon as it no longer changes."""
        self.app.theme = theme
        await self.pilot.resize_terminal(*size)
        await self.pilot.pause(0.1)
        for lines in (lines for shown in self.app.screen_stack for lines in shown.query(LinesView)):
            lines.on_resize()  # a scroll bar may have gone since they were laid out
            lines.notify_style_update()
        previous: list[list[Segment]] = []
        times = 0
        for _ in range(200):
            await self.pilot.pause(0.03)
            for field in (*self.app.screen.query(Input), *self.app.screen.query(TextArea)):
                field.cursor_blink = False
            drawn = [list(strip) for strip in self._look.strips(self.app)]
            previous, times = drawn, times + 1 if drawn == previous else 0
            if times == QUIET:
                break
        return self.app.export_screenshot(title="workbench", simplify=True)


def result(eval_id: str, status: CaseStatus, *, trajectory: float, response: float) -> CaseResult:
    """Return a result as the agent above produces it."""

    def metric(name: str, score: float, threshold: float) -> MetricResult:
        outcome = MetricStatus.PASSED if score >= threshold else MetricStatus.FAILED
        per_turn = tuple(InvocationScore(score=score) for _ in ACTUAL[eval_id])
        return MetricResult(name=name, score=score, threshold=threshold, status=outcome, per_invocation=per_turn)

    metrics: tuple[MetricResult, ...] = (
        metric("tool_trajectory_avg_score", trajectory, 1.0),
        metric("response_match_score", response, 0.8),
    )
    failure = None
    if status is CaseStatus.ERROR:
        failure = Failure(
            kind=FailureKind.AGENT, message="KeyError: '卧室'", turn=0, traceback="agent.py, line 3\nKeyError"
        )
        metrics = ()
    turns = [{"invocation": data, "duration_seconds": 0.25, "usage": {"total": 120}} for data in ACTUAL[eval_id]]
    spans = [span for number in range(len(turns)) for span in make_spans(number)]
    return CaseResult(
        case=key(eval_id),
        eval_set_id="lights",
        status=status,
        duration_seconds=0.25 * max(len(turns), 1),
        agent_seconds=0.25 * max(len(turns), 1),
        failure=failure,
        metrics=metrics,
        execution=Execution.model_validate({"turns": turns, "spans": spans, "duration_seconds": 0.5}),
    )


def make_spans(number: int) -> list[Span]:
    """Return the spans of one turn: an agent, two model calls and a tool call between them."""
    start = 0.3 * number
    root = Span(id=f"i{number}", turn=number, kind=SpanKind.INVOCATION, name="turn", start=start, end=start + 0.25)
    agent = Span(
        id=f"a{number}", parent_id=root.id, turn=number, kind=SpanKind.AGENT, name="home", start=start, end=start + 0.25
    )

    def make_child(kind: SpanKind, name: str, begin: float, end: float, **more: Any) -> Span:
        span_id = f"{name}{number}{begin}"
        return Span(
            id=span_id,
            parent_id=agent.id,
            turn=number,
            kind=kind,
            name=name,
            start=start + begin,
            end=start + end,
            **more,
        )

    return [
        root,
        agent,
        make_child(SpanKind.MODEL, "model", 0.0, 0.1, request={"contents": ["Turn it off"]}, response={"text": "…"}),
        make_child(SpanKind.TOOL, "set_device", 0.1, 0.15, request={"status": "OFF"}, response={"ok": True}),
        make_child(SpanKind.MODEL, "model", 0.15, 0.25),
    ]


def key(eval_id: str) -> CaseKey:
    return CaseKey(target="pinger", eval_set=LIGHTS, eval_id=eval_id)


@pytest.fixture
def project(make_project: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a project with two runs: one case regressed, one never ran, and a second set is broken."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setattr(history, "time", SimpleNamespace(time=AT.timestamp))
    monkeypatch.setattr(Freshness, "set_verdict_hashes", lambda self, hashes: None)  # the hashes below are not real
    path = make_project(lights=[{"eval_id": name, "conversation": turns} for name, turns in EXPECTED.items()])
    (path / "broken.evalset.json").write_text('{"eval_set_id": "broken",\n "eval_cases": [}', encoding="utf-8")
    first = [
        result("lamp_on", CaseStatus.PASSED, trajectory=1.0, response=1.0),
        result("lamp_off", CaseStatus.PASSED, trajectory=1.0, response=1.0),
    ]
    second = [
        result("lamp_on", CaseStatus.PASSED, trajectory=1.0, response=1.0),
        result("lamp_off", CaseStatus.FAILED, trajectory=0.5, response=0.75),
        result("关灯_两轮对话", CaseStatus.ERROR, trajectory=0, response=0),
    ]
    criteria = EvalConfig(
        criteria=(Criterion(metric="tool_trajectory_avg_score", threshold=1.0),), source="test_config.json"
    )
    with History.open(path) as store:
        for day, results in ((1, first), (2, second)):
            run_id = f"2026010{day}-120000-abcd"
            record = RunRecord(
                run_id=run_id,
                started_at=AT.replace(day=day),
                root=Path("/project"),
                command="workbench run",
                targets=("pinger",),
                criteria={LIGHTS: criteria},
                total=len(results),
            )
            store.begin_run(record)
            for case_result in results:
                store.finish_job(run_id, case_result)
            store.end_run(run_id, RunSummary(total=len(results)), duration_seconds=1.5, interrupted=False)
    return path


@pytest.fixture
def open_project(project: Path, screen_reader: Any, make: Any) -> Callable[[], Any]:
    """Open the project with the cursor on the failed case."""

    @asynccontextmanager
    async def start() -> AsyncIterator[Screen]:
        backend = Backend(project)
        settings = load_settings(project, user_file=project / "none.toml")
        app = WorkbenchApp(backend, settings=settings, themes=load_themes(theme_folders()[:1]))
        try:
            async with app.run_test(size=SIZES[1], notifications=False) as pilot:
                yield Screen(app, pilot, screen_reader, make)
        finally:
            backend.close()

    return start


def press_keys(*names: str, expected_texts: Sequence[str] = ()) -> Step:
    """Press keys, and wait until the screen shows a text."""

    async def press(screen: Screen) -> None:
        await screen.pilot.press(*names)
        await screen.until(*expected_texts)

    return press


async def show_run(screen: Screen) -> None:
    """Show a run of three cases: one has ended, one is in its second turn. The clock is fixed."""
    jobs = [JobKey(case=key(name), repeat=0) for name in ("lamp_on", "lamp_off", "关灯_两轮对话")]
    run = screen.make.run(jobs)
    main = screen.app._main
    main._runs.follow(FollowedRun(run, jobs, main.state.begin_run(run.run_id, total=len(jobs), now=98.0)))
    main.state.board.begin_jobs(jobs)
    run.begin()
    run.finish(result("lamp_on", CaseStatus.PASSED, trajectory=1.0, response=1.0))
    await screen.pilot.press("o")
    await screen.until("1 of 3")


WHY = "tools.py: set_device() changed"
PROJECT = Path("/project")
STARTED = WatchStarted(total=4, files=23, folders=2, mode="events")


async def show_watch(screen: Screen) -> None:
    """Show a watch after two changes: one broke a source file, the other ran two cases."""
    main = screen.app._main
    jobs = [JobKey(case=key(name), repeat=0) for name in ("lamp_on", "lamp_off", "关灯_两轮对话")]
    watch = main.state.watch
    watch.start()
    watch.apply(STARTED, now=0)
    affected = [AffectedJob(jobs[0], WHY, is_judged=False), AffectedJob(jobs[1], WHY, is_judged=True)]
    reaches = [f"{WHY} <- called by 2 of 4 cases"]
    watch.apply(CaseStates(PROJECT, 23, 4, affected=affected, reaches=reaches), now=0)
    paths = ("tools.py", "prompts/system.txt")
    watch.apply(ChangeSeen(at=AT, paths=paths, run=1, judged=1, waiting=0, total=4, reason=WHY), now=0)
    passed_result = result("lamp_on", CaseStatus.PASSED, trajectory=1.0, response=1.0)
    watch.apply(VerdictKnown(result=passed_result, seconds_since_save=0.084), now=0)
    source_broken = SourceBroken(path="tools.py", line=12, message="invalid syntax", cases=2)
    why = "tools.py:12 cannot be compiled: invalid syntax"
    stale = dict.fromkeys(jobs[:2], (why,))
    watch.apply(CaseStates(PROJECT, 23, 4, stale, broken=[source_broken], held=frozenset(jobs[2:])), now=0)
    later = AT.replace(minute=1)
    watch.apply(ChangeSeen(at=later, paths=("tools.py",), run=0, judged=0, waiting=2, total=4, reason=""), now=0)
    await screen.pilot.press("O")
    main.refresh_all()
    await screen.until("cannot be compiled", "lamp_on", "held back")


async def show_paused_watch(screen: Screen) -> None:
    """Show a paused watch: two verdicts are stale, and the reason is known."""
    main = screen.app._main
    jobs = [JobKey(case=key(name), repeat=0) for name in ("lamp_on", "lamp_off")]
    watch = main.state.watch
    watch.start()
    watch.apply(STARTED, now=0)
    watch.pause()
    affected = [AffectedJob(job, WHY, is_judged=False) for job in jobs]
    watch.apply(CaseStates(PROJECT, 23, 4, dict.fromkeys(jobs, (WHY,)), affected), now=0)
    await screen.pilot.press("O")
    main.refresh_all()
    await screen.until("STALE", "when w resumes")


async def show_conflict(screen: Screen) -> None:
    """Create a conflict: the set has unsaved edits and changed on disk."""
    path = screen.folder / LIGHTS
    data = json.loads(path.read_text())
    mine = {"eval_id": "mine", "conversation": []}
    await screen.app._backend.edit(
        lambda workspace: workspace.documents.edit(LIGHTS, lambda document: document.insert_case(0, mine), label="add")
    )
    data["eval_cases"][0]["eval_id"] = "theirs"
    path.write_text(json.dumps(data, indent=2), encoding="utf-8")
    await screen.pilot.press("ctrl+s")
    await screen.until("keep mine", "theirs")


async def show_question(screen: Screen) -> None:
    screen.app.push_screen(ConfirmScreen("A run is in progress. Stop it and quit?"))
    await screen.until("yes")


SCREENS: dict[str, Step] = {
    "case": press_keys("1", expected_texts=["eval id"]),
    "typing": press_keys("1", "j", "j", "enter", expected_texts=["leave"]),
    "diff": press_keys("2", expected_texts=["stove"]),
    "trace": press_keys("3", "j", "j", "j", expected_texts=["set_device"]),
    "scores": press_keys("4", expected_texts=["response_match_score"]),
    "history": press_keys("5", expected_texts=["old to new"]),
    "chat": press_keys("6", expected_texts=["Talk to pinger"]),
    "agent": press_keys("g", "2", expected_texts=["did not pass  2 of 5", "lamp_off  ", "criteria  mean"]),
    "filter": press_keys("slash", "l", "a", "m", "p", expected_texts=["filter:"]),
    "run": show_run,
    "problems": press_keys("exclamation_mark", expected_texts=["broken.evalset.json"]),
    "table": press_keys("t", expected_texts=["mean", "lamp_off"]),
    "criteria": press_keys("c", expected_texts=["as in file"]),
    "plan": press_keys("C", expected_texts=["not now"]),
    "review": press_keys("v", expected_texts=["review 1 of 2"]),
    "compare": press_keys("h", "5", "equals_sign", expected_texts=["swap"]),
    "whole": press_keys("2", "W", expected_texts=["back"]),
    "conflict": show_conflict,
    "question": show_question,
    "help": press_keys("2", "f1", expected_texts=["In the diff"]),
    "palette": press_keys("ctrl+p", *"lamp", expected_texts=["Cases", "lamp_off  lights"]),
    "watch": show_watch,
    "watch_paused": show_paused_watch,
    "watch_off": press_keys("O", expected_texts=["w turns watch on"]),
}


@pytest.mark.parametrize("name", SCREENS)
async def test_screens_look_as_they_should(
    name: str, open_project: Callable[[], Any], project: Path, snapshot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "run":
        frozen_time = SimpleNamespace(monotonic=lambda: 100.0)
        monkeypatch.setattr(main_screen, "time", frozen_time)
        monkeypatch.setattr(run_pane, "time", frozen_time)
    async with open_project() as screen:
        screen.folder = project
        await select_failed_case(screen)
        await SCREENS[name](screen)

        await compare_pictures(screen, snapshot, is_light_first=list(SCREENS).index(name) % 2 == 1)


async def test_the_smallest_failing_case_looks_as_it_should(
    open_project: Callable[[], Any], project: Path, snapshot: Any
) -> None:
    (project / "agent.py").write_text(f"def answer(prompt): return {STOVE} if 'off' in prompt else {LAMPS}")
    async with open_project() as screen:
        await select_failed_case(screen)
        await press_keys("alt+h", expected_texts=["executions at most"])(screen)
        await press_keys("enter", expected_texts=["smallest case: 2 → 1 turn", "not kept yet"])(screen)

        assert await screen.picture(SIZES[1], "dark") == snapshot.use_extension(SVGImageExtension)


@pytest.fixture
def crashed_session(project: Path) -> None:
    """Simulate a session that crashed with unsaved edits."""
    assert subprocess.run([sys.executable, "-c", CRASH, str(project)], check=False).returncode == 9


@pytest.mark.usefixtures("crashed_session")
async def test_unsaved_edits_of_an_earlier_session(
    open_project: Callable[[], Any], snapshot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DashboardLines, "_lay_out_page", lambda self, width: [])  # behind the dialog
    async with open_project() as screen:
        await screen.until("ended with unsaved edits", "kept")
        hide_paths(screen)

        await compare_pictures(screen, snapshot, is_light_first=False)


def hide_paths(screen: Screen) -> None:
    """Hide paths, because each test run has a different folder."""
    state = screen.app._main.state
    facts = (("kind", "function"), ("runs", "agent:answer"), ("in", "/project"))
    assert state.project is not None
    state.project = replace(state.project, root="/project", targets={"pinger": facts})
    screen.app._main.refresh_all()


async def select_failed_case(screen: Screen) -> None:
    await screen.until("never_ran", "lamp_off", "lights")
    state = screen.app._main.state
    for _ in range(300):
        if state.has_failing and state.browser.read_count:
            break
        await asyncio.sleep(0.02)
    hide_paths(screen)
    await screen.pilot.press("n")
    await screen.until("FAILED")


async def compare_pictures(screen: Screen, snapshot: Any, *, is_light_first: bool) -> None:
    """Compare pictures at three sizes, alternately dark and light."""
    pictures = snapshot.use_extension(SVGImageExtension)
    wrong = []
    for number, size in enumerate(SIZES):
        theme = "light" if (number % 2 == 1) != is_light_first else "dark"
        picture = await screen.picture(size, theme)
        if pictures(name=f"{size[0]}x{size[1]}-{theme}") != picture:
            wrong.append(f"{size} {theme}")
    assert not wrong, "it looks different; pytest --snapshot-update writes the new pictures"
