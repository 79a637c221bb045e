"""Tools that are simulated: recorded calls, injected answers and errors, and answers by a model."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import Field

from workbench.agents.agent_host import AgentError, PendingToolCall, ToolAnswer, ToolOutcome
from workbench.llm.model_types import Ask, Message, ModelError, ModelReply, ModelRequest, ask_for_readable
from workbench.metrics.case_view import canonical, is_same
from workbench.metrics.judges.reply_parser import iter_json_objects
from workbench.model.facts import Fact
from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import Failure, FailureKind
from workbench.model.target import Unrecorded
from workbench.model.text import one_line
from workbench.model.tool_simulation import Environment, Injection, SimulatedTool
from workbench.simulation.tool_templates import PROMPTS
from workbench.store.errors import shown_path
from workbench.store.model_answers import CallKind, RecordedCalls, Recording

# Recorded tool calls of cases, in a recording.


class RecordedCall(Fact):
    """A call and its outcome. `source` is what answered (null: the tool), `unfit` why there is no recorded answer.

    `error` is an exception that the tool raised; `actions` are its side effects, such as changes of session state.
    """

    tool: str
    args: dict[str, Any] = Field(default_factory=dict)
    response: Any = None
    error: dict[str, Any] | None = None
    actions: dict[str, Any] = Field(default_factory=dict)
    unfit: str | None = None
    source: str | None = None


_RecordedCase = tuple[RecordedCall, ...]


class ToolRecording:
    """The tool calls in a recording. Those of another agent answer if there are none of the same one."""

    def __init__(self, path: Path, cases: Mapping[JobKey, _RecordedCase]) -> None:
        """Use `read`."""
        self.path = path
        self._cases = cases
        self._targets: dict[CaseKey, list[str]] = {}  # by case without a target
        for job in cases:
            targets = self._targets.setdefault(job.case.model_copy(update={"target": ""}), [])
            targets += [] if job.case.target in targets else [job.case.target]

    @classmethod
    def read(cls, path: Path) -> ToolRecording:
        """Read a file. Raises StoreError with the line if the file is no recording."""
        blocks = Recording(path).iter_part(CallKind.TOOLS, RecordedCall)
        return cls(path, {each.job: each.calls for each in blocks if each.job is not None})

    @classmethod
    def of_case(cls, case: CaseKey, calls: Iterable[RecordedCall]) -> ToolRecording:
        """Return a recording of one case that is not in a file."""
        return cls(Path(), {JobKey(case, 0): tuple(calls)})

    @property
    def tools(self) -> Sequence[str]:
        """The names of the tools that were called."""
        return list(dict.fromkeys(call.tool for calls in self._cases.values() for call in calls))

    def find_case(self, case: CaseKey, repeat: int) -> _RecordedCase | None:
        """Find the recording of a repeat, or else that of the first repeat; None if the case is not recorded."""
        recorded_case = self._find_key(case)
        return self._cases.get(JobKey(recorded_case, repeat), self._cases.get(JobKey(recorded_case, 0)))

    def list_repeats(self, case: CaseKey) -> Sequence[_RecordedCase]:
        """List the recordings of all repeats of a case."""
        recorded_case = self._find_key(case)
        repeats = sorted(job.repeat for job in self._cases if job.case == recorded_case)
        return [self._cases[JobKey(recorded_case, repeat)] for repeat in repeats]

    def _find_key(self, case: CaseKey) -> CaseKey:
        """Find the key of a recorded case: that of another agent if this one has none."""
        targets = self._targets.get(case.model_copy(update={"target": ""}), [])
        return case if not targets or case.target in targets else case.model_copy(update={"target": targets[0]})


class Replay:
    """Replays the recorded calls of one case: the n-th call of a tool with equal arguments gets the n-th answer."""

    def __init__(self, recording: ToolRecording, case: CaseKey, *, repeat: int) -> None:
        self._file = shown_path(recording.path)
        self._case_calls = recording.find_case(case, repeat)
        self._calls: dict[Hashable, list[RecordedCall]] = {}
        for call in self._case_calls or ():
            self._calls.setdefault(_key(call.tool, call.args), []).append(call)
        self._call_counts: Counter[Hashable] = Counter()

    def next(self, tool: str, args: Mapping[str, Any]) -> RecordedCall | str:
        """Return the recorded call, or the reason why there is none."""
        key = _key(tool, args)
        recorded_calls = self._calls.get(key, [])
        number = self._call_counts[key]
        self._call_counts[key] += 1
        call_text = f"{tool}({json.dumps(args, ensure_ascii=False)})"
        if self._case_calls is None:
            return f"{self._file}: {call_text} was called, but nothing is recorded for this case"
        if number >= len(recorded_calls):
            called, recorded = _format_times(number + 1), _format_times(len(recorded_calls))
            return f"{self._file}: {call_text} was called {called}, but recorded {recorded}"
        call = recorded_calls[number]
        if call.unfit is not None:
            return f"{self._file}: {call_text} was recorded without its answer: {call.unfit}"
        return call


def _key(tool: str, args: Mapping[str, Any]) -> Hashable:
    return tool, canonical(dict(args))


def _format_times(number: int) -> str:
    return {0: "never", 1: "once"}.get(number, f"{number} times")


# Injected answers: the calls that they match, and their probability.


def matches_args(args: Mapping[str, Any], expected: Mapping[str, Any] | None) -> bool:
    """Whether a call has at least these arguments, each equal as a JSON value. None matches every call."""
    return all(name in args and is_same(args[name], value) for name, value in (expected or {}).items())


class Draws:
    """The injections of one tool in one case. Each has its own random sequence, in the order of the calls.

    A call tries the injections that it matches in order until one answers, as in ADK. Each repeat of a case starts its
    own sequences, so that other cases do not affect it.
    """

    def __init__(self, tool: SimulatedTool, *, seed: str) -> None:
        """`seed` is used for injections without a seed."""
        self._injections = [
            (each, random.Random(each.random_seed if each.random_seed is not None else f"{seed}\0{tool.name}\0{index}"))
            for index, each in enumerate(tool.injections)
        ]

    def next(self, args: Mapping[str, Any]) -> Injection | None:
        """Draw the injection that answers a call; None if none does."""
        for injection, sequence in self._injections:
            if matches_args(args, injection.match_args) and sequence.random() < injection.probability:
                return injection
        return None


# Tool answers by a model, from the declaration of the tool and the earlier calls of the case.

PURPOSE = "tool"
"""The purpose of requests for tool answers."""

_TRIES = 3  # after an unreadable reply, another sample may be readable


class ModelTools:
    """The tools of one case that a model answers for. Each `repeat` gets its own replies."""

    def __init__(self, environment: Environment, *, ask: Ask, repeat: int) -> None:
        self._environment = environment
        self._ask = ask
        self._repeat = repeat

    async def answer(self, call: PendingToolCall, earlier: Sequence[Mapping[str, Any]]) -> Any:
        """Return the answer of the tool; `earlier` are previous calls. Raises AgentError, never the agent's fault."""
        # Off the loop: the first prompt imports the template library.
        prompt = await asyncio.to_thread(self._render_prompt, call, earlier)
        last_reply = ""
        for number in range(_TRIES):
            reply = await self._ask_model(call, prompt, sample=self._repeat * _TRIES + number)
            objects = list(iter_json_objects(reply.text))
            if objects:  # some models omit the outer object
                return next((each["answer"] for each in objects if "answer" in each), objects[0])
            last_reply = reply.text
            if reply.is_truncated:
                last_reply = f"{last_reply} (cut off: raise max_output_tokens)"
        text = one_line(last_reply, width=120)
        message = f"{call.tool}: the model that simulates it gave no JSON in {_TRIES} tries: {text}"
        raise AgentError(Failure(kind=FailureKind.TOOL, message=message))

    async def _ask_model(self, call: PendingToolCall, prompt: str, *, sample: int) -> ModelReply:
        request = ModelRequest(
            model=self._environment.model,
            messages=(Message(role="user", text=prompt),),
            config=dict(self._environment.configuration),
            sample=sample,
            purpose=PURPOSE,
        )
        try:
            return await ask_for_readable(self._ask, request, lambda reply: any(iter_json_objects(reply.text)))
        except ModelError as error:
            kind = FailureKind.INFRASTRUCTURE if error.trouble.is_outage else FailureKind.TOOL
            message = f"{call.tool}: the model that simulates it did not answer: {error.message}"
            raise AgentError(Failure(kind=kind, message=message)) from error

    def _render_prompt(self, call: PendingToolCall, earlier: Sequence[Mapping[str, Any]]) -> str:
        return PROMPTS.render(
            "tool_answer",
            declaration=_json(call.declaration),
            environment=self._environment.data,
            tracing=self._environment.tracing,
            earlier=[_json(each) for each in earlier],
            call=_json({"tool": call.tool, "args": call.args}),
        )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


# The plan for the tools of a run: simulate, replay or record them.


@dataclass(frozen=True, kw_only=True)
class ToolPlan:
    """The plan for tool calls in the cases of one target. Replay takes precedence over simulation.

    `functions` maps names of function tools to `module:name`. `record` is the file that gets the outcome of every
    call. `scripted`: a script answers instead of a model. `files` are the files that define the answers.
    """

    environment: Environment | None = None
    replay: ToolRecording | None = None
    unrecorded: Unrecorded = "error"
    record: Path | None = None
    functions: Mapping[str, str] = field(default_factory=dict)
    scripted: bool = False
    files: tuple[Path, ...] = ()

    @property
    def changes_answers(self) -> bool:
        """Whether tool answers may differ from those of the real tools."""
        return self.environment is not None or self.replay is not None

    def digest(self, case: CaseKey) -> str:
        """Return a hash of everything that defines the tool answers of a case; empty if the real tools answer."""
        if not self.changes_answers:
            return ""
        repeats = () if self.replay is None else self.replay.list_repeats(case)
        replayed = [[call.model_dump(mode="json") for call in calls] for calls in repeats]
        by_case = self.environment is not None and self.environment.depends_on_case
        parts = [
            self._common_facts,
            case.eval_id if by_case else "",
            "" if self.replay is None else json.dumps(replayed),
        ]
        return hashlib.sha256("\0".join(parts).encode("utf-8", "backslashreplace")).hexdigest()

    @cached_property
    def _common_facts(self) -> str:
        environment = self.environment
        simulated = None
        if environment is not None:
            excluded: Any = {"source": True, "tools": {"__all__": {"place"}}}
            simulated = environment.model_dump(mode="json", exclude=excluded)
            if environment.needs_model:
                simulated |= {"prompts": PROMPTS.version, "scripted": self.scripted}
        facts = {
            "simulated": simulated,
            "unrecorded": None if self.replay is None else self.unrecorded,
            "functions": dict(self.functions),
        }
        return json.dumps(facts, sort_keys=True)

    @property
    def notice(self) -> str | None:
        """The notice before a run with simulated or replayed tools; None without them."""
        sentences = []
        if self.replay is not None:
            sentences.append(f"tool calls are answered from {self.replay.path}")
        if self.environment is not None:
            names = ", ".join(tool.name for tool in self.environment.tools)
            script = " (with scripted replies instead of the model)" if self.scripted else ""
            sentences.append(f"tools are simulated by {self.environment.source}: {names}{script}")
        return "; ".join(sentences) or None


INJECTED, MODEL, REPLAYED = "injected", "model", "replayed"


# The tool calls of one attempt at a case, answered and recorded.


class CaseTools:
    """Answers tool calls of one attempt at a case. Attempts share nothing. See `ToolResponder`."""

    def __init__(self, plan: ToolPlan, job: JobKey, *, ask: Ask) -> None:
        self._plan = plan
        self._job = job
        environment = plan.environment
        self._tools = {} if environment is None else {tool.name: tool for tool in environment.tools}
        seed = f"{job.case.eval_id}\0{job.repeat}"
        self._draws = {name: Draws(tool, seed=seed) for name, tool in self._tools.items()}
        self._replay = None if plan.replay is None else Replay(plan.replay, job.case, repeat=job.repeat)
        self.unrecorded_calls: list[str] = []
        """The tools of the calls that were not in the recording, and were therefore simulated or made."""
        self._asks_model = environment is not None and environment.needs_model
        self._model = None if environment is None else ModelTools(environment, ask=ask, repeat=job.repeat)
        self._model_lock = asyncio.Lock()
        self._begun_calls: dict[int, RecordedCall] = {}
        self._ended_calls: dict[int, RecordedCall] = {}  # in the order in which they ended

    @property
    def interception(self) -> Mapping[str, Any]:
        """See `ToolResponder.interception`."""
        names: dict[str, str | None] = {tool.name: tool.place for tool in self._tools.values()}
        for name in () if self._plan.replay is None else self._plan.replay.tools:
            names.setdefault(name, None)
        return {
            "names": names,
            "functions": dict(self._plan.functions),
            "everything": self._plan.record is not None or self._replay is not None,
        }

    def replay(self, calls: Sequence[RecordedCall] | None) -> None:
        """Answer the calls that follow from these recorded ones only; None: from no recording."""
        recording = ToolRecording.of_case(self._job.case, calls or ())
        self._replay = None if calls is None else Replay(recording, self._job.case, repeat=0)

    async def answer(self, call: PendingToolCall) -> ToolAnswer:
        """See `ToolResponder.answer`."""
        self._begun_calls[call.number] = RecordedCall(tool=call.tool, args=dict(call.args))
        if self._replay is not None:
            recorded = self._replay.next(call.tool, call.args)
            if isinstance(recorded, RecordedCall):
                return self._make_answer(
                    call,
                    REPLAYED,
                    ToolOutcome(response=recorded.response, error=recorded.error, actions=recorded.actions),
                )
            if self._plan.unrecorded == "error":
                raise AgentError(Failure(kind=FailureKind.TOOL, message=recorded))
            self.unrecorded_calls.append(call.tool)
        simulated = self._tools.get(call.tool)
        if simulated is not None:
            injection = self._draws[call.tool].next(call.args)
            if injection is not None:
                return await self._answer_by_injection(call, injection)
            if simulated.by_model:
                return await self._answer_by_model(call)
        return ToolAnswer(wants_outcome=self._plan.record is not None or self._asks_model)

    def record_outcome(self, number: int, outcome: ToolOutcome) -> None:
        """See `ToolResponder.record_outcome`."""
        self._note_outcome(number, None, outcome)

    def build_recording(self) -> RecordedCalls[RecordedCall]:
        """Return the calls so far, for a recording."""
        return RecordedCalls(
            CallKind.TOOLS, self._job, tuple(self._ended_calls[number] for number in sorted(self._ended_calls))
        )

    async def _answer_by_injection(self, call: PendingToolCall, injection: Injection) -> ToolAnswer:
        await asyncio.sleep(injection.latency_seconds)
        return self._make_answer(call, INJECTED, ToolOutcome(response=injection.answer))

    async def _answer_by_model(self, call: PendingToolCall) -> ToolAnswer:
        assert self._model is not None
        async with self._model_lock:  # the model must know the effects of earlier calls
            response = await self._model.answer(call, [_describe_call(each) for each in self._ended_calls.values()])
            return self._make_answer(call, MODEL, ToolOutcome(response=response))

    def _make_answer(self, call: PendingToolCall, source: str, outcome: ToolOutcome) -> ToolAnswer:
        self._note_outcome(call.number, source, outcome)
        return ToolAnswer(source=source, outcome=outcome)

    def _note_outcome(self, number: int, source: str | None, outcome: ToolOutcome) -> None:
        call = self._begun_calls.pop(number, None)
        if call is None:
            return
        self._ended_calls[number] = call.model_copy(
            update={
                "response": outcome.response,
                "error": None if outcome.error is None else dict(outcome.error),
                "actions": dict(outcome.actions),
                "unfit": outcome.unfit,
                "source": source,
            }
        )


def _describe_call(call: RecordedCall) -> dict[str, Any]:
    """Describe a call for the prompt of the model."""
    answer = call.response if call.error is None else {"raised": call.error.get("text")}
    return {"tool": call.tool, "args": call.args, "answer": answer}
