"""Options that several commands share, with the same names and explanations, and arguments that name cases."""

from __future__ import annotations

import math
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from workbench.cli.completions import complete_case, complete_file, complete_target, complete_what

Command = TypeVar("Command", bound=Callable[..., Any])
Option = Callable[[Any], Any]
Tools = Mapping[str, Path | str | None]
"""The values of `tool_options`."""
Execution = Mapping[str, int | float | str | Path | None]
"""The values of `execution_options`, `judging_options` and `recording_options`."""
DisplayOptions = Mapping[str, Any]
"""The values of `display_options`, by the names in `Display`."""

# The formats of `report_formats` and "text"; repeated here so that `--help` does not import them.
FORMAT_CHOICES = ("text", "json", "jsonl", "junit", "markdown", "csv", "html")

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


class WholeNumber(click.IntRange):
    """A whole number in a range. Its message says what was expected."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse the number. Raises click.BadParameter."""
        try:
            return int(super().convert(value, param, ctx))
        except click.BadParameter:
            self.fail(f"found {value!r}, expected a whole number {_describe_range(self)}", param, ctx)


class Number(click.FloatRange):
    """A number in a range. Its message says what was expected."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse the number. Raises click.BadParameter."""
        try:
            number = float(super().convert(value, param, ctx))
        except click.BadParameter:
            number = math.nan
        if math.isnan(number):  # which is in no range, but passes the comparisons of click
            self.fail(f"found {value!r}, expected a number {_describe_range(self)}", param, ctx)
        return number


def _describe_range(limits: click.IntRange | click.FloatRange) -> str:
    lowest = f"{'above' if limits.min_open else 'of at least'} {limits.min}"
    if limits.max is None:
        return lowest
    return f"{lowest} and below {limits.max}" if limits.max_open else f"from {limits.min} to {limits.max}"


class SummaryGroup(click.Group):
    """A group whose help shows the summaries of its commands whole; click would cut them off with "..."."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, command.get_short_help_str(limit=1000)) for name, command in commands if command]
            )


def _find_dataset(context: click.Context, parameter: click.Parameter, value: str) -> Path | str:
    from workbench.store.datasets.remote_data import is_address

    return value if is_address(value) else FILE.convert(value, parameter, context)


def _read_columns(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    from workbench.store.datasets.dataset_rows import InvalidColumns, read_columns

    try:
        return read_columns(value)
    except InvalidColumns as error:
        text = f"found {','.join(value)!r}, expected {error}"
        raise click.BadParameter(text, ctx=context, param=parameter) from None


def _read_shard(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    number, _, count = value.partition("/")
    if number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count) <= MOST_SHARDS:
        return int(number), int(count)
    text = f"found {value!r}, expected a number and a count, such as 2/5 (at most {MOST_SHARDS} shards)"
    raise click.BadParameter(text, ctx=context, param=parameter)


MOST_SHARDS = 1000
shard_option: Option = click.option(
    "--shard",
    callback=_read_shard,
    metavar="K/N",
    help="Run part K of N of the cases, split by their durations in the history; `workbench merge` makes one run of "
    "all parts.",
)
dataset_argument: Option = click.argument("dataset", callback=_find_dataset, shell_complete=complete_file)
"""An existing file as a path, or the address of a remote dataset as text."""
columns_option: Option = click.option(
    "--columns",
    multiple=True,
    callback=_read_columns,
    metavar="COLUMN=NAME,...",
    help="Names of columns in the dataset if they differ: response=answer,reference=ground_truth.",
)
case_option: Option = click.option(
    "--case",
    "cases",
    multiple=True,
    metavar="ID",
    shell_complete=complete_case,
    help="Only this case; repeatable. ID#2 is the second case with the id.",
)
config_option: Option = click.option("--config", type=FILE, help="Criteria for all eval sets instead of their own.")
format_option: Option = click.option(
    "--format", "report_format", type=click.Choice(["text", "json"]), default="text", help="Format of the output."
)
output_option: Option = click.option(
    "--output", type=click.Path(path_type=Path), help="Write to this file instead of standard output."
)
what_argument: Option = click.argument(
    "what", nargs=-1, metavar="[TARGET | FOLDER | SET[:CASE,CASE]]...", shell_complete=complete_what
)
target_option: Option = click.option(
    "--target",
    metavar="NAME",
    shell_complete=complete_target,
    help="The agent, instead of the one that belongs to the eval set.",
)
verbose_option: Option = click.option(
    "--verbose",
    is_flag=True,
    help="Show tracebacks, what agents wrote to stdout and stderr, and the samples of judges.",
)


def case_options(command: Command) -> Command:
    """Add the arguments, `--case` and `--target`: which cases, and by which agent."""
    options: list[Option] = [
        what_argument,
        case_option,
        target_option,
    ]
    return _add_options(options, command)


def display_options(command: Command) -> Command:
    """Add `--format`, `--output`, `--plain`, `--verbose`: how results are shown.

    The command gets them as `display`.
    """
    options: list[Option] = [
        click.option(
            "--format",
            "report_format",
            type=click.Choice(FORMAT_CHOICES),
            help="Format of the results. Default: text, or the format that the name of --output ends with.",
        ),
        click.option(
            "--output",
            type=click.Path(path_type=Path),
            help="File for the results; standard output then shows the verdict table.",
        ),
        click.option("--plain", is_flag=True, help="No colours, no progress line."),
        verbose_option,
    ]
    return _gather_options("display", ("report_format", "output", "plain", "verbose"), options, command)


def execution_options(command: Command) -> Command:
    """Add `--runs`, `--concurrency`, `--timeout`, `--isolation`, `--executor`: how cases run.

    Defaults come from workbench.toml. The command gets them as `execution`, by their names in RunOptions.
    """

    options: list[Option] = [
        click.option("--runs", type=WholeNumber(min=1), help="Repetitions per case."),
        click.option("--concurrency", type=WholeNumber(min=1), help="Maximum parallel cases."),
        click.option(
            "--timeout", "timeout_seconds", type=Number(min=0, min_open=True), help="Maximum seconds per case."
        ),
        click.option(
            "--isolation",
            type=click.Choice(["case", "worker"]),
            help="A process for each case (default), or one for all cases of an agent.",
        ),
        click.option(
            "--executor",
            type=click.Choice(["local", "ray"]),
            help="Where agents run: on this machine (default), or on a Ray cluster.",
        ),
    ]
    names = ("runs", "concurrency", "timeout_seconds", "isolation", "executor")
    return _gather_options("execution", names, options, command)


models_option: Option = click.option(
    "--models",
    type=click.Choice(["live", "auto", "replay"]),
    help="The agents' models: ask them (live), replay recorded answers until a request differs (auto), or never ask "
    "them (replay).",
)


def tool_options(command: Command) -> Command:
    """Add `--models`, `--fresh`, `--simulate-tools`, `--record-tools`, `--replay-tools`, `--unrecorded`.

    The command gets them as `tools`, by their names in RunOptions: what answers calls of the agents' models and tools.
    """

    @wraps(command)
    def check(*, tools: Tools, calls: Execution, **others: Any) -> Any:
        models, replay = tools["models"], calls["replay"]
        if replay is not None and models == "live":
            raise click.UsageError("--replay and --models live exclude each other.")
        if tools["fresh"] and (replay is not None or models in ("live", "replay")):
            raise click.UsageError("--fresh records new answers: it excludes --replay and --models live and replay.")
        return command(tools=tools, calls=calls, **others)

    options: list[Option] = [
        models_option,
        click.option(
            "--fresh", is_flag=True, help="Ask the agents' models again, and replace the answers recorded so far."
        ),
        click.option(
            "--simulate-tools",
            type=FILE,
            help="Simulate tools with this file (ADK's environment simulation) instead of the settings of the targets.",
        ),
        click.option(
            "--record-tools",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Record the results of all calls of tools in this file, which may be that of --record.",
        ),
        click.option(
            "--replay-tools",
            type=FILE,
            metavar="FILE",
            help="Answer calls of tools from a file written by --record-tools; no tool is called.",
        ),
        click.option(
            "--unrecorded",
            type=click.Choice(["error", "call"]),
            default="error",
            help="What to do with a call that is not in that file: end the case in ERROR (default), or call the tool.",
        ),
    ]
    names = ("models", "fresh", "simulate_tools", "record_tools", "replay_tools", "unrecorded")
    return cast(Command, _gather_options("tools", names, options, check))


def judging_options(command: Command) -> Command:
    """Add `--no-cache`, `--max-model-calls`, `--max-model-cost`, `--require-all-samples`: judge and user models.

    The command gets them as `judging`, by their names in RunOptions.
    """

    @wraps(command)
    def with_judging(
        *,
        no_cache: bool,
        max_model_calls: int | None,
        max_model_cost: float | None,
        require_all_samples: bool,
        **others: Any,
    ) -> Any:
        judging = {
            "use_cache": not no_cache,
            "max_model_calls": max_model_calls,
            "max_model_cost": max_model_cost,
            "require_all_samples": require_all_samples or None,
        }
        return command(judging=judging, **others)

    options: list[Option] = [
        click.option(
            "--no-cache", is_flag=True, help="Ask judge models again instead of reusing their earlier answers."
        ),
        click.option(
            "--max-model-calls",
            type=WholeNumber(min=0),
            metavar="NUMBER",
            help="Maximum calls to judge and user models; metrics beyond it end in ERROR.",
        ),
        click.option(
            "--max-model-cost",
            type=Number(min=0),
            callback=_check_finite,
            metavar="DOLLARS",
            help="Maximum cost of these calls in US dollars.",
        ),
        click.option(
            "--require-all-samples",
            is_flag=True,
            help="Exit with status 3 if a verdict is based on fewer judge samples than num_samples.",
        ),
    ]
    return cast(Command, _add_options(options, with_judging))


def recording_options(command: Command) -> Command:
    """Add `--record`, `--replay`, `--record-calls`, `--replay-calls`: files with the answers of models.

    The command gets them as `calls`, by their names in RunOptions. It must be above `tool_options`.
    """

    @wraps(command)
    def check(*, calls: Execution, **others: Any) -> Any:
        if calls["record"] is not None and calls["replay"] is not None:
            raise click.UsageError("--record and --replay exclude each other: a replay asks no model.")
        if calls["record_calls"] is not None and (calls["replay_calls"] is not None or calls["replay"] is not None):
            raise click.UsageError("--record-calls excludes --replay and --replay-calls: a replay asks no model.")
        return command(calls=calls, **others)

    path = click.Path(dir_okay=False, path_type=Path)
    options: list[Option] = [
        click.option(
            "--record",
            type=path,
            metavar="FILE",
            help="Record all calls of models in this file: those of agents, judges, simulated users and simulated "
            "tools. Calls of cases that do not run stay in it.",
        ),
        click.option(
            "--replay",
            type=FILE,
            metavar="FILE",
            help="Take the answers of models from a file written by --record; no model is asked, a missing answer is "
            "an ERROR.",
        ),
        click.option("--record-calls", type=path, metavar="FILE", help="--record for judge and user models alone."),
        click.option("--replay-calls", type=FILE, metavar="FILE", help="--replay for judge and user models alone."),
    ]
    names = ("record", "replay", "record_calls", "replay_calls")
    return cast(Command, _gather_options("calls", names, options, check))


def adk_options(command: Command) -> Command:
    """Add flags of ADK that scripts pass. A flag is refused only if ignoring it would change the result."""
    options: list[Option] = [
        click.option(
            "--eval_storage_uri",
            callback=_refuse_storage,
            expose_value=False,
            help="Not supported: eval sets and results are files here.",
        ),
        click.option(
            "--log_level",
            type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"], case_sensitive=False),
            expose_value=False,
            help="Accepted for ADK's scripts: workbench writes no log.",
        ),
    ]
    return _add_options(options, command)


def _check_finite(context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"found {value}, expected a finite amount", ctx=context, param=parameter)
    return value


def _refuse_storage(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value:
        raise click.BadParameter(
            f"{value!r}: eval sets and results are kept in files; storage elsewhere is not supported. "
            "Copy the eval sets to a folder and leave this option out.",
            ctx=context,
            param=parameter,
        )


def _gather_options(group: str, names: Iterable[str], options: list[Option], command: Command) -> Command:
    """Add options. The command gets their values as one argument `group`, by their `names`."""

    @wraps(command)
    def gather(**values: Any) -> Any:
        return command(**{group: {name: values.pop(name) for name in names}}, **values)

    return cast(Command, _add_options(options, gather))


def _add_options(options: list[Option], command: Command) -> Command:
    decorated: Command = command
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


# Features of google-adk 2.13, for `--enable_features` and `--disable_features`.

ADK_FEATURES = frozenset(
    {
        "AGENT_CONFIG",
        "AGENT_ENGINE_SANDBOX_ENVIRONMENT",
        "AGENT_STATE",
        "AUTHENTICATED_FUNCTION_TOOL",
        "BASE_AUTHENTICATED_TOOL",
        "BIGTABLE_TOOLSET",
        "BIGTABLE_TOOL_SETTINGS",
        "BIG_QUERY_TOOLSET",
        "BIG_QUERY_TOOL_CONFIG",
        "CASCADE_LIVE",
        "CLASSIFIER",
        "COMPUTER_USE",
        "DATA_AGENT_TOOLSET",
        "DATA_AGENT_TOOL_CONFIG",
        "DAYTONA_ENVIRONMENT",
        "DYNAMIC_INSTRUCTION_ROUTING",
        "E2B_ENVIRONMENT",
        "ELEVEN_LABS",
        "ENVIRONMENT_SIMULATION",
        "EVENTARC_TOOLSET",
        "EVENTARC_TOOL_CONFIG",
        "FALLBACK_MODEL",
        "FUNCTION_TOOL_ARG_VALIDATION",
        "GCS_ADMIN_TOOLSET",
        "GCS_TOOLSET",
        "GCS_TOOL_SETTINGS",
        "GOOGLE_CREDENTIALS_CONFIG",
        "GOOGLE_TOOL",
        "IN_MEMORY_SESSION_SERVICE_LIGHT_COPY",
        "JSON_SCHEMA_FOR_FUNC_DECL",
        "LIVEKIT",
        "MCP_AGENT_SERVER",
        "MCP_GRACEFUL_ERROR_HANDLING",
        "MCP_MODERN_PROTOCOL",
        "MONGODB_MEMORY_SERVICE",
        "MONGODB_SESSION_SERVICE",
        "MONGODB_TOOLSET",
        "MONGODB_TOOL_SETTINGS",
        "OPENSANDBOX_ENVIRONMENT",
        "PLUGGABLE_AUTH",
        "PROGRESSIVE_SSE_STREAMING",
        "PUBSUB_TOOLSET",
        "PUBSUB_TOOL_CONFIG",
        "SKILL_LIFECYCLE",
        "SKILL_TOOLSET",
        "SNAKE_CASE_SKILL_NAME",
        "SPANNER_ADMIN_TOOLSET",
        "SPANNER_TOOLSET",
        "SPANNER_TOOL_SETTINGS",
        "SPANNER_VECTOR_STORE",
        "TOOL_CONFIG",
        "TOOL_CONFIRMATION",
    }
)


def report_unknown_features(names: Iterable[str]) -> Iterator[str]:
    """Yield a message for each name that google-adk 2.13 does not know. Newer versions may know it."""
    from workbench.model.text import suggest_name

    for name in names:
        if name not in ADK_FEATURES:
            near = suggest_name(name.upper(), ADK_FEATURES)
            yield f"unknown feature {name!r}: google-adk 2.13 does not have it, and ignores it{near}"


# Arguments that name cases: `SET`, `SET:case,case`, a folder, a target.

LONGEST_NAME = 300
"""Characters of an argument that a message shows."""


@dataclass(frozen=True)
class NamedArgument:
    """An argument, split into a name and its cases. `cases`: None means all; empty if nothing follows the colon."""

    name: str
    cases: tuple[str, ...] | None = None

    @property
    def path(self) -> Path:
        return Path(self.name)


def path_exists(text: str) -> bool:
    """Return True if a path exists; False also for a text that is too long for a path, such as a list of cases."""
    return os.path.exists(text)  # noqa: PTH110 - Path.exists raises OSError for such a text


def is_file(text: str) -> bool:
    """As `path_exists`, for files."""
    return os.path.isfile(text)  # noqa: PTH113 - as above


def split_argument(text: str, *, exists: Callable[[str], bool]) -> NamedArgument | None:
    """Split at the last colon if the part before it exists; return None if nothing exists.

    Colons are legal in file names, so an existing name is never split. Ids of cases with a colon or comma cannot be
    written this way; use `--case` for them.
    """
    if exists(text):
        return NamedArgument(text)
    left, colon, right = text.rpartition(":")
    if colon and exists(left):
        return NamedArgument(left, tuple(name.strip() for name in right.split(",") if name.strip()))
    return None


def build_command_line() -> str:
    """Return the command as it was typed, to store with the run; addresses come without credentials."""
    from workbench.store.datasets.remote_data import is_address, shown_address

    return shlex.join(["workbench", *(shown_address(word) if is_address(word) else word for word in sys.argv[1:])])
