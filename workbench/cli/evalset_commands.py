"""The command `eval-set`."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workbench.cli.console import message, write_document, write_lines
from workbench.cli.shared_options import FILE, FOLDER, Execution, SummaryGroup, adk_options, recording_options
from workbench.store.filetypes import EVAL_SET_SUFFIX

if TYPE_CHECKING:
    from workbench.engine.scenario_generation import AskOptions
    from workbench.engine.workspace import Workspace
    from workbench.model.evalset import ConversationScenario, GenerationConfig, ScenarioRequest
    from workbench.simulation.scenario_writer import Generated
    from workbench.store.evalsets.evalset_document import EvalSetDocument
    from workbench.store.evalsets.new_evalsets import AddedCase, AdkPersonas
    from workbench.store.project_discovery import Project
    from workbench.store.settings import LoadedSettings, Settings


# `workbench eval-set ...`: make, extend, migrate and check eval-set files. Also spelt as ADK spells it: `eval_set`.

# `workbench eval-set generate-eval-cases`: scenarios that a model writes, chosen from and added to an eval set.

_WRONG = 2
_ERROR = 3

# Those of workbench.model.evalset; named here because importing that for `--help` would be waste.
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
    help="What is wanted, as JSON: count, model_name, generation_instruction, environment_context. The options below "
    "count before it.",
)
@click.option(
    "--target",
    "target_name",
    metavar="NAME",
    help="The agent by its name in workbench.toml. Default: of those in AGENT_DIR the one that the set belongs to.",
)
@click.option("--count", type=click.IntRange(min=1, max=200), help="Number of scenarios. Default: 5.")
@click.option("--model", callback=_check_model, help="The model that writes them. Default: that of [simulation].")
@click.option("--instruction", metavar="TEXT", help="What they should be about.")
@click.option("--context", metavar="TEXT", help="Data that the agent's tools would find; scenarios mention no other.")
@click.option(
    "--persona",
    "personas",
    type=click.Choice(_PERSONAS, case_sensitive=False),
    multiple=True,
    help="A persona that may play the users; may be given several times. Default: the model chooses one, or none.",
)
@click.option(
    "--session_input_file",
    type=FILE,
    help="How the sessions start, as JSON. Default: the agent's app, with the state that its instructions name, empty.",
)
@click.option("--yes", is_flag=True, help="Add all of them without asking; the default without a terminal.")
@click.option("--dry-run", is_flag=True, help="Add nothing: print them as a file of conversation scenarios.")
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
    """Have a model write conversation scenarios for an agent, and add them to AGENT_DIR/EVAL_SET_ID.evalset.json.

    The model gets the agent's instructions and tools, which its process tells without running it, and the scenarios
    that the set has already. In a terminal you choose which to keep; the set is made where there is none, and not
    before there is something to keep. Key alt+g does the same in the terminal application.

    Exit status: 0 done; 2 the command, configuration or a file is wrong; 3 agent or model gave nothing that can be
    used; 130 interrupted. Nothing is written then.
    """
    from workbench.engine.scenario_generation import AskOptions
    from workbench.engine.workspace import Workspace
    from workbench.model.evalset import GenerationConfig
    from workbench.simulation.scenario_writer import GenerationError
    from workbench.store.evalsets.config_files import load_generation
    from workbench.store.evalsets.new_evalsets import document_for_scenarios, read_session_input

    path = file_of(agent, eval_set_id)
    document = document_for_scenarios(path, eval_set_id)
    given = None if session_input_file is None else read_session_input(session_input_file)
    config = GenerationConfig() if config_file is None else load_generation(config_file)
    said = {"count": count, "model_name": model, "generation_instruction": instruction, "environment_context": context}
    config = config.model_copy(update={name: value for name, value in said.items() if value is not None})
    project, loaded = project_of_agent(agent, path, target_name)
    wanted = _wanted(config, personas, settings=loaded.settings)
    record, replay = _path(calls["record_calls"]), _path(calls["replay_calls"])
    options = AskOptions(use_cache=not no_cache, record=record, replay=replay)
    with Workspace(project, loaded) as workspace:
        try:
            generated = _generate(workspace, wanted, document, options)
        except GenerationError as error:
            message(str(error))
            return _ERROR if error.is_outage else _WRONG
    if dry_run:
        write_document(_as_file(generated.scenarios))
        return 0
    kept = generated.scenarios if yes or not _is_terminal() else _chosen(generated.scenarios)
    if not kept:
        message("nothing is kept; nothing was written")
        return 0
    default = {"app_name": agent.resolve().name, "user_id": "test_user_id", "state": dict(generated.state)}
    read_personas = partial(personas_of, project)
    write_lines(
        _add(document, kept, session_input=given or default, eval_set_id=eval_set_id, read_personas=read_personas)
    )
    return 0


def personas_of(project: Project) -> AdkPersonas:
    """The texts of ADK's personas, as the interpreter of the project's agent has them; empty without google-adk."""
    from workbench.agents.agent_sessions import read_adk_personas

    return read_adk_personas(next((target.python for target in project.targets.values()), None))


def lines_of_added(added: Sequence[AddedCase], eval_set_id: str) -> Iterator[str]:
    """What was done with each scenario, in ADK's words; ids that are not ADK's are said on stderr."""
    from workbench.model.text import pluralise

    for case in added:
        done = "added to" if case.added else "already exists in"
        ending = "" if case.added else ", skipped adding"
        yield f"Eval case '{case.eval_id}' {done} eval set '{eval_set_id}'{ending}."
    if others := sum(case.added and not case.is_adk_id for case in added):
        message(
            f"{pluralise(others, 'id')} not as ADK computes them: the agent's interpreter has no google-adk with "
            "the personas that are named; `adk eval_set add_eval_case` would add these scenarios again"
        )


def project_of_agent(agent: Path, eval_set: Path, name: str | None) -> tuple[Project, LoadedSettings]:
    """A project of the agent that is meant. Raises PlanError for a target that nobody knows, and StoreError."""
    from workbench.engine.plan import PlanError
    from workbench.engine.project_selection import project_of
    from workbench.model.text import suggest_name
    from workbench.store.errors import StoreError
    from workbench.store.files import make_relative_name
    from workbench.store.project_discovery import can_claim, find_agent_folder, make_configured_target

    project, loaded = project_of(agent, [])
    configured = loaded.settings.targets
    if name is not None:
        if name not in configured:
            raise PlanError(f"no such target: {name!r}{suggest_name(name, configured)}")
        found = make_configured_target(name, configured[name], root=project.root)
        return project.model_copy(update={"targets": {name: found}}), loaded
    relative = make_relative_name(eval_set.resolve(), project.root)
    for each, settings in configured.items():
        try:
            target = make_configured_target(each, settings, root=project.root)
        except StoreError:
            continue  # a target that is broken and not this one
        folder = find_agent_folder(target)
        is_here = folder is not None and folder.resolve() == agent.resolve()
        if is_here and can_claim(target, relative, root=project.root):
            return project.model_copy(update={"targets": {each: target}}), loaded
    return project, loaded


def _wanted(config: GenerationConfig, personas: Sequence[str], *, settings: Settings) -> ScenarioRequest:
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
) -> Generated:
    """Have them written, and say what that took and what was left out. Raises GenerationError."""
    from workbench.engine.scenario_generation import known_scenarios
    from workbench.report.text_report import spending_line

    (target,) = workspace.project.targets
    message(f"{wanted.model} writes scenarios for {target}")
    generation = workspace.generate(target, wanted, known=known_scenarios(document), options=options)
    try:
        generated = generation.done.result()
    finally:
        for spent in generation.spending():
            message(spending_line(spent))
    assert generated is not None  # nobody but Ctrl-C ends it
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
    """Add and save them; gives what was done, in ADK's words. Raises StoreError."""
    from workbench.store.evalsets.new_evalsets import insert_scenarios, to_scenario

    is_new = document.stamp is None
    data = [to_scenario(scenario) for scenario in scenarios]
    added = insert_scenarios(document, data, session_input=session_input, read_personas=read_personas)
    if document.is_dirty:
        document.save()
    if is_new:
        yield f"Eval set '{eval_set_id}' created for app '{document.path.resolve().parent.name}'."
    else:
        yield f"Eval set '{eval_set_id}' already exists."
    yield from lines_of_added(added, eval_set_id)


def _path(option: object) -> Path | None:
    return option if isinstance(option, Path) else None


def _as_file(scenarios: Sequence[ConversationScenario]) -> str:
    data = {"scenarios": [scenario.model_dump(mode="json", exclude_none=True) for scenario in scenarios]}
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _chosen(scenarios: Sequence[ConversationScenario]) -> Sequence[ConversationScenario]:
    """Those that the user wants of them, once they were shown."""
    from workbench.model.text import neutralise

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
        return _numbers(answer, of=len(scenarios))

    chosen: list[int] = click.prompt(
        "Keep which? all, none, or numbers such as 1,3-4",
        default="all",
        value_proc=read,
        err=True,
    )
    return [scenarios[number - 1] for number in chosen]


def _numbers(answer: str, *, of: int) -> list[int]:
    """The numbers that were written, from 1 to `of`, in their order. Raises click.UsageError."""
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
    from workbench.store.evalsets.new_evalsets import create_eval_set

    if not _NEW_ID.fullmatch(eval_set_id):
        raise click.BadParameter(
            f"{eval_set_id!r}: a new id may hold letters, digits and underscores only.", param_hint="EVAL_SET_ID"
        )
    create_eval_set(file_of(agent, eval_set_id), eval_set_id)
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
    from workbench.store.evalsets.new_evalsets import add_scenarios

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
    from workbench.store.evalsets.new_evalsets import migrate as migrate_file

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
    from workbench.engine.set_files import validate_files
    from workbench.model.text import neutralise, pluralise
    from workbench.store.evalsets.adk_rules import first_of_each_kind
    from workbench.store.evalsets.validation import fix

    files = list({os.path.realpath(file): file for path in paths for file in _files_in(path)}.values())
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
    message(f"{pluralise(len(files), 'file')}: {found}")
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
    from workbench.engine.set_files import files_to_validate

    found = files_to_validate(path)
    if not found:
        names = "*.evalset.json, *.test.json or test_config.json"
        raise click.BadParameter(f"{path}: there is nothing to check below this folder ({names}).")
    return found
