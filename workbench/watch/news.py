"""What a watch tells: in which words, and what of it was told already."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from workbench.engine.plan import PlannedCase
from workbench.engine.summary import Verdict, summarise, verdict_of
from workbench.model.events import Notice
from workbench.model.keys import JobKey
from workbench.model.results import CaseResult, MetricScores
from workbench.model.spending import ModelSpending, by_model
from workbench.store.history import StoredVerdict
from workbench.watch.events import AllKnown, ChangeSeen, Decided, SourceBroken, VerdictKnown, VerdictsHold, WatchEvent
from workbench.watch.reasons import summary_of
from workbench.watch.selection import Action, Decision, Place, path_of, place_of
from workbench.watch.state import BrokenSource, State
from workbench.watch.watcher import Change

_WRONG = "something is wrong with it"  # what that is follows


class News:
    """The events of one watch, in the order in which they became true."""

    def __init__(self, root: Path, state: State) -> None:
        self._root = root
        self._state = state
        self._events: asyncio.Queue[WatchEvent | None] = asyncio.Queue()
        self._broken: frozenset[BrokenSource] = frozenset()
        self.shown: dict[JobKey, Place] = {}
        """The verdict of each job that was told last."""
        self.known: dict[JobKey, Verdict] = {}
        """What of it counts in a summary."""
        self._spent: list[ModelSpending] = []
        self.problems: list[Notice] = []
        """What is wrong or missing beside the cases, and was not told yet."""

    async def events(self) -> AsyncIterator[WatchEvent]:
        """Everything that is told, until `end`."""
        while (event := await self._events.get()) is not None:
            yield event

    def end(self) -> None:
        """Nothing more will be told."""
        self._events.put_nowait(None)

    def tell(self, event: WatchEvent) -> None:
        """Tell something as it is."""
        self._events.put_nowait(event)

    def keep(self, jobs: Collection[JobKey]) -> None:
        """Forget what was told of jobs other than these."""
        for job in [job for job in self.shown if job not in jobs]:
            del self.shown[job]
            self.known.pop(job, None)

    def verdict(
        self, planned: PlannedCase, result: CaseResult, *, saved_at: float | None, place: Place, holds: bool = True
    ) -> None:
        """A verdict on how things are now; `saved_at` is when the save was seen that made work of it (monotonic)."""
        job = JobKey(case=result.case, repeat=result.repeat)
        self.shown[job] = place
        self.known[job] = verdict_of(result)
        since = None if saved_at is None else time.monotonic() - saved_at
        self.tell(VerdictKnown.trusted(result=result, case=planned.case, holds=holds, seconds_since_save=since))

    def verdicts_hold(self, verdicts: Mapping[JobKey, StoredVerdict], planned: Mapping[JobKey, PlannedCase]) -> None:
        """Verdicts of earlier runs hold. What their metrics scored is told to `count`, as reading it takes longer."""
        self.shown.update((job, place_of(verdict)) for job, verdict in verdicts.items())
        self.tell(VerdictsHold(verdicts, planned))

    def count(self, verdicts: Mapping[JobKey, StoredVerdict], scores: Mapping[JobKey, MetricScores]) -> None:
        """Let verdicts that hold count in summaries, those that are still the last that was told."""
        for job, verdict in verdicts.items():
            if self.shown.get(job) == place_of(verdict):
                failure = verdict.job.failure
                kind = None if failure is None else failure.kind
                self.known[job] = Verdict(
                    verdict.job.status, kind, scores.get(job, ()), is_partly_judged=verdict.job.misses_samples
                )

    def decided(self, decisions: Sequence[Decision], work: Sequence[Decision], *, held: Collection[JobKey]) -> None:
        """How every job stands, which of them are to be run or judged now, and which wait for the user's word."""
        broken = tuple(self._broken_for(decisions))
        self.tell(Decided(tuple(decisions), tuple(work), broken, frozenset(held)))

    def change(
        self, change: Change, decisions: Sequence[Decision], work: Sequence[Decision], *, held: str, is_used: bool
    ) -> None:
        """Something was saved, and this is to be done because of it; `held` is why it is not done by itself.

        `is_used`: it is source, or something that cases or their plan have used.
        """
        actions = [each.action for each in work]
        self.tell(
            ChangeSeen(
                at=datetime.now(UTC),
                paths=tuple(sorted(self._relative(path) for path in change.paths if path != self._root)),
                run=sum(action is not Action.JUDGE for action in actions),
                judged=actions.count(Action.JUDGE),
                waiting=sum(each.action is Action.WAIT for each in decisions),
                total=len(decisions),
                reason=self.reason(work) or (_WRONG if any(each.severity == "error" for each in self.problems) else ""),
                held=held,
                is_used=is_used or bool(work),
            )
        )

    def wrong(self, decisions: Sequence[Decision]) -> None:
        """Problems beside the cases, and each file that cannot be compiled, once until it is another text."""
        for problem in self.problems:
            self.tell(problem)
        self.problems.clear()
        found = self._broken_for(decisions)
        for broken, cases in found.items():
            if broken not in self._broken:
                shown = self._relative(broken.path)
                self.tell(SourceBroken(path=shown, line=broken.line, message=broken.message, cases=cases))
        self._broken = frozenset(found)

    def all_known(self, decisions: Sequence[Decision]) -> None:
        """Nothing is running or waiting."""
        stale = sum(each.action is not Action.NOTHING for each in decisions)
        summary = summarise(list(self.known.values())).model_copy(update={"models": by_model(self._spent)})
        self._spent.clear()
        self.tell(AllKnown(summary=summary, stale=stale))

    def spent(self, models: Iterable[ModelSpending]) -> None:
        """A run of the watch is over, and this is what it asked models; told with how all cases stand."""
        self._spent.extend(models)

    def reason(self, decisions: Sequence[Decision]) -> str:
        """What made work of these, in words."""
        return summary_of(decisions, root=self._root, state=self._state)

    def _broken_for(self, decisions: Iterable[Decision]) -> dict[BrokenSource, int]:
        """The files that cannot be compiled and that cases wait for, each with how many do."""
        concerned: dict[str, int] = {}
        for decision in decisions:
            if decision.action is Action.WAIT:
                for path in {path_of(reason.row) for reason in decision.reasons if reason.row is not None}:
                    concerned[path] = concerned.get(path, 0) + 1
        found = ((self._state.broken(path), cases) for path, cases in concerned.items())
        return {broken: cases for broken, cases in found if broken is not None}

    def _relative(self, path: object) -> str:
        return str(path).removeprefix(f"{self._root}/")
