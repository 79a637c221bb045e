"""Settings of one target: what all kinds have, and the tables that only some have."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, ValidationInfo, field_validator

from workbench.model.base import Fact
from workbench.model.patterns import FOLDERS_AT_MOST
from workbench.model.target import DEPLOYED, AgentKind
from workbench.model.text import did_you_mean
from workbench.store.datasets.columns import check_columns

KINDS = ", ".join(kind.value for kind in AgentKind if kind is not AgentKind.RECORDED) + " or recorded"

_OBJECT = re.compile(r"[^\s:]+:[^\s:]+")
_RESOURCE = re.compile(r"projects/[^/\s]+/locations/[^/\s]+/reasoningEngines/[^/\s]+")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")


class Section(Fact):
    """A table of the file. Strict: text is no number, 1 is not true."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class A2aSettings(Section):
    """`[targets.NAME.a2a]`: how an A2A agent is spoken to."""

    headers: dict[str, str] = Field(default_factory=dict)
    """Headers of every request; `${NAME}` stands for an environment variable."""

    @field_validator("headers")
    @classmethod
    def _are_headers(cls, value: dict[str, str]) -> dict[str, str]:
        return _checked_headers(value)


class HttpSettings(Section):
    """`[targets.NAME.http]`: what an HTTP agent is asked, and where in its answer is what."""

    method: Literal["POST", "PUT", "PATCH", "GET"] = "POST"
    """Method of the request. With GET the keys of the body are the query of the URL."""
    headers: dict[str, str] = Field(default_factory=dict)
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

    @field_validator("headers")
    @classmethod
    def _are_headers(cls, value: dict[str, str]) -> dict[str, str]:
        return _checked_headers(value)

    @field_validator("body")
    @classmethod
    def _is_a_body(cls, value: Any) -> Any:
        if not isinstance(value, str | dict):
            raise ValueError("a table, or a template as text")  # noqa: TRY004 - pydantic tells ValueError alone
        return value


class CommandSettings(Section):
    """`[targets.NAME.command]`: what is done for a program beside starting it."""

    otlp: bool = False
    """If true, the run receives spans that the program exports. It starts with variables that name the address."""
    otlp_wait_seconds: float = Field(default=2.0, ge=0, le=60)
    """Maximum wait for exported spans after an answer."""


KIND_TABLES: dict[str, type[Section]] = {
    AgentKind.A2A: A2aSettings,
    AgentKind.HTTP: HttpSettings,
    AgentKind.COMMAND: CommandSettings,
}
"""The tables that only targets of one kind have, by the kind, which is their name too."""


class TargetSettings(Section):
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
    """Criteria file, relative to `path` or to the root. Default: `test_config.json` beside each eval set."""
    watch: tuple[str, ...] = Field(default=(), strict=False)
    """Additional files or folders whose change affects every case."""
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
    """`[targets.NAME.a2a]`: how an A2A agent is spoken to."""
    http: HttpSettings | None = None
    """`[targets.NAME.http]`: what an HTTP agent is asked, and where in its answer is what."""
    command: CommandSettings | None = None
    """`[targets.NAME.command]`: what is done for a program beside starting it."""

    @field_validator("kind")
    @classmethod
    def _is_known(cls, value: str) -> str:
        known = [kind.value for kind in AgentKind]
        if value not in known:
            raise ValueError(f"one of {', '.join(known)}{did_you_mean(value, known)}")
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
        if any(pattern.count("**") > FOLDERS_AT_MOST for pattern in value or ()):
            raise ValueError(f"patterns with at most {FOLDERS_AT_MOST} `**`")
        return value

    @field_validator("tools")
    @classmethod
    def _are_functions(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if value and info.data.get("kind") != AgentKind.FUNCTION:
            raise ValueError("no list here: only of a function it is not known which tools it has")
        if not all(map(_OBJECT.fullmatch, value)):
            raise ValueError("a list of module:function")
        return value

    @field_validator("columns")
    @classmethod
    def _are_known(cls, value: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        if value and info.data.get("kind") != AgentKind.RECORDED:
            raise ValueError("no table here: only recorded sessions have columns")
        check_columns(value)
        return value

    @field_validator(*KIND_TABLES)
    @classmethod
    def _is_of_the_kind(cls, value: Section | None, info: ValidationInfo) -> Section | None:
        if value is not None and info.data.get("kind") not in (None, info.field_name):
            raise ValueError(f"no such table: only a target of kind {info.field_name} has one")
        return value

    @property
    def options(self) -> dict[str, Any]:
        """The table that only the target's kind has, as plain data: what was set."""
        table: Section | None = getattr(self, self.kind) if self.kind in KIND_TABLES else None
        return {} if table is None else table.model_dump(mode="json", exclude_unset=True)


def _is_object(value: str) -> bool:
    return _OBJECT.fullmatch(value) is not None and "/" not in value


def _is_url(value: str) -> bool:
    """Whether it is a URL of HTTP, without a password: that would be shown wherever the agent is."""
    try:
        parts = urlsplit(_VARIABLE.sub("1", value))
        return (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and parts.port != 0
            and "@" not in parts.netloc
            and not re.search(r"\s", value)
        )
    except ValueError:  # a port that is no number, brackets that do not match
        return False


def _is_command(value: str) -> bool:
    try:
        return bool(shlex.split(value)) and "\0" not in value
    except ValueError:  # a quotation that does not end
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
"""What `target` must be, by kind: whether it is, and what to say where not."""


def _checked_headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not _HEADER.fullmatch(name):
            raise ValueError(f"names of headers, not {name!r}")
        if not value.isprintable() or not value.isascii():
            raise ValueError(f"printable ASCII text as the value of {name}")
        if "${" in _VARIABLE.sub("", value):
            raise ValueError(f"${{NAME}} with the name of a variable in {name}")
    return headers
