"""Scope of recording: which folders are the agent's own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from workbench.agents.worker.recording.scope import AgentFolders, find_package, is_workspace


def test_the_package_of_a_file_is_the_first_folder_with_an_init_module(tmp_path: Path) -> None:
    libraries = tmp_path / "site-packages"
    for name in ("tools/__init__.py", "tools/sub/__init__.py", "google/adk/__init__.py", "single.py"):
        (libraries / name).parent.mkdir(parents=True, exist_ok=True)
        (libraries / name).touch()

    def find(name: str) -> tuple[str, str] | None:
        return find_package(str(libraries / name))

    assert find("tools/sub/a.py") == (str(libraries), "tools")
    assert find("google/adk/agents/base.py") == (str(libraries), "google/adk")
    assert find("google/plain/a.py") == (str(libraries), "google/plain/a.py")
    assert find("single.py") == (str(libraries), "single.py")
    assert find_package(str(tmp_path / "own.py")) is find_package(os.__file__) is None


def test_folders_of_other_tools_and_of_the_system_never_count(tmp_path: Path) -> None:
    folders = AgentFolders(str(tmp_path))

    assert folders.is_inside(str(tmp_path / "a" / "b"))
    for path in (tmp_path / ".git" / "HEAD", tmp_path / "a" / "__pycache__" / "x.pyc", "/proc/self/stat", "/dev/null"):
        assert folders.is_inside(str(path)) is False
    assert folders.is_inside(os.__file__) is False
    assert folders.is_inside("/elsewhere") is folders.is_inside("/elsewhere/file") is None
    assert folders.find_own_folder("/elsewhere/") == "/elsewhere"  # an import from it makes it the agent's own
    assert folders.is_inside("/elsewhere") and folders.is_inside("/elsewhere/file")
    assert folders.is_inside("/elsewhere/.git") is False


@pytest.mark.parametrize(("sign", "holds"), [(".git", "HEAD"), ("workbench.toml", None)])
def test_the_agents_own_folders_include_its_repository_or_project(tmp_path: Path, sign: str, holds: str | None) -> None:
    home = tmp_path / "agents" / "one"
    home.mkdir(parents=True)
    if holds is None:
        (tmp_path / sign).touch()
    else:
        (tmp_path / sign).mkdir()

    folders = AgentFolders(str(home))

    assert folders.is_inside(str(tmp_path / "prompts" / "a.txt")) is True
    assert folders.is_inside(str(tmp_path / "pyproject.toml")) is True
    assert folders.is_inside(str(home / ".hidden" / "a.txt")) is True
    assert folders.is_inside(str(tmp_path / ".cache" / "a.txt")) is None
    assert folders.is_inside(str(tmp_path.parent / "a.txt")) is None
    assert folders.is_inside(str(tmp_path / ".git" / "HEAD")) is False


def test_a_repository_in_the_home_folder_does_not_count_as_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".git").mkdir()

    assert AgentFolders(str(tmp_path / "code" / "agent")).is_inside(str(tmp_path / "code" / "notes.txt")) is None


def test_a_virtual_environment_inside_the_project_is_not_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.prefix", str(tmp_path / ".venv"))

    folders = AgentFolders(str(tmp_path))

    assert folders.is_inside(str(tmp_path / ".venv" / "bin" / "python")) is False
    assert folders.is_inside(str(tmp_path / "agent.py"))
    assert not is_workspace(str(tmp_path / ".venv" / "lib" / "site-packages" / "x.py"))


def test_a_project_on_a_disk_mounted_below_run_is_recorded_as_usual() -> None:
    folders = AgentFolders("/run/media/somebody/disk/project")

    assert folders.is_inside("/run/media/somebody/disk/project/agent.py")
    assert folders.is_inside("/proc/self/maps") is False
    assert AgentFolders("/home/somebody/project").is_inside("/run/user/1000/bus") is False
