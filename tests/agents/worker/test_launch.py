"""Start of a worker: under any interpreter, and without the modules that the agent names."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell script as a program")
async def test_an_interpreter_that_is_too_old_is_reported(bench: Any, way: dict[str, Any]) -> None:
    launch = Path(__file__).parents[3] / "workbench/agents/worker/launch.py"
    code = "import sys, runpy; sys.version_info = (3, 8, 1); runpy.run_path(sys.argv[1], run_name='__main__')"
    python = bench.write("python", f'#!/bin/sh\nexec {sys.executable} -c "{code}" "$@"\n')
    python.chmod(0o755)

    talk = await bench.talk_once("hi", python=python, **way)

    assert launch.exists()
    assert talk.kind == "setup"
    assert "it is Python 3.8.1, expected Python 3.10 or newer" in talk.message


async def test_pythonpath_applies_to_the_agent_but_not_to_the_worker(
    bench: Any, way: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.write("elsewhere/values.py", "WHO = 'their values'")
    bench.write("elsewhere/selectors.py", "raise RuntimeError('not for us')")
    monkeypatch.setenv("PYTHONPATH", str(bench.folder / "elsewhere"))
    bench.agent("import values\ndef answer(prompt): return values.WHO")

    talk = await bench.talk_once("hi", **way)

    assert talk.error is None, talk.message
    assert talk.responses == ["their values"]


@pytest.mark.needs_fork
def test_a_worker_imports_no_heavy_standard_modules(tmp_path: Path) -> None:
    """Every start of a worker pays for each module that the zygote imports."""
    import json
    import subprocess

    launch = Path(__file__).parents[3] / "workbench/agents/worker/launch.py"
    code = (
        "import sys; before = set(sys.modules); from importlib.machinery import SourceFileLoader as Loader\n"
        f"Loader('launch', {str(launch)!r}).load_module()._load_worker({str(launch.parent)!r})\n"
        "import _workbench_worker.zygote, _workbench_worker.adapters.function, json\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)

    modules = set(json.loads(done.stdout))
    assert not modules & {"asyncio", "typing", "inspect", "pydantic", "workbench", "subprocess", "traceback"}
