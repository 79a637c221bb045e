"""Configuration files of simulated tools: read, with the place of every mistake."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from workbench.model.environment import Environment, SimulatedTool, read_environment
from workbench.store.documents.places import format_place
from workbench.store.documents.reader import Loaded, read_json
from workbench.store.errors import StoreError, shown_path


def load_environment(path: Path) -> tuple[Environment, tuple[StoreError, ...]]:
    """What a file says of simulated tools, and every mistake in it: with any, it must not be used.

    Raises StoreError where the file cannot be read at all.
    """
    loaded = read_json(path)
    environment, mistakes = read_environment(loaded.data, source=shown_path(path))
    problems = [loaded.error(each.place, found=each.found, expected=each.expected) for each in mistakes]
    if problems:
        return environment, tuple(problems)
    return environment.model_copy(update={"tools": tuple(_placed(environment, loaded))}), ()


def _placed(environment: Environment, loaded: Loaded) -> Iterator[SimulatedTool]:
    """The tools with their places, for what only shows when the agent is there."""
    listed = next(key for key in ("tool_simulation_configs", "toolSimulationConfigs") if key in loaded.data)
    for index, tool in enumerate(environment.tools):
        name = next(key for key in ("tool_name", "toolName") if key in loaded.data[listed][index])
        place = (listed, index, name)
        line, column = loaded.position(place)
        where = f"{environment.source}:{line}:{column}: {format_place(place)}"
        yield tool.model_copy(update={"place": where})
