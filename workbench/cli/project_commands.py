"""Commands for a project: `target` adds an agent, `schema` helps editors, `serve` and `mcp` show it elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from workbench.cli.console import WRONG, message, write_lines, write_text
from workbench.cli.shared_options import FOLDER, SummaryGroup, WholeNumber

if TYPE_CHECKING:
    from workbench.store.settings import NewTarget


_KINDS = ("function", "adk", "langchain", "agent_engine", "a2a", "http", "command", "recorded")
_ASKED = "if missing, asked for in a terminal"


class _KindChoice(click.Choice[str]):
    """The kinds as in workbench.toml; dashes are accepted instead of underscores, as in all options."""

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:  # noqa: ARG002 - as click calls it
        return str(choice).replace("-", "_")


@click.group(cls=SummaryGroup)
def target() -> None:
    """Add an agent to workbench.toml."""


@target.command()
@click.argument("name", required=False)
@click.option("--kind", type=_KindChoice(_KINDS), help=f"Kind of agent ({_ASKED}).")
@click.option(
    "--target",
    "location",
    metavar="WHERE",
    help=f"module:callable, folder, URL or command, depending on --kind ({_ASKED}).",
)
@click.option(
    "--eval-set", "eval_sets", metavar="PATTERN", multiple=True, help=f"Its eval sets, repeatable ({_ASKED})."
)
@click.option("--path", type=FOLDER, default=Path(), help="A folder of the project. Default: the current one.")
def add(*, name: str | None, kind: str | None, location: str | None, eval_sets: tuple[str, ...], path: Path) -> int:
    """Add an agent called NAME to the settings of the project, at the end of workbench.toml.

    The agent need not exist yet; the command reports what is missing.
    """
    from workbench.store.errors import StoreError, shown_path
    from workbench.store.files import find_root
    from workbench.store.settings import NewTarget, add_target, check_target, get_default_eval_sets

    root = find_root(path)
    asks = sys.stdin.isatty()
    missing = [word for word, given in (("NAME", name), ("--kind", kind), ("--target", location)) if given is None]
    if missing and not asks:
        raise click.UsageError(f"missing {', '.join(missing)}, which workbench can ask for only in a terminal")
    kind = kind or click.prompt("kind", type=_KindChoice(_KINDS), err=True)
    name = name or click.prompt("name", err=True)
    patterns = eval_sets

    def describe(where: str) -> NewTarget:
        return NewTarget(name=str(name), kind=str(kind), location=where, eval_sets=patterns)

    try:
        where = location if location is not None else _ask(str(kind), lambda text: check_target(describe(text)))
        if not patterns:
            usual = get_default_eval_sets(str(kind), str(name))
            if asks and missing:
                answer = click.prompt("eval sets (empty: those near the agent)", default=" ".join(usual), err=True)
                usual = answer.split()
            patterns = tuple(usual)
        file = add_target(describe(where), root)
    except StoreError as error:
        if error.line is not None or not error.place:  # an error of the file, not of the arguments
            raise
        raise click.UsageError(f"{error.place}: {error.message}") from None
    write_lines([f"added target {name} to {shown_path(file)}"])
    for problem in _find_missing(describe(where), root):
        message(problem)
    message("`workbench doctor --check` checks whether the agent can be reached")
    return 0


def _find_missing(target: NewTarget, root: Path) -> Iterator[str]:
    """Yield what the agent lacks, as `doctor` reports it. Imports and calls nothing."""
    from workbench.cli.doctor_command import check_targets
    from workbench.store.errors import StoreError
    from workbench.store.project_discovery import make_configured_target
    from workbench.store.settings import FILE_NAME, TargetSettings

    settings = TargetSettings(kind=target.kind, target=target.location)
    try:
        configured = make_configured_target(target.name, settings, root=root)
    except StoreError as error:
        yield f"{FILE_NAME}: targets.{target.name}.target: {error}"
        return
    yield from check_targets([configured], ask=False)[target.name].problems


def _ask(kind: str, check: Callable[[str], None]) -> str:
    """Ask for the location of the agent until it fits the kind."""
    from workbench.store.errors import StoreError
    from workbench.store.settings import LOCATIONS

    while True:
        where: str = click.prompt(LOCATIONS[kind], err=True)
        try:
            check(where)
        except StoreError as error:
            if not error.place.endswith(".target"):
                raise
            message(error.message)
        else:
            return where


# JSON Schemas, with which editors check and complete our files.


@click.command()
@click.argument("kind", type=click.Choice(["evalset", "config", "test-config", "run"]))
def schema(kind: Literal["evalset", "config", "test-config", "run"]) -> int:
    """Print the JSON Schema of a kind of file, for editors.

    \b
    evalset:     eval sets (*.evalset.json, *.test.json)
    config:      workbench.toml
    test-config: criteria (test_config.json and other eval configs)
    run:         the report of `workbench run --format json`
    """
    import json

    from workbench.engine import schemas

    match kind:
        case "evalset":
            document = schemas.evalset_schema()
        case "config":
            from workbench.tui.keys import KEY_ACTIONS

            document = schemas.config_schema({action.id: action.description for action in KEY_ACTIONS})
        case "test-config":
            document = schemas.criteria_schema()
        case "run":
            document = schemas.run_schema()
    write_text(json.dumps(document, indent=2) + "\n")
    return 0


# `workbench serve`


@click.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path), default=Path())
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=WholeNumber(0, 65535), default=8000, show_default=True, help="0: any free port.")
@click.option("--allow-host", "allowed_hosts", multiple=True, help="Another name of this server, such as a proxy's.")
def serve(*, path: Path, host: str, port: int, allowed_hosts: tuple[str, ...]) -> int:
    """Show the screen in a browser on this machine.

    PATH is a project or an eval set, as for `workbench PATH`. The command prints a link that works once. The
    link gives the right to run agents and edit files: keep it secret, and keep the default address unless others must
    reach it.
    """
    try:
        from workbench.cli.browser_server import BrowserServer
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("aiohttp_jinja2", "textual_serve"):
            raise
        return _report_missing("textual-serve", extra="serve")
    BrowserServer(path, host=host, port=port, allowed_hosts=allowed_hosts).run()
    return 0


def _report_missing(package: str, *, extra: str) -> int:
    from workbench.cli.doctor_command import missing_extra

    message(f"the package {package} is {missing_extra(extra)}")
    return WRONG


# `workbench mcp`


@click.command()
@click.option("--path", type=FOLDER, default=Path(), help="A folder of the project. Default: the current one.")
@click.option("--allow-run", is_flag=True, help="Let clients run agents, which may ask models and cost money.")
@click.option("--allow-edit", is_flag=True, help="Let clients write edits of expectations into eval sets.")
def mcp(*, path: Path, allow_run: bool, allow_edit: bool) -> int:
    """Serve the project to coding agents over the Model Context Protocol.

    It uses standard input and output. Clients list cases and verdicts, explain what would run, and read results,
    differences and traces. They run agents and write files only with the options below. Without --allow-edit they can
    still propose an edit, as a diff.
    """
    try:
        from workbench.cli.mcp_server import ProjectServer
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        return _report_missing("mcp", extra="mcp")
    if sys.stdin.isatty():
        message("serving the project to a coding agent, which starts this command itself; see docs/coding-agents.md")
    ProjectServer(path, may_run=allow_run, may_edit=allow_edit).run()
    return 0
