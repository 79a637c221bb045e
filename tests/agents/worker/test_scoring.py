"""Custom metric functions of both shapes, run in a worker."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from workbench.agents.agent_host import AgentError, CustomScoreAnswer, CustomScoreRequest
from workbench.model.evalset import ConversationScenario, Invocation
from workbench.model.target import AgentKind


def _turn(prompt: str, response: str, *calls: str) -> Invocation:
    return Invocation.model_validate(
        {
            "user_content": {"role": "user", "parts": [{"text": prompt}]},
            "final_response": {"role": "model", "parts": [{"text": response}]},
            "intermediate_data": {"tool_uses": [{"name": name, "args": {"x": 1}} for name in calls]},
        }
    )


async def _score(bench: Any, code: str, *, function: str = "metrics.f", way: Any = None, **request: Any) -> Any:
    bench.write("metrics.py", code)
    fields: dict[str, Any] = {"actual": [_turn("p", "r", "a")], "expected": [_turn("p", "ref", "b")]}
    host = bench.host(**(way or {}))
    return await host.score(CustomScoreRequest(metric="mine", function=function, **{**fields, **request}))


async def test_a_row_function_gets_texts_trajectories_and_columns(bench: Any, way: dict[str, Any]) -> None:
    code = """
        import json
        def f(instance):
            return {"mine": 0.5, "explanation": json.dumps(instance, sort_keys=True)}
    """

    answer = await _score(bench, code, way=way, columns={"topic": "home", "prompt": "of the row"})

    assert isinstance(answer, CustomScoreAnswer)
    assert answer.score == 0.5
    assert answer.verdict is None
    assert answer.reason == (
        '{"predicted_trajectory": [{"tool_input": {"x": 1}, "tool_name": "a"}], "prompt": "p", "reference": "ref", '
        '"reference_trajectory": [{"tool_input": {"x": 1}, "tool_name": "b"}], "response": "r", "topic": "home"}'
    )


async def test_a_row_function_gets_recorded_answers_and_trajectories_unchanged(bench: Any) -> None:
    code = "import json\ndef f(instance): return {'mine': 1, 'reason': json.dumps(instance)}"
    columns = {
        "response": {"city": "Rome"},
        "predicted_trajectory": [{"name": "a", "args": {"x": 1}, "note": "kept"}],
        "reference_trajectory": [{"type": "function", "function": {"name": "b", "arguments": '{"x": 1}'}}],
        "latency_in_seconds": 2.5,
    }

    answer = await _score(bench, code, columns=columns)

    instance = json.loads(answer.reason)
    assert {name: instance[name] for name in columns} == columns
    assert (instance["reference"], "failure" in instance) == ("ref", False)


async def test_a_row_function_gets_latency_and_failure_of_the_agent_run(bench: Any) -> None:
    code = "def f(instance): return instance['latency_in_seconds'] + 10 * instance['failure']"
    turns = [_turn("p", "r"), _turn("p", "r")]

    answer = await _score(bench, code, actual=turns, expected=None, seconds=[1.5, 2.5], failure=1)

    assert [turn.score for turn in answer.per_invocation] == [11.5, 12.5]


async def test_an_agent_run_replaces_the_recorded_data_of_a_row(bench: Any) -> None:
    code = "import json\ndef f(instance): return {'mine': 1, 'reason': json.dumps(instance)}"
    columns = {
        "response": "recorded",
        "predicted_trajectory": [{"tool_name": "recorded", "tool_input": {}}],
        "reference": {"as": "given"},
        "failure": 1,
    }

    answer = await _score(bench, code, columns=columns, seconds=[1.5], failure=0)

    instance = json.loads(answer.reason)
    assert (instance["response"], instance["reference"], instance["failure"]) == ("r", {"as": "given"}, 0)
    assert [call["tool_name"] for call in instance["predicted_trajectory"]] == ["a"]


async def test_unknown_calls_are_not_an_empty_trajectory(bench: Any) -> None:
    code = "def f(instance): return 0.25 if instance['predicted_trajectory'] is None else 1.0"

    answers = [
        await _score(bench, code, actual=[_turn("p", "r")], expected=None, unknown=unknown)
        for unknown in (frozenset(), frozenset({0}))
    ]

    assert [answer.score for answer in answers] == [1.0, 0.25]


async def test_a_metric_function_that_exits_is_an_error_of_the_metric(bench: Any, way: dict[str, Any]) -> None:
    with pytest.raises(AgentError) as raised:
        await _score(bench, "import sys\ndef f(instance): sys.exit(3)", way=way)

    assert raised.value.failure.message == "mine: the metric called sys.exit(3) (metrics.py:2)"


@pytest.mark.parametrize(
    ("returned", "score"),
    [
        ("1", 1.0),
        ("True", 1.0),
        ("None", None),
        ("{'score': 0.25}", 0.25),
        ("{'other': 0.25}", 0.25),
        ("{'mine': 1, 'score': 0}", 1.0),
    ],
)
@pytest.mark.needs_fork
async def test_a_score_may_be_a_number_or_a_dict_with_one(bench: Any, returned: str, score: float | None) -> None:
    for prefix in ("", "async "):
        answer = await _score(bench, f"{prefix}def f(instance): return {returned}")
        assert answer.score == score
        assert (answer.reason is None) == (score is not None)


@pytest.mark.needs_fork
async def test_the_score_of_a_case_is_the_mean_of_its_scored_turns(bench: Any) -> None:
    code = "def f(instance): return {'1': 1.0, '2': 0.5, '3': None}[instance['response']]"

    answer = await _score(bench, code, actual=[_turn("p", str(number)) for number in (1, 2, 3)], expected=None)

    assert answer.score == 0.75
    assert [item.score for item in answer.per_invocation] == [1.0, 0.5, None]


@pytest.mark.parametrize(
    ("code", "function", "message"),
    [
        (
            "def f(instance): return 'high'",
            "metrics.f",
            "mine: metrics.f returned a str ('high'), expected a number or",
        ),
        ("def f(instance): return {'a': 1, 'b': 2}", "metrics.f", "without the key 'mine' or 'score'"),
        ("def f(instance): return float('nan')", "metrics.f", "metrics.f returned a float (nan)"),
        ("def f(instance): raise KeyError('x')", "metrics.f", "mine: KeyError: 'x'"),
        ("def f(a, b): return 1", "metrics.f", "metrics.f takes (a, b), expected f(instance), or f(eval_metric,"),
        ("def f(instance): return 1", "metrics.g", "metrics has no attribute 'g'"),
        ("def f(instance): return 1", "metrcs.f", "there is no module 'metrcs' in"),
        ("def f(instance): return 1", "f", "'f' does not name a metric function"),
        ("import nothing_like_it", "metrics.f", "cannot import metrics: ModuleNotFoundError: No module named"),
        ("f = 3", "metrics.f", "metrics.f is an int (3), expected a function"),
        ("import sys\ndef f(instance): sys.exit(3)", "metrics.f", "called sys.exit(3)"),
        ("import os\ndef f(instance): os._exit(3)", "metrics.f", "the process of the metric ended with exit status 3"),
    ],
)
@pytest.mark.needs_fork
async def test_a_metric_that_cannot_score_is_an_error_of_the_metric(
    bench: Any, code: str, function: str, message: str
) -> None:
    with pytest.raises(AgentError) as caught:
        await _score(bench, code, function=function)

    assert caught.value.failure.kind == "metric"
    assert message in caught.value.failure.message


@pytest.mark.needs_fork
async def test_metrics_run_concurrently_and_a_crash_does_not_harm_the_others(bench: Any) -> None:
    bench.write(
        "metrics.py",
        """
        import os, time
        def slow(instance):
            time.sleep(0.3)
            return 1
        def deadly(instance):
            time.sleep(0.1)
            os._exit(3)
        """,
    )
    host = bench.host()

    async def ask(name: str) -> Any:
        request = CustomScoreRequest(metric=name, function=f"metrics.{name}", actual=[_turn("p", "r")])
        return await host.score(request)

    slow: Any
    deadly: Any
    slow, deadly = await asyncio.gather(ask("slow"), ask("deadly"), return_exceptions=True)

    assert slow.score == 1.0
    assert isinstance(deadly, AgentError)


@pytest.mark.needs_fork
async def test_a_metric_whose_process_another_one_ended_has_the_whole_time_again(bench: Any) -> None:
    bench.write(
        "metrics.py",
        """
        import os, pathlib, time
        def slow(instance):
            if not pathlib.Path("begun").exists():
                pathlib.Path("begun").touch()
                time.sleep(100)
            time.sleep(2)
            return 1
        def deadly(instance):
            while not pathlib.Path("begun").exists():
                time.sleep(0.01)
            time.sleep(2)
            os._exit(3)
        """,
    )
    host = bench.host()

    async def ask(name: str) -> Any:
        request = CustomScoreRequest(metric=name, function=f"metrics.{name}", actual=[_turn("p", "r")])
        return await host.score(request, timeout_seconds=3.5)

    results: Any = await asyncio.gather(ask("slow"), ask("deadly"), return_exceptions=True)

    assert results[0].score == 1.0


@pytest.mark.needs_fork
@pytest.mark.parametrize(
    "code", ["def f(instance): time.sleep(100)", "async def f(instance): await asyncio.sleep(100)"]
)
async def test_what_a_metric_used_until_it_took_too_long_is_known(bench: Any, code: str) -> None:
    bench.write("metrics.py", f"import asyncio, time\n{code}\n")
    request = CustomScoreRequest(metric="mine", function="metrics.f", actual=[_turn("p", "r")])

    with pytest.raises(AgentError, match="took longer than 1 s") as raised:
        await bench.host().score(request, timeout_seconds=1.0)

    dependencies = raised.value.dependencies
    assert dependencies is not None and dependencies.complete
    assert any(row.key.endswith("metrics.py::f") for row in dependencies.rows)


@pytest.mark.needs_fork
async def test_the_process_of_a_cancelled_metric_ends(bench: Any, is_alive: Any, wait_until: Any) -> None:
    bench.write(
        "metrics.py",
        "import os, time\nfrom pathlib import Path\n\ndef f(instance):\n"
        "    Path('pid').write_text(str(os.getpid()))\n    time.sleep(1000)\n",
    )
    host = bench.host()
    request = CustomScoreRequest(metric="mine", function="metrics.f", actual=[_turn("p", "r")])
    task = asyncio.create_task(host.score(request))
    pid = int(await wait_until(lambda: (bench.folder / "pid").exists() and (bench.folder / "pid").read_text()))

    task.cancel()

    await wait_until(lambda: not is_alive(pid))


async def test_a_recording_has_metrics_but_no_agent(bench: Any) -> None:
    from workbench.agents.agent_host import SessionRequest

    bench.write("metrics.py", "def f(instance): return len(instance['response'])")
    host = bench.host(kind=AgentKind.RECORDED, location="")

    session = await host.open(SessionRequest(app_name="a", user_id="u"), on_span=lambda span: None)
    try:
        with pytest.raises(AgentError, match="is a recording: there is no agent to talk to"):
            await session.turn(_turn("p", "four").user_content, turn=0)
        request = CustomScoreRequest(metric="mine", function="metrics.f", actual=[_turn("p", "four")])
        assert (await host.score(request)).score == 4.0
    finally:
        await session.kill()
        await host.close()


ADK = """
    from google.adk.evaluation.evaluator import EvalStatus, EvaluationResult, PerInvocationResult
    {prefix}def f(eval_metric, actual_invocations, expected_invocations, conversation_scenario):
        assert eval_metric.threshold is None
        assert actual_invocations[0].final_response.parts[0].text == "r"
        threshold = eval_metric.criterion.threshold
        results = [
            PerInvocationResult(actual_invocation=turn, score=threshold, eval_status=EvalStatus.PASSED)
            for turn in actual_invocations
        ]
        count = 0 if expected_invocations is None else len(expected_invocations)
        plan = conversation_scenario.conversation_plan if conversation_scenario else ""
        return EvaluationResult(
            overall_score=count + len(plan), overall_eval_status=EvalStatus.FAILED, per_invocation_results=results
        )
"""


@pytest.mark.needs_adk
@pytest.mark.parametrize("prefix", ["", "async "])
async def test_a_metric_with_adks_signature_gets_adks_types_and_sets_the_verdict(bench: Any, prefix: str) -> None:
    scenario = ConversationScenario(starting_prompt="hi", conversation_plan="plan")

    answer = await _score(bench, ADK.format(prefix=prefix), threshold=0.7, scenario=scenario)

    assert (answer.score, answer.verdict) == (5.0, "failed")
    assert [item.score for item in answer.per_invocation] == [0.7]


@pytest.mark.needs_adk
async def test_a_metric_with_adks_signature_and_a_wrong_result_is_reported(bench: Any) -> None:
    with pytest.raises(AgentError, match=r"metrics.f returned a float \(0.5\), expected an EvaluationResult"):
        await _score(bench, "def f(eval_metric, actual, expected, scenario): return 0.5")


@pytest.mark.needs_adk
@pytest.mark.parametrize("function", ["my_agent.metrics.f", "agent.metrics.f"])
async def test_metrics_in_the_package_of_an_adk_agent_are_found_under_both_names(bench: Any, function: str) -> None:
    bench.write("my_agent/__init__.py", "from . import agent")
    bench.write("my_agent/agent.py", "root_agent = None")
    bench.write("my_agent/metrics.py", "def f(instance): return 1.0")
    host = bench.host(kind=AgentKind.ADK, location="my_agent")

    answer = await host.score(CustomScoreRequest(metric="mine", function=function, actual=[_turn("p", "r")]))

    assert answer.score == 1.0
