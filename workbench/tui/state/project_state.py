"""State of the main screen: the open project, its results and runs, and which actions are available."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path, PurePath

from workbench.engine.plan import RERUN_ADVICE, RESUME_ADVICE, RunOptions, Selection
from workbench.model.criteria import EvalConfig
from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import CaseStatus
from workbench.model.run_events import CaseFinished, Notice, RunEvent
from workbench.store.errors import IsDataset
from workbench.store.history.history_queries import StoredJob
from workbench.tui.state.browser_list import HISTORY_READ_ONLY, CheckedVerdicts, ListedSet, RowKey
from workbench.tui.state.browser_rows import (
    RowView,
    describe_empty_project,
    describe_no_matches,
    describe_set,
    describe_target,
    make_heading,
    make_row_view,
)
from workbench.tui.state.browser_state import (
    Browser,
    LoadedCase,
    PinnedResult,
    Subject,
    choose_repeat,
    select_all,
    select_cases,
    select_matching,
)
from workbench.tui.state.case_status import FAILING_STATES, StatusBoard, make_count_parts
from workbench.tui.state.problem_list import Problems, ProblemSource
from workbench.tui.state.run_plan import PlannedRun
from workbench.tui.state.run_progress import RunProgress, format_judge_line, format_project_line
from workbench.tui.state.text_layout import (
    Block,
    Heading,
    Line,
    Paragraph,
    RankedPart,
    Style,
    StyledText,
    cut_line,
    fill_line,
    fit_parts,
    measure_line,
    safe_line,
)
from workbench.tui.state.watch_state import WatchState

# The state of the main screen.


@dataclass(frozen=True, slots=True)
class OpenedProject:
    """A project as discovered. `targets` are the agents by name, each with facts as (name, value).

    `problems` are sentences; those about a file begin with its name. `files` has the paths of these files by name.
    """

    root: str
    targets: Mapping[str, Sequence[tuple[str, str]]]
    sets: Sequence[ListedSet]
    problems: Sequence[str] = ()
    files: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoppedRun:
    """A run that was stopped before its end. `options` resume it; `config` is None if files have its criteria."""

    selections: Sequence[Selection]
    options: RunOptions
    config: EvalConfig | None = None

    def is_completed_with(self, planned: PlannedRun) -> bool:
        """True if a run resumes this one, or repeats all its cases in the same way."""
        run_id = self.options.resume
        if planned.options.resume == run_id:
            return True
        if planned.config != self.config or planned.options.model_copy(update={"resume": run_id}) != self.options:
            return False
        ran = {each.eval_set: each.cases for each in planned.selections}
        return all(_includes_cases(each.cases, ran.get(each.eval_set, ())) for each in self.selections)


@dataclass(slots=True)
class AppliedEvents:
    """Outcome of applying events: notices to show, and the cases that changed."""

    notices: list[Notice] = field(default_factory=list)
    changed: set[CaseKey] = field(default_factory=set)


@dataclass
class ProjectState:
    """Everything that the main screen shows."""

    find_key: Callable[[str], str]
    """Returns the first key of an action, by its id, as the user has set it."""
    board: StatusBoard = field(default_factory=StatusBoard)
    problems: Problems = field(default_factory=Problems)
    browser: Browser = field(init=False)
    watch: WatchState = field(init=False)
    project: OpenedProject | None = None
    progress: RunProgress | None = None  # of the run that the run line shows
    loaded_case: LoadedCase | None = None
    pinned: PinnedResult | None = None  # shown instead of the newest result
    repeat: int | None = None  # chosen by the user; None: the one that represents the state of the case best
    is_preparing: bool = False  # a run is being planned, or waits for confirmation
    is_asked: bool = False  # a plan waits for confirmation
    is_opening_prompt: bool = False  # the field for the prompt of a new case comes next
    stopped: list[StoppedRun] = field(default_factory=list)  # can be resumed, the newest last
    chosen_criteria: dict[str, EvalConfig] = field(default_factory=dict)  # by eval set; in no file
    results_elsewhere: dict[JobKey, str] = field(
        default_factory=dict
    )  # by the runs they are from; the watch has not seen them yet
    events_elsewhere: list[tuple[str, Sequence[RunEvent]]] = field(default_factory=list)  # by which runs, likewise
    _project_shown_at: tuple[RowKey | None] | None = None  # the selected row, if the project is shown in its place
    _hidden_runs: list[RunProgress] = field(default_factory=list)  # active runs that the run line does not show
    _reported_notices: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.browser = Browser(self.board)
        self.watch = WatchState(self.board, self.browser.freshness, self.problems)

    @property
    def is_busy(self) -> bool:
        """True if a run of the user is active or being planned. Runs of the watch do not count."""
        return self.is_preparing or any(each.why is None for each in self._find_active_runs())

    @property
    def is_preparing_to_ask(self) -> bool:
        """True while a run is planned. It may ask for confirmation afterwards."""
        return self.is_preparing and not self.is_asked

    @property
    def is_running(self) -> bool:
        """True if a run is active, of the user or of the watch."""
        return any(True for _ in self._find_active_runs())

    @property
    def selected_key(self) -> RowKey | None:
        row = self.browser.selected_row
        return row.key if row is not None else None

    @property
    def selected_case(self) -> CaseKey | None:
        row = self.browser.selected_row
        return row.case if row is not None else None

    @property
    def selected_set(self) -> str | None:
        """Selected eval set, or that of the selected case; None if it is not a file."""
        row = self.browser.selected_row
        if row is None or self.browser.is_from_history(row.target, row.eval_set):
            return None
        return row.eval_set or None

    @property
    def shows_project(self) -> bool:
        """True if the whole project is shown, until the user moves in the list."""
        return self._project_shown_at == (self.selected_key,)

    @property
    def shows_group(self) -> bool:
        """True if the project, a set or target, or nothing, is shown: any event may then change the pane."""
        return self.shows_project or self.selected_case is None

    def show_project(self, *, is_shown: bool = True) -> None:
        """Show the whole project, or again the selected row."""
        self._project_shown_at = (self.selected_key,) if is_shown else None

    @property
    def has_failing(self) -> bool:
        """True if a case did not pass when it last ran."""
        counts = self.board.count_states()
        return any(counts.get(state) for state in FAILING_STATES)

    @property
    def has_failing_to_run(self) -> bool:
        """True if such a case has an agent."""
        counts = (self.board.count_states(each.target, each.relative) for each in self.browser.file_sets if each.target)
        return any(count.get(state) for count in counts for state in FAILING_STATES)

    @property
    def has_agents(self) -> bool:
        return any(listed.target for listed in self.browser.file_sets)

    @property
    def has_agent_selected(self) -> bool:
        """True if the selected case or set has an agent, or the selected agent has a set."""
        row = self.browser.selected_row
        return row is not None and bool(self.browser.list_sets(row.target)) and row.target != ""

    def is_history_dataset(self, target: str) -> bool:
        """True if the name is not that of an agent, but of a dataset that only the history has."""
        is_agent = self.project is not None and target in self.project.targets
        return not is_agent and self.browser.is_from_history(target, "")

    def lacks_results(self, key: CaseKey) -> bool:
        """True if stored results of a case are still to be read."""
        record = self.board.get_record(key)
        return record is not None and record.lacks_results

    def has_loaded(self, key: CaseKey) -> bool:
        """True if this case was loaded last."""
        return self.loaded_case is not None and self.loaded_case.key == key

    def describe_loss(self, eval_set: str, case: CaseKey | None) -> str:
        """Say that a case, or without one a set, is no longer listed; empty if it is."""
        if case is not None and self.board.get_record(case) is None:
            return f"{safe_line(case.name)} is no longer in {safe_line(eval_set)}"
        is_listed = any(listed.relative == eval_set for listed in self.browser.sets)
        return "" if is_listed else f"{safe_line(eval_set)} is no longer there"

    def open(self, project: OpenedProject) -> None:
        """Show a project that was discovered again. Its sets are still to be read."""
        remaining = {(listed.target, listed.relative) for listed in project.sets}
        for listed in self.browser.sets:
            if (listed.target, listed.relative) not in remaining:
                self.board.remove_cases(listed.case_keys)
        self.project = project
        self.problems.set_messages(ProblemSource.PROJECT, project.problems, files=project.files)
        self.problems.keep_only_sets(listed.relative for listed in project.sets)
        self.browser.replace_sets(project.targets, project.sets)

    def list_set(self, listed: ListedSet) -> None:
        """List the cases of an eval set that was read."""
        old = self.browser.get_set(listed.target, listed.relative)
        if old is not None and old.cases:
            self.board.remove_cases(set(old.case_keys).difference(listed.case_keys))
        self.board.add_cases(listed.case_keys)
        self.browser.update_set(listed)
        if self.loaded_case is not None and self.loaded_case.key.eval_set == listed.relative:
            self.loaded_case = None

    def begin_run(self, run_id: str, *, total: int, now: float, why: str | None = None) -> RunProgress:
        """Begin a run of `total` jobs, which the board is given then. `why` is the reason of a run of the watch.

        The run line shows its progress, unless the watch starts it during a run of the user: it then follows later.
        """
        begun = RunProgress(run_id, total=total, began=now, why=why)
        shown, self._hidden_runs = self.progress, list(self._find_active_runs())
        if why is None:
            self.problems.clear_run_problems()
        elif shown is not None and shown.why is None and shown.ended is None:
            self._hidden_runs.insert(0, begun)
            return begun
        self.progress = begun
        return begun

    def record_end(self, planned: PlannedRun, stopped: StoppedRun | None) -> None:
        """Record the end of a run of the user; `stopped` if it can be resumed."""
        if stopped is None:
            self.stopped = [each for each in self.stopped if not each.is_completed_with(planned)]
        else:
            others = [each for each in self.stopped if each.options.resume != stopped.options.resume]
            self.stopped = [*others, stopped]

    def show_next_run(self) -> None:
        """Show another active run if the shown one is over."""
        self._hidden_runs = [each for each in self._hidden_runs if each.ended is None and each is not self.progress]
        if self._hidden_runs and (self.progress is None or self.progress.ended is not None):
            self.progress = self._hidden_runs.pop()

    def _find_active_runs(self) -> Iterator[RunProgress]:
        shown = () if self.progress is None else (self.progress,)
        return (each for each in (*self._hidden_runs, *shown) if each.ended is None)

    def apply(
        self, events: Iterable[RunEvent], *, progress: RunProgress | None = None, run_id: str = "", now: float
    ) -> AppliedEvents:
        """Apply events of a run, and update its `progress` if given."""
        applied = AppliedEvents()
        for event in events:
            if isinstance(event, Notice) and self._must_report(event):
                notice = event.model_copy(update={"message": self.name_keys(event.message)})
                applied.notices.append(notice)
                if notice.severity != "information":
                    self.problems.add_run_problem(notice.message, warning=notice.severity == "warning")
            if progress is not None:
                progress.apply(event, now=now)
            applied.changed.update(self.board.apply(event, run_id=run_id))
            if isinstance(event, CaseFinished) and event.status is not CaseStatus.CANCELLED:
                freshness = self.browser.freshness
                (freshness.record_verdict if event.is_judged else freshness.drop_verdict)(event.case)
        self.board.release_results(but=self.selected_case)
        return applied

    def name_keys(self, message: str) -> str:
        """Name the keys that do what a message advises."""
        judges, runs = self.find_key("run_failed"), self.find_key("run_case")
        return message.replace(RESUME_ADVICE, f"{judges} judges them").replace(RERUN_ADVICE, f"{runs} runs it again")

    def _must_report(self, notice: Notice) -> bool:
        """True if a notice must be shown. One for information is shown once per session, not once per run."""
        if notice.severity != "information":
            return True
        is_new = notice.message not in self._reported_notices
        self._reported_notices.add(notice.message)
        return is_new

    def load_stored(self, jobs: Mapping[CaseKey, Sequence[StoredJob]]) -> None:
        """Load the stored results of earlier sessions."""
        self.board.load_stored(jobs)
        judged = {key: stored[0] for key, stored in jobs.items() if stored and not _has_no_verdict(stored[0])}
        self.browser.freshness.set_verdict_hashes(
            {key: job.hashes for key, job in judged.items() if not self.board.has_own_result(key)}
        )
        self.loaded_case = None

    def reuse_verdicts(self, held: Mapping[CaseKey, Sequence[StoredJob]]) -> None:
        """Show earlier verdicts that are current, for cases that were only played since."""
        self.board.reuse_verdicts(held)
        for key, stored in held.items():
            self.browser.freshness.mark_current(key, stored[0].hashes)

    def apply_check(self, checked: CheckedVerdicts, *, ended: Mapping[CaseKey, int]) -> set[CaseKey]:
        """Apply a check of verdicts. `ended` are the result numbers that were checked, see `CaseRecord`.

        Return the cases that changed.
        """
        changed = set()
        for key in checked.cases:
            record = self.board.get_record(key)
            if record is None or record.result_number != ended.get(key) or record.pending_jobs or record.turns:
                continue  # it has run since the check
            if self.browser.freshness.set_stale_reasons(key, checked.stale.get(key, ())):
                changed.add(key)
            if current := checked.current.get(key):
                self.board.restore_verdicts(key, {repeat: verdict.stored for repeat, verdict in current.items()})
                if key not in checked.stale:
                    self.browser.freshness.mark_current(key, next(iter(current.values())).hashes)
                if self.has_loaded(key):
                    self.loaded_case = None
                changed.add(key)
        return changed

    def set_loaded_case(self, read: LoadedCase) -> None:
        """Show the selected case after it was read."""
        self.loaded_case = read
        self.board.fill_results(read.stored)
        self.board.fill_samples(read.key, read.live_samples)
        self.board.release_results(but=read.key)

    def select_next_failing(self, *, backwards: bool = False) -> bool:
        """Put the cursor on the next case that did not pass. Return False if there is no such case."""
        key = self.browser.find_next_case(self._is_failing, backwards=backwards)
        if key is not None:
            self.browser.select_case(key)
        return key is not None

    def select_row_cases(self, place: RowKey | None) -> Sequence[Selection]:
        """Select the cases that `run` runs if this row is selected."""
        return select_cases(self.browser, place)

    def select_all_cases(self) -> Sequence[Selection]:
        """Select the cases that `run all` runs: all listed ones with an agent."""
        return select_all(self.browser)

    def select_failed_cases(self) -> Sequence[Selection]:
        """Select the cases that `run failed` runs: marked or listed ones that did not pass."""
        return select_matching(self.browser, self._is_failing)

    @property
    def marked_or_selected_cases(self) -> Collection[CaseKey]:
        """The marked cases; without marks, those of the selected row."""
        marked = self.browser.marks
        return set(marked) if len(marked) else self.browser.selected_cases

    def list_failing_cases(self) -> Sequence[CaseKey]:
        """List the marked or listed cases that did not pass, in the order of the list."""
        marked = self.browser.marks
        listed = (row.case for row in self.browser.iterate_listed_rows() if row.case is not None)
        return [key for key in listed if self._is_failing(key) and (not len(marked) or key in marked)]

    def subject(self) -> Subject:
        """Return the selected row with its case and results."""
        if self.shows_project:
            return Subject(is_project=True)
        row = self.browser.selected_row
        if row is None or row.case is None:
            return Subject(row, pinned=self.pinned)
        record = self.board.get_record(row.case)
        read = self.loaded_case if self.has_loaded(row.case) else None
        why = self.browser.freshness.find_stale_reasons(row.case)
        return Subject(row, read, record, choose_repeat(record, self.repeat), self.pinned, stale_reasons=tuple(why))

    def step_repeat(self, by: int) -> None:
        """Show another repeat of the selected case; the first or last one if out of range."""
        subject = self.subject()
        if subject.record is None or subject.repeat is None:
            return
        repeats = subject.record.repeats
        place = repeats.index(subject.repeat) + by
        self.repeat = repeats[min(max(place, 0), len(repeats) - 1)]

    def unpin(self) -> bool:
        """Show the newest result again. Return False if nothing was pinned."""
        was_pinned, self.pinned = self.pinned is not None, None
        return was_pinned

    def leave_row(self) -> None:
        """Discard pinned result and chosen repeat, because another row was selected."""
        self.pinned = self.repeat = None
        if not self.shows_project:
            self._project_shown_at = None

    def heading(self) -> Heading:
        """Make the heading in the border around the panes."""
        if self.project is None:
            return Heading("workbench")
        if self.shows_project:
            return Heading(f"project {safe_line(PurePath(self.project.root).name, width=40)}".rstrip())
        return make_heading(self.subject())

    def detail(self) -> tuple[Block, ...]:
        """Describe the selected set or target, or the empty project."""
        row = self.browser.selected_row
        if self.project is None:
            return (Paragraph.from_text("opening the project …", Style.MUTED),)
        if row is None and self.browser.is_filtered:
            return describe_no_matches(self.browser.query)
        if row is None or not self.browser.sets:
            return describe_empty_project(
                self.project.root, list(self.project.targets), self.project.problems, find_key=self.find_key
            )
        counts = self.board.count_states(row.target, row.eval_set or None)
        stale = self.browser.freshness.count_stale(row.target, row.eval_set)
        listed = self.browser.get_set(row.target, row.eval_set)
        if listed is not None:
            return describe_set(listed, counts, stale=stale)
        if self.is_history_dataset(row.target):
            return describe_set(self.browser.list_sets(row.target)[0], counts, stale=stale)
        facts = self.project.targets.get(row.target, ())
        return describe_target(row.target, facts, self.browser.list_sets(row.target), counts, stale=stale)

    def row_view(self, index: int) -> RowView:
        importing = {target for progress in self._find_active_runs() for target in progress.importing}
        return make_row_view(self.browser, self.board, index, importing=importing)

    def header(self, width: int) -> Line:
        """Format the line at the top for a width."""
        right = (*self.watch.header(width), *self._format_judges(width))
        room = width - measure_line(right)
        project = self._format_project(room)
        return (*fill_line(project, room), *right) if right else cut_line(project, room)

    def _format_judges(self, width: int) -> Line:
        judges = self.browser.judges
        if self.project is None or any(each.relative not in judges for each in self.browser.file_sets):
            return ()  # not known yet
        listed = (judges[each.relative] for each in self.browser.file_sets)
        models = () if self.progress is None else self.progress.models
        return format_judge_line(set(chain.from_iterable(listed)), models, width=width)

    def _format_project(self, room: int) -> Line:
        if self.project is None:
            return (StyledText(" workbench ", Style.STRONG), StyledText(" opening …", Style.MUTED))
        unread = [each for each in self.browser.sets if each.cases is None and not each.problem]
        return format_project_line(
            self.project.root,
            sets=len(self.browser.sets),
            cases=sum(self.board.count_states().values()),
            reading=sum(not each.can_be_fetched for each in unread),
            problems=len(self.problems.rows),
            edited=self.browser.count_edited(),
            width=room,
        )

    def run_line(self, *, now: float, width: int) -> Line:
        """Format the line at the bottom: the active or last run, else the number of cases by state."""
        if self.is_preparing_to_ask:
            return (StyledText(" planning the run …", Style.RUNNING),)
        if self.progress is not None:
            can_resume = self.stopped[-1].options.resume if self.stopped else None
            key = self.find_key("resume_run")
            return self.progress.format_line(now=now, width=width, can_resume=can_resume, resume_key=key)
        parts = [RankedPart(4, (StyledText(" no run in this session", Style.MUTED),))]
        parts += make_count_parts(self.board.count_states(), self.board.count_stale_states(), width=width)
        if self.stopped:
            resume = f"   {self.find_key('resume_run')} resumes the last run"
            parts.append(RankedPart(2, (StyledText(resume, Style.KEY),)))
        return fit_parts(parts, width)

    def _is_failing(self, key: CaseKey) -> bool:
        record = self.board.get_record(key)
        return record is not None and record.state in FAILING_STATES


def _includes_cases(cases: Collection[str] | None, ran: Collection[str] | None) -> bool:
    return ran is None or (cases is not None and set(cases) <= set(ran))


def _has_no_verdict(job: StoredJob) -> bool:
    """True if it was not scored, or could not be: it can then not be stale."""
    return not job.scoring_key and job.status in (CaseStatus.NOT_EVALUATED, CaseStatus.ERROR)


# Availability of the actions of the main screen.

CHANGING_ACTIONS = (
    *("run_selected", "run_all", "run_failed", "cancel_run", "resume_run", "next_failing", "review", "save", "accept"),
    *("end_watch", "run_held"),
)
"""Actions whose availability changes without a key press, so that the footer must be updated."""


def is_available(action: str, state: ProjectState) -> bool | None:
    """True if an action is available; False hides it from the footer, None dims it."""
    match action:
        case "run_selected" | "run_all" | "run_failed":
            return True if not state.is_busy and _can_run(action, state) else None
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
            return _can_accept(state.subject())
        case "edit_text" | "keep_conversation":
            return state.selected_case is not None
        case _:
            return True


_EDITS = frozenset(
    {"new_case", "edit", "accept", "save", "edit_text", "keep_conversation", "generate", "shrink", "why"}
)
_RUNS = frozenset({"run_selected", "run_fresh", "record_samples", "plan_selected", "simulate", "criteria", "branch"})


def find_obstacle(action: str, state: ProjectState) -> str:
    """Return why an action cannot be applied to the selected row, in one sentence; empty if it can.

    Such an action is not in the footer. Its key shows the sentence.
    """
    row = state.browser.selected_row
    if row is None:
        return ""
    if action in _EDITS:
        return find_edit_obstacle(state.browser, [(row.target, row.eval_set)])
    has_use = action not in _RUNS
    if action in ("run_all", "run_failed"):
        has_use = _can_run(action, state)
    return HISTORY_READ_ONLY if not has_use and state.browser.is_from_history(row.target, row.eval_set) else ""


_NEEDS_SETS = frozenset({"filter", "status", "sort", "mark_listed", "toggle_project", "open_table"})
_NEEDS_ROW = frozenset({"fold", "unfold", "mark"})
_NEEDS_SET = frozenset({"rename", "duplicate"})
_NEEDS_CASE = frozenset(
    {"mark_range", "move_case", "edit_text", "keep_conversation", "branch", "step_repeat", "shrink", "why"}
)
_NEEDS_AGENT = frozenset({"run_fresh", "record_samples", "plan_selected", "criteria", "simulate", "generate"})


def has_use(action: str, state: ProjectState) -> bool:
    """True if an action has something to act on: a row, set or case that is selected, or marks."""
    row, has_marks = state.browser.selected_row, any(state.browser.marks)
    if action in _NEEDS_SETS:
        return bool(state.browser.sets)
    if action in _NEEDS_ROW:
        return row is not None
    if action in _NEEDS_SET:
        return row is not None and bool(row.eval_set)
    if action in _NEEDS_CASE:
        return row is not None and row.case is not None
    if action in _NEEDS_AGENT:
        return row is not None and bool(row.target)
    match action:
        case "new_case":
            return state.browser.set_of_new_case is not None
        case "move_to_set":
            return has_marks or (row is not None and row.case is not None)
        case "delete":
            return has_marks or (row is not None and bool(row.eval_set))
        case "clear_marks":
            return has_marks
        case _:
            return True


def is_shown_in_footer(action: str, state: ProjectState) -> bool:
    """True if an available action is also shown in the footer and the palette."""
    if not has_use(action, state):
        return False
    if action == "new_set" and state.selected_case is not None:
        return False
    if action == "toggle_watch" and not state.watch.is_active and not state.has_agents:
        row = state.browser.selected_row
        return row is None or not state.browser.is_from_history(row.target, row.eval_set)
    return not find_obstacle(action, state)


LEADING_ACTIONS = ("save", "undo", "toggle_watch")
"""Actions whose keys come first in the footer while their state lasts."""


def leads_footer(action: str, state: ProjectState) -> bool:
    """True if the key of an action comes first in the footer: save and undo with unsaved edits, pause of the watch."""
    row = state.browser.selected_row
    if action in ("save", "undo"):
        return row is not None and state.browser.is_set_edited(row.eval_set)
    return action == "toggle_watch" and state.watch.is_active


def find_edit_obstacle(browser: Browser, places: Iterable[tuple[str, str]]) -> str:
    """Return why cases of these sets cannot be edited: they are in the history only, or rows of a dataset. Empty if
    they can.
    """
    for target, name in places:
        listed = browser.get_set(target, name)
        if browser.is_from_history(target, name):
            return HISTORY_READ_ONLY
        if listed is not None and listed.is_dataset:
            return str(IsDataset(name))
    return ""


def find_removal_obstacle(browser: Browser, target: str, name: str) -> str:
    """Return why the file of a set cannot be removed; empty if it can."""
    listed = browser.get_set(target, name)
    if listed is not None and listed.is_address:
        return f"{name}: a remote dataset cannot be changed or removed"
    return HISTORY_READ_ONLY if browser.is_from_history(target, name) else ""


def explain_empty_selection(state: ProjectState) -> str:
    """Explain why the selection has no cases to run, score or write for."""
    row = state.browser.selected_row
    if row is None:
        return "nothing is selected"
    if not row.target:
        return "no agent belongs to it"
    if state.browser.is_from_history(row.target, row.eval_set):
        return HISTORY_READ_ONLY
    return "no case of it is listed" if state.browser.list_sets(row.target) else "no eval set belongs to it"


def _can_run(action: str, state: ProjectState) -> bool:
    match action:
        case "run_all":
            return state.has_agents
        case "run_failed":
            return state.has_failing_to_run
        case _:
            return state.has_agent_selected


def _can_accept(subject: Subject) -> bool:
    """True if there is a result, and a case with expectations: a chat has no case."""
    is_of_no_case = subject.pinned is not None and subject.pinned.case is None
    return subject.result is not None and not is_of_no_case
