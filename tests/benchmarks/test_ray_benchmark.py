"""A run on two nodes of a Ray cluster on this machine, compared with the same run without Ray.

Run with `WORKBENCH_BENCHMARKS=1 python -m pytest tests/benchmarks/test_ray_benchmark.py -s`. It prints figures and
ratios, and asserts only the verdicts, so a busy machine does not fail it. Goals on two free cores: 1.5 times the time
without Ray, 2 s until the first case has finished, 300 MB for the engine with 20,000 cases.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.project import Project, turn
from workbench.agents import ray_hosts

pytestmark = [
    pytest.mark.skipif(not os.environ.get("WORKBENCH_BENCHMARKS"), reason="benchmarks run with WORKBENCH_BENCHMARKS=1"),
    pytest.mark.needs_ray,
    pytest.mark.needs_fork,
]
PROGRAM = """
import resource, sys
from workbench.cli.main import main
try:
    main()
finally:
    print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, file=sys.stderr)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(ray_hosts.__file__).parents[2]))
        patch.setenv("RAY_worker_niceness", "0")  # by default Ray gives way to all other processes
        arguments = {"num_cpus": 2, "object_store_memory": 80_000_000}
        cluster = Cluster(initialize_head=True, head_node_args={**arguments, "include_dashboard": False})
        try:
            cluster.add_node(**arguments)
            patch.setenv("RAY_ADDRESS", cluster.address)
            yield cluster.address
        finally:
            cluster.shutdown()


def make_project(folder: Path, *, cases: int, seconds: float) -> Path:
    project = Project(folder)
    project.add_agent(f"import time\ndef answer(prompt):\n    time.sleep({seconds})\n    return prompt\n")
    project.add_criteria(response_match_score=0.0)
    project.add_set({f"c{index}": [turn(f"prompt {index}")] for index in range(cases)})
    return folder


def measure_run(folder: Path, *options: str) -> tuple[float, float, int]:
    """Run all cases. Return the seconds until the first case has finished, of the whole run, and the peak in MB."""
    command = [sys.executable, "-c", PROGRAM, "run", "--plain", *options]
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stderr is not None
    first = 0.0
    for line in process.stdout:
        if not first and "PASSED" in line:
            first = time.perf_counter() - began
    peak = int(process.stderr.read().rpartition("peak ")[2])
    assert process.wait() == 0
    return first, time.perf_counter() - began, peak


def test_a_run_on_two_nodes_against_one_without_ray(cluster: str, tmp_path: Path) -> None:
    folder = make_project(tmp_path, cases=1_000, seconds=0.1)

    for _ in range(3):
        (_, here, _), (_, there, _) = (
            measure_run(folder, "--concurrency", "100", "--executor", executor) for executor in ("local", "ray")
        )
        print(
            f"\n1,000 cases of 100 ms, 100 at a time: {here:.1f} s here, {there:.1f} s on two nodes "
            f"({there / here:.2f} x)"
        )


def test_the_first_case_on_a_cluster(cluster: str, tmp_path: Path) -> None:
    folder = make_project(tmp_path, cases=1, seconds=0)

    for executor in ("local", "ray") * 3:
        print(f"\nfirst case with {executor}: {measure_run(folder, '--executor', executor)[0]:.1f} s")


def test_the_memory_of_the_engine_with_20_000_cases(cluster: str, tmp_path: Path) -> None:
    folder = make_project(tmp_path, cases=20_000, seconds=0)

    for executor in ("local", "ray"):
        peak = measure_run(folder, "--concurrency", "100", "--isolation", "worker", "--executor", executor)[2]
        print(f"\n20,000 cases with {executor}: {peak} MB")
