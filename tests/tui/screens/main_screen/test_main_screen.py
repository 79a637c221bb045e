"""The main screen with a keyboard, on a project made of plain objects."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.app import App
from textual.message_pump import MessagePump
from textual.widgets import Input

from tests.tui.edited_project import wait_for_notification
from workbench.engine.plan import PlanError, Selection
from workbench.model.results import CaseStatus
from workbench.model.run_events import CaseStarted, InvocationFinished, Notice
from workbench.store.errors import StoreError
from workbench.store.settings import Settings
from workbench.tui import app
from workbench.tui.screens import save_controller
from workbench.tui.screens.run_controller import RunController
from workbench.tui.state.browser_list import ListedSet, make_case_row
from workbench.tui.widgets.inputs import FilterLine
from workbench.tui.widgets.row_lists import CaseList, LinesView

SET = "sets/lights.evalset.json"


async def test_sets_and_cases_are_listed_with_the_selected_expectations(open_fake_app: Any, lights: Any) -> None:
    async with open_fake_app(lights) as screen:
        await screen.until("lights", "两盏灯", "1 eval set · 3 cases")

        await screen.press("j", "down")

        await screen.until("turn 1 · user  Turn on the lamp", '"lamp"', "The lamp is on.", "○ NOT RUN")


async def wait_until(get: Callable[[], object], wanted: object) -> None:
    until = time.monotonic() + 30
    while (found := get()) != wanted:
        assert time.monotonic() < until, found
        await asyncio.sleep(0.02)


def list_active_timers(opened: App[Any]) -> list[float]:
    """Return the intervals of the timers that would still tick if nothing happened."""
    nodes: list[MessagePump] = [opened, *opened.screen_stack, *opened.screen.walk_children()]
    timers = [timer for node in nodes for timer in node._timers]
    running = [timer for timer in timers if timer._task is not None and not timer._task.done()]
    return sorted(timer._interval for timer in running if timer._active.is_set())


async def test_an_idle_screen_has_no_timer_but_the_one_that_checks_files(
    open_app: Any, make_project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "_BLINKING", 0.1)
    turn = {"user_content": {"parts": [{"text": "Hi"}]}}
    async with open_app(make_project(pings=[{"eval_id": "first", "conversation": [turn]}])) as screen:
        await screen.until("first")
        await screen.press("down", "down", *"12345", "r")
        await screen.until("finished")
        await screen.press("w")
        await screen.until("watching")
        await screen.press("6")  # the chat, whose input has the focus

        screen.app.clear_notifications()

        await wait_until(lambda: list_active_timers(screen.app), [save_controller._CHECK])


async def test_the_cursor_of_a_field_stops_blinking_without_keys(
    open_fake_app: Any, lights: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "_BLINKING", 0.1)
    async with open_fake_app(lights) as screen:
        await screen.until("两盏灯")
        screen.app.query_one(FilterLine).display = True
        field = screen.app.query_one(Input)
        field.focus()  # without a key
        await wait_until(lambda: field.cursor_blink, False)
        monkeypatch.setattr(screen.app._calming, "restart", lambda: None)

        await screen.press("x")

        assert field.value == "x"
        assert field.cursor_blink


async def test_r_runs_the_selected_case_and_R_all(open_fake_app: Any, lights: Any) -> None:
    async with open_fake_app(lights) as screen:
        await screen.until("两盏灯")
        await screen.press("j", "j", "r")
        await screen.until("running")
        lights.started_runs[0].begin()
        lights.started_runs[0].end()
        await screen.until("finished")

        await screen.press("R")
        await screen.until("0/3")

    assert lights.requested_runs == [[Selection(eval_set=SET, cases=("on",))], [Selection(eval_set=SET)]]


async def test_the_visible_cases_run_first(
    make_project: Callable[..., Path], open_app: Callable[..., Any], make: Any
) -> None:
    cases = [make.case(f"case_{number:03}", make.turn("x", "y")).model_dump(mode="json") for number in range(100)]
    async with open_app(make_project(big=cases)) as screen:
        await screen.until("case_003", "100 cases")
        await screen.press("G")
        await screen.until("case_099")

        await screen.press("R")
        await screen.until("finished", "100/100")

        followed = next(each.followed for each in screen.messages if isinstance(each, RunController.Followed))
        numbers = [int(job.case.eval_id.removeprefix("case_")) for job in followed.jobs]
        assert numbers[-1] < 99
        assert numbers[0] > 50
        assert sorted(numbers) == list(range(100))


async def test_progress_and_turns_are_shown_during_the_run(open_fake_app: Any, lights: Any, make: Any) -> None:
    async with open_fake_app(lights) as screen:
        await screen.until("两盏灯")
        await screen.press("j", "j", "R")
        await screen.until("waiting")
        run = lights.started_runs[0]
        run.begin()
        on = make.key("on")
        run.send(CaseStarted(case=on, repeat=0, turns=1))
        await screen.until("◐ RUNNING")

        result = make.turn("Turn on the lamp", "The stove is on.", ("set_device", {"id": "stove", "status": "ON"}))
        run.send(InvocationFinished(case=on, repeat=0, turn=0, result=make.turn_result(result)))
        await screen.until("The stove is on.", '"stove"')

        run.finish(make.result(on, CaseStatus.FAILED, result))
        await screen.until("✗ FAILED", "1/3", "✗1", "20 tokens", "< 1.00")


async def test_x_cancels_the_run_and_keeps_finished_results(open_fake_app: Any, lights: Any, make: Any) -> None:
    async with open_fake_app(lights) as screen:
        await screen.until("两盏灯")
        await screen.press("R")
        await screen.until("x stop")
        run = lights.started_runs[0]
        run.begin()
        run.finish(make.result(make.key("on"), CaseStatus.PASSED))
        await screen.until("✓1")

        await screen.press("x")

        await screen.until("cancelled", "✓ on", "○ off")
        assert run.cancelled
        assert not screen.state.is_running
        await screen.until_gone("x stop")


async def test_f_runs_failed_cases_and_n_and_p_select_them(open_fake_app: Any, lights: Any, make: Any) -> None:
    statuses = {"on": CaseStatus.PASSED, "off": CaseStatus.FAILED, "两盏灯": CaseStatus.ERROR}
    lights.stored_results = {make.key(name): [make.result(make.key(name), status)] for name, status in statuses.items()}
    async with open_fake_app(lights) as screen:
        await screen.until("✗ off", "n next")

        await screen.press("n")
        await screen.until("FAILED", "off · lights")
        await screen.press("n")
        await screen.until("! ERROR", "it broke here", "ValueError: no")
        await screen.press("p")
        await screen.until("off · lights")
        await screen.press("f")
        await screen.until("running")

    assert lights.requested_runs == [[Selection(eval_set=SET, cases=("off", "两盏灯"))]]


async def test_results_of_earlier_sessions_are_marked_as_stored(open_fake_app: Any, lights: Any, make: Any) -> None:
    lights.stored_results = {
        make.key("on"): [make.result(make.key("on"), CaseStatus.PASSED, make.turn("Turn on", "It is on"))]
    }
    async with open_fake_app(lights) as screen:
        await screen.until("250 ms")
        await screen.press("j", "j")
        await screen.until("✓ PASSED · on · lights", "250 ms, stored 2026-01-01", "It is on")


async def test_repeats_show_how_many_passed_and_the_failed_one(open_fake_app: Any, lights: Any, make: Any) -> None:
    on = make.key("on")
    lights.repeats = 2
    async with open_fake_app(lights) as screen:
        await screen.until("两盏灯")
        await screen.press("j", "j", "r")
        await screen.until("0/2")
        lights.started_runs[0].begin()
        lights.started_runs[0].finish(make.result(on, CaseStatus.PASSED, make.turn("Turn on", "good")))
        lights.started_runs[0].finish(make.result(on, CaseStatus.FAILED, make.turn("Turn on", "bad"), repeat=1))
        lights.started_runs[0].end()

        await screen.until("repeat 2 of 2, 1 passed", "bad", "1/2")


async def test_markup_in_external_text_is_shown_literally(open_fake_app: Any, backend: Any, make: Any) -> None:
    nasty = "x [/foo] [bold]\x1b[31m\x9b2J"
    backend.problems = (f"problem {nasty}",)
    backend.targets = {nasty: (("path", nasty),)}
    backend.add(
        make.case(nasty, make.turn(nasty, nasty, (nasty, {nasty: nasty}))), eval_set=f"{nasty}.json", target=nasty
    )
    key = next(iter(backend.cases))
    backend.stored_results = {key: [make.result(key, CaseStatus.ERROR, make.turn(nasty, nasty), stdout=nasty)]}
    shown = "x [/foo] [bold]␛[31m\\x9b2J"
    async with open_fake_app(backend, size=(200, 50)) as screen:
        await screen.until(f"problem {shown}")
        await screen.press("n")
        await screen.until(f"user  {shown}", "stdout, its end", f"! {shown}")
        backend.refuses_to_start = PlanError(f"refused {nasty}")
        await screen.press("r")
        await screen.until(f"refused {shown}")
        await screen.press("ctrl+p", *"run every")
        await screen.until("run every case that is listed")
        await screen.press("escape")
        assert "\x1b" not in screen.text
        assert "\x9b" not in screen.text


async def test_a_notice_of_the_run_is_shown(open_fake_app: Any, lights: Any) -> None:
    async with open_fake_app(lights) as screen:
        await screen.until("两盏灯")
        await screen.press("R")
        await screen.until("0/3")

        lights.started_runs[0].send(Notice(message="no criteria [in] sets; using the default ones", severity="warning"))

        await screen.until("no criteria [in] sets")


async def test_a_refused_run_says_why_and_changes_nothing(open_fake_app: Any, lights: Any) -> None:
    lights.refuses_to_start = PlanError("criteria.tool_trajectory: no such metric")
    async with open_fake_app(lights) as screen:
        await screen.until("两盏灯")

        await screen.press("R")

        await screen.until("criteria.tool_trajectory: no such metric", "○ on")
        assert not screen.state.is_busy


async def test_an_empty_project_says_what_was_searched_and_what_to_do(open_fake_app: Any, backend: Any) -> None:
    async with open_fake_app(backend, size=(80, 24)) as screen:
        text = await screen.until("No eval sets were found.", "*.evalset.json", "workbench demo")

        assert "/project" in text
        assert "home" in text
        assert "6 talk to the agent  ctrl+n new eval set" in text
        assert "talk to the agent:  6, saved by ctrl+o" in text


async def test_an_empty_list_says_that_nothing_is_there_or_matches(open_fake_app: Any, backend: Any) -> None:
    backend.targets = {}
    async with open_fake_app(backend) as screen:
        await screen.until("none yet; ctrl+n adds one", "looked in")


async def test_a_list_without_a_match_says_so(open_fake_app: Any, lights: Any) -> None:
    async with open_fake_app(lights) as screen:
        await screen.until("两盏灯")
        await screen.press("/", *"zzz")
        await screen.until(" no match", "No case")


async def test_a_broken_set_shows_its_problem_and_an_unpaired_one_what_to_do(open_fake_app: Any, lights: Any) -> None:
    broken, lost = "sets/broken.evalset.json", "lost.evalset.json"
    lights.sets[broken] = ListedSet(broken, "home", problem=f"{broken}:12:7: found null, expected a list")
    lights.sets[lost] = ListedSet(lost, cases=(), pairing_problem="no folder with an agent above it")
    async with open_fake_app(lights) as screen:
        await screen.until("broken", "no agent")
        await screen.press(*["j"] * 5)
        await screen.until("sets/broken.evalset.json:12:7: found null, expected a list")
        await screen.press("G")
        await screen.until("no folder with an agent above it", "[targets.NAME]")
        assert screen.app.screen.check_action("run_selected", ()) is None
        await screen.press("r")

    assert lights.requested_runs == []


async def test_duplicate_ids_are_shown_with_the_problem(open_fake_app: Any, backend: Any, make: Any) -> None:
    backend.add(make.case("twin", make.turn("Hi", "Hello")))
    twins = tuple(make_case_row(make.key("twin", occurrence=n), "duplicate id (2 times in this file)") for n in (0, 1))
    backend.sets[SET] = ListedSet(SET, "home", twins)
    async with open_fake_app(backend) as screen:
        await screen.until("! twin", "! twin #2", "broken")
        await screen.press("j")
        await screen.until("2 of its cases cannot run", "duplicate id (2 times in this file)")


async def test_moving_through_ten_thousand_cases_draws_only_visible_rows(
    open_fake_app: Any, backend: Any, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.add(*(make.case(f"case_{n:05}", make.turn(f"prompt {n}", "done")) for n in range(10_000)))
    drawn_rows: list[int] = []
    render_line = CaseList.render_line
    monkeypatch.setattr(CaseList, "render_line", lambda self, y: drawn_rows.append(y) or render_line(self, y))
    async with open_fake_app(backend) as screen:
        await screen.until("case_00003", "10,000 cases")

        await screen.press("G")
        await screen.until("case_09999", "prompt 9999")
        drawn_rows.clear()
        await screen.press("k")
        await screen.until("prompt 9998")
        assert len(drawn_rows) < 300

        await screen.press("pageup", "g", "left")
        await screen.until_gone("case_00003")
        await screen.press("enter", "j", "h")
        assert len(screen.state.browser.rows) == 2


async def test_expected_and_actual_are_below_each_other_on_a_narrow_screen(
    open_fake_app: Any, lights: Any, make: Any
) -> None:
    result = make.turn("Turn on the lamp", "No.", ("set_device", {"id": "stove", "status": "ON"}))
    lights.stored_results = {make.key("on"): [make.result(make.key("on"), CaseStatus.FAILED, result)]}
    async with open_fake_app(lights, size=(80, 24)) as screen:
        await screen.until("250 ms")
        await screen.press("n")
        text = await screen.until('-   id  "lamp"', '+   id  "stove"', "- EXPECTED  + ACTUAL")
        lines = text.splitlines()
        assert next(i for i, line in enumerate(lines) if '"lamp"' in line) + 1 == next(
            i for i, line in enumerate(lines) if '"stove"' in line
        )

        await screen.pilot.resize_terminal(120, 30)
        await screen.until("  EXPECTED", "│   ACTUAL")


async def test_a_long_case_scrolls_in_its_pane(open_fake_app: Any, backend: Any, make: Any) -> None:
    backend.add(make.case("long", *(make.turn(f"prompt {n}", "word " * 40) for n in range(30))))
    async with open_fake_app(backend) as screen:
        await screen.until("long")
        await screen.press("j", "j")
        await screen.until("prompt 0")

        await screen.press("enter", "G")
        await screen.until("prompt 29")
        assert isinstance(screen.app.focused, LinesView)
        await screen.press("g")
        await screen.until("prompt 0")
        await screen.press("escape")
        assert isinstance(screen.app.focused, CaseList)


async def test_quitting_asks_only_during_a_run(open_fake_app: Any, lights: Any) -> None:
    async with open_fake_app(lights) as screen:
        await screen.until("两盏灯")
        await screen.press("R")
        await screen.until("running")

        await screen.press("q")
        await screen.until("Stop it and quit?")
        await screen.press("n")
        await screen.until_gone("Stop it and quit?")
        await screen.press("q", "y")

        assert screen.app._exit

    async with open_fake_app(lights) as screen:
        await screen.until("两盏灯")
        await screen.press("q")
        assert screen.app._exit


async def test_help_names_every_key_and_symbol(open_fake_app: Any, lights: Any) -> None:
    async with open_fake_app(lights, size=(120, 80), settings=Settings(keys={"run_case": "ctrl+b"})) as screen:
        await screen.until("两盏灯")
        await screen.press("question_mark")
        await screen.until("In the eval sets", "ctrl+b", "ask the agents' models again")
        await screen.press("G")
        await screen.until("not evaluated", "run_failed")
        await screen.press("escape")
        await screen.until_gone("What the symbols mean")


async def test_keys_of_the_settings_replace_the_default_ones(open_fake_app: Any, lights: Any) -> None:
    async with open_fake_app(lights, settings=Settings(keys={"run_all": "ctrl+a", "run_cse": "z"})) as screen:
        await screen.until("两盏灯", "run_cse: no such action; did you mean 'run_case'?")

        await screen.press("R")
        assert lights.requested_runs == []
        await screen.press("ctrl+a")
        await screen.until("running")

    assert lights.requested_runs == [[Selection(eval_set=SET)]]


async def test_a_filter_lists_only_the_cases_that_have_the_text_in_their_id(open_fake_app: Any, lights: Any) -> None:
    async with open_fake_app(lights) as screen:
        await screen.until("两盏灯")

        await screen.press("slash", "O", "f")
        await screen.until("filter", "○ off")
        await screen.until_gone("○ on")
        await screen.press("enter", "G", "slash", "escape")
        await screen.until("○ on", "两盏灯")
        assert isinstance(screen.app.focused, CaseList)
        await screen.until("off · lights")


async def test_a_filter_without_matches_says_so(open_fake_app: Any, lights: Any) -> None:
    async with open_fake_app(lights) as screen:
        await screen.until("两盏灯")

        await screen.press("slash", "z", "q")

        await screen.until("filter: zq", 'No case has "zq" in its id')


async def test_with_a_filter_r_runs_and_n_finds_only_listed_cases(open_fake_app: Any, lights: Any, make: Any) -> None:
    lights.stored_results = {make.key(name): [make.result(make.key(name), CaseStatus.FAILED)] for name in ("on", "off")}
    async with open_fake_app(lights) as screen:
        await screen.until("✗ on", "✗ off")

        await screen.press("slash", "f", "enter", "n", "n")
        await screen.until("✗ FAILED · off")
        await screen.press("g", "r")
        await screen.until("running")

    assert lights.requested_runs == [[Selection(eval_set=SET, cases=("off",))]]


async def test_the_footer_names_only_the_keys_that_the_filter_line_handles(open_fake_app: Any, lights: Any) -> None:
    async with open_fake_app(lights) as screen:
        await screen.until("r run", "/ filter")

        await screen.press("slash")

        await screen.until("⏎ done", "esc list all")
        await screen.until_gone("/ filter")


async def test_an_informational_notice_is_shown_once_per_session(open_fake_app: Any, lights: Any) -> None:
    async with open_fake_app(lights) as screen:
        await screen.until("两盏灯")
        notice = "the default criteria are used"
        for number, expected in enumerate(([("again", 1), (notice, 1)], [("again", 2), (notice, 1)])):
            await screen.press("R")
            await screen.until("x stop")
            run = lights.started_runs[number]
            run.begin()
            run.send(Notice(message=notice), Notice(message="again", severity="warning"))
            run.end()
            await screen.until("finished")
            await wait_for_notification(screen, "again", times=expected[0][1])
            shown = [(message.text, message.times) for message in screen.state.problems.messages]
            assert shown == expected


async def test_reloading_shows_added_cases(open_fake_app: Any, lights: Any, make: Any) -> None:
    async with open_fake_app(lights) as screen:
        await screen.until("两盏灯")
        lights.add(make.case("fresh", make.turn("Hi", "Hello")), eval_set="sets/new.evalset.json")

        await screen.press("f5")

        await screen.until("fresh", "2 eval sets · 4 cases")


async def test_a_click_selects_and_a_click_on_the_mark_folds(open_fake_app: Any, lights: Any) -> None:
    async with open_fake_app(lights) as screen:
        await screen.until("两盏灯")
        await screen.pilot.click(CaseList, offset=(9, 2))
        await screen.until("on · lights")

        await screen.pilot.click(CaseList, offset=(2, 1))

        await screen.until_gone("两盏灯")


async def test_a_project_that_cannot_be_opened_ends_the_application_with_the_reason(
    open_fake_app: Any, backend: Any
) -> None:
    backend.refuses_to_open = StoreError(Path("workbench.toml"), "not TOML", line=3, column=1)
    async with open_fake_app(backend) as screen:
        for _ in range(50):
            if screen.app.refusal is not None:
                break
            await screen.pilot.pause(0.02)

        assert screen.app.refusal == "workbench.toml:3:1: not TOML"
        assert screen.app.return_code == 2


async def test_a_title_that_does_not_fit_loses_its_set_and_then_the_middle_of_its_name(
    backend: Any, make: Any, open_fake_app: Any
) -> None:
    backend.add(make.case("a_rather_long_name_of_a_case", make.turn("Hi", "Hello")))
    async with open_fake_app(backend) as screen:
        await screen.press("j", "j")
        await screen.until("○ NOT RUN · a_rather_long_name_of_a_case · lights ─")

        await screen.pilot.resize_terminal(80, 24)
        await screen.until("○ NOT RUN · a_rather_long_name_of_a_case ─")

        await screen.press("2")
        await screen.pilot.resize_terminal(40, 10)
        await screen.until("─○ NOT RUN · a_rather…ame_of_a_case─")
