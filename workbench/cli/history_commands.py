"""The commands `history`, `report`, `merge`, `compare` and `flaky`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import date, timedelta
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workbench.cli.completions import complete_run, complete_what
from workbench.cli.console import ERRORS, WRONG, message, write_document, write_lines, write_record
from workbench.cli.shared_options import (
    FOLDER,
    FORMAT_CHOICES,
    DisplayOptions,
    NamedArgument,
    SummaryGroup,
    WholeNumber,
    build_command_line,
    case_option,
    display_options,
    format_option,
    output_option,
    verbose_option,
    what_argument,
)
from workbench.model.text import one_line, pluralise
from workbench.store.errors import IsDataset, StoreError, raise_all

if TYPE_CHECKING:
    from workbench.engine.workspace import Workspace
    from workbench.model.identity import CaseInSet, CaseKey
    from workbench.report.comparison import RunComparison
    from workbench.report.run_report import RunReport
    from workbench.store.evalsets.quarantine import Quarantines
    from workbench.store.history.history import History
    from workbench.store.history.history_queries import StoredRun
    from workbench.store.project_discovery import Project


# `workbench history` and `workbench report`

path_option = click.option(
    "--path", type=FOLDER, default=Path(), help="A folder of the project. Default: the current one."
)


@click.command()
@click.argument("run", required=False, shell_complete=complete_run)
@format_option
@click.option("--limit", type=WholeNumber(min=1), default=20, show_default=True, help="Maximum number of runs.")
@path_option
@click.option("--plain", is_flag=True, help="No colours.")
@verbose_option
def history(*, run: str | None, report_format: str, limit: int, path: Path, plain: bool, verbose: bool) -> int:
    """List earlier runs, or show one of them.

    RUN is the id of a run, the start of one, or `latest`.
    """
    from workbench.cli.printers import stdout_style, table_lines
    from workbench.report.text_report import row_name, width_of_names
    from workbench.store.files import find_root

    root = find_root(path)
    if run is None:
        runs = read_runs(root, limit=limit)
        if report_format == "json":
            write_record(_make_runs_record(runs))
        else:
            write_lines(_format_runs(runs))
        return 0
    shown = read_report(root, run)
    if report_format == "json":
        from workbench.report.report_formats import write_report

        write_document(write_report(shown, "json"))
    else:
        style = stdout_style(plain=plain, verbose=verbose)
        write_lines(
            table_lines(shown, style=style, name_width=width_of_names([row_name(case) for case in shown.cases]))
        )
    return 0


@click.command()
@click.argument("run", default="latest", shell_complete=complete_run)
@click.option(
    "--format",
    "report_format",
    type=click.Choice(FORMAT_CHOICES[1:]),
    help="Default: json, or the format that the name of --output ends with.",
)
@output_option
@path_option
def report(*, run: str, report_format: str | None, output: Path | None, path: Path) -> int:
    """Write an earlier run as JSON, JUnit XML, Markdown, CSV or HTML.

    RUN is the id of a run, the start of one, or `latest`, the default. Expected values come from the current eval sets.
    """
    from workbench.cli.printers import TEXT, choose_format, output_document
    from workbench.report.report_formats import write_report
    from workbench.store.files import find_root

    chosen = choose_format(report_format, output)
    chosen = "json" if chosen == TEXT else chosen
    document = write_report(read_report(find_root(path), run), chosen)
    return 0 if output_document(document, chosen, output) else WRONG


def _format_runs(runs: list[StoredRun]) -> list[str]:
    from workbench.report.run_report import counts_text, duration_text, time_text

    if not runs:
        return ["no runs yet"]
    width = max(len(run.run_id) for run in runs)
    lines = []
    for run in runs:
        duration = "unfinished" if run.duration_seconds is None else duration_text(run.duration_seconds)
        counts = counts_text(run.summary) + (", interrupted" if run.interrupted else "")
        line = (
            f"{run.run_id:<{width}}  {time_text(run.started_at)}  {pluralise(run.total, 'case')}: {counts}, {duration}"
        )
        lines.append(one_line(line))
        lines.append(f"  {one_line(run.command)}")
    return lines


def _make_runs_record(runs: list[StoredRun]) -> dict[str, Any]:
    from workbench.report.report_formats import SCHEMA_VERSION, history_record

    return {"schema_version": SCHEMA_VERSION, "runs": [history_record(run) for run in runs]}


# `workbench merge`


@click.command()
@click.argument("parts", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PART...")
@display_options
@path_option
def merge(*, parts: tuple[Path, ...], display: DisplayOptions, path: Path) -> int:
    """Merge the results of all shards into one run, and report it.

    PART is the .workbench folder of a machine that ran `workbench run --shard K/N`, a folder that contains it, or the
    history.db in it. Its newest shard counts. The merged run is stored in the history of this project.

    Exit status: as that of one run of all cases; 2 also if a shard is missing, or is not of the same run.
    """
    from workbench.cli.printers import TEXT, Display, require_writable, stdout_style, table_lines
    from workbench.engine.shards import merge_shards
    from workbench.report.report_formats import write_report
    from workbench.report.text_report import row_name, width_of_names
    from workbench.store.files import find_root

    showing = Display(**display)
    require_writable(showing.output)
    root = find_root(path)
    merged = merge_shards(root, parts, command=build_command_line())
    for problem in merged.problems:
        message(problem)
    message(f"merged {pluralise(len(parts), 'shard')} into run {merged.run_id}", prefix="")
    shown = read_report(root, merged.run_id)
    if showing.stdout_format != TEXT:
        write_document(write_report(shown, showing.stdout_format))
        return merged.exit_status
    width = width_of_names([row_name(case) for case in shown.cases])
    style = stdout_style(plain=showing.plain, verbose=showing.verbose)
    write_lines(table_lines(shown, style=style, name_width=width))
    return merged.exit_status if showing.save(shown, name_width=width) else WRONG


_SAME, _WORSE = 0, 1
_FAIL_ON = (_REGRESSION, _SIGNIFICANT) = ("regression", "significant")
_COMPARISON_FORMATS = ("text", "json", "markdown", "html")


# `workbench compare`


@click.command()
@click.argument("before", metavar="[RUN]", required=False, shell_complete=complete_run)
@click.argument("after", metavar="[RUN]", required=False, shell_complete=complete_run)
@click.option(
    "--format",
    "report_format",
    type=click.Choice(_COMPARISON_FORMATS),
    help="Default: text, or the format that the name of --output ends with. html: the report of the later run, with "
    "its changes; markdown: for a comment on a pull request.",
)
@output_option
@click.option("--all", "show_all", is_flag=True, help="Also list unchanged cases.")
@click.option(
    "--fail-on",
    type=click.Choice(_FAIL_ON),
    default=_REGRESSION,
    show_default=True,
    help="What gives exit status 1. regression: a case that passed fails now; significant: the pass rate, or the score "
    "of a criterion, got worse by more than chance explains; then 3 if a case that passed ended in ERROR.",
)
@path_option
@click.option("--plain", is_flag=True, help="No colours.")
def compare(
    *,
    before: str | None,
    after: str | None,
    report_format: str | None,
    output: Path | None,
    show_all: bool,
    fail_on: str,
    path: Path,
    plain: bool,
) -> int:
    """Compare two earlier runs: regressions, fixes, flaky cases, scores.

    The first RUN is the earlier one; the second is the newest by default. Without RUN, or with the newest run alone,
    the newest run is compared with the one before it. Runs that judged nothing (`workbench simulate`) are skipped.
    RUN is the id of a run, the start of one, or `latest`.

    The first line says whether the runs differ by more than chance, in the cases with a verdict in both: by the exact
    test of McNemar, or for repeats by flipped signs. Intervals and p-values of scores come from the bootstrap and from
    flipped signs; p-values of several metrics are corrected by Holm's method.

    Exit status: 1 if a case that passed fails now (or see --fail-on), 3 if all such cases ended in ERROR, else 0. A
    flaky case is not a regression.
    """
    from workbench.cli.printers import choose_format, output_document, stdout_style
    from workbench.report.comparison import comparison_lines, comparison_markdown, comparison_record
    from workbench.report.report_formats import dump, html_page
    from workbench.report.text_report import TableStyle
    from workbench.store.files import find_root

    chosen = choose_format(report_format, output)
    if chosen not in _COMPARISON_FORMATS:
        raise click.UsageError(
            f"--output {output}: a comparison is no {chosen}; expected .html, .json, .md or a text file"
        )
    root = find_root(path)
    comparison = compare_runs(root, before, after)
    if chosen == "json":
        document = dump(comparison_record(comparison), indent=2) + "\n"
    elif chosen == "markdown":
        document = comparison_markdown(comparison)
    elif chosen == "html":
        document = html_page(read_report(root, comparison.after.run_id), comparison_record(comparison))
    else:
        style = stdout_style(plain=plain, verbose=False) if output is None else TableStyle()
        lines = comparison_lines(comparison, style=style, show_same=show_all)
        if output is None:
            write_lines(lines)
            return _compute_status(comparison, fail_on)
        document = "\n".join(lines) + "\n"
    return _compute_status(comparison, fail_on) if output_document(document, chosen, output) else WRONG


def compare_runs(root: Path, before: str | None, after: str | None) -> RunComparison:
    """Compare two runs by their ids, as `workbench compare` does. Raises StoreError."""
    from workbench.model.facts import pause_gc
    from workbench.report.comparison import compare_stored_runs

    with require_history(root) as history, pause_gc():
        return compare_stored_runs(history, before, after)


def _compute_status(comparison: RunComparison, fail_on: str) -> int:
    from workbench.model.results import CaseStatus
    from workbench.report.comparison import VerdictChange

    worse = [
        case.after.status
        for case in comparison.select(VerdictChange.REGRESSION)
        if case.after is not None and not (case.is_in_quarantine and case.after.status is CaseStatus.FAILED)
    ]
    has_only_errors = all(status is CaseStatus.ERROR for status in worse)
    if fail_on == _SIGNIFICANT and comparison.is_significantly_worse:
        return _WORSE
    if fail_on == _REGRESSION and not has_only_errors:
        return _WORSE
    return ERRORS if CaseStatus.ERROR in worse else _SAME


# `workbench flaky`


class _FlakyGroup(SummaryGroup):
    """Commands on flaky cases. Without the name of one, the arguments are those of `list`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Add the default command."""
        if not args or args[0] not in (*self.commands, "-h", "--help"):
            args = ["list", *args]
        return super().parse_args(ctx, args)


_DAYS = 14
_MOST_DAYS = 3650


@click.group(cls=_FlakyGroup)
def flaky() -> None:
    """List cases whose verdict changed while nothing that they use changed.

    `quarantine` lets them run and be reported without failing a run. Without a command, the arguments are those of
    `workbench flaky list`.
    """


@flaky.command("list")
@what_argument
@format_option
@path_option
def list_flaky(*, what: tuple[str, ...], report_format: str, path: Path) -> int:
    """List flaky cases, and cases in quarantine, also those that the set no longer has.

    The arguments are those of `workbench run`. Default: all cases. Nothing runs: repeats
    and earlier runs are the samples, if input, criteria, code, files and variables were the same. Replayed executions
    are no samples. For each case: how likely it passes, and the first step that sets executions that failed apart.
    Values that always differ, such as ids and times, do not count. If no step differs, the criteria that judged them
    differently.

    Exit status: 2 if a quarantine cannot be read or nothing has run yet, 1 if a case is flaky that is not in
    quarantine, else 0.
    """
    from workbench.model.identity import CaseKey
    from workbench.report.flaky_cases import (
        FlakySearch,
        find_flaky_cases,
        flaky_lines,
        flaky_record,
        list_quarantined,
        outage_line,
        quarantine_lines,
    )
    from workbench.store.evalsets.quarantine import find_quarantine
    from workbench.store.files import find_root

    root = find_root(path)
    is_named = _make_filter(root, what)
    quarantines = _read_quarantines(root)
    problems = [str(problem) for of_set in quarantines.values() for problem in of_set.problems]
    search, repeated = FlakySearch((), ()), 0
    with open_history(root) as history:
        has_runs = history is not None and history.has_runs
        if history is not None:
            search = find_flaky_cases(history, find_quarantine=lambda case: find_quarantine(quarantines, case))
            repeated = history.count_repeated_cases()
    if not has_runs:
        problems.append(str(_make_no_runs_error(root)))
        message(problems[-1])
    found = [each for each in search.cases if is_named(each.case)]
    gone = [each for each in found if not _is_in_project(root, each.case)]
    if gone:
        message(f"left out: {pluralise(len(gone), 'flaky case')} that the project no longer has")
        found = [each for each in found if each not in gone]
    left_out = [case for case in search.left_out if is_named(case) and _is_in_project(root, case)]
    if (line := outage_line(left_out)) is not None:
        message(line)
    quarantined = list_quarantined(
        quarantines,
        has_case=lambda name, case: _is_in_project(root, CaseKey(target="", eval_set=name, eval_id=case)),
    )
    if report_format == "json":
        record = flaky_record(found, left_out=left_out, quarantined=quarantined, problems=problems)
        write_record(record)
    else:
        lines = [] if not has_runs else [*flaky_lines(found, repeated=repeated), ""]
        listed = {(each.case.eval_set, each.case.name) for each in found}
        others = [each for each in quarantined if (each.eval_set, each.name) not in listed]
        if others:
            lines += ["in quarantine, and not listed as flaky:", *quarantine_lines(others), ""]
        write_lines(lines[:-1])
    counted = [each for each in found if each.quarantine is None or each.quarantine.is_expired]
    return WRONG if problems else _WORSE if counted else _SAME


def _read_day(context: click.Context, parameter: click.Parameter, value: str | None) -> date | None:
    if value is None:
        return None
    day = None
    if len(value) == len("2026-12-24"):  # without the other formats of ISO 8601
        with suppress(ValueError):
            day = date.fromisoformat(value)
    if day is None or day < date.today():
        found = f"found {value!r}, expected a day from today on, such as {date.today() + timedelta(_DAYS)}"
        raise click.BadParameter(found, ctx=context, param=parameter)
    return day


@flaky.command("quarantine")
@click.argument("what", nargs=-1, required=True, metavar="SET[:CASE,CASE]...", shell_complete=complete_what)
@case_option
@click.option("--until", callback=_read_day, metavar="DATE", help="The last day of the quarantine, such as 2026-12-24.")
@click.option("--days", type=WholeNumber(1, _MOST_DAYS), help=f"Number of days instead of --until. Default: {_DAYS}.")
@click.option("--reason", metavar="TEXT", default="", help="Why; reports show it.")
@path_option
def quarantine_cases(
    *, what: tuple[str, ...], cases: tuple[str, ...], until: date | None, days: int | None, reason: str, path: Path
) -> int:
    """Put cases into quarantine: they run and are reported, but their FAILED does not fail a run.

    An ERROR still counts. After its last day a case counts again. The quarantine is stored beside the eval set, in
    NAME.evalset.workbench.json; commit this file. The eval set itself does not change. A case that is already in
    quarantine gets the new day and reason. A quarantine has no effect once the user says something else in the case.
    """
    from workbench.model.evalset import Quarantine
    from workbench.store.evalsets.quarantine import set_quarantine
    from workbench.store.files import find_root, get_sidecar_path

    if until is not None and days is not None:
        raise click.UsageError("--until and --days exclude each other")
    last = until or date.today() + timedelta(_DAYS if days is None else days)
    root = find_root(path)
    for eval_set, names in _find_named_cases(root, what, cases).items():
        set_quarantine(root / eval_set, names, Quarantine(until=last, reason=reason))
        for name in names:
            message(one_line(f"{eval_set}:{name}: quarantined until {last}"), prefix="")
        message(one_line(f"written: {get_sidecar_path(Path(eval_set))}"), prefix="")
    return 0


@flaky.command("release")
@click.argument("what", nargs=-1, required=True, metavar="SET[:CASE,CASE]...", shell_complete=complete_what)
@case_option
@path_option
def release_quarantine(*, what: tuple[str, ...], cases: tuple[str, ...], path: Path) -> int:
    """End the quarantine of cases, or of all cases of a set."""
    from workbench.cli.case_selection import select
    from workbench.store.evalsets.quarantine import read_quarantines, release_cases
    from workbench.store.files import find_root

    root = find_root(path)
    project = _discover(root)
    missing = []
    for text, named in zip(what, _split_names(project, what, cases), strict=True):
        wanted = {text: ()} if named.cases is None else {f"{named.name}:{case}": (case,) for case in named.cases}
        for shown, chosen in wanted.items():
            released = []
            for selection in select(project, [named]):
                known = read_quarantines(root / selection.eval_set)
                raise_all(known.problems if not chosen else ())
                names = release_cases(root / selection.eval_set, chosen or [*known.cases, *known.changed])
                released += [f"{selection.eval_set}:{name}" for name in names]
            for name in released:
                message(one_line(f"{name}: no longer in quarantine"), prefix="")
            missing += [] if released else [shown]
    for name in missing:
        message(one_line(f"{name}: was not in quarantine"))
    return WRONG if missing else 0


def _discover(root: Path) -> Project:
    from workbench.store.project_discovery import discover
    from workbench.store.settings import load_settings

    return discover(root, load_settings(root), root=root)


def _split_names(project: Project, what: Sequence[str], cases: tuple[str, ...]) -> list[NamedArgument]:
    """Split the arguments; `cases` are those of `--case`, in each of the sets. Raises PlanError."""
    from workbench.cli.case_selection import split_names

    named = split_names(project, what)
    if cases and any(each.cases is not None for each in named):
        raise click.UsageError("--case and SET:CASE exclude each other.")
    return [NamedArgument(each.name, cases) for each in named] if cases else named


def _find_named_cases(root: Path, what: Sequence[str], cases: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the named cases by eval set. Raises PlanError if none are named, or if a name is unknown."""
    from workbench.cli.case_selection import only_cases, select
    from workbench.engine.plan import PlanError
    from workbench.engine.workspace import Workspace
    from workbench.model.identity import format_case_name
    from workbench.store.datasets.remote_data import is_address

    chosen: dict[str, list[str]] = {}
    with Workspace.open(root) as workspace:
        for text, named in zip(what, _split_names(workspace.project, what, cases), strict=True):
            if named.cases is None:
                raise PlanError(f"{text}: name the cases to quarantine: {text}:CASE")
            selections = select(workspace.project, [named])
            for selection in only_cases(selections, named.cases, names_of=partial(_name_cases, workspace)):
                if is_address(selection.eval_set):
                    raise PlanError(f"{selection.eval_set}: there is no quarantine for rows of a remote dataset")
                known = _name_cases(workspace, selection.eval_set)
                chosen.setdefault(selection.eval_set, []).extend(
                    format_case_name(*each) for name in selection.cases or () for each in sorted(known[name])
                )
    return chosen


def _name_cases(workspace: Workspace, eval_set: str) -> Mapping[str, Set[CaseInSet]]:
    """Map names to cases. Raises PlanError for a dataset whose rows only `score` knows."""
    from workbench.engine.plan import PlanError
    from workbench.store.files import get_sidecar_path

    try:
        return workspace.cases_by_name(eval_set)
    except IsDataset as error:
        path = get_sidecar_path(Path(eval_set))
        example = '{"quarantine": {"ROW": {"until": "2026-12-24"}}}'
        problem = (
            f"{eval_set}: is a dataset, but of no target of kind recorded; write quarantines of its rows into {path}:"
        )
        raise PlanError(f"{problem} {example}") from error


def _read_quarantines(root: Path) -> Mapping[str, Quarantines]:
    """Read the quarantines of all sets of a project, as of today; report what cannot be read, and files without set."""
    from workbench.store.evalsets.quarantine import find_orphans, find_sidecars, read_project_quarantines

    project = _discover(root)
    local = [entry.relative for entry in project.eval_sets if entry.address is None]
    found = read_project_quarantines(root, local)
    for of_set in found.values():
        for problem in of_set.problems:
            message(str(problem))
    for orphan in find_orphans(find_sidecars((root / name for name in local), root=root)):
        message(str(orphan))
    return found


def _make_filter(root: Path, what: Sequence[str]) -> Callable[[CaseKey], bool]:
    """Return whether a case is one of those that the arguments name. Raises PlanError for unknown names."""
    from workbench.cli.case_selection import only_cases, select, split_names

    if not what:
        return lambda _: True
    project = _discover(root)
    named = split_names(project, what)
    targets = {each.name for each in named if each.name in project.targets}
    others = select(project, [each for each in named if each.name not in targets]) if len(targets) < len(named) else []
    for selection in others:
        if selection.cases is not None:
            only_cases([selection], selection.cases, names_of=lambda eval_set: _list_case_names(root / eval_set))

    def is_named(case: CaseKey) -> bool:
        of_set = [each.cases for each in others if each.eval_set == case.eval_set]
        return case.target in targets or any(cases is None or case.name in cases for cases in of_set)

    return is_named


def _is_in_project(root: Path, case: CaseKey) -> bool:
    """Return False for a case whose eval set is gone, or no longer has it. Rows of datasets are not looked for."""
    from workbench.store.datasets.remote_data import is_address
    from workbench.store.files import EVAL_SET_SUFFIXES

    path = root / case.eval_set
    if is_address(case.eval_set) or not path.name.endswith(EVAL_SET_SUFFIXES):
        return is_address(case.eval_set) or path.exists()
    try:
        return case.name in _list_case_names(path)
    except StoreError:
        return path.exists()


@cache
def _list_case_names(path: Path) -> Collection[str]:
    """Return the names of the cases of an eval set. Raises StoreError."""
    from workbench.model.identity import format_case_name
    from workbench.store.evalsets.evalset_document import EvalSetDocument

    return {format_case_name(entry.eval_id, entry.occurrence) for entry in EvalSetDocument.open(path).entries}


# Earlier runs, read from the history.

_RUNS_PLOTTED = 20
_RUNS_SEARCHED = 200


@contextmanager
def open_history(root: Path) -> Iterator[History | None]:
    """Open the history of a project; yield None if nothing has run yet. Never create one."""
    from workbench.store.history.history import History
    from workbench.store.history.history_schema import get_history_path

    if not get_history_path(root).exists():
        yield None
        return
    history = History.open(root)
    if (notice := history.pop_notice()) is not None:
        message(notice)
    try:
        yield history
    finally:
        history.close()


@contextmanager
def require_history(root: Path) -> Iterator[History]:
    """Open the history of a project. Raises StoreError if nothing has run yet."""
    with open_history(root) as history:
        if history is None:
            raise _make_no_runs_error(root)
        yield history


def _make_no_runs_error(root: Path) -> StoreError:
    from workbench.store.history.history_schema import get_history_path

    return StoreError(get_history_path(root), "there are no runs yet")


def read_runs(root: Path, *, limit: int) -> list[StoredRun]:
    """Read the newest runs, newest first."""
    with open_history(root) as history:
        return [] if history is None else history.runs(limit)


def read_report(root: Path, run_id: str) -> RunReport:
    """Read a run for a report. Raises StoreError if there is no such run."""
    from workbench.engine.history_recorder import ExpectedCases
    from workbench.engine.plan import Limits
    from workbench.report.run_report import ReportedCase, build_report
    from workbench.store.evalsets.evalset_document import EvalSetDocument

    with require_history(root) as history:
        run = history.run(run_id)
        results = list(history.results(run.run_id))
        earlier = _list_earlier_runs(history, run)
    expected = ExpectedCases(lambda relative: EvalSetDocument.open(root / relative))
    cases = [ReportedCase(result, expected(result)) for result in results]
    cases.sort(key=lambda case: (case.result.case.eval_set, *expected.place(case.result.case), case.result.repeat))
    # Without options that are stored only to resume the run.
    options = {name: value for name, value in run.options.items() if name in Limits.model_fields}
    return replace(build_report(run, cases, summary=run.summary), options=options, earlier_runs=earlier)


def _list_earlier_runs(history: History, run: StoredRun) -> list[StoredRun]:
    """Return the last whole runs of the same cases up to this run, oldest first.

    Interrupted runs, runs of a watch, and runs that only played or only scored again are no points of a trend, nor are
    those of other cases.
    """
    whole = [
        other
        for other in history.runs(_RUNS_SEARCHED)
        if other.started_at <= run.started_at and _is_comparable(other, run)
    ]
    return whole[:_RUNS_PLOTTED][::-1]


def _is_comparable(other: StoredRun, run: StoredRun) -> bool:
    from workbench.engine.earlier_runs import COMMAND, JUDGEMENT, SELECTIONS

    if other.run_id == run.run_id:
        return True
    for each in (other, run):
        is_repeated = each.command == COMMAND or each.options.get(JUDGEMENT, 0)
        is_watch = each.command.partition(":")[0] == "watch"
        if not each.ended or each.interrupted or is_repeated or is_watch or not each.options.get("scores", True):
            return False
    selected, others = (
        {each["eval_set"]: each["cases"] for each in both.options.get(SELECTIONS, ())} for both in (run, other)
    )
    is_same_size = bool(selected) or other.total == run.total  # recorded data have no selection
    return other.targets == run.targets and selected == others and is_same_size
