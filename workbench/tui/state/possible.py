"""Which of the actions of the main screen make sense now."""

from __future__ import annotations

from workbench.tui.state.browser.listed import KEPT_READ_ONLY
from workbench.tui.state.project import ProjectState
from workbench.tui.state.subject import Subject

CHANGING = (
    *("run_selected", "run_all", "run_failed", "cancel_run", "next_failing", "review", "save", "accept"),
    *("end_watch", "run_held"),
)
"""Actions that begin and cease to make sense while nobody presses a key, so that the footer has to follow."""


def makes_sense(action: str, state: ProjectState) -> bool | None:
    """Whether an action does: False hides it from the footer, None shows it dimmed."""
    match action:
        case "run_selected":
            return True if state.has_agent_selected and not state.is_busy else None
        case "run_all":
            return True if state.has_agents and not state.is_busy else None
        case "run_failed":
            return True if state.has_failing and not state.is_busy else None
        case "cancel_run" | "cancel_case":
            return state.is_running
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


def _has_something_to_accept(subject: Subject) -> bool:
    """Whether there is a result, and a case that expects something: a chat belongs to none."""
    is_of_no_case = subject.pinned is not None and subject.pinned.case is None
    return subject.result is not None and not is_of_no_case
