"""The owner of an eval set that does not exist yet."""

from __future__ import annotations

import pytest

from tests.store.project_folder import ProjectFolder
from workbench.store.project_discovery import NewSets

SETTINGS = """
[targets.one]
kind = "function"
target = "agent:answer"
path = "inner"
eval_sets = ["sets/*.evalset.json", "inner/exact.evalset.json", "*/open.json", "q?.evalset.json"]
"""


@pytest.mark.parametrize(
    "relative",
    ["inner/sets/new.evalset.json", "sets/new.evalset.json", "inner/exact.evalset.json", "other.evalset.json"],
)
def test_a_created_set_has_the_predicted_target(folder: ProjectFolder, relative: str) -> None:
    folder.write("workbench.toml", SETTINGS)
    folder.write("inner/agent.py")
    predicted = NewSets(folder.discover()).pair(relative)

    folder.write_set(relative)

    entry = folder.entry(relative)
    assert (entry.target, entry.unpaired_reason) == (predicted.target, predicted.reason)


def test_patterns_suggest_paths_for_a_new_set(folder: ProjectFolder) -> None:
    folder.write("workbench.toml", SETTINGS)

    assert list(NewSets(folder.discover()).suggest_paths("one", name="new")) == [
        "inner/sets/new.evalset.json",
        "inner/inner/exact.evalset.json",
        "sets/new.evalset.json",
        "inner/exact.evalset.json",
    ]


def test_new_sets_of_an_agent_without_patterns_are_in_its_folder(folder: ProjectFolder) -> None:
    folder.write_agent("agents/weather")
    sets = NewSets(folder.discover())

    (path,) = sets.suggest_paths("weather", name="new")

    assert path == "agents/weather/new.evalset.json"
    assert sets.pair(path).target == "weather" and not sets.has_listed_sets("weather")
