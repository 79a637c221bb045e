"""Validation of files with what only the engine knows: metrics and their options, and which agent a set belongs to."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from workbench.engine.criteria import criteria_below_every_score, problems_of, with_models
from workbench.metrics.registry import check_inputs
from workbench.store.discovery import CRITERIA_FILE, discover, find_root
from workbench.store.documents import Problem, config_in, files_below, is_config, read_json, validate
from workbench.store.errors import StoreError
from workbench.store.names import EVAL_SET_SUFFIXES
from workbench.store.settings import Settings, load_settings


def validate_files(paths: Sequence[Path], *, strict: bool = False) -> list[Problem]:
    """What is wrong with files, as `validate` of the store says, and what a run would refuse of configurations."""
    files = list(files_below(paths))
    agents = _agents_of(files)
    problems = validate(files, strict=strict, agent_of=lambda path: agents.get(path.resolve()))
    for path in files:
        with contextlib.suppress(StoreError):  # reported already
            if is_config(read_json(path)):
                problems += config_problems(path, _settings_for(path))
    return problems


def config_problems(path: Path, settings: Settings) -> Iterator[Problem]:
    """The unknown metrics and options, and the wrong values, of a configuration. Raises StoreError."""
    loaded = read_json(path)
    config = with_models(config_in(loaded), settings)
    invalid = list(problems_of(config))
    places = {each.place for each in invalid}
    for criterion, lowest in criteria_below_every_score(config):
        if f"criteria.{criterion.metric}.threshold" in places:
            continue
        message = f"{criterion.threshold:g} is below every score (from {lowest:g} on), so that every case passes"
        placed = loaded.error(f"criteria.{criterion.metric}.threshold", found="", expected="")
        yield Problem.of_error(placed, rule="low-threshold", severity="warning", message=message)
    for each in invalid:
        error = loaded.error(each.place, found=each.found, expected=each.expected)
        yield Problem.of_error(error, rule="criteria")
    for each in check_inputs(config, ()):
        error = loaded.error(each.place, found=each.found, expected=each.expected)
        yield Problem.of_error(error, rule="inputs", severity="error" if _judges_eval_set(path) else "warning")


def _judges_eval_set(path: Path) -> bool:
    """True if a configuration is that of an eval set beside it, whose cases have no columns of a dataset."""
    return path.name == CRITERIA_FILE and any(each.name.endswith(EVAL_SET_SUFFIXES) for each in path.parent.iterdir())


def _settings_for(path: Path) -> Settings:
    try:
        return load_settings(find_root(path)).settings
    except StoreError:  # of another file
        return Settings()


def _agents_of(files: Iterable[Path]) -> dict[Path, str | None]:
    """The agents of the sets of the projects that files are in, as far as discovery finds them."""
    agents: dict[Path, str | None] = {}
    for root in {find_root(path) for path in files}:
        with contextlib.suppress(StoreError):
            entries = discover(root, load_settings(root)).eval_sets
            agents |= {entry.path.resolve(): entry.target for entry in entries if entry.address is None}
    return agents
