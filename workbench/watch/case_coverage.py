"""Measures what the cases of a project reach, from stored records and the source of agents. Nothing runs.

The parts that could be reached come from the traces (agents and tools as frameworks report them) and from the syntax
trees of the agent's own modules. Dependencies and traces of stored executions say which case reached which part. A
record counts if nothing that the case used has changed since; see `workbench.watch.selector`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_core import from_json

from workbench.engine.agent_source import AgentSource, Callback, is_prompt_file, make_relative, read_agent_source
from workbench.engine.plan import Plan, PlannedCase
from workbench.engine.verdict_index import Asked, Verdicts
from workbench.engine.workspace import Workspace
from workbench.model.evalset import PERSONAS
from workbench.model.identity import ENDED_EARLY, CaseKey, Dependency, DependencyKind
from workbench.model.results import FailureKind
from workbench.model.target import AgentKind, Target
from workbench.model.text import mask_named_secrets, pluralise
from workbench.model.trace import get_trajectory
from workbench.report.coverage_report import (
    ArgumentValues,
    Coverage,
    CoveragePart,
    CoverageSection,
    PartKind,
    PartStatus,
    UncertainCase,
)
from workbench.store.errors import StoreError
from workbench.store.evalsets.case_frame import DocumentFormat
from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.store.history.history_queries import StoredVerdict
from workbench.store.history.history_schema import get_history_path
from workbench.watch.selector import Action, Reason, Selector, Why, make_snapshot
from workbench.watch.watch_events import describe_reason

_HANDS_OVER = "transfer_to_agent"
_OF_FRAMEWORKS = frozenset({_HANDS_OVER, "exit_loop"})
_COMPLETE = (FailureKind.AGENT, FailureKind.METRIC)  # failures after which the record is complete
_STARTS = ("subprocess ", "multiprocessing.", "pty.", "os.")  # of what cannot be followed: the start of a process
_MOST_RUNS = 1_000  # whose isolation is looked up


def measure_coverage(workspace: Workspace, plan: Plan, *, targets: Iterable[Target] = ()) -> Coverage:
    """Measure the coverage by the cases of a plan. `targets` are further ones, which may have no cases.

    Raises StoreError if the history cannot be read.
    """
    planned = [case for case in plan.cases if not case.is_recorded]
    records = _read_records(workspace, plan, planned)
    agents = _group_targets([*(case.target for case in planned), *targets])
    with_code = _read_sources(agents, records, workspace.root)
    shown = [_AgentSection(each, records, planned, workspace).build() for each in with_code]
    code = _build_code_section(with_code, records, workspace.root)
    return Coverage(
        selected=len(planned),
        current=sum(record.is_current for record in records.cases),
        stale=[UncertainCase(case=each.case, reason=each.reason) for each in records.cases if each.is_stale],
        unknown=[
            UncertainCase(case=each.case, reason=each.reason)
            for each in records.cases
            if not (each.is_stale or each.is_current)
        ],
        sections=[*shown, *([code] if code.parts or code.notes else [])],
    )


# Records: what stored executions reached, by their traces and dependencies.


@dataclass
class _CaseRecord:
    """The record of one case: what is known of it, and whether that is all of it."""

    case: CaseKey
    is_current: bool = False
    is_stale: bool = False
    has_no_answer: bool = False  # an outage, a timeout or no start: with an answer it would reach more
    reason: str = "never ran"
    lacks_code: bool = False  # its dependencies are unknown or incomplete
    lacks_calls: bool = False  # its tool calls are unknown
    lacks_trace: bool = False  # its trace is not stored any more
    shares_process: bool = False
    started: str = ""  # another process, in which functions may have run

    def add_untracked(self, what: str) -> None:
        """Note what the case did that could not be followed, if functions may have run there."""
        self.lacks_code = self.lacks_code or what == ENDED_EARLY
        self.started = what if what.startswith(_STARTS) else self.started


class _Trace(NamedTuple):
    """The parts in one trace. `structure` has the agents that the framework reported."""

    parts: set[tuple[PartKind, str]]
    structure: dict[str, Mapping[str, Any]]
    tools: set[str]  # declared to models
    are_calls_known: bool


@dataclass
class _Records:
    """The records of all planned cases, in their order.

    `current` and `stale` have the positions of the cases that reach a part of a trace, or a row of code.
    """

    cases: list[_CaseRecord]
    current: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    stale: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    structures: dict[str, dict[str, Mapping[str, Any]]] = field(default_factory=dict)  # by target
    declared: dict[str, set[str]] = field(default_factory=dict)  # tools by target
    imported: dict[str, set[str]] = field(default_factory=dict)  # source files by target
    opened: dict[str, set[str]] = field(default_factory=dict)  # prompt files by target
    whole: set[str] = field(default_factory=set)  # source files whose functions are not recorded

    def add(self, key: tuple[str, str], positions: Iterable[int], *, is_stale: bool) -> None:
        """Add cases that reach a part."""
        (self.stale if is_stale else self.current).setdefault(key, []).extend(positions)

    def find(self, key: tuple[str, str]) -> tuple[list[CaseKey], list[CaseKey]]:
        """Return the cases that reach a part with a current record, and those that reach it only with a stale one."""
        current = set(self.current.get(key, ()))
        stale = set(self.stale.get(key, ())) - current
        return [self.cases[each].case for each in sorted(current)], [self.cases[each].case for each in sorted(stale)]


class _Found(NamedTuple):
    """A stored execution. `is_further`: it does not decide on its case, it only adds what the case reaches."""

    position: int
    is_stale: bool
    verdict: StoredVerdict
    is_further: bool = False


def _read_records(workspace: Workspace, plan: Plan, planned: Sequence[PlannedCase]) -> _Records:
    """Find the record of each case: the current ones of all its repeats, else the newest."""
    verdicts = workspace.verdicts
    state = make_snapshot(workspace)
    # What cannot be followed does not make a record stale here: what the case reached remains a fact.
    selector = Selector(verdicts, state, is_current=lambda _: True)
    records = _Records([_CaseRecord(case.key) for case in planned])
    position_of = {case.key: position for position, case in enumerate(planned)}
    found: list[_Found] = []
    reasons: dict[Reason | None, str] = {}
    for job, case in plan.jobs:
        if case.is_recorded:
            continue
        decision = selector.decide(job, case)
        position = position_of[case.key]
        record = records.cases[position]
        is_unchanged = decision.verdict is not None and decision.action in (Action.NOTHING, Action.JUDGE, Action.LEAVE)
        verdict = decision.verdict or (verdicts.newest(job) if case.problem is None else None)
        failure = None if verdict is None else verdict.job.failure
        has_no_answer = is_unchanged and failure is not None and failure.kind not in _COMPLETE
        is_current = is_unchanged and not has_no_answer
        reason = decision.reasons[0] if decision.reasons else None
        if verdict is not None:
            found.append(_Found(position, not is_unchanged, verdict))
            record.is_current = record.is_current or is_current
            record.is_stale = record.is_stale or not is_unchanged
            record.has_no_answer = record.has_no_answer or has_no_answer
        if not is_current and not (verdict is None and record.is_current):
            if reason not in reasons:
                words = "" if reason is None else describe_reason(reason, root=workspace.root, state=state)
                reasons[reason] = words or "no record"
            record.reason = reasons[reason] if case.problem is None else case.problem.message
            if has_no_answer and failure is not None:
                record.reason = f"{Why.NO_ANSWER} ({failure.kind})"
    for record in records.cases:
        record.is_current = record.is_current and not (record.is_stale or record.has_no_answer)
    found += _find_further(found, selector, verdicts, planned)
    found.sort(key=lambda each: each.is_stale)  # current records first
    _add_traces(records, found, workspace, planned)
    _add_dependencies(records, found, verdicts, planned)
    return records


def _find_further(
    found: Sequence[_Found], selector: Selector, verdicts: Verdicts, planned: Sequence[PlannedCase]
) -> Iterator[_Found]:
    """Yield the other current executions of the cases, also of repeats that the plan does not have.

    A repeat without a current one has its newest: what it reached may have changed since.
    """
    positions = {planned[each.position].key: each.position for each in found}
    known = {(each.position, each.verdict.execution) for each in found}
    decided = {each.verdict.job.key for each in found}
    for job in verdicts.list_jobs():
        position = positions.get(job.case)
        if position is None:
            continue
        asked = Asked(job.case.target, planned[position].execution_hash, job.repeat)
        stored = verdicts.for_job(job, asked) if job in decided else ()
        if len(stored) == 1 and (position, stored[0].execution) in known:  # as of most
            continue
        current = selector.find_current(job, planned[position])
        for verdict in current:
            if (position, verdict.execution) not in known:
                yield _Found(position, is_stale=False, verdict=verdict, is_further=True)
        newest = None if current or job in decided else verdicts.newest(job)
        if newest is not None:
            yield _Found(position, is_stale=True, verdict=newest, is_further=True)


def _add_traces(
    records: _Records, found: Sequence[_Found], workspace: Workspace, planned: Sequence[PlannedCase]
) -> None:
    # Tools and agents of stale further repeats may be gone; the source does not say so.
    found = [each for each in found if not (each.is_further and each.is_stale)]
    if not found or not get_history_path(workspace.root).exists():
        return
    with workspace.history() as history:
        shared = {run.run_id for run in history.runs(limit=_MOST_RUNS) if run.options.get("isolation") == "worker"}
        for is_judged in (True, False):
            part = [each for each in found if each.verdict.is_judged is is_judged]
            jobs = [(each.verdict.job.run_id, each.verdict.job.key) for each in part]
            for (position, is_stale, verdict, is_further), data in zip(
                part, history.find_execution_data(jobs, is_judged=is_judged), strict=True
            ):
                record = records.cases[position]
                record.shares_process = record.shares_process or verdict.job.run_id in shared
                if data is None:
                    record.lacks_trace = record.lacks_trace or not is_further
                    continue
                target = planned[position].target
                trace = read_trace(data, kind=target.kind)
                record.lacks_calls = record.lacks_calls or not (is_further or trace.are_calls_known)
                for kind, name in trace.parts:
                    records.add((f"{target.name}\0{kind}", name), (position,), is_stale=is_stale)
                if is_stale and target.name in records.structures:
                    continue  # it may have agents that the code does not have any more
                if trace.structure:
                    records.structures.setdefault(target.name, {}).update(trace.structure)
                if trace.tools:
                    records.declared.setdefault(target.name, set()).update(trace.tools)


def read_trace(data: Mapping[str, Any], *, kind: AgentKind) -> _Trace:
    """Read the parts in the JSON data of an execution. Data of unexpected types is skipped."""
    row = data.get("row")
    if isinstance(row, dict):
        calls = {(PartKind.TOOL, str(each[0])) for each in row.get("calls") or ()}
        return _Trace(calls, {}, set(), "calls" in row)
    parts: set[tuple[PartKind, str]] = set()
    structure: dict[str, Mapping[str, Any]] = {}
    tools: set[str] = set()
    _read_spans(_dicts(data.get("spans")), parts, structure, kind=kind)
    are_known = True
    for turn in _dicts(data.get("turns")):
        are_known = are_known and not turn.get("calls_unknown")
        invocation = _dict(turn.get("invocation"))
        for author, name, args in iterate_calls(invocation):
            parts.add((PartKind.TOOL, name))
            receiver = args.get("agent_name") if name == _HANDS_OVER else None
            if author and isinstance(receiver, str):
                parts.add((PartKind.TRANSFER, f"{author} → {receiver}"))
        for details in _dict(_dict(invocation.get("app_details")).get("agent_details")).values():
            for each in _dicts(_dict(details).get("tool_declarations")):
                tools |= {str(item["name"]) for item in _dicts(each.get("function_declarations")) if "name" in item}
    persona = _dict(data.get("simulation")).get("persona")
    if isinstance(persona, str):
        parts.add((PartKind.PERSONA, persona))
    return _Trace({part for part in parts if part[1] not in _OF_FRAMEWORKS}, structure, tools, are_known)


def _read_spans(
    spans: Sequence[Mapping[str, Any]],
    parts: set[tuple[PartKind, str]],
    structure: dict[str, Mapping[str, Any]],
    *,
    kind: AgentKind,
) -> None:
    by_id = {span.get("id"): span for span in spans}
    for span in spans:
        name, attributes = str(span.get("name", "")), _dict(span.get("attributes"))
        match span.get("kind"):
            case "agent":
                parts.add((PartKind.AGENT, name))
                around = _find_agent_around(span, by_id)
                if around is not None and around.get("name") != name:
                    parts.add((PartKind.TRANSFER, f"{around.get('name')} → {name}"))
            case "tool":
                parts.add((PartKind.TOOL, name))
            case "model" if isinstance(attributes.get("agent"), str):
                parts.add((PartKind.INSTRUCTION, attributes["agent"]))
            case "invocation":
                reported = _dict(attributes.get("agents"))
                structure.update({agent: facts for agent, facts in reported.items() if isinstance(facts, dict)})
            case "other" if kind is AgentKind.LANGCHAIN and span.get("request") is None:  # retrievers have one
                parts.add((PartKind.NODE, name))


def _find_agent_around(span: Mapping[str, Any], by_id: Mapping[Any, Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the nearest span of an agent around a span. Recorded spans may contain each other."""
    for _ in by_id:
        around = by_id.get(span.get("parent_id"))
        if around is None or around.get("kind") == "agent":
            return around
        span = around
    return None


def iterate_calls(invocation: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield author, name and arguments of the tool calls in the JSON data of an invocation, in either spelling."""
    data = _dict(_get(invocation, "intermediate_data", "intermediateData"))
    for call in _dicts(_get(data, "tool_uses", "toolUses")):
        yield "", str(call.get("name") or ""), _dict(call.get("args"))
    for event in _dicts(_get(data, "invocation_events", "invocationEvents")):
        for part in _dicts(_dict(event.get("content")).get("parts")):
            call = _dict(_get(part, "function_call", "functionCall"))
            if call:
                yield str(event.get("author") or ""), str(call.get("name") or ""), _dict(call.get("args"))


def _get(data: Mapping[str, Any], snake: str, camel: str) -> Any:
    return data[snake] if snake in data else data.get(camel)


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _add_dependencies(
    records: _Records, found: Sequence[_Found], verdicts: Verdicts, planned: Sequence[PlannedCase]
) -> None:
    """Add the functions and files that records depend on. Most cases share a few sets of dependencies."""
    users: dict[tuple[int, bool, str], list[int]] = {}
    for position, is_stale, verdict, is_further in found:
        if verdict.dependencies is None:
            records.cases[position].lacks_code = records.cases[position].lacks_code or not is_further
        else:
            users.setdefault((verdict.dependencies, is_stale, planned[position].target.name), []).append(position)
    classified: dict[int, _CodeRow] = {}
    read: set[str] = set()
    for (number, is_stale, target), positions in users.items():
        imported = records.imported.setdefault(target, set())
        opened = records.opened.setdefault(target, set())
        for row_number in verdicts.list_rows(number):
            row = classified.get(row_number)
            if row is None:
                row = classified[row_number] = _classify(verdicts.row(row_number))
            if row.is_import:
                imported.add(row.name)
            elif row.is_source:
                read.add(row.name)
            elif row.key is not None:
                records.add(row.key, positions, is_stale=is_stale)
                if row.key[0] == PartKind.PROMPT_FILE:
                    opened.add(row.name)
            elif row.name:
                for position in positions:
                    records.cases[position].add_untracked(row.name)
    records.whole = read.difference(*records.imported.values())  # source may also be read as text


class _CodeRow(NamedTuple):
    """A dependency as code or file: `key` is its part. `is_import`: a module; `is_source`: one that was only read."""

    name: str = ""
    key: tuple[str, str] | None = None
    is_import: bool = False
    is_source: bool = False


def _classify(row: Dependency) -> _CodeRow:
    kind, name, _ = row
    if kind == DependencyKind.BLOCK:
        return _CodeRow(name, (PartKind.FUNCTION.value, name))
    if kind == DependencyKind.FILE and name.endswith(".py"):
        return _CodeRow(name, is_source=True)
    if kind == DependencyKind.FILE and is_prompt_file(name):
        return _CodeRow(name, (PartKind.PROMPT_FILE.value, name))
    if kind in (DependencyKind.REST, DependencyKind.MODULE):
        return _CodeRow(name, is_import=True)
    return _CodeRow(name if kind == DependencyKind.OPAQUE else "")


# Sections: the parts of an agent and of the code, with the cases that reach them.


class _Agent(NamedTuple):
    """Targets with the same agent, and its source."""

    targets: Sequence[Target]
    source: AgentSource

    @property
    def kind(self) -> AgentKind:
        """The kind of its targets."""
        return self.targets[0].kind

    @property
    def names(self) -> Sequence[str]:
        """The names of its targets."""
        return [target.name for target in self.targets]


def _group_targets(targets: Iterable[Target]) -> list[list[Target]]:
    """Group targets by their agent: one agent may have several targets, each with its sets and criteria."""
    groups: dict[tuple[Any, ...], dict[str, Target]] = {}
    for target in targets:
        if target.kind is not AgentKind.RECORDED:
            same = (target.kind, target.location, target.path, target.sub_agent)
            groups.setdefault(same, {})[target.name] = target
    return [list(group.values()) for group in groups.values()]


def _read_sources(groups: Iterable[Sequence[Target]], records: _Records, root: Path) -> list[_Agent]:
    return [
        _Agent(
            targets,
            read_agent_source(
                targets[0],
                root=root,
                recorded=set().union(*(records.imported.get(target.name, ()) for target in targets)),
            ),
        )
        for targets in groups
    ]


def _make_part(
    kind: PartKind,
    name: str,
    *,
    place: str = "",
    reached: tuple[Sequence[CaseKey], Sequence[CaseKey]],
    is_uncertain: bool,
) -> CoveragePart:
    cases, stale = reached
    if cases:
        status = PartStatus.REACHED
    elif stale:
        status = PartStatus.STALE
    else:
        status = PartStatus.UNKNOWN if is_uncertain else PartStatus.UNREACHED
    return CoveragePart(kind=kind, name=name, place=place, status=status, cases=cases, stale_cases=stale)


class _AgentSection:
    """Builds the section of one agent: its sub-agents, transfers, tools, instructions, nodes and personas."""

    def __init__(self, agent: _Agent, records: _Records, planned: Sequence[PlannedCase], workspace: Workspace) -> None:
        self._agent = agent
        self._source = agent.source
        self._records = records
        names = {*agent.names}
        self._planned = [case for case in planned if case.target.name in names]
        own = [record for record in records.cases if record.case.target in names]
        self._root = workspace.root
        self._is_uncertain = any(not record.is_current or record.lacks_trace for record in own)
        self._has_records = any(record.is_current or record.is_stale for record in own)
        self._lacks_trace = sum(record.lacks_trace for record in own)
        self._lacks_calls = sum(record.lacks_calls for record in own)
        self._expected = _read_expected(self._planned, workspace)
        self._structure: dict[str, Mapping[str, Any]] = {}
        self._declared_tools: set[str] = set()
        for name in agent.names:
            self._structure |= records.structures.get(name, {})
            self._declared_tools |= records.declared.get(name, set())

    def build(self) -> CoverageSection:
        """Return the section."""
        agents, edges = self._list_agents()
        instructed = self._list_instructed()
        is_graph = self._agent.kind is AgentKind.LANGCHAIN
        seen_agents = self._seen(PartKind.AGENT)
        if not agents and len(seen_agents) < 2:
            seen_agents = {}  # a function reports itself
        tools = self._list_tools()
        kinds: list[tuple[PartKind, Mapping[str, str]]] = [
            (PartKind.AGENT, agents | {name: agents.get(name, "") for name in seen_agents}),
            (PartKind.NODE, self._source.nodes | self._seen(PartKind.NODE) if is_graph else {}),
            (PartKind.TRANSFER, edges | {name: edges.get(name, "") for name in self._seen(PartKind.TRANSFER)}),
            (PartKind.TOOL, tools),
            (PartKind.INSTRUCTION, instructed),
            (PartKind.PERSONA, self._list_personas()),
        ]
        parts = [
            _make_part(
                kind,
                name,
                place=place or self._source.nodes.get(name, "") * (kind is PartKind.NODE),
                reached=self._find(kind, name),
                is_uncertain=self._is_uncertain or (kind is PartKind.TOOL and self._lacks_calls > 0),
            )
            for kind, places in kinds
            for name, place in places.items()
        ]
        return CoverageSection(
            title=", ".join(self._agent.names),
            targets=self._agent.names,
            parts=[*parts, *self._list_expected(tools)],
            arguments=self._expected.list_arguments(),
            notes=list(self._list_notes(tools)),
        )

    def _find(self, kind: PartKind, name: str) -> tuple[list[CaseKey], list[CaseKey]]:
        found = [self._records.find((f"{target}\0{kind}", name)) for target in self._agent.names]
        return [key for cases, _ in found for key in cases], [key for _, stale in found for key in stale]

    def _seen(self, kind: PartKind) -> dict[str, str]:
        """Return the names of a kind that any record has; the source does not know their places."""
        prefixes = {f"{target}\0{kind}" for target in self._agent.names}
        reached = (*self._records.current, *self._records.stale)
        return {name: "" for prefix, name in dict.fromkeys(reached) if prefix in prefixes}

    def _list_agents(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return the declared agents, and what each can hand over to. A reported structure replaces the source."""
        declared = self._source.agents
        if self._structure:
            below = {name: _names(facts.get("agents")) for name, facts in self._structure.items()}
        else:
            below = {name: [*agent.agents] for name, agent in declared.items()}
        agents = {name: declared[name].place if name in declared else "" for name in below}
        edges = {f"{name} → {other}": agents[name] for name, others in below.items() for other in others}
        for name, other in self._list_offered_transfers():
            edges.setdefault(f"{name} → {other}", agents.get(name, ""))
        return agents, edges

    def _list_offered_transfers(self) -> Iterator[tuple[str, str]]:
        """Yield the transfers that models are offered, also up and across. Old records do not have them."""
        reported = {name: facts["transfers"] for name, facts in self._structure.items() if "transfers" in facts}
        if reported or self._agent.kind is not AgentKind.ADK:
            yield from ((name, other) for name, others in reported.items() for other in _names(others))
            return
        for name, other in self._source.list_transfers():
            if not self._structure or (name in self._structure and other in self._structure):
                yield name, other

    def _list_instructed(self) -> dict[str, str]:
        """Return the agents with an instruction. An agent with a model has one, unless the source says otherwise."""
        declared = self._source.agents
        found = {
            name: agent.place
            for name, agent in declared.items()
            if agent.has_instruction and (not self._structure or name in self._structure)
        }
        asked = [name for name, facts in self._structure.items() if "model" in facts or facts.get("type") == "LlmAgent"]
        if self._agent.kind is AgentKind.ADK:
            asked += self._seen(PartKind.INSTRUCTION)
        return found | {name: "" for name in asked if name not in declared}

    def _list_tools(self) -> dict[str, str]:
        names: dict[str, str] = dict(self._source.tools)
        for agent in self._source.agents.values() if not self._structure else ():
            names |= dict.fromkeys(agent.tools, "")
        for facts in self._structure.values():
            names |= dict.fromkeys(_names(facts.get("tools")), "")
        for target in self._agent.targets:
            names |= {each.rpartition(":")[2].rpartition(".")[2]: "" for each in target.tools}
        names |= dict.fromkeys([*sorted(self._declared_tools), *self._seen(PartKind.TOOL), *self._expected.tools], "")
        functions = {
            function.rpartition(".")[2]: f"{path}:{line}"
            for path, found in self._source.files.items()
            for function, line in found.items()
            if ".<locals>." not in function
        }
        return {
            name: place or make_relative(functions.get(name, ""), self._root)
            for name, place in names.items()
            if name and name not in _OF_FRAMEWORKS
        }

    def _list_personas(self) -> dict[str, str]:
        """Return the built-in personas and those of scenarios, if any case has a scenario."""
        scenarios = [scenario for case in self._planned if (scenario := case.scenario) is not None]
        if not scenarios:
            return {}
        named = [scenario.user_persona for scenario in scenarios if scenario.user_persona is not None]
        own = [persona if isinstance(persona, str) else persona.id for persona in named]
        return dict.fromkeys([*PERSONAS, *own, *self._seen(PartKind.PERSONA)], "")

    def _list_expected(self, tools: Mapping[str, str]) -> list[CoveragePart]:
        if not self._expected.has_conversations:
            return []
        return [
            _make_part(
                PartKind.EXPECTED_TOOL,
                name,
                place=place,
                reached=(self._expected.tools.get(name, []), ()),
                is_uncertain=False,
            )
            for name, place in tools.items()
        ]

    def _list_notes(self, tools: Mapping[str, str]) -> Iterator[str]:
        if not self._planned:
            yield "no case of this agent is selected"
        elif not self._has_records:
            yield "no case has run yet: a run may add agents, tools and transfers that the source does not show"
        declared = (self._structure, self._source.agents, self._source.tools, self._declared_tools)
        if tools and not any(declared) and not any(target.tools for target in self._agent.targets):
            yield (
                "the agent does not declare its tools: only those that cases call or expect are known; "
                "`tools` of the target in workbench.toml lists all"
            )
        if self._lacks_trace:
            yield f"the traces of {pluralise(self._lacks_trace, 'case')} are not stored any more"
        if self._lacks_calls:
            yield f"the tool calls of {pluralise(self._lacks_calls, 'case')} are unknown"
        if self._expected.problems:
            yield f"the expectations of {pluralise(self._expected.problems, 'case')} cannot be read"


def _names(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _build_code_section(agents: Sequence[_Agent], records: _Records, root: Path) -> CoverageSection:
    """Build the section of the code: callbacks, prompt files and functions, each once for all agents that share it."""
    owners: dict[str, set[str]] = {}
    functions: dict[str, Mapping[str, int]] = {}
    callbacks: dict[Callback, set[str]] = {}
    prompts: dict[str, set[str]] = {}
    for agent in agents:
        for path, found in agent.source.files.items():
            functions[path] = found
            owners.setdefault(path, set()).update(agent.names)
        for callback in agent.source.callbacks:
            callbacks.setdefault(callback, set()).update(agent.names)
        opened = (records.opened.get(name, ()) for name in agent.names)
        for path in sorted({*agent.source.prompt_files, *set().union(*opened)}):
            if path.startswith(f"{root}{os.sep}"):
                prompts.setdefault(path, set()).update(agent.names)
    lacking = {
        record.case.target for record in records.cases if not record.is_current or record.lacks_code or record.started
    }
    parts = [
        _make_part(
            PartKind.CALLBACK,
            callback.name,
            place=callback.place,
            reached=records.find((PartKind.FUNCTION.value, callback.function or "")),
            is_uncertain=callback.function is None
            or callback.function.rpartition("::")[0] in records.whole
            or not names.isdisjoint(lacking),
        )
        for callback, names in callbacks.items()
    ]
    parts += [
        _make_part(
            PartKind.PROMPT_FILE,
            make_relative(path, root),
            reached=records.find((PartKind.PROMPT_FILE.value, path)),
            is_uncertain=not names.isdisjoint(lacking),
        )
        for path, names in prompts.items()
    ]
    shown = {callback.function for callback in callbacks}
    parts += [
        _make_part(
            PartKind.FUNCTION,
            name,
            place=f"{make_relative(path, root)}:{line}",
            reached=records.find((PartKind.FUNCTION.value, f"{path}::{name}")),
            is_uncertain=path in records.whole or not owners[path].isdisjoint(lacking),
        )
        for path, found in sorted(functions.items())
        for name, line in found.items()
        if f"{path}::{name}" not in shown
    ]
    targets = dict.fromkeys(name for agent in agents for name in agent.names)
    return CoverageSection(
        title="code", targets=list(targets), parts=parts, notes=list(_list_code_notes(agents, records, functions, root))
    )


def _list_code_notes(
    agents: Sequence[_Agent], records: _Records, functions: Collection[str], root: Path
) -> Iterator[str]:
    yield from dict.fromkeys(problem for agent in agents for problem in agent.source.problems)
    external = [name for agent in agents if not agent.source.files for name in agent.names]
    if external:
        yield f"the code of {', '.join(external)} does not run in a worker, or was not found: its functions are unknown"
    whole = sorted(make_relative(path, root) for path in records.whole if path in functions)
    if whole:
        yield f"recorded as a whole, so that their functions are unknown: {', '.join(whole)}"
    lacking = sum(record.lacks_code for record in records.cases)
    if lacking:
        yield f"{pluralise(lacking, 'case')} without a complete record of code: the agent ended early or runs elsewhere"
    started = {record.started for record in records.cases if record.started}
    if started:
        count = pluralise(sum(bool(record.started) for record in records.cases), "case")
        yield f"{count} started other processes ({', '.join(sorted(started))}): functions that ran there are unknown"
    shared = sum(record.shares_process for record in records.cases)
    if shared:
        yield (
            f'{pluralise(shared, "case")} ran in a shared process (isolation = "worker"): '
            "functions and files of all of them count for each"
        )


# Expectations: tools and arguments in the expected calls.


@dataclass
class _Expected:
    """The expected calls of the cases of an agent. `problems` counts cases that cannot be read."""

    tools: dict[str, list[CaseKey]] = field(default_factory=dict)
    values: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    has_conversations: bool = False
    problems: int = 0

    def add(self, case: CaseKey, calls: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        """Add the expected calls of a case."""
        self.has_conversations = True
        for name, args in calls:
            known = self.tools.setdefault(name, [])
            if not known or known[-1] is not case:
                known.append(case)
            for argument, value in args.items():
                counts = self.values.setdefault((name, argument), {})
                text = _format_value(argument, value)
                counts[text] = counts.get(text, 0) + 1

    def list_arguments(self) -> list[ArgumentValues]:
        """Return the arguments with their numbers of values."""
        return [
            ArgumentValues(
                tool=tool,
                argument=argument,
                values=len(counts),
                single_values=[value for value, count in counts.items() if count == 1],
            )
            for (tool, argument), counts in self.values.items()
        ]


def _format_value(argument: str, value: Any) -> str:
    masked = mask_named_secrets(value, argument)
    return json.dumps(masked, ensure_ascii=False, sort_keys=True, default=repr)


def _read_expected(planned: Sequence[PlannedCase], workspace: Workspace) -> _Expected:
    """Read the expected calls from the data of the sets, which is ten times faster than as types."""
    expected = _Expected()
    documents: dict[str, EvalSetDocument | None] = {}
    places: dict[str, Mapping[tuple[str, int], int]] = {}
    for case in planned:
        if case.problem is not None:
            expected.problems += 1
            continue
        if case.scenario is not None:
            continue
        key = case.key
        if key.eval_set not in documents:
            documents[key.eval_set] = document = _open_document(workspace, key.eval_set)
            entries = () if document is None else document.entries
            places[key.eval_set] = {(entry.eval_id, entry.occurrence): entry.index for entry in entries}
        document = documents[key.eval_set]
        index = places[key.eval_set].get((key.eval_id, key.occurrence))
        data = None if document is None or index is None else _read_data(document, index)
        if data is not None:
            turns = _dicts(data.get("conversation"))
            expected.add(key, ((name, args) for turn in turns for _, name, args in iterate_calls(turn)))
        elif case.case is not None:
            turns_read = case.case.conversation or ()
            expected.add(key, ((call.name, call.args or {}) for turn in turns_read for call in get_trajectory(turn)))
    return expected


def _open_document(workspace: Workspace, eval_set: str) -> EvalSetDocument | None:
    """Open a set of the present format; None for others and for datasets, whose cases are read as types."""
    try:
        document = workspace.document(eval_set)
    except StoreError:
        return None
    return document if document.format is DocumentFormat.CURRENT else None


def _read_data(document: EvalSetDocument, index: int) -> Mapping[str, Any] | None:
    """Return the JSON data of a case; None if it has comments, or something else that only our own reader reads."""
    try:
        data = from_json(document.case_text(index))
    except ValueError:
        return None
    return data if isinstance(data, dict) else None
