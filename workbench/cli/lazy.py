"""The top of the command line: commands whose modules are imported when they are used, and `workbench PATH`."""

from __future__ import annotations

import difflib
import os
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from workbench.cli.arguments import LONGEST_NAME, path_exists

COMMANDS = {
    "run": ("workbench.cli.run:run", "Run eval cases and report the verdicts."),
    "watch": ("workbench.cli.watch:watch", "Watch the project and run what a change affects."),
    "explain": ("workbench.cli.explain:explain", "Say why a case would run after the last changes, or would not."),
    "eval": ("workbench.cli.eval:evaluate", "Evaluate an agent: the arguments and flags of `adk eval`."),
    "simulate": ("workbench.cli.simulate:simulate", "Play conversation scenarios without judging them."),
    "score": ("workbench.cli.score:score", "Judge recorded responses and trajectories; no agent runs."),
    "dialects": (
        "workbench.cli.dialects:dialects",
        "Show what ADK, Vertex AI and agentevals say of the same tool calls.",
    ),
    "judge": ("workbench.cli.judge:judge", "Judge stored answers again, and say how far the judgements agree."),
    "calibrate": ("workbench.cli.calibrate:calibrate", "Hold the judges of a run against labels that people gave."),
    "schema": ("workbench.cli.schema:schema", "Print the JSON Schema of a kind of file, for editors."),
    "eval-set": ("workbench.cli.eval_set:eval_set", "Create, extend, migrate and validate eval sets."),
    "dataset": ("workbench.cli.dataset:dataset", "Look through datasets, and convert them."),
    "history": ("workbench.cli.history:history", "List earlier runs, or show one of them."),
    "report": ("workbench.cli.history:report", "Write an earlier run as JSON, JUnit XML, Markdown or CSV."),
    "compare": ("workbench.cli.compare:compare", "Compare two earlier runs: regressions, fixes, flaky cases, scores."),
    "target": ("workbench.cli.target:target", "Add an agent to workbench.toml."),
    "doctor": (
        "workbench.cli.doctor:doctor",
        "Show what was found: interpreter, extras, keys (names only), agents, eval sets, judge models, problems.",
    ),
    "demo": ("workbench.cli.demo:demo", "Try the sample agents."),
    "completion": ("workbench.cli.completion:completion", "Print the completion script for a shell."),
}
"""Where each command is, and its help: listing the commands imports none of them."""


class LazyGroup(click.Group):
    """The commands above; what is none of them is a path to open."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The commands, in the order of their use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        """A command, imported now; with underscores too, as ADK spells them."""
        known = COMMANDS.get(cmd_name.replace("_", "-"))
        if known is None:
            return None
        module, name = known[0].split(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        """The list of commands in `--help`."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments begin with; a path that exists is opened."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            if not path_exists(name):
                ctx.fail(_no_such_command_or_path(name))
            return "open", open_command, args
        return super().resolve_command(ctx, args)


@click.command("open", add_help_option=False)
@click.argument("path", type=click.Path(path_type=Path))
def open_command(path: Path) -> int:
    """Open the terminal application on a path."""
    return open_screen(path)


def open_screen(path: Path) -> int:
    """Open the terminal application. Raises click.ClickException where there is no terminal."""
    import sys

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.ClickException(
            f"opening {path} needs a terminal, and standard input or output is none. "
            f"Without one, use `workbench run {path}`; `workbench --help` lists all commands."
        )
    # Textual reads it as it is imported. At its own 60 frames a second what a key does is painted up to 33 ms later.
    os.environ.setdefault("TEXTUAL_FPS", "120")
    from workbench.tui.app import run

    return run(path)


def _no_such_command_or_path(name: str) -> str:
    close = difflib.get_close_matches(name.replace("_", "-"), COMMANDS, n=1, cutoff=0.6)
    looks_like_path = "/" in name or "." in name
    if close and not looks_like_path:
        return f"no such command or path: {name!r}; did you mean `workbench {close[0]}`?"
    from workbench.model.text import shorten

    shown = shorten(name, LONGEST_NAME)
    return f"no such {'file or folder' if looks_like_path else 'command or path'}: {shown!r}"


def normalise_option(token: str) -> str:
    """Options are the same with underscores and with dashes, as ADK's scripts have them."""
    return token.replace("_", "-")


CONTEXT_SETTINGS: dict[str, Any] = {
    "token_normalize_func": normalise_option,
    "help_option_names": ["-h", "--help"],
    "max_content_width": 110,
}
