"""Shards: parts of a run that run on several machines, and the run that their results are merged into."""

from __future__ import annotations

import hashlib
import heapq
import os
import shutil
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from workbench.engine.earlier_runs import SELECTIONS, get_selections
from workbench.engine.history_recorder import new_run_id
from workbench.engine.plan import Plan, PlanError, Selection, Shard
from workbench.engine.run import Verdict, exit_status, summarise
from workbench.model.identity import CaseKey, DependencyKind
from workbench.model.results import FailureKind, ModelCalls, ModelSpending, is_quarantined
from workbench.model.run_events import RunSummary
from workbench.model.text import pluralise
from workbench.report.comparison import describe_criteria_changes
from workbench.report.run_report import duration_text
from workbench.store.errors import DamagedFile, StoreError, os_errors, shown_path
from workbench.store.history.history import History
from workbench.store.history.history_queries import RunRecord, StoredRun, StoredScores
from workbench.store.history.history_schema import SHARD_OPTION, get_history_path
from workbench.store.settings import FILE_NAME

# A shard of a plan.

_GIT_SECONDS = 10


def split_cases(cases: Collection[CaseKey], seconds: Mapping[CaseKey, float], count: int) -> dict[CaseKey, int]:
    """Return the shard of each case, from 1 to `count`: the same for the same arguments, in any order.

    `seconds` are durations of cases; cases without one count as the mean. The longest case goes first, each to the
    shard with the least time so far.
    """
    known = [seconds[case] for case in cases if case in seconds]
    mean = sum(sorted(known)) / len(known) if known else 0.0
    # Whole milliseconds, at least one: sums do not depend on their order, and cases that take no time are spread.
    weights = {case: max(round(1000 * seconds.get(case, mean)), 1) for case in cases}
    loads = [(0, number) for number in range(1, count + 1)]
    shards: dict[CaseKey, int] = {}
    for case in sorted(weights, key=lambda case: (-weights[case], *_order(case))):
        load, number = loads[0]
        shards[case] = number
        heapq.heapreplace(loads, (load + weights[case], number))
    return shards


def take_shard(plan: Plan, number: int, count: int, seconds: Mapping[CaseKey, float]) -> Plan:
    """Return the part of a plan that is shard `number` of `count`; it may be empty. Repeats of a case stay together."""
    shards = split_cases({case.key for case in plan.cases}, seconds, count)
    cases = tuple(case for case in plan.cases if shards[case.key] == number)
    left_out = {case.key.eval_set for case in plan.cases if shards[case.key] != number}
    names: dict[str, list[str]] = {}
    for case in cases:
        names.setdefault(case.key.eval_set, []).append(case.key.name)
    every = sorted(shards, key=_order)
    return replace(
        plan,
        cases=cases,
        whole_sets=plan.whole_sets - left_out,
        selections=tuple(Selection(eval_set=name, cases=tuple(chosen)) for name, chosen in names.items()),
        notices=(*plan.notices, _describe(plan, {case.key for case in cases}, f"{number}/{count}", seconds)),
        shard=Shard(
            number=number,
            count=count,
            cases=_hash([str(plan.limits.runs), *(repr(_order(case)) for case in every)]),
            split=_hash(str(shards[case]) for case in every),
            files=_hash_files(plan),
            commit=_find_commit(plan.root),
            problems=plan.problems,
        ),
    )


def get_shard(run: StoredRun) -> Shard | None:
    """Return which shard a stored run is; None if it is none."""
    stored = run.options.get(SHARD_OPTION)
    return None if stored is None else Shard.model_validate(stored)


def _order(case: CaseKey) -> tuple[str, str, int, str]:
    return case.eval_set, case.eval_id, case.occurrence, case.target


def _describe(plan: Plan, chosen: Collection[CaseKey], name: str, seconds: Mapping[CaseKey, float]) -> str:
    """Say how many cases the shard has, and how long they take if all durations are known."""
    every = {case.key for case in plan.cases}
    known = [case for case in every if case in seconds]
    text = f"shard {name}: {len(chosen)} of {pluralise(len(every), 'case')}"
    if not known:
        return f"{text}, split by their number: no durations are known"
    own, total = (plan.limits.runs * sum(seconds[case] for case in known if case in part) for part in (chosen, every))
    unknown = f" (unknown for {pluralise(len(every) - len(known), 'case')})" if len(known) < len(every) else ""
    return f"{text}, which took {duration_text(own)} of {duration_text(total)}{unknown}"


def _hash_files(plan: Plan) -> dict[str, str]:
    """Return the hashes of the eval sets and the settings; remote datasets are left out."""
    hashes = {}
    for name in (FILE_NAME, *sorted({case.key.eval_set for case in plan.cases})):
        path = plan.root / name
        if path.is_file():
            hashes[name] = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return hashes


def _find_commit(root: Path) -> str | None:
    """Return the commit that is checked out; None without git."""
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


def _hash(texts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass"))
        digest.update(b"\0")
    return digest.hexdigest()[:16]


# Merging: the results of all shards become one run.

_RUNS_SEARCHED = 500
_CODE = (DependencyKind.BLOCK, DependencyKind.BRANCH, DependencyKind.REST, DependencyKind.MODULE)
_FILE = "history.db"


@dataclass(frozen=True)
class StoredShard:
    """The newest shard in the history of one machine. `path` is as the user named it."""

    path: Path
    history: History
    run: StoredRun
    shard: Shard

    def __str__(self) -> str:
        return f"{shown_path(self.path)} (shard {self.shard})"


class MergedRun(NamedTuple):
    """A merged run, the problems of its plan, and the exit status of a command for it."""

    run_id: str
    problems: Sequence[str]
    exit_status: int


def merge_shards(root: Path, paths: Sequence[Path], *, command: str) -> MergedRun:
    """Store the results of all shards of a run as one run in the history of a project.

    A path is a history, or a folder with one; it is only read. Raises PlanError if these are not all shards of one run,
    each once, and StoreError for a file that cannot be used.
    """
    with TemporaryDirectory() as folder, ExitStack() as opened:
        parts = [_open_part(path, Path(folder, str(number)), opened) for number, path in enumerate(paths)]
        parts.sort(key=lambda part: part.shard.number)
        problem = _find_mismatch(parts)
        if problem is not None:
            raise PlanError(problem)
        with History.open(root) as history:
            return _store(parts, history, root=root, command=command)


_EXPECTED = "expected the .workbench folder that a shard has written"


def _open_part(path: Path, folder: Path, opened: ExitStack) -> StoredShard:
    """Open a copy, in `folder`, of the history at a path. Raises StoreError."""
    places = (path,) if path.is_file() else (path / _FILE, path / get_history_path(Path()))
    file = next((place for place in places if place.is_file()), None)
    if file is None:
        what = f"there is no {_FILE} in this folder" if path.is_dir() else "there is no such file or folder"
        raise StoreError(path, f"{what}, {_EXPECTED}")
    target = get_history_path(folder)
    with os_errors("read", file):
        target.parent.mkdir(parents=True)
        for suffix in ("", "-wal"):  # a process that was killed leaves its last results in the second file
            if (source := file.with_name(file.name + suffix)).is_file():
                shutil.copyfile(source, target.with_name(target.name + suffix))
    try:
        history = opened.enter_context(History.open(folder))
        runs = history.runs(_RUNS_SEARCHED)
    except StoreError as error:
        message = "it is damaged" if isinstance(error, DamagedFile) else error.message
        raise StoreError(file, message) from error
    if history.pop_notice() is not None:  # a new history was created instead
        raise StoreError(file, f"it is damaged, or no history of workbench, {_EXPECTED}")
    for run in runs:
        if (shard := get_shard(run)) is not None:
            return StoredShard(path, history, run, shard)
    raise StoreError(path, "there is no run of a shard in it, expected the results of `workbench run --shard K/N`")


def _find_mismatch(parts: Sequence[StoredShard]) -> str | None:
    """Return why the parts, sorted by number, are not one run; None if they are."""
    first = parts[0]
    for part in parts[1:]:
        if part.shard.count != first.shard.count:
            return f"{first} and {part} are parts of different runs"
    for one, other in pairwise(parts):
        if one.shard.number == other.shard.number:
            return f"shard {one.shard} is there twice: {shown_path(one.path)} and {shown_path(other.path)}"
    for part in parts[1:]:
        if (difference := _find_difference(first, part)) is not None:
            return difference
    found = {part.shard.number for part in parts}
    missing = [f"{number}/{first.shard.count}" for number in range(1, first.shard.count + 1) if number not in found]
    if missing:
        return f"{pluralise(len(missing), 'shard')} missing: {', '.join(missing)}; name the results of all shards"
    return _find_changed_code(parts)


def _find_difference(one: StoredShard, other: StoredShard) -> str | None:
    """Return why two shards are not of the same run; None if they are."""
    first, second = one.shard, other.shard
    again = "run all shards of the same revision"
    if None not in (first.commit, second.commit) and first.commit != second.commit:
        commits = f"{(first.commit or '')[:12]} and {(second.commit or '')[:12]}"
        return f"{one} and {other} are of different revisions: {commits}; {again}"
    for name in sorted(first.files.keys() | second.files.keys()):
        if first.files.get(name) != second.files.get(name):
            return f"{one} and {other} are of different revisions: {name} differs; {again}"
    if first.cases != second.cases:
        return f"{one} and {other} are parts of different runs: their cases or repeats differ"
    for name, config in one.run.criteria.items():
        if name in other.run.criteria and describe_criteria_changes(config, other.run.criteria[name]):
            return f"{one} and {other} are parts of different runs: the criteria of {name} differ"
    if first.split != second.split:
        return (
            f"{one} and {other} are split differently, by different durations of earlier runs; give all shards the "
            "same .workbench folder before they run, or none"
        )
    return None


def _find_changed_code(parts: Sequence[StoredShard]) -> str | None:
    """Return which source file was different for two shards; None if none is known to be."""
    seen: dict[tuple[str, str], tuple[StoredShard, frozenset[str]]] = {}
    for part in parts:
        fingerprints: dict[tuple[str, str], set[str]] = {}
        for kind, key, fingerprint in part.history.list_dependencies(part.run.run_id, _CODE):
            fingerprints.setdefault((kind, key.removeprefix(f"{part.run.root}{os.sep}")), set()).add(fingerprint)
        for place, found in fingerprints.items():
            other, known = seen.setdefault(place, (part, frozenset(found)))
            if not known & found:
                file = place[1].partition("::")[0]
                return (
                    f"{other} and {part} are of different revisions: {file} differs; run all shards of the same "
                    "revision"
                )
    return None


def _store(parts: Sequence[StoredShard], history: History, *, root: Path, command: str) -> MergedRun:
    run_id = new_run_id(datetime.now())
    history.begin_run(_make_record(parts, run_id=run_id, root=root, command=command))
    for part in parts:
        history.copy_run(part.history.path, part.run.run_id, run_id)
    scores = list(history.scores(run_id))
    summary = _add_summaries([part.run.summary for part in parts], scores)
    interrupted = any(part.run.interrupted or not part.run.ended for part in parts)
    seconds = max(part.run.duration_seconds or 0.0 for part in parts)
    history.end_run(run_id, summary, duration_seconds=seconds, interrupted=interrupted)
    with suppress(StoreError):  # a later run retries it
        history.delete_old_results(run_id)
    problems = list(dict.fromkeys(problem for part in parts for problem in part.shard.problems))
    failures = (each.job.failure for each in scores)
    status = exit_status(
        summary,
        interrupted=interrupted,
        wrong_input=bool(problems) or any(each is not None and each.kind is FailureKind.FILE for each in failures),
        requires_all_samples=any(part.run.options.get("require_all_samples") for part in parts),
        may_be_empty=True,
    )
    return MergedRun(run_id, problems, status)


def _make_record(parts: Sequence[StoredShard], *, run_id: str, root: Path, command: str) -> RunRecord:
    """Make the record of the merged run: options and versions are those of the first shard."""
    runs = [part.run for part in parts]
    selections = [selection.model_dump() for run in runs for selection in get_selections(run)]
    options = {name: value for name, value in runs[0].options.items() if name != SHARD_OPTION}
    return RunRecord(
        run_id=run_id,
        started_at=min(run.started_at for run in runs),
        root=root,
        command=command,
        targets=tuple(sorted({target for run in runs for target in run.targets})),
        criteria={name: config for run in runs for name, config in run.criteria.items()},
        options={**options, SELECTIONS: selections},
        versions=runs[0].versions,
        total=sum(run.total for run in runs),
    )


def _add_summaries(summaries: Sequence[RunSummary], scores: Iterable[StoredScores]) -> RunSummary:
    """Return the summary of all shards; `scores` are those of all their cases."""
    verdicts = (
        Verdict(
            each.job.status,
            None if each.job.failure is None else each.job.failure.kind,
            tuple((metric.name, metric.score) for metric in each.metrics),
            each.job.misses_samples,
            is_quarantined(each.job.status, each.job.quarantine),
            each.job.case,
        )
        for each in scores
    )
    models: dict[str, ModelSpending] = {}
    calls: ModelCalls | None = None
    for summary in summaries:
        for spending in summary.models:
            known = models.get(spending.model)
            models[spending.model] = spending if known is None else known.add(spending)
        if summary.model_calls is not None:
            calls = summary.model_calls if calls is None else calls.add(summary.model_calls)
    # Not the counts of stored jobs: cancelled ones are not stored.
    counts = {name: sum(getattr(summary, name) for summary in summaries) for name in _COUNTS}
    return summarise(verdicts).model_copy(update={**counts, "models": tuple(models.values()), "model_calls": calls})


_COUNTS = (
    "total", "passed", "failed", "quarantined", "error", "not_evaluated", "skipped", "cancelled", "partly_judged",
)  # fmt: skip
