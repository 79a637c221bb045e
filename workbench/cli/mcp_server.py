"""The server of `workbench mcp`: coding agents list, run, explain and edit eval cases over the Model Context Protocol.

One thread does all work with the project, so that calls cannot disturb each other. A run does not occupy it: while
agents run, other tools answer.
"""

from __future__ import annotations

import asyncio
import difflib
import functools
import json
import os
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, ParamSpec, TypeVar

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field

from workbench import __version__
from workbench.cli.history_commands import compare_runs, open_history
from workbench.cli.run_commands import select_cases, select_failed
from workbench.cli.watch_commands import explain_decision
from workbench.engine.acceptance import Acceptance, Hunk, Refused, accept, expect_response, find_hunks, find_index
from workbench.engine.history_recorder import ExpectedCases
from workbench.engine.plan import Plan, PlanError, RunOptions, Selection
from workbench.engine.run import Run
from workbench.engine.workspace import Workspace
from workbench.model.criteria import InvalidConfig
from workbench.model.evalset import FunctionCall, IntermediateData, Invocation
from workbench.model.identity import CaseKey
from workbench.model.results import CaseResult, CaseStatus, Execution, TurnResult
from workbench.model.run_events import Notice
from workbench.model.text import neutralise, pluralise, redact, suggest_name
from workbench.report.comparison import comparison_record
from workbench.report.report_formats import case_record, dump, summary_record
from workbench.report.run_report import ReportedCase
from workbench.report.text_report import aligned_lines, explain, explain_in_one_line
from workbench.store.errors import StoreError
from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.store.history.history_queries import StoredJob
from workbench.store.history.history_schema import get_history_path
from workbench.watch.selector import decide_plan, reuse_unjudged, select_affected

_POLL_SECONDS = 0.2
_MOST_LISTED = 100
_MOST_SPANS = 300
_MOST_PROBLEMS = 10
_MOST_LINES = 500
_MOST_CHARACTERS = 200_000
"""The most that one answer has. Longer ones fill the context of the model that asked."""

P = ParamSpec("P")
T = TypeVar("T")
What = Annotated[
    list[str], Field(description="Eval sets (paths relative to the project), folders or agents. Empty: the project.")
]
Cases = Annotated[list[str], Field(description="Only cases with these names. Empty: all.")]
EvalSet = Annotated[str, Field(description="An eval set, as `list_eval_sets` names it.")]
Case = Annotated[str, Field(description="The name of a case, as `list_cases` gives it.")]
RunId = Annotated[str | None, Field(description="The id of a run, or its start. Default: the newest run of the case.")]
Repeat = Annotated[int, Field(description="Which repeat of the case, from 1.", ge=1)]

_INSTRUCTIONS = """\
Workbench tests AI agents against eval sets: it runs an agent on each case and compares what it did with what the case
expects. To work on an agent: `list_cases` for the verdicts, `show_result` for why a case failed, change the code,
`run_cases` (only cases that the change affects run), and again. An expectation is changed only if the new behaviour is
right: `propose_edit` shows the change of the file, `apply_edit` writes it."""


class NotAllowed(Exception):
    """The server was started without the permission for this; the message names the option."""


class _Refusal(Exception):
    """A call that cannot be answered; the message says why."""


_USER_ERRORS = (StoreError, PlanError, InvalidConfig, Refused, NotAllowed, _Refusal)


class _FoundCase(NamedTuple):
    """A case of the project, and its position in its document."""

    key: CaseKey
    document: EvalSetDocument
    position: int


@dataclass(frozen=True, kw_only=True)
class _Proposal:
    """An edit that was shown. `change` makes it, in a document that still has this content."""

    eval_set: str
    content: bytes
    change: Callable[[EvalSetDocument], None]


class ProjectTools:
    """The tools, for one project. All methods are called from one thread."""

    def __init__(self, root: Path, *, may_run: bool, may_edit: bool) -> None:
        """Raises StoreError if the settings of the project cannot be read."""
        self._workspace = Workspace.open(root)
        self._may_run = may_run
        self._may_edit = may_edit
        self._proposals: dict[str, _Proposal] = {}

    def close(self) -> None:
        """End all runs and processes."""
        self._workspace.close()

    # Lists.

    def list_eval_sets(self) -> dict[str, Any]:
        """List the eval sets of the project with the number of their cases by verdict."""
        self._refresh()
        jobs: dict[str, list[CaseStatus]] = {}
        for key, latest in self._read_latest_jobs().items():
            jobs.setdefault(key.eval_set, []).append(_decide_status(latest))
        listed = []
        for entry in self._workspace.project.eval_sets:
            counts = jobs.get(entry.relative, [])
            listed.append(
                {
                    "eval_set": entry.relative,
                    "agent": entry.target,
                    **self._count_cases(entry.relative),
                    "verdicts": {status.value: counts.count(status) for status in CaseStatus if status in counts},
                }
            )
        agents = [
            {"agent": target.name, "kind": target.kind.value} for target in self._workspace.project.targets.values()
        ]
        return {"eval_sets": listed, "agents": agents, "problems": list(self._workspace.problems)}

    def list_cases(self, what: Sequence[str], *, status: str | None, offset: int, limit: int) -> dict[str, Any]:
        """List cases with their last verdicts."""
        latest = self._read_latest_jobs()
        plan = self._plan(what, (), RunOptions(), existing=True)
        rows = []
        for planned in plan.cases:
            jobs = latest.get(planned.key, ())
            found = _decide_status(jobs).value if jobs else None
            if status is None or status == (found or "none"):
                rows.append(_make_row(planned.key, jobs, found))
        shown = rows[offset : offset + limit]
        left = max(0, len(rows) - offset - len(shown))
        return {"total": len(rows), "cases": shown, "left_out": left, "problems": list(plan.file_problems)}

    def explain(self, what: Sequence[str], cases: Sequence[str]) -> str:
        """Explain whether cases would run after the last changes, and why."""
        plan = self._plan(what, cases, RunOptions())
        decisions = decide_plan(self._workspace, plan)
        lines = [*plan.notices, *plan.file_problems]
        for decision in decisions[:_MOST_LISTED]:
            lines += explain_decision(self._workspace, decision, verbose=False)
        if len(decisions) > _MOST_LISTED:
            lines.append(f"and {pluralise(len(decisions) - _MOST_LISTED, 'case')} more; name fewer cases")
        return "\n".join(lines)

    # Results.

    def show_result(self, eval_set: str, case: str, *, run: str | None, repeat: int, whole: bool) -> dict[str, Any]:
        """Show a result: why the case did not pass, and the differences."""
        reported, repeats = self._read_result(self._find_case(eval_set, case).key, run, repeat)
        result = reported.result
        shown = {
            "case": result.case.name,
            "eval_set": result.case.eval_set,
            "agent": result.case.target,
            "repeat": result.repeat + 1,
            "repeats": repeats,
            "status": result.status.value,
            "reasons": [] if result.status is CaseStatus.PASSED else explain(reported),
            "differences": "\n".join(_limit_lines(list(aligned_lines(reported)))),
            "differences_are": "lines with - are expected, lines with + are what the agent did",
        }
        return shown | ({"result": case_record(reported)} if whole else {})

    def show_trace(self, eval_set: str, case: str, *, run: str | None, repeat: int, span: str | None) -> dict[str, Any]:
        """Show the steps of an execution; the request and response of one step if `span` names it."""
        reported, _ = self._read_result(self._find_case(eval_set, case).key, run, repeat)
        spans = reported.result.execution.spans
        if span is not None:
            found = next((each for each in spans if each.id == span), None)
            if found is None:
                raise _Refusal(f"there is no span {span!r}; expected the id of one, as the trace shows it")
            return found.model_dump(mode="json")
        steps = [
            {
                "id": each.id,
                "parent": each.parent_id,
                "turn": each.turn + 1,
                "kind": each.kind.value,
                "name": each.name,
                "start_seconds": each.start,
                "duration_seconds": each.duration,
                "error": each.error,
            }
            for each in spans[:_MOST_SPANS]
        ]
        return {"spans": steps, "left_out": len(spans) - len(steps)}

    def compare(self, before: str | None, after: str | None) -> dict[str, Any]:
        """Compare two runs."""
        record = comparison_record(compare_runs(self._workspace.root, before, after))
        cases = [each for each in record["cases"] if each["change"] != "same"]
        left = max(0, len(cases) - _MOST_LISTED)
        return record | {"cases": cases[:_MOST_LISTED], "left_out": left}

    # Runs.

    def start(
        self, what: Sequence[str], cases: Sequence[str], *, only: str, repeats: int | None, models: str
    ) -> Run | None:
        """Start a run; None if there is nothing to run."""
        if not self._may_run:
            raise NotAllowed("this server runs no agents: start it with `workbench mcp --allow-run`")
        named = {"models": models, "runs": repeats, "command": "workbench mcp: run_cases"}
        options = RunOptions.model_validate(named)
        selections = self._select(what, cases)
        if only == "failed":
            selections = list(select_failed(self._workspace, selections))
            if not selections:
                return None
        plan = self._workspace.plan(selections, options)
        plan = (select_affected if only == "affected" else reuse_unjudged)(self._workspace, plan)
        return self._workspace.start(plan)

    def describe_run(self, run: Run) -> dict[str, Any]:
        """Describe a run that is over: its verdicts, and why cases did not pass."""
        self._workspace.read_new_verdicts()
        expected = ExpectedCases(self._workspace.document)
        not_passed = [result for result in run.results() if result.status is not CaseStatus.PASSED]
        notices = [event.message for batch in run.iter_batches() for event in batch if isinstance(event, Notice)]
        rows = [
            {
                "case": result.case.name,
                "eval_set": result.case.eval_set,
                "repeat": result.repeat + 1,
                "status": result.status.value,
                "why": explain_in_one_line(ReportedCase(result, expected(result))),
            }
            for result in not_passed[:_MOST_LISTED]
        ]
        return {
            "run": run.run_id,
            "exit_status": run.exit_status,
            "interrupted": run.interrupted,
            "reused": len(run.plan.stored),
            "summary": summary_record(run.summary()),
            "not_passed": rows,
            "left_out": len(not_passed) - len(rows),
            "notices": [*run.plan.notices, *run.plan.file_problems, *notices],
        }

    # Edits.

    def propose_acceptance(self, eval_set: str, case: str, *, turn: int | None, repeat: int) -> dict[str, Any]:
        """Propose that what the agent did last becomes the expectation."""
        found = self._find_case(eval_set, case)
        reported, _ = self._read_result(found.key, None, repeat)
        shown = found.document.case(found.position)
        hunks = [hunk for hunk in find_hunks(shown, reported.result.execution) if turn is None or hunk.turn == turn - 1]
        self._workspace.acceptances.check(
            Acceptance(shown=shown, result=reported.result, hunks=hunks, is_whole=turn is None)
        )
        return self._propose(found, [_accept_all(found, hunks, reported.result.execution)] if hunks else [])

    def propose_expectation(
        self,
        eval_set: str,
        case: str,
        *,
        turn: int,
        response: str | None,
        calls: Sequence[Mapping[str, Any]] | None,
    ) -> dict[str, Any]:
        """Propose another expected response, or other expected calls, for a turn."""
        found = self._find_case(eval_set, case)
        shown = found.document.case(found.position)
        turns = shown.conversation or []
        if not 1 <= turn <= len(turns):
            raise _Refusal(f"the case has {pluralise(len(turns), 'turn')} with expectations, found turn {turn}")
        if response is None and calls is None:
            raise _Refusal("nothing to change: give a response or tool_calls, or accept what the agent did")
        changes: list[Callable[[EvalSetDocument], None]] = []
        if calls is not None:
            # The edit is the acceptance of an execution that did exactly this.
            acted = [*turns[: turn - 1], _replace_calls(turns[turn - 1], calls), *turns[turn:]]
            actual = Execution(turns=tuple(TurnResult(invocation=each, duration_seconds=0.0) for each in acted))
            hunks = [hunk for hunk in find_hunks(shown, actual) if hunk.turn == turn - 1]
            changes += [_accept_all(found, hunks, actual)] if hunks else []
        expected = turns[turn - 1].final_response
        if response is not None and (expected is None or expected.text(thoughts=False) != response):
            changes.append(lambda document: expect_response(document, found.position, turn - 1, response))
        return self._propose(found, changes)

    def apply(self, number: str) -> dict[str, Any]:
        """Write a proposed edit."""
        if not self._may_edit:
            raise NotAllowed("this server writes no files: start it with `workbench mcp --allow-edit`")
        proposal = self._proposals.get(number)
        if proposal is None:
            raise _Refusal(f"there is no proposal {number!r}; each is written once, and all end with the server")

        def change(document: EvalSetDocument) -> None:
            if document.content() != proposal.content:
                raise Refused("the file has changed since the edit was proposed; propose it again")
            proposal.change(document)

        self._workspace.documents.document_on_disk(proposal.eval_set)
        self._workspace.documents.edit_and_save(proposal.eval_set, change, label="change an expectation")
        del self._proposals[number]
        return {"saved": proposal.eval_set, "next": "run_cases judges the case again by the new expectation"}

    def _propose(self, found: _FoundCase, changes: Sequence[Callable[[EvalSetDocument], None]]) -> dict[str, Any]:
        if not changes:
            raise _Refusal("the case already expects this")

        def change(document: EvalSetDocument) -> None:
            for each in changes:
                each(document)

        before, name = found.document.content(), found.key.eval_set
        scratch = EvalSetDocument.open(found.document.path)
        if scratch.content() != before:
            raise Refused("the file has just changed; propose the edit again")
        change(scratch)
        number = secrets.token_hex(4)
        self._proposals[number] = _Proposal(eval_set=name, content=before, change=change)
        old, new = (
            content.decode("utf-8", "replace").splitlines(keepends=True) for content in (before, scratch.content())
        )
        lines = difflib.unified_diff(old, new, fromfile=name, tofile=name)
        written = "apply_edit writes it" if self._may_edit else "to write it, the server needs --allow-edit"
        return {"proposal": number, "diff": "".join(lines), "next": written}

    # Finding cases and results.

    def _refresh(self) -> None:
        self._workspace.refresh()
        if get_history_path(self._workspace.root).exists():  # reading must not create it
            self._workspace.read_new_verdicts()

    def _select(self, what: Sequence[str], cases: Sequence[str]) -> list[Selection]:
        from workbench.cli.case_selection import split_names

        self._refresh()
        with _as_current_folder(self._workspace.root):
            named = split_names(self._workspace.project, what)
            return select_cases(self._workspace, named, cases=tuple(cases))

    def _plan(self, what: Sequence[str], cases: Sequence[str], options: RunOptions, *, existing: bool = False) -> Plan:
        selections = self._select(what, cases)
        make = self._workspace.plan_existing_cases if existing else self._workspace.plan
        return make(selections, options)

    def _find_case(self, eval_set: str, case: str) -> _FoundCase:
        """Find a case by its names. Raises _Refusal."""
        self._refresh()
        entries = {entry.relative: entry for entry in self._workspace.project.eval_sets}
        if (entry := entries.get(eval_set)) is None:
            raise _Refusal(f"there is no eval set {eval_set!r}{suggest_name(eval_set, entries)}")
        if entry.target is None:
            raise _Refusal(f"{eval_set}: no agent belongs to this eval set; `workbench doctor` says what is missing")
        names = self._workspace.cases_by_name(eval_set)
        found = names.get(case, ())
        if len(found) != 1:
            several = f"{len(found)} cases are called {case!r}; add #1, #2 … for one of them"
            raise _Refusal(several if found else f"there is no case {case!r}{suggest_name(case, names)}")
        ((eval_id, occurrence),) = found
        key = CaseKey(target=entry.target, eval_set=eval_set, eval_id=eval_id, occurrence=occurrence)
        document = self._workspace.document(eval_set)
        return _FoundCase(key, document, find_index(document, key))

    def _count_cases(self, eval_set: str) -> dict[str, Any]:
        try:
            document = self._workspace.document(eval_set)
        except StoreError as error:
            return {"cases": None, "problems": [str(error)]}
        problems = [str(problem) for problem in document.errors_here[:_MOST_PROBLEMS]]
        return {"cases": len(document), **({"problems": problems} if problems else {})}

    def _read_latest_jobs(self) -> Mapping[CaseKey, Sequence[StoredJob]]:
        with open_history(self._workspace.root) as history:
            if history is None:
                return {}
            latest: dict[CaseKey, Sequence[StoredJob]] = dict(history.latest_judged_jobs())
            return latest | self._workspace.find_renamed_jobs(history, latest)

    def _read_result(self, key: CaseKey, run: str | None, repeat: int) -> tuple[ReportedCase, int]:
        """Return a result and the number of repeats of its case in the run. Raises _Refusal."""
        found: Sequence[CaseResult] = ()
        with open_history(self._workspace.root) as history:
            if history is not None and run is None:
                found = history.latest_judged_results([key]).get(key, ())
            elif history is not None:
                found = [each for each in history.results(history.run(run or "").run_id) if each.case == key]
        result = next((each for each in found if each.repeat == repeat - 1), None)
        if result is None:
            where = "yet" if run is None else f"in run {run}"
            did = f"has only {pluralise(len(found), 'repeat')} {where}" if found else f"did not run {where}"
            raise _Refusal(f"the case {key.name!r} {did}")
        return ReportedCase(result, ExpectedCases(self._workspace.document)(result)), len(found)


def _accept_all(found: _FoundCase, hunks: Sequence[Hunk], actual: Execution) -> Callable[[EvalSetDocument], None]:
    return lambda document: accept(document, found.position, hunks, actual)


def _replace_calls(turn: Invocation, calls: Sequence[Mapping[str, Any]]) -> Invocation:
    """Return the turn with other calls. Raises _Refusal."""
    try:
        uses = [FunctionCall.model_validate({"args": {}, **call}) for call in calls]
    except ValueError:
        raise _Refusal('tool_calls: expected [{"name": …, "args": {…}}, …]') from None
    if any(not use.name for use in uses):
        raise _Refusal('tool_calls: expected [{"name": …, "args": {…}}, …], found a call without a name')
    return turn.model_copy(update={"intermediate_data": IntermediateData(tool_uses=uses)})


def _make_row(key: CaseKey, jobs: Sequence[StoredJob], status: str | None) -> dict[str, Any]:
    row = {"case": key.name, "eval_set": key.eval_set, "agent": key.target, "status": status or "none"}
    if jobs:
        row |= {"run": jobs[0].run_id, "finished_at": jobs[0].finished_at.isoformat(timespec="seconds")}
    if len(jobs) > 1:
        passed = sum(job.status is CaseStatus.PASSED for job in jobs)
        row["passed_repeats"] = f"{passed} of {len(jobs)}"
    return row


def _limit_lines(lines: Sequence[str]) -> Iterator[str]:
    yield from lines[:_MOST_LINES]
    if len(lines) > _MOST_LINES:
        yield f"and {len(lines) - _MOST_LINES:,} more lines"


_WORST_FIRST = (CaseStatus.FAILED, CaseStatus.ERROR, CaseStatus.NOT_EVALUATED, CaseStatus.PASSED)


def _decide_status(jobs: Collection[StoredJob]) -> CaseStatus:
    """Return the worst status of the repeats."""
    return min((job.status for job in jobs), key=_WORST_FIRST.index)


@contextmanager
def _as_current_folder(folder: Path) -> Iterator[None]:
    """Names of eval sets are relative to the project, wherever the client has started the server."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


# The server.

_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_RUNS = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=True)
_EDITS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False)


class ProjectServer:
    """Answers the calls of a client: the work is done in the project's own thread."""

    def __init__(self, root: Path, *, may_run: bool, may_edit: bool) -> None:
        """Raises StoreError if the settings of the project cannot be read."""
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="workbench-mcp")
        self._tools = self._thread.submit(ProjectTools, root, may_run=may_run, may_edit=may_edit).result()
        self.server = MCPServer("workbench", version=__version__, instructions=_INSTRUCTIONS, log_level="WARNING")
        for method, hints in (
            (self.list_eval_sets, _READS),
            (self.list_cases, _READS),
            (self.explain_cases, _READS),
            (self.show_result, _READS),
            (self.show_trace, _READS),
            (self.compare_runs, _READS),
            (self.run_cases, _RUNS),
            (self.propose_edit, _READS),
            (self.apply_edit, _EDITS),
        ):
            self.server.add_tool(method, annotations=hints)

    def run(self) -> None:
        """Serve standard input and output until the client ends the connection."""
        try:
            self.server.run("stdio")
        finally:
            self.close()

    def close(self) -> None:
        """End all runs and processes."""
        self._thread.submit(self._tools.close).result()
        self._thread.shutdown()

    async def list_eval_sets(self) -> dict[str, Any]:
        """List the eval sets and agents of the project, with the number of cases by their last verdict."""
        return await self._answer(self._tools.list_eval_sets)

    async def list_cases(
        self,
        what: What = [],  # noqa: B006 - the schema shows it
        status: Annotated[
            Literal["PASSED", "FAILED", "ERROR", "NOT_EVALUATED", "none"] | None,
            Field(description="Only cases with this last verdict; none: without one."),
        ] = None,
        offset: Annotated[int, Field(ge=0)] = 0,
        limit: Annotated[int, Field(ge=1, le=1000)] = _MOST_LISTED,
    ) -> dict[str, Any]:
        """List eval cases with their last verdicts."""
        return await self._answer(self._tools.list_cases, what, status=status, offset=offset, limit=limit)

    async def explain_cases(self, what: What = [], cases: Cases = []) -> str:  # noqa: B006 - the schema shows it
        """Explain whether cases would run after the last changes of code, data or configuration, and why."""
        return await self._answer(self._tools.explain, what, cases)

    async def show_result(
        self,
        *,
        eval_set: EvalSet,
        case: Case,
        run: RunId = None,
        repeat: Repeat = 1,
        whole: Annotated[bool, Field(description="Also return scores, turns and differences as data.")] = False,
    ) -> dict[str, Any]:
        """Show why a case did not pass, and how what the agent did differs from what was expected."""
        return await self._answer(self._tools.show_result, eval_set, case, run=run, repeat=repeat, whole=whole)

    async def show_trace(
        self,
        *,
        eval_set: EvalSet,
        case: Case,
        run: RunId = None,
        repeat: Repeat = 1,
        span: Annotated[
            str | None, Field(description="The id of a span: return this one, with its request and response.")
        ] = None,
    ) -> dict[str, Any]:
        """Show the spans of an execution: agents, model calls and tool calls, with times and errors."""
        return await self._answer(self._tools.show_trace, eval_set, case, run=run, repeat=repeat, span=span)

    async def compare_runs(
        self,
        before: Annotated[str | None, Field(description="The earlier run. Default: the one before the newest.")] = None,
        after: Annotated[str | None, Field(description="The later run. Default: the newest.")] = None,
    ) -> dict[str, Any]:
        """Compare two runs: regressions, fixes, flaky cases and mean scores. Unchanged cases are left out."""
        return await self._answer(self._tools.compare, before, after)

    async def run_cases(
        self,
        *,
        context: Context,
        what: What = [],  # noqa: B006 - the schema shows it
        cases: Cases = [],  # noqa: B006 - the schema shows it
        only: Annotated[
            Literal["affected", "failed", "all"],
            Field(
                description="affected: only cases whose last verdict is stale; current verdicts are reused. "
                "failed: cases that did not pass last time."
            ),
        ] = "affected",
        repeats: Annotated[int | None, Field(description="How often each case runs.", ge=1)] = None,
        models: Annotated[
            Literal["auto", "live", "replay"],
            Field(
                description="auto: recorded answers of the agent's models, as long as its requests are the same. "
                "live: ask the models. replay: recorded answers only."
            ),
        ] = "auto",
    ) -> dict[str, Any]:
        """Run eval cases and return the verdicts. Needs a server that was started with --allow-run."""
        run = await self._work(self._tools.start, what, cases, only=only, repeats=repeats, models=models)
        if run is None:
            return {"run": None, "notices": ["nothing to run: no case failed last time"]}
        total = run.plan.total
        try:
            while not run.is_over:
                await asyncio.sleep(_POLL_SECONDS)
                await context.report_progress(run.summary().total, total)
        except BaseException:  # the client has cancelled the call, or is gone
            run.cancel()
            raise
        return await self._answer(self._tools.describe_run, run)

    async def propose_edit(
        self,
        *,
        eval_set: EvalSet,
        case: Case,
        accept_last: Annotated[
            bool, Field(description="What the agent did last becomes the expectation (of `turn`, or of all turns).")
        ] = False,
        turn: Annotated[int | None, Field(description="The turn to change, from 1.", ge=1)] = None,
        response: Annotated[str | None, Field(description="The new expected final response of the turn.")] = None,
        tool_calls: Annotated[
            list[dict[str, Any]] | None,
            Field(description='The new expected tool calls of the turn: [{"name": …, "args": {…}}, …].'),
        ] = None,
        repeat: Repeat = 1,
    ) -> dict[str, Any]:
        """Show how the file of an eval set would change for another expectation. Nothing is written."""
        if accept_last:
            if response is not None or tool_calls is not None:
                raise ToolError("accept_last takes what the agent did: give no response and no tool_calls with it")
            return await self._answer(self._tools.propose_acceptance, eval_set, case, turn=turn, repeat=repeat)
        return await self._answer(
            self._tools.propose_expectation,
            eval_set,
            case,
            turn=1 if turn is None else turn,
            response=response,
            calls=tool_calls,
        )

    async def apply_edit(
        self, proposal: Annotated[str, Field(description="The `proposal` that `propose_edit` returned.")]
    ) -> dict[str, Any]:
        """Write a proposed edit into its eval set. Needs a server that was started with --allow-edit."""
        return await self._answer(self._tools.apply, proposal)

    async def _answer(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Do work in the project's thread, and return the result without control characters and secrets."""
        result = await self._work(work, *arguments, **named)
        if isinstance(result, str):
            return redact(neutralise(result))  # type: ignore[return-value]
        text = dump(result)
        if len(text) > _MOST_CHARACTERS:
            raise ToolError(f"the answer has {len(text):,} characters, at most {_MOST_CHARACTERS:,}: ask for less")
        cleaned: T = json.loads(text)
        return cleaned

    async def _work(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Do work in the project's thread. Raises ToolError for errors whose text is meant for users."""
        call = functools.partial(work, *arguments, **named)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, call)
        except _USER_ERRORS as error:
            raise ToolError(redact(neutralise(str(error)))) from None
