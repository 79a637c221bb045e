"""The first start after `pip install`, without byte-code, and later starts.

Runs with WORKBENCH_BENCHMARKS=1; `-s` shows the figures. Installs workbench in a fresh environment.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.measuring import measure

pytestmark = pytest.mark.skipif(
    os.environ.get("WORKBENCH_BENCHMARKS") != "1", reason="benchmarks run with WORKBENCH_BENCHMARKS=1"
)

ROOT = Path(__file__).parents[2]
COMMANDS = (("--version",), ("--help",), ("run", "home_automation", "--dry-run"), ("run", "home_automation"))


def test_starts_with_and_without_byte_code(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv/bin/python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-compile", str(ROOT)]
    subprocess.run(install, check=True, cwd=tmp_path)
    program, samples = tmp_path / "venv/bin/workbench", ROOT / "sample_agents"
    environment = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": ""}
    cold = [measure([program, *words], cwd=samples, env=environment) for words in COMMANDS]
    packages = next((tmp_path / "venv/lib").glob("python*/site-packages"))
    subprocess.run([python, "-m", "compileall", "-q", packages], check=False)
    warm = [measure([program, *words], cwd=samples, env=environment) for words in COMMANDS]

    for words, first, later in zip(COMMANDS, cold, warm, strict=True):
        print(f"workbench {' '.join(words)}: {first} without byte-code, {later} with it")
    assert cold[0].cpu < 2
    assert all(first.cpu > later.cpu for first, later in zip(cold, warm, strict=True))
