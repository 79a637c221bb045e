"""`workbench run` compared with `adk eval`, as processes, on the same cases.

Run with `WORKBENCH_BENCHMARKS=1 python -m pytest tests/benchmarks/test_run_benchmark.py -s`. It prints figures and
ratios, and asserts only the verdicts, so a busy machine does not fail it. `adk eval` needs more than the extra adk:
WORKBENCH_BENCHMARK_ADK names the `adk` of an environment with `google-adk[eval]`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.benchmarks.agents import FUNCTION_AGENT, make_eval_set

from .measuring import Cost, measure

pytestmark = [
    pytest.mark.skipif(not os.environ.get("WORKBENCH_BENCHMARKS"), reason="benchmarks run with WORKBENCH_BENCHMARKS=1"),
    pytest.mark.needs_fork,
]
BIN = Path(sys.executable).parent

SLEEPING_AGENT = """
import asyncio
async def answer(prompt):
    await asyncio.sleep(0.1)
    return prompt
"""
ADK_AGENT = """
from google.adk.agents import BaseAgent
from google.adk.events import Event
from google.genai import types

class Echo(BaseAgent):
    async def _run_async_impl(self, context):
        yield Event(author=self.name, invocation_id=context.invocation_id,
                    content=types.Content(role="model", parts=[types.Part(text=context.user_content.parts[0].text)]))

root_agent = Echo(name="echo_agent")
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    (root / "function_agent.py").write_text(FUNCTION_AGENT)
    (root / "sleeping_agent.py").write_text(SLEEPING_AGENT)
    (root / "echo_agent").mkdir()
    (root / "echo_agent/__init__.py").write_text("from . import agent\n")
    (root / "echo_agent/agent.py").write_text(ADK_AGENT)
    for folder in ("function", "sleeping"):
        (root / folder).mkdir()
    (root / "workbench.toml").write_text(
        """
[targets.function]
kind = "function"
target = "function_agent:answer"
eval_sets = ["function/*.evalset.json"]
[targets.sleeping]
kind = "function"
target = "sleeping_agent:answer"
eval_sets = ["sleeping/*.evalset.json"]
"""
    )
    for cases in (1, 500):
        (root / f"function/set_{cases}.evalset.json").write_text(make_eval_set(cases, tool=True))
        (root / f"echo_agent/set_{cases}.evalset.json").write_text(make_eval_set(cases, tool=False))
    (root / "sleeping/set_1000.evalset.json").write_text(make_eval_set(1000, tool=False))
    (root / "trajectory.json").write_text('{"criteria": {"tool_trajectory_avg_score": 1.0}}')
    return root


def measure_workbench(project: Path, eval_set: str, *options: str) -> Cost:
    return measure([BIN / "workbench", "run", eval_set, *options], cwd=project)


def measure_adk_eval(project: Path, cases: int) -> Cost:
    adk = os.environ.get("WORKBENCH_BENCHMARK_ADK")
    if adk is None:
        pytest.skip("WORKBENCH_BENCHMARK_ADK names no adk to compare with")
    cost = measure(
        [adk, "eval", "echo_agent", f"echo_agent/set_{cases}.evalset.json", "--config_file_path",
         "trajectory.json", "--log_level", "ERROR"],
        cwd=project,
        times=1,
    )  # fmt: skip
    assert f"Tests passed: {cases}" in cost.stdout
    return cost


def print_cost(name: str, cost: Cost, *, cases: int, baseline: Cost | None = None) -> None:
    ratio = f", {baseline.wall / cost.wall:.1f}x faster than adk eval ({baseline})" if baseline else ""
    print(f"\n{name}: {cost}, {1000 * cost.cpu / cases:.2f} ms CPU a case{ratio}")
    assert cost.status == 0


def test_one_case_of_a_function_agent(project: Path) -> None:
    print_cost(
        "function, 1 case, trajectory only",
        measure_workbench(project, "function/set_1.evalset.json", "--config", "trajectory.json"),
        cases=1,
    )
    print_cost("function, 1 case, default criteria", measure_workbench(project, "function/set_1.evalset.json"), cases=1)


@pytest.mark.needs_adk
def test_500_cases_against_adk_eval(project: Path) -> None:
    adk_cost = measure_adk_eval(project, 500)
    config = ("--config", "trajectory.json")
    function, echo = "function/set_500.evalset.json", "echo_agent/set_500.evalset.json"
    for name, eval_set, options in (
        ("function, 500 cases", function, config),
        ("function, 500 cases, isolation worker", function, (*config, "--isolation", "worker")),
        ("ADK echo, 500 cases", echo, config),
        ("ADK echo, 500 cases, isolation worker", echo, (*config, "--isolation", "worker")),
    ):
        print_cost(name, measure_workbench(project, eval_set, *options), cases=500, baseline=adk_cost)


@pytest.mark.needs_adk
def test_one_case_of_an_adk_agent(project: Path) -> None:
    import_cost = measure(
        [sys.executable, "-c", "import google.adk.agents, google.adk.runners, echo_agent.agent"], cwd=project
    )
    workbench_cost = measure_workbench(project, "echo_agent/set_1.evalset.json", "--config", "trajectory.json")
    print_cost("ADK echo, 1 case", workbench_cost, cases=1, baseline=measure_adk_eval(project, 1))
    print(f"over the bare import ({import_cost}): {workbench_cost.wall - import_cost.wall:.2f} s")


def test_a_thousand_sleeping_cases(project: Path) -> None:
    options = ("--isolation", "worker", "--concurrency", "100", "--config", "trajectory.json", "--format", "json")
    cost = measure_workbench(project, "sleeping/set_1000.evalset.json", *options)
    print_cost("1,000 cases that sleep 100 ms, concurrency 100", cost, cases=1000)
    print(f"run: {json.loads(cost.stdout)['duration_seconds']:.2f} s for an ideal second")
