"""An agent behind HTTP that takes 100 ms: how far a run is from the time that waiting alone takes.

What is measured is the run, from its plan to its last result in the history: the worker's process starts in that time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from .measuring import measure
from .test_run_benchmark import eval_set

pytestmark = [
    pytest.mark.skipif(not os.environ.get("WORKBENCH_BENCHMARKS"), reason="benchmarks run with WORKBENCH_BENCHMARKS=1"),
    pytest.mark.needs_fork,
]
BIN = Path(sys.executable).parent
TIMES = 5

# As bare as a server can be: it is not what is measured, and has the same processors.
SERVER = """
import asyncio

ANSWER = b'{"response": "hello"}'
HEAD = b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(ANSWER)

async def serve(reader, writer):
    while head := (await reader.readuntil(b"\\r\\n\\r\\n")).lower():
        length = head.partition(b"content-length:")[2].partition(b"\\r\\n")[0]
        await reader.readexactly(int(length))
        await asyncio.sleep(0.1)
        writer.write(HEAD + ANSWER)

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""


@pytest.fixture
def port() -> Iterator[int]:
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert server.stdout is not None
    yield int(server.stdout.readline())
    server.kill()
    server.wait()


def test_a_thousand_rows_of_an_agent_behind_http(tmp_path: Path, port: int) -> None:
    (tmp_path / "workbench.toml").write_text(
        f'[targets.web]\nkind = "http"\ntarget = "http://127.0.0.1:{port}/"\neval_sets = ["*.evalset.json"]\n'
    )
    (tmp_path / "rows.evalset.json").write_text(eval_set(1000, tool=False))
    (tmp_path / "trajectory.json").write_text('{"criteria": {"tool_trajectory_avg_score": 1.0}}')
    command = [BIN / "workbench", "run", "--concurrency", "100", "--config", "trajectory.json", "--format", "json"]

    costs = [measure(command, cwd=tmp_path, times=1) for _ in range(TIMES)]

    seconds = sorted(json.loads(cost.stdout)["duration_seconds"] for cost in costs)
    print(f"\n1,000 rows of 100 ms, concurrency 100: {costs[-1]}")
    print(f"runs: {', '.join(f'{each:.2f}' for each in seconds)} s; median {median(seconds):.2f} of an ideal second")
    assert {cost.status for cost in costs} == {0}
