"""Documents compared with the plain JSON decoder on the same text. Reports ratios and never fails for being slow.

Run with `WORKBENCH_BENCHMARKS=1 pytest -s tests/benchmarks/test_documents_benchmark.py`.
"""

from __future__ import annotations

import json
import os
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from workbench.store.evalsets.evalset_document import EvalSetDocument

pytestmark = pytest.mark.skipif(
    os.environ.get("WORKBENCH_BENCHMARKS") != "1", reason="a benchmark: set WORKBENCH_BENCHMARKS=1"
)
TEXT = ("conversation", 0, "user_content", "parts", 0, "text")


def _case(number: int, padding: str) -> dict[str, Any]:
    call = {"name": "set_device_info", "args": {"location": "Bedroom", "device_id": "device_2", "status": "OFF"}}
    turn = {
        "invocation_id": f"e-{number}",
        "user_content": {"parts": [{"text": f"Turn off device_2 in the Bedroom. {padding}"}], "role": "user"},
        "final_response": {"parts": [{"text": "I have set the device_2 status to off."}], "role": "model"},
        "intermediate_data": {"tool_uses": [call], "intermediate_responses": []},
    }
    session_input = {"app_name": "home_automation", "user_id": "user", "state": {}}
    return {"eval_id": f"case_{number}", "conversation": [turn], "session_input": session_input}


@pytest.mark.parametrize("megabytes", [10, 100])
def test_opening_and_editing_compared_with_the_plain_decoder(tmp_path: Path, megabytes: int) -> None:
    padding = "x" * max(megabytes * 100 - 1000, 0)
    text = json.dumps({"eval_set_id": "s", "eval_cases": [_case(n, padding) for n in range(10_000)]}, indent=2)
    path = tmp_path / "big.evalset.json"
    path.write_text(text)
    size = len(text)

    decoding, _ = _measure_time(lambda: json.loads(text))
    opening, document = _measure_time(lambda: EvalSetDocument.open(path))
    listing, entries = _measure_time(lambda: document.entries)
    reading, _ = _measure_time(lambda: [document.case(entry.index) for entry in entries])
    editing, _ = _measure_time(lambda: document.set_value(TEXT, "other", case=5_000))
    inserting, _ = _measure_time(lambda: document.insert_case(5_000, _case(-1, "")))
    undoing, _ = _measure_time(document.undo)
    saving, _ = _measure_time(document.save)
    path.write_text(text[:-1] + "// a comment at the end\n}")
    opening_with_comment, _ = _measure_time(lambda: EvalSetDocument.open(path))
    current, peak = _measure_memory(path)

    print(f"\n10,000 cases, {size / 1e6:.0f} MB; json.loads {decoding:.3f} s")
    for name, seconds in {
        "open": opening, "list": listing, "read every case": reading, "edit a value": editing,
        "insert a case": inserting, "undo": undoing, "save": saving, "open with a comment": opening_with_comment,
    }.items():  # fmt: skip
        print(f"  {name:20} {seconds:8.4f} s   {seconds / decoding:7.3f} x json.loads")
    print(f"  memory: {current / size:.2f} x the file, peak while opening {peak / size:.2f} x")
    assert len(entries) == 10_000


def _measure_memory(path: Path) -> tuple[int, int]:
    """Return the bytes of an open document, and the peak while opening it."""
    tracemalloc.start()
    document = EvalSetDocument.open(path)
    measured = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert document.entries
    return measured


def _measure_time(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result
