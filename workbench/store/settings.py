"""The settings: the schema of workbench.toml, reading it, and adding an agent to it."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field, PrivateAttr, ValidationError, ValidationInfo, field_validator

from workbench.model.criteria import explain_wrong_vendor
from workbench.model.facts import Fact
from workbench.model.patterns import MAX_FOLDER_WILDCARDS, Pattern, PatternError
from workbench.model.target import DEPLOYED, AgentKind, Executor, Isolation
from workbench.model.text import one_line, suggest_name
from workbench.store.datasets.dataset_rows import check_columns
from workbench.store.errors import StoreError, shown_path
from workbench.store.files import SETTINGS_FILE, decode_utf8, read_bytes, write_atomic, write_new
from workbench.store.toml_files import Place, TomlFile, read_toml

# Settings of a target: common ones, and the tables of single kinds

KINDS = ", ".join(kind.value for kind in AgentKind if kind is not AgentKind.RECORDED) + " or recorded"

_OBJECT = re.compile(r"[^\s:]+:[^\s:]+")
_RESOURCE = re.compile(r"projects/[^/\s]+/locations/[^/\s]+/reasoningEngines/[^/\s]+")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_RAY_ADDRESS = re.compile(r"(?:ray://)?(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")
_VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")


class SettingsSection(Fact):
    """A table of the file, with strict types: text is no number, 1 is not true."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def _check_headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not _HEADER.fullmatch(name):
            raise ValueError(f"a valid header name, not {name!r}")
        if not value.isprintable() or not value.isascii():
            raise ValueError(f"printable ASCII text as the value of {name}")
        if "${" in _VARIABLE.sub("", value):
            raise ValueError(f"${{NAME}} with the name of a variable in {name}")
    return headers


Headers = Annotated[dict[str, str], AfterValidator(_check_headers)]


class A2aSettings(SettingsSection):
    """`[targets.NAME.a2a]`: requests to an A2A agent."""

    headers: Headers = Field(default_factory=dict)
    """Headers of every request; `${NAME}` stands for an environment variable."""


class HttpSettings(SettingsSection):
    """`[targets.NAME.http]`: requests to an HTTP agent, and places in its responses."""

    method: Literal["POST", "PUT", "PATCH", "GET"] = "POST"
    """Method of the request. With GET the keys of the body are the query of the URL."""
    headers: Headers = Field(default_factory=dict)
    """Headers of every request; `${NAME}` stands for an environment variable."""
    body: Any = None
    """The JSON of a request: a table whose texts are jinja2 templates, or one template of it all. Default: prompt and
    session_id."""
    timeout_seconds: float | None = Field(default=None, gt=0)
    """Time limit of one answer. Default: as long as the case may take."""
    response: str | None = None
    """JSONPath of the text of the response."""
    predicted_trajectory: str | None = None
    """JSONPath of the tool calls."""
    usage: str | None = None
    """JSONPath of the token counts."""
    state: str | None = None
    """JSONPath of the session's new state."""
    spans: str | None = None
    """JSONPath of spans of OpenTelemetry, as OTLP has them in JSON. Default: `resourceSpans` of the answer."""
    otlp_port: int | None = Field(default=None, ge=1, le=65535)
    """Port of this machine on which the run receives spans that the agent exports. Default: none."""
    otlp_wait_seconds: float = Field(default=2.0, ge=0, le=60)
    """Maximum wait for exported spans after an answer."""

    @field_validator("body")
    @classmethod
    def _is_a_body(cls, value: Any) -> Any:
        if not isinstance(value, str | dict):
            raise ValueError("a table, or a template as text")  # noqa: TRY004 - pydantic reports only ValueError
        return value


class CommandSettings(SettingsSection):
    """`[targets.NAME.command]`: options for a program."""

    otlp: bool = False
    """If true, the run receives spans that the program exports. It starts with variables that name the address."""
    otlp_wait_seconds: float = Field(default=2.0, ge=0, le=60)
    """Maximum wait for exported spans after an answer."""


KIND_TABLES: dict[str, type[SettingsSection]] = {
    AgentKind.A2A: A2aSettings,
    AgentKind.HTTP: HttpSettings,
    AgentKind.COMMAND: CommandSettings,
}
"""Tables that only targets of one kind have; the kind is the name of the table."""


class TargetSettings(SettingsSection):
    """`[targets.NAME]`: one agent. Paths are relative to the root of the project."""

    kind: str
    """How the agent is reached: function, adk, langchain, agent_engine, a2a, http, command or recorded."""
    target: str = Field(default="", validate_default=True)
    """`package.module:name` for a function, langchain and agent_engine (there also the resource name of a deployed
    one), the folder of the agent for adk, a URL for a2a and http, a program with its arguments for a command."""
    path: str | None = None
    """Import root and working directory. Default: the root; for adk the folder that makes the agent's imports work."""
    python: str | None = None
    """The agent's own interpreter, a path or a name to look up. Default: the one that runs workbench."""
    env_file: str | None = None
    """File of environment variables. Default for adk: the nearest `.env` upwards from the agent's folder."""
    eval_sets: tuple[str, ...] | None = Field(default=None, strict=False)
    """Patterns of the eval sets this agent is tested with, relative to `path` or to the root. Default: by location."""
    config: str | None = None
    """Criteria file, relative to `path` or to the root. Default: the nearest `test_config.json` or
    `eval_config.json`, beside each eval set or above it."""
    watch: tuple[str, ...] = Field(default=(), strict=False)
    """Additional files or folders (no patterns) whose change affects every case."""
    rerun: Literal["affected", "always"] = "affected"
    """Which cases a change runs again: the affected ones, or all."""
    scripted_models: str | None = None
    """Script that answers for simulated users and judges if there is no key for their models."""
    simulate_tools: str | None = None
    """File that configures simulated tools, relative to `path` or to the root. Default: every tool is called."""
    tools: tuple[str, ...] = Field(default=(), strict=False)
    """For functions: the agent's tools as `module:function` or `module:Class.method`. These can be recorded."""
    columns: dict[str, str] = Field(default_factory=dict)
    """For recorded sessions: names of columns in the datasets, such as `{response = "answer"}`."""
    a2a: A2aSettings | None = None
    """`[targets.NAME.a2a]`: requests to an A2A agent."""
    http: HttpSettings | None = None
    """`[targets.NAME.http]`: requests to an HTTP agent, and places in its responses."""
    command: CommandSettings | None = None
    """`[targets.NAME.command]`: options for a program."""

    @field_validator("kind")
    @classmethod
    def _is_known(cls, value: str) -> str:
        known = [kind.value for kind in AgentKind]
        if value not in known:
            raise ValueError(f"one of {', '.join(known)}{suggest_name(value, known)}")
        return value

    @field_validator("target", mode="before")
    @classmethod
    def _is_one_text(cls, value: Any, info: ValidationInfo) -> Any:
        if info.data.get("kind") == AgentKind.COMMAND and isinstance(value, list):
            if not all(isinstance(each, str) for each in value):
                raise ValueError("a program with its arguments, each of them a text")
            return shlex.join(value)
        return value

    @field_validator("target")
    @classmethod
    def _fits_the_kind(cls, value: str, info: ValidationInfo) -> str:
        fits, expected = _TARGETS.get(info.data.get("kind", ""), (lambda _: True, ""))
        if not fits(value):
            raise ValueError(expected)
        return value

    @field_validator("eval_sets")
    @classmethod
    def _are_quick_to_match(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if any(pattern.count("**") > MAX_FOLDER_WILDCARDS for pattern in value or ()):
            raise ValueError(f"patterns with at most {MAX_FOLDER_WILDCARDS} `**`")
        return value

    @field_validator("tools")
    @classmethod
    def _are_functions(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if value and info.data.get("kind") != AgentKind.FUNCTION:
            raise ValueError("no list here: only targets of kind function need it")
        if not all(map(_OBJECT.fullmatch, value)):
            raise ValueError("a list of module:function")
        return value

    @field_validator("columns")
    @classmethod
    def _are_known(cls, value: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        if value and info.data.get("kind") != AgentKind.RECORDED:
            raise ValueError("no table here: only targets of kind recorded have columns")
        check_columns(value)
        return value

    @field_validator(*KIND_TABLES)
    @classmethod
    def _is_of_the_kind(cls, value: SettingsSection | None, info: ValidationInfo) -> SettingsSection | None:
        if value is not None and info.data.get("kind") not in (None, info.field_name):
            raise ValueError(f"no such table: only a target of kind {info.field_name} has one")
        return value

    @property
    def options(self) -> dict[str, Any]:
        """The table of the target's kind as plain data, as far as it was set."""
        table: SettingsSection | None = getattr(self, self.kind) if self.kind in KIND_TABLES else None
        return {} if table is None else table.model_dump(mode="json", exclude_unset=True)


def _is_object(value: str) -> bool:
    return _OBJECT.fullmatch(value) is not None and "/" not in value


def _is_url(value: str) -> bool:
    """True for an HTTP URL without a password, which would be shown together with the agent."""
    try:
        parts = urlsplit(_VARIABLE.sub("1", value))
        return (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and parts.port != 0
            and "@" not in parts.netloc
            and not re.search(r"\s", value)
        )
    except ValueError:  # a port that is no number, or unmatched brackets
        return False


def _is_command(value: str) -> bool:
    try:
        return bool(shlex.split(value)) and "\0" not in value
    except ValueError:  # an unclosed quotation
        return False


_URL = "an http:// or https:// URL, without user and password (a header may hold them)"
_TARGETS: dict[str, tuple[Callable[[str], bool], str]] = {
    AgentKind.FUNCTION: (lambda value: _OBJECT.fullmatch(value) is not None, "package.module:callable"),
    AgentKind.ADK: (bool, "the folder of the agent"),
    AgentKind.LANGCHAIN: (_is_object, "package.module:name"),
    AgentKind.AGENT_ENGINE: (
        lambda value: _is_object(value) or _RESOURCE.fullmatch(value) is not None,
        f"package.module:name, or {DEPLOYED}PROJECT/locations/LOCATION/reasoningEngines/ID",
    ),
    AgentKind.A2A: (_is_url, _URL),
    AgentKind.HTTP: (_is_url, _URL),
    AgentKind.COMMAND: (_is_command, "a program with its arguments"),
}
"""Checks of `target` by kind, each with the expected value for messages."""


# Settings of `workbench.toml`, all optional

FILE_NAME = SETTINGS_FILE


def _check_vendor(model: str) -> str:
    expected = explain_wrong_vendor(model)
    if expected is not None:
        raise ValueError(expected)
    return model


ModelName = Annotated[str, AfterValidator(_check_vendor)]


def _check_expression(text: str) -> str:
    try:
        Pattern(text)
    except PatternError as error:
        raise ValueError(f"a regular expression ({error})") from None
    return text


class RaySettings(SettingsSection):
    """`[run.ray]`: the Ray cluster that runs agents with `executor = "ray"`."""

    address: str = "auto"
    """`host:port` of the cluster, `ray://host:port` of its client server, or `auto`: `RAY_ADDRESS`, or the cluster of
    this machine."""
    runtime_env: dict[str, Any] = Field(default_factory=dict)
    """The environment on the nodes, as Ray defines it: `pip`, `uv`, `conda`, `py_executable`. `env_vars` is a list of
    names, whose values are those of your environment and of `.env` files. `excludes` are patterns of files that stay
    here, as in `.gitignore`. `working_dir` is always the project."""
    resources: dict[str, float] = Field(default_factory=lambda: {"CPU": 0.01}, strict=False)
    """What each agent host claims of its node, such as `{CPU = 2, GPU = 1}`. Each agent of a run has its own hosts."""
    max_workers: int | None = Field(default=None, ge=1)
    """Maximum agent hosts of an agent. Default: one for each node."""

    @field_validator("address")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        if value != "auto" and not _RAY_ADDRESS.fullmatch(value):
            raise ValueError("auto, host:port or ray://host:port")
        return value

    @field_validator("runtime_env")
    @classmethod
    def _is_an_environment(cls, value: dict[str, Any]) -> dict[str, Any]:
        if "working_dir" in value:
            raise ValueError("no working_dir: the project is the working folder")
        for name, what in (
            ("env_vars", "names of variables; values come from your environment"),
            ("excludes", "patterns"),
        ):
            given = value.get(name, [])
            if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
                raise ValueError(f"{name} as a list of {what}")
        return value

    @field_validator("resources")
    @classmethod
    def _are_positive(cls, value: dict[str, float]) -> dict[str, float]:
        if not all(0 < count < float("inf") for count in value.values()):
            raise ValueError("numbers above 0")
        return value

    @property
    def variable_names(self) -> Sequence[str]:
        """Names of the variables that travel to the nodes."""
        names: Sequence[str] = self.runtime_env.get("env_vars", ())
        return names

    @property
    def excludes(self) -> Sequence[str]:
        """Patterns of files that do not travel."""
        patterns: Sequence[str] = self.runtime_env.get("excludes", ())
        return patterns

    @property
    def shipped_environment(self) -> dict[str, Any]:
        """The part of `runtime_env` for Ray: values of variables must not be in it, because Ray logs it."""
        return {name: value for name, value in self.runtime_env.items() if name not in ("env_vars", "excludes")}


class RunSettings(SettingsSection):
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
    adk_results: bool = False
    """Write the results of full runs of ADK agents for `adk web`, to `.adk/eval_history` beside the agent. `workbench
    eval` always does, as `adk eval`."""
    executor: Executor = "local"
    """Where agents run. `local`: on this machine. `ray`: on the nodes of a Ray cluster."""
    ray: RaySettings = RaySettings()
    """`[run.ray]`: the Ray cluster that runs agents with `executor = "ray"`."""

    @property
    def cluster(self) -> RaySettings | None:
        """The cluster that runs agents; None if they run on this machine."""
        return self.ray if self.executor == "ray" else None


class PriceSettings(SettingsSection):
    """`[judge.prices."MODEL"]`: what a model costs, in US dollars for a million tokens; 0 for one of your own."""

    input: float = Field(ge=0)
    """Price of input tokens."""
    output: float = Field(ge=0)
    """Price of output tokens, thinking included."""


class JudgeSettings(SettingsSection):
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


class SimulationSettings(SettingsSection):
    """`[simulation]`: users of conversation scenarios, scenarios that a model writes, tools that it answers for."""

    model: ModelName = "gemini-2.5-flash"
    """Default model that plays users, writes scenarios and answers for tools."""


class ReplaySettings(SettingsSection):
    """`[replay]`: recorded model calls of agents, which answer the same requests later."""

    models: Literal["live", "auto", "replay"] | None = None
    """`live`: models are always asked. `auto`: recorded calls are replayed until a request differs. `replay`: models
    are never asked. Default: `auto` on the screen and in watch mode, else `live`."""
    endpoints: tuple[str, ...] = Field(default=(), strict=False)
    """Further addresses of models: hosts, or begins of addresses; `*` is any text."""
    volatile_fields: tuple[str, ...] = Field(default=(), strict=False)
    """Fields of requests that differ each time and do not matter, such as `config.labels.run` or `messages.*.id`."""
    volatile_texts: tuple[Annotated[str, AfterValidator(_check_expression)], ...] = Field(default=(), strict=False)
    """Regular expressions for such parts of texts: dates, random ids."""


class WatchSettings(SettingsSection):
    """`[watch]`: watch mode, on the screen and as a command."""

    max_cases_per_change: int | None = Field(default=None, ge=0)
    """Maximum cases that one change runs automatically. A larger change waits for the user. Default: no limit."""
    max_turns_per_change: int | None = Field(default=None, ge=0)
    """The same for turns, over all repetitions."""
    notify: Literal["desktop", "bell", "toast", "off"] = "desktop"
    """How the screen reports that a case that passed now fails. `toast`: on the screen. `bell`: also by the terminal's
    bell. `desktop`: also by a desktop notification, if the terminal supports it (OSC 9)."""


class TuiSettings(SettingsSection):
    """`[tui]`: the terminal application."""

    theme: str = "dark"
    """Name of a theme: a built-in one, or a file in the user's themes folder."""


class Settings(SettingsSection):
    """Everything that can be configured."""

    targets: dict[str, TargetSettings] = Field(default_factory=dict)
    """`[targets.NAME]`: the agents."""
    run: RunSettings = RunSettings()
    """`[run]`: how cases are run."""
    judge: JudgeSettings = JudgeSettings()
    """`[judge]`: the judge model."""
    simulation: SimulationSettings = SimulationSettings()
    """`[simulation]`: simulated users."""
    replay: ReplaySettings = ReplaySettings()
    """`[replay]`: recorded model calls of agents."""
    watch: WatchSettings = WatchSettings()
    """`[watch]`: watch mode."""
    tui: TuiSettings = TuiSettings()
    """`[tui]`: the terminal application."""
    keys: dict[str, str] = Field(default_factory=dict)
    """`[keys]`: action = key."""


class FoundSetting(NamedTuple):
    """A setting with its value, and the file and line that define it; without these, it has its default."""

    place: tuple[str, ...]
    value: str
    path: Path | None = None
    line: int | None = None

    @property
    def where(self) -> str:
        """File and line, empty for a default."""
        return "" if self.path is None else f"{self.path}:{self.line}"


class LoadedSettings(Fact):
    """Settings with the project's file (None: there is no file) and warnings about it."""

    settings: Settings = Settings()
    path: Path | None = None
    problems: tuple[str, ...] = ()
    _files: tuple[TomlFile, ...] = PrivateAttr(default=())  # in order of precedence

    def add_location(self, place: Place, message: str) -> str:
        """Prefix a message about a setting with the file and line that define it, if any."""
        found = self._find_location(place)
        return message if found is None else f"{shown_path(found[0])}:{found[1]}: {message}"

    def list_values(self) -> Sequence[FoundSetting]:
        """List every setting with its value, and the place that defines it."""
        return [
            FoundSetting(place, _format_value(value), *(self._find_location(place) or (None, None)))
            for place, value in _iterate_values(self.settings, ())
        ]

    def _find_location(self, place: Place) -> tuple[Path, int] | None:
        file = next((file for file in self._files if file.has(place)), None)
        return None if file is None else (file.path, file.find_line(place))


def _iterate_values(value: Any, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the settings in a table with their places. A target is one setting: its kind and location."""
    if isinstance(value, TargetSettings):
        yield place, f"{value.kind} {value.target}".strip()
    elif isinstance(value, SettingsSection):
        for name in type(value).model_fields:
            yield from _iterate_values(getattr(value, name), (*place, name))
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _iterate_values(each, (*place, name))
    else:
        yield place, value


def _format_value(value: Any) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def get_user_settings_file() -> Path:
    """Return the path of the user's own settings, whether or not the file exists."""
    from platformdirs import user_config_path

    return user_config_path("workbench", appauthor=False) / FILE_NAME


def load_settings(root: Path, *, user_file: Path | None = None) -> LoadedSettings:
    """Read the settings of a project and of the user (`user_file` replaces the default path of the latter).

    Raises StoreError if a file cannot be read, is not TOML, or has a value of the wrong type.
    """
    own = read_toml(user_file or get_user_settings_file())
    project = read_toml(root / FILE_NAME)
    problems = [*_remove_unknown_keys(own), *_remove_unknown_keys(project)]
    if own.data.pop("targets", None) is not None:
        problems.append(f"{shown_path(own.path)}: targets are ignored here; put them into the {FILE_NAME} of a project")
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


def _remove_unknown_keys(file: TomlFile) -> list[str]:
    """Remove unknown keys from the data, and return a message for each."""
    unknown = list(_find_unknown_keys(file.data))
    problems = [
        f"{shown_path(file.path)}:{file.find_line(place)}: {'.'.join(place)}: unknown key, "
        f"expected one of {', '.join(known)}{suggest_name(place[-1], known)}"
        for place, known in unknown
    ]
    for (*tables, key), _ in unknown:
        table = file.data
        for name in tables:
            table = table[name]
        del table[key]
    return problems


def _find_unknown_keys(data: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], Collection[str]]]:
    """Yield the places of unknown keys, each with the known keys there."""
    for name, value in data.items():
        if name not in Settings.model_fields:
            yield (name,), list(Settings.model_fields)
        elif isinstance(value, dict) and name == "targets":
            for target, table in value.items():
                yield from _list_unknown_keys(TargetSettings, (name, target), table)
                for kind, section in KIND_TABLES.items() if isinstance(table, dict) else ():
                    yield from _list_unknown_keys(section, (name, target, kind), table.get(kind))
        elif isinstance(value, dict) and name in _SECTIONS:
            yield from _list_unknown_keys(_SECTIONS[name], (name,), value)
            if name == "run":
                yield from _list_unknown_keys(RaySettings, (name, "ray"), value.get("ray"))
            prices = value.get("prices") if name == "judge" else None
            for model, table in prices.items() if isinstance(prices, dict) else ():
                yield from _list_unknown_keys(PriceSettings, (name, "prices", model), table)


_SECTIONS: dict[str, type[SettingsSection]] = {
    name: type(field.default)
    for name, field in Settings.model_fields.items()
    if isinstance(field.default, SettingsSection)
}


def _list_unknown_keys(
    section: type[SettingsSection], place: tuple[str, ...], table: Any
) -> Iterator[tuple[tuple[str, ...], Collection[str]]]:
    known = list(section.model_fields)
    if isinstance(table, dict):
        yield from (((*place, key), known) for key in table if key not in known)


def check_settings(file: TomlFile) -> None:
    """Raise StoreError if a value in a file is invalid."""
    try:
        Settings.model_validate(file.data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place: Place = first["loc"]
        raise StoreError(
            file.path,
            line=file.find_line(place),
            place="".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).removeprefix("."),
            found="nothing" if first["type"] == "missing" else _describe_found(first["input"]),
            expected=KINDS
            if first["type"] == "missing" and place[-1] == "kind"
            else _EXPECTED[first["type"]].format(**first.get("ctx", {})),
        ) from None


_USER_IN_URL = re.compile(r"//[^/?#@\s]*@")

# The expected value by the type of the error, in terms of TOML.
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
    "missing": "a number",  # a price
    "literal_error": "{expected}",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "{ge:g} or more",
    "less_than_equal": "{le:g} or less",
    "finite_number": "a finite number",
    "value_error": "{error}",
}


def _describe_found(value: Any) -> str:
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return str(value).lower()
    if value == "":
        return "nothing"
    return one_line(_USER_IN_URL.sub("//...@", repr(value)), width=60)


# Adding a target to `workbench.toml`: a table at its end; every other byte is unchanged

LOCATIONS = {
    "function": "the function, as package.module:callable",
    "adk": "the folder of the agent",
    "langchain": "the chain or graph, as package.module:name",
    "agent_engine": "the object, as package.module:name, or projects/.../reasoningEngines/ID",
    "a2a": "the URL of the agent or its card",
    "http": "the URL",
    "command": "the program with its arguments",
    "recorded": "the file with the recorded sessions",
}
"""The location of an agent by kind, as the form for a new target asks for it."""


class NewTarget(Fact):
    """The fields of a new target. `eval_sets` are patterns; without any, sets are found by location."""

    name: str
    kind: str
    location: str
    eval_sets: tuple[str, ...] = ()


def check_target(target: NewTarget) -> None:
    """Raise StoreError with `place` and `message` if a target is invalid in any project. Reads no file."""
    if not target.name or not target.name.isprintable():
        raise StoreError(Path(FILE_NAME), place="targets", found=repr(target.name), expected="the name of a target")
    check_settings(TomlFile(Path(FILE_NAME), _render_table(target)))


def add_target(target: NewTarget, root: Path) -> Path:
    """Write a target into the settings of the project at `root`, and create them if needed; return the file.

    If StoreError is raised, nothing has changed.
    """
    check_target(target)
    path = root / FILE_NAME
    before = read_toml(path)
    check_settings(before)
    if target.name in before.data.get("targets", {}):
        raise StoreError(path, "a target with this name already exists", place=f"targets.{target.name}")
    table = _render_table(target)
    if not path.exists():
        write_new(path, table.encode())
        return path
    data, stamp = read_bytes(path)
    text = decode_utf8(path, data)
    newline = "\r\n" if "\r\n" in text else "\n"
    gap = "" if not text.strip("\ufeff\r\n ") else newline if text.endswith("\n") else 2 * newline
    grown = text + gap + table.replace("\n", newline)
    try:
        check_settings(TomlFile(path, grown.removeprefix("\ufeff")))
    except tomllib.TOMLDecodeError as error:  # `targets = { ... }` on one line cannot be extended
        raise StoreError(path, f"no table can be added to it: {error}", place="targets") from None
    write_atomic(path, grown.encode(), expect=stamp)
    return path


def get_default_eval_sets(kind: str, name: str) -> Sequence[str]:
    """Return default patterns of eval sets for a new target. Agents without local code need them to find their sets."""
    return () if kind in ("function", "adk", "langchain", "agent_engine") else (f"{name}/*.evalset.json",)


def _render_table(target: NewTarget) -> str:
    import tomlkit

    table = tomlkit.table()
    table["kind"] = target.kind
    table["target"] = target.location
    if target.eval_sets:
        table["eval_sets"] = list(target.eval_sets)
    tables = tomlkit.table(is_super_table=True)
    tables[target.name] = table
    document = tomlkit.document()
    document["targets"] = tables
    return tomlkit.dumps(document)
