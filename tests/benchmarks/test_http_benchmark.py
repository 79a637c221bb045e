"""A run of an HTTP agent that takes 100 ms, compared with a bare client that sends the same requests.

The measured time starts with the plan and ends with the last result in the history. It includes the start of the
worker.
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

from tests.benchmarks.agents import make_eval_set

from .measuring import measure

pytestmark = [
    pytest.mark.skipif(not os.environ.get("WORKBENCH_BENCHMARKS"), reason="benchmarks run with WORKBENCH_BENCHMARKS=1"),
    pytest.mark.needs_fork,
]
BIN = Path(sys.executable).parent
TIMES = 5

# A minimal server: it is not measured but uses the same processors.
SERVER = """
import asyncio

BODY = b'{"response": "hello", "predicted_trajectory": []}'
ANSWER = b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(BODY) + BODY

class Agent(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.asked = transport, b""

    def data_received(self, data):
        head, end, body = (self.asked + data).partition(b"\\r\\n\\r\\n")
        self.asked = head + end + body
        if end and len(body) >= int(head.lower().partition(b"content-length:")[2].partition(b"\\r\\n")[0]):
            self.asked = b""
            asyncio.get_running_loop().call_later(0.1, self.transport.write, ANSWER)

async def main():
    server = await asyncio.get_running_loop().create_server(Agent, "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""

# A hundred parallel clients that only send requests.
CLIENT = """
import asyncio, sys, time, aiohttp

async def main():
    left = list(range(1000))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        async def lane():
            while left:
                left.pop()
                async with session.post(sys.argv[1], json={"prompt": "hello"}) as response:
                    await response.json()
        began = time.perf_counter()
        await asyncio.gather(*[lane() for _ in range(100)])
        print(time.perf_counter() - began)

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
    (tmp_path / "rows.evalset.json").write_text(make_eval_set(1000, tool=False))
    (tmp_path / "trajectory.json").write_text('{"criteria": {"tool_trajectory_avg_score": 1.0}}')
    command: list[str | Path] = [
        BIN / "workbench",
        "run",
        "--concurrency",
        "100",
        "--config",
        "trajectory.json",
        "--format",
        "json",
    ]

    client_seconds, seconds = [], []
    for _ in range(TIMES):  # alternate, because the speed of the machine varies
        client = subprocess.run(
            [sys.executable, "-c", CLIENT, f"http://127.0.0.1:{port}/"], stdout=subprocess.PIPE, check=True
        )
        client_seconds.append(float(client.stdout))
        cost = measure(command, cwd=tmp_path, times=1)
        assert cost.status == 0
        seconds.append(json.loads(cost.stdout)["duration_seconds"])

    ratio = median(seconds) / median(client_seconds)
    print(f"\n1,000 rows of 100 ms, concurrency 100: {', '.join(f'{each:.2f}' for each in sorted(seconds))} s")
    print(f"a bare client: {', '.join(f'{each:.2f}' for each in sorted(client_seconds))} s; {ratio:.2f} of that")
    assert ratio < 1.5
