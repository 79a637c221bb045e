"""Accepts differences: actual values become expectations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from workbench.engine.accepted_lists import (
    LEGACY,
    TOOL_USES,
    TurnEdit,
    accept_in_events,
    accept_in_lists,
    parts_with_text,
)
from workbench.engine.plan import RERUN_ADVICE, Plan, PlanError, SetContext
from workbench.metrics.registry import prepare
from workbench.model.criteria import EvalConfig
from workbench.model.evalset import EvalCase, IntermediateData, Invocation, InvocationEvents
from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import CaseResult, CaseStatus, Execution, MetricResult, TurnResult
from workbench.model.text import pluralise
from workbench.model.turn_diff import (
    Difference,
    DifferenceKind,
    Path,
    TurnComparison,
    compare_turn,
    find_state_differences,
    find_unexpected_state,
    have_known_calls,
    list_responses,
)
from workbench.report.explanation import could_judge, find_subjects
from workbench.store.errors import StoreError
from workbench.store.evalsets.case_frame import DocumentFormat
from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.store.json.json_path import Place

if TYPE_CHECKING:
    from workbench.engine.open_documents import OpenDocuments
    from workbench.store.history.history import History
    from workbench.store.project_discovery import Project

# The differences of a result, and reasons why they cannot be accepted.

HunkKey = tuple[int | None, DifferenceKind, int | None, int | None, Path]

_OF_CALLS = frozenset(
    {
        DifferenceKind.CALL_MISSING,
        DifferenceKind.CALL_EXTRA,
        DifferenceKind.CALL_MOVED,
        DifferenceKind.ARGUMENT_MISSING,
        DifferenceKind.ARGUMENT_EXTRA,
        DifferenceKind.ARGUMENT_CHANGED,
        DifferenceKind.TOOL_RESPONSE_CHANGED,
    }
)


class AcceptanceRefused(Exception):
    """An execution cannot become the expectation; the message is a sentence that says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """One difference that can be accepted by itself. `turn` counts from 0; None for the final session state."""

    turn: int | None
    difference: Difference

    @property
    def key(self) -> HunkKey:
        """The key of the hunk within its case."""
        found = self.difference
        return (self.turn, found.kind, found.expected_call, found.actual_call, found.path)


def find_hunks(case: EvalCase, execution: Execution, metrics: Sequence[MetricResult] = ()) -> tuple[Hunk, ...]:
    """Find all differences between a case and an execution, in reading order.

    Turns that only one side has are not compared, nor is a final state that the agent did not report. What the case
    does not state, such as a response, is a difference if one of the `metrics` could judge it.
    """
    found = [
        Hunk(turn=number, difference=difference)
        for number, comparison in enumerate(compare_turns(case, execution, metrics))
        for difference in comparison.differences
    ]
    return (*found, *find_state_hunks(case, execution, metrics))


def compare_turns(
    case: EvalCase,
    execution: Execution,
    metrics: Sequence[MetricResult] = (),
    *,
    is_row: bool = False,
    is_recorded: bool = False,
) -> list[TurnComparison]:
    """Compare the turns that both sides have. `metrics` as for `find_hunks`.

    Calls of a row are compared only if both sides have some, and its response only if one is recorded or an agent ran.
    """
    unexpected_response = not is_row and could_judge(metrics, "response")
    turns: Sequence[Invocation] = case.conversation or ()
    pairs = ((wanted, turn.invocation) for wanted, turn in zip(turns, execution.turns, strict=False))
    return [
        compare_turn(
            wanted,
            actual,
            compares_calls=not is_row or have_known_calls(wanted, actual),
            compares_response=not is_recorded or actual.final_response is not None,
            unexpected_response=unexpected_response,
        )
        for wanted, actual in pairs
    ]


def find_state_hunks(case: EvalCase, execution: Execution, metrics: Sequence[MetricResult] = ()) -> list[Hunk]:
    """Find the differences from the expected final state. `metrics` as for `find_hunks`."""
    expected, actual = case.final_session_state, execution.final_state
    found: Sequence[Difference] = ()
    if expected is not None and actual is not None:
        found = find_state_differences(expected, actual)
    elif expected is None and actual and any(find_subjects(metric.name) == ("state",) for metric in metrics):
        found = find_unexpected_state(actual)
    return [Hunk(turn=None, difference=difference) for difference in found]


def explain_refusal(case: EvalCase, result: CaseResult) -> str | None:
    """Return why nothing of this result can be accepted; None if hunks can."""
    if result.status is CaseStatus.ERROR:
        return "the case ended in an error; its incomplete answers cannot become the expectation"
    if case.conversation is None:
        return "a conversation with a simulated user has no expected turns"
    if not result.execution.turns:
        return "the answers of the agent are no longer stored; run the case again"
    for number, (wanted, turn) in enumerate(zip(case.conversation, result.execution.turns, strict=False), start=1):
        if wanted.user_content.text() != turn.invocation.user_content.text():
            return f"turn {number} of the case differs from the prompt that the agent got; run the case again"
    return None


def explain_hunk_refusal(execution: Execution, wanted: Iterable[Hunk]) -> str | None:
    """Return why these hunks cannot be accepted because calls are unknown; None if they can."""
    of_calls = {hunk.turn for hunk in wanted if hunk.turn is not None and hunk.difference.kind in _OF_CALLS}
    return next(
        filter(None, (explain_unknown_calls(execution.turns[number], number) for number in sorted(of_calls))), None
    )


def explain_unknown_calls(turn: TurnResult, number: int) -> str | None:
    """Return why the calls of a turn, counted from 0, are unknown; None if they are known."""
    if turn.calls_unknown is not None:
        return f"the tool calls of turn {number + 1} are unknown: {turn.calls_unknown}"
    if turn.arguments_unknown is not None:
        return f"the arguments of the tool calls of turn {number + 1} are unknown: {turn.arguments_unknown}"
    return None


def explain_whole_refusal(case: EvalCase, result: CaseResult) -> str | None:
    """Return why whole turns, or the whole case, cannot be accepted; None if they can."""
    wanted, given = len(case.conversation or ()), len(result.execution.turns)
    return explain_refusal(case, result) or (
        None if wanted == given else f"the case has {pluralise(wanted, 'turn')}, but the agent got {given}"
    )


# Writing accepted hunks.


def accept(
    document: EvalSetDocument,
    index: int,
    accepted: Sequence[Hunk],
    actual: Execution,
    metrics: Sequence[MetricResult] = (),
) -> None:
    """Make the actual side of these hunks the expectation of the case at `index`, in one step of undo.

    The hunks must be current differences between the document and `actual`, as `find_hunks` finds them. Names and
    arguments are written without ids, responses without thoughts, and tool responses only if the case has some. Raises
    AcceptanceRefused if a hunk is no longer a difference, and StoreError if the edit fails; then nothing is changed.
    """
    known = {hunk.key for hunk in find_hunks(document.case(index), actual, metrics)}
    if any(hunk.key not in known for hunk in accepted):
        raise AcceptanceRefused("the case changed: this difference no longer exists")
    turns: dict[int, list[Hunk]] = {}
    for hunk in accepted:
        if hunk.turn is not None:
            turns.setdefault(hunk.turn, []).append(hunk)
    with document.step("accept what the agent did"):
        for turn, of_turn in turns.items():
            _accept_in_turn(document, index, of_turn, actual.turns[turn].invocation)
        for hunk in accepted:
            if hunk.turn is None:
                _accept_state(document, index, hunk, actual)


def expect_response(document: EvalSetDocument, index: int, turn: int, text: str) -> None:
    """Make a text the expected final response of a turn, counted from 0, whether it had one or not.

    Raises StoreError.
    """
    expected = (document.case(index).conversation or [])[turn]
    _accept_response(_edit_turn(document, index, turn, expected, ()), text)


def _accept_in_turn(document: EvalSetDocument, index: int, accepted: Sequence[Hunk], actual: Invocation) -> None:
    case, turn = document.case(index), accepted[0].turn
    assert turn is not None
    edit = _edit_turn(document, index, turn, actual, [hunk.difference for hunk in accepted])
    if document.format is not DocumentFormat.CURRENT:
        accept_in_lists(edit, LEGACY)
    elif _holds_events(edit.expected, case):
        accept_in_events(edit)
    else:
        accept_in_lists(edit, TOOL_USES)
    for found in edit.of_kind(DifferenceKind.RESPONSE_CHANGED):
        _accept_response(edit, found.actual)


def _edit_turn(
    document: EvalSetDocument, index: int, turn: int, actual: Invocation, accepted: Sequence[Difference]
) -> TurnEdit:
    conversation = document.case(index).conversation or []
    expected = conversation[turn]
    place: dict[DocumentFormat, Place] = {
        DocumentFormat.CURRENT: ("conversation", turn),
        DocumentFormat.LEGACY_EVALS: ("data", turn),
        DocumentFormat.LEGACY_TURNS: (turn,),
    }
    return TurnEdit(
        document,
        index,
        place[document.format],
        expected,
        actual,
        compare_turn(expected, actual),
        accepted,
        has_tool_responses=any(list_responses(other) for other in conversation),
    )


def _holds_events(turn: Invocation, case: EvalCase) -> bool:
    """Whether a turn has the form of events. An empty turn takes the form of the other turns in its case."""
    forms = [turn.intermediate_data, *(other.intermediate_data for other in case.conversation or ())]
    said = next((form for form in forms if form is not None and form != IntermediateData()), None)
    return isinstance(said, InvocationEvents)


def _accept_response(edit: TurnEdit, text: str | None) -> None:
    """Write the text of the final response, or remove the response if the agent gave none."""
    if edit.document.format is not DocumentFormat.CURRENT:
        edit.write(("reference",), text or "")
    elif text is None:
        edit.document.remove_value((*edit.place, "final_response"), case=edit.case)
    else:
        edit.write(("final_response", "parts"), parts_with_text(edit.raw("final_response", "parts"), text))


def _accept_state(document: EvalSetDocument, index: int, hunk: Hunk, actual: Execution) -> None:
    """Write one value of the final state, or remove it if the session ended without it."""
    path = hunk.difference.path
    given: Any = actual.final_state
    for step in path:
        if isinstance(given, dict) and step not in given:
            document.remove_value(("final_session_state", *path), case=index)
            if not document.case(index).final_session_state and actual.final_state:  # {} would expect an empty state
                document.remove_value(("final_session_state",), case=index)
            return
        given = given[step]
    document.set_value(("final_session_state", *path), given, case=index)


# Acceptances of a project: checks, the edit, and scoring afterwards.

_RUNS_LOOKED_AT = 20
"""The number of results of a case to search for the accepted one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """The hunks to accept of a result, as differences from the `shown` case.

    `is_whole`: they are all hunks of a turn or of the case, which needs a conversation with the expected turns.
    `repeats` are the run and the job of each shown repeat, as far as they are stored; empty: those of the newest run.
    """

    shown: EvalCase
    result: CaseResult
    hunks: Sequence[Hunk]
    is_whole: bool = False
    repeats: Mapping[int, tuple[str, JobKey] | None] = field(default_factory=dict)


class _Judgement(NamedTuple):
    scoring_key: str
    config: EvalConfig


class AcceptingProject(Protocol):
    """The open project whose results are accepted: its documents, its history, and plans to score again."""

    @property
    def project(self) -> Project: ...

    @property
    def documents(self) -> OpenDocuments: ...

    def history(self) -> History: ...

    def plan_rescoring(
        self,
        results: Sequence[CaseResult],
        *,
        judged: Mapping[CaseKey, EvalCase],
        criteria: Mapping[str, EvalConfig],
    ) -> Plan: ...


class Acceptances:
    """Accepts results into the documents of one project. Used from one thread at a time."""

    def __init__(self, opened: AcceptingProject) -> None:
        self._opened = opened
        self._versions: dict[CaseKey, list[EvalCase]] = {}  # the cases before and after each acceptance
        self._judged: dict[CaseKey, tuple[EvalCase, CaseResult]] = {}  # the case and the result of the last scoring

    def accept(self, wanted: Acceptance, *, label: str) -> EvalCase:
        """Edit the document in one step of undo and save it; return the new case.

        Raises AcceptanceRefused with the reason, FileChanged if the file changed meanwhile, and StoreError.
        """
        key, documents = wanted.result.case, self._opened.documents
        index = self.check(wanted)
        before = documents.document(key.eval_set).case(index)

        def change(document: EvalSetDocument) -> EvalCase:
            accept(document, index, wanted.hunks, wanted.result.execution, wanted.result.metrics)
            return document.case(index)

        after = documents.edit_and_save(key.eval_set, change, label=label)
        versions = self._versions.setdefault(key, [])
        versions += [case for case in (before, after) if case not in versions]
        self._judged[key] = after, wanted.result
        return after

    def plan_rescoring(
        self,
        result: CaseResult,
        *,
        judged: EvalCase,
        repeats: Mapping[int, tuple[str, JobKey] | None] | None = None,
    ) -> Plan:
        """Plan to score a result, and the other repeats, by the current case.

        `judged` is the case of their last judgement, `repeats` as in `Acceptance`. Raises PlanError.
        """
        newest = self._newest_judgement(result)
        return self._opened.plan_rescoring(
            self._find_repeats(result, repeats or {}),
            judged={result.case: judged},
            criteria={} if newest is None else {result.case.eval_set: newest.config},
        )

    def plans_after_undo(self, eval_sets: Collection[str]) -> Iterator[Plan]:
        """Yield plans to score the newest results of cases after undo or redo of an acceptance.

        Other edits yield no plan, nor do results that cannot be judged.
        """
        for key, (judged, accepted) in list(self._judged.items()):
            now = self._read_case(key) if key.eval_set in eval_sets else None
            if now is None or now == judged or now not in self._versions[key]:
                continue
            result = next(
                (found for found in self._read_newest_results(key) if found.repeat == accepted.repeat), accepted
            )
            self._judged[key] = now, result
            try:
                yield self.plan_rescoring(result, judged=judged)
            except PlanError:
                continue

    def _read_case(self, key: CaseKey) -> EvalCase | None:
        """Return the current case; None if it is missing or unreadable."""
        try:
            document = self._opened.documents.document(key.eval_set)
            return document.case(find_index(document, key))
        except (AcceptanceRefused, StoreError):
            return None

    def check(self, wanted: Acceptance) -> int:
        """Return the index of the case in its document. Raises AcceptanceRefused with the reason, and StoreError."""
        key = wanted.result.case
        document = self._opened.documents.document(key.eval_set)
        index = find_index(document, key)
        case = document.case(index)
        reason = (explain_whole_refusal if wanted.is_whole else explain_refusal)(case, wanted.result)
        reason = reason or explain_hunk_refusal(wanted.result.execution, wanted.hunks)
        if reason is not None:
            raise AcceptanceRefused(reason)
        if case != wanted.shown:
            raise AcceptanceRefused("the case changed since it was shown; look at it again")
        if document.is_dirty:
            raise AcceptanceRefused(
                "the eval set has unsaved edits, and accepting saves the file; save or undo them first"
            )
        if case not in self._versions.get(key, ()) and self._has_changed(wanted.result, case, document):
            raise AcceptanceRefused(f"the case has changed since it was judged; {RERUN_ADVICE}")
        return index

    def _has_changed(self, result: CaseResult, case: EvalCase, document: EvalSetDocument) -> bool:
        """Whether the case differs from the one of the judgement, as far as the history knows."""
        target = self._opened.project.targets.get(result.case.target)
        newest = self._newest_judgement(result)
        if newest is None or target is None or not newest.scoring_key:
            return False
        context = SetContext(eval_set_id=document.eval_set_id, target=target, criteria=prepare(newest.config))
        return context.plan_case(result.case, case).scoring_hash != newest.scoring_key

    def _newest_judgement(self, result: CaseResult) -> _Judgement | None:
        """Return the judgement of a repeat in the newest run of its case; None if the history has none."""
        try:
            with self._opened.history() as history:
                jobs = [found.job for found in history.list_executions(result.case, limit=_RUNS_LOOKED_AT)]
                newest = [job for job in jobs if job.run_id == jobs[0].run_id and job.key.repeat == result.repeat]
                config = history.run(jobs[0].run_id).criteria.get(result.case.eval_set) if newest else None
        except StoreError:
            return None  # without a history only the shown case is known
        return None if config is None else _Judgement(newest[0].scoring_key, config)

    def _find_repeats(
        self, result: CaseResult, repeats: Mapping[int, tuple[str, JobKey] | None]
    ) -> Sequence[CaseResult]:
        found = self._read_results(result.case, repeats) if repeats else self._read_newest_results(result.case)
        return [other for other in found if other.repeat != result.repeat] + [result]

    def _read_results(self, key: CaseKey, repeats: Mapping[int, tuple[str, JobKey] | None]) -> Sequence[CaseResult]:
        """Return these results of a case, of one run or several, as far as they are still stored."""
        places = {repeat: place for repeat, place in repeats.items() if place is not None}
        try:
            with self._opened.history() as history:
                stored = {repeat: history.result(*place) for repeat, place in places.items()}
        except StoreError:
            return []
        return [
            result.model_copy(update={"case": key, "repeat": repeat})
            for repeat, result in stored.items()
            if result is not None and result.execution.turns  # else its trace was deleted
        ]

    def _read_newest_results(self, key: CaseKey) -> Sequence[CaseResult]:
        """Return the results of a case in its newest run; empty if the history has none."""
        try:
            with self._opened.history() as history:
                return history.latest_results([key]).get(key, [])
        except StoreError:
            return []


def find_index(document: EvalSetDocument, key: CaseKey) -> int:
    """Return the index of a case in its document. Raises AcceptanceRefused if it is missing."""
    for entry in document.entries:
        if entry.eval_id == key.eval_id and entry.occurrence == key.occurrence:
            return entry.index
    raise AcceptanceRefused("the case is no longer in its file")
