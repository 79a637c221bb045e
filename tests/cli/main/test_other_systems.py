"""Systems without the shortcuts of Linux: cases run in fresh processes instead of forks."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.command_line import CommandLine

# Modules of Python itself must load for the system that they run on.
AS_MACOS = """
import asyncio, multiprocessing, os, platform, sys, sysconfig, urllib.request, uuid
sysconfig.get_config_vars(), platform.uname()
sys.platform = "darwin"
del os.memfd_create, os.pidfd_open
from workbench.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def run_as_on_macos(workbench: CommandLine, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", AS_MACOS, *arguments]
    return subprocess.run(command, cwd=workbench.root, check=False, capture_output=True, text=True, timeout=120)


def test_cases_run_without_fork(workbench: CommandLine) -> None:
    result = run_as_on_macos(workbench, "run", "home")

    assert "2 cases: 1 passed, 1 failed" in result.stdout
    assert result.returncode == 1


def test_a_crash_costs_only_its_case_without_fork(workbench: CommandLine) -> None:
    home = workbench.root / "home/light.evalset.json"
    home.write_text(home.read_text().replace('"light hall"', '"exit"'))

    result = run_as_on_macos(workbench, "run", "home")

    assert "2 cases: 1 passed, 1 error" in result.stdout


def test_doctor_names_how_cases_are_isolated(workbench: CommandLine) -> None:
    assert "each case in a process of its own" in run_as_on_macos(workbench, "doctor").stdout
