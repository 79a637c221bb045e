"""`workbench doctor` on folders that cannot be written."""

from __future__ import annotations

import resource
import tempfile
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from workbench.store.history.history import History


@pytest.mark.parametrize("has_history", [True, False])
def test_doctor_says_what_a_full_disk_prevents(workbench: CommandLine, has_history: bool) -> None:
    if has_history:
        History.open(workbench.root).close()
    before = sorted(workbench.root.rglob("*"))

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))  # no file can grow
    try:
        result = workbench("doctor")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert result.status == 2
    folder = ".workbench" if has_history else "."
    assert f"  {folder}: cannot write it: " in result.out
    assert "verdicts are shown but not stored" in result.out
    assert f"  {tempfile.gettempdir()}: cannot write it: " in result.out
    assert sorted(workbench.root.rglob("*")) == before


@pytest.mark.needs_permissions
def test_doctor_names_a_read_only_history(workbench: CommandLine) -> None:
    with History.open(workbench.root) as history:
        path: Path = history.path
    path.chmod(0o400)

    assert ".workbench/history.db: cannot be used: it is read-only; verdicts are shown" in workbench("doctor").out
