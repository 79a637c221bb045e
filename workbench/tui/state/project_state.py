"""The open project as the screen shows it: eval sets, cases, results, header, and which actions are available."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from rich.cells import cell_len

from workbench.engine.plan import RunOptions, Selection
from workbench.model.criteria import EvalConfig
from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import CaseStatus
from workbench.model.run_events import CaseFinished, Notice, RunEvent
from workbench.store.errors import IsDataset
from workbench.store.history.history_queries import StoredJob
from workbench.tui.state.browser_list import KEPT_READ_ONLY, CheckedVerdicts, ListedSet, Place
from workbench.tui.state.browser_rows import (
    RowView,
    empty_detail,
    heading_of,
    nothing_listed_detail,
    row_view,
    set_detail,
    target_detail,
)
from workbench.tui.state.browser_state import (
    Browser,
    Pinned,
    ReadCase,
    Subject,
    shown_repeat,
    wanted_all,
    wanted_at,
    wanted_of,
)
from workbench.tui.state.case_board import FALLS_SHORT, STALE, Board, look_of
from workbench.tui.state.problem_list import Problems, Source
from workbench.tui.state.run_plan import PlannedRun
from workbench.tui.state.run_progress import RunProgress, judge_line, project_line
from workbench.tui.state.text_layout import Block, Heading, Line, Paragraph, Style, StyledText, cut_line
from workbench.tui.state.watch_state import WatchState

# The state of the main screen: what is listed, how it stands, what is running, and what can be run.


@dataclass(frozen=True, slots=True)
class OpenedProject:
    """A project as it was found. `targets` are the agents by name, each with facts to show (name, value).

    `problems` are sentences that begin with a file where they are about one; `files` are these, by their names there.
    """

    root: str
    targets: Mapping[str, Sequence[tuple[str, str]]]
    sets: Sequence[ListedSet]
    problems: Sequence[str] = ()
    files: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoppedRun:
    """A run that was stopped before its end. `options` resume it; `config` is None where files have its criteria."""

    selections: Sequence[Selection]
    options: RunOptions
    config: EvalConfig | None = None

    def is_made_up_for_by(self, planned: PlannedRun) -> bool:
        """Whether a run resumes this one, or does all that it was to do in the same way."""
        run_id = self.options.resume
        if planned.options.resume == run_id:
            return True
        if planned.config != self.config or planned.options.model_copy(update={"resume": run_id}) != self.options:
            return False
        ran = {each.eval_set: each.cases for each in planned.selections}
        return all(_is_among(each.cases, ran.get(each.eval_set, ())) for each in self.selections)


@dataclass(slots=True)
class Applied:
    """What taking events came to: notices for the user's eyes, and the cases that stand otherwise now."""

    notices: list[Notice] = field(default_factory=list)
    changed: set[CaseKey] = field(default_factory=set)


@dataclass
class ProjectState:
    """Everything the main screen shows. The screen changes it only through these methods."""

    board: Board = field(default_factory=Board)
    problems: Problems = field(default_factory=Problems)
    browser: Browser = field(init=False)
    watch: WatchState = field(init=False)
    project: OpenedProject | None = None
    progress: RunProgress | None = None  # of the run that the run line shows
    read: ReadCase | None = None
    pinned: Pinned | None = None  # looked at in place of the newest result
    repeat: int | None = None  # chosen by the user; None: the one that shows best how the case stands
    is_preparing: bool = False  # a run is being planned, or the user is asked about its plan
    is_asked: bool = False  # the user is asked about a plan
    stopped: list[StoppedRun] = field(default_factory=list)  # can be resumed, the newest last
    chosen_criteria: dict[str, EvalConfig] = field(default_factory=dict)  # by eval set; in no file
    results_elsewhere: dict[JobKey, str] = field(default_factory=dict)  # of which runs; the watch has not seen them yet
    told_elsewhere: list[tuple[str, Sequence[RunEvent]]] = field(default_factory=list)  # by which runs, likewise
    _beside: list[RunProgress] = field(default_factory=list)  # runs that go on and that the run line does not show
    _said: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.browser = Browser(self.board)
        self.watch = WatchState(self.board, self.browser.freshness, self.problems)

    @property
    def is_busy(self) -> bool:
        """Whether a run of the user's is going on or about to: those of the watch keep nobody waiting."""
        return self.is_preparing or any(each.why is None for each in self._going_on())

    @property
    def is_running(self) -> bool:
        """Whether a run is going on, of the user's or of the watch's."""
        return any(True for _ in self._going_on())

    @property
    def selected_place(self) -> Place | None:
        """Where the cursor is."""
        row = self.browser.selected
        return row.place if row is not None else None

    @property
    def selected_case(self) -> CaseKey | None:
        """The case under the cursor."""
        row = self.browser.selected
        return row.case if row is not None else None

    @property
    def selected_set(self) -> str | None:
        """The eval set under the cursor, or that of the case there; None for what is no file."""
        row = self.browser.selected
        if row is None or self.browser.is_kept(row.target, row.eval_set):
            return None
        return row.eval_set or None

    @property
    def shows_other_than_a_case(self) -> bool:
        """Whether the pane shows something that any event may change: counts, or that nothing is there yet."""
        return self.selected_case is None

    @property
    def has_failing(self) -> bool:
        """Whether any case did not pass when it last ran."""
        counts = self.board.counts()
        return any(counts.get(standing) for standing in FALLS_SHORT)

    @property
    def has_failing_to_run(self) -> bool:
        """Whether any such case has an agent."""
        counts = (self.board.counts(each.target, each.relative) for each in self.browser.files if each.target)
        return any(count.get(standing) for count in counts for standing in FALLS_SHORT)

    @property
    def has_agents(self) -> bool:
        """Whether any eval set has an agent."""
        return any(listed.target for listed in self.browser.files)

    @property
    def has_agent_selected(self) -> bool:
        """Whether the selected case or set has an agent, or the selected agent a set."""
        row = self.browser.selected
        return row is not None and bool(self.browser.sets_of(row.target)) and row.target != ""

    def is_only_kept(self, target: str) -> bool:
        """Whether a name is that of no agent, but of a dataset of which results are kept."""
        is_agent = self.project is not None and target in self.project.targets
        return not is_agent and self.browser.is_kept(target, "")

    def lacks_results(self, key: CaseKey) -> bool:
        """Whether the stored results of a case are still to be read."""
        record = self.board.record(key)
        return record is not None and record.lacks_results

    def has_read(self, key: CaseKey) -> bool:
        """Whether the case is the one that was read last."""
        return self.read is not None and self.read.key == key

    def open(self, project: OpenedProject) -> None:
        """The project was found, or was looked at again: its sets are still to be read."""
        remaining = {(listed.target, listed.relative) for listed in project.sets}
        for listed in self.browser.sets:
            if (listed.target, listed.relative) not in remaining:
                self.board.forget(listed.keys)
        self.project = project
        self.problems.show_messages(Source.PROJECT, project.problems, files=project.files)
        self.problems.forget_sets_but(listed.relative for listed in project.sets)
        self.browser.show(project.targets, project.sets)

    def list_set(self, listed: ListedSet) -> None:
        """An eval set has been read."""
        old = self.browser.eval_set(listed.target, listed.relative)
        if old is not None and old.cases:
            self.board.forget(set(old.keys).difference(listed.keys))
        self.board.list_cases(listed.keys)
        self.browser.show_set(listed)
        if self.read is not None and self.read.key.eval_set == listed.relative:
            self.read = None

    def begin_run(self, run_id: str, *, total: int, now: float, why: str | None = None) -> RunProgress:
        """A run of so many jobs was started; `expect` says which. `why` is what the watch started it for.

        Its progress is what the run line shows, unless it is the watch's while a run of the user's goes on: then it
        comes after that.
        """
        begun = RunProgress(run_id, total=total, began=now, why=why)
        shown, self._beside = self.progress, list(self._going_on())
        if why is None:
            self.problems.begin_run()
        elif shown is not None and shown.why is None and shown.ended is None:
            self._beside.insert(0, begun)
            return begun
        self.progress = begun
        return begun

    def note_ended(self, planned: PlannedRun, stopped: StoppedRun | None) -> None:
        """A run of the user's is over; `stopped` if it can be resumed."""
        if stopped is None:
            self.stopped = [each for each in self.stopped if not each.is_made_up_for_by(planned)]
        else:
            others = [each for each in self.stopped if each.options.resume != stopped.options.resume]
            self.stopped = [*others, stopped]

    def show_next_run(self) -> None:
        """Where the run that is shown is over and another goes on, show that."""
        self._beside = [each for each in self._beside if each.ended is None and each is not self.progress]
        if self._beside and (self.progress is None or self.progress.ended is not None):
            self.progress = self._beside.pop()

    def _going_on(self) -> Iterator[RunProgress]:
        shown = () if self.progress is None else (self.progress,)
        return (each for each in (*self._beside, *shown) if each.ended is None)

    def expect(self, jobs: Iterable[JobKey]) -> None:
        """These jobs are part of the run that goes on."""
        self.board.begin(jobs)

    def apply(
        self, events: Iterable[RunEvent], *, progress: RunProgress | None = None, run_id: str = "", now: float
    ) -> Applied:
        """Take events of a run, whose `progress` is kept where it has one."""
        applied = Applied()
        for event in events:
            if isinstance(event, Notice) and self._is_news(event):
                applied.notices.append(event)
                if event.severity != "information":
                    self.problems.add_of_run(event.message, warning=event.severity == "warning")
            if progress is not None:
                progress.apply(event, now=now)
            applied.changed.update(self.board.apply(event, run_id=run_id))
            if isinstance(event, CaseFinished) and event.status is not CaseStatus.CANCELLED:
                freshness = self.browser.freshness
                (freshness.finished if event.is_judged else freshness.played)(event.case)
        self.board.let_go(but=self.selected_case)
        return applied

    def _is_news(self, notice: Notice) -> bool:
        """Whether it has to be said: what is only for information is said once in a session, not once in a run."""
        if notice.severity != "information":
            return True
        is_new = notice.message not in self._said
        self._said.add(notice.message)
        return is_new

    def show_stored(self, jobs: Mapping[CaseKey, Sequence[StoredJob]]) -> None:
        """How the cases ended in earlier sessions is known."""
        self.board.show_stored(jobs)
        judged = {key: stored[0] for key, stored in jobs.items() if stored and not _has_no_verdict(stored[0])}
        self.browser.freshness.judged({key: job.hashes for key, job in judged.items()})
        self.read = None

    def show_verdicts(self, held: Mapping[CaseKey, Sequence[StoredJob]]) -> None:
        """These verdicts hold, of cases that were only played since."""
        self.board.show_verdicts(held)
        for key, stored in held.items():
            self.browser.freshness.holds(key, stored[0].hashes)

    def take_checked(self, checked: CheckedVerdicts, *, ended: Mapping[CaseKey, int]) -> set[CaseKey]:
        """It is known of these cases whether their verdicts hold. `ended` is what was checked: see `CaseRecord`.

        Return those that are shown otherwise now.
        """
        changed = set()
        for key in checked.cases:
            record = self.board.record(key)
            if record is None or record.ended != ended.get(key) or record.outstanding or record.turns:
                continue  # it has run since
            if self.browser.freshness.checked(key, checked.stale.get(key, ())):
                changed.add(key)
            if current := checked.current.get(key):
                self.board.show_current(key, {repeat: verdict.stored for repeat, verdict in current.items()})
                if key not in checked.stale:
                    self.browser.freshness.holds(key, next(iter(current.values())).hashes)
                if self.has_read(key):
                    self.read = None
                changed.add(key)
        return changed

    def show_case(self, read: ReadCase) -> None:
        """The selected case was read."""
        self.read = read
        self.board.fill(read.stored)
        self.board.let_go(but=read.key)

    def go_to_failing(self, *, backwards: bool = False) -> bool:
        """Put the cursor on the next case that did not pass; False where there is none."""
        key = self.browser.next_case(self._falls_short, backwards=backwards)
        if key is not None:
            self.browser.go_to(key)
        return key is not None

    def selections_at(self, place: Place | None) -> Sequence[Selection]:
        """What `run` runs where this place is selected."""
        return wanted_at(self.browser, place)

    def all_selections(self) -> Sequence[Selection]:
        """What `run all` runs: everything listed that has an agent."""
        return wanted_all(self.browser)

    def failed_selections(self) -> Sequence[Selection]:
        """What `run failed` runs: the marked or listed cases that did not pass when they last ran."""
        return wanted_of(self.browser, self._falls_short)

    @property
    def wanted_cases(self) -> Collection[CaseKey]:
        """The marked cases; where none are, those of the selected row."""
        marked = self.browser.marks
        return set(marked) if len(marked) else self.browser.selected_cases

    def failing_cases(self) -> Sequence[CaseKey]:
        """The marked or listed cases that did not pass when they last ran, in the order of the list."""
        marked = self.browser.marks
        listed = (row.case for row in self.browser.listed_case_rows() if row.case is not None)
        return [key for key in listed if self._falls_short(key) and (not len(marked) or key in marked)]

    def subject(self) -> Subject:
        """What is selected, with what is known of it."""
        row = self.browser.selected
        if row is None or row.case is None:
            return Subject(row, pinned=self.pinned)
        record = self.board.record(row.case)
        read = self.read if self.has_read(row.case) else None
        why = self.browser.freshness.why(row.case)
        return Subject(row, read, record, shown_repeat(record, self.repeat), self.pinned, why_stale=tuple(why))

    def step_repeat(self, by: int) -> None:
        """Look at another repeat of the selected case; past either end means the repeat there."""
        subject = self.subject()
        if subject.record is None or subject.repeat is None:
            return
        repeats = subject.record.repeats
        place = repeats.index(subject.repeat) + by
        self.repeat = repeats[min(max(place, 0), len(repeats) - 1)]

    def pin(self, pinned: Pinned) -> None:
        """Look at this session in place of the newest result."""
        self.pinned = pinned

    def unpin(self) -> bool:
        """Look at the newest result again; False where nothing was pinned."""
        was_pinned, self.pinned = self.pinned is not None, None
        return was_pinned

    def leave_row(self) -> None:
        """The cursor went to another row: what was chosen for the old one does not hold there."""
        self.pinned = self.repeat = None

    def heading(self) -> Heading:
        """What stands in the frame around the panes."""
        if self.project is None:
            return Heading("workbench")
        row = self.browser.selected
        is_edited = row is not None and row.eval_set != "" and self.browser.is_edited(row)
        return replace(heading_of(self.subject()), is_edited=is_edited)

    def detail(self) -> tuple[Block, ...]:
        """What a pane shows that has nothing better to show where no case is selected."""
        row = self.browser.selected
        if self.project is None:
            return (Paragraph.from_text("opening the project …", Style.MUTED),)
        if row is None and self.browser.is_filtered:
            return nothing_listed_detail(self.browser.query)
        if row is None or not self.browser.sets:
            return empty_detail(self.project.root, list(self.project.targets), self.project.problems)
        counts = self.board.counts(row.target, row.eval_set or None)
        stale = self.browser.freshness.count(row.target, row.eval_set)
        listed = self.browser.eval_set(row.target, row.eval_set)
        if listed is not None:
            return set_detail(listed, counts, stale=stale)
        if self.is_only_kept(row.target):
            return set_detail(self.browser.sets_of(row.target)[0], counts, stale=stale)
        facts = self.project.targets.get(row.target, ())
        return target_detail(row.target, facts, self.browser.sets_of(row.target), counts, stale=stale)

    def row_view(self, index: int) -> RowView:
        """One row of the browser as it is drawn now."""
        importing = {target for progress in self._going_on() for target in progress.importing}
        return row_view(self.browser, self.board, index, importing=importing)

    def header(self, width: int) -> Line:
        """The line at the top, so wide."""
        right = (*self.watch.header(width), *self._judge_line(width))
        room = width - sum(cell_len(piece.text) for piece in right)
        left = cut_line(self._header(room), room)
        gap = room - sum(cell_len(piece.text) for piece in left)
        return (*left, StyledText(" " * gap), *right) if right else left

    def _judge_line(self, width: int) -> Line:
        judges = self.browser.judges
        if self.project is None or any(each.relative not in judges for each in self.browser.files):
            return ()  # not known yet
        listed = (judges[each.relative] for each in self.browser.files)
        models = () if self.progress is None else self.progress.models
        return judge_line(set(chain.from_iterable(listed)), models, width=width)

    def _header(self, room: int) -> Line:
        if self.project is None:
            return (StyledText(" workbench ", Style.STRONG), StyledText(" opening …", Style.MUTED))
        unread = [each for each in self.browser.sets if each.cases is None and not each.problem]
        return project_line(
            self.project.root,
            sets=len(self.browser.sets),
            cases=sum(self.board.counts().values()),
            reading=sum(not each.is_to_be_read for each in unread),
            problems=len(self.problems),
            width=room,
        )

    def run_line(self, *, now: float) -> Line:
        """The line at the bottom: the run that is going on or went last, else how all cases stand."""
        if self.is_preparing and not self.is_asked:
            return (StyledText(" planning the run …", Style.RUNNING),)
        if self.progress is not None:
            return self.progress.line(now=now, can_resume=self.stopped[-1].options.resume if self.stopped else None)
        pieces = [StyledText(" no run in this session", Style.MUTED)]
        if stale := len(self.browser.freshness.stale):
            pieces += [
                StyledText(f"   {STALE.symbol} {stale:,}", STALE.style),
                StyledText(f" {STALE.word}", Style.MUTED),
            ]
        for standing, count in self.board.counts().items():
            if count:
                look = look_of(standing)
                pieces += [
                    StyledText(f"   {look.symbol} {count:,}", look.style),
                    StyledText(f" {look.word}", Style.MUTED),
                ]
        if self.stopped:
            pieces.append(StyledText("   the last run was stopped: alt+x resumes it", Style.KEY))
        return tuple(pieces)

    def _falls_short(self, key: CaseKey) -> bool:
        record = self.board.record(key)
        return record is not None and record.standing in FALLS_SHORT


def _is_among(cases: Collection[str] | None, ran: Collection[str] | None) -> bool:
    return ran is None or (cases is not None and set(cases) <= set(ran))


def _has_no_verdict(job: StoredJob) -> bool:
    """Whether nothing judged it, or no judge could: nothing of it can be stale."""
    return not job.scoring_key and job.status in (CaseStatus.NOT_EVALUATED, CaseStatus.ERROR)


# Which of the actions of the main screen make sense now.

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
            return state.watch.is_active
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
    if action == "toggle_watch" and not state.watch.is_active and not state.has_agents:
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
