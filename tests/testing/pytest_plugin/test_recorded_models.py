"""Recorded model calls of agents in pytest: no key, no network, the same verdicts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.command_line import turn
from tests.llm.servers import Server, make_asking_agent, openai, run_server
from tests.testing.pytest_project import PytestProject

pytestmark = pytest.mark.needs_fork


@pytest.fixture
def server() -> Iterator[Server]:
    with run_server(lambda _: openai("hello")) as server:
        yield server


@pytest.fixture
def asking(project: PytestProject, server: Server) -> PytestProject:
    """Change the project: its agent says what a model says."""
    project.write("home/agent.py", make_asking_agent(server.url))
    project.write("home/test_config.json", {"criteria": {"response_match_score": 0.5}})
    return project


def test_recorded_calls_of_an_agent_need_no_model(asking: PytestProject, server: Server) -> None:
    asking.write("pytest.ini", "[pytest]\nworkbench_collect = true\nworkbench_replay = model_calls.jsonl\n")
    asking.add_set("home/s.evalset.json", greets=[turn("hi", "hello")], asks=[turn("and now?", "hello")])

    asking.pytest("--workbench-record").assert_outcomes(passed=2)
    assert len(server.calls) == 2
    asking.pytest().assert_outcomes(passed=2)
    asking.pytest("-n", "2").assert_outcomes(passed=2)
    assert len(server.calls) == 2

    path = asking.root / "home" / "agent.py"
    path.write_text(path.read_text().replace('"model": "m"', '"model": "other"'))
    changed = asking.pytest()
    changed.assert_outcomes(errors=2)
    changed.stdout.fnmatch_lines(['*model call 1 differs from the recording: model changed: "m" became "other"*'])


def test_models_are_replayed_on_request(asking: PytestProject, server: Server) -> None:
    asking.add_set("home/s.evalset.json", greets=[turn("hi", "hello")])

    for _ in range(2):
        asking.pytest("--workbench", "--workbench-models", "auto").assert_outcomes(passed=1)
    assert len(server.calls) == 1

    refused = asking.pytest("--workbench", "--workbench-models", "sometimes")
    refused.stderr.fnmatch_lines(["*--workbench-models: found 'sometimes', expected live, auto, replay*"])
