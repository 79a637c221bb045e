"""The calls of tools in one attempt at a case: who answers them, and what is kept of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from workbench.agents.host import AgentError, ToolAnswer, ToolCall, ToolOutcome
from workbench.llm.requests import Ask
from workbench.model.environment import Injection
from workbench.model.keys import JobKey
from workbench.model.results import Failure, FailureKind
from workbench.simulation.tools.by_model import ModelTools
from workbench.simulation.tools.injections import Draws
from workbench.simulation.tools.plan import ToolPlan
from workbench.simulation.tools.recording import RecordedCall, RecordedCase, Replay

INJECTED, MODEL, REPLAYED = "injected", "model", "replayed"


class CaseTools:
    """Answers for the tools of one attempt at a case. Nothing of it is shared with any other. See `ToolDesk`."""

    def __init__(self, plan: ToolPlan, job: JobKey, *, ask: Ask) -> None:
        self._plan = plan
        self._job = job
        environment = plan.environment
        self._tools = {} if environment is None else {tool.name: tool for tool in environment.tools}
        seed = f"{job.case.eval_id}\0{job.repeat}"
        self._draws = {name: Draws(tool, seed=seed) for name, tool in self._tools.items()}
        self._replay = None if plan.replay is None else Replay(plan.replay, job.case, repeat=job.repeat)
        self._asks_model = environment is not None and environment.asks_model
        self._model = None if environment is None else ModelTools(environment, ask=ask, repeat=job.repeat)
        self._one_at_a_time = asyncio.Lock()
        self._begun: dict[int, RecordedCall] = {}
        self._ended: dict[int, RecordedCall] = {}  # in the order of their ends

    @property
    def wanted(self) -> Mapping[str, Any]:
        """See `ToolDesk.wanted`."""
        names: dict[str, str | None] = {tool.name: tool.place for tool in self._tools.values()}
        for name in () if self._plan.replay is None else self._plan.replay.tools:
            names.setdefault(name, None)
        return {
            "names": names,
            "functions": dict(self._plan.functions),
            "everything": self._plan.record is not None or self._replay is not None,
        }

    async def answer(self, call: ToolCall) -> ToolAnswer:
        """See `ToolDesk.answer`."""
        self._begun[call.number] = RecordedCall(tool=call.tool, args=dict(call.args))
        if self._replay is not None:
            found = self._replay.next(call.tool, call.args)
            if isinstance(found, RecordedCall):
                return self._answered(
                    call, REPLAYED, ToolOutcome(response=found.response, error=found.error, actions=found.actions)
                )
            if self._plan.unrecorded == "error":
                raise AgentError(Failure(kind=FailureKind.TOOL, message=found))
        simulated = self._tools.get(call.tool)
        if simulated is not None:
            injection = self._draws[call.tool].next(call.args)
            if injection is not None:
                return await self._injected(call, injection)
            if simulated.by_model:
                return await self._made_up(call)
        return ToolAnswer(tell=self._plan.record is not None or self._asks_model)

    def told(self, number: int, outcome: ToolOutcome) -> None:
        """See `ToolDesk.told`."""
        self._note(number, None, outcome)

    def recorded(self) -> RecordedCase:
        """The calls so far, to be replayed."""
        case = self._job.case
        return RecordedCase(
            eval_set=case.eval_set,
            eval_id=case.eval_id,
            occurrence=case.occurrence,
            repeat=self._job.repeat,
            calls=tuple(self._ended[number] for number in sorted(self._ended)),
        )

    async def _injected(self, call: ToolCall, injection: Injection) -> ToolAnswer:
        await asyncio.sleep(injection.latency_seconds)
        return self._answered(call, INJECTED, ToolOutcome(response=injection.answer))

    async def _made_up(self, call: ToolCall) -> ToolAnswer:
        assert self._model is not None
        async with self._one_at_a_time:  # what one call creates the next must know of
            response = await self._model.answer(call, [_as_seen(each) for each in self._ended.values()])
            return self._answered(call, MODEL, ToolOutcome(response=response))

    def _answered(self, call: ToolCall, source: str, outcome: ToolOutcome) -> ToolAnswer:
        self._note(call.number, source, outcome)
        return ToolAnswer(source=source, outcome=outcome)

    def _note(self, number: int, source: str | None, outcome: ToolOutcome) -> None:
        begun = self._begun.pop(number, None)
        if begun is None:
            return
        self._ended[number] = begun.model_copy(
            update={
                "response": outcome.response,
                "error": None if outcome.error is None else dict(outcome.error),
                "actions": dict(outcome.actions),
                "unfit": outcome.unfit,
                "source": source,
            }
        )


def _as_seen(call: RecordedCall) -> dict[str, Any]:
    """A call as the model is told of it."""
    answer = call.response if call.error is None else {"raised": call.error.get("text")}
    return {"tool": call.tool, "args": call.args, "answer": answer}
