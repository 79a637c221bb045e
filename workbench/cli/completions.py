"""What the shell completes: targets, eval sets, cases, runs and metrics; files where nothing of these matches."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from workbench.store.project_discovery import Project

_MOST = 200  # proposals: a shell asks before it lists more


def complete_what(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a target, an eval set, or after a colon the case of a set. Bash gives the colon as a word of its own."""
    given = context.params.get(parameter.name or "") or ()
    earlier = [given] if isinstance(given, str) else [str(each) for each in given]
    if incomplete == ":" or (earlier and earlier[-1] == ":"):
        before = earlier[-1] if incomplete == ":" else earlier[-2] if len(earlier) > 1 else ""
        return _select(_list_cases([before]), incomplete.removeprefix(":"))
    eval_set, colon, begun = incomplete.rpartition(":")
    if colon:
        return _select((f"{eval_set}:{case}" for case in _list_cases([eval_set])), f"{eval_set}:{begun}")
    project = _find_project()
    names = [] if project is None else [*project.targets, *(_shown(each.path) for each in project.eval_sets)]
    return _select(names, incomplete) or _complete_file(incomplete)


def complete_case(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Complete the id of a case: of the sets that the command names, else of all."""
    given = context.params.get("what") or context.params.get("sets") or context.params.get("case") or ()
    return _select(_list_cases([given] if isinstance(given, str) else [*given]), incomplete)


def complete_run(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Complete the id of a run, the newest first; else a file, such as a report."""
    from workbench.store.errors import StoreError
    from workbench.store.files import find_root
    from workbench.store.history.history import History

    root = find_root(Path.cwd())
    found: list[str] = []
    if (root / ".workbench" / "history.db").is_file():
        with suppress(StoreError), History.open(root) as history:
            found = ["latest", *(run.run_id for run in history.runs())]
    return _select(found, incomplete) or _complete_file(incomplete)


def complete_metric(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Complete the name of a metric, also after others and a comma."""
    from workbench.metrics.registry import known_metrics

    before, comma, _ = incomplete.rpartition(",")
    return _select((f"{before}{comma}{name}" for name in known_metrics()), incomplete)


def complete_target(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    project = _find_project()
    return _select(() if project is None else project.targets, incomplete)


def complete_file(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Complete a file of an argument that may also be something else, such as an address."""
    return _complete_file(incomplete)


def _complete_file(begun: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(begun, type="file")]


def _select(names: Iterable[str], begun: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    found = [name for name in dict.fromkeys(names) if name.startswith(begun) and name.isprintable()]
    return [CompletionItem(name) for name in found[:_MOST]]


def _find_project() -> Project | None:
    from workbench.store.errors import StoreError
    from workbench.store.files import find_root
    from workbench.store.project_discovery import discover
    from workbench.store.settings import load_settings

    with suppress(StoreError, OSError):
        root = find_root(Path.cwd())
        return discover(root, load_settings(root), root=root)
    return None


def _list_cases(names: list[Any]) -> Iterator[str]:
    """Yield the ids of the cases of these sets, targets and folders; without names of all sets."""
    from workbench.store.errors import StoreError
    from workbench.store.evalsets.evalset_document import EvalSetDocument

    project = _find_project()
    wanted = [str(name).partition(":")[0] for name in names]
    for entry in project.eval_sets if project is not None else ():
        shown = _shown(entry.path)
        if not wanted or any(
            name in (shown, entry.relative, entry.target) or shown.startswith(f"{name}/") for name in wanted
        ):
            with suppress(StoreError):
                yield from (case.eval_id for case in EvalSetDocument.open(entry.path).entries)


def _shown(path: Path) -> str:
    """Return a path as one types it here."""
    return os.path.relpath(path)
