"""The command `doctor`."""

from __future__ import annotations

import asyncio
import os
import platform
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workbench import __version__
from workbench.cli.console import WRONG, write_lines
from workbench.model.installation import install_command
from workbench.model.target import AgentKind
from workbench.model.text import join_some, neutralise, pluralise, redact

if TYPE_CHECKING:
    from workbench.agents.ray_hosts import RayCluster
    from workbench.engine.workspace import Workspace
    from workbench.model.criteria import EvalConfig
    from workbench.model.target import Target


# `workbench doctor`

_EXTRAS = {
    "a2a": "a2a-sdk",
    "adk": "google-adk",
    "bigquery": "google-cloud-bigquery",
    "fsspec": "fsspec",
    "langchain": "langchain",
    "litellm": "litellm",
    "mcp": "mcp",
    "otlp": "opentelemetry-proto",
    "pandas": "pandas",
    "ray": "ray",
    "serve": "textual-serve",
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
_IMPORTED = (AgentKind.FUNCTION, AgentKind.ADK, AgentKind.LANGCHAIN, AgentKind.AGENT_ENGINE)
"""Kinds whose module is imported."""


@click.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path), default=Path())
@click.option(
    "--check",
    is_flag=True,
    help="Also send one small prompt to each judge model, at a small cost, and check whether remote agents and "
    "datasets can be reached and programs start. No agent gets a prompt.",
)
def doctor(path: Path, *, check: bool) -> int:
    """Show interpreter, extras, keys (names only), agents, eval sets, judge models and problems.

    PATH is a project; default: the current folder. Exit status: 0 no problems; 2 problems found.
    """
    from workbench.cli.evalset_commands import check_remote_datasets
    from workbench.engine.workspace import Workspace

    with Workspace.open(path) as workspace:
        problems = list(_find_problems(workspace))
        judges = find_judges(workspace)
        problems += report_missing_keys(judges, find_user_models(workspace))
        answers, unanswered = asyncio.run(ask_judges(judges, workspace)) if check else ({}, [])
        agents = check_targets(workspace.project.targets.values(), ask=check)
        if workspace.settings.run.cluster is None:  # the nodes of a cluster import them otherwise
            agents, missing = _import_agents(workspace, agents)
            problems += missing
        problems += [*unanswered, *(problem for agent in agents.values() for problem in agent.problems)]
        addresses = check_remote_datasets(workspace.project.eval_sets) if check else {}
        problems += [problem for problem in addresses.values() if problem is not None]
        nodes = asyncio.run(_check_nodes(workspace)) if check and workspace.settings.run.cluster else Health()
        problems += nodes.problems
        lines = [
            *_describe_machine(),
            "",
            *_describe_project(workspace, agents, addresses),
            *nodes.lines,
            *format_judges(judges, workspace, answers=answers),
            "",
        ]
    lines += [f"{pluralise(len(problems), 'problem')}:" if problems else "no problems found"]
    lines += [f"  {problem}" for problem in problems]
    write_lines(redact(neutralise(line)) for line in lines)
    return WRONG if problems else 0


def _describe_machine() -> Iterator[str]:
    from workbench.agents.worker_host import choose_mode

    yield f"workbench    {__version__}"
    yield f"python       {platform.python_version()} ({sys.executable})"
    isolation = "each case in a forked process" if choose_mode() == "fork" else "each case in a process of its own"
    yield f"platform     {platform.system()} {platform.machine()}, {os.cpu_count()} CPUs; {isolation}"
    yield "extras"
    for extra, package in _EXTRAS.items():
        yield f"  {extra}: {_find_version(package) or missing_extra(extra)}"
    found = [name for name in _KEYS if os.environ.get(name)]
    yield f"keys         {', '.join(found) if found else 'none'} (set in the environment; values are never shown)"


def _find_version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return None


def missing_extra(extra: str) -> str:
    """Return the message for a missing extra."""
    return f"not installed: {install_command(extra)}"


def _describe_project(
    workspace: Workspace, agents: Mapping[str, Health], addresses: Mapping[str, str | None]
) -> Iterator[str]:
    """Yield lines about the project. `addresses` has the results of checked remote datasets."""
    from workbench.store.errors import shown_path

    project = workspace.project
    settings = project.root / "workbench.toml"
    yield f"project      {project.root}"
    yield f"settings     {settings if settings.exists() else 'no workbench.toml: all settings have their defaults'}"
    yield f"agents       {len(project.targets) or 'none found'}"
    for target in project.targets.values():
        place = target.location or str(target.path)
        interpreter = f", python {target.python}" if target.python is not None else ""
        yield f"  {target.name}: {target.kind.value} {place}{interpreter}"
        if target.env_file is not None and target.env_file.is_file():
            names = ", ".join(_read_variable_names(target.env_file)) or "nothing"
            yield f"    {target.env_file.name} sets {names}"
        yield from (f"    {line}" for line in agents[target.name].lines)
    yield f"eval sets    {len(project.eval_sets) or 'none found'}"
    for entry in project.eval_sets:
        criteria = "default criteria" if entry.config is None else f"criteria {shown_path(entry.config)}"
        yield f"  {entry.relative}: {entry.target or 'no agent'}, {criteria}"
        if entry.relative in addresses:
            yield "    reached" if addresses[entry.relative] is None else "    not reached"
        elif entry.address is not None:
            yield "    --check tests whether it can be reached"
    for file in project.unused_criteria:
        yield f"  {shown_path(file)} judges no eval set"


def _read_variable_names(env_file: Path) -> Iterator[str]:
    """Yield the names in an environment file, never their values."""
    for line in env_file.read_text(encoding="utf-8", errors="replace").splitlines():
        name, equals, _ = line.strip().removeprefix("export ").partition("=")
        if equals and name.strip().isidentifier():
            yield name.strip()


def _find_problems(workspace: Workspace) -> Iterator[str]:
    """Yield what prevents parts of the project from running or settings from being used."""
    from workbench.store.errors import IsDataset, StoreError
    from workbench.store.evalsets.adk_rules import format_problems
    from workbench.store.evalsets.quarantine import (
        check_quarantines,
        find_orphans,
        find_quarantined_datasets,
        find_sidecars,
        read_quarantines,
    )
    from workbench.store.project_discovery import find_recordings

    yield from _find_write_problems(workspace.root)
    yield from workspace.problems
    recordings = {find_recordings(target) for target in workspace.project.targets.values()}
    for entry in workspace.project.eval_sets:
        if entry.target is None and entry.path not in recordings:
            yield f"{entry.relative}: {entry.unpaired_reason or 'no agent belongs to it'}"
        try:
            document = workspace.document(entry.relative)
        except IsDataset:
            yield from _find_row_problems(workspace, entry.relative)
            if entry.address is None:
                yield from map(str, read_quarantines(entry.path).problems)
            continue
        except StoreError as error:
            yield str(error)
            continue
        yield from format_problems((*document.errors, *check_quarantines(entry.path, document)))
    local = [entry for entry in workspace.project.eval_sets if entry.address is None]
    for dataset in find_quarantined_datasets(workspace.root, {entry.relative for entry in local}):
        yield from map(str, read_quarantines(workspace.root / dataset).problems)
    yield from format_problems(find_orphans(find_sidecars((entry.path for entry in local), root=workspace.root)))
    for config in dict.fromkeys(entry.config for entry in workspace.project.eval_sets if entry.config is not None):
        yield from _find_config_problems(config, workspace)
    yield from workspace.find_tool_problems()
    yield from _find_screen_problems(workspace)


def _import_agents(workspace: Workspace, agents: Mapping[str, Health]) -> tuple[Mapping[str, Health], list[str]]:
    """Import the module of each Python agent in a process of its own. Add to its health what each case imports again.

    Also return what they lack, and which dependencies of `pyproject.toml` their interpreter does not have.
    """
    from workbench.agents.worker.faults import explain_interpreter
    from workbench.engine.plan import PlanError

    targets = [
        target
        for target in workspace.project.targets.values()
        if target.kind in _IMPORTED and not target.is_remote and not agents[target.name].problems
    ]
    imports = {target.name: workspace.start_importing(target.name) for target in targets}
    found, problems = dict(agents), []
    for name, future in imports.items():
        try:
            found[name] = replace(agents[name], lines=(*agents[name].lines, *future.result()))
        except PlanError as error:
            problems.append(str(error))
    if any(target.python is None for target in targets):
        missing = list(_find_missing_dependencies(workspace.root / "pyproject.toml"))
        if missing:
            named = join_some(missing, 5)
            why = explain_interpreter(str(workspace.root))
            problems.append(f"pyproject.toml needs {named}, not installed here. {why}")
    return found, problems


def _find_missing_dependencies(file: Path) -> Iterator[str]:
    """Yield the dependencies of a project that this interpreter does not have. Those with a condition are skipped."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        project = tomllib.loads(file.read_text(encoding="utf-8")).get("project")
    except (OSError, ValueError):
        return
    dependencies = project.get("dependencies") if isinstance(project, dict) else None
    for each in dependencies if isinstance(dependencies, list) else ():
        name = re.match(r"[\w.-]+", str(each))
        if name is not None and ";" not in str(each):
            try:
                version(name[0])
            except PackageNotFoundError:
                yield name[0]


def _find_write_problems(root: Path) -> Iterator[str]:
    """Yield which folders cannot be written, and what follows."""
    import tempfile

    from workbench.store.errors import StoreError
    from workbench.store.files import check_writable
    from workbench.store.history.history_schema import find_write_problem

    if (problem := find_write_problem(root)) is not None:
        yield f"{problem}; verdicts are shown but not stored, and answers of judges are not reused"
    try:
        check_writable(Path(tempfile.gettempdir()))
    except (FileNotFoundError, StoreError) as error:
        yield f"{getattr(error, 'strerror', None) or error}; agents and metrics may not start"


def _find_config_problems(path: Path, workspace: Workspace) -> Iterator[str]:
    from workbench.engine.set_files import config_problems, find_judging
    from workbench.store.errors import StoreError
    from workbench.store.evalsets.adk_rules import format_problems
    from workbench.store.files import real_path

    try:
        judges = real_path(path) in find_judging(workspace.project.eval_sets)
        found = config_problems(path, workspace.settings, judges_eval_set=judges)
        yield from format_problems(problem for problem in found if problem.severity == "error")
    except StoreError as error:
        yield str(error)


def _find_row_problems(workspace: Workspace, dataset: str) -> Iterator[str]:
    """Yield problems of a dataset; remote ones are not fetched."""
    from workbench.store.errors import NotLoaded, StoreError

    try:
        rows = workspace.recordings.read(dataset).cases
    except NotLoaded:
        return
    except StoreError as error:
        yield str(error)
        return
    wrong = [row.problem for row in rows if row.problem is not None]
    yield from wrong[:_MOST_ROWS]
    if len(wrong) > _MOST_ROWS:
        yield f"{dataset}: {len(wrong) - _MOST_ROWS:,} more rows (`workbench dataset lint` lists all)"


def _find_screen_problems(workspace: Workspace) -> Iterator[str]:
    from workbench.tui.keys import check_keys
    from workbench.tui.themes import load_themes, theme_folders, theme_problem

    found = load_themes(theme_folders())
    yield from check_keys(workspace.settings.keys)[1].values()
    yield from found.failed
    if (theme_fault := theme_problem(workspace.settings.tui.theme, found)) is not None:
        yield theme_fault


# Checks of agents: what each one lacks, and whether it can be reached.

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_AGENT_SECONDS = 10.0  # seconds for an answer of a server
_NODE_SECONDS = 90.0  # seconds until a node has got the project and imported an agent


@dataclass(frozen=True)
class Health:
    """The findings about one agent: lines to show below it, and problems, one sentence each."""

    lines: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def check_targets(targets: Iterable[Target], *, ask: bool) -> Mapping[str, Health]:
    """Return the health of each target by name. With `ask`, check that programs start and remote agents answer.

    No agent gets a prompt.
    """
    targets = tuple(targets)
    found = {target.name: tuple(_check_setup(target)) for target in targets}
    # Targets with problems are not tried.
    sound = [target for target in targets if not any(part.problems for part in found[target.name])]
    signs = asyncio.run(_check_reachability([target for target in sound if _can_be_checked(target)])) if ask else {}
    return {
        target.name: _combine_health(target, found[target.name], signs.get(target.name), asked=ask)
        for target in targets
    }


def _check_setup(target: Target) -> Iterator[Health]:
    """Yield what can be checked without starting anything."""
    for look in (_check_program, _check_recording, _check_module, _check_framework, _check_table, _check_variables):
        yield from look(target)


def _combine_health(target: Target, parts: Sequence[Health], sign: Health | None, *, asked: bool) -> Health:
    if sign is not None:
        parts = (*parts, sign)
    elif _can_be_checked(target) and not asked:
        verb = "starts" if target.kind is AgentKind.COMMAND else "can be reached"
        parts = (*parts, Health(lines=(f"--check tests whether it {verb}",)))
    lines = tuple(line for part in parts for line in part.lines)
    problems = tuple(f"{target.name}: {problem}" for part in parts for problem in part.problems)
    return Health(lines, problems)


def _can_be_checked(target: Target) -> bool:
    return target.kind in (AgentKind.A2A, AgentKind.HTTP, AgentKind.COMMAND)


def _check_program(target: Target) -> Iterator[Health]:
    """Check that the program of a command exists, on the path of the agent's process."""
    from workbench.engine.plan import read_environment

    if target.kind is not AgentKind.COMMAND:
        return
    name = shlex.split(target.location)[0]
    place = str(target.path / name) if "/" in name else name
    found = shutil.which(place, path=read_environment(target).get("PATH"))
    if found is None:
        yield Health(problems=(f"the program {name!r} does not exist or is not executable",))
    else:
        yield Health(lines=(f"runs {found}",))


def _check_recording(target: Target) -> Iterator[Health]:
    """Check the file with recordings for all eval sets, if there is one."""
    from workbench.store.datasets.dataset_files import read_recorded
    from workbench.store.errors import StoreError
    from workbench.store.project_discovery import find_recordings

    path = find_recordings(target)
    if path is None:
        return
    try:
        recorded = read_recorded(path, columns=dict(target.columns))
    except StoreError as error:
        yield Health(problems=(str(error),))
        return
    wrong = tuple(case.problem for case in recorded.cases if case.problem is not None)
    holds = f"holds {pluralise(len(recorded.cases), 'recorded case')}"
    yield Health(lines=(holds,), problems=(*recorded.problems, *wrong[:1]))


def _check_module(target: Target) -> Iterator[Health]:
    """Check that the module of a Python agent exists, without importing it."""
    from importlib.util import find_spec

    if target.kind not in (AgentKind.FUNCTION, AgentKind.LANGCHAIN, AgentKind.AGENT_ENGINE) or target.is_remote:
        return
    module = target.location.partition(":")[0]
    file = target.path.joinpath(*module.split("."))
    if file.is_dir() or file.with_suffix(".py").is_file():
        return
    name = module.partition(".")[0]
    is_here = (target.path / name).is_dir() or (target.path / f"{name}.py").is_file()
    if is_here or (target.python is None and find_spec(name) is None):
        yield Health(problems=(f"there is no module {module} in {target.path}",))


def _check_table(target: Target) -> Iterator[Health]:
    """Check templates and paths in the settings of its kind."""
    from workbench.agents.worker_host import find_table_error

    wrong = find_table_error(target)
    if wrong is not None:
        yield Health(problems=(wrong,))


def _check_framework(target: Target) -> Iterator[Health]:
    """Check the extra that the adapter needs."""
    from importlib.util import find_spec

    if target.kind is AgentKind.ADK:
        yield from _check_adk(target)
    needs = {AgentKind.LANGCHAIN: ("langchain", "langchain_core"), AgentKind.A2A: ("a2a", "a2a")}
    if target.kind is AgentKind.AGENT_ENGINE and target.is_remote:
        needs = {AgentKind.AGENT_ENGINE: ("vertex", "google.auth")}
    if target.kind not in needs:
        return
    extra, module = needs[target.kind]
    if target.python is not None:
        yield Health(lines=(f"needs {module} in its own interpreter, which is not checked",))
    elif find_spec(module) is None:
        yield Health(problems=(f"the extra {extra} is {missing_extra(extra)}",))


def _check_adk(target: Target) -> Iterator[Health]:
    """Check that the interpreter of the target has a supported google-adk, without running it."""
    from importlib.metadata import distributions

    from workbench.agents.worker.adapters.adk.adk_agents import find_version_error

    folders = sys.path
    if target.python is not None:
        environment = target.python.parent.parent  # of a virtual environment, with its interpreter in bin or Scripts
        folders = [*map(str, environment.glob("lib/python3*/site-packages")), str(environment / "Lib/site-packages")]
        if not (environment / "pyvenv.cfg").is_file() or "true" in _read_system_packages(environment):
            yield Health(lines=("needs google-adk in its own interpreter, which is not checked",))
            return
    found = next((each.version for each in distributions(name="google-adk", path=folders)), None)
    if found is not None:
        problem = find_version_error(found)
        yield Health(problems=() if problem is None else (f"{problem} (in {target.python or sys.executable})",))
    elif target.python is None:
        yield Health(problems=(f"the extra adk is {missing_extra('adk')}",))
    else:
        yield Health(problems=(f"google-adk is not installed for its interpreter {target.python}",))


def _read_system_packages(environment: Path) -> str:
    """Return `true` if a virtual environment sees the packages of its base interpreter, else `false`."""
    lines = (environment / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace").splitlines()
    values = (line.partition("=")[2] for line in lines if line.startswith("include-system-site-packages"))
    return next(values, "false").strip().lower()


def _check_variables(target: Target) -> Iterator[Health]:
    """Check that the environment variables in the settings are set; never show their values."""
    from workbench.engine.plan import read_environment

    texts = [target.location, *target.options.get("headers", {}).values()]
    names = dict.fromkeys(name for text in texts for name in _VARIABLE.findall(text))
    if not names:
        return
    environment = read_environment(target)
    missing = [name for name in names if not environment.get(name)]
    yield Health(
        lines=(f"reads {', '.join(names)} from the environment",),
        problems=tuple(f"the environment variable {name} is not set" for name in missing),
    )


async def _check_reachability(targets: Iterable[Target]) -> Mapping[str, Health]:
    targets = tuple(targets)
    asks = {AgentKind.HTTP: _check_url, AgentKind.A2A: _check_session, AgentKind.COMMAND: _check_session}
    signs = await asyncio.gather(*(asks[target.kind](target) for target in targets))
    return {target.name: sign for target, sign in zip(targets, signs, strict=True)}


async def _check_nodes(workspace: Workspace) -> Health:
    """Check each node of the Ray cluster: its versions, and whether it can import the agents."""
    from workbench.agents.agent_host import AgentError
    from workbench.agents.ray_hosts import RayCluster, find_node_problem

    cluster = RayCluster(workspace.root, workspace.settings.run.ray)
    lines, problems = [f"ray          {cluster.settings.address}"], []
    checks = []
    try:
        for node, description in (await cluster.describe_nodes()).items():
            name = f"node {description['node']}"
            rest = f"; no agents run here: it lacks {description['lacks']}" if description["lacks"] else ""
            versions = f"Python {description['python']}, Ray {description['ray']}"
            lines.append(f"  {name}: {versions}, workbench {description['workbench'] or 'missing'}{rest}")
            if (problem := find_node_problem(description)) is not None:
                problems.append(problem)
            elif not rest:
                targets = [target for target in workspace.project.targets.values() if target.runs_in_worker]
                checks += [(name, target, cluster.pin(node)) for target in targets]
        healths = await asyncio.gather(
            *(_check_session(target, cluster=pinned, seconds=_NODE_SECONDS) for _, target, pinned in checks)
        )
        for (name, target, _), health in zip(checks, healths, strict=True):
            places = [problem if name in problem else f"{name}: {problem}" for problem in health.problems]
            problems += [f"{target.name}: {problem}" for problem in places]
    except AgentError as error:
        problems.append(error.failure.message)
    finally:
        await cluster.close()
    return Health(tuple(lines), tuple(problems))


async def _check_session(
    target: Target, *, cluster: RayCluster | None = None, seconds: float = _AGENT_SECONDS
) -> Health:
    """Check that a session opens and closes without a turn: a program starts, or an agent card exists."""
    from workbench.agents.agent_host import AgentError, SessionRequest
    from workbench.agents.worker_host import create_host
    from workbench.engine.case_run import DEFAULT_USER

    host = create_host(target, isolation="case", concurrency=1, cluster=cluster)
    request = SessionRequest(app_name=target.name, user_id=DEFAULT_USER, collect_spans=False)
    session = await host.open(request, on_span=lambda _: None)
    try:
        async with asyncio.timeout(seconds):
            part = (await session.describe()).agents[0]
            await session.finish()
    except AgentError as error:
        return Health(problems=(error.failure.message,))
    except TimeoutError:
        return Health(problems=(f"no session opened within {seconds:g} s",))
    finally:
        await session.kill()
        await host.close()
    if target.kind is AgentKind.COMMAND:
        return Health(lines=("starts",))
    return Health(lines=(f"reached: agent card of {part.name}",))


async def _check_url(target: Target) -> Health:
    """Check that a server answers at the URL, with any status."""
    import aiohttp

    from workbench.agents.worker.adapters.http.http_session import describe_connection_error
    from workbench.engine.plan import read_environment

    environment = read_environment(target)
    url = _VARIABLE.sub(lambda name: environment[name[1]], target.location)
    timeout = aiohttp.ClientTimeout(total=_AGENT_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=True) as client,
            client.head(url, allow_redirects=False) as response,
        ):
            return Health(lines=(f"reached: the server answers (status {response.status})",))
    except TimeoutError:
        reason = f"no answer within {_AGENT_SECONDS:g} s"
    except (aiohttp.ClientError, OSError, ValueError) as error:
        reason = (
            describe_connection_error(error) if isinstance(error, (aiohttp.ClientError, OSError)) else "not a valid URL"
        )
        for name in _VARIABLE.findall(target.location):
            reason = reason.replace(environment[name], f"${{{name}}}")
    return Health(lines=("not reached",), problems=(f"{target.location} cannot be reached: {reason}",))


# Checks of judge and user models.

_JUDGE_SECONDS = 60.0  # seconds for an answer to the smallest question


@dataclass
class UsedModel:
    """A judge or user model with the environment of one target; `sets` are the eval sets that use it."""

    model: str
    target: Target
    sets: list[str] = field(default_factory=list)


def find_judges(workspace: Workspace) -> list[UsedModel]:
    """Return the judge models of the project."""
    from workbench.metrics.registry import prepare

    return _find_models(workspace, lambda _, config: prepare(config).judge_models)


def find_user_models(workspace: Workspace) -> list[UsedModel]:
    """Return the models that play users of scenarios."""
    from workbench.engine.plan import get_user_options

    def find(eval_set: str, config: EvalConfig) -> Iterable[str]:
        document = workspace.document(eval_set)
        readable = (document.case(each.index) for each in document.entries if each.problem is None)
        has_scenario = any(case.conversation_scenario is not None for case in readable)
        return [get_user_options(config).model] if has_scenario else []

    return _find_models(workspace, find)


def _find_models(workspace: Workspace, find: Callable[[str, EvalConfig], Iterable[str]]) -> list[UsedModel]:
    """Return the models that `find` finds for the sets. Unreadable sets and criteria are skipped; others report them.

    `find` may raise StoreError.
    """
    from workbench.engine.plan import complete_config
    from workbench.model.criteria import default_config
    from workbench.store.errors import StoreError
    from workbench.store.evalsets.config_files import load_config

    used: dict[tuple[str, str], UsedModel] = {}
    for entry in workspace.project.eval_sets:
        if entry.target is None:
            continue
        try:
            config = default_config() if entry.config is None else load_config(entry.config)
            models = find(entry.relative, complete_config(config, workspace.settings))
        except StoreError:
            continue
        target = workspace.project.targets[entry.target]
        for model in models:
            used.setdefault((model, target.name), UsedModel(model, target)).sets.append(entry.relative)
    return list(used.values())


def report_missing_keys(judges: list[UsedModel], players: list[UsedModel]) -> Iterator[str]:
    """Yield a problem for each model without a key, with the missing variable."""
    from workbench.engine.plan import is_scripted, read_environment

    for does, models in (("judges", judges), ("plays the users of", players)):
        for asked in models:
            missing = find_access(asked.model, read_environment(asked.target)).missing
            if missing is not None and not is_scripted(asked.target, asked.model):
                sets = f"{pluralise(len(asked.sets), 'eval set')} of {asked.target.name}"
                yield f"{asked.model}, which {does} {sets}: {missing}"


def format_judges(judges: list[UsedModel], workspace: Workspace, *, answers: Mapping[str, str]) -> Iterator[str]:
    """Yield lines about each judge: provider, keys, price, and its answer, by target and model."""
    from workbench.engine.plan import read_environment
    from workbench.engine.plan_cost import build_prices
    from workbench.llm.prompt_templates import Tokens
    from workbench.report.run_report import cost_text

    if not judges:
        yield "judges       none: no criterion uses a judge model"
        return
    yield "judges"
    prices = build_prices(workspace.settings.judge)
    for judge in judges:
        access = find_access(judge.model, read_environment(judge.target))
        keys = f"with {', '.join(access.keys)}" if access.keys else "without a key"
        way = keys if access.address is None else f"{keys}, at {access.address}"
        yield f"  {judge.model} for {judge.target.name}: {pluralise(len(judge.sets), 'eval set')}; {access.through}"
        yield f"    {way if access.missing is None else access.missing}"
        if judge.target.scripted_models is not None:
            yield f"    without a key, scripted replies come from {judge.target.scripted_models.name}"
        unknown = prices.explain_unknown(judge.model)
        if unknown is None:
            sides = (prices.cost(judge.model, Tokens(*side)) for side in ((1_000_000, 0), (0, 1_000_000)))
            asked, answered = (cost_text(float(side)) for side in sides)
            unknown = f"{asked} per million input tokens, {answered} per million output tokens"
        yield f"    {unknown}"
        if (answer := answers.get(_name(judge))) is not None:
            yield f"    {answer}"


async def ask_judges(judges: list[UsedModel], workspace: Workspace) -> tuple[Mapping[str, str], list[str]]:
    """Ask each judge a small question; return the outcomes by target and model, and problems."""
    from workbench.engine.plan import is_scripted, read_environment
    from workbench.llm.model_types import Message, ModelError, ModelRequest
    from workbench.llm.models import ModelOptions, Models

    answers: dict[str, str] = {}
    problems: list[str] = []
    timeout = min(workspace.settings.judge.timeout_seconds, _JUDGE_SECONDS)
    for judge in judges:
        if is_scripted(judge.target, judge.model):  # as in runs
            answers[_name(judge)] = "not checked: no API key; scripted replies are used"
            continue
        if find_access(judge.model, read_environment(judge.target)).missing is not None:  # already reported
            continue
        models = Models(read_environment(judge.target), ModelOptions(tries=1, timeout_seconds=timeout))
        question = Message(role="user", text="Answer with one word: yes.")
        try:
            reply = await models.ask(ModelRequest(model=judge.model, messages=(question,)))
        except ModelError as error:
            answers[_name(judge)] = f"asked: {error.trouble.value}"
            problems.append(f"judge of {judge.target.name}: {error.message}")
        else:
            version = "" if reply.version in (None, judge.model) else f", by {reply.version}"
            answers[_name(judge)] = f"answered in {reply.seconds:.2f} s{version}"
        finally:
            await models.close()
    return answers, problems


def _name(judge: UsedModel) -> str:
    return f"{judge.target.name} {judge.model}"


# How a model is reached: its provider, the keys that are set, and missing settings. Nothing is connected.

_KEYS_OF_GEMINI = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
_KEYS_OF_VERTEX = (*_KEYS_OF_GEMINI, "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_APPLICATION_CREDENTIALS")


@dataclass(frozen=True, kw_only=True)
class Access:
    """How a model is reached.

    `through` is the provider. `keys` are the names of the variables that are set, never their values. `address` is the
    server if it is not the provider's own, without user and password. `missing` says what prevents a request, as far
    as that is known without one.
    """

    through: str
    keys: tuple[str, ...]
    address: str | None
    missing: str | None


def find_access(model: str, environment: Mapping[str, str]) -> Access:
    """Find out how a model is reached with these environment variables."""
    from workbench.llm.gemini import explain_missing_project
    from workbench.llm.litellm_provider import explain_missing_key
    from workbench.llm.model_types import VERTEX_EVALUATION, is_google_model, uses_vertex

    if model.startswith(VERTEX_EVALUATION):
        names = tuple(name for name in _KEYS_OF_VERTEX if environment.get(name))
        address = _format_address(environment.get("GOOGLE_VERTEX_BASE_URL"))
        missing = explain_missing_project(environment)
        return Access(through="evaluation service of Vertex AI", keys=names, address=address, missing=missing)
    if not is_google_model(model):
        return _find_litellm_access(model, environment)
    on_vertex = uses_vertex(environment)
    names = _KEYS_OF_VERTEX if on_vertex else _KEYS_OF_GEMINI
    keys = tuple(name for name in names if environment.get(name))
    missing = None if keys or on_vertex else explain_missing_key(_KEYS_OF_GEMINI)
    return Access(
        through=f"google-genai, {'Vertex AI' if on_vertex else 'Gemini API'}",
        keys=keys,
        address=_format_address(environment.get("GOOGLE_VERTEX_BASE_URL" if on_vertex else "GOOGLE_GEMINI_BASE_URL")),
        missing=missing,
    )


def _find_litellm_access(model: str, environment: Mapping[str, str]) -> Access:
    from importlib.util import find_spec

    from workbench.llm.litellm_provider import address_names, explain_missing_key, find_missing_keys, key_names

    keys = tuple(name for name in key_names(model) if environment.get(name))
    address = next((environment[name] for name in address_names(model) if environment.get(name)), None)
    missing = None if find_spec("litellm") is not None else f"it needs LiteLLM: {install_command('litellm')}"
    if missing is None and (names := find_missing_keys(model, environment)):
        missing = explain_missing_key(names)
    return Access(
        through=f"LiteLLM, {model.partition('/')[0]}",
        keys=keys,
        address=_format_address(address),
        missing=missing,
    )


def _format_address(url: str | None) -> str | None:
    from urllib.parse import urlsplit

    if not url:
        return None
    try:
        parts = urlsplit(url)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return "an invalid URL"
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"
