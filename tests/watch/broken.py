"""Watch modes that are broken on purpose, each in one way: what the proof does not notice it does not prove."""

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
    """One way to be broken. To show it soon packages have tools made from `recipes`, and edits are `likely` ones."""

    name: str
    break_it: Break
    recipes: tuple[str, ...] = ()
    likely: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name


def _told(change: Callable[[list[Dependency]], Iterable[Dependency]]) -> Break:
    """A recorder that tells other rows."""

    def tell(before: Dependencies | None, message: dict[str, Any]) -> Dependencies:
        told = [Dependency(*row) for row in message["rows"]]
        return add_reported_dependencies(before, {**message, "rows": list(change(told))})

    return lambda patch: patch.setattr(agent_sessions, "add_reported_dependencies", tell)


def _without(*kinds: Kind) -> Break:
    return _told(lambda rows: [row for row in rows if row.kind not in kinds])


def _absent_files_unseen(rows: list[Dependency]) -> list[Dependency]:
    return [row for row in rows if (row.kind, row.fingerprint) != (Kind.FILE, fingerprints.ABSENT)]


def _absent_probes_unseen(rows: list[Dependency]) -> list[Dependency]:
    return [row for row in rows if (row.kind, row.fingerprint) != (Kind.PROBE, fingerprints.ABSENT)]


def _names_kept(keep: Callable[[str, str], bool]) -> Break:
    """A recorder that sees only some of the names that are imported."""

    def change(rows: list[Dependency]) -> Iterable[Dependency]:
        for row in rows:
            if row.kind != Kind.IMPORT:
                yield row
                continue
            folder, _, names = row.key.rpartition("::")
            kept = [name for name in names.split(",") if keep(folder, name)]
            if kept:
                yield Dependency(row.kind, f"{folder}::{','.join(kept)}", fingerprints.of_import(folder, kept))

    return _told(change)


def _is_imported_by_statement(folder: str, name: str) -> bool:
    """Whether a module is named in an `import` of some file: what `importlib.import_module` is given is not."""
    root = Path(folder)
    while not (root / "workbench.toml").exists():
        if root == root.parent:
            return True  # not of the project
        root = root.parent
    statement = re.compile(rf"^\s*(?:from|import) .*\b{re.escape(name)}\b", re.MULTILINE)
    return any(statement.search(path.read_text("utf-8", "replace")) for path in root.rglob("*.py"))


def _is_no_library(_folder: str, name: str) -> bool:
    return name not in sys.stdlib_module_names


def _with_docstrings_in_bodies(patch: pytest.MonkeyPatch) -> None:
    """Docstrings counted to the body of a function, as test runners may."""
    right = Snapshot._answer

    def changed(kind: str, key: str, fingerprint: str) -> str:
        path, _, name = key.rpartition("::") if kind in (Kind.BLOCK, Kind.NAME) else (key, "", "")
        try:
            tree = ast.parse(Path(path).read_bytes())
        except (OSError, SyntaxError, ValueError):
            return fingerprint
        docstrings = dict(_docstrings(tree, ""))
        if kind == Kind.BLOCK:
            return fingerprint + str(docstrings.get(name))
        for node in _functions(tree):
            if ast.get_docstring(node) is not None:
                node.body[0] = ast.Pass()
        return snapshot._find_fingerprint(read_blocks(ast.unparse(tree).encode(), path), kind, name)

    def answer(self: Snapshot, question: Question) -> str:
        found = right(self, question)
        return changed(question.kind, question.key, found) if question.kind in snapshot.SOURCE_KINDS else found

    def change(rows: list[Dependency]) -> Iterable[Dependency]:
        for kind, key, fingerprint in rows:
            yield Dependency(
                kind, key, changed(kind, key, fingerprint) if kind in snapshot.SOURCE_KINDS else fingerprint
            )

    _told(change)(patch)
    patch.setattr(Snapshot, "_answer", answer)


def _functions(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def _docstrings(node: ast.AST, prefix: str) -> Iterable[tuple[str, str | None]]:
    for child in ast.iter_child_nodes(node):
        inner = prefix
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + child.name, ast.get_docstring(child)
            inner = f"{prefix}{child.name}.<locals>."
        elif isinstance(child, ast.ClassDef):
            inner = f"{prefix}{child.name}."
        yield from _docstrings(child, inner)


def _first_answer_counts(kinds: Iterable[Kind]) -> Break:
    """A state that looks at some things only once."""
    wanted = frozenset(kinds)

    def break_it(patch: pytest.MonkeyPatch) -> None:
        right, known = Snapshot._answer, dict[Question, str]()

        def answer(self: Snapshot, question: Question) -> str:
            if question.kind not in wanted:
                return right(self, question)
            return known.setdefault(question, right(self, question))

        patch.setattr(Snapshot, "_answer", answer)

    return break_it


def _env_file_unseen(patch: pytest.MonkeyPatch) -> None:
    """Variables come from `.env` only when they are first looked at."""
    right, known = Snapshot._fingerprint_variable, dict[tuple[str, str], str]()

    def variable(self: Snapshot, kind: str, key: str, around: Surroundings) -> str:
        return known.setdefault((kind, key), right(self, kind, key, around))

    patch.setattr(Snapshot, "_fingerprint_variable", variable)


def _coarse_stat_cache(patch: pytest.MonkeyPatch) -> None:
    """Files of the same size, changed in the same second, are taken for the same."""
    right, known = Snapshot.fingerprint_file, dict[tuple[str, int, int], str]()

    def file(self: Snapshot, path: str) -> str:
        try:
            found = Path(path).stat()
        except OSError:
            return right(self, path)
        return known.setdefault((path, int(found.st_mtime), found.st_size), right(self, path))

    patch.setattr(Snapshot, "fingerprint_file", file)


def _holding(holds: Callable[[Dependency], bool]) -> Break:
    """A selection that takes some rows for what they were."""

    def break_it(patch: pytest.MonkeyPatch) -> None:
        right = Selector._is_unchanged

        def compare(self: Selector, row: Dependency, around: Surroundings) -> bool:
            return holds(row) or right(self, row, around)

        patch.setattr(Selector, "_is_unchanged", compare)

    return break_it


def _was_ever_left(self: LeftFiles, path: str, *, left: str, now: str, since: float) -> bool:
    del left, since
    work = self._work.get(path)
    return work is not None and now in work.told


VARIANTS = (
    Variant("no blocks", _without(Kind.BLOCK), likely=("body",)),
    Variant("no modules", _without(Kind.MODULE, Kind.REST, Kind.NAME), ("constant", "documentation")),
    Variant("no names", _without(Kind.NAME), ("constant", "class_attribute"), ("constant", "class_attribute")),
    Variant("nothing beside names", _without(Kind.REST), likely=("patched_from_outside", "decorator")),
    Variant("no look at all names", _without(Kind.MODULE), ("documentation", "all_names"), ("docstring",)),
    Variant("docstrings in bodies", _with_docstrings_in_bodies, ("documentation", "all_names"), ("docstring",)),
    Variant("no imports", _without(Kind.IMPORT), ("optional", "optional_late", "dynamic")),
    Variant(
        "import_module unseen",
        _names_kept(_is_imported_by_statement),
        ("dynamic", "plugins"),
        ("module_satisfies_import",),
    ),
    Variant("shadowed libraries unseen", _names_kept(_is_no_library), ("library",), ("library_shadowed",)),
    Variant("no probes", _without(Kind.PROBE), ("probe", "probe_kinds", "early_probe")),
    Variant("absent probes unseen", _told(_absent_probes_unseen), ("probe", "probe_kinds", "early_probe")),
    Variant("no failed opens", _told(_absent_files_unseen), ("file_or_default", "configuration")),
    Variant("no folders", _without(Kind.FOLDER), ("listing", "listing_read", "listing_scan")),
    Variant("no files", _without(Kind.FILE), ("json_load", "text")),
    Variant("no variables", _without(Kind.VARIABLE), ("variable", "variable_get")),
    Variant("no listed variables", _without(Kind.VARIABLES), ("variable_all",)),
    Variant(".env unseen", _env_file_unseen, ("variable", "variable_get")),
    Variant("coarse stat cache", _coarse_stat_cache, likely=("equal_length",)),
    Variant("only modules", _holding(lambda row: row.kind not in (Kind.MODULE, Kind.REST, Kind.NAME))),
    Variant(
        "no files that agents write",
        lambda patch: patch.setattr(Selector, "_is_agent_state_current", lambda *_: True),
        ("journal",),
        ("journal_begun_anew",),
    ),
    Variant(
        "whatever agents ever left",
        lambda patch: patch.setattr(LeftFiles, "is_agent_change", _was_ever_left),
        ("journal",),
        ("journal_begun_anew", "journal_brought_back"),
    ),
    Variant(
        "whatever agents made of what others put there",
        lambda patch: patch.setattr(_FileStates, "is_connected", lambda *_: True),
        ("journal",),
        ("journal_begun_anew", "journal_brought_back"),
    ),
    Variant("blocks looked at once", _first_answer_counts([Kind.BLOCK]), likely=("body",)),
)
