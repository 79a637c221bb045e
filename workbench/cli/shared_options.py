"""Options that several commands have, and how cases are selected."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click

# Options that several commands share, so that they are spelt and explained the same everywhere.

Command = TypeVar("Command", bound=Callable[..., Any])
Option = Callable[[Any], Any]
Tools = Mapping[str, Path | str | None]
"""What `tool_options` gives."""
Execution = Mapping[str, int | float | str | Path | None]
"""What `execution_options`, `judging_options` and `recording_options` give."""

# The formats of `report_formats` and "text"; named here, as `--help` need not import these.
FORMAT_CHOICES = ("text", "json", "jsonl", "junit", "markdown", "csv")

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


class SummaryGroup(click.Group):
    """A group whose help shows the summaries of its commands whole; click would cut them off with "..."."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
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


dataset_argument: Option = click.argument("dataset", callback=_find_dataset)
"""A file that is there, or the address of a dataset elsewhere, which stays text."""
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
    help="Only this case; repeatable. ID#2 is the second case with the id.",
)
config_option: Option = click.option("--config", type=FILE, help="Criteria for all eval sets instead of their own.")


def case_options(command: Command) -> Command:
    """The cases to run, `--case`, `--target`: which cases are meant, and by which agent."""
    options: list[Option] = [
        click.argument("what", nargs=-1, metavar="[TARGET | FOLDER | SET[:CASE,CASE]]..."),
        case_option,
        click.option("--target", metavar="NAME", help="The agent, instead of the one that belongs to the eval set."),
    ]
    return _with(options, command)


def display_options(command: Command) -> Command:
    """`--format`, `--output`, `--plain`, `--verbose`: how results are shown."""
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
        click.option(
            "--verbose",
            is_flag=True,
            help="Show tracebacks, what agents wrote to stdout and stderr, and the samples of judges.",
        ),
    ]
    return _with(options, command)


def execution_options(command: Command) -> Command:
    """`--runs`, `--concurrency`, `--timeout`, `--isolation`: how cases are run. Defaults come from workbench.toml.

    The command gets them together as `execution`, by the names that they have in RunOptions.
    """

    @wraps(command)
    def with_execution(
        *, runs: int | None, concurrency: int | None, timeout: float | None, isolation: str | None, **others: Any
    ) -> Any:
        times = {"runs": runs, "concurrency": concurrency, "timeout_seconds": timeout}
        return command(execution={**times, "isolation": isolation}, **others)

    options: list[Option] = [
        click.option("--runs", type=click.IntRange(min=1), help="Repetitions per case."),
        click.option("--concurrency", type=click.IntRange(min=1), help="Maximum parallel cases."),
        click.option("--timeout", type=click.FloatRange(min=0, min_open=True), help="Maximum seconds per case."),
        click.option(
            "--isolation",
            type=click.Choice(["case", "worker"]),
            help="A process for each case (default), or one for all cases of an agent.",
        ),
    ]
    return cast(Command, _with(options, with_execution))


def tool_options(command: Command) -> Command:
    """`--simulate-tools`, `--record-tools`, `--replay-tools`, `--unrecorded`: what answers in place of tools.

    The command gets them together as `tools`, by the names that they have in RunOptions.
    """

    @wraps(command)
    def with_tools(
        *,
        simulate_tools: Path | None,
        record_tools: Path | None,
        replay_tools: Path | None,
        unrecorded: str,
        **others: Any,
    ) -> Any:
        files = {"simulate_tools": simulate_tools, "record_tools": record_tools, "replay_tools": replay_tools}
        return command(tools={**files, "unrecorded": unrecorded}, **others)

    options: list[Option] = [
        click.option(
            "--simulate-tools",
            type=FILE,
            help="Simulate tools as this file says (ADK's environment simulation) instead of as the targets say.",
        ),
        click.option(
            "--record-tools",
            type=click.Path(dir_okay=False, path_type=Path),
            help="Append the result of every tool call to this file.",
        ),
        click.option(
            "--replay-tools",
            type=FILE,
            help="Answer tool calls from a file written by --record-tools; no tool is called.",
        ),
        click.option(
            "--unrecorded",
            type=click.Choice(["error", "call"]),
            default="error",
            help="What to do with a call that is not in that file: end the case in ERROR (default), or call the tool.",
        ),
    ]
    return cast(Command, _with(options, with_tools))


def judging_options(command: Command) -> Command:
    """`--no-cache`, `--max-model-calls`, `--max-model-cost`, `--require-all-samples`: how models that judge or play
    users are asked.

    The command gets them together as `judging`, by the names that they have in RunOptions.
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
            type=click.IntRange(min=0),
            metavar="NUMBER",
            help="Maximum calls to judge and user models; metrics beyond it end in ERROR.",
        ),
        click.option(
            "--max-model-cost",
            type=click.FloatRange(min=0),
            callback=_finite,
            metavar="DOLLARS",
            help="Maximum cost of these calls in US dollars.",
        ),
        click.option(
            "--require-all-samples",
            is_flag=True,
            help="Exit with status 3 if a verdict rests on fewer judge samples than num_samples.",
        ),
    ]
    return cast(Command, _with(options, with_judging))


def recording_options(command: Command) -> Command:
    """`--record-calls`, `--replay-calls`: what models answer, written to a file or taken from it.

    The command gets them together as `calls`, by the names that they have in RunOptions.
    """

    @wraps(command)
    def with_calls(*, record_calls: Path | None, replay_calls: Path | None, **others: Any) -> Any:
        if record_calls is not None and replay_calls is not None:
            raise click.UsageError("--record-calls and --replay-calls exclude each other: a replay asks nobody.")
        return command(calls={"record_calls": record_calls, "replay_calls": replay_calls}, **others)

    options: list[Option] = [
        click.option(
            "--record-calls",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Record the calls to these models in this file; an earlier content is replaced.",
        ),
        click.option(
            "--replay-calls",
            type=FILE,
            metavar="FILE",
            help="Take the answers from this file and call no model; a missing answer is an ERROR.",
        ),
    ]
    return cast(Command, _with(options, with_calls))


def adk_options(command: Command) -> Command:
    """Flags of ADK that scripts pass: understood, and refused only where ignoring them would do something else."""
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
    return _with(options, command)


def feature_options(command: Command) -> Command:
    """`--enable_features`, `--disable_features`: ADK's switches, handed to ADK agents in its own variables."""
    options: list[Option] = [
        click.option("--enable_features", multiple=True, help="Comma-separated features of ADK to enable."),
        click.option("--disable_features", multiple=True, help="Comma-separated features of ADK to disable."),
    ]
    return _with(options, command)


def _finite(context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is no amount.", ctx=context, param=parameter)
    return value


def _refuse_storage(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value:
        raise click.BadParameter(
            f"{value!r}: eval sets and results are kept in files; storage elsewhere is not supported. "
            "Copy the eval sets to a folder and leave this option out.",
            ctx=context,
            param=parameter,
        )


def _with(options: list[Option], command: Command) -> Command:
    decorated: Command = command
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


# From what was written on the command line to the project and the cases that are meant.
