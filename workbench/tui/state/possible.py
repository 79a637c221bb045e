"""Which of the actions of the main screen make sense now."""

from __future__ import annotations

from collections.abc import Iterable

from workbench.store.errors import IsDataset
from workbench.tui.state.browser import Browser
from workbench.tui.state.browser.listed import KEPT_READ_ONLY
from workbench.tui.state.project import ProjectState
from workbench.tui.state.subject import Subject

CHANGING = (
    *("run_selected", "run_all", "run_failed", "cancel_run", "resume_run", "next_failing", "review", "save", "accept"),
    *("end_watch", "run_held"),
)
"""Actions that begin and cease to make sense while nobody presses a key, so that the footer has to follow."""


def makes_sense(action: str, state: ProjectState) -> bool | None:
    """Whether an action does: False hides it from the footer, None shows it dimmed."""
    match action:
        case "run_selected" | "run_all" | "run_failed":
            return True if not state.is_busy and _has_something_to_run(action, state) else None
        case "cancel_run" | "cancel_case":
            return state.is_running
        case "resume_run":
            return bool(state.stopped) and not state.is_busy
        case "next_failing" | "previous_failing" | "review":
            return state.has_failing
        case "end_watch":
            return state.watch.is_on
        case "run_held":
            return bool(state.watch.held)
        case "save":
            return state.selected_set is not None
        case "edit":
            return state.selected_set is not None or state.selected_case is not None
        case "accept":
            return _has_something_to_accept(state.subject())
        case "edit_text" | "keep_conversation":
            return state.selected_case is not None
        case _:
            return True


_EDITS = frozenset({"edit", "accept", "save", "edit_text", "keep_conversation", "generate"})
_RUNS = frozenset({"run_selected", "plan_selected", "simulate", "criteria"})


def why_not(action: str, state: ProjectState) -> str:
    """Why an action has no use for what is selected, in one sentence; empty where it may have.

    Such an action is not offered, and says so to those who type its key all the same.
    """
    row = state.browser.selected
    if row is None:
        return ""
    if action in _EDITS:
        return why_not_edited(state.browser, [(row.target, row.eval_set)])
    has_use = action not in _RUNS
    if action in ("run_all", "run_failed"):
        has_use = _has_something_to_run(action, state)
    return KEPT_READ_ONLY if not has_use and state.browser.is_kept(row.target, row.eval_set) else ""


def is_worth_offering(action: str, state: ProjectState) -> bool:
    """Whether an action that is heard is to stand in the footer, too."""
    if action == "toggle_watch" and not state.watch.is_on and not state.has_agents:
        row = state.browser.selected
        return row is None or not state.browser.is_kept(row.target, row.eval_set)
    return not why_not(action, state)


def why_not_edited(browser: Browser, places: Iterable[tuple[str, str]]) -> str:
    """Why the cases of these sets are not edited: they are kept of a run, or rows of a dataset. Empty if they are."""
    for target, name in places:
        listed = browser.eval_set(target, name)
        if browser.is_kept(target, name):
            return KEPT_READ_ONLY
        if listed is not None and listed.is_dataset:
            return str(IsDataset(name))
    return ""


def why_not_removed(browser: Browser, target: str, name: str) -> str:
    """Why there is no file of a set to remove; empty where there is one."""
    listed = browser.eval_set(target, name)
    if listed is not None and listed.is_address:
        return f"{name}: stands elsewhere, where nothing is changed from here"
    return KEPT_READ_ONLY if browser.is_kept(target, name) else ""


def why_nothing(state: ProjectState) -> str:
    """Why there is nothing to run, to judge or to write for where nothing is."""
    row = state.browser.selected
    if row is None:
        return "nothing is selected"
    if not row.target:
        return "no agent belongs to it"
    if state.browser.is_kept(row.target, row.eval_set):
        return KEPT_READ_ONLY
    return "no case of it is listed" if state.browser.sets_of(row.target) else "no eval set belongs to it"


def _has_something_to_run(action: str, state: ProjectState) -> bool:
    match action:
        case "run_all":
            return state.has_agents
        case "run_failed":
            return state.has_failing_to_run
        case _:
            return state.has_agent_selected


def _has_something_to_accept(subject: Subject) -> bool:
    """Whether there is a result, and a case that expects something: a chat belongs to none."""
    is_of_no_case = subject.pinned is not None and subject.pinned.case is None
    return subject.result is not None and not is_of_no_case
