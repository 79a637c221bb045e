"""Builders for turns and configs, and a function that judges them by metric name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest

from workbench.agents.agent_host import CustomScoreAnswer, CustomScoreRequest
from workbench.llm.model_types import ModelError, ModelReply, ModelRequest
from workbench.metrics.case_view import JudgedCase
from workbench.metrics.evaluate import judge_case
from workbench.metrics.registry import check_criteria, prepare
from workbench.metrics.text_worker import TextScorer
from workbench.model.criteria import EvalConfig, read_config
from workbench.model.evalset import EvalCase, Invocation
from workbench.model.results import Execution, Failure, MetricResult, SimulatedConversation, TurnResult

Results = Mapping[str, MetricResult]


class Services:
    """The services of the engine: a text helper, and a custom function and a model from the test."""

    def __init__(self) -> None:
        self.text = TextScorer()
        self.function: Callable[[CustomScoreRequest], CustomScoreAnswer] | None = None
        self.model: Callable[[ModelRequest], str | ModelReply | ModelError] | None = None
        self.requests: list[ModelRequest] = []

    async def ask(self, request: ModelRequest) -> ModelReply:
        assert self.model is not None
        self.requests.append(request)
        answer = self.model(request)
        if isinstance(answer, ModelError):
            raise answer
        return answer if isinstance(answer, ModelReply) else ModelReply(text=answer, finish="STOP")

    async def custom(self, request: CustomScoreRequest) -> CustomScoreAnswer:
        assert self.function is not None
        return self.function(request)


@pytest.fixture
async def services() -> AsyncIterator[Services]:
    instance = Services()
    yield instance
    await instance.text.close()


@pytest.fixture
def turn() -> Callable[..., Invocation]:
    """Build a turn: `turn("text", [call, ...])`; a call is a name, a pair (name, args) or an object."""

    def build(
        text: str | None = None, calls: Sequence[Any] = (), *, thought: str | None = None, events: bool = False
    ) -> Invocation:
        call_data = [_build_call(call) for call in calls]
        parts = ([{"text": thought, "thought": True}] if thought is not None else []) + (
            [{"text": text}] if text is not None else []
        )
        data: dict[str, Any] = {"tool_uses": call_data}
        if events:
            event_parts = [{"function_call": call} for call in call_data]
            data = {"invocation_events": [{"author": "agent", "content": {"parts": event_parts}}]}
        return Invocation.model_validate(
            {
                "user_content": {"role": "user", "parts": [{"text": "?"}]},
                "final_response": {"role": "model", "parts": parts} if parts else None,
                "intermediate_data": data,
            }
        )

    return build


def _build_call(call: Any) -> Any:
    return {"name": call[0], "args": call[1]} if isinstance(call, tuple) else call


@pytest.fixture
def config() -> Callable[..., EvalConfig]:
    """Build a config from the criteria of a file; `config(criteria, check=False)` accepts invalid ones."""

    def build(
        criteria: Mapping[str, Any],
        *,
        custom: Mapping[str, Any] | None = None,
        judges: Mapping[str, Any] | None = None,
        check: bool = True,
    ) -> EvalConfig:
        data = {"criteria": criteria, "custom_metrics": custom or {}, "judge_metrics": judges or {}}
        read = read_config(data, source="test_config.json")
        assert not check or check_criteria(read) == []
        return read

    return build


@pytest.fixture
def judge(services: Services) -> Callable[..., Awaitable[Results]]:
    """Judge turns: `await judge(config, expected=[...], actual=[...])` returns the results by name."""

    async def run(
        config: EvalConfig,
        *,
        actual: Sequence[Invocation],
        expected: Sequence[Invocation] = (),
        case: EvalCase | None = None,
        failure: Failure | None = None,
        final_state: dict[str, Any] | None = None,
        columns: Mapping[str, Any] | None = None,
        baselines: Mapping[str, Sequence[Execution]] | None = None,
        recorded: bool = False,
        simulation: SimulatedConversation | None = None,
        **turn_fields: Any,
    ) -> Results:
        turns = tuple(TurnResult(invocation=item, duration_seconds=0.25, **turn_fields) for item in actual)
        execution = Execution(turns=turns, failure=failure, final_state=final_state, simulation=simulation)
        subject = JudgedCase(
            case=case,
            expected=expected,
            execution=execution,
            columns=columns or {},
            baselines=baselines or {},
            recorded=recorded,
        )
        results = await judge_case(subject, prepare(config), services)
        expected_results = [result.model_copy(update={"dependencies": None}) for result in results]  # stored separately
        assert [MetricResult.model_validate(result.model_dump()) for result in results] == expected_results
        names = [result.name for result in results]
        assert len(set(names)) == len(names)
        return {result.name: result for result in results}

    return run
