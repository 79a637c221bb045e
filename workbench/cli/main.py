"""The entry point: commands are imported when they are called."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

if _has_default_interrupt := signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    with suppress(ValueError):  # only the main thread may set handlers
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))  # during the imports; `main` handles Ctrl-C later

import difflib
import errno
import gc
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click

import workbench
from workbench import __version__
from workbench.cli.console import INTERRUPTED, WRONG, drop_output, message, prepare_streams, write_text
from workbench.model.text import shorten

# The commands, whose modules are imported when they are used, and `workbench PATH`.

COMMANDS = {
    "run": ("workbench.cli.run_commands:run", "Run eval cases and report the verdicts."),
    "watch": ("workbench.cli.watch_commands:watch", "Watch the project and run what a change affects."),
    "explain": (
        "workbench.cli.watch_commands:explain",
        "Explain why a case would or would not run after the last changes.",
    ),
    "eval": ("workbench.cli.run_commands:evaluate", "Evaluate an agent: the arguments and flags of `adk eval`."),
    "simulate": ("workbench.cli.score_commands:simulate", "Play conversation scenarios without judging them."),
    "score": ("workbench.cli.score_commands:score", "Judge recorded responses and trajectories; no agent runs."),
    "dialects": (
        "workbench.cli.judge_commands:dialects",
        "Compare the scores of ADK, Vertex AI and agentevals for the same tool calls.",
    ),
    "judge": (
        "workbench.cli.judge_commands:judge",
        "Judge stored answers again, and measure how far the judgements agree.",
    ),
    "calibrate": (
        "workbench.cli.judge_commands:calibrate",
        "Compare the judges of a run with human labels.",
    ),
    "schema": ("workbench.cli.project_commands:schema", "Print the JSON Schema of a kind of file, for editors."),
    "eval-set": ("workbench.cli.evalset_commands:eval_set", "Create, extend, migrate and validate eval sets."),
    "dataset": ("workbench.cli.evalset_commands:dataset", "Check and convert datasets."),
    "import": (
        "workbench.cli.import_command:import_sessions",
        "Find sessions of production, and keep them as eval cases.",
    ),
    "history": ("workbench.cli.history_commands:history", "List earlier runs, or show one of them."),
    "report": (
        "workbench.cli.history_commands:report",
        "Write an earlier run as JSON, JUnit XML, Markdown, CSV or HTML.",
    ),
    "merge": ("workbench.cli.history_commands:merge", "Merge the results of all shards into one run, and report it."),
    "compare": (
        "workbench.cli.history_commands:compare",
        "Compare two earlier runs: regressions, fixes, flaky cases, scores.",
    ),
    "flaky": (
        "workbench.cli.history_commands:flaky",
        "List cases whose verdict changed while nothing that they use changed.",
    ),
    "bisect": ("workbench.cli.cause_commands:bisect", "Find the commit that turned a case red."),
    "coverage": (
        "workbench.cli.watch_commands:coverage",
        "Show which parts of agents and their code no case reaches.",
    ),
    "shrink": (
        "workbench.cli.cause_commands:shrink",
        "Find the smallest conversation, state and expected calls that fail the same way.",
    ),
    "why": (
        "workbench.cli.cause_commands:why",
        "Find which parts of the instruction matter for a case, by leaving out one at a time.",
    ),
    "serve": ("workbench.cli.project_commands:serve", "Show the screen in a browser on this machine."),
    "mcp": (
        "workbench.cli.project_commands:mcp",
        "Serve the project to coding agents over the Model Context Protocol.",
    ),
    "target": ("workbench.cli.project_commands:target", "Add an agent to workbench.toml."),
    "doctor": (
        "workbench.cli.doctor_command:doctor",
        "Show interpreter, extras, keys (names only), agents, eval sets, judge models and problems.",
    ),
    "tour": ("workbench.cli.score_commands:tour", "Learn the screen in two minutes, on the sample agents."),
    "demo": ("workbench.cli.score_commands:demo", "Try the sample agents."),
    "completion": ("workbench.cli.main:completion", "Print the completion script for a shell."),
}
"""Location and summary of each command, so that listing them imports nothing."""


class LazyGroup(click.Group):
    """The commands above; any other word is a path to open."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the commands in the order of their use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        """Import and return a command; underscores are accepted too, as in ADK."""
        known = COMMANDS.get(cmd_name.replace("_", "-"))
        if known is None:
            return None
        module, name = known[0].split(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        """Write the list of commands of `--help`."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of the first argument; an existing path means `open`."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            from workbench.cli.shared_options import path_exists

            if not path_exists(name):
                ctx.fail(_explain_unknown_command(name))
            return "open", open_command, args
        return super().resolve_command(ctx, args)


@click.command("open", add_help_option=False)
@click.argument("path", type=click.Path(path_type=Path))
def open_command(path: Path) -> int:
    """Open the terminal application on a path."""
    return open_screen(path)


def has_terminal() -> bool:
    """True if standard input and output are a terminal, or if Textual has another way to show the screen."""
    return "TEXTUAL_DRIVER" in os.environ or (sys.stdin.isatty() and sys.stdout.isatty())


def open_screen(path: Path, module: str = "workbench.tui.app") -> int:
    """Open the terminal application with `run` of a module. Raises click.ClickException without a terminal."""
    if not has_terminal():
        raise click.ClickException(
            f"opening {path} needs a terminal, but standard input or output is not one. "
            f"Without one, use `workbench run {path}`; `workbench --help` lists all commands."
        )
    # Textual reads this at import. With its default of 60 frames a second, a key press is painted up to 33 ms later.
    os.environ.setdefault("TEXTUAL_FPS", "120")
    from workbench.tui.last_picture import EarlyScreen

    with EarlyScreen(path) as early:
        status: int = import_module(module).run(path, early)
        return status


WORDS_ELSEWHERE = {
    "create": "target add",
    "convert": "dataset convert",
    "export": "report",
    "generate": "eval-set generate-eval-cases",
    "info": "doctor",
    "init": "target add",
    "lint": "dataset lint",
    "list": "doctor",
    "log": "history",
    "logs": "history",
    "ls": "doctor",
    "migrate": "eval-set migrate",
    "new": "eval-set create",
    "show": "history",
    "test": "run",
    "tui": ".",
    "ui": ".",
    "validate": "eval-set validate",
    "view": ".",
    "web": "serve",
}
"""Commands of `adk`, promptfoo and inspect_ai, and of our groups, with ours for the same purpose."""


def _explain_unknown_command(name: str) -> str:
    if name in WORDS_ELSEWHERE:
        return f"no such command or path: {name!r}; did you mean `workbench {WORDS_ELSEWHERE[name]}`?"
    close = difflib.get_close_matches(name.replace("_", "-"), COMMANDS, n=1, cutoff=0.6)
    looks_like_path = "/" in name or "." in name
    if close and not looks_like_path:
        return f"no such command or path: {name!r}; did you mean `workbench {close[0]}`?"
    from workbench.cli.shared_options import LONGEST_NAME

    shown = shorten(name, LONGEST_NAME)
    return f"no such {'file or folder' if looks_like_path else 'command or path'}: {shown!r}"


def normalise_option(token: str) -> str:
    """Accept options with underscores, as in scripts for ADK."""
    return token.replace("_", "-")


CONTEXT_SETTINGS: dict[str, Any] = {
    "token_normalize_func": normalise_option,
    "help_option_names": ["-h", "--help"],
    "max_content_width": 110,
}


# The entry point: parses the command line, and turns every error into a message and an exit status.

_DEBUG_VARIABLE = "WORKBENCH_DEBUG"


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings=CONTEXT_SETTINGS,
    subcommand_metavar="[PATH | COMMAND [ARGS]...]",
)
@click.version_option(__version__, prog_name="workbench", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help=f"Show tracebacks of errors; also {_DEBUG_VARIABLE}=1.")
@click.pass_context
def cli(context: click.Context, debug: bool) -> int | None:
    """Test AI agents against eval sets.

    `workbench [PATH]` opens the terminal application on a project (default: the current folder); the commands below
    need no terminal.
    """
    if debug:
        os.environ[_DEBUG_VARIABLE] = "1"
    return open_screen(Path()) if context.invoked_subcommand is None else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return the exit status; the console script passes it to `sys.exit`."""
    try:
        if arguments is None:
            sys.unraisablehook = _interrupt_again
        return _run_and_report_damage(arguments)
    except (KeyboardInterrupt, click.Abort):
        _let_interrupts_end_the_process(arguments)
        if arguments is None:
            sys.unraisablehook = _ignore
        message("interrupted")
        return INTERRUPTED
    finally:
        _let_interrupts_end_the_process(arguments)


def _let_interrupts_end_the_process(arguments: Sequence[str] | None) -> None:
    """Let Ctrl-C end the process at once if `main` is all that it does: nothing is left that could handle it."""
    with suppress(KeyboardInterrupt):  # the command has ended
        if arguments is None and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def _interrupt_again(unraisable: sys.UnraisableHookArgs) -> None:
    """Repeat a Ctrl-C that arrived in a callback, where Python prints the exception and continues.

    It must not arrive before this function has returned, also on a busy machine: it would be lost again.
    """
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
    else:
        sys.__unraisablehook__(unraisable)


def _ignore(unraisable: sys.UnraisableHookArgs) -> None:
    """Report no error of an object whose construction was interrupted, and which Python deletes now."""


def _run_and_report_damage(arguments: Sequence[str] | None) -> int:
    reported = frozenset() if (schema := _find_history_module()) is None else schema.list_damaged_histories()
    status = _run(arguments)
    if (schema := _find_history_module()) is not None:  # not every command looks for damage
        for notice in schema.pop_notices(schema.list_damaged_histories() - reported):
            message(notice)
    return status


def _find_history_module() -> Any:
    """Return the module of the history if the command needed it."""
    return sys.modules.get("workbench.store.history.history_schema")


def _run(arguments: Sequence[str] | None) -> int:
    prepare_streams()
    # Most objects of a command live until it ends: frequent garbage collection finds little.
    gc.set_threshold(20_000, 20, 100)
    try:
        status = cli.main(args=arguments, prog_name="workbench", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        _report_usage_error(error)
        return WRONG
    except click.Abort:
        raise
    except BrokenPipeError:  # the reader of our output is gone, which is no error
        drop_output()
        return 0
    except Exception as error:  # users must not get a traceback of an unexpected error
        if _is_interrupt(error):
            raise KeyboardInterrupt from error
        if os.environ.get(_DEBUG_VARIABLE):
            raise
        if _is_output_error(error):
            drop_output()
        _report_error(error)
        return WRONG
    return status if isinstance(status, int) else 0


def _is_interrupt(error: BaseException | None) -> bool:
    """Return True if Ctrl-C led to an error: Python 3.11 raises RuntimeError if it comes while a class is made."""
    return error is not None and (
        isinstance(error, KeyboardInterrupt) or _is_interrupt(error.__cause__ or error.__context__)
    )


def _is_output_error(error: Exception) -> bool:
    """Return True if standard output failed. Errors of other files have a file name."""
    full = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
    return isinstance(error, OSError) and error.filename is None and error.errno in full


def _report_usage_error(error: click.ClickException) -> None:
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None:
        message(f"{context.get_usage()}\nTry `{context.command_path} --help`.\n", prefix="")
    message(_name_parameter(error) if isinstance(error, click.BadParameter) else error.format_message())


def _name_parameter(error: click.BadParameter) -> str:
    """Return the message of a wrong value after the name of its option or argument, such as `--runs: found ...`."""
    if isinstance(error, click.MissingParameter):
        return error.format_message()
    if error.param is None:
        return error.message
    is_option = isinstance(error.param, click.Option)
    name = " / ".join(error.param.opts) if is_option else error.param.human_readable_name
    return f"{name}: {error.message}"


def _report_error(error: Exception) -> None:
    """Report an error: its own text if it is meant for users, else what happened and how to get a traceback."""
    from workbench.store.errors import DamagedFile, make_os_error

    if isinstance(error, _find_user_errors()):
        message(str(error))
        if isinstance(error, DamagedFile) and (schema := _find_history_module()) is not None:
            schema.pop_notices([error.path])  # this error reports the damage
    elif isinstance(error, OSError) and _is_output_error(error):
        message(f"the output could not be written: {error.strerror}")
    elif isinstance(error, FileNotFoundError) and _is_current_folder_gone():
        message("the current folder no longer exists")
    elif isinstance(error, FileNotFoundError) and error.filename is None:  # the folder for temporary files
        message(str(error.strerror or error))
    elif isinstance(error, PermissionError) and isinstance(error.filename, str):
        message(str(make_os_error("read", Path(error.filename), error)))
    else:
        message(
            f"this is a bug in workbench: {type(error).__name__}: {error}\n"
            f"Run it again with {_DEBUG_VARIABLE}=1 for the traceback, and please report it."
        )


def _is_current_folder_gone() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def _find_user_errors() -> tuple[type[Exception], ...]:
    """Return the error types whose text is meant for users. They are imported only after an error."""
    from workbench.engine.plan import PlanError
    from workbench.model.criteria import InvalidConfig
    from workbench.store.errors import StoreError

    return StoreError, PlanError, InvalidConfig


# The sample agents: inside the package if it was installed from a wheel, next to it in a checkout.


def find_bundled_folder(name: str) -> Path:
    """Return a folder that comes with workbench. Raises FileNotFoundError for a broken installation."""
    package = Path(workbench.__file__).parent
    for folder in (package / "_bundled" / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"this installation of workbench lacks {name}; install it again")


# `workbench completion`


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print the completion script for a shell. Write it to this file:

    \b
    bash: ~/.local/share/bash-completion/completions/workbench
    zsh:  _workbench in a folder of $fpath
    fish: ~/.config/fish/completions/workbench.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # click knows all shells of the choice above
    completer = kind(cli, {}, "workbench", "_WORKBENCH_COMPLETE")
    # As `source()`, but without a check of the installed bash: the script may be for another machine.
    write_text(completer.source_template % completer.source_vars())
    return 0


if _has_default_interrupt:
    with suppress(ValueError):
        signal.signal(signal.SIGINT, signal.default_int_handler)

if __name__ == "__main__":
    sys.exit(main())
