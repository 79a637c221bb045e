"""Decides which cases must run or be scored again, with a reason for each."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

from workbench.engine.plan import Plan, PlannedCase, set_executions
from workbench.engine.planner import add_baselines
from workbench.engine.verdict_index import Asked, Verdicts, list_watched_paths
from workbench.engine.workspace import Workspace
from workbench.model.identity import CaseKey, Dependency, DependencyKind, JobKey
from workbench.model.results import CaseResult, CaseStatus, Execution, FailureKind, MetricScores
from workbench.store.errors import StoreError
from workbench.store.history.history import History
from workbench.store.history.history_queries import StoredJob, StoredVerdict
from workbench.store.history.history_schema import get_history_path
from workbench.watch.snapshot import SOURCE_KINDS, AddedImports, Snapshot, Surroundings, make_question

# The decision on one job: nothing, score its execution again, or run the agent. It changes nothing.

_REASONS = 3
_NO_ANSWER = frozenset(
    {
        FailureKind.TIMEOUT,
        FailureKind.CRASH,
        FailureKind.INFRASTRUCTURE,
        FailureKind.USER,
        FailureKind.TOOL,
        FailureKind.REPLAY,
    }
)
_UNDECIDED = (CaseStatus.SKIPPED, CaseStatus.CANCELLED)
# Opaque rows and files that agents write are checked for each verdict, not for each set of rows.
_ALWAYS_HOLD = frozenset(
    {
        DependencyKind.WRITTEN,
        DependencyKind.FOUND,
        DependencyKind.ENV_FILES,
        DependencyKind.OPAQUE,
        DependencyKind.STATE,
    }
)

Kind = DependencyKind

_RANKS: dict[str, int] = {Kind.BLOCK: 0, Kind.BRANCH: 0, Kind.NAME: 1, Kind.LIBRARIES: 3}
_OF_PATHS = frozenset(
    {
        DependencyKind.MODULE,
        DependencyKind.REST,
        DependencyKind.FILE,
        DependencyKind.FOLDER,
        DependencyKind.PROBE,
        DependencyKind.TIME,
        DependencyKind.MODE,
        DependencyKind.STATE,
        DependencyKind.TREE,
        DependencyKind.INSTALLED,
        DependencyKind.INTERPRETER,
    }
)


class Action(StrEnum):
    """What gives a job a current verdict."""

    NOTHING = "nothing"
    JUDGE = "judge"  # the stored execution is current, or recorded: score it again
    RUN = "run"
    WAIT = "wait"  # source that it needs does not compile
    LEAVE = "leave"  # it got no answer (timeout, outage), and nothing has changed since


class Why(StrEnum):
    """Reasons for a stale verdict other than a changed row."""

    NEVER_RAN = "never ran"
    CASE_CHANGED = "the case changed"
    TARGET_CHANGED = "the settings of its target changed"
    TOOLS_CHANGED = "the case or its simulated tools changed"
    CRITERIA_CHANGED = "its expectations or criteria changed"
    SAME_INPUT = "a case with the same input already ran"
    UNKNOWN = "its dependencies are unknown"
    NO_ANSWER = "it has no answer"
    TAINTED = "files changed while it ran"
    REPLAYED = "answers of models were replayed"
    PROBLEM = "it cannot run"
    NEVER_JUDGED = "never judged"
    JUDGE_OUTAGE = "a judge or metric gave no answer"
    NEWER_RUN = "a run to compare it with is now available"
    NOT_COMPARED = "its target has new paths in `watch`"
    ALWAYS = "its target is set to run again after every change"


class Reason(NamedTuple):
    """Why a verdict is stale: a row whose fingerprint differs today, or another reason.

    `case` is the name of the case whose execution is used (SAME_INPUT).
    """

    why: Why | None = None
    row: Dependency | None = None
    case: str = ""


class Decision(NamedTuple):
    """The action for one job, and why.

    `verdict` is the current one for NOTHING, and the one with the current execution for JUDGE. Otherwise it is the
    newest with the same input. None: there is no such verdict, for example for a recording that was never scored.
    """

    job: JobKey
    planned: PlannedCase
    action: Action
    reasons: tuple[Reason, ...] = ()
    verdict: StoredVerdict | None = None


class VerdictKey(NamedTuple):
    """Identifies a verdict in the history: its run, and the job in that run."""

    run_id: str
    job: JobKey


_NONE_SHOWN: Mapping[JobKey, VerdictKey] = MappingProxyType({})


class _SpecialRows(NamedTuple):
    """Rows of a set whose result depends on the verdict."""

    opaque: tuple[Dependency, ...]
    states: tuple[Dependency, ...]
    trees: frozenset[str]


def get_verdict_key(verdict: StoredVerdict) -> VerdictKey:
    """Return the key of a stored verdict."""
    return VerdictKey(verdict.job.run_id, verdict.job.key)


class Selector:
    """Compares verdicts with a snapshot. Make a new selector, or call `forget`, when anything may have changed."""

    def __init__(
        self,
        verdicts: Verdicts,
        state: Snapshot,
        *,
        is_current: Callable[[StoredVerdict], bool] = lambda _: False,
        is_busy: Callable[[], bool] = lambda: False,
        rejects_replays: bool = False,
    ) -> None:
        """`is_current` says whether no file at all has changed since a verdict, for rows that cannot be followed.

        `is_busy` says whether agents run now, so that the files they write are not final. With `rejects_replays`,
        verdicts on replayed answers of models are stale.
        """
        self._is_busy = is_busy
        self._rejects_replays = rejects_replays
        self._verdicts = verdicts
        self._state = state
        self._is_current = is_current
        self._row_cache: dict[tuple[int, Surroundings], bool] = {}
        self._surroundings_cache: dict[tuple[int, str], Surroundings] = {}
        self._mismatches: dict[tuple[int, str], tuple[Dependency, ...]] = {}
        self._specials: dict[int, _SpecialRows] = {}
        self._added_imports: dict[int, AddedImports] = {}
        self.added_sources: frozenset[str] = frozenset()
        """Sources without a row of a case, although verdicts hold only as long as these define nothing but names."""
        self._signatures: dict[tuple[int, str], int] = {}
        self._current_sets: set[tuple[int | None, str]] = set()  # and have no special rows

    def forget(self) -> None:
        """Forget all results: anything may have changed."""
        self._state.forget()
        self._row_cache.clear()
        self._mismatches.clear()
        self._signatures.clear()
        self._current_sets.clear()
        # These stay valid as long as their sets exist; each edit brings new sets.
        for number in [number for number in self._specials if not self._verdicts.has_set(number)]:
            del self._specials[number]
        for number in [number for number in self._added_imports if not self._verdicts.has_set(number)]:
            del self._added_imports[number]
        for place in [place for place in self._surroundings_cache if not self._verdicts.has_set(place[0])]:
            del self._surroundings_cache[place]

    def compute_signature(self, decision: Decision) -> int | None:
        """Return a hash of the present dependencies of the last execution; None if they are unknown."""
        number = None if decision.verdict is None else decision.verdict.dependencies
        return None if number is None else self._compute_signature(number, str(decision.planned.target.path))

    def compute_judging_signature(self, decision: Decision) -> int | None:
        """Return such a hash for the dependencies of custom metrics; None if there are none."""
        number = None if decision.verdict is None else decision.verdict.scoring_dependencies
        return None if number is None else self._compute_signature(number, str(decision.planned.target.path))

    def is_affected_by_any(self, decision: Decision) -> bool:
        """Return True if any change affects a job, because dependencies are unknown or cannot be followed."""
        if any(each.why is Why.UNKNOWN or (each.row and each.row.kind == Kind.OPAQUE) for each in decision.reasons):
            return True
        number = None if decision.verdict is None else decision.verdict.dependencies
        return number is not None and bool(self._get_special_rows(number).opaque)

    def _compute_signature(self, number: int, folder: str) -> int:
        known = self._signatures.get((number, folder))
        if known is None:
            around = self._get_surroundings(number, folder)
            rows = (self._verdicts.row(row) for row in self._verdicts.list_rows(number))
            known = hash(tuple([self._answer_without_agent_writes(row, around) for row in rows]))
            self._signatures[number, folder] = known
        return known

    def decide(
        self, job: JobKey, planned: PlannedCase, *, shown: Mapping[JobKey, VerdictKey] = _NONE_SHOWN
    ) -> Decision:
        """Decide on one repeat of a case. If several verdicts are current, prefer the one that is `shown` for it."""
        if planned.problem is not None:
            return Decision(job, planned, Action.LEAVE, (Reason(Why.PROBLEM),))
        asked = Asked(job.case.target, planned.execution_hash, job.repeat)
        known = self._verdicts.for_job(job, asked)
        folder = str(planned.target.path)
        usable: StoredVerdict | None = None
        if planned.target.rerun == "always" and planned.needs_agent and known and not self._is_current(known[0]):
            return Decision(job, planned, Action.RUN, (Reason(Why.ALWAYS),), known[0])
        shown_first = known
        if len(known) > 1 and (preferred := shown.get(job)) is not None:
            shown_first = sorted(known, key=lambda verdict: get_verdict_key(verdict) != preferred)
        for verdict in shown_first:
            if not _is_verdict(verdict):
                continue
            # Most cases share a few sets of dependencies, and few targets have paths in `watch`.
            is_current = (verdict.dependencies, folder) in self._current_sets and not planned.target.watch
            is_current = is_current and not self._is_rejected(verdict)
            if not is_current and not planned.is_recorded and self._find_reasons(verdict, planned):
                continue
            if (
                verdict.job.scoring_key == planned.scoring_hash
                and (verdict.scoring_dependencies is None or not self._find_changed_scoring(verdict, folder))
                and not (verdict.job.lacks_baseline and self._has_baseline_now(verdict))
            ):
                return Decision(job, planned, Action.NOTHING, verdict=verdict)
            usable = usable or verdict
        if usable is not None:
            rows = tuple(Reason(row=row) for row in self._find_changed_scoring(usable, folder))
            reasons = rows or (_explain_judging(job, usable, planned),)
            return Decision(job, planned, Action.JUDGE, reasons, usable)
        if not known:
            return self._decide_unknown(job, planned)
        return self._decide_stale(job, planned, known[0], shown=shown_first[0])

    def find_current(self, job: JobKey, planned: PlannedCase) -> list[StoredVerdict]:
        """Return a verdict on each execution of a repeat for which nothing has changed since, the newest first."""
        found: dict[int | None, StoredVerdict] = {}
        for verdict in self._verdicts.for_job(job, Asked(job.case.target, planned.execution_hash, job.repeat)):
            if verdict.execution in found or not _is_verdict(verdict):
                continue
            if not self._find_reasons(verdict, planned):
                found[verdict.execution] = verdict
        return [*found.values()]

    def find_unjudged(self, job: JobKey, planned: PlannedCase) -> StoredVerdict | None:
        """Return the last execution if it was never scored and is current."""
        newest = next(iter(self._verdicts.find(Asked(job.case.target, planned.execution_hash, job.repeat))), None)
        if newest is None or not _is_unjudged(newest) or not planned.needs_agent or not _is_verdict(newest):
            return None
        if planned.tools is not None and planned.tools.record is not None:  # the run must record calls
            return None
        return None if self._find_reasons(newest, planned) else newest

    def _decide_unknown(self, job: JobKey, planned: PlannedCase) -> Decision:
        """Decide on a job whose input never ran and was never recorded."""
        newest = self._verdicts.newest(job)
        never, action = (Why.NEVER_RAN, Action.RUN)
        if planned.is_recorded:
            never, action = (Why.NEVER_JUDGED, Action.JUDGE)
        changed = Why.TOOLS_CHANGED if planned.tools is not None else Why.CASE_CHANGED
        if newest is not None and _has_other_settings(newest.job.execution_key, planned.execution_hash):
            changed = Why.TARGET_CHANGED
        return Decision(job, planned, action, (Reason(never if newest is None else changed),))

    def _decide_stale(
        self, job: JobKey, planned: PlannedCase, newest: StoredVerdict, *, shown: StoredVerdict
    ) -> Decision:
        """Decide on a job without a current verdict. The reasons are what changed since the verdict that is `shown`."""
        reasons = self._find_reasons(newest, planned)
        if not reasons:  # the result is no verdict, and nothing has changed since
            if shown is not newest and (since_shown := self._find_reasons(shown, planned)):
                return Decision(job, planned, Action.RUN, since_shown, newest)
            if _got_no_answer(newest):
                return Decision(job, planned, Action.LEAVE, (Reason(Why.NO_ANSWER),), newest)
            return Decision(job, planned, Action.RUN, (Reason(Why.TAINTED),), newest)
        if any(self._is_broken(reason) for reason in reasons):
            return Decision(job, planned, Action.WAIT, reasons, newest)
        since_shown = () if shown is newest else self._find_reasons(shown, planned)
        return Decision(job, planned, Action.RUN, since_shown or reasons, newest)

    def _is_broken(self, reason: Reason) -> bool:
        row = reason.row
        if row is None or row.kind not in SOURCE_KINDS:
            return False
        return self._state.find_broken_source(get_path(row)) is not None

    def _find_reasons(self, verdict: StoredVerdict, planned: PlannedCase) -> tuple[Reason, ...]:
        """Return the reasons why the agent may behave differently today."""
        if self._is_rejected(verdict):
            return (Reason(Why.REPLAYED),)
        if verdict.dependencies is None:
            return () if self._is_current(verdict) else (Reason(Why.UNKNOWN),)
        changed = self._find_changed_or_opaque(verdict.dependencies, str(planned.target.path), verdict)
        if not changed and planned.target.watch:
            trees = self._get_special_rows(verdict.dependencies).trees
            if not list_watched_paths(planned.target) <= trees:
                return (Reason(Why.NOT_COMPARED),)
        return tuple([Reason(row=row) for row in changed])

    def _is_rejected(self, verdict: StoredVerdict) -> bool:
        return self._rejects_replays and verdict.job.is_replayed

    def _find_changed_or_opaque(self, number: int, folder: str, verdict: StoredVerdict) -> Sequence[Dependency]:
        """As `_find_changed`, but return opaque rows if no other row changed and any file changed since the run."""
        changed = self._find_changed(number, folder, since=verdict.started_at)
        if changed or not (opaque := self._get_special_rows(number).opaque) or self._is_current(verdict):
            return changed
        return opaque[:_REASONS]

    def _find_changed_scoring(self, verdict: StoredVerdict, folder: str) -> Sequence[Dependency]:
        """Return dependencies of custom metrics that changed."""
        if verdict.scoring_dependencies is None:
            return ()
        return self._find_changed_or_opaque(verdict.scoring_dependencies, folder, verdict)

    def _has_baseline_now(self, verdict: StoredVerdict) -> bool:
        """Return True if there is a run now to compare the verdict with, which it lacked."""
        newest = self._verdicts.newest(verdict.job.key)
        return newest is not None and newest.execution not in (None, verdict.execution)

    def _find_changed(self, number: int, folder: str, *, since: float) -> Sequence[Dependency]:
        """Return a few rows of a set that changed, in the order of `rank_row`.

        A file that agents wrote counts as unchanged if all writes after `since` were theirs.
        """
        known = self._mismatches.get((number, folder))
        if known is None:
            around = self._get_surroundings(number, folder)
            changed = (row for row in self._verdicts.list_rows(number) if not self._is_row_current(row, around))
            rows = (row for row in map(self._verdicts.row, changed) if not self._is_import_added(row, number))
            few = list(islice(rows, _REASONS))
            known = tuple(sorted(few, key=rank_row))
            self._mismatches[number, folder] = known
        special = self._get_special_rows(number)
        if not (known or special.states or special.opaque):
            self._current_sets.add((number, folder))
        if known or not special.states:
            return known
        return [row for row in special.states if not self._is_agent_state_current(row, since)][:_REASONS]

    def _is_row_current(self, number: int, around: Surroundings) -> bool:
        known = self._row_cache.get((number, around))
        if known is None:
            known = self._row_cache[number, around] = self._is_unchanged(self._verdicts.row(number), around)
        return known

    def _is_unchanged(self, row: Dependency, around: Surroundings) -> bool:
        if row.kind in _ALWAYS_HOLD or self._state.answer(make_question(row, around)) == row.fingerprint:
            return True
        # Files that agents write now and have not reported yet do not count.
        return self._is_busy() and self._answer_without_agent_writes(row, around) == row.fingerprint

    def _is_import_added(self, row: Dependency, number: int) -> bool:
        """Return True if a module got only imports that the cases with these rows do not notice."""
        added = self._state.find_added_imports(row.key, row.fingerprint) if row.kind == Kind.REST else []
        if not added:
            return False
        known = self._added_imports.get(number)
        if known is None:
            rows = map(self._verdicts.row, self._verdicts.list_rows(number))
            known = self._added_imports[number] = AddedImports(self._state, rows)
        sources = known.find_sources(row.key, added)
        self.added_sources = self.added_sources.union(sources or ())
        return sources is not None

    def _answer_without_agent_writes(self, row: Dependency, around: Surroundings) -> str:
        """Return the present answer without what agents write: one case must not stop another."""
        if row.kind == Kind.STATE:
            return ""
        return (
            self._state.fingerprint_names(row.key)
            if row.kind == Kind.FOLDER
            else self._state.answer(make_question(row, around))
        )

    def _is_agent_state_current(self, row: Dependency, since: float) -> bool:
        """Return True if a file is as this case left it, or descends from that through writes of other cases only."""
        now = self._state.fingerprint_file(row.key)  # not cached: a case that has just ended may have written it
        if now == row.fingerprint or self._is_busy():
            return True
        return self._verdicts.is_agent_change(row.key, left=row.fingerprint, now=now, since=since)

    def _get_special_rows(self, number: int) -> _SpecialRows:
        known = self._specials.get(number)
        if known is not None:
            return known
        rows = [self._verdicts.row(row) for row in self._verdicts.list_rows(number)]
        found = self._specials[number] = _SpecialRows(
            opaque=tuple([row for row in rows if row.kind == Kind.OPAQUE]),
            states=tuple([row for row in rows if row.kind == Kind.STATE]),
            trees=frozenset(row.key for row in rows if row.kind == Kind.TREE),
        )
        return found

    def _get_surroundings(self, number: int, folder: str) -> Surroundings:
        known = self._surroundings_cache.get((number, folder))
        if known is None:
            rows = [self._verdicts.row(row) for row in self._verdicts.list_rows(number)]
            files = next((row.key for row in rows if row.kind == Kind.ENV_FILES), "")
            for interpreter in (row.key for row in rows if row.kind == Kind.INTERPRETER):
                self._state.add_interpreter(interpreter)
            known = Surroundings(folder, tuple(files.split("\0")) if files else ())
            self._surroundings_cache[number, folder] = known
        return known


def rank_row(row: Dependency | None) -> int:
    """Return the rank of a changed row: function bodies first, then names of modules, edited libraries last."""
    return 2 if row is None else _RANKS.get(row.kind, 2)


def get_path(row: Dependency) -> str:
    """Return the file or folder of a row, or an empty string."""
    if row.kind in (Kind.BLOCK, Kind.BRANCH, Kind.NAME, Kind.IMPORT):
        return row.key.rpartition("::")[0]
    return row.key if row.kind in _OF_PATHS else ""


def _has_other_settings(one: str, other: str) -> bool:
    """Return True if two execution hashes come from different settings of the target; False if unknown."""
    parts = [key.partition("-") for key in (one, other)]
    return all(separator for _, separator, _ in parts) and parts[0][0] != parts[1][0]


def _explain_judging(job: JobKey, usable: StoredVerdict, planned: PlannedCase) -> Reason:
    if _is_unjudged(usable):
        return Reason(Why.NEVER_JUDGED)
    if usable.job.key.case != job.case:
        return Reason(Why.SAME_INPUT, case=usable.job.key.case.name)
    if not usable.job.scoring_key:  # such a score is never reused
        return Reason(Why.JUDGE_OUTAGE if usable.job.status is CaseStatus.ERROR else Why.REPLAYED)
    return Reason(Why.NEWER_RUN if usable.job.scoring_key == planned.scoring_hash else Why.CRITERIA_CHANGED)


def _is_unjudged(stored: StoredVerdict) -> bool:
    """Return True if a result was never scored: it was interrupted while judges were asked, or only simulated."""
    return stored.job.is_only_played or not stored.is_judged


def _is_verdict(stored: StoredVerdict) -> bool:
    """Return True if a result is a verdict on the agent; timeouts and outages are not."""
    if not stored.is_certain and stored.dependencies is not None:  # unknown dependencies have a reason of their own
        return False
    return stored.job.status not in _UNDECIDED and (stored.job.failure is None or not _got_no_answer(stored))


def _got_no_answer(stored: StoredVerdict) -> bool:
    failure = stored.job.failure
    return failure is not None and failure.kind in _NO_ANSWER


# Decisions as a plan: current verdicts come from the history, the rest is scored again or run.

_TO_RUN = frozenset({Action.RUN, Action.WAIT, Action.LEAVE})


def select_affected(workspace: Workspace, plan: Plan) -> Plan:
    """Return the plan with all current verdicts taken from the history (`--affected`).

    Raises StoreError, and PlanError if a run to compare with no longer exists.
    """
    decisions = decide_plan(workspace, plan)
    is_stored = get_history_path(workspace.root).exists()  # opening the history would create it
    with workspace.history() if is_stored else contextlib.nullcontext() as history:
        part = plan_decisions(plan, decisions, runs=_TO_RUN, history=history, with_stored=True)
    part = replace(part, cases=add_baselines(part.cases, workspace.history))
    left = [case for job, case in part.jobs if job not in part.stored]
    judged = sum(case.executed is not None or case.is_recorded for case in left)
    again = f", {judged} only judged" if judged else ""
    replayed = sum(Reason(Why.REPLAYED) in decision.reasons for decision in decisions)
    why = f", {replayed} because {Why.REPLAYED}" if replayed else ""
    notice = f"affected: {part.total - len(part.stored)} of {part.total}{again}{why}; the other verdicts are current"
    return replace(part, notices=(*part.notices, notice))


def reuse_unjudged(workspace: Workspace, plan: Plan) -> Plan:
    """Return the plan with executions that were never scored, because a run was stopped or only simulated.

    If such an execution is current, it is scored and the agent does not run. An unreadable history is ignored here:
    the run itself reports it.
    """
    executed: dict[JobKey, Execution] = {}
    if plan.options.record is not None:  # the run must record the calls of the agents' models
        return plan
    if get_history_path(workspace.root).exists():  # opening the history would create it
        with contextlib.suppress(StoreError), workspace.history() as history:
            if history.has_unjudged or any(case.turns is None for case in plan.cases):
                executed = {
                    job: result.execution
                    for job, result in read_results(history, _find_unjudged(workspace, plan))
                    if _can_be_judged(result, plan)
                }
    if not executed:
        return plan
    what = "case is" if len(executed) == 1 else "cases are"
    notice = f"{len(executed)} {what} only judged: an earlier run has the answers of the agent, but no verdict"
    return set_executions(replace(plan, notices=(*plan.notices, notice)), executed)


def _find_unjudged(workspace: Workspace, plan: Plan) -> Mapping[JobKey, StoredVerdict]:
    selector = Selector(workspace.verdicts, make_snapshot(workspace), rejects_replays=plan.options.rejects_replays)
    found = {job: selector.find_unjudged(job, planned) for job, planned in plan.jobs}
    return {job: verdict for job, verdict in found.items() if verdict is not None}


def decide_plan(workspace: Workspace, plan: Plan, *, state: Snapshot | None = None) -> list[Decision]:
    """Decide on each job of a plan. Raises StoreError if the history cannot be read.

    `state` then knows what the words of the reasons need. See `watch_events.describe_reason`.
    """
    state = state or make_snapshot(workspace)
    selector = Selector(workspace.verdicts, state, rejects_replays=plan.options.rejects_replays)
    return [selector.decide(job, planned) for job, planned in plan.jobs]


def make_snapshot(workspace: Workspace) -> Snapshot:
    """Return a snapshot of the present, in which files that agents of the project wrote are known."""
    return Snapshot(leftovers=workspace.verdicts.list_agent_files, libraries=workspace.libraries)


def find_current_verdicts(workspace: Workspace, plan: Plan) -> dict[CaseKey, Sequence[StoredJob]]:
    """Return the current verdicts of cases whose repeats are all current. Raises StoreError."""
    held: dict[CaseKey, list[StoredJob]] = {}
    without: set[CaseKey] = set()
    for each in decide_plan(workspace, plan):
        if each.action is Action.NOTHING and each.verdict is not None:
            stored = each.verdict.job._replace(key=each.job, quarantine=each.planned.current_quarantine)
            held.setdefault(each.job.case, []).append(stored)
        else:
            without.add(each.job.case)
    return {case: jobs for case, jobs in held.items() if case not in without}


def plan_decisions(
    plan: Plan, decisions: Sequence[Decision], *, runs: Collection[Action], history: History | None, with_stored: bool
) -> Plan:
    """Return the part of a plan that follows from decisions: actions in `runs`, and executions to score again.

    With `with_stored`, current verdicts are part of it, so that its summary covers every case. If an execution is no
    longer stored, or `history` is None because it cannot be opened, its case runs again. Raises StoreError.
    """
    actions = {Action.JUDGE, *runs, *([Action.NOTHING] if with_stored else [])}
    wanted = [each for each in decisions if each.action in actions]
    needed = {
        each.job: each.verdict
        for each in wanted
        if each.verdict is not None
        and (each.action is Action.NOTHING or (each.action is Action.JUDGE and not each.planned.is_recorded))
    }
    stored = {} if history is None else dict(read_results(history, needed))
    cases: list[PlannedCase] = []
    kept: dict[JobKey, CaseResult] = {}
    taken_from: dict[JobKey, VerdictKey] = {}
    for decision in wanted:
        result = stored.get(decision.job)
        case = replace(decision.planned, repeat=decision.job.repeat)
        if decision.action is Action.NOTHING and result is not None and decision.verdict is not None:
            kept[decision.job] = result.model_copy(update={"eval_set_id": case.eval_set_id})
            taken_from[decision.job] = get_verdict_key(decision.verdict)
        elif decision.action is Action.JUDGE and result is not None and _can_be_judged(result, plan):
            case = replace(case, executed=result.execution)
        cases.append(case)
    # Each planned case is one repeat; repeats count from 0.
    runs_needed = 1 + max((case.repeat or 0 for case in cases), default=0)
    return replace(
        plan,
        cases=tuple(cases),
        limits=plan.limits.model_copy(update={"runs": runs_needed}),
        stored=kept,
        taken_from=taken_from,
        whole_sets=plan.whole_sets if with_stored else frozenset(),
        selections=plan.selections if with_stored else (),
    )


def read_results(history: History, verdicts: Mapping[JobKey, StoredVerdict]) -> Iterator[tuple[JobKey, CaseResult]]:
    """Yield the stored results of these verdicts with their executions, under the jobs they apply to.

    Results that are no longer stored are skipped. They are read a few at a time because all may not fit into memory.
    """
    judged = {job: verdict for job, verdict in verdicts.items() if verdict.is_judged}
    unjudged = {job: verdict for job, verdict in verdicts.items() if not verdict.is_judged}
    for part, find in ((judged, history.find_results), (unjudged, history.find_unjudged_results)):
        with contextlib.suppress(StoreError):  # the history may have been deleted
            for (job, verdict), result in zip(part.items(), find(_list_jobs(part)), strict=True):
                if result is None:
                    continue
                is_same = verdict.job.key == job  # copying thousands takes as long as reading them
                yield job, result if is_same else result.model_copy(update={"case": job.case, "repeat": job.repeat})


def read_scores(history: History, verdicts: Mapping[JobKey, StoredVerdict]) -> dict[JobKey, MetricScores]:
    """Return the metric scores of these verdicts, as far as they are still stored."""
    found: dict[JobKey, MetricScores] = {}
    with contextlib.suppress(StoreError):  # as above
        for job, scores in zip(verdicts, history.find_metric_scores(_list_jobs(verdicts)), strict=True):
            if scores is not None:
                found[job] = scores
    return found


def _list_jobs(verdicts: Mapping[JobKey, StoredVerdict]) -> list[tuple[str, JobKey]]:
    return [(verdict.job.run_id, verdict.job.key) for verdict in verdicts.values()]


def _can_be_judged(result: CaseResult, plan: Plan) -> bool:
    if plan.options.rejects_replays and result.execution.is_replayed:  # unknown of a verdict that was never judged
        return False
    return bool(result.execution.turns) or result.execution.failure is not None
