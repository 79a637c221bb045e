"""Files left by a process that was killed during a save are deleted at the next start, and no others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.engine.workspace import Workspace

pytestmark = pytest.mark.skipif(os.name == "nt", reason="sends signals")

SET = b'{"eval_set_id": "x", "eval_cases": []}'

STOPS_WHILE_IT_SAVES = """
import os, signal, sys
from pathlib import Path
from workbench.store import files
def stop(_):
    os.fsync = lambda _: None
    os.kill(os.getpid(), signal.SIGSTOP)
os.fsync = stop
files.write_atomic(Path(sys.argv[1]), b"new")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "workbench.toml").write_text("")
    for name in ("set.evalset.json", "below/set.evalset.json"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(SET)
    (tmp_path / ".workbench" / "recovery").mkdir(parents=True)
    return tmp_path


def _start_a_save(file: Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", STOPS_WHILE_IT_SAVES, file])
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    return process


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


@pytest.mark.parametrize("file", ["below/set.evalset.json", ".workbench/recovery/0123.recovery", "ü" * 80 + ".json"])
def test_files_of_killed_processes_are_deleted_at_the_next_start(project: Path, file: str) -> None:
    before = {path for path in project.rglob("*") if path.is_file()}
    process = _start_a_save(project / file)
    new_files = {path for path in project.rglob("*") if path.is_file()} - before
    assert len(new_files) == 1

    Workspace.open(project).close()
    assert new_files.pop().exists()  # the process still exists and may continue

    _kill(process)
    Workspace.open(project).close()
    assert {path for path in project.rglob("*") if path.is_file()} == before


def test_a_save_continues_while_another_process_starts(project: Path) -> None:
    file = project / "set.evalset.json"
    process = _start_a_save(file)

    Workspace.open(project).close()
    process.send_signal(signal.SIGCONT)

    assert process.wait() == 0
    assert file.read_bytes() == b"new"


def test_files_of_other_programs_are_not_deleted(project: Path) -> None:
    names = [".set.evalset.json.0123456789ab.tmp", "x.tmp", ".x.workbench.tmp", ".x.1-2-3.workbench.tmp"]
    for name in names:
        (project / name).write_text("mine")
    folder = project / f".set.json.999999999-1-{'0' * 16}-{'0' * 12}.workbench.tmp"
    folder.mkdir()

    Workspace.open(project).close()

    assert all((project / name).read_text() == "mine" for name in names)
    assert folder.is_dir()
