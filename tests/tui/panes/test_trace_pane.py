"""The trace on the screen: every key, every kind of session, any content."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.tui.state.spans import span, turn_result
from workbench.model.identity import CaseKey
from workbench.model.results import CaseResult, CaseStatus, Execution, Failure, FailureKind, TurnResult
from workbench.model.trace import Span, SpanKind
from workbench.tui.panes.trace_pane import DetailTabs, DetailView, SearchInput, SpanList, TracePane
from workbench.tui.screen_context import SessionWanted
from workbench.tui.state.browser_state import PinnedResult
from workbench.tui.state.trace_tree import SpanNode

SAMPLES = Path(__file__).parents[3] / "sample_agents"


def make_case(eval_id: str, *prompts: str) -> dict[str, Any]:
    """Return a case as an eval set stores it."""
    turns = [{"user_content": {"parts": [{"text": prompt}]}} for prompt in prompts]
    return {"eval_id": eval_id, "conversation": turns}


def pin_session(spans: Sequence[Span], *turns: TurnResult, failure: Failure | None = None) -> SessionWanted:
    """Return spans as those of a session that was never saved."""
    result = CaseResult(
        case=CaseKey(target="pinger", eval_set="s.evalset.json", eval_id="chat"),
        eval_set_id="s",
        status=CaseStatus.NOT_EVALUATED,
        failure=failure,
        execution=Execution(turns=turns, spans=tuple(spans)),
    )
    return SessionWanted(PinnedResult("a chat", None, result), tab="trace")


LIGHTS = (
    span("root", at=(0.0, 1.0), kind=SpanKind.AGENT),
    span("ask", "root", at=(0.0, 0.25), kind=SpanKind.MODEL, request={"house": {"room": "Kitchen"}}),
    span("set", "root", at=(0.25, 0.3), kind=SpanKind.TOOL, error="ValueError: x [/foo]"),
    span("tell", "root", at=(0.3, 1.0), kind=SpanKind.MODEL, response={"note": "a kitchen\nwith light"}),
    span("later", turn=1, kind=SpanKind.AGENT, error="late"),
)


@pytest.fixture
def project(make_project: Callable[..., Path]) -> Path:
    """Create two cases; the agent fails in one."""
    return make_project(s=[make_case("fine", "hello", "again"), make_case("broken", "raise")])


async def show_session(screen: Any, wanted: SessionWanted) -> TracePane:
    """Show a session in the trace, with the focus in its tree."""
    await screen.until("fine")
    screen.app.screen_stack[0].post_message(wanted)
    await screen.until("a chat")
    pane: TracePane = screen.app.screen.query_one(TracePane)
    while not pane.is_mounted:
        await screen.pilot.pause()
    pane.focus_first()
    await screen.pilot.pause()
    return pane


def get_selected_node(screen: Any) -> str:
    """Return the node under the cursor of the tree."""
    row = screen.app.screen.query_one(SpanList).source.selected_row
    return row.span.name if isinstance(row, SpanNode) else f"turn {row.index + 1}"


def get_open_tab(screen: Any) -> str:
    """Return the name of the open tab of the detail."""
    tabs = screen.app.screen.query_one(DetailTabs)
    return tabs.list_labels()[tabs.open_index or 0].strip()


async def wait_for_tab(screen: Any, tab: str, *wanted: str) -> None:
    """Wait until a tab of the detail is open and shows these texts."""
    for _ in range(3000):
        if get_open_tab(screen) == tab:
            break
        await screen.pilot.pause(0.02)
    assert get_open_tab(screen) == tab
    await screen.until(*wanted)


async def test_a_run_shows_the_steps_of_its_case_by_user_message(project: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(project) as screen:
        await screen.until("fine")
        await screen.press("j", "j", "3")
        await screen.until("The case has not run", "r runs it")
        await screen.press("r")
        await screen.until(
            "2 turns · 4 steps", "turn 1 user hello", "turn 2 user again", "ƒ ping(n=1) »", "no times reported"
        )
        await screen.until("bars: turn 1", "├0")
        assert "▸ user: hello    agent: pong [/b]" in screen.text


async def test_a_failed_turn_shows_its_steps_and_the_error(project: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(project) as screen:
        await screen.until("broken")
        await screen.press("G", "3", "r")
        await screen.until("turn 1 ! 1 user raise", "! ◆ answer")
        screen.app.screen.query_one(TracePane).focus_first()
        await screen.press("full_stop")
        await screen.until("error       ! ValueError")


async def test_steps_arrive_while_the_case_runs_and_the_cursor_stays(
    make_project: Callable[..., Path], open_app: Callable[..., Any]
) -> None:
    agent = """
    import pathlib, time
    def answer(prompt):
        while prompt == "wait" and not pathlib.Path("go").exists():
            time.sleep(0.01)
        return {"response": prompt, "predicted_trajectory": [{"tool_name": "ping", "tool_input": {}}]}
    """
    import textwrap

    path = make_project(agent=textwrap.dedent(agent), s=[make_case("slow", "first", "wait", "third")])
    async with open_app(path) as screen:
        await screen.until("slow")
        await screen.press("G", "3", "r")
        await screen.until("turn 1 user first", "1 turn · 2 steps")
        screen.app.screen.query_one(TracePane).focus_first()
        await screen.press("j", "j", "d")
        assert get_selected_node(screen) == "ping"

        (path / "go").touch()

        await screen.until("3 turns · 6 steps", "turn 3 user third")
        assert get_selected_node(screen) == "ping" and get_open_tab(screen) == "Request"


async def test_a_stored_run_shows_its_steps_in_a_later_session(project: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(project) as screen:
        await screen.until("fine")
        await screen.press("j", "j", "r")
        await screen.until("1/1")
    async with open_app(project) as screen:
        await screen.until("✗ fine")
        await screen.press("j", "j", "3")
        await screen.until("2 turns · 4 steps", "ƒ ping(n=1) »")


async def test_keys_of_the_tree_fold_and_unfold(project: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(project) as screen:
        await show_session(screen, pin_session(LIGHTS, turn_result("light on", "done")))
        await screen.press("j", "h")
        await screen.until("+3, 1 error")
        await screen.press("right")
        await screen.until_gone("+3")
        await screen.press("l")
        assert get_selected_node(screen) == "ask"
        await screen.press("left")
        assert get_selected_node(screen) == "root"
        await screen.press("H")
        await screen.until_gone("◆ root")
        await screen.press("L")
        await screen.until("✦ tell")
        await screen.press("G")
        assert get_selected_node(screen) == "later"


async def test_keys_jump_to_errors_and_the_slowest_and_filter(project: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(project) as screen:
        await show_session(screen, pin_session(LIGHTS, turn_result("light on", "done")))
        for key, name in [("full_stop", "set"), ("full_stop", "later"), ("semicolon", "set"), ("m", "tell")]:
            await screen.press(key)
            assert get_selected_node(screen) == name
        await screen.press("i")
        await screen.until("only errors", "ƒ set in root")
        await screen.press("i")
        await screen.until_gone("only errors")
        await screen.press("K")
        await screen.until("only agents")
        await screen.press("K", "K", "K")
        await screen.until_gone("only tool calls")
        await screen.press("b")
        await screen.until("bars: session")


async def test_jumps_without_a_target_say_so(project: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(project) as screen:
        await show_session(screen, pin_session([span("alone")]))
        await screen.press("full_stop")
        await screen.until("no step of this session has an error")
        await screen.press("m")
        await screen.until("there are no two steps with times to compare")
        await screen.press(">")
        await screen.until("/ searches a text")


async def test_the_open_tab_of_the_detail_stays_from_step_to_step(project: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(project) as screen:
        await show_session(screen, pin_session(LIGHTS, turn_result("light on", "done")))
        await screen.press("j", "j", "d")
        await wait_for_tab(screen, "Request", 'room: "Kitchen"')
        await screen.press("d", "j", "j")
        await wait_for_tab(screen, "Response", "│ a kitchen", "│ with light")
        await screen.press("d")
        await wait_for_tab(screen, "Graph", "┃ ◆ root", "call path", "◀ selected")
        await screen.press("D", "D", "D")
        await wait_for_tab(screen, "Event", "kind        model call")
        await screen.pilot.click("DetailTabs", offset=(10, 0))
        await wait_for_tab(screen, "Request")


async def test_the_detail_can_be_scrolled_and_folded_by_keys_and_mouse(
    project: Path, open_app: Callable[..., Any]
) -> None:
    async with open_app(project) as screen:
        await show_session(screen, pin_session(LIGHTS, turn_result("light on", "done")))
        await screen.press("j", "j", "d", "enter")
        view = screen.app.screen.query_one(DetailView)
        assert view.has_focus
        await screen.press("j", "h")
        await screen.until("▸ house: {1}")
        await screen.press("l")
        await screen.until('room: "Kitchen"')
        await screen.pilot.click(DetailView, offset=(2, 0), times=2)
        await screen.until("▸ house: {1}")
        await screen.press("G", "g", "pagedown", "pageup", "k", "l")
        await screen.until('room: "Kitchen"')


async def test_a_search_finds_names_requests_and_responses_and_shows_where(
    project: Path, open_app: Callable[..., Any]
) -> None:
    async with open_app(project) as screen:
        await show_session(screen, pin_session(LIGHTS, turn_result("light on", "done")))
        await screen.press("H", "slash", *"kitchen")
        await screen.until("“kitchen”: 2 steps")
        await screen.press("enter")
        await wait_for_tab(screen, "Request", "“kitchen”: 1 of 2 steps", 'room: "Kitchen"')
        assert get_selected_node(screen) == "ask"
        await screen.press(">")
        await wait_for_tab(screen, "Response", "2 of 2 steps", "a kitchen")
        await screen.press("<")
        await screen.until("1 of 2 steps")
        await screen.press("slash", "escape")
        await screen.until_gone("“kitchen”")
        assert not screen.app.screen.query_one(SearchInput).display
        assert screen.app.screen.query_one(SpanList).has_focus
        await screen.press("slash", *"kitchen", "enter")
        await screen.until("“kitchen”: 1 of 2 steps")
        await screen.press("tab", "escape")
        await screen.until_gone("“kitchen”")
        assert screen.app.screen.query_one(SpanList).has_focus
        await screen.press("escape")


async def test_the_input_of_a_search_stays_while_its_case_runs_again_or_is_gone(
    make_project: Callable[..., Path], open_app: Callable[..., Any]
) -> None:
    wait = "import os, time\ndef answer(prompt):\n    while os.path.exists('hold'):\n        time.sleep(0.01)\n"
    path = make_project(agent=f"{wait}    return 'x'\n", s=[make_case("one", "hi"), make_case("two", "ho")])
    async with open_app(path) as screen:
        await screen.until("two")
        await screen.press("down", "down", "3", "r")
        await screen.until("turn 1 user hi")
        await screen.press("slash", "p")
        (path / "hold").touch()
        screen.app.screen.action_run_selected()
        await screen.until("RUNNING · one")
        await screen.press("X", "D")
        await screen.until("pXD", "turn 1 user hi")
        (path / "hold").unlink()
        await screen.until("NOT EVALUATED · one")
        data = {"eval_set_id": "s", "eval_cases": [make_case("two", "ho")]}
        (path / "s.evalset.json").write_text(json.dumps(data))
        await screen.until("1 case ")
        await screen.press("D")
        await screen.until("pXDD", "NOT EVALUATED · one")
        await screen.press("escape")
        await screen.until("NOT RUN · two")


async def test_a_search_without_matches_is_reported(project: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(project) as screen:
        await show_session(screen, pin_session(LIGHTS))
        await screen.press("slash", *"[/b]", "enter")
        await screen.until("no match: [/b]")
        screen.app.clear_notifications()  # the message covers the search
        await screen.until("“[/b]”: nothing")


async def test_keys_change_the_sizes_of_tree_and_detail(project: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(project) as screen:
        await show_session(screen, pin_session(LIGHTS))
        tree = screen.app.screen.query_one(SpanList)
        before = tree.size.height
        await screen.press("ctrl+down")
        await screen.pilot.pause()
        assert tree.size.height > before
        await screen.press("ctrl+up", "ctrl+up")
        await screen.pilot.pause()
        assert tree.size.height < before


async def test_a_wide_pane_has_tree_and_detail_side_by_side(project: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(project, size=(200, 60)) as screen:
        await show_session(screen, pin_session(LIGHTS))
        await screen.pilot.pause()
        tree, detail = screen.app.screen.query_one(SpanList), screen.app.screen.query_one(DetailView)
        assert tree.region.right <= detail.region.x and detail.region.y < tree.region.bottom
        await screen.until("├0")


async def test_a_small_screen_has_room_for_tree_and_detail(project: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(project, size=(80, 24)) as screen:
        await show_session(screen, pin_session(LIGHTS, turn_result("light on", "done")))
        await screen.press("j", "j")
        await screen.until("✦ ask", "kind        model call")


@pytest.mark.parametrize("key", ["y"])
async def test_copying_takes_the_selected_step_or_the_text_of_the_detail(
    project: Path, open_app: Callable[..., Any], key: str
) -> None:
    async with open_app(project) as screen:
        await show_session(screen, pin_session(LIGHTS, turn_result("light on", "done")))
        await screen.press("j", "j", key)
        assert '"name": "ask"' in screen.app.clipboard
        await screen.press("d", "enter", key)
        assert screen.app.clipboard == '{\n  "house": {\n    "room": "Kitchen"\n  }\n}'


async def test_a_session_without_steps_says_why(project: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(project) as screen:
        pane = await show_session(screen, pin_session([], turn_result("hi", "ho")))
        await screen.until("There are no steps of this execution.", "five newest")
        assert pane.copyable() is None
        failure = Failure(kind=FailureKind.SETUP, message="no [/such] module\x1b")
        screen.app.screen_stack[0].post_message(pin_session([], failure=failure))
        await screen.until("ended before its first step", "! no [/such] module␛")
        screen.app.screen_stack[0].post_message(pin_session(LIGHTS))
        await screen.until("✦ ask")
        assert screen.app.screen.query_one(SpanList).has_focus


async def test_only_a_case_has_a_trace(project: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(project) as screen:
        await screen.until("fine")
        await screen.press("j", "3")
        await screen.until("file", "s.evalset.json")


NASTY = "x [/foo] [bold] \x1b[31m \u202e\u0627\u0644 e\u0301\u0301 \U0001f468\u200d\U0001f469\u200d\U0001f467 漢字\ttab"


async def test_markup_in_texts_of_the_agent_has_no_effect(project: Path, open_app: Callable[..., Any]) -> None:
    value = {NASTY: NASTY, "long": NASTY * 20_000, "lines": f"{NASTY}\r\n{NASTY}"}
    spans = [
        span(NASTY, at=(0.0, 1.0), kind=SpanKind.AGENT, request=value, response=value, error=NASTY, attributes=value),
        span(f"{NASTY}2", NASTY, kind=SpanKind.TOOL, attributes={"agents": {NASTY: {"tools": [NASTY]}}}),
    ]
    async with open_app(project) as screen:
        await show_session(screen, pin_session(spans, turn_result(NASTY, NASTY)))
        await screen.press("j")
        for tab in ("Event", "Request", "Response", "Graph"):
            await wait_for_tab(screen, tab, "[/foo] [bold]")
            assert "\x1b[31m" not in screen.text and "\u202e" not in screen.text
            await screen.press("d")
        await screen.press("slash", *"[/foo]", "enter")
        await screen.until("“[/foo]”:")


@pytest.mark.needs_adk
async def test_an_adk_agent_shows_runs_models_tools_and_its_graph(tmp_path: Path, open_app: Callable[..., Any]) -> None:
    shutil.copytree(
        SAMPLES / "hello_world_adk", tmp_path / "hello_world_adk", ignore=shutil.ignore_patterns("__pycache__")
    )
    for case_file in (tmp_path / "hello_world_adk").glob("*.json"):
        if case_file.name not in ("roll_die.test.json", "test_config.json"):
            case_file.unlink()
    settings = '[targets.dice]\nkind = "adk"\ntarget = "hello_world_adk"\neval_sets = ["hello_world_adk/*.test.json"]\n'
    (tmp_path / "workbench.toml").write_text(settings, encoding="utf-8")
    async with open_app(tmp_path) as screen:
        await screen.until("roll_die")
        await screen.press("R", "G", "3")
        await screen.until("◎ invocation", "◆ hello_world_adk", "✦ script »", "ƒ roll_die(sides=")
        screen.app.screen.query_one(TracePane).focus_first()
        await screen.press("D")
        await wait_for_tab(screen, "Graph", "┃ ◆ hello_world_adk", "◆ prime_checker", "ƒ check_prime", "call path")


async def test_accepting_is_offered_for_the_trace_of_a_case_but_not_of_a_chat(
    project: Path, open_app: Callable[..., Any]
) -> None:
    async with open_app(project, size=(200, 42)) as screen:
        await screen.until("fine")
        await screen.press("j", "j", "r")
        await screen.until("✗ fine", "finished")
        await screen.press("3")
        await screen.until("fine · s", "a accept")

        screen.app.screen_stack[0].post_message(pin_session(LIGHTS))
        await screen.until("a chat")
        await screen.until_gone("a accept")
        await screen.press("escape")
        await screen.until("a accept")
