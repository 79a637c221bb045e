"""Validation of files with what only the engine knows: metrics and their options, and which agent a set belongs to."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from workbench.engine.criteria import criteria_below_every_score, problems_of, with_models
from workbench.metrics.registry import check_inputs
from workbench.store.discovery import CRITERIA_FILE, EvalSetEntry, discover, find_root
from workbench.store.documents import Problem, config_in, files_below, is_config, read_json, validate
from workbench.store.errors import StoreError
from workbench.store.names import EVAL_SET_SUFFIXES
from workbench.store.settings import Settings, load_settings


def files_to_validate(path: Path) -> list[Path]:
    """The file itself; of a folder the eval sets and `test_config.json` files in it, and the criteria files that the
    settings name for those sets."""
    below = {file.resolve(): file for file in files_below([path])}
    entries = _entries_of(below) if path.is_dir() else ()
    configs = {each.config.resolve(): each.config for each in entries if each.config and each.path.resolve() in below}
    return list({**configs, **below}.values())


def validate_files(paths: Sequence[Path], *, strict: bool = False) -> list[Problem]:
    """What is wrong with files, as `validate` of the store says, and what a run would refuse of configurations."""
    files = list(files_below(paths))
    agents = {entry.path.resolve(): entry.target for entry in _entries_of(files)}
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


def _entries_of(files: Iterable[Path]) -> list[EvalSetEntry]:
    """The eval sets of the projects that files are in, as far as discovery finds them."""
    entries: list[EvalSetEntry] = []
    for root in {find_root(path) for path in files if path.exists()}:
        with contextlib.suppress(StoreError):
            entries += (entry for entry in discover(root, load_settings(root)).eval_sets if entry.address is None)
    return entries
