"""The entry point `workbench`: parses the command line, and turns every error into one message and an exit status.

Commands raise what they find wrong (StoreError, PlanError, ...) and return their exit status; nothing here knows what
they do. Exit statuses: 0 all passed, 1 some case failed, 2 the command, configuration or a file is wrong, 3 none
failed but some ended in ERROR, 130 interrupted.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from workbench import __version__
from workbench.cli.lazy import CONTEXT_SETTINGS, LazyGroup, open_screen
from workbench.cli.streams import drop_output, message, prepare_streams

WRONG = 2
INTERRUPTED = 130
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
    prepare_streams()
    # What a command reads and makes stays until it ends: looking through it for garbage is mostly in vain.
    gc.set_threshold(20_000, 20, 100)
    try:
        status = cli.main(args=arguments, prog_name="workbench", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        _say_usage(error)
        return WRONG
    except (KeyboardInterrupt, click.Abort):
        message("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # whoever read our output has gone; that is their right
        drop_output()
        return 0
    except Exception as error:  # whatever a command did not expect must not reach people as a traceback
        if os.environ.get(_DEBUG_VARIABLE):
            raise
        if _is_of_output(error):
            drop_output()
        _say(error)
        return WRONG
    return status if isinstance(status, int) else 0


def _is_of_output(error: Exception) -> bool:
    """Whether standard output took no more: errors of files have a name, and are told where files are opened."""
    full = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
    return isinstance(error, OSError) and error.filename is None and error.errno in full


def _say_usage(error: click.ClickException) -> None:
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None:
        message(f"{context.get_usage()}\nTry `{context.command_path} --help`.\n", prefix="")
    message(error.format_message())


def _say(error: Exception) -> None:
    """One message: the error's own words where it was made for people, else what happened and how to learn more."""
    if isinstance(error, _errors_for_people()):
        message(str(error))
    elif isinstance(error, OSError) and _is_of_output(error):
        message(f"the output could not be written: {error.strerror}")
    else:
        message(
            f"this is a fault of workbench: {type(error).__name__}: {error}\n"
            f"Run it again with {_DEBUG_VARIABLE}=1 for the traceback, and please report it."
        )


def _errors_for_people() -> tuple[type[Exception], ...]:
    """Errors whose text is a message for people. Imported only here: the way without errors need not load them."""
    from workbench.engine.plan import PlanError
    from workbench.model.criteria import InvalidConfig
    from workbench.store.errors import StoreError

    return StoreError, PlanError, InvalidConfig


if __name__ == "__main__":
    sys.exit(main())
