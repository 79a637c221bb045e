"""`workbench eval-set ...`: make, extend, migrate and check eval-set files. Also spelt as ADK spells it: `eval_set`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workbench.cli.generating import generate_eval_cases, lines_of_added, personas_of, project_of_agent
from workbench.cli.options import FILE, FOLDER, SummaryGroup, adk_options
from workbench.cli.streams import message, write_lines
from workbench.store.names import EVAL_SET_SUFFIX

if TYPE_CHECKING:
    from workbench.store.documents import AdkPersonas

_WRONG = 2
_NEW_ID = re.compile(r"[a-zA-Z0-9_]+")


@click.group(cls=SummaryGroup)
def eval_set() -> None:
    """Create, extend, migrate and validate eval sets."""


@eval_set.command()
@click.argument("agent", type=FOLDER)
@click.argument("eval_set_id")
@adk_options
def create(*, agent: Path, eval_set_id: str) -> int:
    """Create an empty eval set: AGENT/EVAL_SET_ID.evalset.json."""
    from workbench.store.documents import new_eval_set

    if not _NEW_ID.fullmatch(eval_set_id):
        raise click.BadParameter(
            f"{eval_set_id!r}: a new id may hold letters, digits and underscores only.", param_hint="EVAL_SET_ID"
        )
    new_eval_set(file_of(agent, eval_set_id), eval_set_id)
    write_lines([f"Eval set '{eval_set_id}' created for app '{agent.resolve().name}'."])
    return 0


@eval_set.command("add-eval-case")
@click.argument("agent", type=FOLDER)
@click.argument("eval_set_id")
@click.option("--scenarios_file", type=FILE, required=True, help="Conversation scenarios as JSON.")
@click.option("--session_input_file", type=FILE, required=True, help="How the sessions start, as JSON.")
@adk_options
def add_eval_case(*, agent: Path, eval_set_id: str, scenarios_file: Path, session_input_file: Path) -> int:
    """Add each scenario of a file as an eval case; those that the set has already are left out.

    The id of a case is the start of a hash of its scenario, the same as ADK's. For a persona given by name ADK hashes
    the persona's text, which is asked of the google-adk of the agent's interpreter; without it the ids differ.
    """
    from workbench.store.documents import add_scenarios

    path = file_of(agent, eval_set_id)

    def read_personas() -> AdkPersonas:
        project, _ = project_of_agent(agent, path, None)
        return personas_of(project)

    added = add_scenarios(path, scenarios_file, session_input_file=session_input_file, read_personas=read_personas)
    write_lines(lines_of_added(added, eval_set_id))
    return 0


eval_set.add_command(generate_eval_cases)


@eval_set.command()
@click.argument("old", type=FILE)
@click.argument("new", type=click.Path(path_type=Path))
@click.option("--initial-session", type=FILE, help="The session that the older format kept in a file of its own.")
def migrate(*, old: Path, new: Path, initial_session: Path | None) -> int:
    """Write an eval set of an older format in the current one. NEW must not exist."""
    from workbench.store.documents import migrate as migrate_file

    migrate_file(old, new, initial_session=initial_session)
    write_lines([f"{old} migrated to {new}"])
    return 0


@eval_set.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--strict", is_flag=True, help="Comments and trailing commas, which ADK cannot read, are errors.")
@click.option("--fix", "mend", is_flag=True, help="Remove comments and trailing commas; all else keeps its bytes.")
def validate(*, paths: tuple[Path, ...], strict: bool, mend: bool) -> int:
    """Check eval sets and configurations (or all in a folder): what cannot run here, and what ADK would refuse.

    Exits with 2 where there is an error; warnings alone leave 0.
    """
    from workbench.engine.file_validation import validate_files
    from workbench.model.text import counted, neutralise
    from workbench.store.documents import first_of_each_kind, fix

    files = list({file.resolve(): file for path in paths for file in _files_in(path)}.values())
    if mend:
        for file in files:
            if fix(file):
                message(f"{file}: comments and trailing commas removed")
    problems = validate_files(files, strict=strict)
    write_lines(neutralise(line) for line in first_of_each_kind(problems))
    errors = sum(problem.severity == "error" for problem in problems)
    found = f"{counted(errors, 'error')}, {counted(len(problems) - errors, 'warning')}" if problems else "nothing wrong"
    message(f"{counted(len(files), 'file')}: {found}")
    return _WRONG if errors else 0


def file_of(agent: Path, eval_set_id: str) -> Path:
    """Where ADK keeps the set of this id. Raises click.BadParameter for an id that leads elsewhere."""
    if (
        not eval_set_id
        or "/" in eval_set_id
        or "\\" in eval_set_id
        or eval_set_id in (".", "..")
        or "\0" in eval_set_id
    ):
        raise click.BadParameter(f"{eval_set_id!r} is no eval set id.", param_hint="EVAL_SET_ID")
    return agent / f"{eval_set_id}{EVAL_SET_SUFFIX}"


def _files_in(path: Path) -> list[Path]:
    from workbench.engine.file_validation import files_to_validate

    found = files_to_validate(path)
    if not found:
        names = "*.evalset.json, *.test.json or test_config.json"
        raise click.BadParameter(f"{path}: there is nothing to check below this folder ({names}).")
    return found
