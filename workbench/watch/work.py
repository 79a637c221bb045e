"""Which of what is decided the watch is to do now: what is let be, what is held back, what goes on too long."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from workbench.engine.workspace import Workspace
from workbench.model.dependencies import DependencyKind
from workbench.model.events import Notice
from workbench.model.keys import JobKey
from workbench.model.results import CaseStatus
from workbench.watch.cap import beyond_cap
from workbench.watch.live import Live
from workbench.watch.news import News
from workbench.watch.selection import Action, Decision, Selector, Why

_MOST_IN_A_ROW = 3
"""How often a case is run again because something changed while it ran, before its verdict is shown all the same."""

_WORK = (Action.RUN, Action.JUDGE)


class Work:
    """What is to be done of what is decided. Knows what was asked of it before, and touches nothing that runs."""

    def __init__(
        self,
        workspace: Workspace,
        *,
        selector: Selector,
        live: Live,
        news: News,
        first: Callable[[JobKey], float],
    ) -> None:
        """`first` sorts jobs that wait: the smallest come first, after those that did not pass last time."""
        self._workspace = workspace
        self._selector = selector
        self._live = live
        self._news = news
        self._first = first
        self._let_be: dict[JobKey, tuple[object, ...]] = {}
        self._left: dict[JobKey, int] = {}
        self._in_a_row: dict[JobKey, int] = {}
        self._written_at: float | None = None
        self.held: set[JobKey] = set()
        """What is more than the user wants to spend on one change."""

    def change_came(self, written_at: float | None) -> None:
        """Allow as many runs as before, but not to what runs or has just ended: the change may be its own work.

        `written_at` is when the last of it was written, None where that is not known.
        """
        self._written_at = written_at
        kept = [job for job in self._in_a_row if self._live.may_have_written(job, written_at)]
        self._in_a_row = {job: self._in_a_row[job] for job in kept}

    def let_be(self, decisions: Iterable[Decision]) -> None:
        """Do nothing about these before a change concerns them."""
        self._let_be.update((each.job, self._question(each)) for each in decisions)

    def leave(self, decisions: Iterable[Decision]) -> None:
        """Do nothing about these before anything changes."""
        self._left.update((each.job, self._live.generation) for each in decisions)

    def take_up(self, decisions: Iterable[Decision]) -> None:
        """These are being done."""
        for each in decisions:
            self._let_be.pop(each.job, None)

    def of(self, decisions: Iterable[Decision], *, all_of_it: bool) -> list[Decision]:
        """What is to be run or judged of these, with `all_of_it` also what no edit can help, but for what runs."""
        return [each for each in decisions if each.job not in self._live and self._is_work(each, all_of_it=all_of_it)]

    def not_of_its_own(self, work: Iterable[Decision]) -> list[Decision]:
        """Leave out cases that any change concerns, and that have run too often because of changes of their own.

        A program that an agent starts may write a file: the next run would write it again.
        """

        def may_be_its_own(decision: Decision) -> bool:
            return _any_change_counts(decision) and self._live.may_have_written(decision.job, self._written_at)

        return [each for each in work if not may_be_its_own(each) or self.may_run(each)]

    def outside_changes(self, decisions: Iterable[Decision]) -> list[Decision]:
        """What needs doing of these, whether or not a change concerns them."""
        return [each for each in decisions if each.action in _WORK]

    def in_order(self, decisions: Iterable[Decision]) -> list[Decision]:
        """These, in the order in which they are wanted."""
        return sorted(decisions, key=lambda each: (self._passed(each.job), self._first(each.job)))

    def hold_back(self, work: Sequence[Decision]) -> str:
        """Keep back what runs agents where that is more than the user wants by itself; why, empty where it is not."""
        self.held.difference_update(each.job for each in work)
        beyond = beyond_cap(work, self._workspace.settings.watch)
        if beyond:
            agents = [each for each in work if each.action is not Action.JUDGE]
            self.held.update(each.job for each in agents)
            self.let_be(agents)
        return beyond

    def may_run(self, decision: Decision) -> bool:
        """Whether a job may be run once more though no save made work of it; says where that has gone on too long."""
        count = self._in_a_row[decision.job] = self._in_a_row.get(decision.job, 0) + 1
        if count == _MOST_IN_A_ROW + 1:
            words = self._news.reason([decision])
            self._news.tell(Notice(severity="warning", message=f"{decision.job.case} is never up to date: {words}"))
        return count <= _MOST_IN_A_ROW

    def _is_work(self, decision: Decision, *, all_of_it: bool) -> bool:
        if decision.action not in _WORK and (
            decision.action is not Action.LEAVE or (decision.job in self._news.known and not all_of_it)
        ):
            return False
        if self._left.get(decision.job) == self._live.generation:
            return False
        return self._let_be.get(decision.job) != self._question(decision)

    def _question(self, decision: Decision) -> tuple[object, ...]:
        """What a job is about: the same as long as no change has concerned it."""
        planned = decision.planned
        generation = self._live.generation if _any_change_counts(decision) else None
        now = (self._selector.signature(decision), self._selector.judging_signature(decision), generation)
        return planned.execution_hash, planned.scoring_hash, *now

    def _passed(self, job: JobKey) -> bool:
        newest = self._workspace.verdicts.newest(job)
        return newest is not None and newest.job.status is CaseStatus.PASSED


def _any_change_counts(decision: Decision) -> bool:
    """Whether what it depends on is not known, or cannot be followed."""
    return any(
        reason.why is Why.UNKNOWN or (reason.row is not None and reason.row.kind == DependencyKind.OPAQUE)
        for reason in decision.reasons
    )
