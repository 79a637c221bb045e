"""How paths are translated, and which nodes cannot run agents. `test_ray_hosts.py` runs real nodes."""

from __future__ import annotations

import pytest

from workbench.agents.ray_hosts import find_node_problem
from workbench.agents.ray_node import describe_node, replace_prefix


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/node/project", "/here"),
        ("/node/project/agent.py::answer", "/here/agent.py::answer"),
        ("/node/project::a,b", "/here::a,b"),
        ("/node/projects/x", "/node/projects/x"),
        ("GOOGLE_API_KEY", "GOOGLE_API_KEY"),
    ],
)
def test_only_paths_inside_a_folder_are_translated(path: str, expected: str) -> None:
    assert replace_prefix(path, [("/node/project", "/here")]) == expected


@pytest.mark.needs_ray
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, None),
        ({"workbench": None}, "node a lacks workbench"),
        ({"workbench": "9.0"}, "node a has workbench 9.0, expected"),
        ({"python": "3.99.1"}, "node a has Python 3.99.1, expected"),
        ({"ray": "9.0"}, "node a has Ray 9.0, expected"),
        ({"system": "Darwin"}, "node a runs Darwin, expected Linux"),
        ({"missing": ["A", "B"]}, "node a lacks the variables A, B, which a .env file sets here"),
    ],
)
def test_a_node_that_cannot_run_agents_says_why(changes: dict[str, object], expected: str | None) -> None:
    description = {**describe_node(), "node": "a", "system": "Linux", **changes}

    problem = find_node_problem(description)

    assert problem is None if expected is None else (problem or "").startswith(expected)
