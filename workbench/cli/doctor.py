"""`workbench doctor`: what was found on this machine and in this project, and what is wrong with it."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workbench import __version__
from workbench.cli.streams import write_lines

if TYPE_CHECKING:
    from workbench.cli.agents import Health
    from workbench.engine.workspace import Workspace

_EXTRAS = {
    "a2a": "a2a-sdk",
    "adk": "google-adk",
    "bigquery": "google-cloud-bigquery",
    "fsspec": "fsspec",
    "langchain": "langchain",
    "litellm": "litellm",
    "otlp": "opentelemetry-proto",
    "pandas": "pandas",
    "vertex": "google-cloud-aiplatform",
}
_KEYS = (
    "GOOGLE_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_CLOUD_LOCATION",
    "GOOGLE_GENAI_USE_VERTEXAI",
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
)
_MOST_ROWS = 5
_WRONG = 2


@click.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path), default=Path())
@click.option(
    "--check",
    is_flag=True,
    help="Ask each judge model one small question, which may cost a little, and see whether remote agents and datasets "
    "are there and programs start. No agent is asked anything.",
)
def doctor(path: Path, *, check: bool) -> int:
    """Show what was found: interpreter, extras, keys (names only), agents, eval sets, judge models, problems.

    Exits with 2 where something is wrong with the project at PATH (default: the current folder).
    """
    from workbench.cli.addresses import reach_addresses
    from workbench.cli.agents import health_of
    from workbench.cli.judges import ask_judges, judge_lines, judges_of, missing_keys, players_of
    from workbench.engine.workspace import Workspace
    from workbench.model.text import counted, neutralise, redact

    with Workspace.open(path) as workspace:
        problems = list(_problems(workspace))
        judges = judges_of(workspace)
        problems += missing_keys(judges, players_of(workspace))
        answers, unanswered = ask_judges(judges, workspace) if check else ({}, [])
        agents = health_of(workspace.project.targets.values(), ask=check)
        problems += [*unanswered, *(problem for agent in agents.values() for problem in agent.problems)]
        addresses = reach_addresses(workspace.project.eval_sets) if check else {}
        problems += [problem for problem in addresses.values() if problem is not None]
        lines = [
            *_machine(),
            "",
            *_project(workspace, agents, addresses),
            *judge_lines(judges, workspace, answers=answers),
            "",
        ]
    lines += [f"{counted(len(problems), 'problem')}:" if problems else "no problems found"]
    lines += [f"  {problem}" for problem in problems]
    write_lines(redact(neutralise(line)) for line in lines)
    return _WRONG if problems else 0


def _machine() -> Iterator[str]:
    yield f"workbench    {__version__}"
    yield f"python       {platform.python_version()} ({sys.executable})"
    isolation = "each case in a forked process" if hasattr(os, "fork") else "each case in a process of its own"
    yield f"platform     {platform.system()} {platform.machine()}, {os.cpu_count()} CPUs; {isolation}"
    yield "extras"
    for extra, package in _EXTRAS.items():
        yield f"  {extra}: {_version_of(package) or missing_extra(extra)}"
    found = [name for name in _KEYS if os.environ.get(name)]
    yield f"keys         {', '.join(found) if found else 'none'} (set in the environment; values are never shown)"


def _version_of(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return None


def missing_extra(extra: str) -> str:
    """What to say where an extra would be needed."""
    return f'not installed: pip install "agent-eval-workbench[{extra}]"'


def _project(workspace: Workspace, agents: Mapping[str, Health], addresses: Mapping[str, str | None]) -> Iterator[str]:
    """`addresses`: why sets elsewhere cannot be read; without those that were not asked."""
    project = workspace.project
    settings = project.root / "workbench.toml"
    yield f"project      {project.root}"
    yield f"settings     {settings if settings.exists() else 'no workbench.toml: everything by default'}"
    yield f"agents       {len(project.targets) or 'none found'}"
    for target in project.targets.values():
        place = target.location or str(target.path)
        interpreter = f", python {target.python}" if target.python is not None else ""
        yield f"  {target.name}: {target.kind.value} {place}{interpreter}"
        if target.env_file is not None and target.env_file.is_file():
            names = ", ".join(_names_in(target.env_file)) or "nothing"
            yield f"    {target.env_file.name} sets {names}"
        yield from (f"    {line}" for line in agents[target.name].lines)
    yield f"eval sets    {len(project.eval_sets) or 'none found'}"
    for entry in project.eval_sets:
        yield f"  {entry.relative}: {entry.target or 'no agent'}"
        if entry.relative in addresses:
            yield "    reached" if addresses[entry.relative] is None else "    not reached"
        elif entry.address is not None:
            yield "    whether it can be reached is asked with --check"


def _names_in(env_file: Path) -> Iterator[str]:
    """The names that an environment file sets, never their values."""
    for line in env_file.read_text(encoding="utf-8", errors="replace").splitlines():
        name, equals, _ = line.strip().removeprefix("export ").partition("=")
        if equals and name.strip().isidentifier():
            yield name.strip()


def _problems(workspace: Workspace) -> Iterator[str]:
    """What keeps a part of the project from running or the settings from counting, one sentence each."""
    from workbench.store.discovery import recordings_in
    from workbench.store.documents import format_problems
    from workbench.store.errors import IsDataset, StoreError

    yield from workspace.problems
    recordings = {recordings_in(target) for target in workspace.project.targets.values()}
    for entry in workspace.project.eval_sets:
        if entry.target is None and entry.path not in recordings:
            yield f"{entry.relative}: {entry.unpaired_reason or 'no agent belongs to it'}"
        try:
            document = workspace.document(entry.relative)
        except IsDataset:
            yield from _problems_of_rows(workspace, entry.relative)
            continue
        except StoreError as error:
            yield str(error)
            continue
        yield from format_problems(document.errors)
    for config in dict.fromkeys(entry.config for entry in workspace.project.eval_sets if entry.config is not None):
        yield from _problems_of_config(config, workspace)
    yield from workspace.problems_of_tools()
    yield from _problems_of_the_screen(workspace)


def _problems_of_config(path: Path, workspace: Workspace) -> Iterator[str]:
    from workbench.engine.file_validation import config_problems
    from workbench.store.documents import format_problems
    from workbench.store.errors import StoreError

    try:
        found = config_problems(path, workspace.settings)
        yield from format_problems(problem for problem in found if problem.severity == "error")
    except StoreError as error:
        yield str(error)


def _problems_of_rows(workspace: Workspace, dataset: str) -> Iterator[str]:
    """What is wrong with a dataset; one elsewhere is not fetched for this."""
    from workbench.store.errors import NotRead, StoreError

    try:
        rows = workspace.recordings.of(dataset).cases
    except NotRead:
        return
    except StoreError as error:
        yield str(error)
        return
    wrong = [row.problem for row in rows if row.problem is not None]
    yield from wrong[:_MOST_ROWS]
    if len(wrong) > _MOST_ROWS:
        yield f"{dataset}: {len(wrong) - _MOST_ROWS:,} more rows (`workbench dataset lint` names them all)"


def _problems_of_the_screen(workspace: Workspace) -> Iterator[str]:
    from workbench.tui.keys import check_keys
    from workbench.tui.themes import load_themes, theme_folders, theme_problem

    found = load_themes(theme_folders())
    yield from check_keys(workspace.settings.keys)[1].values()
    yield from found.failed
    if (theme_fault := theme_problem(workspace.settings.tui.theme, found)) is not None:
        yield theme_fault
