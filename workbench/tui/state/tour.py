"""The tour of the sample project: its steps, when each is done, and what the panel of the tour says.

A step is done when the screen shows its result, whichever keys led there. `workbench.tui.tour_app` describes the screen
to the tour, and shows the panel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from workbench.model.text import format_duration
from workbench.store.toml_files import ScreenLayout
from workbench.tui.state.case_status import FAILING_STATES, CaseState
from workbench.tui.state.project_state import ProjectState
from workbench.tui.state.text_layout import (
    Line,
    Paragraph,
    Style,
    StyledText,
    fill_line,
    measure_line,
    plural,
    render_blocks,
)
from workbench.tui.state.watch_state import SeenChange, WatchMode

# The places in the sample project that the tour visits.

TARGET = "home_automation"
EVAL_SET = "home_automation/light_on_off.evalset.json"
WRONG_AGENT = "designed_failure_bedside_light"
"""A case that fails because of the agent: the change of the tour mends it."""
WRONG_CASE = "designed_failure_looks_first"
"""A case that fails because of its expectation, which can be accepted."""
AGENT_FILE = "home_automation/agent.py"
_BEFORE = '    """The device that is meant: the first one of its kind."""\n'
_ADDED = (
    '    devices = {key: each for key, each in devices.items() if each.get("name", "?") in wish.words} or devices\n'
)


@dataclass(frozen=True, slots=True)
class TourChange:
    """The change of the tour: a line that was added to the agent.

    `is_new`: it was not there before. `after` is the number of the last change that the watch had seen before.
    """

    line: int
    is_new: bool
    after: int = 0


def mend_agent(source: str) -> tuple[str, TourChange] | None:
    """Add the line with which the agent counts the name of a device. None if the source has no place for it."""
    before, found, after = source.partition(_BEFORE)
    if not found:
        return None
    change = TourChange(line=before.count("\n") + 2, is_new=not after.startswith(_ADDED))
    return (f"{before}{found}{_ADDED}{after}" if change.is_new else source), change


def make_first_layout(eval_sets: Mapping[str, Iterable[str]]) -> ScreenLayout:
    """Make the layout for the begin of the tour: all but its eval set is folded. `eval_sets` are by target."""
    targets = [(target, "") for target in eval_sets if target != TARGET]
    sets = [(TARGET, relative) for relative in eval_sets[TARGET] if relative != EVAL_SET]
    return ScreenLayout(tour=STEPS[0].name, folded=(*targets, *sets))


# What the screen shows.


@dataclass(frozen=True, slots=True)
class Rerun:
    """What the change of the agent ran: how many cases, and the seconds from the save to the first verdict."""

    cases: int
    seconds: float | None


@dataclass(frozen=True, slots=True)
class View:
    """What the steps depend on: the eval set of the tour, the selection, and the open parts of the screen.

    `states` are those of the cases of the set, by id. `selected` is the path of the selected eval set and the id of the
    case. `saved_at` changes with each save of the set. `dialog` is the open dialog. `rerun` is None until all cases
    that the change ran have verdicts. `seen` are the numbers of the sights of the step that were seen.
    """

    states: Mapping[str, CaseState]
    stale: frozenset[str] = frozenset()
    selected: tuple[str, str | None] = ("", None)
    tab: str = ""
    is_edited: bool = False
    is_typing: bool = False
    saved_at: int = 0
    watch: WatchMode = WatchMode.OFF
    dialog: str = ""
    change: TourChange | None = None
    rerun: Rerun | None = None
    seen: frozenset[int] = frozenset()

    @classmethod
    def from_state(
        cls,
        state: ProjectState,
        *,
        tab: str,
        is_typing: bool,
        saved_at: int,
        dialog: str,
        change: TourChange | None,
    ) -> View:
        """Make the view from the state of the main screen and from what only its widgets know."""
        listed = state.browser.get_set(TARGET, EVAL_SET)
        keys = listed.case_keys if listed is not None else ()
        records = [record for key in keys if (record := state.board.get_record(key)) is not None]
        row = state.browser.selected_row
        after = None if change is None else change.after
        changes = (each for each in state.watch.changes if after is not None and each.number > after)
        of_agent = (each for each in changes if AGENT_FILE in each.event.paths)
        return cls(
            states={each.key.eval_id: each.state for each in records},
            stale=frozenset(key.eval_id for key in keys if state.browser.freshness.is_stale(key)),
            selected=("", None) if row is None else (row.eval_set, None if row.case is None else row.case.eval_id),
            tab=tab,
            is_edited=state.browser.is_set_edited(EVAL_SET),
            is_typing=is_typing,
            saved_at=saved_at,
            watch=state.watch.mode,
            dialog=dialog,
            change=change,
            rerun=next(map(_summarize_rerun, of_agent), None),
        )

    @property
    def failing(self) -> frozenset[str]:
        """The cases that did not pass."""
        return frozenset(eval_id for eval_id, state in self.states.items() if state in FAILING_STATES)

    @property
    def is_run(self) -> bool:
        """True if all cases of the set have a verdict."""
        return all(self.has_verdict(eval_id) for eval_id in self.states)

    @property
    def case(self) -> str | None:
        """The selected case, if it is one of the set."""
        return self.selected[1] if self.selected[0] == EVAL_SET else None

    @property
    def state(self) -> CaseState | None:
        """The state of that case."""
        return None if self.case is None else self.states.get(self.case)

    def has_verdict(self, eval_id: str) -> bool:
        """True if a case passed or did not pass, and is not running."""
        return self.states.get(eval_id) in {*FAILING_STATES, CaseState.PASSED}


def _summarize_rerun(change: SeenChange) -> Rerun | None:
    """Count the cases that a change ran. None until all of them have verdicts."""
    ended = {job for job, state in change.verdicts.items() if state is not CaseState.CANCELLED}
    return Rerun(len({job.case for job in change.jobs}), change.seconds) if change.jobs <= ended else None


# The steps.


Condition = Callable[[View, View], bool]
"""A condition on the view as it is, and on the view at the begin of the step."""


@dataclass(frozen=True, slots=True)
class TourStep:
    """A step of the tour.

    `hint` says what to look at and what to press next; the id of an action in braces becomes its key. The step is done
    if `is_done` holds and each condition of `sights` has held during the step.
    """

    name: str
    title: str
    hint: Callable[[View], str]
    is_done: Condition
    sights: tuple[Condition, ...] = ()


def _hint_move(view: View) -> str:  # noqa: ARG001 - all hints have the same parameter
    return (
        "These are agents with their eval sets and cases. Press {rows_down} until the cursor is on light_on_off. "
        "{rows_up} goes up; {list_fold} and {list_unfold} fold and unfold."
    )


def _hint_run(view: View) -> str:
    if any(state in (CaseState.WAITING, CaseState.RUNNING) for state in view.states.values()):
        return "Each case runs in a process of its own. Its verdict appears as soon as the case is over."
    if view.case is not None:
        return "Press {list_fold} to go up to light_on_off, and {run_case} to run all its cases."
    if view.selected[0] != EVAL_SET:
        return "Go to light_on_off, and press {run_case} to run all its cases."
    return f"Press {{run_case}} to run the {len(view.states)} cases of light_on_off. No API key is needed."


def _hint_read(view: View) -> str:
    if view.state in FAILING_STATES:
        return "Press {tab_diff} to see the difference between expected and actual."
    failing = len(view.failing)
    counts = f"{len(view.states) - failing} cases passed, {failing} did not: on purpose."
    return f"{counts} Press {{next_failing}} to go to the first of them."


def _hint_accept(view: View) -> str:
    if view.case == WRONG_CASE:
        return (
            "The agent looks the device up before it switches it. That is fine: the case is wrong. Press {accept} "
            "to accept what the agent did as the new expectation."
        )
    if view.case == WRONG_AGENT:
        return (
            "Read the right side: call 2 should switch device_5, and got device_2. The agent is wrong here. "
            "Press {next_failing} for a case that is wrong itself."
        )
    return f"Press {{next_failing}} or {{previous_failing}} to go to {WRONG_CASE}."


def _hint_undo(view: View) -> str:
    if view.seen:
        return "The expectation is as before, and the case fails again. Press {redo} to redo what was undone."
    return (
        "The file has the new expectation; nothing else in it changed. The case was scored again, without the agent. "
        "Press {undo} to undo this."
    )


def _hint_edit(view: View) -> str:
    if view.is_typing:
        return (
            'Change a word: "Turn on device_1, please." Press {typing_apply} to apply it, or {typing_leave} to leave.'
        )
    if view.case is None:
        return "Go to a case of light_on_off, and press {edit} to edit it."
    if view.is_edited or view.case in view.stale:
        return "The verdict is stale: the case changed. Press {run_case} to save the case and run it again."
    if view.tab != "case":
        return "Now edit a case yourself. Press {edit} to open it: each field is a row."
    return "The cursor is on the words of the user. Press {rows_enter} to edit them."


def _hint_watch(view: View) -> str:
    match view.watch:
        case WatchMode.STARTING:
            return "The watch is starting ..."
        case WatchMode.PAUSED:
            return "The watch is paused. Press {watch} to resume it."
        case _:
            return "Press {watch} to turn the watch on: every save then runs the cases that it affects, and no others."


def _hint_rerun(view: View) -> str:
    if view.watch is not WatchMode.ON:
        return _hint_watch(view)
    if view.change is None:
        return (
            f"In a moment the tour mends the agent for you: it adds one line to {AGENT_FILE}. "
            "Look at the cases of light_on_off."
        )
    return f"The tour added line {view.change.line} to {AGENT_FILE} and saved it. Cases that use this place run now."


def _hint_trace(view: View) -> str:
    if view.case is None:
        return "Go to a case of light_on_off, and press {tab_trace} to see its steps."
    return f"{_describe_rerun(view)} Press {{tab_trace}} to see the steps of the selected case."


def _describe_rerun(view: View) -> str:
    if view.rerun is None:
        return "Every case has a trace."
    after = "" if view.rerun.seconds is None else f", {format_duration(view.rerun.seconds)} after the save"
    passes = ". The bedside light passes" if view.states.get(WRONG_AGENT) is CaseState.PASSED else ""
    return f"Only {plural(view.rerun.cases, 'case')} ran{after}{passes}."


def _hint_find(view: View) -> str:
    match view.dialog:
        case "palette":
            return "Press {finder_close} to close the palette."
        case "help":
            return "Press {help_close} to close the help."
        case _ if 0 in view.seen:
            return "Press {help} to see all keys that work at the place with the focus."
        case _:
            return (
                "A step has its times, request and response. Press {palette} to find any action, case, run or setting "
                "by some of its letters."
            )


_OVER = (
    "This was the tour. `workbench PATH` opens a project of your own; docs/tutorial.md makes a new one. "
    "`workbench tour --restart` begins again."
)


def _is_accepted(now: View, begin: View) -> bool:
    """True if a case that failed passes now, because its expectation was edited or written."""
    is_changed = now.is_edited or now.saved_at != begin.saved_at
    return is_changed and any(now.states.get(eval_id) is CaseState.PASSED for eval_id in begin.failing)


def _is_begun(now: View, begin: View) -> bool:
    """True if the user edits a case, or did so in an earlier session.

    A verdict that became stale is no sign of it: the step before may still save what it redid.
    """
    return now.is_typing or bool(begin.stale) or (now.is_edited and not begin.is_edited)


def _is_applied(now: View, _: View) -> bool:
    """True if the user's edit is in the case. Between the end of typing and that, nothing is typed or edited."""
    return 0 in now.seen and not now.is_typing and (now.is_edited or bool(now.stale))


def _is_saved(now: View, begin: View) -> bool:
    """True if an edit is in the file, perhaps since an earlier session."""
    return not now.is_edited and (now.saved_at != begin.saved_at or bool(now.stale))


def _is_current(now: View, _: View) -> bool:
    """True if all verdicts are those of the cases as they are."""
    return now.is_run and not (now.stale or now.is_edited or now.is_typing)


STEPS = (
    TourStep("move", "Find an eval set", _hint_move, lambda now, _: now.selected[0] == EVAL_SET),
    TourStep("run", "Run cases", _hint_run, lambda now, _: bool(now.states) and now.is_run),
    TourStep("read", "Read a failure", _hint_read, lambda now, _: now.state in FAILING_STATES and now.tab == "diff"),
    TourStep("accept", "Accept the actual side", _hint_accept, _is_accepted),
    TourStep(
        "undo",
        "Undo and redo",
        _hint_undo,
        lambda now, begin: now.failing <= begin.failing and now.stale <= begin.stale,
        sights=(lambda now, begin: not now.failing <= begin.failing,),
    ),
    TourStep("edit", "Edit a case", _hint_edit, _is_current, sights=(_is_begun, _is_applied, _is_saved)),
    TourStep("watch", "Turn the watch on", _hint_watch, lambda now, _: now.watch is WatchMode.ON),
    TourStep(
        "rerun",
        "Code changes, verdicts follow",
        _hint_rerun,
        lambda now, _: now.change is not None and (now.rerun is not None or not now.change.is_new),
    ),
    TourStep("trace", "See the steps", _hint_trace, lambda now, _: now.case is not None and now.tab == "trace"),
    TourStep(
        "find",
        "Find everything else",
        _hint_find,
        lambda now, _: not now.dialog,
        sights=(lambda now, _: now.dialog == "palette", lambda now, _: now.dialog == "help"),
    ),
)
"""All steps, in order."""

_OVER_NAME = "over"


@dataclass
class Tour:
    """How far the user is. `name` is that of the step to begin with; if there is no such step, the first one."""

    name: str = STEPS[0].name
    _begin: View | None = None
    _seen: set[int] = field(default_factory=set)  # sights of the step, by number

    def __post_init__(self) -> None:
        if self.name not in {*(step.name for step in STEPS), _OVER_NAME}:
            self.name = STEPS[0].name

    @property
    def step(self) -> TourStep | None:
        """The current step; None after the last one."""
        return next((step for step in STEPS if step.name == self.name), None)

    def observe(self, view: View) -> None:
        """Look at the screen, and go to the next step if this one is done."""
        step = self.step
        if step is None:
            return
        begin = self._begin = self._begin or view
        for number, holds in enumerate(step.sights):
            if holds(replace(view, seen=frozenset(self._seen)), begin):
                self._seen.add(number)
        if len(self._seen) == len(step.sights) and step.is_done(view, begin):
            self.skip()
            self._begin = view

    def is_about_to_change(self, view: View) -> bool:
        """True while the tour has announced its change of the agent, and the watch is ready for it."""
        return self.name == "rerun" and view.watch is WatchMode.ON and view.change is None

    def skip(self) -> None:
        """Go to the next step."""
        names = [*(step.name for step in STEPS), _OVER_NAME]
        self.name = names[min(names.index(self.name) + 1, len(names) - 1)]
        self._begin = None
        self._seen.clear()

    def format(self, view: View, *, width: int, find_key: Callable[[str], str]) -> list[Line]:
        """Format the panel: the number and title of the step with the keys of the tour, and what to do."""
        step = self.step
        number = 0 if step is None else STEPS.index(step) + 1
        title = "the tour is over" if step is None else f"step {number} of {len(STEPS)} · {step.title}"
        keys = [*([("tour_skip", "skip")] if step is not None else []), ("tour_end", "end the tour")]
        left: Line = (StyledText(" tour ", Style.TAB), StyledText(f" {title}", Style.HEADING))
        right: list[StyledText] = []
        for action_id, words in keys:
            right += [StyledText(f"  {find_key(action_id)}", Style.KEY), StyledText(f" {words}", Style.MUTED)]
        hint = _OVER if step is None else step.hint(replace(view, seen=frozenset(self._seen)))
        text = Paragraph(tuple(_style_keys(hint, find_key)))
        head = (*fill_line(left, width - measure_line(tuple(right))), *right)
        return [head, *render_blocks([text], width=width, side_by_side=False)]


def _style_keys(hint: str, find_key: Callable[[str], str]) -> Iterator[StyledText]:
    """Replace each `{action}` by the key that the user has set."""
    for index, part in enumerate(re.split(r"\{(\w+)\}", hint)):
        yield StyledText(find_key(part), Style.TAB) if index % 2 else StyledText(part)
