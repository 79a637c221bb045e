"""The commands `eval-set` and `dataset`."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import click

from workbench.cli.completions import complete_target
from workbench.cli.console import (
    ERRORS,
    INTERRUPTED,
    WRONG,
    LateCancel,
    graceful_interrupt,
    is_interactive,
    message,
    write_document,
    write_lines,
    write_record,
)
from workbench.cli.shared_options import (
    FILE,
    FOLDER,
    Execution,
    SummaryGroup,
    WholeNumber,
    adk_options,
    columns_option,
    dataset_argument,
    recording_options,
)
from workbench.model.text import neutralise, pluralise, redact, suggest_name
from workbench.store.errors import StoreError, shown_path
from workbench.store.files import EVAL_SET_SUFFIX, is_pipe, make_relative_name, real_path, write_atomic, write_new

if TYPE_CHECKING:
    from workbench.engine.conversion import Form, Side
    from workbench.engine.scenario_generation import AskOptions
    from workbench.engine.workspace import Workspace
    from workbench.model.evalset import ConversationScenario, GenerationConfig, ScenarioRequest
    from workbench.simulation.scenario_writer import Generated
    from workbench.store.datasets.dataset_lint import LintFinding
    from workbench.store.datasets.dataset_rows import Dataset
    from workbench.store.evalsets.evalset_document import EvalSetDocument
    from workbench.store.evalsets.new_evalsets import AddedCase, AdkPersonas
    from workbench.store.project_discovery import EvalSetEntry, Project
    from workbench.store.settings import LoadedSettings, Settings


# `workbench eval-set generate-eval-cases`

# Those of workbench.model.evalset; repeated here so that `--help` does not import it.
_PERSONAS = ("EXPERT", "NOVICE", "EVALUATOR")


def _check_model(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    from workbench.model.criteria import explain_wrong_vendor

    expected = None if value is None else explain_wrong_vendor(value)
    if expected is not None:
        raise click.BadParameter(f"found {value!r}, expected {expected}.", ctx=context, param=parameter)
    return value


@click.command("generate-eval-cases")
@click.argument("agent", metavar="AGENT_DIR", type=FOLDER)
@click.argument("eval_set_id")
@click.option(
    "--user_simulation_config_file",
    "config_file",
    type=FILE,
    help="Request as JSON: count, model_name, generation_instruction, environment_context. The options below override "
    "it.",
)
@click.option(
    "--target",
    "target_name",
    metavar="NAME",
    shell_complete=complete_target,
    help="Name of the agent in workbench.toml. Default: the one in AGENT_DIR that owns the set.",
)
@click.option("--count", type=WholeNumber(min=1, max=200), help="Number of scenarios. Default: 5.")
@click.option(
    "--model", callback=_check_model, help="Model that writes the scenarios. Default: the one in [simulation]."
)
@click.option("--instruction", metavar="TEXT", help="Topic of the scenarios.")
@click.option("--context", metavar="TEXT", help="Data that the tools of the agent find; scenarios use no other data.")
@click.option(
    "--persona",
    "personas",
    type=click.Choice(_PERSONAS, case_sensitive=False),
    multiple=True,
    help="Persona of the users; repeatable. Default: the model chooses one, or none.",
)
@click.option(
    "--session_input_file",
    type=FILE,
    help="Initial session as JSON. Default: the app of the agent; state keys from its instructions, empty.",
)
@click.option("--yes", is_flag=True, help="Add all without asking; the default without a terminal.")
@click.option("--dry-run", is_flag=True, help="Add nothing; print a file of conversation scenarios.")
@click.option("--no-cache", is_flag=True, help="Ask the model again instead of reusing its earlier answer.")
@recording_options
@adk_options
def generate_eval_cases(
    *,
    agent: Path,
    eval_set_id: str,
    config_file: Path | None,
    target_name: str | None,
    count: int | None,
    model: str | None,
    instruction: str | None,
    context: str | None,
    personas: tuple[str, ...],
    session_input_file: Path | None,
    yes: bool,
    dry_run: bool,
    no_cache: bool,
    calls: Execution,
) -> int:
    """Let a model write conversation scenarios for an agent, and add them to AGENT_DIR/EVAL_SET_ID.evalset.json.

    The model gets the instructions and tools of the agent, and the scenarios of the set. The agent does not run. In a
    terminal you choose which scenarios to keep. The set is created if it is missing and a scenario is kept. Key alt+g
    does the same in the terminal application.

    Exit status: 0 done; 2 the command, configuration or a file is wrong; 3 agent or model gave no usable answer;
    130 interrupted. Unless the status is 0, nothing is written.
    """
    from workbench.engine.scenario_generation import AskOptions
    from workbench.engine.workspace import Workspace
    from workbench.model.evalset import GenerationConfig
    from workbench.simulation.scenario_writer import GenerationError
    from workbench.store.evalsets.config_files import load_generation
    from workbench.store.evalsets.new_evalsets import document_for_scenarios, read_session_input

    path = build_set_path(agent, eval_set_id)
    document = document_for_scenarios(path, eval_set_id)
    given = None if session_input_file is None else read_session_input(session_input_file)
    config = GenerationConfig() if config_file is None else load_generation(config_file)
    said = {"count": count, "model_name": model, "generation_instruction": instruction, "environment_context": context}
    config = config.model_copy(update={name: value for name, value in said.items() if value is not None})
    project, loaded = find_agent_project(agent, path, target_name)
    wanted = _make_request(config, personas, settings=loaded.settings)
    record, replay = (_get_path(calls[f"{way}_calls"]) or _get_path(calls[way]) for way in ("record", "replay"))
    options = AskOptions(use_cache=not no_cache, record=record, replay=replay)
    with Workspace(project, loaded) as workspace:
        try:
            generated = _generate(workspace, wanted, document, options)
        except GenerationError as error:
            message(str(error))
            return ERRORS if error.is_outage else WRONG
    if generated is None:
        return INTERRUPTED
    if dry_run:
        write_document(_format_scenarios(generated.scenarios))
        return 0
    kept = generated.scenarios if yes or not is_interactive() else _choose(generated.scenarios)
    if not kept:
        message("no scenario chosen; nothing was written")
        return 0
    default = {"app_name": real_path(agent).name, "user_id": "test_user_id", "state": dict(generated.state)}
    read_personas = partial(read_persona_texts, project)
    write_lines(
        _add(document, kept, session_input=given or default, eval_set_id=eval_set_id, read_personas=read_personas)
    )
    return 0


def read_persona_texts(project: Project) -> AdkPersonas:
    """Return the texts of ADK's personas from the interpreter of the agent; empty without google-adk."""
    from workbench.agents.agent_sessions import read_adk_personas

    return read_adk_personas(next((target.python for target in project.targets.values()), None))


def report_added(added: Sequence[AddedCase], eval_set_id: str) -> Iterator[str]:
    """Yield a message for each scenario, in ADK's words; report ids that differ from ADK's on stderr."""

    for case in added:
        done = "added to" if case.added else "already exists in"
        ending = "" if case.added else ", skipped adding"
        yield f"Eval case '{case.eval_id}' {done} eval set '{eval_set_id}'{ending}."
    if others := sum(case.added and not case.is_adk_id for case in added):
        message(
            f"ids that differ from those of ADK: {others} (the interpreter of the agent lacks a google-adk with the "
            "named personas); `adk eval_set add_eval_case` would add these scenarios again"
        )


def find_agent_project(agent: Path, eval_set: Path, name: str | None) -> tuple[Project, LoadedSettings]:
    """Return the project with only the requested agent. Raises PlanError for an unknown target, and StoreError."""
    from workbench.engine.plan import PlanError
    from workbench.engine.project_selection import make_project
    from workbench.store.project_discovery import can_claim, find_agent_folder, make_configured_target

    project, loaded = make_project(agent, [])
    configured = loaded.settings.targets
    if name is not None:
        if name not in configured:
            raise PlanError(f"no such target: {name!r}{suggest_name(name, configured)}")
        found = make_configured_target(name, configured[name], root=project.root)
        return project.model_copy(update={"targets": {name: found}}), loaded
    relative = make_relative_name(real_path(eval_set), project.root)
    for each, settings in configured.items():
        try:
            target = make_configured_target(each, settings, root=project.root)
        except StoreError:
            continue  # a target that is broken and not this one
        folder = find_agent_folder(target)
        is_here = folder is not None and real_path(folder) == real_path(agent)
        if is_here and can_claim(target, relative, root=project.root):
            return project.model_copy(update={"targets": {each: target}}), loaded
    return project, loaded


def _make_request(config: GenerationConfig, personas: Sequence[str], *, settings: Settings) -> ScenarioRequest:
    from workbench.model.evalset import DEFAULT_COUNT, ScenarioRequest

    return ScenarioRequest(
        count=config.count or DEFAULT_COUNT,
        model=config.model_name or settings.simulation.model,
        instruction=config.generation_instruction or "",
        context=config.environment_context or "",
        personas=tuple(dict.fromkeys(personas)),
    )


def _generate(
    workspace: Workspace, wanted: ScenarioRequest, document: EvalSetDocument, options: AskOptions
) -> Generated | None:
    """Generate scenarios; report the spending and what was left out. None after Ctrl-C. Raises GenerationError."""
    from workbench.engine.scenario_generation import known_scenarios
    from workbench.report.text_report import spending_line

    (target,) = workspace.project.targets
    message(f"{wanted.model} writes scenarios for {target}")
    cancel = LateCancel()
    with graceful_interrupt(cancel, announce=message, promise="nothing is written"):
        generation = workspace.generate(target, wanted, known=known_scenarios(document), options=options)
        cancel.connect(generation.cancel)
        try:
            generated = generation.done.result()
        finally:
            for spent in generation.list_spending():
                message(spending_line(spent))
    if generated is None:
        return None
    for note in generated.notes:
        message(note)
    return generated


def _add(
    document: EvalSetDocument,
    scenarios: Sequence[ConversationScenario],
    *,
    session_input: Mapping[str, Any],
    eval_set_id: str,
    read_personas: Callable[[], AdkPersonas],
) -> Iterator[str]:
    """Add scenarios and save; yield messages in ADK's words. Raises StoreError."""
    from workbench.store.evalsets.new_evalsets import insert_scenarios, to_scenario

    is_new = document.stamp is None
    data = [to_scenario(scenario) for scenario in scenarios]
    added = insert_scenarios(document, data, session_input=session_input, read_personas=read_personas)
    if document.is_dirty:
        document.save()
    if is_new:
        yield f"Eval set '{eval_set_id}' created for app '{real_path(document.path).parent.name}'."
    else:
        yield f"Eval set '{eval_set_id}' already exists."
    yield from report_added(added, eval_set_id)


def _get_path(option: object) -> Path | None:
    return option if isinstance(option, Path) else None


def _format_scenarios(scenarios: Sequence[ConversationScenario]) -> str:
    data = {"scenarios": [scenario.model_dump(mode="json", exclude_none=True) for scenario in scenarios]}
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _choose(scenarios: Sequence[ConversationScenario]) -> Sequence[ConversationScenario]:
    """Show the scenarios, and return those that the user chooses."""
    for number, scenario in enumerate(scenarios, start=1):
        persona = f" · {scenario.user_persona}" if scenario.user_persona else ""
        write_lines(
            [
                f"── {number}{persona}",
                f"user   {neutralise(scenario.starting_prompt)}",
                f"plan   {neutralise(scenario.conversation_plan)}",
                "",
            ]
        )

    def read(answer: str) -> list[int]:
        return _parse_numbers(answer, of=len(scenarios))

    chosen: list[int] = click.prompt(
        "Which ones to keep? all, none, or numbers such as 1,3-4",
        default="all",
        value_proc=read,
        err=True,
    )
    return [scenarios[number - 1] for number in chosen]


def _parse_numbers(answer: str, *, of: int) -> list[int]:
    """Parse numbers from 1 to `of`; return them sorted. Raises click.UsageError."""
    text = answer.strip().casefold()
    if text in ("all", "none"):
        return list(range(1, of + 1)) if text == "all" else []
    found: set[int] = set()
    for part in text.replace(",", " ").split():
        first, _, last = part.partition("-")
        if not first.isdecimal() or not (last or first).isdecimal():
            raise click.UsageError(f"found {part!r}, expected all, none, or numbers from 1 to {of}")
        numbers = range(int(first), int(last or first) + 1)
        if not numbers or numbers[0] < 1 or numbers[-1] > of:
            raise click.UsageError(f"found {part!r}, expected numbers from 1 to {of}")
        found.update(numbers)
    return sorted(found)


# `workbench eval-set`; also spelt `eval_set`, as in ADK.

_NEW_ID = re.compile(r"[a-zA-Z0-9_]+")


@click.group(cls=SummaryGroup)
def eval_set() -> None:
    """Create, extend, migrate and validate eval sets."""


@eval_set.command()
@click.argument("agent", metavar="AGENT_DIR", type=FOLDER)
@click.argument("eval_set_id")
@adk_options
def create(*, agent: Path, eval_set_id: str) -> int:
    """Create an empty eval set: AGENT_DIR/EVAL_SET_ID.evalset.json."""
    from workbench.store.evalsets.new_evalsets import create_eval_set

    if not _NEW_ID.fullmatch(eval_set_id):
        raise click.BadParameter(
            f"{eval_set_id!r}: a new id may contain only letters, digits and underscores.", param_hint="EVAL_SET_ID"
        )
    create_eval_set(build_set_path(agent, eval_set_id), eval_set_id)
    write_lines([f"Eval set '{eval_set_id}' created for app '{real_path(agent).name}'."])
    return 0


@eval_set.command("add-eval-case")
@click.argument("agent", metavar="AGENT_DIR", type=FOLDER)
@click.argument("eval_set_id")
@click.option("--scenarios_file", type=FILE, required=True, help="Conversation scenarios as JSON.")
@click.option("--session_input_file", type=FILE, required=True, help="Initial session as JSON.")
@adk_options
def add_eval_case(*, agent: Path, eval_set_id: str, scenarios_file: Path, session_input_file: Path) -> int:
    """Add each scenario of a file as an eval case; skip those that the set already has.

    The id of a case is a prefix of the hash of its scenario, as in ADK. ADK hashes the text of a named persona, which
    comes from google-adk in the interpreter of the agent; without google-adk the ids differ.
    """
    from workbench.store.evalsets.new_evalsets import add_scenarios

    path = build_set_path(agent, eval_set_id)

    def read_personas() -> AdkPersonas:
        project, _ = find_agent_project(agent, path, None)
        return read_persona_texts(project)

    added = add_scenarios(path, scenarios_file, session_input_file=session_input_file, read_personas=read_personas)
    write_lines(report_added(added, eval_set_id))
    return 0


eval_set.add_command(generate_eval_cases)


@eval_set.command()
@click.argument("old", type=FILE)
@click.argument("new", type=click.Path(path_type=Path))
@click.option("--initial-session", type=FILE, help="Session file of the old format.")
def migrate(*, old: Path, new: Path, initial_session: Path | None) -> int:
    """Convert an eval set of an old format to the current one. NEW must not exist."""
    from workbench.store.evalsets.new_evalsets import migrate as migrate_file

    migrate_file(old, new, initial_session=initial_session)
    write_lines([f"{old} migrated to {new}"])
    return 0


@eval_set.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--strict", is_flag=True, help="Comments and trailing commas, which ADK cannot read, are errors.")
@click.option("--fix", "mend", is_flag=True, help="Remove comments and trailing commas; change nothing else.")
def validate(*, paths: tuple[Path, ...], strict: bool, mend: bool) -> int:
    """Check eval sets and configurations, or all in a folder, for what cannot run here or in ADK.

    Exit status: 0 no error, warnings are possible; 2 an error.
    """
    from workbench.engine.set_files import describe_judging, validate_files
    from workbench.store.evalsets.adk_rules import first_of_each_kind
    from workbench.store.evalsets.validation import fix

    files = list({real_path(file): file for path in paths for file in _find_files(path)}.values())
    if mend:
        for file in files:
            if fix(file):
                message(f"{file}: comments and trailing commas removed")
    problems = validate_files(files, strict=strict)
    write_lines(neutralise(line) for line in first_of_each_kind(problems))
    errors = sum(problem.severity == "error" for problem in problems)
    found = (
        f"{pluralise(errors, 'error')}, {pluralise(len(problems) - errors, 'warning')}" if problems else "nothing wrong"
    )
    for line in describe_judging(files):
        message(line, prefix="")
    message(f"{pluralise(len(files), 'file')}: {found}")
    return WRONG if errors else 0


def build_set_path(agent: Path, eval_set_id: str) -> Path:
    """Return the path of the set with this id, as in ADK. Raises click.BadParameter for an id with a path in it."""
    if (
        not eval_set_id
        or "/" in eval_set_id
        or "\\" in eval_set_id
        or eval_set_id in (".", "..")
        or "\0" in eval_set_id
    ):
        raise click.BadParameter(
            f"{eval_set_id!r} is not an eval set id; expected a file name without a folder.", param_hint="EVAL_SET_ID"
        )
    return agent / f"{eval_set_id}{EVAL_SET_SUFFIX}"


def _find_files(path: Path) -> list[Path]:
    from workbench.engine.set_files import files_to_validate

    found = files_to_validate(path)
    if not found:
        names = "*.evalset.json, *.test.json or test_config.json"
        raise click.BadParameter(f"{path}: this folder has no file to check; expected {names}.")
    return found


# `workbench dataset`

_FOUND = 1
_UNREAD = 1
SCHEMA_VERSION = 1


@click.group(cls=SummaryGroup)
def dataset() -> None:
    """Check and convert datasets."""


@dataset.command()
@dataset_argument
@columns_option
@click.option("--agent", metavar="TARGET", help="Also report tools that this agent does not have.")
@click.option(
    "--format", "report_format", type=click.Choice(["text", "json"]), default="text", help="Format of the findings."
)
def lint(*, dataset: Path | str, columns: dict[str, str], agent: str | None, report_format: str) -> int:
    """Report rows of a dataset that are probably wrong, and why.

    Reported are unreadable rows, missing references, empty trajectories, values in Python syntax, duplicate rows and
    ids, tools that the agent does not have, and tools whose name occurs once and is almost that of another tool.

    Exit status: 0 nothing found; 1 something found; 2 the dataset cannot be read.
    """
    from workbench.store.datasets.dataset_files import read_dataset
    from workbench.store.datasets.dataset_lint import lint as look_through

    read = read_dataset(dataset, columns=columns)
    found = look_through(read, tools=None if agent is None else _read_tools(agent, dataset))
    if report_format == "json":
        write_record(_make_record(read, found))
    else:
        write_lines(redact(neutralise(_format_finding(read, finding))) for finding in found)
        rows = len({finding.row for finding in found if finding.row is not None})
        message(
            f"{pluralise(len(read.rows), 'row')}: "
            + (f"{pluralise(len(found), 'finding')} in {pluralise(rows, 'row')}" if found else "nothing found")
        )
    return _FOUND if found else 0


@dataset.command()
@dataset_argument
@click.argument("to", type=click.Path(dir_okay=False, path_type=Path))
@columns_option
@click.option(
    "--to",
    "form",
    type=click.Choice(["rows", "evalset", "openai", "langchain"]),
    help="Content of the new file. Default: from its name. Messages become a column of rows.",
)
@click.option(
    "--side",
    type=click.Choice(["reference", "response"]),
    help="Side of the rows to convert to an eval set or messages: expected or actual.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file; DATASET itself only if nothing is lost.")
def convert(
    *, dataset: Path | str, to: Path, columns: dict[str, str], form: Form | None, side: Side | None, force: bool
) -> int:
    """Write a dataset, or an eval set, in another format, chosen by the name of TO.

    Rows are .jsonl, .csv, .json or .parquet, eval sets *.evalset.json or *.test.json; with --to openai or langchain the
    rows are lists of messages. Values that the new format cannot contain are reported.

    Exit status: 0 done; 1 unreadable rows or cases were skipped, and the others written; 2 nothing was written.
    """
    from workbench.engine.conversion import convert as converted
    from workbench.engine.conversion import guess_form

    if to.exists() and not force:
        raise click.UsageError(f"{to} already exists; --force overwrites it.")
    result = converted(dataset, to, form=form or guess_form(to), side=side, columns=columns)
    if result.losses and isinstance(dataset, Path) and to.exists() and to.samefile(dataset):
        raise click.UsageError(f"{to} is the dataset itself; name another file. Data would be lost: {result.losses[0]}")
    if force:
        write_atomic(to, result.content)
    else:
        write_new(to, result.content)
    write_lines([neutralise(f"{to}: {pluralise(result.number, 'case')} written")])
    for line in result.losses:
        message(f"lost: {line}", prefix="")
    return _UNREAD if result.unread else 0


def _read_tools(agent: str, dataset: Path | str) -> frozenset[str]:
    from workbench.engine.project_selection import find_common_root
    from workbench.engine.workspace import Workspace

    files = [real_path(dataset)] if isinstance(dataset, Path) and not is_pipe(dataset) else []
    with Workspace.open(find_common_root(files)) as workspace:
        return workspace.list_tools(agent)


def _format_finding(read: Dataset, finding: LintFinding) -> str:
    place = shown_path(read.source)
    if finding.line is not None:
        place += f":{finding.line}:{finding.column or 1}"
    row = "" if finding.row is None else f"row {finding.row}: "
    return f"{place}: {row}{finding.rule}: {finding.message}"


def _make_record(read: Dataset, found: list[LintFinding]) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "dataset": shown_path(read.source),
        "rows": len(read.rows),
        "findings": [asdict(finding) for finding in found],
    }


# Remote datasets, checked by `workbench doctor --check`.

_PATIENCE = 10.0  # seconds; all datasets are checked in parallel


def check_remote_datasets(entries: Iterable[EvalSetEntry]) -> Mapping[str, str | None]:
    """Return by name why a remote dataset cannot be read; None if it can."""
    addresses = {entry.relative: entry.address for entry in entries if entry.address is not None}
    answers: SimpleQueue[tuple[str, str | None]] = SimpleQueue()
    for name, address in addresses.items():
        # Storage clients cannot be interrupted: a thread that hangs is abandoned.
        threading.Thread(target=_check_dataset, args=(name, address, answers), daemon=True).start()
    no_answer = f"cannot read it: no answer within {_PATIENCE:g} s"
    found: dict[str, str | None] = {name: f"{name}: {no_answer}" for name in addresses}
    until = time.monotonic() + _PATIENCE
    for _ in addresses:
        try:
            name, problem = answers.get(timeout=max(0.0, until - time.monotonic()))
        except Empty:
            break
        found[name] = problem
    return found


def _check_dataset(name: str, address: str, answers: SimpleQueue[tuple[str, str | None]]) -> None:
    from workbench.store.datasets.dataset_files import check_dataset_reachable
    from workbench.store.datasets.remote_data import describe_error

    problem = None
    try:
        check_dataset_reachable(address)
    except StoreError as error:
        problem = error.format_with_name(name)
    except Exception as error:  # storage clients raise many types
        problem = f"{name}: cannot read it: {describe_error(error)}"
    answers.put((name, problem))
