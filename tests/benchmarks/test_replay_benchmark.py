"""Runs and watches of ADK agents with a model that takes two seconds: asked, recorded, and replayed.

Run it with WORKBENCH_BENCHMARKS=1. The baseline of a replayed run is the same run with a model that answers at once in
the agent's process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from textwrap import dedent

import pytest

from tests.benchmarks.watching import run_watch, save_atomically
from tests.serving import QuietHandler, run_http_server
from workbench.store.model_answers import Recording

pytestmark = pytest.mark.skipif(not os.environ.get("WORKBENCH_BENCHMARKS"), reason="set WORKBENCH_BENCHMARKS=1")
pytest.importorskip("google.adk")

CASES = 100
SAVES = 10
LATENCY = 2.0
AGENT = """
from google.adk.agents import Agent
from google.adk.models import BaseLlm, Gemini, LlmResponse
from google.genai import types

class Streaming(Gemini):
    async def generate_content_async(self, request, stream=False):
        async for response in super().generate_content_async(request, stream=True):
            if not response.partial:
                yield response

class Instant(BaseLlm):
    async def generate_content_async(self, request, stream=False):
        asked = sum(bool(part.function_response) for content in request.contents for part in content.parts)
        call = types.Part(function_call=types.FunctionCall(name="roll", args={"sides": asked + 6}))
        yield LlmResponse(content=types.Content(role="model", parts=[call if asked < 2 else types.Part(text="4")]))

def roll(sides: int) -> int:
    "Roll a die."
    return 4

root_agent = Agent(name="dice", model=MODEL, instruction="You roll dice.", tools=[roll])
"""
REMOTE = """
import os
os.environ.update(GOOGLE_GEMINI_BASE_URL="ADDRESS", GOOGLE_API_KEY="none")
"""


class Model(QuietHandler):
    """Speaks Gemini's protocol: two calls, then a text."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    count = 0
    latency = LATENCY
    lock = threading.Lock()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with Model.lock:
            Model.count += 1
        asked = sum("functionResponse" in part for content in body["contents"] for part in content["parts"])
        part = {"functionCall": {"name": "roll", "args": {"sides": asked + 6}}} if asked < 2 else {"text": "4"}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
        data = json.dumps({"candidates": [candidate], "modelVersion": "m"}).encode()
        if "stream" in self.path:
            self.stream(data)
            return
        time.sleep(Model.latency)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def stream(self, last: bytes) -> None:
        """Send ten events over the latency; the last one has the answer."""
        thought = {"content": {"role": "model", "parts": [{"text": "hm ", "thought": True}]}}
        events = [json.dumps({"candidates": [thought], "modelVersion": "m"}).encode()] * 9 + [last]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            time.sleep(Model.latency / len(events))
            chunk = b"data: " + event + b"\r\n\r\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        self.wfile.write(b"0\r\n\r\n")


@pytest.fixture
def url() -> Iterator[str]:
    with run_http_server(Model) as url:
        Model.count = 0
        yield url


def make_project(root: Path, *, before: str, model: str) -> Path:
    agent = root / "dice"
    agent.mkdir(parents=True)
    (agent / "__init__.py").write_text("from . import agent\n")
    (agent / "agent.py").write_text(before + dedent(AGENT).replace("MODEL", model))
    (agent / "test_config.json").write_text('{"criteria": {"tool_trajectory_avg_score": 1.0}}')
    calls = [{"name": "roll", "args": {"sides": sides}} for sides in (6, 7)]
    cases = [
        {
            "eval_id": f"case_{number}",
            "conversation": [
                {
                    "user_content": {"role": "user", "parts": [{"text": f"Roll dice {number}."}]},
                    "final_response": {"role": "model", "parts": [{"text": "4"}]},
                    "intermediate_data": {"tool_uses": calls},
                }
            ],
        }
        for number in range(CASES)
    ]
    (agent / "dice.evalset.json").write_text(json.dumps({"eval_set_id": "dice", "eval_cases": cases}))
    (root / "workbench.toml").write_text("[run]\nconcurrency = 16\n")
    return root


def run(root: Path, *options: str) -> float:
    """Run all cases; return the seconds."""
    started = time.perf_counter()
    command = [str(Path(sys.executable).with_name("workbench")), "run", "dice", *options]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return time.perf_counter() - started


def test_a_replayed_run_costs_little_more_than_one_with_an_instant_model(tmp_path: Path, url: str) -> None:
    remote = make_project(tmp_path / "remote", before=REMOTE.replace("ADDRESS", url), model='"gemini-2.5-flash"')
    instant = make_project(tmp_path / "instant", before="", model='Instant(model="instant")')

    live = run(remote)
    recorded = run(remote, "--models", "auto")
    asked = Model.count
    pairs = [(run(remote, "--models", "auto"), run(instant)) for _ in range(3)]

    replayed, baseline = map(min, zip(*pairs, strict=True))
    print(f"\nlive {live:.2f} s, recorded {recorded:.2f} s ({recorded / live:.3f}x, 1.02x wanted)")
    print(f"replayed {replayed:.2f} s, instant model {baseline:.2f} s ({replayed / baseline:.2f}x, 1.3x wanted)")
    assert Model.count == asked
    assert asked == 2 * 3 * CASES
    assert replayed < 1.3 * baseline


def test_streams_that_are_recorded_and_replayed_chunk_by_chunk_cost_little(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is a class of the project: its requests are replayed where they leave its client."""
    remote = make_project(tmp_path, before=REMOTE.replace("ADDRESS", url), model='Streaming(model="gemini-2.5-flash")')

    live = run(remote)
    recorded = run(remote, "--models", "auto")
    asked = Model.count
    replayed = min(run(remote, "--models", "auto") for _ in range(3))
    assert Model.count == asked
    monkeypatch.setattr(Model, "latency", 0.0)
    baseline = min(run(remote) for _ in range(3))

    print(f"\nlive {live:.2f} s, recorded {recorded:.2f} s ({recorded / live:.3f}x, 1.02x wanted)")
    print(f"replayed {replayed:.2f} s, server without latency {baseline:.2f} s ({replayed / baseline:.2f}x)")


def test_time_from_a_save_to_the_first_verdict_of_replayed_cases(tmp_path: Path, url: str) -> None:
    """Each save changes what a tool does, and no request: all cases run again, and no model is asked."""
    root = make_project(tmp_path, before=REMOTE.replace("ADDRESS", url), model='"gemini-2.5-flash"')
    path = root / "dice" / "agent.py"
    source = path.read_text()
    first, last = [], []
    with run_watch(root) as watch:
        asked = Model.count
        for number in range(SAVES):
            time.sleep(0.3)
            after_save = save_atomically(path, source.replace("    return 4", f"    number = {number}\n    return 4"))
            times = watch.wait_until_quiet(after_save=True)
            assert len(times) == CASES
            first.append(times[0] - after_save)
            last.append(times[-1] - after_save)
        assert Model.count == asked

    print(f"\nfirst verdict p50 {median(first):.3f} s (0.3 s wanted), worst {max(first):.3f} s")
    print(f"all {CASES} verdicts p50 {median(last):.2f} s")


def test_opening_a_recording_of_ten_thousand_calls(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Model, "latency", 0.0)
    root = make_project(tmp_path, before=REMOTE.replace("ADDRESS", url), model='"gemini-2.5-flash"')
    path = root / "calls.jsonl"
    run(root, "--record", str(path))
    few = path.read_text()
    copies = 10_000 // (3 * CASES) + 1
    path.write_text("".join(few.replace('"case_', f'"case_{number}_') for number in range(copies)))

    seconds = []
    for _ in range(5):
        started = time.perf_counter()
        recording = Recording(path)
        seconds.append(time.perf_counter() - started)

    assert len(recording.blocks) == copies * CASES
    size = path.stat().st_size / 2**20
    print(f"\n{3 * copies * CASES} calls, {size:.0f} MB: opened in {min(seconds):.3f} s (0.2 s wanted)")
