"""Accepting in a project: the checks that keep it from destroying anything, the edit, and what is scored again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from workbench.engine.accepting import Hunk, Refused, refusal, refusal_of_hunks, refusal_of_whole
from workbench.engine.accepting.accept import accept
from workbench.engine.plan import Plan, PlanError
from workbench.engine.set_context import SetContext
from workbench.model.criteria import EvalConfig
from workbench.model.evalset import EvalCase
from workbench.model.keys import CaseKey
from workbench.model.results import CaseResult
from workbench.store.documents import EvalSetDocument
from workbench.store.errors import StoreError

if TYPE_CHECKING:
    from workbench.engine.workspace import Workspace

_RUNS_LOOKED_AT = 20
"""How many results of a case are looked through for the one that is accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """What is to be accepted: of this result these hunks, found against the case as it is `shown`.

    `is_whole`: they are all those of a turn or of the case, which is only for a conversation that took its course.
    """

    shown: EvalCase
    result: CaseResult
    hunks: Sequence[Hunk]
    is_whole: bool = False


class _Judgement(NamedTuple):
    """What a result was judged by."""

    scoring_key: str
    config: EvalConfig


class Acceptances:
    """Accepts results into the documents of one workspace. Used from one thread at a time."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._versions: dict[CaseKey, list[EvalCase]] = {}  # of a case: those that accepting started from and led to
        self._judged: dict[CaseKey, tuple[EvalCase, CaseResult]] = {}  # how cases were when results were judged again

    def accept(self, wanted: Acceptance, *, label: str) -> EvalCase:
        """Edit the document of the case in one step of undo, and save it; gives the case as it is now.

        Raises Refused with the reason, FileChanged where the file changed meanwhile, and StoreError.
        """
        key, documents = wanted.result.case, self._workspace.documents
        document = documents.document(key.eval_set)
        index = index_of(document, key)
        self._check(wanted, document, index)
        before = document.case(index)

        def change(document: EvalSetDocument) -> EvalCase:
            accept(document, index, wanted.hunks, wanted.result.execution)
            return document.case(index)

        after = documents.edit_and_save(key.eval_set, change, label=label)
        versions = self._versions.setdefault(key, [])
        versions += [case for case in (before, after) if case not in versions]
        self._judged[key] = after, wanted.result
        return after

    def plan_rescoring(self, result: CaseResult, *, judged: EvalCase) -> Plan:
        """The plan that judges a result, and the other repeats of its run, by the case as it is now.

        `judged` is the case that they were held against. Raises PlanError.
        """
        newest = self._newest_judgement(result)
        return self._workspace.plan_rescoring(
            self._repeats_of(result),
            judged={result.case: judged},
            criteria={} if newest is None else {result.case.eval_set: newest.config},
        )

    def plans_after_undo(self, eval_sets: Collection[str]) -> Iterator[Plan]:
        """The plans that judge the newest results of cases again where accepting was undone, or done again.

        Of any other edit there is none, nor where a result cannot be judged: its verdict stays what it was.
        """
        for key, (judged, accepted) in list(self._judged.items()):
            now = self._case_now(key) if key.eval_set in eval_sets else None
            if now is None or now == judged or now not in self._versions[key]:
                continue
            result = next((found for found in self._newest(key) if found.repeat == accepted.repeat), accepted)
            self._judged[key] = now, result
            try:
                yield self.plan_rescoring(result, judged=judged)
            except PlanError:
                continue

    def _case_now(self, key: CaseKey) -> EvalCase | None:
        """A case as it is now; None where it has gone or cannot be read."""
        try:
            document = self._workspace.documents.document(key.eval_set)
            return document.case(index_of(document, key))
        except (Refused, StoreError):
            return None

    def _check(self, wanted: Acceptance, document: EvalSetDocument, index: int) -> None:
        key, case = wanted.result.case, document.case(index)
        reason = (refusal_of_whole if wanted.is_whole else refusal)(case, wanted.result)
        reason = reason or refusal_of_hunks(wanted.result.execution, wanted.hunks)
        if reason is not None:
            raise Refused(reason)
        if case != wanted.shown:
            raise Refused("the case is no longer as it was shown; look at it again")
        if document.dirty:
            raise Refused("the eval set has edits that are not saved, and accepting saves; save or undo them first")
        if case not in self._versions.get(key, ()) and self._has_changed(wanted.result, case, document):
            raise Refused("the case has changed since it was judged; run it again")

    def _has_changed(self, result: CaseResult, case: EvalCase, document: EvalSetDocument) -> bool:
        """Whether the case is another than the result was judged by, as far as the history knows."""
        target = self._workspace.project.targets.get(result.case.target)
        newest = self._newest_judgement(result)
        if newest is None or target is None or not newest.scoring_key:
            return False
        context = SetContext(eval_set_id=document.eval_set_id, target=target, config=newest.config)
        return context.plan(result.case, case).scoring_hash != newest.scoring_key

    def _newest_judgement(self, result: CaseResult) -> _Judgement | None:
        """How a repeat of a case was judged in the newest run of the case; None where the history does not know."""
        try:
            with self._workspace.history() as history:
                jobs = [found.job for found in history.executions_of(result.case, limit=_RUNS_LOOKED_AT)]
                newest = [job for job in jobs if job.run_id == jobs[0].run_id and job.key.repeat == result.repeat]
                config = history.run(jobs[0].run_id).criteria.get(result.case.eval_set) if newest else None
        except StoreError:
            return None  # no history is kept: what is shown is all there is
        return None if config is None else _Judgement(newest[0].scoring_key, config)

    def _repeats_of(self, result: CaseResult) -> Sequence[CaseResult]:
        return [other for other in self._newest(result.case) if other.repeat != result.repeat] + [result]

    def _newest(self, key: CaseKey) -> Sequence[CaseResult]:
        """The results of a case in its newest run, as far as the history knows."""
        try:
            with self._workspace.history() as history:
                return history.latest_results([key]).get(key, [])
        except StoreError:
            return []


def index_of(document: EvalSetDocument, key: CaseKey) -> int:
    """Where a case stands in its document. Raises Refused where it is gone."""
    for entry in document.entries:
        if entry.eval_id == key.eval_id and entry.occurrence == key.occurrence:
            return entry.index
    raise Refused("the case is no longer in its file")
