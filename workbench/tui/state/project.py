"""The state of the main screen: what is listed, how it stands, what is running, and what can be run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from workbench.engine.plan import Selection
from workbench.model.evalset import EvalCase
from workbench.model.events import Notice, RunEvent
from workbench.model.keys import CaseKey, JobKey
from workbench.model.results import CaseResult
from workbench.store.history import StoredJob
from workbench.tui.state.blocks import Detail
from workbench.tui.state.board import Board
from workbench.tui.state.browser import Browser, ListedSet, Place
from workbench.tui.state.details import (
    case_detail,
    empty_detail,
    message_detail,
    nothing_listed_detail,
    set_detail,
    target_detail,
)
from workbench.tui.state.pieces import Line, Piece, Tone, plural, safe_line
from workbench.tui.state.progress import RunProgress
from workbench.tui.state.rows import RowView, case_view, group_view
from workbench.tui.state.standing import FALLS_SHORT, look_of


@dataclass(frozen=True, slots=True)
class OpenedProject:
    """A project as it was found. `targets` are the agents by name, each with facts to show (name, value)."""

    root: str
    targets: Mapping[str, Sequence[tuple[str, str]]]
    sets: Sequence[ListedSet]
    problems: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ReadCase:
    """A case as its file has it now, or why it could not be read, and its stored results where they were asked for."""

    key: CaseKey
    case: EvalCase | None
    problem: str = ""
    stored: Sequence[CaseResult] = ()


@dataclass(slots=True)
class Applied:
    """What taking events came to: notices for the user's eyes, and the cases that stand otherwise now."""

    notices: list[Notice] = field(default_factory=list)
    changed: set[CaseKey] = field(default_factory=set)


@dataclass
class ProjectState:
    """Everything the main screen shows. The screen changes it only through these methods."""

    browser: Browser = field(default_factory=Browser)
    board: Board = field(default_factory=Board)
    project: OpenedProject | None = None
    progress: RunProgress | None = None
    read: ReadCase | None = None
    is_preparing: bool = False  # a run is being planned
    filtered_by: str = ""
    _said: set[str] = field(default_factory=set)

    @property
    def is_busy(self) -> bool:
        """Whether a run is going on or about to."""
        return self.is_running or self.is_preparing

    @property
    def is_running(self) -> bool:
        """Whether a run is going on."""
        return self.progress is not None and self.progress.ended is None

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
    def shows_other_than_a_case(self) -> bool:
        """Whether the pane shows something that any event may change: counts, or that nothing is there yet."""
        return self.selected_case is None

    @property
    def has_failing(self) -> bool:
        """Whether any case did not pass when it last ran."""
        counts = self.board.counts()
        return any(counts.get(standing) for standing in FALLS_SHORT)

    @property
    def has_agents(self) -> bool:
        """Whether any eval set has an agent."""
        return any(listed.target for listed in self.browser.sets)

    @property
    def has_agent_selected(self) -> bool:
        """Whether the selected case or set has an agent, or the selected agent a set."""
        row = self.browser.selected
        return row is not None and bool(self.browser.sets_of(row.target)) and row.target != ""

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

    def begin_run(self, *, total: int, now: float) -> None:
        """A run of so many jobs was started; `expect` says which."""
        self.progress = RunProgress(total=total, began=now)

    def expect(self, jobs: Iterable[JobKey]) -> None:
        """These jobs are part of the run that goes on."""
        self.board.begin(jobs)

    def filter(self, text: str) -> None:
        """List only the cases whose id has this text in it, large and small letters alike; nothing lists all."""
        self.filtered_by = text.strip()
        wanted = self.filtered_by.casefold()
        self.browser.filter((lambda row: wanted in row.label.casefold()) if wanted else None)

    def apply(self, events: Iterable[RunEvent], *, now: float) -> Applied:
        """Take events of the run."""
        applied = Applied()
        for event in events:
            if isinstance(event, Notice) and self._is_news(event):
                applied.notices.append(event)
            if self.progress is not None:
                self.progress.apply(event, now=now)
            applied.changed.update(self.board.apply(event))
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
        self.read = None

    def show_case(self, read: ReadCase) -> None:
        """The selected case was read."""
        self.read = read
        self.board.fill(read.stored)

    def go_to_failing(self, *, backwards: bool = False) -> bool:
        """Put the cursor on the next case that did not pass; False where there is none."""
        key = self.browser.next_case(self._falls_short, backwards=backwards)
        if key is not None:
            self.browser.go_to(key)
        return key is not None

    def selections_at(self, place: Place | None) -> list[Selection]:
        """What `run` runs where this place is selected: its case, or what is listed of its set or target.

        Sets that cannot be read are part of it: they may be whole again, and where not, the plan says so.
        """
        if place is None or not place[0]:
            return []
        target, eval_set, case = place
        if case is not None:
            return [Selection(eval_set=eval_set, cases=(case.eval_id,))]
        sets = [listed for listed in self.browser.sets_of(target) if eval_set in ("", listed.relative)]
        if not self.browser.is_filtered:
            return _whole(sets)
        listed_ids = {
            listed.relative: dict.fromkeys(row.case.eval_id for row in self.browser.cases_in(listed) if row.case)
            for listed in sets
        }
        return [Selection(eval_set=relative, cases=tuple(ids)) for relative, ids in listed_ids.items() if ids]

    def all_selections(self) -> list[Selection]:
        """What `run all` runs: every set that has an agent."""
        return _whole(self.browser.sets)

    def failed_selections(self) -> list[Selection]:
        """What `run failed` runs: every case that did not pass when it last ran."""
        wanted: dict[str, dict[str, None]] = {}
        for row in self.browser.case_rows():
            if row.case is not None and row.target and self._falls_short(row.case):
                wanted.setdefault(row.eval_set, {})[row.case.eval_id] = None
        return [Selection(eval_set=eval_set, cases=tuple(ids)) for eval_set, ids in wanted.items()]

    def detail(self) -> Detail:
        """What the case pane shows."""
        row = self.browser.selected
        if self.project is None:
            return message_detail("workbench", "opening the project …")
        if row is None and self.browser.is_filtered:
            return nothing_listed_detail(self.filtered_by)
        if row is None or not self.browser.sets:
            return empty_detail(self.project.root, list(self.project.targets), self.project.problems)
        if row.case is not None:
            read = self.read if self.has_read(row.case) else None
            return case_detail(
                row,
                self.board.record(row.case),
                case=read.case if read is not None else None,
                problem=read.problem if read is not None else "",
                loading=read is None,
            )
        counts = self.board.counts(row.target, row.eval_set or None)
        listed = self.browser.eval_set(row.target, row.eval_set)
        if listed is not None:
            return set_detail(listed, counts)
        facts = self.project.targets.get(row.target, ())
        return target_detail(row.target, facts, self.browser.sets_of(row.target), counts)

    def row_view(self, index: int) -> RowView:
        """One row of the browser as it is drawn now."""
        row = self.browser.rows[index]
        if row.case is not None:
            return case_view(row, self.board.record(row.case))
        counts = self.board.counts(row.target, row.eval_set or None)
        return group_view(row, counts, is_folded=self.browser.is_folded(row))

    def header(self) -> Line:
        """The line at the top."""
        if self.project is None:
            return (Piece(" workbench ", Tone.STRONG), Piece(" opening …", Tone.MUTED))
        sets = len(self.browser.sets)
        cases = sum(self.board.counts().values())
        reading = sum(listed.cases is None and not listed.problem for listed in self.browser.sets)
        pieces = [
            Piece(" workbench ", Tone.STRONG),
            Piece(f" {safe_line(self.project.root)}"),
            Piece(f"   {plural(sets, 'eval set')} · {plural(cases, 'case')}", Tone.MUTED),
        ]
        if reading:
            pieces.append(Piece(f" · reading {reading:,} …", Tone.RUNNING))
        if self.project.problems:
            pieces.append(Piece(f"   ! {plural(len(self.project.problems), 'problem')}", Tone.WARNING))
        return tuple(pieces)

    def run_line(self, *, now: float) -> Line:
        """The line at the bottom: the run that is going on or went last, else how all cases stand."""
        if self.is_preparing:
            return (Piece(" planning the run …", Tone.RUNNING),)
        if self.progress is not None:
            return self.progress.line(now=now)
        pieces = [Piece(" no run in this session", Tone.MUTED)]
        for standing, count in self.board.counts().items():
            if count:
                look = look_of(standing)
                pieces += [Piece(f"   {look.symbol} {count:,}", look.tone), Piece(f" {look.word}", Tone.MUTED)]
        return tuple(pieces)

    def _falls_short(self, key: CaseKey) -> bool:
        record = self.board.record(key)
        return record is not None and record.standing in FALLS_SHORT


def _whole(sets: Iterable[ListedSet]) -> list[Selection]:
    return [Selection(eval_set=listed.relative) for listed in sets if listed.target]
