"""Which files of a project travel to the nodes of a cluster. `test_ray_hosts.py` sends them to real nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.agents.ray_project import list_project


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project in the folder `home` of a repository."""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("*.log\n/home/private\n")
    root = tmp_path / "home"
    for name in ("agent.py", "run.log", "private/key", "data/rows.csv", "data/big.bin", "data/keep.bin", ".env"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    (root / ".gitignore").write_text(".env\n")
    (root / "data" / ".gitignore").write_text("*.bin\n!keep.bin\n")
    return root


def list_names(root: Path, *excludes: str) -> set[str]:
    return {name for name in list_project(root, excludes) if not name.endswith(".gitignore")}


def test_what_git_ignores_stays_here(project: Path) -> None:
    assert list_names(project) == {"agent.py", "data/rows.csv", "data/keep.bin"}


def test_patterns_of_the_settings_take_precedence(project: Path) -> None:
    assert list_names(project, "data/", "!.env") == {"agent.py", ".env"}


def test_environments_and_histories_never_travel(project: Path) -> None:
    for name in ("env/pyvenv.cfg", "env/lib/x.py", ".workbench/history.db", "__pycache__/agent.pyc"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("")

    assert list_names(project) == {"agent.py", "data/rows.csv", "data/keep.bin"}


def test_empty_folders_travel(project: Path) -> None:
    (project / "out").mkdir()

    assert "out/" in list_project(project, [])


def test_a_change_of_a_file_is_seen_whatever_its_size(project: Path) -> None:
    before = list_project(project, [])

    (project / "agent.py").write_text("tnega.py")

    changed = {name for name, file in list_project(project, []).items() if before[name] != file}
    assert changed == {"agent.py"}
