"""Which folders are searched, and which files count as agents or eval sets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.store.project_folder import ProjectFolder
from workbench.store import project_discovery
from workbench.store.folder_scan import explain_missing_agent


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("agent.yaml", "kind: Deployment"),
        ("agents.py", "from google.adk import Agent\n\nhelper = Agent(name='helper')"),
        ("Agent.py", "root_agent = 1"),
        ("agnet.py", "x = ("),
    ],
)
def test_files_with_similar_names_are_not_agents(folder: ProjectFolder, name: str, text: str) -> None:
    folder.write_agent("good")
    folder.write(f"bad/{name}", text)
    folder.write_set("bad/s.evalset.json")

    assert folder.entry("bad/s.evalset.json").target == "good"


def test_a_folder_with_many_sets_is_searched_for_a_broken_agent_once(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        folder.write_set(f"sets/s{number}.evalset.json")
    searched: list[Path] = []

    def explain(path: Path) -> str | None:
        searched.append(path)
        return explain_missing_agent(path)

    monkeypatch.setattr(project_discovery, "explain_missing_agent", explain)
    project = folder.discover()

    assert len(project.eval_sets) == 20
    assert sorted(searched) == [folder.root, folder.root / "sets"]


def test_hidden_folders_environments_and_caches_are_skipped(folder: ProjectFolder) -> None:
    for skipped in (".git", ".venv", ".adk", ".workbench", "node_modules", "__pycache__", "venv", "my_env"):
        folder.write_set(f"{skipped}/deep/x.evalset.json")
    folder.write("my_env/pyvenv.cfg")
    folder.write_set("kept/x.evalset.json")

    assert [entry.relative for entry in folder.discover().eval_sets] == ["kept/x.evalset.json"]


def test_links_are_followed_out_of_the_project_but_never_in_circles(folder: ProjectFolder) -> None:
    outside = folder.root.parent / "outside"
    ProjectFolder(outside).write_agent("linked")
    ProjectFolder(outside).write_set("linked/x.evalset.json")
    (outside / "linked" / "back").symlink_to(folder.root)
    (folder.root / "loop").symlink_to(folder.root)
    (folder.root / "agents").symlink_to(outside)

    project = folder.discover()

    assert [entry.relative for entry in project.eval_sets] == ["agents/linked/x.evalset.json"]
    assert project.eval_sets[0].target == "linked"


def test_a_set_with_several_names_counts_once_for_each_agent(folder: ProjectFolder) -> None:
    folder.write_agent("home")
    file = folder.write_set("tests/x.evalset.json")
    (folder.root / "home" / "x.evalset.json").symlink_to(file)

    assert [(entry.relative, entry.target) for entry in folder.discover().eval_sets] == [
        ("tests/x.evalset.json", "home")
    ]

    folder.write_agent("office")  # now only their places say which agent runs a set
    (folder.root / "office" / "x.evalset.json").symlink_to(file)

    assert [(entry.relative, entry.target) for entry in folder.discover().eval_sets] == [
        ("home/x.evalset.json", "home"),
        ("office/x.evalset.json", "office"),
    ]


def test_a_link_to_itself_is_listed_only_if_named_like_an_eval_set(folder: ProjectFolder) -> None:
    folder.write_set("x.evalset.json")
    for name in ("link", "agent.py", "y.evalset.json"):
        (folder.root / name).symlink_to(folder.root / name)

    assert [entry.relative for entry in folder.discover().eval_sets] == ["x.evalset.json", "y.evalset.json"]


def test_a_pipe_named_like_an_eval_set_is_skipped(folder: ProjectFolder) -> None:
    folder.write("real.evalset.json", '{"eval_set_id": "real", "eval_cases": []}')
    os.mkfifo(folder.root / "pipe.evalset.json")

    assert [entry.relative for entry in folder.discover().eval_sets] == ["real.evalset.json"]
