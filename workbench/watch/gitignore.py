"""Files and folders that are not watched."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.model.patterns import MAX_FOLDER_WILDCARDS, remove_backtracking

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


# Exclusion by name, by content of a folder, and by `.gitignore` files.

_FOLDERS = {
    # version control
    *(".git", ".hg", ".svn", ".bzr", "_darcs", ".jj", ".sl", "CVS"),
    # our own files, and those of ADK
    *(".workbench", ".adk"),
    # caches
    *("__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".cache", ".ipynb_checkpoints"),
    *(".pytype", ".pyre", ".tox", ".nox", ".parcel-cache", ".turbo", ".gradle", ".dart_tool", ".terraform", "htmlcov"),
    # environments and installed packages
    *(".venv", ".direnv", ".pixi", ".conda", "__pypackages__", "site-packages", "node_modules", "bower_components"),
    # build output
    *(".eggs", ".next", ".nuxt", ".svelte-kit", ".output"),
    # editors and desktops
    *(".idea", ".vs", ".vscode", ".fleet", ".history", ".Trash", "$RECYCLE.BIN"),
}

# Build output only if the build file is in the same folder: an agent's package may be called `target`.
_PYTHON = frozenset({"pyproject.toml", "setup.py", "setup.cfg"})
_OUTPUTS = {
    "build": _PYTHON | {"package.json", "build.gradle", "build.gradle.kts", "CMakeLists.txt"},
    "dist": _PYTHON | {"package.json"},
    "target": frozenset({"Cargo.toml", "pom.xml", "build.sbt"}),
    "_build": frozenset({"conf.py", "Makefile"}),
    "site": frozenset({"mkdocs.yml"}),
}

# Files that mark their folder as an environment or a cache (bford.info/cachedir).
_GENERATED_MARKS = frozenset({"pyvenv.cfg", "conda-meta", "CACHEDIR.TAG"})

# Files that decide about neighbours, parents or children.
MARKERS = frozenset({".gitignore", ".git"}).union(_GENERATED_MARKS, *_OUTPUTS.values())

_FILES = re.compile(
    r"""
      .*~ | \#.*\# | \.\#.* | .*\.sw[a-z] | 4913 | \..*\.un~ | .*\.kate-swp      # Emacs, Vim, Kate
    | .*___jb_(?:tmp|old|bak)___ | \.goutputstream-.* | \.~lock\..*\# | ~\$.*    # JetBrains, GNOME, office programs
    | .*\.(?:tmp|temp|bak|crdownload|part) | sed[A-Za-z0-9]{6}                   # temporary and backup files
    | \.nfs[0-9a-f]{16,} | \.fuse_hidden[0-9a-f]+ | \.smbdelete.*                # deleted, but still open somewhere
    | .*\.py[co] | \.coverage(?:\..*)? | \.DS_Store | Thumbs\.db | desktop\.ini
    """,
    re.VERBOSE,
)
# Most `.gitignore` files exclude these, but nearly every agent reads them.
_ALWAYS_WATCHED = re.compile(r"\.env(?:\..*)?|.*\.env|workbench\.toml")


def is_environment_or_cache(names: Collection[str]) -> bool:
    """Return True if the names in a folder mark it as a virtual environment or a cache."""
    return not _GENERATED_MARKS.isdisjoint(names)


def is_excluded_folder(name: str, beside: Collection[str]) -> bool:
    """Return True if a folder is excluded by its name, or as build output by the names `beside` it."""
    if name in _FOLDERS or name.endswith((".egg-info", ".dist-info")):
        return True
    return name in _OUTPUTS and not _OUTPUTS[name].isdisjoint(beside)


def is_excluded_file(name: str) -> bool:
    """Return True if a file is excluded by its name: temporary files of editors and systems."""
    return _FILES.fullmatch(name) is not None


def is_always_watched(name: str) -> bool:
    """Return True if a file is watched even if a `.gitignore` file excludes it."""
    return _ALWAYS_WATCHED.fullmatch(name) is not None


class Rules:
    """The `.gitignore` rules of a folder and its parents."""

    def __init__(self, folder: str, text: bytes, above: Rules | None) -> None:
        """Parse the rules of one file; patterns are relative to `folder`. `above` are the rules of its parents."""
        self._folder = folder
        self._text = text
        self._above = above
        self._spec = _parse(text)

    def extend(self, folder: str, text: bytes, known: Rules | None) -> Rules:
        """Return these rules with those of a file in `folder`; return `known` itself if it is equal."""
        if not text:
            return self
        if known is not None and (known._folder, known._text, known._above) == (folder, text, self):
            return known
        return Rules(folder, text, self)

    def is_equivalent(self, other: Rules | None) -> bool:
        """Return True if other rules are the same."""
        if other is None or (self._folder, self._text) != (other._folder, other._text):
            return False
        return other._above is None if self._above is None else self._above.is_equivalent(other._above)

    def is_excluded(self, path: str, *, folder: bool) -> bool:
        """Return True if a path is excluded and no parent is. The nearest file with a matching pattern decides."""
        rules: Rules | None = self
        while rules is not None:
            if rules._spec is not None:
                inner = path[len(rules._folder) :].lstrip(os.sep).replace(os.sep, "/")
                decision = rules._spec.check_file(f"{inner}/" if folder else inner).include
                if decision is not None:
                    return decision
            rules = rules._above
        return False


def _parse(text: bytes) -> GitIgnoreSpec | None:
    """Parse the patterns of a file. Skip invalid lines, as git does, and lines with too many `**`."""
    lines = [line for line in text.decode("utf-8", "surrogateescape").lstrip("\ufeff").splitlines() if line.strip()]
    if not any(not line.startswith("#") for line in lines):
        return None
    from pathspec import GitIgnoreSpec, RegexPattern

    patterns: list[Any] = []
    for line in lines:
        try:
            parsed = GitIgnoreSpec.from_lines([line]).patterns
        except ValueError:
            continue
        if line.count("**") <= MAX_FOLDER_WILDCARDS:
            patterns += parsed
    for pattern in patterns:
        if isinstance(pattern, RegexPattern) and pattern.regex is not None:
            pattern.regex = re.compile(remove_backtracking(pattern.regex.pattern))
    return GitIgnoreSpec(patterns)


# Git's lock file, and the rules above a folder.


def find_lock(work_tree: str) -> str | None:
    """Return the file that exists while git changes this work tree; None if the folder is no repository.

    In a worktree and in a submodule, `.git` is a file with the path of the git folder.
    """
    there = Path(work_tree, ".git")
    try:
        if not there.is_dir():
            kind, _, place = there.read_text(errors="surrogateescape").partition(":")
            if kind != "gitdir":
                return None
            there = Path(work_tree, place.strip())
    except OSError:
        return None
    return os.fspath(there / "index.lock")


def find_work_tree(folder: str) -> str | None:
    """Return the nearest folder, this one or a parent, that contains `.git`."""
    path = Path(folder)
    for candidate in (path, *path.parents):
        if (candidate / ".git").exists():
            return os.fspath(candidate)
    return None


def read_parent_rules(folder: str, top: str | None) -> tuple[Rules, list[str]]:
    """Return the rules that apply to a folder from its parents, and the files of these rules, which may not exist.

    A folder that the rules exclude was requested by name: then they do not apply.
    """
    none = Rules(folder, b"", None)
    if top is None:
        return none, []
    files: list[str] = []
    exclude = Path(find_lock(top) or os.path.join(top, ".git", "index.lock")).with_name("info") / "exclude"
    rules = Rules(top, read_bytes(exclude), None)
    place = Path(top)
    for part in Path(folder).relative_to(top).parts:
        file = place / ".gitignore"
        files.append(os.fspath(file))
        rules = rules.extend(os.fspath(place), read_bytes(file), None)
        place /= part
        if rules.is_excluded(os.fspath(place), folder=True):
            return none, files
    return rules, files


def read_bytes(path: str | Path) -> bytes:
    """Return the bytes of a file; empty if it cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
