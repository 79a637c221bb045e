"""The page about a set or an agent, without a screen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from rich.cells import cell_len

from tests.tui.state.stored import NOW, SET, make_run
from workbench.model.evalset import Quarantine
from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import CaseStatus, InvocationScore, MetricResult, MetricStatus
from workbench.model.run_events import RunSummary
from workbench.store.history.history_queries import RunPart, StoredRun, StoredScores
from workbench.tui.keys import find_first_key
from workbench.tui.state.browser_list import ListedSet, make_case_row
from workbench.tui.state.case_status import CaseState
from workbench.tui.state.dashboard import Dashboard
from workbench.tui.state.group_scores import MOST_FAILING, GroupReport, summarize_scores
from workbench.tui.state.project_state import OpenedProject
from workbench.tui.state.text_layout import Line, Style
from workbench.tui.state.watch_state import AffectedJob, CaseStates, WatchMode
from workbench.watch.watch_events import ChangeSeen, VerdictKnown, WatchRunStarted

FACTS = (("agent", "home"), ("kind", "function"), ("runs", "agent:answer"), ("in", "/project"))
PASSED, FAILED, ERROR = CaseStatus.PASSED, CaseStatus.FAILED, CaseStatus.ERROR


class Page:
    """A dashboard on a project whose cases the test lists and whose results it stores."""

    def __init__(self, listed: Any, make: Any) -> None:
        self.project = listed
        self.state = listed.state
        self.dashboard = Dashboard(self.state)
        self._make = make

    def report(
        self,
        *results: Any,
        reasons: dict[CaseKey, str] | None = None,
        runs: Sequence[RunPart] = (),
        dollars: Mapping[CaseKey, Decimal] | None = None,
    ) -> None:
        """Store these results of earlier sessions, and show them."""
        self.project.store(**{each.case.eval_id: each.status for each in results})
        scores = (StoredScores(self._make.stored_job(each), each.metrics) for each in results)
        bad = {each.case: f"why {each.case.eval_id}" for each in results if each.status is not PASSED}
        reasons = bad if reasons is None else reasons
        self.dashboard.report = GroupReport(summarize_scores(scores), reasons, runs, dollars or {})

    def lay_out(self, width: int = 90, height: int = 40, *, has_focus: bool = False) -> list[Line]:
        return self.dashboard.lay_out(width, height, now=NOW, has_focus=has_focus)

    def render(self, width: int = 90, height: int = 40) -> str:
        return "\n".join("".join(piece.text for piece in line).rstrip() for line in self.lay_out(width, height))

    def find_line(self, start: str, width: int = 90) -> str:
        return next(line for line in self.render(width).splitlines() if line.startswith(start))

    def find_section(self, title: str) -> list[str]:
        """Return the lines of a section, up to the next empty one."""
        lines = self.render().splitlines()
        start = next(index for index, line in enumerate(lines) if line.startswith(title))
        return lines[start : next((i for i in range(start, len(lines)) if not lines[i]), len(lines))]


@pytest.fixture
def make_page(make_listed_project: Callable[..., Any], make: Any) -> Callable[..., Page]:
    def fill(*eval_ids: str, row: int = 0) -> Page:
        listed = make_listed_project(eval_ids)
        sets = [ListedSet(SET, "home")]
        listed.state.open(OpenedProject("/project", {"home": FACTS}, sets))
        listed.list_cases(*eval_ids)
        listed.browser.set_cursor(row)
        return Page(listed, make)

    return fill


@pytest.fixture
def judged(make_page: Callable[..., Page], make: Any) -> Page:
    """Create a page about three cases: one passed, one failed, one error."""
    page = make_page("a", "b", "c")
    page.report(
        *(make.result(make.key(name), status) for name, status in zip("abc", (PASSED, FAILED, ERROR), strict=True))
    )
    return page


def test_before_any_run_each_section_says_what_will_be_there_and_which_key_makes_it(
    make_page: Callable[..., Page],
) -> None:
    page = make_page("a", "b")

    text = page.render()

    assert "○ 2 not run" in text
    assert "next  r run 2 cases  right open  N new case" in text
    assert page.find_section("criteria") == [
        "criteria      after r: the mean of each criterion, its threshold and its spread",
        "did not pass  after r: the cases that did not pass, each with one line of why",
        "whole runs    after r: the pass rates of runs of all these cases",
        "slowest       after r: the slowest cases, and the costliest if tokens are known",
        "watch         off; w turns it on: every save then runs the cases it affects",
    ]
    assert page.find_line("criteria", 42) == "criteria      after r: means, thresholds"
    assert page.find_line("watch", 42) == "watch         off; w reruns at every save"


@pytest.fixture
def project_page(make_page: Callable[..., Page], make: Any) -> Page:
    """Create a page about a project with two agents and three sets, of which one has no agent."""
    page = make_page("a", "b")
    others = {"sets/far.evalset.json": "away", "loose.evalset.json": ""}
    sets = [ListedSet(SET, "home"), *(ListedSet(path, target) for path, target in others.items())]
    page.state.open(OpenedProject("/work/project", {"home": FACTS, "away": FACTS}, sets))
    for path, target in others.items():
        rows = tuple(make_case_row(make.key(name, eval_set=path, target=target)) for name in ("c", "d"))
        page.state.list_set(ListedSet(path, target, rows))
    page.state.show_project()
    return page


def test_the_project_page_says_before_any_run_what_will_be_there(project_page: Page) -> None:
    text = project_page.render()

    assert text.startswith("6 cases · 3 eval sets · 2 agents\n/work/project\n")
    assert "next  R run 6 cases  6 talk to the agent  ? all keys" in text
    assert "○ 6 not run" in text
    assert project_page.find_section("did not pass") == [
        "did not pass  after R: the cases that did not pass, each with one line of why"
    ]
    assert [line.split() for line in project_page.find_section("eval sets")[1:]] == [
        ["○", "lights", "─" * 32, "0", "of", "2", "home"],
        ["○", "far", "─" * 32, "0", "of", "2", "away"],
        ["○", "loose", "─" * 32, "0", "of", "2"],
    ]
    assert "last runs     after R: the newest runs" in text


def test_the_project_page_sums_all_agents_and_lists_the_worst_sets_first(project_page: Page, make: Any) -> None:
    far = make.key("c", eval_set="sets/far.evalset.json", target="away")
    results = [make.result(make.key("a"), PASSED), make.result(make.key("b"), PASSED), make.result(far, FAILED)]
    for each in results:
        project_page.state.load_stored({each.case: [make.stored_job(each)]})
    counts = RunSummary(total=3, passed=2, failed=1)
    run = StoredRun(
        run_id="r1",
        root="/work",
        started_at=NOW,
        command="workbench run",
        ended=True,
        duration_seconds=2.0,
        summary=counts,
    )
    summary = summarize_scores(StoredScores(make.stored_job(each), each.metrics) for each in results)
    runs = [RunPart(run, counts)]
    project_page.dashboard.report = GroupReport(summary, {far: "why it failed"}, runs)

    text = project_page.render()

    assert "✓ 2 passed   ✗ 1 failed   ○ 3 not run" in text
    assert project_page.find_section("did not pass") == ["did not pass  1 of 6", "✗ c  why it failed"]
    names = [line.split()[:2] for line in project_page.find_section("eval sets")[1:]]
    assert names == [["✗", "far"], ["✓", "lights"], ["○", "loose"]]
    assert "2 of 2  home" in text and "━" * 32 in text
    assert "2 of 3 passed  ✗ 1  2.00 s" in text
    assert "next  n next failing" in text


def test_a_broken_set_is_named_first_with_what_can_be_run_of_it(project_page: Page) -> None:
    state = project_page.state
    lights = next(each for each in state.browser.sets if each.relative == SET)
    state.list_set(replace(lights, problem="line 2: found 'x', expected a value"))

    row = project_page.find_section("eval sets")[1]
    assert row.split()[:2] == ["!", "lights"] and "broken" in row
    state.browser.select_set(lights)
    state.leave_row()
    text = project_page.render()
    assert "! this file is broken: cases may be missing" in text
    assert find_next(project_page).startswith("! open the file at the problem  r run 2 cases")


@pytest.mark.parametrize(("width", "height"), [(36, 6), (44, 18), (86, 36), (134, 54)])
def test_the_project_page_fits_and_names_what_failed_first(
    project_page: Page, make: Any, width: int, height: int
) -> None:
    keys = [make.key(name * 40, eval_set="sets/far.evalset.json", target="away") for name in ("打", "x")]
    project_page.state.list_set(ListedSet(f"sets/{'长' * 60}.evalset.json", "away", tuple(map(make_case_row, keys))))
    for key in keys:
        project_page.state.load_stored({key: [make.stored_job(make.result(key, FAILED))]})
    project_page.dashboard.report = GroupReport(summarize_scores(()), dict.fromkeys(keys, "why " * 80))

    lines = project_page.lay_out(width, height, has_focus=True)

    assert len(lines) <= height
    assert all(sum(cell_len(piece.text) for piece in line) <= width for line in lines)
    assert any(piece.style is Style.CURSOR for line in lines for piece in line)


def test_the_project_is_shown_until_another_row_is_selected(project_page: Page) -> None:
    state = project_page.state
    assert state.subject().is_project and state.shows_group and state.heading().title == "project project"

    state.leave_row()
    assert state.shows_project
    state.browser.move_cursor(1)
    assert not state.shows_project
    state.leave_row()
    state.browser.move_cursor(-1)
    assert not state.shows_project and state.subject().row is not None


def test_keys_that_the_user_changed_are_shown(make_page: Callable[..., Page]) -> None:
    page = make_page("a")
    page.state.find_key = partial(find_first_key, keymap={"run_case": "ctrl+r", "watch": "B"})

    text = page.render()

    assert "ctrl+r run 1 case" in text
    assert "after ctrl+r: the pass rates" in text
    assert "off; B turns it on" in text


def test_the_title_counts_cases_turns_and_sets_and_names_the_kind_of_agent(
    make_page: Callable[..., Page], make: Any
) -> None:
    page = make_page("a", "b")
    assert page.render().startswith("2 cases · 1 eval set · function agent\nagent:answer in /project")

    page.project.read(make.case("a", make.turn("x", "y")), make.case("b", make.turn("x", "y"), make.turn("x", "y")))
    assert page.render().startswith("2 cases · 3 turns · 1 eval set")

    scenario = {"starting_prompt": "Hi", "conversation_plan": "Ask."}
    page.project.read(make.case("b", conversation=None, conversation_scenario=scenario))
    assert page.render().startswith("2 cases · 1+ turns · 1 eval set")

    page.state.browser.set_cursor(1)
    assert page.render().startswith(f"2 cases · 1+ turns · function agent home\n{SET}")


def test_every_case_has_a_part_of_the_bar_and_stale_verdicts_one_of_their_own(
    make_page: Callable[..., Page], make: Any
) -> None:
    page = make_page(*"abcdefgh")
    page.report(*(make.result(make.key(name), PASSED if name in "abc" else FAILED) for name in "abcdef"))
    for name in "cf":
        page.state.browser.freshness.set_stale_reasons(make.key(name), ["the code changed"])

    lines = page.render(80).splitlines()
    bar = next(line for line in lines if "━" in line)

    assert "✓ 2 passed   ✗ 2 failed   ● 2 stale (✓ 1 ✗ 1)   ○ 2 not run" in lines
    assert [bar.count(symbol) for symbol in "✓✗●○"] == [1, 1, 1, 1]
    assert len(bar) == 80
    assert bar.index("✗") == 20
    assert bar.index("●") == 40
    assert "✓ 2  ✗ 2  ● 2  ○ 2" in page.render(20)


def test_a_single_failure_among_many_cases_still_has_a_cell(make_page: Callable[..., Page], make: Any) -> None:
    page = make_page(*(f"c{number}" for number in range(500)))
    page.report(*(make.result(make.key(f"c{number}"), PASSED if number else ERROR) for number in range(500)))

    bar = next(line for line in page.render(60).splitlines() if "━" in line)

    assert bar == f"✓{'━' * 58}!"


def test_a_criterion_has_its_mean_threshold_spread_and_pass_count(make_page: Callable[..., Page], make: Any) -> None:
    page = make_page(*"abcd")
    scores = {"a": 1.0, "b": 1.0, "c": 0.5, "d": 0.5}
    page.report(
        *(
            make.result(
                make.key(name),
                PASSED if score == 1 else FAILED,
                metrics=[
                    MetricResult(
                        name="response_match_score",
                        score=score,
                        threshold=0.8,
                        status=MetricStatus.PASSED if score == 1 else MetricStatus.FAILED,
                    ),
                    MetricResult(name="latency", score=0.1, threshold=None, status=MetricStatus.INFORMATIONAL),
                ],
            )
            for name, score in scores.items()
        )
    )

    lines = page.find_section("criteria")

    assert len(lines) == 2
    assert lines[1].startswith("✗ response_match_score      0.75  ─")
    assert lines[1].endswith("≥ 0.80  2 of 4 pass")
    track = lines[1].split()[3]
    length = len(track) - 1
    assert track.index("●") == round(0.75 * length)
    assert track.index("┃") == round(0.8 * length)
    assert abs(track.index("━") - 0.5 * length) <= 1
    assert track.endswith("━")
    narrow = page.find_line("✗ ", 46)
    assert "0.75" in narrow
    assert narrow.endswith("2 of 4 pass")
    assert page.find_line("✗ ", 34).endswith("  2/4")


@pytest.mark.parametrize(
    ("statuses", "symbol", "passing"),
    [
        ([MetricStatus.PASSED, MetricStatus.PASSED], "✓", "2 of 2 pass"),
        ([MetricStatus.PASSED, MetricStatus.UNDEFINED], "?", "1 of 2 pass"),
        ([MetricStatus.PASSED, MetricStatus.FAILED], "✗", "1 of 2 pass"),
        ([MetricStatus.FAILED, MetricStatus.ERROR], "!", "0 of 2 pass"),
    ],
)
def test_a_criterion_shows_the_worst_of_its_verdicts(
    make_page: Callable[..., Page], make: Any, statuses: list[MetricStatus], symbol: str, passing: str
) -> None:
    page = make_page("a", "b")
    metrics = [MetricResult(name="exact_match", score=None, threshold=1.0, status=status) for status in statuses]
    pairs = zip("ab", metrics, strict=True)
    page.report(*(make.result(make.key(name), PASSED, metrics=[metric]) for name, metric in pairs))

    line = page.find_section("criteria")[1]

    assert line.startswith(f"{symbol} exact_match  no score")
    assert line.endswith(passing)


def test_failing_cases_have_one_line_of_why_and_those_without_room_are_counted(
    make_page: Callable[..., Page], make: Any
) -> None:
    names = [f"c{number:02}" for number in range(30)]
    page = make_page(*names)
    results = [make.result(make.key(name), ERROR if name == "c00" else FAILED) for name in names]
    page.report(*results, reasons={each.case: f"why {each.case.eval_id}\x1b[31m\n" for each in results[:MOST_FAILING]})

    tall, low = page.render(height=60), page.render(height=24)

    assert "did not pass  30 of 30" in tall
    assert "! c00  why c00�[31m" in tall.replace("␛", "�")
    assert "✗ c19  why c19" in tall
    assert "… 10 more" in tall
    assert "\x1b" not in tall
    shown = low.count("why c")
    assert 0 < shown < MOST_FAILING
    assert f"… {30 - shown} more" in low


def test_a_case_that_passes_by_now_is_not_listed_as_failing(judged: Page, make: Any) -> None:
    assert "why b" in judged.render()

    judged.state.board.restore_verdicts(make.key("b"), {0: make.stored_job(make.result(make.key("b"), PASSED))})

    assert "why b" not in judged.render()
    assert "did not pass  1 of 3" in judged.render()


def measure(make: Any, name: str, *, seconds: float, tokens: tuple[float | None, ...] | None) -> Any:
    """Return a passed result with this time, and tokens by turn; None if they are unknown."""
    metrics = [MetricResult(name="tool_trajectory_avg_score", score=1.0, threshold=1.0, status=MetricStatus.PASSED)]
    if tokens is not None:
        turns = tuple(InvocationScore(score=count) for count in tokens)
        known = MetricStatus.INFORMATIONAL
        metrics.append(
            MetricResult(name="token_usage_v1", score=1.0, threshold=None, status=known, per_invocation=turns)
        )
    return make.result(make.key(name), PASSED, metrics=metrics).model_copy(update={"agent_seconds": seconds})


def test_the_slowest_and_costliest_three_are_listed_and_nothing_is_said_of_unknown_amounts(
    make_page: Callable[..., Page], make: Any
) -> None:
    page = make_page(*"abcde")
    page.report(
        measure(make, "a", seconds=1.5, tokens=(1000.0, 200.0)),
        measure(make, "b", seconds=9.0, tokens=None),
        measure(make, "c", seconds=0.0, tokens=(5.0,)),
        measure(make, "d", seconds=3.0, tokens=None),
        measure(make, "e", seconds=2.0, tokens=None),
    )

    lines = [" ".join(line.split()) for line in page.find_section("slowest")]

    assert lines == ["slowest costliest", "b 9.00 s a 1,200 tokens", "d 3.00 s c 5 tokens", "e 2.00 s"]

    page.report(measure(make, "a", seconds=1.5, tokens=None))
    assert "costliest" not in page.render()
    assert "token" not in page.render()


def test_cases_of_equal_ids_are_listed_with_their_sets(make_page: Callable[..., Page], make: Any) -> None:
    page = make_page(*"ab")
    other = measure(make, "a", seconds=2.0, tokens=None)
    other = other.model_copy(update={"case": other.case.model_copy(update={"eval_set": "sets/doors.evalset.json"})})
    page.report(measure(make, "a", seconds=3.0, tokens=None), other, measure(make, "b", seconds=1.0, tokens=None))

    lines = [" ".join(line.split()) for line in page.find_section("slowest")]

    assert lines == ["slowest", "a (lights) 3.00 s", "a (doors) 2.00 s", "b 1.00 s"]


def test_the_costliest_cases_have_dollars_if_these_are_known(make_page: Callable[..., Page], make: Any) -> None:
    page = make_page(*"ab")
    results = [measure(make, name, seconds=1.0, tokens=(1200.0,)) for name in "ab"]
    page.report(*results, dollars={make.key("b"): Decimal("0.0123")})

    lines = [" ".join(line.split()) for line in page.find_section("slowest")]

    assert lines == ["slowest costliest", "a 1.00 s a 1,200 tokens", "b 1.00 s b $0.012 · 1,200 tokens"]


def test_whole_runs_are_a_sparkline_from_old_to_new_and_the_last_three_in_words(judged: Page) -> None:
    passed = (0, 2, 3, 4)
    runs = [
        RunPart(make_run(number).model_copy(update={"summary": counts}), counts)
        for number, count in enumerate(passed)
        for counts in [RunSummary(total=4, passed=count, failed=4 - count)]
    ]
    runs[2] = runs[2]._replace(run=runs[2].run.model_copy(update={"summary": RunSummary(total=9)}))  # of other agents
    assert judged.dashboard.report is not None
    judged.dashboard.report = GroupReport(judged.dashboard.report.summary, {}, runs[::-1])

    lines = judged.find_section("whole runs")

    assert lines[0] == "whole runs  4, newest right"
    assert lines[1] == "▁▅▇█  0% → 100% passed"
    assert [line[16:] for line in lines[2:]] == [
        "  4 of 4 passed  12 s",
        "  3 of 4 passed  ✗ 1",  # the time is that of all agents of the run
        "  2 of 4 passed  ✗ 2  12 s",
    ]


def save(page: Page, make: Any, *names: str, at: datetime) -> None:
    """Report a save that affects these cases."""
    jobs = [JobKey(case=make.key(name), repeat=0) for name in names]
    affected = [AffectedJob(job, "agent.py changed", is_judged=False) for job in jobs]
    page.state.watch.apply(CaseStates(Path("/project"), files=3, total=3, affected=affected), now=0.0)
    change = ChangeSeen(
        at=at, paths=("agent.py",), run=len(jobs), judged=0, waiting=0, total=3, reason="agent.py changed"
    )
    page.state.watch.apply(change, now=0.0)


def test_the_watch_says_what_it_did_last_and_when(judged: Page, make: Any) -> None:
    watch = judged.state.watch
    watch.start()
    watch.resume()
    assert judged.find_line("watch") == "watch         on; no save so far"

    save(judged, make, "a", "b", at=NOW - timedelta(seconds=12))
    assert "agent.py saved 12 s ago: 2 of 3 cases run again, 0 done" in judged.render()

    for name, status in (("a", PASSED), ("b", FAILED)):
        watch.apply(VerdictKnown(result=make.result(make.key(name), status)), now=0.0)
    assert "agent.py saved 12 s ago: 2 of 3 cases ran again, 1 failed" in judged.render()

    watch.pause()
    assert "watch  paused: w resumes it" in judged.render()
    assert "watch  off: w turns it on" not in judged.render()

    save(judged, make, at=NOW - timedelta(minutes=5))
    assert "agent.py saved 5 min ago: none of 3 cases is affected" in judged.render()
    assert watch.mode is WatchMode.PAUSED

    failed = make.result(make.key("a"), FAILED)
    excused = failed.model_copy(update={"quarantine": Quarantine(until=NOW.date())})
    save(judged, make, "a", at=NOW)
    watch.apply(WatchRunStarted(cast(Any, None), (JobKey(case=make.key("a")),), ""), now=0.0)
    watch.apply(VerdictKnown(result=excused), now=0.0)
    assert not watch.changes[0].alarm.is_waiting
    assert "agent.py saved 0 s ago: 1 of 3 cases ran again" in judged.render()
    assert ", 1 failed" not in judged.render()

    facts = {"paths": ("a.json",), "run": 0, "judged": 0, "waiting": 0, "total": 3, "reason": ""}
    watch.apply(ChangeSeen(at=NOW, quarantines=("lights:b: ended",), **facts), now=0.0)
    assert "a.json saved 0 s ago: quarantine of 1 case changed" in judged.render()

    watch.apply(ChangeSeen(at=NOW, **(facts | {"waiting": 2})), now=0.0)
    assert "a.json saved 0 s ago: 2 of 3 cases wait until the source compiles" in judged.render()


def find_next(page: Page) -> str:
    return page.find_line("next ").removeprefix("next  ")


def test_the_next_keys_fit_the_state(judged: Page, make_page: Callable[..., Page], make: Any) -> None:
    assert find_next(judged) == "n next failing  v review and accept  f run failed again"

    judged.state.browser.set_edited_cases(SET, ["a"])
    judged.state.browser.set_cursor(1)
    assert find_next(judged) == "ctrl+s save the edits  n next failing  v review and accept"

    judged.state.browser.set_edited_cases(SET, None)
    judged.state.begin_run("r1", total=3, now=0.0)
    assert find_next(judged) == "x stop  o progress  n next failing"

    passed = make_page("a")
    passed.report(make.result(make.key("a"), PASSED))
    assert find_next(passed) == "r run again  w run at every save  t table of results"
    assert "did not pass  no case: all that ran passed" in passed.render()

    assert find_next(make_page(row=1)) == "N new case  alt+g write scenarios  6 talk to the agent"


def test_failures_in_quarantine_are_not_called_passed(make_page: Callable[..., Page], make: Any) -> None:
    page = make_page("a", "b")
    page.report(make.result(make.key("a"), PASSED), make.result(make.key("b"), FAILED))
    failed = make.stored_job(make.result(make.key("b"), FAILED))
    page.state.load_stored({make.key("b"): [failed._replace(quarantine=Quarantine(until=NOW.date()))]})

    assert page.find_line("did not pass") == "did not pass  only 1 case in quarantine"


def test_the_title_counts_cases_in_quarantine_also_before_they_run(make_page: Callable[..., Page], make: Any) -> None:
    page = make_page("a", "b", "c")
    rows = [make_case_row(make.key(name), "", Quarantine(until=NOW.date())) for name in ("a", "b")]
    page.state.list_set(ListedSet(SET, "home", (*rows, make_case_row(make.key("c")))))
    page.report(make.result(make.key("a"), PASSED))

    assert page.render().startswith("3 cases · ⊘ 2 in quarantine · ")
    page.state.browser.set_cursor(1)
    assert page.render(width=32).startswith("3 cases · ⊘ 2 in quarantine\n")


def test_the_key_that_runs_counts_the_cases_of_the_filter(make_page: Callable[..., Page]) -> None:
    page = make_page("lamp", "fan", "oven")
    assert find_next(page).startswith("r run 3 cases")

    page.state.browser.filter("lamp")
    assert find_next(page).startswith("r run 1 case ")


def test_a_project_without_eval_sets_says_how_to_start(make_page: Callable[..., Page]) -> None:
    page = make_page()
    page.state.open(OpenedProject("/project", {}, []))
    page.state.find_key = partial(find_first_key, keymap={"new_set": "ctrl+e"})

    text = page.render()

    assert text.startswith("next  ctrl+e new eval set  alt+n add an agent  ? all keys")
    assert "create an eval set here:  ctrl+e" in text
    assert "workbench tour, or workbench demo" in text
    assert "talk to the agent" not in text

    page.state.open(OpenedProject("/project", {"home": ()}, []))
    assert find_next(page) == "6 talk to the agent  ctrl+e new eval set  ? all keys"


def test_a_set_with_long_paths_still_shows_its_criteria(make_page: Callable[..., Page]) -> None:
    page = make_page("a", row=1)
    page.state.list_set(ListedSet(SET, "home", None, config="agents/home_automation/test_config.json"))

    assert f"{SET} · criteria agents/home_automation/test_config.json" in page.render()
    assert page.find_line("criteria …", 44) == "criteria …s/home_automation/test_config.json"


def test_problems_of_a_set_stay_visible(make_page: Callable[..., Page]) -> None:
    page = make_page("a", row=1)
    page.state.list_set(ListedSet(SET, "home", None, problem="line 3: expected ',' [bold]"))
    assert find_next(page) == "! open the file at the problem"

    text = page.render()

    assert "! this file could not be read" in text
    assert "line 3: expected ',' [bold]" in text


def test_less_important_sections_are_dropped_first_and_no_line_is_too_wide(
    make_page: Callable[..., Page], make: Any
) -> None:
    names = ("两盏灯" * 20, "b" * 300, "c")
    page = make_page(*names)
    page.report(*(make.result(make.key(name), FAILED) for name in names))

    for height in range(4, 60, 5):
        for width in (20, 34, 46, 86, 112, 134, 200):
            lines = page.lay_out(width, height)
            assert len(lines) <= max(height, 4), (width, height)
            assert all(sum(cell_len(piece.text) for piece in line) <= width for line in lines), (width, height)

    small = page.render(36, 4).splitlines()
    assert [small[0], small[2]] == ["3 cases · 1 eval set", "✗ 3 failed"]
    assert small[3].startswith("n next failing")
    assert "did not pass" in page.render(36, 6)
    assert "slowest" not in page.render(86, 15)
    assert "did not pass" in page.render(86, 15)
    assert all(title in page.render(86, 34) for title in ("criteria", "slowest", "whole runs", "watch"))


def test_a_wide_page_has_two_columns(judged: Page) -> None:
    line = judged.find_line("criteria", width=134)

    assert "whole runs" in line


def test_the_cursor_goes_from_case_to_case_and_is_shown_only_with_the_focus(judged: Page, make: Any) -> None:
    assert not any(piece.style is Style.CURSOR for line in judged.lay_out() for piece in line)

    def find_cursor() -> str:
        lines = judged.lay_out(has_focus=True)
        return "".join(piece.text for line in lines for piece in line if piece.style is Style.CURSOR)

    assert "why b" in find_cursor()
    judged.dashboard.move(1)
    assert "why c" in find_cursor()
    judged.dashboard.move(1)
    assert "250 ms" in find_cursor()
    assert judged.dashboard.selected_spot is not None
    assert judged.dashboard.selected_spot.section == "slowest"
    judged.dashboard.move(-5)
    assert judged.dashboard.selected_spot.case == make.key("b")
    judged.dashboard.move_to_last()
    assert judged.dashboard.selected_spot.section == "slowest"


def test_the_case_under_the_mouse_is_found_in_both_columns(judged: Page, make: Any) -> None:
    lines = ["".join(piece.text for piece in line) for line in judged.lay_out(134)]
    failing = next(index for index, line in enumerate(lines) if "why c" in line)
    slow = next(index for index, line in enumerate(lines) if line.rstrip().endswith("250 ms"))

    assert judged.dashboard.find_case(failing, 5) == make.key("c")
    assert judged.dashboard.find_case(slow, 100) is not None
    assert judged.dashboard.find_case(slow, 75) is None
    assert judged.dashboard.find_case(0, 5) is None


def test_scores_that_are_being_read_or_cannot_be_read_are_not_shown_as_missing(
    make_page: Callable[..., Page], make: Any
) -> None:
    page = make_page("a")
    page.project.store(a=PASSED)
    assert "criteria      reading …" in page.render()

    page.dashboard.problem = "history.db: the disk is full"
    assert "! the history cannot be read: history.db: the disk is full" in page.render()
    assert "criteria      unknown" in page.render()


def test_cases_in_progress_have_a_part_of_the_bar(judged: Page, make: Any) -> None:
    judged.state.board.begin_jobs([JobKey(case=make.key("a"), repeat=0)])

    assert judged.state.board.count_states()[CaseState.WAITING] == 1
    assert "✗ 1 failed   ! 1 error   ◌ 1 waiting" in judged.render()


def test_failing_criteria_come_first_and_keep_their_lines_on_a_low_screen(
    make_page: Callable[..., Page], make: Any
) -> None:
    page = make_page(*"ab")
    scores = {"passes": 1.0, "fails": 0.0, "fails_too": 0.2}
    metrics = [
        MetricResult(
            name=name,
            score=score,
            threshold=0.5,
            status=MetricStatus.PASSED if score > 0.5 else MetricStatus.FAILED,
            scored=1,
            total=1,
        )
        for name, score in scores.items()
    ]
    page.report(*(make.result(make.key(name), FAILED, metrics=metrics) for name in "ab"))

    text = page.render(width=44, height=16)

    assert "fails_too" in text, text
    assert text.index("✗ fails") < text.index("✗ fails_too")
    assert text.index("fails_too") < text.index("passes")
