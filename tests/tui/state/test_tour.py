"""The steps of the tour: when each is done, and what the panel says."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from workbench.model.identity import JobKey
from workbench.model.results import CaseStatus
from workbench.tui.keys import find_first_key
from workbench.tui.state import tour
from workbench.tui.state.browser_list import ListedSet, make_case_row
from workbench.tui.state.case_status import CaseState
from workbench.tui.state.project_state import ProjectState
from workbench.tui.state.tour import STEPS, Rerun, Tour, TourChange, View
from workbench.tui.state.watch_state import SeenChange, WatchMode
from workbench.watch.watch_events import ChangeSeen

SAMPLES = Path(__file__).parents[3] / "sample_agents"
FAILED, PASSED, RUNNING = CaseState.FAILED, CaseState.PASSED, CaseState.RUNNING
RUN = {"device_off": PASSED, tour.WRONG_AGENT: FAILED, tour.WRONG_CASE: FAILED}
ACCEPTED = {**RUN, tour.WRONG_CASE: PASSED}

NEW = View(states=dict.fromkeys(RUN, CaseState.NOT_RUN))
ON_SET = replace(NEW, selected=(tour.EVAL_SET, None), tab="diff")
AFTER_RUN = replace(ON_SET, states=RUN)
ON_CASE = replace(AFTER_RUN, selected=(tour.EVAL_SET, tour.WRONG_CASE))
AFTER_ACCEPT = replace(ON_CASE, states=ACCEPTED, saved_at=1)
WATCHED = replace(AFTER_ACCEPT, watch=WatchMode.ON)
CHANGED = replace(WATCHED, change=TourChange(75, is_new=True))


def format_panel(here: Tour, view: View, *, width: int = 78, **keys: str) -> str:
    lines = here.format(view, width=width, find_key=partial(find_first_key, keymap=keys))
    return "\n".join("".join(piece.text for piece in line).rstrip() for line in lines)


@pytest.mark.parametrize(
    ("name", "begin", "not_yet", "done"),
    [
        ("move", NEW, replace(NEW, selected=("other.evalset.json", "a")), ON_SET),
        ("run", ON_SET, replace(ON_SET, states={**RUN, "device_off": RUNNING}), AFTER_RUN),
        ("read", AFTER_RUN, replace(ON_CASE, tab="case"), ON_CASE),
        ("accept", ON_CASE, replace(ON_CASE, saved_at=1), AFTER_ACCEPT),
        ("accept", ON_CASE, replace(ON_CASE, states=ACCEPTED), replace(AFTER_ACCEPT, saved_at=0, is_edited=True)),
        (
            "edit",
            AFTER_ACCEPT,
            replace(AFTER_ACCEPT, is_edited=True, stale=frozenset([tour.WRONG_CASE])),
            replace(AFTER_ACCEPT, saved_at=2),
        ),
        ("watch", AFTER_ACCEPT, replace(AFTER_ACCEPT, watch=WatchMode.STARTING), WATCHED),
        ("rerun", WATCHED, CHANGED, replace(CHANGED, rerun=Rerun(2, 0.4))),
        (
            "rerun",
            WATCHED,
            replace(WATCHED, rerun=Rerun(2, 0.4)),
            replace(WATCHED, change=TourChange(75, is_new=False)),
        ),
        ("trace", WATCHED, replace(WATCHED, tab="trace", selected=("", None)), replace(WATCHED, tab="trace")),
    ],
)
def test_a_step_is_done_when_the_screen_shows_its_result(name: str, begin: View, not_yet: View, done: View) -> None:
    here = Tour(name)
    names = [step.name for step in STEPS]

    here.observe(begin)
    here.observe(not_yet)
    assert here.name == name

    here.observe(done)
    assert here.name == names[names.index(name) + 1]


def test_an_edit_that_was_saved_in_an_earlier_session_is_done_after_a_run() -> None:
    here = Tour("edit")

    here.observe(replace(AFTER_ACCEPT, stale=frozenset([tour.WRONG_CASE])))
    here.observe(AFTER_ACCEPT)

    assert here.name == "watch"


@pytest.mark.parametrize("is_edited", [False, True])
def test_the_save_of_the_step_before_is_no_edit(is_edited: bool) -> None:
    here = Tour("edit")

    here.observe(replace(AFTER_ACCEPT, is_edited=is_edited))
    here.observe(replace(AFTER_ACCEPT, saved_at=2))

    assert here.name == "edit"


def test_a_verdict_that_the_save_of_the_step_before_makes_stale_is_no_edit() -> None:
    here = Tour("undo")
    undone = replace(AFTER_ACCEPT, states=RUN)
    for view in (AFTER_ACCEPT, undone, AFTER_ACCEPT):
        here.observe(view)
    assert here.name == "edit"

    for view in (
        replace(AFTER_ACCEPT, saved_at=3, stale=frozenset([tour.WRONG_CASE])),
        replace(AFTER_ACCEPT, saved_at=3),
    ):
        here.observe(view)
    assert here.name == "edit"


def test_an_edit_is_not_done_between_typing_and_its_place_in_the_case() -> None:
    """The save of the step before may come after the begin of this one."""
    here = Tour("edit")
    saved = replace(AFTER_ACCEPT, saved_at=3)

    for view in (AFTER_ACCEPT, saved, replace(saved, is_typing=True), saved):
        here.observe(view)
    assert here.name == "edit"

    for view in (replace(saved, is_edited=True), replace(saved, saved_at=4)):
        here.observe(view)
    assert here.name == "watch"


def test_an_edit_that_was_undone_is_not_done() -> None:
    here = Tour("edit")

    for view in (AFTER_ACCEPT, replace(AFTER_ACCEPT, is_edited=True, stale=frozenset(["a"])), AFTER_ACCEPT):
        here.observe(view)

    assert here.name == "edit"


def test_undo_is_done_after_the_case_failed_again_and_passed_again() -> None:
    here = Tour("undo")

    here.observe(AFTER_ACCEPT)
    assert "Press u to undo" in format_panel(here, AFTER_ACCEPT)
    here.observe(ON_CASE)
    assert "Press U to redo" in format_panel(here, ON_CASE)
    here.observe(AFTER_ACCEPT)

    assert here.name == "edit"


def test_the_tour_is_over_after_both_dialogs_were_open() -> None:
    here = Tour("find")

    for dialog, expected in (("", "ctrl+p"), ("palette", "escape"), ("", "?"), ("help", "escape"), ("", "over")):
        view = replace(WATCHED, dialog=dialog)
        here.observe(view)
        assert expected in format_panel(here, view).partition("\n")[2] or expected == here.name

    assert here.step is None
    assert "the tour is over" in format_panel(here, WATCHED)
    assert "skip" not in format_panel(here, WATCHED)


def test_each_step_can_be_skipped_and_the_last_one_ends_the_tour() -> None:
    here = Tour()

    for number, step in enumerate(STEPS, 1):
        assert here.step is step
        assert f"step {number} of {len(STEPS)}" in format_panel(here, NEW)
        here.skip()

    assert here.step is None
    here.skip()
    assert here.step is None


def test_a_tour_continues_at_a_known_step_and_otherwise_begins() -> None:
    assert Tour("watch").name == "watch"
    assert Tour("").name == Tour("renamed").name == "move"


def test_the_panel_names_keys_as_the_user_has_set_them() -> None:
    panel = format_panel(Tour("run"), ON_SET, run_case="ctrl+b", tour_skip="f6", tour_end="f7")

    assert "Press ctrl+b to run the 3 cases" in panel
    assert "f6 skip  f7 end the tour" in panel


@pytest.mark.parametrize("selected", [("", None), (tour.EVAL_SET, None), (tour.EVAL_SET, tour.WRONG_CASE)])
@pytest.mark.parametrize("base", [NEW, AFTER_RUN, AFTER_ACCEPT, CHANGED, replace(CHANGED, rerun=Rerun(12, 61.5))])
def test_all_that_the_panel_can_say_fits_three_lines_of_a_small_terminal(
    base: View, selected: tuple[str, str | None]
) -> None:
    views = [
        replace(base, selected=selected, tab=tab, is_typing=is_typing, is_edited=is_edited, watch=watch, dialog=dialog)
        for tab in ("case", "diff")
        for is_typing in (False, True)
        for is_edited in (False, True)
        for watch in WatchMode
        for dialog in ("", "palette", "help")
    ]

    for name in (*(step.name for step in STEPS), "over"):
        for view in views:
            panel = format_panel(Tour(name), view).split("\n")
            assert len(panel) <= 3, panel
            assert max(map(cell_len, panel)) <= 78
            assert "{" not in "".join(panel)


def test_the_change_of_the_tour_fits_the_sample_agent_and_is_made_once() -> None:
    source = (SAMPLES / tour.AGENT_FILE).read_text(encoding="utf-8")

    mended = tour.mend_agent(source)
    assert mended is not None
    text, change = mended
    assert change.is_new
    assert [number for number, line in enumerate(text.split("\n"), 1) if line not in source] == [change.line]
    assert tour.mend_agent(text) == (text, TourChange(change.line, is_new=False))
    assert tour.mend_agent("def answer(prompt): return prompt\n") is None


def test_the_first_layout_folds_all_but_the_eval_set_of_the_tour() -> None:
    layout = tour.make_first_layout(
        {"home_automation": ["home_automation/simple.test.json", tour.EVAL_SET], "other": []}
    )

    assert layout.folded == (("other", ""), ("home_automation", "home_automation/simple.test.json"))
    assert layout.tour == "move"


def test_the_view_has_the_verdicts_and_the_selection_of_the_eval_set(make: Any) -> None:
    keys = [make.key(name, eval_set=tour.EVAL_SET, target=tour.TARGET) for name in ("a", "b")]
    state = ProjectState(partial(find_first_key, keymap={}))
    state.browser.replace_sets([tour.TARGET], [ListedSet(tour.EVAL_SET, tour.TARGET)])
    state.list_set(ListedSet(tour.EVAL_SET, tour.TARGET, tuple(map(make_case_row, keys))))
    state.load_stored({keys[0]: [make.stored_job(make.result(keys[0], CaseStatus.FAILED))]})
    state.browser.select_case(keys[1])

    view = View.from_state(state, tab="diff", is_typing=False, saved_at=0, dialog="", change=None)

    assert view.states == {"a": CaseState.FAILED, "b": CaseState.NOT_RUN}
    assert view.failing == {"a"}
    assert not view.is_run
    assert (view.case, view.state) == ("b", CaseState.NOT_RUN)


def test_a_rerun_counts_once_all_its_cases_have_verdicts_and_only_after_the_change(make: Any) -> None:
    state = ProjectState(partial(find_first_key, keymap={}))
    job = JobKey(case=make.key("a"))
    seen = [
        SeenChange(number, change_of(path), (), (), frozenset([job]), 0, 0.5)
        for number, path in ((3, "other.py"), (2, tour.AGENT_FILE), (1, tour.AGENT_FILE))
    ]
    seen[2].verdicts[job] = CaseState.PASSED
    state.watch.changes = seen

    def find_rerun(change: TourChange | None) -> Rerun | None:
        return View.from_state(state, tab="", is_typing=False, saved_at=0, dialog="", change=change).rerun

    assert find_rerun(TourChange(75, is_new=True, after=1)) is None
    seen[1].verdicts[job] = CaseState.CANCELLED
    assert find_rerun(TourChange(75, is_new=True, after=1)) is None
    seen[1].verdicts[job] = CaseState.FAILED
    assert find_rerun(TourChange(75, is_new=True, after=1)) == Rerun(1, 0.5)
    assert find_rerun(TourChange(75, is_new=True, after=2)) is None
    assert find_rerun(None) is None


def change_of(path: str) -> ChangeSeen:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return ChangeSeen(at=at, paths=(path,), run=1, judged=0, waiting=0, total=1, reason="choose() changed")
