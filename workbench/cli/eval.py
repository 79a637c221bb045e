"""`workbench eval`: the arguments of `adk eval`. `docs/differences.md` lists where its decisions differ."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workbench.cli.options import (
    FOLDER,
    Execution,
    adk_options,
    case_option,
    display_options,
    execution_options,
    feature_options,
    judging_options,
    recording_options,
)

if TYPE_CHECKING:
    from workbench.cli.arguments import Named


@click.command("eval")
@click.argument("agent", type=FOLDER, metavar="AGENT_DIR")
@click.argument("sets", nargs=-1, metavar="[EVAL_SET_FILE_OR_ID[:ID,ID]]...")
@click.option("--config_file_path", type=click.Path(path_type=Path), help="The criteria; without it, test_config.json.")
@click.option("--print_detailed_results", is_flag=True, help="Print every turn of every case.")
@case_option
@adk_options
@feature_options
@execution_options
@judging_options
@recording_options
@display_options
def evaluate(
    *,
    agent: Path,
    sets: tuple[str, ...],
    config_file_path: Path | None,
    print_detailed_results: bool,
    cases: tuple[str, ...],
    enable_features: tuple[str, ...],
    disable_features: tuple[str, ...],
    execution: Execution,
    judging: Execution,
    calls: Execution,
    report_format: str | None,
    output: Path | None,
    plain: bool,
    verbose: bool,
) -> int:
    """Evaluate an agent: the arguments and flags of `adk eval`.

    AGENT_DIR is the folder of the agent. If the first eval set exists as a file all are files, otherwise all are ids
    of sets in AGENT_DIR (`ID.evalset.json`). After a colon the ids of cases run only those.

    Exit status: 0 all passed; 1 some case failed; 2 the command, configuration or a file is wrong; 3 none failed but
    some ended in ERROR, or lack samples with --require-all-samples; 130 interrupted.
    """
    from workbench.cli.run import Opened, start_interpreters
    from workbench.cli.selecting import only_cases, select
    from workbench.engine.named import project_of
    from workbench.engine.plan import PlanError, RunOptions

    if not sets:
        raise PlanError(f"no eval set is named: give a file, or the id of a set in {agent}")
    _switch_features(enable=enable_features, disable=disable_features)
    named = named_sets(agent, sets)
    project, loaded = project_of(agent, [name.path for name in named])
    options = RunOptions.model_validate({"config": config_file_path, **execution, **judging, **calls})
    resources = start_interpreters(options, Opened(project, loaded, named))
    # What follows takes its time to be imported, in which the interpreter comes up.
    from workbench.cli.adk_output import criteria_line, detailed_lines, summary_lines
    from workbench.cli.running import Display, carry_out, command_line
    from workbench.cli.streams import write_lines
    from workbench.engine.workspace import Workspace
    from workbench.report.run_report import RunReport

    with Workspace(project, loaded, resources=resources) as workspace:
        selections = select(project, named)
        if cases:
            selections = only_cases(selections, cases, names_of=workspace.cases_by_name)
        options = options.model_copy(update={"command": command_line()})
        plan = workspace.plan(selections, options)
        display = Display(
            report_format=report_format, output=output, plain=plain, verbose=verbose, details=print_detailed_results
        )
        as_text = display.stdout_format == "text"
        if as_text:
            configs = {case.config.source: case.config for case in plan.cases}
            write_lines(map(criteria_line, configs.values()))
        report, status = carry_out(plan, workspace, display)
    if as_text:
        write_lines(summary_lines(report))
        if print_detailed_results and isinstance(report, RunReport):
            write_lines(detailed_lines(report.cases))
    return status


def named_sets(agent: Path, sets: Iterable[str]) -> list[Named]:
    """The sets by path, split from their cases. Raises PlanError for one that does not exist."""
    from workbench.cli.arguments import LONGEST_NAME, Named, is_file, path_exists, split_argument
    from workbench.engine.plan import PlanError
    from workbench.model.text import did_you_mean, shorten
    from workbench.store.names import EVAL_SET_SUFFIX, name_of_file

    def path_of(text: str) -> Path:
        return agent / f"{text}{EVAL_SET_SUFFIX}"

    def is_id(text: str) -> bool:
        return bool(text) and "/" not in text and "\\" not in text and is_file(str(path_of(text)))

    arguments = list(sets)
    by_path = split_argument(arguments[0], exists=path_exists) is not None
    found: list[Named] = []
    problems = []
    for text in arguments:
        named = split_argument(text, exists=is_file if by_path else is_id)
        if named is not None:
            cases = named.cases or None  # nothing after the colon means all, as in ADK
            found.append(Named(named.name if by_path else str(path_of(named.name)), cases))
        elif (other := split_argument(text, exists=is_id if by_path else is_file)) is not None:
            wanted = str(path_of(other.name)) if by_path else name_of_file(other.path)
            first = f"the first eval set, {arguments[0]}, is {'a file' if by_path else 'an id'}"
            problems.append(f"{text}: files and ids cannot be mixed, and {first}; did you mean {wanted!r}?")
        elif by_path and path_exists(text) and Path(text).is_dir():
            problems.append(
                f"{text}: it is a folder, expected an eval-set file (`workbench run {text}` runs all below)"
            )
        else:
            name = text.rpartition(":")[0] or text
            place = "" if by_path else shorten(f", nor an eval set {path_of(name)}", LONGEST_NAME)
            is_mixed = by_path and Path(name).name == name and not name.endswith(".json")  # an id among files
            nearest = str(path_of(name)) if is_mixed else name
            known = [str(file) for file in Path(nearest).parent.glob("*.json")]
            if not by_path:
                known += [name_of_file(file) for file in agent.glob(f"*{EVAL_SET_SUFFIX}")]
            shown = shorten(text, LONGEST_NAME)
            problems.append(f"{shown}: there is no such eval-set file{place}{did_you_mean(nearest, known)}")
    if problems:
        raise PlanError(*problems)
    return found


def _switch_features(*, enable: Iterable[str], disable: Iterable[str]) -> None:
    """Hand ADK's switches to the agents' processes, in the variables that ADK reads; report unknown ones."""
    given = [("ENABLE", name) for name in _names_in(enable)] + [("DISABLE", name) for name in _names_in(disable)]
    if not given:
        return
    from workbench.cli.adk_features import unknown_features
    from workbench.cli.streams import message

    for word, name in given:
        os.environ[f"ADK_{word}_{name}"] = "1"
    for sentence in unknown_features(dict.fromkeys(name for _, name in given)):
        message(sentence)


def _names_in(lists: Iterable[str]) -> list[str]:
    return [name.strip() for text in lists for name in text.split(",") if name.strip()]
