"""CPU cost of one process per case (engine, zygote and children), compared with a bare fork.

Also the share of recording the dependencies of a case.

Runs with WORKBENCH_BENCHMARKS=1; `-s` shows the figures.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.benchmarks.agents import ADK
from workbench.agents import agent_host as agents
from workbench.agents import processes
from workbench.agents.worker_host import create_host
from workbench.model.evalset import Content
from workbench.model.target import AgentKind, Target

pytestmark = [
    pytest.mark.skipif(
        os.environ.get("WORKBENCH_BENCHMARKS") != "1", reason="benchmarks run with WORKBENCH_BENCHMARKS=1"
    ),
    pytest.mark.needs_fork,
]

WORKER = Path(agents.__file__).parent / "worker"
HI = Content.of_text("hi", role="user")
CASES = 300
ROUNDS = 3

# A process of the zygote's size that only forks and waits.
BARE_FORK = f"""
import importlib.util, os, sys
spec = importlib.util.spec_from_file_location(
    "_workbench_worker", {str(WORKER / "__init__.py")!r}, submodule_search_locations=[{str(WORKER)!r}]
)
sys.modules["_workbench_worker"] = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
import _workbench_worker.adapters.function
from _workbench_worker import agent_import, zygote
agent_import.freeze_memory()
before = os.times()
for _ in range({CASES}):
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
print((sum(os.times()[:4]) - sum(before[:4])) / {CASES})
"""


def _measure_bare_fork() -> float:
    done = subprocess.run([sys.executable, "-c", BARE_FORK], capture_output=True, text=True, check=True)
    return float(done.stdout)


async def _run_cases(target: Target, isolation: Any, cases: int) -> None:
    host = create_host(target, isolation=isolation, concurrency=8)
    host.prepare(cases=cases)
    limit = asyncio.Semaphore(8)

    async def run_one_case() -> None:
        async with limit:
            request = agents.SessionRequest(app_name="app", user_id="user")
            session = await host.open(request, on_span=lambda _: None)
            await session.turn(HI, turn=0)
            await session.finish()

    try:
        await asyncio.gather(*(run_one_case() for _ in range(cases)))
    finally:
        await host.close()


def _measure_cpu_per_case(target: Target, isolation: str, *, additional: int = CASES) -> float:
    """Return the CPU seconds per additional case, so that fixed costs do not count."""

    def cost(cases: int) -> float:
        before = os.times()
        asyncio.run(_run_cases(target, isolation, cases))
        return sum(os.times()[:4]) - sum(before[:4])

    return (cost(additional + 20) - cost(20)) / additional


def _measure_fastest_ms(measure: Callable[[], float]) -> float:
    return min(measure() for _ in range(ROUNDS)) * 1000


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_cpu_of_a_trivial_case_compared_with_a_bare_fork(tmp_path: Path, kind: str) -> None:
    (tmp_path / "agent.py").write_text(f"{kind} answer(prompt): return prompt\n")
    target = Target(name="echo", kind=AgentKind.FUNCTION, location="agent:answer", path=tmp_path)

    bare = _measure_fastest_ms(_measure_bare_fork)
    case = _measure_fastest_ms(lambda: _measure_cpu_per_case(target, "case"))
    shared = _measure_fastest_ms(lambda: _measure_cpu_per_case(target, "worker"))

    print(
        f"\n{kind}: bare fork {bare:.2f} ms, process for each case {case:.2f} ms ({case / bare:.1f}x, "
        f"{case - bare:.2f} ms above), shared process {shared:.2f} ms ({shared / bare:.2f}x)"
    )
    assert shared < case


# Code appended to modules of the worker, which disables hooks, instrumentation and dependency reports.
_DISABLE_RECORDING = {
    "recording/hooks": "def install(recorder):\n    _active.append(recorder)\n",
    "recording/instrument": (
        "def compile_source(path, source):\n"
        "    made = _compiled[path] = Compiled(path, source)\n"
        '    made.code = compile(source, path, "exec", dont_inherit=True)\n'
        "    return made\n"
    ),
    "recording/recorder": (
        "def _nothing(self, *given, **named):\n    return None\n\n\n"
        "Recorder.enter = Recorder.create_module = Recorder.note_import = Recorder.note_load = _nothing\n"
    ),
    "wire": (
        "def encode_inherited():\n    pass\n\n\ndef _no_lines(self, session, *, complete=False):\n    return []\n\n\n"
        "DependencyReporter.encode_messages = _no_lines\n"
    ),
}


def test_cpu_share_of_recording_in_an_adk_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Alternate both kinds of worker, so that other load of the machine affects both equally."""
    agent = tmp_path / "watched"
    agent.mkdir()
    (agent / "__init__.py").write_text("from . import agent\n")
    (agent / "agent.py").write_text(ADK)
    target = Target(name="watched", kind=AgentKind.ADK, location="watched", path=tmp_path)
    silent = tmp_path / "worker"
    shutil.copytree(WORKER, silent)
    for name, additional in _DISABLE_RECORDING.items():
        with (silent / f"{name}.py").open("a") as module:
            module.write(f"\n\n{additional}")

    costs: dict[Path, list[float]] = {WORKER: [], silent: []}
    for _ in range(ROUNDS + 2):
        for worker, milliseconds in costs.items():
            monkeypatch.setattr(processes, "_LAUNCH", worker / "launch.py")
            milliseconds.append(_measure_cpu_per_case(target, "case", additional=100) * 1000)

    recorded, unrecorded = (median(milliseconds) for milliseconds in costs.values())
    print(
        f"\nADK case: {recorded:.1f} ms of CPU, {unrecorded:.1f} ms without recording: "
        f"recording is {(recorded / unrecorded - 1) * 100:.1f} % (5 wanted); {costs}"
    )


def test_size_and_start_of_a_worker(tmp_path: Path) -> None:
    """Compare the zygote with an idle interpreter: memory in MB, CPU in ms."""
    config = '{"role": "zygote", "address": ["unix", "/nowhere"], "token": "", "target": {"kind": "function"}}'

    def measure(*arguments: str) -> tuple[float, float]:
        # Start from a small process: a new process is initially as large as its parent.
        code = (
            "import os, resource, sys; pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)\n"
            "usage = os.wait4(pid, 0)[2]; print((usage.ru_utime + usage.ru_stime) * 1000, usage.ru_maxrss / 1024)"
        )
        command = [sys.executable, "-S", "-c", code, sys.executable, *arguments]
        runs = [
            subprocess.run(command, input=config, capture_output=True, text=True, check=True).stdout.split()
            for _ in range(5)
        ]
        return min(float(cpu) for cpu, _ in runs), min(float(size) for _, size in runs)

    idle, worker = measure("-c", "pass"), measure(str(WORKER / "launch.py"))

    print(
        f"\nworker until it connects: {worker[0]:.0f} ms CPU ({worker[0] / idle[0]:.1f}x of nothing), "
        f"{worker[1]:.1f} MB ({worker[1] / idle[1]:.2f}x of nothing)"
    )
    assert worker[1] < 2 * idle[1]
