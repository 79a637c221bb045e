"""Watches that are broken on purpose, each in one way. The proof must detect every one of them."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from workbench.agents import agent_sessions
from workbench.agents.agent_sessions import add_reported_dependencies
from workbench.agents.worker.recording import fingerprints
from workbench.agents.worker.recording.blocks import read_blocks
from workbench.engine.verdict_index import LeftFiles, _FileStates
from workbench.model.identity import Dependencies, Dependency, DependencyKind
from workbench.watch import snapshot
from workbench.watch.selector import Selector
from workbench.watch.snapshot import Question, Snapshot, Surroundings

Kind = DependencyKind
Break = Callable[[pytest.MonkeyPatch], None]


class Variant(NamedTuple):
    """One way to be broken. `recipes` and `likely` edits, and the packages from `first_seed`, reveal it soon."""

    name: str
    break_it: Break
    recipes: tuple[str, ...] = ()
    likely: tuple[str, ...] = ()
    first_seed: int = 0

    def __str__(self) -> str:
        return self.name


def _change_rows(change: Callable[[list[Dependency]], Iterable[Dependency]]) -> Break:
    """Make the recorder report other rows."""

    def add_changed_rows(before: Dependencies | None, message: dict[str, Any]) -> Dependencies:
        rows = [Dependency(*row) for row in message["rows"]]
        return add_reported_dependencies(before, {**message, "rows": list(change(rows))})

    return lambda patch: patch.setattr(agent_sessions, "add_reported_dependencies", add_changed_rows)


def _drop_rows(*kinds: Kind) -> Break:
    return _change_rows(lambda rows: [row for row in rows if row.kind not in kinds])


def _drop_absent_files(rows: list[Dependency]) -> list[Dependency]:
    return [row for row in rows if (row.kind, row.fingerprint) != (Kind.FILE, fingerprints.ABSENT)]


def _drop_absent_probes(rows: list[Dependency]) -> list[Dependency]:
    return [row for row in rows if (row.kind, row.fingerprint) != (Kind.PROBE, fingerprints.ABSENT)]


def _keep_imported_names(keep: Callable[[str, str], bool]) -> Break:
    """Make the recorder see only some of the imported names."""

    def change(rows: list[Dependency]) -> Iterable[Dependency]:
        for row in rows:
            if row.kind != Kind.IMPORT:
                yield row
                continue
            folder, _, names = row.key.rpartition("::")
            visible_names = [name for name in names.split(",") if keep(folder, name)]
            if visible_names:
                yield Dependency(
                    row.kind, f"{folder}::{','.join(visible_names)}", fingerprints.of_import(folder, visible_names)
                )

    return _change_rows(change)


def _is_imported_by_statement(folder: str, name: str) -> bool:
    """Return whether some file imports the module by a statement, not by `importlib.import_module`."""
    root = Path(folder)
    while not (root / "workbench.toml").exists():
        if root == root.parent:
            return True  # outside the project
        root = root.parent
    statement = re.compile(rf"^\s*(?:from|import) .*\b{re.escape(name)}\b", re.MULTILINE)
    return any(statement.search(path.read_text("utf-8", "replace")) for path in root.rglob("*.py"))


def _is_not_a_library(_folder: str, name: str) -> bool:
    return name not in sys.stdlib_module_names


def _count_docstrings_as_bodies(patch: pytest.MonkeyPatch) -> None:
    """Count docstrings as part of the body of a function, as some test runners do."""
    original = Snapshot._answer

    def add_docstring(kind: str, key: str, fingerprint: str) -> str:
        path, _, name = key.rpartition("::") if kind in (Kind.BLOCK, Kind.BRANCH, Kind.NAME) else (key, "", "")
        try:
            tree = ast.parse(Path(path).read_bytes())
        except (OSError, SyntaxError, ValueError):
            return fingerprint
        docstrings = dict(_find_docstrings(tree, ""))
        if kind in (Kind.BLOCK, Kind.BRANCH):
            return fingerprint + str(docstrings.get(name))
        for node in _list_functions(tree):
            if ast.get_docstring(node) is not None:
                node.body[0] = ast.Pass()
        return snapshot._find_fingerprint(read_blocks(ast.unparse(tree).encode(), path), kind, name)

    def answer(self: Snapshot, question: Question) -> str:
        found = original(self, question)
        return add_docstring(question.kind, question.key, found) if question.kind in snapshot.SOURCE_KINDS else found

    def change(rows: list[Dependency]) -> Iterable[Dependency]:
        for kind, key, fingerprint in rows:
            yield Dependency(
                kind, key, add_docstring(kind, key, fingerprint) if kind in snapshot.SOURCE_KINDS else fingerprint
            )

    _change_rows(change)(patch)
    patch.setattr(Snapshot, "_answer", answer)


def _list_functions(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def _find_docstrings(node: ast.AST, prefix: str) -> Iterable[tuple[str, str | None]]:
    for child in ast.iter_child_nodes(node):
        inner = prefix
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + child.name, ast.get_docstring(child)
            inner = f"{prefix}{child.name}.<locals>."
        elif isinstance(child, ast.ClassDef):
            inner = f"{prefix}{child.name}."
        yield from _find_docstrings(child, inner)


def _cache_first_answer(kinds: Iterable[Kind]) -> Break:
    """Cache the first answer to questions of these kinds."""
    cached_kinds = frozenset(kinds)

    def break_it(patch: pytest.MonkeyPatch) -> None:
        original, known = Snapshot._answer, dict[Question, str]()

        def answer(self: Snapshot, question: Question) -> str:
            if question.kind not in cached_kinds:
                return original(self, question)
            return known.setdefault(question, original(self, question))

        patch.setattr(Snapshot, "_answer", answer)

    return break_it


def _cache_env_file(patch: pytest.MonkeyPatch) -> None:
    """Read each variable of `.env` only once."""
    original, known = Snapshot._fingerprint_variable, dict[tuple[str, str], str]()

    def variable(self: Snapshot, kind: str, key: str, around: Surroundings) -> str:
        return known.setdefault((kind, key), original(self, kind, key, around))

    patch.setattr(Snapshot, "_fingerprint_variable", variable)


def _use_coarse_stat_cache(patch: pytest.MonkeyPatch) -> None:
    """Treat files of the same size and the same full second of modification as unchanged."""
    original, known = Snapshot.fingerprint_file, dict[tuple[str, int, int], str]()

    def file(self: Snapshot, path: str) -> str:
        try:
            found = Path(path).stat()
        except OSError:
            return original(self, path)
        return known.setdefault((path, int(found.st_mtime), found.st_size), original(self, path))

    patch.setattr(Snapshot, "fingerprint_file", file)


def _treat_as_unchanged(is_ignored: Callable[[Dependency], bool]) -> Break:
    """Make the selection treat some rows as unchanged."""

    def break_it(patch: pytest.MonkeyPatch) -> None:
        original = Selector._is_unchanged

        def compare(self: Selector, row: Dependency, around: Surroundings) -> bool:
            return is_ignored(row) or original(self, row, around)

        patch.setattr(Selector, "_is_unchanged", compare)

    return break_it


def _is_any_agent_state(self: LeftFiles, path: str, *, left: str, now: str, since: float) -> bool:
    del left, since
    work = self._work.get(path)
    return work is not None and now in work.left_at


VARIANTS = (
    Variant("no blocks", _drop_rows(Kind.BLOCK), likely=("body",)),
    Variant("no branches", _drop_rows(Kind.BRANCH), ("branches", "guarded"), ("branch", "branch_statement")),
    Variant("no modules", _drop_rows(Kind.MODULE, Kind.REST, Kind.NAME), ("constant", "documentation"), first_seed=1),
    Variant("no names", _drop_rows(Kind.NAME), ("constant", "class_attribute"), ("constant", "class_attribute")),
    Variant("nothing beside names", _drop_rows(Kind.REST), likely=("patched_from_outside", "decorator")),
    Variant(
        "no look at all names", _drop_rows(Kind.MODULE), ("documentation", "all_names"), ("docstring",), first_seed=2
    ),
    Variant("docstrings in bodies", _count_docstrings_as_bodies, ("documentation", "all_names"), ("docstring",), 2),
    Variant("no imports", _drop_rows(Kind.IMPORT), ("optional", "optional_late", "dynamic")),
    Variant(
        "import_module unseen",
        _keep_imported_names(_is_imported_by_statement),
        ("dynamic", "plugins"),
        ("module_satisfies_import",),
        first_seed=3,
    ),
    Variant("shadowed libraries unseen", _keep_imported_names(_is_not_a_library), ("library",), ("library_shadowed",)),
    Variant("no probes", _drop_rows(Kind.PROBE), ("probe", "probe_kinds", "early_probe")),
    Variant("absent probes unseen", _change_rows(_drop_absent_probes), ("probe", "probe_kinds", "early_probe")),
    Variant("no failed opens", _change_rows(_drop_absent_files), ("file_or_default", "configuration")),
    Variant("no folders", _drop_rows(Kind.FOLDER), ("listing", "listing_read", "listing_scan")),
    Variant("no files", _drop_rows(Kind.FILE), ("json_load", "text"), first_seed=9),
    Variant("no variables", _drop_rows(Kind.VARIABLE), ("variable", "variable_get")),
    Variant("no listed variables", _drop_rows(Kind.VARIABLES), ("variable_all",), first_seed=3),
    Variant(".env unseen", _cache_env_file, ("variable", "variable_get")),
    Variant("coarse stat cache", _use_coarse_stat_cache, likely=("equal_length",)),
    Variant("only modules", _treat_as_unchanged(lambda row: row.kind not in (Kind.MODULE, Kind.REST, Kind.NAME))),
    Variant(
        "no files that agents write",
        lambda patch: patch.setattr(Selector, "_is_agent_state_current", lambda *_: True),
        ("journal",),
        ("journal_begun_anew",),
        first_seed=1,
    ),
    Variant(
        "whatever agents ever left",
        lambda patch: patch.setattr(LeftFiles, "is_agent_change", _is_any_agent_state),
        ("journal",),
        ("journal_begun_anew", "journal_brought_back"),
        first_seed=1,
    ),
    Variant(
        "whatever agents made of what others put there",
        lambda patch: patch.setattr(_FileStates, "is_connected", lambda *_: True),
        ("journal",),
        ("journal_begun_anew", "journal_brought_back"),
        first_seed=1,
    ),
    Variant("blocks looked at once", _cache_first_answer([Kind.BLOCK]), likely=("body",)),
)
