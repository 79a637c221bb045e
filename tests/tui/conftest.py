"""A project made of plain objects, for tests of the screen that need no engine."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.cells import cell_len
from rich.segment import Segment
from textual import _wait
from textual._compositor import Compositor
from textual._context import visible_screen_stack
from textual.app import App
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.events import Key
from textual.geometry import Region
from textual.message import Message
from textual.pilot import Pilot
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from tests.tui.history_projects import make_case, make_history_project
from workbench.engine.plan import Plan, RunOptions, Selection, resolve_limits
from workbench.engine.plan_cost import estimate_cost
from workbench.model.criteria import EvalConfig
from workbench.model.evalset import EvalCase
from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import (
    CaseResult,
    CaseStatus,
    Execution,
    Failure,
    FailureKind,
    MetricResult,
    MetricStatus,
    TokenUsage,
    TurnResult,
)
from workbench.model.run_events import (
    CaseFinished,
    CaseStarted,
    InvocationFinished,
    RunEvent,
    RunFinished,
    RunStarted,
    RunSummary,
)
from workbench.report.run_report import ReportedCase
from workbench.report.text_report import explain_in_one_line
from workbench.store.errors import StoreError
from workbench.store.history.history_queries import StoredJob, StoredRun, StoredScores
from workbench.store.settings import LoadedSettings, Settings, load_settings
from workbench.tui.app import WorkbenchApp
from workbench.tui.backend.backend import Backend
from workbench.tui.screens.main_screen import MainScreen
from workbench.tui.state.browser_list import CaseContent, ListedSet, index_case, make_case_row
from workbench.tui.state.browser_state import LoadedCase
from workbench.tui.state.group_scores import GroupReport, GroupSummary, summarize_scores
from workbench.tui.state.project_state import OpenedProject, ProjectState
from workbench.tui.state.run_plan import PlannedRun
from workbench.tui.themes import load_themes, theme_folders

THREE_CASES = [
    {"eval_id": name, "conversation": [{"user_content": {"role": "user", "parts": [{"text": name}]}}]}
    for name in ("one", "two", "three")
]


__all__ = ["make_case", "make_history_project"]  # fixtures from another module


def turn(prompt: str, response: str | None, *calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """Return an invocation as JSON data."""
    return {
        "user_content": {"role": "user", "parts": [{"text": prompt}]},
        "final_response": None if response is None else {"role": "model", "parts": [{"text": response}]},
        "intermediate_data": {"tool_uses": [{"name": name, "args": args} for name, args in calls]},
    }


def case(eval_id: str, *turns: dict[str, Any], **more: Any) -> EvalCase:
    """Return a case with these turns."""
    return EvalCase.model_validate({"eval_id": eval_id, "conversation": list(turns), **more})


def key(
    eval_id: str, *, eval_set: str = "sets/lights.evalset.json", target: str = "home", occurrence: int = 0
) -> CaseKey:
    """Return the key of a case of the default set."""
    return CaseKey(target=target, eval_set=eval_set, eval_id=eval_id, occurrence=occurrence)


def result(
    case_key: CaseKey,
    status: CaseStatus,
    *turns: dict[str, Any],
    repeat: int = 0,
    failure: Failure | None = None,
    metrics: Sequence[MetricResult] | None = None,
    stdout: str = "",
) -> CaseResult:
    """Return a result whose metrics match its status."""
    if metrics is None:
        is_passed = status is CaseStatus.PASSED
        outcome = MetricStatus.PASSED if is_passed else MetricStatus.FAILED
        metrics = [
            MetricResult(name="tool_trajectory_avg_score", score=float(is_passed), threshold=1.0, status=outcome)
        ]
    if status is CaseStatus.ERROR and failure is None:
        failure = Failure(kind=FailureKind.AGENT, message="ValueError: no", turn=0, stderr_tail="it broke here")
    return CaseResult(
        case=case_key,
        eval_set_id="lights",
        repeat=repeat,
        status=status,
        duration_seconds=0.25,
        agent_seconds=0.25,
        failure=failure,
        metrics=tuple(metrics),
        execution=Execution(turns=tuple(turn_result(data) for data in turns), stdout_tail=stdout),
    )


def stored_job(case_result: CaseResult) -> StoredJob:
    """Return the summary of a result that the history lists without loading all of it."""
    job = JobKey(case=case_result.case, repeat=case_result.repeat)
    at = datetime(2026, 1, 1, 12, tzinfo=UTC)
    times = case_result.duration_seconds, case_result.agent_seconds
    return StoredJob("r0", job, case_result.status, *times, case_result.failure, at, "", "")


def turn_result(data: dict[str, Any]) -> TurnResult:
    """Return a finished turn of the agent."""
    return TurnResult.model_validate({"invocation": data, "duration_seconds": 0.2, "usage": TokenUsage(total=10)})


@dataclass
class FakeRun:
    """A run whose events the test sends."""

    jobs: Sequence[JobKey]
    problems: tuple[str, ...] = ()
    cancelled: bool = False
    run_id: str = "r1"
    _queue: asyncio.Queue[RunEvent] = field(default_factory=asyncio.Queue)

    @property
    def plan(self) -> Any:
        return SimpleNamespace(problems=self.problems, cases=())

    async def events(self) -> AsyncIterator[RunEvent]:
        while True:
            event = await self._queue.get()
            yield event
            if isinstance(event, RunFinished):
                return

    def send(self, *events: RunEvent) -> None:
        for event in events:
            self._queue.put_nowait(event)

    def begin(self) -> None:
        self.send(RunStarted(run_id=self.run_id, total=len(self.jobs), at=datetime(2026, 1, 1, tzinfo=UTC)))

    def finish(self, case_result: CaseResult) -> None:
        """Send the events of one job from start to end."""
        where = {"case": case_result.case, "repeat": case_result.repeat}
        self.send(CaseStarted(**where, turns=len(case_result.execution.turns)))
        for number, turn_data in enumerate(case_result.execution.turns):
            self.send(InvocationFinished(**where, turn=number, result=turn_data))
        self.send(
            CaseFinished(
                **where,
                status=case_result.status,
                duration_seconds=case_result.duration_seconds,
                failure=case_result.failure,
                result=case_result,
            )
        )

    def end(self, *, interrupted: bool = False) -> None:
        self.send(RunFinished(run_id="r1", summary=RunSummary(), duration_seconds=1.0, interrupted=interrupted))

    def cancel(self) -> None:
        self.cancelled = True
        self.end(interrupted=True)


class FakeDocuments:
    """Documents without edits."""

    def dirty(self) -> Sequence[str]:
        return ()

    find_recoveries = find_changed_sets = dirty

    def get_status(self, eval_set: str) -> Any:
        return SimpleNamespace(changed_on_disk=False, problem=None)

    def document(self, eval_set: str) -> Any:
        return SimpleNamespace(path=Path(eval_set), errors=(), check_cases=lambda _: True)


class FakeTypedTexts:
    """Typed texts without leftovers from earlier sessions."""

    def has_abandoned(self) -> bool:
        return False

    def adopt_abandoned(self) -> Sequence[Any]:
        return ()

    def write(self, texts: Sequence[Any]) -> None:
        """Forget them."""


@dataclass
class FakeBackend:
    """A backend that returns the data which the test stored in it."""

    targets: dict[str, Sequence[tuple[str, str]]] = field(default_factory=lambda: {"home": (("kind", "function"),)})
    sets: dict[str, ListedSet] = field(default_factory=dict)
    cases: dict[CaseKey, EvalCase] = field(default_factory=dict)
    stored_results: dict[CaseKey, Sequence[CaseResult]] = field(default_factory=dict)
    stored_runs: Sequence[StoredRun] = ()
    root: Path = Path("/project")
    problems: tuple[str, ...] = ()
    refuses_to_open: StoreError | None = None
    refuses_to_start: Exception | None = None
    asks_first: bool = False  # plans are shown before they run
    started_runs: list[FakeRun] = field(default_factory=list)
    requested_runs: list[Sequence[Selection]] = field(default_factory=list)
    repeats: int = 1
    edits = 0

    async def call(self, work: Callable[[Any], Any]) -> Any:
        return work(self)

    edit = call

    def add(self, *cases: EvalCase, eval_set: str = "sets/lights.evalset.json", target: str = "home") -> None:
        keys = [key(item.eval_id, eval_set=eval_set, target=target) for item in cases]
        self.cases.update(zip(keys, cases, strict=True))
        self.sets[eval_set] = ListedSet(eval_set, target, tuple(make_case_row(item) for item in keys))

    async def open(self) -> OpenedProject:
        if self.refuses_to_open is not None:
            raise self.refuses_to_open
        unread = [ListedSet(s.relative, s.target, pairing_problem=s.pairing_problem) for s in self.sets.values()]
        return OpenedProject("/project", self.targets, unread, self.problems)

    reload = open

    def forget_addresses(self) -> None:
        """Do nothing: this backend fetched no data."""

    async def list_set(self, listed: ListedSet) -> ListedSet:
        return self.sets[listed.relative]

    async def read_case(self, case_key: CaseKey, *, stored: bool, earlier: Mapping[JobKey, Any]) -> LoadedCase:
        eval_case = self.cases.get(case_key)
        results = self.stored_results[case_key] if stored else ()
        return LoadedCase(case_key, eval_case, "" if eval_case is not None else "it is gone", results)

    async def read_stored_jobs(self) -> Mapping[CaseKey, Sequence[StoredJob]]:
        return {case_key: [stored_job(item) for item in results] for case_key, results in self.stored_results.items()}

    @property
    def history(self) -> FakeBackend:
        return self

    async def read_newest_runs(self) -> Sequence[StoredRun]:
        return self.stored_runs

    async def find_stopped_run(self) -> None:
        """Return None: no earlier session left an unfinished run."""

    async def plan(
        self,
        selections: Sequence[Selection],
        options: RunOptions | None = None,
        config: EvalConfig | None = None,
        *,
        ask: bool = False,
        only_plays: bool = False,
        fresh: bool = False,
        runs: int | None = None,
    ) -> Any:
        self.requested_runs.append(selections)
        if self.refuses_to_start is not None:
            raise self.refuses_to_start
        options = options or RunOptions()
        plan = Plan(Path("/project"), (), resolve_limits(Settings(), options), options)
        return PlannedRun(
            selections, options, config, plan, estimate_cost(plan), asks=self.asks_first, folder=Path("/project")
        )

    async def start(self, planned: Any) -> tuple[FakeRun, Sequence[JobKey]]:
        wanted = {selection.eval_set: selection.cases for selection in planned.selections}
        jobs = [
            JobKey(case=item, repeat=repeat)
            for repeat in range(self.repeats)
            for item in self.cases
            if item.eval_set in wanted and (wanted[item.eval_set] is None or item.eval_id in wanted[item.eval_set])
        ]
        run = FakeRun(jobs)
        self.started_runs.append(run)
        return run, jobs

    async def read(self, listed: ListedSet) -> AsyncIterator[Sequence[CaseContent]]:
        yield [index_case(item, self.cases[item]) for item in listed.case_keys if item in self.cases]

    @property
    def contents(self) -> FakeBackend:
        return self

    def get_judges(self, _eval_set: str) -> tuple[str, ...]:
        return ()

    async def read_report(
        self, target: str | None, eval_set: str | None, sets: Sequence[ListedSet], *, earlier: Mapping[JobKey, Any]
    ) -> GroupReport:
        """Report the stored results; no run is stored."""
        keys = {item for listed in sets for item in listed.case_keys}
        results = [each for item, found in self.stored_results.items() if item in keys for each in found]
        bad = [each for each in results if each.status is not CaseStatus.PASSED]
        return GroupReport(
            summarize_scores(StoredScores(stored_job(each), each.metrics) for each in results),
            {each.case: explain_in_one_line(ReportedCase(each, self.cases.get(each.case))) for each in bad},
        )

    async def read_spread(self, cases: Collection[CaseKey], *, earlier: Mapping[JobKey, Any]) -> GroupSummary:
        """Summarize the stored results of these cases."""
        results = [each for key, found in self.stored_results.items() if key in cases for each in found]
        return summarize_scores(StoredScores(stored_job(each), each.metrics) for each in results)

    @property
    def verdict_check(self) -> FakeBackend:
        return self

    async def check(self, shown: Any) -> AsyncIterator[Any]:
        """Every verdict holds."""
        return
        yield

    async def read_new(self) -> bool:
        """No other process stores verdicts."""
        return False

    @property
    def saved_files(self) -> FakeBackend:
        return self

    def learn(self) -> None:
        """Observe nothing."""

    async def observe(self, report: Callable[[], object]) -> None:
        """Observe nothing: no file is saved."""

    @property
    def project(self) -> FakeBackend:
        return self

    @property
    def documents(self) -> FakeDocuments:
        return FakeDocuments()

    @property
    def typed_texts(self) -> FakeTypedTexts:
        return FakeTypedTexts()

    @property
    def runs(self) -> FakeBackend:
        return self

    @property
    def recordings(self) -> FakeBackend:
        return self

    def close(self) -> None:
        pass


_PARSED_STYLES: dict[Any, dict[Any, list[RuleSet]]] = {}
parse_rules = Stylesheet._parse_rules  # as Textual has it


def _parse_rules_once(self: Stylesheet, css: str, read_from: Any, **more: Any) -> list[RuleSet]:
    """Parse a source of a stylesheet once for each set of colours, not once for each application."""
    source = (css, read_from, *more.values())
    try:
        return self._parse_cache[source]
    except KeyError:
        parsed = _PARSED_STYLES.setdefault(tuple(self._variables.items()), {})
        if source not in parsed:
            parsed[source] = parse_rules(self, css, read_from, **more)
        self._parse_cache[source] = parsed[source]
        return parsed[source]


@pytest.fixture(autouse=True)
def _parse_styles_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stylesheet, "_parse_rules", _parse_rules_once)


@pytest.fixture(autouse=True)
def _look_often_whether_it_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look every five milliseconds, not every 20, whether a key has had its effect: tests wait a third less."""
    monkeypatch.setattr(_wait, "SLEEP_GRANULARITY", 1 / 200)
    monkeypatch.setattr(_wait, "SLEEP_IDLE", _wait.SLEEP_IDLE / 4)


_UPDATES = itertools.count()
_last_update = 0


def _has_updates(since: int) -> bool:
    """Return whether a screen changed after this update."""
    return _last_update != since


def _draw(compositor: Compositor) -> None:
    """Draw each widget that changed since it was drawn."""
    regions = compositor._dirty_regions.copy()
    compositor._dirty_regions.clear()
    if regions and compositor.root is not None:
        for _ in _list_drawn(compositor, Region.from_union(regions).intersection(compositor.size.region)):
            pass


def _list_drawn(compositor: Compositor, crop: Region) -> Iterator[tuple[Region, Sequence[Strip] | None]]:
    """Draw the widgets from the front to the back. List their visible regions with their lines; None: an empty area."""
    for widget, (region, clip) in compositor.visible_widgets.items():
        visible = region.intersection(clip)
        if visible and crop.overlaps(clip):
            lines = None if _is_empty_area(widget) else widget.render_lines(visible.translate(-region.offset))
            yield visible, lines


def _is_empty_area(widget: Widget) -> bool:
    """Return whether a widget draws nothing itself. Half of the lines of a screen are those of such containers."""
    kind, styles = type(widget), widget.styles
    if isinstance(widget, Screen):
        return kind.render is Screen.render and styles.background.a == 1
    is_plain = kind.render is Widget.render and kind.render_lines is Widget.render_lines and widget.is_container
    return is_plain and not styles.has_rule("keyline") and not any(styles.border.spacing)


def _draw_screen(app: App[Any]) -> None:
    if app.is_running and app._exception is None and app.screen_stack:
        visible_screen_stack.set(app._background_screens)
        _draw(app.screen._compositor)


@pytest.fixture(autouse=True)
def _draw_but_assemble_no_updates(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Draw what each key and pause leaves on the screen, but do not cut it into changes of a terminal.

    There is none: Textual would discard these changes, which take half of the time of drawing. A module with
    `DRAWS_EACH_CHANGE` draws every change at once, as a terminal does.
    """
    assemble, press, pause = Compositor.render_update, Pilot.press, Pilot.pause
    draws_at_once = hasattr(request.module, "DRAWS_EACH_CHANGE")

    def update(self: Compositor, full: bool = False, screen_stack: Any = None, simplify: bool = False) -> Any:
        global _last_update  # noqa: PLW0603
        _last_update = next(_UPDATES)
        if full or self.root is None or not self.root.app.is_headless:  # for a picture, or a terminal
            return assemble(self, full, screen_stack, simplify)
        visible_screen_stack.set(screen_stack or [])
        if draws_at_once:
            _draw(self)
        return None

    async def press_and_draw(self: Pilot[Any], *keys: str) -> None:
        await press(self, *keys)
        _draw_screen(self.app)

    async def pause_and_draw(self: Pilot[Any], delay: float | None = None) -> None:
        await pause(self, delay)
        _draw_screen(self.app)

    monkeypatch.setattr(Compositor, "render_update", update)
    if not draws_at_once:
        monkeypatch.setattr(Pilot, "press", press_and_draw)
        monkeypatch.setattr(Pilot, "pause", pause_and_draw)


@pytest.fixture
def make() -> Any:
    """Return the builders above, for test modules, which cannot import this one."""
    return SimpleNamespace(
        turn=turn,
        case=case,
        key=key,
        result=result,
        turn_result=turn_result,
        stored_job=stored_job,
        run=FakeRun,
        backend=FakeBackend,
    )


@pytest.fixture
def screen_reader() -> Any:
    """Return a function that reads the text on the screen of a running application."""
    return SimpleNamespace(screen=main_screen, text=visible_text, strips=visible_strips)


@pytest.fixture
def backend() -> FakeBackend:
    """Create a project with an agent `home` and no eval sets."""
    return FakeBackend()


@pytest.fixture
def lights(backend: FakeBackend) -> FakeBackend:
    """Create a project with three cases in one set."""
    backend.add(
        case("on", turn("Turn on the lamp", "The lamp is on.", ("set_device", {"id": "lamp", "status": "ON"}))),
        case("off", turn("Turn off the lamp", "The lamp is off.", ("set_device", {"id": "lamp", "status": "OFF"}))),
        case("两盏灯", turn("打开卧室的灯", "已打开卧室的灯。", ("set_device", {"id": "卧室", "status": "ON"}))),
    )
    return backend


@pytest.fixture
def make_app() -> Callable[..., WorkbenchApp]:
    """Create an application on a backend, with settings that do not depend on the machine."""

    def make(backend: Any, settings: Settings | LoadedSettings | None = None) -> WorkbenchApp:
        if not isinstance(settings, LoadedSettings):
            settings = LoadedSettings(settings=settings or Settings())
        return WorkbenchApp(backend, settings=settings, themes=load_themes(theme_folders()[:1]))

    return make


AGENT = """
def answer(prompt):
    if "raise" in prompt:
        raise ValueError("x [/foo] [bold]")
    return {"response": "pong [/b]", "predicted_trajectory": [{"tool_name": "ping", "tool_input": {"n": 1}}]}
"""


@pytest.fixture
def make_project(tmp_path: Path) -> Callable[..., Path]:
    """Create a project in a folder: an agent `pinger` (or the given code), and sets of cases by name."""

    def make(*, agent: str = AGENT, criteria: dict[str, Any] | None = None, **sets: Sequence[dict[str, Any]]) -> Path:
        settings = '[targets.pinger]\nkind = "function"\ntarget = "agent:answer"\neval_sets = ["*.evalset.json"]\n'
        (tmp_path / "workbench.toml").write_text(settings, encoding="utf-8")
        (tmp_path / "agent.py").write_text(agent, encoding="utf-8")
        config = {"criteria": criteria or {"tool_trajectory_avg_score": 1.0}}
        (tmp_path / "test_config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
        for name, cases in sets.items():
            data = {"eval_set_id": name, "eval_cases": list(cases)}
            (tmp_path / f"{name}.evalset.json").write_text(json.dumps(data, indent=2), encoding="utf-8")
        return tmp_path

    return make


class Driver:
    """A running application on a real project, controlled by keys and read from the screen."""

    def __init__(self, app: WorkbenchApp, pilot: Pilot[None], messages: list[Message]) -> None:
        self.app = app
        self.pilot = pilot
        self.messages = messages  # every message so far

    @property
    def text(self) -> str:
        """The text on the screen."""
        return visible_text(self.app)

    @property
    def state(self) -> ProjectState:
        """The state that all panes share."""
        return main_screen(self.app).state

    async def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        await self.pilot.press(*keys)

    async def until(self, *wanted: str) -> str:
        """Wait until the screen shows all of these texts; a failure message shows the screen."""
        return await self._look_until(lambda shown: all(text in shown for text in wanted), f"not: {wanted}")

    async def until_gone(self, unwanted: str) -> str:
        """Wait until the screen no longer shows this text."""
        return await self._look_until(lambda shown: unwanted not in shown, f"still: {unwanted}")

    async def _look_until(self, is_right: Callable[[str], bool], complaint: str) -> str:
        """Wait until the text on the screen is right. Look at it if it changed, and now and then."""
        last_look = -1
        for number in range(3000):
            if number % 25 == 0 or _has_updates(since=last_look):
                last_look = _last_update
                shown = self.text
                if is_right(shown):
                    if self.app.is_running:
                        await self.pilot.pause(0)  # until what was under way is laid out, too
                    return shown
            if self.app._exception is not None:
                break
            await asyncio.sleep(0.02)  # a pause of the pilot would ask every widget
        raise AssertionError(f"{complaint} on the screen:\n{self.text}")


@pytest.fixture
def open_app(make_app: Callable[..., WorkbenchApp]) -> Callable[..., Any]:
    """Open the application on a real project: `async with open_app(path) as screen`."""

    @asynccontextmanager
    async def start(path: Path, *, size: tuple[int, int] = (140, 42)) -> AsyncIterator[Driver]:
        backend = Backend(path)
        messages: list[Message] = []
        app = make_app(backend, load_settings(path, user_file=path / "none.toml"))
        try:
            async with app.run_test(size=size, notifications=True, message_hook=messages.append) as pilot:
                yield Driver(app, pilot, messages)
        finally:
            backend.close()

    return start


@pytest.fixture
def open_fake_app(make_app: Callable[..., WorkbenchApp]) -> Callable[..., Any]:
    """Open the application on a project made of plain objects: `async with open_fake_app(backend) as screen`."""

    @asynccontextmanager
    async def start(
        backend: Any, *, size: tuple[int, int] = (120, 30), settings: Settings | None = None
    ) -> AsyncIterator[Driver]:
        app = make_app(backend, settings)
        async with app.run_test(size=size, notifications=True) as pilot:
            yield Driver(app, pilot, [])

    return start


def main_screen(app: WorkbenchApp) -> MainScreen:
    """Return the main screen of a running application."""
    screen = app.screen_stack[0]
    assert isinstance(screen, MainScreen)
    return screen


def visible_text(app: WorkbenchApp) -> str:
    """Return all text on the screen. Textual would divide each line at the edges of all widgets, which takes longer."""
    compositor = app.screen._compositor
    size = compositor.size
    lines = [[" "] * size.width for _ in range(size.height)]
    for visible, strips in reversed(list(_list_drawn(compositor, size.region))):
        for y, strip in zip(visible.line_range, strips or [Strip.blank(visible.width)] * visible.height, strict=False):
            cells = _list_cells(strip)
            if len(cells) != visible.width:  # characters that combine to one
                return "\n".join("".join(segment.text for segment in strip) for strip in visible_strips(app))
            lines[y][visible.x : visible.right] = cells
    return "\n".join(map("".join, lines))


def _list_cells(strip: Strip) -> list[str]:
    """List the text of each cell; it is empty for the second cell of a wide character."""
    if len(strip.text) == strip.cell_length:
        return list(strip.text)
    return list(itertools.chain.from_iterable((c, *[""] * (cell_len(c) - 1)) for c in strip.text))


def visible_strips(app: WorkbenchApp) -> Sequence[Iterable[Segment]]:
    """Return the lines of the screen as they are drawn now."""
    return app.screen._compositor.render_strips()


def type_at_once(screen: Any, keys: str) -> None:
    """Send keys before the screen handles the first of them."""
    for key in keys:
        screen.app.post_message(Key("slash" if key == "/" else key, key))
