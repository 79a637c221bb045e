"""Settings: what `workbench.toml` says, all of it optional.

Two files are read: `workbench.toml` at the root of a project, and the user's own in the configuration folder of the
platform, which knows the same keys except `targets`. Where both name a key, the project's wins. A key that nobody
knows is a problem to show, with the nearest known one; a value of the wrong type is an error.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PrivateAttr, ValidationError

from workbench.model.base import Fact
from workbench.model.model_names import wrong_vendor
from workbench.model.target import Isolation
from workbench.model.text import did_you_mean, one_line
from workbench.store.errors import StoreError, shown_path
from workbench.store.target_settings import KIND_TABLES, KINDS, Section, TargetSettings
from workbench.store.toml import Place, TomlFile, read_toml

FILE_NAME = "workbench.toml"


def _check_vendor(model: str) -> str:
    expected = wrong_vendor(model)
    if expected is not None:
        raise ValueError(expected)
    return model


ModelName = Annotated[str, AfterValidator(_check_vendor)]


class RunSettings(Section):
    """`[run]`: how cases are run."""

    concurrency: int = Field(default=8, ge=1)
    """Maximum parallel cases."""
    timeout_seconds: float = Field(default=120.0, gt=0)
    """Time limit of one case."""
    runs: int = Field(default=1, ge=1)
    """Repetitions of each case."""
    isolation: Isolation = "case"
    """`case`: a process for each case. `worker`: one process for all cases of a target."""
    confirm: Literal["costly", "always", "never"] = "costly"
    """Which runs the screen shows and asks about before they start. `costly`: runs with repetitions, a judge, or more
    than 10 jobs of agents with a model."""


class PriceSettings(Section):
    """`[judge.prices."MODEL"]`: what a model costs, in US dollars for a million tokens; 0 for one of your own."""

    input: float = Field(ge=0)
    """Price of input tokens."""
    output: float = Field(ge=0)
    """Price of output tokens, thinking included."""


class JudgeSettings(Section):
    """`[judge]`: the model that judges what cannot be computed."""

    model: ModelName = "gemini-2.5-flash"
    """Name of the model: one of Google's, or `provider/model` through LiteLLM."""
    scorer: Literal["judge", "vertex"] = "judge"
    """Default scorer of the metrics that ADK leaves to Google Cloud: the judge model, or the evaluation service of
    Vertex AI."""
    concurrency: int = Field(default=8, ge=1)
    """Maximum parallel requests to one model; fewer while the model refuses some."""
    requests_per_minute: int | None = Field(default=None, ge=1)
    """Maximum requests to one model in a minute. Default: as many as it answers."""
    tries: int = Field(default=5, ge=1)
    """Maximum tries of a request that may succeed later: 5xx, no connection, 429 while nothing is answered. After 3
    different failed requests in a row the run no longer asks the model."""
    timeout_seconds: float = Field(default=120.0, gt=0)
    """Time limit of one answer."""
    quorum: float = Field(default=0.5, gt=0, le=1, allow_inf_nan=False)
    """Share of a judge's samples that must be readable for a verdict; with fewer the metric is an ERROR."""
    require_all_samples: bool = False
    """If true, a run ends with status 3 if a verdict has fewer samples than requested."""
    max_calls: int | None = Field(default=None, ge=0)
    """Maximum requests to judge and user models in a run, tries included. Default: no limit."""
    max_cost: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Maximum cost of these requests in a run, in US dollars. Default: no limit."""
    prices: dict[str, PriceSettings] = Field(default_factory=dict)
    """`[judge.prices."MODEL"]`: prices that replace list prices, or of models without a list price."""


class SimulationSettings(Section):
    """`[simulation]`: users of conversation scenarios, scenarios that a model writes, tools that it answers for."""

    model: ModelName = "gemini-2.5-flash"
    """Default model that plays users, writes scenarios and answers for tools."""


class WatchSettings(Section):
    """`[watch]`: watch mode, on the screen and as a command."""

    max_cases_per_change: int | None = Field(default=None, ge=0)
    """Maximum cases that one change runs automatically. A larger change waits for the user. Default: no limit."""
    max_turns_per_change: int | None = Field(default=None, ge=0)
    """The same for turns, over all repetitions."""
    notify: Literal["desktop", "bell", "toast", "off"] = "desktop"
    """How the screen reports that a case that passed now fails. `toast`: on the screen. `bell`: also by the terminal's
    bell. `desktop`: also by a desktop notification, if the terminal supports it (OSC 9)."""


class TuiSettings(Section):
    """`[tui]`: the terminal application."""

    theme: str = "dark"
    """Name of a theme: a built-in one, or a file in the user's themes folder."""


class Settings(Section):
    """Everything that can be configured."""

    targets: dict[str, TargetSettings] = Field(default_factory=dict)
    """`[targets.NAME]`: the agents."""
    run: RunSettings = RunSettings()
    """`[run]`: how cases are run."""
    judge: JudgeSettings = JudgeSettings()
    """`[judge]`: the judge model."""
    simulation: SimulationSettings = SimulationSettings()
    """`[simulation]`: simulated users."""
    watch: WatchSettings = WatchSettings()
    """`[watch]`: watch mode."""
    tui: TuiSettings = TuiSettings()
    """`[tui]`: the terminal application."""
    keys: dict[str, str] = Field(default_factory=dict)
    """`[keys]`: action = key."""


class LoadedSettings(Fact):
    """Settings with the file of the project they came from (None: there is none) and what was odd about it."""

    settings: Settings = Settings()
    path: Path | None = None
    problems: tuple[str, ...] = ()
    _files: tuple[TomlFile, ...] = PrivateAttr(default=())  # what wins stands first

    def placed(self, place: Place, message: str) -> str:
        """A sentence about a setting, begun with the file and the line that say it where any does."""
        file = next((file for file in self._files if file.has(place)), None)
        return message if file is None else f"{shown_path(file.path)}:{file.line_of(place)}: {message}"


def user_settings_file() -> Path:
    """Where the user's own settings are, whether or not the file exists."""
    from platformdirs import user_config_path

    return user_config_path("workbench", appauthor=False) / FILE_NAME


def load_settings(root: Path, *, user_file: Path | None = None) -> LoadedSettings:
    """Read the settings of a project and of the user (`user_file`: instead of the one of the platform).

    Raises StoreError where a file cannot be read, is not TOML, or a value is of the wrong type.
    """
    own = read_toml(user_file or user_settings_file())
    project = read_toml(root / FILE_NAME)
    problems = [*_take_unknown_keys(own), *_take_unknown_keys(project)]
    if own.data.pop("targets", None) is not None:
        problems.append(
            f"{shown_path(own.path)}: targets belong into the {FILE_NAME} of a project, and are ignored here"
        )
    for file in (own, project):
        check_settings(file)
    merged = dict(own.data)
    for name, value in project.data.items():
        merged[name] = {**merged[name], **value} if name in merged else value
    loaded = LoadedSettings(
        settings=Settings.model_validate(merged),
        path=project.path if project.exists else None,
        problems=tuple(problems),
    )
    loaded._files = tuple(file for file in (project, own) if file.exists)
    return loaded


def _take_unknown_keys(file: TomlFile) -> list[str]:
    """Remove what is no setting from the data, and name it."""
    unknown = list(_unknown_keys(file.data))
    problems = [
        f"{shown_path(file.path)}:{file.line_of(place)}: {'.'.join(place)}: unknown key, "
        f"expected one of {_listed(known)}{did_you_mean(place[-1], known)}"
        for place, known in unknown
    ]
    for (*tables, key), _ in unknown:
        table = file.data
        for name in tables:
            table = table[name]
        del table[key]
    return problems


def _unknown_keys(data: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], Collection[str]]]:
    """The places of unknown keys, each with the keys that are known there."""
    for name, value in data.items():
        if name not in Settings.model_fields:
            yield (name,), list(Settings.model_fields)
        elif isinstance(value, dict) and name == "targets":
            for target, table in value.items():
                yield from _unknown_in(TargetSettings, (name, target), table)
                for kind, section in KIND_TABLES.items() if isinstance(table, dict) else ():
                    yield from _unknown_in(section, (name, target, kind), table.get(kind))
        elif isinstance(value, dict) and name in _SECTIONS:
            yield from _unknown_in(_SECTIONS[name], (name,), value)
            prices = value.get("prices") if name == "judge" else None
            for model, table in prices.items() if isinstance(prices, dict) else ():
                yield from _unknown_in(PriceSettings, (name, "prices", model), table)


_SECTIONS: dict[str, type[Section]] = {
    "run": RunSettings,
    "judge": JudgeSettings,
    "simulation": SimulationSettings,
    "watch": WatchSettings,
    "tui": TuiSettings,
}


def _unknown_in(
    section: type[Section], place: tuple[str, ...], table: Any
) -> Iterator[tuple[tuple[str, ...], Collection[str]]]:
    known = list(section.model_fields)
    if isinstance(table, dict):
        yield from (((*place, key), known) for key in table if key not in known)


def check_settings(file: TomlFile) -> None:
    """Raise StoreError where a value in a file is none that its key may have."""
    try:
        Settings.model_validate(file.data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place: Place = first["loc"]
        raise StoreError(
            file.path,
            line=file.line_of(place),
            place="".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).removeprefix("."),
            found="nothing" if first["type"] == "missing" else _found(first["input"]),
            expected=KINDS
            if first["type"] == "missing" and place[-1] == "kind"
            else _expected(first["type"], first.get("ctx", {})),
        ) from None


_USER_IN_URL = re.compile(r"//[^/?#@\s]*@")

_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list of texts",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "missing": "a number",  # of a price
    "literal_error": "{expected}",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "{ge:g} or more",
    "less_than_equal": "{le:g} or less",
    "finite_number": "a finite number",
    "value_error": "{error}",
}


def _expected(kind: str, context: dict[str, Any]) -> str:
    """What would have been right, in the words of TOML."""
    return _EXPECTED[kind].format(**context)


def _found(value: Any) -> str:
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return str(value).lower()
    if value == "":
        return "nothing"
    return one_line(_USER_IN_URL.sub("//...@", repr(value)), width=60)


def _listed(names: Collection[str]) -> str:
    return ", ".join(names)
