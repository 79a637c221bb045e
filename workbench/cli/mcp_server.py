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
import signal
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal, ParamSpec, TypeVar

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from workbench import __version__
from workbench.cli.console import WRONG
from workbench.cli.history_commands import compare_runs, open_history
from workbench.cli.run_commands import find_file_problems, select_cases, select_failed
from workbench.cli.watch_commands import explain_decision
from workbench.engine.acceptance import (
    Acceptance,
    AcceptanceRefused,
    Hunk,
    accept,
    expect_response,
    find_hunks,
    find_index,
)
from workbench.engine.history_recorder import ExpectedCases
from workbench.engine.plan import Plan, PlanError, RunOptions, Selection
from workbench.engine.run import Run
from workbench.engine.workspace import Workspace
from workbench.model.criteria import InvalidConfig
from workbench.model.evalset import EvalCase, FunctionCall, IntermediateData
from workbench.model.identity import CaseInSet, CaseKey
from workbench.model.results import CaseResult, CaseStatus, Execution, MetricResult, TurnResult
from workbench.model.run_events import Notice
from workbench.model.text import neutralise, pluralise, redact, shorten, suggest_name
from workbench.report.comparison import comparison_record
from workbench.report.report_formats import case_record, dump, model_record, summary_record
from workbench.report.run_report import ReportedCase
from workbench.report.text_report import aligned_lines, explain, explain_at_length, explain_in_one_line
from workbench.store.errors import StoreError
from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.store.history.history_queries import StoredJob
from workbench.store.history.history_schema import get_history_path
from workbench.watch.selector import decide_plan, find_current_verdicts, make_snapshot, reuse_unjudged, select_affected

_POLL_SECONDS = 0.2
_MOST_LISTED = 100
_MOST_SPANS = 300
_MOST_PROBLEMS = 10
_MOST_LINES = 500
_MOST_PROPOSALS = 50
_LONGEST_LINE = 500
_LONGEST_REASON = 400
_LONGEST_MESSAGE = 4000
_MOST_CHARACTERS = 100_000
"""The most that one answer has. Longer ones fill the context of the model that asked."""

P = ParamSpec("P")
T = TypeVar("T")
What = Annotated[
    list[str],
    Field(
        description="Eval sets (paths relative to the project), folders or agents; SET:CASE for one case. Empty: the "
        "project."
    ),
]
Cases = Annotated[list[str], Field(description="Only cases with these names, without their eval set. Empty: all.")]
EvalSet = Annotated[str, Field(description="An eval set, as `list_eval_sets` names it.")]
Case = Annotated[str, Field(description="The name of a case, as `list_cases` gives it.")]
# A text parameter is `str` and nothing else: the SDK parses JSON in the text of any other type.
RunId = Annotated[str, Field(description="The id of a run, or its start. Default: the newest run of the case.")]
Repeat = Annotated[int | None, Field(description="Which repeat of the case, from 1. Default: the worst one.", ge=1)]
Offset = Annotated[int, Field(description="How many to leave out at the start.", ge=0)]

_INSTRUCTIONS = """\
Workbench tests AI agents against eval sets: it runs an agent on each case and compares what it did with what the case
expects. To work on an agent: `list_cases` for the verdicts, `show_result` for why a case failed, change the code,
`run_cases` (only cases that the change affects run), and again. An expectation is changed only if the new behaviour is
right: `propose_edit` shows the change of the file, `apply_edit` writes it."""


class NotAllowed(Exception):
    """The server was started without the permission for this; the message names the option."""


class _Refusal(Exception):
    """A call that cannot be answered; the message says why."""


_USER_ERRORS = (StoreError, PlanError, InvalidConfig, AcceptanceRefused, NotAllowed, _Refusal, OSError)


class ExpectedCall(BaseModel):
    """A tool call that a turn should make."""

    model_config = ConfigDict(extra="forbid")
    name: str
    args: dict[str, Any] = {}


Change = Callable[[EvalSetDocument, int], None]
"""Edits the case at this position."""


@dataclass(frozen=True, kw_only=True)
class _Proposal:
    """An edit that was shown. `change` makes it, if the text of the case is still this one."""

    key: CaseKey
    text: str
    change: Change


class ProjectTools:
    """The tools, for one project. All methods are called from one thread. Clients see their texts and parameters."""

    def __init__(self, path: Path, *, may_run: bool, may_edit: bool) -> None:
        self._path = path
        self._may_run = may_run
        self._may_edit = may_edit
        self._opened: Workspace | None = None
        self._proposals: dict[str, _Proposal] = {}

    @property
    def _workspace(self) -> Workspace:
        """The workspace. Raises StoreError as long as the settings of the project cannot be read."""
        if self._opened is None:
            self._opened = Workspace.open(self._path)
            os.chdir(self._opened.root)  # clients start servers anywhere; names of eval sets are those of the project
            self._opened.stay_offline()
        return self._opened

    def close(self) -> None:
        """End all runs and processes."""
        if self._opened is not None:
            self._opened.close()

    # Lists.

    def list_eval_sets(
        self, *, offset: Offset = 0, limit: Annotated[int, Field(ge=1, le=1000)] = _MOST_LISTED
    ) -> dict[str, Any]:
        """List the eval sets and agents of the project, with the number of cases by their last verdict."""
        self._refresh()
        latest = self._read_latest_jobs()
        jobs: dict[tuple[str | None, str], dict[CaseInSet, CaseStatus]] = {}
        for key, found in latest.items():
            jobs.setdefault((key.target, key.eval_set), {})[(key.eval_id, key.occurrence)] = _decide_status(found)
        project = self._workspace.project
        listed = []
        for entry in project.eval_sets[offset : offset + limit]:
            cases, problems = self._read_case_names(entry.relative)
            statuses = [jobs.get((entry.target, entry.relative), {}).get(case) for case in cases or ()]
            listed.append(
                {
                    "eval_set": entry.relative,
                    "agent": entry.target,
                    "cases": None if cases is None else len(cases),
                    "verdicts": {status.value: statuses.count(status) for status in CaseStatus if status in statuses},
                    **({"problems": problems} if problems else {}),
                }
            )
        return {
            "eval_sets": listed,
            "left_out": max(0, len(project.eval_sets) - offset - len(listed)),
            "agents": [{"agent": target.name, "kind": target.kind.value} for target in project.targets.values()],
            "problems": list(self._workspace.problems),
        }

    def list_cases(
        self,
        *,
        what: What = [],  # noqa: B006 - the schema shows it
        status: Annotated[
            Literal["PASSED", "FAILED", "ERROR", "NOT_EVALUATED", "none"] | None,
            Field(description="Only cases with this last verdict; none: without one."),
        ] = None,
        offset: Offset = 0,
        limit: Annotated[int, Field(ge=1, le=300)] = _MOST_LISTED,
    ) -> dict[str, Any]:
        """List eval cases with their last verdicts. `is_current`: nothing that the case uses has changed since."""
        plan = self._plan(what, (), RunOptions(), existing=True)
        latest = self._read_latest_jobs()
        statuses = {
            planned.key: _decide_status(latest[planned.key]).value if planned.key in latest else "none"
            for planned in plan.cases
        }
        wanted = [key for key, found in statuses.items() if status in (None, found)]
        current = find_current_verdicts(self._workspace, plan) if latest else {}
        quarantines = {case.key: case.current_quarantine for case in plan.cases if case.quarantine is not None}
        rows = []
        for key in wanted[offset : offset + limit]:
            row: dict[str, Any] = {"case": key.name, "eval_set": key.eval_set, "agent": key.target}
            row["status"] = statuses[key]
            if key in quarantines:
                row["quarantine"] = model_record(quarantines[key])
            if jobs := latest.get(key):
                row |= {"is_current": key in current, "run": jobs[0].run_id, "finished_at": _format_time(jobs[0])}
                if len(jobs) > 1:
                    row["passed_repeats"] = f"{sum(job.status is CaseStatus.PASSED for job in jobs)} of {len(jobs)}"
            rows.append(row)
        left = max(0, len(wanted) - offset - len(rows))
        return {"total": len(wanted), "cases": rows, "left_out": left, "problems": list(plan.file_problems)}

    def explain_cases(self, *, what: What = [], cases: Cases = []) -> str:  # noqa: B006 - the schema shows it
        """Explain whether cases would run after the last changes of code, data or configuration, and why."""
        plan = self._plan(what, cases, RunOptions())
        state = make_snapshot(self._workspace)
        decisions = decide_plan(self._workspace, plan, state=state)
        lines = [*plan.notices, *plan.file_problems]
        for decision in decisions[:_MOST_LISTED]:
            lines += explain_decision(self._workspace, decision, state, verbose=False)
        if len(decisions) > _MOST_LISTED:
            lines.append(f"and {pluralise(len(decisions) - _MOST_LISTED, 'case')} more; name fewer cases")
        return "\n".join(lines)

    # Results.

    def show_result(
        self,
        *,
        eval_set: EvalSet,
        case: Case,
        run: RunId = "",
        repeat: Repeat = None,
        whole: Annotated[bool, Field(description="Also return scores, turns and differences as data.")] = False,
    ) -> dict[str, Any]:
        """Show why a case did not pass, and how what the agent did differs from what was expected.

        Lines of the differences that begin with - are expected, lines with + are what the agent did. For an ERROR,
        `output` has the traceback and what the agent printed.
        """
        key = self._find_case(eval_set, case)
        results = self._read_results(key, run)
        result = _choose_repeat(results, repeat)
        reported = ReportedCase(result, ExpectedCases(self._workspace.document)(result))
        has_passed = result.status is CaseStatus.PASSED
        shown: dict[str, Any] = {
            "case": key.name,
            "eval_set": key.eval_set,
            "agent": key.target,
            "repeat": result.repeat + 1,
            "repeats": [each.status.value for each in results],
            "status": result.status.value,
            "quarantine": model_record(result.quarantine),
            "reasons": [] if has_passed else explain(reported),
            "differences": "\n".join(_limit_lines(list(aligned_lines(reported)))),
        }
        if not run:
            plan = self._plan([eval_set], [case], RunOptions())
            shown["is_current"] = key in find_current_verdicts(self._workspace, plan)
        if result.status is CaseStatus.ERROR:
            shown["output"] = "\n".join(_limit_lines(explain_at_length(reported)))
        return shown | ({"result": case_record(reported)} if whole else {})

    def show_trace(
        self,
        *,
        eval_set: EvalSet,
        case: Case,
        run: RunId = "",
        repeat: Repeat = None,
        span: Annotated[
            str, Field(description="The id of a span: return this one, with its request and response.")
        ] = "",
        offset: Offset = 0,
    ) -> dict[str, Any]:
        """Show the spans of an execution: agents, model calls and tool calls, with times and errors."""
        result = _choose_repeat(self._read_results(self._find_case(eval_set, case), run), repeat)
        spans = result.execution.spans
        if span:
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
            for each in spans[offset : offset + _MOST_SPANS]
        ]
        return {"repeat": result.repeat + 1, "spans": steps, "left_out": max(0, len(spans) - offset - len(steps))}

    def compare_runs(
        self,
        *,
        before: Annotated[str, Field(description="The earlier run. Default: the one before the newest.")] = "",
        after: Annotated[str, Field(description="The later run. Default: the newest.")] = "",
    ) -> dict[str, Any]:
        """Compare two runs: regressions, fixes, flaky cases and mean scores. Only cases that both have are listed."""
        record = comparison_record(compare_runs(self._workspace.root, before or None, after or None))
        cases = [each for each in record["cases"] if each["change"] not in ("same", "new", "gone")]
        return record | {"cases": cases[:_MOST_LISTED], "left_out": max(0, len(cases) - _MOST_LISTED)}

    # Runs.

    def start(
        self, what: Sequence[str], cases: Sequence[str], *, only: str, repeats: int | None, models: str
    ) -> Run | Sequence[str]:
        """Start a run. If no case failed, return the problems of the files instead."""
        if not self._may_run:
            raise NotAllowed("this server runs no agents: start it with `workbench mcp --allow-run`")
        named = {"models": models, "runs": repeats, "command": "workbench mcp: run_cases"}
        options = RunOptions.model_validate(named)
        selections = self._select(what, cases)
        if only == "failed":
            chosen = list(select_failed(self._workspace, selections))
            if not chosen:
                return find_file_problems(self._workspace, selections, options)
            selections = chosen
        self._workspace.stay_offline(False)  # only runs fetch datasets
        try:
            plan = self._workspace.plan(selections, options)
        finally:
            self._workspace.stay_offline()
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
                "quarantined": result.is_quarantined,
                "why": shorten(explain_in_one_line(ReportedCase(result, expected(result))), _LONGEST_REASON),
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
            "notices": list(dict.fromkeys([*run.plan.notices, *run.plan.file_problems, *notices])),
        }

    # Edits.

    def propose_edit(
        self,
        *,
        eval_set: EvalSet,
        case: Case,
        accept_last: Annotated[
            bool, Field(description="What the agent did last becomes the expectation (of `turn`, or of all turns).")
        ] = False,
        turn: Annotated[int | None, Field(description="The turn to change, from 1.", ge=1)] = None,
        response: Annotated[str, Field(description="The new expected final response of the turn.")] = "",
        tool_calls: Annotated[
            list[ExpectedCall] | None, Field(description="The new expected tool calls of the turn.")
        ] = None,
        repeat: Repeat = None,
    ) -> dict[str, Any]:
        """Show how the file of an eval set would change for another expectation. Nothing is written."""
        if not accept_last:
            return self._propose_expectation(eval_set, case, 1 if turn is None else turn, response, tool_calls)
        if response or tool_calls is not None:
            raise _Refusal("accept_last takes what the agent did: give no response and no tool_calls with it")
        key = self._find_case(eval_set, case)
        shown = self._read_case(key, turn)
        result = _choose_repeat(self._read_results(key, ""), repeat)
        found = find_hunks(shown, result.execution, result.metrics)
        hunks = [hunk for hunk in found if turn is None or hunk.turn == turn - 1]
        self._workspace.acceptances.check(Acceptance(shown=shown, result=result, hunks=hunks, is_whole=turn is None))
        return self._propose(key, [_accept_all(hunks, result.execution, result.metrics)] if hunks else [])

    def _propose_expectation(
        self, eval_set: str, case: str, turn: int, response: str, calls: Sequence[ExpectedCall] | None
    ) -> dict[str, Any]:
        key = self._find_case(eval_set, case)
        shown = self._read_case(key, turn)
        if not response and calls is None:
            raise _Refusal("nothing to change: give a response or tool_calls, or accept what the agent did")
        turns = shown.conversation or []
        changes: list[Change] = []
        if calls is not None:
            # The edit is the acceptance of an execution that did exactly this.
            uses = [FunctionCall(name=call.name, args=call.args) for call in calls]
            acted = turns[turn - 1].model_copy(update={"intermediate_data": IntermediateData(tool_uses=uses)})
            done = [*turns[: turn - 1], acted, *turns[turn:]]
            actual = Execution(turns=tuple(TurnResult(invocation=each, duration_seconds=0.0) for each in done))
            hunks = [hunk for hunk in find_hunks(shown, actual) if hunk.turn == turn - 1]
            changes += [_accept_all(hunks, actual)] if hunks else []
        expected = turns[turn - 1].final_response
        if response and (expected is None or expected.text(thoughts=False) != response):
            changes.append(lambda document, index: expect_response(document, index, turn - 1, response))
        return self._propose(key, changes)

    def apply_edit(
        self,
        *,
        eval_set: EvalSet,
        case: Case,
        proposal: Annotated[str, Field(description="The `proposal` that `propose_edit` returned for this case.")],
    ) -> dict[str, Any]:
        """Write a proposed edit into its eval set. Needs a server that was started with --allow-edit."""
        if not self._may_edit:
            raise NotAllowed("this server writes no files: start it with `workbench mcp --allow-edit`")
        shown = self._proposals.get(proposal)
        if shown is None or shown.key != self._find_case(eval_set, case):
            raise _Refusal(f"there is no proposal {proposal!r} for this case; each is written once")

        def change(document: EvalSetDocument) -> None:
            index = find_index(document, shown.key)
            if document.case_text(index) != shown.text:
                raise AcceptanceRefused("the case has changed since the edit was proposed; propose it again")
            shown.change(document, index)

        self._workspace.document(eval_set)  # as on disk now
        self._workspace.documents.edit_together([(eval_set, change)], label="change an expectation")
        del self._proposals[proposal]
        return {"saved": eval_set, "next": "run_cases judges the case again by the new expectation"}

    def _propose(self, key: CaseKey, changes: Sequence[Change]) -> dict[str, Any]:
        if not changes:
            raise _Refusal("the case already expects this")

        def change(document: EvalSetDocument, index: int) -> None:
            for each in changes:
                each(document, index)

        document = self._workspace.document(key.eval_set)
        scratch = EvalSetDocument.open(document.path)
        index = find_index(scratch, key)
        before = scratch.case_text(index)
        old = _format_case(scratch, index)
        change(scratch, index)
        new = _format_case(scratch, index)
        number = secrets.token_hex(4)
        self._proposals[number] = _Proposal(key=key, text=before, change=change)
        while len(self._proposals) > _MOST_PROPOSALS:
            del self._proposals[next(iter(self._proposals))]
        name = f"{key.eval_set}:{key.name}"
        lines = difflib.unified_diff(old, new, fromfile=name, tofile=name, lineterm="")
        written = "apply_edit writes it" if self._may_edit else "to write it, the server needs --allow-edit"
        return {"proposal": number, "diff": "\n".join(_limit_lines(list(lines))), "next": written}

    # Finding cases and results.

    def _refresh(self) -> None:
        self._workspace.refresh()
        if get_history_path(self._workspace.root).exists():  # reading must not create it
            self._workspace.read_new_verdicts()

    def _select(self, what: Sequence[str], cases: Sequence[str]) -> list[Selection]:
        from workbench.cli.case_selection import split_names

        self._refresh()
        return select_cases(self._workspace, split_names(self._workspace.project, what), cases=tuple(cases))

    def _plan(self, what: Sequence[str], cases: Sequence[str], options: RunOptions, *, existing: bool = False) -> Plan:
        selections = self._select(what, cases)
        make = self._workspace.plan_existing_cases if existing else self._workspace.plan
        return make(selections, options)

    def _find_case(self, eval_set: str, case: str) -> CaseKey:
        """Find a case by its names. Raises _Refusal."""
        self._refresh()
        entries = {entry.relative: entry for entry in self._workspace.project.eval_sets}
        if (entry := entries.get(eval_set)) is None:
            raise _Refusal(f"there is no eval set {eval_set!r}{suggest_name(eval_set, entries)}")
        if entry.target is None:
            raise _Refusal(f"{eval_set}: no agent belongs to this eval set; `workbench doctor` says what is missing")
        known = {
            key.name: key
            for found in self._workspace.cases_by_name(eval_set).values()
            for eval_id, number in found
            for key in [CaseKey(target=entry.target, eval_set=eval_set, eval_id=eval_id, occurrence=number)]
        }
        shown = {neutralise(name): key for name, key in known.items()}  # as `list_cases` shows them
        if (key := known.get(case) or shown.get(case)) is None:
            raise _Refusal(f"there is no case {case!r}{suggest_name(case, known)}")
        return key

    def _read_case(self, key: CaseKey, turn: int | None) -> EvalCase:
        """Read a case whose expectation can be edited. `turn` counts from 1. Raises _Refusal and StoreError."""
        document = self._workspace.document(key.eval_set)
        case = document.case(find_index(document, key))
        if case.conversation is None:
            raise _Refusal("a conversation with a simulated user has no expected turns")
        if turn is not None and turn > len(case.conversation):
            raise _Refusal(f"the case has {pluralise(len(case.conversation), 'turn')}, found turn {turn}")
        return case

    def _read_case_names(self, eval_set: str) -> tuple[set[CaseInSet] | None, list[str]]:
        """Return the cases of a set, and the problems of its file; None if it cannot be read."""
        try:
            names = self._workspace.cases_by_name(eval_set)
        except (PlanError, StoreError) as error:
            return None, [str(error)]
        cases = {case for found in names.values() for case in found}
        try:
            problems = self._workspace.document(eval_set).errors_here
        except StoreError:  # a dataset
            return cases, []
        return cases, [str(problem) for problem in problems[:_MOST_PROBLEMS]]

    def _read_latest_jobs(self) -> Mapping[CaseKey, Sequence[StoredJob]]:
        with open_history(self._workspace.root) as history:
            if history is None:
                return {}
            latest: dict[CaseKey, Sequence[StoredJob]] = dict(history.latest_judged_jobs())
            return latest | self._workspace.find_renamed_jobs(history, latest)

    def _read_results(self, key: CaseKey, run: str) -> Sequence[CaseResult]:
        """Read the results of a case by repeat, of its newest run unless `run` names one. Raises _Refusal."""
        found: Sequence[CaseResult] = ()
        with open_history(self._workspace.root) as history:
            if history is not None and run:
                stored = history.run(run)
                jobs = [each.job.key for each in history.list_executions(key) if each.job.run_id == stored.run_id]
                results = (history.result(stored.run_id, job) for job in sorted(jobs, key=lambda job: job.repeat))
                found = [result for result in results if result is not None]
            elif history is not None:
                former = self._workspace.find_former_names(history, [key]).get(key, ())
                newest = history.latest_judged_results([key, *former])
                found = next((newest[name] for name in (key, *former) if newest.get(name)), ())
        if not found:
            raise _Refusal(f"the case {key.name!r} did not run {f'in run {run}' if run else 'yet'}")
        return found


def _choose_repeat(results: Sequence[CaseResult], repeat: int | None) -> CaseResult:
    """Return a repeat, counted from 1, or the worst one. Raises _Refusal."""
    if repeat is None:
        return min(results, key=lambda result: _WORST_FIRST.index(result.status))
    for result in results:
        if result.repeat == repeat - 1:
            return result
    raise _Refusal(f"there is no repeat {repeat}: the case ran {pluralise(len(results), 'time')}")


def _accept_all(hunks: Sequence[Hunk], actual: Execution, metrics: Sequence[MetricResult] = ()) -> Change:
    return lambda document, index: accept(document, index, hunks, actual, metrics)


def _format_case(document: EvalSetDocument, index: int) -> list[str]:
    """Return the lines of a case as in the file, or indented if the file has no lines to compare."""
    lines = document.case_text(index).splitlines()
    if max(map(len, lines), default=0) > _LONGEST_LINE:
        return json.dumps(document.raw_case(index), indent=2, ensure_ascii=False).splitlines()
    return lines


def _format_time(job: StoredJob) -> str:
    return job.finished_at.isoformat(timespec="seconds")


def _limit_lines(lines: Sequence[str]) -> Iterator[str]:
    for line in lines[:_MOST_LINES]:
        yield shorten(line, _LONGEST_LINE)
    if len(lines) > _MOST_LINES:
        yield f"and {len(lines) - _MOST_LINES:,} more lines"


_WORST_FIRST = (CaseStatus.FAILED, CaseStatus.ERROR, CaseStatus.NOT_EVALUATED, CaseStatus.PASSED)


def _decide_status(jobs: Collection[StoredJob]) -> CaseStatus:
    """Return the worst status of the repeats."""
    return min((job.status for job in jobs), key=_WORST_FIRST.index)


def _clean(value: Any) -> Any:
    """Return a JSON value whose texts have no control characters."""
    if isinstance(value, str):
        return neutralise(value)
    if isinstance(value, dict):
        return {neutralise(key): _clean(item) for key, item in value.items()}
    return [_clean(item) for item in value] if isinstance(value, list) else value


# The server.

_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_RUNS = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=True)
_EDITS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False)


class _StrictServer(MCPServer):  # type: ignore[misc]
    """Refuses arguments that a tool does not have: the SDK ignores them, and `run_cases` would run everything.

    Each wrong value gets one line.
    """

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Context | None = None) -> Any:
        """Call a tool, if it has all these arguments. Raises ToolError."""
        for tool in await self.list_tools():
            known = tool.input_schema["properties"] if tool.name == name else arguments
            for argument in arguments:
                if argument not in known:
                    has = ", ".join(known) or "none"
                    raise ToolError(f"{name} has no argument {shorten(repr(argument), _LONGEST_LINE)}; it has: {has}")
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                raise ToolError("\n".join(f"{name}: {fault}" for fault in _list_faults(error.__cause__))) from None
            raise


def _list_faults(error: ValidationError) -> Iterator[str]:
    for fault in error.errors(include_url=False):
        argument = ".".join(map(str, fault["loc"]))
        found = "" if fault["type"] == "missing" else f", got {shorten(repr(fault['input']), _LONGEST_LINE)}"
        yield f"{argument}: {fault['msg'][:1].lower()}{fault['msg'][1:]}{found}"


class ProjectServer:
    """Answers the calls of a client: the work is done in the project's own thread."""

    def __init__(self, path: Path, *, may_run: bool, may_edit: bool) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="workbench-mcp")
        self._tools = ProjectTools(path, may_run=may_run, may_edit=may_edit)
        self._server = _StrictServer("workbench", version=__version__, instructions=_INSTRUCTIONS, log_level="WARNING")
        tools, serve = self._tools, self._serve
        for tool, hints in (
            (serve(tools.list_eval_sets), _READS),
            (serve(tools.list_cases), _READS),
            (serve(tools.explain_cases), _READS),
            (serve(tools.show_result), _READS),
            (serve(tools.show_trace), _READS),
            (serve(tools.compare_runs), _READS),
            (self.run_cases, _RUNS),
            (serve(tools.propose_edit), _READS),
            (serve(tools.apply_edit), _EDITS),
        ):
            self._server.add_tool(tool, annotations=hints)

    def run(self) -> None:
        """Serve standard input and output until the client ends the connection, or a signal the process."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._end_at_once)
        try:
            self._server.run("stdio")
        finally:
            self._close()

    def _end_at_once(self, number: int, _: FrameType | None) -> None:
        """End at a signal. The SDK would wait for the next message of the client."""
        self._close()
        os._exit(128 + number)

    def _close(self) -> None:
        """End all runs and processes."""
        self._thread.submit(self._tools.close).result()
        self._thread.shutdown()

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
        """Run eval cases and return the verdicts. Needs a server that was started with --allow-run.

        `exit_status`: 0 all passed, 1 some case failed, 2 a file or the configuration is wrong, 3 none failed but some
        ended in ERROR.
        """
        starting = asyncio.ensure_future(
            self._work(self._tools.start, what, cases, only=only, repeats=repeats, models=models)
        )
        try:
            run = await asyncio.shield(starting)
        except asyncio.CancelledError:  # the thread starts the run nevertheless
            starting.add_done_callback(_cancel_run)
            raise
        if not isinstance(run, Run):
            notices = ["nothing to run: no case failed last time", *run]
            return {"run": None, "exit_status": WRONG if run else 0, "notices": notices}
        done = -1
        try:
            while not run.is_over:
                await asyncio.sleep(_POLL_SECONDS)
                if (now := run.summary().total) > done:
                    done = now
                    await context.report_progress(done, run.plan.total)
        except BaseException:  # the client has cancelled the call, or is gone
            run.cancel()
            raise
        return await self._answer(self._tools.describe_run, run)

    def _serve(self, work: Callable[P, T]) -> Callable[P, Awaitable[T]]:
        """Make a tool with the parameters and the text of a method."""

        @functools.wraps(work)
        async def serve(*arguments: P.args, **named: P.kwargs) -> T:
            return await self._answer(work, *arguments, **named)

        return serve

    async def _answer(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Do work in the project's thread, and return the result without control characters and secrets."""
        result = await self._work(work, *arguments, **named)
        text = dump(result)
        if len(text) > _MOST_CHARACTERS:
            raise ToolError(f"the answer has {len(text):,} characters, at most {_MOST_CHARACTERS:,}: ask for less")
        cleaned: T = _clean(json.loads(text))
        return cleaned

    async def _work(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Do work in the project's thread. Raises ToolError for errors whose text is meant for users."""
        call = functools.partial(work, *arguments, **named)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, call)
        except _USER_ERRORS as error:
            raise ToolError(shorten(redact(neutralise(str(error))), _LONGEST_MESSAGE)) from None


def _cancel_run(starting: asyncio.Future[Run | Sequence[str]]) -> None:
    if not starting.cancelled() and starting.exception() is None and isinstance(run := starting.result(), Run):
        run.cancel()
