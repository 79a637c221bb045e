"""Calls that read, edit, save and restore eval sets, also with cases from chats and from a model."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.engine.plan import Plan, PlanError
from workbench.model.evalset import ConversationScenario, ScenarioRequest, SessionInput
from workbench.model.identity import CaseKey, JobKey
from workbench.model.text import pluralise
from workbench.simulation.users import UserOptions, check_scenario
from workbench.store.errors import IsDataset, NotLoaded, StoreError
from workbench.store.evalsets.case_frame import DocumentFormat
from workbench.store.evalsets.case_reader import CaseFault, InvalidData, validate_data
from workbench.store.evalsets.new_evalsets import insert_scenarios, refuse_older_format, to_scenario
from workbench.store.json.json_path import format_place
from workbench.tui.backend.project_calls import (
    WorkspaceCall,
    find_row_problems,
    is_history_dataset,
    open_history_row,
    open_row,
    run_in_own_thread,
)
from workbench.tui.state.call_line import KnownCalls
from workbench.tui.state.case_edits import Edit
from workbench.tui.state.case_outline import (
    OutlineRow,
    Place,
    case_rows,
    get_value,
    legacy_rows,
    normalize_place,
    set_rows,
)
from workbench.tui.state.editor_state import Edited, OpenedDocument
from workbench.tui.state.problem_list import SetProblem

if TYPE_CHECKING:
    from workbench.engine.acceptance import Acceptance
    from workbench.engine.chat_session import Chat, ChatBranch, NewCase
    from workbench.engine.run import Run
    from workbench.engine.scenario_generation import Generation
    from workbench.engine.workspace import Workspace
    from workbench.model.evalset import EvalCase
    from workbench.model.results import CaseResult, Execution, TurnResult
    from workbench.store.evalsets.evalset_document import EvalSetDocument
    from workbench.watch.file_watcher import FileChange, Watcher
    from workbench.watch.watch_session import WatchedSources


# Eval sets: their problems and unsaved edits.

MOST_PROBLEMS = 1_000
"""Maximum number of problems listed for one eval set; the others are only counted."""
_CHECKED_AT_ONCE = 500
"""Cases checked against the rules of ADK in one call, which takes about a tenth of a second."""


def add_conversation(document: EvalSetDocument, result: CaseResult, case: EvalCase) -> str:
    """Add the conversation of a simulated user and the agent as a fixed case. Return its id."""
    from workbench.engine.chat_session import make_fixed_case, write_case  # with the engine: not before it is needed

    new = make_fixed_case(result, case, taken={entry.eval_id for entry in document.entries})
    write_case(document, new)
    return new.eval_id


def list_changed_cases(workspace: Workspace) -> dict[str, frozenset[str]]:
    """List the ids of unsaved cases for each set with unsaved edits. Leave out sets that cannot be read."""
    changed = {}
    for eval_set in workspace.documents.dirty():
        with contextlib.suppress(StoreError):  # the list of sets shows the problem
            changed[eval_set] = workspace.documents.get_status(eval_set).changed_cases
    return changed


def find_problems(workspace: Workspace, eval_set: str) -> Sequence[SetProblem]:
    """List the problems of a set, of its file and of its cases. Call `check_cases` before for all of them."""
    documents = workspace.documents
    try:
        standing = documents.get_status(eval_set)
    except IsDataset:
        return _find_dataset_problems(workspace, eval_set)
    except StoreError as error:
        return [_make_problem(error)]
    document = documents.document(eval_set)
    found: list[SetProblem] = []
    if standing.changed_on_disk:
        change = "was deleted" if standing.deleted_on_disk else "changed on disk"
        choice = "whether to write it again" if standing.deleted_on_disk else "which to keep"
        message = f"it {change} while it has unsaved edits: decide {choice}"
        found.append(SetProblem(document.path, message, conflict=True))
    if standing.problem is not None:
        found.append(_make_problem(standing.problem, note="; the last valid version is shown"))
    errors = document.errors if document.check_cases(0) else document.errors_here
    for item in errors[:MOST_PROBLEMS]:
        entry = None if item.case is None else document.entries[item.case]
        case = None if entry is None else (entry.eval_id, entry.occurrence)
        found.append(
            SetProblem(document.path, item.message, place=item.place, line=item.line, column=item.column, case=case)
        )
    if len(errors) > MOST_PROBLEMS:
        found.append(SetProblem(document.path, pluralise(len(errors) - MOST_PROBLEMS, "more problem")))
    return found


def check_cases(workspace: Workspace, eval_set: str) -> bool:
    """Check some more cases of a set against the rules of ADK. Return True if all are checked."""
    try:
        return workspace.documents.document(eval_set).check_cases(_CHECKED_AT_ONCE)
    except StoreError:  # `find_problems` reports it
        return True


def _find_dataset_problems(workspace: Workspace, eval_set: str) -> Sequence[SetProblem]:
    try:
        found = find_row_problems(workspace, eval_set)
    except NotLoaded:
        return []
    except StoreError as error:
        return [_make_problem(error)]
    more = len(found) - MOST_PROBLEMS
    rest = [SetProblem(found[0].path, f"{more:,} more problems")] if more > 0 else []
    return [*found[:MOST_PROBLEMS], *rest]


def _make_problem(error: StoreError, *, note: str = "") -> SetProblem:
    path = error.path if isinstance(error.path, Path) else None
    return SetProblem(path, error.message + note, place=error.place, line=error.line, column=error.column)


# Operations of the browser on cases: functions of a document, for `OpenDocuments.edit_and_save`.


@dataclass(frozen=True, slots=True)
class CopiedCase:
    """A case to add to another set. `text` is None unless the case has comments, which `data` would lose."""

    eval_id: str
    format: str
    data: Any
    text: str | None


def add_case(document: EvalSetDocument, eval_id: str, *, after: CaseKey | None) -> None:
    """Insert a case with one empty turn, after another case or at the end."""
    index = len(document) if after is None else get_case_index(document, after) + 1
    turn = {"user_content": {"role": "user", "parts": [{"text": ""}]}}
    data: dict[str, Any] = {"eval_id": eval_id, "conversation": [turn]}
    if not _is_current(document):
        data = {"name": eval_id, "data": [{"query": "", "expected_tool_use": [], "reference": ""}]}
    document.insert_case(index, data)


def rename_case(document: EvalSetDocument, key: CaseKey, eval_id: str) -> None:
    """Give a case another id."""
    if document.is_named_by_file:
        raise StoreError(document.path, "its case has its id from the file name: rename the eval set")
    document.set_value((_name_key(document),), eval_id, case=get_case_index(document, key))


def duplicate_case(document: EvalSetDocument, key: CaseKey, eval_id: str) -> None:
    """Insert a copy of a case after it, under another id."""
    document.duplicate_case(get_case_index(document, key), eval_id=eval_id)


def delete_cases(document: EvalSetDocument, keys: Sequence[CaseKey]) -> None:
    document.remove_cases(_get_case_indexes(document, keys))


def move_case(document: EvalSetDocument, key: CaseKey, by: int) -> None:
    """Move a case up (negative) or down in its set, as far as there is room."""
    index = get_case_index(document, key)
    document.move_case(index, min(max(index + by, 0), len(document) - 1))


def copy_cases(document: EvalSetDocument, keys: Sequence[CaseKey]) -> list[CopiedCase]:
    """Copy cases for another set, in the order of this one."""
    taken, pieces = [], document.pieces_of_cases()
    for index in sorted(_get_case_indexes(document, keys)):
        strict = pieces[index].strict
        text = None if strict else document.case_text(index)
        taken.append(CopiedCase(document.entries[index].eval_id, document.format, document.raw_case(index), text))
    return taken


def append_cases(document: EvalSetDocument, cases: Sequence[CopiedCase]) -> None:
    """Append cases of another set. Raises StoreError for a duplicate id or a different format."""
    taken = {entry.eval_id for entry in document.entries}
    for case in cases:
        if case.eval_id in taken:
            raise StoreError(document.path, f"it already has a case {case.eval_id!r}: rename one of them first")
        if case.format != document.format:
            raise StoreError(
                document.path, found=f"the format {document.format}", expected=f"{case.format}, the format of the case"
            )
        document.insert_case(len(document), case.data)
        if case.text is not None:
            document.set_case_text(len(document) - 1, case.text)


def get_case_index(document: EvalSetDocument, key: CaseKey) -> int:
    """Return the index of a case in its file. Raises StoreError if it is missing."""
    return _get_case_indexes(document, [key])[0]


def _get_case_indexes(document: EvalSetDocument, keys: Sequence[CaseKey]) -> list[int]:
    known = {(entry.eval_id, entry.occurrence): entry.index for entry in document.entries}
    for key in keys:
        if (key.eval_id, key.occurrence) not in known:
            raise StoreError(document.path, f"the case {key.eval_id!r} is no longer in this file; F5 looks for changes")
    return [known[key.eval_id, key.occurrence] for key in keys]


def _is_current(document: EvalSetDocument) -> bool:
    return document.format is DocumentFormat.CURRENT


def _name_key(document: EvalSetDocument) -> str:
    return "eval_id" if _is_current(document) else "name"


# Cases and sets in the editor: read as rows, validate an edit, and edit.

_OLD_FORMAT = "an old format, edited with its own keys; `workbench eval-set migrate` converts it to the current one"


class EditRefused(Exception):
    """The edit would make the data invalid; the message says where and why. Nothing was changed."""


class Outdated(Exception):
    """The document has changed since the user opened it. Nothing was changed by the edit."""


def find_fault(workspace: Workspace, opened: OpenedDocument, edit: Edit) -> str | None:
    """Describe what would be wrong after an edit, and where; None if nothing would. Raises StoreError."""
    document = workspace.documents.document(opened.edited.eval_set)
    return _apply(edit, document.make_scratch(), opened)


_MOST_SEARCHED = 2_000  # cases


_MOST_ASKED = 20  # cases whose recorded requests are looked for


def find_known_calls(workspace: Workspace, target: str, own: Sequence[str], others: Sequence[str]) -> KnownCalls:
    """Collect the calls and declared tools of these sets as far as they can be read, first of the agent's own sets,
    and the tools that the agent offered a model in a recorded request.
    """
    known = KnownCalls(others=KnownCalls())
    left = _MOST_SEARCHED
    for eval_set in (*own, *others):
        if not left:
            break
        try:
            document = workspace.documents.document(eval_set)
        except (StoreError, IsDataset):
            continue
        found = known if eval_set in own else known.others or known
        for index in range(min(len(document), left)):
            with contextlib.suppress(StoreError):
                found.add_data(document.raw_case(index))
        left -= min(len(document), left)
        if found is known and target:
            known.add_data(_find_offered_tools(workspace, target, eval_set, document))
    return known


def _find_offered_tools(workspace: Workspace, target: str, eval_set: str, document: EvalSetDocument) -> list[Any]:
    """Return the tools that the agent offered a model in one of its newest recorded requests; they are plain JSON."""
    for entry in document.entries[:_MOST_ASKED]:
        case = CaseKey(target=target, eval_set=eval_set, eval_id=entry.eval_id, occurrence=entry.occurrence)
        with contextlib.suppress(StoreError):
            for recorded in workspace.iter_stored_calls(JobKey(case=case)):
                tools = [tool for call in recorded.calls for tool in _list_tools(call.request)]
                if tools:
                    return tools
    return []


def _list_tools(request: Mapping[str, Any]) -> list[Any]:
    """Return the tools in the body of a request, or in what ADK keeps of it."""
    body = request.get("body")
    places = (body, body.get("config") if isinstance(body, Mapping) else None, request, request.get("config"))
    found = (place.get("tools") for place in places if isinstance(place, Mapping))
    return next((tools for tools in found if isinstance(tools, list)), [])


def make_edit(workspace: Workspace, opened: OpenedDocument, edit: Edit, *, label: str) -> None:
    """Make an edit as one step of undo, without saving it. Raises EditRefused, Outdated and StoreError."""

    def change(document: EvalSetDocument) -> None:
        if document.revision != opened.revision:
            raise Outdated
        fault = _apply(edit, document, opened)
        if fault is not None:
            raise EditRefused(fault)

    workspace.documents.edit(opened.edited.eval_set, change, label=label)


def open_edited(workspace: Workspace, edited: Edited, known: OpenedDocument | None) -> OpenedDocument:
    """Read a case or set with its unsaved edits. Return `known` if nothing has changed. Raises StoreError."""
    if edited.case is not None and is_history_dataset(workspace, edited.case):
        return open_history_row(workspace, edited, edited.case)
    try:
        document = workspace.documents.document(edited.eval_set)
    except IsDataset:
        return open_row(workspace, edited, known)
    is_changed = _is_changed(document, edited)
    now = (edited, document.revision, is_changed)
    if known is not None and (known.edited, known.revision, known.is_changed) == now:
        return known
    if edited.case is None:
        return _open_set(document, edited)
    index = document.find_index(edited.case.eval_id, occurrence=edited.case.occurrence)
    return _open_case(document, edited, index)


def _open_set(document: EvalSetDocument, edited: Edited) -> OpenedDocument:
    current = _is_current(document)
    header = _header(document)
    return OpenedDocument(
        edited=edited,
        index=None,
        data=header,
        rows=set_rows(header) if current else (),
        revision=document.revision,
        is_changed=document.is_dirty,
        note="" if current else "an old format, in which a set has no keys of its own",
    )


def _open_case(document: EvalSetDocument, edited: Edited, index: int) -> OpenedDocument:
    current = _is_current(document)
    data: Any = None
    rows: Sequence[OutlineRow] = ()
    note = ""
    try:
        data = document.raw_case(index)
    except StoreError as error:
        problem = f"{error}; its JSON can only be edited as text"
    else:
        rows = case_rows(data) if current else legacy_rows(data)
        fault = document.find_fault(data)
        problem = _find_duplicate_id(document, index) if fault is None else _format_fault(fault)
        note = "" if current else _OLD_FORMAT
    return OpenedDocument(
        edited=edited,
        index=index,
        data=data,
        rows=rows,
        revision=document.revision,
        is_changed=_is_changed(document, edited),
        problem=problem,
        note=note,
    )


def _find_duplicate_id(document: EvalSetDocument, index: int) -> str:
    """Describe a duplicate id, which makes results ambiguous; empty if the id is unique."""
    eval_id = document.entries[index].eval_id
    if any(entry.eval_id == eval_id for entry in document.entries if entry.index != index):
        return f"{eval_id!r} is also the id of another case of this set: rename one of them"
    return ""


def _is_changed(document: EvalSetDocument, edited: Edited) -> bool:
    if edited.case is None:
        return document.is_dirty
    return document.is_dirty and edited.case.eval_id in document.list_changed_cases()


def _header(document: EvalSetDocument) -> dict[str, Any]:
    return {key: value for key, value in document.header.items() if key != document.cases_key}


def _apply(edit: Edit, document: EvalSetDocument, opened: OpenedDocument) -> str | None:
    """Apply an edit and return what it makes wrong. A fault from before does not prevent other repairs."""
    before = _data(document, opened)
    edit.apply(document, case=opened.index)
    after = _data(document, opened)
    if opened.index is None:
        set_id = get_value(after, ("eval_set_id",))
        is_new = set_id != get_value(before, ("eval_set_id",))
        if is_new and (not isinstance(set_id, str) or not set_id.strip()):
            return "eval_set_id: expected an id"
        return None
    id_fault = _check_id(document, opened.index, before, after)
    if id_fault is not None:
        return id_fault
    fault = document.find_fault(after)
    if fault is None:
        return None
    old = document.find_fault(before)
    if old is not None and (fault == old or not _overlaps(fault.place, edit.cursor_place)):
        return None
    return _format_fault(fault)


def _data(document: EvalSetDocument, opened: OpenedDocument) -> Any:
    return _header(document) if opened.index is None else document.raw_case(opened.index)


def _check_id(document: EvalSetDocument, index: int, data: Any, after: Any) -> str | None:
    """Describe the problem of a new case id: missing or duplicate; None if it has no problem."""
    key = _name_key(document)
    new = get_value(after, (key,))
    if document.is_named_by_file or new == get_value(data, (key,)):
        return None
    if not isinstance(new, str) or not new.strip():
        return f"{key}: expected an id"
    if any(entry.eval_id == new for entry in document.entries if entry.index != index):
        return f"{key}: {new!r} is the id of another case of this set"
    return None


def _overlaps(one: Place, other: Place) -> bool:
    """Return True if one of two places contains the other."""
    shorter = min(len(one), len(other))
    return normalize_place(one)[:shorter] == normalize_place(other)[:shorter]


def _format_fault(fault: CaseFault) -> str:
    where = format_place(fault.place)
    return f"{where + ': ' if where else ''}found {fault.found}, expected {fault.expected}"


def keep_typed_texts(workspace: Workspace, texts: Sequence[Any]) -> None:
    """Store the unapplied texts of this session, so that they survive a crash. Raises StoreError.

    The edits come first: a text that was applied leaves its file only once the edit is in a recovery file.
    """
    workspace.documents.write_recovery_files()
    workspace.typed_texts.write(texts)


# Acceptance: edits of expectations, and runs that rescore the affected results.


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A run that only rescores, with its jobs."""

    run: Run
    jobs: Sequence[JobKey]


class Accepting:
    """Makes actual behaviour of an agent the expectation of a case."""

    def __init__(self, call: WorkspaceCall, edit: WorkspaceCall) -> None:
        self._call = call
        self._edit = edit
        self._accepted: set[str] = set()  # eval sets with accepted results

    async def accept(self, wanted: Acceptance, *, label: str) -> StartedRun | str:
        """Edit and save the case, then rescore its result. Return the run, or the reason why rescoring is impossible.

        Raises EditRefused, FileChanged and StoreError if the case cannot be edited.
        """

        def accept(workspace: Workspace) -> StartedRun | str:
            workspace.acceptances.accept(wanted, label=label)
            try:
                plan = workspace.acceptances.plan_rescoring(wanted.result, judged=wanted.shown, repeats=wanted.repeats)
            except PlanError as error:
                return str(error)
            return _start_run(workspace, plan)

        begun = await self._edit(accept)
        self._accepted.add(wanted.result.case.eval_set)
        return begun

    async def score_undone(self, eval_sets: Collection[str]) -> Sequence[StartedRun]:
        """Rescore the results in these sets whose acceptance was undone or redone since they were scored."""
        if self._accepted.isdisjoint(eval_sets):
            return []

        def score(workspace: Workspace) -> Sequence[StartedRun]:
            return [_start_run(workspace, plan) for plan in workspace.acceptances.plans_after_undo(eval_sets)]

        return await self._call(score)


def _start_run(workspace: Workspace, plan: Plan) -> StartedRun:
    from workbench.engine.run import Holds

    return StartedRun(workspace.start(plan, holds=Holds.VERDICTS), [job for job, _ in plan.jobs])


# Reports saves of files that verdicts may depend on, while no watch is active. They cause no runs.

_DATA = frozenset({".json", ".jsonl", ".csv", ".parquet"})  # formats of eval sets, criteria and datasets
_LEARN = 2.0  # seconds of results of a run, after which the files that it used are observed


class SavedFiles:
    """Observes the files of the project with its own watcher."""

    def __init__(self, call: WorkspaceCall) -> None:
        self._call = call
        self._may_have_new = asyncio.Event()

    def learn(self) -> None:
        """Observe the files soon that runs of this session have used since, in any folder."""
        self._may_have_new.set()

    async def observe(self, report: Callable[[], object]) -> None:
        """Report each save until cancelled. Also report newly observed files, because they may have changed before.

        Raises StoreError if the history cannot be read.
        """
        workspace = await self._call(lambda workspace: workspace)
        watcher, sources = await run_in_own_thread(lambda: _make_watcher(workspace))
        async with watcher:
            await sources.watch_dependencies()
            report()
            learning = asyncio.create_task(self._observe_new_dependencies(sources, report))
            try:
                async for change in watcher.changes():
                    if _may_matter(change, sources):
                        report()
            finally:
                sources.stop()
                learning.cancel()
                await asyncio.wait({learning})

    async def _observe_new_dependencies(self, sources: WatchedSources, report: Callable[[], object]) -> None:
        while True:
            await self._may_have_new.wait()
            await asyncio.sleep(_LEARN)
            self._may_have_new.clear()
            if await sources.watch_dependencies():
                report()


def _make_watcher(workspace: Workspace) -> tuple[Watcher, WatchedSources]:
    from workbench.watch.file_watcher import Watcher
    from workbench.watch.folder_scanner import Folders
    from workbench.watch.watch_session import WatchedSources

    watcher = Watcher(Folders.from_targets(workspace.root, workspace.project.targets.values()))
    return watcher, WatchedSources(watcher, workspace.libraries, workspace.verdicts, root=workspace.root)


def _may_matter(change: FileChange, sources: WatchedSources) -> bool:
    """Return False for files that no case has ever used, and that are neither source nor data: logs, notes."""
    return sources.is_used(change) or any(path.suffix in _DATA for path in change.paths)


# Manual chats with an agent, saved as eval cases.


class CannotChat(Exception):
    """The agent cannot be opened for a chat; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFacts:
    """Facts about an eval set for a new case: its ids, and whether its format can hold a final state."""

    eval_ids: frozenset[str]
    holds_final_state: bool


def open_chat(
    workspace: Workspace, target: str, *, session_input: SessionInput, branch: ChatBranch | None = None
) -> Chat:
    """Open a session with the agent of a target; its process starts with the first message.

    The turns of `branch` are replayed at once. Raises CannotChat. The chat lives until it is ended, or the backend is
    closed.
    """
    from workbench.engine.chat_session import ChatError  # with the engine: not before it is needed

    try:
        return workspace.chat(target, session_input=session_input, branch=branch)
    except ChatError as error:
        raise CannotChat(str(error)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedBranch:
    """A branch and what to know before it begins: which tools it really calls (empty: none)."""

    branch: ChatBranch
    warning: str


def prepare_branch(
    workspace: Workspace, target: str, execution: Execution, *, turns: int, source: JobKey | Chat
) -> PreparedBranch:
    """Prepare a branch of the first turns of an execution. `source` has its model calls: a repeat, or a chat.

    Raises CannotChat and StoreError.
    """
    from workbench.engine.chat_session import find_tool_warning, make_branch

    found = workspace.project.targets.get(target)
    if found is None:
        raise CannotChat(f"there is no target {target!r} any more")
    if isinstance(source, JobKey):
        models = workspace.read_model_calls(source, execution)
    else:
        models = None if source.models is None else source.models.build_recording(None)
    branch = make_branch(execution, turns, target=found, models=models)
    return PreparedBranch(branch=branch, warning=find_tool_warning(branch, found))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedTurns:
    """The first turns of a case as its file has them, in `format`; None for a turn that the file has not."""

    turns: Sequence[Mapping[str, Any] | None] = ()
    format: DocumentFormat | None = None


def read_expected_turns(workspace: Workspace, case: CaseKey, turns: Sequence[TurnResult]) -> ExpectedTurns:
    """Read what a case expects of these turns. A turn whose message differs in the file is None."""
    try:
        document = workspace.documents.document(case.eval_set)
        index = get_case_index(document, case)
        expected = document.case(index).conversation or ()
        raw = document.raw_case(index)
    except StoreError:  # a row of a dataset, or a case that is gone
        return ExpectedTurns()
    found = raw.get("conversation", raw.get("data")) or ()
    return ExpectedTurns(
        turns=[
            data if wanted.user_content.text() == turn.invocation.user_content.text() else None
            for turn, wanted, data in zip(turns, expected, found, strict=False)
        ],
        format=document.format,
    )


def read_set_facts(workspace: Workspace, eval_set: str) -> SetFacts:
    """Read the facts of a set that limit a new case. Raises StoreError."""
    document = workspace.documents.document(eval_set)
    return SetFacts(
        eval_ids=frozenset(entry.eval_id for entry in document.entries),
        holds_final_state=_is_current(document),
    )


def save_chat_case(workspace: Workspace, eval_set: str, case: NewCase) -> None:
    """Write a case into a set and save the set. The case replaces one with the same id."""
    from workbench.engine.chat_session import write_case  # with the engine: not before it is needed

    label = f"save the chat as {case.eval_id}"
    workspace.documents.edit_and_save(eval_set, lambda document: write_case(document, case), label=label)


def find_agent(workspace: Workspace, eval_set: str) -> str | None:
    """Read the project again and find the agent of a set; None if it has none."""
    workspace.refresh()
    return next((entry.target for entry in workspace.project.eval_sets if entry.relative == eval_set), None)


# Scenarios written by a model: generate, parse after an edit by the user, and add to a set.


def start_generation(
    workspace: Workspace, target: str, eval_set: str | None, *, count: int, instruction: str
) -> Generation:
    """Have a model write scenarios for an agent that the set does not have. Never uses cached replies."""
    from workbench.engine.scenario_generation import AskOptions, known_scenarios  # with what asks models

    known: Sequence[ConversationScenario] = ()
    if eval_set is not None:
        document = workspace.documents.document(eval_set)
        refuse_older_format(document)
        known = known_scenarios(document)
    wanted = ScenarioRequest(count=count, model=workspace.settings.simulation.model, instruction=instruction)
    return workspace.generate(target, wanted, known=known, options=AskOptions(use_cache=False))


def add_scenarios(
    workspace: Workspace,
    eval_set: str,
    scenarios: Sequence[ConversationScenario],
    *,
    session_input: Mapping[str, Any],
) -> Sequence[str]:
    """Add scenarios to a set as one step of undo, and save it. Return the ids of those that are new."""

    def add(document: EvalSetDocument) -> Sequence[str]:
        from workbench.agents.agent_sessions import read_adk_personas

        data = [to_scenario(each) for each in scenarios]
        added = insert_scenarios(document, data, session_input=session_input, read_personas=read_adk_personas)
        return [case.eval_id for case in added if case.added]

    label = f"add {len(scenarios)} scenario{'' if len(scenarios) == 1 else 's'}"
    return workspace.documents.edit_and_save(eval_set, add, label=label)


def format_scenario(scenario: ConversationScenario) -> str:
    """Format a scenario as JSON for an editor."""
    return json.dumps(scenario.model_dump(mode="json", exclude_none=True), indent=2, ensure_ascii=False) + "\n"


def check_scenario_text(text: str) -> str | None:
    """Describe why an edited text is not a valid scenario; None if it is valid."""
    try:
        return check_scenario(parse_scenario(text), UserOptions(model=""))
    except json.JSONDecodeError as error:
        return f"line {error.lineno}, column {error.colno}: {error.msg}"
    except InvalidData as invalid:
        return _format_fault(invalid.faults[0])


def parse_scenario(text: str) -> ConversationScenario:
    """Parse the scenario in a valid text."""
    return validate_data(ConversationScenario, json.loads(text))
